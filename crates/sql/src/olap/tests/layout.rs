//! Blocks as Arrow arrays: same addresses, same values.

use super::super::arrow::{narrow_type, record_batch, wide_type};
use super::rows_of;
use super::*;
use ankerdb_engine::{BlockImage, Bytes, ColumnImage, Interval, ROWS_PER_BLOCK, SqlState};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};

/// Memory aligned as blocks are.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

fn bytes(content: &[u8]) -> Bytes {
    let mut lines = vec![Line([0; 64]); content.len().div_ceil(64).max(1)];
    for (line, part) in lines.iter_mut().zip(content.chunks(64)) {
        line.0[..part.len()].copy_from_slice(part);
    }
    let owner = Arc::new(lines);
    Bytes { pointer: owner.as_ptr().cast(), length: content.len(), owner }
}

fn column(values: Bytes, validity: Option<u8>) -> ColumnImage {
    ColumnImage { values, validity: validity.map(|bits| bytes(&[bits])), heaps: Vec::new(), lent: true }
}

fn schema(arrow: ArrowType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("c", arrow, true)]))
}

/// The address of the first buffer of the only column.
fn address(batch: &RecordBatch) -> *const u8 {
    batch.column(0).to_data().buffers()[0].as_ptr()
}

/// Two rows of the type, the second NULL, from these bytes; checks that nothing is copied.
fn lent_value(data_type: DataType, content: &[u8]) -> Value {
    let values = bytes(content);
    let pointer = values.pointer;
    let image = BlockImage { rows: 2, selection: None, columns: vec![column(values, Some(0b01))] };
    let batch = record_batch(image, &[data_type], &schema(narrow_type(data_type))).unwrap();
    assert_eq!(address(&batch), pointer, "{data_type} was copied");
    let mut rows = rows_of(&batch).unwrap();
    assert_eq!(rows[1], [Value::Null], "{data_type}");
    rows.remove(0).remove(0)
}

/// A value's bytes, twice.
fn twice<const N: usize>(value: [u8; N]) -> Vec<u8> {
    [value, value].concat()
}

#[test]
fn every_fixed_width_type_is_handed_over_in_place() {
    let numeric_type = |precision, scale| DataType::Numeric { precision, scale };
    assert_eq!(lent_value(DataType::Boolean, &[0b11]), Value::Boolean(true));
    assert_eq!(lent_value(DataType::SmallInt, &twice((-5i16).to_le_bytes())), Value::SmallInt(-5));
    assert_eq!(lent_value(DataType::Integer, &twice(7i32.to_le_bytes())), Value::Integer(7));
    assert_eq!(lent_value(DataType::BigInt, &twice(1i64.to_le_bytes())), Value::BigInt(1));
    assert_eq!(lent_value(DataType::Real, &twice(1.5f32.to_le_bytes())), Value::Real(1.5));
    assert_eq!(lent_value(DataType::DoublePrecision, &twice(2.5f64.to_le_bytes())), Value::Double(2.5));
    assert_eq!(lent_value(numeric_type(6, 2), &twice(12345i32.to_le_bytes())), numeric(12345, 2));
    assert_eq!(lent_value(numeric_type(12, 2), &twice((-9i64).to_le_bytes())), numeric(-9, 2));
    assert_eq!(lent_value(numeric_type(30, 4), &twice(11i128.to_le_bytes())), numeric(11, 4));
    assert_eq!(lent_value(DataType::Date, &twice(3i32.to_le_bytes())), Value::Date(3));
    assert_eq!(lent_value(DataType::TIMESTAMP, &twice(4i64.to_le_bytes())), Value::Timestamp(4));
    assert_eq!(lent_value(DataType::TIMESTAMPTZ, &twice(5i64.to_le_bytes())), Value::TimestampTz(5));
    assert_eq!(lent_value(DataType::TIME, &twice(6i64.to_le_bytes())), Value::Time(6));
    assert_eq!(lent_value(DataType::Uuid, &twice([9u8; 16])), Value::Uuid([9; 16]));
}

/// Arrow's intervals count nanoseconds: they are copied, and more hours than these hold are an error.
#[test]
fn intervals_are_converted_where_they_fit() {
    let batch = |interval: Interval| {
        let values = bytes(&twice(interval.to_bits().to_le_bytes()));
        let image = BlockImage { rows: 2, selection: None, columns: vec![column(values, Some(0b01))] };
        record_batch(image, &[DataType::INTERVAL], &schema(wide_type(DataType::INTERVAL)))
    };
    for microseconds in [-3, i64::MAX / 1000, i64::MIN / 1000] {
        let interval = Interval::new(-1, 2, microseconds);
        let rows = rows_of(&batch(interval).unwrap()).unwrap();
        assert_eq!(rows, [[Value::Interval(interval)], [Value::Null]]);
    }
    let error = batch(Interval::new(0, 0, i64::MAX / 1000 + 1)).unwrap_err();
    assert_eq!(error.state(), SqlState::DatetimeFieldOverflow);
}

#[test]
fn text_and_bytea_keep_their_views_and_heaps() {
    let long = "more than twelve bytes of text";
    let mut view = (long.len() as u128).to_le_bytes();
    view[4..8].copy_from_slice(&long.as_bytes()[..4]);
    let heap = bytes(long.as_bytes());
    for (data_type, expected) in
        [(DataType::Text, Value::text(long)), (DataType::Bytea, Value::Bytea(long.as_bytes().into()))]
    {
        let values = bytes(&view);
        let (views_at, heap_at) = (values.pointer, heap.pointer);
        let column = ColumnImage { heaps: vec![heap.clone()], ..column(values, None) };
        let image = BlockImage { rows: 1, selection: None, columns: vec![column] };
        let batch = record_batch(image, &[data_type], &schema(wide_type(data_type))).unwrap();
        let data = batch.column(0).to_data();
        assert_eq!((data.buffers()[0].as_ptr(), data.buffers()[1].as_ptr()), (views_at, heap_at));
        assert_eq!(rows_of(&batch).unwrap(), [[expected]]);
    }
}

#[test]
fn the_memory_lives_as_long_as_the_array() {
    let values = bytes(&42i64.to_le_bytes());
    let owner = Arc::downgrade(&values.owner);
    let image = BlockImage { rows: 1, selection: None, columns: vec![column(values, None)] };
    let batch = record_batch(image, &[DataType::BigInt], &schema(ArrowType::Int64)).unwrap();
    let sliced = batch.slice(0, 1);
    drop(batch);
    assert!(owner.upgrade().is_some());
    assert_eq!(rows_of(&sliced).unwrap(), [[Value::BigInt(42)]]);
    drop(sliced);
    assert!(owner.upgrade().is_none(), "the array is gone, its memory is not");
}

#[test]
fn only_selected_rows_come_out() {
    let values: Vec<u8> = (0..70i32).flat_map(i32::to_le_bytes).collect();
    let selection: Box<[u64]> = Box::new([0b101, 0b100]);
    let image = |columns| BlockImage { rows: 70, selection: Some(selection.clone()), columns };
    let batch = record_batch(
        image(vec![column(bytes(&values), None)]),
        &[DataType::Integer],
        &schema(ArrowType::Int32),
    );
    let rows = rows_of(&batch.unwrap()).unwrap();
    assert_eq!(rows, [[Value::Integer(0)], [Value::Integer(2)], [Value::Integer(66)]]);

    let empty = Arc::new(Schema::empty());
    assert_eq!(record_batch(image(Vec::new()), &[], &empty).unwrap().num_rows(), 3);
}

#[test]
fn numerics_are_widened_only_where_asked() {
    let data_type = DataType::Numeric { precision: 9, scale: 2 };
    let content = twice((-123i32).to_le_bytes());
    let image =
        || BlockImage { rows: 2, selection: None, columns: vec![column(bytes(&content), Some(0b10))] };
    let wide = record_batch(image(), &[data_type], &schema(wide_type(data_type))).unwrap();
    let narrow = record_batch(image(), &[data_type], &schema(narrow_type(data_type))).unwrap();
    assert_eq!(wide.column(0).data_type(), &ArrowType::Decimal128(9, 2));
    assert_eq!(narrow.column(0).data_type(), &ArrowType::Decimal32(9, 2));
    assert_eq!(rows_of(&wide).unwrap(), rows_of(&narrow).unwrap());
    assert_eq!(rows_of(&wide).unwrap(), [[Value::Null], [numeric(-123, 2)]]);
}

#[test]
fn a_column_that_is_too_short_is_an_error() {
    let image = BlockImage { rows: 3, selection: None, columns: vec![column(bytes(&[0; 8]), None)] };
    assert!(record_batch(image, &[DataType::Integer], &schema(ArrowType::Int32)).is_err());
}

#[test]
fn a_clean_block_of_the_engine_reaches_arrow_in_place() {
    let fixture = Fixture::with_lines(2 * ROWS_PER_BLOCK as i32);
    let table = fixture.database.catalog().table("line").unwrap();
    let view = fixture.view();
    let mut lent = 0;
    for part in 0..view.parts(&table) {
        let image = view.read(&table, part, &[0]).unwrap();
        let (pointer, was_lent) = (image.columns[0].values.pointer, image.columns[0].lent);
        let batch = record_batch(image, &[DataType::Integer], &schema(ArrowType::Int32)).unwrap();
        if was_lent {
            assert_eq!(address(&batch), pointer);
            lent += 1;
        }
    }
    assert!(lent > 0, "no block was lent");
}
