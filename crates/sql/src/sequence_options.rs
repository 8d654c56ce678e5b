//! Puts the options of sequences into the order in which the parser reads them.
//!
//! SQL has them in any order, as `START WITH 1 INCREMENT BY 1 NO MINVALUE`, which is how dumps of PostgreSQL write them. The parser
//! has no place for the `SEQUENCE NAME` of an identity column, so it goes along with the number of `CACHE`, behind a zero that no
//! client can write.

use crate::words;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// Rewrites the tokens of one statement, if it has such options.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    hide_name(tokens);
    reorder(tokens);
}

/// The number of a CACHE, and the parts of the SEQUENCE NAME that goes along with it.
pub(crate) fn cache(number: &str) -> (&str, Option<Vec<String>>) {
    let mut parts = number.split('\0');
    let number = parts.next().unwrap_or_default();
    let name: Vec<String> = parts.map(str::to_owned).collect();
    (number, (!name.is_empty()).then_some(name))
}

/// Writes `SEQUENCE NAME a.b ... CACHE 1` as `... CACHE 1\0a\0b`. Of two names one stays as it is, which is a syntax error.
fn hide_name(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    let begins = |place: &usize| word(*place) == "sequence" && word(place + 1) == "name";
    let Some(first) = (0..places.len()).find(begins) else { return };
    let options = self::places(tokens).into_iter().find(|options| options.contains(&places[first]));
    let Some(options) = options else { return };
    let part = |place: usize| match places.get(place).map(|&at| &tokens[at].token) {
        Some(Token::Word(word)) => Some(crate::name::folded(&word.to_ident(tokens[places[place]].span))),
        _ => None,
    };
    let (mut name, mut end) = (String::new(), first + 2);
    loop {
        let Some(part) = part(end) else { return };
        name.extend(["\0", &part]);
        end += 1;
        if places.get(end).is_none_or(|&at| tokens[at].token != Token::Period) {
            break;
        }
        end += 1;
    }
    let behind = places.get(end).copied().unwrap_or(options.end);
    let cache = (end..places.len())
        .chain(0..first)
        .find(|&place| options.contains(&places[place]) && word(place) == "cache")
        .and_then(|place| places.get(place + 1).copied());
    match cache.map(|at| &mut tokens[at].token) {
        Some(Token::Number(number, _)) => {
            number.push_str(&name);
            tokens.drain(places[first]..behind);
        }
        _ => {
            let span = tokens[places[first]].span;
            let option = [Token::make_keyword("CACHE"), Token::Number(format!("1{name}"), false)];
            tokens.splice(places[first]..behind, option.map(|token| TokenWithSpan::new(token, span)));
        }
    }
}

fn reorder(tokens: &mut [TokenWithSpan]) {
    for options in places(tokens) {
        let starts: Vec<usize> = options.clone().filter(|&at| rank(tokens, at).is_some()).collect();
        let Some(&first) = starts.first() else { continue };
        let ends = starts.iter().skip(1).copied().chain([options.end]);
        let mut parts: Vec<(Option<u8>, Vec<TokenWithSpan>)> = starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| (rank(tokens, start), tokens[start..end].to_vec()))
            .collect();
        parts.sort_by_key(|(rank, _)| *rank);
        let ordered = parts.into_iter().flat_map(|(_, part)| part);
        tokens[first..options.end].iter_mut().zip(ordered).for_each(|(token, ordered)| *token = ordered);
    }
}

/// Where options may stand: behind the name of CREATE SEQUENCE, and in parentheses behind IDENTITY.
fn places(tokens: &[TokenWithSpan]) -> Vec<Range<usize>> {
    let words: Vec<(usize, Option<Keyword>)> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)))
        .map(|(at, token)| (at, keyword(&token.token)))
        .collect();
    let is_sequence = |(_, word): &(usize, Option<Keyword>)| *word == Some(Keyword::SEQUENCE);
    if matches!(words.first(), Some((_, Some(Keyword::CREATE))))
        && let Some(at) = words.iter().take(3).position(is_sequence)
    {
        // The word behind is the name, whatever it is.
        return words.get(at + 2).map(|(first, _)| *first..tokens.len()).into_iter().collect();
    }
    let opens = words
        .windows(2)
        .filter(|pair| pair[0].1 == Some(Keyword::IDENTITY) && tokens[pair[1].0].token == Token::LParen);
    let place = |open: usize| {
        let close = tokens[open..].iter().position(|token| token.token == Token::RParen)?;
        Some(open + 1..open + close)
    };
    opens.filter_map(|pair| place(pair[1].0)).collect()
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// How early the option that begins at this token is read; `None` if none does.
fn rank(tokens: &[TokenWithSpan], at: usize) -> Option<u8> {
    let significant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let before = tokens[..at].iter().rev().find(significant).and_then(|token| keyword(&token.token));
    if before == Some(Keyword::NO) {
        return None;
    }
    let word = match keyword(&tokens[at].token)? {
        Keyword::NO => keyword(&tokens[at + 1..].iter().find(significant)?.token)?,
        other => other,
    };
    match word {
        Keyword::INCREMENT => Some(0),
        Keyword::MINVALUE => Some(1),
        Keyword::MAXVALUE => Some(2),
        Keyword::START => Some(3),
        Keyword::CACHE => Some(4),
        Keyword::CYCLE => Some(5),
        Keyword::OWNED => Some(6),
        _ => None,
    }
}
