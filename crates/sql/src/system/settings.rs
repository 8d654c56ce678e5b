//! `pg_settings`: what PostgreSQL says about each setting, beside the values of the session that asks.

use super::{NULL, Rows, SystemCatalog, row};
use crate::activity::Own;
use crate::compiler_mode::QUERY_COMPILER;
use crate::session::setting::MAX_STALENESS;

/// What a setting is, in PostgreSQL's words.
struct Described {
    name: &'static str,
    /// What a number counts, or empty.
    unit: &'static str,
    category: &'static str,
    meaning: &'static str,
    /// By whom it may be set, and when.
    context: &'static str,
    kind: &'static str,
    /// The least and greatest value, or empty.
    range: (&'static str, &'static str),
    /// The values of an enumeration, parted by commas, or empty.
    values: &'static str,
}

const fn setting(
    name: &'static str,
    unit: &'static str,
    category: &'static str,
    meaning: &'static str,
    (context, kind): (&'static str, &'static str),
    range: (&'static str, &'static str),
    values: &'static str,
) -> Described {
    Described { name, unit, category, meaning, context, kind, range, values }
}

const SETTINGS: &[Described] = &[
    setting(
        "application_name",
        "",
        "Reporting and Logging / What to Log",
        "Sets the application name to be reported in statistics and logs.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "block_size",
        "",
        "Preset Options",
        "Shows the size of a disk block.",
        ("internal", "integer"),
        ("8192", "8192"),
        "",
    ),
    setting(
        "bytea_output",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the output format for bytea.",
        ("user", "enum"),
        ("", ""),
        "escape,hex",
    ),
    setting(
        "check_function_bodies",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "client_encoding",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the client's character set encoding.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "client_min_messages",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the message levels that are sent to the client.",
        ("user", "enum"),
        ("", ""),
        "debug5,debug4,debug3,debug2,debug1,log,notice,warning,error",
    ),
    setting(
        "DateStyle",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the display format for date and time values.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "default_statistics_target",
        "",
        "Query Tuning / Other Planner Options",
        "Sets the default statistics target.",
        ("user", "integer"),
        ("1", "10000"),
        "",
    ),
    setting(
        "default_table_access_method",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the default table access method for new tables.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "default_tablespace",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the default tablespace to create tables and indexes in.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "default_transaction_isolation",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the transaction isolation level of each new transaction.",
        ("user", "enum"),
        ("", ""),
        "serializable,repeatable read,read committed,read uncommitted",
    ),
    setting(
        "default_transaction_read_only",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the default read-only status of new transactions.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "effective_cache_size",
        "8kB",
        "Query Tuning / Planner Cost Constants",
        "Sets the planner's assumption about the total size of the data caches.",
        ("user", "integer"),
        ("1", "2147483647"),
        "",
    ),
    setting(
        "enable_bitmapscan",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of bitmap-scan plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_hashagg",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of hashed aggregation plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_hashjoin",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of hash join plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_indexonlyscan",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of index-only-scan plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_indexscan",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of index-scan plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_material",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of materialization.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_memoize",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of memoization.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_mergejoin",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of merge join plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_nestloop",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of nested-loop join plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_seqscan",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of sequential-scan plans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "enable_sort",
        "",
        "Query Tuning / Planner Method Configuration",
        "Enables the planner's use of explicit sort steps.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "escape_string_warning",
        "",
        "Version and Platform Compatibility / Previous PostgreSQL Versions",
        "Warn about backslash escapes in ordinary string literals.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "extra_float_digits",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the number of digits displayed for floating-point values.",
        ("user", "integer"),
        ("-15", "3"),
        "",
    ),
    setting(
        "from_collapse_limit",
        "",
        "Query Tuning / Other Planner Options",
        "Sets the FROM-list size beyond which subqueries are not collapsed.",
        ("user", "integer"),
        ("1", "2147483647"),
        "",
    ),
    setting(
        "geqo",
        "",
        "Query Tuning / Genetic Query Optimizer",
        "Enables genetic query optimization.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "idle_in_transaction_session_timeout",
        "ms",
        "Client Connection Defaults / Statement Behavior",
        "Sets the maximum allowed idle time between queries, when in a transaction.",
        ("user", "integer"),
        ("0", "2147483647"),
        "",
    ),
    setting(
        "in_hot_standby",
        "",
        "Preset Options",
        "Shows whether hot standby is currently active.",
        ("internal", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "integer_datetimes",
        "",
        "Preset Options",
        "Shows whether datetimes are integer based.",
        ("internal", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "IntervalStyle",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the display format for interval values.",
        ("user", "enum"),
        ("", ""),
        "postgres,postgres_verbose,sql_standard,iso_8601",
    ),
    setting(
        "jit",
        "",
        "Query Tuning / Other Planner Options",
        "Allow JIT compilation.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "join_collapse_limit",
        "",
        "Query Tuning / Other Planner Options",
        "Sets the FROM-list size beyond which JOIN constructs are not flattened.",
        ("user", "integer"),
        ("1", "2147483647"),
        "",
    ),
    setting(
        "lc_messages",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the language in which messages are displayed.",
        ("superuser", "string"),
        ("", ""),
        "",
    ),
    setting(
        "lock_timeout",
        "ms",
        "Client Connection Defaults / Statement Behavior",
        "Sets the maximum allowed duration of any wait for a lock.",
        ("user", "integer"),
        ("0", "2147483647"),
        "",
    ),
    setting(
        "maintenance_work_mem",
        "kB",
        "Resource Usage / Memory",
        "Sets the maximum memory to be used for maintenance operations.",
        ("user", "integer"),
        ("1024", "2147483647"),
        "",
    ),
    setting(
        "max_identifier_length",
        "",
        "Preset Options",
        "Shows the maximum identifier length.",
        ("internal", "integer"),
        ("63", "63"),
        "",
    ),
    setting(
        "max_index_keys",
        "",
        "Preset Options",
        "Shows the maximum number of index keys.",
        ("internal", "integer"),
        ("32", "32"),
        "",
    ),
    setting(
        "max_parallel_workers_per_gather",
        "",
        "Resource Usage / Asynchronous Behavior",
        "Sets the maximum number of parallel processes per executor node.",
        ("user", "integer"),
        ("0", "1024"),
        "",
    ),
    setting(
        "plan_cache_mode",
        "",
        "Query Tuning / Other Planner Options",
        "Controls the planner's selection of custom or generic plan.",
        ("user", "enum"),
        ("", ""),
        "auto,force_generic_plan,force_custom_plan",
    ),
    setting(
        "random_page_cost",
        "",
        "Query Tuning / Planner Cost Constants",
        "Sets the planner's estimate of the cost of a nonsequentially fetched disk page.",
        ("user", "real"),
        ("0", "1.79769e+308"),
        "",
    ),
    setting(
        "row_security",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Enable row security.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "search_path",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the schema search order for names that are not schema-qualified.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "seq_page_cost",
        "",
        "Query Tuning / Planner Cost Constants",
        "Sets the planner's estimate of the cost of a sequentially fetched disk page.",
        ("user", "real"),
        ("0", "1.79769e+308"),
        "",
    ),
    setting(
        "server_encoding",
        "",
        "Preset Options",
        "Shows the server (database) character set encoding.",
        ("internal", "string"),
        ("", ""),
        "",
    ),
    setting(
        "server_version",
        "",
        "Preset Options",
        "Shows the server version.",
        ("internal", "string"),
        ("", ""),
        "",
    ),
    setting(
        "server_version_num",
        "",
        "Preset Options",
        "Shows the server version as an integer.",
        ("internal", "integer"),
        ("150020", "150020"),
        "",
    ),
    setting(
        "standard_conforming_strings",
        "",
        "Version and Platform Compatibility / Previous PostgreSQL Versions",
        "Causes '...' strings to treat backslashes literally.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "statement_timeout",
        "ms",
        "Client Connection Defaults / Statement Behavior",
        "Sets the maximum allowed duration of any statement.",
        ("user", "integer"),
        ("0", "2147483647"),
        "",
    ),
    setting(
        "synchronize_seqscans",
        "",
        "Version and Platform Compatibility / Previous PostgreSQL Versions",
        "Enable synchronized sequential scans.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "synchronous_commit",
        "",
        "Write-Ahead Log / Settings",
        "Sets the current transaction's synchronization level.",
        ("user", "enum"),
        ("", ""),
        "local,remote_write,remote_apply,on,off",
    ),
    setting(
        "temp_buffers",
        "8kB",
        "Resource Usage / Memory",
        "Sets the maximum number of temporary buffers used by each session.",
        ("user", "integer"),
        ("100", "1073741823"),
        "",
    ),
    setting(
        "TimeZone",
        "",
        "Client Connection Defaults / Locale and Formatting",
        "Sets the time zone for displaying and interpreting time stamps.",
        ("user", "string"),
        ("", ""),
        "",
    ),
    setting(
        "transaction_isolation",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the current transaction's isolation level.",
        ("user", "enum"),
        ("", ""),
        "serializable,repeatable read,read committed,read uncommitted",
    ),
    setting(
        "transaction_read_only",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets the current transaction's read-only status.",
        ("user", "bool"),
        ("", ""),
        "",
    ),
    setting(
        "work_mem",
        "kB",
        "Resource Usage / Memory",
        "Sets the maximum memory to be used for query workspaces.",
        ("user", "integer"),
        ("64", "2147483647"),
        "",
    ),
    setting(
        "xmloption",
        "",
        "Client Connection Defaults / Statement Behavior",
        "Sets whether XML data in implicit parsing and serialization operations is to be considered as documents or content fragments.",
        ("user", "enum"),
        ("", ""),
        "content,document",
    ),
    setting(
        MAX_STALENESS,
        "ms",
        "Query Tuning / Other Planner Options",
        "Sets how much later than what is committed analytical queries may be.",
        ("user", "integer"),
        ("0", "2147483647"),
        "",
    ),
    setting(
        QUERY_COMPILER,
        "",
        "Query Tuning / Other Planner Options",
        "Sets how pipelines of analytical queries run.",
        ("user", "enum"),
        ("", ""),
        "off,on,always,interpreted",
    ),
    setting(
        "memory_limit",
        "",
        "Resource Usage / Memory",
        "Sets how much memory the database may take.",
        ("postmaster", "string"),
        ("", ""),
        "",
    ),
];

/// The size of what PostgreSQL calls a block, which clients compute with.
const BLOCK_SIZE: &str = "8192";

/// All settings, as the session has them.
pub(super) fn settings(catalog: &SystemCatalog) -> Rows {
    let Some(session) = &catalog.live.session else { return Vec::new() };
    let own = session.own.lock();
    SETTINGS.iter().filter_map(|described| shown(described, &own)).collect()
}

fn shown(described: &Described, own: &Own) -> Option<Vec<super::Datum>> {
    let known = own.settings.iter().find(|(name, ..)| name.eq_ignore_ascii_case(described.name));
    let (value, reset) = match known {
        Some((_, value, reset)) => (value.as_str(), reset.as_str()),
        None if described.name == "block_size" => (BLOCK_SIZE, BLOCK_SIZE),
        None => return None,
    };
    let source = if value == reset { "default" } else { "session" };
    let or_null = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let (least, greatest) = described.range;
    let values = or_null(described.values);
    let values = values.map(|values| values.split(',').map(str::to_owned).collect::<Vec<String>>());
    Some(row![
        described.name,
        in_unit(value, described.unit),
        or_null(described.unit),
        described.category,
        described.meaning,
        NULL,
        described.context,
        described.kind,
        source,
        or_null(least),
        or_null(greatest),
        values,
        in_unit(reset, described.unit),
        in_unit(reset, described.unit),
        NULL,
        NULL,
        false,
    ])
}

/// A value as a number of units, where SHOW writes it in larger ones; other values as they are.
fn in_unit(value: &str, unit: &str) -> String {
    const BYTES: [(&str, i64); 4] = [("kB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)];
    const TIMES_MS: [(&str, i64); 5] =
        [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, written) = value.split_at(digits);
    let Ok(number) = number.parse::<i64>() else { return value.to_owned() };
    let length =
        |units: &[(&str, i64)]| units.iter().find(|(known, _)| *known == written).map(|(_, size)| *size);
    let own = match unit {
        "8kB" => 8 << 10,
        "kB" => 1 << 10,
        "ms" => 1,
        _ => return value.to_owned(),
    };
    let written = if unit == "ms" { length(&TIMES_MS) } else { length(&BYTES) };
    written.map_or_else(|| value.to_owned(), |size| (number.saturating_mul(size) / own).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_of_their_units() {
        for (value, unit, number) in [
            ("4MB", "kB", "4096"),
            ("4GB", "8kB", "524288"),
            ("30s", "ms", "30000"),
            ("0", "ms", "0"),
            ("on", "", "on"),
            ("100", "", "100"),
        ] {
            assert_eq!(in_unit(value, unit), number);
        }
    }
}
