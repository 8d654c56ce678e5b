//! The population, and what each procedure does.

use crate::world::{loaded, shared};
use ankerdb_engine::{Database, Value};
use ankerdb_workload::tpcc::check::check;
use ankerdb_workload::tpcc::input::{
    CustomerInput, DeliveryInput, Input, NewOrderInput, OrderLineInput, OrderLines, OrderStatusInput,
    PaymentInput, StockLevelInput, UNUSED_ITEM,
};
use ankerdb_workload::tpcc::key::KeyBuffer;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use ankerdb_workload::tpcc::schema::{customer, district, item, order_line, orders, stock, warehouse};
use ankerdb_workload::tpcc::transactions::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Mutex;

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

fn order_lines(items: &[i32]) -> OrderLines {
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
fn delivery_takes_the_oldest_order_of_each_district() {
    let (world, mut key) = (loaded(2), KeyBuffer::default());
    let tables = &world.tables;
    let order = key.in_district(1, 6, 2101).to_vec();
    let Value::Integer(customer) = world.value(&tables.orders, &order, orders::O_C_ID) else { panic!() };
    let customer = key.in_district(1, 6, customer).to_vec();
    let balance = || cents(&world.value(&tables.customer, &customer, customer::C_BALANCE));
    let (mut amount, before) = (0, balance());
    world.scan(&tables.order_line, |transaction, row| {
        let table = &tables.order_line;
        let is_line = transaction.smallint(table, row, order_line::OL_D_ID) == 6
            && transaction.integer(table, row, order_line::OL_O_ID) == 2101;
        amount += if is_line { transaction.decimal(table, row, order_line::OL_AMOUNT) } else { 0 };
    });
    let deliver = |carrier| match world.run(&Input::Delivery(DeliveryInput { warehouse: 1, carrier })) {
        Outcome::Delivery(output) => output,
        other => panic!("{other:?}"),
    };
    let output = deliver(7);
    assert_eq!((output.orders, output.skipped()), ([Some(2101); 10], 0));
    assert!(amount > 0);
    assert_eq!(balance(), before + amount);
    assert_eq!(world.value(&tables.customer, &customer, customer::C_DELIVERY_CNT), Value::Integer(1));
    assert_eq!(world.value(&tables.orders, &order, orders::O_CARRIER_ID), Value::SmallInt(7));
    assert_eq!(world.find(&tables.new_order, &order), None);
    let mut first_line = order.clone();
    ankerdb_value::push_smallint(&mut first_line, 1);
    assert_eq!(world.value(&tables.order_line, &first_line, order_line::OL_DELIVERY_D), Value::Timestamp(7));
    for next in 2102..=3000 {
        assert_eq!(deliver(1).orders, [Some(next); 10]);
    }
    let output = deliver(1);
    assert_eq!((output.orders, output.skipped()), ([None; 10], 10));
    assert_eq!(world.count(&tables.new_order), 0);
    assert_eq!(check(&world.database, tables).expect("checking works"), []);
}

#[test]
fn stock_level_counts_different_low_items_of_the_last_twenty_orders() {
    let world = shared();
    for _ in 0..19 {
        world.run(&place_order(7, 1, &[801, 802, 803, 804, 805]));
    }
    world.run(&place_order(7, 2, &[801, 806, 806, 807, 808]));
    let low_stock = |threshold| {
        let input = StockLevelInput { warehouse: 1, district: 7, threshold };
        match world.run(&Input::StockLevel(input)) {
            Outcome::StockLevel(output) => output.low_stock,
            other => panic!("{other:?}"),
        }
    };
    let (mut quantities, mut key) = (Vec::new(), KeyBuffer::default());
    for item in (801..=808).collect::<BTreeSet<i32>>() {
        match world.value(&world.tables.stock, key.stock(1, item), stock::S_QUANTITY) {
            Value::SmallInt(quantity) => quantities.push(quantity),
            other => panic!("{other:?}"),
        }
    }
    for threshold in [0, 10, 20, 50, 101] {
        let expected = quantities.iter().filter(|&&quantity| quantity < threshold).count();
        assert_eq!(low_stock(threshold), expected, "below {threshold} of {quantities:?}");
    }
    // The twenty-first last order is not looked at.
    world.run(&place_order(7, 3, &[801, 802, 803, 804, 805]));
    assert_eq!(low_stock(101), 8);
    (0..19).for_each(|_| drop(world.run(&place_order(7, 3, &[801, 802, 803, 804, 805]))));
    assert_eq!(low_stock(101), 5);
}

#[test]
fn a_load_can_be_stopped() {
    let database = Database::new();
    let told = Mutex::new(0);
    let outcome = load(&database, &LoadOptions::new(1, 1), &|_, _| {
        *told.lock().expect("no thread panics") += 1;
        ControlFlow::Break(())
    });
    let error = outcome.err().expect("it was stopped");
    assert_eq!(error.state(), ankerdb_engine::SqlState::QueryCanceled);
    assert!(*told.lock().expect("no thread panics") >= 1);
}
