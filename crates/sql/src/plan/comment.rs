//! COMMENT ON.

use crate::commenting::CONSTRAINT;
use crate::name::{folded, not_supported, object_name, qualified, schema_name, simple_name};
use ankerdb_engine::{Error, QualifiedName, Result, SqlState};
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName};

/// What a statement comments on.
pub(crate) enum Commented {
    Database(String),
    Schema(String),
    /// A relation of this kind: `table`, `view`, `materialized view`, `index` or `sequence`.
    Relation(&'static str, QualifiedName),
    Column(QualifiedName, String),
    Constraint(String, QualifiedName),
    Type(QualifiedName),
    Domain(QualifiedName),
}

/// What a name stands for behind COMMENT ON.
pub(super) fn commented(kind: CommentObject, name: &ObjectName) -> Result<Commented> {
    let relation = |kind: &'static str| Ok(Commented::Relation(kind, object_name(name)?));
    Ok(match kind {
        CommentObject::Table => relation("table")?,
        CommentObject::View => relation("view")?,
        CommentObject::MaterializedView => relation("materialized view")?,
        CommentObject::Index => relation("index")?,
        CommentObject::Sequence => relation("sequence")?,
        CommentObject::Schema => Commented::Schema(schema_name(name)?),
        CommentObject::Database => Commented::Database(simple_name(name)?),
        CommentObject::Type => Commented::Type(object_name(name)?),
        CommentObject::Domain => Commented::Domain(object_name(name)?),
        CommentObject::Column => column(name)?,
        CommentObject::Procedure => constraint(name)?,
        other => return Err(not_supported(&format!("COMMENT ON {other}"))),
    })
}

fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect()
}

fn column(name: &ObjectName) -> Result<Commented> {
    let mut parts = parts(name);
    match parts.pop() {
        Some(column) if !parts.is_empty() => Ok(Commented::Column(qualified(parts)?, column)),
        _ => Err(Error::new(SqlState::SyntaxError, "column name must be qualified")),
    }
}

fn constraint(name: &ObjectName) -> Result<Commented> {
    let mut parts = parts(name);
    match parts.first().map(String::as_str) {
        Some(CONSTRAINT) => {
            let table = parts.split_off(2);
            Ok(Commented::Constraint(parts.pop().unwrap_or_default(), qualified(table)?))
        }
        _ => Err(not_supported("COMMENT ON PROCEDURE")),
    }
}
