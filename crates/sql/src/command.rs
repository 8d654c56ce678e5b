//! Statements about a session's own things: prepared statements, cursors, channels.
//!
//! The parser of SQL knows few of their forms, so they are read here, token by token; what is SQL inside of them it parses.

use crate::absent::Absent;
use crate::syntax_error::{near, syntax_error};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::sync::Arc;

/// A statement about the session's own things.
pub(crate) enum Command {
    Prepare {
        name: String,
        types: Vec<ast::DataType>,
        statement: Arc<ast::Statement>,
    },
    Execute {
        name: String,
        arguments: Vec<Expr>,
    },
    /// All of them if it names none.
    Deallocate(Option<String>),
    Declare(Declaration),
    Fetch(Fetch),
    /// All of them if it names none.
    Close(Option<String>),
    Listen(String),
    /// From all channels if it names none.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// SET CONSTRAINTS: all if it names none.
    SetConstraints {
        names: Vec<String>,
        is_deferred: bool,
    },
    /// DO: the text of its block.
    Do(String),
    /// The first half of a two-phase commit.
    PrepareTransaction,
    /// COMMIT PREPARED and ROLLBACK PREPARED: the tag, and the name of the transaction.
    EndPrepared {
        tag: &'static str,
        name: String,
    },
    CreateSnapshot(String),
    DropSnapshot {
        name: String,
        if_exists: bool,
    },
    /// VACUUM, ANALYZE and CHECKPOINT: the tag, and the tables and columns that must exist.
    Maintain {
        tag: &'static str,
        tables: Vec<(ast::ObjectName, Vec<ast::Ident>)>,
    },
    Reindex(Reindexed),
    /// CLUSTER: the table and the index, or no table for all that there are.
    Cluster(Option<(ast::ObjectName, ast::Ident)>),
    /// About a kind of things that there never is.
    Absent(Absent),
}

/// What REINDEX names.
pub(crate) struct Reindexed {
    pub what: ReindexedKind,
    pub name: ast::ObjectName,
    pub concurrently: bool,
}

/// What indexes REINDEX is about: one, or those of a table, a schema or the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReindexedKind {
    Index,
    Table,
    Schema,
    Database,
    System,
}

/// DECLARE name CURSOR FOR query.
pub(crate) struct Declaration {
    pub name: String,
    pub query: Arc<ast::Statement>,
    pub is_binary: bool,
    pub scroll: Scroll,
    /// Whether it outlives its transaction.
    pub holds: bool,
}

/// Whether a cursor may go backward.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scroll {
    /// As long as that costs little.
    Unsaid,
    Always,
    Never,
}

/// FETCH, or MOVE.
pub(crate) struct Fetch {
    pub cursor: String,
    pub motion: Motion,
    /// Whether rows are passed over only.
    pub is_move: bool,
}

/// Which way a cursor goes, and which rows that gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Motion {
    /// The next so many rows.
    Forward(u64),
    /// The previous so many rows, the nearest first.
    Backward(u64),
    /// The row at a position counted from 1, or from the end by negative numbers; 0 is before the first.
    Absolute(i64),
    /// The row so far away.
    Relative(i64),
}

/// Options of VACUUM and ANALYZE.
const OPTIONS: &[&str] = &[
    "full",
    "freeze",
    "verbose",
    "analyze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];

/// All rows that are left.
const ALL: u64 = u64::MAX;

impl Command {
    /// The first words, which are the tag as well.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Command::Prepare { .. } => "PREPARE",
            Command::Execute { .. } => "EXECUTE",
            Command::Deallocate(None) => "DEALLOCATE ALL",
            Command::Deallocate(Some(_)) => "DEALLOCATE",
            Command::Declare(_) => "DECLARE CURSOR",
            Command::Fetch(Fetch { is_move: false, .. }) => "FETCH",
            Command::Fetch(Fetch { is_move: true, .. }) => "MOVE",
            Command::Listen(_) => "LISTEN",
            Command::Unlisten(_) => "UNLISTEN",
            Command::Notify { .. } => "NOTIFY",
            Command::Maintain { tag, .. } | Command::EndPrepared { tag, .. } => tag,
            Command::Do(_) => "DO",
            Command::CreateSnapshot(_) => "CREATE SNAPSHOT",
            Command::DropSnapshot { .. } => "DROP SNAPSHOT",
            Command::PrepareTransaction => "PREPARE TRANSACTION",
            Command::Reindex(_) => "REINDEX",
            Command::Cluster(_) => "CLUSTER",
            Command::Absent(absent) => absent.tag(),
            Command::SetConstraints { .. } => "SET CONSTRAINTS",
            Command::Close(None) => "CLOSE CURSOR ALL",
            Command::Close(Some(_)) => "CLOSE CURSOR",
        }
    }
}

impl Command {
    /// Whether it is about what the session has to itself, and not about the database.
    pub(crate) fn is_of_session(&self) -> bool {
        !matches!(self, Command::CreateSnapshot(_) | Command::DropSnapshot { .. } | Command::Absent(_))
    }

    /// Whether it contains a statement that is planned.
    pub(crate) fn has_statement(&self) -> bool {
        matches!(self, Command::Prepare { .. } | Command::Declare(_))
    }
}

/// Which command a statement is, by its first words.
#[derive(Clone, Copy)]
pub(crate) enum CommandKind {
    Prepare,
    Execute,
    Deallocate,
    Declare,
    Fetch,
    Move,
    Close,
    Listen,
    Unlisten,
    Notify,
    Vacuum,
    Analyze,
    Checkpoint,
    Reindex,
    Cluster,
    CreateSnapshot,
    DropSnapshot,
    SetConstraints,
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    Do,
}

/// The kind of the command that the tokens of one statement are; `None` if it is none of these.
pub(crate) fn kind(tokens: &[TokenWithSpan]) -> Option<CommandKind> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut word = || match words.next().map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    Some(match word().as_str() {
        "prepare" if word() == "transaction" => CommandKind::PrepareTransaction,
        "prepare" => CommandKind::Prepare,
        "commit" if word() == "prepared" => CommandKind::CommitPrepared,
        "rollback" if word() == "prepared" => CommandKind::RollbackPrepared,
        "do" => CommandKind::Do,
        "execute" => CommandKind::Execute,
        "deallocate" => CommandKind::Deallocate,
        "declare" => CommandKind::Declare,
        "fetch" => CommandKind::Fetch,
        "move" => CommandKind::Move,
        "close" => CommandKind::Close,
        "listen" => CommandKind::Listen,
        "unlisten" => CommandKind::Unlisten,
        "notify" => CommandKind::Notify,
        "vacuum" => CommandKind::Vacuum,
        "analyze" | "analyse" => CommandKind::Analyze,
        "checkpoint" => CommandKind::Checkpoint,
        "reindex" => CommandKind::Reindex,
        "cluster" => CommandKind::Cluster,
        "create" if word() == "snapshot" => CommandKind::CreateSnapshot,
        "drop" if word() == "snapshot" => CommandKind::DropSnapshot,
        "set" if word() == "constraints" => CommandKind::SetConstraints,
        _ => return None,
    })
}

/// Reads the command.
///
/// # Errors
/// `SyntaxError`, and for cursors those of options that do not go together.
pub(crate) fn read(kind: CommandKind, parser: &mut Parser<'_>) -> Result<Command> {
    let mut reader = Reader { parser };
    reader.skip();
    match kind {
        CommandKind::Prepare => reader.prepare(),
        CommandKind::Execute => reader.execute(),
        CommandKind::Deallocate => reader.deallocate(),
        CommandKind::Declare => reader.declare(),
        CommandKind::Fetch => reader.fetch(false),
        CommandKind::Move => reader.fetch(true),
        CommandKind::Close => reader.close(),
        CommandKind::Listen => Ok(Command::Listen(reader.name()?)),
        CommandKind::Unlisten => reader.unlisten(),
        CommandKind::Notify => reader.notify(),
        CommandKind::Vacuum => reader.maintain("VACUUM", &["full", "freeze", "verbose", "analyze"]),
        CommandKind::Analyze => reader.maintain("ANALYZE", &["verbose"]),
        CommandKind::SetConstraints => reader.set_constraints(),
        CommandKind::Checkpoint => Ok(Command::Maintain { tag: "CHECKPOINT", tables: Vec::new() }),
        CommandKind::Reindex => reader.reindex(),
        CommandKind::Cluster => reader.cluster(),
        CommandKind::CreateSnapshot => {
            reader.expect("snapshot")?;
            reader.name().map(Command::CreateSnapshot)
        }
        CommandKind::DropSnapshot => reader.drop_snapshot(),
        CommandKind::PrepareTransaction => {
            reader.expect("transaction")?;
            reader.text().map(|_| Command::PrepareTransaction)
        }
        CommandKind::CommitPrepared => reader.end_prepared("COMMIT PREPARED"),
        CommandKind::RollbackPrepared => reader.end_prepared("ROLLBACK PREPARED"),
        CommandKind::Do => reader.block(),
    }
}

struct Reader<'a, 'p> {
    parser: &'a mut Parser<'p>,
}

impl Reader<'_, '_> {
    fn prepare(&mut self) -> Result<Command> {
        let name = self.name()?;
        let mut types = Vec::new();
        if self.parser.consume_token(&Token::LParen) {
            types = self.parser.parse_comma_separated(Parser::parse_data_type).map_err(syntax_error)?;
            self.parser.expect_token(&Token::RParen).map_err(syntax_error)?;
        }
        self.expect("as")?;
        let mut inner = self.parser.parse_statement().map_err(syntax_error)?;
        crate::rewrite::rewrite(&mut inner);
        crate::forms::rewrite(&mut inner)?;
        use ast::Statement::{Delete, Insert, Merge, Query, Update};
        if !matches!(inner, Query(_) | Insert(_) | Update(_) | Delete(_) | Merge(_)) {
            return Err(near(inner.to_string().split(' ').next().unwrap_or_default()));
        }
        Ok(Command::Prepare { name, types, statement: Arc::new(inner) })
    }

    /// DO, whose language may be named in front of the text or behind it.
    fn block(&mut self) -> Result<Command> {
        let (mut text, mut language) = (None, None);
        loop {
            if language.is_none() && self.word("language") {
                language = Some(self.name()?);
                continue;
            }
            text = match self.parser.peek_token().token {
                Token::DollarQuotedString(quoted) if text.is_none() => Some(quoted.value),
                Token::SingleQuotedString(quoted) | Token::EscapedStringLiteral(quoted) if text.is_none() => {
                    Some(quoted)
                }
                _ => break,
            };
            self.skip();
        }
        match language.as_deref().unwrap_or("plpgsql") {
            "plpgsql" => {}
            known @ ("sql" | "c" | "internal") => {
                let message = format!("language \"{known}\" does not support inline code execution");
                return Err(Error::new(SqlState::FeatureNotSupported, message));
            }
            other => {
                let message = format!("language \"{other}\" does not exist");
                return Err(Error::new(SqlState::UndefinedObject, message));
            }
        }
        let none = || Error::new(SqlState::SyntaxError, "no inline code specified");
        text.map(Command::Do).ok_or_else(none)
    }

    fn drop_snapshot(&mut self) -> Result<Command> {
        self.expect("snapshot")?;
        let if_exists = self.word("if");
        if if_exists {
            self.expect("exists")?;
        }
        Ok(Command::DropSnapshot { name: self.name()?, if_exists })
    }

    fn end_prepared(&mut self, tag: &'static str) -> Result<Command> {
        self.expect("prepared")?;
        Ok(Command::EndPrepared { tag, name: self.text()? })
    }

    fn execute(&mut self) -> Result<Command> {
        let name = self.name()?;
        let mut arguments = Vec::new();
        if self.parser.consume_token(&Token::LParen) {
            arguments = self.parser.parse_comma_separated(Parser::parse_expr).map_err(syntax_error)?;
            self.parser.expect_token(&Token::RParen).map_err(syntax_error)?;
        }
        Ok(Command::Execute { name, arguments })
    }

    fn deallocate(&mut self) -> Result<Command> {
        self.word("prepare");
        if self.word("all") {
            return Ok(Command::Deallocate(None));
        }
        Ok(Command::Deallocate(Some(self.name()?)))
    }

    fn unlisten(&mut self) -> Result<Command> {
        if self.parser.consume_token(&Token::Mul) {
            return Ok(Command::Unlisten(None));
        }
        Ok(Command::Unlisten(Some(self.name()?)))
    }

    fn notify(&mut self) -> Result<Command> {
        let channel = self.name()?;
        let mut payload = String::new();
        if self.parser.consume_token(&Token::Comma) {
            payload = self.parser.parse_literal_string().map_err(syntax_error)?;
        }
        Ok(Command::Notify { channel, payload })
    }

    fn declare(&mut self) -> Result<Command> {
        let name = self.name()?;
        let (mut is_binary, mut scroll) = (false, Scroll::Unsaid);
        let (mut is_insensitive, mut is_asensitive) = (false, false);
        let mut says = |said: Scroll| match scroll == Scroll::Unsaid || scroll == said {
            true => {
                scroll = said;
                Ok(())
            }
            false => Err(exclusive("SCROLL", "NO SCROLL")),
        };
        loop {
            if self.word("binary") {
                is_binary = true;
            } else if self.word("insensitive") {
                is_insensitive = true;
            } else if self.word("asensitive") {
                is_asensitive = true;
            } else if self.word("scroll") {
                says(Scroll::Always)?;
            } else if self.word("no") {
                self.expect("scroll")?;
                says(Scroll::Never)?;
            } else {
                break;
            }
        }
        self.expect("cursor")?;
        let holds = self.word("with");
        if holds || self.word("without") {
            self.expect("hold")?;
        }
        self.expect("for")?;
        let query = self.parser.parse_query().map_err(syntax_error)?;
        use ast::SetExpr::{Delete, Insert, Merge, Update};
        if matches!(&*query.body, Insert(_) | Update(_) | Delete(_) | Merge(_)) {
            return Err(near(query.body.to_string().split(' ').next().unwrap_or_default()));
        }
        if is_insensitive && is_asensitive {
            return Err(exclusive("INSENSITIVE", "ASENSITIVE"));
        }
        if !query.locks.is_empty() {
            check_locking(&query, is_insensitive, scroll, holds)?;
        }
        let mut inner = ast::Statement::Query(query);
        crate::rewrite::rewrite(&mut inner);
        crate::forms::rewrite(&mut inner)?;
        Ok(Command::Declare(Declaration { name, query: Arc::new(inner), is_binary, scroll, holds }))
    }

    fn fetch(&mut self, is_move: bool) -> Result<Command> {
        let motion = self.motion()?;
        let _ = self.word("from") || self.word("in");
        Ok(Command::Fetch(Fetch { cursor: self.name()?, motion, is_move }))
    }

    fn motion(&mut self) -> Result<Motion> {
        let one = Motion::Forward(1);
        // A cursor may have a name like one of these words.
        let is_last = !matches!(
            self.parser.peek_nth_token(1).token,
            Token::Word(_) | Token::Number(..) | Token::Minus | Token::Plus
        );
        if is_last {
            return Ok(one);
        }
        if let Some(count) = self.count()? {
            return Ok(forward(count));
        }
        Ok(if self.word("next") {
            one
        } else if self.word("prior") {
            Motion::Backward(1)
        } else if self.word("first") {
            Motion::Absolute(1)
        } else if self.word("last") {
            Motion::Absolute(-1)
        } else if self.word("absolute") {
            Motion::Absolute(self.needed_count()?)
        } else if self.word("relative") {
            Motion::Relative(self.needed_count()?)
        } else if self.word("all") {
            Motion::Forward(ALL)
        } else if self.word("forward") {
            match self.word("all") {
                true => Motion::Forward(ALL),
                false => self.count()?.map_or(one, forward),
            }
        } else if self.word("backward") {
            match self.word("all") {
                true => Motion::Backward(ALL),
                false => self.count()?.map_or(Motion::Backward(1), |count| forward(-count)),
            }
        } else {
            one
        })
    }

    fn set_constraints(&mut self) -> Result<Command> {
        self.expect("constraints")?;
        let mut names = Vec::new();
        if !self.word("all") {
            let named = self.parser.parse_comma_separated(|parser| parser.parse_object_name(false));
            for name in named.map_err(syntax_error)? {
                names.push(crate::name::object_name(&name)?.name);
            }
        }
        let is_deferred = self.word("deferred");
        if !is_deferred {
            self.expect("immediate")?;
        }
        Ok(Command::SetConstraints { names, is_deferred })
    }

    fn close(&mut self) -> Result<Command> {
        if self.word("all") {
            return Ok(Command::Close(None));
        }
        Ok(Command::Close(Some(self.name()?)))
    }

    /// VACUUM and ANALYZE, with options as words or in parentheses.
    fn maintain(&mut self, tag: &'static str, words: &[&str]) -> Result<Command> {
        let known = if tag == "VACUUM" { OPTIONS } else { &["verbose", "skip_locked"] };
        let options = match self.options(tag, known)? {
            Some(options) => options,
            None => {
                words.iter().filter(|word| self.word(word)).map(|word| MaintainOption::on(word)).collect()
            }
        };
        let mut tables = Vec::new();
        while self.parser.peek_token().token != Token::EOF {
            let name = self.parser.parse_object_name(false).map_err(syntax_error)?;
            let mut columns = Vec::new();
            if self.parser.consume_token(&Token::LParen) {
                columns =
                    self.parser.parse_comma_separated(Parser::parse_identifier).map_err(syntax_error)?;
                self.parser.expect_token(&Token::RParen).map_err(syntax_error)?;
            }
            tables.push((name, columns));
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        if tag == "VACUUM" {
            check_vacuum(&options, tables.iter().any(|(_, columns)| !columns.is_empty()))?;
        }
        Ok(Command::Maintain { tag, tables })
    }

    /// Options in parentheses, which must be of these; `None` if there are no parentheses.
    fn options(&mut self, tag: &str, known: &[&str]) -> Result<Option<Vec<MaintainOption>>> {
        if !self.parser.consume_token(&Token::LParen) {
            return Ok(None);
        }
        let options = self.parser.parse_comma_separated(Self::option).map_err(syntax_error)?;
        self.parser.expect_token(&Token::RParen).map_err(syntax_error)?;
        if let Some(unknown) = options.iter().find(|option| !known.contains(&option.name.as_str())) {
            let message = format!("unrecognized {tag} option \"{}\"", unknown.name);
            return Err(Error::new(SqlState::SyntaxError, message));
        }
        Ok(Some(options))
    }

    fn reindex(&mut self) -> Result<Command> {
        let options = self.options("REINDEX", &["verbose", "concurrently"])?.unwrap_or_default();
        let kinds = [
            ("index", ReindexedKind::Index),
            ("table", ReindexedKind::Table),
            ("schema", ReindexedKind::Schema),
            ("database", ReindexedKind::Database),
            ("system", ReindexedKind::System),
        ];
        let Some((_, what)) = kinds.into_iter().find(|(word, _)| self.word(word)) else {
            return Err(self.unexpected());
        };
        let concurrently = self.word("concurrently") || is_on(&options, "concurrently")?.unwrap_or(false);
        let name = self.parser.parse_object_name(false).map_err(syntax_error)?;
        Ok(Command::Reindex(Reindexed { what, name, concurrently }))
    }

    /// CLUSTER, by the newer or the older order of its words.
    fn cluster(&mut self) -> Result<Command> {
        if self.options("CLUSTER", &["verbose"])?.is_none() {
            self.word("verbose");
        }
        if self.parser.peek_token().token == Token::EOF {
            return Ok(Command::Cluster(None));
        }
        let first = self.parser.parse_object_name(false).map_err(syntax_error)?;
        if self.word("using") {
            let index = self.parser.parse_identifier().map_err(syntax_error)?;
            return Ok(Command::Cluster(Some((first, index))));
        }
        if self.word("on") {
            let table = self.parser.parse_object_name(false).map_err(syntax_error)?;
            let index = ast::Ident::with_quote('"', crate::name::simple_name(&first)?);
            return Ok(Command::Cluster(Some((table, index))));
        }
        Err(crate::name::not_supported("CLUSTER of a table without USING"))
    }

    /// An option with its value, if it has one.
    fn option(parser: &mut Parser<'_>) -> std::result::Result<MaintainOption, ParserError> {
        let name = crate::name::folded(&parser.parse_identifier()?);
        let has_value = !matches!(parser.peek_token().token, Token::Comma | Token::RParen);
        let value = has_value.then(|| parser.next_token().token.to_string().to_lowercase());
        Ok(MaintainOption { name, value })
    }

    /// An integer with its sign.
    fn count(&mut self) -> Result<Option<i64>> {
        let sign = match self.parser.peek_token().token {
            Token::Minus => Some(-1),
            Token::Plus => Some(1),
            Token::Number(..) => None,
            _ => return Ok(None),
        };
        if sign.is_some() {
            self.skip();
        }
        let token = self.parser.next_token().token;
        let number = match &token {
            Token::Number(text, _) => text.parse::<i32>().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| near(&token.to_string()))?;
        Ok(Some(i64::from(number) * sign.unwrap_or(1)))
    }

    fn needed_count(&mut self) -> Result<i64> {
        let found = self.count()?;
        found.ok_or_else(|| near(&self.parser.peek_token().token.to_string()))
    }

    fn name(&mut self) -> Result<String> {
        let ident = self.parser.parse_identifier().map_err(syntax_error)?;
        Ok(crate::name::folded(&ident))
    }

    /// A constant in quotes.
    fn text(&mut self) -> Result<String> {
        self.parser.parse_literal_string().map_err(syntax_error)
    }

    fn skip(&mut self) {
        let _ = self.parser.next_token();
    }

    /// Takes the word if it comes next.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(
            self.parser.peek_token().token,
            Token::Word(next) if next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word)
        );
        if is_next {
            self.skip();
        }
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.word(word) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    /// The error for the next token.
    fn unexpected(&mut self) -> Error {
        match self.parser.peek_token().token {
            Token::EOF => Error::new(SqlState::SyntaxError, "syntax error at end of input"),
            other => near(&other.to_string()),
        }
    }
}

/// An option of VACUUM and its like.
struct MaintainOption {
    name: String,
    value: Option<String>,
}

impl MaintainOption {
    fn on(name: &str) -> MaintainOption {
        MaintainOption { name: name.to_owned(), value: None }
    }
}

/// What is said of an option that is on or off, if anything is. 42601 for another value.
fn is_on(options: &[MaintainOption], name: &str) -> Result<Option<bool>> {
    let Some(option) = options.iter().rev().find(|option| option.name == name) else { return Ok(None) };
    match option.value.as_deref().map(|value| value.trim_matches('\'')) {
        None | Some("true" | "on" | "1") => Ok(Some(true)),
        Some("false" | "off" | "0") => Ok(Some(false)),
        Some(_) => Err(Error::new(SqlState::SyntaxError, format!("{name} requires a Boolean value"))),
    }
}

/// Options of VACUUM that do not go together.
fn check_vacuum(options: &[MaintainOption], has_columns: bool) -> Result<()> {
    let is_on = |name| is_on(options, name);
    let is_full = is_on("full")? == Some(true);
    let parallel = options.iter().find(|option| option.name == "parallel");
    let workers = parallel.map(|option| option.value.as_deref().map(str::parse::<u32>));
    let wrong = match workers {
        Some(None) => Some("parallel option requires a value between 0 and 1024"),
        Some(Some(Ok(0..=1024))) | None => None,
        Some(Some(_)) => Some("parallel workers for vacuum must be between 0 and 1024"),
    };
    if let Some(message) = wrong {
        return Err(Error::new(SqlState::SyntaxError, message));
    }
    let message = if is_full && matches!(workers, Some(Some(Ok(1..)))) {
        "VACUUM FULL cannot be performed in parallel"
    } else if is_full && is_on("disable_page_skipping")? == Some(true) {
        "VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL"
    } else if has_columns && is_on("analyze")? != Some(true) {
        "ANALYZE option must be specified when a column list is provided"
    } else if is_full && is_on("process_toast")? == Some(false) {
        "PROCESS_TOAST required with VACUUM FULL"
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::FeatureNotSupported, message))
}

fn forward(count: i64) -> Motion {
    match count {
        0 => Motion::Relative(0),
        1.. => Motion::Forward(count.unsigned_abs()),
        _ => Motion::Backward(count.unsigned_abs()),
    }
}

fn exclusive(one: &str, other: &str) -> Error {
    Error::new(SqlState::InvalidCursorDefinition, format!("cannot specify both {one} and {other}"))
}

fn check_locking(query: &ast::Query, is_insensitive: bool, scroll: Scroll, holds: bool) -> Result<()> {
    let lock = query.locks.first().map_or("UPDATE".to_owned(), |lock| lock.lock_type.to_string());
    let refused = match () {
        () if holds => "WITH HOLD ",
        () if scroll == Scroll::Always => "SCROLL ",
        () if is_insensitive => {
            let message = format!("DECLARE INSENSITIVE CURSOR ... FOR {lock} is not valid");
            let detail = "Insensitive cursors must be READ ONLY.";
            return Err(Error::new(SqlState::InvalidCursorDefinition, message).with_detail(detail));
        }
        () => return Ok(()),
    };
    let message = match refused {
        "SCROLL " => format!("DECLARE SCROLL CURSOR ... FOR {lock} is not supported"),
        _ => format!("DECLARE CURSOR WITH HOLD ... FOR {lock} is not supported"),
    };
    Err(Error::new(SqlState::FeatureNotSupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sql: &str) -> Result<Arc<Command>> {
        let statement = crate::parse::parse(sql)?.remove(0);
        Ok(statement.command.unwrap_or_else(|| panic!("{sql} is a command")))
    }

    fn motion(sql: &str) -> (Motion, String) {
        match &*read(sql).unwrap_or_else(|error| panic!("{sql}: {error}")) {
            Command::Fetch(fetch) => (fetch.motion, fetch.cursor.clone()),
            other => panic!("{}", other.tag()),
        }
    }

    #[test]
    fn cursors_move_in_many_ways() {
        for (words, expected) in [
            ("", Motion::Forward(1)),
            ("FROM", Motion::Forward(1)),
            ("NEXT", Motion::Forward(1)),
            ("5 FROM", Motion::Forward(5)),
            ("-5 IN", Motion::Backward(5)),
            ("ALL", Motion::Forward(ALL)),
            ("FORWARD", Motion::Forward(1)),
            ("FORWARD 3", Motion::Forward(3)),
            ("FORWARD -3 FROM", Motion::Backward(3)),
            ("FORWARD ALL IN", Motion::Forward(ALL)),
            ("BACKWARD", Motion::Backward(1)),
            ("BACKWARD 0", Motion::Relative(0)),
            ("BACKWARD ALL", Motion::Backward(ALL)),
            ("PRIOR", Motion::Backward(1)),
            ("FIRST FROM", Motion::Absolute(1)),
            ("LAST", Motion::Absolute(-1)),
            ("ABSOLUTE -2", Motion::Absolute(-2)),
            ("RELATIVE +2 FROM", Motion::Relative(2)),
        ] {
            assert_eq!(motion(&format!("FETCH {words} Crs")), (expected, "crs".to_owned()), "{words}");
            assert_eq!(motion(&format!("move {words} \"Crs\"")), (expected, "Crs".to_owned()), "{words}");
        }
        assert_eq!(motion("FETCH next"), (Motion::Forward(1), "next".to_owned()));
        for wrong in
            ["FETCH", "FETCH 1.5 c", "FETCH ABSOLUTE c", "FETCH 99999999999 c", "FETCH NEXT FROM c d"]
        {
            assert_eq!(read(wrong).err().map(|error| error.state()), Some(SqlState::SyntaxError), "{wrong}");
        }
    }

    #[test]
    fn options_of_cursors_that_exclude_each_other_are_refused() {
        let state = |sql: &str| read(sql).err().map(|error| error.state().code());
        assert_eq!(state("DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1"), Some("42P11"));
        assert_eq!(state("DECLARE c INSENSITIVE ASENSITIVE CURSOR FOR SELECT 1"), Some("42P11"));
        assert_eq!(state("DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t FOR UPDATE"), Some("0A000"));
        assert_eq!(state("DECLARE c BINARY NO SCROLL CURSOR WITHOUT HOLD FOR TABLE t"), None);
        assert_eq!(state("DECLARE c CURSOR SELECT 1"), Some("42601"));
    }

    #[test]
    fn only_statements_of_data_can_be_prepared() {
        let state = |sql: &str| read(sql).err().map(|error| error.state().code());
        assert_eq!(state("PREPARE p AS SELECT 1"), None);
        assert_eq!(state("PREPARE p (int, text) AS UPDATE t SET a = $1 WHERE b = $2"), None);
        assert_eq!(state("PREPARE p AS COMMIT"), Some("42601"));
        assert_eq!(state("PREPARE p AS PREPARE q AS SELECT 1"), Some("42601"));
    }
}
