//! What must be there after a kill.

use super::load::{Acknowledged, BATCH_ROWS, STEPS, TAGS, TRANSFERS, WITHOUT_WAIT};
use super::{ACCOUNTS, BALANCE, number, rows};
use crate::wire::ServerConnection;
use std::io;

/// Compares the database with what is known; what is found is what is known from now on. Returns what is wrong.
pub(super) fn check(client: &mut ServerConnection, known: &mut Acknowledged) -> io::Result<Vec<String>> {
    let mut wrong = Vec::new();
    transfers(client, known, &mut wrong)?;
    batches(client, known, &mut wrong)?;
    definitions(client, known, &mut wrong)?;
    keys(client, known, &mut wrong)?;
    Ok(wrong)
}

fn transfers(
    client: &mut ServerConnection,
    known: &mut Acknowledged,
    wrong: &mut Vec<String>,
) -> io::Result<()> {
    for worker in 0..TRANSFERS {
        let value = number(client, &format!("SELECT value FROM counter WHERE worker = {worker}"))? as u64;
        let counted = &mut known.transfers[worker];
        // Without the wait what came last may be gone; what was there after an earlier kill may not.
        let is_allowed = match worker == WITHOUT_WAIT {
            true => value <= counted.sent,
            false => counted.allows(value),
        };
        if !is_allowed {
            wrong.push(format!("worker {worker} has done {value} transfers and knows of {counted:?}"));
        }
        if value < known.seen[worker] {
            wrong.push(format!(
                "a reader has seen {} transfers of worker {worker}, there are {value}",
                known.seen[worker]
            ));
        }
        let journal = rows(
            client,
            &format!("SELECT count(*), coalesce(max(n), 0) FROM journal WHERE worker = {worker} AND n > 0"),
        )?;
        if journal != [[value.to_string(), value.to_string()]] {
            wrong.push(format!("worker {worker} has done {value} transfers, the journal says {journal:?}"));
        }
        counted.found(value);
        known.seen[worker] = value;
    }
    let total = number(client, "SELECT sum(balance) FROM account")?;
    if total != ACCOUNTS as i64 * BALANCE {
        wrong.push(format!("the balances' sum is {total}"));
    }
    let off = number(
        client,
        &format!(
            "SELECT count(*) FROM account a WHERE balance <> {BALANCE} \
             + coalesce((SELECT sum(amount) FROM journal j WHERE j.target = a.id), 0) \
             - coalesce((SELECT sum(amount) FROM journal j WHERE j.source = a.id), 0)"
        ),
    )?;
    if off != 0 {
        wrong.push(format!("{off} balances are not what the journal says"));
    }
    let mut by_index = 0;
    for account in 1..=ACCOUNTS {
        by_index += number(client, &format!("SELECT count(*) FROM journal WHERE source = {account}"))?;
    }
    let all = number(client, "SELECT count(*) FROM journal")?;
    if by_index != all {
        wrong.push(format!("an index of the journal has {by_index} of {all} rows"));
    }
    Ok(())
}

fn batches(
    client: &mut ServerConnection,
    known: &mut Acknowledged,
    wrong: &mut Vec<String>,
) -> io::Result<()> {
    let found = rows(client, "SELECT batch, count(*), sum(n) FROM big GROUP BY batch ORDER BY batch")?;
    let (rows, sum) = (BATCH_ROWS.to_string(), (BATCH_ROWS * (BATCH_ROWS + 1) / 2).to_string());
    let half = found.iter().filter(|row| row[1] != rows || row[2] != sum);
    wrong.extend(half.map(|row| format!("half a batch: {row:?}")));
    let numbers: Vec<u64> = found.iter().filter_map(|row| row[0].parse().ok()).collect();
    let first = numbers.first().copied();
    let last = numbers.last().copied();
    let (made, deleted) = (known.batches, known.batches_deleted);
    // All from the first to the last are there, so the two counts say all.
    let last = last.unwrap_or(made.acknowledged);
    let first = first.unwrap_or(last + 1);
    let is_dense = numbers.len() as u64 == (last + 1).saturating_sub(first);
    if !is_dense || !made.allows(last) || !deleted.allows(first - 1) {
        wrong.push(format!("there are the batches {numbers:?}; made {made:?}, deleted {deleted:?}"));
    }
    known.batches.found(last);
    known.batches_deleted.found(first - 1);
    Ok(())
}

/// Table, its columns, rows, indexes, comment.
type Defined = Vec<String>;

fn definitions(
    client: &mut ServerConnection,
    known: &mut Acknowledged,
    wrong: &mut Vec<String>,
) -> io::Result<()> {
    let names = rows(
        client,
        "SELECT c.relname, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), \
         (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid), coalesce(obj_description(c.oid, 'pg_class'), '') \
         FROM pg_class c WHERE c.relkind = 'r' AND c.relname LIKE 'd\\_%' ORDER BY length(c.relname), c.relname",
    )?;
    let mut found: Vec<Defined> = Vec::new();
    for mut table in names {
        table.insert(2, number(client, &format!("SELECT count(*) FROM {}", table[0]))?.to_string());
        found.push(table);
    }
    let steps = known.steps;
    let Some(done) = (steps.acknowledged..=steps.sent).find(|done| expected(*done) == found) else {
        wrong.push(format!(
            "there are the tables {found:?} after {steps:?} steps of {:?}",
            expected(steps.acknowledged)
        ));
        return Ok(());
    };
    known.steps.found(done);
    Ok(())
}

/// The tables after so many steps.
fn expected(steps: u64) -> Vec<Defined> {
    let tables = steps.div_ceil(STEPS);
    let of_table = |table: u64| {
        let done = (steps - table * STEPS).min(STEPS);
        // It goes with the last step of the table after the next.
        let is_gone = steps >= (table + 3) * STEPS;
        let text = |number: u64| number.to_string();
        (!is_gone).then(|| {
            let columns = if done >= 2 { 3 } else { 2 };
            let indexes = if done >= 3 { 2 } else { 1 };
            let rows = if done >= 4 { 11 } else { 10 };
            let comment = if done >= 5 && table < 2 { "stays" } else { "" };
            vec![format!("d_{table}"), text(columns), text(rows), text(indexes), comment.to_owned()]
        })
    };
    (0..tables).filter_map(of_table).collect()
}

fn keys(client: &mut ServerConnection, known: &mut Acknowledged, wrong: &mut Vec<String>) -> io::Result<()> {
    let value = number(client, "SELECT value FROM keys_done WHERE id = 1")? as u64;
    if !known.keys.allows(value) {
        wrong.push(format!("keys were changed {value} times, known are {:?}", known.keys));
    }
    known.keys.found(value);
    let items = rows(client, "SELECT id, code, tag FROM item ORDER BY id")?;
    for item in &items {
        let by_code = rows(client, &format!("SELECT id, code, tag FROM item WHERE code = '{}'", item[1]))?;
        let by_id = rows(client, &format!("SELECT id, code, tag FROM item WHERE id = {}", item[0]))?;
        if by_code != [item.clone()] || by_id != [item.clone()] {
            wrong.push(format!("{item:?} is found as {by_code:?} and {by_id:?}"));
        }
    }
    let mut by_tag = 0;
    for tag in 0..TAGS {
        by_tag += number(client, &format!("SELECT count(*) FROM item WHERE tag = {tag}"))?;
    }
    if by_tag != items.len() as i64 {
        wrong.push(format!("an index has {by_tag} of {} items", items.len()));
    }
    let orphans = "SELECT count(*) FROM part p LEFT JOIN item i ON i.id = p.item WHERE i.id IS NULL";
    let orphans = number(client, orphans)?;
    if orphans != 0 {
        wrong.push(format!("{orphans} rows refer to nothing"));
    }
    Ok(())
}
