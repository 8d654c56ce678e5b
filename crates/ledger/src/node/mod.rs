//! The network as processes: an organization's node, the ordering server, and the commands of clients and people. They speak
//! gRPC over mutual TLS; docs/design/ledger-network.md says which process does what, and what happens when a message is lost or
//! a process stops.
//!
//! ```text
//! client ── Submit ──> node of an organization ── Chain ──> ordering server
//!                        │  ^ Agree, Votes,                    │ Order (asked for by height)
//!                        v  │ Blocks, Compare                  v
//!                      the other nodes <───────────────────────┘
//! ```

mod agree;
mod board;
pub mod call;
mod complaints;
pub mod config;
pub mod directory;
mod donor;
mod engine;
mod entry;
mod exchange;
pub(crate) mod explorer;
mod group;
pub mod init;
mod log;
pub mod order_log;
pub mod ordering;
mod ordering_watch;
pub mod people;
pub mod serve;
pub mod wire;
