//! Foreign keys that come and go.

use super::Altering;
use super::copy::{query, visit};
use crate::execute::defining::{Defining, numbered};
use crate::execute::schema::is_temporary;
use crate::execute::view::kind_of;
use crate::name::{full_name, identifier, quoted};
use crate::plan::{ForeignKeyClause, default_values};
use ankerdb_engine::{
    Catalog, ColumnDefinition, Error, ForeignKey, NewForeignKey, Object, OnCommit, Part, QualifiedName,
    ReferentialAction, RelationName, Result, SqlState, Subject, Table, mixed_nulls, no_parent,
};
use std::sync::Arc;

/// Adds a foreign key to a table, and tests its rows unless it is `empty`. Returns the table as it is then.
pub(in crate::execute) fn add_foreign_key(
    defining: &mut Defining,
    table: &RelationName,
    clause: &ForeignKeyClause,
    is_empty: bool,
) -> Result<Arc<Table>> {
    let catalog = defining.definitions.catalog()?;
    let mut key = clause.key.clone();
    let parent = catalog.lookup(&key.parent);
    if parent.is_some_and(|parent| matches!(kind_of(&catalog, &parent), "view" | "materialized view")) {
        let message = format!("referenced relation {} is not a table", quoted(&key.parent.to_string()));
        return Err(Error::new(SqlState::WrongObjectType, message));
    }
    let child = catalog.table(table)?;
    if let Ok(parent) = catalog.table(&key.parent)
        && is_temporary(&catalog, table) != is_temporary(&catalog, &RelationName::of(&parent))
    {
        let kind = if is_temporary(&catalog, table) { "temporary" } else { "permanent" };
        let message = format!("constraints on {kind} tables may reference only {kind} tables");
        return Err(Error::new(SqlState::InvalidTableDefinition, message));
    }
    check_computed(&child, &key)?;
    check_on_commit(&child, &key, &catalog)?;
    if !clause.is_named {
        let base = format!("{}_{}_fkey", child.name(), key.columns.join("_"));
        key.name = numbered(base, |name| catalog.has_constraint(&child, name));
    }
    let positions: Option<Vec<usize>> =
        key.columns.iter().map(|name| child.definition().position(name)).collect();
    if let Some(positions) = positions.filter(|_| sets_defaults(key.on_delete, key.on_update)) {
        key.defaults = default_values(child.definition(), &positions, catalog.schema_of(&child))?;
    }
    let key: &NewForeignKey = &key;
    let Defining { definitions, transaction, .. } = &mut *defining;
    let (child, parent) = definitions.add_foreign_key(table, key, transaction)?;
    let added = child.definition().foreign_keys.iter().find(|added| added.name == key.name);
    let added = added.ok_or_else(|| Error::internal("the constraint is not there"))?.clone();
    if !is_empty && added.is_validated {
        test_rows(defining, (&child, &added), &parent)?;
    }
    Ok(child)
}

/// A foreign key that is not there while its columns get other types.
pub(super) struct Lifted {
    child: RelationName,
    clause: ForeignKeyClause,
    comment: Option<String>,
}

/// Whether an action gives columns their defaults.
pub(super) fn sets_defaults(on_delete: ReferentialAction, on_update: ReferentialAction) -> bool {
    [on_delete, on_update].contains(&ReferentialAction::SetDefault)
}

/// A foreign key of a table as it would be declared.
fn declared(key: &ForeignKey, child: &Table, catalog: &Catalog) -> Option<ForeignKeyClause> {
    let parent = catalog.by_origin(key.parent)?;
    let mut sides = parent.definition().referenced_by.iter();
    let side = sides.find(|side| side.name == key.name && side.child == child.origin())?;
    let names = |table: &Table, columns: &[usize]| -> Vec<String> {
        columns.iter().map(|&column| table.columns()[column].name.clone()).collect()
    };
    let schema = Some(catalog.schema_of(&parent).to_owned());
    let new = NewForeignKey {
        name: key.name.clone(),
        columns: names(child, &key.columns),
        parent: QualifiedName { schema, name: parent.name().to_owned() },
        parent_columns: names(&parent, &side.columns),
        on_delete: key.on_delete,
        on_update: key.on_update,
        set_columns: names(child, &key.set_columns),
        defaults: Vec::new(),
        is_full: key.is_full,
        timing: key.timing,
        is_validated: key.is_validated,
    };
    Some(ForeignKeyClause { is_named: true, key: new })
}

/// 0A000 if each commit would leave rows of the child without their parents.
fn check_on_commit(child: &Table, key: &NewForeignKey, catalog: &Catalog) -> Result<()> {
    let Ok(parent) = catalog.table(&key.parent) else { return Ok(()) };
    let (own, other) = (child.definition().on_commit, parent.definition().on_commit);
    if other != OnCommit::DeleteRows || own == other {
        return Ok(());
    }
    let detail = format!(
        "Table {} references {}, but they do not have the same ON COMMIT setting.",
        quoted(child.name()),
        quoted(parent.name())
    );
    let message = "unsupported ON COMMIT and foreign key combination";
    Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail))
}

/// 42601 if the key would write to columns that are computed from others.
fn check_computed(child: &Table, key: &NewForeignKey) -> Result<()> {
    let is_computed =
        |column: &ColumnDefinition| column.generation.is_some() && key.columns.contains(&column.name);
    if !child.columns().iter().any(is_computed) {
        return Ok(());
    }
    let writes = |action: ReferentialAction| match action {
        ReferentialAction::NoAction | ReferentialAction::Restrict => false,
        ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => true,
    };
    let clause = match (key.on_update, key.on_delete) {
        (action, _) if writes(action) => "ON UPDATE",
        // With CASCADE the whole row goes.
        (_, action) if action != ReferentialAction::Cascade && writes(action) => "ON DELETE",
        _ => return Ok(()),
    };
    let message = format!("invalid {clause} action for foreign key constraint containing generated column");
    Err(Error::new(SqlState::SyntaxError, message))
}

/// 23503 if a row refers to one that is not there.
fn test_rows(
    defining: &mut Defining,
    (child, key): (&Arc<Table>, &ForeignKey),
    parent: &Arc<Table>,
) -> Result<()> {
    let side = parent.definition().referenced_by.iter();
    let mut side = side.filter(|side| side.child == child.origin() && side.name == key.name);
    let side = side.next().ok_or_else(|| Error::internal("a foreign key has two sides"))?;
    let name = |table: &Table, column: usize| identifier(&table.columns()[column].name).to_string();
    let own: Vec<String> = key.columns.iter().map(|&column| format!("c.{}", name(child, column))).collect();
    let theirs: Vec<String> =
        side.columns.iter().map(|&column| format!("p.{}", name(parent, column))).collect();
    let equal: Vec<String> =
        own.iter().zip(&theirs).map(|(own, theirs)| format!("{own} = {theirs}")).collect();
    let are =
        |what: &str| own.iter().map(|column| format!("{column} IS {what}")).collect::<Vec<_>>().join(" AND ");
    let (null, there) = (are("NULL"), are("NOT NULL"));
    let catalog = defining.definitions.catalog()?;
    let full = |table: &Table| full_name(catalog.schema_of(table), table.name());
    let (columns, from) = (own.join(", "), format!("{} AS c", full(child)));
    let text = format!(
        "SELECT {columns} FROM {from} LEFT JOIN {} AS p ON {} WHERE {there} AND {} IS NULL LIMIT 1",
        full(parent),
        equal.join(" AND "),
        theirs[0]
    );
    let orphans = query(&text, defining)?;
    visit(&orphans, defining, |_, row| Err(no_parent(child, key, parent, row)))?;
    if key.is_full && own.len() > 1 {
        let text = format!("SELECT 1 FROM {from} WHERE NOT ({null}) AND NOT ({there}) LIMIT 1");
        let mixed = query(&text, defining)?;
        visit(&mixed, defining, |_, _| Err(mixed_nulls(child, key)))?;
    }
    Ok(())
}

impl Altering<'_, '_> {
    pub(super) fn add_foreign_key(&mut self, clause: &ForeignKeyClause) -> Result<()> {
        self.rewrite()?;
        let name = RelationName::of(&self.table);
        self.table = add_foreign_key(self.defining, &name, clause, false)?;
        Ok(())
    }

    /// Tests the rows that were there before a foreign key; whether there is one of this name.
    pub(super) fn validate_foreign_key(&mut self, name: &str) -> Result<bool> {
        let mut definition = self.definition()?;
        let Some(key) = definition.foreign_keys.iter_mut().find(|key| key.name == name) else {
            return Ok(false);
        };
        if std::mem::replace(&mut key.is_validated, true) {
            return Ok(true);
        }
        let key = key.clone();
        let parent = self.catalog()?.by_origin(key.parent);
        let parent = parent.ok_or_else(|| Error::internal("a foreign key has two sides"))?;
        self.close()?;
        self.defining.definitions.close(&parent, self.defining.transaction)?;
        test_rows(self.defining, (&self.table.clone(), &key), &parent)?;
        self.redefine(definition)?;
        Ok(true)
    }

    /// Whether there was one of this name.
    pub(super) fn drop_foreign_key(&mut self, name: &str) -> Result<bool> {
        self.rewrite()?;
        let Defining { definitions, transaction, .. } = &mut *self.defining;
        if !definitions.drop_foreign_key(&self.table, name, Some(transaction))? {
            return Ok(false);
        }
        self.find_again()?;
        Ok(true)
    }

    /// Whether there was one of this name.
    pub(super) fn rename_foreign_key(&mut self, old: &str, new: &str) -> Result<bool> {
        if !self.table.definition().foreign_keys.iter().any(|key| key.name == old) {
            return Ok(false);
        }
        let Defining { definitions, transaction, .. } = &mut *self.defining;
        definitions.rename_foreign_key(&self.table, (old, new), transaction)?;
        self.find_again()?;
        Ok(true)
    }

    /// Takes away the foreign keys over a column whose type is to change, those of other tables to it, too. They are added again when the
    /// rows have the new type, which tests them.
    pub(super) fn lift_foreign_keys(&mut self, column: &str) -> Result<()> {
        loop {
            self.rewrite()?;
            let catalog = self.catalog()?;
            let Some(position) = self.table.definition().position(column) else { return Ok(()) };
            let mut own = self.table.definition().foreign_keys.iter();
            let own =
                own.find(|key| key.columns.contains(&position)).map(|key| (self.table.clone(), key.clone()));
            let other = || {
                let mut sides = self.table.definition().referenced_by.iter();
                let side = sides.find(|side| side.columns.contains(&position))?;
                let child = catalog.by_origin(side.child)?;
                let key = child.definition().foreign_keys.iter().find(|key| key.name == side.name)?.clone();
                Some((child, key))
            };
            let Some((child, key)) = own.or_else(other) else { return Ok(()) };
            let clause = declared(&key, &child, &catalog);
            let clause = clause.ok_or_else(|| Error::internal("a foreign key has two sides"))?;
            let subject = Subject::new(Object::Table(child.origin()), Part::Constraint(key.name.clone()));
            let comment = catalog.comment(&subject).map(str::to_owned);
            self.lifted.push(Lifted { child: RelationName::of(&child), clause, comment });
            let Defining { definitions, transaction, .. } = &mut *self.defining;
            transaction.check_none_deferred(&child, "ALTER TABLE")?;
            definitions.drop_foreign_key(&child, &key.name, Some(transaction))?;
            self.find_again()?;
        }
    }

    /// Adds the foreign keys again that were taken away.
    pub(super) fn restore_foreign_keys(&mut self) -> Result<()> {
        for Lifted { child, clause, comment } in std::mem::take(&mut self.lifted) {
            let child = add_foreign_key(self.defining, &child, &clause, false)?;
            if comment.is_some() {
                let part = Part::Constraint(clause.key.name.clone());
                let subject = Subject::new(Object::Table(child.origin()), part);
                self.defining.definitions.set_comment(subject, comment.as_deref())?;
            }
            self.find_again()?;
        }
        Ok(())
    }

    /// The table after a change that was not made here.
    pub(super) fn find_again(&mut self) -> Result<()> {
        self.table = self.catalog()?.table(&RelationName::of(&self.table))?;
        Ok(())
    }

    /// Foreign keys of the table over a column go before it does; others' foreign keys to it go with CASCADE.
    pub(super) fn free_column(&mut self, name: &str, cascade: bool) -> Result<()> {
        let is_over = |columns: &[usize], table: &Table| {
            columns.iter().any(|&column| table.columns()[column].name == name)
        };
        let keys = self.table.definition().foreign_keys.iter();
        let keys: Vec<String> =
            keys.filter(|key| is_over(&key.columns, &self.table)).map(|key| key.name.clone()).collect();
        for key in keys {
            self.drop_foreign_key(&key)?;
        }
        let sides = self.table.definition().referenced_by.iter();
        let columns: Vec<Vec<usize>> = sides
            .filter(|side| is_over(&side.columns, &self.table))
            .map(|side| side.columns.clone())
            .collect();
        let what = format!("column {name} of table {}", self.table.name());
        columns.iter().try_for_each(|columns| self.free_key(columns, &what, cascade))
    }

    /// That no foreign key refers to these columns, or none any more with CASCADE. `what` is to go.
    pub(super) fn free_key(&mut self, columns: &[usize], what: &str, cascade: bool) -> Result<()> {
        self.rewrite()?;
        loop {
            let catalog = self.catalog()?;
            let is_same =
                |side: &[usize]| side.len() == columns.len() && side.iter().all(|at| columns.contains(at));
            let sides = self.table.definition().referenced_by.iter();
            let mut sides = sides.filter(|side| is_same(&side.columns));
            let Some(side) = sides.next() else { return Ok(()) };
            let child = catalog.by_origin(side.child);
            let Some(child) = child else { return Ok(()) };
            let name = side.name.clone();
            if !cascade {
                let message = format!("cannot drop {what} because other objects depend on it");
                let detail = format!("constraint {name} on table {} depends on {what}", child.name());
                let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
                let state = SqlState::DependentObjectsStillExist;
                return Err(Error::new(state, message).with_detail(detail).with_hint(hint));
            }
            let Defining { definitions, transaction, .. } = &mut *self.defining;
            definitions.drop_foreign_key(&child, &name, Some(transaction))?;
            self.find_again()?;
        }
    }
}
