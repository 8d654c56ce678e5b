//! Errors for programs: a kind to branch on, PostgreSQL's code, a sentence, and the source.

use ankerdb_engine::SqlState;
use std::fmt;

/// Result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong. As large as a pointer.
///
/// ```
/// let db = ankerdb::Database::in_memory()?;
/// let error = db.table("account").unwrap_err();
/// assert_eq!(error.kind(), ankerdb::ErrorKind::Statement);
/// assert_eq!(error.sqlstate(), ankerdb::SqlState::UndefinedTable);
/// assert_eq!(error.to_string(), "relation \"account\" does not exist");
/// # Ok::<(), ankerdb::Error>(())
/// ```
pub struct Error(Box<Body>);

struct Body {
    cause: ankerdb_engine::Error,
    /// Where it happened: a column, or a row of a load.
    place: Option<String>,
    source: Option<Source>,
}

/// The kind of an error, which a program branches on. [`Error::sqlstate`] tells more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A conflict with other transactions (40001, 40P01): run the whole transaction again.
    Conflict,
    /// A key exists already, or a column forbids NULL (class 23).
    Constraint,
    /// A value has the wrong type, does not fit, or is NULL where none is expected (class 22, 42804, 42846).
    Value,
    /// The statement, or a call that stands for one, is wrong or asks for what does not exist: syntax, names,
    /// features (the rest of class 42, 08P01, 0A000).
    Statement,
    /// Exactly one row was wanted, and there was none (02000).
    NoRows,
    /// At most one row was wanted, and there were several (21000).
    TooManyRows,
    /// The transaction's state does not allow it: it is read-only, or has failed (class 25).
    TransactionState,
    /// It was ended from outside, or has taken longer than it may (57014, 55P03).
    Canceled,
    /// Memory, or another limit, is used up (classes 53 and 54).
    Resources,
    /// A bug in AnKerDB, or of the system below it.
    Internal,
}

impl Error {
    /// An error from the database.
    #[cold]
    pub(crate) fn new(state: SqlState, message: impl Into<String>) -> Error {
        ankerdb_engine::Error::new(state, message.into()).into()
    }

    /// A value that could not be converted, for implementations of [`ToValue`](crate::ToValue) and
    /// [`FromValue`](crate::FromValue): SQLSTATE 42804, with `source` behind it.
    ///
    /// ```
    /// use std::error::Error as _;
    ///
    /// let parsed = "12x".parse::<i32>().map_err(ankerdb::Error::conversion);
    /// let error = parsed.unwrap_err();
    /// assert_eq!(error.sqlstate(), ankerdb::SqlState::DatatypeMismatch);
    /// assert!(error.source().unwrap().is::<std::num::ParseIntError>());
    /// ```
    #[cold]
    pub fn conversion(source: impl Into<Source>) -> Error {
        let source = source.into();
        let mut error = Error::new(SqlState::DatatypeMismatch, source.to_string());
        error.0.source = Some(source);
        error
    }

    /// This error with the place where it happened; the error itself becomes the source.
    #[cold]
    pub(crate) fn at(self, place: String) -> Error {
        let cause = self.0.cause.clone();
        let place = self.0.place.iter().fold(place, |outer, inner| format!("{outer}: {inner}"));
        Error(Box::new(Body { cause, place: Some(place), source: Some(Box::new(self)) }))
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        let state = self.sqlstate();
        match (state, &state.code()[..2]) {
            (SqlState::SerializationFailure | SqlState::DeadlockDetected, _) => ErrorKind::Conflict,
            (SqlState::DatatypeMismatch | SqlState::CannotCoerce, _) => ErrorKind::Value,
            (SqlState::QueryCanceled | SqlState::LockNotAvailable, _) => ErrorKind::Canceled,
            (_, "02") => ErrorKind::NoRows,
            (_, "21") => ErrorKind::TooManyRows,
            (_, "22") => ErrorKind::Value,
            (_, "23") => ErrorKind::Constraint,
            (_, "25") => ErrorKind::TransactionState,
            (_, "08" | "0A" | "26" | "34" | "3B" | "3D" | "42" | "55") => ErrorKind::Statement,
            (_, "53" | "54") => ErrorKind::Resources,
            _ => ErrorKind::Internal,
        }
    }

    /// PostgreSQL's code for it.
    pub fn sqlstate(&self) -> SqlState {
        self.0.cause.state()
    }

    /// The sentence that says what went wrong, without detail and place.
    pub fn message(&self) -> &str {
        self.0.cause.message()
    }

    /// The facts behind the message, if there are any.
    pub fn detail(&self) -> Option<&str> {
        self.0.cause.detail()
    }

    /// Advice, if there is any.
    pub fn hint(&self) -> Option<&str> {
        self.0.cause.hint()
    }

    /// Whether running the whole transaction again may succeed. [`Database::transaction`](crate::Database::transaction) does
    /// that by itself.
    pub fn is_retryable(&self) -> bool {
        self.0.cause.is_retryable()
    }
}

impl From<ankerdb_engine::Error> for Error {
    #[cold]
    fn from(cause: ankerdb_engine::Error) -> Error {
        Error(Box::new(Body { cause, place: None, source: None }))
    }
}

impl From<Error> for ankerdb_engine::Error {
    fn from(error: Error) -> ankerdb_engine::Error {
        error.0.cause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.0.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.0.cause)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.sqlstate().code())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}
