//! WITH RECURSIVE: its columns have the types of the first term.
//!
//! DataFusion plans the other term over columns of the types that it gives the first one. So when this one is typed, the rows that the
//! other term reads get its columns, and the term is typed over them.

use super::read::Reader;
use super::{Typing, with_types};
use crate::expression::bind::type_name;
use crate::olap::error::external;
use crate::olap::value::field_type;
use ankerdb_engine::{DataType, Error, SqlState};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, Schema};
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Projection, RecursiveQuery, TableScan,
};
use std::sync::Arc;

impl Typing<'_> {
    /// The query with both terms typed.
    pub(super) fn recursive(&mut self, mut query: RecursiveQuery) -> Result<LogicalPlan> {
        let mut first = self.plan(Arc::unwrap_or_clone(query.static_term))?;
        let untyped = without_added_casts(Arc::unwrap_or_clone(query.recursive_term))?;
        let mut rest = self.plan(over(untyped.clone(), &query.name, first.schema())?)?;
        let own = longer_numbers(first.schema(), rest.schema());
        if !own.is_empty() {
            first = self.with_any_length(first, &own)?;
            rest = self.plan(over(untyped, &query.name, first.schema())?)?;
        }
        let mut terms = self.with_common_types(vec![first.clone(), rest], "UNION")?;
        let rest = terms.pop().expect("as many terms as were given");
        check(&query.name, first.schema(), rest.schema())?;
        let types: Vec<ArrowType> =
            first.schema().fields().iter().map(|field| field.data_type().clone()).collect();
        query.recursive_term = Arc::new(told_as(first.schema(), with_types(rest, &types)?)?);
        query.static_term = Arc::new(first);
        LogicalPlan::RecursiveQuery(query).recompute_schema()
    }

    /// The term with numerics of any length in these columns.
    fn with_any_length(&mut self, first: LogicalPlan, numbers: &[usize]) -> Result<LogicalPlan> {
        let schema = first.schema().clone();
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (position, (qualifier, field)) in schema.iter().enumerate() {
            let column = Expr::Column(Column::from((qualifier, field)));
            columns.push(match numbers.contains(&position) {
                true => {
                    let mut reader = Reader::new(self, &schema);
                    let number = reader.read(&column)?;
                    let number = reader.emit_as(number, DataType::Number)?;
                    number.alias_qualified(qualifier.cloned(), field.name().clone())
                }
                false => column,
            });
        }
        LogicalPlanBuilder::from(first).project(columns)?.build()
    }
}

/// The term without the casts that the planner has put around its columns. (Those that were written are within calls; see
/// `told_casts.rs`.)
fn without_added_casts(term: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = term else { return Ok(term) };
    let columns = projection.expr.into_iter().zip(projection.schema.iter()).map(|(column, (_, field))| {
        match column.unalias() {
            Expr::Cast(cast) => cast.expr.alias_if_changed(field.name().clone()),
            column => column.alias_if_changed(field.name().clone()),
        }
    });
    let columns = columns.collect::<Result<_>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(columns, projection.input)?))
}

/// The term whose lists tell of their types what those of the first one do: its rows are put behind the first ones as they are.
fn told_as(first: &DFSchema, rest: LogicalPlan) -> Result<LogicalPlan> {
    let pairs = || first.fields().iter().zip(rest.schema().iter());
    let differs = |own: &Field, field: &Field| {
        matches!(own.data_type(), ArrowType::List(_)) && own.metadata() != field.metadata()
    };
    if !pairs().any(|(own, (_, field))| differs(own, field)) {
        return Ok(rest);
    }
    let columns = pairs().map(|(own, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match differs(own, field) {
            true => column.alias_with_metadata(field.name(), Some(FieldMetadata::from(own.as_ref()))),
            false => column,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    LogicalPlanBuilder::from(rest).project(columns)?.build()
}

/// The numerics to which the other term gives other digits than the first one.
fn longer_numbers(first: &DFSchema, rest: &DFSchema) -> Vec<usize> {
    let numeric = |field: &Field| match field_type(field) {
        Some(DataType::Numeric { precision, scale }) => Some((precision, scale)),
        _ => None,
    };
    let pairs = first.fields().iter().zip(rest.fields()).enumerate();
    let longer = pairs.filter(|(_, (own, other))| match (numeric(own), numeric(other)) {
        (Some(own), Some(other)) => own != other,
        _ => false,
    });
    longer.map(|(position, _)| position).collect()
}

/// The term where it reads rows of the recursion with these columns.
fn over(term: LogicalPlan, name: &str, columns: &DFSchema) -> Result<LogicalPlan> {
    let replaced = term.transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) if work_table(&scan).is_some_and(|found| found == name) => {
            Ok(Transformed::yes(scan_of(&scan, name, columns)?))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(replaced.data)
}

fn scan_of(scan: &TableScan, name: &str, columns: &DFSchema) -> Result<LogicalPlan> {
    let named = scan.source.schema();
    let fields = columns.fields().iter().zip(named.fields());
    let fields =
        fields.map(|(field, named)| field.as_ref().clone().with_name(named.name()).with_nullable(true));
    let fields = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let source = provider_as_source(Arc::new(CteWorkTable::new(name, fields)));
    LogicalPlanBuilder::scan(scan.table_name.clone(), source, scan.projection.clone())?.build()
}

/// The name of the recursion whose rows are read.
pub(super) fn work_table(scan: &TableScan) -> Option<String> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(provider.downcast_ref::<CteWorkTable>()?.name().to_owned())
}

/// # Errors
/// 42804 where the other term makes a column wider than the first one has it.
fn check(name: &str, first: &DFSchema, common: &DFSchema) -> Result<()> {
    for (position, (own, common)) in first.fields().iter().zip(common.fields()).enumerate() {
        let (Some(own), Some(common)) = (field_type(own), field_type(common)) else { continue };
        if type_name(own) == type_name(common) || (own.is_text() && common.is_text()) {
            continue;
        }
        let message = format!(
            "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
            position + 1,
            type_name(own),
            type_name(common),
        );
        let hint = "Cast the output of the non-recursive term to the correct type.";
        return Err(external(Error::new(SqlState::DatatypeMismatch, message).with_hint(hint)));
    }
    Ok(())
}
