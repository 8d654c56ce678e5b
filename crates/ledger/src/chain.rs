//! What a network has agreed about so far: the head of the chain, the shared tables, and the last number of each client. Every
//! member keeps it while it works, and whoever verifies a file builds it from nothing but the file.

use crate::block::{BlockHeader, leaves};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::merkle;
use crate::message::{OrderedBlock, Proposal, Vote};
use crate::signature::PublicKey;
use crate::statement::PortableStatement;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The message.
    pub order: OrderedBlock,
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
    numbers: BTreeMap<PublicKey, u64>,
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
            numbers: BTreeMap::new(),
        }
    }

    /// Verifies the signatures of an order for the next block, and says what of it may be executed. That depends on nothing but
    /// the order and the chain, so all members find the same.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] and [`LedgerError::Untrusted`] if the order is not one for the next block by the ordering
    /// service.
    pub fn check(&self, message: &[u8]) -> LedgerResult<CheckedOrder> {
        let order = OrderedBlock::verify(message, &self.genesis, &self.network)?;
        if order.height != self.height + 1 {
            let reason = format!(
                "an order for block {} came instead of one for block {}",
                order.height,
                self.height + 1
            );
            return Err(LedgerError::Untrusted(reason));
        }
        let mut numbers = self.numbers.clone();
        let is_alone = order.proposals.len() == 1;
        let check = |proposal: &Vec<u8>| self.check_proposal(proposal, is_alone, &mut numbers);
        let checked = order.proposals.iter().map(check);
        let transactions = checked.map(|checked| checked.map_err(|error| error.to_string())).collect();
        Ok(CheckedOrder { order, transactions, numbers })
    }

    /// Whether a proposal could be executed if it came alone in the next block.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], [`LedgerError::Untrusted`] and [`LedgerError::Refused`] with what it would fail for.
    pub fn check_alone(&self, proposal: &[u8]) -> LedgerResult<CheckedTransaction> {
        self.check_proposal(proposal, true, &mut self.numbers.clone())
    }

    /// The number of a client's last transaction, or 0.
    pub fn last_number(&self, client: &PublicKey) -> u64 {
        self.numbers.get(client).copied().unwrap_or_default()
    }

    fn check_proposal(
        &self,
        message: &[u8],
        is_alone: bool,
        numbers: &mut BTreeMap<PublicKey, u64>,
    ) -> LedgerResult<CheckedTransaction> {
        let (client, proposal) = Proposal::verify(message, &self.genesis, &self.network)?;
        let last = numbers.entry(client).or_default();
        if proposal.number <= *last {
            let reason =
                format!("transaction {} of its client is a repetition: {last} was before", proposal.number);
            return Err(LedgerError::Refused(reason));
        }
        *last = proposal.number;
        if message.len() > PROPOSAL_BYTES_MAX {
            let reason =
                format!("a transaction of {} bytes: up to {PROPOSAL_BYTES_MAX} are taken", message.len());
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
        let order = &checked.order;
        let misfit = if header.height != order.height || header.network != self.network {
            Some("its height or network is not that of its order")
        } else if header.previous != self.head {
            Some("it does not follow the block before")
        } else if header.order != order.hash() {
            Some("its order is another one")
        } else if header.outcomes.count() != order.proposals.len() {
            Some("it has not as many outcomes as transactions")
        } else if header.root != merkle::root(&leaves(&order.proposals, &header.outcomes)) {
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
