//! CREATE TABLE (LIKE ...): columns of other tables, with what belongs to them.

use super::schema::check_schema;
use crate::like_clause::{Included, like_clause};
use crate::name::{object_name, quoted};
use crate::plan::check::parsed_check;
use crate::plan::default::{moved, parsed};
use crate::plan::derivation::rederive;
use crate::plan::{Key, NewColumns, NewPart, NewTable, OwnSequence, new_table};
use ankerdb_engine::{
    Catalog, ColumnDefinition, Error, IndexDefinition, Object, Part, RelationName, Result,
    SequenceDefinition, SqlState, Subject, Table, TableDefinition,
};
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

/// The table that a statement asks for, with the columns that others have in this catalog.
pub(super) fn table_like(create: &ast::CreateTable, catalog: &Catalog) -> Result<NewTable> {
    new_table(create, |table, new, column| match like_clause(column) {
        Some((included, name)) => add_like(table, new, (included, name), catalog).map(|()| true),
        None => Ok(false),
    })
}

fn add_like(
    table: &mut TableDefinition,
    new: &mut NewColumns,
    (included, written): (Included, &ast::ObjectName),
    catalog: &Catalog,
) -> Result<()> {
    let name = object_name(written)?;
    let Some(found) = catalog.lookup(&name) else {
        check_schema(&name, catalog)?;
        return catalog.table(&name).map(drop);
    };
    let first = table.columns.len();
    if let Some(view) = catalog.view(&found) {
        table.columns.extend(view.columns.iter().cloned());
        return Ok(());
    }
    let Ok(source) = catalog.table(&found) else {
        let message = format!("relation {} is invalid in LIKE clause", quoted(&found.name));
        return Err(Error::new(SqlState::WrongObjectType, message));
    };
    for (position, column) in source.columns().iter().enumerate() {
        add_column(table, new, (&source, position, column), included, catalog)?;
    }
    for check in source.checks() {
        // Columns stay those of their domains.
        if included.constraints || crate::domains::is_check(&check.name) {
            new.own.checks.push((Some(check.name.clone()), parsed_check(&check.text)?));
        }
    }
    if included.indexes {
        add_indexes(table, new, &source, first, included, catalog)?;
    }
    if included.comments {
        let constraint = |name: &str| comment(catalog, &source, Part::Constraint(name.to_owned()));
        let checks = source.checks().iter().filter(|_| included.constraints);
        let said =
            checks.filter_map(|check| Some((NewPart::Check(check.name.clone()), constraint(&check.name)?)));
        new.comments.extend(said);
    }
    Ok(())
}

fn add_column(
    table: &mut TableDefinition,
    new: &mut NewColumns,
    (source, position, column): (&Table, usize, &ColumnDefinition),
    included: Included,
    catalog: &Catalog,
) -> Result<()> {
    let at = table.columns.len();
    let is_identity = column.identity.is_some();
    let is_of_domain = column.domain.is_some_and(|domain| domain.gives_default);
    let default = column.default.as_deref();
    let default = default.filter(|_| (included.defaults || is_of_domain) && !is_identity);
    // Sequences of its schema are named with that.
    let default = default.map(|text| moved(text, catalog.schema_of(source), |_| false)).transpose()?;
    let identity = column.identity.filter(|_| included.identity);
    if identity.is_some() {
        let owner = (RelationName::of(source), position);
        let counts = |sequence: &&SequenceDefinition| sequence.owner.as_ref() == Some(&owner);
        let sequence = catalog.sequences().map(|sequence| sequence.definition()).find(counts);
        let sequence = sequence.ok_or_else(|| Error::internal("an identity column without a sequence"))?;
        let definition = SequenceDefinition { owner: None, ..sequence.clone() };
        new.own.sequences.push(OwnSequence { column: at, name: None, definition });
    }
    if let Some(generation) = column.generation.as_ref().filter(|_| included.generated) {
        new.own.generations.push((column.name.clone(), parsed(&generation.text)?));
    }
    table.columns.push(ColumnDefinition { default, identity, generation: None, ..column.clone() });
    if included.comments {
        let text = comment(catalog, source, Part::Column(position));
        new.comments.extend(text.map(|text| (NewPart::Column(at), text)));
    }
    Ok(())
}

/// Keys and indexes get names of their own.
fn add_indexes(
    table: &TableDefinition,
    new: &mut NewColumns,
    source: &Table,
    first: usize,
    included: Included,
    catalog: &Catalog,
) -> Result<()> {
    for index in catalog.indexes_of(source) {
        let index = index.definition();
        let said = |part: Part| comment(catalog, source, part).filter(|_| included.comments);
        let of_index = said(Part::Index(index.name.clone()));
        if index.is_constraint {
            let columns: Vec<String> =
                index.columns.iter().map(|&column| source.columns()[column].name.clone()).collect();
            let of_key = said(Part::Constraint(index.name.clone()));
            new.key_comments.extend(of_index.map(|text| (columns.clone(), true, text)));
            new.key_comments.extend(of_key.map(|text| (columns.clone(), false, text)));
            let nulls_are_equal = index.style.nulls_are_equal;
            new.own.keys.push(Key {
                name: None,
                columns,
                primary: index.primary,
                kind: index.kind,
                nulls_are_equal,
            });
            continue;
        }
        let moved = |column: usize| first + column;
        let derivation = match &index.derivation {
            Some(derivation) => rederive(derivation, table, |column| Some(moved(column)))?.map(Arc::new),
            None => None,
        };
        let mut style = index.style.clone();
        style.included.iter_mut().for_each(|column| *column = moved(*column));
        let columns: Vec<usize> = index.columns.iter().map(|&column| moved(column)).collect();
        let name = base_name(table, &columns, &style.included, derivation.is_some());
        new.indexes.push((IndexDefinition { name, columns, derivation, style, ..index.clone() }, of_index));
    }
    Ok(())
}

/// PostgreSQL's name of an index without one; another is chosen where that is taken.
fn base_name(table: &TableDefinition, columns: &[usize], included: &[usize], is_computed: bool) -> String {
    let names = columns.iter().chain(included).map(|&column| table.columns[column].name.as_str());
    let names: Vec<&str> = is_computed.then_some("expr").into_iter().chain(names).collect();
    format!("{}_{}_idx", table.name, names.join("_"))
}

fn comment(catalog: &Catalog, table: &Table, part: Part) -> Option<String> {
    let subject = Subject::new(Object::Table(table.origin()), part);
    catalog.comment(&subject).map(str::to_owned)
}
