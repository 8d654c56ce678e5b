//! The seven OLAP transactions of AnKerDB (arXiv 2017) §5.2: Q1, Q4, Q6, Q17 with parameters within TPC-H's bounds, and
//! a scan of each table.
//!
//! The paper calls Q4 a single-table query on ORDERS: its subquery on LINEITEM is left out here, too. It does not
//! say what its scans compute; here they add up all amounts of the table.

use fastrand::Rng;

/// One kind of query.
pub struct QueryKind {
    /// Its name.
    pub name: &'static str,
    /// Its text with random parameters.
    pub sql: fn(&mut Rng) -> String,
}

/// Scans of LINEITEM, ORDERS and PART.
pub const SCANS: [&str; 3] = [
    "select count(*), sum(l_quantity), sum(l_extendedprice), sum(l_discount), sum(l_tax) from lineitem",
    "select count(*), sum(o_totalprice) from orders",
    "select count(*), sum(p_retailprice) from part",
];

/// All seven.
pub const KINDS: [QueryKind; 7] = [
    QueryKind { name: "Q1", sql: q1 },
    QueryKind { name: "Q4", sql: q4 },
    QueryKind { name: "Q6", sql: q6 },
    QueryKind { name: "Q17", sql: q17 },
    QueryKind { name: "LINEITEM", sql: |_| SCANS[0].to_owned() },
    QueryKind { name: "ORDERS", sql: |_| SCANS[1].to_owned() },
    QueryKind { name: "PART", sql: |_| SCANS[2].to_owned() },
];

/// DELTA is 60 to 120 days before 1998-12-01 (clause 2.4.1.3), here on the first of a month or in the middle of one.
fn q1(random: &mut Rng) -> String {
    let dates = ["1998-08-03", "1998-08-15", "1998-09-01", "1998-09-02", "1998-09-15", "1998-10-01"];
    let date = dates[random.usize(..dates.len())];
    format!(
        "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), \
         sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), \
         avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) \
         from lineitem where l_shipdate <= date '{date}' \
         group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"
    )
}

/// The first of a month between January 1993 and October 1997 (clause 2.4.4.3).
fn q4(random: &mut Rng) -> String {
    let month = random.u32(0..58);
    let first = |month: u32| format!("{}-{:02}-01", 1993 + month / 12, month % 12 + 1);
    format!(
        "select o_orderpriority, count(*) from orders \
         where o_orderdate >= date '{}' and o_orderdate < date '{}' \
         group by o_orderpriority order by o_orderpriority",
        first(month),
        first(month + 3)
    )
}

/// A year from 1993 to 1997, a discount from 0.02 to 0.09, a quantity of 24 or 25 (clause 2.4.6.3).
fn q6(random: &mut Rng) -> String {
    let (year, discount, quantity) = (random.u32(1993..=1997), random.u32(2..=9), random.u32(24..=25));
    format!(
        "select sum(l_extendedprice * l_discount) from lineitem \
         where l_shipdate >= date '{year}-01-01' and l_shipdate < date '{}-01-01' \
         and l_discount between {:.3} and {:.3} and l_quantity < {quantity}",
        year + 1,
        f64::from(discount) / 100.0 - 0.0101,
        f64::from(discount) / 100.0 + 0.0101
    )
}

/// A brand and a container (clause 2.4.17.3).
fn q17(random: &mut Rng) -> String {
    let sizes = ["SM", "LG", "MED", "JUMBO", "WRAP"];
    let kinds = ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"];
    format!(
        "select sum(l_extendedprice) / 7.0 from lineitem, part \
         where p_partkey = l_partkey and p_brand = 'Brand#{}{}' and p_container = '{} {}' \
         and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)",
        random.u32(1..=5),
        random.u32(1..=5),
        sizes[random.usize(..sizes.len())],
        kinds[random.usize(..kinds.len())]
    )
}
