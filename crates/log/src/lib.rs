//! The redo log: what has been acknowledged survives the end of the process at any moment.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`disk`] | what may be done with files, and how does the system do it? |
//! | [`simulated`] | what is left after a power loss at this very operation? |
//! | `format` | which byte means what? |
//! | [`read_only`] | how is a database opened without changing its folder? |
//! | `folder` | whose folder is it, and is another server at work there? |
//! | `replay` | which records come back, in which order, and which do not? |
//! | `ending` | where does the log end, is that a torn end or damage, and what must be done there? |
//! | `verify` | what of a log is damaged, all of it and not only the first place? |
//! | `segments` | where does the next chunk go, and is there room for it? |
//! | `room` | may this transaction still be given a timestamp, or is the disk full? |
//! | `appender` | how does a worker leave a record without waiting for anybody? |
//! | `pace` | when does the flusher sleep, and who wakes whom? |
//! | `flusher` | what does one flush write? |
//! | `position` | how far has it come, and of which old segments are new ones made? |
//! | `pin` | may files go that nobody needs, or does somebody copy them? |
//! | `copy` | which bytes are a copy of the log, while it is written? |
//! | `cut` | where does a copy end that is as of a moment? |
//! | `wall_time` | when was that, by the machine's clock? |
//! | `log` | the whole: open, start, wait, close |
//!
//! ```text
//! worker    reserve │ c drawn, validated │ append │ installed, finished │ wait_until_durable(c)
//! flusher   W := watermark │ take all buffers │ write one chunk that says W │ sync │ durable := W, wake
//! ```
//!
//! `docs/design/durability.md` says why; `docs/design/log-format.md` draws the bytes.
//!
//! # Not here
//! What a record means, tables, transactions, checkpoints: these say where the log has to be read from, and what of it may go. The log knows of a record its kind (the caller's), its
//! timestamp and its length.
#![forbid(unsafe_code)]

mod appender;
mod copy;
mod cut;
pub mod disk;
mod ending;
mod failure;
mod flusher;
mod folder;
mod format;
mod log;
mod options;
mod pace;
mod pin;
mod position;
mod primitive;
pub mod read_only;
mod record;
mod replay;
mod room;
mod segments;
pub mod simulated;
mod verify;
mod wall_time;
mod window;

#[cfg(all(test, loom))]
mod pace_model;

pub use appender::{Appender, Reservation};
pub use copy::{
    ChunkMark, Continuation, CopiedLog, LogPlace, Sink, Wanted, continuation, copy_log, segment_length,
};
pub use cut::cut_at;
pub use disk::{Disk, DiskFile, LockOutcome, SystemDisk, read_full, write_full};
pub use failure::{FileFailure, failed};
pub use folder::{RestoredFolder, identity_of, random_bits, segment_path};
pub use format::FORMAT_VERSION;
pub use log::{Log, open};
pub use options::{LogOptions, Loss, OnFailure, ReplayProgress};
pub use pin::{are_pinned, pin_files};
pub use read_only::ReadOnlyDisk;
pub use record::{LogStart, Payload, Record, Replay};
pub use verify::{LogCheck, identify, lock_folder, tell_fault, verify_log};
pub use wall_time::WallTime;
