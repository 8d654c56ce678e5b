//! Types that users make.

use crate::schema::RelationName;
use ankerdb_base::SchemaId;
use ankerdb_value::{DataType, EnumLife, EnumState, EnumType, ListType, SystemType};
use std::sync::Arc;

/// A type of labels.
#[derive(Clone, Debug)]
pub struct UserType {
    /// The schema that it is in.
    pub schema: SchemaId,
    /// Its name, unique among the types of the schema.
    pub name: String,
    /// What values know it by.
    pub labels: EnumType,
    /// Says that the type lives.
    pub life: Arc<EnumLife>,
    /// Its labels, as this catalog has them.
    pub state: &'static EnumState,
}

impl UserType {
    /// Its name with its schema.
    pub fn full_name(&self) -> RelationName {
        RelationName::new(self.schema, self.name.as_str())
    }
}

/// The type of labels that a column of this type has values of.
pub fn labels_of(data_type: DataType) -> Option<EnumType> {
    match data_type {
        DataType::Enum(labels) | DataType::System(SystemType::List(ListType::Enum(labels))) => Some(labels),
        _ => None,
    }
}
