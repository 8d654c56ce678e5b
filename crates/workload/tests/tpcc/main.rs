//! TPC-C against a real database: the population, what each procedure does, and that consistency survives
//! concurrency.

mod conditions;
mod transactions;
mod world;
