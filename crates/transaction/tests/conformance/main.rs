//! Whether the model of whole commits (`crates/sync/src/row_model.rs`) does what the code does.
//!
//! loom tries all interleavings of the model, and none of the code. So its findings are worth as much as the model
//! resembles the code, and that is tested here. Some sessions read, copy, lock, write, commit and sweep two rows. Each
//! runs on a thread of its own, and stops at every step that its code names (`failpoint::step`; the model names the same
//! ones). A schedule says which session goes on next. So both worlds are led through the same interleaving, and after
//! each step everything is compared: which step it is, what was read, every header, version, cell and bit, the
//! timestamps in use, the watermark.
//!
//! ```text
//!              session 0        session 1        session 2
//! script       begin            begin            sweep
//!              read row 0       write row 0
//!              copy             commit
//! schedule     0 0 1 1 0 2 1 1 1 0 ...           the same in both worlds: the code's, and the model's
//! ```
//!
//! In every other schedule all commits are taken for large ones, which install their rows ahead of their timestamps, and
//! withdraw them if they end.
//!
//! If a step has moved, or is missing, in one of them, the states differ when the other one takes it. Controls do that
//! to the model, step by step, and the difference has to be found. Fences and orderings do not show, as one thread runs
//! at a time: loom checks them, in the model, which has to be changed together with the code.
#![cfg(debug_assertions)]

use ankerdb_sync::{commit_order, pending, readers};

mod engine;
mod model;
mod primitive;
mod schedule;
mod script;

#[path = "../../../sync/src/row_model.rs"]
mod row_model;

use engine::Engine;
use model::Modeled;
use row_model::RowStep;
use schedule::{Moment, run};
use script::Script;

/// Interleavings that are compared.
const SCHEDULES: u64 = 400;
/// Interleavings in which each change of the model shows at the latest.
const SCHEDULES_OF_A_CONTROL: u64 = SCHEDULES;

/// Whether the commits of a schedule install ahead of their timestamps, as those of many rows do.
fn is_large(seed: u64) -> bool {
    seed % 2 == 1
}

fn of_code(seed: u64) -> (Script, Vec<Moment>) {
    let script = Script::of(seed);
    let moments = run(Engine::new(is_large(seed)), &script, seed);
    (script, moments)
}

/// Where the two worlds differ, if they do, with what has happened until then.
fn difference(seed: u64) -> Option<String> {
    let (script, code) = of_code(seed);
    let model = run(Modeled::new(None, is_large(seed)), &script, seed);
    let parted = (0..code.len().max(model.len())).find(|&at| code.get(at) != model.get(at))?;
    let before: Vec<String> = code[..parted].iter().map(Moment::short).collect();
    Some(format!(
        "schedule {seed} of {script}\n{}\n  code:  {:#?}\n  model: {:#?}",
        before.join("\n"),
        code.get(parted),
        model.get(parted)
    ))
}

#[test]
fn the_model_of_commits_takes_the_steps_of_the_code() {
    for seed in 0..SCHEDULES {
        if let Some(difference) = difference(seed) {
            panic!("model and code differ:\n{difference}");
        }
    }
}

/// The control: a step of the model that moves or goes is missed, whichever it is.
#[test]
fn a_step_that_moves_or_goes_is_noticed() {
    use RowStep::*;
    // Not among them: fences, orderings, and that one store does what two would do (PruneReplacesAtOnce).
    let visible = [
        PushesFirst,
        AnnouncesFirst,
        RaisesFirst,
        ReadConfirms,
        PruneKeepsReaders,
        PruneKeepsNewcomers,
        PruneMovesCells,
        SweepAsksHorizon,
        CommitLocks,
        FirstCommitterWins,
        PublishesFirst,
        FinishesLast,
        WaitsUntilVisible,
        RestartChecks,
        RestartTakesFirst,
        AheadCounts,
        DecidesFirst,
        SettleRaisesFirst,
        WithdrawTakesTimestamp,
    ];
    let mut missed = visible.to_vec();
    for seed in 0..SCHEDULES_OF_A_CONTROL {
        let (script, code) = of_code(seed);
        missed.retain(|&step| run(Modeled::new(Some(step), is_large(seed)), &script, seed) == code);
        if missed.is_empty() {
            return;
        }
    }
    panic!("no difference shows without {missed:?}");
}
