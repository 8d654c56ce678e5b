//! Verification of a ledger file by somebody who has nothing else: no database, no network, no key but those in the founding
//! document, whose hash names the network.
//!
//! Proved are the checksums, the chain of hashes, the signatures of clients, the ordering service and the members that voted,
//! the quorum of every block, the Merkle roots, that repeated and refused transactions have not succeeded, and that definitions
//! were alone. Not proved is what only a database could show: that the rows are what the state's hash says.

use crate::block::{BlockHeader, LedgerBlock};
use crate::bytes::CanonicalReader;
use crate::chain::{CheckedOrder, LedgerChain};
use crate::error::{LedgerError, LedgerResult};
use crate::file::{FileEnd, RecordKind, visit_records};
use crate::genesis::Genesis;
use crate::message::Vote;
use std::path::Path;

/// A block that its member has voted for, and that has no quorum yet.
#[derive(Debug)]
pub struct PreparedBlock {
    /// The block.
    pub block: LedgerBlock,
    /// The order in it.
    pub checked: CheckedOrder,
    /// The member's own vote.
    pub vote: Vote,
}

/// A block that its member voted for and that did not get the quorum.
#[derive(Debug, Clone)]
pub struct SupersededBlock {
    /// The header that was voted for.
    pub header: BlockHeader,
}

/// Builds a chain from the records of a file, and verifies each of them.
#[derive(Debug, Default)]
pub struct FileVerifier {
    /// The chain; there from the first record on.
    pub chain: Option<LedgerChain>,
    /// The last block, if it has no quorum.
    pub prepared: Option<PreparedBlock>,
    /// Blocks that others had differently.
    pub superseded: Vec<SupersededBlock>,
    /// Whose file it is, by its place in the founding document.
    pub member: Option<u32>,
    /// Transactions in all blocks.
    pub transactions: u64,
    /// Those of them that have succeeded.
    pub succeeded: u64,
    /// Votes that made blocks count.
    pub votes: u64,
}

/// Splits the payload of a block's record.
pub(crate) fn decode_block_record(payload: &[u8]) -> LedgerResult<(LedgerBlock, &[u8])> {
    let mut reader = CanonicalReader::new(payload, "record of a block");
    let block = LedgerBlock::decode(reader.bytes()?)?;
    let vote = reader.bytes()?;
    reader.end()?;
    Ok((block, vote))
}

/// The votes of a record.
pub(crate) fn decode_votes_record(payload: &[u8]) -> LedgerResult<Vec<Vec<u8>>> {
    let mut reader = CanonicalReader::new(payload, "record of votes");
    let mut votes = Vec::new();
    for _ in 0..reader.count()? {
        votes.push(reader.bytes()?.to_vec());
    }
    reader.end()?;
    Ok(votes)
}

impl FileVerifier {
    /// Verifies the next record.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], [`LedgerError::Untrusted`] or [`LedgerError::NoQuorum`] with what is wrong.
    pub fn record(&mut self, kind: RecordKind, payload: &[u8]) -> LedgerResult<()> {
        let Some(chain) = &self.chain else {
            if kind != RecordKind::Genesis {
                return Err(LedgerError::Malformed("the first record is not the founding document".into()));
            }
            self.chain = Some(LedgerChain::new(Genesis::decode(payload)?));
            return Ok(());
        };
        match kind {
            RecordKind::Genesis => Err(LedgerError::Malformed("a second founding document".into())),
            RecordKind::Block => {
                let prepared = self.check_block(chain, payload)?;
                self.member = Some(prepared.vote.member);
                self.supersede();
                self.prepared = Some(prepared);
                Ok(())
            }
            RecordKind::Votes => {
                let Some(prepared) = self.prepared.take() else {
                    return Err(LedgerError::Malformed("votes for no block".into()));
                };
                self.votes +=
                    chain.check_votes(&prepared.block.header, &decode_votes_record(payload)?)? as u64;
                self.transactions += prepared.block.header.outcomes.count() as u64;
                self.succeeded += prepared.block.header.outcomes.succeeded() as u64;
                let chain = self.chain.as_mut().expect("it is there from the first record on");
                chain.advance(&prepared.checked, &prepared.block.header);
                Ok(())
            }
        }
    }

    fn check_block(&self, chain: &LedgerChain, payload: &[u8]) -> LedgerResult<PreparedBlock> {
        let (block, vote) = decode_block_record(payload)?;
        let checked = chain.check(&block.order)?;
        chain.check_header(&checked, &block.header)?;
        let vote = Vote::verify(vote, &chain.genesis, &chain.network)?;
        if vote.header != block.header || self.member.is_some_and(|member| member != vote.member) {
            let reason = format!(
                "block {}: the vote beside it is for another one, or another member's",
                block.header.height
            );
            return Err(LedgerError::Untrusted(reason));
        }
        Ok(PreparedBlock { block, checked, vote })
    }

    fn supersede(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.superseded.push(SupersededBlock { header: prepared.block.header });
        }
    }

    /// The chain of a file that has been read.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if there was no record.
    pub fn chain(&self) -> LedgerResult<&LedgerChain> {
        self.chain.as_ref().ok_or_else(|| LedgerError::Malformed("the file has no founding document".into()))
    }
}

/// Verifies a file.
///
/// # Errors
/// [`LedgerError::File`] if it cannot be read or is damaged, and what [`FileVerifier::record`] finds, with the place in the
/// file.
pub fn verify_file(path: &Path) -> LedgerResult<(FileVerifier, FileEnd)> {
    let mut verifier = FileVerifier::default();
    let end = visit_records(path, &mut |kind, payload, place| {
        let found = verifier.record(kind, payload);
        found.map_err(|error| LedgerError::file(path, format!("at byte {place}: {error}")))
    })?;
    verifier.chain()?;
    Ok((verifier, end))
}

/// A block with the votes by which it counts.
pub type CertifiedBlock = (LedgerBlock, Vec<Vec<u8>>);

/// Shows the blocks above a height that have their votes, in their order. They are not verified.
///
/// # Errors
/// Those of [`visit_records`] and of `visit`.
pub fn visit_blocks(
    path: &Path,
    above: u64,
    visit: &mut dyn FnMut(CertifiedBlock) -> LedgerResult<()>,
) -> LedgerResult<()> {
    let mut last = None;
    visit_records(path, &mut |kind, payload, _| match (kind, last.take()) {
        (RecordKind::Block, _) => {
            let (block, _) = decode_block_record(payload)?;
            last = Some(block).filter(|block| block.header.height > above);
            Ok(())
        }
        (RecordKind::Votes, Some(block)) => visit((block, decode_votes_record(payload)?)),
        _ => Ok(()),
    })
    .map(drop)
}
