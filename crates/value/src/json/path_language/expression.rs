//! Arithmetic and methods.

use super::super::string::unescaped;
use super::super::walk::JsonKind;
use super::item::{Base, Found, PathFailure, PathItem, StepScope};
use super::moment;
use super::offset::Offsets;
use super::run::{PartCursor, PathResult, PathWork, Pending, Run, item_error};
use super::syntax::{Arithmetic, Method, NodeId};
use crate::Number;
use crate::float::parse_double;
use ankerdb_base::SqlState;
use std::rc::Rc;

/// What ids of objects count their bases by.
const BASE_FACTOR: u64 = 10_000_000_000;

impl Method {
    /// Whether lax mode applies it to the elements of an array.
    pub(super) fn takes_elements(self) -> bool {
        !matches!(self, Method::Type | Method::Size)
    }
}

impl<'a> Run<'a> {
    /// The result of an operator for one number on each side.
    pub(super) fn arithmetic(
        &self,
        operator: Arithmetic,
        left: NodeId,
        right: NodeId,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
    ) -> PathResult<PathItem<'a>> {
        let left = self.operand(left, true, item, scope)?;
        let right = self.operand(right, true, item, scope)?;
        let number = |found: &Found<'a>, side: &str| match found.single(JsonKind::Number) {
            Some(number) => Ok(Number::parse(number.text())?),
            None => {
                let symbol = operator.symbol();
                let message =
                    format!("{side} operand of jsonpath operator {symbol} is not a single numeric value");
                Err(item_error(SqlState::SingletonSqlJsonItemRequired, message))
            }
        };
        let (left, right) = (number(&left, "left")?, number(&right, "right")?);
        let result = match operator {
            Arithmetic::Add => left.checked_add(&right),
            Arithmetic::Subtract => left.checked_sub(&right),
            Arithmetic::Multiply => left.checked_mul(&right),
            Arithmetic::Divide => left.checked_div(&right),
            Arithmetic::Modulo => left.checked_rem(&right),
        };
        result.map(|number| PathItem::made(number.to_string())).map_err(PathFailure::Item)
    }

    /// The numbers of an operand with a sign in front of them.
    pub(super) fn signed(
        &self,
        is_minus: bool,
        operand: NodeId,
        next: Option<NodeId>,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let found = self.operand(operand, true, item, scope)?;
        let is_last_test = work.found.is_test && next.is_none();
        let mut results = Vec::with_capacity(found.items.len());
        let mut failure = None;
        for item in found.items {
            self.functions.check()?;
            if !item.is(JsonKind::Number) {
                // Whether there is a number is seen without looking at what else there is.
                if is_last_test {
                    continue;
                }
                let symbol = if is_minus { "-" } else { "+" };
                let message = format!("operand of unary jsonpath operator {symbol} is not a numeric value");
                failure = Some(ankerdb_base::Error::new(SqlState::SqlJsonNumberNotFound, message));
                break;
            }
            results.push(match is_minus {
                true => PathItem::made(Number::parse(item.text())?.negated().to_string()),
                false => item,
            });
        }
        if next.is_none() {
            work.found.items.append(&mut results);
            return failure.map_or(Ok(()), |error| Err(PathFailure::Item(error)));
        }
        work.stack.extend(failure.map(Pending::Fail));
        results.into_iter().rev().for_each(|item| self.pass(next, item, scope, work));
        Ok(())
    }

    /// A method without arguments.
    pub(super) fn method(
        &self,
        method: Method,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let result = match method {
            Method::Type => PathItem::made(format!("\"{}\"", type_name(&item))),
            Method::Size => match self.size(&item, scope)? {
                Some(size) => PathItem::made(size.to_string()),
                None => return Ok(()),
            },
            Method::Double => double(item)?,
            Method::Ceiling | Method::Floor | Method::Abs => rounded(method, &item)?,
            Method::KeyValue => return self.pairs(next, item, scope, work),
        };
        self.pass(next, result, scope, work);
        Ok(())
    }

    fn size(&self, item: &PathItem<'a>, scope: &StepScope<'a>) -> PathResult<Option<usize>> {
        match item.count() {
            Some(count) => Ok(Some(count)),
            None if self.path.is_lax => Ok(Some(1)),
            None if scope.ignores_structure => Ok(None),
            None => {
                let message = "jsonpath item method .size() can only be applied to an array";
                Err(item_error(SqlState::SqlJsonArrayNotFound, message))
            }
        }
    }

    /// `.keyvalue()`. The id of an object is its position in a binary `jsonb` of PostgreSQL, behind the number of its base.
    fn pairs(
        &self,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        if !item.is(JsonKind::Object) {
            let message = "jsonpath item method .keyvalue() can only be applied to an object";
            return Err(item_error(SqlState::SqlJsonObjectNotFound, message));
        }
        if item.text() == "{}" {
            return Ok(());
        }
        let offset = self.offset(&item, &scope.base)?;
        let id = (scope.base.id.saturating_mul(BASE_FACTOR).saturating_add(offset)).to_string();
        work.stack.push(Pending::Pairs { parts: self.all_parts(item, next, scope), id });
        Ok(())
    }

    /// The binary position of an object in its base. Those of all objects are found out for the first one that is not the base
    /// itself.
    fn offset(&self, item: &PathItem<'a>, base: &Base<'a>) -> PathResult<u64> {
        let text = item.offset_in(&base.root);
        if text == 0 {
            return Ok(0);
        }
        let mut known = self.offsets.borrow_mut();
        match &*known {
            Some((id, offsets)) if *id == base.id => Ok(offsets.binary(text)),
            _ => {
                let (_, offsets) = known.insert((base.id, Offsets::of(base.root.text())?));
                Ok(offsets.binary(text))
            }
        }
    }

    /// One of several pairs.
    pub(super) fn pair(
        &self,
        mut parts: PartCursor<'a>,
        id: String,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let Some((value, key)) = parts.read() else { return Ok(()) };
        let text = match &value {
            PathItem::Moment(_) => String::new(),
            value => format!("{{\"id\": {id}, \"key\": {key}, \"value\": {}}}", value.text()),
        };
        let pair = PathItem::made(text);
        let number = self.next_id.get();
        self.next_id.set(number + 1);
        let base = Base { id: number, root: pair.clone() };
        let within = Rc::new(StepScope { base, ..StepScope::clone(&parts.scope) });
        let next = parts.next;
        work.stack.push(Pending::Pairs { parts, id });
        self.pass(next, pair, &within, work);
        Ok(())
    }
}

/// The name that `.type()` gives.
fn type_name(item: &PathItem<'_>) -> &'static str {
    match (item, item.kind()) {
        (PathItem::Moment(moment), _) => moment::type_name(*moment),
        (_, Some(kind)) => kind.name(),
        (_, None) => "null",
    }
}

/// A number that a double can be, as it is; a string as the double that it says.
fn double(item: PathItem<'_>) -> PathResult<PathItem<'_>> {
    let refused = |message: &'static str| Err(item_error(SqlState::NonNumericSqlJsonItem, message));
    match item.kind() {
        Some(JsonKind::Number) => match parse_double(item.text()) {
            Ok(value) if value.is_finite() => Ok(item),
            _ => refused(
                "numeric argument of jsonpath item method .double() is out of range for type double precision",
            ),
        },
        Some(JsonKind::String) => match parse_double(&unescaped(item.text())?) {
            Ok(value) if value.is_finite() => Ok(PathItem::made(Number::from_f64(value).to_string())),
            _ => refused(
                "string argument of jsonpath item method .double() is not a valid representation of a double precision number",
            ),
        },
        _ => refused("jsonpath item method .double() can only be applied to a string or numeric value"),
    }
}

fn rounded<'a>(method: Method, item: &PathItem<'a>) -> PathResult<PathItem<'a>> {
    if !item.is(JsonKind::Number) {
        let name = method.name();
        let message = format!("jsonpath item method .{name}() can only be applied to a numeric value");
        return Err(item_error(SqlState::NonNumericSqlJsonItem, message));
    }
    let number = Number::parse(item.text())?;
    let result = match method {
        Method::Ceiling => number.ceil()?,
        Method::Floor => number.floor()?,
        _ => number.abs(),
    };
    Ok(PathItem::made(result.to_string()))
}
