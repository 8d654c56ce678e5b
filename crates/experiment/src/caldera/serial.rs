//! A mechanism: one thread runs transactions and refreshes the snapshot when it is asked to, another one asks Q6.

use super::lineitem::{Lineitem, PRICE, WORDS, q6};
use super::{CalderaOutcome, Plan, ROWS_PER_TRANSACTION, Runner};
use crate::harness::{Harness, joined};
use crate::mechanism::Variant;
use ankerdb_engine::{Error, Result};
use ankerdb_region::fork::Child;
use ankerdb_serial::{
    IndexTreatment, Job, QuiescePolicy, RelationId, SerialDatabase, SerialSnapshot, SerialTransaction, Shape,
    Store, View,
};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Rows for each one that was loaded: copies need room.
const ROOM: usize = 2;
/// Bytes that a child may leave: its latencies.
const CHILD_BYTES: usize = 1 << 16;

/// Loads the rows.
///
/// # Errors
/// 53200 if there is no memory.
pub(super) fn load(variant: Variant, rows: &Lineitem) -> Result<Box<dyn Runner>> {
    variant.mechanism.run(Load { variant, rows })
}

struct Load<'a> {
    variant: Variant,
    rows: &'a Lineitem,
}

impl Job for Load<'_> {
    type Output = Result<Box<dyn Runner>>;

    fn run<S: Store>(self) -> Result<Box<dyn Runner>> {
        // Q6 needs none.
        let mut database = SerialDatabase::<S>::new(self.variant.kind, IndexTreatment::Abandon)?;
        let capacity = ROOM * self.rows.len() + 1;
        let relation = database.add_relation(Shape { words: WORDS, capacity }, 1)?;
        for (key, row) in (0..).zip(self.rows.rows()) {
            database.run(|transaction| transaction.insert(relation, row, &[key]).map(drop))?;
        }
        database.refresh(QuiescePolicy::Wait)?;
        Ok(Box::new(Serial { database, relation }))
    }
}

struct Serial<S: Store> {
    database: SerialDatabase<S>,
    relation: RelationId,
}

/// What the thread of transactions answers when it is asked for a snapshot.
enum Refreshed {
    /// It can be read.
    Here,
    /// It is being read by a child that runs so many queries.
    Forked(Child),
}

impl<S: Store> Runner for Serial<S> {
    fn run(&mut self, harness: &Harness<'_>, plan: Plan) -> Result<CalderaOutcome> {
        let (ask, asked) = sync_channel::<usize>(1);
        let (answer, answered) = sync_channel::<Refreshed>(1);
        let stop = AtomicBool::new(false);
        let (readers, relation) = (self.database.readers(), self.relation);
        std::thread::scope(|scope| {
            let (serial, stops) = (&mut *self, &stop);
            let transactions = scope.spawn(move || serial.transact(plan, stops, &asked, &answer));
            let begun = Instant::now();
            let query = || -> Result<Duration> {
                let reading = readers.enter()?;
                let begun = Instant::now();
                std::hint::black_box(sum(reading.snapshot(), relation));
                Ok(begun.elapsed())
            };
            let latencies = ask_all(harness, plan, (&ask, &answered), query);
            let elapsed = begun.elapsed();
            stop.store(true, Relaxed);
            let transactions = joined(transactions.join())?;
            Ok(CalderaOutcome { transactions, elapsed, latencies: latencies? })
        })
    }
}

/// Runs the queries; how long each took.
fn ask_all(
    harness: &Harness<'_>,
    plan: Plan,
    (ask, answered): (&SyncSender<usize>, &Receiver<Refreshed>),
    query: impl Fn() -> Result<Duration>,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while latencies.len() < plan.queries && !harness.is_stopped() {
        harness.progress(latencies.len() as f64 / plan.queries as f64);
        let queries = plan.sharing.min(plan.queries - latencies.len());
        // Where the other thread has ended, it says why.
        let Ok(refreshed) = ask.send(queries).map_err(drop).and_then(|()| answered.recv().map_err(drop))
        else {
            break;
        };
        match refreshed {
            Refreshed::Here => {
                for _ in 0..queries {
                    latencies.push(query()?);
                }
            }
            Refreshed::Forked(child) => {
                let bytes = child.wait(&|| harness.is_stopped())?;
                let words = bytes.as_ref().as_chunks::<8>().0;
                latencies.extend(words.iter().map(|word| Duration::from_nanos(u64::from_ne_bytes(*word))));
            }
        }
    }
    Ok(latencies)
}

impl<S: Store> Serial<S> {
    /// Runs transactions until it is told to stop; how many.
    fn transact(
        &mut self,
        plan: Plan,
        stop: &AtomicBool,
        asked: &Receiver<usize>,
        answer: &SyncSender<Refreshed>,
    ) -> Result<u64> {
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let mut count = 0;
        while !stop.load(Relaxed) {
            if let Ok(queries) = asked.try_recv() {
                let refreshed = self.refresh(queries)?;
                if answer.send(refreshed).is_err() {
                    break;
                }
            }
            let relation = self.relation;
            self.database.run(|transaction| {
                (0..ROWS_PER_TRANSACTION).try_for_each(|_| {
                    change(transaction, relation, random.u64(..plan.working_set.max(1) as u64))
                })
            })?;
            count += 1;
        }
        Ok(count)
    }

    fn refresh(&mut self, queries: usize) -> Result<Refreshed> {
        self.database.refresh(QuiescePolicy::Wait)?;
        if !S::MECHANISM.forks() {
            return Ok(Refreshed::Here);
        }
        let relation = self.relation;
        let child = self.database.fork(CHILD_BYTES, |snapshot, output| {
            for _ in 0..queries {
                let begun = Instant::now();
                std::hint::black_box(sum(snapshot, relation));
                let nanoseconds = begun.elapsed().as_nanos() as u64;
                let written = output.write_all(&nanoseconds.to_ne_bytes());
                written.map_err(|error| Error::internal(format!("a child cannot write: {error}")))?;
            }
            Ok(())
        })?;
        Ok(Refreshed::Forked(child))
    }
}

fn change<S: Store>(
    transaction: &mut SerialTransaction<'_, S>,
    relation: RelationId,
    key: u64,
) -> Result<()> {
    let tuple = transaction.find(relation, 0, key).ok_or_else(|| Error::internal("a row is missing"))?;
    let mut row = transaction.change(relation, tuple)?;
    let price = row.get(PRICE);
    row.set(PRICE, price + 1);
    Ok(())
}

/// Q6.
fn sum<S: Store>(snapshot: &SerialSnapshot<S>, relation: RelationId) -> u64 {
    let mut sum = 0;
    snapshot.relation(relation).scan(|row: &[AtomicU64]| {
        sum += q6(|at| row[at].load(Relaxed));
        true
    });
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_serial::{InPlace, Mechanism};

    /// All mechanisms change the same rows: in the end they have the same sum.
    #[test]
    fn mechanisms_come_to_the_same_sum() {
        let rows = Lineitem::generate(0.01);
        struct SumAfter<'a>(&'a Lineitem);
        impl Job for SumAfter<'_> {
            type Output = u64;
            fn run<S: Store>(self) -> u64 {
                let mut database =
                    SerialDatabase::<S>::new(Default::default(), IndexTreatment::Abandon).expect("memory");
                let shape = Shape { words: WORDS, capacity: ROOM * self.0.len() + 1 };
                let relation = database.add_relation(shape, 1).expect("memory");
                for (key, row) in (0..).zip(self.0.rows()) {
                    database.run(|t| t.insert(relation, row, &[key]).map(drop)).expect("room");
                }
                let mut random = fastrand::Rng::with_seed(3);
                for step in 0..2000 {
                    let key = random.u64(..self.0.len() as u64);
                    database.run(|t| change(t, relation, key)).expect("it is there");
                    if step % 500 == 0 {
                        database.refresh(QuiescePolicy::Wait).expect("memory");
                    }
                }
                database.refresh(QuiescePolicy::Wait).expect("memory");
                let child = database.fork(8, |snapshot, output| {
                    output
                        .write_all(&sum(snapshot, relation).to_ne_bytes())
                        .map_err(|_| Error::internal("full"))
                });
                let bytes = child.and_then(|child| child.wait(&|| false)).expect("a child");
                u64::from_ne_bytes(bytes.as_ref().try_into().expect("eight bytes"))
            }
        }
        let expected = SumAfter(&rows).run::<InPlace>();
        let before: u64 = rows.rows().iter().map(|row| q6(|at| row[at])).sum();
        assert!(expected > before);
        for mechanism in Mechanism::ALL {
            assert_eq!(mechanism.run(SumAfter(&rows)), expected, "{}", mechanism.name());
        }
    }
}
