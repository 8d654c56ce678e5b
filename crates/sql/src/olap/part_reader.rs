//! Parts and single rows of a table as batches.

use super::arrow::{identified_batch, record_batch, wide_batch};
use super::batch_copies::CompressedColumns;
use super::block_condition::BlockCondition;
use super::error::external;
use super::target::{number_of, row_of};
use ankerdb_engine::{BlockImage, DataType, Error, ReadView, Table};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat_batches, take, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use std::sync::Arc;

/// Reads parts of a table.
pub(super) struct PartReader {
    pub(super) table: Arc<Table>,
    pub(super) view: ReadView,
    /// Columns of the table, and their types.
    pub(super) columns: Vec<usize>,
    pub(super) types: Vec<DataType>,
    /// The place of the rows' identities among the columns of a batch.
    pub(super) identity: Option<usize>,
    pub(super) schema: SchemaRef,
}

impl PartReader {
    pub(super) fn batch(&self, part: usize) -> Result<RecordBatch> {
        self.batch_with_copies(part, None).map(|(batch, _)| batch)
    }

    /// And compressed copies of the columns of a condition, if there is one.
    pub(super) fn batch_with_copies(
        &self,
        part: usize,
        condition: Option<&BlockCondition>,
    ) -> Result<(RecordBatch, CompressedColumns)> {
        let image = self.view.read(&self.table, part, &self.columns).map_err(external)?;
        let copies = condition
            .map(|condition| condition.compressed(&self.view, &self.table, part, (&image, &self.columns)));
        let identities = self.identity.map(|place| (place, self.identities(part, image.rows)));
        let batch = identified_batch(image, &self.types, &self.schema, identities).map_err(external)?;
        Ok((batch, copies.unwrap_or_default()))
    }

    /// The identities of a part's rows, as [`row_of`] reads them.
    fn identities(&self, part: usize, rows: usize) -> Vec<i64> {
        self.view.row_ids(&self.table, part, rows).into_iter().map(number_of).collect()
    }
}

/// Reads rows by their identities.
pub(super) struct IdentifiedRows {
    parts: PartReader,
    /// In which numerics are wide.
    schema: SchemaRef,
}

impl IdentifiedRows {
    /// Over parts whose columns are read as they are stored.
    pub(super) fn new(parts: PartReader, schema: SchemaRef) -> IdentifiedRows {
        IdentifiedRows { parts, schema }
    }

    /// The columns of these rows, which its view has, in their order; NULLs for none. Reads each block that has one of them once.
    pub(super) fn columns_of(&self, rows: &Int64Array) -> Result<Vec<ArrayRef>> {
        let PartReader { table, view, columns, types, schema, .. } = &self.parts;
        let lost = || external(Error::internal("a row whose identity was read is not there"));
        let mut places = Vec::with_capacity(rows.len());
        for (row, identity) in rows.iter().enumerate() {
            if let Some(identity) = identity {
                let (part, offset) = view.place_of(table, row_of(identity)).ok_or_else(lost)?;
                places.push((part, offset as u32, row));
            }
        }
        places.sort_unstable();
        let mut read = vec![RecordBatch::new_empty(schema.clone())];
        for of_part in places.chunk_by(|one, other| one.0 == other.0) {
            let image = view.read(table, of_part[0].0, columns).map_err(external)?;
            if !of_part.iter().all(|&(_, offset, _)| image.exists(offset as usize)) {
                return Err(lost());
            }
            // Rows keep their places, whichever of them exist.
            let whole = BlockImage { selection: None, ..image };
            let batch = record_batch(whole, types, schema).map_err(external)?;
            let offsets: UInt32Array =
                of_part.iter().map(|&(_, offset, _)| offset).collect::<Vec<_>>().into();
            read.push(take_record_batch(&batch, &offsets)?);
        }
        let read = wide_batch(concat_batches(schema, &read)?, &self.schema).map_err(external)?;
        let mut order: Vec<Option<u32>> = vec![None; rows.len()];
        for (place, &(_, _, row)) in places.iter().enumerate() {
            order[row] = Some(place as u32);
        }
        let order = UInt32Array::from(order);
        read.columns().iter().map(|column| Ok(take(column, &order, None)?)).collect()
    }
}
