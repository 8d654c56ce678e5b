//! Signatures of clients that sign often, verified with tables of multiples of their keys.
//!
//! ed25519's verification computes `R' = sB - hA` and compares its encoding with the signature's R. With tables of
//! `j * 2^(wi) * P` for each window `i` of w bits, a multiple of a point P is a sum of one entry for each window, without a
//! doubling:
//!
//! ```text
//! B: 23 windows of 11 bits, 1,024 entries each, one table for all      A: 32 windows of 8 bits, 128 entries each, 640 KiB
//! ```
//! The encodings of many R' are made together, as they share their one inversion. Nothing is random, and nothing is added up over
//! signatures: the verdict on each is that of [`super::signature::verify`], the strict one, for everybody and every time. The
//! usual verification of batches would be somewhat faster, and cannot be strict: `R' - R` of a signer who cheats may be of small
//! order, and a sum over the batch finds that or not by chance.
//!
//! Not in constant time; keys, messages and signatures are public.

use crate::error::LedgerResult;
use crate::hash::VERSION;
use crate::signature::{MessageKind, PublicKey, SplitMessage, Verified, verify, wrong};
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::{Scalar, constants::ED25519_BASEPOINT_POINT};
use ed25519_dalek::VerifyingKey;
use sha2::{Digest as _, Sha512};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, RwLock};

/// Bits of a window of the base point, and of a key.
const BASE_BITS: usize = 11;
const KEY_BITS: usize = 8;

/// A table is made for a key with so many signatures; it costs about as much as verifying 15 of them, and its memory.
const SIGNATURES_MIN: usize = 64;

/// The most tables, 40 MiB together. Signatures of other keys are verified one by one.
const TABLES_MAX: usize = 64;

/// A scalar of this group has so many bits.
const SCALAR_BITS: usize = 253;

/// Multiples of a point.
struct PointTable {
    bits: usize,
    /// For each window its entries 1 to 2^(bits - 1), one behind the other.
    entries: Vec<EdwardsPoint>,
}

impl PointTable {
    fn new(point: EdwardsPoint, bits: usize) -> PointTable {
        // One more bit, for the carry of signed digits.
        let (windows, count) = ((SCALAR_BITS + 1).div_ceil(bits), 1 << (bits - 1));
        let mut entries = Vec::with_capacity(windows * count);
        let mut first = point;
        for _ in 0..windows {
            let mut entry = first;
            entries.push(entry);
            for _ in 1..count {
                entry += first;
                entries.push(entry);
            }
            first = entry + entry;
        }
        PointTable { bits, entries }
    }

    /// Adds a multiple of the point.
    fn add_to(&self, sum: &mut EdwardsPoint, scalar: &[u8; 32]) {
        let half = 1_usize << (self.bits - 1);
        let mut carry = 0;
        for (window, entries) in self.entries.chunks_exact(half).enumerate() {
            // From 0 to 2^bits; what is above the half counts from above.
            let digit = bits_of(scalar, window * self.bits, self.bits) + carry;
            carry = usize::from(digit > half);
            if carry == 1 {
                let negative = (half << 1) - digit;
                if negative > 0 {
                    *sum -= &entries[negative - 1];
                }
            } else if digit > 0 {
                *sum += &entries[digit - 1];
            }
        }
    }
}

/// Some bits of a number of 32 bytes, the lowest byte first; zeros behind its end.
fn bits_of(bytes: &[u8; 32], at: usize, count: usize) -> usize {
    let byte = |place: usize| bytes.get(place).copied().map_or(0, usize::from);
    let word = byte(at / 8) | byte(at / 8 + 1) << 8 | byte(at / 8 + 2) << 16;
    word >> (at % 8) & ((1 << count) - 1)
}

fn base_table() -> &'static PointTable {
    static TABLE: OnceLock<PointTable> = OnceLock::new();
    TABLE.get_or_init(|| PointTable::new(ED25519_BASEPOINT_POINT, BASE_BITS))
}

/// Tables of the keys that sign often.
#[derive(Default)]
pub struct SignerTables {
    counts: RwLock<BTreeMap<PublicKey, usize>>,
    /// Of the negative of each key.
    tables: RwLock<BTreeMap<PublicKey, Arc<PointTable>>>,
}

impl std::fmt::Debug for SignerTables {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<PublicKey> = self.read_tables().keys().copied().collect();
        to.debug_tuple("SignerTables").field(&keys).finish()
    }
}

impl SignerTables {
    fn read_tables(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<PublicKey, Arc<PointTable>>> {
        self.tables.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts signatures that are to be verified, and makes tables for keys that have many. The caller leaves out keys of which
    /// no signature counts.
    pub fn expect(&self, signers: impl Iterator<Item = PublicKey>) {
        let mut frequent = BTreeSet::new();
        let mut counts = self.counts.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        for signer in signers {
            let count = counts.entry(signer).or_default();
            *count += 1;
            if *count == SIGNATURES_MIN {
                frequent.insert(signer);
            }
        }
        drop(counts);
        for signer in frequent {
            let key = VerifyingKey::from_bytes(&signer.0).ok().filter(|key| !key.is_weak());
            let point = key.and_then(|_| CompressedEdwardsY(signer.0).decompress());
            if let Some(point) = point
                && self.read_tables().len() < TABLES_MAX
            {
                let table = Arc::new(PointTable::new(-point, KEY_BITS));
                let mut tables = self.tables.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                tables.insert(signer, table);
            }
        }
    }

    /// Verifies messages of a kind, each as [`verify`] does: what it would say of each, in their order. Costs some microseconds
    /// for each signature of a key that has a table.
    pub fn verify_all<'a>(
        &self,
        kind: MessageKind,
        messages: &[&'a [u8]],
    ) -> Vec<LedgerResult<Verified<'a>>> {
        let tables = self.read_tables().clone();
        let mut found: Vec<Option<LedgerResult<Verified<'a>>>> = Vec::with_capacity(messages.len());
        let (mut places, mut points) = (Vec::new(), Vec::new());
        for (place, message) in messages.iter().enumerate() {
            let split = SplitMessage::split(kind, message).ok();
            let table = split.as_ref().and_then(|split| tables.get(&split.signer));
            match (split, table) {
                (Some(split), Some(table)) => {
                    places.push((place, split.clone()));
                    points.push(expected_point(kind, &split, table));
                    found.push(None);
                }
                _ => found.push(Some(verify(kind, message))),
            }
        }
        let wanted: Vec<EdwardsPoint> = points.iter().map(|point| point.unwrap_or_default()).collect();
        let encoded = EdwardsPoint::compress_batch_alloc(&wanted);
        for (((place, split), point), encoded) in places.into_iter().zip(points).zip(encoded) {
            let is_right =
                encoded.0 == split.signature[..32] && point.is_some_and(|point| !point.is_small_order());
            let verified = Verified { signer: split.signer, payload: split.payload };
            found[place] = Some(if is_right { Ok(verified) } else { Err(wrong(kind, &split.signer)) });
        }
        found.into_iter().map(|found| found.expect("each message was looked at")).collect()
    }
}

/// `h`: the hash of R, A and what was signed, as a scalar.
fn challenge(kind: MessageKind, point: &[u8], signer: &PublicKey, payload: &[u8]) -> Scalar {
    let mut hash = Sha512::new();
    for part in [point, &signer.0, VERSION.as_bytes(), kind.name().as_bytes(), b"\n", payload] {
        hash.update(part);
    }
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

/// `sB - hA`, or nothing if s is not below the order of the group.
fn expected_point(kind: MessageKind, message: &SplitMessage<'_>, key: &PointTable) -> Option<EdwardsPoint> {
    let (point, scalar) = message.signature.split_at(32);
    let scalar: [u8; 32] = scalar.try_into().expect("the other half of 64 bytes");
    let scalar = Option::<Scalar>::from(Scalar::from_canonical_bytes(scalar))?;
    let challenge = challenge(kind, point, &message.signer, message.payload);
    let mut sum = EdwardsPoint::default();
    base_table().add_to(&mut sum, scalar.as_bytes());
    key.add_to(&mut sum, challenge.as_bytes());
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::KeyPair;

    #[test]
    fn tables_give_the_multiples_that_the_library_gives() {
        let point = EdwardsPoint::mul_base(&Scalar::from(77_u64));
        for bits in [KEY_BITS, BASE_BITS, 5] {
            let table = PointTable::new(point, bits);
            let mut scalars =
                vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, Scalar::from(1_u64 << (bits - 1))];
            let mut random = fastrand::Rng::with_seed(3);
            for _ in 0..100 {
                let mut bytes = [0; 32];
                random.fill(&mut bytes);
                scalars.push(Scalar::from_bytes_mod_order(bytes));
            }
            for scalar in scalars {
                let mut sum = EdwardsPoint::default();
                table.add_to(&mut sum, scalar.as_bytes());
                assert_eq!(sum, point * scalar, "{bits} bits, {scalar:?}");
            }
        }
    }

    fn messages(keys: &KeyPair, count: usize) -> Vec<Vec<u8>> {
        let payload = |at: usize| at.to_string().repeat(1 + at % 40);
        (0..count).map(|at| keys.sign(MessageKind::Proposal, payload(at).as_bytes())).collect()
    }

    /// Verdicts of tables and of one by one.
    fn verdicts(tables: &SignerTables, messages: &[Vec<u8>]) -> (Vec<String>, Vec<String>) {
        let slices: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let shown = |verdict: LedgerResult<Verified<'_>>| match verdict {
            Ok(verified) => format!("{} {:?}", verified.signer, verified.payload),
            Err(error) => error.to_string(),
        };
        let together = tables.verify_all(MessageKind::Proposal, &slices).into_iter().map(shown).collect();
        (together, slices.iter().map(|message| shown(verify(MessageKind::Proposal, message))).collect())
    }

    #[test]
    fn verdicts_are_those_of_one_by_one_and_a_wrong_signature_is_named() {
        let (often, rarely) = (KeyPair::from_seed(&[1; 32]), KeyPair::from_seed(&[2; 32]));
        let mut all = messages(&often, 200);
        all.extend(messages(&rarely, 5));
        let tables = SignerTables::default();
        tables.expect((0..200).map(|_| often.public()).chain((0..5).map(|_| rarely.public())));
        assert_eq!(tables.read_tables().keys().copied().collect::<Vec<_>>(), [often.public()]);
        let (together, apart) = verdicts(&tables, &all);
        assert_eq!(together, apart);
        assert!(together.iter().all(|verdict| !verdict.contains("wrong")));
        // Each byte of a message, one message each.
        let length = all[150].len();
        let mut changed = vec![all[150].clone(); length];
        changed.iter_mut().enumerate().for_each(|(at, message)| message[at] ^= 1);
        changed.push(all[7].clone());
        changed.push(vec![1, 2, 3]);
        let (together, apart) = verdicts(&tables, &changed);
        assert_eq!(together, apart);
        let right = together.iter().filter(|verdict| verdict.starts_with(&often.public().to_string()));
        assert_eq!(right.count(), 1, "{together:#?}");
    }

    /// The eight points whose order divides 8.
    fn small_points() -> [EdwardsPoint; 8] {
        curve25519_dalek::constants::EIGHT_TORSION
    }

    /// A signature with a point of small order added to its R, and with the right s for that: one that a sum over a batch may
    /// take for right.
    fn with_torsion(seed: &[u8; 32], payload: &[u8], nonce: Scalar, torsion: EdwardsPoint) -> Vec<u8> {
        let keys = KeyPair::from_seed(seed);
        let secret = ed25519_dalek::SigningKey::from_bytes(seed).to_scalar();
        let point = (EdwardsPoint::mul_base(&nonce) + torsion).compress();
        let scalar = nonce + challenge(MessageKind::Proposal, &point.0, &keys.public(), payload) * secret;
        let mut message = keys.sign(MessageKind::Proposal, payload);
        let at = message.len() - 64;
        message[at..at + 32].copy_from_slice(&point.0);
        message[at + 32..].copy_from_slice(scalar.as_bytes());
        message
    }

    #[test]
    fn signatures_that_only_some_verifiers_take_are_refused_as_one_by_one() {
        let seed = [1; 32];
        let keys = KeyPair::from_seed(&seed);
        let tables = SignerTables::default();
        tables.expect((0..SIGNATURES_MIN).map(|_| keys.public()));
        assert_eq!(tables.read_tables().len(), 1);
        let nonce = Scalar::from(123_456_789_u64);
        let forge = |torsion: &EdwardsPoint| with_torsion(&seed, b"pay", nonce, *torsion);
        let forged: Vec<Vec<u8>> = small_points().iter().map(forge).collect();
        let (together, apart) = verdicts(&tables, &forged);
        assert_eq!(together, apart);
        // Without torsion it is an honest one.
        let is_right = |verdict: &&String| !verdict.contains("wrong");
        assert_eq!(together.iter().filter(is_right).count(), 1, "{together:#?}");
        // The equation holds, but R is of small order; and an s that is above the order of the group.
        let small = with_torsion(&seed, b"pay", Scalar::ZERO, EdwardsPoint::default());
        let mut high = keys.sign(MessageKind::Proposal, b"pay");
        let at = high.len() - 32;
        let mut carry = 1_u16;
        for (byte, added) in high[at..].iter_mut().zip((-Scalar::ONE).to_bytes()) {
            let sum = u16::from(*byte) + u16::from(added) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        let (together, apart) = verdicts(&tables, &[small, high]);
        assert_eq!(together, apart);
        assert!(together.iter().all(|verdict| verdict.contains("wrong")), "{together:#?}");
    }

    #[test]
    fn a_key_of_small_order_gets_no_table() {
        let tables = SignerTables::default();
        for point in small_points() {
            let key = PublicKey(point.compress().0);
            tables.expect((0..SIGNATURES_MIN).map(|_| key));
        }
        assert_eq!(tables.read_tables().len(), 0);
    }
}
