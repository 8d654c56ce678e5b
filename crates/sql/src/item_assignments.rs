//! Assignments to items of arrays, as assignments of the whole array, so that the parser reads them.
//!
//! | written | read |
//! | --- | --- |
//! | `SET a[2] = x` | `SET a = "\0assign"("\0own a", x, 2)` |
//! | `SET a[1] = x, a[2][3] = y` | `SET a = "\0assign"("\0assign"("\0own a", x, 1), y, 2, 3)` |
//! | `SET a[2:3][4] = x` | `SET a = "\0assign slice"("\0own a", x, 2, 3, 1, 4)` |
//! | `SET a[:n] = x` | `SET a = "\0assign slice"("\0own a", x, "\0open", n)` |
//!
//! No client can write these names. The second is that of a column of the table that is written, whatever other tables have.

use crate::words;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::ops::Range;

/// The function of an array, of what one of its items becomes, and of the item's positions.
pub(crate) const ASSIGN: &str = "\0assign";
/// The function of an array, of what its slice becomes, and of two bounds for each dimension.
pub(crate) const ASSIGN_SLICE: &str = "\0assign slice";
/// Stands for a bound that is not written.
pub(crate) const OPEN: &str = "\0open";
/// Begins the name of a column of the table that is written.
pub(crate) const OWN: &str = "\0own ";

/// Whether an expression is such an assignment.
pub(crate) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if matches!(function.name.0.as_slice(),
        [ObjectNamePart::Identifier(name)] if [ASSIGN, ASSIGN_SLICE].contains(&name.value.as_str())))
}

/// The array, what the item becomes, and the positions.
pub(crate) fn operands_mut(call: &mut Expr) -> Vec<&mut Expr> {
    let Expr::Function(function) = call else { return Vec::new() };
    let FunctionArguments::List(list) = &mut function.args else { return Vec::new() };
    let arguments = list.args.iter_mut();
    arguments
        .filter_map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(operand)) => Some(operand),
            _ => None,
        })
        .collect()
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| token.token == Token::LBracket) {
        return;
    }
    let places = words::places(tokens);
    let lists = (0..places.len()).filter(|&place| words::word(tokens, &places, place) == "set");
    let lists: Vec<_> = lists.filter_map(|set| list(tokens, &places, set + 1)).collect();
    // From behind, so that the places of those before stay.
    let mut behind = places.len();
    for (range, assignments) in lists.into_iter().rev().filter(|(_, list)| list.iter().any(is_of_item)) {
        // A list within a value of another one is no SQL: what is wrong with it is for the parser to say.
        if range.end > behind {
            continue;
        }
        behind = range.start;
        let whole = places[range.start]..places[range.end - 1] + 1;
        tokens.splice(whole, written(assignments));
    }
}

/// `target = value`
struct Assignment {
    target: TokenWithSpan,
    /// The tokens between each pair of brackets.
    positions: Vec<Vec<TokenWithSpan>>,
    value: Vec<TokenWithSpan>,
}

fn is_of_item(assignment: &Assignment) -> bool {
    !assignment.positions.is_empty()
}

/// The assignments that begin at a place, and the places of their tokens; `None` if something else stands there.
fn list(tokens: &[TokenWithSpan], places: &[usize], begin: usize) -> Option<(Range<usize>, Vec<Assignment>)> {
    let at = |place: usize| places.get(place).map(|&at| &tokens[at]);
    let is = |place: usize, token: &Token| at(place).is_some_and(|found| found.token == *token);
    let copied = |range: Range<usize>| places[range].iter().map(|&at| tokens[at].clone()).collect::<Vec<_>>();
    let (mut place, mut assignments) = (begin, Vec::new());
    loop {
        let target = at(place).filter(|token| matches!(token.token, Token::Word(_)))?.clone();
        place += 1;
        let mut positions = Vec::new();
        while is(place, &Token::LBracket) {
            let close = closing(tokens, places, place)?;
            positions.push(copied(place + 1..close));
            place = close + 1;
        }
        if !is(place, &Token::Eq) {
            return None;
        }
        let end = value_end(tokens, places, place + 1);
        if end == place + 1 {
            return None;
        }
        assignments.push(Assignment { target, positions, value: copied(place + 1..end) });
        place = end;
        if !is(place, &Token::Comma) {
            return Some((begin..place, assignments));
        }
        place += 1;
    }
}

/// The place of the bracket that closes the one at a place.
fn closing(tokens: &[TokenWithSpan], places: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..places.len()).find(|&place| {
        match tokens[places[place]].token {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// The place behind the value that begins at a place.
fn value_end(tokens: &[TokenWithSpan], places: &[usize], begin: usize) -> usize {
    let (mut depth, mut cases) = (0, 0);
    let ends = |&place: &usize| {
        match tokens[places[place]].token {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => depth -= 1,
            Token::Comma => return depth == 0,
            _ => {}
        }
        if depth != 0 {
            return depth < 0;
        }
        match words::word(tokens, places, place).as_str() {
            "case" => cases += 1,
            "end" => cases -= 1,
            "where" | "returning" => return true,
            "when" => return cases == 0,
            "from" => return words::word(tokens, places, place - 1) != "distinct",
            _ => {}
        }
        false
    };
    (begin..places.len()).find(ends).unwrap_or(places.len())
}

/// The tokens of the assignments, one for each column.
fn written(assignments: Vec<Assignment>) -> Vec<TokenWithSpan> {
    let mut whole: Vec<Assignment> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let is_same = |other: &&mut Assignment| {
            is_of_item(other) && is_of_item(&assignment) && name(&other.target) == name(&assignment.target)
        };
        match whole.iter_mut().find(is_same) {
            Some(before) => {
                let array = std::mem::take(&mut before.value);
                before.value = call(array, assignment);
            }
            None if is_of_item(&assignment) => {
                let (target, positions) = (assignment.target.clone(), assignment.positions.clone());
                let own = quoted(format!("{OWN}{}", name(&target)));
                let value = call(vec![TokenWithSpan::new(own, target.span)], assignment);
                whole.push(Assignment { target, positions, value });
            }
            None => whole.push(assignment),
        }
    }
    let mut tokens = Vec::new();
    for Assignment { target, value, .. } in whole {
        let span = target.span;
        if !tokens.is_empty() {
            tokens.push(TokenWithSpan::new(Token::Comma, span));
        }
        tokens.extend([target, TokenWithSpan::new(Token::Eq, span)]);
        tokens.extend(value);
    }
    tokens
}

/// A column's name, as names are compared.
fn name(target: &TokenWithSpan) -> String {
    match &target.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        Token::Word(word) => word.value.clone(),
        _ => String::new(),
    }
}

fn quoted(value: String) -> Token {
    Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

/// The array with the item, as a call.
fn call(array: Vec<TokenWithSpan>, assignment: Assignment) -> Vec<TokenWithSpan> {
    let span = assignment.target.span;
    let token = |token: Token| TokenWithSpan::new(token, span);
    let is_slice = assignment.positions.iter().any(|position| colon(position).is_some());
    let function = if is_slice { ASSIGN_SLICE } else { ASSIGN };
    let mut tokens = vec![token(quoted(function.to_owned())), token(Token::LParen)];
    tokens.extend(array);
    tokens.push(token(Token::Comma));
    tokens.extend(assignment.value);
    for position in assignment.positions {
        tokens.push(token(Token::Comma));
        if is_slice {
            let one = vec![token(Token::Number("1".to_owned(), false))];
            let (lower, upper) = match colon(&position) {
                Some(at) => (position[..at].to_vec(), position[at + 1..].to_vec()),
                None => (one, position),
            };
            let open = || vec![token(quoted(OPEN.to_owned()))];
            tokens.extend(if lower.is_empty() { open() } else { lower });
            tokens.push(token(Token::Comma));
            tokens.extend(if upper.is_empty() { open() } else { upper });
        } else {
            tokens.extend(position);
        }
    }
    tokens.push(token(Token::RParen));
    tokens
}

/// Where the bounds of a slice part.
fn colon(position: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0;
    position.iter().position(|part| {
        match part.token {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && part.token == Token::Colon
    })
}
