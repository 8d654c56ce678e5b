//! Foreign keys, tested where a row is written (docs/design/foreign-keys.md).
//!
//! ```text
//! child    a row with a key is written: the parent's row is looked up at once. If it is not there, the row is an orphan,
//!          and is looked at again at the end of the statement, or of the transaction
//! parent   a row loses a key: children with it are looked up at once. If there are none, nothing is left to do; else the
//!          key is kept for the end (`referential_action`)
//! ```
//!
//! Neither side locks the other's rows. What is looked up is noted as read, at every level of isolation, and nothing else is
//! noted below SERIALIZABLE: so if one transaction deletes a parent while another one inserts a child, the second to commit
//! finds the first one's write among its reads, and ends with 40001. Where statements read at later timestamps than the
//! ones before, what is noted has to hold at each of them ([`Transaction::enter`]).

use crate::read_set::{KeyRange, RowFilter};
use crate::references::{LostKey, Orphan, References};
use crate::transaction::Transaction;
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, SqlState, TableId};
use ankerdb_index::Direction;
use ankerdb_sync::memory_limit::Claim;
use ankerdb_table::{ForeignKey, Index, IndexDefinition, IndexKind, Reference, ReferentialAction, Table};
use ankerdb_value::{DataType, Value, cast, compare, format_text, push_value};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The new value of a column, if a change has one.
pub(crate) type NewValue<'a> = &'a dyn Fn(usize) -> Option<Value>;

/// Bytes that a kept key takes, approximately.
const LOST_KEY_BYTES: usize = 160;

impl Transaction {
    /// The tables that this transaction sees from now on as the other sides of foreign keys, instead of those that all see.
    pub fn set_relations(&mut self, relations: Option<Arc<dyn crate::Relations>>) {
        self.references.relations = relations;
    }

    /// Has foreign keys that can be deferred tested at the end of this transaction, or at that of each statement: those with
    /// these names, or all. The caller [tests](Self::check_constraints) those that are not deferred any more.
    pub fn set_deferred(&mut self, names: &[String], is_deferred: bool) {
        self.references.set_deferred(names, is_deferred);
        let (mut orphans, mut lost) =
            (std::mem::take(&mut self.references.orphans), std::mem::take(&mut self.references.lost));
        for orphan in &mut orphans {
            let key = &self.tables[orphan.child].definition().foreign_keys[orphan.key];
            orphan.is_deferred = self.references.is_deferred(&key.name, key.timing);
        }
        for lost in &mut lost {
            let parent = &self.tables[lost.parent];
            if let Some((child, key)) =
                self.child_of(parent, &parent.definition().referenced_by[lost.reference])
            {
                let key = &child.definition().foreign_keys[key];
                lost.is_deferred = self.is_deferred(key, lost.new_key.is_some());
            }
        }
        (self.references.orphans, self.references.lost) = (orphans, lost);
    }

    /// Whether a foreign key from or to this table is left to be tested when the transaction ends.
    pub fn has_deferred(&self, table: &Table) -> bool {
        let is_table = |number: usize| self.tables[number].id() == table.id();
        let References { orphans, lost, .. } = &self.references;
        orphans.iter().any(|orphan| is_table(orphan.child)) || lost.iter().any(|lost| is_table(lost.parent))
    }

    /// Fails if a foreign key from or to this table is left to be tested when the transaction ends: `command` would take away
    /// what the test needs.
    ///
    /// # Errors
    /// `ObjectInUse`.
    pub fn check_none_deferred(&self, table: &Table, command: &str) -> Result<()> {
        if !self.has_deferred(table) {
            return Ok(());
        }
        let message = format!("cannot {command} \"{}\" because it has pending trigger events", table.name());
        Err(Error::new(SqlState::ObjectInUse, message))
    }

    /// Forgets what is left to be tested for a foreign key that goes: the one at these positions among those of the child, and
    /// among the references to the parent. What is behind it moves up.
    ///
    /// # Errors
    /// `ObjectInUse` if something is left and a savepoint could bring the foreign key back.
    pub fn forget_foreign_key(
        &mut self,
        child: (&Table, usize),
        parent: (&Table, Option<usize>),
    ) -> Result<()> {
        let Self { references: References { orphans, lost, .. }, tables, writes, .. } = self;
        let is = |number: usize, table: &Table| tables[number].origin() == table.origin();
        let is_orphan = |orphan: &Orphan| is(orphan.child, child.0) && orphan.key == child.1;
        let is_lost = |lost: &LostKey| is(lost.parent, parent.0) && Some(lost.reference) == parent.1;
        if writes.has_savepoint() && (orphans.iter().any(is_orphan) || lost.iter().any(is_lost)) {
            let message =
                format!("cannot DROP TRIGGER \"{}\" because it has pending trigger events", child.0.name());
            return Err(Error::new(SqlState::ObjectInUse, message));
        }
        orphans.retain(|orphan| !is_orphan(orphan));
        lost.retain(|lost| !is_lost(lost));
        for orphan in orphans.iter_mut().filter(|orphan| is(orphan.child, child.0)) {
            orphan.key -= usize::from(orphan.key > child.1);
        }
        for lost in lost.iter_mut().filter(|lost| is(lost.parent, parent.0)) {
            lost.reference -= usize::from(Some(lost.reference) > parent.1 && parent.1.is_some());
        }
        Ok(())
    }

    /// Whether the loss of a key is looked at when the transaction ends. What follows for other rows follows at once.
    fn is_deferred(&self, key: &ForeignKey, is_update: bool) -> bool {
        let follows = if is_update { key.on_update } else { key.on_delete };
        follows == ReferentialAction::NoAction && self.references.is_deferred(&key.name, key.timing)
    }

    /// After a row was written: that each key which it has now is there, or the row is an orphan.
    #[inline]
    pub(crate) fn check_parents(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        changed: Option<ColumnSet>,
    ) -> Result<()> {
        if table.definition().foreign_keys.is_empty() {
            return Ok(());
        }
        self.look_for_parents(table, row, changed)
    }

    #[cold]
    fn look_for_parents(&mut self, table: &Arc<Table>, row: RowId, changed: Option<ColumnSet>) -> Result<()> {
        let child = self.tables.number(table)?;
        for (position, key) in table.definition().foreign_keys.iter().enumerate() {
            let is_kept = changed.is_some_and(|changed| !changed.intersects(key.column_set()));
            if !is_kept && !self.has_parent(table, key, row)? {
                let is_deferred = self.references.is_deferred(&key.name, key.timing);
                self.make_room_to_note(self.references.orphans.len(), size_of::<Orphan>())?;
                let no_room = |_| Error::out_of_memory(size_of::<Orphan>());
                self.references.orphans.try_reserve(1).map_err(no_room)?;
                self.references.orphans.push(Orphan { child, key: position, row, is_deferred });
            }
        }
        Ok(())
    }

    /// Whether the row refers to nothing, or to a row that is there.
    pub(crate) fn has_parent(&mut self, table: &Arc<Table>, key: &ForeignKey, row: RowId) -> Result<bool> {
        self.noting(|this| {
            // Of a key over several columns the statement may have changed one.
            this.note_columns_read(table, row, key.column_set());
            let values: Vec<Value> =
                key.columns.iter().map(|&column| this.value(table, row, column)).collect();
            let nulls = values.iter().filter(|value| value.is_null()).count();
            if key.is_full && nulls > 0 && nulls < values.len() {
                return Err(mixed_nulls(table, key));
            }
            if nulls > 0 {
                return Ok(true);
            }
            let (parent, reference) = this.parent_of(table, key)?;
            let reference = &parent.definition().referenced_by[reference];
            let pairs = key.columns.iter().zip(&reference.columns).zip(&values);
            let converted = pairs
                .map(|((&from, &to), value)| converted(value, table.data_type(from), parent.data_type(to)));
            match converted.collect::<Option<Vec<_>>>() {
                Some(values) => this.has_key(&parent, reference, &values),
                None => Ok(false),
            }
        })
    }

    /// The parent, and the position of the other side of the key.
    pub(crate) fn parent_of(&self, child: &Table, key: &ForeignKey) -> Result<(Arc<Table>, usize)> {
        let parent = self.relation(key.parent);
        let found = parent.and_then(|parent| {
            let is_side = |side: &Reference| side.child == child.origin() && side.name == key.name;
            let position = parent.definition().referenced_by.iter().position(is_side)?;
            Some((parent, position))
        });
        // Another transaction has taken the constraint away, and this one works by older definitions.
        found.ok_or_else(|| crate::refusal::redefined(child))
    }

    /// The child, and the position of its side of a key; `None` if the constraint is gone.
    pub(crate) fn child_of(&self, parent: &Table, reference: &Reference) -> Option<(Arc<Table>, usize)> {
        let child = self.relation(reference.child)?;
        let is_side = |key: &ForeignKey| key.parent == parent.origin() && key.name == reference.name;
        let position = child.definition().foreign_keys.iter().position(is_side)?;
        Some((child, position))
    }

    fn relation(&self, origin: TableId) -> Option<Arc<Table>> {
        match &self.references.relations {
            Some(own) => own.relation(origin),
            None => {
                let touched = self.tables.iter().rfind(|table| table.origin() == origin).cloned();
                touched.or_else(|| self.manager.relation(origin))
            }
        }
    }

    /// Whether a row of the parent has the key, given in the parent's types.
    pub(crate) fn has_key(
        &mut self,
        parent: &Arc<Table>,
        reference: &Reference,
        key: &[Value],
    ) -> Result<bool> {
        let columns = ColumnSet::of(&reference.columns);
        let is_key = |index: &ankerdb_table::Index| {
            let definition = index.definition();
            definition.unique
                && definition.columns.len() == reference.columns.len()
                && definition.columns.iter().all(|column| reference.columns.contains(column))
        };
        let found = parent.usable_indexes().find(|(_, index)| is_key(index) && !index.is_dropped());
        let Some((position, index)) = found.map(|(position, index)| (position, index.clone())) else {
            return Err(crate::refusal::redefined(parent));
        };
        let mut bytes = Vec::new();
        index.encode(&in_order_of(&index.definition().columns, &reference.columns, key), &mut bytes)?;
        self.noting(|this| Ok(this.find(parent, position, &bytes, columns)?.is_some()))
    }

    /// Before a row is deleted, or changed by `change` in some columns: keeps the keys that it loses and to which others refer.
    #[inline]
    pub(crate) fn keep_lost_keys(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        change: Option<(ColumnSet, NewValue<'_>)>,
    ) -> Result<()> {
        if table.definition().referenced_by.is_empty() {
            return Ok(());
        }
        self.look_for_children(table, row, change)
    }

    #[cold]
    fn look_for_children(
        &mut self,
        table: &Arc<Table>,
        row: RowId,
        change: Option<(ColumnSet, NewValue<'_>)>,
    ) -> Result<()> {
        let parent = self.tables.number(table)?;
        if self.references.emptied.contains(&parent) {
            return Ok(());
        }
        for (position, reference) in table.definition().referenced_by.iter().enumerate() {
            if change.is_some_and(|(changed, _)| !changed.intersects(ColumnSet::of(&reference.columns))) {
                continue;
            }
            let key: Vec<Value> =
                reference.columns.iter().map(|&column| self.value(table, row, column)).collect();
            let new_key: Option<Vec<Value>> = change.map(|(_, change)| {
                let new = |(&column, old): (&usize, &Value)| change(column).unwrap_or_else(|| old.clone());
                reference.columns.iter().zip(&key).map(new).collect()
            });
            if key.iter().any(Value::is_null) || new_key.as_ref() == Some(&key) {
                continue;
            }
            let Some((child, foreign)) = self.child_of(table, reference) else { continue };
            let foreign = &child.definition().foreign_keys[foreign];
            let found = self.children(table, (&child, foreign), reference, &key, 1)?;
            if found.is_some_and(|rows| rows.is_empty()) {
                continue;
            }
            let is_deferred = self.is_deferred(foreign, new_key.is_some());
            self.make_room_to_note(self.references.lost.len(), LOST_KEY_BYTES)?;
            let no_room = |_| Error::out_of_memory(LOST_KEY_BYTES);
            self.references.lost.try_reserve(1).map_err(no_room)?;
            self.references.lost.push(LostKey { parent, reference: position, key, new_key, is_deferred });
        }
        Ok(())
    }

    /// At most so many rows of the child with a key, found by an index; `None` if there is none for it.
    pub(crate) fn children(
        &mut self,
        parent: &Arc<Table>,
        (child, foreign): (&Arc<Table>, &ForeignKey),
        reference: &Reference,
        key: &[Value],
        limit: usize,
    ) -> Result<Option<Vec<RowId>>> {
        let Some((position, index)) = self.index_of(child, foreign) else { return Ok(None) };
        let sides = foreign.columns.iter().zip(&reference.columns).zip(key);
        let key: Option<Vec<Value>> = sides
            .map(|((&to, &from), value)| converted(value, parent.data_type(from), child.data_type(to)))
            .collect();
        let Some(key) = key else { return Ok(Some(Vec::new())) };
        let columns = &index.definition().columns[..foreign.columns.len()];
        let mut bytes = Vec::new();
        index.encode(&in_order_of(columns, &foreign.columns, &key), &mut bytes)?;
        let range = match index.definition().kind {
            IndexKind::Ordered => KeyRange::prefix(&bytes),
            IndexKind::Hash => KeyRange::exactly(&bytes),
        };
        let mut rows = Vec::new();
        self.noting(|this| {
            let columns = foreign.column_set();
            this.scan_index(child, position, &range, Direction::Forward, columns, &mut |_, row| {
                rows.push(row);
                Ok(if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })
        })?;
        Ok(Some(rows))
    }

    /// An index of the child that begins with the columns of a foreign key.
    fn index_of(&self, child: &Table, foreign: &ForeignKey) -> Option<(IndexPosition, Arc<Index>)> {
        let count = foreign.columns.len();
        let begins = |index: &Index| {
            let IndexDefinition { columns, kind, .. } = index.definition();
            let fits = columns.len() == count || (columns.len() > count && *kind == IndexKind::Ordered);
            fits && columns[..count].iter().all(|column| foreign.columns.contains(column))
        };
        let is_usable = |index: &Index| !index.is_dropped() && index.valid_from() <= self.start;
        let mut indexes = child.usable_indexes();
        let found = indexes.find(|(_, index)| is_usable(index) && begins(index));
        found.map(|(position, index)| (position, index.clone()))
    }

    /// The rows of the child with one of these keys, each with the key's position. Costs a look at all rows.
    pub(crate) fn children_of_any(
        &mut self,
        parent: &Arc<Table>,
        (child, foreign): (&Arc<Table>, &ForeignKey),
        reference: &Reference,
        keys: &[&[Value]],
    ) -> Result<Vec<(RowId, usize)>> {
        let types: Vec<DataType> = reference.columns.iter().map(|&column| parent.data_type(column)).collect();
        let mut places = HashMap::with_capacity(keys.len());
        for (place, key) in keys.iter().enumerate() {
            self.check_interrupt()?;
            let mut bytes = Vec::new();
            key.iter().zip(&types).try_for_each(|(value, &to)| push_value(&mut bytes, value, to, true))?;
            places.insert(bytes, place);
        }
        let columns = foreign.columns.clone();
        let from: Vec<DataType> = columns.iter().map(|&column| child.data_type(column)).collect();
        let place = Arc::new(move |value: &dyn Fn(usize) -> Value| -> Option<usize> {
            let mut bytes = Vec::new();
            for ((&column, &from), &to) in columns.iter().zip(&from).zip(&types) {
                let value = value(column);
                let value = if value.is_null() { None } else { converted(&value, from, to) };
                push_value(&mut bytes, &value?, to, true).ok()?;
            }
            places.get(&bytes).copied()
        });
        let (test, mut rows) = (place.clone(), Vec::new());
        let filter: RowFilter = Arc::new(move |value| test(value).is_some());
        self.noting(|this| {
            this.scan_table(child, foreign.column_set(), Some(filter), &mut |this, row| {
                let place = place(&|column| this.value(child, row, column));
                rows.extend(place.map(|place| (row, place)));
                Ok(ControlFlow::Continue(()))
            })
        })?;
        Ok(rows)
    }

    /// From here on up to [`emptied`](Self::emptied), rows of the table are deleted together with all rows that refer to them.
    ///
    /// # Errors
    /// `UndefinedTable` if a table is of another database.
    pub fn begin_emptying(&mut self, table: &Arc<Table>) -> Result<()> {
        let parent = self.tables.number(table)?;
        for reference in &table.definition().referenced_by {
            if let Some((child, key)) = self.child_of(table, reference) {
                // Rows that others insert meanwhile.
                let columns = child.definition().foreign_keys[key].column_set();
                self.noting(|this| this.note_table_read(&child, columns, None))?;
            }
        }
        self.references.emptied.push(parent);
        Ok(())
    }

    /// See [`begin_emptying`](Self::begin_emptying).
    pub fn emptied(&mut self) {
        self.references.emptied.clear();
    }

    /// Reads for a constraint: what is read is noted at every level.
    fn noting<T>(&mut self, read: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.references.is_noting, true);
        let outcome = read(self);
        self.references.is_noting = before;
        outcome
    }

    /// Room for one more of what is kept for the end, of which there are `kept`.
    pub(crate) fn make_room_to_note(&mut self, kept: usize, bytes: usize) -> Result<()> {
        if kept >= KEPT_UNASKED && kept.is_power_of_two() {
            self.admit(Claim::Write, kept * bytes)?;
        }
        Ok(())
    }
}

/// What is kept without asking for memory.
const KEPT_UNASKED: usize = 1024;

/// Values for some columns, in the order of others.
fn in_order_of(wanted: &[usize], columns: &[usize], values: &[Value]) -> Vec<Value> {
    let place = |column: &usize| columns.iter().position(|given| given == column);
    wanted.iter().filter_map(place).map(|place| values[place].clone()).collect()
}

/// The value in another type, if that has one that is equal.
pub fn converted(value: &Value, from: DataType, to: DataType) -> Option<Value> {
    if from == to {
        return Some(value.clone());
    }
    let other = cast(value.clone(), to).ok()?;
    (compare(value, &other).ok()? == Some(Ordering::Equal)).then_some(other)
}

/// `ForeignKeyViolation` for a row of the child, given by its values in the key's columns, that has no parent.
#[cold]
pub fn no_parent(child: &Table, key: &ForeignKey, parent: &Table, values: &[Value]) -> Error {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        child.name(),
        key.name
    );
    let shown = shown(child, &key.columns, values);
    let detail = format!("Key {shown} is not present in table \"{}\".", parent.name());
    violation(child, &key.name, message, &detail)
}

/// 23503 for a row that others refer to.
#[cold]
pub(crate) fn still_referenced(parent: &Table, reference: &Reference, child: &Table, key: &[Value]) -> Error {
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        parent.name(),
        reference.name,
        child.name()
    );
    let shown = shown(parent, &reference.columns, key);
    let detail = format!("Key {shown} is still referenced from table \"{}\".", child.name());
    violation(child, &reference.name, message, &detail)
}

/// `ForeignKeyViolation` for a key with NULL in some columns and not in others (`MATCH FULL`).
#[cold]
pub fn mixed_nulls(child: &Table, key: &ForeignKey) -> Error {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        child.name(),
        key.name
    );
    let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
    violation(child, &key.name, message, detail)
}

fn violation(child: &Table, constraint: &str, message: String, detail: &str) -> Error {
    Error::new(SqlState::ForeignKeyViolation, message)
        .with_detail(detail)
        .with_table(child.schema(), child.name())
        .with_constraint(constraint)
}

/// A key with its columns' names: `(a, b)=(1, 2)`.
fn shown(table: &Table, columns: &[usize], values: &[Value]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| &table.columns()[column].name[..]).collect();
    let text = |(&column, value): (&usize, &Value)| {
        let mut text = String::new();
        format_text(value, table.data_type(column), &mut text);
        text
    };
    let values: Vec<String> = columns.iter().zip(values).map(text).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}
