//! Views come and go, and what they read must stay.

use super::defining::Defining;
use crate::expression::Parameters;
use crate::expression::bind::type_name;
use crate::name::{folded, identifier, not_supported, object_name, quoted};
use crate::plan::{Planner, locks_rows};
use ankerdb_engine::{Catalog, ColumnDefinition, Definitions, Error, Result, SqlState, View};
use datafusion::sql::sqlparser::ast::{self, Visit, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) fn create_view(defining: &mut Defining, create: &ast::CreateView) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let name = object_name(&create.name)?;
    let view = view(&name, create, &catalog, defining)?;
    if let Some(former) = catalog.view(&name).filter(|_| create.or_replace) {
        check_replaced(former, &view)?;
    }
    if reads_indirectly(&catalog, &view.reads, &name) {
        let message = format!("infinite recursion detected in rules for relation {}", quoted(&name));
        return Err(Error::new(SqlState::InvalidObjectDefinition, message));
    }
    defining.definitions.create_view(view, create.or_replace)?;
    check_readers(&name, defining)
}

fn view(name: &str, create: &ast::CreateView, catalog: &Arc<Catalog>, defining: &Defining) -> Result<View> {
    if locks_rows(&create.query) {
        return Err(not_supported("a view that locks rows"));
    }
    let query = defining.runner.engine.olap().without_wildcards(&create.query, catalog);
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
    let reads = relations_of(&query, catalog);
    Ok(View { name: name.to_owned(), columns, query: query.to_string(), reads })
}

/// The columns that a query gives. 42P02 if it has parameters.
fn columns_of(
    query: &ast::Query,
    catalog: &Arc<Catalog>,
    defining: &Defining,
) -> Result<Vec<ColumnDefinition>> {
    let runner = defining.runner;
    let mut parameters = Parameters::default();
    let planner = Planner::new(&runner.engine, &runner.cancel, catalog.clone());
    let (_, output) = planner.query(query, &mut parameters)?;
    if !parameters.known().is_empty() {
        return Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1"));
    }
    let column =
        |column: &crate::OutputColumn| ColumnDefinition::new(&column.name, column.data_type).nullable();
    Ok(output.iter().map(column).collect())
}

/// The tables and views that a query names.
fn relations_of(query: &ast::Query, catalog: &Catalog) -> Vec<String> {
    struct Names<'a>(&'a Catalog, Vec<String>);
    impl Visitor for Names<'_> {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
            if let Ok(name) = object_name(name)
                && (self.0.table(&name).is_ok() || self.0.view(&name).is_some())
                && !self.1.contains(&name)
            {
                self.1.push(name);
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(catalog, Vec::new());
    let _ = query.visit(&mut names);
    names.1
}

/// Whether relations are, or read, the one of this name.
fn reads_indirectly(catalog: &Catalog, reads: &[String], name: &str) -> bool {
    reads.iter().any(|read| {
        read == name || catalog.view(read).is_some_and(|view| reads_indirectly(catalog, &view.reads, name))
    })
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
fn readers(catalog: &Catalog, name: &str) -> Vec<Arc<View>> {
    catalog.views().filter(|view| view.reads.iter().any(|read| read == name)).cloned().collect()
}

/// That the views which read a relation still give what they did, after it has changed.
///
/// # Errors
/// `DependentObjectsStillExist` if one does not.
pub(super) fn check_readers(name: &str, defining: &mut Defining) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    for view in readers(&catalog, name) {
        let text = format!("SELECT * FROM {}", identifier(&view.name));
        let statement = crate::parse::parse(&text)?.pop().and_then(|statement| statement.ast);
        let Some(ast::Statement::Query(query)) = statement.as_deref() else {
            return Err(Error::internal("the query of a view is no query"));
        };
        let types = |columns: &[ColumnDefinition]| -> Vec<_> {
            columns.iter().map(|column| column.data_type).collect()
        };
        let stays = match columns_of(query, &catalog, defining) {
            Ok(columns) => types(&columns) == types(&view.columns),
            Err(error) if error.state() == SqlState::QueryCanceled => return Err(error),
            Err(_) => false,
        };
        if !stays {
            let message = format!("cannot change relation {name} because other objects depend on it");
            return Err(depends(message, &view.name, "relation", name));
        }
        check_readers(&view.name, defining)?;
    }
    Ok(())
}

fn depends(message: String, view: &str, kind: &str, name: &str) -> Error {
    let detail = format!("view {view} depends on {kind} {name}");
    let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
    Error::new(SqlState::DependentObjectsStillExist, message).with_detail(detail).with_hint(hint)
}

/// Drops the views that read a relation which is about to go.
///
/// # Errors
/// `DependentObjectsStillExist` if there are some and it does not cascade.
fn drop_readers(
    definitions: &mut Definitions,
    (kind, name): (&str, &str),
    together: &[String],
    cascade: bool,
) -> Result<()> {
    for view in readers(&*definitions.catalog()?, name) {
        if !cascade && !together.contains(&view.name) {
            let message = format!("cannot drop {kind} {name} because other objects depend on it");
            return Err(depends(message, &view.name, kind, name));
        }
        drop_readers(definitions, ("view", &view.name), together, cascade)?;
        if definitions.catalog()?.view(&view.name).is_some() {
            definitions.drop_view(&view.name)?;
        }
    }
    Ok(())
}

/// DROP TABLE or DROP VIEW, as `kind` says: all or none.
pub(super) fn drop_relations(
    definitions: &mut Definitions,
    kind: &str,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        let catalog = definitions.catalog()?;
        let is_view = catalog.view(name).is_some();
        if if_exists && !catalog.has_relation(name) {
            continue;
        }
        match (kind, is_view, catalog.table(name).is_ok()) {
            ("view", true, _) => {
                drop_readers(definitions, (kind, name), names, cascade)?;
                definitions.drop_view(name)?;
            }
            ("table", _, true) => {
                drop_readers(definitions, (kind, name), names, cascade)?;
                definitions.drop_table(name)?;
            }
            _ if catalog.has_relation(name) => return Err(wrong_type(name, kind, &catalog)),
            _ => {
                let message = format!("{kind} {} does not exist", quoted(name));
                return Err(Error::new(SqlState::UndefinedTable, message));
            }
        }
    }
    Ok(())
}

/// 42809.
fn wrong_type(name: &str, kind: &str, catalog: &Catalog) -> Error {
    let (drops, other) = match () {
        () if catalog.table(name).is_ok() => ("TABLE", "a table"),
        () if catalog.view(name).is_some() => ("VIEW", "a view"),
        () if catalog.sequence(name).is_ok() => ("SEQUENCE", "a sequence"),
        () => ("INDEX", "an index"),
    };
    let message = format!("{} is not a {kind}", quoted(name));
    let hint = format!("Use DROP {drops} to remove {other}.");
    Error::new(SqlState::WrongObjectType, message).with_hint(hint)
}
