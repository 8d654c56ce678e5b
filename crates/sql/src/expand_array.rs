//! `information_schema._pg_expandarray(list)`, which drivers ask the catalog with: rows of an item, `x`, and its place, `n`.
//!
//! | written | read |
//! | --- | --- |
//! | `SELECT information_schema._pg_expandarray(l) AS keys` | `SELECT unnest(l) AS "keys.x", generate_subscripts(l, 1) + 1 AS "keys.n"` |
//! | `SELECT (information_schema._pg_expandarray(l)).n` | `SELECT generate_subscripts(l, 1) + 1` |
//! | `(a.keys).x` | `a."keys.x"` |
//!
//! So there is no value of a composite type; what is asked for is its fields. Only of lists in columns of the catalog, of which it is
//! known by name where they begin to count; other calls are left as they are, and refused as unknown.

use crate::dialect::Postgres;
use crate::name::folded;
use crate::visit::walk_mut;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, Statement,
    VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The function's name; a statement whose text lacks it needs no rewriting.
pub(crate) const FUNCTION: &str = "_pg_expandarray";

/// Columns of the catalog that are vectors, which count from 0, and arrays, which count from 1.
const VECTORS: [&str; 4] = ["indkey", "indoption", "indclass", "indcollation"];
const ARRAYS: [&str; 2] = ["conkey", "confkey"];

/// The fields of what it returns.
const FIELDS: [&str; 2] = ["x", "n"];

/// Rewrites all calls in a statement.
pub(crate) fn rewrite(statement: &mut Statement) {
    let mut expanded = Expanded::default();
    let _ = walk_mut(statement, &mut expanded);
    let _ = walk_mut(statement, &mut Fields(expanded.0));
}

/// Names of columns that were expanded.
#[derive(Default)]
struct Expanded(HashSet<String>);

impl VisitorMut for Expanded {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let items = std::mem::take(&mut select.projection);
        for item in items {
            let (list, name) = match &item {
                SelectItem::UnnamedExpr(expr) => (argument(expr), FUNCTION.to_owned()),
                SelectItem::ExprWithAlias { expr, alias } => (argument(expr), folded(alias)),
                _ => (None, String::new()),
            };
            match list {
                Some(list) => {
                    let column = |field: &&str| {
                        let alias = Ident::with_quote('"', format!("{name}.{field}"));
                        Some(SelectItem::ExprWithAlias { expr: read(&list, field)?, alias })
                    };
                    select.projection.extend(FIELDS.iter().filter_map(column));
                    self.0.insert(name);
                }
                None => select.projection.push(item),
            }
        }
        ControlFlow::Continue(())
    }
}

struct Fields(HashSet<String>);

impl VisitorMut for Fields {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(read) = self.field(expr) {
            *expr = read;
        }
        ControlFlow::Continue(())
    }
}

impl Fields {
    /// What is read for `(expression).field`.
    fn field(&self, expr: &Expr) -> Option<Expr> {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
        let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() else { return None };
        let field = folded(field);
        let Expr::Nested(root) = &**root else { return None };
        if let Some(list) = argument(root) {
            return read(&list, &field);
        }
        let mut names = match &**root {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(names) => names.clone(),
            _ => return None,
        };
        let name = folded(&names.pop()?);
        if !self.0.contains(&name) || !FIELDS.contains(&field.as_str()) {
            return None;
        }
        names.push(Ident::with_quote('"', format!("{name}.{field}")));
        Some(Expr::CompoundIdentifier(names))
    }
}

/// The list of a call, where it can be expanded.
fn argument(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let name = function.name.0.last()?.as_ident()?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = list.args.as_slice() else { return None };
    (folded(name) == FUNCTION && place(list).is_some()).then(|| list.clone())
}

/// What is to be added to the list's subscripts, so that they count from 1.
fn place(list: &Expr) -> Option<&'static str> {
    let column = folded(match list {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    });
    let is_one_of = |names: &[&str]| names.contains(&column.as_str());
    if is_one_of(&VECTORS) { Some(" + 1") } else { is_one_of(&ARRAYS).then_some("") }
}

/// A field of the rows that the list makes.
fn read(list: &Expr, field: &str) -> Option<Expr> {
    let text = match field {
        "x" => format!("unnest({list})"),
        "n" => format!("generate_subscripts({list}, 1){}", place(list)?),
        _ => return None,
    };
    Parser::new(&Postgres::default()).try_with_sql(&text).ok()?.parse_expr().ok()
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn calls_and_fields_are_read_as_columns() {
        let read = |sql: &str| parse(sql).unwrap()[0].ast.as_ref().unwrap().to_string();
        let n = "generate_subscripts(i.indkey, 1) + 1";
        assert_eq!(
            read("SELECT (information_schema._pg_expandarray(i.indkey)).n AS o FROM i"),
            format!("SELECT {n} AS o FROM i")
        );
        assert_eq!(
            read(
                "SELECT (r.KEYS).x FROM (SELECT information_schema._pg_expandarray(i.indkey) AS keys FROM i) AS r"
            ),
            format!(
                "SELECT r.\"keys.x\" FROM (SELECT unnest(i.indkey) AS \"keys.x\", {n} AS \"keys.n\" FROM i) AS r"
            )
        );
        let other = "SELECT _pg_expandarray(a) FROM b";
        assert_eq!(read(other), other);
    }
}
