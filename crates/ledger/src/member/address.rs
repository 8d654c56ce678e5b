//! Where a member's database is, as one word of a command line: `postgresql://user@host:5432/database`, with `mariadb` or
//! `ankerdb` in place of `postgresql` for the other products.

use super::ankerdb::AnkerDbMember;
use super::connection::DatabaseAddress;
use super::parallel::{OpenPart, ParallelMember};
use super::snapshot::{MemberSnapshot, OpenSnapshot};
use super::{Member, mariadb, postgres};
use crate::error::{LedgerError, LedgerResult};

/// The product and the place that a text names.
///
/// # Errors
/// [`LedgerError::Refused`] with the form that is expected.
pub(super) fn parse(text: &str) -> LedgerResult<(String, DatabaseAddress)> {
    let parts = || {
        let (product, rest) = text.split_once("://")?;
        let (login, rest) = rest.rsplit_once('@')?;
        let (place, database) = rest.split_once('/')?;
        let (user, password) =
            login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word.to_owned())));
        let default = if product == "mariadb" { 3306 } else { 5432 };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (place, default),
        };
        let is_known = ["postgresql", "mariadb", "ankerdb"].contains(&product);
        let is_whole = is_known && !user.is_empty() && !host.is_empty() && !database.is_empty();
        let (user, host, database) = (user.to_owned(), host.to_owned(), database.to_owned());
        is_whole.then(|| (product.to_owned(), DatabaseAddress { host, port, user, password, database }))
    };
    let form =
        "postgresql://USER:PASSWORD@HOST:PORT/DATABASE is expected, or mariadb or ankerdb in its place";
    parts().ok_or_else(|| LedgerError::Refused(format!("{form}; the password may be left out")))
}

/// Whether a text names a product and a place; nothing is connected.
///
/// # Errors
/// [`LedgerError::Refused`] with the form that is expected.
pub fn check(text: &str) -> LedgerResult<()> {
    parse(text).map(drop)
}

/// Connects the member that a text names.
///
/// # Errors
/// [`LedgerError::Refused`] if it names none, [`LedgerError::Database`] if that cannot be reached.
pub fn open_member(text: &str) -> LedgerResult<Box<dyn Member>> {
    let (product, address) = parse(text)?;
    open_product(&product, &address)
}

/// Connects the member that a text names, so that it executes blocks over up to so many connections.
///
/// # Errors
/// Those of [`open_member`].
pub fn open_parallel_member(text: &str, connections: usize) -> LedgerResult<Box<dyn Member>> {
    let (product, address) = parse(text)?;
    open_parallel_product(&product, &address, connections)
}

/// A member over a product, which is named in small letters.
pub(crate) fn open_product(product: &str, address: &DatabaseAddress) -> LedgerResult<Box<dyn Member>> {
    Ok(match product {
        "mariadb" => Box::new(mariadb::open(address)?),
        "ankerdb" => Box::new(AnkerDbMember::open(address)?),
        _ => Box::new(postgres::open(address)?),
    })
}

/// What opens connections for parts of blocks, to a product that is named in small letters.
pub fn part_opener(product: &str, address: &DatabaseAddress) -> OpenPart {
    let (product, address) = (product.to_owned(), address.clone());
    Box::new(move || {
        Ok(match product.as_str() {
            "mariadb" => Box::new(mariadb::open_part(&address)?),
            "ankerdb" => Box::new(AnkerDbMember::open_part(&address)?),
            _ => Box::new(postgres::open_part(&address)?),
        })
    })
}

/// What opens snapshots of the database that a text names.
///
/// # Errors
/// [`LedgerError::Refused`] if it names none; nothing is connected.
pub fn snapshot_opener(text: &str) -> LedgerResult<OpenSnapshot> {
    let (product, address) = parse(text)?;
    Ok(product_snapshot_opener(&product, &address))
}

/// What opens snapshots of a product, which is named in small letters.
pub(crate) fn product_snapshot_opener(product: &str, address: &DatabaseAddress) -> OpenSnapshot {
    let (product, address) = (product.to_owned(), address.clone());
    Box::new(move || MemberSnapshot::open(&product, &address))
}

/// A member over a product and several connections to it.
pub(crate) fn open_parallel_product(
    product: &str,
    address: &DatabaseAddress,
    connections: usize,
) -> LedgerResult<Box<dyn Member>> {
    let main = open_product(product, address)?;
    Ok(Box::new(ParallelMember::new(main, part_opener(product, address), connections)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_others_are_refused() {
        let (product, address) = parse("mariadb://me:se@cret@db.example/shop").expect("a place");
        assert_eq!((product.as_str(), address.host.as_str(), address.port), ("mariadb", "db.example", 3306));
        assert_eq!((address.user.as_str(), address.password.as_deref()), ("me", Some("se@cret")));
        assert_eq!(parse("postgresql://me@127.0.0.1:77/shop").expect("a place").1.port, 77);
        for wrong in [
            "oracle://me@host/shop",
            "postgresql://host/shop",
            "ankerdb://me@host",
            "ankerdb://me@host:x/shop",
            "me",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
