//! What follows, at the end of a statement or of the transaction, for rows that refer to a key which is gone.
//!
//! A round takes all keys that are due. What it does to other rows may make more keys due, which are for the next round: so a
//! chain of rows costs no stack, however long it is.

use crate::foreign_key::{converted, no_parent, still_referenced};
use crate::isolation::Isolation;
use crate::lock::{LockWait, Locked};
use crate::references::{LostKey, Orphan};
use crate::refusal::concurrent_update;
use crate::transaction::Transaction;
use crate::write_set::WriteKind;
use ankerdb_base::{Result, RowId};
use ankerdb_table::{ConstraintTiming, ForeignKey, Reference, ReferentialAction, Table};
use ankerdb_value::Value;
use std::sync::Arc;

/// Both sides of a foreign key.
struct Sides {
    parent: Arc<Table>,
    reference: Reference,
    child: Arc<Table>,
    key: ForeignKey,
}

impl Transaction {
    /// Tests the constraints that are due at the end of a statement, unique keys and foreign keys, and does what follows from
    /// them for other rows. To be called after each statement that writes; the commit calls it for what is left. Costs nothing
    /// where no row got a key while another one had it, all rows that were written have parents, and none that was deleted
    /// has children.
    ///
    /// # Errors
    /// `UniqueViolation`, `ForeignKeyViolation`; those of writing to other rows; `SerializationFailure` if such a row has
    /// changed.
    #[inline]
    pub fn check_constraints(&mut self) -> Result<()> {
        if !self.contested.is_empty() {
            self.settle_contested()?;
        }
        if self.references.is_settled() { Ok(()) } else { self.settle_references(false) }
    }

    /// Does what is due; at the end of the transaction everything is.
    #[cold]
    pub(crate) fn settle_references(&mut self, is_end: bool) -> Result<()> {
        loop {
            let mut lost = self.references.take_lost(is_end);
            if lost.is_empty() {
                break;
            }
            // All keys of a foreign key together: without an index they are looked for in one scan.
            lost.sort_by_key(|lost| (lost.parent, lost.reference));
            let mut rest = &lost[..];
            while let [first, ..] = rest {
                let same = |lost: &&LostKey| (lost.parent, lost.reference) == (first.parent, first.reference);
                let count = rest.iter().take_while(same).count();
                self.settle_keys(&rest[..count])?;
                rest = &rest[count..];
            }
        }
        // Keys that have moved along with those that they refer to.
        self.settle_contested()?;
        for orphan in self.references.take_orphans(is_end) {
            self.check_interrupt()?;
            self.settle_orphan(orphan, is_end)?;
        }
        Ok(())
    }

    /// 23503 if the row is still without a parent.
    fn settle_orphan(&mut self, orphan: Orphan, is_end: bool) -> Result<()> {
        let child = self.tables[orphan.child].clone();
        let key = child.definition().foreign_keys[orphan.key].clone();
        let is_there = match self.writes.get(orphan.child, orphan.row) {
            Some(write) => matches!(write.kind, WriteKind::Insert | WriteKind::Update),
            // What was written has been taken back.
            None => false,
        };
        if !is_there {
            return Ok(());
        }
        if !self.has_parent(&child, &key, orphan.row)? {
            let values: Vec<Value> =
                key.columns.iter().map(|&column| self.value(&child, orphan.row, column)).collect();
            let (parent, _) = self.parent_of(&child, &key)?;
            return Err(no_parent(&child, &key, &parent, &values));
        }
        // Behind a savepoint the parent may be taken back again without the child.
        if !is_end && key.timing != ConstraintTiming::Immediate && self.writes.has_savepoint() {
            self.references.orphans.push(Orphan { is_deferred: true, ..orphan });
        }
        Ok(())
    }

    /// Keys of one parent that are gone, and to which one foreign key refers.
    fn settle_keys(&mut self, lost: &[LostKey]) -> Result<()> {
        let parent = self.tables[lost[0].parent].clone();
        let reference = parent.definition().referenced_by[lost[0].reference].clone();
        let Some((child, key)) = self.child_of(&parent, &reference) else { return Ok(()) };
        let key = child.definition().foreign_keys[key].clone();
        let sides = Sides { parent, reference, child, key };
        let mut without_index = Vec::new();
        for lost in lost {
            self.check_interrupt()?;
            if sides.action(lost) == ReferentialAction::NoAction
                && self.has_key(&sides.parent, &sides.reference, &lost.key)?
            {
                continue;
            }
            if !self.settle_by_index(&sides, lost)? {
                without_index.push(lost);
            }
        }
        if !without_index.is_empty() {
            self.settle_by_scan(&sides, &without_index)?;
        }
        Ok(())
    }

    /// Finds and changes the children of a key; false if there is no index to find them by.
    fn settle_by_index(&mut self, sides: &Sides, lost: &LostKey) -> Result<bool> {
        loop {
            let found = self.children(
                &sides.parent,
                (&sides.child, &sides.key),
                &sides.reference,
                &lost.key,
                usize::MAX,
            )?;
            let Some(rows) = found else { return Ok(false) };
            if !rows.is_empty() {
                sides.check_action(lost)?;
            }
            let mut is_done = true;
            for row in rows {
                is_done &= self.act(sides, lost, row)?;
            }
            if is_done {
                return Ok(true);
            }
        }
    }

    /// Like [`settle_by_index`](Self::settle_by_index) for many keys at once, by one look at all rows.
    fn settle_by_scan(&mut self, sides: &Sides, lost: &[&LostKey]) -> Result<()> {
        let keys: Vec<&[Value]> = lost.iter().map(|lost| &lost.key[..]).collect();
        loop {
            let rows =
                self.children_of_any(&sides.parent, (&sides.child, &sides.key), &sides.reference, &keys)?;
            if let Some(&(_, place)) = rows.first() {
                sides.check_action(lost[place])?;
            }
            let mut is_done = true;
            for (row, place) in rows {
                is_done &= self.act(sides, lost[place], row)?;
            }
            if is_done {
                return Ok(());
            }
        }
    }

    /// Does to a row of the child what follows; false if it has changed meanwhile, and the rows have to be found again.
    fn act(&mut self, sides: &Sides, lost: &LostKey, row: RowId) -> Result<bool> {
        self.check_interrupt()?;
        if self.is_interactive() && self.lock(&sides.child, row, LockWait::Wait)? != Locked::Unchanged {
            if self.isolation == Isolation::Serializable {
                return Err(concurrent_update());
            }
            // What is committed now; see `enter`.
            self.enter();
            return Ok(false);
        }
        let columns = &sides.key.columns;
        match (sides.action(lost), &lost.new_key) {
            (ReferentialAction::SetNull, _) => {
                let nulls = sides.set_columns(lost).iter().map(|&column| (column, Value::Null)).collect();
                self.update(&sides.child, row, nulls)?;
            }
            (ReferentialAction::SetDefault, _) => {
                let defaults = sides.defaults(lost)?;
                self.update(&sides.child, row, defaults)?;
            }
            (_, None) => self.delete(&sides.child, row)?,
            (_, Some(new_key)) => {
                let new = sides.in_types_of_child(new_key)?;
                self.update(&sides.child, row, columns.iter().copied().zip(new).collect())?;
            }
        }
        Ok(true)
    }
}

impl Sides {
    fn action(&self, lost: &LostKey) -> ReferentialAction {
        if lost.new_key.is_some() { self.key.on_update } else { self.key.on_delete }
    }

    /// The columns of the child that get other values.
    fn set_columns(&self, lost: &LostKey) -> &[usize] {
        match &self.key.set_columns[..] {
            some if lost.new_key.is_none() && !some.is_empty() => some,
            _ => &self.key.columns,
        }
    }

    /// The defaults that columns of the child get. 23503 if the row would refer to the key that is gone again.
    fn defaults(&self, lost: &LostKey) -> Result<Vec<(usize, Value)>> {
        let set = self.set_columns(lost);
        let former = self.in_types_of_child(&lost.key)?;
        let all = self.key.columns.iter().zip(&self.key.defaults);
        let stays = all
            .clone()
            .zip(&former)
            .all(|((column, default), former)| !set.contains(column) || default == former);
        if stays {
            return Err(still_referenced(&self.parent, &self.reference, &self.child, &lost.key));
        }
        Ok(all
            .filter(|(column, _)| set.contains(column))
            .map(|(column, value)| (*column, value.clone()))
            .collect())
    }

    /// 23503 if nothing follows for the rows that refer to a key, so that it cannot go.
    fn check_action(&self, lost: &LostKey) -> Result<()> {
        match self.action(lost) {
            ReferentialAction::Cascade | ReferentialAction::SetNull | ReferentialAction::SetDefault => Ok(()),
            ReferentialAction::NoAction | ReferentialAction::Restrict => {
                Err(still_referenced(&self.parent, &self.reference, &self.child, &lost.key))
            }
        }
    }

    /// A new key of the parent for the child's columns.
    fn in_types_of_child(&self, key: &[Value]) -> Result<Vec<Value>> {
        let sides = self.key.columns.iter().zip(&self.reference.columns).zip(key);
        sides
            .map(|((&to, &from), value)| {
                let (from, to) = (self.parent.data_type(from), self.child.data_type(to));
                converted(value, from, to).map_or_else(|| ankerdb_value::assign(value.clone(), to), Ok)
            })
            .collect()
    }
}
