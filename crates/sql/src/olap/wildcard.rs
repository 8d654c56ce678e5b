//! Wildcards that share columns, written out.
//!
//! `SELECT *, *` has every column twice, and so may a subquery's `*` over a join. DataFusion expands wildcards after the names
//! of columns are told apart (`duplicate.rs`), too late for those; so where a list has several wildcards, or one over columns
//! that share names within a subquery, or over a join that merges columns, which DataFusion leaves in their places, they are replaced by
//! their columns before. What stands for what is read off the query as it is
//! written: tables, subqueries and common table expressions have columns that are known by name. Where they are not (functions,
//! FULL JOIN ... USING), a wildcard stays one.

use super::planner::TableSources;
use crate::column_name::column_name;
use crate::name::folded;
use crate::visit::{Work, visit};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
};
use std::collections::HashSet;

/// The query with such wildcards written out.
pub(super) fn written_out(mut query: Statement, tables: &dyn TableSources) -> Statement {
    write_out(&mut query, tables, false);
    query
}

/// The query with all wildcards written out whose columns can be told: it gives the same columns when its tables have got more.
pub(super) fn without_wildcards(query: &Statement, tables: &dyn TableSources) -> Statement {
    let mut query = query.clone();
    write_out(&mut query, tables, true);
    query
}

fn write_out(query: &mut Statement, tables: &dyn TableSources, all: bool) {
    let mut lists = Lists { scope: Scope { tables, named: Vec::new(), all }, depths: Vec::new() };
    visit(query, &mut lists);
}

struct Lists<'a> {
    scope: Scope<'a>,
    /// How many common table expressions were known around each query that is being visited.
    depths: Vec<usize>,
}

impl Work for Lists<'_> {
    fn query(&mut self, query: &mut Query) {
        let is_nested = !self.depths.is_empty();
        self.depths.push(self.scope.named.len());
        self.scope.enter(query);
        self.scope.write_out(&mut query.body, is_nested);
    }

    fn end_of_query(&mut self) {
        self.scope.named.truncate(self.depths.pop().unwrap_or(0));
    }
}

/// What names of tables stand for.
struct Scope<'a> {
    tables: &'a dyn TableSources,
    /// Columns of common table expressions, the innermost last; none where they cannot be told.
    named: Vec<(String, Option<Vec<String>>)>,
    /// Whether wildcards are written out that need not be.
    all: bool,
}

/// A column of FROM.
#[derive(Clone)]
struct Column {
    /// Its name, behind that of its schema if that was written.
    relation: Vec<String>,
    name: String,
}

/// What wildcards over a FROM clause stand for.
#[derive(Default)]
struct Columns {
    /// `*`: columns that USING merges come first, and once.
    all: Vec<Column>,
    /// `relation.*`: every column of each.
    of_relations: Vec<Column>,
}

impl Scope<'_> {
    /// Learns the query's common table expressions.
    fn enter(&mut self, query: &Query) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = self.columns_of_query(&cte.query);
            self.named.push((folded(&cte.alias.name), renamed(columns, Some(&cte.alias))));
        }
    }

    fn write_out(&self, body: &mut SetExpr, is_nested: bool) {
        match body {
            SetExpr::Select(select) => self.write_out_list(select, is_nested),
            SetExpr::SetOperation { left, right, .. } => {
                self.write_out(left, is_nested);
                self.write_out(right, is_nested);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }

    fn write_out_list(&self, select: &mut Select, is_nested: bool) {
        let wildcards = select.projection.iter().filter(|item| is_wildcard(item)).count();
        let merges = select.from.iter().any(merges_columns);
        if wildcards == 0 || (wildcards == 1 && !is_nested && !self.all && !merges) {
            return;
        }
        let Some(from) = self.columns_of_from(&select.from) else { return };
        let mut names = HashSet::new();
        if wildcards == 1 && !self.all && !merges && from.all.iter().all(|column| names.insert(&column.name))
        {
            return;
        }
        let items = select.projection.iter().map(|item| match wildcard_columns(item, &from) {
            Some(columns) => columns.into_iter().map(item_of).collect(),
            None => vec![item.clone()],
        });
        select.projection = items.collect::<Vec<_>>().concat();
    }

    /// Names of the columns that a query gives.
    fn columns_of_query(&self, query: &Query) -> Option<Vec<String>> {
        let mut inner = Scope { tables: self.tables, named: self.named.clone(), all: self.all };
        inner.enter(query);
        inner.columns_of_body(&query.body)
    }

    fn columns_of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.columns_of_list(select),
            SetExpr::Query(query) => self.columns_of_query(query),
            SetExpr::SetOperation { left, .. } => self.columns_of_body(left),
            SetExpr::Values(values) => {
                let width = values.rows.first()?.len();
                Some((1..=width).map(|position| format!("column{position}")).collect())
            }
            _ => None,
        }
    }

    fn columns_of_list(&self, select: &Select) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expression) => names.push(column_name(expression)),
                SelectItem::ExprWithAlias { alias, .. } => names.push(folded(alias)),
                wildcard if is_wildcard(wildcard) => {
                    let from = self.columns_of_from(&select.from)?;
                    names.extend(wildcard_columns(wildcard, &from)?.into_iter().map(|column| column.name));
                }
                _ => return None,
            }
        }
        Some(names)
    }

    fn columns_of_from(&self, from: &[TableWithJoins]) -> Option<Columns> {
        let mut columns = Columns::default();
        for item in from {
            let Columns { all, of_relations } = self.columns_of_joins(item)?;
            columns.all.extend(all);
            columns.of_relations.extend(of_relations);
        }
        Some(columns)
    }

    fn columns_of_joins(&self, item: &TableWithJoins) -> Option<Columns> {
        let mut columns = self.columns_of_factor(&item.relation)?;
        for join in &item.joins {
            let Columns { all, of_relations } = self.columns_of_factor(&join.relation)?;
            columns.all = joined(columns.all, all, join)?;
            columns.of_relations.extend(of_relations);
        }
        Some(columns)
    }

    fn columns_of_factor(&self, factor: &TableFactor) -> Option<Columns> {
        let (relation, names) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = renamed(self.columns_of_table(name), alias.as_ref())?;
                (alias.as_ref().map_or(parts(name)?, |alias| vec![folded(&alias.name)]), columns)
            }
            TableFactor::Derived { subquery, alias: Some(alias), .. } => {
                (vec![folded(&alias.name)], renamed(self.columns_of_query(subquery), Some(alias))?)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.columns_of_joins(table_with_joins);
            }
            _ => return None,
        };
        // Columns of one relation that share a name cannot be told apart by it.
        let mut seen = HashSet::new();
        let is_unique = names.iter().all(|name| seen.insert(name.clone()));
        let column = |name| Column { relation: relation.clone(), name };
        let all: Vec<Column> = names.into_iter().map(column).collect();
        is_unique.then(|| Columns { of_relations: all.clone(), all })
    }

    fn columns_of_table(&self, name: &ObjectName) -> Option<Vec<String>> {
        let own = last_name(name)?;
        if name.0.len() == 1
            && let Some((_, columns)) = self.named.iter().rev().find(|(known, _)| *known == own)
        {
            return columns.clone();
        }
        let schema = schema_name(name);
        let source = self.tables.source(schema.as_deref(), &own).ok()?;
        Some(source.schema().fields().iter().map(|field| field.name().clone()).collect())
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Whether some of its columns are those of two tables.
fn merges_columns(item: &TableWithJoins) -> bool {
    let factor = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges_columns(table_with_joins),
        _ => false,
    };
    let join = |join: &Join| {
        let merges = match &join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => {
                matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
            }
            _ => false,
        };
        merges || factor(&join.relation)
    };
    factor(&item.relation) || item.joins.iter().any(join)
}

/// The schema that a name is qualified with.
pub(super) fn schema_name(name: &ObjectName) -> Option<String> {
    name.0.iter().rev().nth(1)?.as_ident().map(folded)
}

fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(folded)).collect()
}

/// Whether one of the names is the other without its schema.
fn is_named(relation: &[String], name: &[String]) -> bool {
    relation.ends_with(name) || name.ends_with(relation)
}

fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}

/// The columns that a wildcard stands for; `None` if that is an error, or the item is no wildcard.
fn wildcard_columns(item: &SelectItem, from: &Columns) -> Option<Vec<Column>> {
    let of = match item {
        SelectItem::Wildcard(_) => return Some(from.all.clone()),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => parts(name)?,
        _ => return None,
    };
    let columns: Vec<Column> =
        from.of_relations.iter().filter(|column| is_named(&column.relation, &of)).cloned().collect();
    (!columns.is_empty()).then_some(columns)
}

/// The columns under the names that an alias gives to the first of them.
fn renamed(columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let mut columns = columns?;
    let names = alias.into_iter().flat_map(|alias| &alias.columns);
    for (column, name) in columns.iter_mut().zip(names) {
        *column = folded(&name.name);
    }
    Some(columns)
}

/// The columns for which `*` stands over a join.
fn joined(left: Vec<Column>, right: Vec<Column>, join: &Join) -> Option<Vec<Column>> {
    let (constraint, is_right) = match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => (constraint, false),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, true),
        JoinOperator::FullOuter(constraint @ (JoinConstraint::On(_) | JoinConstraint::None)) => {
            (constraint, false)
        }
        _ => return None,
    };
    let merged: Vec<String> = match constraint {
        JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
        JoinConstraint::Using(names) => names.iter().map(last_name).collect::<Option<_>>()?,
        JoinConstraint::Natural => {
            let is_common = |column: &&Column| right.iter().any(|other| other.name == column.name);
            left.iter().filter(is_common).map(|column| column.name.clone()).collect()
        }
    };
    let kept = if is_right { &right } else { &left };
    let first = merged.iter().map(|name| kept.iter().find(|column| column.name == *name).cloned());
    let mut all = first.collect::<Option<Vec<_>>>()?;
    all.extend(left.into_iter().chain(right).filter(|column| !merged.contains(&column.name)));
    Some(all)
}

fn item_of(column: Column) -> SelectItem {
    let parts = column.relation.into_iter().chain([column.name]).map(|part| Ident::with_quote('"', part));
    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts.collect()))
}
