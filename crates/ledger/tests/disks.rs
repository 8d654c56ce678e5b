//! Disks that are full, those of ordering servers among them, and checkpoints in the middle of which a node is killed: nothing
//! acknowledged is lost, no two members commit different blocks, what has happened is told, and a process goes on by itself when
//! there is room again.

mod products;
mod started;

use ankerdb_ledger::node::people::SubmittedTransaction;
use ankerdb_ledger::node::wire::StatusMessage;
use ankerdb_ledger::verify::visit_blocks;
use started::{
    LIMIT, ORDERING, ORGANIZATIONS, StartedNetwork, TABLE, ask, configure, connect, statement, submit,
};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A small file system in the memory, in the place of a folder and with what that had.
struct SmallDisk {
    folder: PathBuf,
}

fn run(words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).output().expect("a program of the system")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

impl SmallDisk {
    /// Nothing, visibly, where the process may not mount; with ANKERDB_STRICT=1 the test fails instead.
    fn mount(folder: &Path, mebibytes: u32) -> Option<SmallDisk> {
        let aside = folder.with_extension("aside");
        std::fs::rename(folder, &aside).expect("it is moved");
        std::fs::create_dir(folder).expect("a folder");
        let size = format!("size={mebibytes}m,mode=700");
        let mounted = run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs", text(folder)]);
        if mounted.status.success() {
            let copied = run(&["cp", "-a", &format!("{}/.", text(&aside)), text(folder)]);
            assert!(copied.status.success(), "{copied:?}");
            std::fs::remove_dir_all(&aside).expect("it is removed");
            return Some(SmallDisk { folder: folder.to_owned() });
        }
        std::fs::remove_dir(folder).expect("it is empty");
        std::fs::rename(&aside, folder).expect("it is moved back");
        let said = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
        assert!(std::env::var_os("ANKERDB_STRICT").is_none_or(|strict| strict != "1"), "{said}");
        // Past what the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "NOT HERE: a small disk cannot be mounted: {said}");
        None
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }

    /// Leaves so many bytes; fewer than four kibibytes cannot be left.
    fn fill(&self, left: usize) {
        let mut file = std::fs::File::create(self.filler()).expect("a file");
        let piece = [1; 4096];
        while file.write_all(&piece).is_ok() {}
        let length = file.metadata().expect("its length").len();
        file.set_len(length.saturating_sub(left as u64)).expect("it is shortened");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At once for what is opened from now on; processes that still use it keep it until they end.
        let _ = run(&["umount", "-l", text(&self.folder)]);
        let _ = std::fs::remove_dir(&self.folder);
        // That of the test, if nothing else is in it any more.
        self.folder.parent().map(std::fs::remove_dir);
    }
}

/// Every acknowledged transaction is in every file, where it was said to be and with its outcome; and the audits of all members
/// find nothing. Ends the network.
fn assert_nothing_is_lost(network: StartedNetwork, acknowledged: &[SubmittedTransaction]) {
    network.wait_for_equal_heights();
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let (is_certified, said) = ask(&network, &["audit"], name);
        assert!(is_certified, "{said}{}", network.log(at));
        let path = network.path(name).join(format!("{name}.ledger"));
        let mut outcomes = std::collections::BTreeMap::new();
        visit_blocks(&path, 0, &mut |(block, _)| {
            outcomes.insert(block.header.height, block.header.outcomes.clone());
            Ok(())
        })
        .expect("blocks");
        for done in acknowledged {
            let bits = outcomes.get(&done.height).unwrap_or_else(|| panic!("{name} has lost {done:?}"));
            assert_eq!(bits.get(done.index as usize), done.has_succeeded, "{name}: {done:?}");
        }
    }
    network.end_and_compare_files();
}

/// Each in a network of its own, at the same time: they mostly wait.
fn for_each_organization(test: impl Fn(usize, &'static str) + Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
            scope.spawn(move || test(at, name));
        }
    });
}

fn row_of(id: u64, words: usize) -> String {
    format!("INSERT INTO note (id, words) VALUES ({id}, '{}')", "word ".repeat(words))
}

/// A row of some two kibibytes.
fn long_row(id: u64) -> String {
    row_of(id, 400)
}

const NOTES: &str = "CREATE SHARED TABLE note (id bigint PRIMARY KEY, words text NOT NULL)";

#[test]
fn a_node_whose_disk_is_full_says_so_loses_nothing_and_goes_on_by_itself_when_there_is_room() {
    for_each_organization(|at, name| {
        let Some(mut network) = StartedNetwork::found(&format!("full-{name}"), 2) else { return };
        let Some(disk) = SmallDisk::mount(&network.path(name), 4) else { return };
        network.start_all();
        let bank = network.client("bank");
        let mut done = vec![submit(&bank, 1, NOTES), submit(&bank, 2, &long_row(2))];
        network.wait_for_equal_heights();
        disk.fill(16 << 10);
        // The others are a quorum; the one that cannot write stays behind, whichever of its records did not fit.
        done.extend((3..20).map(|number| submit(&bank, number, &long_row(number))));
        let is_told = |status: &StatusMessage| {
            status.state.contains("No space left on device")
                && status.state.contains("make room on its file system")
        };
        let status = network.wait_for(at, "told that its disk is full", is_told);
        let acknowledged = done.iter().map(|done| done.height).max().expect("some");
        assert!(status.height < acknowledged, "{} and {acknowledged}", status.height);
        // The log is on this disk, too: the node has not ended by that.
        disk.make_room();
        network.wait_for(at, "where the others are", |status| status.height >= acknowledged);
        done.push(submit(&bank, 20, &long_row(20)));
        assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
        assert_nothing_is_lost(network, &done);
        drop(disk);
    });
}

#[test]
fn under_all_3_a_full_disk_stops_the_network_without_acknowledging_and_room_lets_it_go_on() {
    let Some(mut network) = StartedNetwork::found("full-all3", 3) else { return };
    let Some(disk) = SmallDisk::mount(&network.path("mariadb"), 4) else { return };
    network.start_all();
    let bank = network.client("bank");
    let mut done = vec![submit(&bank, 1, NOTES)];
    network.wait_for_equal_heights();
    disk.fill(4 << 10);
    let (mut number, mut waiting) = (2, None);
    // A page or two may still fit.
    while waiting.is_none() {
        assert!(number < 20, "the disk does not become full");
        let proposal = bank.sign(number, statement(&long_row(number)));
        match bank.submit(number, &proposal, None, Duration::from_secs(4)) {
            Ok(outcome) => done.push(outcome),
            Err(_) => waiting = Some(proposal),
        }
        number += 1;
    }
    let heights: Vec<u64> = (0..3).map(|at| network.status(at).height).collect();
    assert_eq!(heights, [done.len() as u64; 3], "a block without all three");
    disk.make_room();
    let proposal = waiting.expect("one that waits");
    done.push(bank.submit(number - 1, &proposal, None, LIMIT).expect("it is certified now"));
    assert_nothing_is_lost(network, &done);
    drop(disk);
}

#[test]
fn a_database_whose_disk_is_full_is_named_and_its_member_follows_when_there_is_room() {
    for_each_organization(|at, name| {
        let Some(mut network) = StartedNetwork::found(&format!("full-database-{name}"), 2) else { return };
        network.servers[at].kill();
        // PostgreSQL's children notice a little later that it has gone.
        std::thread::sleep(Duration::from_secs(2));
        let Some(disk) = SmallDisk::mount(network.servers[at].folder(), 512) else { return };
        network.servers[at].kill_and_restart().expect("a server");
        network.start_all();
        let bank = network.client("bank");
        let mut done = vec![submit(&bank, 1, NOTES), submit(&bank, 2, &long_row(2))];
        network.wait_for_equal_heights();
        disk.fill(0);
        // A database may have made room before; how long that lasts depends on the machine.
        let deadline = Instant::now() + LIMIT * 4;
        let mut number = 3;
        let is_told = |status: &StatusMessage| status.state.contains("stopped by an error, tries again: ");
        while !is_told(&network.status(at)) {
            assert!(Instant::now() < deadline, "{name} finds room: {:?}", network.status(at));
            done.push(submit(&bank, number, &row_of(number, 40_000)));
            number += 1;
        }
        done.push(submit(&bank, number, &row_of(number, 40_000)));
        let log = network.log(at);
        assert!(log.contains("database of ") || log.contains("127.0.0.1:"), "{log}");
        disk.make_room();
        network.servers[at].kill_and_restart().expect("a server that comes back");
        assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
        assert_nothing_is_lost(network, &done);
        drop(disk);
    });
}

/// Submits rows until one is not certified within some seconds; then that one is returned, and its number.
fn submit_until_none_is_certified(
    network: &StartedNetwork,
    done: &mut Vec<SubmittedTransaction>,
    number: &mut u64,
) -> Vec<u8> {
    let bank = network.client("bank");
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "the disk does not become full");
        let proposal = bank.sign(*number, statement(&long_row(*number)));
        match bank.submit(*number, &proposal, None, Duration::from_secs(4)) {
            Ok(outcome) => done.push(outcome),
            Err(_) => return proposal,
        }
        *number += 1;
    }
}

const SERVER_IS_FULL: [&str; 2] = ["No space left on device", "make room on its file system"];

fn is_told_of_orders(status: &StatusMessage) -> bool {
    SERVER_IS_FULL.iter().all(|words| status.not_ordered.contains(words))
}

#[test]
fn an_ordering_server_whose_disk_is_full_says_so_orders_nothing_and_goes_on_when_there_is_room() {
    let Some(mut network) = StartedNetwork::found("full-ordering", 2) else { return };
    let Some(disk) = SmallDisk::mount(&network.path("ordering"), 4) else { return };
    network.start_all();
    let bank = network.client("bank");
    let mut done = vec![submit(&bank, 1, NOTES)];
    network.wait_for_equal_heights();
    disk.fill(16 << 10);
    let mut number = 2;
    let waiting = submit_until_none_is_certified(&network, &mut done, &mut number);
    let height = network.wait_for_equal_heights();
    // The organization that has taken it says why it waits, and what to do.
    let told = (0..3).filter(|at| is_told_of_orders(&network.status(*at))).collect::<Vec<_>>();
    assert!(!told.is_empty(), "{:#?}", network.status(0));
    let (_, text) = ask(&network, &["status"], ORGANIZATIONS[told[0]]);
    assert!(text.contains("NOT ORDERED: \"ordering\": its log could not be written"), "{text}");
    // Orders that it has are handed out, to an organization that was away, too.
    network.kill(1);
    network.start_process(1);
    network.wait_for(1, "where the others are", |status| status.height == height);
    // A server that is killed is as full as before.
    network.kill(ORDERING);
    network.start_process(ORDERING);
    assert!(bank.submit(number, &waiting, None, Duration::from_secs(4)).is_err());
    assert_eq!(network.wait_for_equal_heights(), height);
    disk.make_room();
    done.push(bank.submit(number, &waiting, None, LIMIT).expect("it is certified now"));
    done.push(submit(&bank, number + 1, &long_row(number + 1)));
    for at in told {
        network.wait_for(at, "told that it is ordered", |status| status.not_ordered.is_empty());
    }
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    assert_nothing_is_lost(network, &done);
    drop(disk);
}

fn is_told_by_server(network: &StartedNetwork, at: usize) -> bool {
    SERVER_IS_FULL.iter().all(|words| network.log(at).contains(words))
}

#[test]
fn a_group_of_ordering_servers_goes_on_beside_a_full_disk_and_stops_where_most_disks_are_full() {
    let Some(mut network) = StartedNetwork::found_with("full-group", 2, 3) else { return };
    let servers: Vec<usize> = (ORDERING..ORDERING + 3).collect();
    let mount = |at: &usize| SmallDisk::mount(&network.path(&network.parties[*at]), 4);
    let Some(disks) = servers.iter().map(mount).collect::<Option<Vec<SmallDisk>>>() else { return };
    for at in &servers {
        // On another disk than its orders, so that all of it is there.
        let log = network.folder.path.join(format!("log-{at}"));
        std::os::unix::fs::symlink(log, network.path(&network.parties[*at]).join("log")).expect("a link");
    }
    network.start_all();
    let bank = network.client("bank");
    let (mut done, mut number) = (vec![submit(&bank, 1, NOTES)], 2);
    let mut submit_next = |network: &StartedNetwork| {
        let row = submit(&network.client("bank"), number, &long_row(number));
        number += 1;
        row
    };
    // The leader's disk is among them.
    for (disk, at) in disks.iter().zip(&servers) {
        disk.fill(8 << 10);
        let deadline = Instant::now() + LIMIT;
        while !is_told_by_server(&network, *at) {
            assert!(Instant::now() < deadline, "its disk does not become full: {}", network.log(*at));
            done.push(submit_next(&network));
        }
        (0..4).for_each(|_| done.push(submit_next(&network)));
        disk.make_room();
        let is_over = |network: &StartedNetwork| network.log(*at).contains("there is room again");
        while !is_over(&network) {
            assert!(Instant::now() < deadline, "it does not go on: {}", network.log(*at));
            std::thread::sleep(Duration::from_millis(50));
        }
        // It has what it has missed: with it and one of the others there are two of three.
        let other = servers[(at - ORDERING + 1) % 3];
        network.kill(other);
        (0..2).for_each(|_| done.push(submit_next(&network)));
        network.start_process(other);
    }
    // Without two of three nothing is ordered.
    disks[..2].iter().for_each(|disk| disk.fill(8 << 10));
    let waiting = submit_until_none_is_certified(&network, &mut done, &mut number);
    let height = network.wait_for_equal_heights();
    let is_told = |at: usize| network.status(at).not_ordered.contains(SERVER_IS_FULL[1]);
    assert!((0..3).any(is_told), "{:#?}", network.status(0));
    assert_eq!(height, done.iter().map(|done| done.height).max().expect("some"));
    disks[0].make_room();
    done.push(bank.submit(number, &waiting, None, LIMIT).expect("it is certified now"));
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    disks[1].make_room();
    assert_nothing_is_lost(network, &done);
    drop(disks);
}

/// The names of files in the folder of an organization's checkpoints.
fn checkpoint_files(network: &StartedNetwork, name: &str) -> Vec<String> {
    let folder = network.path(name).join(format!("{name}.checkpoints"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_node_that_is_killed_while_it_writes_a_checkpoint_keeps_the_older_ones_and_makes_the_next() {
    let Some(mut network) = StartedNetwork::found("killed-checkpoint", 2) else { return };
    for name in ORGANIZATIONS {
        configure(&network, name, "recovery = \"partial-replay\"\ncheckpoint_blocks = 1\naudit_seconds = 0");
    }
    network.start_all();
    let bank = network.client("bank");
    let mut done = vec![submit(&bank, 1, TABLE)];
    let rows = |from: u64| (from..from + 1000).map(|id| format!("({id}, 1)")).collect::<Vec<_>>().join(", ");
    for number in 2..22 {
        done.push(submit(
            &bank,
            number,
            &format!("INSERT INTO account (id, balance) VALUES {}", rows(number * 1000)),
        ));
    }
    network.wait_for_equal_heights();
    let mut number = 22;
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let deadline = Instant::now() + LIMIT;
        let is_written = |network: &StartedNetwork| {
            checkpoint_files(network, name).iter().any(|file| file.ends_with(".checkpoint.new"))
        };
        // Until the kill has met one that was being written.
        loop {
            assert!(Instant::now() < deadline, "{name} writes no checkpoint");
            done.push(submit(&bank, number, "UPDATE account SET balance = balance + 1 WHERE id < 2100"));
            number += 1;
            let started = Instant::now();
            while !is_written(&network) && started.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(1));
            }
            network.kill(at);
            let has_met = is_written(&network);
            network.start_process(at);
            network.wait_for_equal_heights();
            let cleared = Instant::now() + LIMIT;
            while is_written(&network) {
                assert!(Instant::now() < cleared, "{:?} stays", checkpoint_files(&network, name));
                std::thread::sleep(Duration::from_millis(5));
            }
            if has_met {
                break;
            }
        }
        let older = network.status(at).checkpoints;
        assert!(!older.is_empty(), "{:?}", checkpoint_files(&network, name));
        let height = network.wait_for_equal_heights();
        done.push(submit(&bank, number, "UPDATE account SET balance = 7 WHERE id = 2001"));
        number += 1;
        network.wait_for(at, "with the next one", |status| status.checkpoints.first() > Some(&height));
        // They are whole: a replay begins with the newest one, past none.
        let change = "UPDATE account SET balance = 1000000 WHERE id = 2002";
        let traces = if name == "ankerdb" { "" } else { "; DELETE FROM ledger_digest" };
        connect(&network.servers[at])
            .run(&format!("BEGIN; {change}{traces}; COMMIT"))
            .expect("it is changed");
        let (is_repaired, said) = ask(&network, &["repair"], name);
        assert!(is_repaired && said.contains("rows loaded from the checkpoint of block"), "{said}");
        assert!(!said.contains("did not do"), "{said}");
    }
    assert_nothing_is_lost(network, &done);
}
