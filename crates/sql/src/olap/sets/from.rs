//! Functions in FROM, written as derived tables.
//!
//! | written | read |
//! | --- | --- |
//! | `f(a) AS s (x)` | `LATERAL (SELECT f(a) AS x) AS s` |
//! | `f(a) WITH ORDINALITY` | `LATERAL (SELECT f(a) AS f, number() AS ordinality) AS f` |
//! | `ROWS FROM (f(a), g(b))` | `LATERAL (SELECT f(a) AS f, g(b) AS g)` |
//! | `unnest(a, b)` | `LATERAL (SELECT unnest(a) AS unnest, unnest(b) AS unnest)` |
//! | `json_each(a)` | `LATERAL (SELECT "json_each key"(a) AS key, "json_each value"(a) AS value) AS json_each` |
//! | `json_to_recordset(a) AS s (x int)` | `LATERAL (SELECT (json_to_recordset(a) ->> 'x')::int AS x) AS s` |
//!
//! A series of whole constants stays a function of DataFusion's, which makes it on all threads.

use super::{ORDINALITY, PREFIX, UNNEST, own};
use crate::expression::library::{self, SetColumns};
use crate::name::{dotted, folded, identifier, not_supported};
use crate::plain_query::{function_call, plain_query};
use crate::rewrite::ROWS_FROM;
use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, UnaryOperator, Value,
};

/// Functions whose columns are those that the alias defines.
const RECORDS: [&str; 4] = ["json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset"];

/// The query without functions in FROM.
///
/// # Errors
/// 42601 for column definitions where they are wanted and missing, or the other way round; 42P10 for more names than columns.
pub(crate) fn written_out(query: &Statement) -> Result<Statement> {
    let mut query = query.clone();
    let mut functions = Functions { refused: None };
    visit(&mut query, &mut functions);
    let mut whole = Whole { refused: functions.refused };
    visit(&mut query, &mut whole);
    whole.refused.map_or(Ok(query), Err)
}

/// Looks for results of several columns that are left.
struct Whole {
    refused: Option<Error>,
}

impl Work for Whole {
    fn expression(&mut self, expression: &mut Expr) {
        if let Some((columns, _)) = with_columns(expression)
            && !columns.is_empty()
        {
            let what = "a result of several columns in a select list";
            self.refused.get_or_insert_with(|| not_supported(what));
        }
    }
}

/// The columns that a call gives several of, and its arguments.
fn with_columns(expression: &Expr) -> Option<(SetColumns, Vec<Expr>)> {
    let Expr::Function(function) = expression else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    Some((library::columns(&function_name(&function.name))?, expressions(&list.args)?))
}

/// `(f(a)).*` as the columns that it stands for.
fn spread(item: SelectItem) -> Vec<SelectItem> {
    if let SelectItem::UnnamedExpr(Expr::CompoundFieldAccess { access_chain, .. }) = &item
        && let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice()
        && let SelectItem::UnnamedExpr(expression) = &item
        && let Some(expr) = Functions::field(expression)
    {
        return vec![SelectItem::ExprWithAlias { expr, alias: field.clone() }];
    }
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(Expr::Nested(inner)), _) = &item
    else {
        return vec![item];
    };
    let Some((columns, given)) = with_columns(inner) else { return vec![item] };
    let column = |(name, function): &(&str, &str)| SelectItem::ExprWithAlias {
        expr: function_call(function, given.clone()),
        alias: Ident::with_quote('"', *name),
    };
    columns.iter().map(column).collect()
}

struct Functions {
    refused: Option<Error>,
}

impl Work for Functions {
    fn query(&mut self, query: &mut Query) {
        let mut bodies = vec![query.body.as_mut()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    select.from.iter_mut().for_each(|from| self.joins(from));
                    let items = std::mem::take(&mut select.projection);
                    select.projection = items.into_iter().flat_map(spread).collect();
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
                // Queries in parentheses are visited by themselves.
                _ => {}
            }
        }
    }

    fn expression(&mut self, expression: &mut Expr) {
        if let Some(column) = Functions::field(expression) {
            *expression = column;
        }
    }
}

impl Functions {
    /// `(f(a)).column` as the function of that column.
    fn field(expression: &Expr) -> Option<Expr> {
        let Expr::CompoundFieldAccess { root, access_chain } = expression else { return None };
        let (Expr::Nested(inner), [AccessExpr::Dot(Expr::Identifier(field))]) = (&**root, &access_chain[..])
        else {
            return None;
        };
        let (columns, given) = with_columns(inner)?;
        let (_, function) = columns.iter().find(|(name, _)| *name == folded(field))?;
        Some(function_call(function, given))
    }

    fn joins(&mut self, from: &mut TableWithJoins) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => self.joins(table_with_joins),
                factor => match derived(factor) {
                    Ok(Some(derived)) => *factor = derived,
                    Ok(None) => {}
                    Err(error) => self.refused = Some(error),
                },
            }
        }
    }
}

/// The function as a derived table; `None` for other items.
pub(crate) fn derived(factor: &TableFactor) -> Result<Option<TableFactor>> {
    let (calls, is_numbered, alias) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => {
            let Some(given) = expressions(&arguments.args) else { return Ok(None) };
            let name = function_name(name);
            let names = alias.as_ref().map_or(0, |alias| alias.columns.len());
            if name == "generate_series" && !with_ordinality && names < 2 && given.iter().all(is_whole) {
                return Ok(None);
            }
            let calls = if name == ROWS_FROM { several(given)? } else { vec![(name, given)] };
            (calls, *with_ordinality, alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            let Some(given) = expressions(args) else { return Ok(None) };
            (vec![(function_name(name), given)], *with_ordinality, alias)
        }
        TableFactor::UNNEST { array_exprs, alias, with_ordinality, with_offset: false, .. } => {
            (vec![(UNNEST.to_owned(), array_exprs.clone())], *with_ordinality, alias)
        }
        _ => return Ok(None),
    };
    let calls = calls.into_iter().flat_map(|(name, given)| match name == UNNEST && given.len() > 1 {
        true => given.into_iter().map(|list| (UNNEST.to_owned(), vec![list])).collect(),
        false => vec![(name, given)],
    });
    let calls: Vec<(String, Vec<Expr>)> = calls.collect();
    let relation = alias.as_ref().map_or_else(|| identifier(&calls[0].0), |alias| alias.name.clone());
    let mut columns = columns(&calls, alias.as_ref())?;
    if is_numbered {
        let gives_rows = |(name, _): &(String, Vec<Expr>)| {
            own(name).is_some()
                || library::is_set(name)
                || library::columns(name).is_some()
                || RECORDS.contains(&name.as_str())
        };
        // A value is one row.
        let number = match calls.iter().any(gives_rows) {
            true => function_call(&format!("{PREFIX}{ORDINALITY}"), Vec::new()),
            false => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::value(Value::Number("1".to_owned(), false))),
                data_type: DataType::BigInt(None),
                array: false,
                format: None,
            },
        };
        columns.push(("ordinality".to_owned(), number));
    }
    rename(&mut columns, alias.as_ref(), &relation)?;
    let item = |(name, expr)| SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
    let subquery = plain_query(None, columns.into_iter().map(item).collect(), Vec::new(), None);
    let alias = TableAlias { explicit: true, name: relation, columns: Vec::new(), at: None };
    Ok(Some(TableFactor::Derived {
        lateral: true,
        subquery: Box::new(subquery),
        alias: Some(alias),
        sample: None,
    }))
}

fn function_name(name: &ObjectName) -> String {
    let whole = dotted(name);
    whole.strip_prefix("pg_catalog.").unwrap_or(&whole).to_owned()
}

fn expressions(arguments: &[FunctionArg]) -> Option<Vec<Expr>> {
    let given = arguments.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(given)) => Some(given.clone()),
        _ => None,
    });
    given.collect()
}

/// The calls of ROWS FROM.
fn several(given: Vec<Expr>) -> Result<Vec<(String, Vec<Expr>)>> {
    let syntax = || Error::new(SqlState::SyntaxError, "syntax error in ROWS FROM");
    let call = |item: Expr| match item {
        Expr::Function(function) => match &function.args {
            FunctionArguments::List(list) => {
                Ok((function_name(&function.name), expressions(&list.args).ok_or_else(syntax)?))
            }
            _ => Err(syntax()),
        },
        _ => Err(syntax()),
    };
    let calls = given.into_iter().map(call).collect::<Result<Vec<_>>>()?;
    if calls.is_empty() { Err(syntax()) } else { Ok(calls) }
}

/// The columns of the calls, under their own names.
fn columns(calls: &[(String, Vec<Expr>)], alias: Option<&TableAlias>) -> Result<Vec<(String, Expr)>> {
    let defined = alias.map_or(&[][..], |alias| alias.columns.as_slice());
    let is_defined = defined.iter().any(|column| column.data_type.is_some());
    let is_record = |name: &str| RECORDS.contains(&name);
    match calls {
        [(name, given)] if is_record(name) && is_defined => {
            let column = |column: &datafusion::sql::sqlparser::ast::TableAliasColumnDef| {
                let name_of_column = folded(&column.name);
                let part =
                    member(function_call(name, given.clone()), &name_of_column, column.data_type.clone());
                (name_of_column, part)
            };
            return Ok(defined.iter().map(column).collect());
        }
        _ if is_defined => {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            return Err(Error::new(SqlState::SyntaxError, message));
        }
        _ if calls.iter().any(|(name, _)| is_record(name)) => {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(Error::new(SqlState::SyntaxError, message));
        }
        _ => {}
    }
    let own = |(name, given): &(String, Vec<Expr>)| match library::columns(name) {
        Some(columns) => columns
            .iter()
            .map(|(column, function)| ((*column).to_owned(), function_call(function, given.clone())))
            .collect(),
        None => {
            let column = library::column(name).map(str::to_owned);
            let is_only = calls.len() == 1;
            // One that has no name is called as its relation is.
            let column = column.or_else(|| alias.filter(|_| is_only).map(|alias| folded(&alias.name)));
            vec![(column.unwrap_or_else(|| name.clone()), function_call(name, given.clone()))]
        }
    };
    Ok(calls.iter().flat_map(own).collect())
}

/// A member of a document as a value of a type.
fn member(document: Expr, key: &str, data_type: Option<DataType>) -> Expr {
    let key = Expr::value(Value::SingleQuotedString(key.to_owned()));
    let part = match data_type {
        Some(DataType::JSON | DataType::JSONB) => function_call(library::MEMBER, vec![document, key]),
        _ => Expr::BinaryOp { left: Box::new(document), op: BinaryOperator::LongArrow, right: Box::new(key) },
    };
    let expr = Box::new(Expr::Nested(Box::new(part)));
    let data_type = data_type.unwrap_or(DataType::Text);
    Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None }
}

/// Gives the first columns the names that the alias has for them.
fn rename(columns: &mut [(String, Expr)], alias: Option<&TableAlias>, relation: &Ident) -> Result<()> {
    let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
    if names.len() > columns.len() {
        let message = format!(
            "table \"{}\" has {} columns available but {} columns specified",
            folded(relation),
            columns.len(),
            names.len()
        );
        return Err(Error::new(SqlState::InvalidColumnReference, message));
    }
    for ((column, _), name) in columns.iter_mut().zip(names) {
        *column = folded(&name.name);
    }
    Ok(())
}

/// Whether the expression is a whole constant.
fn is_whole(expression: &Expr) -> bool {
    match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_whole(expr),
        Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if text.parse::<i64>().is_ok()),
        _ => false,
    }
}
