//! Relations with their indexes, transactions one after the other, and snapshots.

use crate::area::MemoryKind;
use crate::index::Index;
use crate::mechanism::IndexTreatment;
use crate::readers::{QuiescePolicy, Readers};
use crate::snapshot::{RelationId, SerialSnapshot};
use crate::store::{Shape, Store, TupleId, View};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_region::fork::{Child, Output, spawn};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A database under one mechanism. Its owner is the thread that runs transactions.
pub struct SerialDatabase<S: Store> {
    relations: Vec<Relation<S>>,
    kind: MemoryKind,
    treatment: IndexTreatment,
    undo: Vec<Undo>,
    /// Entries of tuples that the transaction has deleted.
    removals: Vec<Removal>,
    readers: Readers<S>,
}

struct Relation<S: Store> {
    shape: Shape,
    store: S,
    indexes: Vec<Index>,
}

/// What takes back a part of the transaction.
enum Undo {
    /// A word was this.
    Word {
        relation: usize,
        tuple: TupleId,
        at: usize,
        word: u64,
    },
    Insert {
        relation: usize,
        tuple: TupleId,
    },
    Entry {
        relation: usize,
        index: usize,
        key: u64,
        tuple: TupleId,
    },
    Delete {
        relation: usize,
        tuple: TupleId,
    },
}

struct Removal {
    relation: usize,
    index: usize,
    key: u64,
    tuple: TupleId,
}

impl<S: Store> SerialDatabase<S> {
    /// A database without relations, whose memory is of this kind.
    ///
    /// # Errors
    /// 0A000 if the mechanism cannot have indexes treated so; 22023 if tuples are shared with child processes that are to be
    /// snapshots of them.
    pub fn new(kind: MemoryKind, treatment: IndexTreatment) -> Result<SerialDatabase<S>> {
        S::MECHANISM.check(treatment)?;
        if S::MECHANISM.forks() && kind.shares_tuples {
            let message = format!("by {} a child process has an image of the tuples", S::MECHANISM.name());
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        let readers = Readers::new(SerialSnapshot::new(Vec::new()));
        let (relations, undo, removals) = (Vec::new(), Vec::new(), Vec::new());
        Ok(SerialDatabase { relations, kind, treatment, undo, removals, readers })
    }

    /// Adds a relation with so many indexes. Snapshots have it after the next refresh.
    ///
    /// # Errors
    /// 53200 if there is no memory; 54000 if a tuple does not fit a page that is copied.
    pub fn add_relation(&mut self, shape: Shape, indexes: usize) -> Result<RelationId> {
        let store = S::new(shape, self.kind)?;
        let index = |_| Index::new(self.kind, self.treatment, shape.capacity);
        let indexes = (0..indexes).map(index).collect::<Result<Vec<_>>>()?;
        self.relations.push(Relation { shape, store, indexes });
        Ok(RelationId(self.relations.len() - 1))
    }

    /// Runs a transaction; an error takes back what it did.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn run<T>(&mut self, run: impl FnOnce(&mut SerialTransaction<'_, S>) -> Result<T>) -> Result<T> {
        let result = run(&mut SerialTransaction { database: self });
        match &result {
            Ok(_) => self.commit(),
            Err(_) => self.roll_back(),
        }
        result
    }

    fn commit(&mut self) {
        self.undo.clear();
        for Removal { relation, index, key, tuple } in self.removals.drain(..) {
            self.relations[relation].indexes[index].remove((key, tuple as u64));
        }
    }

    fn roll_back(&mut self) {
        self.removals.clear();
        // Deletions first: to take an insertion back is to delete, and only the last deletion can be taken back.
        for undo in self.undo.iter().rev() {
            if let Undo::Delete { relation, tuple } = *undo {
                self.relations[relation].store.undelete(tuple);
            }
        }
        for undo in self.undo.drain(..).rev() {
            match undo {
                Undo::Word { relation, tuple, at, word } => {
                    // It was changed since the last refresh, so this makes no copy, and cannot fail.
                    if let Ok(Some(words)) = self.relations[relation].store.change(tuple) {
                        words[at].store(word, Relaxed);
                    }
                }
                Undo::Insert { relation, tuple } => {
                    let deleted = self.relations[relation].store.delete(tuple);
                    debug_assert!(matches!(deleted, Ok(true)), "a tuple that was inserted is there");
                }
                Undo::Entry { relation, index, key, tuple } => {
                    self.relations[relation].indexes[index].remove_now((key, tuple as u64));
                }
                Undo::Delete { .. } => {}
            }
        }
    }

    /// Makes the state the snapshot for queries that begin from now on; how long transactions had to wait for it. By mechanisms
    /// that fork, that is what comes before the fork.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn refresh(&mut self, policy: QuiescePolicy) -> Result<Duration> {
        let begun = Instant::now();
        let (readers, relations) = (&self.readers, &mut self.relations);
        readers.refresh(policy, || {
            for relation in relations.iter_mut() {
                relation.store.refresh()?;
                relation.indexes.iter_mut().try_for_each(Index::refresh)?;
            }
            Ok(SerialDatabase::snapshot_of(relations, false))
        })?;
        Ok(begun.elapsed())
    }

    /// Reorganization that a mechanism can do without, before a refresh; how long it takes.
    pub fn reorganize(&mut self) -> Duration {
        let begun = Instant::now();
        self.relations.iter_mut().for_each(|relation| relation.store.reorganize());
        begun.elapsed()
    }

    fn snapshot_of(relations: &[Relation<S>], is_for_child: bool) -> SerialSnapshot<S> {
        let view = |relation: &Relation<S>| {
            let indexes = relation.indexes.iter().map(|index| index.view(is_for_child));
            (relation.store.view(), indexes.collect())
        };
        SerialSnapshot::new(relations.iter().map(view).collect())
    }

    /// The door for queries in other threads.
    pub fn readers(&self) -> Readers<S> {
        self.readers.clone()
    }

    /// Forks a child process that runs queries; no transaction is running. Where the tuples are shared with the child, it has the
    /// indexes of this moment, not of the last refresh: it must come right after one. See [`ankerdb_region::fork`] for what it may
    /// do. `limit`: bytes that it may leave.
    ///
    /// # Errors
    /// 53300 if there may be no more processes, 53200 if there is no memory for one.
    pub fn fork(
        &self,
        limit: usize,
        work: impl FnOnce(&SerialSnapshot<S>, &mut Output) -> Result<()>,
    ) -> Result<Child> {
        let snapshot = SerialDatabase::snapshot_of(&self.relations, true);
        spawn(limit, || Ok(()), |output| work(&snapshot, output))
    }

    /// Bytes of the tuples of the last snapshot, without anything else; by mechanisms that fork, of the tuples now.
    pub fn tuple_bytes(&self) -> usize {
        self.relations.iter().map(|relation| relation.store.view().count() * relation.shape.words * 8).sum()
    }

    /// Bytes of tuples and indexes, as far as they are in use.
    pub fn used_bytes(&self) -> usize {
        let words = |relation: &Relation<S>| {
            relation.store.used_words() + relation.indexes.iter().map(Index::used_words).sum::<usize>()
        };
        self.relations.iter().map(words).sum::<usize>() * 8
    }
}

/// The transaction that runs.
pub struct SerialTransaction<'a, S: Store> {
    database: &'a mut SerialDatabase<S>,
}

/// A tuple that is being changed.
pub struct Change<'a> {
    words: &'a [AtomicU64],
    undo: &'a mut Vec<Undo>,
    relation: usize,
    tuple: TupleId,
}

impl Change<'_> {
    /// A word as it is now.
    pub fn get(&self, at: usize) -> u64 {
        self.words[at].load(Relaxed)
    }

    /// Changes a word.
    pub fn set(&mut self, at: usize, word: u64) {
        let (relation, tuple) = (self.relation, self.tuple);
        self.undo.push(Undo::Word { relation, tuple, at, word: self.get(at) });
        self.words[at].store(word, Relaxed);
    }
}

impl<S: Store> SerialTransaction<'_, S> {
    /// The tuple with a key, by the index at a position.
    pub fn find(&self, relation: RelationId, index: usize, key: u64) -> Option<TupleId> {
        let mut found = None;
        self.scan_index(relation, index, key, |at, tuple| {
            found = (at == key).then_some(tuple);
            ControlFlow::Break(())
        });
        found
    }

    /// Shows tuples by their keys from one on, ascending, until it is told to stop.
    pub fn scan_index(
        &self,
        relation: RelationId,
        index: usize,
        from: u64,
        mut see: impl FnMut(u64, TupleId) -> ControlFlow<()>,
    ) {
        let Relation { store, indexes, .. } = &self.database.relations[relation.0];
        indexes[index].scan(from, |key, tuple| match store.find(tuple) {
            Some(_) => see(key, tuple),
            None => ControlFlow::Continue(()),
        });
    }

    /// A tuple's words as this transaction sees them.
    pub fn read(&self, relation: RelationId, tuple: TupleId) -> Option<&[AtomicU64]> {
        self.database.relations[relation.0].store.find(tuple)
    }

    /// A tuple, to be changed. Its keys must not change.
    ///
    /// # Errors
    /// 02000 if there is no such tuple; 53200 or 54000 if a copy of it finds no room.
    pub fn change(&mut self, relation: RelationId, tuple: TupleId) -> Result<Change<'_>> {
        let database = &mut *self.database;
        let words = database.relations[relation.0].store.change(tuple)?;
        let words = words.ok_or_else(|| missing(tuple))?;
        Ok(Change { words, undo: &mut database.undo, relation: relation.0, tuple })
    }

    /// Adds a tuple with its key in each index.
    ///
    /// # Errors
    /// 54000 if there is no room; 22023 if it has not as many words and keys as its relation.
    pub fn insert(&mut self, relation: RelationId, words: &[u64], keys: &[u64]) -> Result<TupleId> {
        let SerialDatabase { relations, undo, .. } = &mut *self.database;
        let Relation { shape, store, indexes } = &mut relations[relation.0];
        if words.len() != shape.words || keys.len() != indexes.len() {
            let message = format!("tuples have {} words and {} keys here", shape.words, indexes.len());
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        let tuple = store.insert(words)?;
        undo.push(Undo::Insert { relation: relation.0, tuple });
        for (index, key) in keys.iter().enumerate() {
            indexes[index].insert((*key, tuple as u64))?;
            undo.push(Undo::Entry { relation: relation.0, index, key: *key, tuple });
        }
        Ok(tuple)
    }

    /// Deletes a tuple that has these keys.
    ///
    /// # Errors
    /// 02000 if there is no such tuple; 53200 if a copy of its page finds no room.
    pub fn delete(&mut self, relation: RelationId, tuple: TupleId, keys: &[u64]) -> Result<()> {
        let database = &mut *self.database;
        if !database.relations[relation.0].store.delete(tuple)? {
            return Err(missing(tuple));
        }
        database.undo.push(Undo::Delete { relation: relation.0, tuple });
        let removal = |(index, key): (usize, &u64)| Removal { relation: relation.0, index, key: *key, tuple };
        database.removals.extend(keys.iter().enumerate().map(removal));
        Ok(())
    }
}

fn missing(tuple: TupleId) -> Error {
    Error::new(SqlState::NoData, format!("there is no tuple {tuple}"))
}
