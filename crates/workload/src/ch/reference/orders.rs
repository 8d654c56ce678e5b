//! Queries about orders and customers.

use super::dates::midnight;
use super::rows::{CustomerRow, LineRow, OrderRow, Place, SnapshotRows};
use crate::ch::answer::{ChRow, ChValue};
use ankerdb_engine::Result;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Since when rows count.
const BEGIN: i64 = midnight(2007, 1, 2);
/// The first moment that does not count, in Q4.
const END: i64 = midnight(2100, 1, 2);

/// The amounts of an order's lines, added up.
fn amounts_by_order(lines: &[LineRow]) -> HashMap<Place, i64> {
    let mut amounts = HashMap::new();
    lines.iter().for_each(|line| *amounts.entry(line.order).or_insert(0) += line.amount);
    amounts
}

pub(super) fn q3(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let customers = rows.customers_by_place()?;
    let new_orders: HashSet<Place> = rows.new_orders()?.into_iter().collect();
    let amounts = amounts_by_order(&rows.lines()?);
    let mut answer = Vec::new();
    for order in rows.orders()? {
        let customer = customers.get(&order.customer_place());
        let is_counted = customer.is_some_and(|customer| customer.state.starts_with('A'))
            && new_orders.contains(&order.place)
            && order.entered > BEGIN;
        if let (true, Some(&amount)) = (is_counted, amounts.get(&order.place)) {
            let (warehouse, district, number) = order.place;
            answer.push(vec![
                ChValue::whole(number),
                ChValue::whole(warehouse),
                ChValue::whole(district),
                ChValue::cents(amount),
                ChValue::Moment(order.entered),
            ]);
        }
    }
    Ok(answer)
}

pub(super) fn q4(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let mut last_delivery = HashMap::<Place, i64>::new();
    for line in rows.lines()? {
        if let Some(delivered) = line.delivered {
            let last = last_delivery.entry(line.order).or_insert(delivered);
            *last = delivered.max(*last);
        }
    }
    let mut groups = BTreeMap::<i16, i64>::new();
    for order in rows.orders()? {
        let is_delivered = last_delivery.get(&order.place).is_some_and(|last| *last >= order.entered);
        if (BEGIN..END).contains(&order.entered) && is_delivered {
            *groups.entry(order.lines).or_default() += 1;
        }
    }
    Ok(groups.into_iter().map(|(size, count)| vec![ChValue::whole(size), ChValue::whole(count)]).collect())
}

pub(super) fn q10(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let nations: HashMap<i32, String> =
        rows.nations()?.into_iter().map(|nation| (nation.number, nation.name)).collect();
    let customers = rows.customers_by_place()?;
    let orders = rows.orders_by_place()?;
    let mut groups = HashMap::<(i32, &str, &str, &str, &str), i64>::new();
    for line in rows.lines()? {
        let Some(order) = orders.get(&line.order) else { continue };
        if order.entered < BEGIN || line.delivered.is_none_or(|delivered| order.entered > delivered) {
            continue;
        }
        let Some(customer) = customers.get(&order.customer_place()) else { continue };
        let Some(nation) = nations.get(&customer.nation()) else { continue };
        let CustomerRow { last, city, phone, .. } = customer;
        *groups.entry((order.customer, last, city, phone, nation)).or_default() += line.amount;
    }
    let row = |((number, last, city, phone, nation), amount): ((i32, &str, &str, &str, &str), i64)| {
        vec![
            ChValue::whole(number),
            ChValue::text(last),
            ChValue::cents(amount),
            ChValue::text(city),
            ChValue::text(phone),
            ChValue::text(nation),
        ]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q13(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let mut by_customer = HashMap::<Place, i64>::new();
    for order in rows.orders()? {
        if order.carrier.is_some_and(|carrier| carrier > 8) {
            *by_customer.entry(order.customer_place()).or_default() += 1;
        }
    }
    // Customers of one number, whatever their districts.
    let mut by_number = HashMap::<i32, i64>::new();
    for customer in rows.customers()? {
        *by_number.entry(customer.place.2).or_default() +=
            by_customer.get(&customer.place).copied().unwrap_or_default();
    }
    let mut groups = BTreeMap::<i64, i64>::new();
    by_number.into_values().for_each(|count| *groups.entry(count).or_default() += 1);
    Ok(groups
        .into_iter()
        .map(|(count, customers)| vec![ChValue::whole(count), ChValue::whole(customers)])
        .collect())
}

pub(super) fn q18(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let customers = rows.customers_by_place()?;
    let amounts = amounts_by_order(&rows.lines()?);
    let mut answer = Vec::new();
    for order in rows.orders()? {
        let Some(customer) = customers.get(&order.customer_place()) else { continue };
        if let Some(&amount) = amounts.get(&order.place).filter(|amount| **amount > 200_00) {
            answer.push(vec![
                ChValue::text(&customer.last),
                ChValue::whole(order.customer),
                ChValue::whole(order.place.2),
                ChValue::Moment(order.entered),
                ChValue::whole(order.lines),
                ChValue::cents(amount),
            ]);
        }
    }
    Ok(answer)
}

pub(super) fn q22(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let with_orders: HashSet<Place> = rows.orders()?.iter().map(OrderRow::customer_place).collect();
    let mut customers = rows.customers()?;
    customers.retain(|customer| customer.phone.starts_with(|first| ('1'..='7').contains(&first)));
    let positive: Vec<i128> =
        customers.iter().map(|customer| i128::from(customer.balance)).filter(|cents| *cents > 0).collect();
    let (sum, count): (i128, i128) = (positive.iter().sum(), positive.len() as i128);
    let mut groups = BTreeMap::<&str, (i64, i64)>::new();
    for customer in &customers {
        // Nothing is above the average of nothing.
        let is_rich = count > 0 && i128::from(customer.balance) * count > sum;
        if is_rich && !with_orders.contains(&customer.place) {
            let (number, balance) = groups.entry(customer.letter()).or_default();
            *number += 1;
            *balance += customer.balance;
        }
    }
    let row = |(letter, (number, balance)): (&str, (i64, i64))| {
        vec![ChValue::text(letter), ChValue::whole(number), ChValue::cents(balance)]
    };
    Ok(groups.into_iter().map(row).collect())
}
