//! What a statement writes to: a table, or the table beneath a view. See `docs/design/view-writes.md`.
//!
//! This is the only place that knows of writing through views. It gives the statement's planner a scope in which the view's columns are
//! expressions over the table's row, the table's column for each column that is written, the condition under which a row is in the view,
//! and what a new row has to fulfil; plans, keys, checks and foreign keys are those of the table.

use super::default::default;
use super::{Planner, SubqueryPlans};
use crate::expression::bind::{Bound, Typed};
use crate::expression::{Binder, Expression, Parameters, Refusal, Scope};
use crate::name::{folded, identifier, not_supported, object_name, quoted, undefined_column_of};
use crate::olap::target::{ROW_IDENTITY, hidden};
use crate::plain_query::plain_query;
use crate::updatable::{Item, Level, Verb, WrittenView, levels};
use ankerdb_engine::{Catalog, ColumnDefinition, Error, SqlState, Table};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, SelectItem, TableFactor};
use std::sync::Arc;

/// What a statement writes to.
pub(super) struct WriteTarget {
    pub table: Arc<Table>,
    /// The name of the table's schema.
    pub schema: String,
    /// What the statement calls it.
    pub alias: String,
    /// The view through which the table is written.
    pub view: Option<WrittenView>,
    verb: Verb,
}

/// What a view is over the table's row.
#[derive(Default)]
pub(super) struct Shown {
    /// Its columns; `None` for those that the OLTP path does not know.
    pub values: Vec<Option<Typed>>,
    /// The conditions under which a row is in it, those of the innermost view first.
    pub conditions: Vec<ViewCheck>,
    /// A condition that the OLTP path does not know.
    pub unknown: Option<String>,
    pub checks: Vec<ViewCheck>,
}

/// The condition under which a view shows a row.
#[derive(Clone)]
pub(crate) struct ViewCheck {
    pub view: String,
    pub condition: Expression,
}

impl Shown {
    /// Over a row that stands behind one of so many columns.
    pub(super) fn behind(&self, width: usize) -> Shown {
        let moved = |value: &Option<Typed>| {
            let mut value = value.clone()?;
            super::joined::renumber(&mut value.expression, &|column| column + width);
            Some(value)
        };
        Shown { values: self.values.iter().map(moved).collect(), ..Shown::default() }
    }
}

impl Planner<'_> {
    /// What a name means to a statement that writes.
    pub(super) fn target(
        &self,
        name: &ast::ObjectName,
        alias: Option<&Ident>,
        verb: Verb,
    ) -> Bound<WriteTarget> {
        let written = object_name(name)?;
        let alias = |own: &str| alias.map_or_else(|| own.to_owned(), folded);
        let Some(view) = self.catalog.view(&written) else {
            let table = self.table(name)?;
            let (schema, alias) = (self.catalog.schema_of(&table).to_owned(), alias(table.name()));
            return Ok(WriteTarget { table, schema, alias, view: None, verb });
        };
        let alias = alias(&view.name);
        let (levels, table) = levels(view, &self.catalog, verb)?;
        let schema = self.catalog.schema_of(&table).to_owned();
        let view = WrittenView { levels };
        if verb == Verb::Insert
            && let Some((column, view)) = view.lost_default()
        {
            return Err(not_written(verb, column, view));
        }
        Ok(WriteTarget { table, schema, alias, view: Some(view), verb })
    }
}

impl WriteTarget {
    /// What the statement calls the columns.
    pub(super) fn columns(&self) -> &[ColumnDefinition] {
        match &self.view {
            None => self.table.columns(),
            Some(view) => &view.outermost().columns,
        }
    }

    /// The names of the columns, for expressions over a row of the table: `shown` is what [`show`](Self::show) has given.
    pub(super) fn scope<'s>(&'s self, scope: Scope<'s>, name: &str, shown: &'s Shown) -> Scope<'s> {
        match &self.view {
            None => scope.with(name, self.table.columns()),
            Some(view) => {
                let width = self.table.columns().len();
                scope.with_values(name, &view.outermost().columns, &shown.values, width)
            }
        }
    }

    /// The number by which clients know it; that of a view is not asked for.
    pub(super) fn number(&self, planner: &Planner) -> Option<u32> {
        self.view.is_none().then(|| planner.number(&self.table))
    }

    /// The schema that names of columns may begin with.
    pub(super) fn named_schema<'c>(&self, catalog: &'c Catalog) -> &'c str {
        match &self.view {
            None => catalog.schema_of(&self.table),
            Some(view) => catalog.schema_name(view.outermost().schema),
        }
    }

    /// The position of the table's column that a statement writes by this name.
    pub(super) fn column_position(&self, name: &str) -> Bound<usize> {
        let position = self.columns().iter().position(|column| column.name == name);
        let owner = self.view.as_ref().map_or(self.table.name(), |view| &view.outermost().name);
        self.written(position.ok_or_else(|| undefined_column_of(name, owner))?)
    }

    /// The position of the table's column that is written through a column of the target.
    ///
    /// # Errors
    /// `FeatureNotSupported` for one that is computed.
    pub(super) fn written(&self, position: usize) -> Bound<usize> {
        let Some(view) = &self.view else { return Ok(position) };
        let (column, name) = match view.column(position) {
            Ok(name) => {
                return Ok(self
                    .table
                    .column_position(&name)
                    .ok_or_else(|| undefined_column_of(&name, self.table.name()))?);
            }
            Err(refused) => refused,
        };
        Err(not_written(self.verb, column, name))
    }

    /// The default of a column of the table.
    pub(super) fn default(&self, position: usize, catalog: &Catalog) -> Bound<Expression> {
        let column = &self.table.columns()[position];
        match self.view.as_ref().and_then(|view| view.default(column, catalog)) {
            Some((column, schema)) => default(&column, &schema),
            None => default(column, &self.schema),
        }
    }

    /// Binds the view over the table's row. Without `subqueries` it knows no conditions and columns that need them.
    pub(super) fn show(
        &self,
        parameters: &mut Parameters,
        mut subqueries: Option<&mut SubqueryPlans>,
    ) -> Bound<Shown> {
        let Some(view) = &self.view else { return Ok(Shown::default()) };
        let columns = self.table.columns().iter().enumerate();
        let mut definitions = self.table.columns().to_vec();
        let mut shown = Shown {
            values: columns
                .map(|(at, column)| {
                    Some(Typed::new(Expression::Column(at), column.data_type.without_item_limit()))
                })
                .collect(),
            ..Shown::default()
        };
        let mut conditions = Vec::new();
        for level in view.levels.iter().rev() {
            let (columns, values) = level.beneath(&definitions, &shown.values);
            let scope = Scope::default().with_values(level.shown.alias.as_str(), &columns, &values, 0);
            let mut binder = Binder::new(scope, parameters);
            if let Some(subqueries) = subqueries.as_deref_mut() {
                binder.subqueries = Some(subqueries);
            }
            conditions.push(match &level.shown.condition {
                Some(condition) => known(binder.bind_condition(condition, "WHERE"))?,
                None => Ok(None),
            });
            let values = level.shown.items.iter().map(|item| item.bound(&mut binder));
            shown.values = values.collect::<Bound<_>>()?;
            definitions.clone_from(&level.view.columns);
        }
        self.add_conditions(view, conditions, &mut shown)?;
        Ok(shown)
    }

    /// `conditions`: those of the views, the innermost first, as far as they are known.
    fn add_conditions(
        &self,
        view: &WrittenView,
        conditions: Vec<Result<Option<Expression>, String>>,
        shown: &mut Shown,
    ) -> Bound<()> {
        let is_checked = view.is_checked();
        let levels = view.levels.iter().rev().zip(is_checked.iter().rev()).zip(conditions);
        for ((level, is_checked), condition) in levels {
            let is_checked = *is_checked && self.verb != Verb::Delete;
            match condition {
                Ok(None) => {}
                Ok(Some(condition)) => {
                    let condition = ViewCheck { view: level.view.name.clone(), condition };
                    if is_checked {
                        shown.checks.push(condition.clone());
                    }
                    shown.conditions.push(condition);
                }
                Err(reason) if is_checked => {
                    return Err(not_supported(&format!("WITH CHECK OPTION of a view with {reason}")).into());
                }
                Err(reason) => shown.unknown = Some(reason),
            }
        }
        Ok(())
    }

    /// The target as a query reads that finds its rows: with their identities.
    pub(super) fn factor(&self) -> TableFactor {
        let mut factor = super::joined::target(&self.alias);
        let Some(view) = &self.view else { return factor };
        for (depth, level) in view.levels.iter().enumerate().rev() {
            let name = if depth == 0 { &self.alias } else { &level.view.name };
            factor = level.factor(factor, name);
        }
        factor
    }
}

/// 0A000 for a column of a view that is computed.
fn not_written(verb: Verb, column: &str, view: &str) -> Refusal {
    let verb = if verb == Verb::Insert { "insert into" } else { "update" };
    let message = format!("cannot {verb} column {} of view {}", quoted(column), quoted(view));
    let detail = "View columns that are not columns of their base relation are not updatable.";
    Error::new(SqlState::FeatureNotSupported, message).with_detail(detail).into()
}

/// A condition or a value; the reason if the OLTP path does not know it.
fn known<T>(bound: Bound<T>) -> Result<Result<Option<T>, String>, Refusal> {
    match bound {
        Ok(bound) => Ok(Ok(Some(bound))),
        Err(Refusal::Elsewhere(reason)) => Ok(Err(reason)),
        Err(failed) => Err(failed),
    }
}

impl Item {
    fn bound(&self, binder: &mut Binder) -> Bound<Option<Typed>> {
        let typed = known(binder.bind_settled(&self.expr))?.ok().flatten();
        Ok(typed.map(|(expression, data_type)| Typed::new(expression, data_type)))
    }
}

impl Level {
    /// The columns of the relation beneath as the view's query calls them, and their values.
    fn beneath(
        &self,
        definitions: &[ColumnDefinition],
        values: &[Option<Typed>],
    ) -> (Vec<ColumnDefinition>, Vec<Option<Typed>>) {
        let columns = self.shown.columns.iter().filter_map(|(name, called)| {
            let at = definitions.iter().position(|known| known.name == *name)?;
            Some((ColumnDefinition { name: called.clone(), ..definitions[at].clone() }, values[at].clone()))
        });
        columns.unzip()
    }

    /// The view's query over what is beneath it, with the identities of the rows, under a name.
    fn factor(&self, beneath: TableFactor, name: &str) -> TableFactor {
        let row = || SelectItem::ExprWithAlias {
            expr: Expr::Identifier(hidden(ROW_IDENTITY)),
            alias: hidden(ROW_IDENTITY),
        };
        let named = |expr: Expr, name: &str| SelectItem::ExprWithAlias { expr, alias: identifier(name) };
        let columns = self.shown.columns.iter();
        let mut items: Vec<SelectItem> =
            columns.map(|(name, called)| named(Expr::Identifier(identifier(name)), called)).collect();
        items.push(row());
        let relation = derived(items, beneath, None, &self.shown.alias);
        let columns = self.shown.items.iter().zip(&self.view.columns);
        let mut items: Vec<SelectItem> =
            columns.map(|(item, column)| named(item.expr.clone(), &column.name)).collect();
        items.push(row());
        derived(items, relation, self.shown.condition.clone(), name)
    }
}

fn derived(items: Vec<SelectItem>, from: TableFactor, condition: Option<Expr>, name: &str) -> TableFactor {
    let from = vec![ast::TableWithJoins { relation: from, joins: Vec::new() }];
    let subquery = Box::new(plain_query(None, items, from, condition));
    let name = Ident::with_quote('"', name);
    let alias = ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
}
