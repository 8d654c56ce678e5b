//! REFERENCES and FOREIGN KEY, read.

use crate::name::{folded, not_supported, object_name};
use ankerdb_engine::{ConstraintTiming, Error, NewForeignKey, ReferentialAction, Result, SqlState};
use datafusion::sql::sqlparser::ast;

/// A foreign key as it is declared. Its name is chosen when it is made, unless it has one.
#[derive(Clone)]
pub(crate) struct ForeignKeyClause {
    pub is_named: bool,
    pub key: NewForeignKey,
}

/// The clause; `columns` are those that it belongs to where it names none itself.
///
/// # Errors
/// `FeatureNotSupported` for what PostgreSQL has and AnKerDB does not.
pub(crate) fn foreign_key(
    constraint: &ast::ForeignKeyConstraint,
    name: Option<&ast::Ident>,
    columns: &[String],
) -> Result<ForeignKeyClause> {
    let ast::ForeignKeyConstraint {
        name: own_name,
        index_name,
        columns: own_columns,
        foreign_table,
        referred_columns,
        on_delete,
        on_update,
        match_kind,
        characteristics,
    } = constraint;
    if index_name.is_some() {
        return Err(crate::syntax_error::near("("));
    }
    if *match_kind == Some(ast::ConstraintReferenceMatchKind::Partial) {
        return Err(not_supported("MATCH PARTIAL"));
    }
    let name = own_name.as_ref().or(name).map(folded);
    let columns = match own_columns.is_empty() {
        true => columns.to_vec(),
        false => own_columns.iter().map(folded).collect(),
    };
    let key = NewForeignKey {
        name: name.clone().unwrap_or_default(),
        columns,
        parent: object_name(foreign_table)?,
        parent_columns: referred_columns.iter().map(folded).collect(),
        on_delete: action(on_delete.as_ref())?,
        on_update: action(on_update.as_ref())?,
        is_full: *match_kind == Some(ast::ConstraintReferenceMatchKind::Full),
        timing: timing(characteristics.as_ref())?,
        is_validated: true,
    };
    Ok(ForeignKeyClause { is_named: name.is_some(), key })
}

fn action(action: Option<&ast::ReferentialAction>) -> Result<ReferentialAction> {
    Ok(match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => {
            return Err(not_supported("SET DEFAULT of a foreign key"));
        }
    })
}

fn timing(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<ConstraintTiming> {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return Ok(ConstraintTiming::Immediate);
    };
    if enforced.is_some() {
        return Err(crate::syntax_error::near("ENFORCED"));
    }
    let is_deferred = *initially == Some(ast::DeferrableInitial::Deferred);
    match (deferrable, is_deferred) {
        (Some(false), true) => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            Err(Error::new(SqlState::SyntaxError, message))
        }
        (_, true) => Ok(ConstraintTiming::Deferred),
        (Some(true), false) => Ok(ConstraintTiming::Deferrable),
        (_, false) => Ok(ConstraintTiming::Immediate),
    }
}
