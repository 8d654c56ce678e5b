//! One row: header, cells, version chain, and what its block keeps for readers that copy columns.

use ankerdb_base::{Timestamp, failpoint};

use super::{RowStep, without};
use crate::pending::{Decision, PendingCommits};
use crate::primitive::{AtomicPtr, AtomicU64, Ordering, UnsafeCell, fence};

const LOCKED: u64 = 1 << 63;
const INSTALLING: u64 = 1 << 62;
const PENDING: u64 = 1 << 60;
const SWEPT: u64 = 1 << 59;
pub(super) const TIMESTAMP: u64 = PENDING | (SWEPT - 1);

pub(crate) const COLUMNS: usize = 2;

/// Cells by column.
type Cells = Vec<(usize, u64)>;

/// A before-image.
struct Version {
    begin: u64,
    cells: UnsafeCell<Cells>,
    next: AtomicPtr<Version>,
}

impl Version {
    fn raw(begin: u64, cells: Cells, next: *mut Version) -> *mut Version {
        Box::into_raw(Box::new(Version { begin, cells: UnsafeCell::new(cells), next: AtomicPtr::new(next) }))
    }

    fn cells(&self) -> Cells {
        // SAFETY: loom checks that no write is concurrent; they are written before the version is linked.
        self.cells.with(|cells| unsafe { (*cells).clone() })
    }

    fn cell(&self, column: usize) -> Option<u64> {
        self.cells().into_iter().find(|(position, _)| *position == column).map(|(_, cell)| cell)
    }
}

/// What the rows of a block share: when each column was last changed, at least, and how many rows are pending.
pub(super) struct Changes([AtomicU64; COLUMNS], AtomicU64);

impl Changes {
    pub(super) fn new() -> Changes {
        Changes([AtomicU64::new(0), AtomicU64::new(0)], AtomicU64::new(0))
    }

    /// `raise`: a commit that comes late finds a larger timestamp, and leaves it.
    fn raise(&self, column: usize, commit: u64) {
        if self.0[column].load(Ordering::Relaxed) < commit {
            self.0[column].fetch_max(commit, Ordering::AcqRel);
        }
    }

    #[cfg(not(loom))]
    pub(super) fn all(&self) -> [u64; COLUMNS] {
        match self.1.load(Ordering::Acquire) {
            0 => [0, 1].map(|column: usize| self.0[column].load(Ordering::Acquire)),
            _ => [u64::MAX; COLUMNS],
        }
    }

    fn any_after(&self, at: u64) -> bool {
        let pending = self.1.load(Ordering::Acquire) > 0 && !without(RowStep::AheadCounts);
        pending || self.0.iter().any(|change| change.load(Ordering::Acquire) > at)
    }
}

/// `copy_block`, of columns that cannot be lent: data first, headers second.
pub(super) fn copy_rows(
    rows: &[ModelRow],
    changes: &Changes,
    commits: &PendingCommits,
    at: u64,
) -> Vec<[u64; COLUMNS]> {
    let load = |row: &ModelRow| [0, 1].map(|column: usize| row.cells[column].load(Ordering::Relaxed));
    let mut copies: Vec<_> = rows.iter().map(load).collect();
    failpoint::step("columns copied");
    if !without(RowStep::CopyFences) {
        fence(Ordering::Acquire);
    }
    if changes.any_after(at) {
        let dirty: Vec<bool> = rows.iter().map(ModelRow::is_dirty).collect();
        for ((row, copy), dirty) in rows.iter().zip(&mut copies).zip(dirty) {
            if dirty && row.header(commits) & TIMESTAMP > at {
                row.correct(copy, at);
            }
        }
    }
    copies
}

/// `RowBlock::decided`: a header with its timestamp, if that is known; `None` if the row has another one by now.
fn decided(header: u64, commits: &PendingCommits) -> Option<u64> {
    if header & PENDING == 0 {
        return Some(header);
    }
    match commits.decision(header & (SWEPT - 1)) {
        Decision::Undecided => Some(header),
        Decision::At(timestamp) => Some(header & !TIMESTAMP | timestamp.0),
        Decision::Over => None,
    }
}

pub(super) struct ModelRow {
    header: AtomicU64,
    chain: AtomicPtr<Version>,
    cells: [AtomicU64; COLUMNS],
    /// The row's bit.
    dirty: AtomicU64,
    /// Unlinked versions, and all others at the end. Not loom's: it orders nothing that the protocol does not order.
    graveyard: std::sync::Mutex<Vec<*mut Version>>,
}

// SAFETY: loom checks all accesses to versions' cells; everything else is atomic or behind the mutex.
unsafe impl Send for ModelRow {}
// SAFETY: as above.
unsafe impl Sync for ModelRow {}

impl ModelRow {
    pub(super) fn new() -> ModelRow {
        ModelRow {
            header: AtomicU64::new(0),
            chain: AtomicPtr::new(std::ptr::null_mut()),
            cells: [AtomicU64::new(0), AtomicU64::new(0)],
            dirty: AtomicU64::new(0),
            graveyard: Default::default(),
        }
    }

    /// `RowBlock::try_lock`: the header as it was, or `None` if the row is owned.
    fn try_lock_as(&self, owner: u64) -> Option<u64> {
        let seen = self.header.load(Ordering::Relaxed);
        if without(RowStep::CommitLocks) {
            return Some(seen & !LOCKED);
        }
        if seen & LOCKED != 0 {
            return None;
        }
        self.header.compare_exchange(seen, seen | owner, Ordering::Acquire, Ordering::Relaxed).ok()
    }

    /// The header as it was, or `None` if a rival owns the row. A sweep is waited for, step by step; under loom the caller
    /// ends there instead, as waiting orders nothing that the sweep's giving up does not.
    pub(super) fn try_lock(&self) -> Option<u64> {
        loop {
            let locked = self.try_lock_as(LOCKED);
            let is_swept = || self.header.load(Ordering::Relaxed) & SWEPT != 0;
            if cfg!(loom) || locked.is_some() || !is_swept() {
                return locked;
            }
            failpoint::step("waits for a sweep");
        }
    }

    pub(super) fn unlock(&self) {
        let seen = self.header.load(Ordering::Relaxed);
        self.header.store(seen & !(LOCKED | SWEPT), Ordering::Release);
    }

    /// The header with its timestamp, if that is known.
    fn header(&self, commits: &PendingCommits) -> u64 {
        loop {
            if let Some(header) = decided(self.header.load(Ordering::Acquire), commits) {
                return header;
            }
        }
    }

    pub(super) fn read(&self, column: usize, at: u64, commits: &PendingCommits) -> u64 {
        loop {
            let header = self.header.load(Ordering::Acquire);
            failpoint::step("header looked at");
            if header & TIMESTAMP > at {
                // What has ended has another header by now, which confirms nothing.
                let decided = decided(header, commits).filter(|header| header & TIMESTAMP > at);
                let version = decided.and_then(|header| self.read_version(column, at, header));
                if let Some(cell) = version {
                    return cell;
                }
            } else {
                assert!(header & INSTALLING == 0, "the watermark covers finished commits only");
            }
            let cell = self.cells[column].load(Ordering::Relaxed);
            failpoint::step("cell loaded");
            if !without(RowStep::ReadFences) {
                fence(Ordering::Acquire);
            }
            let now = self.header.load(Ordering::Relaxed);
            if (now ^ header) & (TIMESTAMP | INSTALLING) == 0 || without(RowStep::ReadConfirms) {
                return cell;
            }
        }
    }

    /// The cell as of `at`, which is before the row's newest change, that of `header`; `None` if it has not changed since.
    fn read_version(&self, column: usize, at: u64, header: u64) -> Option<u64> {
        let mut found = None;
        let mut next = self.chain.load(Ordering::Acquire);
        // SAFETY: versions are kept until the end of the execution.
        while let Some(version) = unsafe { next.as_ref() } {
            // A version of the newest state itself belongs to a commit that is still to come.
            if version.begin < header & TIMESTAMP {
                found = version.cell(column).or(found);
            }
            if version.begin <= at {
                return found;
            }
            next = version.next.load(Ordering::Acquire);
        }
        panic!("no version is old enough: the state at {at} is gone");
    }

    /// `Walk::find`: what the row was at `at`, which is before its newest change, into a copy of its cells.
    fn correct(&self, copy: &mut [u64; COLUMNS], at: u64) {
        let mut found = [None; COLUMNS];
        let mut next = self.chain.load(Ordering::Acquire);
        // SAFETY: versions are kept until the end of the execution.
        while let Some(version) = unsafe { next.as_ref() } {
            found.iter_mut().enumerate().for_each(|(column, found)| *found = version.cell(column).or(*found));
            if version.begin <= at {
                copy.iter_mut().zip(found).for_each(|(cell, found)| *cell = found.unwrap_or(*cell));
                return;
            }
            next = version.next.load(Ordering::Acquire);
        }
        panic!("no version is old enough: the state at {at} is gone");
    }

    fn push(&self, begin: u64, cells: Cells) {
        let version = Version::raw(begin, cells, self.chain.load(Ordering::Relaxed));
        let order = if without(RowStep::PushReleases) { Ordering::Relaxed } else { Ordering::Release };
        self.chain.store(version, order);
    }

    fn prune(&self, end: u64, in_use: &[Timestamp]) {
        let Some(watermark) = in_use.last().map(|last| last.0) else { return };
        let mut link = &self.chain;
        let mut end = end;
        let mut run = Run { row: self, removed: Vec::new(), orphans: Vec::new() };
        let mut pointer = link.load(Ordering::Relaxed);
        // SAFETY: as in `read_version`.
        while let Some(version) = unsafe { pointer.as_ref() } {
            let next = version.next.load(Ordering::Relaxed);
            let is_new = end > watermark && !without(RowStep::PruneKeepsNewcomers);
            let user = in_use.get(in_use.partition_point(|used| used.0 < version.begin));
            let is_read = user.is_some_and(|user| user.0 < end) && !without(RowStep::PruneKeepsReaders);
            end = version.begin;
            if is_new || is_read {
                let kept = run.close(link, pointer, version);
                // SAFETY: as in `read_version`.
                link = unsafe { &(*kept).next };
            } else {
                run.add(pointer, version);
            }
            pointer = next;
        }
        if !run.removed.is_empty() {
            link.store(std::ptr::null_mut(), Ordering::Release);
            failpoint::step("versions pruned");
            run.retire();
        }
    }

    /// The owner keeps what it is about to overwrite, before its commit has a timestamp.
    pub(super) fn save(&self, cells: &[(usize, u64)], in_use: &[Timestamp]) {
        self.prune(self.header.load(Ordering::Relaxed) & TIMESTAMP, in_use);
        if !without(RowStep::PushesFirst) {
            self.set_dirty();
            self.push_before(cells);
        }
        failpoint::step("row saved");
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed) == 1
    }

    fn set_dirty(&self) {
        if !self.is_dirty() {
            self.dirty.store(1, Ordering::Relaxed);
        }
    }

    fn push_before(&self, cells: &[(usize, u64)]) {
        let before = cells.iter().map(|&(column, _)| (column, self.cells[column].load(Ordering::Relaxed)));
        self.push(self.header.load(Ordering::Relaxed) & TIMESTAMP, before.collect());
    }

    /// The owner does not come to overwrite what it has saved.
    pub(super) fn take_back(&self) {
        let newest = self.chain.load(Ordering::Relaxed);
        // SAFETY: as in `read_version`.
        if let Some(version) = unsafe { newest.as_ref() }
            && version.begin == self.header.load(Ordering::Relaxed) & TIMESTAMP
        {
            self.chain.store(version.next.load(Ordering::Relaxed), Ordering::Release);
            self.graveyard.lock().unwrap().push(newest);
        }
    }

    /// The owner makes the state of `commit`.
    pub(super) fn install(&self, commit: u64, cells: &[(usize, u64)], changes: &Changes) {
        let old = self.header.load(Ordering::Relaxed);
        let before = cells.iter().map(|&(column, _)| (column, self.cells[column].load(Ordering::Relaxed)));
        let before: Cells = before.collect();
        let raise = || {
            self.set_dirty();
            cells.iter().for_each(|&(column, _)| changes.raise(column, commit));
        };
        if !without(RowStep::RaisesFirst) {
            raise();
        }
        failpoint::step("change told");
        if !without(RowStep::AnnouncesFirst) {
            self.header.store(commit | LOCKED | INSTALLING, Ordering::Release);
        }
        if without(RowStep::PushesFirst) {
            self.push(old & TIMESTAMP, before);
        }
        if !without(RowStep::InstallFences) {
            fence(Ordering::Release);
        }
        failpoint::step("commit announced");
        for &(column, cell) in cells {
            self.cells[column].store(cell, Ordering::Relaxed);
            failpoint::step("cell written");
        }
        if without(RowStep::RaisesFirst) {
            raise();
        }
        self.header.store(commit, Ordering::Release);
        failpoint::step("row installed");
    }

    /// `install_update_ahead`: the owner makes the state of a commit that has no timestamp yet.
    pub(super) fn install_ahead(&self, number: u64, cells: &[(usize, u64)], changes: &Changes) {
        if self.dirty.load(Ordering::Relaxed) == 0 {
            self.dirty.store(1, Ordering::Relaxed);
        }
        changes.1.fetch_add(1, Ordering::Relaxed);
        self.header.store(number | PENDING | LOCKED | INSTALLING, Ordering::Release);
        fence(Ordering::Release);
        failpoint::step("commit announced");
        for &(column, cell) in cells {
            self.cells[column].store(cell, Ordering::Relaxed);
            failpoint::step("cell written");
        }
        self.header.store(number | PENDING | LOCKED, Ordering::Release);
    }

    /// `withdraw_update`: the owner puts back what it has saved.
    pub(super) fn withdraw(&self) {
        // SAFETY: as in `read_version`.
        let before = unsafe { self.chain.load(Ordering::Relaxed).as_ref() }.expect("it was saved");
        before
            .cells()
            .into_iter()
            .for_each(|(column, cell)| self.cells[column].store(cell, Ordering::Relaxed));
    }

    /// `settle_update`: the row gets its timestamp, and is given up.
    pub(super) fn settle(&self, commit: u64, cells: &[(usize, u64)], changes: &Changes) {
        let raise = || cells.iter().for_each(|&(column, _)| changes.raise(column, commit));
        if !without(RowStep::SettleRaisesFirst) {
            raise();
        }
        self.header.store(commit, Ordering::Release);
        changes.1.fetch_sub(1, Ordering::Release);
        failpoint::step("row settled");
        if without(RowStep::SettleRaisesFirst) {
            raise();
        }
    }

    /// Makes the row clean if every reader sees its newest state.
    pub(super) fn sweep(&self, horizon: u64) {
        let seen = self.header.load(Ordering::Acquire);
        let is_old = |header: u64| header & TIMESTAMP <= horizon || without(RowStep::SweepAsksHorizon);
        if seen & LOCKED != 0 || !is_old(seen) {
            return;
        }
        let Some(header) = self.try_lock_as(LOCKED | SWEPT) else { return };
        failpoint::step("row owned by a sweep");
        if self.is_dirty() && is_old(header) {
            let mut next = self.chain.swap(std::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: as in `read_version`.
            while let Some(version) = unsafe { next.as_ref() } {
                self.graveyard.lock().unwrap().push(next);
                next = version.next.load(Ordering::Relaxed);
            }
            failpoint::step("history dropped");
            self.dirty.store(0, Ordering::Relaxed);
            failpoint::step("row clean");
        }
        self.unlock();
    }

    #[cfg(loom)]
    pub(super) fn versions(&self) -> usize {
        let (mut count, mut next) = (0, self.chain.load(Ordering::Acquire));
        // SAFETY: as in `read_version`.
        while let Some(version) = unsafe { next.as_ref() } {
            count += 1;
            next = version.next.load(Ordering::Acquire);
        }
        count
    }
}

impl Drop for ModelRow {
    fn drop(&mut self) {
        let mut dead = std::mem::take(self.graveyard.get_mut().unwrap());
        let mut next = self.chain.load(Ordering::Relaxed);
        // SAFETY: no other reference is left.
        while let Some(version) = unsafe { next.as_ref() } {
            dead.push(next);
            next = version.next.load(Ordering::Relaxed);
        }
        // SAFETY: each was unlinked, or is linked, once.
        dead.into_iter().for_each(|version| drop(unsafe { Box::from_raw(version) }));
    }
}

/// Neighbouring versions on their way out, and their cells on the way to the next older version.
struct Run<'r> {
    row: &'r ModelRow,
    removed: Vec<*mut Version>,
    orphans: Cells,
}

impl Run<'_> {
    fn add(&mut self, pointer: *mut Version, version: &Version) {
        self.orphans.retain(|(column, _)| version.cell(*column).is_none());
        self.orphans.extend(version.cells());
        self.removed.push(pointer);
    }

    /// Ends the run in front of a version that stays; returns the version that now stands there.
    fn close(&mut self, link: &AtomicPtr<Version>, pointer: *mut Version, version: &Version) -> *mut Version {
        if self.removed.is_empty() {
            return pointer;
        }
        let mut cells = std::mem::take(&mut self.orphans);
        cells.retain(|(column, _)| version.cell(*column).is_none());
        let kept = if cells.is_empty() || without(RowStep::PruneMovesCells) {
            pointer
        } else {
            cells.extend(version.cells());
            self.removed.push(pointer);
            if without(RowStep::PruneReplacesAtOnce) {
                link.store(pointer, Ordering::Release);
            }
            Version::raw(version.begin, cells, version.next.load(Ordering::Relaxed))
        };
        link.store(kept, Ordering::Release);
        failpoint::step("versions pruned");
        self.retire();
        kept
    }

    fn retire(&mut self) {
        self.row.graveyard.lock().unwrap().append(&mut self.removed);
    }
}

/// A row as it lies in memory, for the conformance test.
#[cfg(not(loom))]
pub(crate) struct RowContent {
    pub timestamp: u64,
    pub is_locked: bool,
    pub is_swept: bool,
    pub is_installing: bool,
    pub is_dirty: bool,
    pub cells: [u64; COLUMNS],
    /// When each version began, and the cells that it holds.
    pub versions: Vec<(u64, [Option<u64>; COLUMNS])>,
}

#[cfg(not(loom))]
impl ModelRow {
    pub(super) fn picture(&self, commits: &PendingCommits) -> RowContent {
        let header = self.header(commits);
        let mut versions = Vec::new();
        let mut next = self.chain.load(Ordering::Acquire);
        // SAFETY: as in `read_version`.
        while let Some(version) = unsafe { next.as_ref() } {
            versions.push((version.begin, [0, 1].map(|column| version.cell(column))));
            next = version.next.load(Ordering::Acquire);
        }
        RowContent {
            timestamp: if header & PENDING == 0 { header & TIMESTAMP } else { u64::MAX },
            is_locked: header & LOCKED != 0,
            is_swept: header & SWEPT != 0,
            is_installing: header & INSTALLING != 0,
            is_dirty: self.is_dirty(),
            cells: [0, 1].map(|column: usize| self.cells[column].load(Ordering::Acquire)),
            versions,
        }
    }
}
