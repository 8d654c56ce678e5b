//! Constant lists of objects by their names: `'{int4,text}'::regtype[]` is a list of the numbers that the names have.

use super::patterns::items;
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, CastKind, DataType, Expr, Ident, ObjectName, Value,
};

/// The list of numbers; `None` for other expressions.
pub(super) fn numbers(expression: &Expr) -> Option<Expr> {
    let Expr::Cast { expr, data_type: DataType::Array(definition), .. } = expression else { return None };
    let (ArrayElemTypeDef::SquareBracket(kind, _), Expr::Value(value)) = (definition, &**expr) else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let name = kind.to_string().to_ascii_lowercase().replace('"', "");
    let is_of_objects = matches!(
        name.trim_start_matches("pg_catalog."),
        "regclass" | "regtype" | "regproc" | "regnamespace" | "regrole"
    );
    let number = |item: Expr| cast(cast(item, (**kind).clone()), oid());
    let elem = is_of_objects.then(|| items(text)).flatten()?.into_iter().map(number).collect();
    let list = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(oid()), None));
    Some(cast(Expr::Array(Array { elem, named: true }), list))
}

fn oid() -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::new("oid")]), Vec::new())
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::DoubleColon, expr: Box::new(expr), data_type, array: false, format: None }
}
