//! Schemas: what relations have their names in, and where names without a schema are looked for.

use ankerdb_base::SchemaId;
use ankerdb_table::Table;
use std::fmt;

/// The name of the schema that every database begins with.
pub const PUBLIC: &str = "public";

/// A schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    /// Its identity, by which relations know it.
    pub id: SchemaId,
    /// Its name, unique in the database.
    pub name: String,
}

/// A relation's name, unique in the database. It stays when the schema gets another name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RelationName {
    /// The schema.
    pub schema: SchemaId,
    /// The name in the schema.
    pub name: String,
}

impl RelationName {
    /// The name of a relation in a schema.
    pub fn new(schema: SchemaId, name: impl Into<String>) -> RelationName {
        RelationName { schema, name: name.into() }
    }

    /// The name of a table.
    pub fn of(table: &Table) -> RelationName {
        RelationName::new(table.definition().schema, table.name())
    }
}

/// A relation's name as a statement writes it: with the name of a schema, or without.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QualifiedName {
    /// The schema, if the statement names one.
    pub schema: Option<String>,
    /// The relation.
    pub name: String,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", NameRef::from(self))
    }
}

/// What names a relation: a text, which is looked for along the catalog's [`SearchPath`], or one of the types of names.
#[derive(Clone, Copy, Debug)]
pub enum NameRef<'a> {
    /// A name without a schema.
    Unqualified(&'a str),
    /// The name of a schema, and one in it.
    Qualified(&'a str, &'a str),
    /// A schema that is known, and a name in it.
    In(SchemaId, &'a str),
}

impl<'a> From<&'a str> for NameRef<'a> {
    fn from(name: &'a str) -> NameRef<'a> {
        NameRef::Unqualified(name)
    }
}

impl<'a> From<&'a String> for NameRef<'a> {
    fn from(name: &'a String) -> NameRef<'a> {
        NameRef::Unqualified(name)
    }
}

impl<'a> From<&'a RelationName> for NameRef<'a> {
    fn from(name: &'a RelationName) -> NameRef<'a> {
        NameRef::In(name.schema, &name.name)
    }
}

impl<'a> From<&'a QualifiedName> for NameRef<'a> {
    fn from(name: &'a QualifiedName) -> NameRef<'a> {
        match &name.schema {
            None => NameRef::Unqualified(&name.name),
            Some(schema) => NameRef::Qualified(schema, &name.name),
        }
    }
}

impl<'a> NameRef<'a> {
    /// The name without its schema.
    pub fn name(self) -> &'a str {
        match self {
            NameRef::Unqualified(name) | NameRef::Qualified(_, name) | NameRef::In(_, name) => name,
        }
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameRef::Unqualified(name) | NameRef::In(_, name) => f.write_str(name),
            NameRef::Qualified(schema, name) => write!(f, "{schema}.{name}"),
        }
    }
}

/// Where names without a schema are looked for: in schemas by their names, one after the other. Those that do not exist are passed
/// over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchPath {
    /// Looked through in this order.
    pub searched: Vec<String>,
    /// Those of them that were asked for: the first one that exists gets what is made without a schema.
    pub asked: Vec<String>,
    /// The schema of the session's temporary relations.
    pub temporary: Option<String>,
}

impl Default for SearchPath {
    /// `public`, behind the relations of the system.
    fn default() -> SearchPath {
        let asked = vec![PUBLIC.to_owned()];
        SearchPath { searched: vec!["pg_catalog".to_owned(), PUBLIC.to_owned()], asked, temporary: None }
    }
}
