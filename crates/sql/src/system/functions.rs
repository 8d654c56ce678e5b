//! Functions that look into the system catalog, and casts between names and numbers of objects.
//!
//! One table says names, arguments and results; `pg_proc` shows it.

mod comments;
mod names;
mod shown;

use super::objects::OWNER_OID;
use super::user_types::FUNCTION_NAMES;
use super::{Datum, PG_CATALOG_OID, Rows, SystemCatalog, live, row, type_functions, types};
use ankerdb_engine::DataType::{BigInt, Boolean, Integer, Text};
use ankerdb_engine::{DataType, Error, ListType, ObjectKind, Result, SqlState, SystemType, Table, Value};

const OID: DataType = DataType::System(SystemType::Oid);
const NAME: DataType = DataType::System(SystemType::Name);
const REGCLASS: DataType = DataType::System(SystemType::Object(ObjectKind::Class));
const REGTYPE: DataType = DataType::System(SystemType::Object(ObjectKind::Type));
const REGPROC: DataType = DataType::System(SystemType::Object(ObjectKind::Function));
const REGNAMESPACE: DataType = DataType::System(SystemType::Object(ObjectKind::Namespace));
const REGROLE: DataType = DataType::System(SystemType::Object(ObjectKind::Role));
const NAMES: DataType = DataType::System(SystemType::List(ListType::Name));
const TEXTS: DataType = DataType::System(SystemType::List(ListType::Text));
const CHAR: DataType = DataType::System(SystemType::Char);
const OIDVECTOR: DataType = DataType::System(SystemType::List(ListType::OidVector));
const INTEGERS: DataType = DataType::System(SystemType::List(ListType::Integer));

/// The number of the first of these functions.
const FIRST_OID: u32 = 9000;

/// A function over one catalog.
pub(crate) struct SystemFunction {
    pub name: &'static str,
    /// Types of arguments, `required` of which must be given.
    pub arguments: &'static [DataType],
    pub required: usize,
    pub result: DataType,
    /// Whether it gives the same as long as the catalog is the same.
    pub is_constant: bool,
    /// Whether each call counts: it changes something, or what it looks at changes while a statement runs.
    pub is_volatile: bool,
    /// Whether it is called for NULL, too.
    pub takes_null: bool,
    pub compute: fn(&SystemCatalog, &[Value]) -> Result<Datum>,
}

impl std::fmt::Debug for SystemFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

type Compute = fn(&SystemCatalog, &[Value]) -> Result<Datum>;

const fn function(
    name: &'static str,
    arguments: &'static [DataType],
    required: usize,
    result: DataType,
    compute: Compute,
) -> SystemFunction {
    let (is_constant, is_volatile, takes_null) = (true, false, false);
    SystemFunction { name, arguments, required, result, is_constant, is_volatile, takes_null, compute }
}

/// A function of what changes while the catalog stays the same.
const fn stable(
    name: &'static str,
    arguments: &'static [DataType],
    required: usize,
    result: DataType,
    compute: Compute,
) -> SystemFunction {
    SystemFunction { is_constant: false, ..function(name, arguments, required, result, compute) }
}

/// A function each call of which counts.
const fn volatile(
    name: &'static str,
    arguments: &'static [DataType],
    required: usize,
    result: DataType,
    compute: Compute,
) -> SystemFunction {
    let function = function(name, arguments, required, result, compute);
    SystemFunction { is_constant: false, is_volatile: true, ..function }
}

const FUNCTIONS: &[SystemFunction] = &[
    SystemFunction {
        takes_null: true,
        ..function("format_type", &[OID, Integer], 2, Text, shown::format_type)
    },
    function("oidvectortypes", &[OIDVECTOR], 1, Text, shown::types_of_vector),
    function("pg_get_expr", &[Text, OID, Boolean], 2, Text, shown::expression),
    function("pg_get_indexdef", &[OID, Integer, Boolean], 1, Text, shown::index),
    function("pg_get_constraintdef", &[OID, Boolean], 1, Text, shown::constraint),
    function("pg_get_viewdef", &[OID, Boolean], 1, Text, shown::view),
    function("pg_get_ruledef", &[OID, Boolean], 1, Text, none),
    function("pg_get_triggerdef", &[OID, Boolean], 1, Text, none),
    function("pg_get_partkeydef", &[OID], 1, Text, none),
    function("pg_get_functiondef", &[OID], 1, Text, none),
    function("pg_get_statisticsobjdef_columns", &[OID], 1, Text, none),
    function("pg_get_function_result", &[OID], 1, Text, shown::function_result),
    function("pg_get_function_arguments", &[OID], 1, Text, shown::function_arguments),
    function("pg_get_function_identity_arguments", &[OID], 1, Text, shown::function_arguments),
    function("pg_get_userbyid", &[OID], 1, NAME, shown::role),
    function("acldefault", &[CHAR, OID], 2, TEXTS, shown::default_privileges),
    function("pg_get_serial_sequence", &[Text, Text], 2, Text, names::serial_sequence),
    function("pg_table_is_visible", &[OID], 1, Boolean, names::table_is_visible),
    function("pg_type_is_visible", &[OID], 1, Boolean, names::type_is_visible),
    function("pg_function_is_visible", &[OID], 1, Boolean, names::function_is_visible),
    function("pg_collation_is_visible", &[OID], 1, Boolean, yes),
    function("pg_opclass_is_visible", &[OID], 1, Boolean, yes),
    function("pg_relation_is_publishable", &[REGCLASS], 1, Boolean, no),
    function("pg_is_other_temp_schema", &[OID], 1, Boolean, names::is_others_temporary_schema),
    function("pg_my_temp_schema", &[], 0, OID, names::own_temporary_schema),
    function("obj_description", &[OID, NAME], 1, Text, comments::description),
    function("col_description", &[OID, Integer], 2, Text, comments::of_column),
    function("shobj_description", &[OID, NAME], 2, Text, comments::of_shared),
    function("pg_encoding_to_char", &[Integer], 1, NAME, shown::encoding),
    function("pg_tablespace_location", &[OID], 1, Text, nowhere),
    function("current_schema", &[], 0, NAME, names::current_schema),
    function("current_schemas", &[Boolean], 1, NAMES, names::current_schemas),
    function("pg_size_pretty", &[BigInt], 1, Text, shown::size_pretty),
    function("pg_backend_pid", &[], 0, Integer, live::own_pid),
    stable("current_query", &[], 0, Text, live::own_query),
    function("pg_is_in_recovery", &[], 0, Boolean, no),
    function("pg_postmaster_start_time", &[], 0, DataType::TIMESTAMPTZ, live::started),
    function("pg_conf_load_time", &[], 0, DataType::TIMESTAMPTZ, live::started),
    function("inet_client_addr", &[], 0, Text, live::client_address),
    function("inet_client_port", &[], 0, Integer, live::client_port),
    function("inet_server_addr", &[], 0, Text, live::server_address),
    function("inet_server_port", &[], 0, Integer, live::server_port),
    volatile("pg_blocking_pids", &[Integer], 1, INTEGERS, live::blocking_pids),
    volatile("pg_cancel_backend", &[Integer], 1, Boolean, live::cancel),
    volatile("pg_terminate_backend", &[Integer, BigInt], 1, Boolean, live::terminate),
    function("current_setting", &[Text, Boolean], 1, Text, names::current_setting),
    function("pg_client_encoding", &[], 0, NAME, shown::client_encoding),
    stable("pg_stat_get_numscans", &[OID], 1, BigInt, none),
    stable("pg_stat_get_tuples_returned", &[OID], 1, BigInt, none),
    stable("pg_stat_get_tuples_fetched", &[OID], 1, BigInt, none),
    stable("pg_stat_get_live_tuples", &[OID], 1, BigInt, none),
    stable("pg_stat_get_dead_tuples", &[OID], 1, BigInt, none),
    stable("pg_relation_size", &[REGCLASS, Text], 1, BigInt, shown::relation_size),
    stable("pg_table_size", &[REGCLASS], 1, BigInt, shown::relation_size),
    stable("pg_total_relation_size", &[REGCLASS], 1, BigInt, shown::relation_size),
    stable("pg_indexes_size", &[REGCLASS], 1, BigInt, shown::indexes_size),
    stable("pg_database_size", &[Text], 1, BigInt, shown::database_size),
    function("has_table_privilege", &[Text, Text, Text], 2, Boolean, names::has_table_privilege),
    function("has_any_column_privilege", &[Text, Text, Text], 2, Boolean, names::has_table_privilege),
    function("has_sequence_privilege", &[Text, Text, Text], 2, Boolean, names::has_table_privilege),
    function("has_column_privilege", &[Text, Text, Text, Text], 3, Boolean, yes),
    function("has_schema_privilege", &[Text, Text, Text], 2, Boolean, names::has_schema_privilege),
    function("has_database_privilege", &[Text, Text, Text], 2, Boolean, yes),
    function("has_function_privilege", &[Text, Text, Text], 2, Boolean, yes),
    function("pg_has_role", &[Text, Text, Text], 2, Boolean, yes),
    function("to_regclass", &[Text], 1, REGCLASS, names::to_class),
    function("to_regtype", &[Text], 1, REGTYPE, names::to_type),
    function("regclassin", &[Text], 1, REGCLASS, names::class_in),
    function("regclassout", &[OID], 1, Text, names::class_out),
    function("regtypein", &[Text], 1, REGTYPE, names::type_in),
    function("regtypeout", &[OID], 1, Text, names::type_out),
    function("regprocin", &[Text], 1, REGPROC, names::function_in),
    function("regprocout", &[OID], 1, Text, names::function_out),
    function("regnamespacein", &[Text], 1, REGNAMESPACE, names::namespace_in),
    function("regnamespaceout", &[OID], 1, Text, names::namespace_out),
    function("regrolein", &[Text], 1, REGROLE, names::role_in),
    function("regroleout", &[OID], 1, Text, names::role_out),
];

/// The function with that name.
pub(crate) fn by_name(name: &str) -> Option<&'static SystemFunction> {
    FUNCTIONS.iter().find(|known| known.name == name)
}

/// The names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|known| known.name)
}

fn none(_: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(Datum::Null)
}

fn yes(_: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(Datum::Boolean(true))
}

fn no(_: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(Datum::Boolean(false))
}

fn nowhere(_: &SystemCatalog, _: &[Value]) -> Result<Datum> {
    Ok(Datum::from(""))
}

/// The number of an object, as an argument.
fn oid(value: Option<&Value>) -> u32 {
    match value {
        Some(Value::BigInt(oid)) => u32::try_from(*oid).unwrap_or(0),
        _ => 0,
    }
}

fn text(value: Option<&Value>) -> &str {
    match value {
        Some(Value::Text(text)) => text,
        _ => "",
    }
}

/// A relation given by name, or by number.
fn relation(catalog: &SystemCatalog, value: Option<&Value>) -> Result<u32> {
    match value {
        Some(Value::Text(name)) => names::relation(catalog, name),
        other => Ok(oid(other)),
    }
}

fn undefined(what: &str, name: &str, state: SqlState) -> Error {
    Error::new(state, format!("{what} \"{name}\" does not exist"))
}

/// Bytes of memory that the table takes, with its indexes.
pub(super) fn memory_bytes(table: &Table) -> usize {
    ankerdb_engine::Database::table_bytes(table)
}

/// Functions of lists that types name, by PostgreSQL's numbers.
const OF_ARRAYS: [(u32, &str); 4] =
    [(750, "array_in"), (751, "array_out"), (2400, "array_recv"), (2401, "array_send")];

/// The number of a function that types name.
pub(super) fn internal(name: &str) -> u32 {
    OF_ARRAYS.iter().find(|(_, known)| *known == name).map_or(0, |(oid, _)| *oid)
}

/// Functions by number: those of the table above, and those that types name.
fn numbered() -> impl Iterator<Item = (u32, &'static str)> {
    let inputs = types::TYPES.iter().map(|known| known.input).filter(|(oid, _)| *oid != 750);
    (FIRST_OID..)
        .zip(names())
        .chain(OF_ARRAYS)
        .chain(inputs)
        .chain(super::type_functions::named())
        .chain(FUNCTION_NAMES)
        .chain(super::domains::FUNCTION_NAMES)
        .chain(super::ranges::functions())
}

/// The function of the table above with that number.
fn by_number(oid: u32) -> Option<&'static SystemFunction> {
    FUNCTIONS.get(usize::try_from(oid.checked_sub(FIRST_OID)?).ok()?)
}

/// `pg_proc`: the functions of the table above, and those of types, by which drivers tell arrays.
pub(super) fn functions(_: &SystemCatalog) -> Rows {
    let each = (FIRST_OID..).zip(FUNCTIONS).map(|(oid, known)| {
        let arguments = known.arguments.iter().map(|argument| types::type_of(*argument).0).collect();
        let result = types::type_of(known.result).0;
        let optional = known.arguments.len() - known.required;
        proc_row((oid, known.name), !known.takes_null, arguments, optional, result)
    });
    let of_types = type_functions::signatures();
    let of_types =
        of_types.map(|(oid, name, argument, result)| proc_row((oid, name), true, vec![argument], 0, result));
    each.chain(of_types).collect()
}

fn proc_row(
    (oid, name): (u32, &str),
    is_strict: bool,
    arguments: Vec<u32>,
    optional: usize,
    result: u32,
) -> Vec<Datum> {
    let types: Vec<i64> = arguments.iter().copied().map(i64::from).collect();
    let mut row = row![oid, name, PG_CATALOG_OID, OWNER_OID, 12, 1.0, 0.0, 0, 0, "f", false, false];
    row.extend(row![is_strict, false, "s", "s", arguments.len(), optional, result, types]);
    row.extend(row![Datum::Null, Datum::Null, Datum::Null, Datum::Null, Datum::Null, name]);
    row.extend(std::iter::repeat_n(Datum::Null, 4));
    row
}
