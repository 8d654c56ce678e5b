//! Random pipelines over random rows, three ways: interpreted, compiled, and compiled with checks of bounds.

use crate::lanes::Planted;
use crate::{
    CodeMeaning, ColumnSlice, ComparedBy, Compiled, CompressedSlice, Datum, Fault, InputColumn, Instruction,
    Pipeline, PipelineAggregate, PipelineBatch, PipelineBuilder, PipelineGroups, PipelineRunner, ValueKind,
    ValueNumber,
};
use fastrand::Rng;
use std::collections::BTreeMap;

mod bitmaps;

/// A column's memory.
struct ColumnMemory {
    values: Vec<u8>,
    validity: Option<Vec<u8>>,
    first: usize,
}

/// A number of at most so many bits, often one at an end of the range.
fn number(rng: &mut Rng, bits: u8) -> i128 {
    let most = i128::MAX >> (127 - bits);
    match rng.u8(..12) {
        0 => most,
        1 => -most,
        2 => 0,
        3..=8 => i128::from(rng.i8(..)).clamp(-most, most),
        _ => rng.i128(-most..=most),
    }
}

fn integer(rng: &mut Rng, bits: u8) -> i128 {
    let least = -(1i128 << bits);
    if rng.u8(..20) == 0 { least } else { number(rng, bits) }
}

fn double(rng: &mut Rng) -> f64 {
    let ends =
        [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -1.5];
    match rng.bool() {
        true => ends[rng.usize(..ends.len())],
        false => f64::from(rng.i16(..)) / 8.0,
    }
}

fn text(rng: &mut Rng, words: u8) -> Datum {
    let texts = ["", "A", "N", "R", "AB", "ABCD", "ABCDE", "ABCDEFGHIJKL"];
    Datum::text(texts[rng.usize(..if words == 1 { 6 } else { 8 })]).expect("a short text")
}

fn datum(rng: &mut Rng, kind: ValueKind) -> Datum {
    match kind {
        ValueKind::Bool => Datum::Bool(rng.bool()),
        ValueKind::Int32 | ValueKind::Date => Datum::Number(integer(rng, 31)),
        ValueKind::Int64 => Datum::Number(integer(rng, 63)),
        ValueKind::Decimal { bits } => Datum::Number(number(rng, bits)),
        ValueKind::Double => Datum::Double(double(rng)),
        ValueKind::Text { words } => text(rng, words),
    }
}

fn memory(rng: &mut Rng, column: InputColumn, rows: usize) -> ColumnMemory {
    let first = rng.usize(..9);
    let bits = |rng: &mut Rng| (0..(first + rows).div_ceil(8)).map(|_| rng.u8(..)).collect::<Vec<u8>>();
    let validity = rng.bool().then(|| bits(rng));
    if column.bytes == 0 {
        return ColumnMemory { values: bits(rng), validity, first };
    }
    let mut values = Vec::new();
    for row in 0..rows {
        let is_null =
            validity.as_ref().is_some_and(|bits| bits[(first + row) / 8] >> ((first + row) % 8) & 1 == 0);
        // Under a NULL lies anything.
        let words = if is_null { [rng.u64(..), rng.u64(..)] } else { datum(rng, column.kind).words() };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        values.extend_from_slice(&bytes[..usize::from(column.bytes)]);
    }
    ColumnMemory { values, validity, first }
}

fn batch<'a>(pipeline: &Pipeline, columns: &'a [ColumnMemory], rows: usize) -> PipelineBatch<'a> {
    let slices = columns.iter().zip(&pipeline.columns).map(|(memory, column)| ColumnSlice {
        values: &memory.values,
        first_bit: if column.bytes == 0 { memory.first } else { 0 },
        validity: memory.validity.as_ref().map(|bits| (&bits[..], memory.first)),
        compressed: None,
    });
    PipelineBatch::new(pipeline, slices.collect(), rows).expect("columns of that many rows")
}

const RELATIONS: [ComparedBy; 6] = [
    ComparedBy::Equal,
    ComparedBy::Unequal,
    ComparedBy::Less,
    ComparedBy::LessOrEqual,
    ComparedBy::Greater,
    ComparedBy::GreaterOrEqual,
];

fn kind(rng: &mut Rng) -> ValueKind {
    match rng.u8(..9) {
        0 => ValueKind::Bool,
        1 | 2 => ValueKind::Int32,
        3 => ValueKind::Int64,
        4 => ValueKind::Date,
        5 | 6 => ValueKind::Decimal { bits: rng.u8(1..=127) },
        7 => ValueKind::Double,
        _ => ValueKind::Text { words: rng.u8(1..=2) },
    }
}

fn operation(rng: &mut Rng, values: &[ValueNumber]) -> Instruction {
    let (left, right) = (values[rng.usize(..values.len())], values[rng.usize(..values.len())]);
    match rng.u8(..14) {
        0..=3 => Instruction::Compare(RELATIONS[rng.usize(..6)], left, right),
        4 => Instruction::And(left, right),
        5 => Instruction::Or(left, right),
        6 => Instruction::Not(left),
        7 => Instruction::IsNull(left),
        8 => Instruction::Add(left, right),
        9 => Instruction::Subtract(left, right),
        10 => Instruction::Multiply(left, right),
        11 => Instruction::Divide(left, right),
        12 => Instruction::Scale(left, rng.u8(..=18)),
        _ if rng.bool() => Instruction::Widen(left),
        _ => Instruction::Decimal(left),
    }
}

/// A pipeline of instructions that are well typed by chance.
fn pipeline(rng: &mut Rng) -> Pipeline {
    let mut builder = PipelineBuilder::default();
    let mut values = Vec::new();
    for _ in 0..rng.usize(1..7) {
        let kind = kind(rng);
        let column = match kind {
            ValueKind::Decimal { bits } => {
                let fitting: Vec<u8> = [(4, 31), (8, 63), (16, 127)]
                    .iter()
                    .filter(|form| bits <= form.1)
                    .map(|form| form.0)
                    .collect();
                InputColumn::decimal(bits, fitting[rng.usize(..fitting.len())])
            }
            kind => InputColumn::of(kind),
        };
        let column = builder.input(column).expect("a form that there is");
        values.push(builder.compute(Instruction::Column(column)).expect("a column"));
        if rng.bool() {
            values.push(builder.parameter(kind).expect("a constant"));
        }
    }
    let mut kept = 0;
    for _ in 0..rng.usize(1..120) {
        let Ok(value) = builder.compute(operation(rng, &values)) else { continue };
        values.push(value);
        if builder.kind(value) == ValueKind::Bool && kept < 2 && rng.u8(..6) == 0 {
            builder.keep(value).expect("a truth value");
            kept += 1;
        }
    }
    if rng.u8(..4) == 0 {
        return builder.finish_selecting().expect("no aggregates");
    }
    for _ in 0..rng.usize(..4) {
        let _ = builder.key(values[rng.usize(..values.len())]);
    }
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    for _ in 0..rng.usize(1..8) {
        let value = values[rng.usize(..values.len())];
        let kinds = [
            PipelineAggregate::Count,
            PipelineAggregate::Sum,
            PipelineAggregate::Min,
            PipelineAggregate::Max,
        ];
        let _ = builder.aggregate(kinds[rng.usize(..4)](value));
    }
    builder.finish()
}

/// A pipeline, its constants and what it reads.
struct Case {
    pipeline: Pipeline,
    parameters: Vec<Datum>,
    batches: Vec<(Vec<ColumnMemory>, usize)>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut rng = Rng::with_seed(seed);
        let pipeline = pipeline(&mut rng);
        let parameters = pipeline.parameters.iter().map(|&kind| datum(&mut rng, kind)).collect();
        let mut batches = Vec::new();
        for _ in 0..3 {
            let rows = rng.usize(..80);
            let columns = pipeline.columns.iter().map(|&column| memory(&mut rng, column, rows)).collect();
            batches.push((columns, rows));
        }
        Case { pipeline, parameters, batches }
    }

    /// The result in two parts, if there are two.
    fn result_in_parts(&self, make: Option<CodeMaker<'_>>) -> Option<PipelineOutcome> {
        let parts = self.pipeline.parts()?;
        let mut selecting = PipelineRunner::new(&parts.selection, &self.parameters).expect("its parameters");
        let mut runner = PipelineRunner::new(&self.pipeline, &self.parameters).expect("its parameters");
        let mut selected = BTreeMap::new();
        for (number, (columns, rows)) in self.batches.iter().enumerate() {
            let batch = batch(&self.pipeline, columns, *rows);
            let [selection, rest] = [&parts.selection, &parts.rest]
                .map(|pipeline| make.map(|make| make(pipeline, batch.nulls())));
            let run = selecting
                .run(selection.as_ref(), &batch)
                .and_then(|()| runner.run_listed(&parts.rest, rest.as_ref(), &batch, selecting.selected()));
            if let Err(fault) = run {
                return Some(Err(fault));
            }
            let rows = runner.selected().iter().map(|&row| Some(row.into()));
            selected.insert(format!("batch {number}"), rows.collect());
        }
        Some(Ok(if self.pipeline.selects { selected } else { told(&self.pipeline, runner.groups()) }))
    }

    /// The result by the interpreter, or by code that is made so.
    fn result(&self, make: Option<CodeMaker<'_>>) -> PipelineOutcome {
        let mut runner = PipelineRunner::new(&self.pipeline, &self.parameters).expect("its parameters");
        let mut selected = BTreeMap::new();
        for (number, (columns, rows)) in self.batches.iter().enumerate() {
            let batch = batch(&self.pipeline, columns, *rows);
            let code = make.map(|make| make(&self.pipeline, batch.nulls()));
            runner.run(code.as_ref(), &batch)?;
            let rows = runner.selected().iter().map(|&row| Some(row.into()));
            selected.insert(format!("batch {number}"), rows.collect());
        }
        Ok(if self.pipeline.selects { selected } else { told(&self.pipeline, runner.groups()) })
    }
}

/// Makes code of a pipeline, for columns with NULLs as the bits say.
type CodeMaker<'a> = &'a dyn Fn(&Pipeline, u64) -> Compiled;

/// Aggregates by the texts of their keys, numbers of selected rows by their batches, or the error.
type PipelineOutcome = Result<BTreeMap<String, Vec<Option<i128>>>, Fault>;

fn told(pipeline: &Pipeline, groups: &PipelineGroups) -> BTreeMap<String, Vec<Option<i128>>> {
    let group = |group: usize| {
        let keys: Vec<_> = (0..pipeline.keys.len()).map(|key| groups.key(group, key)).collect();
        let aggregates =
            (0..pipeline.aggregates.len()).map(|number| groups.aggregate(group, number)).collect();
        (format!("{keys:?}"), aggregates)
    };
    (0..groups.len()).map(group).collect()
}

fn compiled(checks_bounds: bool, planted: Option<Planted>) -> impl Fn(&Pipeline, u64) -> Compiled {
    move |pipeline, nulls| {
        Compiled::with_fault(pipeline, nulls, checks_bounds, planted)
            .unwrap_or_else(|error| panic!("{error:?}\n{pipeline}"))
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn interpreted_compiled_and_checked_pipelines_give_the_same() {
    let (mut errors, mut grouped, mut selecting) = (0, 0, 0);
    for seed in 0..1500 {
        let case = Case::new(seed);
        let expected = case.result(None);
        for checks_bounds in [false, true] {
            let found = case.result(Some(&compiled(checks_bounds, None)));
            assert_eq!(found, expected, "seed {seed}, checks {checks_bounds}\n{}", case.pipeline);
        }
        errors += u32::from(expected.is_err());
        match case.pipeline.selects {
            true => {
                selecting +=
                    u32::from(expected.as_ref().is_ok_and(|rows| rows.values().any(|of| of.len() > 1)))
            }
            false => grouped += u32::from(expected.as_ref().is_ok_and(|groups| groups.len() > 1)),
        }
    }
    assert!(errors > 50, "only {errors} errors");
    assert!(grouped > 150, "only {grouped} with groups");
    assert!(selecting > 100, "only {selecting} with selected rows");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn parts_give_the_same_as_the_whole() {
    let mut grouped = 0;
    for seed in 0..800 {
        let case = Case::new(seed);
        let expected = case.result(None).ok();
        for make in [None, Some(&compiled(false, None) as CodeMaker<'_>), Some(&compiled(true, None))] {
            let Some(found) = case.result_in_parts(make) else { break };
            // Where several rows fail it may be another one that fails first.
            assert_eq!(found.ok(), expected, "seed {seed}\n{}", case.pipeline);
            grouped += u32::from(expected.as_ref().is_some_and(|groups| groups.len() > 1));
        }
    }
    assert!(grouped > 60, "only {grouped} with groups");
}

/// The control of the tests above: each fault of the backend is found.
#[cfg(target_arch = "x86_64")]
#[test]
fn planted_faults_are_found() {
    use Planted::{LessIsLessOrEqual, LostGroup, NoOverflow, NullIsFalse, SelectedAnyway, StaleValidity};
    for fault in [LessIsLessOrEqual, LostGroup, NoOverflow, NullIsFalse, SelectedAnyway, StaleValidity] {
        let is_found = (0..1500).any(|seed| {
            let case = Case::new(seed);
            case.result(None) != case.result(Some(&compiled(false, Some(fault))))
        });
        assert!(is_found, "{fault:?} is not found");
    }
}

/// TPC-H's sixth query.
fn revenue() -> (PipelineBuilder, [ValueNumber; 4]) {
    let mut builder = PipelineBuilder::default();
    let columns = [
        InputColumn::of(ValueKind::Date),
        InputColumn::decimal(50, 8),
        InputColumn::decimal(50, 8),
        InputColumn::decimal(50, 8),
    ];
    let values = columns.map(|column| {
        let column = builder.input(column).expect("a column");
        builder.compute(Instruction::Column(column)).expect("its value")
    });
    (builder, values)
}

#[test]
fn a_pipeline_is_readable() {
    let (mut builder, [day, discount, quantity, price]) = revenue();
    let first = builder.parameter(ValueKind::Date).expect("a constant");
    let least = builder.parameter(ValueKind::Decimal { bits: 7 }).expect("a constant");
    let late =
        builder.compute(Instruction::Compare(ComparedBy::GreaterOrEqual, day, first)).expect("a comparison");
    let some =
        builder.compute(Instruction::Compare(ComparedBy::Less, quantity, least)).expect("a comparison");
    let both = builder.compute(Instruction::And(late, some)).expect("truth values");
    builder.keep(both).expect("a truth value");
    let product = builder.compute(Instruction::Multiply(price, discount)).expect("decimals");
    builder.aggregate(PipelineAggregate::Sum(product)).expect("a decimal");
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    let text = "\
column 0: date
column 1: decimal(50) in 8 bytes
column 2: decimal(50) in 8 bytes
column 3: decimal(50) in 8 bytes
parameter 0: date
parameter 1: decimal(7)
%0 = column 0 : date
%1 = column 1 : decimal(50)
%2 = column 2 : decimal(50)
%3 = column 3 : decimal(50)
%4 = parameter 0 : date
%5 = parameter 1 : decimal(7)
%6 = %0 >= %4 : bool
%7 = %2 < %5 : bool
%8 = %6 and %7 : bool
keep %8
%9 = %3 * %1 : decimal(100)
sum %9
count
";
    assert_eq!(builder.finish().to_string(), text);
}

#[test]
fn ill_typed_instructions_are_refused() {
    let (mut builder, [day, discount, ..]) = revenue();
    let refused = builder.compute(Instruction::Compare(ComparedBy::Less, day, discount));
    assert!(refused.is_err_and(|error| error.to_string().starts_with("no instruction: %0 < %1")));
    assert!(builder.compute(Instruction::Add(day, day)).is_err());
    assert!(builder.keep(discount).is_err());
    assert!(builder.input(InputColumn::decimal(64, 8)).is_err());
    assert!(builder.aggregate(PipelineAggregate::Sum(day)).is_err());
}

#[test]
fn a_batch_has_all_values_of_its_rows() {
    let (builder, _) = revenue();
    let pipeline = builder.finish();
    let slice = |bytes: usize| ColumnSlice {
        values: &[0; 64][..bytes],
        first_bit: 0,
        validity: None,
        compressed: None,
    };
    let columns = |day, price| vec![slice(day), slice(64), slice(64), slice(price)];
    assert!(PipelineBatch::new(&pipeline, columns(32, 64), 8).is_some());
    assert!(PipelineBatch::new(&pipeline, columns(31, 64), 8).is_none(), "a date too few");
    assert!(PipelineBatch::new(&pipeline, columns(32, 63), 8).is_none(), "a price too few");
    assert!(PipelineBatch::new(&pipeline, columns(32, 64)[..3].to_vec(), 8).is_none(), "a column too few");
    let mut with_nulls = columns(32, 64);
    with_nulls[0].validity = Some((&[255], 1));
    assert!(PipelineBatch::new(&pipeline, with_nulls, 8).is_none(), "a bit of validity too few");
    let coded = |codes, bytes, meaning| {
        let mut columns = columns(32, 64);
        columns[0].compressed = Some(CompressedSlice { codes, bytes, meaning });
        PipelineBatch::new(&pipeline, columns, 8)
    };
    assert!(coded(&[0; 16], 2, CodeMeaning::Above(1)).is_some());
    assert!(coded(&[0; 15], 2, CodeMeaning::Above(1)).is_none(), "a code too few");
    assert!(coded(&[0; 64], 3, CodeMeaning::Above(1)).is_none(), "codes of three bytes");
    assert!(coded(&[0; 16], 2, CodeMeaning::Texts(&[])).is_none(), "texts in place of a date");
}

/// The directory grows, and every group is found again.
#[test]
fn many_groups_are_kept_apart() {
    let mut builder = PipelineBuilder::default();
    let column = builder.input(InputColumn::of(ValueKind::Int64)).expect("a column");
    let key = builder.compute(Instruction::Column(column)).expect("its value");
    builder.key(key).expect("a number");
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    let pipeline = builder.finish();
    let numbers: Vec<u8> = (0..5000i64).map(|row| row % 1250).flat_map(i64::to_ne_bytes).collect();
    let slice = ColumnSlice { values: &numbers, first_bit: 0, validity: None, compressed: None };
    let batch = PipelineBatch::new(&pipeline, vec![slice], 5000).expect("5000 numbers");
    for code in [None, Compiled::new(&pipeline, 0, true).ok()] {
        let mut runner = PipelineRunner::new(&pipeline, &[]).expect("no parameters");
        runner.run(code.as_ref(), &batch).expect("nothing fails");
        let groups = runner.groups();
        assert_eq!(groups.len(), 1250);
        assert!((0..1250).all(|group| groups.aggregate(group, 0) == Some(4)));
        // One for the first 32 groups, and one for each time that there is room for twice as many.
        assert_eq!(runner.rows_left(), if code.is_some() { 7 } else { 0 });
    }
}
