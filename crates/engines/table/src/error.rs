//! The errors of the testbed: each names the thing, the reason, and the way out.

use std::sync::Arc;

use crate::{
    key::KEY_LEN_MAX,
    schema::{COLUMNS_MAX, INDEXES_MAX, NAME_LEN_MAX},
    value::Type,
};

/// A result of the testbed.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the testbed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no table of this name.
    #[error("there is no table {table:?}; create it, or check its name against the catalog")]
    UnknownTable {
        /// The name, or `#` and the id.
        table: Box<str>,
    },

    /// A table does not have a column of this name.
    #[error("table {table:?} has no column {column:?}; check the name against the table's schema")]
    UnknownColumn {
        /// The table.
        table: Box<str>,
        /// The name.
        column: Box<str>,
    },

    /// A column's number is not below the number of the table's columns.
    #[error(
        "table {table:?} has {columns} columns, numbered from 0, and none with the number {number}"
    )]
    ColumnNumber {
        /// The table.
        table: Box<str>,
        /// The number.
        number: usize,
        /// The number of columns.
        columns: usize,
    },

    /// A table does not have an index of this name.
    #[error(
        "table {table:?} has no index {index:?}; create it, or check its name against the schema"
    )]
    UnknownIndex {
        /// The table.
        table: Box<str>,
        /// The name.
        index: Box<str>,
    },

    /// There is a table or index of this name already.
    #[error("there is a {what} {name:?} already; choose another name, or drop that one first")]
    Exists {
        /// `table`, `index` or `procedure`.
        what: &'static str,
        /// The name.
        name: Box<str>,
    },

    /// A name is empty, too long, or has control characters.
    #[error(
        "the name {name:?} of a {what} must have 1 to {NAME_LEN_MAX} bytes and no control characters"
    )]
    Name {
        /// `table`, `column`, `index`, `procedure` or `parameter`.
        what: &'static str,
        /// The name.
        name: Box<str>,
    },

    /// A table's schema has no column, or too many.
    #[error("table {table:?} has {columns} columns; a table may have 1 to {COLUMNS_MAX}")]
    Columns {
        /// The table.
        table: Box<str>,
        /// The number of columns.
        columns: usize,
    },

    /// A table would have too many secondary indexes.
    #[error(
        "table {table:?} cannot have more than {INDEXES_MAX} indexes; drop one that is not needed"
    )]
    Indexes {
        /// The table.
        table: Box<str>,
    },

    /// A column's type has a length or digits that it cannot have.
    #[error("column {column:?} cannot be {ty}: {range}")]
    TypeLimits {
        /// The column.
        column: Box<str>,
        /// The type.
        ty: Type,
        /// The values that are possible.
        range: &'static str,
    },

    /// Two columns or two indexes of a table have one name, or a key names a column twice.
    #[error("table {table:?} has {name:?} twice among {among}; remove one of them")]
    Twice {
        /// The table.
        table: Box<str>,
        /// The name.
        name: Box<str>,
        /// The things that have to differ.
        among: &'static str,
    },

    /// A table has no primary key.
    #[error(
        "table {table:?} has no primary key; name its columns, or add a column that numbers the rows"
    )]
    NoPrimaryKey {
        /// The table.
        table: Box<str>,
    },

    /// An index has no columns.
    #[error("index {index:?} has no columns; name at least one")]
    EmptyIndex {
        /// The index.
        index: Box<str>,
    },

    /// A column of the primary key may be NULL.
    #[error("column {column:?} of the primary key may be NULL; declare it without `nullable`")]
    NullableKey {
        /// The column.
        column: Box<str>,
    },

    /// A value is of another kind than its column.
    #[error("column {column:?} is {ty} and cannot have {found}; convert the value first")]
    TypeMismatch {
        /// The column.
        column: Box<str>,
        /// Its type.
        ty: Type,
        /// The kind of the value.
        found: &'static str,
    },

    /// A number does not fit its column.
    #[error(
        "column {column:?} is {ty} and cannot have {value}; choose a wider type, or `rescale` the number"
    )]
    OutOfRange {
        /// The column.
        column: Box<str>,
        /// Its type.
        ty: Type,
        /// The number.
        value: Box<str>,
    },

    /// Text or bytes are longer than their column.
    #[error(
        "column {column:?} is {ty} and cannot have {len} bytes; shorten the value, or use a longer column"
    )]
    TooLong {
        /// The column.
        column: Box<str>,
        /// Its type.
        ty: Type,
        /// Bytes of the value.
        len: usize,
    },

    /// NULL for a column that must have a value.
    #[error(
        "column {column:?} must have a value and cannot be NULL; give one, or declare it with `nullable`"
    )]
    NullNotAllowed {
        /// The column.
        column: Box<str>,
    },

    /// A row has more or fewer values than its table has columns.
    #[error(
        "a row of table {table:?} has {expected} values, and {found} were given; give one for each column"
    )]
    ColumnCount {
        /// The table.
        table: Box<str>,
        /// The number of columns.
        expected: usize,
        /// The number of values.
        found: usize,
    },

    /// A key has more or fewer values than it has columns.
    #[error(
        "key {key:?} has {expected} columns, and {found} values were given; give one for each column"
    )]
    KeyParts {
        /// The key: `primary key of` and the table, or the index.
        key: Box<str>,
        /// The number of its columns.
        expected: usize,
        /// The number of values.
        found: usize,
    },

    /// An encoded key is too long.
    #[error(
        "a key of {key:?} has {len} bytes, encoded; the limit is {KEY_LEN_MAX}: shorten its text or bytes"
    )]
    KeyTooLong {
        /// The key: `primary key of` and the table, or the index.
        key: Box<str>,
        /// Its bytes.
        len: usize,
    },

    /// A key that has to be unique is there already.
    #[error(
        "there is a row with the {key} {value} already; change that row, or choose another key"
    )]
    DuplicateKey {
        /// The key: `primary key of` and the table, or the index.
        key: Box<str>,
        /// Its values.
        value: Box<str>,
    },

    /// A value is not of the kind that was asked for.
    #[error(
        "the value is {found}, not {wanted}; ask for the kind of its column, and check for NULL before"
    )]
    NotOfKind {
        /// The kind that was asked for.
        wanted: &'static str,
        /// The kind of the value.
        found: &'static str,
    },

    /// A text is no value of a type.
    #[error("{text:?} is no {ty}; {hint}")]
    NotParsed {
        /// The type.
        ty: Box<str>,
        /// The first characters of the text.
        text: Box<str>,
        /// The form of a value's text.
        hint: &'static str,
    },

    /// A decimal would have more than 38 digits.
    #[error(
        "{operation} has more than 38 digits, or more than 38 behind the point; `rescale` its numbers before"
    )]
    DecimalOverflow {
        /// The operation.
        operation: &'static str,
    },

    /// All ids of tables and indexes were used.
    #[error(
        "the catalog has used all ids of tables and indexes; dump the tables, and load them into a new store"
    )]
    NoMoreIds,

    /// Stored bytes are damaged, or not of this table.
    #[error(
        "{what} is damaged: {why}; run a check of the store, and restore it from a backup or a replica"
    )]
    Damaged {
        /// The damaged thing.
        what: Box<str>,
        /// The defect.
        why: Box<str>,
    },

    /// An error of the heap that has tuples or indexes.
    #[error(transparent)]
    Heap(Arc<halite_alloc::Error>),

    /// An error of an index, or of the file that has all of them.
    #[error(transparent)]
    Index(Arc<crate::index::Error>),

    /// An error of the log.
    #[error(transparent)]
    Log(halite_wal::Error),

    /// An error of a file.
    #[error(transparent)]
    Disk(Arc<halite_disk::Error>),

    /// An error of a sorted run.
    #[error(transparent)]
    Run(Arc<halite_sst::Error>),

    /// A file is of another store, or of no store.
    #[error("{what} is not of this store: {why}; choose the right folder, or bring the file back")]
    Foreign {
        /// The file.
        what: Box<str>,
        /// The difference.
        why: Box<str>,
    },

    /// A file is of a later version.
    #[error(
        "{what} has format {version}, and this program knows up to {known}; use a later program"
    )]
    Version {
        /// The file.
        what: Box<str>,
        /// The version that the file says.
        version: u32,
        /// The latest version that is known.
        known: u32,
    },

    /// A statement that needs a transaction has none, or one that cannot be in a transaction is.
    #[error("{statement} {rule}; end the transaction first, or begin one")]
    Transaction {
        /// The statement.
        statement: &'static str,
        /// The rule that it breaks.
        rule: &'static str,
    },

    /// A table is used that the catalog does not have like that.
    #[error(
        "table {table:?} was changed since it was taken from the catalog; take it from there again"
    )]
    TableChanged {
        /// The table.
        table: Box<str>,
    },

    /// A transaction changes more than its undo log can have, or the records that make its group durable.
    #[error(
        "a transaction needs a log of {len} bytes, and a log has up to {max}; divide the transaction"
    )]
    TransactionTooLarge {
        /// Bytes that its log would have.
        len: u64,
        /// The most that a log has.
        max: u64,
    },

    /// There is no recovery method of this name.
    #[error("there is no recovery method {name:?}; the methods are {known}")]
    UnknownMethod {
        /// The name.
        name: Box<str>,
        /// All names.
        known: Box<str>,
    },

    /// A store was made by another method or engine.
    #[error("the store in {path} was made by {found}, not by {wanted}; open it by that name")]
    OtherMethod {
        /// The path of its pool.
        path: Box<str>,
        /// The name that it was to be opened by.
        wanted: Box<str>,
        /// The name that made it.
        found: Box<str>,
    },

    /// A store has another number of partitions.
    #[error(
        "the store has {found} partitions, and {asked} were asked for; open it without a number, or dump its tables \
         and load them into a new store"
    )]
    OtherPartitions {
        /// The number that it has.
        found: u64,
        /// The number that was asked for.
        asked: u64,
    },

    /// A number of partitions that no store can have.
    #[error("a store has 1 to {max} partitions, and not {asked}")]
    Partitions {
        /// The number that was asked for.
        asked: u64,
        /// The most that a store has.
        max: u64,
    },

    /// A transaction uses a partition that it did not name.
    #[error(
        "partition {partition} is none of the transaction's; name all of its partitions where it begins"
    )]
    NotParticipant {
        /// The partition's number.
        partition: usize,
    },

    /// There is no stored procedure of this name.
    #[error("there is no procedure {procedure:?}; register it, or check its name")]
    UnknownProcedure {
        /// The name.
        procedure: Box<str>,
    },

    /// A call has more or fewer arguments than its procedure has parameters.
    #[error(
        "procedure {procedure:?} has {expected} parameters, and {found} arguments were given; give one for each"
    )]
    ArgumentCount {
        /// The procedure.
        procedure: Box<str>,
        /// The number of its parameters.
        expected: usize,
        /// The number of arguments.
        found: usize,
    },

    /// A procedure cannot have an argument, for the reason that a column of the parameter's name and type could not.
    #[error("procedure {procedure:?} cannot have an argument: {why}")]
    Argument {
        /// The procedure.
        procedure: Box<str>,
        /// The reason.
        why: Box<Error>,
    },

    /// A transaction, or a statement that is in none, begins in the body of a transaction.
    #[error(
        "{inner} cannot run in {outer}, which would wait for itself; end that first, or do both in one body"
    )]
    Recursion {
        /// The inner one.
        inner: Box<str>,
        /// The transaction that this thread is in.
        outer: Box<str>,
    },

    /// The body of a transaction gave it up, and its changes were undone.
    #[error("the transaction was given up, and undone: {why}")]
    GivenUp {
        /// The body's reason.
        why: Box<str>,
    },

    /// The body of a transaction panicked, and its changes were undone.
    #[error("a transaction panicked, and was undone: {message}")]
    Panicked {
        /// The message of the panic.
        message: Box<str>,
    },

    /// The queue of a worker has no room for another call.
    #[error(
        "the queue of partition {partition} is full; wait for a call, and submit this one again"
    )]
    Busy {
        /// The partition.
        partition: usize,
    },

    /// A worker has panicked, outside the body of a procedure.
    #[error(
        "the worker of partition {partition} has ended, and whether its call happened is unknown; look for its changes, \
         and make another executor"
    )]
    WorkerEnded {
        /// The partition.
        partition: usize,
    },

    /// There is no store, and none was to be made.
    #[error("there is no store in {path}; make one, or check the path")]
    NoStore {
        /// The path of its pool.
        path: Box<str>,
    },

    /// A method has no views of a past moment.
    #[error(
        "{method} has no views of a past moment; cow, nvm-cow and nvm-wbl have: make a store by one of them"
    )]
    NoViews {
        /// The method.
        method: &'static str,
    },

    /// A commit failed, and commits before it that were not durable are lost with it.
    #[error(
        "a commit failed, and with it those since the last sync are lost: {why}; open the partition again"
    )]
    Lost {
        /// The failure.
        why: Box<str>,
    },
}

impl From<crate::index::Error> for Error {
    fn from(error: crate::index::Error) -> Self {
        Self::Index(Arc::new(error))
    }
}

impl From<halite_alloc::Error> for Error {
    fn from(error: halite_alloc::Error) -> Self {
        Self::Heap(Arc::new(error))
    }
}

impl From<halite_wal::Error> for Error {
    fn from(error: halite_wal::Error) -> Self {
        Self::Log(error)
    }
}

impl From<halite_sst::Error> for Error {
    fn from(error: halite_sst::Error) -> Self {
        Self::Run(Arc::new(error))
    }
}

impl From<halite_disk::Error> for Error {
    fn from(error: halite_disk::Error) -> Self {
        Self::Disk(Arc::new(error))
    }
}

/// Characters of a text that an error repeats.
const QUOTED: usize = 60;

impl Error {
    /// Whether stored bytes are damaged.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use halite_alloc::Error as Space;
        let of_space = |error: &Space| {
            let of_pool = |error: &_| matches!(error, halite_pmem::Error::OutOfBounds { .. });
            match error {
                Space::Damaged { .. } | Space::Truncated { .. } => true,
                Space::Pool(error) => of_pool(error),
                _ => false,
            }
        };
        match self {
            Self::Damaged { .. } => true,
            Self::Heap(error) => of_space(error),
            Self::Index(error) => match &**error {
                crate::index::Error::Damaged { .. } | crate::index::Error::DamagedNode { .. } => {
                    true
                }
                crate::index::Error::Heap(error) => of_space(error),
                _ => false,
            },
            Self::Log(error) => {
                matches!(
                    error,
                    halite_wal::Error::Damaged { .. } | halite_wal::Error::Missing { .. }
                )
            }
            Self::Run(error) => matches!(
                **error,
                halite_sst::Error::Damaged { .. }
                    | halite_sst::Error::Missing { .. }
                    | halite_sst::Error::Misnamed { .. }
            ),
            _ => false,
        }
    }

    /// The text is not of the type.
    #[cold]
    pub(crate) fn not_a(ty: impl ToString, text: &str, hint: &'static str) -> Self {
        let text: String = text.chars().take(QUOTED).collect();
        Self::NotParsed { ty: ty.to_string().into(), text: text.into(), hint }
    }

    /// Whether a change was refused before it began: there is no room for it, or it is more than can happen at once.
    pub(crate) fn is_refusal(&self) -> bool {
        use crate::index::Error as IndexError;
        use halite_alloc::Error as SpaceError;

        let refused = |error: &SpaceError| {
            matches!(
                error,
                SpaceError::Full { .. }
                    | SpaceError::TooLong { .. }
                    | SpaceError::Publication { .. }
            )
        };
        match self {
            Self::Heap(error) => refused(error),
            Self::Index(error) => match &**error {
                IndexError::Heap(error) => refused(error),
                IndexError::Full { .. } => true,
                IndexError::Disk(error) => matches!(error, halite_disk::Error::NoSpace { .. }),
                _ => false,
            },
            // The log is as it was.
            Self::Log(halite_wal::Error::NoFile(_)) | Self::TransactionTooLarge { .. } => true,
            _ => false,
        }
    }

    /// The thing has a defect.
    #[cold]
    pub(crate) fn damaged(what: impl Into<Box<str>>, why: impl Into<Box<str>>) -> Self {
        Self::Damaged { what: what.into(), why: why.into() }
    }
}
