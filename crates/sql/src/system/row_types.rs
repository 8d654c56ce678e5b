//! Types of the rows of relations: their rows of `pg_type`, and their names, which are those of the relations.

use super::objects::OWNER_OID;
use super::{Datum, NULL, SchemaEntry, SystemCatalog, row};
use ankerdb_value::{relation_of_rows, row_array_oid, row_type_oid};

impl SystemCatalog {
    /// The relations of users that have rows of a type of their own.
    fn with_rows(&self) -> impl Iterator<Item = (&SchemaEntry, &str, u32)> {
        let tables = self.tables.iter().map(|table| (&table.schema, table.name.as_str(), table.oid));
        tables.chain(self.views.iter().map(|entry| (&entry.schema, entry.view.name.as_str(), entry.oid)))
    }

    /// The number of the type of rows that a relation's name stands for; `name[]` and `_name` are those of arrays.
    pub(super) fn row_type_by_name(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        let known = |name: &str| {
            let oid = self.relation_oid(schema, name)?;
            self.with_rows().any(|(_, _, known)| known == oid).then_some(oid)
        };
        if let Some(items) = name.strip_suffix("[]") {
            return known(items).map(row_array_oid);
        }
        known(name).map(row_type_oid).or_else(|| known(name.strip_prefix('_')?).map(row_array_oid))
    }

    /// A type of rows as SQL writes it.
    pub(super) fn shown_row_type(&self, oid: u32) -> Option<String> {
        let (relation, is_array) = relation_of_rows(oid)?;
        let (schema, name) = self.relation_name(relation)?;
        Some(format!("{}{}", self.shown_name(schema, name), if is_array { "[]" } else { "" }))
    }

    /// Whether the type is found without its schema; `None` if it is not that of rows.
    pub(super) fn is_visible_row_type(&self, oid: u32) -> Option<bool> {
        let (relation, _) = relation_of_rows(oid)?;
        let (_, name) = self.relation_name(relation)?;
        Some(self.relation_oid(None, name) == Some(relation))
    }
}

/// Rows of `pg_type`, each with that of its arrays.
pub(super) fn types(catalog: &SystemCatalog) -> impl Iterator<Item = Vec<Datum>> {
    catalog.with_rows().flat_map(|(schema, name, relation)| {
        let (oid, array) = (row_type_oid(relation), row_array_oid(relation));
        let list = format!("_{name}");
        let rows = (oid, name, ["c", "C"], relation, 0, array, [2290, 2291, 2402, 2403]);
        let arrays = (array, list.as_str(), ["b", "A"], 0, oid, 0, [750, 751, 2400, 2401]);
        [rows, arrays].map(|(oid, name, [kind, category], relation, element, list, functions)| {
            row![
                oid,
                name,
                schema.oid,
                OWNER_OID,
                -1,
                false,
                kind,
                category,
                false,
                true,
                ",",
                relation,
                0,
                element,
                list,
                functions[0],
                functions[1],
                functions[2],
                functions[3],
                0,
                0,
                0,
                "d",
                "x",
                false,
                0,
                -1,
                0,
                0,
                NULL,
                NULL,
                NULL,
            ]
        })
    })
}
