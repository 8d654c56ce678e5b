//! The tokens of a statement that mean something, by their places among each other, for those who read a statement before it is parsed.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Where the tokens of one statement lie that are no space.
pub(crate) fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_there = |token: &Token| !matches!(token, Token::Whitespace(_) | Token::EOF);
    (0..tokens.len()).filter(|&at| is_there(&tokens[at].token)).collect()
}

/// The word at a place in small letters; empty if there is none, or one in quotes.
pub(crate) fn word(tokens: &[TokenWithSpan], places: &[usize], place: usize) -> String {
    match places.get(place).map(|&at| &tokens[at].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// Whether the column that ALTER names among the actions of ALTER TABLE, with COLUMN or without, stands at a place behind the second.
pub(crate) fn is_altered_column(tokens: &[TokenWithSpan], places: &[usize], place: usize) -> bool {
    let before = |by: usize| word(tokens, places, place - by);
    before(1) == "alter" || before(1) == "column" && before(2) == "alter"
}

/// What stands before the interval of `SET TIME ZONE INTERVAL` in the value of the setting.
pub(crate) const INTERVAL: &str = "INTERVAL ";

/// The tokens of one statement, by their places.
pub(crate) struct Written<'a> {
    tokens: &'a [TokenWithSpan],
    pub places: Vec<usize>,
}

impl<'a> Written<'a> {
    pub(crate) fn of(tokens: &'a [TokenWithSpan]) -> Written<'a> {
        Written { tokens, places: places(tokens) }
    }

    /// The word at a place, as [`word`] has it.
    pub(crate) fn word(&self, place: usize) -> String {
        word(self.tokens, &self.places, place)
    }

    pub(crate) fn token(&self, place: usize) -> Option<&'a Token> {
        self.places.get(place).map(|&at| &self.tokens[at].token)
    }

    pub(crate) fn is(&self, place: usize, token: &Token) -> bool {
        self.token(place) == Some(token)
    }

    /// Whether these words stand at a place.
    pub(crate) fn has(&self, place: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(number, word)| self.word(place + number) == *word)
    }

    /// The place of the parenthesis that closes the one at a place.
    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (open..self.places.len()).find(|&place| {
            match self.token(place) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        })
    }

    /// The place behind a name with dots, which may have IF [NOT] EXISTS before it.
    pub(crate) fn name_end(&self, first: usize) -> usize {
        let mut name = first;
        name += match (self.word(name).as_str(), self.word(name + 1).as_str()) {
            ("if", "exists") => 2,
            ("if", "not") => 3,
            _ => 0,
        };
        while self.is(name + 1, &Token::Period) {
            name += 2;
        }
        name + 1
    }

    /// Where the actions of ALTER begin: behind the name of the relation, and behind the commas between them.
    pub(crate) fn actions(&self) -> Vec<usize> {
        let first = self.name_end(2);
        let (mut depth, mut begins) = (0_usize, vec![first]);
        for place in first..self.places.len() {
            match self.token(place) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth = depth.saturating_sub(1),
                Some(Token::Comma) if depth == 0 => begins.push(place + 1),
                _ => {}
            }
        }
        begins
    }
}
