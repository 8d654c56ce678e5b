//! The node of a plan whose rows calls give.

use crate::expression::library::Builtin;
use crate::olap::computed::InZone;
use ankerdb_engine::DataType;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// What gives the rows of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SetFunction {
    /// Not known before types are settled.
    Written(String),
    /// One of the library, and the type of what it gives.
    Library(Builtin, DataType),
    /// The items of a list.
    Items,
    /// The positions of a list's items, of which the first has this one.
    Subscripts(i32),
    /// The numbers of the rows.
    Ordinality,
}

/// A call, and the column that has what it gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetCall {
    pub(crate) function: SetFunction,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) field: FieldRef,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SetRows {
    pub(crate) input: LogicalPlan,
    pub(crate) calls: Vec<SetCall>,
    /// Whether a row of the input for which the calls give none stays, with NULLs.
    pub(crate) keeps_all: bool,
    /// The time zone that it was planned for, in which days of a series begin.
    pub(crate) zone: InZone,
    schema: DFSchemaRef,
}

impl SetRows {
    pub(crate) fn new(input: LogicalPlan, calls: Vec<SetCall>, keeps_all: bool) -> Result<SetRows> {
        let own = calls.iter().map(|call| (None, call.field.clone()));
        let fields = input.schema().iter().map(|(table, field)| (table.cloned(), field.clone())).chain(own);
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(SetRows { input, calls, keeps_all, zone: InZone::current(), schema: Arc::new(schema) })
    }

    /// The node of a plan, if it is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&SetRows> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

/// Plans are ordered for nothing but telling them apart.
impl PartialOrd for SetRows {
    fn partial_cmp(&self, other: &SetRows) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for SetRows {
    fn name(&self) -> &str {
        "SetRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.calls.iter().flat_map(|call| call.arguments.iter().cloned()).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.calls.iter().map(|call| call.field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<&str> =
            self.calls.iter().map(|call| super::super::names::visible(call.field.name())).collect();
        write!(f, "SetRows: {}", names.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<SetRows> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return internal_err!("rows of calls have one input");
        };
        let mut given = exprs.into_iter();
        let calls = self.calls.iter().map(|call| {
            let arguments: Vec<Expr> = given.by_ref().take(call.arguments.len()).collect();
            SetCall { arguments, ..call.clone() }
        });
        let rows = SetRows::new(input, calls.collect(), self.keeps_all)?;
        Ok(SetRows { zone: self.zone, ..rows })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|column| *column < width).collect()])
    }
}
