//! `AS OF SNAPSHOT name` and `AS OF TIMESTAMP 'time'` behind a query: the moment as of which all of the statement is read.
//!
//! The parser of SQL does not know the clause, so it is taken off the end of a statement's tokens. In every other place it is refused,
//! as a part of a statement is of no other moment than the whole.

use crate::name::folded;
use crate::position::offset;
use crate::syntax_error::near;
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The moment that a statement names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AsOf {
    /// That of the kept snapshot of this name.
    Snapshot(String),
    /// The text of a time.
    Moment(String),
}

/// Takes the clause off the tokens of one statement, if they end with one. `sql`: the text that they are of.
///
/// # Errors
/// `SyntaxError`; `FeatureNotSupported` for a clause in another place than the end, and for parameters in it.
pub(crate) fn take(sql: &str, tokens: &mut Vec<TokenWithSpan>) -> Result<Option<AsOf>> {
    let places: Vec<usize> = (0..tokens.len()).filter(|place| is_significant(&tokens[*place])).collect();
    let word = |place: usize, word: &str| {
        places.get(place).is_some_and(|place| matches!(&tokens[*place].token, Token::Word(next) if next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word)))
    };
    let begins = |place: &usize| {
        let place = *place;
        word(place, "as")
            && word(place + 1, "of")
            && (word(place + 2, "snapshot") || word(place + 2, "timestamp"))
    };
    let Some(begin) = (0..places.len()).find(begins) else { return Ok(None) };
    let at = |error: Error, place: usize| {
        let position = places.get(place).map(|place| offset(sql, tokens[*place].span.start));
        error.with_position(position.unwrap_or(sql.chars().count()) + 1)
    };
    let Some(last) = places.get(begin + 3).map(|place| &tokens[*place].token) else {
        return Err(at(Error::new(SqlState::SyntaxError, "syntax error at end of input"), begin + 3));
    };
    if places.len() > begin + 4 {
        let message = "AS OF applies to a whole statement";
        let hint = "Write it once, at the end of the query, outside of all parentheses.";
        return Err(at(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint), begin));
    }
    let as_of = match (word(begin + 2, "snapshot"), last) {
        (true, Token::Word(name)) => {
            let ident =
                Ident { value: name.value.clone(), quote_style: name.quote_style, span: tokens[begin].span };
            AsOf::Snapshot(folded(&ident))
        }
        (false, Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => {
            AsOf::Moment(text.clone())
        }
        (_, Token::Placeholder(_)) => {
            let message = "a parameter in AS OF is not supported";
            return Err(at(Error::new(SqlState::FeatureNotSupported, message), begin + 3));
        }
        (_, other) => return Err(at(near(&other.to_string()), begin + 3)),
    };
    let end = places[begin];
    tokens.truncate(end);
    Ok(Some(as_of))
}

fn is_significant(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_) | Token::EOF)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<(Option<AsOf>, String)> {
        let statement = crate::parse::parse(sql)?.remove(0);
        let ast = statement.ast.map_or(String::new(), |ast| ast.to_string());
        Ok((statement.as_of.map(|as_of| (*as_of).clone()), ast))
    }

    fn refused(sql: &str) -> (&'static str, String, Option<usize>) {
        let error = parsed(sql).expect_err(sql);
        (error.state().code(), error.message().to_owned(), error.position())
    }

    #[test]
    fn the_clause_is_taken_off_the_end() {
        let snapshot = |name: &str| Some(AsOf::Snapshot(name.to_owned()));
        for (sql, expected) in [
            ("SELECT 1 AS OF SNAPSHOT Monday", snapshot("monday")),
            ("SELECT 1 as of snapshot \"Monday\" -- late", snapshot("Monday")),
            ("SELECT 1 AS OF TIMESTAMP '2026-11-28 12:00'", Some(AsOf::Moment("2026-11-28 12:00".into()))),
            ("SELECT 1", None),
        ] {
            assert_eq!(parsed(sql).expect(sql), (expected, "SELECT 1".to_owned()), "{sql}");
        }
        // Names of columns may be these words.
        assert_eq!(parsed("SELECT 1 AS of").expect("SQL").0, None);
        assert_eq!(parsed("SELECT 'as of snapshot a', snapshot FROM of").expect("SQL").0, None);
    }

    #[test]
    fn in_other_places_and_forms_it_is_refused() {
        let whole = || "AS OF applies to a whole statement".to_owned();
        assert_eq!(refused("SELECT (SELECT 1 AS OF SNAPSHOT a)"), ("0A000", whole(), Some(18)));
        assert_eq!(refused("SELECT a FROM t AS OF SNAPSHOT s WHERE a = 1"), ("0A000", whole(), Some(17)));
        assert_eq!(refused("SELECT 1 AS OF SNAPSHOT a AS OF SNAPSHOT b").0, "0A000");
        assert_eq!(refused("COPY (SELECT 1 AS OF SNAPSHOT a) TO STDOUT").0, "0A000");
        let parameter = "a parameter in AS OF is not supported".to_owned();
        assert_eq!(refused("SELECT 1 AS OF TIMESTAMP $1"), ("0A000", parameter, Some(26)));
        let end = "syntax error at end of input".to_owned();
        assert_eq!(refused("SELECT 1 AS OF SNAPSHOT"), ("42601", end, Some(24)));
        let five = "syntax error at or near \"5\"".to_owned();
        assert_eq!(refused("SELECT 1 AS OF TIMESTAMP 5"), ("42601", five, Some(26)));
        assert_eq!(refused("SELECT 1 AS OF SNAPSHOT 'a'").0, "42601");
        assert_eq!(refused("FETCH c AS OF SNAPSHOT a").0, "0A000");
    }
}
