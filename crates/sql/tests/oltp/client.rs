//! A session that answers in one line of text.

use ankerdb_engine::{Database, Result, Value};
use ankerdb_sql::{Outcome, Prepared, SqlEngine, SqlOptions, SqlSession};
use std::sync::Arc;

/// An engine over an empty database.
pub(crate) fn engine() -> SqlEngine {
    engine_over(Database::new())
}

/// An engine over a database.
pub(crate) fn engine_over(database: Database) -> SqlEngine {
    let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 64 << 20 };
    SqlEngine::new(database, options).expect("an engine")
}

/// One connection.
pub(crate) struct Client(pub SqlSession);

impl Client {
    /// A session on a database of its own.
    pub(crate) fn new() -> Client {
        Client(engine().session())
    }

    /// Another session on its database.
    pub(crate) fn other(&self) -> Client {
        Client(self.0.engine().session())
    }

    /// Prepares one statement.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<Arc<Prepared>> {
        let mut statements = self.0.parse(sql)?;
        assert_eq!(statements.len(), 1, "one statement: {sql}");
        self.0.prepare(statements.remove(0), &[])
    }

    /// Runs one statement: `a,b|c,d` for rows (NULL as `-`), the tag for commands, `!state` for errors.
    #[must_use = "an error is an answer like any other"]
    pub(crate) fn run(&mut self, sql: &str) -> String {
        self.run_with(sql, &[])
    }

    /// Runs one statement like [`run`](Self::run), with parameters.
    #[must_use = "an error is an answer like any other"]
    pub(crate) fn run_with(&mut self, sql: &str, parameters: &[Value]) -> String {
        let outcome = self.prepare(sql).and_then(|prepared| self.outcome(&prepared, parameters));
        outcome.unwrap_or_else(|error| format!("!{}", error.state().code()))
    }

    /// Runs a prepared statement.
    pub(crate) fn outcome(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Result<String> {
        let mut rows = match self.0.execute(prepared, parameters)? {
            Outcome::Command(tag) => return Ok(tag),
            Outcome::Rows(rows) => rows,
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => panic!("no COPY in these tests"),
        };
        let columns = rows.columns().to_vec();
        let mut lines = Vec::new();
        while let Some(batch) = rows.next_batch()? {
            for row in batch {
                let cells = row.iter().zip(&columns).map(|(value, column)| match value {
                    Value::Null => "-".to_owned(),
                    value => {
                        let mut text = String::new();
                        ankerdb_value::format_text(value, column.data_type, &mut text);
                        text
                    }
                });
                lines.push(cells.collect::<Vec<_>>().join(","));
            }
        }
        Ok(lines.join("|"))
    }

    /// Runs statements that have to succeed.
    pub(crate) fn setup(&mut self, statements: &[&str]) {
        for sql in statements {
            let answer = self.run(sql);
            assert!(!answer.starts_with('!'), "{sql}: {answer}");
        }
    }

    /// Runs each statement and compares what it gives.
    pub(crate) fn check(&mut self, expectations: &[(&str, &str)]) {
        for (sql, expected) in expectations {
            assert_eq!(self.run(sql), *expected, "{sql}");
        }
    }

    /// The first line of the plan.
    pub(crate) fn plan(&mut self, sql: &str) -> String {
        let plan = self.run(&format!("explain {sql}"));
        plan.split('|').next().unwrap_or_default().to_owned()
    }
}
