//! Views: queries in the place of relations.
//!
//! A view's text is parsed and bound wherever its name stands. Its names are those of the catalog, whatever the statement around it
//! calls by the same names, and its columns are those that it was made with.

use super::error::{external, from_datafusion};
use super::planner::{self, CatalogSources, TableSources};
use super::view_source::ViewSource;
use super::{counted_rows, duplicate, merging, same_names, spelling, untyped, wildcard};
use crate::view_text;
use ankerdb_engine::{Error, Result, SqlState, View};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource};
use datafusion::sql::sqlparser::ast::Statement;
use std::cell::RefCell;
use std::sync::Arc;

/// The relations of a statement, with the plans of those that are views.
pub(super) struct WithViews<'a> {
    pub(super) state: &'a SessionState,
    pub(super) tables: &'a dyn TableSources,
    pub(super) planned: &'a PlannedViews,
}

/// The views that a statement mentions, itself or through others, each planned once: a relation is looked up several times, and a
/// view over a view would be planned as often for each of its levels. Those that are being planned have no plan yet.
#[derive(Default)]
pub(super) struct PlannedViews(RefCell<Vec<MentionedView>>);

type MentionedView = (Arc<View>, Option<Arc<ViewSource>>);

impl PlannedViews {
    fn find(&self, view: &Arc<View>) -> Option<Option<Arc<ViewSource>>> {
        let planned = self.0.borrow();
        planned.iter().find(|(known, _)| Arc::ptr_eq(known, view)).map(|(_, source)| source.clone())
    }

    /// Plans a view, which counts as being planned meanwhile.
    fn plan(
        &self,
        view: &ViewSource,
        plan: impl FnOnce() -> datafusion::error::Result<LogicalPlan>,
    ) -> Result<Arc<ViewSource>> {
        self.0.borrow_mut().push((view.view.clone(), None));
        let bound = plan().map(|plan| Arc::new(view.bound(plan)));
        let mut planned = self.0.borrow_mut();
        planned.retain(|(known, _)| !Arc::ptr_eq(known, &view.view));
        let bound = bound.map_err(from_datafusion)?;
        planned.push((view.view.clone(), Some(bound.clone())));
        Ok(bound)
    }
}

impl TableSources for WithViews<'_> {
    fn source(&self, schema: Option<&str>, name: &str) -> Result<Arc<dyn TableSource>> {
        let source = self.tables.source(schema, name)?;
        let Some(view) = source.downcast_ref::<ViewSource>() else { return Ok(source) };
        match self.planned.find(&view.view) {
            Some(Some(planned)) => Ok(planned),
            // No view reads itself: a query of its own WITH has its name.
            Some(None) => Ok(source),
            None => Ok(self.planned.plan(view, || self.plan(view))?),
        }
    }

    fn schema_of(&self, name: &str) -> Option<String> {
        self.tables.schema_of(name)
    }

    fn number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        self.tables.number(schema, name)
    }

    fn table_number(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        self.tables.table_number(schema, name)
    }

    fn function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.tables.function(name)
    }
}

impl WithViews<'_> {
    /// What the view stands for: its query, with its own names for the columns.
    fn plan(&self, source: &ViewSource) -> datafusion::error::Result<LogicalPlan> {
        let ViewSource { view, catalog, oids, live, .. } = source;
        let tables = CatalogSources::new(catalog.clone(), oids.clone(), live.clone());
        let tables = WithViews { state: self.state, tables: &tables, planned: self.planned };
        let query = view_text::current_query(view, catalog)
            .and_then(|query| spelling::respelled(&Statement::Query(Box::new(query))))
            .map_err(external)?;
        let query =
            counted_rows::written_out(same_names::told_apart(query, &tables), &tables).map_err(external)?;
        let query = wildcard::written_out(query, &tables);
        let query = merging::with_conditions(query, &tables);
        let (query, _) = untyped::with_types(
            &spelling::with_calls(&duplicate::unique_names(&query, &tables)).map_err(external)?,
            &[],
        )
        .map_err(external)?;
        let plan = planner::relational(self.state, &tables, &query, &[])?;
        let fields = plan.schema().columns();
        if fields.len() != view.columns.len() {
            let message =
                format!("the relations of view \"{}\" have other columns than when it was made", view.name);
            return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
        }
        let named = fields.into_iter().zip(&view.columns);
        let named = named.map(|(field, column)| Expr::Column(field).alias(column.name.as_str()));
        LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()
    }
}
