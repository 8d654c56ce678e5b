//! DROP EXPRESSION among the actions of ALTER TABLE, written as a default, so that the parser reads it.
//!
//! | written | read |
//! | --- | --- |
//! | `ALTER a DROP EXPRESSION IF EXISTS` | `ALTER a SET DEFAULT "\0drop expression if exists"` |
//!
//! No client can write the name that stands for what is meant.

use crate::words;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

const DROPS: &str = "\0drop expression";
const DROPS_IF_EXISTS: &str = "\0drop expression if exists";

/// Whether a default stands for DROP EXPRESSION, and if so, whether it says IF EXISTS.
pub(crate) fn drops_expression(default: &Expr) -> Option<bool> {
    match default {
        Expr::Identifier(name) if name.value == DROPS => Some(false),
        Expr::Identifier(name) if name.value == DROPS_IF_EXISTS => Some(true),
        _ => None,
    }
}

/// Rewrites the tokens of one statement.
pub(crate) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let places = words::places(tokens);
    let word = |place: usize| words::word(tokens, &places, place);
    if (word(0).as_str(), word(1).as_str()) != ("alter", "table") {
        return;
    }
    // Behind the name of the table: [ALTER, COLUMN,] column, DROP, EXPRESSION.
    let is_column = |name: usize| words::is_altered_column(tokens, &places, name);
    let is_it = |drop: &usize| {
        word(*drop) == "drop" && word(drop + 1) == "expression" && *drop >= 5 && is_column(drop - 1)
    };
    let found: Vec<usize> = (5..places.len()).filter(is_it).collect();
    for drop in found.into_iter().rev() {
        let has_condition = words::word(tokens, &places, drop + 2) == "if"
            && words::word(tokens, &places, drop + 3) == "exists";
        let (last, mark) = if has_condition { (drop + 3, DROPS_IF_EXISTS) } else { (drop + 1, DROPS) };
        let (span, mark) = (tokens[places[drop]].span, mark.to_owned());
        let mark = Token::Word(Word { value: mark, quote_style: Some('"'), keyword: Keyword::NoKeyword });
        let space = || Token::Whitespace(Whitespace::Space);
        let with = [Token::make_keyword("SET"), space(), Token::make_keyword("DEFAULT"), space(), mark];
        let with = with.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(places[drop]..=places[last], with);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTableOperation, Statement};

    #[test]
    fn the_action_is_told_from_a_column_of_that_name() {
        let read = |sql: &str| {
            let statement = crate::parse::parse(sql).unwrap().remove(0);
            let Some(Statement::AlterTable(alter)) = statement.ast.as_deref().cloned() else {
                panic!("{sql}")
            };
            let what = |action: &AlterTableOperation| match action {
                AlterTableOperation::AlterColumn {
                    op: AlterColumnOperation::SetDefault { value }, ..
                } => drops_expression(value),
                _ => None,
            };
            alter.operations.iter().map(what).collect::<Vec<_>>()
        };
        assert_eq!(read("ALTER TABLE a ALTER COLUMN b DROP EXPRESSION"), [Some(false)]);
        assert_eq!(
            read("ALTER TABLE a ALTER b DROP EXPRESSION IF EXISTS, ALTER c DROP expression, DROP expression"),
            [Some(true), Some(false), None]
        );
        assert_eq!(read("ALTER TABLE a DROP expression"), [None]);
        assert_eq!(read("ALTER TABLE a ALTER b SET DEFAULT 1"), [None]);
    }
}
