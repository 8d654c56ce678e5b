//! Arrays made of items.

use super::bind::{Binder, Bound, Typed, elsewhere};
use super::{Expression, Function};
use ankerdb_engine::{Array, ArrayBuilder, DataType, Error, ListType, Result, SqlState, SystemType, Value};
use ankerdb_value::cast;
use datafusion::sql::sqlparser::ast::{self, Expr};

impl Binder<'_> {
    /// `ARRAY[items]`
    pub(super) fn array(&mut self, items: &[Expr]) -> Bound<Typed> {
        if items.is_empty() {
            let message = "cannot determine type of empty array";
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            return Err(Error::new(SqlState::IndeterminateDatatype, message).with_hint(hint).into());
        }
        let items = items.iter().map(|item| self.bind(item)).collect::<Bound<Vec<_>>>()?;
        let is_array = |item: &Typed| matches!(item.data_type, Some(DataType::System(SystemType::List(_))));
        if items.iter().any(is_array) {
            return elsewhere("an array of arrays");
        }
        let (items, data_type) = self.merge(items, "ARRAY")?;
        let Some(list) = ListType::of(data_type) else {
            return elsewhere(format!("an array of {data_type}"));
        };
        let array = Expression::Call(Function::MakeArray(list), items);
        Ok(Typed::new(array, DataType::System(SystemType::List(list))))
    }

    /// What is cast to a type: `ARRAY[]` has no other.
    pub(super) fn cast_operand(&mut self, operand: &Expr, target: DataType) -> Bound<Typed> {
        match (operand, target) {
            (Expr::Array(ast::Array { elem, .. }), DataType::System(SystemType::List(list)))
                if elem.is_empty() && !list.is_vector() =>
            {
                Ok(Typed::new(Expression::Literal(Value::Array(Array::empty(list))), target))
            }
            _ => self.bind(operand),
        }
    }
}

/// The array of these values.
///
/// # Errors
/// 54000 if it is too large, and those of casts to the items' type.
pub(super) fn make_array(list: ListType, values: Vec<Value>) -> Result<Array> {
    let mut items = ArrayBuilder::new(list);
    values.iter().try_for_each(|value| push(&mut items, value))?;
    Ok(items.finish())
}

/// Appends an item, cast to the items' type; numerics keep their own digits.
///
/// # Errors
/// Those of [`make_array`].
pub(super) fn push(items: &mut ArrayBuilder, value: &Value) -> Result<()> {
    let is_exact = matches!(items.item_type(), DataType::Numeric { .. } | DataType::Number);
    match value {
        Value::Null | Value::Numeric(_) | Value::Number(_) if is_exact || value.is_null() => {
            items.push(value.into())
        }
        _ if is_exact => items.push((&cast(value.clone(), DataType::Number)?).into()),
        _ => items.push((&cast(value.clone(), items.item_type())?).into()),
    }
}
