//! What a session shows to itself: settings, prepared statements and cursors, as relations of the system catalog.
//!
//! They lie in the session, which the threads of a query do not reach. So they are copied where those find them, before a query runs that
//! reads one of these relations.

use super::SqlSession;
use crate::activity::{Own, OwnStatement};

impl SqlSession {
    /// Copies what the session has for the query that is about to run.
    pub(super) fn show_own(&self) {
        let mut names: Vec<&'static str> = self.settings.all().map(|(name, _)| name).collect();
        names.extend(["memory_limit", "transaction_isolation", "transaction_read_only"]);
        let setting = |name: &'static str| {
            let value = self.setting(name).ok()?;
            let reset = self.settings.reset_value(name).unwrap_or_else(|| value.clone());
            Some((name, value, reset))
        };
        let settings = names.into_iter().filter_map(setting).collect();
        let statements = self.statements.all().map(|(name, named)| OwnStatement {
            name: name.to_owned(),
            text: named.prepared.text().clone(),
            prepared_at: named.prepared_at,
            parameters: named
                .prepared
                .parameters()
                .iter()
                .map(|&data_type| crate::expression::bind::type_name(data_type))
                .collect(),
            is_of_sql: named.is_of_sql,
        });
        let statements = statements.collect();
        *self.runner.activity.own.lock() = Own { settings, statements, cursors: self.cursors.shown() };
    }
}
