//! The order of inner joins (`docs/design/join-order.md`).
//!
//! DataFusion joins in the order in which FROM names the tables. This rule takes each tree of inner hash joins apart ([`flat`]), asks for
//! the cheapest tree by what is known of the inputs ([`search`]), and puts that in its place if it is much cheaper. Which side of
//! each join is built is chosen behind: by DataFusion's rule, and then, with the same estimates as the order, by [`BuildSides`].

mod flat;
mod search;
mod sides;

pub(super) use sides::BuildSides;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{collect_columns, conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use flat::{FlatJoins, JoinCondition, LOST, SharedKey, is_tree, lost, movable, renumbered};
use search::{Inputs, JoinGraph, JoinTree};
use sides::with_children;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Two joins at least: one has no order.
const INPUTS_MIN: usize = 3;
/// Where the largest input has fewer rows, any order will do.
const ROWS_MIN: f64 = 4096.0;
/// A tree takes the place of the one that is written if it costs less than this part: estimates are no better.
const WORTH: f64 = 0.8;

/// See the module.
#[derive(Debug)]
pub(super) struct JoinOrder {
    /// For tests: however few rows there are, and however little there is to gain.
    pub(super) is_eager: bool,
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match config.optimizer.join_reordering {
            true => self.ordered(plan, false),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl JoinOrder {
    /// The plan with all its trees of joins ordered; `is_inside` where the operator is a part of a tree itself.
    fn ordered(&self, node: Arc<dyn ExecutionPlan>, is_inside: bool) -> Result<Arc<dyn ExecutionPlan>> {
        let is_join = movable(&node).is_some();
        let holds_part = is_join || is_inside && is_tree(&node);
        let children: Vec<_> = node.children().into_iter().cloned().collect();
        let children =
            children.into_iter().map(|child| self.ordered(child, holds_part)).collect::<Result<_>>()?;
        let node = with_children(node, children)?;
        match is_join && !is_inside {
            true => self.cheapest(&node).map(|found| found.unwrap_or(node)),
            false => Ok(node),
        }
    }

    /// The joins of a tree in an order that is much cheaper than that which is written, if there is one.
    fn cheapest(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some((flat, written, columns)) = FlatJoins::of(node)? else { return Ok(None) };
        if flat.inputs.len() < INPUTS_MIN {
            return Ok(None);
        }
        let graph = flat.graph()?;
        if !self.is_eager && graph.rows.iter().all(|&rows| rows < ROWS_MIN) {
            return Ok(None);
        }
        let Some(tree) = graph.cheapest() else { return Ok(None) };
        if !self.is_eager && !is_much_cheaper(&graph, &tree, &written) {
            return Ok(None);
        }
        let mode = movable(node).map_or(PartitionMode::Auto, |join| *join.partition_mode());
        let joined = JoinBuilder { flat: &flat, mode }.built(&tree, &columns.iter().copied().collect())?;
        joined.with_columns(&columns, &node.schema()).map(Some)
    }
}

/// Whether a tree costs so much less than the other that estimates are no matter: with filters, or without where these do not speak against it.
fn is_much_cheaper(graph: &JoinGraph, tree: &JoinTree, than: &JoinTree) -> bool {
    let (cost, before) = (graph.cost_with_filters(tree), graph.cost_with_filters(than));
    cost < before * WORTH || cost <= before && graph.cost(tree) < graph.cost(than) * WORTH
}

/// An operator, and the numbers of its columns.
struct Built {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
}

impl Built {
    /// The place of a column.
    fn place(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|&known| known == column)
    }

    /// The expression over this operator's columns.
    fn local(&self, expression: &PhysicalExprRef) -> Result<PhysicalExprRef> {
        let places: Vec<usize> = (0..=self.columns.iter().copied().max().unwrap_or_default())
            .map(|column| self.place(column).unwrap_or(LOST))
            .collect();
        renumbered(expression, &places)
    }

    /// These columns in this order, with the names that they had.
    fn with_columns(self, columns: &[usize], schema: &Schema) -> Result<Arc<dyn ExecutionPlan>> {
        let mut parts = Vec::with_capacity(columns.len());
        for (&column, field) in columns.iter().zip(schema.fields()) {
            let place = self.place(column).ok_or_else(lost)?;
            let name = self.plan.schema().field(place).name().clone();
            parts.push(ProjectionExpr {
                expr: Arc::new(Column::new(&name, place)),
                alias: field.name().clone(),
            });
        }
        Ok(Arc::new(ProjectionExec::try_new(parts, self.plan)?))
    }
}

/// Makes joins of a tree.
struct JoinBuilder<'a> {
    flat: &'a FlatJoins,
    /// How the joins were to run.
    mode: PartitionMode,
}

impl JoinBuilder<'_> {
    /// The joins of a tree, with the columns that are needed above.
    fn built(&self, tree: &JoinTree, needed: &BTreeSet<usize>) -> Result<Built> {
        let (left, right) = match tree {
            JoinTree::Input(input) => {
                let (plan, first) = (self.flat.inputs[*input].clone(), self.flat.first_columns[*input]);
                let columns = (first..first + plan.schema().fields().len()).collect();
                return Ok(Built { plan, columns });
            }
            JoinTree::Join(left, right) => (left, right),
        };
        let sides = (left.inputs(), right.inputs());
        let mut classes = BTreeSet::new();
        // One of a class is enough: on each side its columns are equal already.
        let is_new = |key: &&SharedKey| key.class.is_none_or(|class| classes.insert(class));
        let keys: Vec<&SharedKey> =
            self.flat.keys.iter().filter(|key| crossing(key, sides).is_some()).filter(is_new).collect();
        let both = sides.0 | sides.1;
        let is_first = |condition: &&JoinCondition| {
            let beyond = |side: Inputs| condition.inputs & !side != 0;
            !beyond(both) && beyond(sides.0) && beyond(sides.1)
        };
        let conditions: Vec<&JoinCondition> = self.flat.conditions.iter().filter(is_first).collect();

        let mut below = needed.clone();
        let expressions = keys.iter().flat_map(|key| [&key.sides.0, &key.sides.1]);
        for expression in expressions.chain(conditions.iter().map(|condition| &condition.expression)) {
            below.extend(collect_columns(expression).iter().map(Column::index));
        }
        let (left, right) = (self.built(left, &below)?, self.built(right, &below)?);
        let on = keys.into_iter().filter_map(|key| {
            let (ours, theirs) = crossing(key, sides)?;
            Some(left.local(ours).and_then(|ours| Ok((ours, right.local(theirs)?))))
        });
        let on = on.collect::<Result<Vec<_>>>()?;
        let filter = filter(&conditions, &left, &right)?;
        let all: Vec<usize> = left.columns.iter().chain(&right.columns).copied().collect();
        let kept: Vec<usize> = (0..all.len()).filter(|&place| needed.contains(&all[place])).collect();
        let columns = kept.iter().map(|&place| all[place]).collect();
        let join = HashJoinExec::try_new(
            left.plan,
            right.plan,
            on,
            filter,
            &JoinType::Inner,
            Some(kept),
            self.mode,
            NullEquality::NullEqualsNothing,
            false,
        )?;
        Ok(Built { plan: Arc::new(join), columns })
    }
}

/// The key's sides, that of the left inputs first, if one of its inputs is on each side.
fn crossing(key: &SharedKey, sides: (Inputs, Inputs)) -> Option<(&PhysicalExprRef, &PhysicalExprRef)> {
    let is_in = |inputs: Inputs, input: usize| inputs >> input & 1 != 0;
    let (one, other) = key.inputs;
    if is_in(sides.0, one) && is_in(sides.1, other) {
        Some((&key.sides.0, &key.sides.1))
    } else if is_in(sides.1, one) && is_in(sides.0, other) {
        Some((&key.sides.1, &key.sides.0))
    } else {
        None
    }
}

/// Conditions on rows of both sides.
fn filter(conditions: &[&JoinCondition], left: &Built, right: &Built) -> Result<Option<JoinFilter>> {
    if conditions.is_empty() {
        return Ok(None);
    }
    let condition = conjunction(conditions.iter().map(|condition| condition.expression.clone()));
    let looked: BTreeSet<usize> = collect_columns(&condition).iter().map(Column::index).collect();
    let mut numbers = vec![LOST; looked.last().map_or(0, |last| last + 1)];
    let (mut places, mut fields) = (Vec::new(), Vec::new());
    for column in looked {
        numbers[column] = places.len();
        let (side, built, place) = match (left.place(column), right.place(column)) {
            (Some(place), _) => (JoinSide::Left, left, place),
            (None, Some(place)) => (JoinSide::Right, right, place),
            (None, None) => return Err(lost()),
        };
        places.push(ColumnIndex { index: place, side });
        fields.push(built.plan.schema().field(place).clone());
    }
    let expression = renumbered(&condition, &numbers)?;
    Ok(Some(JoinFilter::new(expression, places, Arc::new(Schema::new(fields)))))
}
