//! SELECT over few rows of one table or several, each reached by an index: joins, and aggregates over them.

use super::Planner;
use super::access::{Access, Choice, SortKey, choose};
use super::derivation::conjuncts;
use super::select::{bind_limit, bind_order, bind_projection, ungrouped_clauses};
use crate::OutputColumn;
use crate::column_name::column_name;
use crate::expression::bind::{Bound, elsewhere};
use crate::expression::clause_order::in_order;
use crate::expression::{Binder, Expression, Parameters, Scope};
use crate::name::folded;
use ankerdb_engine::{ColumnSet, DataType, Table};
use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem};
use std::sync::Arc;

/// Tables of a statement that is planned in this way.
const MOST_TABLES: usize = 8;

/// A SELECT that visits the rows of its first table, for each of them those of the next, and so on.
pub(crate) struct LookupPlan {
    pub steps: Vec<LookupStep>,
    pub grouping: Option<Grouping>,
    /// The result, over the columns of all tables; over the groups' keys and then the aggregates where rows are grouped.
    pub projection: Vec<Expression>,
    pub output: Arc<[OutputColumn]>,
    pub sort: Vec<SortKey>,
    pub limit: Option<Expression>,
    pub offset: Option<Expression>,
    /// The number of the statement's own parameters.
    pub parameters: usize,
}

/// How the rows of one table are reached.
pub(crate) struct LookupStep {
    pub table: Arc<Table>,
    /// The position of its first column among those of all tables.
    pub first: usize,
    /// Over its own columns. Parameters behind those of the statement are the values of `outer`.
    pub access: Access,
    pub filter: Option<Arc<Expression>>,
    /// Its columns that the statement reads.
    pub columns: ColumnSet,
    /// Columns of the tables before.
    pub outer: Vec<usize>,
}

/// Groups by columns, and what is computed of each.
pub(crate) struct Grouping {
    /// Positions of columns; none for one group of all rows.
    pub keys: Vec<usize>,
    pub aggregates: Vec<Aggregate>,
}

/// A call of an aggregate over a column.
pub(crate) struct Aggregate {
    pub kind: AggregateKind,
    /// `None` for `count(*)`.
    pub column: Option<usize>,
    pub distinct: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    Sum,
    Min,
    Max,
}

/// A table of FROM.
struct From {
    table: Arc<Table>,
    name: String,
    first: usize,
}

/// The conditions of joins, each with the number of tables that it may mention.
type JoinConditions<'a> = Vec<(usize, &'a Expr)>;

impl From {
    fn has(&self, column: usize) -> bool {
        (self.first..self.first + self.table.columns().len()).contains(&column)
    }
}

impl Planner<'_> {
    /// Plans a query that indexes lead through; `None` for all others, also those that fail.
    pub(super) fn lookup(&self, query: &ast::Query, parameters: &mut Parameters) -> Option<LookupPlan> {
        if self.avoids_lookups || self.is_later || !query.locks.is_empty() {
            return None;
        }
        let select = ungrouped_clauses(query).ok()?;
        let is_joined = select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty());
        if select.from.is_empty() || !(is_joined || is_grouped(select)) {
            return None;
        }
        let mut found = Parameters::declared(parameters.known());
        let plan = self.planned_lookup(query, select, &mut found).ok()?;
        *parameters = found;
        Some(plan)
    }

    fn planned_lookup(
        &self,
        query: &ast::Query,
        select: &ast::Select,
        parameters: &mut Parameters,
    ) -> Bound<LookupPlan> {
        let (tables, on) = self.tables_of(&select.from)?;
        let mut conditions = Vec::new();
        for (known, expr) in on {
            let mut binder = Binder::new(self.scope_of(&tables[..known]), parameters);
            conditions.push(binder.bind_condition(expr, "JOIN/ON")?);
        }
        let mut binder = Binder::new(self.scope_of(&tables), parameters);
        let condition =
            select.selection.as_ref().map(|expr| binder.bind_condition(expr, "WHERE")).transpose();
        let (condition, (grouping, projection, output, order)) = in_order(condition, || {
            if !is_grouped(select) {
                let (projection, output) = bind_projection(&mut binder, &select.projection)?;
                let order = bind_order(&mut binder, query.order_by.as_ref(), &projection, &output)?;
                return Ok((None, projection, output, order));
            }
            if query.order_by.is_some() {
                return elsewhere("an order of groups");
            }
            let (grouping, projection, output) = bind_groups(&mut binder, select)?;
            Ok((Some(grouping), projection, output, Vec::new()))
        })?;
        conditions.extend(condition);
        let conditions: Vec<Expression> = conditions.into_iter().flat_map(conjuncts).collect();
        let (limit, offset) = bind_limit(&mut binder, query)?;
        let mut read = Vec::new();
        match &grouping {
            Some(grouping) => {
                read.extend(&grouping.keys);
                read.extend(grouping.aggregates.iter().filter_map(|aggregate| aggregate.column));
            }
            None => {
                let all = projection.iter().chain(order.iter().map(|key| &key.expression));
                all.for_each(|expression| expression.collect_columns(&mut read));
            }
        }
        let mut all = conditions.iter().chain(&projection).chain(order.iter().map(|key| &key.expression));
        if !all.all(is_immutable) || !limit.iter().chain(&offset).all(is_immutable) {
            return elsewhere("functions that look at more than their arguments");
        }
        conditions.iter().for_each(|condition| condition.collect_columns(&mut read));
        let (count, sort) = (parameters.known().len(), order);
        let steps = self.steps_over(tables, conditions, &read, count)?;
        let output: Arc<[OutputColumn]> = output.into();
        Ok(LookupPlan { steps, grouping, projection, output, sort, limit, offset, parameters: count })
    }

    /// The tables of FROM, and the conditions of its joins.
    fn tables_of<'q>(&self, from: &'q [ast::TableWithJoins]) -> Bound<(Vec<From>, JoinConditions<'q>)> {
        let (mut tables, mut on): (Vec<From>, Vec<_>) = (Vec::new(), Vec::new());
        for item in from {
            let mut factors = vec![&item.relation];
            for join in &item.joins {
                let (ast::JoinOperator::Join(constraint) | ast::JoinOperator::Inner(constraint)) =
                    &join.join_operator
                else {
                    return elsewhere("such a join");
                };
                let ast::JoinConstraint::On(expr) = constraint else { return elsewhere("such a join") };
                // A condition does not see the items of FROM beside its own.
                if join.global || from.len() > 1 {
                    return elsewhere("such a join");
                }
                factors.push(&join.relation);
                on.push((factors.len(), expr));
            }
            for factor in factors {
                let (table, name) = self.relation(factor)?;
                if tables.len() == MOST_TABLES || tables.iter().any(|other| other.name == name) {
                    return elsewhere("such a FROM clause");
                }
                let first = tables.last().map_or(0, |last| last.first + last.table.columns().len());
                tables.push(From { table, name, first });
            }
        }
        Ok((tables, on))
    }

    fn scope_of<'t>(&self, tables: &'t [From]) -> Scope<'t> {
        tables.iter().fold(Scope::default(), |scope, from| {
            let (schema, number) = (self.catalog.schema_of(&from.table), self.number(&from.table));
            scope.with(from.name.clone(), from.table.columns()).in_schema(schema).numbered(Some(number))
        })
    }

    /// Orders the tables so that an index leads to each from those before.
    fn steps_over(
        &self,
        mut tables: Vec<From>,
        mut conditions: Vec<Expression>,
        read: &[usize],
        parameters: usize,
    ) -> Bound<Vec<LookupStep>> {
        let (mut steps, mut known): (Vec<LookupStep>, Vec<From>) = (Vec::new(), Vec::new());
        while !tables.is_empty() {
            let mut best: Option<(u32, usize, Vec<usize>, Choice)> = None;
            for (position, from) in tables.iter().enumerate() {
                let mut outer = Vec::new();
                let local = conditions.iter().filter(|condition| is_about(condition, from, &known));
                let local = local.map(|condition| localized(condition.clone(), from, parameters, &mut outer));
                let local: Vec<Expression> = local.collect();
                let condition = (!local.is_empty()).then_some(Expression::And(local));
                let choice = choose(&self.catalog, &from.table, condition, &[]);
                let score = choice.access.score();
                if choice.is_narrow() && best.as_ref().is_none_or(|(other, ..)| score > *other) {
                    best = Some((score, position, outer, choice));
                }
            }
            let Some((_, position, outer, choice)) = best else { return elsewhere("a join by no index") };
            let from = tables.remove(position);
            conditions.retain(|condition| !is_about(condition, &from, &known));
            let own = read.iter().filter(|column| from.has(**column)).map(|column| column - from.first);
            steps.push(LookupStep {
                columns: ColumnSet::of(&own.collect::<Vec<_>>()),
                table: from.table.clone(),
                first: from.first,
                access: choice.access,
                filter: choice.filter.map(Arc::new),
                outer,
            });
            known.push(from);
        }
        Ok(steps)
    }
}

/// Whether a condition can be tested as soon as a row of the table is there beside those of the known ones.
fn is_about(condition: &Expression, from: &From, known: &[From]) -> bool {
    let mut columns = Vec::new();
    condition.collect_columns(&mut columns);
    columns.iter().all(|&column| from.has(column) || known.iter().any(|known| known.has(column)))
}

/// A condition over the table's own columns; others are parameters, and entered in `outer`.
fn localized(
    mut condition: Expression,
    from: &From,
    parameters: usize,
    outer: &mut Vec<usize>,
) -> Expression {
    if let Expression::Column(column) = condition {
        if from.has(column) {
            return Expression::Column(column - from.first);
        }
        let number = outer.iter().position(|other| *other == column).unwrap_or_else(|| {
            outer.push(column);
            outer.len() - 1
        });
        return Expression::Parameter(parameters + number);
    }
    for operand in condition.operands_mut() {
        *operand =
            localized(std::mem::replace(operand, Expression::And(Vec::new())), from, parameters, outer);
    }
    condition
}

fn is_immutable(expression: &Expression) -> bool {
    let own = match expression {
        Expression::Call(function, _) => function.is_immutable(),
        Expression::InSubquery(..) => false,
        _ => true,
    };
    own && expression.operands().into_iter().all(is_immutable)
}

fn is_grouped(select: &ast::Select) -> bool {
    let groups = match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(exprs, modifiers) => !exprs.is_empty() || !modifiers.is_empty(),
    };
    groups || select.projection.iter().any(|item| item_call(item).is_some())
}

fn item_call(item: &SelectItem) -> Option<(AggregateKind, Option<&Expr>, bool)> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => call(expr),
        _ => None,
    }
}

/// The aggregate that an expression calls, its argument unless that is `*`, and whether it is one of distinct values.
fn call(expr: &Expr) -> Option<(AggregateKind, Option<&Expr>, bool)> {
    let Expr::Function(function) = expr else { return None };
    let ([ast::ObjectNamePart::Identifier(name)], ast::FunctionArguments::List(list)) =
        (function.name.0.as_slice(), &function.args)
    else {
        return None;
    };
    let kind = match folded(name).as_str() {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        _ => return None,
    };
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && matches!(function.parameters, ast::FunctionArguments::None)
        && list.clauses.is_empty();
    let distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
    match list.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
            if is_plain && kind == AggregateKind::Count && !distinct =>
        {
            Some((kind, None, false))
        }
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] if is_plain => {
            Some((kind, Some(expr), distinct))
        }
        _ => None,
    }
}

/// The groups of a SELECT whose items are columns that it groups by, and aggregates of columns.
fn bind_groups(
    binder: &mut Binder,
    select: &ast::Select,
) -> Bound<(Grouping, Vec<Expression>, Vec<OutputColumn>)> {
    let ast::GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else {
        return elsewhere("GROUP BY ALL");
    };
    if !modifiers.is_empty() {
        return elsewhere("grouping sets");
    }
    let mut keys = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) = expr else {
            return elsewhere("groups by expressions");
        };
        let (column, data_type) = bind_column(binder, expr)?;
        if !is_word(data_type) {
            return elsewhere("groups by such columns");
        }
        keys.push((column, data_type));
    }
    let (mut aggregates, mut projection, mut output) = (Vec::new(), Vec::new(), Vec::new());
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, column_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
            _ => return elsewhere("such an item of the select list"),
        };
        let (position, data_type) = match call(expr) {
            Some((kind, argument, distinct)) => {
                let argument = argument.map(|argument| bind_column(binder, argument)).transpose()?;
                let result = result_type(kind, argument.map(|(_, data_type)| data_type), distinct)?;
                let distinct = distinct && matches!(kind, AggregateKind::Count);
                aggregates.push(Aggregate { kind, column: argument.map(|(column, _)| column), distinct });
                (keys.len() + aggregates.len() - 1, result)
            }
            None => {
                let (column, data_type) = bind_column(binder, expr)?;
                let Some(key) = keys.iter().position(|(key, _)| *key == column) else {
                    return elsewhere("a column that depends on the groups");
                };
                (key, data_type)
            }
        };
        projection.push(Expression::Column(position));
        output.push(OutputColumn::new(name, data_type));
    }
    let keys = keys.into_iter().map(|(column, _)| column).collect();
    Ok((Grouping { keys, aggregates }, projection, output))
}

fn bind_column(binder: &mut Binder, expr: &Expr) -> Bound<(usize, DataType)> {
    match binder.bind_settled(expr)? {
        (Expression::Column(column), data_type) => Ok((column, data_type)),
        _ => elsewhere("an expression over groups"),
    }
}

/// Whether values of the type are told apart and ordered by one number each.
fn is_word(data_type: DataType) -> bool {
    matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt | DataType::Date)
}

/// The type of an aggregate's result, as analytical queries have it.
fn result_type(kind: AggregateKind, argument: Option<DataType>, distinct: bool) -> Bound<DataType> {
    match (kind, argument) {
        (AggregateKind::Count, None) => Ok(DataType::BigInt),
        (AggregateKind::Count, Some(data_type)) if !distinct || is_word(data_type) => Ok(DataType::BigInt),
        (AggregateKind::Sum, Some(data_type)) if !distinct => match data_type {
            DataType::SmallInt | DataType::Integer => Ok(DataType::BigInt),
            DataType::BigInt => Ok(DataType::Numeric { precision: 38, scale: 0 }),
            DataType::Numeric { scale, .. } => Ok(DataType::Numeric { precision: 38, scale }),
            _ => elsewhere("such a sum"),
        },
        (AggregateKind::Min | AggregateKind::Max, Some(data_type)) if is_word(data_type) => Ok(data_type),
        _ => elsewhere("such an aggregate"),
    }
}
