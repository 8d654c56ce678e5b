//! `bit_and`, `bit_or` and `bit_xor` of strings of bits; those of integers are DataFusion's.

use super::error::external;
use super::value::with_type;
use crate::columns::Cells;
use crate::expression::library::Combination;
use crate::expression::types::ANY_BIT;
use crate::name::not_supported;
use ankerdb_engine::{Bits, Error, PackedRef, SqlState, ValueRef};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The three, to be registered over DataFusion's.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    let make = |stock, combination| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(BitAggregate { stock, combination, signature }))
    };
    vec![
        make(bit_and_udaf(), Combination::And),
        make(bit_or_udaf(), Combination::Or),
        make(bit_xor_udaf(), Combination::ExclusiveOr),
    ]
}

/// The type of strings of bits.
const BITS: ArrowType = ArrowType::Binary;

#[derive(Debug)]
struct BitAggregate {
    /// DataFusion's function for integers.
    stock: Arc<AggregateUDF>,
    combination: Combination,
    signature: Signature,
}

impl PartialEq for BitAggregate {
    fn eq(&self, other: &BitAggregate) -> bool {
        self.combination == other.combination
    }
}
impl Eq for BitAggregate {}
impl Hash for BitAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.combination.hash(state);
    }
}

fn is_of_bits(arguments: &[FieldRef]) -> bool {
    arguments.first().is_some_and(|argument| *argument.data_type() == BITS)
}

impl AggregateUDFImpl for BitAggregate {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        match arguments {
            [argument] if argument.is_integer() || *argument == BITS => Ok(vec![argument.clone()]),
            // What has no type could be any integer.
            [ArrowType::Null] => Ok(vec![ArrowType::Int64]),
            // Types of operands are settled later, and what is refused then is refused by `typing::taken`.
            [other] => Ok(vec![other.clone()]),
            _ => {
                let message = format!("function {} takes one argument", self.name());
                Err(external(Error::new(SqlState::UndefinedFunction, message)))
            }
        }
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(arguments[0].clone())
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        match is_of_bits(arguments) {
            true => Ok(Arc::new(with_type(Field::new(self.name(), BITS, true), ANY_BIT))),
            false => self.stock.inner().return_field(arguments),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match is_of_bits(args.input_fields) {
            true => Ok(vec![Arc::new(Field::new(format_state_name(args.name, "bits"), BITS, true))]),
            false => self.stock.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !is_of_bits(args.expr_fields) {
            return self.stock.accumulator(args);
        }
        if args.is_distinct {
            return Err(external(not_supported("bit_xor(DISTINCT ...) of strings of bits")));
        }
        Ok(Box::new(Combined { combination: self.combination, bits: None }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match is_of_bits(args.expr_fields) {
            true => self.accumulator(args),
            false => self.stock.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !is_of_bits(args.expr_fields) && self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.stock.create_groups_accumulator(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// All strings so far in one; `None` before the first.
#[derive(Debug)]
struct Combined {
    combination: Combination,
    bits: Option<Bits>,
}

impl Combined {
    fn add(&mut self, array: &ArrayRef) -> Result<()> {
        let cells = Cells::new(array).map_err(external)?;
        for row in 0..array.len() {
            let ValueRef::Packed(packed) = cells.value(row) else { continue };
            self.note(packed)?;
        }
        Ok(())
    }

    fn note(&mut self, packed: PackedRef<'_>) -> Result<()> {
        let bits = packed.bits();
        self.bits = Some(match &self.bits {
            Some(known) => self.combination.of(known, &bits).map_err(external)?,
            None => bits,
        });
        Ok(())
    }

    fn scalar(&self) -> ScalarValue {
        let packed = self.bits.as_ref().map(Bits::packed);
        ScalarValue::Binary(packed.map(|packed| packed.borrow().bytes().to_vec()))
    }
}

impl Accumulator for Combined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(&states[0])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.scalar())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bits.as_ref().map_or(0, |bits| bits.bytes().len())
    }
}
