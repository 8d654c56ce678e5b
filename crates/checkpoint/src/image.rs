//! The bytes of a block's image.

use crate::bytes::{ByteReader, Misread};
use ankerdb_base::{BlockNumber, ColumnPosition, Error, ROWS_PER_BLOCK, Result, Timestamp};
use ankerdb_snapshot::BlockImage;
use ankerdb_table::{CellLayout, ImageColumn, ImageOfBlock};

/// Where images begin: at multiples of it.
pub(crate) const ALIGNMENT: u64 = 64;
/// Bytes of an image's header.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"IMAG";
/// More columns than a table can have.
const COLUMNS_MAX: usize = 1 << 14;

/// Which block it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BlockName {
    /// The number of its table.
    pub table: u32,
    /// Its number in the table.
    pub block: u32,
}

/// What an image's header is bound to, besides what it says.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) database: [u8; 16],
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

/// What an image's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ImageHeader {
    pub(crate) name: BlockName,
    pub(crate) timestamp: Timestamp,
    pub(crate) payload_bytes: u64,
    pub(crate) payload_checksum: u32,
    pub(crate) rows: u32,
    pub(crate) columns: u32,
}

impl ImageHeader {
    /// The image with its header at the front, for which `bytes` has room.
    pub(crate) fn put(&self, bytes: &mut [u8], site: &Site) {
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.name.table.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.name.block.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.timestamp.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.rows.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.columns.to_le_bytes());
        bytes[44..HEADER_BYTES].fill(0);
        let checksum = checksum(&bytes[8..HEADER_BYTES], site);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8], site: &Site) -> Option<ImageHeader> {
        let mut reader = ByteReader(bytes.get(4..HEADER_BYTES)?);
        let known = reader.u32().ok()?;
        if bytes[..4] != MAGIC || known != checksum(&bytes[8..HEADER_BYTES], site) {
            return None;
        }
        let read = |reader: &mut ByteReader<'_>| -> std::result::Result<ImageHeader, Misread> {
            Ok(ImageHeader {
                name: BlockName { table: reader.u32()?, block: reader.u32()? },
                timestamp: Timestamp(reader.u64()?),
                payload_bytes: reader.u64()?,
                payload_checksum: reader.u32()?,
                rows: reader.u32()?,
                columns: reader.u32()?,
            })
        };
        read(&mut reader).ok()
    }
}

/// The checksum that an image's header says: of the header, and with that of what the payload is.
pub(crate) fn header_checksum(header: &[u8; HEADER_BYTES]) -> u32 {
    header[4..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Of a header's bytes and the place where they lie.
fn checksum(bytes: &[u8], site: &Site) -> u32 {
    let mut sum = crc32c::crc32c(bytes);
    sum = crc32c::crc32c_append(sum, &site.database);
    sum = crc32c::crc32c_append(sum, &site.file.to_le_bytes());
    crc32c::crc32c_append(sum, &site.offset.to_le_bytes())
}

/// Writes an image behind room for its header into `out`, which is emptied first. `layouts` are those of the columns, all of which the
/// image has.
///
/// # Errors
/// 53200 without memory; 54000 for a string of 4 GiB.
pub(crate) fn encode(image: &BlockImage, layouts: &[CellLayout], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let (rows, words) = (image.rows, image.rows.div_ceil(64));
    let fixed: usize = layouts.iter().map(|layout| layout.bytes(rows) + words * 8 + 40).sum();
    make_room(out, HEADER_BYTES + words * 8 + fixed)?;
    out.resize(HEADER_BYTES, 0);
    for word in 0..words {
        let all = if (word + 1) * 64 <= rows { u64::MAX } else { (1 << (rows % 64)) - 1 };
        let bits = image.selection.as_ref().map_or(all, |bits| bits[word] & all);
        out.extend_from_slice(&bits.to_le_bytes());
    }
    for (column, &layout) in layouts.iter().enumerate() {
        let cells = &image.columns[column];
        let is_string = layout == CellLayout::View;
        let validity = cells.validity_bytes();
        out.extend_from_slice(&[tag(layout), u8::from(validity.is_some()), 0, 0, 0, 0, 0, 0]);
        let length_at = out.len();
        out.extend_from_slice(&[0; 8]);
        if let Some(bits) = validity {
            out.extend_from_slice(&bits[..words * 8]);
        }
        if is_string {
            let strings = encode_strings(image, ColumnPosition(column), out)?;
            out[length_at..length_at + 8].copy_from_slice(&strings.to_le_bytes());
        } else {
            out.extend_from_slice(&cells.value_bytes()[..layout.bytes(rows)]);
        }
        out.resize(out.len().next_multiple_of(8), 0);
    }
    Ok(())
}

/// Lengths, then bytes; returns how many bytes there are.
fn encode_strings(image: &BlockImage, column: ColumnPosition, out: &mut Vec<u8>) -> Result<u64> {
    let (start, mut bytes) = (out.len(), 0u64);
    make_room(out, (image.rows * 4).next_multiple_of(8))?;
    for row in 0..image.rows {
        let length = image.string(column, row).map_or(0, <[u8]>::len);
        let length = u32::try_from(length).map_err(|_| Error::out_of_memory(length))?;
        out.extend_from_slice(&length.to_le_bytes());
        bytes += u64::from(length);
    }
    out.resize(start + (image.rows * 4).next_multiple_of(8), 0);
    make_room(out, bytes as usize + 8)?;
    for row in 0..image.rows {
        out.extend_from_slice(image.string(column, row).unwrap_or_default());
    }
    Ok(bytes)
}

fn make_room(out: &mut Vec<u8>, bytes: usize) -> Result<()> {
    out.try_reserve(bytes).map_err(|_| Error::out_of_memory(out.len() + bytes))
}

/// Reads an image's payload, whose checksum is right.
pub(crate) fn decode<'a>(
    header: &ImageHeader,
    payload: &'a [u8],
    columns: &'a mut Vec<ImageColumn<'a>>,
) -> std::result::Result<ImageOfBlock<'a>, Misread> {
    let rows = header.rows as usize;
    if rows > ROWS_PER_BLOCK || header.columns as usize > COLUMNS_MAX {
        return Err(Misread);
    }
    let mut reader = ByteReader(payload);
    let words = rows.div_ceil(64) as u64 * 8;
    let exists = reader.take(words)?;
    for _ in 0..header.columns {
        let (layout, has_validity) = (layout_of(reader.byte()?)?, reader.byte()?);
        reader.take(6)?;
        let strings_bytes = reader.u64()?;
        let validity = (has_validity == 1).then(|| reader.take(words)).transpose()?;
        let is_string = layout == CellLayout::View;
        let length = if is_string { rows * 4 } else { layout.bytes(rows) };
        let values = &reader.take(length.next_multiple_of(8) as u64)?[..length];
        let padded = strings_bytes.checked_next_multiple_of(8).ok_or(Misread)?;
        let strings = &reader.take(padded)?[..strings_bytes as usize];
        columns.push(ImageColumn { layout, validity, values, strings });
    }
    let number = BlockNumber(header.name.block as usize);
    if !reader.0.is_empty() {
        return Err(Misread);
    }
    Ok(ImageOfBlock { number, timestamp: header.timestamp, rows, exists, columns })
}

fn tag(layout: CellLayout) -> u8 {
    match layout {
        CellLayout::Bit => 1,
        CellLayout::Half => 2,
        CellLayout::Quad => 3,
        CellLayout::Word => 4,
        CellLayout::Wide => 5,
        CellLayout::View => 6,
    }
}

fn layout_of(tag: u8) -> std::result::Result<CellLayout, Misread> {
    Ok(match tag {
        1 => CellLayout::Bit,
        2 => CellLayout::Half,
        3 => CellLayout::Quad,
        4 => CellLayout::Word,
        5 => CellLayout::Wide,
        6 => CellLayout::View,
        _ => return Err(Misread),
    })
}
