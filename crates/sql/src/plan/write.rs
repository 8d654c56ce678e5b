//! INSERT, UPDATE and DELETE.

use super::access::{Access, choose};
use super::default::defaults;
use super::derivation::inference;
use super::select::bind_projection;
use super::target::{Shown, ViewCheck, WriteTarget};
use super::with::below;
use super::{JoinedPlan, LastStep, Planner, QueryPlan, SubqueryPlans, WithPlan};
use crate::OutputColumn;
use crate::clauses::{SYSTEM_VALUES, USER_VALUES};
use crate::expression::bind::{Bound, elsewhere};
use crate::expression::clause_order::in_order;
use crate::expression::fold::within_limits;
use crate::expression::types::assignable;
use crate::expression::{Binder, Expression, Parameters, Refusal, Scope, columns_of};
use crate::forms::{columns_of_row, row};
use crate::name::{folded, quoted, simple_name};
use crate::updatable::Verb;
use ankerdb_engine::{
    Catalog, ColumnDefinition, ColumnSet, DataType, Error, Identity, IndexPosition, SqlState, SystemType,
    Table, Value,
};
use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem};
use std::borrow::Cow;
use std::sync::Arc;

/// A statement that writes rows.
pub(crate) enum WritePlan {
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    /// MERGE, and UPDATE and DELETE over several relations.
    Joined(Box<JoinedPlan>),
    /// Statements behind WITH that write, and the one that they stand before.
    With(Box<WithPlan>),
}

impl WritePlan {
    /// The command's name.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            WritePlan::Insert(_) => "INSERT",
            WritePlan::Update(_) => "UPDATE",
            WritePlan::Delete(_) => "DELETE",
            WritePlan::Joined(plan) => plan.command,
            WritePlan::With(plan) => match &plan.last {
                LastStep::Write(plan) => plan.command(),
                LastStep::Query(..) => "SELECT",
            },
        }
    }

    /// The tag of a command that has written so many rows.
    pub(crate) fn tag(&self, rows: usize) -> String {
        match self {
            // The zero is an object identifier, which rows no longer have.
            _ if self.command() == "INSERT" => format!("INSERT 0 {rows}"),
            _ => format!("{} {rows}", self.command()),
        }
    }

    /// What is to be run before it.
    pub(crate) fn subqueries(&self) -> &[QueryPlan] {
        match self {
            WritePlan::Insert(plan) => &plan.subqueries,
            WritePlan::Update(plan) => &plan.subqueries,
            WritePlan::Delete(plan) => &plan.subqueries,
            WritePlan::Joined(_) | WritePlan::With(_) => &[],
        }
    }

    /// The columns of what it gives back.
    pub(crate) fn output(&self) -> Option<&Arc<[OutputColumn]>> {
        let returning = match self {
            WritePlan::Insert(plan) => plan.returning.as_ref(),
            WritePlan::Update(plan) => plan.returning.as_ref(),
            WritePlan::Delete(plan) => plan.returning.as_ref(),
            WritePlan::Joined(plan) => plan.returning.as_ref(),
            WritePlan::With(plan) => return plan.output(),
        };
        returning.map(|returning| &returning.output)
    }
}

/// INSERT.
pub(crate) struct InsertPlan {
    pub table: Arc<Table>,
    pub source: InsertSource,
    pub conflict: Option<Conflict>,
    pub returning: Option<Returning>,
    /// What new rows have to fulfil to be in the view that they are written through.
    pub checks: Vec<ViewCheck>,
    pub subqueries: Vec<QueryPlan>,
}

/// Where the new rows come from.
pub(crate) enum InsertSource {
    /// One expression for each column of the table.
    Values(Vec<Vec<Expression>>),
    /// A query, and for each column of the table where its value comes from.
    Query(QueryPlan, Vec<ColumnSource>),
}

/// Where the value of a new row's column comes from.
pub(crate) enum ColumnSource {
    /// A column of the query's result.
    Of(usize),
    Default(Expression),
}

/// ON CONFLICT.
pub(crate) struct Conflict {
    /// Positions of the unique indexes in which a row with the same key is a conflict.
    pub indexes: Vec<IndexPosition>,
    pub action: ConflictAction,
    /// What a row that exists has to fulfil to be changed through the view.
    pub visible: Vec<ViewCheck>,
}

/// What to do with a row whose key exists.
pub(crate) enum ConflictAction {
    Nothing,
    /// Change the row that exists, if the condition holds.
    Update(Vec<(usize, Expression)>, Option<Expression>),
}

/// UPDATE.
pub(crate) struct UpdatePlan {
    pub table: Arc<Table>,
    pub access: Access,
    pub filter: Option<Arc<Expression>>,
    pub columns: ColumnSet,
    pub assignments: Vec<(usize, Expression)>,
    pub returning: Option<Returning>,
    /// What changed rows have to fulfil to be in the view that they are written through.
    pub checks: Vec<ViewCheck>,
    pub subqueries: Vec<QueryPlan>,
}

/// DELETE.
pub(crate) struct DeletePlan {
    pub table: Arc<Table>,
    pub access: Access,
    pub filter: Option<Arc<Expression>>,
    pub columns: ColumnSet,
    pub returning: Option<Returning>,
    pub subqueries: Vec<QueryPlan>,
}

/// RETURNING: a select list over the written rows.
pub(crate) struct Returning {
    pub projection: Vec<Expression>,
    pub output: Arc<[OutputColumn]>,
}

impl Planner<'_> {
    /// Plans an INSERT, which may use the common table expressions.
    pub(super) fn any_insert(
        &self,
        with: Option<&ast::With>,
        insert: &ast::Insert,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        Ok(WritePlan::Insert(Box::new(self.insert(with, insert, parameters)?)))
    }

    fn insert(
        &self,
        with: Option<&ast::With>,
        insert: &ast::Insert,
        parameters: &mut Parameters,
    ) -> Bound<InsertPlan> {
        let ast::TableObject::TableName(name) = &insert.table else {
            return elsewhere("INSERT into something other than a table");
        };
        let other = insert.overwrite
            || insert.or.is_some()
            || insert.replace_into
            || insert.partitioned.is_some()
            || !insert.assignments.is_empty();
        if other {
            return elsewhere("this form of INSERT");
        }
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let target = self.target(name, alias, Verb::Insert)?;
        let (overriding, columns) = overriding(&insert.columns);
        let targets = Targets::new(&target, columns, overriding)?;
        let mut subqueries = SubqueryPlans::below(self, with);
        let shown = self.shown(&target, parameters, &mut subqueries)?;
        let context = Writing { planner: self, target: &target, shown: &shown };
        let source = context.source(insert.source.as_deref(), &targets, with, parameters, &mut subqueries)?;
        let conflict = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(clause)) => {
                Some(context.conflict(clause, parameters, &mut subqueries)?)
            }
            Some(_) => return elsewhere("ON DUPLICATE KEY"),
        };
        let returning = context.returning(parameters, &mut subqueries, insert.returning.as_deref())?;
        let (subqueries, checks) = (subqueries.plans, shown.checks);
        Ok(InsertPlan { table: target.table, source, conflict, returning, checks, subqueries })
    }

    /// Plans an UPDATE.
    pub(super) fn update(&self, update: &ast::Update, parameters: &mut Parameters) -> Bound<UpdatePlan> {
        if update.from.is_some()
            || !update.order_by.is_empty()
            || update.limit.is_some()
            || update.or.is_some()
        {
            return elsewhere("UPDATE with FROM, ORDER BY or LIMIT");
        }
        let target = self.written_target(&update.table, Verb::Update)?;
        let mut subqueries = SubqueryPlans::in_rows(self);
        let shown = self.shown(&target, parameters, &mut subqueries)?;
        let context = Writing { planner: self, target: &target, shown: &shown };
        let mut binder = Binder::new(context.scope(), parameters);
        binder.subqueries = Some(&mut subqueries);
        let assignments = bind_assignments(&mut binder, &context, &update.assignments);
        let (assignments, condition) = in_order(assignments, || {
            update.selection.as_ref().map(|expr| binder.bind_condition(expr, "WHERE")).transpose()
        })?;
        let returning = context.returning(parameters, &mut subqueries, update.returning.as_deref())?;
        let condition = shown.within(condition)?;
        let read = condition.iter().chain(assignments.iter().map(|(_, value)| value));
        let columns = columns_of(read, target.table.columns().len());
        let choice = choose(&self.catalog, &target.table, condition, &[]);
        let (access, filter) = (choice.access, choice.filter.map(Arc::new));
        let (table, subqueries, checks) = (target.table.clone(), subqueries.plans, shown.checks);
        Ok(UpdatePlan { table, access, filter, columns, assignments, returning, checks, subqueries })
    }

    /// Plans a DELETE.
    pub(super) fn delete(&self, delete: &ast::Delete, parameters: &mut Parameters) -> Bound<DeletePlan> {
        if delete.using.is_some() || !delete.order_by.is_empty() || delete.limit.is_some() {
            return elsewhere("DELETE with USING, ORDER BY or LIMIT");
        }
        let from = match &delete.from {
            ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => from,
        };
        let [from] = from.as_slice() else { return elsewhere("DELETE from several tables") };
        let target = self.written_target(from, Verb::Delete)?;
        let mut subqueries = SubqueryPlans::in_rows(self);
        let shown = self.shown(&target, parameters, &mut subqueries)?;
        let context = Writing { planner: self, target: &target, shown: &shown };
        let mut binder = Binder::new(context.scope(), parameters);
        binder.subqueries = Some(&mut subqueries);
        let condition = match &delete.selection {
            Some(expr) => Some(binder.bind_condition(expr, "WHERE")?),
            None => None,
        };
        let returning = context.returning(parameters, &mut subqueries, delete.returning.as_deref())?;
        let condition = shown.within(condition)?;
        let columns = columns_of(&condition, target.table.columns().len());
        let choice = choose(&self.catalog, &target.table, condition, &[]);
        let (access, filter) = (choice.access, choice.filter.map(Arc::new));
        let (table, subqueries) = (target.table.clone(), subqueries.plans);
        Ok(DeletePlan { table, access, filter, columns, returning, subqueries })
    }

    pub(super) fn written_target(&self, from: &ast::TableWithJoins, verb: Verb) -> Bound<WriteTarget> {
        let ast::TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
            return elsewhere("writing to something other than a table");
        };
        if !from.joins.is_empty() {
            return elsewhere("writing to a join");
        }
        self.target(name, alias.as_ref().map(|alias| &alias.name), verb)
    }

    /// What the target is over a row of its table. Subqueries of a view that depend on the row are left to a join.
    fn shown(
        &self,
        target: &WriteTarget,
        parameters: &mut Parameters,
        subqueries: &mut SubqueryPlans,
    ) -> Bound<Shown> {
        let is_in_rows = std::mem::replace(&mut subqueries.is_in_rows, true);
        let shown = target.show(parameters, Some(&mut *subqueries));
        subqueries.is_in_rows = is_in_rows;
        shown
    }
}

impl Shown {
    /// The condition together with those of the views.
    fn within(&self, condition: Option<Expression>) -> Bound<Option<Expression>> {
        if let Some(reason) = &self.unknown {
            return elsewhere(reason.as_str());
        }
        let all = self.conditions.iter().map(|shown| shown.condition.clone()).chain(condition);
        Ok(all.reduce(|left, right| Expression::And(vec![left, right])))
    }
}

/// A statement that writes to rows of one target.
struct Writing<'p, 'a> {
    planner: &'p Planner<'a>,
    target: &'p WriteTarget,
    shown: &'p Shown,
}

impl Writing<'_, '_> {
    fn scope(&self) -> Scope<'_> {
        let scope = self.target.scope(Scope::default(), &self.target.alias, self.shown);
        let schema = self.target.named_schema(&self.planner.catalog);
        scope.in_schema(schema).numbered(self.target.number(self.planner))
    }

    /// Where the new rows of an INSERT come from.
    fn source(
        &self,
        source: Option<&ast::Query>,
        targets: &Targets,
        with: Option<&ast::With>,
        parameters: &mut Parameters,
        subqueries: &mut SubqueryPlans,
    ) -> Bound<InsertSource> {
        let Some(query) = source else { return Ok(InsertSource::Values(vec![self.defaults(|_| true)?])) };
        match &*query.body {
            ast::SetExpr::Values(values) if query.order_by.is_none() && query.limit_clause.is_none() => {
                let mut binder = Binder::new(Scope::default(), parameters);
                binder.subqueries = Some(subqueries);
                Ok(InsertSource::Values(self.bind_rows(&mut binder, targets, values)?))
            }
            _ => {
                let table = &self.target.table;
                let query = typed_items(table, &targets.columns, query);
                let (plan, output) = self.planner.query(&below(with, &query), parameters)?;
                check_query(table, targets, &plan, &output)?;
                Ok(InsertSource::Query(plan, self.placed(targets, output.len())?))
            }
        }
    }

    /// The defaults of the columns that are wanted; NULL for the others.
    fn defaults(&self, is_wanted: impl Fn(usize) -> bool) -> Bound<Vec<Expression>> {
        if self.target.view.is_none() {
            return defaults(&self.target.table, &self.target.schema, is_wanted);
        }
        let each = (0..self.target.table.columns().len()).map(|position| match is_wanted(position) {
            true => self.target.default(position, &self.planner.catalog),
            false => Ok(Expression::Literal(ankerdb_engine::Value::Null)),
        });
        each.collect()
    }

    fn conflict(
        &self,
        clause: &ast::OnConflict,
        parameters: &mut Parameters,
        subqueries: &mut SubqueryPlans,
    ) -> Bound<Conflict> {
        let indexes = conflict_indexes(self.target, clause.conflict_target.as_ref())?;
        let update = match &clause.action {
            ast::OnConflictAction::DoNothing => {
                return Ok(Conflict { indexes, action: ConflictAction::Nothing, visible: Vec::new() });
            }
            ast::OnConflictAction::DoUpdate(update) => update,
        };
        if clause.conflict_target.is_none() {
            let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(Error::new(SqlState::SyntaxError, message).into());
        }
        let excluded = self.shown.behind(self.target.table.columns().len());
        let scope = self.target.scope(self.scope(), "excluded", &excluded);
        let mut binder = Binder::new(scope, parameters);
        binder.subqueries = Some(subqueries);
        let assignments = bind_assignments(&mut binder, self, &update.assignments)?;
        let condition = match &update.selection {
            Some(expr) => Some(binder.bind_condition(expr, "WHERE")?),
            None => None,
        };
        if let Some(reason) = &self.shown.unknown {
            return elsewhere(format!("ON CONFLICT of a view with {reason}"));
        }
        let (action, visible) =
            (ConflictAction::Update(assignments, condition), self.shown.conditions.clone());
        Ok(Conflict { indexes, action, visible })
    }

    fn returning(
        &self,
        parameters: &mut Parameters,
        subqueries: &mut SubqueryPlans,
        items: Option<&[SelectItem]>,
    ) -> Bound<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let mut binder = Binder::new(self.scope(), parameters);
        binder.subqueries = Some(subqueries);
        let (projection, output) = bind_projection(&mut binder, items)?;
        Ok(Some(Returning { projection, output: output.into() }))
    }
}

/// Whose values count for columns that number their rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// Those given, where columns take some.
    Nothing,
    /// Those given, always.
    System,
    /// Their own.
    User,
}

impl Overriding {
    /// Whether the value given for the column is left alone.
    pub(super) fn is_ignored(self, column: &ColumnDefinition) -> bool {
        self == Overriding::User && column.identity.is_some()
    }

    /// 428C9 for a column that takes no values of statements.
    pub(super) fn check_given(self, column: &ColumnDefinition) -> Bound<()> {
        match self {
            Overriding::Nothing => check_given(column),
            Overriding::System | Overriding::User => check_not_computed(column),
        }
    }
}

/// The columns that an INSERT gives values for.
struct Targets {
    /// By their positions in the table.
    columns: Vec<usize>,
    /// Whether the statement names them.
    is_named: bool,
    /// How many columns the target has, and the error for a value for one behind `columns`, where some of a view cannot be written.
    all: usize,
    refused: Option<Error>,
    overriding: Overriding,
}

impl Targets {
    fn new(target: &WriteTarget, names: &[ast::ObjectName], overriding: Overriding) -> Bound<Targets> {
        let all = if names.is_empty() { target.columns().len() } else { names.len() };
        let (mut columns, mut refused) = (Vec::with_capacity(all), None);
        if names.is_empty() {
            for position in 0..all {
                match target.written(position) {
                    Ok(column) => columns.push(column),
                    Err(Refusal::Failed(error)) => {
                        refused = Some(error);
                        break;
                    }
                    Err(other) => return Err(other),
                }
            }
        } else {
            columns = named_columns(target, names)?;
        }
        check_once(target, &columns)?;
        Ok(Targets { columns, is_named: !names.is_empty(), all, refused, overriding })
    }

    /// That so many values are no more than there are columns for.
    fn check_width(&self, values: usize) -> Bound<()> {
        check_width(values, self.all, self.is_named)?;
        match &self.refused {
            Some(error) if values > self.columns.len() => Err(error.clone().into()),
            _ => Ok(()),
        }
    }
}

/// 42601 if a column of the table is written twice, through several columns of a view.
fn check_once(target: &WriteTarget, columns: &[usize]) -> Bound<()> {
    let twice = columns.iter().enumerate().find(|(at, column)| columns[..*at].contains(column));
    match twice {
        None => Ok(()),
        Some((_, column)) => {
            let name = quoted(&target.table.columns()[*column].name);
            let message = format!("multiple assignments to same column {name}");
            Err(Error::new(SqlState::SyntaxError, message).into())
        }
    }
}

/// Positions in the table of the columns that an INSERT names.
fn named_columns(target: &WriteTarget, names: &[ast::ObjectName]) -> Bound<Vec<usize>> {
    let mut known: Vec<String> = Vec::with_capacity(names.len());
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let name = simple_name(name)?;
        columns.push(target.column_position(&name)?);
        if known.contains(&name) {
            let message = format!("column {} specified more than once", quoted(&name));
            return Err(Error::new(SqlState::DuplicateColumn, message).into());
        }
        known.push(name);
    }
    Ok(columns)
}

/// Takes OVERRIDING out of the list of columns, where it is a column ([`crate::clauses`]).
pub(super) fn overriding(columns: &[ast::ObjectName]) -> (Overriding, &[ast::ObjectName]) {
    let first = columns.first().and_then(|name| name.0.first()).and_then(|part| part.as_ident());
    match first.map(|ident| ident.value.as_str()) {
        Some(SYSTEM_VALUES) => (Overriding::System, &columns[1..]),
        Some(USER_VALUES) => (Overriding::User, &columns[1..]),
        _ => (Overriding::Nothing, columns),
    }
}

/// The query with types for the constants and parameters in its list that have none, those of the columns that they are for.
fn typed_items(table: &Table, targets: &[usize], query: &ast::Query) -> ast::Query {
    let mut query = query.clone();
    if let Some(select) = selected(&mut query.body)
        && select.distinct.is_none()
    {
        for (item, &target) in select.projection.iter_mut().zip(targets) {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                break;
            };
            if is_untyped(expr)
                && let Some(data_type) = sql_type(table.columns()[target].data_type)
            {
                let operand = Box::new(expr.clone());
                let kind = ast::CastKind::Cast;
                *expr = Expr::Cast { kind, expr: operand, data_type, array: false, format: None };
            }
        }
    }
    query
}

/// The SELECT that a query is, in parentheses or not.
fn selected(body: &mut ast::SetExpr) -> Option<&mut ast::Select> {
    match body {
        ast::SetExpr::Select(select) => Some(select),
        ast::SetExpr::Query(query) => selected(&mut query.body),
        _ => None,
    }
}

fn is_untyped(expr: &Expr) -> bool {
    use ast::Value::{Null, Placeholder, SingleQuotedString};
    matches!(expr, Expr::Value(value) if matches!(value.value, SingleQuotedString(_) | Null | Placeholder(_)))
}

/// The type without its limits, which assignment checks.
fn sql_type(data_type: DataType) -> Option<ast::DataType> {
    use ast::TimezoneInfo;
    Some(match data_type {
        DataType::Boolean => ast::DataType::Boolean,
        DataType::SmallInt => ast::DataType::SmallInt(None),
        DataType::Integer => ast::DataType::Integer(None),
        DataType::BigInt => ast::DataType::BigInt(None),
        DataType::Real => ast::DataType::Real,
        DataType::DoublePrecision => ast::DataType::DoublePrecision,
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => ast::DataType::Text,
        DataType::Date => ast::DataType::Date,
        DataType::Timestamp(_) => ast::DataType::Timestamp(None, TimezoneInfo::None),
        DataType::TimestampTz(_) => ast::DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        DataType::Time(_) => ast::DataType::Time(None, TimezoneInfo::None),
        DataType::Interval(_) => ast::DataType::Interval { fields: None, precision: None },
        DataType::Bytea => ast::DataType::Bytea,
        DataType::Uuid => ast::DataType::Uuid,
        DataType::Json => ast::DataType::JSON,
        DataType::Jsonb => ast::DataType::JSONB,
        DataType::Packed(packed) => crate::user_types::named(packed.catalog_name()),
        DataType::Enum(labels) => crate::user_types::kept_type(labels),
        DataType::Numeric { .. } | DataType::Number => ast::DataType::Numeric(ast::ExactNumberInfo::None),
        DataType::System(SystemType::List(list)) if !list.is_vector() => {
            let items = Box::new(sql_type(list.item_type())?);
            ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(items, None))
        }
        // No table stores most of these.
        DataType::System(system @ (SystemType::Oid | SystemType::Name)) => {
            crate::user_types::named(system.name())
        }
        DataType::System(_) => return None,
    })
}

/// Positions of the columns that an INSERT names; all of them if it names none.
pub(super) fn target_columns(target: &WriteTarget, names: &[ast::ObjectName]) -> Bound<Vec<usize>> {
    match names {
        [] => Ok((0..target.table.columns().len()).collect()),
        names => named_columns(target, names),
    }
}

impl Writing<'_, '_> {
    fn bind_rows(
        &self,
        binder: &mut Binder,
        targets: &Targets,
        values: &ast::Values,
    ) -> Bound<Vec<Vec<Expression>>> {
        let table = &self.target.table;
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let columns = &targets.columns;
        let is_given = |position: usize| {
            let ignored = targets.overriding.is_ignored(&table.columns()[position]);
            !ignored && columns[..width.min(columns.len())].contains(&position)
        };
        let asks = |position: usize| {
            let place = columns.iter().position(|target| *target == position);
            place.is_some_and(|place| {
                values.rows.iter().any(|row| row.content.get(place).is_some_and(is_default))
            })
        };
        let defaults = self.defaults(|position| !is_given(position) || asks(position))?;
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                let message = "VALUES lists must all be the same length";
                return Err(Error::new(SqlState::SyntaxError, message).into());
            }
            targets.check_width(width)?;
            let mut expressions = defaults.clone();
            for (expr, &column) in row.content.iter().zip(columns) {
                if !is_default(expr) && !targets.overriding.is_ignored(&table.columns()[column]) {
                    targets.overriding.check_given(&table.columns()[column])?;
                    expressions[column] = binder.bind_assigned(expr, &table.columns()[column])?;
                }
            }
            rows.push(expressions);
        }
        // What is no value of its type is told before what is beyond its column's limits, in whichever row.
        for expressions in &mut rows {
            for &column in columns.iter().take(width) {
                let value = std::mem::replace(&mut expressions[column], Expression::Literal(Value::Null));
                expressions[column] = within_limits(value, table.columns()[column].data_type)?;
            }
        }
        Ok(rows)
    }

    /// For each column of the table the result's column that it takes, or its default.
    fn placed(&self, targets: &Targets, width: usize) -> Bound<Vec<ColumnSource>> {
        let table = &self.target.table;
        let given = targets.columns.iter().take(width).enumerate();
        let given: Vec<(usize, usize)> = given
            .filter(|(_, target)| !targets.overriding.is_ignored(&table.columns()[**target]))
            .map(|(source, target)| (source, *target))
            .collect();
        let defaults = self.defaults(|position| given.iter().all(|(_, target)| *target != position))?;
        let mut places: Vec<ColumnSource> = defaults.into_iter().map(ColumnSource::Default).collect();
        given.into_iter().for_each(|(source, target)| places[target] = ColumnSource::Of(source));
        Ok(places)
    }
}

/// Fewer values than columns are fine only where no columns were named.
pub(super) fn check_width(values: usize, targets: usize, named: bool) -> Bound<()> {
    let message = match values.cmp(&targets) {
        std::cmp::Ordering::Greater => "INSERT has more expressions than target columns",
        std::cmp::Ordering::Less if named => "INSERT has more target columns than expressions",
        _ => return Ok(()),
    };
    Err(Error::new(SqlState::SyntaxError, message).into())
}

/// 428C9 for a column that takes no values of statements.
pub(super) fn check_given(column: &ColumnDefinition) -> Bound<()> {
    check_not_computed(column)?;
    if column.identity != Some(Identity::Always) {
        return Ok(());
    }
    let message = format!("cannot insert a non-DEFAULT value into column {}", quoted(&column.name));
    Err(always_generated(column, message).into())
}

/// 428C9 for a column that is computed from others.
fn check_not_computed(column: &ColumnDefinition) -> Bound<()> {
    if column.generation.is_none() {
        return Ok(());
    }
    let message = format!("cannot insert a non-DEFAULT value into column {}", quoted(&column.name));
    Err(always_generated(column, message).into())
}

pub(super) fn always_generated(column: &ColumnDefinition, message: String) -> Error {
    let kind = match column.generation {
        Some(_) => "a generated column",
        None => "an identity column defined as GENERATED ALWAYS",
    };
    let detail = format!("Column {} is {kind}.", quoted(&column.name));
    Error::new(SqlState::GeneratedAlways, message).with_detail(detail)
}

/// `DEFAULT`.
pub(super) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

fn check_query(table: &Table, targets: &Targets, query: &QueryPlan, output: &[OutputColumn]) -> Bound<()> {
    targets.check_width(output.len())?;
    for (position, (column, &target)) in output.iter().zip(&targets.columns).enumerate() {
        let target = &table.columns()[target];
        targets.overriding.check_given(target)?;
        // A literal in the select list has no type of its own.
        let literal = matches!(query, QueryPlan::Select(plan) if matches!(plan.projection[position], Expression::Literal(_)));
        if !literal && !assignable(column.data_type, target.data_type) {
            return Err(crate::expression::bind::not_assignable(target, column.data_type).into());
        }
    }
    Ok(())
}

fn bind_assignments(
    binder: &mut Binder,
    writing: &Writing,
    assignments: &[ast::Assignment],
) -> Bound<Vec<(usize, Expression)>> {
    let (target, catalog) = (writing.target, &writing.planner.catalog);
    let mut bound: Vec<(usize, Expression)> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        for (name, value) in assigned_pairs(assignment)? {
            let column = assigned_column(target, name)?;
            let taken = bound.iter().any(|(other, _)| *other == column);
            let definition = &target.table.columns()[column];
            let value = bind_new_value(target, catalog, column, &value, taken, || {
                binder.bind_assigned(&value, definition)
            })?;
            bound.push((column, value));
        }
    }
    for (column, value) in &mut bound {
        let assigned = std::mem::replace(value, Expression::Literal(Value::Null));
        *value = within_limits(assigned, target.table.columns()[*column].data_type)?;
    }
    leave_out_computed(&target.table, &mut bound);
    Ok(bound)
}

/// What is computed from other columns can be set to DEFAULT only, which means nothing: it is computed whenever they change.
pub(super) fn leave_out_computed(table: &Table, assignments: &mut Vec<(usize, Expression)>) {
    assignments.retain(|(column, _)| table.columns()[*column].generation.is_none());
}

/// The column that SET names. What stands before a dot would be a column of a composite type.
pub(super) fn assigned_column(target: &WriteTarget, name: &ast::ObjectName) -> Bound<usize> {
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(first) => target.column_position(&folded(first)).and_then(|column| match name.0.len() {
            1 => Ok(column),
            _ => elsewhere("assigning to a part of a column"),
        }),
        None => elsewhere("such a name of a column"),
    }
}

/// The columns that an assignment names, each with its value.
pub(super) fn assigned_pairs(assignment: &ast::Assignment) -> Bound<Vec<(&ast::ObjectName, Cow<'_, Expr>)>> {
    let names = match &assignment.target {
        ast::AssignmentTarget::ColumnName(name) => {
            return Ok(vec![(name, Cow::Borrowed(&assignment.value))]);
        }
        ast::AssignmentTarget::Tuple(names) => names,
    };
    let values: Vec<Cow<Expr>> = match (&assignment.value, row(&assignment.value)) {
        (Expr::Tuple(values), _) => values.iter().map(Cow::Borrowed).collect(),
        (Expr::Subquery(_), _) => match columns_of_row(&assignment.value) {
            Some(columns) => columns.into_iter().map(Cow::Owned).collect(),
            None => return elsewhere("assigning such a subquery to several columns"),
        },
        (_, Some(values)) => values.into_iter().map(Cow::Owned).collect(),
        _ => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
            return Err(Error::new(SqlState::FeatureNotSupported, message).into());
        }
    };
    if values.len() != names.len() {
        let message = "number of columns does not match number of values";
        return Err(Error::new(SqlState::SyntaxError, message).into());
    }
    Ok(names.iter().zip(values).collect())
}

/// The value that SET gives a column of the table: its default, or what `bind` makes of it; `taken`: the column has got one before.
pub(super) fn bind_new_value(
    target: &WriteTarget,
    catalog: &Catalog,
    column: usize,
    value: &Expr,
    taken: bool,
    bind: impl FnOnce() -> Bound<Expression>,
) -> Bound<Expression> {
    let definition = &target.table.columns()[column];
    if taken {
        let message = format!("multiple assignments to same column {}", quoted(&definition.name));
        return Err(Error::new(SqlState::SyntaxError, message).into());
    }
    if is_default(value) {
        return target.default(column, catalog);
    }
    if definition.identity == Some(Identity::Always) || definition.generation.is_some() {
        let message = format!("column {} can only be updated to DEFAULT", quoted(&definition.name));
        return Err(always_generated(definition, message).into());
    }
    bind()
}

fn conflict_indexes(
    written: &WriteTarget,
    target: Option<&ast::ConflictTarget>,
) -> Bound<Vec<IndexPosition>> {
    let table = &written.table;
    let unique = table.usable_indexes().filter(|(_, index)| index.definition().unique);
    let matching: Vec<IndexPosition> = match target {
        None => unique.map(|(position, _)| position).collect(),
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = simple_name(name)?;
            let found = unique.filter(|(_, index)| index.definition().name == name);
            let found: Vec<IndexPosition> = found.map(|(position, _)| position).collect();
            if found.is_empty() {
                let message =
                    format!("constraint {} for table {} does not exist", quoted(&name), quoted(table.name()));
                return Err(Error::new(SqlState::UndefinedObject, message).into());
            }
            found
        }
        Some(ast::ConflictTarget::Columns(names)) if let Some(target) = conflict_target(names) => {
            if written.view.is_some() {
                return elsewhere("ON CONFLICT by an expression or a part of the rows of a view");
            }
            let inference = inference(table.definition(), target)?;
            unique.filter(|(_, index)| inference.fits(index)).map(|(position, _)| position).collect()
        }
        Some(ast::ConflictTarget::Columns(names)) => {
            let mut wanted = Vec::with_capacity(names.len());
            for name in names {
                wanted.push(written.column_position(&folded(name))?);
            }
            wanted.sort_unstable();
            let same = |columns: &[usize]| {
                let mut columns = columns.to_vec();
                columns.sort_unstable();
                columns == wanted
            };
            unique
                .filter(|(_, index)| same(&index.definition().columns))
                .map(|(position, _)| position)
                .collect()
        }
    };
    if matching.is_empty() && target.is_some() {
        let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
        return Err(Error::new(SqlState::InvalidColumnReference, message).into());
    }
    Ok(matching)
}

/// What `ON CONFLICT` names besides columns; see `clauses`.
fn conflict_target(names: &[ast::Ident]) -> Option<&str> {
    let [name] = names else { return None };
    name.value.strip_prefix(crate::clauses::TARGET)
}
