//! Whole rows as documents: `row_to_json(t)`, `to_jsonb(t)`, `json_agg(t)`.
//!
//! The name of a table, where a value is wanted and no column has it, stands for its row. There are no values of composite types; what
//! makes a document of one is given the names of its columns and their values instead: `"row of json"('a', t.a, 'b', t.b)`.

use super::scope::Scope;
use crate::expression::library::{JSON_ITEM, JSON_MEMBER, ROW};
use crate::forms::row;
use crate::name::folded;
use crate::plain_query::function_call;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem,
    SetExpr, Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Functions that make a document of their first argument.
pub(super) const MAKERS: [&str; 3] = ["row_to_json", "to_json", "to_jsonb"];
/// Functions of which any argument may be a row.
const TAKERS: [&str; 6] = [
    // What `json_agg` and its like are made of before.
    JSON_ITEM,
    JSON_MEMBER,
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
];

/// Writes out the rows in the lists of a query.
pub(super) fn write(scope: &Scope<'_>, query: &mut Query) {
    let mut bodies = vec![query.body.as_mut()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => {
                let from = scope.relations_of(&select.from);
                let mut rows = Rows { from, queries: 0 };
                for item in &mut select.projection {
                    let call = match item {
                        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
                        _ => continue,
                    };
                    let name = crate::column_name::column_name(call);
                    let before = call.clone();
                    let _ = call.visit(&mut rows);
                    let is_changed = *call != before;
                    if let (true, SelectItem::UnnamedExpr(expr)) = (is_changed, &*item) {
                        let alias = Ident::with_quote('"', name);
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
            _ => {}
        }
    }
}

/// The relations of a FROM clause with their columns; `None` where these cannot be told.
type Relations = Vec<(Vec<String>, Option<Vec<String>>)>;

struct Rows {
    from: Relations,
    queries: usize,
}

impl Rows {
    /// The arguments by which a row is made a document; `None` if the expression is no row.
    fn members(&self, expression: &Expr) -> Option<Vec<Expr>> {
        let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
        if let Some(values) = row(expression).filter(|_| !matches!(expression, Expr::Nested(_))) {
            let member = |(at, value): (usize, Expr)| [text(&format!("f{}", at + 1)), value];
            return Some(values.into_iter().enumerate().flat_map(member).collect());
        }
        let Expr::Identifier(name) = expression else { return None };
        let name = folded(name);
        let is_column = |(_, columns): &(Vec<String>, Option<Vec<String>>)| {
            columns.as_ref().is_none_or(|columns| columns.contains(&name))
        };
        if self.from.iter().any(is_column) {
            return None;
        }
        let mut found = self.from.iter().filter(|(relation, _)| relation.last() == Some(&name));
        let (relation, columns) = found.next()?;
        let member = |column: &String| {
            let parts = relation.iter().chain([column]).map(|part| Ident::with_quote('"', part));
            [text(column), Expr::CompoundIdentifier(parts.collect())]
        };
        Some(columns.as_ref()?.iter().flat_map(member).collect())
    }
}

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = &mut *expression else { return ControlFlow::Continue(()) };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(folded) else {
            return ControlFlow::Continue(());
        };
        let FunctionArguments::List(list) = &mut function.args else { return ControlFlow::Continue(()) };
        if TAKERS.contains(&name.as_str()) {
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
                    && let Some(members) = self.members(value)
                {
                    *value = function_call(ROW, members);
                }
            }
            return ControlFlow::Continue(());
        }
        if MAKERS.contains(&name.as_str())
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice()
            && let Some(members) = self.members(value)
        {
            let document = function_call(ROW, members);
            *expression = match name.as_str() {
                "to_jsonb" => Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(document),
                    data_type: DataType::JSONB,
                    array: false,
                    format: None,
                },
                _ => document,
            };
        }
        ControlFlow::Continue(())
    }
}
