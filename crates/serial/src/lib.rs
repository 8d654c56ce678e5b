//! A database without concurrency control, whose snapshots software controls: the mechanisms of HyPer and Caldera.
//!
//! Transactions run one after the other on one thread (H-Store, HyPer), change tuples in place, and are taken back by an undo log.
//! Queries run beside them on a *snapshot*, which is refreshed from time to time. How a snapshot is kept is a [`Mechanism`]:
//! there is a [`Store`] for each, and a [`SerialDatabase`] is of one of them. docs/design/software-snapshots.md says why this is a
//! database of its own, and where it differs from the papers:
//!
//! - Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data: Hardware or Software Controlled? (DaMoN 2011), §3:
//!   VM-Fork, tuple shadowing, twin tuples, HotCold; §3.5: what becomes of indexes.
//! - Appuswamy, Karpathiotakis, Porobic, Ailamaki: The Case For Heterogeneous HTAP (CIDR 2017), §4: shadow copies.
//!
//! Read the modules in this order: `mechanism`, `store`, then one file for each mechanism, `tree` and `index`, `snapshot`,
//! `readers`, `database`.
//!
//! Not here: AnKerDB's own engine and its snapshots, SQL, types, and threads.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod area;
mod database;
mod hot_cold;
mod in_place;
mod index;
mod job;
mod mechanism;
mod readers;
mod shadow;
mod snapshot;
mod store;
mod tree;
mod tuple;
mod twin;

pub use area::MemoryKind;
pub use database::{Change, SerialDatabase, SerialTransaction};
pub use hot_cold::{HotCold, HotColdView};
pub use in_place::{InPlace, InPlaceView};
pub use job::Job;
pub use mechanism::{Control, Granularity, IndexTreatment, Mechanism};
pub use readers::{QuiescePolicy, Readers, Reading};
pub use shadow::{ShadowCopies, ShadowView};
pub use snapshot::{RelationId, SerialSnapshot};
pub use store::{Shape, Store, TupleId, View};
pub use tuple::{TupleShadowing, TupleView};
pub use twin::{TwinTuples, TwinView};
