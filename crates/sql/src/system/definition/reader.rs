//! Parsed expressions as what is shown of them: names find their columns, constants their types, and operators their casts.

use super::kinds;
use super::names::ShownNames;
use super::node::{
    CallClass, PartStyle, ShownForm, ShownNode, ShownPart, SubqueryForm, SubqueryKind, comma_separated,
};
use crate::expression::types::data_type;
use crate::name::folded;
use crate::system::SystemCatalog;
use crate::system::quoting::quote_ident;
use ankerdb_engine::{DataType, ListType, ReadRelation, SystemType};
use datafusion::sql::sqlparser::ast::{
    self, AccessExpr, BinaryOperator, Expr, Ident, Subscript, UnaryOperator, Value as Written,
};
use std::cell::Cell;

/// Reads expressions over what the catalog knows.
pub(super) struct DefinitionReader<'c> {
    pub(super) catalog: &'c SystemCatalog,
    /// What the view reads, whose columns may have other names by now.
    pub(super) reads: &'c [ReadRelation],
    depth: Cell<u32>,
    left: Cell<u32>,
}

/// How deep expressions are read, and how many: the rest is shown as it was written.
const DEPTH_MAX: u32 = 100;
const EXPRESSIONS_MAX: u32 = 200_000;

/// What a cast to a parsed type names it, and which type that is.
pub(super) struct NamedType {
    pub(super) text: String,
    pub(super) data_type: Option<DataType>,
    /// Whether it has limits of its own.
    has_limits: bool,
}

impl<'c> DefinitionReader<'c> {
    pub(super) fn new(catalog: &'c SystemCatalog, reads: &'c [ReadRelation]) -> DefinitionReader<'c> {
        DefinitionReader { catalog, reads, depth: Cell::new(0), left: Cell::new(EXPRESSIONS_MAX) }
    }
}

impl DefinitionReader<'_> {
    pub(super) fn named_type(&self, parsed: &ast::DataType) -> NamedType {
        let known =
            data_type(parsed).ok().filter(|known| !matches!(known, DataType::System(SystemType::Object(_))));
        let is_domain = crate::domains::domain(parsed).is_some();
        let (text, has_limits) = match known {
            Some(known) if !is_domain => {
                let plain = kinds::plain_type(known);
                let is_bare = crate::expression::bind::is_bare_numeric(parsed)
                    || known == known.of_any_precision() && !parsed.to_string().contains('(');
                let is_plain = is_bare || matches!(known, DataType::Enum(_) | DataType::System(_));
                match known {
                    DataType::Char(u32::MAX) => ("bpchar".to_owned(), false),
                    DataType::Char(_) => (known.to_string(), true),
                    _ if is_plain => (plain, false),
                    _ => (known.to_string(), known.to_string() != plain),
                }
            }
            _ => (parsed.to_string().to_lowercase(), false),
        };
        let is_any = crate::expression::bind::is_bare_numeric(parsed);
        NamedType { text, data_type: if is_any { Some(DataType::Number) } else { known }, has_limits }
    }

    /// The expression, with the type `text` if it is a constant of which nothing else is known.
    pub(super) fn value<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let node = self.read(expr, names);
        if node.is_unknown() { kinds::as_type(node, Some(DataType::Text)) } else { node }
    }

    pub(super) fn read<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let (depth, left) = (self.depth.get(), self.left.get());
        if depth == DEPTH_MAX || left == 0 {
            return raw(expr);
        }
        self.left.set(left - 1);
        self.depth.set(depth + 1);
        let node = self.read_node(expr, names);
        self.depth.set(depth);
        node
    }

    fn read_node<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let is = |operand: &'a Expr, what| {
            ShownNode::boolean(ShownForm::Is(Box::new(self.value(operand, names)), what))
        };
        match expr {
            Expr::Nested(inner) => self.read(inner, names),
            Expr::Identifier(name) => self.identifier(name, names),
            Expr::CompoundIdentifier(parts) => self.compound(parts, names),
            Expr::Value(value) => self.constant(&value.value),
            Expr::TypedString(typed) => match &typed.value.value {
                Written::SingleQuotedString(text) => self.cast_text(text, &typed.data_type),
                _ => raw(expr),
            },
            Expr::Cast { expr: operand, data_type, .. } => self.cast(operand, data_type, names),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.junction(left, right, names, true)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                self.junction(left, right, names, false)
            }
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, names),
            Expr::UnaryOp { op, expr } => self.unary(op, expr, names),
            Expr::IsNull(operand) => is(operand, "NULL"),
            Expr::IsNotNull(operand) => is(operand, "NOT NULL"),
            Expr::IsTrue(operand) => is(operand, "TRUE"),
            Expr::IsNotTrue(operand) => is(operand, "NOT TRUE"),
            Expr::IsFalse(operand) => is(operand, "FALSE"),
            Expr::IsNotFalse(operand) => is(operand, "NOT FALSE"),
            Expr::IsUnknown(operand) => is(operand, "UNKNOWN"),
            Expr::IsNotUnknown(operand) => is(operand, "NOT UNKNOWN"),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, names),
            Expr::IsNotDistinctFrom(left, right) => negated(self.distinct(left, right, names)),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, names),
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated, names),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), names)
            }
            Expr::Collate { expr, collation } => {
                let operand = self.value(expr, names);
                let parts = collation
                    .0
                    .iter()
                    .filter_map(|part| part.as_ident())
                    .map(|part| quote_ident(&folded(part)));
                let data_type = operand.data_type;
                ShownNode::new(
                    ShownForm::Collate(Box::new(operand), parts.collect::<Vec<_>>().join(".")),
                    data_type,
                )
            }
            Expr::Array(array) => self.array(&array.elem, names),
            Expr::Tuple(items) => {
                let items = items.iter().map(|item| self.value(item, names));
                list_form("ROW(", items.collect(), ")", None)
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscript(expr, root, access_chain, names)
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, "ANY", names)
            }
            Expr::AllOp { left, compare_op, right } => self.quantified(left, compare_op, right, "ALL", names),
            _ => self.pattern(expr, names),
        }
    }

    fn pattern<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        match expr {
            Expr::Like { negated, expr, pattern, escape_char, any: false } => {
                let operator = if *negated { "!~~" } else { "~~" };
                self.like(
                    operator,
                    self.read(expr, names),
                    self.escaped("like_escape", pattern, escape_char.as_ref(), names),
                )
            }
            Expr::ILike { negated, expr, pattern, escape_char, any: false } => {
                let operator = if *negated { "!~~*" } else { "~~*" };
                self.like(
                    operator,
                    self.read(expr, names),
                    self.escaped("like_escape", pattern, escape_char.as_ref(), names),
                )
            }
            Expr::SimilarTo { negated, expr: text, pattern, escape_char } => {
                // Not the function that PostgreSQL shows: there is none of that name here.
                let operator = if *negated { "NOT SIMILAR TO" } else { "SIMILAR TO" };
                if escape_char.is_some() {
                    return raw(expr);
                }
                let [text, pattern] = [text, pattern].map(|node| self.read(node, names));
                let operands = [text, pattern].map(|node| kinds::as_type(node, Some(DataType::Text)));
                ShownNode::boolean(ShownForm::Operator(operator.to_owned(), operands.to_vec()))
            }
            _ => self.subquery_form(expr, names).unwrap_or_else(|| self.call(expr, names)),
        }
    }

    fn like<'a>(&self, operator: &str, text: ShownNode<'a>, pattern: ShownNode<'a>) -> ShownNode<'a> {
        self.operator(operator, text, pattern)
    }

    fn escaped<'a>(
        &self,
        function: &str,
        pattern: &'a Expr,
        escape: Option<&'a ast::ValueWithSpan>,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let pattern = self.read(pattern, names);
        let Some(escape) = escape else { return pattern };
        let arguments = [pattern, self.constant(&escape.value)];
        let arguments = arguments.map(|node| kinds::as_type(node, Some(DataType::Text)));
        call_form(function, arguments.to_vec(), Some(DataType::Text))
    }

    fn subquery_form<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> Option<ShownNode<'a>> {
        let form = |kind, test, query: &'a ast::Query, data_type| {
            let form = SubqueryForm { kind, test, query, names };
            ShownNode::new(ShownForm::Subquery(Box::new(form)), data_type)
        };
        let boolean = Some(DataType::Boolean);
        Some(match expr {
            Expr::Subquery(query) => {
                let columns = self.columns_of_query(query, names);
                let data_type = columns.and_then(|columns| columns.first()?.data_type);
                form(SubqueryKind::Value, Vec::new(), query, data_type)
            }
            Expr::Exists { subquery, negated: is_negated } => {
                if let Some(found) = self.rows_in(subquery, *is_negated, names) {
                    return Some(if *is_negated { negated(found) } else { found });
                }
                let exists = form(SubqueryKind::Exists, Vec::new(), subquery, boolean);
                if *is_negated { negated(exists) } else { exists }
            }
            Expr::InSubquery { expr, subquery, negated: is_negated } => {
                let found = form(SubqueryKind::In, self.test(expr, names), subquery, boolean);
                if *is_negated { negated(found) } else { found }
            }
            _ => return None,
        })
    }

    /// Values that are compared with those of a subquery.
    fn test<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> Vec<ShownNode<'a>> {
        match expr {
            Expr::Nested(inner) => self.test(inner, names),
            Expr::Tuple(items) => items.iter().map(|item| self.value(item, names)).collect(),
            other => vec![self.value(other, names)],
        }
    }

    /// `(a, b) IN (q)` of what it was written as: `EXISTS (SELECT FROM (q) AS rows (c, d) WHERE a = c AND b = d)`.
    fn rows_in<'a>(
        &self,
        query: &'a ast::Query,
        is_negated: bool,
        names: &'a ShownNames<'a>,
    ) -> Option<ShownNode<'a>> {
        let among = crate::forms::row_among(query).filter(|among| among.is_maybe == is_negated)?;
        let test = among.row.into_iter().map(|value| self.value(value, names)).collect();
        let form = SubqueryForm { kind: SubqueryKind::In, test, query: among.query, names };
        Some(ShownNode::boolean(ShownForm::Subquery(Box::new(form))))
    }

    fn identifier<'a>(&self, name: &Ident, names: &ShownNames<'_>) -> ShownNode<'a> {
        let known = folded(name);
        if let Some(found) = names.column(&known) {
            return ShownNode::word(found.text, found.data_type);
        }
        let time = |data_type| Some(data_type);
        let data_type = match known.as_str() {
            _ if name.quote_style.is_some() => None,
            "current_date" => time(DataType::Date),
            "current_timestamp" => time(DataType::TIMESTAMPTZ),
            "localtimestamp" => time(DataType::TIMESTAMP),
            "current_user" | "session_user" | "user" | "current_role" | "current_catalog"
            | "current_schema" => time(DataType::System(SystemType::Name)),
            "current_time" | "localtime" => return ShownNode::word(known.to_uppercase(), None),
            _ => None,
        };
        match data_type {
            Some(_) => ShownNode::word(known.to_uppercase(), data_type),
            // The row of a relation.
            None => match names.relation(None, &known) {
                Some((relation, _)) => ShownNode::word(format!("{}.*", quote_ident(&relation.shown)), None),
                None => ShownNode::word(quote_ident(&known), None),
            },
        }
    }

    fn compound<'a>(&self, parts: &[Ident], names: &ShownNames<'_>) -> ShownNode<'a> {
        let folded: Vec<String> = parts.iter().map(folded).collect();
        let found = match folded.as_slice() {
            [relation, column] => names.of_relation(None, relation, column),
            [.., schema, relation, column] => names.of_relation(Some(schema), relation, column),
            _ => None,
        };
        match found {
            Some(found) => ShownNode::word(found.text, found.data_type),
            None => {
                let text = folded.iter().map(|part| quote_ident(part)).collect::<Vec<_>>().join(".");
                ShownNode::word(text, None)
            }
        }
    }

    pub(super) fn read_word<'a>(&self, name: &Ident, names: &ShownNames<'_>) -> ShownNode<'a> {
        self.identifier(name, names)
    }

    pub(super) fn constant<'a>(&self, value: &Written) -> ShownNode<'a> {
        let unknown = |text: &str| ShownNode::new(ShownForm::Unknown(text.to_owned()), None);
        match value {
            Written::Number(text, _) => kinds::number_constant(text, false),
            Written::SingleQuotedString(text)
            | Written::EscapedStringLiteral(text)
            | Written::UnicodeStringLiteral(text)
            | Written::NationalStringLiteral(text) => unknown(text),
            Written::DollarQuotedString(text) => unknown(&text.value),
            Written::Boolean(value) => kinds::constant(&value.to_string(), DataType::Boolean),
            Written::Null => kinds::null(None),
            Written::SingleQuotedByteStringLiteral(digits) => {
                kinds::bits('b', digits).unwrap_or_else(|| ShownNode::word(value.to_string(), None))
            }
            Written::HexStringLiteral(digits) => {
                kinds::bits('x', digits).unwrap_or_else(|| ShownNode::word(value.to_string(), None))
            }
            other => ShownNode::word(other.to_string(), None),
        }
    }

    fn cast_text<'a>(&self, text: &str, to: &ast::DataType) -> ShownNode<'a> {
        self.converted(ShownNode::new(ShownForm::Unknown(text.to_owned()), None), to)
    }

    fn cast<'a>(&self, operand: &'a Expr, to: &ast::DataType, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        if let (Expr::Array(array), Some(item)) = (operand, item_type(to))
            && array.elem.is_empty()
        {
            let data_type = self.named_type(to).data_type;
            return list_form(
                "ARRAY[",
                Vec::new(),
                &format!("]::{}[]", self.named_type(item).text),
                data_type,
            );
        }
        self.converted(self.read(operand, names), to)
    }

    fn converted<'a>(&self, operand: ShownNode<'a>, to: &ast::DataType) -> ShownNode<'a> {
        let NamedType { text, data_type, has_limits } = self.named_type(to);
        if operand.is_unknown() {
            let is_domain = crate::domains::domain(to).is_some();
            let typed = match (data_type.filter(|_| !is_domain), &operand.form) {
                (Some(known), ShownForm::Unknown(text)) => kinds::constant(text, known),
                (Some(known), _) => kinds::null(Some(known)),
                // A type that is known by its name alone.
                (None, _) if !is_domain => {
                    let operand = Box::new(operand);
                    return ShownNode::new(ShownForm::Cast { operand, to: text, is_implicit: false }, None);
                }
                (None, _) => kinds::as_type(operand, data_type.or(Some(DataType::Text))),
            };
            if !has_limits && !is_domain {
                return typed;
            }
            let operand = Box::new(typed);
            return ShownNode::new(ShownForm::Cast { operand, to: text, is_implicit: false }, data_type);
        }
        match (operand.data_type, data_type) {
            (Some(from), Some(known))
                if !has_limits && kinds::is_same(from, known) && crate::domains::domain(to).is_none() =>
            {
                operand
            }
            _ => ShownNode::new(
                ShownForm::Cast { operand: Box::new(operand), to: text, is_implicit: false },
                data_type,
            ),
        }
    }

    /// Conditions that all hold, or one of them: those of the left side are of one list with the right one.
    fn junction<'a>(
        &self,
        left: &'a Expr,
        right: &'a Expr,
        names: &'a ShownNames<'a>,
        all: bool,
    ) -> ShownNode<'a> {
        let mut list = Vec::new();
        let mut rest = left;
        let mut operands = vec![right];
        loop {
            rest = unnested(rest);
            match rest {
                Expr::BinaryOp { left, op: BinaryOperator::And, right } if all => {
                    operands.push(right);
                    rest = left;
                }
                Expr::BinaryOp { left, op: BinaryOperator::Or, right } if !all => {
                    operands.push(right);
                    rest = left;
                }
                _ => break,
            }
        }
        operands.push(rest);
        for operand in operands.into_iter().rev() {
            list.push(kinds::as_type(self.read(operand, names), Some(DataType::Boolean)));
        }
        ShownNode::boolean(if all { ShownForm::All(list) } else { ShownForm::Any(list) })
    }

    fn binary<'a>(
        &self,
        left: &'a Expr,
        op: &BinaryOperator,
        right: &'a Expr,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        if let (BinaryOperator::Overlaps, Some(shown)) = (op, self.overlaps(left, right, names)) {
            return shown;
        }
        let symbol = symbol(op);
        self.operator(&symbol, self.read(left, names), self.read(right, names))
    }

    fn overlaps<'a>(
        &self,
        left: &'a Expr,
        right: &'a Expr,
        names: &'a ShownNames<'a>,
    ) -> Option<ShownNode<'a>> {
        let (Expr::Tuple(left), Expr::Tuple(right)) = (unnested(left), unnested(right)) else { return None };
        let side = |items: &'a [Expr]| {
            comma_separated(items.iter().map(|item| self.value(item, names)), PartStyle::Plain)
        };
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let mut parts = vec![text("((")];
        parts.extend(side(left));
        parts.push(text(") OVERLAPS ("));
        parts.extend(side(right));
        parts.push(text("))"));
        Some(ShownNode::boolean(ShownForm::Parts(CallClass::Words, parts)))
    }

    /// An operator with the casts that it needs.
    pub(super) fn operator<'a>(
        &self,
        operator: &str,
        left: ShownNode<'a>,
        right: ShownNode<'a>,
    ) -> ShownNode<'a> {
        let is_told = |node: &ShownNode| node.data_type.is_some() || node.is_unknown();
        if !is_told(&left) || !is_told(&right) {
            // What a text operator takes is told by itself.
            let is_textual =
                matches!(operator, "~~" | "!~~" | "~~*" | "!~~*" | "~" | "~*" | "!~" | "!~*" | "||");
            let typed = |node: ShownNode<'a>| match is_textual && node.is_unknown() {
                true => kinds::as_type(node, Some(DataType::Text)),
                false => node,
            };
            let result = kinds::operator_types(operator, None, None).2;
            let operands = vec![typed(left), typed(right)];
            return ShownNode::new(
                ShownForm::Operator(operator.to_owned(), operands),
                result.filter(|known| *known == DataType::Boolean || operator == "||"),
            );
        }
        let (for_left, for_right, mut result) =
            kinds::operator_types(operator, left.data_type, right.data_type);
        let (for_left, for_right) = match (&left.data_type, &right.data_type) {
            (None, None) => (for_left.or(Some(DataType::Text)), for_right.or(Some(DataType::Text))),
            _ => (for_left, for_right),
        };
        if result.is_none() && left.data_type.is_none() && right.data_type.is_none() {
            result = for_left;
        }
        let operands = vec![kinds::as_type(left, for_left), kinds::as_type(right, for_right)];
        ShownNode::new(ShownForm::Operator(operator.to_owned(), operands), result)
    }

    fn unary<'a>(&self, op: &UnaryOperator, operand: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        if let (UnaryOperator::Minus, Expr::Value(value)) = (op, unnested(operand))
            && let Written::Number(text, _) = &value.value
        {
            return kinds::number_constant(text, true);
        }
        if let (UnaryOperator::Not, Expr::Exists { subquery, negated: false }) = (op, unnested(operand))
            && let Some(found) = self.rows_in(subquery, true, names)
        {
            return negated(found);
        }
        let operand = self.value(operand, names);
        if *op == UnaryOperator::Not {
            return negated(operand);
        }
        let data_type = operand.data_type;
        let symbol = match op {
            UnaryOperator::PGSquareRoot | UnaryOperator::PGCubeRoot => {
                let operand = kinds::as_type(operand, Some(DataType::DoublePrecision));
                let operands = vec![operand];
                return ShownNode::new(
                    ShownForm::Operator(op.to_string(), operands),
                    Some(DataType::DoublePrecision),
                );
            }
            other => other.to_string(),
        };
        ShownNode::new(ShownForm::Operator(symbol, vec![operand]), data_type)
    }

    fn distinct<'a>(&self, left: &'a Expr, right: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let compared = self.operator("=", self.read(left, names), self.read(right, names));
        match compared.form {
            ShownForm::Operator(_, operands) => match <[ShownNode<'a>; 2]>::try_from(operands) {
                Ok([left, right]) => {
                    // NULL is not distinct from what is NULL.
                    let other = match (left.is_null(), right.is_null()) {
                        (false, true) => Some(left.clone()),
                        (true, false) => Some(right.clone()),
                        _ => None,
                    };
                    ShownNode::boolean(match other {
                        Some(other) => ShownForm::Is(Box::new(other), "NOT NULL"),
                        None => ShownForm::Distinct(Box::new([left, right])),
                    })
                }
                Err(operands) => ShownNode::boolean(ShownForm::All(operands)),
            },
            form => ShownNode::boolean(form),
        }
    }

    fn in_list<'a>(
        &self,
        operand: &'a Expr,
        list: &'a [Expr],
        is_negated: bool,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let operator = if is_negated { "<>" } else { "=" };
        let value = self.read(operand, names);
        // The first of several, if it is a subquery, is read within a call.
        let items = list.iter().map(|item| self.read(crate::written_forms::member(item), names));
        let items: Vec<_> = items.collect();
        let constants = items.iter().filter(|item| !item.has_columns()).count();
        let (alone, together): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| constants < 2 || item.has_columns());
        let mut compared = Vec::new();
        if !together.is_empty() {
            let quantifier = if is_negated { "ALL" } else { "ANY" };
            compared.push(self.among(value.clone(), together, operator, quantifier));
        }
        compared.extend(alone.into_iter().map(|item| self.operator(operator, value.clone(), item)));
        match (compared.len(), is_negated) {
            (1, _) => compared.remove(0),
            (_, true) => ShownNode::boolean(ShownForm::All(compared)),
            (_, false) => ShownNode::boolean(ShownForm::Any(compared)),
        }
    }

    /// `value = ANY (ARRAY[items])`
    fn among<'a>(
        &self,
        value: ShownNode<'a>,
        items: Vec<ShownNode<'a>>,
        operator: &str,
        quantifier: &'static str,
    ) -> ShownNode<'a> {
        let is_told = value.data_type.is_some()
            && items.iter().all(|item| item.data_type.is_some() || item.is_unknown());
        let item =
            kinds::common(std::iter::once(value.data_type).chain(items.iter().map(|item| item.data_type)));
        let items = match is_told {
            true => items.into_iter().map(|node| kinds::as_type(node, item)).collect(),
            false => items,
        };
        let array_type = item.and_then(ListType::of).map(|list| DataType::System(SystemType::List(list)));
        let mut array = list_form("ARRAY[", items, "]", array_type);
        let mut left = value;
        match (item.filter(|_| is_told), left.data_type) {
            (Some(DataType::Varchar(_)), _) => {
                array = ShownNode::new(
                    ShownForm::Cast { operand: Box::new(array), to: "text[]".to_owned(), is_implicit: true },
                    None,
                );
                left = kinds::as_type(left, Some(DataType::Text));
            }
            (Some(item), Some(known)) if !is_same_width(item, known) => {
                left = kinds::as_type(left, Some(item))
            }
            _ => {}
        }
        let operator = operator.to_owned();
        ShownNode::boolean(ShownForm::Quantified { operands: Box::new([left, array]), operator, quantifier })
    }

    fn between<'a>(
        &self,
        operand: &'a Expr,
        low: &'a Expr,
        high: &'a Expr,
        is_negated: bool,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let value = self.read(operand, names);
        let compared =
            |operator: &str, bound: &'a Expr| self.operator(operator, value.clone(), self.read(bound, names));
        ShownNode::boolean(match is_negated {
            true => ShownForm::Any(vec![compared("<", low), compared(">", high)]),
            false => ShownForm::All(vec![compared(">=", low), compared("<=", high)]),
        })
    }

    fn case<'a>(
        &self,
        operand: Option<&'a Expr>,
        conditions: &'a [ast::CaseWhen],
        otherwise: Option<&'a Expr>,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let subject = operand.map(|operand| self.value(operand, names));
        let condition = |condition: &'a Expr| match &subject {
            None => self.read(condition, names),
            Some(subject) => {
                let compared = self.operator("=", subject.clone(), self.read(condition, names));
                match compared.form {
                    ShownForm::Operator(_, mut operands) if operands.len() == 2 => operands.remove(1),
                    _ => self.read(condition, names),
                }
            }
        };
        let mut results: Vec<_> = conditions.iter().map(|branch| self.read(&branch.result, names)).collect();
        results.push(otherwise.map_or_else(|| kinds::null(None), |otherwise| self.read(otherwise, names)));
        let (mut results, data_type) = kinds::merged(results);
        let otherwise = Box::new(results.pop().unwrap_or_else(|| kinds::null(data_type)));
        let branches = conditions.iter().map(|branch| condition(&branch.condition)).zip(results);
        let branches = branches.map(|(condition, result)| [condition, result]).collect();
        let subject = subject.map(Box::new);
        ShownNode::new(ShownForm::Case { subject, branches, otherwise }, data_type)
    }

    pub(super) fn array<'a>(&self, items: &'a [Expr], names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let (items, item) = kinds::merged(items.iter().map(|item| self.read(item, names)).collect());
        let list = item.and_then(ListType::of).map(|list| DataType::System(SystemType::List(list)));
        list_form("ARRAY[", items, "]", list)
    }

    fn subscript<'a>(
        &self,
        whole: &'a Expr,
        root: &'a Expr,
        chain: &'a [AccessExpr],
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let root = self.read(root, names);
        let mut data_type = match root.data_type {
            Some(DataType::System(SystemType::List(list))) => Some(list.item_type()),
            Some(DataType::Jsonb) => Some(DataType::Jsonb),
            _ => None,
        };
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let mut parts = Vec::new();
        for access in chain {
            let AccessExpr::Subscript(subscript) = access else { return raw(whole) };
            parts.push(text("["));
            let mut bound = |bound: &'a Expr| {
                let wanted =
                    if root.data_type == Some(DataType::Jsonb) { DataType::Text } else { DataType::Integer };
                let bound = self.read(bound, names);
                let bound = if bound.is_unknown() { kinds::as_type(bound, Some(wanted)) } else { bound };
                parts.push(ShownPart::Node(bound, PartStyle::Plain));
            };
            match subscript {
                Subscript::Index { index } => bound(index),
                Subscript::Slice { lower_bound, upper_bound, .. } => {
                    lower_bound.iter().for_each(&mut bound);
                    parts.push(text(":"));
                    let mut bound = |bound: &'a Expr| {
                        parts.push(ShownPart::Node(self.read(bound, names), PartStyle::Plain))
                    };
                    upper_bound.iter().for_each(&mut bound);
                    data_type = root.data_type;
                }
            }
            parts.push(text("]"));
        }
        ShownNode::new(ShownForm::Subscript(Box::new(root), parts), data_type)
    }

    fn quantified<'a>(
        &self,
        left: &'a Expr,
        op: &BinaryOperator,
        right: &'a Expr,
        quantifier: &'static str,
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let symbol = symbol(op);
        if let Expr::Subquery(query) = unnested(right) {
            let kind = match (symbol.as_str(), quantifier) {
                ("=", "ANY") => SubqueryKind::In,
                _ => SubqueryKind::Quantified(symbol, quantifier),
            };
            let form = SubqueryForm { kind, test: self.test(left, names), query, names };
            return ShownNode::boolean(ShownForm::Subquery(Box::new(form)));
        }
        let left = self.read(left, names);
        if let Expr::Array(array) = unnested(right) {
            let items = array.elem.iter().map(|item| self.read(item, names)).collect();
            return self.among(left, items, &symbol, quantifier);
        }
        let right = self.read(right, names);
        let list = left.data_type.and_then(ListType::of).map(|list| DataType::System(SystemType::List(list)));
        let right = if right.is_unknown() { kinds::as_type(right, list) } else { right };
        let item = match right.data_type {
            Some(DataType::System(SystemType::List(list))) => Some(list.item_type()),
            _ => None,
        };
        let left = match (left.data_type, item) {
            (Some(known), Some(item)) if !is_same_width(known, item) || left.is_unknown() => {
                kinds::as_type(left, Some(item))
            }
            (None, item) if left.is_unknown() => kinds::as_type(left, item),
            _ => left,
        };
        let operands = Box::new([left, right]);
        ShownNode::boolean(ShownForm::Quantified { operands, operator: symbol, quantifier })
    }
}

/// Whether values of the one type are compared with those of the other one without a cast.
fn is_same_width(one: DataType, other: DataType) -> bool {
    let is_integer = |known| matches!(known, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    kinds::is_same(one, other) || is_integer(one) && is_integer(other)
}

fn item_type(parsed: &ast::DataType) -> Option<&ast::DataType> {
    match parsed {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, _)) => Some(item),
        _ => None,
    }
}

/// The expression without parentheses.
pub(super) fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

pub(super) fn negated(node: ShownNode<'_>) -> ShownNode<'_> {
    ShownNode::boolean(ShownForm::Not(Box::new(node)))
}

/// An expression as it was read.
pub(super) fn raw<'a>(expr: &Expr) -> ShownNode<'a> {
    ShownNode::new(ShownForm::Parts(CallClass::List, vec![ShownPart::Text(expr.to_string())]), None)
}

/// The operator as PostgreSQL writes it.
fn symbol(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
            [schema, operator] if schema == "pg_catalog" => operator.clone(),
            parts => format!("OPERATOR({})", parts.join(".")),
        },
        BinaryOperator::NotEq => "<>".to_owned(),
        other => other.to_string(),
    }
}

/// `name(arguments)`
pub(super) fn call_form<'a>(
    name: &str,
    arguments: Vec<ShownNode<'a>>,
    data_type: Option<DataType>,
) -> ShownNode<'a> {
    let mut parts = vec![ShownPart::Text(format!("{}(", quote_ident(name)))];
    parts.extend(comma_separated(arguments, PartStyle::Argument));
    parts.push(ShownPart::Text(")".to_owned()));
    ShownNode::new(ShownForm::Parts(CallClass::Function, parts), data_type)
}

/// Operands between words.
pub(super) fn list_form<'a>(
    open: &str,
    items: Vec<ShownNode<'a>>,
    close: &str,
    data_type: Option<DataType>,
) -> ShownNode<'a> {
    let mut parts = vec![ShownPart::Text(open.to_owned())];
    parts.extend(comma_separated(items, PartStyle::Argument));
    parts.push(ShownPart::Text(close.to_owned()));
    ShownNode::new(ShownForm::Parts(CallClass::List, parts), data_type)
}
