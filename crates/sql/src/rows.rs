//! Results as clients read them.
//!
//! The OLTP path hands over complete rows. The OLAP path's arrive while the query runs: a task on the analytical
//! threads sends its batches through a channel that holds a few of them, so a slow reader holds back its own query only.
//! Dropping [`ResultRows`] closes the channel, which ends the task and with it everything that the query holds.
//!
//! Both come as a [`Batch`], which is read cell by cell in place: an analytical result reaches a client without being
//! turned into rows of values.

use crate::columns::Columns;
use crate::result::{batch_of_rows, renamed, schema_of};
use crate::{CancelHandle, OutputColumn};
use ankerdb_engine::{Cause, Error, Interrupt, Result, SqlState, Value, ValueRef};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::RecordBatch;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinError;

/// Batches on their way to the reader.
const BATCHES_IN_FLIGHT: usize = 4;

/// Some rows of a result.
pub struct Batch(Content);

enum Content {
    Values(Vec<Vec<Value>>),
    /// A batch as the OLAP path made it, and the form in which its cells are read.
    Columns(RecordBatch, Columns),
}

impl Batch {
    /// Rows of values.
    pub(crate) fn of_rows(rows: Vec<Vec<Value>>) -> Batch {
        Batch(Content::Values(rows))
    }

    /// So many rows from a position on. Copies values, but not the arrays of the OLAP path.
    pub(crate) fn slice(&self, from: usize, count: usize) -> Result<Batch> {
        Ok(Batch(match &self.0 {
            Content::Values(rows) => Content::Values(rows[from..from + count].to_vec()),
            Content::Columns(batch, _) => {
                let batch = batch.slice(from, count);
                let columns = Columns::new(&batch)?;
                Content::Columns(batch, columns)
            }
        }))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Values(rows) => rows.len(),
            Content::Columns(_, columns) => columns.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cells of one row, in order. Allocates nothing.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = ValueRef<'_>> {
        let width = match &self.0 {
            Content::Values(rows) => rows[row].len(),
            Content::Columns(_, columns) => columns.width(),
        };
        (0..width).map(move |column| self.cell(row, column))
    }

    /// One cell. A few nanoseconds.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[inline]
    pub fn cell(&self, row: usize, column: usize) -> ValueRef<'_> {
        match &self.0 {
            Content::Values(rows) => ValueRef::from(&rows[row][column]),
            Content::Columns(_, columns) => columns.value(row, column),
        }
    }

    /// A column as the array that the OLAP path made it in, if it did.
    pub(crate) fn array(&self, column: usize) -> Option<&ArrayRef> {
        match &self.0 {
            Content::Values(_) => None,
            Content::Columns(batch, _) => batch.columns().get(column),
        }
    }

    /// The rows as an Arrow batch with the result's column names: the OLAP path's own arrays, or new ones of the values that
    /// the OLTP path gave.
    ///
    /// # Errors
    /// `NumericValueOutOfRange` for a column of numerics whose digits need more room than 38 at one scale.
    pub fn into_arrow(self, columns: &[OutputColumn]) -> Result<RecordBatch> {
        match self.0 {
            Content::Values(rows) => batch_of_rows(columns, &rows),
            Content::Columns(batch, _) => renamed(batch, columns),
        }
    }

    /// The rows as values of their own: for readers that keep them.
    pub fn into_rows(self) -> Vec<Vec<Value>> {
        match self.0 {
            Content::Values(rows) => rows,
            Content::Columns(_, columns) => (0..columns.len()).map(|row| columns.row(row)).collect(),
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("rows", &self.len()).finish_non_exhaustive()
    }
}

impl Default for Batch {
    fn default() -> Batch {
        Batch(Content::Values(Vec::new()))
    }
}

impl IntoIterator for Batch {
    type Item = Vec<Value>;
    type IntoIter = std::vec::IntoIter<Vec<Value>>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_rows().into_iter()
    }
}

/// How long the memory behind a query's batches can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lasting {
    /// For as long as the batch lives.
    WithBatch,
    /// Until the query ends, which tells whether the memory was valid to the end: batches are copied before that.
    WithQuery,
}

/// Whether a run of a query has ended for the readers of its rows. Its operators may go on for a while: they check here
/// where they cannot be stopped otherwise. Clones are for the same run.
#[derive(Clone, Default, Debug)]
pub(crate) struct RunEnd(Interrupt);

impl RunEnd {
    /// Whether it has. One load.
    pub(crate) fn has_come(&self) -> bool {
        self.0.cause().is_some()
    }

    /// What computations look at.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.0
    }

    fn come(&self) {
        self.0.raise(Cause::Request);
    }
}

/// A result being read. The OLTP path's are complete; the OLAP path's arrive while the query runs.
pub struct ResultRows {
    columns: Arc<[OutputColumn]>,
    tag: Option<String>,
    /// The first word of the tag if there is no other.
    verb: &'static str,
    is_binary: bool,
    source: Source,
}

/// Gives the next rows.
type Pull = Box<dyn FnMut() -> Result<Option<Batch>> + Send + Sync>;

enum Source {
    Ready(Batch),
    Running(mpsc::Receiver<Result<Batch>>),
    /// Rows of a cursor.
    Pulled(Pull),
    Ended,
}

impl ResultRows {
    /// Complete rows. `tag`: the command tag, if it is not `SELECT <rows>`.
    pub(crate) fn ready(
        columns: Arc<[OutputColumn]>,
        rows: Vec<Vec<Value>>,
        tag: Option<String>,
    ) -> ResultRows {
        let source = Source::Ready(Batch(Content::Values(rows)));
        ResultRows { columns, tag, verb: "SELECT", is_binary: false, source }
    }

    /// Rows that a cursor gives as they are asked for.
    pub(crate) fn fetched(columns: Arc<[OutputColumn]>, is_binary: bool, pull: Pull) -> ResultRows {
        ResultRows { columns, tag: None, verb: "FETCH", is_binary, source: Source::Pulled(pull) }
    }

    /// These rows, as a query gives them.
    pub(crate) fn of_select(self) -> ResultRows {
        ResultRows { verb: "SELECT", ..self }
    }

    /// Rows of a query that `start` begins. It runs on `threads`; a task on `watch` ends it, and tells `end`, when it is
    /// canceled or its reader is gone.
    pub(crate) fn spawn(
        threads: &Handle,
        watch: &Handle,
        columns: Arc<[OutputColumn]>,
        start: impl Future<Output = Result<BoxStream<'static, Result<RecordBatch>>>> + Send + 'static,
        lasting: Lasting,
        cancel: CancelHandle,
        end: RunEnd,
    ) -> ResultRows {
        let (sender, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        let batches = sender.clone();
        let mut query = threads.spawn(async move { send_all(start, lasting, &batches).await });
        watch.spawn(async move {
            let error = tokio::select! {
                biased;
                ended = &mut query => match ended {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error,
                    Err(failure) => lost(failure),
                },
                () = sender.closed() => {
                    end.come();
                    query.abort();
                    return;
                }
                error = cancel.raised() => {
                    end.come();
                    query.abort();
                    error
                }
            };
            // The reader may be gone; then the error is dropped.
            let _ = sender.send(Err(error)).await;
        });
        ResultRows { columns, tag: None, verb: "SELECT", is_binary: false, source: Source::Running(receiver) }
    }

    /// The rows under descriptions of their columns that say where they come from, which the plan of a query does not know.
    pub(crate) fn described(self, columns: Option<&Arc<[OutputColumn]>>) -> ResultRows {
        match columns {
            Some(columns) => ResultRows { columns: columns.clone(), ..self },
            None => self,
        }
    }

    /// Whether all rows are there already.
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self.source, Source::Running(_) | Source::Pulled(_))
    }

    /// Whether a client that has not said anything about formats gets values in binary: the cursor is a BINARY one.
    pub fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Names and types.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// The schema that batches have if none comes: names and types as above. Batches of the OLAP path may hold numerics and
    /// texts in other types of Arrow's.
    pub fn arrow_schema(&self) -> Schema {
        schema_of(&self.columns)
    }

    /// The next rows, or `None` at the end. Sleeps until an analytical query has them.
    ///
    /// # Errors
    /// The query's; 57014 if the statement is to end.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        match &mut self.source {
            Source::Running(receiver) => {
                let received = futures::executor::block_on(receiver.recv());
                self.received(received)
            }
            Source::Pulled(pull) => {
                let pulled = pull().transpose();
                self.received(pulled)
            }
            _ => Ok(self.take_ready()),
        }
    }

    /// The next rows, for a reader that another statement may end than the one that began the query.
    ///
    /// # Errors
    /// Those of the query, and of that statement's interrupt.
    pub(crate) fn next_batch_unless(&mut self, cancel: &CancelHandle) -> Result<Option<Batch>> {
        let Source::Running(receiver) = &mut self.source else { return self.next_batch() };
        let received = futures::executor::block_on(async {
            tokio::select! {
                biased;
                error = cancel.raised() => Some(Err(error)),
                received = receiver.recv() => received,
            }
        });
        self.received(received)
    }

    fn received(&mut self, received: Option<Result<Batch>>) -> Result<Option<Batch>> {
        match received {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => {
                self.source = Source::Ended;
                Err(error)
            }
            None => {
                self.source = Source::Ended;
                Ok(None)
            }
        }
    }

    fn take_ready(&mut self) -> Option<Batch> {
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Ready(rows) if !rows.is_empty() => Some(rows),
            _ => None,
        }
    }

    /// Whether they are those of a query, and of nothing that writes.
    pub(crate) fn are_of_query(&self) -> bool {
        self.tag.is_none()
    }

    /// The command tag once all `rows` rows were read.
    pub fn tag(&self, rows: usize) -> String {
        self.tag.clone().unwrap_or_else(|| format!("{} {rows}", self.verb))
    }
}

async fn send_all(
    start: impl Future<Output = Result<BoxStream<'static, Result<RecordBatch>>>>,
    lasting: Lasting,
    sender: &mpsc::Sender<Result<Batch>>,
) -> Result<()> {
    let mut batches = start.await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let columns = Columns::new(&batch)?;
        let batch = Batch(Content::Columns(batch, columns));
        let batch = match lasting {
            Lasting::WithBatch => batch,
            Lasting::WithQuery => Batch(Content::Values(batch.into_rows())),
        };
        if !batch.is_empty() && sender.send(Ok(batch)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The error of a query that neither finished nor failed. A panic is a bug, but only of this query.
pub(crate) fn lost(failure: JoinError) -> Error {
    let Ok(panic) = failure.try_into_panic() else {
        return Error::new(SqlState::AdminShutdown, "the database is shutting down");
    };
    let message =
        panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Error::internal(format!("the query failed unexpectedly: {}", message.unwrap_or("no reason given")))
}
