//! Rows as tuples of words, all of one length.
//!
//! ```text
//! smallint, integer      half a word, the first of a pair low; NULL is the least i32
//! numeric, timestamp     a word: digits, microseconds; NULL is the least i64
//! char(n), varchar(n)    n bytes in whole words, zeros after the text
//! ```
//!
//! Columns lie in their order, but a small one takes the half that another one has left. Where a field is, is looked up once:
//! fields are small values that are copied.

use crate::tpcc::label::Label;
use ankerdb_engine::{Cell, DataType, Error, Result, SqlState, TableDefinition};
use ankerdb_serial::Change;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD_BYTES: usize = 8;
/// The most digits of a numeric that is a word.
const DIGITS_MAX: u8 = 18;

/// Words that can be read.
pub trait Words {
    /// The word at a place; panics if there is none.
    fn word(&self, at: usize) -> u64;
}

impl Words for [AtomicU64] {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self[at].load(Relaxed)
    }
}

impl Words for [u64] {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self[at]
    }
}

impl Words for Change<'_> {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.get(at)
    }
}

/// The place of a smallint or integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Small {
    word: u16,
    shift: u8,
}

impl Small {
    /// How NULL is stored.
    pub const NULL: i32 = i32::MIN;

    /// The number.
    #[inline]
    pub fn get<W: Words + ?Sized>(self, tuple: &W) -> i32 {
        (tuple.word(self.word.into()) >> self.shift) as u32 as i32
    }

    fn merged(self, word: u64, number: i32) -> u64 {
        word & !(u64::from(u32::MAX) << self.shift) | u64::from(number as u32) << self.shift
    }

    /// Writes a new tuple.
    #[inline]
    pub fn put(self, tuple: &mut [u64], number: i32) {
        let word = &mut tuple[usize::from(self.word)];
        *word = self.merged(*word, number);
    }

    /// Changes a tuple.
    #[inline]
    pub fn set(self, tuple: &mut Change<'_>, number: i32) {
        let word = self.merged(tuple.get(self.word.into()), number);
        tuple.set(self.word.into(), word);
    }
}

/// The place of a numeric or timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Long {
    word: u16,
}

impl Long {
    /// How NULL is stored.
    pub const NULL: i64 = i64::MIN;

    /// The digits, or microseconds since 1970.
    #[inline]
    pub fn get<W: Words + ?Sized>(self, tuple: &W) -> i64 {
        tuple.word(self.word.into()) as i64
    }

    /// Writes a new tuple.
    #[inline]
    pub fn put(self, tuple: &mut [u64], number: i64) {
        tuple[usize::from(self.word)] = number as u64;
    }

    /// Changes a tuple.
    #[inline]
    pub fn set(self, tuple: &mut Change<'_>, number: i64) {
        tuple.set(self.word.into(), number as u64);
    }
}

/// The place of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text {
    word: u16,
    words: u16,
}

impl Text {
    /// Bytes that fit.
    pub fn capacity(self) -> usize {
        usize::from(self.words) * WORD_BYTES
    }

    #[inline]
    fn words<W: Words + ?Sized>(self, tuple: &W) -> impl Iterator<Item = u64> {
        (0..usize::from(self.words)).map(move |at| tuple.word(usize::from(self.word) + at))
    }

    /// The text, in a buffer; cut if that is too small.
    #[inline]
    pub fn read<'b, const N: usize, W: Words + ?Sized>(self, tuple: &W, buffer: &'b mut [u8; N]) -> &'b str {
        for (bytes, word) in buffer.chunks_exact_mut(WORD_BYTES).zip(self.words(tuple)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let filled = &buffer[..self.capacity().min(N / WORD_BYTES * WORD_BYTES)];
        let length = filled.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // Nothing but texts is written.
        std::str::from_utf8(&filled[..length]).unwrap_or_default()
    }

    /// A text of at most 24 bytes.
    #[inline]
    pub fn label<W: Words + ?Sized>(self, tuple: &W) -> Label {
        Label::of(self.read(tuple, &mut [0; 24]))
    }

    /// The first byte; 0 of an empty text.
    #[inline]
    pub fn first_byte<W: Words + ?Sized>(self, tuple: &W) -> u8 {
        tuple.word(self.word.into()) as u8
    }

    /// The first sixteen bytes, in the order of texts.
    #[inline]
    pub fn order<W: Words + ?Sized>(self, tuple: &W) -> [u64; 2] {
        let mut order = [0; 2];
        for (place, word) in order.iter_mut().zip(self.words(tuple)) {
            *place = u64::from_be_bytes(word.to_le_bytes());
        }
        order
    }

    /// The text, as words for another field of its length.
    #[inline]
    pub fn raw<const N: usize, W: Words + ?Sized>(self, tuple: &W) -> [u64; N] {
        let mut raw = [0; N];
        for (place, word) in raw.iter_mut().zip(self.words(tuple)) {
            *place = word;
        }
        raw
    }

    /// Writes words of another field into a new tuple.
    #[inline]
    pub fn put_raw(self, tuple: &mut [u64], raw: &[u64]) {
        let place = &mut tuple[usize::from(self.word)..][..usize::from(self.words)];
        for (place, word) in place.iter_mut().zip(raw) {
            *place = *word;
        }
    }

    /// Writes a new tuple, whose words are zero; what does not fit is left out.
    pub fn put(self, tuple: &mut [u64], text: &str) {
        for (at, bytes) in text.as_bytes().chunks(WORD_BYTES).take(self.words.into()).enumerate() {
            tuple[usize::from(self.word) + at] = packed(bytes);
        }
    }

    /// Changes a tuple; what does not fit is left out.
    pub fn set(self, tuple: &mut Change<'_>, text: &str) {
        let mut parts = text.as_bytes().chunks(WORD_BYTES);
        for at in usize::from(self.word)..usize::from(self.word + self.words) {
            let word = packed(parts.next().unwrap_or_default());
            if tuple.get(at) != word {
                tuple.set(at, word);
            }
        }
    }
}

/// At most eight bytes, the first one low.
fn packed(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A place of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// Smallint or integer.
    Small(Small),
    /// Numeric or timestamp.
    Long(Long),
    /// Char or varchar.
    Text(Text),
}

/// What a field, or a row of fields in neighbouring columns, is made from.
pub trait Resolve: Sized {
    /// The field of a column.
    ///
    /// # Errors
    /// XX000 if there is no such column, or one of another kind.
    fn resolve(layout: &Layout, column: usize) -> Result<Self>;
}

macro_rules! resolve {
    ($($kind:ident),*) => {
        $(impl Resolve for $kind {
            fn resolve(layout: &Layout, column: usize) -> Result<$kind> {
                match layout.fields.get(column) {
                    Some(Field::$kind(field)) => Ok(*field),
                    found => {
                        let (wanted, table) = (stringify!($kind), &layout.table);
                        Err(Error::internal(format!("column {column} of \"{table}\" is {found:?}, not {wanted}")))
                    }
                }
            }
        })*
    };
}
resolve!(Small, Long, Text);

impl<const N: usize> Resolve for [Text; N] {
    fn resolve(layout: &Layout, column: usize) -> Result<[Text; N]> {
        let mut fields = [Text { word: 0, words: 0 }; N];
        for (offset, field) in fields.iter_mut().enumerate() {
            *field = Text::resolve(layout, column + offset)?;
        }
        Ok(fields)
    }
}

/// Where the columns of a table lie in a tuple.
#[derive(Clone, Debug)]
pub struct Layout {
    table: String,
    fields: Vec<Field>,
    words: usize,
}

impl Layout {
    /// The layout of a table's rows.
    ///
    /// # Errors
    /// 0A000 for columns that TPC-C and CH-benCHmark do not have: of another type, or texts that may be NULL.
    pub fn of(definition: &TableDefinition) -> Result<Layout> {
        let mut layout = Layout { table: definition.name.clone(), fields: Vec::new(), words: 0 };
        let mut half = None;
        for column in &definition.columns {
            let field = match column.data_type {
                DataType::SmallInt | DataType::Integer => Field::Small(match half.take() {
                    Some(field) => field,
                    None => {
                        let word = layout.take(1)?;
                        half = Some(Small { word, shift: 32 });
                        Small { word, shift: 0 }
                    }
                }),
                DataType::Timestamp(_) => Field::Long(Long { word: layout.take(1)? }),
                DataType::Numeric { precision, .. } if precision <= DIGITS_MAX => {
                    Field::Long(Long { word: layout.take(1)? })
                }
                DataType::Char(length) | DataType::Varchar(length) if !column.nullable => {
                    let words = (length as usize).div_ceil(WORD_BYTES);
                    Field::Text(Text { word: layout.take(words)?, words: words as u16 })
                }
                _ => {
                    let message = format!("tuples have no field for column \"{}\"", column.name);
                    return Err(Error::new(SqlState::FeatureNotSupported, message));
                }
            };
            layout.fields.push(field);
        }
        Ok(layout)
    }

    fn take(&mut self, words: usize) -> Result<u16> {
        let word = self.words;
        self.words += words;
        match u16::try_from(self.words) {
            Ok(_) => Ok(word as u16),
            Err(_) => Err(Error::new(SqlState::ProgramLimitExceeded, "a tuple is too long")),
        }
    }

    /// Words of a tuple.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The fields by column.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Writes a cell of a row into a new tuple, whose words are zero.
    ///
    /// # Errors
    /// 22001 for a text that does not fit; XX000 for a cell that is not of the column's type.
    pub fn put_cell(&self, tuple: &mut [u64], column: usize, cell: Cell<'_>) -> Result<()> {
        let misfit = || Error::internal(format!("column {column} of \"{}\" has {cell:?}", self.table));
        match (self.fields[column], cell) {
            (Field::Small(field), Cell::Null) => field.put(tuple, Small::NULL),
            (Field::Small(field), Cell::Word(word)) => field.put(tuple, word as i32),
            (Field::Long(field), Cell::Null) => field.put(tuple, Long::NULL),
            (Field::Long(field), Cell::Word(word)) => field.put(tuple, word as i64),
            (Field::Text(field), Cell::Bytes(bytes)) if bytes.len() <= field.capacity() => {
                field.put(tuple, std::str::from_utf8(bytes).map_err(|_| misfit())?);
            }
            (Field::Text(_), Cell::Bytes(_)) => {
                let message = format!("a text of table \"{}\" does not fit its tuple", self.table);
                return Err(Error::new(SqlState::StringDataRightTruncation, message));
            }
            _ => return Err(misfit()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::{customer, order_line, orders, stock};

    #[test]
    fn small_columns_share_words() {
        let layout = Layout::of(&order_line::definition()).expect("all columns have fields");
        // Six small ones, the date, the quantity, the amount, 24 bytes.
        assert_eq!(layout.words(), 3 + 1 + 1 + 1 + 3);
        let layout = Layout::of(&orders::definition()).expect("all columns have fields");
        assert_eq!(layout.words(), 5);
        let layout = Layout::of(&stock::definition()).expect("all columns have fields");
        // The year's sum takes the half that the quantity left.
        let quantity = Small::resolve(&layout, stock::S_QUANTITY).expect("a small one");
        let sum = Small::resolve(&layout, stock::S_YTD).expect("a small one");
        assert_eq!((quantity.word, quantity.shift, sum.word, sum.shift), (1, 0, 1, 32));
        assert_eq!(layout.words(), 2 + 30 + 1 + 7);
        assert!(Long::resolve(&layout, stock::S_YTD).is_err() && Small::resolve(&layout, 99).is_err());
    }

    #[test]
    fn what_is_put_is_read_back_and_neighbours_stay() {
        let layout = Layout::of(&order_line::definition()).expect("all columns have fields");
        let mut tuple = vec![0; layout.words()];
        for (column, cell) in [
            (order_line::OL_O_ID, Cell::integer(-7)),
            (order_line::OL_D_ID, Cell::smallint(-1)),
            (order_line::OL_DELIVERY_D, Cell::Null),
            (order_line::OL_QUANTITY, Cell::Null),
            (order_line::OL_AMOUNT, Cell::bigint(-12_34)),
            (order_line::OL_DIST_INFO, Cell::Bytes(b"nine byte")),
        ] {
            layout.put_cell(&mut tuple, column, cell).expect("it fits");
        }
        let small = |column| Small::resolve(&layout, column).expect("a small one").get(&tuple[..]);
        let long = |column| Long::resolve(&layout, column).expect("a long one").get(&tuple[..]);
        assert_eq!((small(order_line::OL_O_ID), small(order_line::OL_D_ID)), (-7, -1));
        assert_eq!((small(order_line::OL_W_ID), small(order_line::OL_QUANTITY)), (0, Small::NULL));
        assert_eq!((long(order_line::OL_DELIVERY_D), long(order_line::OL_AMOUNT)), (Long::NULL, -12_34));
        let text = Text::resolve(&layout, order_line::OL_DIST_INFO).expect("a text");
        assert_eq!(&*text.label(&tuple[..]), "nine byte");
        assert_eq!(text.read(&tuple[..], &mut [0; 8]), "nine byt");
        assert_eq!(text.raw::<2, _>(&tuple[..])[1], u64::from(b'e'));
        assert_eq!(text.first_byte(&tuple[..]), b'n');
        let long_text = Cell::Bytes(&[b'x'; 25]);
        assert!(layout.put_cell(&mut tuple, order_line::OL_DIST_INFO, long_text).is_err());
        assert!(layout.put_cell(&mut tuple, order_line::OL_AMOUNT, Cell::Bytes(b"1")).is_err());
    }

    #[test]
    fn texts_are_ordered_by_their_first_bytes() {
        let layout = Layout::of(&customer::definition()).expect("all columns have fields");
        let first = Text::resolve(&layout, customer::C_FIRST).expect("a text");
        let order = |text: &str| {
            let mut tuple = vec![0; layout.words()];
            first.put(&mut tuple, text);
            first.order(&tuple[..])
        };
        let texts = ["", "A", "AAAAAAAA", "AAAAAAAAB", "AAAAAAAB", "Z", "a", "aaaaaaaaaaaaaaab"];
        assert!(texts.windows(2).all(|pair| order(pair[0]) < order(pair[1])));
    }
}
