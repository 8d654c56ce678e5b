//! Types that users make: their rows of `pg_type`, `pg_enum`, and their names.

use super::objects::OWNER_OID;
use super::{Datum, NULL, Named, Rows, SchemaEntry, SystemCatalog, quoting, row};
use ankerdb_engine::{Catalog, DataType, EnumState, EnumType, ListType, SystemType};

/// A type of labels.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) schema: SchemaEntry,
    pub(super) name: String,
    pub(super) labels: EnumType,
    pub(super) state: &'static EnumState,
}

/// The functions of all types of labels, as PostgreSQL numbers them: those that read and write texts and binary values.
const FUNCTIONS: [u32; 4] = [3506, 3507, 3532, 3533];
/// Those of all arrays.
const ARRAY_FUNCTIONS: [u32; 4] = [750, 751, 2400, 2401];
/// Names of the functions that only types of users name.
pub(super) const FUNCTION_NAMES: [(u32, &str); 4] =
    [(3506, "enum_in"), (3507, "enum_out"), (3532, "enum_recv"), (3533, "enum_send")];

/// The types of a catalog, without those of schemas that the session does not see.
pub(super) fn describe(
    catalog: &Catalog,
    schema: impl Fn(ankerdb_engine::SchemaId) -> Option<SchemaEntry>,
) -> Vec<TypeEntry> {
    let entry = |known: &std::sync::Arc<ankerdb_engine::UserType>| {
        let (name, labels, state) = (known.name.clone(), known.labels, known.state);
        Some(TypeEntry { schema: schema(known.schema)?, name, labels, state })
    };
    catalog.user_types().filter_map(entry).collect()
}

/// What a type takes in PostgreSQL: `typlen`, `typbyval`, `typalign`, `typstorage`.
pub(super) fn storage(data_type: DataType) -> Option<(i32, bool, char, char)> {
    match data_type {
        DataType::Enum(_) => Some((4, true, 'i', 'p')),
        DataType::System(SystemType::List(ListType::Enum(_))) => Some((-1, false, 'i', 'x')),
        _ => None,
    }
}

impl SystemCatalog {
    /// The type of users with this number, and whether the number is that of arrays of it.
    fn user_type(&self, oid: u32) -> Option<(&TypeEntry, bool)> {
        self.types
            .iter()
            .find(|known| oid == known.labels.oid() || oid == known.labels.list_oid())
            .map(|known| (known, oid == known.labels.list_oid()))
    }

    fn type_in_schema(&self, schema: &str, name: &str) -> Option<&TypeEntry> {
        self.types.iter().find(|known| &*known.schema.name == schema && known.name == name)
    }

    /// The type of users that a name without a schema stands for, or one with it.
    fn type_by_name(&self, (schema, name): (Option<&str>, &str)) -> Option<&TypeEntry> {
        match schema {
            Some(schema) => self.type_in_schema(schema, name),
            None => self.path.searched.iter().find_map(|schema| self.type_in_schema(schema, name)),
        }
    }

    /// The number of the type of users that SQL calls so.
    pub(super) fn user_type_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        if let Some(items) = name.strip_suffix("[]").and_then(|items| self.type_by_name((schema, items))) {
            return Some(items.labels.list_oid());
        }
        if let Some(known) = self.type_by_name((schema, name)) {
            return Some(known.labels.oid());
        }
        let list = name.strip_prefix('_').and_then(|name| self.type_by_name((schema, name)));
        list.map(|known| known.labels.list_oid()).or_else(|| self.row_type_by_name(schema, name))
    }

    /// A type of users as SQL writes it.
    pub(super) fn shown_user_type(&self, oid: u32) -> Option<String> {
        let Some((known, is_list)) = self.user_type(oid) else { return self.shown_row_type(oid) };
        Some(format!("{}{}", self.shown_type(known), if is_list { "[]" } else { "" }))
    }

    /// Whether the type is found without its schema; `None` if it is none of users.
    pub(super) fn is_visible_type(&self, oid: u32) -> Option<bool> {
        match self.user_type(oid) {
            Some((known, _)) => Some(self.is_visible(known)),
            None => self.is_visible_row_type(oid),
        }
    }

    fn is_visible(&self, known: &TypeEntry) -> bool {
        self.type_by_name((None, &known.name)).is_some_and(|found| found.labels == known.labels)
    }

    fn shown_type(&self, known: &TypeEntry) -> String {
        let name = quoting::quote_ident(&known.name);
        match self.is_visible(known) {
            true => name,
            false => format!("{}.{name}", quoting::quote_ident(&known.schema.name)),
        }
    }

    /// A text that is kept, with the names of types.
    pub(super) fn shown_types(&self, text: &str) -> String {
        crate::user_types::shown(text, |labels| {
            let known = self.types.iter().find(|known| known.labels == labels);
            known.map_or_else(|| labels.name().to_owned(), |known| self.shown_type(known))
        })
    }

    /// Schema and name of the type of a column, as `information_schema` has them; `None` for types of the system.
    pub(super) fn udt(&self, data_type: DataType) -> Option<Named> {
        let labels = ankerdb_engine::labels_of(data_type)?;
        let known = self.types.iter().find(|known| known.labels == labels)?;
        let mark = if matches!(data_type, DataType::Enum(_)) { "" } else { "_" };
        Some((known.schema.name.clone(), format!("{mark}{}", known.name)))
    }
}

/// Their rows of `pg_type`, each with that of its arrays.
pub(super) fn types(catalog: &SystemCatalog) -> impl Iterator<Item = Vec<Datum>> {
    catalog.types.iter().flat_map(|known| {
        let labels = known.labels;
        let list = format!("_{}", known.name);
        [
            type_row(known, (labels.oid(), &known.name), DataType::Enum(labels)),
            type_row(
                known,
                (labels.list_oid(), &list),
                DataType::System(SystemType::List(ListType::Enum(labels))),
            ),
        ]
    })
}

fn type_row(known: &TypeEntry, (oid, name): (u32, &str), data_type: DataType) -> Vec<Datum> {
    let (length, by_value, align, store) = storage(data_type).unwrap_or((-1, false, 'i', 'x'));
    let is_list = !by_value;
    let functions = if is_list { ARRAY_FUNCTIONS } else { FUNCTIONS };
    let (element, list) = if is_list { (known.labels.oid(), 0) } else { (0, known.labels.list_oid()) };
    row![
        oid,
        name,
        known.schema.oid,
        OWNER_OID,
        length,
        by_value,
        if is_list { "b" } else { "e" },
        if is_list { "A" } else { "E" },
        false,
        true,
        ",",
        0,
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
        align.to_string(),
        store.to_string(),
        false,
        0,
        -1,
        0,
        0,
        NULL,
        NULL,
        NULL,
    ]
}

/// `pg_enum`: the labels, numbered from 1 in their order.
pub(super) fn labels(catalog: &SystemCatalog) -> Rows {
    let of_type = |known: &TypeEntry| {
        let oid = known.labels.oid();
        let labels = known.state.labels().iter().zip(1..);
        labels.map(|(label, at)| row![label.oid, oid, f64::from(at), label.text]).collect::<Vec<_>>()
    };
    catalog.types.iter().flat_map(of_type).collect()
}
