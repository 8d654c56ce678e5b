//! Catalogs from their images: empty tables, what their texts compute, and everything else.

use super::binder::Binder;
use super::bytes::{ByteReader, damaged, whole};
use super::definition::TableImage;
use super::entry::{read_domain, read_sequence, read_view};
use super::key::{EntryKind, name, subject};
use super::recovered::{RecoveredCatalog, Types};
use crate::catalog::{Catalog, RelationMap};
use crate::database::Database;
use crate::domain::Domain;
use crate::schema::{RelationName, Schema};
use ankerdb_base::{Error, Result, SchemaId, TableId};
use ankerdb_table::{Storage, Table, TableDefinition};
use ankerdb_value::{DomainType, KeptName, renumbered};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

impl RecoveredCatalog {
    /// Makes the catalog in a database that has nothing yet: its tables are empty, and have the numbers that they had. What is made in the
    /// database from now on gets numbers that nothing has had. Texts are bound by `binder`.
    ///
    /// # Errors
    /// `DataCorrupted` if the images do not fit each other; those of the binder and of making tables.
    pub fn build(mut self, database: &Database, binder: &dyn Binder) -> Result<Catalog> {
        self.types()?;
        let shared = &database.shared;
        shared.leave_number(self.numbers_last);
        shared.manager.leave_tables(self.tables_end);
        let schemas = self.schemas()?;
        let domains = self.domains(binder)?;
        let tables = self.tables_of(database, &domains, binder)?;
        let types = self.types.take().ok_or_else(|| Error::internal("types were made"))?;
        let sequences = self.sequences(database)?;
        let views = self.views(&types)?;
        let comments = self.of_kind(EntryKind::Comment).map(|(key, text)| {
            let subject = whole(key, |reader| subject(reader, database.id()))?;
            Ok((subject, Arc::from(whole(text, ByteReader::text)?)))
        });
        let user_types = types.user_types.into_iter().map(|known| (known.full_name(), Arc::new(known)));
        let catalog = Catalog {
            version: shared.next_version(),
            path: Arc::default(),
            schemas: Arc::new(schemas),
            tables: Arc::new(tables),
            sequences: Arc::new(sequences),
            views: Arc::new(views),
            types: Arc::new(user_types.collect()),
            domains: Arc::new(
                domains.into_iter().map(|known| (known.full_name(), Arc::new(known))).collect(),
            ),
            comments: Arc::new(comments.collect::<Result<_>>()?),
            hidden: Vec::new(),
            unready: Vec::new(),
        };
        catalog.check_recovered()?;
        catalog.show_types();
        catalog.show_domains();
        Ok(catalog)
    }

    fn schemas(&self) -> Result<BTreeMap<String, Arc<Schema>>> {
        let mut schemas = BTreeMap::new();
        for (key, body) in self.of_kind(EntryKind::Schema) {
            let id = SchemaId(whole(key, ByteReader::u64)?);
            let name = whole(body, ByteReader::string)?;
            let schema = Arc::new(Schema { id, name: name.clone() });
            if schemas.insert(name, schema).is_some() {
                return Err(damaged("two schemas have one name"));
            }
        }
        Ok(schemas)
    }

    /// The domains, each with its version, which texts can name from now on.
    fn domains(&self, binder: &dyn Binder) -> Result<Vec<Domain>> {
        let types = self.types.as_ref().ok_or_else(|| Error::internal("types come before domains"))?;
        let mut waiting = Vec::new();
        for (key, body) in self.of_kind(EntryKind::Domain) {
            waiting.push(read_domain(whole(key, name)?, body, &types.stored)?);
        }
        let mut made = Made { domains: Vec::with_capacity(waiting.len()), known: HashMap::new() };
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut left = Vec::new();
            for domain in waiting {
                match needed(&domain)?.iter().all(|needed| made.known.contains_key(needed)) {
                    true => made.make(domain, binder)?,
                    false => left.push(domain),
                }
            }
            waiting = left;
            if waiting.len() == before {
                made.make_circle(std::mem::take(&mut waiting), binder)?;
            }
        }
        Ok(made.domains)
    }

    fn tables_of(
        &self,
        database: &Database,
        domains: &[Domain],
        binder: &dyn Binder,
    ) -> Result<RelationMap<Table>> {
        let versions: HashMap<DomainType, u32> =
            domains.iter().map(|domain| (domain.identity, domain.version)).collect();
        let mut tables = RelationMap::new();
        for (origin, image) in self.read_tables(database.id())? {
            let (number, what) = (image.number, image.definition.name.clone());
            let definition = bound(image, &versions, binder).map_err(|error| of_table(error, &what))?;
            let table = make(database, number, origin, definition)?;
            if tables.insert(RelationName::of(&table), Arc::new(table)).is_some() {
                return Err(damaged("two tables have one name"));
            }
        }
        Ok(tables)
    }

    fn sequences(&self, database: &Database) -> Result<RelationMap<crate::sequence::Sequence>> {
        let read = |(key, body)| {
            let name = whole(key, name)?;
            let count = |number| self.counts.get(&number).copied();
            let sequence = read_sequence(name.clone(), body, count)?.logged_by(&database.shared.manager);
            Ok((name, Arc::new(sequence)))
        };
        self.of_kind(EntryKind::Sequence).map(read).collect()
    }

    fn views(&self, types: &Types) -> Result<RelationMap<crate::view::View>> {
        let read = |(key, body)| {
            let name = whole(key, name)?;
            Ok((name.clone(), Arc::new(read_view(name, body, &types.stored)?)))
        };
        self.of_kind(EntryKind::View).map(read).collect()
    }
}

/// Domains that have their versions.
struct Made {
    domains: Vec<Domain>,
    /// Their places.
    known: HashMap<DomainType, usize>,
}

impl Made {
    /// Makes a domain whose conditions name others that are there.
    fn make(&mut self, mut domain: Domain, binder: &dyn Binder) -> Result<()> {
        let below = domain.over.and_then(|over| self.known.get(&over));
        let below = below.map(|place| &self.domains[*place]);
        domain.version = binder.domain(&domain, below)?;
        domain.identity.set_version(domain.version);
        match self.known.get(&domain.identity) {
            Some(place) => self.domains[*place] = domain,
            None => {
                self.known.insert(domain.identity, self.domains.len());
                self.domains.push(domain);
            }
        }
        Ok(())
    }

    /// Makes domains whose conditions name each other, or themselves, which means a version from before there was the condition: first
    /// without conditions, and then with them.
    fn make_circle(&mut self, domains: Vec<Domain>, binder: &dyn Binder) -> Result<()> {
        let mut sorted: Vec<Domain> = Vec::with_capacity(domains.len());
        let mut waiting = domains;
        while !waiting.is_empty() {
            let is_waiting: HashSet<DomainType> = waiting.iter().map(|domain| domain.identity).collect();
            let (left, ready): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|domain| domain.over.is_some_and(|over| is_waiting.contains(&over)));
            if ready.is_empty() {
                return Err(damaged("domains are made over each other"));
            }
            sorted.extend(ready);
            waiting = left;
        }
        for domain in &sorted {
            self.make(Domain { checks: Vec::new(), ..domain.clone() }, binder)?;
        }
        sorted.into_iter().try_for_each(|domain| self.make(domain, binder))
    }
}

/// The domains that have to be there before this one.
fn needed(domain: &Domain) -> Result<Vec<DomainType>> {
    let mut needed: Vec<DomainType> = domain.over.into_iter().collect();
    for check in &domain.checks {
        renumbered(&check.text, |name| match name {
            KeptName::Enum(number) => Ok(number),
            KeptName::Domain(number) => {
                needed.extend(DomainType::by_number(number));
                Ok(number)
            }
        })?;
    }
    Ok(needed)
}

/// The definition with everything that its texts compute.
fn bound(
    image: TableImage,
    versions: &HashMap<DomainType, u32>,
    binder: &dyn Binder,
) -> Result<TableDefinition> {
    let TableImage { mut definition, checks, generations, derivations, .. } = image;
    for column in &mut definition.columns {
        if let Some(domain) = &mut column.domain {
            let version = versions.get(&domain.identity);
            domain.version = *version.ok_or_else(|| damaged("a domain is missing"))?;
        }
    }
    for (column, text) in generations {
        definition.columns[column].generation = Some(binder.generation(&definition, column, &text)?);
    }
    let mut all = binder.domain_checks(&definition)?;
    for known in checks {
        let check = binder.check(&definition, &known.name, &known.text)?;
        all.push(ankerdb_table::Check { is_validated: known.is_validated, ..check });
    }
    definition.checks = all;
    for known in derivations {
        let derivation = binder.derivation(&definition, &known.parts, known.predicate.as_ref())?;
        definition.indexes[known.index].derivation = Some(Arc::new(derivation));
    }
    definition.validate().map(|()| definition)
}

/// Says which table an error is about.
fn of_table(error: Error, table: &str) -> Error {
    let message = format!("table \"{table}\" cannot be made again: {}", error.message());
    let again = Error::new(error.state(), message);
    match error.detail() {
        Some(detail) => again.with_detail(detail),
        None => again,
    }
}

fn make(database: &Database, number: u32, origin: u32, definition: TableDefinition) -> Result<Table> {
    let shared = &database.shared;
    let id = shared.manager.table_with_number(number);
    let table = match shared.placement {
        None => Storage::create(id, definition),
        Some(placement) => Storage::create_in_regions(id, definition, placement)?,
    };
    Ok(Storage::with_origin(table, TableId::new(database.id(), origin)))
}

impl Catalog {
    /// That what entries name is there.
    fn check_recovered(&self) -> Result<()> {
        let of_data = |error: Error| damaged(error.message());
        self.check_schemas().map_err(of_data)?;
        self.check_types().map_err(of_data)?;
        self.check_domains().map_err(of_data)?;
        let origins: HashMap<TableId, &Arc<Table>> =
            self.tables.values().map(|table| (table.origin(), table)).collect();
        for table in self.tables.values() {
            let definition = table.definition();
            let parents = definition.foreign_keys.iter().map(|key| key.parent);
            let children = definition.referenced_by.iter().map(|side| side.child);
            if parents.chain(children).any(|other| !origins.contains_key(&other)) {
                return Err(damaged("the other table of a foreign key is missing"));
            }
        }
        Ok(())
    }
}

impl Database {
    /// Makes a recovered catalog that of a database which has nothing yet.
    ///
    /// # Errors
    /// Those of [`RecoveredCatalog::build`].
    pub fn restore_catalog(&self, recovered: RecoveredCatalog, binder: &dyn Binder) -> Result<()> {
        let catalog = recovered.build(self, binder)?;
        let _turn = self.shared.defining.lock();
        if self.catalog().version() != 0 {
            return Err(Error::internal("a catalog is restored before anything else is made"));
        }
        self.shared.publish(Arc::new(catalog));
        Ok(())
    }
}
