//! Operators: the types of their operands and results. The part of the binder that knows PostgreSQL's rules on
//! operands.

use super::bind::{Binder, Bound, Typed, compared, convert, elsewhere, no_operator, type_name, unmodified};
use super::similar::invalid_escape;
use super::types::{
    Family, common_type, convert_exactly, exact_constant, family, meet_as_numbers, number, numeric, scale_of,
};
use super::{
    Arithmetic, Comparison, Expression, Function, Like, PatternSyntax, array_function, document, library,
};
use crate::name::not_supported;
use ankerdb_engine::{DataType, Error, SqlState, SystemType, Value};
use ankerdb_value::{Number, cast};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

impl Binder<'_> {
    pub(super) fn binary(
        &mut self,
        whole: &Expr,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
    ) -> Bound<Typed> {
        use BinaryOperator as B;
        match op {
            B::And | B::Or => self.junction(whole, op),
            B::Eq => self.compare_exprs(Comparison::Equal, left, right),
            B::NotEq => self.compare_exprs(Comparison::NotEqual, left, right),
            B::Lt => self.compare_exprs(Comparison::Less, left, right),
            B::LtEq => self.compare_exprs(Comparison::LessOrEqual, left, right),
            B::Gt => self.compare_exprs(Comparison::Greater, left, right),
            B::GtEq => self.compare_exprs(Comparison::GreaterOrEqual, left, right),
            B::Plus => self.arithmetic_exprs(Arithmetic::Add, left, right),
            B::Minus => self.arithmetic_exprs(Arithmetic::Subtract, left, right),
            B::Multiply => self.arithmetic_exprs(Arithmetic::Multiply, left, right),
            B::Divide => self.arithmetic_exprs(Arithmetic::Divide, left, right),
            B::Modulo => self.arithmetic_exprs(Arithmetic::Modulo, left, right),
            B::StringConcat => self.concatenate(left, right),
            B::PGLikeMatch => self.like(left, right, None, false, PatternSyntax::Like),
            B::PGNotLikeMatch => self.like(left, right, None, true, PatternSyntax::Like),
            B::PGILikeMatch => self.like(left, right, None, false, PatternSyntax::Ilike),
            B::PGNotILikeMatch => self.like(left, right, None, true, PatternSyntax::Ilike),
            B::AtArrow | B::ArrowAt => {
                let (left, right) = (self.bind(left)?, self.bind(right)?);
                let of_arrays = array_function::operator(self, &left, &op.to_string(), &right);
                of_arrays.unwrap_or_else(|| elsewhere(format!("the operator {op}")))
            }
            other => elsewhere(format!("the operator {other}")),
        }
    }

    /// A chain of ANDs or of ORs, as one flat list.
    pub(super) fn junction(&mut self, whole: &Expr, op: &BinaryOperator) -> Bound<Typed> {
        let mut pending = vec![whole];
        let mut operands = Vec::new();
        while let Some(expr) = pending.pop() {
            match expr {
                Expr::BinaryOp { left, op: inner, right } if inner == op => {
                    pending.extend([&**right, &**left])
                }
                operand => operands.push(self.condition_within(operand, &op.to_string())?),
            }
        }
        let expression =
            if *op == BinaryOperator::And { Expression::And(operands) } else { Expression::Or(operands) };
        Ok(Typed::new(expression, DataType::Boolean))
    }

    pub(crate) fn condition(&mut self, typed: Typed, clause: &str) -> Bound<Expression> {
        match typed.data_type {
            None | Some(DataType::Boolean) => self.resolve(typed, DataType::Boolean),
            Some(other) => {
                let message =
                    format!("argument of {clause} must be type boolean, not type {}", type_name(other));
                Err(Error::new(SqlState::DatatypeMismatch, message).into())
            }
        }
    }

    pub(super) fn unary(&mut self, op: &UnaryOperator, expr: &Expr) -> Bound<Typed> {
        match op {
            UnaryOperator::Not => {
                let operand = self.condition_within(expr, "NOT")?;
                Ok(Typed::new(Expression::Not(Box::new(operand)), DataType::Boolean))
            }
            UnaryOperator::Minus => {
                // The number is read with its sign, so that the smallest integer is one.
                if let Expr::Value(value) = expr
                    && let ast::Value::Number(text, _) = &value.value
                {
                    return Ok(match number(text)? {
                        (Value::BigInt(2_147_483_648), _) => {
                            Typed::new(Expression::Literal(Value::Integer(i32::MIN)), DataType::Integer)
                        }
                        (Value::Numeric(decimal), _) if decimal.unscaled == 1 << 63 && decimal.scale == 0 => {
                            Typed::new(Expression::Literal(Value::BigInt(i64::MIN)), DataType::BigInt)
                        }
                        (value, data_type) => {
                            Typed::new(Expression::Literal(ankerdb_value::negate(&value)?), data_type)
                        }
                    });
                }
                let operand = self.bind(expr)?;
                self.negate(operand)
            }
            UnaryOperator::Plus => {
                let operand = self.bind(expr)?;
                self.number_operand("+", operand)
            }
            other => elsewhere(format!("the operator {other}")),
        }
    }

    /// `- operand`
    pub(crate) fn negate(&mut self, operand: Typed) -> Bound<Typed> {
        let operand = self.number_operand("-", operand)?;
        Ok(Typed { expression: Expression::Negate(Box::new(operand.expression)), ..operand })
    }

    /// The operand of a sign.
    pub(crate) fn number_operand(&mut self, operator: &str, operand: Typed) -> Bound<Typed> {
        match operand.data_type {
            Some(known) if known.is_numeric() => Ok(operand),
            Some(DataType::Interval(_)) if operator == "-" => Ok(operand),
            Some(DataType::Time(_)) if operator == "-" => {
                Ok(Typed::new(convert(operand, DataType::INTERVAL)?, DataType::INTERVAL))
            }
            None => {
                let message = format!("operator is not unique: {operator} unknown");
                Err(Error::new(SqlState::AmbiguousFunction, message).into())
            }
            Some(other) => {
                let message = format!("operator does not exist: {operator} {}", type_name(other));
                Err(Error::new(SqlState::UndefinedFunction, message).into())
            }
        }
    }

    pub(super) fn is_null(&mut self, expr: &Expr, null: bool) -> Bound<Typed> {
        Ok(library::is_null(self.bind(expr)?, null))
    }

    pub(super) fn is_unknown(&mut self, expr: &Expr, unknown: bool) -> Bound<Typed> {
        let operand = self.condition_within(expr, "IS UNKNOWN")?;
        Ok(Typed::new(Expression::IsNull(Box::new(operand), unknown), DataType::Boolean))
    }

    pub(super) fn is_boolean(&mut self, expr: &Expr, value: bool, negated: bool) -> Bound<Typed> {
        let operand = self.condition_within(expr, if value { "IS TRUE" } else { "IS FALSE" })?;
        Ok(Typed::new(Expression::IsBoolean(Box::new(operand), value, negated), DataType::Boolean))
    }

    pub(super) fn distinct(&mut self, left: &Expr, right: &Expr, negated: bool) -> Bound<Typed> {
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        self.distinct_values(left, right, negated)
    }

    /// `left IS [NOT] DISTINCT FROM right`
    pub(crate) fn distinct_values(&mut self, left: Typed, right: Typed, negated: bool) -> Bound<Typed> {
        let pair = self.comparable(left, right, "=")?;
        Ok(Typed::new(Expression::Distinct(Box::new(pair), negated), DataType::Boolean))
    }

    pub(super) fn compare_exprs(
        &mut self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
    ) -> Bound<Typed> {
        if let (Expr::Tuple(left), Expr::Tuple(right)) = (left, right) {
            return self.compare_rows(comparison, left, right);
        }
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        self.compare(comparison, left, right)
    }

    pub(super) fn compare_rows(
        &mut self,
        comparison: Comparison,
        left: &[Expr],
        right: &[Expr],
    ) -> Bound<Typed> {
        if left.len() != right.len() {
            return Err(
                Error::new(SqlState::SyntaxError, "unequal number of entries in row expressions").into()
            );
        }
        let mut equal = Vec::with_capacity(left.len());
        for (left, right) in left.iter().zip(right) {
            equal.push(self.compare_exprs(Comparison::Equal, left, right)?.expression);
        }
        let equal = Expression::And(equal);
        match comparison {
            Comparison::Equal => Ok(Typed::new(equal, DataType::Boolean)),
            Comparison::NotEqual => Ok(Typed::new(Expression::Not(Box::new(equal)), DataType::Boolean)),
            _ => elsewhere("an order of row values"),
        }
    }

    pub(crate) fn compare(&mut self, comparison: Comparison, left: Typed, right: Typed) -> Bound<Typed> {
        let pair = self.comparable(left, right, comparison.symbol())?;
        Ok(Typed::new(Expression::Compare(comparison, Box::new(pair)), DataType::Boolean))
    }

    /// Converts two operands to a type in which they compare.
    pub(crate) fn comparable(
        &mut self,
        left: Typed,
        right: Typed,
        operator: &str,
    ) -> Bound<(Expression, Expression)> {
        let types = (left.data_type, right.data_type);
        match (types.0.and_then(library::row_type), types.1.and_then(library::row_type)) {
            (None, None) => {}
            (Some(one), Some(other)) if one.fields() == other.fields() => {
                return Ok((
                    library::row_key(left.expression, one),
                    library::row_key(right.expression, other),
                ));
            }
            _ => return Err(not_supported("a comparison of rows of different types").into()),
        }
        if [types.0, types.1].into_iter().flatten().any(DataType::is_document) {
            return self.comparable_documents(left, right, operator);
        }
        match types {
            (Some(left_type), Some(right_type)) => {
                // A constant takes the column's type if it has exactly that value, so that an index on the
                // column applies and nothing is converted row by row.
                if let (Expression::Column(_), Expression::Literal(value)) =
                    (&left.expression, &right.expression)
                    && let Some(value) = convert_number(value, right_type, left_type)
                {
                    return Ok((left.expression, Expression::Literal(value)));
                }
                if let (Expression::Literal(value), Expression::Column(_)) =
                    (&left.expression, &right.expression)
                    && let Some(value) = convert_number(value, left_type, right_type)
                {
                    return Ok((Expression::Literal(value), right.expression));
                }
                if meet_as_numbers(left_type, right_type) {
                    return Ok((left.expression, right.expression));
                }
                let Some(common) = compared_type(left_type, right_type) else {
                    return Err(no_operator(&left, operator, &right).into());
                };
                Ok((convert(left, common)?, convert(right, common)?))
            }
            // As if it were written without quotes.
            (Some(DataType::Numeric { .. } | DataType::Number), None) if is_quoted(&right) => {
                let right = self.cast_to_numeric(right)?;
                self.comparable(left, right, operator)
            }
            (None, Some(DataType::Numeric { .. } | DataType::Number)) if is_quoted(&left) => {
                let left = self.cast_to_numeric(left)?;
                self.comparable(left, right, operator)
            }
            (Some(known), None) => Ok((left.expression, self.resolve(right, compared_with(known))?)),
            (None, Some(known)) => Ok((self.resolve(left, compared_with(known))?, right.expression)),
            (None, None) => Ok((self.resolve(left, DataType::Text)?, self.resolve(right, DataType::Text)?)),
        }
    }

    /// The keys of two `jsonb`, which order as they do. A `json` has no order.
    fn comparable_documents(
        &mut self,
        left: Typed,
        right: Typed,
        operator: &str,
    ) -> Bound<(Expression, Expression)> {
        let is_jsonb = |side: &Typed| matches!(side.data_type, None | Some(DataType::Jsonb));
        if !is_jsonb(&left) || !is_jsonb(&right) {
            return Err(no_operator(&left, operator, &right).into());
        }
        let (left, right) = (self.resolve(left, DataType::Jsonb)?, self.resolve(right, DataType::Jsonb)?);
        Ok((document::comparison_key(left), document::comparison_key(right)))
    }

    pub(super) fn arithmetic_exprs(
        &mut self,
        operator: Arithmetic,
        left: &Expr,
        right: &Expr,
    ) -> Bound<Typed> {
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        self.arithmetic(operator, left, right)
    }

    /// `left operator right`, with PostgreSQL's result types.
    pub(crate) fn arithmetic(&mut self, operator: Arithmetic, left: Typed, right: Typed) -> Bound<Typed> {
        // A text is only taken from a document, as a key.
        let is_key = left.data_type.is_none() && right.data_type.is_some_and(DataType::is_text);
        if operator == Arithmetic::Subtract && (left.data_type == Some(DataType::Jsonb) || is_key) {
            return library::call(self, "operator -", vec![left, right]);
        }
        if [left.data_type, right.data_type].into_iter().flatten().any(DataType::is_document) {
            return Err(no_operator(&left, operator.symbol(), &right).into());
        }
        if matches!(left.data_type, Some(DataType::Packed(_)))
            || matches!(right.data_type, Some(DataType::Packed(_)))
        {
            let name = match operator {
                Arithmetic::Add => "operator +",
                Arithmetic::Subtract => "operator -",
                Arithmetic::Multiply => "operator *",
                _ => return Err(no_operator(&left, operator.symbol(), &right).into()),
            };
            return library::call(self, name, vec![left, right]);
        }
        let (left, right) = self.arithmetic_operands(operator, left, right)?;
        let (left_type, right_type) = match (left.data_type, right.data_type) {
            (Some(left), Some(right)) => (left, right),
            _ => return Err(no_operator(&left, operator.symbol(), &right).into()),
        };
        if let Some((operand_types, result)) = temporal_types(operator, left_type, right_type) {
            let pair = (convert(left, operand_types.0)?, convert(right, operand_types.1)?);
            return Ok(Typed::new(Expression::Arithmetic(operator, Box::new(pair)), result));
        }
        let (operand_types, result) = match (family(left_type), family(right_type), operator) {
            (Family::Date, Family::SmallInt | Family::Integer, Arithmetic::Add | Arithmetic::Subtract) => {
                ((DataType::Date, DataType::Integer), DataType::Date)
            }
            (Family::SmallInt | Family::Integer, Family::Date, Arithmetic::Add) => {
                ((DataType::Integer, DataType::Date), DataType::Date)
            }
            (Family::Date, Family::Date, Arithmetic::Subtract) => {
                ((DataType::Date, DataType::Date), DataType::Integer)
            }
            (left_family, right_family, _) if left_type.is_numeric() && right_type.is_numeric() => {
                let common = match (left_family, right_family) {
                    (Family::Real, Family::Real) => DataType::Real,
                    _ => common_type(left_type, right_type).unwrap_or(DataType::DoublePrecision),
                };
                match common {
                    DataType::Numeric { .. } => {
                        if let Some(constant) = long_constant(operator, &left, &right) {
                            return Ok(constant);
                        }
                        let scales = (scale_of(left_type), scale_of(right_type));
                        let operands = (numeric(scales.0), numeric(scales.1));
                        (operands, numeric(result_scale(operator, scales)))
                    }
                    DataType::Number => {
                        let pair = (left.expression, right.expression);
                        return Ok(Typed::new(Expression::Arithmetic(operator, Box::new(pair)), common));
                    }
                    DataType::Real | DataType::DoublePrecision if operator == Arithmetic::Modulo => {
                        return Err(no_operator(&left, operator.symbol(), &right).into());
                    }
                    common => ((common, common), common),
                }
            }
            _ => return Err(not_one_operator(&left, operator, &right).into()),
        };
        let pair = (convert(left, operand_types.0)?, convert(right, operand_types.1)?);
        Ok(Typed::new(Expression::Arithmetic(operator, Box::new(pair)), result))
    }

    /// Gives an operand of unknown type that of the other.
    pub(super) fn arithmetic_operands(
        &mut self,
        operator: Arithmetic,
        left: Typed,
        right: Typed,
    ) -> Bound<(Typed, Typed)> {
        let ambiguous = |left: &str, right: &str| {
            let message = format!("operator is not unique: {left} {} {right}", operator.symbol());
            let hint =
                "Could not choose a best candidate operator. You might need to add explicit type casts.";
            Err(Error::new(SqlState::AmbiguousFunction, message).with_hint(hint).into())
        };
        Ok(match (left.data_type, right.data_type) {
            // It may be days or an interval.
            (Some(DataType::Date), None) if operator == Arithmetic::Add => {
                return ambiguous("date", "unknown");
            }
            (None, Some(DataType::Date)) if operator == Arithmetic::Add => {
                return ambiguous("unknown", "date");
            }
            (Some(known), None) => {
                let right = self.beside(right, beside(operator, known))?;
                (left, right)
            }
            (None, Some(known)) => {
                let left = self.beside(left, beside(operator, known))?;
                (left, right)
            }
            (None, None) => return ambiguous("unknown", "unknown"),
            _ => (left, right),
        })
    }

    /// An operand without a type as one of a type; a constant beside a numeric is one with its own digits.
    fn beside(&mut self, operand: Typed, target: DataType) -> Bound<Typed> {
        match target {
            DataType::Numeric { .. } | DataType::Number if is_quoted(&operand) => {
                self.cast_to_numeric(operand)
            }
            _ => Ok(Typed::new(self.resolve(operand, target)?, target)),
        }
    }

    pub(super) fn concatenate(&mut self, left: &Expr, right: &Expr) -> Bound<Typed> {
        let (left, right) = (self.bind(left)?, self.bind(right)?);
        let of_arrays = array_function::operator(self, &left, "||", &right);
        of_arrays.unwrap_or_else(|| self.concatenate_values(left, right))
    }

    /// `left || right`
    pub(crate) fn concatenate_values(&mut self, left: Typed, right: Typed) -> Bound<Typed> {
        let text = |typed: &Typed| typed.data_type.is_none_or(DataType::is_text);
        let types = [left.data_type, right.data_type];
        if types.contains(&Some(DataType::Jsonb))
            && types.iter().flatten().all(|known| *known == DataType::Jsonb)
        {
            return library::call(self, "operator ||", vec![left, right]);
        }
        let is_bits =
            |known: &Option<DataType>| matches!(known, Some(DataType::Packed(packed)) if packed.is_bits());
        if types.iter().any(is_bits) && types.iter().all(|known| known.is_none() || is_bits(known)) {
            return library::call(self, "operator ||", vec![left, right]);
        }
        // Beside a text it is one, too.
        let is_text = |known: Option<DataType>| known.is_some_and(DataType::is_text);
        if types.contains(&Some(DataType::Bytea)) && !types.into_iter().any(is_text) {
            return elsewhere("concatenation of bytea");
        }
        let is_list = |typed: &Typed| matches!(typed.data_type, Some(DataType::System(SystemType::List(_))));
        if is_list(&left) || is_list(&right) {
            return elsewhere("concatenation of arrays");
        }
        if !text(&left) && !text(&right) {
            return Err(no_operator(&left, "||", &right).into());
        }
        let pair = (self.resolve(left, DataType::Text)?, self.resolve(right, DataType::Text)?);
        Ok(Typed::new(Expression::Concatenate(Box::new(pair)), DataType::Text))
    }

    pub(super) fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool) -> Bound<Typed> {
        if matches!(expr, Expr::Tuple(_)) {
            return elsewhere("IN with row values");
        }
        let operand = self.bind(expr)?;
        let items = list.iter().map(|item| self.bind(item)).collect::<Bound<Vec<_>>>()?;
        self.in_values(operand, items, negated)
    }

    /// `operand IN (items)`
    pub(crate) fn in_values(&mut self, operand: Typed, items: Vec<Typed>, negated: bool) -> Bound<Typed> {
        let types = items.iter().map(|item| item.data_type).chain([operand.data_type]);
        if types.flatten().any(DataType::is_document) {
            let (mut own, mut keys) = (None, Vec::with_capacity(items.len()));
            for item in items {
                let (operand, item) = self.comparable_documents(operand.clone(), item, "=")?;
                own.get_or_insert(operand);
                keys.push(item);
            }
            let operand = own.unwrap_or(Expression::Literal(Value::Null));
            return Ok(Typed::new(Expression::InList(Box::new(operand), keys, negated), DataType::Boolean));
        }
        if let Some(groups) = by_kind_of_text(&operand, &items) {
            let mut memberships = Vec::with_capacity(groups.len());
            for items in groups {
                memberships.push(self.in_values(operand.clone(), items, negated)?.expression);
            }
            let whole = if negated { Expression::And(memberships) } else { Expression::Or(memberships) };
            return Ok(Typed::new(whole, DataType::Boolean));
        }
        // A column compared with constants of exactly its type needs no common type.
        let literals = items.iter().map(|item| match (&operand.expression, operand.data_type, item) {
            (
                Expression::Column(_),
                Some(to),
                Typed { expression: Expression::Literal(value), data_type: Some(from) },
            ) => convert_number(value, *from, to).map(Expression::Literal),
            _ => None,
        });
        if let Some(literals) = literals.collect::<Option<Vec<_>>>() {
            let expression = Expression::InList(Box::new(operand.expression), literals, negated);
            return Ok(Typed::new(expression, DataType::Boolean));
        }
        let mut common = operand.data_type;
        for item in &items {
            common = match (common, item.data_type) {
                (Some(left), Some(right)) => {
                    let both = compared_type(left, right);
                    Some(both.ok_or_else(|| no_operator(&operand, "=", item))?)
                }
                (known, other) => known.or(other),
            };
        }
        let exact = |known: Option<DataType>| known.is_none_or(DataType::is_exact);
        if let Some(DataType::Numeric { .. } | DataType::Number) = common
            && exact(operand.data_type)
            && items.iter().all(|item| exact(item.data_type))
        {
            return self.in_numbers(operand, items, negated);
        }
        let target = compared(common.unwrap_or(DataType::Text));
        let items = items.into_iter().map(|item| Ok(self.beside(item, target)?.expression));
        let items = items.collect::<Bound<Vec<_>>>()?;
        let operand = self.beside(operand, target)?.expression;
        Ok(Typed::new(Expression::InList(Box::new(operand), items, negated), DataType::Boolean))
    }

    /// `operand IN (items)` of exact numbers, which compare as they are.
    fn in_numbers(&mut self, operand: Typed, items: Vec<Typed>, negated: bool) -> Bound<Typed> {
        let mut number = |item: Typed| match item.data_type {
            Some(_) => Ok(item.expression),
            None => Ok(self.beside(item, DataType::Number)?.expression),
        };
        let items = items.into_iter().map(&mut number).collect::<Bound<Vec<_>>>()?;
        let operand = Box::new(number(operand)?);
        Ok(Typed::new(Expression::InList(operand, items, negated), DataType::Boolean))
    }

    pub(super) fn between(&mut self, expr: &Expr, low: &Expr, high: &Expr, negated: bool) -> Bound<Typed> {
        let lower = self.compare_exprs(Comparison::GreaterOrEqual, expr, low)?.expression;
        let upper = self.compare_exprs(Comparison::LessOrEqual, expr, high)?.expression;
        let inside = Expression::And(vec![lower, upper]);
        let expression = if negated { Expression::Not(Box::new(inside)) } else { inside };
        Ok(Typed::new(expression, DataType::Boolean))
    }

    pub(super) fn like(
        &mut self,
        text: &Expr,
        pattern: &Expr,
        escape: Option<&ast::ValueWithSpan>,
        negated: bool,
        syntax: PatternSyntax,
    ) -> Bound<Typed> {
        let (text, pattern) = (self.bind(text)?, self.bind(pattern)?);
        let escape = match escape.map(|escape| &escape.value) {
            None => Some('\\'),
            Some(ast::Value::SingleQuotedString(text)) if text.is_empty() => None,
            Some(ast::Value::SingleQuotedString(text)) if text.chars().count() == 1 => text.chars().next(),
            Some(_) => return Err(invalid_escape().into()),
        };
        self.like_values(text, pattern, escape, negated, syntax)
    }

    /// Bytes as a text that has as many letters.
    fn letters(&mut self, bytes: Typed) -> Bound<Typed> {
        let bytes = Typed::new(self.resolve(bytes, DataType::Bytea)?, DataType::Bytea);
        library::call(self, library::LETTERS, vec![bytes])
    }

    /// `text [NOT] LIKE pattern`, ILIKE, or SIMILAR TO.
    pub(crate) fn like_values(
        &mut self,
        text: Typed,
        pattern: Typed,
        escape: Option<char>,
        negated: bool,
        syntax: PatternSyntax,
    ) -> Bound<Typed> {
        let symbol = match syntax {
            PatternSyntax::Like => "~~",
            PatternSyntax::Ilike => "~~*",
            PatternSyntax::Similar => "similar to",
        };
        let types = [text.data_type, pattern.data_type];
        let are_bytes = types.contains(&Some(DataType::Bytea))
            && types.iter().all(|known| matches!(known, None | Some(DataType::Bytea)));
        let (text, pattern) = match are_bytes && syntax == PatternSyntax::Like {
            true => (self.letters(text)?, self.letters(pattern)?),
            false => (text, pattern),
        };
        if [&text, &pattern].iter().any(|side| side.data_type.is_some_and(|known| !known.is_text())) {
            return Err(no_operator(&text, symbol, &pattern).into());
        }
        let text = self.resolve(with_blanks(text), DataType::Text)?;
        let pattern = self.resolve(pattern, DataType::Text)?;
        let like = Like { text, pattern, escape, syntax, negated };
        Ok(Typed::new(Expression::Like(Box::new(like)), DataType::Boolean))
    }
}

/// Arithmetic of two constants whose result 38 digits do not hold. What fails is left to the evaluation, which may never come.
fn long_constant(operator: Arithmetic, left: &Typed, right: &Typed) -> Option<Typed> {
    let (Expression::Literal(left), Expression::Literal(right)) = (&left.expression, &right.expression)
    else {
        return None;
    };
    let as_number = |value: &Value| cast(value.clone(), DataType::Number).ok();
    let (left, right) = (as_number(left)?, as_number(right)?);
    let result = match operator {
        Arithmetic::Add => ankerdb_value::add(&left, &right),
        Arithmetic::Subtract => ankerdb_value::subtract(&left, &right),
        Arithmetic::Multiply => ankerdb_value::multiply(&left, &right),
        Arithmetic::Divide => ankerdb_value::divide(&left, &right),
        Arithmetic::Modulo => ankerdb_value::modulo(&left, &right),
    };
    let Ok(Value::Number(text)) = result else { return None };
    match exact_constant(&Number::read(&text)) {
        (value @ Value::Number(_), data_type) => Some(Typed::new(Expression::Literal(value), data_type)),
        _ => None,
    }
}

/// The items that the operand meets as a `char`, blanks at the end cut off, and those that it meets as a text; `None` if there are
/// not both.
fn by_kind_of_text(operand: &Typed, items: &[Typed]) -> Option<[Vec<Typed>; 2]> {
    let operand = operand.data_type.filter(|known| known.is_text())?;
    let as_char = |item: &Typed| {
        let common = common_type(operand, item.data_type.unwrap_or(operand));
        matches!(common, Some(DataType::Char(_)))
    };
    let (chars, texts): (Vec<_>, Vec<_>) = items.iter().cloned().partition(as_char);
    (!chars.is_empty() && !texts.is_empty()).then_some([chars, texts])
}

/// The type of a parameter that is compared with a number: a numeric of any length meets every numeric without a conversion.
fn compared_with(known: DataType) -> DataType {
    match known {
        DataType::Numeric { .. } => DataType::Number,
        other => compared(other),
    }
}

/// Whether this is a constant in quotes, which has no type yet.
pub(crate) fn is_quoted(operand: &Typed) -> bool {
    operand.data_type.is_none() && matches!(operand.expression, Expression::Literal(Value::Text(_)))
}

/// Whether this is a constant in quotes or a parameter, which has no type yet.
pub(super) fn is_untyped(operand: &Typed) -> bool {
    is_quoted(operand)
        || operand.data_type.is_none() && matches!(operand.expression, Expression::Parameter(_))
}

/// The longest `char(n)` that is filled up with blanks for LIKE.
const BLANKS_MAX: u32 = 8192;

/// A `char(n)` as LIKE sees it: with the blanks that are not stored. (All other operators on texts see it without.)
pub(crate) fn with_blanks(text: Typed) -> Typed {
    match text.data_type {
        Some(DataType::Char(length @ ..=BLANKS_MAX)) => {
            let blanks = Expression::Literal(Value::text(" ".repeat(length as usize)));
            let long = Expression::Concatenate(Box::new((text.expression, blanks)));
            let length = Expression::Literal(Value::Integer(length as i32));
            Typed::new(Expression::Call(Function::Left, vec![long, length]), DataType::Text)
        }
        _ => text,
    }
}

/// A number of one type as exactly the same number of another, or a timestamp as a date; `None` also if these are something
/// else.
fn convert_number(value: &Value, from: DataType, to: DataType) -> Option<Value> {
    let are_numbers =
        from.is_numeric() && to.is_numeric() && !matches!(to, DataType::Real | DataType::DoublePrecision);
    // Midnight is its day.
    let are_days = matches!((from, to), (DataType::Timestamp(_), DataType::Date));
    (are_numbers || are_days).then(|| convert_exactly(value.clone(), to)).flatten()
}

/// The type of something without a type beside something of a known one.
fn beside(operator: Arithmetic, known: DataType) -> DataType {
    match (known, operator) {
        (DataType::Timestamp(_) | DataType::TimestampTz(_) | DataType::Time(_), Arithmetic::Add) => {
            DataType::INTERVAL
        }
        (DataType::Interval(_) | DataType::Time(_), Arithmetic::Multiply | Arithmetic::Divide) => {
            DataType::DoublePrecision
        }
        _ => unmodified(known),
    }
}

/// The error that there is no such operator, or several: a time serves as an interval and as a time of a zone.
fn not_one_operator(left: &Typed, operator: Arithmetic, right: &Typed) -> Error {
    match (left.data_type, operator, right.data_type) {
        (Some(DataType::Time(_)), Arithmetic::Add, Some(DataType::Time(_))) => {
            let message = format!("operator is not unique: {} + {}", left.type_name(), right.type_name());
            Error::new(SqlState::AmbiguousFunction, message)
        }
        _ => no_operator(left, operator.symbol(), right),
    }
}

/// The type in which operands are compared: a time beside an interval is the interval since midnight.
fn compared_type(left: DataType, right: DataType) -> Option<DataType> {
    match (left, right) {
        (DataType::Interval(_), DataType::Time(_)) | (DataType::Time(_), DataType::Interval(_)) => {
            Some(DataType::INTERVAL)
        }
        _ => common_type(left, right),
    }
}

/// The types of operands, and of the result, where a date, time or interval meets something.
pub(crate) fn temporal_types(
    operator: Arithmetic,
    left: DataType,
    right: DataType,
) -> Option<((DataType, DataType), DataType)> {
    use Arithmetic::{Add, Divide, Multiply, Subtract};
    use DataType::{Date, DoublePrecision, Interval, Time, Timestamp, TimestampTz};
    let (left, right) = (left.of_any_precision(), right.of_any_precision());
    let later = |moment| if moment == Date { DataType::TIMESTAMP } else { moment };
    let moments = |left, right| match left == DataType::TIMESTAMPTZ || right == DataType::TIMESTAMPTZ {
        true => DataType::TIMESTAMPTZ,
        false => DataType::TIMESTAMP,
    };
    // A time is the interval since midnight where no operator takes a time.
    let since_midnight = |side| if matches!(side, Time(_)) { DataType::INTERVAL } else { side };
    let is_moment = |side| matches!(side, Timestamp(_) | TimestampTz(_));
    let (left, right) = match operator {
        Subtract if matches!(left, Interval(_) | Date) || is_moment(left) => (left, since_midnight(right)),
        Add if is_moment(left) => (left, since_midnight(right)),
        Add if is_moment(right) => (since_midnight(left), right),
        Multiply | Divide => (since_midnight(left), since_midnight(right)),
        _ => (left, right),
    };
    let (operands, result) = match (left, operator, right) {
        (Interval(_), Add | Subtract, Interval(_)) | (Time(_), Subtract, Time(_)) => {
            ((left, right), DataType::INTERVAL)
        }
        (Date | Timestamp(_) | TimestampTz(_) | Time(_), Add | Subtract, Interval(_)) => {
            ((left, right), later(left))
        }
        (Interval(_), Add, Date | Timestamp(_) | TimestampTz(_) | Time(_)) => ((left, right), later(right)),
        (Date, Add, Time(_)) | (Time(_), Add, Date) => ((left, right), DataType::TIMESTAMP),
        (Date, Subtract, Date) => return None,
        (Date | Timestamp(_) | TimestampTz(_), Subtract, Date | Timestamp(_) | TimestampTz(_)) => {
            let both = moments(left, right);
            ((both, both), DataType::INTERVAL)
        }
        (Interval(_), Multiply | Divide, factor) if factor.is_numeric() => {
            ((left, DoublePrecision), DataType::INTERVAL)
        }
        (factor, Multiply, Interval(_)) if factor.is_numeric() => {
            ((DoublePrecision, right), DataType::INTERVAL)
        }
        _ => return None,
    };
    Some((operands, result))
}

/// Fractional digits of a result. Division keeps at least 16, as PostgreSQL's quotients have.
fn result_scale(operator: Arithmetic, (left, right): (u8, u8)) -> u8 {
    match operator {
        Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Modulo => left.max(right),
        Arithmetic::Multiply => left.saturating_add(right),
        Arithmetic::Divide => left.max(right).max(16),
    }
}
