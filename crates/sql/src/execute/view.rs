//! Views come and go, and what they read must stay.

use super::defining::Defining;
use super::schema::{check_schema, is_temporary, shown, target};
use super::sequence::free_sequence;
use crate::expression::Parameters;
use crate::expression::bind::type_name;
use crate::name::{folded, full_name, not_supported, object_name, quoted};
use crate::plan::locks_rows;
use crate::updatable::{check_option, why_not_written};
use crate::view_options;
use crate::view_text;
use ankerdb_engine::{
    Catalog, ColumnDefinition, Definitions, Error, Materialized, NameRef, QualifiedName, ReadColumn,
    ReadRelation, RelationName, Result, SchemaId, Sequence, SqlState, Table, Transaction, View,
};
use datafusion::sql::sqlparser::ast;
use std::sync::Arc;

pub(super) fn create_view(defining: &mut Defining, create: &ast::CreateView) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let name = object_name(&create.name)?;
    let mut view = view(&name.name, create, &catalog, defining)?;
    // A view of what goes with the session goes with it, too.
    let reads_temporary = view.names_read().any(|read| is_temporary(&catalog, &read));
    view.schema = target(defining.definitions, &name, create.temporary || reads_temporary)?;
    if let ast::CreateTableOptions::With(options) = &create.options {
        view.options = view_options::read(options)?;
    }
    let (name, catalog) = (view.full_name(), defining.definitions.catalog()?);
    check_checked(&view, &catalog)?;
    if let Some(former) = catalog.view(&name).filter(|_| create.or_replace) {
        check_replaced(former, &view)?;
        for (column, former) in view.columns.iter_mut().zip(&former.columns) {
            column.default.clone_from(&former.default);
        }
    }
    if reads_indirectly(&catalog, &view, &name) {
        let message = format!("infinite recursion detected in rules for relation {}", quoted(&name.name));
        return Err(Error::new(SqlState::InvalidObjectDefinition, message));
    }
    defining.definitions.create_view(view, create.or_replace)?;
    defining.number(&name)?;
    check_readers(&name, defining)
}

/// The view, whose schema is not known yet.
pub(super) fn view(
    name: &str,
    create: &ast::CreateView,
    catalog: &Arc<Catalog>,
    defining: &Defining,
) -> Result<View> {
    if locks_rows(&create.query) {
        return Err(not_supported("a view that locks rows"));
    }
    let mut query = defining.runner.engine.olap().without_wildcards(&create.query, catalog);
    let columns = columns_of(&query, catalog, defining)?;
    if create.columns.len() > columns.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(Error::new(SqlState::SyntaxError, message));
    }
    let given = create.columns.iter().map(|column| Some(folded(&column.name))).chain(std::iter::repeat(None));
    let columns: Vec<ColumnDefinition> = (columns.into_iter().zip(given))
        .map(|(column, given)| match given {
            Some(name) => ColumnDefinition { name, ..column },
            None => column,
        })
        .collect();
    for (position, column) in columns.iter().enumerate() {
        if columns[..position].iter().any(|other| other.name == column.name) {
            let message = format!("column {} specified more than once", quoted(&column.name));
            return Err(Error::new(SqlState::DuplicateColumn, message));
        }
    }
    let reads = name_relations(&mut query, catalog)?;
    let mut plain = query.clone();
    view_text::unqualify_columns(&mut plain);
    // Where two tables of one name are read, their columns keep the schemas.
    if plain != query && columns_of(&plain, catalog, defining).is_ok() {
        query = plain;
    }
    let (schema, name) = (SchemaId::PUBLIC, name.to_owned());
    Ok(View { schema, name, columns, query: query.to_string(), reads, options: Vec::new() })
}

/// The columns that a query gives. 42P02 if it has parameters.
pub(super) fn columns_of(
    query: &ast::Query,
    catalog: &Arc<Catalog>,
    defining: &Defining,
) -> Result<Vec<ColumnDefinition>> {
    let runner = defining.runner;
    let mut parameters = Parameters::default();
    let planner = runner.planner(catalog.clone());
    let (_, output) = planner.query(query, &mut parameters)?;
    if !parameters.known().is_empty() {
        return Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"));
    }
    let column =
        |column: &crate::OutputColumn| ColumnDefinition::new(&column.name, column.data_type).nullable();
    Ok(output.iter().map(column).collect())
}

/// Names the tables and views of a query with their schemas, and returns them. 0A000 for sequences: nothing would keep them from being
/// dropped.
fn name_relations(query: &mut ast::Query, catalog: &Catalog) -> Result<Vec<ReadRelation>> {
    let mut reads: Vec<ReadRelation> = Vec::new();
    let mut reads_sequence = false;
    view_text::rename(query, |written| {
        let name = object_name(written).ok()?;
        let found = catalog.path().searched.iter().find_map(|schema| {
            let schema = name.schema.as_ref().unwrap_or(schema);
            let is_of_system = crate::system::relation(schema, &name.name).is_some();
            let found = catalog.lookup(NameRef::Qualified(schema, &name.name));
            if is_of_system { Some(None) } else { found.map(Some) }
        });
        let found = found??;
        let columns = match (catalog.table(&found), catalog.view(&found)) {
            (Ok(table), _) => table.columns().iter().map(read_column).collect(),
            (_, Some(view)) => view.columns.iter().map(read_column).collect(),
            _ => {
                reads_sequence |= catalog.sequence(&found).is_ok();
                return None;
            }
        };
        let read = ReadRelation { schema: found.schema, name: found.name.clone(), columns };
        if !reads.contains(&read) {
            reads.push(read);
        }
        Some((Some(catalog.schema_name(found.schema).to_owned()), found.name))
    });
    if reads_sequence { Err(not_supported("a view of a sequence")) } else { Ok(reads) }
}

/// A column as a query sees it that is written now.
fn read_column(column: &ColumnDefinition) -> ReadColumn {
    ReadColumn { name: column.name.clone(), called: column.name.clone() }
}

/// Lets views read a relation by its new name.
pub(super) fn follow_relation(defining: &mut Defining, old: &RelationName, new: &RelationName) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let (old_schema, new_schema) = (catalog.schema_name(old.schema), catalog.schema_name(new.schema));
    for reader in readers(&catalog, old) {
        let view = reader.view();
        let query = view_text::with_names(&view.query, |schema, name| {
            (schema == old_schema && name == old.name)
                .then(|| (Some(new_schema.to_owned()), new.name.clone()))
        })?;
        let mut reads = view.reads.clone();
        for read in reads.iter_mut().filter(|read| read.schema == old.schema && read.name == old.name) {
            (read.schema, read.name) = (new.schema, new.name.clone());
        }
        reader.redefine(View { query, reads, ..view.clone() }, defining)?;
        defining.runner.interrupt().check()?;
    }
    Ok(())
}

/// Lets views read the relations of a schema by its new name.
pub(super) fn follow_schema(defining: &mut Defining, old: &str, new: &str) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for reader in all_readers(&catalog) {
        let view = reader.view();
        let query = view_text::with_names(&view.query, |schema, name| {
            (schema == old).then(|| (Some(new.to_owned()), name.to_owned()))
        })?;
        if query != view.query {
            reader.redefine(View { query, ..view.clone() }, defining)?;
        }
        defining.runner.interrupt().check()?;
    }
    all_readers(&catalog)
        .try_for_each(|reader| reader.view().names_read().try_for_each(|read| check_readers(&read, defining)))
}

/// What has a query: a view, or a table with the rows of one.
pub(super) enum QueryHolder {
    View(Arc<View>),
    Materialized(Arc<Table>, View),
}

impl QueryHolder {
    pub(super) fn view(&self) -> &View {
        match self {
            QueryHolder::View(view) => view,
            QueryHolder::Materialized(_, view) => view,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            QueryHolder::View(_) => "view",
            QueryHolder::Materialized(..) => "materialized view",
        }
    }

    /// Gives it another query, which reads relations by other names.
    pub(super) fn redefine(&self, view: View, defining: &mut Defining) -> Result<()> {
        let Defining { definitions, transaction, .. } = defining;
        match self {
            QueryHolder::View(former) => definitions.redefine_view(&former.full_name(), view),
            QueryHolder::Materialized(table, _) => {
                let mut definition = table.definition().clone();
                let reads = view.reads;
                definition.materialized = definition.materialized.map(|materialized| {
                    Arc::new(Materialized { query: view.query, reads, ..(*materialized).clone() })
                });
                definitions.redefine_table(table, definition, transaction).map(drop)
            }
        }
    }

    /// The query whose columns are to stay. A view is asked for by its name, which gives its columns their types.
    pub(super) fn query(&self, catalog: &Catalog) -> Result<ast::Query> {
        match self {
            QueryHolder::View(view) => view_text::parsed(&format!(
                "SELECT * FROM {}",
                full_name(catalog.schema_name(view.schema), &view.name)
            )),
            QueryHolder::Materialized(_, view) => view_text::current_query(view, catalog),
        }
    }
}

fn all_readers(catalog: &Catalog) -> impl Iterator<Item = QueryHolder> {
    let materialized = catalog
        .tables()
        .filter_map(|table| View::of_table(table).map(|view| QueryHolder::Materialized(table.clone(), view)));
    catalog.views().cloned().map(QueryHolder::View).chain(materialized)
}

/// Whether relations are, or read, the one of this name.
fn reads_indirectly(catalog: &Catalog, view: &View, name: &RelationName) -> bool {
    view.names_read().any(|read| {
        read == *name || catalog.view(&read).is_some_and(|view| reads_indirectly(catalog, view, name))
    })
}

/// 0A000 for a view that is to check new rows, and through which none can be written.
pub(super) fn check_checked(view: &View, catalog: &Catalog) -> Result<()> {
    match (check_option(view), why_not_written(view, catalog)?) {
        (Some(_), Some(reason)) => {
            let message = "WITH CHECK OPTION is supported only on automatically updatable views";
            Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(reason))
        }
        _ => Ok(()),
    }
}

/// 42P16 unless the new view has the columns of the former one, and perhaps more.
fn check_replaced(former: &View, new: &View) -> Result<()> {
    let wrong = |message: String| Err(Error::new(SqlState::InvalidTableDefinition, message));
    if new.columns.len() < former.columns.len() {
        return wrong("cannot drop columns from view".into());
    }
    for (old, new) in former.columns.iter().zip(&new.columns) {
        if old.name != new.name {
            return wrong(format!(
                "cannot change name of view column {} to {}",
                quoted(&old.name),
                quoted(&new.name)
            ));
        }
        if old.data_type != new.data_type {
            return wrong(format!(
                "cannot change data type of view column {} from {} to {}",
                quoted(&old.name),
                type_name(old.data_type),
                type_name(new.data_type)
            ));
        }
    }
    Ok(())
}

/// The views that read a relation themselves.
pub(super) fn readers(catalog: &Catalog, name: &RelationName) -> Vec<QueryHolder> {
    all_readers(catalog).filter(|reader| reader.view().reads_relation(name)).collect()
}

/// That the views which read a relation still give what they did, after it has changed.
///
/// # Errors
/// `DependentObjectsStillExist` if one does not.
pub(super) fn check_readers(name: &RelationName, defining: &mut Defining) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for reader in readers(&catalog, name) {
        let view = reader.view();
        let query = reader.query(&catalog)?;
        let types = |columns: &[ColumnDefinition]| -> Vec<_> {
            columns.iter().map(|column| column.data_type).collect()
        };
        let stays = match columns_of(&query, &catalog, defining) {
            Ok(columns) => types(&columns) == types(&view.columns),
            Err(error) if error.state() == SqlState::QueryCanceled => return Err(error),
            Err(_) => false,
        };
        if !stays {
            let name = shown(&catalog, name);
            let message = format!("cannot change relation {name} because other objects depend on it");
            return Err(depends(
                message,
                (reader.kind(), &shown(&catalog, &view.full_name())),
                "relation",
                &name,
            ));
        }
        check_readers(&view.full_name(), defining)?;
    }
    Ok(())
}

fn depends(message: String, (reader, view): (&str, &str), kind: &str, name: &str) -> Error {
    let detail = format!("{reader} {view} depends on {kind} {name}");
    let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
    Error::new(SqlState::DependentObjectsStillExist, message).with_detail(detail).with_hint(hint)
}

/// Drops the views that read a relation which is about to go.
///
/// # Errors
/// `DependentObjectsStillExist` if there are some and it does not cascade.
fn drop_readers(
    (definitions, mut transaction): (&mut Definitions, Option<&mut Transaction>),
    (kind, name): (&str, &RelationName),
    together: &[RelationName],
    cascade: bool,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    for reader in readers(&catalog, name) {
        let full = reader.view().full_name();
        if !cascade && !together.contains(&full) {
            let name = shown(&catalog, name);
            let message = format!("cannot drop {kind} {name} because other objects depend on it");
            return Err(depends(message, (reader.kind(), &shown(&catalog, &full)), kind, &name));
        }
        let changing = (&mut *definitions, transaction.as_deref_mut());
        drop_readers(changing, (reader.kind(), &full), together, cascade)?;
        if definitions.catalog()?.has_relation(&full) {
            match reader {
                QueryHolder::View(_) => definitions.drop_view(&full)?,
                QueryHolder::Materialized(..) => definitions.drop_table(&full, transaction.as_deref_mut())?,
            }
        }
    }
    Ok(())
}

/// DROP TABLE or DROP VIEW, as `kind` says: all or none.
pub(super) fn drop_relations(
    defining: &mut Defining,
    kind: &str,
    names: &[QualifiedName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let together: Vec<RelationName> = names.iter().filter_map(|name| catalog.lookup(name)).collect();
    for name in names {
        let catalog = defining.definitions.catalog()?;
        match catalog.lookup(name) {
            Some(found) => drop_relation(
                (&mut *defining.definitions, Some(&mut *defining.transaction)),
                kind,
                &found,
                &together,
                cascade,
            )?,
            None if if_exists => {}
            None => {
                check_schema(name, &catalog)?;
                let message = format!("{kind} {} does not exist", quoted(&name.to_string()));
                return Err(Error::new(SqlState::UndefinedTable, message));
            }
        }
    }
    Ok(())
}

/// Drops a table or view, as `kind` says, beside others.
pub(super) fn drop_relation(
    (definitions, mut transaction): (&mut Definitions, Option<&mut Transaction>),
    kind: &str,
    name: &RelationName,
    together: &[RelationName],
    cascade: bool,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    match (kind, kind_of(&catalog, name)) {
        ("view", "view") => {
            drop_readers((definitions, transaction), (kind, name), together, cascade)?;
            definitions.drop_view(name)
        }
        ("table", "table") | ("materialized view", "materialized view") => {
            if let Some(transaction) = transaction.as_deref() {
                transaction.check_none_deferred(&*catalog.table(name)?, "DROP TABLE")?;
            }
            drop_readers((definitions, transaction.as_deref_mut()), (kind, name), together, cascade)?;
            let owns = |sequence: &&Arc<Sequence>| {
                sequence.definition().owner.as_ref().is_some_and(|(table, _)| table == name)
            };
            let mut gone = together.to_vec();
            gone.push(name.clone());
            let what = format!("table {}", shown(&catalog, name));
            for sequence in catalog.sequences().filter(owns) {
                let changing = (&mut *definitions, transaction.as_deref_mut());
                free_sequence(changing, &sequence.full_name(), (&what, &gone), cascade)?;
            }
            for (child, key) in catalog.references_to(&*catalog.table(name)?) {
                if cascade || together.contains(&RelationName::of(&child)) {
                    definitions.drop_foreign_key(&child, &key, transaction.as_deref_mut())?;
                }
            }
            definitions.drop_table(name, transaction)
        }
        _ => Err(wrong_type(name, kind, &catalog)),
    }
}

/// What a relation is.
pub(super) fn kind_of(catalog: &Catalog, name: &RelationName) -> &'static str {
    match catalog.table(name) {
        Ok(table) if table.definition().materialized.is_some() => "materialized view",
        Ok(_) => "table",
        Err(_) if catalog.view(name).is_some() => "view",
        Err(_) if catalog.sequence(name).is_ok() => "sequence",
        Err(_) => "index",
    }
}

/// 42809.
fn wrong_type(name: &RelationName, kind: &str, catalog: &Catalog) -> Error {
    let other = kind_of(catalog, name);
    let article = if other == "index" { "an" } else { "a" };
    let message = format!("{} is not a {kind}", quoted(&name.name));
    let hint = format!("Use DROP {} to remove {article} {other}.", other.to_uppercase());
    Error::new(SqlState::WrongObjectType, message).with_hint(hint)
}
