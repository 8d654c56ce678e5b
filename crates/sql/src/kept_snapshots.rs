//! Snapshots that have names, made by CREATE SNAPSHOT: what statements AS OF one of them read (docs/design/time-travel.md).
//!
//! All sessions share them. They lie in memory, and are gone when the process ends. One holds a timestamp and what was defined at its
//! moment, and neither rows nor tables: the tables keep the versions of rows that it sees, and go when they are dropped.

use crate::name::quoted;
use ankerdb_engine::{
    Catalog, Error, Result, Snapshot, SqlState, Table, TableDefinition, TableId, Value, View,
};
use ankerdb_value::format_text;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Names at the same time. Each of them may keep one version of each row.
pub(crate) const KEPT_MAX: usize = 64;

/// A snapshot that has a name.
pub(crate) struct KeptSnapshot {
    pub name: String,
    /// When it was made, in microseconds since 1970: everything in it was visible by then.
    pub made_at: i64,
    pub snapshot: Snapshot,
    pub definitions: DefinitionsThen,
}

/// The tables and views of a moment, without the tables' rows.
pub(crate) struct DefinitionsThen {
    /// By origin: the identity, and the definition.
    tables: HashMap<TableId, (TableId, TableDefinition)>,
    views: Vec<Arc<View>>,
}

impl DefinitionsThen {
    pub(crate) fn of(catalog: &Catalog) -> DefinitionsThen {
        let table = |table: &Arc<Table>| (table.origin(), (table.id(), table.definition().clone()));
        DefinitionsThen {
            tables: catalog.tables().map(table).collect(),
            views: catalog.views().cloned().collect(),
        }
    }

    /// The identity and definition that the table had.
    pub(crate) fn table(&self, now: &Table) -> Option<&(TableId, TableDefinition)> {
        self.tables.get(&now.origin())
    }

    /// The view that had the name of this one.
    pub(crate) fn view(&self, now: &View) -> Option<&Arc<View>> {
        self.views.iter().find(|view| (view.schema, &view.name) == (now.schema, &now.name))
    }
}

/// All of a process, in the order in which they were made.
#[derive(Default)]
pub(crate) struct KeptSnapshots(Mutex<Vec<Arc<KeptSnapshot>>>);

impl KeptSnapshots {
    /// Keeps a snapshot.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub(crate) fn keep(&self, snapshot: KeptSnapshot) -> Result<()> {
        let mut kept = self.0.lock();
        check(&kept, &snapshot.name)?;
        kept.push(Arc::new(snapshot));
        Ok(())
    }

    /// Whether another one may be kept by this name.
    ///
    /// # Errors
    /// `DuplicateObject`; `ProgramLimitExceeded` if there are as many as there can be.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        check(&self.0.lock(), name)
    }

    /// Forgets a name; whether it was there. Statements that read the snapshot go on.
    pub(crate) fn forget(&self, name: &str) -> bool {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|known| known.name == name);
        let forgotten = place.map(|place| kept.remove(place));
        drop(kept);
        forgotten.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<KeptSnapshot>> {
        self.0.lock().clone()
    }

    /// The snapshot of this name.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub(crate) fn named(&self, name: &str) -> Result<Arc<KeptSnapshot>> {
        let found = self.0.lock().iter().find(|known| known.name == name).cloned();
        found.ok_or_else(|| no_snapshot(name))
    }

    /// The newest one that was made by this moment.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a moment that has not come yet; `UndefinedObject` if none is that old.
    pub(crate) fn as_of(&self, moment: i64, now: i64) -> Result<Arc<KeptSnapshot>> {
        if moment > now {
            let message = format!("{} has not come yet", shown(moment));
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        let all = self.all();
        let of_then = all.iter().filter(|kept| kept.made_at <= moment);
        if let Some(newest) = of_then.max_by_key(|kept| kept.snapshot.timestamp()) {
            return Ok(newest.clone());
        }
        let error = Error::new(
            SqlState::UndefinedObject,
            format!("there is no kept snapshot of {} or before", shown(moment)),
        );
        Err(match all.iter().min_by_key(|kept| kept.made_at) {
            Some(oldest) => {
                let made_at = shown(oldest.made_at);
                error.with_detail(format!("The oldest one, {}, is of {made_at}.", quoted(&oldest.name)))
            }
            None => error.with_hint("CREATE SNAPSHOT keeps one."),
        })
    }
}

/// Whether another one may be kept by this name beside these.
fn check(kept: &[Arc<KeptSnapshot>], name: &str) -> Result<()> {
    if kept.iter().any(|known| known.name == name) {
        let message = format!("snapshot {} already exists", quoted(name));
        return Err(Error::new(SqlState::DuplicateObject, message));
    }
    if kept.len() == KEPT_MAX {
        let message = format!("there are {KEPT_MAX} kept snapshots already");
        let hint = "Drop one with DROP SNAPSHOT; ankerdb_snapshots lists them.";
        return Err(Error::new(SqlState::ProgramLimitExceeded, message).with_hint(hint));
    }
    Ok(())
}

/// 42704 for a name that no snapshot has.
pub(crate) fn no_snapshot(name: &str) -> Error {
    let message = format!("snapshot {} does not exist", quoted(name));
    Error::new(SqlState::UndefinedObject, message)
}

fn shown(moment: i64) -> String {
    let mut text = String::new();
    format_text(&Value::TimestampTz(moment), ankerdb_engine::DataType::TIMESTAMPTZ, &mut text);
    text
}
