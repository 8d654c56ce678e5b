//! EXPLAIN of a statement: what its plan is made of, as a tree of nodes in PostgreSQL's words. A node of the OLAP path is DataFusion's, in
//! DataFusion's words. With ANALYZE the plan is described after its run, with what that has noted.

use super::access::{Access, Among, IndexRange, IndexUse, KeyPart, SortKey};
use super::deparse::{Deparser, identifier};
use super::derivation::computed_key;
use super::write::{ConflictAction, InsertSource};
use super::{
    InsertPlan, LastStep, LookupPlan, LookupStep, PlanKind, Planned, Planner, QueryPlan, SelectPlan,
    WritePlan,
};
use crate::CancelHandle;
use crate::OutputColumn;
use crate::compiler_mode::CompilerMode;
use crate::explain::{Actual, ExplainOptions, Fact, Meter, PlanNode, Stage, address};
use crate::expression::{Expression, Parameters};
use crate::name::not_supported;
use crate::olap::{OlapEngine, OlapPlan, Telling};
use ankerdb_engine::{Direction, Result, Table};
use ankerdb_value::Clocks;
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// EXPLAIN of a statement, planned.
pub(crate) struct ExplainPlan {
    pub options: ExplainOptions,
    /// The statement's plan.
    pub explained: Box<Planned>,
    /// What is shown of it where it is not run.
    pub nodes: Vec<PlanNode>,
    pub planning_time: Duration,
}

impl Planner<'_> {
    /// Plans EXPLAIN of a statement.
    pub(super) fn explain(
        &self,
        statement: &ast::Statement,
        options: ExplainOptions,
        parameters: &mut Parameters,
    ) -> Result<(PlanKind, Option<Arc<[OutputColumn]>>)> {
        let begun = Instant::now();
        let (kind, output) = self.plan_ast(statement, parameters)?;
        let (version, path) = (self.catalog.version(), self.catalog.path().clone());
        let explained = Box::new(Planned {
            version,
            path,
            clocks: Clocks::current(),
            present: None,
            kind,
            parameters: Vec::new(),
            output,
            locks: Arc::default(),
        });
        let planning_time = begun.elapsed();
        let nodes = match options.analyze {
            true if !matches!(
                explained.kind,
                PlanKind::Query(_) | PlanKind::Lookup(_) | PlanKind::Write(_)
            ) =>
            {
                return Err(not_supported("EXPLAIN ANALYZE of such a statement"));
            }
            true => Vec::new(),
            false => {
                let (olap, cancel, verbose) = (self.engine.olap(), self.cancel, options.verbose);
                let compiler = self.session.compiler();
                Describer { olap, cancel, verbose, compiler, meter: None }.nodes(&explained)?
            }
        };
        let column = OutputColumn::new("QUERY PLAN", options.result_type());
        let plan = ExplainPlan { options, explained, nodes, planning_time };
        Ok((PlanKind::Explain(Box::new(plan)), Some([column].into())))
    }
}

/// Describes plans, and what a run of them has noted.
pub(crate) struct Describer<'a> {
    pub olap: &'a OlapEngine,
    /// Ends planning that takes too long.
    pub cancel: &'a CancelHandle,
    /// Whether the columns of results are shown, too.
    pub verbose: bool,
    pub compiler: CompilerMode,
    pub meter: Option<&'a Meter>,
}

impl Describer<'_> {
    pub(crate) fn nodes(&self, planned: &Planned) -> Result<Vec<PlanNode>> {
        match &planned.kind {
            PlanKind::Query(query) => Ok(vec![self.query(query)?]),
            PlanKind::Lookup(plan) => Ok(vec![self.lookup(plan)]),
            PlanKind::Write(plan) => Ok(vec![self.write(plan)?]),
            PlanKind::Empty
            | PlanKind::Define(_)
            | PlanKind::Utility(_)
            | PlanKind::Copy(_)
            | PlanKind::Explain(_)
            | PlanKind::Command => {
                Ok(vec![PlanNode::new("Utility Statement", "Utility statements have no plan structure")])
            }
        }
    }

    fn actual(&self, part: usize, stage: Stage) -> Option<Actual> {
        self.meter.and_then(|meter| meter.actual(part, stage))
    }

    fn analytical(&self, plan: &Arc<OlapPlan>) -> Result<PlanNode> {
        let telling = Telling { verbose: self.verbose, compiler: self.compiler };
        let probe = self.meter.map(|meter| meter.query(Arc::as_ptr(plan).addr()));
        match probe {
            None => self.olap.explain_apart(plan, telling, self.cancel),
            Some(Some(probe)) => self.olap.measured_apart(probe, telling, self.cancel),
            Some(None) => Ok(PlanNode::new("Query", "Query (never executed)")),
        }
    }

    fn write(&self, plan: &WritePlan) -> Result<PlanNode> {
        let node = match plan {
            WritePlan::Insert(plan) => self.insert(plan)?,
            WritePlan::Update(plan) => {
                let rows = self.access(Some(&plan.table), &plan.access, plan.filter.as_deref());
                modify("Update", &plan.table).over(rows)
            }
            WritePlan::Delete(plan) => {
                let rows = self.access(Some(&plan.table), &plan.access, plan.filter.as_deref());
                modify("Delete", &plan.table).over(rows)
            }
            WritePlan::Joined(plan) => {
                let command = match plan.command {
                    "UPDATE" => "Update",
                    "DELETE" => "Delete",
                    _ => "Merge",
                };
                modify(command, &plan.table).over(self.analytical(&plan.query)?)
            }
            WritePlan::With(plan) => {
                let mut node = match &plan.last {
                    LastStep::Write(plan) => self.write(plan)?,
                    LastStep::Query(plan, _) => self.analytical(plan)?,
                };
                for step in &plan.steps {
                    node = node.over(PlanNode::new("CTE", "CTE").over(self.write(&step.plan)?));
                }
                return Ok(node);
            }
        };
        Ok(node.measured(self.actual(address(plan), Stage::Whole)))
    }

    fn query(&self, query: &QueryPlan) -> Result<PlanNode> {
        match query {
            QueryPlan::Analytical(plan) => self.analytical(plan),
            QueryPlan::Select(plan) => Ok(self.select(plan)),
        }
    }

    fn lookup(&self, plan: &LookupPlan) -> PlanNode {
        let name = |column: usize| {
            let has =
                |step: &&LookupStep| column >= step.first && column - step.first < step.table.columns().len();
            let found = plan.steps.iter().find(has).map(|step| {
                let own = &step.table.columns()[column - step.first].name;
                format!("{}.{}", identifier(step.table.name()), identifier(own))
            });
            found.unwrap_or_default()
        };
        let mut node: Option<PlanNode> = None;
        for step in &plan.steps {
            let mut own = self.access(Some(&step.table), &step.access, step.filter.as_deref());
            if !step.outer.is_empty() {
                let outer = step.outer.iter().enumerate();
                let outer = outer
                    .map(|(number, column)| format!("${} = {}", plan.parameters + number + 1, name(*column)));
                own.facts.push(("Outer Columns", Fact::List(outer.collect())));
            }
            node = Some(match node {
                None => own,
                Some(before) => PlanNode::new("Nested Loop", "Nested Loop").over(before).over(own),
            });
        }
        let mut node = node.unwrap_or_else(|| PlanNode::new("Result", "Result"));
        if let Some(grouping) = &plan.grouping {
            let mut groups = PlanNode::new(
                "Aggregate",
                if grouping.keys.is_empty() { "Aggregate" } else { "HashAggregate" },
            );
            if !grouping.keys.is_empty() {
                groups
                    .facts
                    .push(("Group Key", Fact::List(grouping.keys.iter().map(|key| name(*key)).collect())));
            }
            node = groups.over(node);
        }
        if !plan.sort.is_empty() {
            node = PlanNode::new("Sort", "Sort").over(node);
        }
        if plan.limit.is_some() || plan.offset.is_some() {
            node = PlanNode::new("Limit", "Limit").over(node);
        }
        node.measured(self.actual(address(plan), Stage::Whole))
    }

    fn select(&self, plan: &SelectPlan) -> PlanNode {
        let table = plan.table.as_deref();
        let mut node = self.access(table, &plan.access, plan.filter.as_deref());
        let (at, whole) = (address(plan), self.actual(address(plan), Stage::Whole));
        if table.is_none() {
            node = node.measured(whole);
        }
        if self.verbose {
            let shown = plan.projection.iter().map(|part| Deparser(table).text(part)).collect();
            node.facts.insert(0, ("Output", Fact::List(shown)));
        }
        if !plan.sort.is_empty() {
            let mut sort = PlanNode::new("Sort", "Sort").measured(self.actual(at, Stage::Sort));
            sort.facts.push(("Sort Key", Fact::List(sort_keys(table, &plan.sort))));
            node = sort.over(node);
        }
        if plan.lock.is_some() {
            node = PlanNode::new("LockRows", "LockRows").measured(self.actual(at, Stage::Lock)).over(node);
        }
        if plan.limit.is_some() || plan.offset.is_some() {
            node = PlanNode::new("Limit", "Limit").measured(whole).over(node);
        }
        node
    }

    fn insert(&self, plan: &InsertPlan) -> Result<PlanNode> {
        let given = |rows: usize| {
            let rows = rows as u64;
            self.meter.map(|_| Actual { rows, times: None, removed: None })
        };
        let source = match &plan.source {
            InsertSource::Values(rows) if rows.len() == 1 => {
                PlanNode::new("Result", "Result").measured(given(1))
            }
            InsertSource::Values(rows) => {
                let values = PlanNode::new("Values Scan", "Values Scan on \"*VALUES*\"");
                values.part("Alias", "*VALUES*").measured(given(rows.len()))
            }
            InsertSource::Query(query, _) => self.query(query)?,
        };
        let mut node = modify("Insert", &plan.table);
        if let Some(conflict) = &plan.conflict {
            node = node.fact(
                "Conflict Resolution",
                match &conflict.action {
                    ConflictAction::Nothing => "NOTHING",
                    ConflictAction::Update(..) => "UPDATE",
                },
            );
        }
        if let Some(Actual { rows, removed, .. }) = self.actual(address(plan), Stage::Conflicts) {
            node.facts.push(("Tuples Inserted", Fact::Number(rows)));
            node.facts.push(("Conflicting Tuples", Fact::Number(removed.unwrap_or(0))));
        }
        Ok(node.over(source))
    }

    fn access(&self, table: Option<&Table>, access: &Access, filter: Option<&Expression>) -> PlanNode {
        let name = table.map_or(String::new(), |table| identifier(table.name()));
        let index = |used: &IndexUse| used.index.definition().name.clone();
        let (mut node, condition) = match access {
            Access::OneRow => (PlanNode::new("Result", "Result"), Vec::new()),
            Access::Find(used) => {
                let headline = format!("Index Scan using {} on {name}", index_name(used));
                let node = PlanNode::new("Index Scan", headline).part("Scan Direction", "Forward");
                (node.part("Index Name", index(used)), pinned(table, used))
            }
            Access::Range(range) => {
                let (word, direction) = match range.direction {
                    Direction::Backward => (" Backward", "Backward"),
                    Direction::Forward => ("", "Forward"),
                };
                let headline = format!("Index Scan{word} using {} on {name}", index_name(&range.used));
                let node = PlanNode::new("Index Scan", headline).part("Scan Direction", direction);
                (node.part("Index Name", index(&range.used)), bounds(table, range))
            }
            Access::AnyOf(ways) => {
                let conditions = ways.iter().map(|way| way_conditions(table, way)).collect::<Vec<_>>();
                let node = PlanNode::new("Index Scan", format!("Index Scan in several places of {name}"));
                (node, vec![format!("({})", conditions.join(" OR "))])
            }
            Access::Scan => (PlanNode::new("Seq Scan", format!("Seq Scan on {name}")), Vec::new()),
        };
        if let Some(table) = table {
            node = node.part("Relation Name", table.name()).part("Alias", table.name());
        }
        node = match condition.as_slice() {
            [] => node,
            [condition] => node.fact("Index Cond", condition.as_str()),
            conditions => node.fact("Index Cond", format!("({})", conditions.join(" AND "))),
        };
        if let Some(filter) = filter {
            let name = if table.is_some() { "Filter" } else { "One-Time Filter" };
            node = node.fact(name, Deparser(table).text(filter));
        }
        let actual = self.actual(address(access), Stage::Access);
        node.measured(actual.map(|actual| Actual { removed: filter.and(actual.removed), ..actual }))
    }
}

/// The node of a statement that writes to a table.
fn modify(command: &'static str, table: &Table) -> PlanNode {
    let node = PlanNode::new("ModifyTable", format!("{command} on {}", identifier(table.name())));
    node.part("Operation", command).part("Relation Name", table.name()).part("Alias", table.name())
}
fn index_name(used: &IndexUse) -> String {
    identifier(&used.index.definition().name)
}

/// The conditions on the columns of an index that have one value.
fn pinned(table: Option<&Table>, used: &IndexUse) -> Vec<String> {
    let parts = parts(table, used).into_iter();
    parts.zip(&used.key).map(|(name, part)| compared(table, &name, "=", part)).collect()
}

/// The conditions of one of several ways, with the name of its index.
fn way_conditions(table: Option<&Table>, way: &Access) -> String {
    let (used, conditions) = match way {
        Access::Find(used) => (used, pinned(table, used)),
        Access::Range(range) => (&range.used, bounds(table, range)),
        Access::OneRow | Access::AnyOf(_) | Access::Scan => return String::new(),
    };
    format!("{}: {}", index_name(used), conditions.join(" AND "))
}

/// The conditions that an index range stands for.
fn bounds(table: Option<&Table>, range: &IndexRange) -> Vec<String> {
    let mut conditions = pinned(table, &range.used);
    let Some(next) = parts(table, &range.used).into_iter().nth(range.used.key.len()) else {
        return conditions;
    };
    match &range.among {
        Some(Among::Values(values)) => {
            let values: Vec<String> = values.iter().map(|part| Deparser(table).text(&part.value)).collect();
            conditions.push(format!("({next} IN ({}))", values.join(", ")));
        }
        Some(Among::Array(array)) => {
            let array = Deparser(table).text(&array.value);
            conditions.push(format!("({next} = ANY ({array}))"));
        }
        None => {}
    }
    let ends = [(&range.lower, ">", ">="), (&range.upper, "<", "<=")];
    for (bound, exclusive, inclusive) in ends {
        if let Some(bound) = bound {
            let operator = if bound.inclusive { inclusive } else { exclusive };
            conditions.push(compared(table, &next, operator, &bound.part));
        }
    }
    conditions
}

/// The parts of an index's key.
fn parts(table: Option<&Table>, used: &IndexUse) -> Vec<String> {
    let deparser = Deparser(table);
    match computed_key(&used.index) {
        Some(key) => key.parts.iter().map(|part| deparser.text(part)).collect(),
        None => used.index.sources().iter().map(|&column| deparser.column(column)).collect(),
    }
}

fn compared(table: Option<&Table>, name: &str, operator: &str, part: &KeyPart) -> String {
    format!("({name} {operator} {})", Deparser(table).text(&part.value))
}

/// What rows are sorted by; the place of NULLs only where it is not the usual one.
fn sort_keys(table: Option<&Table>, keys: &[SortKey]) -> Vec<String> {
    let key = |key: &SortKey| {
        let direction = if key.descending { " DESC" } else { "" };
        let nulls = match (key.descending, key.nulls_first) {
            (true, false) => " NULLS LAST",
            (false, true) => " NULLS FIRST",
            _ => "",
        };
        format!("{}{direction}{nulls}", Deparser(table).text(&key.expression))
    };
    keys.iter().map(key).collect()
}
