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
    for value in values {
        let item = match (&value, list) {
            // Numerics keep their own digits.
            (Value::Numeric(_) | Value::Number(_), ListType::Numeric) => value,
            (_, ListType::Numeric) => cast(value, DataType::Number)?,
            _ => cast(value, list.item_type())?,
        };
        items.push((&item).into())?;
    }
    Ok(items.finish())
}
