//! Work that makes much output, and a thread that writes it meanwhile.

use crate::wire::{Failure, Served};
use ankerdb_sql::{Lines, Pieces};
use parking_lot::Mutex;
use std::sync::mpsc;
use std::thread;

/// Shares of output that wait for the thread that writes them.
const SHARES_WAITING: usize = 8;

/// Does work that gives lines to a thread beside, which has `sink` write them, in their order: all of them when this returns, if
/// the work fails, too. Some wait to be written; then the work waits.
///
/// # Errors
/// Those of the work, of the lines and of `sink`. After one of the latter two the work is told that nobody writes any more.
pub(crate) fn written_beside<T>(
    thread_name: &str,
    sink: impl FnMut(Lines) -> Served + Send,
    work: impl FnOnce(&mut dyn FnMut(Pieces) -> Served) -> Served<T>,
) -> Served<T> {
    let sink = Mutex::new(sink);
    let write = |mut pieces: Pieces| {
        let mut sink = sink.lock();
        pieces.try_for_each(|lines| sink(lines?))
    };
    thread::scope(|scope| {
        let (sender, shares) = mpsc::sync_channel::<Pieces>(SHARES_WAITING);
        let write_all = || shares.into_iter().try_for_each(write);
        let Ok(writer) = thread::Builder::new().name(thread_name.into()).spawn_scoped(scope, write_all)
        else {
            // Without a second thread this one does both.
            return work(&mut |pieces| write(pieces));
        };
        let done = work(&mut |pieces| sender.send(pieces).map_err(|_| Failure::Gone));
        drop(sender);
        match writer.join() {
            Ok(Ok(())) => done,
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Gone),
        }
    })
}
