//! The options of EXPLAIN, as PostgreSQL reads them.

use crate::name::not_supported;
use ankerdb_engine::{DataType, Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, UtilityOption, Value};

/// The form of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum ExplainFormat {
    #[default]
    Text,
    Json,
    Yaml,
}

/// What is to be shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExplainOptions {
    /// Whether the statement is run.
    pub analyze: bool,
    pub verbose: bool,
    pub settings: bool,
    pub timing: bool,
    pub summary: bool,
    pub(super) format: ExplainFormat,
}

/// What was said of the options that depend on others.
#[derive(Default)]
struct Said {
    timing: Option<bool>,
    summary: Option<bool>,
}

impl ExplainOptions {
    /// Reads the options; `analyze` and `verbose` are those that stand without parentheses.
    ///
    /// # Errors
    /// 42601 for an option that is none of PostgreSQL's, 22023 for one that needs another one, 0A000 for one that asks for what is
    /// not counted here.
    pub(crate) fn read(analyze: bool, verbose: bool, written: &[UtilityOption]) -> Result<ExplainOptions> {
        let mut options = ExplainOptions { analyze, verbose, ..ExplainOptions::default() };
        let mut said = Said::default();
        for option in written {
            options.take(option, &mut said)?;
        }
        if said.timing == Some(true) && !options.analyze {
            return Err(invalid("EXPLAIN option TIMING requires ANALYZE"));
        }
        options.timing = said.timing.unwrap_or(options.analyze);
        options.summary = said.summary.unwrap_or(options.analyze);
        Ok(options)
    }

    fn take(&mut self, option: &UtilityOption, said: &mut Said) -> Result<()> {
        let name = option.name.value.to_lowercase();
        let flag = || flag(&name, option.arg.as_ref());
        match name.as_str() {
            "analyze" => self.analyze = flag()?,
            "verbose" => self.verbose = flag()?,
            "settings" => self.settings = flag()?,
            "timing" => said.timing = Some(flag()?),
            "summary" => said.summary = Some(flag()?),
            // There are none to be shown, which is what OFF asks for.
            "costs" => drop(flag()?),
            // Rows lie in memory: no page of a buffer is read, and PostgreSQL's text leaves counts of 0 out.
            "buffers" => drop(flag()?),
            "wal" if flag()? => return Err(not_supported("EXPLAIN (WAL)")),
            "wal" => {}
            "format" => self.format = format(option.arg.as_ref())?,
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(Error::new(SqlState::SyntaxError, message));
            }
        }
        Ok(())
    }

    /// The type of the result's column.
    pub(crate) fn result_type(&self) -> DataType {
        match self.format {
            ExplainFormat::Text | ExplainFormat::Yaml => DataType::Text,
            ExplainFormat::Json => DataType::Json,
        }
    }
}

/// The word or constant that stands behind an option.
fn word(argument: &Expr) -> String {
    match argument {
        Expr::Identifier(ident) => ident.value.to_lowercase(),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.to_lowercase(),
            other => other.to_string().to_lowercase(),
        },
        other => other.to_string().to_lowercase(),
    }
}

fn flag(name: &str, argument: Option<&Expr>) -> Result<bool> {
    match argument.map(word).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(Error::new(SqlState::SyntaxError, format!("{name} requires a Boolean value"))),
    }
}

fn format(argument: Option<&Expr>) -> Result<ExplainFormat> {
    let Some(written) = argument.map(word) else {
        return Err(Error::new(SqlState::SyntaxError, "format requires a parameter"));
    };
    match written.as_str() {
        "text" => Ok(ExplainFormat::Text),
        "json" => Ok(ExplainFormat::Json),
        "yaml" => Ok(ExplainFormat::Yaml),
        "xml" => Err(not_supported("EXPLAIN (FORMAT XML)")),
        _ => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{written}\"");
            Err(invalid(message))
        }
    }
}

fn invalid(message: impl Into<Cow>) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

type Cow = std::borrow::Cow<'static, str>;
