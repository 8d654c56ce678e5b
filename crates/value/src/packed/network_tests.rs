//! Order, texts and wire forms of addresses.

use super::*;
use crate::strategy::network;
use proptest::prelude::*;
use std::cmp::Ordering;

/// PostgreSQL's comparison.
fn compare(left: Network, right: Network) -> Ordering {
    let bit = |network: Network, at: u8| network.address[usize::from(at / 8)] >> (7 - at % 8) & 1;
    let common = left.bits.min(right.bits);
    left.is_v6
        .cmp(&right.is_v6)
        .then_with(|| {
            (0..common)
                .map(|at| bit(left, at).cmp(&bit(right, at)))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
        .then_with(|| left.bits.cmp(&right.bits))
        .then_with(|| left.address.cmp(&right.address))
}

fn shown(text: &str, is_cidr: bool) -> String {
    let packed_type = if is_cidr { PackedType::Cidr } else { PackedType::Inet };
    match packed_type.parse(text) {
        Ok(packed) => {
            let mut shown = String::new();
            packed.borrow().push_text(&mut shown);
            shown
        }
        Err(error) => error.state().code().to_owned(),
    }
}

proptest! {
    #[test]
    fn bytes_order_as_networks_do(left in network(), right in network()) {
        let packed = |network: Network| network.packed(PackedType::Inet);
        prop_assert_eq!(packed(left).borrow().cmp(&packed(right).borrow()), compare(left, right));
        prop_assert_eq!(packed(left).borrow().padded().cmp(&packed(right).borrow().padded()), compare(left, right));
    }

    #[test]
    fn packed_networks_and_their_texts_and_wire_forms_come_back(network in network()) {
        let packed = network.packed(PackedType::Inet);
        prop_assert_eq!(packed.borrow().network(), network);
        prop_assert!(PackedType::Inet.is_stored_form(packed.borrow().bytes()));
        let padded = packed.borrow().padded();
        prop_assert_eq!(crate::PackedRef::new(PackedType::Inet, &padded).to_packed(), packed.clone());
        let mut text = String::new();
        packed.borrow().push_text(&mut text);
        prop_assert_eq!(PackedType::Inet.parse(&text).unwrap(), packed.clone());
        prop_assert_eq!(PackedType::Inet.from_wire(&packed.borrow().to_wire()).unwrap(), packed);
    }

    #[test]
    fn no_text_panics(text in "[0-9a-f:./x]{0,24}") {
        let _ = PackedType::Inet.parse(&text);
        let _ = PackedType::Cidr.parse(&text);
    }
}

#[test]
fn networks_may_be_abbreviated() {
    for (text, is) in [
        ("10", "10.0.0.0/8"),
        ("10.1", "10.1.0.0/16"),
        ("192.168", "192.168.0.0/24"),
        ("224", "224.0.0.0/4"),
        ("0x0a01", "10.1.0.0/16"),
        ("::ffff:1.2.3.0/120", "::ffff:1.2.3.0/120"),
        ("10.1.2.3/8", "22P02"),
        ("", "22P02"),
    ] {
        assert_eq!(shown(text, true), is, "{text}");
    }
    assert_eq!(shown("10", false), "22P02");
    assert_eq!(shown("1:2:3:4:5:6:1.2.3.4", false), "1:2:3:4:5:6:102:304");
    assert_eq!(shown("::1.2.3.4", false), "::1.2.3.4");
}

#[test]
fn no_two_types_have_one_width() {
    for packed in PackedType::ALL {
        let Some(width) = packed.width() else { continue };
        assert_eq!(PackedType::by_width(width), Some(packed));
        assert_ne!(width, 16, "which is that of an uuid");
    }
}
