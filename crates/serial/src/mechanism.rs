//! The mechanisms by name, and what each of them can do.

use ankerdb_base::{Error, Result, SqlState};

/// How a snapshot of the tuples is kept while transactions change them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mechanism {
    /// A child process whose memory is the snapshot (DaMoN 2011, §3.1).
    VmFork,
    /// A tuple of the snapshot is changed in a copy at the end of its relation (§3.2).
    TupleShadowing,
    /// Two copies of each tuple (§3.3).
    TwinTuples,
    /// A tuple of the snapshot moves to a hot section when it is changed, and a child process is the snapshot (§3.4).
    HotCold,
    /// Pages are copied before they change, and so is what leads to them (Caldera, CIDR 2017, §4).
    ShadowCopies,
}

/// What becomes of indexes in a snapshot (DaMoN 2011, §3.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexTreatment {
    /// Queries have none.
    Abandon,
    /// They are copied when the snapshot is taken.
    Copy,
    /// Queries run in a child process, which has an image of them.
    Fork,
    /// Transactions and queries share them, behind latches.
    Share,
}

/// What controls the snapshot (DaMoN 2011, Figures 8 and 9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// The memory management unit and the system.
    Hardware,
    /// The store.
    Software,
    /// The store says what lies together, the system copies it.
    Both,
}

/// What the memory grows by when a tuple is changed for the first time after a snapshot (DaMoN 2011, Figure 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granularity {
    /// A page.
    Page,
    /// A tuple.
    Tuple,
    /// Nothing: there are two of everything from the start.
    All,
}

impl Mechanism {
    /// All of them, in the order of the papers.
    pub const ALL: [Mechanism; 5] = [
        Mechanism::VmFork,
        Mechanism::TupleShadowing,
        Mechanism::TwinTuples,
        Mechanism::HotCold,
        Mechanism::ShadowCopies,
    ];

    /// The name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::VmFork => "vm-fork",
            Mechanism::TupleShadowing => "tuple-shadowing",
            Mechanism::TwinTuples => "twin-tuples",
            Mechanism::HotCold => "hot-cold",
            Mechanism::ShadowCopies => "shadow-copies",
        }
    }

    /// Reads a name; underscores count as hyphens.
    ///
    /// # Errors
    /// 22023 with the names there are.
    pub fn parse(name: &str) -> Result<Mechanism> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == wanted).ok_or_else(|| {
            let names = Self::ALL.map(Mechanism::name).join(", ");
            let message = format!("unknown snapshot mechanism \"{name}\"; there are {names}");
            Error::new(SqlState::InvalidParameterValue, message)
        })
    }

    /// What controls its snapshots.
    pub fn control(self) -> Control {
        match self {
            Mechanism::VmFork => Control::Hardware,
            Mechanism::HotCold => Control::Both,
            Mechanism::TupleShadowing | Mechanism::TwinTuples | Mechanism::ShadowCopies => Control::Software,
        }
    }

    /// What is copied when a tuple changes.
    pub fn granularity(self) -> Granularity {
        match self {
            Mechanism::VmFork | Mechanism::ShadowCopies => Granularity::Page,
            Mechanism::TupleShadowing | Mechanism::HotCold => Granularity::Tuple,
            Mechanism::TwinTuples => Granularity::All,
        }
    }

    /// Whether queries run in a child process.
    pub fn forks(self) -> bool {
        matches!(self.control(), Control::Hardware | Control::Both)
    }

    /// Whether a new snapshot ends the one before, so that its readers must have left.
    pub fn has_one_snapshot(self) -> bool {
        matches!(self, Mechanism::TupleShadowing | Mechanism::TwinTuples)
    }

    /// Whether its snapshots can have indexes treated so.
    ///
    /// # Errors
    /// 0A000 with the reason.
    pub fn check(self, treatment: IndexTreatment) -> Result<()> {
        let reason = match (self, treatment) {
            (Mechanism::VmFork | Mechanism::HotCold, IndexTreatment::Share) => {
                "a child process has an image of the indexes, so there is none to share and no latch that both would see \
                 (DaMoN 2011, 3.5)"
            }
            (Mechanism::ShadowCopies, IndexTreatment::Share) => {
                "an older snapshot would look for entries that transactions have taken away since"
            }
            (Mechanism::ShadowCopies, IndexTreatment::Fork) => {
                "a child process would be a snapshot of the tuples, too"
            }
            _ => return Ok(()),
        };
        let message = format!("{} cannot {} indexes: {reason}", self.name(), treatment.name());
        Err(Error::new(SqlState::FeatureNotSupported, message))
    }
}

impl IndexTreatment {
    /// All of them, in the order of the paper.
    pub const ALL: [IndexTreatment; 4] =
        [IndexTreatment::Abandon, IndexTreatment::Copy, IndexTreatment::Fork, IndexTreatment::Share];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            IndexTreatment::Abandon => "abandon",
            IndexTreatment::Copy => "copy",
            IndexTreatment::Fork => "fork",
            IndexTreatment::Share => "share",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::parse(&mechanism.name().replace('-', "_")), Ok(mechanism));
        }
        let error = Mechanism::parse("zigzag").expect_err("it is called otherwise here");
        assert!(error.message().contains("there are vm-fork, tuple-shadowing, twin-tuples"), "{error}");
    }

    /// DaMoN 2011, Figure 9, with a row of ours for Caldera's.
    #[test]
    fn mechanisms_are_classified_as_in_the_paper() {
        let can = |mechanism: Mechanism| {
            IndexTreatment::ALL.map(|treatment| u8::from(mechanism.check(treatment).is_ok()))
        };
        let rows =
            Mechanism::ALL.map(|mechanism| (mechanism.control(), mechanism.granularity(), can(mechanism)));
        let (page, tuple) = (Granularity::Page, Granularity::Tuple);
        assert_eq!(
            rows,
            [
                (Control::Hardware, page, [1, 1, 1, 0]),
                (Control::Software, tuple, [1, 1, 1, 1]),
                (Control::Software, Granularity::All, [1, 1, 1, 1]),
                (Control::Both, tuple, [1, 1, 1, 0]),
                (Control::Software, page, [1, 1, 0, 0]),
            ]
        );
        let error = Mechanism::VmFork.check(IndexTreatment::Share).expect_err("the paper's n/a");
        assert!(error.message().contains("vm-fork cannot share indexes: a child process"), "{error}");
    }
}
