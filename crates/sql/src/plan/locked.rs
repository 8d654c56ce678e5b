//! Which tables a statement uses, and how: the locks that it takes for LOCK TABLE of others to see (`table_locks.rs`).
//!
//! They are told by the statement as it was written, with the tables that its views read: rows that are read take ACCESS SHARE, FOR UPDATE and
//! the parents of foreign keys ROW SHARE, writing ROW EXCLUSIVE, also to children that follow their parents.

use super::{Definition, PlanKind};
use crate::name::object_name;
use crate::table_locks::{Claim, Hold, Mode};
use crate::updatable::table_beneath;
use crate::visit::walk;
use ankerdb_engine::{Catalog, NameRef, ReferentialAction, Table};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Query, Statement, TableFactor, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The locks of a statement, in the order in which it names its tables; each table has the strongest one, and one only.
pub(super) fn used_tables(statement: &Statement, kind: &PlanKind, catalog: &Catalog) -> Arc<[Hold]> {
    let mut used = Used { catalog, holds: Vec::new(), reads: Mode::AccessShare };
    match (kind, statement) {
        // LOCK TABLE takes its own.
        (PlanKind::Empty | PlanKind::Utility(_) | PlanKind::Command, _) => {}
        (PlanKind::Define(definition), _) if !makes_of_query(definition) => {
            used.defined(definition, statement)
        }
        (_, Statement::Copy { source: ast::CopySource::Table { table_name, .. }, to, .. }) => match to {
            true => used.relation(table_name, Mode::AccessShare),
            false => used.written(table_name, true, false),
        },
        _ => drop(walk(statement, &mut used)),
    }
    used.holds.into()
}

/// Whether a definition only reads what it names.
fn makes_of_query(definition: &Definition) -> bool {
    matches!(
        definition,
        Definition::CreateView(_)
            | Definition::CreateTableAs { .. }
            | Definition::CreateMaterializedView(_)
            | Definition::RefreshMaterializedView(_)
    )
}

struct Used<'a> {
    catalog: &'a Catalog,
    holds: Vec<Hold>,
    /// How rows are read.
    reads: Mode,
}

impl Used<'_> {
    fn add(&mut self, table: &Table, claim: Claim) {
        let hold = Hold { table: table.origin(), claim };
        match self.holds.iter_mut().find(|known| known.table == hold.table) {
            Some(known) if known.claim.mode() < claim.mode() => *known = hold,
            Some(_) => {}
            None => self.holds.push(hold),
        }
    }

    fn relation(&mut self, name: &ObjectName, mode: Mode) {
        let Ok(name) = object_name(name) else { return };
        for table in tables_of(self.catalog, (&name).into()) {
            self.add(&table, Claim::Use(mode));
        }
    }

    /// A table whose rows come (`adds`), or go or lose their keys (`removes`), and those at the other ends of its foreign keys.
    fn written(&mut self, name: &ObjectName, adds: bool, removes: bool) {
        let Ok(name) = object_name(name) else { return };
        let beneath = || table_beneath(self.catalog.view(&name)?, self.catalog);
        let Some(table) = self.catalog.table(&name).ok().or_else(beneath) else { return };
        if self.catalog.view(&name).is_some() {
            // What the conditions of the view read.
            tables_of(self.catalog, (&name).into())
                .iter()
                .for_each(|table| self.add(table, Claim::Use(Mode::AccessShare)));
        }
        self.add(&table, Claim::Use(Mode::RowExclusive));
        if adds {
            for parent in
                table.definition().foreign_keys.iter().filter_map(|key| self.catalog.by_origin(key.parent))
            {
                self.add(&parent, Claim::Use(Mode::RowShare));
            }
        }
        let (mut open, mut seen) = (vec![table.clone()], vec![table.origin()]);
        while let Some(parent) = open.pop().filter(|_| removes) {
            for side in &parent.definition().referenced_by {
                let Some(child) = self.catalog.by_origin(side.child) else { continue };
                let follows = child.definition().foreign_keys.iter().any(|key| {
                    let action =
                        |action| !matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict);
                    key.name == side.name && (action(key.on_delete) || action(key.on_update))
                });
                self.add(&child, Claim::Use(if follows { Mode::RowExclusive } else { Mode::RowShare }));
                if follows && !seen.contains(&child.origin()) {
                    seen.push(child.origin());
                    open.push(child);
                }
            }
        }
    }

    fn written_factor(&mut self, factor: &TableFactor, adds: bool, removes: bool) {
        if let TableFactor::Table { name, .. } = factor {
            self.written(name, adds, removes);
        }
    }

    /// What a definition changes or drops, or refers to.
    fn defined(&mut self, definition: &Definition, statement: &Statement) {
        let tables: Vec<Arc<Table>> = match definition {
            Definition::DropTables { names, .. } | Definition::Truncate { names, .. } => {
                names.iter().filter_map(|name| self.catalog.table(name).ok()).collect()
            }
            Definition::DropIndexes { names, .. } => {
                names.iter().filter_map(|name| self.catalog.table_of_index(name)).collect()
            }
            Definition::AlterTable(alter) => {
                let name = object_name(&alter.name).ok();
                name.and_then(|name| self.catalog.table(&name).ok()).into_iter().collect()
            }
            Definition::CreateIndex(_) => {
                let Statement::CreateIndex(create) = statement else { return };
                let name = object_name(&create.table_name).ok();
                name.and_then(|name| self.catalog.table(&name).ok()).into_iter().collect()
            }
            Definition::CreateTable(table) => {
                let parents = table.foreign_keys.iter();
                parents.filter_map(|clause| self.catalog.table(&clause.key.parent).ok()).collect()
            }
            _ => Vec::new(),
        };
        tables.iter().for_each(|table| self.add(table, Claim::Definition));
    }
}

impl Visitor for Used<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Self::Break> {
        match statement {
            Statement::Insert(insert) => {
                if let ast::TableObject::TableName(name) = &insert.table {
                    self.written(name, true, insert.on.is_some());
                }
            }
            Statement::Update(update) => self.written_factor(&update.table.relation, true, true),
            Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(of) | ast::FromTable::WithoutKeyword(of)) = &delete.from;
                of.iter().for_each(|item| self.written_factor(&item.relation, false, true));
            }
            Statement::Merge(merge) => self.written_factor(&merge.table, true, true),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        if !query.locks.is_empty() {
            self.reads = Mode::RowShare;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Self::Break> {
        self.relation(relation, self.reads);
        ControlFlow::Continue(())
    }
}

/// The tables that a name stands for: one, or those that a view reads, through other views, too.
pub(crate) fn tables_of(catalog: &Catalog, name: NameRef<'_>) -> Vec<Arc<Table>> {
    if let Ok(table) = catalog.table(name) {
        return vec![table];
    }
    let Some(view) = catalog.view(name) else { return Vec::new() };
    let (mut open, mut seen, mut tables) = (view.names_read().collect::<Vec<_>>(), Vec::new(), Vec::new());
    while let Some(read) = open.pop() {
        if seen.contains(&read) {
            continue;
        }
        match (catalog.table(&read), catalog.view(&read)) {
            (Ok(table), _) => tables.push(table),
            (_, Some(view)) => open.extend(view.names_read()),
            _ => {}
        }
        seen.push(read);
    }
    tables
}
