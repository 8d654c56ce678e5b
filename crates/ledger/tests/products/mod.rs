//! Private databases for tests. A product that is missing is skipped, visibly; with ANKERDB_STRICT=1 the test fails instead.

use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::server::{PrivateServer, Product};
use std::path::{Path, PathBuf};

/// The command that a test may start: what LEDGER_ANKERDB names, or a build beside this test's.
fn ankerdb() -> LedgerResult<Product> {
    let named = std::env::var_os("LEDGER_ANKERDB").map(PathBuf::from);
    let target = std::env::current_exe().ok();
    let built = target.as_deref().and_then(|test| test.ancestors().nth(3).map(Path::to_owned));
    let found = named.or_else(|| built.map(|target| target.join("release/ankerdb")).filter(|path| path.is_file()));
    Product::find_ankerdb(found.as_deref())
}

/// PostgreSQL, MariaDB and AnKerDB, as far as they are here.
pub(crate) fn servers() -> Vec<PrivateServer> {
    let mut found = Vec::new();
    for product in [Product::find_postgres(), Product::find_mariadb(), ankerdb()] {
        match product {
            Ok(product) => found.push(PrivateServer::start(&product).expect("a server that starts")),
            Err(missing) => {
                assert!(std::env::var_os("ANKERDB_STRICT").is_none_or(|strict| strict != "1"), "{missing}");
                eprintln!("SKIPPED: {missing}");
            }
        }
    }
    found
}
