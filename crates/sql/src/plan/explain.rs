//! EXPLAIN: the plan as lines of text.

use super::access::{Access, IndexRange, IndexUse};
use super::write::{ConflictAction, InsertSource};
use super::{InsertPlan, PlanKind, Planner, QueryPlan, WritePlan};
use crate::OutputColumn;
use crate::expression::Parameters;
use ankerdb_engine::{DataType, Direction, Result, Table};
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

impl Planner<'_> {
    /// Plans EXPLAIN of a statement.
    pub(super) fn explain(
        &self,
        statement: &ast::Statement,
        parameters: &mut Parameters,
    ) -> Result<(PlanKind, Option<Arc<[OutputColumn]>>)> {
        let (kind, _) = self.plan_ast(statement, parameters)?;
        let lines = self.describe(&kind)?;
        let column = OutputColumn { name: "QUERY PLAN".into(), data_type: DataType::Text };
        Ok((PlanKind::Explain(lines), Some([column].into())))
    }

    fn describe(&self, kind: &PlanKind) -> Result<Vec<String>> {
        match kind {
            PlanKind::Query(query) => self.describe_query(query),
            PlanKind::Write(WritePlan::Insert(plan)) => self.describe_insert(plan),
            PlanKind::Write(WritePlan::Update(plan)) => {
                let mut lines = vec![format!("Update on {}", plan.table.name())];
                describe_access(Some(&plan.table), &plan.access, plan.filter.is_some(), &mut lines);
                Ok(lines)
            }
            PlanKind::Write(WritePlan::Delete(plan)) => {
                let mut lines = vec![format!("Delete on {}", plan.table.name())];
                describe_access(Some(&plan.table), &plan.access, plan.filter.is_some(), &mut lines);
                Ok(lines)
            }
            PlanKind::Empty
            | PlanKind::Define(_)
            | PlanKind::Utility(_)
            | PlanKind::Copy(_)
            | PlanKind::Explain(_) => Ok(vec!["Utility statement".to_owned()]),
        }
    }

    fn describe_query(&self, query: &QueryPlan) -> Result<Vec<String>> {
        let plan = match query {
            QueryPlan::Analytical(plan) => return self.engine.olap().explain_apart(plan, self.cancel),
            QueryPlan::Select(plan) => plan,
        };
        let mut lines = Vec::new();
        if plan.lock.is_some() {
            lines.push("Lock rows".to_owned());
        }
        if plan.limit.is_some() || plan.offset.is_some() {
            lines.push("Limit".to_owned());
        }
        if !plan.sort.is_empty() {
            lines.push(format!("Sort by {} keys", plan.sort.len()));
        }
        describe_access(plan.table.as_deref(), &plan.access, plan.filter.is_some(), &mut lines);
        Ok(lines)
    }

    fn describe_insert(&self, plan: &InsertPlan) -> Result<Vec<String>> {
        let mut lines = vec![format!("Insert on {}", plan.table.name())];
        match plan.conflict.as_ref().map(|conflict| &conflict.action) {
            None => {}
            Some(ConflictAction::Nothing) => lines.push("  On conflict: do nothing".into()),
            Some(ConflictAction::Update(..)) => lines.push("  On conflict: update".into()),
        }
        match &plan.source {
            InsertSource::Values(rows) => lines.push(format!("  Values: {} rows", rows.len())),
            InsertSource::Query(query, _) => {
                lines.extend(self.describe_query(query)?.into_iter().map(|line| format!("  {line}")));
            }
        }
        Ok(lines)
    }
}

fn describe_access(table: Option<&Table>, access: &Access, filter: bool, lines: &mut Vec<String>) {
    let name = table.map_or("", Table::name);
    lines.push(match access {
        Access::OneRow => "Result".to_owned(),
        Access::Find(used) => {
            format!("Index lookup using {} on {name} ({})", index_name(used), pinned(table, used))
        }
        Access::Range(range) => {
            let backward = if range.direction == Direction::Backward { " backward" } else { "" };
            format!(
                "Index range{backward} using {} on {name} ({})",
                index_name(&range.used),
                bounds(table, range)
            )
        }
        Access::Scan => format!("Row scan on {name}"),
    });
    if filter {
        lines.push("  Filter".to_owned());
    }
}

fn index_name(used: &IndexUse) -> &str {
    &used.index.definition().name
}

fn pinned(table: Option<&Table>, used: &IndexUse) -> String {
    let columns = &used.index.definition().columns[..used.key.len()];
    let names = columns.iter().map(|&column| format!("{} =", column_name(table, column)));
    names.collect::<Vec<_>>().join(", ")
}

fn bounds(table: Option<&Table>, range: &IndexRange) -> String {
    let mut words = pinned(table, &range.used);
    if let Some(&next) = range.used.index.definition().columns.get(range.used.key.len()) {
        let name = column_name(table, next);
        let mut add = |operator: &str| {
            let comma = if words.is_empty() { "" } else { ", " };
            words += &format!("{comma}{name} {operator}");
        };
        if range.among.is_some() {
            add("in");
        }
        if let Some(bound) = &range.lower {
            add(if bound.inclusive { ">=" } else { ">" });
        }
        if let Some(bound) = &range.upper {
            add(if bound.inclusive { "<=" } else { "<" });
        }
    }
    if words.is_empty() { "all".into() } else { words }
}

fn column_name(table: Option<&Table>, column: usize) -> &str {
    table.and_then(|table| table.columns().get(column)).map_or("?", |column| &column.name)
}
