//! A pipeline as typed instructions, which is all that the interpreter and the backend know of a query.
//!
//! A pipeline says what happens to one row. Its instructions are numbered, each computes one value of those before it, and no
//! value changes. Some steps decide whether the row is kept; at the end the row is added to the aggregates of its group, or, with
//! `select` in their place, its number to those of the rows that are kept:
//! ```text
//! column 0: date
//! column 1: decimal(50) in 8 bytes
//! parameter 0: date
//! %0 = column 0 : date
//! %1 = parameter 0 : date
//! %2 = %0 <= %1 : bool
//! keep %2
//! %3 = column 1 : decimal(50)
//! sum %3
//! count
//! ```
//! Values have SQL's NULL: it runs through arithmetic and comparisons, `and`, `or` and `not` know three truth values, `keep`
//! keeps what is true. Constants of a query are parameters, so that queries that differ in them only share a pipeline.
//!
//! A `decimal(b)` is an unscaled number whose magnitude is below 2^b: what the types of a query prove, and what decides whether
//! it is computed in 64 or in 128 bits. Where nothing is proved `b` is 127. Results are exact, or a [`Fault`].
//!
//! Not here: scales of decimals, names, joins, and what makes a pipeline of a query.

use std::fmt;

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueKind {
    /// A truth value.
    Bool,
    /// 32 bits.
    Int32,
    /// 64 bits.
    Int64,
    /// Days; compared, not computed with.
    Date,
    /// An unscaled number below 2^`bits` in magnitude.
    Decimal {
        /// At most [`BITS_MAX`].
        bits: u8,
    },
    /// A double.
    Double,
    /// A text of at most 12 bytes, as Arrow has it inside of a view: the length, and then the bytes, with zeros up to 16. In
    /// one word if no text is longer than 4 bytes.
    Text {
        /// 1 or 2.
        words: u8,
    },
}

/// Bits of the largest magnitude.
pub const BITS_MAX: u8 = 127;
/// Up to here a decimal is computed in 64 bits.
pub(crate) const NARROW_BITS: u8 = 63;

impl ValueKind {
    /// Whether it is an integer or a decimal.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, ValueKind::Int32 | ValueKind::Int64 | ValueKind::Decimal { .. })
    }

    /// Bits of the magnitude of a number.
    pub(crate) fn bits(self) -> u8 {
        match self {
            ValueKind::Bool => 1,
            ValueKind::Int32 | ValueKind::Date => 31,
            ValueKind::Decimal { bits } => bits,
            _ => 63,
        }
    }

    /// Words of 64 bits that hold a value.
    pub(crate) fn words(self) -> usize {
        match self {
            ValueKind::Decimal { bits } if bits > NARROW_BITS => 2,
            ValueKind::Text { words } => usize::from(words),
            _ => 1,
        }
    }
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueKind::Bool => f.write_str("bool"),
            ValueKind::Int32 => f.write_str("int32"),
            ValueKind::Int64 => f.write_str("int64"),
            ValueKind::Date => f.write_str("date"),
            ValueKind::Decimal { bits } => write!(f, "decimal({bits})"),
            ValueKind::Double => f.write_str("double"),
            ValueKind::Text { words } => write!(f, "text({words})"),
        }
    }
}

/// A column of the batches that a pipeline reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InputColumn {
    /// What its values are.
    pub kind: ValueKind,
    /// Bytes of a stored value; 0 for bits.
    pub bytes: u8,
}

impl InputColumn {
    /// A column in the only form that its kind has; decimals have several.
    pub fn of(kind: ValueKind) -> InputColumn {
        let bytes = match kind {
            ValueKind::Bool => 0,
            ValueKind::Int32 | ValueKind::Date => 4,
            ValueKind::Int64 | ValueKind::Double => 8,
            ValueKind::Decimal { .. } | ValueKind::Text { .. } => 16,
        };
        InputColumn { kind, bytes }
    }

    /// A decimal that is stored in 4, 8 or 16 bytes.
    pub fn decimal(bits: u8, bytes: u8) -> InputColumn {
        InputColumn { kind: ValueKind::Decimal { bits }, bytes }
    }
}

/// A value, by the number of the instruction that computes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueNumber(pub(crate) u32);

impl fmt::Display for ValueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// How two values are compared. Doubles: NaN equals itself and is greater than all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ComparedBy {
    /// `=`
    Equal,
    /// `<>`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl ComparedBy {
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            ComparedBy::Equal => order.is_eq(),
            ComparedBy::Unequal => order.is_ne(),
            ComparedBy::Less => order.is_lt(),
            ComparedBy::LessOrEqual => order.is_le(),
            ComparedBy::Greater => order.is_gt(),
            ComparedBy::GreaterOrEqual => order.is_ge(),
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            ComparedBy::Equal => "=",
            ComparedBy::Unequal => "<>",
            ComparedBy::Less => "<",
            ComparedBy::LessOrEqual => "<=",
            ComparedBy::Greater => ">",
            ComparedBy::GreaterOrEqual => ">=",
        }
    }
}

/// What an instruction computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// The row's value of an input column.
    Column(u16),
    /// A constant of the query, which is not NULL.
    Parameter(u16),
    /// Two values of one kind, or two decimals of one scale; texts only for equality.
    Compare(ComparedBy, ValueNumber, ValueNumber),
    /// Three-valued.
    And(ValueNumber, ValueNumber),
    /// Three-valued.
    Or(ValueNumber, ValueNumber),
    /// Three-valued.
    Not(ValueNumber),
    /// Never NULL.
    IsNull(ValueNumber),
    /// Two integers of one kind, two decimals of one scale, or two doubles.
    Add(ValueNumber, ValueNumber),
    /// Two integers of one kind, two decimals of one scale, or two doubles.
    Subtract(ValueNumber, ValueNumber),
    /// Two integers of one kind, two decimals, or two doubles.
    Multiply(ValueNumber, ValueNumber),
    /// Two integers of one kind, cut towards zero, or two doubles.
    Divide(ValueNumber, ValueNumber),
    /// A decimal times a power of ten of at most 18.
    Scale(ValueNumber, u8),
    /// An integer as a decimal of scale 0.
    Decimal(ValueNumber),
    /// A 32-bit integer in 64 bits.
    Widen(ValueNumber),
}

impl Instruction {
    fn operands(self) -> [Option<ValueNumber>; 2] {
        match self {
            Instruction::Column(_) | Instruction::Parameter(_) => [None, None],
            Instruction::Not(operand)
            | Instruction::IsNull(operand)
            | Instruction::Scale(operand, _)
            | Instruction::Decimal(operand)
            | Instruction::Widen(operand) => [Some(operand), None],
            Instruction::Compare(_, left, right)
            | Instruction::And(left, right)
            | Instruction::Or(left, right)
            | Instruction::Add(left, right)
            | Instruction::Subtract(left, right)
            | Instruction::Multiply(left, right)
            | Instruction::Divide(left, right) => [Some(left), Some(right)],
        }
    }
}

/// Why a row ends the query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// A result that its type, which is this one, does not hold; SQLSTATE 22003.
    Overflow(ValueKind),
    /// SQLSTATE 22012.
    DivisionByZero,
}

/// What a pipeline does next with a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PipelineStep {
    /// Computes the value of this number.
    Compute(ValueNumber),
    /// Goes on only if the value is true.
    Keep(ValueNumber),
}

/// What is kept of a group's rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PipelineAggregate {
    /// How many rows there are.
    Rows,
    /// How many values are not NULL.
    Count(ValueNumber),
    /// The exact sum of an integer or decimal, in 128 bits.
    Sum(ValueNumber),
    /// The least integer, decimal or date.
    Min(ValueNumber),
    /// The greatest integer, decimal or date.
    Max(ValueNumber),
}

impl PipelineAggregate {
    pub(crate) fn operand(self) -> Option<ValueNumber> {
        match self {
            PipelineAggregate::Rows => None,
            PipelineAggregate::Count(operand)
            | PipelineAggregate::Sum(operand)
            | PipelineAggregate::Min(operand)
            | PipelineAggregate::Max(operand) => Some(operand),
        }
    }
}

/// A pipeline, without constants. Made by a [`PipelineBuilder`](crate::PipelineBuilder).
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Pipeline {
    pub(crate) columns: Vec<InputColumn>,
    pub(crate) parameters: Vec<ValueKind>,
    pub(crate) values: Vec<(Instruction, ValueKind)>,
    pub(crate) steps: Vec<PipelineStep>,
    pub(crate) keys: Vec<ValueNumber>,
    pub(crate) aggregates: Vec<PipelineAggregate>,
    /// Whether it gives the numbers of the rows that it keeps, and has no aggregates.
    pub(crate) selects: bool,
    /// Whether it reads the rows of a list only.
    pub(crate) lists: bool,
}

/// A pipeline in two: where few rows pass its first condition, these are found first. Then the values that only they need are read one
/// behind the other, so that the processor waits for several of them at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipelineParts {
    /// Selects the rows that pass.
    pub selection: Pipeline,
    /// What happens to these, which are given as a list. Columns and parameters of both are those of the whole.
    pub rest: Pipeline,
}

impl Pipeline {
    /// The kind of a value.
    pub fn kind(&self, operand: ValueNumber) -> ValueKind {
        self.values[operand.0 as usize].1
    }

    /// Kinds of the parameters.
    pub fn parameters(&self) -> &[ValueKind] {
        &self.parameters
    }

    /// How many instructions it has.
    pub fn instructions(&self) -> usize {
        self.values.len()
    }

    /// This pipeline, for the rows of a list.
    pub fn of_listed_rows(&self) -> Pipeline {
        Pipeline { lists: true, ..self.clone() }
    }

    /// In two parts; `None` where no condition parts it, as the only one of a pipeline that selects.
    pub fn parts(&self) -> Option<PipelineParts> {
        let is_condition = |step: &PipelineStep| matches!(step, PipelineStep::Keep(_));
        let first = self.steps.iter().position(is_condition).filter(|_| !self.lists)?;
        if self.selects && !self.steps[first + 1..].iter().any(is_condition) {
            return None;
        }
        let selection = Pipeline {
            steps: self.steps[..=first].to_vec(),
            keys: Vec::new(),
            aggregates: Vec::new(),
            selects: true,
            ..self.clone()
        };
        let mut needed = vec![false; self.values.len()];
        let aggregated = self.aggregates.iter().filter_map(|aggregate| aggregate.operand());
        let used = self.keys.iter().copied().chain(aggregated);
        used.for_each(|value| needed[value.0 as usize] = true);
        let mut steps: Vec<PipelineStep> = Vec::new();
        // Operands come before what is computed of them.
        for (at, step) in self.steps.iter().enumerate().rev() {
            match *step {
                PipelineStep::Keep(_) if at == first => continue,
                PipelineStep::Keep(condition) => needed[condition.0 as usize] = true,
                // What comes later may fail, needed or not.
                PipelineStep::Compute(value) if at < first && !needed[value.0 as usize] => continue,
                PipelineStep::Compute(value) => {
                    self.operation(value)
                        .operands()
                        .into_iter()
                        .flatten()
                        .for_each(|of| needed[of.0 as usize] = true);
                }
            }
            steps.push(*step);
        }
        steps.reverse();
        Some(PipelineParts { selection, rest: Pipeline { steps, lists: true, ..self.clone() } })
    }

    pub(crate) fn operation(&self, operand: ValueNumber) -> Instruction {
        self.values[operand.0 as usize].0
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Column(column) => write!(f, "column {column}"),
            Instruction::Parameter(parameter) => write!(f, "parameter {parameter}"),
            Instruction::Compare(relation, left, right) => write!(f, "{left} {} {right}", relation.symbol()),
            Instruction::And(left, right) => write!(f, "{left} and {right}"),
            Instruction::Or(left, right) => write!(f, "{left} or {right}"),
            Instruction::Not(operand) => write!(f, "not {operand}"),
            Instruction::IsNull(operand) => write!(f, "{operand} is null"),
            Instruction::Add(left, right) => write!(f, "{left} + {right}"),
            Instruction::Subtract(left, right) => write!(f, "{left} - {right}"),
            Instruction::Multiply(left, right) => write!(f, "{left} * {right}"),
            Instruction::Divide(left, right) => write!(f, "{left} / {right}"),
            Instruction::Scale(operand, digits) => write!(f, "{operand} * 10^{digits}"),
            Instruction::Decimal(operand) => write!(f, "decimal {operand}"),
            Instruction::Widen(operand) => write!(f, "widen {operand}"),
        }
    }
}

impl fmt::Display for PipelineAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PipelineAggregate::Rows => f.write_str("count"),
            PipelineAggregate::Count(operand) => write!(f, "count {operand}"),
            PipelineAggregate::Sum(operand) => write!(f, "sum {operand}"),
            PipelineAggregate::Min(operand) => write!(f, "min {operand}"),
            PipelineAggregate::Max(operand) => write!(f, "max {operand}"),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, column) in self.columns.iter().enumerate() {
            write!(f, "column {number}: {}", column.kind)?;
            match column.kind {
                ValueKind::Decimal { .. } => writeln!(f, " in {} bytes", column.bytes)?,
                _ => writeln!(f)?,
            }
        }
        for (number, kind) in self.parameters.iter().enumerate() {
            writeln!(f, "parameter {number}: {kind}")?;
        }
        if self.lists {
            writeln!(f, "rows of a list")?;
        }
        for step in &self.steps {
            match step {
                PipelineStep::Compute(value) => {
                    writeln!(f, "{value} = {} : {}", self.operation(*value), self.kind(*value))?;
                }
                PipelineStep::Keep(value) => writeln!(f, "keep {value}")?,
            }
        }
        self.keys.iter().try_for_each(|key| writeln!(f, "key {key}"))?;
        if self.selects {
            writeln!(f, "select")?;
        }
        self.aggregates.iter().try_for_each(|aggregate| writeln!(f, "{aggregate}"))
    }
}
