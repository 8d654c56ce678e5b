//! Arrays in DataFusion's expressions, where they are lists: constants, parameters, and comparisons with their items.

use super::keyed::as_number;
use super::read::{Operand, Reader, boolean, innermost, is_unknown};
use super::taken::is_of_labels;
use super::{refused, undefined_function};
use crate::expression::notation::OVERLAP;
use crate::expression::quantified::no_array;
use crate::expression::types::alternative_type;
use crate::expression::{Comparison, Expression, Quantifier, Typed, fold, library};
use crate::name::not_supported;
use crate::olap::arrow::{computed_type, wide_type};
use crate::olap::error::external;
use crate::olap::value::{list_type, sql_type, told_type, with_type};
use crate::olap::{known_items, list_cast, list_order, quantified};
use ankerdb_engine::{DataType, Error, ItemLimit, ListType, SqlState, SystemType, Value};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, when};
use std::cmp::Ordering;
use std::sync::Arc;

impl Reader<'_, '_> {
    /// A comparison with any or all items of a list.
    pub(super) fn quantified(
        &mut self,
        comparison: Comparison,
        quantifier: Quantifier,
        call: &ScalarFunction,
    ) -> Result<Operand> {
        let (operand, list) = (self.read(&call.args[0])?, self.read(&call.args[1])?);
        let Operand::Typed(operand) = operand else {
            return Err(external(not_supported("an array as an item of an array")));
        };
        let untold = self.binder().untold_array(&operand);
        let list = match (list, untold) {
            (Operand::Typed(Typed { expression: Expression::Literal(Value::Null), data_type: None }), _) => {
                return boolean(Expression::Literal(Value::Null));
            }
            (Operand::Typed(typed @ Typed { data_type: None, .. }), Some(list)) => {
                self.as_list(typed, list)?
            }
            (Operand::Typed(_), _) => return Err(external(no_array())),
            (Operand::Foreign(list), _) => list,
        };
        let list_type = match self.list_type(&list)? {
            Ok(known) => known,
            Err(ArrowType::List(_)) => return Err(external(not_supported("an array of such items"))),
            Err(_) => return Err(external(no_array())),
        };
        let (list, list_type) = match (operand.data_type, list_type) {
            // Compared as chars, blanks at the end cut off.
            (Some(DataType::Char(_)), ListType::Varchar) => {
                (list_cast::call(list, ListType::Bpchar), ListType::Bpchar)
            }
            _ => (list, list_type),
        };
        let operand = self.binder().beside_items(comparison, operand, list_type).map_err(refused)?;
        let operand = fold(operand).map_err(external)?;
        let operand = self.emitter().emit(operand)?;
        self.leaf(quantified::call(comparison, quantifier, operand, list))
    }

    /// The type of the array that is made of such items, where Arrow's does not tell it.
    pub(super) fn told_of_items(&self, items: &[Operand]) -> Option<ListType> {
        let types = items.iter().filter_map(|item| match item {
            Operand::Typed(typed) => typed.data_type,
            Operand::Foreign(_) => None,
        });
        let common = types.map(Some).reduce(|left, right| alternative_type(left?, right?))??;
        ListType::of(common).filter(|list| matches!(list, ListType::Varchar | ListType::Bpchar))
    }

    /// The type of an array; Arrow's, where it is none or has items of no type here.
    pub(super) fn list_type(&self, list: &Expr) -> Result<std::result::Result<ListType, ArrowType>> {
        let (_, field) = list.to_field(self.schema.as_ref())?;
        let known = match field.data_type() {
            ArrowType::List(items) => list_type(items.data_type(), told_type(&field)),
            _ => None,
        };
        Ok(known.ok_or_else(|| field.data_type().clone()))
    }

    /// COALESCE and its like over arrays, if it is one.
    ///
    /// # Errors
    /// 42804 for arrays of different types.
    pub(super) fn merged_lists(&mut self, name: &str, operands: &[Operand]) -> Result<Option<Operand>> {
        let is_merge = matches!(name, "coalesce" | "nullif" | "greatest" | "least");
        if !is_merge || !operands.iter().any(|operand| matches!(operand, Operand::Foreign(_))) {
            return Ok(None);
        }
        let Some(function) = (self.typing.functions)(name) else { return Ok(None) };
        if let ("nullif", [left, right]) = (name, operands) {
            // It compares, which only arrays of one type can be.
            self.compared_lists(Operator::Eq, left, right)?;
        }
        let lists = self.as_one_list(operands.to_vec(), &name.to_uppercase())?;
        if let Some(keyed) = self.merged_by_order(name, &lists)? {
            return self.leaf(keyed).map(Some);
        }
        let told = self.common_list(lists.iter())?;
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, lists));
        self.leaf(match told {
            Some(list) if list != ListType::Numeric => told_list(call, list),
            _ => call,
        })
        .map(Some)
    }

    /// NULLIF, GREATEST and LEAST of lists that do not compare as they lie.
    fn merged_by_order(&self, name: &str, lists: &[Expr]) -> Result<Option<Expr>> {
        let [first, others @ ..] = lists else { return Ok(None) };
        let known = first.get_type(self.schema.as_ref())?;
        if !list_order::is_keyed(&known) {
            return Ok(None);
        }
        Ok(match (name, others) {
            ("nullif", [other]) => {
                let is_equal = list_order::call(Comparison::Equal, first.clone(), other.clone());
                let null = Expr::Literal(ScalarValue::try_from(&known)?, None);
                Some(when(is_equal, null).otherwise(first.clone())?)
            }
            ("greatest", _) => Some(list_order::extreme(Ordering::Greater, lists.to_vec())),
            ("least", _) => Some(list_order::extreme(Ordering::Less, lists.to_vec())),
            _ => None,
        })
    }

    /// `value BETWEEN low AND high` and `value IN (items)` of arrays: as the comparisons that they stand for.
    pub(super) fn compared_to_all(
        &mut self,
        value: &Operand,
        others: Vec<(Operator, Operand)>,
        joins: impl Fn(Expr, Expr) -> Expr,
        is_negated: bool,
    ) -> Result<Operand> {
        let mut whole: Option<Expr> = None;
        for (op, other) in others {
            let compared = self.applied(op, value.clone(), other)?;
            let compared = self.emit(compared)?;
            whole = Some(match whole {
                Some(before) => joins(before, compared),
                None => compared,
            });
        }
        let whole = whole.ok_or_else(|| external(Error::internal("a list of operands is empty")))?;
        self.leaf(if is_negated { !whole } else { whole })
    }

    /// The operands, one of which is an array, as arrays of one type: that of alternatives among the types of their items.
    ///
    /// # Errors
    /// 42846 for arrays whose items have none, 42804 for values that are no arrays.
    pub(super) fn as_one_list(&mut self, operands: Vec<Operand>, what: &str) -> Result<Vec<Expr>> {
        let mut common: Option<ListType> = None;
        for operand in &operands {
            let list = match operand {
                Operand::Foreign(list) => self.list_type(list)?.ok(),
                Operand::Typed(Typed {
                    data_type: Some(DataType::System(SystemType::List(list))), ..
                }) => Some(*list),
                Operand::Typed(_) => None,
            };
            let Some(list) = list else { continue };
            let Some(known) = common.filter(|known| *known != list) else {
                common = Some(list);
                continue;
            };
            let (known, list) = (SystemType::List(known), SystemType::List(list));
            let both = alternative_type(DataType::System(known), DataType::System(list));
            let Some(DataType::System(SystemType::List(both))) = both else {
                let message = format!("{what} could not convert type {list} to {known}");
                return Err(external(Error::new(SqlState::CannotCoerce, message)));
            };
            common = Some(both);
        }
        let each = operands.into_iter().map(|operand| match (operand, common) {
            (Operand::Typed(typed), Some(list)) => match typed.data_type {
                None => self.as_list(typed, list),
                Some(DataType::System(SystemType::List(_))) => {
                    let operand = self.emit(Operand::Typed(typed))?;
                    self.list_as(operand, list)
                }
                Some(known) => {
                    let message =
                        format!("{what} types {} and {known} cannot be matched", SystemType::List(list));
                    Err(external(Error::new(SqlState::DatatypeMismatch, message)))
                }
            },
            (Operand::Foreign(operand), Some(list)) => self.list_as(operand, list),
            (operand, None) => self.emit(operand),
        });
        let lists = each.collect::<Result<Vec<_>>>()?;
        self.with_scales(lists)
    }

    /// An array as one of another type.
    pub(super) fn list_as(&self, operand: Expr, list: ListType) -> Result<Expr> {
        Ok(match self.list_type(&operand)? {
            Ok(own) if own.unlimited() == list.unlimited() => operand,
            Ok(_) if list == ListType::Numeric => list_cast::call(operand, list),
            Ok(_) => told_list(list_cast::call(operand, list), list),
            Err(_) => operand,
        })
    }

    /// Lists of numerics, and items that are put to them, that have several scales: each item keeps its own. Others are as they are.
    pub(super) fn with_scales(&self, operands: Vec<Expr>) -> Result<Vec<Expr>> {
        let mut types = Vec::with_capacity(operands.len());
        for operand in &operands {
            types.push(operand.get_type(self.schema.as_ref())?);
        }
        let item = |known: &ArrowType| match known {
            ArrowType::List(items) => items.data_type().clone(),
            known => known.clone(),
        };
        let is_numeric = |known: &ArrowType| match known {
            ArrowType::List(items) => list_type(items.data_type(), None) == Some(ListType::Numeric),
            ArrowType::Null => true,
            known => sql_type(known).is_exact(),
        };
        let is_one = types.windows(2).all(|pair| item(&pair[0]) == item(&pair[1]));
        if is_one || !types.iter().all(is_numeric) {
            return Ok(operands);
        }
        let each = operands.into_iter().zip(types).map(|(operand, known)| match (item(&known), known) {
            (ArrowType::LargeBinary | ArrowType::Null, _) => operand,
            (_, ArrowType::List(_)) => list_cast::call(operand, ListType::Numeric),
            _ => as_number(operand),
        });
        Ok(each.collect())
    }

    /// The type that those of the expressions have which are not NULL, if all are arrays of one type that Arrow's does not tell.
    pub(super) fn common_list<'e>(
        &self,
        expressions: impl Iterator<Item = &'e Expr>,
    ) -> Result<Option<ListType>> {
        let mut common = None;
        for expression in expressions.filter(|expression| !is_unknown(expression)) {
            let (_, field) = expression.to_field(self.schema.as_ref())?;
            let Some(DataType::System(SystemType::List(list))) = told_type(&field) else { return Ok(None) };
            if common.is_some_and(|common| common != list) {
                return Ok(None);
            }
            common = Some(list);
        }
        Ok(common)
    }

    /// The comparison of two arrays, if it is one that the library makes otherwise.
    ///
    /// # Errors
    /// 42883 for arrays of different types.
    pub(super) fn compared_lists(
        &mut self,
        op: Operator,
        left: &Operand,
        right: &Operand,
    ) -> Result<Option<Expr>> {
        let is_null = |operand: &Operand| {
            matches!(
                operand,
                Operand::Typed(Typed { expression: Expression::Literal(Value::Null), data_type: None })
            )
        };
        if is_comparison(op) && (is_null(left) || is_null(right)) {
            return Ok(Some(Expr::Literal(ScalarValue::Boolean(None), None)));
        }
        let (Operand::Foreign(left), Operand::Foreign(right)) = (left, right) else { return Ok(None) };
        let (Ok(left_type), Ok(right_type)) = (self.list_type(left)?, self.list_type(right)?) else {
            return Ok(None);
        };
        let is_native = !list_order::is_keyed(&left.get_type(self.schema.as_ref())?)
            && !list_order::is_keyed(&right.get_type(self.schema.as_ref())?);
        let comparison = match op {
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            Operator::NotEq if !is_native => Comparison::NotEqual,
            Operator::Eq | Operator::NotEq => Comparison::Equal,
            Operator::IsDistinctFrom if !is_native => return distinct(left, right).map(Some),
            Operator::IsNotDistinctFrom if !is_native => {
                return distinct(left, right).map(|distinct| Some(!distinct));
            }
            _ => return Ok(None),
        };
        // Numbers of objects are those of bigints, and their arrays come as such.
        if wide_type(left_type.item_type()) != wide_type(right_type.item_type()) {
            let (left, right) = (SystemType::List(left_type), SystemType::List(right_type));
            let message = format!("operator does not exist: {left} {op} {right}");
            let hint = "No operator matches the given name and argument types. You might need to add explicit type casts.";
            return Err(external(Error::new(SqlState::UndefinedFunction, message).with_hint(hint)));
        }
        let is_native = is_native && comparison == Comparison::Equal;
        Ok((!is_native).then(|| list_order::call(comparison, left.clone(), right.clone())))
    }

    /// A constant or a parameter without a type as a list.
    pub(super) fn as_list(&mut self, typed: Typed, list: ListType) -> Result<Expr> {
        let data_type = DataType::System(SystemType::List(list));
        let resolved = self.binder().resolve(typed, data_type).map_err(refused)?;
        Ok(match self.emitter().emit(resolved)? {
            // Types of text do not show otherwise.
            Expr::Literal(constant, None)
                if list != ListType::Text && wide_type(list.item_type()) == ArrowType::Utf8View =>
            {
                let field = with_type(Field::new("", computed_type(data_type), true), data_type);
                Expr::Literal(constant, Some(FieldMetadata::from(field.metadata().clone())))
            }
            other => other,
        })
    }

    /// A cast of what is no value of ours, or to a list.
    pub(super) fn cast_list(
        &mut self,
        operand: Operand,
        list: Option<ListType>,
        whole: &Cast,
    ) -> Result<Operand> {
        let operand = self.emit(operand)?;
        let target = match (list, self.list_type(&operand)?) {
            (Some(target), Ok(own)) if own != target && [own, target].into_iter().any(is_of_labels) => {
                Some(target)
            }
            (Some(target), Err(ArrowType::List(items))) if innermost(items.data_type()).is_some() => {
                Some(target)
            }
            // Each list of numerics has a scale of its own, or its items have.
            (Some(ListType::Numeric), Ok(ListType::Numeric)) => return self.leaf(operand),
            (Some(ListType::Numeric), Ok(_)) => Some(ListType::Numeric),
            _ => None,
        };
        self.leaf(match target {
            Some(target) => list_cast::call(operand, target),
            None => Expr::Cast(Cast::new_from_field(Box::new(operand), whole.field.clone())),
        })
    }

    /// A cast to an array whose items have a limit: to the array without it, and then of each item.
    pub(super) fn cast_limited(&mut self, operand: &Expr, limit: ItemLimit) -> Result<Operand> {
        let limited = ListType::Limited(limit);
        let unlimited = DataType::System(SystemType::List(limited.unlimited()));
        let field = with_type(Field::new("", computed_type(unlimited), true), unlimited);
        let list = self.cast(&Cast::new_from_field(Box::new(operand.clone()), Arc::new(field)))?;
        let cast = list_cast::call(self.emit(list)?, limited);
        // Numerics tell their type, and have a scale that the type without a limit has not.
        let is_told = !matches!(limited.unlimited(), ListType::Numeric);
        self.leaf(if is_told { told_list(cast, limited.unlimited()) } else { cast })
    }

    /// `left && right`, of lists.
    pub(super) fn overlap(&mut self, left: &Expr, right: &Expr) -> Result<Operand> {
        let (left, right) = (self.read(left)?, self.read(right)?);
        let (left, right) = match (left, right) {
            (Operand::Typed(left), Operand::Typed(right)) => {
                let overlap = library::call(&mut self.binder(), OVERLAP, vec![left, right]);
                return overlap.map(Operand::Typed).map_err(refused);
            }
            other => other,
        };
        let (left, right) = self.as_lists(left, right)?;
        let are_lists = matches!((&left, &right), (Operand::Foreign(_), Operand::Foreign(_)));
        if !are_lists {
            return Err(external(undefined_function("&&")));
        }
        let (left, right) = (self.emit(left)?, self.emit(right)?);
        self.leaf(datafusion::functions_nested::expr_fn::array_has_any(known_items::call(left), right))
    }

    /// A constant or parameter without a type beside a list is a list, too.
    pub(super) fn as_lists(&mut self, left: Operand, right: Operand) -> Result<(Operand, Operand)> {
        let items = |operand: &Operand| match operand {
            Operand::Foreign(list) => match list.get_type(self.schema.as_ref()) {
                Ok(ArrowType::List(items)) => Some(items),
                _ => None,
            },
            Operand::Typed(_) => None,
        };
        let mut list = |operand: Operand, items: Option<Arc<Field>>| {
            let list = items.and_then(|items| list_type(items.data_type(), None));
            match (operand, list) {
                (
                    Operand::Typed(
                        typed @ Typed {
                            expression: Expression::Literal(Value::Text(_)) | Expression::Parameter(_),
                            data_type: None,
                        },
                    ),
                    Some(list),
                ) => Ok(Operand::Foreign(self.as_list(typed, list)?)),
                (operand, _) => Ok::<Operand, DataFusionError>(operand),
            }
        };
        let (of_left, of_right) = (items(&left), items(&right));
        Ok((list(left, of_right)?, list(right, of_left)?))
    }
}

/// Whether two lists differ, of which a NULL is equal to another.
fn distinct(left: &Expr, right: &Expr) -> Result<Expr> {
    let are_known = left.clone().is_not_null().and(right.clone().is_not_null());
    let differ = list_order::call(Comparison::NotEqual, left.clone(), right.clone());
    when(are_known, differ).otherwise(left.clone().is_null().not_eq(right.clone().is_null()))
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Operators of documents that lists have, too.
pub(super) fn between_lists(name: &str) -> Option<Operator> {
    match name {
        "operator @>" => Some(Operator::AtArrow),
        "operator <@" => Some(Operator::ArrowAt),
        _ => None,
    }
}

/// The array as one of the type, which it is.
pub(super) fn told_list(list: Expr, data_type: ListType) -> Expr {
    let data_type = DataType::System(SystemType::List(data_type));
    let field = with_type(Field::new("", computed_type(data_type), true), data_type);
    Expr::Cast(Cast::new_from_field(Box::new(list), Arc::new(field)))
}
