//! Domains: what they are on this floor, and what tests their values. docs/design/domains.md says why.
//!
//! A [`Version`] of a domain is its conditions, bound. It is kept for ever: checks of tables, plans and texts have it by its number. In
//! expressions it is a call, `"domain 12"(x)`: the value `x`, or the error that it is none of the domain.

mod statement;

pub(crate) use statement::{Action, Constraint, action, constraints, dropped, parse};

use crate::expression::{Binder, Context, Expression, Parameters, Refusal, Scope, evaluate};
use crate::name::{folded, identifier, quoted};
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{
    Catalog, ColumnDefinition, ColumnDomain, DataType, Domain, DomainType, Error, KEPT_DOMAIN, KEPT_ENUM,
    ListType, Result, SqlState, SystemType, Value,
};
use ankerdb_value::{KeptName, renamed};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

/// The schema of domains that are named by their numbers.
const SCHEMA: &str = "pg_catalog";
/// How the name of a call begins; the number of the version follows.
const CALL: &str = "domain ";
/// How the name of the check of a column begins, which nobody sees.
const CHECK: &str = "\0domain ";
/// Versions that there can be in the life of a process.
const VERSIONS_MAX: usize = 1 << 16;

/// A domain as it is, or was.
pub(crate) struct Version {
    pub number: u32,
    pub identity: DomainType,
    pub name: String,
    /// The name of its calls.
    pub call: String,
    /// The type of its values.
    pub base: DataType,
    /// As a statement writes that.
    pub written: ast::DataType,
    pub default: Option<String>,
    is_not_null: bool,
    /// Those of the domains below come first.
    conditions: Vec<(String, Expression)>,
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.call)
    }
}

/// A version in an expression. There is one of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test(pub &'static Version);

impl PartialEq for Test {
    fn eq(&self, other: &Test) -> bool {
        self.0.number == other.0.number
    }
}
impl Eq for Test {}
impl Hash for Test {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

static VERSIONS: RwLock<Vec<&'static Version>> = RwLock::new(Vec::new());

thread_local! {
    /// The versions of the transaction whose statement this thread plans, where they are not those that are committed.
    static OWN: RefCell<HashMap<DomainType, u32>> = RefCell::default();
}

/// While it lives, texts on this thread mean the domains of a catalog.
pub(crate) struct Along(HashMap<DomainType, u32>);

/// Lets texts mean the domains of a catalog.
pub(crate) fn along(catalog: &Catalog) -> Along {
    let other = catalog.domains().filter(|domain| domain.identity.version() != domain.version);
    let own = other.map(|domain| (domain.identity, domain.version)).collect();
    Along(OWN.with(|current| current.replace(own)))
}

impl Drop for Along {
    fn drop(&mut self) {
        OWN.with(|current| current.replace(std::mem::take(&mut self.0)));
    }
}

/// The version with this number.
pub(crate) fn by_number(number: u32) -> Option<&'static Version> {
    VERSIONS.read().unwrap_or_else(PoisonError::into_inner).get(number as usize).copied()
}

/// The version that texts mean now.
pub(crate) fn current(identity: DomainType) -> Option<&'static Version> {
    let own = OWN.with(|own| own.borrow().get(&identity).copied());
    by_number(own.unwrap_or_else(|| identity.version()))
}

/// Makes a version of a domain, over that of the one below.
///
/// # Errors
/// Those of its conditions, and 54000 if there were too many.
pub(crate) fn make(domain: &Domain, below: Option<&'static Version>) -> Result<&'static Version> {
    let mut conditions = below.map_or_else(Vec::new, |below| below.conditions.clone());
    for check in &domain.checks {
        conditions.push((
            check.name.clone(),
            condition(&crate::plan::check::parsed_check(&check.text)?, domain.base)?,
        ));
    }
    let is_not_null = domain.is_not_null || below.is_some_and(|below| below.is_not_null);
    let written = written_type(domain.base)?;
    let mut versions = VERSIONS.write().unwrap_or_else(PoisonError::into_inner);
    if versions.len() >= VERSIONS_MAX {
        let message = format!("domains cannot be made and altered more than {VERSIONS_MAX} times");
        return Err(Error::new(SqlState::ProgramLimitExceeded, message));
    }
    let number = versions.len() as u32;
    let default = domain.default.clone().or_else(|| below.and_then(|below| below.default.clone()));
    let version: &'static Version = Box::leak(Box::new(Version {
        number,
        identity: domain.identity,
        name: domain.name.clone(),
        call: format!("{CALL}{number}"),
        base: domain.base,
        written,
        default,
        is_not_null,
        conditions,
    }));
    versions.push(version);
    Ok(version)
}

/// The type as the parser has it.
fn written_type(data_type: DataType) -> Result<ast::DataType> {
    let labels = match data_type {
        DataType::Enum(labels) | DataType::System(SystemType::List(ListType::Enum(labels))) => {
            format!("{SCHEMA}.{KEPT_ENUM}{}", labels.number())
        }
        _ => String::new(),
    };
    let text = match data_type {
        DataType::Enum(_) => labels,
        DataType::System(SystemType::List(ListType::Enum(_))) => format!("{labels}[]"),
        other => other.to_string(),
    };
    let parsed = crate::plan::check::parsed_check(&format!("CAST(NULL AS {text})"))?;
    match parsed {
        Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(Error::internal("the type of a domain is none")),
    }
}

/// A condition on VALUE.
///
/// # Errors
/// 42703 for columns, 42804 if it is no condition, 0A000 for what a condition cannot have.
pub(crate) fn condition(expr: &Expr, base: DataType) -> Result<Expression> {
    let value = [ColumnDefinition::new("value", base).nullable()];
    let mut parameters = Parameters::default();
    let bound = Binder::new(Scope::default().with("", &value), &mut parameters).bind_condition(expr, "CHECK");
    bound.map_err(Refusal::into_error)
}

/// The text of a condition, with VALUE as a word of SQL.
pub(crate) fn condition_text(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |expr| {
        if let Expr::Identifier(name) = expr
            && name.quote_style.is_none()
            && folded(name) == "value"
        {
            *name = Ident::new("VALUE");
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

impl Version {
    /// That a value is one of the domain.
    ///
    /// # Errors
    /// 23502, 23514, and those of the conditions.
    pub(crate) fn test(&self, value: &Value, context: &Context) -> Result<()> {
        if self.is_not_null && value.is_null() {
            let message = format!("domain {} does not allow null values", identifier(&self.name));
            return Err(Error::new(SqlState::NotNullViolation, message));
        }
        let column = |_| value.clone();
        let context = Context { column: &column, ..*context };
        for (name, condition) in &self.conditions {
            if evaluate(condition, &context)? == Value::Boolean(false) {
                let domain = identifier(&self.name);
                let message = format!("value for domain {domain} violates check constraint {}", quoted(name));
                return Err(Error::new(SqlState::CheckViolation, message).with_constraint(name));
            }
        }
        Ok(())
    }

    /// Whether any value is one.
    fn takes_all(&self) -> bool {
        !self.is_not_null && self.conditions.is_empty()
    }

    /// What says that a column is of the domain.
    pub(crate) fn of_column(&self, gives_default: bool) -> ColumnDomain {
        ColumnDomain { identity: self.identity, version: self.number, gives_default }
    }

    /// The check of a column, by its name and condition; `None` if any value is one of the domain.
    pub(crate) fn check(&self, column: &str) -> Option<(String, Expr)> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static CHECKS: AtomicU64 = AtomicU64::new(0);
        if self.takes_all() {
            return None;
        }
        let name = format!("{CHECK}{}", CHECKS.fetch_add(1, Ordering::Relaxed));
        let column = Expr::Identifier(crate::name::identifier(column));
        let is_null = Expr::IsNull(Box::new(called(self, column)));
        // It is never NULL, but is not known to be before it is computed.
        Some((name, Expr::IsNotNull(Box::new(Expr::Nested(Box::new(is_null))))))
    }
}

/// Whether a check of a table is that of a domain.
pub(crate) fn is_check(name: &str) -> bool {
    name.starts_with(CHECK)
}

/// A call that tests a value.
fn called(version: &Version, operand: Expr) -> Expr {
    let argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(operand));
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args: vec![argument], clauses: vec![] };
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::with_quote('"', version.call.clone())]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The version whose calls have this name.
pub(crate) fn by_call(name: &str) -> Option<&'static Version> {
    by_number(name.strip_prefix(CALL)?.parse().ok()?)
}

/// A domain as texts that are kept name it.
pub(crate) fn kept_type(identity: DomainType) -> ast::DataType {
    let name = [Ident::new(SCHEMA), Ident::new(format!("{KEPT_DOMAIN}{}", identity.number()))];
    ast::DataType::Custom(ObjectName::from(name.to_vec()), Vec::new())
}

/// The domain that the name of a type stands for, without its schema.
pub(crate) fn by_kept_name(name: &str) -> Option<&'static Version> {
    current(DomainType::by_number(name.strip_prefix(KEPT_DOMAIN)?.parse().ok()?)?)
}

/// The domain that a parsed type is.
pub(crate) fn domain(parsed: &ast::DataType) -> Option<&'static Version> {
    let ast::DataType::Custom(name, _) = parsed else { return None };
    match name.0.as_slice() {
        [schema, name] if schema.as_ident()?.value == SCHEMA => by_kept_name(&name.as_ident()?.value),
        _ => None,
    }
}

/// A cast to a domain as the test of a cast to its base type; `None` for other expressions.
pub(crate) fn as_call(expression: &Expr) -> Option<Expr> {
    let (version, mut cast) = match expression {
        Expr::Cast { data_type, .. } => (domain(data_type)?, expression.clone()),
        Expr::TypedString(typed) => (domain(&typed.data_type)?, expression.clone()),
        _ => return None,
    };
    match &mut cast {
        Expr::Cast { data_type, .. } => data_type.clone_from(&version.written),
        Expr::TypedString(typed) => typed.data_type.clone_from(&version.written),
        _ => return None,
    }
    Some(called(version, cast))
}

/// Whether a text that is kept names the domain.
pub(crate) fn is_named_in(text: &str, identity: DomainType) -> bool {
    let mut found = false;
    shown(text, |known| {
        found |= known == identity;
        String::new()
    });
    found
}

/// The text with what domains are called in the place of their numbers.
pub(crate) fn shown(text: &str, mut name: impl FnMut(DomainType) -> String) -> String {
    renamed(text, |known| match known {
        KeptName::Domain(number) => DomainType::by_number(number).map(&mut name),
        KeptName::Enum(_) => None,
    })
}
