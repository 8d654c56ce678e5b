//! The version of PostgreSQL that the server reports: tools read it from the server's settings and from `version()`.

macro_rules! version {
    () => {
        concat!("15.0 (AnKerDB ", env!("CARGO_PKG_VERSION"), ")")
    };
}

/// The setting `server_version`.
pub const SERVER_VERSION: &str = version!();
/// The result of `version()`, on both paths.
pub(crate) const VERSION: &str = concat!("PostgreSQL ", version!());
