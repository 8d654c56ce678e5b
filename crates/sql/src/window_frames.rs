//! Frames of windows that the parser or DataFusion does not know, beside the columns that a window is parted by.
//!
//! `EXCLUDE TIES` is not read by the parser, and bounds that are no plain numbers, or between which there may be no rows, not by
//! DataFusion's planner. Both go through them as the arguments of a call among those columns, which
//! [`typing`](crate::olap) takes out again:
//! ```text
//! (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)     (PARTITION BY "operator frame"('ties') ORDER BY a ROWS 1 PRECEDING)
//! (ORDER BY a RANGE BETWEEN b + 1 PRECEDING AND CURRENT ROW)
//!     (PARTITION BY "operator frame"('', 'range', 'preceding', b + 1, 'current', NULL) ORDER BY a)
//! ```

use crate::name::dotted;
use crate::words::{places, word};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    Value, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The name of the call.
pub(crate) const FRAME: &str = "operator frame";

/// Writes the rows that frames leave out beside the columns of their windows.
pub(crate) fn write_exclusions(tokens: &mut Vec<TokenWithSpan>) {
    let excludes = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::EXCLUDE);
    if !tokens.iter().any(|token| excludes(&token.token)) {
        return;
    }
    let significant = places(tokens);
    let mut written: Vec<(usize, Vec<Token>)> = Vec::new();
    for place in 0..significant.len() {
        let Some((what, words)) = exclusion(tokens, &significant, place) else { continue };
        let Some(open) = window_of(tokens, &significant, place) else { continue };
        significant[place..place + words].iter().for_each(|&at| tokens[at].token = blank());
        if !what.is_empty() {
            written.push(marker(tokens, &significant, open, what));
        }
    }
    written.sort_by_key(|(at, _)| *at);
    for (at, marker) in written.into_iter().rev() {
        let span = tokens[at].span;
        let marker = marker.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(at + 1..at + 1, marker);
    }
}

/// Writes constants with casts, and numbers in quotes, before the words of bounds in parentheses: the parser takes the constant for an
/// interval.
pub(crate) fn enclose_casts(tokens: &mut Vec<TokenWithSpan>) {
    let ends_bound = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if matches!(word.keyword, Keyword::PRECEDING | Keyword::FOLLOWING));
    if !tokens.iter().any(ends_bound) {
        return;
    }
    let significant = places(tokens);
    let mut enclosed: Vec<(usize, usize)> = Vec::new();
    for place in 1..significant.len().saturating_sub(1) {
        let Token::SingleQuotedString(text) = &tokens[significant[place]].token else { continue };
        let behind = &tokens[significant[place + 1]];
        let is_operand =
            behind.token == Token::DoubleColon || ends_bound(behind) && text.trim().parse::<f64>().is_ok();
        let before = word(tokens, &significant, place - 1);
        if !is_operand || !matches!(before.as_str(), "range" | "between" | "and") {
            continue;
        }
        let ends = |at: &usize| matches!(tokens[significant[*at]].token, Token::LParen | Token::RParen);
        let is_bound =
            |at: &usize| matches!(word(tokens, &significant, *at).as_str(), "preceding" | "following");
        let end = (place + 1..significant.len()).find(|at| ends(at) || is_bound(at));
        if let Some(end) = end.filter(is_bound) {
            enclosed.push((significant[place], significant[end]));
        }
    }
    for (first, end) in enclosed.into_iter().rev() {
        let span = tokens[first].span;
        tokens.insert(end, TokenWithSpan { token: Token::RParen, span });
        tokens.insert(first, TokenWithSpan { token: Token::LParen, span });
    }
}

/// What is excluded from a place on, and in how many words.
fn exclusion(tokens: &[TokenWithSpan], significant: &[usize], place: usize) -> Option<(&'static str, usize)> {
    let is = |behind: usize, wanted: &str| word(tokens, significant, place + behind) == wanted;
    let ends =
        |behind: usize| significant.get(place + behind).is_some_and(|&at| tokens[at].token == Token::RParen);
    if !is(0, "exclude") {
        return None;
    }
    match () {
        () if is(1, "no") && is(2, "others") && ends(3) => Some(("", 3)),
        () if is(1, "current") && is(2, "row") && ends(3) => Some(("current row", 3)),
        () if is(1, "group") && ends(2) => Some(("group", 2)),
        () if is(1, "ties") && ends(2) => Some(("ties", 2)),
        () => None,
    }
}

/// The place of the parenthesis that opens the window whose frame ends at a place.
fn window_of(tokens: &[TokenWithSpan], significant: &[usize], end: usize) -> Option<usize> {
    let (mut depth, mut is_framed) = (0_usize, false);
    for place in (0..end).rev() {
        match &tokens[significant[place]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return is_framed.then_some(place),
            Token::LParen => depth -= 1,
            _ if depth == 0 => {
                is_framed |= matches!(word(tokens, significant, place).as_str(), "rows" | "range" | "groups");
            }
            _ => {}
        }
    }
    None
}

/// The call among the columns of the window that opens at a place, and behind which token it goes.
fn marker(tokens: &[TokenWithSpan], significant: &[usize], open: usize, what: &str) -> (usize, Vec<Token>) {
    let call = [
        Token::make_word(FRAME, Some('"')),
        Token::LParen,
        Token::SingleQuotedString(what.to_owned()),
        Token::RParen,
    ];
    let first = word(tokens, significant, open + 1);
    let is_clause = matches!(first.as_str(), "partition" | "order" | "rows" | "range" | "groups");
    let before = if is_clause { open } else { open + 1 };
    let mut written = vec![blank()];
    if word(tokens, significant, before + 1) == "partition" {
        written.extend(call);
        written.push(Token::Comma);
        return (significant[before + 2], written);
    }
    written.extend([Token::make_keyword("PARTITION"), blank(), Token::make_keyword("BY"), blank()]);
    written.extend(call);
    written.push(blank());
    (significant[before], written)
}

fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// Whether an expression is the call.
pub(crate) fn is_marker(part: &Expr) -> bool {
    matches!(part, Expr::Function(function) if dotted(&function.name) == FRAME)
}

/// Checks the frame of a window, and writes bounds that DataFusion does not know beside the window's columns.
///
/// # Errors
/// `WindowingError` for bounds that no window has.
pub(crate) fn write_bounds(spec: &mut WindowSpec) -> Result<()> {
    let Some(frame) = &spec.window_frame else { return Ok(()) };
    let end = frame.end_bound.clone().unwrap_or(WindowFrameBound::CurrentRow);
    check(frame, &end, spec.order_by.len())?;
    if is_known(frame, &end) {
        return Ok(());
    }
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let mut arguments = match spec.partition_by.iter().position(is_marker) {
        Some(position) => arguments(&spec.partition_by.remove(position)),
        None => vec![text("")],
    };
    arguments.truncate(1);
    arguments.push(text(&frame.units.to_string().to_lowercase()));
    for bound in [&frame.start_bound, &end] {
        let (kind, offset) = match bound {
            WindowFrameBound::CurrentRow => ("current", None),
            WindowFrameBound::Preceding(offset) => ("preceding", offset.as_deref()),
            WindowFrameBound::Following(offset) => ("following", offset.as_deref()),
        };
        let is_unbounded = offset.is_none() && kind != "current";
        arguments.push(text(if is_unbounded { "unbounded" } else { kind }));
        arguments.push(offset.cloned().unwrap_or_else(|| Expr::value(Value::Null)));
    }
    spec.window_frame = Some(WindowFrame {
        units: WindowFrameUnits::Rows,
        start_bound: WindowFrameBound::Preceding(None),
        end_bound: Some(WindowFrameBound::Following(None)),
    });
    spec.partition_by.push(call(arguments));
    Ok(())
}

fn call(arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    let args = FunctionArgumentList { duplicate_treatment: None, args: args.collect(), clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', FRAME)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn arguments(marker: &Expr) -> Vec<Expr> {
    let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = marker else {
        return Vec::new();
    };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    };
    list.args.iter().filter_map(argument).collect()
}

/// What PostgreSQL's grammar says of bounds, and what their kind needs.
fn check(frame: &WindowFrame, end: &WindowFrameBound, orders: usize) -> Result<()> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let start = &frame.start_bound;
    let has_offset =
        [start, end].into_iter().any(|bound| matches!(bound, Preceding(Some(_)) | Following(Some(_))));
    let message = match (start, end) {
        (Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, Preceding(None)) => "frame end cannot be UNBOUNDED PRECEDING",
        (CurrentRow, Preceding(_)) => "frame starting from current row cannot have preceding rows",
        (Following(_), Preceding(_)) => "frame starting from following row cannot have preceding rows",
        (Following(_), CurrentRow) => "frame starting from following row cannot end with current row",
        _ if frame.units == WindowFrameUnits::Groups && orders == 0 => {
            "GROUPS mode requires an ORDER BY clause"
        }
        _ if frame.units == WindowFrameUnits::Range && has_offset && orders != 1 => {
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
        }
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::WindowingError, message))
}

/// Whether DataFusion knows the frame.
fn is_known(frame: &WindowFrame, end: &WindowFrameBound) -> bool {
    use WindowFrameBound::{Following, Preceding};
    let number = |bound: &WindowFrameBound| match bound {
        Preceding(Some(offset)) | Following(Some(offset)) => match &**offset {
            Expr::Value(value) => match &value.value {
                Value::Number(text, _) => text.parse::<u64>().ok(),
                _ => None,
            },
            _ => None,
        },
        _ => Some(0),
    };
    let is_interval = |bound: &WindowFrameBound| {
        let (Preceding(Some(offset)) | Following(Some(offset))) = bound else { return false };
        frame.units == WindowFrameUnits::Range && matches!(&**offset, Expr::Interval(_))
    };
    let bounds = [&frame.start_bound, end];
    if !bounds.iter().all(|bound| number(bound).is_some() || is_interval(bound)) {
        return false;
    }
    let [first, last] = bounds.map(number);
    match (first.zip(last), &frame.start_bound, end) {
        // Between which there are no rows.
        (Some((first, last)), Preceding(Some(_)), Preceding(Some(_))) => first >= last,
        (Some((first, last)), Following(Some(_)), Following(Some(_))) => first <= last,
        (None, Preceding(Some(_)), Preceding(Some(_))) | (None, Following(Some(_)), Following(Some(_))) => {
            false
        }
        _ => true,
    }
}
