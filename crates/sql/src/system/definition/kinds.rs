//! Types in definitions: what they are called, what constants of them look like, and which casts operators need.

use super::node::{ConstantText, ShownForm, ShownNode};
use crate::expression::types::{ANY_BIT, number};
use ankerdb_engine::{DataType, ListType, PackedType, SystemType, Value};
use ankerdb_value::{format_text, parse_text};

/// The type without its limits, as casts have it.
pub(crate) fn plain_type(data_type: DataType) -> String {
    match data_type {
        DataType::Char(_) => "bpchar".to_owned(),
        // The word without quotes is a single bit.
        DataType::Packed(PackedType::Bit(_)) => "\"bit\"".to_owned(),
        DataType::Enum(labels) => crate::user_types::kept_type(labels).to_string(),
        DataType::System(SystemType::Char) => "\"char\"".to_owned(),
        other => {
            let name = other.of_any_precision().to_string();
            match (name.find('('), name.find(')')) {
                (Some(open), Some(close)) => format!("{}{}", &name[..open], &name[close + 1..]),
                _ => name,
            }
        }
    }
}

/// Whether two types differ in their limits only.
pub(super) fn is_same(one: DataType, other: DataType) -> bool {
    one == other || plain_type(one) == plain_type(other)
}

fn is_text(data_type: DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::Char(_))
}

/// How wide numbers are.
fn width(data_type: DataType) -> Option<u8> {
    Some(match data_type {
        DataType::SmallInt => 1,
        DataType::Integer => 2,
        DataType::BigInt => 3,
        DataType::Number | DataType::Numeric { .. } => 4,
        DataType::Real => 5,
        DataType::DoublePrecision => 6,
        _ => return None,
    })
}

fn moment(data_type: DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Date => 1,
        DataType::Timestamp(_) => 2,
        DataType::TimestampTz(_) => 3,
        _ => return None,
    })
}

/// The type that alternatives have in common; unknown ones take it.
pub(super) fn common(types: impl IntoIterator<Item = Option<DataType>>) -> Option<DataType> {
    types.into_iter().flatten().reduce(|one, other| match (width(one), width(other)) {
        (Some(width), Some(wider)) if wider > width => other,
        (Some(_), Some(_)) => one,
        _ if is_text(one) && other == DataType::Text => other,
        _ => match (moment(one), moment(other)) {
            (Some(first), Some(second)) if second > first => other,
            _ => one,
        },
    })
}

/// A constant in quotes as one of a type; what cannot be read as one now is shown as it was written.
pub(super) fn constant<'a>(text: &str, data_type: DataType) -> ShownNode<'a> {
    let label = Some(plain_type(data_type));
    let quoted = |text: &str| ConstantText { body: in_quotes(text), label: label.clone() };
    // The fields of an interval say how its text is read; other limits come behind.
    let read_as = match data_type {
        DataType::Numeric { .. } => DataType::Number,
        interval @ DataType::Interval(_) => interval,
        other => other.of_any_precision(),
    };
    let value = is_settled(data_type, text).then(|| parse_text(read_as, text).ok()).flatten();
    let constant = match value {
        Some(Value::Boolean(value)) => ConstantText { body: value.to_string(), label: None },
        Some(value) => {
            let mut shown = String::new();
            format_text(&value, read_as, &mut shown);
            match data_type {
                DataType::Integer | DataType::Number | DataType::Numeric { .. }
                    if shown.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    ConstantText { body: shown, label: None }
                }
                _ => quoted(&shown),
            }
        }
        None => quoted(text),
    };
    ShownNode::new(ShownForm::Constant(constant), Some(data_type))
}

/// The text in single quotes, in which a backslash is a letter like others.
pub(super) fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether the text means the same whatever the settings are, and has one form in which it is shown.
fn is_settled(data_type: DataType, text: &str) -> bool {
    let is_iso = text.trim().len() >= 10
        && text.trim().as_bytes()[..10]
            .iter()
            .enumerate()
            .all(|(place, byte)| if matches!(place, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() });
    match data_type {
        DataType::Boolean | DataType::Interval(_) | DataType::Uuid | DataType::Time(_) | DataType::Jsonb => {
            true
        }
        DataType::Date | DataType::Timestamp(_) => is_iso,
        other => width(other).is_some(),
    }
}

/// A number as it is written, perhaps behind a sign.
pub(super) fn number_constant<'a>(text: &str, is_negative: bool) -> ShownNode<'a> {
    let Ok((value, data_type)) = number(text) else {
        let body = text.to_owned();
        return ShownNode::new(ShownForm::Constant(ConstantText { body, label: None }), None);
    };
    let mut shown = String::new();
    format_text(&value, data_type, &mut shown);
    let is_plain = !is_negative && data_type != DataType::BigInt;
    let constant = match is_plain {
        true => ConstantText { body: shown, label: None },
        false => {
            let sign = if is_negative { "-" } else { "" };
            ConstantText { body: format!("'{sign}{shown}'"), label: Some(plain_type(data_type)) }
        }
    };
    ShownNode::new(ShownForm::Constant(constant), Some(data_type))
}

/// A string of bits by its zeros and ones.
pub(super) fn bits<'a>(kind: char, digits: &str) -> Option<ShownNode<'a>> {
    match parse_text(ANY_BIT, &format!("{kind}{digits}")) {
        Ok(Value::Packed(packed)) => {
            let body = format!("'{}'", packed.borrow().to_text());
            let constant = ConstantText { body, label: Some(plain_type(ANY_BIT)) };
            Some(ShownNode::new(ShownForm::Constant(constant), Some(ANY_BIT)))
        }
        _ => None,
    }
}

/// NULL of a type.
pub(super) fn null<'a>(data_type: Option<DataType>) -> ShownNode<'a> {
    let constant = ConstantText { body: "NULL".to_owned(), label: data_type.map(plain_type) };
    ShownNode::new(ShownForm::Constant(constant), data_type)
}

/// What a value is where a type is wanted: a constant of it, or a cast that nobody wrote.
pub(super) fn as_type<'a>(node: ShownNode<'a>, wanted: Option<DataType>) -> ShownNode<'a> {
    let Some(wanted) = wanted else { return node };
    match (&node.form, node.data_type) {
        (ShownForm::Unknown(text), _) => constant(text, wanted),
        _ if node.is_unknown() => null(Some(wanted)),
        (_, Some(known)) if !is_same(known, wanted) => {
            let operand = Box::new(node);
            let to = plain_type(wanted);
            ShownNode::new(ShownForm::Cast { operand, to, is_implicit: true }, Some(wanted))
        }
        _ => node,
    }
}

/// Alternatives as values of the type that they have in common.
pub(super) fn merged<'a>(nodes: Vec<ShownNode<'a>>) -> (Vec<ShownNode<'a>>, Option<DataType>) {
    let is_told = nodes.iter().all(|node| node.data_type.is_some() || node.is_unknown());
    let common = common(nodes.iter().map(|node| node.data_type));
    let wanted = if is_told { common.or(Some(DataType::Text)) } else { common };
    let typed = nodes.into_iter().map(|node| match is_told || node.is_unknown() {
        true => as_type(node, wanted),
        false => node,
    });
    (typed.collect(), wanted)
}

/// The types that an operator takes its operands as (`None`: as they are), and that of its result.
pub(super) type OperatorTypes = (Option<DataType>, Option<DataType>, Option<DataType>);

pub(super) fn operator_types(
    operator: &str,
    left: Option<DataType>,
    right: Option<DataType>,
) -> OperatorTypes {
    let boolean = Some(DataType::Boolean);
    let text = Some(DataType::Text);
    match operator {
        "=" | "<>" | "<" | ">" | "<=" | ">=" => {
            let (left, right) = compared(left, right);
            (left, right, boolean)
        }
        "~~" | "!~~" | "~~*" | "!~~*" | "~" | "~*" | "!~" | "!~*" | "^@" => {
            let kept = |known: Option<DataType>| match known {
                Some(DataType::Varchar(_)) | None => text,
                _ => None,
            };
            (kept(left), if right.is_some_and(is_text) || right.is_none() { text } else { None }, boolean)
        }
        "||" => concatenated(left, right),
        "+" | "-" | "*" | "/" | "%" | "^" => computed(operator, left, right),
        "->" | "->>" | "#>" | "#>>" | "?" | "?|" | "?&" | "#-" => {
            let texts = Some(DataType::System(SystemType::List(ListType::Text)));
            let wanted = match operator {
                "#>" | "#>>" | "?|" | "?&" | "#-" => texts,
                _ => text,
            };
            let result = match operator {
                "->>" | "#>>" => text,
                "?" | "?|" | "?&" => boolean,
                _ => left,
            };
            (None, if right.is_none() { wanted } else { None }, result)
        }
        "@>" | "<@" | "&&" => (left.or(right), right.or(left), boolean),
        _ => (left.or(right), right.or(left), if left == right { left } else { None }),
    }
}

fn compared(left: Option<DataType>, right: Option<DataType>) -> (Option<DataType>, Option<DataType>) {
    let alone = |known: DataType| match known {
        DataType::Varchar(_) => DataType::Text,
        other => other,
    };
    let (Some(left), Some(right)) = (left, right) else {
        let known = left.or(right).map(alone);
        return (known, known);
    };
    match (left, right) {
        (DataType::Char(_), DataType::Char(_) | DataType::Varchar(_))
        | (DataType::Varchar(_), DataType::Char(_)) => (Some(DataType::ANY_CHAR), Some(DataType::ANY_CHAR)),
        _ if is_text(left) && is_text(right) => (Some(DataType::Text), Some(DataType::Text)),
        _ => numbers(left, right),
    }
}

/// Numbers that are computed with: those without an operator of their own become numerics or doubles.
fn numbers(left: DataType, right: DataType) -> (Option<DataType>, Option<DataType>) {
    match (width(left), width(right)) {
        (Some(one), Some(other)) if one.max(other) > 4 => {
            let as_double = |width: u8| (width < 5).then_some(DataType::DoublePrecision);
            (as_double(one), as_double(other))
        }
        (Some(one), Some(other)) if one.max(other) == 4 => {
            let as_numeric = |width: u8| (width < 4).then_some(DataType::Number);
            (as_numeric(one), as_numeric(other))
        }
        _ => (None, None),
    }
}

fn concatenated(left: Option<DataType>, right: Option<DataType>) -> OperatorTypes {
    let text = Some(DataType::Text);
    let is_list = |known: Option<DataType>| {
        matches!(
            known,
            Some(
                DataType::System(SystemType::List(_))
                    | DataType::Jsonb
                    | DataType::Bytea
                    | DataType::Packed(_)
            )
        )
    };
    if is_list(left) || is_list(right) {
        let list = if is_list(left) { left } else { right };
        return (left.or(list), right.or(list), list);
    }
    let kept = |known: Option<DataType>| match known {
        None => text,
        Some(known) if is_text(known) => text,
        _ => None,
    };
    (kept(left), kept(right), text)
}

fn computed(operator: &str, left: Option<DataType>, right: Option<DataType>) -> OperatorTypes {
    let interval = Some(DataType::INTERVAL);
    let double = Some(DataType::DoublePrecision);
    let is_interval = |known: Option<DataType>| matches!(known, Some(DataType::Interval(_)));
    let is_number = |known: Option<DataType>| known.and_then(width).is_some();
    if matches!(operator, "*" | "/") && is_interval(left) && (is_number(right) || right.is_none()) {
        return (None, double, interval);
    }
    if operator == "*" && is_number(left) && is_interval(right) {
        return (double, None, interval);
    }
    let (Some(one), Some(other)) = (left, right) else {
        let known = left.or(right);
        return match known {
            Some(DataType::Timestamp(_) | DataType::TimestampTz(_) | DataType::Time(_))
                if operator == "+" =>
            {
                (left.or(interval), right.or(interval), known)
            }
            Some(DataType::Timestamp(_) | DataType::TimestampTz(_)) => {
                (left.or(right), right.or(left), interval)
            }
            Some(DataType::Date) if operator == "-" => {
                (left.or(right), right.or(left), Some(DataType::Integer))
            }
            Some(DataType::Date) => (None, None, None),
            known => (known, known, known),
        };
    };
    if is_number(left) && is_number(right) {
        if operator == "^" {
            let wanted = match (one, other) {
                (DataType::Number | DataType::Numeric { .. }, _)
                | (_, DataType::Number | DataType::Numeric { .. })
                    if !matches!((width(one), width(other)), (Some(5..), _) | (_, Some(5..))) =>
                {
                    Some(DataType::Number)
                }
                _ => double,
            };
            return (wanted, wanted, wanted);
        }
        let (left, right) = numbers(one, other);
        let result = common([left.or(Some(one)), right.or(Some(other))]);
        return (left, right, result);
    }
    let result = match (one, other) {
        (DataType::Date, DataType::Date) => Some(DataType::Integer),
        (DataType::Date, other) if width(other).is_some() => left,
        (one, DataType::Date) if width(one).is_some() => right,
        (DataType::Date, DataType::Interval(_)) | (DataType::Interval(_), DataType::Date) => {
            Some(DataType::TIMESTAMP)
        }
        (one, other) if moment(one).is_some() && moment(other).is_some() => interval,
        (_, DataType::Interval(_)) => left,
        (DataType::Interval(_), _) => right,
        _ => None,
    };
    (None, None, result)
}
