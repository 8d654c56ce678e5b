//! Casts that show in the names of what is computed of them.
//!
//! A plan of DataFusion's has each of its expressions by a name, and `a::text` has the name of `a`: of `sum(a)` and `sum(a::bigint)`
//! there would be one, and `GROUP BY a, a::text` would group by the first alone. So where an operand is cast to several types, or
//! is also used without a cast, its casts go through the planner within a call that says the type as well.
//! [`typing`](super::typing) takes the call off again. So do all casts of a query that groups: by its name `GROUP BY a::date` would be grouped
//! by `a`, and if that is a key, the planner adds all columns of the table, which a key determines and its date does not.
//!
//! Also the columns of a recursion: there the planner adds casts of its own, which are not what was written.

use super::spelling::calls;
use crate::visit::{Work, visit, visit_expressions};
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, SelectItem, SetExpr, Statement, Value};
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::ops::ControlFlow;

/// The function that a cast and the name of its type are operands of.
pub(super) const CAST: &str = "operator cast";

/// Operands with longer texts are not told apart, so that deep expressions take no time.
const OPERAND_MAX: usize = 256;

/// The query with such casts as calls.
pub(super) fn told(mut query: Statement) -> Statement {
    let is_cast = |expression: &Expr| matches!(expression, Expr::Cast { .. });
    let any = visit_expressions(&query, |expression: &Expr| match is_cast(expression) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if any.is_continue() {
        return query;
    }
    visit(&mut query, &mut Recursions);
    let mut operands: HashMap<String, Uses> = HashMap::new();
    let _ = visit_expressions(&query, |expression: &Expr| {
        if let Some((operand, data_type)) = cast(expression) {
            let uses = operands.entry(operand).or_default();
            uses.casts += 1;
            uses.types.insert(data_type);
        } else if let Some(text) = text(expression) {
            operands.entry(text).or_default().all += 1;
        }
        ControlFlow::<()>::Continue(())
    });
    let mut groups = Groups(false);
    visit(&mut query, &mut groups);
    operands.retain(|_, uses| uses.types.len() > 1 || (uses.casts > 0 && uses.all > uses.casts));
    if groups.0 || !operands.is_empty() {
        visit(&mut query, &mut Casts { all: groups.0, operands });
    }
    query
}

/// How an operand is used.
#[derive(Default)]
struct Uses {
    /// All its occurrences, those within casts among them.
    all: usize,
    casts: usize,
    types: HashSet<String>,
}

/// Whether anything is grouped.
struct Groups(bool);

impl Work for Groups {
    fn query(&mut self, query: &mut Query) {
        let mut bodies = vec![query.body.as_ref()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    self.0 |= !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
                _ => {}
            }
        }
    }
}

struct Casts {
    /// Whether it is of all casts.
    all: bool,
    operands: HashMap<String, Uses>,
}

impl Work for Casts {
    fn expression(&mut self, expression: &mut Expr) {
        if self.all || cast(expression).is_some_and(|(operand, _)| self.operands.contains_key(&operand)) {
            tell(expression);
        }
    }
}

fn tell(expression: &mut Expr) {
    if let Expr::Cast { data_type, .. } = expression {
        let data_type = Expr::value(Value::SingleQuotedString(data_type.to_string()));
        *expression = calls(CAST, vec![expression.clone(), data_type], Vec::new());
    }
}

/// Tells the casts that are columns of recursions.
struct Recursions;

impl Work for Recursions {
    fn query(&mut self, query: &mut Query) {
        let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
        for cte in &mut with.cte_tables {
            tell_columns(&mut cte.query.body);
        }
    }
}

fn tell_columns(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            tell_columns(left);
            tell_columns(right);
        }
        SetExpr::Select(select) => select.projection.iter_mut().for_each(|item| {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                tell(expr);
            }
        }),
        SetExpr::Query(query) => tell_columns(&mut query.body),
        _ => {}
    }
}

/// The texts of what is cast and of the type.
fn cast(expression: &Expr) -> Option<(String, String)> {
    match expression {
        Expr::Cast { expr, data_type, .. } => Some((text(expr)?, data_type.to_string())),
        _ => None,
    }
}

/// The expression's text, if it is short.
fn text(expression: &Expr) -> Option<String> {
    // With its table's name or without, it may be the same column.
    if let Expr::CompoundIdentifier(parts) = expression {
        return parts.last().map(|column| column.to_string());
    }
    let mut short = Short(String::new());
    write!(short, "{expression}").ok()?;
    Some(short.0)
}

/// A text that refuses to grow long.
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > OPERAND_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}
