//! The name of a result's column that has no alias: PostgreSQL's rules (`FigureColname`), for both paths.
//!
//! A column and a function give their own name, and it shows through a cast or the ELSE of a CASE. The name of a type is
//! weaker: a cast of something without a name has it, and an outer cast's type replaces an inner one's.

use crate::expression::library::{AGGREGATES, JSON_WHOLE};
use crate::name::folded;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Function, FunctionArguments, ObjectName, ObjectNamePart,
    Query, SelectItem, SetExpr, TrimWhereField,
};

/// A name, and whether it stays when a cast or CASE stands around it.
struct Name {
    text: String,
    stays: bool,
}

/// The column's name.
pub(crate) fn column_name(expression: &Expr) -> String {
    figured(expression).map_or_else(|| "?column?".to_owned(), |name| name.text)
}

fn figured(expression: &Expr) -> Option<Name> {
    let strong = |text: &str| Some(Name { text: text.to_owned(), stays: true });
    match expression {
        Expr::Identifier(name) => strong(&folded(name)),
        Expr::CompoundIdentifier(parts) => strong(&folded(parts.last()?)),
        Expr::QualifiedWildcard(name, _) => strong(&last_part(name)?),
        Expr::Nested(inner) => figured(inner),
        Expr::Collate { expr, .. } => figured(expr),
        Expr::Function(function) => strong(respelled(function).unwrap_or(&last_part(&function.name)?)),
        // An item of a list has the list's name.
        Expr::CompoundFieldAccess { root, .. } => figured(root),
        Expr::Cast { expr, data_type, .. } => or_weak(figured(expr), &type_name(data_type)),
        Expr::TypedString(typed) => or_weak(None, &type_name(&typed.data_type)),
        Expr::Interval(interval) => match &interval.leading_field {
            Some(unit) if !is_field(unit) => strong(&unit.to_string().to_lowercase()),
            _ => or_weak(None, "interval"),
        },
        Expr::Case { else_result, .. } => {
            or_weak(else_result.as_ref().and_then(|result| figured(result)), "case")
        }
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Extract { .. } => strong("extract"),
        Expr::Substring { shorthand, .. } => strong(if *shorthand { "substr" } else { "substring" }),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::Position { .. } => strong("position"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => strong("overlaps"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::Subquery(query) => match first_item(query)? {
            SelectItem::UnnamedExpr(inner) => strong(&column_name(inner)),
            SelectItem::ExprWithAlias { alias, .. } => strong(&folded(alias)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether it is one of the fields of intervals, and not a word that names the column.
pub(crate) fn is_field(unit: &DateTimeField) -> bool {
    use DateTimeField::{Day, Hour, Minute, Month, Second, Year};
    matches!(unit, Year | Month | Day | Hour | Minute | Second)
}

/// The name of what the call stands for; see `olap/spelling.rs`.
fn respelled(function: &Function) -> Option<&'static str> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match (last_part(&function.name)?.as_str(), list.args.as_slice()) {
        ("array_or_empty", _) => Some("array"),
        (name, _) if name.starts_with(JSON_WHOLE) => {
            AGGREGATES.into_iter().find(|aggregate| name.ends_with(&format!(" {aggregate}")))
        }
        _ => None,
    }
}

/// The inner name if it stays, else the given one.
fn or_weak(inner: Option<Name>, text: &str) -> Option<Name> {
    inner.filter(|name| name.stays).or_else(|| Some(Name { text: text.to_owned(), stays: false }))
}

fn last_part(name: &ObjectName) -> Option<String> {
    match name.0.last() {
        Some(ObjectNamePart::Identifier(ident)) => Some(folded(ident)),
        _ => None,
    }
}

fn first_item(query: &Query) -> Option<&SelectItem> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => return select.projection.first(),
            SetExpr::Query(inner) => body = inner.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return None,
        }
    }
}

/// The name that a type has in PostgreSQL's catalog.
fn type_name(data_type: &DataType) -> String {
    if let DataType::Custom(name, _) = data_type
        && let Some(ObjectNamePart::Identifier(ident)) = name.0.last()
        && ident.quote_style.is_some()
        && crate::user_types::name_of_kept(&ident.value).is_none()
        && crate::domains::by_kept_name(&ident.value).is_none()
    {
        return ident.value.clone();
    }
    let text = data_type.to_string().to_lowercase();
    let (before, behind) = match (text.find('('), text.find(')')) {
        (Some(open), Some(close)) if open < close => (&text[..open], &text[close + 1..]),
        _ => (text.as_str(), ""),
    };
    let name = format!("{}{behind}", before.trim_end());
    let name = name.trim_start_matches("pg_catalog.");
    // A list is called by its items.
    let name = name.split('[').next().unwrap_or_default();
    if let Some(labels) = crate::user_types::name_of_kept(name) {
        return labels.to_owned();
    }
    if let Some(version) = crate::domains::by_kept_name(name) {
        return version.name.clone();
    }
    match name {
        "\"char\"" => "char",
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" | "float" | "double" => "float8",
        "boolean" => "bool",
        "character varying" | "char varying" => "varchar",
        "character" | "char" => "bpchar",
        "decimal" | "dec" => "numeric",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        interval if interval.starts_with("interval ") => "interval",
        "time with time zone" => "timetz",
        "\"bit\"" => "bit",
        "bit varying" => "varbit",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Statement;

    fn name(item: &str) -> String {
        let statement = crate::parse::parse(&format!("SELECT {item}")).expect("is SQL").remove(0);
        let ast = statement.ast.expect("is a statement");
        let Statement::Query(query) = ast.as_ref() else { panic!("not a query") };
        match first_item(query) {
            Some(SelectItem::UnnamedExpr(expression)) => column_name(expression),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_of_columns_and_functions_show_through_casts_and_else() {
        assert_eq!(name("t.Id::text"), "id");
        assert_eq!(name("CASE WHEN true THEN 1 ELSE b END"), "b");
        assert_eq!(name("upper('a')::varchar(3)"), "upper");
        assert_eq!(name("(SELECT max(x) FROM t)"), "max");
    }

    #[test]
    fn names_of_types_are_weak() {
        assert_eq!(name("'5'::int"), "int4");
        assert_eq!(name("'5'::int::text"), "text");
        assert_eq!(name("CAST('a' AS char(3))"), "bpchar");
        assert_eq!(name("TIMESTAMP '2024-01-01'"), "timestamp");
        assert_eq!(name("CASE WHEN true THEN 1 ELSE 2::bigint END"), "case");
    }

    #[test]
    fn constants_and_operators_have_no_name() {
        assert_eq!(name("true"), "?column?");
        assert_eq!(name("1 + 1"), "?column?");
        assert_eq!(name("NOT a"), "?column?");
    }

    #[test]
    fn types_in_quotes_give_their_names() {
        assert_eq!(name(r#"1::"int4""#), "int4");
        assert_eq!(name(r#"1::pg_catalog."int4""#), "int4");
        assert_eq!(name(r#"'a'::"char""#), "char");
    }
}
