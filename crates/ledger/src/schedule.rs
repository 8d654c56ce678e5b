//! How the transactions of a block are divided among connections (section 4.6.3, "dependency graph").
//!
//! ```text
//! T1: key 1    T2: key 2    T3: keys 1 and 4    T4: key 3    T5: key 2     conflicts: T1-T3, T2-T5
//! components:  T1 T3   |   T2 T5   |   T4
//! connections: T1 T3   |   T2 T5 T4
//! ```
//! Each component of the graph of conflicts goes whole to one connection, which executes its transactions in the block's order.
//! So no transaction waits for one of another connection, and the effects are those of the block's order.
//!
//! Where we differ from the dissertation: components in place of stages, because what one connection has not committed no other
//! one sees (docs/design/ledger-parallel.md).

use crate::access::{KeyValue, LockReach, RowBox, RowSet, rows_of};
use crate::definition::SharedTable;
use crate::statement::PortableStatement;
use std::collections::{BTreeMap, HashMap};

/// How many pairs of boxes of one table are compared at most; where there are more, all statements on it conflict.
const COMPARISONS_MAX: usize = 4_000_000;

/// A connection gets this many transactions at least: its begin and its commit cost about as much as some of them.
const TRANSACTIONS_PER_CONNECTION_MIN: usize = 16;

/// A block is divided if the largest part has at most this share of it, in percent.
const LARGEST_PART_PERCENT_MAX: usize = 80;

/// A transaction of a block that is to be executed.
#[derive(Debug, Clone, Copy)]
pub struct PlacedTransaction<'a> {
    /// Its place in the block, from 0.
    pub place: usize,
    /// Its statements.
    pub statements: &'a [PortableStatement],
}

/// How a block is divided: indices into its transactions, for each connection in ascending order. Tests have another one.
pub type BlockDivision = fn(
    transactions: &[PlacedTransaction<'_>],
    tables: &BTreeMap<String, SharedTable>,
    reach: LockReach,
    connections: usize,
) -> Vec<Vec<usize>>;

/// Sets that are united.
struct Components(Vec<usize>);

impl Components {
    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn unite(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }
}

/// What the transactions of a block touch of one table.
struct TableRows<'a> {
    table: &'a SharedTable,
    /// A transaction for each key.
    keys: HashMap<Vec<KeyValue>, usize>,
    /// Boxes, each with its transaction.
    boxes: Vec<(usize, RowBox)>,
    /// All that touch it.
    transactions: Vec<usize>,
    /// Whether one of them may touch any row.
    has_all: bool,
}

impl<'a> TableRows<'a> {
    fn new(table: &'a SharedTable) -> TableRows<'a> {
        TableRows { table, keys: HashMap::new(), boxes: Vec::new(), transactions: Vec::new(), has_all: false }
    }

    fn add(&mut self, transaction: usize, rows: RowSet, components: &mut Components) {
        self.transactions.push(transaction);
        match rows {
            RowSet::All => self.has_all = true,
            RowSet::Boxes(boxes) => self.boxes.extend(boxes.into_iter().map(|rows| (transaction, rows))),
            RowSet::Keys(keys) => {
                for key in keys {
                    let other = *self.keys.entry(key).or_insert(transaction);
                    components.unite(other, transaction);
                }
            }
        }
    }

    /// Unites those whose rows may be the same. Keys have been compared as they came.
    fn unite(&self, components: &mut Components) {
        let comparisons = self.boxes.len() * (self.boxes.len() + self.keys.len());
        if self.has_all || comparisons > COMPARISONS_MAX {
            self.transactions.windows(2).for_each(|pair| components.unite(pair[0], pair[1]));
            return;
        }
        if self.boxes.is_empty() {
            return;
        }
        let keys: Vec<(usize, RowBox)> =
            self.keys.iter().map(|(key, at)| (*at, RowBox::of_key(self.table, key))).collect();
        for (at, (transaction, rows)) in self.boxes.iter().enumerate() {
            for (other, others) in self.boxes[at + 1..].iter().chain(&keys) {
                if rows.overlaps(others) {
                    components.unite(*transaction, *other);
                }
            }
        }
    }
}

/// The components of the graph of conflicts, each in the block's order: indices into the transactions. Costs about two
/// microseconds for each statement that names keys, and a comparison with each other one for those that name intervals.
pub fn conflict_components(
    transactions: &[PlacedTransaction<'_>],
    tables: &BTreeMap<String, SharedTable>,
    reach: LockReach,
) -> Vec<Vec<usize>> {
    let mut components = Components((0..transactions.len()).collect());
    let mut rows: BTreeMap<&str, TableRows<'_>> = BTreeMap::new();
    // A statement on a table that nobody knows conflicts with all others; the check of a block lets none pass.
    let mut unknown: Vec<usize> = Vec::new();
    for (at, transaction) in transactions.iter().enumerate() {
        for statement in transaction.statements {
            let Some(table) = tables.get(&statement.table) else {
                unknown.push(at);
                continue;
            };
            let touched = rows.entry(&table.name).or_insert_with(|| TableRows::new(table));
            touched.add(at, rows_of(statement, table, reach), &mut components);
        }
    }
    rows.values().for_each(|rows| rows.unite(&mut components));
    if let Some(first) = unknown.first() {
        (0..transactions.len()).for_each(|at| components.unite(*first, at));
    }
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in 0..transactions.len() {
        found.entry(components.root(at)).or_default().push(at);
    }
    found.into_values().collect()
}

/// Divides a block among at most so many connections, the largest component first, each to the connection that has least so
/// far. One part, or none, means that a division is not worth it.
pub fn divide_block(
    transactions: &[PlacedTransaction<'_>],
    tables: &BTreeMap<String, SharedTable>,
    reach: LockReach,
    connections: usize,
) -> Vec<Vec<usize>> {
    let count = connections.min(transactions.len() / TRANSACTIONS_PER_CONNECTION_MIN);
    let whole = || vec![(0..transactions.len()).collect()];
    if count < 2 {
        return whole();
    }
    let mut components = conflict_components(transactions, tables, reach);
    // Stable, so that the division is a function of the block.
    components.sort_by_key(|component| std::cmp::Reverse(component.len()));
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); count];
    for component in components {
        let least = parts.iter_mut().min_by_key(|part| part.len()).expect("two at least");
        least.extend(component);
    }
    let largest = parts.iter().map(Vec::len).max().unwrap_or_default();
    if largest * 100 > transactions.len() * LARGEST_PART_PERCENT_MAX {
        return whole();
    }
    parts.retain(|part| !part.is_empty());
    parts.iter_mut().for_each(|part| part.sort_unstable());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::LedgerValue;

    fn tables() -> BTreeMap<String, SharedTable> {
        let parse = |sql: &str| SharedTable::parse(sql).expect("a definition");
        [
            "create shared table a (id bigint primary key, n bigint)",
            "create shared table b (id bigint primary key)",
        ]
        .map(|sql| (parse(sql).name.clone(), parse(sql)))
        .into()
    }

    fn statements(transactions: &[&[&str]]) -> Vec<Vec<PortableStatement>> {
        let tables = tables();
        let parse = |sql: &&str| {
            PortableStatement::parse(sql, &[] as &[LedgerValue], &tables)
                .unwrap_or_else(|error| panic!("{sql}: {error}"))
        };
        transactions.iter().map(|transaction| transaction.iter().map(parse).collect()).collect()
    }

    fn components(transactions: &[&[&str]]) -> Vec<Vec<usize>> {
        let statements = statements(transactions);
        conflict_components(&placed(&statements), &tables(), LockReach::Matching)
    }

    fn placed(statements: &[Vec<PortableStatement>]) -> Vec<PlacedTransaction<'_>> {
        statements
            .iter()
            .enumerate()
            .map(|(place, statements)| PlacedTransaction { place, statements })
            .collect()
    }

    const ONE: &str = "update a set n = 1 where id = 1";
    const TWO: &str = "delete from a where id = 2";
    const THREE: &str = "insert into a (id, n) values (3, 1)";

    #[test]
    fn transactions_that_share_no_row_are_apart_and_a_third_may_join_them() {
        assert_eq!(components(&[&[ONE], &[TWO], &[THREE], &[ONE]]), [vec![0, 3], vec![1], vec![2]]);
        assert_eq!(components(&[&[ONE], &[TWO], &[THREE], &[ONE, TWO]]), [vec![0, 1, 3], vec![2]]);
        assert_eq!(components(&[&[ONE], &["delete from b where id = 1"]]), [[0], [1]]);
    }

    #[test]
    fn a_box_conflicts_with_the_keys_and_boxes_that_it_may_share_rows_with() {
        let few = "update a set n = 2 where id between 2 and 3";
        assert_eq!(components(&[&[ONE], &[TWO], &[few], &[THREE]]), [vec![0], vec![1, 2, 3]]);
        let others = "delete from a where id <= 1";
        assert_eq!(components(&[&[ONE], &[few], &[others]]), [vec![0, 2], vec![1]]);
        // Of a column that is no key nothing is known where keys are named.
        assert_eq!(components(&[&[ONE], &["delete from a where n = 5"], &[TWO]]), [[0, 1, 2]]);
    }

    #[test]
    fn what_cannot_be_analysed_conflicts_with_everything_on_its_table_alone() {
        let any = "update a set n = 2 where id * 2 = 4";
        assert_eq!(components(&[&[ONE], &["delete from b where id = 1"], &[any]]), [vec![0, 2], vec![1]]);
    }

    #[test]
    fn too_many_pairs_of_boxes_make_one_component() {
        let wide: Vec<String> = (0..2_100)
            .map(|id| format!("delete from a where id between {} and {}", id * 2, id * 2 + 1))
            .collect();
        let transactions: Vec<[&str; 1]> = wide.iter().map(|sql| [sql.as_str()]).collect();
        let transactions: Vec<&[&str]> = transactions.iter().map(|sql| &sql[..]).collect();
        assert_eq!(components(&transactions).len(), 1);
        assert_eq!(components(&transactions[..100]).len(), 100);
    }

    #[test]
    fn a_division_is_even_keeps_the_blocks_order_and_is_not_made_where_it_is_not_worth_it() {
        let sql: Vec<String> =
            (0..96).map(|at| format!("update a set n = 1 where id = {}", at % 48)).collect();
        let transactions: Vec<[&str; 1]> = sql.iter().map(|sql| [sql.as_str()]).collect();
        let transactions: Vec<&[&str]> = transactions.iter().map(|sql| &sql[..]).collect();
        let statements = statements(&transactions);
        let placed = placed(&statements);
        let parts = divide_block(&placed, &tables(), LockReach::Scanned, 3);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 32]);
        for part in &parts {
            assert!(part.is_sorted() && part.iter().all(|at| part.contains(&((at + 48) % 96))), "{part:?}");
        }
        assert_eq!(divide_block(&placed, &tables(), LockReach::Scanned, 1).len(), 1);
        assert_eq!(divide_block(&placed[..20], &tables(), LockReach::Scanned, 3).len(), 1);
        let hot: Vec<PlacedTransaction<'_>> =
            std::iter::repeat_n(placed[0], 90).chain(placed.clone()).collect();
        assert_eq!(divide_block(&hot[..96], &tables(), LockReach::Scanned, 3).len(), 1);
    }
}
