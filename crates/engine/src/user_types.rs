//! How types of users take part in catalogs and transactions.
//!
//! A type is a part of the catalog, and of transactions, as relations are. Its values have the type's identity ([`EnumType`]), which is
//! the same as long as the type lives; what the labels are called is a state of that, which a transaction that changes it puts in place when
//! it commits, or at once if nobody else knows the type. See docs/design/user-types.md.

use crate::catalog::Catalog;
use crate::comment::Object;
use crate::definitions::Definitions;
use crate::schema::{NameRef, RelationName};
use crate::user_type::{UserType, labels_of};
use ankerdb_base::{Error, Result, SchemaId, SqlState};
use ankerdb_table::{ColumnDefinition, TableDefinition};
use ankerdb_value::EnumType;
use std::collections::HashSet;
use std::sync::Arc;

impl Catalog {
    /// The type with this name: the first one along the path.
    pub fn user_type<'n>(&self, name: impl Into<NameRef<'n>>) -> Option<&Arc<UserType>> {
        if self.types.is_empty() {
            return None;
        }
        self.along_path(name.into(), |schema, name| self.types.get(&RelationName::new(schema, name)))
    }

    /// What is found by this name in the schema that it names, or in the first one along the path that has it.
    pub(crate) fn along_path<'c, T>(
        &'c self,
        name: NameRef<'_>,
        in_schema: impl Fn(SchemaId, &str) -> Option<&'c T>,
    ) -> Option<&'c T> {
        match name {
            NameRef::In(schema, name) => in_schema(schema, name),
            NameRef::Qualified(schema, name) => in_schema(self.schema(schema)?.id, name),
            NameRef::Unqualified(name) => {
                let mut schemas = self.path.searched.iter().filter_map(|schema| self.schemas.get(schema));
                schemas.find_map(|schema| in_schema(schema.id, name))
            }
        }
    }

    /// All types that users have made, by schema and name.
    pub fn user_types(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.types.values()
    }

    /// The type that values know by this identity. Costs a look at all types.
    pub fn type_of_labels(&self, labels: EnumType) -> Option<&Arc<UserType>> {
        self.types.values().find(|known| known.labels == labels)
    }

    /// That columns have types that there are.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub(crate) fn check_column_types(&self, columns: &[ColumnDefinition]) -> Result<()> {
        let mut used = columns.iter().filter_map(|column| labels_of(column.data_type));
        match used.find(|labels| self.type_of_labels(*labels).is_none()) {
            Some(lost) => Err(no_type(lost.name())),
            None => Ok(()),
        }
    }

    /// That no column was made of a type while that was dropped.
    ///
    /// # Errors
    /// `SerializationFailure`.
    pub(crate) fn check_types(&self) -> Result<()> {
        let known: HashSet<u32> = self.types.values().map(|known| known.labels.number()).collect();
        let is_lost = |column: &ColumnDefinition| {
            labels_of(column.data_type).is_some_and(|labels| !known.contains(&labels.number()))
        };
        let tables = self.tables.values().flat_map(|table| table.columns());
        let views = self.views.values().flat_map(|view| &view.columns);
        match tables.chain(views).find(|column| is_lost(column)) {
            Some(column) => Err(changed_by_others(&column.data_type.to_string())),
            None => Ok(()),
        }
    }

    /// That nobody else has made a type of a name that this catalog has made one of since `base`.
    ///
    /// # Errors
    /// `DuplicateObject`.
    pub(crate) fn check_made_types(&self, base: &Catalog, current: &Catalog) -> Result<()> {
        let is_made = |name: &&RelationName| !base.types.contains_key(*name);
        let mut made = self.types.keys().filter(is_made);
        match made.find(|name| current.types.contains_key(*name)) {
            Some(name) => Err(type_exists(&name.name)),
            None => Ok(()),
        }
    }

    /// Puts in place what the types of this catalog are called, and their labels.
    pub(crate) fn show_types(&self) {
        for known in self.types.values() {
            if !std::ptr::eq(known.labels.state(), known.state) {
                known.labels.set_state(known.state);
            }
        }
    }
}

fn no_type(name: &str) -> Error {
    Error::new(SqlState::UndefinedObject, format!("type \"{name}\" does not exist"))
}

fn type_exists(name: &str) -> Error {
    Error::new(SqlState::DuplicateObject, format!("type \"{name}\" already exists"))
}

fn changed_by_others(name: &str) -> Error {
    let message = format!("could not serialize access due to a concurrent change of type \"{name}\"");
    Error::new(SqlState::SerializationFailure, message)
}

impl Definitions {
    /// Adds a type.
    ///
    /// # Errors
    /// `DuplicateObject` if the name is taken.
    pub fn create_type(&mut self, new: UserType) -> Result<()> {
        let name = new.full_name();
        let catalog = self.catalog_with(new.schema)?;
        if catalog.types.contains_key(&name) || catalog.domains.contains_key(&name) {
            return Err(type_exists(&name.name));
        }
        self.change(|catalog| Arc::make_mut(&mut catalog.types).insert(name, Arc::new(new)));
        Ok(())
    }

    /// Puts a type in the place of another one, under the same name or another. Others see its name and labels from the commit on; so
    /// does this transaction, unless it has made the type and has no new label for it.
    ///
    /// # Errors
    /// `DuplicateObject` if it has another name, which is taken.
    pub fn redefine_type(&mut self, name: &RelationName, new: UserType) -> Result<()> {
        let full = new.full_name();
        let catalog = self.catalog_with(new.schema)?;
        if full != *name && (catalog.types.contains_key(&full) || catalog.domains.contains_key(&full)) {
            return Err(type_exists(&full.name));
        }
        let known = self.known_catalog().user_type(name).map(|known| known.state.labels().len());
        let has_new_label = known != Some(new.state.labels().len());
        if !has_new_label && self.is_private_type(new.labels) {
            new.labels.set_state(new.state);
        }
        self.change(|catalog| {
            let types = Arc::make_mut(&mut catalog.types);
            types.remove(name);
            types.insert(full.clone(), Arc::new(new));
            catalog.rename_commented(&Object::Type(name.clone()), &Object::Type(full));
        });
        Ok(())
    }

    /// Removes a type that nothing depends on.
    ///
    /// # Errors
    /// `UndefinedObject`.
    pub fn drop_type(&mut self, name: &RelationName) -> Result<()> {
        if !self.catalog()?.types.contains_key(name) {
            return Err(no_type(&name.name));
        }
        self.change(|catalog| {
            Arc::make_mut(&mut catalog.types).remove(name);
            catalog.forget_comments(&Object::Type(name.clone()));
        });
        Ok(())
    }

    /// Whether nobody else knows the type.
    pub fn is_private_type(&self, labels: EnumType) -> bool {
        self.base_catalog().type_of_labels(labels).is_none()
    }

    /// After a rollback: types that nobody else knows are what they were.
    pub(crate) fn show_private_types(&self) {
        let own = self.known_catalog();
        for known in own.user_types().filter(|known| self.is_private_type(known.labels)) {
            known.labels.set_state(known.state);
        }
    }

    /// That a table has columns of types that there are.
    ///
    /// # Errors
    /// `UndefinedObject`, and those of the catalog.
    pub(crate) fn check_types_of(&mut self, definition: &TableDefinition) -> Result<()> {
        self.catalog()?.check_column_types(&definition.columns)
    }
}
