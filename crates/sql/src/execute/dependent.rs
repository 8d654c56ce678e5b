//! What depends on a type or a domain, and goes with it or keeps it.

use super::schema::shown;
use ankerdb_engine::{Catalog, Domain, NameRef, RelationName, Table, View};
use std::sync::Arc;

/// What depends on it.
pub(super) enum Dependent {
    Column(Arc<Table>, usize),
    Default(Arc<Table>, usize),
    Check(Arc<Table>, String),
    View(Arc<View>),
    /// Something else of a table.
    Index(Arc<Table>, String),
    Domain(Arc<Domain>),
}

impl Dependent {
    /// As messages name it.
    pub(super) fn name(&self, catalog: &Catalog) -> String {
        let of_table = |table: &Table| shown(catalog, &RelationName::of(table));
        match self {
            Dependent::Column(table, column) => {
                format!("column {} of table {}", table.columns()[*column].name, of_table(table))
            }
            Dependent::Default(table, column) => {
                let column = &table.columns()[*column].name;
                format!("default value for column {column} of table {}", of_table(table))
            }
            Dependent::Check(table, name) => format!("constraint {name} on table {}", of_table(table)),
            Dependent::View(view) => format!("view {}", shown(catalog, &view.full_name())),
            Dependent::Index(_, name) => format!("index {name}"),
            Dependent::Domain(domain) => format!("type {}", shown_domain(catalog, domain)),
        }
    }
}

/// A domain's name as messages show it: with its schema where it is not found without.
pub(crate) fn shown_domain(catalog: &Catalog, domain: &Domain) -> String {
    match catalog.domain(&domain.name).is_some_and(|found| found.identity == domain.identity) {
        true => domain.name.clone(),
        false => NameRef::Qualified(catalog.schema_name(domain.schema), &domain.name).to_string(),
    }
}
