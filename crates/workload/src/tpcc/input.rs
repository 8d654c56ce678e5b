//! Inputs of transactions: chosen at random by the specification, with an access pattern.

use super::load::DISTRICTS;
use super::mix::{Deck, Mix};
use super::random::{LastName, Random};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The access pattern of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Each client has a warehouse of its own, client i warehouse 1 + i mod W, and goes elsewhere only where the
    /// specification says so: as a terminal (clause 2.4.1.1), and as in-process evaluations of TPC-C do.
    Home,
    /// All warehouses and districts alike.
    Uniform,
    /// Half of the transactions go to five (warehouse, district) pairs, the others are uniform (AnKer §6.2).
    Skewed,
}

impl Access {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Access::Home => "home",
            Access::Uniform => "uniform",
            Access::Skewed => "skewed",
        }
    }
}

/// The five transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TpccTransaction {
    /// Clause 2.4
    NewOrder,
    /// Clause 2.5
    Payment,
    /// Clause 2.6
    OrderStatus,
    /// Clause 2.7
    Delivery,
    /// Clause 2.8
    StockLevel,
}

impl TpccTransaction {
    /// All, in the order of the specification.
    pub const ALL: [TpccTransaction; 5] = [
        TpccTransaction::NewOrder,
        TpccTransaction::Payment,
        TpccTransaction::OrderStatus,
        TpccTransaction::Delivery,
        TpccTransaction::StockLevel,
    ];
    /// The transactions of the papers' mix.
    pub const PAPER: [TpccTransaction; 3] =
        [TpccTransaction::NewOrder, TpccTransaction::Payment, TpccTransaction::OrderStatus];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            TpccTransaction::NewOrder => "new_order",
            TpccTransaction::Payment => "payment",
            TpccTransaction::OrderStatus => "order_status",
            TpccTransaction::Delivery => "delivery",
            TpccTransaction::StockLevel => "stock_level",
        }
    }
}

/// One line of a new order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderLineInput {
    /// OL_I_ID; [`UNUSED_ITEM`] in an order that must be rolled back.
    pub item: i32,
    /// OL_SUPPLY_W_ID
    pub supply_warehouse: i32,
    /// OL_QUANTITY
    pub quantity: i16,
}

/// An item number that no item has (clause 2.4.1.5).
pub const UNUSED_ITEM: i32 = 100_001;

/// The most lines of an order.
const LINES_MAX: usize = 15;

/// Five to fifteen lines, without memory of their own.
#[derive(Clone)]
pub struct OrderLines {
    count: usize,
    lines: [OrderLineInput; LINES_MAX],
}

impl FromIterator<OrderLineInput> for OrderLines {
    /// Lines beyond the fifteenth are left out.
    fn from_iter<I: IntoIterator<Item = OrderLineInput>>(lines: I) -> OrderLines {
        let unused = OrderLineInput { item: UNUSED_ITEM, supply_warehouse: 0, quantity: 0 };
        let mut order = OrderLines { count: 0, lines: [unused; LINES_MAX] };
        for (place, line) in order.lines.iter_mut().zip(lines) {
            *place = line;
            order.count += 1;
        }
        order
    }
}

impl Deref for OrderLines {
    type Target = [OrderLineInput];
    fn deref(&self) -> &[OrderLineInput] {
        &self.lines[..self.count]
    }
}

impl DerefMut for OrderLines {
    fn deref_mut(&mut self) -> &mut [OrderLineInput] {
        &mut self.lines[..self.count]
    }
}

impl PartialEq for OrderLines {
    fn eq(&self, other: &OrderLines) -> bool {
        self[..] == other[..]
    }
}

impl Eq for OrderLines {}

impl fmt::Debug for OrderLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// Input of New-Order (clause 2.4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrderInput {
    /// W_ID
    pub warehouse: i32,
    /// D_ID
    pub district: i16,
    /// C_ID
    pub customer: i32,
    /// Five to fifteen lines.
    pub lines: OrderLines,
}

/// How a customer is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CustomerInput {
    /// By C_ID.
    Id(i32),
    /// By C_LAST: the middle one of those with this name, by first name (clause 2.5.2.2).
    LastName(LastName),
}

/// Input of Payment (clause 2.5.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PaymentInput {
    /// W_ID
    pub warehouse: i32,
    /// D_ID
    pub district: i16,
    /// C_W_ID
    pub customer_warehouse: i32,
    /// C_D_ID
    pub customer_district: i16,
    /// The customer.
    pub customer: CustomerInput,
    /// H_AMOUNT in cents.
    pub amount: i128,
}

/// Input of Order-Status (clause 2.6.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderStatusInput {
    /// W_ID
    pub warehouse: i32,
    /// D_ID
    pub district: i16,
    /// The customer.
    pub customer: CustomerInput,
}

/// Input of Delivery (clause 2.7.1); the date is the caller's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryInput {
    /// W_ID
    pub warehouse: i32,
    /// O_CARRIER_ID
    pub carrier: i16,
}

/// Input of Stock-Level (clause 2.8.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StockLevelInput {
    /// W_ID
    pub warehouse: i32,
    /// D_ID
    pub district: i16,
    /// Stock below this is low.
    pub threshold: i16,
}

/// A transaction to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Clause 2.4
    NewOrder(NewOrderInput),
    /// Clause 2.5
    Payment(PaymentInput),
    /// Clause 2.6
    OrderStatus(OrderStatusInput),
    /// Clause 2.7
    Delivery(DeliveryInput),
    /// Clause 2.8
    StockLevel(StockLevelInput),
}

impl Input {
    /// Which transaction it is for.
    pub fn kind(&self) -> TpccTransaction {
        match self {
            Input::NewOrder(_) => TpccTransaction::NewOrder,
            Input::Payment(_) => TpccTransaction::Payment,
            Input::OrderStatus(_) => TpccTransaction::OrderStatus,
            Input::Delivery(_) => TpccTransaction::Delivery,
            Input::StockLevel(_) => TpccTransaction::StockLevel,
        }
    }
}

/// An endless stream of inputs; one per client thread.
pub struct Inputs {
    random: Random,
    client: u64,
    warehouses: i32,
    access: Access,
    deck: Deck,
    stock_levels: u64,
}

/// Streams of random values below this number belong to the loader.
const FIRST_CLIENT_STREAM: u64 = 1 << 32;

impl Inputs {
    /// Inputs of one client, the papers' mix: they depend on (seed, client) alone.
    pub fn new(seed: u64, client: u64, warehouses: i32, access: Access) -> Inputs {
        Inputs::of_mix(seed, client, warehouses, access, Mix::Paper)
    }

    /// Inputs of one client like [`new`](Self::new), for any mix.
    pub fn of_mix(seed: u64, client: u64, warehouses: i32, access: Access, mix: Mix) -> Inputs {
        let random = Random::new(seed, FIRST_CLIENT_STREAM + client);
        Inputs { random, client, warehouses, access, deck: Deck::new(mix), stock_levels: 0 }
    }

    /// The next transaction.
    pub fn next_input(&mut self) -> Input {
        match self.deck.draw(&mut self.random) {
            TpccTransaction::NewOrder => Input::NewOrder(self.new_order()),
            TpccTransaction::Payment => Input::Payment(self.payment()),
            TpccTransaction::OrderStatus => Input::OrderStatus(self.order_status()),
            TpccTransaction::Delivery => Input::Delivery(self.delivery()),
            TpccTransaction::StockLevel => Input::StockLevel(self.stock_level()),
        }
    }

    /// The client's own warehouse.
    fn home(&self) -> i32 {
        1 + (self.client % self.warehouses as u64) as i32
    }

    fn place(&mut self) -> (i32, i16) {
        let warehouse = match self.access {
            Access::Home => self.home(),
            Access::Skewed if self.random.percent(50) => {
                return hot_places(self.warehouses)[self.random.uniform(0, 4) as usize];
            }
            Access::Skewed | Access::Uniform => self.random.uniform(1, self.warehouses),
        };
        (warehouse, self.random.small(1, DISTRICTS))
    }

    /// Any warehouse but this one; this one if there is no other.
    fn other_warehouse(&mut self, home: i32) -> i32 {
        if self.warehouses == 1 {
            return home;
        }
        let other = self.random.uniform(1, self.warehouses - 1);
        if other >= home { other + 1 } else { other }
    }

    /// By last name in 60% of the cases (clauses 2.5.1.2 and 2.6.1.2).
    fn customer(&mut self) -> CustomerInput {
        if self.random.percent(60) {
            CustomerInput::LastName(self.random.last_name())
        } else {
            CustomerInput::Id(self.random.customer())
        }
    }

    /// Clause 2.4.1: 5 to 15 lines, 1% of the orders end with an unused item, 1% of the lines are supplied by
    /// another warehouse.
    pub fn new_order(&mut self) -> NewOrderInput {
        let (warehouse, district) = self.place();
        let customer = self.random.customer();
        let count = self.random.uniform(5, 15);
        let mut lines: OrderLines = (0..count).map(|_| self.order_line(warehouse)).collect();
        if self.random.percent(1) {
            lines[count as usize - 1].item = UNUSED_ITEM;
        }
        NewOrderInput { warehouse, district, customer, lines }
    }

    fn order_line(&mut self, home: i32) -> OrderLineInput {
        OrderLineInput {
            item: self.random.item(),
            supply_warehouse: if self.random.percent(1) { self.other_warehouse(home) } else { home },
            quantity: self.random.small(1, 10),
        }
    }

    /// Clause 2.5.1: in 15% of the cases the customer belongs to another warehouse; 1.00 to 5,000.00.
    pub fn payment(&mut self) -> PaymentInput {
        let (warehouse, district) = self.place();
        let (customer_warehouse, customer_district) = if self.random.percent(85) {
            (warehouse, district)
        } else {
            (self.other_warehouse(warehouse), self.random.small(1, DISTRICTS))
        };
        let customer = self.customer();
        let amount = self.random.uniform(100, 500_000).into();
        PaymentInput { warehouse, district, customer_warehouse, customer_district, customer, amount }
    }

    /// Clause 2.6.1
    pub fn order_status(&mut self) -> OrderStatusInput {
        let (warehouse, district) = self.place();
        OrderStatusInput { warehouse, district, customer: self.customer() }
    }

    /// Clause 2.7.1
    pub fn delivery(&mut self) -> DeliveryInput {
        let (warehouse, _) = self.place();
        DeliveryInput { warehouse, carrier: self.random.small(1, 10) }
    }

    /// Clause 2.8.1: a terminal always queries its own district. With a home warehouse the client stands for ten
    /// terminals and queries one district after the other; else any.
    pub fn stock_level(&mut self) -> StockLevelInput {
        let (warehouse, mut district) = self.place();
        if self.access == Access::Home {
            district = 1 + (self.stock_levels % DISTRICTS as u64) as i16;
            self.stock_levels += 1;
        }
        StockLevelInput { warehouse, district, threshold: self.random.small(10, 20) }
    }
}

/// The five pairs that skewed access prefers: spread over the warehouses, all different.
pub fn hot_places(warehouses: i32) -> [(i32, i16); 5] {
    std::array::from_fn(|k| (1 + k as i32 * warehouses / 5, 1 + 2 * k as i16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_specification() {
        let mut inputs = Inputs::new(3, 0, 10, Access::Uniform);
        let (mut rolled_back, mut remote_lines, mut lines, mut by_name, mut remote) = (0, 0, 0, 0, 0);
        for _ in 0..20_000 {
            let order = inputs.new_order();
            rolled_back += u32::from(order.lines.last().is_some_and(|line| line.item == UNUSED_ITEM));
            lines += order.lines.len();
            remote_lines +=
                order.lines.iter().filter(|line| line.supply_warehouse != order.warehouse).count();
            let payment = inputs.payment();
            by_name += u32::from(matches!(payment.customer, CustomerInput::LastName(_)));
            remote += u32::from(payment.customer_warehouse != payment.warehouse);
        }
        assert!((140..260).contains(&rolled_back), "{rolled_back}");
        assert!((195_000..205_000).contains(&lines), "{lines}");
        assert!((1_700..2_300).contains(&remote_lines), "{remote_lines}");
        assert!((11_700..12_300).contains(&by_name), "{by_name}");
        assert!((2_800..3_200).contains(&remote), "{remote}");
    }

    #[test]
    fn half_of_skewed_accesses_go_to_five_places() {
        for (access, expected) in [(Access::Skewed, 5_000..5_600), (Access::Uniform, 50..250)] {
            let mut inputs = Inputs::new(3, 1, 40, access);
            let hot = hot_places(40);
            let hits = (0..10_000).filter(|_| hot.contains(&inputs.place())).count();
            assert!(expected.contains(&hits), "{access:?}: {hits}");
        }
    }

    #[test]
    fn hot_places_exist_and_differ_at_any_size() {
        for warehouses in 1..50 {
            let hot = hot_places(warehouses);
            for (number, place) in hot.iter().enumerate() {
                assert!((1..=warehouses).contains(&place.0) && (1..=10).contains(&place.1));
                assert!(!hot[..number].contains(place));
            }
        }
    }

    #[test]
    fn clients_stay_at_home_but_for_what_the_specification_sends_away() {
        for client in 0..8 {
            let mut inputs = Inputs::of_mix(3, client, 4, Access::Home, Mix::Full);
            let home = 1 + client as i32 % 4;
            let mut remote_payments = 0;
            for _ in 0..1000 {
                let payment = inputs.payment();
                assert_eq!((payment.warehouse, inputs.new_order().warehouse), (home, home));
                assert_eq!((inputs.delivery().warehouse, inputs.stock_level().warehouse), (home, home));
                remote_payments += u32::from(payment.customer_warehouse != home);
            }
            assert!((100..200).contains(&remote_payments), "{remote_payments}");
        }
    }

    #[test]
    fn deliveries_and_stock_levels_are_in_the_ranges_of_the_specification() {
        let mut inputs = Inputs::of_mix(9, 0, 3, Access::Uniform, Mix::Full);
        let (mut carriers, mut thresholds) = ([0; 11], [0; 21]);
        for _ in 0..10_000 {
            carriers[inputs.delivery().carrier as usize] += 1;
            thresholds[inputs.stock_level().threshold as usize] += 1;
        }
        assert!(carriers[0] == 0 && carriers[1..].iter().all(|&count| (850..1150).contains(&count)));
        assert!(thresholds[..10].iter().all(|&count| count == 0));
        assert!(thresholds[10..].iter().all(|&count| (750..1070).contains(&count)), "{thresholds:?}");
    }

    #[test]
    fn one_warehouse_supplies_everything_itself() {
        let mut inputs = Inputs::new(5, 0, 1, Access::Skewed);
        assert!((0..1000).all(|_| inputs.payment().customer_warehouse == 1));
    }
}
