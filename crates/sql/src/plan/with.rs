//! WITH before a statement that writes.

use crate::name::not_supported;
use ankerdb_engine::Result;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement, With};
use std::borrow::Cow;

/// The statement that stands behind WITH in place of a query, if one does.
///
/// # Errors
/// `FeatureNotSupported` for clauses of a query behind the statement.
pub(super) fn written(query: &Query) -> Result<Option<&Statement>> {
    let (SetExpr::Insert(statement)
    | SetExpr::Update(statement)
    | SetExpr::Delete(statement)
    | SetExpr::Merge(statement)) = &*query.body
    else {
        return Ok(None);
    };
    if query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || !query.locks.is_empty()
    {
        return Err(not_supported("ORDER BY, LIMIT or FOR UPDATE behind a statement that writes"));
    }
    Ok(Some(statement))
}

/// A query of a statement, which sees that statement's common table expressions.
pub(super) fn below<'a>(with: Option<&With>, query: &'a Query) -> Cow<'a, Query> {
    let Some(outer) = with else { return Cow::Borrowed(query) };
    let mut query = query.clone();
    let mut all = outer.clone();
    if let Some(own) = query.with.take() {
        // A name of the query's own hides that of the statement's.
        let is_hidden =
            |name: &str| own.cte_tables.iter().any(|cte| crate::name::folded(&cte.alias.name) == name);
        all.cte_tables.retain(|cte| !is_hidden(&crate::name::folded(&cte.alias.name)));
        all.recursive |= own.recursive;
        all.cte_tables.extend(own.cte_tables);
    }
    query.with = Some(all);
    Cow::Owned(query)
}
