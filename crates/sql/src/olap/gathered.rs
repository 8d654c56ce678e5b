//! Batches of few rows, put together.
//!
//! A scan reads blocks, and where a condition or a join leaves a hundred rows of 8,192, what is above pays more for batches than for rows: a
//! join hashes and looks up each batch anew, a repartition hands each to other threads. So rows that are left are gathered until they are about as many
//! as a block has.
//!
//! An operator that wants a few rows does not wait for many: the first batch is given as it comes, and each one behind it when it has more rows than
//! were given before.

use super::arrow::wide_batch;
use super::error::external;
use ankerdb_engine::ROWS_PER_BLOCK;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A batch of as many rows is given as it is.
const ROWS_MANY: usize = ROWS_PER_BLOCK / 8;
/// As many rows are gathered at most, and one batch more.
const ROWS_MAX: usize = ROWS_PER_BLOCK - ROWS_MANY;

/// The rows of a stream in batches that are worth it, with the numerics wide that are wide in `schema`.
pub(super) fn gathered(input: SendableRecordBatchStream, schema: SchemaRef) -> SendableRecordBatchStream {
    Box::pin(GatheredStream { input, schema, few: Vec::new(), few_rows: 0, given: 0, has_ended: false })
}

/// See the module.
struct GatheredStream {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    /// What is not given yet, and how many rows it has.
    few: Vec<RecordBatch>,
    few_rows: usize,
    /// Rows that were given.
    given: usize,
    has_ended: bool,
}

impl GatheredStream {
    /// Adds a batch, and gives one if it is time.
    fn add(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = batch.num_rows();
        let wanted = self.given.min(ROWS_MAX);
        if self.few.is_empty() && (rows >= ROWS_MANY || rows > wanted) {
            return self.give(batch).map(Some);
        }
        if rows > 0 {
            self.few_rows += rows;
            self.few.push(batch);
        }
        match self.few_rows > wanted || rows >= ROWS_MANY {
            true => self.rest(),
            false => Ok(None),
        }
    }

    /// All that is there.
    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        let Some(first) = self.few.first() else { return Ok(None) };
        let together = concat_batches(&first.schema(), &self.few)?;
        (self.few, self.few_rows) = (Vec::new(), 0);
        self.give(together).map(Some)
    }

    fn give(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        self.given += batch.num_rows();
        wide_batch(batch, &self.schema).map_err(external)
    }
}

impl Stream for GatheredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.has_ended {
            let read = ready!(self.input.as_mut().poll_next(context));
            self.has_ended = !matches!(read, Some(Ok(_)));
            let given = match read {
                Some(read) => read.and_then(|batch| self.add(batch)),
                None => self.rest(),
            };
            if let Some(given) = given.transpose() {
                return Poll::Ready(Some(given));
            }
        }
        Poll::Ready(None)
    }
}

impl RecordBatchStream for GatheredStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{AsArray, Int32Array};
    use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use datafusion::error::DataFusionError;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::executor::block_on_stream;
    use std::sync::Arc;

    /// The numbers of rows of batches that are given where batches of so many come, and an error where there is none.
    fn given(batches: &[Option<usize>]) -> Vec<Option<usize>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, false)]));
        let (of, mut next) = (schema.clone(), 0);
        let read: Vec<Result<RecordBatch>> = batches
            .iter()
            .map(|rows| {
                let rows = rows.ok_or_else(|| DataFusionError::Internal("none".into()))? as i32;
                let column = Int32Array::from_iter_values(next..next + rows);
                next += rows;
                Ok(RecordBatch::try_new(of.clone(), vec![Arc::new(column)])?)
            })
            .collect();
        let input = RecordBatchStreamAdapter::new(schema.clone(), futures::stream::iter(read));
        let mut expected = 0;
        block_on_stream(gathered(Box::pin(input), schema))
            .map(|batch| {
                let batch = batch.ok()?;
                for &value in batch.column(0).as_primitive::<Int32Type>().values() {
                    assert_eq!(value, expected);
                    expected += 1;
                }
                Some(batch.num_rows())
            })
            .collect()
    }

    #[test]
    fn the_first_rows_come_at_once_and_then_as_many_as_came_before() {
        assert_eq!(given(&[Some(3); 9]), [3, 6, 12, 6].map(Some));
        assert_eq!(given(&[Some(0), Some(1), Some(0), Some(4)]), [1, 4].map(Some));
        assert_eq!(given(&[]), []);
    }

    #[test]
    fn many_rows_are_not_gathered_and_no_more_than_a_block_has() {
        let few = ROWS_MANY - 1;
        let sizes = given(&vec![Some(few); 100]);
        assert!(sizes.iter().all(|rows| rows.is_some_and(|rows| rows <= ROWS_PER_BLOCK)), "{sizes:?}");
        assert_eq!(sizes.iter().flatten().sum::<usize>(), 100 * few);
        assert!(sizes.len() < 20, "{sizes:?}");
        assert_eq!(
            given(&[Some(5000), Some(ROWS_MANY), Some(7), Some(ROWS_MANY), Some(8)]),
            [Some(5000), Some(ROWS_MANY), Some(7 + ROWS_MANY), Some(8)]
        );
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(given(&[Some(2), Some(1), None, Some(9)]), [Some(2), None]);
    }
}
