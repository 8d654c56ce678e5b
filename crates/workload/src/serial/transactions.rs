//! TPC-C's five transactions, and [warranties and returns](crate::ch::warranty), one after the other on the thread that owns the
//! database.
//!
//! They do what those over the engine do ([`tpcc::transactions`](crate::tpcc::transactions)), and show the same on a terminal's
//! screen. A New-Order with an unused item works up to there, and is then taken back.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;
mod warranty;

use super::keys;
use super::relations::{CUSTOMER_BY_NAME, PRIMARY, SerialTables};
use crate::ch::warranty::WarrantyInput;
use crate::tpcc::input::{CustomerInput, Input};
use crate::tpcc::transactions::{Delivered, Outcome};
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_serial::{Change, RelationId, SerialDatabase, SerialTransaction, Store, TupleId};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

/// Runs transactions. Keeps their buffers, and what it knows to be delivered.
pub struct SerialTerminal {
    tables: SerialTables,
    buffers: Buffers,
    delivered: Delivered,
}

#[derive(Default)]
struct Buffers {
    /// A new tuple.
    row: Vec<u64>,
    /// Lines of an order.
    lines: Vec<TupleId>,
    /// Customers of one name, by first names.
    customers: Vec<([u64; 2], TupleId)>,
    /// Items that Stock-Level looks at.
    items: Vec<i32>,
    /// H_DATA
    text: String,
}

impl Buffers {
    /// A new tuple of so many words, all zero.
    fn new_row(&mut self, words: usize) -> &mut [u64] {
        self.row.clear();
        self.row.resize(words, 0);
        &mut self.row
    }
}

impl SerialTerminal {
    /// A terminal of a database with these relations.
    pub fn new(tables: SerialTables) -> SerialTerminal {
        SerialTerminal { tables, buffers: Buffers::default(), delivered: Delivered::default() }
    }

    /// Runs a transaction. `now` is the date of orders and payments, in microseconds since 1970.
    ///
    /// # Errors
    /// 53200 or 54000 if there is no room for its tuples; XX000 if a tuple is missing that was loaded. It has done nothing then.
    pub fn run_once<S: Store>(
        &mut self,
        database: &mut SerialDatabase<S>,
        input: &Input,
        now: i64,
    ) -> Result<Outcome> {
        let mut item_is_unused = false;
        let (tables, buffers, delivered) = (&self.tables, &mut self.buffers, &self.delivered);
        let outcome = database.run(|transaction| {
            let mut procedure = Procedure { transaction, tables, buffers, delivered, now };
            match input {
                Input::NewOrder(input) => {
                    procedure.new_order(input)?.map(Outcome::NewOrder).ok_or_else(|| {
                        item_is_unused = true;
                        Error::new(SqlState::InvalidParameterValue, "item number is not valid")
                    })
                }
                Input::Payment(input) => procedure.payment(input).map(Outcome::Payment),
                Input::OrderStatus(input) => procedure.order_status(input).map(Outcome::OrderStatus),
                Input::Delivery(input) => procedure.delivery(input).map(Outcome::Delivery),
                Input::StockLevel(input) => procedure.stock_level(input).map(Outcome::StockLevel),
            }
        });
        if let (Input::Delivery(input), Ok(Outcome::Delivery(output))) = (input, &outcome) {
            self.delivered.note(input.warehouse, output);
        }
        if item_is_unused { Ok(Outcome::NewOrderRolledBack) } else { outcome }
    }

    /// Runs a warranty or return. `now` is the date of a new delivery, in microseconds since 1970.
    ///
    /// # Errors
    /// Those of [`run_once`](Self::run_once).
    pub fn run_warranty<S: Store>(
        &mut self,
        database: &mut SerialDatabase<S>,
        input: &WarrantyInput,
        now: i64,
    ) -> Result<()> {
        let (tables, buffers, delivered) = (&self.tables, &mut self.buffers, &self.delivered);
        database.run(|transaction| Procedure { transaction, tables, buffers, delivered, now }.warranty(input))
    }
}

/// A procedure at work.
struct Procedure<'p, 'd, S: Store> {
    transaction: &'p mut SerialTransaction<'d, S>,
    tables: &'p SerialTables,
    buffers: &'p mut Buffers,
    delivered: &'p Delivered,
    now: i64,
}

fn missing(relation: RelationId) -> Error {
    let hint = "Load as many warehouses as the transactions use.";
    Error::internal(format!("a tuple of relation {} is missing", relation.0)).with_hint(hint)
}

impl<S: Store> Procedure<'_, '_, S> {
    /// The tuple with a primary key; an error if there is none: the population is complete.
    fn require(&self, relation: RelationId, key: u64) -> Result<TupleId> {
        self.transaction.find(relation, PRIMARY, key).ok_or_else(|| missing(relation))
    }

    fn read(&self, relation: RelationId, tuple: TupleId) -> Result<&[AtomicU64]> {
        self.transaction.read(relation, tuple).ok_or_else(|| missing(relation))
    }

    fn read_by_key(&self, relation: RelationId, key: u64) -> Result<&[AtomicU64]> {
        self.read(relation, self.require(relation, key)?)
    }

    fn change_by_key(&mut self, relation: RelationId, key: u64) -> Result<Change<'_>> {
        let tuple = self.require(relation, key)?;
        self.transaction.change(relation, tuple)
    }

    /// Collects the lines of an order.
    fn find_lines(&mut self, order: u64) {
        let lines = &mut self.buffers.lines;
        lines.clear();
        let from = keys::order_line(order, 0);
        self.transaction.scan_index(self.tables.order_line.relation, PRIMARY, from, |key, tuple| {
            if keys::order_of_line(key) != order {
                return ControlFlow::Break(());
            }
            lines.push(tuple);
            ControlFlow::Continue(())
        });
    }

    /// The customer meant by the input; by name it is the one at position n/2 rounded up of the n customers of that name,
    /// ordered by first name (clauses 2.5.2.2 and 2.6.2.2).
    fn find_customer(&mut self, warehouse: i32, district: i16, by: &CustomerInput) -> Result<TupleId> {
        let table = &self.tables.customer;
        let last = match by {
            CustomerInput::Id(id) => {
                return self.require(table.relation, keys::in_district(warehouse, district.into(), *id));
            }
            CustomerInput::LastName(last) => last,
        };
        let unknown = || {
            Error::internal(format!(
                "no customer of district {warehouse}/{district} has the last name {last}"
            ))
        };
        let name = keys::last_name(last).ok_or_else(unknown)?;
        let from = keys::customer_by_name(keys::district(warehouse, district.into()), name, 0);
        let (transaction, customers) = (&*self.transaction, &mut self.buffers.customers);
        customers.clear();
        transaction.scan_index(table.relation, CUSTOMER_BY_NAME, from, |key, tuple| {
            if !keys::is_same_name(key, from) {
                return ControlFlow::Break(());
            }
            let words = transaction.read(table.relation, tuple);
            customers.extend(words.map(|words| (table.first.order(words), tuple)));
            ControlFlow::Continue(())
        });
        customers.sort_unstable();
        let middle = customers.len().div_ceil(2).checked_sub(1);
        middle.map(|middle| customers[middle].1).ok_or_else(unknown)
    }
}
