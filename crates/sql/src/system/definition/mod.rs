//! Definitions as PostgreSQL shows them: the queries of views, conditions, defaults.
//!
//! What is kept is a text, read again wherever it is used. To be shown it is parsed, its names are looked up, and it is written anew
//! with what PostgreSQL adds: relations before columns, types behind constants, casts that nobody wrote, parentheses, line breaks.
//! docs/design/definitions.md says why.
//!
//! ```text
//! view.query --parse--> tree --reader, calls, from--> nodes with types --write, query--> text
//!                        names: what names stand for     kinds: constants, casts of operators
//! ```
//! What is not known of a type shows as it was written: the text can be executed in any case.

mod calls;
mod frames;
mod from;
mod kinds;
mod names;
mod node;
mod query;
mod reader;
mod write;

pub(super) use kinds::plain_type;
use names::{ShownColumn, ShownNames, ShownRelation};
use query::TargetColumn;
use reader::DefinitionReader;
pub(super) use write::DefinitionStyle;
use write::DefinitionWriter;

use super::quoting::quote_ident;
use super::{SystemCatalog, TableEntry};
use ankerdb_engine::{DataType, View};
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};

/// The text of a view's query.
pub(super) fn view_text(catalog: &SystemCatalog, view: &View, style: DefinitionStyle) -> String {
    let query = match crate::view_text::parsed(&catalog.with_shown_types(&view.query)) {
        Ok(query) => query,
        Err(_) => return format!(" {};", view.query),
    };
    let reader = DefinitionReader::new(catalog, &view.reads);
    let mut writer = DefinitionWriter { reader: &reader, style, text: String::new(), indent: 0 };
    let column = |column: &ankerdb_engine::ColumnDefinition| TargetColumn {
        name: Some(column.name.clone()),
        data_type: None,
    };
    let columns: Vec<TargetColumn> = view.columns.iter().map(column).collect();
    writer.query(&query, &ShownNames::default(), &columns, true);
    writer.push(";");
    catalog.with_shown_types(&writer.text)
}

/// The text of an expression over a table's columns. A constant of no type has the wanted one.
pub(super) fn expression_text(
    catalog: &SystemCatalog,
    table: Option<&TableEntry>,
    text: &str,
    wanted: Option<DataType>,
    style: DefinitionStyle,
) -> String {
    let text = catalog.with_shown_types(text);
    let Some(expression) = parsed(&text) else { return text };
    let columns = table.map_or(&[][..], |table| &table.columns);
    let columns = columns
        .iter()
        .map(|column| ShownColumn::new(&column.definition.name, Some(column.definition.data_type)));
    let name = table.map_or_else(String::new, |table| table.name.clone());
    let schema = table.map(|table| table.schema.name.to_string());
    let relation = ShownRelation {
        schema,
        shown: name.clone(),
        name,
        columns: Some(columns.collect()),
        merged: Vec::new(),
    };
    let names = ShownNames { relations: vec![relation], is_bare: true, ..ShownNames::default() };
    let reader = DefinitionReader::new(catalog, &[]);
    let mut writer = DefinitionWriter { reader: &reader, style, text: String::new(), indent: 0 };
    let node = reader.read(&expression, &names);
    let node = if node.is_unknown() { kinds::as_type(node, wanted.or(Some(DataType::Text))) } else { node };
    writer.node(&node, false);
    catalog.with_shown_types(&writer.text)
}

/// Whether an expression is a call, which needs no parentheses among the keys of an index.
pub(super) fn is_call(text: &str) -> bool {
    use datafusion::sql::sqlparser::ast::Expr::{Ceil, Floor, Function, Overlay, Position, Substring, Trim};
    let expression = parsed(text);
    let is_call = |expression: &Expr| match reader::unnested(expression) {
        Ceil { .. } | Floor { .. } | Overlay { .. } | Position { .. } | Substring { .. } | Trim { .. } => {
            true
        }
        // AT TIME ZONE is an operator.
        Function(call) => call.name.to_string() != "timezone",
        _ => false,
    };
    expression.as_ref().is_some_and(is_call)
}

/// The expression that a text is.
fn parsed(text: &str) -> Option<Expr> {
    let statement = crate::parse::parse(&format!("SELECT {text}")).ok()?.pop()?.ast?;
    let Statement::Query(query) = &*statement else { return None };
    let SetExpr::Select(select) = &*query.body else { return None };
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expression)] => Some(expression.clone()),
        _ => None,
    }
}
