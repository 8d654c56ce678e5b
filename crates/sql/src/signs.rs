//! Signs behind operators, which the tokenizer takes for parts of them.

use crate::dialect::Postgres;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Signs behind an operator: `a>-1` is `a > -1`, as only operators that are made of other symbols, too, may end in a sign.
pub(crate) fn split(tokens: &mut Vec<TokenWithSpan>) {
    let custom = |token: &Token| matches!(token, Token::CustomBinaryOperator(_));
    if !tokens.iter().any(|token| custom(&token.token)) {
        return;
    }
    for token in std::mem::take(tokens) {
        let Token::CustomBinaryOperator(symbol) = &token.token else {
            tokens.push(token);
            continue;
        };
        let operator = match symbol.trim_end_matches(['+', '-']) {
            "" => &symbol[..1],
            operator => operator,
        };
        let read = Tokenizer::new(&Postgres::default(), operator).tokenize();
        match read.as_deref() {
            Ok([read])
                if operator != symbol
                    && !symbol.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']) =>
            {
                let signs = symbol[operator.len()..].chars();
                let signs = signs.map(|sign| if sign == '+' { Token::Plus } else { Token::Minus });
                let parts = std::iter::once(read.clone()).chain(signs);
                tokens.extend(parts.map(|part| TokenWithSpan { token: part, span: token.span }));
            }
            _ => tokens.push(token),
        }
    }
}
