//! Numbers that nobody can foretell.

use super::entry::{Entry, entry};
use ankerdb_engine::DataType::{DoublePrecision, Uuid};
use ankerdb_engine::{Interrupt, Result, Value};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const ENTRIES: &[Entry] = &[
    entry("random", &[], DoublePrecision, random).volatile(),
    entry("gen_random_uuid", &[], Uuid, random_uuid).volatile(),
    // Of the extension uuid-ossp.
    entry("uuid_generate_v4", &[], Uuid, random_uuid).volatile(),
    entry("uuid_nil", &[], Uuid, |_, _| Ok(Value::Uuid([0; 16]))),
    entry("uuid_ns_dns", &[], Uuid, |_, _| Ok(name_space(0x10))),
    entry("uuid_ns_url", &[], Uuid, |_, _| Ok(name_space(0x11))),
    entry("uuid_ns_oid", &[], Uuid, |_, _| Ok(name_space(0x12))),
    entry("uuid_ns_x500", &[], Uuid, |_, _| Ok(name_space(0x14))),
];

/// A name space of RFC 4122, Appendix C: they differ in one byte.
fn name_space(own: u8) -> Value {
    let common = 0x6ba7_b800_9dad_11d1_80b4_00c0_4fd4_30c8_u128;
    Value::Uuid((common | u128::from(own) << 96).to_be_bytes())
}

/// 64 bits: a number that counts, through a hash function with a key that the system draws for each thread.
fn bits() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static KEY: RandomState = RandomState::new();
    }
    KEY.with(|key| key.hash_one(DRAWN.fetch_add(1, Ordering::Relaxed)))
}

/// From 0 up to but without 1: 53 bits are what a double has.
fn random(_: &[Value], _: &Interrupt) -> Result<Value> {
    Ok(Value::Double((bits() >> 11) as f64 / (1u64 << 53) as f64))
}

/// Of version 4.
fn random_uuid(_: &[Value], _: &Interrupt) -> Result<Value> {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&bits().to_be_bytes());
    uuid[8..].copy_from_slice(&bits().to_be_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(Value::Uuid(uuid))
}
