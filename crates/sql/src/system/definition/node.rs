//! Expressions as they are to be shown: what PostgreSQL keeps of them, which is what decides on parentheses and casts.

use super::names::ShownNames;
use ankerdb_engine::DataType;
use datafusion::sql::sqlparser::ast;

/// An expression, with its type as far as it is known.
#[derive(Clone)]
pub(super) struct ShownNode<'a> {
    pub(super) form: ShownForm<'a>,
    pub(super) data_type: Option<DataType>,
}

/// What an expression is.
#[derive(Clone)]
pub(super) enum ShownForm<'a> {
    /// The name of a column, or a word that stands for a value.
    Word(String),
    Constant(ConstantText),
    /// A constant in quotes that may be of any type yet.
    Unknown(String),
    /// One or two operands.
    Operator(String, Vec<ShownNode<'a>>),
    All(Vec<ShownNode<'a>>),
    Any(Vec<ShownNode<'a>>),
    Not(Box<ShownNode<'a>>),
    Cast {
        operand: Box<ShownNode<'a>>,
        to: String,
        is_implicit: bool,
    },
    /// `x IS NULL` and the like.
    Is(Box<ShownNode<'a>>, &'static str),
    Distinct(Box<[ShownNode<'a>; 2]>),
    /// `x = ANY (y)`: operator and quantifier.
    Quantified {
        operands: Box<[ShownNode<'a>; 2]>,
        operator: String,
        quantifier: &'static str,
    },
    Case {
        subject: Option<Box<ShownNode<'a>>>,
        branches: Vec<[ShownNode<'a>; 2]>,
        otherwise: Box<ShownNode<'a>>,
    },
    Collate(Box<ShownNode<'a>>, String),
    Subscript(Box<ShownNode<'a>>, Vec<ShownPart<'a>>),
    Subquery(Box<SubqueryForm<'a>>),
    /// A call, or something else that has its own delimiters.
    Parts(CallClass, Vec<ShownPart<'a>>),
}

/// A subquery within an expression.
#[derive(Clone)]
pub(super) struct SubqueryForm<'a> {
    pub(super) kind: SubqueryKind,
    /// What it is compared with.
    pub(super) test: Vec<ShownNode<'a>>,
    pub(super) query: &'a ast::Query,
    pub(super) names: &'a ShownNames<'a>,
}

/// What is asked of a subquery.
#[derive(Clone)]
pub(super) enum SubqueryKind {
    Value,
    Array,
    Exists,
    In,
    Quantified(String, &'static str),
}

/// What kind of thing a call is: it decides on parentheses around and within it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallClass {
    /// A function of the usual form.
    Function,
    /// A function that SQL writes with words.
    Words,
    Aggregate,
    /// ARRAY, ROW, COALESCE and the like.
    List,
}

/// A constant.
#[derive(Clone)]
pub(super) struct ConstantText {
    pub(super) body: String,
    /// The type that has to be shown with it.
    pub(super) label: Option<String>,
}

/// A part of a call.
#[derive(Clone)]
pub(super) enum ShownPart<'a> {
    Text(String),
    Node(ShownNode<'a>, PartStyle),
}

/// How an operand stands in a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PartStyle {
    /// With the casts that nobody wrote.
    Argument,
    /// Without them.
    Plain,
    /// Without them, and in parentheses if it is not simple.
    Enclosed,
    /// As one of the keys of an order or of groups.
    Key,
}

impl<'a> ShownNode<'a> {
    pub(super) fn new(form: ShownForm<'a>, data_type: Option<DataType>) -> ShownNode<'a> {
        ShownNode { form, data_type }
    }

    pub(super) fn boolean(form: ShownForm<'a>) -> ShownNode<'a> {
        ShownNode::new(form, Some(DataType::Boolean))
    }

    pub(super) fn word(text: impl Into<String>, data_type: Option<DataType>) -> ShownNode<'a> {
        ShownNode::new(ShownForm::Word(text.into()), data_type)
    }

    /// Whether it is a constant whose type is not told yet.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.form, ShownForm::Unknown(_)) || self.is_null() && self.data_type.is_none()
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.form, ShownForm::Constant(constant) if constant.body == "NULL")
    }

    /// Whether it, or a part of it, is a column.
    pub(super) fn has_columns(&self) -> bool {
        self.any(&|form| matches!(form, ShownForm::Word(word) if !word.starts_with(|c: char| c.is_ascii_uppercase())))
    }

    fn any(&self, is_it: &dyn Fn(&ShownForm) -> bool) -> bool {
        if is_it(&self.form) {
            return true;
        }
        let parts = |parts: &[ShownPart]| {
            parts.iter().any(|part| matches!(part, ShownPart::Node(node, _) if node.any(is_it)))
        };
        match &self.form {
            ShownForm::Word(_) | ShownForm::Constant(_) | ShownForm::Unknown(_) => false,
            ShownForm::Operator(_, list) | ShownForm::All(list) | ShownForm::Any(list) => {
                list.iter().any(|node| node.any(is_it))
            }
            ShownForm::Not(node)
            | ShownForm::Cast { operand: node, .. }
            | ShownForm::Is(node, _)
            | ShownForm::Collate(node, _) => node.any(is_it),
            ShownForm::Distinct(pair) | ShownForm::Quantified { operands: pair, .. } => {
                pair.iter().any(|node| node.any(is_it))
            }
            ShownForm::Case { subject, branches, otherwise } => {
                subject.as_ref().is_some_and(|node| node.any(is_it))
                    || branches.iter().flatten().any(|node| node.any(is_it))
                    || otherwise.any(is_it)
            }
            ShownForm::Subscript(node, list) => node.any(is_it) || parts(list),
            ShownForm::Subquery(_) => true,
            ShownForm::Parts(_, list) => parts(list),
        }
    }
}

/// A list of operands with commas.
pub(super) fn comma_separated<'a>(
    nodes: impl IntoIterator<Item = ShownNode<'a>>,
    style: PartStyle,
) -> Vec<ShownPart<'a>> {
    let mut parts = Vec::new();
    for node in nodes {
        if !parts.is_empty() {
            parts.push(ShownPart::Text(", ".to_owned()));
        }
        parts.push(ShownPart::Node(node, style));
    }
    parts
}
