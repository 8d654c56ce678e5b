//! Foreign keys come and go: both tables' definitions change.
//!
//! Others must not commit to either table by the former definitions, which know nothing of the constraint: so both are
//! [closed](Definitions::close) before the rows are tested that are there already (docs/design/foreign-keys.md).

use crate::comment::Part;
use crate::definitions::Definitions;
use crate::schema::{QualifiedName, RelationName};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_table::{ConstraintTiming, ForeignKey, Reference, ReferentialAction, Table, TableDefinition};
use ankerdb_transaction::Transaction;
use ankerdb_value::{DataType, Value};
use std::sync::Arc;

/// A foreign key that is to be added to a table.
#[derive(Clone, PartialEq, Debug)]
pub struct NewForeignKey {
    /// The constraint's name.
    pub name: String,
    /// The table's columns.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub parent: QualifiedName,
    /// The columns of a key of that table; none for its primary key.
    pub parent_columns: Vec<String>,
    /// What follows from the deletion of a parent's row.
    pub on_delete: ReferentialAction,
    /// What follows from another key of a parent's row.
    pub on_update: ReferentialAction,
    /// The columns that `SetNull` and `SetDefault` of a deletion change; all if there are none.
    pub set_columns: Vec<String>,
    /// What `SetDefault` gives the columns, one value for each; none if no action does that.
    pub defaults: Vec<Value>,
    /// Whether either all columns are NULL or none.
    pub is_full: bool,
    /// When it is tested.
    pub timing: ConstraintTiming,
    /// Whether the rows that are there are tested.
    pub is_validated: bool,
}

impl Definitions {
    /// Adds a foreign key to a table, of which the caller tests the rows that are there. Returns the tables with their new
    /// definitions, child and parent.
    ///
    /// # Errors
    /// `UndefinedTable`, `UndefinedColumn`, `DuplicateObject`; `InvalidForeignKey` if the parent has no such key,
    /// `UndefinedObject` if it has no primary key, `DatatypeMismatch` if the types cannot be compared;
    /// `SerializationFailure` if others change one of the tables.
    pub fn add_foreign_key(
        &mut self,
        child: &RelationName,
        new: &NewForeignKey,
        transaction: &mut Transaction,
    ) -> Result<(Arc<Table>, Arc<Table>)> {
        let catalog = self.catalog()?;
        let (child, parent) = (catalog.table(child)?, catalog.table(&new.parent)?);
        if catalog.has_constraint(&child, &new.name) {
            let message =
                format!("constraint \"{}\" for relation \"{}\" already exists", new.name, child.name());
            return Err(Error::new(SqlState::DuplicateObject, message));
        }
        let columns = positions(&new.columns, child.definition())?;
        let set_columns = positions(&new.set_columns, child.definition())?;
        if let Some(at) = set_columns.iter().position(|column| !columns.contains(column)) {
            let name = &new.set_columns[at];
            let message =
                format!("column \"{name}\" referenced in ON DELETE SET action must be part of foreign key");
            return Err(Error::new(SqlState::InvalidColumnReference, message));
        }
        let parent_columns = self.key_columns(&parent, new)?;
        check_types((&child, &columns), (&parent, &parent_columns), &new.name)?;
        self.close(&child, transaction)?;
        self.close(&parent, transaction)?;
        let key = ForeignKey {
            name: new.name.clone(),
            columns,
            parent: parent.origin(),
            on_delete: new.on_delete,
            on_update: new.on_update,
            set_columns,
            defaults: new.defaults.clone(),
            is_full: new.is_full,
            timing: new.timing,
            is_validated: new.is_validated,
        };
        let side = Reference { name: new.name.clone(), child: child.origin(), columns: parent_columns };
        let is_own = Arc::ptr_eq(&child, &parent);
        let mut definition = child.definition().clone();
        definition.foreign_keys.push(key);
        if is_own {
            definition.referenced_by.push(side);
            let both = self.redefine_table(&child, definition, transaction)?;
            return Ok((both.clone(), both));
        }
        let child = self.redefine_table(&child, definition, transaction)?;
        let mut definition = parent.definition().clone();
        definition.referenced_by.push(side);
        Ok((child, self.redefine_table(&parent, definition, transaction)?))
    }

    /// The columns of the parent that a foreign key refers to.
    fn key_columns(&self, parent: &Arc<Table>, new: &NewForeignKey) -> Result<Vec<usize>> {
        let catalog = self.known_catalog();
        let mut keys = catalog.indexes_of(parent).map(|index| index.definition());
        if new.parent_columns.is_empty() {
            let primary = keys.find(|key| key.primary).ok_or_else(|| {
                let message = format!("there is no primary key for referenced table \"{}\"", parent.name());
                Error::new(SqlState::UndefinedObject, message)
            })?;
            check_counts(new.columns.len(), primary.columns.len())?;
            return Ok(primary.columns.clone());
        }
        let columns = positions(&new.parent_columns, parent.definition())?;
        check_counts(new.columns.len(), columns.len())?;
        let is_key = keys.any(|key| {
            key.unique
                && key.columns.len() == columns.len()
                && key.columns.iter().all(|at| columns.contains(at))
        });
        if is_key {
            return Ok(columns);
        }
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{}\"",
            parent.name()
        );
        Err(Error::new(SqlState::InvalidForeignKey, message))
    }

    /// Takes a foreign key away from a table, and from the one that it refers to. False if there is none of that name.
    ///
    /// # Errors
    /// `SerializationFailure` if others have changed one of the tables.
    pub fn drop_foreign_key(
        &mut self,
        child: &Arc<Table>,
        name: &str,
        mut transaction: Option<&mut Transaction>,
    ) -> Result<bool> {
        let Some(place) = child.definition().foreign_keys.iter().position(|key| key.name == name) else {
            return Ok(false);
        };
        let (parent, origin) = (child.definition().foreign_keys[place].parent, child.origin());
        let is_side = |side: &Reference| side.name == name && side.child == origin;
        if let Some(transaction) = transaction.as_deref_mut()
            && let Some(parent) = if parent == origin { Some(child.clone()) } else { self.related(parent)? }
        {
            let reference = parent.definition().referenced_by.iter().position(is_side);
            transaction.forget_foreign_key((child, place), (&parent, reference))?;
        }
        let mut definition = child.definition().clone();
        definition.foreign_keys.retain(|key| key.name != name);
        definition.referenced_by.retain(|side| !is_side(side));
        self.redefine(child, definition, transaction.as_deref_mut())?;
        if parent != origin
            && let Some(parent) = self.related(parent)?
        {
            let mut definition = parent.definition().clone();
            definition.referenced_by.retain(|side| !is_side(side));
            self.redefine(&parent, definition, transaction)?;
        }
        Ok(true)
    }

    /// Gives a foreign key another name.
    ///
    /// # Errors
    /// `DuplicateObject` if the table has a constraint of that name; `SerializationFailure` as above.
    pub fn rename_foreign_key(
        &mut self,
        child: &Arc<Table>,
        (old, new): (&str, &str),
        transaction: &mut Transaction,
    ) -> Result<()> {
        if self.catalog()?.has_constraint(child, new) {
            let message = format!("constraint \"{new}\" for relation \"{}\" already exists", child.name());
            return Err(Error::new(SqlState::DuplicateObject, message));
        }
        let Some(key) = child.definition().foreign_keys.iter().find(|key| key.name == old) else {
            return Ok(());
        };
        let (parent, origin) = (key.parent, child.origin());
        let part = |name: &str| Part::Constraint(name.to_owned());
        self.rename_part(child, &part(old), &part(new))?;
        let rename = |definition: &mut TableDefinition| {
            let own =
                definition.foreign_keys.iter_mut().filter(|key| key.name == old && key.parent == parent);
            own.for_each(|key| key.name = new.to_owned());
            let sides = definition.referenced_by.iter_mut();
            let sides = sides.filter(|side| side.name == old && side.child == origin);
            sides.for_each(|side| side.name = new.to_owned());
        };
        let mut definition = child.definition().clone();
        rename(&mut definition);
        self.redefine_table(child, definition, transaction)?;
        if parent != origin
            && let Some(parent) = self.related(parent)?
        {
            let mut definition = parent.definition().clone();
            let sides = definition.referenced_by.iter_mut();
            sides
                .filter(|side| side.name == old && side.child == origin)
                .for_each(|side| side.name = new.to_owned());
            self.redefine_table(&parent, definition, transaction)?;
        }
        Ok(())
    }

    /// The table with this origin.
    fn related(&mut self, origin: ankerdb_base::TableId) -> Result<Option<Arc<Table>>> {
        Ok(self.catalog()?.by_origin(origin))
    }
}

fn positions(names: &[String], table: &TableDefinition) -> Result<Vec<usize>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let position = table.position(name).ok_or_else(|| {
            let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            Error::new(SqlState::UndefinedColumn, message)
        })?;
        columns.push(position);
    }
    Ok(columns)
}

fn check_counts(child: usize, parent: usize) -> Result<()> {
    if child == parent {
        return Ok(());
    }
    let message = "number of referencing and referenced columns for foreign key disagree";
    Err(Error::new(SqlState::InvalidForeignKey, message))
}

/// 42804 if a column cannot be compared with the one that it refers to.
fn check_types(
    (child, columns): (&Table, &[usize]),
    (parent, parent_columns): (&Table, &[usize]),
    name: &str,
) -> Result<()> {
    for (&column, &parent_column) in columns.iter().zip(parent_columns) {
        let (from, to) = (child.data_type(column), parent.data_type(parent_column));
        if !is_comparable(from, to) {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            let (column, key) = (&child.columns()[column], &parent.columns()[parent_column]);
            let detail = format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                column.name,
                key.name,
                plain_name(from),
                plain_name(to)
            );
            return Err(Error::new(SqlState::DatatypeMismatch, message).with_detail(detail));
        }
    }
    Ok(())
}

/// A type's name without its length.
fn plain_name(data_type: DataType) -> String {
    let name = data_type.of_any_precision().to_string();
    name.split_once('(').map_or(name.clone(), |(name, _)| name.to_owned())
}

/// Whether a foreign key may lead from one type to the other, as in PostgreSQL: where the parent's index knows how to compare
/// them, or the child's values are converted to the parent's type without being asked.
fn is_comparable(from: DataType, to: DataType) -> bool {
    let is_integer =
        |data_type| matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    let is_text = |data_type| matches!(data_type, DataType::Text | DataType::Varchar(_));
    let is_char = |data_type| matches!(data_type, DataType::Char(_));
    let is_numeric = |data_type| matches!(data_type, DataType::Numeric { .. });
    from.of_any_precision() == to.of_any_precision()
        || (is_integer(from) && (is_integer(to) || is_numeric(to)))
        || (is_text(from) && is_text(to))
        || (is_char(from) && is_char(to))
        || (is_numeric(from) && is_numeric(to))
}
