//! Digests of changed rows (section 4.5.2): for each change the row's key, a counter for changes of one key, what kind of
//! change it was, and the hashes of the row before and after. The dissertation has the hash after only; that before finds a row
//! that was corrupted and is then overwritten, and lets the fingerprint of a table follow.
//!
//! Databases collate keys in their own ways, so the order is ours: by table, then the bytes of the key, then the counter.

use crate::bytes::CanonicalWriter;
use crate::definition::SharedTable;
use crate::hash::LedgerHash;
use crate::ranges::TableSums;
use crate::value::{decode_row, show_content};
use std::collections::BTreeMap;

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowChange {
    /// Of which table.
    pub table: String,
    /// The canonical encoding of its key.
    pub key: Vec<u8>,
    /// Counts the changes of this key in the block, from 0.
    pub serial: u32,
    /// The row before; none if it was inserted.
    pub old: Option<LedgerHash>,
    /// The row after; none if it was deleted.
    pub new: Option<LedgerHash>,
}

impl RowChange {
    /// `I`, `U` or `D`.
    pub fn kind(&self) -> char {
        match (self.old, self.new) {
            (None, _) => 'I',
            (_, None) => 'D',
            _ => 'U',
        }
    }

    /// For people: `savings (17) U 3b50 -> 91af`.
    pub fn show(&self, table: Option<&SharedTable>) -> String {
        let hash = |hash: &Option<LedgerHash>| hash.map_or("nothing".to_owned(), |hash| hash.short());
        let key = show_key(&self.key, table);
        format!("{} {key} {} {} -> {}", self.table, self.kind(), hash(&self.old), hash(&self.new))
    }
}

/// The key of a row for people: `(17)`.
pub fn show_key(key: &[u8], table: Option<&SharedTable>) -> String {
    let values = table.and_then(|table| decode_row(key, table.key.len()).ok()).unwrap_or_default();
    format!("({})", values.iter().map(show_content).collect::<Vec<_>>().join(", "))
}

/// Puts changes, in the order in which they were made, into the order of the digest, and counts those of each key. Changes
/// that change nothing go: some databases report them and others do not.
pub fn in_digest_order(mut changes: Vec<RowChange>) -> Vec<RowChange> {
    changes.retain(|change| change.old != change.new);
    changes.sort_by(|one, other| (&one.table, &one.key).cmp(&(&other.table, &other.key)));
    let mut serial = 0;
    for at in 0..changes.len() {
        let is_next =
            at > 0 && changes[at - 1].table == changes[at].table && changes[at - 1].key == changes[at].key;
        serial = if is_next { serial + 1 } else { 0 };
        changes[at].serial = serial;
    }
    changes
}

/// The hash of all digests of a block.
pub fn digest_hash(changes: &[RowChange]) -> LedgerHash {
    let mut writer = CanonicalWriter::default();
    writer.count(changes.len());
    for change in changes {
        writer.bytes(change.table.as_bytes()).bytes(&change.key).u32(change.serial).byte(change.kind() as u8);
        for hash in [change.old, change.new] {
            writer.fixed(&hash.unwrap_or_default().0);
        }
    }
    LedgerHash::of("digest", &[&writer.finish()])
}

/// The shared tables, and what their rows add up to.
#[derive(Debug, Clone, Default)]
pub struct TableStates {
    /// Definitions by name.
    pub tables: BTreeMap<String, SharedTable>,
    /// What the rows of each add up to.
    pub sums: BTreeMap<String, TableSums>,
}

impl TableStates {
    /// A new table, without rows.
    pub fn define(&mut self, table: SharedTable) {
        self.sums.insert(table.name.clone(), TableSums::default());
        self.tables.insert(table.name.clone(), table);
    }

    /// Follows changes of rows.
    pub fn apply(&mut self, changes: &[RowChange]) {
        for change in changes {
            let sums = self.sums.entry(change.table.clone()).or_default();
            change.old.iter().for_each(|row| sums.remove(&change.key, row));
            change.new.iter().for_each(|row| sums.add(&change.key, row));
        }
    }

    /// The hash of all tables.
    pub fn hash(&self) -> LedgerHash {
        let mut writer = CanonicalWriter::default();
        writer.count(self.tables.len());
        for (name, table) in &self.tables {
            let fingerprint = self.sums.get(name).map(|sums| sums.fingerprint().hash()).unwrap_or_default();
            writer.fixed(&table.hash().0).fixed(&fingerprint.0);
        }
        LedgerHash::of("state", &[&writer.finish()])
    }
}
