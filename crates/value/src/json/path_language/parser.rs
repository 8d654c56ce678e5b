//! Paths from their texts: PostgreSQL's grammar (`jsonpath_gram.y`), read by precedence climbing.
//!
//! The grammar knows *expressions*, which give items, and *predicates*, which are true, false or unknown. Where one of them is
//! wanted and the other one is written, the error is at the word behind it, as a parser finds out that looks one word ahead.

use super::super::push_string;
use super::JsonPath;
use super::lexer::{Lexer, Token, TokenKind, error_near};
use super::syntax::{
    Arithmetic, Comparison, LAST_LEVEL, LikeRegex, Method, NodeId, NodeKind, PathNode, Subscript,
};
use crate::Number;
use ankerdb_base::{Error, Result, SqlState};

/// Expressions within each other; looking at a path recurses so deep.
pub(super) const DEPTH_MAX: usize = 200;

/// The least precedence of operators whose operands are expressions, and not predicates.
const ARITHMETIC: u8 = 3;

fn too_deep() -> Error {
    Error::new(SqlState::StatementTooComplex, "stack depth limit exceeded")
        .with_detail(format!("A jsonpath has at most {DEPTH_MAX} expressions within each other here."))
}

/// A part that was read.
#[derive(Clone, Copy)]
struct Part {
    /// Its first node.
    head: NodeId,
    is_predicate: bool,
    /// Expressions within each other in it.
    depth: usize,
}

#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Compare(Comparison),
    StartsWith,
    LikeRegex,
    Arithmetic(Arithmetic),
}

impl Operator {
    fn of(kind: TokenKind<'_>) -> Option<Operator> {
        Some(match kind {
            TokenKind::Keyword("starts") => Operator::StartsWith,
            TokenKind::Keyword("like_regex") => Operator::LikeRegex,
            TokenKind::Symbol(symbol) => match symbol {
                "||" => Operator::Or,
                "&&" => Operator::And,
                "==" => Operator::Compare(Comparison::Equal),
                "!=" | "<>" => Operator::Compare(Comparison::NotEqual),
                "<" => Operator::Compare(Comparison::Less),
                "<=" => Operator::Compare(Comparison::LessOrEqual),
                ">" => Operator::Compare(Comparison::Greater),
                ">=" => Operator::Compare(Comparison::GreaterOrEqual),
                "+" => Operator::Arithmetic(Arithmetic::Add),
                "-" => Operator::Arithmetic(Arithmetic::Subtract),
                "*" => Operator::Arithmetic(Arithmetic::Multiply),
                "/" => Operator::Arithmetic(Arithmetic::Divide),
                "%" => Operator::Arithmetic(Arithmetic::Modulo),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn precedence(self) -> u8 {
        match self {
            Operator::Or => 0,
            Operator::And => 1,
            Operator::Compare(_) | Operator::StartsWith | Operator::LikeRegex => 2,
            Operator::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => ARITHMETIC,
            Operator::Arithmetic(_) => 4,
        }
    }

    fn takes_predicates(self) -> bool {
        matches!(self, Operator::Or | Operator::And)
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next word.
    token: Token<'a>,
    nodes: Vec<PathNode>,
    depth: usize,
    filters: usize,
    subscripts: usize,
    /// The first `@` or `last` where there is none. Errors of the grammar come before it.
    misplaced: Option<Error>,
}

/// Reads a path.
///
/// # Errors
/// Those of [`JsonPath::parse`].
pub(super) fn parse(text: &str) -> Result<JsonPath> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    if token.kind == TokenKind::End {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(Error::new(SqlState::InvalidTextRepresentation, message));
    }
    let (nodes, depth, filters, subscripts, misplaced) = (Vec::new(), 0, 0, 0, None);
    let mut parser = Parser { lexer, token, nodes, depth, filters, subscripts, misplaced };
    let is_lax = match parser.token.kind {
        TokenKind::Keyword(mode @ ("strict" | "lax")) => {
            parser.advance()?;
            mode == "lax"
        }
        _ => true,
    };
    let part = parser.part(0)?;
    if parser.token.kind != TokenKind::End {
        return Err(parser.error());
    }
    match parser.misplaced {
        Some(error) => Err(error),
        None => Ok(JsonPath { is_lax, nodes: parser.nodes, head: part.head }),
    }
}

impl<'a> Parser<'a> {
    fn error(&self) -> Error {
        error_near("syntax error", self.token.near)
    }

    /// Takes the next word.
    fn advance(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.token.kind == TokenKind::Symbol(symbol)
    }

    fn is_keyword(&self, keyword: &'static str) -> bool {
        self.token.kind == TokenKind::Keyword(keyword)
    }

    fn skip_symbol(&mut self, symbol: &str) -> Result<bool> {
        let is_next = self.is_symbol(symbol);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.skip_symbol(symbol)? { Ok(()) } else { Err(self.error()) }
    }

    fn expect_keyword(&mut self, keyword: &'static str) -> Result<()> {
        if !self.is_keyword(keyword) {
            return Err(self.error());
        }
        self.advance().map(|_| ())
    }

    fn push(&mut self, kind: NodeKind) -> NodeId {
        self.nodes.push(PathNode { kind, next: None });
        self.nodes.len() - 1
    }

    /// A part around others that are so deep.
    fn outer(&mut self, kind: NodeKind, is_predicate: bool, depth: usize) -> Result<Part> {
        if depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(Part { head: self.push(kind), is_predicate, depth: depth + 1 })
    }

    /// Counts the parts that are open.
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// The part that begins here, with all operators of a precedence or a higher one.
    fn part(&mut self, least: u8) -> Result<Part> {
        self.enter()?;
        let mut left = self.operand(least < ARITHMETIC)?;
        while let Some(operator) = Operator::of(self.token.kind) {
            if operator.precedence() < least || operator.takes_predicates() != left.is_predicate {
                break;
            }
            self.advance()?;
            left = match operator {
                Operator::StartsWith => self.starts_with(left)?,
                Operator::LikeRegex => self.like_regex(left)?,
                _ => self.binary(operator, left)?,
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The part that begins here, if it is of the wanted sort.
    fn wanted(&mut self, least: u8, is_predicate: bool) -> Result<Part> {
        let part = self.part(least)?;
        if part.is_predicate == is_predicate { Ok(part) } else { Err(self.error()) }
    }

    fn expression(&mut self) -> Result<Part> {
        self.wanted(ARITHMETIC, false)
    }

    fn binary(&mut self, operator: Operator, left: Part) -> Result<Part> {
        let is_predicate = operator.takes_predicates();
        let right = self.wanted(operator.precedence() + 1, is_predicate)?;
        let (one, other) = (left.head, right.head);
        let kind = match operator {
            Operator::Or => NodeKind::Or(one, other),
            Operator::And => NodeKind::And(one, other),
            Operator::Compare(comparison) => NodeKind::Compare(comparison, one, other),
            Operator::Arithmetic(arithmetic) => NodeKind::Arithmetic(arithmetic, one, other),
            Operator::StartsWith | Operator::LikeRegex => {
                return Err(Error::internal("a predicate of texts is read as another one"));
            }
        };
        let is_run = std::mem::discriminant(&kind) == std::mem::discriminant(&self.nodes[one].kind);
        // Looking at `a && b && c` recurses once, however many there are.
        let depth = match is_predicate && is_run {
            true => (left.depth - 1).max(right.depth),
            false => left.depth.max(right.depth),
        };
        self.outer(kind, !matches!(operator, Operator::Arithmetic(_)), depth)
    }

    fn starts_with(&mut self, whole: Part) -> Result<Part> {
        self.expect_keyword("with")?;
        if !matches!(self.token.kind, TokenKind::Text | TokenKind::Variable) {
            return Err(self.error());
        }
        let initial = self.primary()?;
        self.outer(NodeKind::StartsWith(whole.head, initial), true, whole.depth)
    }

    fn like_regex(&mut self, operand: Part) -> Result<Part> {
        if self.token.kind != TokenKind::Text {
            return Err(self.error());
        }
        let pattern = self.advance()?.text;
        let mut flags = String::new();
        if self.is_keyword("flag") {
            self.advance()?;
            if self.token.kind != TokenKind::Text {
                return Err(self.error());
            }
            flags = checked_flags(&self.token.text)?;
            self.advance()?;
        }
        let regex = LikeRegex { operand: operand.head, pattern, flags };
        self.outer(NodeKind::LikeRegex(regex), true, operand.depth)
    }

    /// What stands between operators.
    fn operand(&mut self, may_be_predicate: bool) -> Result<Part> {
        match self.token.kind {
            TokenKind::Symbol(sign @ ("+" | "-")) => {
                self.enter()?;
                self.advance()?;
                let operand = self.operand(false)?;
                self.depth -= 1;
                if operand.is_predicate { Err(self.error()) } else { self.signed(sign == "-", operand) }
            }
            TokenKind::Symbol("!") if may_be_predicate => {
                self.advance()?;
                let operand = match self.token.kind {
                    TokenKind::Keyword("exists") => self.exists()?,
                    TokenKind::Symbol("(") => self.parenthesized_predicate()?,
                    _ => return Err(self.error()),
                };
                self.outer(NodeKind::Not(operand.head), true, operand.depth)
            }
            TokenKind::Keyword("exists") if may_be_predicate => self.exists(),
            TokenKind::Symbol("(") => self.group(may_be_predicate),
            _ => {
                let head = self.primary()?;
                self.accessors(Part { head, is_predicate: false, depth: 1 })
            }
        }
    }

    /// A number takes the sign in front of it.
    fn signed(&mut self, is_minus: bool, operand: Part) -> Result<Part> {
        let node = &mut self.nodes[operand.head];
        let is_number = node.kind.is_number() && node.next.is_none();
        if let (NodeKind::Literal(text), true) = (&mut node.kind, is_number) {
            if is_minus {
                *text = Number::parse(text)?.negated().to_string();
            }
            return Ok(operand);
        }
        self.outer(NodeKind::Sign { is_minus, operand: operand.head }, false, operand.depth)
    }

    fn exists(&mut self) -> Result<Part> {
        self.advance()?;
        self.expect_symbol("(")?;
        let operand = self.expression()?;
        self.expect_symbol(")")?;
        self.outer(NodeKind::Exists(operand.head), true, operand.depth)
    }

    fn parenthesized_predicate(&mut self) -> Result<Part> {
        self.expect_symbol("(")?;
        let part = self.wanted(0, true)?;
        self.expect_symbol(")")?;
        Ok(part)
    }

    /// `(...)`, and what follows it.
    fn group(&mut self, may_be_predicate: bool) -> Result<Part> {
        self.expect_symbol("(")?;
        let part = self.part(0)?;
        self.expect_symbol(")")?;
        let is_accessed = matches!(self.token.kind, TokenKind::Symbol("." | "[" | "?"));
        if is_accessed || !part.is_predicate {
            return self.accessors(Part { is_predicate: false, ..part });
        }
        if !may_be_predicate || !self.is_keyword("is") {
            return Ok(part);
        }
        self.advance()?;
        self.expect_keyword("unknown")?;
        self.outer(NodeKind::IsUnknown(part.head), true, part.depth)
    }

    fn primary(&mut self) -> Result<NodeId> {
        let quoted = |text: &str| {
            let mut quoted = String::with_capacity(text.len() + 2);
            push_string(text, &mut quoted);
            quoted
        };
        let kind = match self.token.kind {
            TokenKind::Text => NodeKind::Literal(quoted(&self.token.text)),
            TokenKind::Variable => NodeKind::Variable(quoted(&self.token.text)),
            TokenKind::Number | TokenKind::Integer => {
                NodeKind::Literal(Number::parse(&self.token.text)?.to_string())
            }
            TokenKind::Keyword(word @ ("null" | "true" | "false")) => NodeKind::Literal(word.to_owned()),
            TokenKind::Symbol("$") => NodeKind::Root,
            TokenKind::Symbol("@") => {
                self.place(self.filters > 0, "@ is not allowed in root expressions");
                NodeKind::Current
            }
            TokenKind::Keyword("last") => {
                self.place(self.subscripts > 0, "LAST is allowed only in array subscripts");
                NodeKind::Last
            }
            _ => return Err(self.error()),
        };
        self.advance()?;
        Ok(self.push(kind))
    }

    fn place(&mut self, is_allowed: bool, message: &'static str) {
        if !is_allowed && self.misplaced.is_none() {
            self.misplaced = Some(Error::new(SqlState::SyntaxError, message));
        }
    }

    /// The part with all accessors that follow.
    fn accessors(&mut self, mut part: Part) -> Result<Part> {
        let mut tail = part.head;
        while let Some(next) = self.nodes[tail].next {
            tail = next;
        }
        loop {
            let (kind, depth) = match self.token.kind {
                TokenKind::Symbol(".") => {
                    self.advance()?;
                    (self.member()?, 0)
                }
                TokenKind::Symbol("[") => self.array_accessor()?,
                TokenKind::Symbol("?") => self.filter()?,
                _ => return Ok(part),
            };
            if depth >= DEPTH_MAX {
                return Err(too_deep());
            }
            part.depth = part.depth.max(depth + 1);
            let next = self.push(kind);
            self.nodes[tail].next = Some(next);
            tail = next;
        }
    }

    fn filter(&mut self) -> Result<(NodeKind, usize)> {
        self.advance()?;
        self.filters += 1;
        let predicate = self.parenthesized_predicate()?;
        self.filters -= 1;
        Ok((NodeKind::Filter(predicate.head), predicate.depth))
    }

    fn array_accessor(&mut self) -> Result<(NodeKind, usize)> {
        self.advance()?;
        if self.skip_symbol("*")? {
            self.expect_symbol("]")?;
            return Ok((NodeKind::AnyArray, 0));
        }
        self.subscripts += 1;
        let (mut subscripts, mut depth) = (Vec::new(), 0);
        loop {
            let from = self.expression()?;
            let mut subscript = Subscript { from: from.head, to: None };
            depth = depth.max(from.depth);
            if self.is_keyword("to") {
                self.advance()?;
                let to = self.expression()?;
                subscript.to = Some(to.head);
                depth = depth.max(to.depth);
            }
            subscripts.push(subscript);
            if !self.skip_symbol(",")? {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect_symbol("]")?;
        Ok((NodeKind::Subscripts(subscripts), depth))
    }

    /// What follows a point.
    fn member(&mut self) -> Result<NodeKind> {
        match self.token.kind {
            TokenKind::Symbol("*") => self.advance().map(|_| NodeKind::AnyKey),
            TokenKind::Symbol("**") => self.descendants(),
            TokenKind::Name | TokenKind::Text | TokenKind::Keyword(_) => {
                let token = self.advance()?;
                if let (TokenKind::Keyword(word), true) = (token.kind, self.is_symbol("(")) {
                    if let Some(method) = Method::named(word) {
                        self.advance()?;
                        self.expect_symbol(")")?;
                        return Ok(NodeKind::Method(method));
                    }
                    if word == "datetime" {
                        return self.datetime();
                    }
                }
                let mut key = String::with_capacity(token.text.len() + 2);
                push_string(&token.text, &mut key);
                Ok(NodeKind::Key(key))
            }
            _ => Err(self.error()),
        }
    }

    fn datetime(&mut self) -> Result<NodeKind> {
        self.advance()?;
        let mut template = None;
        if self.token.kind == TokenKind::Text {
            let mut quoted = String::new();
            push_string(&self.advance()?.text, &mut quoted);
            template = Some(quoted);
        }
        self.expect_symbol(")")?;
        Ok(NodeKind::Datetime(template))
    }

    fn descendants(&mut self) -> Result<NodeKind> {
        self.advance()?;
        let (mut first, mut last) = (0, LAST_LEVEL);
        if self.skip_symbol("{")? {
            first = self.level()?;
            last = first;
            if self.is_keyword("to") {
                self.advance()?;
                last = self.level()?;
            }
            self.expect_symbol("}")?;
        }
        Ok(NodeKind::Descendants { first, last })
    }

    fn level(&mut self) -> Result<u32> {
        let level = match self.token.kind {
            TokenKind::Keyword("last") => LAST_LEVEL,
            TokenKind::Integer => {
                let text = &self.token.text;
                text.parse::<i32>().map_err(|_| level_error(text))?.unsigned_abs()
            }
            _ => return Err(self.error()),
        };
        self.advance()?;
        Ok(level)
    }
}

fn level_error(text: &str) -> Error {
    let message = format!("value \"{text}\" is out of range for type integer");
    Error::new(SqlState::NumericValueOutOfRange, message)
}

/// Flags of `like_regex`: each once, in PostgreSQL's order.
fn checked_flags(flags: &str) -> Result<String> {
    const KNOWN: &str = "ismxq";
    if let Some(unknown) = flags.chars().find(|flag| !KNOWN.contains(*flag)) {
        let detail = format!("Unrecognized flag character \"{unknown}\" in LIKE_REGEX predicate.");
        let message = "invalid input syntax for type jsonpath";
        return Err(Error::new(SqlState::SyntaxError, message).with_detail(detail));
    }
    if flags.contains('x') && !flags.contains('q') {
        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    Ok(KNOWN.chars().filter(|flag| flags.contains(*flag)).collect())
}
