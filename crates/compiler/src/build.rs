//! Makes pipelines, and lets only well-typed ones be made.

use crate::bitmaps::BitmapCondition;
use crate::ir::{
    BITS_MAX, ComparedBy, InputColumn, Instruction, Pipeline, PipelineAggregate, PipelineStep, ValueKind,
    ValueNumber,
};
use std::fmt;

/// Why an instruction is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IllTyped(String);

impl fmt::Display for IllTyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IllTyped {}

/// The most columns of a pipeline: a mask has a bit for each.
const COLUMNS_MAX: usize = 64;
/// The most instructions: a query of thousands of terms takes the compiler too long.
const INSTRUCTIONS_MAX: usize = 500;

/// Makes a pipeline step by step. The same instruction is computed once.
#[derive(Default)]
pub struct PipelineBuilder {
    pipeline: Pipeline,
}

impl PipelineBuilder {
    /// The number of a new input column.
    ///
    /// # Errors
    /// [`IllTyped`] for a form that the kind does not have, or too many columns.
    pub fn input(&mut self, column: InputColumn) -> Result<u16, IllTyped> {
        let is_stored = match column.kind {
            ValueKind::Decimal { bits } => {
                let holds = [(4, 31), (8, 63), (16, 127)]
                    .iter()
                    .any(|&(bytes, most)| column.bytes == bytes && bits <= most);
                holds && bits > 0
            }
            ValueKind::Text { words } => (1..=2).contains(&words) && column.bytes == 16,
            kind => column == InputColumn::of(kind),
        };
        if !is_stored || self.pipeline.columns.len() == COLUMNS_MAX {
            return Err(IllTyped(format!("no column has {} in {} bytes", column.kind, column.bytes)));
        }
        self.pipeline.columns.push(column);
        Ok(self.pipeline.columns.len() as u16 - 1)
    }

    /// A new constant.
    ///
    /// # Errors
    /// [`IllTyped`] as for instructions.
    pub fn parameter(&mut self, kind: ValueKind) -> Result<ValueNumber, IllTyped> {
        self.pipeline.parameters.push(kind);
        self.compute(Instruction::Parameter(self.pipeline.parameters.len() as u16 - 1))
    }

    /// The kind of a value.
    pub fn kind(&self, operand: ValueNumber) -> ValueKind {
        self.pipeline.kind(operand)
    }

    /// The value of an instruction.
    ///
    /// # Errors
    /// [`IllTyped`] for operands of kinds that it does not have.
    pub fn compute(&mut self, operation: Instruction) -> Result<ValueNumber, IllTyped> {
        let kind = self.result(operation).ok_or_else(|| {
            IllTyped(format!("no instruction: {operation} of {}", self.operands(operation)))
        })?;
        if let Some(known) = self.pipeline.values.iter().position(|(other, _)| *other == operation) {
            return Ok(ValueNumber(known as u32));
        }
        if self.pipeline.values.len() == INSTRUCTIONS_MAX {
            return Err(IllTyped("too many instructions".to_owned()));
        }
        let value = ValueNumber(self.pipeline.values.len() as u32);
        self.pipeline.values.push((operation, kind));
        self.pipeline.steps.push(PipelineStep::Compute(value));
        Ok(value)
    }

    /// Keeps only rows for which the value is true.
    ///
    /// # Errors
    /// [`IllTyped`] for what is no truth value.
    pub fn keep(&mut self, condition: ValueNumber) -> Result<(), IllTyped> {
        if self.kind(condition) != ValueKind::Bool {
            return Err(IllTyped(format!("{condition} is no truth value")));
        }
        self.pipeline.steps.push(PipelineStep::Keep(condition));
        Ok(())
    }

    /// Groups rows by a value, too.
    ///
    /// # Errors
    /// [`IllTyped`] for a double.
    pub fn key(&mut self, value: ValueNumber) -> Result<(), IllTyped> {
        if self.kind(value) == ValueKind::Double {
            return Err(IllTyped(format!("{value} is no key")));
        }
        self.pipeline.keys.push(value);
        Ok(())
    }

    /// The number of an aggregate; the same one is kept once.
    ///
    /// # Errors
    /// [`IllTyped`] for a value that it does not take.
    pub fn aggregate(&mut self, aggregate: PipelineAggregate) -> Result<usize, IllTyped> {
        let is_taken = match aggregate {
            PipelineAggregate::Rows | PipelineAggregate::Count(_) => true,
            PipelineAggregate::Sum(value) => self.kind(value).is_number(),
            PipelineAggregate::Min(value) | PipelineAggregate::Max(value) => {
                self.kind(value).is_number() || self.kind(value) == ValueKind::Date
            }
        };
        if !is_taken {
            return Err(IllTyped(format!("no aggregate: {aggregate}")));
        }
        let known = self.pipeline.aggregates.iter().position(|other| *other == aggregate);
        Ok(known.unwrap_or_else(|| {
            self.pipeline.aggregates.push(aggregate);
            self.pipeline.aggregates.len() - 1
        }))
    }

    /// Whether [bitmaps](BitmapCondition) can decide if the value, a truth value, is true.
    pub fn has_bitmap(&self, condition: ValueNumber) -> bool {
        BitmapCondition::of_value(&self.pipeline, condition).is_some()
    }

    /// What was made.
    pub fn finish(self) -> Pipeline {
        self.pipeline
    }

    /// What was made, giving the numbers of the rows that are kept in place of aggregates.
    ///
    /// # Errors
    /// [`IllTyped`] where there are keys or aggregates.
    pub fn finish_selecting(mut self) -> Result<Pipeline, IllTyped> {
        if !self.pipeline.keys.is_empty() || !self.pipeline.aggregates.is_empty() {
            return Err(IllTyped("rows are selected or aggregated".to_owned()));
        }
        self.pipeline.selects = true;
        Ok(self.pipeline)
    }

    /// The kind of an instruction's result; `None` for kinds of operands that it does not have.
    fn result(&self, operation: Instruction) -> Option<ValueKind> {
        let kind = |operand: ValueNumber| self.pipeline.values.get(operand.0 as usize).map(|(_, kind)| *kind);
        match operation {
            Instruction::Column(column) => Some(self.pipeline.columns.get(usize::from(column))?.kind),
            Instruction::Parameter(parameter) => {
                self.pipeline.parameters.get(usize::from(parameter)).copied()
            }
            Instruction::Compare(relation, left, right) => {
                let (left, right) = (kind(left)?, kind(right)?);
                let alike = match (left, right) {
                    (ValueKind::Decimal { .. }, ValueKind::Decimal { .. }) => true,
                    (ValueKind::Text { .. }, ValueKind::Text { .. }) => {
                        matches!(relation, ComparedBy::Equal | ComparedBy::Unequal)
                    }
                    _ => left == right,
                };
                alike.then_some(ValueKind::Bool)
            }
            Instruction::And(left, right) | Instruction::Or(left, right) => {
                (kind(left)? == ValueKind::Bool && kind(right)? == ValueKind::Bool).then_some(ValueKind::Bool)
            }
            Instruction::Not(operand) => (kind(operand)? == ValueKind::Bool).then_some(ValueKind::Bool),
            Instruction::IsNull(operand) => kind(operand).map(|_| ValueKind::Bool),
            Instruction::Add(left, right) | Instruction::Subtract(left, right) => {
                arithmetic(kind(left)?, kind(right)?, |left, right| left.max(right) + 1)
            }
            Instruction::Multiply(left, right) => {
                arithmetic(kind(left)?, kind(right)?, |left, right| left + right)
            }
            Instruction::Divide(left, right) => {
                let (left, right) = (kind(left)?, kind(right)?);
                (left == right && matches!(left, ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double))
                    .then_some(left)
            }
            Instruction::Scale(operand, digits @ 0..=18) => match kind(operand)? {
                ValueKind::Decimal { bits } => {
                    Some(ValueKind::Decimal { bits: (bits + bits_of(digits)).min(BITS_MAX) })
                }
                _ => None,
            },
            Instruction::Scale(..) => None,
            Instruction::Decimal(operand) => match kind(operand)? {
                // The smallest integer has a magnitude of a bit more.
                ValueKind::Int32 => Some(ValueKind::Decimal { bits: 32 }),
                ValueKind::Int64 => Some(ValueKind::Decimal { bits: 64 }),
                _ => None,
            },
            Instruction::Widen(operand) => (kind(operand)? == ValueKind::Int32).then_some(ValueKind::Int64),
        }
    }

    fn operands(&self, operation: Instruction) -> String {
        let kinds = self.pipeline.values.iter().map(|(_, kind)| kind.to_string());
        let numbered: Vec<String> =
            kinds.enumerate().map(|(number, kind)| format!("%{number}: {kind}")).collect();
        match operation {
            Instruction::Column(_) | Instruction::Parameter(_) => "the input".to_owned(),
            _ => numbered.join(", "),
        }
    }
}

/// Bits of 10 to the power of `digits`.
fn bits_of(digits: u8) -> u8 {
    10u64.pow(u32::from(digits)).ilog2() as u8 + 1
}

fn arithmetic(left: ValueKind, right: ValueKind, bits: fn(u8, u8) -> u8) -> Option<ValueKind> {
    match (left, right) {
        (ValueKind::Decimal { bits: left }, ValueKind::Decimal { bits: right }) => {
            Some(ValueKind::Decimal { bits: bits(left, right).min(BITS_MAX) })
        }
        (ValueKind::Int32 | ValueKind::Int64 | ValueKind::Double, _) if left == right => Some(left),
        _ => None,
    }
}
