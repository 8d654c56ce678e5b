//! Agreements of organizations to a transaction (section 4.6.1), and a transaction with its agreements: Listings 4.2 and 4.3 of
//! the dissertation, as byte strings of our own. docs/ledger-format.md draws them.
//!
//! ```text
//! agreement:             network | hash of the proposal | member | last block | yes or no | why not        signed by the member
//! chained transaction:   network | the proposal as a message | agreements as messages                      signed by the entry
//! ```
//! An agreement names the proposal by the hash of all its bytes, its number among them, and a proposal is executed once: so an
//! agreement is good for one transaction, once, up to the block that it names. Neither the entry organization nor the ordering
//! service is trusted: every member counts the agreements again when it gets the order.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::message::same_network;
use crate::signature::{KeyPair, MessageKind, PublicKey, SplitMessage, Verified, verify};
use crate::signers::SignerTables;
use std::collections::BTreeSet;

/// The longest reason of a refusal; a longer one is cut when it is signed.
const REASON_BYTES_MAX: usize = 400;

/// What an organization says about a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// For which network.
    pub network: LedgerHash,
    /// About which proposal: [`Agreement::name_of`] its message.
    pub proposal: LedgerHash,
    /// Which member, by its place in the founding document.
    pub member: u32,
    /// The last block in which the proposal may be executed by it: what the member has looked at may change.
    pub until: u64,
    /// Nothing if the member agrees, else why it does not.
    pub refusal: Option<String>,
}

impl Agreement {
    /// What a proposal is called in agreements.
    pub fn name_of(proposal: &[u8]) -> LedgerHash {
        LedgerHash::of("proposal", &[proposal])
    }

    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut reason = self.refusal.as_deref().unwrap_or_default();
        while reason.len() > REASON_BYTES_MAX {
            let mut shown = reason.chars();
            shown.next_back();
            reason = shown.as_str();
        }
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).fixed(&self.proposal.0).u32(self.member).u64(self.until);
        writer.byte(u8::from(self.refusal.is_none())).bytes(reason.as_bytes()).finish()
    }

    /// Signs it.
    pub fn sign(&self, member: &KeyPair) -> Vec<u8> {
        member.sign(MessageKind::Agreement, &self.encode())
    }

    /// Verifies a signed agreement to a proposal: it is about this very one, and the signature is that of the member which it
    /// names.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`].
    pub fn verify(
        message: &[u8],
        proposal: &[u8],
        genesis: &Genesis,
        network: &LedgerHash,
    ) -> LedgerResult<Agreement> {
        let verified = verify(MessageKind::Agreement, message)?;
        Agreement::of_verified(&verified, &Agreement::name_of(proposal), genesis, network)
    }

    fn of_verified(
        verified: &Verified<'_>,
        proposal: &LedgerHash,
        genesis: &Genesis,
        network: &LedgerHash,
    ) -> LedgerResult<Agreement> {
        let agreement = Agreement::decode(verified.payload)?;
        let untrusted = |reason: String| Err(LedgerError::Untrusted(reason));
        let Some(identity) = genesis.members.get(agreement.member as usize) else {
            return untrusted(format!("an agreement of member {}, which there is not", agreement.member));
        };
        let name = &identity.name;
        if identity.key != verified.signer {
            return untrusted(format!(
                "an agreement in the name of \"{name}\" is signed by {}",
                verified.signer
            ));
        }
        same_network(&agreement.network, network, "agreement")?;
        if agreement.proposal != *proposal {
            return untrusted(format!("the agreement of \"{name}\" is to another transaction"));
        }
        Ok(agreement)
    }

    fn decode(payload: &[u8]) -> LedgerResult<Agreement> {
        let mut reader = CanonicalReader::new(payload, "agreement");
        let (network, proposal) = (reader.hash()?, reader.hash()?);
        let (member, until, says_yes) = (reader.u32()?, reader.u64()?, reader.byte()?);
        let reason = reader.text()?;
        reader.end()?;
        let refusal = match says_yes {
            0 if reason.len() <= REASON_BYTES_MAX => Some(reason),
            1 if reason.is_empty() => None,
            _ => return Err(LedgerError::Malformed("agreement: it says neither yes nor no".into())),
        };
        Ok(Agreement { network, proposal, member, until, refusal })
    }
}

/// A proposal with its agreements: what the entry organization hands to the ordering service for a table with a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedTransaction {
    /// For which network.
    pub network: LedgerHash,
    /// The signed proposal.
    pub proposal: Vec<u8>,
    /// Signed agreements. Refusals may be among them, and do not count.
    pub agreements: Vec<Vec<u8>>,
}

impl ChainedTransaction {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).bytes(&self.proposal).count(self.agreements.len());
        for agreement in &self.agreements {
            writer.bytes(agreement);
        }
        writer.finish()
    }

    /// Signs it.
    pub fn sign(&self, entry: &KeyPair) -> Vec<u8> {
        entry.sign(MessageKind::Chained, &self.encode())
    }
}

/// An entry of an order, of which nothing is verified: a proposal, or one with agreements.
#[derive(Debug, Clone)]
pub enum OrderEntry<'a> {
    /// A proposal as a message.
    Proposal(&'a [u8]),
    /// A chained transaction.
    Chained(ChainedEntry<'a>),
}

/// A chained transaction, of which nothing is verified.
#[derive(Debug, Clone)]
pub struct ChainedEntry<'a> {
    message: &'a [u8],
    network: LedgerHash,
    proposal: &'a [u8],
    agreements: Vec<&'a [u8]>,
}

fn signer_of(message: &[u8]) -> Option<PublicKey> {
    message.first_chunk().map(|key| PublicKey(*key))
}

impl<'a> OrderEntry<'a> {
    /// Reads an entry. What a member has signed that is no client, too, is a chained transaction; all else is a proposal.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if a member has signed something else.
    pub fn of(message: &'a [u8], genesis: &Genesis) -> LedgerResult<OrderEntry<'a>> {
        let is_member = |key: &PublicKey| genesis.members.iter().any(|member| member.key == *key);
        let is_chained =
            signer_of(message).is_some_and(|key| is_member(&key) && genesis.client(&key).is_err());
        if !is_chained {
            return Ok(OrderEntry::Proposal(message));
        }
        let payload = SplitMessage::split(MessageKind::Chained, message)?.payload;
        let mut reader = CanonicalReader::new(payload, "chained transaction");
        let (network, proposal) = (reader.hash()?, reader.bytes()?);
        let agreements = (0..reader.count()?).map(|_| reader.bytes()).collect::<LedgerResult<Vec<_>>>()?;
        reader.end()?;
        if agreements.len() > genesis.members.len() {
            let reason = format!("{} agreements of {} members", agreements.len(), genesis.members.len());
            return Err(LedgerError::Malformed(format!("chained transaction: {reason}")));
        }
        Ok(OrderEntry::Chained(ChainedEntry { message, network, proposal, agreements }))
    }

    /// The proposal as a message.
    pub fn proposal(&self) -> &'a [u8] {
        match self {
            OrderEntry::Proposal(message) => message,
            OrderEntry::Chained(chained) => chained.proposal,
        }
    }

    /// Agreements as messages; none of a proposal.
    pub fn agreements(&self) -> &[&'a [u8]] {
        match self {
            OrderEntry::Proposal(_) => &[],
            OrderEntry::Chained(chained) => &chained.agreements,
        }
    }

    /// Whose signatures are in it, those that can be read.
    pub(crate) fn signers(&self) -> impl Iterator<Item = PublicKey> {
        let outer = match self {
            OrderEntry::Proposal(_) => None,
            OrderEntry::Chained(chained) => Some(chained.message),
        };
        outer.into_iter().chain([self.proposal()]).chain(self.agreements().to_vec()).filter_map(signer_of)
    }

    /// Verifies the signatures around the proposal, and returns the members that agree to its execution in a block.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`] if one of the agreements is not a member's to this proposal.
    pub fn agreed(
        &self,
        genesis: &Genesis,
        network: &LedgerHash,
        height: u64,
        signers: &SignerTables,
    ) -> LedgerResult<BTreeSet<u32>> {
        let OrderEntry::Chained(chained) = self else { return Ok(BTreeSet::new()) };
        for verified in signers.verify_all(MessageKind::Chained, &[chained.message]) {
            verified?;
        }
        same_network(&chained.network, network, "chained transaction")?;
        let name = Agreement::name_of(chained.proposal);
        let mut agreed = BTreeSet::new();
        for verified in signers.verify_all(MessageKind::Agreement, &chained.agreements) {
            let agreement = Agreement::of_verified(&verified?, &name, genesis, network)?;
            if agreement.refusal.is_none() && agreement.until >= height {
                agreed.insert(agreement.member);
            }
        }
        Ok(agreed)
    }
}
