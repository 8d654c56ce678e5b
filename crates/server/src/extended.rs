//! Extended query protocol: Parse, Bind, Describe, Execute, Close, Sync.
//!
//! Everything up to a Sync is one transaction unless the client says otherwise. Usually there is a single
//! Execute before the Sync, and then a statement in autocommit is the same thing and much cheaper (it may be
//! retried after a serialization failure). So Execute checks whether the next message is a Sync, and begins an
//! implicit transaction, which the Sync ends, only if it is not or has not arrived.

use crate::connection::Connection;
use crate::frontend::{Bind, DescribedObject};
use crate::portal::{NamedStatement, Portal, PortalState, declared_types};
use crate::rows::{RunningRows, SendProgress, WireFormat, send_description};
use crate::wire::Served;
use ankerdb_base::{Error, SqlState};
use ankerdb_sql::{Outcome, Statement, TransactionStatus};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

const SYNC: u8 = b'S';

impl Connection {
    pub(crate) fn parse(&mut self, name: &str, sql: &str, parameter_oids: &[u32]) -> Served {
        match name {
            "" => self.unnamed = None,
            name => self.session.check_name(name)?,
        }
        if name.is_empty()
            && let Ok(declared) = declared_types(parameter_oids)
            && let Some(prepared) = self.run(|session| Ok(session.recall_with(sql, &declared)))?
        {
            self.unnamed = Some(NamedStatement { prepared });
            return self.wire.send(&ParseComplete::new());
        }
        let mut statements = self.run(|session| session.parse(sql))?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::new(SqlState::SyntaxError, message).into());
        }
        let declared = declared_types(parameter_oids)?;
        let statement = statements.pop().unwrap_or_else(Statement::empty);
        let prepared = self.run(|session| session.prepare(statement, &declared))?;
        match name {
            "" => {
                self.run(|session| {
                    session.remember_with(&prepared, &declared);
                    Ok(())
                })?;
                self.unnamed = Some(NamedStatement { prepared });
            }
            name => self.session.name_statement(name, prepared)?,
        }
        self.wire.send(&ParseComplete::new())
    }

    pub(crate) fn bind(&mut self, bind: &Bind<'_>) -> Served {
        let statement = self.statement(bind.statement)?;
        let mut portal = statement.bind(bind)?;
        if !bind.portal.is_empty() {
            self.session.name_portal(bind.portal)?;
            let opened = self.open_cursor(bind.portal, &mut portal);
            if opened.is_err() {
                self.session.release_portal(bind.portal);
            }
            opened?;
        }
        self.portals.insert(bind.portal.to_owned(), portal);
        self.wire.send(&BindComplete::new())
    }

    /// Makes a cursor of a query that has a name and stands in a transaction, where SQL may read it.
    fn open_cursor(&mut self, name: &str, portal: &mut Portal) -> Served {
        let prepared = portal.statement.prepared.clone();
        let opened = self.run(|session| session.open_portal(name, &prepared, &portal.parameters));
        self.send_notices()?;
        if opened? {
            portal.state = PortalState::Cursor;
            portal.parameters = Vec::new();
        }
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<NamedStatement, Error> {
        match (name, &self.unnamed) {
            ("", Some(unnamed)) => Ok(unnamed.clone()),
            ("", None) => {
                let message = "unnamed prepared statement does not exist";
                Err(Error::new(SqlState::InvalidSqlStatementName, message))
            }
            (name, _) => {
                self.session.named(name).map(|prepared| NamedStatement { prepared: prepared.clone() })
            }
        }
    }

    pub(crate) fn describe(&mut self, target: DescribedObject, name: &str) -> Served {
        match target {
            DescribedObject::Statement => {
                let statement = self.statement(name)?;
                self.wire.send(&ParameterDescription::new(statement.parameter_oids()))?;
                self.describe_output(&statement, None)
            }
            DescribedObject::Portal => {
                let Some(portal) = self.portals.get(name) else {
                    return self.describe_cursor(name);
                };
                let (statement, formats) = (portal.statement.clone(), portal.formats.clone());
                self.describe_output(&statement, Some(formats))
            }
        }
    }

    /// A cursor that DECLARE made is a portal, too.
    fn describe_cursor(&mut self, name: &str) -> Served {
        let (columns, is_binary) = self.session.cursor_output(name).ok_or_else(|| unknown_portal(name))?;
        let format = if is_binary { WireFormat::Binary } else { WireFormat::Text };
        send_description(&mut self.wire, &columns, &vec![format; columns.len()])
    }

    /// Before Bind the formats are not known; they are announced as text.
    fn describe_output(&mut self, statement: &NamedStatement, formats: Option<Vec<WireFormat>>) -> Served {
        match statement.output() {
            Some(columns) => {
                let formats = formats.unwrap_or_else(|| vec![WireFormat::Text; columns.len()]);
                send_description(&mut self.wire, columns, &formats)
            }
            None => self.wire.send(&NoData::new()),
        }
    }

    pub(crate) fn execute_portal(&mut self, name: &str, max_rows: usize) -> Served {
        // Taken out of the map while it runs; put back only if it may be executed again.
        let mut portal = self.portals.remove(name).ok_or_else(|| unknown_portal(name))?;
        let limit = if max_rows == 0 { usize::MAX } else { max_rows };
        let ran = match portal.is_cursor() {
            true => self.run_cursor(name, &portal, limit),
            false => self.run_portal(&mut portal, limit),
        };
        if ran.is_err() {
            self.session.release_portal(name);
        }
        ran?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    fn run_cursor(&mut self, name: &str, portal: &Portal, limit: usize) -> Served {
        let prepared = portal.statement.prepared.clone();
        let rows = self.run(|session| session.fetch_portal(name, &prepared, limit as u64));
        self.send_notices()?;
        match RunningRows::new(rows?, portal.formats.clone()).send(&mut self.wire, limit)? {
            SendProgress::Complete(tag) => self.wire.send(&CommandComplete::new(tag)),
            SendProgress::Suspended => self.wire.send(&PortalSuspended::new()),
        }
    }

    fn run_portal(&mut self, portal: &mut Portal, limit: usize) -> Served {
        let prepared = portal.statement.prepared.clone();
        if prepared.is_empty() {
            return self.wire.send(&EmptyQueryResponse::new());
        }
        let mut running = match std::mem::replace(&mut portal.state, PortalState::Finished) {
            PortalState::Running(running) => running,
            PortalState::Finished | PortalState::Cursor => {
                let message = "portal has been run to completion and cannot be run again";
                return Err(Error::new(SqlState::InvalidCursorName, message).into());
            }
            PortalState::Bound => {
                let alone = self.wire.peek_kind() == Some(SYNC);
                if !alone && self.session.transaction_status() == TransactionStatus::Idle {
                    self.begin_implicit();
                }
                let parameters = std::mem::take(&mut portal.parameters);
                let outcome = self.execute(&prepared, &parameters)?;
                let formats = portal.formats.clone();
                match self.run_outcome(outcome, formats)? {
                    Some(running) => running,
                    None => return Ok(()),
                }
            }
        };
        match running.send(&mut self.wire, limit)? {
            SendProgress::Complete(tag) => self.wire.send(&CommandComplete::new(tag)),
            SendProgress::Suspended => {
                portal.state = PortalState::Running(running);
                self.wire.send(&PortalSuspended::new())
            }
        }
    }

    /// Finishes everything but rows, which are returned.
    fn run_outcome(
        &mut self,
        outcome: Outcome,
        formats: Vec<WireFormat>,
    ) -> Served<Option<Box<RunningRows>>> {
        let tag = match outcome {
            Outcome::Rows(rows) => return Ok(Some(Box::new(RunningRows::new(rows, formats)))),
            Outcome::Command(tag) => tag,
            Outcome::CopyIn(copy) => self.copy_in(*copy)?,
            Outcome::CopyOut(copy) => self.copy_out(*copy)?,
        };
        self.wire.send(&CommandComplete::new(tag))?;
        Ok(None)
    }

    /// Closing something that does not exist is no error.
    pub(crate) fn close(&mut self, target: DescribedObject, name: &str) -> Served {
        match target {
            DescribedObject::Statement if name.is_empty() => self.unnamed = None,
            DescribedObject::Statement => drop(self.session.forget_statement(name)),
            DescribedObject::Portal => match self.portals.remove(name) {
                Some(_) => {
                    self.session.release_portal(name);
                    self.session.close_cursor(name);
                }
                None => drop(self.session.close_cursor(name)),
            },
        }
        self.wire.send(&CloseComplete::new())
    }
}

fn unknown_portal(name: &str) -> Error {
    Error::new(SqlState::InvalidCursorName, format!("portal \"{name}\" does not exist"))
}
