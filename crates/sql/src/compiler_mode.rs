//! The setting `ankerdb.query_compiler`: how pipelines of analytical queries run.

use ankerdb_engine::{Error, Result, SqlState};

/// The setting's name.
pub(crate) const QUERY_COMPILER: &str = "ankerdb.query_compiler";

/// Tables of fewer rows are not worth the millisecond that it takes to make code.
const ROWS_WORTH: usize = 1 << 16;

/// How pipelines run: the setting `ankerdb.query_compiler`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum CompilerMode {
    /// By DataFusion.
    Off,
    /// As machine code, over tables where that is worth while.
    #[default]
    On,
    /// As machine code, for however few rows: for tests.
    Always,
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
            "always" => Ok(CompilerMode::Always),
            "interpreted" => Ok(CompilerMode::Interpreted),
            _ => {
                let message = format!("invalid value for parameter \"{QUERY_COMPILER}\": \"{value}\"");
                Err(Error::new(SqlState::InvalidParameterValue, message)
                    .with_detail("Available values: on, off, always, interpreted."))
            }
        }
    }

    /// The fewest rows of a table that pipelines are made over.
    pub(crate) fn rows_min(self) -> usize {
        match self {
            CompilerMode::Off => usize::MAX,
            CompilerMode::On => ROWS_WORTH,
            CompilerMode::Always | CompilerMode::Interpreted => 0,
        }
    }

    /// The setting's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CompilerMode::Off => "off",
            CompilerMode::On => "on",
            CompilerMode::Always => "always",
            CompilerMode::Interpreted => "interpreted",
        }
    }
}
