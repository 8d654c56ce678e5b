//! Programs run over texts: a deterministic automaton that is made while it runs.
//!
//! A state is the set of places where a program may be, with what stands before them. It is entered in a table when it is first
//! met, with the states that follow on each color; from then on a character costs one look into the table. Where the table
//! would get too large it is begun anew.
//!
//! Whether a match ends at a place may depend on the character behind it (`$`, `\M`), so it is the *next* character, or
//! the text's end, that tells: an entry of the table has the next state, and whether a match ended before.

use super::characters::{CharacterKind, Colors};
use super::program::Instruction;
use super::syntax::Assertion;
use ankerdb_engine::{Interrupt, Result};
use std::collections::HashMap;

/// Bytes of a table above which it is begun anew.
const TABLE_BYTES_MAX: usize = 1 << 18;
/// Steps between two looks at the interrupt.
const STEPS_BETWEEN_CHECKS: usize = 1 << 16;
/// An entry that is not computed yet.
const UNKNOWN: u32 = u32::MAX;
/// The bit of an entry that tells that a match ended before.
const ENDED: u32 = 1 << 31;
/// The state from which nothing matches any more.
const DEAD: u32 = 0;

/// A text that is searched.
pub(super) struct Subject<'t> {
    pub text: &'t str,
    interrupt: &'t Interrupt,
    steps: usize,
}

impl<'t> Subject<'t> {
    pub(super) fn new(text: &'t str, interrupt: &'t Interrupt) -> Subject<'t> {
        Subject { text, interrupt, steps: 0 }
    }

    /// Counts steps, and looks at the interrupt after many.
    fn spend(&mut self, steps: usize) -> Result<()> {
        self.steps += steps;
        if self.steps >= STEPS_BETWEEN_CHECKS {
            self.steps = 0;
            self.interrupt.check()?;
        }
        Ok(())
    }

    /// The place behind the character at this place.
    pub(super) fn behind(&self, place: usize) -> usize {
        place + self.text[place..].chars().next().map_or(1, char::len_utf8)
    }
}

/// A program, and the table made of it so far.
#[derive(Debug)]
pub(super) struct Automaton {
    steps: Vec<Instruction>,
    /// Whether a match may begin at every place, not only where the search does.
    is_floating: bool,
    has_assertions: bool,
    states: Vec<State>,
    numbers: HashMap<State, u32>,
    /// An entry for each state and color; the last color stands for the text's end.
    table: Vec<u32>,
    bytes: usize,
    /// How often the table was begun anew.
    tables: u64,
    /// The round in which each place was met last.
    met: Vec<u32>,
    round: u32,
}

/// Where the program may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    places: Box<[u32]>,
    before: CharacterKind,
}

impl Automaton {
    pub(super) fn new(steps: Vec<Instruction>, is_floating: bool) -> Automaton {
        let has_assertions = steps.iter().any(|step| matches!(step, Instruction::Assert(_)));
        Automaton {
            met: vec![0; steps.len()],
            steps,
            is_floating,
            has_assertions,
            states: Vec::new(),
            numbers: HashMap::new(),
            table: Vec::new(),
            bytes: 0,
            tables: 0,
            round: 0,
        }
    }

    /// Where the longest match that begins at `from` ends, at `limit` at most.
    pub(super) fn longest(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
        limit: usize,
    ) -> Result<Option<usize>> {
        let mut last = None;
        self.run(subject, colors, from, limit, |place, has_ended, _| {
            last = if has_ended { Some(place) } else { last };
            false
        })?;
        Ok(last)
    }

    /// Where the shortest match that begins at `from` ends, from `least` to `limit`.
    pub(super) fn shortest(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
        (least, limit): (usize, usize),
    ) -> Result<Option<usize>> {
        let mut first = None;
        self.run(subject, colors, from, limit, |place, has_ended, _| {
            first = (has_ended && place >= least).then_some(place);
            first.is_some()
        })?;
        Ok(first)
    }

    /// Whether there is a match from exactly here to exactly there.
    pub(super) fn spans(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
        to: usize,
    ) -> Result<bool> {
        let mut is_match = false;
        self.run(subject, colors, from, to, |place, has_ended, _| {
            is_match = has_ended && place == to;
            false
        })?;
        Ok(is_match)
    }

    /// Between which places the first match begins: of all matches the one that ends first ends at the second, and none begins
    /// before the first.
    pub(super) fn floating(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
    ) -> Result<Option<(usize, usize)>> {
        let (mut cold, mut close) = (from, None);
        let limit = subject.text.len();
        self.run(subject, colors, from, limit, |place, has_ended, is_cold| {
            cold = if is_cold { place } else { cold };
            close = has_ended.then_some(place);
            has_ended
        })?;
        Ok(close.map(|close| (cold, close)))
    }

    /// Where the first of all matches begins that begin at `from` or behind it, in time that is the product of the lengths of program
    /// and text. The ways through the program are followed with the places at which they began.
    pub(super) fn leftmost(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
    ) -> Result<Option<usize>> {
        let text = subject.text;
        let mut before = text[..from].chars().next_back().map_or(CharacterKind::Edge, CharacterKind::of);
        let mut rest = text[from..].chars();
        let mut first: Option<usize> = None;
        // Places in the program, in the order in which their matches began.
        let (mut ways, mut next, mut open) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let place = text.len() - rest.as_str().len();
            let character = rest.next();
            let color = character.map_or(colors.count() as u32, |character| colors.of(character));
            let after = character.map_or(CharacterKind::Edge, CharacterKind::of);
            if first.is_none() {
                ways.push((0, place));
            }
            self.begin_round();
            subject.spend(ways.len() + 1)?;
            for &(way, begun) in &ways {
                open.push(way);
                while let Some(step) = self.pass(&mut open, (before, after)) {
                    match self.steps[step] {
                        Instruction::Take(set) if colors.is_member(set, color) => {
                            next.push((step + 1, begun))
                        }
                        Instruction::Done => first = Some(first.map_or(begun, |first| first.min(begun))),
                        _ => {}
                    }
                }
            }
            if let Some(first) = first {
                next.retain(|&(_, begun)| begun < first);
            }
            if character.is_none() || (first.is_some() && next.is_empty()) {
                return Ok(first);
            }
            (ways, next) = (std::mem::take(&mut next), ways);
            next.clear();
            before = after;
        }
    }

    /// Marks all steps as not met.
    fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.met.fill(0);
            self.round = 1;
        }
    }

    /// The next step of those that are open that was not met before and takes a character or ends the program; steps before it that do
    /// neither are passed.
    fn pass(
        &mut self,
        open: &mut Vec<usize>,
        (before, after): (CharacterKind, CharacterKind),
    ) -> Option<usize> {
        while let Some(step) = open.pop() {
            if std::mem::replace(&mut self.met[step], self.round) == self.round {
                continue;
            }
            match self.steps[step] {
                Instruction::Split(one, other) => open.extend([one, other]),
                Instruction::Jump(target) => open.push(target),
                Instruction::Assert(assertion) if holds(assertion, before, after) => open.push(step + 1),
                Instruction::Assert(_) => {}
                Instruction::Take(_) | Instruction::Done => return Some(step),
            }
        }
        None
    }

    /// Runs from a place to a limit at most. `visit` is given each place, whether a match ends there, and whether none has begun
    /// before it; it says whether to stop.
    fn run(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        from: usize,
        limit: usize,
        mut visit: impl FnMut(usize, bool, bool) -> bool,
    ) -> Result<()> {
        let text = subject.text;
        let before = match text[..from].chars().next_back() {
            _ if !self.has_assertions => CharacterKind::Other,
            Some(character) => CharacterKind::of(character),
            None => CharacterKind::Edge,
        };
        let mut state = self.number(State { places: Box::new([0]), before }, colors);
        let mut rest = text[from..].chars();
        let mut unspent = 0;
        loop {
            let place = text.len() - rest.as_str().len();
            let color = rest.next().map_or(colors.count() as u32, |character| colors.of(character));
            // Before a table is begun anew, in which the state is no more.
            let is_cold = self.is_floating && *self.states[state as usize].places == [0];
            let entry = self.table[state as usize * (colors.count() + 1) + color as usize];
            let entry = match entry {
                UNKNOWN => {
                    subject.spend(self.steps.len())?;
                    self.follow(state, color, colors)
                }
                known => known,
            };
            if visit(place, entry & ENDED != 0, is_cold) || place >= limit || entry & !ENDED == DEAD {
                return subject.spend(unspent);
            }
            state = entry & !ENDED;
            unspent += 1;
            if unspent == STEPS_BETWEEN_CHECKS / 16 {
                subject.spend(unspent)?;
                unspent = 0;
            }
        }
    }

    /// The state's number, which it gets if it has none.
    fn number(&mut self, state: State, colors: &Colors) -> u32 {
        if self.states.is_empty() || self.bytes > TABLE_BYTES_MAX {
            self.states.clear();
            self.numbers.clear();
            self.table.clear();
            self.bytes = 0;
            self.tables += 1;
            self.enter(State { places: Box::default(), before: CharacterKind::Other }, colors);
        }
        match self.numbers.get(&state) {
            Some(number) => *number,
            None => self.enter(state, colors),
        }
    }

    fn enter(&mut self, state: State, colors: &Colors) -> u32 {
        let number = self.states.len() as u32;
        let width = colors.count() + 1;
        self.table.resize(self.table.len() + width, if state.places.is_empty() { DEAD } else { UNKNOWN });
        self.bytes += 4 * width + 2 * size_of::<State>() + 8 * state.places.len();
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        number
    }

    /// Computes the entry for a color in a state.
    fn follow(&mut self, state: u32, color: u32, colors: &Colors) -> u32 {
        let State { places, before } = self.states[state as usize].clone();
        let after = if self.has_assertions { colors.kind(color) } else { CharacterKind::Other };
        self.begin_round();
        let mut open: Vec<usize> = places.iter().map(|&place| place as usize).collect();
        let mut next: Vec<u32> = Vec::new();
        let mut has_ended = false;
        while let Some(step) = self.pass(&mut open, (before, after)) {
            match self.steps[step] {
                Instruction::Take(set) if colors.is_member(set, color) => next.push(step as u32 + 1),
                Instruction::Done => has_ended = true,
                _ => {}
            }
        }
        let is_text_end = color as usize == colors.count();
        if self.is_floating && !is_text_end {
            next.push(0);
        }
        next.sort_unstable();
        next.dedup();
        let width = colors.count() + 1;
        let begun = self.tables;
        let target = match next.is_empty() {
            true => DEAD,
            false => self.number(State { places: next.into(), before: after }, colors),
        };
        let entry = target | if has_ended { ENDED } else { 0 };
        // Not into a table that was begun meanwhile, in which the state is no more.
        if self.tables == begun {
            self.table[state as usize * width + color as usize] = entry;
        }
        entry
    }
}

fn holds(assertion: Assertion, before: CharacterKind, after: CharacterKind) -> bool {
    let (word_before, word_after) = (before == CharacterKind::Word, after == CharacterKind::Word);
    match assertion {
        Assertion::TextStart => before == CharacterKind::Edge,
        Assertion::TextEnd => after == CharacterKind::Edge,
        Assertion::LineStart => matches!(before, CharacterKind::Edge | CharacterKind::Newline),
        Assertion::LineEnd => matches!(after, CharacterKind::Edge | CharacterKind::Newline),
        Assertion::WordStart => !word_before && word_after,
        Assertion::WordEnd => word_before && !word_after,
        Assertion::WordEdge => word_before != word_after,
        Assertion::NoWordEdge => word_before == word_after,
    }
}
