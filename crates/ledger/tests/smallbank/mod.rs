//! Smallbank over private databases of all three products, for tests of organizations that are threads of one process.

// Each test program uses some of it.
#![allow(dead_code)]

use crate::products::{TestFolder, products};
use ankerdb_ledger::demo::{DemoNetwork, DemoSettings};
use ankerdb_ledger::recovery::RecoveryClass;
use ankerdb_ledger::verify::verify_file;

/// What a test may want otherwise.
pub(crate) struct Smallbank {
    pub(crate) users: u64,
    pub(crate) quorum: usize,
    pub(crate) recovery: RecoveryClass,
    /// After how many blocks there is a checkpoint; 0 makes none.
    pub(crate) checkpoint_blocks: u64,
}

/// Of 50 users, any two of whose organizations are a quorum, and that come back from a state.
pub(crate) const SMALLBANK: Smallbank =
    Smallbank { users: 50, quorum: 2, recovery: RecoveryClass::FromState, checkpoint_blocks: 0 };

impl Smallbank {
    /// Starts the databases and loads the bank. Nothing if a product is missing.
    pub(crate) fn start(self, folder: &TestFolder) -> Option<DemoNetwork> {
        let products = products();
        if products.len() < 3 {
            return None;
        }
        let Smallbank { users, quorum, recovery, checkpoint_blocks } = self;
        let settings = DemoSettings {
            folder: folder.path.clone(),
            ankerdb: None,
            quorum,
            users,
            block_size: 0,
            blocks: 0,
            zipf: 0.0,
            corrupt: String::new(),
            recovery,
            checkpoint_blocks,
            connections: 3,
        };
        let mut demo = DemoNetwork::start(&products, &settings).expect("a network");
        for report in demo.load().expect("a load") {
            assert_eq!((report.consenting.len(), report.succeeded), (3, report.transactions), "{report:?}");
        }
        Some(demo)
    }
}

/// All members have one head, their files say so, and their tables are what it certifies.
pub(crate) fn assert_equal_members(demo: &mut DemoNetwork) {
    let head = demo.network.organizations[0].chain().head;
    for organization in &mut demo.network.organizations {
        assert_eq!(organization.chain().head, head, "{}", organization.name());
        assert_eq!(organization.audit().expect("tables"), Vec::<String>::new(), "{}", organization.name());
        let (found, end) = verify_file(organization.path()).expect("a file that verifies");
        assert_eq!((found.chain().expect("a chain").head, end.torn_bytes), (head, 0));
    }
}
