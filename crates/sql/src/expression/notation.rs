//! Operators and words of SQL that are calls of functions: `a & b`, `overlay(a PLACING b FROM 2)`.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Subscript, UnaryOperator, Value,
};

/// The function of `jsonb - text[]`.
pub(crate) const WITHOUT_KEYS: &str = "operator - of a list";
/// The function of subscripts of a document.
pub(crate) const SUBSCRIPT: &str = "operator []";
/// The function of a document, of what a part of it becomes, of whether it is an array where it is NULL, and of the steps to the part.
pub(crate) const ASSIGN_PART: &str = "operator []=";
/// The function of `&&` between lists.
pub(crate) const OVERLAP: &str = "operator &&";
/// The function of `^`.
const POWER: &str = "operator ^";

/// The function's name, and its arguments; `None` for what is no call.
pub(crate) fn as_call(expression: &Expr) -> Option<(&'static str, Vec<Expr>)> {
    match expression {
        Expr::UnaryOp { op, expr } => unary(op, expr),
        Expr::BinaryOp { left, op, right } => binary(left, op, right),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut arguments =
                vec![expr.as_ref().clone(), overlay_what.as_ref().clone(), overlay_from.as_ref().clone()];
            arguments.extend(overlay_for.as_deref().cloned());
            Some(("overlay", arguments))
        }
        Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
            let one = || Expr::value(Value::Number("1".into(), false));
            let from = substring_from.as_deref().cloned().unwrap_or_else(one);
            let mut arguments = vec![expr.as_ref().clone(), from];
            arguments.extend(substring_for.as_deref().cloned());
            Some((if *shorthand { "substr" } else { "substring" }, arguments))
        }
        Expr::CompoundFieldAccess { root, access_chain } => subscripts(root, access_chain),
        Expr::Position { expr, r#in } => {
            Some(("position", vec![r#in.as_ref().clone(), expr.as_ref().clone()]))
        }
        _ => None,
    }
}

fn unary(operator: &UnaryOperator, operand: &Expr) -> Option<(&'static str, Vec<Expr>)> {
    let name = match operator {
        UnaryOperator::BitwiseNot => "operator ~",
        UnaryOperator::PGSquareRoot => "dsqrt",
        UnaryOperator::PGCubeRoot => "dcbrt",
        UnaryOperator::PGAbs => "abs",
        // The sign binds more tightly than a power.
        UnaryOperator::Minus => {
            let (base, exponent) = power(operand)?;
            return Some((POWER, vec![negated(base), exponent]));
        }
        _ => return None,
    };
    Some((name, vec![operand.clone()]))
}

/// The operand with a sign before its first number: of a power, before the base.
fn negated(operand: Expr) -> Expr {
    match power(&operand) {
        None => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(operand) },
        Some((base, exponent)) => Expr::BinaryOp {
            left: Box::new(negated(base)),
            op: BinaryOperator::PGExp,
            right: Box::new(exponent),
        },
    }
}

/// Base and exponent of a power, as an operator or as the call that it has become.
fn power(operand: &Expr) -> Option<(Expr, Expr)> {
    match operand {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            Some((left.as_ref().clone(), right.as_ref().clone()))
        }
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let is_power = name.to_string() == POWER;
            let operand = |position: usize| match list.args.get(position) {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(operand))) => Some(operand.clone()),
                _ => None,
            };
            if is_power { Some((operand(0)?, operand(1)?)) } else { None }
        }
        _ => None,
    }
}

fn binary(left: &Expr, operator: &BinaryOperator, right: &Expr) -> Option<(&'static str, Vec<Expr>)> {
    let name = match operator {
        BinaryOperator::BitwiseAnd => "operator &",
        BinaryOperator::BitwiseOr => "operator |",
        BinaryOperator::PGBitwiseXor => "operator #",
        BinaryOperator::PGBitwiseShiftLeft => "operator <<",
        BinaryOperator::PGBitwiseShiftRight => "operator >>",
        BinaryOperator::AndLt => "operator &<",
        BinaryOperator::AndGt => "operator &>",
        BinaryOperator::Custom(symbol) => match symbol.as_str() {
            "<<=" => "operator <<=",
            ">>=" => "operator >>=",
            "-|-" => "operator -|-",
            _ => return None,
        },
        BinaryOperator::PGExp => POWER,
        BinaryOperator::PGStartsWith => "operator ^@",
        BinaryOperator::PGOverlap => OVERLAP,
        BinaryOperator::PGRegexMatch => "operator ~",
        BinaryOperator::PGRegexIMatch => "operator ~*",
        BinaryOperator::PGRegexNotMatch => "operator !~",
        BinaryOperator::PGRegexNotIMatch => "operator !~*",
        BinaryOperator::Minus if is_list(right) => {
            return Some((WITHOUT_KEYS, vec![left.clone(), list_as_text(right)]));
        }
        // No document contains a list, or is contained in one.
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt if is_list(left) || is_list(right) => return None,
        other if let Some(name) = of_documents(other) => {
            return Some((name, vec![left.clone(), list_as_text(right)]));
        }
        BinaryOperator::Overlaps => {
            let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) else { return None };
            let ([..], 2, 2) = (left.as_slice(), left.len(), right.len()) else { return None };
            return Some(("overlaps", left.iter().chain(right).cloned().collect()));
        }
        _ => return None,
    };
    Some((name, vec![left.clone(), right.clone()]))
}

/// The function of an operator of documents.
fn of_documents(operator: &BinaryOperator) -> Option<&'static str> {
    Some(match operator {
        BinaryOperator::Arrow => "operator ->",
        BinaryOperator::LongArrow => "operator ->>",
        BinaryOperator::HashArrow => "operator #>",
        BinaryOperator::HashLongArrow => "operator #>>",
        BinaryOperator::AtArrow => "operator @>",
        BinaryOperator::ArrowAt => "operator <@",
        BinaryOperator::Question => "operator ?",
        BinaryOperator::QuestionPipe => "operator ?|",
        BinaryOperator::QuestionAnd => "operator ?&",
        BinaryOperator::HashMinus => "operator #-",
        BinaryOperator::AtQuestion => "operator @?",
        BinaryOperator::AtAt => "operator @@",
        _ => return None,
    })
}

/// `document['a'][0]`, if one of the subscripts is a text; lists have other ones.
fn subscripts(root: &Expr, chain: &[AccessExpr]) -> Option<(&'static str, Vec<Expr>)> {
    let subscript = |access: &AccessExpr| match access {
        AccessExpr::Subscript(Subscript::Index { index }) => Some(index.clone()),
        _ => None,
    };
    let steps = chain.iter().map(subscript).collect::<Option<Vec<_>>>()?;
    let is_text = |step: &Expr| matches!(step, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let is_document = steps.iter().any(is_text);
    is_document.then(|| (SUBSCRIPT, std::iter::once(root.clone()).chain(steps).collect()))
}

/// Whether the operand is written as a list.
fn is_list(operand: &Expr) -> bool {
    match operand {
        Expr::Nested(inner) => is_list(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Array(_)),
        other => matches!(other, Expr::Array(_)),
    }
}

/// A list of constants, `ARRAY['a', 'b']` or `'{a,b}'::text[]`, as the text `{a,b}`, which functions of paths take.
pub(crate) fn list_as_text(list: &Expr) -> Expr {
    match list {
        Expr::Nested(inner) => list_as_text(inner),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } if constant(expr).is_some() => {
            expr.as_ref().clone()
        }
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => list_as_text(expr),
        Expr::Array(Array { elem, .. }) => {
            let items: Option<Vec<String>> = elem.iter().map(constant).collect();
            match items {
                Some(items) => Expr::value(Value::SingleQuotedString(list_text(&items))),
                None => list.clone(),
            }
        }
        other => other.clone(),
    }
}

/// What a constant stands for in a list.
fn constant(item: &Expr) -> Option<String> {
    let Expr::Value(value) = item else { return None };
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
        Value::Number(number, _) => Some(number.clone()),
        _ => None,
    }
}

fn list_text(items: &[String]) -> String {
    let quoted = |item: &String| format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", items.iter().map(quoted).collect::<Vec<_>>().join(","))
}
