//! From SQL to a logical plan: names, types and operators as PostgreSQL has them.
//!
//! DataFusion's planner asks a context for tables, functions and options; ours answers from one immutable
//! catalog, so that planning needs no lock and sees no half-made change. What PostgreSQL does differently is
//! put right while expressions are built: integer arithmetic fails instead of wrapping around, a number with
//! a decimal point next to a double is a double, text next to a uuid is a uuid.

use super::arrow::UTC;
use super::error::external;
use super::existence;
use super::function::checked;
use super::scan::TableHandle;
use super::value::sql_type;
use ankerdb_engine::{Catalog, Error, SqlState};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, TimeUnit};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, PlannerResult, RawBinaryExpr, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF, cast,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Statement};
use std::sync::Arc;

/// Where a plan's tables come from.
pub(crate) trait TableSources {
    /// The table with this name; 42P01 if there is none.
    fn source(&self, name: &str) -> ankerdb_engine::Result<Arc<dyn TableSource>>;
}

impl TableSources for Arc<Catalog> {
    fn source(&self, name: &str) -> ankerdb_engine::Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(TableHandle::new(self.table(name)?))))
    }
}

/// The unoptimized plan of a query; parameters stay placeholders. `declared`: types of $1, $2, ...
pub(crate) fn bind(
    state: &SessionState,
    tables: &dyn TableSources,
    query: &Statement,
    declared: &[Option<FieldRef>],
) -> Result<LogicalPlan> {
    let names = Names { state, tables };
    let options = ParserOptions::from(&state.config_options().sql_parser);
    let planner = SqlToRel::new_with_options(&names, options);
    let mut context = PlannerContext::new().with_prepare_param_data_types(declared.to_vec());
    let plan = planner.sql_statement_to_plan_with_context(query.clone(), &mut context)?;
    doubles_beside_numerics(existence::as_values(plan)?)
}

/// BETWEEN and IN as [`PostgresOperators`] has the other comparisons: next to a double, numerics are doubles.
/// (DataFusion would compare both as numerics, which large doubles do not fit.)
fn doubles_beside_numerics(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let rewritten = expression.transform_up(|part| comparison_with_doubles(part, &schema))?;
            Ok(rewritten.update_data(|expression| name.restore(expression)))
        })
    })?;
    Ok(rewritten.data)
}

fn comparison_with_doubles(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_double =
        |expression: &Expr| matches!(expression.get_type(schema), Ok(data_type) if data_type.is_floating());
    let as_double = |expression: Expr| match expression.get_type(schema) {
        Ok(own) => beside(expression, &own, &ArrowType::Float64),
        Err(_) => Ok(expression),
    };
    match part {
        Expr::Between(mut between) if is_double(&between.expr) => {
            between.low = Box::new(as_double(*between.low)?);
            between.high = Box::new(as_double(*between.high)?);
            Ok(Transformed::yes(Expr::Between(between)))
        }
        Expr::InList(mut list) if is_double(&list.expr) => {
            list.list = list.list.into_iter().map(as_double).collect::<Result<_>>()?;
            Ok(Transformed::yes(Expr::InList(list)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// What names mean.
struct Names<'a> {
    state: &'a SessionState,
    tables: &'a dyn TableSources,
}

/// Functions may be called by their schema's name.
fn unqualified(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or(name)
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        match name.schema() {
            None | Some("public") => self.tables.source(name.table()).map_err(external),
            Some(schema) => {
                let message = format!("relation \"{schema}.{}\" does not exist", name.table());
                Err(external(Error::new(SqlState::UndefinedTable, message)))
            }
        }
    }

    fn get_table_function_source(&self, name: &str, arguments: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(unqualified(name)) else {
            let message = format!("function {name} does not exist");
            return Err(external(Error::new(SqlState::UndefinedFunction, message)));
        };
        let arguments = arguments.into_iter().map(literal_argument).collect::<Result<Vec<_>>>()?;
        let arguments = datafusion::catalog::TableFunctionArgs::new(&arguments, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(arguments)?))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: datafusion::arrow::datatypes::SchemaRef,
    ) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(datafusion::catalog::cte_worktable::CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(PostgresTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(unqualified(name)).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(unqualified(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(unqualified(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(unqualified(name)).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<ArrowType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// Table functions take constants; a cast literal counts as one.
fn literal_argument(argument: Expr) -> Result<Expr> {
    match argument {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => Ok(Expr::Literal(value.cast_to(cast.field.data_type())?, None)),
            _ => Ok(Expr::Cast(cast)),
        },
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(value, _) => Ok(Expr::Literal(value.arithmetic_negate()?, None)),
            _ => Ok(Expr::Negative(inner)),
        },
        other => Ok(other),
    }
}

/// SQL types whose meaning differs from DataFusion's.
#[derive(Debug)]
struct PostgresTypes;

impl TypePlanner for PostgresTypes {
    fn plan_type_field(&self, sql: &ast::DataType) -> Result<Option<FieldRef>> {
        use ast::{DataType as Sql, TimezoneInfo};
        let zone = |info: &TimezoneInfo| match info {
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
            TimezoneInfo::Tz | TimezoneInfo::WithTimeZone => Some(UTC.into()),
        };
        let arrow = match sql {
            Sql::Timestamp(_, info) => ArrowType::Timestamp(TimeUnit::Microsecond, zone(info)),
            Sql::Numeric(ast::ExactNumberInfo::None)
            | Sql::Decimal(ast::ExactNumberInfo::None)
            | Sql::Dec(ast::ExactNumberInfo::None) => UNCONSTRAINED_NUMERIC,
            Sql::Text | Sql::Varchar(_) | Sql::CharacterVarying(_) | Sql::CharVarying(_) => {
                ArrowType::Utf8View
            }
            Sql::Bytea => ArrowType::BinaryView,
            Sql::Uuid => ArrowType::FixedSizeBinary(16),
            Sql::Int8(_) => ArrowType::Int64,
            Sql::Custom(name, _) => match name.to_string().to_ascii_lowercase().as_str() {
                "name" | "regtype" | "regclass" => ArrowType::Utf8View,
                "oid" => ArrowType::Int64,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", arrow, true))))
    }
}

/// `numeric` without precision and scale.
pub(crate) const UNCONSTRAINED_NUMERIC: ArrowType = ArrowType::Decimal128(38, 10);

/// Operators whose meaning differs from DataFusion's.
#[derive(Debug)]
pub(crate) struct PostgresOperators;

impl ExprPlanner for PostgresOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        let (left_type, right_type) = (left.get_type(schema).ok(), right.get_type(schema).ok());
        let left = with_inferred_type(left, right_type.as_ref());
        let right = with_inferred_type(right, left_type.as_ref());
        let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        if left_type.is_integer() && right_type.is_integer() && checked::is_checked(&op) {
            return Ok(PlannerResult::Planned(checked::call(&op, left, right)));
        }
        let (left, right) = match op {
            BinaryOperator::Multiply | BinaryOperator::Divide
                if left_type.is_decimal() && right_type.is_decimal() =>
            {
                (with_room(left, &left_type), with_room(right, &right_type))
            }
            _ => (beside(left, &left_type, &right_type)?, beside(right, &right_type, &left_type)?),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// A parameter of unknown type next to an operand of a known one has that one's type.
fn with_inferred_type(operand: Expr, other: Option<&ArrowType>) -> Expr {
    match (operand, other) {
        (Expr::Placeholder(Placeholder { id, field: None }), Some(other)) if *other != ArrowType::Null => {
            let data_type = if other.is_decimal() { UNCONSTRAINED_NUMERIC } else { other.clone() };
            let field = Field::new(id.clone(), data_type, true);
            Expr::Placeholder(Placeholder { id, field: Some(Arc::new(field)) })
        }
        (operand, _) => operand,
    }
}

/// The operand as it is meant next to one of type `other`.
fn beside(operand: Expr, own: &ArrowType, other: &ArrowType) -> Result<Expr> {
    if own.is_decimal() && matches!(other, ArrowType::Float32 | ArrowType::Float64) {
        return Ok(match operand {
            Expr::Literal(value, metadata) => Expr::Literal(value.cast_to(&ArrowType::Float64)?, metadata),
            computed => cast(computed, ArrowType::Float64),
        });
    }
    if let (Expr::Literal(value, metadata), ArrowType::FixedSizeBinary(16)) = (&operand, other) {
        if let Some(Some(text)) = value.try_as_str() {
            return Ok(Expr::Literal(uuid_literal(text).map_err(external)?, metadata.clone()));
        }
    }
    Ok(operand)
}

/// A computed numeric of unknown size (such as an average) as a factor: with its 16 fractional digits and as many
/// of the other's, 38 digits would leave hardly any for the integer part of the result.
fn with_room(operand: Expr, own: &ArrowType) -> Expr {
    match own {
        ArrowType::Decimal128(38, scale) if *scale > 10 => cast(operand, UNCONSTRAINED_NUMERIC),
        _ => operand,
    }
}

fn uuid_literal(text: &str) -> ankerdb_engine::Result<ScalarValue> {
    let value = ankerdb_value::parse_text(ankerdb_engine::DataType::Uuid, text)?;
    super::value::scalar(&value, None)
}

/// What a client is told about a parameter of this type.
pub(crate) fn parameter_type(arrow: &ArrowType) -> ankerdb_engine::DataType {
    match sql_type(arrow) {
        // The value's own scale counts, not that of the column it is compared with.
        ankerdb_engine::DataType::Numeric { scale, .. } => {
            ankerdb_engine::DataType::Numeric { precision: 38, scale: scale.max(10) }
        }
        other => other,
    }
}
