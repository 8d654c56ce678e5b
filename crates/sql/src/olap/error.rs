//! Errors of DataFusion and Arrow as clients see them: an SQLSTATE and PostgreSQL's wording.
//!
//! Our own errors travel through DataFusion as `External` and come out unchanged. Where only DataFusion's
//! sentence tells errors apart, they are recognized by that sentence; an unknown sentence becomes an error
//! all the same, with the general code of its kind.

use super::names::{HIDDEN, visible};
use crate::name::not_supported;
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

/// Our error inside of DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The client's error for one of DataFusion's.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    translate(&error)
}

/// The client's error where a plan whose names are all bound was optimized: a name that is lost then is not the client's mistake.
/// (DataFusion loses some when it makes joins of subqueries.)
pub(crate) fn from_optimizer(error: DataFusionError) -> Error {
    let error = translate(&error);
    match error.state() {
        SqlState::UndefinedColumn | SqlState::AmbiguousColumn | SqlState::DuplicateColumn => {
            dependent_subquery().with_detail(error.message().to_owned())
        }
        _ => error,
    }
}

fn dependent_subquery() -> Error {
    let message = "a subquery that depends on the query around it in this way is not supported";
    Error::new(SqlState::FeatureNotSupported, message)
}

/// What DataFusion has no plan for. A subquery that it has made no join of is left when it comes to execution.
fn from_not_implemented(message: &str) -> Error {
    let is_subquery = ["ScalarSubquery", "InSubquery", "Exists", "SetComparison"]
        .iter()
        .any(|kind| message.contains(&format!("does not support logical expression {kind}(")));
    match is_subquery {
        true => dependent_subquery(),
        false if message.starts_with("Dot access") => field_of_value(),
        false => Error::new(SqlState::FeatureNotSupported, message.to_owned()),
    }
}

fn field_of_value() -> Error {
    not_supported("a field of such a value")
}

fn translate(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => translate_foreign(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => translate(inner),
        DataFusionError::Shared(inner) => translate(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => translate(first),
            None => Error::internal("the query failed for an unknown reason"),
        },
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::SQL(inner, _) => Error::new(SqlState::SyntaxError, inner.to_string()),
        DataFusionError::NotImplemented(message) => from_not_implemented(message),
        DataFusionError::ResourcesExhausted(message) => {
            Error::new(SqlState::OutOfMemory, "out of memory").with_detail(message.clone())
        }
        DataFusionError::Plan(message) => from_plan_message(message),
        DataFusionError::Execution(message) => from_execution_message(message),
        DataFusionError::ExecutionJoin(inner) => {
            Error::internal(format!("a task of the query failed: {inner}"))
        }
        DataFusionError::IoError(inner) => Error::internal(format!("could not spill to disk: {inner}")),
        other => from_execution_message(&other.strip_backtrace()),
    }
}

fn translate_foreign(inner: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
    if let Some(error) = inner.downcast_ref::<Error>() {
        return error.clone();
    }
    if let Some(error) = inner.downcast_ref::<DataFusionError>() {
        return translate(error);
    }
    if let Some(error) = inner.downcast_ref::<ArrowError>() {
        return from_arrow(error);
    }
    Error::internal(inner.to_string())
}

fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(SqlState::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => out_of_range(message),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => from_cast_message(message),
        ArrowError::ExternalError(inner) => translate_foreign(inner.as_ref()),
        ArrowError::NotYetImplemented(message) => Error::new(SqlState::FeatureNotSupported, message.clone()),
        ArrowError::ComputeError(message) => from_execution_message(message),
        ArrowError::MemoryError(message) => {
            Error::new(SqlState::OutOfMemory, "out of memory").with_detail(message.clone())
        }
        other => from_execution_message(&other.to_string()),
    }
}

fn from_schema(error: &SchemaError) -> Error {
    match error {
        // One of several columns that share a name: they got other ones (`duplicate.rs`).
        SchemaError::FieldNotFound { field, valid_fields }
            if valid_fields.iter().any(|other| shares_name(&other.name, &field.name)) =>
        {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            Error::new(SqlState::AmbiguousColumn, message)
        }
        SchemaError::FieldNotFound { field, .. } => {
            let name = match &field.relation {
                Some(relation) => format!("{}.{}", relation.table(), field.name),
                None => format!("\"{}\"", field.name),
            };
            Error::new(SqlState::UndefinedColumn, format!("column {name} does not exist"))
        }
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            Error::new(SqlState::AmbiguousColumn, message)
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => {
            let message = format!("column name \"{name}\" is used twice here");
            Error::new(SqlState::DuplicateColumn, message).with_hint("Give the columns different aliases.")
        }
    }
}

/// Whether clients see the hidden name as that one.
fn shares_name(hidden: &str, seen: &str) -> bool {
    hidden.contains(HIDDEN) && visible(hidden) == seen
}

/// Planning errors that DataFusion tells by their sentence only.
fn from_plan_message(message: &str) -> Error {
    let first_line = message.lines().next().unwrap_or_default().to_owned();
    let lower = first_line.to_ascii_lowercase();
    if let Some(name) = quoted_after(&lower, "invalid function ") {
        return Error::new(SqlState::UndefinedFunction, format!("function {name} does not exist"));
    }
    if first_line.starts_with("SELECT DISTINCT ON expressions must match") {
        return Error::new(SqlState::InvalidColumnReference, first_line);
    }
    if lower.starts_with("for select distinct, order by expressions") {
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return Error::new(SqlState::InvalidColumnReference, message);
    }
    if let Some(number) = quoted_after(&lower, "cannot find column with position ") {
        let message = format!("GROUP BY position {number} is not in select list");
        return Error::new(SqlState::InvalidColumnReference, message);
    }
    if lower.starts_with("window function calls cannot be nested") {
        return Error::new(SqlState::WindowingError, "window function calls cannot be nested");
    }
    for (clause, state) in [
        ("LIMIT", SqlState::InvalidRowCountInLimitClause),
        ("OFFSET", SqlState::InvalidRowCountInResultOffsetClause),
    ] {
        if first_line.strip_prefix(clause).is_some_and(|rest| rest.starts_with(" must be >=")) {
            return Error::new(state, format!("{clause} must not be negative"));
        }
    }
    if lower.contains("must appear in the group by clause")
        || lower.contains("could not be resolved from available columns")
    {
        // Of a list of several items the sentence has another one in front of it.
        let in_list = first_line.split_once(", column ").map_or(&*first_line, |(_, rest)| rest);
        let of_list = in_list.split_once(" must appear").map(|(name, _)| name.to_owned());
        let in_front = "Column in SELECT must be in GROUP BY or an aggregate function: ";
        let name = of_list
            .filter(|name| name.starts_with('"'))
            .or_else(|| quoted_after(&first_line, in_front).map(str::to_owned));
        let message = match name {
            Some(name) => {
                format!(
                    "column {name} must appear in the GROUP BY clause or be used in an aggregate function"
                )
            }
            None => {
                "columns must appear in the GROUP BY clause or be used in an aggregate function".to_owned()
            }
        };
        return Error::new(SqlState::GroupingError, message);
    }
    if lower.contains("not allowed in the where clause") {
        return Error::new(SqlState::GroupingError, "aggregate functions are not allowed in WHERE");
    }
    from_phrase(first_line, &lower)
}

/// Sentences that are told by a phrase in them.
fn from_phrase(first_line: String, lower: &str) -> Error {
    let is_about = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    let is_condition = is_about(&[
        "predicate must be",
        "must return boolean",
        "boolean predicate",
        "requires a boolean expression",
        "logical boolean operation",
    ]);
    let state = if is_about(&["no function matches", "failed to coerce arguments"]) {
        SqlState::UndefinedFunction
    } else if is_condition {
        SqlState::DatatypeMismatch
    } else if is_about(&["cannot infer common", "cannot coerce arithmetic"]) {
        return Error::new(SqlState::UndefinedFunction, "operator does not exist for these types")
            .with_detail(first_line);
    } else if is_about(&["aggregate function calls cannot", "nested aggregate"]) {
        SqlState::GroupingError
    } else if is_about(&["unsupported", "not supported", "not implemented"]) {
        SqlState::FeatureNotSupported
    } else if lower.contains("placeholder") {
        SqlState::UndefinedParameter
    } else if is_about(&[
        "duplicate expression name",
        "require unique expression names",
        "number of columns",
        "one column",
        "inconsistent data length across values list",
    ]) {
        SqlState::SyntaxError
    } else {
        // SQL that the parser took and DataFusion has no plan for.
        SqlState::FeatureNotSupported
    };
    Error::new(state, first_line)
}

/// The word after `marker`, without quotes.
fn quoted_after<'a>(message: &'a str, marker: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(marker)?;
    let rest = rest.trim_start_matches(['\'', '"']);
    let end = rest.find(['\'', '"', ' ', '\n']).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(['.', ',']))
}

/// Run-time errors that are told by their sentence only.
fn from_execution_message(message: &str) -> Error {
    let first_line = message.lines().next().unwrap_or_default().to_owned();
    let lower = first_line.to_ascii_lowercase();
    if lower.contains("regex parse error") || lower.contains("regular expression") {
        from_regular_expression(message)
    } else if lower.contains("divide by zero") || lower.contains("division by zero") {
        Error::new(SqlState::DivisionByZero, "division by zero")
    } else if lower.contains("overflow")
        || lower.contains("out of range")
        || lower.contains("too large to store")
    {
        out_of_range(&first_line)
    } else if lower.contains("cast error") || lower.contains("cannot cast") || lower.contains("parser error")
    {
        from_cast_message(&first_line)
    } else if lower.contains("cannot access field at argument") {
        field_of_value()
    } else if lower.contains("scalar subquery") && lower.contains("more than one") {
        Error::new(
            SqlState::FeatureNotSupported,
            "more than one row returned by a subquery used as an expression",
        )
    } else {
        Error::internal(first_line)
    }
}

/// What the library of regular expressions says of one.
fn from_regular_expression(message: &str) -> Error {
    let refused =
        |what| Error::new(SqlState::InvalidRegularExpression, format!("invalid regular expression: {what}"));
    let problem =
        message.lines().find_map(|line| line.split_once("error: ")).map_or(message, |(_, problem)| problem);
    match problem.trim() {
        "unrecognized flag" => {
            Error::new(SqlState::InvalidParameterValue, "invalid regular expression option")
                .with_detail(message.to_owned())
        }
        known if known.contains("not supported") || known.contains("unrecognized escape") => {
            not_supported(&format!("the regular expression ({known})"))
        }
        known if known.contains("group") => refused("parentheses () not balanced"),
        known if known.contains("class") => refused("brackets [] not balanced"),
        known if known.contains("repetition") => refused("quantifier operand invalid"),
        known => refused(known),
    }
}

fn from_cast_message(message: &str) -> Error {
    let lower = message.to_ascii_lowercase();
    if lower.contains("overflow")
        || lower.contains("out of range")
        || lower.contains("too large")
        || lower.contains("can't cast value")
    {
        return out_of_range(message);
    }
    if lower.contains("timestamp") || lower.contains("date") {
        return Error::new(SqlState::InvalidDatetimeFormat, "invalid input syntax for a date or time")
            .with_detail(message.to_owned());
    }
    Error::new(SqlState::InvalidTextRepresentation, "invalid input syntax for the type")
        .with_detail(message.to_owned())
}

fn out_of_range(detail: &str) -> Error {
    Error::new(SqlState::NumericValueOutOfRange, "value out of range").with_detail(detail.to_owned())
}
