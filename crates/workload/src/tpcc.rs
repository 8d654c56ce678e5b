//! TPC-C (specification revision 5.11), as far as the AnKer papers use it.
//!
//! All nine tables and the whole initial population; of the five transactions New-Order, Payment and
//! Order-Status, picked at random in equal shares (AnKer §6.2 names no weights). There are no terminals, no
//! keying and think times and no Delivery: this is the papers' workload, not an auditable tpmC.

pub mod check;
pub mod input;
pub mod key;
pub mod load;
pub mod random;
pub mod schema;
pub mod transactions;
