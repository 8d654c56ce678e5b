//! A view as a relation of a plan.

use super::scan::field;
use super::value::with_type;
use crate::activity::Live;
use crate::system::oids::Oids;
use ankerdb_engine::{Catalog, ColumnDefinition, View};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::logical_expr::{LogicalPlan, TableSource};
use std::borrow::Cow;
use std::sync::Arc;

/// A view as a relation. Without a plan it only tells its columns.
pub(crate) struct ViewSource {
    pub(super) view: Arc<View>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) oids: Arc<Oids>,
    pub(super) live: Live,
    schema: SchemaRef,
    plan: Option<LogicalPlan>,
}

impl ViewSource {
    /// A view of a catalog, not yet bound.
    pub(crate) fn new(view: Arc<View>, catalog: Arc<Catalog>, oids: Arc<Oids>, live: Live) -> ViewSource {
        let told = |column: &ColumnDefinition| column.data_type.without_item_limit();
        let fields = view.columns.iter().map(|column| with_type(field(column), told(column)));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        ViewSource { view, catalog, oids, live, schema, plan: None }
    }

    /// The view with what it stands for.
    pub(super) fn bound(&self, plan: LogicalPlan) -> ViewSource {
        let (view, catalog, oids) = (self.view.clone(), self.catalog.clone(), self.oids.clone());
        let (live, schema) = (self.live.clone(), self.schema.clone());
        ViewSource { view, catalog, oids, live, schema, plan: Some(plan) }
    }
}

impl TableSource for ViewSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.plan.as_ref().map(Cow::Borrowed)
    }
}
