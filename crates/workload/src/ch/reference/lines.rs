//! Queries that add up lines of orders.

use super::dates::midnight;
use super::rows::{LineRow, SnapshotRows};
use crate::ch::answer::{ChRow, ChValue};
use ankerdb_engine::Result;
use std::collections::{BTreeMap, HashMap};

/// Since when rows count, in most queries.
const BEGIN: i64 = midnight(2007, 1, 2);
/// The first moment that does not count, in others.
const END: i64 = midnight(2100, 1, 1);

/// The sum of amounts in cents; NULL of nothing.
fn sum_of_amounts<'a>(lines: impl Iterator<Item = &'a LineRow>) -> Option<i128> {
    lines.fold(None, |sum, line| Some(sum.unwrap_or(0) + i128::from(line.amount)))
}

fn one(value: ChValue) -> Vec<ChRow> {
    vec![vec![value]]
}

pub(super) fn q1(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    // Quantity, amount, lines.
    let mut groups = BTreeMap::<i16, (i64, i64, i64)>::new();
    for line in rows.lines()?.iter().filter(|line| line.delivered.is_some_and(|date| date > BEGIN)) {
        let (quantity, amount, count) = groups.entry(line.number).or_default();
        *quantity += i64::from(line.quantity);
        *amount += line.amount;
        *count += 1;
    }
    let row = |(number, (quantity, amount, count)): (i16, (i64, i64, i64))| {
        vec![
            ChValue::whole(number),
            ChValue::whole(quantity),
            ChValue::cents(amount),
            ChValue::Ratio(quantity as f64 / count as f64),
            ChValue::Ratio(amount as f64 / 100.0 / count as f64),
            ChValue::whole(count),
        ]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q6(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let dates = midnight(1999, 1, 1)..END;
    let lines = rows.lines()?;
    let counted = lines.iter().filter(|line| {
        line.delivered.is_some_and(|date| dates.contains(&date)) && (1..=i16::MAX).contains(&line.quantity)
    });
    Ok(one(sum_of_amounts(counted).map_or(ChValue::Null, ChValue::cents)))
}

pub(super) fn q12(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let orders = rows.orders_by_place()?;
    let mut groups = BTreeMap::<i16, (i64, i64)>::new();
    for line in rows.lines()? {
        let (Some(order), Some(delivered)) = (orders.get(&line.order), line.delivered) else { continue };
        if order.entered <= delivered && delivered < END {
            let (high, low) = groups.entry(order.lines).or_default();
            match order.carrier {
                Some(1 | 2) => *high += 1,
                Some(_) => *low += 1,
                None => {}
            }
        }
    }
    let row = |(size, (high, low)): (i16, (i64, i64))| {
        vec![ChValue::whole(size), ChValue::whole(high), ChValue::whole(low)]
    };
    Ok(groups.into_iter().map(row).collect())
}

pub(super) fn q14(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let is_promoted: HashMap<i32, bool> =
        rows.items()?.into_iter().map(|item| (item.number, item.data.starts_with("PR"))).collect();
    let dates = BEGIN..midnight(2100, 1, 2);
    let (mut promoted, mut all) = (0, None);
    for line in rows.lines()? {
        let Some(&is_promoted) = is_promoted.get(&line.item) else { continue };
        if line.delivered.is_some_and(|date| dates.contains(&date)) {
            promoted += if is_promoted { line.amount } else { 0 };
            *all.get_or_insert(0) += line.amount;
        }
    }
    Ok(one(all.map_or(ChValue::Null, |all| ChValue::Ratio(100.0 * promoted as f64 / (100 + all) as f64))))
}

pub(super) fn q17(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    // Of each item that counts: quantity and lines.
    let mut averages: HashMap<i32, (i64, i64)> = rows
        .items()?
        .into_iter()
        .filter(|item| item.data.ends_with('b'))
        .map(|item| (item.number, (0, 0)))
        .collect();
    let lines = rows.lines()?;
    for line in &lines {
        if let Some((quantity, count)) = averages.get_mut(&line.item) {
            *quantity += i64::from(line.quantity);
            *count += 1;
        }
    }
    let is_small = |line: &&LineRow| {
        averages.get(&line.item).is_some_and(|(quantity, count)| i64::from(line.quantity) * count < *quantity)
    };
    let sum = sum_of_amounts(lines.iter().filter(is_small));
    // Half of it: five tenths.
    Ok(one(sum.map_or(ChValue::Null, |sum| ChValue::Exact(sum * 5, 3))))
}

pub(super) fn q19(rows: &mut SnapshotRows<'_>) -> Result<Vec<ChRow>> {
    let cheapest = 100;
    let dearest = 40_000_000;
    let last_letters: HashMap<i32, Option<char>> = rows
        .items()?
        .into_iter()
        .filter(|item| (cheapest..=dearest).contains(&item.price))
        .map(|item| (item.number, item.data.chars().next_back()))
        .collect();
    let lines = rows.lines()?;
    let counted = lines.iter().filter(|line| {
        let warehouses = match last_letters.get(&line.item) {
            Some(Some('a')) => [1, 2, 3],
            Some(Some('b')) => [1, 2, 4],
            Some(Some('c')) => [1, 5, 3],
            _ => return false,
        };
        (1..=10).contains(&line.quantity) && warehouses.contains(&line.order.0)
    });
    Ok(one(sum_of_amounts(counted).map_or(ChValue::Null, ChValue::cents)))
}
