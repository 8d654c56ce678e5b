//! DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor ends with its transaction, or with the savepoint after which it was declared. One WITH HOLD reads everything that is left
//! of its rows when its transaction commits, and stays until it is closed.

use super::{SqlSession, check_count};
use crate::activity::{OwnCursor, now};
use crate::command::{Declaration, Fetch, Motion, Scroll};
use crate::cursor::{CursorRows, Walk};
use crate::name::quoted;
use crate::plan::{PlanKind, QueryPlan};
use crate::prepared::Prepared;
use crate::{CancelHandle, Outcome, OutputColumn, ResultRows};
use ankerdb_engine::{Claim, Error, Result, SqlState, Value};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A session's cursors.
#[derive(Default)]
pub(super) struct Cursors {
    open: HashMap<String, Cursor>,
    /// Names of the protocol's portals, which no cursor may have.
    portals: HashSet<String>,
    /// The number of the next cursor.
    next: u64,
}

impl Cursors {
    /// What others see of them.
    pub(super) fn shown(&self) -> Vec<OwnCursor> {
        let shown = |(name, cursor): (&String, &Cursor)| OwnCursor {
            name: name.clone(),
            text: cursor.text.clone(),
            holds: cursor.holds,
            is_binary: cursor.is_binary,
            scrolls: cursor.scrolls,
            declared_at: cursor.declared_at,
        };
        self.open.iter().map(shown).collect()
    }

    /// Cursors that are declared from now on have this number or a higher one.
    pub(super) fn mark(&self) -> u64 {
        self.next
    }
}

pub(super) struct Cursor {
    pub(super) columns: Arc<[OutputColumn]>,
    rows: Arc<Mutex<CursorRows>>,
    /// The text of DECLARE, and when it ran.
    text: Arc<str>,
    declared_at: i64,
    scrolls: bool,
    number: u64,
    holds: bool,
    /// Whether its transaction has committed.
    is_held: bool,
    is_binary: bool,
}

/// What is said of a cursor when it is opened.
struct Opened<'a> {
    name: &'a str,
    scroll: Scroll,
    holds: bool,
    is_binary: bool,
}

impl SqlSession {
    /// 34000 if there is none.
    pub(super) fn cursor(&self, name: &str) -> Result<&Cursor> {
        self.cursors.open.get(name).ok_or_else(|| {
            Error::new(SqlState::InvalidCursorName, format!("cursor {} does not exist", quoted(name)))
        })
    }

    pub(super) fn declare(
        &mut self,
        declaration: &Declaration,
        query: &Prepared,
        parameters: &[Value],
    ) -> Result<()> {
        if !declaration.holds && !self.block.is_open() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(Error::new(SqlState::NoActiveSqlTransaction, message));
        }
        let Declaration { scroll, holds, is_binary, .. } = *declaration;
        self.open_cursor(&Opened { name: &declaration.name, scroll, holds, is_binary }, query, parameters)
    }

    fn open_cursor(&mut self, opened: &Opened<'_>, query: &Prepared, parameters: &[Value]) -> Result<()> {
        self.check_cursor_name(opened.name)?;
        self.check_room()?;
        let rows = match query.calls_session() {
            true => self.calling_session(|session| session.open_query(query, parameters))?,
            false => self.open_query(query, parameters)?,
        };
        let limit = self.runner.engine.database().memory_limit();
        let mut cursor = CursorRows::new(rows, opened.scroll, limit);
        let is_held = !self.block.is_open();
        if is_held {
            // Its transaction ends here.
            cursor.read_all(&self.runner.cancel)?;
        }
        let number = self.cursors.next;
        self.cursors.next += 1;
        let Opened { name, scroll, holds, is_binary } = *opened;
        let columns = query.output().unwrap_or_default().into();
        let cursor = Cursor {
            columns,
            rows: Arc::new(Mutex::new(cursor)),
            text: query.text().clone(),
            declared_at: now(),
            scrolls: scroll != Scroll::Never,
            number,
            holds,
            is_held,
            is_binary,
        };
        self.cursors.open.insert(name.to_owned(), cursor);
        Ok(())
    }

    /// The rows of a query that goes on after this statement.
    fn open_query(&mut self, query: &Prepared, parameters: &[Value]) -> Result<ResultRows> {
        self.as_of(query, |session| session.open_as_written(query, parameters))
    }

    #[inline(never)]
    fn open_as_written(&mut self, query: &Prepared, parameters: &[Value]) -> Result<ResultRows> {
        let mut planned = query.current(&self.runner)?;
        while self.use_tables(&planned.locks)? {
            self.catch_up()?;
            planned = query.current(&self.runner)?;
        }
        self.check_as_of(query, &planned)?;
        if let Some(command) = planned.kind.writes() {
            self.check_writable(command)?;
        }
        if let PlanKind::Lookup(plan) = &planned.kind {
            match self.lookup(&planned, plan, parameters)? {
                Some(Outcome::Rows(rows)) => return Ok(rows),
                Some(_) => return Err(Error::internal("a query without rows")),
                None => {
                    query.plan_without_lookups(&self.runner)?;
                    planned = query.current(&self.runner)?;
                }
            }
        }
        let outcome = match &planned.kind {
            PlanKind::Query(QueryPlan::Select(plan)) => self.select(&planned, plan, parameters)?,
            PlanKind::Query(QueryPlan::Analytical(plan)) => {
                self.analytical_until(plan, planned.version, parameters, CancelHandle::default())?
            }
            _ => return Err(crate::name::not_supported("a cursor over such a query")),
        };
        match outcome {
            Outcome::Rows(rows) => Ok(rows),
            _ => Err(Error::internal("a query without rows")),
        }
    }

    pub(super) fn fetch(&mut self, fetch: &Fetch, promised: Option<&[OutputColumn]>) -> Result<Outcome> {
        let cursor = self.cursor(&fetch.cursor)?;
        if !fetch.is_move && promised != Some(&*cursor.columns) {
            return Err(Error::new(SqlState::FeatureNotSupported, "cached plan must not change result type"));
        }
        let mut walk = Walk::begin(&cursor.rows, &fetch.cursor, fetch.motion, self.runner.cancel.clone())?;
        if fetch.is_move {
            return Ok(Outcome::Command(format!("MOVE {}", walk.pass()?)));
        }
        let pull = Box::new(move || walk.next_batch());
        Ok(Outcome::Rows(ResultRows::fetched(cursor.columns.clone(), cursor.is_binary, pull)))
    }

    /// Opens a portal that has a name: it is a cursor, which FETCH, MOVE and CLOSE find, before it is executed, too. Costs what DECLARE does.
    ///
    /// False, and nothing has been done, if the statement is no query, or outside of a transaction, where nothing comes between.
    ///
    /// # Errors
    /// Those of the query.
    pub fn open_portal(&mut self, name: &str, query: &Arc<Prepared>, parameters: &[Value]) -> Result<bool> {
        if !self.block.is_open() || !query.is_query(&self.runner)? {
            return Ok(false);
        }
        self.execute_by(query, |session| {
            session.check_usable(query)?;
            check_count(query, parameters)?;
            session.release_portal(name);
            let plain = Opened { name, scroll: Scroll::Never, holds: false, is_binary: false };
            session.open_cursor(&plain, query, parameters)?;
            Ok(Outcome::Command(String::new()))
        })?;
        Ok(true)
    }

    /// The next rows of a portal that [`open_portal`](Self::open_portal) has opened, at most `limit`.
    ///
    /// # Errors
    /// Those of the query; 34000 if the cursor has been closed.
    pub fn fetch_portal(&mut self, name: &str, query: &Arc<Prepared>, limit: u64) -> Result<ResultRows> {
        let outcome = self.execute_by(query, |session| {
            session.check_usable(query)?;
            let (cursor, motion) = (name.to_owned(), Motion::Forward(limit));
            session.fetch(&Fetch { cursor, motion, is_move: false }, query.output())
        })?;
        match outcome {
            Outcome::Rows(rows) => Ok(rows.of_select()),
            _ => Err(Error::internal("a cursor without rows")),
        }
    }

    /// The columns of the cursor, and whether its values are asked for in binary form. `None` if there is none.
    pub fn cursor_output(&self, name: &str) -> Option<(Arc<[OutputColumn]>, bool)> {
        self.cursors.open.get(name).map(|cursor| (cursor.columns.clone(), cursor.is_binary))
    }

    /// Closes a cursor; whether there was one.
    pub fn close_cursor(&mut self, name: &str) -> bool {
        self.cursors.open.remove(name).is_some()
    }

    pub(super) fn close_cursors(&mut self) {
        self.cursors.open.clear();
    }

    /// Whether a cursor or portal may have this name.
    fn check_cursor_name(&self, name: &str) -> Result<()> {
        if self.cursors.open.contains_key(name) || self.cursors.portals.contains(name) {
            let message = format!("cursor {} already exists", quoted(name));
            return Err(Error::new(SqlState::DuplicateCursor, message));
        }
        Ok(())
    }

    /// Gives a portal of the protocol a name, which it keeps until [`release_portal`](Self::release_portal).
    ///
    /// # Errors
    /// `DuplicateCursor` if a cursor or another portal has it, and `OutOfMemory`: the client decides how many there are.
    pub fn name_portal(&mut self, name: &str) -> Result<()> {
        self.check_cursor_name(name)?;
        self.check_room()?;
        self.cursors.portals.insert(name.to_owned());
        Ok(())
    }

    /// Forgets the name of a portal.
    pub fn release_portal(&mut self, name: &str) {
        self.cursors.portals.remove(name);
    }

    /// Whether a session may keep one more statement or cursor.
    pub(super) fn check_room(&self) -> Result<()> {
        self.runner.engine.database().memory_limit().check(Claim::Write, 0)
    }

    /// Before a commit: cursors WITH HOLD read what is left.
    pub(super) fn hold_cursors(&mut self) -> Result<()> {
        let waiting = self.cursors.open.values().filter(|cursor| cursor.holds && !cursor.is_held);
        for cursor in waiting {
            cursor.rows.lock().read_all(&self.runner.cancel)?;
        }
        Ok(())
    }

    /// The transaction has ended, and its cursors with it.
    pub(super) fn end_cursors(&mut self, is_committed: bool) {
        self.cursors.open.retain(|_, cursor| {
            cursor.is_held |= is_committed && cursor.holds;
            cursor.is_held
        });
    }

    /// Goes back to a savepoint, after which cursors of this number and later ones were declared.
    pub(super) fn end_cursors_since(&mut self, mark: u64) {
        self.cursors.open.retain(|_, cursor| cursor.is_held || cursor.number < mark);
    }
}
