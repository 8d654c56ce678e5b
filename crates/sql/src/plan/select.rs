//! SELECT on one table or none, for the OLTP path.

use super::access::{Access, Choice, SortKey, choose};
use super::{Planner, QueryPlan, SubqueryPlans};
use crate::OutputColumn;
use crate::column_name::column_name;
use crate::expression::bind::{Bound, elsewhere, type_name};
use crate::expression::clause_order::in_order;
use crate::expression::{Binder, Expression, Parameters, Scope, Typed, columns_of, document};
use crate::name::{folded, object_name, quoted};
use crate::system::oids::ObjectKey;
use ankerdb_engine::{ColumnSet, DataType, Error, LockWait, SqlState, Table};
use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem};
use std::sync::Arc;

/// A SELECT that the OLTP path runs.
pub(crate) struct SelectPlan {
    pub table: Option<Arc<Table>>,
    pub access: Access,
    pub filter: Option<Arc<Expression>>,
    /// Columns that the filter, the order and the result read.
    pub columns: ColumnSet,
    pub projection: Vec<Expression>,
    pub output: Arc<[OutputColumn]>,
    /// What to sort by; empty if the access delivers the order.
    pub sort: Vec<SortKey>,
    pub limit: Option<Expression>,
    pub offset: Option<Expression>,
    /// FOR UPDATE and FOR SHARE.
    pub lock: Option<LockWait>,
    /// What is to be run before it; only where rows are locked.
    pub subqueries: Vec<QueryPlan>,
}

impl Planner<'_> {
    /// Plans the query for the OLTP path, or says why that path is not for it.
    pub(super) fn select(&self, query: &ast::Query, parameters: &mut Parameters) -> Bound<SelectPlan> {
        let select = plain_select(query)?;
        let (table, name) = match select.from.as_slice() {
            [] => (None, String::new()),
            [from] => {
                if !from.joins.is_empty() {
                    return elsewhere("a join");
                }
                let (table, name) = self.relation(&from.relation)?;
                (Some(table), name)
            }
            _ => return elsewhere("a join"),
        };
        let lock = lock_wait(&query.locks, &name, table.as_deref())?;
        let scope = table.as_ref().map_or_else(Scope::default, |table| self.scope(table, name));
        let mut subqueries = SubqueryPlans::in_rows(self);
        let mut binder = Binder::new(scope, parameters);
        binder.is_in_rows = self.is_in_rows.get();
        if lock.is_some() {
            binder.subqueries = Some(&mut subqueries);
        }
        let condition =
            select.selection.as_ref().map(|expr| binder.bind_condition(expr, "WHERE")).transpose();
        let (condition, (projection, output)) =
            in_order(condition, || bind_projection(&mut binder, &select.projection))?;
        let order = bind_order(&mut binder, query.order_by.as_ref(), &projection, &output)?;
        let (limit, offset) = bind_limit(&mut binder, query)?;
        let subqueries = subqueries.plans;
        let Some(table) = table else {
            if !order.is_empty() {
                return elsewhere("ORDER BY without a table");
            }
            let filter = condition.map(Arc::new);
            let access = Access::OneRow;
            let (columns, output) = (ColumnSet::EMPTY, output.into());
            let sort = Vec::new();
            return Ok(SelectPlan {
                table: None,
                access,
                filter,
                columns,
                projection,
                output,
                sort,
                limit,
                offset,
                lock: None,
                subqueries,
            });
        };
        let read = condition.iter().chain(&projection).chain(order.iter().map(|key| &key.expression));
        let columns = columns_of(read, table.columns().len());
        let choice = choose(&self.catalog, &table, condition, &order);
        if lock.is_none() && !choice.is_narrow() && !stops_early(&choice, limit.is_some(), !order.is_empty())
        {
            return elsewhere("a full scan");
        }
        Ok(SelectPlan {
            table: Some(table),
            access: choice.access,
            filter: choice.filter.map(Arc::new),
            columns,
            projection,
            output: output.into(),
            sort: if choice.ordered { Vec::new() } else { order },
            limit,
            offset,
            lock,
            subqueries,
        })
    }

    /// The number by which clients know a table.
    pub(super) fn number(&self, table: &Arc<Table>) -> u32 {
        self.engine.olap().oids().lock().of(ObjectKey::Table(table.origin()), || table.into())
    }

    /// The columns of a table that goes by a name.
    pub(super) fn scope<'t>(&self, table: &'t Arc<Table>, name: String) -> Scope<'t> {
        let (schema, number) = (self.catalog.schema_of(table), self.number(table));
        Scope::default().with(name, table.columns()).in_schema(schema).numbered(Some(number))
    }

    /// The one table of a FROM item and the name it goes by.
    pub(super) fn relation(&self, from: &ast::TableFactor) -> Bound<(Arc<Table>, String)> {
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            version: None,
            with_ordinality: false,
            sample: None,
            json_path: None,
            ..
        } = from
        else {
            return elsewhere("such a FROM item");
        };
        // Unknown names may be views of the system catalog, which the OLAP path has.
        let Some(table) = object_name(name).ok().and_then(|name| self.catalog.table(&name).ok()) else {
            return elsewhere(format!("the relation {name}"));
        };
        let name = match alias {
            Some(alias) if !alias.columns.is_empty() => return elsewhere("column aliases"),
            Some(alias) => folded(&alias.name),
            None => table.name().to_owned(),
        };
        Ok((table, name))
    }
}

/// A range without two ends is worth walking only if a limit ends the walk: in the order asked for, with
/// nothing filtered out on the way.
fn stops_early(choice: &Choice, limited: bool, sorted: bool) -> bool {
    matches!(choice.access, Access::Range(_))
        && limited
        && sorted
        && choice.ordered
        && choice.filter.is_none()
}

/// The SELECT of a query that has only clauses which the OLTP path knows.
fn plain_select(query: &ast::Query) -> Bound<&ast::Select> {
    let select = ungrouped_clauses(query)?;
    match &select.group_by {
        ast::GroupByExpr::Expressions(exprs, modifiers) if exprs.is_empty() && modifiers.is_empty() => {
            Ok(select)
        }
        _ => elsewhere("GROUP BY or a window"),
    }
}

/// The SELECT of a query whose clauses other than GROUP BY are those that the OLTP path knows.
pub(super) fn ungrouped_clauses(query: &ast::Query) -> Bound<&ast::Select> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return elsewhere("a set operation");
    };
    if query.with.is_some() || query.fetch.is_some() || !query.pipe_operators.is_empty() {
        return elsewhere("WITH or FETCH");
    }
    if select.having.is_some() || select.qualify.is_some() || !select.named_window.is_empty() {
        return elsewhere("GROUP BY or a window");
    }
    if select.distinct.is_some() || select.top.is_some() || select.into.is_some() {
        return elsewhere("DISTINCT or INTO");
    }
    Ok(select)
}

/// Binds a select list: expressions and the columns of the result.
pub(super) fn bind_projection(
    binder: &mut Binder,
    items: &[SelectItem],
) -> Bound<(Vec<Expression>, Vec<OutputColumn>)> {
    let mut projection = Vec::with_capacity(items.len());
    let mut output = Vec::with_capacity(items.len());
    for item in items {
        for (name, typed) in bind_item(binder, item)? {
            let (expression, data_type) = binder.settle(typed)?;
            projection.push(expression);
            output.push(OutputColumn::new(name, data_type));
        }
    }
    Ok((projection, output))
}

fn bind_item(binder: &mut Binder, item: &SelectItem) -> Bound<Vec<(String, Typed)>> {
    match item {
        SelectItem::UnnamedExpr(expr) => Ok(vec![(column_name(expr), binder.bind(expr)?)]),
        SelectItem::ExprWithAlias { expr, alias } => Ok(vec![(folded(alias), binder.bind(expr)?)]),
        SelectItem::Wildcard(options) if plain_wildcard(options) => binder.scope.expand(None),
        SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options)
            if plain_wildcard(options) =>
        {
            binder.scope.expand(Some(&object_name(name)?))
        }
        _ => elsewhere("such an item of the select list"),
    }
}

fn plain_wildcard(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}

pub(super) fn bind_order(
    binder: &mut Binder,
    order: Option<&ast::OrderBy>,
    projection: &[Expression],
    output: &[OutputColumn],
) -> Bound<Vec<SortKey>> {
    let exprs = match order.map(|order| &order.kind) {
        None => return Ok(Vec::new()),
        Some(ast::OrderByKind::Expressions(exprs)) => exprs,
        Some(ast::OrderByKind::All(_)) => return elsewhere("ORDER BY ALL"),
    };
    let mut keys = Vec::with_capacity(exprs.len());
    for item in exprs {
        let (expression, data_type) = match ordered_output(&item.expr, output)? {
            Some(position) => (projection[position].clone(), output[position].data_type),
            None => binder.bind_settled(&item.expr)?,
        };
        let expression = document::ordered(expression, data_type)?;
        let descending = item.options.asc == Some(false);
        let nulls_first = item.options.nulls_first.unwrap_or(descending);
        keys.push(SortKey { expression, descending, nulls_first });
    }
    Ok(keys)
}

/// The result column that an ORDER BY item names or numbers.
fn ordered_output(expr: &Expr, output: &[OutputColumn]) -> Bound<Option<usize>> {
    match expr {
        Expr::Identifier(ident) => {
            let name = folded(ident);
            Ok(output.iter().position(|column| column.name == name))
        }
        Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
            match text.parse::<usize>() {
                Ok(number @ 1..) if number <= output.len() => Ok(Some(number - 1)),
                _ => {
                    let message = format!("ORDER BY position {text} is not in select list");
                    Err(Error::new(SqlState::InvalidColumnReference, message).into())
                }
            }
        }
        _ => Ok(None),
    }
}

pub(super) fn bind_limit(
    binder: &mut Binder,
    query: &ast::Query,
) -> Bound<(Option<Expression>, Option<Expression>)> {
    let (limit, offset) = match &query.limit_clause {
        None => return Ok((None, None)),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(_) => return elsewhere("such a LIMIT"),
    };
    let mut count = |expr: Option<&Expr>, clause: &str| -> Bound<Option<Expression>> {
        let Some(expr) = expr else { return Ok(None) };
        let typed = binder.bind(expr)?;
        let expression = match typed.data_type {
            None | Some(DataType::BigInt | DataType::Integer | DataType::SmallInt) => {
                binder.resolve(typed, DataType::BigInt)?
            }
            Some(data_type) if data_type.is_numeric() => {
                Expression::Cast(Box::new(typed.expression), DataType::BigInt)
            }
            Some(data_type) => {
                let name = type_name(data_type);
                let message = format!("argument of {clause} must be type bigint, not type {name}");
                return Err(Error::new(SqlState::DatatypeMismatch, message).into());
            }
        };
        if !expression.is_constant() {
            let message = format!("argument of {clause} must not contain variables");
            return Err(Error::new(SqlState::InvalidColumnReference, message).into());
        }
        Ok(Some(expression))
    };
    Ok((count(limit, "LIMIT")?, count(offset, "OFFSET")?))
}

/// How the locking clauses wait; `None` without one. Shared and weaker locks are taken as exclusive ones; of several, the
/// one that waits least counts.
///
/// # Errors
/// `UndefinedTable` for OF with another name than `relation`, that of the only one there is; `WrongObjectType` for a materialized view.
fn lock_wait(locks: &[ast::LockClause], relation: &str, table: Option<&Table>) -> Bound<Option<LockWait>> {
    if let Some(table) = table.filter(|table| !locks.is_empty() && table.definition().materialized.is_some())
    {
        let message = format!("cannot lock rows in materialized view {}", quoted(table.name()));
        return Err(Error::new(SqlState::WrongObjectType, message).into());
    }
    let mut waits = Vec::with_capacity(locks.len());
    for lock in locks {
        if let Some(of) = &lock.of
            && crate::name::dotted(of) != relation
        {
            let (name, clause) = (quoted(&crate::name::dotted(of)), &lock.lock_type);
            let message = format!("relation {name} in FOR {clause} clause not found in FROM clause");
            return Err(Error::new(SqlState::UndefinedTable, message).into());
        }
        waits.push(match lock.nonblock {
            None => LockWait::Wait,
            Some(ast::NonBlock::Nowait) => LockWait::NoWait,
            Some(ast::NonBlock::SkipLocked) => LockWait::Skip,
        });
    }
    let least = [LockWait::NoWait, LockWait::Skip, LockWait::Wait];
    Ok(least.into_iter().find(|wait| waits.contains(wait)))
}
