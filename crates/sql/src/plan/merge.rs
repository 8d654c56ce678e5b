//! MERGE.

use super::default::defaults;
use super::joined::{Action, Clause, Join, JoinedTables, Names};
use super::write::{WritePlan, check_width, is_default, overriding, target_columns};
use super::{Planner, joined};
use crate::clauses::{DEFAULTS, NOTHING};
use crate::expression::bind::{Bound, elsewhere};
use crate::expression::{Expression, Parameters};
use crate::updatable::Verb;
use ankerdb_engine::{Error, SqlState};
use datafusion::sql::sqlparser::ast::{self, MergeAction, MergeClauseKind};

impl Planner<'_> {
    /// Plans a MERGE.
    pub(super) fn merge(
        &self,
        with: Option<&ast::With>,
        merge: &ast::Merge,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        if merge.output.is_some() {
            return elsewhere("MERGE with RETURNING");
        }
        let target = ast::TableWithJoins { relation: merge.table.clone(), joins: Vec::new() };
        let source = ast::TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
        self.check_merged(&merge.table)?;
        let target = self.written_target(&target, Verb::Merge)?;
        let mut join = Join::new(self, target, with, parameters)?;
        join.learn(std::slice::from_ref(&source))?;
        check_reachable(&merge.clauses)?;
        let clauses = merge.clauses.iter().map(|clause| join.clause(clause)).collect::<Bound<Vec<_>>>()?;
        let keeps_all = clauses.iter().any(|clause| !clause.matched);
        join.finish("MERGE", JoinedTables::Merged(&merge.source, &merge.on, keeps_all), clauses, None)
    }
}

impl Planner<'_> {
    /// 0A000 for a materialized view.
    fn check_merged(&self, target: &ast::TableFactor) -> Bound<()> {
        let ast::TableFactor::Table { name, .. } = target else { return Ok(()) };
        let table = self.catalog.table(&crate::name::object_name(name)?);
        match table {
            Ok(table) if table.definition().materialized.is_some() => {
                let message =
                    format!("cannot execute MERGE on relation {}", crate::name::quoted(table.name()));
                let detail = "This operation is not supported for materialized views.";
                Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail).into())
            }
            _ => Ok(()),
        }
    }
}

/// 42601 for a clause behind one without a condition that is for the same rows.
fn check_reachable(clauses: &[ast::MergeClause]) -> Bound<()> {
    let mut closed: Vec<MergeClauseKind> = Vec::new();
    for clause in clauses {
        if closed.contains(&clause.clause_kind) {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(Error::new(SqlState::SyntaxError, message).into());
        }
        if clause.predicate.is_none() {
            closed.push(clause.clause_kind);
        }
    }
    Ok(())
}

impl joined::Join<'_> {
    fn clause(&mut self, clause: &ast::MergeClause) -> Bound<Clause> {
        let matched = match clause.clause_kind {
            MergeClauseKind::Matched => true,
            MergeClauseKind::NotMatched => false,
            _ => return elsewhere("WHEN NOT MATCHED BY"),
        };
        let names = if matched { Names::All } else { Names::Others };
        let condition = match &clause.predicate {
            Some(predicate) => Some(self.condition(predicate, names)?),
            None => None,
        };
        let action = match &clause.action {
            MergeAction::Delete { .. } => Action::Delete,
            MergeAction::Update(update) if is_nothing_assigned(update) => Action::Nothing,
            MergeAction::Update(update) => match (&update.update_predicate, &update.delete_predicate) {
                (None, None) => Action::Update(self.assignments(&update.assignments)?),
                _ => return elsewhere("WHERE in a clause of MERGE"),
            },
            MergeAction::Insert(insert) if named(insert, NOTHING) => Action::Nothing,
            MergeAction::Insert(insert) => Action::Insert(self.new_row(insert)?),
        };
        Ok(Clause { matched, condition, action })
    }

    fn new_row(&mut self, insert: &ast::MergeInsertExpr) -> Bound<Vec<Expression>> {
        if insert.insert_predicate.is_some() {
            return elsewhere("WHERE in a clause of MERGE");
        }
        let table = self.target.table.clone();
        if named(insert, DEFAULTS) {
            return defaults(&table, &self.target.schema, |_| true);
        }
        let ast::MergeInsertKind::Values(values) = &insert.kind else { return elsewhere("INSERT ROW") };
        let [row] = values.rows.as_slice() else {
            return Err(Error::new(SqlState::SyntaxError, "MERGE inserts one row at a time").into());
        };
        let (overriding, columns) = overriding(&insert.columns);
        let targets = target_columns(&self.target, columns)?;
        check_width(row.content.len(), targets.len(), !columns.is_empty())?;
        let is_given = |column: usize, expr: &ast::Expr| {
            !is_default(expr) && !overriding.is_ignored(&table.columns()[column])
        };
        let given: Vec<(usize, &ast::Expr)> =
            targets.into_iter().zip(&row.content).filter(|(column, expr)| is_given(*column, expr)).collect();
        let mut values =
            defaults(&table, &self.target.schema, |column| given.iter().all(|(other, _)| *other != column))?;
        for (column, expr) in given {
            overriding.check_given(&table.columns()[column])?;
            values[column] = self.value(expr, column, Names::Others)?;
        }
        Ok(values)
    }
}

fn named(insert: &ast::MergeInsertExpr, word: &str) -> bool {
    matches!(insert.columns.as_slice(), [column] if column.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value == word))
}

fn is_nothing_assigned(update: &ast::MergeUpdateExpr) -> bool {
    matches!(
        update.assignments.as_slice(),
        [ast::Assignment { target: ast::AssignmentTarget::ColumnName(name), .. }]
            if name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| ident.value == NOTHING)
    )
}
