//! Bytes that are not what was written are said to be so, whatever they are.

use super::tests::{History, column, index, restored, two};
use super::*;
use crate::comment::{Object, Part, Subject};
use crate::{
    DataType, Database, Domain, EnumType, Error, SchemaId, SequenceDefinition, SqlState, TableDefinition,
    UserType, Value,
};
use ankerdb_base::Result;
use ankerdb_table::{Check, ColumnText, Derivation, Generation};
use ankerdb_value::DomainType;
use std::sync::Arc;

/// Binds nothing, and takes everything.
struct Anything;

impl Binder for Anything {
    fn domain(&self, domain: &Domain, _below: Option<&Domain>) -> Result<u32> {
        Ok(domain.checks.len() as u32)
    }

    fn check(&self, _table: &TableDefinition, name: &str, text: &str) -> Result<Check> {
        let (name, text, columns) = (name.into(), text.into(), Default::default());
        Ok(Check { name, text, columns, is_validated: true, test: Arc::new(|_| Ok(true)) })
    }

    fn domain_checks(&self, _table: &TableDefinition) -> Result<Vec<Check>> {
        Ok(Vec::new())
    }

    fn generation(&self, _table: &TableDefinition, _column: usize, text: &str) -> Result<Generation> {
        let (text, sources) = (text.into(), Default::default());
        Ok(Generation { text, sources, compute: Arc::new(|_| Ok(Value::Null)) })
    }

    fn derivation(
        &self,
        _table: &TableDefinition,
        parts: &[ColumnText],
        predicate: Option<&ColumnText>,
    ) -> Result<Derivation> {
        struct NoKey;
        impl crate::KeyFunction for NoKey {
            fn key(&self, _value: &dyn Fn(usize) -> Value) -> Result<Option<Vec<Value>>> {
                Ok(None)
            }
        }
        let (parts, predicate) = (parts.to_vec(), predicate.cloned());
        let types = vec![DataType::Text; parts.len()];
        Ok(Derivation { types, sources: vec![0], parts, predicate, function: Arc::new(NoKey) })
    }
}

/// A catalog with something of everything.
fn everything() -> Vec<u8> {
    let (labels, life) = EnumType::create("mood", ["sad", "ok", "happy"]).unwrap();
    let (schema, over) = (SchemaId::PUBLIC, DomainType::create().unwrap());
    let mut history = History::new();
    let domain = |name: &str, identity, over, text: String| Domain {
        schema,
        name: name.into(),
        identity,
        version: 0,
        base: DataType::Integer,
        over,
        collation: Some("C".into()),
        default: Some("1".into()),
        is_not_null: true,
        checks: vec![crate::DomainCheck { name: "c".into(), text, is_validated: false }],
    };
    let upper = DomainType::create().unwrap();
    // They name each other.
    let texts = [over, upper].map(|named| format!("VALUE < 5::pg_catalog.domain_{}", named.number()));
    let [first, second] = texts;
    history.change(|own| own.create_domain(domain("below", over, None, second.clone())));
    history.change(|own| own.create_domain(domain("upper", upper, Some(over), first.clone())));
    history.change(|own| {
        let (name, state, life) = ("mood".to_owned(), labels.state(), Arc::new(life));
        own.create_type(UserType { schema, name, labels, life, state })
    });
    let mut table = two("t").column(column("m", DataType::Enum(labels)).nullable());
    table.columns[0].domain = Some(crate::ColumnDomain { identity: upper, version: 0, gives_default: true });
    table.columns[0].identity = Some(crate::Identity::Always);
    table.columns[1].generation = Some(Anything.generation(&table, 1, "a + 1").unwrap());
    table.checks.push(Anything.check(&table, "c", "a > 0").unwrap());
    let parts = [ColumnText::new(vec!["lower(".into(), ")".into()], &[0])];
    let mut derived = index("derived");
    derived.derivation = Some(Arc::new(Anything.derivation(&table, &parts, Some(&parts[0])).unwrap()));
    derived.columns.clear();
    derived.style.included = vec![1];
    derived.style.options = vec![("fillfactor".into(), "70".into())];
    derived.style.keys = vec![crate::KeyStyle { collation: Some("C".into()), ..Default::default() }];
    table.indexes.push(derived);
    table.materialized = Some(Arc::new(crate::Materialized {
        query: "SELECT 1".into(),
        reads: vec![crate::ReadRelation {
            schema,
            name: "t".into(),
            columns: vec![crate::ReadColumn { name: "a".into(), called: "b".into() }],
        }],
        is_populated: true,
    }));
    history.change(|own| own.create_table(table));
    history.change(|own| own.create_sequence(SequenceDefinition::new("n", DataType::BigInt)));
    history.change(|own| own.set_comment(Subject::new(Object::Database, Part::Whole), Some("all")));
    CatalogChange::whole(&history.database.catalog()).encode().unwrap()
}

#[test]
fn damaged_bytes_are_said_to_be_so_and_never_panic() {
    let bytes = everything();
    restored(std::slice::from_ref(&bytes), &Anything).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut read, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut damaged = bytes.clone();
        match round % 4 {
            0 => damaged.truncate(random.usize(..damaged.len())),
            1 => {
                let at = random.usize(..damaged.len());
                damaged.drain(at..(at + random.usize(1..9)).min(damaged.len()));
            }
            2 => damaged.insert(random.usize(..=damaged.len()), random.u8(..)),
            _ => {
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..damaged.len());
                    damaged[at] ^= 1 << random.u32(..8);
                }
            }
        }
        let mut recovered = RecoveredCatalog::new();
        // Types are kept until the process ends: only some are made.
        let done = recovered.apply(&damaged).and_then(|()| {
            let may_make = round % 16 == 3;
            if may_make { Database::new().restore_catalog(recovered, &Anything) } else { Ok(()) }
        });
        match done {
            Ok(()) => read += 1,
            Err(error) => {
                let states = [
                    SqlState::DataCorrupted,
                    SqlState::InvalidTableDefinition,
                    SqlState::DuplicateColumn,
                    SqlState::UndefinedObject,
                ];
                assert!(states.contains(&error.state()), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(read > 100 && refused > 5_000, "{read} were read, {refused} refused");
}

#[test]
fn a_change_is_made_whole_or_not_at_all() {
    let bytes = everything();
    let mut recovered = RecoveredCatalog::new();
    let before = recovered.entries.clone();
    for length in 0..bytes.len() {
        if let Err(error) = recovered.apply(&bytes[..length]) {
            assert_eq!(error.state(), SqlState::DataCorrupted);
            assert_eq!(recovered.entries, before, "{length} bytes");
        } else {
            recovered.entries = before.clone();
        }
    }
    let mut newer = bytes.clone();
    newer[0] += 1;
    let error: Error = recovered.apply(&newer).unwrap_err();
    assert!(error.message().contains("does not know"), "{error}");
}
