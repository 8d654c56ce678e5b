//! Parameters, and constants without a type, as arguments of aggregates and window functions.
//!
//! DataFusion's planner wants an aggregate's argument to have a type before our rules give parameters theirs, and takes constants
//! in quotes for texts. So such an argument is cast beforehand to what PostgreSQL takes it for: the only type that the function has
//! there, or, of several numbers, the preferred one. Where it has several types and none is preferred, or takes any type, PostgreSQL
//! refuses the call, and so is it here.

use crate::name::folded;
use crate::visit::{Work, visit};
use ankerdb_engine::{DataType, Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value,
};

/// What a function takes an argument of unknown type for.
enum Taken {
    As(ast::DataType),
    /// 42725
    Ambiguous,
    /// 42804
    Polymorphic,
}

/// The query with types for such parameters, and how many parameters it has; `declared`: those that the client has told.
///
/// # Errors
/// 42725 for an aggregate of several types, 42804 for one of any type.
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
        let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(folded) else { return };
        let is_first_typed = arguments(function).next().is_none_or(|argument| !self.is_untyped(argument));
        for (position, argument) in arguments(function).enumerate() {
            if self.is_untyped(argument) {
                self.give_type(&name, taken(&name, position), argument);
            }
        }
        for sorted in &mut function.within_group {
            if self.is_untyped(&sorted.expr) {
                self.give_type(&name, taken_sorted(&name, is_first_typed), &mut sorted.expr);
            }
        }
    }
}

impl Calls<'_> {
    fn give_type(&mut self, name: &str, taken: Option<Taken>, argument: &mut Expr) {
        match taken {
            Some(Taken::As(data_type)) => {
                let expr = Box::new(argument.clone());
                *argument = Expr::Cast { kind: CastKind::Cast, expr, data_type, format: None, array: false };
            }
            Some(Taken::Ambiguous) => {
                let message = format!("function {name}(unknown) is not unique");
                let hint =
                    "Could not choose a best candidate function. You might need to add explicit type casts.";
                self.refused = Some(Error::new(SqlState::AmbiguousFunction, message).with_hint(hint));
            }
            Some(Taken::Polymorphic) => {
                let message = "could not determine polymorphic type because input has type unknown";
                self.refused = Some(Error::new(SqlState::DatatypeMismatch, message));
            }
            None => {}
        }
    }

    fn is_untyped(&self, argument: &Expr) -> bool {
        match argument {
            Expr::Nested(inner) => self.is_untyped(inner),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(_) => parameter(argument)
                    .is_some_and(|position| self.declared.get(position).copied().flatten().is_none()),
                Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::UnicodeStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::Null => true,
                _ => false,
            },
            _ => false,
        }
    }
}

/// The position of a parameter.
fn parameter(expression: &Expr) -> Option<usize> {
    let Expr::Value(value) = expression else { return None };
    let Value::Placeholder(id) = &value.value else { return None };
    super::parameter::position(id).ok()
}

/// What the function takes an argument at this position for; `None` for texts, and for functions that are no aggregates.
fn taken(name: &str, position: usize) -> Option<Taken> {
    Some(match (name, position) {
        ("bool_and" | "bool_or" | "every", 0) => Taken::As(ast::DataType::Boolean),
        ("stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp", 0)
        | ("percentile_cont" | "percentile_disc", 0)
        | ("corr" | "covar_pop" | "covar_samp", 0 | 1) => Taken::As(ast::DataType::DoublePrecision),
        (name, 0 | 1) if name.starts_with("regr_") => Taken::As(ast::DataType::DoublePrecision),
        ("ntile", 0) | ("nth_value" | "lag" | "lead", 1) => Taken::As(ast::DataType::Integer(None)),
        ("sum" | "avg" | "array_agg" | "bit_and" | "bit_or" | "bit_xor", 0) => Taken::Ambiguous,
        ("json_agg" | "jsonb_agg" | "first_value" | "last_value" | "nth_value" | "lag" | "lead", 0) => {
            Taken::Polymorphic
        }
        _ => return None,
    })
}

/// What it takes the values that it sorts for.
fn taken_sorted(name: &str, is_first_typed: bool) -> Option<Taken> {
    match name {
        "percentile_cont" if is_first_typed => Some(Taken::As(ast::DataType::DoublePrecision)),
        "percentile_cont" => Some(Taken::Ambiguous),
        "percentile_disc" | "mode" => Some(Taken::Polymorphic),
        _ => None,
    }
}

fn arguments(function: &mut Function) -> impl Iterator<Item = &mut Expr> {
    let list = match &mut function.args {
        FunctionArguments::List(list) => list.args.as_mut_slice(),
        _ => &mut [],
    };
    list.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    })
}
