//! Private databases for tests. A product that is missing is skipped, visibly; with ANKERDB_STRICT=1 the test fails instead.

// Each test program uses some of it.
#![allow(dead_code)]

use ankerdb_ledger::error::LedgerResult;
use ankerdb_ledger::server::{PrivateServer, Product};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The command that a test may start: what LEDGER_ANKERDB names, or a build beside this test's.
fn ankerdb() -> LedgerResult<Product> {
    let named = std::env::var_os("LEDGER_ANKERDB").map(PathBuf::from);
    let target = std::env::current_exe().ok();
    let built = target.as_deref().and_then(|test| test.ancestors().nth(3).map(Path::to_owned));
    let found =
        named.or_else(|| built.map(|target| target.join("release/ankerdb")).filter(|path| path.is_file()));
    Product::find_ankerdb(found.as_deref())
}

/// PostgreSQL, MariaDB and AnKerDB, as far as they are here.
pub(crate) fn products() -> Vec<Product> {
    let mut found = Vec::new();
    for product in [Product::find_postgres(), Product::find_mariadb(), ankerdb()] {
        match product {
            Ok(product) => found.push(product),
            Err(missing) => {
                assert!(std::env::var_os("ANKERDB_STRICT").is_none_or(|strict| strict != "1"), "{missing}");
                // Past what the test harness keeps to itself.
                let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
            }
        }
    }
    found
}

/// The command of AnKerDB, if all products are here.
pub(crate) fn ankerdb_command() -> Option<PathBuf> {
    let found = products();
    let is_all = found.len() == 3;
    found.into_iter().find_map(|product| match product {
        Product::AnkerDb(path) if is_all => Some(path),
        _ => None,
    })
}

/// A server of each.
pub(crate) fn servers() -> Vec<PrivateServer> {
    products().iter().map(|product| PrivateServer::start(product).expect("a server that starts")).collect()
}

/// A folder that goes with the test.
pub(crate) struct TestFolder {
    pub(crate) path: PathBuf,
}

impl TestFolder {
    /// One of its own, also where another has the name: tests of a program run at the same time.
    pub(crate) fn new(name: &str) -> TestFolder {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("ledger-test-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&path).expect("a folder");
        TestFolder { path }
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
