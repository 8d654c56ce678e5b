//! ALTER SEQUENCE, written as CREATE SEQUENCE, which has the same options but one.
//!
//! | written | read |
//! | --- | --- |
//! | `ALTER SEQUENCE IF EXISTS a.b RESTART WITH 5 INCREMENT 2` | `CREATE SEQUENCE "\0alter if exists restart 5".a.b INCREMENT 2` |
//!
//! No client can write the schema that stands for what is meant. New names and schemas are another matter ([`crate::naming`]).

use crate::words;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Begins the schema that stands for an alteration.
const ALTERED: &str = "\0alter";
const IF_EXISTS: &str = " if exists";
const RESTART: &str = " restart";

/// What an alteration says beside the options that a new sequence may have.
pub(crate) struct Alteration {
    pub if_exists: bool,
    /// Whether it begins again, and where, if that is told.
    pub restart: Option<Option<i64>>,
}

/// The alteration that a name stands for, with the sequence's name.
pub(crate) fn alteration(name: &ObjectName) -> Option<(Alteration, ObjectName)> {
    let marker = name.0.first()?.as_ident()?.value.strip_prefix(ALTERED)?;
    let if_exists = marker.starts_with(IF_EXISTS);
    let restart = marker.strip_prefix(IF_EXISTS).unwrap_or(marker).strip_prefix(RESTART);
    let restart = restart.map(|number| number.trim().parse().ok());
    Some((Alteration { if_exists, restart }, ObjectName(name.0[1..].to_vec())))
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if word(0) != "alter" || word(1) != "sequence" {
        return;
    }
    let if_exists = word(2) == "if" && word(3) == "exists";
    let name = if if_exists { 4 } else { 2 };
    let is_period = |place: usize| places.get(place).is_some_and(|&at| tokens[at].token == Token::Period);
    let options = (name + 1..).step_by(2).find(|&place| !is_period(place)).unwrap_or(name + 1);
    if options >= places.len() || matches!(word(options).as_str(), "rename" | "set" | "owner") {
        return;
    }
    let mut marker = format!("{ALTERED}{}", if if_exists { IF_EXISTS } else { "" });
    let mut gone = Vec::new();
    if let Some(restart) = (options..places.len()).find(|&place| word(place) == "restart") {
        marker.push_str(RESTART);
        gone.push(places[restart]);
        let mut next = restart + 1;
        if word(next) == "with" {
            gone.push(places[next]);
            next += 1;
        }
        let token = |place: usize| places.get(place).map(|&at| &tokens[at].token);
        let sign = usize::from(matches!(token(next), Some(Token::Minus | Token::Plus)));
        if let Some(Token::Number(number, _)) = token(next + sign) {
            let minus = if token(next) == Some(&Token::Minus) { "-" } else { "" };
            marker.push_str(&format!(" {minus}{number}"));
            gone.extend(&places[next..=next + sign]);
        }
    }
    gone.iter().rev().for_each(|&at| drop(tokens.remove(at)));
    let (first, span) = (places[name], tokens[places[name]].span);
    let marker = Token::Word(Word { value: marker, quote_style: Some('"'), keyword: Keyword::NoKeyword });
    tokens.splice(first..first, [marker, Token::Period].map(|token| TokenWithSpan::new(token, span)));
    if if_exists {
        tokens.drain(places[2]..=places[3]);
    }
    tokens[places[0]].token = Token::make_keyword("CREATE");
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;

    #[test]
    fn an_alteration_is_read_back() {
        let read = |sql: &str| {
            let statement = crate::parse::parse(sql).unwrap().remove(0);
            let Some(Statement::CreateSequence { name, sequence_options, .. }) = statement.ast.as_deref()
            else {
                panic!("{sql}")
            };
            let (alteration, name) = alteration(name).unwrap();
            (alteration.if_exists, alteration.restart, name.to_string(), sequence_options.len())
        };
        assert_eq!(read("ALTER SEQUENCE s RESTART"), (false, Some(None), "s".into(), 0));
        assert_eq!(
            read("ALTER SEQUENCE IF EXISTS a.s INCREMENT 2 RESTART WITH -5 CYCLE"),
            (true, Some(Some(-5)), "a.s".into(), 2)
        );
        assert_eq!(read("ALTER SEQUENCE s NO MAXVALUE"), (false, None, "s".into(), 1));
    }
}
