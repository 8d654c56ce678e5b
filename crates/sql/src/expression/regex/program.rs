//! A part of a pattern as steps of a machine that follows all ways through it at once.
//! ```text
//! a(b|c)*     0 Take a   1 Split 2,7   2 Split 3,5   3 Take b   4 Jump 6   5 Take c   6 Jump 1   7 Done
//! ```
//! What is repeated n times is there n times.

use super::syntax::{Alternatives, Assertion, Atom, Piece};
use super::{PROGRAM_MAX, too_complex};
use ankerdb_engine::Result;

#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    /// Takes a character of the set of this number.
    Take(usize),
    /// Goes on at both places.
    Split(usize, usize),
    Jump(usize),
    Assert(Assertion),
    Done,
}

/// A part of a pattern.
#[derive(Clone, Copy)]
pub(super) enum Fragment<'p> {
    Whole(&'p Alternatives),
    /// One after the other.
    Pieces(&'p [Piece]),
    Atom(&'p Atom),
    /// The atom, so often.
    Repeated(&'p Atom, usize, Option<usize>),
}

/// How many steps may still be made for one pattern.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(PROGRAM_MAX)
    }
}

/// The steps for a part.
///
/// # Errors
/// 2201B if these are more than the budget.
pub(super) fn program(fragment: Fragment<'_>, budget: &mut Budget) -> Result<Vec<Instruction>> {
    let mut writer = Writer { steps: Vec::new(), budget };
    match fragment {
        Fragment::Whole(alternatives) => writer.alternatives(alternatives)?,
        Fragment::Pieces(pieces) => pieces.iter().try_for_each(|piece| writer.piece(piece))?,
        Fragment::Atom(atom) => writer.atom(atom)?,
        Fragment::Repeated(atom, least, most) => writer.repeated(atom, least, most)?,
    }
    writer.push(Instruction::Done)?;
    Ok(writer.steps)
}

struct Writer<'b> {
    steps: Vec<Instruction>,
    budget: &'b mut Budget,
}

impl Writer<'_> {
    fn push(&mut self, step: Instruction) -> Result<usize> {
        self.budget.0 = self.budget.0.checked_sub(1).ok_or_else(too_complex)?;
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn alternatives(&mut self, Alternatives(branches): &Alternatives) -> Result<()> {
        let Some((last, others)) = branches.split_last() else { return Ok(()) };
        let mut ends = Vec::with_capacity(others.len());
        for branch in others {
            let split = self.push(Instruction::Split(0, 0))?;
            branch.iter().try_for_each(|piece| self.piece(piece))?;
            ends.push(self.push(Instruction::Jump(0))?);
            self.steps[split] = Instruction::Split(split + 1, self.steps.len());
        }
        last.iter().try_for_each(|piece| self.piece(piece))?;
        for end in ends {
            self.steps[end] = Instruction::Jump(self.steps.len());
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> Result<()> {
        self.repeated(&piece.atom, piece.least, piece.most)
    }

    fn atom(&mut self, atom: &Atom) -> Result<()> {
        match atom {
            Atom::Class(set) => self.push(Instruction::Take(*set)).map(drop),
            Atom::Assert(assertion) => self.push(Instruction::Assert(*assertion)).map(drop),
            Atom::Group(alternatives, _) => self.alternatives(alternatives),
        }
    }

    fn repeated(&mut self, atom: &Atom, least: usize, most: Option<usize>) -> Result<()> {
        for _ in 0..least {
            self.atom(atom)?;
        }
        let Some(most) = most else {
            let split = self.push(Instruction::Split(0, 0))?;
            self.atom(atom)?;
            self.push(Instruction::Jump(split))?;
            self.steps[split] = Instruction::Split(split + 1, self.steps.len());
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in least..most {
            splits.push(self.push(Instruction::Split(0, 0))?);
            self.atom(atom)?;
        }
        for split in splits {
            self.steps[split] = Instruction::Split(split + 1, self.steps.len());
        }
        Ok(())
    }
}
