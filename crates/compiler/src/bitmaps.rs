//! Conditions that are decided column by column, for many rows at once.
//!
//! A comparison of columns and constants is a loop over a column that leaves one bit for each row. The processor compares several values
//! in an instruction, and nothing is branched on; a pipeline's code looks at one row at a time, and reads all columns of all rows.
//! ```text
//!   %0 >= day       1 1 0 1 0 0 1 ...     a word for 64 rows
//!   day < %1      & 1 0 0 1 0 0 0 ...     a word without bits is not looked at again,
//!   mode = %2     & 0     1               one with few of them bit by bit
//! ```
//! NOT goes into the comparisons first (De Morgan's laws hold for three truth values, too). What is left is true or not, so that a NULL
//! is no bit, and there is one bitmap where three values would need two. Two bounds of one column are one comparison: of how far a value
//! lies above the lower one, without a sign.
//!
//! Where a column has a compressed copy, a constant is turned into its code, and codes are compared: one or two bytes of memory for a row
//! in place of up to sixteen, and as many times more values in an instruction.
//!
//! Not here: arithmetic, which can fail, and doubles.

use crate::batch::{CodeMeaning, ColumnSlice, CompressedSlice, Datum, PipelineBatch};
use crate::ir::{ComparedBy, Instruction, Pipeline, PipelineStep, ValueKind, ValueNumber};
use crate::selected::SelectedRows;
use std::ops::RangeInclusive;

/// Rows of a word.
pub(crate) const WORD_ROWS: usize = u64::BITS as usize;
/// Terms of a condition; a value that is used twice is two.
const TERMS_MAX: usize = 200;

/// The condition of a pipeline that selects, as far as bitmaps can decide it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitmapCondition(BitmapTerm);

/// What is true of a row or not.
#[derive(Clone, PartialEq, Eq, Debug)]
enum BitmapTerm {
    Comparison(BitmapComparison),
    Range(BitmapRange),
    /// A column of truth values is not NULL and `is`.
    Truth {
        column: usize,
        is: bool,
    },
    Null {
        column: usize,
        is: bool,
    },
    Both(Box<BitmapTerm>, Box<BitmapTerm>),
    Either(Box<BitmapTerm>, Box<BitmapTerm>),
}

/// A column, and with what it is compared; false where one of them is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BitmapComparison {
    column: usize,
    /// Of a stored value.
    bytes: u8,
    order: BitmapOrder,
    comparand: Comparand,
    /// Whether it holds where the order does not.
    is_inverted: bool,
}

/// Numbers of a column between two constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BitmapRange {
    from: BitmapComparison,
    to: BitmapComparison,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BitmapOrder {
    Equal,
    Less,
    Greater,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Comparand {
    Parameter(usize),
    /// Stored in as many bytes.
    Column(usize),
}

impl BitmapCondition {
    /// The condition of a pipeline that selects by one; `None` where bitmaps cannot decide it. What the pipeline computes besides is not
    /// computed then, and does not fail.
    pub fn of(pipeline: &Pipeline) -> Option<BitmapCondition> {
        let mut conditions = pipeline.steps.iter().filter_map(|step| match step {
            PipelineStep::Keep(condition) => Some(*condition),
            PipelineStep::Compute(_) => None,
        });
        let condition = conditions.next().filter(|_| pipeline.selects && !pipeline.lists)?;
        let is_alone = conditions.next().is_none();
        is_alone.then(|| BitmapCondition::of_value(pipeline, condition)).flatten()
    }

    /// That this value is true.
    pub(crate) fn of_value(pipeline: &Pipeline, value: ValueNumber) -> Option<BitmapCondition> {
        BitmapTerm::of(pipeline, value, true, &mut { TERMS_MAX }).map(BitmapCondition)
    }

    /// Whether it can be true of a row whose numbers lie within bounds, which are `None` for columns without any, and empty for those in which
    /// all is NULL.
    pub fn may_hold(
        &self,
        parameters: &[Datum],
        bounds: &dyn Fn(usize) -> Option<RangeInclusive<i64>>,
    ) -> bool {
        self.0.may_hold(parameters, bounds)
    }

    /// The columns of which a compressed copy is of use, each once, in order: those that are compared with constants, and pairs of numbers.
    pub fn comparable_by_codes(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.0.note_comparable(&mut columns);
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Selects the rows of the batch, or of a list in the order of rows, for which it is true.
    pub(crate) fn select(
        &self,
        parameters: &[Datum],
        batch: &PipelineBatch<'_>,
        listed: Option<&[u32]>,
        words: &mut Vec<u64>,
        selected: &mut SelectedRows,
    ) {
        words.clear();
        match listed {
            None => {
                words.resize(batch.rows.div_ceil(WORD_ROWS), !0);
                if let (Some(last), rows @ 1..) = (words.last_mut(), batch.rows % WORD_ROWS) {
                    *last = (1 << rows) - 1;
                }
            }
            Some(rows) => {
                words.resize(batch.rows.div_ceil(WORD_ROWS), 0);
                for row in rows.iter().map(|&row| row as usize) {
                    assert!(row < batch.rows, "a list of other rows");
                    words[row / WORD_ROWS] |= 1 << (row % WORD_ROWS);
                }
            }
        }
        self.0.narrow(parameters, batch, words);
        selected.begin(batch.rows);
        list(words, selected);
    }
}

impl BitmapTerm {
    /// That a value is true, or false.
    fn of(pipeline: &Pipeline, value: ValueNumber, is: bool, room: &mut usize) -> Option<BitmapTerm> {
        *room = room.checked_sub(1)?;
        let mut both = |left, right| {
            let left = BitmapTerm::of(pipeline, left, is, room)?;
            Some((left, BitmapTerm::of(pipeline, right, is, room)?))
        };
        match pipeline.operation(value) {
            Instruction::And(left, right) if is => both(left, right).map(|(left, right)| left.and(right)),
            Instruction::Or(left, right) if !is => both(left, right).map(|(left, right)| left.and(right)),
            Instruction::And(left, right) | Instruction::Or(left, right) => {
                both(left, right).map(|(left, right)| BitmapTerm::Either(Box::new(left), Box::new(right)))
            }
            Instruction::Not(operand) => BitmapTerm::of(pipeline, operand, !is, room),
            Instruction::Column(column) => Some(BitmapTerm::Truth { column: column.into(), is }),
            Instruction::IsNull(operand) => {
                Some(BitmapTerm::Null { column: column_of(pipeline, operand)?, is })
            }
            Instruction::Compare(relation, left, right) => {
                BitmapComparison::of(pipeline, relation, left, right, is).map(BitmapTerm::Comparison)
            }
            _ => None,
        }
    }

    /// Both, with bounds of one column together.
    fn and(mut self, other: BitmapTerm) -> BitmapTerm {
        match other {
            BitmapTerm::Both(left, right) => self.and(*left).and(*right),
            BitmapTerm::Comparison(bound) if self.takes(bound) => self,
            other => BitmapTerm::Both(Box::new(self), Box::new(other)),
        }
    }

    /// Makes a range of a bound and one that it has for the same column, if it has.
    fn takes(&mut self, bound: BitmapComparison) -> bool {
        match self {
            BitmapTerm::Comparison(own) => match BitmapRange::of(*own, bound) {
                Some(range) => {
                    *self = BitmapTerm::Range(range);
                    true
                }
                None => false,
            },
            BitmapTerm::Both(left, right) => left.takes(bound) || right.takes(bound),
            _ => false,
        }
    }

    fn may_hold(&self, parameters: &[Datum], bounds: &dyn Fn(usize) -> Option<RangeInclusive<i64>>) -> bool {
        match self {
            BitmapTerm::Comparison(comparison) => comparison.may_hold(parameters, bounds),
            BitmapTerm::Range(BitmapRange { from, to }) => {
                from.may_hold(parameters, bounds) && to.may_hold(parameters, bounds)
            }
            BitmapTerm::Truth { .. } | BitmapTerm::Null { .. } => true,
            BitmapTerm::Both(left, right) => {
                left.may_hold(parameters, bounds) && right.may_hold(parameters, bounds)
            }
            BitmapTerm::Either(left, right) => {
                left.may_hold(parameters, bounds) || right.may_hold(parameters, bounds)
            }
        }
    }

    fn note_comparable(&self, columns: &mut Vec<usize>) {
        match self {
            BitmapTerm::Comparison(BitmapComparison { column, comparand, bytes, .. }) => match *comparand {
                Comparand::Parameter(_) => columns.push(*column),
                Comparand::Column(other) if *bytes <= 8 => columns.extend([*column, other]),
                Comparand::Column(_) => {}
            },
            BitmapTerm::Range(BitmapRange { from, .. }) => columns.push(from.column),
            BitmapTerm::Truth { .. } | BitmapTerm::Null { .. } => {}
            BitmapTerm::Both(left, right) | BitmapTerm::Either(left, right) => {
                left.note_comparable(columns);
                right.note_comparable(columns);
            }
        }
    }

    /// Takes the bits of rows for which it is not true.
    fn narrow(&self, parameters: &[Datum], batch: &PipelineBatch<'_>, words: &mut [u64]) {
        match self {
            BitmapTerm::Comparison(comparison) => {
                comparison.narrow(parameters, batch, words);
                keep_valid(&batch.columns[comparison.column], words);
                if let Comparand::Column(column) = comparison.comparand {
                    keep_valid(&batch.columns[column], words);
                }
            }
            BitmapTerm::Range(range) => {
                range.narrow(parameters, batch, words);
                keep_valid(&batch.columns[range.from.column], words);
            }
            BitmapTerm::Truth { column, is } => {
                let slice = &batch.columns[*column];
                keep_bits(slice.values, slice.first_bit, *is, words);
                keep_valid(slice, words);
            }
            BitmapTerm::Null { column, is } => match batch.columns[*column].validity {
                Some((bits, first)) => keep_bits(bits, first, !is, words),
                None if *is => words.fill(0),
                None => {}
            },
            BitmapTerm::Both(left, right) => {
                left.narrow(parameters, batch, words);
                right.narrow(parameters, batch, words);
            }
            BitmapTerm::Either(left, right) => {
                let mut held = words.to_vec();
                left.narrow(parameters, batch, &mut held);
                // The other decides on those that are left.
                words.iter_mut().zip(&held).for_each(|(word, held)| *word &= !held);
                right.narrow(parameters, batch, words);
                words.iter_mut().zip(&held).for_each(|(word, held)| *word |= held);
            }
        }
    }
}

/// The column whose value it is, or whose number in another type.
fn column_of(pipeline: &Pipeline, value: ValueNumber) -> Option<usize> {
    match pipeline.operation(value) {
        Instruction::Column(column) => Some(column.into()),
        Instruction::Widen(operand) | Instruction::Decimal(operand) => column_of(pipeline, operand),
        _ => None,
    }
}

impl BitmapComparison {
    fn of(
        pipeline: &Pipeline,
        relation: ComparedBy,
        left: ValueNumber,
        right: ValueNumber,
        is: bool,
    ) -> Option<BitmapComparison> {
        if matches!(pipeline.kind(left), ValueKind::Double | ValueKind::Bool) {
            return None;
        }
        let parameter = |value| match pipeline.operation(value) {
            Instruction::Parameter(parameter) => Some(usize::from(parameter)),
            _ => None,
        };
        let (order, is_inverted) = match relation {
            ComparedBy::Equal => (BitmapOrder::Equal, !is),
            ComparedBy::Unequal => (BitmapOrder::Equal, is),
            ComparedBy::Less => (BitmapOrder::Less, !is),
            ComparedBy::GreaterOrEqual => (BitmapOrder::Less, is),
            ComparedBy::Greater => (BitmapOrder::Greater, !is),
            ComparedBy::LessOrEqual => (BitmapOrder::Greater, is),
        };
        let swapped = match order {
            BitmapOrder::Equal => BitmapOrder::Equal,
            BitmapOrder::Less => BitmapOrder::Greater,
            BitmapOrder::Greater => BitmapOrder::Less,
        };
        let (column, order, comparand) = match (column_of(pipeline, left), column_of(pipeline, right)) {
            (Some(column), None) => (column, order, Comparand::Parameter(parameter(right)?)),
            (None, Some(column)) => (column, swapped, Comparand::Parameter(parameter(left)?)),
            // One order less to make code of.
            (Some(left), Some(right)) if order == BitmapOrder::Greater => {
                (right, swapped, Comparand::Column(left))
            }
            (Some(left), Some(right)) => (left, order, Comparand::Column(right)),
            (None, None) => return None,
        };
        let bytes = pipeline.columns[column].bytes;
        let is_alike = match comparand {
            Comparand::Column(other) => pipeline.columns[other].bytes == bytes,
            Comparand::Parameter(_) => true,
        };
        is_alike.then_some(BitmapComparison { column, bytes, order, comparand, is_inverted })
    }

    /// Whether it bounds numbers by a constant, and then whether from below, and without the constant itself.
    fn bound(&self) -> Option<(bool, bool)> {
        match (self.comparand, self.order) {
            (Comparand::Column(_), _) | (_, BitmapOrder::Equal) => None,
            (_, BitmapOrder::Greater) => Some((!self.is_inverted, !self.is_inverted)),
            (_, BitmapOrder::Less) => Some((self.is_inverted, !self.is_inverted)),
        }
    }

    fn may_hold(&self, parameters: &[Datum], bounds: &dyn Fn(usize) -> Option<RangeInclusive<i64>>) -> bool {
        let (Comparand::Parameter(parameter), Some(bounds)) = (self.comparand, bounds(self.column)) else {
            return true;
        };
        let Datum::Number(number) = parameters[parameter] else { return true };
        if bounds.is_empty() {
            return false;
        }
        let (least, greatest) = (i128::from(*bounds.start()), i128::from(*bounds.end()));
        match (self.order, self.is_inverted) {
            (BitmapOrder::Equal, false) => (least..=greatest).contains(&number),
            (BitmapOrder::Equal, true) => (least, greatest) != (number, number),
            (BitmapOrder::Less, false) => least < number,
            (BitmapOrder::Less, true) => greatest >= number,
            (BitmapOrder::Greater, false) => greatest > number,
            (BitmapOrder::Greater, true) => least <= number,
        }
    }

    fn narrow(&self, parameters: &[Datum], batch: &PipelineBatch<'_>, words: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            // SAFETY: the processor has these instructions.
            return unsafe { self.narrow_wide(parameters, batch, words) };
        }
        self.narrow_any(parameters, batch, words);
    }

    /// With instructions for 32 bytes at once, and for bits.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn narrow_wide(&self, parameters: &[Datum], batch: &PipelineBatch<'_>, words: &mut [u64]) {
        self.narrow_any(parameters, batch, words);
    }

    /// Inlined, so that it is made of the instructions that its caller may use.
    #[inline(always)]
    fn narrow_any(&self, parameters: &[Datum], batch: &PipelineBatch<'_>, words: &mut [u64]) {
        let ColumnSlice { values, compressed, .. } = batch.columns[self.column];
        let inverted = if self.is_inverted { !0 } else { 0 };
        if let (Comparand::Parameter(parameter), Some(compressed)) = (self.comparand, compressed) {
            return self.narrow_compressed(compressed, parameters[parameter], inverted, words);
        }
        match (self.comparand, self.bytes) {
            (Comparand::Parameter(parameter), bytes) => match (parameters[parameter], bytes) {
                (Datum::Number(number), 4) => match i32::try_from(number) {
                    Ok(bound) => keep_ordered(values, i32::from_ne_bytes, bound, self.order, inverted, words),
                    Err(_) => self.keep_beyond(number, inverted, words),
                },
                (Datum::Number(number), 8) => match i64::try_from(number) {
                    Ok(bound) => keep_ordered(values, i64::from_ne_bytes, bound, self.order, inverted, words),
                    Err(_) => self.keep_beyond(number, inverted, words),
                },
                (Datum::Number(number), _) => {
                    keep_ordered(values, i128::from_ne_bytes, number, self.order, inverted, words);
                }
                (Datum::Text(text), _) => keep(values, inverted, words, |value| same_bits(value, text)),
                (Datum::Bool(_) | Datum::Double(_), _) => unreachable!("no kind that bitmaps compare"),
            },
            (Comparand::Column(other), _)
                if let (Some(left), Some(right)) = (compressed, batch.columns[other].compressed)
                    && let Some(pair) = CodePair::of(left, right) =>
            {
                pair.keep(self.order == BitmapOrder::Equal, inverted, words);
            }
            (Comparand::Column(other), bytes) => {
                let (pair, is_equality) =
                    ((values, batch.columns[other].values), self.order == BitmapOrder::Equal);
                match bytes {
                    4 => keep_pairs(pair, i32::from_ne_bytes, is_equality, inverted, words),
                    8 => keep_pairs(pair, i64::from_ne_bytes, is_equality, inverted, words),
                    // Texts are only asked whether they are equal.
                    _ => keep_pairs(pair, i128::from_ne_bytes, is_equality, inverted, words),
                }
            }
        }
    }

    /// Compares codes with that of a constant.
    #[inline(always)]
    fn narrow_compressed(
        &self,
        column: CompressedSlice<'_>,
        constant: Datum,
        inverted: u64,
        words: &mut [u64],
    ) {
        let code = match (column.meaning, constant) {
            (CodeMeaning::Above(least), Datum::Number(number)) => number.saturating_sub(least.into()),
            // Less than any for a text that the column does not have.
            (CodeMeaning::Texts(texts), Datum::Text(text)) => {
                texts.iter().position(|of| *of == text).map_or(-1, |place| place as i128)
            }
            _ => unreachable!("a batch has compressed columns of its pipeline's kinds"),
        };
        let (codes, order) = (column.codes, self.order);
        match (column.bytes, u8::try_from(code), u16::try_from(code), u32::try_from(code)) {
            (1, Ok(code), ..) => keep_ordered(codes, u8::from_ne_bytes, code, order, inverted, words),
            (2, _, Ok(code), _) => keep_ordered(codes, u16::from_ne_bytes, code, order, inverted, words),
            (4, .., Ok(code)) => keep_ordered(codes, u32::from_ne_bytes, code, order, inverted, words),
            _ => self.keep_beyond(code, inverted, words),
        }
    }

    /// Compares with a number that is less or greater than any of the column.
    fn keep_beyond(&self, number: i128, inverted: u64, words: &mut [u64]) {
        let holds = match self.order {
            BitmapOrder::Equal => false,
            BitmapOrder::Less => number > 0,
            BitmapOrder::Greater => number < 0,
        };
        if !(holds ^ (inverted != 0)) {
            words.fill(0);
        }
    }
}

impl BitmapRange {
    /// Of two bounds of one column, if that is what they are.
    fn of(one: BitmapComparison, other: BitmapComparison) -> Option<BitmapRange> {
        let ((is_lower, _), (other_is_lower, _)) = (one.bound()?, other.bound()?);
        let (from, to) = if is_lower { (one, other) } else { (other, one) };
        (one.column == other.column && is_lower != other_is_lower).then_some(BitmapRange { from, to })
    }

    /// The least and the greatest number that is in it; `None` if there is none.
    fn numbers(&self, parameters: &[Datum]) -> Option<(i128, i128)> {
        let constant = |comparison: &BitmapComparison| match (comparison.comparand, comparison.bound()) {
            (Comparand::Parameter(parameter), Some((_, is_open))) => match parameters[parameter] {
                Datum::Number(number) => (number, i128::from(is_open)),
                _ => unreachable!("texts and truth values have no bounds"),
            },
            _ => unreachable!("a range has two bounds"),
        };
        let ((from, after), (to, before)) = (constant(&self.from), constant(&self.to));
        Some((from.checked_add(after)?, to.checked_sub(before)?))
    }

    fn narrow(&self, parameters: &[Datum], batch: &PipelineBatch<'_>, words: &mut [u64]) {
        let Some(numbers) = self.numbers(parameters) else { return words.fill(0) };
        #[cfg(target_arch = "x86_64")]
        if is_wide() {
            // SAFETY: the processor has these instructions.
            return unsafe { self.narrow_wide(numbers, batch, words) };
        }
        self.narrow_any(numbers, batch, words);
    }

    /// With instructions for 32 bytes at once, and for bits, too.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    fn narrow_wide(&self, numbers: (i128, i128), batch: &PipelineBatch<'_>, words: &mut [u64]) {
        self.narrow_any(numbers, batch, words);
    }

    #[inline(always)]
    fn narrow_any(&self, (from, to): (i128, i128), batch: &PipelineBatch<'_>, words: &mut [u64]) {
        let ColumnSlice { values, compressed, .. } = batch.columns[self.from.column];
        let (values, bytes, above, (least, greatest)) = match compressed {
            Some(CompressedSlice { codes, bytes, meaning: CodeMeaning::Above(above) }) => {
                (codes, bytes, above, (0, i128::MAX >> (127 - 8 * u32::from(bytes))))
            }
            Some(_) => unreachable!("a batch has compressed columns of its pipeline's kinds"),
            None => {
                let unused = 8 * (16 - u32::from(self.from.bytes));
                (values, self.from.bytes, 0, (i128::MIN >> unused, i128::MAX >> unused))
            }
        };
        let from = from.saturating_sub(above.into()).max(least);
        let to = to.saturating_sub(above.into()).min(greatest);
        if from > to {
            return words.fill(0);
        }
        // What is less than the first is far above it, without a sign. The casts leave out what both have in common.
        let width = to.wrapping_sub(from) as u128;
        match bytes {
            1 => keep_near(
                values,
                |value| u8::from_ne_bytes(value).wrapping_sub(from as u8),
                width as u8,
                words,
            ),
            2 => keep_near(
                values,
                |value| u16::from_ne_bytes(value).wrapping_sub(from as u16),
                width as u16,
                words,
            ),
            4 => keep_near(
                values,
                |value| u32::from_ne_bytes(value).wrapping_sub(from as u32),
                width as u32,
                words,
            ),
            8 => keep_near(
                values,
                |value| u64::from_ne_bytes(value).wrapping_sub(from as u64),
                width as u64,
                words,
            ),
            _ => {
                keep_near(values, |value| u128::from_ne_bytes(value).wrapping_sub(from as u128), width, words)
            }
        }
    }
}

/// Codes of numbers in two columns that are compared with each other.
struct CodePair<'a> {
    left: &'a [u8],
    right: &'a [u8],
    /// Bytes of a code on both sides.
    bytes: (u8, u8),
    /// By how much a number on the left is more than one on the right that has the same code.
    ahead: i32,
}

impl CodePair<'_> {
    /// `None` for texts, codes of four bytes, and numbers too far apart.
    fn of<'a>(left: CompressedSlice<'a>, right: CompressedSlice<'a>) -> Option<CodePair<'a>> {
        let (CodeMeaning::Above(left_least), CodeMeaning::Above(right_least)) = (left.meaning, right.meaning)
        else {
            return None;
        };
        let ahead = i32::try_from(i128::from(left_least) - i128::from(right_least)).ok()?;
        // No sum with a code overflows then.
        let is_near = ahead.unsigned_abs() < 1 << 30 && left.bytes.max(right.bytes) <= 2;
        is_near.then_some(CodePair {
            left: left.codes,
            right: right.codes,
            bytes: (left.bytes, right.bytes),
            ahead,
        })
    }

    #[inline(always)]
    fn keep(&self, is_equality: bool, inverted: u64, words: &mut [u64]) {
        let byte = |code: [u8; 1]| i32::from(code[0]);
        let two = |code: [u8; 2]| i32::from(u16::from_ne_bytes(code));
        match self.bytes {
            (1, 1) => self.keep_as((byte, byte), is_equality, inverted, words),
            (1, _) => self.keep_as((byte, two), is_equality, inverted, words),
            (_, 1) => self.keep_as((two, byte), is_equality, inverted, words),
            _ => self.keep_as((two, two), is_equality, inverted, words),
        }
    }

    #[inline(always)]
    fn keep_as<const LEFT: usize, const RIGHT: usize>(
        &self,
        (left, right): (impl Fn([u8; LEFT]) -> i32, impl Fn([u8; RIGHT]) -> i32),
        is_equality: bool,
        inverted: u64,
        words: &mut [u64],
    ) {
        let (codes, ahead) = ((self.left, self.right), self.ahead);
        match is_equality {
            true => keep_both(codes, inverted, words, |one, other| left(one) + ahead == right(other)),
            false => keep_both(codes, inverted, words, |one, other| left(one) + ahead < right(other)),
        }
    }
}

/// Whether the processor has instructions for 32 bytes at once, and for bits. Costs a load.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn is_wide() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt")
}

/// Lists the rows that have a bit.
fn list(words: &[u64], selected: &mut SelectedRows) {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: the processor has these instructions.
        return unsafe { list_wide(words, selected) };
    }
    list_any(words, selected);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn list_wide(words: &[u64], selected: &mut SelectedRows) {
    list_any(words, selected);
}

#[inline(always)]
fn list_any(words: &[u64], selected: &mut SelectedRows) {
    for (at, &word) in words.iter().enumerate() {
        selected.push_bits(at * WORD_ROWS, word);
    }
}

/// A word that has no more bits than these is gone through bit by bit: as many as a value has bytes, but of codes, of which an instruction
/// compares sixteen or more, all are compared sooner than a few are gone through.
const fn few_bits(bytes: usize) -> u32 {
    if bytes <= 2 { 0 } else { bytes as u32 }
}

/// Whether a text in a column is this one. Halves, as there are no instructions that compare 16 bytes.
#[inline(always)]
fn same_bits(value: [u8; 16], text: u128) -> bool {
    let value = u128::from_le_bytes(value);
    (value as u64 == text as u64) & ((value >> 64) as u64 == (text >> 64) as u64)
}

#[inline(always)]
fn keep_ordered<const BYTES: usize, N: Copy + Ord>(
    values: &[u8],
    number: impl Fn([u8; BYTES]) -> N,
    bound: N,
    order: BitmapOrder,
    inverted: u64,
    words: &mut [u64],
) {
    match order {
        BitmapOrder::Equal => keep(values, inverted, words, |value| number(value) == bound),
        BitmapOrder::Less => keep(values, inverted, words, |value| number(value) < bound),
        BitmapOrder::Greater => keep(values, inverted, words, |value| number(value) > bound),
    }
}

/// Keeps the bits of rows whose value is no farther than that.
#[inline(always)]
fn keep_near<const BYTES: usize, N: Ord>(
    values: &[u8],
    distance: impl Fn([u8; BYTES]) -> N,
    width: N,
    words: &mut [u64],
) {
    keep(values, 0, words, |value| distance(value) <= width);
}

/// Keeps the bits of rows whose value is so, or, inverted, is not.
#[inline(always)]
fn keep<const BYTES: usize>(
    values: &[u8],
    inverted: u64,
    words: &mut [u64],
    holds: impl Fn([u8; BYTES]) -> bool,
) {
    let (values, _) = values.as_chunks::<BYTES>();
    for (word, values) in words.iter_mut().zip(values.chunks(WORD_ROWS)) {
        if let Ok(values) = <&[_; WORD_ROWS]>::try_from(values)
            && word.count_ones() > few_bits(BYTES)
        {
            *word &= all_bits(|at| holds(values[at])) ^ inverted;
        } else if *word != 0 {
            *word &= each_bit(*word, |at| holds(values[at])) ^ inverted;
        }
    }
}

/// Keeps the bits of rows whose values in two columns are equal, or the left one is less.
#[inline(always)]
fn keep_pairs<const BYTES: usize, N: Copy + Ord>(
    pair: (&[u8], &[u8]),
    number: impl Fn([u8; BYTES]) -> N,
    is_equality: bool,
    inverted: u64,
    words: &mut [u64],
) {
    match is_equality {
        true => keep_both(pair, inverted, words, |left, right| number(left) == number(right)),
        false => keep_both(pair, inverted, words, |left, right| number(left) < number(right)),
    }
}

/// Keeps the bits of rows whose values in two columns are so, or, inverted, are not.
#[inline(always)]
fn keep_both<const LEFT: usize, const RIGHT: usize>(
    (left, right): (&[u8], &[u8]),
    inverted: u64,
    words: &mut [u64],
    holds: impl Fn([u8; LEFT], [u8; RIGHT]) -> bool,
) {
    let (left, right) = (left.as_chunks::<LEFT>().0, right.as_chunks::<RIGHT>().0);
    let chunks = left.chunks(WORD_ROWS).zip(right.chunks(WORD_ROWS));
    for (word, (left, right)) in words.iter_mut().zip(chunks) {
        if let (Ok(left), Ok(right)) = (<&[_; WORD_ROWS]>::try_from(left), <&[_; WORD_ROWS]>::try_from(right))
            && word.count_ones() > few_bits(if LEFT > RIGHT { LEFT } else { RIGHT })
        {
            *word &= all_bits(|at| holds(left[at], right[at])) ^ inverted;
        } else if *word != 0 {
            *word &= each_bit(*word, |at| holds(left[at], right[at])) ^ inverted;
        }
    }
}

/// A bit for each of 64 rows.
#[inline(always)]
fn all_bits(holds: impl Fn(usize) -> bool) -> u64 {
    let mut truths = [0; WORD_ROWS];
    for (at, truth) in truths.iter_mut().enumerate() {
        *truth = if holds(at) { u8::MAX } else { 0 };
    }
    highest_bits(&truths)
}

/// The highest bit of each byte, by the instruction that there is for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn highest_bits(bytes: &[u8; WORD_ROWS]) -> u64 {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8};
    let (quarters, _) = bytes.as_chunks::<16>();
    let bits = |(at, quarter): (usize, &[u8; 16])| {
        // SAFETY: 16 bytes are there, and every processor of this kind has these instructions.
        let bits = unsafe { _mm_movemask_epi8(_mm_loadu_si128(quarter.as_ptr().cast())) };
        u64::from(bits as u32) << (16 * at)
    };
    quarters.iter().enumerate().map(bits).fold(0, |word, bits| word | bits)
}

/// The highest bit of each byte.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn highest_bits(bytes: &[u8; WORD_ROWS]) -> u64 {
    let (eights, _) = bytes.as_chunks::<8>();
    // The highest bits of eight bytes side by side: the product has the bit of byte n at 56 + n.
    let side_by_side = |eight: &[u8; 8]| {
        (u64::from_le_bytes(*eight) >> 7 & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    let bits = |(at, eight): (usize, &[u8; 8])| side_by_side(eight) << (8 * at);
    eights.iter().enumerate().map(bits).fold(0, |word, bits| word | bits)
}

/// A bit for each of the rows that have one in the word.
#[inline(always)]
fn each_bit(word: u64, holds: impl Fn(usize) -> bool) -> u64 {
    let (mut left, mut held) = (word, 0);
    while left != 0 {
        let at = left.trailing_zeros();
        held |= u64::from(holds(at as usize)) << at;
        left &= left - 1;
    }
    held
}

/// Keeps the bits of rows that have a value.
fn keep_valid(slice: &ColumnSlice<'_>, words: &mut [u64]) {
    if let Some((bits, first)) = slice.validity {
        keep_bits(bits, first, true, words);
    }
}

/// Keeps the bits of rows whose bit, of those from `first` on, is so.
fn keep_bits(bits: &[u8], first: usize, is: bool, words: &mut [u64]) {
    let (start, shift) = (first / 8, first % 8);
    for (at, word) in words.iter_mut().enumerate().filter(|(_, word)| **word != 0) {
        let mut bytes = [0; 16];
        // Nine bytes have all of them, whatever the shift is.
        let there = &bits[start + 8 * at..];
        let count = there.len().min(9);
        bytes[..count].copy_from_slice(&there[..count]);
        let held = (u128::from_le_bytes(bytes) >> shift) as u64;
        *word &= if is { held } else { !held };
    }
}

#[cfg(test)]
impl BitmapCondition {
    pub(crate) fn is_range(&self) -> bool {
        matches!(self.0, BitmapTerm::Range(_))
    }

    /// With something else in place of one of its terms, for tests that must find it.
    pub(crate) fn spoiled(&self, fault: BitmapFault) -> BitmapCondition {
        let mut spoiled = self.clone();
        spoiled.0.spoil(fault);
        spoiled
    }
}

/// What is wrong with a condition.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BitmapFault {
    LessIsEqual,
    Inverted,
    BothIsEither,
    NullIsValue,
    TrueIsFalse,
    /// Without its lower bound's own number, or with it.
    RangeBeginsElsewhere,
    /// With the number behind its upper bound, or without its own.
    RangeEndsElsewhere,
}

#[cfg(test)]
impl BitmapTerm {
    fn spoil(&mut self, fault: BitmapFault) {
        match (self, fault) {
            (BitmapTerm::Range(BitmapRange { from: bound, .. }), BitmapFault::RangeBeginsElsewhere)
            | (BitmapTerm::Range(BitmapRange { to: bound, .. }), BitmapFault::RangeEndsElsewhere) => {
                // Greater for not less, and the reverse.
                bound.order = match bound.order {
                    BitmapOrder::Less => BitmapOrder::Greater,
                    _ => BitmapOrder::Less,
                };
                bound.is_inverted = !bound.is_inverted;
            }
            (BitmapTerm::Comparison(comparison), BitmapFault::LessIsEqual) => {
                comparison.order = BitmapOrder::Equal;
            }
            (BitmapTerm::Comparison(comparison), BitmapFault::Inverted) => {
                comparison.is_inverted = !comparison.is_inverted;
            }
            (term @ BitmapTerm::Both(..), BitmapFault::BothIsEither) => {
                let BitmapTerm::Both(left, right) = term.clone() else { unreachable!("it is matched") };
                *term = BitmapTerm::Either(left, right);
            }
            (BitmapTerm::Null { is, .. }, BitmapFault::NullIsValue)
            | (BitmapTerm::Truth { is, .. }, BitmapFault::TrueIsFalse) => *is = !*is,
            (BitmapTerm::Both(left, right) | BitmapTerm::Either(left, right), _) => {
                left.spoil(fault);
                right.spoil(fault);
            }
            _ => {}
        }
    }
}
