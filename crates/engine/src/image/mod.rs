//! Images: entries of the catalog as bytes, and catalogs again (docs/design/catalog-image.md).
//!
//! ```text
//! two catalogs ──CatalogChange::between──► what differs ──encode──► bytes, in the record of the commit
//!
//! bytes of each commit, in their order ──RecoveredCatalog::apply──► entries ──build──► a catalog, its tables empty
//! ```
//! `bytes` has numbers, texts and fields, `types` types and values, `definition` tables, `entry` everything else. What computes something
//! is bound again by a [`Binder`]: nothing here knows SQL.

mod binder;
mod build;
mod bytes;
mod change;
#[cfg(test)]
mod damage_tests;
mod definition;
mod entry;
mod key;
mod recovered;
#[cfg(test)]
mod tests;
mod types;

pub use binder::{Binder, NoTexts};
pub use change::{CatalogChange, ChangedIndexes};
pub use recovered::RecoveredCatalog;
pub use types::StoredTypes;
