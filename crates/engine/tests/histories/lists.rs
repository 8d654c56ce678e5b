//! Histories over lists: rows to which elements are only ever appended, by reading the list and writing a longer one.
//!
//! A list shows the order of its versions, and a reader of one sees all earlier ones in it. So besides the graph of
//! [`judge`](crate::judge) there is a direct check ([`fault`]): every list that was read is a beginning of the final
//! list, and ends where a transaction's elements end; every element of a committed transaction is there once, in order;
//! none of an aborted one is. (The idea of lists is Elle's: Kingsbury and Alvaro 2020.)
//!
//! The kind of a version is the number of elements that its writer appended. Transactions use a few lists, and move on
//! to new ones as their numbers grow: so lists stay short, and are always being inserted by many at once.

use crate::history::{Clock, Done, MAKER, NOTHING, Number, Range, Span, Statement, Write};
use crate::run::{Plan, Style, World};
use crate::support::{find, key, view_rows};
use ankerdb_engine::*;
use std::collections::{HashMap, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

/// Lists in use at a time.
const LISTS: i32 = 3;
/// Transactions that use the same lists.
const TRANSACTIONS_PER_LIST: i64 = 80;
/// Elements that one transaction may append to one list, and a little more.
const ELEMENTS: i64 = 8;

const LIST: usize = 1;

/// An element: its writer's number and which one of its elements it is.
type Element = i64;

fn writer(element: Element) -> Number {
    element / ELEMENTS
}

/// A list as a transaction saw it; `reader` is a transaction that may not have committed, or 0.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    pub reader: Number,
    pub key: i32,
    pub list: Vec<Element>,
}

pub(crate) struct Lists {
    database: Database,
    table: Arc<Table>,
    clock: Clock,
    keys: i32,
    seen: Mutex<Vec<Seen>>,
}

impl World for Lists {
    fn new(plan: &Plan) -> Lists {
        let definition = TableDefinition::new("lists")
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("list", DataType::Text))
            .primary_key(&["id"]);
        let database = plan.database();
        let table = database.create_table(definition).unwrap();
        let numbers = plan.threads as i64 * plan.transactions as i64;
        let keys = (numbers / TRANSACTIONS_PER_LIST) as i32 + LISTS + 1;
        Lists { database, table, clock: Clock::default(), keys, seen: Mutex::default() }
    }

    fn database(&self) -> &Database {
        &self.database
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Before its first element a list is absent.
    fn made(&self) -> Vec<Write> {
        (0..self.keys).map(|key| Write { key, kind: None, former: NOTHING }).collect()
    }

    fn act(
        &self,
        transaction: &mut Transaction,
        style: Style,
        done: &mut Done,
        random: &mut fastrand::Rng,
    ) -> Result<()> {
        Actor { world: self, transaction, style, done, own: HashMap::new() }.run(random)
    }

    fn observe(&self, view: &ReadView) -> Vec<(i32, Number)> {
        let mut versions: Vec<_> = (0..self.keys).map(|key| (key, MAKER)).collect();
        for (key, list) in rows(view, &self.table) {
            versions[key as usize].1 = list.last().map_or(MAKER, |&element| writer(element));
            self.seen.lock().unwrap().push(Seen { reader: 0, key, list });
        }
        versions
    }

    fn look(&self, transaction: &mut Transaction) -> Result<Vec<(i32, Number)>> {
        let mut versions = Vec::new();
        for key in 0..self.keys {
            let list = self.read(transaction, key)?.map(|(_, list)| list).unwrap_or_default();
            versions.push((key, list.last().map_or(MAKER, |&element| writer(element))));
            self.seen.lock().unwrap().push(Seen { reader: 0, key, list });
            if key % 8 == 0 {
                std::thread::yield_now();
            }
        }
        Ok(versions)
    }
}

impl Lists {
    fn read(&self, transaction: &mut Transaction, key: i32) -> Result<Option<(RowId, Vec<Element>)>> {
        let row = find(transaction, &self.table, key, &[LIST])?;
        Ok(row.map(|row| (row, parse(&transaction.text(&self.table, row, LIST)))))
    }

    /// The lists as they are in the end.
    pub(crate) fn in_the_end(&self) -> HashMap<i32, Vec<Element>> {
        rows(&self.database.snapshot().read_view(), &self.table).collect()
    }

    /// Everything that was seen, in committed transactions or otherwise.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn rows<'a>(view: &'a ReadView, table: &'a Table) -> impl Iterator<Item = (i32, Vec<Element>)> + 'a {
    view_rows(view, table, &[0, LIST]).into_iter().map(|row| match &row[..] {
        [Value::Integer(key), Value::Text(list)] => (*key, parse(list)),
        _ => panic!("{row:?} is not a list"),
    })
}

fn parse(list: &str) -> Vec<Element> {
    list.split(',').map(|element| element.parse().expect("an element is a number")).collect()
}

fn format(list: &[Element]) -> String {
    list.iter().map(Element::to_string).collect::<Vec<_>>().join(",")
}

struct Actor<'a> {
    world: &'a Lists,
    transaction: &'a mut Transaction,
    style: Style,
    done: &'a mut Done,
    /// Own elements so far, by list.
    own: HashMap<i32, Vec<Element>>,
}

impl Actor<'_> {
    fn run(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        let first = (self.done.number / TRANSACTIONS_PER_LIST) as i32;
        for _ in 0..random.u8(1..=4) {
            let key = first + random.i32(0..LISTS);
            match random.u8(0..8) {
                0..2 => self.statement(|actor| actor.look(key))?,
                2 => self.statement(|actor| actor.scan(first, first + LISTS - 1, true))?,
                3 => self.statement(|actor| actor.scan(first, first + LISTS - 1, false))?,
                _ => while !self.statement(|actor| actor.append(key))? {},
            }
            if random.u8(0..3) == 0 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    fn statement<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let began = self.world.clock.tick();
        self.transaction.begin_statement();
        self.done.statements.push(Statement::default());
        let result = run(self)?;
        let span = Span { began, ended: self.world.clock.tick() };
        self.done.statements.last_mut().expect("just pushed").span = span;
        Ok(result)
    }

    /// Takes own elements off, notes the list; the version that was read.
    fn note(&mut self, key: i32, mut list: Vec<Element>) -> Number {
        let others = list.iter().position(|&element| writer(element) == self.done.number);
        let own = list.split_off(others.unwrap_or(list.len()));
        assert_eq!(&own, self.own.get(&key).unwrap_or(&Vec::new()), "a transaction sees its own writes");
        let version = list.last().map_or(MAKER, |&element| writer(element));
        self.world.seen.lock().unwrap().push(Seen { reader: self.done.number, key, list });
        version
    }

    fn statement_now(&mut self) -> &mut Statement {
        self.done.statements.last_mut().expect("a statement runs")
    }

    fn look(&mut self, key: i32) -> Result<()> {
        let list = self.world.read(self.transaction, key)?.map(|(_, list)| list).unwrap_or_default();
        let version = self.note(key, list);
        self.statement_now().reads.push((key, version));
        Ok(())
    }

    /// All lists in use, in one statement: by their key, or the whole table through a filter.
    fn scan(&mut self, low: i32, high: i32, by_key: bool) -> Result<()> {
        let table = self.world.table.clone();
        let mut lists: HashMap<i32, Vec<Element>> = HashMap::new();
        let mut visit = |t: &mut Transaction, row: RowId| {
            lists.insert(t.integer(&table, row, 0), parse(&t.text(&table, row, LIST)));
            Ok(ControlFlow::Continue(()))
        };
        let columns = ColumnSet::of(&[0, LIST]);
        if by_key {
            let bound = |id: i32| Bound::Included(key(&table, IndexPosition(0), &[id]));
            let range = KeyRange { lower: bound(low), upper: bound(high) };
            self.transaction.scan_index(
                &table,
                IndexPosition(0),
                &range,
                Direction::Forward,
                columns,
                &mut visit,
            )?;
        } else {
            let is_in_use: RowFilter =
                Arc::new(move |column| matches!(column(0), Value::Integer(id) if (low..=high).contains(&id)));
            self.transaction.scan_table(&table, columns, Some(is_in_use), &mut visit)?;
        }
        let mut range = Range { low: 1, high: i32::MAX, ..Range::default() };
        for key in low..=high {
            let is_own = self.own.contains_key(&key);
            let list = lists.remove(&key);
            let seen = if list.is_some() { &mut range.found } else { &mut range.not_found };
            let version = self.note(key, list.unwrap_or_default());
            // What a list was before own elements does not tell whether it was there.
            if !is_own {
                seen.push((key, version));
            }
        }
        // READ UNCOMMITTED looks at one list after the other.
        if self.transaction.isolation() == Isolation::ReadUncommitted {
            range.not_found.clear();
        }
        self.statement_now().ranges.push(range);
        Ok(())
    }

    /// False if another statement must look again.
    fn append(&mut self, key: i32) -> Result<bool> {
        let table = self.world.table.clone();
        let found = self.world.read(self.transaction, key)?;
        if let (Some((row, _)), Style::Locking) = (&found, self.style)
            && self.transaction.lock(&table, *row, LockWait::Wait)? != Locked::Unchanged
        {
            self.transaction.restart_statement()?;
            return Ok(false);
        }
        let mut list = found.as_ref().map(|(_, list)| list.clone()).unwrap_or_default();
        let former = self.note(key, list.clone());
        self.statement_now().reads.push((key, former));
        let own = self.own.entry(key).or_default();
        let element = self.done.number * ELEMENTS + own.len() as i64;
        own.push(element);
        list.push(element);
        match found {
            Some((row, _)) => {
                self.transaction.update(&table, row, vec![(LIST, Value::text(format(&list)))])?
            }
            None => {
                self.transaction.insert(&table, vec![Value::Integer(key), Value::text(format(&list))])?;
            }
        }
        let elements = Some(own.len() as i32);
        match self.done.writes.iter_mut().find(|write| write.key == key) {
            Some(write) => write.kind = elements,
            None => self.done.writes.push(Write { key, kind: elements, former }),
        }
        Ok(true)
    }
}

/// What is wrong with lists.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fault {
    /// An element of no committed transaction.
    Uncommitted(i32, Element),
    /// An element of a committed transaction that is not there, or not once, or not where it belongs.
    Lost(i32, Element),
    /// A list that was read and is no beginning of the final one.
    NoPrefix(Seen),
    /// A list that ends in the middle of a transaction's elements.
    Intermediate(Seen),
}

/// Checks all lists that were seen against those of the end.
pub(crate) fn fault(
    history: &[Done],
    in_the_end: &HashMap<i32, Vec<Element>>,
    seen: &[Seen],
) -> Option<Fault> {
    let committed: HashSet<Number> = history.iter().map(|done| done.number).collect();
    for (&key, list) in in_the_end {
        if let Some(&element) = list.iter().find(|&&element| !committed.contains(&writer(element))) {
            return Some(Fault::Uncommitted(key, element));
        }
        // A transaction's elements are numbered from zero on, one after the other.
        let mut place = 0;
        for pair in std::iter::once(None).chain(list.iter().map(Some)).zip(list) {
            let follows = pair.0.is_some_and(|&before| writer(before) == writer(*pair.1));
            place = if follows { place + 1 } else { 0 };
            if pair.1 % ELEMENTS != place {
                return Some(Fault::Lost(key, *pair.1));
            }
        }
    }
    for done in history.iter().filter(|done| done.number != MAKER) {
        for write in &done.writes {
            let list = in_the_end.get(&write.key).map(Vec::as_slice).unwrap_or_default();
            for number in 0..i64::from(write.kind.expect("lists are never deleted")) {
                let element = done.number * ELEMENTS + number;
                if list.iter().filter(|&&other| other == element).count() != 1 {
                    return Some(Fault::Lost(write.key, element));
                }
            }
        }
    }
    seen.iter().filter(|seen| committed.contains(&seen.reader)).find_map(|seen| {
        let list = in_the_end.get(&seen.key).map(Vec::as_slice).unwrap_or_default();
        let Some(rest) = list.strip_prefix(&seen.list[..]) else { return Some(Fault::NoPrefix(seen.clone())) };
        let is_cut = matches!((seen.list.last(), rest.first()), (Some(&last), Some(&next)) if writer(last) == writer(next));
        is_cut.then(|| Fault::Intermediate(seen.clone()))
    })
}
