//! Finds certified blocks of a ledger file by their heights, while the file is appended to: the places of their records, which
//! are read from the headers of all records once. So a block is read without those before it.

use crate::error::LedgerResult;
use crate::file::{LedgerFileReader, RecordKind};
use crate::verify::{CertifiedBlock, decode_block_record, decode_votes_record};
use std::path::Path;

/// The records of a certified block.
#[derive(Debug, Clone, Copy)]
struct BlockPlaces {
    block: u64,
    votes: u64,
}

/// The places of a file's certified blocks, as far as they were asked for. 16 bytes for each.
#[derive(Debug)]
pub struct BlockIndex {
    reader: LedgerFileReader,
    /// By their heights, from 1.
    places: Vec<BlockPlaces>,
    /// Where the next record begins.
    next: u64,
    /// A block whose votes have not come yet.
    prepared: Option<u64>,
}

impl BlockIndex {
    /// Opens a file.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::File`] if it is no ledger file.
    pub fn open(path: &Path) -> LedgerResult<BlockIndex> {
        let reader = LedgerFileReader::open(path)?;
        Ok(BlockIndex { reader, places: Vec::new(), next: LedgerFileReader::FIRST_PLACE, prepared: None })
    }

    /// A certified block, if the file has it. Nothing of it is verified but the checksums. The caller knows that its
    /// votes are in the file: records behind them may still be cut off and others written in their place.
    ///
    /// # Errors
    /// [`crate::error::LedgerError::File`] if its records are damaged.
    pub fn block(&mut self, height: u64) -> LedgerResult<Option<CertifiedBlock>> {
        self.read_up_to(height);
        let places = usize::try_from(height).ok().and_then(|height| self.places.get(height.checked_sub(1)?));
        let Some(places) = places else { return Ok(None) };
        let (block, votes) = (self.reader.payload_at(places.block)?, self.reader.payload_at(places.votes)?);
        let (block, _) = decode_block_record(&block)?;
        Ok(Some((block, decode_votes_record(&votes)?)))
    }

    fn read_up_to(&mut self, height: u64) {
        while (self.places.len() as u64) < height {
            let Some((kind, behind)) = self.reader.kind_at(self.next) else { return };
            match (kind, self.prepared.take()) {
                (RecordKind::Block, _) => self.prepared = Some(self.next),
                (RecordKind::Votes, Some(block)) => self.places.push(BlockPlaces { block, votes: self.next }),
                _ => {}
            }
            self.next = behind;
        }
    }
}
