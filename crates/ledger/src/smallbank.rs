//! Smallbank as the dissertation runs it (section 4.8.1): a savings and a checking account for each user with random balances,
//! and four transactions that are picked evenly, on accounts that are picked evenly or by Zipf's law.

use crate::hash::LedgerHash;
use crate::message::{Proposal, ProposedStatement};
use crate::signature::KeyPair;
use crate::value::LedgerValue;
use std::sync::Arc;

/// The tables. Balances are in cents; a payment that is not covered fails.
pub const DEFINITIONS: [&str; 2] = [
    "CREATE SHARED TABLE savings (customer bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
    "CREATE SHARED TABLE checking (customer bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
];

/// How many rows one transaction of the load inserts.
const ROWS_LOADED: u64 = 500;

/// Picks Smallbank's transactions: their kind evenly, their users by Zipf's law or evenly.
#[derive(Debug, Clone)]
pub struct SmallbankPicks {
    users: u64,
    /// Sums of Zipf's weights, by user; empty where all users are alike.
    weights: Arc<[f64]>,
    random: fastrand::Rng,
}

impl SmallbankPicks {
    /// For so many users, who are picked by Zipf's law with this exponent, or evenly if it is 0.
    pub fn new(users: u64, exponent: f64, seed: u64) -> SmallbankPicks {
        let mut sum = 0.0;
        let weight = |rank: u64| {
            sum += 1.0 / (rank as f64).powf(exponent);
            sum
        };
        let weights = if exponent == 0.0 { Vec::new() } else { (1..=users).map(weight).collect() };
        SmallbankPicks { users, weights: weights.into(), random: fastrand::Rng::with_seed(seed) }
    }

    /// Other picks by this law. They share its table, which is as long as there are users.
    pub fn with_seed(&self, seed: u64) -> SmallbankPicks {
        SmallbankPicks { random: fastrand::Rng::with_seed(seed), ..self.clone() }
    }

    /// A new user's balance.
    pub fn balance(&mut self) -> LedgerValue {
        LedgerValue::Integer(self.random.i64(10_000..100_000))
    }

    fn user(&mut self) -> LedgerValue {
        let user = match self.weights.last() {
            None => self.random.u64(0..self.users),
            Some(sum) => {
                let at = self.random.f64() * sum;
                (self.weights.partition_point(|weight| *weight <= at) as u64).min(self.users - 1)
            }
        };
        LedgerValue::Integer(user as i64)
    }

    /// The statements of the next transaction.
    pub fn transaction(&mut self) -> Vec<(&'static str, [LedgerValue; 2])> {
        let (user, other) = (self.user(), self.user());
        let amount = LedgerValue::Integer(self.random.i64(1..5_000));
        let put = "UPDATE checking SET balance = balance + $1 WHERE customer = $2";
        let take = "UPDATE checking SET balance = balance - $1 WHERE customer = $2";
        let save = "UPDATE savings SET balance = balance + $1 WHERE customer = $2";
        let values = [amount.clone(), user];
        match self.random.u8(0..4) {
            0 => vec![(save, values)],
            1 => vec![(put, values)],
            2 => vec![(take, values), (put, [amount, other])],
            _ => vec![(take, values)],
        }
    }
}

/// Signs Smallbank's transactions.
pub struct SmallbankClient {
    keys: KeyPair,
    network: LedgerHash,
    number: u64,
    picks: SmallbankPicks,
}

impl SmallbankClient {
    /// A client for so many users, who are picked by Zipf's law with this exponent, or evenly if it is 0.
    pub fn new(keys: KeyPair, network: LedgerHash, users: u64, exponent: f64, seed: u64) -> SmallbankClient {
        SmallbankClient::of_picks(keys, network, SmallbankPicks::new(users, exponent, seed))
    }

    /// A client with these picks.
    pub fn of_picks(keys: KeyPair, network: LedgerHash, picks: SmallbankPicks) -> SmallbankClient {
        SmallbankClient { keys, network, number: 0, picks }
    }

    /// The number of its last transaction.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Picks by another law from now on.
    pub fn pick_by(&mut self, picks: SmallbankPicks) {
        self.picks = picks;
    }

    /// A signed proposal of statements.
    pub fn propose(&mut self, statements: &[(&str, &[LedgerValue])]) -> Vec<u8> {
        self.number += 1;
        let statement = |(sql, values): &(&str, &[LedgerValue])| ProposedStatement {
            sql: (*sql).to_owned(),
            values: values.to_vec(),
        };
        let statements = statements.iter().map(statement).collect();
        Proposal { network: self.network, number: self.number, statements }.sign(&self.keys)
    }

    /// The load, as proposals.
    pub fn load(&mut self) -> Vec<Vec<u8>> {
        let mut proposals = Vec::new();
        for table in ["savings", "checking"] {
            for first in (0..self.picks.users).step_by(ROWS_LOADED as usize) {
                let users = first..(first + ROWS_LOADED).min(self.picks.users);
                let rows: Vec<String> = users
                    .clone()
                    .enumerate()
                    .map(|(at, _)| format!("(${}, ${})", at * 2 + 1, at * 2 + 2))
                    .collect();
                let balance = |user| [LedgerValue::Integer(user as i64), self.picks.balance()];
                let values: Vec<LedgerValue> = users.flat_map(balance).collect();
                let sql = format!("INSERT INTO {table} (customer, balance) VALUES {}", rows.join(", "));
                proposals.push(self.propose(&[(&sql, &values)]));
            }
        }
        proposals
    }

    /// The next transaction.
    pub fn transaction(&mut self) -> Vec<u8> {
        let statements = self.picks.transaction();
        let statements: Vec<(&str, &[LedgerValue])> =
            statements.iter().map(|(sql, values)| (*sql, &values[..])).collect();
        self.propose(&statements)
    }

    /// So many of them.
    pub fn batch(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.transaction()).collect()
    }
}
