//! `array_agg` whose lists are told of what they are: of numbers of objects, names, `varchar` and the like, which Arrow's types do not tell.

use super::value::{told_type, with_type};
use ankerdb_engine::{DataType, ListType, SystemType};
use datafusion::arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use std::sync::Arc;

/// `array_agg`, to be registered over DataFusion's.
pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(told(array_agg_udaf()))
}

fn told(stock: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::new_from_impl(ListOf { stock })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListOf {
    /// DataFusion's function, or what it becomes in another order.
    stock: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for ListOf {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, arguments: &[ArrowType]) -> Result<ArrowType> {
        self.stock.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = self.stock.return_field(arguments)?;
        let told = arguments.first().and_then(|argument| told_type(argument)).and_then(ListType::of);
        Ok(match told {
            Some(list) => {
                let list = DataType::System(SystemType::List(list));
                Arc::new(with_type(field.as_ref().clone(), list))
            }
            None => field,
        })
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.stock.state_fields(arguments)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.stock.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self.stock.as_ref().clone().with_beneficial_ordering(beneficial_ordering)?;
        Ok(ordered.map(|stock| Arc::new(ListOf { stock: Arc::new(stock) }) as Arc<dyn AggregateUDFImpl>))
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.stock.accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.stock.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.stock.create_groups_accumulator(arguments)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.stock.reverse_udf() {
            ReversedUDAF::Reversed(stock) => ReversedUDAF::Reversed(Arc::new(told(stock))),
            other => other,
        }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.stock.supports_null_handling_clause()
    }
}
