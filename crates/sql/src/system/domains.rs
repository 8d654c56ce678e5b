//! Domains: their rows of `pg_type`, `pg_constraint` and `information_schema`, and their names.

use super::default_text::domain_default;
use super::objects::OWNER_OID;
use super::operator_classes::collation_number;
use super::standard::domain_row;
use super::types::{by_oid, type_of};
use super::{Datum, NULL, Named, Rows, SchemaEntry, SystemCatalog, quoting, row};
use crate::name::DATABASE;
use ankerdb_engine::{Catalog, ColumnDefinition, Domain, DomainCheck, DomainType};
use std::sync::Arc;

/// A domain.
#[derive(Debug)]
pub(super) struct DomainEntry {
    pub(super) schema: SchemaEntry,
    pub(super) domain: Arc<Domain>,
}

/// The first number of a condition: those of other objects are below.
const FIRST_CHECK_OID: u32 = 7 << 29;
/// Conditions of a domain that have numbers of their own.
const CHECKS_NUMBERED: u32 = 1 << 12;
/// The functions that read texts and binary values of all domains, as PostgreSQL numbers them.
const INPUT: (u32, u32) = (2597, 2598);
/// Names of the functions that only domains name.
pub(super) const FUNCTION_NAMES: [(u32, &str); 2] = [(2597, "domain_in"), (2598, "domain_recv")];
/// Those of all arrays.
const ARRAY_FUNCTIONS: [u32; 4] = [750, 751, 2400, 2401];

/// The domains of a catalog, without those of schemas that the session does not see.
pub(super) fn describe(
    catalog: &Catalog,
    schema: impl Fn(ankerdb_engine::SchemaId) -> Option<SchemaEntry>,
) -> Vec<DomainEntry> {
    let entry =
        |domain: &Arc<Domain>| Some(DomainEntry { schema: schema(domain.schema)?, domain: domain.clone() });
    catalog.domains().filter_map(entry).collect()
}

impl SystemCatalog {
    /// The domain of a column.
    pub(super) fn domain_of(&self, column: &ColumnDefinition) -> Option<&DomainEntry> {
        let identity = column.domain?.identity;
        self.domains.iter().find(|entry| entry.domain.identity == identity)
    }

    /// The domain with this number, and whether the number is that of arrays of it.
    fn domain_by_oid(&self, oid: u32) -> Option<(&DomainEntry, bool)> {
        let is_meant = |identity: DomainType| oid == identity.oid() || oid == identity.list_oid();
        let found = self.domains.iter().find(|entry| is_meant(entry.domain.identity))?;
        Some((found, oid == found.domain.identity.list_oid()))
    }

    fn domain_in_schema(&self, schema: &str, name: &str) -> Option<&DomainEntry> {
        self.domains.iter().find(|entry| &*entry.schema.name == schema && entry.domain.name == name)
    }

    fn domain_by_name(&self, (schema, name): (Option<&str>, &str)) -> Option<&DomainEntry> {
        match schema {
            Some(schema) => self.domain_in_schema(schema, name),
            None => self.path.searched.iter().find_map(|schema| self.domain_in_schema(schema, name)),
        }
    }

    /// The number of the domain that SQL calls so.
    pub(super) fn domain_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if let Some(items) = name.strip_suffix("[]") {
            return Some(self.domain_by_name((schema, items))?.domain.identity.list_oid());
        }
        if let Some(found) = self.domain_by_name((schema, name)) {
            return Some(found.domain.identity.oid());
        }
        Some(self.domain_by_name((schema, name.strip_prefix('_')?))?.domain.identity.list_oid())
    }

    /// A domain as SQL writes it.
    pub(super) fn shown_domain_of(&self, oid: u32) -> Option<String> {
        let (found, is_list) = self.domain_by_oid(oid)?;
        Some(format!("{}{}", self.shown_domain(found), if is_list { "[]" } else { "" }))
    }

    /// Whether the domain is found without its schema; `None` if it is none.
    pub(super) fn is_visible_domain(&self, oid: u32) -> Option<bool> {
        self.domain_by_oid(oid).map(|(found, _)| self.is_found(found))
    }

    fn is_found(&self, entry: &DomainEntry) -> bool {
        let found = self.domain_by_name((None, &entry.domain.name));
        found.is_some_and(|found| found.domain.identity == entry.domain.identity)
    }

    fn shown_domain(&self, entry: &DomainEntry) -> String {
        let name = quoting::quote_ident(&entry.domain.name);
        match self.is_found(entry) {
            true => name,
            false => format!("{}.{name}", quoting::quote_ident(&entry.schema.name)),
        }
    }

    /// A text that is kept, with the names of domains.
    pub(super) fn shown_domains(&self, text: &str) -> String {
        crate::domains::shown(text, |identity| {
            let known = self.domains.iter().find(|entry| entry.domain.identity == identity);
            known.map_or_else(|| "???".to_owned(), |known| self.shown_domain(known))
        })
    }

    /// How the condition with this number is declared.
    pub(super) fn domain_check_definition(&self, oid: u32) -> Option<String> {
        let (_, check) = self.checks().find(|(entry, check)| check_oid(entry, check) == oid)?;
        let marked = if check.is_validated { "" } else { " NOT VALID" };
        Some(format!("CHECK ({}){marked}", quoting::in_parentheses(&check.text)))
    }

    /// Schema and name of the domain over which another one is.
    pub(super) fn below(&self, domain: &Domain) -> Option<Named> {
        let over = domain.over?;
        let below = self.domains.iter().find(|entry| entry.domain.identity == over)?;
        Some((below.schema.name.clone(), below.domain.name.clone()))
    }

    fn checks(&self) -> impl Iterator<Item = (&DomainEntry, &DomainCheck)> {
        self.domains.iter().flat_map(|entry| entry.domain.checks.iter().map(move |check| (entry, check)))
    }
}

fn check_oid(entry: &DomainEntry, check: &DomainCheck) -> u32 {
    let position = entry.domain.checks.iter().position(|known| known.name == check.name).unwrap_or_default();
    FIRST_CHECK_OID + entry.domain.identity.number() * CHECKS_NUMBERED + position as u32 % CHECKS_NUMBERED
}

/// Their rows of `pg_type`, each with that of its arrays.
pub(super) fn types(catalog: &SystemCatalog) -> impl Iterator<Item = Vec<Datum>> {
    catalog.domains.iter().flat_map(|entry| [type_row(catalog, entry, false), type_row(catalog, entry, true)])
}

fn type_row(catalog: &SystemCatalog, entry: &DomainEntry, is_list: bool) -> Vec<Datum> {
    let domain = &entry.domain;
    let (own, modifier) = type_of(domain.base);
    let base = domain.over.map_or(own, DomainType::oid);
    let known = by_oid(own);
    let letter = |of: fn(&super::types::TypeEntry) -> char| known.map_or('i', of).to_string();
    let default = domain_default(catalog, domain).filter(|_| !is_list).map_or(NULL, Datum::from);
    let purpose = |purpose| super::type_functions::function(own, purpose);
    use super::type_functions::Purpose;
    let functions = match is_list {
        true => ARRAY_FUNCTIONS,
        false => [INPUT.0, purpose(Purpose::Write), INPUT.1, purpose(Purpose::WriteBinary)],
    };
    let identity = domain.identity;
    let own = domain.collation.as_deref().map(collation_number);
    let of_base = || known.map_or(0, |known| known.collation.into());
    let collation = if is_list { 0 } else { own.unwrap_or_else(of_base) };
    row![
        if is_list { identity.list_oid() } else { identity.oid() },
        if is_list { format!("_{}", domain.name) } else { domain.name.clone() },
        entry.schema.oid,
        OWNER_OID,
        if is_list { -1 } else { known.map_or(-1, |known| known.length) },
        !is_list && known.is_some_and(|known| known.by_value),
        if is_list { "b" } else { "d" },
        if is_list { "A".to_owned() } else { letter(super::types::TypeEntry::category) },
        false,
        true,
        ",",
        0,
        0,
        if is_list { identity.oid() } else { 0 },
        if is_list { 0 } else { identity.list_oid() },
        functions[0],
        functions[1],
        functions[2],
        functions[3],
        0,
        0,
        0,
        if is_list { "i".to_owned() } else { letter(super::types::TypeEntry::align) },
        if is_list { "x".to_owned() } else { letter(super::types::TypeEntry::storage) },
        !is_list && domain.is_not_null,
        if is_list { 0 } else { base },
        if is_list { -1 } else { modifier },
        0,
        collation,
        NULL,
        default,
        NULL,
    ]
}

/// Their rows of `pg_constraint`.
pub(super) fn constraints(catalog: &SystemCatalog) -> impl Iterator<Item = Vec<Datum>> {
    catalog.checks().map(|(entry, check)| {
        row![
            check_oid(entry, check),
            check.name.as_str(),
            entry.schema.oid,
            "c",
            false,
            false,
            check.is_validated,
            0,
            entry.domain.identity.oid(),
            0,
            0,
            0,
            " ",
            " ",
            " ",
            true,
            0,
            false,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            check.text.as_str()
        ]
    })
}

/// `information_schema.domains`
pub(super) fn domains(catalog: &SystemCatalog) -> Rows {
    let row = |entry: &DomainEntry| {
        let domain = &entry.domain;
        let base = catalog.below(domain).unwrap_or_else(|| {
            let own = || by_oid(type_of(domain.base).0).map_or("", |known| known.name).to_owned();
            let of_users = catalog.udt(domain.base);
            of_users.unwrap_or_else(|| (super::PG_CATALOG.into(), own()))
        });
        let default = domain_default(catalog, domain);
        let is_over = domain.over.is_some();
        domain_row((&entry.schema.name, &domain.name), (domain.base, is_over), default, base)
    };
    catalog.domains.iter().map(row).collect()
}

/// `information_schema.domain_constraints`
pub(super) fn domain_constraints(catalog: &SystemCatalog) -> Rows {
    let row = |(entry, check): (&DomainEntry, &DomainCheck)| {
        let (schema, name) = (&*entry.schema.name, entry.domain.name.as_str());
        row![DATABASE, schema, check.name.as_str(), DATABASE, schema, name, "NO", "NO"]
    };
    catalog.checks().map(row).collect()
}

/// `information_schema.column_domain_usage`
pub(super) fn column_usage(catalog: &SystemCatalog) -> Rows {
    let of_table = |table: &super::TableEntry| {
        let used = table.columns.iter().filter_map(|column| {
            let entry = catalog.domain_of(&column.definition)?;
            let (schema, name) = (&*entry.schema.name, entry.domain.name.as_str());
            let (of, table) = (&*table.schema.name, table.name.as_str());
            Some(row![DATABASE, schema, name, DATABASE, of, table, column.definition.name.as_str()])
        });
        used.collect::<Rows>()
    };
    catalog.tables.iter().flat_map(of_table).collect()
}

/// Their rows of `information_schema.check_constraints`.
pub(super) fn check_constraints(catalog: &SystemCatalog) -> impl Iterator<Item = Vec<Datum>> {
    catalog.checks().map(|(entry, check)| {
        row![DATABASE, &*entry.schema.name, check.name.as_str(), format!("(({}))", check.text)]
    })
}
