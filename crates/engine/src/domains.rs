//! How domains take part in catalogs and transactions.

use crate::catalog::Catalog;
use crate::comment::Object;
use crate::definitions::Definitions;
use crate::domain::Domain;
use crate::schema::{NameRef, RelationName};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_table::ColumnDefinition;
use ankerdb_value::DomainType;
use std::collections::HashMap;
use std::sync::Arc;

impl Catalog {
    /// The domain with this name: the first one along the path.
    pub fn domain<'n>(&self, name: impl Into<NameRef<'n>>) -> Option<&Arc<Domain>> {
        if self.domains.is_empty() {
            return None;
        }
        self.along_path(name.into(), |schema, name| self.domains.get(&RelationName::new(schema, name)))
    }

    /// All domains, by schema and name.
    pub fn domains(&self) -> impl Iterator<Item = &Arc<Domain>> {
        self.domains.values()
    }

    /// The domain that columns know so. Costs a look at all domains.
    pub fn domain_of(&self, identity: DomainType) -> Option<&Arc<Domain>> {
        self.domains.values().find(|known| known.identity == identity)
    }

    /// That columns are tested by what their domains are: none was made while its domain changed or went.
    ///
    /// # Errors
    /// `SerializationFailure`.
    pub(crate) fn check_domains(&self) -> Result<()> {
        let known: HashMap<DomainType, u32> =
            self.domains.values().map(|domain| (domain.identity, domain.version)).collect();
        let is_lost = |column: &&ColumnDefinition| {
            column.domain.is_some_and(|domain| known.get(&domain.identity) != Some(&domain.version))
        };
        match self.tables.values().flat_map(|table| table.columns()).find(is_lost) {
            Some(column) => {
                let message = format!(
                    "could not serialize access due to a concurrent change of the domain of column \"{}\"",
                    column.name
                );
                Err(Error::new(SqlState::SerializationFailure, message))
            }
            None => Ok(()),
        }
    }

    /// That nobody else has made a domain of a name that this catalog has made one of since `base`.
    ///
    /// # Errors
    /// `DuplicateObject`.
    pub(crate) fn check_made_domains(&self, base: &Catalog, current: &Catalog) -> Result<()> {
        let mut made = self.domains.keys().filter(|name| !base.domains.contains_key(*name));
        let types = self.types.keys().filter(|name| !base.types.contains_key(*name));
        let taken =
            made.find(|name| current.domains.contains_key(*name) || current.types.contains_key(*name));
        let taken = taken.or_else(|| types.into_iter().find(|name| current.domains.contains_key(*name)));
        taken.map_or(Ok(()), |name| Err(type_exists(&name.name)))
    }

    /// Puts the versions of this catalog in place.
    pub(crate) fn show_domains(&self) {
        for domain in self.domains.values() {
            if domain.identity.version() != domain.version {
                domain.identity.set_version(domain.version);
            }
        }
    }
}

fn type_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateObject, format!("type \"{name}\" already exists"))
}

fn no_type(name: &str) -> Error {
    Error::new(SqlState::UndefinedObject, format!("type \"{name}\" does not exist"))
}

impl Definitions {
    /// Adds a domain.
    ///
    /// # Errors
    /// `DuplicateObject` if the name is taken.
    pub fn create_domain(&mut self, new: Domain) -> Result<()> {
        let name = new.full_name();
        let catalog = self.catalog_with(new.schema)?;
        if catalog.types.contains_key(&name) || catalog.domains.contains_key(&name) {
            return Err(type_exists(&name.name));
        }
        // Nobody else knows it.
        new.identity.set_version(new.version);
        self.change(|catalog| Arc::make_mut(&mut catalog.domains).insert(name, Arc::new(new)));
        Ok(())
    }

    /// Puts a domain in the place of another one, under the same name or another. It is the one that texts mean from the commit on.
    ///
    /// # Errors
    /// `DuplicateObject` if it has another name, which is taken.
    pub fn redefine_domain(&mut self, name: &RelationName, new: Domain) -> Result<()> {
        let full = new.full_name();
        let catalog = self.catalog_with(new.schema)?;
        if full != *name && (catalog.types.contains_key(&full) || catalog.domains.contains_key(&full)) {
            return Err(type_exists(&full.name));
        }
        self.change(|catalog| {
            let domains = Arc::make_mut(&mut catalog.domains);
            domains.remove(name);
            domains.insert(full.clone(), Arc::new(new));
            catalog.rename_commented(&Object::Type(name.clone()), &Object::Type(full));
        });
        Ok(())
    }

    /// Removes a domain that nothing depends on.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub fn drop_domain(&mut self, name: &RelationName) -> Result<()> {
        if !self.catalog()?.domains.contains_key(name) {
            return Err(no_type(&name.name));
        }
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.domains).remove(name);
            catalog.forget_comments(&Object::Type(name.clone()));
        });
        Ok(())
    }
}
