//! `string_agg`: texts or bytes one behind the other, with a delimiter before each but the first.
//!
//! DataFusion's has constants as delimiters, and no bytes. To PostgreSQL the delimiter is an argument like the other: each row has its own, a
//! NULL is none, and the first row's is left out. A group keeps its first delimiter in front, and how long that is, so that what was
//! joined apart can be joined (`string_agg_combine` of PostgreSQL does as much).

use super::error::external;
use super::value::sql_type;
use crate::expression::bind::type_name;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder, BooleanArray, UInt32Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use std::iter::repeat_n;
use std::sync::Arc;

/// The longest result: what PostgreSQL's values can have.
const BYTES_MAX: usize = (1 << 30) - 1;

/// The function, to be registered over DataFusion's.
pub(crate) fn function() -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(StringAgg { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StringAgg {
    signature: Signature,
}

impl AggregateUDFImpl for StringAgg {
    fn name(&self) -> &str {
        "string_agg"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            // What has no type yet is what the other is. The types of operands are settled later (`typing`).
            [bytes, DataType::Utf8] if is_bytea(bytes) => Ok(vec![bytes.clone(), bytes.clone()]),
            [_, _] => Ok(arguments.to_vec()),
            _ => {
                let types: Vec<String> =
                    arguments.iter().map(|argument| type_name(sql_type(argument))).collect();
                let message = format!("function string_agg({}) does not exist", types.join(", "));
                Err(external(Error::new(SqlState::UndefinedFunction, message)))
            }
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(if arguments.iter().any(is_bytea) { DataType::BinaryView } else { DataType::Utf8View })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "bytes"), DataType::BinaryView, true)),
            Arc::new(Field::new(format_state_name(args.name, "first delimiter"), DataType::UInt32, true)),
        ])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneText(JoinedTexts::new(args.return_field.data_type(), 1))))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(JoinedTexts::new(args.return_field.data_type(), 0)))
    }
}

/// Other binary types are those of numbers and packed values.
fn is_bytea(arrow: &DataType) -> bool {
    *arrow == DataType::BinaryView
}

/// What was joined of a group.
#[derive(Clone, Debug, Default)]
struct Joined {
    bytes: Vec<u8>,
    /// How many of them are the first row's delimiter; [`None`] as long as there was no row.
    first_delimiter: Option<u32>,
}

impl Joined {
    /// Joins a text with its delimiter; returns by how much the group's memory has grown.
    fn join(&mut self, delimiter: &[u8], text: &[u8]) -> Result<usize> {
        let (length, capacity) = (self.bytes.len() + delimiter.len() + text.len(), self.bytes.capacity());
        let delimiter_length = *self.first_delimiter.get_or_insert(delimiter.len() as u32);
        if length - delimiter_length as usize > BYTES_MAX {
            let message = format!("string_agg is longer than {BYTES_MAX} bytes");
            return Err(external(Error::new(SqlState::ProgramLimitExceeded, message)));
        }
        self.bytes.extend_from_slice(delimiter);
        self.bytes.extend_from_slice(text);
        Ok(self.bytes.capacity() - capacity)
    }

    /// Joins what was joined apart.
    fn join_all(&mut self, bytes: &[u8], first_delimiter: u32) -> Result<usize> {
        let (delimiter, text) = bytes.split_at(first_delimiter as usize);
        self.join(delimiter, text)
    }

    fn result(&self) -> Option<&[u8]> {
        self.first_delimiter.map(|length| &self.bytes[length as usize..])
    }
}

/// All groups of a query.
#[derive(Debug)]
struct JoinedTexts {
    is_binary: bool,
    groups: Vec<Joined>,
    /// The memory of the texts.
    bytes: usize,
}

impl JoinedTexts {
    fn new(result: &DataType, groups: usize) -> JoinedTexts {
        JoinedTexts { is_binary: is_bytea(result), groups: vec![Joined::default(); groups], bytes: 0 }
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Joined> {
        let taken = emit_to.take_needed(&mut self.groups);
        self.bytes -= taken.iter().map(|group| group.bytes.capacity()).sum::<usize>();
        taken
    }

    fn array(&self, groups: &[Joined]) -> Result<ArrayRef> {
        let mut builder = BinaryViewBuilder::with_capacity(groups.len());
        groups.iter().for_each(|group| builder.append_option(group.result()));
        let bytes = builder.finish();
        Ok(if self.is_binary { Arc::new(bytes) } else { Arc::new(bytes.to_string_view()?) })
    }
}

impl GroupsAccumulator for JoinedTexts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        rows: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.groups.resize(count, Joined::default());
        let (texts, delimiters) =
            (cast(&values[0], &DataType::BinaryView)?, cast(&values[1], &DataType::BinaryView)?);
        let (texts, delimiters) = (texts.as_binary_view(), delimiters.as_binary_view());
        for (row, group) in groups.iter().enumerate() {
            let stays = rows.is_none_or(|rows| rows.is_valid(row) && rows.value(row));
            if stays && texts.is_valid(row) {
                let delimiter = if delimiters.is_valid(row) { delimiters.value(row) } else { &[] };
                self.bytes += self.groups[*group].join(delimiter, texts.value(row))?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.take(emit_to);
        self.array(&groups)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit_to);
        let mut builder = BinaryViewBuilder::with_capacity(groups.len());
        for group in &groups {
            builder.append_option(group.first_delimiter.map(|_| &group.bytes));
        }
        let delimiters: UInt32Array = groups.iter().map(|group| group.first_delimiter).collect();
        Ok(vec![Arc::new(builder.finish()), Arc::new(delimiters)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.groups.resize(count, Joined::default());
        let (bytes, delimiters) = (states[0].as_binary_view(), states[1].as_primitive::<UInt32Type>());
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| bytes.is_valid(*row)) {
            self.bytes += self.groups[*group].join_all(bytes.value(row), delimiters.value(row))?;
        }
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], rows: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut apart = JoinedTexts { is_binary: self.is_binary, groups: Vec::new(), bytes: 0 };
        let each: Vec<usize> = (0..values[0].len()).collect();
        apart.update_batch(values, &each, rows, each.len())?;
        apart.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of::<JoinedTexts>() + self.groups.capacity() * size_of::<Joined>() + self.bytes
    }
}

/// The one group of a query that does not group.
#[derive(Debug)]
struct OneText(JoinedTexts);

impl Accumulator for OneText {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let groups: Vec<usize> = repeat_n(0, values[0].len()).collect();
        self.0.update_batch(values, &groups, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.array(&self.0.groups)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.0.state(EmitTo::All)?;
        self.0.groups = vec![Joined::default()];
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups: Vec<usize> = repeat_n(0, states[0].len()).collect();
        self.0.merge_batch(states, &groups, 1)
    }

    fn size(&self) -> usize {
        size_of::<OneText>() + self.0.size()
    }
}
