//! The functions that write values of types, and read and write their binary form, as PostgreSQL numbers and names them: drivers
//! choose by them how they read a column.

use std::collections::HashSet;

/// Numbers and names of the functions that write a value, read it from its binary form and write that; 0 where there is none. By
/// the number of the type; those of arrays are common to all.
const FUNCTIONS: &[(u32, [(u32, &str); 3])] = &[
    (16, [(1243, "boolout"), (2436, "boolrecv"), (2437, "boolsend")]),
    (17, [(31, "byteaout"), (2412, "bytearecv"), (2413, "byteasend")]),
    (18, [(33, "charout"), (2434, "charrecv"), (2435, "charsend")]),
    (19, [(35, "nameout"), (2422, "namerecv"), (2423, "namesend")]),
    (20, [(461, "int8out"), (2408, "int8recv"), (2409, "int8send")]),
    (21, [(39, "int2out"), (2404, "int2recv"), (2405, "int2send")]),
    (22, [(41, "int2vectorout"), (2410, "int2vectorrecv"), (2411, "int2vectorsend")]),
    (23, [(43, "int4out"), (2406, "int4recv"), (2407, "int4send")]),
    (24, [(45, "regprocout"), (2444, "regprocrecv"), (2445, "regprocsend")]),
    (25, [(47, "textout"), (2414, "textrecv"), (2415, "textsend")]),
    (26, [(1799, "oidout"), (2418, "oidrecv"), (2419, "oidsend")]),
    (27, [(49, "tidout"), (2438, "tidrecv"), (2439, "tidsend")]),
    (28, [(51, "xidout"), (2440, "xidrecv"), (2441, "xidsend")]),
    (29, [(53, "cidout"), (2442, "cidrecv"), (2443, "cidsend")]),
    (30, [(55, "oidvectorout"), (2420, "oidvectorrecv"), (2421, "oidvectorsend")]),
    (114, [(322, "json_out"), (323, "json_recv"), (324, "json_send")]),
    (142, [(2894, "xml_out"), (2898, "xml_recv"), (2899, "xml_send")]),
    (194, [(196, "pg_node_tree_out"), (197, "pg_node_tree_recv"), (198, "pg_node_tree_send")]),
    (650, [(1427, "cidr_out"), (2498, "cidr_recv"), (2499, "cidr_send")]),
    (700, [(201, "float4out"), (2424, "float4recv"), (2425, "float4send")]),
    (701, [(215, "float8out"), (2426, "float8recv"), (2427, "float8send")]),
    (705, [(110, "unknownout"), (2416, "unknownrecv"), (2417, "unknownsend")]),
    (790, [(887, "cash_out"), (2492, "cash_recv"), (2493, "cash_send")]),
    (869, [(911, "inet_out"), (2496, "inet_recv"), (2497, "inet_send")]),
    (1033, [(1032, "aclitemout"), (0, ""), (0, "")]),
    (1042, [(1045, "bpcharout"), (2430, "bpcharrecv"), (2431, "bpcharsend")]),
    (1043, [(1047, "varcharout"), (2432, "varcharrecv"), (2433, "varcharsend")]),
    (1082, [(1085, "date_out"), (2468, "date_recv"), (2469, "date_send")]),
    (1083, [(1144, "time_out"), (2470, "time_recv"), (2471, "time_send")]),
    (1114, [(1313, "timestamp_out"), (2474, "timestamp_recv"), (2475, "timestamp_send")]),
    (1184, [(1151, "timestamptz_out"), (2476, "timestamptz_recv"), (2477, "timestamptz_send")]),
    (1186, [(1161, "interval_out"), (2478, "interval_recv"), (2479, "interval_send")]),
    (1266, [(1351, "timetz_out"), (2472, "timetz_recv"), (2473, "timetz_send")]),
    (1560, [(1565, "bit_out"), (2456, "bit_recv"), (2457, "bit_send")]),
    (1562, [(1580, "varbit_out"), (2458, "varbit_recv"), (2459, "varbit_send")]),
    (1700, [(1702, "numeric_out"), (2460, "numeric_recv"), (2461, "numeric_send")]),
    (2205, [(2219, "regclassout"), (2452, "regclassrecv"), (2453, "regclasssend")]),
    (2206, [(2221, "regtypeout"), (2454, "regtyperecv"), (2455, "regtypesend")]),
    (2249, [(2291, "record_out"), (2402, "record_recv"), (2403, "record_send")]),
    (2275, [(2293, "cstring_out"), (2500, "cstring_recv"), (2501, "cstring_send")]),
    (2281, [(2305, "internal_out"), (0, ""), (0, "")]),
    (2276, [(2295, "any_out"), (0, ""), (0, "")]),
    (2277, [(2297, "anyarray_out"), (2502, "anyarray_recv"), (2503, "anyarray_send")]),
    (2278, [(2299, "void_out"), (3120, "void_recv"), (3121, "void_send")]),
    (2950, [(2953, "uuid_out"), (2961, "uuid_recv"), (2962, "uuid_send")]),
    (3802, [(3804, "jsonb_out"), (3805, "jsonb_recv"), (3803, "jsonb_send")]),
    (3904, [(3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    (3908, [(3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    (3910, [(3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    (3912, [(3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    (3926, [(3835, "range_out"), (3836, "range_recv"), (3837, "range_send")]),
    (4089, [(4085, "regnamespaceout"), (4087, "regnamespacerecv"), (4088, "regnamespacesend")]),
    (4096, [(4092, "regroleout"), (4094, "regrolerecv"), (4095, "regrolesend")]),
];

/// Which function of a type.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Write,
    ReadBinary,
    WriteBinary,
}

/// The number of a type's function; 0 if it has none.
pub(super) fn function(data_type: u32, purpose: Purpose) -> u32 {
    let known = FUNCTIONS.iter().find(|(oid, _)| *oid == data_type);
    known.map_or(0, |(_, functions)| functions[purpose as usize].0)
}

/// All of them, with their names.
pub(super) fn named() -> impl Iterator<Item = (u32, &'static str)> {
    FUNCTIONS.iter().flat_map(|(_, functions)| *functions).filter(|(oid, _)| *oid != 0)
}

/// Pseudo-types of what these functions take and give: a text, and a message that is read.
const CSTRING: u32 = 2275;
const INTERNAL: u32 = 2281;
const BYTEA: u32 = 17;

/// Each function with its argument's type, and its result's: those of types, and those that all arrays share. One that several types
/// share is that of the first.
pub(super) fn signatures() -> impl Iterator<Item = (u32, &'static str, u32, u32)> {
    const ANY_ARRAY: u32 = 2277;
    let of_arrays = [
        (750, "array_in", CSTRING, ANY_ARRAY),
        (751, "array_out", ANY_ARRAY, CSTRING),
        (2400, "array_recv", INTERNAL, ANY_ARRAY),
        (2401, "array_send", ANY_ARRAY, BYTEA),
    ];
    let inputs = super::types::TYPES.iter().map(|known| (known.input.0, known.input.1, CSTRING, known.oid));
    let others = FUNCTIONS.iter().flat_map(|&(data_type, [write, read_binary, write_binary])| {
        [
            (write.0, write.1, data_type, CSTRING),
            (read_binary.0, read_binary.1, INTERNAL, data_type),
            (write_binary.0, write_binary.1, data_type, BYTEA),
        ]
    });
    let mut seen = HashSet::from([0]);
    of_arrays.into_iter().chain(inputs).chain(others).filter(move |(oid, ..)| seen.insert(*oid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_functions() {
        assert_eq!(
            [Purpose::Write, Purpose::ReadBinary, Purpose::WriteBinary].map(|p| function(23, p)),
            [43, 2406, 2407]
        );
        assert_eq!(function(1007, Purpose::Write), 0);
        assert!(named().any(|known| known == (2414, "textrecv")));
        assert_eq!(signatures().find(|known| known.1 == "int4send"), Some((2407, "int4send", 23, BYTEA)));
        assert_eq!(signatures().filter(|known| known.1 == "range_in").count(), 1);
    }
}
