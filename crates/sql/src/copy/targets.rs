//! Which columns of a table a COPY names.

use super::options::CopyOptions;
use ankerdb_engine::{ColumnDefinition, DataType, Error, Result, SqlState, Table};
use datafusion::sql::sqlparser::ast::Ident;

/// The target of a field.
pub(super) struct FieldTarget {
    pub position: usize,
    pub name: String,
    pub data_type: DataType,
    pub force_null: bool,
    pub force_not_null: bool,
}

/// The named columns, or all.
pub(super) fn targets(table: &Table, names: &[Ident], options: &CopyOptions) -> Result<Vec<FieldTarget>> {
    let all = table.columns();
    let positions: Vec<usize> = match names {
        [] => (0..all.len()).filter(|&position| all[position].generation.is_none()).collect(),
        names => names.iter().map(|name| position(table, name)).collect::<Result<_>>()?,
    };
    positions.iter().try_for_each(|&position| check_copied(&all[position]))?;
    for (at, position) in positions.iter().enumerate() {
        if positions[..at].contains(position) {
            let message = format!("column \"{}\" specified more than once", all[*position].name);
            return Err(Error::new(SqlState::DuplicateColumn, message));
        }
    }
    let force_null = forced(table, &options.force_null, &positions, "FORCE_NULL")?;
    let force_not_null = forced(table, &options.force_not_null, &positions, "FORCE_NOT_NULL")?;
    Ok(positions
        .into_iter()
        .map(|position| FieldTarget {
            position,
            name: all[position].name.clone(),
            data_type: all[position].data_type,
            force_null: force_null.contains(&position),
            force_not_null: force_not_null.contains(&position),
        })
        .collect())
}

/// 42P10 for a column that is computed from others.
pub(super) fn check_copied(column: &ColumnDefinition) -> Result<()> {
    if column.generation.is_none() {
        return Ok(());
    }
    let message = format!("column \"{}\" is a generated column", column.name);
    let detail = "Generated columns cannot be used in COPY.";
    Err(Error::new(SqlState::InvalidColumnReference, message).with_detail(detail))
}

fn position(table: &Table, name: &Ident) -> Result<usize> {
    let name = crate::name::folded(name);
    table.column_position(&name).ok_or_else(|| crate::name::undefined_column_of(&name, table.name()))
}

/// Positions of columns that an option names; each must be copied.
fn forced(table: &Table, names: &[Ident], copied: &[usize], option: &str) -> Result<Vec<usize>> {
    let positions = names.iter().map(|name| position(table, name)).collect::<Result<Vec<_>>>()?;
    match positions.iter().find(|position| !copied.contains(position)) {
        None => Ok(positions),
        Some(&position) => {
            let message =
                format!("{option} column \"{}\" not referenced by COPY", table.columns()[position].name);
            Err(Error::new(SqlState::InvalidColumnReference, message))
        }
    }
}
