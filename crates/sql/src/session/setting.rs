//! Settings: SET, SHOW, RESET.
//!
//! Five change what happens: the default isolation, the default of read-only, and three limits of time ([`Limits`]). The
//! others are those that drivers set when they connect; they are kept and shown, and values for which this server would
//! have to behave differently are refused.

use super::time;
use crate::plan::Setting;
use crate::version::SERVER_VERSION;
use ankerdb_engine::{Error, Isolation, Result, SqlState};
use std::collections::BTreeMap;
use std::time::Duration;

/// Names and defaults of settings that are only kept.
const KEPT: &[(&str, &str)] = &[
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("client_encoding", "UTF8"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("intervalstyle", "postgres"),
    ("lc_messages", "C"),
    ("lock_timeout", "0"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("work_mem", "4MB"),
    ("xmloption", "content"),
];

/// Names and values of settings that cannot be changed.
const FIXED: &[(&str, &str)] = &[
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("is_superuser", "on"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "150000"),
    ("session_authorization", "ankerdb"),
];

/// Limits of time; `None` sets no limit.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// A statement, with its commit if it is a transaction of its own.
    pub statement: Option<Duration>,
    /// One wait for a row that another transaction has locked.
    pub lock: Option<Duration>,
    /// Waiting for the client's next message while a transaction is open.
    pub idle_in_transaction: Option<Duration>,
}

impl Limits {
    /// The limit that a setting stands for.
    fn named(&mut self, name: &str) -> Option<&mut Option<Duration>> {
        match name {
            "statement_timeout" => Some(&mut self.statement),
            "lock_timeout" => Some(&mut self.lock),
            "idle_in_transaction_session_timeout" => Some(&mut self.idle_in_transaction),
            _ => None,
        }
    }
}

/// One session's settings.
pub(super) struct Settings {
    /// The database's, to which RESET goes back.
    initial_isolation: Isolation,
    pub default_isolation: Isolation,
    pub default_read_only: bool,
    pub limits: Limits,
    /// Those that differ from their defaults.
    changed: BTreeMap<String, String>,
}

impl Settings {
    /// Nothing set yet, in a database whose sessions begin with this level.
    pub(super) fn new(initial_isolation: Isolation) -> Settings {
        Settings {
            initial_isolation,
            default_isolation: initial_isolation,
            default_read_only: false,
            limits: Limits::default(),
            changed: BTreeMap::new(),
        }
    }

    /// SET name = value. 42704 for an unknown name, 22023 for a value that cannot be.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<()> {
        let name = setting.name.as_str();
        let Some(value) = setting.value.as_deref() else { return self.reset(Some(name)) };
        match name {
            "default_transaction_isolation" => self.default_isolation = isolation(value)?,
            "default_transaction_read_only" => self.default_read_only = boolean(name, value)?,
            "transaction_isolation" | "transaction_read_only" => {}
            "memory_limit" => return Err(needs_restart(name)),
            _ if FIXED.iter().any(|(fixed, _)| *fixed == name) => {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(Error::new(SqlState::InvalidParameterValue, message));
            }
            _ => {
                if !is_known(name) {
                    return Err(unknown(name));
                }
                let mut value = checked(name, value)?;
                if let Some(limit) = self.limits.named(name) {
                    *limit = time::parse(name, &value)?;
                    value = time::shown(*limit);
                }
                self.changed.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// RESET name, or all of them.
    pub(super) fn reset(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None | Some("all") => *self = Settings::new(self.initial_isolation),
            Some("default_transaction_isolation") => self.default_isolation = self.initial_isolation,
            Some("default_transaction_read_only") => self.default_read_only = false,
            Some(name) if is_known(name) => {
                if let Some(limit) = self.limits.named(name) {
                    *limit = None;
                }
                self.changed.remove(name);
            }
            Some(name) => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value as SHOW gives it.
    pub(super) fn get(&self, name: &str) -> Result<String> {
        let fixed = |list: &[(&str, &str)]| {
            list.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        match name {
            "default_transaction_isolation" => Ok(isolation_name(self.default_isolation).into()),
            "default_transaction_read_only" => Ok(if self.default_read_only { "on" } else { "off" }.into()),
            _ => {
                let changed = self.changed.get(name).cloned();
                changed.or_else(|| fixed(KEPT)).or_else(|| fixed(FIXED)).ok_or_else(|| unknown(name))
            }
        }
    }

    /// All settings with their values, those of the database aside.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, String)> {
        let effective = ["default_transaction_isolation", "default_transaction_read_only"];
        let names = KEPT.iter().chain(FIXED).map(|(name, _)| *name).chain(effective);
        let mut all: Vec<_> = names.filter_map(|name| Some((name, self.get(name).ok()?))).collect();
        all.sort();
        all.into_iter()
    }
}

/// Whether the setting is known here, or has an extension's form `prefix.name`, which PostgreSQL keeps for any
/// client.
fn is_known(name: &str) -> bool {
    KEPT.iter().any(|(known, _)| *known == name) || name.contains('.')
}

/// The value in its usual form, if the server supports it.
fn checked(name: &str, value: &str) -> Result<String> {
    let plain = value.to_lowercase().replace(['-', '_'], "");
    let possible = match name {
        "client_encoding" if matches!(plain.as_str(), "utf8" | "unicode") => return Ok("UTF8".into()),
        "client_encoding" => false,
        "datestyle" => plain.starts_with("iso"),
        "standard_conforming_strings" => boolean(name, value)?,
        "bytea_output" => plain == "hex",
        // Times are shown in UTC, with their offset, whatever the client prefers.
        "timezone" => return Ok("UTC".into()),
        _ => true,
    };
    match (possible, name) {
        (true, "datestyle") => Ok("ISO, MDY".into()),
        (true, _) => Ok(value.to_owned()),
        (false, _) => {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            Err(Error::new(SqlState::InvalidParameterValue, message))
        }
    }
}

fn needs_restart(name: &str) -> Error {
    let message = format!("parameter \"{name}\" cannot be changed without restarting the server");
    Error::new(SqlState::CantChangeRuntimeParam, message)
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))
}

/// A boolean setting's value.
pub(super) fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => {
            let message = format!("parameter \"{name}\" requires a Boolean value");
            Err(Error::new(SqlState::InvalidParameterValue, message))
        }
    }
}

/// The isolation level with this name.
pub(super) fn isolation(name: &str) -> Result<Isolation> {
    match name.to_lowercase().as_str() {
        "serializable" => Ok(Isolation::Serializable),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        "read committed" => Ok(Isolation::ReadCommitted),
        "read uncommitted" => Ok(Isolation::ReadUncommitted),
        _ => {
            let message = format!("invalid value for parameter \"transaction_isolation\": \"{name}\"");
            Err(Error::new(SqlState::InvalidParameterValue, message))
        }
    }
}

/// The level's name in SQL.
pub(super) fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::Serializable => "serializable",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::ReadCommitted => "read committed",
        Isolation::ReadUncommitted => "read uncommitted",
    }
}
