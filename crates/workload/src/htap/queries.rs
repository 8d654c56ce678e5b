//! The eight analytical queries (AnKer, Figure 5; dissertation, Figure 2.7).

use crate::tpcc::schema::{district, new_order, order_line, orders, stock, warehouse};

/// One query.
pub struct Query {
    /// Its name in reports: Q1 to Q8.
    pub name: &'static str,
    /// Its meaning, in two or three words.
    pub about: &'static str,
    /// Its text.
    pub sql: &'static str,
    /// The tables it reads; the one whose size determines its cost first.
    pub tables: &'static [&'static str],
}

/// All eight, in the papers' order.
pub const QUERIES: [Query; 8] = [
    Query {
        name: "Q1",
        about: "stock of warehouses",
        sql: "select w_id, count(*) from warehouse, stock where w_id = s_w_id group by w_id",
        tables: &[stock::NAME, warehouse::NAME],
    },
    Query {
        name: "Q2",
        about: "sales by district",
        sql: "select ol_d_id, avg(ol_amount) from order_line group by ol_d_id",
        tables: &[order_line::NAME],
    },
    Query {
        name: "Q3",
        about: "sales by warehouse",
        sql: "select ol_w_id, sum(ol_quantity), avg(ol_amount) from order_line group by ol_w_id",
        tables: &[order_line::NAME],
    },
    Query { name: "Q4", about: "all orders", sql: "select * from orders", tables: &[orders::NAME] },
    Query { name: "Q5", about: "all new orders", sql: "select * from new_order", tables: &[new_order::NAME] },
    Query {
        name: "Q6",
        about: "average of districts",
        sql: "select avg(d_tax), avg(d_ytd) from district",
        tables: &[district::NAME],
    },
    Query {
        name: "Q7",
        about: "average sale",
        sql: "select avg(ol_amount) from order_line",
        tables: &[order_line::NAME],
    },
    Query {
        name: "Q8",
        about: "average stock",
        sql: "select avg(s_quantity) from stock",
        tables: &[stock::NAME],
    },
];

/// Every table that a query reads.
pub const TABLES: [&str; 6] =
    [warehouse::NAME, stock::NAME, order_line::NAME, orders::NAME, new_order::NAME, district::NAME];
