//! What the names in a FROM clause stand for, read off the query as it is written.
//!
//! Tables, views, subqueries and common table expressions have columns that are known by name, and so has a function whose columns are
//! named. Where some cannot be told, nothing is said of the whole clause.
//!
//! `USING` and `NATURAL` merge columns: `*` has them first, and once, and their name alone means the value of the merged one. That is
//! the left table's, where it has a row for every row of the result, else the right table's, and for FULL JOIN the one that is there
//! (SQL:2016, 7.10).

use super::planner::TableSources;
use super::sets;
use crate::column_name::column_name;
use crate::name::folded;
use crate::plain_query::function_call;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins,
};
use std::collections::HashSet;

/// What names of tables stand for.
pub(super) struct Scope<'a> {
    tables: &'a dyn TableSources,
    /// Columns of common table expressions, the innermost last; none where they cannot be told.
    named: Vec<(String, Option<Vec<String>>)>,
}

/// A column of FROM.
#[derive(Clone)]
pub(super) struct ScopeColumn {
    /// Its relation's name, behind that of its schema if that was written.
    relation: Vec<String>,
    pub(super) name: String,
    /// What it stands for.
    pub(super) value: Expr,
    /// Whether it is made of columns of several tables.
    pub(super) is_merged: bool,
}

/// A relation of a FROM clause.
pub(super) struct Relation {
    /// Behind that of its schema if that was written.
    pub(super) name: Vec<String>,
    /// `None` where they cannot be told.
    pub(super) columns: Option<Vec<String>>,
    /// Its number for clients, if it is a table or view.
    pub(super) number: Option<u32>,
    /// What `tableoid` is in its rows, if it is a table.
    pub(super) table: Option<u32>,
    /// Whether an outer join may have a row without one of the relation's.
    pub(super) may_lack: bool,
}

/// What wildcards over a FROM clause stand for.
#[derive(Default)]
pub(super) struct WildcardColumns {
    /// `*`: columns that USING merges come first, and once.
    pub(super) all: Vec<ScopeColumn>,
    /// `relation.*`: every column of each.
    of_relations: Vec<ScopeColumn>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(tables: &'a dyn TableSources) -> Scope<'a> {
        Scope { tables, named: Vec::new() }
    }

    /// Another one that knows as much.
    pub(super) fn over(other: &Scope<'a>) -> Scope<'a> {
        Scope { tables: other.tables, named: other.named.clone() }
    }

    /// How many common table expressions are known.
    pub(super) fn depth(&self) -> usize {
        self.named.len()
    }

    /// Forgets all but the first common table expressions.
    pub(super) fn leave(&mut self, depth: usize) {
        self.named.truncate(depth);
    }

    /// Learns the query's common table expressions.
    pub(super) fn enter(&mut self, query: &Query) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = self.columns_of_query(&cte.query);
            self.named.push((folded(&cte.alias.name), renamed(columns, Some(&cte.alias))));
        }
    }

    /// Names of the columns that a query gives.
    pub(super) fn columns_of_query(&self, query: &Query) -> Option<Vec<String>> {
        let mut inner = Scope { tables: self.tables, named: self.named.clone() };
        inner.enter(query);
        inner.columns_of_body(&query.body)
    }

    fn columns_of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.columns_of_list(select),
            SetExpr::Query(query) => self.columns_of_query(query),
            SetExpr::SetOperation { left, .. } => self.columns_of_body(left),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.len();
                Some((1..=width).map(|position| format!("column{position}")).collect())
            }
            _ => None,
        }
    }

    fn columns_of_list(&self, select: &Select) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expression) => names.push(column_name(expression)),
                SelectItem::ExprWithAlias { alias, .. } => names.push(folded(alias)),
                wildcard if is_wildcard(wildcard) => {
                    let from = self.columns_of_from(&select.from)?;
                    names.extend(wildcard_columns(wildcard, &from)?.into_iter().map(|column| column.name));
                }
                _ => return None,
            }
        }
        Some(names)
    }

    pub(super) fn columns_of_from(&self, from: &[TableWithJoins]) -> Option<WildcardColumns> {
        let mut columns = WildcardColumns::default();
        for item in from {
            let WildcardColumns { all, of_relations } = self.columns_of_joins(item)?;
            columns.all.extend(all);
            columns.of_relations.extend(of_relations);
        }
        Some(columns)
    }

    pub(super) fn columns_of_joins(&self, item: &TableWithJoins) -> Option<WildcardColumns> {
        let mut columns = self.columns_of_factor(&item.relation)?;
        for join in &item.joins {
            let WildcardColumns { all, of_relations } = self.columns_of_factor(&join.relation)?;
            columns.all = joined(columns.all, all, &join.join_operator)?;
            columns.of_relations.extend(of_relations);
        }
        Some(columns)
    }

    /// The relations of a FROM clause.
    pub(super) fn relations_of(&self, from: &[TableWithJoins]) -> Vec<Relation> {
        from.iter().flat_map(|item| self.relations_of_joins(item)).collect()
    }

    fn relations_of_joins(&self, item: &TableWithJoins) -> Vec<Relation> {
        use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
        let mut relations = self.relations_of_factor(&item.relation);
        for join in &item.joins {
            let mut joined = self.relations_of_factor(&join.relation);
            if matches!(join.join_operator, Left(_) | LeftOuter(_) | FullOuter(_)) {
                joined.iter_mut().for_each(|relation| relation.may_lack = true);
            }
            if matches!(join.join_operator, Right(_) | RightOuter(_) | FullOuter(_)) {
                relations.iter_mut().for_each(|relation| relation.may_lack = true);
            }
            relations.extend(joined);
        }
        relations
    }

    fn relations_of_factor(&self, factor: &TableFactor) -> Vec<Relation> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            return self.relations_of_joins(table_with_joins);
        }
        let columns = self.columns_of_factor(factor).map(|columns| columns.all);
        let name = columns.as_ref().and_then(|columns| columns.first());
        let name = name.map(|column| column.relation.clone()).unwrap_or_default();
        let columns = columns.map(|columns| columns.into_iter().map(|column| column.name).collect());
        let (number, table) = match factor {
            TableFactor::Table { name, args: None, .. } => {
                (self.number(name, TableSources::number), self.number(name, TableSources::table_number))
            }
            _ => (None, None),
        };
        vec![Relation { name, columns, number, table, may_lack: false }]
    }

    pub(super) fn columns_of_factor(&self, factor: &TableFactor) -> Option<WildcardColumns> {
        if let Ok(Some(derived)) = sets::derived(factor) {
            return self.columns_of_factor(&derived);
        }
        let (relation, names) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = renamed(self.columns_of_table(name), alias.as_ref())?;
                (alias.as_ref().map_or(parts(name)?, |alias| vec![folded(&alias.name)]), columns)
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                (vec![folded(&alias.name)], renamed(self.columns_of_query(subquery), Some(alias))?)
            }
            TableFactor::Table { args: Some(_), alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
                if !alias.columns.is_empty() =>
            {
                (vec![folded(&alias.name)], alias.columns.iter().map(|column| folded(&column.name)).collect())
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.columns_of_joins(table_with_joins);
            }
            _ => return None,
        };
        // Columns of one relation that share a name cannot be told apart by it.
        let mut seen = HashSet::new();
        let is_unique = names.iter().all(|name| seen.insert(name.clone()));
        let column = |name: String| ScopeColumn {
            value: qualified(&relation, &name),
            relation: relation.clone(),
            name,
            is_merged: false,
        };
        let all: Vec<ScopeColumn> = names.into_iter().map(column).collect();
        is_unique.then(|| WildcardColumns { of_relations: all.clone(), all })
    }

    /// A number of what a name stands for, if it is no common table expression.
    fn number(
        &self,
        name: &ObjectName,
        number: fn(&(dyn TableSources + 'a), Option<&str>, &str) -> Option<u32>,
    ) -> Option<u32> {
        let own = last_name(name)?;
        let is_common = name.0.len() == 1 && self.named.iter().any(|(known, _)| *known == own);
        if is_common { None } else { number(self.tables, schema_name(name).as_deref(), &own) }
    }

    pub(super) fn columns_of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
        let own = last_name(name)?;
        if name.0.len() == 1
            && let Some((_, columns)) = self.named.iter().rev().find(|(known, _)| *known == own)
        {
            return columns.clone();
        }
        let schema = schema_name(name);
        let source = self.tables.source(schema.as_deref(), &own).ok()?;
        Some(source.schema().fields().iter().map(|field| field.name().clone()).collect())
    }
}

pub(super) fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Whether some of its columns are those of two tables.
pub(super) fn merges_columns(item: &TableWithJoins) -> bool {
    let factor = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges_columns(table_with_joins),
        _ => false,
    };
    let merges = |join: &Join| {
        let constraint = constraint(&join.join_operator);
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    factor(&item.relation) || item.joins.iter().any(|join| merges(join) || factor(&join.relation))
}

/// What a join of tables goes by.
fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => Some(constraint),
        _ => None,
    }
}

/// The schema that a name is qualified with.
pub(super) fn schema_name(name: &ObjectName) -> Option<String> {
    name.0.iter().rev().nth(1)?.as_ident().map(folded)
}

fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(folded)).collect()
}

/// Whether one of the names is the other without its schema.
fn is_named(relation: &[String], name: &[String]) -> bool {
    relation.ends_with(name) || name.ends_with(relation)
}

fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}

/// The columns that a wildcard stands for; `None` if that is an error, or the item is no wildcard.
pub(super) fn wildcard_columns(item: &SelectItem, from: &WildcardColumns) -> Option<Vec<ScopeColumn>> {
    let of = match item {
        SelectItem::Wildcard(_) => return Some(from.all.clone()),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => parts(name)?,
        _ => return None,
    };
    let columns: Vec<ScopeColumn> =
        from.of_relations.iter().filter(|column| is_named(&column.relation, &of)).cloned().collect();
    (!columns.is_empty()).then_some(columns)
}

/// The columns under the names that an alias gives to the first of them.
fn renamed(columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let mut columns = columns?;
    let names = alias.into_iter().flat_map(|alias| &alias.columns);
    for (column, name) in columns.iter_mut().zip(names) {
        *column = folded(&name.name);
    }
    Some(columns)
}

/// The names that a join merges; `None` where its columns cannot be told.
pub(super) fn merged_names(
    left: &[ScopeColumn],
    right: &[ScopeColumn],
    operator: &JoinOperator,
) -> Option<Vec<String>> {
    match constraint(operator)? {
        JoinConstraint::On(_) | JoinConstraint::None => Some(Vec::new()),
        JoinConstraint::Using(names) => names.iter().map(last_name).collect(),
        JoinConstraint::Natural => {
            let is_common = |column: &&ScopeColumn| right.iter().any(|other| other.name == column.name);
            Some(left.iter().filter(is_common).map(|column| column.name.clone()).collect())
        }
    }
}

/// The only column with the name.
pub(super) fn only<'c>(columns: &'c [ScopeColumn], name: &str) -> Option<&'c ScopeColumn> {
    let mut named = columns.iter().filter(|column| column.name == name);
    named.next().filter(|_| named.next().is_none())
}

/// The columns for which `*` stands over a join.
pub(super) fn joined(
    left: Vec<ScopeColumn>,
    right: Vec<ScopeColumn>,
    operator: &JoinOperator,
) -> Option<Vec<ScopeColumn>> {
    let merged = merged_names(&left, &right, operator)?;
    let merge = |name: &String| {
        let (left, right) = (only(&left, name)?, only(&right, name)?);
        let column = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right.clone(),
            JoinOperator::FullOuter(_) => {
                let value = function_call("coalesce", vec![left.value.clone(), right.value.clone()]);
                ScopeColumn { value, relation: Vec::new(), ..left.clone() }
            }
            _ => left.clone(),
        };
        Some(ScopeColumn { is_merged: true, ..column })
    };
    let mut all = merged.iter().map(merge).collect::<Option<Vec<_>>>()?;
    all.extend(left.into_iter().chain(right).filter(|column| !merged.contains(&column.name)));
    Some(all)
}

fn qualified(relation: &[String], name: &str) -> Expr {
    let parts = relation.iter().map(String::as_str).chain([name]);
    Expr::CompoundIdentifier(parts.map(|part| Ident::with_quote('"', part)).collect())
}
