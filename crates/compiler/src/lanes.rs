//! The values of a row in Cranelift's instructions.
//!
//! An integer, a date or a decimal that fits is in 64 bits whatever its type, a larger decimal in 128. A truth value with NULLs is two
//! bits, is-true and is-false, so that `and` and `or` are one instruction for each. Other values have a bit that says whether
//! they are NULL, in which case the lanes hold anything: they never decide what is read.
//!
//! An instruction that cannot give the right result in its lanes says so by a *suspicion*, a bit; where it is set the code
//! leaves the row to the interpreter, which computes it anew, and knows the error if it is one.

use crate::ir::{BITS_MAX, ComparedBy, Instruction, NARROW_BITS, ValueKind};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;

/// A value without its NULL.
#[derive(Clone, Copy)]
pub(crate) enum Lanes {
    /// 64 bits with a sign.
    Narrow(Value),
    /// 128 bits with a sign.
    Wide(Value),
    Double(Value),
    /// The low word, and the high one if there is one.
    Text(Value, Option<Value>),
    /// Is-true, and is-false where it may be neither.
    Truth(Value, Option<Value>),
}

/// A value.
#[derive(Clone, Copy)]
pub(crate) struct Emitted {
    pub(crate) lanes: Lanes,
    /// Whether it is not NULL, in 8 bits; `None` if it never is, and for truth values.
    pub(crate) valid: Option<Value>,
}

impl Emitted {
    pub(crate) fn truth(is_true: Value, is_false: Option<Value>) -> Emitted {
        Emitted { lanes: Lanes::Truth(is_true, is_false), valid: None }
    }
}

/// Emits instructions on values.
pub(crate) struct Emitter<'a, 'b> {
    pub(crate) code: &'a mut FunctionBuilder<'b>,
    /// The instruction that comes out wrong on purpose, for the test that must find it.
    pub(crate) planted: Option<Planted>,
}

/// A fault in the backend that tests plant.
#[allow(dead_code, reason = "only tests plant faults")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planted {
    /// `<` is `<=`.
    LessIsLessOrEqual,
    /// Sums of 64 bits do not look at overflow.
    NoOverflow,
    /// NULL counts as false in `or`.
    NullIsFalse,
    /// The bit of validity is that of the row before.
    StaleValidity,
    /// A new group is not found again.
    LostGroup,
    /// Rows are selected whatever their condition says.
    SelectedAnyway,
}

/// A result, and a bit that is set where it is not to be used.
type Suspect = (Lanes, Option<Value>);

impl Emitter<'_, '_> {
    /// Whether the value is not NULL; `None` if it never is.
    pub(crate) fn valid(&mut self, value: Emitted) -> Option<Value> {
        match value.lanes {
            Lanes::Truth(is_true, Some(is_false)) => Some(self.code.ins().bor(is_true, is_false)),
            _ => value.valid,
        }
    }

    /// Both bits, if there are two.
    pub(crate) fn both(&mut self, left: Option<Value>, right: Option<Value>) -> Option<Value> {
        match (left, right) {
            (Some(left), Some(right)) => Some(self.code.ins().band(left, right)),
            (one, other) => one.or(other),
        }
    }

    fn not(&mut self, bit: Value) -> Value {
        self.code.ins().bxor_imm_s(bit, 1)
    }

    fn is_false(&mut self, is_true: Value, is_false: Option<Value>) -> Value {
        match is_false {
            Some(is_false) => is_false,
            None => self.not(is_true),
        }
    }

    /// A number in 128 bits.
    pub(crate) fn wide(&mut self, lanes: Lanes) -> Value {
        match lanes {
            Lanes::Narrow(value) => self.code.ins().sextend(types::I128, value),
            Lanes::Wide(value) | Lanes::Double(value) | Lanes::Text(value, _) | Lanes::Truth(value, _) => {
                value
            }
        }
    }

    pub(crate) fn logic(&mut self, operation: Instruction, left: Emitted, right: Emitted) -> Emitted {
        let (Lanes::Truth(left_true, left_false), Lanes::Truth(right_true, right_false)) =
            (left.lanes, right.lanes)
        else {
            return left;
        };
        let is_and = matches!(operation, Instruction::And(..));
        let join = |emitter: &mut Self, is_and: bool, left, right| match is_and {
            true => emitter.code.ins().band(left, right),
            false => emitter.code.ins().bor(left, right),
        };
        let is_true = join(self, is_and, left_true, right_true);
        if left_false.is_none() && right_false.is_none() {
            return Emitted::truth(is_true, None);
        }
        if !is_and && self.planted == Some(Planted::NullIsFalse) {
            return Emitted::truth(is_true, None);
        }
        let (left, right) = (self.is_false(left_true, left_false), self.is_false(right_true, right_false));
        let is_false = join(self, !is_and, left, right);
        Emitted::truth(is_true, Some(is_false))
    }

    pub(crate) fn negated(&mut self, operand: Emitted) -> Emitted {
        match operand.lanes {
            Lanes::Truth(is_true, Some(is_false)) => Emitted::truth(is_false, Some(is_true)),
            Lanes::Truth(is_true, None) => {
                let is_false = self.not(is_true);
                Emitted::truth(is_false, None)
            }
            _ => operand,
        }
    }

    pub(crate) fn is_null(&mut self, operand: Emitted) -> Emitted {
        let is_null = match self.valid(operand) {
            Some(valid) => self.not(valid),
            None => self.code.ins().iconst(types::I8, 0),
        };
        Emitted::truth(is_null, None)
    }

    pub(crate) fn compare(&mut self, relation: ComparedBy, left: Emitted, right: Emitted) -> Emitted {
        let (left_valid, right_valid) = (self.valid(left), self.valid(right));
        let valid = self.both(left_valid, right_valid);
        let relation = match (relation, self.planted) {
            (ComparedBy::Less, Some(Planted::LessIsLessOrEqual)) => ComparedBy::LessOrEqual,
            (relation, _) => relation,
        };
        let holds = match (left.lanes, right.lanes) {
            (Lanes::Double(left), Lanes::Double(right)) => self.doubles(relation, left, right),
            (Lanes::Text(left, left_high), Lanes::Text(right, right_high)) => {
                self.texts(relation, (left, left_high), (right, right_high))
            }
            (Lanes::Truth(left, _), Lanes::Truth(right, _)) => {
                self.code.ins().icmp(unsigned(relation), left, right)
            }
            (Lanes::Narrow(left), Lanes::Narrow(right)) => {
                self.code.ins().icmp(signed(relation), left, right)
            }
            (left, right) => {
                let (left, right) = (self.wide(left), self.wide(right));
                self.code.ins().icmp(signed(relation), left, right)
            }
        };
        match valid {
            None => Emitted::truth(holds, None),
            Some(valid) => {
                let fails = self.not(holds);
                let (is_true, is_false) =
                    (self.code.ins().band(holds, valid), self.code.ins().band(fails, valid));
                Emitted::truth(is_true, Some(is_false))
            }
        }
    }

    fn texts(
        &mut self,
        relation: ComparedBy,
        left: (Value, Option<Value>),
        right: (Value, Option<Value>),
    ) -> Value {
        let low = self.code.ins().bxor(left.0, right.0);
        let high = match (left.1, right.1) {
            (Some(left), Some(right)) => Some(self.code.ins().bxor(left, right)),
            // The other has zeros there.
            (one, other) => one.or(other),
        };
        let differs = match high {
            Some(high) => self.code.ins().bor(low, high),
            None => low,
        };
        let code = if relation == ComparedBy::Equal { IntCC::Equal } else { IntCC::NotEqual };
        self.code.ins().icmp_imm_s(code, differs, 0)
    }

    /// In PostgreSQL's order: NaN equals itself and is greater than all others.
    fn doubles(&mut self, relation: ComparedBy, left: Value, right: Value) -> Value {
        let (left, right) = match relation {
            ComparedBy::Greater | ComparedBy::LessOrEqual => (right, left),
            _ => (left, right),
        };
        let left_nan = self.code.ins().fcmp(FloatCC::Unordered, left, left);
        let right_nan = self.code.ins().fcmp(FloatCC::Unordered, right, right);
        match relation {
            ComparedBy::Equal | ComparedBy::Unequal => {
                let equal = self.code.ins().fcmp(FloatCC::Equal, left, right);
                let nans = self.code.ins().band(left_nan, right_nan);
                let equal = self.code.ins().bor(equal, nans);
                if relation == ComparedBy::Equal { equal } else { self.not(equal) }
            }
            _ => {
                let less = self.code.ins().fcmp(FloatCC::LessThan, left, right);
                let number = self.not(left_nan);
                let below_nan = self.code.ins().band(right_nan, number);
                let less = self.code.ins().bor(less, below_nan);
                match relation {
                    ComparedBy::Less | ComparedBy::Greater => less,
                    _ => self.not(less),
                }
            }
        }
    }

    /// Arithmetic: the result's lanes, and where they are not to be used. `wider`: the kind of the wider operand.
    pub(crate) fn arithmetic(
        &mut self,
        operation: Instruction,
        kind: ValueKind,
        wider: ValueKind,
        left: Lanes,
        right: Lanes,
    ) -> Suspect {
        match (left, right) {
            (Lanes::Double(left), Lanes::Double(right)) => self.double(operation, left, right),
            _ if matches!(kind, ValueKind::Decimal { .. }) => {
                self.decimal(operation, kind, wider, left, right)
            }
            (Lanes::Narrow(left), Lanes::Narrow(right)) => self.integer(operation, kind, left, right),
            (left, _) => (left, None),
        }
    }

    fn integer(&mut self, operation: Instruction, kind: ValueKind, left: Value, right: Value) -> Suspect {
        if matches!(operation, Instruction::Divide(..)) {
            return self.quotient(left, right);
        }
        // Results of 32 bits do not overflow 64.
        if kind == ValueKind::Int32 {
            let result = match operation {
                Instruction::Add(..) => self.code.ins().iadd(left, right),
                Instruction::Subtract(..) => self.code.ins().isub(left, right),
                _ => self.code.ins().imul(left, right),
            };
            let low = self.code.ins().ireduce(types::I32, result);
            let again = self.code.ins().sextend(types::I64, low);
            let suspect = self.code.ins().icmp(IntCC::NotEqual, again, result);
            return (Lanes::Narrow(result), Some(suspect));
        }
        let (result, overflow) = match operation {
            Instruction::Add(..) => self.code.ins().sadd_overflow(left, right),
            Instruction::Subtract(..) => self.code.ins().ssub_overflow(left, right),
            _ => self.code.ins().smul_overflow(left, right),
        };
        let checked = self.planted != Some(Planted::NoOverflow);
        (Lanes::Narrow(result), checked.then_some(overflow))
    }

    /// Dividing by 0 and by -1, which may overflow, is left to the interpreter; the processor divides by 1 then.
    fn quotient(&mut self, left: Value, right: Value) -> Suspect {
        let next = self.code.ins().iadd_imm_s(right, 1);
        let suspect = self.code.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, next, 1);
        let one = self.code.ins().iconst(types::I64, 1);
        let divisor = self.code.ins().select(suspect, one, right);
        (Lanes::Narrow(self.code.ins().sdiv(left, divisor)), Some(suspect))
    }

    fn decimal(
        &mut self,
        operation: Instruction,
        kind: ValueKind,
        wider: ValueKind,
        left: Lanes,
        right: Lanes,
    ) -> Suspect {
        if matches!(operation, Instruction::Multiply(..)) {
            return self.product(kind, left, right);
        }
        let is_sum = matches!(operation, Instruction::Add(..));
        if kind.bits() <= NARROW_BITS
            && let (Lanes::Narrow(left), Lanes::Narrow(right)) = (left, right)
        {
            let result = match is_sum {
                true => self.code.ins().iadd(left, right),
                false => self.code.ins().isub(left, right),
            };
            return (Lanes::Narrow(result), None);
        }
        let (left, right) = (self.wide(left), self.wide(right));
        let may_overflow = wider.bits() >= BITS_MAX;
        let (result, overflow) = match (may_overflow, is_sum) {
            (false, true) => (self.code.ins().iadd(left, right), None),
            (false, false) => (self.code.ins().isub(left, right), None),
            (true, true) => {
                let (result, overflow) = self.code.ins().sadd_overflow(left, right);
                (result, Some(overflow))
            }
            (true, false) => {
                let (result, overflow) = self.code.ins().ssub_overflow(left, right);
                (result, Some(overflow))
            }
        };
        (Lanes::Wide(result), overflow)
    }

    /// A product of factors of 64 bits each, which 128 bits hold. Larger ones are left to the interpreter.
    fn product(&mut self, kind: ValueKind, left: Lanes, right: Lanes) -> Suspect {
        let ((left, left_large), (right, right_large)) = (self.factor(left), self.factor(right));
        if kind.bits() <= NARROW_BITS {
            return (Lanes::Narrow(self.code.ins().imul(left, right)), None);
        }
        let (wide_left, wide_right) =
            (self.code.ins().sextend(types::I128, left), self.code.ins().sextend(types::I128, right));
        let result = self.code.ins().imul(wide_left, wide_right);
        let suspect = match (left_large, right_large) {
            (Some(left), Some(right)) => Some(self.code.ins().bor(left, right)),
            (one, other) => one.or(other),
        };
        (Lanes::Wide(result), suspect)
    }

    /// A factor in 64 bits, and whether it does not fit them.
    fn factor(&mut self, lanes: Lanes) -> (Value, Option<Value>) {
        match lanes {
            Lanes::Wide(value) => {
                let (low, high) = self.code.ins().isplit(value);
                let sign = self.code.ins().sshr_imm_u(low, 63);
                (low, Some(self.code.ins().icmp(IntCC::NotEqual, sign, high)))
            }
            Lanes::Narrow(value) | Lanes::Double(value) | Lanes::Text(value, _) | Lanes::Truth(value, _) => {
                (value, None)
            }
        }
    }

    /// What is not finite, or zero although it may not be, is left to the interpreter.
    fn double(&mut self, operation: Instruction, left: Value, right: Value) -> Suspect {
        let result = match operation {
            Instruction::Add(..) => self.code.ins().fadd(left, right),
            Instruction::Subtract(..) => self.code.ins().fsub(left, right),
            Instruction::Multiply(..) => self.code.ins().fmul(left, right),
            _ => self.code.ins().fdiv(left, right),
        };
        let magnitude = self.code.ins().fabs(result);
        let infinity = self.code.ins().f64const(f64::INFINITY);
        let finite = self.code.ins().fcmp(FloatCC::LessThan, magnitude, infinity);
        let not_finite = self.not(finite);
        if matches!(operation, Instruction::Add(..) | Instruction::Subtract(..)) {
            return (Lanes::Double(result), Some(not_finite));
        }
        let zero = self.code.ins().f64const(0.0);
        let vanished = self.code.ins().fcmp(FloatCC::Equal, result, zero);
        let had_left = self.code.ins().fcmp(FloatCC::NotEqual, left, zero);
        let mut lost = self.code.ins().band(vanished, had_left);
        if matches!(operation, Instruction::Multiply(..)) {
            let had_right = self.code.ins().fcmp(FloatCC::NotEqual, right, zero);
            lost = self.code.ins().band(lost, had_right);
        }
        (Lanes::Double(result), Some(self.code.ins().bor(not_finite, lost)))
    }

    /// The words of a value, the lowest first, all zero if it is NULL.
    pub(crate) fn words(&mut self, kind: ValueKind, value: Emitted) -> Vec<Value> {
        let words = match value.lanes {
            Lanes::Narrow(word) => vec![word],
            Lanes::Wide(word) => {
                let (low, high) = self.code.ins().isplit(word);
                vec![low, high]
            }
            Lanes::Double(word) => vec![word],
            Lanes::Text(low, None) => vec![low],
            Lanes::Text(low, Some(high)) => vec![low, high],
            Lanes::Truth(is_true, _) => vec![self.code.ins().uextend(types::I64, is_true)],
        };
        debug_assert_eq!(words.len(), kind.words());
        match value.valid {
            None => words,
            Some(valid) => {
                let zero = self.code.ins().iconst(types::I64, 0);
                words.into_iter().map(|word| self.code.ins().select(valid, word, zero)).collect()
            }
        }
    }
}

fn signed(relation: ComparedBy) -> IntCC {
    match relation {
        ComparedBy::Equal => IntCC::Equal,
        ComparedBy::Unequal => IntCC::NotEqual,
        ComparedBy::Less => IntCC::SignedLessThan,
        ComparedBy::LessOrEqual => IntCC::SignedLessThanOrEqual,
        ComparedBy::Greater => IntCC::SignedGreaterThan,
        ComparedBy::GreaterOrEqual => IntCC::SignedGreaterThanOrEqual,
    }
}

fn unsigned(relation: ComparedBy) -> IntCC {
    match relation {
        ComparedBy::Less => IntCC::UnsignedLessThan,
        ComparedBy::LessOrEqual => IntCC::UnsignedLessThanOrEqual,
        ComparedBy::Greater => IntCC::UnsignedGreaterThan,
        ComparedBy::GreaterOrEqual => IntCC::UnsignedGreaterThanOrEqual,
        equality => signed(equality),
    }
}
