//! Rows as values: `SELECT t FROM t`, `ROW(1, 'x')`, `row_to_json(t)`.
//!
//! The name of a relation, where a value is wanted and no column has it, stands for its row. Nothing in a plan is a row, so each is
//! written out, by what is made of it:
//! ```text
//! row_to_json(t)           "row of json"('a', t.a, 'b', t.b)
//! t, ROW(1, 2)             "row value"(t.a, t.b), "row value"(1, 2)   elsewhere
//! ```
//! A row that an outer join has not found is NULL: it is told by its columns, which then are all NULL.
//!
//! `tableoid`, which every table of PostgreSQL's has and `*` leaves out, is the same in all rows of a table here, and written out
//! as that number.

use super::scope::{Relation, Scope};
use crate::expression::library::{JSON_ITEM, JSON_MEMBER, ROW, ROW_OF_RELATION, ROW_VALUE};
use crate::forms::row;
use crate::name::{TABLE_NUMBER, folded};
use crate::plain_query::function_call;
use crate::visit::{Work, visit};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableFactor, TableWithJoins, Value,
};

/// Functions that make a document of their first argument.
pub(super) const MAKERS: [&str; 3] = ["row_to_json", "to_json", "to_jsonb"];
/// Functions of which any argument may be a row.
const TAKERS: [&str; 6] = [
    // What `json_agg` and its like are made of before.
    JSON_ITEM,
    JSON_MEMBER,
    "json_build_array",
    "jsonb_build_array",
    "json_build_object",
    "jsonb_build_object",
];
/// The row of a relation until it is known what is made of it: a call with its number, and names and values of the columns.
const WHOLE: &str = "\0row";
/// One that an outer join may lack.
const LACKING: &str = "\0row, if there is one";

/// Writes out the rows in the lists and conditions of a query.
///
/// `around`: relations of the queries around it, the outermost first.
pub(super) fn write(scope: &Scope<'_>, around: &[Vec<Relation>], query: &mut Query) {
    let mut bodies = vec![query.body.as_mut()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => write_select(scope, around, select),
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_mut(), right.as_mut()]),
            SetExpr::Values(values) => {
                values.rows.iter_mut().for_each(|row| row.content.iter_mut().for_each(settle));
            }
            _ => {}
        }
    }
}

/// The relations that queries within this one may name, and those queries that may not: common table expressions, other queries of a set
/// operation, and those in FROM that are not LATERAL. These are told by where they lie.
pub(super) fn relations(scope: &Scope<'_>, query: &Query) -> (Vec<Relation>, Vec<*const Query>) {
    let (mut bodies, mut relations) = (vec![query.body.as_ref()], Vec::new());
    let expressions = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut apart: Vec<*const Query> = expressions.map(|cte| std::ptr::from_ref(&*cte.query)).collect();
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => {
                relations.extend(scope.relations_of(&select.from));
                select.from.iter().for_each(|item| derived(item, &mut apart));
            }
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
            SetExpr::Query(query) => apart.push(std::ptr::from_ref(&**query)),
            _ => {}
        }
    }
    (relations, apart)
}

/// Queries in FROM that do not see what stands before them.
fn derived(item: &TableWithJoins, found: &mut Vec<*const Query>) {
    for factor in std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Derived { lateral: false, subquery, .. } => {
                found.push(std::ptr::from_ref(&**subquery))
            }
            TableFactor::NestedJoin { table_with_joins, .. } => derived(table_with_joins, found),
            _ => {}
        }
    }
}

fn write_select(scope: &Scope<'_>, around: &[Vec<Relation>], select: &mut Select) {
    let mut rows = Rows { from: scope.relations_of(&select.from), around, queries: 0 };
    for item in &mut select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
            qualify(&rows.from, name);
        }
    }
    let names: Vec<Option<String>> = select.projection.iter().map(name_of).collect();
    let before = select.projection.clone();
    visit(select, &mut rows);
    visit(select, &mut Settled { queries: 0 });
    for ((item, before), name) in select.projection.iter_mut().zip(before).zip(names) {
        if let SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } = item
        {
            settle(expression);
        }
        if let (SelectItem::UnnamedExpr(expr), Some(name)) = (&*item, name)
            && *item != before
        {
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// Gives the name of a relation in front of `.*` the schema that it has in FROM, as the library looks for the whole of it.
fn qualify(from: &[Relation], name: &mut ObjectName) {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let mut meant = from.iter().filter(|relation| relation.name.ends_with(&parts));
    if let (Some(relation), None) = (meant.next(), meant.next())
        && relation.name.len() > parts.len()
    {
        let parts = relation.name.iter().map(|part| Ident::with_quote('"', part));
        *name = ObjectName::from(parts.collect::<Vec<_>>());
    }
}

fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expression) => Some(crate::column_name::column_name(expression)),
        _ => None,
    }
}

struct Rows<'a> {
    from: Vec<Relation>,
    around: &'a [Vec<Relation>],
    queries: usize,
}

impl Rows<'_> {
    /// The relation whose row an expression is.
    fn relation_of(&self, expression: &Expr) -> Option<(&Relation, &[String])> {
        let levels = || std::iter::once(&self.from).chain(self.around.iter().rev());
        let name = match expression {
            Expr::Identifier(name) => folded(name),
            Expr::QualifiedWildcard(name, _) => {
                let parts: Vec<String> =
                    name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
                let relation = levels().flatten().find(|relation| relation.name.ends_with(&parts))?;
                return Some((relation, relation.columns.as_deref()?));
            }
            _ => return None,
        };
        let is_column =
            |relation: &Relation| relation.columns.as_ref().is_none_or(|columns| columns.contains(&name));
        // A column of a query around this one comes before a row of its own.
        if levels().flatten().any(is_column) {
            return None;
        }
        let relation = levels().flatten().find(|relation| relation.name.last() == Some(&name))?;
        Some((relation, relation.columns.as_deref()?))
    }

    /// What `f.*` is of a function that gives single values: such a value.
    fn only_column(&self, expression: &Expr) -> Option<Expr> {
        let Expr::QualifiedWildcard(..) = expression else { return None };
        let (relation, columns) = self.relation_of(expression)?;
        let [column] = columns else { return None };
        (relation.name.last() == Some(column)).then(|| column_of(relation, column))
    }

    /// What `tableoid` stands for, alone or behind a relation's name, where no column has this name.
    fn table_number(&self, expression: &Expr) -> Option<Expr> {
        let parts: Vec<String> = match expression {
            Expr::Identifier(name) => vec![folded(name)],
            Expr::CompoundIdentifier(parts) => parts.iter().map(folded).collect(),
            _ => return None,
        };
        let (name, relation) = parts.split_last().filter(|(name, _)| *name == TABLE_NUMBER)?;
        let is_meant = |known: &&Relation| relation.is_empty() || known.name.ends_with(relation);
        let levels = std::iter::once(&self.from).chain(self.around.iter().rev());
        let meant = levels
            .map(|level| level.iter().filter(is_meant).collect())
            .find(|meant: &Vec<_>| !meant.is_empty())?;
        let [Relation { columns: Some(columns), table: Some(number), may_lack, .. }] = meant[..] else {
            return None;
        };
        if columns.contains(name) {
            return None;
        }
        let type_name = vec![Ident::new("pg_catalog"), Ident::new("oid")];
        let number = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(Expr::value(Value::Number(number.to_string(), false))),
            data_type: DataType::Custom(ObjectName::from(type_name), Vec::new()),
            array: false,
            format: None,
        };
        let values = columns.iter().map(|column| column_of(meant[0], column));
        Some(if *may_lack { unless_lacking(values.collect(), number) } else { number })
    }

    /// Columns of relations for the wildcards among the fields of `ROW(...)`.
    fn spread(&self, function: &mut Function) {
        let FunctionArguments::List(list) = &mut function.args else { return };
        let mut fields = Vec::with_capacity(list.args.len());
        for argument in std::mem::take(&mut list.args) {
            let relation = match &argument {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    let parts: Vec<String> =
                        name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
                    self.from.iter().find(|relation| relation.name.ends_with(&parts))
                }
                _ => None,
            };
            match relation.and_then(|relation| Some((relation, relation.columns.as_ref()?))) {
                Some((relation, columns)) => {
                    let field =
                        |column| FunctionArg::Unnamed(FunctionArgExpr::Expr(column_of(relation, column)));
                    fields.extend(columns.iter().map(field));
                }
                None => fields.push(argument),
            }
        }
        list.args = fields;
    }
}

fn column_of(relation: &Relation, column: &String) -> Expr {
    let parts = relation.name.iter().chain([column]).map(|part| Ident::with_quote('"', part));
    Expr::CompoundIdentifier(parts.collect())
}

impl Work for Rows<'_> {
    fn query(&mut self, _: &mut Query) {
        self.queries += 1;
    }

    fn end_of_query(&mut self) {
        self.queries -= 1;
    }

    fn expression(&mut self, expression: &mut Expr) {
        // Queries within this one are visited by themselves.
        if self.queries > 0 {
            return;
        }
        if let Some(number) = self.table_number(expression) {
            *expression = number;
            return;
        }
        if let Some(column) = self.only_column(expression) {
            *expression = column;
            return;
        }
        if let Some((relation, columns)) = self.relation_of(expression) {
            let member = |column: &String| [text(column), column_of(relation, column)];
            let name = if relation.may_lack { LACKING } else { WHOLE };
            let number = match relation.number {
                Some(number) => Expr::value(Value::Number(number.to_string(), false)),
                None => Expr::value(Value::Null),
            };
            let members = columns.iter().flat_map(member);
            *expression = function_call(name, std::iter::once(number).chain(members).collect());
            return;
        }
        if let Expr::CompoundFieldAccess { root, .. } = expression {
            // `t.list[1]`: no row of a relation, but its name.
            if let Some(name) = whole(root).and_then(|whole| whole.name()) {
                **root = Expr::Identifier(name);
            }
        }
        if let Expr::Function(function) = expression {
            if let FunctionArguments::List(list) = &mut function.args {
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument {
                        qualify(&self.from, name);
                    }
                }
            }
            if function_name(function).as_deref() == Some("row") {
                self.spread(function);
            }
            match document(function) {
                Some(document) => *expression = document,
                None => write_on_lines(function),
            }
        }
    }
}

/// What becomes of rows that nothing else was made of: arguments, branches, items.
struct Settled {
    queries: usize,
}

impl Work for Settled {
    fn query(&mut self, _: &mut Query) {
        self.queries += 1;
    }

    fn end_of_query(&mut self) {
        self.queries -= 1;
    }

    fn expression(&mut self, expression: &mut Expr) {
        if self.queries > 0 {
            return;
        }
        if whole(expression).is_some() {
            return settle(expression);
        }
        match expression {
            Expr::Function(function) => {
                let FunctionArguments::List(list) = &mut function.args else { return };
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                        settle(value);
                    }
                }
            }
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|branch| settle(&mut branch.result));
                else_result.iter_mut().for_each(|result| settle(result));
            }
            Expr::Cast { expr, .. } | Expr::IsNull(expr) | Expr::IsNotNull(expr) => settle(expr),
            Expr::BinaryOp { left, op, right } if *op != BinaryOperator::Overlaps => {
                settle(left);
                settle(right);
            }
            Expr::Tuple(values) => values.iter_mut().for_each(settle),
            Expr::Array(array) => array.elem.iter_mut().for_each(settle),
            _ => {}
        }
    }
}

/// Makes a value of a row.
fn settle(expression: &mut Expr) {
    if let Some(Whole { number, members, lacks }) = whole(expression) {
        let values: Vec<Expr> = values_of(members).collect();
        let fields = std::iter::once(number).chain(values.iter().cloned());
        let made = function_call(ROW_OF_RELATION, fields.collect());
        *expression = if lacks { unless_lacking(values, made) } else { made };
    } else if let Some(values) = written(expression) {
        *expression = function_call(ROW_VALUE, values);
    }
}

/// The row of a relation.
struct Whole {
    /// The relation's number, or NULL.
    number: Expr,
    /// Names and values of its columns.
    members: Vec<Expr>,
    lacks: bool,
}

impl Whole {
    /// The name that the relation goes by.
    fn name(&self) -> Option<Ident> {
        match self.members.get(1)? {
            Expr::CompoundIdentifier(parts) => parts.iter().rev().nth(1).cloned(),
            _ => None,
        }
    }
}

fn whole(expression: &Expr) -> Option<Whole> {
    let Expr::Function(function) = expression else { return None };
    let name = function_name(function)?;
    let lacks = name == LACKING;
    if name != WHOLE && !lacks {
        return None;
    }
    let mut members = arguments(function)?;
    let number = members.remove(0);
    Some(Whole { number, members, lacks })
}

fn values_of(members: Vec<Expr>) -> impl Iterator<Item = Expr> {
    members.into_iter().skip(1).step_by(2)
}

/// The values of a row that is written as one.
fn written(expression: &Expr) -> Option<Vec<Expr>> {
    row(expression).filter(|_| !matches!(expression, Expr::Nested(_)))
}

/// Names and values of a row, and whether it may be lacking.
fn members(expression: &Expr) -> Option<(bool, Vec<Expr>)> {
    if let Some(Whole { members, lacks, .. }) = whole(expression) {
        return Some((lacks, members));
    }
    let member = |(at, value): (usize, Expr)| [text(&format!("f{}", at + 1)), value];
    Some((false, written(expression)?.into_iter().enumerate().flat_map(member).collect()))
}

fn json_of(expression: &Expr) -> Option<Expr> {
    let (lacks, members) = members(expression)?;
    let values = values_of(members.clone()).collect();
    let document = function_call(ROW, members);
    Some(if lacks { unless_lacking(values, document) } else { document })
}

/// `json_agg` of rows has each on a line of its own.
fn write_on_lines(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(item))), separator] =
        list.args.as_mut_slice()
        && function_name(item).as_deref() == Some(JSON_ITEM)
        && arguments(item).is_some_and(|items| matches!(items.first(), Some(Expr::Nested(_))))
    {
        *separator = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(", \n ")));
    }
}

/// The call with documents for its rows; what it is, if it only makes a document.
fn document(function: &mut Function) -> Option<Expr> {
    let name = function_name(function)?;
    let FunctionArguments::List(list) = &mut function.args else { return None };
    if TAKERS.contains(&name.as_str()) {
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
                && let Some(document) = json_of(value)
            {
                // In parentheses, which tell it from a document that was given.
                *value = if name == JSON_ITEM { Expr::Nested(Box::new(document)) } else { document };
            }
        }
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else { return None };
    let document = json_of(value).filter(|_| MAKERS.contains(&name.as_str()))?;
    Some(match name.as_str() {
        "to_jsonb" => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(document),
            data_type: DataType::JSONB,
            array: false,
            format: None,
        },
        _ => document,
    })
}

/// `CASE WHEN every value is NULL THEN NULL ELSE made END`
fn unless_lacking(values: Vec<Expr>, made: Expr) -> Expr {
    let condition = all(values.into_iter().map(|value| Expr::IsNull(Box::new(value))));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: Expr::value(Value::Null) }],
        else_result: Some(Box::new(made)),
    }
}

fn all(conditions: impl Iterator<Item = Expr>) -> Expr {
    let both = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    Expr::Nested(Box::new(conditions.reduce(both).unwrap_or_else(|| Expr::value(Value::Boolean(true)))))
}

fn text(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

fn function_name(function: &Function) -> Option<String> {
    function.name.0.last().and_then(|part| part.as_ident()).map(folded)
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().map(value).collect()
}
