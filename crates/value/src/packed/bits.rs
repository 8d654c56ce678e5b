//! `bit(n)` and `bit varying(n)`: strings of bits.
//!
//! They order as words in a dictionary do: by the first bit that differs, and what another one begins with comes before it. Six bits
//! make a byte, the place of this piece among all pieces of one to six bits in that order:
//! ```text
//! 0  00  000 ... 000000  000001  00001 ...  1  10 ... 11111  111110  111111
//! 1   2    3          6       7      8     64  65        124     125     126
//! ```
//! All pieces but the last have six bits, so a string has one form; no byte is zero, and all of them are ASCII.

use super::{Packed, PackedRef, PackedType};
use ankerdb_base::{Error, Result, SqlState};

/// Bits of a piece.
const PIECE: usize = 6;
/// Pieces that there are, and a place for none.
const PIECES: usize = 1 << (PIECE + 1);
/// The most bits of a string.
const LENGTH_MAX: usize = 2_147_483_640;

/// How many bits the values of a type have; not told for most that are computed. (As bytes, so that types are as small as they are
/// without: these fit beside the numbers of others.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitLength([u8; 4]);

impl BitLength {
    /// Any number of them.
    pub const ANY: BitLength = BitLength([u8::MAX; 4]);

    /// So many.
    pub fn new(length: u32) -> BitLength {
        BitLength(length.to_ne_bytes())
    }

    /// How many there are; `None` where that is not told.
    pub fn declared(self) -> Option<u32> {
        (self != BitLength::ANY).then_some(u32::from_ne_bytes(self.0))
    }
}

/// A string of bits, eight in a byte, the first one on the left; behind the last one are zeros.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bits {
    bytes: Vec<u8>,
    length: usize,
}

/// The places of pieces: bits on the right, and how many these are.
const PLACES: [(u8, u8); PIECES] = {
    let mut places = [(0, 0); PIECES];
    let mut count = 1;
    while count <= PIECE {
        let mut bits = 0;
        while bits < 1 << count {
            places[place(bits, count)] = (bits as u8, count as u8);
            bits += 1;
        }
        count += 1;
    }
    places
};

/// The place of a piece of so many bits.
const fn place(bits: usize, count: usize) -> usize {
    let (mut place, mut depth) = (0, 1);
    while depth <= count {
        // Behind a one are all pieces that have a zero here.
        place += 1 + (bits >> (count - depth) & 1) * ((1 << (PIECE + 1 - depth)) - 1);
        depth += 1;
    }
    place
}

impl Bits {
    /// So many zeros.
    pub fn zeros(length: usize) -> Bits {
        Bits { bytes: vec![0; length.div_ceil(8)], length }
    }

    /// The bits of these bytes, the first so many.
    pub fn of_bytes(mut bytes: Vec<u8>, length: usize) -> Bits {
        bytes.resize(length.div_ceil(8), 0);
        if let (Some(last), rest @ 1..) = (bytes.last_mut(), length % 8) {
            *last &= 0xFFu8 << (8 - rest);
        }
        Bits { bytes, length }
    }

    /// How many bits there are.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The bits, eight in a byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bit at a position, counted from 0.
    pub fn get(&self, position: usize) -> bool {
        self.bytes[position / 8] >> (7 - position % 8) & 1 == 1
    }

    /// Sets the bit at a position.
    pub fn set(&mut self, position: usize, one: bool) {
        let mask = 0x80 >> (position % 8);
        match one {
            true => self.bytes[position / 8] |= mask,
            false => self.bytes[position / 8] &= !mask,
        }
    }

    /// The bits from a position on, with zeros behind the end.
    pub fn part(&self, start: usize, length: usize) -> Bits {
        let (first, shift) = (start / 8, start % 8);
        let byte = |at: usize| u16::from(self.bytes.get(at).copied().unwrap_or(0));
        let bytes = (0..length.div_ceil(8)).map(|at| {
            let pair = byte(first + at) << 8 | byte(first + at + 1);
            (pair >> (8 - shift)) as u8
        });
        Bits::of_bytes(bytes.collect(), length)
    }

    /// These bits and then the others.
    ///
    /// # Errors
    /// 54000 for more than a string has.
    pub fn concat(&self, other: &Bits) -> Result<Bits> {
        let length = self.length + other.length;
        if length > LENGTH_MAX {
            let message = format!("bit string length exceeds the maximum allowed ({LENGTH_MAX})");
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
        let mut bytes = self.bytes.clone();
        bytes.resize(length.div_ceil(8), 0);
        let (first, shift) = (self.length / 8, self.length % 8);
        for (at, byte) in other.bytes.iter().enumerate() {
            let pair = (u16::from(*byte) << 8) >> shift;
            bytes[first + at] |= (pair >> 8) as u8;
            if let Some(next) = bytes.get_mut(first + at + 1) {
                *next |= pair as u8;
            }
        }
        Ok(Bits { bytes, length })
    }

    /// Each byte by itself.
    pub fn map(&self, of: impl Fn(u8) -> u8) -> Bits {
        Bits::of_bytes(self.bytes.iter().map(|byte| of(*byte)).collect(), self.length)
    }

    /// Each byte with that of another string of as many bits.
    pub fn zip(&self, other: &Bits, of: impl Fn(u8, u8) -> u8) -> Bits {
        let pairs = self.bytes.iter().zip(&other.bytes);
        Bits::of_bytes(pairs.map(|(left, right)| of(*left, *right)).collect(), self.length)
    }

    /// So many bits further to the right, or to the left if it is negative, and as many as before.
    pub fn shifted(&self, by: i64) -> Bits {
        let distance = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX).min(self.length);
        match by {
            ..0 => self.part(distance, self.length),
            _ => {
                let kept = self.part(0, self.length - distance);
                Bits::zeros(distance).concat(&kept).unwrap_or_default()
            }
        }
    }

    /// The bits of an integer of so many, the last ones or with its sign before them.
    pub fn of_integer(value: i64, width: usize, length: usize) -> Bits {
        let own = Bits::of_bytes((value << (64 - width)).to_be_bytes().to_vec(), width);
        match length.checked_sub(width) {
            None => own.part(width - length, length),
            Some(missing) => {
                let sign = Bits::zeros(missing).map(|_| if value < 0 { 0xFF } else { 0 });
                sign.concat(&own).unwrap_or_default()
            }
        }
    }

    /// The integer of so many bits that these are the last ones of; `None` if they are more.
    pub fn to_integer(&self, width: usize) -> Option<i64> {
        if self.length > width {
            return None;
        }
        let value = (0..self.length).fold(0i64, |value, at| value << 1 | i64::from(self.get(at)));
        Some(value << (64 - width) >> (64 - width))
    }

    /// As a value.
    pub fn packed(&self) -> Packed {
        let mut bytes = Vec::with_capacity(self.length.div_ceil(PIECE));
        for start in (0..self.length).step_by(PIECE) {
            let count = PIECE.min(self.length - start);
            let next = self.bytes.get(start / 8 + 1).copied().unwrap_or(0);
            let pair = u16::from(self.bytes[start / 8]) << 8 | u16::from(next);
            let piece = (pair << (start % 8)) >> (16 - count);
            bytes.push(place(usize::from(piece), count) as u8);
        }
        Packed { packed_type: PackedType::BITS, bytes: bytes.into() }
    }

    /// What was packed.
    pub(super) fn unpacked(packed: &[u8]) -> Bits {
        let length = packed_length(packed);
        let mut bytes = Vec::with_capacity(length.div_ceil(8));
        let (mut word, mut held) = (0u32, 0);
        for byte in packed {
            let (bits, count) = piece(*byte);
            word = word << count | u32::from(bits);
            held += count;
            if held >= 8 {
                held -= 8;
                bytes.push((word >> held) as u8);
            }
        }
        if held > 0 {
            bytes.push((word << (8 - held)) as u8);
        }
        // Bytes that no value has are some other one.
        bytes.resize(length.div_ceil(8), 0);
        Bits { bytes, length }
    }
}

fn piece(byte: u8) -> (u8, u8) {
    PLACES[usize::from(byte) % PIECES]
}

/// How many bits are packed.
fn packed_length(packed: &[u8]) -> usize {
    packed.last().map_or(0, |last| (packed.len() - 1) * PIECE + usize::from(piece(*last).1))
}

/// Whether these are the bytes of a value of the type.
pub(super) fn is_stored_form(packed_type: PackedType, packed: &[u8]) -> bool {
    let Some((last, whole)) = packed.split_last() else { return fits(packed_type, 0) };
    let is_piece = |byte: u8| usize::from(byte) < PIECES && piece(byte).1 > 0;
    whole.iter().all(|byte| is_piece(*byte) && usize::from(piece(*byte).1) == PIECE)
        && is_piece(*last)
        && fits(packed_type, packed_length(packed))
}

/// Whether values of the type may have so many bits.
fn fits(packed_type: PackedType, length: usize) -> bool {
    match packed_type {
        PackedType::Bit(wanted) => wanted.declared().is_none_or(|wanted| length == wanted as usize),
        PackedType::Varbit(most) => most.declared().is_none_or(|most| length <= most as usize),
        _ => true,
    }
}

/// The bits that a text is: zeros and ones, `b` and these, or `x` and hexadecimal digits.
///
/// # Errors
/// 22P02 for other characters.
pub(super) fn parse(text: &str) -> Result<Bits> {
    if let Some(digits) = text.strip_prefix(['x', 'X']) {
        let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
        for (at, digit) in digits.chars().enumerate() {
            let Some(value) = digit.to_digit(16) else { return Err(no_digit(digit, "hexadecimal")) };
            match at % 2 {
                0 => bytes.push((value << 4) as u8),
                _ => bytes[at / 2] |= value as u8,
            }
        }
        return Ok(Bits::of_bytes(bytes, digits.len() * 4));
    }
    let digits = text.strip_prefix(['b', 'B']).unwrap_or(text);
    let mut bytes = vec![0; digits.len().div_ceil(8)];
    for (at, digit) in digits.chars().enumerate() {
        match digit {
            '0' => {}
            '1' => bytes[at / 8] |= 0x80 >> (at % 8),
            _ => return Err(no_digit(digit, "binary")),
        }
    }
    Ok(Bits { bytes, length: digits.len() })
}

fn no_digit(digit: char, kind: &str) -> Error {
    let message = format!("\"{digit}\" is not a valid {kind} digit");
    Error::new(SqlState::InvalidTextRepresentation, message)
}

/// Appends zeros and ones.
pub(super) fn push(packed: &[u8], out: &mut String) {
    out.reserve(packed.len() * PIECE);
    for byte in packed {
        let (bits, count) = piece(*byte);
        for at in (0..count).rev() {
            out.push(if bits >> at & 1 == 1 { '1' } else { '0' });
        }
    }
}

/// The bits as drivers send them: how many, and eight in a byte.
///
/// # Errors
/// 22P03 if there are more bytes or fewer.
pub(super) fn from_wire(bytes: &[u8]) -> Result<Bits> {
    let invalid = |message: &str| Error::new(SqlState::InvalidBinaryRepresentation, message.to_owned());
    let Some((length, bytes)) = bytes.split_first_chunk() else {
        return Err(invalid("insufficient data left in message"));
    };
    let length = i32::from_be_bytes(*length);
    let Some(length) = usize::try_from(length).ok().filter(|length| *length <= LENGTH_MAX) else {
        return Err(invalid("invalid length in external bit string"));
    };
    match bytes.len() == length.div_ceil(8) {
        true => Ok(Bits::of_bytes(bytes.to_vec(), length)),
        false if bytes.len() < length.div_ceil(8) => Err(invalid("insufficient data left in message")),
        false => Err(invalid("incorrect binary data format")),
    }
}

/// As drivers read them.
pub(super) fn to_wire(packed: &[u8]) -> Vec<u8> {
    let bits = Bits::unpacked(packed);
    let mut wire = Vec::with_capacity(4 + bits.bytes.len());
    wire.extend_from_slice(&(bits.length as i32).to_be_bytes());
    wire.extend_from_slice(&bits.bytes);
    wire
}

impl PackedRef<'_> {
    /// The bits that it is; for `bit` and `bit varying`.
    pub fn bits(self) -> Bits {
        Bits::unpacked(self.bytes())
    }

    /// How many bits it has; for `bit` and `bit varying`.
    pub fn bit_length(self) -> usize {
        packed_length(self.bytes())
    }
}

impl Packed {
    /// The bits for a column of the type.
    ///
    /// # Errors
    /// 22026 if a `bit(n)` has another number of bits, 22001 if a `bit varying(n)` has fewer.
    pub(crate) fn fit_bits(self, target: PackedType) -> Result<Packed> {
        let length = self.borrow().bit_length();
        match target {
            _ if fits(target, length) => Ok(self),
            PackedType::Varbit(most) => {
                let most = most.declared().unwrap_or_default();
                let message = format!("bit string too long for type bit varying({most})");
                Err(Error::new(SqlState::StringDataRightTruncation, message))
            }
            other => {
                let wanted = if let PackedType::Bit(wanted) = other { wanted.declared() } else { None };
                let wanted = wanted.unwrap_or_default();
                let message = format!("bit string length {length} does not match type bit({wanted})");
                Err(Error::new(SqlState::StringDataLengthMismatch, message))
            }
        }
    }

    /// The bits by a cast to the type: cut off behind, and with zeros there up to what a `bit(n)` has.
    pub(crate) fn cut_bits(self, target: PackedType) -> Packed {
        match target {
            _ if fits(target, self.borrow().bit_length()) => self,
            PackedType::Bit(length) | PackedType::Varbit(length) => {
                self.borrow().bits().part(0, length.declared().unwrap_or_default() as usize).packed()
            }
            _ => self,
        }
    }
}

#[cfg(test)]
#[path = "bits_tests.rs"]
mod tests;
