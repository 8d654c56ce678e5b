//! Functions of the OLTP path: their names, arguments and results.

use super::array_assignment;
use super::array_function::{self, ArrayFunction};
use super::bind::{Bound, Typed, convert, elsewhere, type_name};
use super::library::Volatility;
use super::library::{self, Builtin};
use super::notation::SUBSCRIPT;
use super::temporal::temporal_call;
use super::types::{common_type, family, numeric, scale_of};
use super::{Binder, Comparison, Expression, Math, SessionFunction, Temporal, document, labels};
use crate::domains::{self, Test};
use crate::name::DATABASE;
use crate::version::VERSION;
use ankerdb_engine::{DataType, Error, ListType, PackedType, SqlState, SystemType, Value};
use datafusion::sql::sqlparser::ast;

/// A function whose arguments have the types it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// The value of the numbered subquery's only row.
    Subquery(usize),
    /// Whether the numbered subquery gave a row.
    Exists(usize),
    /// `now()`: when the transaction began, as a timestamptz.
    Now,
    CurrentDate,
    LocalTimestamp,
    Lower,
    Upper,
    Length,
    OctetLength,
    Abs,
    Round,
    Truncate,
    Ceil,
    Floor,
    Sign,
    Substring,
    Left,
    Right,
    Replace,
    Position,
    Trim,
    TrimStart,
    TrimEnd,
    Concat,
    Greatest,
    Least,
    Math(Math),
    /// With the type of its result.
    Temporal(Temporal, DataType),
    /// `nextval`, and what it gives again: `currval`, `lastval`; and `setval`.
    NextValue,
    CurrentValue,
    LastValue,
    SetValue,
    Session(SessionFunction),
    /// `ARRAY[...]`, of items of the array's type.
    MakeArray(ListType),
    /// A function of arrays, and the type of its result.
    Array(ArrayFunction, DataType),
    /// A function of the library, and the type of its result.
    Library(Builtin, DataType),
    /// Its argument, which is of the base type of a domain, if it is a value of that.
    Domain(Test),
}

impl Function {
    /// Whether it gives the same for the same operands: not if it looks at settings, time, the session or tables. What a function of
    /// times looks at depends on its operands.
    pub(crate) fn is_immutable(self) -> bool {
        match self {
            Function::Library(function, _) => function.volatility() == Volatility::Immutable,
            Function::Array(function, _) => function.is_immutable(),
            _ => !matches!(
                self,
                Function::Subquery(_)
                    | Function::Exists(_)
                    | Function::Now
                    | Function::CurrentDate
                    | Function::LocalTimestamp
                    | Function::Concat
                    | Function::Session(_)
                    | Function::NextValue
                    | Function::CurrentValue
                    | Function::LastValue
                    | Function::SetValue
            ),
        }
    }

    /// The function's name, or the words that stand for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Subquery(_) | Function::Exists(_) => "subquery",
            Function::Now => "CURRENT_TIMESTAMP",
            Function::CurrentDate => "CURRENT_DATE",
            Function::LocalTimestamp => "LOCALTIMESTAMP",
            Function::Lower => "lower",
            Function::Upper => "upper",
            Function::Length => "length",
            Function::OctetLength => "octet_length",
            Function::Abs => "abs",
            Function::Round => "round",
            Function::Truncate => "trunc",
            Function::Ceil => "ceil",
            Function::Floor => "floor",
            Function::Sign => "sign",
            Function::Substring => "substring",
            Function::Left => "left",
            Function::Right => "right",
            Function::Replace => "replace",
            Function::Position => "strpos",
            Function::Trim => "btrim",
            Function::TrimStart => "ltrim",
            Function::TrimEnd => "rtrim",
            Function::Concat => "concat",
            Function::Greatest => "GREATEST",
            Function::Least => "LEAST",
            Function::NextValue => "nextval",
            Function::CurrentValue => "currval",
            Function::LastValue => "lastval",
            Function::SetValue => "setval",
            Function::Math(function) => function.sql_name(),
            Function::Temporal(function, _) => function.sql_name(),
            Function::Session(function) => function.sql_name(),
            Function::Library(function, _) => function.name(),
            Function::MakeArray(_) => "ARRAY",
            Function::Array(function, _) => function.name(),
            Function::Domain(test) => &test.0.call,
        }
    }

    /// Words that stand for a value without parentheses.
    pub(crate) fn constant(name: &str) -> Option<Typed> {
        let call = |function, data_type| Some(Typed::new(Expression::Call(function, vec![]), data_type));
        let text = |value: &str| Some(Typed::new(Expression::Literal(Value::text(value)), DataType::Text));
        let now_as = |data_type| {
            let now = Box::new(Expression::Call(Function::Now, vec![]));
            Some(Typed::new(Expression::Cast(now, data_type), data_type))
        };
        match name {
            "current_timestamp" => call(Function::Now, DataType::TIMESTAMPTZ),
            "localtimestamp" => call(Function::LocalTimestamp, DataType::TIMESTAMP),
            "current_date" => call(Function::CurrentDate, DataType::Date),
            "current_time" => now_as(DataType::Packed(PackedType::TimeTz)),
            "localtime" => now_as(DataType::TIME),
            "current_user" | "session_user" | "user" => text("ankerdb"),
            "current_schema" => {
                let name = DataType::System(SystemType::Name);
                call(Function::Session(SessionFunction::CurrentSchema), name)
            }
            "current_catalog" => text(DATABASE),
            _ => None,
        }
    }
}

/// Binds a call. Functions unknown here, aggregates and windows are left to the OLAP path.
pub(super) fn bind_function(binder: &mut Binder, function: &ast::Function) -> Bound<Typed> {
    let name = match function.name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => name,
        [ast::ObjectNamePart::Identifier(schema), ast::ObjectNamePart::Identifier(name)]
            if crate::name::folded(schema) == "pg_catalog" =>
        {
            name
        }
        _ => return elsewhere(format!("the function {}", function.name)),
    };
    let name = crate::name::folded(name);
    if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty() {
        return elsewhere("an aggregate or window function here");
    }
    let arguments = match &function.args {
        ast::FunctionArguments::None => {
            return Function::constant(&name).map_or_else(|| elsewhere(format!("the function {name}")), Ok);
        }
        ast::FunctionArguments::Subquery(_) => return elsewhere(format!("the function {name}")),
        ast::FunctionArguments::List(list) => list,
    };
    if arguments.duplicate_treatment.is_some() || !arguments.clauses.is_empty() {
        return elsewhere("an aggregate function here");
    }
    let mut exprs = Vec::with_capacity(arguments.args.len());
    for argument in &arguments.args {
        match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => exprs.push(expr),
            _ => return elsewhere(format!("the function {name} with such arguments")),
        }
    }
    match name.as_str() {
        "row" => bind_call(binder, library::ROW_VALUE, &exprs),
        "row_to_json" => match exprs.as_slice() {
            [row] => {
                document::of_row(binder, row)?.map_or_else(|| elsewhere("row_to_json of such a row"), Ok)
            }
            _ => elsewhere("row_to_json with such arguments"),
        },
        name => bind_call(binder, name, &exprs),
    }
}

/// Binds `trim(both what from text)`.
pub(super) fn bind_trim(
    binder: &mut Binder,
    side: Option<ast::TrimWhereField>,
    what: Option<&ast::Expr>,
    text: &ast::Expr,
) -> Bound<Typed> {
    let name = match side {
        None | Some(ast::TrimWhereField::Both) => "btrim",
        Some(ast::TrimWhereField::Leading) => "ltrim",
        Some(ast::TrimWhereField::Trailing) => "rtrim",
    };
    let mut arguments = vec![text];
    arguments.extend(what);
    bind_call(binder, name, &arguments)
}

/// Binds a call by name.
pub(super) fn bind_call(binder: &mut Binder, name: &str, arguments: &[&ast::Expr]) -> Bound<Typed> {
    if library::is_set(name) {
        return elsewhere(format!("the set-returning function {name}"));
    }
    let assignment = array_assignment::call(binder, name, arguments);
    if let Some(of_arrays) = assignment.or_else(|| array_function::call(binder, name, arguments)) {
        return of_arrays;
    }
    if !is_known(name, arguments.len()) {
        return elsewhere(format!("the function {name}"));
    }
    let takes_rows = document::TAKERS.contains(&name);
    let items = arguments.iter().map(|argument| {
        let document = if takes_rows { document::of_row(binder, argument)? } else { None };
        document.map_or_else(|| binder.bind(named_relation(name, argument)), Ok)
    });
    let items = items.collect::<Bound<Vec<_>>>()?;
    if let (Some(symbol), [left, right]) = (name.strip_prefix(library::OPERATOR), items.as_slice())
        && let Some(of_arrays) = array_function::operator(binder, left, symbol, right)
    {
        return of_arrays;
    }
    if name == SUBSCRIPT
        && let Some(of_arrays) = array_function::subscripted_by(binder, &items)
    {
        return of_arrays;
    }
    call(binder, name, items)
}

/// `'name'::regclass` as the argument of a sequence's function is the name.
fn named_relation<'a>(function: &str, argument: &'a ast::Expr) -> &'a ast::Expr {
    match argument {
        ast::Expr::Cast { expr, data_type: ast::DataType::Regclass, .. }
            if matches!(function, "nextval" | "currval" | "setval") =>
        {
            expr
        }
        other => other,
    }
}

/// Names of functions that [`call`] knows, with the fewest and the most arguments that they take; those of doubles are
/// [`Math`]'s.
const CALLS: [(&str, usize, usize); 44] = [
    ("coalesce", 1, usize::MAX),
    ("greatest", 1, usize::MAX),
    ("least", 1, usize::MAX),
    ("concat", 1, usize::MAX),
    ("nullif", 2, 2),
    ("mod", 2, 2),
    ("left", 2, 2),
    ("right", 2, 2),
    ("strpos", 2, 2),
    ("position", 2, 2),
    ("abs", 1, 1),
    ("ceil", 1, 1),
    ("ceiling", 1, 1),
    ("floor", 1, 1),
    ("sign", 1, 1),
    ("lower", 1, 1),
    ("upper", 1, 1),
    ("length", 1, 1),
    ("char_length", 1, 1),
    ("character_length", 1, 1),
    ("octet_length", 1, 1),
    ("round", 1, 2),
    ("trunc", 1, 2),
    ("btrim", 1, 2),
    ("trim", 1, 2),
    ("ltrim", 1, 2),
    ("rtrim", 1, 2),
    ("substring", 2, 3),
    ("substr", 2, 3),
    ("replace", 3, 3),
    ("nextval", 1, 1),
    ("currval", 1, 1),
    ("setval", 2, 3),
    ("lastval", 0, 0),
    ("now", 0, 0),
    ("transaction_timestamp", 0, 0),
    ("statement_timestamp", 0, 0),
    ("version", 0, 0),
    ("current_database", 0, 0),
    ("current_schema", 0, 0),
    ("pg_is_in_recovery", 0, 0),
    (labels::FIRST, 1, 1),
    (labels::LAST, 1, 1),
    (labels::RANGE, 1, 2),
];

/// Words that [`Function::constant`] knows.
const WORDS: [&str; 10] = [
    "current_timestamp",
    "localtimestamp",
    "current_date",
    "current_time",
    "localtime",
    "current_user",
    "session_user",
    "user",
    "current_schema",
    "current_catalog",
];

/// Whether [`call`] knows a function of this name that takes so many arguments.
pub(crate) fn is_known(name: &str, arguments: usize) -> bool {
    let takes =
        |&(known, fewest, most): &(&str, usize, usize)| known == name && (fewest..=most).contains(&arguments);
    CALLS.iter().any(takes)
        || Math::by_name(name, arguments).is_some()
        || Temporal::by_name(name, arguments).is_some()
        || SessionFunction::by_name(name, arguments).is_some()
        || library::is_known(name, arguments)
        || (arguments == 1 && domains::by_call(name).is_some())
        || (arguments == 1 && library::type_function(name).is_some())
}

/// The names of all functions of this path, and of words that stand for a value.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let ours = CALLS.iter().map(|&(name, _, _)| name).chain(WORDS).chain(Temporal::names());
    let ours = ours.chain(Math::names()).chain(SessionFunction::names()).chain(library::names());
    ours.chain(array_function::names())
}

/// Whether the arguments of `substring` are a text and a pattern: what has no type is one, as texts are preferred.
fn is_pattern(items: &[Typed]) -> bool {
    let may_be_text = |item: &Typed| item.data_type.is_none_or(DataType::is_text);
    items.len() > 1 && items.iter().all(may_be_text)
}

/// Whether the first argument is a range.
fn is_range(items: &[Typed]) -> bool {
    let known = items.first().and_then(|item| item.data_type);
    matches!(known, Some(DataType::Packed(PackedType::Range(_))))
}

/// A call with bound arguments: their types decide, and the result's.
pub(crate) fn call(binder: &mut Binder, name: &str, items: Vec<Typed>) -> Bound<Typed> {
    let constant = |value, data_type| Ok(Typed::new(Expression::Literal(value), data_type));
    match name {
        _ if let Some(version) = domains::by_call(name) => domain_call(binder, version, items),
        "coalesce" => {
            let (items, data_type) = binder.merge(items, "COALESCE")?;
            Ok(Typed::new(Expression::Coalesce(items), data_type))
        }
        "nullif" => {
            let [first, second]: [Typed; 2] = match items.try_into() {
                Ok(pair) => pair,
                Err(_) => return elsewhere("nullif"),
            };
            let mut data_type = nullif_type(first.data_type, second.data_type);
            let pair = binder.comparable(first.clone(), second, "=")?;
            if let (None, Some(found)) = (first.data_type, binder.number_found(&pair.0)) {
                data_type = found;
            }
            let first = match first.data_type {
                Some(known) if family(known) == family(data_type) => first.expression,
                Some(_) => convert(first, data_type)?,
                None => pair.0.clone(),
            };
            let equal = Expression::Compare(Comparison::Equal, Box::new(pair));
            let null = Expression::Literal(Value::Null);
            Ok(Typed::new(Expression::Case(vec![(equal, null)], Box::new(first)), data_type))
        }
        labels::FIRST | labels::LAST | labels::RANGE => labels::call(binder, name, items),
        "greatest" => extreme(binder, Function::Greatest, items),
        "least" => extreme(binder, Function::Least, items),
        "now" | "transaction_timestamp" | "statement_timestamp" => {
            Ok(Typed::new(Expression::Call(Function::Now, vec![]), DataType::TIMESTAMPTZ))
        }
        "version" => constant(Value::text(VERSION), DataType::Text),
        "current_database" => constant(Value::text(DATABASE), DataType::Text),
        "pg_is_in_recovery" => constant(Value::Boolean(false), DataType::Boolean),
        "abs" | "round" | "trunc" | "ceil" | "ceiling" | "floor" | "sign" | "mod" => {
            numeric_call(binder, name, items)
        }
        "concat" => concat(binder, items),
        "lower" if is_range(&items) => library::call(binder, library::LOWER, items),
        "upper" if is_range(&items) => library::call(binder, library::UPPER, items),
        "substring" if is_pattern(&items) => library::call(binder, library::SUBSTRING, items),
        "nextval" | "currval" | "setval" | "lastval" => sequence_call(binder, name, items),
        _ if is_exact(&items) && library::is_known(name, items.len()) && Math::known_name(name).is_some() => {
            library::call(binder, name, items)
        }
        _ if let Some(function) = Math::by_name(name, items.len()) => {
            math_call(binder, name, function, items)
        }
        _ if let Some(function) = Temporal::by_name(name, items.len()) => {
            temporal_call(binder, name, function, items)
        }
        _ if let Some((function, wanted, result)) = SessionFunction::by_name(name, items.len()) => {
            session_call(binder, name, items, (function, wanted, result))
        }
        _ if items.len() == 1
            && let Some(target) = library::type_function(name) =>
        {
            let [operand]: [Typed; 1] = match items.try_into() {
                Ok(operand) => operand,
                Err(_) => return elsewhere(name),
            };
            binder.cast(operand, target)
        }
        _ if CALLS.iter().all(|(known, ..)| *known != name) => library::call(binder, name, items),
        _ => text_call(binder, name, items),
    }
}

/// The type of NULLIF: the first operand's, as `=` takes it.
fn nullif_type(first: Option<DataType>, second: Option<DataType>) -> DataType {
    use DataType::{BigInt, DoublePrecision, Integer, Interval, Real, SmallInt, Time, Varchar};
    match (first, second) {
        // There is `=` for these as they are.
        (Some(left @ (SmallInt | Integer | BigInt)), Some(SmallInt | Integer | BigInt)) => left,
        (Some(left @ (Real | DoublePrecision)), Some(right)) if right.is_numeric() => left,
        (Some(left), Some(Real)) if left.is_numeric() => DoublePrecision,
        (Some(left), Some(right)) if left.is_numeric() && family(left) != family(right) => {
            common_type(left, right).unwrap_or(left)
        }
        (Some(DataType::Char(_)), Some(DataType::Text)) => DataType::Text,
        (Some(Varchar(_)), Some(DataType::Char(_))) => DataType::ANY_CHAR,
        (Some(Varchar(_)), _) => DataType::Text,
        (Some(Time(_)), Some(Interval(_))) => DataType::INTERVAL,
        (left, right) => left.or(right).unwrap_or(DataType::Text),
    }
}

/// A value that is tested by a version of a domain.
fn domain_call(binder: &mut Binder, version: &'static domains::Version, items: Vec<Typed>) -> Bound<Typed> {
    let [value]: [Typed; 1] = match items.try_into() {
        Ok(value) => value,
        Err(_) => return elsewhere(&version.call[..]),
    };
    let value = binder.resolve(value, version.base)?;
    Ok(Typed::new(Expression::Call(Function::Domain(Test(version)), vec![value]), version.base))
}

fn session_call(
    binder: &mut Binder,
    name: &str,
    items: Vec<Typed>,
    (function, wanted, result): (SessionFunction, &[DataType], DataType),
) -> Bound<Typed> {
    use DataType::{BigInt, DoublePrecision, Integer, SmallInt, Text};
    let fits = |(item, wanted): (&Typed, &DataType)| match (item.data_type, *wanted) {
        (None, _) => true,
        (Some(known), Text) => known.is_text(),
        (Some(SmallInt | Integer), BigInt) | (Some(SmallInt), Integer) => true,
        (Some(known), DoublePrecision) => known.is_numeric(),
        (Some(known), wanted) => known == wanted,
    };
    if !items.iter().zip(wanted).all(fits) {
        return Err(no_function(name, &items).into());
    }
    let bound = items.into_iter().zip(wanted).map(|(item, wanted)| binder.resolve(item, *wanted));
    Ok(Typed::new(Expression::Call(Function::Session(function), bound.collect::<Bound<Vec<_>>>()?), result))
}

fn extreme(binder: &mut Binder, function: Function, items: Vec<Typed>) -> Bound<Typed> {
    let (items, data_type) = binder.merge(items, function.name())?;
    document::check_extreme(data_type)?;
    Ok(Typed::new(Expression::Call(function, items), data_type))
}

/// `concat` writes every type as it is shown: a boolean as a letter, a `char(n)` with its blanks.
fn concat(binder: &mut Binder, items: Vec<Typed>) -> Bound<Typed> {
    let items = items.into_iter().map(|item| match item.data_type {
        Some(DataType::Boolean | DataType::Packed(_)) => Ok(item.expression),
        _ => binder.resolve(super::operator::with_blanks(item), DataType::Text),
    });
    let items = items.collect::<Bound<Vec<_>>>()?;
    Ok(Typed::new(Expression::Call(Function::Concat, items), DataType::Text))
}

fn sequence_call(binder: &mut Binder, name: &str, items: Vec<Typed>) -> Bound<Typed> {
    use DataType::{BigInt, Boolean, Text};
    let function = match name {
        "nextval" => Function::NextValue,
        "currval" => Function::CurrentValue,
        "setval" => Function::SetValue,
        _ => Function::LastValue,
    };
    let fits = |(item, wanted): (&Typed, DataType)| match item.data_type {
        None => true,
        Some(known) if wanted == Text => known.is_text(),
        Some(DataType::SmallInt | DataType::Integer) => wanted == BigInt,
        Some(known) => known == wanted,
    };
    if !items.iter().zip([Text, BigInt, Boolean]).all(fits) {
        return Err(no_function(name, &items).into());
    }
    let bound =
        items.into_iter().zip([Text, BigInt, Boolean]).map(|(item, wanted)| binder.resolve(item, wanted));
    Ok(Typed::new(Expression::Call(function, bound.collect::<Bound<Vec<_>>>()?), BigInt))
}

fn numeric_call(binder: &mut Binder, name: &str, mut items: Vec<Typed>) -> Bound<Typed> {
    if name == "mod" && items.len() == 2 {
        let (Some(right), Some(left)) = (items.pop(), items.pop()) else { return elsewhere(name) };
        return binder.arithmetic(super::Arithmetic::Modulo, left, right);
    }
    // PostgreSQL truncates MAC addresses, too.
    if let ("trunc", [Typed { data_type: None, .. }]) = (name, items.as_slice()) {
        return Err(library::not_unique(name, &items).into());
    }
    let unknown = if items.len() == 2 { DataType::Number } else { DataType::DoublePrecision };
    let operand_type = items[0].data_type.unwrap_or(unknown);
    if !operand_type.is_numeric() {
        return Err(no_function(name, &items).into());
    }
    let integer = matches!(operand_type, DataType::SmallInt | DataType::Integer | DataType::BigInt);
    let mut result = match (name, items.len()) {
        ("abs", 1) => operand_type,
        ("sign" | "round" | "trunc" | "ceil" | "ceiling" | "floor", 1) => match operand_type {
            DataType::Numeric { .. } => numeric(0),
            DataType::Number => DataType::Number,
            _ => DataType::DoublePrecision,
        },
        ("round" | "trunc", 2) if operand_type == DataType::Number => DataType::Number,
        ("round" | "trunc", 2) if integer || matches!(operand_type, DataType::Numeric { .. }) => {
            numeric(scale_of(operand_type))
        }
        _ => return Err(no_function(name, &items).into()),
    };
    let function = match name {
        "abs" => Function::Abs,
        "sign" => Function::Sign,
        "round" => Function::Round,
        "trunc" => Function::Truncate,
        "floor" => Function::Floor,
        _ => Function::Ceil,
    };
    // Integers are rounded as the result's type, as PostgreSQL resolves these calls.
    let mut operand = match (name, integer) {
        ("abs", _) | (_, false) => operand_type,
        _ => result,
    };
    let second = items.split_off(1).pop();
    if let Some(Typed { expression: Expression::Literal(Value::Integer(39..)), .. }) = second {
        (operand, result) = (DataType::Number, DataType::Number);
    }
    let mut bound = items.into_iter().map(|item| binder.resolve(item, operand)).collect::<Bound<Vec<_>>>()?;
    if let Some(digits) = second {
        let digits = match digits.data_type {
            None | Some(DataType::SmallInt | DataType::Integer) => {
                binder.resolve(digits, DataType::Integer)?
            }
            Some(_) => return elsewhere(format!("{name} with such digits")),
        };
        if let (Expression::Literal(Value::Integer(digits @ ..=38)), DataType::Numeric { .. }) =
            (&digits, result)
        {
            result = numeric((*digits).max(0) as u8);
        }
        bound.push(digits);
    }
    Ok(Typed::new(Expression::Call(function, bound), result))
}

/// Whether a numeric is among the arguments, and no double.
fn is_exact(items: &[Typed]) -> bool {
    let is_float = |item: &Typed| matches!(item.data_type, Some(DataType::Real | DataType::DoublePrecision));
    items.iter().any(|item| matches!(item.data_type, Some(DataType::Numeric { .. } | DataType::Number)))
        && !items.iter().any(is_float)
}

/// Functions of doubles take every number.
fn math_call(binder: &mut Binder, name: &str, function: Math, items: Vec<Typed>) -> Bound<Typed> {
    if items.iter().any(|item| item.data_type.is_some_and(|known| !known.is_numeric())) {
        return Err(no_function(name, &items).into());
    }
    let items = items.into_iter().map(|item| binder.resolve(item, DataType::DoublePrecision));
    let call = Expression::Call(Function::Math(function), items.collect::<Bound<Vec<_>>>()?);
    Ok(Typed::new(call, DataType::DoublePrecision))
}

fn text_call(binder: &mut Binder, name: &str, items: Vec<Typed>) -> Bound<Typed> {
    use DataType::{Bytea, Integer, Text};
    let is_bytea = items.first().is_some_and(|item| item.data_type == Some(Bytea));
    let (function, parameters, result): (_, &[DataType], _) = match (name, items.len()) {
        ("length" | "octet_length", 1) if is_bytea => (Function::OctetLength, &[Bytea], Integer),
        ("lower", 1) => (Function::Lower, &[Text], Text),
        ("upper", 1) => (Function::Upper, &[Text], Text),
        ("length" | "char_length" | "character_length", 1) => (Function::Length, &[Text], Integer),
        ("octet_length", 1) => (Function::OctetLength, &[Text], Integer),
        ("substring" | "substr", 2) => (Function::Substring, &[Text, Integer], Text),
        ("substring" | "substr", 3) => (Function::Substring, &[Text, Integer, Integer], Text),
        ("left", 2) => (Function::Left, &[Text, Integer], Text),
        ("right", 2) => (Function::Right, &[Text, Integer], Text),
        ("replace", 3) => (Function::Replace, &[Text, Text, Text], Text),
        ("strpos" | "position", 2) => (Function::Position, &[Text, Text], Integer),
        ("btrim" | "trim", 1) => (Function::Trim, &[Text], Text),
        ("btrim" | "trim", 2) => (Function::Trim, &[Text, Text], Text),
        ("ltrim", 1) => (Function::TrimStart, &[Text], Text),
        ("ltrim", 2) => (Function::TrimStart, &[Text, Text], Text),
        ("rtrim", 1) => (Function::TrimEnd, &[Text], Text),
        ("rtrim", 2) => (Function::TrimEnd, &[Text, Text], Text),
        _ => return elsewhere(format!("the function {name}")),
    };
    let fits = |(item, wanted): (&Typed, &DataType)| match item.data_type {
        None => true,
        Some(known) if *wanted == Text => known.is_text(),
        Some(known) if *wanted == Bytea => known == Bytea,
        Some(known) => matches!(known, DataType::SmallInt | Integer),
    };
    if !items.iter().zip(parameters).all(fits) {
        // Of bytes, for example.
        return library::call(binder, name, items);
    }
    let bound = items.into_iter().zip(parameters).map(|(item, wanted)| binder.resolve(item, *wanted));
    Ok(Typed::new(Expression::Call(function, bound.collect::<Bound<Vec<_>>>()?), result))
}

pub(super) fn no_function(name: &str, arguments: &[Typed]) -> Error {
    let types = arguments.iter().map(|argument| argument.data_type.map_or("unknown".into(), type_name));
    let types = types.collect::<Vec<_>>().join(", ");
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    Error::new(SqlState::UndefinedFunction, format!("function {name}({types}) does not exist"))
        .with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_for_a_value() {
        assert!(WORDS.iter().all(|word| Function::constant(word).is_some()));
    }
}
