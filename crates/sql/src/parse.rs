//! From text to parsed statements.
//!
//! A query string is cut into tokens, split at its top-level semicolons, and each piece is parsed by itself.
//! Two limits keep hostile input from using up the stack: the parser's own limit on nesting, and a limit on how
//! many operators may follow each other, because the parser turns `1+1+1...` into a tree as deep as it is long
//! and every later walk over that tree, down to freeing it, descends it.
//!
//! Error messages follow PostgreSQL: `syntax error at or near "x"`.

use crate::as_of::{self, AsOf};
use crate::command::{self, Command};
use crate::dialect::Postgres;
use crate::expand_array;
use crate::name::{not_supported, quoted};
use crate::position::offset;
use crate::syntax_error::{near, syntax_error, too_deep};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// Parentheses, subqueries and so on within each other.
const NESTING_MAX: usize = 100;
/// Function calls inside each other's arguments; see [`check_calls`].
const CALLS_NESTED_MAX: usize = 14;
/// Operators in one expression. The analytical planner takes the most stack for each: between 1600 and 2000 of them
/// have overflowed 2 MiB, 450 do not.
const OPERATORS_MAX: usize = 500;

/// A parsed statement.
#[derive(Clone)]
pub struct Statement {
    /// `None` for a string without a statement, and for commands.
    pub(crate) ast: Option<Arc<ast::Statement>>,
    /// The statement if it is about the session's own things; it has no syntax tree then.
    pub(crate) command: Option<Arc<Command>>,
    pub(crate) sql: Arc<str>,
    /// The characters of the query string before it.
    pub(crate) before: usize,
    /// The names of parameters that were written with names, that of $1 first.
    pub(crate) names: Arc<[String]>,
    /// The moment that it is read as of, if it names one.
    pub(crate) as_of: Option<Arc<AsOf>>,
}

impl Statement {
    /// The statement of an empty query string, which does nothing.
    pub fn empty() -> Statement {
        Statement { ast: None, command: None, sql: "".into(), before: 0, names: Arc::default(), as_of: None }
    }

    /// The text that it was parsed from.
    pub fn sql(&self) -> &str {
        &self.sql
    }
}

/// Whether parameters may have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParameterNames {
    /// PostgreSQL knows $1, $2, ... only.
    Refused,
    /// `$balance` is one, in all places of a statement the same.
    Allowed,
}

/// 42601 for a number with letters behind it, in which the tokenizer sees the next word.
fn check_numbers(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    for (position, token) in tokens.iter().enumerate() {
        let Token::Number(number, _) = &token.token else { continue };
        let next = tokens.get(position + 1).filter(|next| next.span.start == token.span.end);
        let junk = match next.map(|next| &next.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.as_str(),
            _ if number.contains('_') => "",
            _ => continue,
        };
        let message = format!("trailing junk after numeric literal at or near \"{number}{junk}\"");
        let position = offset(sql, token.span.start) + 1;
        return Err(Error::new(SqlState::SyntaxError, message).with_position(position));
    }
    Ok(())
}

/// 42601 for a name in quotes that has no characters.
fn check_names(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    for token in tokens {
        if let Token::Word(word) = &token.token
            && word.quote_style.is_some()
            && word.value.is_empty()
        {
            let position = offset(sql, token.span.start) + 1;
            let message = "zero-length delimited identifier at or near \"\"\"\"";
            return Err(Error::new(SqlState::SyntaxError, message).with_position(position));
        }
    }
    Ok(())
}

/// Splits a query string into statements (empty ones dropped) and parses them. 42601 on bad syntax.
pub(crate) fn parse(sql: &str) -> Result<Vec<Statement>> {
    parse_with(sql, ParameterNames::Refused)
}

/// Like [`parse`], but parameters may have names.
pub(crate) fn parse_with(sql: &str, names: ParameterNames) -> Result<Vec<Statement>> {
    if sql.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(Error::new(SqlState::CharacterNotInRepertoire, message));
    }
    let tokens_of_text = Tokenizer::new(&Postgres::default(), sql)
        .tokenize_with_location()
        .map_err(|error| unfinished_token(&error.message, sql, error.location))?;
    check_numbers(sql, &tokens_of_text)?;
    check_names(sql, &tokens_of_text)?;
    let mut offsets = Offsets { sql, line: 1, line_start: 0 };
    let mut statements = Vec::new();
    let (mut counted, mut before) = (0, 0);
    let mut read = 0;
    for piece in tokens_of_text.split(|token| token.token == Token::SemiColon) {
        read += piece.len() + 1;
        let significant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let (Some(first), Some(last)) =
            (piece.iter().find(significant), piece.iter().rev().find(significant))
        else {
            continue;
        };
        let start = offsets.of(first.span.start);
        let end = offsets.of(last.span.end);
        before += sql[counted..start].chars().count();
        counted = start;
        check_operators(piece)?;
        check_calls(piece)?;
        check_brackets(sql, piece)?;
        let mut tokens = piece.to_vec();
        let as_of = as_of::take(sql, &mut tokens)?.map(Arc::new);
        write_known_forms(&mut tokens);
        let names = match names {
            ParameterNames::Allowed => number_parameters(&mut tokens)?,
            ParameterNames::Refused => Vec::new(),
        };
        let text = &sql[start..end];
        let semicolon = tokens_of_text.get(read - 1).filter(|token| token.token == Token::SemiColon);
        let parsed = match crate::absent::read(&tokens) {
            Some(absent) => Parsed::Command(Command::Absent(absent)),
            None => parsed(tokens, sql, semicolon)?,
        };
        let (ast, command) = match parsed {
            Parsed::Sql(mut ast) => {
                if text.contains(expand_array::FUNCTION) {
                    expand_array::rewrite(&mut ast);
                }
                (Some(Arc::new(*ast)), None)
            }
            Parsed::Command(command) if as_of.is_some() && !command.has_statement() => {
                return Err(not_supported(&format!("AS OF in {}", command.tag())));
            }
            Parsed::Command(command) => (None, Some(Arc::new(command))),
        };
        statements.push(Statement { ast, command, sql: text.into(), before, names: names.into(), as_of });
    }
    Ok(statements)
}

/// Writes a statement in the ways that the parser knows.
fn write_known_forms(tokens: &mut Vec<TokenWithSpan>) {
    crate::signs::split(tokens);
    crate::only::rewrite(tokens);
    crate::continued_texts::rewrite(tokens);
    crate::worded_calls::rewrite(tokens);
    crate::absent_clauses::rewrite(tokens);
    crate::table_actions::rewrite(tokens);
    crate::altered_sequence::rewrite(tokens);
    crate::sequence_options::rewrite(tokens);
    crate::clauses::rewrite(tokens);
    crate::view_options::rewrite(tokens);
    crate::set_columns::rewrite(tokens);
    crate::item_assignments::rewrite(tokens);
    crate::naming::rewrite(tokens);
    crate::refreshing::rewrite(tokens);
    crate::drop_expression::rewrite(tokens);
    crate::identity_actions::rewrite(tokens);
    crate::null_keys::rewrite(tokens);
    crate::commenting::rewrite(tokens);
    crate::made_table::rewrite(tokens);
    crate::like_clause::rewrite(tokens);
    crate::rewrite::write_out_tables(tokens);
    crate::rewrite::leave_out_deferrable(tokens);
    crate::rewrite::write_rows_from(tokens);
    crate::written_forms::rewrite(tokens);
    crate::copy::extra::rewrite(tokens);
}

/// Gives parameters with names their numbers, in the order in which the names come first. 42601 if others have numbers.
fn number_parameters(tokens: &mut [TokenWithSpan]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut numbered = None;
    for token in tokens {
        let Token::Placeholder(written) = &mut token.token else { continue };
        let name = written.strip_prefix('$').unwrap_or(written);
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            numbered = Some(written.clone());
            continue;
        }
        let known = names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        *written = format!("${}", number + 1);
    }
    match numbered {
        Some(written) if !names.is_empty() => Err(near(&written).with_detail(format!(
            "Parameter ${} has a name; the parameters of a statement have either names or numbers.",
            names[0]
        ))),
        _ => Ok(names),
    }
}

/// What a statement is.
enum Parsed {
    Sql(Box<ast::Statement>),
    Command(Command),
}

/// Gives a syntax error the place of its token: the last one that was read, or the one behind.
fn placed(error: Error, parser: &Parser<'_>, sql: &str, semicolon: Option<&TokenWithSpan>) -> Error {
    if error.state() != SqlState::SyntaxError {
        return error;
    }
    if error.message().ends_with("at end of input") {
        // The statement's end is not that of the text if a semicolon is there.
        if let Some(semicolon) = semicolon {
            return near(";").with_position(offset(sql, semicolon.span.start) + 1);
        }
        return error.with_position(sql.chars().count() + 1);
    }
    let tokens = [parser.get_current_token(), parser.peek_token_ref()];
    let told = |token: &&&TokenWithSpan| error.message() == near(&token.token.to_string()).message();
    let Some(location) = tokens.iter().find(told).map(|token| token.span.start) else { return error };
    error.with_position(offset(sql, location) + 1)
}

/// Parses the tokens of one statement.
fn parsed(tokens: Vec<TokenWithSpan>, sql: &str, semicolon: Option<&TokenWithSpan>) -> Result<Parsed> {
    let kind = command::kind(&tokens);
    let dialect = Postgres::of(&tokens);
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    parse_one(&mut parser, kind).map_err(|error| placed(error, &parser, sql, semicolon))
}

fn parse_one(parser: &mut Parser<'_>, kind: Option<command::CommandKind>) -> Result<Parsed> {
    let statement = match kind {
        Some(kind) => Parsed::Command(command::read(kind, parser)?),
        None => {
            let mut statement = match crate::domains::parse(parser)? {
                Some(statement) => statement,
                None => parser.parse_statement().map_err(syntax_error)?,
            };
            crate::rewrite::rewrite(&mut statement);
            crate::forms::rewrite(&mut statement)?;
            crate::made_table::rewrite_into(&mut statement)?;
            crate::written_forms::rows_of_values(&mut statement);
            Parsed::Sql(Box::new(statement))
        }
    };
    let rest = parser.next_token();
    match rest.token {
        Token::EOF => Ok(statement),
        token => Err(near(&token.to_string())),
    }
}

/// Refuses calls nested so deep that parsing them would not end: the parser tries each argument of a call twice (as a
/// named one first), so that its time doubles with each level.
fn check_calls(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut open: Vec<bool> = Vec::new();
    let mut after_name = false;
    for token in tokens {
        match &token.token {
            Token::LParen => {
                open.push(after_name);
                if open.iter().filter(|is_call| **is_call).count() > CALLS_NESTED_MAX {
                    let message = format!("function calls nested more than {CALLS_NESTED_MAX} deep");
                    return Err(Error::new(SqlState::ProgramLimitExceeded, message));
                }
            }
            Token::RParen => {
                open.pop();
            }
            _ => {}
        }
        if !matches!(token.token, Token::Whitespace(_)) {
            after_name = matches!(&token.token, Token::Word(word) if !precedes_parenthesis(word.keyword));
        }
    }
    Ok(())
}

/// Refuses lists of values in brackets without ARRAY, which the parser takes.
fn check_brackets(sql: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    // Whether each open bracket is an array's; the others are of subscripts and types.
    let mut open: Vec<bool> = Vec::new();
    let mut before: Option<&Token> = None;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LBracket => {
                let is_array = match before {
                    Some(Token::Word(word)) if word.keyword == Keyword::ARRAY => true,
                    Some(Token::LBracket | Token::Comma) if open.last() == Some(&true) => true,
                    Some(Token::Word(word)) if !precedes_parenthesis(word.keyword) => false,
                    Some(Token::Word(word)) if word.quote_style.is_some() => false,
                    Some(Token::RParen | Token::RBracket | Token::Placeholder(_)) => false,
                    Some(Token::SingleQuotedString(_)) => false,
                    _ => {
                        let position = offset(sql, token.span.start) + 1;
                        return Err(near("[").with_position(position));
                    }
                };
                open.push(is_array);
            }
            Token::RBracket => drop(open.pop()),
            _ => {}
        }
        before = Some(&token.token);
    }
    Ok(())
}

/// Whether a parenthesis after this keyword is no call.
fn precedes_parenthesis(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        AND | OR
            | NOT
            | IN
            | VALUES
            | AS
            | ON
            | WHERE
            | SELECT
            | FROM
            | JOIN
            | EXISTS
            | ANY
            | ALL
            | SOME
            | WHEN
            | THEN
            | ELSE
            | CASE
            | BY
            | HAVING
            | UNION
            | EXCEPT
            | INTERSECT
            | USING
            | OVER
            | BETWEEN
            | LIKE
            | IS
            | FILTER
    )
}

/// Refuses expressions whose tree would be too deep to walk. Counts operators: those of a parenthesis add to
/// those around it, while the items of a list stand beside each other, so that only the largest counts.
fn check_operators(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut operators = 0;
    // For each open parenthesis: the operators before it, and the most in one of its finished items.
    let mut open = Vec::new();
    for token in tokens {
        match &token.token {
            Token::LParen => open.push((std::mem::take(&mut operators), 0)),
            Token::RParen => {
                let (before, largest) = open.pop().unwrap_or((0, 0));
                operators = before + largest.max(operators);
            }
            Token::Comma => {
                let item = std::mem::take(&mut operators);
                if let Some((_, largest)) = open.last_mut() {
                    *largest = item.max(*largest);
                }
            }
            Token::Word(word) if !chains(word.keyword) => {}
            Token::Whitespace(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period => {}
            _ => operators += 1,
        }
        if operators > OPERATORS_MAX {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn chains(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::LIKE
            | Keyword::ILIKE
    )
}

fn unfinished_token(message: &str, sql: &str, location: Location) -> Error {
    let rest: String = sql[Offsets { sql, line: 1, line_start: 0 }.of(location)..].chars().take(40).collect();
    let position = offset(sql, location) + 1;
    let what = match message {
        _ if message.contains("multi-line comment") => "unterminated /* comment",
        _ if message.contains("string") || message.contains("literal") => "unterminated quoted string",
        _ if message.contains("close delimiter") => "unterminated quoted identifier",
        _ => "syntax error",
    };
    Error::new(SqlState::SyntaxError, format!("{what} at or near {}", quoted(&rest))).with_position(position)
}

/// Turns the tokenizer's lines and columns, asked for in ascending order, into byte offsets.
struct Offsets<'a> {
    sql: &'a str,
    line: u64,
    line_start: usize,
}

impl Offsets<'_> {
    fn of(&mut self, location: Location) -> usize {
        while self.line < location.line {
            match self.sql[self.line_start..].find('\n') {
                Some(length) => self.line_start += length + 1,
                None => return self.sql.len(),
            }
            self.line += 1;
        }
        let column = (location.column as usize).saturating_sub(1);
        let line = &self.sql[self.line_start..];
        line.char_indices().nth(column).map_or(self.sql.len(), |(offset, _)| self.line_start + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(sql: &str) -> (&'static str, String) {
        let error = parse(sql).err().unwrap_or_else(|| panic!("{sql} is no SQL"));
        (error.state().code(), error.message().to_owned())
    }

    #[test]
    fn splits_at_semicolons_outside_of_quotes_and_keeps_the_text() {
        let statements = parse(" select 'a;b' ;; -- nothing ;\n select $$;$$; ").unwrap();
        let texts: Vec<&str> = statements.iter().map(|statement| statement.sql()).collect();
        assert_eq!(texts, ["select 'a;b'", "select $$;$$"]);
        assert!(parse(" ; -- only a comment").unwrap().is_empty());
    }

    #[test]
    fn parameters_with_names_get_numbers_where_that_is_allowed() {
        let sql = "select $low, '$low', $high where $low < 1";
        let statement = parse_with(sql, ParameterNames::Allowed).unwrap().remove(0);
        assert_eq!(*statement.names, ["low", "high"]);
        assert_eq!(statement.ast.unwrap().to_string(), "SELECT $1, '$low', $2 WHERE $1 < 1");
        let mixed = parse_with("select $1, $low", ParameterNames::Allowed).err().unwrap();
        assert_eq!(mixed.state().code(), "42601");
        let refused = parse("select $low").unwrap().remove(0);
        assert!(refused.names.is_empty());
        assert_eq!(refused.ast.unwrap().to_string(), "SELECT $low");
    }

    #[test]
    fn statements_after_non_ascii_text_keep_their_bounds() {
        let statements = parse("select 'öä'; select\n 'ü'").unwrap();
        assert_eq!(statements[1].sql(), "select\n 'ü'");
    }

    #[test]
    fn syntax_errors_name_the_token() {
        assert_eq!(error("update t sett a = 1"), ("42601", "syntax error at or near \"a\"".into()));
        assert_eq!(error("selec 1"), ("42601", "syntax error at or near \"selec\"".into()));
        assert_eq!(error("select * from t where"), ("42601", "syntax error at end of input".into()));
        assert_eq!(error("select 1; selec 2").0, "42601");
        assert_eq!(error("select 'abc").1, "unterminated quoted string at or near \"'abc\"");
        assert_eq!(error("select 1 )").1, "syntax error at or near \")\"");
    }

    /// The parser's time doubles with each level of calls; parentheses that are no calls may be nested deeper.
    #[test]
    fn calls_nested_too_deep_are_refused_before_they_are_parsed() {
        let calls = |depth: usize| format!("select {}'A'{}", "lower(".repeat(depth), ")".repeat(depth));
        assert_eq!(parse(&calls(CALLS_NESTED_MAX)).unwrap().len(), 1);
        assert_eq!(error(&calls(CALLS_NESTED_MAX + 1)).0, "54000");
        assert_eq!(error(&calls(50)).0, "54000");
        let conditions = format!("select 1 where {}true{}", "true and (".repeat(20), ")".repeat(20));
        assert_eq!(parse(&conditions).unwrap().len(), 1);
    }

    #[test]
    fn nesting_bombs_are_refused() {
        let parentheses = format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(error(&parentheses).0, "54000");
        let chain = format!("select 1{}", " + 1".repeat(100_000));
        assert_eq!(error(&chain).0, "54000");
        let unions = "select 1 union ".repeat(50_000) + "select 1";
        assert_eq!(error(&unions).0, "54000");
        let subqueries = "select (".repeat(50_000);
        assert_eq!(error(&subqueries).0, "54000");
        let inner_lists =
            format!("select {}1{}", "f(".repeat(40), format!("{},a)", "+1".repeat(500)).repeat(40));
        assert_eq!(error(&inner_lists).0, "54000");
    }

    #[test]
    fn long_lists_are_fine() {
        let list = format!("select 1 where 1 in (1{})", ",-1".repeat(50_000));
        assert_eq!(parse(&list).unwrap().len(), 1);
    }
}
