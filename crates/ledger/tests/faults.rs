//! Processes that are killed, and parties that lie: nothing acknowledged is lost, no two members commit different blocks, and
//! what must not be is refused with a reason. LEDGER_ROUNDS says how often processes are killed.

mod products;
mod started;

use ankerdb_ledger::error::LedgerError;
use ankerdb_ledger::message::{OrderedBlock, Vote};
use ankerdb_ledger::node::config::{NodeConfig, NodeFolder, PartyRole};
use ankerdb_ledger::node::directory::Directory;
use ankerdb_ledger::node::people::{LedgerClient, SubmittedTransaction};
use ankerdb_ledger::node::serve::{CallHandler, IncomingCall, OutgoingAnswer, serve};
use ankerdb_ledger::node::wire::{
    BLOCK_MESSAGE_BYTES_MAX, BlocksMessage, BlocksRequest, Nothing, ORDERING as ORDERING_SERVICE,
    ORGANIZATION, OrderMessage, OrderRequest, OutcomeMessage, ProposalMessage, ProposalsMessage,
    StatusMessage, VotesMessage,
};
use ankerdb_ledger::signature::KeyPair;
use started::liar::Liar;
use started::load::{add_until, assert_nothing_is_lost};
use started::{LIMIT, ORDERING, ORGANIZATIONS, StartedNetwork, TABLE, statement, submit};
use std::future::Future;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn rounds() -> usize {
    std::env::var("LEDGER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6)
}

#[test]
fn nothing_acknowledged_is_lost_whichever_processes_are_killed_and_started_again() {
    let Some(network) = StartedNetwork::found("faults-killed", 2) else { return };
    kill_in_rounds(network, rounds());
}

#[test]
fn three_ordering_servers_go_on_while_two_of_them_do_and_nothing_acknowledged_is_lost() {
    let Some(mut network) = StartedNetwork::found_with("faults-group", 2, 3) else { return };
    network.start_all();
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    for (number, at) in (2..).zip(ORDERING..ORDERING + 3) {
        network.kill(at);
        let done =
            submit(&client, number, &format!("INSERT INTO account (id, balance) VALUES ({number}, 0)"));
        assert!(done.has_succeeded);
        network.start_process(at);
    }
    for at in 0..network.parties.len() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    drop(network);
    let Some(network) = StartedNetwork::found_with("faults-group-killed", 2, 3) else { return };
    kill_in_rounds(network, rounds());
}

#[test]
fn under_all_3_every_member_that_is_killed_finds_its_vote_again_and_nothing_acknowledged_is_lost() {
    let Some(network) = StartedNetwork::found("faults-all3", 3) else { return };
    kill_in_rounds(network, rounds());
}

#[test]
fn a_network_of_which_all_processes_are_killed_at_once_goes_on_where_it_was() {
    let Some(mut network) = StartedNetwork::start("faults-all", 2) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    let mut done = vec![submit(&client, 2, "INSERT INTO account (id, balance) VALUES (1, 0)")];
    for number in 3..6 {
        // One is on its way, or certified by some.
        let proposal =
            client.sign(number, statement("UPDATE account SET balance = balance + 1 WHERE id = 1"));
        let _ = client.submit(number, &proposal, None, Duration::from_millis(10 * number));
        for at in 0..network.parties.len() {
            network.kill(at);
        }
        network.start_all();
        done.push(client.submit(number, &proposal, None, LIMIT).expect("it is certified"));
    }
    assert!(done.iter().all(|done| done.has_succeeded), "{done:?}");
    network.wait_for_equal_heights();
    for at in 0..network.parties.len() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    network.compare_files();
    assert_nothing_is_lost(&network, &done);
}

/// A way between two processes that can be cut.
struct CuttableWay {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

/// Copies one direction until it ends or the way is cut.
fn copy_until_cut(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
    let mut buffer = [0; 64 << 10];
    while !is_cut.load(Ordering::Relaxed) {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) if to.write_all(&buffer[..bytes]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl CuttableWay {
    /// Its threads end with the test's process.
    fn to(address: String) -> CuttableWay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = is_cut.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let connected = (!cut.load(Ordering::Relaxed)).then(|| TcpStream::connect(&address));
                let Some(Ok(target)) = connected else { continue };
                let (Ok(back), Ok(forth)) = (target.try_clone(), stream.try_clone()) else { continue };
                let (one, other) = (cut.clone(), cut.clone());
                std::thread::spawn(move || copy_until_cut(forth, target, &one));
                std::thread::spawn(move || copy_until_cut(back, stream, &other));
            }
        });
        CuttableWay { port, is_cut }
    }
}

#[test]
fn a_member_that_is_cut_off_from_the_others_commits_nothing_and_follows_when_it_hears_of_them_again() {
    let Some(mut network) = StartedNetwork::found("faults-cut", 2) else { return };
    // Whatever goes from or to postgresql's node goes over ways of ours, but for what it asks the ordering server.
    let mut ways = Vec::new();
    for own in ORGANIZATIONS {
        let path = network.path(own).join("ledger.toml");
        let text = std::fs::read_to_string(&path).expect("a configuration");
        let mut config: NodeConfig = toml::from_str(&text).expect("a configuration");
        for party in &mut config.party {
            let is_between = party.role == PartyRole::Organization
                && party.name != own
                && (own == "postgresql" || party.name == "postgresql");
            if is_between {
                let way = CuttableWay::to(party.address.clone().expect("an address"));
                party.address = Some(format!("127.0.0.1:{}", way.port));
                ways.push(way);
            }
        }
        std::fs::write(&path, toml::to_string(&config).expect("a text")).expect("a file");
    }
    assert_eq!(ways.len(), 4);
    network.start_all();
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    network.wait_for_equal_heights();
    ways.iter().for_each(|way| way.is_cut.store(true, Ordering::Relaxed));
    network.wait_for(0, "cut off", |status| {
        status.members.iter().filter(|member| !member.is_reached).count() == 2
    });
    let number_of = |number: u64| {
        let proposal = client
            .sign(number, statement(&format!("INSERT INTO account (id, balance) VALUES ({number}, 0)")));
        client.submit(number, &proposal, Some("ankerdb"), LIMIT).expect("the others are a quorum")
    };
    let mut done: Vec<SubmittedTransaction> = (2..6).map(number_of).collect();
    std::thread::sleep(Duration::from_secs(1));
    let status = network.status(0);
    assert_eq!(status.height, 1, "{status:#?}");
    assert!(status.members.iter().filter(|member| !member.is_reached).count() == 2, "{status:#?}");
    ways.iter().for_each(|way| way.is_cut.store(false, Ordering::Relaxed));
    network.wait_for_equal_heights();
    done.push(number_of(6));
    network.wait_for_equal_heights();
    for at in 0..network.parties.len() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    network.compare_files();
    assert_nothing_is_lost(&network, &done);
}

fn kill_in_rounds(mut network: StartedNetwork, rounds: usize) {
    network.start_all();
    let (bank, shop) = (network.client("bank"), network.client("shop"));
    submit(&bank, 1, TABLE);
    submit(&bank, 2, "INSERT INTO account (id, balance) VALUES (0, 0), (1, 0)");
    let stop = AtomicBool::new(false);
    let mut random = fastrand::Rng::with_seed(rounds as u64);
    let acknowledged = std::thread::scope(|scope| {
        let clients = [(&bank, 0), (&shop, 1)].map(|(client, account)| {
            let stop = &stop;
            scope.spawn(move || add_until(client, account, stop))
        });
        for round in 0..rounds {
            std::thread::sleep(Duration::from_millis(random.u64(0..600)));
            // Every role is killed, and sometimes two at once.
            let victim = round % network.parties.len();
            let other = random.usize(0..network.parties.len());
            network.kill(victim);
            let has_other = other != victim && random.bool();
            if has_other {
                network.kill(other);
            }
            std::thread::sleep(Duration::from_millis(random.u64(0..600)));
            network.start_process(victim);
            if has_other {
                network.start_process(other);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        clients.map(|client| client.join().expect("a client that is answered")).concat()
    });
    assert!(acknowledged.len() > rounds, "{} transactions", acknowledged.len());
    assert!(acknowledged.iter().all(|done| done.has_succeeded), "{acknowledged:?}");
    network.wait_for_equal_heights();
    for at in (0..network.parties.len()).rev() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    network.compare_files();
    assert_nothing_is_lost(&network, &acknowledged);
}

#[test]
fn a_database_that_is_killed_comes_back_and_its_node_follows() {
    let Some(mut network) = StartedNetwork::start("faults-database", 2) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    submit(&client, 2, "INSERT INTO account (id, balance) VALUES (0, 0)");
    network.wait_for_equal_heights();
    let mut done = Vec::new();
    for at in 0..ORDERING {
        network.servers[at].kill();
        let number = 3 + 2 * at as u64;
        for number in [number, number + 1] {
            done.push(submit(&client, number, "UPDATE account SET balance = balance + 1 WHERE id = 0"));
        }
        network.servers[at].kill_and_restart().expect("a server");
        network.wait_for_equal_heights();
    }
    for at in 0..network.parties.len() {
        assert_eq!(network.terminate(at), Some(0), "{}", network.log(at));
    }
    network.compare_files();
    assert_nothing_is_lost(&network, &done);
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, LedgerError>) -> String {
    answer.expect_err("it is refused").to_string()
}

#[test]
fn forged_borrowed_replayed_and_huge_messages_are_refused_with_a_reason() {
    let Some(mut network) = StartedNetwork::start("faults-forged", 2) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    let insert = "INSERT INTO account (id, balance) VALUES (1, 100)";
    let first = submit(&client, 2, insert);
    network.wait_for_equal_heights();
    network.kill(0);
    let (liar, ankerdb) = (Liar::new(&network, "postgresql"), Liar::new(&network, "ankerdb"));
    let blocks: BlocksMessage = liar
        .call("mariadb", ORGANIZATION, "Blocks", BlocksRequest { above: 0, to: u64::MAX })
        .expect("blocks");
    let last = blocks.blocks.last().expect("two blocks").clone().certified().expect("a block");
    let mut header = last.0.header.clone();
    (header.height, header.previous) = (header.height + 1, header.hash());
    let vote =
        |member: u32, round: u32, keys: &KeyPair| Vote { member, round, header: header.clone() }.sign(keys);

    // A wrong signature; another's vote behind the own certificate; an own vote with another's key.
    let mut damaged = vote(0, 1, &liar.keys);
    *damaged.last_mut().expect("a signature") ^= 1;
    assert!(refusal(liar.votes(damaged, Vec::new())).contains("the signature of a vote"));
    let borrowed = refusal(liar.votes(vote(2, 1, &ankerdb.keys), Vec::new()));
    assert!(
        borrowed.contains("the certificate is that of \"postgresql\" and the vote that of \"ankerdb\""),
        "{borrowed}"
    );
    assert!(refusal(liar.votes(vote(2, 1, &liar.keys), Vec::new())).contains("in the name of \"ankerdb\""));
    let refused = network.status(1).refused.join("\n");
    assert!(refused.contains("from \"postgresql\": the signature of a vote"), "{refused}");

    // Old votes and orders again change nothing.
    for old in &last.1 {
        let _ = liar.votes(Vec::new(), vec![old.clone()]);
    }
    let again: OutcomeMessage = {
        let bank = Liar::new(&network, "bank");
        let proposal = client.sign(2, statement(insert));
        let message = ProposalMessage { proposal, wait_ms: 5_000, seen_height: 0 };
        bank.call("mariadb", ORGANIZATION, "Submit", message).expect("its first outcome")
    };
    assert_eq!((again.height, again.index, again.has_succeeded), (first.height, first.index, true));
    // A number that was used for something else.
    let other = client.sign(2, statement("UPDATE account SET balance = 0 WHERE id = 1"));
    assert!(client.submit(2, &other, None, LIMIT).expect_err("used").to_string().contains("is a repetition"));

    // Another client's transaction; a client or an organization in a role that it has not.
    let shop = Liar::new(&network, "shop");
    let submit_as = |liar: &Liar, proposal: Vec<u8>| {
        let message = ProposalMessage { proposal, wait_ms: 100, seen_height: 0 };
        liar.call::<_, OutcomeMessage>("mariadb", ORGANIZATION, "Submit", message)
    };
    let borrowed = refusal(submit_as(&shop, client.sign(9, statement(insert))));
    assert!(
        borrowed.contains("the certificate is that of \"shop\" and the transaction that of \"bank\""),
        "{borrowed}"
    );
    assert!(refusal(submit_as(&liar, client.sign(9, statement(insert)))).contains("may not call this"));
    let answer = shop.call::<_, VotesMessage>("mariadb", ORGANIZATION, "Votes", VotesMessage::default());
    assert!(refusal(answer).contains("\"shop\" may not call this"));
    let answer = liar.call::<_, Nothing>("mariadb", ORGANIZATION, "Repair", Nothing {});
    assert!(refusal(answer).contains("only the organization itself"));

    // Huge ones.
    let huge = refusal(submit_as(&shop, vec![0; 5 << 20]));
    assert!(huge.contains("too large"), "{huge}");
    let huge = refusal(liar.votes(vec![0; BLOCK_MESSAGE_BYTES_MAX + 1], Vec::new()));
    assert!(huge.contains("too large"), "{huge}");
    let message = ProposalMessage { proposal: vec![0; 5 << 20], wait_ms: 0, seen_height: 0 };
    let huge = refusal(liar.call::<_, Nothing>("ordering", ORDERING_SERVICE, "Chain", message));
    assert!(huge.contains("too large"), "{huge}");

    // The network has gone on meanwhile, and does.
    assert!(submit(&client, 3, "UPDATE account SET balance = balance + 1 WHERE id = 1").has_succeeded);
    network.start_process(0);
    network.wait_for_equal_heights();
    network.end_and_compare_files();
}

#[test]
fn a_stranger_with_a_certificate_of_its_own_gets_no_connection() {
    let Some(network) = StartedNetwork::start("faults-stranger", 2) else { return };
    let other = StartedNetwork::found("faults-stranger-other", 2).expect("the products are here");
    // The stranger knows everything that is public, and has the certificate of a network that it has founded itself.
    let mut folder = NodeFolder::open(&network.path("mariadb")).expect("a folder");
    let own = other.path("mariadb");
    folder.config.certificate_key = own.join("certificate.key");
    for party in folder.config.party.iter_mut().filter(|party| party.name == "mariadb") {
        party.certificate = own.join("certificates/mariadb.pem");
    }
    let stranger = Liar::of(&folder);
    let answer = stranger.call::<_, StatusMessage>("postgresql", ORGANIZATION, "Status", Nothing {});
    let said = refusal(answer);
    assert!(said.starts_with("\"postgresql\": "), "{said}");
    assert_eq!(network.status(0).height, 0);
    network.end_and_compare_files();
}

#[test]
fn a_member_that_votes_twice_is_not_counted_and_both_votes_are_kept() {
    let Some(mut network) = StartedNetwork::start("faults-twice", 2) else { return };
    let client = network.client("bank");
    submit(&client, 1, TABLE);
    network.wait_for_equal_heights();
    network.kill(0);
    let liar = Liar::new(&network, "postgresql");
    let blocks: BlocksMessage = liar
        .call("mariadb", ORGANIZATION, "Blocks", BlocksRequest { above: 0, to: u64::MAX })
        .expect("blocks");
    let (block, _) = blocks.blocks[0].clone().certified().expect("a block");
    for state in [1, 2] {
        let mut header = block.header.clone();
        (header.height, header.previous) = (2, block.header.hash());
        header.state.0[0] = state;
        let vote = Vote { member: 0, round: 1, header }.sign(&liar.keys);
        for party in ["mariadb", "ankerdb"] {
            let message = VotesMessage { height: 1, own: vote.clone(), ..VotesMessage::default() };
            liar.call::<_, VotesMessage>(party, ORGANIZATION, "Votes", message).expect("an answer");
        }
    }
    for at in [1, 2] {
        let is_found = |status: &StatusMessage| {
            status
                .evidence
                .iter()
                .any(|line| line.contains("\"postgresql\" has signed two votes of round 1 on block 2"))
        };
        network.wait_for(at, "aware of it", is_found);
        let kept =
            std::fs::read_dir(network.path(ORGANIZATIONS[at]).join("evidence")).expect("a folder").count();
        assert_eq!(kept, 1);
    }
    // The other two are a quorum without it.
    let done = submit(&client, 2, "INSERT INTO account (id, balance) VALUES (1, 100)");
    assert_eq!((done.height, done.has_succeeded), (2, true));
    network.start_process(0);
    network.wait_for_equal_heights();
    network.end_and_compare_files();
}

/// An ordering server with the network's key that signs another order for each organization: the transactions of block 3 in
/// another order, or without the last one.
struct Equivocator {
    network: ankerdb_ledger::hash::LedgerHash,
    keys: KeyPair,
    waiting: Mutex<Vec<Vec<u8>>>,
    orders: Mutex<Vec<Vec<Vec<u8>>>>,
    /// All three get their orders of block 3 at once, so that none of them hears of another's before it votes.
    all_ask: tokio::sync::Barrier,
}

const EQUIVOCATED_HEIGHT: u64 = 3;

impl Equivocator {
    fn chain(&self, proposal: Vec<u8>) {
        let (mut waiting, mut orders) =
            (self.waiting.lock().expect("no panic"), self.orders.lock().expect("no panic"));
        let is_known = waiting.contains(&proposal) || orders.iter().flatten().any(|known| *known == proposal);
        if is_known {
            return;
        }
        waiting.push(proposal);
        // The third block has three transactions, the others one.
        let needed = if orders.len() as u64 + 1 == EQUIVOCATED_HEIGHT { 3 } else { 1 };
        if waiting.len() == needed {
            orders.push(std::mem::take(&mut waiting));
        }
    }

    fn order(&self, caller: &str, height: u64) -> Vec<u8> {
        let orders = self.orders.lock().expect("no panic");
        let Some(mut proposals) = orders.get(height as usize - 1).cloned() else { return Vec::new() };
        if height == EQUIVOCATED_HEIGHT {
            match caller {
                "postgresql" => proposals.reverse(),
                "mariadb" => drop(proposals.pop()),
                _ => {}
            }
        }
        OrderedBlock { network: self.network, height, proposals }.sign(&self.keys)
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
                tokio::time::sleep(Duration::from_millis(50)).await;
                let order = self.order(&caller, request.height);
                if request.height == EQUIVOCATED_HEIGHT && !order.is_empty() {
                    let _ = tokio::time::timeout(Duration::from_secs(5), self.all_ask.wait()).await;
                }
                Ok(OrderMessage { order })
            };
            call.with(BLOCK_MESSAGE_BYTES_MAX, find).await
        })
    }
}

#[test]
fn an_ordering_server_that_hands_out_three_orders_of_one_block_is_found_and_one_of_them_is_committed_by_all()
{
    // A client each: what one has signed may not arrive in its order, and a lower number is then a repetition.
    let clients = ["bank", "shop", "depot"].map(str::to_owned);
    let found = StartedNetwork::found_for("faults-equivocation", 2, 1, &clients, &[]);
    let Some(mut network) = found else { return };
    let folder = NodeFolder::open(&network.path("ordering")).expect("a folder");
    let directory = Arc::new(Directory::open(&folder).expect("parties"));
    let equivocator = Arc::new(Equivocator {
        network: directory.network,
        keys: folder.keys().expect("a key"),
        waiting: Mutex::default(),
        orders: Mutex::default(),
        all_ask: tokio::sync::Barrier::new(ORDERING),
    });
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let address = folder.config.listen.clone().expect("an address");
    let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).expect("a port");
    let serving = serve(listener, directory, equivocator, std::future::pending());
    runtime.spawn(serving);
    for at in 0..ORDERING {
        network.start_process(at);
    }
    let (bank, shop, depot) = (network.client("bank"), network.client("shop"), network.client("depot"));
    submit(&bank, 1, TABLE);
    submit(&bank, 2, "INSERT INTO account (id, balance) VALUES (1, 100)");
    // Three at once; the order without the last one may be the one that all take, and then it is never ordered.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let submit = |client: &LedgerClient, number: u64, sql: &str| {
            client.submit(number, &client.sign(number, statement(sql)), None, Duration::from_secs(15)).ok()
        };
        let sent = [
            scope.spawn(move || submit(&bank, 3, "UPDATE account SET balance = balance * 2 WHERE id = 1")),
            scope.spawn(move || submit(&shop, 1, "UPDATE account SET balance = balance + 1 WHERE id = 1")),
            scope.spawn(move || submit(&depot, 1, "UPDATE account SET balance = 0 WHERE id = 1")),
        ];
        sent.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(outcomes.len() >= 2, "{outcomes:?}");
    assert!(outcomes.iter().filter(|done| done.height == EQUIVOCATED_HEIGHT).count() >= 1, "{outcomes:?}");
    network.wait_for_equal_heights();
    let evidence: usize = (0..ORDERING)
        .map(|at| {
            let is_found = |status: &StatusMessage| {
                status
                    .evidence
                    .iter()
                    .any(|line| line.contains("the ordering server has signed two orders for block 3"))
            };
            let status = network.status(at);
            usize::from(is_found(&status))
        })
        .sum();
    assert!(evidence >= 2, "{evidence} organizations have found it");
    network.end_and_compare_files();
}
