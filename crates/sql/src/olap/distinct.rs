//! DISTINCT in aggregates, where DataFusion has none or loses the types.
//!
//! It groups by the argument first where all aggregates with DISTINCT have the same one, and computes the others, such as sums,
//! of parts. A sum of integers is a bigint, but a sum of bigints is a numeric: such sums stay whole ([`rules`]). And the
//! functions of statistics get a DISTINCT beside anything else ([`statistics`]).

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan,
    Signature,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// DataFusion's rules, of which one leaves sums of integers alone.
pub(super) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() {
        "single_distinct_aggregation_to_group_by" => Arc::new(GroupByArgument { stock: rule }) as _,
        _ => rule,
    };
    Optimizer::new().rules.into_iter().map(ours).collect()
}

#[derive(Debug)]
struct GroupByArgument {
    stock: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for GroupByArgument {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match sums_integers(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.stock.rewrite(plan, config),
        }
    }
}

/// Whether the plan is an aggregate with a sum whose parts would be summed with another type.
fn sums_integers(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(false) };
    for expression in &aggregate.aggr_expr {
        if let Expr::AggregateFunction(call) = expression
            && call.func.name() == "sum"
            && expression.get_type(aggregate.input.schema().as_ref())? == DataType::Int64
            && !call.params.distinct
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `stddev`, `variance` and their like, to be registered over DataFusion's.
pub(super) fn statistics() -> Vec<Arc<AggregateUDF>> {
    let make = |stock: Arc<AggregateUDF>| {
        let mut aliases = stock.aliases().to_vec();
        if stock.name() == "var" {
            // PostgreSQL's name of it.
            aliases.push("variance".to_owned());
        }
        Arc::new(AggregateUDF::new_from_impl(Statistic { stock, aliases }))
    };
    [stddev_udaf(), stddev_pop_udaf(), var_samp_udaf(), var_pop_udaf()].map(make).to_vec()
}

#[derive(Debug)]
struct Statistic {
    /// DataFusion's function.
    stock: Arc<AggregateUDF>,
    /// Its other names.
    aliases: Vec<String>,
}

impl PartialEq for Statistic {
    fn eq(&self, other: &Statistic) -> bool {
        self.stock.name() == other.stock.name()
    }
}
impl Eq for Statistic {}
impl Hash for Statistic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stock.name().hash(state);
    }
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.stock.inner().return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !args.is_distinct {
            return self.stock.state_fields(args);
        }
        let item = Field::new_list_field(DataType::Float64, true);
        let list = Field::new_list(format_state_name(args.name, "distinct"), item, false);
        Ok(vec![Arc::new(list)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !args.is_distinct {
            return self.stock.accumulator(args);
        }
        let whole = self.stock.accumulator(AccumulatorArgs { is_distinct: false, ..args })?;
        Ok(Box::new(Different { whole, seen: HashSet::new() }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct && self.stock.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.stock.create_groups_accumulator(args)
    }
}

/// The different values of one group, by their bits.
#[derive(Debug)]
struct Different {
    /// What computes the result of them.
    whole: Box<dyn Accumulator>,
    seen: HashSet<u64>,
}

impl Different {
    fn note(&mut self, values: &ArrayRef) {
        // Zeros of both signs are equal, and so are all that are not a number.
        let bits = |value: f64| match value {
            0.0 => 0,
            number if number.is_nan() => f64::NAN.to_bits(),
            other => other.to_bits(),
        };
        self.seen.extend(values.as_primitive::<Float64Type>().iter().flatten().map(bits));
    }

    /// In an order that does not depend on how they came.
    fn values(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.seen.iter().map(|&bits| f64::from_bits(bits)).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

impl Accumulator for Different {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.note(&values[0]);
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values: ArrayRef = Arc::new(Float64Array::from(self.values()));
        self.whole.update_batch(&[values])?;
        self.whole.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.values().into_iter().map(ScalarValue::from).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().for_each(|values| self.note(&values));
        Ok(())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.whole.size() + self.seen.capacity() * size_of::<u64>() * 2
    }
}
