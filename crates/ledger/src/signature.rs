//! Signed messages. A message is its payload, the key of its signer and a signature over the kind of message and the payload; a
//! receiver verifies it before it looks at the payload.
//!
//! ```text
//! signed bytes:   ankerdb-ledger/1 KIND\n  payload
//! message:        signer (32) | length of the payload (4) | payload | signature (64)
//! ```

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::{VERSION, hex};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use std::fmt;

/// What a message is. Its name is in the signed bytes, so a vote can never pass for a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A client's transaction.
    Proposal,
    /// An order of transactions.
    Order,
    /// A member's vote on a ledger block.
    Vote,
    /// What a member says about a proposal.
    Agreement,
    /// A proposal with agreements.
    Chained,
    /// A member's word that it takes no more orders of an ordering service.
    Dismissal,
    /// What makes the next ordering service take over.
    Succession,
}

impl MessageKind {
    /// As it stands in the signed bytes.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Proposal => "proposal",
            MessageKind::Order => "order",
            MessageKind::Vote => "vote",
            MessageKind::Agreement => "agreement",
            MessageKind::Chained => "chained transaction",
            MessageKind::Dismissal => "dismissal",
            MessageKind::Succession => "succession",
        }
    }
}

/// An ed25519 public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&hex(&self.0[..4]))
    }
}

/// A secret key and its public one.
pub struct KeyPair(SigningKey);

impl KeyPair {
    /// A new one, of the system's random bits.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if the system has none.
    pub fn generate() -> LedgerResult<KeyPair> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| LedgerError::Missing(format!("no random bits for a key: {error}")))?;
        Ok(KeyPair::from_seed(&seed))
    }

    /// The one of a seed that is kept in secret.
    pub fn from_seed(seed: &[u8; 32]) -> KeyPair {
        KeyPair(SigningKey::from_bytes(seed))
    }

    /// The secret.
    pub fn seed(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// What others know.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// A message with a signature.
    pub fn sign(&self, kind: MessageKind, payload: &[u8]) -> Vec<u8> {
        let signature = self.0.sign(&signed_bytes(kind, payload));
        CanonicalWriter::default()
            .fixed(&self.public().0)
            .bytes(payload)
            .fixed(&signature.to_bytes())
            .finish()
    }
}

/// Without the secret.
impl fmt::Debug for KeyPair {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "KeyPair({:?})", self.public())
    }
}

/// The bytes that a signature is of.
pub fn signed_bytes(kind: MessageKind, payload: &[u8]) -> Vec<u8> {
    [VERSION.as_bytes(), kind.name().as_bytes(), b"\n", payload].concat()
}

/// A message whose signature has been verified.
#[derive(Debug)]
pub struct Verified<'a> {
    /// Whose signature it has.
    pub signer: PublicKey,
    /// What was signed.
    pub payload: &'a [u8],
}

/// A message in its parts, of which nothing is verified.
#[derive(Debug, Clone)]
pub(crate) struct SplitMessage<'a> {
    pub(crate) signer: PublicKey,
    pub(crate) payload: &'a [u8],
    pub(crate) signature: [u8; 64],
}

impl<'a> SplitMessage<'a> {
    /// # Errors
    /// [`LedgerError::Malformed`] if it is no message.
    pub(crate) fn split(kind: MessageKind, message: &'a [u8]) -> LedgerResult<SplitMessage<'a>> {
        let mut reader = CanonicalReader::new(message, kind.name());
        let signer = PublicKey(reader.array()?);
        let payload = reader.bytes()?;
        let signature = reader.array()?;
        reader.end()?;
        Ok(SplitMessage { signer, payload, signature })
    }
}

/// What is said of a signature that is not its signer's.
pub(crate) fn wrong(kind: MessageKind, signer: &PublicKey) -> LedgerError {
    LedgerError::Untrusted(format!("the signature of a {} by {signer} is wrong", kind.name()))
}

/// Verifies a message. Strictly: keys of small order and other encodings of a signature are refused. Many messages of few
/// signers are verified faster by [`crate::signers::SignerTables`], with the same verdict on each.
///
/// # Errors
/// [`LedgerError::Malformed`] if it is no message, [`LedgerError::Untrusted`] if the signature is not its signer's.
pub fn verify(kind: MessageKind, message: &[u8]) -> LedgerResult<Verified<'_>> {
    let SplitMessage { signer, payload, signature } = SplitMessage::split(kind, message)?;
    let key = VerifyingKey::from_bytes(&signer.0).map_err(|_| wrong(kind, &signer))?;
    key.verify_strict(&signed_bytes(kind, payload), &Signature::from_bytes(&signature))
        .map_err(|_| wrong(kind, &signer))?;
    Ok(Verified { signer, payload })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_another_kind_makes_a_signature_wrong() {
        let keys = KeyPair::generate().expect("random bits");
        let message = keys.sign(MessageKind::Vote, b"yes");
        assert_eq!(verify(MessageKind::Vote, &message).expect("as signed").payload, b"yes");
        assert!(matches!(verify(MessageKind::Order, &message), Err(LedgerError::Untrusted(_))));
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(verify(MessageKind::Vote, &changed).is_err(), "byte {at}");
        }
    }
}
