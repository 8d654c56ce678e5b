//! EXPLAIN: the plan as lines of text, in PostgreSQL's form. A node is a line; its properties stand below it, and then the node that it
//! reads from, behind an arrow:
//!
//! ```text
//! Limit
//!   ->  Index Scan Backward using account_pkey on account
//!         Index Cond: (id < 10)
//!         Filter: (balance > 0)
//! ```
//!
//! A node of the OLAP path is DataFusion's, in DataFusion's words.

use super::access::{Access, Among, IndexRange, IndexUse, KeyPart, SortKey};
use super::deparse::{Deparser, identifier};
use super::derivation::computed_key;
use super::write::{ConflictAction, InsertSource};
use super::{InsertPlan, LastStep, PlanKind, Planner, QueryPlan, WritePlan};
use crate::OutputColumn;
use crate::expression::{Expression, Parameters};
use crate::name::not_supported;
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
            PlanKind::Write(plan) => self.describe_write(plan),
            PlanKind::Empty
            | PlanKind::Define(_)
            | PlanKind::Utility(_)
            | PlanKind::Copy(_)
            | PlanKind::Explain(_)
            | PlanKind::Command => Ok(vec!["Utility statements have no plan structure".to_owned()]),
        }
    }

    fn describe_write(&self, plan: &WritePlan) -> Result<Vec<String>> {
        match plan {
            WritePlan::Insert(plan) => self.describe_insert(plan),
            WritePlan::Update(plan) => {
                let rows = describe_access(Some(&plan.table), &plan.access, plan.filter.as_deref());
                Ok(above(format!("Update on {}", identifier(plan.table.name())), rows))
            }
            WritePlan::Delete(plan) => {
                let rows = describe_access(Some(&plan.table), &plan.access, plan.filter.as_deref());
                Ok(above(format!("Delete on {}", identifier(plan.table.name())), rows))
            }
            WritePlan::Joined(plan) => {
                let rows = self.engine.olap().explain_apart(&plan.query, self.cancel)?;
                let command = match plan.command {
                    "UPDATE" => "Update",
                    "DELETE" => "Delete",
                    _ => "Merge",
                };
                Ok(above(format!("{command} on {}", identifier(plan.table.name())), rows))
            }
            WritePlan::With(plan) => {
                let mut lines = match &plan.last {
                    LastStep::Write(plan) => self.describe_write(plan)?,
                    LastStep::Query(plan, _) => self.engine.olap().explain_apart(plan, self.cancel)?,
                };
                for step in &plan.steps {
                    lines.extend(above("CTE".to_owned(), self.describe_write(&step.plan)?));
                }
                Ok(lines)
            }
        }
    }

    fn describe_query(&self, query: &QueryPlan) -> Result<Vec<String>> {
        let plan = match query {
            QueryPlan::Analytical(plan) => return self.engine.olap().explain_apart(plan, self.cancel),
            QueryPlan::Select(plan) => plan,
        };
        let table = plan.table.as_deref();
        let mut lines = describe_access(table, &plan.access, plan.filter.as_deref());
        if !plan.sort.is_empty() {
            lines = above("Sort".to_owned(), lines);
            lines.insert(1, format!("  Sort Key: {}", sort_keys(table, &plan.sort)));
        }
        if plan.lock.is_some() {
            lines = above("LockRows".to_owned(), lines);
        }
        if plan.limit.is_some() || plan.offset.is_some() {
            lines = above("Limit".to_owned(), lines);
        }
        Ok(lines)
    }

    fn describe_insert(&self, plan: &InsertPlan) -> Result<Vec<String>> {
        let source = match &plan.source {
            InsertSource::Values(rows) if rows.len() == 1 => vec!["Result".to_owned()],
            InsertSource::Values(_) => vec!["Values Scan on \"*VALUES*\"".to_owned()],
            InsertSource::Query(query, _) => self.describe_query(query)?,
        };
        let mut lines = above(format!("Insert on {}", identifier(plan.table.name())), source);
        let resolution = plan.conflict.as_ref().map(|conflict| match &conflict.action {
            ConflictAction::Nothing => "NOTHING",
            ConflictAction::Update(..) => "UPDATE",
        });
        if let Some(resolution) = resolution {
            lines.insert(1, format!("  Conflict Resolution: {resolution}"));
        }
        Ok(lines)
    }
}

/// A node over the node that it reads from.
fn above(node: String, below: Vec<String>) -> Vec<String> {
    let nested = below.into_iter().enumerate().map(|(nth, line)| {
        let indent = if nth == 0 { "  ->  " } else { "      " };
        format!("{indent}{line}")
    });
    std::iter::once(node).chain(nested).collect()
}

fn describe_access(table: Option<&Table>, access: &Access, filter: Option<&Expression>) -> Vec<String> {
    let name = table.map_or(String::new(), |table| identifier(table.name()));
    let (node, condition) = match access {
        Access::OneRow => ("Result".to_owned(), Vec::new()),
        Access::Find(used) => {
            (format!("Index Scan using {} on {name}", index_name(used)), pinned(table, used))
        }
        Access::Range(range) => {
            let backward = if range.direction == Direction::Backward { " Backward" } else { "" };
            let index = index_name(&range.used);
            (format!("Index Scan{backward} using {index} on {name}"), bounds(table, range))
        }
        Access::Scan => (format!("Seq Scan on {name}"), Vec::new()),
    };
    let mut lines = vec![node];
    match condition.as_slice() {
        [] => {}
        [condition] => lines.push(format!("  Index Cond: {condition}")),
        conditions => lines.push(format!("  Index Cond: ({})", conditions.join(" AND "))),
    }
    lines.extend(filter.map(|filter| format!("  Filter: {}", Deparser(table).text(filter))));
    lines
}

fn index_name(used: &IndexUse) -> String {
    identifier(&used.index.definition().name)
}

/// The conditions on the columns of an index that have one value.
fn pinned(table: Option<&Table>, used: &IndexUse) -> Vec<String> {
    let parts = parts(table, used).into_iter();
    parts.zip(&used.key).map(|(name, part)| compared(table, &name, "=", part)).collect()
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
fn sort_keys(table: Option<&Table>, keys: &[SortKey]) -> String {
    let key = |key: &SortKey| {
        let direction = if key.descending { " DESC" } else { "" };
        let nulls = match (key.descending, key.nulls_first) {
            (true, false) => " NULLS LAST",
            (false, true) => " NULLS FIRST",
            _ => "",
        };
        format!("{}{direction}{nulls}", Deparser(table).text(&key.expression))
    };
    keys.iter().map(key).collect::<Vec<_>>().join(", ")
}

/// 0A000 for options that ask for more than the plan: no figures, no other format. Nothing costs, so that none are left out.
pub(super) fn check_options(options: &[ast::UtilityOption]) -> Result<()> {
    for option in options {
        let value = option.arg.as_ref().map(|value| value.to_string().to_ascii_lowercase());
        let is_off = matches!(value.as_deref(), Some("false" | "off" | "0"));
        let is_text = option.name.value.eq_ignore_ascii_case("format") && value.as_deref() == Some("text");
        if !is_off && !is_text {
            return Err(not_supported(&format!("EXPLAIN ({option})")));
        }
    }
    Ok(())
}
