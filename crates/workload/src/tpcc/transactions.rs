//! The five transactions as in-process procedures: typed reads and writes on the engine, no SQL.
//!
//! Each read names exactly the columns it looks at, because that is what precision locking validates: a
//! New-Order reads the warehouse's tax while Payments add to its year-to-date sum, and neither conflicts with
//! the other.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub(crate) use delivery::Delivered;
pub use delivery::DeliveryOutput;
use new_order::LineRows;
pub(crate) use new_order::is_original;
pub use new_order::{NewOrderOutput, OrderLineOutput};
pub use order_status::{OrderStatusLine, OrderStatusOutput};
pub(crate) use payment::bad_credit_data;
pub use payment::{NameAndAddress, PaymentOutput};
pub(crate) use stock_level::LAST_ORDERS;
pub use stock_level::StockLevelOutput;

use super::input::{CustomerInput, Input};
use super::key::KeyBuffer;
use super::schema::{PRIMARY, TpccTables, customer};
use ankerdb_engine::{
    ColumnSet, Database, Direction, Error, Isolation, KeyBatch, KeyRange, Result, RowId, Session, SqlState,
    Table, Transaction,
};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// How a transaction ended. The outputs are what a terminal would show.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost the most frequent transaction an allocation")]
pub enum Outcome {
    /// New-Order, committed.
    NewOrder(NewOrderOutput),
    /// New-Order, rolled back as an item number was not valid (clause 2.4.2.3): a success, too.
    NewOrderRolledBack,
    /// Payment, committed.
    Payment(PaymentOutput),
    /// Order-Status, committed.
    OrderStatus(OrderStatusOutput),
    /// Delivery, committed.
    Delivery(DeliveryOutput),
    /// Stock-Level, committed.
    StockLevel(StockLevelOutput),
}

/// One client: a session and its buffers.
pub struct Terminal {
    tables: Arc<TpccTables>,
    session: Session,
    isolation: Isolation,
    /// Whether a commit returns when it is on disk.
    waits_for_log: bool,
    key: KeyBuffer,
    items: Vec<i32>,
    lines: Vec<LineRows>,
    batch: Batch,
    rows: Vec<RowId>,
    text: String,
    range: KeyRange,
    delivered: Delivered,
}

impl Terminal {
    /// A client with a session of its own.
    pub fn new(database: &Database, tables: Arc<TpccTables>, isolation: Isolation) -> Terminal {
        let session = database.session();
        Terminal {
            tables,
            session,
            isolation,
            waits_for_log: true,
            key: KeyBuffer::default(),
            items: Vec::new(),
            lines: Vec::new(),
            batch: Batch::default(),
            rows: Vec::new(),
            text: String::new(),
            range: KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded },
            delivered: Delivered::default(),
        }
    }

    /// Whether its commits return when they are on disk, where the database is kept there.
    pub fn set_waits_for_log(&mut self, waits: bool) {
        self.waits_for_log = waits;
    }

    /// The client's session, for transactions beside TPC-C's.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs the transaction once. `now` is the date of orders and payments, in microseconds since 1970.
    ///
    /// # Errors
    /// 40001 if it is to be run again, which the caller decides; the database's.
    pub fn run_once(&mut self, input: &Input, now: i64) -> Result<Outcome> {
        let (tables, key, items) = (&self.tables, &mut self.key, &mut self.items);
        let (lines, batch) = (&mut self.lines, &mut self.batch);
        let (rows, text) = (&mut self.rows, &mut self.text);
        let (range, delivered) = (&mut self.range, &self.delivered);
        let (mut item_is_unused, waits_for_log) = (false, self.waits_for_log);
        let outcome = self.session.try_run(self.isolation, |transaction| {
            transaction.set_waits_for_log(waits_for_log);
            let mut procedure = Procedure {
                transaction,
                tables,
                key,
                items,
                lines,
                batch,
                rows,
                text,
                range,
                delivered,
                now,
            };
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
}

/// Keys to look up together, and the rows found.
#[derive(Default)]
struct Batch {
    keys: KeyBatch,
    rows: Vec<Option<RowId>>,
}

fn missing_row(table: &Table) -> Error {
    let hint = "Load the TPC-C tables with as many warehouses as the transactions use.";
    Error::internal(format!("a row of table \"{}\" is missing", table.name())).with_hint(hint)
}

/// A procedure at work.
struct Procedure<'a> {
    transaction: &'a mut Transaction,
    tables: &'a TpccTables,
    key: &'a mut KeyBuffer,
    /// Items that Stock-Level looks at.
    items: &'a mut Vec<i32>,
    /// Rows of a new order's lines.
    lines: &'a mut Vec<LineRows>,
    batch: &'a mut Batch,
    /// Customers of one name.
    rows: &'a mut Vec<RowId>,
    /// H_DATA
    text: &'a mut String,
    /// Where Delivery looks for orders.
    range: &'a mut KeyRange,
    delivered: &'a Delivered,
    now: i64,
}

impl Procedure<'_> {
    /// The row with the key that is in the buffer now; an error if there is none: the population is complete.
    fn require(
        transaction: &mut Transaction,
        table: &Arc<Table>,
        key: &[u8],
        columns: ColumnSet,
    ) -> Result<RowId> {
        transaction.find(table, PRIMARY, key, columns)?.ok_or_else(|| missing_row(table))
    }

    /// The customer meant by the input; by name it is the one at position n/2 rounded up of the n customers
    /// of that name, ordered by first name (clauses 2.5.2.2 and 2.6.2.2).
    fn find_customer(
        &mut self,
        warehouse: i32,
        district: i16,
        by: &CustomerInput,
        columns: ColumnSet,
    ) -> Result<RowId> {
        let table = &self.tables.customer;
        let last = match by {
            CustomerInput::Id(id) => {
                return Self::require(
                    self.transaction,
                    table,
                    self.key.in_district(warehouse, district, *id),
                    columns,
                );
            }
            CustomerInput::LastName(last) => last,
        };
        let prefix = self.key.customer_name(warehouse, district, last);
        let columns = columns.union(ColumnSet::of(&[customer::C_LAST, customer::C_FIRST]));
        let rows = &mut *self.rows;
        rows.clear();
        let index = self.tables.customer_by_name;
        self.transaction.scan_prefix(table, index, prefix, Direction::Forward, columns, &mut |_, row| {
            rows.push(row);
            Ok(ControlFlow::Continue(()))
        })?;
        let middle = rows.len().div_ceil(2).checked_sub(1);
        middle.map(|middle| rows[middle]).ok_or_else(|| {
            Error::internal(format!(
                "no customer of district {warehouse}/{district} has the last name {last}"
            ))
        })
    }
}
