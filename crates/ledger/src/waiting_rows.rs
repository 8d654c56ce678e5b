//! Rows of a donor that wait until it is known whether they add up to what the ledger certifies. Some are in memory; where they are
//! many the others are in a file beside the ledger's, which has no name any more when it is opened, and goes with the process.
//!
//! ```text
//! length (8) | Bytes(table) | List of Bytes(key) | List of Bytes(row)
//! ...
//! ```

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::comparison::DonatedRows;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::value::{decode_row, encode_row};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Rows of a donor that wait.
pub struct WaitingRows {
    path: PathBuf,
    /// How many bytes of rows are in memory at most.
    kept: usize,
    bytes: usize,
    first: Vec<DonatedRows>,
    rest: Option<BufWriter<File>>,
}

impl WaitingRows {
    /// Nothing waits. What is too much for the memory will be in a file of this name, which is removed at once.
    pub fn new(path: &Path, kept: usize) -> WaitingRows {
        WaitingRows { path: path.to_owned(), kept, bytes: 0, first: Vec::new(), rest: None }
    }

    fn failed(&self, error: &std::io::Error) -> LedgerError {
        LedgerError::file(
            &self.path,
            format!("rows for a repair could not wait in it: {error}; nothing was repaired"),
        )
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`LedgerError::File`].
    pub fn add(&mut self, donated: DonatedRows) -> LedgerResult<()> {
        self.bytes += donated.keys.iter().map(Vec::len).sum::<usize>();
        self.bytes += donated.rows.iter().flatten().flatten().map(Vec::len).sum::<usize>();
        if self.bytes <= self.kept {
            self.first.push(donated);
            return Ok(());
        }
        let mut writer = CanonicalWriter::default();
        writer.bytes(donated.table.as_bytes()).count(donated.keys.len());
        for key in &donated.keys {
            writer.bytes(key);
        }
        writer.count(donated.rows.len());
        for row in &donated.rows {
            writer.bytes(&encode_row(row));
        }
        let record = writer.finish();
        self.append(&record).map_err(|error| self.failed(&error))
    }

    fn append(&mut self, record: &[u8]) -> std::io::Result<()> {
        if self.rest.is_none() {
            let mut options = OpenOptions::new();
            let file = options.create(true).truncate(true).read(true).write(true).open(&self.path)?;
            std::fs::remove_file(&self.path)?;
            self.rest = Some(BufWriter::with_capacity(1 << 20, file));
        }
        let Some(file) = &mut self.rest else { return Ok(()) };
        file.write_all(&(record.len() as u64).to_be_bytes())?;
        file.write_all(record)
    }

    /// Shows all rows in the order in which they were added.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Malformed`]; and that of `show`.
    pub fn visit(
        &mut self,
        tables: &BTreeMap<String, SharedTable>,
        show: &mut dyn FnMut(&SharedTable, &DonatedRows) -> LedgerResult<()>,
    ) -> LedgerResult<()> {
        for donated in &self.first {
            if let Some(table) = tables.get(&donated.table) {
                show(table, donated)?;
            }
        }
        let Some(mut file) = self.rest.take() else { return Ok(()) };
        let rewound = file.flush().and_then(|()| file.get_mut().seek(SeekFrom::Start(0)));
        let length = file.get_ref().metadata().map(|metadata| metadata.len());
        let (length, _) =
            length.and_then(|length| Ok((length, rewound?))).map_err(|error| self.failed(&error))?;
        let mut reader = BufReader::with_capacity(1 << 20, file.get_ref());
        let mut at = 0;
        while at < length {
            let record = read_record(&mut reader).map_err(|error| self.failed(&error))?;
            at += 8 + record.len() as u64;
            let (table, donated) = decode(&record, tables)?;
            show(table, &donated)?;
        }
        self.rest = Some(file);
        Ok(())
    }
}

fn read_record(reader: &mut BufReader<&File>) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    reader.read_exact(&mut length)?;
    let mut record = vec![0; u64::from_be_bytes(length) as usize];
    reader.read_exact(&mut record)?;
    Ok(record)
}

fn decode<'a>(
    record: &[u8],
    tables: &'a BTreeMap<String, SharedTable>,
) -> LedgerResult<(&'a SharedTable, DonatedRows)> {
    let mut reader = CanonicalReader::new(record, "rows that wait for a repair");
    let name = String::from_utf8_lossy(reader.bytes()?).into_owned();
    let Some(table) = tables.get(&name) else {
        return Err(LedgerError::Malformed(format!("rows for \"{name}\", no shared table")));
    };
    let mut donated = DonatedRows { table: name, ..DonatedRows::default() };
    for _ in 0..reader.count()? {
        donated.keys.push(reader.bytes()?.to_vec());
    }
    for _ in 0..reader.count()? {
        donated.rows.push(decode_row(reader.bytes()?, table.columns.len())?);
    }
    reader.end()?;
    Ok((table, donated))
}
