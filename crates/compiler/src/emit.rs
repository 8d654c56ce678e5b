//! A pipeline as one function in Cranelift's instructions.
//!
//! ```text
//!          start: addresses and parameters
//!            │
//!        ┌─► next row ──── no more ────────────────► leave DONE
//!        │   │
//!        │   steps ─── not kept ──► ┐
//!        │   │   └──── suspect ─────┼───────────────► leave LEFT      (the row has changed nothing)
//!        │   group's entry ── none, and no room ───► leave LEFT
//!        │   aggregates ── suspect ─┼───────────────► leave LEFT
//!        │   stores                 │                 (or the row's number behind those that are kept)
//!        └───┴──────────────────────┘
//! ```
//! The function calls nothing and has no tables beside its code. It reads what the frame names: a column below the row that the
//! frame ends at, parameters, the directory below its mask, entries that the directory names; it writes aggregates of such an
//! entry, a new one behind the last, up to the frame's limit, with its place of the directory, numbers of rows that are kept, of which there
//! are as many places as rows that it reads (where a list names the rows, it reads that up to the frame's end), and the frame's row and lengths. With checks of bounds each of these addresses is compared with the lengths in the frame first,
//! and the function leaves with `OUT_OF_BOUNDS` in place of an access beyond them.

use crate::frame::{self, at};
use crate::groups::{EntryLayout, SPREAD};
use crate::ir::{
    Instruction, NARROW_BITS, Pipeline, PipelineAggregate, PipelineStep, ValueKind, ValueNumber,
};
use crate::lanes::{Emitted, Emitter, Lanes, Planted};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Function, InstBuilder, MemFlagsData, Type, Value, types,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// How code is made.
#[derive(Clone, Copy)]
pub(crate) struct CodeOptions {
    pub(crate) checks_bounds: bool,
    pub(crate) planted: Option<Planted>,
    pub(crate) frontend: TargetFrontendConfig,
}

/// Nothing traps: addresses are the caller's promise, or checked.
const FLAGS: MemFlagsData = MemFlagsData::new().with_notrap();

/// Where a column's memory is.
#[derive(Clone, Copy)]
struct SlicePlace {
    values: Value,
    /// Of truth values.
    first_bit: Value,
    /// And the first bit, if there are NULLs.
    validity: Option<(Value, Value)>,
}

/// Makes the function of one pipeline.
pub(crate) struct FunctionEmitter<'a, 'b> {
    emitter: Emitter<'a, 'b>,
    pipeline: &'a Pipeline,
    layout: EntryLayout,
    options: CodeOptions,
    frame: Value,
    /// The row's number.
    row: Value,
    columns: Vec<SlicePlace>,
    values: Vec<Option<Emitted>>,
    leave: Block,
    next: Block,
    /// How many rows are kept before this one, in a pipeline that selects.
    count: Value,
}

/// Emits the function for batches whose columns have NULLs where `nulls` has a bit.
pub(crate) fn emit(
    pipeline: &Pipeline,
    nulls: u64,
    options: CodeOptions,
    function: &mut Function,
    context: &mut FunctionBuilderContext,
) {
    let pointer = types::I64;
    function.signature.params.push(AbiParam::new(pointer));
    function.signature.returns.push(AbiParam::new(types::I64));
    let mut code = FunctionBuilder::new(function, context);
    let start = code.create_block();
    code.append_block_params_for_function_params(start);
    code.switch_to_block(start);
    let frame = code.block_params(start)[0];
    let (head, body, next, leave) =
        (code.create_block(), code.create_block(), code.create_block(), code.create_block());
    code.set_cold_block(leave);
    let row = code.append_block_param(head, types::I64);
    let count = code.append_block_param(head, types::I64);
    let following_count = code.append_block_param(next, types::I64);
    let code_value = code.append_block_param(leave, types::I64);
    let emitter = Emitter { code: &mut code, planted: options.planted };
    let layout = EntryLayout::of(pipeline);
    let values = vec![None; pipeline.values.len()];
    let mut emission = FunctionEmitter {
        emitter,
        pipeline,
        layout,
        options,
        frame,
        row,
        columns: Vec::new(),
        values,
        leave,
        next,
        count,
    };
    let first = emission.load(types::I64, frame, at::ROW);
    let end = emission.load(types::I64, frame, at::END);
    let first_count = emission.load(types::I64, frame, at::SELECTED_ROWS);
    emission.places(nulls);
    emission.parameters();
    emission.jump(head, &[first, first_count]);
    emission.switch(head);
    let has_more = emission.code().ins().icmp(IntCC::UnsignedLessThan, row, end);
    let done = emission.word(frame::DONE);
    emission.code().ins().brif(has_more, body, &[], leave, &[BlockArg::Value(done)]);
    emission.switch(body);
    if pipeline.lists {
        emission.row = emission.listed(row);
    }
    let is_kept = emission.steps();
    let kept = match pipeline.selects {
        true => emission.select(is_kept),
        false => {
            emission.aggregate();
            count
        }
    };
    emission.jump(next, &[kept]);
    emission.switch(next);
    let following = emission.code().ins().iadd_imm_s(row, 1);
    emission.jump(head, &[following, following_count]);
    emission.switch(leave);
    emission.code().ins().store(FLAGS, row, frame, at::ROW);
    emission.code().ins().store(FLAGS, count, frame, at::SELECTED_ROWS);
    emission.code().ins().return_(&[code_value]);
    code.seal_all_blocks();
    code.finalize(options.frontend);
}

impl<'b> FunctionEmitter<'_, 'b> {
    fn code(&mut self) -> &mut FunctionBuilder<'b> {
        self.emitter.code
    }

    fn word(&mut self, word: u64) -> Value {
        self.code().ins().iconst(types::I64, word.cast_signed())
    }

    fn load(&mut self, of: Type, from: Value, offset: i32) -> Value {
        self.code().ins().load(of, FLAGS, from, offset)
    }

    fn jump(&mut self, block: Block, arguments: &[Value]) {
        let arguments: Vec<BlockArg> = arguments.iter().copied().map(BlockArg::Value).collect();
        self.code().ins().jump(block, &arguments);
    }

    fn switch(&mut self, block: Block) {
        self.code().switch_to_block(block);
    }

    /// Leaves where the bit is set, and goes on elsewhere.
    fn leave_if(&mut self, bit: Value, status: u64) {
        let (status, leave) = (self.word(status), self.leave);
        let on = self.code().create_block();
        self.code().ins().brif(bit, leave, &[BlockArg::Value(status)], on, &[]);
        self.switch(on);
    }

    /// Leaves unless `offset + bytes` is within a length that the field of a structure holds.
    fn check(&mut self, offset: Value, bytes: u64, lengths: Value, field: i32) {
        if !self.options.checks_bounds {
            return;
        }
        let length = self.load(types::I64, lengths, field);
        let end = self.code().ins().iadd_imm_u(offset, bytes.cast_signed());
        let beyond = self.code().ins().icmp(IntCC::UnsignedGreaterThan, end, length);
        self.leave_if(beyond, frame::OUT_OF_BOUNDS);
    }

    fn places(&mut self, nulls: u64) {
        let slices = self.load(types::I64, self.frame, at::COLUMNS);
        for number in 0..self.pipeline.columns.len() {
            let base = number as i32 * frame::COLUMN_BYTES;
            let values = self.load(types::I64, slices, base + at::VALUES);
            let first_bit = self.load(types::I64, slices, base + at::FIRST_BIT);
            let validity = (nulls >> number & 1 == 1).then(|| {
                let bits = self.load(types::I64, slices, base + at::VALIDITY);
                (bits, self.load(types::I64, slices, base + at::VALIDITY_FIRST))
            });
            self.columns.push(SlicePlace { values, first_bit, validity });
        }
    }

    /// The number of the row at a place of the list.
    fn listed(&mut self, place: Value) -> Value {
        let frame = self.frame;
        let list = self.load(types::I64, frame, at::LISTED);
        let offset = self.code().ins().ishl_imm_u(place, 2);
        self.check(offset, 4, frame, at::LISTED_BYTES);
        let address = self.code().ins().iadd(list, offset);
        self.code().ins().uload32(FLAGS, address, 0)
    }

    /// Constants are loaded once.
    fn parameters(&mut self) {
        let parameters = self.load(types::I64, self.frame, at::PARAMETERS);
        for (number, (operation, kind)) in self.pipeline.values.iter().enumerate() {
            let Instruction::Parameter(parameter) = *operation else { continue };
            let offset = i32::from(parameter) * 16;
            let lanes = self.stored(*kind, parameters, offset);
            self.values[number] = Some(Emitted { lanes, valid: None });
        }
    }

    /// A value that lies in words.
    fn stored(&mut self, kind: ValueKind, from: Value, offset: i32) -> Lanes {
        match kind {
            ValueKind::Bool => Lanes::Truth(self.load(types::I8, from, offset), None),
            ValueKind::Double => Lanes::Double(self.load(types::F64, from, offset)),
            ValueKind::Text { words } => {
                let low = self.load(types::I64, from, offset);
                Lanes::Text(low, (words == 2).then(|| self.load(types::I64, from, offset + 8)))
            }
            _ => {
                let low = self.load(types::I64, from, offset);
                match kind.words() {
                    1 => Lanes::Narrow(low),
                    _ => {
                        let high = self.load(types::I64, from, offset + 8);
                        Lanes::Wide(self.code().ins().iconcat(low, high))
                    }
                }
            }
        }
    }

    /// Computes the row, and goes on with the next one where it is not kept. What a selection decides last is the result: a bit that is added
    /// costs less than a branch that goes either way.
    fn steps(&mut self) -> Option<Value> {
        let (selects, last) = (self.pipeline.selects, self.pipeline.steps.len().wrapping_sub(1));
        for (number, step) in self.pipeline.steps.iter().enumerate() {
            match *step {
                PipelineStep::Compute(value) => {
                    if self.values[value.0 as usize].is_none() {
                        let emitted = self.compute(value);
                        self.values[value.0 as usize] = Some(emitted);
                    }
                }
                PipelineStep::Keep(condition) => {
                    let Lanes::Truth(is_true, _) = self.value(condition).lanes else { continue };
                    if selects && number == last {
                        return Some(is_true);
                    }
                    let (on, next, count) = (self.code().create_block(), self.next, self.count);
                    self.code().ins().brif(is_true, on, &[], next, &[BlockArg::Value(count)]);
                    self.switch(on);
                }
            }
        }
        None
    }

    /// Writes the row's number behind those that are kept; the result is how many there are then.
    fn select(&mut self, is_kept: Option<Value>) -> Value {
        let (frame, row, count) = (self.frame, self.row, self.count);
        let selected = self.load(types::I64, frame, at::SELECTED);
        let offset = self.code().ins().ishl_imm_u(count, 2);
        self.check(offset, 4, frame, at::SELECTED_BYTES);
        let place = self.code().ins().iadd(selected, offset);
        self.code().ins().istore32(FLAGS, row, place, 0);
        match is_kept {
            Some(is_kept) if self.emitter.planted != Some(Planted::SelectedAnyway) => {
                let one = self.code().ins().uextend(types::I64, is_kept);
                self.code().ins().iadd(count, one)
            }
            _ => self.code().ins().iadd_imm_u(count, 1),
        }
    }

    fn value(&self, operand: ValueNumber) -> Emitted {
        self.values[operand.0 as usize].expect("operands are computed before")
    }

    fn compute(&mut self, value: ValueNumber) -> Emitted {
        let (operation, kind) = self.pipeline.values[value.0 as usize];
        match operation {
            Instruction::Column(column) => self.column(usize::from(column)),
            Instruction::Parameter(_) => self.value(value),
            Instruction::Compare(relation, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                self.emitter.compare(relation, left, right)
            }
            Instruction::And(left, right) | Instruction::Or(left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                self.emitter.logic(operation, left, right)
            }
            Instruction::Not(operand) => self.emitter.negated(self.value(operand)),
            Instruction::IsNull(operand) => self.emitter.is_null(self.value(operand)),
            Instruction::Widen(operand) => self.value(operand),
            Instruction::Decimal(operand) => {
                let operand = self.value(operand);
                match kind.bits() {
                    ..=NARROW_BITS => operand,
                    _ => Emitted { lanes: Lanes::Wide(self.emitter.wide(operand.lanes)), ..operand },
                }
            }
            Instruction::Scale(operand, digits) => {
                let factor = self.word(10u64.pow(digits.into()));
                let factor = Emitted { lanes: Lanes::Narrow(factor), valid: None };
                let product = Instruction::Multiply(operand, operand);
                self.computed(product, kind, self.pipeline.kind(operand), self.value(operand), factor)
            }
            Instruction::Add(left, right)
            | Instruction::Subtract(left, right)
            | Instruction::Multiply(left, right)
            | Instruction::Divide(left, right) => {
                let other = self.pipeline.kind(left);
                let other = if other.bits() > self.pipeline.kind(right).bits() {
                    other
                } else {
                    self.pipeline.kind(right)
                };
                self.computed(operation, kind, other, self.value(left), self.value(right))
            }
        }
    }

    /// Arithmetic; leaves rows whose result is not to be used. `wider`: the kind of the wider operand.
    fn computed(
        &mut self,
        operation: Instruction,
        kind: ValueKind,
        wider: ValueKind,
        left: Emitted,
        right: Emitted,
    ) -> Emitted {
        let (left_valid, right_valid) = (self.emitter.valid(left), self.emitter.valid(right));
        let valid = self.emitter.both(left_valid, right_valid);
        let (lanes, suspect) = self.emitter.arithmetic(operation, kind, wider, left.lanes, right.lanes);
        if let Some(suspect) = suspect {
            let suspect = match valid {
                Some(valid) => self.code().ins().band(suspect, valid),
                None => suspect,
            };
            self.leave_if(suspect, frame::LEFT);
        }
        Emitted { lanes, valid }
    }

    /// A bit of the current row, in 8 bits.
    fn bit(&mut self, bits: Value, first: Value, lengths: (usize, i32)) -> Value {
        let row = self.row;
        let at_bit = self.code().ins().iadd(first, row);
        let byte = self.code().ins().ushr_imm_u(at_bit, 3);
        self.check_column(byte, 1, lengths);
        let address = self.code().ins().iadd(bits, byte);
        let byte = self.load(types::I8, address, 0);
        let shift = self.code().ins().band_imm_u(at_bit, 7);
        let shifted = self.code().ins().ushr(byte, shift);
        self.code().ins().band_imm_u(shifted, 1)
    }

    fn check_column(&mut self, offset: Value, bytes: u64, (column, field): (usize, i32)) {
        if self.options.checks_bounds {
            let slices = self.load(types::I64, self.frame, at::COLUMNS);
            self.check(offset, bytes, slices, column as i32 * frame::COLUMN_BYTES + field);
        }
    }

    fn column(&mut self, column: usize) -> Emitted {
        let (declared, place) = (self.pipeline.columns[column], self.columns[column]);
        let valid = place.validity.map(|(bits, first)| {
            let first = match self.emitter.planted {
                Some(Planted::StaleValidity) => {
                    let row = self.row;
                    let is_later = self.code().ins().icmp_imm_u(IntCC::NotEqual, row, 0);
                    let one = self.code().ins().uextend(types::I64, is_later);
                    self.code().ins().isub(first, one)
                }
                _ => first,
            };
            self.bit(bits, first, (column, at::VALIDITY_BYTES))
        });
        if declared.kind == ValueKind::Bool {
            let value = self.bit(place.values, place.first_bit, (column, at::VALUES_BYTES));
            return match valid {
                None => Emitted::truth(value, None),
                Some(valid) => {
                    let is_true = self.code().ins().band(value, valid);
                    Emitted::truth(is_true, Some(self.code().ins().bxor(valid, is_true)))
                }
            };
        }
        let row = self.row;
        let offset = self.code().ins().imul_imm_u(row, i64::from(declared.bytes));
        self.check_column(offset, declared.bytes.into(), (column, at::VALUES_BYTES));
        let address = self.code().ins().iadd(place.values, offset);
        let lanes = match (declared.kind, declared.bytes) {
            (_, 4) => Lanes::Narrow(self.code().ins().sload32(FLAGS, address, 0)),
            (kind, _) => self.stored(kind, address, 0),
        };
        Emitted { lanes, valid }
    }

    /// Adds the row to its group.
    fn aggregate(&mut self) {
        let entry = match self.layout.keys.is_empty() {
            true => self.load(types::I64, self.frame, at::ENTRIES),
            false => self.group(),
        };
        let mut stores: Vec<(Value, usize)> = Vec::new();
        let mut suspect: Option<Value> = None;
        for (number, aggregate) in self.pipeline.aggregates.iter().enumerate() {
            let place = self.layout.aggregates[number];
            let found = self.updated(*aggregate, entry, place, &mut stores);
            suspect = match (suspect, found) {
                (Some(one), Some(other)) => Some(self.code().ins().bor(one, other)),
                (one, other) => one.or(other),
            };
        }
        if let Some(suspect) = suspect {
            self.leave_if(suspect, frame::LEFT);
        }
        for (word, place) in stores {
            self.code().ins().store(FLAGS, word, entry, place as i32 * 8);
        }
    }

    /// The new words of an aggregate, and whether they are not to be used.
    fn updated(
        &mut self,
        aggregate: PipelineAggregate,
        entry: Value,
        place: usize,
        stores: &mut Vec<(Value, usize)>,
    ) -> Option<Value> {
        let offset = place as i32 * 8;
        let operand = aggregate.operand().map(|operand| (self.value(operand), self.pipeline.kind(operand)));
        let valid = operand.and_then(|(value, _)| self.emitter.valid(value));
        match (aggregate, operand) {
            (PipelineAggregate::Rows | PipelineAggregate::Count(_), _) | (_, None) => {
                let known = self.load(types::I64, entry, offset);
                let more = match valid {
                    None => self.code().ins().iadd_imm_u(known, 1),
                    Some(valid) => {
                        let one = self.code().ins().uextend(types::I64, valid);
                        self.code().ins().iadd(known, one)
                    }
                };
                stores.push((more, place));
                None
            }
            (PipelineAggregate::Sum(_), Some((value, kind))) => {
                let mut added = self.emitter.wide(value.lanes);
                if let Some(valid) = valid {
                    let zero = self.word(0);
                    let zero = self.code().ins().sextend(types::I128, zero);
                    added = self.code().ins().select(valid, added, zero);
                }
                let (low, high) =
                    (self.load(types::I64, entry, offset), self.load(types::I64, entry, offset + 8));
                let known = self.code().ins().iconcat(low, high);
                // 2^63 values of 63 bits fit.
                let (sum, suspect) = match kind.bits() {
                    ..=NARROW_BITS => (self.code().ins().iadd(known, added), None),
                    _ => {
                        let (sum, overflow) = self.code().ins().sadd_overflow(known, added);
                        (sum, Some(overflow))
                    }
                };
                let (low, high) = self.code().ins().isplit(sum);
                stores.extend([(low, place), (high, place + 1)]);
                suspect
            }
            (PipelineAggregate::Min(_) | PipelineAggregate::Max(_), Some((value, kind))) => {
                self.extreme(aggregate, (value, kind, valid), entry, place, stores);
                None
            }
        }
    }

    fn extreme(
        &mut self,
        aggregate: PipelineAggregate,
        (value, kind, valid): (Emitted, ValueKind, Option<Value>),
        entry: Value,
        place: usize,
        stores: &mut Vec<(Value, usize)>,
    ) {
        let offset = place as i32 * 8;
        let has_one = self.load(types::I64, entry, offset);
        let known = self.stored(kind, entry, offset + 8);
        let condition = match aggregate {
            PipelineAggregate::Min(_) => IntCC::SignedLessThan,
            _ => IntCC::SignedGreaterThan,
        };
        let beyond = match (value.lanes, known) {
            (Lanes::Narrow(value), Lanes::Narrow(known)) => self.code().ins().icmp(condition, value, known),
            (value, known) => {
                let (value, known) = (self.emitter.wide(value), self.emitter.wide(known));
                self.code().ins().icmp(condition, value, known)
            }
        };
        let is_first = self.code().ins().icmp_imm_u(IntCC::Equal, has_one, 0);
        let mut taken = self.code().ins().bor(beyond, is_first);
        let mut has_more = self.word(1);
        if let Some(valid) = valid {
            taken = self.code().ins().band(taken, valid);
            let one = self.code().ins().uextend(types::I64, valid);
            has_more = self.code().ins().bor(has_one, one);
        }
        stores.push((has_more, place));
        let new = self.emitter.words(kind, Emitted { valid: None, ..value });
        for (at, word) in new.into_iter().enumerate() {
            let known = self.load(types::I64, entry, offset + 8 + at as i32 * 8);
            let word = self.code().ins().select(taken, word, known);
            stores.push((word, place + 1 + at));
        }
    }

    /// The words of the row's keys as an entry begins with them: which are NULL, and then all.
    fn key_words(&mut self) -> Vec<Value> {
        let mut nulls = self.word(0);
        let mut words = Vec::new();
        for (at, &key) in self.pipeline.keys.iter().enumerate() {
            let (value, kind) = (self.value(key), self.pipeline.kind(key));
            if let Some(valid) = self.emitter.valid(value) {
                let is_null = self.code().ins().bxor_imm_u(valid, 1);
                let is_null = self.code().ins().uextend(types::I64, is_null);
                let bit = self.code().ins().ishl_imm_u(is_null, at as i64);
                nulls = self.code().ins().bor(nulls, bit);
            }
            words.extend(self.emitter.words(kind, value));
        }
        words.insert(0, nulls);
        words
    }

    /// The address of the row's group, which is made where there is none; leaves where there is no room for it.
    fn group(&mut self) -> Value {
        let words = self.key_words();
        let mut hash = self.word(0);
        for &word in &words {
            let mixed = self.code().ins().bxor(hash, word);
            let spread = self.word(SPREAD);
            let product = self.code().ins().imul(mixed, spread);
            let high = self.code().ins().ushr_imm_u(product, 32);
            hash = self.code().ins().bxor(product, high);
        }
        let (directory, mask) =
            (self.load(types::I64, self.frame, at::DIRECTORY), self.load(types::I64, self.frame, at::MASK));
        let entries = self.load(types::I64, self.frame, at::ENTRIES);
        let [probe, free, taken, other, found] = std::array::from_fn(|_| self.code().create_block());
        let place = self.code().append_block_param(probe, types::I64);
        let group = self.code().append_block_param(found, types::I64);
        self.jump(probe, &[hash]);
        self.switch(probe);
        let masked = self.code().ins().band(place, mask);
        let offset = self.code().ins().ishl_imm_u(masked, 2);
        let address = self.code().ins().iadd(directory, offset);
        let number = self.code().ins().uload32(FLAGS, address, 0);
        let is_free = self.code().ins().icmp_imm_u(IntCC::Equal, number, 0);
        self.code().ins().brif(is_free, free, &[], taken, &[]);
        self.switch(free);
        let made = self.made(entries, &words, address);
        self.jump(found, &[made]);
        self.switch(taken);
        let entry_bytes = self.layout.words as u64 * 8;
        let before = self.code().ins().iadd_imm_s(number, -1);
        let offset = self.code().ins().imul_imm_u(before, entry_bytes.cast_signed());
        let frame = self.frame;
        self.check(offset, entry_bytes, frame, at::ENTRIES_BYTES);
        let entry = self.code().ins().iadd(entries, offset);
        let mut differs = self.word(0);
        for (at, &word) in words.iter().enumerate() {
            let known = self.load(types::I64, entry, at as i32 * 8);
            let difference = self.code().ins().bxor(known, word);
            differs = self.code().ins().bor(differs, difference);
        }
        self.code().ins().brif(differs, other, &[], found, &[BlockArg::Value(entry)]);
        self.switch(other);
        let following = self.code().ins().iadd_imm_s(masked, 1);
        self.jump(probe, &[following]);
        self.switch(found);
        group
    }

    /// A new entry with these keys behind the last, whose number goes to a place of the directory; leaves where there is no room.
    fn made(&mut self, entries: Value, words: &[Value], place: Value) -> Value {
        let frame = self.frame;
        let used = self.load(types::I64, frame, at::ENTRIES_BYTES);
        let limit = self.load(types::I64, frame, at::ENTRIES_LIMIT);
        let entry_bytes = self.layout.words as i64 * 8;
        let end = self.code().ins().iadd_imm_u(used, entry_bytes);
        let has_no_room = self.code().ins().icmp(IntCC::UnsignedGreaterThan, end, limit);
        self.leave_if(has_no_room, frame::LEFT);
        let entry = self.code().ins().iadd(entries, used);
        for (at, &word) in words.iter().enumerate() {
            self.code().ins().store(FLAGS, word, entry, at as i32 * 8);
        }
        self.code().ins().store(FLAGS, end, frame, at::ENTRIES_BYTES);
        let groups = self.load(types::I64, frame, at::GROUPS);
        let number = self.code().ins().iadd_imm_u(groups, 1);
        self.code().ins().store(FLAGS, number, frame, at::GROUPS);
        if self.emitter.planted != Some(Planted::LostGroup) {
            self.code().ins().istore32(FLAGS, number, place, 0);
        }
        entry
    }
}
