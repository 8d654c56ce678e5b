//! Row headers: one word a row that orders everything done to the row.
//!
//! ```text
//! bit 63 LOCKED      somebody owns the row: the owner alone may change the row, its versions and its header
//! bit 62 INSTALLING  the owner is writing cells right now
//! bit 61 EXISTS      the row exists as of the timestamp below
//! bit 60 PENDING     the change below belongs to a large commit that was installed ahead of its timestamp
//! bit 59 SWEPT       the owner is a sweep, which only removes what no reader needs: the row has no rival
//! bits 0-58          timestamp of the row's newest committed change, or, where PENDING, the number of the commit
//! ```
//!
//! A commit at timestamp *c* installs in this order: version pushed; header := c + LOCKED + INSTALLING; release
//! fence; cells; header := c (release). A reader at timestamp *s* loads the header (acquire), loads cells,
//! executes an acquire fence and loads the header again. If it loaded anything written for *c*, the second load
//! sees *c*, so an unchanged header confirms the cells. Readers at *s* < *c* that see *c* go to the versions
//! and never wait. Readers at *s* >= *c* never meet INSTALLING: the watermark covers only finished commits.
//!
//! A commit of many rows installs ahead of its timestamp, with PENDING and its number in place of *c* (`sync::pending`,
//! `block::ahead`). Together the bits up to PENDING are larger than any timestamp, so that a reader that only compares
//! goes to the versions, the newest one of which is the state under the pending change. Once the number is decided, it
//! stands for a timestamp like any other; the owner replaces it by that and gives the row up. Until then the row is
//! LOCKED. A header that has changed never changes back, not even when a pending commit ends: the commit writes the old
//! cells again, and the rows get a new timestamp for that.
//!
//! A sweep owns a row for less than a microsecond, or, where its thread loses its processor meanwhile, for as long as the
//! machine is busy. SWEPT tells it from an owner that may change the row: a statement that does not wait for rivals, or
//! only for a moment, waits for a sweep.

use ankerdb_base::Timestamp;

const LOCKED: u64 = 1 << 63;
const INSTALLING: u64 = 1 << 62;
const EXISTS: u64 = 1 << 61;
const PENDING: u64 = 1 << 60;
const SWEPT: u64 = 1 << 59;
/// With PENDING, which makes a number larger than any timestamp.
const TIMESTAMP: u64 = PENDING | (SWEPT - 1);

/// Larger than the timestamp of any commit that is decided, and smaller than any that is not.
pub(crate) const NEWEST: Timestamp = Timestamp(PENDING - 1);

/// The content of a header word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    /// A row as of a commit, not locked.
    pub fn committed(timestamp: Timestamp, exists: bool) -> Header {
        debug_assert!(timestamp.0 < SWEPT);
        Header(timestamp.0 | if exists { EXISTS } else { 0 })
    }

    /// A row changed by the commit with this number, whose timestamp is not known yet. Owned.
    pub(crate) fn pending(number: u64, exists: bool) -> Header {
        debug_assert!(number < SWEPT);
        Header(number | PENDING | LOCKED | if exists { EXISTS } else { 0 })
    }

    /// The number of the commit that has no timestamp yet, or had none when this was loaded.
    pub(crate) fn pending_commit(self) -> Option<u64> {
        self.is_pending().then_some(self.0 & (SWEPT - 1))
    }

    /// Whether the change belongs to a commit whose timestamp is not known yet.
    #[inline]
    pub fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// This header of a pending commit, with the commit's timestamp.
    pub(crate) fn decided(self, timestamp: Timestamp) -> Header {
        debug_assert!(self.is_pending() && timestamp.0 < SWEPT);
        Header(self.0 & !TIMESTAMP | timestamp.0)
    }

    /// This header, with the cells being written.
    pub fn installing(self) -> Header {
        Header(self.0 | LOCKED | INSTALLING)
    }

    /// This header, owned by a transaction.
    pub fn locked(self) -> Header {
        Header(self.0 | LOCKED)
    }

    /// This header, owned by a sweep.
    pub(crate) fn swept(self) -> Header {
        Header(self.0 | LOCKED | SWEPT)
    }

    /// This header, not owned.
    pub fn unlocked(self) -> Header {
        Header(self.0 & !(LOCKED | SWEPT))
    }

    /// When the row was last changed; where that is not known yet, something larger than all timestamps.
    pub fn timestamp(self) -> Timestamp {
        Timestamp(self.0 & TIMESTAMP)
    }

    /// Whether the row exists as of [`timestamp`](Self::timestamp).
    pub fn exists(self) -> bool {
        self.0 & EXISTS != 0
    }

    /// Whether the row has an owner.
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether that owner is a sweep.
    pub fn is_swept(self) -> bool {
        self.0 & SWEPT != 0
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
