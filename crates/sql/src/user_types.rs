//! Names of types that users make, in statements and in texts that are kept.
//!
//! What binds an expression knows no catalog. So before a statement is planned, the names of such types in it are put in a form that says
//! which type is meant, whatever it is called and wherever it is: `pg_catalog.enum_7`, which [`type_by_name`](ankerdb_value::type_by_name)
//! reads. No type of users is in `pg_catalog`. Texts that are kept, such as conditions, defaults and queries of views, have that form,
//! and follow the type when it is renamed or moved; what shows them to clients puts the name of now in its place.

use crate::expression::types::data_type;
use crate::name::object_name;
use crate::visit::{Work, visit};
use ankerdb_engine::{Catalog, EnumType, KEPT_ENUM};
use ankerdb_value::{KeptName, renamed};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName,
    Statement,
};
use std::sync::Arc;

/// The schema of types that are named by their numbers.
const SCHEMA: &str = "pg_catalog";

/// The statement with types of users named by their numbers.
pub(crate) fn resolved(statement: &Arc<Statement>, catalog: &Catalog) -> Arc<Statement> {
    if catalog.user_types().next().is_none() && catalog.domains().next().is_none() {
        return statement.clone();
    }
    let mut resolved = (**statement).clone();
    let mut names = Names { catalog };
    match &mut resolved {
        Statement::CreateTable(create) => {
            create.columns.iter_mut().for_each(|column| names.data_type(&mut column.data_type));
        }
        Statement::AlterTable(alter) => alter.operations.iter_mut().for_each(|action| match action {
            AlterTableOperation::AddColumn { column_def, .. } => names.data_type(&mut column_def.data_type),
            AlterTableOperation::AlterColumn {
                op: AlterColumnOperation::SetDataType { data_type, .. },
                ..
            } => names.data_type(data_type),
            _ => {}
        }),
        Statement::CreateDomain(create) => names.data_type(&mut create.data_type),
        _ => {}
    }
    visit(&mut resolved, &mut names);
    Arc::new(resolved)
}

/// A type that a statement names, which may be one of users.
pub(crate) fn resolved_type(named: &DataType, catalog: &Catalog) -> DataType {
    let mut resolved = named.clone();
    Names { catalog }.data_type(&mut resolved);
    resolved
}

struct Names<'a> {
    catalog: &'a Catalog,
}

impl Names<'_> {
    fn data_type(&self, named: &mut DataType) {
        match named {
            DataType::Array(ArrayElemTypeDef::SquareBracket(items, _)) => self.data_type(items),
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                // Types of the system come first, as their schema does.
                let Ok(written) = object_name(name) else { return };
                let kept = match (self.catalog.user_type(&written), self.catalog.domain(&written)) {
                    (Some(found), _) => kept_type(found.labels),
                    (None, Some(domain)) => crate::domains::kept_type(domain.identity),
                    (None, None) => return,
                };
                if name.0.len() > 1 || data_type(named).is_err() {
                    *named = kept;
                }
            }
            _ => {}
        }
    }
}

impl Work for Names<'_> {
    fn expression(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Cast { data_type, .. } => self.data_type(data_type),
            Expr::TypedString(typed) => self.data_type(&mut typed.data_type),
            _ => {}
        }
    }
}

/// The type of labels as texts that are kept name it.
pub(crate) fn kept_type(labels: EnumType) -> DataType {
    let name = [Ident::new(SCHEMA), Ident::new(format!("{KEPT_ENUM}{}", labels.number()))];
    DataType::Custom(ObjectName::from(name.to_vec()), Vec::new())
}

/// The type of the system catalog with this name.
pub(crate) fn named(name: &str) -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::new(SCHEMA), Ident::new(name)]), Vec::new())
}

/// Whether a text that is kept names the type.
pub(crate) fn is_named_in(text: &str, labels: EnumType) -> bool {
    let mut found = false;
    shown(text, |known| {
        found |= known == labels;
        String::new()
    });
    found
}

/// The text with what types are called in the place of their numbers.
pub(crate) fn shown(text: &str, mut name: impl FnMut(EnumType) -> String) -> String {
    renamed(text, |known| match known {
        KeptName::Enum(number) => EnumType::by_number(number).map(&mut name),
        KeptName::Domain(_) => None,
    })
}

/// What a type of labels is called that a parsed type name stands for.
pub(crate) fn name_of_kept(name: &str) -> Option<&'static str> {
    Some(EnumType::by_number(name.strip_prefix(KEPT_ENUM)?.parse().ok()?)?.name())
}

/// A constant that names a label: its text.
pub(crate) fn label_text(label: &ast::Ident) -> Option<&str> {
    (label.quote_style == Some('\'')).then_some(label.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_texts_name_types_by_number_and_are_shown_with_their_names() {
        let (mood, _life) = EnumType::create("mood", ["sad"]).unwrap();
        let text = format!("m = CAST('sad' AS {0}) OR m = '{1}'::{0}", kept_type(mood), "x");
        assert!(is_named_in(&text, mood));
        let (other, _life) = EnumType::create("other", ["sad"]).unwrap();
        assert!(!is_named_in(&text, other));
        let shown = shown(&text, |labels| format!("s.{}", labels.name()));
        assert_eq!(shown, "m = CAST('sad' AS s.mood) OR m = 'x'::s.mood");
        assert_eq!(super::shown("pg_catalog.enum_x", |_| String::new()), "pg_catalog.enum_x");
        let constant = format!("'{}'", kept_type(mood));
        assert_eq!(super::shown(&constant, |_| String::new()), constant);
        assert!(!is_named_in(&constant, mood));
    }
}
