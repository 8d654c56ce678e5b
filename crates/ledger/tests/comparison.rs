//! Comparisons of two members' rows with small limits: however many ranges differ, no message is longer than a limit, and what
//! comes makes the rows of the one those of the other. Without databases.

mod products;

use ankerdb_ledger::change::TableStates;
use ankerdb_ledger::comparison::{
    ComparedRanges, ComparisonLimits, DonatedRows, ListedRows, OwnRows, range_hashes,
};
use ankerdb_ledger::definition::SharedTable;
use ankerdb_ledger::donation::{compare_ranges, compare_rows};
use ankerdb_ledger::error::{LedgerError, LedgerResult};
use ankerdb_ledger::member::{RowSource, RowVisitor};
use ankerdb_ledger::value::{Content, row_hash};
use ankerdb_ledger::waiting_rows::WaitingRows;
use products::TestFolder;
use std::collections::BTreeMap;

/// A table's rows by their keys, as a database has them; and how often all of them were read.
#[derive(Clone, Default)]
struct Rows {
    by_key: BTreeMap<Vec<u8>, Vec<Content>>,
    readings: usize,
}

impl RowSource for Rows {
    fn read(&mut self, _: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        Ok(keys.iter().filter_map(|key| self.by_key.get(key).cloned()).collect())
    }

    fn visit_rows(&mut self, _: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        self.readings += 1;
        self.by_key.values().cloned().try_for_each(show)
    }
}

fn table() -> SharedTable {
    SharedTable::parse("CREATE SHARED TABLE note (id bigint PRIMARY KEY, words text NOT NULL)")
        .expect("a table")
}

fn row(id: u32, words: &str) -> Vec<Content> {
    vec![Some(id.to_string().into_bytes()), Some(words.as_bytes().to_vec())]
}

impl Rows {
    fn put(&mut self, id: u32, words: &str) {
        let row = row(id, words);
        self.by_key.insert(table().key_bytes(&row), row);
    }

    fn remove(&mut self, id: u32) {
        self.by_key.remove(&table().key_bytes(&row(id, "")));
    }

    fn states(&self) -> TableStates {
        let mut states = TableStates::default();
        states.define(table());
        let sums = states.sums.get_mut("note").expect("it is defined");
        self.by_key.iter().for_each(|(key, row)| sums.add(key, &row_hash(row)));
        states
    }
}

const LIMITS: ComparisonLimits = ComparisonLimits { listed: 3000, donated: 700, kept: 5000 };

/// What two members have said to each other.
#[derive(Debug, Default)]
struct Messages {
    listed: Vec<(usize, usize)>,
    donated: Vec<usize>,
    /// Of one row, the longest.
    longest_row: usize,
}

fn listed_bytes(listed: &ListedRows) -> usize {
    listed.ranges.values().flatten().map(|(key, _)| key.len() + 32).sum()
}

fn row_bytes(key: &[u8], row: Option<&Vec<Content>>) -> usize {
    key.len() + row.into_iter().flatten().flatten().map(Vec::len).sum::<usize>()
}

/// Makes the rows of the one those of the donor, as a repair does, and says what was said.
fn repair(own: &mut Rows, states: &TableStates, donor: &mut Rows) -> LedgerResult<Messages> {
    let folder = TestFolder::new("comparison");
    let path = folder.path.join("waiting");
    let (table, donor_states) = (table(), donor.states());
    let tables = BTreeMap::from([("note".to_owned(), table.clone())]);
    let mut read = OwnRows::read(own, states)?;
    let ComparedRanges { differing, .. } = compare_ranges(1, &donor_states, &range_hashes(states));
    let (mut messages, mut waiting) = (Messages::default(), WaitingRows::new(&path, LIMITS.kept));
    let found = read.compare(
        states,
        &tables,
        &differing,
        &LIMITS,
        &mut |listed, take| {
            messages.listed.push((listed.ranges.len(), listed_bytes(&listed)));
            compare_rows(donor, &donor_states, &listed, LIMITS.donated, &mut |rows: DonatedRows| {
                let by_key: BTreeMap<Vec<u8>, &Vec<Content>> =
                    rows.rows.iter().map(|row| (table.key_bytes(row), row)).collect();
                let bytes = rows.keys.iter().map(|key| row_bytes(key, by_key.get(key).copied()));
                messages.longest_row = bytes.clone().max().unwrap_or_default().max(messages.longest_row);
                messages.donated.push(bytes.sum());
                take(rows)
            })
        },
        &mut |rows| waiting.add(rows),
    )?;
    assert!(!path.exists(), "rows that wait in a file have no name");
    waiting.visit(&tables, &mut |table, DonatedRows { keys, rows, .. }| {
        keys.iter().for_each(|key| drop(own.by_key.remove(key)));
        own.by_key.extend(rows.iter().map(|row| (table.key_bytes(row), row.clone())));
        Ok(())
    })?;
    // What was said to come is what has come, and it is what the donor has.
    assert_eq!(found.hash(), own.states().hash());
    assert_eq!(found.hash(), donor_states.hash());
    assert_eq!(own.by_key, donor.by_key);
    Ok(messages)
}

fn assert_short(messages: &Messages) {
    for (ranges, bytes) in &messages.listed {
        assert!(*ranges == 1 || *bytes <= LIMITS.listed, "{messages:?}");
    }
    for bytes in &messages.donated {
        assert!(*bytes < LIMITS.donated + messages.longest_row, "{bytes}: {messages:?}");
    }
}

/// Six thousand rows, so that each range has some.
fn many() -> Rows {
    let mut rows = Rows::default();
    (0..6000).for_each(|id| rows.put(id, &format!("words of row {id}")));
    rows
}

#[test]
fn where_nearly_all_ranges_differ_hashes_and_rows_go_in_short_messages_and_the_repair_is_right() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..5 {
        let (mut own, mut donor) = (many(), many());
        let states = own.states();
        for _ in 0..4000 {
            let id = random.u32(0..7000);
            match random.u32(0..4) {
                0 => own.remove(id),
                1 => donor.remove(id),
                2 => own.put(id, "tampered with"),
                _ => donor.put(id, &"changed by a block ".repeat(random.usize(0..20))),
            }
        }
        let messages = repair(&mut own, &states, &mut donor).expect("a repair");
        assert_short(&messages);
        let ranges: usize = messages.listed.iter().map(|(ranges, _)| ranges).sum();
        assert!(ranges > 900 && messages.listed.len() > 30 && messages.donated.len() > 60, "{messages:?}");
    }
}

#[test]
fn an_emptied_table_comes_back_in_short_messages_with_one_reading_of_the_donor_s() {
    let (mut own, mut donor) = (Rows::default(), many());
    donor.put(3, &"a long row ".repeat(500));
    let states = donor.states();
    let messages = repair(&mut own, &states, &mut donor).expect("a repair");
    assert_short(&messages);
    assert_eq!((messages.listed.len(), donor.readings), (1, 1), "{messages:?}");
    assert!(messages.donated.len() > 100, "{messages:?}");
    // The other way: all rows are to go.
    let (mut own, mut donor) = (many(), Rows::default());
    let states = donor.states();
    assert_short(&repair(&mut own, &states, &mut donor).expect("a repair"));
}

#[test]
fn one_row_of_many_is_one_message_of_one_range_and_the_donor_s_table_is_not_read() {
    let (mut own, mut donor) = (many(), many());
    let states = own.states();
    own.put(77, "tampered with");
    let messages = repair(&mut own, &states, &mut donor).expect("a repair");
    assert_eq!((messages.listed.len(), messages.donated.len(), donor.readings), (1, 1, 0), "{messages:?}");
    assert_eq!(messages.listed[0].0, 1);
}

#[test]
fn a_donor_whose_own_rows_were_changed_says_so() {
    let (mut own, mut donor) = (Rows::default(), many());
    let states = donor.states();
    donor.remove(5);
    let ranges = compare_ranges(1, &states, &range_hashes(&Rows::default().states()));
    let tables = BTreeMap::from([("note".to_owned(), table())]);
    let mut read = OwnRows::read(&mut own, &states).expect("rows");
    let compared = read.compare(
        &states,
        &tables,
        &ranges.differing,
        &LIMITS,
        &mut |listed, take| compare_rows(&mut donor, &states, &listed, LIMITS.donated, take),
        &mut |_| Ok(()),
    );
    let Err(LedgerError::Missing(said)) = compared else { panic!("it has said nothing") };
    assert!(said.contains("the donor's own rows of \"note\" are not"), "{said}");
}
