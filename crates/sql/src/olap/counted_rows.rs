//! `count(t.*)`, written without the wildcard.
//!
//! A row of a table is NULL where an outer join has found none for the other side, and is not counted then. DataFusion counts all rows
//! of the join. So where t is on such a side, a column is counted that is never NULL in t itself; if it has none, the call is
//! refused. Elsewhere all rows are counted.

use super::planner::TableSources;
use super::scope::schema_name;
use crate::name::{folded, identifier, not_supported};
use crate::visit::{Work, visit};
use ankerdb_engine::{Error, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, JoinOperator, ObjectName, Query, SetExpr,
    Statement, TableFactor, TableWithJoins,
};
use std::collections::HashMap;

/// The query with such calls written so.
///
/// # Errors
/// `FeatureNotSupported` for rows of a side that may be missing, if they have no column that is never NULL.
pub(super) fn written_out(mut query: Statement, tables: &dyn TableSources) -> Result<Statement> {
    let mut calls = Calls { tables, sides: Vec::new(), refused: None };
    visit(&mut query, &mut calls);
    calls.refused.map_or(Ok(query), Err)
}

/// Relations that may be missing, with a column of each that is never NULL.
type Sides = HashMap<String, Option<String>>;

struct Calls<'a> {
    tables: &'a dyn TableSources,
    /// Those of each query around.
    sides: Vec<Sides>,
    refused: Option<Error>,
}

impl Work for Calls<'_> {
    fn query(&mut self, query: &mut Query) {
        let mut sides = Sides::new();
        self.collect(&query.body, &mut sides);
        self.sides.push(sides);
    }

    fn end_of_query(&mut self) {
        self.sides.pop();
    }

    fn expression(&mut self, expression: &mut Expr) {
        let Expr::Function(call) = expression else { return };
        let is_count = matches!(call.name.0.as_slice(), [name] if name.as_ident().map(folded).as_deref() == Some("count"));
        let FunctionArguments::List(arguments) = &mut call.args else { return };
        let [FunctionArg::Unnamed(argument)] = arguments.args.as_mut_slice() else { return };
        let FunctionArgExpr::QualifiedWildcard(relation) = argument else { return };
        let Some(name) = last(relation).filter(|_| is_count) else { return };
        match self.sides.iter().rev().find_map(|sides| sides.get(&name)) {
            Some(Some(column)) => {
                let parts = relation.0.iter().filter_map(|part| part.as_ident().cloned());
                let parts = parts.chain([identifier(column)]).collect();
                *argument = FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts));
            }
            Some(None) => {
                self.refused = Some(not_supported(
                    "count of rows that an outer join may lack, without a column that is NOT NULL",
                ));
            }
            None => {}
        }
    }
}

impl Calls<'_> {
    fn collect(&self, body: &SetExpr, sides: &mut Sides) {
        match body {
            SetExpr::Select(select) => {
                select.from.iter().for_each(|item| self.collect_missing(item, false, sides));
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.collect(left, sides);
                self.collect(right, sides);
            }
            _ => {}
        }
    }

    /// `is_missing`: whether rows of the whole item may be.
    fn collect_missing(&self, item: &TableWithJoins, is_missing: bool, sides: &mut Sides) {
        let is_left_missing = item.joins.iter().any(|join| {
            use JoinOperator::{FullOuter, Right, RightOuter};
            matches!(join.join_operator, Right(_) | RightOuter(_) | FullOuter(_))
        });
        self.collect_factor(&item.relation, is_missing || is_left_missing, sides);
        for (position, join) in item.joins.iter().enumerate() {
            use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
            let is_own = matches!(join.join_operator, Left(_) | LeftOuter(_) | FullOuter(_));
            let is_later = item.joins[position + 1..]
                .iter()
                .any(|join| matches!(join.join_operator, Right(_) | RightOuter(_) | FullOuter(_)));
            self.collect_factor(&join.relation, is_missing || is_own || is_later, sides);
        }
    }

    fn collect_factor(&self, factor: &TableFactor, is_missing: bool, sides: &mut Sides) {
        let (name, column) = match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => {
                return self.collect_missing(table_with_joins, is_missing, sides);
            }
            TableFactor::Table { name, alias, args: None, .. } => {
                let alias = alias.as_ref().filter(|alias| alias.columns.is_empty());
                (alias.map(|alias| folded(&alias.name)).or_else(|| last(name)), self.never_null(name))
            }
            TableFactor::Derived { alias: Some(alias), .. } => (Some(folded(&alias.name)), None),
            _ => return,
        };
        if let Some(name) = name.filter(|_| is_missing) {
            sides.insert(name, column);
        }
    }

    fn never_null(&self, name: &ObjectName) -> Option<String> {
        let source = self.tables.source(schema_name(name).as_deref(), &last(name)?).ok()?;
        source.schema().fields().iter().find(|field| !field.is_nullable()).map(|field| field.name().clone())
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}
