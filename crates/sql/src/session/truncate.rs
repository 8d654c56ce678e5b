//! TRUNCATE: a DELETE of all rows of some tables, and of those that refer to them.

use super::SqlSession;
use super::autocommit::Sleeps;
use crate::execute;
use crate::plan::access::Access;
use crate::plan::{Definition, DeletePlan};
use crate::runner::Runner;
use ankerdb_engine::{
    ColumnSet, Error, QualifiedName, RelationName, Result, Sequence, SqlState, Table, Transaction,
};
use std::sync::Arc;

impl SqlSession {
    /// The tables that are emptied: those that are named, and with CASCADE those that refer to them.
    ///
    /// # Errors
    /// `UndefinedTable`; `FeatureNotSupported` if others refer to one and it does not cascade.
    pub(super) fn truncated_tables(
        &mut self,
        names: &[QualifiedName],
        cascade: bool,
    ) -> Result<Vec<RelationName>> {
        let catalog = self.runner.catalog();
        let find = |name| {
            if let Some(view) = catalog.view(name) {
                let message = format!("\"{}\" is not a table", view.name);
                return Err(Error::new(SqlState::WrongObjectType, message));
            }
            let table = catalog.table(name)?;
            match table.definition().materialized {
                None => Ok(RelationName::of(&table)),
                Some(_) => {
                    let message = format!("\"{}\" is not a table", table.name());
                    Err(Error::new(SqlState::WrongObjectType, message))
                }
            }
        };
        let mut all = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        let mut next = 0;
        while let Some(name) = all.get(next) {
            let table = catalog.table(name)?;
            for (child, _) in catalog.references_to(&table) {
                if all.contains(&RelationName::of(&child)) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{}\" references \"{}\".", child.name(), table.name());
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name()
                    );
                    let error = Error::new(SqlState::FeatureNotSupported, message);
                    return Err(error.with_detail(detail).with_hint(hint));
                }
                self.tell_cascade("truncate", child.name());
                all.push(RelationName::of(&child));
            }
            next += 1;
        }
        Ok(all)
    }

    /// Lets the sequences of these tables' columns begin again. A rollback takes that back, as ALTER SEQUENCE ... RESTART.
    pub(super) fn restart_sequences(&mut self, tables: &[RelationName]) -> Result<()> {
        let catalog = self.runner.catalog();
        let is_of_one = |sequence: &&Arc<Sequence>| {
            sequence.definition().owner.as_ref().is_some_and(|(table, _)| tables.contains(table))
        };
        for sequence in catalog.sequences().filter(is_of_one) {
            let schema = Some(catalog.schema_name(sequence.definition().schema).to_owned());
            let restart = Definition::AlterSequence {
                name: QualifiedName { schema, name: sequence.name().to_owned() },
                data_type: None,
                options: Vec::new(),
                restart: Some(None),
                owner: None,
                if_exists: false,
            };
            self.define(&restart, &[])?;
        }
        Ok(())
    }

    /// Deletes all rows, as a DELETE without condition does: of all tables, or of none.
    pub(super) fn truncate(&mut self, names: &[RelationName]) -> Result<()> {
        let catalog = self.runner.catalog();
        let plan = |name: &RelationName| catalog.table(name).map(delete_all);
        let plans: Vec<DeletePlan> = names.iter().map(plan).collect::<Result<_>>()?;
        let delete = |plan: &DeletePlan, runner: &Runner, transaction: &mut Transaction, locking| {
            execute::delete(plan, transaction, &runner.environment(&[], 0, locking)).map(drop)
        };
        if self.block.is_open() {
            // Each table is a statement of its own, which can run again when it has waited.
            return plans.iter().enumerate().try_for_each(|(position, plan)| {
                self.in_block(|runner, transaction| {
                    if position == 0 {
                        begin(&plans, transaction)?;
                    }
                    delete(plan, runner, transaction, true)?;
                    if position + 1 == plans.len() { end(transaction) } else { Ok(()) }
                })
            });
        }
        self.autocommit(Sleeps::Perhaps, |runner, transaction, locking| {
            begin(&plans, transaction)?;
            plans.iter().try_for_each(|plan| delete(plan, runner, transaction, locking))?;
            end(transaction)
        })
    }
}

/// Those that refer to the rows of one table are emptied, too.
fn begin(plans: &[DeletePlan], transaction: &mut Transaction) -> Result<()> {
    plans.iter().try_for_each(|plan| {
        transaction.check_none_deferred(&plan.table, "TRUNCATE")?;
        transaction.begin_emptying(&plan.table)
    })
}

fn end(transaction: &mut Transaction) -> Result<()> {
    transaction.emptied();
    transaction.check_constraints()
}

/// Deletes all rows of a table.
pub(super) fn delete_all(table: Arc<Table>) -> DeletePlan {
    DeletePlan {
        table,
        access: Access::Scan,
        filter: None,
        columns: ColumnSet::EMPTY,
        returning: None,
        subqueries: Vec::new(),
    }
}
