//! The types of calls that give rows.

use super::super::sets::{self, SetCall, SetFunction, SetRows};
use super::read::{Operand, Reader};
use super::{Typing, refused, undefined_function};
use crate::expression::bind::type_name;
use crate::expression::{Expression, Function, fold, library};
use crate::olap::arrow::computed_type;
use crate::olap::error::external;
use crate::olap::system::list_text;
use crate::olap::value::{list_type, sql_type, told_type, with_type};
use ankerdb_engine::{DataType, Error, ListType, SqlState};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use std::sync::Arc;

impl Typing<'_> {
    /// The rows of calls whose functions and arguments have types.
    pub(super) fn rows(&mut self, rows: &SetRows, schema: &DFSchemaRef) -> Result<LogicalPlan> {
        let mut calls = Vec::with_capacity(rows.calls.len());
        for call in &rows.calls {
            calls.push(match &call.function {
                SetFunction::Written(name) => self.set_call(call, name, schema)?,
                _ => call.clone(),
            });
        }
        Ok(SetRows::new(rows.input.clone(), calls, rows.keeps_all)?.into_plan())
    }

    fn set_call(&mut self, call: &SetCall, name: &str, schema: &DFSchemaRef) -> Result<SetCall> {
        let mut reader = Reader::new(self, schema);
        let operands =
            call.arguments.iter().map(|argument| reader.read(argument)).collect::<Result<Vec<_>>>()?;
        let field = |data_type: ArrowType| Field::new(call.field.name(), data_type, true);
        let made =
            |function, arguments, field: Field| SetCall { function, arguments, field: Arc::new(field) };
        match name {
            sets::UNNEST => {
                let (mut list, told) = list(&reader, operands, name, 1)?;
                // The items of all dimensions, one after the other.
                while let ArrowType::List(items) = list[0].get_type(schema.as_ref())?
                    && matches!(items.data_type(), ArrowType::List(_))
                {
                    list[0] = datafusion::functions_nested::expr_fn::flatten(list[0].clone());
                }
                let ArrowType::List(items) = list[0].get_type(schema.as_ref())? else {
                    // A NULL of a type that tells which list it is.
                    return Err(external(undefined_function("unnest(unknown)")));
                };
                let item = told.map_or_else(|| sql_type(items.data_type()), ListType::item_type);
                Ok(made(SetFunction::Items, list, with_type(field(items.data_type().clone()), item)))
            }
            sets::SUBSCRIPTS => {
                let (list, told) = list(&reader, operands, name, 2)?;
                let first = if told.is_some_and(ListType::is_vector) { 0 } else { 1 };
                Ok(made(SetFunction::Subscripts(first), list, field(ArrowType::Int32)))
            }
            sets::ORDINALITY => Ok(made(SetFunction::Ordinality, Vec::new(), field(ArrowType::Int64))),
            _ => {
                let (function, arguments, result) = library_call(&mut reader, operands, name)?;
                let field = with_type(field(computed_type(result)), result);
                Ok(made(SetFunction::Library(function, result), arguments, field))
            }
        }
    }
}

/// The arguments of a function whose first one is a list, and which list that is.
fn list(
    reader: &Reader<'_, '_>,
    operands: Vec<Operand>,
    name: &str,
    count: usize,
) -> Result<(Vec<Expr>, Option<ListType>)> {
    let is_list = matches!(operands.first(), Some(Operand::Foreign(_)));
    if !is_list || operands.len() != count {
        return Err(external(no_function(reader, name, &operands)?));
    }
    let arguments = operands.into_iter().map(|operand| reader.emit(operand)).collect::<Result<Vec<_>>>()?;
    let (_, field) = arguments[0].to_field(reader.schema.as_ref())?;
    let known = match field.data_type() {
        ArrowType::List(items) => list_type(items.data_type(), told_type(&field)),
        _ => None,
    };
    Ok((arguments, known))
}

/// 42883, or 42725 for a constant without a type.
fn no_function(reader: &Reader<'_, '_>, name: &str, operands: &[Operand]) -> Result<Error> {
    let mut types = Vec::with_capacity(operands.len());
    for operand in operands {
        types.push(match operand {
            Operand::Typed(typed) => typed.data_type.map_or("unknown".to_owned(), type_name),
            Operand::Foreign(list) => {
                let (_, field) = list.to_field(reader.schema.as_ref())?;
                type_name(sql_type(field.data_type()))
            }
        });
    }
    let is_ambiguous = name == sets::UNNEST && types == ["unknown"];
    let whole = format!("function {name}({})", types.join(", "));
    Ok(match is_ambiguous {
        true => Error::new(SqlState::AmbiguousFunction, format!("{whole} is not unique"))
            .with_hint("Could not choose a best candidate function. You might need to add explicit type casts."),
        false => Error::new(SqlState::UndefinedFunction, format!("{whole} does not exist"))
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    })
}

/// A function of the library, its arguments in the types that it takes, and the type of its result.
fn library_call(
    reader: &mut Reader<'_, '_>,
    operands: Vec<Operand>,
    name: &str,
) -> Result<(library::Builtin, Vec<Expr>, DataType)> {
    let operands =
        operands.into_iter().map(|operand| reader.as_array(operand)).collect::<Result<Vec<_>>>()?;
    let mut typed = Vec::with_capacity(operands.len());
    for operand in &operands {
        match operand {
            Operand::Typed(operand) => typed.push(operand.clone()),
            Operand::Foreign(_) => return Err(external(no_function(reader, name, &operands)?)),
        }
    }
    let bound = library::call(&mut reader.binder(), name, typed).map_err(refused)?;
    let Expression::Call(Function::Library(function, result), arguments) = bound.expression else {
        return Err(external(Error::internal("a function of the library is a call")));
    };
    let arguments = arguments.into_iter().map(|argument| {
        let folded = fold(argument).map_err(external)?;
        let argument = reader.emitter().emit(folded)?;
        // Lists go as texts, which the library reads.
        let (_, field) = argument.to_field(reader.schema.as_ref())?;
        let ArrowType::List(items) = field.data_type() else { return Ok(argument) };
        let list = list_type(items.data_type(), told_type(&field));
        Ok(list.map_or(argument.clone(), |list| list_text(list, argument)))
    });
    Ok((function, arguments.collect::<Result<_>>()?, result))
}
