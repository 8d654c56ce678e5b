//! What measurements have in common, whatever is measured.
//!
//! - [`arguments`]: what a benchmark was asked for.
//! - [`machine`]: what a result was measured on.
//! - [`cpu`]: how much of the CPU was used by others during a measurement, and when that makes the measurement too
//!   noisy.
//! - [`latency`] and [`histogram`]: how long things took. The first is fine and large, the second is small enough to be
//!   filled beside transactions of a few microseconds.
//! - [`rounds`]: variants in alternating order, with inputs that no two of them share, each for a while.
//!
//! Nothing here knows a database.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod cpu;
pub mod histogram;
pub mod latency;
pub mod machine;
pub mod rounds;
