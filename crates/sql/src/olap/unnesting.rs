//! A plan that mentions columns of a query around it, once for each combination of their values.
//!
//! What a plan gives for a combination gets columns with its values, its *place*; joined with the query around by those columns, each
//! row finds what the plan gives for it. The combinations are joined to the lowest part that mentions outer columns, and what is above
//! works for each of them apart: aggregates group by the place, windows are partitioned by it, limits count within it, and where both
//! sides of a join mention outer columns their places must be equal. (Neumann and Kemper, Unnesting Arbitrary Queries, BTW 2015.)

use super::correlation::{as_subquery, visit_outer};
use super::limited::{count, sorted};
use super::names::HIDDEN;
use super::sets::{SetCall, SetRows};
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, Sort as SortKey};
use datafusion::logical_expr::expr_fn::binary_expr;
use datafusion::logical_expr::utils::{conjunction, merge_schema};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, Join, Limit, LogicalPlan, LogicalPlanBuilder,
    Operator, RecursiveQuery, Subquery, TableScan, Values, Window, lit,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Which column of a plan has the value of an outer column.
pub(super) type Places = BTreeMap<Column, Column>;

/// A plan that has columns for outer ones, and which.
pub(super) type Unnested = Option<(LogicalPlan, Places)>;

/// The combinations of outer columns, and which column has which.
pub(super) struct Unnesting {
    keys: LogicalPlan,
    places: Places,
    /// Of the names of columns.
    number: usize,
    /// The rows of a recursion that its recursive term reads, which have the places: under which name, and as which columns.
    recursion: Option<(String, DFSchemaRef)>,
}

impl Unnesting {
    /// Those of the columns in the rows of a plan. `next`: a number that no other has.
    pub(super) fn of(rows: &LogicalPlan, outer: &[Column], next: &mut usize) -> Result<Unnesting> {
        *next += 1;
        let name = |position: usize| format!("{HIDDEN}outer {next} {position}");
        let keys = outer.iter().enumerate();
        let keys = keys.map(|(position, column)| Expr::Column(column.clone()).alias(name(position)));
        let keys = LogicalPlanBuilder::from(rows.clone()).project(keys)?.distinct()?.build()?;
        let places = outer.iter().enumerate();
        let places = places
            .map(|(position, column)| (column.clone(), Column::new_unqualified(name(position))))
            .collect();
        Ok(Unnesting { keys, places, number: *next, recursion: None })
    }

    /// These combinations under other names.
    fn again(&self, next: &mut usize) -> Result<Unnesting> {
        *next += 1;
        let name = |position: usize| format!("{HIDDEN}outer {next} {position}");
        let keys = self.places.values().enumerate();
        let keys = keys.map(|(position, place)| Expr::Column(place.clone()).alias(name(position)));
        let keys = LogicalPlanBuilder::from(self.keys.clone()).project(keys)?.build()?;
        let places = self.places.keys().enumerate();
        let places = places
            .map(|(position, outer)| (outer.clone(), Column::new_unqualified(name(position))))
            .collect();
        Ok(Unnesting { keys, places, number: *next, recursion: self.recursion.clone() })
    }

    /// The plan once for each combination; `None` if it has a part for which there is no such thing.
    pub(super) fn over(&self, plan: &LogicalPlan, next: &mut usize) -> Result<Unnested> {
        if !self.is_mentioned(plan)? {
            let both = LogicalPlanBuilder::from(self.keys.clone()).cross_join(plan.clone())?.build()?;
            return Ok(Some((both, self.places.clone())));
        }
        match plan {
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, places)) = self.over(&alias.input, next)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
                let qualified = |(outer, place): (Column, Column)| {
                    (outer, Column::new(Some(alias.alias.clone()), place.name))
                };
                Ok(Some((plan, places.into_iter().map(qualified).collect())))
            }
            // An item of FROM that mentions outer columns.
            LogicalPlan::Subquery(item) => self.over(&item.subquery, next),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.over(&sort.input, next),
            LogicalPlan::Join(join) => self.over_join(plan, join, next),
            LogicalPlan::Union(union) => {
                let inputs: Vec<LogicalPlan> =
                    union.inputs.iter().map(|input| input.as_ref().clone()).collect();
                self.over_all(&inputs, &union.schema, next)
            }
            LogicalPlan::Values(values) => self.over_values(values, next),
            LogicalPlan::RecursiveQuery(query) => self.over_recursion(query, next),
            LogicalPlan::TableScan(scan) => self.over_recursive_rows(scan),
            LogicalPlan::Limit(limit) => self.over_limit(limit, next),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_) => {
                let [input] = plan.inputs()[..] else { return Ok(None) };
                let Some((input, places)) = self.over(input, next)? else { return Ok(None) };
                self.over_input(plan, input, places)
            }
            _ => Ok(None),
        }
    }

    /// The node, which has one input, over that input for each combination.
    fn over_input(&self, node: &LogicalPlan, input: LogicalPlan, places: Places) -> Result<Unnested> {
        let rows = LogicalPlanBuilder::from(input);
        let replacing = Replacing { places: &places, near: &merge_schema(&node.inputs()) };
        let own = || places.values().map(|place| Expr::Column(place.clone()));
        let rows = match node {
            LogicalPlan::Projection(projection) => {
                rows.project(replacing.all(&projection.expr)?.into_iter().chain(own()))?
            }
            LogicalPlan::Filter(filter) => rows.filter(replacing.one(filter.predicate.clone())?)?,
            LogicalPlan::Distinct(Distinct::All(_)) => rows.distinct()?,
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                self.first_of_each(distinct, rows.build()?, &replacing)?
            }
            LogicalPlan::Unnest(unnest) => {
                rows.unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
            }
            LogicalPlan::Extension(_) => {
                let Some(calls) = SetRows::of(node) else { return Ok(None) };
                let made = calls
                    .calls
                    .iter()
                    .map(|call| Ok(SetCall { arguments: replacing.all(&call.arguments)?, ..call.clone() }));
                let calls = SetRows::new(rows.build()?, made.collect::<Result<_>>()?, calls.keeps_all)?;
                LogicalPlanBuilder::from(calls.into_plan())
            }
            LogicalPlan::Window(window) => rows.window(partitioned(window, &replacing)?)?,
            LogicalPlan::Aggregate(aggregate) => {
                let has_sets = aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
                if has_sets {
                    return Ok(None);
                }
                let groups = replacing.all(&aggregate.group_expr)?.into_iter().chain(own());
                let calls = replacing.all(&aggregate.aggr_expr)?;
                let plan = rows.aggregate(groups, calls)?.build()?;
                return match aggregate.group_expr.is_empty() {
                    true => self.with_empty_groups(plan, aggregate, &places).map(Some),
                    false => Ok(Some((plan, places))),
                };
            }
            _ => return Ok(None),
        };
        Ok(Some((rows.build()?, places)))
    }

    /// The side whose rows are all kept gets the combinations; the other one, too, if it mentions outer columns itself.
    fn over_join(&self, plan: &LogicalPlan, join: &Join, next: &mut usize) -> Result<Unnested> {
        let (in_left, in_right) = (self.is_mentioned(&join.left)?, self.is_mentioned(&join.right)?);
        // Both sides of a full join keep all rows, so both get the combinations.
        let is_full = join.join_type == JoinType::Full;
        let is_left = match join.join_type {
            JoinType::Inner => in_left || !in_right,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Full => true,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => false,
            _ => return Ok(None),
        };
        let (side, other) = if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
        let is_in_other = is_full || if is_left { in_right } else { in_left };
        let Some((side, places)) = self.over(side, next)? else { return Ok(None) };
        let mut of_other = Places::new();
        let (other, equal) = match is_in_other {
            false => (other.as_ref().clone(), Vec::new()),
            true => {
                let Some((other, others)) = self.again(next)?.over(other, next)? else { return Ok(None) };
                let pair = |(outer, place): (&Column, &Column)| {
                    let (place, other) = (Expr::Column(place.clone()), Expr::Column(others[outer].clone()));
                    if is_left { (place, other) } else { (other, place) }
                };
                let equal = places.iter().map(pair).collect();
                of_other = others;
                (other, equal)
            }
        };
        let replacing = Replacing { places: &places, near: &merge_schema(&plan.inputs()) };
        let (left, right) = if is_left { (side, other) } else { (other, side) };
        let on = join
            .on
            .iter()
            .map(|(left, right)| Ok((replacing.one(left.clone())?, replacing.one(right.clone())?)));
        let mut on = on.collect::<Result<Vec<_>>>()?;
        let filter = join.filter.clone().map(|filter| replacing.one(filter)).transpose()?;
        let (mut filter, mut nulls) = (Vec::from_iter(filter), join.null_equality);
        if on.is_empty() && !equal.is_empty() {
            (on, nulls) = (equal, NullEquality::NullEqualsNull);
        } else {
            let is_same = |(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right);
            filter.extend(equal.into_iter().map(is_same));
        }
        let (left, right) = (Arc::new(left), Arc::new(right));
        let constraint = join.join_constraint;
        let joined = Join::try_new(
            left,
            right,
            on,
            conjunction(filter),
            join.join_type,
            constraint,
            nulls,
            join.null_aware,
        )?;
        let joined = LogicalPlan::Join(joined);
        match is_full {
            true => self.with_either(plan, joined, &places, &of_other, next).map(Some),
            false => Ok(Some((joined, places))),
        }
    }

    /// The rows of a full join with one column for each place: that of the side which the row has.
    fn with_either(
        &self,
        plan: &LogicalPlan,
        joined: LogicalPlan,
        left: &Places,
        right: &Places,
        next: &mut usize,
    ) -> Result<(LogicalPlan, Places)> {
        *next += 1;
        let (mut columns, mut places) = (Vec::new(), Places::new());
        columns.extend(plan.schema().iter().map(|field| Expr::Column(Column::from(field))));
        for (position, (outer, place)) in left.iter().enumerate() {
            let either = [place, &right[outer]].map(|place| Expr::Column(place.clone())).to_vec();
            let name = format!("{HIDDEN}either {next} {position}");
            columns.push(datafusion::functions::core::expr_fn::coalesce(either).alias(name.clone()));
            places.insert(outer.clone(), Column::new_unqualified(name));
        }
        Ok((LogicalPlanBuilder::from(joined).project(columns)?.build()?, places))
    }

    /// All rows of several plans, under the names of `schema`.
    fn over_all(&self, plans: &[LogicalPlan], schema: &DFSchema, next: &mut usize) -> Result<Unnested> {
        let mut all: Option<LogicalPlanBuilder> = None;
        let place =
            |position: usize| Column::new_unqualified(format!("{HIDDEN}all {} {position}", self.number));
        for plan in plans {
            let columns: Vec<Expr> =
                plan.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
            let Some((rows, places)) = self.again(next)?.over(plan, next)? else { return Ok(None) };
            let columns = columns.into_iter().zip(schema.iter());
            let columns = columns.map(|(column, (_, field))| column.alias(field.name()));
            let keys = places.into_values().enumerate();
            let keys = keys.map(|(position, key)| Expr::Column(key).alias(place(position).name));
            let rows = LogicalPlanBuilder::from(rows).project(columns.chain(keys).collect::<Vec<_>>())?;
            all = Some(match all {
                None => rows,
                Some(all) => all.union(rows.build()?)?,
            });
        }
        let Some(all) = all else { return Ok(None) };
        let found: Vec<Column> = all.schema().columns();
        let named = schema.iter().zip(found);
        let named = named.map(|((relation, field), column)| {
            Expr::Column(column).alias_qualified(relation.cloned(), field.name())
        });
        let places: Places =
            self.places.keys().cloned().enumerate().map(|(at, outer)| (outer, place(at))).collect();
        let named: Vec<Expr> =
            named.chain(places.values().map(|place| Expr::Column(place.clone()))).collect();
        Ok(Some((all.project(named)?.build()?, places)))
    }

    fn over_values(&self, values: &Values, next: &mut usize) -> Result<Unnested> {
        let one = LogicalPlanBuilder::empty(true).build()?;
        let row = |cells: &Vec<Expr>| {
            let cells = cells.iter().zip(values.schema.iter());
            let cells = cells.map(|(cell, (_, field))| cell.clone().alias(field.name()));
            LogicalPlanBuilder::from(one.clone()).project(cells)?.build()
        };
        let rows = values.values.iter().map(row).collect::<Result<Vec<_>>>()?;
        self.over_all(&rows, &values.schema, next)
    }

    /// The rows of each combination are numbered.
    fn over_limit(&self, limit: &Limit, next: &mut usize) -> Result<Unnested> {
        let (skip, fetch) = (count(limit.skip.as_deref())?.unwrap_or(0), count(limit.fetch.as_deref())?);
        let (columns, order, rows) = sorted(&limit.input);
        let near = rows.schema().clone();
        let Some((rows, places)) = self.over(rows, next)? else { return Ok(None) };
        let replacing = Replacing { places: &places, near: &near };
        let own: Vec<Expr> = places.values().map(|place| Expr::Column(place.clone())).collect();
        let end = fetch.map(|fetch| skip.saturating_add(fetch));
        let rows = self.numbered(rows, own.clone(), replacing.keys(order)?, (skip, end))?;
        let columns = replacing.all(&columns)?.into_iter().chain(own);
        Ok(Some((rows.project(columns)?.build()?, places)))
    }

    /// The first row of each combination and of each of what DISTINCT ON names.
    fn first_of_each(
        &self,
        distinct: &DistinctOn,
        rows: LogicalPlan,
        replacing: &Replacing,
    ) -> Result<LogicalPlanBuilder> {
        let own = || replacing.places.values().map(|place| Expr::Column(place.clone()));
        let parts = own().chain(replacing.all(&distinct.on_expr)?).collect();
        let order = replacing.keys(distinct.sort_expr.clone().unwrap_or_default())?;
        let rows = self.numbered(rows, parts, order, (0, Some(1)))?;
        rows.project(replacing.all(&distinct.select_expr)?.into_iter().chain(own()))
    }

    /// The rows of each part from behind the one number to the other.
    fn numbered(
        &self,
        rows: LogicalPlan,
        parts: Vec<Expr>,
        order: Vec<SortKey>,
        (skip, end): (u64, Option<u64>),
    ) -> Result<LogicalPlanBuilder> {
        let numbers = row_number().partition_by(parts);
        let numbers = if order.is_empty() { numbers } else { numbers.order_by(order) };
        let name = format!("{HIDDEN}number {}", self.number);
        let rows = LogicalPlanBuilder::from(rows).window([numbers.build()?.alias(name.clone())])?;
        let number = Expr::Column(Column::new_unqualified(name));
        let mut wanted = vec![number.clone().gt(lit(skip))];
        wanted.extend(end.map(|end| number.lt_eq(lit(end))));
        rows.filter(conjunction(wanted).unwrap_or_else(|| lit(true)))
    }

    /// An aggregate without groups has a result for no rows, too: that of a count is zero, the others' NULL.
    fn with_empty_groups(
        &self,
        plan: LogicalPlan,
        aggregate: &Aggregate,
        inner: &Places,
    ) -> Result<(LogicalPlan, Places)> {
        let places = self.places.iter();
        let (outer, found): (Vec<Column>, Vec<Column>) =
            places.map(|(outer, place)| (place.clone(), inner[outer].clone())).unzip();
        let renamed =
            |position: usize| Column::new_unqualified(format!("{HIDDEN}group {} {position}", self.number));
        let mut columns: Vec<Expr> = (found.into_iter().enumerate())
            .map(|(position, column)| Expr::Column(column).alias(renamed(position).name))
            .collect();
        columns.extend(aggregate.schema.iter().map(|field| Expr::Column(Column::from(field))));
        let groups = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        let keys: (Vec<Column>, Vec<Column>) = (outer.clone(), (0..outer.len()).map(renamed).collect());
        let joined = LogicalPlanBuilder::from(self.keys.clone())
            .join_detailed(groups, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
            .build()?;
        let mut columns: Vec<Expr> = outer.into_iter().map(Expr::Column).collect();
        for (call, field) in aggregate.aggr_expr.iter().zip(aggregate.schema.iter()) {
            let column = Expr::Column(Column::from(field));
            columns.push(match is_count(call) {
                true => {
                    let zero = lit(ScalarValue::Int64(Some(0)));
                    let count = datafusion::functions::core::expr_fn::coalesce(vec![column, zero]);
                    count.alias_qualified(field.0.cloned(), field.1.name().clone())
                }
                false => column,
            });
        }
        Ok((LogicalPlanBuilder::from(joined).project(columns)?.build()?, self.places.clone()))
    }

    /// The recursion, whose rows have the places: those of the first term by the combinations, those of the other term by the rows that
    /// they are made of.
    fn over_recursion(&self, query: &RecursiveQuery, next: &mut usize) -> Result<Unnested> {
        *next += 1;
        let name = |position: usize| format!("{HIDDEN}recursion {next} {position}");
        let names: Vec<String> = (0..self.places.len()).map(name).collect();
        let with_places = |plan: &LogicalPlan, rows: LogicalPlan, places: &Places| {
            let columns = plan.schema().iter().map(|field| Expr::Column(Column::from(field)));
            let own = places.values().zip(&names);
            let own = own.map(|(place, name)| Expr::Column(place.clone()).alias(name.clone()));
            LogicalPlanBuilder::from(rows).project(columns.chain(own).collect::<Vec<_>>())?.build()
        };
        let first = query.static_term.as_ref();
        let Some((rows, places)) = self.over(first, next)? else { return Ok(None) };
        let static_term = with_places(first, rows, &places)?;
        let mut own = self.again(next)?;
        own.recursion = Some((query.name.clone(), static_term.schema().clone()));
        let rest = query.recursive_term.as_ref();
        let Some((rows, places)) = own.over(rest, next)? else { return Ok(None) };
        let recursive_term = Arc::new(with_places(rest, rows, &places)?);
        let whole = RecursiveQuery { static_term: Arc::new(static_term), recursive_term, ..query.clone() };
        let columns = names.iter().map(Column::new_unqualified);
        let places = self.places.keys().cloned().zip(columns).collect();
        Ok(Some((LogicalPlan::RecursiveQuery(whole).recompute_schema()?, places)))
    }

    /// The rows of the recursion that is being read, with their places.
    fn over_recursive_rows(&self, scan: &TableScan) -> Result<Unnested> {
        let Some((name, schema)) = self.recursion.as_ref().filter(|(name, _)| is_work_table(scan, name))
        else {
            return Ok(None);
        };
        // What fields tell of types goes from plans when these are done; a source would keep it.
        let own = schema.fields().len() - self.places.len();
        let fields = schema.fields().iter().enumerate().map(|(position, field)| match position < own {
            true => field.clone(),
            false => Arc::new(field.as_ref().clone().with_metadata(HashMap::new())),
        });
        let fields = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let source = provider_as_source(Arc::new(CteWorkTable::new(name, fields)));
        let rows = LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()?;
        // They lie behind the others.
        let width = rows.schema().fields().len() - self.places.len();
        let places = self.places.keys().cloned().zip(rows.schema().columns().split_off(width)).collect();
        Ok(Some((rows, places)))
    }

    /// Whether the plan mentions one of the outer columns, or reads rows that have them.
    fn is_mentioned(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        if let Some((name, _)) = &self.recursion {
            found = plan.exists(|node| {
                Ok(matches!(node, LogicalPlan::TableScan(scan) if is_work_table(scan, name)))
            })?;
        }
        visit_outer(plan, &mut |column| found |= self.places.contains_key(column))?;
        Ok(found)
    }
}

/// Whether the scan reads the rows of the recursion of that name.
fn is_work_table(scan: &TableScan, name: &str) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| {
        provider.downcast_ref::<CteWorkTable>().is_some_and(|table| table.name() == name)
    })
}

/// An aggregate that is zero for no rows.
fn is_count(call: &Expr) -> bool {
    match call {
        Expr::Alias(alias) => is_count(&alias.expr),
        Expr::AggregateFunction(function) => ["count", "regr_count"].contains(&function.func.name()),
        _ => false,
    }
}

/// The calls of a window, within the rows of each place.
fn partitioned(window: &Window, replacing: &Replacing) -> Result<Vec<Expr>> {
    let calls = window.window_expr.iter().map(|call| {
        let name = call.schema_name().to_string();
        let replaced = replacing.one(call.clone())?.transform_up(|part| match part {
            Expr::WindowFunction(mut call) => {
                let places = replacing.places.values().map(|place| Expr::Column(place.clone()));
                call.params.partition_by.extend(places);
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(replaced.data.unalias().alias(name))
    });
    calls.collect()
}

/// Puts places for outer columns.
struct Replacing<'a> {
    places: &'a Places,
    /// The columns of the input as it was: those that subqueries of it mean first.
    near: &'a DFSchema,
}

impl Replacing<'_> {
    fn all(&self, expressions: &[Expr]) -> Result<Vec<Expr>> {
        expressions.iter().map(|expression| self.one(expression.clone())).collect()
    }

    fn keys(&self, keys: Vec<SortKey>) -> Result<Vec<SortKey>> {
        keys.into_iter().map(|key| Ok(SortKey { expr: self.one(key.expr)?, ..key })).collect()
    }

    /// The expression with columns of the plan in place of outer ones, under the name that it had.
    fn one(&self, expression: Expr) -> Result<Expr> {
        let name = expression.schema_name().to_string();
        let qualified = expression.qualified_name();
        let replaced = expression.transform(|part| match part {
            Expr::OuterReferenceColumn(_, ref column) => Ok(match self.places.get(column) {
                Some(place) => Transformed::yes(Expr::Column(place.clone())),
                None => Transformed::no(part),
            }),
            other if as_subquery(&other).is_some() => self.subquery(other).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(match replaced.transformed && replaced.data.schema_name().to_string() != name {
            true => replaced.data.alias_qualified(qualified.0, qualified.1),
            false => replaced.data,
        })
    }

    /// A subquery, for which places are columns outside as the outer columns were.
    fn subquery(&self, expression: Expr) -> Result<Expr> {
        let meant: Places = (self.places.iter())
            .filter(|(outer, _)| !self.near.has_column(outer))
            .map(|(outer, place)| (outer.clone(), place.clone()))
            .collect();
        let within = |subquery: Subquery| -> Result<Subquery> {
            let column = |part: Expr| match part {
                Expr::OuterReferenceColumn(field, column) => Ok(match meant.get(&column) {
                    Some(place) => Transformed::yes(Expr::OuterReferenceColumn(field, place.clone())),
                    None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                }),
                other => Ok(Transformed::no(other)),
            };
            let plan = subquery.subquery.as_ref().clone().transform_up_with_subqueries(|node| {
                node.map_expressions(|expression| expression.transform(column))
            })?;
            let named = subquery.outer_ref_columns.iter().cloned();
            let named = named.map(|named| named.transform(column).map(|named| named.data));
            let outer_ref_columns = named.collect::<Result<Vec<_>>>()?;
            Ok(Subquery { outer_ref_columns, ..subquery.with_plan(Arc::new(plan.data)) })
        };
        Ok(match expression {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(within(subquery)?),
            Expr::Exists(Exists { subquery, negated }) => {
                Expr::Exists(Exists { subquery: within(subquery)?, negated })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                Expr::InSubquery(InSubquery { expr, subquery: within(subquery)?, negated })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                Expr::SetComparison(SetComparison { expr, subquery: within(subquery)?, op, quantifier })
            }
            other => other,
        })
    }
}
