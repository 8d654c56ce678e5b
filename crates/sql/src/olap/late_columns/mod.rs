//! Columns of the rows that a top-k keeps, read when it has kept them (`docs/design/late-columns.md`).
//!
//! `ORDER BY ... LIMIT 20` over joins and groups of millions of rows gives twenty of each column. What nothing but the result asks for, names
//! and comments above all, need not go through any join, nor be a part of a group's key: the identity of its row goes in its place.
//! ```text
//!   Sort fetch=20                            Projection  k, name, sum
//!     Aggregate by k, name                     LateColumns  k, name of row
//!       Join                       ►             Sort fetch=20
//!         c(k, name)  o                            Aggregate by row
//!                                                    Join
//!                                                      c(k, row)  o
//!                                                c(k, name)            read row by row
//! ```
//! A column can be read late if everything up to the sort hands it on, and each group has one row of its table: it groups by the primary key,
//! or by a column that a join has found equal to it.

mod carried;
mod exec;
mod node;
mod origin;

pub(super) use exec::LateColumnsExec;
pub(super) use node::{LateColumns, LateColumnsPlanner};

use super::handle;
use super::scan::{TableHandle, table_schema};
use ankerdb_engine::{DataType, Table};
use carried::{Carried, Carrying, LateScan, note_columns};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Sort, TableScan, TableScanBuilder};
use origin::{Origin, Origins};
use std::collections::BTreeSet;
use std::ptr;
use std::sync::Arc;

/// A top-k of more rows reads its columns with all others: those of each row may lie in a block of their own.
const ROWS_MAX: usize = 1024;
/// Bytes of a row that have to be saved, where its identity takes eight.
const SAVED_MIN: usize = 24;
/// What a text counts for.
const TEXT_BYTES: usize = 32;

/// The plan, which is optimized, with columns read late where that is worth while.
pub(super) fn with_late_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut numbers = 1..u16::MAX;
    let late = plan.transform_down(|node| {
        let replacement = match &node {
            LogicalPlan::Sort(sort) if sort.fetch.is_some_and(|rows| rows <= ROWS_MAX) => {
                late(sort, &mut numbers)?
            }
            _ => None,
        };
        Ok(match replacement {
            // What is below was looked at.
            Some(replacement) => Transformed::new(replacement, true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    })?;
    Ok(late.data)
}

/// What takes the place of a sort, if some of its columns are worth being read late.
fn late(sort: &Sort, numbers: &mut impl Iterator<Item = u16>) -> Result<Option<LogicalPlan>> {
    let schema = sort.input.schema();
    let mut sorted_by = BTreeSet::new();
    sort.expr.iter().for_each(|key| note_columns(&key.expr, schema, &mut sorted_by));
    let origins = Origins::default();
    let mut found: Vec<Option<Origin<'_>>> = vec![None; schema.fields().len()];
    let mut scans: Vec<LateScan<'_>> = Vec::new();
    for (column, found) in found.iter_mut().enumerate().filter(|(column, _)| !sorted_by.contains(column)) {
        let Some(origin) = origins.origin(&sort.input, column)? else { continue };
        let table = table_of(origin.scan)?.filter(|table| is_lent(table, origin.column));
        let Some(table) = table else { continue };
        *found = Some(origin);
        if !scans.iter().any(|late| ptr::eq(late.scan, origin.scan)) {
            let Some(number) = numbers.next() else { return Ok(None) };
            scans.push(LateScan { scan: origin.scan, table, number });
        }
    }
    let mut carrying = Carrying { scans, origins, read: Vec::new() };
    loop {
        if carrying.scans.is_empty() {
            return Ok(None);
        }
        let is_late = |origin: &Origin<'_>| carrying.late(origin.scan).is_some();
        let late = found.iter().map(|origin| origin.filter(is_late));
        let late: Vec<Option<Origin<'_>>> = late.collect();
        let needed = (0..late.len()).filter(|&column| late[column].is_none()).collect();
        carrying.read.clear();
        let Some(carried) = carrying.carried(&sort.input, &needed)? else { return Ok(None) };
        let before = carrying.scans.len();
        let read = std::mem::take(&mut carrying.read);
        carrying.scans.retain(|scan| saved(scan, &late, &read) >= SAVED_MIN);
        if carrying.scans.len() == before {
            return fetched(sort, carried, &carrying.scans, &late).map(Some);
        }
    }
}

/// The table of a scan that has no more than its columns.
fn table_of(scan: &TableScan) -> Result<Option<Arc<Table>>> {
    let provider = handle(&scan.source)?;
    let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<TableHandle>());
    Ok(table.filter(|table| !table.has_identities()).map(|table| table.table().clone()))
}

/// Whether a block's values of the column are read as they lie, however many of them are asked for.
fn is_lent(table: &Table, column: usize) -> bool {
    let is_made = |data_type| {
        matches!(
            data_type,
            DataType::Number | DataType::Packed(_) | DataType::Interval(_) | DataType::System(_)
        )
    };
    table.columns().get(column).is_some_and(|column| !is_made(column.data_type))
}

/// How many bytes of a row are not carried if the scan's columns are read late.
fn saved(scan: &LateScan<'_>, late: &[Option<Origin<'_>>], read: &[(u16, BTreeSet<usize>)]) -> usize {
    let still_read = read.iter().find(|(number, _)| *number == scan.number).map(|(_, columns)| columns);
    let mut columns = BTreeSet::new();
    for origin in late.iter().flatten().filter(|origin| ptr::eq(origin.scan, scan.scan)) {
        if origin.is_grouped || !still_read.is_some_and(|read| read.contains(&origin.column)) {
            columns.insert(origin.column);
        }
    }
    let schema = table_schema(scan.table.columns());
    let bytes = |column: usize| schema.field(column).data_type().primitive_width().unwrap_or(TEXT_BYTES);
    columns.into_iter().map(bytes).sum()
}

/// The sort over what carries identities, and its columns as they were.
fn fetched(
    sort: &Sort,
    carried: Carried,
    scans: &[LateScan<'_>],
    late: &[Option<Origin<'_>>],
) -> Result<LogicalPlan> {
    let expr = sort.expr.clone();
    let sorted = Sort { expr, input: Arc::new(carried.plan), fetch: sort.fetch };
    let mut inputs = vec![LogicalPlan::Sort(sorted)];
    let (mut rows, mut places) = (Vec::new(), Vec::new());
    for (number, identities) in carried.rows {
        let Some(scan) = scans.iter().find(|scan| scan.number == number) else { continue };
        let of_scan = late.iter().flatten().filter(|origin| ptr::eq(origin.scan, scan.scan));
        let columns: BTreeSet<usize> = of_scan.map(|origin| origin.column).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let handle = TableHandle::new(scan.table.clone()).without_text_types();
        let read = TableScanBuilder::new(scan.scan.table_name.clone(), provider_as_source(Arc::new(handle)))
            .with_projection(Some(columns.clone()));
        inputs.push(LogicalPlan::TableScan(read.build()?));
        rows.push(Expr::Column(identities));
        places.extend(columns.into_iter().map(|column| (scan.scan, column)));
    }
    let node = LateColumns::new(inputs, rows)?;
    let output = output(sort.input.schema(), late, |origin| {
        let place =
            places.iter().position(|(scan, column)| ptr::eq(*scan, origin.scan) && *column == origin.column);
        place.map(|place| node.column(place))
    });
    let projected = Projection::try_new(output, Arc::new(node.into_plan()))?;
    Ok(LogicalPlan::Projection(projected))
}

/// The columns of a schema, of which some are others under their names.
fn output(
    schema: &DFSchema,
    late: &[Option<Origin<'_>>],
    read: impl Fn(&Origin<'_>) -> Option<Column>,
) -> Vec<Expr> {
    let columns =
        schema.iter().zip(late).map(|((qualifier, field), origin)| match origin.as_ref().and_then(&read) {
            Some(column) => Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()),
            None => Expr::Column(Column::from((qualifier, field))),
        });
    columns.collect()
}
