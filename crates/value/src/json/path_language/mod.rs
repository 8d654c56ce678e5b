//! The SQL/JSON path language: `jsonpath`, as PostgreSQL 15 has it.
//!
//! A path is read once, and followed through the canonical texts of documents. It gives items: slices of the document, and what
//! was made of them. The regular expressions of `like_regex` are the caller's, who is also asked whether to go on
//! ([`PathFunctions`]).
//! ```text
//! 'strict $.a[*] ? (@ > 1)'  -- lexer, parser -->  nodes (syntax)  -- show -->  strict $."a"[*]?(@ > 1)
//!                                                    `-- run, predicate, expression, moment -->  items
//! ```
//! - `lax` (the default) takes an item for an array of one and an array for its elements where a step wants that, and ignores
//!   what is missing; `strict` refuses both.
//! - An error of an item makes the predicate unknown that it is in. Elsewhere it is an error, which `silent` suppresses; what
//!   was found before it still counts then, as in PostgreSQL.
//!
//! Nothing recurses over documents or over long paths. Expressions within each other do recurse, and the parser limits them;
//! 54001.
//!
//! Not here: templates of `.datetime()`, and comparisons that need the session's time zone (`jsonb_path_query_tz`).

mod expression;
mod item;
mod lexer;
mod moment;
mod offset;
mod parser;
mod predicate;
mod run;
mod show;
mod syntax;

#[cfg(test)]
mod path_language_tests;

use super::walk::{JsonKind, kind};
use ankerdb_base::{Error, Result, SqlState};
use item::{Found, PathFailure};
use run::Run;
use std::cell::{Cell, RefCell};
use syntax::{NodeId, NodeKind, PathNode};

/// What a path needs of its caller.
pub trait PathFunctions {
    /// Whether a regular expression of PostgreSQL matches somewhere in the text. A path asks for the few patterns that it has
    /// over and over again, so that it pays to keep them compiled. `flags` has some of `i` (upper and lower case are equal),
    /// `s` (a point is a line's end, too, which it is not without it), `m` (`^` and `$` are at each line), and `q` (the pattern
    /// is a plain text; `s`, `m` and `x` count for nothing then).
    ///
    /// # Errors
    /// 2201B for a pattern that is none.
    fn matches(&self, pattern: &str, flags: &str, text: &str) -> Result<bool>;

    /// Asked in all loops: an error ends the path.
    ///
    /// # Errors
    /// 57014 where the work was canceled, and what else the caller likes.
    fn check(&self) -> Result<()>;
}

/// A path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JsonPath {
    is_lax: bool,
    nodes: Vec<PathNode>,
    head: NodeId,
}

impl JsonPath {
    /// Reads a path. One pass over the text. The patterns of `like_regex` are not looked at; PostgreSQL refuses a path for
    /// them, which a caller can do that tries all [`patterns`](Self::patterns).
    ///
    /// # Errors
    /// 42601 if it is malformed, 22P02 if it is empty or has half a character, 22P05 for a zero character, 22003 for numbers
    /// that no numeric of PostgreSQL has, 0A000 for the flag `x`, and 54001 for expressions that are nested too deeply.
    pub fn parse(text: &str) -> Result<JsonPath> {
        parser::parse(text)
    }

    /// The patterns of `like_regex` in the path, with their flags.
    pub fn patterns(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::LikeRegex(regex) => Some((regex.pattern.as_str(), regex.flags.as_str())),
            _ => None,
        })
    }

    /// All items, as canonical texts (`jsonb_path_query`). Document and variables are canonical texts.
    ///
    /// # Errors
    /// 22023 if the variables are no object, 42704 for a variable that is not there, 0A000 for templates and what needs a time
    /// zone, and those of `functions`. Unless it is silent, those of items: 2203A, 22039, 2203B, 2203C and 22038 for what is
    /// missing or of the wrong kind, 22033 for subscripts, 22036 for what is no number, 22031 for what is no date or time,
    /// 22012 and 22003 for arithmetic.
    pub fn query(
        &self,
        document: &str,
        vars: Option<&str>,
        silent: bool,
        functions: &dyn PathFunctions,
    ) -> Result<Vec<String>> {
        let found = self.found(document, vars, silent, functions)?;
        Ok(found.items.into_iter().map(item::PathItem::into_text).collect())
    }

    /// The first item; `None` if there is none (`jsonb_path_query_first`). Looks for all, as PostgreSQL does.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn first(
        &self,
        document: &str,
        vars: Option<&str>,
        silent: bool,
        functions: &dyn PathFunctions,
    ) -> Result<Option<String>> {
        let found = self.found(document, vars, silent, functions)?;
        Ok(found.items.into_iter().next().map(item::PathItem::into_text))
    }

    /// Whether there is an item (`jsonb_path_exists`, `@?`); `None`, which is NULL, where an error was suppressed. In lax mode
    /// the first item ends the search.
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    pub fn exists(
        &self,
        document: &str,
        vars: Option<&str>,
        silent: bool,
        functions: &dyn PathFunctions,
    ) -> Result<Option<bool>> {
        let run = self.run(document, vars, functions)?;
        let mut found = Found { is_test: self.is_lax, ..Found::default() };
        match run.follow(!silent, &mut found) {
            Ok(()) => Ok(Some(!found.items.is_empty())),
            Err(PathFailure::Item(_)) if silent => Ok(None),
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// The truth value that the path gives (`jsonb_path_match`, `@@`); `None`, which is NULL, if it is unknown or an error was
    /// suppressed.
    ///
    /// # Errors
    /// Those of [`query`](Self::query), and 22038 for what is no single truth value, unless it is silent.
    pub fn matches(
        &self,
        document: &str,
        vars: Option<&str>,
        silent: bool,
        functions: &dyn PathFunctions,
    ) -> Result<Option<bool>> {
        let found = self.found(document, vars, silent, functions)?;
        if let Some(truth) = found.single(JsonKind::Boolean) {
            return Ok(Some(truth.text() == "true"));
        }
        if silent || found.single(JsonKind::Null).is_some() {
            return Ok(None);
        }
        Err(Error::new(SqlState::SingletonSqlJsonItemRequired, "single boolean result is expected"))
    }

    fn run<'a>(
        &'a self,
        document: &'a str,
        vars: Option<&'a str>,
        functions: &'a dyn PathFunctions,
    ) -> Result<Run<'a>> {
        if vars.is_some_and(|vars| kind(vars) != JsonKind::Object) {
            let detail = "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.";
            let message = "\"vars\" argument is not an object";
            return Err(Error::new(SqlState::InvalidParameterValue, message).with_detail(detail));
        }
        let next_id = Cell::new(if vars.is_some() { 2 } else { 1 });
        Ok(Run { path: self, root: document, vars, functions, next_id, offsets: RefCell::default() })
    }

    fn found<'a>(
        &'a self,
        document: &'a str,
        vars: Option<&'a str>,
        silent: bool,
        functions: &'a dyn PathFunctions,
    ) -> Result<Found<'a>> {
        let mut found = Found::default();
        match self.run(document, vars, functions)?.follow(!silent, &mut found) {
            Err(PathFailure::Item(_)) if silent => Ok(found),
            Err(failure) => Err(failure.into_error()),
            Ok(()) => Ok(found),
        }
    }

    /// The operands of `a && b && c` or of `a || b || c`: the first one, and the others from right to left.
    fn run_of(&self, kind: &NodeKind) -> (NodeId, Vec<NodeId>) {
        let mut rights = Vec::new();
        let mut at = kind;
        loop {
            let (NodeKind::And(left, right) | NodeKind::Or(left, right)) = at else {
                // Callers have one of both.
                return (self.head, rights);
            };
            rights.push(*right);
            at = &self.nodes[*left].kind;
            if std::mem::discriminant(at) != std::mem::discriminant(kind) {
                return (*left, rights);
            }
        }
    }
}
