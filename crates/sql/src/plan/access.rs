//! How a statement on one table reaches its rows: by a unique key, by ranges of an index, or by reading all.
//!
//! A condition is a list of conjuncts. Those that pin leading columns of an index (equality, or a list of values
//! for the last pinned column) and bound the next one (a range) become the index range; the rest, and whatever
//! the range covers only roughly, stays as a filter. A conjunct of alternatives that each pin more than the conjuncts do
//! becomes a way for each of them.

use super::derivation::{computed_key, conjuncts, is_implied};
use crate::expression::cost::cheapest_first;
use crate::expression::types::{Family, family, same_representation};
use crate::expression::{Comparison, Expression, Quantifier, document};
use ankerdb_engine::{Catalog, DataType, Direction, Index, IndexKind, IndexPosition, Table};
use ankerdb_value::TextStyle;
use std::sync::Arc;

/// How to reach the rows.
pub(crate) enum Access {
    /// No table: one row without columns.
    OneRow,
    /// The row with this key of a unique index.
    Find(IndexUse),
    /// The rows in a range of an index.
    Range(IndexRange),
    /// The rows that one or more of these reach, each of which goes by an index.
    AnyOf(Vec<Access>),
    /// All rows.
    Scan,
}

/// Values for the leading columns of an index.
pub(crate) struct IndexUse {
    /// The index's position in the table's list.
    pub position: IndexPosition,
    pub index: Arc<Index>,
    /// One value for each pinned column.
    pub key: Vec<KeyPart>,
}

/// A part of an index.
pub(crate) struct IndexRange {
    pub used: IndexUse,
    /// The values that the column after the pinned ones may have, if they are listed.
    pub among: Option<Among>,
    pub lower: Option<KeyBound>,
    pub upper: Option<KeyBound>,
    pub direction: Direction,
}

/// The values that a column may have.
pub(crate) enum Among {
    Values(Vec<KeyPart>),
    /// The items of an array.
    Array(Box<KeyPart>),
}

/// A value for a key column, and the type that it is brought to.
#[derive(Clone)]
pub(crate) struct KeyPart {
    pub value: Expression,
    pub column_type: DataType,
}

/// One end of a range.
pub(crate) struct KeyBound {
    pub part: KeyPart,
    pub inclusive: bool,
}

/// A column to sort by.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub expression: Expression,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The choice made.
pub(crate) struct Choice {
    pub access: Access,
    /// The rest of the condition, as a filter.
    pub filter: Option<Expression>,
    /// Whether the rows come in the order asked for.
    pub ordered: bool,
}

impl Choice {
    /// Whether a handful of rows is likely: a key, leading columns pinned, or a range with two ends.
    pub(crate) fn is_narrow(&self) -> bool {
        self.access.is_narrow()
    }
}

impl Access {
    /// How much it pins; larger is better.
    pub(crate) fn score(&self) -> u32 {
        match self {
            Access::OneRow | Access::Scan => 0,
            Access::Find(_) => 10_000,
            Access::Range(range) => {
                let ends = u32::from(range.lower.is_some()) + u32::from(range.upper.is_some());
                range.used.key.len() as u32 * 100 + u32::from(range.among.is_some()) * 90 + ends * 20
            }
            Access::AnyOf(ways) => ways.iter().map(Access::score).min().unwrap_or(0),
        }
    }

    /// How many places of indexes it names.
    pub(crate) fn places(&self) -> usize {
        match self {
            Access::AnyOf(ways) => ways.iter().map(Access::places).sum(),
            Access::Range(IndexRange { among: Some(Among::Values(values)), .. }) => values.len(),
            _ => 1,
        }
    }

    /// Whether it goes the same way, by other values.
    pub(crate) fn is_like(&self, other: &Access) -> bool {
        let is_like_use = |one: &IndexUse, other: &IndexUse| {
            one.position == other.position && one.key.len() == other.key.len()
        };
        match (self, other) {
            (Access::OneRow, Access::OneRow) | (Access::Scan, Access::Scan) => true,
            (Access::Find(one), Access::Find(other)) => is_like_use(one, other),
            (Access::Range(one), Access::Range(other)) => {
                is_like_use(&one.used, &other.used)
                    && one.among.is_some() == other.among.is_some()
                    && one.lower.is_some() == other.lower.is_some()
                    && one.upper.is_some() == other.upper.is_some()
                    && one.direction == other.direction
            }
            (Access::AnyOf(one), Access::AnyOf(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_like(other))
            }
            _ => false,
        }
    }

    fn is_narrow(&self) -> bool {
        match self {
            Access::OneRow | Access::Find(_) => true,
            Access::Range(range) => {
                !range.used.key.is_empty()
                    || range.among.is_some()
                    || (range.lower.is_some() && range.upper.is_some())
            }
            Access::AnyOf(ways) => ways.iter().all(Access::is_narrow),
            Access::Scan => false,
        }
    }
}

/// What one conjunct says about one column.
#[derive(Clone)]
struct Fact<'a> {
    conjunct: usize,
    column: usize,
    says: Says<'a>,
    /// Whether an index range that uses the fact needs no filter for it.
    covered: bool,
}

#[derive(Clone, Copy)]
enum Says<'a> {
    Compared(Comparison, &'a Expression),
    Among(&'a [Expression]),
    AmongItems(&'a Expression),
}

/// Chooses the index that pins the most, if any; among equals, one that delivers the order.
pub(crate) fn choose(
    catalog: &Catalog,
    table: &Arc<Table>,
    condition: Option<Expression>,
    order: &[SortKey],
) -> Choice {
    let conjuncts = match condition {
        Some(condition) => conjuncts(condition),
        None => Vec::new(),
    };
    let indexes = Indexes::of(catalog, table);
    let terms = Terms::new(table, indexes.iter().map(|(_, index)| &***index));
    let facts = facts(&conjuncts, &terms);
    let best = indexes.best(&facts, &conjuncts, &terms, order);
    let least = best.as_ref().map_or(0, |(score, _)| *score);
    let any_of = conjuncts.iter().enumerate().find_map(|(position, conjunct)| {
        let Expression::Or(list) = conjunct else { return None };
        Some((position, any_of(list, &facts, &conjuncts, &indexes, &terms, least)?))
    });
    if let Some((position, ways)) = any_of {
        let (access, is_covered) = ways;
        let ordered = order.is_empty();
        let rest = conjuncts.into_iter().enumerate().filter(|(other, _)| !is_covered || *other != position);
        return Choice { access, filter: join(rest.map(|(_, conjunct)| conjunct).collect()), ordered };
    }
    let Some((_, candidate)) = best else {
        return Choice { access: Access::Scan, filter: join(conjuncts), ordered: order.is_empty() };
    };
    let covered = candidate.covered.clone();
    let ordered = order.is_empty() || candidate.ordered;
    let access = candidate.into_access();
    let rest = conjuncts.into_iter().enumerate().filter(|(position, _)| !covered.contains(position));
    let filter = join(rest.map(|(_, conjunct)| conjunct).collect());
    Choice { access, filter, ordered }
}

/// The indexes of a table that statements may use, with their positions in the table's list.
struct Indexes<'a>(Vec<(IndexPosition, &'a Arc<Index>)>);

impl<'a> Indexes<'a> {
    fn of(catalog: &'a Catalog, table: &'a Table) -> Indexes<'a> {
        Indexes(catalog.usable_indexes(table).collect())
    }

    fn iter(&self) -> impl Iterator<Item = &(IndexPosition, &'a Arc<Index>)> {
        self.0.iter()
    }

    /// The one of which the facts pin the most, and its score; `None` if none is of use.
    fn best(
        &self,
        facts: &[Fact],
        conditions: &[Expression],
        terms: &Terms<'_>,
        order: &[SortKey],
    ) -> Option<(u32, Candidate)> {
        let mut best: Option<(u32, Candidate)> = None;
        for (position, index) in &self.0 {
            let Some(columns) = terms.of_index(index, conditions) else { continue };
            let candidate = candidate(*position, (*index).clone(), &columns, facts, terms, order);
            if candidate.index.definition().kind == IndexKind::Hash && !candidate.pins_whole_keys() {
                continue;
            }
            let score = candidate.score();
            if score > 0 && best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, candidate));
            }
        }
        best
    }
}

fn facts<'a>(conjuncts: &'a [Expression], terms: &Terms<'_>) -> Vec<Fact<'a>> {
    let numbered = conjuncts.iter().enumerate();
    numbered.filter_map(|(position, conjunct)| fact(position, conjunct, terms)).collect()
}

/// The conjuncts of each alternative, those of alternatives within alternatives among them.
fn flat(alternatives: &[Expression]) -> Vec<&[Expression]> {
    let mut pending: Vec<&Expression> = alternatives.iter().rev().collect();
    let mut found = Vec::with_capacity(alternatives.len());
    while let Some(alternative) = pending.pop() {
        match alternative {
            Expression::Or(within) => pending.extend(within.iter().rev()),
            Expression::And(parts) => found.push(parts.as_slice()),
            part => found.push(std::slice::from_ref(part)),
        }
    }
    found
}

/// Pairs of an alternative and of a fact beside it that are looked at; a statement of more takes no such way.
const MOST_PAIRS: usize = 1 << 20;

/// The ways to the rows of alternatives (`(a, b) IN ((1, 2), (3, 4))` is a list of them), together with what is known of all rows, and
/// whether they leave nothing of the alternatives to the filter. `None` unless each way has a higher score than `least`.
fn any_of(
    alternatives: &[Expression],
    known: &[Fact],
    conditions: &[Expression],
    indexes: &Indexes,
    terms: &Terms<'_>,
    least: u32,
) -> Option<(Access, bool)> {
    // Lists are not copied into each way.
    let single = known.iter().filter(|fact| matches!(fact.says, Says::Compared(..)));
    let known: Vec<Fact> = single.map(|fact| Fact { conjunct: usize::MAX, ..fact.clone() }).collect();
    let alternatives = flat(alternatives);
    if alternatives.len().saturating_mul(known.len() + 1) > MOST_PAIRS {
        return None;
    }
    let (mut ways, mut is_covered) = (Vec::with_capacity(alternatives.len()), true);
    for parts in alternatives {
        let mut said = facts(parts, terms);
        said.extend_from_slice(&known);
        let (score, candidate) = indexes.best(&said, conditions, terms, &[])?;
        if score <= least {
            return None;
        }
        is_covered &= (0..parts.len()).all(|part| candidate.covered.contains(&part));
        ways.push(candidate.into_access());
    }
    let access = Access::AnyOf(ways);
    access.is_narrow().then_some((access, is_covered))
}

fn join(mut conjuncts: Vec<Expression>) -> Option<Expression> {
    cheapest_first(&mut conjuncts);
    match conjuncts.len() {
        0 | 1 => conjuncts.pop(),
        _ => Some(Expression::And(conjuncts)),
    }
}

/// What conditions can be about: the columns of a table, and behind them what its indexes compute.
struct Terms<'a> {
    /// Of each: its type, and whether it may be NULL.
    types: Vec<(DataType, bool)>,
    computed: Vec<&'a Expression>,
}

impl<'a> Terms<'a> {
    fn new(table: &Table, indexes: impl Iterator<Item = &'a Index>) -> Terms<'a> {
        let columns = table.columns().iter();
        let types = columns.map(|column| (column.data_type, column.nullable)).collect();
        let mut terms = Terms { types, computed: Vec::new() };
        for index in indexes {
            let Some(key) = computed_key(index) else { continue };
            for (number, part) in key.parts.iter().enumerate() {
                if terms.position(part).is_none() {
                    terms.computed.push(part);
                    terms.types.push((index.part_type(number), true));
                }
            }
        }
        terms
    }

    fn position(&self, expression: &Expression) -> Option<usize> {
        if let Expression::Column(column) = expression {
            return Some(*column);
        }
        let columns = self.types.len() - self.computed.len();
        self.computed.iter().position(|term| *term == expression).map(|number| columns + number)
    }

    /// The key of an index that a query with these conditions may use.
    fn of_index(&self, index: &Index, conditions: &[Expression]) -> Option<Vec<usize>> {
        let Some(key) = computed_key(index) else { return Some(index.definition().columns.clone()) };
        // Another style may write the texts differently that the keys are.
        if TextStyle::current() != TextStyle::default() {
            return None;
        }
        match is_implied(&key.predicate, conditions) {
            true => key.parts.iter().map(|part| self.position(part)).collect(),
            false => None,
        }
    }

    /// The term that an expression is, and whether it is not widened to a type that holds each of its values exactly.
    fn find(&self, expression: &Expression) -> Option<(usize, bool)> {
        if let Some(term) = self.position(expression) {
            return Some((term, true));
        }
        if let Some(document) = document::keyed(expression) {
            // An index of a jsonb is ordered by its key.
            return Some((self.position(document)?, false));
        }
        let Expression::Cast(operand, to) = expression else { return None };
        let term = self.position(operand)?;
        widens(self.types.get(term)?.0, *to).then_some((term, false))
    }
}

/// What a column is compared with: a document, where keys are.
fn compared(expression: &Expression) -> &Expression {
    document::keyed(expression).unwrap_or(expression)
}

fn widens(from: DataType, to: DataType) -> bool {
    use Family::*;
    same_representation(from, to)
        || matches!(
            (family(from), family(to)),
            (SmallInt, Integer | BigInt | Numeric | DoublePrecision)
                | (Integer, BigInt | Numeric | DoublePrecision)
                | (BigInt, Numeric)
        )
}

fn fact<'a>(conjunct: usize, expression: &'a Expression, terms: &Terms<'_>) -> Option<Fact<'a>> {
    let (column, bare, says) = match expression {
        Expression::Compare(Comparison::NotEqual, _) => return None,
        Expression::Compare(comparison, pair) => match (terms.find(&pair.0), terms.find(&pair.1)) {
            (Some((column, bare)), _) if pair.1.is_constant() => {
                (column, bare, Says::Compared(*comparison, compared(&pair.1)))
            }
            (_, Some((column, bare))) if pair.0.is_constant() => {
                (column, bare, Says::Compared(comparison.flipped(), compared(&pair.0)))
            }
            _ => return None,
        },
        Expression::InList(operand, items, false)
            if items.iter().all(Expression::is_constant) && document::keyed(operand).is_none() =>
        {
            let (column, bare) = terms.find(operand)?;
            (column, bare, Says::Among(items))
        }
        Expression::Quantified(Comparison::Equal, Quantifier::Any, pair) if pair.1.is_constant() => {
            let (column, bare) = terms.find(&pair.0)?;
            (column, bare, Says::AmongItems(&pair.1))
        }
        _ => return None,
    };
    let (data_type, nullable) = *terms.types.get(column)?;
    // Other representations are converted when the range is made; what does not convert exactly is left to
    // the filter. NULLs sort above every bound, so a range without an upper end would let them in.
    let same = bare
        && !matches!(
            family(data_type),
            Family::Numeric | Family::Number | Family::Char | Family::Real | Family::DoublePrecision
        );
    let lower = matches!(says, Says::Compared(Comparison::Greater | Comparison::GreaterOrEqual, _));
    Some(Fact { conjunct, column, says, covered: same && !(lower && nullable) })
}

/// What an index would give.
struct Candidate {
    position: IndexPosition,
    index: Arc<Index>,
    columns: usize,
    key: Vec<KeyPart>,
    among: Option<Among>,
    lower: Option<KeyBound>,
    upper: Option<KeyBound>,
    covered: Vec<usize>,
    ordered: bool,
    direction: Direction,
}

impl Candidate {
    /// Whether each column of the index has one value, the last one perhaps one of a list.
    fn pins_whole_keys(&self) -> bool {
        self.key.len() + usize::from(self.among.is_some()) == self.columns
    }

    /// Larger is better; 0 is useless.
    fn score(&self) -> u32 {
        let definition = self.index.definition();
        if definition.unique && self.key.len() == self.columns {
            return 10_000;
        }
        let ends = u32::from(self.lower.is_some()) + u32::from(self.upper.is_some());
        let pinned = self.key.len() as u32 * 100 + u32::from(self.among.is_some()) * 90;
        pinned + ends * 20 + u32::from(self.ordered) * 5
    }

    fn into_access(self) -> Access {
        let unique = self.index.definition().unique;
        let Candidate { position, index, columns, key, among, lower, upper, direction, .. } = self;
        let used = IndexUse { position, index, key };
        if unique && used.key.len() == columns {
            return Access::Find(used);
        }
        Access::Range(IndexRange { used, among, lower, upper, direction })
    }
}

fn candidate(
    position: IndexPosition,
    index: Arc<Index>,
    columns: &[usize],
    facts: &[Fact],
    terms: &Terms<'_>,
    order: &[SortKey],
) -> Candidate {
    let mut found = Candidate {
        position,
        index,
        columns: columns.len(),
        key: Vec::new(),
        among: None,
        lower: None,
        upper: None,
        covered: Vec::new(),
        ordered: false,
        direction: Direction::Forward,
    };
    for &column in columns {
        let equal = facts.iter().find_map(|fact| match fact.says {
            Says::Compared(Comparison::Equal, value) if fact.column == column => Some((fact, value)),
            _ => None,
        });
        let Some((fact, value)) = equal else {
            found.bound(column, facts, &terms.types);
            break;
        };
        found.key.push(KeyPart { value: value.clone(), column_type: terms.types[column].0 });
        if fact.covered {
            found.covered.push(fact.conjunct);
        }
    }
    if let Some(direction) = delivered(columns, found.key.len(), found.among.is_some(), terms, order) {
        found.ordered = true;
        found.direction = direction;
    }
    found
}

impl Candidate {
    /// Uses what is said about the first column that is not pinned to one value.
    fn bound(&mut self, column: usize, facts: &[Fact], types: &[(DataType, bool)]) {
        let column_type = types[column].0;
        let part = |value: &Expression| KeyPart { value: value.clone(), column_type };
        for fact in facts.iter().filter(|fact| fact.column == column) {
            let used = match fact.says {
                Says::Among(items) if self.among.is_none() => {
                    self.among = Some(Among::Values(items.iter().map(part).collect()));
                    true
                }
                Says::AmongItems(array) if self.among.is_none() => {
                    self.among = Some(Among::Array(Box::new(part(array))));
                    true
                }
                _ => false,
            };
            if used {
                if fact.covered {
                    self.covered.push(fact.conjunct);
                }
                return;
            }
        }
        for fact in facts.iter().filter(|fact| fact.column == column) {
            let (end, inclusive, value) = match fact.says {
                Says::Compared(Comparison::Greater, value) => (&mut self.lower, false, value),
                Says::Compared(Comparison::GreaterOrEqual, value) => (&mut self.lower, true, value),
                Says::Compared(Comparison::Less, value) => (&mut self.upper, false, value),
                Says::Compared(Comparison::LessOrEqual, value) => (&mut self.upper, true, value),
                _ => continue,
            };
            if end.is_none() {
                *end = Some(KeyBound { part: part(value), inclusive });
                if fact.covered {
                    self.covered.push(fact.conjunct);
                }
            }
        }
    }
}

/// The direction in which the index, its first `pinned` columns fixed, yields the order; `None` if it does not.
fn delivered(
    columns: &[usize],
    pinned: usize,
    several: bool,
    terms: &Terms<'_>,
    order: &[SortKey],
) -> Option<Direction> {
    if several || order.is_empty() {
        return None;
    }
    let fixed = |key: &&SortKey| {
        !terms.position(&key.expression).is_some_and(|term| columns[..pinned].contains(&term))
    };
    let mut rest = columns[pinned..].iter();
    let mut direction = None;
    for key in order.iter().filter(fixed) {
        let term = terms.position(&key.expression)?;
        if rest.next() != Some(&term) || direction.is_some_and(|descending| descending != key.descending) {
            return None;
        }
        // The index has NULLs last going up and first going down.
        if terms.types[term].1 && key.nulls_first != key.descending {
            return None;
        }
        direction = Some(key.descending);
    }
    Some(if direction == Some(true) { Direction::Backward } else { Direction::Forward })
}
