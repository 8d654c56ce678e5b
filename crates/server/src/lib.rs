//! The PostgreSQL server: clients speak protocol 3.0 over TCP or a Unix socket, each connection has one
//! [`SqlSession`](ankerdb_sql::SqlSession).
//!
//! The life of a connection:
//! 1. `server` accepts the socket (that within the machine lies in a `socket_file`) and `workers` give it a thread, which `connections` can end. Between two transactions of a
//!    client that is silent it has none (`idle`). A lone client's next message is not slept for (`polling`). Before the database
//!    is open, and when the server ends, `turnstile` turns it away.
//! 2. `startup` begins with encryption (`encryption`, with a `certificate` and its key in `tls`) or declines it, serves a cancel request, or
//!    starts a session: any user, one database. If the server has a password, `authentication` asks for it first (`scram`).
//! 3. `connection` reads one message after the other (`frontend` takes them from the wire), hands simple
//!    queries to `simple`, the extended protocol to `extended` and COPY data to `transfer`, and after an error
//!    skips what the client sent before it knew.
//! 4. `rows` sends results, text or binary, in pieces: no result is held in memory as a whole.
//! 5. The end: Terminate, a closed socket, a broken protocol or the server's shutdown. The session is dropped,
//!    and with it everything uncommitted.
//!
//! Invariants:
//! - A message is acted upon only once all of it has arrived and its inner lengths add up; memory is taken for
//!   bytes that have arrived, never for announced ones.
//! - Nothing a client sends can end or block anything but its own connection.
//! - A client that hangs up is noticed while its statement runs (`hangup`), not after.
//!
//! pgwire provides the messages that the server sends. What clients send is decoded here, because pgwire's
//! decoder replaces invalid UTF-8 silently and panics on truncated bodies; so is the state machine, because
//! implicit transactions and error recovery need to see the stream of messages.
//!
//! Not here: several users, certificates of clients, replication.
#![forbid(unsafe_code)]

mod authentication;
mod beside;
mod binary;
mod binary_copy;
mod cancel;
mod certificate;
mod connection;
mod connections;
mod encryption;
mod extended;
mod frontend;
mod guard;
mod hangup;
mod idle;
mod polling;
mod portal;
mod process;
mod rows;
mod scram;
mod server;
mod simple;
mod socket_file;
mod startup;
mod tls;
mod transfer;
mod turnstile;
mod types;
mod wire;
mod workers;

pub use authentication::Password;
pub use process::{DatabaseOwner, serve_blocking};
pub use server::{Server, ServerOptions, Stopper};
pub use tls::{CertificateChain, Credentials, PrivateKey, Tls};
