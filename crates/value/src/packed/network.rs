//! Addresses of hosts and networks: `inet` and `cidr`, texts and bytes of both.
//!
//! PostgreSQL orders them by family, by the bits of the network as far as both have them, the shorter network first, and by the
//! whole address. These bytes order so:
//! ```text
//! family  network's bits, then zeros  length of the mask  whole address, unless the mask covers it
//! 1       4 or 16                     1                   4, 16 or 0
//! ```
//! Of two networks of which one holds the other, the padded bits of the larger are not above those of the smaller; if they are
//! equal, the length of the mask decides.

use super::{NETWORK_MAX, Packed, PackedType};
use crate::literal::malformed;
use ankerdb_base::{Error, Result, SqlState};
use std::fmt::Write;

/// An address of version 4 or 6, and how many of its bits are those of its network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Network {
    /// Whether the address has 16 bytes and not 4.
    pub is_v6: bool,
    /// The length of the mask.
    pub bits: u8,
    /// The address from the left; 12 zeros follow one of version 4.
    pub address: [u8; 16],
}

impl Network {
    /// Bytes of the address.
    pub fn width(self) -> usize {
        if self.is_v6 { 16 } else { 4 }
    }

    /// Bits of the address.
    pub fn bits_max(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// The address as a number.
    pub fn number(self) -> u128 {
        u128::from_be_bytes(self.address) >> (128 - u32::from(self.bits_max()))
    }

    /// The network with the address that is this number, and this one's mask. Bits beyond the family's are lost.
    pub fn with_number(self, number: u128) -> Network {
        let address = (number << (128 - u32::from(self.bits_max()))).to_be_bytes();
        Network { address, ..self }
    }

    /// The bits that the mask covers, as a number.
    pub fn mask(self) -> u128 {
        let whole = u128::MAX >> (128 - u32::from(self.bits_max()));
        whole & !self.host_mask()
    }

    /// The bits that the mask does not cover.
    pub fn host_mask(self) -> u128 {
        u128::MAX.checked_shr(128 - u32::from(self.bits_max() - self.bits)).unwrap_or(0)
    }

    /// The network of the host: without the bits to the right of the mask.
    pub fn network(self) -> Network {
        self.with_number(self.number() & self.mask())
    }

    /// Whether this network has all addresses of the other one.
    pub fn contains(self, other: Network) -> bool {
        self.is_v6 == other.is_v6 && self.bits <= other.bits && self.shares(other, self.bits)
    }

    /// Whether one of the two has all addresses of the other.
    pub fn overlaps(self, other: Network) -> bool {
        self.is_v6 == other.is_v6 && self.shares(other, self.bits.min(other.bits))
    }

    /// Whether the first bits are the same.
    fn shares(self, other: Network, bits: u8) -> bool {
        self.common_bits(other) >= bits
    }

    /// How many bits of the address two of one family have in common, from the left.
    pub fn common_bits(self, other: Network) -> u8 {
        let differing = u128::from_be_bytes(self.address) ^ u128::from_be_bytes(other.address);
        // At most 128.
        (differing.leading_zeros() as u8).min(self.bits_max())
    }

    /// As a value of `inet` or `cidr`.
    pub fn packed(self, packed_type: PackedType) -> Packed {
        let width = self.width();
        let mut bytes = [0; NETWORK_MAX];
        bytes[0] = u8::from(self.is_v6) + FAMILY_V4;
        bytes[1..=width].copy_from_slice(&self.network().address[..width]);
        bytes[width + 1] = self.bits;
        if self.bits < self.bits_max() {
            bytes[width + 2..][..width].copy_from_slice(&self.address[..width]);
        }
        Packed { packed_type, bytes: bytes[..packed_length(&bytes)].into() }
    }

    /// What was packed; zeros in place of bytes that are not there.
    pub(super) fn unpacked(bytes: &[u8]) -> Network {
        let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
        let mut network = Network { is_v6: byte(0) == FAMILY_V6, ..Network::default() };
        let width = network.width();
        network.bits = byte(width + 1).min(network.bits_max());
        let from = if network.bits < network.bits_max() { width + 2 } else { 1 };
        for (at, octet) in network.address[..width].iter_mut().enumerate() {
            *octet = byte(from + at);
        }
        network
    }
}

/// What stands for the families in bytes, here and on the wire.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

/// How many of the bytes are used.
pub(super) fn packed_length(bytes: &[u8]) -> usize {
    let network = Network::unpacked(bytes);
    let width = network.width();
    if network.bits < network.bits_max() { 2 * width + 2 } else { width + 2 }
}

/// The network that the text stands for.
///
/// # Errors
/// 22P02
pub(crate) fn parse(text: &str, is_cidr: bool) -> Result<Network> {
    let name = if is_cidr { "cidr" } else { "inet" };
    let network = match text.contains(':') {
        true => parse_v6(text),
        false if is_cidr => parse_cidr_v4(text),
        false => parse_inet_v4(text),
    };
    let network = network.ok_or_else(|| malformed(name, text))?;
    if is_cidr && network.network() != network {
        let message = format!("invalid cidr value: \"{text}\"");
        return Err(Error::new(SqlState::InvalidTextRepresentation, message).with_detail(BITS_BEYOND));
    }
    Ok(network)
}

const BITS_BEYOND: &str = "Value has bits set to right of mask.";

/// A text that is read byte by byte.
struct Bytes<'t>(&'t [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The number that begins here, at most `most`; `None` for none, or a larger one.
    fn number(&mut self, most: u32) -> Option<u32> {
        let mut number = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let value = number.unwrap_or(0) * 10 + u32::from(digit - b'0');
            if value > most {
                return None;
            }
            number = Some(value);
            self.next();
        }
        number
    }

    /// The length of a mask behind a slash, at the end of the text: `Some(None)` if the text ends before.
    fn mask(&mut self, most: u32) -> Option<Option<u8>> {
        let bits = match self.peek() {
            Some(b'/') => {
                self.next();
                Some(self.number(most)? as u8)
            }
            _ => None,
        };
        self.0.is_empty().then_some(bits)
    }
}

/// Four octets, or fewer before a mask that does not reach beyond them.
fn parse_inet_v4(text: &str) -> Option<Network> {
    let mut rest = Bytes(text.as_bytes());
    let mut octets = Vec::with_capacity(4);
    while rest.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        if octets.len() == 4 {
            return None;
        }
        octets.push(rest.number(255)? as u8);
        match rest.peek() {
            Some(b'.') => rest.next(),
            None | Some(b'/') => break,
            _ => return None,
        };
    }
    let bits = match rest.mask(32)? {
        Some(bits) => bits,
        None if octets.len() == 4 => 32,
        None => return None,
    };
    (!octets.is_empty() && usize::from(bits / 8) <= octets.len()).then(|| v4(&octets, bits))
}

fn v4(octets: &[u8], bits: u8) -> Network {
    let mut network = Network { bits, ..Network::default() };
    network.address[..octets.len()].copy_from_slice(octets);
    network
}

/// Up to four octets, also as hexadecimal digits; without a mask the class of the network has one.
fn parse_cidr_v4(text: &str) -> Option<Network> {
    let mut rest = Bytes(text.as_bytes());
    let octets = match text.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => hexadecimal(&mut rest)?,
        _ => {
            let mut octets = vec![rest.number(255)? as u8];
            while rest.peek() == Some(b'.') {
                rest.next();
                octets.push(rest.number(255)? as u8);
            }
            octets
        }
    };
    if octets.len() > 4 {
        return None;
    }
    let (first, known) = (*octets.first()?, octets.len() as u8 * 8);
    let bits = rest.mask(32)?.unwrap_or_else(|| {
        let class = match first {
            240.. => 32,
            224.. => 8,
            192.. => 24,
            128.. => 16,
            _ => 8,
        };
        match class.max(known) {
            // Addresses of several hosts.
            8 if first == 224 => 4,
            bits => bits,
        }
    });
    Some(v4(&octets, bits))
}

/// `0xa1b2`, of which a last single digit is the upper half of an octet.
fn hexadecimal(rest: &mut Bytes<'_>) -> Option<Vec<u8>> {
    rest.0 = &rest.0[2..];
    let digits: Vec<u8> = rest.0.iter().copied().take_while(u8::is_ascii_hexdigit).collect();
    rest.0 = &rest.0[digits.len()..];
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1).unwrap_or(&b'0'))?)).collect()
}

/// Groups of hexadecimal digits, of which `::` leaves zeros out; an address of version 4 may end it.
fn parse_v6(text: &str) -> Option<Network> {
    let mut rest = Bytes(text.as_bytes());
    let (mut before, mut after): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
    let mut bits = None;
    if rest.peek() == Some(b':') {
        rest.next();
        if rest.peek() != Some(b':') {
            return None;
        }
    }
    let (mut token, mut group, mut digits) = (rest.0, 0u16, 0);
    while let Some(byte) = rest.next() {
        let known = after.as_ref().map_or(before.len(), |after| before.len() + after.len());
        let bytes = after.as_mut().unwrap_or(&mut before);
        if let Some(digit) = char::from(byte).to_digit(16) {
            group = group << 4 | digit as u16;
            digits += 1;
            if digits > 4 {
                return None;
            }
            continue;
        }
        match byte {
            b':' => {
                token = rest.0;
                if digits == 0 {
                    if after.is_some() {
                        return None;
                    }
                    after = Some(Vec::new());
                    continue;
                }
                if rest.0.is_empty() || known + 2 > 16 {
                    return None;
                }
                bytes.extend(group.to_be_bytes());
                (group, digits) = (0, 0);
            }
            b'.' if known + 4 <= 16 => {
                let (octets, mask) = tail_v4(Bytes(token))?;
                bytes.extend(octets);
                (bits, digits) = (mask, 0);
                rest.0 = &[];
            }
            b'/' => {
                bits = Some(strict_mask(&mut rest)?);
            }
            _ => return None,
        }
    }
    let bytes = after.as_mut().unwrap_or(&mut before);
    if digits > 0 {
        bytes.extend(group.to_be_bytes());
    }
    let known = before.len() + after.as_ref().map_or(0, Vec::len);
    let is_complete = if after.is_some() { known < 16 } else { known == 16 };
    if !is_complete {
        return None;
    }
    let mut network = Network { is_v6: true, bits: bits.unwrap_or(128), address: [0; 16] };
    network.address[..before.len()].copy_from_slice(&before);
    let after = after.unwrap_or_default();
    network.address[16 - after.len()..].copy_from_slice(&after);
    Some(network)
}

/// The length of a mask up to the end, without zeros before it.
fn strict_mask(rest: &mut Bytes<'_>) -> Option<u8> {
    let is_padded = rest.0.len() > 1 && rest.peek() == Some(b'0');
    let bits = rest.number(128)?;
    (rest.0.is_empty() && !is_padded).then_some(bits as u8)
}

/// Octets without zeros before them, and the mask behind them.
fn tail_v4(mut rest: Bytes<'_>) -> Option<([u8; 4], Option<u8>)> {
    let (mut octets, mut count) = ([0; 4], 0);
    loop {
        let is_padded = matches!(rest.0, [b'0', b'0'..=b'9', ..]);
        // No digits between two dots are a zero, but not at the end.
        let number = match rest.peek() {
            Some(b'.' | b'/') => 0,
            _ => rest.number(255)?,
        };
        if is_padded || count == 4 {
            return None;
        }
        octets[count] = number as u8;
        count += 1;
        match rest.next() {
            None => return Some((octets, None)),
            Some(b'/') => return Some((octets, Some(strict_mask(&mut rest)?))),
            Some(b'.') => {}
            Some(_) => return None,
        }
    }
}

/// Appends the address, without a mask.
pub fn push_host(network: Network, out: &mut String) {
    match network.is_v6 {
        false => push_octets(&network.address[..4], out),
        true => push_groups(network.address, out),
    }
}

fn push_octets(octets: &[u8], out: &mut String) {
    for (position, octet) in octets.iter().enumerate() {
        let _ = write!(out, "{}{octet}", if position > 0 { "." } else { "" });
    }
}

fn groups(address: [u8; 16]) -> [u16; 8] {
    std::array::from_fn(|group| u16::from_be_bytes([address[2 * group], address[2 * group + 1]]))
}

/// The longest run of two or more groups that are zero is left out. Addresses of version 4 within are shown as such.
fn push_groups(address: [u8; 16], out: &mut String) {
    let groups = groups(address);
    let (mut best, mut length) = (8, 1);
    let mut from = 0;
    while from < 8 {
        let zeros = groups[from..].iter().take_while(|group| **group == 0).count();
        if zeros > length {
            (best, length) = (from, zeros);
        }
        from += zeros + 1;
    }
    let is_left_out = |group: usize| best < 8 && (best..best + length).contains(&group);
    let mut group = 0;
    while group < 8 {
        if is_left_out(group) {
            out.push(':');
            group = best + length;
            continue;
        }
        if group > 0 {
            out.push(':');
        }
        let is_v4 = group == 6
            && best == 0
            && (length == 6 || (length == 7 && groups[7] != 1) || (length == 5 && groups[5] == 0xffff));
        if is_v4 {
            push_octets(&address[12..], out);
            return;
        }
        let _ = write!(out, "{:x}", groups[group]);
        group += 1;
    }
    if best < 8 && best + length == 8 {
        out.push(':');
    }
}

/// Appends what shows an `inet`: the mask only if it does not cover the address.
pub(crate) fn push_inet(network: Network, out: &mut String) {
    push_host(network, out);
    if network.bits < network.bits_max() {
        let _ = write!(out, "/{}", network.bits);
    }
}

/// Appends the address and its mask.
pub(crate) fn push_full(network: Network, out: &mut String) {
    push_host(network, out);
    let _ = write!(out, "/{}", network.bits);
}

/// Appends a network's address as far as the mask covers it, and the mask.
pub fn push_abbreviated(network: Network, out: &mut String) {
    match network.is_v6 {
        false => push_abbreviated_v4(network, out),
        true => push_abbreviated_v6(network, out),
    }
    let _ = write!(out, "/{}", network.bits);
}

fn push_abbreviated_v4(network: Network, out: &mut String) {
    let known = usize::from(network.bits.div_ceil(8)).max(1);
    push_octets(&network.network().address[..known], out);
}

/// PostgreSQL's function, whose notion of a run of zeros and of an address of version 4 differs from that of other texts.
fn push_abbreviated_v6(network: Network, out: &mut String) {
    if network.bits == 0 {
        out.push_str("::");
        return;
    }
    let address = network.network().address;
    let groups = groups(address);
    let words = usize::from(network.bits.div_ceil(16)).max(2);
    let (mut from, mut length) = (0, 0);
    let (mut run_from, mut run) = (0, 0);
    for (position, group) in groups[..words].iter().enumerate() {
        if *group == 0 {
            if run == 0 {
                run_from = position;
            }
            run += 1;
        } else if length < run {
            (from, length) = (run_from, run);
            run = 0;
        }
    }
    if length < run {
        (from, length) = (run_from, run);
    }
    let is_v4 = length != words
        && from == 0
        && (length == 6
            || (length == 5 && groups[5] == 0xffff)
            || (length == 7 && address[14] != 0 && address[15] != 1));
    let start = out.len();
    for (position, group) in groups[..words].iter().enumerate() {
        if length != 0 && (from..from + length).contains(&position) {
            if position == from {
                out.push(':');
            }
            if position == words - 1 {
                out.push(':');
            }
        } else if is_v4 && position > 5 {
            let octets = &address[2 * position..2 * position + 2];
            let _ = write!(out, "{}{}", if position == 6 { ':' } else { '.' }, octets[0]);
            if position != 7 || network.bits > 120 {
                let _ = write!(out, ".{}", octets[1]);
            }
        } else {
            if out.len() > start {
                out.push(':');
            }
            let _ = write!(out, "{group:x}");
        }
    }
}

/// The bytes as drivers read them: family, mask, whether it is a network, and the address behind its length.
pub(super) fn to_wire(network: Network, is_cidr: bool) -> Vec<u8> {
    let family = if network.is_v6 { FAMILY_V6 } else { FAMILY_V4 };
    let mut bytes = vec![family, network.bits, u8::from(is_cidr), network.width() as u8];
    bytes.extend_from_slice(&network.address[..network.width()]);
    bytes
}

/// # Errors
/// 22P03
pub(super) fn from_wire(packed_type: PackedType, bytes: &[u8]) -> Result<Network> {
    let name = packed_type.name();
    let refused = |message: String| Err(Error::new(SqlState::InvalidBinaryRepresentation, message));
    let [family, bits, _, width, address @ ..] = bytes else {
        let message = "insufficient data left in message";
        return Err(Error::new(SqlState::ProtocolViolation, message));
    };
    let is_v6 = match *family {
        FAMILY_V4 => false,
        FAMILY_V6 => true,
        _ => return refused(format!("invalid address family in external \"{name}\" value")),
    };
    let mut network = Network { is_v6, bits: *bits, address: [0; 16] };
    if *bits > network.bits_max() {
        return refused(format!("invalid bits in external \"{name}\" value"));
    }
    if usize::from(*width) != network.width() {
        return refused(format!("invalid length in external \"{name}\" value"));
    }
    if address.len() < network.width() {
        let message = "insufficient data left in message";
        return Err(Error::new(SqlState::ProtocolViolation, message));
    }
    if address.len() > network.width() {
        return refused("incorrect binary data format".to_owned());
    }
    network.address[..address.len()].copy_from_slice(address);
    if packed_type == PackedType::Cidr && network.network() != network {
        let message = "invalid external \"cidr\" value";
        return Err(Error::new(SqlState::InvalidBinaryRepresentation, message).with_detail(BITS_BEYOND));
    }
    Ok(network)
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
