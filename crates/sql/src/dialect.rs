//! PostgreSQL's dialect as the parser knows it, with what it gets wrong.

use datafusion::sql::sqlparser::ast::{Expr, TypedString};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::any::TypeId;

/// In the library's dialect `a IS DISTINCT FROM b AND c` is `a IS DISTINCT FROM (b AND c)`, `ON` an alias in `SELECT 1 ON CONFLICT`
/// and `FOR` in `SELECT 1 FOR UPDATE`, `top` none in `SELECT 1 top`, and `:=` an operator where it names an argument; it has no
/// `BETWEEN SYMMETRIC`, and no constants of types whose names it does not know.
#[derive(Debug, Default)]
pub(crate) struct Postgres {
    /// Whether `a JOIN b JOIN c ON 1 ON 2` is `a JOIN (b JOIN c ON 1) ON 2`.
    nests_joins: bool,
}

impl Postgres {
    /// The dialect for a statement of these tokens. Of `a NATURAL JOIN b JOIN c ON 1` the library would nest the second join as well.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> Postgres {
        let is_natural = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::NATURAL);
        Postgres { nests_joins: !tokens.iter().any(is_natural) }
    }
}

const STOCK: PostgreSqlDialect = PostgreSqlDialect {};

/// Whether the word may be the name of a type that the library does not know, such as `inet`.
fn is_type_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword)
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_)
    )
}

/// `inet '10.0.0.1'`
fn typed_text(parser: &mut Parser) -> Result<Expr, ParserError> {
    let data_type = parser.parse_data_type()?;
    let value = parser.parse_value()?;
    Ok(Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }))
}
/// Words that name a column only behind AS: those of PostgreSQL's `pg_get_keywords()` whose `barelabel` is false.
const ONLY_BEHIND_AS: &[Keyword] = {
    use Keyword::*;
    &[
        ARRAY, AS, CHAR, CHARACTER, CREATE, DAY, EXCEPT, FETCH, FILTER, FOR, FROM, GRANT, GROUP, HAVING,
        HOUR, INTERSECT, INTO, LIMIT, MINUTE, MONTH, OFFSET, ON, ORDER, OVER, OVERLAPS, PRECISION, RETURNING,
        SECOND, TO, UNION, VARYING, WHERE, WINDOW, WITH, WITHIN, WITHOUT, YEAR,
    ]
};

/// Methods of the library's dialect.
macro_rules! stock {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> $result {
            STOCK.$name($($argument),*)
        })*
    };
}

impl Dialect for Postgres {
    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        let form: fn(Box<Expr>, Box<Expr>) -> Expr = if parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            Expr::IsNotDistinctFrom
        } else {
            return STOCK.parse_infix(parser, left, precedence);
        };
        Some(parser.parse_subexpr(precedence).map(|right| form(Box::new(left.clone()), Box::new(right))))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let first = &parser.peek_token_ref().token;
        if is_type_name(first) && is_text(&parser.peek_nth_token_ref(1).token) {
            return Some(typed_text(parser));
        }
        if !crate::written_forms::is_symmetric(first) {
            return STOCK.parse_prefix(parser);
        }
        parser.next_token();
        Some(parser.parse_subexpr(self.prec_value(Precedence::Between)).map(crate::forms::marked))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Assignment => Some(Ok(self.prec_unknown())),
            _ => STOCK.get_next_precedence(parser),
        }
    }

    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        !ONLY_BEHIND_AS.contains(keyword)
    }

    fn dialect(&self) -> TypeId {
        STOCK.dialect()
    }

    stock! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(letter: char) -> bool;
        is_identifier_start(letter: char) -> bool;
        is_identifier_part(letter: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(letter: char) -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_named_fn_args_with_expr_name() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}
