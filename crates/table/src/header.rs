//! Row headers: one word a row that orders everything done to the row.
//!
//! ```text
//! bit 63 LOCKED      a transaction owns the row: it alone may change the row, its versions and its header
//! bit 62 INSTALLING  the owner is writing cells right now
//! bit 61 EXISTS      the row exists as of the timestamp below
//! bits 0-59          timestamp of the row's newest committed change
//! ```
//!
//! A commit at timestamp *c* installs in this order: version pushed; header := c + LOCKED + INSTALLING; release
//! fence; cells; header := c (release). A reader at timestamp *s* loads the header (acquire), loads cells,
//! executes an acquire fence and loads the header again. If it loaded anything written for *c*, the second load
//! sees *c*, so an unchanged header confirms the cells. Readers at *s* < *c* that see *c* go to the versions
//! and never wait. Readers at *s* >= *c* never meet INSTALLING: the watermark covers only finished commits.

use ankerdb_base::Timestamp;

const LOCKED: u64 = 1 << 63;
const INSTALLING: u64 = 1 << 62;
const EXISTS: u64 = 1 << 61;
const TIMESTAMP: u64 = (1 << 60) - 1;

/// The content of a header word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    /// A row as of a commit, not locked.
    pub fn committed(timestamp: Timestamp, exists: bool) -> Header {
        debug_assert!(timestamp.0 <= TIMESTAMP);
        Header(timestamp.0 | if exists { EXISTS } else { 0 })
    }

    /// The same with the cells being written.
    pub fn installing(self) -> Header {
        Header(self.0 | LOCKED | INSTALLING)
    }

    /// The same, owned by a transaction.
    pub fn locked(self) -> Header {
        Header(self.0 | LOCKED)
    }

    /// The same, not owned.
    pub fn unlocked(self) -> Header {
        Header(self.0 & !LOCKED)
    }

    /// When the row was last changed.
    pub fn timestamp(self) -> Timestamp {
        Timestamp(self.0 & TIMESTAMP)
    }

    /// Whether the row exists as of [`timestamp`](Self::timestamp).
    pub fn exists(self) -> bool {
        self.0 & EXISTS != 0
    }

    /// Whether a transaction owns the row.
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether cells are being written.
    pub fn is_installing(self) -> bool {
        self.0 & INSTALLING != 0
    }

    /// Whether cells loaded between two loads of the header belong together.
    pub fn confirms(self, earlier: Header) -> bool {
        (self.0 ^ earlier.0) & (TIMESTAMP | INSTALLING | EXISTS) == 0
    }
}
