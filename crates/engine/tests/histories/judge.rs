//! The verdict over a history: does it keep the promises of a level?
//!
//! A level says how many moments a transaction consists of. Each moment becomes a point of a graph:
//!
//! | level | points of a transaction |
//! | --- | --- |
//! | SERIALIZABLE | one: it reads and writes at the same moment |
//! | REPEATABLE READ | two: all reads, then all writes; and no other writes the same key in between |
//! | READ COMMITTED | one for each statement, then one for all writes |
//! | READ UNCOMMITTED | one for each single read, in no order, then one for all writes |
//!
//! Points are ordered by what they wrote and saw (Adya's dependencies): a version's writer comes before its readers and
//! before the next version's writer, and a reader comes before the writer of the next version. A key that a range did
//! *not* return counts as read, too, in the version that was then outside of the range or deleted: so phantoms are edges
//! like all others. With the order of real time (what was acknowledged before another began comes before it) a graph
//! without cycles shows *strict* serializability, *strong* snapshot isolation, and so on.
//!
//! Snapshots, and transactions that only read, are one point at all levels: a consistent cut.

use crate::graph::{Graph, Step, Why};
use crate::history::{Done, NOTHING, Number, Range, Span};
use ankerdb_engine::Isolation;
use std::collections::HashMap;

/// The promises that a history is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub level: Isolation,
    pub order: Order,
    /// Whether what was acknowledged comes before what began later.
    pub real_time: bool,
}

impl Rules {
    /// Everything that a level promises. From REPEATABLE READ on that includes that no update is lost.
    pub(crate) fn of(level: Isolation) -> Rules {
        let weak = matches!(level, Isolation::ReadCommitted | Isolation::ReadUncommitted);
        Rules { level, order: if weak { Order::Timestamps } else { Order::Links }, real_time: true }
    }

    /// The promises of a level without real time: what is found then is an anomaly of the data alone.
    pub(crate) fn timeless(level: Isolation, order: Order) -> Rules {
        Rules { level, order, real_time: false }
    }
}

/// How the order of a key's versions is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// From the data: every writer read whose version it replaces.
    Links,
    /// From the engine: by commit timestamps. For levels at which updates may be lost.
    Timestamps,
}

/// What is wrong with a history.
#[derive(PartialEq, Debug)]
pub(crate) enum Verdict {
    Fine,
    /// Two writers replaced the same version of a key.
    LostUpdate(i32, [Number; 2]),
    /// A version that no committed transaction wrote was read or replaced: of an aborted one, or a step in between.
    UnknownVersion(i32, Number),
    /// A version inside of a range was not returned.
    Phantom(i32, Number),
    Cycle(Vec<Step>),
}

/// What a cycle is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anomaly {
    /// One key, seen before and after another's write.
    NonRepeatableRead,
    /// Some of another's writes seen, and some not.
    ReadSkew,
    /// Two or more that each missed what the next one wrote.
    WriteSkew,
    Other,
}

impl Verdict {
    pub(crate) fn anomaly(&self) -> Option<Anomaly> {
        let Verdict::Cycle(steps) = self else { return None };
        let missed: Vec<i32> = steps.iter().filter_map(|(_, why)| missed(why)).collect();
        Some(match (&missed[..], &steps[..]) {
            ([key], [(_, one), (_, two)]) if [*one, *two].contains(&Why::WriteRead(*key)) => {
                Anomaly::NonRepeatableRead
            }
            ([_], [_, _]) => Anomaly::ReadSkew,
            ([_, _, ..], _) => Anomaly::WriteSkew,
            _ => Anomaly::Other,
        })
    }
}

fn missed(why: &Why) -> Option<i32> {
    if let Why::ReadWrite(key) = why { Some(*key) } else { None }
}

pub(crate) fn judge(history: &[Done], rules: Rules) -> Verdict {
    let outcome = Versions::of(history, rules.order).and_then(|versions| {
        let mut case = Case { history, rules, versions, graph: Graph::default(), writers: Vec::new() };
        case.run()
    });
    match outcome {
        Err(verdict) => verdict,
        Ok(graph) => graph.cycle().map_or(Verdict::Fine, Verdict::Cycle),
    }
}

/// A version of a key: its writer's place in the history, and its kind.
#[derive(Clone, Copy)]
struct Version {
    writer: usize,
    kind: Option<i32>,
}

/// All versions of all keys, oldest first.
struct Versions {
    chains: HashMap<i32, Vec<Version>>,
    /// (key, writer) to position in the chain.
    places: HashMap<(i32, Number), usize>,
}

impl Versions {
    fn of(history: &[Done], order: Order) -> Result<Versions, Verdict> {
        let mut chains: HashMap<i32, Vec<Version>> = HashMap::new();
        match order {
            Order::Links => Self::follow_links(history, &mut chains)?,
            Order::Timestamps => {
                for (writer, done) in history.iter().enumerate() {
                    for write in &done.writes {
                        chains.entry(write.key).or_default().push(Version { writer, kind: write.kind });
                    }
                }
                let timestamp = |version: &Version| history[version.writer].timestamp.expect("asked for");
                chains.values_mut().for_each(|chain| chain.sort_by_key(timestamp));
            }
        }
        let mut places = HashMap::new();
        for (key, chain) in &chains {
            for (place, version) in chain.iter().enumerate() {
                places.insert((*key, history[version.writer].number), place);
            }
        }
        Ok(Versions { chains, places })
    }

    fn follow_links(history: &[Done], chains: &mut HashMap<i32, Vec<Version>>) -> Result<(), Verdict> {
        let mut next: HashMap<(i32, Number), Version> = HashMap::new();
        for (writer, done) in history.iter().enumerate() {
            for write in &done.writes {
                let version = Version { writer, kind: write.kind };
                if let Some(other) = next.insert((write.key, write.former), version) {
                    let numbers = [history[other.writer].number, done.number];
                    return Err(Verdict::LostUpdate(write.key, numbers));
                }
            }
        }
        let keys: Vec<i32> =
            next.keys().filter(|(_, former)| *former == NOTHING).map(|(key, _)| *key).collect();
        for key in keys {
            let (chain, mut former) = (chains.entry(key).or_default(), NOTHING);
            while let Some(version) = next.remove(&(key, former)) {
                chain.push(version);
                former = history[version.writer].number;
            }
        }
        // What is left depends on versions that no transaction wrote.
        next.keys().next().map_or(Ok(()), |&(key, former)| Err(Verdict::UnknownVersion(key, former)))
    }

    fn place(&self, key: i32, writer: Number) -> Result<usize, Verdict> {
        self.places.get(&(key, writer)).copied().ok_or(Verdict::UnknownVersion(key, writer))
    }
}

/// The points of one transaction.
struct Moments<'h> {
    /// What was looked at, and when.
    looks: Vec<(usize, Look<'h>)>,
    /// The first one, for rules about its beginning.
    first: Option<usize>,
}

#[derive(Clone, Copy)]
enum Look<'h> {
    Row(i32, Number),
    Range(&'h Range),
}

struct Case<'h> {
    history: &'h [Done],
    rules: Rules,
    versions: Versions,
    graph: Graph,
    /// The points at which transactions write, by place in the history.
    writers: Vec<Option<usize>>,
}

impl<'h> Case<'h> {
    fn run(&mut self) -> Result<Graph, Verdict> {
        let history = self.history;
        let moments: Vec<Moments<'h>> = history.iter().map(|done| self.moments(done)).collect();
        self.order_writers(&moments);
        for (reader, moments) in moments.iter().enumerate() {
            for &(point, look) in &moments.looks {
                match look {
                    Look::Row(key, seen) => self.row(point, key, seen)?,
                    Look::Range(range) => self.range(reader, point, range)?,
                }
            }
        }
        if self.rules.real_time {
            self.graph.add_real_time();
        }
        Ok(std::mem::take(&mut self.graph))
    }

    fn point(&mut self, done: &Done, span: Span) -> usize {
        self.graph.point(done.number, span, true)
    }

    /// Makes the points of a transaction, as its level has them.
    fn moments(&mut self, done: &'h Done) -> Moments<'h> {
        let mut looks = Vec::new();
        let mut all =
            |point: usize| looks.extend(done.statements.iter().flat_map(|one| looks_of(point, one)));
        if done.is_reader {
            let point = self.point(done, done.snapshot);
            all(point);
            self.writers.push(None);
            return Moments { looks, first: Some(point) };
        }
        match self.rules.level {
            Isolation::Serializable => {
                let point = self.point(done, done.life);
                all(point);
                self.writers.push(Some(point));
                Moments { looks, first: Some(point) }
            }
            Isolation::RepeatableRead => {
                let point = self.point(done, done.snapshot);
                all(point);
                self.writer_after(done, Some(point));
                Moments { looks, first: Some(point) }
            }
            Isolation::ReadCommitted => {
                let mut last = None;
                for statement in &done.statements {
                    let point = self.point(done, statement.span);
                    if let Some(last) = last {
                        self.graph.add(last, point, Why::Program);
                    }
                    looks.extend(looks_of(point, statement));
                    last = Some(point);
                }
                self.writer_after(done, last);
                Moments { looks, first: None }
            }
            Isolation::ReadUncommitted => {
                let writer = self.writer_after(done, None);
                for statement in &done.statements {
                    let found = statement.ranges.iter().flat_map(|range| &range.found);
                    for &(key, seen) in statement.reads.iter().chain(found) {
                        let point = self.graph.point(done.number, statement.span, false);
                        looks.push((point, Look::Row(key, seen)));
                        if let Some(writer) = writer {
                            self.graph.add(point, writer, Why::Program);
                        }
                    }
                }
                Moments { looks, first: None }
            }
        }
    }

    /// The point of all writes, if there are any.
    fn writer_after(&mut self, done: &Done, last: Option<usize>) -> Option<usize> {
        let writer = (!done.writes.is_empty()).then(|| self.point(done, done.commit));
        if let (Some(last), Some(writer)) = (last, writer) {
            self.graph.add(last, writer, Why::Program);
        }
        self.writers.push(writer);
        writer
    }

    fn order_writers(&mut self, moments: &[Moments<'_>]) {
        for (&key, chain) in &self.versions.chains {
            for pair in chain.windows(2) {
                let from = self.writers[pair[0].writer].expect("it has written");
                let to = self.writers[pair[1].writer].expect("it has written");
                self.graph.add(from, to, Why::WriteWrite(key));
                // First committer wins: the former writer was over when this one took its snapshot.
                if let Some(first) = moments[pair[1].writer].first {
                    self.graph.add(from, first, Why::WriteWrite(key));
                }
            }
        }
    }

    fn row(&mut self, point: usize, key: i32, seen: Number) -> Result<(), Verdict> {
        let place = self.versions.place(key, seen)?;
        let chain = &self.versions.chains[&key];
        let (writer, next) = (chain[place].writer, chain.get(place + 1).map(|version| version.writer));
        self.graph.add(self.writers[writer].expect("it has written"), point, Why::WriteRead(key));
        if let Some(next) = next {
            self.graph.add(point, self.writers[next].expect("it has written"), Why::ReadWrite(key));
        }
        Ok(())
    }

    /// Rows found are read. Of keys that were counted, or not found, it is known only whether they were in the range.
    fn range(&mut self, reader: usize, point: usize, range: &Range) -> Result<(), Verdict> {
        for &(key, seen) in &range.found {
            self.row(point, key, seen)?;
        }
        let is_inside =
            |version: &Version| version.kind.is_some_and(|kind| (range.low..=range.high).contains(&kind));
        for &(key, seen) in &range.counted {
            self.stays(reader, point, (key, seen), is_inside)?;
        }
        for &(key, seen) in &range.not_found {
            self.stays(reader, point, (key, seen), |version| !is_inside(version))?;
        }
        Ok(())
    }

    /// A key was seen to be in some state, inside or outside of a range. That depends on the writer that brought it into
    /// that state last, and comes before the one that takes it out again; versions that change nothing about that do not
    /// matter. If it is brought back once more before the reader has ended, the reader may just as well come after that:
    /// then nothing follows.
    fn stays(
        &mut self,
        reader: usize,
        point: usize,
        (key, seen): (i32, Number),
        is_so: impl Fn(&Version) -> bool,
    ) -> Result<(), Verdict> {
        let place = self.versions.place(key, seen)?;
        let chain = &self.versions.chains[&key];
        let is_not = |version: &Version| !is_so(version);
        if is_not(&chain[place]) {
            return Err(Verdict::Phantom(key, self.history[reader].number));
        }
        let first = chain[..place].iter().rposition(is_not).map_or(0, |other| other + 1);
        let ends = chain[place..].iter().position(is_not).map(|after| place + after);
        let again = ends.and_then(|ends| chain[ends..].iter().find(|version| is_so(version)));
        let writer = |version: &Version| self.writers[version.writer].expect("it has written");
        let began = writer(&chain[first]);
        let ended = self.graph.span(point).ended;
        let is_undecided = again.is_some_and(|again| self.graph.span(writer(again)).began < ended);
        let ends = ends.filter(|_| !is_undecided).map(|ends| writer(&chain[ends]));
        self.graph.add(began, point, Why::WriteRead(key));
        if let Some(ends) = ends {
            self.graph.add(point, ends, Why::ReadWrite(key));
        }
        Ok(())
    }
}

fn looks_of(point: usize, statement: &crate::history::Statement) -> impl Iterator<Item = (usize, Look<'_>)> {
    let rows = statement.reads.iter().map(|&(key, seen)| Look::Row(key, seen));
    rows.chain(statement.ranges.iter().map(Look::Range)).map(move |look| (point, look))
}
