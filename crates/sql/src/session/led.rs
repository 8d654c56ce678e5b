//! Statements inside of a transaction that the caller leads: a procedure, an interactive transaction of an embedding program,
//! or one that reads a snapshot. The session lends its settings, its interrupt and its limit of time; the caller begins,
//! commits and repeats the transaction.

use super::as_of::{check_unchanged, told_of_index};
use super::{SqlSession, check_count, note_reads};
use crate::Outcome;
use crate::execute;
use crate::kept_snapshots::KeptSnapshot;
use crate::plan::{PlanKind, QueryPlan};
use crate::prepared::Prepared;
use ankerdb_engine::{Error, Result, SqlState, Transaction, Value};
use ankerdb_value::enter_present;

impl SqlSession {
    /// Runs a statement in the caller's transaction. `began`: when that began, in microseconds since 1970, which `now()`
    /// gives. Rows are locked before they are written in interactive transactions, and in no others.
    ///
    /// Interrupts of earlier statements are not forgotten: once the interrupt is raised, the transaction has to end.
    /// After an error nothing more should be done in it, as the statement may have written a part of its rows.
    ///
    /// # Errors
    /// Those of the statement. `ActiveSqlTransaction` for one that has no place in a transaction: definitions, COPY,
    /// transaction control, settings.
    pub fn execute_in(
        &mut self,
        transaction: &mut Transaction,
        began: i64,
        prepared: &Prepared,
        parameters: &[Value],
    ) -> Result<Outcome> {
        self.deadline = None;
        enter_present(Some(began));
        self.runner.interrupt().check()?;
        let limit = self.settings.limits.statement;
        self.deadline = limit.map(|limit| self.runner.engine.deadlines().set(limit, self.cancel_handle()));
        // Its transaction commits elsewhere.
        self.seen.note_action();
        let outcome = self.begin_as_of(prepared).and_then(|begun| {
            let (kept, mut own) = begun.unzip();
            let transaction = own.as_mut().unwrap_or(transaction);
            let done = self.run_in(transaction, began, prepared, parameters, kept.as_deref());
            match kept {
                None => done,
                Some(kept) => done.map_err(|error| told_of_index(error, prepared, &kept, &self.runner)),
            }
        });
        if !matches!(&outcome, Ok(Outcome::Rows(rows)) if !rows.is_complete()) {
            self.deadline = None;
        }
        outcome
    }

    fn run_in(
        &mut self,
        transaction: &mut Transaction,
        began: i64,
        prepared: &Prepared,
        parameters: &[Value],
        kept: Option<&KeptSnapshot>,
    ) -> Result<Outcome> {
        check_count(prepared, parameters)?;
        let planned = prepared.current(&self.runner)?;
        if let Some(kept) = kept {
            check_unchanged(kept, prepared, &planned, &self.runner)?;
        }
        transaction.begin_statement();
        let locking = transaction.is_interactive();
        match &planned.kind {
            PlanKind::Empty => Ok(Outcome::Command(String::new())),
            PlanKind::Query(QueryPlan::Select(plan)) => {
                let environment = self.runner.environment(parameters, began, locking);
                let done = self.runner.run_select(plan, transaction, &environment)?;
                Ok(self.ready(&planned, done.rows, None))
            }
            PlanKind::Lookup(plan) => {
                let environment = self.runner.environment(parameters, began, locking);
                match execute::lookup(plan, transaction, &environment)? {
                    Some(done) => Ok(self.ready(&planned, done.rows, None)),
                    None => {
                        prepared.plan_without_lookups(&self.runner)?;
                        self.run_in(transaction, began, prepared, parameters, kept)
                    }
                }
            }
            PlanKind::Query(QueryPlan::Analytical(plan)) => {
                note_reads(plan, transaction)?;
                let (view, cancel) = (transaction.read_view(), self.runner.cancel.clone());
                let after = self.runner.after(plan, began);
                Ok(Outcome::Rows(self.runner.engine.olap().run_after(plan, parameters, view, after, cancel)))
            }
            PlanKind::Write(plan) => {
                let done = self.runner.run_write(plan, transaction, parameters, began, locking)?;
                let tag = plan.tag(done.count);
                Ok(match planned.output {
                    Some(_) => self.ready(&planned, done.rows, Some(tag)),
                    None => Outcome::Command(tag),
                })
            }
            PlanKind::Explain(plan) if plan.options.analyze => Err(out_of_place("EXPLAIN ANALYZE")),
            PlanKind::Explain(plan) => self.explain(&planned, plan, parameters),
            PlanKind::Define(definition) => Err(out_of_place(definition.command())),
            PlanKind::Copy(_) => Err(out_of_place("COPY")),
            PlanKind::Utility(_) | PlanKind::Command => Err(out_of_place("a statement about the session")),
        }
    }
}

fn out_of_place(command: &str) -> Error {
    Error::new(SqlState::ActiveSqlTransaction, format!("{command} cannot run inside a transaction block"))
}
