//! Other ways to write what SQL already has, turned into the way that the planners read.
//!
//! | written | read |
//! | --- | --- |
//! | `FETCH FIRST n ROWS ONLY` | `LIMIT n` |
//! | `FETCH FIRST n ROWS WITH TIES` | `LIMIT "operator ties"(n)` |
//! | `TABLE a` | `SELECT * FROM a` |
//! | `FROM generate_series(1, 3) AS a` | `FROM (SELECT CAST(s AS int) FROM generate_series(1, 3) AS s (s)) AS a (a)` |
//! | `extract(year FROM a)`, `a AT TIME ZONE b` | `extract('year', a)`, `timezone(b, a)` |
//! | `INTERVAL '5' DAY` | `CAST('5 days' AS interval)` |
//! | `ROWS FROM (f(a), g(b))` | `"rows from"(f(a), g(b))` |
//! | `a TABLESAMPLE BERNOULLI (10)` | in `sample` |

use crate::name::folded;
use crate::named_arguments::put_in_order;
use crate::plain_query::{function_call, plain_query, plain_select, query_of};
use crate::visit::walk_mut;
use crate::words::{places, word};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, ObjectName, SelectItem, Statement, TableFactor, UnaryOperator,
    VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

const SERIES: &str = "generate_series";

/// Rewrites a statement and all queries in it.
pub(crate) fn rewrite(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Rewriter);
}

/// Writes out `TABLE a` where a query may stand: the parser does not know it everywhere.
pub(crate) fn write_out_tables(tokens: &mut Vec<TokenWithSpan>) {
    let is_word = |token: &Token, keyword| matches!(token, Token::Word(word) if word.keyword == keyword);
    if !tokens.iter().any(|token| is_word(&token.token, Keyword::TABLE)) {
        return;
    }
    let mut written = Vec::with_capacity(tokens.len() + 8);
    // Whether a query may begin at the next token.
    let mut may_begin = true;
    for token in tokens.drain(..) {
        if matches!(token.token, Token::Whitespace(_)) {
            written.push(token);
            continue;
        }
        if may_begin && is_word(&token.token, Keyword::TABLE) {
            let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            written.extend(words.map(|word| TokenWithSpan::new(word, token.span)));
            may_begin = false;
            continue;
        }
        may_begin = match &token.token {
            // Behind the last query of WITH, or the columns of INSERT.
            Token::LParen | Token::RParen => true,
            Token::Word(word) if word.quote_style.is_none() => {
                use Keyword::{ALL, AS, DISTINCT, EXCEPT, EXPLAIN, FOR, INTERSECT, UNION};
                matches!(word.keyword, UNION | EXCEPT | INTERSECT | ALL | DISTINCT | AS | FOR | EXPLAIN)
            }
            _ => false,
        };
        written.push(token);
    }
    *tokens = written;
}

/// Leaves out `[NOT] DEFERRABLE` among the modes of a transaction: it asks read-only transactions to wait until they cannot fail,
/// which those here never do.
pub(crate) fn leave_out_deferrable(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let words: Vec<String> = (0..significant.len()).map(|place| word(tokens, &significant, place)).collect();
    let begins = matches!(
        (words.first().map(String::as_str), words.get(1).map(String::as_str)),
        (Some("begin" | "start"), _) | (Some("set"), Some("transaction" | "session" | "local"))
    );
    let Some(position) = words.iter().position(|word| word == "deferrable").filter(|_| begins) else {
        return;
    };
    let is_comma = |place: usize| significant.get(place).is_some_and(|&at| tokens[at].token == Token::Comma);
    let mut first = position;
    if words[first - 1] == "not" {
        first -= 1;
    }
    let last = if is_comma(position + 1) { position + 1 } else { position };
    if last == position && is_comma(first - 1) {
        first -= 1;
    }
    for &at in significant[first..=last].iter().rev() {
        tokens.remove(at);
    }
}

/// `FREEZE on`, as pgbench asks for it, in the words that the parser knows.
pub(crate) fn write_freeze(tokens: &mut [TokenWithSpan]) {
    let word = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let mut significant = tokens.iter_mut().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    if significant.next().is_none_or(|first| word(&first.token) != "copy") {
        return;
    }
    let mut is_value = false;
    for token in significant {
        let said = word(&token.token);
        match (is_value, said.as_str()) {
            (true, "on") => token.token = Token::make_keyword("TRUE"),
            (true, "off") => token.token = Token::make_keyword("FALSE"),
            _ => {}
        }
        is_value = said == "freeze";
    }
}

/// The name of the function around the count of a limit WITH TIES.
pub(crate) const TIES: &str = "operator ties";

/// The name of the function that stands for ROWS FROM.
pub(crate) const ROWS_FROM: &str = "rows from";

/// ROWS FROM as a function of functions.
pub(crate) fn write_rows_from(tokens: &mut Vec<TokenWithSpan>) {
    let significant = places(tokens);
    let found = (0..significant.len()).filter(|&place| {
        let is_open = significant.get(place + 2).is_some_and(|&at| tokens[at].token == Token::LParen);
        is_open
            && word(tokens, &significant, place) == "rows"
            && word(tokens, &significant, place + 1) == "from"
    });
    let found: Vec<(usize, usize)> =
        found.map(|place| (significant[place], significant[place + 1])).collect();
    for (rows, from) in found.into_iter().rev() {
        let name = datafusion::sql::sqlparser::tokenizer::Word {
            value: ROWS_FROM.to_owned(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        };
        tokens[rows].token = Token::Word(name);
        tokens.drain(rows + 1..=from);
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        fetch_as_limit(query);
        ties_as_fetch(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        no_ancestors(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        times_as_calls(expr);
        put_in_order(expr);
        not_around(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        unqualify(factor);
        name_series(factor);
        join_as_query(factor);
        no_ancestors_among(factor);
        crate::sample::rewrite(factor);
        ControlFlow::Continue(())
    }
}

/// NOT binds less than all but AND and OR: `NOT EXISTS (...) IS NULL` is `NOT (EXISTS (...) IS NULL)`. The parser takes `NOT EXISTS`
/// for one word. (What is in parentheses is no operand by itself.)
fn not_around(expr: &mut Expr) {
    let first = match expr {
        Expr::IsNull(first)
        | Expr::IsNotNull(first)
        | Expr::IsTrue(first)
        | Expr::IsNotTrue(first)
        | Expr::IsFalse(first)
        | Expr::IsNotFalse(first)
        | Expr::IsUnknown(first)
        | Expr::IsNotUnknown(first)
        | Expr::IsDistinctFrom(first, _)
        | Expr::IsNotDistinctFrom(first, _)
        | Expr::InList { expr: first, .. }
        | Expr::InSubquery { expr: first, .. }
        | Expr::Between { expr: first, .. }
        | Expr::Cast { kind: ast::CastKind::DoubleColon, expr: first, .. } => first,
        Expr::BinaryOp { left, op, .. } if !matches!(op, BinaryOperator::And | BinaryOperator::Or) => left,
        _ => return,
    };
    match first.as_mut() {
        Expr::Exists { negated: negated @ true, .. } => *negated = false,
        // From an operand of the operand.
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
            let inner = std::mem::replace(inner.as_mut(), Expr::value(ast::Value::Null));
            **first = inner;
        }
        _ => return,
    }
    let inner = Box::new(std::mem::replace(expr, Expr::value(ast::Value::Null)));
    *expr = Expr::UnaryOp { op: UnaryOperator::Not, expr: inner };
}

/// Writes what SQL has words for, of times, as calls and casts.
fn times_as_calls(expr: &mut Expr) {
    let text = |text: String| Expr::Value(ast::Value::SingleQuotedString(text).with_empty_span());
    match expr {
        Expr::Extract { field, expr: operand, .. } => {
            let field = field.to_string().trim_matches('\'').to_lowercase();
            *expr = call("extract", vec![text(field), operand.as_ref().clone()]);
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            *expr = call("timezone", vec![time_zone.as_ref().clone(), timestamp.as_ref().clone()]);
        }
        // `localtimestamp(3)` is rounded.
        Expr::Function(function) if let Some((now, data_type)) = rounded_now(function) => {
            let (kind, now) = (ast::CastKind::Cast, Box::new(now));
            *expr = Expr::Cast { kind, expr: now, data_type, array: false, format: None };
        }
        Expr::Interval(interval) => {
            let Expr::Value(value) = interval.value.as_ref() else { return };
            let ast::Value::SingleQuotedString(written) = &value.value else { return };
            let Some((fields, precision)) = fields_of(interval).or(unit_as_name(interval)) else { return };
            *expr = Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(text(written.clone())),
                data_type: ast::DataType::Interval { fields, precision },
                array: false,
                format: None,
            };
        }
        _ => {}
    }
}

/// The word for the present moment, and the type with the digits that stand behind it.
fn rounded_now(function: &ast::Function) -> Option<(Expr, ast::DataType)> {
    use ast::{FunctionArg, FunctionArgExpr, FunctionArguments, TimezoneInfo};
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(digits)))] = list.args.as_slice() else {
        return None;
    };
    let ast::Value::Number(digits, _) = &digits.value else { return None };
    let digits = Some(digits.parse().ok()?);
    let data_type = match function.name.to_string().to_lowercase().as_str() {
        "current_timestamp" => ast::DataType::Timestamp(digits, TimezoneInfo::WithTimeZone),
        "localtimestamp" => ast::DataType::Timestamp(digits, TimezoneInfo::None),
        "current_time" => ast::DataType::Time(digits, TimezoneInfo::WithTimeZone),
        "localtime" => ast::DataType::Time(digits, TimezoneInfo::None),
        _ => return None,
    };
    let word = ast::Function { args: FunctionArguments::None, ..function.clone() };
    Some((Expr::Function(word), data_type))
}

/// The fields of an interval's type that stand behind its text, and the digits of its seconds; `None` if there are no such ones.
fn fields_of(interval: &ast::Interval) -> Option<(Option<ast::IntervalFields>, Option<u64>)> {
    use ast::{DateTimeField as Field, IntervalFields as Fields};
    let Some(first) = &interval.leading_field else { return Some((None, None)) };
    let fields = match (first, &interval.last_field) {
        (Field::Year, None) => Fields::Year,
        (Field::Month, None) => Fields::Month,
        (Field::Day, None) => Fields::Day,
        (Field::Hour, None) => Fields::Hour,
        (Field::Minute, None) => Fields::Minute,
        (Field::Second, None) => return Some((Some(Fields::Second), interval.leading_precision)),
        (Field::Year, Some(Field::Month)) => Fields::YearToMonth,
        (Field::Day, Some(Field::Hour)) => Fields::DayToHour,
        (Field::Day, Some(Field::Minute)) => Fields::DayToMinute,
        (Field::Day, Some(Field::Second)) => Fields::DayToSecond,
        (Field::Hour, Some(Field::Minute)) => Fields::HourToMinute,
        (Field::Hour, Some(Field::Second)) => Fields::HourToSecond,
        (Field::Minute, Some(Field::Second)) => Fields::MinuteToSecond,
        _ => return None,
    };
    interval.leading_precision.is_none().then_some((Some(fields), interval.fractional_seconds_precision))
}

/// What the parser takes to be a unit, and is none of SQL's fields, is the name of the column, as any word would be.
fn unit_as_name(interval: &ast::Interval) -> Option<(Option<ast::IntervalFields>, Option<u64>)> {
    let is_field = interval.leading_field.as_ref().is_none_or(crate::column_name::is_field);
    (!is_field && interval.last_field.is_none()).then_some((None, None))
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let unnamed = |argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument));
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(unnamed).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A limit WITH TIES that has no order to have ties in, as it was written: it is refused as that.
fn ties_as_fetch(query: &mut ast::Query) {
    let Some(ast::LimitClause::LimitOffset { limit: limit @ Some(_), .. }) = &mut query.limit_clause else {
        return;
    };
    let is_it = |count: &Expr| match count {
        Expr::Function(function) => function.name.to_string().contains(TIES),
        _ => false,
    };
    if query.order_by.is_none() && limit.as_ref().is_some_and(is_it) {
        query.fetch = Some(ast::Fetch { with_ties: true, percent: false, quantity: limit.take() });
    }
}

fn fetch_as_limit(query: &mut ast::Query) {
    let Some(ast::Fetch { with_ties, percent: false, quantity }) = &query.fetch else { return };
    if *with_ties && query.order_by.is_none() {
        return;
    }
    let one = || Expr::Value(ast::Value::Number("1".into(), false).with_empty_span());
    let count = quantity.clone().unwrap_or_else(one);
    let count = Some(if *with_ties { function_call(TIES, vec![count]) } else { count });
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(ast::LimitClause::LimitOffset { limit: count, offset: None, limit_by: Vec::new() });
        }
        Some(ast::LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = count,
        Some(_) => return,
    }
    query.fetch = None;
}

/// PostgreSQL's function for the partitioned tables above a partition.
const ANCESTORS: &str = "pg_partition_ancestors";

/// `SELECT pg_partition_ancestors(x)` gives no rows for what is no partition, and nothing is one.
fn no_ancestors(select: &mut ast::Select) {
    let [SelectItem::UnnamedExpr(Expr::Function(function))] = &select.projection[..] else { return };
    let ast::FunctionArguments::List(list) = &function.args else { return };
    let is_called = function.name.0.last().and_then(|part| part.as_ident());
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = &list.args[..] else { return };
    if !select.from.is_empty() || is_called.is_none_or(|name| name.value != ANCESTORS) {
        return;
    }
    let relation = Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(argument.clone()),
        data_type: ast::DataType::Regclass,
        array: false,
        format: None,
    };
    // Clients put it before VALUES in a union, whose column is then found although nothing is left of this side.
    select.projection = vec![SelectItem::ExprWithAlias { expr: relation, alias: Ident::new("column1") }];
    select.selection = Some(Expr::Value(ast::Value::Boolean(false).into()));
}

/// `pg_partition_ancestors(x) [WITH ORDINALITY]` in FROM, likewise.
fn no_ancestors_among(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(_), alias, with_ordinality, .. } = factor else { return };
    let called = name.0.last().and_then(|part| part.as_ident());
    if called.is_none_or(|name| name.value != ANCESTORS) {
        return;
    }
    let null = |data_type: ast::DataType| {
        SelectItem::UnnamedExpr(Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(Expr::Value(ast::Value::Null.into())),
            data_type,
            array: false,
            format: None,
        })
    };
    let mut projection = vec![null(ast::DataType::Regclass)];
    projection.extend(with_ordinality.then(|| null(ast::DataType::BigInt(None))));
    let selection = Some(Expr::Value(ast::Value::Boolean(false).into()));
    let subquery = Box::new(plain_query(None, projection, Vec::new(), selection));
    let alias = alias.take();
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
}

/// `(a JOIN b) AS c` is `(SELECT * FROM a JOIN b) AS c`.
fn join_as_query(factor: &mut TableFactor) {
    let TableFactor::NestedJoin { table_with_joins, alias: alias @ Some(_) } = factor else { return };
    let item = SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
    let subquery = Box::new(plain_query(None, vec![item], vec![table_with_joins.as_ref().clone()], None));
    *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
}

/// Takes the system's schema off the name of a function in FROM.
fn unqualify(factor: &mut TableFactor) {
    if let TableFactor::Table { name, args: Some(_), .. } = factor
        && let [schema, _] = name.0.as_slice()
        && schema.as_ident().is_some_and(|schema| folded(schema) == "pg_catalog")
    {
        name.0.remove(0);
    }
}

/// Names the column of a series in FROM as its relation, if it has no name of its own, and makes one of integers a series of
/// integers.
fn name_series(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(arguments), alias, with_ordinality: false, .. } = factor else {
        return;
    };
    let is_series =
        matches!(name.0.as_slice(), [name] if name.as_ident().is_some_and(|name| folded(name) == SERIES));
    let names = alias.as_ref().map_or(0, |alias| alias.columns.len());
    if !is_series || names > 1 {
        return;
    }
    let mut given = alias.take().unwrap_or_else(|| named(Ident::new(SERIES)));
    if given.columns.is_empty() {
        given.columns = named(given.name.clone()).columns;
    }
    if !arguments.args.iter().all(is_small) {
        *alias = Some(given);
        return;
    }
    *alias = Some(named(Ident::new(SERIES)));
    let mut select = select_all(factor.clone());
    let column = Expr::CompoundIdentifier(vec![Ident::new(SERIES), Ident::new(SERIES)]);
    select.projection = vec![SelectItem::UnnamedExpr(Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(column),
        data_type: ast::DataType::Integer(None),
        array: false,
        format: None,
    })];
    let subquery = Box::new(query_of(None, select));
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(given), sample: None };
}

/// An alias with one column of the same name.
fn named(name: Ident) -> ast::TableAlias {
    let columns = vec![ast::TableAliasColumnDef { name: name.clone(), data_type: None }];
    ast::TableAlias { explicit: true, name, columns, at: None }
}

/// Whether the argument is an integer; the series is of bigints otherwise.
fn is_small(argument: &ast::FunctionArg) -> bool {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else { return false };
    let number = match expr {
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => expr,
        other => other,
    };
    match number {
        Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
            text.parse::<i32>().is_ok()
        }
        _ => false,
    }
}

fn select_all(from: TableFactor) -> ast::Select {
    let from = ast::TableWithJoins { relation: from, joins: Vec::new() };
    plain_select(Vec::new(), vec![from], None)
}

#[cfg(test)]
mod tests {
    fn rewritten(sql: &str) -> String {
        crate::parse::parse(sql).unwrap().remove(0).ast.unwrap().to_string()
    }

    #[test]
    fn other_ways_to_write_are_read_as_the_usual_one() {
        let cases = [
            ("SELECT a FROM b OFFSET 1 FETCH NEXT 2 ROWS ONLY", "SELECT a FROM b LIMIT 2 OFFSET 1"),
            ("SELECT a FROM b FETCH FIRST ROW ONLY", "SELECT a FROM b LIMIT 1"),
            ("TABLE a UNION ALL TABLE public.b", "SELECT * FROM a UNION ALL SELECT * FROM public.b"),
            ("SELECT 1 FROM ROWS FROM (a(1), b(2)) AS c", "SELECT 1 FROM \"rows from\"(a(1), b(2)) AS c"),
        ];
        for (sql, expected) in cases {
            assert_eq!(rewritten(sql), expected);
        }
    }

    #[test]
    fn a_deferrable_transaction_is_one_of_its_other_modes() {
        for (sql, expected) in [
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            ("BEGIN NOT DEFERRABLE, READ ONLY", "BEGIN READ ONLY"),
            ("START TRANSACTION READ ONLY DEFERRABLE", "START TRANSACTION READ ONLY"),
            ("BEGIN DEFERRABLE", "BEGIN"),
        ] {
            assert_eq!(rewritten(sql), expected);
        }
    }
}
