//! CREATE DOMAIN and ALTER DOMAIN, which the parser knows in part or not at all.
//!
//! They are read here and put into the parser's tree for CREATE DOMAIN. Where that has no place for something, its names say what is meant;
//! no client can write them, since they begin with a zero byte.
//!
//! | written | tree |
//! | --- | --- |
//! | `NOT NULL` | a CHECK of the name `"\0not null"` |
//! | `DROP DOMAIN a, b` | `DROP TYPE "\0domain", a, b` |
//! | `ALTER DOMAIN a DROP DEFAULT` | a domain of the type `"\0alter"(drop default)` |

use crate::name::folded;
use crate::plan::system_name;
use crate::syntax_error::{near, syntax_error};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, CreateDomain, DataType, Expr, Ident, ObjectName, ObjectType, Statement, TableConstraint,
    Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

const NOT_NULL: &str = "\0not null";
const ALTER: &str = "\0alter";
const DROPPED: &str = "\0domain";

/// A condition of a domain that is made, or added to one.
pub(crate) enum Constraint<'a> {
    NotNull,
    Check(Option<String>, &'a Expr),
}

/// What an ALTER DOMAIN does.
pub(crate) enum Action {
    SetDefault(Expr),
    DropDefault,
    SetNotNull,
    DropNotNull,
    Add { name: Option<String>, check: Option<Expr>, is_valid: bool },
    Drop { name: String, if_exists: bool },
    RenameConstraint { old: String, new: String },
    Validate(String),
    Rename(String),
    Move(String),
    Own(String),
}

/// Reads the statement, if it is about a domain; nothing is read otherwise.
///
/// # Errors
/// 42601.
pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Statement>> {
    if parser.parse_keywords(&[Keyword::CREATE, Keyword::DOMAIN]) {
        return create(parser).map(|domain| Some(Statement::CreateDomain(domain)));
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::DOMAIN]) {
        return drop(parser).map(Some);
    }
    if parser.parse_keywords(&[Keyword::ALTER, Keyword::DOMAIN]) {
        return alter(parser).map(|domain| Some(Statement::CreateDomain(domain)));
    }
    Ok(None)
}

/// DROP DOMAIN as a DROP TYPE whose first name is a mark: the parser's own has one domain.
fn drop(parser: &mut Parser<'_>) -> Result<Statement> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let mut names = vec![ObjectName::from(vec![Ident::with_quote('"', DROPPED)])];
    loop {
        names.push(parser.parse_object_name(false).map_err(syntax_error)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let cascade = parser.parse_keyword(Keyword::CASCADE);
    let restrict = !cascade && parser.parse_keyword(Keyword::RESTRICT);
    let object_type = ObjectType::Type;
    let (purge, temporary, table) = (false, false, None);
    Ok(Statement::Drop { object_type, if_exists, names, cascade, restrict, purge, temporary, table })
}

/// The domains that a DROP TYPE stands for; `None` if these are types.
pub(crate) fn dropped(names: &[ObjectName]) -> Option<&[ObjectName]> {
    let (first, rest) = names.split_first()?;
    let is_mark = first.0.first().and_then(|part| part.as_ident()).is_some_and(|name| name.value == DROPPED);
    is_mark.then_some(rest)
}

fn create(parser: &mut Parser<'_>) -> Result<CreateDomain> {
    let name = parser.parse_object_name(false).map_err(syntax_error)?;
    // It may be left out.
    let _ = parser.parse_keyword(Keyword::AS);
    let data_type = parser.parse_data_type().map_err(syntax_error)?;
    let mut domain =
        CreateDomain { name, data_type, collation: None, default: None, constraints: Vec::new() };
    let mut is_nullable = None;
    loop {
        if parser.parse_keyword(Keyword::COLLATE) {
            let collation = parser.parse_object_name(false).map_err(syntax_error)?;
            domain.collation = Some(Ident::with_quote('"', system_name(&collation)?));
            continue;
        }
        if parser.parse_keyword(Keyword::DEFAULT) {
            if domain.default.is_some() {
                return Err(Error::new(SqlState::SyntaxError, "multiple default expressions"));
            }
            domain.default = Some(default(parser)?);
            continue;
        }
        let named = parser.parse_keyword(Keyword::CONSTRAINT).then(|| identifier(parser)).transpose()?;
        let is_null = parser.parse_keyword(Keyword::NULL);
        if is_null || parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
            if is_nullable.is_some_and(|before| before != is_null) {
                return Err(Error::new(SqlState::SyntaxError, "conflicting NULL/NOT NULL constraints"));
            }
            is_nullable = Some(is_null);
            continue;
        }
        match check(parser, named.as_ref())? {
            Some(check) => domain.constraints.push(check),
            None if named.is_some() => return Err(unexpected(parser)),
            None => break,
        }
    }
    if is_nullable == Some(false) {
        domain.constraints.push(not_null());
    }
    Ok(domain)
}

/// `CHECK (condition)`
fn check(parser: &mut Parser<'_>, name: Option<&Ident>) -> Result<Option<TableConstraint>> {
    let others = [
        (Keyword::UNIQUE, "unique"),
        (Keyword::PRIMARY, "primary key"),
        (Keyword::EXCLUDE, "exclusion"),
        (Keyword::REFERENCES, "foreign key"),
    ];
    for (keyword, kind) in others {
        if parser.parse_keyword(keyword) {
            let message = format!("{kind} constraints not possible for domains");
            return Err(Error::new(SqlState::SyntaxError, message));
        }
    }
    if !parser.parse_keyword(Keyword::CHECK) {
        return Ok(None);
    }
    parser.expect_token(&Token::LParen).map_err(syntax_error)?;
    let expr = Box::new(parser.parse_expr().map_err(syntax_error)?);
    parser.expect_token(&Token::RParen).map_err(syntax_error)?;
    Ok(Some(TableConstraint::Check(CheckConstraint { name: name.cloned(), expr, enforced: None })))
}

fn not_null() -> TableConstraint {
    let expr = Box::new(Expr::value(Value::Boolean(true)));
    let name = Some(Ident::with_quote('"', NOT_NULL));
    TableConstraint::Check(CheckConstraint { name, expr, enforced: None })
}

/// An expression that ends before IS and NOT.
fn default(parser: &mut Parser<'_>) -> Result<Expr> {
    use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
    let least = PostgreSqlDialect {}.prec_value(Precedence::Is);
    parser.parse_subexpr(least).map_err(syntax_error)
}

fn identifier(parser: &mut Parser<'_>) -> Result<Ident> {
    parser.parse_identifier().map_err(syntax_error)
}

fn unexpected(parser: &Parser<'_>) -> Error {
    match &parser.peek_token_ref().token {
        Token::EOF => Error::new(SqlState::SyntaxError, "syntax error at end of input"),
        token => near(&token.to_string()),
    }
}

fn alter(parser: &mut Parser<'_>) -> Result<CreateDomain> {
    use Keyword as K;
    let name = parser.parse_object_name(false).map_err(syntax_error)?;
    let (mut default_value, mut constraints, mut words) = (None, Vec::new(), Vec::new());
    let action = if parser.parse_keywords(&[K::SET, K::DEFAULT]) {
        default_value = Some(default(parser)?);
        "set default"
    } else if parser.parse_keywords(&[K::DROP, K::DEFAULT]) {
        "drop default"
    } else if parser.parse_keywords(&[K::SET, K::NOT, K::NULL]) {
        "set not null"
    } else if parser.parse_keywords(&[K::DROP, K::NOT, K::NULL]) {
        "drop not null"
    } else if parser.parse_keywords(&[K::SET, K::SCHEMA]) {
        words.push(folded(&identifier(parser)?));
        "move"
    } else if parser.parse_keywords(&[K::OWNER, K::TO]) {
        words.push(folded(&identifier(parser)?));
        "own"
    } else if parser.parse_keyword(K::ADD) {
        let named = parser.parse_keyword(K::CONSTRAINT).then(|| identifier(parser)).transpose()?;
        match check(parser, named.as_ref())? {
            Some(check) => constraints.push(check),
            None if parser.parse_keywords(&[K::NOT, K::NULL]) => constraints.push(not_null()),
            None => return Err(unexpected(parser)),
        }
        if parser.parse_keywords(&[K::NOT, K::VALID]) { "add not valid" } else { "add" }
    } else if parser.parse_keywords(&[K::DROP, K::CONSTRAINT]) {
        let if_exists = parser.parse_keywords(&[K::IF, K::EXISTS]);
        words.push(folded(&identifier(parser)?));
        let _ = parser.parse_keyword(K::RESTRICT) || parser.parse_keyword(K::CASCADE);
        if if_exists { "drop if exists" } else { "drop" }
    } else if parser.parse_keywords(&[K::VALIDATE, K::CONSTRAINT]) {
        words.push(folded(&identifier(parser)?));
        "validate"
    } else if parser.parse_keywords(&[K::RENAME, K::CONSTRAINT]) {
        words.push(folded(&identifier(parser)?));
        parser.expect_keyword(K::TO).map_err(syntax_error)?;
        words.push(folded(&identifier(parser)?));
        "rename constraint"
    } else if parser.parse_keywords(&[K::RENAME, K::TO]) {
        words.push(folded(&identifier(parser)?));
        "rename"
    } else {
        return Err(unexpected(parser));
    };
    words.insert(0, action.to_owned());
    let mark = ObjectName::from(vec![Ident::with_quote('"', ALTER)]);
    let data_type = DataType::Custom(mark, words);
    Ok(CreateDomain { name, data_type, collation: None, default: default_value, constraints })
}

/// The conditions that a tree has.
pub(crate) fn constraints(domain: &CreateDomain) -> Vec<Constraint<'_>> {
    let each = domain.constraints.iter().filter_map(|constraint| match constraint {
        TableConstraint::Check(check) if check.name.as_ref().is_some_and(|name| name.value == NOT_NULL) => {
            Some(Constraint::NotNull)
        }
        TableConstraint::Check(check) => {
            Some(Constraint::Check(check.name.as_ref().map(folded), &check.expr))
        }
        _ => None,
    });
    each.collect()
}

/// What the tree of an ALTER DOMAIN says; `None` if it is that of a CREATE DOMAIN.
pub(crate) fn action(domain: &CreateDomain) -> Option<Action> {
    let DataType::Custom(mark, words) = &domain.data_type else { return None };
    if mark.0.first()?.as_ident()?.value != ALTER {
        return None;
    }
    let word = |at: usize| words.get(at).cloned().unwrap_or_default();
    Some(match word(0).as_str() {
        "set default" => Action::SetDefault(domain.default.clone()?),
        "drop default" => Action::DropDefault,
        "set not null" => Action::SetNotNull,
        "drop not null" => Action::DropNotNull,
        "move" => Action::Move(word(1)),
        "own" => Action::Own(word(1)),
        kind @ ("add" | "add not valid") => {
            let is_valid = kind == "add";
            match constraints(domain).pop()? {
                Constraint::NotNull => Action::Add { name: None, check: None, is_valid },
                Constraint::Check(name, expr) => Action::Add { name, check: Some(expr.clone()), is_valid },
            }
        }
        kind @ ("drop" | "drop if exists") => Action::Drop { name: word(1), if_exists: kind != "drop" },
        "validate" => Action::Validate(word(1)),
        "rename constraint" => Action::RenameConstraint { old: word(1), new: word(2) },
        _ => Action::Rename(word(1)),
    })
}
