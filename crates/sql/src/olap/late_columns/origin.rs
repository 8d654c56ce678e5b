//! Where the columns of a plan's nodes come from.

use super::super::handle;
use super::super::scan::TableHandle;
use datafusion::common::{DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, TableScan};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;

/// A column of a table, as one of a plan's scans reads it.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) scan: &'a TableScan,
    /// Of the table.
    pub(super) column: usize,
    /// Whether there is an aggregate above the scan, which groups by it or by what determines it.
    pub(super) is_grouped: bool,
}

impl Origin<'_> {
    fn is(&self, other: &Origin<'_>) -> bool {
        ptr::eq(self.scan, other.scan) && self.column == other.column
    }
}

/// Finds origins, and remembers what its aggregates determine.
#[derive(Default)]
pub(super) struct Origins<'a> {
    determined: RefCell<HashMap<*const Aggregate, Vec<&'a TableScan>>>,
}

impl<'a> Origins<'a> {
    /// The column that an output column of a node hands on from a row of a scan; `None` if it is computed, or if rows of several rows of the
    /// scan may have it. All columns with an origin in one scan come from the same row, or are NULL where an outer join has none.
    pub(super) fn origin(&self, node: &'a LogicalPlan, column: usize) -> Result<Option<Origin<'a>>> {
        match node {
            LogicalPlan::TableScan(scan) => {
                let read = scan.projection.as_ref().map_or(Some(column), |read| read.get(column).copied());
                Ok(read.map(|column| Origin { scan, column, is_grouped: false }))
            }
            LogicalPlan::Filter(filter) => self.origin(&filter.input, column),
            LogicalPlan::SubqueryAlias(alias) => self.origin(&alias.input, column),
            LogicalPlan::Projection(projection) => {
                self.of_expression(&projection.expr[column], &projection.input)
            }
            LogicalPlan::Join(join) => match joined(join, column) {
                Some((side, column)) => self.origin(side, column),
                None => Ok(None),
            },
            LogicalPlan::Aggregate(aggregate) => {
                let Some(held) = held(aggregate, column) else { return Ok(None) };
                let Some(origin) = self.of_expression(held, &aggregate.input)? else { return Ok(None) };
                let is_determined = self.determines(aggregate, origin.scan)?;
                Ok(is_determined.then_some(Origin { is_grouped: true, ..origin }))
            }
            _ => Ok(None),
        }
    }

    /// The origin of an expression over the node that is nothing but a column, perhaps of another name.
    pub(super) fn of_expression(
        &self,
        expression: &Expr,
        input: &'a LogicalPlan,
    ) -> Result<Option<Origin<'a>>> {
        match place(expression, input.schema()) {
            Some(column) => self.origin(input, column),
            None => Ok(None),
        }
    }

    /// Whether all rows of a group have the same row of the scan.
    fn determines(&self, aggregate: &'a Aggregate, scan: &TableScan) -> Result<bool> {
        let key = ptr::from_ref(aggregate);
        let is_in = |scans: &Vec<&TableScan>| scans.iter().any(|known| ptr::eq(*known, scan));
        if let Some(found) = self.determined.borrow().get(&key).map(is_in) {
            return Ok(found);
        }
        let scans = self.determined(aggregate)?;
        let found = is_in(&scans);
        self.determined.borrow_mut().insert(key, scans);
        Ok(found)
    }

    /// The scans of which all rows of a group have the same row: the groups have its primary key, or what a join has found equal to it.
    fn determined(&self, aggregate: &'a Aggregate) -> Result<Vec<&'a TableScan>> {
        let mut known = Vec::new();
        for group in &aggregate.group_expr {
            known.extend(self.of_expression(group, &aggregate.input)?);
        }
        self.known_rows(aggregate, known, Vec::new())
    }

    /// Whether all rows with the same values of these columns of the aggregate's input, and the same rows of some scans, have the same row of
    /// another scan.
    pub(super) fn implies(
        &self,
        aggregate: &'a Aggregate,
        columns: &[Expr],
        rows: Vec<&'a TableScan>,
        scan: &TableScan,
    ) -> Result<bool> {
        let mut known = Vec::new();
        for column in columns {
            known.extend(self.of_expression(column, &aggregate.input)?);
        }
        let scans = self.known_rows(aggregate, known, rows)?;
        Ok(scans.iter().any(|known| ptr::eq(*known, scan)))
    }

    /// The scans whose row is known where these columns and rows are.
    fn known_rows(
        &self,
        aggregate: &'a Aggregate,
        mut known: Vec<Origin<'a>>,
        mut scans: Vec<&'a TableScan>,
    ) -> Result<Vec<&'a TableScan>> {
        let mut equal = Vec::new();
        if !known.is_empty() || !scans.is_empty() {
            self.equalities(&aggregate.input, &mut equal)?;
        }
        loop {
            let before = known.len() + scans.len();
            let is_known = |origin: &Origin<'_>, known: &[Origin<'_>]| {
                let is_of_row = scans.iter().any(|scan| ptr::eq(*scan, origin.scan));
                is_of_row || known.iter().any(|known| known.is(origin))
            };
            for (one, other) in &equal {
                match (is_known(one, &known), is_known(other, &known)) {
                    (true, false) => known.push(*other),
                    (false, true) => known.push(*one),
                    _ => {}
                }
            }
            for at in 0..known.len() {
                let scan = known[at].scan;
                if !scans.iter().any(|found| ptr::eq(*found, scan)) && has_key(scan, &known)? {
                    scans.push(scan);
                }
            }
            if known.len() + scans.len() == before {
                return Ok(scans);
            }
        }
    }

    /// Pairs of columns that inner joins below the node, and no aggregate, have found equal: in each of its rows they are, or both are NULL.
    fn equalities(&self, node: &'a LogicalPlan, found: &mut Vec<(Origin<'a>, Origin<'a>)>) -> Result<()> {
        match node {
            LogicalPlan::Filter(filter) => self.equalities(&filter.input, found),
            LogicalPlan::SubqueryAlias(alias) => self.equalities(&alias.input, found),
            LogicalPlan::Projection(projection) => self.equalities(&projection.input, found),
            LogicalPlan::Join(join) => {
                for side in [&join.left, &join.right] {
                    self.equalities(side, found)?;
                }
                for (left, right) in join.on.iter().filter(|_| join.join_type == JoinType::Inner) {
                    let left = self.of_expression(left, &join.left)?;
                    found.extend(left.zip(self.of_expression(right, &join.right)?));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Which output column of the input an expression is.
fn place(expression: &Expr, schema: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Alias(alias) => place(&alias.expr, schema),
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    }
}

/// The side of a join, and its column, that an output column of the join is.
fn joined(join: &Join, column: usize) -> Option<(&LogicalPlan, usize)> {
    let width = join.left.schema().fields().len();
    let (has_left, has_right) = match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => (true, true),
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, false),
    };
    match column.checked_sub(width) {
        None => has_left.then_some((join.left.as_ref(), column)),
        Some(column) => has_right.then_some((join.right.as_ref(), column)),
    }
}

/// What an output column of an aggregate hands on of a row of each group: something that it groups by, or the first value.
fn held(aggregate: &Aggregate, column: usize) -> Option<&Expr> {
    if let [Expr::GroupingSet(_)] = aggregate.group_expr.as_slice() {
        return None;
    }
    let groups = aggregate.group_expr.len();
    match column.checked_sub(groups) {
        None => Some(&aggregate.group_expr[column]),
        Some(call) => first_value(aggregate.aggr_expr.get(call)?),
    }
}

fn first_value(call: &Expr) -> Option<&Expr> {
    match call {
        Expr::Alias(alias) => first_value(&alias.expr),
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            let is_plain = params.filter.is_none() && params.order_by.is_empty() && !params.distinct;
            match params.args.as_slice() {
                [value] if is_plain && call.func.name() == "first_value" => Some(value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether these columns have the primary key of the scan's table.
fn has_key(scan: &TableScan, columns: &[Origin<'_>]) -> Result<bool> {
    let Some(provider) = handle(&scan.source)? else { return Ok(false) };
    let key = provider.downcast_ref::<TableHandle>().and_then(TableHandle::primary_key);
    let is_there = |column: &usize| columns.iter().any(|of| ptr::eq(of.scan, scan) && of.column == *column);
    Ok(key.is_some_and(|key| key.iter().all(is_there)))
}
