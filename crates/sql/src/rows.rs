//! Results as clients read them.
//!
//! The OLTP path hands over complete rows. The OLAP path's arrive while the query runs: a task on the analytical
//! threads reads batches, turns them into rows and sends them through a channel that holds a few batches, so
//! a slow reader holds back its own query only. Dropping [`Rows`] closes the channel, which ends the task and
//! with it everything that the query holds.

use crate::olap::{rows_of, translate};
use crate::{CancelHandle, OutputColumn};
use ankerdb_engine::{Error, Result, SqlState, Value};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinError;

/// Batches on their way to the reader.
const BATCHES_IN_FLIGHT: usize = 4;

type Batch = Vec<Vec<Value>>;

/// A result being read. The OLTP path's are complete; the OLAP path's arrive while the query runs.
pub struct Rows {
    columns: Arc<[OutputColumn]>,
    tag: Option<String>,
    source: Source,
}

enum Source {
    Ready(Batch),
    Running(mpsc::Receiver<Result<Batch>>),
    Ended,
}

impl Rows {
    /// Complete rows. `tag`: the command tag, if it is not `SELECT <rows>`.
    pub(crate) fn ready(columns: Arc<[OutputColumn]>, rows: Batch, tag: Option<String>) -> Rows {
        Rows { columns, tag, source: Source::Ready(rows) }
    }

    /// Rows of a query that `start` begins. It runs on `threads`; a task on `watch` ends it when it is canceled or
    /// nobody reads on.
    pub(crate) fn spawn(
        threads: &Handle,
        watch: &Handle,
        columns: Arc<[OutputColumn]>,
        start: impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
        cancel: CancelHandle,
    ) -> Rows {
        let (sender, receiver) = mpsc::channel(BATCHES_IN_FLIGHT);
        let batches = sender.clone();
        let mut query = threads.spawn(async move { send_all(start, &batches).await });
        watch.spawn(async move {
            let error = tokio::select! {
                biased;
                ended = &mut query => match ended {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error,
                    Err(failure) => lost(failure),
                },
                () = sender.closed() => {
                    query.abort();
                    return;
                }
                error = cancel.raised() => {
                    query.abort();
                    error
                }
            };
            // The reader may be gone; then nobody wants the error.
            let _ = sender.send(Err(error)).await;
        });
        Rows { columns, tag: None, source: Source::Running(receiver) }
    }

    /// Whether all rows are there already.
    pub(crate) fn is_complete(&self) -> bool {
        !matches!(self.source, Source::Running(_))
    }

    /// Names and types.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// The next rows, or `None` at the end. Never blocks a thread: analytical results are awaited.
    pub async fn next(&mut self) -> Result<Option<Vec<Vec<Value>>>> {
        match &mut self.source {
            Source::Running(receiver) => {
                let received = receiver.recv().await;
                self.received(received)
            }
            _ => Ok(self.take_ready()),
        }
    }

    /// As `next`, for callers outside of an async runtime; panics inside of one.
    pub fn next_blocking(&mut self) -> Result<Option<Vec<Vec<Value>>>> {
        match &mut self.source {
            Source::Running(receiver) => {
                let received = receiver.blocking_recv();
                self.received(received)
            }
            _ => Ok(self.take_ready()),
        }
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

    /// The command tag once all `rows` rows were read.
    pub fn tag(&self, rows: usize) -> String {
        self.tag.clone().unwrap_or_else(|| format!("SELECT {rows}"))
    }
}

async fn send_all(
    start: impl Future<Output = Result<SendableRecordBatchStream>>,
    sender: &mpsc::Sender<Result<Batch>>,
) -> Result<()> {
    let mut batches = start.await?;
    while let Some(batch) = batches.next().await {
        let rows = rows_of(&batch.map_err(translate)?)?;
        if !rows.is_empty() && sender.send(Ok(rows)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// What a query ended with that neither finished nor failed. A panic is a bug, but the bug of this query only.
pub(crate) fn lost(failure: JoinError) -> Error {
    let Ok(panic) = failure.try_into_panic() else {
        return Error::new(SqlState::AdminShutdown, "the database is shutting down");
    };
    let message =
        panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Error::internal(format!("the query failed unexpectedly: {}", message.unwrap_or("no reason given")))
}
