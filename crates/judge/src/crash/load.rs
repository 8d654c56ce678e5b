//! What runs when the server is killed, and what it knows to be done.

use super::{ACCOUNTS, BALANCE, rows};
use crate::wire::ServerConnection;
use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Connections that transfer money.
pub(super) const TRANSFERS: usize = 4;
/// The one of them that does not wait for the disk.
pub(super) const WITHOUT_WAIT: usize = TRANSFERS - 1;
/// Rows of a batch.
pub(super) const BATCH_ROWS: u64 = 20_000;
/// Steps of definitions for each table.
pub(super) const STEPS: u64 = 5;
/// Tags of keys.
pub(super) const TAGS: u64 = 17;
/// Rows of a batch of keys.
const KEYS: u64 = 40;

/// A count of commits: those acknowledged, and those sent, of which the last one may not have been.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counted {
    pub acknowledged: u64,
    pub sent: u64,
}

impl Counted {
    /// What was found is what is known from now on.
    pub(super) fn found(&mut self, value: u64) {
        (self.acknowledged, self.sent) = (value, value);
    }

    /// Whether a count is possible.
    pub(super) fn allows(self, value: u64) -> bool {
        (self.acknowledged..=self.sent).contains(&value)
    }

    fn advance(&mut self, client: &mut ServerConnection, sql: &str) -> io::Result<bool> {
        self.sent = self.acknowledged + 1;
        let done = commit(client, sql)?;
        if done {
            self.acknowledged = self.sent;
        } else {
            self.sent = self.acknowledged;
        }
        Ok(done)
    }
}

/// What is known to be done.
#[derive(Clone, Default, Debug)]
pub(super) struct Acknowledged {
    /// By the connections that transfer.
    pub transfers: [Counted; TRANSFERS],
    /// What a reader has seen of them.
    pub seen: [u64; TRANSFERS],
    pub batches: Counted,
    pub batches_deleted: Counted,
    pub steps: Counted,
    pub keys: Counted,
    /// Checkpoints, which change nothing.
    pub checkpoints: u64,
}

impl Acknowledged {
    /// What a copy may show that has at least this, and at most that.
    pub(super) fn up_to(&self, most: &Acknowledged) -> Acknowledged {
        let between =
            |least: Counted, most: Counted| Counted { acknowledged: least.acknowledged, sent: most.sent };
        Acknowledged {
            transfers: std::array::from_fn(|worker| between(self.transfers[worker], most.transfers[worker])),
            seen: self.seen,
            batches: between(self.batches, most.batches),
            batches_deleted: between(self.batches_deleted, most.batches_deleted),
            steps: between(self.steps, most.steps),
            keys: between(self.keys, most.keys),
            checkpoints: self.checkpoints,
        }
    }

    /// All commits.
    pub(super) fn commits(&self) -> u64 {
        let transfers: u64 = self.transfers.iter().map(|counted| counted.acknowledged).sum();
        transfers
            + self.batches.acknowledged
            + self.batches_deleted.acknowledged
            + self.steps.acknowledged
            + self.keys.acknowledged
    }
}

/// Makes the tables.
pub(super) fn set_up(client: &mut ServerConnection) -> io::Result<()> {
    for sql in [
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance > -1000000))",
        "CREATE TABLE counter (worker int PRIMARY KEY, value bigint NOT NULL)",
        "CREATE TABLE journal (worker int, n bigint, source int REFERENCES account, target int REFERENCES account, \
         amount bigint, note text, PRIMARY KEY (worker, n))",
        "CREATE INDEX journal_source ON journal (source)",
        "CREATE TABLE big (batch bigint, n int, note text, PRIMARY KEY (batch, n))",
        "CREATE TABLE keys_done (id int PRIMARY KEY, value bigint NOT NULL)",
        "CREATE TABLE item (id serial PRIMARY KEY, code text UNIQUE, tag int NOT NULL)",
        "CREATE INDEX item_tag ON item (tag)",
        "CREATE TABLE part (item int REFERENCES item ON DELETE CASCADE, note text)",
        "INSERT INTO keys_done VALUES (1, 0)",
        &format!("INSERT INTO account SELECT n, {BALANCE} FROM generate_series(1, {ACCOUNTS}) AS n"),
        &format!("INSERT INTO counter SELECT n, 0 FROM generate_series(0, {}) AS n", TRANSFERS - 1),
    ] {
        rows(client, sql)?;
    }
    Ok(())
}

type Worker = JoinHandle<(Acknowledged, io::Result<()>)>;

/// Connections at work.
pub(super) struct CrashLoad(Vec<Worker>);

impl CrashLoad {
    /// Starts, from what is known.
    pub(super) fn start(
        address: SocketAddr,
        known: &Acknowledged,
        plants_loss: bool,
        seed: u64,
    ) -> io::Result<CrashLoad> {
        let mut workers = Vec::new();
        for kind in 0..TRANSFERS + 5 {
            let mut client = ServerConnection::connect(address, "judge", "ankerdb")?;
            let (mut known, mut random) = (known.clone(), fastrand::Rng::with_seed(seed ^ kind as u64));
            workers.push(thread::spawn(move || {
                if plants_loss || kind == WITHOUT_WAIT {
                    let _ = client.simple("SET synchronous_commit = off");
                }
                let ended = loop {
                    let done = match kind.checked_sub(TRANSFERS) {
                        None => transfer(&mut client, kind, &mut known, &mut random),
                        Some(0) => batch(&mut client, &mut known),
                        Some(1) => step(&mut client, &mut known),
                        Some(2) => keys(&mut client, &mut known),
                        Some(3) => look(&mut client, &mut known),
                        Some(_) => checkpoint(&mut client, &mut known, &mut random),
                    };
                    if let Err(error) = done {
                        break error;
                    }
                };
                // The end of the server is what all wait for; an error that it told is something else.
                let is_told = ended.kind() == io::ErrorKind::Other;
                (known, if is_told { Err(ended) } else { Ok(()) })
            }));
        }
        Ok(CrashLoad(workers))
    }

    /// Waits until all have noticed that the server is gone; adds what they know. Returns what failed otherwise.
    pub(super) fn end(self, known: &mut Acknowledged) -> Vec<String> {
        let mut failures = Vec::new();
        for (kind, worker) in self.0.into_iter().enumerate() {
            let Ok((own, ended)) = worker.join() else {
                failures.push("a connection's thread has panicked".into());
                continue;
            };
            failures.extend(ended.err().map(|error| error.to_string()));
            match kind.checked_sub(TRANSFERS) {
                None => known.transfers[kind] = own.transfers[kind],
                Some(0) => (known.batches, known.batches_deleted) = (own.batches, own.batches_deleted),
                Some(1) => known.steps = own.steps,
                Some(2) => known.keys = own.keys,
                Some(3) => known.seen = own.seen,
                Some(_) => known.checkpoints = own.checkpoints,
            }
        }
        failures
    }
}

/// Runs statements that end with a commit; returns whether they did, and not in vain because of others.
fn commit(client: &mut ServerConnection, sql: &str) -> io::Result<bool> {
    let answer = client.simple(sql)?;
    match answer.error.as_deref() {
        None => Ok(true),
        Some("40001" | "40P01") => {
            client.simple("ROLLBACK")?;
            Ok(false)
        }
        // The server is about to end.
        Some("57P01") => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
        Some(state) => Err(io::Error::other(format!("{sql}: {state} {}", answer.message))),
    }
}

/// Moves money, and writes down that it has.
fn transfer(
    client: &mut ServerConnection,
    worker: usize,
    known: &mut Acknowledged,
    random: &mut fastrand::Rng,
) -> io::Result<()> {
    let (source, target) = (random.u64(1..=ACCOUNTS), random.u64(1..=ACCOUNTS));
    let (amount, counted) = (random.u64(1..10), &mut known.transfers[worker]);
    let (number, note) = (counted.acknowledged + 1, "a note that is longer than twelve bytes");
    let sql = format!(
        "BEGIN; UPDATE account SET balance = balance - {amount} WHERE id = {source}; \
         UPDATE account SET balance = balance + {amount} WHERE id = {target}; \
         INSERT INTO journal VALUES ({worker}, {number}, {source}, {target}, {amount}, '{note}'); \
         UPDATE counter SET value = {number} WHERE worker = {worker}; COMMIT"
    );
    counted.advance(client, &sql).map(drop)
}

/// Adds many rows at once, or takes those of an earlier batch out.
fn batch(client: &mut ServerConnection, known: &mut Acknowledged) -> io::Result<()> {
    if known.batches.acknowledged < known.batches_deleted.acknowledged + 2 {
        let number = known.batches.acknowledged + 1;
        let sql = format!(
            "INSERT INTO big SELECT {number}, n, 'row ' || n || ' of a batch' FROM generate_series(1, {BATCH_ROWS}) AS n"
        );
        known.batches.advance(client, &sql).map(drop)
    } else {
        let number = known.batches_deleted.acknowledged + 1;
        known.batches_deleted.advance(client, &format!("DELETE FROM big WHERE batch = {number}")).map(drop)
    }
}

/// Defines something.
fn step(client: &mut ServerConnection, known: &mut Acknowledged) -> io::Result<()> {
    let (table, step) = (known.steps.acknowledged / STEPS, known.steps.acknowledged % STEPS);
    let sql = match step {
        0 => format!(
            "BEGIN; CREATE TABLE d_{table} (id int PRIMARY KEY, v text DEFAULT 'none', CHECK (id > 0)); \
             INSERT INTO d_{table} (id) SELECT n FROM generate_series(1, 10) AS n; COMMIT"
        ),
        1 => format!("ALTER TABLE d_{table} ADD COLUMN w bigint DEFAULT {table}"),
        2 => format!("CREATE INDEX d_{table}_w ON d_{table} (w, id)"),
        3 => format!("INSERT INTO d_{table} VALUES (11, 'eleven', 11)"),
        _ if table < 2 => format!("COMMENT ON TABLE d_{table} IS 'stays'"),
        _ => format!("DROP TABLE d_{}", table - 2),
    };
    known.steps.advance(client, &sql).map(drop)
}

/// Lets keys come, and those of before go.
fn keys(client: &mut ServerConnection, known: &mut Acknowledged) -> io::Result<()> {
    let number = known.keys.acknowledged + 1;
    let sql = format!(
        "BEGIN; DELETE FROM item WHERE code < 'k{:08}'; \
         INSERT INTO item (code, tag) SELECT 'k{number:08}-' || n, ({number} + n) % {TAGS} FROM generate_series(1, {KEYS}) AS n; \
         INSERT INTO part SELECT id, code FROM item WHERE code >= 'k{number:08}'; \
         UPDATE item SET tag = (tag + 1) % {TAGS}, code = code || 'x' WHERE tag = {}; \
         UPDATE keys_done SET value = {number} WHERE id = 1; COMMIT",
        number.saturating_sub(2),
        number % TAGS,
    );
    known.keys.advance(client, &sql).map(drop)
}

/// Makes a checkpoint after a while.
fn checkpoint(
    client: &mut ServerConnection,
    known: &mut Acknowledged,
    random: &mut fastrand::Rng,
) -> io::Result<()> {
    thread::sleep(Duration::from_millis(random.u64(0..80)));
    if commit(client, "CHECKPOINT")? {
        known.checkpoints += 1;
    }
    Ok(())
}

/// Reads what others have committed: it may know of nothing that a kill undoes.
fn look(client: &mut ServerConnection, known: &mut Acknowledged) -> io::Result<()> {
    let answer = client.simple("SELECT value FROM counter ORDER BY worker")?;
    if answer.error.is_some() {
        return Err(io::Error::from(io::ErrorKind::ConnectionAborted));
    }
    for (seen, row) in known.seen.iter_mut().zip(answer.rows) {
        *seen = row.first().cloned().flatten().and_then(|value| value.parse().ok()).unwrap_or(0);
    }
    Ok(())
}
