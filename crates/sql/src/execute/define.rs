//! Runs definitions.

use super::alter::{add_foreign_key, alter, alter_domain, create_domain, drop_domains};
use super::comment::comment;
use super::create_as::create_table_as;
use super::defining::{Defining, counted, numbered};
use super::index::{create_index, drop_indexes};
use super::like::table_like;
use super::materialized::{create_materialized, refresh};
use super::schema::{create_schema, drop_schemas, drop_temporary, give_schema, rename_schema, target};
use super::sequence::{define_sequence, drop_sequences};
use super::user_type::{alter_type, create_type, drop_types};
use super::view::{create_view, drop_relations};
use crate::plan::default::resolved;
use crate::plan::{Definition, NewPart, NewTable, OwnSequence};
use ankerdb_engine::{
    Definitions, Error, IndexPosition, NameRef, Object, Part, RelationName, Result, Subject, TableDefinition,
};

/// Changes the catalog of the transaction; returns the command tag. After an error the caller takes back what was done. The
/// session does truncation.
pub(crate) fn define(mut defining: Defining, definition: &Definition) -> Result<String> {
    let _along = crate::domains::along(&*defining.definitions.catalog()?);
    let definitions = &mut *defining.definitions;
    match definition {
        Definition::CreateTable(table) => define_table(&mut defining, table)?,
        Definition::CreateTableLike(create) => {
            let table = table_like(create, &*definitions.catalog()?)?;
            define_table(&mut defining, &table)?;
        }
        Definition::CreateSequence { .. } | Definition::AlterSequence { .. } => {
            define_sequence(&mut defining, definition)?;
        }
        Definition::CreateSchema { name, if_not_exists } => create_schema(definitions, name, *if_not_exists)?,
        Definition::DropSchemas { names, if_exists, cascade } => {
            drop_schemas(&mut defining, names, *if_exists, *cascade)?;
        }
        Definition::RenameSchema { name, new } => rename_schema(&mut defining, name, new)?,
        Definition::GiveSchema { name, owner } => give_schema(&mut defining, name, owner)?,
        Definition::DropSequences { names, if_exists, cascade } => {
            drop_sequences(&mut defining, names, *if_exists, *cascade)?;
        }
        Definition::DropTables { names, if_exists, cascade } => {
            drop_relations(&mut defining, "table", names, *if_exists, *cascade)?;
        }
        Definition::DropViews { names, materialized, if_exists, cascade } => {
            let kind = if *materialized { "materialized view" } else { "view" };
            drop_relations(&mut defining, kind, names, *if_exists, *cascade)?;
        }
        Definition::CreateView(create) => create_view(&mut defining, create)?,
        Definition::CreateMaterializedView(create) => return create_materialized(&mut defining, create),
        Definition::RefreshMaterializedView(what) => refresh(&mut defining, what)?,
        Definition::CreateType { name, labels } => create_type(&mut defining, name, labels)?,
        Definition::AlterType { name, change } => alter_type(&mut defining, name, change)?,
        Definition::DropTypes { names, if_exists, cascade } => {
            drop_types(&mut defining, names, *if_exists, *cascade)?;
        }
        Definition::CreateDomain(name, new) => create_domain(&mut defining, name, new)?,
        Definition::AlterDomain(name, action) => alter_domain(&mut defining, name, action)?,
        Definition::DropDomains { names, if_exists, cascade } => {
            drop_domains(&mut defining, names, *if_exists, *cascade)?;
        }
        Definition::DropTemporary { all } => {
            drop_temporary(definitions, Some(defining.transaction), *all, defining.runner.interrupt())?;
        }
        Definition::CreateTableAs {
            name,
            temporary,
            on_commit,
            columns,
            query,
            with_data,
            if_not_exists,
        } => {
            let schema = target(definitions, name, *temporary)?;
            let definition =
                TableDefinition { schema, on_commit: *on_commit, ..TableDefinition::new(name.name.as_str()) };
            return create_table_as(&mut defining, definition, (columns, query, *with_data), *if_not_exists);
        }
        Definition::CreateIndex(index) => create_index(&mut defining, index)?,
        Definition::DropIndexes { names, if_exists, .. } => drop_indexes(definitions, names, *if_exists)?,
        Definition::AlterTable(statement) => alter(&mut defining, statement)?,
        Definition::Comment { on, text } => comment(&mut defining, on, text.as_deref())?,
        Definition::Truncate { .. } => return Err(Error::internal("TRUNCATE is not a definition")),
    }
    Ok(definition.command().into())
}

/// CREATE TABLE, with what it refers to.
fn define_table(defining: &mut Defining, new: &NewTable) -> Result<()> {
    let NewTable { name, sequences, unnamed, .. } = new;
    let definitions = &mut *defining.definitions;
    let schema = target(definitions, name, new.temporary)?;
    let catalog = definitions.catalog()?;
    if new.if_not_exists && catalog.has_relation(NameRef::In(schema, &name.name)) {
        return Ok(());
    }
    let definition = TableDefinition { schema, ..new.definition.clone() };
    create_table(definitions, definition, sequences, unnamed)?;
    let name = RelationName::new(schema, name.name.as_str());
    defining.number(&name)?;
    new.foreign_keys
        .iter()
        .try_for_each(|clause| add_foreign_key(defining, &name, clause, true).map(drop))?;
    let table = defining.definitions.catalog()?.table(&name)?;
    let index = |position: usize| table.index(IndexPosition(position)).definition().name.clone();
    for (part, text) in &new.comments {
        let part = match part {
            NewPart::Column(column) => Part::Column(*column),
            NewPart::Check(name) => Part::Constraint(name.clone()),
            NewPart::Index(position) => Part::Index(index(*position)),
            NewPart::Key(position) => Part::Constraint(index(*position)),
        };
        let subject = Subject::new(Object::Table(table.origin()), part);
        defining.definitions.set_comment(subject, Some(text))?;
    }
    Ok(())
}

fn create_table(
    definitions: &mut Definitions,
    mut definition: TableDefinition,
    sequences: &[OwnSequence],
    unnamed: &[usize],
) -> Result<()> {
    let (catalog, schema) = (definitions.catalog()?, definition.schema);
    for column in &mut definition.columns {
        let default = column.default.as_deref().map(|text| resolved(text, schema, &catalog));
        column.default = default.transpose()?;
    }
    let (mut definition, sequences) = counted(&definition, sequences, &catalog)?;
    for &index in unnamed {
        let name = std::mem::take(&mut definition.indexes[index].name);
        let is_taken = |name: &str| {
            catalog.has_relation(NameRef::In(schema, name))
                || definition.indexes.iter().any(|index| index.name == name)
        };
        definition.indexes[index].name = numbered(name, is_taken);
    }
    definitions.create_table_with(definition, sequences).map(drop)
}
