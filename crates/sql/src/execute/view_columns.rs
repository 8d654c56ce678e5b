//! Columns that views read: what becomes of the views when those are renamed, dropped or get other types.
//!
//! A view has the columns of what it reads by the names that they had when it was made, and notes their names of today beside those
//! ([`ankerdb_engine::ReadColumn`]). So another name concerns the note alone. Whether a view uses a column is told by binding its query
//! without it.

use super::defining::Defining;
use super::schema::shown;
use super::view::{columns_of, drop_relation, readers};
use crate::view_text;
use ankerdb_engine::{Error, RelationName, Result, SqlState, View};

/// Lets the views that read a relation find a column by its new name.
pub(super) fn follow_column(
    defining: &mut Defining,
    relation: &RelationName,
    old: &str,
    new: &str,
) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for reader in readers(&catalog, relation) {
        let mut view = reader.view().clone();
        for column in columns_read(&mut view, relation).flatten().filter(|column| column.name == old) {
            new.clone_into(&mut column.name);
        }
        reader.redefine(view, defining)?;
        defining.runner.interrupt().check()?;
    }
    Ok(())
}

/// Lets go a column of a relation: the views that use it are dropped, the others forget it.
///
/// # Errors
/// `DependentObjectsStillExist` if there are views that use it, and it does not cascade.
pub(super) fn free_read_column(
    defining: &mut Defining,
    relation: &RelationName,
    column: &str,
    cascade: bool,
) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let (mut users, mut others) = (Vec::new(), Vec::new());
    for reader in readers(&catalog, relation) {
        defining.runner.interrupt().check()?;
        let Some(without) = without_column(reader.view(), relation, column, defining)? else { continue };
        match uses(&without, defining)? {
            true => users.push(reader),
            false => others.push((reader, without)),
        }
    }
    let table = shown(&catalog, relation);
    if !users.is_empty() && !cascade {
        let message =
            format!("cannot drop column {column} of table {table} because other objects depend on it");
        let detail = users.iter().map(|reader| {
            let name = shown(&catalog, &reader.view().full_name());
            format!("{} {name} depends on column {column} of table {table}", reader.kind())
        });
        let detail = detail.collect::<Vec<_>>().join("\n");
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        let state = SqlState::DependentObjectsStillExist;
        return Err(Error::new(state, message).with_detail(detail).with_hint(hint));
    }
    for (reader, without) in others {
        reader.redefine(without, defining)?;
    }
    for reader in users {
        let name = reader.view().full_name();
        // It may have gone with another one.
        if defining.definitions.catalog()?.has_relation(&name) {
            let changing = (&mut *defining.definitions, Some(&mut *defining.transaction));
            drop_relation(changing, reader.kind(), &name, &[], true)?;
        }
    }
    Ok(())
}

/// Lets go a key of a relation that is not in the catalog any more, on which the columns of groups may depend: the views that need it
/// are dropped.
///
/// # Errors
/// `DependentObjectsStillExist` if there are some, and it does not cascade.
pub(super) fn free_key_of_groups(
    defining: &mut Defining,
    relation: &RelationName,
    what: &str,
    cascade: bool,
) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for reader in readers(&catalog, relation) {
        defining.runner.interrupt().check()?;
        let query = reader.query(&catalog)?;
        let Err(error) = columns_of(&query, &catalog, defining) else { continue };
        if error.state() == SqlState::QueryCanceled {
            return Err(error);
        }
        let name = reader.view().full_name();
        if !cascade {
            let message = format!("cannot drop {what} because other objects depend on it");
            let detail = format!("{} {} depends on {what}", reader.kind(), shown(&catalog, &name));
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            let state = SqlState::DependentObjectsStillExist;
            return Err(Error::new(state, message).with_detail(detail).with_hint(hint));
        }
        if defining.definitions.catalog()?.has_relation(&name) {
            let changing = (&mut *defining.definitions, Some(&mut *defining.transaction));
            drop_relation(changing, reader.kind(), &name, &[], true)?;
        }
    }
    Ok(())
}

/// That no view uses a column whose type is to change.
///
/// # Errors
/// `FeatureNotSupported` if one does, as on PostgreSQL.
pub(super) fn check_not_read(defining: &mut Defining, relation: &RelationName, column: &str) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for reader in readers(&catalog, relation) {
        defining.runner.interrupt().check()?;
        let Some(without) = without_column(reader.view(), relation, column, defining)? else { continue };
        if uses(&without, defining)? {
            let message = "cannot alter type of a column used by a view or rule";
            let (kind, name) = (reader.kind(), shown(&catalog, &reader.view().full_name()));
            let detail = format!("rule _RETURN on {kind} {name} depends on column \"{column}\"");
            return Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail));
        }
    }
    Ok(())
}

/// The view as if a column of a relation that it reads had not been there; `None` if it was not.
fn without_column(
    view: &View,
    relation: &RelationName,
    column: &str,
    defining: &mut Defining,
) -> Result<Option<View>> {
    let catalog = defining.definitions.catalog()?;
    let mut without = view.clone();
    let mut found = None;
    for columns in columns_read(&mut without, relation) {
        let position = columns.iter().position(|known| known.name == column);
        found = found.or(position);
        columns.retain(|known| known.name != column);
    }
    let Some(position) = found else { return Ok(None) };
    let relation = (catalog.schema_name(relation.schema), relation.name.as_str());
    without.query = view_text::without_name(&without.query, relation, position)?;
    Ok(Some(without))
}

/// Whether the view, which is without a column already, needs that one.
fn uses(without: &View, defining: &mut Defining) -> Result<bool> {
    let catalog = defining.definitions.catalog()?;
    match view_text::current_query(without, &catalog).and_then(|query| columns_of(&query, &catalog, defining))
    {
        Ok(columns) => Ok(columns.len() != without.columns.len()),
        Err(error) if error.state() == SqlState::QueryCanceled => Err(error),
        Err(_) => Ok(true),
    }
}

fn columns_read<'a>(
    view: &'a mut View,
    relation: &'a RelationName,
) -> impl Iterator<Item = &'a mut Vec<ankerdb_engine::ReadColumn>> {
    let is_it = |read: &&mut ankerdb_engine::ReadRelation| {
        read.schema == relation.schema && read.name == relation.name
    };
    view.reads.iter_mut().filter(is_it).map(|read| &mut read.columns)
}
