//! What goes on, as rows: `pg_stat_activity`, `pg_locks` and their like, and the functions beside them.
//!
//! Each session is looked at for itself, one after the other: no two rows need to be of the same moment. What is not known is NULL.

use super::objects::{DATABASE_OID, OWNER_OID};
use super::{Datum, NULL, Rows, SystemCatalog, row};
use crate::activity::{Activity, Live, Shown, State};
use crate::advisory::{Hold, LockKey};
use crate::name::DATABASE;
use ankerdb_engine::{Result, RowId, TableId, Value, Wait, WaitsFor};
use ankerdb_value::ZoneRules;
use std::collections::HashMap;
use std::sync::Arc;

/// What a session does, in PostgreSQL's words.
fn state_name(state: State) -> &'static str {
    match state {
        State::Active => "active",
        State::Idle => "idle",
        State::InTransaction => "idle in transaction",
        State::Failed => "idle in transaction (aborted)",
    }
}

/// What a session sleeps for: the kind of event, and the event.
fn wait_event(session: &Activity, state: State) -> Option<(&'static str, &'static str)> {
    if state != State::Active {
        return Some(("Client", "ClientRead"));
    }
    session.interrupt.waited_for().map(|what| match what {
        WaitsFor::Row => ("Lock", "transactionid"),
        WaitsFor::Table => ("Lock", "relation"),
        WaitsFor::Agreement => ("Lock", "advisory"),
        WaitsFor::Time => ("Timeout", "PgSleep"),
        WaitsFor::Client => ("Client", "ClientRead"),
        WaitsFor::Reader => ("Client", "ClientWrite"),
    })
}

pub(super) fn activity(catalog: &SystemCatalog) -> Rows {
    let holders = Transactions::of(&catalog.live);
    let shown = |session: &Arc<Activity>| {
        let joined = session.joined()?;
        let Shown { state, query, application, query_start, transaction_start, state_change } =
            session.shown();
        let (kind, event) = wait_event(session, state).unzip();
        let moment = |moment: Option<i64>| moment.map_or(NULL, Datum::Moment);
        let client = joined.peer.client;
        Some(row![
            DATABASE_OID,
            DATABASE,
            joined.number,
            NULL,
            OWNER_OID,
            joined.peer.user.as_str(),
            &*application,
            client.map(|client| client.ip().to_string()),
            NULL,
            // As PostgreSQL tells connections within the machine.
            client.map_or(-1, |client| i64::from(client.port())),
            Datum::Moment(joined.since),
            moment(transaction_start),
            moment(query_start),
            moment(state_change),
            kind,
            event,
            state_name(state),
            holders.held_by(session),
            NULL,
            NULL,
            query.as_deref().unwrap_or_default(),
            "client backend",
        ])
    };
    catalog.live.activities.all().iter().filter_map(shown).collect()
}

/// The transactions that hold rows or wait for them.
struct Transactions {
    /// The transaction's number, and the number of a table in which it holds rows.
    held: Vec<(u64, u32)>,
    waits: Vec<Wait>,
}

impl Transactions {
    fn of(live: &Live) -> Transactions {
        let held = live.database.row_holders().into_iter().map(|(owner, table)| (owner.0, table)).collect();
        Transactions { held, waits: live.database.row_waits() }
    }

    /// The number of the session's transaction, if it holds rows.
    fn held_by(&self, session: &Activity) -> Option<i64> {
        let number = session.interrupt.holds_as()?;
        let holds = self.held.binary_search_by_key(&number, |(owner, _)| *owner).is_ok();
        holds.then_some(number as i64)
    }

    /// What the session's transaction waits for.
    fn wait_of(&self, session: &Activity) -> Option<&Wait> {
        let number = session.interrupt.holds_as()?;
        self.waits.iter().find(|wait| wait.waiter.0 == number)
    }
}

/// A row of `pg_locks` that is filled step by step.
#[derive(Default)]
struct Lock {
    kind: &'static str,
    is_of_database: bool,
    relation: Option<u32>,
    page: Option<usize>,
    tuple: Option<usize>,
    virtual_transaction: Option<String>,
    transaction: Option<i64>,
    class: Option<u32>,
    object: Option<u32>,
    part: Option<i64>,
    mode: &'static str,
    is_waiting: bool,
}

impl Lock {
    fn row(self, virtual_transaction: &str, pid: i32) -> Vec<Datum> {
        row![
            self.kind,
            self.is_of_database.then_some(DATABASE_OID),
            self.relation,
            self.page,
            self.tuple,
            self.virtual_transaction,
            self.transaction,
            self.class,
            self.object,
            self.part,
            virtual_transaction,
            pid,
            self.mode,
            !self.is_waiting,
            false,
            NULL,
        ]
    }
}

pub(super) fn locks(catalog: &SystemCatalog) -> Rows {
    let live = &catalog.live;
    let transactions = Transactions::of(live);
    let tables = catalog.tables.iter().filter_map(|entry| Some((entry.table()?.id().number(), entry.oid)));
    let tables: HashMap<u32, u32> = tables.collect();
    let advisory = live.advisory.all();
    let origins = catalog.tables.iter().filter_map(|entry| Some((entry.table()?.origin(), entry.oid)));
    let (origins, claims): (HashMap<TableId, u32>, _) = (origins.collect(), live.tables.all());
    let mut rows = Rows::new();
    for session in live.activities.all() {
        let pid = session.number();
        let mut locks = row_locks(&session, &transactions, &tables);
        let own = claims.iter().filter(|(owner, ..)| *owner == session.lock_owner);
        locks.extend(own.map(|(_, hold, is_granted)| Lock {
            kind: "relation",
            is_of_database: true,
            relation: origins.get(&hold.table).copied(),
            mode: hold.claim.mode().name(),
            is_waiting: !is_granted,
            ..Lock::default()
        }));
        let own = advisory.iter().filter(|(owner, ..)| *owner == session.lock_owner);
        locks.extend(own.map(|(_, hold, is_granted)| advisory_lock(hold, !is_granted)));
        let shown = format!("{pid}/{}", session.interrupt.holds_as().unwrap_or(0));
        if session.shown().transaction_start.is_some() {
            let virtual_transaction = Some(shown.clone());
            locks.push(Lock {
                kind: "virtualxid",
                virtual_transaction,
                mode: "ExclusiveLock",
                ..Lock::default()
            });
        }
        rows.extend(locks.into_iter().map(|lock| lock.row(&shown, pid)));
    }
    rows
}

/// What the table of row locks knows of a session.
fn row_locks(session: &Activity, transactions: &Transactions, tables: &HashMap<u32, u32>) -> Vec<Lock> {
    let Some(number) = session.interrupt.holds_as() else { return Vec::new() };
    let own = transactions.held.iter().filter(|(owner, _)| *owner == number);
    let mut locks: Vec<Lock> = own
        .map(|(_, table)| Lock {
            kind: "relation",
            is_of_database: true,
            relation: tables.get(table).copied(),
            mode: "RowExclusiveLock",
            ..Lock::default()
        })
        .collect();
    if !locks.is_empty() {
        let transaction = Some(number as i64);
        locks.push(Lock { kind: "transactionid", transaction, mode: "ExclusiveLock", ..Lock::default() });
    }
    if let Some(wait) = transactions.wait_of(session) {
        let row = RowId(wait.row.row);
        locks.push(Lock {
            kind: "tuple",
            is_of_database: true,
            relation: tables.get(&wait.row.table).copied(),
            page: Some(row.block().0),
            tuple: Some(row.offset()),
            mode: "ExclusiveLock",
            ..Lock::default()
        });
        let transaction = wait.holder.map(|holder| holder.0 as i64);
        let (mode, is_waiting) = ("ShareLock", true);
        locks.push(Lock { kind: "transactionid", transaction, mode, is_waiting, ..Lock::default() });
    }
    locks
}

/// The numbers of an advisory lock, as PostgreSQL shows them.
fn advisory_lock(hold: &Hold, is_waiting: bool) -> Lock {
    let (class, object, part) = match hold.key {
        LockKey::One(key) => ((key >> 32) as u32, key as u32, 1),
        LockKey::Pair(one, two) => (one as u32, two as u32, 2),
    };
    Lock {
        kind: "advisory",
        is_of_database: true,
        class: Some(class),
        object: Some(object),
        part: Some(part),
        mode: if hold.is_shared { "ShareLock" } else { "ExclusiveLock" },
        is_waiting,
        ..Lock::default()
    }
}

/// The sessions that the numbered one waits for.
pub(super) fn blocking_pids(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let live = &catalog.live;
    let Some(session) = numbered(live, arguments) else { return Ok(Datum::Integers(Vec::new())) };
    let all = live.activities.all();
    let row = Transactions::of(live).wait_of(&session).and_then(|wait| wait.holder);
    let holds_rows =
        |other: &&Arc<Activity>| row.is_some_and(|row| other.interrupt.holds_as() == Some(row.0));
    let mut owners = live.advisory.blockers(session.lock_owner);
    owners.extend(live.tables.blockers(session.lock_owner));
    let is_agreed = |other: &&Arc<Activity>| owners.contains(&other.lock_owner);
    let blocking = all.iter().filter(|other| holds_rows(other) || is_agreed(other));
    Ok(Datum::Integers(blocking.map(|other| i64::from(other.number())).collect()))
}

fn numbered(live: &Live, arguments: &[Value]) -> Option<Arc<Activity>> {
    match arguments.first() {
        Some(Value::Integer(number)) => live.activities.numbered(*number),
        _ => None,
    }
}

/// One database. What happens to rows is not counted.
pub(super) fn databases(catalog: &SystemCatalog) -> Rows {
    let live = &catalog.live;
    let (commits, aborts) = live.database.transaction_counts();
    let counts = [live.activities.all().len() as i64, commits as i64, aborts as i64];
    let mut row = row![DATABASE_OID, DATABASE];
    row.extend(counts.map(Datum::Integer));
    row.extend(std::iter::repeat_n(NULL, 23));
    vec![row]
}

/// Which connections are encrypted. Clients have no certificates.
pub(super) fn encryption(catalog: &SystemCatalog) -> Rows {
    let all = catalog.live.activities.all();
    let row = |session: &Arc<Activity>| {
        let cipher = session.joined().and_then(|joined| joined.peer.cipher.as_ref());
        let version = cipher.map_or(NULL, |cipher| Datum::from(cipher.version));
        let name = cipher.map_or(NULL, |cipher| Datum::from(cipher.name.as_str()));
        let bits = cipher.map_or(NULL, |cipher| Datum::Integer(i64::from(cipher.bits)));
        row![session.number(), cipher.is_some(), version, name, bits, NULL, NULL, NULL]
    };
    all.iter().map(row).collect()
}

pub(super) fn without_gssapi(catalog: &SystemCatalog) -> Rows {
    let all = catalog.live.activities.all();
    all.iter().map(|session| row![session.number(), false, NULL, false]).collect()
}

pub(super) fn prepared_statements(catalog: &SystemCatalog) -> Rows {
    let Some(session) = &catalog.live.session else { return Rows::new() };
    let own = session.own.lock();
    let row = |statement: &crate::activity::OwnStatement| {
        row![
            statement.name.as_str(),
            &*statement.text,
            Datum::Moment(statement.prepared_at),
            statement.parameters.clone(),
            statement.is_of_sql,
            NULL,
            NULL
        ]
    };
    own.statements.iter().map(row).collect()
}

pub(super) fn cursors(catalog: &SystemCatalog) -> Rows {
    let Some(session) = &catalog.live.session else { return Rows::new() };
    let own = session.own.lock();
    let row = |cursor: &crate::activity::OwnCursor| {
        row![
            cursor.name.as_str(),
            &*cursor.text,
            cursor.holds,
            cursor.is_binary,
            cursor.scrolls,
            Datum::Moment(cursor.declared_at)
        ]
    };
    own.cursors.iter().map(row).collect()
}

pub(super) fn kept_snapshots(catalog: &SystemCatalog) -> Rows {
    let all = catalog.live.snapshots.all();
    let row = |kept: &Arc<crate::kept_snapshots::KeptSnapshot>| {
        row![kept.name.as_str(), Datum::Moment(kept.made_at), kept.snapshot.timestamp().0 as i64]
    };
    all.iter().map(row).collect()
}

/// The session's own number.
pub(super) fn own_pid(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(catalog.live.session.as_ref().map_or(0, |session| session.number()).into())
}

/// The text that the session's client has sent last.
pub(super) fn own_query(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    let shown = catalog.live.session.as_ref().and_then(|session| session.shown().query);
    Ok(shown.as_deref().into())
}

pub(super) fn cancel(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    signal(catalog, arguments, false)
}

pub(super) fn terminate(catalog: &SystemCatalog, arguments: &[Value]) -> Result<Datum> {
    let (Some(session), Some(Value::Integer(number)), Some(Value::BigInt(limit_ms))) =
        (&catalog.live.session, arguments.first(), arguments.get(1))
    else {
        return signal(catalog, arguments, true);
    };
    let ended = crate::activity::terminate_within(session, &catalog.live.activities, *number, *limit_ms);
    ended.map(Datum::Boolean)
}

fn signal(catalog: &SystemCatalog, arguments: &[Value], ends_session: bool) -> Result<Datum> {
    match (&catalog.live.session, arguments.first()) {
        (Some(session), Some(Value::Integer(number))) => {
            crate::activity::signal(session, *number, ends_session).map(Datum::Boolean)
        }
        _ => Ok(Datum::Boolean(false)),
    }
}

/// When the engine was started.
pub(super) fn started(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(Datum::Moment(catalog.live.activities.started()))
}

/// An address of the session's connection.
fn address(catalog: &SystemCatalog, of_client: bool) -> Option<std::net::SocketAddr> {
    let peer = &catalog.live.session.as_ref()?.joined()?.peer;
    if of_client { peer.client } else { peer.server }
}

pub(super) fn client_address(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(address(catalog, true).map(|address| address.ip().to_string()).into())
}

pub(super) fn client_port(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(address(catalog, true).map(|address| i64::from(address.port())).into())
}

pub(super) fn server_address(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(address(catalog, false).map(|address| address.ip().to_string()).into())
}

pub(super) fn server_port(catalog: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(address(catalog, false).map(|address| i64::from(address.port())).into())
}

/// The time zones that there are, with what their clocks show now.
pub(super) fn time_zones(_: &SystemCatalog) -> Rows {
    let now = crate::activity::now();
    let row = |place: &crate::expression::zone::Rules| {
        let east = place.east(now).map_or(NULL, Datum::Span);
        row![place.name(), place.abbreviation(now), east, place.is_summer(now)]
    };
    crate::expression::zone::places().map(row).collect()
}
