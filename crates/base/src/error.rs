//! One error type for everything a client may see: an SQLSTATE, a sentence, and what to do about it.

use crate::SchemaId;
use std::borrow::Cow;
use std::fmt;

/// The result of anything whose failure a client may see.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! sql_states {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// PostgreSQL's error codes, as far as AnKerDB raises them (PostgreSQL 15, Appendix A).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum SqlState { $($(#[$doc])* $name,)* }

        impl SqlState {
            /// The five-character code.
            pub fn code(self) -> &'static str {
                match self { $(SqlState::$name => $code,)* }
            }

            /// The state with this code; `None` if AnKerDB never raises it.
            pub fn from_code(code: &str) -> Option<SqlState> {
                match code {
                    $($code => Some(SqlState::$name),)*
                    _ => None,
                }
            }
        }
    };
}

sql_states! {
    /// There is no row where one was wanted.
    NoData = "02000",
    /// The connection to the client broke.
    ConnectionFailure = "08006",
    /// Client sent something that the protocol does not allow.
    ProtocolViolation = "08P01",
    /// Not an error: for messages beside results.
    SuccessfulCompletion = "00000",
    /// Not an error, but probably not what was meant.
    Warning = "01000",
    /// The statement or option exists in PostgreSQL but not here.
    FeatureNotSupported = "0A000",
    /// A query that must give one row gave several, or a row would be changed twice.
    CardinalityViolation = "21000",
    /// A value is too long for its type.
    StringDataRightTruncation = "22001",
    /// A value is NULL, and its reader has no place for that.
    NullValueNotAllowed = "22004",
    /// A number does not fit its type.
    NumericValueOutOfRange = "22003",
    /// A date or time is malformed.
    InvalidDatetimeFormat = "22007",
    /// A date or time does not exist or does not fit.
    /// A date or time does not exist or does not fit.
    DatetimeFieldOverflow = "22008",
    /// The length of a part of a text is negative.
    SubstringError = "22011",
    /// Division by zero.
    DivisionByZero = "22012",
    /// A part of an interval does not fit.
    IntervalFieldOverflow = "22015",
    /// `ntile` of no parts.
    InvalidArgumentForNtile = "22014",
    /// `nth_value` of a place that is none.
    InvalidArgumentForNthValue = "22016",
    /// How far a bound of a window's frame is away is negative.
    InvalidPrecedingOrFollowingSize = "22013",
    /// A pattern of SIMILAR TO has too many parts.
    InvalidUseOfEscapeCharacter = "2200C",
    /// A sequence has no further number.
    SequenceGeneratorLimitExceeded = "2200H",
    /// A logarithm of zero or of a negative number.
    InvalidArgumentForLogarithm = "2201E",
    /// A root of a negative number, or a power that does not exist.
    InvalidArgumentForPowerFunction = "2201F",
    /// Bounds or a count of buckets that there cannot be.
    InvalidArgumentForWidthBucketFunction = "2201G",
    /// A text is no regular expression.
    InvalidRegularExpression = "2201B",
    /// A share of a table that is none.
    InvalidTablesampleArgument = "2202H",
    /// `.datetime()` of a jsonpath for what is no date or time.
    InvalidArgumentForSqlJsonDatetimeFunction = "22031",
    /// A subscript of a jsonpath that is no position of the array.
    InvalidSqlJsonSubscript = "22033",
    /// An item of a jsonpath is no number.
    NonNumericSqlJsonItem = "22036",
    /// A jsonpath gives another number of items, or other ones, than were wanted.
    SingletonSqlJsonItemRequired = "22038",
    /// An item of a jsonpath is no array.
    SqlJsonArrayNotFound = "22039",
    /// An object has no such key, or an item of a jsonpath is no object.
    SqlJsonMemberNotFound = "2203A",
    /// What has a sign in a jsonpath is no number.
    SqlJsonNumberNotFound = "2203B",
    /// An item of a jsonpath is no object.
    SqlJsonObjectNotFound = "2203C",
    /// A string of bits is longer or shorter than its type says, or than the other one.
    StringDataLengthMismatch = "22026",
    /// A position outside of a byte string.
    ArraySubscriptError = "2202E",
    /// A value that cannot be made of the given ones.
    DataException = "22000",
    /// Text is not valid in the server's encoding.
    CharacterNotInRepertoire = "22021",
    /// A clock is too far from Greenwich.
    InvalidTimeZoneDisplacement = "22009",
    /// An argument is outside of what the function takes.
    InvalidParameterValue = "22023",
    /// LIMIT of a negative number of rows.
    InvalidRowCountInLimitClause = "2201W",
    /// OFFSET by a negative number of rows.
    InvalidRowCountInResultOffsetClause = "2201X",
    /// A pattern's escape character is none, or stands in front of nothing.
    InvalidEscapeSequence = "22025",
    /// A binary parameter is malformed.
    InvalidBinaryRepresentation = "22P03",
    /// Text is not a literal of its type.
    InvalidTextRepresentation = "22P02",
    /// A character that text cannot have.
    UntranslatableCharacter = "22P05",
    /// COPY data is malformed.
    BadCopyFileFormat = "22P04",
    /// NULL in a column that forbids it.
    NotNullViolation = "23502",
    /// A row refers to another one that is not there, or is referred to.
    ForeignKeyViolation = "23503",
    /// A key exists already.
    UniqueViolation = "23505",
    /// A row violates a CHECK constraint.
    CheckViolation = "23514",
    /// A new row is none that the view shows through which it is written.
    WithCheckOptionViolation = "44000",
    /// A transaction is open where none may be.
    ActiveSqlTransaction = "25001",
    /// No transaction is open where one must be.
    NoActiveSqlTransaction = "25P01",
    /// There is no savepoint of this name.
    InvalidSavepointSpecification = "3B001",
    /// A write in a read-only transaction.
    ReadOnlySqlTransaction = "25006",
    /// A transaction was open for too long without a statement.
    IdleInTransactionSessionTimeout = "25P03",
    /// The transaction has failed; only ROLLBACK is accepted.
    InFailedSqlTransaction = "25P02",
    /// A prepared statement does not exist.
    InvalidSqlStatementName = "26000",
    /// A client may not connect in this way: without TLS where it is required, for example.
    InvalidAuthorizationSpecification = "28000",
    /// A client does not know the password.
    InvalidPassword = "28P01",
    /// A database does not exist.
    InvalidCatalogName = "3D000",
    /// A schema does not exist.
    InvalidSchemaName = "3F000",
    /// A cursor or portal does not exist.
    InvalidCursorName = "34000",
    /// The transaction must be tried again.
    SerializationFailure = "40001",
    /// Transactions wait for each other in a circle; this one was chosen to end.
    DeadlockDetected = "40P01",
    /// The statement is not SQL that AnKerDB understands.
    SyntaxError = "42601",
    /// A column name fits several columns.
    AmbiguousColumn = "42702",
    /// A statement calls two relations by one name.
    DuplicateAlias = "42712",
    /// A name is that of several tables.
    AmbiguousAlias = "42P09",
    /// A call has too many arguments.
    TooManyArguments = "54023",
    /// A column does not exist.
    UndefinedColumn = "42703",
    /// A name is used twice in one definition.
    DuplicateColumn = "42701",
    /// A function or operator does not exist for these types.
    UndefinedFunction = "42883",
    /// Several functions or operators fit constants without a type.
    AmbiguousFunction = "42725",
    /// A table does not exist.
    UndefinedTable = "42P01",
    /// A text is no name.
    InvalidName = "42602",
    /// Somebody may not do this.
    InsufficientPrivilege = "42501",
    /// A file of the server's does not exist.
    UndefinedFile = "58P01",
    /// A file of the server's is there already.
    DuplicateFile = "58P02",
    /// A file of the server's cannot be read or written.
    IoError = "58030",
    /// There is no room for a file of the server's.
    DiskFull = "53100",
    /// What was stored is damaged.
    DataCorrupted = "XX001",
    /// RAISE in a DO block.
    RaiseException = "P0001",
    /// A DO block that ends the transaction that it is a part of.
    InvalidTransactionTermination = "2D000",
    /// An index and its table say different things.
    IndexCorrupted = "XX002",
    /// A clause names a column, or columns, that it cannot use.
    InvalidColumnReference = "42P10",
    /// A parameter does not exist.
    UndefinedParameter = "42P02",
    /// A name that only the system may give.
    ReservedName = "42939",
    /// A schema exists already.
    DuplicateSchema = "42P06",
    /// A table exists already.
    DuplicateTable = "42P07",
    /// An index or other object exists already.
    DuplicateObject = "42710",
    /// An index or other object does not exist.
    UndefinedObject = "42704",
    /// A cursor or portal exists already.
    DuplicateCursor = "42P03",
    /// A cursor with options that exclude each other.
    InvalidCursorDefinition = "42P11",
    /// A prepared statement exists already.
    DuplicatePreparedStatement = "42P05",
    /// A definition contradicts itself.
    InvalidTableDefinition = "42P16",
    /// A column is declared, or is to be changed, in a way that it cannot be.
    InvalidColumnDefinition = "42611",
    /// A foreign key that fits no key.
    InvalidForeignKey = "42830",
    /// A definition that leads to itself.
    InvalidObjectDefinition = "42P17",
    /// A value for a column that always generates its own.
    GeneratedAlways = "428C9",
    /// Something else depends on what was to be dropped.
    DependentObjectsStillExist = "2BP01",
    /// Something is in use, or still has to be done with it.
    ObjectInUse = "55006",
    /// An object is not in the state that is needed, such as a sequence that has given no number yet.
    ObjectNotInPrerequisiteState = "55000",
    /// The wrong kind of object, such as an index where a table is needed.
    WrongObjectType = "42809",
    /// An expression has the wrong type.
    DatatypeMismatch = "42804",
    /// A value cannot be cast to this type.
    CannotCoerce = "42846",
    /// A column is used outside of GROUP BY or an aggregate.
    GroupingError = "42803",
    /// A window is made of another one that it cannot be made of.
    WindowingError = "42P20",
    /// A query of WITH RECURSIVE reads its own rows where it must not.
    InvalidRecursion = "42P19",
    /// A type of a parameter cannot be told.
    IndeterminateDatatype = "42P18",
    /// A setting cannot be changed while the server runs.
    CantChangeRuntimeParam = "55P02",
    /// Memory for this statement is used up.
    OutOfMemory = "53200",
    /// Too many connections.
    TooManyConnections = "53300",
    /// A limit of the implementation is passed.
    ProgramLimitExceeded = "54000",
    /// Something is nested too deeply.
    StatementTooComplex = "54001",
    /// A row is locked and the statement does not wait, or not that long.
    LockNotAvailable = "55P03",
    /// A label of an enum that the same transaction has added.
    UnsafeNewEnumValueUsage = "55P04",
    /// The statement was canceled by its user.
    QueryCanceled = "57014",
    /// The server is going down.
    AdminShutdown = "57P01",
    /// The server is not ready for clients yet, or any more.
    CannotConnectNow = "57P03",
    /// Something outside of the database failed or was ended.
    SystemError = "58000",
    /// A bug in AnKerDB.
    InternalError = "XX000",
}

/// What went wrong, for the client that caused it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Body>);

#[derive(Clone, PartialEq, Eq)]
struct Body {
    state: SqlState,
    message: Cow<'static, str>,
    detail: Option<String>,
    hint: Option<String>,
    place: Place,
}

/// What an error is about, for programs that would otherwise have to read its message.
#[derive(Clone, PartialEq, Eq, Default)]
struct Place {
    schema: Option<SchemaId>,
    table: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
    /// In the text that the client sent, in characters from 1.
    position: Option<usize>,
    context: Option<String>,
}

impl Error {
    /// 53200: the system has no memory left.
    #[cold]
    pub fn out_of_memory(bytes: usize) -> Error {
        let detail = format!("The system refused {bytes} bytes.");
        Error::new(SqlState::OutOfMemory, "out of memory").with_detail(detail)
    }

    /// An error with a one-sentence message in PostgreSQL's style: lower case, no full stop.
    pub fn new(state: SqlState, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Body {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            place: Place::default(),
        }))
    }

    /// A serialization failure: the transaction is rolled back and may be run again.
    pub fn serialization(message: &'static str) -> Error {
        Error::new(SqlState::SerializationFailure, message)
    }

    /// A bug in AnKerDB.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(SqlState::InternalError, message)
    }

    /// Names the table that the error is about.
    #[must_use]
    pub fn with_table(mut self, schema: SchemaId, table: impl Into<String>) -> Error {
        self.0.place.schema = Some(schema);
        self.0.place.table = Some(table.into());
        self
    }

    /// Names the column that the error is about.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Error {
        self.0.place.column = Some(column.into());
        self
    }

    /// Names the constraint that is violated.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Error {
        self.0.place.constraint = Some(constraint.into());
        self
    }

    /// Says where in the client's text the error is: in characters, from 1.
    #[must_use]
    pub fn with_position(mut self, position: usize) -> Error {
        self.0.place.position = Some(position);
        self
    }

    /// The error without a place in the client's text: what failed is in another one.
    #[must_use]
    pub fn without_position(mut self) -> Error {
        self.0.place.position = None;
        self
    }

    /// Says what was being worked on: a line of COPY's data, for example.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Error {
        self.0.place.context = Some(context.into());
        self
    }

    /// Adds the facts behind the message.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// The error code.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts behind the message.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Advice.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The schema of [`table`](Self::table).
    pub fn schema(&self) -> Option<SchemaId> {
        self.0.place.schema
    }

    /// The table that the error is about.
    pub fn table(&self) -> Option<&str> {
        self.0.place.table.as_deref()
    }

    /// The column that the error is about.
    pub fn column(&self) -> Option<&str> {
        self.0.place.column.as_deref()
    }

    /// The constraint that is violated.
    pub fn constraint(&self) -> Option<&str> {
        self.0.place.constraint.as_deref()
    }

    /// Where in the client's text the error is: in characters, from 1.
    pub fn position(&self) -> Option<usize> {
        self.0.place.position
    }

    /// What was being worked on.
    pub fn context(&self) -> Option<&str> {
        self.0.place.context.as_deref()
    }

    /// Whether running the whole transaction again may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.state(), SqlState::SerializationFailure | SqlState::DeadlockDetected)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.0.state.code())
    }
}

impl std::error::Error for Error {}
