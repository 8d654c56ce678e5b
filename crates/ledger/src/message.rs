//! What is signed and sent: a client's proposal, an order of proposals, a member's vote (Listings 4.1, 4.4 and 4.5 of the
//! dissertation, as byte strings of our own). docs/ledger-format.md draws them.

use crate::block::BlockHeader;
use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::signature::{KeyPair, MessageKind, PublicKey, Verified, verify};
use crate::value::LedgerValue;

/// A statement of a transaction with the values of its `$1`, `$2` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedStatement {
    /// Its text.
    pub sql: String,
    /// Its values.
    pub values: Vec<LedgerValue>,
}

/// A transaction that a client proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// For which network.
    pub network: LedgerHash,
    /// Counts the client's transactions: one that is not greater than all before is a repetition and does nothing.
    pub number: u64,
    /// What is to be done, all of it or nothing.
    pub statements: Vec<ProposedStatement>,
}

impl Proposal {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).u64(self.number).count(self.statements.len());
        for statement in &self.statements {
            writer.bytes(statement.sql.as_bytes()).count(statement.values.len());
            for value in &statement.values {
                value.encode(&mut writer);
            }
        }
        writer.finish()
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is none.
    pub fn decode(payload: &[u8]) -> LedgerResult<Proposal> {
        let mut reader = CanonicalReader::new(payload, "proposal");
        let network = reader.hash()?;
        let number = reader.u64()?;
        let mut statements = Vec::new();
        for _ in 0..reader.count()? {
            let sql = reader.text()?;
            let count = reader.count()?;
            let values = (0..count).map(|_| LedgerValue::decode(&mut reader)).collect::<LedgerResult<_>>()?;
            statements.push(ProposedStatement { sql, values });
        }
        reader.end()?;
        Ok(Proposal { network, number, statements })
    }

    /// Signs it.
    pub fn sign(&self, client: &KeyPair) -> Vec<u8> {
        client.sign(MessageKind::Proposal, &self.encode())
    }

    /// Verifies a signed proposal and whose it is.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`] if it is of another network or of none of its clients.
    pub fn verify(
        message: &[u8],
        genesis: &Genesis,
        network: &LedgerHash,
    ) -> LedgerResult<(PublicKey, Proposal)> {
        Proposal::of_verified(&verify(MessageKind::Proposal, message)?, genesis, network)
    }

    /// Reads a proposal whose signature has been verified, and whose it is.
    ///
    /// # Errors
    /// Those of [`Proposal::verify`].
    pub fn of_verified(
        verified: &Verified<'_>,
        genesis: &Genesis,
        network: &LedgerHash,
    ) -> LedgerResult<(PublicKey, Proposal)> {
        genesis.client(&verified.signer)?;
        let proposal = Proposal::decode(verified.payload)?;
        same_network(&proposal.network, network, "proposal")?;
        Ok((verified.signer, proposal))
    }
}

/// # Errors
/// [`LedgerError::Untrusted`] if a message is for another network.
pub(crate) fn same_network(own: &LedgerHash, network: &LedgerHash, what: &str) -> LedgerResult<()> {
    if own == network {
        return Ok(());
    }
    let reason = format!("a {what} for network {} came to network {}", own.short(), network.short());
    Err(LedgerError::Untrusted(reason))
}

/// An order of proposals: what the ordering service hands to all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedBlock {
    /// For which network.
    pub network: LedgerHash,
    /// Counts the orders of its service, from 1. Of the first service it is the block that it is to become; of one that took over
    /// by a later block it is so many blocks behind that.
    pub height: u64,
    /// Signed proposals; those for tables with an agreement policy as chained transactions ([`crate::agreement`]).
    pub proposals: Vec<Vec<u8>>,
}

impl OrderedBlock {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).u64(self.height).count(self.proposals.len());
        for proposal in &self.proposals {
            writer.bytes(proposal);
        }
        writer.finish()
    }

    /// Signs it.
    pub fn sign(&self, ordering: &KeyPair) -> Vec<u8> {
        ordering.sign(MessageKind::Order, &self.encode())
    }

    /// Verifies a signed order of the ordering service with a key.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`] if it is of another network or not of this service.
    pub fn verify(message: &[u8], service: &PublicKey, network: &LedgerHash) -> LedgerResult<OrderedBlock> {
        let verified = verify(MessageKind::Order, message)?;
        if verified.signer != *service {
            let reason =
                format!("an order is signed by {}, which is not the ordering service", verified.signer);
            return Err(LedgerError::Untrusted(reason));
        }
        let order = OrderedBlock::read(verified.payload)?;
        same_network(&order.network, network, "block")?;
        Ok(order)
    }

    /// Reads a signed order whose signature was verified before.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`].
    pub fn decode(message: &[u8]) -> LedgerResult<OrderedBlock> {
        let mut reader = CanonicalReader::new(message, "order");
        let _signer: [u8; 32] = reader.array()?;
        OrderedBlock::read(reader.bytes()?)
    }

    fn read(payload: &[u8]) -> LedgerResult<OrderedBlock> {
        let mut reader = CanonicalReader::new(payload, "order");
        let (network, height) = (reader.hash()?, reader.u64()?);
        let mut proposals = Vec::new();
        for _ in 0..reader.count()? {
            proposals.push(reader.bytes()?.to_vec());
        }
        reader.end()?;
        Ok(OrderedBlock { network, height, proposals })
    }

    /// The hash of what was ordered.
    pub fn hash(&self) -> LedgerHash {
        LedgerHash::of("order", &[&self.encode()])
    }
}

/// What a member says that it has: the whole header of its ledger block, so that others see what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote {
    /// Which member, by its place in the founding document.
    pub member: u32,
    /// Counts the votes of a member on one height, from 1: after a recovery it votes again.
    pub round: u32,
    /// What it has.
    pub header: BlockHeader,
}

impl Vote {
    /// Signs it.
    pub fn sign(&self, member: &KeyPair) -> Vec<u8> {
        let payload =
            CanonicalWriter::default().u32(self.member).u32(self.round).bytes(&self.header.encode()).finish();
        member.sign(MessageKind::Vote, &payload)
    }

    /// Verifies a signed vote: the signature is that of the member which it names.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`].
    pub fn verify(message: &[u8], genesis: &Genesis, network: &LedgerHash) -> LedgerResult<Vote> {
        let verified = verify(MessageKind::Vote, message)?;
        let mut reader = CanonicalReader::new(verified.payload, "vote");
        let (member, round) = (reader.u32()?, reader.u32()?);
        let header = BlockHeader::decode(reader.bytes()?)?;
        reader.end()?;
        let Some(identity) = genesis.members.get(member as usize) else {
            return Err(LedgerError::Untrusted(format!("a vote of member {member}, which there is not")));
        };
        if identity.key != verified.signer {
            let reason =
                format!("a vote in the name of \"{}\" is signed by {}", identity.name, verified.signer);
            return Err(LedgerError::Untrusted(reason));
        }
        same_network(&header.network, network, "vote")?;
        Ok(Vote { member, round, header })
    }
}
