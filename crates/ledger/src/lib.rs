//! A verifiable ledger over the databases that organizations already run: chapter 4 of Sharma's dissertation, ChainifyDB.
//!
//! Organizations that do not trust each other, each with a database of its own, execute the same ordered blocks of SQL
//! transactions and vote on the *effects*. Each of them keeps the blocks in a file of its own, which anybody can verify without
//! a database.
//!
//! ```text
//! client ── Proposal ──> ordering ── OrderedBlock ──> organization ── SQL ──> Member: PostgreSQL, MariaDB, AnKerDB
//!                                                       │      ^
//!                                                       v      └── RowChange (digests made by triggers)
//!                              LedgerFile <── LedgerBlock, Vote <──> the other organizations
//! ```
//!
//! docs/design/ledger.md says why it is so. Organizations may be threads of one process, as in the demonstration, or processes
//! of their own ([`node`], docs/design/ledger-network.md); what they hand each other are signed byte strings in both cases.

#![forbid(unsafe_code)]

pub mod access;
pub mod agreement;
pub mod audit;
pub mod block;
pub mod block_index;
pub mod bytes;
pub mod chain;
pub mod change;
pub mod checkpoint;
pub mod command;
pub mod comparison;
pub mod consensus;
pub mod constraint;
pub mod definition;
pub mod demo;
mod demo_explorer;
pub mod donation;
pub mod error;
pub mod file;
pub mod fingerprint;
pub mod genesis;
pub mod hash;
pub mod member;
pub mod merkle;
pub mod message;
pub mod network;
pub mod node;
pub mod organization;
pub mod overwritten;
pub mod policy;
pub mod proof;
pub mod ranges;
pub mod recovery;
pub mod replay;
pub mod schedule;
pub mod server;
pub mod signature;
pub mod signers;
pub mod smallbank;
pub mod statement;
pub mod succession;
mod token;
pub mod value;
pub mod verify;
pub mod waiting_rows;
