//! Transaction control and settings.

use crate::OutputColumn;
use crate::name::{ROLE, dotted, folded, not_supported, quoted};
use crate::session::LockedTables;
use crate::system::is_known_extension;
use ankerdb_engine::{DataType, Error, Isolation, Result, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, Statement};
use std::sync::Arc;

/// A statement about the session rather than the data.
pub(crate) enum Utility {
    /// BEGIN and START TRANSACTION; the words are the tag.
    Begin(Modes, &'static str),
    /// With AND CHAIN a transaction of the same modes follows.
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// SET TRANSACTION: for the transaction that is open.
    SetTransaction(Modes),
    /// SET TRANSACTION SNAPSHOT: reads what another transaction reads, whose snapshot has this identifier.
    ImportSnapshot(String),
    LockTables(LockedTables),
    /// SET SESSION CHARACTERISTICS: for those to come.
    SetDefaults(Modes),
    Set(Setting),
    Reset(Option<String>),
    Show(String),
    /// Forgets everything that the session has of its own, or which numbers of sequences it has got.
    Discard {
        all: bool,
    },
    /// A statement that changes nothing on this server; the words are its tag.
    Accepted(&'static str),
}

/// The modes that BEGIN and SET TRANSACTION name.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

/// SET [LOCAL] name = value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub name: String,
    /// `None` is DEFAULT.
    pub value: Option<String>,
    /// Whether it ends with the transaction.
    pub is_local: bool,
}

impl Utility {
    /// Whether it may run in a transaction that has failed.
    pub(crate) fn ends_failure(&self) -> bool {
        matches!(self, Utility::Commit { .. } | Utility::Rollback { .. } | Utility::RollbackTo(_))
    }

    /// The columns of its result, if it has one.
    pub(crate) fn output(&self) -> Option<Arc<[OutputColumn]>> {
        let column = |name: &str| OutputColumn::new(name, DataType::Text);
        match self {
            Utility::Show(name) if name == "all" => {
                Some([column("name"), column("setting"), column("description")].into())
            }
            Utility::Show(name) => Some([column(shown_as(name))].into()),
            _ => None,
        }
    }
}

/// The utility statement; 0A000 if it is not supported.
pub(super) fn utility(statement: &Statement) -> Result<Utility> {
    Ok(match statement {
        Statement::StartTransaction { modes, begin, .. } => {
            let tag = if *begin { "BEGIN" } else { "START TRANSACTION" };
            Utility::Begin(transaction_modes(modes)?, tag)
        }
        Statement::Commit { chain, .. } => Utility::Commit { chain: *chain },
        Statement::Rollback { chain, savepoint: None } => Utility::Rollback { chain: *chain },
        Statement::Rollback { savepoint: Some(name), .. } => Utility::RollbackTo(folded(name)),
        Statement::Savepoint { name } => Utility::Savepoint(folded(name)),
        Statement::ReleaseSavepoint { name } => Utility::Release(folded(name)),
        Statement::Lock(lock) => Utility::LockTables(LockedTables::read(lock)?),
        Statement::Set(set) => set_statement(set)?,
        Statement::Reset(reset) => match &reset.reset {
            ast::Reset::ALL => Utility::Reset(None),
            ast::Reset::ConfigurationParameter(name) => Utility::Reset(Some(dotted(name))),
        },
        Statement::ShowVariable { variable } => Utility::Show(shown_name(variable)),
        Statement::Discard { object_type: ast::DiscardObject::ALL } => Utility::Discard { all: true },
        Statement::Discard { object_type: ast::DiscardObject::SEQUENCES } => Utility::Discard { all: false },
        // Plans are made again when they have to be.
        Statement::Discard { object_type: ast::DiscardObject::PLANS } => Utility::Accepted("DISCARD PLANS"),
        Statement::CreateExtension(created) => {
            let name = folded(&created.name);
            if !is_known_extension(&name) {
                let message = format!("extension \"{name}\" is not available");
                let hint = "SELECT * FROM pg_available_extensions shows those that are.";
                return Err(Error::new(SqlState::FeatureNotSupported, message).with_hint(hint));
            }
            Utility::Accepted("CREATE EXTENSION")
        }
        Statement::DropExtension(dropped) => {
            let missing = dropped.names.iter().map(folded).find(|name| !is_known_extension(name));
            if let Some(name) = missing.filter(|_| !dropped.if_exists) {
                let message = format!("extension \"{name}\" does not exist");
                return Err(Error::new(SqlState::UndefinedObject, message));
            }
            Utility::Accepted("DROP EXTENSION")
        }
        other => return Err(not_supported(&command_words(other))),
    })
}

fn transaction_modes(modes: &[ast::TransactionMode]) -> Result<Modes> {
    let mut result = Modes::default();
    for mode in modes {
        match mode {
            ast::TransactionMode::AccessMode(mode) => {
                result.read_only = Some(*mode == ast::TransactionAccessMode::ReadOnly);
            }
            ast::TransactionMode::IsolationLevel(level) => {
                use ast::TransactionIsolationLevel as Level;
                result.isolation = Some(match level {
                    Level::ReadUncommitted => Isolation::ReadUncommitted,
                    Level::ReadCommitted => Isolation::ReadCommitted,
                    Level::RepeatableRead | Level::Snapshot => Isolation::RepeatableRead,
                    Level::Serializable => Isolation::Serializable,
                });
            }
        }
    }
    Ok(result)
}

fn set_statement(set: &ast::Set) -> Result<Utility> {
    Ok(match set {
        ast::Set::SetTransaction { snapshot: Some(value), .. } => {
            let identifier = value.value.clone().into_string();
            Utility::ImportSnapshot(identifier.ok_or_else(|| crate::syntax_error::near(&value.to_string()))?)
        }
        ast::Set::SetTransaction { modes, session: true, .. } => {
            Utility::SetDefaults(transaction_modes(modes)?)
        }
        ast::Set::SetTransaction { modes, .. } => Utility::SetTransaction(transaction_modes(modes)?),
        ast::Set::SingleAssignment { scope: Some(ast::ContextModifier::Global), .. } => {
            return Err(Error::new(SqlState::SyntaxError, "syntax error at or near \"GLOBAL\""));
        }
        ast::Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let (name, is_local) = (dotted(variable).to_lowercase(), is_local(scope.as_ref()));
            // As in PostgreSQL, a value without quotes is folded in names only.
            let value = match name.as_str() {
                "search_path" => names_value(values)?,
                "timezone" | "time zone" => zone(setting_value(values)?),
                _ => setting_value(values)?,
            };
            Utility::Set(Setting { name, value, is_local })
        }
        ast::Set::SetTimeZone { local, value } => Utility::Set(Setting {
            name: "timezone".into(),
            value: zone(setting_value(std::slice::from_ref(value))?),
            is_local: *local,
        }),
        ast::Set::SetNames { charset_name, collation_name: None } => Utility::Set(Setting {
            name: "client_encoding".into(),
            value: Some(charset_name.value.clone()),
            is_local: false,
        }),
        ast::Set::SetNamesDefault {} => {
            Utility::Set(Setting { name: "client_encoding".into(), value: None, is_local: false })
        }
        // No role is what a session has.
        ast::Set::SetRole { role_name: None, .. } => Utility::Accepted("SET"),
        ast::Set::SetRole { role_name: Some(role), .. } => {
            check_role(role)?;
            Utility::Accepted("SET")
        }
        ast::Set::SetSessionAuthorization(authorization) => match &authorization.kind {
            ast::SetSessionAuthorizationParamKind::Default => Utility::Accepted("SET"),
            ast::SetSessionAuthorizationParamKind::User(role) => {
                check_role(role)?;
                Utility::Accepted("SET")
            }
        },
        other => return Err(not_supported(&other.to_string())),
    })
}

/// 22023 for any role but the one that there is.
fn check_role(role: &ast::Ident) -> Result<()> {
    let name = folded(role);
    if name == ROLE {
        return Ok(());
    }
    let message = format!("role {} does not exist", quoted(&name));
    Err(Error::new(SqlState::InvalidParameterValue, message))
}

fn is_local(scope: Option<&ast::ContextModifier>) -> bool {
    scope == Some(&ast::ContextModifier::Local)
}

/// The text of `INTERVAL '+02:00' HOUR TO MINUTE`, which is a cast when it comes here.
fn zone_interval(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. }) => {
            Ok(format!("{}{text}", crate::words::INTERVAL))
        }
        other => Err(invalid_value(&other.to_string())),
    }
}

/// `SET TIME ZONE LOCAL` is another way to say DEFAULT.
fn zone(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.eq_ignore_ascii_case("local"))
}

/// The value as text; several are joined as `search_path` has them. `None` is DEFAULT.
fn setting_value(values: &[Expr]) -> Result<Option<String>> {
    let mut texts = Vec::with_capacity(values.len());
    for value in values {
        texts.push(match value {
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                return Ok(None);
            }
            Expr::Identifier(ident) => folded(ident),
            Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.clone(),
                ast::Value::Boolean(value) => if *value { "on" } else { "off" }.into(),
                other => return Err(invalid_value(&other.to_string())),
            },
            Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => format!("-{expr}"),
            Expr::Interval(interval) => zone_interval(&interval.value)?,
            Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => zone_interval(expr)?,
            other => return Err(invalid_value(&other.to_string())),
        });
    }
    Ok(Some(texts.join(", ")))
}

/// A list of names as text, each in quotes unless it stands for itself. `None` is DEFAULT.
fn names_value(values: &[Expr]) -> Result<Option<String>> {
    let mut names = Vec::with_capacity(values.len());
    for value in values {
        let Some(name) = setting_value(std::slice::from_ref(value))? else { return Ok(None) };
        names.push(crate::system::quote_ident(&name));
    }
    Ok(Some(names.join(", ")))
}

fn invalid_value(text: &str) -> Error {
    Error::new(SqlState::InvalidParameterValue, format!("invalid value for parameter: {text}"))
}

/// SHOW's words as the name of a setting.
fn shown_name(words: &[ast::Ident]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "transaction isolation level" => "transaction_isolation".into(),
        "time zone" => "timezone".into(),
        // The parser takes SESSION for a word of its own.
        "authorization" => "session_authorization".into(),
        _ => words.join("."),
    }
}

/// The name of a setting as PostgreSQL writes it.
fn shown_as(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

/// The first words of a statement, for messages.
fn command_words(statement: &Statement) -> String {
    let text = statement.to_string();
    let words = text.split_whitespace().take(2).collect::<Vec<_>>();
    words.join(" ")
}
