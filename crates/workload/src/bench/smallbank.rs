//! `bench smallbank`: short transactions over customers with a savings and a checking account each.
//!
//! The five transactions of Alomari et al. ("The cost of serializability on platforms that use snapshot isolation", ICDE
//! 2008) and SendPayment, which later evaluations added; all six alike. Customers are drawn by Zipf's law. Each
//! transaction begins with finding its customers' numbers by their names, as in the original.
//!
//! | transaction | does |
//! | --- | --- |
//! | balance | reads both balances |
//! | deposit_checking | adds to checking |
//! | transact_savings | adds to or takes from savings; rolled back if that would leave less than nothing |
//! | amalgamate | moves everything that one customer has to another's checking |
//! | write_check | takes from checking, and one dollar more if both balances together are not enough |
//! | send_payment | moves from one checking to another; rolled back if there is not enough |
//!
//! The condition after the run: the balances add up to what was loaded and paid in, less what was taken out by the
//! transactions that committed; and no savings are below nothing. Clients keep count of the amounts.

use super::client::{Client, ClientSetup, Done, Workload};
use super::config::{BenchConfig, MemoryNeed, at_most, invalid};
use super::fill::fill;
use super::report::{About, BenchReport};
use super::rounds::Rounds;
use crate::tpcc::key::KeyBuffer;
use crate::tpcc::load::{money, money_cell};
use crate::watch::{Event, Watch};
use crate::zipf::{Scatter, Zipf};
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Database, Error, IndexPosition, Isolation, Result, RowId, Session,
    SqlState, Table, TableDefinition, Transaction, Value,
};
use ankerdb_measure::machine::Machine;
use fastrand::Rng;
use serde_json::json;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Position of the only index of each table.
const PRIMARY: IndexPosition = IndexPosition(0);
/// Positions of the columns.
const NAME: usize = 0;
const CUSTOMER: usize = 1;
const BALANCE: usize = 1;
/// Cents that an account is loaded with at least, and at most.
const LOADED: std::ops::RangeInclusive<i64> = 1_000_00..=50_000_00;
/// Cents of a transaction at most.
const AMOUNT_MAX: i64 = 100_00;
/// The fee for an uncovered check, in cents.
const PENALTY: i64 = 1_00;

/// One run of `bench smallbank`.
#[derive(Clone, Debug)]
pub struct SmallbankConfig {
    /// Threads, time, isolation level.
    pub bench: BenchConfig,
    /// Customers.
    pub customers: u64,
    /// Theta of Zipf's law, 0 to 2.
    pub zipf: f64,
}

impl SmallbankConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        if self.customers < 2 {
            return Err(invalid("--customers must be at least 2".to_owned()));
        }
        at_most("--customers", self.customers, 1_000_000_000)?;
        if !(0.0..=2.0).contains(&self.zipf) {
            return Err(invalid(format!("--zipf must be from 0 to 2, not {}", self.zipf)));
        }
        let need = MemoryNeed {
            option: "--customers",
            count: self.customers,
            bytes_each: 400,
            bytes_besides: 256 << 20,
        };
        self.bench.without_contention("smallbank")?;
        self.bench.check(machine, need)
    }

    /// One line about the run.
    pub fn title(&self) -> String {
        format!("{} customers, zipf {}, {}", self.customers, self.zipf, BenchReport::title(&self.bench))
    }
}

/// The three tables.
#[derive(Clone)]
struct Tables {
    account: Arc<Table>,
    savings: Arc<Table>,
    checking: Arc<Table>,
}

/// The tables, loaded.
pub struct SmallbankWorkload {
    database: Database,
    tables: Tables,
    config: SmallbankConfig,
    /// Cents that should be in all accounts together.
    expected: Arc<AtomicI64>,
}

/// A customer's name; all have the same length.
fn name_of(customer: u64, name: &mut String) {
    name.clear();
    name.push_str("customer");
    for place in (0..10).rev() {
        name.push(char::from(b'0' + (customer / 10u64.pow(place) % 10) as u8));
    }
}

/// What an account is loaded with, from the seed and the customer's number.
fn loaded(seed: u64, customer: u64, savings: bool) -> i64 {
    let mixed = seed ^ (customer * 2 + u64::from(savings) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Rng::with_seed(mixed).i64(LOADED)
}

impl SmallbankWorkload {
    /// Creates and fills the tables.
    ///
    /// # Errors
    /// 57014 if the user stops; the database's.
    pub fn load(
        database: &Database,
        config: &SmallbankConfig,
        watch: &Watch<'_>,
    ) -> Result<SmallbankWorkload> {
        let balances = |name: &str| {
            let definition = TableDefinition::new(name)
                .column(ColumnDefinition::new("customer_id", DataType::BigInt))
                .column(ColumnDefinition::new("balance", DataType::Numeric { precision: 18, scale: 2 }))
                .primary_key(&["customer_id"]);
            database.create_table(definition)
        };
        let account = TableDefinition::new("account")
            .column(ColumnDefinition::new("name", DataType::Varchar(20)))
            .column(ColumnDefinition::new("customer_id", DataType::BigInt))
            .primary_key(&["name"]);
        let tables = Tables {
            account: database.create_table(account)?,
            savings: balances("savings")?,
            checking: balances("checking")?,
        };
        let account = |customer: u64| {
            let mut name = String::new();
            name_of(customer, &mut name);
            vec![Value::text(name), Value::BigInt(customer as i64)]
        };
        let balance = |customer: u64, savings| {
            let cents = loaded(config.bench.seed, customer, savings);
            vec![Value::BigInt(customer as i64), money(cents.into())]
        };
        let rows: [(&Arc<Table>, super::fill::RowsOf<'_>); 3] = [
            (&tables.account, &account),
            (&tables.savings, &|customer| balance(customer, true)),
            (&tables.checking, &|customer| balance(customer, false)),
        ];
        fill(database, config.customers, &rows, watch)?;
        let total = (0..config.customers)
            .flat_map(|customer| [true, false].map(|savings| loaded(config.bench.seed, customer, savings)))
            .sum();
        let expected = Arc::new(AtomicI64::new(total));
        Ok(SmallbankWorkload { database: database.clone(), tables, config: config.clone(), expected })
    }

    /// Checks the accounts. All clients must have ended.
    ///
    /// # Errors
    /// The database's.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut transaction = self.database.session().begin(Isolation::RepeatableRead);
        let (mut total, mut rows, mut wrong) = (0, 0, Vec::new());
        for (table, is_savings) in [(&self.tables.savings, true), (&self.tables.checking, false)] {
            transaction.scan_table(table, ColumnSet::ALL, None, &mut |transaction, row| {
                let balance = transaction.decimal(table, row, BALANCE) as i64;
                rows += 1;
                total += balance;
                if is_savings && balance < 0 && wrong.len() < 10 {
                    let customer = transaction.bigint(table, row, 0);
                    wrong.push(format!("the savings of customer {customer} are {balance} cents"));
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let expected = self.expected.load(Ordering::Relaxed);
        if total != expected {
            wrong.insert(0, format!("there are {total} cents in all accounts, and should be {expected}"));
        }
        if rows != self.config.customers * 2 {
            wrong.insert(0, format!("{rows} accounts instead of {}", self.config.customers * 2));
        }
        Ok(wrong)
    }
}

const KINDS: [&str; 6] =
    ["balance", "deposit_checking", "transact_savings", "amalgamate", "write_check", "send_payment"];

#[derive(Clone, Copy)]
enum Input {
    Balance,
    DepositChecking,
    TransactSavings,
    Amalgamate,
    WriteCheck,
    SendPayment,
}

const INPUTS: [Input; 6] = [
    Input::Balance,
    Input::DepositChecking,
    Input::TransactSavings,
    Input::Amalgamate,
    Input::WriteCheck,
    Input::SendPayment,
];

impl Workload for SmallbankWorkload {
    fn kinds(&self) -> &[&'static str] {
        &KINDS
    }

    fn client(&self, setup: &ClientSetup) -> Result<Box<dyn Client>> {
        let config = &self.config;
        Ok(Box::new(SmallbankClient {
            session: self.database.session(),
            isolation: setup.isolation,
            rng: Rng::with_seed(setup.seed ^ (setup.number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            zipf: Zipf::new(config.customers, config.zipf),
            scatter: Scatter::new(config.customers),
            input: Input::Balance,
            customers: [0, 1],
            amount: 0,
            bank: Bank { tables: self.tables.clone(), key: KeyBuffer::default(), name: String::new() },
            paid_in: 0,
            expected: self.expected.clone(),
        }))
    }
}

struct SmallbankClient {
    session: Session,
    isolation: Isolation,
    rng: Rng,
    zipf: Zipf,
    scatter: Scatter,
    input: Input,
    customers: [u64; 2],
    /// Cents; negative if taken out.
    amount: i64,
    bank: Bank,
    /// Cents paid in, less those taken out, by transactions that committed.
    paid_in: i64,
    expected: Arc<AtomicI64>,
}

impl SmallbankClient {
    fn draw_customer(&mut self) -> u64 {
        self.scatter.key(self.zipf.draw(&mut self.rng))
    }
}

impl Client for SmallbankClient {
    fn draw(&mut self) -> usize {
        let kind = self.rng.usize(0..INPUTS.len());
        self.input = INPUTS[kind];
        self.customers[0] = self.draw_customer();
        self.amount = self.rng.i64(1..=AMOUNT_MAX);
        match self.input {
            Input::Amalgamate | Input::SendPayment => {
                self.customers[1] = self.draw_customer();
                while self.customers[1] == self.customers[0] {
                    self.customers[1] = self.draw_customer();
                }
            }
            Input::TransactSavings if self.rng.bool() => self.amount = -self.amount,
            _ => {}
        }
        kind
    }

    fn run(&mut self, _: i64) -> Result<Done> {
        let (bank, [first, second], amount) = (&mut self.bank, self.customers, self.amount);
        let input = self.input;
        let mut is_short = false;
        let outcome = self.session.try_run(self.isolation, |transaction| {
            let paid_in = match input {
                Input::Balance => bank.balance(transaction, first).map(Some),
                Input::DepositChecking => bank.deposit_checking(transaction, first, amount).map(Some),
                Input::TransactSavings => bank.transact_savings(transaction, first, amount),
                Input::Amalgamate => bank.amalgamate(transaction, first, second).map(Some),
                Input::WriteCheck => bank.write_check(transaction, first, amount).map(Some),
                Input::SendPayment => bank.send_payment(transaction, first, second, amount),
            }?;
            paid_in.ok_or_else(|| {
                is_short = true;
                Error::new(SqlState::InvalidParameterValue, "there is not enough money")
            })
        });
        if is_short {
            return Ok(Done::RolledBack);
        }
        self.paid_in += outcome?;
        Ok(Done::Committed)
    }
}

impl Drop for SmallbankClient {
    fn drop(&mut self) {
        self.expected.fetch_add(self.paid_in, Ordering::Relaxed);
    }
}

/// The six procedures. They return the cents that they have paid in, and `None` if they must be rolled back.
struct Bank {
    tables: Tables,
    key: KeyBuffer,
    name: String,
}

/// A row with a balance.
struct Account {
    row: RowId,
    cents: i64,
}

const BALANCE_ONLY: ColumnSet = ColumnSet::of(&[BALANCE]);

impl Bank {
    /// The customer's number, by name.
    fn customer(&mut self, transaction: &mut Transaction, customer: u64) -> Result<i64> {
        name_of(customer, &mut self.name);
        let table = &self.tables.account;
        let key = self.key.text(&self.name);
        let row = transaction.find(table, PRIMARY, key, ColumnSet::of(&[NAME, CUSTOMER]))?;
        let missing = || Error::internal(format!("there is no {}", self.name));
        Ok(transaction.bigint(table, row.ok_or_else(missing)?, CUSTOMER))
    }

    fn account(
        key: &mut KeyBuffer,
        transaction: &mut Transaction,
        table: &Arc<Table>,
        customer: i64,
    ) -> Result<Account> {
        let missing = || Error::internal(format!("customer {customer} is not in {}", table.name()));
        let row =
            transaction.find(table, PRIMARY, key.bigint(customer), BALANCE_ONLY)?.ok_or_else(missing)?;
        Ok(Account { row, cents: transaction.decimal(table, row, BALANCE) as i64 })
    }

    fn savings(&mut self, transaction: &mut Transaction, customer: i64) -> Result<Account> {
        Self::account(&mut self.key, transaction, &self.tables.savings, customer)
    }

    fn checking(&mut self, transaction: &mut Transaction, customer: i64) -> Result<Account> {
        Self::account(&mut self.key, transaction, &self.tables.checking, customer)
    }

    fn set(transaction: &mut Transaction, table: &Arc<Table>, account: &Account, cents: i64) -> Result<()> {
        transaction.update_cells(table, account.row, &[(BALANCE, money_cell(cents.into()))])
    }

    fn balance(&mut self, transaction: &mut Transaction, customer: u64) -> Result<i64> {
        let customer = self.customer(transaction, customer)?;
        let savings = self.savings(transaction, customer)?;
        let checking = self.checking(transaction, customer)?;
        std::hint::black_box(savings.cents + checking.cents);
        Ok(0)
    }

    fn deposit_checking(&mut self, transaction: &mut Transaction, customer: u64, amount: i64) -> Result<i64> {
        let customer = self.customer(transaction, customer)?;
        let checking = self.checking(transaction, customer)?;
        Self::set(transaction, &self.tables.checking, &checking, checking.cents + amount)?;
        Ok(amount)
    }

    fn transact_savings(
        &mut self,
        transaction: &mut Transaction,
        customer: u64,
        amount: i64,
    ) -> Result<Option<i64>> {
        let customer = self.customer(transaction, customer)?;
        let savings = self.savings(transaction, customer)?;
        if savings.cents + amount < 0 {
            return Ok(None);
        }
        Self::set(transaction, &self.tables.savings, &savings, savings.cents + amount)?;
        Ok(Some(amount))
    }

    fn amalgamate(&mut self, transaction: &mut Transaction, from: u64, to: u64) -> Result<i64> {
        let from = self.customer(transaction, from)?;
        let to = self.customer(transaction, to)?;
        let savings = self.savings(transaction, from)?;
        let checking = self.checking(transaction, from)?;
        let target = self.checking(transaction, to)?;
        Self::set(transaction, &self.tables.savings, &savings, 0)?;
        Self::set(transaction, &self.tables.checking, &checking, 0)?;
        let sum = target.cents + savings.cents + checking.cents;
        Self::set(transaction, &self.tables.checking, &target, sum)?;
        Ok(0)
    }

    fn write_check(&mut self, transaction: &mut Transaction, customer: u64, amount: i64) -> Result<i64> {
        let customer = self.customer(transaction, customer)?;
        let savings = self.savings(transaction, customer)?;
        let checking = self.checking(transaction, customer)?;
        let is_covered = savings.cents + checking.cents >= amount;
        let taken = if is_covered { amount } else { amount + PENALTY };
        Self::set(transaction, &self.tables.checking, &checking, checking.cents - taken)?;
        Ok(-taken)
    }

    fn send_payment(
        &mut self,
        transaction: &mut Transaction,
        from: u64,
        to: u64,
        amount: i64,
    ) -> Result<Option<i64>> {
        let from = self.customer(transaction, from)?;
        let to = self.customer(transaction, to)?;
        let source = self.checking(transaction, from)?;
        let target = self.checking(transaction, to)?;
        if source.cents < amount {
            return Ok(None);
        }
        Self::set(transaction, &self.tables.checking, &source, source.cents - amount)?;
        Self::set(transaction, &self.tables.checking, &target, target.cents + amount)?;
        Ok(Some(0))
    }
}

/// Loads, measures and checks, like [`tpcc::run`](super::tpcc::run).
///
/// # Errors
/// Those of [`tpcc::run`](super::tpcc::run).
pub fn run(
    config: &SmallbankConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<BenchReport> {
    let workload = SmallbankWorkload::load(&Database::with(config.bench.engine), config, watch)?;
    let rounds = Rounds::new(&config.bench, &workload, None, watch);
    let phases = rounds.run()?;
    watch.tell(Event::Checking);
    let about = About {
        benchmark: "smallbank",
        own: json!({ "customers": config.customers, "zipf": config.zipf }),
        machine: machine.clone(),
        warnings,
        conditions: "no money came from nowhere or went, no savings below nothing",
        violations: Some(workload.check()?),
    };
    Ok(BenchReport::new(&rounds, about, &phases))
}
