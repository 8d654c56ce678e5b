//! What was found out about answers.

use serde::Serialize;

/// Wrong answers that are reported one by one.
const TOLD_MAX: usize = 10;

/// The results of the checks of answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Checks {
    /// Answers compared with what is known.
    pub answers: u64,
    /// Sums over the tables, compared with each other and with the answer of the query before.
    pub sums: u64,
    /// Markers looked for, each committed and acknowledged before the query.
    pub markers: u64,
    /// Answers and markers older than what was acknowledged before.
    pub missed: u64,
    /// Wrong answers and sums.
    pub wrong: u64,
    /// Some of those, in words.
    pub told: Vec<String>,
}

impl Checks {
    /// Adds another phase's.
    pub fn add(&mut self, other: &Checks) {
        self.answers += other.answers;
        self.sums += other.sums;
        self.markers += other.markers;
        self.missed += other.missed;
        self.wrong += other.wrong;
        other.told.iter().for_each(|text| self.tell(text.clone()));
    }

    fn tell(&mut self, text: String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(text);
        }
    }

    /// Counts a wrong answer, if one was found.
    pub(crate) fn note_wrong(&mut self, what: &str, found: Option<String>) {
        if let Some(found) = found {
            self.wrong += 1;
            self.tell(format!("{what}: {found}"));
        }
    }

    /// Counts a marker that was looked for, and whether it is older than what was acknowledged.
    pub(crate) fn note_marker(&mut self, seen: i64, acknowledged: i64) {
        self.markers += 1;
        let is_old = seen < acknowledged;
        self.note_missed("marker", is_old.then(|| format!("{seen} instead of {acknowledged}")));
    }

    /// Counts an answer that is older than what was acknowledged, if one was found.
    pub(crate) fn note_missed(&mut self, what: &str, found: Option<String>) {
        if let Some(found) = found {
            self.missed += 1;
            self.tell(format!("{what}: {found}"));
        }
    }
}
