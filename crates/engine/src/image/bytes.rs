//! Numbers, texts and fields as bytes; docs/design/catalog-image.md has the layout.
//!
//! What is written cannot fail on the way: a [`Writer`] keeps its first error until it is finished. What is read may be anything: a
//! [`ByteReader`] never goes beyond its bytes, and says XX001 where they end too early or mean nothing.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_value::{DomainType, EnumType, KeptName, renumbered};

/// How deep types can be nested in each other: types of rows whose fields are rows.
const DEPTH_MAX: u32 = 1000;

/// XX001
#[cold]
pub(super) fn damaged(what: &str) -> Error {
    Error::new(SqlState::DataCorrupted, format!("an image of the catalog is damaged: {what}"))
}

/// Bytes that are being written.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    error: Option<Error>,
}

impl Writer {
    /// What was written.
    ///
    /// # Errors
    /// The first that there was.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.error.map_or(Ok(self.bytes), Err)
    }

    pub(super) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn fixed(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    /// A place in a list.
    pub(super) fn place(&mut self, value: usize) {
        self.length(value);
    }

    pub(super) fn places(&mut self, values: &[usize]) {
        values.iter().for_each(|value| self.place(*value));
    }

    fn length(&mut self, value: usize) {
        match u32::try_from(value) {
            Ok(value) => self.u32(value),
            Err(_) => self.fail(too_large()),
        }
    }

    /// Bytes behind their length.
    pub(super) fn counted(&mut self, value: &[u8]) {
        self.length(value.len());
        self.fixed(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.counted(value.as_bytes());
    }

    /// A text of SQL, which may name types by the numbers that they have in this process.
    pub(super) fn sql(&mut self, text: &str) {
        let stored = renumbered(text, |name| {
            let oid = match name {
                KeptName::Enum(number) => EnumType::by_number(number).map(EnumType::oid),
                KeptName::Domain(number) => DomainType::by_number(number).map(DomainType::oid),
            };
            oid.ok_or_else(|| Error::internal("a text names a type that there is not"))
        });
        match stored {
            Ok(text) => self.text(&text),
            Err(error) => self.fail(error),
        }
    }

    /// A field: its tag, its length, and what `write` writes.
    pub(super) fn field(&mut self, tag: u8, write: impl FnOnce(&mut Writer)) {
        self.byte(tag);
        self.measured(write);
    }

    /// What `write` writes, behind its length.
    pub(super) fn measured(&mut self, write: impl FnOnce(&mut Writer)) {
        let at = self.bytes.len();
        self.u32(0);
        write(self);
        let length = self.bytes.len() - at - size_of::<u32>();
        match u32::try_from(length) {
            Ok(length) => self.bytes[at..at + size_of::<u32>()].copy_from_slice(&length.to_le_bytes()),
            Err(_) => self.fail(too_large()),
        }
    }

    /// A field that is there if something is.
    pub(super) fn optional<T>(&mut self, tag: u8, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        if let Some(value) = value {
            self.field(tag, |out| write(out, value));
        }
    }

    /// A field for each.
    pub(super) fn each<T>(
        &mut self,
        tag: u8,
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Writer, T),
    ) {
        values.into_iter().for_each(|value| self.field(tag, |out| write(out, value)));
    }

    /// An empty field that is there or not.
    pub(super) fn flag(&mut self, tag: u8, is_set: bool) {
        if is_set {
            self.field(tag, |_| ());
        }
    }
}

fn too_large() -> Error {
    Error::new(SqlState::ProgramLimitExceeded, "a definition is larger than 4 GiB")
}

/// Bytes that are being read.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'a> {
    bytes: &'a [u8],
    depth: u32,
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { bytes, depth: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// That nothing is left.
    pub(super) fn end(self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(damaged("a value is longer than it says")) }
    }

    /// Reads what is one level further in.
    pub(super) fn inside<T>(&mut self, read: impl FnOnce(&mut ByteReader<'a>) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(damaged("types are nested too deeply"));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or_else(|| damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.fixed().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        self.fixed().map(i64::from_le_bytes)
    }

    pub(super) fn place(&mut self) -> Result<usize> {
        self.u32().map(|place| place as usize)
    }

    /// All that is left, as places.
    pub(super) fn places(&mut self) -> Result<Vec<usize>> {
        let mut places = Vec::with_capacity(self.bytes.len() / size_of::<u32>());
        while !self.is_empty() {
            places.push(self.place()?);
        }
        Ok(places)
    }

    pub(super) fn counted(&mut self) -> Result<&'a [u8]> {
        let length = self.place()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.counted()?).map_err(|_| damaged("a text is not UTF-8"))
    }

    pub(super) fn string(&mut self) -> Result<String> {
        self.text().map(str::to_owned)
    }

    /// What is left, as fields.
    pub(super) fn fields(&mut self, last: u8) -> Result<Fields<'a>> {
        let fields = Fields::read(self.bytes, last)?;
        self.bytes = &[];
        Ok(fields)
    }
}

/// The fields of something: by tag, those of a list in their order.
pub(super) struct Fields<'a>(Vec<(u8, &'a [u8])>);

impl<'a> Fields<'a> {
    /// `last` is the largest tag that this version knows.
    pub(super) fn read(bytes: &'a [u8], last: u8) -> Result<Fields<'a>> {
        let (mut reader, mut fields) = (ByteReader::new(bytes), Vec::new());
        while !reader.is_empty() {
            let tag = reader.byte()?;
            if tag == 0 || tag > last {
                return Err(damaged("it has a part that this version does not know"));
            }
            fields.push((tag, reader.counted()?));
        }
        Ok(Fields(fields))
    }

    pub(super) fn has(&self, tag: u8) -> bool {
        self.0.iter().any(|(known, _)| *known == tag)
    }

    /// All with this tag.
    pub(super) fn each<T>(&self, tag: u8, read: impl Fn(&mut ByteReader<'a>) -> Result<T>) -> Result<Vec<T>> {
        let with_tag = self.0.iter().filter(|(known, _)| *known == tag);
        with_tag.map(|(_, bytes)| whole(bytes, &read)).collect()
    }

    /// The one with this tag, if it is there.
    pub(super) fn optional<T>(
        &self,
        tag: u8,
        read: impl Fn(&mut ByteReader<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        let with_tag = self.0.iter().find(|(known, _)| *known == tag);
        with_tag.map(|(_, bytes)| whole(bytes, read)).transpose()
    }

    /// The one with this tag.
    pub(super) fn one<T>(&self, tag: u8, read: impl Fn(&mut ByteReader<'a>) -> Result<T>) -> Result<T> {
        self.optional(tag, read)?.ok_or_else(|| damaged("a part is missing"))
    }
}

/// Reads a value that fills the bytes.
pub(super) fn whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut ByteReader<'a>) -> Result<T>,
) -> Result<T> {
    let mut reader = ByteReader::new(bytes);
    let value = read(&mut reader)?;
    reader.end().map(|()| value)
}
