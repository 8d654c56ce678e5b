//! A network in one process: the ordering service and the organizations, each with a thread while it works. They hand each
//! other signed byte strings and nothing else, so that a network of processes can take the place of this file.

use crate::change::{RowChange, digest_hash};
use crate::consensus::VoteCount;
use crate::error::{LedgerError, LedgerResult};
use crate::message::OrderedBlock;
use crate::organization::{Decision, Organization};
use crate::recovery::{RecoveryClass, RecoveryReport};
use crate::signature::KeyPair;

/// How many rows a report names.
const ROWS_SHOWN: usize = 8;

/// A member that was outvoted.
#[derive(Debug, Clone)]
pub struct OutvotedMember {
    /// Its name.
    pub name: String,
    /// In what its header differs.
    pub differences: Vec<String>,
    /// Changes of rows that it has differently, some of them.
    pub rows: Vec<String>,
    /// How it came back, or why it did not.
    pub recovery: Option<Result<RecoveryReport, LedgerError>>,
}

/// What became of a block.
#[derive(Debug, Clone)]
pub struct BlockReport {
    /// Which block.
    pub height: u64,
    /// Its transactions.
    pub transactions: usize,
    /// Those that have succeeded.
    pub succeeded: usize,
    /// Why others have not, by their place.
    pub failures: Vec<(usize, String)>,
    /// Members that have it.
    pub consenting: Vec<String>,
    /// Members that had something else.
    pub outvoted: Vec<OutvotedMember>,
    /// Members that could not execute it or commit it, and why.
    pub lost: Vec<(String, LedgerError)>,
    /// Messages that did not count.
    pub faults: Vec<String>,
    /// Members that have executed it on one connection, after they had begun on several, and why.
    pub serial: Vec<(String, String)>,
}

/// The organizations of a network and its ordering service.
pub struct LedgerNetwork {
    /// By their places in the founding document.
    pub organizations: Vec<Organization>,
    /// How outvoted members come back.
    pub recovery: RecoveryClass,
    ordering: KeyPair,
}

/// Runs `work` for every organization in a thread of its own.
fn in_parallel<T: Send>(
    organizations: &mut [Organization],
    work: impl Fn(usize, &mut Organization) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let started: Vec<_> = organizations
            .iter_mut()
            .enumerate()
            .map(|(at, organization)| scope.spawn(move || work(at, organization)))
            .collect();
        started.into_iter().map(|thread| thread.join().expect("an organization does not panic")).collect()
    })
}

impl LedgerNetwork {
    /// A network of these organizations.
    pub fn new(
        organizations: Vec<Organization>,
        ordering: KeyPair,
        recovery: RecoveryClass,
    ) -> LedgerNetwork {
        LedgerNetwork { organizations, ordering, recovery }
    }

    /// The highest block that an organization has.
    pub fn height(&self) -> u64 {
        self.organizations.iter().map(|organization| organization.chain().height).max().unwrap_or_default()
    }

    /// Orders signed proposals as the next block, executes and votes on it everywhere, and brings outvoted members back.
    ///
    /// # Errors
    /// [`LedgerError::NoQuorum`] with which members disagree on what; the block is in no database then.
    pub fn commit_block(&mut self, proposals: Vec<Vec<u8>>) -> LedgerResult<BlockReport> {
        let order = self.order(proposals);
        self.commit_orders(&vec![order; self.organizations.len()])
    }

    /// A signed order of proposals as the next block.
    pub fn order(&self, proposals: Vec<Vec<u8>>) -> Vec<u8> {
        let network = self.organizations[0].chain().network;
        OrderedBlock { network, height: self.height() + 1, proposals }.sign(&self.ordering)
    }

    /// Hands each organization an order; an ordering service that cannot be trusted may hand out different ones.
    ///
    /// # Errors
    /// Those of [`LedgerNetwork::commit_block`].
    pub fn commit_orders(&mut self, orders: &[Vec<u8>]) -> LedgerResult<BlockReport> {
        let round = self.organizations.iter().map(Organization::next_round).max().unwrap_or(1);
        let execute =
            |at: usize, organization: &mut Organization| organization.execute_in(&orders[at], round);
        let executed = in_parallel(&mut self.organizations, execute);
        let mut lost: Vec<(usize, LedgerError)> = Vec::new();
        let mut votes = Vec::new();
        for (at, vote) in executed.into_iter().enumerate() {
            match vote {
                Ok(vote) => votes.push(vote),
                Err(error) => lost.push((at, error)),
            }
        }
        let is_lost: Vec<usize> = lost.iter().map(|(at, _)| *at).collect();
        let decide = |at: usize, organization: &mut Organization| {
            (!is_lost.contains(&at)).then(|| organization.decide(&votes))
        };
        let decisions = in_parallel(&mut self.organizations, decide);
        let mut committed = Vec::new();
        let mut count = None;
        for (at, decision) in decisions.into_iter().enumerate() {
            match decision {
                Some(Ok(Decision::Committed(counted))) => {
                    committed.push(at);
                    count = Some(counted);
                }
                Some(Ok(Decision::Outvoted(counted) | Decision::Undecided(counted))) => {
                    count = count.or(Some(counted))
                }
                Some(Err(error)) => lost.push((at, error)),
                None => {}
            }
        }
        let count = count.unwrap_or_default();
        if committed.is_empty() {
            return Err(LedgerError::NoQuorum(self.explain(&count, &lost)));
        }
        Ok(self.report(count, &committed, lost))
    }

    fn name(&self, at: usize) -> String {
        self.organizations[at].name().to_owned()
    }

    fn explain(&self, count: &VoteCount, lost: &[(usize, LedgerError)]) -> String {
        let mut text = count.explain(&self.organizations[0].chain().genesis, self.height() + 1);
        for (at, error) in lost {
            text.push_str(&format!("; \"{}\": {error}", self.name(*at)));
        }
        text
    }

    fn report(
        &mut self,
        count: VoteCount,
        committed: &[usize],
        lost: Vec<(usize, LedgerError)>,
    ) -> BlockReport {
        let winner = count.winner.expect("somebody has committed");
        let first = committed[0];
        let failures = self.organizations[first].last_executed().map(|block| block.failures.clone());
        let serial = self.serial_executions();
        let mut outvoted = Vec::new();
        for dissent in count.dissents {
            let rows = self.differing_rows(dissent.member, first);
            let recovery = self.recover(dissent.member, committed);
            // Where it did not come back its block is still open, with locks on what it has written.
            self.organizations[dissent.member].abandon();
            outvoted.push(OutvotedMember {
                name: dissent.name,
                differences: dissent.differences,
                rows,
                recovery,
            });
        }
        BlockReport {
            height: winner.height,
            transactions: winner.outcomes.count(),
            succeeded: winner.outcomes.succeeded(),
            failures: failures.unwrap_or_default(),
            consenting: committed.iter().map(|at| self.name(*at)).collect(),
            outvoted,
            lost: lost.into_iter().map(|(at, error)| (self.name(at), error)).collect(),
            faults: count.faults,
            serial,
        }
    }

    fn serial_executions(&self) -> Vec<(String, String)> {
        let reason = |organization: &Organization| {
            let reason = organization.last_executed()?.serial_because.clone()?;
            Some((organization.name().to_owned(), reason))
        };
        self.organizations.iter().filter_map(reason).collect()
    }

    /// Brings a member back, from the first donor with which that succeeds.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn recover(
        &mut self,
        member: usize,
        donors: &[usize],
    ) -> Option<Result<RecoveryReport, LedgerError>> {
        if self.recovery == RecoveryClass::None {
            return None;
        }
        let mut last = Err(LedgerError::NoQuorum("there is no consenting member".into()));
        for &donor in donors.iter().filter(|donor| **donor != member) {
            let [own, donor] = self.organizations.get_disjoint_mut([member, donor]).expect("two members");
            last = match self.recovery {
                RecoveryClass::FromState => own.recover_from_state(donor),
                class => own.recover_by_replay(class, Some(donor)),
            };
            if last.is_ok() {
                break;
            }
        }
        Some(last)
    }

    /// Changes of the last block that one member has differently from another one. Each member's changes are believed if they
    /// have the digest that it has voted for.
    fn differing_rows(&self, member: usize, other: usize) -> Vec<String> {
        let changes = |at: usize| {
            let block = self.organizations[at].last_executed();
            block
                .filter(|block| digest_hash(&block.changes) == block.block.header.digest)
                .map(|block| &block.changes)
        };
        let (Some(own), Some(others)) = (changes(member), changes(other)) else { return Vec::new() };
        let tables = &self.organizations[other].chain().tables;
        let show = |change: &RowChange| change.show(tables.get(&change.table));
        let only = |these: &[RowChange], those: &[RowChange]| -> Vec<RowChange> {
            these.iter().filter(|change| those.binary_search(change).is_err()).cloned().collect()
        };
        let (mut own_only, others_only) = (only(own, others), only(others, own));
        // The first change of each row says what it began with; the rest follows from it.
        own_only.dedup_by(|next, first| (&next.table, &next.key) == (&first.table, &first.key));
        let mut found = Vec::new();
        for change in own_only.iter().take(ROWS_SHOWN) {
            let is_it = |other: &&RowChange| (&other.table, &other.key) == (&change.table, &change.key);
            let instead = others_only.iter().find(is_it).map_or("no change".to_owned(), show);
            found.push(format!("{} instead of {instead}", show(change)));
        }
        if own_only.is_empty() {
            found.extend(
                others_only
                    .iter()
                    .take(ROWS_SHOWN)
                    .map(|change| format!("nothing instead of {}", show(change))),
            );
        }
        found
    }
}
