//! Where in its text a statement is wrong, for names that do not exist and words that cannot stand where they do.
//!
//! The planners of both paths know what is wrong, and not where it was written: what they plan has been rewritten, and views and
//! defaults bring texts of their own. So the place is looked for where an error has come, among the tokens of the statement. One that
//! could be meant by several places is told only where PostgreSQL would find the first of them first; else the error has no position,
//! since a wrong one would lead astray.

use crate::dialect::Postgres;
use ankerdb_engine::{Error, SqlState};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

/// The error with its place in the query string of which the statement is the part behind `before` characters, if that can be told.
#[cold]
pub(crate) fn located(error: Error, sql: &str, before: usize) -> Error {
    if error.position().is_some() {
        return error;
    }
    match find(&error, sql) {
        Some(offset) => error.with_position(before + offset + 1),
        None => error,
    }
}

/// The characters before what the error is about.
fn find(error: &Error, sql: &str) -> Option<usize> {
    let wanted = Wanted::of(error)?;
    let tokens = Tokenizer::new(&Postgres::default(), sql).tokenize_with_location().ok()?;
    let tokens: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).collect();
    let mut places = (0..tokens.len()).filter(|at| wanted.is_at(&tokens, *at));
    let first = places.next()?;
    let is_alone = places.next().is_none();
    (is_alone || wanted.may_be_first(&tokens)).then(|| offset(sql, tokens[first].span.start))
}

/// What an error names.
enum Wanted {
    /// A column, with the name of its relation if that was written; and whether each place where it stands would be wrong.
    Column(Option<String>, String, bool),
    Relation(Vec<String>),
    /// What stands before the dot of a column.
    Qualifier(String),
    Function(String),
    Type(String),
    /// The text of a constant.
    Constant(String),
    /// `$1`
    Parameter(String),
    /// An operator or another token that there is no second one of.
    Only(String),
}

impl Wanted {
    fn of(error: &Error) -> Option<Wanted> {
        let message = error.message();
        let in_quotes = || message.split('"').nth(1).map(str::to_owned);
        match error.state() {
            SqlState::UndefinedColumn | SqlState::AmbiguousColumn => {
                if let Some(name) = in_quotes() {
                    return Some(Wanted::Column(None, name, true));
                }
                let name = message.strip_prefix("column ")?.strip_suffix(" does not exist")?;
                let (relation, name) = name.rsplit_once('.')?;
                Some(Wanted::Column(Some(relation.to_owned()), name.to_owned(), true))
            }
            SqlState::GroupingError if message.ends_with("used in an aggregate function") => {
                let name = in_quotes()?;
                let name = name.rsplit_once('.').map_or(name.as_str(), |(_, name)| name);
                Some(Wanted::Column(None, name.to_owned(), false))
            }
            SqlState::UndefinedTable if message.starts_with("relation ") => {
                Some(Wanted::Relation(in_quotes()?.split('.').map(str::to_owned).collect()))
            }
            SqlState::UndefinedTable if message.contains("FROM-clause entry") => {
                in_quotes().map(Wanted::Qualifier)
            }
            SqlState::UndefinedFunction => match message.strip_prefix("operator does not exist: ") {
                Some(operation) => operation.split(' ').find(|part| is_operator(part)).map(of_token),
                None => {
                    let name = message.strip_prefix("function ")?.split('(').next()?;
                    Some(Wanted::Function(name.trim_end_matches(" does not exist").to_owned()))
                }
            },
            SqlState::InvalidTextRepresentation
            | SqlState::InvalidDatetimeFormat
            | SqlState::DatetimeFieldOverflow
            | SqlState::NumericValueOutOfRange => {
                let (_, value) = message.split_once('"')?;
                let (value, _) = value.rsplit_once('"')?;
                Some(Wanted::Constant(value.to_owned()))
            }
            SqlState::UndefinedParameter => {
                Some(Wanted::Parameter(message.strip_prefix("there is no parameter ")?.to_owned()))
            }
            SqlState::UndefinedObject if message.starts_with("type \"") => in_quotes().map(Wanted::Type),
            SqlState::SyntaxError if message.contains(" at or near \"") => {
                let (_, token) = message.split_once(" at or near \"")?;
                token.strip_suffix('"').map(of_token)
            }
            _ => None,
        }
    }

    /// Whether it is written at this token.
    fn is_at(&self, tokens: &[&TokenWithSpan], at: usize) -> bool {
        let token = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map(|token| &token.token);
        let (before, this, next) = (token(at.checked_sub(1)), token(Some(at)), token(Some(at + 1)));
        let is = |token: Option<&Token>, name: &str| token.and_then(name_of).as_deref() == Some(name);
        let is_dot = |token: Option<&Token>| token == Some(&Token::Period);
        match self {
            Wanted::Column(None, name, _) => {
                is(this, name)
                    && !matches!(next, Some(Token::LParen | Token::Period))
                    && !follows_value(before)
            }
            Wanted::Column(Some(relation), name, _) => {
                is(this, relation) && is_dot(next) && is(token(Some(at + 2)), name) && !is_dot(before)
            }
            Wanted::Relation(parts) => {
                let written =
                    parts.iter().enumerate().all(|(part, name)| is(token(Some(at + 2 * part)), name));
                written && precedes_relation(before) && !is_dot(token(Some(at + 2 * parts.len() - 1)))
            }
            Wanted::Qualifier(name) => is(this, name) && is_dot(next) && !is_dot(before),
            Wanted::Function(name) => is(this, name) && next == Some(&Token::LParen) && !is_dot(before),
            Wanted::Type(name) => is(this, name) && !is_dot(before) && !is_dot(next),
            Wanted::Constant(text) => match this {
                Some(
                    Token::SingleQuotedString(own)
                    | Token::EscapedStringLiteral(own)
                    | Token::UnicodeStringLiteral(own),
                ) => own == text,
                Some(Token::DollarQuotedString(own)) => own.value == *text,
                _ => false,
            },
            Wanted::Parameter(name) => matches!(this, Some(Token::Placeholder(own)) if own == name),
            Wanted::Only(text) => this.is_some_and(|token| token.to_string().eq_ignore_ascii_case(text)),
        }
    }

    /// Whether the first of several places is the one that PostgreSQL finds first, which is so where nothing is bound before what
    /// is written before it.
    fn may_be_first(&self, tokens: &[&TokenWithSpan]) -> bool {
        let count = |keyword| tokens.iter().filter(|token| is_keyword(&token.token, keyword)).count();
        let in_order = count(Keyword::SELECT) == 1
            && count(Keyword::JOIN) + count(Keyword::UPDATE) + count(Keyword::INSERT) == 0;
        match self {
            Wanted::Column(_, _, all_wrong) => *all_wrong && in_order,
            Wanted::Relation(_) => true,
            Wanted::Qualifier(_) | Wanted::Function(_) | Wanted::Parameter(_) => in_order,
            Wanted::Type(_) | Wanted::Constant(_) | Wanted::Only(_) => false,
        }
    }
}

fn of_token(token: &str) -> Wanted {
    Wanted::Only(token.to_owned())
}

fn is_operator(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| "+-*/<>=~!@#%^&|?".contains(character))
}

/// The name that a token stands for.
fn name_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(Word { value, quote_style: Some(_), .. }) => Some(value.clone()),
        Token::Word(Word { value, .. }) => Some(value.to_lowercase()),
        _ => None,
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// Whether a word behind this token is the name of a result or a part of another name rather than a value.
fn follows_value(before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(word)) => {
            word.quote_style.is_some() || matches!(word.keyword, Keyword::NoKeyword | Keyword::AS)
        }
        Some(Token::RParen | Token::Number(..) | Token::SingleQuotedString(_) | Token::Period) => true,
        _ => false,
    }
}

/// Whether a relation of a query, or one that a statement writes to, may stand behind this token.
fn precedes_relation(before: Option<&Token>) -> bool {
    use Keyword::{FROM, INTO, JOIN, ONLY, TABLE, UPDATE, USING};
    match before {
        Some(Token::Comma) => true,
        Some(token) => {
            [FROM, INTO, JOIN, ONLY, TABLE, UPDATE, USING].iter().any(|word| is_keyword(token, *word))
        }
        None => false,
    }
}

/// The characters before a place in a text.
pub(crate) fn offset(sql: &str, place: Location) -> usize {
    let lines = sql.split_inclusive('\n').take((place.line as usize).saturating_sub(1));
    lines.map(|line| line.chars().count()).sum::<usize>() + (place.column as usize).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(sql: &str, state: SqlState, message: &'static str) -> Option<usize> {
        located(Error::new(state, message), sql, 100).position().map(|position| position - 100)
    }

    #[test]
    fn the_place_of_a_name_is_told_where_only_one_can_be_meant() {
        let column = |sql| position(sql, SqlState::UndefinedColumn, "column \"x\" does not exist");
        assert_eq!(column("select x from t"), Some(8));
        assert_eq!(column("select 'ä',\n  X from t"), Some(15));
        assert_eq!(column("select a as x from t where x = 1"), Some(28));
        assert_eq!(column("select x(1), t.x, x from t"), Some(19));
        // Which of two scopes it is missing in cannot be seen.
        assert_eq!(column("select x from t where a in (select x from u)"), None);
        // PostgreSQL binds the conditions of joins and of UPDATE first.
        assert_eq!(column("update t set a = x where x = 1"), None);
        assert_eq!(column("select x from t where x = 1"), Some(8));
    }

    #[test]
    fn relations_functions_and_operators_have_places() {
        let relation = |sql| position(sql, SqlState::UndefinedTable, "relation \"s.x\" does not exist");
        assert_eq!(relation("select * from s.x"), Some(15));
        assert_eq!(relation("select s.x from a, s.x"), Some(20));
        assert_eq!(relation("truncate s.x"), None);
        let function = |sql| position(sql, SqlState::UndefinedFunction, "function f(integer) does not exist");
        assert_eq!(function("select f, f(1) from t"), Some(11));
        let operator =
            |sql| position(sql, SqlState::UndefinedFunction, "operator does not exist: text + text");
        assert_eq!((operator("select a + b"), operator("select a + b + c")), (Some(10), None));
        assert_eq!(position("select 1", SqlState::DivisionByZero, "division by zero"), None);
    }

    #[test]
    fn constants_and_parameters_have_places() {
        let message = "invalid input syntax for type integer: \"a'b\"";
        let constant = |sql| position(sql, SqlState::InvalidTextRepresentation, message);
        assert_eq!((constant("select 'a''b'::int"), constant("select E'a\\'b'::int")), (Some(8), Some(8)));
        // Which of two is no number cannot be seen.
        assert_eq!((constant("select 'a''b', 'a''b'::int"), constant("select $1::int")), (None, None));
        let parameter = |sql| position(sql, SqlState::UndefinedParameter, "there is no parameter $2");
        assert_eq!((parameter("select $1, $2"), parameter("select 1")), (Some(12), None));
    }
}
