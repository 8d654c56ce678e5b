//! What gRPC carries between the processes of a network: protobuf messages around the byte strings that docs/ledger-format.md
//! defines. Signatures are of those byte strings alone, so nothing here is signed, hashed or stored.
//!
//! ```text
//! /ankerdb.ledger.Ordering/      Chain    signed proposals in their order, from an organization
//!                                Order    the signed order of a height, once there is one
//!                                Append, Elect   between ordering servers: their log, their leader
//! /ankerdb.ledger.Organization/  Submit   a signed proposal, from a client; answered when it is certified
//!                                SubmitAll   several of one client, in the order of their numbers; answered when all are
//!                                Agree    a signed proposal, from an organization; answered with a signed agreement
//!                                Votes    votes on the next block, both ways
//!                                Order    the order that this organization has for a height
//!                                TwoOrders   two orders of one number of the ordering service whose turn it is
//!                                Blocks   certified blocks above a height
//!                                Compare  a conversation: hashes of tables by ranges, answered with those that differ; then the
//!                                         hashes of rows of some ranges, answered with rows that differ, some at a time
//!                                Status, Audit, Repair   for people of the organization itself
//! ```

use crate::comparison::{ComparedRanges, DonatedRows, ListedRows, RangeHashes, RowHashes, TableRanges};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::ranges::HASH_RANGES;
use crate::verify::CertifiedBlock;
use std::collections::BTreeSet;

/// The longest message with one proposal: a proposal of the longest kind and what is around it, its agreements among that.
pub const PROPOSAL_MESSAGE_BYTES_MAX: usize = crate::chain::PROPOSAL_BYTES_MAX + (256 << 10);

/// How many proposals may come in one message.
pub const PROPOSALS_MAX: usize = 16_384;

/// The longest message with an order, blocks, votes, or two orders as evidence.
pub const BLOCK_MESSAGE_BYTES_MAX: usize = 72 << 20;

/// The longest message with hashes of rows or rows. They are sent in far shorter ones, unless one row or one hash range is longer.
pub const ROWS_MESSAGE_BYTES_MAX: usize = 128 << 20;

/// The longest message of any other kind.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The service of an ordering server.
pub const ORDERING: &str = "/ankerdb.ledger.Ordering";

/// The service of an organization.
pub const ORGANIZATION: &str = "/ankerdb.ledger.Organization";

/// A message without content.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Nothing {}

/// A signed proposal.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProposalMessage {
    /// The signed bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub proposal: Vec<u8>,
    /// How long the sender waits for an outcome, in milliseconds.
    #[prost(uint32, tag = "2")]
    pub wait_ms: u32,
    /// The last block that the sender knows of: an organization that is behind it could take a table for missing.
    #[prost(uint64, tag = "3")]
    pub seen_height: u64,
}

/// Signed proposals, those of one client in the order of their numbers. With one of them its bytes are those of a
/// [`ProposalMessage`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProposalsMessage {
    /// The signed bytes of each.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub proposals: Vec<Vec<u8>>,
    /// How long the sender waits for outcomes, in milliseconds.
    #[prost(uint32, tag = "2")]
    pub wait_ms: u32,
    /// The last block that the sender knows of.
    #[prost(uint64, tag = "3")]
    pub seen_height: u64,
}

/// What became of proposals, in their order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OutcomesMessage {
    /// Of each.
    #[prost(message, repeated, tag = "1")]
    pub outcomes: Vec<OutcomeMessage>,
}

/// What became of a proposal.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OutcomeMessage {
    /// The block that it is in; 0 if it is in none yet.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// Its place in the block.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// Whether it has done what it should.
    #[prost(bool, tag = "3")]
    pub has_succeeded: bool,
    /// Why it has not, as far as this organization knows.
    #[prost(string, tag = "4")]
    pub reason: String,
}

/// What an organization says about a proposal.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AgreementMessage {
    /// The signed agreement.
    #[prost(bytes = "vec", tag = "1")]
    pub agreement: Vec<u8>,
}

/// Which order is wanted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OrderRequest {
    /// Of which block; of an ordering server its number is wanted.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// How long to wait for it, in milliseconds.
    #[prost(uint32, tag = "2")]
    pub wait_ms: u32,
}

/// A signed order, or two as evidence, one behind the other; no bytes if there is none yet.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OrderMessage {
    /// The signed bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub order: Vec<u8>,
}

/// The name of an entry in the log of the ordering servers.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct EntryNameMessage {
    /// The leader's term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// The leader.
    #[prost(uint64, tag = "2")]
    pub server: u64,
    /// The place in the log.
    #[prost(uint64, tag = "3")]
    pub index: u64,
}

/// A vote for a leader of the ordering servers.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct GroupVoteMessage {
    /// The term.
    #[prost(uint64, tag = "1")]
    pub term: u64,
    /// For which server.
    #[prost(uint64, tag = "2")]
    pub server: u64,
    /// Whether that has become the leader.
    #[prost(bool, tag = "3")]
    pub has_won: bool,
}

/// Entries for the log of another ordering server.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AppendMessage {
    /// The leader's vote.
    #[prost(message, optional, tag = "1")]
    pub vote: Option<GroupVoteMessage>,
    /// The entry before them.
    #[prost(message, optional, tag = "2")]
    pub before: Option<EntryNameMessage>,
    /// They, as in the log.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub entries: Vec<Vec<u8>>,
    /// The last entry that is agreed about.
    #[prost(message, optional, tag = "4")]
    pub agreed: Option<EntryNameMessage>,
}

/// Whether entries were taken.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct AppendAnswer {
    /// 1: they were; 2: up to `last`; 3: the one before them is another one; 4: there is a later `vote`.
    #[prost(uint32, tag = "1")]
    pub outcome: u32,
    /// The last one that was taken.
    #[prost(message, optional, tag = "2")]
    pub last: Option<EntryNameMessage>,
    /// The later vote.
    #[prost(message, optional, tag = "3")]
    pub vote: Option<GroupVoteMessage>,
}

/// A server wants to be the leader.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ElectMessage {
    /// Its vote for itself.
    #[prost(message, optional, tag = "1")]
    pub vote: Option<GroupVoteMessage>,
    /// Its last entry.
    #[prost(message, optional, tag = "2")]
    pub last: Option<EntryNameMessage>,
}

/// Whether it may.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ElectAnswer {
    /// The vote of the server that was asked.
    #[prost(message, optional, tag = "1")]
    pub vote: Option<GroupVoteMessage>,
    /// Whether it is for the one that has asked.
    #[prost(bool, tag = "2")]
    pub is_granted: bool,
    /// The last entry of the server that was asked.
    #[prost(message, optional, tag = "3")]
    pub last: Option<EntryNameMessage>,
}

/// Votes on the block after the sender's last one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VotesMessage {
    /// The sender's last block.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// The sender's own vote, or no bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub own: Vec<u8>,
    /// Votes of others that the sender has.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub known: Vec<Vec<u8>>,
    /// The sender's own vote for its last block, or no bytes: it may have come to it after others had the quorum.
    #[prost(bytes = "vec", tag = "4")]
    pub last: Vec<u8>,
    /// Signed dismissals of the ordering service whose turn it is.
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub dismissals: Vec<Vec<u8>>,
    /// Of which ordering service, from 1, the sender has two orders of one number; 0 if it has none.
    #[prost(uint32, tag = "6")]
    pub two_orders_of: u32,
    /// An entry that the sender has waited for long to be ordered, or no bytes.
    #[prost(bytes = "vec", tag = "7")]
    pub waiting: Vec<u8>,
}

/// Which blocks are wanted.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BlocksRequest {
    /// Those above this height,
    #[prost(uint64, tag = "1")]
    pub above: u64,
    /// up to this one.
    #[prost(uint64, tag = "2")]
    pub to: u64,
}

/// A certified block.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BlockMessage {
    /// The LedgerBlock.
    #[prost(bytes = "vec", tag = "1")]
    pub block: Vec<u8>,
    /// Its signed votes.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub votes: Vec<Vec<u8>>,
}

/// Certified blocks, one behind the other.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BlocksMessage {
    /// They.
    #[prost(message, repeated, tag = "1")]
    pub blocks: Vec<BlockMessage>,
}

/// Keys and hashes of the rows of a hash range.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RangeRows {
    /// Which range.
    #[prost(uint32, tag = "1")]
    pub range: u32,
    /// Keys.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub keys: Vec<Vec<u8>>,
    /// 32 bytes for each key.
    #[prost(bytes = "vec", tag = "3")]
    pub hashes: Vec<u8>,
}

/// What a member tells of a table: its range hashes, or the rows of some ranges.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ComparedTableMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub table: String,
    /// 32 bytes for each hash range.
    #[prost(bytes = "vec", tag = "2")]
    pub range_hashes: Vec<u8>,
    /// All rows of some ranges.
    #[prost(message, repeated, tag = "3")]
    pub listed: Vec<RangeRows>,
}

/// What a member tells a donor: first the range hashes of its tables, then rows of one table at a time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CompareRequest {
    /// They.
    #[prost(message, repeated, tag = "1")]
    pub tables: Vec<ComparedTableMessage>,
}

/// The content of a value; nothing for NULL.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContentMessage {
    /// It.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub content: Option<Vec<u8>>,
}

/// A row.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RowMessage {
    /// Its values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<ContentMessage>,
}

/// Rows of a table that differ.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DonatedTable {
    /// Its name.
    #[prost(string, tag = "1")]
    pub table: String,
    /// Hash ranges that differ.
    #[prost(uint32, repeated, tag = "2")]
    pub ranges: Vec<u32>,
    /// Keys of those that differ.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub keys: Vec<Vec<u8>>,
    /// The donor's rows.
    #[prost(message, repeated, tag = "4")]
    pub rows: Vec<RowMessage>,
}

/// What a donor answers: first the ranges of tables that differ, then rows.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DonationMessage {
    /// After which block.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// By table.
    #[prost(message, repeated, tag = "2")]
    pub tables: Vec<DonatedTable>,
    /// Whether nothing more follows about what was listed last.
    #[prost(bool, tag = "3")]
    pub is_last: bool,
}

/// What an organization says about itself, for people.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusMessage {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The network, in hexadecimal digits.
    #[prost(string, tag = "2")]
    pub network: String,
    /// Its last block.
    #[prost(uint64, tag = "3")]
    pub height: u64,
    /// Its hash, in hexadecimal digits.
    #[prost(string, tag = "4")]
    pub head: String,
    /// Its database and what it is doing.
    #[prost(string, tag = "5")]
    pub state: String,
    /// Tables that are not what the ledger says.
    #[prost(string, repeated, tag = "6")]
    pub suspects: Vec<String>,
    /// The members.
    #[prost(message, repeated, tag = "7")]
    pub members: Vec<MemberStatus>,
    /// What others have done that they must not, and the files that prove it.
    #[prost(string, repeated, tag = "8")]
    pub evidence: Vec<String>,
    /// Repairs since it was started.
    #[prost(string, repeated, tag = "9")]
    pub repairs: Vec<String>,
    /// Why there is no quorum for the next block, or nothing.
    #[prost(string, tag = "10")]
    pub stuck: String,
    /// Messages that were refused, the last ones.
    #[prost(string, repeated, tag = "11")]
    pub refused: Vec<String>,
    /// Shared tables with an agreement policy, and which one.
    #[prost(string, repeated, tag = "12")]
    pub policies: Vec<String>,
    /// Its constraints; for its own people only.
    #[prost(string, repeated, tag = "13")]
    pub constraints: Vec<String>,
    /// What it has not agreed to, the last ones; for its own people only.
    #[prost(string, repeated, tag = "14")]
    pub objections: Vec<String>,
    /// Blocks of its checkpoints, the newest first.
    #[prost(uint64, repeated, tag = "15")]
    pub checkpoints: Vec<u64>,
    /// Why the last checkpoint was not made, or nothing.
    #[prost(string, tag = "16")]
    pub checkpoint_failure: String,
    /// The last audit beside the blocks since it was started.
    #[prost(message, optional, tag = "17")]
    pub audit: Option<AuditStatus>,
    /// What audits in the background have found, the last ones.
    #[prost(string, repeated, tag = "18")]
    pub audit_findings: Vec<String>,
    /// Why the last one has not read all tables, or nothing.
    #[prost(string, tag = "19")]
    pub audit_failure: String,
    /// Where its explorer is read, or nothing; for its own people only.
    #[prost(string, tag = "20")]
    pub explorer: String,
    /// Why no ordering server takes the transactions that wait for it, or nothing.
    #[prost(string, tag = "21")]
    pub not_ordered: String,
    /// Which ordering service has its turn, and what speaks against it; nothing in networks with one.
    #[prost(string, repeated, tag = "22")]
    pub ordering: Vec<String>,
}

/// An audit beside the blocks.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AuditStatus {
    /// After which block the tables were read.
    #[prost(uint64, tag = "1")]
    pub height: u64,
    /// When it ended, in seconds since 1970.
    #[prost(uint64, tag = "2")]
    pub ended_at: u64,
    /// How long it took, in milliseconds.
    #[prost(uint64, tag = "3")]
    pub took_ms: u64,
    /// How many rows it has read.
    #[prost(uint64, tag = "4")]
    pub rows: u64,
    /// The tables that were not what the block certifies.
    #[prost(string, repeated, tag = "5")]
    pub differing: Vec<String>,
}

/// Asks for an audit or a repair; an audit asks for nothing more.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RepairRequest {
    /// The recovery class, or nothing for that of the configuration.
    #[prost(string, tag = "1")]
    pub method: String,
}

/// What an organization knows of a member.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MemberStatus {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its last block, as it says.
    #[prost(uint64, tag = "2")]
    pub height: u64,
    /// Whether it has answered last.
    #[prost(bool, tag = "3")]
    pub is_reached: bool,
    /// Height of its last vote.
    #[prost(uint64, tag = "4")]
    pub voted_height: u64,
    /// Whether that vote is for what has the quorum; nothing if there is none.
    #[prost(bool, optional, tag = "5")]
    pub consents: Option<bool>,
}

/// What an audit or a repair has found.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FindingsMessage {
    /// For people, one a line.
    #[prost(string, repeated, tag = "1")]
    pub lines: Vec<String>,
    /// Whether all tables are what the ledger certifies.
    #[prost(bool, tag = "2")]
    pub is_certified: bool,
}

impl BlockMessage {
    /// A block as a message.
    pub fn of((block, votes): &CertifiedBlock) -> BlockMessage {
        BlockMessage { block: block.encode(), votes: votes.clone() }
    }

    /// The block in a message; it is not verified.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`].
    pub fn certified(self) -> LedgerResult<CertifiedBlock> {
        Ok((crate::block::LedgerBlock::decode(&self.block)?, self.votes))
    }
}

fn join_hashes<'a>(hashes: impl Iterator<Item = &'a LedgerHash>) -> Vec<u8> {
    hashes.flat_map(|hash| hash.0).collect()
}

fn split_hashes(bytes: &[u8]) -> LedgerResult<Vec<LedgerHash>> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    if rest.is_empty() {
        return Ok(hashes.iter().map(|hash| LedgerHash(*hash)).collect());
    }
    Err(LedgerError::Malformed(format!("hashes of {} bytes", bytes.len())))
}

fn split_range(table: &str, listed: RangeRows) -> LedgerResult<(usize, RowHashes)> {
    let RangeRows { range, keys, hashes } = listed;
    let (range, hashes) = (range as usize, split_hashes(&hashes)?);
    if range >= HASH_RANGES || hashes.len() != keys.len() {
        let (keys, hashes) = (keys.len(), hashes.len());
        let reason = format!("range {range} of table \"{table}\" has {keys} keys and {hashes} hashes");
        return Err(LedgerError::Malformed(reason));
    }
    Ok((range, keys.into_iter().zip(hashes).collect()))
}

impl CompareRequest {
    /// The range hashes of tables as a message.
    pub fn of_ranges(tables: &RangeHashes) -> CompareRequest {
        let table = |(name, hashes): (&String, &Vec<LedgerHash>)| ComparedTableMessage {
            table: name.clone(),
            range_hashes: join_hashes(hashes.iter()),
            listed: Vec::new(),
        };
        CompareRequest { tables: tables.iter().map(table).collect() }
    }

    /// Listed rows as a message.
    pub fn of_rows(listed: ListedRows) -> CompareRequest {
        let range = |(range, rows): (usize, RowHashes)| {
            let (keys, hashes): (Vec<Vec<u8>>, Vec<LedgerHash>) = rows.into_iter().unzip();
            RangeRows { range: range as u32, keys, hashes: join_hashes(hashes.iter()) }
        };
        let ranges = listed.ranges.into_iter().map(range).collect();
        let table = ComparedTableMessage { table: listed.table, range_hashes: Vec::new(), listed: ranges };
        CompareRequest { tables: vec![table] }
    }

    /// The range hashes in a message.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if a table has another number of ranges.
    pub fn ranges(self) -> LedgerResult<RangeHashes> {
        let table = |message: ComparedTableMessage| {
            let (name, hashes) = (message.table, split_hashes(&message.range_hashes)?);
            if hashes.len() != HASH_RANGES {
                let reason = format!("table \"{name}\" has {} hash ranges", hashes.len());
                return Err(LedgerError::Malformed(reason));
            }
            Ok((name, hashes))
        };
        self.tables.into_iter().map(table).collect()
    }

    /// The listed rows in a message.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if they are not of one table, or a range has not as many hashes as keys.
    pub fn rows(self) -> LedgerResult<ListedRows> {
        let tables = self.tables.len();
        let Some(ComparedTableMessage { table, listed, .. }) =
            self.tables.into_iter().next().filter(|_| tables == 1)
        else {
            return Err(LedgerError::Malformed(format!("rows of {tables} tables are listed at once")));
        };
        let ranges =
            listed.into_iter().map(|range| split_range(&table, range)).collect::<LedgerResult<_>>()?;
        Ok(ListedRows { table, ranges })
    }
}

impl DonationMessage {
    /// The ranges in which a donor differs, as a message.
    pub fn of_ranges(compared: ComparedRanges) -> DonationMessage {
        let table = |(name, ranges): (String, BTreeSet<usize>)| DonatedTable {
            table: name,
            ranges: ranges.into_iter().map(|range| range as u32).collect(),
            ..DonatedTable::default()
        };
        let tables = compared.differing.into_iter().map(table).collect();
        DonationMessage { height: compared.height, tables, is_last: true }
    }

    /// Rows as a message.
    pub fn of_rows(rows: DonatedRows) -> DonationMessage {
        let row = |row: Vec<crate::value::Content>| RowMessage {
            values: row.into_iter().map(|content| ContentMessage { content }).collect(),
        };
        let table = DonatedTable {
            table: rows.table,
            ranges: Vec::new(),
            keys: rows.keys,
            rows: rows.rows.into_iter().map(row).collect(),
        };
        DonationMessage { height: 0, tables: vec![table], is_last: false }
    }

    /// The ranges in a message.
    pub fn ranges(self) -> ComparedRanges {
        let ranges = |table: DonatedTable| {
            (table.table, table.ranges.into_iter().map(|range| range as usize).collect::<BTreeSet<usize>>())
        };
        let differing: TableRanges = self.tables.into_iter().map(ranges).collect();
        ComparedRanges { height: self.height, differing }
    }

    /// The rows in a message.
    pub fn rows(self) -> Vec<DonatedRows> {
        let row = |row: RowMessage| row.values.into_iter().map(|value| value.content).collect();
        let table = |rows: DonatedTable| DonatedRows {
            table: rows.table,
            keys: rows.keys,
            rows: rows.rows.into_iter().map(row).collect(),
        };
        self.tables.into_iter().map(table).collect()
    }
}
