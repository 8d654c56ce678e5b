//! Which column of which relation a column of a result shows unchanged: what drivers ask for that write to the rows they have read.
//!
//! The planners of both paths rewrite a query until its columns are computed in the best place, so their plans do not tell. It is told by
//! the statement as it was written, as in PostgreSQL (`markTargetListOrigin`): a column that is named alone, also one of a subquery
//! or a common table expression, but not one of a set operation. A view's columns are its own.
//!
//! The statement has been planned when it comes here, so each name stands for something and for one thing only. Where something else
//! than a relation, such as a function, has columns that are not known here, a wildcard over them leaves the whole result without.

use crate::OutputColumn;
use crate::column_name::column_name;
use crate::name::folded;
use crate::prepared::SourceColumn;
use crate::system::oids::{AssignedOids, ObjectKey, Oids};
use ankerdb_engine::{Catalog, NameRef};
use datafusion::sql::sqlparser::ast::{
    self, Expr, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins,
};
use parking_lot::MutexGuard;
use std::sync::Arc;

/// A column that a name may stand for.
#[derive(Clone)]
struct Column {
    name: String,
    source: Option<SourceColumn>,
}

/// What a FROM clause brings.
#[derive(Default)]
struct From {
    /// Relations by name; `None` where the columns are not known.
    relations: Vec<(String, Option<Vec<Column>>)>,
    /// The columns that names without a relation stand for, in the order of a wildcard; `None` if some are not known.
    visible: Option<Vec<Column>>,
    /// Those of them that are known.
    known: Vec<Column>,
}

/// The columns of the statement's result, with where they come from.
pub(super) fn with_sources(
    statement: &Statement,
    catalog: &Catalog,
    oids: &Oids,
    output: Arc<[OutputColumn]>,
) -> Arc<[OutputColumn]> {
    let mut finder = Finder { catalog, oids: oids.lock(), named: Vec::new() };
    let Some(found) = finder.of_statement(statement) else { return output };
    let fits = found.len() == output.len()
        && found.iter().zip(&*output).all(|(found, told)| found.name == told.name);
    if !fits || found.iter().all(|column| column.source.is_none()) {
        return output;
    }
    let columns = output.iter().zip(found);
    columns.map(|(column, found)| OutputColumn { source: found.source, ..column.clone() }).collect()
}

struct Finder<'a> {
    catalog: &'a Catalog,
    oids: MutexGuard<'a, AssignedOids>,
    /// Common table expressions, the innermost last.
    named: Vec<(String, Option<Vec<Column>>)>,
}

impl Finder<'_> {
    fn of_statement(&mut self, statement: &Statement) -> Option<Vec<Column>> {
        match statement {
            Statement::Query(query) => self.of_query(query),
            Statement::Insert(insert) => {
                let ast::TableObject::TableName(name) = &insert.table else { return None };
                let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
                let columns = self.of_relation(name);
                let name = alias.or_else(|| name.0.last()?.as_ident().map(folded))?;
                let from = From {
                    relations: vec![(name, columns.clone())],
                    known: columns.clone().unwrap_or_default(),
                    visible: columns,
                };
                of_list(insert.returning.as_deref()?, &from)
            }
            Statement::Update(update) => {
                let others = match &update.from {
                    Some(ast::UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
                    _ => &[],
                };
                let from = self.from(std::iter::once(&update.table).chain(others));
                of_list(update.returning.as_deref()?, &from)
            }
            Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(of) | ast::FromTable::WithoutKeyword(of)) = &delete.from;
                let from = self.from(of.iter().chain(delete.using.iter().flatten()));
                of_list(delete.returning.as_deref()?, &from)
            }
            _ => None,
        }
    }

    fn of_query(&mut self, query: &Query) -> Option<Vec<Column>> {
        let depth = self.named.len();
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let columns = self.of_query(&cte.query);
            self.named.push((folded(&cte.alias.name), renamed(columns, Some(&cte.alias))));
        }
        let found = self.of_body(&query.body);
        self.named.truncate(depth);
        found
    }

    fn of_body(&mut self, body: &SetExpr) -> Option<Vec<Column>> {
        let (mut body, mut is_combined) = (body, false);
        while let SetExpr::SetOperation { left, .. } = body {
            (body, is_combined) = (left, true);
        }
        let mut columns = match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
                self.of_statement(statement)
            }
            _ => None,
        }?;
        if is_combined {
            columns.iter_mut().for_each(|column| column.source = None);
        }
        Some(columns)
    }

    fn of_select(&mut self, select: &Select) -> Option<Vec<Column>> {
        let from = self.from(&select.from);
        of_list(&select.projection, &from)
    }

    fn from<'q>(&mut self, items: impl IntoIterator<Item = &'q TableWithJoins>) -> From {
        let mut from = From { visible: Some(Vec::new()), ..From::default() };
        for item in items {
            let of_item = self.of_joins(item);
            from.relations.extend(of_item.relations);
            from.known.extend(of_item.known);
            from.visible = from.visible.zip(of_item.visible).map(|(all, more)| [all, more].concat());
        }
        from
    }

    fn of_joins(&mut self, item: &TableWithJoins) -> From {
        let mut from = self.of_factor(&item.relation);
        for join in &item.joins {
            let right = self.of_factor(&join.relation);
            from.relations.extend(right.relations);
            (from.known, from.visible) = match (from.visible, right.visible) {
                (Some(left), Some(right)) => {
                    let joined = joined(left, right, &join.join_operator);
                    (joined.clone(), Some(joined))
                }
                _ => ([from.known, right.known].concat(), None),
            };
        }
        from
    }

    fn of_factor(&mut self, factor: &TableFactor) -> From {
        let (name, columns) = match factor {
            TableFactor::Table { name, alias, args: None, with_ordinality: false, .. } => {
                let columns = renamed(self.of_relation(name), alias.as_ref());
                let own = name.0.last().and_then(|part| part.as_ident()).map(folded);
                (alias.as_ref().map(|alias| folded(&alias.name)).or(own), columns)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = renamed(self.of_query(subquery), alias.as_ref());
                (alias.as_ref().map(|alias| folded(&alias.name)), columns)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.of_joins(table_with_joins);
            }
            _ => (None, None),
        };
        let known = columns.clone().unwrap_or_default();
        From {
            relations: name.map(|name| (name, columns.clone())).into_iter().collect(),
            visible: columns,
            known,
        }
    }

    /// The columns of what a name in FROM stands for.
    fn of_relation(&mut self, name: &ObjectName) -> Option<Vec<Column>> {
        let mut parts = name.0.iter().rev().map(|part| part.as_ident().map(folded));
        let own = parts.next()??;
        let schema = parts.next().flatten();
        if schema.is_none()
            && let Some((_, columns)) = self.named.iter().rev().find(|(known, _)| *known == own)
        {
            return columns.clone();
        }
        let reference = match &schema {
            Some(schema) => NameRef::Qualified(schema, &own),
            None => NameRef::Unqualified(&own),
        };
        if let Ok(table) = self.catalog.table(reference) {
            let oid = self.oids.of(ObjectKey::Table(table.origin()), || (&table).into());
            return Some(numbered(oid, table.columns().iter().map(|column| column.name.as_str())));
        }
        if let Some(view) = self.catalog.view(reference) {
            let oid = self.oids.of(ObjectKey::View(view.full_name()), || view.into());
            return Some(numbered(oid, view.columns.iter().map(|column| column.name.as_str())));
        }
        let schema = schema.as_deref().unwrap_or("pg_catalog");
        let relation = crate::system::relation(schema, &own)?;
        Some(numbered(relation.oid(), relation.columns().iter().map(|column| column.name)))
    }
}

fn numbered<'n>(table: u32, names: impl Iterator<Item = &'n str>) -> Vec<Column> {
    let column = |(position, name): (usize, &str)| {
        let source = i16::try_from(position + 1).ok().map(|column| SourceColumn { table, column });
        Column { name: name.to_owned(), source }
    };
    names.enumerate().map(column).collect()
}

/// The columns under the names that an alias gives to the first of them.
fn renamed(columns: Option<Vec<Column>>, alias: Option<&TableAlias>) -> Option<Vec<Column>> {
    let mut columns = columns?;
    for (column, given) in columns.iter_mut().zip(alias.into_iter().flat_map(|alias| &alias.columns)) {
        column.name = folded(&given.name);
    }
    Some(columns)
}

/// The columns of a join: those that both sides share come first, and once.
fn joined(left: Vec<Column>, right: Vec<Column>, operator: &JoinOperator) -> Vec<Column> {
    let (constraint, from_right, from_none) = match operator {
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (Some(constraint), true, false)
        }
        JoinOperator::FullOuter(constraint) => (Some(constraint), false, true),
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => (Some(constraint), false, false),
        _ => (None, false, false),
    };
    let shared: Vec<String> = match constraint {
        Some(JoinConstraint::Using(names)) => {
            names.iter().filter_map(|name| name.0.last()?.as_ident().map(folded)).collect()
        }
        Some(JoinConstraint::Natural) => {
            let is_shared = |column: &&Column| right.iter().any(|other| other.name == column.name);
            left.iter().filter(is_shared).map(|column| column.name.clone()).collect()
        }
        _ => Vec::new(),
    };
    let chosen = if from_right { &right } else { &left };
    let merged = shared.iter().filter_map(|name| chosen.iter().find(|column| column.name == *name)).cloned();
    let merged = merged.map(|column| if from_none { Column { source: None, ..column } } else { column });
    let rest = |column: &&Column| !shared.contains(&column.name);
    let mut all: Vec<Column> = merged.collect();
    all.extend(left.iter().filter(rest).chain(right.iter().filter(rest)).cloned());
    all
}

/// The columns of a select list.
fn of_list(items: &[SelectItem], from: &From) -> Option<Vec<Column>> {
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                columns.push(Column { name: column_name(expr), source: source_of(expr, from) });
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                columns.push(Column { name: folded(alias), source: source_of(expr, from) });
            }
            SelectItem::Wildcard(_) => columns.extend(from.visible.clone()?),
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = name.0.last()?.as_ident().map(folded)?;
                let (_, of_relation) = from.relations.iter().find(|(known, _)| *known == name)?;
                columns.extend(of_relation.clone()?);
            }
            _ => return None,
        }
    }
    Some(columns)
}

/// Where an expression comes from, if it is a column.
fn source_of(expr: &Expr, from: &From) -> Option<SourceColumn> {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let by_name = |columns: &[Column], name: &ast::Ident| {
        columns.iter().find(|column| column.name == folded(name)).and_then(|column| column.source)
    };
    match expr {
        Expr::Identifier(name) => by_name(&from.known, name),
        Expr::CompoundIdentifier(parts) => {
            let [.., relation, name] = parts.as_slice() else { return None };
            let (_, columns) = from.relations.iter().find(|(known, _)| *known == folded(relation))?;
            by_name(columns.as_deref()?, name)
        }
        _ => None,
    }
}
