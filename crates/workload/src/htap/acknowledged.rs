//! What clients know to be committed: later queries must show it.

use crate::tpcc::input::Input;
use crate::tpcc::transactions::Outcome;
use std::sync::atomic::{AtomicI64, Ordering};

/// Transactions that clients know to be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// New-Orders.
    pub orders: i64,
    /// OL_QUANTITY of their lines.
    pub quantity: i64,
    /// Cents of Payments.
    pub paid: i64,
}

impl Acknowledged {
    /// With another client's.
    pub fn and(self, other: Acknowledged) -> Acknowledged {
        Acknowledged {
            orders: self.orders + other.orders,
            quantity: self.quantity + other.quantity,
            paid: self.paid + other.paid,
        }
    }
}

/// What one client knows. Only that client writes it, in cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub struct AcknowledgedCount {
    /// The fields mean what they do in [`Acknowledged`].
    orders: AtomicI64,
    quantity: AtomicI64,
    paid: AtomicI64,
}

impl AcknowledgedCount {
    /// Adds a transaction that its client knows to be committed. A reader of the counts that then begins to read the
    /// data must see it.
    pub fn add(&self, input: &Input, outcome: &Outcome) {
        let add = |count: &AtomicI64, amount: i64| {
            count.store(count.load(Ordering::Relaxed) + amount, Ordering::Release);
        };
        match (input, outcome) {
            (Input::NewOrder(order), Outcome::NewOrder(_)) => {
                add(&self.orders, 1);
                add(&self.quantity, order.lines.iter().map(|line| i64::from(line.quantity)).sum());
            }
            (Input::Payment(payment), Outcome::Payment(_)) => add(&self.paid, payment.amount as i64),
            _ => {}
        }
    }

    /// All so far.
    pub fn so_far(&self) -> Acknowledged {
        Acknowledged {
            orders: self.orders.load(Ordering::Acquire),
            quantity: self.quantity.load(Ordering::Acquire),
            paid: self.paid.load(Ordering::Acquire),
        }
    }
}
