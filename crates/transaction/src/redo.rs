//! Redo: what a commit did to rows, as bytes of the log, and back.
//!
//! ```text
//! record    number of the large transaction: 8 bytes, 0 if all is in this record | a piece
//! pieces    those of a number, joined: length of definitions: 4 bytes | definitions | changes
//! changes   one behind the other:
//!           0  table                              the changes that follow are of this table, by its number
//!           1  row  count  cell ...               insertion
//!           2  row  count  (column  cell) ...     new cells
//!           3  row                                deletion
//! cell      0 NULL | 1 length bytes | 2 sixteen bytes | 3 to 10: a word's 1 to 8 lower bytes
//!           11 to 74: 0 to 63 bytes follow | 75 to 255: a word of 0 to 180
//! ```
//!
//! The last piece is the commit's own record; the others went ahead of it. They are cut anywhere, so that a row may be longer than a record.
//!
//! Numbers, lengths, rows and columns are LEB128. Words are zigzag: small ones, also below zero, are few bytes. A row is its place; a table
//! its number in the database. Changes of a commit are in the order of its write set, no row twice.

use ankerdb_base::{Error, Result, RowId, SqlState, failpoint};
use ankerdb_table::{Cell, MAX_COLUMNS, RestoredChange};

/// A commit.
pub const COMMIT: u8 = 1;
/// Changes ahead of their commit.
pub const PART: u8 = 2;

const TABLE: u8 = 0;
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;

const NULL: u8 = 0;
const BYTES: u8 = 1;
const WIDE: u8 = 2;
/// And the seven behind it: words.
const WORD: u8 = 3;
const SHORT: u8 = 11;
const SHORT_MAX: usize = 63;
const SMALL: u8 = 75;
const SMALL_MAX: u64 = (u8::MAX - SMALL) as u64;

/// Bytes of a record before its piece.
const HEAD: usize = 8;
/// Bytes that a number takes at most.
const NUMBER_BYTES: usize = 10;

/// Appends changes to bytes for which there is room.
#[derive(Default)]
pub(crate) struct RedoWriter {
    pub bytes: Vec<u8>,
    /// The table of the last change, from which on the next one is of the same.
    table: Option<u32>,
}

impl RedoWriter {
    /// Begins a commit that changes these definitions.
    pub(crate) fn begin(&mut self, definitions: &[u8]) -> Result<()> {
        let length = u32::try_from(definitions.len());
        let length = length.map_err(|_| Error::out_of_memory(definitions.len()))?;
        self.bytes.clear();
        self.table = None;
        self.make_room(HEAD + 4 + definitions.len())?;
        self.bytes.resize(HEAD, 0);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(definitions);
        Ok(())
    }

    /// Whether the commit that was begun changes nothing so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() <= HEAD + 4
    }

    /// Hands what there is to `send` in records of the transaction with this number, each no longer than `length`, and goes on behind
    /// that.
    pub(crate) fn send_pieces(
        &mut self,
        number: u64,
        length: usize,
        mut send: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut sent = HEAD;
        while sent < self.bytes.len() {
            let end = self.bytes.len().min(sent + length - HEAD);
            // What lay there has been sent.
            self.bytes[sent - HEAD..sent].copy_from_slice(&number.to_le_bytes());
            send(&self.bytes[sent - HEAD..end])?;
            sent = end;
        }
        self.bytes.truncate(HEAD);
        Ok(())
    }

    /// The commit's own record.
    pub(crate) fn finish(&mut self, number: u64) -> &[u8] {
        self.bytes[..HEAD].copy_from_slice(&number.to_le_bytes());
        &self.bytes
    }

    /// Begins an insertion of so many cells.
    pub(crate) fn insert(&mut self, table: u32, row: RowId, cells: usize) -> Result<()> {
        self.head(table, INSERT, row)?;
        self.number(cells as u64);
        Ok(())
    }

    /// Begins a change of so many cells.
    pub(crate) fn update(&mut self, table: u32, row: RowId, cells: usize) -> Result<()> {
        self.head(table, UPDATE, row)?;
        self.number(cells as u64);
        Ok(())
    }

    /// A deletion.
    pub(crate) fn delete(&mut self, table: u32, row: RowId) -> Result<()> {
        self.head(table, DELETE, row)
    }

    /// The column of the next cell.
    pub(crate) fn column(&mut self, column: usize) -> Result<()> {
        self.make_room(NUMBER_BYTES)?;
        self.number(column as u64);
        Ok(())
    }

    /// A cell.
    #[inline]
    pub(crate) fn cell(&mut self, cell: Cell<'_>) -> Result<()> {
        match cell {
            Cell::Bytes(bytes) => {
                self.make_room(NUMBER_BYTES + 1 + bytes.len())?;
                if bytes.len() <= SHORT_MAX {
                    self.bytes.push(SHORT + bytes.len() as u8);
                } else {
                    self.bytes.push(BYTES);
                    self.number(bytes.len() as u64);
                }
                self.bytes.extend_from_slice(bytes);
            }
            _ => self.make_room(17)?,
        }
        match cell {
            Cell::Null => self.bytes.push(NULL),
            Cell::Word(word) => {
                let zigzag = (word << 1) ^ ((word as i64) >> 63) as u64;
                if zigzag <= SMALL_MAX {
                    self.bytes.push(SMALL + zigzag as u8);
                } else {
                    let length = (8 - zigzag.leading_zeros() as usize / 8).max(1);
                    self.bytes.push(WORD + length as u8 - 1);
                    self.bytes.extend_from_slice(&zigzag.to_le_bytes()[..length]);
                }
            }
            Cell::Wide(wide) => {
                self.bytes.push(WIDE);
                self.bytes.extend_from_slice(&wide.to_le_bytes());
            }
            Cell::Bytes(_) => {}
        }
        Ok(())
    }

    fn head(&mut self, table: u32, kind: u8, row: RowId) -> Result<()> {
        self.make_room(3 * NUMBER_BYTES + 2)?;
        if self.table != Some(table) {
            self.table = Some(table);
            self.bytes.push(TABLE);
            self.number(u64::from(table));
        }
        self.bytes.push(kind);
        self.number(row.0);
        Ok(())
    }

    fn make_room(&mut self, bytes: usize) -> Result<()> {
        failpoint::reach("memory for a record")?;
        if self.bytes.capacity() - self.bytes.len() >= bytes {
            return Ok(());
        }
        self.bytes.try_reserve(bytes).map_err(|_| Error::out_of_memory(self.bytes.len() + bytes))
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// The number of the large transaction that a record of a [`COMMIT`] or a [`PART`] is of, if it is of one, and its piece.
///
/// # Errors
/// `DataCorrupted`.
pub fn read_record(record: &[u8]) -> Result<(Option<u64>, &[u8])> {
    let (number, piece) = record.split_first_chunk().ok_or_else(damaged)?;
    let number = u64::from_le_bytes(*number);
    Ok(((number > 0).then_some(number), piece))
}

/// Definitions, and where in the first pieces they end.
///
/// # Errors
/// `DataCorrupted`.
pub fn read_definitions<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        if let Some((length, rest)) = bytes.split_first_chunk()
            && let Some(definitions) = rest.get(..u32::from_le_bytes(*length) as usize)
        {
            return Ok(definitions.to_vec());
        }
    }
    Err(damaged())
}

/// Shows `visit` each change of a commit that is wanted: the number of its table, the place of its row, what happened to it. Copies
/// nothing but what lies across two pieces. Passing over a change costs some nanoseconds for each cell.
///
/// # Errors
/// `DataCorrupted`, and those of `visit`.
pub fn visit_changes<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    is_wanted: impl Fn(u32, RowId) -> bool,
    mut visit: impl FnMut(u32, RowId, RestoredChange<'_>) -> Result<()>,
) -> Result<()> {
    let (mut changes, mut rest) = (Changes::default(), Vec::new());
    for piece in pieces {
        if rest.is_empty() {
            let read = changes.visit(piece, &is_wanted, &mut visit)?;
            rest.extend_from_slice(&piece[read..]);
        } else {
            rest.extend_from_slice(piece);
            let read = changes.visit(&rest, &is_wanted, &mut visit)?;
            rest.drain(..read);
        }
    }
    if rest.is_empty() && changes.is_begun { Ok(()) } else { Err(damaged()) }
}

/// The reading of changes, from one piece to the next.
#[derive(Default)]
struct Changes {
    /// Whether the definitions have been passed.
    is_begun: bool,
    table: Option<u32>,
}

impl Changes {
    /// Visits the changes that are there as a whole; returns how many bytes they take.
    fn visit(
        &mut self,
        bytes: &[u8],
        is_wanted: &impl Fn(u32, RowId) -> bool,
        visit: &mut impl FnMut(u32, RowId, RestoredChange<'_>) -> Result<()>,
    ) -> Result<usize> {
        let mut reader = Reader(bytes);
        let (mut cells, mut updated) = (Vec::new(), Vec::new());
        loop {
            let read = bytes.len() - reader.0.len();
            if reader.0.is_empty() && self.is_begun {
                return Ok(read);
            }
            match self.step(&mut reader, is_wanted, &mut cells, &mut updated) {
                Ok(None) => {}
                Ok(Some((table, row, kind))) => {
                    let change = match kind {
                        INSERT => RestoredChange::Insert(&cells),
                        UPDATE => RestoredChange::Update(&updated),
                        _ => RestoredChange::Delete,
                    };
                    visit(table, row, change)?;
                }
                Err(Stop::Short) => return Ok(read),
                Err(Stop::Damaged) => return Err(damaged()),
            }
        }
    }

    /// The next change, if it is one that is wanted.
    fn step<'b>(
        &mut self,
        reader: &mut Reader<'b>,
        is_wanted: &impl Fn(u32, RowId) -> bool,
        cells: &mut Vec<Cell<'b>>,
        updated: &mut Vec<(usize, Cell<'b>)>,
    ) -> std::result::Result<Option<(u32, RowId, u8)>, Stop> {
        if !self.is_begun {
            let length = reader.take(4)?.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
            reader.take(length as usize)?;
            self.is_begun = true;
            return Ok(None);
        }
        let kind = reader.next()?;
        if kind == TABLE {
            self.table = Some(u32::try_from(reader.number()?).map_err(|_| Stop::Damaged)?);
            return Ok(None);
        }
        let (table, row) = (self.table.ok_or(Stop::Damaged)?, RowId(reader.number()?));
        if !is_wanted(table, row) {
            return reader.pass_over(kind).map(|()| None);
        }
        match kind {
            INSERT => {
                cells.clear();
                for _ in 0..reader.count()? {
                    cells.push(reader.cell()?);
                }
            }
            UPDATE => {
                updated.clear();
                for _ in 0..reader.count()? {
                    updated.push((reader.number()? as usize, reader.cell()?));
                }
            }
            DELETE => {}
            _ => return Err(Stop::Damaged),
        }
        Ok(Some((table, row, kind)))
    }
}

/// Why reading does not go on.
enum Stop {
    /// The rest is in the next piece.
    Short,
    Damaged,
}

/// What is left.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self) -> std::result::Result<u8, Stop> {
        let (first, rest) = self.0.split_first().ok_or(Stop::Short)?;
        self.0 = rest;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> std::result::Result<&'a [u8], Stop> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Stop::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> std::result::Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.next()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::Damaged)
    }

    /// How many cells there are.
    fn count(&mut self) -> std::result::Result<usize, Stop> {
        let count = self.number()?;
        if count > MAX_COLUMNS as u64 { Err(Stop::Damaged) } else { Ok(count as usize) }
    }

    /// Passes over the rest of a change.
    fn pass_over(&mut self, kind: u8) -> std::result::Result<(), Stop> {
        let count = match kind {
            INSERT | UPDATE => self.count()?,
            DELETE => 0,
            _ => return Err(Stop::Damaged),
        };
        for _ in 0..count {
            if kind == UPDATE {
                self.number()?;
            }
            let bytes = match self.next()? {
                NULL => 0,
                BYTES => self.number()?,
                WIDE => 16,
                tag @ WORD..SHORT => u64::from(tag - WORD) + 1,
                tag @ SHORT..SMALL => u64::from(tag - SHORT),
                _ => 0,
            };
            self.take(usize::try_from(bytes).map_err(|_| Stop::Damaged)?)?;
        }
        Ok(())
    }

    #[inline]
    fn cell(&mut self) -> std::result::Result<Cell<'a>, Stop> {
        Ok(match self.next()? {
            NULL => Cell::Null,
            BYTES => {
                let length = self.number()?;
                Cell::Bytes(self.take(usize::try_from(length).map_err(|_| Stop::Damaged)?)?)
            }
            WIDE => {
                let bytes = self.take(16)?.first_chunk().expect("sixteen were taken");
                Cell::Wide(u128::from_le_bytes(*bytes))
            }
            tag @ WORD..SHORT => {
                let length = usize::from(tag - WORD) + 1;
                let mut bytes = [0; 8];
                bytes[..length].copy_from_slice(self.take(length)?);
                Cell::Word(straight(u64::from_le_bytes(bytes)))
            }
            tag @ SHORT..SMALL => Cell::Bytes(self.take(usize::from(tag - SHORT))?),
            tag => Cell::Word(straight(u64::from(tag - SMALL))),
        })
    }
}

fn straight(zigzag: u64) -> u64 {
    (zigzag >> 1) ^ (zigzag & 1).wrapping_neg()
}

#[cold]
fn damaged() -> Error {
    Error::new(SqlState::DataCorrupted, "a record of the log does not say what a record says")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, PartialEq, Debug)]
    enum Owned {
        Insert(Vec<ankerdb_table::OwnedCell>),
        Update(Vec<(usize, ankerdb_table::OwnedCell)>),
        Delete,
    }

    fn owned(change: RestoredChange<'_>) -> Owned {
        match change {
            RestoredChange::Insert(cells) => {
                Owned::Insert(cells.iter().copied().map(Cell::to_owned).collect())
            }
            RestoredChange::Update(cells) => {
                Owned::Update(cells.iter().map(|&(column, cell)| (column, Cell::to_owned(cell))).collect())
            }
            RestoredChange::Delete => Owned::Delete,
        }
    }

    fn cells() -> impl Strategy<Value = ankerdb_table::OwnedCell> {
        let edges = [0, 1, -1, 90, -90, 91, 127, 255, 256, i64::MAX, i64::MIN];
        prop_oneof![
            Just(Cell::Null.to_owned()),
            prop::sample::select(edges.to_vec()).prop_map(|word| Cell::bigint(word).to_owned()),
            any::<u64>().prop_map(|word| Cell::Word(word).to_owned()),
            any::<u128>().prop_map(|wide| Cell::Wide(wide).to_owned()),
            prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Cell::Bytes(&bytes).to_owned()),
        ]
    }

    fn changes() -> impl Strategy<Value = Vec<(u32, RowId, Owned)>> {
        let change = prop_oneof![
            prop::collection::vec(cells(), 0..8).prop_map(Owned::Insert),
            prop::collection::vec((0usize..1_600, cells()), 0..8).prop_map(Owned::Update),
            Just(Owned::Delete),
        ];
        prop::collection::vec((0u32..3, any::<u32>().prop_map(|row| RowId(row.into())), change), 0..20)
    }

    fn write(redo: &mut RedoWriter, changes: &[(u32, RowId, Owned)]) {
        for (table, row, change) in changes {
            match change {
                Owned::Insert(cells) => {
                    redo.insert(*table, *row, cells.len()).unwrap();
                    cells.iter().for_each(|cell| redo.cell(cell.borrow()).unwrap());
                }
                Owned::Update(cells) => {
                    redo.update(*table, *row, cells.len()).unwrap();
                    for (column, cell) in cells {
                        redo.column(*column).unwrap();
                        redo.cell(cell.borrow()).unwrap();
                    }
                }
                Owned::Delete => redo.delete(*table, *row).unwrap(),
            }
        }
    }

    /// The records that changes are told with, in pieces of so many bytes.
    fn records(changes: &[(u32, RowId, Owned)], image: &[u8], length: usize) -> Vec<Vec<u8>> {
        let (mut redo, mut records) = (RedoWriter::default(), Vec::new());
        redo.begin(image).unwrap();
        let (first, second) = changes.split_at(changes.len() / 2);
        write(&mut redo, first);
        let send = |record: &[u8]| {
            records.push(record.to_vec());
            Ok(())
        };
        redo.send_pieces(7, length, send).unwrap();
        write(&mut redo, second);
        records.push(redo.finish(7).to_vec());
        records
    }

    proptest! {
        #[test]
        fn changes_come_back(changes in changes(), length in 9usize..300, image in prop::collection::vec(any::<u8>(), 0..30)) {
            let records = records(&changes, &image, length);
            let pieces: Vec<&[u8]> = records.iter().map(|record| read_record(record).unwrap().1).collect();
            prop_assert!(records.iter().all(|record| read_record(record).unwrap().0 == Some(7)));
            prop_assert_eq!(read_definitions(pieces.iter().copied()).unwrap(), image);
            let mut found = Vec::new();
            visit_changes(pieces.iter().copied(), |_, _| true, |table, row, change| {
                found.push((table, row, owned(change)));
                Ok(())
            }).unwrap();
            prop_assert_eq!(&found, &changes);
            let is_even = |row: RowId| row.0.is_multiple_of(2);
            let mut some = Vec::new();
            visit_changes(pieces, |_, row| is_even(row), |table, row, change| {
                some.push((table, row, owned(change)));
                Ok(())
            }).unwrap();
            found.retain(|(_, row, _)| is_even(*row));
            prop_assert_eq!(some, found);
        }

        #[test]
        fn damaged_records_are_read_as_something_or_refused(changes in changes(), at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
            let mut records = records(&changes, b"image", 100);
            let place = at % records.len();
            let record = &mut records[place];
            let at = at / 7 % record.len();
            record[at] = byte;
            record.truncate(cut % (record.len() + 1));
            let pieces: Vec<&[u8]> = records.iter().filter_map(|record| Some(read_record(record).ok()?.1)).collect();
            let _ = read_definitions(pieces.iter().copied());
            let _ = visit_changes(pieces.iter().copied(), |_, _| true, |_, _, _| Ok(()));
            let _ = visit_changes(pieces, |_, _| false, |_, _, _| Ok(()));
        }
    }

    #[test]
    fn what_ends_in_the_middle_is_damaged() {
        let changes = [(1, RowId(5), Owned::Insert(vec![Cell::Bytes(b"abc").to_owned()]))];
        let record = records(&changes, b"", 100).pop().unwrap();
        let piece = read_record(&record).unwrap().1;
        let state = |pieces: &[&[u8]]| {
            visit_changes(pieces.iter().copied(), |_, _| true, |_, _, _| Ok(()))
                .map_err(|error| error.state())
        };
        assert_eq!(state(&[&[0, 0, 0, 0], piece]), Ok(()));
        assert_eq!(state(&[&[0, 0, 0, 0], &piece[..piece.len() - 1]]), Err(SqlState::DataCorrupted));
        assert_eq!(state(&[]), Err(SqlState::DataCorrupted));
    }

    #[test]
    fn small_things_are_few_bytes() {
        let mut redo = RedoWriter::default();
        redo.insert(5, RowId(100), 4).unwrap();
        for cell in [Cell::bigint(-90), Cell::bigint(1_000), Cell::Bytes(b"abc"), Cell::Null] {
            redo.cell(cell).unwrap();
        }
        assert_eq!(redo.bytes.len(), 2 + 1 + 1 + 1 + 1 + 3 + 4 + 1);
    }
}
