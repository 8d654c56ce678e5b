//! The rows of SUPPLIER, NATION and REGION.
//!
//! CH-benCHmark says how many there are, and that a nation's number is the ASCII code of a letter or digit; TPC-H, what values
//! look like. States of customers are two capital letters here, so only the 26 nations whose numbers are those have customers.
//! Each of them has the first letter of its name (but there is none with X), so that Germany (`G`) and Cambodia (`C`), which
//! queries name, have some.

use super::schema::ChTables;
use crate::tpcc::load::money;
use crate::tpcc::random::Random;
use ankerdb_engine::{Database, Isolation, Result, Table, Value};
use std::sync::Arc;

/// Rows of SUPPLIER, numbered from 0 on: all remainders of `s_w_id * s_i_id`.
pub const SUPPLIERS: i32 = 10_000;
/// Regions by number.
pub const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Middle East"];
/// Of so many suppliers one has complaints.
const COMPLAINTS_EVERY: i32 = 200;
/// Rows that one transaction inserts.
const ROWS_PER_TRANSACTION: usize = 1000;
/// Streams of random values beyond those of TPC-C's loader and clients.
const STREAM: u64 = 1 << 40;

/// Nations with their regions. The number of each is the ASCII code of its place among capital letters, small letters, digits.
const NATIONS: [(&str, i32); 62] = [
    ("Algeria", 0),
    ("Brazil", 1),
    ("Cambodia", 2),
    ("Denmark", 3),
    ("Egypt", 4),
    ("France", 3),
    ("Germany", 3),
    ("Honduras", 1),
    ("India", 2),
    ("Jordan", 4),
    ("Kenya", 0),
    ("Lebanon", 4),
    ("Morocco", 0),
    ("Netherlands", 3),
    ("Oman", 4),
    ("Peru", 1),
    ("Qatar", 4),
    ("Romania", 3),
    ("Sweden", 3),
    ("Thailand", 2),
    ("United Kingdom", 3),
    ("Vietnam", 2),
    ("Wales", 3),
    ("Mexico", 1),
    ("Yemen", 4),
    ("Zambia", 0),
    ("Argentina", 1),
    ("Bolivia", 1),
    ("Canada", 1),
    ("Djibouti", 0),
    ("Ethiopia", 0),
    ("Finland", 3),
    ("Ghana", 0),
    ("Hungary", 3),
    ("Indonesia", 2),
    ("Japan", 2),
    ("Kuwait", 4),
    ("Laos", 2),
    ("Mozambique", 0),
    ("Nepal", 2),
    ("Austria", 3),
    ("Portugal", 3),
    ("Chile", 1),
    ("Russia", 3),
    ("Saudi Arabia", 4),
    ("Turkey", 4),
    ("United States", 1),
    ("Venezuela", 1),
    ("Iraq", 4),
    ("Iran", 4),
    ("China", 2),
    ("Zimbabwe", 0),
    ("Australia", 2),
    ("Belgium", 3),
    ("Colombia", 1),
    ("Dominica", 1),
    ("Ecuador", 1),
    ("Gabon", 0),
    ("Italy", 3),
    ("Malaysia", 2),
    ("Poland", 3),
    ("Spain", 3),
];

/// The number of the nation at a place of [`NATIONS`].
fn nation_key(place: usize) -> i32 {
    let code = match place {
        0..26 => b'A' + place as u8,
        26..52 => b'a' + (place - 26) as u8,
        _ => b'0' + (place - 52) as u8,
    };
    i32::from(code)
}

/// Creates the three tables and fills them. The rows depend on the seed alone.
///
/// # Errors
/// 42P07 if one exists.
pub fn load(database: &Database, seed: u64) -> Result<ChTables> {
    let tables = ChTables::create(database)?;
    let mut random = Random::new(seed, STREAM);
    let regions = (0..)
        .zip(REGIONS)
        .map(|(key, name)| vec![Value::Integer(key), Value::text(name), Value::text(random.text(31, 115))]);
    insert(database, &tables.region, regions.collect())?;
    let nations = NATIONS.iter().enumerate().map(|(place, &(name, region))| {
        vec![
            Value::Integer(nation_key(place)),
            Value::text(name),
            Value::Integer(region),
            Value::text(random.text(31, 114)),
        ]
    });
    insert(database, &tables.nation, nations.collect())?;
    insert(database, &tables.supplier, (0..SUPPLIERS).map(|key| supplier(&mut random, key)).collect())?;
    Ok(tables)
}

fn supplier(random: &mut Random, key: i32) -> Vec<Value> {
    let nation = nation_key(random.uniform(0, NATIONS.len() as i32 - 1) as usize);
    let mut comment = random.text(25, 80);
    if random.uniform(1, COMPLAINTS_EVERY) == 1 {
        comment.insert_str(5, " bad complaints ");
    }
    vec![
        Value::Integer(key),
        Value::text(format!("Supplier#{key:09}")),
        Value::text(random.text(10, 40)),
        Value::Integer(nation),
        Value::text(random.digits(15)),
        money(random.uniform(-99_999, 999_999).into()),
        Value::text(comment),
    ]
}

fn insert(database: &Database, table: &Arc<Table>, rows: Vec<Vec<Value>>) -> Result<()> {
    let mut session = database.session();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut part = rows.by_ref().take(ROWS_PER_TRANSACTION);
        // Nothing is read, so nothing needs validation.
        session.try_run(Isolation::RepeatableRead, |transaction| {
            part.try_for_each(|row| transaction.insert(table, row).map(drop))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn nations_have_the_codes_of_letters_and_digits_and_capital_ones_their_first_letter() {
        let keys: BTreeSet<i32> = (0..NATIONS.len()).map(nation_key).collect();
        assert_eq!(keys.len(), 62);
        assert!(keys.iter().all(|&key| char::from(key as u8).is_ascii_alphanumeric()));
        let names: BTreeSet<&str> = NATIONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), 62);
        for (place, (name, region)) in NATIONS.iter().enumerate() {
            assert!(REGIONS.get(*region as usize).is_some(), "{name}");
            let is_free = place >= 26 || nation_key(place) == i32::from(b'X');
            assert!(is_free || i32::from(name.as_bytes()[0]) == nation_key(place), "{name}");
        }
    }

    #[test]
    fn all_rows_are_there_and_some_suppliers_have_complaints() {
        let database = Database::new();
        let tables = load(&database, 7).expect("it loads");
        assert_eq!(tables.supplier.row_count(), SUPPLIERS as usize);
        assert_eq!((tables.nation.row_count(), tables.region.row_count()), (62, 5));
        let mut random = Random::new(7, STREAM);
        let comments = (0..SUPPLIERS).map(|key| supplier(&mut random, key)[6].clone());
        let bad = comments.filter(|comment| format!("{comment:?}").contains(" bad ")).count();
        assert!((20..100).contains(&bad), "{bad}");
    }
}
