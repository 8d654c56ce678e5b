//! Names of tables, columns, functions and settings: folding to lower case, qualified names, quoting.

use ankerdb_engine::{Error, QualifiedName, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// The column of every table that says which one a row is of.
pub(crate) const TABLE_NUMBER: &str = "tableoid";
/// Names that columns of tables cannot have, as PostgreSQL has columns of these in every table.
const SYSTEM_COLUMNS: &[&str] = &[TABLE_NUMBER, "ctid", "xmin", "xmax", "cmin", "cmax"];
/// The one database.
pub(crate) const DATABASE: &str = "ankerdb";
/// The one role, which owns everything.
pub(crate) const ROLE: &str = "ankerdb";

/// The name an identifier stands for: folded to lower case unless it is quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The identifier of a name: in quotes unless it stands for the name without them.
pub(crate) fn identifier(name: &str) -> Ident {
    use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
    let is_plain = |c: char| c == '_' || c.is_ascii_lowercase();
    let is_key_word = ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()).is_ok();
    match name.starts_with(is_plain)
        && name.chars().all(|c| is_plain(c) || c.is_ascii_digit())
        && !is_key_word
    {
        true => Ident::new(name),
        false => Ident::with_quote('"', name.replace('"', "\"\"")),
    }
}

/// The text in double quotes, as error messages show names.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// A relation's name, with its schema if it has one.
///
/// # Errors
/// `FeatureNotSupported` if it is qualified with another database; `SyntaxError` for too many dots.
pub(crate) fn object_name(name: &ObjectName) -> Result<QualifiedName> {
    let mut parts = Vec::with_capacity(name.0.len());
    for part in &name.0 {
        match part {
            ObjectNamePart::Identifier(ident) => parts.push(folded(ident)),
            ObjectNamePart::Function(_) => return Err(undefined_table(&dotted(name))),
        }
    }
    qualified(parts)
}

/// The name that its parts stand for, as [`object_name`] has it.
pub(crate) fn qualified(mut parts: Vec<String>) -> Result<QualifiedName> {
    let whole = parts.join(".");
    let name = parts.pop().unwrap_or_default();
    let schema = parts.pop();
    match parts.as_slice() {
        [] => Ok(QualifiedName { schema, name }),
        [database] if database == DATABASE => Ok(QualifiedName { schema, name }),
        [_] => {
            let message = format!("cross-database references are not implemented: {}", quoted(&whole));
            Err(Error::new(SqlState::FeatureNotSupported, message))
        }
        _ => {
            let message = format!("improper qualified name (too many dotted names): {whole}");
            Err(Error::new(SqlState::SyntaxError, message))
        }
    }
}

/// The name of a relation that is known, as SQL reads it along every path.
pub(crate) fn full_name(schema: &str, name: &str) -> String {
    format!("{}.{}", identifier(schema), identifier(name))
}

/// The parts of a name with dots that is given as a text: folded unless in quotes. 42602 if it is no name.
pub(crate) fn name_parts(text: &str) -> Result<Vec<String>> {
    let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = text.trim().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // Around dots; elsewhere they are letters of a name that there is not.
            ' ' | '\t' | '\n' if !is_quoted => {
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if characters.peek() != Some(&'.') && !part.is_empty() {
                    return Err(Error::new(SqlState::InvalidName, "invalid name syntax"));
                }
            }
            '"' if is_quoted && characters.peek() == Some(&'"') => part.extend(characters.next()),
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(std::mem::take(&mut part)),
            other if is_quoted => part.push(other),
            other => part.extend(other.to_lowercase()),
        }
    }
    parts.push(part);
    match is_quoted || parts.iter().any(String::is_empty) {
        true => Err(Error::new(SqlState::InvalidName, "invalid name syntax")),
        false => Ok(parts),
    }
}

/// The relation that a text names, as `nextval` takes it: folded unless it is quoted, with or without a schema.
pub(crate) fn sequence_name(text: &str) -> Result<QualifiedName> {
    qualified(name_parts(text)?)
}

/// A name of one part, such as a column's in a column list.
pub(crate) fn simple_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Ok(folded(ident)),
        _ => Err(Error::new(
            SqlState::SyntaxError,
            format!("syntax error at or near {}", quoted(&dotted(name))),
        )),
    }
}

/// The name of a schema.
pub(crate) fn schema_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [database, ObjectNamePart::Identifier(name)]
            if database.as_ident().is_some_and(|ident| folded(ident) == DATABASE) =>
        {
            Ok(folded(name))
        }
        _ => simple_name(name),
    }
}

/// The name with its dots, folded, as messages show it.
pub(crate) fn dotted(name: &ObjectName) -> String {
    let parts = name.0.iter().map(|part| match part {
        ObjectNamePart::Identifier(ident) => folded(ident),
        ObjectNamePart::Function(function) => function.name.value.to_lowercase(),
    });
    parts.collect::<Vec<_>>().join(".")
}

/// 42P01
pub(crate) fn undefined_table(name: &str) -> Error {
    Error::new(SqlState::UndefinedTable, format!("relation {} does not exist", quoted(name)))
}

/// 42701 for the name of a column that PostgreSQL has in every table.
pub(crate) fn check_column_name(name: &str) -> Result<()> {
    if !SYSTEM_COLUMNS.contains(&name) {
        return Ok(());
    }
    let message = format!("column name {} conflicts with a system column name", quoted(name));
    Err(Error::new(SqlState::DuplicateColumn, message))
}

/// 42703
pub(crate) fn undefined_column(name: &str) -> Error {
    Error::new(SqlState::UndefinedColumn, format!("column {} does not exist", quoted(name)))
}

/// 42703, for a column of a known table.
pub(crate) fn undefined_column_of(name: &str, table: &str) -> Error {
    let message = format!("column {} of relation {} does not exist", quoted(name), quoted(table));
    Error::new(SqlState::UndefinedColumn, message)
}

/// 0A000
pub(crate) fn not_supported(what: &str) -> Error {
    Error::new(SqlState::FeatureNotSupported, format!("{what} is not supported"))
}
