//! From parsed expressions to bound ones: resolves names, infers types, and inserts casts.
//!
//! Literals in quotes, NULL and undeclared parameters begin with an unknown type and take the type of what they
//! meet, as in PostgreSQL. What the OLTP path does not know, such as aggregates, is no error: the binder answers
//! [`Refusal::Elsewhere`], and a SELECT then runs on the OLAP path.

use super::alternatives::common_alternative;
use super::fold::cast_if_possible;
use super::notation::as_call;
use super::operator::is_untyped;
use super::types::{
    ANY_BIT, Family, assignable, data_type, exact_constant, family, number, numeric, same_representation,
};
use super::{Comparison, Expression, Function, PatternSyntax, fold, library, moments};
use crate::forms::row;
use crate::item_assignments::OWN;
use crate::name::{DATABASE, TABLE_NUMBER, folded, quoted, undefined_column};
use crate::syntax_error::too_deep;
use ankerdb_engine::{
    ColumnDefinition, DataType, Decimal, Error, QualifiedName, SqlState, SystemType, Value,
};
use ankerdb_value::{Interval, Number, cast, parse_text};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::collections::BTreeSet;

/// Expressions within expressions; AND and OR count once however long the chain.
const DEPTH_MAX: usize = 250;

/// Why an expression was not bound.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The OLTP path does not know this; the words fit "... is not supported".
    Elsewhere(String),
    /// An error on both paths.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Failed(error)
    }
}

impl Refusal {
    /// The error for a statement that has no other way to run.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Refusal::Elsewhere(what) => crate::name::not_supported(&what),
            Refusal::Failed(error) => error,
        }
    }
}

pub(crate) type Bound<T> = Result<T, Refusal>;

/// Something that the OLTP path does not know.
pub(crate) fn elsewhere<T>(what: impl Into<String>) -> Bound<T> {
    Err(Refusal::Elsewhere(what.into()))
}

/// An expression and its type; `None` while that is unknown.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub expression: Expression,
    pub data_type: Option<DataType>,
}

impl Typed {
    /// An expression of a known type.
    pub(crate) fn new(expression: Expression, data_type: DataType) -> Typed {
        Typed { expression, data_type: Some(data_type) }
    }

    pub(super) fn type_name(&self) -> String {
        self.data_type.map_or("unknown".into(), type_name)
    }
}

/// 42804 for a value of a type that assignment does not convert to the column's.
pub(crate) fn not_assignable(column: &ColumnDefinition, from: DataType) -> Error {
    let message = format!(
        "column {} is of type {} but expression is of type {}",
        quoted(&column.name),
        type_name(column.data_type),
        type_name(from)
    );
    let hint = "You will need to rewrite or cast the expression.";
    Error::new(SqlState::DatatypeMismatch, message).with_hint(hint)
}

/// The type's name without modifiers, as PostgreSQL's messages show types.
pub(crate) fn type_name(data_type: DataType) -> String {
    match data_type {
        DataType::Numeric { .. } => "numeric".into(),
        DataType::Varchar(_) => "character varying".into(),
        DataType::Char(_) => "character".into(),
        other => other.of_any_precision().to_string(),
    }
}

/// The parameters' types as far as they are known.
#[derive(Default, Debug)]
pub(crate) struct Parameters {
    types: Vec<Option<DataType>>,
}

impl Parameters {
    /// Types that the client declared.
    pub(crate) fn declared(types: &[Option<DataType>]) -> Parameters {
        Parameters { types: types.to_vec() }
    }

    /// Notes that there is such a parameter; its type, if it is known.
    pub(crate) fn mention(&mut self, position: usize) -> Option<DataType> {
        if self.types.len() <= position {
            self.types.resize(position + 1, None);
        }
        self.types[position]
    }

    /// The types found; text where nothing determines one, as in PostgreSQL for parameters that stand alone.
    pub(crate) fn finish(self) -> Vec<DataType> {
        self.types.into_iter().map(|known| known.unwrap_or(DataType::Text)).collect()
    }

    /// Takes over types that another planner found for the parameters at these positions of its query; for others it has none.
    pub(crate) fn merge(&mut self, found: &[DataType], used: &BTreeSet<usize>) {
        for &position in used {
            self.mention(position);
            let known = &mut self.types[position];
            *known = known.or(found.get(position).copied());
        }
    }

    /// The types as far as they are known.
    pub(crate) fn known(&self) -> &[Option<DataType>] {
        &self.types
    }
}

/// The names that an expression may use.
#[derive(Clone, Default)]
pub(crate) struct Scope<'a> {
    relations: Vec<Relation<'a>>,
    /// The position of the next relation's first column.
    next: usize,
}

/// A table under the name that a statement gives it.
#[derive(Clone)]
struct Relation<'a> {
    name: String,
    /// Its schema, if names of columns may begin with it.
    schema: Option<String>,
    columns: &'a [ColumnDefinition],
    /// The position of its first column.
    offset: usize,
    /// What its columns are, if they are not those of a table: `None` for one that the OLTP path does not know.
    values: Option<&'a [Option<Typed>]>,
    /// The number by which clients know it, if that is known.
    number: Option<u32>,
}

impl Relation<'_> {
    fn is_meant(&self, schema: Option<&str>, name: &str) -> bool {
        self.name == name && (schema.is_none() || self.schema.as_deref() == schema)
    }

    /// The column of this name, if there is one.
    fn find(&self, name: &str) -> Option<Bound<Typed>> {
        let position = self.columns.iter().position(|column| column.name == name)?;
        Some(self.at(position))
    }

    fn at(&self, position: usize) -> Bound<Typed> {
        match self.values.map(|values| &values[position]) {
            None => {
                let data_type = self.columns[position].data_type.without_item_limit();
                Ok(Typed::new(Expression::Column(self.offset + position), data_type))
            }
            Some(Some(value)) => Ok(value.clone()),
            Some(None) => elsewhere("a column of a view that is computed in this way"),
        }
    }
}

impl<'a> Scope<'a> {
    /// A scope whose first column has this position.
    pub(crate) fn starting_at(next: usize) -> Scope<'a> {
        Scope { relations: Vec::new(), next }
    }

    /// Adds a table under a name. Its columns follow those of the tables before.
    pub(crate) fn with(mut self, name: impl Into<String>, columns: &'a [ColumnDefinition]) -> Scope<'a> {
        let (name, offset) = (name.into(), self.next);
        self.relations.push(Relation { name, schema: None, columns, offset, values: None, number: None });
        self.next += columns.len();
        self
    }

    /// Adds a relation whose columns are these values, over a table of so many columns that follow those of the tables before.
    pub(crate) fn with_values(
        mut self,
        name: impl Into<String>,
        columns: &'a [ColumnDefinition],
        values: &'a [Option<Typed>],
        width: usize,
    ) -> Scope<'a> {
        let (name, offset) = (name.into(), self.next);
        self.relations.push(Relation {
            name,
            schema: None,
            columns,
            offset,
            values: Some(values),
            number: None,
        });
        self.next += width;
        self
    }

    /// Names of columns may begin with the schema of the table that was added last.
    pub(crate) fn in_schema(mut self, schema: &str) -> Scope<'a> {
        if let Some(last) = self.relations.last_mut() {
            last.schema = Some(schema.to_owned());
        }
        self
    }

    /// Clients know the relation that was added last by this number.
    pub(crate) fn numbered(mut self, number: Option<u32>) -> Scope<'a> {
        if let Some(last) = self.relations.last_mut() {
            last.number = number;
        }
        self
    }

    /// All columns, or those of the named relation.
    pub(crate) fn expand(&self, name: Option<&QualifiedName>) -> Bound<Vec<(String, Typed)>> {
        let is_meant = |relation: &&Relation| {
            name.is_none_or(|name| relation.is_meant(name.schema.as_deref(), &name.name))
        };
        let meant: Vec<_> = self.relations.iter().filter(is_meant).collect();
        if meant.is_empty() {
            return Err(match name {
                Some(name) => missing_from(&name.name),
                None => Error::new(SqlState::SyntaxError, "SELECT * with no tables specified is not valid"),
            }
            .into());
        }
        let mut typed = Vec::new();
        for relation in meant {
            for (position, column) in relation.columns.iter().enumerate() {
                typed.push((column.name.clone(), relation.at(position)?));
            }
        }
        Ok(typed)
    }

    /// The relation's column of this name, or the one that PostgreSQL adds to every table and `*` leaves out.
    fn find(&self, relation: &Relation<'_>, name: &str) -> Option<Bound<Typed>> {
        relation.find(name).or_else(|| match (relation.number, relation.values) {
            _ if name != TABLE_NUMBER => None,
            (_, Some(_)) => None,
            (Some(number), None) if self.relations.len() == 1 => {
                let number = Expression::Literal(Value::BigInt(number.into()));
                Some(Ok(Typed::new(number, DataType::System(SystemType::Oid))))
            }
            _ => Some(elsewhere("the number of a table in such a place")),
        })
    }

    /// The column that a name without a relation means. 42702 if several relations have one.
    fn column(&self, name: &str) -> Bound<Option<Typed>> {
        // The table that is written is the first one.
        if let Some(own) = name.strip_prefix(OWN) {
            return self.relations.first().and_then(|table| self.find(table, own)).transpose();
        }
        let mut found = self.relations.iter().filter_map(|relation| self.find(relation, name));
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => {
                let message = format!("column reference {} is ambiguous", quoted(name));
                Err(Error::new(SqlState::AmbiguousColumn, message).into())
            }
            (one, _) => one.transpose(),
        }
    }

    /// The number for clients of the relation of this name.
    fn number(&self, name: &str) -> Option<u32> {
        self.relations.iter().find(|relation| relation.is_meant(None, name))?.number
    }

    /// Whether the name is that of a table.
    fn has_relation(&self, name: &str) -> bool {
        self.relations.iter().any(|relation| relation.is_meant(None, name))
    }

    fn qualified(&self, schema: Option<&str>, relation: &str, name: &str) -> Bound<Typed> {
        let Some(found) = self.relations.iter().find(|known| known.is_meant(schema, relation)) else {
            return Err(missing_from(relation).into());
        };
        self.find(found, name).unwrap_or_else(|| {
            let message = format!("column {relation}.{name} does not exist");
            Err(Error::new(SqlState::UndefinedColumn, message).into())
        })
    }
}

fn missing_from(name: &str) -> Error {
    Error::new(SqlState::UndefinedTable, format!("missing FROM-clause entry for table {}", quoted(name)))
}

/// Plans the uncorrelated subqueries of an expression.
pub(crate) trait Subqueries {
    /// Plans the query; returns its number and the types of its columns.
    fn add(&mut self, query: &ast::Query, parameters: &mut Parameters) -> Bound<(usize, Vec<DataType>)>;
}

/// Binds the expressions of one statement.
pub(crate) struct Binder<'a> {
    pub scope: Scope<'a>,
    pub parameters: &'a mut Parameters,
    /// Where subqueries are allowed.
    pub subqueries: Option<&'a mut dyn Subqueries>,
    /// Whether names may be those of columns around the query.
    pub is_in_rows: bool,
    depth: usize,
}

impl<'a> Binder<'a> {
    /// A binder without subqueries.
    pub(crate) fn new(scope: Scope<'a>, parameters: &'a mut Parameters) -> Binder<'a> {
        Binder { scope, parameters, subqueries: None, is_in_rows: false, depth: 0 }
    }

    /// Binds an expression; literals and parameters may stay of unknown type.
    pub(crate) fn bind(&mut self, expr: &Expr) -> Bound<Typed> {
        if self.depth == DEPTH_MAX {
            return Err(too_deep().into());
        }
        self.depth += 1;
        let bound = match crate::domains::as_call(expr) {
            Some(call) => self.bind_node(&call),
            None => self.bind_node(expr),
        };
        self.depth -= 1;
        bound
    }

    /// Binds an expression whose type is then known.
    pub(crate) fn bind_settled(&mut self, expr: &Expr) -> Bound<(Expression, DataType)> {
        let typed = self.bind(expr)?;
        self.settle(typed)
    }

    /// Binds a condition. 42804 if it is not a boolean; `clause` is the word for the message.
    pub(crate) fn bind_condition(&mut self, expr: &Expr, clause: &str) -> Bound<Expression> {
        Ok(fold(self.condition_within(expr, clause)?)?)
    }

    /// Binds a condition that is a part of an expression.
    pub(super) fn condition_within(&mut self, expr: &Expr, clause: &str) -> Bound<Expression> {
        let typed = self.bind(expr)?;
        self.condition(typed, clause)
    }

    /// Binds a value for a column, converting it as assignment does. 42804 if the types do not fit.
    pub(crate) fn bind_assigned(&mut self, expr: &Expr, column: &ColumnDefinition) -> Bound<Expression> {
        let typed = self.bind(expr)?;
        self.assigned(typed, column)
    }

    /// Binds a value that a statement writes, like [`bind_assigned`](Self::bind_assigned); a constant beyond the type's limits is
    /// refused at once.
    pub(crate) fn bind_written(&mut self, expr: &Expr, column: &ColumnDefinition) -> Bound<Expression> {
        Ok(fold::within_limits(self.bind_assigned(expr, column)?, column.data_type)?)
    }

    /// Converts an expression that is bound already like [`bind_assigned`](Self::bind_assigned). The
    /// conversion to the column's exact type, with its checks of length and precision, is left to
    /// `ankerdb_value::assign`.
    pub(crate) fn assigned(&mut self, typed: Typed, column: &ColumnDefinition) -> Bound<Expression> {
        match typed.data_type {
            // The fields of an interval say how its text is read.
            None => match (&typed.expression, column.data_type) {
                (Expression::Literal(_), target @ DataType::Interval(_)) => self.resolve(typed, target),
                (_, target) => self.resolve(typed, unmodified(target)),
            },
            Some(from) if assignable(from, column.data_type) => Ok(fold(typed.expression)?),
            Some(from) => Err(not_assignable(column, from).into()),
        }
    }

    fn bind_node(&mut self, expr: &Expr) -> Bound<Typed> {
        if let Some((name, arguments)) = as_call(expr) {
            return super::function::bind_call(self, name, &arguments.iter().collect::<Vec<_>>());
        }
        match expr {
            Expr::Nested(inner) => self.bind(inner),
            Expr::Identifier(ident) => self.identifier(ident),
            Expr::CompoundIdentifier(parts) => self.compound(parts),
            Expr::Value(value) => self.value(&value.value),
            Expr::TypedString(typed) => {
                let target = data_type(&typed.data_type)?;
                let text = self.value(&typed.value.value)?;
                if is_bare_numeric(&typed.data_type) {
                    self.cast_to_numeric(text)
                } else {
                    self.cast(text, target)
                }
            }
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type: to,
                ..
            } => {
                let target = match data_type(to) {
                    // Names of objects are looked up in the system catalog.
                    Ok(DataType::System(SystemType::Object(_))) => return elsewhere(format!("type {to}")),
                    Ok(target) => target,
                    // Types that only the OLAP path has, such as intervals.
                    Err(_) => return elsewhere(format!("type {to}")),
                };
                let operand = self.cast_operand(expr, target)?;
                if is_bare_numeric(to) { self.cast_to_numeric(operand) } else { self.cast(operand, target) }
            }
            Expr::BinaryOp { left, op, right } => self.binary(expr, left, op, right),
            Expr::UnaryOp { op, expr } => self.unary(op, expr),
            Expr::IsNull(operand) => self.is_null(operand, true),
            Expr::IsNotNull(operand) => self.is_null(operand, false),
            Expr::IsTrue(operand) => self.is_boolean(operand, true, false),
            Expr::IsNotTrue(operand) => self.is_boolean(operand, true, true),
            Expr::IsFalse(operand) => self.is_boolean(operand, false, false),
            Expr::IsNotFalse(operand) => self.is_boolean(operand, false, true),
            Expr::IsUnknown(operand) => self.is_unknown(operand, true),
            Expr::IsNotUnknown(operand) => self.is_unknown(operand, false),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, false),
            Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, true),
            Expr::Array(array) => self.array(&array.elem),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.quantified(expr),
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Expr::InSubquery { expr, subquery, negated } => self.in_subquery(expr, subquery, *negated),
            Expr::Subquery(query) => self.scalar_subquery(query),
            Expr::Exists { subquery, negated } => self.exists(subquery, *negated),
            Expr::Between { expr, negated, low, high } => self.between(expr, low, high, *negated),
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => self.pattern(expr),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            Expr::Function(function) => super::function::bind_function(self, function),
            Expr::Trim { trim_where, trim_what, expr, trim_characters: None } => {
                super::function::bind_trim(self, *trim_where, trim_what.as_deref(), expr)
            }
            Expr::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                super::function::bind_call(self, "ceil", &[expr])
            }
            Expr::Floor {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => super::function::bind_call(self, "floor", &[expr]),
            other => self.several(other),
        }
    }

    /// Rows of values, and values out of arrays.
    fn several(&mut self, expr: &Expr) -> Bound<Typed> {
        match expr {
            Expr::CompoundFieldAccess { root, access_chain } => {
                super::array_function::subscript(self, root, access_chain)
            }
            Expr::Tuple(values) => {
                super::function::bind_call(self, library::ROW_VALUE, &values.iter().collect::<Vec<_>>())
            }
            Expr::QualifiedWildcard(relation, _)
                if let [part] = relation.0.as_slice()
                    && let Some(name) = part.as_ident().map(folded)
                    && self.scope.has_relation(&name) =>
            {
                self.whole_row(name)
            }
            other => elsewhere(format!("the expression {}", brief(other))),
        }
    }

    /// LIKE, ILIKE and SIMILAR TO.
    fn pattern(&mut self, expr: &Expr) -> Bound<Typed> {
        let (negated, text, pattern, escape, syntax) = match expr {
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                (negated, expr, pattern, escape_char, PatternSyntax::Like)
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                (negated, expr, pattern, escape_char, PatternSyntax::Ilike)
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                (negated, expr, pattern, escape_char, PatternSyntax::Similar)
            }
            other => return elsewhere(format!("the expression {}", brief(other))),
        };
        self.like(text, pattern, escape.as_ref(), *negated, syntax)
    }

    fn identifier(&mut self, ident: &ast::Ident) -> Bound<Typed> {
        let name = folded(ident);
        if let Some(column) = self.scope.column(&name)? {
            return Ok(column);
        }
        if name == "default" && ident.quote_style.is_none() {
            let message = "DEFAULT is not allowed in this context";
            return Err(Error::new(SqlState::SyntaxError, message).into());
        }
        match Function::constant(&name) {
            Some(constant) if ident.quote_style.is_none() => Ok(constant),
            _ if self.scope.has_relation(&name) => self.whole_row(name),
            _ => Err(undefined_column(&name).into()),
        }
    }

    /// The row of a relation.
    fn whole_row(&mut self, name: String) -> Bound<Typed> {
        if self.is_in_rows {
            return elsewhere("a row within a query");
        }
        let number = self.scope.number(&name).map_or(Value::Null, |number| Value::BigInt(number.into()));
        let number = Typed::new(Expression::Literal(number), DataType::BigInt);
        let columns = self.scope.expand(Some(&QualifiedName { schema: None, name }))?;
        let fields = columns.into_iter().map(|(_, value)| value);
        let items = std::iter::once(number).chain(fields).collect();
        library::call(self, library::ROW_OF_RELATION, items)
    }

    /// Names and values of the row that an expression is: that of a table, or one that is written; `None` for others.
    pub(super) fn members(&mut self, expr: &Expr) -> Bound<Option<Vec<(String, Typed)>>> {
        if let Expr::Identifier(ident) = expr {
            let name = folded(ident);
            if self.is_in_rows || self.scope.column(&name)?.is_some() || !self.scope.has_relation(&name) {
                return Ok(None);
            }
            return self.scope.expand(Some(&QualifiedName { schema: None, name })).map(Some);
        }
        let Some(values) = row(expr).filter(|_| !matches!(expr, Expr::Nested(_))) else { return Ok(None) };
        let members = values.iter().zip(1..).map(|(value, at)| Ok((format!("f{at}"), self.bind(value)?)));
        members.collect::<Bound<Vec<_>>>().map(Some)
    }

    fn compound(&mut self, parts: &[ast::Ident]) -> Bound<Typed> {
        let names: Vec<String> = parts.iter().map(folded).collect();
        match names.as_slice() {
            [relation, column] => self.scope.qualified(None, relation, column),
            [schema, relation, column] => self.scope.qualified(Some(schema), relation, column),
            [database, schema, relation, column] if database == DATABASE => {
                self.scope.qualified(Some(schema), relation, column)
            }
            _ => elsewhere(format!("the name {}", names.join("."))),
        }
    }

    fn value(&mut self, value: &ast::Value) -> Bound<Typed> {
        let unknown =
            |text: &str| Typed { expression: Expression::Literal(Value::text(text)), data_type: None };
        Ok(match value {
            ast::Value::Number(text, _) => {
                let (value, data_type) = number(text)?;
                Typed::new(Expression::Literal(value), data_type)
            }
            ast::Value::SingleQuotedString(text)
            | ast::Value::EscapedStringLiteral(text)
            | ast::Value::UnicodeStringLiteral(text)
            | ast::Value::NationalStringLiteral(text) => unknown(text),
            ast::Value::DollarQuotedString(text) => unknown(&text.value),
            ast::Value::Boolean(value) => {
                Typed::new(Expression::Literal(Value::Boolean(*value)), DataType::Boolean)
            }
            ast::Value::SingleQuotedByteStringLiteral(digits) => bits('b', digits)?,
            ast::Value::HexStringLiteral(digits) => bits('x', digits)?,
            ast::Value::Null => Typed { expression: Expression::Literal(Value::Null), data_type: None },
            ast::Value::Placeholder(name) => {
                let position = placeholder(name)?;
                let data_type = self.parameters.mention(position);
                Typed { expression: Expression::Parameter(position), data_type }
            }
            other => return elsewhere(format!("the literal {other}")),
        })
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        branches: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Bound<Typed> {
        let mut conditions = Vec::with_capacity(branches.len());
        for branch in branches {
            conditions.push(match operand {
                Some(row @ Expr::Tuple(_)) => {
                    self.compare_exprs(Comparison::Equal, row, &branch.condition)?.expression
                }
                Some(operand) => {
                    let operand = self.bind(operand)?;
                    let operand = self.case_operand(operand)?;
                    let value = self.bind(&branch.condition)?;
                    self.compare(Comparison::Equal, operand, value)?.expression
                }
                None => self.condition_within(&branch.condition, "CASE/WHEN")?,
            });
        }
        let mut results =
            branches.iter().map(|branch| self.bind(&branch.result)).collect::<Bound<Vec<_>>>()?;
        results.push(match otherwise {
            Some(expr) => self.bind(expr)?,
            None => Typed { expression: Expression::Literal(Value::Null), data_type: None },
        });
        // What is behind ELSE is the first of the alternatives.
        results.rotate_right(1);
        let (mut results, data_type) = self.merge(results, "CASE")?;
        let otherwise = results.remove(0);
        let branches = conditions.into_iter().zip(results).collect();
        Ok(Typed::new(Expression::Case(branches, Box::new(otherwise)), data_type))
    }

    /// Converts alternatives to one type, as CASE, COALESCE, GREATEST and so on do. Constants in quotes and parameters beside a numeric keep
    /// their digits.
    pub(crate) fn merge(&mut self, items: Vec<Typed>, what: &str) -> Bound<(Vec<Expression>, DataType)> {
        let mut items = items;
        let mut common = common_alternative(&items, what)?;
        if let Some(DataType::Numeric { .. } | DataType::Number) = common
            && items.iter().any(is_untyped)
        {
            let number = |item| if is_untyped(&item) { self.cast_to_numeric(item) } else { Ok(item) };
            items = items.into_iter().map(number).collect::<Bound<Vec<_>>>()?;
            common = common_alternative(&items, what)?;
        }
        let common = common.unwrap_or(DataType::Text);
        let items = items.into_iter().map(|item| self.resolve(item, common)).collect::<Bound<Vec<_>>>()?;
        Ok((items, common))
    }

    /// `CAST(operand AS target)`
    pub(crate) fn cast(&mut self, operand: Typed, target: DataType) -> Bound<Typed> {
        let parameter = matches!(operand.expression, Expression::Parameter(_));
        let is_unknown = operand.data_type.is_none();
        let operand = match operand.data_type {
            None if parameter => {
                let bare = unmodified(target);
                Typed::new(self.resolve(operand, bare)?, bare)
            }
            None => Typed::new(operand.expression, DataType::Text),
            Some(DataType::Jsonb) if super::document::is_cast(target) => {
                return Ok(super::document::cast(operand.expression, target));
            }
            Some(from) => {
                check_castable(from, target)?;
                operand
            }
        };
        let modified = matches!(target, DataType::Varchar(_) | DataType::Char(_) | DataType::Numeric { .. })
            || target != target.of_any_precision();
        let is_any = target == DataType::ANY_VARCHAR && operand.data_type.is_some_and(DataType::is_text);
        let expression = match operand.expression {
            same if is_any || !modified && operand.data_type == Some(target) => same,
            unknown if is_unknown => fold_cast(unknown, target)?,
            typed => cast_if_possible(typed, target),
        };
        Ok(Typed::new(expression, target.without_item_limit()))
    }

    /// `CAST(operand AS numeric)`: without a scale of its own it keeps what the operand has, and has any length where that is not known.
    pub(crate) fn cast_to_numeric(&mut self, operand: Typed) -> Bound<Typed> {
        if let (Some(DataType::Jsonb), Expression::Literal(Value::Text(text))) =
            (operand.data_type, &operand.expression)
        {
            return Ok(super::document::constant_number(text)?);
        }
        let scale = match (operand.data_type, &operand.expression) {
            (Some(DataType::Numeric { scale, .. }), _) => {
                return Ok(Typed::new(operand.expression, numeric(scale)));
            }
            (Some(DataType::Number), _) => return Ok(operand),
            (Some(DataType::SmallInt | DataType::Integer | DataType::BigInt), _) => Some(0),
            (None, Expression::Literal(Value::Text(text))) => {
                let (value, data_type) = exact_constant(&Number::parse(text)?);
                return Ok(Typed::new(Expression::Literal(value), data_type));
            }
            _ => None,
        };
        match scale {
            Some(scale) => self.cast(operand, numeric(scale)),
            None => self.cast(operand, DataType::Number),
        }
    }

    /// The expression with its type; text if nothing else is known.
    pub(crate) fn settle(&mut self, typed: Typed) -> Bound<(Expression, DataType)> {
        let data_type = typed.data_type.unwrap_or(DataType::Text);
        Ok((fold(self.resolve(typed, data_type)?)?, data_type))
    }

    /// The expression as a value of the target type: unknown literals are read as such, unknown parameters get
    /// the type, others are converted where the representation differs.
    pub(crate) fn resolve(&mut self, typed: Typed, target: DataType) -> Bound<Expression> {
        if typed.data_type.is_some() {
            return convert(typed, target);
        }
        Ok(match typed.expression {
            Expression::Literal(Value::Text(text)) if target.is_text() => match target {
                DataType::Char(_) => Expression::Literal(cast(Value::Text(text), DataType::ANY_CHAR)?),
                // A name is cut to the bytes that it may have.
                DataType::System(_) => Expression::Literal(cast(Value::Text(text), target)?),
                _ => Expression::Literal(Value::Text(text)),
            },
            Expression::Literal(Value::Text(text)) => {
                let value = parse_text(target, &text)?;
                moments::note(&text, target, &value);
                Expression::Literal(value)
            }
            Expression::Parameter(position) => {
                self.parameters.mention(position);
                self.parameters.types[position].get_or_insert(target);
                Expression::Parameter(position)
            }
            other => other,
        })
    }

    /// The type of a parameter as far as it is known.
    pub(super) fn parameter_type(&self, position: usize) -> Option<DataType> {
        self.parameters.types.get(position).copied().flatten()
    }

    pub(super) fn subquery(&mut self, query: &ast::Query) -> Bound<(usize, Vec<DataType>)> {
        match self.subqueries.as_deref_mut() {
            Some(subqueries) => subqueries.add(query, self.parameters),
            None => elsewhere("a subquery here"),
        }
    }

    fn scalar_subquery(&mut self, query: &ast::Query) -> Bound<Typed> {
        let (number, types) = self.subquery(query)?;
        match types.as_slice() {
            [data_type] => Ok(Typed::new(Expression::Call(Function::Subquery(number), vec![]), *data_type)),
            _ => Err(Error::new(SqlState::SyntaxError, "subquery must return only one column").into()),
        }
    }

    fn exists(&mut self, query: &ast::Query, negated: bool) -> Bound<Typed> {
        let (number, _) = self.subquery(query)?;
        let exists = Expression::Call(Function::Exists(number), vec![]);
        let expression = if negated { Expression::Not(Box::new(exists)) } else { exists };
        Ok(Typed::new(expression, DataType::Boolean))
    }

    pub(super) fn in_subquery(&mut self, expr: &Expr, query: &ast::Query, negated: bool) -> Bound<Typed> {
        let operand = self.bind(expr)?;
        let (number, types) = self.subquery(query)?;
        let [item] = types.as_slice() else {
            return Err(Error::new(SqlState::SyntaxError, "subquery has too many columns").into());
        };
        if item.is_document() || operand.data_type.is_some_and(DataType::is_document) {
            return elsewhere("IN with a subquery of documents");
        }
        if let (Some(DataType::Char(_)), DataType::Varchar(_)) = (operand.data_type, item) {
            return elsewhere("a char IN a subquery of varchars");
        }
        let items = Typed::new(Expression::Literal(Value::Null), *item);
        let operand = self.comparable(operand, items, "=")?.0;
        Ok(Typed::new(Expression::InSubquery(Box::new(operand), number, negated), DataType::Boolean))
    }
}

/// A string of bits, `B'101'` or `X'1F'`.
fn bits(kind: char, digits: &str) -> Result<Typed, Error> {
    let value = parse_text(ANY_BIT, &format!("{kind}{digits}"))?;
    Ok(Typed::new(Expression::Literal(value), ANY_BIT))
}

/// Whether the type is `numeric` without precision and scale.
pub(crate) fn is_bare_numeric(parsed: &ast::DataType) -> bool {
    use ast::{DataType as Sql, ExactNumberInfo::None};
    matches!(parsed, Sql::Numeric(None) | Sql::Decimal(None) | Sql::Dec(None))
}

/// 42846 if the one type cannot be cast to the other.
fn check_castable(from: DataType, to: DataType) -> Result<(), Error> {
    let sample = match from {
        DataType::Boolean => Value::Boolean(false),
        DataType::SmallInt => Value::SmallInt(0),
        DataType::Integer => Value::Integer(0),
        DataType::BigInt => Value::BigInt(0),
        DataType::Real => Value::Real(0.0),
        DataType::DoublePrecision => Value::Double(0.0),
        DataType::Numeric { .. } | DataType::Number => Value::Numeric(Decimal::ZERO),
        DataType::Date => Value::Date(0),
        DataType::Timestamp(_) => Value::Timestamp(0),
        DataType::TimestampTz(_) => Value::TimestampTz(0),
        DataType::Time(_) => Value::Time(0),
        DataType::Interval(_) => Value::Interval(Interval::default()),
        DataType::Bytea => Value::Bytea(Box::default()),
        DataType::Uuid => Value::Uuid([0; 16]),
        DataType::Packed(packed) => Value::Packed(packed.sample()),
        DataType::Enum(_) if from == to || to.is_text() => return Ok(()),
        DataType::Enum(_) => {
            let message = format!("cannot cast type {from} to {}", type_name(to));
            return Err(Error::new(SqlState::CannotCoerce, message));
        }
        DataType::System(system) if system.is_number() => Value::BigInt(0),
        DataType::Json | DataType::Jsonb if to.is_text() || to.is_document() => return Ok(()),
        DataType::Json | DataType::Jsonb => {
            let message = format!("cannot cast type {from} to {}", type_name(to));
            return Err(Error::new(SqlState::CannotCoerce, message));
        }
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::System(_) => return Ok(()),
    };
    match cast(sample, to) {
        Err(error) if error.state() == SqlState::CannotCoerce => Err(error),
        _ => Ok(()),
    }
}

/// The position that `$n` names, counted from 0.
fn placeholder(name: &str) -> Result<usize, Error> {
    let number = name.strip_prefix('$').and_then(|digits| digits.parse::<u16>().ok());
    match number {
        Some(number) if number > 0 => Ok(usize::from(number) - 1),
        _ => Err(Error::new(SqlState::UndefinedParameter, format!("there is no parameter {name}"))),
    }
}

/// The type for an operand that is compared with the given one: no limit of length, and room for more
/// fractional digits, so that nothing is cut off before the comparison.
pub(super) fn compared(known: DataType) -> DataType {
    match known {
        DataType::Char(_) => DataType::ANY_CHAR,
        DataType::Varchar(_) => DataType::Text,
        DataType::Numeric { scale, .. } => numeric(scale.max(10)),
        other => other.of_any_precision(),
    }
}

/// The type without its limits, which are checked when a value is stored.
pub(super) fn unmodified(known: DataType) -> DataType {
    match known {
        DataType::Varchar(_) => DataType::Text,
        DataType::Char(_) => DataType::Text,
        DataType::Numeric { scale, .. } => numeric(scale),
        other => other.of_any_precision(),
    }
}

/// Converts an expression of known type where the representation differs.
pub(crate) fn convert(typed: Typed, target: DataType) -> Bound<Expression> {
    match typed.data_type {
        Some(from) if !same_representation(from, target) => {
            // An integer becomes a numeric without fraction: its scale would show in products.
            let integer = matches!(family(from), Family::SmallInt | Family::Integer | Family::BigInt);
            let target = if integer && family(target) == Family::Numeric { numeric(0) } else { target };
            fold_cast(typed.expression, target)
        }
        _ => Ok(typed.expression),
    }
}

/// A cast; of a literal, its result, unless that is a text by the settings of when it is computed.
fn fold_cast(expression: Expression, target: DataType) -> Bound<Expression> {
    Ok(match expression {
        Expression::Literal(Value::Text(text)) => {
            let value = cast(Value::Text(text.clone()), target)?;
            moments::note(&text, target, &value);
            Expression::Literal(value)
        }
        Expression::Literal(value) if !(target.is_text() && fold::is_shown_by_settings(&value)) => {
            Expression::Literal(cast(value, target)?)
        }
        other => Expression::Cast(Box::new(other), target),
    })
}

pub(super) fn no_operator(left: &Typed, operator: &str, right: &Typed) -> Error {
    let message = format!("operator does not exist: {} {operator} {}", left.type_name(), right.type_name());
    let hint =
        "No operator matches the given name and argument types. You might need to add explicit type casts.";
    Error::new(SqlState::UndefinedFunction, message).with_hint(hint)
}

/// The beginning of an expression's text, for messages.
fn brief(expr: &Expr) -> String {
    let text = expr.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
