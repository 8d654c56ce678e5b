//! Calls of functions in the typing pass, and how messages have them.

use super::lists::told_list;
use super::read::{Operand, Reader, all_typed, is_list_type};
use super::undefined_function;
use crate::expression::array_function::{self, Common};
use crate::expression::bind::type_name;
use crate::expression::{Expression, Refusal, Typed, fold, function, labels};
use crate::name::not_supported;
use crate::olap::arrow::computed_type;
use crate::olap::error::external;
use crate::olap::known_items;
use crate::olap::lists;
use crate::olap::written;
use ankerdb_engine::{DataType, Error, SqlState, SystemType};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

impl Reader<'_, '_> {
    /// The call by PostgreSQL's rules, as the OLTP path has it, or its operands, if it is the library's.
    pub(super) fn own_call(
        &mut self,
        name: &str,
        operands: Vec<Operand>,
    ) -> Result<std::result::Result<Operand, Vec<Operand>>> {
        if matches!(name, "array_fill" | "trim_array") {
            return Err(external(not_supported(&format!("{name} in an analytical query"))));
        }
        let is_ours = written::function(name).is_some() && function::is_known(name, operands.len());
        // Functions over arrays are the library's where it has them.
        let takes_values = name.starts_with("concat") || (self.typing.functions)(name).is_none();
        let operands = match name {
            "concat" | "concat_ws" | "format" => {
                operands.into_iter().map(|operand| self.as_shown(operand)).collect::<Result<_>>()?
            }
            _ => operands,
        };
        let operands = match is_ours && takes_values {
            true => operands.into_iter().map(|operand| self.as_array(operand)).collect::<Result<_>>()?,
            false => operands,
        };
        let typed = match all_typed(operands) {
            Ok(typed) => typed,
            Err(operands) => return Ok(Err(operands)),
        };
        let again = |typed: Vec<Typed>| Ok(Err(typed.into_iter().map(Operand::Typed).collect()));
        if !is_ours {
            return again(typed);
        }
        if let Some(null) = self.null_of_call(name, &typed) {
            return Ok(Ok(null));
        }
        match function::call(&mut self.binder(), name, typed.clone()) {
            Ok(typed) if is_list_type(typed.data_type) => {
                let expression = fold(typed.expression).map_err(external)?;
                let list = self.emitter().emit(expression)?;
                let known = typed.data_type.map(computed_type);
                match (list.get_type(self.schema.as_ref())?, known) {
                    (ArrowType::Null, Some(known)) => self.leaf(cast(list, known)).map(Ok),
                    _ => self.leaf(list).map(Ok),
                }
            }
            Ok(typed) if name == labels::RANGE => {
                let range = self.emitter().emit(typed.expression)?;
                self.leaf(range).map(Ok)
            }
            Ok(typed) => Ok(Ok(Operand::Typed(typed))),
            Err(Refusal::Failed(error)) => Err(external(error)),
            Err(Refusal::Elsewhere(_)) => again(typed),
        }
    }

    /// The operands of a call of a function of arrays, or of `||`: arrays and items of several types as those of the type that they
    /// have in common, which the library does not find.
    ///
    /// # Errors
    /// 42883 if they have none.
    pub(super) fn of_one_type(&mut self, name: &str, operands: Vec<Operand>) -> Result<Vec<Operand>> {
        if name != "||" && !name.starts_with("array_") {
            return Ok(operands);
        }
        let known = operands.iter().map(|operand| self.as_array(operand.clone()));
        let Ok(typed) = all_typed(known.collect::<Result<Vec<_>>>()?) else { return Ok(operands) };
        match array_function::common_list(name, &typed) {
            Common::Same => Ok(operands),
            Common::Apart => Err(external(match name {
                "||" => self.undefined_operator(name, &operands)?,
                _ => undefined_function(&self.written_call(name, &operands)?),
            })),
            Common::List(list, roles) => {
                let are_all = roles.iter().all(Option::is_some);
                let each = operands.into_iter().zip(roles).map(|(operand, role)| match (role, operand) {
                    (Some(true), Operand::Typed(typed)) if typed.data_type.is_none() => {
                        self.as_list(typed, list)
                    }
                    (Some(true), operand) => {
                        let operand = self.emit(operand)?;
                        self.list_as(operand, list)
                    }
                    (Some(false), operand) => self.emit_as(operand, array_function::item_type(list)),
                    (None, operand) => self.emit(operand),
                });
                let each = each.collect::<Result<Vec<_>>>()?;
                let each = if are_all { self.with_scales(each)? } else { each };
                Ok(each.into_iter().map(Operand::Foreign).collect())
            }
        }
    }

    /// The call of a function of the library's. `called`: how messages have it.
    pub(super) fn library_call(
        &mut self,
        call: &ScalarFunction,
        operands: Vec<Operand>,
        called: &str,
    ) -> Result<Operand> {
        let name = call.func.name();
        let operands = self.of_one_type(name, operands)?;
        let told = if name == "make_array" { self.told_of_items(&operands) } else { None };
        let mut arguments = match name {
            // Beside a numeric, they keep their digits.
            "make_array" if told.is_some() || operands.iter().any(is_untyped_parameter) => {
                self.emit_merged(operands, "ARRAY")?
            }
            _ => operands.into_iter().map(|operand| self.emit(operand)).collect::<Result<Vec<_>>>()?,
        };
        // The library's own of these names change the first item only.
        let native = match name {
            "array_remove" => "array_remove_all",
            "array_replace" => "array_replace_all",
            name => name,
        };
        let function = match written::function(name) {
            None => call.func.clone(),
            Some(_) => (self.typing.functions)(native).ok_or_else(|| external(undefined_function(called)))?,
        };
        self.without_labels(name, &mut arguments)?;
        self.with_numbers(name, &mut arguments)?;
        if let ("array_has_all", [whole, _]) = (name, arguments.as_mut_slice()) {
            // The operator `@>`, which finds no NULL in a list.
            *whole = known_items::call(whole.clone());
        }
        let first = arguments.first().map(|first| first.to_field(self.schema.as_ref())).transpose()?;
        let function =
            lists::settled(function, first.as_ref().map(|(_, field)| field.as_ref()), &mut arguments);
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments));
        let takes = call.get_type(self.schema.as_ref());
        if matches!(takes, Err(DataFusionError::Plan(_))) && !name.starts_with("array_") {
            return Err(external(undefined_function(called)));
        }
        self.leaf(match (name, told) {
            // Integers in PostgreSQL.
            ("array_length" | "cardinality" | "array_ndims" | "array_position", _) => {
                cast(call, ArrowType::Int32)
            }
            (_, Some(list)) => told_list(call, list),
            _ => call,
        })
    }

    /// The function with the types of its arguments, as messages have it.
    pub(super) fn written_call(&self, name: &str, operands: &[Operand]) -> Result<String> {
        Ok(format!("{name}({})", self.written_types(operands)?.join(", ")))
    }

    /// 42883
    pub(super) fn undefined_operator(&self, symbol: &str, operands: &[Operand]) -> Result<Error> {
        let operation = self.written_types(operands)?.join(&format!(" {symbol} "));
        let hint = "No operator matches the given name and argument types. You might need to add explicit type casts.";
        let message = format!("operator does not exist: {operation}");
        Ok(Error::new(SqlState::UndefinedFunction, message).with_hint(hint))
    }

    fn written_types(&self, operands: &[Operand]) -> Result<Vec<String>> {
        let mut types = Vec::with_capacity(operands.len());
        for operand in operands {
            types.push(match operand {
                Operand::Typed(typed) => typed.data_type.map_or("unknown".into(), type_name),
                Operand::Foreign(expression) => match self.list_type(expression)? {
                    Ok(list) => DataType::System(SystemType::List(list)).to_string(),
                    Err(arrow) => arrow.to_string(),
                },
            });
        }
        Ok(types)
    }
}

/// Whether this is a parameter whose type nothing has told yet.
pub(super) fn is_untyped_parameter(operand: &Operand) -> bool {
    matches!(operand, Operand::Typed(Typed { expression: Expression::Parameter(_), data_type: None }))
}
