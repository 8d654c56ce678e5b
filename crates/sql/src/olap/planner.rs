//! From SQL to a logical plan: names, types and operators as PostgreSQL has them.
//!
//! DataFusion's planner asks a context for tables, functions and options; ours answers from one immutable
//! catalog, so that planning needs no lock and sees no half-made change. Types and operators are settled when the plan
//! is built ([`typing`]).

use super::arrow::UTC;
use super::arrow::{computed_type, wide_type};
use super::cells;
use super::computed_limits;
use super::dependent;
use super::error::external;
use super::existence;
use super::function::is_postgres;
use super::input_order;
use super::limited;
use super::outer_aggregate;
use super::quantified_subquery::Extremes;
use super::scan::TableHandle;
use super::sequence_order;
use super::sets;
use super::spelling::ARRAY;
use super::system::{self, SystemTable};
use super::ties;
use super::unknown_function;
use super::value::{field_type, scalar, sql_type, with_type};
use super::view_source::ViewSource;
use super::{typing, written};
use crate::activity::Live;
use crate::expression::Parameters;
use crate::expression::types::data_type;
use crate::name::{DATABASE, folded, undefined_table};
use crate::system::SystemCatalog;
use crate::system::oids::{Oids, relation_number};
use ankerdb_engine::{Catalog, DataType, Error, NameRef, ObjectKind, SqlState, SystemType};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef, TimeUnit};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, Statement};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

/// Where a plan's tables come from.
pub(crate) trait TableSources {
    /// The relation with this name; 42P01 if there is none.
    fn source(&self, schema: Option<&str>, name: &str) -> ankerdb_engine::Result<Arc<dyn TableSource>>;

    /// The schema in which a name without one is found, if it is a relation's.
    fn schema_of(&self, name: &str) -> Option<String>;

    /// The number by which clients know the table or view of this name.
    fn number(&self, _schema: Option<&str>, _name: &str) -> Option<u32> {
        None
    }

    /// The number of the table of this name, or of the relation of the system catalog that is none of its views.
    fn table_number(&self, _schema: Option<&str>, _name: &str) -> Option<u32> {
        None
    }

    /// The function of the system catalog with this name.
    fn function(&self, _name: &str) -> Option<Arc<ScalarUDF>> {
        None
    }
}

/// One catalog, and the system catalog that shows it.
pub(crate) struct CatalogSources {
    catalog: Arc<Catalog>,
    oids: Arc<Oids>,
    live: Live,
    /// Described when it is first asked for.
    system: OnceLock<Arc<SystemCatalog>>,
}

impl CatalogSources {
    pub(crate) fn new(catalog: Arc<Catalog>, oids: Arc<Oids>, live: Live) -> CatalogSources {
        CatalogSources { catalog, oids, live, system: OnceLock::new() }
    }

    /// The relation of a schema, if it has one of the name that can be read.
    fn in_schema(&self, schema: &str, name: &str) -> Option<Arc<dyn TableSource>> {
        if let Some(relation) = crate::system::relation(schema, name) {
            return Some(provider_as_source(Arc::new(SystemTable::new(relation, self.system()))));
        }
        let name = self.catalog.lookup(NameRef::Qualified(schema, name))?;
        if let Some(view) = self.catalog.view(&name) {
            let (catalog, oids) = (self.catalog.clone(), self.oids.clone());
            return Some(Arc::new(ViewSource::new(view.clone(), catalog, oids, self.live.clone())));
        }
        if let Ok(sequence) = self.catalog.sequence(&name) {
            return Some(provider_as_source(Arc::new(SystemTable::of_sequence(sequence))));
        }
        Some(provider_as_source(Arc::new(TableHandle::known_to(
            &self.catalog,
            self.catalog.table(&name).ok()?,
        ))))
    }

    fn system(&self) -> Arc<SystemCatalog> {
        let describe = || SystemCatalog::describe(&self.catalog, &self.oids, self.live.clone());
        self.system.get_or_init(|| Arc::new(describe())).clone()
    }
}

impl TableSources for CatalogSources {
    fn source(&self, schema: Option<&str>, name: &str) -> ankerdb_engine::Result<Arc<dyn TableSource>> {
        let found = match schema {
            Some(schema) => self.in_schema(schema, name),
            None => self.catalog.path().searched.iter().find_map(|schema| self.in_schema(schema, name)),
        };
        found.ok_or_else(|| match schema {
            Some(schema) => undefined_table(&format!("{schema}.{name}")),
            None => undefined_table(name),
        })
    }

    fn schema_of(&self, name: &str) -> Option<String> {
        self.catalog.path().searched.iter().find(|schema| self.in_schema(schema, name).is_some()).cloned()
    }

    fn number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        let name = schema.map_or(NameRef::Unqualified(name), |schema| NameRef::Qualified(schema, name));
        relation_number(&self.catalog, &self.oids, name)
    }

    fn table_number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        let schema = schema.map(str::to_owned).or_else(|| self.schema_of(name))?;
        if let Some(relation) = crate::system::relation(&schema, name) {
            return (!relation.is_view()).then(|| relation.oid());
        }
        let name = NameRef::Qualified(&schema, name);
        self.catalog.table(name).ok()?;
        relation_number(&self.catalog, &self.oids, name)
    }

    fn function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        crate::system::function(name).map(|function| system::function(function, self.system()))
    }
}

/// The unoptimized plan of a query, and its parameters as far as their types are known; they stay placeholders. `declared`:
/// types of $1, $2, ...
pub(crate) fn bind(
    state: &SessionState,
    tables: &dyn TableSources,
    query: &Statement,
    declared: &[Option<DataType>],
) -> Result<(LogicalPlan, Vec<Option<DataType>>)> {
    let plan = outer_aggregate::moved(relational(state, tables, query, declared)?)?;
    let plan = ties::numbered(sets::extracted(plan)?)?;
    let functions =
        |name: &str| tables.function(name).or_else(|| state.scalar_functions().get(name).cloned());
    let mut parameters = Parameters::declared(declared);
    let extremes = Extremes::of(state)?;
    let plan = input_order::carried(existence::as_values(plan, &extremes)?)?;
    let plan = typing::typed(plan, &mut parameters, &functions)?;
    let plan = computed_limits::numbered(plan)?;
    let plan = dependent::independent(limited::numbered(plan)?)?;
    let plan = sequence_order::behind_sorts(system::shown(plan, &functions)?)?;
    Ok((plan, parameters.known().to_vec()))
}

/// The plan of a query as DataFusion builds it, before its types are settled.
pub(super) fn relational(
    state: &SessionState,
    tables: &dyn TableSources,
    query: &Statement,
    declared: &[Option<DataType>],
) -> Result<LogicalPlan> {
    let names = Names { state, tables, unknown: RefCell::default() };
    let options = ParserOptions::from(&state.config_options().sql_parser);
    let planner = SqlToRel::new_with_options(&names, options);
    let fields = super::parameter::fields(declared);
    let mut context = PlannerContext::new().with_prepare_param_data_types(fields);
    let query = cells::with_parameters(query);
    let planned = match planner.sql_statement_to_plan_with_context(query.clone().into_owned(), &mut context) {
        Err(error) if cells::are_refused(&error) => {
            planner.sql_statement_to_plan_with_context(cells::as_calls(query.into_owned()), &mut context)
        }
        planned => planned,
    };
    planned.map_err(|error| match (error.find_root(), names.unknown.take()) {
        // Of an unknown function it is not known whether it is an aggregate.
        (DataFusionError::Plan(_), Some(name)) => {
            let message = format!("function {name} does not exist");
            external(Error::new(SqlState::UndefinedFunction, message))
        }
        _ => error,
    })
}

/// What names mean.
struct Names<'a> {
    state: &'a SessionState,
    tables: &'a dyn TableSources,
    /// A function that was asked for and that there is not.
    unknown: RefCell<Option<String>>,
}

/// Functions may be called by their schema's name.
fn unqualified(name: &str) -> &str {
    name.strip_prefix("pg_catalog.").unwrap_or(name)
}

impl Names<'_> {
    /// Whether there is a function of this name other than one of single values.
    fn is_called(&self, name: &str) -> bool {
        self.get_aggregate_meta(name).is_some()
            || self.get_window_meta(name).is_some()
            || self.get_higher_order_meta(name).is_some()
    }
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if name.catalog().is_some_and(|database| database != DATABASE) {
            let message = format!("cross-database references are not implemented: \"{name}\"");
            return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
        }
        self.tables.source(name.schema(), name.table()).map_err(external)
    }

    fn get_table_function_source(&self, name: &str, arguments: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let known = self.state.table_functions().get(unqualified(name)).filter(|_| is_postgres(name));
        let Some(function) = known else {
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
        if name == ARRAY {
            return self.state.scalar_functions().get("make_array").cloned();
        }
        let folded = unqualified(name).to_ascii_lowercase();
        let name = if unqualified(name) == name { name } else { &folded };
        let known = || self.state.scalar_functions().get(name).filter(|_| is_postgres(name)).cloned();
        let found = written::function(name).or_else(|| self.tables.function(name)).or_else(known);
        if found.is_some() || self.is_called(name) {
            return found;
        }
        self.unknown.borrow_mut().get_or_insert_with(|| name.to_owned());
        Some(unknown_function::named(name))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(unqualified(name)).filter(|_| is_postgres(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(unqualified(name)).filter(|_| is_postgres(name)).cloned()
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

/// The value as a constant of the field's type. Texts are read by our rules.
fn constant(value: &ScalarValue, field: &Field) -> Result<ScalarValue> {
    match (value, field_type(field)) {
        (ScalarValue::Utf8(Some(text)), Some(known)) if !known.is_text() => {
            let value = ankerdb_value::parse_text(known, text).map_err(external)?;
            scalar(&value, Some(known)).map_err(external)
        }
        _ => value.cast_to(field.data_type()),
    }
}

/// Table functions take constants; a cast literal counts as one.
fn literal_argument(argument: Expr) -> Result<Expr> {
    let argument = match argument {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(value, _) => Expr::Literal(constant(value, &cast.field)?, None),
            _ => Expr::Cast(cast),
        },
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(value, _) => Expr::Literal(value.arithmetic_negate()?, None),
            _ => Expr::Negative(inner),
        },
        other => other,
    };
    Ok(match argument {
        Expr::Literal(value @ (ScalarValue::Int16(_) | ScalarValue::Int32(_)), _) => {
            Expr::Literal(value.cast_to(&ArrowType::Int64)?, None)
        }
        other => other,
    })
}

/// SQL types whose meaning differs from DataFusion's.
#[derive(Debug)]
struct PostgresTypes;

impl PostgresTypes {
    /// A type that is written with its schema.
    fn renamed(&self, name: &str) -> Result<Option<FieldRef>> {
        // With its schema, or in quotes, the word is no single bit.
        let own = name.strip_prefix("pg_catalog.").filter(|own| *own != "bit");
        let Some(own) = own else { return Ok(None) };
        let Ok(data_type) = ankerdb_value::type_by_name(own, &[]) else { return Ok(None) };
        Ok(Some(Arc::new(with_type(Field::new("", wide_type(data_type), true), data_type))))
    }
}

impl TypePlanner for PostgresTypes {
    fn plan_type_field(&self, sql: &ast::DataType) -> Result<Option<FieldRef>> {
        use ast::{DataType as Sql, TimezoneInfo};
        let zone = |info: &TimezoneInfo| match info {
            TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
            TimezoneInfo::Tz | TimezoneInfo::WithTimeZone => Some(UTC.into()),
        };
        let arrow = match sql {
            Sql::Timestamp(None, info) => ArrowType::Timestamp(TimeUnit::Microsecond, zone(info)),
            Sql::Time(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
                wide_type(data_type(sql).map_err(external)?)
            }
            Sql::Timestamp(Some(_), _)
            | Sql::Time(Some(_), _)
            | Sql::Interval { .. }
            | Sql::Bit(_)
            | Sql::BitVarying(_)
            | Sql::VarBit(_) => {
                let data_type = data_type(sql).map_err(external)?;
                let field = Field::new("", wide_type(data_type), true);
                return Ok(Some(Arc::new(with_type(field, data_type))));
            }
            Sql::Numeric(ast::ExactNumberInfo::None)
            | Sql::Decimal(ast::ExactNumberInfo::None)
            | Sql::Dec(ast::ExactNumberInfo::None) => UNCONSTRAINED_NUMERIC,
            Sql::Text => ArrowType::Utf8View,
            Sql::Varchar(_)
            | Sql::CharacterVarying(_)
            | Sql::CharVarying(_)
            | Sql::Char(_)
            | Sql::Character(_)
            | Sql::JSON
            | Sql::JSONB => {
                let data_type = data_type(sql).map_err(external)?;
                let field = Field::new("", ArrowType::Utf8View, true);
                return Ok(Some(Arc::new(with_type(field, data_type))));
            }
            Sql::Array(_) => return array_type(sql),
            Sql::Bytea => ArrowType::BinaryView,
            Sql::Uuid => ArrowType::FixedSizeBinary(16),
            Sql::Int8(_) => ArrowType::Int64,
            // Bits of the mantissa.
            Sql::Float(ast::ExactNumberInfo::None | ast::ExactNumberInfo::Precision(25..)) => {
                ArrowType::Float64
            }
            Sql::Custom(name, _) => match written_name(name).as_str() {
                "bpchar" | "pg_catalog.bpchar" => {
                    let field = Field::new("", ArrowType::Utf8View, true);
                    return Ok(Some(Arc::new(with_type(field, data_type(sql).map_err(external)?))));
                }
                "name" => return Ok(Some(system_type(SystemType::Name))),
                "\"char\"" => return Ok(Some(system_type(SystemType::Char))),
                other => match SystemType::by_name(other.strip_prefix("pg_catalog.").unwrap_or(other)) {
                    Some(system) if !matches!(system, SystemType::List(_) | SystemType::Row(_)) => {
                        return Ok(Some(system_type(system)));
                    }
                    _ => {
                        let known = self.renamed(other)?;
                        return match known {
                            Some(known) => Ok(Some(known)),
                            None => packed_type(sql),
                        };
                    }
                },
            },
            Sql::Regclass => return Ok(Some(system_type(SystemType::Object(ObjectKind::Class)))),
            // The library has types that PostgreSQL has not.
            _ => return data_type(sql).map(|_| None).map_err(external),
        };
        Ok(Some(Arc::new(Field::new("", arrow, true))))
    }
}

/// The name of a type as it is written without quotes: in the schema of the system, as the words of the language are in no quotes.
fn written_name(name: &ast::ObjectName) -> String {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(ident)]
            if ident.quote_style.is_some() && !matches!(ident.value.as_str(), "char" | "bit") =>
        {
            format!("pg_catalog.{}", ident.value)
        }
        [ast::ObjectNamePart::Identifier(schema), ast::ObjectNamePart::Identifier(ident)]
            if ident.value != "char" && ident.value != "bit" =>
        {
            format!("{}.{}", folded(schema), folded(ident))
        }
        _ => name.to_string().to_ascii_lowercase(),
    }
}

/// A packed type; `None` for others.
fn packed_type(sql: &ast::DataType) -> Result<Option<FieldRef>> {
    Ok(match data_type(sql).map_err(external)? {
        packed @ DataType::Packed(_) => {
            Some(Arc::new(with_type(Field::new("", wide_type(packed), true), packed)))
        }
        _ => None,
    })
}

/// An array of a type that has values here; `None` for others, which the library knows.
///
/// # Errors
/// 0A000 for items of limited length, which the library would not cut.
fn array_type(sql: &ast::DataType) -> Result<Option<FieldRef>> {
    let array = match data_type(sql) {
        Ok(array) => array,
        Err(error) => {
            let mut item = sql;
            while let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) = item {
                item = inner;
            }
            return match data_type(item) {
                _ if crate::domains::domain(item).is_some() => Err(external(error)),
                Ok(DataType::Varchar(_) | DataType::Char(_)) => Err(external(error)),
                Ok(item) if item != item.of_any_precision() => Err(external(error)),
                _ => Ok(None),
            };
        }
    };
    Ok(Some(Arc::new(with_type(Field::new("", computed_type(array), true), array))))
}

fn system_type(system: SystemType) -> FieldRef {
    let data_type = DataType::System(system);
    Arc::new(with_type(Field::new("", wide_type(data_type), true), data_type))
}

/// `numeric` without precision and scale.
pub(crate) const UNCONSTRAINED_NUMERIC: ArrowType = ArrowType::LargeBinary;

/// The least number of fractional digits that a parameter has beside a numeric.
pub(crate) const PARAMETER_SCALE: u8 = 10;

/// What a client is told about a parameter of this type.
pub(crate) fn parameter_type(arrow: &ArrowType) -> ankerdb_engine::DataType {
    match sql_type(arrow) {
        // The value's own scale counts, not that of the column it is compared with.
        ankerdb_engine::DataType::Numeric { scale, .. } => {
            ankerdb_engine::DataType::Numeric { precision: 38, scale: scale.max(PARAMETER_SCALE) }
        }
        other => other,
    }
}
