//! Regions: ranges of virtual memory in which a technique of the operating system takes snapshots.
//!
//! A [`Region`] is live memory that any number of threads read and write through atomics. [`Region::snapshot`] makes a
//! [`RegionSnapshot`], a private image of its first bytes: what is written to the region afterwards does not show in
//! it, and what is written to the image shows nowhere else. A unit of eight aligned bytes that is written while the
//! snapshot is taken may or may not be in it; callers that need more than that keep writers away meanwhile.
//!
//! docs/design/techniques.md says which techniques there are, and how the database uses them.
//!
//! Not here: what lies in the memory, and when snapshots are taken.
#![warn(missing_docs)]

mod anonymous;
mod budget;
mod copy;
mod detector;
mod file;
pub mod fork;
mod handler;
#[cfg(test)]
mod limits;
mod lock;
mod pages;
mod region;
mod registry;
mod requirements;
mod rewired;
mod space;
mod technique;
mod userfault;
mod vm_snapshot;
mod words;

pub use budget::{Mappings, mappings};
pub use region::{Region, RegionSnapshot};
pub use space::RewiringCounts;
pub use technique::{PageSize, Technique};
