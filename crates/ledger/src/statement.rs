//! Statements of transactions: the part of SQL that all databases do alike, and how one becomes each database's text.
//!
//! A statement is `INSERT INTO t (columns) VALUES ...`, `UPDATE t SET ... WHERE ...` or `DELETE FROM t WHERE ...` on one shared
//! table. Names become quoted names and `$1` the database's literal, so neither reserved words nor the ways of writing a text
//! differ. The rest is refused with the reason, by each member for itself: a refused transaction is one that has not succeeded,
//! everywhere. What is not refused and still differs is found by the vote.
//!
//! Not here: types. `'12abc' = 12` passes, and the members disagree.

use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::token::{KEYWORDS, Token, tokens};
use crate::value::LedgerValue;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a statement does to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementVerb {
    /// New rows.
    Insert,
    /// Other values.
    Update,
    /// Rows go.
    Delete,
}

/// A statement that has been found to be one that all databases do alike.
#[derive(Debug, Clone)]
pub struct PortableStatement {
    /// What it does.
    pub verb: StatementVerb,
    /// To which table.
    pub table: String,
    /// Its words.
    pub(crate) tokens: Vec<Token>,
    /// Where its WHERE is, or its length.
    pub(crate) condition: usize,
    /// The values of its `$1` and so on.
    pub(crate) values: Vec<LedgerValue>,
}

/// Functions that do the same in all databases.
const FUNCTIONS: [&str; 2] = ["coalesce", "nullif"];

/// How deep parentheses may be, and how many operators a statement may have: each database runs out of its stack at another
/// depth.
const DEPTH_MAX: usize = 32;
const OPERATORS_MAX: usize = 500;

/// Why a word is refused.
fn refusal(word: &str) -> String {
    let reason = match word {
        "now" | "current_timestamp" | "current_date" | "current_time" | "localtimestamp" | "sysdate"
        | "curdate" => "each database has its own clock; hand the time over as a value",
        "random" | "rand" | "uuid" | "gen_random_uuid" => {
            "each database has its own chance; hand the value over"
        }
        "nextval" | "currval" | "last_insert_id" | "lastval" => "sequences have gaps after rollbacks",
        "select" | "with" | "using" | "join" => "a statement of a ledger is about the rows of one table",
        "limit" | "order" | "offset" | "fetch" => "which rows come first differs between databases",
        "conflict" | "duplicate" | "ignore" | "replace" | "merge" => "upserts are each database's own",
        "returning" => "a transaction has no answer but whether it succeeded",
        "default" => "a transaction says all that it writes",
        "like" | "ilike" | "regexp" | "similar" | "escape" => "patterns are each database's own",
        "create" | "drop" | "alter" | "truncate" => {
            "definitions commit by themselves in MariaDB; use CREATE SHARED TABLE"
        }
        "cast" | "convert" => "what is cast, and how it is rounded, differs between databases",
        "abs" => "of the least number of a type it fails in PostgreSQL and not in MariaDB",
        "length" | "char_length" | "octet_length" => {
            "it counts characters in one database and bytes in another"
        }
        _ => "it is no column of the table and not part of a ledger's SQL",
    };
    format!("\"{word}\" is refused: {reason}")
}

fn refused<T>(reason: impl Into<String>) -> LedgerResult<T> {
    Err(LedgerError::Refused(reason.into()))
}

impl PortableStatement {
    /// Reads a statement on one of these tables.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with the reason.
    pub fn parse(
        sql: &str,
        values: &[LedgerValue],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<PortableStatement> {
        let tokens = tokens(sql)?;
        let word = |at: usize| match tokens.get(at) {
            Some(Token::Word(word)) => word.as_str(),
            _ => "",
        };
        let (verb, name) = match (word(0), word(1)) {
            ("insert", "into") => (StatementVerb::Insert, 2),
            ("delete", "from") => (StatementVerb::Delete, 2),
            ("update", _) => (StatementVerb::Update, 1),
            ("", _) => return refused("a statement is expected"),
            (other, _) if KEYWORDS.contains(&other) => {
                return refused("INSERT INTO, UPDATE or DELETE FROM is expected");
            }
            (other, _) => return refused(refusal(other)),
        };
        let Some(table) = tables.get(word(name)) else {
            return refused(format!("\"{}\" is no shared table", word(name)));
        };
        let condition = tokens.iter().position(|token| token.is_word("where")).unwrap_or(tokens.len());
        let statement =
            PortableStatement { verb, table: table.name.clone(), condition, tokens, values: values.to_vec() };
        statement.check(table, name)?;
        Ok(statement)
    }

    fn check(&self, table: &SharedTable, name: usize) -> LedgerResult<()> {
        let follows =
            |at: usize, symbol: &str| self.tokens.get(at + 1).is_some_and(|token| token.is_symbol(symbol));
        for (at, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Parameter(number) => self.check_parameter(*number)?,
                Token::Word(word) if at == name || KEYWORDS.contains(&word.as_str()) => {}
                Token::Word(word) if table.position(word).is_some() && !follows(at, "(") => {}
                Token::Word(word) if FUNCTIONS.contains(&word.as_str()) && follows(at, "(") => {}
                Token::Word(word) => return refused(refusal(word)),
                _ => {}
            }
        }
        self.check_depth()?;
        let expected = match self.verb {
            StatementVerb::Insert => Token::Symbol("("),
            StatementVerb::Update => Token::Word("set".into()),
            StatementVerb::Delete => Token::Word("where".into()),
        };
        let is_end = self.verb == StatementVerb::Delete && self.tokens.len() == name + 1;
        if self.tokens.get(name + 1) != Some(&expected) && !is_end {
            return refused("the table has one name, and an INSERT names its columns");
        }
        match self.verb {
            StatementVerb::Insert if !self.tokens.iter().any(|token| token.is_word("values")) => {
                refused("an INSERT has VALUES")
            }
            StatementVerb::Update => self.check_assignments(table, name + 2),
            _ => Ok(()),
        }
    }

    fn check_depth(&self) -> LedgerResult<()> {
        let (mut depth, mut operators) = (0_usize, 0);
        for token in &self.tokens {
            match token {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth = depth.saturating_sub(1),
                Token::Symbol(",") => {}
                Token::Symbol(_) => operators += 1,
                Token::Word(word) if ["and", "or", "not", "case"].contains(&word.as_str()) => operators += 1,
                _ => {}
            }
            if depth > DEPTH_MAX || operators > OPERATORS_MAX {
                let limits = format!("up to {DEPTH_MAX} parentheses deep and {OPERATORS_MAX} operators");
                return refused(format!(
                    "a statement is {limits}: databases run out of their stacks at different depths"
                ));
            }
        }
        Ok(())
    }

    fn check_parameter(&self, number: usize) -> LedgerResult<()> {
        match self.values.get(number - 1) {
            None => refused(format!("${number} has no value")),
            Some(LedgerValue::Text(text)) if text.contains('\0') => {
                refused("a text with a zero byte is refused: PostgreSQL has none")
            }
            Some(LedgerValue::Decimal(text)) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                match tokens(digits)?.as_slice() {
                    [Token::Number(_)] => Ok(()),
                    _ => refused(format!("${number}, \"{text}\", is no decimal number")),
                }
            }
            Some(_) => Ok(()),
        }
    }

    /// Keys stay: a row with another key is another row.
    fn check_assignments(&self, table: &SharedTable, from: usize) -> LedgerResult<()> {
        let mut depth = 0;
        let mut is_target = true;
        for token in &self.tokens[from..self.condition] {
            match token {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth -= 1,
                Token::Symbol(",") if depth == 0 => is_target = true,
                Token::Word(column) if is_target => {
                    let is_key = table.position(column).is_some_and(|at| table.key.contains(&at));
                    if is_key {
                        return refused(format!(
                            "\"{column}\" is part of the key, which stays: delete and insert"
                        ));
                    }
                    is_target = false;
                }
                _ if is_target => return refused("SET names one column at a time"),
                _ => {}
            }
        }
        Ok(())
    }

    /// The statement as a database's text; `literal` writes a value.
    pub fn text(&self, literal: &dyn Fn(&LedgerValue) -> String) -> String {
        self.write(0..self.tokens.len(), literal)
    }

    /// ` WHERE ...` as a database's text, or nothing.
    pub fn condition_text(&self, literal: &dyn Fn(&LedgerValue) -> String) -> String {
        self.write(self.condition..self.tokens.len(), literal)
    }

    /// The places of the parts between commas that are in no parentheses.
    fn parts(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut found, mut depth, mut from) = (Vec::new(), 0_usize, range.start);
        for at in range.clone() {
            match &self.tokens[at] {
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") => depth = depth.saturating_sub(1),
                Token::Symbol(",") if depth == 0 => {
                    found.push(from..at);
                    from = at + 1;
                }
                _ => {}
            }
        }
        found.push(from..range.end);
        found
    }

    /// The places of the assignments of an UPDATE, each from its column on.
    pub(crate) fn assignment_parts(&self) -> Vec<Range<usize>> {
        self.parts(3..self.condition)
    }

    /// The columns that an INSERT or UPDATE names, and texts of what it gives them: one row of an UPDATE, each row of an INSERT.
    /// Nothing if a row has not as many values as there are columns, or of a DELETE.
    pub fn assigned(
        &self,
        literal: &dyn Fn(&LedgerValue) -> String,
    ) -> Option<(Vec<&str>, Vec<Vec<String>>)> {
        let word = |range: &Range<usize>| match self.tokens.get(range.start) {
            Some(Token::Word(word)) => Some(word.as_str()),
            _ => None,
        };
        let inside = |range: Range<usize>| {
            let (first, last) = (self.tokens.get(range.start)?, self.tokens.get(range.end.checked_sub(1)?)?);
            let is_list = range.len() > 2 && first.is_symbol("(") && last.is_symbol(")");
            is_list.then_some(range.start + 1..range.end - 1)
        };
        let text = |range: Range<usize>| self.write(range, literal);
        match self.verb {
            StatementVerb::Delete => None,
            StatementVerb::Update => {
                let parts = self.assignment_parts();
                let columns = parts.iter().map(word).collect::<Option<Vec<_>>>()?;
                let row = parts.into_iter().map(|part| text((part.start + 2).min(part.end)..part.end));
                Some((columns, vec![row.collect()]))
            }
            StatementVerb::Insert => {
                let values = self.tokens.iter().position(|token| token.is_word("values"))?;
                let columns = self.parts(inside(3..values)?);
                let columns = columns.iter().map(word).collect::<Option<Vec<_>>>()?;
                let row = |range: Range<usize>| {
                    let parts = self.parts(inside(range)?);
                    (parts.len() == columns.len()).then(|| parts.into_iter().map(text).collect())
                };
                let rows = self.parts(values + 1..self.tokens.len());
                let rows = rows.into_iter().map(row).collect::<Option<Vec<Vec<String>>>>()?;
                Some((columns, rows))
            }
        }
    }

    fn write(&self, range: Range<usize>, literal: &dyn Fn(&LedgerValue) -> String) -> String {
        let mut text = String::new();
        for (at, token) in self.tokens[..range.end].iter().enumerate().skip(range.start) {
            let is_glued = token.is_symbol("(") && at > 0 && self.is_function(at - 1);
            if at > 0 && !is_glued {
                text.push(' ');
            }
            match token {
                // MariaDB takes a function's name only with its parenthesis next to it.
                Token::Word(word) if KEYWORDS.contains(&word.as_str()) || self.is_function(at) => {
                    text.push_str(word)
                }
                Token::Word(word) => text.push_str(&format!("\"{word}\"")),
                Token::Number(digits) => text.push_str(digits),
                Token::Text(content) => text.push_str(&literal(&LedgerValue::Text(content.clone()))),
                Token::Parameter(number) => text.push_str(&literal(&self.values[number - 1])),
                Token::Symbol(symbol) => text.push_str(symbol),
            }
        }
        text
    }

    fn is_function(&self, at: usize) -> bool {
        let is_name = matches!(&self.tokens[at], Token::Word(word) if FUNCTIONS.contains(&word.as_str()));
        is_name && self.tokens.get(at + 1).is_some_and(|token| token.is_symbol("("))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> BTreeMap<String, SharedTable> {
        let sql =
            "create shared table account (id bigint primary key, balance bigint, owner text, nullif bigint)";
        let table = SharedTable::parse(sql).expect("a definition");
        BTreeMap::from([(table.name.clone(), table)])
    }

    fn written(sql: &str, values: &[LedgerValue]) -> String {
        let statement =
            PortableStatement::parse(sql, values, &tables()).unwrap_or_else(|error| panic!("{sql}: {error}"));
        statement.text(&|value| format!("<{value:?}>"))
    }

    #[test]
    fn names_are_quoted_and_values_are_the_databases_literals() {
        assert_eq!(
            written(
                "UPDATE Account SET balance = balance - $1, owner='it''s' where ID=$2",
                &[LedgerValue::Integer(5), LedgerValue::Null]
            ),
            "update \"account\" set \"balance\" = \"balance\" - <Integer(5)> , \"owner\" = <Text(\"it's\")> where \"id\" = <Null>"
        );
        assert_eq!(
            written("delete from account where nullif(nullif, 4) < 3", &[]),
            "delete from \"account\" where nullif( \"nullif\" , 4 ) < 3"
        );
    }

    #[test]
    fn what_a_statement_gives_to_columns_is_found_between_its_commas() {
        let assigned = |sql: &str| {
            let statement = PortableStatement::parse(sql, &[LedgerValue::Integer(7)], &tables())
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
            let found = statement.assigned(&|value| format!("<{value:?}>"));
            found.map(|(columns, rows)| format!("{}: {rows:?}", columns.join(" ")))
        };
        let found = assigned(
            "INSERT INTO account (id, owner) VALUES ($1, coalesce('a,b', 'c')), (2 * (3 + 4), null)",
        );
        let rows = r#"id owner: [[" <Integer(7)>", " coalesce( <Text(\"a,b\")> , <Text(\"c\")> )"], [" 2 * ( 3 + 4 )", " null"]]"#;
        assert_eq!(found.as_deref(), Some(rows));
        let found = assigned("update account set balance = balance - (1), owner = 'x' where id = 5");
        let row = r#"balance owner: [[" \"balance\" - ( 1 )", " <Text(\"x\")>"]]"#;
        assert_eq!(found.as_deref(), Some(row));
        assert_eq!(assigned("update account set balance = 1").as_deref(), Some(r#"balance: [[" 1"]]"#));
        for sql in [
            "delete from account",
            "insert into account (id, owner) values (1)",
            "insert into account (id) values 1",
        ] {
            assert_eq!(assigned(sql), None, "{sql}");
        }
    }

    #[test]
    fn what_databases_do_differently_is_refused_with_the_reason() {
        for (sql, reason) in [
            ("update account set balance = 7 / 2", "3.5000"),
            ("update account set owner = owner || 'x'", "NULL"),
            ("update account set balance = random()", "chance"),
            ("update account set owner = now()", "clock"),
            ("insert into account (id) values (nextval('s'))", "gaps"),
            ("insert into account values (1, 2, 'x', 3)", "names its columns"),
            ("insert into account (id) select 1", "rows of one table"),
            ("insert into account (id) values (1) on conflict do nothing", "\"on\" is refused"),
            ("delete from account where id = 1 limit 1", "come first"),
            ("update account set id = 3 where id = 2", "part of the key"),
            ("update account set balance = 1, id = 3", "part of the key"),
            ("update account a set balance = 1", "refused"),
            ("update account set balance = 1e3", "exponents"),
            ("update account set balance = 1; drop table account", "one of its own"),
            ("update account set balance = 1 -- x", "comments"),
            ("drop table account", "CREATE SHARED TABLE"),
            ("update other set balance = 1", "no shared table"),
            ("update account set balance = $1", "has no value"),
            ("update account set balance = length(owner)", "counts characters"),
            ("update account set unknown = 1", "no column"),
        ] {
            let said = PortableStatement::parse(sql, &[], &tables()).expect_err(sql).to_string();
            assert!(said.contains(reason), "{sql}: {said}");
        }
        for deep in [format!("{}1{}", "(".repeat(40), ")".repeat(40)), format!("1{}", " + 1".repeat(501))] {
            let sql = format!("update account set balance = {deep}");
            let said = PortableStatement::parse(&sql, &[], &tables()).expect_err("too deep").to_string();
            assert!(said.contains("stacks"), "{said}");
        }
        let wrong = [LedgerValue::Decimal("1); drop table account".into())];
        assert!(PortableStatement::parse("update account set balance = $1", &wrong, &tables()).is_err());
    }
}
