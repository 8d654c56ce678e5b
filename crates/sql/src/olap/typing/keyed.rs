//! Values that DataFusion would compare by their bytes although SQL compares them otherwise.
//!
//! An interval of one month equals one of thirty days, and a `jsonb` or numeric of 1.0 one of 1.00, but Arrow tells them apart. So
//! wherever a plan compares, sorts, groups or joins by such values, it does so by a *key* that has their order, and keeps the values beside it:
//! ```text
//! GROUP BY i          group by key(i), with first_value(i) as i
//! DISTINCT i, b       the same, of all columns
//! ORDER BY i          key(i)
//! a JOIN b USING (i)  key(a.i) = key(b.i)
//! i IN (SELECT ...)   key(i) in the keys of its rows
//! ```

use super::super::computed;
use super::super::operation::Operation;
use super::super::value::field_type;
use crate::expression::library::{BYTES_KEY, Builtin, JSONB_KEY, NUMBER_KEY, row_key_call, row_type};
use crate::expression::{Function, Temporal, document};
use crate::olap::error::external;
use crate::olap::list_order;
use ankerdb_engine::{DataType, PackedType};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{GroupingSet, Sort};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, lit, when,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The name of a column with the key of a group; no client can write it.
const KEY: &str = "\0key";

/// The key of a value that has one; other values are compared as they are.
pub(super) fn ordered(expression: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let (_, field) = expression.to_field(schema.as_ref())?;
    if field_type(&field) == Some(DataType::Json) {
        return Err(external(document::unordered("an ordering operator")));
    }
    Ok(match is_keyed(&field) {
        true => key(expression, &field),
        false => expression,
    })
}

/// What a window is ordered by: DataFusion frames none by bytes, so they are texts there.
pub(super) fn framed(expression: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let (_, field) = expression.to_field(schema.as_ref())?;
    Ok(match field_type(&field) {
        Some(DataType::Uuid | DataType::Bytea | DataType::Packed(_)) => {
            let text = Function::Library(Builtin::only(BYTES_KEY), DataType::Text);
            computed::call(Operation::Call(text), vec![expression], DataType::Text)
        }
        _ => expression,
    })
}

/// Two operands of which one is a `char` and the other a `varchar`: both are chars, blanks at the end of the other cut off.
fn chars_alike(
    (left, left_schema): (Expr, &DFSchemaRef),
    (right, right_schema): (Expr, &DFSchemaRef),
) -> Result<(Expr, Expr)> {
    let known = |operand: &Expr, schema: &DFSchemaRef| {
        Ok::<_, DataFusionError>(field_type(&operand.to_field(schema.as_ref())?.1))
    };
    let as_char = |operand: Expr| {
        computed::call(Operation::Cast(DataType::ANY_CHAR), vec![operand], DataType::ANY_CHAR)
    };
    Ok(match (known(&left, left_schema)?, known(&right, right_schema)?) {
        (Some(DataType::Char(_)), Some(DataType::Varchar(_))) => (left, as_char(right)),
        (Some(DataType::Varchar(_)), Some(DataType::Char(_))) => (as_char(left), right),
        _ => (left, right),
    })
}

/// Two operands of which one is a `cidr` and the other an `inet`: both are such.
fn addresses_alike(
    (left, left_schema): (Expr, &DFSchemaRef),
    (right, right_schema): (Expr, &DFSchemaRef),
) -> Result<(Expr, Expr)> {
    const INET: DataType = DataType::Packed(PackedType::Inet);
    const CIDR: DataType = DataType::Packed(PackedType::Cidr);
    let known = |operand: &Expr, schema: &DFSchemaRef| {
        Ok::<_, DataFusionError>(field_type(&operand.to_field(schema.as_ref())?.1))
    };
    let as_inet = |operand: Expr| computed::call(Operation::Cast(INET), vec![operand], INET);
    Ok(match (known(&left, left_schema)?, known(&right, right_schema)?) {
        (Some(INET), Some(CIDR)) => (left, as_inet(right)),
        (Some(CIDR), Some(INET)) => (as_inet(left), right),
        _ => (left, right),
    })
}

fn is_keyed(field: &Field) -> bool {
    let known = field_type(field);
    matches!(known, Some(DataType::Interval(_) | DataType::Jsonb | DataType::Number))
        || known.is_some_and(|known| row_type(known).is_some())
        || list_order::is_keyed(field.data_type())
}

fn key(expression: Expr, field: &Field) -> Expr {
    if list_order::is_keyed(field.data_type()) {
        return list_order::key(expression);
    }
    if let Some(row) = field_type(field).and_then(row_type) {
        let (function, number) = row_key_call(row);
        let number = Expr::Literal(ScalarValue::Int64(number.as_integer()), None);
        return computed::call(Operation::Call(function), vec![expression, number], DataType::Text);
    }
    let (function, key) = match field_type(field) {
        Some(DataType::Jsonb) => {
            (Function::Library(Builtin::only(JSONB_KEY), DataType::Text), DataType::Text)
        }
        Some(DataType::Number) => {
            (Function::Library(Builtin::only(NUMBER_KEY), DataType::Text), DataType::Text)
        }
        _ => {
            let span = DataType::Numeric { precision: 38, scale: 0 };
            (Function::Temporal(Temporal::Span, span), span)
        }
    };
    computed::call(Operation::Call(function), vec![expression], key)
}

/// 42883 if one of the values that are to be told apart is a `json`.
fn check_equality(field: &Field) -> Result<()> {
    match field_type(field) {
        Some(DataType::Json) => Err(external(document::unordered("an equality operator"))),
        _ => Ok(()),
    }
}

/// The sort keys by their keys.
pub(super) fn sorted(mut sorts: Vec<Sort>, schema: &DFSchemaRef) -> Result<Vec<Sort>> {
    for sort in &mut sorts {
        sort.expr = ordered(std::mem::take(&mut sort.expr), schema)?;
    }
    // What is equal by the last one comes in any order.
    if let Some((_, before)) = sorts.split_last_mut() {
        for sort in before {
            sort.expr = with_one_zero(std::mem::take(&mut sort.expr), schema)?;
        }
    }
    Ok(sorts)
}

/// A number in which zeros of both signs are one: they are equal, but not to the order in which Arrow puts them. Other values as they are.
pub(super) fn with_one_zero(expression: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let zero = match expression.get_type(schema.as_ref())? {
        ArrowType::Float64 => lit(0.0f64),
        ArrowType::Float32 => lit(0.0f32),
        _ => return Ok(expression),
    };
    Ok(binary_expr(expression, Operator::Plus, zero))
}

/// The columns that a join compares, by their keys.
pub(super) fn joined(mut join: Join) -> Result<Join> {
    let (left, right) = (join.left.schema().clone(), join.right.schema().clone());
    let pairs = std::mem::take(&mut join.on).into_iter();
    let ordered = |(one, other)| {
        let (one, other) = numbers_alike((one, &left), (other, &right))?;
        let (one, other) = addresses_alike((one, &left), (other, &right))?;
        Ok((self::ordered(one, &left)?, self::ordered(other, &right)?))
    };
    join.on = pairs.map(ordered).collect::<Result<_>>()?;
    Ok(join)
}

/// Two operands of which one is a numeric of any length: both are, or both are doubles.
pub(super) fn numbers_alike(
    (left, left_schema): (Expr, &DFSchemaRef),
    (right, right_schema): (Expr, &DFSchemaRef),
) -> Result<(Expr, Expr)> {
    let known = |operand: &Expr, schema: &DFSchemaRef| {
        Ok::<_, DataFusionError>(field_type(&operand.to_field(schema.as_ref())?.1))
    };
    let (left_type, right_type) = (known(&left, left_schema)?, known(&right, right_schema)?);
    Ok(match (left_type, right_type) {
        (Some(DataType::Number), Some(other)) if other != DataType::Number && other.is_exact() => {
            (left, as_number(right))
        }
        (Some(other), Some(DataType::Number)) if other != DataType::Number && other.is_exact() => {
            (as_number(left), right)
        }
        (Some(DataType::Number), Some(DataType::Real | DataType::DoublePrecision)) => {
            (as_double(left, left_schema)?, right)
        }
        (Some(DataType::Real | DataType::DoublePrecision), Some(DataType::Number)) => {
            (left, as_double(right, right_schema)?)
        }
        _ => (left, right),
    })
}

/// An operand and a subquery in which it is looked for, of which one has numerics of any length, addresses and not networks, or
/// chars and not varchars: both do.
pub(super) fn beside_numbers(
    operand: Expr,
    subquery: Subquery,
    schema: &DFSchemaRef,
) -> Result<(Expr, Subquery)> {
    let plan = subquery.subquery.as_ref();
    if plan.schema().fields().len() != 1 {
        return Ok((operand, subquery));
    }
    let (qualifier, field) = plan.schema().qualified_field(0);
    let column = Expr::Column(Column::from((qualifier, field)));
    let (operand, item) = numbers_alike((operand, schema), (column.clone(), plan.schema()))?;
    let (operand, item) = addresses_alike((operand, schema), (item, plan.schema()))?;
    let (operand, item) = chars_alike((operand, schema), (item, plan.schema()))?;
    if item == column {
        return Ok((operand, subquery));
    }
    let item = item.alias(field.name().clone());
    let numbers = LogicalPlanBuilder::from(plan.clone()).project([item])?.build()?;
    Ok((operand, subquery.with_plan(Arc::new(numbers))))
}

/// A numeric of any length as a double; other values as they are.
pub(super) fn as_double(operand: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let (_, field) = operand.to_field(schema.as_ref())?;
    let target = DataType::DoublePrecision;
    Ok(match field_type(&field) {
        Some(DataType::Number) => computed::call(Operation::Cast(target), vec![operand], target),
        _ => operand,
    })
}

/// An exact number as a numeric of any length.
pub(super) fn as_number(operand: Expr) -> Expr {
    computed::call(Operation::Cast(DataType::Number), vec![operand], DataType::Number)
}

/// A subquery in which values are looked for, by their keys.
pub(super) fn looked_for(subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery.as_ref();
    let (qualifier, field) = plan.schema().qualified_field(0);
    check_equality(field)?;
    if plan.schema().fields().len() != 1 || !is_keyed(field) {
        return Ok(subquery);
    }
    let column = key(Expr::Column(Column::from((qualifier, field))), field).alias(KEY);
    let keys = LogicalPlanBuilder::from(plan.clone()).project([column])?.build()?;
    Ok(subquery.with_plan(Arc::new(keys)))
}

/// A plan whose groups come once each, as columns of what it gives do already: `GROUP BY 1, 2` may name one of them twice.
pub(super) fn grouped_once(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Aggregate(mut aggregate) => {
            let mut known = HashSet::new();
            aggregate.group_expr.retain(|group| known.insert(group.clone()));
            LogicalPlan::Aggregate(aggregate)
        }
        other => other,
    }
}

/// A plan that groups, by keys where its groups need them.
pub(super) fn grouped(plan: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::Distinct(Distinct::All(input)) = &plan {
        input.schema().fields().iter().try_for_each(|field| check_equality(field))?;
    }
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let determined = Determined::of(&aggregate);
            by_key(aggregate, &determined)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let columns = input.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
            let aggregate = Aggregate::try_new(Arc::clone(&input), columns, Vec::new())?;
            let determined = Determined { added: HashSet::new(), ..Determined::of(&aggregate) };
            match input.schema().fields().iter().any(|f| is_keyed(f)) || determined.is_found() {
                true => by_key(aggregate, &determined),
                false => Ok(LogicalPlan::Distinct(Distinct::All(input))),
            }
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = on.input.schema().clone();
            let keys = std::mem::take(&mut on.on_expr).into_iter();
            let key = |key: Expr| with_one_zero(ordered(key, &schema)?, &schema);
            on.on_expr = keys.map(key).collect::<Result<_>>()?;
            for sort in on.sort_expr.iter_mut().flatten() {
                sort.expr = key(std::mem::take(&mut sort.expr))?;
            }
            Ok(LogicalPlan::Distinct(Distinct::On(on)))
        }
        other => Ok(other),
    }
}

/// Grouping sets of values that have keys: a set that leaves a column out has NULL for its key, and so for the column.
fn sets_by_key(aggregate: Aggregate, set: &GroupingSet) -> Result<LogicalPlan> {
    let schema = aggregate.input.schema().clone();
    let keyed = |part: &Expr| -> Result<Option<Expr>> {
        let (_, field) = part.to_field(schema.as_ref())?;
        check_equality(&field)?;
        Ok(is_keyed(&field).then(|| key(part.clone().unalias(), &field)))
    };
    let parts: Vec<Expr> = set.distinct_expr().into_iter().cloned().collect();
    let keys = parts.iter().map(&keyed).collect::<Result<Vec<_>>>()?;
    if keys.iter().all(Option::is_none) {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let each = |list: &Vec<Expr>| -> Result<Vec<Expr>> {
        list.iter().map(|part| Ok(keyed(part)?.unwrap_or_else(|| part.clone()))).collect()
    };
    let set = match set {
        GroupingSet::Rollup(list) => GroupingSet::Rollup(each(list)?),
        GroupingSet::Cube(list) => GroupingSet::Cube(each(list)?),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(each).collect::<Result<_>>()?)
        }
    };
    let value_name = |position: usize| format!("{KEY} value{position}");
    let mut aggregates = aggregate.aggr_expr.clone();
    for call in &mut aggregates {
        // It names what is grouped by.
        if let Expr::AggregateFunction(call) = call
            && call.func.name() == "grouping"
        {
            call.params.args = each(&call.params.args)?;
        }
    }
    for (position, part) in parts.iter().enumerate().filter(|(position, _)| keys[*position].is_some()) {
        aggregates.push(first_value(part.clone().unalias(), Vec::new()).alias(value_name(position)));
    }
    let groups = vec![Expr::GroupingSet(set)];
    let grouped = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregates)?;
    let mut output = Vec::new();
    for position in 0..aggregate.schema.fields().len() {
        let (qualifier, field) = aggregate.schema.qualified_field(position);
        if field.name() == Aggregate::INTERNAL_GROUPING_ID {
            // The call of `grouping` is computed of it below this.
            continue;
        }
        let own = Expr::Column(Column::from(grouped.schema.qualified_field(position)));
        output.push(match keys.get(position) {
            Some(Some(_)) => {
                let value = Expr::Column(Column::from_name(value_name(position)));
                let value = when(own.is_not_null(), value).end()?;
                value.alias_qualified(qualifier.cloned(), field.name().clone())
            }
            Some(None) => own,
            None => own.alias_qualified(qualifier.cloned(), field.name().clone()),
        });
    }
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(output)?.build()
}

/// The places of the groups among the columns of the input, where they are such.
fn places(aggregate: &Aggregate) -> Vec<Option<usize>> {
    let place = |group: &Expr| match group {
        Expr::Column(column) => aggregate.input.schema().maybe_index_of_column(column),
        _ => None,
    };
    aggregate.group_expr.iter().map(place).collect()
}

/// Positions among groups that hold a primary key which determines some of them, but not all: `GROUP BY a.id, b.x`. DataFusion takes such a
/// key to determine all that the aggregate gives, and leaves `b.x` out of the ORDER BY and the groups of queries around it. It goes by
/// names, so the key gets another one here.
#[derive(Default)]
struct Determined {
    /// Those of the key.
    keys: HashSet<usize>,
    /// Those that the planner has added to the groups, since the key determines them: the last ones, as they are in their table.
    added: HashSet<usize>,
}

impl Determined {
    fn of(aggregate: &Aggregate) -> Determined {
        let places = places(aggregate);
        let mut found = Determined::default();
        let mut targets = HashSet::new();
        for dependence in aggregate.input.schema().functional_dependencies().iter() {
            let is_target =
                |place: &Option<usize>| place.is_some_and(|at| dependence.target_indices.contains(&at));
            let is_source =
                |place: &Option<usize>| place.is_some_and(|at| dependence.source_indices.contains(&at));
            if dependence.source_indices.iter().all(|source| places.contains(&Some(*source)))
                && !places.iter().all(is_target)
            {
                for (position, place) in places.iter().enumerate() {
                    if is_source(place) {
                        found.keys.insert(position);
                    } else if is_target(place) {
                        targets.insert(position);
                    }
                }
            }
        }
        for position in (0..places.len()).rev() {
            let is_before = found.added.is_empty() || places[position] < places[position + 1];
            if !targets.contains(&position) || found.keys.contains(&position) || !is_before {
                break;
            }
            found.added.insert(position);
        }
        found
    }

    fn is_found(&self) -> bool {
        !self.keys.is_empty()
    }
}

/// The positions of documents among the groups that others of them determine: columns of a table whose primary key is there, which the
/// planner has added. They cannot be compared, and need not be.
fn dependent_documents(aggregate: &Aggregate) -> Result<HashSet<usize>> {
    let schema = aggregate.input.schema();
    let places = places(aggregate);
    let determined = |place: usize| {
        schema.functional_dependencies().iter().any(|dependence| {
            dependence.target_indices.contains(&place)
                && !dependence.source_indices.contains(&place)
                && dependence.source_indices.iter().all(|source| places.contains(&Some(*source)))
        })
    };
    let is_document = |place: usize| field_type(schema.field(place)) == Some(DataType::Json);
    let found = places.iter().enumerate().filter_map(|(position, place)| Some((position, (*place)?)));
    Ok(found
        .filter(|(_, place)| is_document(*place) && determined(*place))
        .map(|(position, _)| position)
        .collect())
}

fn by_key(aggregate: Aggregate, determined: &Determined) -> Result<LogicalPlan> {
    if let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() {
        let set = set.clone();
        return sets_by_key(aggregate, &set);
    }
    let schema = aggregate.input.schema().clone();
    let mut is_found = determined.is_found();
    let mut dependent = dependent_documents(&aggregate)?;
    dependent.extend(&determined.added);
    for (position, group) in aggregate.group_expr.iter().enumerate() {
        let (_, field) = group.to_field(schema.as_ref())?;
        if dependent.contains(&position) {
            is_found = true;
            continue;
        }
        check_equality(&field)?;
        is_found |= is_keyed(&field);
    }
    if !is_found {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let (mut groups, mut aggregates, mut output) = (Vec::new(), aggregate.aggr_expr.clone(), Vec::new());
    let mut values = Vec::new();
    for (position, group) in aggregate.group_expr.iter().enumerate() {
        let (qualifier, field) = aggregate.schema.qualified_field(position);
        let (qualifier, name) = (qualifier.cloned(), field.name().clone());
        let (_, group_field) = group.to_field(schema.as_ref())?;
        if dependent.contains(&position) {
            let value_name = format!("{KEY} value{position}");
            values.push(first_value(group.clone().unalias(), Vec::new()).alias(value_name.clone()));
            output.push(Expr::Column(Column::from_name(value_name)).alias_qualified(qualifier, name));
        } else if is_keyed(&group_field) {
            let (key_name, value_name) = (format!("{KEY}{position}"), format!("{KEY} value{position}"));
            groups.push(key(group.clone().unalias(), &group_field).alias(key_name));
            values.push(first_value(group.clone().unalias(), Vec::new()).alias(value_name.clone()));
            output.push(Expr::Column(Column::from_name(value_name)).alias_qualified(qualifier, name));
        } else if determined.keys.contains(&position) {
            let key_name = format!("{KEY}{position}");
            groups.push(group.clone().unalias().alias(key_name.clone()));
            output.push(Expr::Column(Column::from_name(key_name)).alias_qualified(qualifier, name));
        } else {
            groups.push(group.clone());
            output.push(Expr::Column(Column::new(qualifier, name)));
        }
    }
    for position in aggregate.group_expr.len()..aggregate.schema.fields().len() {
        output.push(Expr::Column(Column::from(aggregate.schema.qualified_field(position))));
    }
    aggregates.extend(values);
    let grouped =
        LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregates)?);
    LogicalPlanBuilder::from(grouped).project(output)?.build()
}
