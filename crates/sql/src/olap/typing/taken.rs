//! Which types functions and aggregates take that are not ours.

use super::keyed::as_number;
use super::read::{Operand, Reader};
use super::undefined_function;
use crate::name::not_supported;
use crate::olap::error::external;
use crate::olap::list_cast;
use crate::olap::value::{field_type, sql_type};
use ankerdb_engine::{DataType, ListType, PackedType, SystemType};
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

impl Reader<'_, '_> {
    /// Arguments of a function that is not ours: exact numbers that meet a numeric of any length in a list are such numerics.
    ///
    /// # Errors
    /// 0A000 for functions that look for items, which do not compare as they lie.
    pub(super) fn with_numbers(&self, name: &str, arguments: &mut [Expr]) -> Result<()> {
        let mut types = Vec::with_capacity(arguments.len());
        for argument in arguments.iter() {
            types.push(argument.to_field(self.schema.as_ref())?.1);
        }
        let in_list = types.iter().any(|field| is_list_of_numbers(field.data_type()));
        if in_list && LOOKING.contains(&name) {
            return Err(external(not_supported(&format!("{name} of numerics of any length"))));
        }
        let is_met = match name {
            "make_array" => types.iter().any(|field| field_type(field) == Some(DataType::Number)),
            "array_append" | "array_prepend" => in_list,
            _ => false,
        };
        for (argument, field) in arguments.iter_mut().zip(&types).filter(|_| is_met) {
            let is_exact =
                field_type(field).is_some_and(|known| known != DataType::Number && known.is_exact());
            if is_exact {
                *argument = as_number(argument.clone());
            }
        }
        Ok(())
    }

    /// 0A000 for an operator that compares lists of numerics of any length.
    pub(super) fn check_lists(&self, operator: &str, operands: [&Operand; 2]) -> Result<()> {
        for operand in operands {
            if let Operand::Foreign(list) = operand
                && is_list_of_numbers(&list.get_type(self.schema.as_ref())?)
            {
                let what = format!("the operator {operator} of lists of numerics of any length");
                return Err(external(not_supported(&what)));
            }
        }
        Ok(())
    }
}

/// Functions that compare items.
const LOOKING: [&str; 10] = [
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_replace",
    "array_replace_all",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_sort",
];

fn is_list_of_numbers(arrow: &ArrowType) -> bool {
    matches!(arrow, ArrowType::List(items) if *items.data_type() == ArrowType::LargeBinary)
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

/// Whether the aggregate combines bits, of integers or of strings.
fn combines_bits(name: &str) -> bool {
    matches!(name, "bit_and" | "bit_or" | "bit_xor")
}

/// Whether values are strings of bits.
fn is_bits(known: DataType) -> bool {
    matches!(known, DataType::Packed(packed) if packed.is_bits())
}

/// Whether the aggregate is one of doubles, which numerics become for it.
pub(super) fn takes_doubles(name: &str) -> bool {
    name.starts_with("regr_") || matches!(name, "corr" | "covar_pop" | "covar_samp" | "percentile_cont")
}

/// Whether an aggregate of numbers, or of booleans, takes values of a type.
fn takes(name: &str, known: DataType) -> bool {
    match name {
        "sum" | "avg" => known.is_numeric() || matches!(known, DataType::Interval(_) | DataType::Time(_)),
        "bool_and" | "bool_or" | "every" => known == DataType::Boolean,
        _ if combines_bits(name) => {
            is_bits(known) || matches!(known, DataType::SmallInt | DataType::Integer | DataType::BigInt)
        }
        _ => known.is_numeric(),
    }
}

/// 42883 for aggregates of types that PostgreSQL does not have.
pub(super) fn check_aggregate(name: &str, argument: &Field) -> Result<()> {
    let refused = match field_type(argument) {
        Some(known) if takes_numbers(name) && !takes(name, known) => known,
        None if takes_numbers(name) && argument.data_type().is_nested() => sql_type(argument.data_type()),
        Some(
            known @ (DataType::Boolean | DataType::Uuid | DataType::Bytea | DataType::Json | DataType::Jsonb),
        ) if matches!(name, "min" | "max") => known,
        Some(known) if name == "string_agg" && !known.is_text() && known != DataType::Bytea => known,
        Some(known @ (DataType::Packed(PackedType::Range(_)) | DataType::System(SystemType::Row(_))))
            if matches!(name, "min" | "max") =>
        {
            known
        }
        Some(known) if is_bits(known) && matches!(name, "min" | "max") => known,
        Some(known @ (DataType::Json | DataType::Jsonb)) if name == "array_agg" => {
            return Err(external(not_supported(&format!("a list of {known}"))));
        }
        _ => return Ok(()),
    };
    Err(external(undefined_function(&format!("{name}({refused})"))))
}
