//! One statement on both servers, in all the ways that must give the same answer.

use crate::answer::{Answer, Aspect, Difference, RowOrder, differences};
use crate::query::is_ordered;
use crate::server::{COMPILES_ALL, COMPILES_SOME, Server};
use crate::tree::Tree;
use crate::wire::ServerConnection;
use std::collections::BTreeMap;
use std::io;

/// How AnKerDB is queried. PostgreSQL is queried by the simple protocol, and in the same way where parameters are
/// sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Simple protocol; the planner chooses the path.
    Simple,
    /// Extended protocol, without parameters.
    Extended,
    /// Extended protocol, constants as parameters.
    Parameters,
    /// Like that, by a statement that has run before with the same parameters and then with NULLs, so that its plan is used again; as
    /// users have it, without code for the fewest rows.
    Again,
    /// As a subquery, which the OLTP path never runs.
    Olap,
}

/// The ways of a query.
pub const WAYS: [Way; 5] = [Way::Simple, Way::Extended, Way::Parameters, Way::Again, Way::Olap];

impl Way {
    /// As it is written in the list of differences.
    pub fn word(self) -> &'static str {
        match self {
            Way::Simple => "simple",
            Way::Extended => "extended",
            Way::Parameters => "parameters",
            Way::Again => "again",
            Way::Olap => "olap",
        }
    }
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The measure.
    Postgres,
    /// What is measured.
    AnKerDb,
}

/// What a step does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: a query.
    Read,
    /// It may change data, definitions or the transaction.
    Change,
}

/// A statement of a case.
#[derive(Debug, Clone)]
pub struct Step {
    /// The statement.
    pub tree: Tree,
    /// How its rows are compared.
    pub order: RowOrder,
    /// What it does.
    pub kind: Effect,
    /// The way of a change. (Queries are asked in all ways.)
    pub way: Way,
}

impl Step {
    /// A statement that changes something, by the simple protocol.
    pub fn change(tree: Tree) -> Step {
        Step { tree, order: RowOrder::Any, kind: Effect::Change, way: Way::Simple }
    }

    /// A query.
    pub fn read(tree: Tree, order: RowOrder) -> Step {
        Step { tree, order, kind: Effect::Read, way: Way::Simple }
    }
}

/// A difference and the way in which it shows.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The way.
    pub way: Way,
    /// What differs.
    pub difference: Difference,
}

/// A mistake made on purpose, which the judge must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// None.
    Nothing,
    /// The last row is lost where a statement of AnKerDB's mentions `max(`.
    LostRow,
    /// A division by zero is no error.
    LostError,
    /// Integers are declared as bigints, by the extended protocol only.
    WrongType,
}

impl Plant {
    /// By its name.
    pub fn named(name: &str) -> Option<Plant> {
        match name {
            "lost-row" => Some(Plant::LostRow),
            "lost-error" => Some(Plant::LostError),
            "wrong-type" => Some(Plant::WrongType),
            _ => None,
        }
    }

    fn spoil(self, way: Way, sql: &str, answer: &mut Answer) {
        match self {
            Plant::LostRow if sql.contains("max(") => drop(answer.rows.pop()),
            Plant::LostError if answer.error.as_deref() == Some("22012") => answer.error = None,
            Plant::WrongType if way == Way::Extended => {
                answer
                    .columns
                    .iter_mut()
                    .filter(|column| column.oid == 23)
                    .for_each(|column| column.oid = 20);
            }
            _ => {}
        }
    }
}

/// Both servers, and a session on each.
pub struct Judge {
    postgres: Server,
    ankerdb: Server,
    left: ServerConnection,
    right: ServerConnection,
    plant: Plant,
    /// Statements sent to AnKerDB.
    pub asked: u64,
    /// How often PostgreSQL refused one, by SQLSTATE.
    pub refused: BTreeMap<String, u64>,
}

impl Judge {
    /// Sessions on both.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn new(postgres: Server, ankerdb: Server, plant: Plant) -> io::Result<Judge> {
        let (left, right) = (postgres.connect()?, ankerdb.connect()?);
        Ok(Judge { postgres, ankerdb, left, right, plant, asked: 0, refused: BTreeMap::new() })
    }

    /// Both databases without any table: new sessions, and AnKerDB starts again.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn reset(&mut self) -> io::Result<()> {
        self.postgres.reset()?;
        self.ankerdb.reset()?;
        self.left = self.postgres.connect()?;
        self.right = self.ankerdb.connect()?;
        Ok(())
    }

    /// Both databases without the tables `t0`, `t1`, `t2` that cases use. Cheaper than [`Judge::reset`].
    ///
    /// # Errors
    /// When PostgreSQL does not answer.
    pub fn clear(&mut self) -> io::Result<()> {
        let clear = |client: &mut ServerConnection| {
            if client.status != 'I' {
                client.simple("ROLLBACK")?;
            }
            client.simple("DROP TABLE IF EXISTS t0, t1, t2")
        };
        clear(&mut self.left)?;
        match clear(&mut self.right) {
            Ok(answer) if answer.error.is_none() => Ok(()),
            _ => self.revive(),
        }
    }

    /// Replaces an AnKerDB that died or hangs.
    fn revive(&mut self) -> io::Result<()> {
        self.ankerdb.reset()?;
        self.right = self.ankerdb.connect()?;
        Ok(())
    }

    /// One more session on each server, for tests with several.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn sessions(&self) -> io::Result<(ServerConnection, ServerConnection)> {
        Ok((self.postgres.connect()?, self.ankerdb.connect()?))
    }

    /// Empties both databases for statements that others wrote, of which none may reach the machine's files: their sessions
    /// are of a user without rights.
    ///
    /// # Errors
    /// When a server does not answer, or PostgreSQL refuses.
    pub fn reset_for_guests(&mut self) -> io::Result<()> {
        let gone = "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'guest') THEN DROP OWNED BY guest CASCADE; \
            ELSE CREATE ROLE guest LOGIN; END IF; END $$";
        let rights =
            "GRANT ALL ON SCHEMA public TO guest; GRANT CREATE, TEMPORARY ON DATABASE postgres TO guest";
        self.left.simple(gone)?;
        self.reset()?;
        let granted = self.left.simple(rights)?;
        granted
            .error
            .map_or(Ok(()), |code| Err(io::Error::other(format!("{rights}: {code} {}", granted.message))))
    }

    /// A session of that user on each server.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn guests(&self) -> io::Result<(ServerConnection, ServerConnection)> {
        Ok((self.postgres.connect_as("guest")?, self.ankerdb.connect_as("guest")?))
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.left.status != 'I' || self.right.status != 'I'
    }

    /// Runs a statement on both without comparing.
    ///
    /// # Errors
    /// When a server does not answer; AnKerDB runs again, empty, then.
    pub fn replay(&mut self, step: &Step) -> io::Result<()> {
        match self.both(&step.tree, step.way) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.revive()?;
                Err(error)
            }
        }
    }

    /// Runs a step on both and compares. A query outside of a transaction runs in all ways.
    ///
    /// # Errors
    /// When PostgreSQL does not answer. That AnKerDB does not is a finding.
    pub fn run(&mut self, step: &Step) -> io::Result<Vec<Finding>> {
        if step.kind == Effect::Change || self.in_transaction() {
            return self.compare(&step.tree, step.way, step.order);
        }
        let mut found = Vec::new();
        for way in WAYS {
            found.extend(self.compare(&step.tree, way, step.order)?);
        }
        Ok(found)
    }

    /// Runs a statement on both in one way, and compares.
    ///
    /// # Errors
    /// Those of [`Judge::run`].
    pub fn compare(&mut self, tree: &Tree, way: Way, order: RowOrder) -> io::Result<Vec<Finding>> {
        let sql = tree.sql();
        let order = if way != Way::Olap && is_ordered(&sql) { order } else { RowOrder::Any };
        let (postgres, ankerdb) = match self.both(tree, way) {
            Ok(answers) => answers,
            Err(error) => {
                self.revive()?;
                // PostgreSQL is the measure: without it there is nothing to compare.
                self.left.simple("SELECT 1")?;
                let difference = Difference {
                    aspect: Aspect::Silence,
                    postgres: "answers".into(),
                    ankerdb: error.to_string(),
                };
                return Ok(vec![Finding { way, difference }]);
            }
        };
        let differences = differences(&postgres, &ankerdb, order);
        Ok(differences.into_iter().map(|difference| Finding { way, difference }).collect())
    }

    /// Which path AnKerDB would take for the query; `None` if it refuses the query, or is PostgreSQL in a control.
    ///
    /// # Errors
    /// When AnKerDB does not answer.
    pub fn plan(&mut self, sql: &str) -> io::Result<Option<&'static str>> {
        if self.ankerdb.is_postgres() {
            return Ok(None);
        }
        let plan = self.right.simple(&format!("EXPLAIN {sql}"))?;
        let first = plan.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
        Ok(first.map(|line| if line.contains("Exec") { "olap" } else { "oltp" }))
    }

    /// How a server refuses the statement, if it does. It changes nothing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn refusal(&mut self, side: Side, tree: &Tree, way: Way) -> io::Result<Option<String>> {
        let client = match side {
            Side::Postgres => &mut self.left,
            Side::AnKerDb => &mut self.right,
        };
        let (begin, end) = match client.status {
            'I' => ("BEGIN", "ROLLBACK"),
            _ => ("SAVEPOINT refusal", "ROLLBACK TO refusal"),
        };
        client.simple(begin)?;
        let answer = match way {
            Way::Parameters | Way::Again => {
                let (sql, parameters) = tree.parameterized();
                client.extended(&sql, &parameters)?
            }
            _ => client.simple(&tree.sql())?,
        };
        client.simple(end)?;
        Ok(answer.error)
    }

    fn both(&mut self, tree: &Tree, way: Way) -> io::Result<(Answer, Answer)> {
        let sql = tree.sql();
        self.asked += 1;
        let (left, mut right) = match way {
            Way::Simple => (self.left.simple(&sql)?, self.right.simple(&sql)?),
            Way::Extended => (self.left.simple(&sql)?, self.right.extended(&sql, &[])?),
            Way::Olap => (self.left.simple(&sql)?, self.right.simple(&wrapped(&sql))?),
            Way::Parameters => {
                let (sql, parameters) = tree.parameterized();
                (self.left.extended(&sql, &parameters)?, self.right.extended(&sql, &parameters)?)
            }
            Way::Again => {
                let (sql, parameters) = tree.parameterized();
                let nulls = vec![None; parameters.len()];
                let runs = [&parameters, &nulls, &parameters];
                self.right.simple(COMPILES_SOME)?;
                let right = self.right.extended_again(&sql, &runs)?;
                self.right.simple(COMPILES_ALL)?;
                (self.left.extended(&sql, &parameters)?, right)
            }
        };
        if let Some(code) = &left.error {
            *self.refused.entry(code.clone()).or_default() += 1;
        }
        self.plant.spoil(way, &sql, &mut right);
        Ok((left, right))
    }
}

/// The query as a subquery of one that the OLTP path does not take.
pub fn wrapped(sql: &str) -> String {
    // On lines of its own: it may end in a comment.
    format!("SELECT * FROM (\n{}\n) AS whole", sql.trim().trim_end_matches(';'))
}
