//! Aggregates in the typing pass.

use super::keyed;
use super::read::Reader;
use super::taken::{check_aggregate, takes_doubles};
use super::undefined_function;
use crate::expression::bind::type_name;
use crate::name::not_supported;
use crate::olap::error::external;
use crate::olap::operation::Operation;
use crate::olap::value::{field_type, scalar};
use crate::olap::{computed, number_aggregate};
use ankerdb_engine::{DataType, Error, PackedType, SqlState};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Case};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use datafusion::scalar::ScalarValue;

const INET: DataType = DataType::Packed(PackedType::Inet);
const CIDR: DataType = DataType::Packed(PackedType::Cidr);

/// Values that are told apart, in a form that DataFusion has a table for: it keeps bytes of one length each in an object of its own.
fn counted(argument: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    Ok(match argument.get_type(schema.as_ref())? {
        ArrowType::FixedSizeBinary(_) => cast(argument, ArrowType::Binary),
        _ => argument,
    })
}

impl Reader<'_, '_> {
    pub(super) fn aggregate(&mut self, aggregate: &AggregateFunction) -> Result<Expr> {
        let mut typed = aggregate.clone();
        // This makes no difference to these functions, and DataFusion's plan for DISTINCT cannot have constants.
        let is_idempotent =
            matches!(typed.func.name(), "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or");
        typed.params.distinct &= !is_idempotent;
        self.emitted_all(&mut typed.params.args)?;
        self.fit_arguments(typed.func.name(), &mut typed.params.args)?;
        if let ("count", [_, _, ..]) = (typed.func.name(), typed.params.args.as_slice())
            && !typed.params.distinct
        {
            let arguments = typed.params.args.iter().map(|argument| {
                let (_, field) = argument.to_field(self.schema.as_ref())?;
                Ok(field_type(&field).map_or("unknown".to_owned(), type_name))
            });
            let types = arguments.collect::<Result<Vec<_>>>()?.join(", ");
            return Err(external(undefined_function(&format!("count({types})"))));
        }
        if let [argument, ..] = typed.params.args.as_slice() {
            check_aggregate(typed.func.name(), &argument.to_field(self.schema.as_ref())?.1)?;
        }
        if let Some(filter) = &mut typed.params.filter {
            let condition = self.condition(filter, "FILTER")?;
            **filter = self.emitter().emit(condition)?;
        }
        self.order_rows(&mut typed.params, aggregate.params.distinct)?;
        // What is told apart is sorted for it.
        let is_list = matches!(typed.func.name(), "string_agg" | "array_agg");
        if let (true, true, [argument, ..]) = (is_list, typed.params.distinct, typed.params.args.as_slice())
            && number_aggregate::is_number(&argument.to_field(self.schema.as_ref())?.1)
        {
            return Err(external(not_supported("array_agg(DISTINCT ...) of numerics of any length")));
        }
        if is_list && typed.params.distinct {
            self.sort_different(&mut typed.params)?;
        }
        if let Some(filter) = &typed.params.filter {
            self.compute_only_where(filter, &mut typed.params.args)?;
        }
        if typed.params.distinct
            && typed.func.name() == "count"
            && let [argument] = typed.params.args.as_mut_slice()
        {
            let key = keyed::with_one_zero(keyed::ordered(argument.clone(), self.schema)?, self.schema)?;
            *argument = counted(key, self.schema)?;
        }
        if let (true, [argument]) = (typed.params.distinct, typed.params.args.as_slice())
            && number_aggregate::is_number(&argument.to_field(self.schema.as_ref())?.1)
            && typed.func.name() != "count"
            && !is_list
        {
            typed.func = number_aggregate::of_distinct(typed.func);
            typed.params.distinct = false;
        }
        Ok(Expr::AggregateFunction(typed))
    }

    /// Gives arguments the types that the aggregate has for them.
    fn fit_arguments(&self, name: &str, arguments: &mut [Expr]) -> Result<()> {
        self.add_up_times(name, arguments)?;
        // There are no others of networks.
        if let ("min" | "max", [argument]) = (name, &mut *arguments)
            && field_type(&argument.to_field(self.schema.as_ref())?.1) == Some(CIDR)
        {
            *argument = computed::call(Operation::Cast(INET), vec![argument.clone()], INET);
        }
        if let ("string_agg", [text, delimiter]) = (name, &mut *arguments) {
            self.fit_delimiter(text, delimiter)?;
        }
        if takes_doubles(name) {
            for argument in arguments {
                *argument = keyed::as_double(argument.clone(), self.schema)?;
            }
        }
        Ok(())
    }

    /// A delimiter of `string_agg` beside what it delimits: both are texts, or both bytes.
    fn fit_delimiter(&self, text: &Expr, delimiter: &mut Expr) -> Result<()> {
        let known = |part: &Expr| -> Result<Option<DataType>> {
            Ok(field_type(&part.to_field(self.schema.as_ref())?.1))
        };
        let is_bytes = |known: Option<DataType>| known == Some(DataType::Bytea);
        if is_bytes(known(text)?)
            && let Expr::Literal(ScalarValue::Utf8(Some(written)), _) = delimiter
        {
            let value = ankerdb_value::parse_text(DataType::Bytea, written).map_err(external)?;
            *delimiter = lit(scalar(&value, None).map_err(external)?);
        }
        let (first, second) = (known(text)?, known(delimiter)?);
        let is_taken = |other: DataType| match first {
            Some(DataType::Bytea) => other == DataType::Bytea,
            _ => other.is_text() || first.is_none() && other == DataType::Bytea,
        };
        let is_list = delimiter.get_type(self.schema.as_ref())?.is_nested();
        if is_list || second.is_some_and(|second| !is_taken(second)) {
            let name = |known: Option<DataType>| known.map_or("unknown".to_owned(), type_name);
            let types = format!("string_agg({}, {})", name(first), name(second));
            return Err(external(undefined_function(&types)));
        }
        Ok(())
    }

    /// Types the order of an aggregate's rows.
    ///
    /// # Errors
    /// 42P10 where rows are told apart and a key is none of the arguments: there is no one key of equal rows.
    fn order_rows(&mut self, params: &mut AggregateFunctionParams, is_distinct: bool) -> Result<()> {
        for order in &mut params.order_by {
            order.expr = self.emitted(&order.expr)?;
            if is_distinct && !params.args.contains(&order.expr) {
                let message =
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                return Err(external(Error::new(SqlState::InvalidColumnReference, message)));
            }
        }
        params.order_by = keyed::sorted(std::mem::take(&mut params.order_by), self.schema)?;
        Ok(())
    }

    /// Lets an aggregate of different items find those that are equal beside each other.
    fn sort_different(&self, params: &mut AggregateFunctionParams) -> Result<()> {
        let [item, ..] = params.args.as_mut_slice() else { return Ok(()) };
        let one_zero = keyed::with_one_zero(item.clone(), self.schema)?;
        for order in params.order_by.iter_mut().filter(|order| order.expr == *item) {
            order.expr = one_zero.clone();
        }
        *item = one_zero.clone();
        if params.order_by.is_empty() {
            params.order_by.push(one_zero.sort(true, false));
        }
        Ok(())
    }

    /// Times that are added up are intervals since midnight.
    pub(super) fn add_up_times(&self, name: &str, arguments: &mut [Expr]) -> Result<()> {
        if let ("sum" | "avg", [argument]) = (name, arguments)
            && let Some(DataType::Time(_)) = field_type(&argument.to_field(self.schema.as_ref())?.1)
        {
            let operation = Operation::Cast(DataType::INTERVAL);
            *argument = computed::call(operation, vec![argument.clone()], DataType::INTERVAL);
        }
        Ok(())
    }

    /// Arguments of rows that FILTER leaves out are not computed, as they might fail.
    pub(super) fn compute_only_where(&self, filter: &Expr, arguments: &mut [Expr]) -> Result<()> {
        for argument in arguments {
            let (_, field) = argument.to_field(self.schema.as_ref())?;
            let is_safe = matches!(argument, Expr::Column(_) | Expr::Literal(..) | Expr::Placeholder(_));
            // An alternative would not show which text type it has.
            if !is_safe && field.metadata().is_empty() {
                let computed = (Box::new(filter.clone()), Box::new(argument.clone()));
                *argument = Expr::Case(Case::new(None, vec![computed], None));
            }
        }
        Ok(())
    }
}
