//! Parameters that stay where they stand while common subexpressions are looked for.
//!
//! DataFusion computes what stands twice in an operator's expressions once, in a projection below. Of a statement whose parameters have no values yet, that
//! may be one of them with a cast, and then nobody sees any more what it is beside (`generic`). So parameters take part as calls that may give something else
//! each time, which that rule leaves alone, and so it does with all that has one in it.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::hash::Hash;
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, of which the one for common subexpressions sees no parameters.
pub(super) fn around(rules: Vec<Rule>) -> Vec<Rule> {
    let ours = |rule: Rule| match rule.name() {
        "common_sub_expression_eliminate" => Arc::new(ParametersApart { stock: rule }) as Rule,
        _ => rule,
    };
    rules.into_iter().map(ours).collect()
}

#[derive(Debug)]
struct ParametersApart {
    stock: Rule,
}

impl OptimizerRule for ParametersApart {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let hidden = replaced(plan, |part| match part {
            Expr::Placeholder(Placeholder { id, field: Some(field) }) => Ok(Unknown::call(id, field)),
            other => Err(other),
        })?;
        let rewritten = self.stock.rewrite(hidden, config)?;
        rewritten.map_data(|plan| {
            replaced(plan, |part| match &part {
                Expr::ScalarFunction(call) => {
                    call.func.inner().downcast_ref().map(Unknown::parameter).ok_or(part)
                }
                _ => Err(part),
            })
        })
    }
}

/// The plan with other expressions in place of some; `with` gives the others back.
fn replaced(plan: LogicalPlan, with: fn(Expr) -> Result<Expr, Expr>) -> Result<LogicalPlan> {
    let replaced = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expression| {
            expression.transform_up(|part| match with(part) {
                Ok(other) => Ok(Transformed::yes(other)),
                Err(part) => Ok(Transformed::no(part)),
            })
        })
    })?;
    Ok(replaced.data)
}

/// A parameter as a call, of the same name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unknown {
    id: String,
    field: FieldRef,
    signature: Signature,
}

impl Unknown {
    fn call(id: String, field: FieldRef) -> Expr {
        let signature = Signature::nullary(Volatility::Volatile);
        let function = ScalarUDF::new_from_impl(Unknown { id, field, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), Vec::new()))
    }

    fn parameter(&self) -> Expr {
        Expr::Placeholder(Placeholder { id: self.id.clone(), field: Some(self.field.clone()) })
    }
}

impl ScalarUDFImpl for Unknown {
    fn name(&self) -> &str {
        &self.id
    }

    fn schema_name(&self, _arguments: &[Expr]) -> Result<String> {
        Ok(self.id.clone())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(self.field.clone())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("parameter {} has no value yet", self.id)
    }
}
