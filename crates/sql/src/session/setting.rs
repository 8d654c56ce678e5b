//! Settings: SET, SHOW, RESET.
//!
//! Seven change what happens: the default isolation, the default of read-only, `search_path`, and four limits of time ([`Limits`]). The
//! others are those that drivers set when they connect; they are kept and shown, and values for which this server would
//! have to behave differently are refused.

use super::notice::Severity;
use super::{path, time};
use crate::compiler_mode::{CompilerMode, QUERY_COMPILER};
use crate::expression::zone;
use crate::name::not_supported;
use crate::plan::Setting;
use crate::version::SERVER_VERSION;
use ankerdb_engine::{DataType, Error, Interval, Isolation, Result, SearchPath, SqlState, Value};
use ankerdb_value::{Clocks, DateStyle, IntervalStyle, Zone};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where names without a schema are looked for.
const DEFAULT_PATH: &str = "\"$user\", public";

/// How late queries may be.
pub(crate) const MAX_STALENESS: &str = "ankerdb.max_staleness";

/// What programs of former times turn off; it is not listed, as in PostgreSQL.
const WITH_OIDS: &str = "default_with_oids";

/// Names and defaults of settings that have a value for each session.
const KEPT: &[(&str, &str)] = &[
    (MAX_STALENESS, "0"),
    (QUERY_COMPILER, "on"),
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    (WITH_OIDS, "off"),
    ("client_encoding", "UTF8"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("intervalstyle", "postgres"),
    ("lc_messages", "C"),
    ("lock_timeout", "0"),
    ("row_security", "on"),
    ("search_path", DEFAULT_PATH),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("work_mem", "4MB"),
    ("xmloption", "content"),
];

/// Names and PostgreSQL's defaults of settings that say how to find a result rather than which: they are kept only.
const HINTS: &[(&str, &str)] = &[
    ("default_statistics_target", "100"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("effective_cache_size", "4GB"),
    ("enable_bitmapscan", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("jit", "on"),
    ("join_collapse_limit", "8"),
    ("maintenance_work_mem", "64MB"),
    ("max_parallel_workers_per_gather", "2"),
    ("plan_cache_mode", "auto"),
    ("random_page_cost", "4"),
    ("seq_page_cost", "1"),
    ("synchronize_seqscans", "on"),
    ("temp_buffers", "8MB"),
];

/// Names and values of settings that cannot be changed.
pub(crate) const FIXED: &[(&str, &str)] = &[
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
    /// How old a snapshot may be that analytical queries share (`ankerdb.max_staleness`); `None`: each has its own.
    pub staleness: Option<Duration>,
}

impl Limits {
    /// The limit that a setting stands for.
    fn named(&mut self, name: &str) -> Option<&mut Option<Duration>> {
        match name {
            "statement_timeout" => Some(&mut self.statement),
            "lock_timeout" => Some(&mut self.lock),
            "idle_in_transaction_session_timeout" => Some(&mut self.idle_in_transaction),
            MAX_STALENESS => Some(&mut self.staleness),
            _ => None,
        }
    }
}

/// One session's settings.
#[derive(Clone)]
pub(super) struct Settings {
    /// Those that the session began with, to which RESET goes back; `None` while it begins, and of themselves.
    initial: Option<Arc<Settings>>,
    pub default_isolation: Isolation,
    pub default_read_only: bool,
    pub limits: Limits,
    /// Whether commits wait until they are on disk (`synchronous_commit`).
    pub waits_for_log: bool,
    /// How analytical queries run (`ankerdb.query_compiler`).
    pub compiler: CompilerMode,
    /// What `search_path` stands for.
    pub path: Arc<SearchPath>,
    /// What `timezone`, `datestyle` and the settings of how values are written stand for.
    pub clocks: Clocks,
    /// The schema of the session's temporary relations.
    temporary: Arc<str>,
    /// Those that differ from their defaults.
    changed: BTreeMap<String, String>,
}

impl Settings {
    /// Nothing set yet, in a database whose sessions begin with this level; the session's temporary relations are in the schema
    /// `temporary`.
    pub(super) fn new(default_isolation: Isolation, temporary: &str) -> Settings {
        Settings {
            path: Arc::new(path::parse(DEFAULT_PATH, temporary).unwrap_or_default()),
            temporary: temporary.into(),
            clocks: Clocks::default(),
            initial: None,
            default_isolation,
            default_read_only: false,
            limits: Limits::default(),
            waits_for_log: true,
            compiler: CompilerMode::default(),
            changed: BTreeMap::new(),
        }
    }

    /// From here on RESET goes back to what is set now.
    pub(super) fn keep(&mut self) {
        self.initial = None;
        self.initial = Some(Arc::new(self.clone()));
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
                if name == "timezone" {
                    let (zone, shown) = time_zone(&value)?;
                    (self.clocks.zone, value) = (zone, shown);
                }
                if name == "datestyle" {
                    let usual =
                        self.initial.as_ref().map_or_else(DateStyle::default, |first| first.clocks.style);
                    let changed = self.clocks.style.changed(&value, usual);
                    self.clocks.style =
                        changed.map_err(|detail| invalid_value("DateStyle", &value).with_detail(detail))?;
                    value = self.clocks.style.to_string();
                }
                self.note_style(name, &value);
                if name == "search_path" {
                    self.path =
                        Arc::new(path::parse(&value, &self.temporary).ok_or_else(|| {
                            invalid_value(name, &value).with_detail("List syntax is invalid.")
                        })?);
                }
                if name == "synchronous_commit" {
                    self.waits_for_log = value != "off";
                }
                if name == QUERY_COMPILER {
                    self.compiler = CompilerMode::named(&value)?;
                    value = self.compiler.name().to_owned();
                }
                self.changed.insert(name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// Writes values by a setting's value from here on, if it is one of how they are written.
    fn note_style(&mut self, name: &str, value: &str) {
        let style = &mut self.clocks.text;
        match name {
            "bytea_output" => style.escapes_bytes = value == "escape",
            // One is as good as more.
            "extra_float_digits" => {
                style.float_digits = value.trim().parse().map_or(1, |digits: i8| digits.min(1))
            }
            "intervalstyle" => style.interval = IntervalStyle::named(value).unwrap_or_default(),
            _ => {}
        }
    }

    /// RESET name, or all of them.
    pub(super) fn reset(&mut self, name: Option<&str>) -> Result<()> {
        let Some(initial) = self.initial.clone() else { return Ok(()) };
        match name {
            None | Some("all") => *self = Settings { initial: Some(initial.clone()), ..(*initial).clone() },
            Some("default_transaction_isolation") => self.default_isolation = initial.default_isolation,
            Some("default_transaction_read_only") => self.default_read_only = initial.default_read_only,
            Some("role" | "session_authorization") => {}
            Some(name) if is_known(name) => {
                let mut old = initial.limits;
                if let (Some(limit), Some(old)) = (self.limits.named(name), old.named(name)) {
                    *limit = *old;
                }
                if name == "search_path" {
                    self.path = initial.path.clone();
                }
                if name == "timezone" {
                    self.clocks.zone = initial.clocks.zone;
                }
                if name == "datestyle" {
                    self.clocks.style = initial.clocks.style;
                }
                if name == "synchronous_commit" {
                    self.waits_for_log = initial.waits_for_log;
                }
                if name == QUERY_COMPILER {
                    self.compiler = initial.compiler;
                }
                match initial.changed.get(name) {
                    Some(value) => self.changed.insert(name.to_owned(), value.clone()),
                    None => self.changed.remove(name),
                };
                self.note_style(name, &self.get(name)?);
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
                changed
                    .or_else(|| fixed(KEPT))
                    .or_else(|| fixed(HINTS))
                    .or_else(|| fixed(FIXED))
                    .ok_or_else(|| unknown(name))
            }
        }
    }

    /// Settings that have been changed and say how to find a result.
    pub(super) fn planning_changes(&self) -> Vec<(&'static str, String)> {
        let names = HINTS.iter().copied().chain([("search_path", DEFAULT_PATH), ("work_mem", "4MB")]);
        let changed = names.filter_map(|(name, default)| {
            let value = self.changed.get(name).filter(|value| *value != default)?;
            Some((name, value.clone()))
        });
        changed.collect()
    }

    /// The value that RESET would give; `None` for settings that have none of their own.
    pub(super) fn reset_value(&self, name: &str) -> Option<String> {
        self.initial.as_ref().and_then(|initial| initial.get(name).ok())
    }

    /// All settings with their values, those of the database aside.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, String)> {
        let effective = ["default_transaction_isolation", "default_transaction_read_only"];
        let names = KEPT.iter().chain(HINTS).chain(FIXED).map(|(name, _)| *name).chain(effective);
        let names = names.filter(|name| *name != WITH_OIDS);
        let mut all: Vec<_> = names.filter_map(|name| Some((name, self.get(name).ok()?))).collect();
        all.sort();
        all.into_iter()
    }
}

/// Whether the setting is known here, or has an extension's form `prefix.name`, which PostgreSQL keeps for any
/// client.
pub(crate) fn is_known(name: &str) -> bool {
    KEPT.iter().chain(HINTS).any(|(known, _)| *known == name) || name.contains('.')
}

/// The value in its usual form.
///
/// # Errors
/// 22023 for a value that PostgreSQL does not have either, 0A000 for one for which this server would have to behave differently.
fn checked(name: &str, value: &str) -> Result<String> {
    let plain = value.to_lowercase().replace(['-', '_'], "");
    let found = match name {
        "client_encoding" => {
            usual(&plain, &[("utf8", "UTF8"), ("unicode", "UTF8")], &["sqlascii", "latin1", "iso88591"])
        }
        "bytea_output" => usual(&plain, &[("hex", "hex"), ("escape", "escape")], &[]),
        "intervalstyle" => match IntervalStyle::named(value) {
            Some(style) => Found::Usual(style.name()),
            None => return Err(invalid_value("IntervalStyle", value)),
        },
        "xmloption" => usual(&plain, &[("content", "content")], &["document"]),
        "standard_conforming_strings" => match boolean(name, value)? {
            true => Found::Usual("on"),
            false => Found::Missing,
        },
        WITH_OIDS => match boolean(name, value)? {
            true => return Err(not_supported("a table declared WITH OIDS")),
            false => Found::Usual("off"),
        },
        "check_function_bodies" | "escape_string_warning" | "row_security" => {
            Found::Usual(if boolean(name, value)? { "on" } else { "off" })
        }
        "synchronous_commit" => match plain.as_str() {
            "remoteapply" | "remotewrite" | "local" => Found::AsWritten,
            _ => Found::Usual(if boolean(name, value)? { "on" } else { "off" }),
        },
        "extra_float_digits" => match value.trim().parse::<i32>() {
            Ok(-15..=3) => Found::AsWritten,
            _ => Found::Wrong,
        },
        "client_min_messages" => match Severity::at_least(value) {
            Some(_) => Found::AsWritten,
            None => Found::Wrong,
        },
        _ => Found::AsWritten,
    };
    match found {
        Found::Usual(usual) => Ok(usual.to_owned()),
        Found::AsWritten => Ok(value.to_owned()),
        Found::Missing => Err(not_supported(&format!("{name} = {value}"))),
        Found::Wrong => Err(invalid_value(name, value)),
    }
}

/// What a setting's value is.
enum Found {
    /// Supported, and shown like this.
    Usual(&'static str),
    AsWritten,
    /// One of PostgreSQL's that is not supported.
    Missing,
    Wrong,
}

fn usual(plain: &str, supported: &[(&str, &'static str)], missing: &[&str]) -> Found {
    match supported.iter().find(|(known, _)| *known == plain) {
        Some((_, usual)) => Found::Usual(usual),
        None if missing.contains(&plain) || plain.starts_with("win12") || plain.starts_with("latin") => {
            Found::Missing
        }
        None => Found::Wrong,
    }
}

/// The zone that a value of `timezone` stands for, and how it is shown: a name, an offset, or an interval behind `INTERVAL`.
fn time_zone(value: &str) -> Result<(Zone, String)> {
    let Some(text) = value.strip_prefix(crate::words::INTERVAL) else {
        return zone::of_setting(value).ok_or_else(|| {
            let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
            Error::new(SqlState::InvalidParameterValue, message)
        });
    };
    match ankerdb_value::parse_text(DataType::INTERVAL, text)? {
        Value::Interval(Interval { months: 0, days: 0, microseconds }) => {
            Ok(zone::offset_setting(microseconds / 1_000_000))
        }
        Value::Interval(Interval { months: 0, .. }) => {
            Err(Error::new(SqlState::InvalidParameterValue, "Cannot specify days in time zone interval."))
        }
        _ => Err(Error::new(SqlState::InvalidParameterValue, "Cannot specify months in time zone interval.")),
    }
}

/// 22023
fn invalid_value(name: &str, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(SqlState::InvalidParameterValue, message)
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
    match value.trim().to_lowercase().as_str() {
        "on" | "1" | "true" | "tru" | "tr" | "t" | "yes" | "ye" | "y" => Ok(true),
        "off" | "of" | "0" | "false" | "fals" | "fal" | "fa" | "f" | "no" | "n" => Ok(false),
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
