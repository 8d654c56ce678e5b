//! What a statement tells its client beside its result: NOTICE and WARNING.

use super::SqlSession;
use crate::name::quoted;
use crate::plan::Definition;
use ankerdb_engine::{Error, SequenceDefinition, SqlState, TableDefinition};

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
        std::mem::take(&mut self.notices)
    }

    /// Says what IF EXISTS and IF NOT EXISTS are going to skip.
    pub(super) fn note_skipped(&mut self, definition: &Definition) {
        let catalog = self.runner.engine.database().catalog();
        let mut skipped: Vec<(SqlState, String)> = Vec::new();
        let mut missing = |kind: &str, names: &[String], exists: &dyn Fn(&str) -> bool| {
            for name in names.iter().filter(|name| !exists(name)) {
                let message = format!("{kind} {} does not exist, skipping", quoted(name));
                skipped.push((SqlState::SuccessfulCompletion, message));
            }
        };
        match definition {
            Definition::DropTables { names, if_exists: true } => {
                missing("table", names, &|name| catalog.has_relation(name));
            }
            Definition::DropSequences { names, if_exists: true, .. } => {
                missing("sequence", names, &|name| catalog.has_relation(name));
            }
            Definition::DropIndexes { names, if_exists: true } => {
                missing("index", names, &|name| catalog.has_relation(name));
            }
            Definition::CreateTable {
                definition: TableDefinition { name, .. }, if_not_exists: true, ..
            }
            | Definition::CreateSequence {
                definition: SequenceDefinition { name, .. },
                if_not_exists: true,
            }
            | Definition::CreateIndex { name: Some(name), if_not_exists: true, .. }
                if catalog.has_relation(name) =>
            {
                let message = format!("relation {} already exists, skipping", quoted(name));
                skipped.push((SqlState::DuplicateTable, message));
            }
            _ => {}
        }
        for (state, message) in skipped {
            self.tell(Severity::Notice, Error::new(state, message));
        }
    }

    pub(super) fn warn(&mut self, state: SqlState, message: &'static str) {
        self.tell(Severity::Warning, Error::new(state, message));
    }

    fn tell(&mut self, severity: Severity, message: Error) {
        let asked = self.settings.get("client_min_messages").unwrap_or_default();
        if Severity::at_least(&asked).flatten().is_some_and(|least| severity >= least) {
            self.notices.push(Notice { severity, message });
        }
    }
}
