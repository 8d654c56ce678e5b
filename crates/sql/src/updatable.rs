//! Views through which rows can be written: those that show columns and rows of one relation, as PostgreSQL has it.
//!
//! This looks at texts alone; [`crate::plan`] binds what it finds.

use crate::aggregates::aggregates;
use crate::expression::library;
use crate::name::{folded, quoted};
use crate::view_options::CHECK_OPTION;
use crate::view_text;
use crate::visit::walk;
use ankerdb_engine::{
    Catalog, ColumnDefinition, Error, ReadRelation, RelationName, Result, SqlState, Table, View,
};
use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem, SetExpr, TableFactor, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a view shows of the one relation beneath it.
#[derive(Clone)]
pub(crate) struct Simple {
    pub base: RelationName,
    /// What the view's query calls the relation.
    pub alias: String,
    /// The relation's columns: their names of today, and what the query calls them.
    pub columns: Vec<(String, String)>,
    pub items: Vec<Item>,
    /// Which rows it shows.
    pub condition: Option<Expr>,
}

/// A column of a view.
#[derive(Clone)]
pub(crate) struct Item {
    pub expr: Expr,
    /// The relation's column that it is, by its name of today.
    pub column: Option<String>,
}

/// What the view shows, or PostgreSQL's words for why nothing can be written through it.
fn simple(view: &View, catalog: &Catalog) -> Result<std::result::Result<Simple, &'static str>> {
    let query = view_text::parsed(&view.query)?;
    let select = match select_of(&query) {
        Ok(select) => select,
        Err(detail) => return Ok(Err(detail)),
    };
    if let Some(detail) = rows_of_several(select) {
        return Ok(Err(detail));
    }
    let other = "Views that do not select from a single table or view are not automatically updatable.";
    let [from] = select.from.as_slice() else { return Ok(Err(other)) };
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
        return Ok(Err(other));
    };
    let Some(read) = read(view, catalog, name).filter(|_| from.joins.is_empty()) else {
        return Ok(Err(other));
    };
    let base = RelationName::new(read.schema, read.name.as_str());
    if catalog.table(&base).is_ok_and(|table| table.definition().materialized.is_some()) {
        return Ok(Err(other));
    }
    let given = alias.as_ref().map_or(&[][..], |alias| &alias.columns);
    let columns = read.columns.iter().enumerate().map(|(position, column)| {
        let called = given.get(position).map_or_else(|| column.called.clone(), |name| folded(&name.name));
        (column.name.clone(), called)
    });
    let alias = alias.as_ref().map_or_else(|| read.name.clone(), |alias| folded(&alias.name));
    let mut simple = Simple { base, alias, columns: columns.collect(), items: Vec::new(), condition: None };
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return Ok(Err(other));
        };
        let mut expr = expr.clone();
        let column = simple.column(&expr);
        view_text::keep_columns(&mut expr, view, catalog);
        simple.items.push(Item { expr, column });
    }
    simple.condition.clone_from(&select.selection);
    if let Some(condition) = &mut simple.condition {
        view_text::keep_columns(condition, view, catalog);
    }
    Ok(if simple.items.len() == view.columns.len() { Ok(simple) } else { Err(other) })
}

/// Why a view through which rows could be deleted does not let them be inserted or changed.
const NO_COLUMNS: &str = "Views that have no updatable columns are not automatically updatable.";

impl Simple {
    /// The relation's column that an expression is.
    fn column(&self, expr: &Expr) -> Option<String> {
        let name = match expr {
            Expr::Identifier(name) => name,
            Expr::Nested(inner) => return self.column(inner),
            Expr::CompoundIdentifier(parts) => parts.last()?,
            _ => return None,
        };
        let called = folded(name);
        self.columns.iter().find(|(_, known)| *known == called).map(|(name, _)| name.clone())
    }

    /// Whether any column can be written.
    fn has_columns(&self) -> bool {
        self.items.iter().any(|item| item.column.is_some())
    }
}

/// The SELECT that a query is, without anything around it.
fn select_of(query: &ast::Query) -> std::result::Result<&ast::Select, &'static str> {
    let set = "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.";
    let from = "Views that do not select from a single table or view are not automatically updatable.";
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return Err(set),
        SetExpr::Query(inner) if query.with.is_none() && query.limit_clause.is_none() => {
            return select_of(inner);
        }
        _ => return Err(from),
    };
    let is_grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    match () {
        () if select.distinct.is_some() => Err("Views containing DISTINCT are not automatically updatable."),
        () if is_grouped => Err("Views containing GROUP BY are not automatically updatable."),
        () if select.having.is_some() => Err("Views containing HAVING are not automatically updatable."),
        () if query.with.is_some() => Err("Views containing WITH are not automatically updatable."),
        () if query.limit_clause.is_some() || query.fetch.is_some() => {
            Err("Views containing LIMIT or OFFSET are not automatically updatable.")
        }
        () => Ok(select),
    }
}

/// Why the rows of a SELECT are not those of its relation, if a function makes them others.
fn rows_of_several(select: &ast::Select) -> Option<&'static str> {
    let mut calls = Calls::default();
    let _ = walk(&select.projection, &mut calls);
    match calls {
        Calls { aggregate: true, .. } => {
            Some("Views that return aggregate functions are not automatically updatable.")
        }
        Calls { window: true, .. } => {
            Some("Views that return window functions are not automatically updatable.")
        }
        Calls { set: true, .. } => {
            Some("Views that return set-returning functions are not automatically updatable.")
        }
        _ => None,
    }
}

/// Which functions a list calls, other than in subqueries.
#[derive(Default)]
struct Calls {
    aggregate: bool,
    window: bool,
    set: bool,
    depth: usize,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (0, Expr::Function(call)) = (self.depth, expr) {
            let name = call.name.0.last().and_then(|part| part.as_ident()).map(folded);
            self.window |= call.over.is_some();
            self.aggregate |= aggregates(call);
            self.set |= name.is_some_and(|name| library::is_set(&name) || name == "unnest");
        }
        ControlFlow::Continue(())
    }
}

/// The relation that a name in a view's query means.
fn read<'a>(view: &'a View, catalog: &Catalog, name: &ast::ObjectName) -> Option<&'a ReadRelation> {
    let (schema, name) = view_text::names(name)?;
    view.reads.iter().find(|read| read.name == name && catalog.schema_name(read.schema) == schema)
}

/// What is done with the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
    Merge,
}

/// A view through which rows are written.
pub(crate) struct WrittenView {
    /// It, and the views beneath it.
    pub levels: Vec<Level>,
}

#[derive(Clone)]
/// One of the views between a statement and the table.
pub(crate) struct Level {
    pub view: Arc<View>,
    pub shown: Simple,
}

/// The view and those beneath it, and the table beneath all.
pub(crate) fn levels(view: &Arc<View>, catalog: &Catalog, verb: Verb) -> Result<(Vec<Level>, Arc<Table>)> {
    let (mut levels, mut view) = (Vec::new(), view.clone());
    if verb == Verb::Merge {
        let message = format!("cannot execute MERGE on relation {}", quoted(&view.name));
        let detail = "This operation is not supported for views.";
        return Err(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail));
    }
    loop {
        let shown = match simple(&view, catalog)? {
            Ok(shown) if verb == Verb::Delete || shown.has_columns() => shown,
            Ok(_) => return Err(not_updatable(&view, verb, NO_COLUMNS)),
            Err(detail) => return Err(not_updatable(&view, verb, detail)),
        };
        let base = shown.base.clone();
        levels.push(Level { view, shown });
        view = match catalog.view(&base) {
            Some(next) => next.clone(),
            None => return Ok((levels, catalog.table(&base)?)),
        };
    }
}

/// The table that is written through a view; `None` if nothing can be.
pub(crate) fn table_beneath(view: &Arc<View>, catalog: &Catalog) -> Option<Arc<Table>> {
    levels(view, catalog, Verb::Delete).ok().map(|(_, table)| table)
}

/// Why nothing can be written through a view, in PostgreSQL's words, if so.
pub(crate) fn why_not_written(view: &View, catalog: &Catalog) -> Result<Option<&'static str>> {
    Ok(match simple(view, catalog)? {
        Ok(shown) if shown.has_columns() => None,
        Ok(_) => Some(NO_COLUMNS),
        Err(detail) => Some(detail),
    })
}

/// For each column of a view whether it can be written; `None` if no row can be deleted through the view.
pub(crate) fn written_columns(view: &Arc<View>, catalog: &Catalog) -> Option<Vec<bool>> {
    let (levels, _) = levels(view, catalog, Verb::Delete).ok()?;
    let written = WrittenView { levels };
    Some((0..view.columns.len()).map(|column| written.column(column).is_ok()).collect())
}

/// 55000
fn not_updatable(view: &View, verb: Verb, detail: &str) -> Error {
    let (what, doing, event) = match verb {
        Verb::Insert => ("insert into", "inserting into", "INSERT"),
        Verb::Update | Verb::Merge => ("update", "updating", "UPDATE"),
        Verb::Delete => ("delete from", "deleting from", "DELETE"),
    };
    let message = format!("cannot {what} view {}", quoted(&view.name));
    let hint = format!(
        "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD \
         rule."
    );
    Error::new(SqlState::ObjectNotInPrerequisiteState, message).with_detail(detail).with_hint(hint)
}

impl WrittenView {
    /// The one that the statement names.
    pub(crate) fn outermost(&self) -> &View {
        &self.levels[0].view
    }

    /// The name of the table's column that a column of the view is; else that of the column that is none, and its view.
    pub(crate) fn column(&self, position: usize) -> std::result::Result<String, (&str, &str)> {
        let mut position = position;
        for (level, below) in self.levels.iter().zip(self.levels[1..].iter().map(Some).chain([None])) {
            let (name, view) = (&level.view.columns[position].name, &level.view.name);
            let Some(column) = &level.shown.items[position].column else { return Err((name, view)) };
            match below {
                None => return Ok(column.clone()),
                Some(below) => {
                    let known = below.view.columns.iter().position(|known| known.name == *column);
                    position = known.ok_or((name.as_str(), view.as_str()))?;
                }
            }
        }
        unreachable!("the last view is over a table")
    }

    /// A column with a default that can be written nowhere, and its view: no row can be inserted then.
    pub(crate) fn lost_default(&self) -> Option<(&str, &str)> {
        (0..self.levels.len()).find_map(|level| {
            let below = WrittenView { levels: self.levels[level..].to_vec() };
            let view = &self.levels[level].view;
            let mut given = view.columns.iter().enumerate().filter(|(_, column)| column.default.is_some());
            let (_, column) = given.find(|(at, _)| below.column(*at).is_err())?;
            Some((column.name.as_str(), view.name.as_str()))
        })
    }

    /// The default that the views give a column of the table, and the schema of the view that does: that of the outermost counts.
    pub(crate) fn default(
        &self,
        column: &ColumnDefinition,
        catalog: &Catalog,
    ) -> Option<(ColumnDefinition, String)> {
        (0..self.levels.len()).find_map(|level| {
            let below = WrittenView { levels: self.levels[level..].to_vec() };
            let view = &self.levels[level].view;
            let columns = view.columns.iter().enumerate();
            let mut given = columns.filter(|(_, known)| known.default.is_some());
            let found = given.find(|(at, _)| below.column(*at).as_ref() == Ok(&column.name))?;
            let default = found.1.default.clone();
            Some((
                ColumnDefinition { default, ..column.clone() },
                catalog.schema_name(view.schema).to_owned(),
            ))
        })
    }

    /// For each view the condition of its query that new rows have to fulfil, as WITH CHECK OPTION of it or of one above says.
    pub(crate) fn is_checked(&self) -> Vec<bool> {
        let mut cascades = false;
        let levels = self.levels.iter().map(|level| {
            let option = check_option(&level.view);
            cascades |= option == Some("cascaded");
            option.is_some() || cascades
        });
        levels.collect()
    }
}

/// What WITH CHECK OPTION of a view says.
pub(crate) fn check_option(view: &View) -> Option<&str> {
    view.options.iter().find(|(name, _)| name == CHECK_OPTION).map(|(_, value)| value.as_str())
}
