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
];

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
