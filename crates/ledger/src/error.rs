//! What goes wrong in a ledger, by whose fault it is: the database's, the file's, the sender's of a message, or the
//! author's of a transaction.

use std::fmt;
use std::path::{Path, PathBuf};

/// Results of this crate.
pub type LedgerResult<T> = Result<T, LedgerError>;

/// Why something was not done. Nothing that was acknowledged is lost by any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerError {
    /// The database of a member cannot be reached, or has given up the transaction of a whole block.
    Database {
        /// Which one.
        member: String,
        /// What it said.
        message: String,
    },
    /// A ledger file cannot be read or written, or is damaged.
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// Bytes are not what they should encode.
    Malformed(String),
    /// A signature, an identity or a hash is wrong.
    Untrusted(String),
    /// A definition or a transaction that not all databases would take alike.
    Refused(String),
    /// Fewer members than the policy asks for have the same ledger block.
    NoQuorum(String),
    /// A program or a file that is needed is not there.
    Missing(String),
    /// Another process has not answered, or has refused.
    Process {
        /// Which one.
        name: String,
        /// What it has said, or why it could not be reached.
        message: String,
    },
}

impl LedgerError {
    pub(crate) fn file(path: &Path, message: impl fmt::Display) -> LedgerError {
        LedgerError::File { path: path.to_owned(), message: message.to_string() }
    }

    pub(crate) fn database(member: &str, message: impl fmt::Display) -> LedgerError {
        LedgerError::Database { member: member.to_owned(), message: message.to_string() }
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerError::Database { member, message } => write!(to, "database of {member}: {message}"),
            LedgerError::File { path, message } => write!(to, "{}: {message}", path.display()),
            LedgerError::Process { name, message } => write!(to, "\"{name}\": {message}"),
            LedgerError::Malformed(message) => write!(to, "malformed: {message}"),
            LedgerError::Untrusted(message)
            | LedgerError::Refused(message)
            | LedgerError::NoQuorum(message)
            | LedgerError::Missing(message) => to.write_str(message),
        }
    }
}

impl std::error::Error for LedgerError {}
