//! The techniques by name, and whether the machine has them.

use crate::userfault::Userfault;
use crate::{registry, requirements, vm_snapshot};
use ankerdb_base::{Error, Result, SqlState};

/// A way to take snapshots of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Technique {
    /// A deep copy (AnKer §4.1).
    Physical,
    /// A child process whose memory is the image (AnKer §4.2.2, HyPer).
    Fork,
    /// Pages of a main-memory file mapped twice, writes found by `mprotect` and a signal handler (AnKer §4.2.3).
    Rewiring,
    /// Pages of a main-memory file mapped twice, writes found by `userfaultfd` write-protection.
    RewiringUserfaultfd,
    /// Our own system call (AnKer §5, AnKerDB §4).
    VmSnapshot,
}

/// The pages under a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB, where the technique allows it.
    Huge,
}

impl PageSize {
    /// Bytes of a page.
    pub fn bytes(self) -> usize {
        match self {
            PageSize::Small => 4 << 10,
            PageSize::Huge => 2 << 20,
        }
    }
}

impl Technique {
    /// All of them, in the order of the papers.
    pub const ALL: [Technique; 5] = [
        Technique::Physical,
        Technique::Fork,
        Technique::Rewiring,
        Technique::RewiringUserfaultfd,
        Technique::VmSnapshot,
    ];

    /// The name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Technique::Physical => "physical",
            Technique::Fork => "fork",
            Technique::Rewiring => "rewiring",
            Technique::RewiringUserfaultfd => "rewiring-userfaultfd",
            Technique::VmSnapshot => "vm-snapshot",
        }
    }

    /// Reads a name; underscores count as hyphens.
    ///
    /// # Errors
    /// 22023 with the names there are.
    pub fn parse(name: &str) -> Result<Technique> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|technique| technique.name() == wanted).ok_or_else(|| {
            let names = Self::ALL.map(Technique::name).join(", ");
            let message = format!("unknown snapshot technique \"{name}\"; there are {names}");
            Error::new(SqlState::InvalidParameterValue, message)
        })
    }

    /// Whether this machine can run it. Asks the system each time, a few files and calls.
    ///
    /// # Errors
    /// 0A000 with what is missing and how to get it.
    pub fn check(self) -> Result<()> {
        match self {
            Technique::Physical | Technique::Fork => Ok(()),
            Technique::Rewiring => requirements::rewiring(),
            Technique::RewiringUserfaultfd => {
                requirements::rewiring()?;
                Userfault::get(registry::serve).map(|_| ())
            }
            Technique::VmSnapshot => vm_snapshot::check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for technique in Technique::ALL {
            assert_eq!(Technique::parse(technique.name()), Ok(technique));
        }
        assert_eq!(Technique::parse("VM_SNAPSHOT"), Ok(Technique::VmSnapshot));
        assert!(
            Technique::parse("zfs").expect_err("unknown").to_string().contains("there are physical, fork")
        );
    }
}
