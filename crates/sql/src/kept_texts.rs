//! What binds the texts of a catalog that is put together again from its images: with the functions by which statements have bound them.
//!
//! Texts name types by their numbers and relations with their schemas. Their constants are read by the settings that a session begins with.

use crate::domains::{self, Version};
use crate::expression::zone;
use crate::plan::check::{check, parsed_check};
use crate::plan::{derivation, generation};
use ankerdb_engine::{
    Binder, Check, ColumnText, Derivation, Domain, Error, Generation, Result, TableDefinition,
};
use ankerdb_value::{Clocks, Zone};

/// Binds texts in SQL.
pub struct KeptTexts(());

impl Default for KeptTexts {
    fn default() -> KeptTexts {
        KeptTexts::new()
    }
}

impl KeptTexts {
    /// What binds texts.
    pub fn new() -> KeptTexts {
        Zone::name_by(zone::in_text);
        KeptTexts(())
    }
}

impl Binder for KeptTexts {
    fn domain(&self, domain: &Domain, below: Option<&Domain>) -> Result<u32> {
        let missing = || Error::internal("the domain below has no version");
        let below = below.map(|below| domains::by_number(below.version).ok_or_else(missing)).transpose()?;
        Clocks::default().within(|| domains::make(domain, below)).map(|version| version.number)
    }

    fn check(&self, table: &TableDefinition, name: &str, text: &str) -> Result<Check> {
        let bound = Clocks::default().within(|| check(table, Some(name.to_owned()), &parsed_check(text)?))?;
        Ok(Check { text: text.to_owned(), ..bound })
    }

    fn domain_checks(&self, table: &TableDefinition) -> Result<Vec<Check>> {
        let columns = table.columns.iter().filter_map(|column| Some((column, column.domain?)));
        let checks = columns.filter_map(|(column, domain)| {
            let version: &Version = domains::by_number(domain.version)?;
            let (name, condition) = version.check(&column.name)?;
            Some(check(table, Some(name), &condition))
        });
        checks.collect()
    }

    fn generation(&self, table: &TableDefinition, column: usize, text: &str) -> Result<Generation> {
        Clocks::default().within(|| generation::kept(table, column, text))
    }

    fn derivation(
        &self,
        table: &TableDefinition,
        parts: &[ColumnText],
        predicate: Option<&ColumnText>,
    ) -> Result<Derivation> {
        Clocks::default().within(|| derivation::kept(table, parts, predicate))
    }
}
