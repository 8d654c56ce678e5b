//! Bound expressions as SQL text, for EXPLAIN: in PostgreSQL's form, with a parenthesis around every operator.

use crate::expression::library::{JSONB_KEY, OPERATOR};
use crate::expression::{ArrayFunction, Expression, Function};
use ankerdb_engine::{DataType, Table, Value};
use ankerdb_value::format_text;

/// Writes expressions over the columns of a table, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Deparser<'a>(pub Option<&'a Table>);

impl Deparser<'_> {
    /// The expression as text.
    pub(super) fn text(self, expression: &Expression) -> String {
        let pair = |operator: &str, pair: &(Expression, Expression)| {
            format!("({} {operator} {})", self.text(&pair.0), self.text(&pair.1))
        };
        let is = |operand: &Expression, what: &str| format!("({} IS {what})", self.text(operand));
        match expression {
            Expression::Column(column) => self.column(*column),
            Expression::Parameter(number) => format!("${}", number + 1),
            Expression::Literal(value) => literal(value),
            Expression::Cast(operand, to) => format!("({})::{to}", self.text(operand)),
            Expression::Arithmetic(operator, operands) => pair(operator.symbol(), operands),
            Expression::Compare(operator, operands) => pair(operator.symbol(), operands),
            Expression::Concatenate(operands) => pair("||", operands),
            Expression::Distinct(operands, false) => pair("IS DISTINCT FROM", operands),
            Expression::Distinct(operands, true) => pair("IS NOT DISTINCT FROM", operands),
            Expression::Negate(operand) => format!("(- {})", self.text(operand)),
            Expression::And(list) => self.all(list),
            Expression::Or(list) => format!("({})", self.list(list, " OR ")),
            Expression::Not(operand) => format!("(NOT {})", self.text(operand)),
            Expression::IsNull(operand, true) => is(operand, "NULL"),
            Expression::IsNull(operand, false) => is(operand, "NOT NULL"),
            Expression::IsBoolean(operand, value, negated) => {
                let not = if *negated { "NOT " } else { "" };
                is(operand, &format!("{not}{}", if *value { "TRUE" } else { "FALSE" }))
            }
            Expression::InList(operand, list, negated) => {
                format!("({} {}IN ({}))", self.text(operand), not(*negated), self.list(list, ", "))
            }
            Expression::InSubquery(operand, number, negated) => {
                format!("({} {}IN (SubPlan {}))", self.text(operand), not(*negated), number + 1)
            }
            Expression::Quantified(comparison, quantifier, operands) => {
                let (operand, array) = (self.text(&operands.0), self.text(&operands.1));
                format!("({operand} {} {} ({array}))", comparison.symbol(), quantifier.word())
            }
            Expression::Like(like) => {
                let operator = like.syntax.words();
                let (text, pattern) = (self.text(&like.text), self.text(&like.pattern));
                format!("({text} {}{operator} {pattern})", not(like.negated))
            }
            Expression::Case(branches, otherwise) => {
                let when = |(condition, result): &(Expression, Expression)| {
                    format!("WHEN {} THEN {} ", self.text(condition), self.text(result))
                };
                let branches: String = branches.iter().map(when).collect();
                format!("CASE {branches}ELSE {} END", self.text(otherwise))
            }
            Expression::Coalesce(list) => format!("COALESCE({})", self.list(list, ", ")),
            Expression::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// Conditions that all hold.
    pub(super) fn all(self, conditions: &[Expression]) -> String {
        format!("({})", self.list(conditions, " AND "))
    }

    /// The name of a column; in ON CONFLICT DO UPDATE those behind the table's are of the row that was to be inserted.
    pub(super) fn column(self, column: usize) -> String {
        let columns = self.0.map_or(&[][..], Table::columns);
        match (columns.get(column), column.checked_sub(columns.len()).and_then(|nth| columns.get(nth))) {
            (Some(column), _) => identifier(&column.name),
            (None, Some(column)) => format!("excluded.{}", identifier(&column.name)),
            (None, None) => format!("column {column}"),
        }
    }

    fn call(self, function: Function, arguments: &[Expression]) -> String {
        match function {
            Function::Subquery(number) => format!("(SubPlan {})", number + 1),
            Function::Exists(number) => format!("EXISTS(SubPlan {})", number + 1),
            Function::Now | Function::CurrentDate | Function::LocalTimestamp => function.name().to_owned(),
            _ if function.name() == JSONB_KEY => self.list(arguments, ", "),
            Function::Array(ArrayFunction::Subscript, _) => {
                let (array, positions) = arguments.split_first().expect("it has an array");
                let positions = positions.iter().map(|position| format!("[{}]", self.text(position)));
                format!("({}){}", self.text(array), positions.collect::<String>())
            }
            Function::Array(ArrayFunction::Slice(bounds), _) => {
                let (array, positions) = arguments.split_first().expect("it has an array");
                let positions = positions.iter().map(|position| self.text(position));
                format!("({}){}", self.text(array), bounds.text(positions))
            }
            _ => match (function.name().strip_prefix(OPERATOR), arguments) {
                (Some(operator), [left, right]) => {
                    format!("({} {operator} {})", self.text(left), self.text(right))
                }
                _ => format!("{}({})", function.name(), self.list(arguments, ", ")),
            },
        }
    }

    fn list(self, expressions: &[Expression], between: &str) -> String {
        expressions.iter().map(|expression| self.text(expression)).collect::<Vec<_>>().join(between)
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

/// A constant: numbers and booleans as they are, other values in quotes with their type.
fn literal(value: &Value) -> String {
    let mut text = String::new();
    format_text(value, DataType::Text, &mut text);
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::SmallInt(_) | Value::Integer(_) | Value::BigInt(_) | Value::Numeric(_) | Value::Number(_)
            if !text.starts_with('-') =>
        {
            text
        }
        _ => format!("'{}'::{}", text.replace('\'', "''"), value.type_name()),
    }
}

/// A name, in double quotes if SQL needs them.
pub(super) fn identifier(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}
