//! DataFusion's expressions as bound ones.

use super::constant::with_told_type;
use super::emit::Emitter;
use super::keyed;
use super::lists::between_lists;
use super::set::of_own_scales;
use super::{Typing, refused, undefined_function};
use crate::expression::bind::{convert, type_name};
use crate::expression::notation::OVERLAP;
use crate::expression::{
    Arithmetic, Binder, Comparison, Expression, Function, PatternSyntax, Refusal, Scope, Typed, fold, library,
};
use crate::name::not_supported;
use crate::olap::arrow::wide_type;
use crate::olap::cells::CELL;
use crate::olap::error::external;
use crate::olap::known_items;
use crate::olap::planner::UNCONSTRAINED_NUMERIC;
use crate::olap::quantified;
use crate::olap::row_free::without_query;
use crate::olap::single;
use crate::olap::system::{input_function, list_text, output_function};
use crate::olap::told_casts::CAST;
use crate::olap::unknown_function;
use crate::olap::value::{field_type, is_told, list_type, told_type, with_type};
use crate::olap::written::{self, DISTINCT, NEGATED, NOT_DISTINCT, POSITIVE};
use ankerdb_engine::{DataType, Decimal, Error, Interval, ListType, ObjectKind, SqlState, SystemType, Value};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::{DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::{
    Between, BinaryExpr, Cast, Exists, InList, InSubquery, Like, Placeholder, ScalarFunction, SetComparison,
};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast, lit, when};
use std::sync::Arc;

/// An expression that was read.
#[derive(Clone)]
pub(super) enum Operand {
    Typed(Typed),
    /// Of a type that SQL here does not have, such as a list: left to DataFusion.
    Foreign(Expr),
}

/// `'name'::regclass` as the argument of a sequence's function is the name.
fn named_relation<'e>(function: &str, argument: &'e Expr) -> &'e Expr {
    match argument {
        Expr::Cast(cast)
            if matches!(function, "nextval" | "currval" | "setval")
                && matches!(*cast.expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _)) =>
        {
            &cast.expr
        }
        other => other,
    }
}

/// Reads one expression over the rows of a schema.
pub(super) struct Reader<'r, 't> {
    pub(super) typing: &'r mut Typing<'t>,
    pub(super) schema: &'r DFSchemaRef,
    /// What stands for the columns of bound expressions.
    pub(super) leaves: Vec<Expr>,
}

/// The numbers of objects.
pub(super) const OID: DataType = DataType::System(SystemType::Oid);

/// Whether the function's first argument is a relation, which may be told by its name.
fn takes_relation(function: &str) -> bool {
    let sizes = ["pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size"];
    function == "pg_get_viewdef" || sizes.contains(&function)
}

/// Whether the constant takes the type of what it meets.
pub(super) fn is_unknown(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(ScalarValue::Null | ScalarValue::Utf8(Some(_)), _))
}

fn is_list(operand: &Operand) -> bool {
    match operand {
        Operand::Foreign(_) => true,
        Operand::Typed(typed) => is_list_type(typed.data_type),
    }
}

/// Whether values are strings of bits, of which the fields tell whether they vary.
fn is_of_bits(data_type: DataType) -> bool {
    matches!(data_type, DataType::Packed(packed) if packed.is_bits())
}

pub(super) fn is_list_type(data_type: Option<DataType>) -> bool {
    matches!(data_type, Some(DataType::System(SystemType::List(_))))
}

impl<'r, 't> Reader<'r, 't> {
    pub(super) fn new(typing: &'r mut Typing<'t>, schema: &'r DFSchemaRef) -> Reader<'r, 't> {
        Reader { typing, schema, leaves: Vec::new() }
    }

    pub(super) fn binder(&mut self) -> Binder<'_> {
        Binder::new(Scope::default(), self.typing.parameters)
    }

    pub(super) fn emitter(&self) -> Emitter<'_> {
        Emitter { leaves: &self.leaves, schema: self.schema, parameters: self.typing.parameters.known() }
    }

    pub(super) fn emit(&self, operand: Operand) -> Result<Expr> {
        match operand {
            Operand::Typed(typed) => {
                let expression = fold(self.as_asked(typed.expression)).map_err(external)?;
                let emitted = self.emitter().emit(expression)?;
                self.as_type(emitted, typed.data_type)
            }
            Operand::Foreign(expression) => Ok(expression),
        }
    }

    /// The expression with its type where that would not show otherwise: of texts, and of NULL.
    fn as_type(&self, expression: Expr, data_type: Option<DataType>) -> Result<Expr> {
        let Some(known) = data_type else { return Ok(expression) };
        let (_, field) = expression.to_field(self.schema.as_ref())?;
        let is_null = *field.data_type() == ArrowType::Null;
        if let (DataType::Text, Expr::Literal(ScalarValue::Utf8(Some(text)), _)) = (known, &expression) {
            return Ok(lit(ScalarValue::Utf8View(Some(text.clone()))));
        }
        let is_untold = is_told(known) && field_type(&field) != Some(known);
        // What is computed of a time with a precision, or merged with others, has none.
        let is_mistold = told_type(&field)
            .is_some_and(|told| told != known && (told.of_any_precision() == known || is_of_bits(known)))
            || known == DataType::Text
                && told_type(&field).is_some_and(|told| told != known && told.is_text());
        if is_mistold && !is_null && !is_told(known) {
            return Ok(coalesce(vec![expression]));
        }
        Ok(match is_untold || is_null {
            true if is_null && matches!(expression, Expr::Literal(..)) && !is_list_type(data_type) => {
                with_told_type(ScalarValue::try_from(wide_type(known))?, known)
            }
            true => {
                let field = with_type(Field::new("", wide_type(known), true), known);
                Expr::Cast(Cast::new_from_field(Box::new(expression), Arc::new(field)))
            }
            false => expression,
        })
    }

    /// The operand as a value of that type.
    pub(super) fn emit_as(&mut self, operand: Operand, data_type: DataType) -> Result<Expr> {
        match operand {
            Operand::Typed(typed) if typed.data_type == Some(data_type) => self.emit(Operand::Typed(typed)),
            Operand::Typed(typed) if typed.data_type.map(DataType::of_any_precision) == Some(data_type) => {
                self.emit(Operand::Typed(Typed::new(typed.expression, data_type)))
            }
            Operand::Typed(typed) if let DataType::System(SystemType::List(list)) = data_type => {
                match typed.data_type {
                    None => self.as_list(typed, list),
                    Some(_) => {
                        let operand = self.emit(Operand::Typed(typed))?;
                        self.list_as(operand, list)
                    }
                }
            }
            Operand::Typed(typed) => {
                let is_text = typed.data_type.is_some_and(DataType::is_text) && data_type.is_text();
                let resolved = match is_text {
                    // This value, but to be shown as another type.
                    true => Expression::Cast(Box::new(typed.expression), data_type),
                    false => self.binder().resolve(typed, data_type).map_err(refused)?,
                };
                let resolved = fold(resolved).map_err(external)?;
                let emitted = self.emitter().emit(resolved)?;
                match emitted.get_type(self.schema.as_ref())? {
                    _ if is_of_bits(data_type) => self.as_type(emitted, Some(data_type)),
                    found if found == wide_type(data_type) || found == ArrowType::Utf8 => Ok(emitted),
                    _ => Ok(cast(emitted, wide_type(data_type))),
                }
            }
            Operand::Foreign(expression) => match data_type {
                DataType::System(SystemType::List(list)) => self.list_as(expression, list),
                _ => Ok(cast(expression, wide_type(data_type))),
            },
        }
    }

    /// The operands as values of one type.
    pub(super) fn emit_merged(&mut self, operands: Vec<Operand>, what: &str) -> Result<Vec<Expr>> {
        match all_typed(operands) {
            Ok(typed) => {
                let (_, common) = self.binder().merge(typed.clone(), what).map_err(refused)?;
                let types: Vec<Option<DataType>> = typed.iter().map(|item| item.data_type).collect();
                let common = of_own_scales(common, &types);
                typed.into_iter().map(|item| self.emit_as(Operand::Typed(item), common)).collect()
            }
            Err(operands) => self.as_one_list(operands, what),
        }
    }

    pub(super) fn condition(&mut self, expression: &Expr, clause: &str) -> Result<Expression> {
        match self.read(expression)? {
            Operand::Typed(typed) => self.binder().condition(typed, clause).map_err(refused),
            Operand::Foreign(foreign) => {
                let data_type = foreign.get_type(self.schema.as_ref())?;
                let message = format!("argument of {clause} must be type boolean, not type {data_type}");
                Err(external(Error::new(SqlState::DatatypeMismatch, message)))
            }
        }
    }

    pub(super) fn read(&mut self, expression: &Expr) -> Result<Operand> {
        match expression {
            Expr::Alias(alias) => self.read(&alias.expr),
            Expr::Literal(value, _) => self.literal(value, expression),
            Expr::Placeholder(placeholder) => self.parameter(placeholder),
            Expr::OuterReferenceColumn(_, column) => {
                let found = self.typing.outer.iter().rev().find_map(|schema| {
                    schema.qualified_field_from_column(column).ok().map(|(_, field)| field.clone())
                });
                self.leaf(match found {
                    Some(field) => Expr::OuterReferenceColumn(field, column.clone()),
                    None => expression.clone(),
                })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => self.binary(*op, left, right),
            Expr::ScalarFunction(call) => match written::operator(call) {
                Some(symbol) => self.binary(operator(symbol), &call.args[0], &call.args[1]),
                None => self.function(call),
            },
            Expr::Not(operand) => {
                let operand = self.condition(operand, "NOT")?;
                boolean(Expression::Not(Box::new(operand)))
            }
            Expr::IsNull(operand) => self.is_null(operand, true),
            Expr::IsNotNull(operand) => self.is_null(operand, false),
            Expr::IsUnknown(operand) => self.is_unknown(operand, true),
            Expr::IsNotUnknown(operand) => self.is_unknown(operand, false),
            Expr::IsTrue(operand) => self.is_boolean(operand, true, false),
            Expr::IsNotTrue(operand) => self.is_boolean(operand, true, true),
            Expr::IsFalse(operand) => self.is_boolean(operand, false, false),
            Expr::IsNotFalse(operand) => self.is_boolean(operand, false, true),
            Expr::Negative(operand) => self.negative(operand),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::Like(like) => self.like(like, like_syntax(like)),
            Expr::SimilarTo(like) => self.like(like, PatternSyntax::Similar),
            Expr::Case(case) => self.case(case),
            Expr::Cast(cast) => self.cast(cast),
            Expr::AggregateFunction(_) | Expr::WindowFunction(_) => {
                let call = self.group_call(expression)?;
                self.leaf(call)
            }
            Expr::ScalarSubquery(subquery) => {
                if let Some(value) = without_query(subquery, self.schema)? {
                    return self.read(&value);
                }
                let subquery = self.typing.value_subquery(subquery, self.schema)?;
                self.leaf(single::value_of(subquery)?)
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let subquery = self.typing.subquery(subquery, self.schema)?;
                self.leaf(Expr::Exists(Exists { subquery, negated: *negated }))
            }
            Expr::InSubquery(in_subquery) => self.in_subquery(in_subquery),
            Expr::SetComparison(comparison) => {
                let subquery = self.typing.value_subquery(&comparison.subquery, self.schema)?;
                let operand = self.beside_subquery(&comparison.expr, &subquery.subquery)?;
                let (operand, subquery) = keyed::beside_numbers(operand, subquery, self.schema)?;
                let operand = keyed::ordered(operand, self.schema)?;
                let subquery = keyed::looked_for(subquery)?;
                self.leaf(Expr::SetComparison(SetComparison::new(
                    Box::new(operand),
                    subquery,
                    comparison.op,
                    comparison.quantifier,
                )))
            }
            other => self.leaf(other.clone()),
        }
    }

    /// Something that bound expressions do not look into, as a column of theirs.
    pub(super) fn leaf(&mut self, expression: Expr) -> Result<Operand> {
        let (_, field) = expression.to_field(self.schema.as_ref())?;
        if *field.data_type() == ArrowType::Null {
            let typed = Typed { expression: self.column(expression), data_type: None };
            return Ok(Operand::Typed(typed));
        }
        let Some(data_type) = field_type(&field) else { return Ok(Operand::Foreign(expression)) };
        let is_canonical = data_type.is_text()
            || matches!(data_type, DataType::Numeric { .. })
            || *field.data_type() == wide_type(data_type);
        let expression = match is_canonical {
            true => expression,
            false => cast(expression, wide_type(data_type)),
        };
        Ok(Operand::Typed(Typed::new(self.column(expression), data_type)))
    }

    pub(super) fn column(&mut self, leaf: Expr) -> Expression {
        self.leaves.push(leaf);
        Expression::Column(self.leaves.len() - 1)
    }

    fn literal(&mut self, value: &ScalarValue, whole: &Expr) -> Result<Operand> {
        let typed = |value, data_type| Ok(Operand::Typed(Typed::new(Expression::Literal(value), data_type)));
        let unknown =
            |value| Ok(Operand::Typed(Typed { expression: Expression::Literal(value), data_type: None }));
        match value {
            ScalarValue::Null => unknown(Value::Null),
            ScalarValue::Utf8(Some(text)) => unknown(Value::text(text.as_str())),
            ScalarValue::Boolean(Some(value)) => typed(Value::Boolean(*value), DataType::Boolean),
            ScalarValue::Int64(Some(value)) => match i32::try_from(*value) {
                Ok(value) => typed(Value::Integer(value), DataType::Integer),
                Err(_) => typed(Value::BigInt(*value), DataType::BigInt),
            },
            ScalarValue::IntervalMonthDayNano(Some(value)) => {
                let microseconds = value.nanoseconds / 1000;
                let interval = Interval::new(value.months, value.days, microseconds);
                typed(Value::Interval(interval), DataType::INTERVAL)
            }
            ScalarValue::UInt64(Some(value)) => self.decimal(i128::from(*value), 0, whole),
            ScalarValue::Decimal128(Some(value), _, scale) => self.decimal(*value, *scale, whole),
            _ => self.leaf(whole.clone()),
        }
    }

    fn decimal(&mut self, unscaled: i128, scale: i8, whole: &Expr) -> Result<Operand> {
        let zeros = 10i128.checked_pow(u32::from(scale.min(0).unsigned_abs()));
        let unscaled = zeros.and_then(|zeros| unscaled.checked_mul(zeros));
        match (unscaled, u8::try_from(scale.max(0))) {
            (Some(unscaled), Ok(scale @ 0..=38)) if unscaled.unsigned_abs() < 10u128.pow(38) => {
                let value = Value::Numeric(Decimal::new(unscaled, scale));
                let data_type = DataType::Numeric { precision: 38, scale };
                Ok(Operand::Typed(Typed::new(Expression::Literal(value), data_type)))
            }
            _ => self.leaf(whole.clone()),
        }
    }

    fn parameter(&mut self, placeholder: &Placeholder) -> Result<Operand> {
        let position = crate::olap::parameter::position(&placeholder.id)?;
        let data_type = self.typing.parameters.mention(position);
        if let Some(DataType::System(SystemType::List(_))) = data_type {
            return Ok(Operand::Foreign(self.emitter().emit(Expression::Parameter(position))?));
        }
        Ok(Operand::Typed(Typed { expression: Expression::Parameter(position), data_type }))
    }

    /// A binary operator. Chains such as `a + b + c` are long on the left, so they are read in a loop.
    fn binary(&mut self, op: Operator, left: &Expr, right: &Expr) -> Result<Operand> {
        if matches!(op, Operator::And | Operator::Or) {
            return self.junction(op, left, right);
        }
        let (mut pending, mut first) = (vec![(op, right)], left);
        while let Some((op, left, right)) = operands(first) {
            if matches!(op, Operator::And | Operator::Or) {
                break;
            }
            pending.push((op, right));
            first = left;
        }
        let mut whole = self.read(first)?;
        while let Some((op, right)) = pending.pop() {
            let right = self.read(right)?;
            whole = self.applied(op, whole, right)?;
        }
        Ok(whole)
    }

    /// The operator over operands that were read.
    pub(super) fn applied(&mut self, op: Operator, left: Operand, right: Operand) -> Result<Operand> {
        let (left, right) = match op {
            Operator::StringConcat => (self.as_shown(left)?, self.as_shown(right)?),
            _ => (left, right),
        };
        let (left, right) = match (self.as_null(left), self.as_null(right)) {
            (Operand::Typed(left), Operand::Typed(right)) => (left, right),
            (left, right) => {
                let (left, right) = self.as_lists(left, right)?;
                if let Some(compared) = self.compared_lists(op, &left, &right)? {
                    return self.leaf(compared);
                }
                let is_concat = op == Operator::StringConcat;
                if !is_concat {
                    self.check_lists(&format!("{op}"), [&left, &right])?;
                }
                let pair = vec![left, right];
                let pair = if is_concat { self.of_one_type("||", pair)? } else { pair };
                let mut pair = pair.into_iter().map(|side| self.emit(side)).collect::<Result<Vec<_>>>()?;
                if is_concat {
                    pair = self.with_scales(pair)?;
                }
                let (Some(right), Some(left)) = (pair.pop(), pair.pop()) else { return Err(no_operands()) };
                let native = native(op, left, right, self.schema)?;
                return self.leaf(native);
            }
        };
        let (left, right) = self.with_digits(op, left, right)?;
        let (raw_left, raw_right) = (left.clone(), right.clone());
        let mut binder = self.binder();
        let bound = match op {
            Operator::Eq => binder.compare(Comparison::Equal, left, right),
            Operator::NotEq => binder.compare(Comparison::NotEqual, left, right),
            Operator::Lt => binder.compare(Comparison::Less, left, right),
            Operator::LtEq => binder.compare(Comparison::LessOrEqual, left, right),
            Operator::Gt => binder.compare(Comparison::Greater, left, right),
            Operator::GtEq => binder.compare(Comparison::GreaterOrEqual, left, right),
            Operator::Plus => binder.arithmetic(Arithmetic::Add, left, right),
            Operator::Minus => binder.arithmetic(Arithmetic::Subtract, left, right),
            Operator::Multiply => binder.arithmetic(Arithmetic::Multiply, left, right),
            Operator::Divide => binder.arithmetic(Arithmetic::Divide, left, right),
            Operator::Modulo => binder.arithmetic(Arithmetic::Modulo, left, right),
            Operator::StringConcat => binder.concatenate_values(left, right),
            Operator::IsDistinctFrom => binder.distinct_values(left, right, false),
            Operator::IsNotDistinctFrom => binder.distinct_values(left, right, true),
            _ => Err(Refusal::Elsewhere(format!("the operator {op}"))),
        };
        match bound {
            Ok(typed) if is_null(&raw_left) || is_null(&raw_right) => self.with_type_told(typed),
            Ok(typed) => Ok(Operand::Typed(typed)),
            Err(Refusal::Failed(error)) => Err(external(error)),
            Err(Refusal::Elsewhere(_)) => {
                let (left, right) = self.both_bytes(op, raw_left, raw_right)?;
                let left = self.emitter().emit(left.expression)?;
                let right = self.emitter().emit(right.expression)?;
                let native = native(op, left, right, self.schema)?;
                self.leaf(native)
            }
        }
    }

    /// The operands of `||`; one without a type beside a bytea is one, too.
    fn both_bytes(&mut self, op: Operator, left: Typed, right: Typed) -> Result<(Typed, Typed)> {
        const BYTES: Option<DataType> = Some(DataType::Bytea);
        let mut as_bytes = |typed: Typed| -> Result<Typed> {
            let expression = self.binder().resolve(typed, DataType::Bytea).map_err(refused)?;
            Ok(Typed::new(expression, DataType::Bytea))
        };
        Ok(match (op, left.data_type, right.data_type) {
            (Operator::StringConcat, BYTES, None) => (left, as_bytes(right)?),
            (Operator::StringConcat, None, BYTES) => (as_bytes(left)?, right),
            _ => (left, right),
        })
    }

    /// A chain of ANDs or of ORs, as one flat list.
    fn junction(&mut self, op: Operator, left: &Expr, right: &Expr) -> Result<Operand> {
        let mut pending = vec![right, left];
        let mut operands = Vec::new();
        while let Some(expression) = pending.pop() {
            match expression {
                Expr::BinaryExpr(BinaryExpr { left, op: inner, right }) if *inner == op => {
                    pending.extend([&**right, &**left]);
                }
                operand => operands.push(self.condition(operand, &op.to_string())?),
            }
        }
        boolean(match op {
            Operator::And => Expression::And(operands),
            _ => Expression::Or(operands),
        })
    }

    fn function(&mut self, call: &ScalarFunction) -> Result<Operand> {
        if let Some(done) = self.operator_call(call)? {
            return Ok(done);
        }
        let name = call.func.name();
        let operands = call.args.iter().map(|argument| self.read(named_relation(name, argument)));
        let mut operands = operands.collect::<Result<Vec<_>>>()?;
        if takes_relation(name)
            && let Some(Operand::Typed(relation)) = operands.first()
            && relation.data_type.is_none_or(DataType::is_text)
        {
            operands[0] = self.cast_to_object(relation.clone(), ObjectKind::Class)?;
        }
        if let Some(merged) = self.merged_lists(name, &operands)? {
            return Ok(merged);
        }
        let called = self.written_call(name, &operands)?;
        if unknown_function::is_one(&call.func) {
            return Err(external(match name.strip_prefix(unknown_function::OPERATOR) {
                Some(symbol) => self.undefined_operator(symbol, &operands)?,
                None => undefined_function(&called),
            }));
        }
        if let Some(operator) = between_lists(name)
            && operands.iter().any(is_list)
        {
            return self.binary(operator, &call.args[0], &call.args[1]);
        }
        match self.own_call(name, operands)? {
            Ok(done) => Ok(done),
            Err(operands) => self.library_call(call, operands, &called),
        }
    }

    /// The call, if it is of an operator that is written as one, or looks at its operands otherwise than functions do.
    fn operator_call(&mut self, call: &ScalarFunction) -> Result<Option<Operand>> {
        let name = call.func.name();
        if let (Some((comparison, quantifier, _)), [_, _]) = (quantified::by_name(name), call.args.as_slice())
        {
            return self.quantified(comparison, quantifier, call).map(Some);
        }
        let done = match (name, call.args.as_slice()) {
            (CAST | CELL, [operand, _]) => self.read(operand),
            (NEGATED, [operand]) => self.negative(operand),
            (POSITIVE, [operand]) => match self.read(operand)? {
                Operand::Typed(typed) => typed_or_error(self.binder().number_operand("+", typed)),
                foreign => Ok(foreign),
            },
            (DISTINCT, [left, right]) => self.binary(Operator::IsDistinctFrom, left, right),
            (NOT_DISTINCT, [left, right]) => self.binary(Operator::IsNotDistinctFrom, left, right),
            (OVERLAP, [left, right]) => self.overlap(left, right),
            ("pg_typeof", [argument]) => self.type_of(argument),
            _ => return Ok(None),
        };
        done.map(Some)
    }

    /// The type of an expression, which is not computed.
    fn type_of(&mut self, argument: &Expr) -> Result<Operand> {
        let name = match self.read(argument)? {
            // By its number, wherever it is.
            Operand::Typed(Typed { data_type: Some(DataType::Enum(labels)), .. }) => labels.oid().to_string(),
            // What a domain was cast to is of that, until something is computed of it.
            Operand::Typed(Typed { expression: Expression::Call(Function::Domain(test), _), .. }) => {
                test.0.identity.oid().to_string()
            }
            Operand::Typed(typed) => typed.data_type.map_or("unknown".to_owned(), type_name),
            Operand::Foreign(foreign) => match self.list_type(&foreign)? {
                Ok(ListType::Enum(labels)) => labels.list_oid().to_string(),
                Ok(list) => SystemType::List(list).name().to_owned(),
                Err(other) => return Err(external(not_supported(&format!("pg_typeof of {other}")))),
            },
        };
        let name = Typed { expression: Expression::Literal(Value::text(name)), data_type: None };
        self.cast_to_object(name, ObjectKind::Type)
    }

    fn is_null(&mut self, operand: &Expr, null: bool) -> Result<Operand> {
        match self.read(operand)? {
            Operand::Typed(typed) => boolean(library::is_null(typed, null).expression),
            Operand::Foreign(foreign) => {
                self.leaf(if null { foreign.is_null() } else { foreign.is_not_null() })
            }
        }
    }

    fn is_unknown(&mut self, operand: &Expr, unknown: bool) -> Result<Operand> {
        let operand = self.condition(operand, "IS UNKNOWN")?;
        boolean(Expression::IsNull(Box::new(operand), unknown))
    }

    fn is_boolean(&mut self, operand: &Expr, value: bool, negated: bool) -> Result<Operand> {
        let operand = self.condition(operand, if value { "IS TRUE" } else { "IS FALSE" })?;
        boolean(Expression::IsBoolean(Box::new(operand), value, negated))
    }

    fn negative(&mut self, operand: &Expr) -> Result<Operand> {
        let operand = self.read(operand)?;
        match self.as_null(operand) {
            Operand::Typed(typed) => typed_or_error(self.binder().negate(typed)),
            Operand::Foreign(foreign) => self.leaf(Expr::Negative(Box::new(foreign))),
        }
    }

    fn between(&mut self, between: &Between) -> Result<Operand> {
        let operands = [&between.expr, &between.low, &between.high];
        let operands = operands.into_iter().map(|operand| self.read(operand)).collect::<Result<Vec<_>>>()?;
        match all_typed(operands) {
            Ok(typed) => {
                let [value, low, high]: [Typed; 3] = typed.try_into().map_err(|_| no_operands())?;
                let low = self.binder().compare(Comparison::GreaterOrEqual, value.clone(), low);
                let low = low.map_err(refused)?;
                let value = self.as_found(value);
                let high = self.binder().compare(Comparison::LessOrEqual, value, high).map_err(refused)?;
                let inside = Expression::And(vec![low.expression, high.expression]);
                boolean(if between.negated { Expression::Not(Box::new(inside)) } else { inside })
            }
            Err(operands) => {
                let [value, low, high]: [Operand; 3] = operands.try_into().map_err(|_| no_operands())?;
                let bounds = vec![(Operator::GtEq, low), (Operator::LtEq, high)];
                self.compared_to_all(&value, bounds, Expr::and, between.negated)
            }
        }
    }

    fn in_list(&mut self, list: &InList) -> Result<Operand> {
        let operand = self.read(&list.expr)?;
        let items = list.list.iter().map(|item| self.read(item)).collect::<Result<Vec<_>>>()?;
        match (operand, all_typed(items)) {
            (Operand::Typed(operand), Ok(items)) => {
                typed_or_error(self.binder().in_values(operand, items, list.negated))
            }
            (operand, items) => {
                let items = match items {
                    Ok(typed) => typed.into_iter().map(Operand::Typed).collect(),
                    Err(operands) => operands,
                };
                let items = items.into_iter().map(|item: Operand| (Operator::Eq, item)).collect();
                self.compared_to_all(&operand, items, Expr::or, list.negated)
            }
        }
    }

    fn like(&mut self, like: &Like, syntax: PatternSyntax) -> Result<Operand> {
        let (text, pattern) = (self.read(&like.expr)?, self.read(&like.pattern)?);
        match (text, pattern) {
            (Operand::Typed(text), Operand::Typed(pattern)) => {
                let escape = Some(like.escape_char.unwrap_or('\\'));
                typed_or_error(self.binder().like_values(text, pattern, escape, like.negated, syntax))
            }
            (text, pattern) => {
                let (text, pattern) = (Box::new(self.emit(text)?), Box::new(self.emit(pattern)?));
                let native = Like::new(like.negated, text, pattern, like.escape_char, like.case_insensitive);
                match syntax {
                    PatternSyntax::Similar => self.leaf(Expr::SimilarTo(native)),
                    _ => self.leaf(Expr::Like(native)),
                }
            }
        }
    }

    pub(super) fn cast(&mut self, whole: &Cast) -> Result<Operand> {
        let list = match whole.field.data_type() {
            ArrowType::List(items) => list_type(items.data_type(), told_type(&whole.field)),
            _ => None,
        };
        if let Some(ListType::Limited(limit)) = list {
            return self.cast_limited(&whole.expr, limit);
        }
        let operand = self.read(&whole.expr)?;
        let operand = self.as_constant(operand);
        let operand = match (operand, field_type(&whole.field)) {
            (Operand::Typed(Typed { expression: Expression::Literal(Value::Text(text)), .. }), _)
                if let Some(list) = list =>
            {
                let typed = Typed { expression: Expression::Literal(Value::Text(text)), data_type: None };
                let constant = self.as_list(typed, list)?;
                return self.leaf(constant);
            }
            (Operand::Typed(typed @ Typed { expression: Expression::Parameter(_), data_type: None }), _)
                if let Some(list) = list =>
            {
                let parameter = self.as_list(typed, list)?;
                return self.leaf(parameter);
            }
            (Operand::Typed(typed), Some(DataType::System(SystemType::Object(kind)))) => {
                return self.cast_to_object(typed, kind);
            }
            (
                operand @ Operand::Typed(Typed {
                    data_type: Some(DataType::System(SystemType::Object(_))),
                    ..
                }),
                Some(target),
            ) if target.is_text() => self.as_shown(operand)?,
            (Operand::Foreign(foreign), Some(target)) if target.is_text() => {
                match self.list_type(&foreign)? {
                    Ok(known) => self.leaf(list_text(known, foreign))?,
                    Err(ArrowType::List(items)) if let Some(known) = innermost(items.data_type()) => {
                        self.leaf(list_text(known, foreign))?
                    }
                    Err(_) => Operand::Foreign(foreign),
                }
            }
            (operand, _) => operand,
        };
        match (operand, field_type(&whole.field)) {
            (Operand::Typed(typed), Some(target)) => {
                let bound = match *whole.field.data_type() == UNCONSTRAINED_NUMERIC {
                    true => self.binder().cast_to_numeric(typed),
                    false => self.binder().cast(typed, target),
                };
                let bound = bound.map_err(refused)?;
                // A constant whose type would not show is a leaf that has it.
                let constant = match &bound.expression {
                    Expression::Literal(Value::Null) => ScalarValue::try_from(wide_type(target))?,
                    Expression::Literal(Value::Text(text)) => ScalarValue::Utf8View(Some(text.to_string())),
                    _ => return Ok(Operand::Typed(bound)),
                };
                Ok(Operand::Typed(Typed::new(self.column(with_told_type(constant, target)), target)))
            }
            (operand, _) => self.cast_list(operand, list, whole),
        }
    }

    /// A name or a number as what stands for an object.
    fn cast_to_object(&mut self, typed: Typed, kind: ObjectKind) -> Result<Operand> {
        let target = DataType::System(SystemType::Object(kind));
        let is_text = typed.data_type.is_none_or(DataType::is_text);
        if is_text && !matches!(typed.expression, Expression::Literal(Value::Null)) {
            let name = self.binder().cast(typed, DataType::Text).map_err(refused)?;
            return self.system_call(input_function(kind), name);
        }
        let number = self.binder().cast(typed, OID).map_err(refused)?;
        let emitted = self.emit(Operand::Typed(number))?;
        let field = with_type(Field::new("", wide_type(target), true), target);
        self.leaf(Expr::Cast(Cast::new_from_field(Box::new(emitted), Arc::new(field))))
    }

    /// An array as a value with its type.
    pub(super) fn as_array(&mut self, operand: Operand) -> Result<Operand> {
        let Operand::Foreign(expression) = operand else { return Ok(operand) };
        Ok(match self.list_type(&expression)? {
            Ok(list) => {
                let data_type = DataType::System(SystemType::List(list));
                Operand::Typed(Typed::new(self.column(expression), data_type))
            }
            Err(_) => Operand::Foreign(expression),
        })
    }

    /// An object of the catalog as the text that clients see; other operands as they are.
    pub(super) fn as_shown(&mut self, operand: Operand) -> Result<Operand> {
        match operand {
            Operand::Typed(Typed {
                expression,
                data_type: Some(DataType::System(SystemType::Object(kind))),
            }) => self.system_call(output_function(kind), Typed::new(expression, OID)),
            other => Ok(other),
        }
    }

    /// A call of a function of the system catalog.
    fn system_call(&mut self, name: &str, argument: Typed) -> Result<Operand> {
        let argument = self.emit(Operand::Typed(argument))?;
        let function = (self.typing.functions)(name).ok_or_else(|| external(undefined_function(name)))?;
        self.leaf(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![argument])))
    }

    pub(super) fn emitted(&mut self, expression: &Expr) -> Result<Expr> {
        let operand = self.read(expression)?;
        self.emit(operand)
    }

    pub(super) fn emitted_all(&mut self, expressions: &mut [Expr]) -> Result<()> {
        for expression in expressions {
            *expression = self.emitted(expression)?;
        }
        Ok(())
    }

    /// An aggregate or window function's call, which stays one: nodes of plans look for it. Anything else is emitted.
    pub(super) fn group_call(&mut self, expression: &Expr) -> Result<Expr> {
        match expression {
            Expr::Alias(alias) => self.group_call(&alias.expr),
            Expr::AggregateFunction(aggregate) => self.aggregate(aggregate),
            Expr::WindowFunction(window) => self.window(window),
            other => self.emitted(other),
        }
    }

    fn in_subquery(&mut self, whole: &InSubquery) -> Result<Operand> {
        let subquery = self.typing.value_subquery(&whole.subquery, self.schema)?;
        let operand = self.beside_subquery(&whole.expr, &subquery.subquery)?;
        let (operand, subquery) = keyed::beside_numbers(operand, subquery, self.schema)?;
        let operand = Box::new(keyed::ordered(operand, self.schema)?);
        let subquery = keyed::looked_for(subquery)?;
        self.leaf(Expr::InSubquery(InSubquery { expr: operand, subquery, negated: whole.negated }))
    }

    /// The operand as it is compared with a subquery's column.
    fn beside_subquery(
        &mut self,
        operand: &Expr,
        subquery: &Arc<datafusion::logical_expr::LogicalPlan>,
    ) -> Result<Expr> {
        let field: &Field = subquery.schema().field(0);
        match (self.read(operand)?, field_type(field)) {
            (Operand::Typed(typed), Some(item)) => {
                let items = Typed::new(Expression::Column(usize::MAX), item);
                let pair = self.binder().comparable(typed.clone(), items, "=").map_err(refused)?;
                let (expression, data_type) = match typed.data_type {
                    // A constant takes the column's type; other types meet by DataFusion's rules.
                    None => (pair.0, item),
                    Some(known) => (convert(typed, known).map_err(refused)?, known),
                };
                // What is the same for all rows is a constant before DataFusion plans a join for the subquery.
                let emitted = self.emitter().emit(fold(expression).map_err(external)?)?;
                match emitted {
                    Expr::Literal(ref value, _) if value.is_null() => self.as_type(emitted, Some(data_type)),
                    _ => Ok(emitted),
                }
            }
            (operand, _) => self.emit(operand),
        }
    }
}

fn is_null(typed: &Typed) -> bool {
    matches!(typed.expression, Expression::Literal(Value::Null))
}

/// The operands of a binary operator.
fn operands(expression: &Expr) -> Option<(Operator, &Expr, &Expr)> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Some((*op, left, right)),
        Expr::ScalarFunction(call) => {
            Some((operator(written::operator(call)?), &call.args[0], &call.args[1]))
        }
        _ => None,
    }
}

pub(super) fn boolean(expression: Expression) -> Result<Operand> {
    Ok(Operand::Typed(Typed::new(expression, DataType::Boolean)))
}

fn typed_or_error(bound: std::result::Result<Typed, Refusal>) -> Result<Operand> {
    bound.map(Operand::Typed).map_err(refused)
}

fn no_operands() -> datafusion::error::DataFusionError {
    external(Error::internal("an operator lacks an operand"))
}

/// All operands, unless one is foreign.
pub(super) fn all_typed(operands: Vec<Operand>) -> std::result::Result<Vec<Typed>, Vec<Operand>> {
    if operands.iter().any(|operand| matches!(operand, Operand::Foreign(_))) {
        return Err(operands);
    }
    Ok(operands
        .into_iter()
        .filter_map(|operand| match operand {
            Operand::Typed(typed) => Some(typed),
            Operand::Foreign(_) => None,
        })
        .collect())
}

fn operator(symbol: &str) -> Operator {
    match symbol {
        "+" => Operator::Plus,
        "-" => Operator::Minus,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Modulo,
        "||" => Operator::StringConcat,
        "=" => Operator::Eq,
        "<>" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        "&&" => Operator::And,
        "|||" => Operator::Or,
        _ => Operator::GtEq,
    }
}

/// The type of the lists whose items are no lists, of lists within lists.
pub(super) fn innermost(list: &ArrowType) -> Option<ListType> {
    let ArrowType::List(items) = list else { return None };
    match items.data_type() {
        within @ ArrowType::List(_) => innermost(within),
        item => list_type(item, None),
    }
}

/// How the pattern of a LIKE or ILIKE is read.
fn like_syntax(like: &Like) -> PatternSyntax {
    if like.case_insensitive { PatternSyntax::Ilike } else { PatternSyntax::Like }
}

/// The operator as DataFusion has it.
fn native(op: Operator, left: Expr, right: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    use datafusion::functions_nested::expr_fn::array_has_all;
    let types = (left.get_type(schema.as_ref())?, right.get_type(schema.as_ref())?);
    let are_lists = matches!(types, (ArrowType::List(_), ArrowType::List(_)));
    match op {
        Operator::AtArrow | Operator::ArrowAt if are_lists => {
            // The library's function finds that NULL contains the empty list.
            let is_known = left.clone().is_not_null().and(right.clone().is_not_null());
            let (whole, part) = if op == Operator::AtArrow { (left, right) } else { (right, left) };
            return when(is_known, array_has_all(known_items::call(whole), part)).end();
        }
        _ => {}
    }
    if op == Operator::StringConcat {
        use datafusion::functions_nested::expr_fn::{array_append, array_concat, array_prepend};
        match &types {
            // A NULL beside an array is an array, and adds nothing.
            (ArrowType::List(_), ArrowType::Null) => return Ok(left),
            (ArrowType::Null, ArrowType::List(_)) => return Ok(right),
            (ArrowType::List(_), ArrowType::List(_)) => return Ok(array_concat(vec![left, right])),
            (ArrowType::List(_), _) => return Ok(array_append(left, right)),
            (_, ArrowType::List(_)) => return Ok(array_prepend(left, right)),
            _ => {}
        }
    }
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}
