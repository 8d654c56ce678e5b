//! What every database has: schemas, the role, the database itself, access methods, settings.

use super::{
    INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, NULL, PG_CATALOG, PG_CATALOG_OID, PUBLIC_OID, Rows,
    SystemCatalog, row,
};
use crate::name::DATABASE;

/// The role that owns everything.
pub(super) const OWNER: &str = "ankerdb";
pub(super) const OWNER_OID: u32 = 10;
/// The numbers of the database and of the place where its tables are.
pub(super) const DATABASE_OID: u32 = 5;
const TABLESPACE_OID: u32 = 1663;
/// The number of UTF-8.
const UTF8: i32 = 6;

/// The schemas of the system and their numbers.
pub(super) const SYSTEM_SCHEMAS: [(u32, &str); 2] =
    [(PG_CATALOG_OID, PG_CATALOG), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)];

/// The number of a schema of the system.
pub(super) fn schema_oid(name: &str) -> Option<u32> {
    SYSTEM_SCHEMAS.iter().find(|(_, known)| *known == name).map(|(oid, _)| *oid)
}

pub(super) fn namespaces(catalog: &SystemCatalog) -> Rows {
    // What PostgreSQL's setup grants, so that programs that compare it find no difference.
    let usual = || vec![format!("{OWNER}=UC/{OWNER}"), format!("=U/{OWNER}")];
    let schema = |(oid, name)| row![oid, name, OWNER_OID, (oid == PUBLIC_OID).then(usual)];
    catalog.all_schemas().map(schema).collect()
}

pub(super) fn access_methods(_: &SystemCatalog) -> Rows {
    vec![row![2, "heap", 0, "t"], row![403, "btree", 0, "i"], row![405, "hash", 0, "i"]]
}

pub(super) fn databases(_: &SystemCatalog) -> Rows {
    vec![row![
        DATABASE_OID,
        DATABASE,
        OWNER_OID,
        UTF8,
        "c",
        false,
        true,
        -1,
        0,
        0,
        TABLESPACE_OID,
        "C",
        "C",
        NULL,
        NULL,
        NULL
    ]]
}

pub(super) fn tablespaces(_: &SystemCatalog) -> Rows {
    vec![row![TABLESPACE_OID, "pg_default", OWNER_OID, NULL, NULL]]
}

pub(super) fn roles(_: &SystemCatalog) -> Rows {
    vec![row![OWNER, true, true, true, true, true, false, -1, "********", NULL, false, NULL, OWNER_OID]]
}

pub(super) fn authids(_: &SystemCatalog) -> Rows {
    vec![row![OWNER_OID, OWNER, true, true, true, true, true, false, false, -1, NULL, NULL]]
}

pub(super) fn users(_: &SystemCatalog) -> Rows {
    vec![row![OWNER, OWNER_OID, true, true, false, false, "********", NULL, NULL]]
}

pub(super) fn languages(_: &SystemCatalog) -> Rows {
    vec![row![12, "internal", OWNER_OID, false, false, 0, 0, 0, NULL]]
}
