//! CREATE SEQUENCE, ALTER SEQUENCE and DROP SEQUENCE.

use super::defining::{Defining, in_another_schema};
use super::schema::{check_schema, shown, target};
use crate::name::{not_supported, quoted, undefined_column_of};
use crate::plan::default::counts_by;
use crate::plan::{Definition, SequenceOwner, altered};
use ankerdb_engine::{
    Catalog, Definitions, Error, NameRef, QualifiedName, RelationName, Result, SchemaId, SequenceDefinition,
    SqlState, Table, Transaction,
};
use std::sync::Arc;

/// Runs either of them.
pub(super) fn define_sequence(defining: &mut Defining, definition: &Definition) -> Result<()> {
    let definitions = &mut *defining.definitions;
    match definition {
        Definition::CreateSequence { name, temporary, definition, owner, if_not_exists } => {
            let schema = target(definitions, name, *temporary)?;
            let catalog = definitions.catalog()?;
            if *if_not_exists && catalog.has_relation(NameRef::In(schema, &name.name)) {
                return Ok(());
            }
            let owner = owner.as_ref().map(|owner| owner_of(&catalog, schema, owner)).transpose()?.flatten();
            definitions.create_sequence(SequenceDefinition { schema, owner, ..definition.clone() })
        }
        Definition::AlterSequence { .. } => alter(definitions, definition),
        _ => Err(Error::internal("a definition of something else than a sequence")),
    }
}

fn alter(definitions: &mut Definitions, definition: &Definition) -> Result<()> {
    let Definition::AlterSequence { name, data_type, options, restart, owner, if_exists } = definition else {
        return Err(Error::internal("a definition of something else than a sequence"));
    };
    let catalog = definitions.catalog()?;
    let Some(found) = catalog.lookup(name) else {
        check_schema(name, &catalog).or_else(|error| if *if_exists { Ok(()) } else { Err(error) })?;
        return if *if_exists { Ok(()) } else { catalog.sequence(name).map(drop) };
    };
    let Ok(sequence) = catalog.sequence(&found) else {
        let message = format!("{} is not a sequence", quoted(&found.name));
        return Err(Error::new(SqlState::WrongObjectType, message));
    };
    let mut new = altered(sequence.definition(), *data_type, options)?;
    if let Some(owner) = owner {
        check_no_identity(&catalog, &new)?;
        new.owner = owner_of(&catalog, new.schema, owner)?;
    }
    let restart = restart.map(|at| at.unwrap_or(new.start));
    check_last(&new, restart.unwrap_or_else(|| sequence.last().0))?;
    definitions.redefine_sequence(&found, new, restart)
}

/// 22023 if the number that a sequence goes on from is not one of its numbers.
pub(super) fn check_last(sequence: &SequenceDefinition, last: i64) -> Result<()> {
    let (than, limit) = match last {
        last if last < sequence.minimum => ("less than MINVALUE", sequence.minimum),
        last if last > sequence.maximum => ("greater than MAXVALUE", sequence.maximum),
        _ => return Ok(()),
    };
    let message = format!("RESTART value ({last}) cannot be {than} ({limit})");
    Err(Error::new(SqlState::InvalidParameterValue, message))
}

/// 0A000 if the sequence is that of an identity column, which it stays.
fn check_no_identity(catalog: &Catalog, sequence: &SequenceDefinition) -> Result<()> {
    let Some((table, column)) = &sequence.owner else { return Ok(()) };
    let is_identity = catalog.table(table).is_ok_and(|table| table.columns()[*column].identity.is_some());
    match is_identity {
        false => Ok(()),
        true => {
            let message = "cannot change ownership of identity sequence";
            let detail =
                format!("Sequence {} is linked to table {}.", quoted(&sequence.name), quoted(&table.name));
            Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail))
        }
    }
}

/// The table and column that OWNED BY names, for a sequence of this schema.
fn owner_of(
    catalog: &Catalog,
    schema: SchemaId,
    owner: &SequenceOwner,
) -> Result<Option<(RelationName, usize)>> {
    let SequenceOwner::Column(name, column) = owner else { return Ok(None) };
    let Some(found) = catalog.lookup(name) else {
        check_schema(name, catalog)?;
        return catalog.table(name).map(|_| None);
    };
    if catalog.view(&found).is_some() {
        return Err(not_supported("OWNED BY a column of a view"));
    }
    let Ok(table) = catalog.table(&found) else {
        let message = format!("sequence cannot be owned by relation {}", quoted(&found.name));
        return Err(Error::new(SqlState::WrongObjectType, message));
    };
    if found.schema != schema {
        return Err(in_another_schema());
    }
    let position = table.column_position(column);
    let position = position.ok_or_else(|| undefined_column_of(column, &found.name))?;
    Ok(Some((found, position)))
}

/// Each is found, and found not to be needed, before it goes.
pub(super) fn drop_sequences(
    defining: &mut Defining,
    names: &[QualifiedName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        let catalog = defining.definitions.catalog()?;
        let Ok(sequence) = catalog.sequence(name) else {
            if if_exists && !catalog.has_relation(name) {
                continue;
            }
            check_schema(name, &catalog)?;
            let (state, message) = match catalog.has_relation(name) {
                true => (SqlState::WrongObjectType, format!("\"{}\" is not a sequence", name.name)),
                false => (SqlState::UndefinedTable, format!("sequence \"{name}\" does not exist")),
            };
            return Err(Error::new(state, message));
        };
        let changing = (&mut *defining.definitions, Some(&mut *defining.transaction));
        drop_sequence(changing, &sequence.full_name(), cascade)?;
    }
    Ok(())
}

/// Drops a sequence; with CASCADE the defaults that count by it, too.
pub(super) fn drop_sequence(
    (definitions, transaction): (&mut Definitions, Option<&mut Transaction>),
    name: &RelationName,
    cascade: bool,
) -> Result<()> {
    let what = format!("sequence {}", shown(&*definitions.catalog()?, name));
    free_sequence((&mut *definitions, transaction), name, (&what, &[]), cascade)?;
    definitions.drop_sequence(name)
}

/// That nothing counts by a sequence but columns of tables that go together with it, as `what` does; with CASCADE by dropping
/// defaults.
///
/// # Errors
/// `DependentObjectsStillExist`.
pub(super) fn free_sequence(
    (definitions, mut transaction): (&mut Definitions, Option<&mut Transaction>),
    name: &RelationName,
    (what, together): (&str, &[RelationName]),
    cascade: bool,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    let sequence = shown(&catalog, name);
    let refused = |message: String, detail: String| {
        let state = SqlState::DependentObjectsStillExist;
        Err(Error::new(state, message).with_detail(detail))
    };
    for table in catalog.tables().filter(|table| !together.contains(&RelationName::of(table))) {
        let columns = counting(table, &catalog, name);
        let Some(&first) = columns.first() else { continue };
        let of_table = shown(&catalog, &RelationName::of(table));
        let column = &table.columns()[first].name;
        if table.columns()[first].identity.is_some() {
            let message =
                format!("cannot drop {what} because column {column} of table {of_table} requires it");
            return refused(message, format!("column {column} of table {of_table} is an identity column"));
        }
        if !cascade {
            let message = format!("cannot drop {what} because other objects depend on it");
            let detail = format!(
                "default value for column {column} of table {of_table} depends on sequence {sequence}"
            );
            return refused(message, detail);
        }
        let mut table = table.clone();
        for column in columns {
            table = definitions.drop_default(&table, column, transaction.as_deref_mut())?;
        }
    }
    Ok(())
}

/// The columns whose defaults count by a sequence.
fn counting(table: &Arc<Table>, catalog: &Catalog, name: &RelationName) -> Vec<usize> {
    // Most defaults can be told from their texts.
    let is_plain = !name.name.contains(['"', '\'']);
    let schema = catalog.schema_of(table);
    let columns = table.columns().iter().enumerate();
    let counts = columns.filter(|(_, column)| {
        let may = column.default.as_ref().is_some_and(|text| !is_plain || text.contains(&name.name));
        may && counts_by(column, schema, catalog, name)
    });
    counts.map(|(position, _)| position).collect()
}
