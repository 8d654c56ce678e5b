//! `--engine`: the configuration of the database that a command runs.

use ankerdb_engine::Configuration;
use clap::Args;

/// The option, for commands that run one database.
#[derive(Args, Clone, Copy)]
pub(crate) struct EngineOption {
    /// How transactions and queries are processed: ankerdb, see-fs, see-si, see-ru, hee-physical, hee-rewiring,
    /// hee-rewiring-userfaultfd, hee-anker, hee-fork
    #[arg(long, value_name = "ENGINE", default_value = "ankerdb", value_parser = parse)]
    pub engine: Configuration,
}

/// Reads a name for clap.
pub(crate) fn parse(name: &str) -> Result<Configuration, String> {
    Configuration::parse(name).map_err(|error| error.to_string())
}
