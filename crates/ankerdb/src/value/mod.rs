//! Values of Rust and of SQL: there ([`ToValue`]), back ([`FromValue`]), and into a column's own type ([`stored`]).

mod fit;
mod from;
mod to;

#[cfg(feature = "chrono")]
mod chrono;
#[cfg(feature = "rust_decimal")]
mod rust_decimal;
#[cfg(feature = "uuid")]
mod uuid;

#[cfg(feature = "sql")]
pub(crate) use fit::parameter;
pub(crate) use fit::{number_text, stored};
pub use from::FromValue;
#[cfg(any(feature = "chrono", feature = "rust_decimal", feature = "uuid"))]
use from::wrong_type;
pub use to::ToValue;
