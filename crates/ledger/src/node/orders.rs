//! The file of an ordering server: the signed orders, one behind the other, so that it never signs two of one height even if it
//! is killed and started again.
//!
//! ```text
//! "AnKerOrd" | version 1 (4) | network (32)
//! length (4) | CRC-32C of the order (4) | signed order
//! ...
//! ```
//! An order is synced before anybody gets it. A torn end is one that nobody has got, and is cut.

use crate::bytes::CanonicalWriter;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::message::OrderedBlock;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"AnKerOrd";
const VERSION: u32 = 1;
const HEADER_BYTES: u64 = 44;
const FRAME_BYTES: u64 = 8;

/// The longest signed order; what a ledger block is around it has to fit into a message.
pub const ORDER_BYTES_MAX: usize = 32 << 20;

/// The orders of a network, in a file.
#[derive(Debug)]
pub struct OrderFile {
    path: PathBuf,
    file: File,
    /// Where each order is, and how long it is; the first one is of height 1.
    places: Vec<(u64, u32)>,
    end: u64,
}

impl OrderFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// [`LedgerError::File`]; a file that is there is not overwritten.
    pub fn create(path: &Path, network: &LedgerHash) -> LedgerResult<()> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map_err(failed)?;
        let header = CanonicalWriter::default().fixed(MAGIC).u32(VERSION).fixed(&network.0).finish();
        file.write_all(&header).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Opens a file, verifies its orders, and shows each of them.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is not the file of this network's orders, or is damaged before its end.
    pub fn open(
        path: &Path,
        genesis: &Genesis,
        visit: &mut dyn FnMut(&OrderedBlock),
    ) -> LedgerResult<OrderFile> {
        let failed = |error: std::io::Error| LedgerError::file(path, error);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let network = genesis.network();
        let mut reader = BufReader::with_capacity(1 << 20, &file);
        let expected = CanonicalWriter::default().fixed(MAGIC).u32(VERSION).fixed(&network.0).finish();
        let mut header = [0; HEADER_BYTES as usize];
        if reader.read_exact(&mut header).is_err() || header != expected[..] {
            return Err(LedgerError::file(path, "it is not the file of this network's orders"));
        }
        let (mut places, mut end) = (Vec::new(), HEADER_BYTES);
        while length - end >= FRAME_BYTES {
            let mut frame = [0; FRAME_BYTES as usize];
            reader.read_exact(&mut frame).map_err(failed)?;
            let number =
                |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            let (bytes, sum) = (number(0), number(4));
            if bytes as usize > ORDER_BYTES_MAX || u64::from(bytes) > length - end - FRAME_BYTES {
                break;
            }
            let mut order = vec![0; bytes as usize];
            reader.read_exact(&mut order).map_err(failed)?;
            if crc32c::crc32c(&order) != sum {
                break;
            }
            let place = end + FRAME_BYTES;
            let order = OrderedBlock::verify(&order, genesis, &network)
                .map_err(|error| LedgerError::file(path, format!("at byte {end}: {error}")))?;
            places.push((place, bytes));
            if order.height != places.len() as u64 {
                let reason = format!("at byte {end}: order {} instead of {}", order.height, places.len());
                return Err(LedgerError::file(path, reason));
            }
            visit(&order);
            end = place + u64::from(bytes);
        }
        if end < length {
            file.set_len(end).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        Ok(OrderFile { path: path.to_owned(), file, places, end })
    }

    /// The last order's height.
    pub fn height(&self) -> u64 {
        self.places.len() as u64
    }

    /// Appends the order after the last one, and waits until it is on disk.
    ///
    /// # Errors
    /// [`LedgerError::File`]; nobody may get the order then.
    pub fn append(&mut self, order: &[u8]) -> LedgerResult<()> {
        let failed = |error: std::io::Error| LedgerError::file(&self.path, error);
        let mut record = CanonicalWriter::default();
        record.count(order.len()).u32(crc32c::crc32c(order)).fixed(order);
        let record = record.finish();
        let written = self.file.write_all_at(&record, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(self.end);
            return Err(failed(error));
        }
        self.places.push((self.end + FRAME_BYTES, order.len() as u32));
        self.end += record.len() as u64;
        Ok(())
    }

    /// The signed order of a height.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn read(&self, height: u64) -> LedgerResult<Option<Vec<u8>>> {
        let at = usize::try_from(height).ok().and_then(|height| height.checked_sub(1));
        let Some((place, bytes)) = at.and_then(|at| self.places.get(at)) else { return Ok(None) };
        let mut order = vec![0; *bytes as usize];
        self.file.read_exact_at(&mut order, *place).map_err(|error| LedgerError::file(&self.path, error))?;
        Ok(Some(order))
    }
}
