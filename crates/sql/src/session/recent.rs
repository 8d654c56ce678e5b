//! Statements that are neither parsed nor planned when they come again; see [`crate::recent`].

use super::SqlSession;
use crate::parse::Statement;
use crate::plan::{InsertSource, PlanKind, QueryPlan, Utility, WritePlan};
use crate::prepared::Prepared;
use crate::recent::{Before, Recalled, Substituted, TEXT_BYTES_MAX};
use crate::runner::Runner;
use ankerdb_engine::{DataType, Value};
use std::sync::Arc;

impl SqlSession {
    /// The statement of a query string, and its parameters, if the string is that of one that was kept; it is then as good as parsed and
    /// prepared, and is shown as the message that it came with.
    pub fn recall(&mut self, sql: &str) -> Option<(Arc<Prepared>, Vec<Value>)> {
        self.find_recent(sql, None)
    }

    /// The statement of this text for parameters of these types, if it was kept.
    pub fn recall_with(&mut self, sql: &str, parameters: &[Option<DataType>]) -> Option<Arc<Prepared>> {
        let (prepared, _) = self.find_recent(sql, Some(parameters))?;
        self.publisher.begin(prepared.text());
        Some(prepared)
    }

    fn find_recent(
        &mut self,
        sql: &str,
        declared: Option<&[Option<DataType>]>,
    ) -> Option<(Arc<Prepared>, Vec<Value>)> {
        self.recent.enter(self.runner.catalog_version());
        self.recent.skip();
        // What would fail goes the usual way, which tells why; a transaction with definitions of its own has a catalog of its own.
        let is_usual = self.block.failed || self.runner.definitions.is_some();
        if sql.len() > TEXT_BYTES_MAX || is_usual || self.runner.interrupt().check().is_err() {
            return None;
        }
        self.settings.clocks.enter();
        self.runner.look_along(&self.settings.path);
        self.runner.activity.set_compiler(self.settings.compiler);
        let runner = &self.runner;
        let is_current =
            |prepared: &Prepared| prepared.plan_of_now(runner).is_some_and(|planned| is_kept(&planned.kind));
        self.recent.find(sql, declared, is_current)
    }

    /// Keeps the only statement of a text that [`recall`](Self::recall) did not find, if that is worth it.
    pub fn remember(&mut self, sql: &str, prepared: &Prepared) {
        // The moment that a statement is read as of is no part of its plan.
        let is_of_now = prepared.statement().as_of.is_none();
        let planned = prepared.plan_of_now(&self.runner);
        let Some(planned) = planned.filter(|planned| is_of_now && is_kept(&planned.kind)) else {
            return;
        };
        let is_short = sql.len() <= TEXT_BYTES_MAX && prepared.parameters().is_empty();
        let has_room = is_short && self.check_room().is_ok();
        let Some((outline, before)) = self.recent.wanted().filter(|_| has_room) else { return };
        let statement = prepared.statement();
        let Some(ast) = &statement.ast else { return };
        let is_analytical = is_analytical(&planned.kind);
        // A plan for the constants is never worse than one for any.
        let ways: &[bool] = if is_analytical && before == Before::SameText { &[] } else { &[true, false] };
        let substituted = ways.iter().find_map(|&with_strings| {
            let Substituted { statement: ast, fixed, declared } =
                Substituted::new(ast, sql, outline, with_strings)?;
            let with_parameters = Statement { ast: Some(Arc::new(ast)), ..statement.clone() };
            let prepared = planned_alike(&self.runner, with_parameters, &declared, &planned.kind)?;
            let planned = prepared.plan_of_now(&self.runner)?;
            if let PlanKind::Query(QueryPlan::Analytical(plan)) = &planned.kind {
                plan.has_come_again();
            }
            Some((prepared, fixed))
        });
        let whole = || {
            let prepared = match is_analytical {
                true => prepared.alike(),
                false => planned_alike(&self.runner, statement.clone(), &[], &planned.kind)?,
            };
            Some((prepared, Substituted::all_fixed(sql, outline)))
        };
        if let Some((prepared, fixed)) = substituted.or_else(whole) {
            let recalled = Recalled::new(Arc::new(prepared.unpromised()), fixed, &[]);
            self.recent.keep(if is_analytical { recalled.analytical() } else { recalled });
        }
    }

    /// Keeps the statement of a text that [`recall_with`](Self::recall_with) did not find for parameters of these types.
    pub fn remember_with(&mut self, prepared: &Arc<Prepared>, parameters: &[Option<DataType>]) {
        let planned = prepared.plan_of_now(&self.runner);
        let is_short = prepared.sql().len() <= TEXT_BYTES_MAX;
        let is_of_now = prepared.statement().as_of.is_none();
        if is_short
            && is_of_now
            && planned.as_ref().is_some_and(|planned| is_kept(&planned.kind))
            && self.check_room().is_ok()
            && self.recent.wanted().is_some()
        {
            let recalled = Recalled::new(prepared.clone(), Box::default(), parameters);
            let is_analytical = planned.is_some_and(|planned| is_analytical(&planned.kind));
            self.recent.keep(if is_analytical { recalled.analytical() } else { recalled });
        }
    }

    /// How many statements of late the session keeps, counted by what they take: some 17 KB for one. 0 if it keeps nothing of that kind.
    pub fn recent_statements(&self) -> usize {
        self.recent.weight()
    }

    /// Whether those are for a catalog that has changed: they will never be found again, and hold memory of tables that may be gone.
    pub fn has_outdated_statements(&self) -> bool {
        self.recent.is_outdated(self.runner.catalog_version())
    }

    /// Forgets the statements of late, as the client does nothing. Their memory is given back when what is returned is dropped.
    pub fn forget_recent(&mut self) -> impl Send + use<> {
        self.recent.take()
    }
}

/// The statement, if its plan goes the same way as this one.
fn planned_alike(
    runner: &Runner,
    statement: Statement,
    declared: &[Option<DataType>],
    kind: &PlanKind,
) -> Option<Prepared> {
    let prepared = Prepared::new(runner, statement, declared).ok()?;
    let planned = prepared.plan_of_now(runner)?;
    let types = prepared.parameters();
    let is_as_declared = declared
        .iter()
        .zip(types)
        .all(|(declared, known)| declared.is_none_or(|declared| declared == *known));
    let is_alike = is_like(&planned.kind, kind) && types.iter().copied().all(is_plain);
    (is_alike && is_as_declared).then_some(prepared)
}

/// Whether strings are constants of the type by [`ankerdb_value::parse_text`] and nothing else.
fn is_plain(data_type: DataType) -> bool {
    use DataType::{Boolean, Char, Date, Text, Time, Timestamp, TimestampTz, Uuid, Varchar};
    data_type.is_numeric()
        || matches!(data_type, Text | Varchar(_) | Char(_) | Boolean | Uuid)
        || matches!(data_type, Date | Time(_) | Timestamp(_) | TimestampTz(_))
}

fn is_analytical(kind: &PlanKind) -> bool {
    matches!(kind, PlanKind::Query(QueryPlan::Analytical(_)))
}

/// Whether a statement is kept.
fn is_kept(kind: &PlanKind) -> bool {
    match kind {
        PlanKind::Query(QueryPlan::Select(plan)) => plan.subqueries.is_empty(),
        PlanKind::Query(QueryPlan::Analytical(plan)) => plan.is_repeatable(),
        PlanKind::Lookup(_) => true,
        PlanKind::Write(plan) => {
            let is_plain = match plan {
                WritePlan::Insert(plan) => matches!(plan.source, InsertSource::Values(_)),
                WritePlan::Update(_) | WritePlan::Delete(_) => true,
                WritePlan::Joined(_) | WritePlan::With(_) => false,
            };
            is_plain && plan.subqueries().is_empty()
        }
        PlanKind::Utility(utility) => {
            matches!(utility, Utility::Begin(..) | Utility::Commit { .. } | Utility::Rollback { .. })
        }
        _ => false,
    }
}

/// Whether two plans that may be kept go the same way, by other values.
fn is_like(one: &PlanKind, other: &PlanKind) -> bool {
    use PlanKind::{Lookup, Query, Utility, Write};
    use QueryPlan::{Analytical, Select};
    use WritePlan::{Delete, Insert, Update};
    match (one, other) {
        (Query(Select(one)), Query(Select(other))) => {
            one.access.is_like(&other.access) && one.sort.len() == other.sort.len()
        }
        (Query(Analytical(one)), Query(Analytical(_))) => one.takes_any_values(),
        (Lookup(one), Lookup(other)) => {
            let mut steps = one.steps.iter().zip(&other.steps);
            one.steps.len() == other.steps.len()
                && steps.all(|(one, other)| one.access.is_like(&other.access))
        }
        (Write(Insert(_)), Write(Insert(_))) => true,
        (Write(Update(one)), Write(Update(other))) => one.access.is_like(&other.access),
        (Write(Delete(one)), Write(Delete(other))) => one.access.is_like(&other.access),
        (Utility(_), Utility(_)) => true,
        _ => false,
    }
}
