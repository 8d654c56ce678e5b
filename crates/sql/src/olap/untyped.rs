//! Parameters as the only argument of an aggregate.
//!
//! DataFusion's planner wants an aggregate's argument to have a type before our rules give parameters theirs. So such a
//! parameter is cast beforehand to what PostgreSQL takes it for: the only type that the aggregate has, or, of several numbers, the
//! preferred one. Where it has several types and none is preferred, PostgreSQL refuses the call, and so is it here.

use crate::name::folded;
use crate::visit::{Work, visit};
use ankerdb_engine::{DataType, Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value,
};

/// What an aggregate takes an argument of unknown type for.
enum Taken {
    As(ast::DataType),
    /// 42725
    Ambiguous,
}

/// The query with types for such parameters, and how many parameters it has; `declared`: those that the client has told.
///
/// # Errors
/// 42725 for an aggregate of several types.
pub(super) fn with_types(query: &Statement, declared: &[Option<DataType>]) -> Result<(Statement, usize)> {
    let mut query = query.clone();
    let mut calls = Calls { declared, count: 0, refused: None };
    visit(&mut query, &mut calls);
    let count = calls.count;
    calls.refused.map_or(Ok((query, count)), Err)
}

struct Calls<'a> {
    declared: &'a [Option<DataType>],
    /// Some parameters do not come as far as a plan: a constant to partition by, for one.
    count: usize,
    refused: Option<Error>,
}

impl Work for Calls<'_> {
    fn expression(&mut self, expression: &mut Expr) {
        if let Some(position) = parameter(expression) {
            self.count = self.count.max(position + 1);
        }
        let Expr::Function(function) = expression else { return };
        let Some((name, taken)) = aggregate(function) else { return };
        let Some(argument) = only_argument(function).filter(|argument| self.is_untyped(argument)) else {
            return;
        };
        match taken {
            Taken::As(data_type) => {
                let expr = Box::new(argument.clone());
                *argument = Expr::Cast { kind: CastKind::Cast, expr, data_type, format: None, array: false };
            }
            Taken::Ambiguous => {
                let message = format!("function {name}(unknown) is not unique");
                let hint =
                    "Could not choose a best candidate function. You might need to add explicit type casts.";
                self.refused = Some(Error::new(SqlState::AmbiguousFunction, message).with_hint(hint));
            }
        }
    }
}

impl Calls<'_> {
    fn is_untyped(&self, argument: &Expr) -> bool {
        parameter(argument).is_some_and(|position| self.declared.get(position).copied().flatten().is_none())
    }
}

/// The position of a parameter.
fn parameter(expression: &Expr) -> Option<usize> {
    let Expr::Value(value) = expression else { return None };
    let Value::Placeholder(id) = &value.value else { return None };
    super::parameter::position(id).ok()
}

fn aggregate(function: &Function) -> Option<(String, Taken)> {
    let name = folded(function.name.0.last()?.as_ident()?);
    let taken = match name.as_str() {
        "bool_and" | "bool_or" | "every" => Taken::As(ast::DataType::Boolean),
        "stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp" => {
            Taken::As(ast::DataType::DoublePrecision)
        }
        "sum" | "avg" => Taken::Ambiguous,
        _ => return None,
    };
    Some((name, taken))
}

fn only_argument(function: &mut Function) -> Option<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    match list.args.as_mut_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => Some(argument),
        _ => None,
    }
}
