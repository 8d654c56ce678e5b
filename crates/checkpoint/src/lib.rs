//! Checkpoints: images of blocks in files, and the manifest that says which of them, together with the log, are the database.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `bytes` | how are numbers read from bytes that may be damaged? |
//! | `image` | which bytes are a block's image? |
//! | `manifest` | which images count, and from where on is the log needed? |
//! | `files` | which files are there, and which of them may go? |
//! | `writer` | how are images written, at which rate, and when are they on disk? |
//! | `reader` | how do images come back, on all processors? |
//! | `archive` | which bytes are a backup's file? |
//! | `moment` | how do people write moments? |
//! | `head` | what does a backup say of itself? |
//! | `chain` | do backups belong together, and which moments do they have? |
//! | `backup` | what is copied of a folder in which a server may be at work? |
//! | `restore` | how does a folder come from a backup, whole or not at all? |
//! | `verify` | which of them are damaged, all of them and not only the first? |
//!
//! ```text
//! writer    image of each changed block, at a timestamp of its own ──► 0000000000000007.blocks   synced
//! manifest  all images that count, the catalog, where the log begins ──► checkpoint              renamed into place
//! then      files without an image that counts, and segments in front of that place, go
//! ```
//!
//! `docs/design/checkpoints.md` says why, and draws the bytes.
//!
//! # Not here
//! What is in the catalog, when a checkpoint is due, transactions. The caller says which blocks have changed.
#![forbid(unsafe_code)]

mod archive;
mod backup;
mod bytes;
mod chain;
mod files;
mod head;
mod image;
mod manifest;
mod moment;
mod reader;
mod restore;
mod verify;
mod writer;

pub use backup::{BackupReport, Between, NewBackup, backup};
pub use files::FolderOfImages;
pub use image::BlockName;
pub use manifest::{ImagePlace, Manifest, NotSwitched};
pub use moment::{read_moment, show_moment};
pub use reader::{ImageLoader, read_images};
pub use restore::{RestoreReport, Restored, restore};
pub use verify::verify_images;
pub use writer::{WriteRate, Writer};
