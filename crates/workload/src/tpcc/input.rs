//! What a transaction is called with: inputs chosen at random by the specification, and where the accesses go.

use super::load::DISTRICTS;
use super::random::Random;

/// Where transactions go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// All warehouses and districts alike.
    Uniform,
    /// Half of the transactions go to five (warehouse, district) pairs, the others are uniform (AnKer §6.2).
    Skewed,
}

impl Access {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Access::Uniform => "uniform",
            Access::Skewed => "skewed",
        }
    }
}

/// The three transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Clause 2.4
    NewOrder,
    /// Clause 2.5
    Payment,
    /// Clause 2.6
    OrderStatus,
}

impl Kind {
    /// All, in the order of the specification.
    pub const ALL: [Kind; 3] = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
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
    pub lines: Vec<OrderLineInput>,
}

/// How a customer is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CustomerInput {
    /// By C_ID.
    Id(i32),
    /// By C_LAST: the middle one of those with this name, by first name (clause 2.5.2.2).
    LastName(String),
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

/// A transaction to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Clause 2.4
    NewOrder(NewOrderInput),
    /// Clause 2.5
    Payment(PaymentInput),
    /// Clause 2.6
    OrderStatus(OrderStatusInput),
}

/// An endless stream of inputs; one per client thread.
pub struct Inputs {
    random: Random,
    warehouses: i32,
    access: Access,
}

/// Streams of random values below this number belong to the loader.
const FIRST_CLIENT_STREAM: u64 = 1 << 32;

impl Inputs {
    /// Inputs of one client: they depend on (seed, client) alone.
    pub fn new(seed: u64, client: u64, warehouses: i32, access: Access) -> Inputs {
        Inputs { random: Random::new(seed, FIRST_CLIENT_STREAM + client), warehouses, access }
    }

    /// The next transaction: each kind alike.
    pub fn next_input(&mut self) -> Input {
        match self.random.uniform(0, 2) {
            0 => Input::NewOrder(self.new_order()),
            1 => Input::Payment(self.payment()),
            _ => Input::OrderStatus(self.order_status()),
        }
    }

    fn place(&mut self) -> (i32, i16) {
        match self.access {
            Access::Skewed if self.random.percent(50) => {
                hot_places(self.warehouses)[self.random.uniform(0, 4) as usize]
            }
            _ => (self.random.uniform(1, self.warehouses), self.random.small(1, DISTRICTS)),
        }
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
        let mut lines: Vec<OrderLineInput> = (0..count).map(|_| self.order_line(warehouse)).collect();
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
    fn one_warehouse_supplies_everything_itself() {
        let mut inputs = Inputs::new(5, 0, 1, Access::Skewed);
        assert!((0..1000).all(|_| inputs.payment().customer_warehouse == 1));
    }
}
