//! How long a member takes to come back by each recovery class, and what checkpoints and audits in the background cost:
//! Smallbank over all three products.
//!
//! `cargo run --release -p ankerdb-ledger --example recoveries -- [USERS] [BEFORE] [AFTER] [TRANSACTIONS] [CLASS,CLASS...]`, with the command
//! `ankerdb` in the search path or named by `LEDGER_ANKERDB`. BEFORE blocks of TRANSACTIONS are between the load and the only
//! checkpoint, AFTER behind it. All classes that recover are measured where none are named. Signatures are verified and votes counted as ever.

use ankerdb_ledger::audit::{AuditReport, AuditSettings};
use ankerdb_ledger::checkpoint::{CheckpointSettings, checkpoint_folder};
use ankerdb_ledger::demo::{DemoNetwork, DemoSettings, find_products};
use ankerdb_ledger::error::{LedgerError, LedgerResult};
use ankerdb_ledger::recovery::RecoveryClass;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The block that loads the bank is the third one.
const LOADED: u64 = 3;

fn number(at: usize, default: u64) -> u64 {
    std::env::args().nth(at).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn is_measured(class: RecoveryClass) -> bool {
    let named = std::env::args().nth(5);
    let is_named = named.is_none_or(|words| words.split(',').any(|word| word == class.to_string()));
    is_named && class != RecoveryClass::None
}

fn main() -> LedgerResult<()> {
    let (users, before, after, size) =
        (number(1, 10_000), number(2, 29), number(3, 2), number(4, 4_096) as usize);
    let ankerdb = std::env::var_os("LEDGER_ANKERDB").map(PathBuf::from);
    let products = find_products(ankerdb.as_deref())?;
    let folder = std::env::temp_dir().join(format!("ledger-recoveries-{}", std::process::id()));
    let settings = DemoSettings {
        folder: folder.clone(),
        ankerdb: None,
        quorum: 2,
        users,
        block_size: size,
        blocks: 0,
        zipf: 0.0,
        corrupt: String::new(),
        recovery: RecoveryClass::FromState,
        checkpoint_blocks: LOADED + before,
        connections: 4,
    };
    let mut demo = DemoNetwork::start(&products, &settings)?;
    let measured = measure(&mut demo, before, after, size);
    drop(demo);
    std::fs::remove_dir_all(&folder).map_err(|error| LedgerError::Missing(error.to_string()))?;
    measured
}

fn run_blocks(demo: &mut DemoNetwork, blocks: u64, size: usize) -> LedgerResult<()> {
    for _ in 0..blocks {
        let batch = demo.client.batch(size);
        demo.network.commit_block(batch)?;
    }
    Ok(())
}

/// Corrupts a row, and measures until an audit in the background has found it.
fn measure_audit(demo: &mut DemoNetwork, at: usize) -> LedgerResult<()> {
    demo.tamper(at, "UPDATE savings SET balance = balance + 1 WHERE customer = 7", false)?;
    let (name, open_snapshot) = (demo.servers[at].name(), demo.servers[at].snapshot_opener());
    let organization = &mut demo.network.organizations[at];
    organization.keep_audits(AuditSettings { pause: Some(Duration::ZERO), open_snapshot });
    let started = Instant::now();
    let mut ended = organization.audit_in_background(false);
    let begun = started.elapsed();
    while ended.is_none() {
        std::thread::sleep(Duration::from_millis(1));
        ended = organization.audit_in_background(false);
    }
    let Some(found) = ended else { return Ok(()) };
    let AuditReport { rows, took, differing, .. } = found?;
    println!(
        "{name} audit: begun in {begun:?}, {rows} rows read in {:.2} s, found {differing:?}",
        took.as_secs_f64()
    );
    organization
        .keep_audits(AuditSettings { pause: None, open_snapshot: demo.servers[at].snapshot_opener() });
    Ok(())
}

fn measure(demo: &mut DemoNetwork, before: u64, after: u64, size: usize) -> LedgerResult<()> {
    demo.load()?;
    run_blocks(demo, before, size)?;
    for (organization, server) in demo.network.organizations.iter_mut().zip(&demo.servers) {
        let started = Instant::now();
        let Some(checkpoints) = organization.checkpoints() else { continue };
        checkpoints.wait();
        let Some(made) = checkpoints.ended() else { continue };
        let made = made?;
        println!(
            "{}: {} rows, {} bytes, waited {:?}",
            server.name(),
            made.size.rows,
            made.size.bytes,
            started.elapsed()
        );
        let open = server.snapshot_opener();
        let started = Instant::now();
        drop(open()?);
        println!("  blocks wait for {:?} while a snapshot is begun", started.elapsed());
        // No other one from now on.
        let folder = checkpoint_folder(organization.path());
        let settings = CheckpointSettings { folder, blocks: 0, open_snapshot: open };
        organization.keep_checkpoints(settings)?;
    }
    run_blocks(demo, after, size)?;
    for at in 0..3 {
        measure_audit(demo, at)?;
        for class in RecoveryClass::ALL.into_iter().filter(|class| is_measured(*class)) {
            demo.tamper(at, "UPDATE savings SET balance = balance + 1 WHERE customer = 7", false)?;
            demo.network.recovery = class;
            let started = Instant::now();
            let Some(report) = demo.network.recover(at, &[(at + 1) % 3]) else { continue };
            let (took, report) = (started.elapsed(), report?);
            let name = demo.servers[at].name();
            println!("{name} {class}: {:.2} s; {report:?}", took.as_secs_f64());
        }
    }
    Ok(())
}
