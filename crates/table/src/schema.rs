//! What a table is declared as.

use crate::check::Check;
use crate::derivation::Derivation;
use crate::generation::Generation;
use crate::materialized::Materialized;
use crate::reference::{ForeignKey, Reference};
use ankerdb_base::{Error, Result, SchemaId, SqlState};
use ankerdb_value::{DataType, DomainType};
use std::sync::Arc;

/// One column of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnDefinition {
    /// Its name, unique in the table.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// What a statement stores that names no value: an expression in SQL, for the SQL floor to read. NULL if there is none.
    pub default: Option<String>,
    /// Whether the default counts, and may be given otherwise.
    pub identity: Option<Identity>,
    /// How it is computed from the others, if it is.
    pub generation: Option<Generation>,
    /// The domain that it is of, whose base type its type is.
    pub domain: Option<ColumnDomain>,
    /// The collation that was named for it. All of them compare bytes.
    pub collation: Option<String>,
}

/// What a column knows of its domain. A check of the table tests its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnDomain {
    /// The domain.
    pub identity: DomainType,
    /// By which of its versions values are tested.
    pub version: u32,
    /// Whether the default is that of the domain.
    pub gives_default: bool,
}

/// A column that numbers its rows (`GENERATED ... AS IDENTITY`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// Statements may not give a value of their own.
    Always,
    /// They may.
    ByDefault,
}

impl ColumnDefinition {
    /// A column that forbids NULL.
    pub fn new(name: impl Into<String>, data_type: DataType) -> ColumnDefinition {
        let (name, nullable) = (name.into(), false);
        ColumnDefinition {
            name,
            data_type,
            nullable,
            default: None,
            identity: None,
            generation: None,
            domain: None,
            collation: None,
        }
    }

    /// This column, with NULL allowed.
    pub fn nullable(mut self) -> ColumnDefinition {
        self.nullable = true;
        self
    }
}

/// How an index finds its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexKind {
    /// A tree in the order of the keys: whole keys, leading columns, ranges, order.
    #[default]
    Ordered,
    /// A hash table: whole keys only, and those with one cache miss.
    Hash,
}

/// What else an index was declared with. But for NULLs, nothing depends on it but how clients are shown the index: values have one order,
/// and an ordered index is read in both directions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexStyle {
    /// Of the key columns, if any of them is more than a column.
    pub keys: Vec<KeyStyle>,
    /// Columns that are no part of the key, by position. The index goes with them.
    pub included: Vec<usize>,
    /// Names and values of storage options.
    pub options: Vec<(String, String)>,
    /// Whether NULL equals NULL in a unique one (`NULLS NOT DISTINCT`).
    pub nulls_are_equal: bool,
}

/// How a key column was declared.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyStyle {
    /// Its collation, if it was named.
    pub collation: Option<String>,
    /// Its operator class, if it is not that which values of its type have anyway.
    pub class: Option<String>,
    /// Whether it was asked for in descending order.
    pub descending: bool,
    /// Whether NULL was asked for before other values.
    pub nulls_first: bool,
}

/// One index of a table. In an ordered one, NULL keys sort last; in any, they conflict only if it was declared so.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexDefinition {
    /// Its name, unique in the schema of its table.
    pub name: String,
    /// The key: column positions, most significant first. None if it is computed.
    pub columns: Vec<usize>,
    /// How the key is computed, unless it is some columns of each row.
    pub derivation: Option<Arc<Derivation>>,
    /// Whether two rows may have the same key.
    pub unique: bool,
    /// Whether it is the primary key: unique, and its columns forbid NULL.
    pub primary: bool,
    /// Whether it was declared as a constraint, which a unique index need not be. Clients are told; nothing else depends on it.
    pub is_constraint: bool,
    /// How it finds its entries.
    pub kind: IndexKind,
    /// What else it was declared with.
    pub style: IndexStyle,
}

/// What a commit does to a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnCommit {
    /// Nothing, as to all others.
    #[default]
    Preserve,
    /// Deletes its rows.
    DeleteRows,
    /// Drops it.
    Drop,
}

/// A table's name, columns and the indexes it starts with.
#[derive(Clone, PartialEq, Debug)]
pub struct TableDefinition {
    /// The schema that it and its indexes are in.
    pub schema: SchemaId,
    /// Its name, unique in the schema.
    pub name: String,
    /// What a commit of the session that it belongs to does to it.
    pub on_commit: OnCommit,
    /// Its columns, in order.
    pub columns: Vec<ColumnDefinition>,
    /// Its indexes; the primary key, if any, first.
    pub indexes: Vec<IndexDefinition>,
    /// What its rows satisfy, in the order in which it is tested.
    pub checks: Vec<Check>,
    /// What its rows refer to.
    pub foreign_keys: Vec<ForeignKey>,
    /// What refers to its rows: the other sides of foreign keys, its own too.
    pub referenced_by: Vec<Reference>,
    /// The query that it shows, if it is a materialized view.
    pub materialized: Option<Arc<Materialized>>,
}

/// The most columns a table can have, as in PostgreSQL.
pub const MAX_COLUMNS: usize = 1600;

impl TableDefinition {
    /// A table in `public` without columns or indexes; add them with [`column`](Self::column),
    /// [`primary_key`](Self::primary_key) and [`index`](Self::index).
    pub fn new(name: impl Into<String>) -> TableDefinition {
        TableDefinition {
            schema: SchemaId::PUBLIC,
            name: name.into(),
            on_commit: OnCommit::Preserve,
            columns: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            materialized: None,
        }
    }

    /// Adds a column.
    pub fn column(mut self, column: ColumnDefinition) -> TableDefinition {
        self.columns.push(column);
        self
    }

    /// Adds the primary key `<table>_pkey` over named columns. Panics on an unknown name: definitions made
    /// in Rust are the program's own; SQL's are checked before.
    pub fn primary_key(mut self, columns: &[&str]) -> TableDefinition {
        let columns: Vec<usize> = columns.iter().map(|name| self.position_or_panic(name)).collect();
        columns.iter().for_each(|&column| self.columns[column].nullable = false);
        let name = format!("{}_pkey", self.name);
        self.indexes.insert(
            0,
            IndexDefinition {
                name,
                columns,
                derivation: None,
                unique: true,
                primary: true,
                is_constraint: true,
                kind: IndexKind::Ordered,
                style: IndexStyle::default(),
            },
        );
        self
    }

    /// Adds an index over named columns. Panics on an unknown name, like [`primary_key`](Self::primary_key).
    pub fn index(mut self, name: impl Into<String>, columns: &[&str], unique: bool) -> TableDefinition {
        let columns = columns.iter().map(|name| self.position_or_panic(name)).collect();
        let kind = IndexKind::Ordered;
        self.indexes.push(IndexDefinition {
            name: name.into(),
            columns,
            derivation: None,
            unique,
            primary: false,
            is_constraint: false,
            kind,
            style: IndexStyle::default(),
        });
        self
    }

    /// Makes an index that was added (`<table>_pkey` is the primary key's) a hash index. Panics on an unknown name.
    pub fn hashed(mut self, name: &str) -> TableDefinition {
        let index = self.indexes.iter_mut().find(|index| index.name == name);
        index.unwrap_or_else(|| panic!("no index is called {name}")).kind = IndexKind::Hash;
        self
    }

    fn position_or_panic(&self, name: &str) -> usize {
        self.position(name).unwrap_or_else(|| panic!("table {} has no column {name}", self.name))
    }

    /// The position of the column with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Checks what the types cannot: no name twice, keys over existing columns.
    ///
    /// # Errors
    /// `InvalidTableDefinition`, `DuplicateColumn`; `ProgramLimitExceeded` for too many columns.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(SqlState::InvalidTableDefinition, message));
        if self.columns.len() > MAX_COLUMNS {
            let message = format!("tables can have at most {MAX_COLUMNS} columns");
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
        for (position, column) in self.columns.iter().enumerate() {
            if self.position(&column.name) != Some(position) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(Error::new(SqlState::DuplicateColumn, message));
            }
        }
        if self.indexes.iter().filter(|index| index.primary).count() > 1 {
            return invalid(format!("multiple primary keys for table \"{}\" are not allowed", self.name));
        }
        self.indexes.iter().try_for_each(|index| self.validate_index(index))
    }

    /// Checks one index against the columns.
    ///
    /// # Errors
    /// `InvalidTableDefinition`, and 42704 for a `json`, which has no order.
    pub fn validate_index(&self, index: &IndexDefinition) -> Result<()> {
        let invalid = |message: String| Err(Error::new(SqlState::InvalidTableDefinition, message));
        let sources = index.derivation.as_ref().map_or(&index.columns[..], |derivation| &derivation.sources);
        let parts =
            index.derivation.as_ref().map_or(index.columns.len(), |derivation| derivation.types.len());
        if parts == 0 {
            return invalid(format!("index \"{}\" needs at least one column", index.name));
        }
        if let Some(column) = sources.iter().find(|&&column| column >= self.columns.len()) {
            return invalid(format!("index \"{}\" names column {column}, which does not exist", index.name));
        }
        if index.columns.iter().any(|&column| self.columns[column].data_type == DataType::Json) {
            let message = "data type json has no default operator class for access method \"btree\"";
            return Err(Error::new(SqlState::UndefinedObject, message).with_hint(
                "You must specify an operator class for the index or define a default operator class for the data type.",
            ));
        }
        if index.primary && index.columns.iter().any(|&column| self.columns[column].nullable) {
            return invalid(format!("primary key \"{}\" has a nullable column", index.name));
        }
        Ok(())
    }
}
