//! The blocks of DO: a small part of PL/pgSQL, read into steps.
//!
//! ```text
//! block  [<<label>>] BEGIN step... [EXCEPTION WHEN condition [OR condition]... THEN step...]... END [label]
//! step   block; IF condition THEN step... [ELSIF condition THEN step...]... [ELSE step...] END IF; NULL; RETURN;
//!        PERFORM query; EXECUTE text; RAISE [level] 'format' [, value]...; any statement that gives no rows;
//! ```
//! There are no variables and no loops; what there is not is refused with 0A000 before anything runs.

use crate::dialect::Postgres;
use crate::name::not_supported;
use crate::parse::{Statement, parse};
use crate::syntax_error::{near, too_deep};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Blocks and conditions within each other.
const NESTING_MAX: usize = 50;

/// Steps, and what is done when one of them fails.
pub(crate) struct Block {
    pub steps: Vec<DoStep>,
    pub handlers: Vec<Handler>,
}

/// What is done for some errors.
pub(crate) struct Handler {
    conditions: Vec<Condition>,
    pub steps: Vec<DoStep>,
}

enum Condition {
    /// Every error but that of a cancelled statement.
    Others,
    /// An SQLSTATE, or a class of them by its first two characters and zeros.
    State(String),
}

/// A step, and the line that it is in.
pub(crate) struct DoStep {
    pub line: u64,
    pub kind: DoStepKind,
}

pub(crate) enum DoStepKind {
    Nothing,
    Return,
    Block(Block),
    If {
        /// Queries of a condition each, and what is done if it holds.
        branches: Vec<(Statement, Vec<DoStep>)>,
        otherwise: Vec<DoStep>,
    },
    Statement(Statement),
    /// A query whose rows nobody wants.
    Perform(Statement),
    /// A query that gives a text of SQL.
    Execute(Statement),
    Raise {
        level: Level,
        format: String,
        /// Queries of a text each.
        arguments: Vec<Statement>,
    },
}

/// What RAISE raises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing that a client is told by default.
    Log,
    Notice,
    Warning,
    Exception,
}

impl DoStepKind {
    /// What a context of errors calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            DoStepKind::Nothing => "NULL",
            DoStepKind::Return => "RETURN",
            DoStepKind::Block(_) => "statement block",
            DoStepKind::If { .. } => "IF",
            DoStepKind::Statement(_) => "SQL statement",
            DoStepKind::Perform(_) => "PERFORM",
            DoStepKind::Execute(_) => "EXECUTE",
            DoStepKind::Raise { .. } => "RAISE",
        }
    }
}

impl Handler {
    /// Whether it is for this error.
    pub(crate) fn catches(&self, error: &Error) -> bool {
        let code = error.state().code();
        self.conditions.iter().any(|condition| match condition {
            Condition::Others => error.state() != SqlState::QueryCanceled,
            Condition::State(state) => match state.strip_suffix("000") {
                Some(class) => code.starts_with(class),
                None => code == state,
            },
        })
    }
}

/// Reads the text of a block.
///
/// # Errors
/// `SyntaxError`, `FeatureNotSupported`, `UndefinedObject` for conditions that there are not, `ProgramLimitExceeded`.
pub(crate) fn read(text: &str) -> Result<Block> {
    let tokens = Tokenizer::new(&Postgres::default(), text)
        .tokenize_with_location()
        .map_err(|error| malformed(error.message))?;
    let is_significant = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(is_significant).collect();
    let mut reader = Reader { text, tokens, at: 0, depth: 0 };
    let block = reader.block()?;
    reader.take(&Token::SemiColon);
    match reader.tokens.get(reader.at) {
        None => Ok(block),
        Some(token) => Err(near(&token.token.to_string())),
    }
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<TokenWithSpan>,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    /// The word that comes next, folded; nothing if it is another token.
    fn word(&self) -> String {
        self.word_at(self.at)
    }

    fn word_at(&self, at: usize) -> String {
        match self.tokens.get(at).map(|token| &token.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            _ => String::new(),
        }
    }

    fn take(&mut self, token: &Token) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|next| next.token == *token);
        self.at += usize::from(is_next);
        is_next
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_next = self.word() == word;
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expect_end(&mut self) -> Result<()> {
        if self.take(&Token::SemiColon) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> Error {
        match self.tokens.get(self.at) {
            Some(token) => near(&token.token.to_string()),
            None => malformed("syntax error at end of input"),
        }
    }

    /// A block from its label or BEGIN to its END.
    fn block(&mut self) -> Result<Block> {
        self.label();
        if self.word() == "declare" {
            return Err(not_supported("DO with variables"));
        }
        self.expect("begin")?;
        let steps = self.steps(&["exception", "end"])?;
        let mut handlers = Vec::new();
        if self.take_word("exception") {
            while self.take_word("when") {
                let mut conditions = self.condition()?;
                while self.take_word("or") {
                    conditions.extend(self.condition()?);
                }
                self.expect("then")?;
                handlers.push(Handler { conditions, steps: self.steps(&["when", "end"])? });
            }
            if handlers.is_empty() {
                return Err(self.unexpected());
            }
        }
        self.expect("end")?;
        // A label again.
        self.at += usize::from(!self.word().is_empty());
        Ok(Block { steps, handlers })
    }

    fn label(&mut self) {
        let is_label = self.tokens.get(self.at).is_some_and(|token| token.token == Token::ShiftLeft);
        if is_label && self.tokens.get(self.at + 2).is_some_and(|token| token.token == Token::ShiftRight) {
            self.at += 3;
        }
    }

    fn condition(&mut self) -> Result<Vec<Condition>> {
        let name = self.word();
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.at += 1;
        if name == "others" {
            return Ok(vec![Condition::Others]);
        }
        if name == "sqlstate" {
            let state = self.string()?;
            let is_state =
                state.len() == 5 && state.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
            return match is_state {
                true => Ok(vec![Condition::State(state)]),
                false => Err(malformed("invalid SQLSTATE code")),
            };
        }
        let named: Vec<Condition> = CONDITIONS
            .iter()
            .filter(|(known, _)| *known == name)
            .map(|(_, state)| Condition::State((*state).to_owned()))
            .collect();
        match named.is_empty() {
            false => Ok(named),
            true => {
                let message = format!("unrecognized exception condition \"{name}\"");
                Err(Error::new(SqlState::UndefinedObject, message))
            }
        }
    }

    /// A constant text.
    fn string(&mut self) -> Result<String> {
        let text = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(quoted)) => quoted.value.clone(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(text)
    }

    /// Steps up to one of these words, which stays.
    fn steps(&mut self, ends: &[&str]) -> Result<Vec<DoStep>> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(too_deep());
        }
        let mut steps = Vec::new();
        while !ends.contains(&self.word().as_str()) {
            let Some(token) = self.tokens.get(self.at) else { return Err(self.unexpected()) };
            let line = token.span.start.line;
            steps.push(DoStep { line, kind: self.step()? });
        }
        self.depth -= 1;
        Ok(steps)
    }

    fn step(&mut self) -> Result<DoStepKind> {
        let word = self.word();
        let kind = match word.as_str() {
            "begin" => DoStepKind::Block(self.block()?),
            "declare" => return Err(not_supported("DO with variables")),
            "if" => self.conditional()?,
            "null" => {
                self.at += 1;
                DoStepKind::Nothing
            }
            "return" => {
                self.at += 1;
                DoStepKind::Return
            }
            "perform" => {
                self.at += 1;
                DoStepKind::Perform(self.query(|rest| format!("SELECT {rest}"), &[])?)
            }
            "execute" => {
                self.at += 1;
                DoStepKind::Execute(self.query(of_text, &["using", "into"])?)
            }
            "raise" => self.raise()?,
            "for" | "foreach" | "while" | "loop" | "case" | "exit" | "continue" | "open" | "fetch"
            | "move" | "close" | "get" | "assert" | "call" => {
                return Err(not_supported(&format!("{} in DO", word.to_ascii_uppercase())));
            }
            _ if self.tokens.get(self.at).is_some_and(|token| token.token == Token::ShiftLeft) => {
                DoStepKind::Block(self.block()?)
            }
            _ => DoStepKind::Statement(self.statement()?),
        };
        self.expect_end()?;
        Ok(kind)
    }

    /// From IF to END IF.
    fn conditional(&mut self) -> Result<DoStepKind> {
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        loop {
            // IF, ELSIF or ELSEIF
            self.at += 1;
            let condition = self.query(|rest| format!("SELECT (\n{rest}\n)::boolean"), &["then"])?;
            self.expect("then")?;
            branches.push((condition, self.steps(&["elsif", "elseif", "else", "end"])?));
            if !matches!(self.word().as_str(), "elsif" | "elseif") {
                break;
            }
        }
        if self.take_word("else") {
            otherwise = self.steps(&["end"])?;
        }
        self.expect("end")?;
        self.expect("if")?;
        Ok(DoStepKind::If { branches, otherwise })
    }

    fn raise(&mut self) -> Result<DoStepKind> {
        self.at += 1;
        let level = match self.word().as_str() {
            "debug" | "log" => Level::Log,
            "info" | "notice" => Level::Notice,
            "warning" => Level::Warning,
            _ => Level::Exception,
        };
        if level != Level::Exception || self.word() == "exception" {
            self.at += 1;
        }
        if !self.word().is_empty()
            || self.tokens.get(self.at).is_none_or(|next| next.token == Token::SemiColon)
        {
            return Err(not_supported("RAISE of anything but a text in DO"));
        }
        let format = self.string()?;
        let mut arguments = Vec::new();
        while self.take(&Token::Comma) {
            arguments.push(self.query(of_text, &["using", ","])?);
        }
        if self.word() == "using" {
            return Err(not_supported("RAISE ... USING in DO"));
        }
        match format.replace("%%", "").matches('%').count().cmp(&arguments.len()) {
            std::cmp::Ordering::Less => Err(malformed("too many parameters specified for RAISE")),
            std::cmp::Ordering::Greater => Err(malformed("too few parameters specified for RAISE")),
            std::cmp::Ordering::Equal => Ok(DoStepKind::Raise { level, format, arguments }),
        }
    }

    /// A statement of SQL up to its semicolon.
    fn statement(&mut self) -> Result<Statement> {
        if self.tokens.get(self.at + 1).is_some_and(|next| next.token == Token::Assignment) {
            return Err(not_supported("DO with variables"));
        }
        let first = self.at;
        let text = match self.word().as_str() {
            "select" => self.piece(&["into"])?,
            _ => self.piece(&[])?,
        };
        if self.word() == "into" && first < self.at {
            return Err(not_supported("SELECT ... INTO in DO"));
        }
        only(parse(&text)?)
    }

    /// The query that is made of the text up to a semicolon or one of these words.
    fn query(&mut self, made: impl FnOnce(&str) -> String, ends: &[&str]) -> Result<Statement> {
        let text = self.piece(ends)?;
        if ends.contains(&"into") && !self.word().is_empty() {
            let word = self.word().to_ascii_uppercase();
            return Err(not_supported(&format!("EXECUTE ... {word} in DO")));
        }
        only(parse(&made(&text))?)
    }

    /// The text up to a semicolon or one of these words, outside of parentheses and CASE; it may not be empty.
    fn piece(&mut self, ends: &[&str]) -> Result<String> {
        let first = self.at;
        let (mut parentheses, mut cases) = (0_usize, 0_usize);
        while let Some(token) = self.tokens.get(self.at) {
            let word = self.word();
            match &token.token {
                Token::SemiColon => break,
                Token::Comma if parentheses == 0 && ends.contains(&",") => break,
                Token::LParen | Token::LBracket => parentheses += 1,
                Token::RParen | Token::RBracket => parentheses = parentheses.saturating_sub(1),
                _ if parentheses == 0 && cases == 0 && ends.contains(&word.as_str()) => break,
                _ if word == "case" => cases += 1,
                _ if word == "end" => cases = cases.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
        }
        match &self.tokens[first..self.at] {
            [] => Err(self.unexpected()),
            piece => {
                let (start, end) = (piece[0].span.start, piece[piece.len() - 1].span.end);
                Ok(self.text[byte(self.text, start)..byte(self.text, end)].to_owned())
            }
        }
    }
}

fn malformed(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(SqlState::SyntaxError, message)
}

fn of_text(rest: &str) -> String {
    format!("SELECT (\n{rest}\n)::text")
}

fn only(statements: Vec<Statement>) -> Result<Statement> {
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Error::internal("a step of DO is one statement")),
    }
}

/// Where a place in a text is, in bytes.
fn byte(text: &str, place: Location) -> usize {
    let line =
        text.split_inclusive('\n').take((place.line as usize).saturating_sub(1)).map(str::len).sum::<usize>();
    let column = (place.column as usize).saturating_sub(1);
    text[line..].char_indices().nth(column).map_or(text.len(), |(at, _)| line + at)
}

/// PostgreSQL's names of what can go wrong (PostgreSQL 15, Appendix A), as far as it can here.
const CONDITIONS: &[(&str, &str)] = &[
    ("successful_completion", "00000"),
    ("warning", "01000"),
    ("feature_not_supported", "0A000"),
    ("cardinality_violation", "21000"),
    ("data_exception", "22000"),
    ("array_subscript_error", "2202E"),
    ("character_not_in_repertoire", "22021"),
    ("datetime_field_overflow", "22008"),
    ("division_by_zero", "22012"),
    ("invalid_argument_for_logarithm", "2201E"),
    ("invalid_argument_for_power_function", "2201F"),
    ("invalid_datetime_format", "22007"),
    ("invalid_escape_sequence", "22025"),
    ("invalid_parameter_value", "22023"),
    ("invalid_regular_expression", "2201B"),
    ("invalid_text_representation", "22P02"),
    ("null_value_not_allowed", "22004"),
    ("numeric_value_out_of_range", "22003"),
    ("string_data_right_truncation", "22001"),
    ("integrity_constraint_violation", "23000"),
    ("restrict_violation", "23001"),
    ("not_null_violation", "23502"),
    ("foreign_key_violation", "23503"),
    ("unique_violation", "23505"),
    ("check_violation", "23514"),
    ("exclusion_violation", "23P01"),
    ("invalid_cursor_state", "24000"),
    ("invalid_transaction_state", "25000"),
    ("active_sql_transaction", "25001"),
    ("read_only_sql_transaction", "25006"),
    ("dependent_objects_still_exist", "2BP01"),
    ("invalid_schema_name", "3F000"),
    ("invalid_catalog_name", "3D000"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("syntax_error", "42601"),
    ("insufficient_privilege", "42501"),
    ("cannot_coerce", "42846"),
    ("grouping_error", "42803"),
    ("invalid_foreign_key", "42830"),
    ("invalid_name", "42602"),
    ("reserved_name", "42939"),
    ("datatype_mismatch", "42804"),
    ("indeterminate_datatype", "42P18"),
    ("wrong_object_type", "42809"),
    ("generated_always", "428C9"),
    ("undefined_column", "42703"),
    ("undefined_function", "42883"),
    ("undefined_table", "42P01"),
    ("undefined_parameter", "42P02"),
    ("undefined_object", "42704"),
    ("duplicate_column", "42701"),
    ("duplicate_cursor", "42P03"),
    ("duplicate_function", "42723"),
    ("duplicate_prepared_statement", "42P05"),
    ("duplicate_schema", "42P06"),
    ("duplicate_table", "42P07"),
    ("duplicate_alias", "42712"),
    ("duplicate_object", "42710"),
    ("duplicate_database", "42P04"),
    ("ambiguous_column", "42702"),
    ("ambiguous_function", "42725"),
    ("invalid_column_reference", "42P10"),
    ("invalid_column_definition", "42611"),
    ("invalid_table_definition", "42P16"),
    ("invalid_object_definition", "42P17"),
    ("insufficient_resources", "53000"),
    ("disk_full", "53100"),
    ("out_of_memory", "53200"),
    ("program_limit_exceeded", "54000"),
    ("statement_too_complex", "54001"),
    ("object_not_in_prerequisite_state", "55000"),
    ("object_in_use", "55006"),
    ("cant_change_runtime_param", "55P02"),
    ("lock_not_available", "55P03"),
    ("query_canceled", "57014"),
    ("system_error", "58000"),
    ("io_error", "58030"),
    ("undefined_file", "58P01"),
    ("duplicate_file", "58P02"),
    ("plpgsql_error", "P0000"),
    ("raise_exception", "P0001"),
    ("internal_error", "XX000"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> Option<SqlState> {
        read(text).err().map(|error| error.state())
    }

    #[test]
    fn blocks_are_read_into_steps() {
        let text = "<<a>> BEGIN
            CREATE TYPE mood AS ENUM ('sad; x', 'ok');
            IF EXISTS (SELECT 1) AND CASE WHEN true THEN true END THEN PERFORM 1 AS \"end\"; ELSIF 1 = 2 THEN NULL; ELSE RETURN; END IF;
            BEGIN EXECUTE 'SELECT 1' || ';'; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% of %%', (1, 2); END;
        EXCEPTION
            WHEN duplicate_object OR SQLSTATE '42P07' THEN null;
            WHEN integrity_constraint_violation THEN NULL;
        END a;";
        let block = read(text).unwrap();
        let names: Vec<(u64, &str)> = block.steps.iter().map(|step| (step.line, step.kind.name())).collect();
        assert_eq!(names, [(2, "SQL statement"), (3, "IF"), (4, "statement block")]);
        let DoStepKind::If { branches, otherwise } = &block.steps[1].kind else { panic!("an IF") };
        assert_eq!((branches.len(), otherwise.len()), (2, 1));
        let catches = |handler: usize, state| block.handlers[handler].catches(&Error::new(state, "x"));
        assert!(catches(0, SqlState::DuplicateObject) && catches(0, SqlState::DuplicateTable));
        assert!(!catches(0, SqlState::UniqueViolation) && catches(1, SqlState::UniqueViolation));
    }

    #[test]
    fn what_there_is_not_is_told_before_anything_runs() {
        for text in [
            "DECLARE x int; BEGIN END",
            "BEGIN FOR x IN SELECT 1 LOOP NULL; END LOOP; END",
            "BEGIN SELECT 1 INTO x; END",
            "BEGIN x := 1; END",
            "BEGIN EXECUTE 'x' USING 1; END",
            "BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '22012'; END",
            "BEGIN RAISE unique_violation; END",
        ] {
            assert_eq!(state(text), Some(SqlState::FeatureNotSupported), "{text}");
        }
        for text in [
            "",
            "BEGIN",
            "BEGIN SELECT 1 END",
            "BEGIN IF true THEN END; END",
            "BEGIN NULL; END; END",
            "BEGIN NULL; EXCEPTION END",
            "BEGIN SELEC 1; END",
            "BEGIN RAISE NOTICE '%'; END",
            "BEGIN RAISE NOTICE 'x', 1; END",
            "BEGIN NULL; EXCEPTION WHEN SQLSTATE '1' THEN NULL; END",
        ] {
            assert_eq!(state(text), Some(SqlState::SyntaxError), "{text}");
        }
        assert_eq!(
            state("BEGIN NULL; EXCEPTION WHEN nothing THEN NULL; END"),
            Some(SqlState::UndefinedObject)
        );
        let deep = format!("{}{}", "BEGIN ".repeat(60), "END; ".repeat(60));
        assert_eq!(state(&deep), Some(SqlState::ProgramLimitExceeded));
    }
}
