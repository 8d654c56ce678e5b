//! TPC-C against a real database: the population, what each procedure does, and that consistency survives
//! concurrency.

use ankerdb_engine::{ColumnSet, Database, Isolation, RowId, Table, Transaction, Value};
use ankerdb_workload::htap::marker::Marker;
use ankerdb_workload::htap::oltp::{OltpOptions, OltpStream, OltpWorld};
use ankerdb_workload::tpcc::check::check;
use ankerdb_workload::tpcc::input::{
    Access, CustomerInput, Input, NewOrderInput, OrderLineInput, OrderStatusInput, PaymentInput, UNUSED_ITEM,
};
use ankerdb_workload::tpcc::key::KeyBuffer;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use ankerdb_workload::tpcc::schema::{PRIMARY, Tables, customer, district, item, orders, stock, warehouse};
use ankerdb_workload::tpcc::transactions::{Client, Outcome};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, OnceLock};

struct World {
    database: Database,
    tables: Arc<Tables>,
}

fn loaded(threads: usize) -> World {
    let database = Database::new();
    let options = LoadOptions { warehouses: 1, seed: 42, threads, now: 1_500_000_000_000_000 };
    let tables = load(&database, &options, &|_, _| ControlFlow::Continue(())).expect("loading works");
    World { database, tables: Arc::new(tables) }
}

/// One database for tests that each stay in a district of their own.
fn shared() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| loaded(2))
}

impl World {
    fn read<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> T {
        let mut session = self.database.session();
        let mut transaction = session.begin(Isolation::RepeatableRead);
        let value = body(&mut transaction);
        transaction.rollback();
        value
    }

    fn write(&self, body: impl FnMut(&mut Transaction) -> ankerdb_engine::Result<()>) {
        self.database.session().run(Isolation::Serializable, body).expect("the write works");
    }

    fn scan(&self, table: &Arc<Table>, mut visit: impl FnMut(&Transaction, RowId)) {
        self.read(|transaction| {
            let mut visit = |transaction: &mut Transaction, row| {
                visit(transaction, row);
                Ok(ControlFlow::Continue(()))
            };
            transaction.scan_table(table, ColumnSet::ALL, None, &mut visit).expect("scans work");
        });
    }

    fn count(&self, table: &Arc<Table>) -> usize {
        let mut rows = 0;
        self.scan(table, |_, _| rows += 1);
        rows
    }

    /// A hash of all rows that does not depend on their order.
    fn digest(&self, table: &Arc<Table>) -> u64 {
        let mut sum = 0u64;
        self.scan(table, |transaction, row| {
            let mut hasher = DefaultHasher::new();
            for column in 0..table.columns().len() {
                format!("{:?}", transaction.value(table, row, column)).hash(&mut hasher);
            }
            sum = sum.wrapping_add(hasher.finish());
        });
        sum
    }

    fn find(&self, table: &Arc<Table>, key: &[u8]) -> Option<RowId> {
        self.read(|transaction| transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works"))
    }

    fn value(&self, table: &Arc<Table>, key: &[u8], column: usize) -> Value {
        self.read(|transaction| {
            let row = transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works");
            transaction.value(table, row.expect("the row exists"), column)
        })
    }

    fn client(&self) -> Client {
        Client::new(&self.database, self.tables.clone(), Isolation::Serializable)
    }

    /// Runs a transaction; other tests share the warehouse row, so it may have to be run again.
    fn run(&self, input: &Input) -> Outcome {
        let mut client = self.client();
        loop {
            match client.run_once(input, 7) {
                Err(error) if error.is_retryable() => continue,
                outcome => return outcome.expect("the transaction works"),
            }
        }
    }

    fn all_tables(&self) -> [&Arc<Table>; 9] {
        let tables = &self.tables;
        [
            &tables.warehouse,
            &tables.district,
            &tables.customer,
            &tables.history,
            &tables.new_order,
            &tables.orders,
            &tables.order_line,
            &tables.item,
            &tables.stock,
        ]
    }
}

fn cents(value: &Value) -> i128 {
    match value {
        Value::Numeric(decimal) => decimal.unscaled,
        other => panic!("{other:?} is no numeric"),
    }
}

#[test]
fn the_population_is_the_specifications_and_depends_on_the_seed_alone() {
    let world = loaded(3);
    let counts: Vec<usize> = world.all_tables().iter().map(|table| world.count(table)).collect();
    assert_eq!(counts[..6], [1, 10, 30_000, 30_000, 9_000, 30_000]);
    assert!((285_000..315_000).contains(&counts[6]), "{} order lines", counts[6]);
    assert_eq!(counts[7..], [100_000, 100_000]);
    assert_eq!(check(&world.database, &world.tables).expect("checking works"), []);

    let tables = &world.tables;
    let (mut originals, mut items) = (0, 0);
    world.scan(&tables.item, |transaction, row| {
        items += 1;
        originals += usize::from(transaction.text(&tables.item, row, item::I_DATA).contains("ORIGINAL"));
    });
    assert!((items * 9 / 100..items * 11 / 100).contains(&originals), "{originals} of {items}");
    let mut orders_of = BTreeMap::new();
    world.scan(&tables.orders, |transaction, row| {
        let place = transaction.smallint(&tables.orders, row, orders::O_D_ID);
        *orders_of.entry((place, transaction.integer(&tables.orders, row, orders::O_C_ID))).or_insert(0) += 1;
        let undelivered = transaction.integer(&tables.orders, row, orders::O_ID) >= 2101;
        assert_eq!(transaction.value(&tables.orders, row, orders::O_CARRIER_ID).is_null(), undelivered);
    });
    assert_eq!(orders_of.len(), 30_000, "every customer has an order");

    let again = loaded(1);
    for (table, other) in world.all_tables().into_iter().zip(again.all_tables()) {
        assert_eq!(world.digest(table), again.digest(other), "{} differs", table.name());
    }
}

fn order_lines(items: &[i32]) -> Vec<OrderLineInput> {
    items.iter().map(|&item| OrderLineInput { item, supply_warehouse: 1, quantity: 7 }).collect()
}

fn place_order(district: i16, customer: i32, items: &[i32]) -> Input {
    Input::NewOrder(NewOrderInput { warehouse: 1, district, customer, lines: order_lines(items) })
}

#[test]
fn new_order_takes_from_stock_and_adds_up() {
    let (world, mut key) = (shared(), KeyBuffer::default());
    let tables = &world.tables;
    let items = [501, 502, 503, 501, 504];
    let mut expected: BTreeMap<i32, i16> = BTreeMap::new();
    for &item in &items {
        let before = match expected.get(&item) {
            Some(&left) => left,
            None => match world.value(&tables.stock, key.stock(1, item), stock::S_QUANTITY) {
                Value::SmallInt(quantity) => quantity,
                other => panic!("{other:?}"),
            },
        };
        expected.insert(item, if before >= 17 { before - 7 } else { before + 84 });
    }
    let Outcome::NewOrder(output) = world.run(&place_order(1, 77, &items)) else { panic!("it commits") };
    assert_eq!(output.order, 3001);
    assert_eq!(
        world.value(&tables.district, key.district(1, 1), district::D_NEXT_O_ID),
        Value::Integer(3002)
    );
    for (&item, &left) in &expected {
        assert_eq!(world.value(&tables.stock, key.stock(1, item), stock::S_QUANTITY), Value::SmallInt(left));
    }
    assert_eq!(world.value(&tables.stock, key.stock(1, 501), stock::S_ORDER_CNT), Value::Integer(2));
    assert_eq!(world.value(&tables.stock, key.stock(1, 501), stock::S_YTD), Value::Integer(14));
    let order = key.in_district(1, 1, 3001).to_vec();
    assert!(world.find(&tables.new_order, &order).is_some());
    assert_eq!(world.value(&tables.orders, &order, orders::O_OL_CNT), Value::SmallInt(5));
    assert_eq!(world.value(&tables.orders, &order, orders::O_C_ID), Value::Integer(77));

    let price = cents(&world.value(&tables.item, key.id(502), item::I_PRICE));
    assert_eq!((output.lines[1].price_cents, output.lines[1].amount_cents), (price, 7 * price));
    let discount = cents(&world.value(&tables.customer, key.in_district(1, 1, 77), customer::C_DISCOUNT));
    let taxes = cents(&world.value(&tables.warehouse, key.id(1), warehouse::W_TAX))
        + cents(&world.value(&tables.district, key.district(1, 1), district::D_TAX));
    let amount: i128 = output.lines.iter().map(|line| line.amount_cents).sum();
    assert_eq!(output.total_cents, amount * (10_000 - discount) * (10_000 + taxes) / 100_000_000);
}

#[test]
fn an_order_of_an_unused_item_leaves_nothing_behind() {
    let (world, mut key) = (shared(), KeyBuffer::default());
    let before = world.value(&world.tables.stock, key.stock(1, 601), stock::S_QUANTITY);
    let outcome = world.run(&place_order(2, 5, &[601, 602, 603, 604, UNUSED_ITEM]));
    assert!(matches!(outcome, Outcome::NewOrderRolledBack));
    let next = world.value(&world.tables.district, key.district(1, 2), district::D_NEXT_O_ID);
    assert_eq!(next, Value::Integer(3001));
    assert_eq!(world.value(&world.tables.stock, key.stock(1, 601), stock::S_QUANTITY), before);
    assert_eq!(world.find(&world.tables.orders, key.in_district(1, 2, 3001)), None);
}

#[test]
fn payment_by_name_charges_the_middle_customer() {
    let (world, mut key) = (shared(), KeyBuffer::default());
    let tables = &world.tables;
    let mut named = Vec::new();
    world.scan(&tables.customer, |transaction, row| {
        let table = &tables.customer;
        let here = transaction.smallint(table, row, customer::C_D_ID) == 3;
        if here && transaction.text(table, row, customer::C_LAST).as_ref() == "BAROUGHTABLE" {
            let first = transaction.text(table, row, customer::C_FIRST);
            named.push((first, transaction.integer(table, row, customer::C_ID)));
        }
    });
    named.sort();
    let middle = named[named.len().div_ceil(2) - 1].1;
    let input = PaymentInput {
        warehouse: 1,
        district: 3,
        customer_warehouse: 1,
        customer_district: 3,
        customer: CustomerInput::LastName("BAROUGHTABLE".into()),
        amount: 123_45,
    };
    let Outcome::Payment(output) = world.run(&Input::Payment(input)) else { panic!("it commits") };
    assert_eq!((output.customer, output.balance_cents), (middle, -10_00 - 123_45));
    let key_of_customer = key.in_district(1, 3, middle).to_vec();
    let customer = |column| world.value(&tables.customer, &key_of_customer, column);
    assert_eq!(cents(&customer(customer::C_BALANCE)), -133_45);
    assert_eq!(cents(&customer(customer::C_YTD_PAYMENT)), 133_45);
    assert_eq!(customer(customer::C_PAYMENT_CNT), Value::Integer(2));
    assert_eq!(cents(&world.value(&tables.district, key.district(1, 3), district::D_YTD)), 30_123_45);
    let mut payments = 0;
    world.scan(&tables.history, |transaction, row| {
        payments += usize::from(transaction.decimal(&tables.history, row, 6) == 123_45);
    });
    assert_eq!(payments, 1);
}

#[test]
fn payment_of_a_bad_payer_is_noted_in_his_data() {
    let (world, tables) = (shared(), &shared().tables);
    let mut bad = None;
    world.scan(&tables.customer, |transaction, row| {
        let here = transaction.smallint(&tables.customer, row, customer::C_D_ID) == 5;
        if here && transaction.text(&tables.customer, row, customer::C_CREDIT).as_ref() == "BC" {
            bad = Some(transaction.integer(&tables.customer, row, customer::C_ID));
        }
    });
    let id = bad.expect("a tenth of the customers has bad credit");
    let input = PaymentInput {
        warehouse: 1,
        district: 5,
        customer_warehouse: 1,
        customer_district: 5,
        customer: CustomerInput::Id(id),
        amount: 9_99,
    };
    let Outcome::Payment(output) = world.run(&Input::Payment(input)) else { panic!("it commits") };
    let expected = format!("{id} 5 1 5 1 9.99 ");
    assert!(output.data.expect("data is shown").starts_with(&expected));
    let data = world.value(&tables.customer, KeyBuffer::default().in_district(1, 5, id), customer::C_DATA);
    assert!(matches!(data, Value::Text(text) if text.starts_with(&expected) && text.len() <= 500));
}

#[test]
fn order_status_shows_the_latest_order() {
    let world = shared();
    let status = |customer| {
        let input = OrderStatusInput { warehouse: 1, district: 4, customer: CustomerInput::Id(customer) };
        match world.run(&Input::OrderStatus(input)) {
            Outcome::OrderStatus(output) => output,
            other => panic!("{other:?}"),
        }
    };
    let first = status(9).order.expect("the population has an order for every customer");
    assert!((1..=3000).contains(&first));
    world.run(&place_order(4, 9, &[701, 702, 703, 704, 705, 706]));
    let output = status(9);
    assert_eq!((output.customer, output.order), (9, Some(3001)));
    let items: Vec<i32> = output.lines.iter().map(|line| line.item).collect();
    assert_eq!(items, [701, 702, 703, 704, 705, 706]);
    let (entry, carrier) = output.entry_and_carrier.expect("there is an order");
    assert_eq!((entry, carrier), (Value::Timestamp(7), Value::Null));
}

#[test]
fn consistency_survives_concurrent_transactions_and_its_violation_is_found() {
    let world = loaded(2);
    let marker = Arc::new(Marker::create(&world.database).expect("the table is new"));
    let oltp = OltpWorld { database: world.database.clone(), tables: world.tables.clone(), marker };
    let options = OltpOptions {
        threads: 4,
        isolation: Isolation::Serializable,
        access: Access::Skewed,
        warehouses: 1,
        seed: 3,
        limit: Some(2_000),
    };
    let mut stream = OltpStream::start(&oltp, &options);
    stream.record();
    stream.join().expect("the transactions work");
    assert_eq!(check(&world.database, &world.tables).expect("checking works"), []);
    let mut expected = 0;
    world.scan(&world.tables.district, |transaction, row| {
        expected += transaction.integer(&world.tables.district, row, district::D_NEXT_O_ID) - 1;
    });
    assert!(expected > 32_000, "{expected} orders after 8,000 transactions, a third of them new orders");
    assert_eq!(world.count(&world.tables.orders), expected as usize);
    for (clause, damage) in DAMAGES {
        violated(&world, clause, *damage);
    }
}

type Damage = fn(&Tables, &mut Transaction) -> ankerdb_engine::Result<()>;

/// For each clause a change that violates it.
const DAMAGES: &[(&str, Damage)] = &[
    ("3.3.2.4", |tables, transaction| {
        let row = row_of(transaction, &tables.order_line, &first_line(1));
        transaction.delete(&tables.order_line, row)
    }),
    ("3.3.2.3", |tables, transaction| {
        let row = row_of(transaction, &tables.new_order, KeyBuffer::default().in_district(1, 2, 2500));
        transaction.delete(&tables.new_order, row)
    }),
    ("3.3.2.2", |tables, transaction| {
        let row = row_of(transaction, &tables.district, KeyBuffer::default().district(1, 3));
        transaction.update(&tables.district, row, vec![(district::D_NEXT_O_ID, Value::Integer(99_999))])
    }),
    ("3.3.2.1", |tables, transaction| {
        let row = row_of(transaction, &tables.district, KeyBuffer::default().district(1, 4));
        let ytd = transaction.value(&tables.district, row, district::D_YTD);
        let Value::Numeric(mut sum) = ytd else { panic!("{ytd:?}") };
        sum.unscaled += 1;
        transaction.update(&tables.district, row, vec![(district::D_YTD, Value::Numeric(sum))])
    }),
];

/// Key of the first line of the district's first order.
fn first_line(district: i16) -> Vec<u8> {
    let mut key = KeyBuffer::default().in_district(1, district, 1).to_vec();
    ankerdb_value::push_smallint(&mut key, 1);
    key
}

fn row_of(transaction: &mut Transaction, table: &Arc<Table>, key: &[u8]) -> RowId {
    transaction.find(table, PRIMARY, key, ColumnSet::ALL).expect("finding works").expect("the row exists")
}

fn violated(world: &World, clause: &str, damage: Damage) {
    let before = check(&world.database, &world.tables).expect("checking works").len();
    world.write(|transaction| damage(&world.tables, transaction));
    let violations = check(&world.database, &world.tables).expect("checking works");
    assert!(
        violations.iter().any(|violation| violation.clause == clause),
        "{clause} is not in {violations:?}"
    );
    assert!(violations.len() > before);
}

#[test]
fn a_load_can_be_stopped() {
    let database = Database::new();
    let told = Mutex::new(0);
    let outcome = load(&database, &LoadOptions::new(1, 1), &|_, _| {
        *told.lock().expect("nobody panics") += 1;
        ControlFlow::Break(())
    });
    let error = outcome.err().expect("it was stopped");
    assert_eq!(error.state(), ankerdb_engine::SqlState::QueryCanceled);
    assert!(*told.lock().expect("nobody panics") >= 1);
}
