//! PostgreSQL's types in a plan that DataFusion has built.
//!
//! DataFusion's planner resolves names; what types constants, parameters and operators have is decided here, by the rules
//! that bind expressions on the OLTP path (`expression/bind.rs`, `operator.rs`, `function.rs`): one set of rules, two ways to
//! run. For each expression of each node, from the leaves of the plan up:
//! ```text
//! DataFusion's expression -- read.rs --> bound expression, typed -- emit.rs --> DataFusion's expression
//! ```
//! Columns, aggregates, subqueries and functions that the OLTP path does not have are leaves between: *columns* of the bound
//! expression, put back when it is emitted. What is emitted leaves nothing to DataFusion's own coercion: operands have equal
//! types, constants have theirs, and operations that Arrow computes otherwise than PostgreSQL are calls of ours.
//!
//! Expressions with operands that SQL here has no type for, such as lists, are *foreign* and stay as they are.
//!
//! Types flow upward: a whole number is an integer and not a bigint, and so is the column of a subquery that has it. A
//! subquery within an expression sees the types of the queries around it.

mod aggregate;
mod call;
mod case;
mod constant;
mod emit;
mod frames;
mod guard;
mod keyed;
mod lists;
mod read;
mod recursive;
mod rows;
mod set;
mod shed;
mod taken;
mod window;

pub(super) use shed::without_text_types;

use super::arrow::wide_type;
use super::error::external;
use super::sets::SetRows;
use super::sorted_within;
use crate::expression::{Parameters, Refusal, fold};
use ankerdb_engine::{DataType, Error};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Projection, ScalarUDF, Subquery,
    Values, cast,
};
use read::Reader;
use std::sync::Arc;

/// The plan with the types that PostgreSQL gives it; `functions` finds DataFusion's function of a name.
pub(super) fn typed(
    plan: LogicalPlan,
    parameters: &mut Parameters,
    functions: &dyn Fn(&str) -> Option<Arc<ScalarUDF>>,
) -> Result<LogicalPlan> {
    Typing { parameters, functions, outer: Vec::new(), mistake: None }.query(plan)
}

struct Typing<'a> {
    parameters: &'a mut Parameters,
    functions: &'a dyn Fn(&str) -> Option<Arc<ScalarUDF>>,
    /// What the queries around this one have, from the outermost in.
    outer: Vec<DFSchemaRef>,
    /// That of a condition whose query's select list has not been looked at: PostgreSQL tells those of the select list first.
    mistake: Option<DataFusionError>,
}

impl Typing<'_> {
    /// A whole query.
    fn query(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let around = self.mistake.take();
        let typed = self.plan(plan);
        let mistake = std::mem::replace(&mut self.mistake, around);
        mistake.map_or(typed, Err)
    }

    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = match plan {
            LogicalPlan::RecursiveQuery(query) => return self.recursive(query),
            LogicalPlan::Join(join) => LogicalPlan::Join(self.sides(join)?),
            other => other.map_children(|input| Ok(Transformed::yes(self.plan(input)?)))?.data,
        };
        match plan {
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Join(join) if set::is_set_operation(&join) => self.set_operation(join),
            LogicalPlan::SubqueryAlias(mut alias) => {
                alias.input = Arc::new(without_unknowns(Arc::unwrap_or_clone(alias.input))?);
                self.node(LogicalPlan::SubqueryAlias(alias))
            }
            other => {
                let ends_query = matches!(other, LogicalPlan::Projection(_));
                let typed = self.node(other)?;
                match self.mistake.take_if(|_| ends_query) {
                    Some(mistake) => Err(mistake),
                    None => Ok(typed),
                }
            }
        }
    }

    /// The join over its inputs, of which the right one may mention columns of the left one (LATERAL).
    fn sides(&mut self, mut join: Join) -> Result<Join> {
        let is_set_operation = set::is_set_operation(&join);
        let side = |typing: &mut Self, plan| match is_set_operation {
            true => typing.operand(plan),
            false => typing.plan(plan),
        };
        join.left = Arc::new(side(self, Arc::unwrap_or_clone(join.left))?);
        self.outer.push(join.left.schema().clone());
        let right = side(self, Arc::unwrap_or_clone(join.right));
        self.outer.pop();
        join.right = Arc::new(right?);
        Ok(join)
    }

    /// A side of an INTERSECT or EXCEPT: what has no type yet takes that of the other side. The alias is DataFusion's.
    fn operand(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Distinct(Distinct::All(rows)) => {
                let rows = self.operand(Arc::unwrap_or_clone(rows))?;
                Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(rows))))
            }
            LogicalPlan::SubqueryAlias(mut alias) => {
                alias.input = Arc::new(self.plan(Arc::unwrap_or_clone(alias.input))?);
                self.node(LogicalPlan::SubqueryAlias(alias))
            }
            other => self.plan(other),
        }
    }

    /// A node whose inputs are done.
    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::new(merge_schema(&plan.inputs()));
        match plan {
            LogicalPlan::Filter(mut filter) => {
                match self.condition(&filter.predicate, &schema, "WHERE") {
                    Ok(predicate) => filter.predicate = predicate,
                    Err(mistake) => drop(self.mistake.get_or_insert(mistake)),
                }
                LogicalPlan::Filter(filter).recompute_schema()
            }
            LogicalPlan::Join(mut join) => {
                if let Some(filter) = join.filter.take() {
                    join.filter = Some(self.condition(&filter, &schema, "JOIN/ON")?);
                }
                LogicalPlan::Join(keyed::joined(join)?).recompute_schema()
            }
            LogicalPlan::Extension(_) if let Some(rows) = SetRows::of(&plan) => self.rows(rows, &schema),
            LogicalPlan::Limit(mut limit) => {
                for count in [&mut limit.skip, &mut limit.fetch].into_iter().flatten() {
                    let typed = self.count(count, &schema)?;
                    **count = typed;
                }
                Ok(LogicalPlan::Limit(limit))
            }
            other => {
                let other = keyed::grouped_once(other);
                let names = NamePreserver::new(&other);
                let other = other.map_expressions(|expression| {
                    Ok(Transformed::yes(self.named(expression, &names, &schema)?))
                })?;
                match other.data.recompute_schema()? {
                    LogicalPlan::Sort(mut sort) => {
                        sort.expr = keyed::sorted(sort.expr, &schema)?;
                        Ok(LogicalPlan::Sort(sort))
                    }
                    other => keyed::grouped(sorted_within::apart(other)?),
                }
            }
        }
    }

    /// The expression typed, under the name that it had.
    fn named(&mut self, expression: Expr, names: &NamePreserver, schema: &DFSchemaRef) -> Result<Expr> {
        let mut each = |list: Vec<Expr>| -> Result<Vec<Expr>> {
            list.into_iter().map(|part| self.named(part, names, schema)).collect()
        };
        Ok(match expression {
            Expr::GroupingSet(GroupingSet::Rollup(list)) => {
                Expr::GroupingSet(GroupingSet::Rollup(each(list)?))
            }
            Expr::GroupingSet(GroupingSet::Cube(list)) => Expr::GroupingSet(GroupingSet::Cube(each(list)?)),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                let sets = sets.into_iter().map(each).collect::<Result<_>>()?;
                Expr::GroupingSet(GroupingSet::GroupingSets(sets))
            }
            column @ Expr::Column(_) => column,
            other => {
                let name = names.save(&other);
                name.restore(self.value(&other, schema)?)
            }
        })
    }

    fn value(&mut self, expression: &Expr, schema: &DFSchemaRef) -> Result<Expr> {
        Reader::new(self, schema).group_call(expression)
    }

    fn condition(&mut self, expression: &Expr, schema: &DFSchemaRef, clause: &str) -> Result<Expr> {
        let mut reader = Reader::new(self, schema);
        let condition = fold(reader.condition(expression, clause)?).map_err(external)?;
        reader.emitter().emit_condition(condition)
    }

    /// A number of rows.
    fn count(&mut self, expression: &Expr, schema: &DFSchemaRef) -> Result<Expr> {
        if matches!(expression, Expr::Literal(ScalarValue::Null, _)) {
            return Ok(expression.clone());
        }
        let mut reader = Reader::new(self, schema);
        let operand = reader.read(expression)?;
        reader.emit_as(operand, DataType::BigInt)
    }

    /// A subquery that is a value, or one of which values are looked for: what has no type yet is a text in it.
    fn value_subquery(&mut self, subquery: &Subquery, schema: &DFSchemaRef) -> Result<Subquery> {
        let typed = self.subquery(subquery, schema)?;
        let plan = without_unknowns(typed.subquery.as_ref().clone())?;
        Ok(typed.with_plan(Arc::new(plan)))
    }

    /// A subquery of an expression over `schema`.
    fn subquery(&mut self, subquery: &Subquery, schema: &DFSchemaRef) -> Result<Subquery> {
        self.outer.push(schema.clone());
        let plan = self.query(subquery.subquery.as_ref().clone());
        self.outer.pop();
        let mut typed = subquery.with_plan(Arc::new(plan?));
        for column in &mut typed.outer_ref_columns {
            if let Expr::OuterReferenceColumn(field, column) = column
                && let Ok((_, found)) = schema.qualified_field_from_column(column)
            {
                *field = found.clone();
            }
        }
        Ok(typed)
    }

    /// Rows of constants: each column has one type.
    fn values(&mut self, values: Values) -> Result<LogicalPlan> {
        let schema: DFSchemaRef = Arc::new(DFSchema::empty());
        let width = values.schema.fields().len();
        let mut rows: Vec<Vec<Expr>> = values.values.iter().map(|_| Vec::with_capacity(width)).collect();
        for position in 0..width {
            let mut reader = Reader::new(self, &schema);
            let operands = values.values.iter().map(|row| match &row[position] {
                // DataFusion has given it the type of the cells beside it, as it sees them.
                Expr::Literal(value, _) if value.is_null() => {
                    reader.read(&Expr::Literal(ScalarValue::Null, None))
                }
                cell => reader.read(cell),
            });
            let operands = operands.collect::<Result<_>>()?;
            for (row, expression) in rows.iter_mut().zip(reader.emit_merged(operands, "VALUES")?) {
                row.push(expression);
            }
        }
        told_alike(&mut rows, width)?;
        LogicalPlanBuilder::values(rows)?.build()
    }
}

/// Lets the cells of each column tell the same type, as DataFusion wants it: that which all of them tell but NULLs, or none.
fn told_alike(rows: &mut [Vec<Expr>], width: usize) -> Result<()> {
    let schema = DFSchema::empty();
    let is_null = |cell: &Expr| matches!(cell, Expr::Literal(value, _) if value.is_null());
    for position in 0..width {
        let told = |row: &Vec<Expr>| row[position].metadata(&schema);
        let all = rows.iter().map(told).collect::<Result<Vec<_>>>()?;
        if all.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let known = rows.iter().zip(&all).filter(|(row, _)| !is_null(&row[position]));
        let mut known = known.map(|(_, told)| told);
        let first = known.next().unwrap_or(&all[0]);
        let common = if known.all(|other| other == first) { first.clone() } else { FieldMetadata::default() };
        for (row, told) in rows.iter_mut().zip(&all).filter(|(_, told)| **told != common) {
            let cell = std::mem::replace(&mut row[position], Expr::Literal(ScalarValue::Null, None));
            row[position] = match cell {
                Expr::Literal(value, _) => Expr::Literal(value, (!common.is_empty()).then(|| common.clone())),
                other if common.is_empty() && !told.is_empty() => coalesce(vec![other]),
                other => other,
            };
        }
    }
    Ok(())
}

/// The query with texts for columns that have no type.
fn without_unknowns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let known = |field: &Arc<Field>| match field.data_type() {
        ArrowType::Null => wide_type(DataType::Text),
        known => known.clone(),
    };
    let types: Vec<ArrowType> = plan.schema().fields().iter().map(known).collect();
    // Within the select list that the query has, since DataFusion's plans for subqueries find a column by its name in all of them.
    let LogicalPlan::Projection(projection) = plan else { return with_types(plan, &types) };
    if projection.schema.fields().iter().zip(&types).all(|(field, known)| field.data_type() == known) {
        return Ok(LogicalPlan::Projection(projection));
    }
    let columns = projection.expr.into_iter().zip(projection.schema.iter()).zip(types);
    let columns =
        columns.map(|((expression, (qualifier, field)), known)| match *field.data_type() == known {
            true => expression,
            false => cast(expression.unalias(), known).alias_qualified(qualifier.cloned(), field.name()),
        });
    Projection::try_new(columns.collect(), projection.input).map(LogicalPlan::Projection)
}

/// The plan with columns of these types.
fn with_types(plan: LogicalPlan, types: &[ArrowType]) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(types)
        .map(|((qualifier, field), wanted)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match field.data_type() == wanted {
                true => column,
                false => cast(column, wanted.clone()).alias(field.name().clone()),
            }
        })
        .collect();
    if columns.iter().all(|column| matches!(column, Expr::Column(_))) {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The error for something that has no other way to run.
fn refused(refusal: Refusal) -> DataFusionError {
    external(Refusal::into_error(refusal))
}

/// 42883
fn undefined_function(name: &str) -> Error {
    let message = format!("function {name} does not exist");
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    Error::new(ankerdb_engine::SqlState::UndefinedFunction, message).with_hint(hint)
}
