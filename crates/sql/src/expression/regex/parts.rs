//! Which part of a match belongs to which group.
//!
//! Where a whole match begins and ends is known before; then it is taken apart from the outside: a sequence into what its first
//! part takes and the rest, a choice into the first branch that takes all. PostgreSQL's rules say how much the first part
//! takes, the most or the least that lets the rest match:
//! - A quantifier prefers the most, or behind a `?` the least; `{m}` and atoms without a quantifier prefer what their
//!   inside does.
//! - A branch prefers what its first part with a preference does. Several branches prefer the most.
//!
//! As in PostgreSQL, neighbours without groups that prefer the same are one part.

use super::automaton::{Automaton, Subject};
use super::characters::Colors;
use super::program::{Budget, Fragment, program};
use super::syntax::{Alternatives, Atom, Piece, Preference};
use ankerdb_engine::Result;
use std::collections::HashSet;

/// What a part prefers, and whether it has to be taken apart.
#[derive(Clone, Copy, Debug, Default)]
struct Nature {
    longest: bool,
    shortest: bool,
    /// Both, somewhere inside.
    mixed: bool,
    captures: bool,
}

impl Nature {
    fn of(preference: Option<Preference>) -> Nature {
        Nature {
            longest: preference == Some(Preference::Longest),
            shortest: preference == Some(Preference::Shortest),
            ..Nature::default()
        }
    }

    fn and(self, other: Nature) -> Nature {
        Nature {
            longest: self.longest | other.longest,
            shortest: self.shortest | other.shortest,
            mixed: self.mixed | other.mixed,
            captures: self.captures | other.captures,
        }
    }

    /// What of it concerns the part around it: all but the preference.
    fn up(self) -> Nature {
        let mixed = self.mixed | (self.longest && self.shortest);
        Nature { longest: false, shortest: false, mixed, captures: self.captures }
    }

    fn is_plain(self) -> bool {
        let up = self.up();
        !up.mixed && !up.captures
    }

    fn has_preference(self) -> bool {
        self.longest || self.shortest
    }

    /// This part with what follows: the first preference counts.
    fn combined(self, other: Nature) -> Nature {
        let first = if self.has_preference() { self } else { other };
        Nature { longest: first.longest, shortest: first.shortest, ..self.and(other).up() }
    }
}

/// Whether the pattern prefers the shortest match.
pub(super) fn prefers_shortest(alternatives: &Alternatives) -> bool {
    of_alternatives(alternatives).shortest
}

fn of_alternatives(Alternatives(branches): &Alternatives) -> Nature {
    match branches.as_slice() {
        [only] => of_branch(only),
        several => {
            let inside =
                several.iter().map(|branch| of_branch(branch).up()).fold(Nature::default(), Nature::and);
            Nature { longest: true, ..inside }
        }
    }
}

fn of_branch(pieces: &[Piece]) -> Nature {
    let mut whole = Nature::default();
    for (segment, nature) in segments(pieces).into_iter().rev() {
        whole = match segment {
            Segment::Plain(_) => nature.and(nature.combined(whole)),
            Segment::Piece(_) => nature.combined(whole),
        };
    }
    whole
}

fn of_atom(atom: &Atom) -> Nature {
    match atom {
        Atom::Class(_) | Atom::Assert(_) => Nature::default(),
        Atom::Group(alternatives, capture) => {
            let inside = of_alternatives(alternatives);
            Nature { captures: inside.captures || capture.is_some(), ..inside }
        }
    }
}

/// A part of a branch, by the places of its pieces.
enum Segment {
    /// Pieces that need not be taken apart.
    Plain(std::ops::Range<usize>),
    Piece(usize),
}

fn segments(pieces: &[Piece]) -> Vec<(Segment, Nature)> {
    let mut segments = Vec::new();
    let (mut begin, mut plain) = (0, Nature::default());
    for (position, piece) in pieces.iter().enumerate() {
        let atom = of_atom(&piece.atom);
        let own = Nature::of(piece.prefers);
        let together = plain.and(own).and(atom);
        if together.is_plain() {
            plain = together;
            continue;
        }
        if begin < position {
            segments.push((Segment::Plain(begin..position), plain));
        }
        segments.push((Segment::Piece(position), own.combined(atom)));
        (begin, plain) = (position + 1, Nature::default());
    }
    if begin < pieces.len() {
        segments.push((Segment::Plain(begin..pieces.len()), plain));
    }
    segments
}

/// A part of a pattern that is taken apart.
#[derive(Debug)]
pub(super) enum RegexPart {
    Plain,
    /// The group of this number.
    Capture(usize, Box<RegexPart>),
    Sequence(Vec<Element>),
    Choice(Vec<(Automaton, RegexPart)>),
    /// Any number of times, up to the most.
    Repeat {
        item: Automaton,
        prefers_shortest: bool,
        part: Box<RegexPart>,
        most: Option<usize>,
    },
}

/// A part of a sequence.
#[derive(Debug)]
pub(super) struct Element {
    own: Automaton,
    /// All that follows.
    rest: Automaton,
    prefers_shortest: bool,
    part: RegexPart,
}

/// The parts of a pattern.
///
/// # Errors
/// 2201B if there are too many.
pub(super) fn parts(alternatives: &Alternatives, budget: &mut Budget) -> Result<RegexPart> {
    match alternatives.0.as_slice() {
        _ if of_alternatives(alternatives).is_plain() => Ok(RegexPart::Plain),
        [only] => sequence(only, budget),
        several => {
            let branch = |branch: &Vec<Piece>| {
                let own = automaton(Fragment::Pieces(branch), budget)?;
                Ok((own, sequence(branch, budget)?))
            };
            Ok(RegexPart::Choice(several.iter().map(branch).collect::<Result<_>>()?))
        }
    }
}

fn automaton(fragment: Fragment<'_>, budget: &mut Budget) -> Result<Automaton> {
    Ok(Automaton::new(program(fragment, budget)?, false))
}

fn sequence(pieces: &[Piece], budget: &mut Budget) -> Result<RegexPart> {
    let mut elements = Vec::new();
    for (segment, nature) in segments(pieces) {
        let (range, part, prefers_shortest) = match segment {
            Segment::Plain(range) => (range, RegexPart::Plain, nature.shortest),
            Segment::Piece(position) => {
                let (part, prefers_shortest) = of_piece(&pieces[position], budget)?;
                (position..position + 1, part, prefers_shortest)
            }
        };
        let own = automaton(Fragment::Pieces(&pieces[range.clone()]), budget)?;
        let rest = automaton(Fragment::Pieces(&pieces[range.end..]), budget)?;
        elements.push(Element { own, rest, prefers_shortest, part });
    }
    Ok(RegexPart::Sequence(elements))
}

/// A piece that is not plain, and whether it prefers the shortest match.
fn of_piece(piece: &Piece, budget: &mut Budget) -> Result<(RegexPart, bool)> {
    let (atom, own) = (of_atom(&piece.atom), Nature::of(piece.prefers));
    let nature = own.combined(atom);
    let is_same = !own.has_preference()
        || (!atom.has_preference() && !atom.mixed)
        || (own.longest == atom.longest && own.shortest == atom.shortest && !atom.mixed);
    if (piece.least, piece.most) == (1, Some(1)) && is_same {
        return Ok((of_group(&piece.atom, budget)?, atom.shortest));
    }
    if !atom.captures {
        return Ok((RegexPart::Plain, nature.shortest));
    }
    if piece.least == 0 {
        let item = automaton(Fragment::Atom(&piece.atom), budget)?;
        let part = Box::new(of_group(&piece.atom, budget)?);
        let repeat = RegexPart::Repeat { item, prefers_shortest: atom.shortest, part, most: piece.most };
        return Ok((repeat, nature.shortest));
    }
    // The groups of the last repetition count.
    let others = (piece.least - 1, piece.most.map(|most| most - 1));
    let before = Element {
        own: automaton(Fragment::Repeated(&piece.atom, others.0, others.1), budget)?,
        rest: automaton(Fragment::Atom(&piece.atom), budget)?,
        prefers_shortest: nature.shortest,
        part: RegexPart::Plain,
    };
    let last = Element {
        own: automaton(Fragment::Atom(&piece.atom), budget)?,
        rest: automaton(Fragment::Pieces(&[]), budget)?,
        prefers_shortest: atom.shortest,
        part: of_group(&piece.atom, budget)?,
    };
    Ok((RegexPart::Sequence(vec![before, last]), nature.shortest))
}

fn of_group(atom: &Atom, budget: &mut Budget) -> Result<RegexPart> {
    let Atom::Group(alternatives, capture) = atom else { return Ok(RegexPart::Plain) };
    let inside = parts(alternatives, budget)?;
    Ok(match capture {
        Some(number) => RegexPart::Capture(*number, Box::new(inside)),
        None => inside,
    })
}

/// Where groups begin and end, by number; the first is the whole match.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

impl RegexPart {
    /// Finds the groups of a match from `begin` to `end`.
    pub(super) fn take_apart(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        (begin, end): (usize, usize),
        groups: &mut Groups,
    ) -> Result<()> {
        match self {
            RegexPart::Plain => Ok(()),
            RegexPart::Capture(number, inside) => {
                groups[*number] = Some((begin, end));
                inside.take_apart(subject, colors, (begin, end), groups)
            }
            RegexPart::Sequence(elements) => {
                let mut begin = begin;
                for element in elements {
                    let middle = element.split(subject, colors, begin, end)?;
                    element.part.take_apart(subject, colors, (begin, middle), groups)?;
                    begin = middle;
                }
                Ok(())
            }
            RegexPart::Choice(branches) => {
                for (own, part) in branches {
                    if own.spans(subject, colors, begin, end)? {
                        return part.take_apart(subject, colors, (begin, end), groups);
                    }
                }
                Ok(())
            }
            RegexPart::Repeat { item, prefers_shortest, part, most } => {
                let last = last_repetition(item, *prefers_shortest, *most, subject, colors, (begin, end))?;
                match last {
                    Some(last) => part.take_apart(subject, colors, last, groups),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Element {
    /// How much of the range belongs to this element, so that the rest matches.
    fn split(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        begin: usize,
        end: usize,
    ) -> Result<usize> {
        let mut middle = self.first(subject, colors, begin, end)?;
        while let Some(found) = middle {
            if self.rest.spans(subject, colors, found, end)? {
                return Ok(found);
            }
            middle = match self.prefers_shortest {
                true if found >= end => None,
                true => self.own.shortest(subject, colors, begin, (subject.behind(found), end))?,
                false if found <= begin => None,
                false => {
                    let limit = found - last_length(&subject.text[..found]);
                    self.own.longest(subject, colors, begin, limit)?
                }
            };
        }
        // Cannot be for a range that the whole matches.
        Ok(end)
    }

    fn first(
        &mut self,
        subject: &mut Subject<'_>,
        colors: &Colors,
        begin: usize,
        end: usize,
    ) -> Result<Option<usize>> {
        match self.prefers_shortest {
            true => self.own.shortest(subject, colors, begin, (begin, end)),
            false => self.own.longest(subject, colors, begin, end),
        }
    }
}

fn last_length(text: &str) -> usize {
    text.chars().next_back().map_or(0, char::len_utf8)
}

/// The last of the repetitions that a range consists of; none in an empty range.
fn last_repetition(
    item: &mut Automaton,
    prefers_shortest: bool,
    most: Option<usize>,
    subject: &mut Subject<'_>,
    colors: &Colors,
    (begin, end): (usize, usize),
) -> Result<Option<(usize, usize)>> {
    // Where repetitions end, and from where no others lead to the end.
    let mut ends = vec![begin];
    let mut failed: HashSet<(usize, usize)> = HashSet::new();
    let mut limits = (begin, end);
    if begin == end {
        return Ok(None);
    }
    while let Some(&from) = ends.last() {
        let is_allowed = most.is_none_or(|most| ends.len() <= most);
        let next = match prefers_shortest {
            _ if !is_allowed || limits.0 > limits.1 => None,
            true => item.shortest(subject, colors, from, (limits.0.max(subject.behind(from)), limits.1))?,
            false => item.longest(subject, colors, from, limits.1)?.filter(|&next| next > from),
        };
        match next {
            Some(next) if next == end => return Ok(Some((from, end))),
            Some(next) if !failed.contains(&depth(next, ends.len(), most)) => {
                ends.push(next);
                limits = (next, end);
            }
            // Another end for the same repetition.
            Some(next) => limits = beside(subject, next, prefers_shortest, limits),
            None => {
                failed.insert(depth(from, ends.len() - 1, most));
                ends.pop();
                limits = beside(subject, from, prefers_shortest, (begin, end));
            }
        }
    }
    Ok(None)
}

/// The number of repetitions counts only where there may not be any number.
fn depth(place: usize, count: usize, most: Option<usize>) -> (usize, usize) {
    (place, most.map_or(0, |_| count))
}

/// The limits of the next try after one that ended at `tried`.
fn beside(
    subject: &Subject<'_>,
    tried: usize,
    prefers_shortest: bool,
    (least, most): (usize, usize),
) -> (usize, usize) {
    match prefers_shortest {
        true => (subject.behind(tried), most),
        false => (least, tried - last_length(&subject.text[..tried])),
    }
}
