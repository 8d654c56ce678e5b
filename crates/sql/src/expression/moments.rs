//! Constants in texts that are kept, where they are moments: what they mean depends on settings.
//!
//! `'1/2/2020'` is one of two days by DateStyle, and `'2020-01-01'` begins at another time in every zone. A text that is kept is bound again,
//! under other settings: when its table changes, and when a database is opened. So such constants are written in it as what they meant when it
//! was given.

use super::Expression;
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{DataType, Error, ListType, Result, SqlState, SystemType, Value};
use ankerdb_value::{Clocks, PackedType, format_text};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::cell::RefCell;
use std::ops::ControlFlow;

/// Constants that were read as moments, and their texts that mean the same always.
type Read = Vec<(Box<str>, String)>;

thread_local! {
    /// `None` if nobody wants to know.
    static READ: RefCell<Option<Read>> = const { RefCell::new(None) };
}

/// Notes as what the text of a constant was read.
pub(super) fn note(text: &str, target: DataType, value: &Value) {
    READ.with_borrow_mut(|read| {
        if let Some(read) = read
            && is_moment(target)
        {
            let mut settled = String::new();
            Clocks::default().within(|| format_text(value, target, &mut settled));
            read.push((text.into(), settled));
        }
    });
}

/// Whether constants of the type are read by settings.
fn is_moment(data_type: DataType) -> bool {
    match data_type {
        DataType::Date | DataType::Time(_) | DataType::Timestamp(_) | DataType::TimestampTz(_) => true,
        DataType::Packed(PackedType::TimeTz) => true,
        DataType::Packed(PackedType::Range(range)) => is_moment(range.item_type()),
        DataType::System(SystemType::List(list)) => {
            !matches!(list, ListType::Enum(_) | ListType::Row(_)) && is_moment(list.item_type())
        }
        _ => false,
    }
}

/// What `bind` makes of an expression, and the expression as it is to be kept.
///
/// # Errors
/// Those of `bind`; 0A000 for a constant that is read in two ways.
pub(crate) fn settled<E: From<Error>>(
    expr: &Expr,
    mut bind: impl FnMut(&Expr) -> Result<Expression, E>,
) -> Result<(Expr, Expression), E> {
    let before = READ.replace(Some(Vec::new()));
    let bound = bind(expr);
    let read = READ.replace(before).unwrap_or_default();
    let bound = bound?;
    if read.iter().all(|(text, settled)| **text == **settled) {
        return Ok((expr.clone(), bound));
    }
    let mut kept = expr.clone();
    let _ = visit_expressions_mut(&mut kept, |expr| {
        let value = match expr {
            Expr::Value(value) => value,
            Expr::TypedString(typed) => &mut typed.value,
            _ => return ControlFlow::<()>::Continue(()),
        };
        if let ast::Value::SingleQuotedString(text) = &mut value.value
            && let Some((_, settled)) = read.iter().find(|(known, _)| **known == **text)
        {
            text.clone_from(settled);
        }
        ControlFlow::Continue(())
    });
    let again = bind(&kept)?;
    if again == bound {
        return Ok((kept, bound));
    }
    let message = "a constant that is read both as a time and as something else is not supported here";
    let hint = "Write times as ISO 8601 has them, with their zones.";
    Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint).into())
}
