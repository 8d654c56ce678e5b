//! Foreign keys: whether the rows that a row refers to are there.

use crate::catalog::Catalog;
use ankerdb_base::{Error, Result, RowId};
use ankerdb_table::{Entries, ForeignKey, Index, ReadAt, Storage, Table};
use ankerdb_transaction::converted;
use ankerdb_value::Value;
use crossbeam_epoch::Guard;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A foreign key of a table, with the index of the parent that has its keys.
pub(super) struct Parent<'a> {
    pub(super) key: &'a ForeignKey,
    pub(super) table: Arc<Table>,
    index: Arc<Index>,
    /// For each part of the index the place among the columns of the foreign key.
    parts: Vec<usize>,
    /// The parent's columns, in the order of the child's.
    columns: Vec<usize>,
}

/// What a row refers to.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Referred {
    /// A row that is there, or nothing.
    Well,
    /// A row that is not there.
    Missing,
    /// NULL in some columns of several that are all NULL or none.
    Mixed,
}

impl<'a> Parent<'a> {
    /// # Errors
    /// Internal ones that say what is missing of the parent.
    pub(super) fn of(catalog: &Catalog, child: &Table, key: &'a ForeignKey) -> Result<Parent<'a>> {
        let lacks = |what: &str| Error::internal(format!("foreign key \"{}\" has no {what}", key.name));
        let table = catalog.by_origin(key.parent).ok_or_else(|| lacks("table that it refers to"))?;
        let mut sides = table.definition().referenced_by.iter();
        let side = sides.find(|side| side.child == child.origin() && side.name == key.name);
        let columns = side.ok_or_else(|| lacks("other side in the table that it refers to"))?.columns.clone();
        let is_key = |index: &&Arc<Index>| {
            let definition = index.definition();
            definition.unique
                && index.derivation().is_none()
                && definition.columns.len() == columns.len()
                && definition.columns.iter().all(|column| columns.contains(column))
        };
        let index = table.maintained_indexes().map(|(_, index)| index).find(is_key).cloned();
        let index = index.ok_or_else(|| lacks("unique index in the table that it refers to"))?;
        let place = |column: &usize| columns.iter().position(|other| other == column);
        let parts = index.definition().columns.iter().filter_map(place).collect();
        Ok(Parent { key, table, index, parts, columns })
    }

    /// What a row of the child, given by its values in the key's columns, refers to.
    ///
    /// # Errors
    /// Internal ones.
    pub(super) fn referred(&self, child: &Table, values: &[Value], pin: &Guard) -> Result<Referred> {
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if nulls > 0 {
            let is_mixed = self.key.is_full && nulls < values.len();
            return Ok(if is_mixed { Referred::Mixed } else { Referred::Well });
        }
        let pairs = self.key.columns.iter().zip(&self.columns).zip(values);
        let converted = pairs
            .map(|((&from, &to), value)| converted(value, child.data_type(from), self.table.data_type(to)));
        let Some(values) = converted.collect::<Option<Vec<Value>>>() else { return Ok(Referred::Missing) };
        let values: Vec<Value> = self.parts.iter().map(|part| values[*part].clone()).collect();
        let mut key = Vec::new();
        self.index.encode(&values, &mut key)?;
        let storage = Storage::of(&self.table);
        let mut outcome = Ok(Referred::Missing);
        Entries::of(&self.index).get(&key, |row| {
            let row = RowId(row);
            // Entries that lead nowhere are told elsewhere.
            let is_there = row.block().0 < storage.block_count();
            let own = if is_there { storage.key_at(&self.index, row, ReadAt::Newest, pin) } else { Ok(None) };
            match own {
                Ok(Some((own, _))) if own == key => outcome = Ok(Referred::Well),
                Ok(_) => return ControlFlow::Continue(()),
                Err(error) => outcome = Err(error),
            }
            ControlFlow::Break(())
        });
        outcome
    }
}
