//! Keys of indexes, packed into words so that their order is that of the columns.
//!
//! ```text
//! district                  warehouse, 4 bits of the district
//! customer, order           district, 32 bits of the number
//! order line                order, 4 bits of the line
//! customer by name          district, 10 bits of the name's number, 12 bits of the customer
//! order by customer         district, 12 bits of the customer, 32 bits of the order: the last one first
//! stock                     warehouse, 32 bits of the item
//! ```
//!
//! Up to 65,535 warehouses have keys of their own.

use crate::tpcc::random::SYLLABLES;

/// WAREHOUSE, ITEM, SUPPLIER, NATION or REGION.
#[inline]
pub fn number(number: i32) -> u64 {
    u64::from(number as u32)
}

/// DISTRICT
#[inline]
pub fn district(warehouse: i32, district: i32) -> u64 {
    number(warehouse) << 4 | number(district)
}

/// CUSTOMER, ORDER or NEW-ORDER.
#[inline]
pub fn in_district(warehouse: i32, district_number: i32, of: i32) -> u64 {
    district(warehouse, district_number) << 32 | number(of)
}

/// The district's key, and the number, of a key by [`in_district`].
#[inline]
pub fn parts_in_district(key: u64) -> (u64, i32) {
    (key >> 32, key as u32 as i32)
}

/// ORDER-LINE
#[inline]
pub fn order_line(order: u64, line: i32) -> u64 {
    order << 4 | number(line)
}

/// The order's key of a key by [`order_line`].
#[inline]
pub fn order_of_line(key: u64) -> u64 {
    key >> 4
}

/// CUSTOMER, by the number of the last name.
#[inline]
pub fn customer_by_name(district: u64, name: u32, customer: i32) -> u64 {
    (district << 10 | u64::from(name)) << 12 | number(customer)
}

/// Whether two keys by [`customer_by_name`] are of one name in one district.
#[inline]
pub fn is_same_name(left: u64, right: u64) -> bool {
    left >> 12 == right >> 12
}

/// ORDER, by its customer.
#[inline]
pub fn order_by_customer(district: u64, customer: i32, order: i32) -> u64 {
    customer_of_orders(district, customer) << 32 | u64::from(!(order as u32))
}

/// The upper half of the keys of a customer's orders.
#[inline]
pub fn customer_of_orders(district: u64, customer: i32) -> u64 {
    district << 12 | number(customer)
}

/// STOCK
#[inline]
pub fn stock(warehouse: i32, item: i32) -> u64 {
    number(warehouse) << 32 | number(item)
}

/// The number from 0 to 999 of a last name, one digit for each syllable (clause 4.3.2.3); `None` for other names.
pub fn last_name(name: &str) -> Option<u32> {
    let (mut rest, mut number) = (name.as_bytes(), 0);
    for _ in 0..3 {
        let digit = SYLLABLES.iter().position(|syllable| rest.starts_with(syllable.as_bytes()))?;
        rest = &rest[SYLLABLES[digit].len()..];
        number = number * 10 + digit as u32;
    }
    rest.is_empty().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::random;

    #[test]
    fn names_have_the_numbers_that_they_are_made_from() {
        assert!((0..1000).all(|number| last_name(&random::last_name(number)) == Some(number)));
        assert_eq!(["", "BAR", "BARBARBA", "BARBARBARB", "barbarbar"].map(last_name), [None; 5]);
    }

    #[test]
    fn keys_are_ordered_like_their_columns() {
        let places =
            [1, 2, 999, 1000, 4096, 65_535].map(|warehouse| [1, 2, 9, 10].map(|place| (warehouse, place)));
        let places: Vec<(i32, i32)> = places.into_iter().flatten().collect();
        let is_ascending = |keys: Vec<u64>| keys.windows(2).all(|pair| pair[0] < pair[1]);
        let of = |keys: &dyn Fn(i32, i32) -> Vec<u64>| {
            places.iter().flat_map(|place| keys(place.0, place.1)).collect()
        };
        assert!(is_ascending(of(&|w, d| vec![district(w, d)])));
        assert!(is_ascending(of(&|w, d| [1, 3000, i32::MAX].map(|number| in_district(w, d, number)).into())));
        let lines = |w, d| {
            let orders = [1, 3000, i32::MAX].map(|number| in_district(w, d, number));
            orders.iter().flat_map(|order| [0, 1, 15].map(|line| order_line(*order, line))).collect()
        };
        assert!(is_ascending(of(&lines)));
        let names = |w, d| {
            let names = [0, 1, 999].iter();
            names.flat_map(|name| [0, 1, 3000].map(|c| customer_by_name(district(w, d), *name, c))).collect()
        };
        assert!(is_ascending(of(&names)));
        let orders = |w, d| {
            let customers = [1, 2, 3000].iter();
            customers
                .flat_map(|c| [i32::MAX, 3001, 1].map(|o| order_by_customer(district(w, d), *c, o)))
                .collect()
        };
        assert!(is_ascending(of(&orders)));
        assert!(stock(1, 100_001) < stock(2, 1) && stock(65_535, 1) < stock(65_535, 2));
    }

    #[test]
    fn keys_tell_their_parts() {
        let order = in_district(1000, 10, 12_345);
        assert_eq!(parts_in_district(order), (district(1000, 10), 12_345));
        assert_eq!(order_of_line(order_line(order, 15)), order);
        let key = |name, customer| customer_by_name(district(7, 3), name, customer);
        assert!(is_same_name(key(5, 0), key(5, 3000)) && !is_same_name(key(5, 3000), key(6, 0)));
        assert_eq!(order_by_customer(district(7, 3), 9, 4) >> 32, customer_of_orders(district(7, 3), 9));
    }
}
