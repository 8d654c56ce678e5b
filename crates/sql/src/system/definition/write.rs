//! Expressions as text, with parentheses and line breaks where PostgreSQL has them.

use super::node::{CallClass, PartStyle, ShownForm, ShownNode, ShownPart, SubqueryForm, SubqueryKind};
use super::reader::DefinitionReader;

/// Columns by which clauses, joins and items are indented, and from where on it is less.
pub(super) const CLAUSE: isize = 8;
pub(super) const JOIN: usize = 4;
pub(super) const ITEM: usize = 4;
const DEEP: isize = 40;

/// How definitions are laid out.
#[derive(Clone, Copy)]
pub(crate) struct DefinitionStyle {
    /// Whether parentheses that are not needed are left out.
    pub(crate) is_pretty: bool,
    /// The columns that a line of items may take; 0 gives each item its own line, and none are broken if it is negative.
    pub(crate) wrap: i32,
}

impl DefinitionStyle {
    /// With all parentheses, and a line for each item.
    pub(crate) const PLAIN: DefinitionStyle = DefinitionStyle { is_pretty: false, wrap: 0 };
}

/// Writes expressions and queries.
pub(super) struct DefinitionWriter<'c> {
    pub(super) reader: &'c DefinitionReader<'c>,
    pub(super) style: DefinitionStyle,
    pub(super) text: String,
    pub(super) indent: isize,
}

impl DefinitionWriter<'_> {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Begins a line with a word. The indentation changes before and behind it.
    pub(super) fn line(&mut self, word: &str, before: isize, after: isize, plus: usize) {
        self.indent += before;
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
        let depth = match self.indent {
            shallow if shallow < DEEP => shallow.max(0),
            deep => (DEEP + (deep - DEEP) / (CLAUSE / 2)) % DEEP,
        };
        self.text.extend(std::iter::repeat_n(' ', usize::try_from(depth).unwrap_or(0) + plus));
        self.push(word);
        self.indent = (self.indent + after).max(0);
    }

    /// Writes something by itself, and gives it back instead of appending it.
    pub(super) fn apart(&mut self, write: impl FnOnce(&mut Self)) -> String {
        let whole = std::mem::take(&mut self.text);
        write(self);
        std::mem::replace(&mut self.text, whole)
    }

    /// An expression; casts that nobody wrote are shown if `shows_casts` says so.
    pub(super) fn node(&mut self, node: &ShownNode, shows_casts: bool) {
        use ShownForm::{All, Any, Collate, Distinct, Is, Not, Operator, Quantified};
        let is_operator = matches!(
            node.form,
            Operator(..) | All(_) | Any(_) | Not(_) | Is(..) | Distinct(_) | Quantified { .. } | Collate(..)
        );
        let encloses = is_operator && !self.style.is_pretty;
        self.between(encloses, |writer| writer.bare(node, shows_casts));
    }

    /// An expression without the parentheses around it.
    fn bare(&mut self, node: &ShownNode, shows_casts: bool) {
        match &node.form {
            ShownForm::Word(word) => self.push(word),
            ShownForm::Unknown(text) => self.push(&super::kinds::in_quotes(text)),
            ShownForm::Constant(constant) => {
                self.push(&constant.body);
                if let Some(label) = &constant.label {
                    self.push("::");
                    self.push(label);
                }
            }
            ShownForm::Operator(operator, operands) => self.operator(operator, operands, node),
            ShownForm::All(list) => self.junction(" AND ", list, node),
            ShownForm::Any(list) => self.junction(" OR ", list, node),
            ShownForm::Not(operand) => {
                self.push("NOT ");
                self.enclosed(operand, false, node);
            }
            ShownForm::Cast { operand, to, is_implicit } => match *is_implicit && !shows_casts {
                true => self.node(operand, false),
                false => self.cast(operand, to, node),
            },
            ShownForm::Is(operand, what) => {
                self.enclosed(operand, true, node);
                self.push(" IS ");
                self.push(what);
            }
            ShownForm::Distinct(pair) => {
                self.enclosed(&pair[0], true, node);
                self.push(" IS DISTINCT FROM ");
                self.enclosed(&pair[1], true, node);
            }
            ShownForm::Quantified { operands, operator, quantifier } => {
                self.enclosed(&operands[0], true, node);
                self.push(&format!(" {operator} {quantifier} ("));
                self.enclosed(&operands[1], true, node);
                self.push(")");
            }
            ShownForm::Case { subject, branches, otherwise } => {
                self.case(subject.as_deref(), branches, otherwise);
            }
            ShownForm::Collate(operand, collation) => {
                self.enclosed(operand, true, node);
                self.push(&format!(" COLLATE {collation}"));
            }
            ShownForm::Subscript(root, parts) => {
                let is_word = matches!(root.form, ShownForm::Word(_));
                self.between(!is_word, |writer| writer.node(root, true));
                self.parts(parts, node);
            }
            ShownForm::Subquery(subquery) => self.subquery(subquery, node),
            ShownForm::Parts(_, parts) => self.parts(parts, node),
        }
    }

    fn between(&mut self, has_parentheses: bool, write: impl FnOnce(&mut Self)) {
        if has_parentheses {
            self.push("(");
        }
        write(self);
        if has_parentheses {
            self.push(")");
        }
    }

    /// An operand, in parentheses where those around operators are left out and it needs them.
    fn enclosed(&mut self, node: &ShownNode, shows_casts: bool, parent: &ShownNode) {
        let has_parentheses = self.style.is_pretty && !is_simple(node, parent, shows_casts);
        self.between(has_parentheses, |writer| writer.node(node, shows_casts));
    }

    fn operator(&mut self, operator: &str, operands: &[ShownNode], node: &ShownNode) {
        match operands {
            [left, right] => {
                self.enclosed(left, true, node);
                self.push(&format!(" {operator} "));
                self.enclosed(right, true, node);
            }
            operands => {
                self.push(&format!("{operator} "));
                operands.iter().for_each(|operand| self.enclosed(operand, true, node));
            }
        }
    }

    fn junction(&mut self, word: &str, list: &[ShownNode], node: &ShownNode) {
        for (position, operand) in list.iter().enumerate() {
            if position > 0 {
                self.push(word);
            }
            self.enclosed(operand, false, node);
        }
    }

    fn cast(&mut self, operand: &ShownNode, to: &str, node: &ShownNode) {
        // The length of a constant's type.
        let stem = |name: &str| name.split('(').next().unwrap_or_default().trim_end().to_owned();
        match &operand.form {
            ShownForm::Constant(constant)
                if to.contains('(')
                    && constant.label.as_deref().map_or("numeric".to_owned(), stem) == stem(to)
                    && (constant.label.is_some() || constant.body.contains('.')) =>
            {
                self.push(&constant.body);
            }
            // One of a type that is known by its name alone.
            ShownForm::Unknown(_) => self.node(operand, false),
            _ if self.style.is_pretty => self.enclosed(operand, false, node),
            _ => self.between(true, |writer| writer.node(operand, false)),
        }
        self.push("::");
        self.push(to);
    }

    fn case(&mut self, subject: Option<&ShownNode>, branches: &[[ShownNode; 2]], otherwise: &ShownNode) {
        self.line("CASE", 0, ITEM as isize, 0);
        if let Some(subject) = subject {
            self.push(" ");
            self.node(subject, true);
        }
        for [condition, result] in branches {
            self.line("WHEN ", 0, 0, 0);
            self.node(condition, false);
            self.push(" THEN ");
            self.node(result, true);
        }
        self.line("ELSE ", 0, 0, 0);
        self.node(otherwise, true);
        self.line("END", -(ITEM as isize), 0, 0);
    }

    pub(super) fn parts(&mut self, parts: &[ShownPart], node: &ShownNode) {
        for part in parts {
            match part {
                ShownPart::Text(text) => self.push(text),
                ShownPart::Node(part, PartStyle::Argument) => self.node(part, true),
                ShownPart::Node(part, PartStyle::Plain) => self.node(part, false),
                ShownPart::Node(part, PartStyle::Enclosed) => self.enclosed(part, false, node),
                ShownPart::Node(part, PartStyle::Key) => self.key(part),
            }
        }
    }

    /// A key of an order, or of groups.
    pub(super) fn key(&mut self, node: &ShownNode) {
        let is_plain =
            matches!(node.form, ShownForm::Word(_) | ShownForm::Constant(_) | ShownForm::Unknown(_));
        let is_call = matches!(&node.form, ShownForm::Parts(class, _) if *class != CallClass::List)
            || matches!(node.form, ShownForm::Cast { .. });
        self.between(!is_plain && (self.style.is_pretty || is_call), |writer| writer.node(node, true));
    }

    fn subquery(&mut self, subquery: &SubqueryForm, node: &ShownNode) {
        let SubqueryForm { kind, test, query, names } = subquery;
        self.push(if matches!(kind, SubqueryKind::Array) { "ARRAY(" } else { "(" });
        match test.as_slice() {
            [] => {}
            [one] => self.node(one, true),
            several => {
                self.push("(");
                for (position, one) in several.iter().enumerate() {
                    if position > 0 {
                        self.push(", ");
                    }
                    self.enclosed(one, true, node);
                }
                self.push(")");
            }
        }
        let encloses = match kind {
            SubqueryKind::Value | SubqueryKind::Array => false,
            SubqueryKind::Exists => {
                self.push("EXISTS (");
                true
            }
            SubqueryKind::In => {
                self.push(" IN (");
                true
            }
            SubqueryKind::Quantified(operator, quantifier) => {
                self.push(&format!(" {operator} {quantifier} ("));
                true
            }
        };
        self.query(query, names, &[], false);
        self.push(if encloses { "))" } else { ")" });
    }
}

/// What operators bind: sums, products, or something else.
fn rank(operator: &str) -> Option<u8> {
    match operator {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    }
}

/// Whether a node needs no parentheses within another one.
fn is_simple(node: &ShownNode, parent: &ShownNode, shows_casts: bool) -> bool {
    // In calls and lists with their own delimiters.
    let is_apart = |is_list_of_conditions: bool| match &parent.form {
        ShownForm::Parts(class, _) => *class != CallClass::Words,
        ShownForm::Subscript(..) | ShownForm::Case { .. } => true,
        ShownForm::All(_) | ShownForm::Any(_) | ShownForm::Not(_) => is_list_of_conditions,
        _ => false,
    };
    match &node.form {
        ShownForm::Word(_)
        | ShownForm::Constant(_)
        | ShownForm::Unknown(_)
        | ShownForm::Parts(..)
        | ShownForm::Subscript(..)
        | ShownForm::Case { .. } => true,
        ShownForm::Cast { operand, is_implicit, .. } => match *is_implicit && !shows_casts {
            true => is_simple(operand, parent, false),
            false => is_simple(operand, node, false),
        },
        ShownForm::Operator(operator, operands) => match &parent.form {
            ShownForm::Operator(outer, around) if operands.len() == 2 => {
                match (rank(operator), rank(outer)) {
                    (Some(inner), Some(outer)) if inner > outer => true,
                    (Some(inner), Some(outer)) if inner == outer => {
                        around.len() == 2 && std::ptr::eq(node, &raw const around[0])
                    }
                    _ => false,
                }
            }
            _ => is_apart(true),
        },
        ShownForm::Subquery(_) | ShownForm::Is(..) | ShownForm::Distinct(_) => is_apart(true),
        ShownForm::Not(_) | ShownForm::All(_) => match &parent.form {
            ShownForm::All(_) | ShownForm::Any(_) => true,
            _ => is_apart(false),
        },
        ShownForm::Any(_) => match &parent.form {
            ShownForm::Any(_) => true,
            _ => is_apart(false),
        },
        ShownForm::Quantified { .. } | ShownForm::Collate(..) => false,
    }
}
