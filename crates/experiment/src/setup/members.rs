//! The databases below a ledger's three organizations that the experiments of chapter 4 compare.

use super::invalid;
use ankerdb_engine::{Error, Result};
use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::server::Product;

/// Which databases the organizations run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LedgerMembers {
    /// The dissertation's heterogeneous setup: PostgreSQL, MariaDB in MySQL's place, PostgreSQL.
    Paper,
    /// PostgreSQL three times.
    PostgreSql,
    /// MariaDB three times.
    MariaDb,
    /// AnKerDB three times.
    AnKerDb,
    /// One of each.
    Mixed,
}

/// What finds a product on this machine.
type Find = fn() -> LedgerResult<Product>;

const POSTGRESQL: Find = Product::find_postgres;
const MARIADB: Find = Product::find_mariadb;
// This command itself.
const ANKERDB: Find = || Product::find_ankerdb(None);

impl LedgerMembers {
    /// All, the dissertation's first.
    pub const ALL: [LedgerMembers; 5] = [
        LedgerMembers::Paper,
        LedgerMembers::PostgreSql,
        LedgerMembers::MariaDb,
        LedgerMembers::AnKerDb,
        LedgerMembers::Mixed,
    ];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            LedgerMembers::Paper => "paper",
            LedgerMembers::PostgreSql => "postgresql",
            LedgerMembers::MariaDb => "mariadb",
            LedgerMembers::AnKerDb => "ankerdb",
            LedgerMembers::Mixed => "mixed",
        }
    }

    /// The one with this name.
    ///
    /// # Errors
    /// 22023 with all names if there is none.
    pub fn parse(name: &str) -> Result<LedgerMembers> {
        let found = LedgerMembers::ALL.into_iter().find(|members| members.name() == name);
        found.ok_or_else(|| {
            let names = LedgerMembers::ALL.map(LedgerMembers::name).join(", ");
            invalid(format!("unknown members \"{name}\"; there are {names}"))
        })
    }

    fn finders(self) -> [Find; 3] {
        match self {
            LedgerMembers::Paper => [POSTGRESQL, MARIADB, POSTGRESQL],
            LedgerMembers::PostgreSql => [POSTGRESQL; 3],
            LedgerMembers::MariaDb => [MARIADB; 3],
            LedgerMembers::AnKerDb => [ANKERDB; 3],
            LedgerMembers::Mixed => [POSTGRESQL, MARIADB, ANKERDB],
        }
    }

    /// The products of the three organizations.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn products(self) -> Result<[Product; 3]> {
        let [first, second, third] = self.finders().map(|find| find().map_err(ledger_error));
        Ok([first?, second?, third?])
    }

    /// Whether this machine has what it needs.
    ///
    /// # Errors
    /// Those of [`LedgerMembers::products`].
    pub fn check(self) -> Result<()> {
        self.products().map(drop)
    }
}

/// Those asked for, in their order; all if none is.
pub(super) fn asked(asked: &[LedgerMembers]) -> Vec<LedgerMembers> {
    let is_wanted = |members: &LedgerMembers| asked.is_empty() || asked.contains(members);
    LedgerMembers::ALL.into_iter().filter(is_wanted).collect()
}

/// A ledger's error as one of ours.
pub(crate) fn ledger_error(error: ankerdb_ledger::error::LedgerError) -> Error {
    Error::internal(error.to_string())
}
