//! Which statements of a replay can be left out because later ones overwrite what they have written (sections 4.4.7 and 4.4.8:
//! actions whose semantics are known).
//!
//! ```text
//! T1  UPDATE t SET a = 1, b = 2 WHERE id = 7       left out: T3 and T4 write both, and nobody has read them
//! T2  INSERT INTO t (id, a) VALUES (8, 1)          left out: T5 deletes the row
//! T3  UPDATE t SET a = 5 WHERE id = 7
//! T4  UPDATE t SET b = 6 WHERE id = 7
//! T5  DELETE FROM t WHERE id = 8
//! ```
//! Only transactions that have succeeded are here. A statement of a ledger gives each row a value that depends on that row
//! alone, so what it does to one key can be left out without regard to the others. From the last statement to the first, for
//! each key: what later ones write without having read it is overwritten. A statement goes if all that it writes is.
//!
//! What is not known to be about certain keys ([`rows_of`]) may read any row of its table, and keeps all before it. Only a
//! condition of the form `key = value AND ...` over the whole key and nothing else counts as overwriting: of all others it is
//! not known that they hold.
//!
//! That a statement that stays does not fail where others went: it finds a row where it found one, because what decides over
//! that (INSERT, DELETE) goes only if the row is deleted later and no statement on it stays in between; the columns that it
//! reads have the values that they had; and those that it does not read have older values, which have passed their checks.

use crate::access::{KeyValue, LockReach, RowSet, rows_of};
use crate::definition::SharedTable;
use crate::statement::{PortableStatement, StatementVerb};
use crate::token::Token;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What later statements do to the row with a key, as far as it makes earlier ones superfluous.
enum RowFate {
    /// It is deleted, whatever it was.
    Deleted,
    /// These columns get other values, if it is there, before they are read.
    Overwritten(BTreeSet<usize>),
}

type Fates = HashMap<Vec<KeyValue>, RowFate>;

/// What a statement does, if it is known which keys it is about.
struct StatementEffect {
    verb: StatementVerb,
    keys: Vec<Vec<KeyValue>>,
    /// Whether its condition holds for the row with its key, and for no other.
    is_lookup: bool,
    /// Columns whose values it needs, but for the key.
    reads: BTreeSet<usize>,
    /// Columns that it gives a value.
    assigns: BTreeSet<usize>,
}

/// Columns that are named in a part of a statement, and perhaps some that are not.
fn columns_in(statement: &PortableStatement, table: &SharedTable, range: Range<usize>) -> BTreeSet<usize> {
    let column = |token: &Token| match token {
        Token::Word(word) => table.position(word),
        _ => None,
    };
    statement.tokens[range].iter().filter_map(column).collect()
}

/// Whether a condition is `column = value AND ...`, each column of the key once and nothing else. That the values are ones of
/// the columns' types is known from [`rows_of`].
fn is_key_lookup(statement: &PortableStatement, table: &SharedTable) -> bool {
    let condition = statement.tokens.get(statement.condition + 1..).unwrap_or_default();
    let mut columns = BTreeSet::new();
    let is_equality = |part: &[Token]| match part {
        [Token::Word(word), equals, value @ ..] if equals.is_symbol("=") => {
            let is_value = match value {
                [Token::Number(_) | Token::Text(_) | Token::Parameter(_)] => true,
                [minus, Token::Number(_)] => minus.is_symbol("-"),
                _ => false,
            };
            let column = table.position(word).filter(|column| table.key.contains(column));
            is_value && column.is_some_and(|column| columns.insert(column))
        }
        _ => false,
    };
    condition.split(|token| token.is_word("and")).all(is_equality) && columns.len() == table.key.len()
}

/// The columns that an UPDATE gives values, and those that it computes them of.
fn assignments(
    statement: &PortableStatement,
    table: &SharedTable,
) -> Option<(BTreeSet<usize>, BTreeSet<usize>)> {
    let (mut assigned, mut read) = (BTreeSet::new(), BTreeSet::new());
    for part in statement.assignment_parts() {
        let Some(Token::Word(column)) = statement.tokens.get(part.start) else { return None };
        assigned.insert(table.position(column)?);
        read.extend(columns_in(statement, table, (part.start + 1).min(part.end)..part.end));
    }
    Some((assigned, read))
}

/// Nothing if it is not known which keys the statement is about.
fn effect_of(statement: &PortableStatement, table: &SharedTable) -> Option<StatementEffect> {
    let RowSet::Keys(keys) = rows_of(statement, table, LockReach::Matching) else { return None };
    let verb = statement.verb;
    if verb == StatementVerb::Insert {
        let (reads, assigns) = (BTreeSet::new(), BTreeSet::new());
        return Some(StatementEffect { verb, keys, is_lookup: false, reads, assigns });
    }
    let (assigns, computed) = match verb {
        StatementVerb::Update => assignments(statement, table)?,
        _ => (BTreeSet::new(), BTreeSet::new()),
    };
    let mut reads = columns_in(statement, table, statement.condition..statement.tokens.len());
    reads.extend(computed);
    reads.retain(|column| !table.key.contains(column));
    let is_lookup = keys.len() == 1 && is_key_lookup(statement, table);
    Some(StatementEffect { verb, keys, is_lookup, reads, assigns })
}

impl StatementEffect {
    /// Whether all that it does to the row with this key is overwritten.
    fn is_overwritten(&self, fate: Option<&RowFate>) -> bool {
        match fate {
            Some(RowFate::Deleted) => true,
            Some(RowFate::Overwritten(columns)) => {
                self.verb == StatementVerb::Update && self.assigns.is_subset(columns)
            }
            None => false,
        }
    }

    /// What is overwritten before this statement, which stays.
    fn fate_before(&self, after: Option<RowFate>) -> Option<RowFate> {
        let mut columns = match after {
            Some(RowFate::Overwritten(columns)) => columns,
            _ => BTreeSet::new(),
        };
        match self.verb {
            StatementVerb::Insert => return None,
            StatementVerb::Delete if self.is_lookup => return Some(RowFate::Deleted),
            StatementVerb::Delete => {}
            StatementVerb::Update if self.is_lookup => columns.extend(&self.assigns),
            StatementVerb::Update => {}
        }
        columns.retain(|column| !self.reads.contains(column));
        Some(RowFate::Overwritten(columns))
    }
}

/// Whether a statement stays, and what that means for those before it.
fn stays(statement: &PortableStatement, table: &SharedTable, fates: &mut Fates) -> bool {
    let Some(effect) = effect_of(statement, table) else {
        fates.clear();
        return true;
    };
    if !effect.keys.is_empty() && effect.keys.iter().all(|key| effect.is_overwritten(fates.get(key))) {
        return false;
    }
    for key in &effect.keys {
        let after = fates.remove(key);
        if let Some(before) = effect.fate_before(after) {
            fates.insert(key.clone(), before);
        }
    }
    true
}

/// Leaves out the statements of successful transactions, in their order, that later ones overwrite: the tables are the same
/// after the rest. Transactions of which nothing stays are empty. Returns how many statements went. Costs some microseconds
/// for each statement.
pub fn drop_overwritten(
    transactions: &mut [Vec<PortableStatement>],
    tables: &BTreeMap<String, SharedTable>,
) -> u64 {
    let mut fates: BTreeMap<String, Fates> = BTreeMap::new();
    let mut dropped = 0;
    for statements in transactions.iter_mut().rev() {
        let mut kept = Vec::with_capacity(statements.len());
        for statement in statements.drain(..).rev() {
            let is_kept = match tables.get(&statement.table) {
                Some(table) => stays(&statement, table, fates.entry(table.name.clone()).or_default()),
                None => true,
            };
            if is_kept {
                kept.push(statement);
            } else {
                dropped += 1;
            }
        }
        kept.reverse();
        *statements = kept;
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> BTreeMap<String, SharedTable> {
        let sql =
            "create shared table t (id bigint, part varchar(4), a bigint, b bigint, primary key (id, part))";
        let table = SharedTable::parse(sql).expect("a definition");
        BTreeMap::from([(table.name.clone(), table)])
    }

    /// The places of the transactions of one statement each that stay.
    fn kept(statements: &[&str]) -> Vec<usize> {
        let parse = |sql: &&str| {
            let parsed = PortableStatement::parse(sql, &[], &tables());
            vec![parsed.unwrap_or_else(|error| panic!("{sql}: {error}"))]
        };
        let mut transactions: Vec<Vec<PortableStatement>> = statements.iter().map(parse).collect();
        let dropped = drop_overwritten(&mut transactions, &tables());
        let stays = |at: &usize| !transactions[*at].is_empty();
        let kept: Vec<usize> = (0..transactions.len()).filter(stays).collect();
        assert_eq!(dropped as usize, statements.len() - kept.len());
        kept
    }

    const INSERT: &str = "insert into t (id, part, a) values (1, 'x', 5)";
    const SET_A: &str = "update t set a = 1 where id = 1 and part = 'x'";
    const SET_BOTH: &str = "update t set a = 1, b = 2 where part = 'x' and id = 1";
    const ADD_TO_A: &str = "update t set a = a + 1 where id = 1 and part = 'x'";
    const A_OF_B: &str = "update t set a = b where id = 1 and part = 'x'";
    const DELETE: &str = "delete from t where id = 1 and part = 'x'";

    #[test]
    fn the_last_write_of_each_column_stays_and_what_is_read_before_it() {
        assert_eq!(kept(&[SET_A, SET_A, SET_A]), [2]);
        assert_eq!(kept(&[ADD_TO_A, ADD_TO_A, SET_A]), [2]);
        assert_eq!(kept(&[SET_A, ADD_TO_A]), [0, 1]);
        assert_eq!(kept(&[SET_BOTH, SET_A]), [0, 1]);
        assert_eq!(kept(&[SET_A, SET_BOTH]), [1]);
        assert_eq!(kept(&[SET_BOTH, A_OF_B, SET_A]), [0, 2]);
        assert_eq!(kept(&[SET_BOTH, A_OF_B]), [0, 1]);
        assert_eq!(kept(&[SET_A, A_OF_B]), [1]);
    }

    #[test]
    fn what_is_deleted_needs_nothing_before_it_and_what_is_inserted_needs_that_there_is_no_row() {
        assert_eq!(kept(&[INSERT, SET_A, ADD_TO_A, DELETE]), [3]);
        assert_eq!(kept(&[DELETE, INSERT, DELETE]), [2]);
        assert_eq!(kept(&[INSERT, DELETE, INSERT]), [1, 2]);
        assert_eq!(kept(&[INSERT, SET_A]), [0, 1]);
        // The other row that is inserted stays, and so does the deletion without which there would be two.
        let two = "insert into t (id, part, a) values (1, 'x', 5), (2, 'x', 5)";
        assert_eq!(kept(&[DELETE, two, DELETE]), [0, 1, 2]);
    }

    #[test]
    fn a_condition_that_may_not_hold_overwrites_nothing_and_one_that_may_read_all_rows_keeps_all() {
        let perhaps = "update t set a = 1 where id = 1 and part = 'x' and b > 3";
        assert_eq!(kept(&[SET_A, perhaps]), [0, 1]);
        assert_eq!(kept(&[perhaps, SET_A]), [1]);
        assert_eq!(kept(&[SET_BOTH, perhaps, SET_BOTH]), [2]);
        // It reads b, which is written before it and again after it.
        let other_row = "update t set a = 1 where (id, part) in ((1, 'x'), (2, 'x')) and b > 3";
        assert_eq!(kept(&[SET_BOTH, other_row, SET_BOTH]), [0, 1, 2]);
        assert_eq!(kept(&[SET_A, "update t set b = 1 where a > 0", SET_A]), [0, 1, 2]);
        let never = "delete from t where id = 1 and part = 'x' and not (id = 1)";
        assert_eq!(kept(&[INSERT, never]), [0, 1]);
        assert_eq!(kept(&[INSERT, "delete from t where id = 1 and id = 1"]), [0, 1]);
    }
}
