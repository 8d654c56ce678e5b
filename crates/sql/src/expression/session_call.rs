//! Functions that ask or change the session that calls them, or another one.

use ankerdb_engine::{DataType, Interrupt, Result, SystemType, Value};

/// A function of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionFunction {
    Sleep,
    /// The session's number, as cancel requests name it.
    Number,
    Setting,
    SetSetting,
    CurrentSchema,
    /// The number of the transaction.
    TransactionNumber,
    Lock(LockCall),
    UnlockAll,
    Notify,
    /// Lets other transactions read what this one reads.
    ExportSnapshot,
}

/// A call of an advisory lock's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LockCall {
    pub action: LockAction,
    pub is_shared: bool,
    /// Whether the lock ends with the transaction, not with the session.
    pub is_of_transaction: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LockAction {
    /// Waits for it.
    Take,
    Try,
    Release,
}

/// Runs functions of sessions, for the session that calls them.
pub(crate) trait SessionCalls: Send + Sync {
    /// Calls the function with arguments of its types, none of them NULL. The interrupt ends it if it waits.
    fn call(&self, function: SessionFunction, arguments: &[Value], interrupt: &Interrupt) -> Result<Value>;
}

use DataType::{BigInt, Boolean, DoublePrecision, Integer, Text};

/// Names, the types of arguments, and results; `void` is an empty text.
const FUNCTIONS: [(&str, SessionFunction, &[DataType], DataType); 11] = [
    ("pg_sleep", SessionFunction::Sleep, &[DoublePrecision], Text),
    ("pg_backend_pid", SessionFunction::Number, &[], Integer),
    ("current_setting", SessionFunction::Setting, &[Text], Text),
    ("current_setting", SessionFunction::Setting, &[Text, Boolean], Text),
    ("set_config", SessionFunction::SetSetting, &[Text, Text, Boolean], Text),
    ("current_schema", SessionFunction::CurrentSchema, &[], DataType::System(SystemType::Name)),
    ("txid_current", SessionFunction::TransactionNumber, &[], BigInt),
    ("pg_current_xact_id", SessionFunction::TransactionNumber, &[], BigInt),
    ("pg_advisory_unlock_all", SessionFunction::UnlockAll, &[], Text),
    ("pg_notify", SessionFunction::Notify, &[Text, Text], Text),
    ("pg_export_snapshot", SessionFunction::ExportSnapshot, &[], Text),
];

const LOCKS: [(&str, LockAction, bool, bool); 10] = [
    ("pg_advisory_lock", LockAction::Take, false, false),
    ("pg_advisory_lock_shared", LockAction::Take, true, false),
    ("pg_advisory_xact_lock", LockAction::Take, false, true),
    ("pg_advisory_xact_lock_shared", LockAction::Take, true, true),
    ("pg_try_advisory_lock", LockAction::Try, false, false),
    ("pg_try_advisory_lock_shared", LockAction::Try, true, false),
    ("pg_try_advisory_xact_lock", LockAction::Try, false, true),
    ("pg_try_advisory_xact_lock_shared", LockAction::Try, true, true),
    ("pg_advisory_unlock", LockAction::Release, false, false),
    ("pg_advisory_unlock_shared", LockAction::Release, true, false),
];

impl SessionFunction {
    /// The function of this name with so many arguments: itself, the arguments' types, and the result's.
    pub(crate) fn by_name(name: &str, arguments: usize) -> Option<(Self, &'static [DataType], DataType)> {
        let known = FUNCTIONS.iter().find(|(known, _, types, _)| *known == name && types.len() == arguments);
        if let Some(&(_, function, types, result)) = known {
            return Some((function, types, result));
        }
        let &(_, action, is_shared, is_of_transaction) = LOCKS.iter().find(|(known, ..)| *known == name)?;
        let types: &[DataType] = match arguments {
            1 => &[BigInt],
            2 => &[Integer, Integer],
            _ => return None,
        };
        let result = if action == LockAction::Take { Text } else { Boolean };
        Some((SessionFunction::Lock(LockCall { action, is_shared, is_of_transaction }), types, result))
    }

    /// The name.
    pub(crate) fn sql_name(self) -> &'static str {
        let lock = |&(_, action, is_shared, is_of_transaction): &(&str, LockAction, bool, bool)| {
            self == SessionFunction::Lock(LockCall { action, is_shared, is_of_transaction })
        };
        let known = FUNCTIONS.iter().find(|(_, function, ..)| *function == self).map(|(name, ..)| *name);
        known.or_else(|| LOCKS.iter().find(|found| lock(found)).map(|(name, ..)| *name)).unwrap_or_default()
    }

    /// Whether it reads or sets a setting, and nothing else.
    pub(crate) fn is_of_settings(self) -> bool {
        matches!(self, SessionFunction::Setting | SessionFunction::SetSetting)
    }

    /// Whether the text of a statement may call this one.
    pub(crate) fn may_be_in(self, sql: &str) -> bool {
        sql.to_ascii_lowercase().contains(self.sql_name())
    }

    /// All names, each once.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|(name, ..)| *name).chain(LOCKS.iter().map(|(name, ..)| *name))
    }

    /// Whether the text of a statement may call one of these.
    pub(crate) fn is_called_in(sql: &str) -> bool {
        let text = sql.to_ascii_lowercase();
        Self::names().any(|name| text.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_name_and_number_of_arguments() {
        let named =
            |name, arguments| SessionFunction::by_name(name, arguments).map(|(function, ..)| function);
        for known in SessionFunction::names() {
            let found = |arguments| Some((arguments, named(known, arguments)?));
            let found = (0..=3).filter_map(found).collect::<Vec<_>>();
            // A function may have two names.
            let is_it = |(arguments, function): &(usize, SessionFunction)| {
                named(function.sql_name(), *arguments) == Some(*function)
            };
            assert!(!found.is_empty() && found.iter().all(is_it), "{known}: {found:?}");
        }
        assert_eq!(named("pg_advisory_lock", 3), None);
        assert!(
            SessionFunction::is_called_in("SELECT Pg_Sleep(1)") && !SessionFunction::is_called_in("SELECT 1")
        );
    }
}
