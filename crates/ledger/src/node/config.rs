//! The configuration file of a process, `ledger.toml` in a folder of its own. Paths in it are relative to that folder.

use crate::constraint::OrganizationConstraint;
use crate::error::{LedgerError, LedgerResult};
use crate::genesis::Genesis;
use crate::hash::unhex;
use crate::recovery::RecoveryClass;
use crate::signature::KeyPair;
use crate::statement::StatementVerb;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a configuration file in its folder.
pub const CONFIG_FILE: &str = "ledger.toml";

/// Over how many connections a block is executed where nothing else is said. It is of use to a database with as many cores, and
/// costs one with fewer nothing.
pub const CONNECTIONS_DEFAULT: u32 = 4;

/// The most connections.
const CONNECTIONS_MAX: u32 = 64;

/// After how many blocks there is a checkpoint where nothing is said. A checkpoint reads all rows, so it is not one for a few
/// blocks.
const CHECKPOINT_BLOCKS_DEFAULT: u64 = 1_000;

/// The pause between two audits in the background where nothing is said, in seconds, and the longest one. An audit reads all
/// rows; what it finds would otherwise wait for a block that touches the row, or the next checkpoint.
const AUDIT_SECONDS_DEFAULT: u64 = 300;
const AUDIT_SECONDS_MAX: u64 = 366 * 24 * 3_600;

/// How long a transaction waits for the ordering service where nothing is said, in seconds: longer than a group of servers needs
/// to elect a leader, or people to start a server again. And the longest time, after which transactions are forgotten.
const ORDERING_SECONDS_DEFAULT: u64 = 60;
const ORDERING_SECONDS_MAX: u64 = 240;

/// How long a constraint may take where nothing else is said, in milliseconds, and at most.
const CONSTRAINT_MS_DEFAULT: u64 = 2_000;
const CONSTRAINT_MS_MAX: u64 = 5_000;

/// For how many blocks an agreement is good where nothing else is said.
const AGREEMENT_BLOCKS_DEFAULT: u64 = 1_000;

/// What stands in a new organization's configuration about constraints.
pub(super) const CONSTRAINTS_HELP: &str = "
# Constraints that have to hold before this organization agrees to a transaction on a shared table with an agreement policy,
# CREATE SHARED TABLE ... WITH (agreement = '...'); without any it agrees to all. Each is a condition in the SQL of this
# organization's database, over the rows of the table after and before the statement (new, old) and any other table here:
#
# [[constraint]]
# name = \"enough in stock\"           # others see it when it does not hold
# table = \"trades\"
# on = [\"insert\"]                    # insert, update, delete; all of them where it is left out
# check = \"new.amount <= (SELECT amount FROM stocks WHERE stocks.product = new.product)\"
#
# There are also proposal (client, number, place, verb, statement, parameters), and new_rows and old_rows: those of all
# statements of the transaction. A condition that is unknown (NULL) does not hold. Above the first [[...]] may stand:
# constraint_ms = 2000                # how long a condition may take
# agreement_blocks = 1000             # for how many blocks an agreement is good
#
# How this organization comes back if its tables are not what the ledger certifies, and after how many blocks it makes a
# checkpoint for that (0: never); above the first [[...]], too:
# recovery = \"state\"                  # none, full-replay, partial-replay, optimized-full-replay, optimized-partial-replay
# checkpoint_blocks = 1000
#
# How long it waits between two audits in the background, which read all its shared tables (0: only when it is asked to):
# audit_seconds = 300
#
# After how many seconds in which a transaction waits and no block is ordered it dismisses the ordering service, if the founding
# document has another one (0: only for two orders of one number):
# ordering_seconds = 60
#
# Where a browser reads blocks, members, checkpoints and audits, without a password; without it nowhere:
# explorer = \"127.0.0.1:7080\"
";

/// What a party of a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartyRole {
    /// It has a database, a ledger file and a vote.
    Organization,
    /// It puts transactions in an order.
    Ordering,
    /// It signs transactions.
    Client,
}

/// A party as others know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyConfig {
    /// Its name: that of the founding document, and of its certificate.
    pub name: String,
    /// What it is.
    pub role: PartyRole,
    /// Host and port at which others find it; clients have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Of an ordering server: which ordering service it is one of, from 1, which is that of those where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<u32>,
    /// The file of its certificate.
    pub certificate: PathBuf,
}

/// How an ordering server makes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchConfig {
    /// A block has this many transactions at most.
    pub transactions_max: usize,
    /// A transaction waits this long at most for others, in milliseconds.
    pub wait_ms: u64,
}

/// A constraint of an organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintConfig {
    /// Its name; others see it when it does not hold.
    pub name: String,
    /// The shared table that it is about.
    pub table: String,
    /// `insert`, `update`, `delete`: the statements that it is about; all where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<String>>,
    /// The condition, in the SQL of the organization's database.
    pub check: String,
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The name of the party that the file is for.
    pub name: String,
    /// Host and port that it listens at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Of an organization: its database, as `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// Of an organization: over how many connections to its database it executes a block, 4 where nothing is said; 1 executes
    /// one transaction after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Of an organization: how it comes back if its tables are not what the ledger certifies, `state` where nothing is said; the
    /// words are those of [`RecoveryClass`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// Of an organization: after how many blocks it makes a checkpoint, 1,000 where nothing is said; 0 makes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_blocks: Option<u64>,
    /// Of an organization: the pause between two audits in the background, in seconds, 300 where nothing is said; 0 makes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_seconds: Option<u64>,
    /// Of an organization: how long a transaction waits for the ordering service before that is dismissed, in seconds, 60 where
    /// nothing is said; with 0 it is not dismissed for silence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordering_seconds: Option<u64>,
    /// Of an organization: host and port at which its explorer is read in a browser; there is none where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explorer: Option<String>,
    /// The founding document.
    pub founding: PathBuf,
    /// The secret key that it signs with.
    pub key: PathBuf,
    /// The secret key of its certificate.
    pub certificate_key: PathBuf,
    /// Of an organization: its ledger file; of an ordering server: its orders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Of an ordering server: how it makes blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchConfig>,
    /// Of an organization: how long a constraint may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint_ms: Option<u64>,
    /// Of an organization: for how many blocks its agreements are good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement_blocks: Option<u64>,
    /// Of an organization: what has to hold before it agrees to a transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraint: Vec<ConstraintConfig>,
    /// All parties.
    pub party: Vec<PartyConfig>,
}

/// A configuration with the folder that it is of.
#[derive(Debug, Clone)]
pub struct NodeFolder {
    /// The folder.
    pub path: PathBuf,
    /// What its file says.
    pub config: NodeConfig,
}

impl NodeFolder {
    /// Reads the configuration of a folder.
    ///
    /// # Errors
    /// [`LedgerError::File`] with what is wrong, and in which line.
    pub fn open(path: &Path) -> LedgerResult<NodeFolder> {
        let file = path.join(CONFIG_FILE);
        let text = std::fs::read_to_string(&file).map_err(|error| LedgerError::file(&file, error))?;
        let config: NodeConfig =
            toml::from_str(&text).map_err(|error| LedgerError::file(&file, error.to_string().trim()))?;
        Ok(NodeFolder { path: path.to_owned(), config })
    }

    /// The path of a file that the configuration names.
    pub fn resolve(&self, file: &Path) -> PathBuf {
        self.path.join(file)
    }

    /// The file that it keeps: the ledger or the orders.
    ///
    /// # Errors
    /// [`LedgerError::File`] if the configuration names none.
    pub fn kept_file(&self) -> LedgerResult<PathBuf> {
        self.require(self.config.file.as_ref(), "file").map(|file| self.resolve(file))
    }

    /// A setting that this role needs.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it is missing.
    pub fn require<'a, T>(&self, setting: Option<&'a T>, name: &str) -> LedgerResult<&'a T> {
        let missing = || LedgerError::file(&self.path.join(CONFIG_FILE), format!("\"{name}\" is missing"));
        setting.ok_or_else(missing)
    }

    /// Over how many connections a block is executed.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a number that does not do.
    pub fn connections(&self) -> LedgerResult<usize> {
        let connections = self.config.connections.unwrap_or(CONNECTIONS_DEFAULT);
        if (1..=CONNECTIONS_MAX).contains(&connections) {
            return Ok(connections as usize);
        }
        self.wrong(format!("\"connections\" is {connections}: 1 to {CONNECTIONS_MAX} are taken"))
    }

    /// How the organization comes back.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a word that is no class.
    pub fn recovery(&self) -> LedgerResult<RecoveryClass> {
        let Some(word) = &self.config.recovery else { return Ok(RecoveryClass::FromState) };
        let words = RecoveryClass::WORDS.join(", ");
        let wrong = || self.wrong(format!("\"recovery\" is \"{word}\": one of {words} is taken"));
        RecoveryClass::parse(word).map_or_else(wrong, Ok)
    }

    /// After how many blocks the organization makes a checkpoint; 0 makes none.
    pub fn checkpoint_blocks(&self) -> u64 {
        self.config.checkpoint_blocks.unwrap_or(CHECKPOINT_BLOCKS_DEFAULT)
    }

    /// The pause between two audits in the background; nothing if there are only those that people want.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a pause of more than a year.
    pub fn audit_pause(&self) -> LedgerResult<Option<Duration>> {
        match self.config.audit_seconds.unwrap_or(AUDIT_SECONDS_DEFAULT) {
            0 => Ok(None),
            seconds @ 1..=AUDIT_SECONDS_MAX => Ok(Some(Duration::from_secs(seconds))),
            other => self.wrong(format!("\"audit_seconds\" is {other}: up to {AUDIT_SECONDS_MAX} are taken")),
        }
    }

    /// How long a transaction waits for the ordering service; nothing if it waits for as long as it takes.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a time after which the transaction would be forgotten.
    pub fn ordering_patience(&self) -> LedgerResult<Option<Duration>> {
        match self.config.ordering_seconds.unwrap_or(ORDERING_SECONDS_DEFAULT) {
            0 => Ok(None),
            seconds @ 1..=ORDERING_SECONDS_MAX => Ok(Some(Duration::from_secs(seconds))),
            other => {
                self.wrong(format!("\"ordering_seconds\" is {other}: up to {ORDERING_SECONDS_MAX} are taken"))
            }
        }
    }

    fn wrong<T>(&self, reason: String) -> LedgerResult<T> {
        Err(LedgerError::file(&self.path.join(CONFIG_FILE), reason))
    }

    /// The organization's constraints.
    ///
    /// # Errors
    /// [`LedgerError::File`] with what does not do.
    pub fn constraints(&self) -> LedgerResult<Vec<OrganizationConstraint>> {
        let mut found: Vec<OrganizationConstraint> = Vec::new();
        for ConstraintConfig { name, table, on, check } in &self.config.constraint {
            if found.iter().any(|other| other.name == *name) {
                return self.wrong(format!("constraint \"{name}\" is there twice"));
            }
            if name.trim().is_empty() || name.len() > 100 || check.trim().is_empty() {
                let reason = "a name of up to 100 bytes and a condition are expected";
                return self.wrong(format!("constraint \"{name}\": {reason}"));
            }
            let mut verbs = Vec::new();
            for word in on.iter().flatten() {
                verbs.push(match word.as_str() {
                    "insert" => StatementVerb::Insert,
                    "update" => StatementVerb::Update,
                    "delete" => StatementVerb::Delete,
                    other => {
                        let reason = "\"insert\", \"update\" and \"delete\" are what it may be on";
                        return self.wrong(format!("constraint \"{name}\", on \"{other}\": {reason}"));
                    }
                });
            }
            let (name, table, check) = (name.clone(), table.to_ascii_lowercase(), check.clone());
            found.push(OrganizationConstraint { name, table, verbs, check });
        }
        Ok(found)
    }

    /// How long a constraint may take, in milliseconds.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a number that does not do.
    pub fn constraint_ms(&self) -> LedgerResult<u64> {
        match self.config.constraint_ms.unwrap_or(CONSTRAINT_MS_DEFAULT) {
            limit @ 10..=CONSTRAINT_MS_MAX => Ok(limit),
            other => self.wrong(format!("\"constraint_ms\" is {other}: 10 to {CONSTRAINT_MS_MAX} are taken")),
        }
    }

    /// For how many blocks the organization's agreements are good.
    ///
    /// # Errors
    /// [`LedgerError::File`] for a number that does not do.
    pub fn agreement_blocks(&self) -> LedgerResult<u64> {
        match self.config.agreement_blocks.unwrap_or(AGREEMENT_BLOCKS_DEFAULT) {
            0 => self.wrong("\"agreement_blocks\" is 0: an agreement is good for one block at least".into()),
            blocks => Ok(blocks),
        }
    }

    /// The founding document.
    ///
    /// # Errors
    /// [`LedgerError::File`], and those of [`Genesis::decode`].
    pub fn genesis(&self) -> LedgerResult<Genesis> {
        let path = self.resolve(&self.config.founding);
        let bytes = std::fs::read(&path).map_err(|error| LedgerError::file(&path, error))?;
        Genesis::decode(&bytes)
    }

    /// The secret key.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it cannot be read, is no key, or others than its owner may read it.
    pub fn keys(&self) -> LedgerResult<KeyPair> {
        read_key(&self.resolve(&self.config.key))
    }

    /// The secret key of the certificate, as PEM.
    ///
    /// # Errors
    /// [`LedgerError::File`] if it cannot be read, or others than its owner may read it.
    pub fn certificate_key(&self) -> LedgerResult<String> {
        read_secret(&self.resolve(&self.config.certificate_key))
    }
}

/// Reads a secret key.
pub(super) fn read_key(path: &Path) -> LedgerResult<KeyPair> {
    let text = read_secret(path)?;
    let seed = unhex(text.trim()).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let seed = seed.ok_or_else(|| LedgerError::file(path, "it is no key of 64 hexadecimal digits"))?;
    Ok(KeyPair::from_seed(&seed))
}

fn read_secret(path: &Path) -> LedgerResult<String> {
    use std::os::unix::fs::MetadataExt as _;
    let failed = |error: std::io::Error| LedgerError::file(path, error);
    let mode = std::fs::metadata(path).map_err(failed)?.mode();
    if mode & 0o077 != 0 {
        let reason = format!("others may read this secret: its mode is {:o}; chmod 600 it", mode & 0o777);
        return Err(LedgerError::file(path, reason));
    }
    std::fs::read_to_string(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(line: &str) -> NodeFolder {
        folder_with(line, "")
    }

    fn folder_with(line: &str, tables: &str) -> NodeFolder {
        let text = format!(
            "name = \"one\"\n{line}\nfounding = \"f\"\nkey = \"k\"\ncertificate_key = \"c\"\nparty = []\n{tables}"
        );
        NodeFolder { path: PathBuf::from("folder"), config: toml::from_str(&text).expect("a configuration") }
    }

    #[test]
    fn constraints_are_read_and_what_does_not_do_is_named() {
        let constraint = |more: &str| {
            let line = "name = \"stock\"\ntable = \"Trades\"\ncheck = \"new.amount <= 5\"";
            folder_with("", &format!("[[constraint]]\n{line}\n{more}"))
        };
        let found = constraint("on = [\"insert\", \"update\"]").constraints().expect("constraints");
        assert_eq!((found[0].name.as_str(), found[0].table.as_str()), ("stock", "trades"));
        assert_eq!(found[0].verbs, [StatementVerb::Insert, StatementVerb::Update]);
        let twice = "[[constraint]]\nname = \"stock\"\ntable = \"t\"\ncheck = \"true\"";
        for (folder, reason) in [
            (constraint("on = [\"select\"]"), "on \"select\""),
            (constraint(twice), "there twice"),
            (folder_with("", &twice.replace("true", " ")), "a condition"),
        ] {
            let said = folder.constraints().expect_err(reason).to_string();
            assert!(said.contains(reason), "{said}");
        }
        let limits = |line: &str| (folder(line).constraint_ms(), folder(line).agreement_blocks());
        assert_eq!(limits(""), (Ok(2_000), Ok(1_000)));
        assert_eq!(limits("constraint_ms = 50\nagreement_blocks = 3"), (Ok(50), Ok(3)));
        assert!(limits("constraint_ms = 60000").0.is_err() && limits("agreement_blocks = 0").1.is_err());
        // The example that new configurations have.
        let lines = CONSTRAINTS_HELP.lines().skip_while(|line| *line != "# [[constraint]]");
        let lines = lines.take_while(|line| *line != "#").map(|line| line.trim_start_matches("# "));
        let example = lines.collect::<Vec<_>>().join("\n");
        assert_eq!(folder_with("", &example).constraints().expect("the example").len(), 1);
    }

    #[test]
    fn a_recovery_is_from_a_state_or_one_of_the_classes_and_a_checkpoint_comes_every_thousand_blocks() {
        assert_eq!(folder("").recovery(), Ok(RecoveryClass::FromState));
        for (word, class) in RecoveryClass::WORDS.into_iter().zip(RecoveryClass::ALL) {
            assert_eq!(folder(&format!("recovery = \"{word}\"")).recovery(), Ok(class));
            assert_eq!(class.to_string(), word);
        }
        let said = folder("recovery = \"replay\"").recovery().expect_err("no class").to_string();
        assert!(said.contains("\"replay\": one of none, state, full-replay"), "{said}");
        assert_eq!(
            (folder("").checkpoint_blocks(), folder("checkpoint_blocks = 0").checkpoint_blocks()),
            (1000, 0)
        );
    }

    #[test]
    fn connections_are_four_or_what_is_said_within_bounds() {
        assert_eq!(folder("").connections(), Ok(4));
        assert_eq!(folder("connections = 1").connections(), Ok(1));
        assert_eq!(folder("connections = 64").connections(), Ok(64));
        for line in ["connections = 0", "connections = 65"] {
            let said = folder(line).connections().expect_err(line).to_string();
            assert!(said.contains("1 to 64 are taken"), "{said}");
        }
    }
}
