//! Statements that a session has run of late, so that one that comes again is neither parsed nor planned again.
//!
//! ```text
//! UPDATE a SET n = n + 5 WHERE id = 7     the text
//! UPDATE a SET n = n + # WHERE id = #     its outline: where constants stand, and of which kind each is
//! UPDATE a SET n = n + $1 WHERE id = $2   the statement that is kept for the outline; 5 and 7 become its parameters
//! ```
//!
//! An outline is kept from the second time on that it comes. Constants become parameters only where that cannot change the result
//! ([`constants`]); the others belong to the statement, and it is found again for the same ones only. What is kept is found again only
//! as long as its plan is the one that planning would give.
//!
//! Queries of the OLAP path are planned for their constants, and found again for the same text. Where a text comes with others, they become parameters
//! of a query that has a generic plan, which is as good for any values (`docs/design/reused-plans.md`).
//!
//! Not here: all that defines or sets something, and what reads the system catalog or the session.

mod constants;
mod outline;

pub(crate) use constants::Substituted;
use outline::Constant;
pub(crate) use outline::Outline;

use crate::prepared::Prepared;
use ankerdb_engine::{DataType, Value};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Longer texts are not kept.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;
/// Statements that a session keeps at the same time: each takes some 17 KB.
const STATEMENTS_MAX: usize = 64;
/// As many of them are taken by a query of the OLAP path: up to 100 KB.
const ANALYTICAL_WEIGHT: usize = 2;
/// Statements of one outline, which differ in constants that are no parameters.
const ALIKE_MAX: usize = 4;
/// Statements that are made for one outline before it is given up: each text has constants of its own.
const MADE_MAX: u32 = 16;
/// Outlines that are remembered to have come once.
const SEEN_MAX: usize = 64;

/// A session's statements of late.
#[derive(Default)]
pub(crate) struct Recent {
    outlines: HashMap<Box<str>, Kept>,
    /// Hashes of outlines that have come once, and of the texts in which they did; overwritten in turn.
    seen: Vec<(u64, u64)>,
    next_seen: usize,
    hasher: RandomState,
    /// That of the text that was looked for last.
    outline: Outline,
    /// If a statement of that outline is worth keeping.
    wanted: Option<Before>,
    /// Counts what was asked for, to tell what has not been for long.
    clock: u64,
    /// Of the catalog that they were planned for.
    version: u64,
}

/// How a text's outline has come before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    SameText,
    OtherConstants,
}

/// The statements of one outline.
#[derive(Default)]
struct Kept {
    statements: Vec<Recalled>,
    made: u32,
    used: u64,
}

/// A statement, and how constants of a text become its parameters.
pub(crate) struct Recalled {
    prepared: Arc<Prepared>,
    /// For each constant its text if it belongs to the statement; `None` for the next parameter.
    fixed: Box<[Option<Box<str>>]>,
    /// The types of parameters that the client declared.
    declared: Box<[Option<DataType>]>,
    is_analytical: bool,
}

impl Recalled {
    pub(crate) fn new(
        prepared: Arc<Prepared>,
        fixed: Box<[Option<Box<str>>]>,
        declared: &[Option<DataType>],
    ) -> Recalled {
        Recalled { prepared, fixed, declared: declared.into(), is_analytical: false }
    }

    /// A query of the OLAP path.
    pub(crate) fn analytical(self) -> Recalled {
        Recalled { is_analytical: true, ..self }
    }

    fn weight(&self) -> usize {
        if self.is_analytical { ANALYTICAL_WEIGHT } else { 1 }
    }

    /// Whether it is the statement of a text with these constants.
    fn is_of(&self, text: &str, constants: &[Constant], declared: &[Option<DataType>]) -> bool {
        let is_same = |(fixed, constant): (&Option<Box<str>>, &Constant)| {
            fixed.as_deref().is_none_or(|fixed| fixed == constant.written(text))
        };
        *self.declared == *declared
            && self.fixed.len() == constants.len()
            && self.fixed.iter().zip(constants).all(is_same)
    }

    /// The values of its parameters; `None` if one is no value of its type, of which planning tells where it stands.
    fn values(&self, text: &str, constants: &[Constant]) -> Option<Vec<Value>> {
        let given = self.fixed.iter().zip(constants).filter(|(fixed, _)| fixed.is_none());
        let types = self.prepared.parameters().iter();
        given.zip(types).map(|((_, constant), &data_type)| constant.value(text, data_type)).collect()
    }
}

impl Recent {
    /// The statement that is kept for a text of this outline, and its parameters. `is_current`: whether its plan is good.
    pub(crate) fn find(
        &mut self,
        text: &str,
        declared: Option<&[Option<DataType>]>,
        is_current: impl FnOnce(&Prepared) -> bool,
    ) -> Option<(Arc<Prepared>, Vec<Value>)> {
        match declared {
            None => self.outline.read(text),
            Some(_) => self.outline.take_whole(text),
        }
        let declared = declared.unwrap_or_default();
        self.clock += 1;
        let constants = self.outline.constants();
        let Some(kept) = self.outlines.get_mut(self.outline.text()) else {
            self.wanted = self.before(text);
            return None;
        };
        kept.used = self.clock;
        let found = kept.statements.iter().position(|known| known.is_of(text, constants, declared));
        let Some(place) = found else {
            self.wanted = (kept.made < MADE_MAX).then_some(Before::OtherConstants);
            return None;
        };
        self.wanted = None;
        let known = &kept.statements[place];
        if !is_current(&known.prepared) {
            // Plans that become outdated are no statements too many.
            let is_varied = kept.statements.swap_remove(place).fixed.iter().any(Option::is_none);
            kept.made -= 1;
            self.wanted = Some(if is_varied { Before::OtherConstants } else { Before::SameText });
            return None;
        }
        Some((known.prepared.clone(), known.values(text, constants)?))
    }

    /// How this outline has come before; from now on it has.
    fn before(&mut self, text: &str) -> Option<Before> {
        let (outline, text) = (self.hasher.hash_one(self.outline.text()), self.hasher.hash_one(text));
        if let Some((_, seen)) = self.seen.iter().find(|(seen, _)| *seen == outline) {
            return Some(if *seen == text { Before::SameText } else { Before::OtherConstants });
        }
        match self.seen.get_mut(self.next_seen) {
            Some(seen) => *seen = (outline, text),
            None => self.seen.push((outline, text)),
        }
        self.next_seen = (self.next_seen + 1) % SEEN_MAX;
        None
    }

    /// From now on the catalog is of this version. Plans for another one are never good again, and would keep tables that were dropped.
    pub(crate) fn enter(&mut self, version: u64) {
        if self.version != version {
            self.clear();
            self.version = version;
        }
    }

    /// What comes next was not looked for.
    pub(crate) fn skip(&mut self) {
        self.wanted = None;
    }

    /// The outline of the text that was looked for last and not found, if its statement is worth keeping.
    pub(crate) fn wanted(&mut self) -> Option<(&Outline, Before)> {
        self.wanted.take().map(|before| (&self.outline, before))
    }

    /// Keeps the statement of the text that was looked for last.
    pub(crate) fn keep(&mut self, recalled: Recalled) {
        self.make_room(recalled.weight());
        let kept = self.outlines.entry(self.outline.text().into()).or_default();
        kept.used = self.clock;
        if kept.statements.len() >= ALIKE_MAX {
            kept.statements.remove(0);
        }
        kept.statements.push(recalled);
        kept.made += 1;
    }

    /// What is kept, in statements; texts that have come once are like one.
    pub(crate) fn weight(&self) -> usize {
        let room = |kept: &Kept| kept.statements.iter().map(Recalled::weight).sum::<usize>().max(1);
        self.outlines.values().map(room).sum::<usize>().max(usize::from(!self.seen.is_empty()))
    }

    /// Whether what is kept was planned for a catalog of another version.
    pub(crate) fn is_outdated(&self, version: u64) -> bool {
        !self.outlines.is_empty() && self.version != version
    }

    /// Forgets outlines that have not been asked for longest, until a statement of this weight may be kept.
    fn make_room(&mut self, weight: usize) {
        while !self.outlines.is_empty() && self.weight() + weight > STATEMENTS_MAX {
            let oldest = self.outlines.iter().min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(text, _)| text.clone()) else { return };
            self.outlines.remove(&oldest);
        }
    }

    /// Forgets all statements, and gives the memory back.
    pub(crate) fn clear(&mut self) {
        drop(self.take());
    }

    /// What is kept, with nothing in its place.
    pub(crate) fn take(&mut self) -> Recent {
        std::mem::take(self)
    }
}
