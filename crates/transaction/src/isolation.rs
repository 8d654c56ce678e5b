//! Isolation levels, and what follows from them.

/// Isolation level of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    /// Reads the newest installed values, as they come. (PostgreSQL gives READ COMMITTED for it; this is the
    /// SEE_RU configuration of AnKer §6.1, except that writes of running transactions are never in place.)
    ReadUncommitted,
    /// Each statement reads what was committed when it began.
    ReadCommitted,
    /// Snapshot isolation: reads what was committed when the transaction began; the first of two writers of a
    /// row wins.
    RepeatableRead,
    /// Transactions behave as if they had run one after the other, in the order of their commits, which respects real
    /// time.
    #[default]
    Serializable,
}

impl Isolation {
    /// Whether reads are noted, to be matched against the writes of transactions that commit meanwhile.
    #[inline]
    pub(crate) fn validates(self) -> bool {
        self == Isolation::Serializable
    }

    /// Whether each statement reads what was committed when it began, or later.
    #[inline]
    pub(crate) fn reads_by_statement(self) -> bool {
        matches!(self, Isolation::ReadUncommitted | Isolation::ReadCommitted)
    }

    /// Whether the first committer wins: of two transactions that write to a row, each begun before the other's
    /// commit, one ends.
    #[inline]
    pub(crate) fn first_committer_wins(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }
}
