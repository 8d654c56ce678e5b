//! ALTER VIEW, and ALTER TABLE of a view: names and defaults of its columns, and its options.

use super::{column_exists, not_of_a_table};
use crate::execute::defining::Defining;
use crate::execute::view::{check_checked, check_readers};
use crate::execute::view_columns::follow_column;
use crate::name::{folded, not_supported, quoted, undefined_column_of};
use crate::plan::default::{checked, counts};
use crate::view_options;
use ankerdb_engine::{Error, RelationName, Result, SqlState, View};
use datafusion::sql::sqlparser::ast::{self, AlterColumnOperation, AlterTableOperation};

/// Runs the actions on a view.
pub(super) fn alter_view(
    defining: &mut Defining,
    name: &RelationName,
    operations: &[AlterTableOperation],
) -> Result<()> {
    for operation in operations {
        let catalog = defining.definitions.catalog()?;
        let Some(view) = catalog.view(name) else {
            return Err(not_of_a_table(&catalog, name, operations));
        };
        let mut new = (**view).clone();
        match operation {
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, renamed) = (folded(old_column_name), folded(new_column_name));
                rename_column(&mut new, &old, &renamed)?;
                defining.definitions.redefine_view(name, new)?;
                follow_column(defining, name, &old, &renamed)?;
                check_readers(name, defining)?;
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = position(&new, &folded(column_name))?;
                new.columns[at].default = match op {
                    AlterColumnOperation::SetDefault { value } => {
                        let text = checked(value, &new.columns[at])?;
                        if counts(&text)? {
                            return Err(not_supported(
                                "a default of a view's column that counts by a sequence",
                            ));
                        }
                        Some(text)
                    }
                    AlterColumnOperation::DropDefault => None,
                    _ => return Err(refused(name, operation)),
                };
                defining.definitions.redefine_view(name, new)?;
            }
            AlterTableOperation::SetOptionsParens { options } => {
                new.options = view_options::altered(&new.options, options)?;
                check_checked(&new, &catalog)?;
                defining.definitions.redefine_view(name, new)?;
            }
            other => return Err(refused(name, other)),
        }
    }
    Ok(())
}

fn position(view: &View, column: &str) -> Result<usize> {
    let found = view.columns.iter().position(|known| known.name == column);
    found.ok_or_else(|| undefined_column_of(column, &view.name))
}

fn rename_column(view: &mut View, old: &str, new: &str) -> Result<()> {
    let missing = |_| Error::new(SqlState::UndefinedColumn, format!("column {} does not exist", quoted(old)));
    let at = position(view, old).map_err(missing)?;
    if view.columns.iter().any(|column| column.name == new) {
        return Err(column_exists(new, &view.name));
    }
    new.clone_into(&mut view.columns[at].name);
    Ok(())
}

/// 42809 for what is for tables only.
fn refused(name: &RelationName, operation: &AlterTableOperation) -> Error {
    use AlterTableOperation as Action;
    let action = match operation {
        Action::AddColumn { .. } => "ADD COLUMN",
        Action::DropColumn { .. } => "DROP COLUMN",
        Action::AddConstraint { .. } => "ADD CONSTRAINT",
        Action::DropConstraint { .. } => "DROP CONSTRAINT",
        Action::ValidateConstraint { .. } => "VALIDATE CONSTRAINT",
        Action::AlterColumn { op, .. } => match op {
            ast::AlterColumnOperation::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            ast::AlterColumnOperation::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            ast::AlterColumnOperation::SetDataType { .. } => "ALTER COLUMN ... SET DATA TYPE",
            _ => "ALTER COLUMN ... ADD IDENTITY",
        },
        other => return crate::name::not_supported(&format!("ALTER VIEW ... {other}")),
    };
    let message = format!("ALTER action {action} cannot be performed on relation {}", quoted(&name.name));
    Error::new(SqlState::WrongObjectType, message).with_detail("This operation is not supported for views.")
}
