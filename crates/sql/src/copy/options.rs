//! The options of a COPY, in both of PostgreSQL's syntaxes.

use super::extra;
use super::parquet::{Codec, MatchBy, ParquetOptions};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};
use std::collections::HashSet;

/// Stands for a text that is not one byte; no client can write it.
pub(super) const NO_BYTE: char = '\0';

/// How lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyFormat {
    Text,
    Csv,
    /// Values in the protocol's binary form, which this crate does not know: its caller writes and reads them.
    Binary,
    /// A file of columns.
    Parquet,
}

impl CopyFormat {
    /// What errors call the format, if it has no lines.
    fn mode_without_lines(self) -> Option<&'static str> {
        match self {
            CopyFormat::Text | CopyFormat::Csv => None,
            CopyFormat::Binary => Some("BINARY"),
            CopyFormat::Parquet => Some("PARQUET"),
        }
    }
}

/// What the first line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderLine {
    /// A row like all others.
    None,
    /// The names of columns, which are not looked at.
    Names,
    /// The names of columns, which must be those of the table.
    Match,
}

/// What a file is compressed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// What the end of a file's name says.
    pub(super) fn of(name: &str) -> Compression {
        match name.rsplit_once('.') {
            Some((_, "gz")) => Compression::Gzip,
            Some((_, "zst")) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// What becomes of a row with a value that is none of its column's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnError {
    /// The COPY fails.
    Stop,
    /// The row is left out.
    Ignore {
        /// The COPY fails if there are more of them.
        limit: Option<usize>,
        /// What the client is told.
        verbosity: Verbosity,
    },
}

/// What the client is told of rows that were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verbosity {
    Silent,
    /// How many there are.
    Default,
    /// Each of them, and how many there are.
    Verbose,
}

/// All options of the data's format.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: HeaderLine,
    pub on_error: OnError,
    /// If it was said.
    pub compression: Option<Compression>,
    /// Parquet only.
    pub parquet: ParquetOptions,
    /// CSV only.
    pub quote: u8,
    /// CSV only: stands before a quote (or itself) inside of quotes.
    pub escape: u8,
    /// Columns to quote in CSV output.
    pub force_quote: Vec<Ident>,
    /// Whether all of them are.
    pub force_quote_all: bool,
    /// Columns whose unquoted null string is not NULL.
    pub force_not_null: Vec<Ident>,
    /// Columns whose quoted null string is NULL.
    pub force_null: Vec<Ident>,
    /// COPY FROM only: the text of the condition for rows that are stored.
    pub condition: Option<String>,
}

/// The options as they are written, before defaults.
#[derive(Default)]
struct Written {
    format: Option<CopyFormat>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<HeaderLine>,
    on_error: Option<bool>,
    reject_limit: Option<usize>,
    verbosity: Option<Verbosity>,
    compression: Option<String>,
    group_rows: Option<usize>,
    match_by: Option<MatchBy>,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<Ident>,
    force_quote_all: bool,
    force_not_null: Vec<Ident>,
    force_null: Vec<Ident>,
    condition: Option<String>,
    seen: HashSet<&'static str>,
}

impl CopyOptions {
    /// Text or CSV with all defaults.
    pub(super) fn new(format: CopyFormat) -> CopyOptions {
        let (delimiter, null) = match format {
            CopyFormat::Text | CopyFormat::Binary | CopyFormat::Parquet => (b'\t', "\\N"),
            CopyFormat::Csv => (b',', ""),
        };
        CopyOptions {
            format,
            delimiter,
            null: null.to_owned(),
            header: HeaderLine::None,
            on_error: OnError::Stop,
            compression: None,
            parquet: ParquetOptions::default(),
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_quote_all: false,
            force_not_null: Vec::new(),
            force_null: Vec::new(),
            condition: None,
        }
    }

    /// Reads `WITH (...)` and the older `WITH CSV HEADER ...`.
    pub(super) fn read(options: &[CopyOption], legacy: &[CopyLegacyOption], to: bool) -> Result<CopyOptions> {
        let mut written = Written::default();
        options.iter().try_for_each(|option| written.option(option))?;
        legacy.iter().try_for_each(|option| written.legacy(option))?;
        let seen = written.seen.clone();
        let options = written.complete()?;
        options.check(to)?;
        let wrong_way = match to {
            true => [("MATCH_BY", seen.contains("match_by")), ("", false)],
            false => {
                let is_packed = options.format == CopyFormat::Parquet && seen.contains("compression");
                [("ROW_GROUP_SIZE", seen.contains("row_group_size")), ("COMPRESSION", is_packed)]
            }
        };
        match wrong_way.into_iter().find(|(_, given)| *given) {
            None => Ok(options),
            Some((name, _)) if to => invalid(format!("COPY {name} cannot be used with COPY TO")),
            Some((name, _)) => invalid(format!("COPY {name} cannot be used with COPY FROM in PARQUET mode")),
        }
    }

    fn check(&self, to: bool) -> Result<()> {
        let csv = self.format == CopyFormat::Csv;
        if self.condition.is_some() && to {
            return Err(Error::new(SqlState::SyntaxError, "WHERE clause not allowed with COPY TO"));
        }
        if matches!(self.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if !csv && (matches!(self.delimiter, b'\\' | b'.') || is_word(self.delimiter)) {
            return invalid(format!("COPY delimiter cannot be \"{}\"", self.delimiter as char));
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return not_available("COPY delimiter must not appear in the NULL specification");
        }
        if csv && self.delimiter == self.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if csv && self.null.as_bytes().contains(&self.quote) {
            return not_available("CSV quote character must not appear in the NULL specification");
        }
        if self.header == HeaderLine::Match && to {
            let message = "cannot use \"match\" with HEADER in COPY TO";
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        if self.on_error != OnError::Stop && to {
            return invalid("COPY ON_ERROR cannot be used with COPY TO");
        }
        if (self.force_quote_all || !self.force_quote.is_empty()) && !to {
            return not_available("COPY FORCE_QUOTE cannot be used with COPY FROM");
        }
        if !(self.force_not_null.is_empty() && self.force_null.is_empty()) && to {
            return not_available("COPY FORCE_NOT_NULL and FORCE_NULL cannot be used with COPY TO");
        }
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn invalid<T>(message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Error::new(SqlState::InvalidParameterValue, message))
}

/// 0A000, as PostgreSQL has it for options that do not go with others.
fn not_available<T>(message: impl Into<std::borrow::Cow<'static, str>>) -> Result<T> {
    Err(Error::new(SqlState::FeatureNotSupported, message))
}

fn unsupported<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(SqlState::FeatureNotSupported, format!("COPY option {what} is not supported")))
}

impl Written {
    /// No option may be given twice.
    fn once(&mut self, name: &'static str) -> Result<()> {
        match self.seen.insert(name) {
            true => Ok(()),
            false => Err(Error::new(SqlState::SyntaxError, "conflicting or redundant options")),
        }
    }

    fn option(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => self.set_format(&name.value),
            CopyOption::Delimiter(delimiter) => self.set_delimiter(*delimiter),
            CopyOption::Null(null) => self.set_null(null),
            CopyOption::Header(header) => self.set_header(*header),
            CopyOption::Quote(quote) => self.set_quote(*quote),
            CopyOption::Escape(escape) => self.set_escape(*escape),
            CopyOption::ForceQuote(columns) => self.set_force_quote(columns),
            CopyOption::ForceNotNull(columns) => self.set_force_not_null(columns),
            CopyOption::ForceNull(columns) => {
                self.force_null = columns.clone();
                self.once("force_null")
            }
            CopyOption::Encoding(name) => match extra::read(name) {
                Some((name, value)) => self.extra(&name, value.as_deref()),
                None => check_encoding(name),
            },
            // No row is looked at again to find out whether it is old: none has to be frozen.
            CopyOption::Freeze(_) => self.once("freeze"),
        }
    }

    fn legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Binary => self.set_format("binary"),
            CopyLegacyOption::Csv(options) => {
                self.set_format("csv")?;
                options.iter().try_for_each(|option| self.legacy_csv(option))
            }
            CopyLegacyOption::Delimiter(delimiter) => self.set_delimiter(*delimiter),
            CopyLegacyOption::Null(null) => self.set_null(null),
            CopyLegacyOption::Header => self.set_header(true),
            other => unsupported(other),
        }
    }

    fn legacy_csv(&mut self, option: &CopyLegacyCsvOption) -> Result<()> {
        match option {
            CopyLegacyCsvOption::Header => self.set_header(true),
            CopyLegacyCsvOption::Quote(quote) => self.set_quote(*quote),
            CopyLegacyCsvOption::Escape(escape) => self.set_escape(*escape),
            CopyLegacyCsvOption::ForceQuote(columns) => self.set_force_quote(columns),
            CopyLegacyCsvOption::ForceNotNull(columns) => self.set_force_not_null(columns),
        }
    }

    fn set_format(&mut self, name: &str) -> Result<()> {
        self.once("format")?;
        self.format = Some(match name.to_ascii_lowercase().as_str() {
            "text" => CopyFormat::Text,
            "csv" => CopyFormat::Csv,
            "binary" => CopyFormat::Binary,
            "parquet" => CopyFormat::Parquet,
            _ => return invalid(format!("COPY format \"{name}\" not recognized")),
        });
        Ok(())
    }

    fn set_delimiter(&mut self, delimiter: char) -> Result<()> {
        self.delimiter = Some(delimiter);
        self.once("delimiter")
    }

    fn set_null(&mut self, null: &str) -> Result<()> {
        self.null = Some(null.to_owned());
        self.once("null")
    }

    fn set_header(&mut self, header: bool) -> Result<()> {
        self.header = Some(if header { HeaderLine::Names } else { HeaderLine::None });
        self.once("header")
    }

    /// Options that the parser does not know.
    fn extra(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if name == extra::WHERE {
            self.condition = value.map(str::to_owned);
            return Ok(());
        }
        let value = value.map(str::to_ascii_lowercase);
        let said = value.as_deref();
        match name {
            "header" => {
                self.header = Some(HeaderLine::Match);
                self.once("header")
            }
            "force_quote" => {
                self.force_quote_all = true;
                self.once("force_quote")
            }
            "on_error" => {
                self.on_error = Some(match said {
                    None | Some("stop") => false,
                    Some("ignore") => true,
                    Some(other) => return invalid(format!("COPY ON_ERROR \"{other}\" not recognized")),
                });
                self.once("on_error")
            }
            "reject_limit" => {
                self.reject_limit = Some(reject_limit(said)?);
                self.once("reject_limit")
            }
            "log_verbosity" => {
                self.verbosity = Some(match said {
                    Some("silent") => Verbosity::Silent,
                    None | Some("default") => Verbosity::Default,
                    Some("verbose") => Verbosity::Verbose,
                    Some(other) => return invalid(format!("COPY LOG_VERBOSITY \"{other}\" not recognized")),
                });
                self.once("log_verbosity")
            }
            "row_group_size" => {
                self.group_rows = Some(row_group_size(said)?);
                self.once("row_group_size")
            }
            "match_by" => {
                self.match_by = Some(match said {
                    Some("name") => MatchBy::Name,
                    Some("position") => MatchBy::Position,
                    other => {
                        let other = other.unwrap_or_default();
                        return invalid(format!("COPY MATCH_BY \"{other}\" not recognized"));
                    }
                });
                self.once("match_by")
            }
            _ => {
                self.compression = Some(value.unwrap_or_default());
                self.once("compression")
            }
        }
    }

    /// What a file is packed with as a whole.
    fn compression(&self) -> Result<Option<Compression>> {
        let Some(said) = self.compression.as_deref() else { return Ok(None) };
        Ok(Some(match said {
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            other => return invalid(format!("COPY COMPRESSION \"{other}\" not recognized")),
        }))
    }

    /// How a Parquet file is written and matched.
    fn parquet(&self) -> Result<ParquetOptions> {
        let defaults = ParquetOptions::default();
        let codec = match self.compression.as_deref() {
            None => defaults.codec,
            Some("uncompressed" | "none") => Codec::Uncompressed,
            Some("snappy") => Codec::Snappy,
            Some("zstd") => Codec::Zstd,
            Some(other) => {
                return invalid(format!("COPY COMPRESSION \"{other}\" not recognized in PARQUET mode"));
            }
        };
        Ok(ParquetOptions {
            codec,
            group_rows: self.group_rows.unwrap_or(defaults.group_rows),
            match_by: self.match_by.unwrap_or(defaults.match_by),
        })
    }

    fn on_error(&self, format: CopyFormat) -> Result<OnError> {
        if self.on_error == Some(true)
            && let Some(mode) = format.mode_without_lines()
        {
            let message = format!("only ON_ERROR STOP is allowed in {mode} mode");
            return Err(Error::new(SqlState::SyntaxError, message));
        }
        match self.on_error {
            Some(true) => {
                let verbosity = self.verbosity.unwrap_or(Verbosity::Default);
                Ok(OnError::Ignore { limit: self.reject_limit, verbosity })
            }
            _ if self.reject_limit.is_some() => {
                invalid("COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE")
            }
            _ => Ok(OnError::Stop),
        }
    }

    fn set_quote(&mut self, quote: char) -> Result<()> {
        self.quote = Some(quote);
        self.once("quote")
    }

    fn set_escape(&mut self, escape: char) -> Result<()> {
        self.escape = Some(escape);
        self.once("escape")
    }

    fn set_force_quote(&mut self, columns: &[Ident]) -> Result<()> {
        self.force_quote = columns.to_vec();
        self.once("force_quote")
    }

    fn set_force_not_null(&mut self, columns: &[Ident]) -> Result<()> {
        self.force_not_null = columns.to_vec();
        self.once("force_not_null")
    }

    fn complete(self) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let header = self.header.unwrap_or(HeaderLine::None);
        let has_header = header != HeaderLine::None;
        let on_error = self.on_error(format)?;
        for (name, given) in [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("FORCE_QUOTE", self.force_quote_all || !self.force_quote.is_empty()),
            ("FORCE_NOT_NULL", !self.force_not_null.is_empty()),
            ("FORCE_NULL", !self.force_null.is_empty()),
        ] {
            if given && format != CopyFormat::Csv {
                return not_available(format!("COPY {name} requires CSV mode"));
            }
        }
        for (name, given) in
            [("DELIMITER", self.delimiter.is_some()), ("NULL", self.null.is_some()), ("HEADER", has_header)]
        {
            if let Some(mode) = format.mode_without_lines().filter(|_| given) {
                let state =
                    if name == "HEADER" { SqlState::FeatureNotSupported } else { SqlState::SyntaxError };
                return Err(Error::new(state, format!("cannot specify {name} in {mode} mode")));
            }
        }
        for (name, given) in
            [("ROW_GROUP_SIZE", self.group_rows.is_some()), ("MATCH_BY", self.match_by.is_some())]
        {
            if given && format != CopyFormat::Parquet {
                return invalid(format!("COPY {name} requires PARQUET mode"));
            }
        }
        let (compression, parquet) = match format {
            // Its pages are packed, not the whole.
            CopyFormat::Parquet => (Some(Compression::None), self.parquet()?),
            _ => (self.compression()?, ParquetOptions::default()),
        };
        let defaults = CopyOptions::new(format);
        let quote = one_byte("quote", self.quote)?.unwrap_or(defaults.quote);
        Ok(CopyOptions {
            format,
            delimiter: one_byte("delimiter", self.delimiter)?.unwrap_or(defaults.delimiter),
            null: self.null.unwrap_or(defaults.null),
            header,
            on_error,
            compression,
            parquet,
            quote,
            escape: one_byte("escape", self.escape)?.unwrap_or(quote),
            force_quote: self.force_quote,
            force_quote_all: self.force_quote_all,
            force_not_null: self.force_not_null,
            force_null: self.force_null,
            condition: self.condition,
        })
    }
}

fn one_byte(name: &str, given: Option<char>) -> Result<Option<u8>> {
    match given {
        Some(given) if !given.is_ascii() || given == NO_BYTE => {
            not_available(format!("COPY {name} must be a single one-byte character"))
        }
        given => Ok(given.map(|given| given as u8)),
    }
}

fn reject_limit(said: Option<&str>) -> Result<usize> {
    let Some(limit) = said.and_then(|said| said.parse::<i64>().ok()) else {
        return Err(Error::new(SqlState::SyntaxError, "reject_limit requires a numeric value"));
    };
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => invalid(format!("REJECT_LIMIT ({limit}) must be greater than zero")),
    }
}

fn row_group_size(said: Option<&str>) -> Result<usize> {
    let Some(rows) = said.and_then(|said| said.parse::<i64>().ok()) else {
        return Err(Error::new(SqlState::SyntaxError, "row_group_size requires a numeric value"));
    };
    match usize::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => invalid(format!("ROW_GROUP_SIZE ({rows}) must be greater than zero")),
    }
}

fn check_encoding(name: &str) -> Result<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    // Bytes in no encoding have to be such in that of the database.
    match ["utf8", "unicode", "sqlascii"].contains(&plain.to_ascii_lowercase().as_str()) {
        true => Ok(()),
        false => unsupported(format!("ENCODING '{name}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn read(sql: &str) -> Result<CopyOptions> {
        match Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0) {
            Statement::Copy { options, legacy_options, to, .. } => {
                CopyOptions::read(&options, &legacy_options, to)
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn both_syntaxes_say_the_same() {
        let csv =
            CopyOptions { header: HeaderLine::Names, delimiter: b';', ..CopyOptions::new(CopyFormat::Csv) };
        assert_eq!(read("COPY t FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';')").unwrap(), csv);
        assert_eq!(read("COPY t FROM STDIN DELIMITER ';' CSV HEADER").unwrap(), csv);
        assert_eq!(read("COPY t FROM STDIN").unwrap(), CopyOptions::new(CopyFormat::Text));
        let tab = read(r"COPY t FROM stdin WITH DELIMITER AS E'\t' NULL AS E'\\N'").unwrap();
        assert_eq!(tab, CopyOptions::new(CopyFormat::Text));
    }

    #[test]
    fn the_escape_follows_the_quote() {
        let options = read("COPY t FROM STDIN (FORMAT csv, QUOTE '''')").unwrap();
        assert_eq!((options.quote, options.escape), (b'\'', b'\''));
    }

    #[test]
    fn contradictions_are_refused() {
        for (sql, code) in [
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (FORMAT csv, FORMAT text)", "42601"),
            ("COPY t FROM STDIN (DELIMITER 'a')", "22023"),
            ("COPY t FROM STDIN (DELIMITER '|', NULL 'a|b')", "0A000"),
            ("COPY t FROM STDIN (QUOTE '|')", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, QUOTE ',')", "22023"),
            ("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE (a))", "0A000"),
            ("COPY t TO STDOUT (FORMAT csv, FORCE_NULL (a))", "0A000"),
            ("COPY t FROM STDIN (ENCODING 'latin1')", "0A000"),
        ] {
            assert_eq!(read(sql).unwrap_err().state().code(), code, "{sql}");
        }
    }
}
