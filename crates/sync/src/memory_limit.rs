//! A limit on the memory of the process, and which requests are refused when it comes near.
//!
//! # Idea
//! A request past the limit fails with 53200, and other transactions are not affected. The work that needs most is
//! refused first, and work that gives memory back is refused last:
//!
//! ```text
//! 0                                 limit - 4r   limit - 3r   limit - 2r   limit - r   limit
//! ├──────────────────────────────────────┼────────────┼────────────┼───────────┼──────────┤
//!   Claim::Copy    copies to be faster ──┘            │            │           │          │
//!   Claim::Large   work that has taken much already ──┘            │           │          │
//!   Claim::Table   blocks and nodes for everybody else ────────────┘           │          │
//!   Claim::Write   history, and what else small transactions write ────────────┘          │
//!   Claim::Rest    small reads; deletions of any size ────────────────────────────────────┘
//! ```
//!
//! The *reserve* r is a sixteenth of the limit, and 256 MiB at most. A load that fills the machine ends at the first mark,
//! and small transactions go on; tables that were filled by them end at the second, and rows can still be changed; writers
//! of versions that an old reader keeps end at the third, and the reader goes on; and rows can be deleted up to the limit
//! itself. Ending a transaction needs no claim. Copies that are kept only to be faster stop being made before all that, and are let go of
//! at the first mark: as the two are apart, copies alone never lead to it, and are not made and let go of in turn.
//!
//! What is compared with the marks is the account of the process (`ankerdb_memory::account`), not of a database or session:
//! memory runs out per process. Each of several databases in one process has a limit of its own, but all are compared with
//! the same use.
//!
//! # Not here
//! Requests never wait, and no memory is taken away from its owner.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::account::{self, Ceiling};
use ankerdb_memory::emergency_pool;

/// Whether the system granted what this thread has asked for since the last check; if not, the thread has lived on
/// the [emergency pool](ankerdb_memory::emergency_pool) and has to stop. One thread-local load.
///
/// # Errors
/// `OutOfMemory`.
#[inline]
pub fn check_system() -> Result<()> {
    if emergency_pool::is_short() { Err(refused_by_system()) } else { Ok(()) }
}

#[cold]
fn refused_by_system() -> Error {
    let error = Error::new(SqlState::OutOfMemory, "out of memory");
    let error =
        error.with_detail("The system has no memory left; what it has refused came from an emergency pool.");
    // Memory that the error itself has taken must not make the next check fail.
    emergency_pool::forget();
    error
}

/// The largest reserve, of which three are kept.
const RESERVE_MAX: usize = 256 << 20;
/// The reserve is the limit divided by this.
const RESERVES: usize = 16;
/// A piece of work that has taken so much is large: the share of a reserve, and at most so many bytes.
const LARGE_SHARE: usize = 8;
const LARGE_MAX: usize = 1 << 20;

/// The smallest limit: below it the reserves are too small to be of use.
pub const LIMIT_MIN: usize = 32 << 20;

/// The purpose of a request; see the picture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Claim {
    /// Copies that are kept only to be faster.
    Copy,
    /// Work that has taken much already.
    Large,
    /// What tables and indexes need for small transactions, and keep.
    Table,
    /// What small transactions write.
    Write,
    /// Small reads, and deletions.
    Rest,
}

impl Claim {
    /// Reserves left alone.
    fn reserves(self) -> usize {
        match self {
            Claim::Copy => 4,
            Claim::Large => 3,
            Claim::Table => 2,
            Claim::Write => 1,
            Claim::Rest => 0,
        }
    }
}

/// Bytes that the process may take on behalf of a database. Unlimited by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimit(usize);

impl Default for MemoryLimit {
    fn default() -> MemoryLimit {
        MemoryLimit::NONE
    }
}

impl MemoryLimit {
    /// No limit.
    pub const NONE: MemoryLimit = MemoryLimit(usize::MAX);

    /// So many bytes.
    pub fn of(bytes: usize) -> MemoryLimit {
        MemoryLimit(bytes)
    }

    /// The limit, if there is one.
    pub fn bytes(self) -> Option<usize> {
        (self != MemoryLimit::NONE).then_some(self.0)
    }

    fn reserve(self) -> usize {
        (self.0 / RESERVES).min(RESERVE_MAX)
    }

    /// The most that the process may have taken for the claim to be granted.
    pub fn mark(self, claim: Claim) -> usize {
        match self {
            MemoryLimit::NONE => usize::MAX,
            MemoryLimit(limit) => limit - claim.reserves() * self.reserve(),
        }
    }

    /// The claim of a piece of work that has taken so many bytes, if it were `small` with less.
    pub fn claim_of(self, bytes: usize, small: Claim) -> Claim {
        let large = (self.reserve() / LARGE_SHARE).min(LARGE_MAX);
        if bytes > large { Claim::Large } else { small }
    }

    /// Whether so many bytes more may be taken. Costs a load of a word that all threads write now and then.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn check(self, claim: Claim, more: usize) -> Result<()> {
        let wanted = account::used().saturating_add(more);
        if wanted <= self.mark(claim) { Ok(()) } else { Err(self.refusal()) }
    }

    /// Whether a piece of work may go on that has taken memory on this thread since it last looked
    /// ([`account::has_grown`]). `frees`: it takes memory to give back more.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[cold]
    pub fn check_grown(self, frees: bool) -> Result<()> {
        let claim = if frees { Claim::Rest } else { self.claim_of(account::work_bytes(), Claim::Rest) };
        if account::look() <= self.mark(claim) { Ok(()) } else { Err(self.refusal()) }
    }

    /// While the result lives, tables and indexes get no new memory on this thread past the claim's mark.
    pub fn put_up(self, claim: Claim) -> Ceiling {
        Ceiling::put_up(self.mark(claim))
    }

    /// An error that came from below: the refusal, if it was a [ceiling](Self::put_up) that was met.
    pub fn explain(self, error: Error) -> Error {
        match error.state() {
            SqlState::OutOfMemory if Ceiling::was_met() => self.refusal(),
            _ => error,
        }
    }

    /// 53200 with the limit and the use.
    #[cold]
    pub fn refusal(self) -> Error {
        let mib = |bytes: usize| bytes.div_ceil(1 << 20);
        let detail = format!(
            "The memory limit is {} MB, of which {} MB are in use; the last part of it is kept for small transactions \
             and deletions.",
            mib(self.0),
            mib(account::used())
        );
        let hint = "Write or read less at a time, end old transactions, delete rows or drop tables, or raise the limit.";
        Error::new(SqlState::OutOfMemory, "out of memory").with_detail(detail).with_hint(hint)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_needs_most_is_refused_first_and_who_deletes_last() {
        let limit = MemoryLimit::of(1 << 30);
        let marks =
            [Claim::Large, Claim::Table, Claim::Write, Claim::Rest].map(|claim| limit.mark(claim) >> 20);
        assert_eq!(marks, [1024 - 192, 1024 - 128, 1024 - 64, 1024]);
        let huge = MemoryLimit::of(1 << 40);
        assert_eq!(huge.mark(Claim::Large), (1 << 40) - 3 * RESERVE_MAX);
        assert_eq!(MemoryLimit::NONE.mark(Claim::Large), usize::MAX);
        assert_eq!(MemoryLimit::NONE.bytes(), None);
    }

    #[test]
    fn work_is_large_by_what_it_has_taken() {
        let limit = MemoryLimit::of(1 << 30);
        assert_eq!(limit.claim_of(LARGE_MAX, Claim::Write), Claim::Write);
        assert_eq!(limit.claim_of(LARGE_MAX + 1, Claim::Write), Claim::Large);
        assert_eq!(MemoryLimit::of(LIMIT_MIN).claim_of(300 << 10, Claim::Rest), Claim::Large);
    }

    #[test]
    fn a_refusal_tells_limit_and_use() {
        let error = MemoryLimit::of(1).check(Claim::Rest, 2).unwrap_err();
        assert_eq!(error.state(), SqlState::OutOfMemory);
        assert!(error.detail().unwrap().starts_with("The memory limit is 1 MB, of which "), "{error}");
        assert!(error.hint().is_some());
        assert!(MemoryLimit::NONE.check(Claim::Large, usize::MAX).is_ok());
    }
}
