//! Changes of inputs at random, such as an engine for fuzzing makes first: for tests that have to be done with soon.

use fastrand::Rng;

/// Lengths and counts that code forgets.
const EDGES: [u32; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, u32::MAX];

/// Some changes of an input, one to four of them; `other` is one of the same target, of which pieces may be taken.
pub fn mutated(input: &[u8], other: &[u8], random: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..random.usize(1..=4) {
        mutate(&mut bytes, other, random);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = random.usize(0..bytes.len());
    let end = (at + random.usize(1..=16)).min(bytes.len());
    match random.u8(0..8) {
        0 => bytes[at] ^= 1 << random.u8(0..8),
        1 => bytes[at] = random.u8(..),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        5 => {
            let edge = EDGES[random.usize(0..EDGES.len())];
            let edge = if random.bool() { edge.to_le_bytes() } else { edge.to_be_bytes() };
            let length = (bytes.len() - at).min(4);
            bytes[at..at + length].copy_from_slice(&edge[..length]);
        }
        6 => bytes[at..end].fill(0),
        _ => {
            let start = random.usize(0..=other.len());
            let length = random.usize(0..=(other.len() - start).min(64));
            bytes.splice(at..at, other[start..start + length].iter().copied());
        }
    }
}
