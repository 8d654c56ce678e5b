//! A tree of inner joins, and of semi joins that are inner ones, as its inputs and what joins them.

use super::super::join_filters::{keys_max, source};
use super::super::scan::ScanExec;
use super::search::{EXHAUSTIVE_MAX, INPUTS_MAX, Inputs, JoinEdge, JoinGraph, JoinTree};
use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of a column that is not there.
pub(super) const LOST: usize = usize::MAX;
/// The number of the first column that is computed, until all inputs are known. Far above those of inputs.
const FIRST_COMPUTED: usize = 1 << 32;
/// Rows of an input of which nothing is known.
const ROWS_UNKNOWN: f64 = 1000.0;
/// Different values of something of which nothing is known.
const DISTINCT_UNKNOWN: f64 = 200.0;
/// The share of rows that pass a condition over several inputs.
const PASSING: f64 = 0.3;

/// The join, if others may change places with it: inner, or a semi join that is one, and only of what can be computed whenever.
pub(super) fn movable(node: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let join = node.downcast_ref::<HashJoinExec>()?;
    let is_plain = join.null_equality() == NullEquality::NullEqualsNothing && join.fetch().is_none();
    let is_pure = !join.on().iter().any(|(left, right)| is_volatile(left) || is_volatile(right))
        && !join.filter().is_some_and(|filter| is_volatile(filter.expression()));
    (is_plain && is_pure && is_inner(join)).then_some(join)
}

/// Whether a join gives a row for each pair: an inner join, and a semi join of which the side that is only looked for has no two rows with
/// the same keys.
fn is_inner(join: &HashJoinExec) -> bool {
    let columns = |side: JoinSide| {
        let key = |(left, right): &(PhysicalExprRef, PhysicalExprRef)| match side {
            JoinSide::Left => column_of(left),
            _ => column_of(right),
        };
        join.on().iter().map(key).collect::<Option<Vec<usize>>>()
    };
    match join.join_type() {
        JoinType::Inner => true,
        JoinType::LeftSemi => columns(JoinSide::Right).is_some_and(|keys| is_unique(join.right(), keys)),
        JoinType::RightSemi => columns(JoinSide::Left).is_some_and(|keys| is_unique(join.left(), keys)),
        _ => false,
    }
}

/// Whether no two rows have the same values of these columns.
fn is_unique(node: &Arc<dyn ExecutionPlan>, columns: Vec<usize>) -> bool {
    if let Some(scan) = node.downcast_ref::<ScanExec>() {
        return scan.is_unique(&columns);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        return groups.is_single() && (0..groups.expr().len()).all(|group| columns.contains(&group));
    }
    let input = match (node.downcast_ref::<FilterExec>(), choosing(node)) {
        (Some(filter), _) => filter.input(),
        (None, Some((projection, _))) => projection.input(),
        (None, None) => return false,
    };
    let below = columns.iter().map(|&column| Some(source(node, column)?.1)).collect::<Option<Vec<usize>>>();
    below.is_some_and(|columns| is_unique(input, columns))
}

fn column_of(expression: &PhysicalExprRef) -> Option<usize> {
    expression.downcast_ref::<Column>().map(Column::index)
}

/// A projection that only chooses columns, and the columns.
fn choosing(node: &Arc<dyn ExecutionPlan>) -> Option<(&ProjectionExec, Vec<usize>)> {
    let projection = node.downcast_ref::<ProjectionExec>()?;
    let chosen: Option<Vec<usize>> = projection.expr().iter().map(|part| column_of(&part.expr)).collect();
    Some((projection, chosen?))
}

/// A projection of a tree of joins that is a part of it: it chooses columns, and computes others, each of columns of one input, where it may
/// as well be computed.
pub(super) fn between(node: &Arc<dyn ExecutionPlan>) -> Option<&ProjectionExec> {
    let projection = node.downcast_ref::<ProjectionExec>().filter(|it| is_tree(it.input()))?;
    let is_fit = |expression: &PhysicalExprRef| {
        column_of(expression).is_some()
            || !is_volatile(expression) && leaf_of(projection.input(), expression).is_some()
    };
    projection.expr().iter().all(|part| is_fit(&part.expr)).then_some(projection)
}

/// The input of a tree that all columns of an expression come from; by address.
fn leaf_of(node: &Arc<dyn ExecutionPlan>, expression: &PhysicalExprRef) -> Option<*const ()> {
    let mut leaves =
        collect_columns(expression).into_iter().map(|column| leaf_of_column(node, column.index()));
    let first = leaves.next()??;
    leaves.all(|leaf| leaf == Some(first)).then_some(first)
}

fn leaf_of_column(node: &Arc<dyn ExecutionPlan>, column: usize) -> Option<*const ()> {
    if movable(node).is_some() {
        let (child, below) = source(node, column)?;
        return leaf_of_column(node.children().get(child)?, below);
    }
    match between(node) {
        Some(projection) => leaf_of(projection.input(), &projection.expr().get(column)?.expr),
        None => Some(Arc::as_ptr(node).cast()),
    }
}

/// A column that is computed of those of one input.
struct ComputedColumn {
    input: usize,
    /// Over the input's columns, as all are numbered.
    expression: PhysicalExprRef,
    name: String,
}

/// A key that two inputs have in common. Columns are numbered through all inputs.
pub(super) struct SharedKey {
    pub(super) inputs: (usize, usize),
    pub(super) sides: (PhysicalExprRef, PhysicalExprRef),
    /// The number of the class of columns that are equal, if both are columns, and there are others.
    pub(super) class: Option<usize>,
    /// Whether it is not written, but implied by others of its class.
    is_implied: bool,
}

/// A condition over several inputs.
pub(super) struct JoinCondition {
    pub(super) inputs: Inputs,
    pub(super) expression: PhysicalExprRef,
}

/// A tree of inner joins, taken apart.
#[derive(Default)]
pub(super) struct FlatJoins {
    pub(super) inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The number of each input's first column.
    pub(super) first_columns: Vec<usize>,
    pub(super) keys: Vec<SharedKey>,
    pub(super) conditions: Vec<JoinCondition>,
    columns: usize,
    /// Columns that joins ask for and no input has yet; numbered from [`FIRST_COMPUTED`] on.
    computed: Vec<ComputedColumn>,
}

impl FlatJoins {
    /// The joins below an operator, the tree that they make, and the numbers of its output columns. `None` where something does not
    /// fit.
    pub(super) fn of(root: &Arc<dyn ExecutionPlan>) -> Result<Option<(FlatJoins, JoinTree, Vec<usize>)>> {
        let mut flat = FlatJoins::default();
        let Some((tree, columns)) = flat.take(root)? else { return Ok(None) };
        let columns = flat.compute_below(columns)?;
        flat.imply();
        let is_fit = flat.inputs.len() <= INPUTS_MAX;
        Ok(is_fit.then_some((flat, tree, columns)))
    }

    fn take(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<(JoinTree, Vec<usize>)>> {
        if let Some(projection) = between(node) {
            let Some((tree, below)) = self.take(projection.input())? else { return Ok(None) };
            let columns: Option<Vec<usize>> =
                projection.expr().iter().map(|part| self.take_part(part, &below)).collect::<Result<_>>()?;
            return Ok(columns.map(|columns| (tree, columns)));
        }
        match movable(node) {
            Some(join) => self.take_join(join),
            None => Ok(Some(self.take_input(node))),
        }
    }

    /// The number of a part of a projection over columns with these numbers; `None` if it is not of one input.
    fn take_part(&mut self, part: &ProjectionExpr, below: &[usize]) -> Result<Option<usize>> {
        if let Some(column) = column_of(&part.expr) {
            return Ok(below.get(column).copied());
        }
        let expression = renumbered(&part.expr, below)?;
        let Some(input) = self.only_input(&expression) else { return Ok(None) };
        // What it is computed of may be computed, too.
        let expression = expression.transform_up(|part| {
            let computed = column_of(&part).and_then(|column| self.computed_at(column));
            Ok(computed.map_or(Transformed::no(part), |it| Transformed::yes(it.expression.clone())))
        })?;
        let expression = expression.data;
        let is_known =
            |it: &ComputedColumn| it.input == input && it.expression.as_ref() == expression.as_ref();
        let place = self.computed.iter().position(is_known).unwrap_or(self.computed.len());
        if place == self.computed.len() {
            self.computed.push(ComputedColumn { input, expression, name: part.alias.clone() });
        }
        Ok(Some(FIRST_COMPUTED + place))
    }

    fn computed_at(&self, column: usize) -> Option<&ComputedColumn> {
        self.computed.get(column.checked_sub(FIRST_COMPUTED)?)
    }

    /// Lets inputs compute what is computed of their columns; these numbers of columns, as they are numbered then.
    fn compute_below(&mut self, columns: Vec<usize>) -> Result<Vec<usize>> {
        if self.computed.is_empty() {
            return Ok(columns);
        }
        // By old number of inputs' columns, and by place of those that are computed.
        let (mut numbers, mut of_computed) = (Vec::new(), vec![LOST; self.computed.len()]);
        let mut next = 0;
        for input in 0..self.inputs.len() {
            let (schema, first) = (self.inputs[input].schema(), self.first_columns[input]);
            self.first_columns[input] = next;
            let width = schema.fields().len();
            numbers.extend(next..next + width);
            next += width;
            let own = |(at, field): (usize, &Arc<Field>)| ProjectionExpr {
                expr: Arc::new(Column::new(field.name(), at)),
                alias: field.name().clone(),
            };
            let mut parts: Vec<ProjectionExpr> = schema.fields().iter().enumerate().map(own).collect();
            for (place, computed) in self.computed.iter().enumerate().filter(|(_, it)| it.input == input) {
                let local = |column: usize| column.checked_sub(first);
                let expr = renumbered_by(&computed.expression, &local)?;
                parts.push(ProjectionExpr { expr, alias: computed.name.clone() });
                of_computed[place] = next;
                next += 1;
            }
            if parts.len() > width {
                self.inputs[input] = Arc::new(ProjectionExec::try_new(parts, self.inputs[input].clone())?);
            }
        }
        self.columns = next;
        self.computed.clear();
        let number = |column: usize| match column.checked_sub(FIRST_COMPUTED) {
            Some(place) => of_computed.get(place).copied(),
            None => numbers.get(column).copied(),
        };
        for key in &mut self.keys {
            key.sides = (renumbered_by(&key.sides.0, &number)?, renumbered_by(&key.sides.1, &number)?);
        }
        for condition in &mut self.conditions {
            condition.expression = renumbered_by(&condition.expression, &number)?;
        }
        columns.into_iter().map(|column| number(column).ok_or_else(lost)).collect()
    }

    fn take_input(&mut self, node: &Arc<dyn ExecutionPlan>) -> (JoinTree, Vec<usize>) {
        let first = self.columns;
        self.columns += node.schema().fields().len();
        self.inputs.push(node.clone());
        self.first_columns.push(first);
        (JoinTree::Input(self.inputs.len() - 1), (first..self.columns).collect())
    }

    fn take_join(&mut self, join: &HashJoinExec) -> Result<Option<(JoinTree, Vec<usize>)>> {
        let Some((left, left_columns)) = self.take(join.left())? else { return Ok(None) };
        let Some((right, right_columns)) = self.take(join.right())? else { return Ok(None) };
        if self.inputs.len() > INPUTS_MAX {
            return Ok(None);
        }
        for (ours, theirs) in join.on() {
            let sides = (renumbered(ours, &left_columns)?, renumbered(theirs, &right_columns)?);
            match (self.only_input(&sides.0), self.only_input(&sides.1)) {
                (Some(left), Some(right)) => {
                    let inputs = (left, right);
                    self.keys.push(SharedKey { inputs, sides, class: None, is_implied: false });
                }
                // Of several inputs: no key any more where these come together in another order.
                _ => {
                    let equal: PhysicalExprRef = Arc::new(BinaryExpr::new(sides.0, Operator::Eq, sides.1));
                    if !self.take_condition(equal) {
                        return Ok(None);
                    }
                }
            }
        }
        if let Some(filter) = join.filter() {
            let column = |at: &ColumnIndex| match at.side {
                JoinSide::Left => left_columns.get(at.index).copied(),
                JoinSide::Right => right_columns.get(at.index).copied(),
                JoinSide::None => None,
            };
            let columns: Option<Vec<usize>> = filter.column_indices().iter().map(column).collect();
            let Some(columns) = columns else { return Ok(None) };
            for term in split_conjunction(filter.expression()) {
                if !self.take_condition(renumbered(term, &columns)?) {
                    return Ok(None);
                }
            }
        }
        let all: Vec<usize> = match join.join_type() {
            JoinType::LeftSemi => left_columns,
            JoinType::RightSemi => right_columns,
            _ => left_columns.into_iter().chain(right_columns).collect(),
        };
        let columns = match &join.projection {
            Some(chosen) => chosen.iter().map(|&column| all[column]).collect(),
            None => all,
        };
        Ok(Some((JoinTree::join(left, right), columns)))
    }

    /// Whether it could take the condition, which has its place where the inputs that it looks at come together.
    fn take_condition(&mut self, expression: PhysicalExprRef) -> bool {
        let inputs = self.inputs_of(&expression);
        self.conditions.push(JoinCondition { inputs, expression });
        inputs.count_ones() > 1
    }

    /// Finds classes of columns that are equal, and adds the keys that are implied: where `a = b` and `b = c`, `a = c`. A class that has two
    /// columns of an input says more than which inputs are joined, and is left as it is written.
    fn imply(&mut self) {
        if self.inputs.len() > EXHAUSTIVE_MAX {
            return;
        }
        let mut classes: Vec<BTreeMap<usize, PhysicalExprRef>> = Vec::new();
        for (left, right) in self.keys.iter().map(|key| &key.sides) {
            let (Some(one), Some(other)) = (column_of(left), column_of(right)) else { continue };
            let is_met = |class: &BTreeMap<_, _>| class.contains_key(&one) || class.contains_key(&other);
            let (met, others): (Vec<_>, _) = classes.into_iter().partition(is_met);
            let mut class = BTreeMap::from([(one, left.clone()), (other, right.clone())]);
            class.extend(met.into_iter().flatten());
            classes = others;
            classes.push(class);
        }
        classes.retain(|class| class.len() > 2 && self.are_alike(class));
        for (number, class) in classes.iter().take(u64::BITS as usize).enumerate() {
            let columns: Vec<(&usize, &PhysicalExprRef)> = class.iter().collect();
            for (at, &(one, left)) in columns.iter().enumerate() {
                for &(other, right) in &columns[at + 1..] {
                    self.imply_key((*one, *other), (left.clone(), right.clone()), number);
                }
            }
        }
    }

    /// Whether they are columns of one type, each of another input.
    fn are_alike(&self, columns: &BTreeMap<usize, PhysicalExprRef>) -> bool {
        let inputs: Vec<usize> = columns.keys().map(|&column| self.input_of(column)).collect();
        let data_type = |(&column, &input): (&usize, &usize)| {
            let field = self.inputs[input].schema().field(column - self.first_columns[input]).clone();
            field.data_type().clone()
        };
        let mut types = columns.keys().zip(&inputs).map(data_type);
        let first = types.next();
        // Columns are in the order of inputs.
        inputs.is_sorted_by(|one, other| one < other) && types.all(|of| Some(of) == first)
    }

    /// These columns of a class are equal, by a key that is written or not.
    fn imply_key(
        &mut self,
        (one, other): (usize, usize),
        sides: (PhysicalExprRef, PhysicalExprRef),
        class: usize,
    ) {
        let are = |key: &SharedKey| {
            let columns = (column_of(&key.sides.0), column_of(&key.sides.1));
            columns == (Some(one), Some(other)) || columns == (Some(other), Some(one))
        };
        let mut written = self.keys.iter_mut().filter(|key| are(key)).peekable();
        if written.peek().is_none() {
            let inputs = (self.input_of(one), self.input_of(other));
            self.keys.push(SharedKey { inputs, sides, class: Some(class), is_implied: true });
            return;
        }
        written.for_each(|key| key.class = Some(class));
    }

    /// The input that a column belongs to.
    fn input_of(&self, column: usize) -> usize {
        if let Some(computed) = self.computed_at(column) {
            return computed.input;
        }
        self.first_columns.partition_point(|&first| first <= column) - 1
    }

    fn inputs_of(&self, expression: &PhysicalExprRef) -> Inputs {
        collect_columns(expression)
            .iter()
            .fold(0, |inputs, column| inputs | 1 << self.input_of(column.index()))
    }

    fn only_input(&self, expression: &PhysicalExprRef) -> Option<usize> {
        let inputs = self.inputs_of(expression);
        (inputs.count_ones() == 1).then(|| inputs.trailing_zeros() as usize)
    }

    /// What is known of it.
    pub(super) fn graph(&self) -> Result<JoinGraph> {
        let mut graph = JoinGraph::default();
        for input in &self.inputs {
            let known = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?;
            graph.rows.push(known.num_rows.get_value().map_or(ROWS_UNKNOWN, |&rows| rows as f64));
        }
        for key in &self.keys {
            let (left, right) = key.inputs;
            let pair = (left.min(right), left.max(right));
            let is_known = |edge: &JoinEdge| edge.inputs == pair && edge.is_implied == key.is_implied;
            if !graph.edges.iter().any(is_known) {
                graph.edges.push(self.edge(pair, key.is_implied));
            }
        }
        graph.edges.sort_by(|one, other| {
            let implied = one.is_implied.cmp(&other.is_implied);
            implied.then(other.share.total_cmp(&one.share))
        });
        graph.conditions = self.conditions.iter().map(|condition| (condition.inputs, PASSING)).collect();
        Ok(graph)
    }

    /// What is known of two inputs that are joined by keys that are written, or by those that are implied.
    ///
    /// The share of their pairs of rows that have all of these in common: by the values that there are, as if each of the
    /// side with fewer were on the other side, too. Where the keys of one side are unique, each row of the other has one partner.
    fn edge(&self, pair: (usize, usize), is_implied: bool) -> JoinEdge {
        let is_between = |key: &&SharedKey| key.inputs == pair || key.inputs == (pair.1, pair.0);
        let between: Vec<&SharedKey> =
            self.keys.iter().filter(is_between).filter(|key| key.is_implied == is_implied).collect();
        let classes =
            between.iter().filter_map(|key| key.class).fold(0, |classes, class| classes | 1 << class);
        let (mut first, mut second, mut distinct) = (Vec::new(), Vec::new(), 1.0);
        for key in &between {
            let (ours, theirs) =
                if key.inputs == pair { (&key.sides.0, &key.sides.1) } else { (&key.sides.1, &key.sides.0) };
            let (ours, theirs) = (self.origin(pair.0, ours), self.origin(pair.1, theirs));
            let known = |origin: &Option<Origin>| origin.as_ref().and_then(|origin| origin.distinct);
            distinct *= match (known(&ours), known(&theirs)) {
                (Some(ours), Some(theirs)) => ours.max(theirs),
                (Some(known), None) | (None, Some(known)) => known,
                (None, None) => DISTINCT_UNKNOWN,
            };
            first.extend(ours);
            second.extend(theirs);
        }
        let unique = [&first, &second].into_iter().filter_map(|origins| rows_if_unique(origins));
        let share = 1.0 / unique.reduce(f64::max).unwrap_or(distinct).max(1.0);
        // Of several keys, each leaves out less than all of them.
        let most = |origins: &[Origin]| match origins {
            [origin] if between.len() == 1 => origin.keys_max(),
            _ => 0.0,
        };
        JoinEdge { inputs: pair, share, classes, is_implied, asked_by: (most(&first), most(&second)) }
    }

    /// Where the values of an input's key are stored.
    fn origin(&self, input: usize, key: &PhysicalExprRef) -> Option<Origin> {
        let mut node = self.inputs[input].clone();
        let mut column = column_of(key)? - self.first_columns[input];
        loop {
            if let Some(scan) = node.downcast_ref::<ScanExec>() {
                let distinct = scan.distinct(column).map(|distinct| distinct as f64);
                return Some(Origin { node: node.clone(), column, distinct });
            }
            let (child, below) = source(&node, column)?;
            node = node.children().get(child).map(|&child| child.clone())?;
            column = below;
        }
    }
}

/// A column of a scan.
struct Origin {
    node: Arc<dyn ExecutionPlan>,
    column: usize,
    distinct: Option<f64>,
}

impl Origin {
    /// By how many rows of the other side the scan can be asked for keys.
    fn keys_max(&self) -> f64 {
        let scan = self.node.downcast_ref::<ScanExec>();
        scan.and_then(|scan| keys_max(scan, self.column)).unwrap_or_default() as f64
    }
}

/// The rows of the table of these columns, if it has no two with the same values there.
fn rows_if_unique(origins: &[Origin]) -> Option<f64> {
    let node = &origins.first()?.node;
    let is_one = origins.iter().all(|origin| Arc::ptr_eq(&origin.node, node));
    let columns: Vec<usize> = origins.iter().map(|origin| origin.column).collect();
    let scan = node.downcast_ref::<ScanExec>().filter(|scan| is_one && scan.is_unique(&columns))?;
    Some(scan.row_count() as f64)
}

/// Whether an operator is a join that can be taken apart, or chooses or computes columns of one.
pub(super) fn is_tree(node: &Arc<dyn ExecutionPlan>) -> bool {
    movable(node).is_some() || between(node).is_some()
}

/// The expression over columns that have other numbers.
pub(super) fn renumbered(expression: &PhysicalExprRef, numbers: &[usize]) -> Result<PhysicalExprRef> {
    renumbered_by(expression, &|column| numbers.get(column).copied().filter(|&number| number != LOST))
}

fn renumbered_by(
    expression: &PhysicalExprRef,
    number: &dyn Fn(usize) -> Option<usize>,
) -> Result<PhysicalExprRef> {
    let renumbered = expression.clone().transform_up(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let number = number(column.index()).ok_or_else(lost)?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), number)) as _))
    })?;
    Ok(renumbered.data)
}

pub(super) fn lost() -> DataFusionError {
    DataFusionError::Internal("a join lacks a column that is needed above".into())
}
