//! Indexes over expressions, and over the rows that satisfy a condition: from SQL to what computes their keys.
//!
//! The engine knows a [`Derivation`]: the columns that a key depends on, and a function. Here the function is a [`ComputedKey`] of
//! bound expressions, which planning finds again in an index to compare them with those of a query.

use crate::expression::moments::settled;
use crate::expression::{
    Binder, Context, Expression, Function, Parameters, Refusal, Scope, Temporal, evaluate,
};
use crate::name::{folded, identifier};
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{
    ColumnDefinition, ColumnText, DataType, Derivation, Error, Index, Interrupt, KeyFunction, Result,
    SqlState, SystemType, TableDefinition, Value,
};
use ankerdb_value::{TextStyle, assign};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The key of an index over expressions.
pub(crate) struct ComputedKey {
    /// The key's parts. Those that are mere columns are in partial indexes.
    pub parts: Vec<Expression>,
    types: Vec<DataType>,
    /// What all rows of the index satisfy: all of these.
    pub predicate: Vec<Expression>,
}

impl KeyFunction for ComputedKey {
    fn key(&self, value: &dyn Fn(usize) -> Value) -> Result<Option<Vec<Value>>> {
        TextStyle::usual(|| self.computed(value))
    }
}

impl ComputedKey {
    fn computed(&self, value: &dyn Fn(usize) -> Value) -> Result<Option<Vec<Value>>> {
        let interrupt = Interrupt::default();
        let context = Context::of_row(value, &interrupt);
        for condition in &self.predicate {
            if evaluate(condition, &context)? != Value::Boolean(true) {
                return Ok(None);
            }
        }
        let part = |(part, data_type): (&Expression, &DataType)| match evaluate(part, &context)? {
            Value::Null => Ok(Value::Null),
            value => assign(value, *data_type),
        };
        self.parts.iter().zip(&self.types).map(part).collect::<Result<_>>().map(Some)
    }
}

/// The expressions of an index whose keys are computed.
pub(crate) fn computed_key(index: &Index) -> Option<&ComputedKey> {
    let function: &dyn Any = &*index.derivation()?.function;
    function.downcast_ref()
}

/// How an index over these parts, and the rows that satisfy a condition, computes its keys.
///
/// # Errors
/// Those of binding, and `InvalidObjectDefinition` if equal rows could have different keys.
pub(crate) fn derive(
    table: &TableDefinition,
    parts: &[Expr],
    predicate: Option<&Expr>,
) -> Result<Derivation> {
    let columns = &table.columns;
    let mut parts: Vec<Expr> = parts.iter().map(normal).collect();
    let mut key = ComputedKey { parts: Vec::new(), types: Vec::new(), predicate: Vec::new() };
    for part in &mut parts {
        let mut data_type = DataType::Text;
        let (kept, bound) = settled(part, |part| {
            let (bound, known) = bind_part(&table.name, columns, part)?;
            data_type = known;
            Ok(bound)
        })?;
        *part = kept;
        check_immutable(&bound, columns, "expression")?;
        key.parts.push(bound);
        key.types.push(data_type);
    }
    let mut predicate = predicate.map(normal);
    if let Some(predicate) = &mut predicate {
        let bind = |predicate: &Expr| bind_predicate(&table.name, columns, predicate);
        let (kept, condition) = settled(predicate, bind)?;
        *predicate = kept;
        check_immutable(&condition, columns, "predicate")?;
        key.predicate = conjuncts(condition);
    }
    let mut sources = Vec::new();
    key.parts.iter().chain(&key.predicate).for_each(|part| part.collect_columns(&mut sources));
    sources.sort_unstable();
    sources.dedup();
    Ok(Derivation {
        types: key.types.clone(),
        sources,
        parts: parts.iter().map(|part| text(columns, part, is_bare(part))).collect(),
        predicate: predicate.as_ref().map(|predicate| text(columns, predicate, true)),
        function: Arc::new(key),
    })
}

/// The derivation for a table whose columns are others. `position` tells where a column of the former table is now; `None` if it
/// has gone, and the index with it.
pub(crate) fn rederive(
    derivation: &Derivation,
    table: &TableDefinition,
    position: impl Fn(usize) -> Option<usize>,
) -> Result<Option<Derivation>> {
    if derivation.sources.iter().any(|&source| position(source).is_none()) {
        return Ok(None);
    }
    derive_texts(table, &derivation.parts, derivation.predicate.as_ref(), position).map(Some)
}

/// The derivation that the texts of an index say.
///
/// # Errors
/// Those of binding.
pub(crate) fn kept(
    table: &TableDefinition,
    parts: &[ColumnText],
    predicate: Option<&ColumnText>,
) -> Result<Derivation> {
    let derived = derive_texts(table, parts, predicate, Some)?;
    Ok(Derivation { parts: parts.to_vec(), predicate: predicate.cloned(), ..derived })
}

fn derive_texts(
    table: &TableDefinition,
    parts: &[ColumnText],
    predicate: Option<&ColumnText>,
    position: impl Fn(usize) -> Option<usize>,
) -> Result<Derivation> {
    let name = |column: usize| {
        let column = position(column).map_or("", |column| &table.columns[column].name);
        identifier(column).to_string()
    };
    let read = |text: &ColumnText| super::default::parsed(&text.with_names(name));
    let parts = parts.iter().map(read).collect::<Result<Vec<_>>>()?;
    let predicate = predicate.map(read).transpose()?;
    derive(table, &parts, predicate.as_ref())
}

fn bind_part(table: &str, columns: &[ColumnDefinition], part: &Expr) -> Result<(Expression, DataType)> {
    let mut parameters = Parameters::default();
    let scope = Scope::default().with(table, columns);
    let bound = Binder::new(scope, &mut parameters).bind_settled(part).map_err(Refusal::into_error)?;
    check_parameters(&parameters)?;
    let folded = crate::expression::fold(bound.0)?;
    let has_order = match bound.1 {
        DataType::System(system) => matches!(system, SystemType::Oid | SystemType::Name | SystemType::Char),
        other => other != DataType::Json,
    };
    if !has_order {
        let message =
            format!("data type {} has no default operator class for access method \"btree\"", bound.1);
        return Err(Error::new(SqlState::UndefinedObject, message));
    }
    Ok((folded, bound.1))
}

fn bind_predicate(table: &str, columns: &[ColumnDefinition], predicate: &Expr) -> Result<Expression> {
    let mut parameters = Parameters::default();
    let scope = Scope::default().with(table, columns);
    let bound = Binder::new(scope, &mut parameters).bind_condition(predicate, "WHERE");
    let bound = bound.map_err(Refusal::into_error)?;
    check_parameters(&parameters)?;
    Ok(bound)
}

fn check_parameters(parameters: &Parameters) -> Result<()> {
    match parameters.known().is_empty() {
        true => Ok(()),
        false => Err(Error::new(SqlState::UndefinedParameter, "there is no parameter $1")),
    }
}

/// The conditions that all hold where this one does.
pub(crate) fn conjuncts(condition: Expression) -> Vec<Expression> {
    match condition {
        Expression::And(list) => list.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// The target of ON CONFLICT: what an index computes, in terms of a query.
pub(crate) struct Inference {
    pub parts: Vec<Expression>,
    pub predicate: Vec<Expression>,
}

/// Reads `(a, lower(b)) [WHERE c]`.
///
/// # Errors
/// Those of parsing and binding.
pub(crate) fn inference(table: &TableDefinition, target: &str) -> Result<Inference> {
    let statement = crate::parse::parse(&format!("CREATE INDEX ON a {target}"))?.pop();
    let Some(ast::Statement::CreateIndex(create)) = statement.as_ref().and_then(|read| read.ast.as_deref())
    else {
        return Err(Error::internal("a target of ON CONFLICT is read as an index"));
    };
    let part = |column: &ast::IndexColumn| {
        let part = normal(&column.column.expr);
        bind_part(&table.name, &table.columns, &part).map(|(part, _)| part)
    };
    let parts = create.columns.iter().map(part).collect::<Result<_>>()?;
    let predicate = create.predicate.as_ref().map(normal);
    let predicate = predicate.map(|predicate| bind_predicate(&table.name, &table.columns, &predicate));
    Ok(Inference { parts, predicate: predicate.transpose()?.map_or_else(Vec::new, conjuncts) })
}

impl Inference {
    /// Whether an index keeps what the target names unique.
    pub(crate) fn fits(&self, index: &Index) -> bool {
        let plain: Vec<Expression>;
        let (parts, predicate) = match computed_key(index) {
            Some(key) => (&key.parts, &key.predicate[..]),
            None => {
                plain = index.sources().iter().map(|&column| Expression::Column(column)).collect();
                (&plain, &[][..])
            }
        };
        parts.iter().all(|part| self.parts.contains(part))
            && self.parts.iter().all(|part| parts.contains(part))
            && is_implied(predicate, &self.predicate)
    }
}

/// Whether conditions hold wherever others do, as far as that is plain to see.
pub(crate) fn is_implied(predicate: &[Expression], by: &[Expression]) -> bool {
    predicate.iter().all(|condition| {
        by.contains(condition)
            || matches!(condition, Expression::IsNull(operand, false) if by.iter().any(|known| is_strict_of(known, operand)))
    })
}

/// Whether a condition does not hold where the operand is NULL.
fn is_strict_of(condition: &Expression, operand: &Expression) -> bool {
    match condition {
        Expression::Compare(_, pair) => [&pair.0, &pair.1].into_iter().any(|side| match side {
            Expression::Cast(inner, _) => **inner == *operand || side == operand,
            side => side == operand,
        }),
        Expression::InList(tested, _, false) => **tested == *operand,
        _ => false,
    }
}

/// The expression without needless parentheses, and with one around each operator, as PostgreSQL shows it.
pub(super) fn normal(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    let _ = visit_expressions_mut(&mut expr, |expr| {
        while let Expr::Nested(inner) = expr {
            *expr = std::mem::replace(
                &mut **inner,
                Expr::Wildcard(ast::helpers::attached_token::AttachedToken::empty()),
            );
        }
        if is_operator(expr) {
            *expr = Expr::Nested(Box::new(expr.clone()));
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

fn is_operator(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp { .. }
            | Expr::UnaryOp { op: ast::UnaryOperator::Not, .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::InList { .. }
            | Expr::Between { .. }
    )
}

/// Whether it is shown among key columns without a parenthesis around it.
fn is_bare(part: &Expr) -> bool {
    matches!(part, Expr::Function(_) | Expr::Identifier(_))
}

/// The text of an expression, with its columns by position.
fn text(columns: &[ColumnDefinition], expr: &Expr, is_bare: bool) -> ColumnText {
    const MARK: char = '\0';
    let mut marked = expr.clone();
    let _ = visit_expressions_mut(&mut marked, |expr| {
        let name = match expr {
            Expr::Identifier(name) => Some(folded(name)),
            Expr::CompoundIdentifier(parts) => parts.last().map(folded),
            _ => None,
        };
        let position = name.and_then(|name| columns.iter().position(|column| column.name == name));
        if let Some(position) = position {
            *expr = Expr::Identifier(ast::Ident::new(format!("{MARK}{position}{MARK}")));
        }
        ControlFlow::<()>::Continue(())
    });
    let marked = if is_bare { marked.to_string() } else { format!("({marked})") };
    let (mut texts, mut positions) = (Vec::new(), Vec::new());
    for (number, piece) in marked.split(MARK).enumerate() {
        match (number % 2, piece.parse()) {
            (1, Ok(position)) => positions.push(position),
            _ => texts.push(piece.to_owned()),
        }
    }
    ColumnText::new(texts, &positions)
}

/// 42P17 if the value depends on more than the row.
fn check_immutable(expression: &Expression, columns: &[ColumnDefinition], what: &str) -> Result<()> {
    if is_immutable(expression, columns) {
        return Ok(());
    }
    let message = format!("functions in index {what} must be marked IMMUTABLE");
    Err(Error::new(SqlState::InvalidObjectDefinition, message))
}

pub(super) fn is_immutable(expression: &Expression, columns: &[ColumnDefinition]) -> bool {
    let own = match expression {
        Expression::Parameter(_) | Expression::InSubquery(..) => false,
        Expression::Cast(operand, target) => is_immutable_cast(type_of(operand, columns), *target),
        Expression::Call(Function::Temporal(function, _), operands) => {
            let is_with_zone = |operand| matches!(type_of(operand, columns), Some(DataType::TimestampTz(_)));
            let is_time = |operand| matches!(type_of(operand, columns), Some(DataType::Packed(_)));
            // Clocks are changed, and a time of day does not say when it is.
            match function {
                Temporal::TimeZone => !operands.iter().any(is_time),
                Temporal::Age if operands.len() < 2 => false,
                _ => !operands.iter().any(is_with_zone),
            }
        }
        Expression::Call(function, _) => function.is_immutable(),
        _ => true,
    };
    own && expression.operands().into_iter().all(|operand| is_immutable(operand, columns))
}

/// The type of an expression, where that is told by its outermost part.
fn type_of(expression: &Expression, columns: &[ColumnDefinition]) -> Option<DataType> {
    match expression {
        Expression::Column(column) => {
            columns.get(*column).map(|column| column.data_type.without_item_limit())
        }
        Expression::Cast(_, data_type)
        | Expression::Call(
            Function::Library(_, data_type)
            | Function::Temporal(_, data_type)
            | Function::Array(_, data_type),
            _,
        ) => Some(*data_type),
        Expression::Literal(Value::Date(_)) => Some(DataType::Date),
        Expression::Literal(Value::Timestamp(_)) => Some(DataType::TIMESTAMP),
        Expression::Literal(Value::TimestampTz(_)) => Some(DataType::TIMESTAMPTZ),
        Expression::Literal(Value::Text(_)) | Expression::Concatenate(_) => Some(DataType::Text),
        _ => None,
    }
}

/// Casts between moments with and without a zone, and from and to texts, go by settings.
fn is_immutable_cast(from: Option<DataType>, to: DataType) -> bool {
    use DataType::{Date, Interval, Time, Timestamp, TimestampTz};
    let is_time = |data_type: DataType| match data_type {
        Date | Time(_) | Timestamp(_) | TimestampTz(_) | Interval(_) => true,
        DataType::Packed(packed) => !packed.is_network(),
        _ => false,
    };
    match from {
        None => !is_time(to),
        Some(from) if from == to => true,
        Some(TimestampTz(_)) => false,
        // A time becomes one of the session's zone.
        Some(from) if is_time(from) => !matches!(to, TimestampTz(_) | DataType::Packed(_)) && !to.is_text(),
        Some(_) => !is_time(to),
    }
}
