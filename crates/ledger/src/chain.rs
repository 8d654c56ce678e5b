//! What a network has agreed about so far: the head of the chain, the shared tables, and the last number of each client. Every
//! member keeps it while it works, and whoever verifies a file builds it from nothing but the file.

use crate::agreement::OrderEntry;
use crate::block::{BlockHeader, leaves};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::merkle;
use crate::message::{Proposal, Vote};
use crate::policy::AgreementPolicy;
use crate::signature::{MessageKind, PublicKey, Verified, verify};
use crate::signers::SignerTables;
use crate::statement::PortableStatement;
use crate::succession::{BlockOrder, Tenure};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The longest signed proposal in bytes. Written with literals it stays below what MariaDB takes as one message, 16 MiB.
pub const PROPOSAL_BYTES_MAX: usize = 4 << 20;

/// A transaction that may be executed.
#[derive(Debug, Clone)]
pub enum CheckedTransaction {
    /// A new shared table.
    Definition(SharedTable),
    /// Changes of rows.
    Statements(Vec<PortableStatement>),
}

/// An order, and what is to be done with each of its transactions: executed, or taken for one that fails, with the reason.
#[derive(Debug)]
pub struct CheckedOrder {
    /// Of which block it is.
    pub height: u64,
    /// What stands for it in the header.
    pub hash: LedgerHash,
    /// What is ordered; nothing where the next ordering service takes over.
    pub entries: Vec<Vec<u8>>,
    /// Why the next ordering service takes over, if it does.
    pub succession: Option<String>,
    /// In its order.
    pub transactions: Vec<Result<CheckedTransaction, String>>,
    numbers: BTreeMap<PublicKey, u64>,
}

/// The head of a chain.
#[derive(Debug, Clone)]
pub struct LedgerChain {
    /// The founding document.
    pub genesis: Genesis,
    /// Its hash.
    pub network: LedgerHash,
    /// The last block, 0 before the first.
    pub height: u64,
    /// Its hash, or the network's.
    pub head: LedgerHash,
    /// The state that it certifies; nothing before the first block.
    pub state: Option<LedgerHash>,
    /// The shared tables.
    pub tables: BTreeMap<String, SharedTable>,
    /// The blocks by which other ordering services took over, and why.
    pub successions: Vec<(u64, String)>,
    numbers: BTreeMap<PublicKey, u64>,
    /// What makes verifying the signatures of its clients fast.
    signers: Arc<SignerTables>,
}

/// What is known of a proposal without those before it in its block.
struct ReadProposal {
    client: PublicKey,
    number: u64,
    transaction: LedgerResult<CheckedTransaction>,
    /// Why it has not the agreements that it needs.
    disagreement: Option<LedgerError>,
}

/// How many proposals a thread reads at least.
const PROPOSALS_PER_THREAD_MIN: usize = 64;

/// How many threads read the proposals of an order.
fn threads(proposals: usize) -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    cores.min(proposals / PROPOSALS_PER_THREAD_MIN).max(1)
}

/// The transaction of a proposal, if its number is none that its client has used before. Without its agreements it takes no
/// number: somebody else than its client may have left them out, and it may come again with them.
fn take_number(
    read: LedgerResult<ReadProposal>,
    numbers: &mut BTreeMap<PublicKey, u64>,
) -> LedgerResult<CheckedTransaction> {
    let ReadProposal { client, number, transaction, disagreement } = read?;
    if let Some(disagreement) = disagreement {
        return Err(disagreement);
    }
    let last = numbers.entry(client).or_default();
    if number <= *last {
        let reason = format!("transaction {number} of its client is a repetition: {last} was before");
        return Err(LedgerError::Refused(reason));
    }
    *last = number;
    transaction
}

impl LedgerChain {
    /// Before the first block.
    pub fn new(genesis: Genesis) -> LedgerChain {
        let network = genesis.network();
        LedgerChain {
            genesis,
            network,
            height: 0,
            head: network,
            state: None,
            tables: BTreeMap::new(),
            successions: Vec::new(),
            numbers: BTreeMap::new(),
            signers: Arc::new(SignerTables::default()),
        }
    }

    /// Whose orders count for the next block.
    pub fn tenure(&self) -> Tenure {
        let since = self.successions.last().map_or(0, |(height, _)| *height);
        Tenure { service: self.successions.len() as u32, since }
    }

    /// Verifies the signatures of an order for the next block, and says what of it may be executed. That depends on nothing but
    /// the order and the chain, so all members find the same. Costs about ten microseconds for each transaction, divided by the
    /// cores.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] and [`LedgerError::Untrusted`] if the order is not one for the next block by the ordering
    /// service; those of [`crate::succession::Succession::check`] if it is to be the succession of another one.
    pub fn check(&self, message: &[u8]) -> LedgerResult<CheckedOrder> {
        let order = BlockOrder::verify(message, &self.genesis, &self.network, self.tenure())?;
        let (height, hash) = (order.height(self.tenure()), order.hash());
        if height != self.height + 1 {
            let next = self.height + 1;
            let reason = format!("an order for block {height} came instead of one for block {next}");
            return Err(LedgerError::Untrusted(reason));
        }
        let (entries, succession) = match order {
            BlockOrder::Ordered(order) => (order.proposals, None),
            BlockOrder::Succession(_, reason) => (Vec::new(), Some(reason)),
        };
        let mut numbers = self.numbers.clone();
        let read = self.read_entries(&entries, entries.len() == 1);
        let checked = read.into_iter().map(|read| take_number(read, &mut numbers));
        let transactions = checked.map(|checked| checked.map_err(|error| error.to_string())).collect();
        Ok(CheckedOrder { height, hash, entries, succession, transactions, numbers })
    }

    /// Whether a proposal could be executed if it came alone in the next block, with the agreements that it needs.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], [`LedgerError::Untrusted`] and [`LedgerError::Refused`] with what it would fail for.
    pub fn check_alone(&self, proposal: &[u8]) -> LedgerResult<CheckedTransaction> {
        let verified = verify(MessageKind::Proposal, proposal)?;
        take_number(self.read_proposal(&verified, proposal.len(), true), &mut self.numbers.clone())
    }

    /// Whether an entry of the order of a height has the agreements that its tables need.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] and [`LedgerError::Untrusted`] with what is wrong or missing.
    pub fn check_agreements(&self, entry: &[u8], height: u64) -> LedgerResult<()> {
        let entry = OrderEntry::of(entry, &self.genesis)?;
        let proposal = entry.proposal();
        let verified = verify(MessageKind::Proposal, proposal)?;
        let read = self.read_proposal(&verified, proposal.len(), true)?;
        self.check_agreed(&entry, &read.transaction, height)
    }

    /// The tables with an agreement policy that a transaction writes, or makes.
    pub fn policies<'a>(
        &'a self,
        transaction: &'a CheckedTransaction,
    ) -> BTreeMap<&'a str, &'a AgreementPolicy> {
        let mut found = BTreeMap::new();
        let mut add = |table: &'a SharedTable| {
            if let Some(policy) = &table.agreement {
                found.insert(table.name.as_str(), policy);
            }
        };
        match transaction {
            CheckedTransaction::Definition(table) => add(table),
            CheckedTransaction::Statements(statements) => {
                let tables = statements.iter().filter_map(|statement| self.tables.get(&statement.table));
                tables.for_each(add);
            }
        }
        found
    }

    fn check_agreed(
        &self,
        entry: &OrderEntry<'_>,
        transaction: &LedgerResult<CheckedTransaction>,
        height: u64,
    ) -> LedgerResult<()> {
        let agreed = entry.agreed(&self.genesis, &self.network, height, &self.signers)?;
        let Ok(transaction) = transaction else { return Ok(()) };
        for (table, policy) in self.policies(transaction) {
            if policy.missing(&self.genesis, &agreed) > 0 {
                let has = agreed.iter().map(|member| self.genesis.members[*member as usize].name.as_str());
                let has = has.collect::<Vec<_>>().join(", ");
                let has = if has.is_empty() { "none".to_owned() } else { format!("that of {has}") };
                let reason = format!("table \"{table}\" needs the agreement of {policy}, and this has {has}");
                return Err(LedgerError::Untrusted(reason));
            }
        }
        Ok(())
    }

    /// Reads entries of an order and verifies their signatures, on all cores.
    fn read_entries(&self, messages: &[Vec<u8>], is_alone: bool) -> Vec<LedgerResult<ReadProposal>> {
        let entries: Vec<LedgerResult<OrderEntry<'_>>> =
            messages.iter().map(|message| OrderEntry::of(message, &self.genesis)).collect();
        let signers = entries.iter().flatten().flat_map(OrderEntry::signers);
        let is_known = |signer: &PublicKey| {
            self.genesis.client(signer).is_ok()
                || self.genesis.members.iter().any(|member| member.key == *signer)
        };
        self.signers.expect(signers.filter(is_known));
        let read = |entries: &[LedgerResult<OrderEntry<'_>>]| -> Vec<LedgerResult<ReadProposal>> {
            let slices: Vec<&[u8]> =
                entries.iter().map(|entry| entry.as_ref().map_or(&[][..], OrderEntry::proposal)).collect();
            let verified = self.signers.verify_all(MessageKind::Proposal, &slices);
            let pairs = verified.into_iter().zip(entries);
            pairs
                .map(|(verified, entry)| {
                    self.read_entry(entry.as_ref().map_err(Clone::clone)?, &verified?, is_alone)
                })
                .collect()
        };
        let threads = threads(messages.len());
        if threads == 1 {
            return read(&entries);
        }
        let read = &read;
        std::thread::scope(|scope| {
            let chunks = entries.chunks(entries.len().div_ceil(threads));
            let started: Vec<_> = chunks.map(|chunk| scope.spawn(move || read(chunk))).collect();
            started.into_iter().flat_map(|thread| thread.join().expect("reading does not panic")).collect()
        })
    }

    fn read_entry(
        &self,
        entry: &OrderEntry<'_>,
        verified: &Verified<'_>,
        is_alone: bool,
    ) -> LedgerResult<ReadProposal> {
        let mut read = self.read_proposal(verified, entry.proposal().len(), is_alone)?;
        read.disagreement = self.check_agreed(entry, &read.transaction, self.height + 1).err();
        Ok(read)
    }

    fn read_proposal(
        &self,
        verified: &Verified<'_>,
        length: usize,
        is_alone: bool,
    ) -> LedgerResult<ReadProposal> {
        let (client, proposal) = Proposal::of_verified(verified, &self.genesis, &self.network)?;
        let transaction = self.transaction(&proposal, length, is_alone);
        Ok(ReadProposal { client, number: proposal.number, transaction, disagreement: None })
    }

    /// The number of a client's last transaction, or 0.
    pub fn last_number(&self, client: &PublicKey) -> u64 {
        self.numbers.get(client).copied().unwrap_or_default()
    }

    /// The transaction of a proposal in a message of this length.
    fn transaction(
        &self,
        proposal: &Proposal,
        length: usize,
        is_alone: bool,
    ) -> LedgerResult<CheckedTransaction> {
        if length > PROPOSAL_BYTES_MAX {
            let reason = format!("a transaction of {length} bytes: up to {PROPOSAL_BYTES_MAX} are taken");
            return Err(LedgerError::Refused(reason));
        }
        if let [statement] = &proposal.statements[..]
            && SharedTable::is_definition(&statement.sql)
        {
            let table = SharedTable::parse(&statement.sql)?;
            if !is_alone {
                let reason = "a definition is alone in its block: MariaDB commits it by itself";
                return Err(LedgerError::Refused(reason.into()));
            }
            if self.tables.contains_key(&table.name) {
                return Err(LedgerError::Refused(format!("shared table \"{}\" exists", table.name)));
            }
            if let Some(policy) = &table.agreement {
                policy.check(&self.genesis)?;
            }
            return Ok(CheckedTransaction::Definition(table));
        }
        let parse = |statement: &crate::message::ProposedStatement| {
            PortableStatement::parse(&statement.sql, &statement.values, &self.tables)
        };
        let statements = proposal.statements.iter().map(parse).collect::<LedgerResult<Vec<_>>>()?;
        if statements.is_empty() {
            return Err(LedgerError::Refused("a transaction without statements".into()));
        }
        Ok(CheckedTransaction::Statements(statements))
    }

    /// Whether a header is one of this order on this chain.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] with what does not fit.
    pub fn check_header(&self, checked: &CheckedOrder, header: &BlockHeader) -> LedgerResult<()> {
        let entries = &checked.entries;
        let misfit = if header.height != checked.height || header.network != self.network {
            Some("its height or network is not that of its order")
        } else if header.previous != self.head {
            Some("it does not follow the block before")
        } else if header.order != checked.hash {
            Some("its order is another one")
        } else if header.outcomes.count() != entries.len() {
            Some("it has not as many outcomes as transactions")
        } else if header.root != merkle::root(&leaves(entries, &header.outcomes)) {
            Some("the root of its Merkle tree is not that of its transactions")
        } else {
            let refused = checked.transactions.iter().enumerate().filter(|(_, checked)| checked.is_err());
            let has_succeeded = refused.map(|(at, _)| at).any(|at| header.outcomes.get(at));
            has_succeeded.then_some("a transaction has succeeded that must not be executed")
        };
        misfit.map_or(Ok(()), |reason| {
            Err(LedgerError::Untrusted(format!("block {}: {reason}", header.height)))
        })
    }

    /// Makes a block the head. The caller has checked the header and counted the votes.
    pub fn advance(&mut self, checked: &CheckedOrder, header: &BlockHeader) {
        for (at, transaction) in checked.transactions.iter().enumerate() {
            if let Ok(CheckedTransaction::Definition(table)) = transaction
                && header.outcomes.get(at)
            {
                self.tables.insert(table.name.clone(), table.clone());
            }
        }
        if let Some(reason) = &checked.succession {
            self.successions.push((header.height, reason.clone()));
        }
        self.numbers.clone_from(&checked.numbers);
        (self.height, self.head, self.state) = (header.height, header.hash(), Some(header.state));
    }

    /// Whether these votes make the header count. Returns how many members have voted for it.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if a vote is not valid, not for this header or not of one round with the others;
    /// [`LedgerError::NoQuorum`] if they are too few.
    pub fn check_votes(&self, header: &BlockHeader, votes: &[Vec<u8>]) -> LedgerResult<usize> {
        let mut members = BTreeSet::new();
        let mut round = None;
        for message in votes {
            let vote = Vote::verify(message, &self.genesis, &self.network)?;
            if *round.get_or_insert(vote.round) != vote.round {
                let reason = format!("block {}: its votes are of several rounds", header.height);
                return Err(LedgerError::Untrusted(reason));
            }
            if vote.header != *header {
                let name = &self.genesis.members[vote.member as usize].name;
                let reason = format!("block {}: the vote of \"{name}\" is for another one", header.height);
                return Err(LedgerError::Untrusted(reason));
            }
            members.insert(vote.member);
        }
        if members.len() < self.genesis.quorum {
            let (have, need) = (members.len(), self.genesis.quorum);
            return Err(LedgerError::NoQuorum(format!(
                "block {}: {have} members voted for it, {need} have to",
                header.height
            )));
        }
        Ok(members.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::{Agreement, ChainedTransaction};
    use crate::genesis::Identity;
    use crate::message::{OrderedBlock, ProposedStatement};
    use crate::signature::KeyPair;

    fn identity(name: &str, keys: &KeyPair) -> Identity {
        Identity { name: name.to_owned(), key: keys.public() }
    }

    fn chain(ordering: &KeyPair, clients: &[KeyPair]) -> LedgerChain {
        let clients = clients.iter().enumerate().map(|(at, keys)| identity(&at.to_string(), keys));
        let mut chain = LedgerChain::new(Genesis {
            name: "tested".to_owned(),
            members: vec![identity("one", ordering)],
            quorum: 1,
            ordering: ordering.public(),
            successors: Vec::new(),
            clients: clients.collect(),
        });
        let table =
            SharedTable::parse("create shared table a (id bigint primary key)").expect("a definition");
        chain.tables.insert(table.name.clone(), table);
        chain
    }

    fn proposal(chain: &LedgerChain, keys: &KeyPair, number: u64, sql: &str) -> Vec<u8> {
        let statements = vec![ProposedStatement { sql: sql.to_owned(), values: Vec::new() }];
        Proposal { network: chain.network, number, statements }.sign(keys)
    }

    #[test]
    fn each_wrong_proposal_of_a_large_order_is_found_at_its_place() {
        let key = |seed: u8| KeyPair::from_seed(&[seed; 32]);
        let (ordering, clients, stranger) = (key(1), [key(2), key(3), key(4)], key(5));
        let chain = chain(&ordering, &clients);
        // Two that sign often, one that signs rarely.
        let client = |at: usize| if at % 100 == 9 { &clients[2] } else { &clients[at % 2] };
        let make = |at: usize| proposal(&chain, client(at), at as u64 + 1, "delete from a where id = 1");
        let mut proposals: Vec<Vec<u8>> = (0..600).map(make).collect();
        let mut expected = BTreeMap::new();
        for at in [0, 63, 64, 109, 299, 300, 301, 599] {
            let length = proposals[at].len();
            proposals[at][length - 40] ^= 1;
            expected.insert(at, "is wrong");
        }
        proposals[150] = proposal(&chain, &stranger, 1, "delete from a");
        proposals[420] = proposal(&chain, client(420), 3, "delete from a");
        proposals[421] = proposal(&chain, client(421), 422, "delete from b");
        proposals[422].truncate(20);
        let others =
            [(150, "is no client"), (420, "a repetition"), (421, "no shared table"), (422, "too early")];
        expected.extend(others);
        let order = OrderedBlock { network: chain.network, height: 1, proposals };
        let checked = chain.check(&order.sign(&ordering)).expect("an order");
        for (at, transaction) in checked.transactions.iter().enumerate() {
            match (transaction, expected.get(&at)) {
                (Ok(_), None) => {}
                (Err(said), Some(reason)) if said.contains(reason) => {}
                (found, wanted) => panic!("{at}: {found:?} instead of {wanted:?}"),
            }
        }
        // One by one they are what they are together.
        for (at, proposal) in order.proposals.iter().enumerate().filter(|(at, _)| *at != 420) {
            let alone = chain.check_alone(proposal).map_err(|error| error.to_string());
            assert_eq!(alone.err(), checked.transactions[at].as_ref().err().cloned(), "{at}");
        }
        // What is wrong takes no number; what is refused for another reason does.
        assert_eq!(checked.numbers[&clients[0].public()], 599);
        assert_eq!(checked.numbers[&clients[1].public()], 598);
    }

    /// A chain of three members with a table that needs the agreement of two of them, and a proposal on it.
    fn agreeing() -> (LedgerChain, [KeyPair; 3], KeyPair, Vec<u8>) {
        let key = |seed: u8| KeyPair::from_seed(&[seed; 32]);
        let (ordering, client, members) = (key(1), key(2), [key(3), key(4), key(5)]);
        let mut chain = chain(&ordering, std::slice::from_ref(&client));
        chain.genesis.members =
            members.iter().enumerate().map(|(at, keys)| identity(&format!("m{at}"), keys)).collect();
        let sql = "create shared table b (id bigint primary key) with (agreement = 'm0, m2')";
        let table = SharedTable::parse(sql).expect("a definition");
        chain.tables.insert(table.name.clone(), table);
        let proposal = proposal(&chain, &client, 1, "delete from b where id = 1");
        (chain, members, client, proposal)
    }

    fn checked(chain: &LedgerChain, entries: &[Vec<u8>]) -> CheckedOrder {
        let order = OrderedBlock { network: chain.network, height: 1, proposals: entries.to_vec() };
        chain.check(&order.sign(&KeyPair::from_seed(&[1; 32]))).expect("an order")
    }

    #[test]
    fn a_table_with_a_policy_takes_only_transactions_with_the_agreements_that_it_needs() {
        let (chain, members, client, proposal) = agreeing();
        let network = chain.network;
        let yes = |member: usize| Agreement {
            network,
            proposal: Agreement::name_of(&proposal),
            member: member as u32,
            until: 1,
            refusal: None,
        };
        let signed = |member: usize| yes(member).sign(&members[member]);
        let chained = |agreements: &[Vec<u8>]| {
            let agreements = agreements.to_vec();
            ChainedTransaction { network, proposal: proposal.clone(), agreements }.sign(&members[1])
        };
        let other = super::tests::proposal(&chain, &client, 1, "delete from b where id = 2");
        let to_other = Agreement { proposal: Agreement::name_of(&other), ..yes(2) };
        let mut broken = signed(2);
        broken[50] ^= 1;
        let says_no = Agreement { refusal: Some("no".into()), ..yes(2) };
        let elsewhere = Agreement { network: LedgerHash([7; 32]), ..yes(2) };
        for (entry, reason) in [
            (proposal.clone(), "needs the agreement of m0, m2, and this has none"),
            (chained(&[]), "this has none"),
            (chained(&[signed(0), signed(1)]), "this has that of m0, m1"),
            (chained(&[signed(0), signed(0)]), "this has that of m0"),
            // Forged by another member, and by one that is none.
            (chained(&[signed(0), yes(2).sign(&members[1])]), "in the name of \"m2\" is signed by"),
            (chained(&[signed(0), yes(2).sign(&client)]), "in the name of \"m2\" is signed by"),
            (chained(&[signed(0), Agreement { member: 3, ..yes(2) }.sign(&client)]), "which there is not"),
            (chained(&[signed(0), broken]), "is wrong"),
            // Replayed: to another transaction, in another network, and after its last block.
            (chained(&[signed(0), to_other.sign(&members[2])]), "is to another transaction"),
            (chained(&[signed(0), elsewhere.sign(&members[2])]), "came to network"),
            (chained(&[signed(0), Agreement { until: 0, ..yes(2) }.sign(&members[2])]), "has that of m0"),
            (chained(&[signed(0), says_no.sign(&members[2])]), "this has that of m0"),
            (chained(&[signed(0), signed(1), signed(2), signed(0)]), "4 agreements of 3 members"),
        ] {
            // It has no effect, and takes no number: it may come again with its agreements.
            let with_all = chained(&[signed(0), signed(2)]);
            let found = checked(&chain, &[entry, with_all.clone(), with_all]);
            let said = found.transactions[0].as_ref().expect_err(reason);
            assert!(said.contains(reason), "{said}, and not {reason}");
            assert!(found.transactions[1].is_ok(), "{:?}", found.transactions[1]);
            let again = found.transactions[2].as_ref().expect_err("a repetition");
            assert!(again.contains("repetition"), "{again}");
        }
        let by_client = ChainedTransaction { network, proposal: proposal.clone(), agreements: Vec::new() };
        let found = checked(&chain, &[by_client.sign(&client)]);
        assert!(found.transactions[0].is_err(), "a client's is no chained transaction");
    }

    #[test]
    fn a_definition_with_a_policy_needs_the_agreement_of_those_that_it_names() {
        let (chain, members, client, _) = agreeing();
        let network = chain.network;
        let sql = "create shared table c (id bigint primary key) with (agreement = 'any 1 of m1, m2')";
        let definition = proposal(&chain, &client, 1, sql);
        let found = checked(&chain, std::slice::from_ref(&definition));
        let said = found.transactions[0].as_ref().expect_err("without agreement");
        assert!(said.contains("table \"c\" needs the agreement of any 1 of m1, m2"), "{said}");
        let name = Agreement::name_of(&definition);
        let yes = Agreement { network, proposal: name, member: 2, until: 9, refusal: None };
        let agreements = vec![yes.sign(&members[2])];
        let entry = ChainedTransaction { network, proposal: definition, agreements }.sign(&members[2]);
        assert!(checked(&chain, &[entry]).transactions[0].is_ok());
        let sql = "create shared table d (id bigint primary key) with (agreement = 'm1, m7')";
        let found = checked(&chain, &[proposal(&chain, &client, 2, sql)]);
        let said = found.transactions[0].as_ref().expect_err("a stranger");
        assert!(said.contains("\"m7\" is no organization"), "{said}");
    }
}
