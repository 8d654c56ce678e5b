//! Relations of what goes on: their columns as PostgreSQL 15 has them, where it has them.

use super::{Definition, live, nothing, views};

/// Those that show what the session which asks has to itself.
pub(super) const OF_SESSION: [&str; 3] = ["pg_cursors", "pg_prepared_statements", "pg_settings"];

pub(super) const RELATIONS: &[Definition] = &[
    // Our own, which PostgreSQL has not.
    Definition {
        name: "ankerdb_durability",
        oid: 15803,
        is_view: true,
        columns: "data_folder text, incarnation int8, visible_timestamp int8, durable_timestamp int8, log_bytes int8, \
         recovered_records int8, recovered_bytes int8, recovery_time interval, checkpoint_number int8, \
         checkpoint_timestamp int8, checkpoint_bytes int8, checkpoint_time interval, checkpoint_error text",
        rows: views::durability,
    },
    Definition {
        name: "ankerdb_memory",
        oid: 15801,
        is_view: true,
        columns: "relid oid, schemaname name, relname name, rows int8, blocks int8, cell_bytes int8, text_bytes int8, \
         header_bytes int8, version_bytes int8, index_entries int8, index_bytes int8, total_bytes int8",
        rows: views::table_memory,
    },
    Definition {
        name: "ankerdb_process_memory",
        oid: 15802,
        is_view: true,
        columns: "table_bytes int8, used_bytes int8, resident_bytes int8, limit_bytes int8",
        rows: views::process_memory,
    },
    Definition {
        name: "ankerdb_shared_snapshots",
        oid: 15805,
        is_view: true,
        columns: "visible_timestamp int8, creation_time timestamptz, reason text, queries int8, oldest_use interval, \
         columns_lent int8, columns_copied int8, copied_bytes int8, copy_time interval, columns_ahead int8, \
         ahead_time interval, ahead_read int8, history_bytes int8, is_current bool",
        rows: views::shared_snapshots,
    },
    Definition {
        name: "ankerdb_snapshot_manager",
        oid: 15806,
        is_view: true,
        columns: "is_sharing bool, queries_shared int8, snapshots_taken int8, queries_compared int8, \
         queries_unshared int8, copy_time_shared interval, copy_time_alone interval, made_ahead int8, \
         pauses_ahead int8, ended_by_history int8, history_limit int8",
        rows: views::snapshot_manager,
    },
    Definition {
        name: "ankerdb_snapshots",
        oid: 15804,
        is_view: true,
        columns: "name text, creation_time timestamptz, visible_timestamp int8",
        rows: live::kept_snapshots,
    },
    Definition {
        name: "pg_cursors",
        oid: 12077,
        is_view: true,
        columns: "name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, creation_time \
         timestamptz",
        rows: live::cursors,
    },
    Definition {
        name: "pg_locks",
        oid: 12073,
        is_view: true,
        columns: "locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, transactionid xid, \
         classid oid, objid oid, objsubid int2, virtualtransaction text, pid int4, mode text, granted bool, \
         fastpath bool, waitstart timestamptz",
        rows: live::locks,
    },
    Definition {
        name: "pg_prepared_statements",
        oid: 12095,
        is_view: true,
        columns: "name text, statement text, prepare_time timestamptz, parameter_types text[], from_sql bool, \
         generic_plans int8, custom_plans int8",
        rows: live::prepared_statements,
    },
    Definition {
        name: "pg_stat_activity",
        oid: 12222,
        is_view: true,
        columns: "datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, application_name \
         text, client_addr inet, client_hostname text, client_port int4, backend_start timestamptz, xact_start \
         timestamptz, query_start timestamptz, state_change timestamptz, wait_event_type text, wait_event text, \
         state text, backend_xid xid, backend_xmin xid, query_id int8, query text, backend_type text",
        rows: live::activity,
    },
    Definition {
        name: "pg_stat_database",
        oid: 12266,
        is_view: true,
        columns: "datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, blks_read int8, \
         blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, tup_updated int8, tup_deleted \
         int8, conflicts int8, temp_files int8, temp_bytes int8, deadlocks int8, checksum_failures int8, \
         checksum_last_failure timestamptz, blk_read_time float8, blk_write_time float8, session_time float8, \
         active_time float8, idle_in_transaction_time float8, sessions int8, sessions_abandoned int8, \
         sessions_fatal int8, sessions_killed int8, stats_reset timestamptz",
        rows: live::databases,
    },
    Definition {
        name: "pg_stat_gssapi",
        oid: 12253,
        is_view: true,
        columns: "pid int4, gss_authenticated bool, principal text, encrypted bool",
        rows: live::without_gssapi,
    },
    Definition {
        name: "pg_stat_replication",
        oid: 12227,
        is_view: true,
        columns: "pid int4, usesysid oid, usename name, application_name text, client_addr inet, client_hostname text, \
         client_port int4, backend_start timestamptz, backend_xmin xid, state text, sent_lsn pg_lsn, write_lsn \
         pg_lsn, flush_lsn pg_lsn, replay_lsn pg_lsn, write_lag interval, flush_lag interval, replay_lag \
         interval, sync_priority int4, sync_state text, reply_time timestamptz",
        rows: nothing,
    },
    Definition {
        name: "pg_stat_ssl",
        oid: 12249,
        is_view: true,
        columns: "pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial numeric, \
         issuer_dn text",
        rows: live::encryption,
    },
    Definition {
        name: "pg_timezone_names",
        oid: 12126,
        is_view: true,
        columns: "name text, abbrev text, utc_offset interval, is_dst bool",
        rows: live::time_zones,
    },
];
