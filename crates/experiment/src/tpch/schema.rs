//! The three tables. Prices, quantities and shares are `double precision`, as in the paper, not `numeric`, as in TPC-H.

use ankerdb_engine::{ColumnDefinition, DataType, Database, Result, Table, TableDefinition};
use std::sync::Arc;

/// The tables' names.
pub const NAMES: [&str; 3] = ["lineitem", "orders", "part"];

/// Positions of LINEITEM's columns that transactions change.
pub mod lineitem {
    /// l_extendedprice
    pub const EXTENDEDPRICE: usize = 5;
    /// l_discount
    pub const DISCOUNT: usize = 6;
    /// l_returnflag
    pub const RETURNFLAG: usize = 8;
    /// l_linestatus
    pub const LINESTATUS: usize = 9;
    /// l_shipdate
    pub const SHIPDATE: usize = 10;
}

/// Positions of ORDERS' columns that transactions change.
pub mod orders {
    /// o_totalprice
    pub const TOTALPRICE: usize = 3;
    /// o_orderpriority
    pub const ORDERPRIORITY: usize = 5;
}

/// Positions of PART's columns that transactions change.
pub mod part {
    /// p_brand
    pub const BRAND: usize = 3;
    /// p_retailprice
    pub const RETAILPRICE: usize = 7;
}

/// The tables of one database.
pub struct TpchTables {
    /// LINEITEM
    pub lineitem: Arc<Table>,
    /// ORDERS
    pub orders: Arc<Table>,
    /// PART
    pub part: Arc<Table>,
}

impl TpchTables {
    /// Creates them, empty.
    ///
    /// # Errors
    /// 42P07 if one exists.
    pub fn create(database: &Database) -> Result<TpchTables> {
        let [lineitem, orders, part] = NAMES;
        Ok(TpchTables {
            lineitem: database.create_table(define(lineitem, &LINEITEM, &["l_orderkey", "l_linenumber"]))?,
            orders: database.create_table(define(orders, &ORDERS, &["o_orderkey"]))?,
            part: database.create_table(define(part, &PART, &["p_partkey"]))?,
        })
    }

    /// A table by its position in [`NAMES`].
    pub fn table(&self, number: usize) -> &Arc<Table> {
        [&self.lineitem, &self.orders, &self.part][number]
    }
}

fn define(name: &str, columns: &[(&str, DataType)], key: &[&str]) -> TableDefinition {
    let table = columns.iter().fold(TableDefinition::new(name), |table, &(name, data_type)| {
        table.column(ColumnDefinition::new(name, data_type))
    });
    table.primary_key(key)
}

const LINEITEM: [(&str, DataType); 16] = [
    ("l_orderkey", DataType::BigInt),
    ("l_partkey", DataType::BigInt),
    ("l_suppkey", DataType::BigInt),
    ("l_linenumber", DataType::Integer),
    ("l_quantity", DataType::DoublePrecision),
    ("l_extendedprice", DataType::DoublePrecision),
    ("l_discount", DataType::DoublePrecision),
    ("l_tax", DataType::DoublePrecision),
    ("l_returnflag", DataType::Varchar(1)),
    ("l_linestatus", DataType::Varchar(1)),
    ("l_shipdate", DataType::Date),
    ("l_commitdate", DataType::Date),
    ("l_receiptdate", DataType::Date),
    ("l_shipinstruct", DataType::Varchar(25)),
    ("l_shipmode", DataType::Varchar(10)),
    ("l_comment", DataType::Varchar(44)),
];

const ORDERS: [(&str, DataType); 9] = [
    ("o_orderkey", DataType::BigInt),
    ("o_custkey", DataType::BigInt),
    ("o_orderstatus", DataType::Varchar(1)),
    ("o_totalprice", DataType::DoublePrecision),
    ("o_orderdate", DataType::Date),
    ("o_orderpriority", DataType::Varchar(15)),
    ("o_clerk", DataType::Varchar(15)),
    ("o_shippriority", DataType::Integer),
    ("o_comment", DataType::Varchar(79)),
];

const PART: [(&str, DataType); 9] = [
    ("p_partkey", DataType::BigInt),
    ("p_name", DataType::Varchar(55)),
    ("p_mfgr", DataType::Varchar(25)),
    ("p_brand", DataType::Varchar(10)),
    ("p_type", DataType::Varchar(25)),
    ("p_size", DataType::Integer),
    ("p_container", DataType::Varchar(10)),
    ("p_retailprice", DataType::DoublePrecision),
    ("p_comment", DataType::Varchar(23)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_columns() {
        let names = |columns: &[(&'static str, DataType)], at: &[usize]| -> Vec<&str> {
            at.iter().map(|&at| columns[at].0).collect()
        };
        use super::{lineitem as l, orders as o, part as p};
        let at = [l::EXTENDEDPRICE, l::DISCOUNT, l::RETURNFLAG, l::LINESTATUS, l::SHIPDATE];
        let expected = ["l_extendedprice", "l_discount", "l_returnflag", "l_linestatus", "l_shipdate"];
        assert_eq!(names(&LINEITEM, &at), expected);
        assert_eq!(names(&ORDERS, &[o::TOTALPRICE, o::ORDERPRIORITY]), ["o_totalprice", "o_orderpriority"]);
        assert_eq!(names(&PART, &[p::BRAND, p::RETAILPRICE]), ["p_brand", "p_retailprice"]);
    }
}
