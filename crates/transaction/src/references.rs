//! What a transaction still has to test, or to do, for foreign keys.

use crate::relations::Relations;
use ankerdb_base::RowId;
use ankerdb_table::ConstraintTiming;
use ankerdb_value::Value;
use std::sync::Arc;

/// A row whose parent has not been found when the row was written.
pub(crate) struct Orphan {
    /// The child's number in the transaction.
    pub child: usize,
    /// The position among its foreign keys.
    pub key: usize,
    pub row: RowId,
    pub is_deferred: bool,
}

/// A key that a row of a parent had, and to which other rows may refer.
pub(crate) struct LostKey {
    /// The parent's number in the transaction.
    pub parent: usize,
    /// The position among what refers to it.
    pub reference: usize,
    pub key: Vec<Value>,
    /// What it is now; `None` if the row was deleted.
    pub new_key: Option<Vec<Value>>,
    pub is_deferred: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct References {
    pub orphans: Vec<Orphan>,
    pub lost: Vec<LostKey>,
    /// Whether what is read is noted at every level, because a constraint depends on it.
    pub is_noting: bool,
    /// What the transaction sees as tables, if it has defined some.
    pub relations: Option<Arc<dyn Relations>>,
    /// Numbers of parents whose children are emptied together with them.
    pub emptied: Vec<usize>,
    /// What it has asked for all constraints that can be deferred.
    all: Option<bool>,
    /// And for those with these names.
    named: Vec<(String, bool)>,
}

impl References {
    /// Whether nothing is to be tested or done, up to the commit.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.orphans.is_empty() && self.lost.is_empty()
    }

    /// Whether a constraint is tested at the end of this transaction.
    pub(crate) fn is_deferred(&self, name: &str, declared: ConstraintTiming) -> bool {
        if declared == ConstraintTiming::Immediate {
            return false;
        }
        let asked = self.named.iter().find(|(asked, _)| asked == name).map(|(_, is_deferred)| *is_deferred);
        asked.or(self.all).unwrap_or(declared == ConstraintTiming::Deferred)
    }

    /// Has constraints tested at the transaction's end, or at that of each statement: the named ones, or all.
    pub(crate) fn set_deferred(&mut self, names: &[String], is_deferred: bool) {
        if names.is_empty() {
            self.all = Some(is_deferred);
            self.named.clear();
        }
        for name in names {
            self.named.retain(|(asked, _)| asked != name);
            self.named.push((name.clone(), is_deferred));
        }
    }

    /// Forgets what a statement that failed has left.
    pub(crate) fn forget_statement(&mut self) {
        self.orphans.retain(|orphan| orphan.is_deferred);
        self.lost.retain(|lost| lost.is_deferred);
    }

    /// Takes what is due: at the end of the transaction everything, else what is not deferred.
    pub(crate) fn take_lost(&mut self, is_end: bool) -> Vec<LostKey> {
        self.lost.extract_if(.., |lost| is_end || !lost.is_deferred).collect()
    }

    /// Takes the orphans that are due, as [`take_lost`](Self::take_lost) does keys.
    pub(crate) fn take_orphans(&mut self, is_end: bool) -> Vec<Orphan> {
        self.orphans.extract_if(.., |orphan| is_end || !orphan.is_deferred).collect()
    }

    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.is_settled() && self.relations.is_none() && self.all.is_none() && self.named.is_empty() {
            return;
        }
        *self = References::default();
    }
}
