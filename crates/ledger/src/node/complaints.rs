//! What a node knows against the ordering service whose turn it is: two orders of one number, and the dismissals that members have
//! signed. All of it has been verified, and is forgotten when the next service takes over.

use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::succession::{Dismissal, DismissalReason, Succession, Tenure, TwoOrders};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known against the service whose turn it is.
#[derive(Default)]
pub(super) struct Complaints {
    tenure: Tenure,
    proof: Option<TwoOrders>,
    dismissals: BTreeMap<(u32, DismissalReason), (Dismissal, Vec<u8>)>,
    /// How long a transaction may wait for an order; nothing if the service is not dismissed for silence.
    pub(super) patience: Option<Duration>,
}

impl Complaints {
    /// Forgets what is about a service that was before.
    pub(super) fn renew(&mut self, tenure: Tenure) {
        if self.tenure != tenure {
            *self = Complaints { tenure, patience: self.patience, ..Complaints::default() };
        }
    }

    /// Keeps two orders that were verified, if they are of the service whose turn it is.
    pub(super) fn add_proof(&mut self, tenure: Tenure, proof: TwoOrders) {
        if self.tenure == tenure {
            self.proof.get_or_insert(proof);
        }
    }

    /// Two orders of one number of this service.
    pub(super) fn proof(&self) -> Option<&TwoOrders> {
        self.proof.as_ref()
    }

    /// Signed dismissals, for other members.
    pub(super) fn messages(&self) -> Vec<Vec<u8>> {
        self.dismissals.values().map(|(_, message)| message.clone()).collect()
    }

    /// Whether a dismissal is here, byte for byte.
    pub(super) fn is_known(&self, message: &[u8]) -> bool {
        self.dismissals.values().any(|(_, known)| known == message)
    }

    /// Whether a dismissal says something new about the block of a height or later ones. One of each member for each reason is
    /// kept, and for silence the latest.
    pub(super) fn would_take(&self, dismissal: &Dismissal, next: u64) -> bool {
        let known = self.dismissals.get(&(dismissal.member, dismissal.reason)).map(|(known, _)| known.first);
        let is_new = match dismissal.reason {
            DismissalReason::TwoOrders => known.is_none_or(|first| first > dismissal.first),
            DismissalReason::Silence => dismissal.first == next && known != Some(next),
        };
        dismissal.service == self.tenure.service && is_new
    }

    /// Keeps a dismissal that was verified.
    pub(super) fn take(&mut self, dismissal: Dismissal, message: Vec<u8>) {
        self.dismissals.insert((dismissal.member, dismissal.reason), (dismissal, message));
    }

    /// The first block for which a member has dismissed the service for a reason.
    pub(super) fn dismissed_from(&self, member: usize, reason: DismissalReason) -> Option<u64> {
        self.dismissals.get(&(member as u32, reason)).map(|(dismissal, _)| dismissal.first)
    }

    /// Whether a member takes no order of the service for the block of a height.
    pub(super) fn is_dismissed_by(&self, member: usize, height: u64) -> bool {
        let service = self.tenure.service;
        let is_it = |dismissal: &Dismissal| {
            dismissal.member as usize == member && dismissal.counts_for(service, height)
        };
        self.dismissals.values().any(|(dismissal, _)| is_it(dismissal))
    }

    /// The succession by the block of a height, if a quorum has dismissed the service.
    pub(super) fn succession(
        &self,
        genesis: &Genesis,
        network: LedgerHash,
        height: u64,
    ) -> Option<Succession> {
        let service = self.tenure.service;
        let counts = |dismissal: &Dismissal| {
            let has_proof = dismissal.reason == DismissalReason::Silence || self.proof.is_some();
            has_proof && dismissal.counts_for(service, height)
        };
        let counted = self.dismissals.values().filter(|(dismissal, _)| counts(dismissal));
        // One of each member, the one for two orders before the one for silence.
        let of_members: BTreeMap<u32, &(Dismissal, Vec<u8>)> =
            counted.rev().map(|counted| (counted.0.member, counted)).collect();
        if of_members.len() < genesis.quorum {
            return None;
        }
        let is_proved =
            of_members.values().any(|(dismissal, _)| dismissal.reason == DismissalReason::TwoOrders);
        let dismissals = of_members.into_values().map(|(_, message)| message.clone()).collect();
        let proof = self.proof.clone().filter(|_| is_proved);
        Some(Succession { network, height, service: service + 1, dismissals, proof })
    }

    /// The dismissals, for people.
    pub(super) fn lines(&self, genesis: &Genesis) -> Vec<String> {
        let line = |(dismissal, _): &(Dismissal, Vec<u8>)| {
            let name = &genesis.members[dismissal.member as usize].name;
            match dismissal.reason {
                DismissalReason::TwoOrders => format!(
                    "\"{name}\" takes none of its orders from block {} on, and says that it has signed two of one number",
                    dismissal.first
                ),
                DismissalReason::Silence => format!(
                    "\"{name}\" says that it hands out no order for block {}, and takes none",
                    dismissal.first
                ),
            }
        };
        self.dismissals.values().map(line).collect()
    }
}
