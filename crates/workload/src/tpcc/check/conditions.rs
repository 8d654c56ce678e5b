//! The twelve conditions, in the order of the specification.

use super::Violations;
use super::image::{DatabaseSums, District, DistrictKey};

/// Orders of a freshly loaded district that are not new.
const DELIVERED_BY_LOADER: i64 = 2100;

/// Checks all.
pub(super) fn check(image: &DatabaseSums, found: &mut Violations) {
    check_warehouses(image, found);
    for (&place, district) in &image.districts {
        check_numbers(place, district, found);
        check_orders(place, district, found);
        check_district_sums(place, district, found);
        check_customers(place, district, found);
    }
}

fn at(place: DistrictKey) -> String {
    format!("district {}/{}", place.0, place.1)
}

/// 3.3.2.1: W_YTD = sum(D_YTD). 3.3.2.8: W_YTD = sum(H_AMOUNT).
fn check_warehouses(image: &DatabaseSums, found: &mut Violations) {
    for (&id, &ytd) in &image.warehouses {
        let districts = image.districts.range((id, i16::MIN)..=(id, i16::MAX)).map(|(_, district)| district);
        let (of_districts, paid) =
            districts.fold((0, 0), |(ytd, paid), district| (ytd + district.ytd, paid + district.paid));
        found.expect_same("3.3.2.1", ytd, of_districts, |ytd, sum| {
            format!("warehouse {id} has w_ytd {ytd} cents, its districts have {sum}")
        });
        found.expect_same("3.3.2.8", ytd, paid, |ytd, sum| {
            format!("warehouse {id} has w_ytd {ytd} cents, its history has {sum}")
        });
    }
}

/// 3.3.2.2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID). 3.3.2.3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER.
/// A district without new orders has no maximum.
fn check_numbers(place: DistrictKey, district: &District, found: &mut Violations) {
    let last = i64::from(district.next_order) - 1;
    found.expect_same("3.3.2.2", last, i64::from(district.last_order), |last, order| {
        format!("{} has d_next_o_id - 1 = {last}, max(o_id) = {order}", at(place))
    });
    let Some((low, high, rows)) = district.new_orders else { return };
    found.expect_same("3.3.2.2", last, i64::from(high), |last, order| {
        format!("{} has d_next_o_id - 1 = {last}, max(no_o_id) = {order}", at(place))
    });
    found.expect_same("3.3.2.3", i64::from(high) - i64::from(low) + 1, rows, |_, rows| {
        format!("{} has no_o_id from {low} to {high}, but {rows} rows of new_order", at(place))
    });
}

/// 3.3.2.4: sum(O_OL_CNT) = rows of ORDER-LINE. 3.3.2.9: D_YTD = sum(H_AMOUNT). 3.3.2.11: rows of ORDER - rows of
/// NEW-ORDER = 2,100 + deliveries.
fn check_district_sums(place: DistrictKey, district: &District, found: &mut Violations) {
    found.expect_same("3.3.2.4", district.lines_expected, district.lines, |expected, rows| {
        format!("{} has sum(o_ol_cnt) = {expected}, but {rows} rows of order_line", at(place))
    });
    found.expect_same("3.3.2.9", district.ytd, district.paid, |ytd, sum| {
        format!("{} has d_ytd {ytd} cents, its history has {sum}", at(place))
    });
    let delivered = district.order_count - district.new_orders.map_or(0, |(_, _, rows)| rows);
    let deliveries: i64 = district.customers.iter().map(|customer| i64::from(customer.deliveries)).sum();
    found.expect_same("3.3.2.11", delivered, DELIVERED_BY_LOADER + deliveries, |delivered, expected| {
        format!("{} has {delivered} orders more than new orders, not {expected}", at(place))
    });
}

/// 3.3.2.5: O_CARRIER_ID is null where there is a row of NEW-ORDER, and nowhere else. 3.3.2.6: O_OL_CNT = rows of
/// ORDER-LINE. 3.3.2.7: OL_DELIVERY_D is null in all lines of an order without a carrier, and in no others.
fn check_orders(place: DistrictKey, district: &District, found: &mut Violations) {
    for (number, order) in district.orders.iter().enumerate() {
        let at = || format!("order {number} of {}", at(place));
        found.expect_same("3.3.2.5", order.exists && !order.has_carrier, order.is_new, |_, is_new| {
            let carrier = if is_new { "does not lack a carrier" } else { "has no carrier" };
            format!("{} {carrier}, but {} new_order", at(), if is_new { "is in" } else { "is not in" })
        });
        found.expect_same("3.3.2.6", order.lines_expected, order.lines, |expected, rows| {
            format!("{} has o_ol_cnt = {expected}, but {rows} rows of order_line", at())
        });
        let expected = if order.has_carrier { order.lines } else { 0 };
        found.expect_same("3.3.2.7", expected, order.lines_delivered, |expected, delivered| {
            format!("{} should have {expected} lines with ol_delivery_d, not {delivered}", at())
        });
    }
}

/// With the sum over delivered lines of the customer's orders, 3.3.2.10: C_BALANCE = sum(OL_AMOUNT) - sum(H_AMOUNT),
/// 3.3.2.12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT).
fn check_customers(place: DistrictKey, district: &District, found: &mut Violations) {
    let mut delivered = vec![0; district.customers.len()];
    for order in &district.orders {
        if let Some(sum) = delivered.get_mut(order.customer.max(0) as usize) {
            *sum += order.delivered;
        }
    }
    for (number, (customer, delivered)) in district.customers.iter().zip(delivered).enumerate() {
        let at = || format!("customer {number} of {}", at(place));
        let balance = customer.balance;
        found.expect_same("3.3.2.10", balance, delivered - customer.paid, |balance, expected| {
            format!("{} has c_balance {balance} cents, orders less payments give {expected}", at())
        });
        found.expect_same("3.3.2.12", balance + customer.ytd_payment, delivered, |sum, delivered| {
            format!("{} has c_balance + c_ytd_payment = {sum} cents, delivered orders {delivered}", at())
        });
    }
}
