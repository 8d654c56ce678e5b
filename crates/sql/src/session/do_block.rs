//! DO: runs the steps of a block in the open transaction, or in one of its own (docs/design/do-blocks.md).

use super::SqlSession;
use super::notice::Severity;
use crate::command::Command;
use crate::do_block::{Block, DoStep, DoStepKind, Level, read};
use crate::name::not_supported;
use crate::parse::{Statement, parse};
use crate::plan::{PlanKind, Utility};
use crate::{Outcome, ResultRows};
use ankerdb_engine::{Error, Result, SqlState, Value};

/// The savepoints of blocks that handle errors. No client can write the name.
const SAVEPOINT: &str = "\0block";

/// Whether the steps behind this one are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoesOn,
    Returns,
}

impl SqlSession {
    /// Runs the block of a DO.
    ///
    /// # Errors
    /// Those of its text and of its statements, which undo all of it.
    pub(super) fn run_do(&mut self, text: &str) -> Result<Outcome> {
        let block = read(text)?;
        let former = self.enter_block();
        let done = self.run_block(&block);
        self.leave_block(former, done.is_ok())?;
        done.map(|_| Outcome::Command("DO".into()))
    }

    fn run_block(&mut self, block: &Block) -> Result<Flow> {
        if block.handlers.is_empty() {
            return self.run_steps(&block.steps);
        }
        self.set_savepoint(SAVEPOINT)?;
        let error = match self.run_steps(&block.steps) {
            Ok(flow) => {
                self.release_savepoint(SAVEPOINT)?;
                return Ok(flow);
            }
            Err(error) => error,
        };
        // The transaction cannot go on behind an error of the whole of it.
        let handler = block.handlers.iter().find(|handler| handler.catches(&error) && !error.is_retryable());
        let Some(handler) = handler else {
            self.release_savepoint(SAVEPOINT)?;
            return Err(error);
        };
        self.runner.interrupt().check()?;
        self.rollback_to(SAVEPOINT)?;
        self.release_savepoint(SAVEPOINT)?;
        self.run_steps(&handler.steps)
    }

    fn run_steps(&mut self, steps: &[DoStep]) -> Result<Flow> {
        for step in steps {
            self.runner.interrupt().check()?;
            let flow = self.run_step(&step.kind).map_err(|error| in_step(error, step))?;
            if flow == Flow::Returns {
                return Ok(flow);
            }
        }
        Ok(Flow::GoesOn)
    }

    fn run_step(&mut self, step: &DoStepKind) -> Result<Flow> {
        match step {
            DoStepKind::Nothing => {}
            DoStepKind::Return => return Ok(Flow::Returns),
            DoStepKind::Block(block) => return self.run_block(block),
            DoStepKind::If { branches, otherwise } => {
                for (condition, steps) in branches {
                    if self.value_of(condition)? == Value::Boolean(true) {
                        return self.run_steps(steps);
                    }
                }
                return self.run_steps(otherwise);
            }
            DoStepKind::Statement(statement) => {
                if self.run_statement(statement)?.is_some() {
                    let message = "query has no destination for result data";
                    let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                    return Err(Error::new(SqlState::SyntaxError, message).with_hint(hint));
                }
            }
            DoStepKind::Perform(query) => drop(self.run_statement(query)?),
            DoStepKind::Execute(text) => {
                let Value::Text(text) = self.value_of(text)? else {
                    let message = "query string argument of EXECUTE is null";
                    return Err(Error::new(SqlState::NullValueNotAllowed, message));
                };
                for statement in parse(&text)? {
                    self.run_statement(&statement)?;
                }
            }
            DoStepKind::Raise { level, format, arguments } => self.raise(*level, format, arguments)?,
        }
        Ok(Flow::GoesOn)
    }

    /// Runs a statement, and returns its rows if it has some.
    fn run_statement(&mut self, statement: &Statement) -> Result<Option<ResultRows>> {
        match statement.command.as_deref() {
            None
            | Some(
                Command::Notify { .. } | Command::SetConstraints { .. } | Command::Do(_) | Command::Absent(_),
            ) => {}
            Some(command) => return Err(not_supported(&format!("{} in DO", command.tag()))),
        }
        self.catch_up()?;
        let prepared = self.plan(statement.clone(), &[])?;
        let planned = prepared.plan_of_now(&self.runner);
        if let Some(PlanKind::Utility(utility)) = planned.as_ref().map(|planned| &planned.kind) {
            self.check_utility(utility)?;
        }
        match self.execute_current(&prepared, &[])? {
            Outcome::Rows(rows) => self.read_whole(rows).map(Some),
            Outcome::Command(_) => Ok(None),
            Outcome::CopyIn(_) | Outcome::CopyOut(_) => Err(not_supported("COPY from or to a client in DO")),
        }
    }

    /// 2D000 for what would end the client's transaction; 0A000 for what would end that of the statement, for savepoints, and for
    /// what a transaction cannot do.
    fn check_utility(&self, utility: &Utility) -> Result<()> {
        match utility {
            Utility::Commit { .. } | Utility::Rollback { .. } if !self.block.ends_with_statement() => {
                let message = "invalid transaction termination";
                Err(Error::new(SqlState::InvalidTransactionTermination, message))
            }
            Utility::Commit { .. } | Utility::Rollback { .. } => {
                Err(not_supported("COMMIT and ROLLBACK in DO"))
            }
            Utility::Begin(..)
            | Utility::Savepoint(_)
            | Utility::Release(_)
            | Utility::RollbackTo(_)
            | Utility::Discard { .. } => Err(not_supported("such a transaction command in DO")),
            _ => Ok(()),
        }
    }

    /// The only value of a query.
    fn value_of(&mut self, query: &Statement) -> Result<Value> {
        let Some(mut rows) = self.run_statement(query)? else { return Ok(Value::Null) };
        let batch = rows.next_batch_unless(&self.runner.cancel)?;
        let row = batch.and_then(|batch| batch.into_rows().into_iter().next());
        Ok(row.and_then(|row| row.into_iter().next()).unwrap_or(Value::Null))
    }

    fn raise(&mut self, level: Level, format: &str, arguments: &[Statement]) -> Result<()> {
        let mut shown = Vec::with_capacity(arguments.len());
        for argument in arguments {
            shown.push(match self.value_of(argument)? {
                Value::Text(text) => text.to_string(),
                _ => "<NULL>".to_owned(),
            });
        }
        let mut shown = shown.iter();
        let part = |part: &str| {
            let mut text = String::new();
            for (place, piece) in part.split('%').enumerate() {
                text.push_str(if place > 0 { shown.next().map_or("", String::as_str) } else { "" });
                text.push_str(piece);
            }
            text
        };
        let message = format.split("%%").map(part).collect::<Vec<_>>().join("%");
        match level {
            Level::Exception => return Err(Error::new(SqlState::RaiseException, message)),
            Level::Warning => self.tell(Severity::Warning, Error::new(SqlState::Warning, message)),
            Level::Notice => self.tell_notices([message]),
            Level::Log => {}
        }
        Ok(())
    }
}

/// The error with the line of the block that it is from, instead of a place in the text of the statement.
fn in_step(error: Error, step: &DoStep) -> Error {
    if error.context().is_some() {
        return error;
    }
    let place = format!("PL/pgSQL function inline_code_block line {} at {}", step.line, step.kind.name());
    let context = match &step.kind {
        DoStepKind::Statement(statement) => format!("SQL statement \"{}\"\n{place}", statement.sql()),
        _ => place,
    };
    error.without_position().with_context(context)
}
