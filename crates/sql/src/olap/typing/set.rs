//! UNION, INTERSECT and EXCEPT: both sides have the same types, and ALL counts.
//!
//! DataFusion makes a join of INTERSECT and EXCEPT, in which a row of the left has a partner or not, however many rows of
//! the right it might be. With ALL each row on the right stands for one on the left, so equal rows are numbered on both
//! sides, and the number is a part of what must be equal:
//! ```text
//! left        a 1   a 2   a 3   b 1         EXCEPT ALL     a 3   b 1
//! right       a 1   a 2                     INTERSECT ALL  a 1   a 2
//! ```

use super::keyed;
use super::read::{OID, Reader, is_unknown};
use super::{Typing, refused};
use crate::expression::{Binder, Expression, Scope, Typed};
use crate::olap::arrow::wide_type;
use crate::olap::value::{field_type, list_type, told_type, with_type};
use ankerdb_engine::{DataType, SystemType, Value};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::{Column, DFSchemaRef, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Union,
};
use std::sync::Arc;

/// The column that numbers equal rows; no client can write it.
const NUMBER: &str = "\0number";

/// Whether the join is an INTERSECT or EXCEPT: nothing else that SQL can say matches NULL with NULL.
pub(super) fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
}

/// What values of these types are in one column: numbers of different scales keep theirs.
pub(super) fn of_own_scales(common: DataType, types: &[Option<DataType>]) -> DataType {
    let DataType::Numeric { scale: widest, .. } = common else { return common };
    let has_own = |data_type: &Option<DataType>| match data_type {
        Some(DataType::Numeric { scale, .. }) => *scale == widest,
        None => true,
        Some(_) => false,
    };
    if types.iter().all(has_own) { common } else { DataType::Number }
}

impl Typing<'_> {
    /// All inputs with the same types.
    pub(super) fn union(&mut self, union: Union) -> Result<LogicalPlan> {
        let inputs: Vec<LogicalPlan> = union.inputs.into_iter().map(Arc::unwrap_or_clone).collect();
        let inputs = self.with_common_types(inputs, "UNION")?.into_iter().map(Arc::new).collect();
        Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
    }

    /// An INTERSECT or EXCEPT, whose inputs are done.
    pub(super) fn set_operation(&mut self, join: Join) -> Result<LogicalPlan> {
        let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let (left, is_all) = match left {
            LogicalPlan::Distinct(Distinct::All(input)) => (Arc::unwrap_or_clone(input), false),
            other => (other, true),
        };
        let what = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
        let mut sides = self.with_common_types(vec![left, right], what)?.into_iter();
        let (Some(left), Some(right)) = (sides.next(), sides.next()) else {
            return datafusion::common::internal_err!("{what} lacks a side");
        };
        let columns = columns(&left);
        let (left, right) = match is_all {
            true => (numbered(left)?, numbered(right)?),
            false => (keyed::grouped(LogicalPlanBuilder::from(left).distinct()?.build()?)?, right),
        };
        let keys = (self::columns(&left).into_iter().map(column).collect(), self::columns(&right));
        let keys: (Vec<Column>, Vec<Column>) = (keys.0, keys.1.into_iter().map(column).collect());
        let joined = LogicalPlanBuilder::from(left).join_detailed(
            right,
            join.join_type,
            keys,
            None,
            NullEquality::NullEqualsNull,
        )?;
        let joined = match joined.build()? {
            LogicalPlan::Join(join) => LogicalPlan::Join(keyed::joined(join)?),
            other => other,
        };
        match is_all {
            true => LogicalPlanBuilder::from(joined).project(columns)?.build(),
            false => Ok(joined),
        }
    }

    /// The inputs with equal types, column by column: constants without a type take that of the others.
    pub(super) fn with_common_types(
        &mut self,
        inputs: Vec<LogicalPlan>,
        what: &str,
    ) -> Result<Vec<LogicalPlan>> {
        let width = inputs.first().map_or(0, |input| input.schema().fields().len());
        if inputs.iter().any(|input| input.schema().fields().len() != width) {
            return Ok(inputs);
        }
        let mut projected: Vec<Vec<Expr>> = vec![Vec::with_capacity(width); inputs.len()];
        for position in 0..width {
            let merged = self.merged_column(&inputs, position, what)?;
            projected.iter_mut().zip(merged).for_each(|(columns, column)| columns.push(column));
        }
        let project = |(input, columns): (LogicalPlan, Vec<Expr>)| match columns
            .iter()
            .all(|column| matches!(column, Expr::Column(_)))
        {
            true => Ok(input),
            false => LogicalPlanBuilder::from(input).project(columns)?.build(),
        };
        inputs.into_iter().zip(projected).map(project).collect()
    }

    /// What each input gives for the column at this position.
    fn merged_column(&mut self, inputs: &[LogicalPlan], position: usize, what: &str) -> Result<Vec<Expr>> {
        let schemas: Vec<DFSchemaRef> = inputs.iter().map(|input| input.schema().clone()).collect();
        let columns: Vec<Expr> = schemas
            .iter()
            .map(|schema| Expr::Column(Column::from(schema.qualified_field(position))))
            .collect();
        let constants: Vec<Option<Expr>> = inputs.iter().map(|input| constant(input, position)).collect();
        let mut items = Vec::with_capacity(inputs.len());
        for (schema, constant) in schemas.iter().zip(&constants) {
            let data_type = match (constant, type_of(schema.field(position))) {
                (Some(_), _) => None,
                (None, Some(known)) => Some(known),
                // Something that SQL here has no type for: DataFusion's rules.
                (None, None) => return Ok(columns),
            };
            let expression = match constant {
                // As it is written: beside numerics its digits count.
                Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) => {
                    Expression::Literal(Value::text(text.as_str()))
                }
                _ => Expression::Column(0),
            };
            items.push(Typed { expression, data_type });
        }
        if items.windows(2).all(|pair| pair[0].data_type == pair[1].data_type && pair[0].data_type.is_some())
        {
            return Ok(columns);
        }
        let types: Vec<Option<DataType>> = items.iter().map(|item| item.data_type).collect();
        let (_, common) =
            Binder::new(Scope::default(), self.parameters).merge(items, what).map_err(refused)?;
        let common = match of_own_scales(common, &types) {
            DataType::Varchar(_) if types.contains(&None) => DataType::ANY_VARCHAR,
            DataType::Char(length) if constants.iter().flatten().any(|text| is_longer(text, length)) => {
                DataType::ANY_CHAR
            }
            other => other,
        };
        // A constant has no blanks of its own, unless other rows of its column show theirs.
        let of_constants = match common {
            DataType::Char(_) if what != "UNION" => DataType::ANY_CHAR,
            other => other,
        };
        let sides = columns.into_iter().zip(constants).zip(&schemas);
        sides
            .map(|((column, constant), schema)| {
                let target = if constant.is_some() { of_constants } else { common };
                self.converted(column, constant, schema, position, target)
            })
            .collect()
    }

    fn converted(
        &mut self,
        column: Expr,
        constant: Option<Expr>,
        schema: &DFSchemaRef,
        position: usize,
        target: DataType,
    ) -> Result<Expr> {
        let mut reader = Reader::new(self, schema);
        let operand = reader.read(constant.as_ref().unwrap_or(&column))?;
        let mut expression = reader.emit_as(operand, target)?;
        // What is a number for all who look at it afterwards must not be told for one side alone; and constants in quotes
        // would be texts.
        let is_told = target == OID || matches!(target, DataType::Char(_) | DataType::Varchar(_));
        if is_told && field_type(&expression.to_field(schema.as_ref())?.1) != Some(target) {
            let told = with_type(Field::new("", wide_type(target), true), target);
            expression = Expr::Cast(Cast::new_from_field(Box::new(expression), Arc::new(told)));
        }
        let (qualifier, field) = schema.qualified_field(position);
        Ok(match &expression {
            Expr::Column(_) => expression,
            _ => expression.alias_qualified(qualifier.cloned(), field.name().clone()),
        })
    }
}

/// The type of a column, which may be an array.
fn type_of(field: &Field) -> Option<DataType> {
    match field.data_type() {
        ArrowType::List(items) => list_type(items.data_type(), told_type(field))
            .map(|list| DataType::System(SystemType::List(list.unlimited()))),
        _ => field_type(field),
    }
}

/// Whether a constant without a type is a text of more letters than a char has, blanks at its end apart.
fn is_longer(constant: &Expr, length: u32) -> bool {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = constant else { return false };
    text.trim_end_matches(' ').chars().count() > length as usize
}

fn is_untyped_parameter(expression: &Expr) -> bool {
    match expression {
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().is_none_or(|field| *field.data_type() == ArrowType::Null)
        }
        _ => false,
    }
}

fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().iter().map(|field| Expr::Column(Column::from(field))).collect()
}

fn column(expression: Expr) -> Column {
    match expression {
        Expr::Column(column) => column,
        other => Column::from_name(other.schema_name().to_string()),
    }
}

/// The rows, those that are equal numbered from 1.
fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let parts = columns(&plan).into_iter().map(|column| keyed::ordered(column, plan.schema()));
    let number = row_number().partition_by(parts.collect::<Result<_>>()?).build()?.alias(NUMBER);
    LogicalPlanBuilder::from(plan).window([number])?.build()
}

/// The constant without a type that a plan gives for a column.
fn constant(plan: &LogicalPlan, position: usize) -> Option<Expr> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => constant(&alias.input, position),
        LogicalPlan::Distinct(Distinct::All(input)) => constant(input, position),
        LogicalPlan::Projection(projection) => {
            let mut expression = &projection.expr[position];
            while let Expr::Alias(alias) = expression {
                expression = &alias.expr;
            }
            (is_unknown(expression) || is_untyped_parameter(expression)).then(|| expression.clone())
        }
        _ => None,
    }
}
