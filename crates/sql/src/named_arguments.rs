//! Arguments of functions by their names: `make_interval(days => 3)` is `make_interval(0, 0, 0, 3, 0, 0, 0)`.
//!
//! Functions whose arguments have names here are those for which names are of use. A call that names others, or names one twice, or
//! leaves out one that has to be given, stays as it is, and is refused as unknown.

use crate::name::folded;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};

/// Functions, the names of their arguments, and how many of these have to be given. The others are 0 if they are left out.
const FUNCTIONS: [(&str, &[&str], usize); 5] = [
    ("make_interval", &["years", "months", "weeks", "days", "hours", "mins", "secs"], 0),
    ("make_date", &["year", "month", "day"], 3),
    ("make_timestamp", &["year", "month", "mday", "hour", "min", "sec"], 6),
    ("make_timestamptz", &["year", "month", "mday", "hour", "min", "sec"], 6),
    ("make_timestamptz", &["year", "month", "mday", "hour", "min", "sec", "timezone"], 7),
];

/// Puts the arguments of a call in order, if some have names.
pub(crate) fn put_in_order(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    if list.args.iter().all(|argument| matches!(argument, FunctionArg::Unnamed(_))) {
        return;
    }
    let ordered = FUNCTIONS.iter().find_map(|(name, names, least)| {
        if called(function)? != *name { None } else { ordered(&list.args, names, *least) }
    });
    if let (Some(ordered), FunctionArguments::List(list)) = (ordered, &mut function.args) {
        list.args = ordered;
    }
}

/// The function's name.
fn called(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [name] => name.as_ident().map(folded),
        [schema, name] if schema.as_ident().map(folded).as_deref() == Some("pg_catalog") => {
            name.as_ident().map(folded)
        }
        _ => None,
    }
}

fn ordered(given: &[FunctionArg], names: &[&str], least: usize) -> Option<Vec<FunctionArg>> {
    let mut ordered: Vec<Option<FunctionArg>> = vec![None; names.len()];
    for (place, argument) in given.iter().enumerate() {
        let (place, value) = match argument {
            // Not behind one with a name.
            FunctionArg::Unnamed(value) if ordered[..place.min(names.len())].iter().all(Option::is_some) => {
                (place, value)
            }
            FunctionArg::Unnamed(_) => return None,
            FunctionArg::Named { name, arg, .. } => (position(names, name)?, arg),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => (position(names, name)?, arg),
            FunctionArg::ExprNamed { .. } => return None,
        };
        let slot = ordered.get_mut(place).filter(|slot| slot.is_none())?;
        *slot = Some(FunctionArg::Unnamed(value.clone()));
    }
    let zero = || {
        let zero = Expr::value(Value::Number("0".into(), false));
        FunctionArg::Unnamed(FunctionArgExpr::Expr(zero))
    };
    let filled = ordered.into_iter().enumerate().map(|(place, argument)| match argument {
        None if place < least => None,
        argument => Some(argument.unwrap_or_else(zero)),
    });
    filled.collect()
}

fn position(names: &[&str], name: &Ident) -> Option<usize> {
    let name = folded(name);
    names.iter().position(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    #[test]
    fn arguments_with_names_are_put_in_order() {
        let read = |sql: &str| parse(sql).unwrap()[0].ast.as_ref().unwrap().clone();
        let rewritten = |sql: &str| {
            let mut statement = (*read(sql)).clone();
            crate::rewrite::rewrite(&mut statement);
            statement.to_string()
        };
        assert_eq!(
            rewritten("SELECT make_interval(1, days => $1)"),
            "SELECT make_interval(1, 0, 0, $1, 0, 0, 0)"
        );
        assert_eq!(
            rewritten("SELECT make_date(day := 1, month := 2, year := 3)"),
            "SELECT make_date(3, 2, 1)"
        );
        for other in ["SELECT make_date(day => 1)", "SELECT make_interval(days => 1, 2)", "SELECT f(a => 1)"]
        {
            assert_eq!(rewritten(other), other);
        }
    }
}
