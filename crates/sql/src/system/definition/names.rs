//! What names in a query stand for: relations with their columns, by the names that the query has for them and those that are shown.

use ankerdb_engine::DataType;

/// A column of a relation.
#[derive(Clone, Debug)]
pub(super) struct ShownColumn {
    /// What the query calls it.
    pub(super) name: String,
    /// What it is shown as.
    pub(super) shown: String,
    pub(super) data_type: Option<DataType>,
}

/// A relation of FROM.
#[derive(Clone, Debug)]
pub(super) struct ShownRelation {
    pub(super) schema: Option<String>,
    /// What the query calls it.
    pub(super) name: String,
    /// What it is shown as: another name, where one around the query has that.
    pub(super) shown: String,
    /// `None` where they cannot be told.
    pub(super) columns: Option<Vec<ShownColumn>>,
    /// Those that USING merges with columns of a relation before: their name alone does not mean them.
    pub(super) merged: Vec<String>,
}

/// The names that a query, or a part of one, sees.
#[derive(Default, Debug)]
pub(super) struct ShownNames<'a> {
    pub(super) outer: Option<&'a ShownNames<'a>>,
    pub(super) relations: Vec<ShownRelation>,
    /// Columns that FULL JOIN merges, which are of no relation.
    pub(super) merged: Vec<ShownColumn>,
    /// Common table expressions.
    pub(super) named: Vec<(String, Option<Vec<ShownColumn>>)>,
    /// Whether columns are shown without their relations.
    pub(super) is_bare: bool,
}

/// What a column is shown as, and its type.
#[derive(Clone, Debug)]
pub(super) struct FoundColumn {
    pub(super) text: String,
    pub(super) name: String,
    pub(super) data_type: Option<DataType>,
}

impl ShownColumn {
    pub(super) fn new(name: &str, data_type: Option<DataType>) -> ShownColumn {
        ShownColumn { name: name.to_owned(), shown: name.to_owned(), data_type }
    }
}

impl<'a> ShownNames<'a> {
    pub(super) fn within(outer: &'a ShownNames<'a>) -> ShownNames<'a> {
        ShownNames { outer: Some(outer), ..ShownNames::default() }
    }

    fn levels(&self) -> impl Iterator<Item = &ShownNames<'a>> {
        std::iter::successors(Some(self), |names| names.outer)
    }

    /// The columns of the common table expression of this name; `None` if there is none.
    pub(super) fn common(&self, name: &str) -> Option<Option<Vec<ShownColumn>>> {
        let mut all = self.levels().flat_map(|names| names.named.iter().rev());
        all.find(|(known, _)| known == name).map(|(_, columns)| columns.clone())
    }

    /// The name, or one with a number behind it that no relation here or around has.
    pub(super) fn unused(&self, name: &str) -> String {
        let is_used = |name: &str| {
            self.levels().any(|names| names.relations.iter().any(|relation| relation.shown == name))
        };
        if !is_used(name) {
            return name.to_owned();
        }
        let numbered = (1..).map(|number: usize| format!("{name}_{number}"));
        numbered.into_iter().find(|name| !is_used(name)).expect("there are more numbers than relations")
    }

    /// The column that a name alone means.
    pub(super) fn column(&self, name: &str) -> Option<FoundColumn> {
        self.levels().find_map(|names| names.own_column(name))
    }

    fn own_column(&self, name: &str) -> Option<FoundColumn> {
        if let Some(column) = self.merged.iter().find(|column| column.name == name) {
            let text = super::quote_ident(&column.shown);
            return Some(FoundColumn { text, name: column.shown.clone(), data_type: column.data_type });
        }
        let has_it = |relation: &&ShownRelation| {
            !relation.merged.iter().any(|merged| merged == name)
                && relation.columns.as_ref().is_some_and(|all| all.iter().any(|column| column.name == name))
        };
        if let Some(relation) = self.relations.iter().find(has_it) {
            return relation.find(name, self.is_bare);
        }
        let mut untold = self.relations.iter().filter(|relation| relation.columns.is_none());
        match (untold.next(), untold.next()) {
            (Some(relation), None) => {
                let text = format!("{}.{}", super::quote_ident(&relation.shown), super::quote_ident(name));
                Some(FoundColumn { text, name: name.to_owned(), data_type: None })
            }
            _ => None,
        }
    }

    /// The column of a relation.
    pub(super) fn of_relation(
        &self,
        schema: Option<&str>,
        relation: &str,
        name: &str,
    ) -> Option<FoundColumn> {
        let found = self.relation(schema, relation)?;
        found.0.find(name, found.1)
    }

    /// The relation of this name, and whether its columns are shown without it.
    pub(super) fn relation(&self, schema: Option<&str>, name: &str) -> Option<(&ShownRelation, bool)> {
        let is_it = |relation: &&ShownRelation| {
            relation.name == name && (schema.is_none() || relation.schema.as_deref() == schema)
        };
        self.levels().find_map(|names| Some((names.relations.iter().find(is_it)?, names.is_bare)))
    }
}

impl ShownRelation {
    fn find(&self, name: &str, is_bare: bool) -> Option<FoundColumn> {
        let known = match &self.columns {
            Some(columns) => columns.iter().find(|column| column.name == name)?.clone(),
            None => ShownColumn::new(name, None),
        };
        let text = match is_bare {
            true => super::quote_ident(&known.shown),
            false => format!("{}.{}", super::quote_ident(&self.shown), super::quote_ident(&known.shown)),
        };
        Some(FoundColumn { text, name: known.shown, data_type: known.data_type })
    }
}
