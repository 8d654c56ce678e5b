//! How members leave an ordering service that they have found to lie or to be silent, for the next one of the founding document.
//!
//! ```text
//! dismissal:    network | member | service | first block | why                                  signed by the member
//! succession:   network | block | next service | dismissals as messages | two orders, or none   signed by one of the members
//! ```
//! A succession stands in the place of an order: it is executed as a block without transactions, voted on in rounds like any
//! other block, and once it is certified the orders of the next service count. So which block is the last one of a service is
//! decided by votes, as everything about blocks is, and a member that was away learns it from the blocks.
//!
//! Orders of each service are numbered from 1: order n of a service that took over by block b is for block b + n. A service
//! knows nothing of blocks, and two different orders of one number are proof against it wherever they were shown.
//!
//! A succession is valid with dismissals of as many members as the quorum. Dismissals for two orders count from their first
//! block on, and with the two orders beside them; those for silence count for the very block that was waited for. The header of a
//! block names block and service only, so that members which have different dismissals in hand vote for the same one.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::message::{OrderedBlock, same_network};
use crate::signature::{KeyPair, MessageKind, PublicKey, verify};
use std::collections::BTreeSet;

/// The blocks that the orders of one service are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tenure {
    /// Which service of the founding document, from 0.
    pub service: u32,
    /// The block by which it took over; 0 for the first one.
    pub since: u64,
}

/// Why a member takes no more orders of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DismissalReason {
    /// It has signed two different orders of one number.
    TwoOrders,
    /// A transaction has waited too long for it to hand out the order of a block.
    Silence,
}

/// A member's word that it takes no more orders of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dismissal {
    /// In which network.
    pub network: LedgerHash,
    /// Which member, by its place in the founding document.
    pub member: u32,
    /// Which service, from 0.
    pub service: u32,
    /// The first block for which it takes none; for silence the block that it has waited for, and no other.
    pub first: u64,
    /// Why.
    pub reason: DismissalReason,
}

impl Dismissal {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let reason = match self.reason {
            DismissalReason::TwoOrders => 1,
            DismissalReason::Silence => 2,
        };
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).u32(self.member).u32(self.service).u64(self.first).byte(reason).finish()
    }

    /// Signs it.
    pub fn sign(&self, member: &KeyPair) -> Vec<u8> {
        member.sign(MessageKind::Dismissal, &self.encode())
    }

    /// Verifies a signed dismissal: the signature is that of the member which it names.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], or [`LedgerError::Untrusted`].
    pub fn verify(message: &[u8], genesis: &Genesis, network: &LedgerHash) -> LedgerResult<Dismissal> {
        let verified = verify(MessageKind::Dismissal, message)?;
        let mut reader = CanonicalReader::new(verified.payload, "dismissal");
        let (found, member, service) = (reader.hash()?, reader.u32()?, reader.u32()?);
        let (first, reason) = (reader.u64()?, reader.byte()?);
        reader.end()?;
        let reason = match reason {
            1 => DismissalReason::TwoOrders,
            2 => DismissalReason::Silence,
            _ => return Err(LedgerError::Malformed("dismissal: it has no reason".into())),
        };
        let Some(identity) = genesis.members.get(member as usize) else {
            let reason = format!("a dismissal of member {member}, which there is not");
            return Err(LedgerError::Untrusted(reason));
        };
        if identity.key != verified.signer {
            let (name, signer) = (&identity.name, verified.signer);
            let reason = format!("a dismissal in the name of \"{name}\" is signed by {signer}");
            return Err(LedgerError::Untrusted(reason));
        }
        same_network(&found, network, "dismissal")?;
        Ok(Dismissal { network: found, member, service, first, reason })
    }

    /// Whether it counts for a succession by the block of a height.
    pub fn counts_for(&self, service: u32, height: u64) -> bool {
        let is_of_height = match self.reason {
            DismissalReason::TwoOrders => self.first <= height,
            DismissalReason::Silence => self.first == height,
        };
        self.service == service && is_of_height
    }
}

/// Two different orders of one number that a service has signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoOrders {
    /// One of them, as a message.
    pub one: Vec<u8>,
    /// The other.
    pub other: Vec<u8>,
}

impl TwoOrders {
    /// Both, as they are kept in a file and sent.
    pub fn encode(&self) -> Vec<u8> {
        CanonicalWriter::default().bytes(&self.one).bytes(&self.other).finish()
    }

    /// Reads both. They are not verified.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is anything else.
    pub fn decode(bytes: &[u8]) -> LedgerResult<TwoOrders> {
        let mut reader = CanonicalReader::new(bytes, "two orders");
        let (one, other) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
        reader.end()?;
        Ok(TwoOrders { one, other })
    }

    /// Whether they prove that a service lies. Returns the number that both have.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] and [`LedgerError::Untrusted`] with why they do not.
    pub fn check(&self, genesis: &Genesis, network: &LedgerHash, service: u32) -> LedgerResult<u64> {
        let key = service_key(genesis, service)?;
        let one = OrderedBlock::verify(&self.one, key, network)?;
        let other = OrderedBlock::verify(&self.other, key, network)?;
        if one.height == other.height && one != other {
            return Ok(one.height);
        }
        let reason = format!("two orders, of numbers {} and {}, are no proof", one.height, other.height);
        Err(LedgerError::Untrusted(reason))
    }
}

/// The key of a service.
fn service_key(genesis: &Genesis, service: u32) -> LedgerResult<&PublicKey> {
    let missing = || {
        let count = genesis.services().count();
        let number = u64::from(service) + 1;
        LedgerError::Untrusted(format!(
            "the network has {count} ordering services, and none is number {number}"
        ))
    };
    genesis.services().nth(service as usize).ok_or_else(missing)
}

/// What makes the next ordering service take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Succession {
    /// In which network.
    pub network: LedgerHash,
    /// The block that it is to become.
    pub height: u64,
    /// The service that takes over, from 0.
    pub service: u32,
    /// Signed dismissals of the one before.
    pub dismissals: Vec<Vec<u8>>,
    /// What proves that it has signed two orders, where a dismissal says so.
    pub proof: Option<TwoOrders>,
}

impl Succession {
    /// The bytes of the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.fixed(&self.network.0).u64(self.height).u32(self.service).count(self.dismissals.len());
        for dismissal in &self.dismissals {
            writer.bytes(dismissal);
        }
        let orders: Vec<&Vec<u8>> = self.proof.iter().flat_map(|proof| [&proof.one, &proof.other]).collect();
        writer.count(orders.len());
        for order in orders {
            writer.bytes(order);
        }
        writer.finish()
    }

    /// Signs it.
    pub fn sign(&self, member: &KeyPair) -> Vec<u8> {
        member.sign(MessageKind::Succession, &self.encode())
    }

    /// What stands for it in the header of its block.
    pub fn hash(&self) -> LedgerHash {
        let mut writer = CanonicalWriter::default();
        let named = writer.fixed(&self.network.0).u64(self.height).u32(self.service).finish();
        LedgerHash::of("succession", &[&named])
    }

    fn read(payload: &[u8]) -> LedgerResult<Succession> {
        let mut reader = CanonicalReader::new(payload, "succession");
        let (network, height, service) = (reader.hash()?, reader.u64()?, reader.u32()?);
        let mut messages = || {
            let count = reader.count()?;
            (0..count).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect::<LedgerResult<Vec<_>>>()
        };
        let (dismissals, orders) = (messages()?, messages()?);
        reader.end()?;
        let proof = match <[Vec<u8>; 2]>::try_from(orders) {
            Ok([one, other]) => Some(TwoOrders { one, other }),
            Err(none) if none.is_empty() => None,
            Err(_) => {
                return Err(LedgerError::Malformed("succession: two orders or none are a proof".into()));
            }
        };
        Ok(Succession { network, height, service, dismissals, proof })
    }

    /// Whether the service that had its turn was dismissed by a quorum. Returns why, for people.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], [`LedgerError::Untrusted`] and [`LedgerError::NoQuorum`] with what is wrong or missing.
    pub fn check(&self, genesis: &Genesis, network: &LedgerHash, tenure: Tenure) -> LedgerResult<String> {
        same_network(&self.network, network, "succession")?;
        service_key(genesis, self.service)?;
        let number = u64::from(tenure.service) + 1;
        if self.service != tenure.service + 1 {
            let reason = format!(
                "ordering service {} cannot follow number {number}, whose turn it is",
                u64::from(self.service) + 1
            );
            return Err(LedgerError::Untrusted(reason));
        }
        if self.dismissals.len() > genesis.members.len() {
            let (count, most) = (self.dismissals.len(), genesis.members.len());
            return Err(LedgerError::Untrusted(format!("{count} dismissals of {most} members")));
        }
        let proved =
            self.proof.as_ref().map(|proof| proof.check(genesis, network, tenure.service)).transpose()?;
        let mut members = BTreeSet::new();
        for message in &self.dismissals {
            let dismissal = Dismissal::verify(message, genesis, network)?;
            let has_proof = dismissal.reason == DismissalReason::Silence || proved.is_some();
            if has_proof && dismissal.counts_for(tenure.service, self.height) {
                members.insert(dismissal.member as usize);
            }
        }
        let names: Vec<&str> = members.iter().map(|member| genesis.members[*member].name.as_str()).collect();
        if names.len() < genesis.quorum {
            let (has, need) = (names.len(), genesis.quorum);
            let reason = format!(
                "ordering service {number} is dismissed from block {} by {has} members, and {need} have to",
                self.height
            );
            return Err(LedgerError::NoQuorum(reason));
        }
        let why = proved.map_or_else(
            || format!("it has handed out no order for block {}", self.height),
            |number| format!("it has signed two orders of number {number}"),
        );
        Ok(format!("{} have dismissed ordering service {number}: {why}", names.join(", ")))
    }
}

/// What is executed as a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockOrder {
    /// Transactions, in the order of the service whose turn it is.
    Ordered(OrderedBlock),
    /// Nothing; the next service takes over, for a reason.
    Succession(Succession, String),
}

/// The signer of a message of which nothing is verified.
fn signer_of(message: &[u8]) -> LedgerResult<PublicKey> {
    let mut reader = CanonicalReader::new(message, "order");
    Ok(PublicKey(reader.array()?))
}

impl BlockOrder {
    /// Verifies what is to be a block: an order of the service whose turn it is, or a succession of the next one.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`], and those of [`OrderedBlock::verify`] and [`Succession::check`].
    pub fn verify(
        message: &[u8],
        genesis: &Genesis,
        network: &LedgerHash,
        tenure: Tenure,
    ) -> LedgerResult<BlockOrder> {
        let (signer, key) = (signer_of(message)?, service_key(genesis, tenure.service)?);
        let is_member = genesis.members.iter().any(|member| member.key == signer);
        if signer == *key || !is_member {
            return OrderedBlock::verify(message, key, network).map(BlockOrder::Ordered);
        }
        let verified = verify(MessageKind::Succession, message)?;
        let succession = Succession::read(verified.payload)?;
        let reason = succession.check(genesis, network, tenure)?;
        Ok(BlockOrder::Succession(succession, reason))
    }

    /// For which block it is.
    pub fn height(&self, tenure: Tenure) -> u64 {
        match self {
            BlockOrder::Ordered(order) => order.height.saturating_add(tenure.since),
            BlockOrder::Succession(succession, _) => succession.height,
        }
    }

    /// What stands for it in the header of its block.
    pub fn hash(&self) -> LedgerHash {
        match self {
            BlockOrder::Ordered(order) => order.hash(),
            BlockOrder::Succession(succession, _) => succession.hash(),
        }
    }

    /// Which service takes over by what was verified before, from 0; nothing if it is an order.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`].
    pub fn decode_successor(message: &[u8], genesis: &Genesis) -> LedgerResult<Option<u32>> {
        let signer = signer_of(message)?;
        if genesis.services().any(|key| *key == signer) {
            return Ok(None);
        }
        let mut reader = CanonicalReader::new(message, "succession");
        let _signer: [u8; 32] = reader.array()?;
        Ok(Some(Succession::read(reader.bytes()?)?.service))
    }

    /// The entries of an order that was verified before; a succession has none.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`].
    pub fn decode_entries(message: &[u8], genesis: &Genesis) -> LedgerResult<Vec<Vec<u8>>> {
        match BlockOrder::decode_successor(message, genesis)? {
            Some(_) => Ok(Vec::new()),
            None => Ok(OrderedBlock::decode(message)?.proposals),
        }
    }
}

#[cfg(test)]
#[path = "succession_tests.rs"]
mod tests;
