//! How long a SET lasts: beyond its transaction if that commits, and with LOCAL not even then.
//!
//! ```text
//! SET a = 1        before: a = 0   durable: a = 1   now: a = 1
//! SET LOCAL a = 2  before: a = 0   durable: a = 1   now: a = 2
//! COMMIT leaves what is durable, ROLLBACK what was before; ROLLBACK TO what was there at the savepoint.
//! ```

use super::SqlSession;
use super::setting::Settings;
use crate::plan::Setting;
use ankerdb_engine::{Result, SqlState};

/// The settings that a transaction which has changed some may leave.
#[derive(Clone)]
pub(super) struct SettingChanges {
    before: Settings,
    durable: Settings,
}

/// What a savepoint keeps of the settings: those of that moment, and those that COMMIT would leave. `None` if the transaction had
/// not changed any.
pub(super) type KeptSettings = Option<(Settings, Settings)>;

/// Settings that the protocol reports, as it writes their names.
const REPORTED: &[(&str, &str)] = &[
    ("application_name", "application_name"),
    ("DateStyle", "datestyle"),
    ("IntervalStyle", "intervalstyle"),
    ("TimeZone", "timezone"),
    ("default_transaction_read_only", "default_transaction_read_only"),
];

impl SqlSession {
    /// SET and RESET.
    pub(super) fn change_settings(
        &mut self,
        is_local: bool,
        change: impl Fn(&mut Settings) -> Result<()>,
    ) -> Result<()> {
        let mut changed = self.settings.clone();
        change(&mut changed)?;
        if self.block.is_open() {
            let settings = &self.settings;
            let both = || SettingChanges { before: settings.clone(), durable: settings.clone() };
            let changes = self.block.settings.get_or_insert_with(|| Box::new(both()));
            if !is_local {
                change(&mut changes.durable)?;
            }
        } else if is_local {
            self.warn(SqlState::NoActiveSqlTransaction, "SET LOCAL can only be used in transaction blocks");
            return Ok(());
        }
        self.settings = changed;
        self.note_settings();
        Ok(())
    }

    pub(super) fn set(&mut self, setting: &Setting) -> Result<()> {
        self.change_settings(setting.is_local, |settings| settings.set(setting))
    }

    /// The transaction has ended.
    pub(super) fn leave_settings(&mut self, changes: Option<Box<SettingChanges>>, is_committed: bool) {
        if let Some(changes) = changes {
            self.settings = if is_committed { changes.durable } else { changes.before };
            self.note_settings();
        }
    }

    /// What a savepoint that is set now keeps.
    pub(super) fn keep_settings(&self) -> KeptSettings {
        let changes = self.block.settings.as_ref()?;
        Some((self.settings.clone(), changes.durable.clone()))
    }

    /// Goes back to a savepoint.
    pub(super) fn restore_settings(&mut self, kept: KeptSettings) {
        let Some(changes) = &mut self.block.settings else { return };
        (self.settings, changes.durable) = kept.unwrap_or((changes.before.clone(), changes.before.clone()));
        self.note_settings();
    }

    /// Settings may have changed.
    fn note_settings(&mut self) {
        self.has_set = true;
        self.settings.clocks.enter();
        self.publisher.set_application(&self.settings.get("application_name").unwrap_or_default());
    }

    /// The settings of which clients are told when they change, if any may have changed since this was last asked.
    pub fn take_reports(&mut self) -> Option<Vec<(&'static str, String)>> {
        if !std::mem::take(&mut self.has_set) {
            return None;
        }
        let shown = |(shown, name): &(&'static str, &str)| Some((*shown, self.settings.get(name).ok()?));
        Some(REPORTED.iter().filter_map(shown).collect())
    }

    /// From here on RESET goes back to the settings of now: for those that a client sends when it connects.
    pub fn begin_with_these_settings(&mut self) {
        self.settings.keep();
    }
}
