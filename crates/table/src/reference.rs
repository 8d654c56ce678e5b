//! Foreign keys: rows of a table, the child, refer to rows of another one, the parent, or of the same.
//!
//! Both definitions know of a foreign key, each with positions of its own columns, and know the other table by its
//! [origin](crate::Table::origin). So either table can get another name or other columns, and the other one's definition stays right.

use ankerdb_base::{ColumnSet, TableId};
use ankerdb_value::Value;

/// What happens to rows that refer to a row which is deleted, or gets another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReferentialAction {
    /// The change fails if there are any when the constraint is tested.
    #[default]
    NoAction,
    /// The change fails if there are any at the end of its statement.
    Restrict,
    /// They are deleted, or get the new key.
    Cascade,
    /// Their columns become NULL.
    SetNull,
    /// Their columns get their defaults.
    SetDefault,
}

/// When a constraint is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConstraintTiming {
    /// At the end of each statement.
    #[default]
    Immediate,
    /// At the end of each statement, unless a transaction asks for its end.
    Deferrable,
    /// At the end of the transaction, unless one asks for the end of each statement.
    Deferred,
}

/// Of a child: its columns hold a key of the parent, or NULL.
#[derive(Clone, PartialEq, Debug)]
pub struct ForeignKey {
    /// The constraint's name, unique in the child.
    pub name: String,
    /// The child's columns, in the order in which they were declared.
    pub columns: Vec<usize>,
    /// The parent's origin.
    pub parent: TableId,
    /// What follows from the deletion of a parent's row.
    pub on_delete: ReferentialAction,
    /// What follows from another key of a parent's row.
    pub on_update: ReferentialAction,
    /// The columns that `SetNull` and `SetDefault` of a deletion change; all if there are none.
    pub set_columns: Vec<usize>,
    /// What `SetDefault` gives the columns, one value for each; none if no action does that.
    pub defaults: Vec<Value>,
    /// Whether either all columns are NULL or none (`MATCH FULL`). Else a row refers to nothing if any is.
    pub is_full: bool,
    /// When it is tested.
    pub timing: ConstraintTiming,
    /// Whether all rows that refer to something have their parents.
    pub is_validated: bool,
}

impl ForeignKey {
    /// The child's columns as a set.
    pub fn column_set(&self) -> ColumnSet {
        ColumnSet::of(&self.columns)
    }
}

/// Of a parent: one of its keys is referred to.
#[derive(Clone, PartialEq, Debug)]
pub struct Reference {
    /// The constraint's name.
    pub name: String,
    /// The child's origin.
    pub child: TableId,
    /// The parent's columns, in the order of the child's.
    pub columns: Vec<usize>,
}
