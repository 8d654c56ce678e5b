//! Random conditions over random rows, by bitmaps and interpreted.

use super::{ColumnMemory, RELATIONS, batch, datum, memory};
use crate::bitmaps::BitmapFault;
use crate::{
    BitmapCondition, CodeMeaning, ComparedBy, CompressedSlice, Datum, InputColumn, Instruction, Pipeline,
    PipelineBatch, PipelineBuilder, PipelineRunner, ValueKind, ValueNumber,
};
use fastrand::Rng;
use std::ops::RangeInclusive;

fn column(rng: &mut Rng) -> InputColumn {
    match rng.u8(..9) {
        0 => InputColumn::of(ValueKind::Bool),
        1 | 2 => InputColumn::of(ValueKind::Int32),
        3 => InputColumn::of(ValueKind::Int64),
        4 => InputColumn::of(ValueKind::Date),
        5 => InputColumn::decimal(30, 4),
        6 => InputColumn::decimal(50, 8),
        7 => InputColumn::decimal(100, 16),
        _ => InputColumn::of(ValueKind::Text { words: rng.u8(1..=2) }),
    }
}

/// A condition that is well typed by chance, mostly one that bitmaps can decide.
fn condition(rng: &mut Rng) -> Pipeline {
    let mut builder = PipelineBuilder::default();
    let mut values: Vec<ValueNumber> = Vec::new();
    for _ in 0..rng.usize(2..7) {
        let column = column(rng);
        let number = builder.input(column).expect("a form that there is");
        let value = builder.compute(Instruction::Column(number)).expect("a column");
        let others = [Instruction::Widen(value), Instruction::Decimal(value)];
        values.push(value);
        values.extend(others.into_iter().filter_map(|other| builder.compute(other).ok()));
        let kind = builder.kind(*values.last().expect("a value"));
        values.push(builder.parameter(kind).expect("a constant"));
    }
    let is_truth = |value: &ValueNumber| builder.kind(*value) == ValueKind::Bool;
    let mut truths: Vec<ValueNumber> = values.iter().copied().filter(is_truth).collect();
    for _ in 0..rng.usize(10..120) {
        let of = |rng: &mut Rng| values[rng.usize(..values.len())];
        let operation = match rng.u8(..10) {
            0..6 => Instruction::Compare(RELATIONS[rng.usize(..6)], of(rng), of(rng)),
            6 => Instruction::IsNull(of(rng)),
            kind if !truths.is_empty() => {
                let (left, right) = (truths[rng.usize(..truths.len())], truths[rng.usize(..truths.len())]);
                match kind {
                    7 => Instruction::And(left, right),
                    8 => Instruction::Or(left, right),
                    _ => Instruction::Not(left),
                }
            }
            _ => continue,
        };
        truths.extend(builder.compute(operation).ok());
    }
    let last = truths
        .last()
        .copied()
        .unwrap_or_else(|| builder.compute(Instruction::IsNull(values[0])).expect("a truth value"));
    builder.keep(last).expect("a truth value");
    builder.finish_selecting().expect("no aggregates")
}

/// A condition, its constants and rows.
struct ConditionCase {
    pipeline: Pipeline,
    parameters: Vec<Datum>,
    columns: Vec<ColumnMemory>,
    rows: usize,
    /// Some of the rows.
    listed: Vec<u32>,
}

impl ConditionCase {
    fn new(seed: u64) -> ConditionCase {
        let mut rng = Rng::with_seed(seed);
        let pipeline = condition(&mut rng);
        let parameters = pipeline.parameters.iter().map(|&kind| datum(&mut rng, kind)).collect();
        let rows = rng.usize(..300);
        let columns = pipeline.columns.iter().map(|&column| memory(&mut rng, column, rows)).collect();
        let share = rng.u32(1..20);
        let listed = (0..rows as u32).filter(|_| rng.u32(..20) < share).collect();
        ConditionCase { pipeline, parameters, columns, rows, listed }
    }

    /// Rows of a few numbers, of which some lie between two constants, which is all that is asked.
    fn of_bounds(seed: u64) -> ConditionCase {
        let mut rng = Rng::with_seed(seed);
        let forms = [
            InputColumn::of(ValueKind::Int32),
            InputColumn::of(ValueKind::Int64),
            InputColumn::of(ValueKind::Date),
            InputColumn::decimal(30, 4),
            InputColumn::decimal(50, 8),
            InputColumn::decimal(100, 16),
        ];
        let form = forms[rng.usize(..forms.len())];
        // At the ends of what the column can have, too.
        let most = match form.kind {
            ValueKind::Int32 | ValueKind::Date => i32::MAX.into(),
            ValueKind::Decimal { bits } => (1 << bits) - 1,
            _ => i64::MAX.into(),
        };
        let base: i128 = [0, -300, 70_000, most - 30, -most][rng.usize(..5)];
        let number = |rng: &mut Rng| base + rng.i128(0..=30);
        let mut builder = PipelineBuilder::default();
        let column = builder.input(form).expect("a form that there is");
        let value = builder.compute(Instruction::Column(column)).expect("a column");
        let mut parameters = Vec::new();
        let mut bound = |relations: [ComparedBy; 2], rng: &mut Rng| {
            let constant = builder.parameter(form.kind).expect("a constant");
            parameters.push(Datum::Number(number(rng)));
            let relation = relations[rng.usize(..2)];
            builder.compute(Instruction::Compare(relation, value, constant)).expect("two numbers")
        };
        let lower = bound([ComparedBy::Greater, ComparedBy::GreaterOrEqual], &mut rng);
        let upper = bound([ComparedBy::Less, ComparedBy::LessOrEqual], &mut rng);
        let (one, other) = if rng.bool() { (lower, upper) } else { (upper, lower) };
        let both = builder.compute(Instruction::And(one, other)).expect("truth values");
        builder.keep(both).expect("a truth value");
        let pipeline = builder.finish_selecting().expect("no aggregates");
        let rows = rng.usize(1..300);
        let mut column = memory(&mut rng, form, rows);
        let bytes = usize::from(form.bytes);
        column.values = (0..rows).flat_map(|_| number(&mut rng).to_le_bytes()[..bytes].to_vec()).collect();
        let listed = (0..rows as u32).filter(|_| rng.bool()).collect();
        ConditionCase { pipeline, parameters, columns: vec![column], rows, listed }
    }

    /// Which rows, and which of the list, are selected; by the interpreter where there are no bitmaps.
    fn selected(&self, bitmaps: Option<&BitmapCondition>) -> [Vec<u32>; 2] {
        self.selected_of(bitmaps, &batch(&self.pipeline, &self.columns, self.rows))
    }

    fn selected_of(&self, bitmaps: Option<&BitmapCondition>, batch: &PipelineBatch<'_>) -> [Vec<u32>; 2] {
        let mut runner = PipelineRunner::new(&self.pipeline, &self.parameters).expect("its parameters");
        [None, Some(&self.listed[..])].map(|listed| {
            match (bitmaps, listed) {
                (Some(bitmaps), listed) => runner.select(bitmaps, batch, listed),
                (None, None) => runner.run(None, batch).expect("nothing fails"),
                (None, Some(rows)) => {
                    let listing = self.pipeline.of_listed_rows();
                    runner.run_listed(&listing, None, batch, rows).expect("nothing fails");
                }
            }
            runner.selected().to_vec()
        })
    }
}

#[test]
fn bitmaps_and_the_interpreter_select_the_same() {
    let (mut decided, mut parted) = (0, 0);
    for seed in 0..4000 {
        let case = ConditionCase::new(seed);
        let Some(bitmaps) = BitmapCondition::of(&case.pipeline) else { continue };
        let expected = case.selected(None);
        assert_eq!(case.selected(Some(&bitmaps)), expected, "seed {seed}\n{}", case.pipeline);
        decided += 1;
        parted += u32::from((10..case.rows.saturating_sub(10)).contains(&expected[0].len()));
    }
    assert!(decided > 1800, "only {decided} have bitmaps");
    assert!(parted > 600, "only {parted} that keep some rows and drop others");
}

#[test]
fn ranges_select_what_their_bounds_do() {
    let mut parted = 0;
    for seed in 0..4000 {
        let case = ConditionCase::of_bounds(seed);
        let bitmaps = BitmapCondition::of(&case.pipeline).expect("numbers are compared");
        assert!(bitmaps.is_range(), "{}", case.pipeline);
        let expected = case.selected(None);
        assert_eq!(case.selected(Some(&bitmaps)), expected, "seed {seed}\n{}", case.pipeline);
        assert_eq!(case.selected_by_codes(&bitmaps, 0).0, expected, "seed {seed}\n{}", case.pipeline);
        assert!(case.may_hold(&bitmaps, 0) || expected[0].is_empty(), "seed {seed}\n{}", case.pipeline);
        parted += u32::from((1..case.rows).contains(&expected[0].len()));
    }
    assert!(parted > 1500, "only {parted} that keep some rows and drop others");
}

/// A column in codes.
struct CompressedMemory {
    codes: Vec<u8>,
    bytes: u8,
    least: i64,
    /// Of a column of texts.
    texts: Option<Vec<u128>>,
}

impl CompressedMemory {
    fn slice(&self) -> CompressedSlice<'_> {
        let meaning = match &self.texts {
            Some(texts) => CodeMeaning::Texts(texts),
            None => CodeMeaning::Above(self.least),
        };
        CompressedSlice { codes: &self.codes, bytes: self.bytes, meaning }
    }
}

impl ConditionCase {
    /// A column in codes of one, two or four bytes; `None` for one that has more, or another kind.
    fn compressed(&self, rng: &mut Rng, column: usize) -> Option<CompressedMemory> {
        let (declared, batch) =
            (self.pipeline.columns[column], batch(&self.pipeline, &self.columns, self.rows));
        let slice = batch.columns[column];
        let value = |row| slice.is_valid(row).then(|| slice.value(declared, row));
        let values: Vec<Option<Datum>> = (0..self.rows).map(value).collect();
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for value in &values {
            match value {
                Some(Datum::Number(number)) => numbers.push(*number),
                Some(Datum::Text(text)) => texts.push(*text),
                _ => {}
            }
        }
        if matches!(declared.kind, ValueKind::Bool | ValueKind::Double) {
            return None;
        }
        // One that no row has.
        texts.push(!0);
        rng.shuffle(&mut texts);
        let least = i64::try_from(numbers.iter().min().copied().unwrap_or_default()).ok()?;
        let least = least.saturating_sub(rng.i64(0..3));
        let code = |value: &Option<Datum>, rng: &mut Rng| match value {
            Some(Datum::Number(number)) => *number - i128::from(least),
            Some(Datum::Text(text)) => texts.iter().position(|of| of == text).expect("each is there") as i128,
            _ => rng.u8(..).into(),
        };
        let codes: Vec<i128> = values.iter().map(|value| code(value, rng)).collect();
        let bytes = match codes.iter().max().copied().unwrap_or_default() {
            ..0x100 => [1, 2, 4][rng.usize(..3)],
            0x100..0x1_0000 => [2, 4][rng.usize(..2)],
            0x1_0000..0x1_0000_0000 => 4,
            _ => return None,
        };
        let codes = codes.iter().flat_map(|code| code.to_le_bytes()[..bytes].to_vec()).collect();
        let texts = matches!(declared.kind, ValueKind::Text { .. }).then_some(texts);
        Some(CompressedMemory { codes, bytes: bytes as u8, least, texts })
    }

    /// Which rows, and which of the list, are selected by codes that mean so much more, and how many columns have codes.
    fn selected_by_codes(&self, bitmaps: &BitmapCondition, more: i64) -> ([Vec<u32>; 2], usize) {
        let mut rng = Rng::with_seed(self.rows as u64);
        let mut batch = batch(&self.pipeline, &self.columns, self.rows);
        let compared = bitmaps.comparable_by_codes();
        let mut compressed: Vec<_> =
            compared.iter().map(|&column| (column, self.compressed(&mut rng, column))).collect();
        compressed
            .iter_mut()
            .filter_map(|(_, compressed)| compressed.as_mut())
            .for_each(|of| of.least += more);
        for (column, compressed) in &compressed {
            batch.columns[*column].compressed = compressed.as_ref().map(CompressedMemory::slice);
        }
        let count = compressed.iter().filter(|(_, compressed)| compressed.is_some()).count();
        (self.selected_of(Some(bitmaps), &batch), count)
    }
}

#[test]
fn codes_select_what_values_do() {
    let (mut coded, mut missed) = (0, 0);
    for seed in 0..4000 {
        let case = ConditionCase::new(seed);
        let Some(bitmaps) = BitmapCondition::of(&case.pipeline) else { continue };
        let expected = case.selected(None);
        let (selected, columns) = case.selected_by_codes(&bitmaps, 0);
        assert_eq!(selected, expected, "seed {seed}\n{}", case.pipeline);
        coded += u32::from(columns > 0 && case.rows > 0);
        // The control: codes that mean other numbers.
        missed += u32::from(case.selected_by_codes(&bitmaps, 1).0 != expected);
    }
    assert!(coded > 300, "only {coded} with codes");
    assert!(missed > 10, "only {missed} with codes that mean other numbers");
}

/// Columns whose codes begin at different numbers and have different widths, compared with each other.
#[test]
fn codes_of_two_columns_are_compared_as_their_numbers_are() {
    let mut rng = Rng::with_seed(3);
    let mut compared = 0;
    for (relation, (left, right)) in RELATIONS.into_iter().flat_map(|relation| {
        let ranges = [(0..200, 90..220), (0..200, 100..900), (-500..500, 100..200), (-1000..2000, 0..3000)];
        ranges.into_iter().map(move |ranges| (relation, ranges))
    }) {
        let mut builder = PipelineBuilder::default();
        let mut column = || {
            let number = builder.input(InputColumn::of(ValueKind::Int32)).expect("a form that there is");
            builder.compute(Instruction::Column(number)).expect("a column")
        };
        let (one, other) = (column(), column());
        let holds = builder.compute(Instruction::Compare(relation, one, other)).expect("two numbers");
        builder.keep(holds).expect("a truth value");
        let pipeline = builder.finish_selecting().expect("no aggregates");
        let mut numbers = |range: std::ops::Range<i32>| ColumnMemory {
            values: (0..300).flat_map(|_| rng.i32(range.clone()).to_ne_bytes()).collect(),
            validity: None,
            first: 0,
        };
        let columns = vec![numbers(left), numbers(right)];
        let listed = (0..300).step_by(7).collect();
        let case = ConditionCase { pipeline, parameters: Vec::new(), columns, rows: 300, listed };
        let bitmaps = BitmapCondition::of(&case.pipeline).expect("columns are compared");
        let (selected, coded) = case.selected_by_codes(&bitmaps, 0);
        assert_eq!(selected, case.selected(None), "{}", case.pipeline);
        compared += u32::from(coded == 2 && !selected[0].is_empty());
    }
    assert!(compared > 20, "only {compared} have codes and equal numbers");
}

impl ConditionCase {
    /// The least and the greatest number of each column that has numbers of at most 64 bits, or narrower by so much.
    fn bounds(&self, narrower: i64) -> Vec<Option<RangeInclusive<i64>>> {
        let batch = batch(&self.pipeline, &self.columns, self.rows);
        let of = |(at, column): (usize, &InputColumn)| {
            let is_number = column.kind.is_number() || column.kind == ValueKind::Date;
            let values = (0..self.rows).filter(|&row| batch.columns[at].is_valid(row));
            let numbers = values.filter_map(|row| match batch.columns[at].value(*column, row) {
                Datum::Number(number) => i64::try_from(number).ok(),
                _ => None,
            });
            let bounds = numbers.fold((i64::MAX, i64::MIN), |(least, greatest), number| {
                (least.min(number), greatest.max(number))
            });
            let bounds = bounds.0.saturating_add(narrower)..=bounds.1.saturating_sub(narrower);
            (is_number && column.bytes <= 8).then_some(bounds)
        };
        self.pipeline.columns.iter().enumerate().map(of).collect()
    }

    fn may_hold(&self, bitmaps: &BitmapCondition, narrower: i64) -> bool {
        let bounds = self.bounds(narrower);
        bitmaps.may_hold(&self.parameters, &|column| bounds[column].clone())
    }
}

#[test]
fn what_holds_for_a_row_may_hold_within_the_bounds() {
    let (mut holding, mut ruled_out, mut missed) = (0, 0, 0);
    for seed in 0..4000 {
        let case = ConditionCase::new(seed);
        let Some(bitmaps) = BitmapCondition::of(&case.pipeline) else { continue };
        let [selected, _] = case.selected(None);
        let may_hold = case.may_hold(&bitmaps, 0);
        assert!(may_hold || selected.is_empty(), "seed {seed}\n{}", case.pipeline);
        holding += u32::from(!selected.is_empty());
        ruled_out += u32::from(!may_hold);
        // The control: bounds that are too narrow rule out what holds.
        missed += u32::from(!selected.is_empty() && !case.may_hold(&bitmaps, 1));
    }
    assert!(holding > 800, "only {holding} hold for a row");
    assert!(ruled_out > 50, "only {ruled_out} are ruled out");
    assert!(missed > 10, "only {missed} with bounds that are too narrow");
}

/// The control of the first test: conditions that are not those of their pipelines are found.
#[test]
fn wrong_bitmaps_are_found() {
    use BitmapFault::{
        BothIsEither, Inverted, LessIsEqual, NullIsValue, RangeBeginsElsewhere, RangeEndsElsewhere,
        TrueIsFalse,
    };
    let of_ranges = [RangeBeginsElsewhere, RangeEndsElsewhere];
    for fault in [LessIsEqual, Inverted, BothIsEither, NullIsValue, TrueIsFalse].into_iter().chain(of_ranges)
    {
        let is_found = (0..500).any(|seed| {
            let case = match of_ranges.contains(&fault) {
                true => ConditionCase::of_bounds(seed),
                false => ConditionCase::new(seed),
            };
            let bitmaps = BitmapCondition::of(&case.pipeline);
            bitmaps.is_some_and(|bitmaps| case.selected(Some(&bitmaps.spoiled(fault))) != case.selected(None))
        });
        assert!(is_found, "{fault:?} is not found");
    }
}

#[test]
fn a_value_that_is_used_again_and_again_has_no_bitmap() {
    let mut builder = PipelineBuilder::default();
    let column = builder.input(InputColumn::of(ValueKind::Bool)).expect("a column");
    let mut value = builder.compute(Instruction::Column(column)).expect("its value");
    for doubled in 0..60 {
        assert_eq!(builder.has_bitmap(value), doubled < 4, "{doubled}");
        let both = builder.compute(Instruction::And(value, value)).expect("truth values");
        value = builder.compute(Instruction::Or(both, both)).expect("truth values");
    }
}
