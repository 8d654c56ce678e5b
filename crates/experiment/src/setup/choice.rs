//! What an experiment compares, and which of it this machine can run.

use super::{Data, Setup, SetupOptions, members};
use crate::Experiment;
use ankerdb_engine::{Configuration, Result, Technique};
use ankerdb_serial::Mechanism;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Mappings that a process needs besides.
const OTHER_MAPPINGS: usize = 2_000;

/// What an experiment compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compared {
    /// Configurations of the database (`--engine`).
    Configurations,
    /// Techniques of the operating system with ours (`--technique`).
    Techniques,
    /// Databases below a ledger's organizations (`--members`).
    Members,
    /// Mechanisms of a database with serial transactions, with ours (`--mechanism`).
    Mechanisms,
}

/// Those asked for, in the order of the papers; if none is, those that this machine can run.
pub fn chosen(asked: &[Technique]) -> Vec<Technique> {
    let wanted = |technique: &Technique| match asked {
        [] => technique.check().is_ok(),
        asked => asked.contains(technique),
    };
    Technique::ALL.into_iter().filter(wanted).collect()
}

/// Mechanisms asked for, in the order of the papers; all if none is.
pub fn mechanisms(asked: &[Mechanism]) -> Vec<Mechanism> {
    let wanted = |mechanism: &Mechanism| asked.is_empty() || asked.contains(mechanism);
    Mechanism::ALL.into_iter().filter(wanted).collect()
}

/// What an experiment leaves out because this machine cannot run it, with the reason.
pub fn left_out(experiment: &Experiment, options: &SetupOptions) -> Vec<String> {
    let reasons: Vec<(&str, Result<()>)> = match experiment.compared {
        Compared::Configurations if options.engines.is_empty() => {
            Configuration::ALL.map(|engine| (engine.name(), engine.check())).into()
        }
        Compared::Techniques if options.techniques.is_empty() => {
            Technique::ALL.map(|technique| (technique.name(), technique.check())).into()
        }
        Compared::Members => {
            let asked = members::asked(&options.members);
            asked.into_iter().map(|members| (members.name(), members.check())).collect()
        }
        _ => Vec::new(),
    };
    let refused = reasons.into_iter().filter_map(|(name, check)| Some((name, check.err()?)));
    refused.map(|(name, error)| format!("left out: {name}: {}", error.message())).collect()
}

/// A warning if rewiring may need more mappings than a process of this system may have.
pub fn mapping_limit(experiment: &Experiment, setup: &Setup) -> Option<String> {
    let Data::Columns { count, .. } = experiment.data else { return None };
    let rewires =
        |technique: &Technique| matches!(technique, Technique::Rewiring | Technique::RewiringUserfaultfd);
    if !setup.techniques.iter().any(rewires) {
        return None;
    }
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    // A page that was written lies alone in the column, and in the snapshot of it.
    let needed = 2 * count * (setup.megabytes << 20) / PAGE_BYTES + OTHER_MAPPINGS;
    (needed > limit).then(|| {
        format!(
            "warning: vm.max_map_count is {limit}, rewiring may come to {needed} mappings: columns are then copied to be of \
             one piece again, which the notes tell (sysctl vm.max_map_count={needed} would avoid it)"
        )
    })
}
