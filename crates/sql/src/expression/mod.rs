//! Expressions of the OLTP path: names resolved, types settled, ready to be evaluated row by row.
//!
//! [`bind`] turns a parsed expression into an [`Expression`], [`evaluate`] computes one. The operands of every
//! operator already have types that it takes: casts are explicit nodes. AND and OR are flat lists, so that long
//! chains are no deep trees.

mod alternatives;
mod array;
mod array_assignment;
pub(crate) mod array_function;
mod array_slice;
pub(crate) mod bind;
pub(crate) mod clause_order;
pub(crate) mod cost;
pub(crate) mod document;
pub(crate) mod evaluate;
pub(crate) mod fold;
pub(crate) mod function;
pub(crate) mod labels;
pub(crate) mod library;
mod math;
pub(crate) mod moments;
pub(crate) mod notation;
pub(crate) mod operator;
pub(crate) mod pattern;
pub(crate) mod quantified;
pub(crate) mod regex;
mod sequences;
mod session_call;
mod similar;
mod temporal;
pub(crate) mod text;
pub(crate) mod types;
pub(crate) mod zone;
mod zone_abbreviation;

pub(crate) use array_function::ArrayFunction;
pub(crate) use bind::{Binder, Parameters, Refusal, Scope, Typed};
pub(crate) use evaluate::{Context, evaluate, is_true};
pub(crate) use fold::fold;
pub(crate) use function::Function;
pub(crate) use math::Math;
pub(crate) use quantified::Quantifier;
pub(crate) use sequences::{NoSequences, Sequences};
pub(crate) use session_call::{LockAction, LockCall, SessionCalls, SessionFunction};
pub(crate) use temporal::Temporal;

use ankerdb_engine::{ColumnSet, DataType, Value};

/// A bound expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// The row's value in the column at this position. In ON CONFLICT DO UPDATE, positions from the table's
    /// column count on are the row that was to be inserted.
    Column(usize),
    /// The statement's parameter, counted from 0. Numbers past the statement's own stand for the results of
    /// subqueries that run before it.
    Parameter(usize),
    Literal(Value),
    Cast(Box<Expression>, DataType),
    Arithmetic(Arithmetic, Box<(Expression, Expression)>),
    Negate(Box<Expression>),
    Compare(Comparison, Box<(Expression, Expression)>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    /// `IS [NOT] NULL`; true if the operand's being NULL is as the flag says.
    IsNull(Box<Expression>, bool),
    /// `IS [NOT] TRUE / FALSE`: whether the operand is the value (first flag), negated or not (second flag).
    IsBoolean(Box<Expression>, bool, bool),
    /// `IS DISTINCT FROM`, or with `true` `IS NOT DISTINCT FROM`.
    Distinct(Box<(Expression, Expression)>, bool),
    /// `IN`, or with `true` `NOT IN`.
    InList(Box<Expression>, Vec<Expression>, bool),
    /// `IN` the rows that the numbered subquery gave, or with `true` `NOT IN`.
    InSubquery(Box<Expression>, usize, bool),
    /// A comparison with any or all items of an array, the second operand.
    Quantified(Comparison, Quantifier, Box<(Expression, Expression)>),
    Like(Box<Like>),
    /// Conditions with results, and the result if none holds.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
    Coalesce(Vec<Expression>),
    Concatenate(Box<(Expression, Expression)>),
    Call(Function, Vec<Expression>),
}

/// `LIKE` and its variants, and `SIMILAR TO`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub text: Expression,
    pub pattern: Expression,
    pub escape: Option<char>,
    pub syntax: PatternSyntax,
    pub negated: bool,
}

/// How a pattern is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PatternSyntax {
    Like,
    /// Without regard to upper and lower case.
    Ilike,
    /// SQL's regular expressions.
    Similar,
}

impl PatternSyntax {
    /// The words of SQL.
    pub(crate) fn words(self) -> &'static str {
        match self {
            PatternSyntax::Like => "LIKE",
            PatternSyntax::Ilike => "ILIKE",
            PatternSyntax::Similar => "SIMILAR TO",
        }
    }
}

/// Arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    /// The symbol, as SQL writes it.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The symbol, as SQL writes it.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    /// The operator with its operands exchanged.
    pub(crate) fn flipped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }
}

impl Expression {
    /// The operands, in order.
    pub(crate) fn operands(&self) -> Vec<&Expression> {
        match self {
            Expression::Column(_) | Expression::Parameter(_) | Expression::Literal(_) => Vec::new(),
            Expression::Cast(operand, _)
            | Expression::Negate(operand)
            | Expression::Not(operand)
            | Expression::IsNull(operand, _)
            | Expression::IsBoolean(operand, ..)
            | Expression::InSubquery(operand, ..) => vec![operand],
            Expression::Arithmetic(_, pair)
            | Expression::Compare(_, pair)
            | Expression::Distinct(pair, _)
            | Expression::Quantified(_, _, pair)
            | Expression::Concatenate(pair) => vec![&pair.0, &pair.1],
            Expression::And(list)
            | Expression::Or(list)
            | Expression::Coalesce(list)
            | Expression::Call(_, list) => list.iter().collect(),
            Expression::InList(operand, list, _) => std::iter::once(&**operand).chain(list).collect(),
            Expression::Like(like) => vec![&like.text, &like.pattern],
            Expression::Case(branches, otherwise) => {
                let branches = branches.iter().flat_map(|(condition, result)| [condition, result]);
                branches.chain(std::iter::once(&**otherwise)).collect()
            }
        }
    }

    /// The operands, to be changed.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Expression> {
        match self {
            Expression::Column(_) | Expression::Parameter(_) | Expression::Literal(_) => Vec::new(),
            Expression::Cast(operand, _)
            | Expression::Negate(operand)
            | Expression::Not(operand)
            | Expression::IsNull(operand, _)
            | Expression::IsBoolean(operand, ..)
            | Expression::InSubquery(operand, ..) => vec![operand],
            Expression::Arithmetic(_, pair)
            | Expression::Compare(_, pair)
            | Expression::Distinct(pair, _)
            | Expression::Quantified(_, _, pair)
            | Expression::Concatenate(pair) => {
                let (left, right) = &mut **pair;
                vec![left, right]
            }
            Expression::And(list)
            | Expression::Or(list)
            | Expression::Coalesce(list)
            | Expression::Call(_, list) => list.iter_mut().collect(),
            Expression::InList(operand, list, _) => std::iter::once(&mut **operand).chain(list).collect(),
            Expression::Like(like) => vec![&mut like.text, &mut like.pattern],
            Expression::Case(branches, otherwise) => {
                let branches = branches.iter_mut().flat_map(|(condition, result)| [condition, result]);
                branches.chain(std::iter::once(&mut **otherwise)).collect()
            }
        }
    }

    /// Adds the columns that the expression reads.
    pub(crate) fn collect_columns(&self, columns: &mut Vec<usize>) {
        if let Expression::Column(column) = self {
            columns.push(*column);
        }
        self.operands().into_iter().for_each(|operand| operand.collect_columns(columns));
    }

    /// Whether the value is the same for every row.
    pub(crate) fn is_constant(&self) -> bool {
        let mut columns = Vec::new();
        self.collect_columns(&mut columns);
        columns.is_empty()
    }
}

/// The columns that any of the expressions reads, as positions below `limit`.
pub(crate) fn columns_of<'a>(
    expressions: impl IntoIterator<Item = &'a Expression>,
    limit: usize,
) -> ColumnSet {
    let mut columns = Vec::new();
    expressions.into_iter().for_each(|expression| expression.collect_columns(&mut columns));
    columns.retain(|&column| column < limit);
    ColumnSet::of(&columns)
}
