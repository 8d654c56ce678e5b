//! Dismissals and successions: which of them count, and which a minority, or one that repeats old ones, could make.

use super::*;
use crate::genesis::Identity;

fn keys(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32])
}

/// Three members with keys 1 to 3, of which two are a quorum, and ordering services with keys 11 to 13.
fn genesis() -> Genesis {
    let member = |seed: u8| Identity { name: format!("m{seed}"), key: keys(seed).public() };
    Genesis {
        name: "tested".into(),
        members: (1..4).map(member).collect(),
        quorum: 2,
        ordering: keys(11).public(),
        successors: vec![keys(12).public(), keys(13).public()],
        clients: Vec::new(),
    }
}

const FIRST: Tenure = Tenure { service: 0, since: 0 };

fn order(number: u64, entry: &[u8], signer: u8) -> Vec<u8> {
    let network = genesis().network();
    OrderedBlock { network, height: number, proposals: vec![entry.to_vec()] }.sign(&keys(signer))
}

fn two_orders() -> TwoOrders {
    TwoOrders { one: order(4, b"a", 11), other: order(4, b"b", 11) }
}

fn dismissal(member: u32, first: u64, reason: DismissalReason) -> Dismissal {
    Dismissal { network: genesis().network(), member, service: 0, first, reason }
}

fn signed(member: u32, first: u64, reason: DismissalReason) -> Vec<u8> {
    dismissal(member, first, reason).sign(&keys(member as u8 + 1))
}

fn lied(member: u32) -> Vec<u8> {
    signed(member, 5, DismissalReason::TwoOrders)
}

fn silent(member: u32, first: u64) -> Vec<u8> {
    signed(member, first, DismissalReason::Silence)
}

fn succession(dismissals: Vec<Vec<u8>>, proof: Option<TwoOrders>) -> Succession {
    Succession { network: genesis().network(), height: 7, service: 1, dismissals, proof }
}

fn verdict(succession: &Succession, tenure: Tenure) -> LedgerResult<BlockOrder> {
    let genesis = genesis();
    BlockOrder::verify(&succession.sign(&keys(3)), &genesis, &genesis.network(), tenure)
}

#[test]
fn a_quorum_of_dismissals_makes_the_next_service_take_over_and_the_header_does_not_tell_which() {
    let for_lies = succession(vec![lied(0), lied(2)], Some(two_orders()));
    let for_silence = succession(vec![silent(1, 7), silent(2, 7)], None);
    let mixed = succession(vec![lied(0), silent(1, 7)], Some(two_orders()));
    for (succession, why) in [
        (&for_lies, "m1, m3 have dismissed ordering service 1: it has signed two orders of number 4"),
        (&for_silence, "m2, m3 have dismissed ordering service 1: it has handed out no order for block 7"),
        (&mixed, "m1, m2 have dismissed ordering service 1: it has signed two orders of number 4"),
    ] {
        let verified = verdict(succession, FIRST).expect(why);
        assert_eq!(verified, BlockOrder::Succession(succession.clone(), why.to_owned()));
        assert_eq!((verified.hash(), verified.height(FIRST)), (for_lies.hash(), 7));
        let entries = BlockOrder::decode_entries(&succession.sign(&keys(3)), &genesis()).expect("none");
        assert!(entries.is_empty());
    }
    assert_ne!(for_lies.hash(), Succession { height: 8, ..for_lies.clone() }.hash());
    assert_ne!(for_lies.hash(), Succession { service: 2, ..for_lies.clone() }.hash());
}

#[test]
fn what_a_minority_can_make_is_no_succession() {
    let two = DismissalReason::TwoOrders;
    let mut broken = lied(2);
    broken[40] ^= 1;
    let elsewhere = Dismissal { network: LedgerHash([7; 32]), ..dismissal(2, 5, two) }.sign(&keys(3));
    let of_next = Dismissal { service: 1, ..dismissal(2, 5, two) }.sign(&keys(3));
    let borrowed = dismissal(2, 5, two).sign(&keys(1));
    let stranger = Dismissal { member: 3, ..dismissal(2, 5, two) }.sign(&keys(4));
    let with_proof = |dismissals: Vec<Vec<u8>>| succession(dismissals, Some(two_orders()));
    let same = TwoOrders { other: two_orders().one, ..two_orders() };
    let numbers = TwoOrders { other: order(5, b"b", 11), ..two_orders() };
    let others = TwoOrders { other: order(4, b"b", 12), ..two_orders() };
    let quorum = || vec![lied(0), lied(1)];
    for (forged, reason) in [
        (with_proof(Vec::new()), "by 0 members, and 2 have to"),
        (with_proof(vec![lied(0)]), "by 1 members, and 2 have to"),
        (with_proof(vec![lied(0), lied(0)]), "by 1 members"),
        (with_proof(vec![lied(0), borrowed]), "in the name of \"m3\" is signed by"),
        (with_proof(vec![lied(0), stranger]), "member 3, which there is not"),
        (with_proof(vec![lied(0), broken]), "is wrong"),
        (with_proof(vec![lied(0), elsewhere]), "came to network"),
        (with_proof(vec![lied(0), of_next]), "by 1 members"),
        // Too late for this block; silence at another one; and without the orders that it is for.
        (with_proof(vec![lied(0), signed(1, 8, two)]), "by 1 members"),
        (succession(vec![silent(0, 7), silent(1, 6)], None), "by 1 members"),
        (succession(vec![silent(0, 7), silent(1, 8)], None), "by 1 members"),
        (succession(quorum(), None), "by 0 members"),
        (succession(quorum(), Some(same)), "numbers 4 and 4, are no proof"),
        (succession(quorum(), Some(numbers)), "numbers 4 and 5, are no proof"),
        (succession(quorum(), Some(others)), "which is not the ordering service"),
        (with_proof(vec![lied(0), lied(1), lied(2), lied(0)]), "4 dismissals of 3 members"),
        (Succession { service: 2, ..with_proof(quorum()) }, "service 3 cannot follow number 1"),
        (Succession { service: 0, ..with_proof(quorum()) }, "service 1 cannot follow number 1"),
        (Succession { service: 3, ..with_proof(quorum()) }, "none is number 4"),
    ] {
        let said = verdict(&forged, FIRST).expect_err(reason).to_string();
        assert!(said.contains(reason), "{said}, and not {reason}");
    }
    // A good one a second time: the second service has its turn then.
    let said =
        verdict(&with_proof(quorum()), Tenure { service: 1, since: 7 }).expect_err("again").to_string();
    assert!(said.contains("service 2 cannot follow number 2"), "{said}");
    // Signed by nobody who could have made it.
    let network = genesis().network();
    let message = with_proof(quorum()).sign(&keys(12));
    assert!(BlockOrder::verify(&message, &genesis(), &network, FIRST).is_err());
}

#[test]
fn orders_count_in_the_turn_of_their_service_and_by_their_number() {
    let (genesis, second) = (genesis(), Tenure { service: 1, since: 7 });
    let network = genesis.network();
    for (signer, tenure, height) in [
        (11, FIRST, Some(4)),
        (12, FIRST, None),
        (11, second, None),
        (12, second, Some(11)),
        (13, second, None),
    ] {
        let found = BlockOrder::verify(&order(4, b"a", signer), &genesis, &network, tenure);
        assert_eq!(found.ok().map(|order| order.height(tenure)), height, "{signer}");
    }
}

#[test]
fn a_founding_document_with_successors_is_read_again_and_their_keys_are_no_others() {
    let founded = genesis();
    assert_eq!(Genesis::decode(&founded.encode()), Ok(founded.clone()));
    let alone = Genesis { successors: Vec::new(), ..founded.clone() };
    assert_eq!(Genesis::decode(&alone.encode()), Ok(alone.clone()));
    assert_ne!(alone.network(), founded.network());
    assert!(founded.encode().starts_with(&alone.encode()));
    for key in [11, 12, 2] {
        let wrong = Genesis { successors: vec![keys(12).public(), keys(key).public()], ..founded.clone() };
        let said = Genesis::decode(&wrong.encode()).expect_err("a key twice").to_string();
        assert!(said.contains("ordering service 3: each ordering service has a key"), "{said}");
    }
    let mut empty = alone.encode();
    empty.extend([0; 4]);
    assert!(Genesis::decode(&empty).is_err(), "two forms of one document");
}
