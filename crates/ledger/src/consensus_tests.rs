//! Votes of honest and other members, counted.

use super::*;
use crate::block::SuccessBits;
use crate::genesis::Identity;
use crate::signature::KeyPair;

struct Members {
    genesis: Genesis,
    keys: Vec<KeyPair>,
}

fn members(count: usize, quorum: usize) -> Members {
    let keys: Vec<KeyPair> = (0..=count).map(|at| KeyPair::from_seed(&[at as u8 + 1; 32])).collect();
    let identity = |(at, keys): (usize, &KeyPair)| Identity { name: format!("org{at}"), key: keys.public() };
    let members = keys.iter().take(count).enumerate().map(identity).collect();
    let ordering = keys[count].public();
    let genesis = Genesis {
        name: "test".into(),
        members,
        quorum,
        ordering,
        successors: Vec::new(),
        clients: Vec::new(),
    };
    genesis.check().expect("a policy");
    Members { genesis, keys }
}

impl Members {
    fn header(&self, digest: u8) -> BlockHeader {
        let hash = |byte| LedgerHash([byte; 32]);
        let outcomes = SuccessBits::new(&[true, digest != 9]);
        BlockHeader {
            network: self.genesis.network(),
            height: 7,
            previous: hash(1),
            order: hash(2),
            outcomes,
            root: hash(3),
            digest: hash(digest),
            state: hash(5),
        }
    }

    fn vote(&self, member: usize, round: u32, digest: u8) -> Vec<u8> {
        Vote { member: member as u32, round, header: self.header(digest) }.sign(&self.keys[member])
    }

    fn count(&self, votes: &[Vec<u8>]) -> VoteCount {
        count_votes(&self.genesis, &self.genesis.network(), 7, votes)
    }
}

#[test]
fn two_of_three_are_a_quorum_of_any_2_and_none_of_all_3() {
    for (quorum, wins) in [(2, true), (3, false)] {
        let all = members(3, quorum);
        let count = all.count(&[all.vote(0, 1, 4), all.vote(1, 1, 9), all.vote(2, 1, 4)]);
        assert_eq!(count.winner.is_some(), wins);
        assert_eq!(count.votes.iter().map(|(member, _)| *member).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(count.dissents[0].name, "org1");
        let said = count.explain(&all.genesis, 7);
        assert!(
            said.contains("\"org1\" has the rows that were changed (digest): 09090909 instead of 04040404"),
            "{said}"
        );
        assert!(said.contains("transaction 1 failed instead of succeeded"), "{said}");
    }
}

#[test]
fn a_member_that_votes_twice_in_a_round_is_not_counted_and_named() {
    let all = members(3, 2);
    let count = all.count(&[all.vote(0, 1, 4), all.vote(1, 1, 4), all.vote(1, 1, 9), all.vote(2, 1, 9)]);
    assert!(count.winner.is_none() && count.faults[0].contains("\"org1\" has signed two votes"), "{count:?}");
    // An equal vote is no second one.
    let count = all.count(&[all.vote(0, 1, 4), all.vote(1, 1, 4), all.vote(1, 1, 4)]);
    assert!(count.winner.is_some() && count.faults.is_empty(), "{count:?}");
}

#[test]
fn a_quorum_is_of_one_round_and_the_next_begins_when_this_one_cannot_have_one() {
    let all = members(3, 2);
    let mut votes = vec![all.vote(0, 1, 4)];
    assert_eq!(all.count(&votes).round, 1);
    // The third member may still vote as either.
    votes.push(all.vote(1, 1, 9));
    assert_eq!(all.count(&votes).round, 1);
    votes.push(all.vote(2, 1, 8));
    assert_eq!(all.count(&votes).round, 2);
    // The vote of the first round and that of the second are no quorum together.
    votes.push(all.vote(1, 2, 4));
    let count = all.count(&votes);
    assert!(count.winner.is_none() && count.round == 2, "{count:?}");
    votes.push(all.vote(0, 2, 4));
    assert_eq!(all.count(&votes).winner, Some(all.header(4)));
    // A quorum of an earlier round stays one, whatever its members sign afterwards.
    let changed = [all.vote(0, 1, 4), all.vote(1, 1, 4), all.vote(1, 2, 9), all.vote(2, 2, 9)];
    assert_eq!(all.count(&changed).winner, Some(all.header(4)));
    // All-3: one that differs ends the round, whether the third has voted or not.
    let all = members(3, 3);
    assert_eq!(all.count(&[all.vote(0, 1, 4), all.vote(1, 1, 9)]).round, 2);
}

#[test]
fn forged_borrowed_old_and_damaged_votes_are_not_counted() {
    let all = members(3, 2);
    let honest = all.vote(0, 1, 4);
    // In the name of another member.
    let borrowed = Vote { member: 1, round: 1, header: all.header(4) }.sign(&all.keys[2]);
    // Of no member.
    let foreign = Vote { member: 3, round: 1, header: all.header(4) }.sign(&all.keys[3]);
    // Of another height, as if replayed.
    let old =
        Vote { member: 1, round: 1, header: BlockHeader { height: 6, ..all.header(4) } }.sign(&all.keys[1]);
    // Of another network.
    let network = LedgerHash([8; 32]);
    let other =
        Vote { member: 1, round: 1, header: BlockHeader { network, ..all.header(4) } }.sign(&all.keys[1]);
    let mut damaged = all.vote(2, 1, 4);
    *damaged.last_mut().expect("a signature") ^= 1;
    let huge = vec![255; 1 << 20];
    let count = all.count(&[honest, borrowed, foreign, old, other, damaged, huge, Vec::new()]);
    assert!(count.winner.is_none());
    assert_eq!(count.faults.len(), 7, "{:#?}", count.faults);
    assert_eq!(count.silent, ["org1", "org2"]);
}

#[test]
fn policies_under_which_two_blocks_could_both_count_are_refused() {
    for (count, quorum) in [(4, 2), (3, 1), (3, 4), (2, 1)] {
        let keys: Vec<KeyPair> = (0..count).map(|at| KeyPair::from_seed(&[at as u8 + 1; 32])).collect();
        let identity =
            |(at, keys): (usize, &KeyPair)| Identity { name: format!("org{at}"), key: keys.public() };
        let members = keys.iter().enumerate().map(identity).collect();
        let ordering = keys[0].public();
        let genesis = Genesis {
            name: "test".into(),
            members,
            quorum,
            ordering,
            successors: Vec::new(),
            clients: Vec::new(),
        };
        assert!(genesis.check().is_err(), "{quorum} of {count}");
    }
}
