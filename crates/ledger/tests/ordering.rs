//! Ordering services that lie or are silent, and the next one that takes over: with real processes, and clients that go on.

mod products;
mod started;

use ankerdb_ledger::block::SuccessBits;
use ankerdb_ledger::hash::LedgerHash;
use ankerdb_ledger::message::{OrderedBlock, Vote};
use ankerdb_ledger::node::config::NodeFolder;
use ankerdb_ledger::node::directory::Directory;
use ankerdb_ledger::node::people::SubmittedTransaction;
use ankerdb_ledger::node::serve::{CallHandler, IncomingCall, OutgoingAnswer, serve};
use ankerdb_ledger::node::wire::{
    AppendAnswer, AppendMessage, BLOCK_MESSAGE_BYTES_MAX, BlocksMessage, BlocksRequest, Nothing,
    ORDERING as ORDERING_SERVICE, ORGANIZATION, OrderMessage, OrderRequest, ProposalsMessage, StatusMessage,
    VotesMessage,
};
use ankerdb_ledger::signature::KeyPair;
use ankerdb_ledger::succession::{Dismissal, DismissalReason, Succession, TwoOrders};
use started::liar::Liar;
use started::load::{add_until, assert_nothing_is_lost};
use started::{
    LIMIT, ORDERING, ORGANIZATIONS, StartedNetwork, TABLE, ask, command, configure, connect, said, statement,
    submit,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The place of the second ordering service among the processes.
const SUCCESSOR: usize = ORDERING + 1;

/// An ordering server with the first service's key that, from an order on, hands PostgreSQL's organization another one than the
/// others: with its first transaction once more at the end.
struct Equivocator {
    network: LedgerHash,
    keys: KeyPair,
    waiting: Mutex<Vec<Vec<u8>>>,
    orders: Mutex<Vec<Vec<Vec<u8>>>>,
}

/// The first order that is not alike for all; the table and its rows are there before.
const LIES_FROM: u64 = 4;

impl Equivocator {
    fn chain(&self, proposal: Vec<u8>) {
        let (mut waiting, orders) =
            (self.waiting.lock().expect("no panic"), self.orders.lock().expect("no panic"));
        if !waiting.contains(&proposal) && !orders.iter().flatten().any(|known| *known == proposal) {
            waiting.push(proposal);
        }
    }

    fn order(&self, caller: &str, number: u64) -> Vec<u8> {
        let (mut waiting, mut orders) =
            (self.waiting.lock().expect("no panic"), self.orders.lock().expect("no panic"));
        if orders.len() as u64 + 1 == number && !waiting.is_empty() {
            orders.push(std::mem::take(&mut waiting));
        }
        let Some(mut proposals) = orders.get(number as usize - 1).cloned() else { return Vec::new() };
        if number >= LIES_FROM && caller == "postgresql" {
            proposals.push(proposals[0].clone());
        }
        OrderedBlock { network: self.network, height: number, proposals }.sign(&self.keys)
    }
}

impl CallHandler for Equivocator {
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>> {
        Box::pin(async move {
            let caller = call.caller.name.clone();
            if method.ends_with("/Chain") {
                let take = |message: ProposalsMessage| async move {
                    message.proposals.into_iter().for_each(|proposal| self.chain(proposal));
                    Ok(Nothing {})
                };
                return call.with(BLOCK_MESSAGE_BYTES_MAX, take).await;
            }
            let find = |request: OrderRequest| async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Ok(OrderMessage { order: self.order(&caller, request.height) })
            };
            call.with(BLOCK_MESSAGE_BYTES_MAX, find).await
        })
    }
}

/// Serves what a party should from a thread of the test.
fn serve_as<H: CallHandler>(network: &StartedNetwork, party: &str, make: impl FnOnce(&Liar) -> H) -> Liar {
    let liar = Liar::new(network, party);
    let handler = Arc::new(make(&liar));
    let folder = NodeFolder::open(&network.path(party)).expect("a folder");
    let address = folder.config.listen.clone().expect("an address");
    let listener = liar.runtime.block_on(tokio::net::TcpListener::bind(address)).expect("a port");
    let directory = Arc::new(Directory::open(&folder).expect("parties"));
    liar.runtime.spawn(serve(listener, directory, handler, std::future::pending()));
    liar
}

fn has_second_service(status: &StatusMessage) -> bool {
    status.ordering[0].starts_with("service 2 of 2 (successor-1")
        && status.ordering[0].contains("), since block")
}

/// All acknowledged transactions have added one to an account, and nothing else has.
fn assert_done_once(network: &StartedNetwork, accounts: [usize; 2]) {
    for (server, name) in network.servers.iter().zip(ORGANIZATIONS) {
        let rows = connect(server).run("SELECT balance FROM account ORDER BY id").expect("rows");
        let number = |row: &Vec<Option<Vec<u8>>>| {
            String::from_utf8(row[0].clone().expect("a number")).expect("digits")
        };
        let balances: Vec<String> = rows[0].iter().map(number).collect();
        assert_eq!(balances, accounts.map(|count| count.to_string()), "{name}");
    }
}

/// Ends all processes, and compares files, tables and what clients were told. One succession is in each file.
fn end_and_check(mut network: StartedNetwork, done: &[SubmittedTransaction]) {
    network.wait_for_equal_heights();
    for at in (0..network.parties.len()).filter(|at| network.processes[*at].is_some()).collect::<Vec<_>>() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    network.compare_files();
    assert_nothing_is_lost(&network, done);
    for (at, name) in ORGANIZATIONS.into_iter().enumerate() {
        let found = network.verified(at);
        let chain = found.chain().expect("a chain");
        assert_eq!(chain.successions.len(), 1, "{name}");
        assert!(chain.height > chain.successions[0].0, "{name}: nothing was ordered since");
        let file = network.path(name).join(format!("{name}.ledger"));
        let output = command(&["verify", file.to_str().expect("UTF-8")]);
        assert!(said(&output).contains("ordering service 2 takes over; "), "{}", said(&output));
    }
}

fn two_accounts(network: &StartedNetwork) {
    let bank = network.client("bank");
    submit(&bank, 1, TABLE);
    submit(&bank, 2, "INSERT INTO account (id, balance) VALUES (0, 0), (1, 0)");
    submit(&bank, 3, "UPDATE account SET balance = 0 WHERE id = 0");
    network.wait_for_equal_heights();
}

fn replace_equivocator(name: &str, quorum: usize, successors: usize) {
    let Some(mut network) = StartedNetwork::found_with_successor(name, quorum, successors) else { return };
    let _liar = serve_as(&network, "ordering", |liar| Equivocator {
        network: liar.directory.network,
        keys: KeyPair::from_seed(&liar.keys.seed()),
        waiting: Mutex::default(),
        orders: Mutex::default(),
    });
    for at in (0..network.parties.len()).filter(|at| *at != ORDERING) {
        network.start_process(at);
    }
    two_accounts(&network);
    let (bank, shop, stop) = (network.client("bank"), network.client("shop"), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        let clients = [(&bank, 0), (&shop, 1)].map(|(client, account)| {
            let stop = &stop;
            scope.spawn(move || add_until(client, account, stop))
        });
        for at in 0..ORDERING {
            let status = network.wait_for(at, "with the second service", has_second_service);
            let line = "the ordering server has signed two orders for block";
            assert!(status.evidence.iter().any(|evidence| evidence.contains(line)), "{status:#?}");
            let said = "dismissed ordering service 1: it has signed two orders of number";
            assert!(status.ordering[0].contains(said), "{status:#?}");
        }
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        clients.map(|client| client.join().expect("a client that is answered"))
    });
    assert!(done.iter().flatten().all(|done| done.has_succeeded), "{done:?}");
    network.wait_for_equal_heights();
    assert_done_once(&network, [done[0].len(), done[1].len()]);
    end_and_check(network, &done.concat());
}

#[test]
fn a_service_that_hands_out_two_orders_is_replaced_and_the_load_goes_on_and_is_done_once() {
    replace_equivocator("ordering-lies", 2, 1);
}

#[test]
fn under_all_3_a_service_that_hands_out_two_orders_is_replaced_by_a_group() {
    replace_equivocator("ordering-lies-all3", 3, 3);
}

#[test]
fn a_service_that_is_killed_for_good_is_replaced_and_a_member_that_slept_meanwhile_follows() {
    let Some(mut network) = StartedNetwork::found_with_successor("ordering-silent", 2, 1) else { return };
    ORGANIZATIONS.iter().for_each(|name| configure(&network, name, "ordering_seconds = 3"));
    network.start_all();
    two_accounts(&network);
    let client = network.client("bank");
    let add = |number: u64, at: Option<&str>| {
        let sql = "UPDATE account SET balance = balance + 1 WHERE id = 0";
        client.submit(number, &client.sign(number, statement(sql)), at, LIMIT).expect("it is certified")
    };
    let mut done = vec![add(4, None)];
    // One sleeps; what is handed to one of the others alone is what both wait for.
    network.kill(0);
    network.kill(ORDERING);
    done.push(add(5, Some("ankerdb")));
    done.push(add(6, Some("mariadb")));
    for at in [1, 2] {
        let status = network.wait_for(at, "with the second service", has_second_service);
        let reason =
            "mariadb, ankerdb have dismissed ordering service 1: it has handed out no order for block 5";
        assert!(status.ordering[0].contains(reason), "{status:#?}");
    }
    network.start_process(0);
    network.wait_for_equal_heights();
    network.wait_for(0, "with the second service", has_second_service);
    // The first one comes back, and has no turn any more. All others find their places when they start.
    network.start_process(ORDERING);
    done.push(add(7, Some("postgresql")));
    for at in 0..ORDERING {
        network.kill(at);
        network.start_process(at);
    }
    network.kill(SUCCESSOR);
    network.start_process(SUCCESSOR);
    done.push(add(8, None));
    network.wait_for_equal_heights();
    assert_done_once(&network, [done.len(), 0]);
    // Blocks are executed again over the one by which the second service took over.
    for (name, method) in [("mariadb", "full-replay"), ("ankerdb", "optimized-full-replay")] {
        let (is_done, shown) = ask(&network, &["repair", "--method", method], name);
        assert!(is_done, "{name}: {shown}");
    }
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    end_and_check(network, &done);
}

#[test]
fn two_orders_that_one_member_has_kept_make_all_leave_the_service_also_where_no_transactions_come() {
    let Some(mut network) = StartedNetwork::found_with_successor("ordering-kept", 2, 1) else { return };
    let server = Liar::new(&network, "ordering");
    let order = |entry: u8| {
        let proposals = vec![vec![entry]];
        OrderedBlock { network: server.directory.network, height: 1, proposals }.sign(&server.keys)
    };
    let folder = network.path("ankerdb").join("evidence");
    std::fs::create_dir(&folder).expect("a folder");
    let kept = TwoOrders { one: order(1), other: order(2) };
    std::fs::write(folder.join("orders-1-kept"), kept.encode()).expect("a file");
    network.start_all();
    for at in 0..ORDERING {
        network.wait_for(at, "with the second service", has_second_service);
    }
    two_accounts(&network);
    end_and_check(network, &[]);
}

/// An organization that wants the next ordering service to take over, alone and with no reason.
struct LyingMember {
    network: LedgerHash,
    keys: KeyPair,
    last: ankerdb_ledger::block::BlockHeader,
    order: Vec<u8>,
}

impl LyingMember {
    fn dismissal(&self, reason: DismissalReason, member: u32) -> Vec<u8> {
        let (network, first) = (self.network, self.last.height + 1);
        Dismissal { network, member, service: 0, first, reason }.sign(&self.keys)
    }

    /// By its own dismissal alone.
    fn succession(&self) -> Succession {
        let (network, height) = (self.network, self.last.height + 1);
        let dismissals = vec![self.dismissal(DismissalReason::Silence, 0)];
        Succession { network, height, service: 1, dismissals, proof: None }
    }

    fn votes(&self) -> VotesMessage {
        let mut header = self.last.clone();
        (header.height, header.previous) = (self.last.height + 1, self.last.hash());
        (header.order, header.outcomes) = (self.succession().hash(), SuccessBits::new(&[]));
        let own = Vote { member: 0, round: 1, header }.sign(&self.keys);
        // The last two are in others' names.
        let (lied, silent) = (DismissalReason::TwoOrders, DismissalReason::Silence);
        let dismissals = [(lied, 0), (silent, 0), (lied, 1), (silent, 2)];
        let dismissals = dismissals.map(|(reason, member)| self.dismissal(reason, member)).into();
        let waiting = self.order.clone();
        VotesMessage {
            height: self.last.height,
            own,
            dismissals,
            two_orders_of: 1,
            waiting,
            ..VotesMessage::default()
        }
    }
}

impl CallHandler for LyingMember {
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>> {
        Box::pin(async move {
            match method.strip_prefix(ORGANIZATION).unwrap_or_default() {
                "/Votes" => {
                    call.with(BLOCK_MESSAGE_BYTES_MAX, |_: VotesMessage| async move { Ok(self.votes()) })
                        .await
                }
                "/Order" => {
                    let order = self.succession().sign(&self.keys);
                    let answer = |_: OrderRequest| async move { Ok(OrderMessage { order }) };
                    call.with(BLOCK_MESSAGE_BYTES_MAX, answer).await
                }
                _ => {
                    let (one, other) = (self.order.clone(), self.order.clone());
                    let order = TwoOrders { one, other }.encode();
                    let answer = |_: OrderRequest| async move { Ok(OrderMessage { order }) };
                    call.with(BLOCK_MESSAGE_BYTES_MAX, answer).await
                }
            }
        })
    }
}

#[test]
fn one_liar_alone_makes_no_service_take_over_and_stops_nothing() {
    let Some(mut network) = StartedNetwork::found_with_successor("ordering-liar", 2, 1) else { return };
    ORGANIZATIONS.iter().for_each(|name| configure(&network, name, "ordering_seconds = 1"));
    network.start_all();
    two_accounts(&network);
    network.kill(0);
    let _liar = serve_as(&network, "postgresql", |liar| {
        let request = BlocksRequest { above: 2, to: u64::MAX };
        let blocks: BlocksMessage = liar.call("mariadb", ORGANIZATION, "Blocks", request).expect("blocks");
        let (block, _) = blocks.blocks[0].clone().certified().expect("a block");
        let (keys, network) = (KeyPair::from_seed(&liar.keys.seed()), liar.directory.network);
        LyingMember { network, keys, last: block.header, order: block.order }
    });
    for at in [1, 2] {
        let status = network.wait_for(at, "aware of the lies", |status| {
            let refused = status.refused.join("\n");
            ["in the name of", "are no proof", "by 1 members, and 2 have to"]
                .iter()
                .all(|part| refused.contains(part))
        });
        assert!(status.ordering[0] == "service 1 of 2 (ordering)", "{status:#?}");
        assert!(status.ordering[1].starts_with("\"postgresql\" takes none of its orders"), "{status:#?}");
    }
    // Nor has a server of the first service a part in the group of the second one.
    let server = Liar::new(&network, "ordering");
    let answer =
        server.call::<_, AppendAnswer>("successor-1", ORDERING_SERVICE, "Append", AppendMessage::default());
    let said = answer.expect_err("it is refused").to_string();
    assert!(said.contains("is a server of another ordering service"), "{said}");
    let bank = network.client("bank");
    let mut done = Vec::new();
    // For longer than any of the others would wait for an order.
    for number in 4..10 {
        done.push(submit(&bank, number, "UPDATE account SET balance = balance + 1 WHERE id = 0"));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    for at in [1, 2] {
        let status = network.status(at);
        assert_eq!(status.ordering[0], "service 1 of 2 (ordering)", "{status:#?}");
        assert!(network.verified(at).chain().expect("a chain").successions.is_empty());
    }
}
