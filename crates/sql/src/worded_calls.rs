//! Calls whose arguments are written with words that the parser does not know, with commas.
//!
//! | written | read |
//! | --- | --- |
//! | `substring(a SIMILAR b ESCAPE c)` | `substring(a, b, c)` |
//! | `trim(FROM a)`, `trim(LEADING FROM a)` | `trim(a)`, `trim(LEADING ' ' FROM a)` |
//! | `f(a, VARIADIC ARRAY[b, c])` | `f(a, b, c)` |
//!
//! What else VARIADIC stands before is refused.

use crate::name::not_supported;
use crate::words::Written;
use ankerdb_engine::Error;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A range of tokens, and those to put in their place.
type Replacement = (usize, usize, Vec<Token>);

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => {
            ["similar", "trim", "variadic"].iter().any(|form| word.value.eq_ignore_ascii_case(form))
        }
        _ => false,
    };
    if !tokens.iter().any(is_word) {
        return;
    }
    while replace(tokens) {}
}

/// Replaces what needs no other replacement before; whether there was something.
fn replace(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let written = Written::of(tokens);
    let mut found: Vec<Replacement> = Vec::new();
    for open in calls(&written) {
        if let Some(close) = written.closing(open) {
            found.extend(call(&written, open, close));
        }
    }
    found.sort_by_key(|(first, ..)| *first);
    // What stands within another is replaced first, since that copies it.
    let is_around = |number: usize| found.get(number + 1).is_some_and(|next| next.0 < found[number].1);
    let inner: Vec<usize> = (0..found.len()).filter(|&number| !is_around(number)).collect();
    let (mut replaced, mut done) = (Vec::with_capacity(tokens.len()), 0);
    for number in &inner {
        let (first, end, with) = &found[*number];
        let (first, last) = (written.places[*first], written.places[end - 1]);
        replaced.extend_from_slice(&tokens[done..first]);
        let span = tokens[first].span;
        replaced.extend(with.iter().map(|token| TokenWithSpan::new(token.clone(), span)));
        done = last + 1;
    }
    replaced.extend_from_slice(&tokens[done..]);
    let has_replaced = !inner.is_empty();
    if has_replaced {
        *tokens = replaced;
    }
    has_replaced
}

/// Where the parentheses of calls open that may be written with words.
fn calls(written: &Written<'_>) -> Vec<usize> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for place in 0..written.places.len() {
        match written.token(place) {
            Some(Token::LParen) => {
                if place > 0 && ["substring", "trim"].iter().any(|name| written.has(place - 1, &[name])) {
                    found.push(place);
                }
                open.push(place);
            }
            Some(Token::RParen) => drop(open.pop()),
            Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("variadic") => {
                found.extend(open.last().filter(|&&open| open > 0));
            }
            _ => {}
        }
    }
    found.dedup();
    found
}

/// What is to be replaced of the call whose parentheses stand at two places, from the first on.
fn call(written: &Written<'_>, open: usize, close: usize) -> Vec<Replacement> {
    let name = written.word(open - 1);
    let inner = || direct(written, open, close);
    match name.as_str() {
        "substring" => {
            let words = |word: &str| inner().into_iter().find(|&place| written.has(place, &[word]));
            match (words("similar"), words("escape")) {
                (Some(similar), Some(escape)) => {
                    vec![(similar, similar + 1, vec![Token::Comma]), (escape, escape + 1, vec![Token::Comma])]
                }
                _ => Vec::new(),
            }
        }
        "trim" if written.has(open + 1, &["from"]) => vec![(open + 1, open + 2, Vec::new())],
        "trim" if written.has(open + 2, &["from"]) && is_side(&written.word(open + 1)) => {
            vec![(
                open + 1,
                open + 2,
                vec![written.token(open + 1).cloned().unwrap_or(Token::EOF), space(), text(" "), space()],
            )]
        }
        _ => match inner().into_iter().find(|&place| is_variadic(written, place)) {
            Some(variadic) => spread(written, open, variadic, close),
            None => Vec::new(),
        },
    }
}

fn is_side(word: &str) -> bool {
    matches!(word, "both" | "leading" | "trailing")
}

/// The places between two parentheses that are in no others.
fn direct(written: &Written<'_>, open: usize, close: usize) -> Vec<usize> {
    let mut places = Vec::new();
    let mut place = open + 1;
    while place < close {
        places.push(place);
        place = match written.token(place) {
            Some(Token::LParen) => written.closing(place).unwrap_or(close) + 1,
            _ => place + 1,
        };
    }
    places
}

fn is_variadic(written: &Written<'_>, place: usize) -> bool {
    written.has(place, &["variadic"])
        && (written.is(place - 1, &Token::LParen) || written.is(place - 1, &Token::Comma))
}

/// The call with the items of its last argument, an array, as arguments.
fn spread(written: &Written<'_>, open: usize, variadic: usize, close: usize) -> Vec<Replacement> {
    let copied = |first: usize, end: usize| -> Vec<Token> {
        let between = first..end;
        between.flat_map(|place| [written.token(place).cloned().unwrap_or(Token::EOF), space()]).collect()
    };
    let is_list = written.has(variadic + 1, &["array"])
        && written.is(variadic + 2, &Token::LBracket)
        && written.is(close - 1, &Token::RBracket)
        && !(variadic + 3..close).any(|place| written.has(place, &["array"]));
    let commas = direct(written, open, variadic).into_iter();
    let before = commas.filter(|&place| written.is(place, &Token::Comma)).count();
    if is_list && fixed_arguments(&written.word(open - 1)) == Some(before) {
        // Without items the comma before goes, too.
        let is_empty = variadic + 3 == close - 1;
        let first = if is_empty && written.is(variadic - 1, &Token::Comma) { variadic - 1 } else { variadic };
        return vec![(first, close, copied(variadic + 3, close - 1))];
    }
    Vec::new()
}

/// How many arguments a function has before those of which there may be any number.
fn fixed_arguments(name: &str) -> Option<usize> {
    match name {
        "concat" | "num_nulls" | "num_nonnulls" | "json_build_array" | "json_build_object"
        | "jsonb_build_array" | "jsonb_build_object" => Some(0),
        "concat_ws"
        | "format"
        | "json_extract_path"
        | "json_extract_path_text"
        | "jsonb_extract_path"
        | "jsonb_extract_path_text" => Some(1),
        _ => None,
    }
}

/// 0A000 for what is left as it was written, and for names of the columns that a join has in common.
pub(crate) fn refused(tokens: &[TokenWithSpan]) -> Option<Error> {
    let is_word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => {
            ["variadic", "using", "collation"].iter().any(|form| word.value.eq_ignore_ascii_case(form))
        }
        _ => false,
    };
    if !tokens.iter().any(is_word) {
        return None;
    }
    let written = Written::of(tokens);
    let what = (1..written.places.len()).find_map(|place| {
        let opens = |ahead: usize| written.is(place + ahead, &Token::LParen);
        match written.word(place).as_str() {
            "variadic" if is_variadic(&written, place) => Some("VARIADIC before this argument"),
            "collation" if written.has(place + 1, &["for"]) && opens(2) => Some("COLLATION FOR"),
            "using" if opens(1) && is_named_list(&written, place + 1) => {
                Some("a name for the columns of USING")
            }
            _ => None,
        }
    });
    what.map(not_supported)
}

/// Whether a list of columns stands at a place, and AS behind it.
fn is_named_list(written: &Written<'_>, open: usize) -> bool {
    let Some(close) = written.closing(open) else { return false };
    let is_of_list = |place: usize| match written.token(place) {
        Some(Token::Word(_)) => place % 2 != open % 2,
        token => token == Some(&Token::Comma),
    };
    written.has(close + 1, &["as"]) && (open + 1..close).all(is_of_list)
}

fn space() -> Token {
    Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space)
}

fn text(text: &str) -> Token {
    Token::SingleQuotedString(text.to_owned())
}
