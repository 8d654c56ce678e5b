//! Types of users come, change and go, and what uses them must stay or go with them.

use super::alter::{alter, drop_domain};
use super::defining::Defining;
use super::dependent::Dependent;
use super::schema::{check_schema, is_system_schema, target};
use super::view::drop_relation;
use crate::name::{ROLE, full_name, identifier, not_supported, quoted};
use crate::plan::{LabelPlace, TypeChange};
use crate::user_types::is_named_in;
use ankerdb_engine::{
    Catalog, EnumPlace, EnumType, Error, NameRef, QualifiedName, RelationName, Result, SqlState, Table,
    UserType, View, labels_of,
};
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::Arc;

/// CREATE TYPE ... AS ENUM.
pub(super) fn create_type(defining: &mut Defining, name: &QualifiedName, labels: &[String]) -> Result<()> {
    check_schema(name, &*defining.definitions.catalog()?)?;
    let schema = target(defining.definitions, name, false)?;
    let catalog = defining.definitions.catalog()?;
    let full = RelationName::new(schema, name.name.as_str());
    if catalog.table(&full).is_ok() || catalog.view(&full).is_some() {
        let hint = "A relation has an associated type of the same name, so you must use a name that doesn't conflict with any existing type.";
        return Err(type_exists(&full.name).with_hint(hint));
    }
    if catalog.user_type(&full).is_some() || catalog.domain(&full).is_some() {
        return Err(type_exists(&full.name));
    }
    let (labels, life) = EnumType::create(&full.name, labels.iter().map(String::as_str))?;
    let (state, life) = (labels.state(), Arc::new(life));
    defining.definitions.create_type(UserType { schema, name: full.name, labels, life, state })
}

fn type_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateObject, format!("type {} already exists", quoted(name)))
}

/// The type of this name. 42704 if there is none.
pub(super) fn found(catalog: &Catalog, name: &QualifiedName) -> Result<Arc<UserType>> {
    if let Some(found) = catalog.user_type(name) {
        return Ok(found.clone());
    }
    check_schema(name, catalog)?;
    let message = format!("type {} does not exist", quoted(&name.to_string()));
    Err(Error::new(SqlState::UndefinedObject, message))
}

/// ALTER TYPE.
pub(super) fn alter_type(defining: &mut Defining, name: &QualifiedName, change: &TypeChange) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let old = found(&catalog, name)?;
    let mut new = (*old).clone();
    match change {
        TypeChange::Name(name) => {
            if catalog.user_type(NameRef::In(old.schema, name)).is_some() {
                return Err(type_exists(name));
            }
            new.name.clone_from(name);
            new.state = old.state.renamed(name)?;
        }
        TypeChange::Schema(schema) => {
            if is_system_schema(schema) {
                return Err(not_supported("a type of users in a schema of the system"));
            }
            let moved = QualifiedName { schema: Some(schema.clone()), name: old.name.clone() };
            new.schema = catalog.schema_for(&moved)?;
            if new.schema == old.schema {
                return Ok(());
            }
        }
        TypeChange::Owner(role) => return check_role(role),
        TypeChange::AddLabel { label, if_not_exists: true, .. } if old.state.label(label).is_some() => {
            return Ok(());
        }
        TypeChange::AddLabel { label, place, .. } => {
            let place = match place {
                LabelPlace::Last => EnumPlace::Last,
                LabelPlace::Before(label) => EnumPlace::Before(label),
                LabelPlace::After(label) => EnumPlace::After(label),
            };
            new.state = old.state.with_label(label, place)?;
        }
        TypeChange::RenameLabel { from, to } => {
            new.state = old.state.with_renamed(from, to)?;
            check_unnamed(&catalog, old.labels, from)?;
        }
    }
    defining.definitions.redefine_type(&old.full_name(), new)
}

/// 0A000 if a text that is kept may name the label: it would have to be written anew, and of a constant that is compared with
/// something the text does not say of which type it is.
fn check_unnamed(catalog: &Catalog, labels: EnumType, label: &str) -> Result<()> {
    let constant = format!("'{}'", label.replace('\'', "''"));
    let has_column =
        |table: &Table| table.columns().iter().any(|column| labels_of(column.data_type) == Some(labels));
    let is_named = |table: &Table, text: &str| {
        text.contains(&constant) && (has_column(table) || is_named_in(text, labels))
    };
    let in_table = |table: &Arc<Table>| {
        let defaults = table.columns().iter().filter_map(|column| column.default.as_deref());
        let computed =
            table.columns().iter().filter_map(|column| Some(column.generation.as_ref()?.text.as_str()));
        let mut texts =
            defaults.chain(computed).chain(table.checks().iter().map(|check| check.text.as_str()));
        let mut indexes =
            catalog.indexes_of(table).map(|index| format!("{:?}", index.definition().derivation));
        texts.any(|text| is_named(table, text)) || indexes.any(|text| is_named(table, &text))
    };
    let in_view = |view: &Arc<View>| view.query.contains(&constant);
    match catalog.tables().any(in_table) || catalog.views().any(in_view) {
        true => Err(not_supported(
            "ALTER TYPE ... RENAME VALUE of a label that a default, condition, index or view may name",
        )),
        false => Ok(()),
    }
}

/// There is one role.
pub(super) fn check_role(role: &str) -> Result<()> {
    match role {
        ROLE | "current_user" | "session_user" | "current_role" => Ok(()),
        _ => {
            let message = format!("role {} does not exist", quoted(role));
            Err(Error::new(SqlState::UndefinedObject, message))
        }
    }
}

impl Dependent {
    /// The statement's words by which it goes; `None` for a view.
    fn action(&self) -> Option<(&Arc<Table>, String)> {
        let column = |table: &Table, column: usize| identifier(&table.columns()[column].name);
        match self {
            Dependent::Column(table, at) => {
                Some((table, format!("DROP COLUMN {} CASCADE", column(table, *at))))
            }
            Dependent::Default(table, at) => {
                Some((table, format!("ALTER COLUMN {} DROP DEFAULT", column(table, *at))))
            }
            Dependent::Check(table, name) => Some((table, format!("DROP CONSTRAINT {}", identifier(name)))),
            Dependent::View(_) | Dependent::Index(..) | Dependent::Domain(_) => None,
        }
    }
}

/// All that depends on the type, tables before views.
fn dependents(catalog: &Catalog, labels: EnumType) -> Vec<Dependent> {
    let mut found = Vec::new();
    let is_named = |text: &Option<String>| text.as_ref().is_some_and(|text| is_named_in(text, labels));
    for table in catalog.tables() {
        for (at, column) in table.columns().iter().enumerate() {
            let computed = column.generation.as_ref().is_some_and(|how| is_named_in(&how.text, labels));
            if labels_of(column.data_type) == Some(labels) || computed {
                found.push(Dependent::Column(table.clone(), at));
            } else if is_named(&column.default) {
                found.push(Dependent::Default(table.clone(), at));
            }
        }
        let checks = table.checks().iter().filter(|check| is_named_in(&check.text, labels));
        // A condition on a column of the type goes with that.
        let of_column = |check: &&ankerdb_engine::Check| {
            let mut columns = table.columns().iter().enumerate();
            columns
                .any(|(at, column)| check.columns.contains(at) && labels_of(column.data_type) == Some(labels))
        };
        let checks = checks.filter(|check| !of_column(check));
        found.extend(checks.map(|check| Dependent::Check(table.clone(), check.name.clone())));
        let indexes = catalog.indexes_of(table).map(|index| index.definition());
        let indexes = indexes.filter(|index| is_named_in(&format!("{:?}", index.derivation), labels));
        found.extend(indexes.map(|index| Dependent::Index(table.clone(), index.name.clone())));
    }
    let reads = |view: &&Arc<View>| {
        view.columns.iter().any(|column| labels_of(column.data_type) == Some(labels))
            || is_named_in(&view.query, labels)
    };
    found.extend(catalog.views().filter(reads).map(|view| Dependent::View(view.clone())));
    let domains = catalog.domains().filter(|domain| {
        let named = domain.checks.iter().map(|check| Some(&check.text)).chain([domain.default.as_ref()]);
        labels_of(domain.base) == Some(labels) || named.flatten().any(|text| is_named_in(text, labels))
    });
    found.extend(domains.map(|domain| Dependent::Domain(domain.clone())));
    found
}

/// DROP TYPE: all or none.
pub(super) fn drop_types(
    defining: &mut Defining,
    names: &[QualifiedName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        let catalog = defining.definitions.catalog()?;
        if let Some(domain) = catalog.domain(name).cloned() {
            drop_domain(defining, &domain, cascade)?;
            continue;
        }
        match found(&catalog, name) {
            Ok(known) => drop_type(defining, &known, cascade)?,
            Err(error) if if_exists && is_missing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error.state(), SqlState::UndefinedObject | SqlState::InvalidSchemaName)
}

fn drop_type(defining: &mut Defining, known: &UserType, cascade: bool) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let all = dependents(&catalog, known.labels);
    if !cascade && !all.is_empty() {
        return Err(depended_on(&catalog, known, &all));
    }
    // Views and indexes first: what they read cannot go before them.
    let (readers, parts): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| {
        !matches!(one, Dependent::Column(..) | Dependent::Default(..) | Dependent::Check(..))
    });
    for dependent in readers.into_iter().chain(parts) {
        defining.runner.interrupt().check()?;
        let catalog = defining.definitions.catalog()?;
        match (&dependent, dependent.action()) {
            // A column may have gone with its domain.
            (Dependent::Column(table, at), _)
                if catalog
                    .table(&RelationName::of(table))
                    .is_ok_and(|now| now.column_position(&table.columns()[*at].name).is_none()) => {}
            (_, Some((table, action))) => alter_table(defining, &RelationName::of(table), &action)?,
            (Dependent::Domain(domain), _) => {
                if let Some(domain) = catalog.domain_of(domain.identity).cloned() {
                    drop_domain(defining, &domain, true)?;
                }
            }
            // It may have gone with a column.
            (Dependent::View(view), _) if catalog.view(&view.full_name()).is_some() => {
                let changing = (&mut *defining.definitions, Some(&mut *defining.transaction));
                drop_relation(changing, "view", &view.full_name(), &[], true)?;
            }
            (Dependent::Index(table, name), _)
                if catalog.table_of_index(NameRef::In(table.schema(), name)).is_some() =>
            {
                defining.definitions.drop_index(NameRef::In(table.schema(), name))?;
            }
            _ => {}
        }
    }
    defining.definitions.drop_type(&known.full_name())
}

/// 2BP01
fn depended_on(catalog: &Catalog, known: &UserType, all: &[Dependent]) -> Error {
    let name = shown_type(catalog, known);
    let details = all.iter().map(|one| format!("{} depends on type {name}", one.name(catalog)));
    let message = format!("cannot drop type {name} because other objects depend on it");
    Error::new(SqlState::DependentObjectsStillExist, message)
        .with_detail(details.collect::<Vec<_>>().join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

/// A type's name as messages show it: with its schema where it is not found without.
pub(super) fn shown_type(catalog: &Catalog, known: &UserType) -> String {
    match catalog.user_type(&known.name).is_some_and(|found| found.labels == known.labels) {
        true => known.name.clone(),
        false => NameRef::Qualified(catalog.schema_name(known.schema), &known.name).to_string(),
    }
}

fn alter_table(defining: &mut Defining, table: &RelationName, action: &str) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let name = full_name(catalog.schema_name(table.schema), &table.name);
    let parsed = crate::parse::parse(&format!("ALTER TABLE {name} {action}"))?.pop();
    match parsed.and_then(|statement| statement.ast).as_deref() {
        Some(Statement::AlterTable(statement)) => alter(defining, statement),
        _ => Err(Error::internal("what drops a part of a table is no ALTER TABLE")),
    }
}

/// Drops a type whose schema goes, and whose tables have gone before.
pub(super) fn drop_type_of_schema(
    definitions: &mut ankerdb_engine::Definitions,
    name: &RelationName,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    let Some(known) = catalog.user_type(name).cloned() else { return Ok(()) };
    if !dependents(&catalog, known.labels).is_empty() {
        return Err(not_supported("dropping a schema with types that other schemas use"));
    }
    definitions.drop_type(name)
}
