//! Counting votes (section 4.5.4): a block counts if as many members as the policy asks for have the same LedgerBlockHash.
//! Votes carry the whole header, so those that differ say in what.
//!
//! A member is counted once, with its vote of the latest round. One that signs two votes in one round is not counted at all,
//! and is named; so is a message that is not a valid vote for this block.

use crate::block::BlockHeader;
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::message::Vote;
use std::collections::BTreeMap;

/// A member that has something else than the others.
#[derive(Debug, Clone)]
pub struct Dissent {
    /// Its place in the founding document.
    pub member: usize,
    /// Its name.
    pub name: String,
    /// What it has.
    pub header: BlockHeader,
    /// In what that differs, for people.
    pub differences: Vec<String>,
}

/// What the votes on a block have come to.
#[derive(Debug, Clone, Default)]
pub struct VoteCount {
    /// The header that has the quorum.
    pub winner: Option<BlockHeader>,
    /// The signed votes for it, by member.
    pub votes: Vec<(usize, Vec<u8>)>,
    /// Members with another one; without a winner, all groups but the largest.
    pub dissents: Vec<Dissent>,
    /// Messages that were not counted, and why.
    pub faults: Vec<String>,
    /// Members without a vote.
    pub silent: Vec<String>,
}

/// Counts signed votes on the block of a height.
pub fn count_votes(genesis: &Genesis, network: &LedgerHash, height: u64, messages: &[Vec<u8>]) -> VoteCount {
    let mut count = VoteCount::default();
    let mut latest: BTreeMap<usize, (Vote, &Vec<u8>)> = BTreeMap::new();
    let mut twice = Vec::new();
    for message in messages {
        let vote = match Vote::verify(message, genesis, network) {
            Ok(vote) => vote,
            Err(error) => {
                count.faults.push(error.to_string());
                continue;
            }
        };
        let member = vote.member as usize;
        let name = &genesis.members[member].name;
        if vote.header.height != height {
            count.faults.push(format!(
                "\"{name}\" voted on block {} when block {height} was voted on",
                vote.header.height
            ));
            continue;
        }
        match latest.get(&member) {
            Some((other, _)) if other.round == vote.round && other.header != vote.header => {
                count
                    .faults
                    .push(format!("\"{name}\" has signed two votes on block {height}: neither counts"));
                twice.push(member);
            }
            Some((other, _)) if other.round >= vote.round => {}
            _ => drop(latest.insert(member, (vote, message))),
        }
    }
    latest.retain(|member, _| !twice.contains(member));
    let is_silent = |member: &usize| !latest.contains_key(member) && !twice.contains(member);
    let silent = (0..genesis.members.len()).filter(is_silent);
    count.silent = silent.map(|member| genesis.members[member].name.clone()).collect();
    decide(genesis, &latest, &mut count);
    count
}

fn decide(genesis: &Genesis, latest: &BTreeMap<usize, (Vote, &Vec<u8>)>, count: &mut VoteCount) {
    let mut groups: BTreeMap<LedgerHash, Vec<usize>> = BTreeMap::new();
    for (member, (vote, _)) in latest {
        groups.entry(vote.header.hash()).or_default().push(*member);
    }
    // The largest group; among equals that of the first member, so that all name the same one.
    let largest = groups.values().max_by_key(|members| (members.len(), std::cmp::Reverse(members[0])));
    let Some(largest) = largest else { return };
    let header = latest[&largest[0]].0.header.clone();
    for (member, (vote, message)) in latest {
        if vote.header == header {
            count.votes.push((*member, (*message).clone()));
        } else {
            let differences = vote.header.differences(&header);
            let name = genesis.members[*member].name.clone();
            count.dissents.push(Dissent { member: *member, name, header: vote.header.clone(), differences });
        }
    }
    if largest.len() >= genesis.quorum {
        count.winner = Some(header);
    }
}

impl VoteCount {
    /// Why there is no winner: which members disagree, and on what.
    pub fn explain(&self, genesis: &Genesis, height: u64) -> String {
        let need = genesis.quorum;
        let mut text = format!(
            "block {height} has no quorum: {} needs {need} equal votes, {} are equal",
            genesis.policy(),
            self.votes.len()
        );
        if let Some((member, _)) = self.votes.first().filter(|_| !self.dissents.is_empty()) {
            text.push_str(&format!(" (as \"{}\" has it)", genesis.members[*member].name));
        }
        for dissent in &self.dissents {
            text.push_str(&format!("; \"{}\" has {}", dissent.name, dissent.differences.join(", ")));
        }
        if !self.silent.is_empty() {
            text.push_str(&format!("; no vote of {}", self.silent.join(", ")));
        }
        for fault in &self.faults {
            text.push_str(&format!("; {fault}"));
        }
        text
    }
}

#[cfg(test)]
#[path = "consensus_tests.rs"]
mod tests;
