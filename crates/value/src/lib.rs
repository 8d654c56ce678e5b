//! SQL types and values.
//!
//! A [`DataType`] is what a column is declared as, a [`Value`] is one cell outside of storage. Text forms are
//! PostgreSQL's; arithmetic, casts and comparison follow PostgreSQL's rules and never wrap around.

#![forbid(unsafe_code)]

mod array;
mod array_order;
mod array_text;
mod calendar;
mod cast;
mod data_type;
mod date_field;
mod date_style;
mod datetime;
mod decimal;
mod digits;
mod domain_type;
mod enum_type;
mod fit;
mod float;
mod interval;
mod interval_math;
mod interval_output;
mod interval_text;
mod item_limit;
pub mod json;
mod kept_name;
mod key;
mod literal;
mod moment_field;
mod moment_text;
mod number;
mod numbered;
mod operator;
mod packed;
mod precision;
mod present;
mod row_type;
mod system_type;
mod text;
mod text_style;
mod type_name;
mod value;
mod value_ref;
mod wide;
mod zone;

#[cfg(test)]
mod strategy;

pub use array::{Array, ArrayBuilder, ArrayRef, Dimension};
pub use array_text::push_item;
pub use cast::{assign, cast};
pub use data_type::{DataType, MAX_NUMERIC_PRECISION, numeric_storage_bits};
pub use date_field::{DateField, date_trunc, extract};
pub use date_style::{Clocks, DateFormat, DateOrder, DateStyle};
pub use datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, FIRST_DAY, INFINITY, LAST_DAY, MINUS_INFINITY, civil_from_days,
    days_from_civil, is_infinite, is_infinite_date,
};
pub use decimal::Decimal;
pub use domain_type::{DomainType, KEPT_DOMAIN};
pub use enum_type::{ENUM_SLOTS, EnumLife, EnumPlace, EnumState, EnumType, EnumValue, Label};
pub use fit::cut;
pub use interval::Interval;
pub use interval_math::age;
pub use item_limit::ItemLimit;
pub use kept_name::{KeptName, renamed, renumbered};
pub use key::{encode_key, push_bigint, push_integer, push_smallint, push_text, push_value};
pub use number::{
    Number, NumberSum, Spread, compare_numbers, number_from_binary, number_to_binary, push_number_key,
};
pub use operator::{add, compare, concat, divide, modulo, multiply, negate, subtract};
pub use packed::network::{push_abbreviated, push_host};
pub use packed::{
    BitLength, Bits, Network, Packed, PackedRef, PackedType, Range, RangeBound, RangeType, TimeTz,
};
pub use precision::{IntervalFields, IntervalLimit, Precision};
pub use present::{enter_present, mentions_present, present, within_present};
pub use row_type::{
    RowType, push_row_key, relation_of_rows, row_array_oid, row_fields, row_text, row_type_oid,
};
pub use system_type::{ListType, ObjectKind, SystemType};
pub use text::{format_text, parse_text};
pub use text_style::{IntervalStyle, TextStyle};
pub use type_name::{KEPT_ENUM, type_by_name};
pub use value::Value;
pub use value_ref::ValueRef;
pub use zone::{Zone, ZoneNames, ZoneRules};
