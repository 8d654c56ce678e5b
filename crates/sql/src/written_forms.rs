//! Ways to write that the parser does not know, in those that it does, before a statement is parsed.
//!
//! | written | read |
//! | --- | --- |
//! | `ABORT` | `ROLLBACK` |
//! | `INSERT INTO a (VALUES ...)` | `INSERT INTO a VALUES ...` |
//! | `a NOT LIKE ALL (b)` | `a !~~ ALL (b)` |
//! | `BETWEEN ASYMMETRIC` | `BETWEEN` |
//! | `ORDER BY a USING <` | `ORDER BY a ASC` |
//! | `(ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)` | `(PARTITION BY "operator frame"('ties') ORDER BY a ROWS 1 PRECEDING)` |
//! | `ROWS 1 PRECEDING EXCLUDE NO OTHERS` | `ROWS 1 PRECEDING` |
//! | `GROUPING SETS (a, GROUPING SETS (b))` | `GROUPING SETS (a, b)` |
//! | `GROUP BY DISTINCT a` | `GROUP BY "distinct sets", a` |
//! | `FETCH FIRST (1 + 1) ROWS ONLY` | `LIMIT (1 + 1)` |
//! | `IN ((SELECT ...), a)` | `IN (coalesce((SELECT ...)), a)` |
//! | `a LIKE b ESCAPE c` | `a LIKE like_escape(b, c)` |
//! | `VACUUM ANALYSE` | `VACUUM ANALYZE` |
//! | `a ANTI JOIN b` | `a AS "anti" JOIN b` |
//! | `a::int ARRAY` | `a::int[]` |
//! | `interval(3) '1 s'` | `CAST('1 s' AS interval(3))` |
//! | `(a).b`, `(a).*` | `a.b`, `a.*` |
//! | `SELECT a.*::text` | `SELECT (a.*)::text` |
//! | `MERGE INTO a USING b JOIN c ON d ON e` | `MERGE INTO a USING (b JOIN c ON d) ON e` |
//! | `WHERE CURRENT OF c` | `WHERE "WHERE CURRENT OF"()` |
//! | `FETCH FIRST 1 ROW ONLY OFFSET 2` | `OFFSET 2 FETCH FIRST 1 ROW ONLY` |

use crate::expression::library;
use crate::forms::DISTINCT;
use crate::name::folded;
use crate::plain_query::plain_select;
use crate::rewrite::TIES;
use crate::words::{places, word};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    write_abort(tokens);
    unwrap(tokens);
    write_patterns(tokens);
    leave_out_asymmetric(tokens);
    write_directions(tokens);
    crate::window_frames::write_exclusions(tokens);
    crate::window_frames::enclose_casts(tokens);
    write_groups(tokens);
    write_members(tokens);
    write_intervals(tokens);
    write_escapes(tokens);
    write_words(tokens);
    write_counts(tokens);
    name_intervals(tokens);
    write_fields(tokens);
    enclose_rows(tokens);
    enclose_sources(tokens);
    swap_limits(tokens);
    name_positions(tokens);
}

/// The name of the call that stands for a place of a cursor.
pub(crate) const CURRENT_OF: &str = "WHERE CURRENT OF";

/// `WHERE CURRENT OF c` as a call, which is refused by its name.
fn name_positions(tokens: &mut [TokenWithSpan]) {
    if !has_word(tokens, "current") {
        return;
    }
    let significant = places(tokens);
    let is = |place: usize, wanted: &str| word(tokens, &significant, place) == wanted;
    let found = (0..significant.len())
        .find(|&place| is(place, "where") && is(place + 1, "current") && is(place + 2, "of"));
    let Some(place) = found.filter(|place| place + 3 < significant.len()) else { return };
    let call = Word { value: CURRENT_OF.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
    tokens[significant[place + 1]].token = Token::Word(call);
    tokens[significant[place + 2]].token = Token::LParen;
    tokens[significant[place + 3]].token = Token::RParen;
}

/// A join that a MERGE reads, in parentheses: the last ON is that of the MERGE.
fn enclose_sources(tokens: &mut Vec<TokenWithSpan>) {
    if !has_word(tokens, "merge") {
        return;
    }
    let significant = places(tokens);
    let outer = outer_words(tokens, &significant);
    let find = |wanted: &str, from: usize| {
        outer.iter().find(|(place, word)| *place >= from && word == wanted).map(|(place, _)| *place)
    };
    let merge = find("merge", 0).filter(|merge| word(tokens, &significant, merge + 1) == "into");
    let Some(using) = merge.and_then(|merge| find("using", merge)) else { return };
    let when = find("when", using).unwrap_or(significant.len());
    let source = || outer.iter().filter(|(place, _)| (using..when).contains(place));
    let last = source().rev().find(|(_, word)| word == "on").map(|(place, _)| *place);
    let (Some(last), true) = (last, source().any(|(_, word)| word == "join")) else { return };
    let (first, last) = (significant[using] + 1, significant[last]);
    let span = tokens[first].span;
    tokens.insert(last, TokenWithSpan { token: Token::RParen, span });
    tokens.insert(first, TokenWithSpan { token: Token::LParen, span });
}

fn has_word(tokens: &[TokenWithSpan], wanted: &str) -> bool {
    let is_it = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted),
        _ => false,
    };
    tokens.iter().any(is_it)
}

/// The words outside of parentheses, with their places.
fn outer_words(tokens: &[TokenWithSpan], significant: &[usize]) -> Vec<(usize, String)> {
    let (mut depth, mut words) = (0_usize, Vec::new());
    for (place, &at) in significant.iter().enumerate() {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 => words.push((place, word(tokens, significant, place))),
            _ => {}
        }
    }
    words
}

/// `FETCH FIRST n ROWS ONLY OFFSET m`: the parser takes them the other way round.
fn swap_limits(tokens: &mut Vec<TokenWithSpan>) {
    if !has_word(tokens, "fetch") || !has_word(tokens, "offset") {
        return;
    }
    let significant = places(tokens);
    let is = |place: usize, wanted: &[&str]| wanted.contains(&word(tokens, &significant, place).as_str());
    let behind_fetch = |&offset: &usize| is(offset, &["offset"]) && is(offset - 1, &["only", "ties"]);
    let moves = (1..significant.len()).filter(behind_fetch).filter_map(|offset| {
        let fetch = (0..offset).rev().find(|&place| is(place, &["fetch"]))?;
        let begins = is(fetch + 1, &["first", "next"]);
        begins.then(|| (fetch, offset, end_of_offset(tokens, &significant, offset)))
    });
    for (fetch, offset, end) in moves.collect::<Vec<_>>().into_iter().rev() {
        let end = significant[end - 1] + 1;
        let mut moved: Vec<TokenWithSpan> = tokens.drain(significant[offset]..end).collect();
        let span = tokens[significant[fetch]].span;
        moved.push(TokenWithSpan { token: blank(), span });
        let at = significant[fetch];
        tokens.splice(at..at, moved);
    }
}

/// The place behind an OFFSET.
fn end_of_offset(tokens: &[TokenWithSpan], significant: &[usize], offset: usize) -> usize {
    let mut depth = 0_usize;
    for place in offset + 1..significant.len() {
        match tokens[significant[place]].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return place,
            Token::RParen => depth -= 1,
            _ if depth == 0 && word(tokens, significant, place) == "for" => return place,
            _ => {}
        }
    }
    significant.len()
}

/// A relation's row at the beginning of what is computed of it: the parser would take it for the columns of a list.
fn enclose_rows(tokens: &mut Vec<TokenWithSpan>) {
    use Token::{DoubleColon, Eq, Gt, GtEq, Lt, LtEq, Neq};
    let significant = places(tokens);
    let token = |place: usize| significant.get(place).map(|&at| &tokens[at].token);
    let is_row = |place: &usize| {
        matches!(token(*place), Some(Token::Word(_)))
            && token(place + 1) == Some(&Token::Period)
            && token(place + 2) == Some(&Token::Mul)
            && (matches!(token(place + 3), Some(DoubleColon | Eq | Neq | Lt | LtEq | Gt | GtEq))
                || word(tokens, &significant, place + 3) == "is")
            && place.checked_sub(1).is_none_or(|before| token(before) != Some(&Token::Period))
    };
    let rows: Vec<usize> = (0..significant.len()).filter(is_row).collect();
    for place in rows.into_iter().rev() {
        let (first, last) = (significant[place], significant[place + 2]);
        let span = tokens[first].span;
        tokens.insert(last + 1, TokenWithSpan { token: Token::RParen, span });
        tokens.insert(first, TokenWithSpan { token: Token::LParen, span });
    }
}

/// A field of a relation's row.
fn write_fields(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    for place in 0..significant.len().saturating_sub(4) {
        let token = |ahead: usize| &tokens[significant[place + ahead]].token;
        let is_field = matches!(token(0), Token::LParen)
            && matches!(token(1), Token::Word(_))
            && matches!(token(2), Token::RParen)
            && matches!(token(3), Token::Period)
            && matches!(token(4), Token::Word(_) | Token::Mul);
        // Behind a name it is a call.
        let before = place.checked_sub(1).map(|before| &tokens[significant[before]].token);
        let is_call = matches!(before, Some(Token::Word(word)) if word.keyword == Keyword::NoKeyword);
        if is_field && !is_call {
            tokens[significant[place]].token = blank();
            tokens[significant[place + 2]].token = blank();
        }
    }
}

/// `ABORT [WORK | TRANSACTION] [AND [NO] CHAIN]`
fn write_abort(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    let is_abort = word(tokens, &significant, 0) == "abort";
    if is_abort && matches!(word(tokens, &significant, 1).as_str(), "" | "work" | "transaction" | "and") {
        tokens[significant[0]].token = Token::make_keyword("ROLLBACK");
    }
}

/// Takes the parentheses off the query behind the name of the table.
fn unwrap(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    let is =
        |place: usize, token: &Token| significant.get(place).is_some_and(|&at| tokens[at].token == *token);
    let is_word = |place: usize, wanted: &str| word(tokens, &significant, place) == wanted;
    if !is_word(0, "insert") || !is_word(1, "into") {
        return;
    }
    let mut place = 3;
    while is(place, &Token::Period) {
        place += 2;
    }
    if is_word(place, "as") {
        place += 2;
    }
    let first = place;
    while is(place, &Token::LParen) {
        place += 1;
    }
    let begins_query = ["select", "values", "with", "table"].iter().any(|wanted| is_word(place, wanted));
    if place == first || !begins_query {
        return;
    }
    // Only the outer one: the parser knows queries in parentheses elsewhere.
    let Some(close) = closing(tokens, &significant, first) else { return };
    let ends = close + 1 == significant.len() || is_word(close + 1, "returning") || is_word(close + 1, "on");
    if !ends {
        return;
    }
    let (open, close) = (significant[first], significant[close]);
    tokens[close].token = blank();
    tokens[open].token = blank();
    unwrap(tokens);
}

/// LIKE and its variants before ANY and ALL, as the operators that the parser takes there.
fn write_patterns(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let mut replaced: Vec<(usize, usize, Token)> = Vec::new();
    for place in 0..significant.len() {
        let ignores_case = match word(tokens, &significant, place).as_str() {
            "like" => false,
            "ilike" => true,
            _ => continue,
        };
        let is_quantified = matches!(word(tokens, &significant, place + 1).as_str(), "any" | "all" | "some")
            && significant.get(place + 2).is_some_and(|&at| tokens[at].token == Token::LParen);
        if !is_quantified {
            continue;
        }
        let is_negated = place > 0 && word(tokens, &significant, place - 1) == "not";
        let token = match (is_negated, ignores_case) {
            (false, false) => Token::DoubleTilde,
            (false, true) => Token::DoubleTildeAsterisk,
            (true, false) => Token::ExclamationMarkDoubleTilde,
            (true, true) => Token::ExclamationMarkDoubleTildeAsterisk,
        };
        let first = if is_negated { place - 1 } else { place };
        replaced.push((significant[first], significant[place], token));
    }
    for (first, last, token) in replaced.into_iter().rev() {
        tokens[last].token = token;
        tokens.drain(first..last);
    }
}

/// The word that makes BETWEEN look at both orders of its bounds.
pub(crate) const SYMMETRIC: &str = "symmetric";

/// BETWEEN ASYMMETRIC, which is BETWEEN.
fn leave_out_asymmetric(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let after_between = |place: &usize| {
        *place > 0
            && word(tokens, &significant, *place) == "asymmetric"
            && word(tokens, &significant, *place - 1) == "between"
    };
    let found: Vec<usize> =
        (0..significant.len()).filter(after_between).map(|place| significant[place]).collect();
    for at in found.into_iter().rev() {
        tokens.remove(at);
    }
}

/// The operators of an order, which are its direction. They stand behind USING nowhere else.
fn write_directions(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    let direction = |place: usize| {
        let operator = significant.get(place + 1).map(|&at| &tokens[at].token)?;
        let direction = match operator {
            Token::Lt => "ASC",
            Token::Gt => "DESC",
            _ => return None,
        };
        (word(tokens, &significant, place) == "using").then_some((place, direction))
    };
    let found: Vec<(usize, &str)> = (0..significant.len()).filter_map(direction).collect();
    for (place, direction) in found {
        tokens[significant[place]].token = Token::make_keyword(direction);
        tokens[significant[place + 1]].token = blank();
    }
}

/// ESCAPE by something else than a character between quotes: the pattern is one that is made by a function.
fn write_escapes(tokens: &mut Vec<TokenWithSpan>) {
    let is_escape = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("escape"));
    if !tokens.iter().any(is_escape) {
        return;
    }
    let significant = places(tokens);
    // Where LIKE, ESCAPE and what it is escaped by end, from the last one on, so that patterns may have patterns within.
    for place in (1..significant.len()).rev() {
        if word(tokens, &significant, place) != "escape" {
            continue;
        }
        let is_plain = match significant.get(place + 1).map(|&at| &tokens[at].token) {
            Some(Token::SingleQuotedString(text)) => text.chars().count() == 1,
            _ => false,
        };
        let Some(like) = like_before(tokens, &significant, place).filter(|_| !is_plain) else { continue };
        let Some(end) = operand_end(tokens, &significant, place + 1) else { continue };
        let span = tokens[significant[place]].span;
        let with = |token: Token| TokenWithSpan { token, span };
        tokens.insert(significant[end] + 1, with(Token::RParen));
        tokens[significant[place]].token = Token::Comma;
        let call = [blank(), Token::make_word("like_escape", None), Token::LParen];
        let behind = significant[like] + 1;
        tokens.splice(behind..behind, call.map(with));
        // Places have moved: what is left is before this one.
        return write_escapes(tokens);
    }
}

/// The LIKE or ILIKE whose pattern ends before a place.
fn like_before(tokens: &[TokenWithSpan], significant: &[usize], end: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for place in (0..end).rev() {
        match &tokens[significant[place]].token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ => match word(tokens, significant, place).as_str() {
                "like" | "ilike" => return Some(place),
                "similar" | "escape" => return None,
                _ => {}
            },
        }
    }
    None
}

/// The last token of an operand: a name, a constant or what is in parentheses, called and cast.
fn operand_end(tokens: &[TokenWithSpan], significant: &[usize], first: usize) -> Option<usize> {
    let token = |place: usize| significant.get(place).map(|&at| &tokens[at].token);
    let mut end = match token(first)? {
        Token::LParen => closing(tokens, significant, first)?,
        Token::Word(_) | Token::SingleQuotedString(_) | Token::Placeholder(_) | Token::Number(..) => first,
        _ => return None,
    };
    loop {
        end = match token(end + 1) {
            Some(Token::Period | Token::DoubleColon) => end + 2,
            Some(Token::LParen) if matches!(token(end), Some(Token::Word(_))) => {
                closing(tokens, significant, end + 1)?
            }
            _ => return Some(end),
        };
    }
}

/// Words that are others in the parser's grammar.
fn write_words(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let is = |place: usize, wanted: &str| word(tokens, &significant, place) == wanted;
    let mut replaced: Vec<(usize, Vec<Token>)> = Vec::new();
    for place in 0..significant.len() {
        let at = significant[place];
        let is_keyword = |before: &str| {
            let joins = ["left", "right", "full", "inner", "outer", "natural", "cross"];
            joins.contains(&before) || matches!(before, "as" | "from" | "join" | "lateral" | "only")
        };
        let is_named = place > 0
            && matches!(tokens[significant[place - 1]].token, Token::Word(_))
            && !is_keyword(&word(tokens, &significant, place - 1));
        if is(place, "analyse") && (place == 0 || is(0, "vacuum")) {
            replaced.push((at, vec![Token::make_keyword("ANALYZE")]));
        } else if is_named && is(place + 1, "join") && (is(place, "anti") || is(place, "semi")) {
            let name = word(tokens, &significant, place);
            replaced.push((at, vec![Token::make_keyword("AS"), blank(), Token::make_word(&name, Some('"'))]));
        } else if is(place, "array") && is_behind_type(tokens, &significant, place) {
            let is_sized = significant.get(place + 1).is_some_and(|&at| tokens[at].token == Token::LBracket);
            let brackets = vec![Token::LBracket, Token::RBracket];
            replaced.push((at, if is_sized { Vec::new() } else { brackets }));
        }
    }
    for (at, with) in replaced.into_iter().rev() {
        let span = tokens[at].span;
        tokens.splice(at..=at, with.into_iter().map(|token| TokenWithSpan { token, span }));
    }
}

/// Whether what stands before a place is a type that ARRAY may stand behind: `integer`, `varchar(3)`, `timestamp with time zone`.
fn is_behind_type(tokens: &[TokenWithSpan], significant: &[usize], place: usize) -> bool {
    let Some(mut last) = place.checked_sub(1) else { return false };
    if tokens[significant[last]].token == Token::RParen {
        let opened = |open: &usize| closing(tokens, significant, *open) == Some(last);
        let open = (last.saturating_sub(LENGTH_TOKENS)..last).rev().find(opened);
        let Some(before) = open.and_then(|open| open.checked_sub(1)) else { return false };
        last = before;
    }
    matches!(tokens[significant[last]].token, Token::Word(_)) && is_item(&word(tokens, significant, last))
}

/// The most tokens of a type's length or digits: `(6, 2)`.
const LENGTH_TOKENS: usize = 4;

/// Whether a word ends the name of a type.
fn is_item(word: &str) -> bool {
    let types = [
        "smallint",
        "int",
        "integer",
        "bigint",
        "int2",
        "int4",
        "int8",
        "real",
        "float4",
        "float8",
        "precision",
        "numeric",
        "decimal",
        "text",
        "varchar",
        "char",
        "character",
        "varying",
        "bit",
        "varbit",
        "zone",
        "inet",
        "cidr",
        "oid",
        "name",
        "dec",
        "float",
        "boolean",
        "bool",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "bytea",
        "json",
        "jsonb",
    ];
    types.contains(&word)
}

/// `INTERVAL '1' days` is an interval of one second that is called days: the parser knows more units than PostgreSQL.
fn name_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let is_constant = |place: usize| {
        significant.get(place).is_some_and(|&at| matches!(tokens[at].token, Token::SingleQuotedString(_)))
    };
    let is_name = |place: usize| {
        let word = word(tokens, &significant, place);
        let singular = word.strip_suffix('s').unwrap_or(&word);
        let units = ["year", "month", "day", "hour", "minute", "second"];
        let foreign = ["week", "quarter", "decade", "century", "centurie", "millennium", "millenium"];
        let small = ["millisecond", "microsecond", "nanosecond", "dow", "epoch"];
        foreign.contains(&singular)
            || small.contains(&singular)
            || (units.contains(&singular) && singular != word)
    };
    let found: Vec<usize> = (2..significant.len())
        .filter(|&place| {
            word(tokens, &significant, place - 2) == "interval" && is_constant(place - 1) && is_name(place)
        })
        .map(|place| significant[place])
        .collect();
    for at in found.into_iter().rev() {
        let (name, span) = (Token::make_keyword("AS"), tokens[at].span);
        tokens.insert(at, TokenWithSpan { token: blank(), span });
        tokens.insert(at, TokenWithSpan { token: name, span });
    }
}

/// The counts of FETCH that are no constants.
fn write_counts(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    let is = |place: usize, wanted: &[&str]| wanted.contains(&word(tokens, &significant, place).as_str());
    let opens = |place: usize| significant.get(place).is_some_and(|&at| tokens[at].token == Token::LParen);
    let mut found = Vec::new();
    for place in 0..significant.len() {
        if !is(place, &["fetch"]) || !is(place + 1, &["first", "next"]) || !opens(place + 2) {
            continue;
        }
        let Some(close) = closing(tokens, &significant, place + 2) else { continue };
        let ends = match is(close + 1, &["row", "rows"]) {
            true if is(close + 2, &["only"]) => close + 2,
            true if is(close + 2, &["with"]) && is(close + 3, &["ties"]) => close + 3,
            _ => continue,
        };
        found.push((place, close, ends));
    }
    for (place, close, ends) in found {
        let has_ties = ends == close + 3;
        tokens[significant[place]].token = Token::make_keyword("LIMIT");
        tokens[significant[place + 1]].token = match has_ties {
            true => Token::make_word(TIES, Some('"')),
            false => blank(),
        };
        significant[close + 1..=ends].iter().for_each(|&at| tokens[at].token = blank());
    }
}

/// Whether a token is a keyword that is written without quotes.
pub(crate) fn is_symmetric(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(SYMMETRIC),
        _ => false,
    }
}

/// Where the parenthesis closes that opens at a place.
fn closing(tokens: &[TokenWithSpan], significant: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..significant.len()).find(|&place| {
        match tokens[significant[place]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// Sets within sets, and ALL and DISTINCT before groups.
fn write_groups(tokens: &mut [TokenWithSpan]) {
    let significant = places(tokens);
    // Where lists of sets end that are being read.
    let mut ends: Vec<usize> = Vec::new();
    for place in 0..significant.len() {
        ends.retain(|end| *end > place);
        let is = |place: usize, wanted: &str| word(tokens, &significant, place) == wanted;
        if is(place, "group") && is(place + 1, "by") && significant.len() > place + 3 {
            let at = significant[place + 2];
            if is(place + 2, "all") {
                tokens[at].token = blank();
            } else if is(place + 2, "distinct") {
                // The word and a comma need two tokens; the blank before the next one is the other.
                let mark =
                    Word { value: DISTINCT.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
                if matches!(tokens[at + 1].token, Token::Whitespace(_)) {
                    tokens[at].token = Token::Word(mark);
                    tokens[at + 1].token = Token::Comma;
                }
            }
            continue;
        }
        let opens = significant.get(place + 2).is_some_and(|&at| tokens[at].token == Token::LParen);
        if !(is(place, "grouping") && is(place + 1, "sets") && opens) {
            continue;
        }
        let Some(end) = closing(tokens, &significant, place + 2) else { continue };
        if !ends.is_empty() {
            for place in [place, place + 1, place + 2, end] {
                tokens[significant[place]].token = blank();
            }
        }
        ends.push(end);
    }
}

/// The value behind IN that stands in a call, as [`write_members`] writes it; other values as they are.
pub(crate) fn member(value: &Expr) -> &Expr {
    let Expr::Function(call) = value else { return value };
    let FunctionArguments::List(list) = &call.args else { return value };
    match (call.name.to_string().as_str(), list.args.as_slice()) {
        ("coalesce", [FunctionArg::Unnamed(FunctionArgExpr::Expr(query @ Expr::Subquery(_)))]) => query,
        _ => value,
    }
}

/// A subquery that is the first of several values behind IN.
fn write_members(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let is =
        |place: usize, token: &Token| significant.get(place).is_some_and(|&at| tokens[at].token == *token);
    let mut wrapped: Vec<(usize, usize)> = Vec::new();
    for place in 0..significant.len() {
        let begins = word(tokens, &significant, place) == "in"
            && is(place + 1, &Token::LParen)
            && is(place + 2, &Token::LParen);
        if !begins || word(tokens, &significant, place + 3) != "select" {
            continue;
        }
        match closing(tokens, &significant, place + 2) {
            Some(end) if is(end + 1, &Token::Comma) => {
                wrapped.push((significant[place + 2], significant[end]));
            }
            _ => {}
        }
    }
    for (open, close) in wrapped.into_iter().rev() {
        let (first, last) = (tokens[open].span, tokens[close].span);
        tokens.insert(close, TokenWithSpan::new(Token::RParen, last));
        tokens.insert(open, TokenWithSpan::new(Token::LParen, first));
        let word = Word { value: "coalesce".to_owned(), quote_style: None, keyword: Keyword::NoKeyword };
        tokens.insert(open, TokenWithSpan::new(Token::Word(word), first));
    }
}

/// An interval whose digits are told before its text.
fn write_intervals(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let token = |place: usize| significant.get(place).map(|&at| &tokens[at].token);
    let is_it = |place: &usize| {
        matches!(
            (token(*place + 1), token(*place + 2), token(*place + 3), token(*place + 4)),
            (
                Some(Token::LParen),
                Some(Token::Number(..)),
                Some(Token::RParen),
                Some(Token::SingleQuotedString(_))
            )
        ) && word(tokens, &significant, *place) == "interval"
    };
    let found: Vec<usize> = (0..significant.len()).filter(is_it).collect();
    for place in found.into_iter().rev() {
        let at = |behind: usize| significant[place + behind];
        let last = tokens[at(4)].span;
        let (digits, text) = (tokens[at(2)].token.clone(), tokens[at(4)].token.clone());
        let behind = [Token::LParen, digits, Token::RParen, Token::RParen];
        let behind = behind.map(|token| TokenWithSpan::new(token, last));
        tokens.splice(at(4) + 1..at(4) + 1, behind);
        tokens[at(0)].token = Token::make_keyword("CAST");
        tokens[at(2)].token = text;
        tokens[at(3)].token = Token::make_keyword("AS");
        tokens[at(4)].token = Token::make_keyword("INTERVAL");
    }
}

/// One row of values as a SELECT, if one of them is a call that gives rows.
pub(crate) fn rows_of_values(statement: &mut Statement) {
    let Statement::Insert(insert) = statement else { return };
    let Some(source) = &mut insert.source else { return };
    let SetExpr::Values(values) = source.body.as_ref() else { return };
    let [row] = values.rows.as_slice() else { return };
    let gives_rows = |value: &Expr| {
        let Expr::Function(function) = value else { return false };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        library::is_set(&name) || name == "unnest" || name == "generate_subscripts"
    };
    if row.content.iter().any(gives_rows) {
        let items = row.content.iter().cloned().map(SelectItem::UnnamedExpr).collect();
        *source.body = SetExpr::Select(Box::new(plain_select(items, Vec::new(), None)));
    }
}

#[cfg(test)]
mod tests {
    fn read(sql: &str) -> String {
        crate::parse::parse(sql).unwrap().remove(0).ast.unwrap().to_string()
    }

    #[test]
    fn a_query_in_parentheses_is_no_list_of_columns() {
        assert_eq!(read("INSERT INTO a (VALUES (1))"), "INSERT INTO a VALUES (1)");
        assert_eq!(read("INSERT INTO s.a ((SELECT 1)) RETURNING b"), "INSERT INTO s.a SELECT 1 RETURNING b");
        assert_eq!(read("INSERT INTO a (b) VALUES (1)"), "INSERT INTO a (b) VALUES (1)");
    }

    #[test]
    fn digits_before_the_text_of_an_interval_are_its_type_s() {
        assert_eq!(
            read("SELECT interval(3) '1.2345', interval ( 0 )'1' + interval '2'"),
            "SELECT CAST('1.2345' AS INTERVAL(3)), CAST('1' AS INTERVAL(0)) + CAST('2' AS INTERVAL)"
        );
    }

    #[test]
    fn patterns_before_any_are_operators() {
        assert_eq!(read("SELECT 'a' NOT ILIKE ALL (ARRAY['b'])"), "SELECT (('a') !~~* ('b'))");
    }
}
