//! A plan that carries the identities of rows in place of columns.

use super::super::scan::TableHandle;
use super::origin::Origins;
use ankerdb_engine::Table;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, TableScan, TableScanBuilder};
use std::collections::BTreeSet;
use std::ptr;
use std::sync::Arc;

/// A scan of whose rows some columns are read late.
#[derive(Clone)]
pub(super) struct LateScan<'a> {
    pub(super) scan: &'a TableScan,
    pub(super) table: Arc<Table>,
    /// Of the scan among those of the plan; the name of the identities has it.
    pub(super) number: u16,
}

/// A node in place of another one.
pub(super) struct Carried {
    /// With the columns that are needed, under the names that they had, and the identities of rows.
    pub(super) plan: LogicalPlan,
    /// The number of each late scan below, and the column with the identities of its rows.
    pub(super) rows: Vec<(u16, Column)>,
}

pub(super) struct Carrying<'a> {
    pub(super) scans: Vec<LateScan<'a>>,
    pub(super) origins: Origins<'a>,
    /// The columns of tables that are still read by late scans, by their numbers.
    pub(super) read: Vec<(u16, BTreeSet<usize>)>,
}

impl<'a> Carrying<'a> {
    /// The late scan that this is.
    pub(super) fn late(&self, scan: &TableScan) -> Option<&LateScan<'a>> {
        self.scans.iter().find(|late| ptr::eq(late.scan, scan))
    }

    /// The node with no more than the needed ones of its columns. `None` if there is no late scan below.
    pub(super) fn carried(
        &mut self,
        node: &'a LogicalPlan,
        needed: &BTreeSet<usize>,
    ) -> Result<Option<Carried>> {
        match node {
            LogicalPlan::TableScan(scan) => self.scan(scan, needed),
            LogicalPlan::Filter(filter) => {
                let mut below = needed.clone();
                note_columns(&filter.predicate, filter.input.schema(), &mut below);
                self.above(node, &filter.input, &below)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let carried = self.above(node, &alias.input, needed)?;
                let renamed = |column: Column| Column::new(Some(alias.alias.clone()), column.name);
                Ok(carried.map(|Carried { plan, rows }| {
                    let rows = rows.into_iter().map(|(number, column)| (number, renamed(column)));
                    Carried { plan, rows: rows.collect() }
                }))
            }
            LogicalPlan::Projection(projection) => self.projection(projection, needed),
            LogicalPlan::Join(join) => self.join(node, join, needed),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, needed),
            _ => Ok(None),
        }
    }

    /// A node that hands on all columns of its only input.
    fn above(
        &mut self,
        node: &LogicalPlan,
        input: &'a LogicalPlan,
        needed: &BTreeSet<usize>,
    ) -> Result<Option<Carried>> {
        let Some(Carried { plan, rows }) = self.carried(input, needed)? else { return Ok(None) };
        let plan = node.with_new_exprs(node.expressions(), vec![plan])?;
        Ok(Some(Carried { plan, rows }))
    }

    fn scan(&mut self, scan: &TableScan, needed: &BTreeSet<usize>) -> Result<Option<Carried>> {
        let Some(LateScan { table, number, .. }) = self.late(scan).cloned() else { return Ok(None) };
        let stored = |&column: &usize| scan.projection.as_ref().map_or(column, |read| read[column]);
        let read: BTreeSet<usize> = needed.iter().map(stored).collect();
        let handle = TableHandle::with_identities(table.clone(), number).without_text_types();
        let columns = read.iter().copied().chain([table.columns().len()]).collect();
        let identified = TableScanBuilder::new(scan.table_name.clone(), provider_as_source(Arc::new(handle)))
            .with_projection(Some(columns))
            .with_filters(scan.filters.clone())
            .with_fetch(scan.fetch)
            .build()?;
        self.read.push((number, read));
        let schema = &identified.projected_schema;
        let identities = Column::from(schema.qualified_field(schema.fields().len() - 1));
        let rows = vec![(number, identities)];
        Ok(Some(Carried { plan: LogicalPlan::TableScan(identified), rows }))
    }

    fn projection(
        &mut self,
        projection: &'a Projection,
        needed: &BTreeSet<usize>,
    ) -> Result<Option<Carried>> {
        let mut kept: Vec<Expr> = needed.iter().map(|&column| projection.expr[column].clone()).collect();
        let below = columns_of(&kept, projection.input.schema());
        let Some(Carried { plan, rows }) = self.carried(&projection.input, &below)? else { return Ok(None) };
        kept.extend(rows.iter().map(|(_, column)| Expr::Column(column.clone())));
        let plan = LogicalPlan::Projection(Projection::try_new(kept, Arc::new(plan))?);
        Ok(Some(Carried { plan, rows }))
    }

    fn join(
        &mut self,
        node: &LogicalPlan,
        join: &'a Join,
        needed: &BTreeSet<usize>,
    ) -> Result<Option<Carried>> {
        let width = join.left.schema().fields().len();
        let mut left: BTreeSet<usize> = needed.iter().copied().filter(|&column| column < width).collect();
        // What a semi join gives has no columns of its right side.
        let mut right: BTreeSet<usize> =
            needed.iter().filter_map(|column| column.checked_sub(width)).collect();
        for (one, other) in &join.on {
            note_columns(one, join.left.schema(), &mut left);
            note_columns(other, join.right.schema(), &mut right);
        }
        if let Some(filter) = &join.filter {
            for column in filter.column_refs() {
                left.extend(join.left.schema().maybe_index_of_column(column));
                right.extend(join.right.schema().maybe_index_of_column(column));
            }
        }
        let (left, right) = (self.carried(&join.left, &left)?, self.carried(&join.right, &right)?);
        if left.is_none() && right.is_none() {
            return Ok(None);
        }
        let unchanged = |side: &Arc<LogicalPlan>| Carried { plan: side.as_ref().clone(), rows: Vec::new() };
        let (mut left, right) =
            (left.unwrap_or_else(|| unchanged(&join.left)), right.unwrap_or_else(|| unchanged(&join.right)));
        let plan = node.with_new_exprs(node.expressions(), vec![left.plan, right.plan])?;
        left.rows.extend(right.rows);
        Ok(Some(Carried { plan, rows: left.rows }))
    }

    /// Groups by the identities of rows in place of what is read late.
    fn aggregate(&mut self, aggregate: &'a Aggregate, needed: &BTreeSet<usize>) -> Result<Option<Carried>> {
        let mut groups = Vec::new();
        for (position, group) in aggregate.group_expr.iter().enumerate() {
            let origin = self.origins.of_expression(group, &aggregate.input)?;
            let is_late = origin.is_some_and(|origin| self.late(origin.scan).is_some());
            if needed.contains(&position) || !is_late {
                groups.push(group.clone());
            }
        }
        let first = aggregate.group_expr.len();
        let calls = aggregate.aggr_expr.iter().enumerate();
        let mut calls: Vec<Expr> = calls
            .filter(|(position, _)| needed.contains(&(first + position)))
            .map(|(_, call)| call.clone())
            .collect();
        let schema = aggregate.input.schema();
        let mut below = columns_of(&groups, schema);
        below.extend(columns_of(&calls, schema));
        let Some(Carried { plan, rows }) = self.carried(&aggregate.input, &below)? else { return Ok(None) };
        let implied = self.implied(aggregate, &groups, &rows)?;
        let identity = |(number, column): (u16, Column)| match implied.contains(&number) {
            true => {
                // Any of the group's, which are the same.
                let own = Column::new_unqualified(column.name.clone());
                calls.push(min(Expr::Column(column)).alias(own.name.clone()));
                (number, own)
            }
            false => {
                groups.push(Expr::Column(column.clone()));
                (number, column)
            }
        };
        let rows = rows.into_iter().map(identity).collect();
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, calls)?);
        Ok(Some(Carried { plan, rows }))
    }

    /// The late scans whose rows need not be grouped by, since the other groups determine them.
    fn implied(&self, aggregate: &'a Aggregate, groups: &[Expr], rows: &[(u16, Column)]) -> Result<Vec<u16>> {
        let mut keys: Vec<&LateScan<'a>> =
            self.scans.iter().filter(|scan| rows.iter().any(|(number, _)| *number == scan.number)).collect();
        let mut implied = Vec::new();
        for late in keys.clone() {
            let others = keys.iter().filter(|key| key.number != late.number);
            let others = others.map(|key| key.scan).collect();
            if self.origins.implies(aggregate, groups, others, late.scan)? {
                keys.retain(|key| key.number != late.number);
                implied.push(late.number);
            }
        }
        Ok(implied)
    }
}

/// Which columns of the input these expressions read.
fn columns_of(expressions: &[Expr], schema: &DFSchema) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    expressions.iter().for_each(|expression| note_columns(expression, schema, &mut columns));
    columns
}

pub(super) fn note_columns(expression: &Expr, schema: &DFSchema, columns: &mut BTreeSet<usize>) {
    columns.extend(
        expression.column_refs().into_iter().filter_map(|column| schema.maybe_index_of_column(column)),
    );
}
