//! CREATE DOMAIN, ALTER DOMAIN, DROP DOMAIN. Columns of a domain follow it: their tables are closed to others, tested and defined anew.

use super::alter;
use super::copy::visit_rows;
use crate::domains::{self, Action, Version, is_check};
use crate::execute::defining::{Defining, numbered};
use crate::execute::dependent::{Dependent, shown_domain};
use crate::execute::schema::{check_schema, is_system_schema, target};
use crate::execute::user_type::{check_role, is_missing};
use crate::execute::view::drop_relation;
use crate::expression::moments::settled;
use crate::expression::{Context, Expression, NoSequences, evaluate};
use crate::name::{full_name, identifier, not_supported, quoted};
use crate::plan::NewDomain;
use crate::plan::check::{add_checks, parsed_check};
use ankerdb_engine::{
    Catalog, ColumnDefinition, Domain, DomainCheck, DomainType, Error, NameRef, QualifiedName, RelationName,
    Result, SqlState, Table, TableDefinition, Value,
};
use datafusion::sql::sqlparser::ast::Statement;
use std::sync::Arc;

/// CREATE DOMAIN.
pub(crate) fn create_domain(defining: &mut Defining, name: &QualifiedName, new: &NewDomain) -> Result<()> {
    check_schema(name, &*defining.definitions.catalog()?)?;
    let schema = target(defining.definitions, name, false)?;
    let catalog = defining.definitions.catalog()?;
    let full = RelationName::new(schema, name.name.as_str());
    if catalog.user_type(&full).is_some() || catalog.domain(&full).is_some() || catalog.has_relation(&full) {
        return Err(type_exists(&full.name));
    }
    let mut domain = Domain {
        schema,
        name: full.name,
        identity: DomainType::create()?,
        version: 0,
        base: new.base,
        over: new.over,
        collation: new.collation.clone(),
        default: None,
        is_not_null: new.is_not_null,
        checks: Vec::new(),
    };
    domain.default = new.default.as_ref().map(|expr| checked_default(expr, &domain)).transpose()?;
    for (name, text) in &new.checks {
        add_check(&mut domain, name.clone(), text, true)?;
    }
    domain.version = domains::make(&domain, domain.over.and_then(domains::current))?.number;
    defining.definitions.create_domain(domain)
}

/// The text of a default that fits.
fn checked_default(expr: &datafusion::sql::sqlparser::ast::Expr, domain: &Domain) -> Result<String> {
    let column = ColumnDefinition::new(domain.name.clone(), domain.base).nullable();
    crate::plan::default::checked(expr, &column)
}

/// Adds a condition, with a name that is free if it has none; returns that.
fn add_check(domain: &mut Domain, name: Option<String>, text: &str, is_validated: bool) -> Result<String> {
    let (kept, _) = settled(&parsed_check(text)?, |expr| domains::condition(expr, domain.base))?;
    let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
    let name = match name {
        Some(name) if is_taken(&name) => return Err(constraint_exists(&name, &domain.name)),
        Some(name) => name,
        None => numbered(format!("{}_check", domain.name), is_taken),
    };
    domain.checks.push(DomainCheck { name: name.clone(), text: kept.to_string(), is_validated });
    domain.checks.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(name)
}

fn type_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateObject, format!("type {} already exists", quoted(name)))
}

/// 42710
fn constraint_exists(name: &str, domain: &str) -> Error {
    let message = format!("constraint {} for domain {} already exists", quoted(name), quoted(domain));
    Error::new(SqlState::DuplicateObject, message)
}

/// 42704
fn no_constraint(name: &str, domain: &str) -> Error {
    let message = format!("constraint {} of domain {} does not exist", quoted(name), quoted(domain));
    Error::new(SqlState::UndefinedObject, message)
}

/// The domain of this name. 42704 if there is none, 42809 if it is another type.
pub(crate) fn found(catalog: &Catalog, name: &QualifiedName) -> Result<Arc<Domain>> {
    if let Some(found) = catalog.domain(name) {
        return Ok(found.clone());
    }
    if catalog.user_type(name).is_some() {
        let message = format!("{name} is not a domain");
        return Err(Error::new(SqlState::WrongObjectType, message));
    }
    check_schema(name, catalog)?;
    let message = format!("type {} does not exist", quoted(&name.to_string()));
    Err(Error::new(SqlState::UndefinedObject, message))
}

/// What rows are tested for.
enum NewTest {
    NotNull,
    Condition(Expression),
}

/// ALTER DOMAIN.
pub(crate) fn alter_domain(defining: &mut Defining, name: &QualifiedName, action: &Action) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let old = found(&catalog, name)?;
    let mut new = (*old).clone();
    let Some(test) = changed(&mut new, &catalog, action)? else { return Ok(()) };
    let mut changed = vec![(old.full_name(), new)];
    let mut versions: Vec<&'static Version> = Vec::new();
    while let Some((_, domain)) = changed.get_mut(versions.len()) {
        let below = domain.over.and_then(|over| {
            let made = versions.iter().copied().find(|version| version.identity == over);
            made.or_else(|| domains::current(over))
        });
        let version = domains::make(domain, below)?;
        domain.version = version.number;
        versions.push(version);
        // What is made over it changes with it.
        let identity = domain.identity;
        let over = catalog.domains().filter(|domain| domain.over == Some(identity));
        changed.extend(over.map(|domain| (domain.full_name(), (**domain).clone())));
    }
    let is_of = |column: &ColumnDefinition| version_of(&versions, column).is_some();
    let tables: Vec<Arc<Table>> =
        catalog.tables().filter(|table| table.columns().iter().any(is_of)).cloned().collect();
    for table in tables {
        follow(defining, &table, &versions, test.as_ref().filter(|_| is_tested(action)))?;
    }
    changed.into_iter().try_for_each(|(name, domain)| defining.definitions.redefine_domain(&name, domain))
}

/// The new version of a column's domain.
fn version_of(versions: &[&'static Version], column: &ColumnDefinition) -> Option<&'static Version> {
    let identity = column.domain?.identity;
    versions.iter().copied().find(|version| version.identity == identity)
}

/// Whether the rows that are there have to fulfil what the action adds.
fn is_tested(action: &Action) -> bool {
    !matches!(action, Action::Add { is_valid: false, .. })
}

/// Changes the domain; what is new for its values, if anything is. `None` if nothing changes.
fn changed(domain: &mut Domain, catalog: &Catalog, action: &Action) -> Result<Option<Option<NewTest>>> {
    match action {
        Action::SetDefault(expr) => domain.default = Some(checked_default(expr, domain)?),
        Action::DropDefault => domain.default = None,
        Action::SetNotNull | Action::Add { check: None, .. } => {
            if std::mem::replace(&mut domain.is_not_null, true) {
                return Ok(None);
            }
            return Ok(Some(Some(NewTest::NotNull)));
        }
        Action::DropNotNull => {
            if !std::mem::replace(&mut domain.is_not_null, false) {
                return Ok(None);
            }
        }
        Action::Add { name, check: Some(expr), is_valid } => {
            add_check(domain, name.clone(), &domains::condition_text(expr), *is_valid)?;
            let condition = domains::condition(expr, domain.base)?;
            return Ok(Some(Some(NewTest::Condition(condition))));
        }
        Action::Drop { name, if_exists } => {
            let before = domain.checks.len();
            domain.checks.retain(|check| check.name != *name);
            if domain.checks.len() == before {
                return if *if_exists { Ok(None) } else { Err(no_constraint(name, &domain.name)) };
            }
        }
        Action::Validate(name) => {
            let check = domain.checks.iter_mut().find(|check| check.name == *name);
            let check = check.ok_or_else(|| no_constraint(name, &domain.name))?;
            if std::mem::replace(&mut check.is_validated, true) {
                return Ok(None);
            }
            let condition = domains::condition(&parsed_check(&check.text)?, domain.base)?;
            return Ok(Some(Some(NewTest::Condition(condition))));
        }
        Action::RenameConstraint { old, new } => {
            if domain.checks.iter().any(|check| check.name == *new) {
                return Err(constraint_exists(new, &domain.name));
            }
            let check = domain.checks.iter_mut().find(|check| check.name == *old);
            check.ok_or_else(|| no_constraint(old, &domain.name))?.name.clone_from(new);
            domain.checks.sort_by(|left, right| left.name.cmp(&right.name));
        }
        Action::Rename(name) => {
            let full = RelationName::new(domain.schema, name.as_str());
            if catalog.domain(&full).is_some()
                || catalog.user_type(&full).is_some()
                || catalog.has_relation(&full)
            {
                return Err(type_exists(name));
            }
            domain.name.clone_from(name);
        }
        Action::Move(schema) => {
            if is_system_schema(schema) {
                return Err(not_supported("a type of users in a schema of the system"));
            }
            let moved = QualifiedName { schema: Some(schema.clone()), name: domain.name.clone() };
            let schema = catalog.schema_for(&moved)?;
            if std::mem::replace(&mut domain.schema, schema) == schema {
                return Ok(None);
            }
        }
        Action::Own(role) => {
            check_role(role)?;
            return Ok(None);
        }
    }
    Ok(Some(None))
}

/// Gives a table the new versions of the domains of some of its columns, if their values pass.
fn follow(
    defining: &mut Defining,
    table: &Arc<Table>,
    versions: &[&'static Version],
    test: Option<&NewTest>,
) -> Result<()> {
    let known = table.columns().iter().enumerate();
    let columns: Vec<(usize, &'static Version)> =
        known.filter_map(|(at, column)| Some((at, version_of(versions, column)?))).collect();
    defining.transaction.check_none_deferred(table, "ALTER DOMAIN")?;
    defining.definitions.close(table, defining.transaction)?;
    if let Some(test) = test {
        let interrupt = defining.runner.interrupt().clone();
        visit_rows(table, defining, |_, row| {
            for &(at, _) in &columns {
                tested(test, &row[at], &interrupt).and_then(|passes| match passes {
                    true => Ok(()),
                    false => Err(refused(test, table, at)),
                })?;
            }
            Ok(())
        })?;
    }
    let mut definition = table.definition().clone();
    for (at, version) in columns {
        set_domain(&mut definition, at, version)?;
    }
    defining.definitions.redefine_table(table, definition, defining.transaction).map(drop)
}

fn tested(test: &NewTest, value: &Value, interrupt: &ankerdb_engine::Interrupt) -> Result<bool> {
    match test {
        NewTest::NotNull => Ok(!value.is_null()),
        NewTest::Condition(condition) => {
            let column = |_| value.clone();
            let sequences = &NoSequences;
            let context =
                Context { column: &column, parameters: &[], subqueries: &[], now: 0, interrupt, sequences };
            Ok(evaluate(condition, &context)? != Value::Boolean(false))
        }
    }
}

fn refused(test: &NewTest, table: &Table, at: usize) -> Error {
    let (column, name) = (&table.columns()[at].name, table.name());
    let of = format!("column {} of table {}", quoted(column), quoted(name));
    match test {
        NewTest::NotNull => Error::new(SqlState::NotNullViolation, format!("{of} contains null values")),
        NewTest::Condition(_) => {
            let message = format!("{of} contains values that violate the new constraint");
            Error::new(SqlState::CheckViolation, message)
        }
    }
    .with_table(table.schema(), name)
    .with_column(column)
}

/// Gives a column another version of its domain: its check, its default, and what it remembers.
fn set_domain(definition: &mut TableDefinition, at: usize, version: &'static Version) -> Result<()> {
    definition.checks.retain(|check| !(is_check(&check.name) && check.columns.contains(at)));
    let column = &mut definition.columns[at];
    let gives_default = column.domain.is_some_and(|domain| domain.gives_default);
    if gives_default {
        column.default.clone_from(&version.default);
    }
    column.domain = Some(version.of_column(gives_default));
    match version.check(&column.name) {
        Some((name, expr)) => add_checks(definition, vec![(Some(name), &expr)]),
        None => Ok(()),
    }
}

/// All that depends on the domain; what reads comes first.
fn dependents(catalog: &Catalog, identity: DomainType) -> Vec<Dependent> {
    let is_named = |text: &str| domains::is_named_in(text, identity);
    let views = catalog.views().filter(|view| is_named(&view.query));
    let mut found: Vec<Dependent> = views.map(|view| Dependent::View(view.clone())).collect();
    for table in catalog.tables() {
        let indexes = catalog.indexes_of(table).map(|index| index.definition());
        let indexes = indexes.filter(|index| is_named(&format!("{:?}", index.derivation)));
        found.extend(indexes.map(|index| Dependent::Index(table.clone(), index.name.clone())));
        let checks = table.checks().iter().filter(|check| is_named(&check.text));
        found.extend(checks.map(|check| Dependent::Check(table.clone(), check.name.clone())));
        for (at, column) in table.columns().iter().enumerate() {
            let is_of = column.domain.is_some_and(|domain| domain.identity == identity);
            if is_of || column.generation.as_ref().is_some_and(|how| is_named(&how.text)) {
                found.push(Dependent::Column(table.clone(), at));
            } else if column.default.as_deref().is_some_and(is_named) {
                found.push(Dependent::Default(table.clone(), at));
            }
        }
    }
    let over = catalog.domains().filter(|domain| domain.over == Some(identity));
    found.extend(over.map(|domain| Dependent::Domain(domain.clone())));
    found
}

/// DROP DOMAIN: all or none.
pub(crate) fn drop_domains(
    defining: &mut Defining,
    names: &[QualifiedName],
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    for name in names {
        let catalog = defining.definitions.catalog()?;
        match found(&catalog, name) {
            Ok(known) => drop_domain(defining, &known, cascade)?,
            Err(error) if if_exists && is_missing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) fn drop_domain(defining: &mut Defining, known: &Domain, cascade: bool) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let all = dependents(&catalog, known.identity);
    if !cascade && !all.is_empty() {
        let name = shown_domain(&catalog, known);
        let details = all.iter().map(|one| format!("{} depends on type {name}", one.name(&catalog)));
        let message = format!("cannot drop type {name} because other objects depend on it");
        return Err(Error::new(SqlState::DependentObjectsStillExist, message)
            .with_detail(details.collect::<Vec<_>>().join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for dependent in all {
        defining.runner.interrupt().check()?;
        drop_dependent(defining, &dependent)?;
    }
    defining.definitions.drop_domain(&known.full_name())
}

/// Drops a domain whose schema goes, and whose tables have gone before.
pub(crate) fn drop_domain_of_schema(
    definitions: &mut ankerdb_engine::Definitions,
    name: &RelationName,
) -> Result<()> {
    let catalog = definitions.catalog()?;
    let Some(known) = catalog.domain(name).cloned() else { return Ok(()) };
    let is_of_schema =
        |one: &Dependent| matches!(one, Dependent::Domain(domain) if domain.schema == name.schema);
    if !dependents(&catalog, known.identity).iter().all(is_of_schema) {
        return Err(not_supported("dropping a schema with domains that other schemas use"));
    }
    definitions.drop_domain(name)
}

fn drop_dependent(defining: &mut Defining, dependent: &Dependent) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let column = |table: &Table, at: usize| identifier(&table.columns()[at].name);
    let (table, action) = match dependent {
        Dependent::View(view) if catalog.view(&view.full_name()).is_some() => {
            let changing = (&mut *defining.definitions, Some(&mut *defining.transaction));
            return drop_relation(changing, "view", &view.full_name(), &[], true);
        }
        Dependent::Index(table, name)
            if catalog.table_of_index(NameRef::In(table.schema(), name)).is_some() =>
        {
            return defining.definitions.drop_index(NameRef::In(table.schema(), name));
        }
        // They may have gone with something else.
        Dependent::View(_) | Dependent::Index(..) => return Ok(()),
        Dependent::Domain(domain) => return drop_domain(defining, domain, true),
        Dependent::Column(table, at) => (table, format!("DROP COLUMN {} CASCADE", column(table, *at))),
        Dependent::Default(table, at) => (table, format!("ALTER COLUMN {} DROP DEFAULT", column(table, *at))),
        Dependent::Check(table, name) => (table, format!("DROP CONSTRAINT IF EXISTS {}", identifier(name))),
    };
    let name = full_name(catalog.schema_of(table), table.name());
    let parsed = crate::parse::parse(&format!("ALTER TABLE {name} {action}"))?.pop();
    match parsed.and_then(|statement| statement.ast).as_deref() {
        Some(Statement::AlterTable(statement)) => alter(defining, statement),
        _ => Err(Error::internal("what drops a part of a table is no ALTER TABLE")),
    }
}
