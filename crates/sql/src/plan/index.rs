//! CREATE INDEX: what it asks for.

use crate::column_name::column_name;
use crate::name::{folded, identifier, not_supported, object_name, simple_name};
use ankerdb_engine::{Error, IndexKind, KeyStyle, QualifiedName, Result, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr};

/// An index that is to be made.
pub(crate) struct NewIndex {
    pub name: Option<String>,
    pub table: QualifiedName,
    pub columns: Vec<IndexedColumn>,
    /// Which rows it is about, if not all.
    pub predicate: Option<Expr>,
    /// Names of columns that are no part of the key.
    pub included: Vec<String>,
    /// Names and values of storage options.
    pub options: Vec<(String, String)>,
    pub unique: bool,
    /// Whether NULL equals NULL in it.
    pub nulls_are_equal: bool,
    pub kind: IndexKind,
    pub if_not_exists: bool,
    /// Every index is made beside writers. But not in a block, if this is asked for.
    pub concurrently: bool,
}

/// A key column, and how it is declared. Whether its operator class fits is found out when its type is known.
pub(crate) struct IndexedColumn {
    pub what: Indexed,
    pub style: KeyStyle,
}

/// What a part of a key is made of.
pub(crate) enum Indexed {
    Column(String),
    Expression(Box<Expr>),
}

impl Indexed {
    /// As an expression.
    pub(crate) fn expr(&self) -> Expr {
        match self {
            Indexed::Column(name) => Expr::Identifier(identifier(name)),
            Indexed::Expression(expr) => (**expr).clone(),
        }
    }

    /// The name that the part has in an index.
    pub(crate) fn name(&self) -> String {
        match self {
            Indexed::Column(name) => name.clone(),
            Indexed::Expression(expr) => match column_name(expr) {
                name if name == "?column?" => "expr".to_owned(),
                name => name,
            },
        }
    }
}

pub(super) fn new_index(create: &ast::CreateIndex) -> Result<NewIndex> {
    // The rows that a partial index is not about have the key NULL in it.
    if create.nulls_distinct == Some(false) && create.predicate.is_some() {
        return Err(not_supported("NULLS NOT DISTINCT of an index over a part of the rows"));
    }
    let kind = index_kind(create.using.as_ref())?;
    let refused = |what: &str| {
        let message = format!("access method \"hash\" does not support {what}");
        Err(Error::new(SqlState::FeatureNotSupported, message))
    };
    if kind == IndexKind::Hash {
        let order = || create.columns.iter().map(|column| &column.column.options);
        if !create.include.is_empty() {
            return refused("included columns");
        }
        if order().any(|options| options.asc.is_some()) {
            return refused("ASC/DESC options");
        }
        if order().any(|options| options.nulls_first.is_some()) {
            return refused("NULLS FIRST/LAST options");
        }
    }
    Ok(NewIndex {
        // An index is in the schema of its table.
        name: create.name.as_ref().map(simple_name).transpose()?,
        table: object_name(&create.table_name)?,
        columns: create.columns.iter().map(indexed_column).collect::<Result<_>>()?,
        predicate: create.predicate.clone(),
        included: create.include.iter().map(folded).collect(),
        options: create.with.iter().map(|option| storage_option(option, kind)).collect::<Result<_>>()?,
        unique: create.unique,
        nulls_are_equal: create.nulls_distinct == Some(false),
        kind,
        if_not_exists: create.if_not_exists,
        concurrently: create.concurrently,
    })
}

fn indexed_column(column: &ast::IndexColumn) -> Result<IndexedColumn> {
    let (expr, collation) = match &column.column.expr {
        Expr::Collate { expr, collation } => (&**expr, Some(system_name(collation)?)),
        other => (other, None),
    };
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let what = match expr {
        Expr::Identifier(name) => Indexed::Column(folded(name)),
        expr => Indexed::Expression(Box::new(expr.clone())),
    };
    let options = &column.column.options;
    let descending = options.asc == Some(false);
    let style = KeyStyle {
        collation,
        class: column.operator_class.as_ref().map(system_name).transpose()?,
        descending,
        nulls_first: options.nulls_first.unwrap_or(descending),
    };
    Ok(IndexedColumn { what, style })
}

/// The name of something of the system, with its schema or without.
pub(crate) fn system_name(name: &ast::ObjectName) -> Result<String> {
    let name = object_name(name)?;
    Ok(match name.schema {
        None => name.name,
        Some(schema) if schema == crate::system::PG_CATALOG => name.name,
        Some(schema) => format!("{schema}.{}", name.name),
    })
}

/// A storage option, which is kept to be shown.
fn storage_option(option: &Expr, kind: IndexKind) -> Result<(String, String)> {
    let invalid = |message: String| Err(Error::new(SqlState::InvalidParameterValue, message));
    let (name, value) = match option {
        Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right } => (left.to_string(), right.to_string()),
        other => (other.to_string(), "true".to_owned()),
    };
    let (name, value) = (name.to_lowercase(), value.trim_matches('\'').to_lowercase());
    match name.as_str() {
        "fillfactor" => match value.parse::<f64>() {
            Ok(percent) if percent.fract() != 0.0 => {
                invalid(format!("invalid value for integer option \"fillfactor\": {value}"))
            }
            Ok(percent) if (10.0..=100.0).contains(&percent) => Ok((name, value)),
            Ok(_) => invalid(format!("value {value} out of bounds for option \"fillfactor\"")),
            Err(_) => invalid(format!("invalid value for integer option \"fillfactor\": {value}")),
        },
        "deduplicate_items" if kind == IndexKind::Ordered => match value.as_str() {
            "on" | "off" | "true" | "false" | "yes" | "no" | "1" | "0" => Ok((name, value)),
            _ => invalid(format!("invalid value for boolean option \"deduplicate_items\": {value}")),
        },
        _ => invalid(format!("unrecognized parameter \"{name}\"")),
    }
}

/// What `USING` asks for.
pub(super) fn index_kind(using: Option<&ast::IndexType>) -> Result<IndexKind> {
    match using {
        None | Some(ast::IndexType::BTree) => Ok(IndexKind::Ordered),
        Some(ast::IndexType::Hash) => Ok(IndexKind::Hash),
        Some(other) => {
            let name = other.to_string().to_ascii_lowercase();
            let message = format!("access method \"{name}\" does not exist");
            Err(Error::new(SqlState::UndefinedObject, message))
        }
    }
}
