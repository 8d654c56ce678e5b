//! Defaults of columns as PostgreSQL shows them: constants with their type, sequences as relations.

use super::definition::{DefinitionStyle, expression_text, plain_type};
use super::quoting::quote_literal;
use super::{SystemCatalog, TableEntry};
use crate::expression::types::ANY_BIT;
use crate::name::{folded, sequence_name};
use ankerdb_engine::{ColumnDefinition, DataType, Domain, QualifiedName};
use ankerdb_value::parse_text;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr, Statement,
    UnaryOperator, Value as Written,
};

/// The default of a table's column, or what computes it; `None` if it has none.
pub(super) fn default_text(
    catalog: &SystemCatalog,
    table: &TableEntry,
    column: &ColumnDefinition,
) -> Option<String> {
    if let Some(generation) = &column.generation {
        let wanted = Some(column.data_type);
        return Some(expression_text(catalog, Some(table), &generation.text, wanted, DefinitionStyle::PLAIN));
    }
    // A sequence without a schema is in that of the table.
    let name = |name: &QualifiedName| {
        catalog.shown_name(name.schema.as_deref().unwrap_or(&table.schema.name), &name.name)
    };
    let text = column.default.as_ref()?;
    let shown = parsed(text).and_then(|expression| shown(&expression, column.data_type, &name));
    Some(match shown {
        Some(text) => catalog.with_shown_types(&text),
        None => expression_text(catalog, Some(table), text, Some(column.data_type), DefinitionStyle::PLAIN),
    })
}

/// What a sequence is called.
type Names<'a> = &'a dyn Fn(&QualifiedName) -> String;

/// The default of a domain.
pub(super) fn domain_default(catalog: &SystemCatalog, domain: &Domain) -> Option<String> {
    let default = domain.default.clone();
    let column = ColumnDefinition { default, ..ColumnDefinition::new(domain.name.as_str(), domain.base) };
    let text = shown_default(&column, &|name| name.to_string())?;
    Some(catalog.shown_domains(&catalog.shown_types(&text)))
}

fn shown_default(column: &ColumnDefinition, names: Names<'_>) -> Option<String> {
    let text = column.default.as_ref()?;
    let shown = parsed(text).and_then(|expression| shown(&expression, column.data_type, names));
    Some(shown.unwrap_or_else(|| text.clone()))
}

fn parsed(text: &str) -> Option<Expr> {
    let statement = crate::parse::parse(&format!("SELECT {text}")).ok()?.pop()?.ast?;
    let Statement::Query(query) = &*statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expression)] => Some(expression.clone()),
        _ => None,
    }
}

/// `None` where it is shown as it was written.
fn shown(expression: &Expr, data_type: DataType, names: Names<'_>) -> Option<String> {
    match expression {
        Expr::Value(value) => match &value.value {
            Written::SingleQuotedString(text) if data_type.is_numeric() || data_type == DataType::Boolean => {
                Some(text.trim().to_owned())
            }
            Written::SingleQuotedString(text) => {
                Some(format!("{}::{}", quote_literal(text), plain_type(data_type)))
            }
            Written::SingleQuotedByteStringLiteral(digits) => bits('b', digits),
            Written::HexStringLiteral(digits) => bits('x', digits),
            Written::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_integer(data_type) => {
            Some(format!("'-{expr}'::{}", plain_type(DataType::Integer)))
        }
        Expr::Function(function) => sequence_call(function, names),
        _ => None,
    }
}

/// A string of bits by its zeros and ones.
fn bits(kind: char, digits: &str) -> Option<String> {
    match parse_text(ANY_BIT, &format!("{kind}{digits}")) {
        Ok(ankerdb_engine::Value::Packed(packed)) => {
            Some(format!("'{}'::{}", packed.borrow().to_text(), plain_type(ANY_BIT)))
        }
        _ => None,
    }
}

fn is_integer(data_type: DataType) -> bool {
    matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt)
}

/// The number of the sequence that a column's default is drawn from, if it is from one.
pub(super) fn default_sequence(
    catalog: &SystemCatalog,
    table: &TableEntry,
    column: &ColumnDefinition,
) -> Option<u32> {
    let Some(Expr::Function(function)) = column.default.as_deref().and_then(parsed) else { return None };
    let sequence = drawn_sequence(&function)?;
    catalog.relation_oid(Some(sequence.schema.as_deref().unwrap_or(&table.schema.name)), &sequence.name)
}

/// `nextval('name'::regclass)`
fn sequence_call(function: &Function, names: Names<'_>) -> Option<String> {
    let sequence = names(&drawn_sequence(function)?);
    Some(format!("nextval({}::regclass)", quote_literal(&sequence)))
}

/// The sequence of which a call of `nextval` draws the next number.
fn drawn_sequence(function: &Function) -> Option<QualifiedName> {
    let name = folded(function.name.0.last()?.as_ident()?);
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let argument = match argument {
        Expr::Cast { expr, .. } => expr,
        other => other,
    };
    let Expr::Value(value) = argument else { return None };
    match (&value.value, name.as_str()) {
        (Written::SingleQuotedString(text), "nextval") => sequence_name(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_shown_with_their_types() {
        let shown = |text: &str, data_type| {
            let default = Some(text.to_owned());
            let column = ColumnDefinition { default, ..ColumnDefinition::new("c", data_type) };
            shown_default(&column, &|name| crate::system::quoting::quote_ident(&name.name)).unwrap()
        };
        assert_eq!(shown("'x'", DataType::Text), "'x'::text");
        assert_eq!(shown("'x'", DataType::Varchar(4)), "'x'::character varying");
        assert_eq!(shown("'x'", DataType::Char(4)), "'x'::bpchar");
        assert_eq!(shown("'5'", DataType::Integer), "5");
        assert_eq!(shown("-1", DataType::BigInt), "'-1'::integer");
        assert_eq!(shown("TRUE", DataType::Boolean), "true");
        assert_eq!(shown("now()", DataType::TIMESTAMPTZ), "now()");
        assert_eq!(shown("nextval('\"t_a_seq\"')", DataType::Integer), "nextval('t_a_seq'::regclass)");
        assert_eq!(shown("nextval('\"A\"')", DataType::Integer), "nextval('\"A\"'::regclass)");
    }
}
