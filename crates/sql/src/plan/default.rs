//! What columns get that a statement names no value for.
//!
//! A table keeps its defaults as SQL texts. They are read and bound with each statement that needs them, which happens
//! once for a prepared one.

use crate::expression::bind::Bound;
use crate::expression::moments::settled;
use crate::expression::{Binder, Expression, Function, Parameters, Refusal, Scope};
use crate::name::{folded, quoted, sequence_name};
use crate::visit::visit_expressions_mut;
use ankerdb_engine::{
    Catalog, ColumnDefinition, Error, QualifiedName, RelationName, Result, SchemaId, SqlState, Table, Value,
};
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::ops::ControlFlow;

/// The default of each column of a table in this schema that is wanted; NULL for the others, and where there is none. Those that are not
/// wanted are not looked at: a default may fail, and only whoever needs it is to notice.
pub(crate) fn defaults(
    table: &Table,
    schema: &str,
    is_wanted: impl Fn(usize) -> bool,
) -> Bound<Vec<Expression>> {
    let columns = table.columns().iter().enumerate();
    let each = columns.map(|(position, column)| match is_wanted(position) {
        true => default(column, schema),
        false => Ok(Expression::Literal(Value::Null)),
    });
    each.collect()
}

/// The default of a column of a table in this schema.
pub(crate) fn default(column: &ColumnDefinition, schema: &str) -> Bound<Expression> {
    let Some(text) = &column.default else { return Ok(Expression::Literal(Value::Null)) };
    let mut expr = parsed(text)?;
    name_sequences(&mut expr, |name| {
        let schema = name.schema.unwrap_or_else(|| schema.to_owned());
        Ok(QualifiedName { schema: Some(schema), name: name.name })
    })?;
    bind(&expr, column)
}

/// Gives the sequences that an expression counts by other names.
fn name_sequences(
    expr: &mut Expr,
    mut rename: impl FnMut(QualifiedName) -> Result<QualifiedName>,
) -> Result<()> {
    let renamed = visit_expressions_mut(expr, |expr| {
        let renamed = counted(expr).map_or(Ok(()), |literal| {
            let name = rename(sequence_name(literal)?)?;
            let parts = name.schema.iter().chain([&name.name]);
            *literal = parts.map(|part| quoted(&part.replace('"', "\"\""))).collect::<Vec<_>>().join(".");
            Ok(())
        });
        renamed.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    });
    match renamed {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The name of a sequence in a call of a function that takes one.
fn counted(expr: &mut Expr) -> Option<&mut String> {
    let Expr::Function(call) = expr else { return None };
    let function = folded(call.name.0.last()?.as_ident()?);
    let ast::FunctionArguments::List(list) = &mut call.args else { return None };
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument)) = list.args.first_mut()? else {
        return None;
    };
    let argument = match argument {
        Expr::Cast { expr, .. } => expr,
        other => other,
    };
    match argument {
        Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(text), .. })
            if matches!(function.as_str(), "nextval" | "currval" | "setval") =>
        {
            Some(text)
        }
        _ => None,
    }
}

/// The text of a new default in a table of a schema: the sequences that it counts by are those that are found now. One of the same
/// schema has no schema in the text.
///
/// # Errors
/// `UndefinedTable` for a sequence that does not exist.
pub(crate) fn resolved(text: &str, schema: SchemaId, catalog: &Catalog) -> Result<String> {
    let mut expr = parsed(text)?;
    name_sequences(&mut expr, |name| {
        let found = catalog.sequence(&name)?.full_name();
        let is_here = found.schema == schema;
        let schema = (!is_here).then(|| catalog.schema_name(found.schema).to_owned());
        Ok(QualifiedName { schema, name: found.name })
    })?;
    Ok(expr.to_string())
}

/// The text of a default of a table in a schema when a sequence that it counts by gets another schema and name; `None` if it does not
/// count by that.
pub(crate) fn renamed(
    text: &str,
    schema: &str,
    old: (&str, &str),
    new: (&str, &str),
) -> Result<Option<String>> {
    let (mut expr, mut is_meant) = (parsed(text)?, false);
    name_sequences(&mut expr, |name| {
        if (name.schema.as_deref().unwrap_or(schema), name.name.as_str()) != old {
            return Ok(name);
        }
        is_meant = true;
        Ok(QualifiedName { schema: (new.0 != schema).then(|| new.0.to_owned()), name: new.1.to_owned() })
    })?;
    Ok(is_meant.then(|| expr.to_string()))
}

/// The text of a default whose table leaves a schema, with those of its sequences that go along.
pub(crate) fn moved(text: &str, from: &str, goes_along: impl Fn(&str) -> bool) -> Result<String> {
    let mut expr = parsed(text)?;
    name_sequences(&mut expr, |name| {
        let stays = name.schema.is_none() && !goes_along(&name.name);
        let schema = if stays { Some(from.to_owned()) } else { name.schema };
        Ok(QualifiedName { schema, name: name.name })
    })?;
    Ok(expr.to_string())
}

/// The schemas, by name, of the sequences that a default counts by and that are not in its table's.
pub(crate) fn foreign_schemas(text: &str) -> Result<Vec<String>> {
    let (mut expr, mut schemas) = (parsed(text)?, Vec::new());
    name_sequences(&mut expr, |name| {
        schemas.extend(name.schema.clone());
        Ok(name)
    })?;
    Ok(schemas)
}

/// Whether a default counts by a sequence.
pub(crate) fn counts(text: &str) -> Result<bool> {
    let (mut expr, mut counts) = (parsed(text)?, false);
    name_sequences(&mut expr, |name| {
        counts = true;
        Ok(name)
    })?;
    Ok(counts)
}

/// The expression that a table keeps as text.
pub(crate) fn parsed(text: &str) -> Result<Expr> {
    let statement = crate::parse::parse(&format!("SELECT {text}"))?.pop();
    if let Some(ast::Statement::Query(query)) = statement.and_then(|statement| statement.ast).as_deref()
        && let ast::SetExpr::Select(select) = &*query.body
        && let [ast::SelectItem::UnnamedExpr(expr)] = select.projection.as_slice()
    {
        return Ok(expr.clone());
    }
    Err(Error::internal(format!("{text} is no expression")))
}

fn bind(expr: &Expr, column: &ColumnDefinition) -> Bound<Expression> {
    Binder::new(Scope::default(), &mut Parameters::default()).bind_assigned(expr, column)
}

/// The text to be kept of a new column's default.
///
/// # Errors
/// Those that PostgreSQL has when the table is made. What fails only when it is computed fails then.
pub(crate) fn checked(expr: &Expr, column: &ColumnDefinition) -> Result<String> {
    match settled(expr, |expr| bind(expr, column)) {
        Ok((kept, _)) => Ok(kept.to_string()),
        Err(Refusal::Failed(error)) => match error.state() {
            SqlState::DivisionByZero | SqlState::NumericValueOutOfRange => Ok(expr.to_string()),
            SqlState::UndefinedColumn => {
                let message = "cannot use column reference in DEFAULT expression";
                Err(Error::new(SqlState::FeatureNotSupported, message))
            }
            _ => Err(error),
        },
        Err(refusal) => Err(refusal.into_error()),
    }
}

/// Whether the default of a column of a table in a schema counts by a sequence.
pub(crate) fn counts_by(
    column: &ColumnDefinition,
    schema: &str,
    catalog: &Catalog,
    sequence: &RelationName,
) -> bool {
    fn has(expression: &Expression, is_it: &dyn Fn(&str) -> bool) -> bool {
        let is_next = match expression {
            Expression::Call(Function::NextValue, arguments) => match arguments.as_slice() {
                [Expression::Literal(Value::Text(name))] => is_it(name),
                _ => false,
            },
            _ => false,
        };
        is_next || expression.operands().into_iter().any(|operand| has(operand, is_it))
    }
    let is_it =
        |name: &str| sequence_name(name).is_ok_and(|name| catalog.lookup(&name).as_ref() == Some(sequence));
    default(column, schema).is_ok_and(|expression| has(&expression, &is_it))
}

/// The text of a default that counts by a sequence.
pub(crate) fn next_value(sequence: &str) -> String {
    let name = quoted(&sequence.replace('"', "\"\"")).replace('\'', "''");
    format!("nextval('{name}')")
}
