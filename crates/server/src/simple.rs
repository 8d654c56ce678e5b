//! Simple query protocol: a string of statements, results as text.

use crate::connection::Connection;
use crate::rows::{RunningRows, SendProgress, WireFormat, send_description};
use crate::wire::Served;
use ankerdb_base::Error;
use ankerdb_sql::{Outcome, Prepared, ResultRows, Statement, TransactionStatus};
use ankerdb_value::Value;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use std::sync::Arc;

impl Connection {
    /// Runs the statements of one Query message. Several of them are one transaction, as far as they do not
    /// begin and end transactions themselves. Nothing runs if one of them is not SQL.
    pub(crate) fn simple_query(&mut self, sql: &str) -> Served {
        self.portals.remove("");
        self.unnamed = None;
        self.session.show_message(sql);
        let known = self.run(|session| Ok(session.recall(sql)))?;
        if let Some((prepared, parameters)) = known {
            let tag = self.run_statement(&prepared, &parameters)?;
            self.end_implicit()?;
            return self.wire.send(&CommandComplete::new(tag));
        }
        let statements = self.run(|session| session.parse(sql))?;
        if statements.is_empty() {
            return self.wire.send(&EmptyQueryResponse::new());
        }
        let several = statements.len() > 1;
        let last = statements.len() - 1;
        for (position, statement) in statements.into_iter().enumerate() {
            if several && self.session.transaction_status() == TransactionStatus::Idle {
                self.begin_implicit();
            }
            let alone = (!several).then_some(sql);
            let tag = self.simple_statement(statement, alone)?;
            if position == last {
                // Before the client is told of success, because the commit may fail here.
                self.end_implicit()?;
            }
            self.wire.send(&CommandComplete::new(tag))?;
        }
        Ok(())
    }

    /// Runs a statement, the only one of a text if that is given.
    fn simple_statement(&mut self, statement: Statement, alone: Option<&str>) -> Served<String> {
        let prepared = self.run(|session| session.prepare(statement, &[]))?;
        if !prepared.parameters().is_empty() {
            return Err(prepared.without_parameters().into());
        }
        if let Some(sql) = alone {
            self.run(|session| {
                session.remember(sql, &prepared);
                Ok(())
            })?;
        }
        self.run_statement(&prepared, &[])
    }

    fn run_statement(&mut self, prepared: &Arc<Prepared>, parameters: &[Value]) -> Served<String> {
        match self.execute(prepared, parameters)? {
            Outcome::Command(tag) => Ok(tag),
            Outcome::Rows(rows) => self.send_all(rows),
            Outcome::CopyIn(copy) => self.copy_in(*copy),
            Outcome::CopyOut(copy) => self.copy_out(*copy),
        }
    }

    fn send_all(&mut self, rows: ResultRows) -> Served<String> {
        let format = if rows.is_binary() { WireFormat::Binary } else { WireFormat::Text };
        let formats = vec![format; rows.columns().len()];
        send_description(&mut self.wire, rows.columns(), &formats)?;
        match RunningRows::new(rows, formats).send(&mut self.wire, usize::MAX)? {
            SendProgress::Complete(tag) => Ok(tag),
            SendProgress::Suspended => Err(Error::internal("a result without end").into()),
        }
    }
}
