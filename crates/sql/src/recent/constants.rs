//! Which constants of a statement may be parameters.
//!
//! A parameter of a constant's type is the same to planning and running wherever only its type and value count. That is so for
//!
//! - an operand of a comparison with a column, or with what a function gives (BETWEEN, IN and LIKE are some, too): in a query anywhere, elsewhere in WHERE,
//! - a value of INSERT,
//! - what UPDATE sets a column to, or adds to a column, subtracts from or multiplies it by.
//!
//! A number has the type that its digits tell; a string without a type gets that of the column beside it, for a parameter as for a
//! constant, and becomes a value of it by the same rules; with a type before it (`date '2024-01-02'`) it has that. Anywhere else a constant may be more than its value: a place in ORDER BY, a
//! part of a column's name or of an interval, the number of digits that a type keeps, a reason to refuse.

use super::outline::{Constant, ConstantKind, Outline};
use crate::expression::types::data_type;
use crate::visit::{Work, visit};
use ankerdb_engine::DataType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, SetExpr, Statement, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::tokenizer::Location;

/// A statement with parameters in place of constants.
pub(crate) struct Substituted {
    pub statement: Statement,
    /// For each constant its text if it stays; `None` for the next parameter.
    pub fixed: Box<[Option<Box<str>>]>,
    /// The types of the parameters, as far as the constants tell them.
    pub declared: Vec<Option<DataType>>,
}

impl Substituted {
    /// The statement of a text of this outline with parameters for the numbers in it that may be some, and for the strings. `None` if there
    /// are none such.
    pub(crate) fn new(
        statement: &Statement,
        text: &str,
        outline: &Outline,
        with_strings: bool,
    ) -> Option<Substituted> {
        let mut statement = statement.clone();
        let mut constants = Places::of(text, outline.constants());
        constants.find_plain(&mut statement);
        constants.count(&mut statement);
        let chosen = |place: &Place| {
            place.plain == 1 && place.all == 1 && (with_strings || place.constant.kind != ConstantKind::Text)
        };
        let mut declared = Vec::new();
        let mut fixed = Vec::with_capacity(constants.0.len());
        for place in &mut constants.0 {
            if chosen(place) {
                declared.push(place.told.or(place.constant.data_type(text)));
                place.parameter = Some(declared.len());
                fixed.push(None);
            } else {
                fixed.push(Some(place.constant.written(text).into()));
            }
        }
        if declared.is_empty() {
            return None;
        }
        visit(&mut statement, &mut Replace(&constants));
        Some(Substituted { statement, fixed: fixed.into(), declared })
    }

    /// What finds a statement again whose constants all belong to it.
    pub(crate) fn all_fixed(text: &str, outline: &Outline) -> Box<[Option<Box<str>>]> {
        outline.constants().iter().map(|constant| Some(constant.written(text).into())).collect()
    }
}

/// A constant, and where it stands in the tree.
struct Place<'t> {
    constant: &'t Constant,
    text: &'t str,
    start: Location,
    /// How often it stands in the tree where it may be a parameter, and at all.
    plain: usize,
    all: usize,
    /// The type that is written before it.
    told: Option<DataType>,
    /// Its number, if it becomes one.
    parameter: Option<usize>,
}

/// The constant that an expression is, and the type that is written before it; `None` if it is none of a type that reads strings in the usual way.
fn written(expression: &Expr) -> Option<(&ValueWithSpan, Option<DataType>)> {
    match expression {
        Expr::Value(value) => Some((value, None)),
        Expr::TypedString(typed) if !typed.uses_odbc_syntax => match data_type(&typed.data_type).ok()? {
            told @ (DataType::Date | DataType::Timestamp(_)) => Some((&typed.value, Some(told))),
            _ => None,
        },
        _ => None,
    }
}

impl Place<'_> {
    fn is_at(&self, value: &ValueWithSpan) -> bool {
        value.span.start == self.start
            && match &value.value {
                Value::Number(digits, _) => {
                    self.constant.kind != ConstantKind::Text && digits == self.constant.written(self.text)
                }
                Value::SingleQuotedString(string) => {
                    self.constant.kind == ConstantKind::Text && *string == self.constant.content(self.text)
                }
                _ => false,
            }
    }
}

/// The constants of a text.
struct Places<'t>(Vec<Place<'t>>);

impl<'t> Places<'t> {
    fn of(text: &'t str, constants: &'t [Constant]) -> Places<'t> {
        let (mut line, mut line_start) = (1, 0);
        let place = |constant: &'t Constant| {
            while let Some(length) = text[line_start..constant.at.start].find('\n') {
                (line, line_start) = (line + 1, line_start + length + 1);
            }
            let column = text[line_start..constant.at.start].chars().count() as u64 + 1;
            let start = Location { line, column };
            Place { constant, text, start, plain: 0, all: 0, told: None, parameter: None }
        };
        Places(constants.iter().map(place).collect())
    }

    /// Counts where constants may be parameters.
    fn find_plain(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Query(_) => visit(statement, &mut Comparisons(self)),
            Statement::Insert(insert) => {
                let Some(SetExpr::Values(values)) = insert.source.as_ref().map(|source| source.body.as_ref())
                else {
                    return;
                };
                let items = values.rows.iter().flat_map(|row| row.content.iter());
                items.for_each(|item| self.operand(item, true));
            }
            Statement::Update(update) => {
                update.assignments.iter().for_each(|assignment| self.assigned(&assignment.value));
                self.condition(update.selection.as_ref());
            }
            Statement::Delete(delete) => self.condition(delete.selection.as_ref()),
            _ => {}
        }
    }

    /// Counts all places in which constants stand.
    fn count(&mut self, statement: &mut Statement) {
        visit(statement, &mut Count(self));
    }

    fn condition(&mut self, condition: Option<&Expr>) {
        use BinaryOperator::{And, Or};
        let Some(condition) = condition else { return };
        match condition {
            Expr::BinaryOp { left, op: And | Or, right } => {
                self.condition(Some(left));
                self.condition(Some(right));
            }
            Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
                self.condition(Some(inner));
            }
            other => self.comparison(other),
        }
    }

    /// Counts constants of an expression that compares.
    fn comparison(&mut self, expression: &Expr) {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        match expression {
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
                self.beside_column(left, right, true);
            }
            Expr::Between { expr, low, high, .. } if is_column(expr) => {
                self.operand(low, true);
                self.operand(high, true);
            }
            Expr::InList { expr, list, .. } if is_column(expr) => {
                list.iter().for_each(|item| self.operand(item, true));
            }
            Expr::Like { expr, pattern, escape_char: None, any: false, .. } if is_column(expr) => {
                self.operand(pattern, true);
            }
            _ => {}
        }
    }

    fn assigned(&mut self, value: &Expr) {
        use BinaryOperator::{Minus, Multiply, Plus};
        match value {
            // Which operator it is depends on the type, which a string does not have.
            Expr::BinaryOp { left, op: Plus | Minus | Multiply, right } => {
                self.beside_column(left, right, false);
            }
            value => self.operand(value, true),
        }
    }

    fn beside_column(&mut self, left: &Expr, right: &Expr, may_be_string: bool) {
        if is_column(left) {
            self.operand(right, may_be_string);
        } else if is_column(right) {
            self.operand(left, may_be_string);
        }
    }

    /// Notes a constant, perhaps with a sign.
    fn operand(&mut self, operand: &Expr, may_be_string: bool) {
        let (value, may_be_string) = match operand {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => (expr.as_ref(), false),
            value => (value, may_be_string),
        };
        let Some((value, told)) = written(value) else { return };
        let found = self.0.iter_mut().find(|place| place.is_at(value));
        if let Some(place) = found.filter(|place| may_be_string || place.constant.kind != ConstantKind::Text)
        {
            place.plain += 1;
            place.told = told;
        }
    }
}

/// Whether an expression has a type of its own, which a string beside it takes: a column, or what a function gives.
fn is_column(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Function(_)
            | Expr::Substring { .. }
            | Expr::Extract { .. }
    )
}

/// Counts constants of all comparisons.
struct Comparisons<'p, 't>(&'p mut Places<'t>);

impl Work for Comparisons<'_, '_> {
    fn expression(&mut self, expression: &mut Expr) {
        self.0.comparison(expression);
    }
}

struct Count<'p, 't>(&'p mut Places<'t>);

impl Work for Count<'_, '_> {
    fn expression(&mut self, expression: &mut Expr) {
        let Some((value, _)) = written(expression) else { return };
        if let Some(place) = self.0.0.iter_mut().find(|place| place.start == value.span.start) {
            place.all += 1;
        }
    }
}

struct Replace<'p, 't>(&'p Places<'t>);

impl Work for Replace<'_, '_> {
    fn expression(&mut self, expression: &mut Expr) {
        let Some((value, _)) = written(expression) else { return };
        let number = self.0.0.iter().find(|place| place.is_at(value)).and_then(|place| place.parameter);
        if let Some(number) = number {
            let span = value.span;
            *expression = Expr::Value(Value::Placeholder(format!("${number}")).with_span(span));
        }
    }
}
