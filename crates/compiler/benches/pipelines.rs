//! What a row of TPC-H's first and sixth query, and of many groups, costs, compiled and interpreted, and what compiling costs: medians of rounds over
//! blocks of 8,192 rows of random values in the domains of `lineitem`, on one thread. Times are the thread's on a processor, so
//! that others who work at the same time disturb them little.

use ankerdb_compiler::{
    BitmapCondition, ComparedBy, Compiled, Datum, InputColumn, Instruction, Pipeline, PipelineAggregate,
    PipelineBatch, PipelineBuilder, PipelineParts, PipelineRunner, ValueKind, ValueNumber,
};
use std::hint::black_box;
use std::time::Duration;

const ROWS: usize = 8192;
const BLOCKS: usize = 64;
const ROUNDS: usize = 15;

/// A query's pipeline, its constants, and its columns in each block.
struct Query {
    name: &'static str,
    pipeline: Pipeline,
    parameters: Vec<Datum>,
    blocks: Vec<Vec<Vec<u8>>>,
}

fn decimal(bits: u8) -> ValueKind {
    ValueKind::Decimal { bits }
}

fn column(builder: &mut PipelineBuilder, column: InputColumn) -> ValueNumber {
    let number = builder.input(column).expect("a column");
    builder.compute(Instruction::Column(number)).expect("its value")
}

fn days(random: &mut fastrand::Rng) -> Vec<u8> {
    (0..ROWS).flat_map(|_| random.i32(8036..10_562).to_ne_bytes()).collect()
}

fn numbers(random: &mut fastrand::Rng, least: i64, most: i64) -> Vec<u8> {
    (0..ROWS).flat_map(|_| random.i64(least..=most).to_ne_bytes()).collect()
}

fn letters(random: &mut fastrand::Rng, letters: &[&str]) -> Vec<u8> {
    let text = |random: &mut fastrand::Rng| match Datum::text(letters[random.usize(..letters.len())]) {
        Some(Datum::Text(bits)) => bits,
        _ => 0,
    };
    (0..ROWS).flat_map(|_| text(random).to_le_bytes()).collect()
}

/// `sum(price * discount)` of the rows of a year with a discount in a range and a small quantity.
fn sixth() -> Query {
    let mut builder = PipelineBuilder::default();
    let day = column(&mut builder, InputColumn::of(ValueKind::Date));
    let [discount, quantity, price] = [(); 3].map(|()| column(&mut builder, InputColumn::decimal(50, 8)));
    let bounds: [(ComparedBy, ValueNumber, ValueKind, i128); 5] = [
        (ComparedBy::GreaterOrEqual, day, ValueKind::Date, 8766),
        (ComparedBy::Less, day, ValueKind::Date, 9131),
        (ComparedBy::GreaterOrEqual, discount, decimal(50), 5),
        (ComparedBy::LessOrEqual, discount, decimal(50), 7),
        (ComparedBy::Less, quantity, decimal(50), 2400),
    ];
    let mut all: Option<ValueNumber> = None;
    for (compared, value, kind, _) in bounds {
        let bound = builder.parameter(kind).expect("a constant");
        let holds = builder.compute(Instruction::Compare(compared, value, bound)).expect("a comparison");
        all = Some(match all {
            Some(before) => builder.compute(Instruction::And(before, holds)).expect("truth values"),
            None => holds,
        });
    }
    builder.keep(all.expect("five bounds")).expect("a truth value");
    let product = builder.compute(Instruction::Multiply(price, discount)).expect("decimals");
    builder.aggregate(PipelineAggregate::Sum(product)).expect("a decimal");
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    let mut random = fastrand::Rng::with_seed(6);
    let mut block = || {
        let random = &mut random;
        vec![
            days(random),
            numbers(random, 0, 10),
            numbers(random, 100, 5000),
            numbers(random, 90_000, 10_494_950),
        ]
    };
    Query {
        name: "Q6",
        pipeline: builder.finish(),
        parameters: bounds.iter().map(|bound| Datum::Number(bound.3)).collect(),
        blocks: (0..BLOCKS).map(|_| block()).collect(),
    }
}

/// Eight aggregates of nearly all rows in six groups.
fn first() -> Query {
    let mut builder = PipelineBuilder::default();
    let [flag, status] =
        [(); 2].map(|()| column(&mut builder, InputColumn::of(ValueKind::Text { words: 1 })));
    let day = column(&mut builder, InputColumn::of(ValueKind::Date));
    let [quantity, price, discount, tax] =
        [(); 4].map(|()| column(&mut builder, InputColumn::decimal(50, 8)));
    let last = builder.parameter(ValueKind::Date).expect("a constant");
    let one = builder.parameter(decimal(7)).expect("a constant");
    let early =
        builder.compute(Instruction::Compare(ComparedBy::LessOrEqual, day, last)).expect("a comparison");
    builder.keep(early).expect("a truth value");
    let mut number = |instruction| builder.compute(instruction).expect("decimals");
    let rest = number(Instruction::Subtract(one, discount));
    let reduced = number(Instruction::Multiply(price, rest));
    let more = number(Instruction::Add(one, tax));
    let charged = number(Instruction::Multiply(reduced, more));
    builder.key(flag).expect("a text");
    builder.key(status).expect("a text");
    for value in [quantity, price, reduced, charged, discount] {
        builder.aggregate(PipelineAggregate::Sum(value)).expect("a decimal");
    }
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    let mut random = fastrand::Rng::with_seed(1);
    let mut block = || {
        let random = &mut random;
        vec![
            letters(random, &["A", "N", "R"]),
            letters(random, &["F", "O"]),
            days(random),
            numbers(random, 100, 5000),
            numbers(random, 90_000, 10_494_950),
            numbers(random, 0, 10),
            numbers(random, 0, 8),
        ]
    };
    Query {
        name: "Q1",
        pipeline: builder.finish(),
        parameters: vec![Datum::Number(10_471), Datum::Number(100)],
        blocks: (0..BLOCKS).map(|_| block()).collect(),
    }
}

/// A sum for each of many groups, whose rows lie together, four in a row, or anywhere.
fn many_groups(name: &'static str, lie_together: bool) -> Query {
    let mut builder = PipelineBuilder::default();
    let order = column(&mut builder, InputColumn::of(ValueKind::Int32));
    let quantity = column(&mut builder, InputColumn::decimal(50, 8));
    builder.key(order).expect("a number");
    builder.aggregate(PipelineAggregate::Sum(quantity)).expect("a decimal");
    builder.aggregate(PipelineAggregate::Rows).expect("always possible");
    let mut random = fastrand::Rng::with_seed(18);
    let groups = (BLOCKS * ROWS / 4) as i32;
    let mut block = |block: usize| {
        let order = |row: usize| match lie_together {
            true => ((block * ROWS + row) / 4) as i32,
            false => random.i32(..groups),
        };
        let orders = (0..ROWS).map(order).flat_map(i32::to_ne_bytes).collect();
        vec![orders, numbers(&mut random, 100, 5000)]
    };
    let blocks = (0..BLOCKS).map(&mut block).collect();
    Query { name, pipeline: builder.finish(), parameters: Vec::new(), blocks }
}

/// How long this thread has run.
fn worked() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure that it is given, and nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(failed, 0, "the system tells how long a thread has run");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

impl Query {
    fn batch<'a>(&self, block: &'a [Vec<u8>]) -> PipelineBatch<'a> {
        let slice =
            |values| ankerdb_compiler::ColumnSlice { values, first_bit: 0, validity: None, compressed: None };
        let columns = block.iter().map(|column| slice(&column[..])).collect();
        PipelineBatch::new(&self.pipeline, columns, ROWS).expect("whole columns")
    }

    /// One pass over all blocks.
    fn pass(&self, code: Option<&Compiled>) -> Duration {
        let mut runner = PipelineRunner::new(&self.pipeline, &self.parameters).expect("its constants");
        let begun = worked();
        for block in &self.blocks {
            let batch = self.batch(block);
            runner.run(code, &batch).expect("nothing fails");
        }
        let time = worked() - begun;
        black_box(runner.groups().aggregate(0, 0));
        time
    }

    /// One pass in two parts, over the rows that pass the first condition, which bitmaps decide if there are some.
    fn pass_in_parts(
        &self,
        parts: &PipelineParts,
        codes: &[Compiled; 2],
        bitmaps: Option<&BitmapCondition>,
    ) -> Duration {
        let mut selecting = PipelineRunner::new(&parts.selection, &self.parameters).expect("its constants");
        let mut runner = PipelineRunner::new(&self.pipeline, &self.parameters).expect("its constants");
        let begun = worked();
        for block in &self.blocks {
            let batch = self.batch(block);
            match bitmaps {
                Some(bitmaps) => selecting.select(bitmaps, &batch, None),
                None => selecting.run(Some(&codes[0]), &batch).expect("nothing fails"),
            }
            let rows = selecting.selected();
            runner.run_listed(&parts.rest, Some(&codes[1]), &batch, rows).expect("nothing fails");
        }
        let time = worked() - begun;
        black_box(runner.groups().aggregate(0, 0));
        time
    }

    /// How long a row takes in two parts, if there are two.
    fn report_parts(&self) {
        let Some(parts) = self.pipeline.parts() else { return };
        let [Ok(selection), Ok(rest)] =
            [&parts.selection, &parts.rest].map(|pipeline| Compiled::new(pipeline, 0, false))
        else {
            return;
        };
        let codes = [selection, rest];
        let Some(bitmaps) = BitmapCondition::of(&parts.selection) else { return };
        let (mut coded, mut decided) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            coded.push(self.pass_in_parts(&parts, &codes, None));
            decided.push(self.pass_in_parts(&parts, &codes, Some(&bitmaps)));
        }
        let each = |times| median(times).as_nanos() as f64 / (BLOCKS * ROWS) as f64;
        println!("    in parts {:.2}, the first by bitmaps {:.2}", each(coded), each(decided));
    }

    fn report(&self) {
        let mut compiling = Vec::new();
        let mut kept = None;
        for _ in 0..ROUNDS {
            let begun = worked();
            kept = Compiled::new(&self.pipeline, 0, false).ok();
            compiling.push(worked() - begun);
        }
        let Some(code) = kept else { return println!("{}: no code on this processor", self.name) };
        let rows = (BLOCKS * ROWS) as f64;
        let each = |time: Duration| time.as_nanos() as f64 / rows;
        // Side by side.
        let (mut compiled, mut interpreted) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            compiled.push(self.pass(Some(&code)));
            interpreted.push(self.pass(None));
        }
        println!(
            "{}: {:.2} ns a row compiled, {:.1} interpreted; compiling {:.2} ms, {} bytes of pages",
            self.name,
            each(median(compiled)),
            each(median(interpreted)),
            median(compiling).as_secs_f64() * 1e3,
            code.bytes(),
        );
        self.report_parts();
    }
}

fn main() {
    first().report();
    sixth().report();
    many_groups("groups of four rows in a row", true).report();
    many_groups("groups of rows anywhere", false).report();
}
