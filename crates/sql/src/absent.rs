//! Statements about kinds of things that a database here never has: functions of one's own, triggers, rules, roles and so on.
//!
//! The parser of SQL knows few of these statements, so their first words are read here. Nothing can be made or changed, which is
//! refused by the statement's name; what is dropped cannot be there, so DROP says what PostgreSQL says of a thing that is not.

use crate::name::not_supported;
use crate::words::Written;
use ankerdb_engine::Error;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A statement about what there never is.
pub(crate) enum Absent {
    /// What is not supported of it.
    Refused(Error),
    Dropped {
        kind: &'static AbsentKind,
        objects: Vec<AbsentObject>,
        if_exists: bool,
    },
}

/// What is to be dropped.
pub(crate) struct AbsentObject {
    /// With its schema, if that is told.
    pub parts: Vec<String>,
    /// The arguments of a function, as notices write them.
    pub arguments: String,
    /// The relation that it is a part of.
    pub relation: Option<Vec<String>>,
}

/// A kind of things.
pub(crate) struct AbsentKind {
    /// The tag of DROP, whose other words name the kind.
    pub tag: &'static str,
    /// What messages call it.
    pub noun: &'static str,
    pub names: AbsentNames,
}

/// How things of a kind are named.
pub(crate) enum AbsentNames {
    /// By names, of which the system has some.
    Plain(&'static [&'static str]),
    /// By a name and the table or view that it is of.
    OfRelation,
    /// By a name and the types of arguments.
    WithArguments,
    /// In other ways: no statement about them is read further.
    Other,
}

const fn kind(tag: &'static str, noun: &'static str, names: AbsentNames) -> AbsentKind {
    AbsentKind { tag, noun, names }
}

/// Longer names before those that begin alike.
const KINDS: &[AbsentKind] = &[
    kind("DROP ACCESS METHOD", "access method", AbsentNames::Plain(&["heap", "btree", "hash"])),
    kind("DROP AGGREGATE", "aggregate", AbsentNames::WithArguments),
    kind("DROP CAST", "cast", AbsentNames::Other),
    kind("DROP COLLATION", "collation", AbsentNames::Plain(&["default", "C", "POSIX", "ucs_basic"])),
    kind("DROP CONVERSION", "conversion", AbsentNames::Plain(&[])),
    kind("DROP DATABASE", "database", AbsentNames::Plain(&[crate::name::DATABASE])),
    kind("DROP EVENT TRIGGER", "event trigger", AbsentNames::Plain(&[])),
    kind("DROP FOREIGN DATA WRAPPER", "foreign-data wrapper", AbsentNames::Plain(&[])),
    kind("DROP FOREIGN TABLE", "foreign table", AbsentNames::Plain(&[])),
    kind("DROP FUNCTION", "function", AbsentNames::WithArguments),
    kind("DROP GROUP", "role", AbsentNames::Plain(&[crate::name::ROLE])),
    kind("DROP LANGUAGE", "language", AbsentNames::Plain(&["plpgsql", "sql", "c", "internal"])),
    kind("DROP OPERATOR CLASS", "operator class", AbsentNames::Other),
    kind("DROP OPERATOR FAMILY", "operator family", AbsentNames::Other),
    kind("DROP OPERATOR", "operator", AbsentNames::Other),
    kind("DROP OWNED", "owned object", AbsentNames::Other),
    kind("DROP POLICY", "policy", AbsentNames::OfRelation),
    kind("DROP PROCEDURE", "procedure", AbsentNames::WithArguments),
    kind("DROP PUBLICATION", "publication", AbsentNames::Plain(&[])),
    kind("DROP ROLE", "role", AbsentNames::Plain(&[crate::name::ROLE])),
    kind("DROP ROUTINE", "routine", AbsentNames::WithArguments),
    kind("DROP RULE", "rule", AbsentNames::OfRelation),
    kind("DROP SERVER", "server", AbsentNames::Plain(&[])),
    kind("DROP STATISTICS", "statistics object", AbsentNames::Plain(&[])),
    kind("DROP SUBSCRIPTION", "subscription", AbsentNames::Plain(&[])),
    kind("DROP TABLESPACE", "tablespace", AbsentNames::Plain(&["pg_default", "pg_global"])),
    kind("DROP TEXT SEARCH CONFIGURATION", "text search configuration", AbsentNames::Plain(&[])),
    kind("DROP TEXT SEARCH DICTIONARY", "text search dictionary", AbsentNames::Plain(&[])),
    kind("DROP TEXT SEARCH PARSER", "text search parser", AbsentNames::Plain(&[])),
    kind("DROP TEXT SEARCH TEMPLATE", "text search template", AbsentNames::Plain(&[])),
    kind("DROP TRANSFORM", "transform", AbsentNames::Other),
    kind("DROP TRIGGER", "trigger", AbsentNames::OfRelation),
    kind("DROP USER MAPPING", "user mapping", AbsentNames::Other),
    kind("DROP USER", "role", AbsentNames::Plain(&[crate::name::ROLE])),
];

/// Words between CREATE and the kind.
const BEFORE_KINDS: &[&str] = &["or", "replace", "constraint", "default", "trusted", "procedural"];

/// Other statements, by their first words.
const OTHERS: &[&str] = &[
    "ALTER DEFAULT PRIVILEGES",
    "ALTER EXTENSION",
    "ALTER LARGE OBJECT",
    "ALTER SYSTEM",
    "CALL",
    "IMPORT FOREIGN SCHEMA",
    "LOAD",
    "REASSIGN OWNED",
    "SECURITY LABEL",
];

impl Absent {
    /// The command tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Absent::Refused(_) => "a statement that is not supported",
            Absent::Dropped { kind, .. } => kind.tag,
        }
    }
}

/// The statement, if it is about what there never is.
pub(crate) fn read(tokens: &[TokenWithSpan]) -> Option<Absent> {
    let written = Written::of(tokens);
    let first = written.word(0);
    let refused = |words: &str| Some(Absent::Refused(not_supported(&words.to_uppercase())));
    match first.as_str() {
        // On a constraint, which `commenting` has written in another way.
        "comment" if is_on_constraint(&written) => {}
        "comment" => {
            let kind =
                KINDS.iter().find(|kind| begins(&written, 2, kind.words()) && kind.noun != "database")?;
            return refused(&format!("comment on {}", kind.words()));
        }
        "grant" | "revoke" => return refused(format!("{first} {}", written.word(1)).trim_end()),
        "alter" | "call" | "import" | "load" | "reassign" | "security" => {
            let other = OTHERS.iter().find(|other| begins(&written, 0, other));
            if let Some(other) = other {
                return refused(other);
            }
        }
        _ => {}
    }
    if matches!(first.as_str(), "create" | "alter" | "drop") {
        let mut place = 1;
        while first == "create" && BEFORE_KINDS.contains(&written.word(place).as_str()) {
            place += 1;
        }
        if let Some(kind) = KINDS.iter().find(|kind| begins(&written, place, kind.words())) {
            place += kind.words().split(' ').count();
            let dropped = if first == "drop" { dropped(&written, kind, place) } else { None };
            return dropped.or_else(|| refused(&format!("{first} {}", kind.words())));
        }
    }
    let error = crate::absent_clauses::refused(tokens).or_else(|| crate::worded_calls::refused(tokens));
    error.map(Absent::Refused)
}

fn is_on_constraint(written: &Written<'_>) -> bool {
    matches!(written.token(3), Some(Token::Word(word)) if word.value == crate::commenting::CONSTRAINT)
}

/// DROP of things of a kind, whose names begin at a place, if it is written as usual.
fn dropped(written: &Written<'_>, kind: &'static AbsentKind, place: usize) -> Option<Absent> {
    let if_exists = written.has(place, &["if", "exists"]);
    let first = if if_exists { place + 2 } else { place };
    let objects = Reader { written, place: first }.objects(&kind.names)?;
    Some(Absent::Dropped { kind, objects, if_exists })
}

/// Whether words stand at a place.
fn begins(written: &Written<'_>, place: usize, words: &str) -> bool {
    let mut words = words.split(' ').enumerate();
    words.all(|(number, wanted)| written.word(place + number).eq_ignore_ascii_case(wanted))
}

impl AbsentKind {
    /// The words of the kind in a statement.
    fn words(&self) -> &'static str {
        self.tag.strip_prefix("DROP ").unwrap_or(self.tag)
    }
}

struct Reader<'a> {
    written: &'a Written<'a>,
    place: usize,
}

impl Reader<'_> {
    fn token(&self) -> Option<&Token> {
        self.written.token(self.place)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.token() == Some(token);
        self.place += usize::from(is_next);
        is_next
    }

    /// The objects behind DROP; `None` if they are written in another way.
    fn objects(mut self, names: &AbsentNames) -> Option<Vec<AbsentObject>> {
        let mut objects = Vec::new();
        loop {
            let mut object = AbsentObject { parts: self.name()?, arguments: String::new(), relation: None };
            match names {
                AbsentNames::Plain(_) => {}
                AbsentNames::OfRelation => {
                    if !self.written.has(self.place, &["on"]) {
                        return None;
                    }
                    self.place += 1;
                    object.relation = Some(self.name()?);
                }
                AbsentNames::WithArguments if self.takes(&Token::LParen) => {
                    object.arguments = self.arguments()?
                }
                AbsentNames::WithArguments => {}
                AbsentNames::Other => return None,
            }
            objects.push(object);
            if !self.takes(&Token::Comma) {
                break;
            }
        }
        if self.written.has(self.place, &["with"]) || self.token() == Some(&Token::LParen) {
            // The one option of DROP DATABASE.
            let open = self.place + usize::from(self.written.has(self.place, &["with"]));
            let is_it = self.written.has(open + 1, &["force"]) && self.written.is(open + 2, &Token::RParen);
            self.place = if is_it { open + 3 } else { return None };
        }
        let last = self.written.word(self.place);
        self.place += usize::from(matches!(last.as_str(), "cascade" | "restrict"));
        self.token().is_none().then_some(objects)
    }

    fn name(&mut self) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        loop {
            let Some(Token::Word(word)) = self.token() else { return None };
            parts.push(match word.quote_style {
                Some(_) => word.value.clone(),
                None => word.value.to_lowercase(),
            });
            self.place += 1;
            if !self.takes(&Token::Period) {
                return Some(parts);
            }
        }
    }

    /// The types up to the parenthesis that closes the list.
    fn arguments(&mut self) -> Option<String> {
        let (mut types, mut written) = (Vec::new(), String::new());
        let mut depth = 0_usize;
        loop {
            let token = self.token()?.clone();
            self.place += 1;
            match &token {
                Token::RParen if depth == 0 => break,
                Token::Comma if depth == 0 => types.push(std::mem::take(&mut written)),
                Token::Mul => {}
                token => {
                    depth = match token {
                        Token::LParen => depth + 1,
                        Token::RParen => depth - 1,
                        _ => depth,
                    };
                    if matches!(token, Token::Word(_)) && !written.is_empty() && !written.ends_with('.') {
                        written.push(' ');
                    }
                    written.push_str(&token.to_string().to_lowercase());
                }
            }
        }
        types.push(written);
        Some(types.iter().map(|written| noted_type(written)).collect::<Vec<_>>().join(","))
    }
}

/// A type as PostgreSQL's notices write it, which have other names for those that are words of SQL.
fn noted_type(written: &str) -> String {
    let (name, rest) = written.split_at(written.find(['[', '(']).unwrap_or(written.len()));
    let own = match name {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "float" => "float8",
        "numeric" | "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "char" | "character" => "bpchar",
        "varchar" | "character varying" => "varchar",
        "time" | "timestamp" | "interval" | "bit" => name,
        _ => return written.to_owned(),
    };
    format!("pg_catalog.{own}{rest}")
}
