//! CREATE TYPE, ALTER TYPE, DROP TYPE.

use super::define::Definition;
use crate::name::{folded, not_supported, object_name};
use crate::naming::{MOVED_TYPE, OWNED_TYPE};
use crate::syntax_error::near;
use crate::user_types::label_text;
use ankerdb_engine::{QualifiedName, Result};
use datafusion::sql::sqlparser::ast::{
    AlterType, AlterTypeAddValuePosition as Position, AlterTypeOperation, Ident, ObjectName,
    UserDefinedTypeRepresentation as Representation,
};

/// What happens to a type.
pub(crate) enum TypeChange {
    Name(String),
    Schema(String),
    /// The role that is to own it.
    Owner(String),
    AddLabel {
        label: String,
        place: LabelPlace,
        if_not_exists: bool,
    },
    RenameLabel {
        from: String,
        to: String,
    },
}

/// Where a label is added.
pub(crate) enum LabelPlace {
    Last,
    Before(String),
    After(String),
}

/// CREATE TYPE.
pub(super) fn create(name: &ObjectName, representation: Option<&Representation>) -> Result<Definition> {
    let Some(Representation::Enum { labels }) = representation else {
        return Err(not_supported("CREATE TYPE of something else than an enum"));
    };
    let labels = labels.iter().map(text).collect::<Result<Vec<_>>>()?;
    Ok(Definition::CreateType { name: object_name(name)?, labels })
}

/// ALTER TYPE.
pub(super) fn alter(statement: &AlterType) -> Result<Definition> {
    let name: QualifiedName = object_name(&statement.name)?;
    let change = match &statement.operation {
        AlterTypeOperation::Rename(rename) => TypeChange::Name(folded(&rename.new_name)),
        AlterTypeOperation::RenameValue(rename) => match rename.from.value.as_str() {
            MOVED_TYPE => TypeChange::Schema(folded(&rename.to)),
            OWNED_TYPE => TypeChange::Owner(folded(&rename.to)),
            _ => TypeChange::RenameLabel { from: text(&rename.from)?, to: text(&rename.to)? },
        },
        AlterTypeOperation::AddValue(add) => {
            let place = match &add.position {
                None => LabelPlace::Last,
                Some(Position::Before(label)) => LabelPlace::Before(text(label)?),
                Some(Position::After(label)) => LabelPlace::After(text(label)?),
            };
            TypeChange::AddLabel { label: text(&add.value)?, place, if_not_exists: add.if_not_exists }
        }
    };
    Ok(Definition::AlterType { name, change })
}

/// A label, which is a constant in quotes.
fn text(label: &Ident) -> Result<String> {
    label_text(label).map(str::to_owned).ok_or_else(|| near(&label.to_string()))
}
