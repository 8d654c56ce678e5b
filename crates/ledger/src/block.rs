//! Ledger blocks (section 4.5.3 of the dissertation): what was ordered, what succeeded, what it changed, and what came of it.
//!
//! ```text
//! LedgerBlock n-1             LedgerBlock n
//! ┌───────────────┐           ┌───────────────────────────────────────────┐
//! │ header ───────┼── hash ──>│ previous                                  │
//! └───────────────┘           │ order      hash of the ordered proposals  │<─ the signed order itself
//!                             │ outcomes   a bit for each: has succeeded  │
//!                             │ root       Merkle tree over both          │
//!                             │ digest     hash of all changes of rows    │
//!                             │ state      hash of all tables afterwards  │
//!                             └───────────────────────────────────────────┘
//! ```
//! The hash of the header is the LedgerBlockHash that members vote on. `state` and `root` are ours; the other fields are the
//! dissertation's.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::merkle;

/// Which transactions of a block have succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuccessBits {
    count: usize,
    bytes: Vec<u8>,
}

impl SuccessBits {
    /// Bits in the order of the transactions.
    pub fn new(bits: &[bool]) -> SuccessBits {
        let mut bytes = vec![0; bits.len().div_ceil(8)];
        for (at, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
            bytes[at / 8] |= 1 << (at % 8);
        }
        SuccessBits { count: bits.len(), bytes }
    }

    /// As many bits as these bytes have.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> SuccessBits {
        SuccessBits { count: bytes.len() * 8, bytes }
    }

    /// The bits, the lowest of each byte first.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many transactions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether a transaction has succeeded.
    pub fn get(&self, at: usize) -> bool {
        at < self.count && self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    /// How many have succeeded.
    pub fn succeeded(&self) -> usize {
        (0..self.count).filter(|at| self.get(*at)).count()
    }
}

/// The header of a ledger block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHeader {
    /// Of which network.
    pub network: LedgerHash,
    /// Which block it is, from 1.
    pub height: u64,
    /// The LedgerBlockHash of the block before, or the network's for the first one.
    pub previous: LedgerHash,
    /// Hash of what the ordering service handed out.
    pub order: LedgerHash,
    /// Which transactions have succeeded.
    pub outcomes: SuccessBits,
    /// Root of the Merkle tree over transactions and outcomes.
    pub root: LedgerHash,
    /// Hash of the digests of all changes.
    pub digest: LedgerHash,
    /// Hash of the fingerprints of all tables after the block.
    pub state: LedgerHash,
}

impl BlockHeader {
    /// The header's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).u64(self.height).fixed(&self.previous.0).fixed(&self.order.0);
        writer.count(self.outcomes.count).fixed(&self.outcomes.bytes);
        writer.fixed(&self.root.0).fixed(&self.digest.0).fixed(&self.state.0);
        writer.finish()
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is none.
    pub fn decode(bytes: &[u8]) -> LedgerResult<BlockHeader> {
        let mut reader = CanonicalReader::new(bytes, "block header");
        let (network, height) = (reader.hash()?, reader.u64()?);
        let (previous, order) = (reader.hash()?, reader.hash()?);
        let count = reader.u32()? as usize;
        if count.div_ceil(8) > bytes.len() {
            return Err(LedgerError::Malformed("block header: more outcomes than it has bytes".into()));
        }
        let bits = (0..count.div_ceil(8)).map(|_| reader.byte()).collect::<LedgerResult<Vec<u8>>>()?;
        let spare = bits.last().is_some_and(|last| !count.is_multiple_of(8) && last >> (count % 8) != 0);
        if spare {
            return Err(LedgerError::Malformed("block header: an outcome of no transaction".into()));
        }
        let outcomes = SuccessBits { count, bytes: bits };
        let (root, digest, state) = (reader.hash()?, reader.hash()?, reader.hash()?);
        reader.end()?;
        Ok(BlockHeader { network, height, previous, order, outcomes, root, digest, state })
    }

    /// The LedgerBlockHash.
    pub fn hash(&self) -> LedgerHash {
        LedgerHash::of("ledger block", &[&self.encode()])
    }

    /// What of the header is not what another one has, for people.
    pub fn differences(&self, other: &BlockHeader) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, own: &LedgerHash, others: &LedgerHash| {
            if own != others {
                found.push(format!("{what}: {} instead of {}", own.short(), others.short()));
            }
        };
        differ("the block before", &self.previous, &other.previous);
        differ("the transactions that the ordering service handed out", &self.order, &other.order);
        differ("the rows that were changed (digest)", &self.digest, &other.digest);
        differ("the tables afterwards (state)", &self.state, &other.state);
        let bits = self.outcomes.count().max(other.outcomes.count());
        let flipped: Vec<usize> =
            (0..bits).filter(|at| self.outcomes.get(*at) != other.outcomes.get(*at)).collect();
        for at in flipped.iter().take(3) {
            let said = |has: bool| if has { "succeeded" } else { "failed" };
            found.push(format!(
                "transaction {at} {} instead of {}",
                said(self.outcomes.get(*at)),
                said(!self.outcomes.get(*at))
            ));
        }
        if flipped.len() > 3 {
            found.push(format!("and {} more outcomes", flipped.len() - 3));
        }
        found
    }
}

/// Leaves of a block's Merkle tree.
pub fn leaves(proposals: &[Vec<u8>], outcomes: &SuccessBits) -> Vec<LedgerHash> {
    proposals.iter().enumerate().map(|(at, proposal)| merkle::leaf(proposal, outcomes.get(at))).collect()
}

/// A header and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerBlock {
    /// What is voted on.
    pub header: BlockHeader,
    /// The signed order with the signed proposals.
    pub order: Vec<u8>,
}

impl LedgerBlock {
    /// The block's bytes.
    pub fn encode(&self) -> Vec<u8> {
        CanonicalWriter::default().bytes(&self.header.encode()).bytes(&self.order).finish()
    }

    /// Reads a block. What is in it is not verified.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is none.
    pub fn decode(bytes: &[u8]) -> LedgerResult<LedgerBlock> {
        let mut reader = CanonicalReader::new(bytes, "ledger block");
        let header = BlockHeader::decode(reader.bytes()?)?;
        let order = reader.bytes()?.to_vec();
        reader.end()?;
        Ok(LedgerBlock { header, order })
    }
}
