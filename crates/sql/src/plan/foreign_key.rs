//! REFERENCES and FOREIGN KEY, read.

use super::default::default;
use crate::expression::{Expression, Refusal};
use crate::name::{folded, not_supported, object_name};
use crate::set_columns::{SET_BY_DELETE, SET_BY_UPDATE};
use ankerdb_engine::{
    ConstraintTiming, Error, NewForeignKey, ReferentialAction, Result, SqlState, TableDefinition, Value,
};
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
    let (set_columns, parent_columns) = referred(referred_columns)?;
    let key = NewForeignKey {
        name: name.clone().unwrap_or_default(),
        columns,
        parent: object_name(foreign_table)?,
        parent_columns,
        on_delete: action(on_delete.as_ref())?,
        on_update: action(on_update.as_ref())?,
        set_columns,
        // Those of the table as it is when the key is made.
        defaults: Vec::new(),
        is_full: *match_kind == Some(ast::ConstraintReferenceMatchKind::Full),
        timing: timing(characteristics.as_ref())?,
        is_validated: true,
    };
    Ok(ForeignKeyClause { is_named: name.is_some(), key })
}

/// The columns that the action of a deletion sets, and those that are referred to: see [`crate::set_columns`].
fn referred(columns: &[ast::Ident]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut set, mut referred) = (Vec::new(), Vec::new());
    for column in columns {
        match (column.value.strip_prefix(SET_BY_DELETE), column.value.strip_prefix(SET_BY_UPDATE)) {
            (Some(name), _) => set.push(name.to_owned()),
            (None, Some(action)) => {
                let message = format!("a column list with {action} is only supported for ON DELETE actions");
                return Err(Error::new(SqlState::FeatureNotSupported, message));
            }
            (None, None) => referred.push(folded(column)),
        }
    }
    Ok((set, referred))
}

/// What SET DEFAULT of a foreign key gives these columns of a table in a schema.
///
/// # Errors
/// `FeatureNotSupported` for a default that is another one for each row.
pub(crate) fn default_values(table: &TableDefinition, columns: &[usize], schema: &str) -> Result<Vec<Value>> {
    let value = |&position: &usize| {
        let column = &table.columns[position];
        match default(column, schema).map_err(Refusal::into_error)? {
            Expression::Literal(Value::Null) => Ok(Value::Null),
            Expression::Literal(value) => ankerdb_value::assign(value, column.data_type),
            _ => Err(not_supported("SET DEFAULT of a column whose default is computed for each row")),
        }
    };
    columns.iter().map(value).collect()
}

fn action(action: Option<&ast::ReferentialAction>) -> Result<ReferentialAction> {
    Ok(match action {
        None | Some(ast::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(ast::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(ast::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(ast::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(ast::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
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
