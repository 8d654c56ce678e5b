//! PostgreSQL's views for people: `pg_tables`, `pg_indexes`, statistics of tables.

use super::classes::size;
use super::constraints::index_definition;
use super::definition::{DefinitionStyle, view_text};
use super::objects::OWNER;
use super::{Datum, NULL, Rows, SystemCatalog, relations, row};
use ankerdb_engine::{Database, SharedSnapshot, View};
use std::time::{Duration, UNIX_EPOCH};

pub(super) fn tables(catalog: &SystemCatalog) -> Rows {
    let own = catalog.tables.iter().filter(|table| table.materialized.is_none()).map(|table| {
        row![
            &*table.schema.name,
            table.name.as_str(),
            OWNER,
            NULL,
            !table.indexes.is_empty(),
            false,
            false,
            false
        ]
    });
    let system = relations().iter().filter(|relation| !relation.definition.is_view);
    own.chain(
        system
            .map(|relation| row![relation.schema, relation.name(), OWNER, NULL, false, false, false, false]),
    )
    .collect()
}

pub(super) fn indexes(catalog: &SystemCatalog) -> Rows {
    let index = |(table, index): (&super::TableEntry, &super::IndexEntry)| {
        let definition = index_definition(catalog, table, index, false);
        row![&*table.schema.name, table.name.as_str(), index.definition.name.as_str(), NULL, definition]
    };
    catalog.indexes().map(index).collect()
}

/// The text of a view, with all of its parentheses.
pub(super) fn text(catalog: &SystemCatalog, view: &View) -> String {
    view_text(catalog, view, DefinitionStyle::PLAIN)
}

/// The number of `pg_class`, and of `pg_rewrite`.
const CLASS: u32 = 1259;
const RULE: u32 = 2618;

/// All views, materialized ones among them, with the numbers that they have as relations.
fn all_views(catalog: &SystemCatalog) -> impl Iterator<Item = (u32, &View)> {
    let plain = catalog.views.iter().map(|entry| (entry.oid, &*entry.view));
    let materialized =
        catalog.tables.iter().filter_map(|table| Some((table.oid, &table.materialized.as_ref()?.0)));
    plain.chain(materialized)
}

/// What makes a view of a relation is a rule in PostgreSQL. It has the view's own number here.
pub(super) fn rules(catalog: &SystemCatalog) -> Rows {
    all_views(catalog).map(|(oid, _)| row![oid, "_RETURN", oid, "1", "O", true, "<>", NULL]).collect()
}

/// What views read: their rules depend on it, and belong to them.
pub(super) fn dependencies(catalog: &SystemCatalog) -> Rows {
    let mut rows = Vec::new();
    for (oid, view) in all_views(catalog) {
        rows.push(row![RULE, oid, 0, CLASS, oid, 0, "i"]);
        for read in &view.reads {
            let schema = catalog.schema_names.get(&read.schema).map(|name| &**name);
            if let Some(read) = schema.and_then(|schema| catalog.relation_oid(Some(schema), &read.name)) {
                rows.push(row![RULE, oid, 0, CLASS, read, 0, "n"]);
            }
        }
    }
    rows
}

pub(super) fn views(catalog: &SystemCatalog) -> Rows {
    let view = |entry: &super::ViewEntry| {
        row![&*entry.schema.name, entry.view.name.as_str(), OWNER, text(catalog, &entry.view)]
    };
    catalog.views.iter().map(view).collect()
}

pub(super) fn materialized_views(catalog: &SystemCatalog) -> Rows {
    let view = |table: &super::TableEntry| {
        let (view, is_populated) = table.materialized.as_ref()?;
        let has_indexes = !table.indexes.is_empty();
        let (schema, name) = (&*table.schema.name, table.name.as_str());
        Some(row![schema, name, OWNER, NULL, has_indexes, *is_populated, text(catalog, view)])
    };
    catalog.tables.iter().filter_map(view).collect()
}

/// How many rows tables have. What AnKerDB does not count is NULL.
pub(super) fn table_statistics(catalog: &SystemCatalog) -> Rows {
    let table = |table: &super::TableEntry| {
        let mut row = row![table.oid, &*table.schema.name, table.name.as_str()];
        row.extend(std::iter::repeat_n(NULL, 8));
        row.push(size(table).0.into());
        row.extend(std::iter::repeat_n(NULL, 11));
        row
    };
    catalog.tables.iter().map(table).collect()
}

/// What was read of tables. Nothing is read of disks, and reads of memory are not counted, which is NULL.
pub(super) fn table_reads(catalog: &SystemCatalog) -> Rows {
    let table = |table: &super::TableEntry| {
        let mut row = row![table.oid, &*table.schema.name, table.name.as_str()];
        row.extend(std::iter::repeat_n(NULL, 8));
        row
    };
    catalog.tables.iter().map(table).collect()
}

/// What the memory of each table goes to.
pub(super) fn table_memory(catalog: &SystemCatalog) -> Rows {
    let shown = |entry: &super::TableEntry| {
        let table = entry.table()?;
        let used = Database::table_memory(&table);
        let mut row = row![entry.oid, &*entry.schema.name, entry.name.as_str()];
        let counts = [
            used.rows,
            used.blocks,
            used.cell_bytes,
            used.text_bytes,
            used.header_bytes,
            used.version_bytes,
            used.index_entries,
            used.index_bytes,
            used.total_bytes(),
        ];
        row.extend(counts.map(wide));
        Some(row)
    };
    catalog.tables.iter().filter_map(shown).collect()
}

/// What the process has taken, and how much of it is that of tables.
pub(super) fn process_memory(catalog: &SystemCatalog) -> Rows {
    let tables = catalog.tables.iter().filter_map(super::TableEntry::table);
    let table_bytes = tables.map(|table| Database::table_memory(&table).total_bytes()).sum();
    let (used, resident, limit) = catalog.live.database.process_memory();
    let known = |bytes: Option<usize>| bytes.map_or(NULL, wide);
    vec![vec![wide(table_bytes), wide(used), known(resident), known(limit)]]
}

/// The snapshots that queries with `ankerdb.max_staleness` shared, the newest last.
pub(super) fn shared_snapshots(catalog: &SystemCatalog) -> Rows {
    let shown = |snapshot: SharedSnapshot| {
        let taken = snapshot.taken_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut row = row![
            snapshot.timestamp.0 as i64,
            Datum::Moment(i64::try_from(taken.as_micros()).unwrap_or(i64::MAX)),
            snapshot.because.name()
        ];
        row.extend([count(snapshot.queries), span(snapshot.oldest_use), count(snapshot.lent)]);
        row.extend([count(snapshot.copied.count), count(snapshot.copied.bytes), span(snapshot.copied.time)]);
        row.extend([count(snapshot.ahead.count), span(snapshot.ahead.time), count(snapshot.ahead_read)]);
        row.extend([count(snapshot.history_bytes), snapshot.is_current.into()]);
        row
    };
    catalog.live.database.snapshot_report().snapshots.into_iter().map(shown).collect()
}

/// What the snapshot manager has decided, and by which measurements.
pub(super) fn snapshot_manager(catalog: &SystemCatalog) -> Rows {
    let report = catalog.live.database.snapshot_report();
    let decisions = report.decisions;
    let mut row = row![report.shares];
    row.extend([decisions.shared, decisions.taken, decisions.probes, decisions.unshared].map(count));
    row.extend([report.copying_shared, report.copying_alone].map(|time| time.map_or(NULL, span)));
    row.extend([decisions.made_ahead, decisions.ahead_paused, decisions.history_full].map(count));
    row.push(report.history_limit.map_or(NULL, wide));
    vec![row]
}

fn count(number: u64) -> Datum {
    Datum::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn span(time: Duration) -> Datum {
    Datum::Span(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// How the database is kept, and what it took to open it; no row for one that is kept in no folder.
pub(super) fn durability(catalog: &SystemCatalog) -> Rows {
    let database = &catalog.live.database;
    let Some(state) = database.durability_state() else { return Vec::new() };
    let recovery = &state.recovery;
    let mut row = row![recovery.folder.display().to_string()];
    row.extend([state.incarnation, state.visible.0, state.durable.0, state.log_bytes].map(count));
    row.extend([recovery.records, recovery.bytes].map(count));
    row.push(span(recovery.duration));
    match database.last_checkpoint() {
        None => row.extend([NULL, NULL, NULL, NULL]),
        Some(made) => {
            row.extend([made.number, made.timestamp.0, made.bytes_written].map(count));
            row.push(span(made.duration));
        }
    }
    row.push(database.checkpoint_failure().map_or(NULL, |error| Datum::from(error.message().to_owned())));
    vec![row]
}

fn wide(number: usize) -> Datum {
    Datum::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn index_statistics(catalog: &SystemCatalog) -> Rows {
    let index = |(table, index): (&super::TableEntry, &super::IndexEntry)| {
        let (own, name) = (table.name.as_str(), index.definition.name.as_str());
        row![table.oid, index.oid, &*table.schema.name, own, name, NULL, NULL, NULL]
    };
    catalog.indexes().map(index).collect()
}
