//! The setting `ankerdb.query_compiler`: how pipelines of analytical queries run.

use ankerdb_engine::{Error, Result, SqlState};

/// The setting's name.
pub(crate) const QUERY_COMPILER: &str = "ankerdb.query_compiler";

/// How pipelines run: the setting `ankerdb.query_compiler`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum CompilerMode {
    /// By DataFusion.
    #[default]
    Off,
    /// As machine code.
    On,
    /// As machine code is made, but interpreted: for tests.
    Interpreted,
}

impl CompilerMode {
    /// The mode that the setting's value stands for.
    ///
    /// # Errors
    /// 22023 for none.
    pub(crate) fn named(value: &str) -> Result<CompilerMode> {
        match value.trim().to_lowercase().as_str() {
            "on" | "true" | "1" | "yes" => Ok(CompilerMode::On),
            "off" | "false" | "0" | "no" => Ok(CompilerMode::Off),
            "interpreted" => Ok(CompilerMode::Interpreted),
            _ => {
                let message = format!("invalid value for parameter \"{QUERY_COMPILER}\": \"{value}\"");
                Err(Error::new(SqlState::InvalidParameterValue, message)
                    .with_detail("Available values: on, off, interpreted."))
            }
        }
    }

    /// The setting's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CompilerMode::Off => "off",
            CompilerMode::On => "on",
            CompilerMode::Interpreted => "interpreted",
        }
    }
}
