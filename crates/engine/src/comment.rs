//! Comments: texts for people about what is in a catalog.
//!
//! They are kept beside the objects and not in their definitions, so that a comment does not give a table another definition, after
//! which transactions that have worked by the former one would have to end. What an object is known by here stays when it is
//! renamed, where that is possible; else renaming it takes its comments along, as dropping it does.
//!
//! ```text
//! tables, columns, indexes, constraints   the table's origin, and the part's position or name
//! views, sequences, types                 their names
//! schemas                                 their identities
//! ```
//!
//! Two transactions that change the same comment are in conflict, and so are one that comments on a part of something and
//! one that changes that.

use crate::schema::RelationName;
use ankerdb_base::{Error, SchemaId, SqlState, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has comments, its own and those of its parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Object {
    /// The database.
    Database,
    /// A schema.
    Schema(SchemaId),
    /// A table, by its origin.
    Table(TableId),
    /// A view.
    View(RelationName),
    /// A sequence.
    Sequence(RelationName),
    /// A type that a user has made.
    Type(RelationName),
}

/// The object itself, or a part of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// The object itself.
    Whole,
    /// A column, by its position.
    Column(usize),
    /// An index of a table.
    Index(String),
    /// A constraint of a table.
    Constraint(String),
}

/// What a comment is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject {
    /// The object.
    pub object: Object,
    /// The part of it.
    pub part: Part,
}

impl Subject {
    /// A part of an object, or all of it.
    pub fn new(object: Object, part: Part) -> Subject {
        Subject { object, part }
    }
}

/// All comments.
pub(crate) type Comments = BTreeMap<Subject, Arc<str>>;

/// Those that a database begins with.
pub(crate) fn first() -> Comments {
    let public = Subject::new(Object::Schema(SchemaId::PUBLIC), Part::Whole);
    BTreeMap::from([(public, "standard public schema".into())])
}

/// The subjects whose comments differ.
pub(crate) fn changed(base: &Comments, other: &Comments) -> Vec<Subject> {
    let differs = |subject: &&Subject| match (base.get(subject), other.get(subject)) {
        (Some(one), Some(other)) => !Arc::ptr_eq(one, other),
        (one, other) => one.is_some() != other.is_some(),
    };
    let new = other.keys().filter(differs);
    let gone = base.keys().filter(|subject| !other.contains_key(subject));
    new.chain(gone).cloned().collect()
}

/// 40001.
pub(crate) fn changed_by_others() -> Error {
    let message = "could not serialize access due to a concurrent change of a comment or of what it is about";
    Error::new(SqlState::SerializationFailure, message)
}
