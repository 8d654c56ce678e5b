//! Which types functions and aggregates take that are not ours.

use super::read::Reader;
use super::undefined_function;
use crate::name::not_supported;
use crate::olap::error::external;
use crate::olap::list_cast;
use crate::olap::value::field_type;
use ankerdb_engine::{DataType, ListType};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable};

impl Reader<'_, '_> {
    /// Arguments of a function that is not ours: lists of labels as lists of texts where it writes them.
    ///
    /// # Errors
    /// 42883 for labels, which are times to other functions than those of lists.
    pub(super) fn without_labels(&self, name: &str, arguments: &mut [Expr]) -> Result<()> {
        for argument in arguments {
            let (_, field) = argument.to_field(self.schema.as_ref())?;
            let known = match field.data_type() {
                ArrowType::List(_) => self.list_type(argument)?.ok().map(ListType::item_type),
                _ => field_type(&field),
            };
            let Some(labels @ DataType::Enum(_)) = known else { continue };
            match name {
                "array_to_string" => *argument = list_cast::call(argument.clone(), ListType::Text),
                "make_array" | "cardinality" => {}
                _ if name.starts_with("array_") => {}
                _ => return Err(external(undefined_function(&format!("{name}({labels})")))),
            }
        }
        Ok(())
    }
}

/// Whether the items are labels.
pub(super) fn is_of_labels(list: ListType) -> bool {
    matches!(list, ListType::Enum(_))
}

/// Whether an aggregate is one of numbers, or of booleans.
fn takes_numbers(name: &str) -> bool {
    let is_spread = name.starts_with("stddev") || name.starts_with("var");
    is_spread
        || matches!(name, "sum" | "avg" | "bool_and" | "bool_or" | "every" | "bit_and" | "bit_or" | "bit_xor")
}

/// 42883 for aggregates of types that PostgreSQL does not have.
pub(super) fn check_aggregate(name: &str, argument: &Field) -> Result<()> {
    let refused = match field_type(argument) {
        Some(
            known @ (DataType::Boolean | DataType::Uuid | DataType::Bytea | DataType::Json | DataType::Jsonb),
        ) if matches!(name, "min" | "max") => known,
        Some(known @ (DataType::Json | DataType::Jsonb | DataType::Enum(_))) if name == "string_agg" => known,
        Some(known @ DataType::Bytea) if name == "string_agg" => {
            return Err(external(not_supported(&format!("{name} of {known}"))));
        }
        Some(known @ DataType::Enum(_)) if takes_numbers(name) => known,
        Some(known @ (DataType::Json | DataType::Jsonb)) if name == "array_agg" => {
            return Err(external(not_supported(&format!("a list of {known}"))));
        }
        _ => return Ok(()),
    };
    Err(external(undefined_function(&format!("{name}({refused})"))))
}
