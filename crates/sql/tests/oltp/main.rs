//! The OLTP path over a real database: what statements give, how transactions see each other, which path a query
//! takes.

mod client;
mod configurations;
mod definitions;
mod domains;
mod expression_indexes;
mod images;
mod joined;
mod lookups;
mod prepared;
mod reads;
mod repeated;
mod schemas;
mod staleness;
mod temporary;
mod time_travel;
mod transactions;
mod user_types;
mod with;
mod writes;
