//! The server as clients meet it: over real sockets, with a client of our own and with psql.

mod activity;
mod arrays;
mod cancel;
mod client;
mod copy;
mod copy_errors;
mod copy_files;
mod copy_many;
mod described_columns;
mod enums;
mod explain;
mod extended;
mod fork;
mod hangup;
mod idle;
mod interrupt;
mod limits;
mod malformed;
mod notify;
mod numerics;
mod psql;
mod script;
mod serializable;
mod server;
mod session;
mod startup;
