//! Shared tables: `CREATE SHARED TABLE`, and why some definitions are refused.
//!
//! What two databases cannot store, compare and print alike is refused here, once and with the reason, rather than found later
//! as a disagreement.

use crate::bytes::CanonicalWriter;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::policy::AgreementPolicy;
use crate::token::{KEYWORDS, Token, tokens};
use crate::value::{Content, LedgerType, encode_value};

/// The longest name; with what is put around it for triggers it stays below PostgreSQL's 63 bytes.
const NAME_BYTES_MAX: usize = 40;

/// The longest key in bytes that MariaDB's index takes.
const KEY_BYTES_MAX: usize = 3072;

/// The longest row, without texts and byte strings that lie outside of it, that MariaDB takes; some bytes less.
const ROW_BYTES_MAX: usize = 65_000;

/// The most columns; MariaDB's pages have room for the places of so many texts.
const COLUMNS_MAX: usize = 200;

/// A column of a shared table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedColumn {
    /// Its name, in lower case.
    pub name: String,
    /// Its type.
    pub kind: LedgerType,
    /// Whether it takes NULL.
    pub is_nullable: bool,
    /// The least value that it takes: `CHECK (name >= 0)`.
    pub at_least: Option<i64>,
}

/// A table that all members have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedTable {
    /// Its name, in lower case.
    pub name: String,
    /// Its columns in their order.
    pub columns: Vec<SharedColumn>,
    /// Positions of the columns of its primary key.
    pub key: Vec<usize>,
    /// Which organizations have to agree to transactions that write it; none where nothing is said.
    pub agreement: Option<AgreementPolicy>,
}

impl SharedTable {
    /// Reads `CREATE SHARED TABLE name (column type [NOT NULL] [PRIMARY KEY] [CHECK (column >= number)], ..., [PRIMARY KEY
    /// (column, ...)]) [WITH (agreement = 'policy')]`.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with the reason.
    pub fn parse(sql: &str) -> LedgerResult<SharedTable> {
        let tokens = tokens(sql)?;
        let mut parser = DefinitionParser { tokens: &tokens, at: 0 };
        let table = parser.table()?;
        table.check()?;
        Ok(table)
    }

    /// Whether a statement is a definition at all.
    pub fn is_definition(sql: &str) -> bool {
        sql.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("create"))
    }

    fn check(&self) -> LedgerResult<()> {
        let refused =
            |reason: String| Err(LedgerError::Refused(format!("table \"{}\": {reason}", self.name)));
        if self.key.is_empty() {
            return refused("it needs a PRIMARY KEY, by which members name the rows that differ".into());
        }
        for (at, column) in self.columns.iter().enumerate() {
            if self.columns[..at].iter().any(|other| other.name == column.name) {
                return refused(format!("column \"{}\" is there twice", column.name));
            }
        }
        if self.columns.len() > COLUMNS_MAX {
            return refused(format!(
                "{} columns: up to {COLUMNS_MAX} fit into all databases",
                self.columns.len()
            ));
        }
        let row_bytes: usize = self.columns.iter().map(|column| widest(column.kind)).sum();
        if row_bytes > ROW_BYTES_MAX {
            return refused(format!(
                "a row of up to {row_bytes} bytes: MariaDB takes {ROW_BYTES_MAX}; use text"
            ));
        }
        let mut bytes = 0;
        for &at in &self.key {
            bytes += match self.columns[at].kind {
                LedgerType::Text | LedgerType::Bytea => {
                    let kind = self.columns[at].kind;
                    return refused(format!(
                        "{kind} is no key: MariaDB indexes only a part of it; use varchar(n)"
                    ));
                }
                kind => widest(kind),
            };
        }
        if bytes > KEY_BYTES_MAX {
            return refused(format!("a key of up to {bytes} bytes: MariaDB takes {KEY_BYTES_MAX}"));
        }
        Ok(())
    }

    /// The position of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|own| own.name == column)
    }

    /// The canonical encoding of a row's key.
    pub fn key_bytes(&self, row: &[Content]) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        self.key.iter().for_each(|&at| encode_value(row[at].as_deref(), &mut writer));
        writer.finish()
    }

    /// The hash of the definition.
    pub fn hash(&self) -> LedgerHash {
        let mut writer = CanonicalWriter::default();
        writer.bytes(self.name.as_bytes()).count(self.columns.len());
        for column in &self.columns {
            writer.bytes(column.name.as_bytes()).bytes(column.kind.to_string().as_bytes());
            writer.byte(u8::from(column.is_nullable));
            let least = column.at_least.map(|least| least.to_string());
            writer.bytes(least.unwrap_or_default().as_bytes());
        }
        writer.count(self.key.len());
        for &at in &self.key {
            writer.count(at);
        }
        if let Some(policy) = &self.agreement {
            writer.bytes(policy.to_string().as_bytes());
        }
        LedgerHash::of("shared table", &[&writer.finish()])
    }
}

/// The most bytes that a value takes inside of MariaDB's rows.
fn widest(kind: LedgerType) -> usize {
    match kind {
        LedgerType::Varchar(length) => usize::from(length) * 4,
        _ => 20,
    }
}

struct DefinitionParser<'a> {
    tokens: &'a [Token],
    at: usize,
}

fn refused<T>(reason: impl Into<String>) -> LedgerResult<T> {
    Err(LedgerError::Refused(reason.into()))
}

impl DefinitionParser<'_> {
    fn next(&mut self) -> Option<&Token> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    fn takes(&mut self, is_wanted: impl Fn(&Token) -> bool) -> bool {
        let found = self.tokens.get(self.at).is_some_and(is_wanted);
        self.at += usize::from(found);
        found
    }

    fn takes_words(&mut self, words: &[&str]) -> bool {
        let ahead = self.tokens.get(self.at..self.at + words.len()).unwrap_or_default();
        let found =
            ahead.len() == words.len() && ahead.iter().zip(words).all(|(own, word)| own.is_word(word));
        self.at += if found { words.len() } else { 0 };
        found
    }

    fn symbol(&mut self, symbol: &str) -> LedgerResult<()> {
        if self.takes(|token| token.is_symbol(symbol)) {
            Ok(())
        } else {
            refused(format!("\"{symbol}\" is expected"))
        }
    }

    fn name(&mut self) -> LedgerResult<String> {
        match self.next() {
            Some(Token::Word(word)) if word.starts_with("ledger_") => {
                refused(format!("\"{word}\": names that begin with ledger_ are the ledger's own"))
            }
            Some(Token::Word(word)) if KEYWORDS.contains(&word.as_str()) => {
                refused(format!("\"{word}\" is a keyword of transactions, and no name"))
            }
            Some(Token::Word(word)) if word.len() <= NAME_BYTES_MAX => Ok(word.clone()),
            Some(Token::Word(word)) => refused(format!("\"{word}\" is longer than {NAME_BYTES_MAX} bytes")),
            _ => refused("a name is expected"),
        }
    }

    fn number(&mut self) -> LedgerResult<i64> {
        let sign = if self.takes(|token| token.is_symbol("-")) { -1 } else { 1 };
        match self.next() {
            Some(Token::Number(digits)) => digits.parse::<i64>().map(|number| sign * number).or_else(|_| {
                let digits = digits.clone();
                refused(format!("{digits} is no whole number of 64 bits"))
            }),
            _ => refused("a whole number is expected"),
        }
    }

    fn table(&mut self) -> LedgerResult<SharedTable> {
        if !self.takes_words(&["create", "shared", "table"]) {
            return refused("a definition begins with CREATE SHARED TABLE");
        }
        let mut table =
            SharedTable { name: self.name()?, columns: Vec::new(), key: Vec::new(), agreement: None };
        self.symbol("(")?;
        loop {
            if self.takes_words(&["primary", "key"]) {
                self.key(&mut table)?;
            } else {
                self.column(&mut table)?;
            }
            if !self.takes(|token| token.is_symbol(",")) {
                break;
            }
        }
        self.symbol(")")?;
        if self.takes_words(&["with"]) {
            table.agreement = Some(self.agreement()?);
        }
        if self.at < self.tokens.len() {
            let reason = "only WITH (agreement = '...') may follow a definition: other options are the ledger's choice, alike for all databases";
            return refused(reason);
        }
        Ok(table)
    }

    /// `(agreement = 'policy')`
    fn agreement(&mut self) -> LedgerResult<AgreementPolicy> {
        let form = "the only option of a shared table is WITH (agreement = '...')";
        self.symbol("(")?;
        if !self.takes_words(&["agreement"]) || !self.takes(|token| token.is_symbol("=")) {
            return refused(form);
        }
        let Some(Token::Text(text)) = self.next() else { return refused(form) };
        let policy = AgreementPolicy::parse(text)?;
        self.symbol(")")?;
        Ok(policy)
    }

    fn key(&mut self, table: &mut SharedTable) -> LedgerResult<()> {
        if !table.key.is_empty() {
            return refused("a table has one PRIMARY KEY");
        }
        self.symbol("(")?;
        loop {
            let name = self.name()?;
            let Some(at) = table.position(&name) else {
                return refused(format!("the key names \"{name}\", which is no column"));
            };
            if table.key.contains(&at) {
                return refused(format!("the key names \"{name}\" twice"));
            }
            table.columns[at].is_nullable = false;
            table.key.push(at);
            if !self.takes(|token| token.is_symbol(",")) {
                break;
            }
        }
        self.symbol(")")
    }

    fn column(&mut self, table: &mut SharedTable) -> LedgerResult<()> {
        let name = self.name()?;
        let kind = self.kind(&name)?;
        let mut column = SharedColumn { name, kind, is_nullable: true, at_least: None };
        let mut is_key = false;
        loop {
            if self.takes_words(&["not", "null"]) {
                column.is_nullable = false;
            } else if self.takes_words(&["primary", "key"]) {
                column.is_nullable = false;
                is_key = true;
            } else if self.takes_words(&["check"]) {
                self.bound(&mut column)?;
            } else {
                break;
            }
        }
        if let Some(Token::Word(word)) = self.tokens.get(self.at) {
            let reason = match word.as_str() {
                "default" => "defaults are refused: a transaction says all that it writes",
                "references" => {
                    "foreign keys are refused: what cascades fires triggers in PostgreSQL and none in MariaDB"
                }
                "collate" => "collations are refused: texts are compared by bytes",
                "generated" | "auto_increment" => {
                    "generated values are refused: sequences have gaps after rollbacks"
                }
                "unique" => "only the primary key is unique as yet",
                _ => "it is not part of a shared column",
            };
            return refused(format!("column \"{}\", {word}: {reason}", column.name));
        }
        if is_key {
            if !table.key.is_empty() {
                return refused("a table has one PRIMARY KEY");
            }
            table.key.push(table.columns.len());
        }
        table.columns.push(column);
        Ok(())
    }

    /// `(column >= number)`
    fn bound(&mut self, column: &mut SharedColumn) -> LedgerResult<()> {
        let form = format!("column \"{0}\": the only CHECK is ({0} >= a whole number)", column.name);
        self.symbol("(")?;
        if !self.takes_words(&[&column.name]) || !self.takes(|token| token.is_symbol(">=")) {
            return refused(form);
        }
        let is_number = matches!(
            column.kind,
            LedgerType::SmallInt | LedgerType::Integer | LedgerType::BigInt | LedgerType::Numeric { .. }
        );
        column.at_least = Some(self.number()?);
        if is_number { self.symbol(")") } else { refused(form) }
    }

    fn kind(&mut self, column: &str) -> LedgerResult<LedgerType> {
        let Some(Token::Word(word)) = self.next().cloned() else {
            return refused(format!("column \"{column}\": a type is expected"));
        };
        Ok(match word.as_str() {
            "boolean" | "bool" => LedgerType::Boolean,
            "smallint" => LedgerType::SmallInt,
            "integer" | "int" => LedgerType::Integer,
            "bigint" => LedgerType::BigInt,
            "text" => LedgerType::Text,
            "bytea" => LedgerType::Bytea,
            "date" => LedgerType::Date,
            "timestamp" if self.takes_words(&["with"]) => return refused_type(column, "timestamptz"),
            "timestamp" => {
                if self.takes(|token| token.is_symbol("(")) {
                    return refused(format!(
                        "column \"{column}\": a timestamp has six digits, no choice of them"
                    ));
                }
                LedgerType::Timestamp
            }
            "numeric" | "decimal" => self.numeric(column)?,
            "varchar" => self.varchar(column)?,
            other => return refused_type(column, other),
        })
    }

    fn numeric(&mut self, column: &str) -> LedgerResult<LedgerType> {
        if !self.takes(|token| token.is_symbol("(")) {
            let reason = "numeric needs its digits, numeric(12, 2): without them PostgreSQL keeps any and MariaDB none after the point";
            return refused(format!("column \"{column}\": {reason}"));
        }
        let precision = self.number()?;
        let scale = if self.takes(|token| token.is_symbol(",")) { self.number()? } else { 0 };
        self.symbol(")")?;
        if !(1..=38).contains(&precision) || !(0..=precision.min(30)).contains(&scale) {
            let limits = "up to 38 digits, up to 30 of them after the point, are what all databases have";
            return refused(format!("column \"{column}\", numeric({precision}, {scale}): {limits}"));
        }
        Ok(LedgerType::Numeric { precision: precision as u8, scale: scale as u8 })
    }

    fn varchar(&mut self, column: &str) -> LedgerResult<LedgerType> {
        if !self.takes(|token| token.is_symbol("(")) {
            return refused(format!("column \"{column}\": varchar needs its length; without one it is text"));
        }
        let length = self.number()?;
        self.symbol(")")?;
        match u16::try_from(length) {
            Ok(length @ 1..=10_000) => Ok(LedgerType::Varchar(length)),
            _ => refused(format!(
                "column \"{column}\": varchar is up to 10000 characters in MariaDB's rows; use text"
            )),
        }
    }
}

fn refused_type<T>(column: &str, kind: &str) -> LedgerResult<T> {
    let reason = match kind {
        "real" | "float" | "float4" | "float8" | "double" => {
            "floats are printed and summed differently; use numeric(p, s)"
        }
        "char" | "character" => "PostgreSQL pads it with spaces and MariaDB cuts them off; use varchar(n)",
        "timestamptz" | "timetz" => "MariaDB converts it by the session's zone; use timestamp and write UTC",
        "json" | "jsonb" => "each database orders and prints documents in its way; use text",
        "serial" | "bigserial" | "smallserial" => "sequences have gaps after rollbacks; write the number",
        "uuid" => "it is not in all databases; use varchar(36) or bytea",
        "time" | "interval" => "PostgreSQL and MariaDB have different ranges and forms of it",
        "money" | "inet" | "xml" => "MariaDB has no such type",
        _ => {
            "it is not a type that all databases print alike (boolean, smallint, integer, bigint, numeric(p, s), varchar(n), text, \
              bytea, date, timestamp)"
        }
    };
    refused(format!("column \"{column}\", type {kind}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_read() {
        let table = SharedTable::parse(
            "CREATE SHARED TABLE Account (id bigint, kind varchar(10), balance numeric(12, 2) NOT NULL CHECK (balance >= -5), \
             note text, PRIMARY KEY (kind, id))",
        )
        .expect("a definition");
        assert_eq!(table.name, "account");
        assert_eq!(table.key, [1, 0]);
        assert!(!table.columns[0].is_nullable && table.columns[3].is_nullable);
        assert_eq!(table.columns[2].kind, LedgerType::Numeric { precision: 12, scale: 2 });
        assert_eq!(table.columns[2].at_least, Some(-5));
    }

    #[test]
    fn a_definition_may_say_who_has_to_agree_and_has_another_hash_then() {
        let sql = "create shared table t (id bigint primary key)";
        let parse = |more: &str| SharedTable::parse(&format!("{sql}{more}"));
        let all = parse(" WITH (agreement = 'all')").expect("a definition");
        assert_eq!(all.agreement.as_ref().map(ToString::to_string).as_deref(), Some("all"));
        let any = parse(" with (Agreement = 'any 2')").expect("a definition");
        let hashes = [parse("").expect("a definition").hash(), all.hash(), any.hash()];
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
        for (more, reason) in [
            (" engine", "only WITH"),
            (" with (agreement = 'all') x", "only WITH"),
            (" with (fillfactor = 3)", "the only option"),
            (" with (agreement = all)", "the only option"),
            (" with (agreement = 'all ada')", "forms of an agreement"),
            (" with (agreement = 'any 0')", "forms of an agreement"),
            (" with (agreement = 'all'", "is expected"),
        ] {
            let said = parse(more).expect_err(more).to_string();
            assert!(said.contains(reason), "{more}: {said}");
        }
    }

    #[test]
    fn what_databases_do_differently_is_refused_with_the_reason() {
        for (column, reason) in [
            ("x double precision", "floats"),
            ("x real", "floats"),
            ("x char(5)", "pads"),
            ("x numeric", "needs its digits"),
            ("x numeric(40, 2)", "38 digits"),
            ("x timestamptz", "zone"),
            ("x timestamp with time zone", "zone"),
            ("x jsonb", "documents"),
            ("x serial", "gaps"),
            ("x bigint references y", "cascades"),
            ("x integer default 3", "defaults"),
            ("x text collate nocase", "by bytes"),
            ("x text check (x >= 3)", "the only CHECK"),
            ("x integer check (x > 3)", "the only CHECK"),
            ("ledger_x integer", "the ledger's own"),
            ("id integer", "twice"),
            ("x text, primary key (x)", "one PRIMARY KEY"),
        ] {
            let sql = format!("create shared table t (id bigint primary key, {column})");
            match SharedTable::parse(&sql) {
                Err(LedgerError::Refused(said)) => assert!(said.contains(reason), "{column}: {said}"),
                other => panic!("{column}: {other:?}"),
            }
        }
        for (sql, reason) in [
            ("create shared table t (id text primary key)", "MariaDB indexes"),
            ("create shared table t (id bigint)", "needs a PRIMARY KEY"),
            ("create table t (id bigint primary key)", "CREATE SHARED TABLE"),
            ("create shared table t (id varchar(1000) primary key)", "MariaDB takes 3072"),
            (
                "create shared table t (id bigint primary key, a varchar(9000), b varchar(9000))",
                "MariaDB takes 65000",
            ),
        ] {
            let said = SharedTable::parse(sql).expect_err(sql).to_string();
            assert!(said.contains(reason), "{sql}: {said}");
        }
    }
}
