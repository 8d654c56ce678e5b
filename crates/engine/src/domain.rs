//! A domain: a base type with conditions. See docs/design/domains.md.

use crate::schema::RelationName;
use ankerdb_base::SchemaId;
use ankerdb_value::{DataType, DomainType};

/// A domain.
#[derive(Clone, PartialEq, Debug)]
pub struct Domain {
    /// The schema that it is in.
    pub schema: SchemaId,
    /// Its name, unique among the types of the schema.
    pub name: String,
    /// What columns know it by.
    pub identity: DomainType,
    /// Which of the versions that the floor above knows it is in this catalog.
    pub version: u32,
    /// The type of its values, with limits.
    pub base: DataType,
    /// The domain that it was made over.
    pub over: Option<DomainType>,
    /// The collation that was named.
    pub collation: Option<String>,
    /// What a column without a default gets: an expression in SQL.
    pub default: Option<String>,
    /// Whether NULL is no value of it.
    pub is_not_null: bool,
    /// Its conditions, by name.
    pub checks: Vec<DomainCheck>,
}

/// A condition of a domain.
#[derive(Clone, PartialEq, Debug)]
pub struct DomainCheck {
    /// Its name, unique in the domain.
    pub name: String,
    /// The condition as it was declared.
    pub text: String,
    /// Whether all values that there are fulfil it.
    pub is_validated: bool,
}

impl Domain {
    /// Its name with its schema.
    pub fn full_name(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}
