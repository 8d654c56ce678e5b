//! `json_agg` and its like, as texts that are put together:
//!
//! | written | read |
//! | --- | --- |
//! | `json_agg(x ORDER BY y)` | `whole('[' \|\| string_agg(item(x), ', ' ORDER BY y) \|\| ']')` |
//! | `jsonb_object_agg(k, v)` | `whole('{ ' \|\| string_agg(member(k, v), ', ') \|\| ' }')` |
//!
//! An item is what `to_json` gives, `null` for NULL; a member has its key before it. So there is one text for each group, which is
//! charged to the query's memory as that of any `string_agg`; that of a `jsonb` is read once more at its end.

use crate::expression::library::{JSON_ITEM, JSON_MEMBER, JSON_WHOLE};
use crate::name::{folded, not_supported};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};

/// The call in other words; `None` for other calls.
pub(super) fn respelled(function: &Function) -> Option<Result<Expr>> {
    let name = match function.name.0.as_slice() {
        [name] => folded(name.as_ident()?),
        [schema, name] if folded(schema.as_ident()?) == "pg_catalog" => folded(name.as_ident()?),
        _ => return None,
    };
    let (item, (open, close)) = match name.as_str() {
        "json_agg" | "jsonb_agg" => (JSON_ITEM, ("[", "]")),
        "json_object_agg" | "jsonb_object_agg" => (JSON_MEMBER, ("{ ", " }")),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return Some(Err(not_supported(&format!("{name}(DISTINCT ...)"))));
    }
    let wanted = if item == JSON_ITEM { 1 } else { 2 };
    if list.args.len() != wanted {
        let message = format!("function {name} with {} arguments does not exist", list.args.len());
        return Some(Err(Error::new(SqlState::UndefinedFunction, message)));
    }
    let part = call(item.to_owned(), list.args.clone());
    let parts = Function {
        name: ObjectName::from(vec![Ident::new("string_agg")]),
        args: FunctionArguments::List(FunctionArgumentList {
            args: vec![unnamed(part), unnamed(text(", "))],
            ..list.clone()
        }),
        ..function.clone()
    };
    let whole = joined(joined(text(open), Expr::Function(parts)), text(close));
    Some(Ok(call(format!("{JSON_WHOLE} {name}"), vec![unnamed(whole)])))
}

fn unnamed(argument: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))
}

fn call(name: String, args: Vec<FunctionArg>) -> Expr {
    let clauses = Vec::new();
    let args = FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses });
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

fn joined(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::StringConcat, right: Box::new(right) }
}
