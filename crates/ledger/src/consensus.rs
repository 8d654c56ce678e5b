//! Counting votes (section 4.5.4): a block counts if as many members as the policy asks for have the same LedgerBlockHash.
//! Votes carry the whole header, so those that differ say in what.
//!
//! A quorum is one of votes of a single round. An honest member votes once in a round, and votes in the next one only if it
//! has seen that no header can get a quorum in this one any more ([`VoteCount::round`]); so no two headers of one height get a
//! quorum as long as the members that two quorums share are honest, whatever messages are lost and whichever members stop. A
//! member that signs two votes in one round is not counted at all, and is named; so is a message that is not a valid vote for
//! this block.

use crate::block::BlockHeader;
use crate::genesis::Genesis;
use crate::hash::LedgerHash;
use crate::message::Vote;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The round in which members vote now: in none of those before can a header get a quorum any more.
    pub round: u32,
}

/// The votes of one round by member; a member that has signed two has none.
type RoundVotes<'a> = BTreeMap<usize, (Vote, &'a Vec<u8>)>;

/// Counts signed votes on the block of a height.
pub fn count_votes(genesis: &Genesis, network: &LedgerHash, height: u64, messages: &[Vec<u8>]) -> VoteCount {
    let mut count = VoteCount { round: 1, ..VoteCount::default() };
    let mut rounds: BTreeMap<u32, RoundVotes<'_>> = BTreeMap::new();
    let mut twice = BTreeSet::new();
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
        let round = rounds.entry(vote.round).or_default();
        match round.get(&member) {
            Some((other, _)) if other.header != vote.header => {
                let fault = format!("\"{name}\" has signed two votes on block {height}: neither counts");
                if twice.insert(member) {
                    count.faults.push(fault);
                }
            }
            _ => drop(round.insert(member, (vote, message))),
        }
    }
    for round in rounds.values_mut() {
        round.retain(|member, _| !twice.contains(member));
    }
    let has_voted = |member: &usize| rounds.values().any(|round| round.contains_key(member));
    let is_silent = |member: &usize| !has_voted(member) && !twice.contains(member);
    let silent = (0..genesis.members.len()).filter(is_silent);
    count.silent = silent.map(|member| genesis.members[member].name.clone()).collect();
    while rounds.get(&count.round).is_some_and(|round| is_without_quorum(genesis, round)) {
        count.round += 1;
    }
    decide(genesis, &rounds, &mut count);
    count
}

/// The largest group of equal votes; among equals that of the first member, so that all name the same one.
fn largest_group(round: &RoundVotes<'_>) -> Vec<usize> {
    let mut groups: BTreeMap<LedgerHash, Vec<usize>> = BTreeMap::new();
    for (member, (vote, _)) in round {
        groups.entry(vote.header.hash()).or_default().push(*member);
    }
    let largest = groups.into_values().max_by_key(|members| (members.len(), std::cmp::Reverse(members[0])));
    largest.unwrap_or_default()
}

/// Whether no header can get a quorum in a round any more, whatever the members vote whose vote is not known.
fn is_without_quorum(genesis: &Genesis, round: &RoundVotes<'_>) -> bool {
    let unknown = genesis.members.len() - round.len();
    largest_group(round).len() + unknown < genesis.quorum
}

fn decide(genesis: &Genesis, rounds: &BTreeMap<u32, RoundVotes<'_>>, count: &mut VoteCount) {
    let mut latest = RoundVotes::new();
    for round in rounds.values() {
        latest.extend(round.iter().map(|(member, (vote, message))| (*member, (vote.clone(), *message))));
    }
    let won = rounds.values().find(|round| largest_group(round).len() >= genesis.quorum);
    let counted = won.unwrap_or(&latest);
    let Some(first) = largest_group(counted).first().copied() else { return };
    let header = counted[&first].0.header.clone();
    let equal = counted.iter().filter(|(_, (vote, _))| vote.header == header);
    count.votes = equal.map(|(member, (_, message))| (*member, (*message).clone())).collect();
    for (member, (vote, _)) in latest.iter().filter(|(_, (vote, _))| vote.header != header) {
        let differences = vote.header.differences(&header);
        let name = genesis.members[*member].name.clone();
        count.dissents.push(Dissent { member: *member, name, header: vote.header.clone(), differences });
    }
    count.winner = won.map(|_| header);
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
