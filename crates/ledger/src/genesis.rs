//! What the organizations of a network agree about before its first block: their names and keys, the keys of clients and of the
//! ordering service, and how many members have to have the same effects. Its hash is the network's name, and stands in every
//! message.

use crate::bytes::{CanonicalReader, CanonicalWriter};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::signature::PublicKey;

/// Name and key of an organization or a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// For people.
    pub name: String,
    /// What its signatures are verified with.
    pub key: PublicKey,
}

/// The founding document of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genesis {
    /// For people; two networks of one name and the same members differ by their keys.
    pub name: String,
    /// The organizations, each with a vote.
    pub members: Vec<Identity>,
    /// How many members have to have the same ledger block: the c of the dissertation's section 4.3.2.
    pub quorum: usize,
    /// Whose orders are executed. Not trusted with more than that.
    pub ordering: PublicKey,
    /// Whose orders are executed instead, one after the other, when a quorum has dismissed the one before.
    pub successors: Vec<PublicKey>,
    /// Whose transactions are executed.
    pub clients: Vec<Identity>,
}

impl Genesis {
    /// Checks that the policy is one under which no two blocks of one height can both have a quorum.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with the reason.
    pub fn check(&self) -> LedgerResult<()> {
        let refused = |reason: String| Err(LedgerError::Refused(reason));
        let (members, quorum) = (self.members.len(), self.quorum);
        if quorum > members {
            return refused(format!("a quorum of {quorum} of {members} members is never reached"));
        }
        if quorum * 2 <= members {
            let reason = "two halves could commit different blocks; more than half is needed";
            return refused(format!("a quorum of {quorum} of {members} members: {reason}"));
        }
        for (at, member) in self.members.iter().enumerate() {
            let is_twice = |other: &Identity| other.name == member.name || other.key == member.key;
            if self.members[..at].iter().any(is_twice) {
                return refused(format!("member \"{}\" is there twice, by name or key", member.name));
            }
        }
        let parties = self.members.iter().chain(&self.clients).map(|party| &party.key);
        for (at, key) in self.successors.iter().enumerate() {
            let is_first = *key == self.ordering || self.successors[..at].contains(key);
            if is_first || parties.clone().any(|party| [key, &self.ordering].contains(&party)) {
                let reason = "each ordering service has a key that is no other party's";
                return refused(format!("ordering service {}: {reason}", at + 2));
            }
        }
        Ok(())
    }

    /// The document's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        writer.bytes(self.name.as_bytes()).count(self.quorum).fixed(&self.ordering.0);
        for identities in [&self.members, &self.clients] {
            writer.count(identities.len());
            for identity in identities {
                writer.bytes(identity.name.as_bytes()).fixed(&identity.key.0);
            }
        }
        if !self.successors.is_empty() {
            writer.count(self.successors.len());
            for key in &self.successors {
                writer.fixed(&key.0);
            }
        }
        writer.finish()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] if it is none, and those of [`Genesis::check`].
    pub fn decode(bytes: &[u8]) -> LedgerResult<Genesis> {
        let mut reader = CanonicalReader::new(bytes, "founding document");
        let name = reader.text()?;
        let quorum = reader.u32()? as usize;
        let ordering = PublicKey(reader.array()?);
        let mut identities = || {
            let count = reader.count()?;
            let identity = |_| Ok(Identity { name: reader.text()?, key: PublicKey(reader.array()?) });
            (0..count).map(identity).collect::<LedgerResult<Vec<_>>>()
        };
        let (members, clients) = (identities()?, identities()?);
        // Documents that name one ordering service end here.
        let mut successors = Vec::new();
        if reader.has_more() {
            let count = reader.count()?;
            successors = (0..count).map(|_| Ok(PublicKey(reader.array()?))).collect::<LedgerResult<_>>()?;
            if successors.is_empty() {
                return Err(LedgerError::Malformed("founding document: a list of no successors".into()));
            }
        }
        reader.end()?;
        let genesis = Genesis { name, members, quorum, ordering, successors, clients };
        genesis.check()?;
        Ok(genesis)
    }

    /// The network's name among all networks.
    pub fn network(&self) -> LedgerHash {
        LedgerHash::of("network", &[&self.encode()])
    }

    /// The keys of the ordering services, in the order in which they take over.
    pub fn services(&self) -> impl Iterator<Item = &PublicKey> {
        std::iter::once(&self.ordering).chain(&self.successors)
    }

    /// `Any-2` of three, or `All-3`.
    pub fn policy(&self) -> String {
        let kind = if self.quorum == self.members.len() { "All" } else { "Any" };
        format!("{kind}-{}", self.quorum)
    }

    pub(crate) fn client(&self, key: &PublicKey) -> LedgerResult<&Identity> {
        let found = self.clients.iter().find(|client| client.key == *key);
        found
            .ok_or_else(|| LedgerError::Untrusted(format!("{key} is no client of network \"{}\"", self.name)))
    }
}
