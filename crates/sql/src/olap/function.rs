//! Scalar functions of our own: checked integer arithmetic, and what drivers and tools ask a PostgreSQL
//! server when they connect.

use crate::version::VERSION;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Functions without arguments that give the same text in every query.
const CONSTANTS: &[(&str, &str)] = &[
    ("version", VERSION),
    ("current_database", "ankerdb"),
    ("current_catalog", "ankerdb"),
    ("current_schema", "public"),
    ("current_user", "ankerdb"),
    ("session_user", "ankerdb"),
];

/// All functions to be registered.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let constants = CONSTANTS.iter().map(|&(name, text)| {
        let signature = Signature::exact(Vec::new(), Volatility::Immutable);
        ScalarUDF::new_from_impl(Constant { name, text: Some(text), signature })
    });
    let pid = Constant {
        name: "pg_backend_pid",
        text: None,
        signature: Signature::exact(Vec::new(), Volatility::Immutable),
    };
    constants.chain([ScalarUDF::new_from_impl(pid)]).map(Arc::new).collect()
}

/// A fixed text, or, without one, the number of this process.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Constant {
    name: &'static str,
    text: Option<&'static str>,
    signature: Signature,
}

impl ScalarUDFImpl for Constant {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(if self.text.is_some() { DataType::Utf8View } else { DataType::Int32 })
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(match self.text {
            Some(text) => ScalarValue::Utf8View(Some(text.to_owned())),
            None => ScalarValue::Int32(Some(std::process::id() as i32)),
        }))
    }
}

/// Integer `+`, `-` and `*` that fail with 22003 instead of wrapping around.
pub(crate) mod checked {
    use super::*;
    use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
    use datafusion::common::internal_err;
    use datafusion::logical_expr::Expr;
    use datafusion::logical_expr::expr::ScalarFunction;
    use datafusion::physical_expr_common::datum::apply;
    use datafusion::sql::sqlparser::ast::BinaryOperator;
    use std::sync::LazyLock;

    /// Whether the operator has a checked form.
    pub(crate) fn is_checked(operator: &BinaryOperator) -> bool {
        matches!(operator, BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply)
    }

    /// `left operator right`, checked. Both are integers.
    pub(crate) fn call(operator: &BinaryOperator, left: Expr, right: Expr) -> Expr {
        static OPERATIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
            [Operation::Add, Operation::Subtract, Operation::Multiply].map(|operation| {
                let signature = Signature::user_defined(Volatility::Immutable);
                Arc::new(ScalarUDF::new_from_impl(Checked { operation, signature }))
            })
        });
        let operation = match operator {
            BinaryOperator::Plus => 0,
            BinaryOperator::Minus => 1,
            _ => 2,
        };
        Expr::ScalarFunction(ScalarFunction::new_udf(OPERATIONS[operation].clone(), vec![left, right]))
    }

    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    enum Operation {
        Add,
        Subtract,
        Multiply,
    }

    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Checked {
        operation: Operation,
        signature: Signature,
    }

    impl Checked {
        fn symbol(&self) -> &'static str {
            match self.operation {
                Operation::Add => "+",
                Operation::Subtract => "-",
                Operation::Multiply => "*",
            }
        }
    }

    /// The wider of two integer types; what is unsigned counts as a bigint.
    fn common_type(left: &DataType, right: &DataType) -> DataType {
        let rank = |data_type: &DataType| match data_type {
            DataType::Int8 | DataType::Int16 => 0,
            DataType::Int32 => 1,
            _ => 2,
        };
        [DataType::Int16, DataType::Int32, DataType::Int64][rank(left).max(rank(right))].clone()
    }

    impl ScalarUDFImpl for Checked {
        fn name(&self) -> &str {
            self.symbol()
        }

        fn signature(&self) -> &Signature {
            &self.signature
        }

        fn schema_name(&self, args: &[Expr]) -> Result<String> {
            let [left, right] = args else {
                return internal_err!("an operator has two operands");
            };
            Ok(format!("{} {} {}", left.schema_name(), self.symbol(), right.schema_name()))
        }

        fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
            let common = common_type(&arguments[0], &arguments[1]);
            Ok(vec![common.clone(), common])
        }

        fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
            Ok(common_type(&arguments[0], &arguments[1]))
        }

        fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
            let [left, right] = args.args.as_slice() else {
                return internal_err!("an operator has two operands");
            };
            match self.operation {
                Operation::Add => apply(left, right, add),
                Operation::Subtract => apply(left, right, sub),
                Operation::Multiply => apply(left, right, mul),
            }
        }
    }
}
