//! Foreign keys that come and go.

use super::Altering;
use super::copy::{query, visit};
use crate::execute::defining::{Defining, numbered};
use crate::execute::schema::is_temporary;
use crate::execute::view::kind_of;
use crate::name::{full_name, identifier, quoted};
use crate::plan::ForeignKeyClause;
use ankerdb_engine::{
    ColumnDefinition, Error, ForeignKey, NewForeignKey, ReferentialAction, RelationName, Result, SqlState,
    Table, mixed_nulls, no_parent,
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
    if !clause.is_named {
        let base = format!("{}_{}_fkey", child.name(), key.columns.join("_"));
        key.name = numbered(base, |name| catalog.has_constraint(&child, name));
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

/// 42601 if the key would write to columns that are computed from others.
fn check_computed(child: &Table, key: &NewForeignKey) -> Result<()> {
    let is_computed =
        |column: &ColumnDefinition| column.generation.is_some() && key.columns.contains(&column.name);
    if !child.columns().iter().any(is_computed) {
        return Ok(());
    }
    let writes = |action: ReferentialAction| match action {
        ReferentialAction::NoAction | ReferentialAction::Restrict => false,
        ReferentialAction::Cascade | ReferentialAction::SetNull => true,
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
