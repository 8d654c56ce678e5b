//! The meaning of a pipeline, row by row: the oracle of the compiled code, what that hands rows to which it does not decide, and
//! what runs where nothing is compiled.

use crate::batch::{Datum, PipelineBatch};
use crate::groups::PipelineGroups;
use crate::ir::{ComparedBy, Fault, Instruction, Pipeline, PipelineStep, ValueKind, ValueNumber};
use crate::selected::SelectedRows;
use std::cmp::Ordering;

/// Runs a pipeline over rows. Keeps what it needs for the next ones.
#[derive(Debug)]
pub(crate) struct Interpreter {
    /// The values of the current row, as far as they are computed.
    values: Vec<Option<Datum>>,
    keys: Vec<Option<Datum>>,
}

impl Interpreter {
    pub(crate) fn new(pipeline: &Pipeline) -> Interpreter {
        Interpreter { values: vec![None; pipeline.values.len()], keys: Vec::new() }
    }

    /// Adds one row to its group, or its number to those selected, if it is kept.
    pub(crate) fn row(
        &mut self,
        pipeline: &Pipeline,
        parameters: &[Datum],
        batch: &PipelineBatch<'_>,
        row: usize,
        groups: &mut PipelineGroups,
        selected: &mut SelectedRows,
    ) -> Result<(), Fault> {
        for step in &pipeline.steps {
            match *step {
                PipelineStep::Compute(value) => {
                    let (operation, kind) = pipeline.values[value.0 as usize];
                    self.values[value.0 as usize] = match operation {
                        Instruction::Column(column) => {
                            let column = usize::from(column);
                            let slice = &batch.columns[column];
                            slice.is_valid(row).then(|| slice.value(pipeline.columns[column], row))
                        }
                        Instruction::Parameter(parameter) => Some(parameters[usize::from(parameter)]),
                        operation => self.compute(operation, kind)?,
                    };
                }
                PipelineStep::Keep(condition)
                    if self.values[condition.0 as usize] != Some(Datum::Bool(true)) =>
                {
                    return Ok(());
                }
                PipelineStep::Keep(_) => {}
            }
        }
        if pipeline.selects {
            selected.push(row);
            return Ok(());
        }
        self.keys.clear();
        self.keys.extend(pipeline.keys.iter().map(|key| self.values[key.0 as usize]));
        let start = groups.find(&self.keys);
        groups.update(start, |aggregate| match aggregate.operand() {
            Some(operand) => self.values[operand.0 as usize],
            None => Some(Datum::Bool(true)),
        })
    }

    fn compute(&self, operation: Instruction, kind: ValueKind) -> Result<Option<Datum>, Fault> {
        let value = |operand: ValueNumber| self.values[operand.0 as usize];
        let truth = |operand: ValueNumber| match value(operand) {
            Some(Datum::Bool(truth)) => Some(truth),
            _ => None,
        };
        let both = |left, right| value(left).zip(value(right));
        Ok(match operation {
            Instruction::Compare(relation, left, right) => {
                both(left, right).map(|pair| compared(relation, pair))
            }
            Instruction::And(left, right) => match (truth(left), truth(right)) {
                (Some(false), _) | (_, Some(false)) => Some(Datum::Bool(false)),
                (Some(true), Some(true)) => Some(Datum::Bool(true)),
                _ => None,
            },
            Instruction::Or(left, right) => match (truth(left), truth(right)) {
                (Some(true), _) | (_, Some(true)) => Some(Datum::Bool(true)),
                (Some(false), Some(false)) => Some(Datum::Bool(false)),
                _ => None,
            },
            Instruction::Not(operand) => truth(operand).map(|truth| Datum::Bool(!truth)),
            Instruction::IsNull(operand) => Some(Datum::Bool(value(operand).is_none())),
            Instruction::Scale(operand, digits) => match value(operand) {
                Some(Datum::Number(number)) => {
                    let scaled =
                        number.checked_mul(10i128.pow(digits.into())).ok_or(Fault::Overflow(kind))?;
                    Some(Datum::Number(scaled))
                }
                _ => None,
            },
            Instruction::Decimal(operand) | Instruction::Widen(operand) => value(operand),
            Instruction::Add(left, right)
            | Instruction::Subtract(left, right)
            | Instruction::Multiply(left, right)
            | Instruction::Divide(left, right) => match both(left, right) {
                Some((Datum::Number(left), Datum::Number(right))) => {
                    Some(Datum::Number(number(operation, kind, left, right)?))
                }
                Some((Datum::Double(left), Datum::Double(right))) => {
                    Some(Datum::Double(double(operation, left, right)?))
                }
                _ => None,
            },
            Instruction::Column(_) | Instruction::Parameter(_) => None,
        })
    }
}

fn compared(relation: ComparedBy, pair: (Datum, Datum)) -> Datum {
    let order = match pair {
        (Datum::Bool(left), Datum::Bool(right)) => left.cmp(&right),
        (Datum::Number(left), Datum::Number(right)) => left.cmp(&right),
        (Datum::Text(left), Datum::Text(right)) => left.cmp(&right),
        (Datum::Double(left), Datum::Double(right)) => doubles(left, right),
        _ => Ordering::Less,
    };
    Datum::Bool(relation.holds(order))
}

/// PostgreSQL's order.
fn doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

fn number(operation: Instruction, kind: ValueKind, left: i128, right: i128) -> Result<i128, Fault> {
    let result = match operation {
        Instruction::Add(..) => left.checked_add(right),
        Instruction::Subtract(..) => left.checked_sub(right),
        Instruction::Multiply(..) => left.checked_mul(right),
        _ if right == 0 => return Err(Fault::DivisionByZero),
        _ => left.checked_div(right),
    };
    let fits = |number: &i128| match kind {
        ValueKind::Int32 => i32::try_from(*number).is_ok(),
        ValueKind::Int64 => i64::try_from(*number).is_ok(),
        _ => true,
    };
    result.filter(fits).ok_or(Fault::Overflow(kind))
}

/// Doubles: what is infinite or zero although no operand was is out of range, as in PostgreSQL.
fn double(operation: Instruction, left: f64, right: f64) -> Result<f64, Fault> {
    let (result, may_vanish) = match operation {
        Instruction::Add(..) => (left + right, false),
        Instruction::Subtract(..) => (left - right, false),
        Instruction::Multiply(..) => (left * right, left != 0.0 && right != 0.0),
        _ if right == 0.0 && !left.is_nan() => return Err(Fault::DivisionByZero),
        _ => (left / right, left != 0.0 && right.is_finite()),
    };
    let is_lost = result.is_infinite() && left.is_finite() && right.is_finite();
    match is_lost || (result == 0.0 && may_vanish) {
        true => Err(Fault::Overflow(ValueKind::Double)),
        // Without the sign of NaN.
        false => Ok(if result.is_nan() { f64::NAN } else { result }),
    }
}
