//! What a statement tells its client beside its result: NOTICE and WARNING.

use super::SqlSession;
use crate::drop_expression::drops_expression;
use crate::name::{DATABASE, folded, object_name, quoted};
use crate::plan::{Commented, Definition, TypeChange};
use ankerdb_engine::{Catalog, ColumnDefinition, Error, NameRef, QualifiedName, SqlState};
use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};

/// How important a message is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Something that the client may want to know.
    Notice,
    /// Something that the client has probably not meant.
    Warning,
}

impl Severity {
    /// The word that the protocol has for it.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }

    /// The least severity that a value of `client_min_messages` lets through: `Some(None)` if nothing but errors. `None` if it
    /// is no such value.
    pub(super) fn at_least(value: &str) -> Option<Option<Severity>> {
        match value.to_lowercase().as_str() {
            "debug" | "debug1" | "debug2" | "debug3" | "debug4" | "debug5" | "log" | "notice" | "info" => {
                Some(Some(Severity::Notice))
            }
            "warning" => Some(Some(Severity::Warning)),
            "error" | "fatal" | "panic" => Some(None),
            _ => None,
        }
    }
}

/// A message beside the result.
#[derive(Clone, Debug)]
pub struct Notice {
    /// How important it is.
    pub severity: Severity,
    /// Its SQLSTATE and text, in the form of an error.
    pub message: Error,
}

impl SqlSession {
    /// What was to be told since this was last asked. Costs nothing if there is nothing.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        for warning in self.runner.activity.take_warnings() {
            self.tell(Severity::Warning, warning);
        }
        std::mem::take(&mut self.notices)
    }

    /// Says what IF EXISTS and IF NOT EXISTS are going to skip.
    pub(super) fn note_skipped(&mut self, definition: &Definition) {
        let catalog = self.runner.catalog();
        let mut skipped: Vec<(SqlState, String)> = Vec::new();
        let mut missing = |kind: &str, names: &[QualifiedName]| {
            for name in names.iter().filter(|name| !catalog.has_relation(*name)) {
                let message = match &name.schema {
                    Some(schema) if catalog.schema(schema).is_none() => no_schema(schema),
                    _ => format!("{kind} {} does not exist, skipping", quoted(&name.to_string())),
                };
                skipped.push((SqlState::SuccessfulCompletion, message));
            }
        };
        let made = |name: &QualifiedName, temporary: bool| match temporary {
            true => catalog.has_relation(NameRef::Qualified("pg_temp", &name.name)),
            false => catalog
                .schema_for(name)
                .is_ok_and(|schema| catalog.has_relation(NameRef::In(schema, &name.name))),
        };
        match definition {
            Definition::DropTables { names, if_exists: true, .. } => missing("table", names),
            Definition::DropViews { names, materialized, if_exists: true, .. } => {
                missing(if *materialized { "materialized view" } else { "view" }, names);
            }
            Definition::DropSequences { names, if_exists: true, .. } => missing("sequence", names),
            Definition::DropIndexes { names, if_exists: true, .. } => missing("index", names),
            Definition::AlterSequence { name, if_exists: true, .. } => {
                missing("relation", std::slice::from_ref(name));
            }
            Definition::DropSchemas { names, if_exists: true, .. } => {
                let gone = names.iter().filter(|name| catalog.schema(name).is_none());
                skipped.extend(gone.map(|name| (SqlState::SuccessfulCompletion, no_schema(name))));
            }
            Definition::CreateSchema { name, if_not_exists: true } if catalog.schema(name).is_some() => {
                let message = format!("schema {} already exists, skipping", quoted(name));
                skipped.push((SqlState::DuplicateSchema, message));
            }
            Definition::CreateTable(new) if new.if_not_exists && made(&new.name, new.temporary) => {
                skipped.push((SqlState::DuplicateTable, exists(&new.name.name)));
            }
            Definition::CreateTableLike(create) if create.if_not_exists => {
                let name = object_name(&create.name).ok().filter(|name| made(name, create.temporary));
                skipped.extend(name.map(|name| (SqlState::DuplicateTable, exists(&name.name))));
            }
            Definition::CreateMaterializedView(create) if create.if_not_exists => {
                let name = object_name(&create.name).ok().filter(|name| made(name, false));
                skipped.extend(name.map(|name| (SqlState::DuplicateTable, exists(&name.name))));
            }
            Definition::CreateTableAs { name, temporary, if_not_exists: true, .. }
            | Definition::CreateSequence { name, temporary, if_not_exists: true, .. }
                if made(name, *temporary) =>
            {
                skipped.push((SqlState::DuplicateTable, exists(&name.name)));
            }
            Definition::CreateIndex(index) if index.if_not_exists => {
                let table = catalog.table(&index.table);
                let schema = table.ok().map(|table| table.definition().schema);
                let name = index.name.as_ref().filter(|name| {
                    schema.is_some_and(|schema| catalog.has_relation(NameRef::In(schema, name)))
                });
                skipped.extend(name.map(|name| (SqlState::DuplicateTable, exists(name))));
            }
            Definition::Comment { on: Commented::Database(name), .. } if name != DATABASE => {
                let message = format!("database {} does not exist", quoted(name));
                self.tell(Severity::Warning, Error::new(SqlState::InvalidCatalogName, message));
            }
            Definition::AlterTable(alter) => skipped.extend(skipped_alterations(alter, &catalog)),
            _ => skipped.extend(skipped_types(definition, &catalog)),
        }
        for (state, message) in skipped {
            self.tell(Severity::Notice, Error::new(state, message));
        }
    }

    /// Tells the client something that is no error.
    pub(crate) fn tell_notices(&mut self, messages: impl IntoIterator<Item = String>) {
        for message in messages {
            self.tell(Severity::Notice, Error::new(SqlState::SuccessfulCompletion, message));
        }
    }

    pub(super) fn warn(&mut self, state: SqlState, message: &'static str) {
        self.tell(Severity::Warning, Error::new(state, message));
    }

    /// What else a statement is about to change.
    pub(super) fn tell_cascade(&mut self, what: &str, table: &str) {
        let message = format!("{what} cascades to table \"{table}\"");
        self.tell(Severity::Notice, Error::new(SqlState::SuccessfulCompletion, message));
    }

    pub(super) fn tell(&mut self, severity: Severity, message: Error) {
        let asked = self.settings.get("client_min_messages").unwrap_or_default();
        if Severity::at_least(&asked).flatten().is_some_and(|least| severity >= least) {
            self.notices.push(Notice { severity, message });
        }
    }
}

/// What a definition of types leaves out.
fn skipped_types(definition: &Definition, catalog: &Catalog) -> Vec<(SqlState, String)> {
    match definition {
        Definition::DropTypes { names, if_exists: true, .. }
        | Definition::DropDomains { names, if_exists: true, .. } => {
            let is_gone =
                |name: &&QualifiedName| catalog.user_type(*name).is_none() && catalog.domain(*name).is_none();
            let gone = names.iter().filter(is_gone);
            let messages = gone.map(|name| match &name.schema {
                Some(schema) if catalog.schema(schema).is_none() => no_schema(schema),
                _ => format!("type {} does not exist, skipping", quoted(&name.to_string())),
            });
            messages.map(|message| (SqlState::SuccessfulCompletion, message)).collect()
        }
        Definition::AlterType { name, change: TypeChange::AddLabel { label, if_not_exists: true, .. } }
            if catalog.user_type(name).is_some_and(|known| known.state.label(label).is_some()) =>
        {
            let message = format!("enum label {} already exists, skipping", quoted(label));
            vec![(SqlState::DuplicateObject, message)]
        }
        _ => Vec::new(),
    }
}

fn exists(name: &str) -> String {
    format!("relation {} already exists, skipping", quoted(name))
}

fn no_schema(name: &str) -> String {
    format!("schema {} does not exist, skipping", quoted(name))
}

/// What an ALTER TABLE leaves out, as there is nothing to be done.
fn skipped_alterations(alter: &ast::AlterTable, catalog: &Catalog) -> Vec<(SqlState, String)> {
    let Ok(name) = object_name(&alter.name) else { return Vec::new() };
    let Ok(table) = catalog.table(&name) else {
        let message = format!("relation {} does not exist, skipping", quoted(&name.to_string()));
        let is_told = alter.if_exists && !catalog.has_relation(&name);
        return is_told.then_some((SqlState::SuccessfulCompletion, message)).into_iter().collect();
    };
    let has = |column: &str| table.column_position(column).is_some();
    let of = |column: &str| format!("column {} of relation {}", quoted(column), quoted(&name.name));
    let mut skipped = Vec::new();
    for action in &alter.operations {
        match action {
            AlterTableOperation::AddColumn { if_not_exists: true, column_def, .. } => {
                let column = folded(&column_def.name);
                if has(&column) {
                    let message = format!("{} already exists, skipping", of(&column));
                    skipped.push((SqlState::DuplicateColumn, message));
                }
            }
            AlterTableOperation::DropColumn { if_exists: true, column_names, .. } => {
                let missing = column_names.iter().map(folded).filter(|column| !has(column));
                let messages = missing.map(|column| format!("{} does not exist, skipping", of(&column)));
                skipped.extend(messages.map(|message| (SqlState::SuccessfulCompletion, message)));
            }
            AlterTableOperation::AlterColumn {
                column_name,
                op: ast::AlterColumnOperation::SetDefault { value },
            } if drops_expression(value) == Some(true) => {
                let column = folded(column_name);
                let is_plain = |column: &&ColumnDefinition| column.generation.is_none();
                let found = table.columns().iter().find(|known| known.name == column).filter(is_plain);
                let message = |_| format!("{} is not a stored generated column, skipping", of(&column));
                skipped.extend(found.map(|found| (SqlState::SuccessfulCompletion, message(found))));
            }
            _ => {}
        }
    }
    skipped
}
