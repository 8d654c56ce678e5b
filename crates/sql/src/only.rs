//! ONLY before the name of a table, and `*` behind it, which say whether the tables that inherit from it are meant, too. None do,
//! so that both are left out.
//!
//! | written | read |
//! | --- | --- |
//! | `FROM ONLY a, ONLY (b) AS c` | `FROM a, b AS c` |
//! | `UPDATE a * SET b = 1` | `UPDATE a SET b = 1` |

use crate::words;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// What is known of a pair of parentheses, or of the whole statement.
#[derive(Clone, Copy)]
struct Frame {
    /// Whether a query or a statement stands in it, so that FROM has tables behind it.
    has_clauses: bool,
    /// Whether commas part names of tables.
    is_list: bool,
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut [TokenWithSpan]) {
    let may_be = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("only"),
        token => *token == Token::Mul,
    };
    if tokens.iter().any(may_be) {
        for at in left_out(tokens) {
            tokens[at].token = Token::Whitespace(Whitespace::Space);
        }
    }
}

/// Where the tokens lie that say nothing.
fn left_out(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    let mut frames = vec![Frame { has_clauses: true, is_list: false }];
    let mut found = Vec::new();
    // Whether the name of a table may stand at the place.
    let mut begins_name = false;
    let mut place = 0;
    while place < places.len() {
        let Some(frame) = frames.last_mut() else { return found };
        match &tokens[places[place]].token {
            Token::LParen => {
                begins_name &= frame.is_list;
                frames.push(Frame { has_clauses: false, is_list: begins_name });
            }
            Token::RParen => {
                frames.pop();
                begins_name = false;
            }
            Token::Comma => begins_name = frame.is_list,
            Token::Word(_) if begins_name && !is_no_name(&word(place)) => {
                let (end, without) = named(tokens, &places, place);
                found.extend(without);
                begins_name = false;
                place = end - 1;
            }
            Token::Word(_) => {
                let before = if place == 0 { String::new() } else { word(place - 1) };
                begins_name = frame.begins_name(&word(place), &before, &word(0));
            }
            _ => begins_name = false,
        }
        place += 1;
    }
    found
}

impl Frame {
    /// Whether the name of a table may follow a word.
    fn begins_name(&mut self, word: &str, before: &str, first: &str) -> bool {
        match word {
            "where" | "group" | "having" | "order" | "window" | "limit" | "offset" | "fetch" | "for"
            | "union" | "except" | "intersect" | "set" | "returning" | "when" => {
                self.is_list = false;
                false
            }
            "select" | "values" => {
                *self = Frame { has_clauses: true, is_list: false };
                false
            }
            "from" => {
                self.is_list = self.has_clauses && before != "distinct";
                self.is_list
            }
            "using" => {
                self.is_list = self.has_clauses && matches!(first, "delete" | "merge" | "with" | "explain");
                self.is_list
            }
            "join" => self.is_list,
            "truncate" | "lock" => {
                self.is_list = before.is_empty() && first == word;
                self.is_list
            }
            "table" => matches!(first, "alter" | "truncate" | "lock"),
            "exists" => before == "if" && first == "alter",
            "update" => before != "for",
            "into" => first == "merge" || first == "with" || first == "explain",
            "on" => first == "create",
            _ => false,
        }
    }
}

/// Whether a word stands where a name might, and is none.
fn is_no_name(word: &str) -> bool {
    matches!(word, "select" | "values" | "with" | "lateral" | "table" | "if" | "exists" | "set" | "rows")
}

/// The place behind a table that begins at a place, and the tokens of it that say nothing.
fn named(tokens: &[TokenWithSpan], places: &[usize], first: usize) -> (usize, Vec<usize>) {
    let is = |place: usize, token: &Token| places.get(place).is_some_and(|&at| tokens[at].token == *token);
    let (mut name, mut without) = (first, Vec::new());
    if words::word(tokens, places, first) == "only" {
        without.push(places[first]);
        name += 1;
        let close = name_end(tokens, places, name + 1);
        if is(name, &Token::LParen) && is(close, &Token::RParen) {
            without.extend([places[name], places[close]]);
            return (close + 1, without);
        }
    }
    let end = name_end(tokens, places, name);
    if is(end, &Token::Mul) {
        without.push(places[end]);
    }
    (end.max(first + 1), without)
}

/// The place behind a name with dots.
fn name_end(tokens: &[TokenWithSpan], places: &[usize], first: usize) -> usize {
    let is_word =
        |place: usize| places.get(place).is_some_and(|&at| matches!(tokens[at].token, Token::Word(_)));
    let is_period = |place: usize| places.get(place).is_some_and(|&at| tokens[at].token == Token::Period);
    let mut end = first;
    while is_word(end) {
        end += 1;
        if !is_period(end) {
            break;
        }
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    /// What is read, in small letters and without spaces.
    fn read(sql: &str) -> String {
        plain(&crate::parse::parse(sql).unwrap().remove(0).ast.unwrap().to_string())
    }

    fn plain(sql: &str) -> String {
        sql.to_lowercase().replace(' ', "")
    }

    #[test]
    fn only_and_an_asterisk_at_a_table_are_left_out() {
        let cases = [
            ("SELECT * FROM ONLY a, ONLY (b.c) AS d", "SELECT * FROM a, b.c AS d"),
            ("SELECT 1 FROM (ONLY a JOIN ONLY b ON true)", "SELECT 1 FROM (a JOIN b ON true)"),
            (
                "SELECT 1 FROM a* c JOIN d * ON c.x * 2 = d.y, e*",
                "SELECT 1 FROM a c JOIN d ON c.x * 2 = d.y, e",
            ),
            ("UPDATE ONLY a SET b = c * d FROM e *", "UPDATE a SET b = c * d FROM e"),
            ("DELETE FROM ONLY a USING ONLY b", "DELETE FROM a USING b"),
            ("TRUNCATE ONLY a, b *", "TRUNCATE a, b"),
            ("ALTER TABLE IF EXISTS ONLY a DROP b", "ALTER TABLE IF EXISTS a DROP b"),
        ];
        for (sql, expected) in cases {
            let expected = crate::parse::parse(expected).unwrap().remove(0).ast.unwrap().to_string();
            assert_eq!(read(sql), plain(&expected));
        }
    }

    #[test]
    fn products_stay() {
        for sql in [
            "SELECT substring(a FROM b * 2), a IS DISTINCT FROM b * c FROM d",
            "SELECT count(*), a.* FROM a FETCH FIRST ROW ONLY",
            "SELECT a FROM b WHERE c * d > 1 GROUP BY a, e * f",
            "SELECT x FROM (VALUES (a * b)) AS v (x), f(c * d) AS g",
        ] {
            assert_eq!(read(sql).matches('*').count(), sql.matches('*').count(), "{sql}");
        }
    }
}
