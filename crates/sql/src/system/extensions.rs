//! Extensions whose functions AnKerDB has. They are there always: CREATE EXTENSION of one of them has nothing to do.

use super::objects::OWNER_OID;
use super::{NULL, PG_CATALOG_OID, PUBLIC_OID, Rows, SystemCatalog, row};

/// An extension. Numbers of objects are those of what comes with a database, which dumps leave out.
struct Extension {
    oid: u32,
    name: &'static str,
    schema: u32,
    version: &'static str,
    comment: &'static str,
}

const EXTENSIONS: &[Extension] = &[
    Extension {
        oid: 13_559,
        name: "plpgsql",
        schema: PG_CATALOG_OID,
        version: "1.0",
        comment: "PL/pgSQL procedural language",
    },
    Extension {
        oid: 13_560,
        name: "pgcrypto",
        schema: PUBLIC_OID,
        version: "1.3",
        comment: "cryptographic functions",
    },
    Extension {
        oid: 13_561,
        name: "uuid-ossp",
        schema: PUBLIC_OID,
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
    },
];

/// Whether there is such an extension.
pub(crate) fn is_known(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| extension.name == name)
}

/// `pg_extension`
pub(super) fn installed(_: &SystemCatalog) -> Rows {
    let row = |known: &Extension| {
        row![known.oid, known.name, OWNER_OID, known.schema, true, known.version, NULL, NULL]
    };
    EXTENSIONS.iter().map(row).collect()
}

/// `pg_available_extensions`
pub(super) fn available(_: &SystemCatalog) -> Rows {
    EXTENSIONS.iter().map(|known| row![known.name, known.version, known.version, known.comment]).collect()
}
