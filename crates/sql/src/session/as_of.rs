//! Kept snapshots: CREATE and DROP SNAPSHOT, and statements that are read AS OF one (docs/design/time-travel.md).
//!
//! Such a statement runs in a transaction of its own which reads the snapshot, in the place of the session's: a query of either path
//! finds it where it always looks. It reads the definitions of now, so everything that it names has to be what it was.

use super::SqlSession;
use super::notice::Severity;
use crate::activity::now;
use crate::as_of::AsOf;
use crate::kept_snapshots::{DefinitionsThen, KeptSnapshot, no_snapshot};
use crate::name::{not_supported, object_name, quoted};
use crate::olap::OlapPlan;
use crate::plan::{PlanKind, Planned, QueryPlan};
use crate::prepared::Prepared;
use crate::runner::Runner;
use crate::visit::walk;
use ankerdb_engine::{Catalog, DataType, Error, NameRef, Result, SqlState, Table, Transaction, Value, View};
use ankerdb_value::cast;
use datafusion::sql::sqlparser::ast::{ObjectName, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

impl SqlSession {
    /// CREATE SNAPSHOT.
    pub(super) fn create_snapshot(&mut self, name: &str) -> Result<()> {
        self.prepare_alone("CREATE SNAPSHOT")?;
        self.check_room()?;
        let engine = &self.runner.engine;
        let database = engine.database();
        engine.snapshots().check(name)?;
        let (catalog, snapshot) = loop {
            let (catalog, snapshot) = (database.catalog(), database.snapshot());
            if database.catalog_version() == catalog.version() {
                break (catalog, snapshot);
            }
        };
        // What it shows may be told to clients, so no crash may undo it. The clock is read last: all of it was visible by then.
        database.wait_until_durable(snapshot.timestamp())?;
        let (name, made_at) = (name.to_owned(), now());
        let definitions = DefinitionsThen::of(&catalog);
        engine.snapshots().keep(KeptSnapshot { name, made_at, snapshot, definitions })
    }

    /// DROP SNAPSHOT.
    pub(super) fn drop_snapshot(&mut self, name: &str, if_exists: bool) -> Result<()> {
        self.prepare_alone("DROP SNAPSHOT")?;
        if self.runner.engine.snapshots().forget(name) {
            return Ok(());
        }
        if !if_exists {
            return Err(no_snapshot(name));
        }
        let message = format!("snapshot {} does not exist, skipping", quoted(name));
        self.tell(Severity::Notice, Error::new(SqlState::SuccessfulCompletion, message));
        Ok(())
    }

    /// Runs a statement as of the moment that it names, or of now.
    pub(super) fn as_of<T>(
        &mut self,
        prepared: &Prepared,
        run: impl FnOnce(&mut SqlSession) -> Result<T>,
    ) -> Result<T> {
        let Some((kept, transaction)) = self.begin_as_of(prepared)? else { return run(self) };
        let outer = self.enter_as_of(transaction, kept.clone());
        let done = run(self);
        self.leave_as_of(outer);
        done.map_err(|error| told_of_index(error, prepared, &kept, &self.runner))
    }

    /// Whether the statement that runs may read what its plan names, if it is read as of a moment.
    pub(super) fn check_as_of(&self, prepared: &Prepared, planned: &Planned) -> Result<()> {
        match self.block.as_of() {
            None => Ok(()),
            Some(kept) => check_unchanged(kept, prepared, planned, &self.runner),
        }
    }

    /// The snapshot that a statement names, and a transaction that reads it; `None` if it names none.
    ///
    /// # Errors
    /// Those of names and times; `FeatureNotSupported` where the statement calls functions of the session.
    pub(super) fn begin_as_of(
        &mut self,
        prepared: &Prepared,
    ) -> Result<Option<(Arc<KeptSnapshot>, Transaction)>> {
        let Some(as_of) = &prepared.statement().as_of else { return Ok(None) };
        // What they lock, set and say belongs to the session's own transaction.
        if prepared.calls_session() {
            return Err(calls_session());
        }
        let snapshots = self.runner.engine.snapshots();
        let kept = match &**as_of {
            AsOf::Snapshot(name) => snapshots.named(name)?,
            AsOf::Moment(text) => match cast(Value::text(text.as_str()), DataType::TIMESTAMPTZ)? {
                Value::TimestampTz(moment) => snapshots.as_of(moment, now())?,
                _ => return Err(Error::internal("a time is no time")),
            },
        };
        let mut transaction = self.session.begin_at(&kept.snapshot)?;
        self.limits().set_on(&mut transaction);
        Ok(Some((kept, transaction)))
    }
}

/// Whether what a statement reads is what it was when the snapshot was kept.
///
/// # Errors
/// `UndefinedTable` for a relation that is newer, or where the catalog has changed since the plan was made; `ObjectNotInPrerequisiteState` for
/// one that has been changed; `FeatureNotSupported` for the system catalog and for sequences, which are never as of a moment.
pub(super) fn check_unchanged(
    kept: &KeptSnapshot,
    prepared: &Prepared,
    planned: &Planned,
    runner: &Runner,
) -> Result<()> {
    let catalog = runner.catalog();
    if catalog.version() != planned.version {
        return Err(Error::new(SqlState::UndefinedTable, "a relation of the statement was redefined"));
    }
    if asks(&planned.kind, OlapPlan::reads_system) {
        return Err(not_supported("AS OF a moment for the system catalog and for sequences"));
    }
    // In the text of a view, which the statement's own does not show.
    if asks(&planned.kind, OlapPlan::calls_session) {
        return Err(calls_session());
    }
    let read = RelationsRead::of(prepared, &catalog);
    read.tables.iter().try_for_each(|table| check_table(kept, &catalog, table))?;
    read.views.iter().try_for_each(|view| check_view(kept, view))
}

/// Whether this holds for a query of the OLAP path in the plan.
fn asks(kind: &PlanKind, holds: fn(&OlapPlan) -> bool) -> bool {
    let analytical = |query: &QueryPlan| matches!(query, QueryPlan::Analytical(plan) if holds(plan));
    match kind {
        PlanKind::Query(QueryPlan::Select(plan)) => plan.subqueries.iter().any(analytical),
        PlanKind::Query(query) => analytical(query),
        PlanKind::Explain(plan) => asks(&plan.explained.kind, holds),
        _ => false,
    }
}

fn calls_session() -> Error {
    not_supported("AS OF a moment in a statement that calls functions of the session")
}

fn check_table(kept: &KeptSnapshot, catalog: &Catalog, table: &Table) -> Result<()> {
    let Some((identity, was)) = kept.definitions.table(table) else {
        return Err(is_newer(kept, table.name()));
    };
    let is = table.definition();
    let is_same = *identity == table.id()
        && (was.schema, &was.name, &was.columns) == (is.schema, &is.name, &is.columns)
        && (&was.checks, &was.foreign_keys) == (&is.checks, &is.foreign_keys);
    // What the planner takes to be unique has to have been so.
    let has_new_key = || {
        let mut keys = catalog.usable_indexes(table).filter(|(_, index)| index.definition().unique);
        keys.any(|(_, index)| index.valid_from() > kept.snapshot.timestamp())
    };
    if is_same && !has_new_key() { Ok(()) } else { Err(is_changed(kept, "table", table.name())) }
}

fn check_view(kept: &KeptSnapshot, view: &View) -> Result<()> {
    match kept.definitions.view(view) {
        Some(then) if **then == *view => Ok(()),
        Some(_) => Err(is_changed(kept, "view", &view.name)),
        None => Err(is_newer(kept, &view.name)),
    }
}

fn is_newer(kept: &KeptSnapshot, relation: &str) -> Error {
    let message = format!("relation {} is newer than snapshot {}", quoted(relation), quoted(&kept.name));
    Error::new(SqlState::UndefinedTable, message)
}

fn is_changed(kept: &KeptSnapshot, kind: &str, name: &str) -> Error {
    let message =
        format!("{kind} {} has been altered since snapshot {} was created", quoted(name), quoted(&kept.name));
    Error::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_detail("A snapshot keeps rows, and is read by the definitions of now.")
}

/// The error, which names the index if the statement would use one that has been made since: that has not the entries of then.
#[cold]
pub(super) fn told_of_index(
    error: Error,
    prepared: &Prepared,
    kept: &KeptSnapshot,
    runner: &Runner,
) -> Error {
    if error.state() != SqlState::SerializationFailure {
        return error;
    }
    let catalog = runner.catalog();
    let read = RelationsRead::of(prepared, &catalog);
    for table in &read.tables {
        let newer =
            |(_, index): &(_, &Arc<ankerdb_engine::Index>)| index.valid_from() > kept.snapshot.timestamp();
        if let Some((_, index)) = catalog.usable_indexes(table).find(newer) {
            let (index, name) = (quoted(&index.definition().name), quoted(&kept.name));
            let message = format!("index {index} is newer than snapshot {name}");
            return Error::new(SqlState::ObjectNotInPrerequisiteState, message);
        }
    }
    error
}

/// The tables and views that a statement names, and those that views read.
struct RelationsRead<'a> {
    catalog: &'a Catalog,
    tables: Vec<Arc<Table>>,
    views: Vec<Arc<View>>,
}

impl RelationsRead<'_> {
    fn of<'a>(prepared: &Prepared, catalog: &'a Catalog) -> RelationsRead<'a> {
        let mut read = RelationsRead { catalog, tables: Vec::new(), views: Vec::new() };
        if let Some(ast) = prepared.ast() {
            let ControlFlow::Continue(()) = walk(ast, &mut read);
        }
        read
    }

    fn add(&mut self, name: NameRef<'_>) {
        if let Ok(table) = self.catalog.table(name) {
            self.tables.push(table);
        } else if let Some(view) = self.catalog.view(name).cloned() {
            if self.views.iter().any(|known| known.full_name() == view.full_name()) {
                return;
            }
            self.views.push(view.clone());
            view.names_read().for_each(|read| self.add((&read).into()));
        }
    }
}

impl Visitor for RelationsRead<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Self::Break> {
        if let Ok(name) = object_name(relation) {
            self.add((&name).into());
        }
        ControlFlow::Continue(())
    }
}
