//! From a difference to a small reproduction of it: delta debugging over statements, then over the parts of each.
//!
//! What counts as the same difference is [`Difference::is_like`] in the same way of asking. Each try runs on both
//! servers; the number of tries is limited, so that a difference that is hard to make smaller costs seconds, not minutes.

use crate::answer::{Difference, RowOrder};
use crate::case::{Finding, Judge, Side, Step, Way};
use crate::tree::Tree;
use std::io;

/// Tries for one statement in place.
const STATEMENT_TRIES: usize = 300;
/// Tries for a whole history, each from empty databases.
const HISTORY_TRIES: usize = 400;

/// The smallest statement found that shows what `finding` shows, with the difference that it shows. The databases stay as
/// they are: for queries outside of transactions.
///
/// # Errors
/// When PostgreSQL does not answer.
pub fn statement(judge: &mut Judge, step: &Step, finding: &Finding) -> io::Result<(Tree, Finding)> {
    let mut show = |tree: &Tree| {
        let found = judge.compare(tree, finding.way, step.order)?;
        Ok(like(found, finding))
    };
    let mut tries = STATEMENT_TRIES;
    let (tree, shown) = smallest(step.tree.clone(), &mut tries, &mut show)?;
    Ok((tree, shown.unwrap_or_else(|| finding.clone())))
}

/// Whether the other server fails as the one that fails does, or, where both fail, one as the other does, on a form of the statement
/// that is one or two steps smaller, or on a value in it that is asked of a table alone; or AnKerDB on the statement itself by the
/// simple protocol, with constants for parameters.
///
/// # Errors
/// When PostgreSQL does not answer.
pub fn confirmed(judge: &mut Judge, tree: &Tree, finding: &Finding) -> io::Result<bool> {
    let Difference { postgres, ankerdb, .. } = &finding.difference;
    let others: &[(Side, &String)] = match (postgres.as_str(), ankerdb.as_str()) {
        (_, "ok") => &[(Side::AnKerDb, postgres)],
        ("ok", _) => &[(Side::Postgres, ankerdb)],
        _ => &[(Side::Postgres, ankerdb), (Side::AnKerDb, postgres)],
    };
    // With constants in place of parameters, or on the OLTP path, AnKerDB computes when it plans what PostgreSQL does.
    if ankerdb == "ok" && finding.way != Way::Simple {
        for same in [tree, &tree.untyped()] {
            if judge.refusal(Side::AnKerDb, same, Way::Simple)?.as_ref() == Some(postgres) {
                return Ok(true);
            }
        }
    }
    let mut tries = STATEMENT_TRIES;
    let once = tree.smaller();
    let twice = once.iter().flat_map(Tree::smaller);
    let parts = tree.parts_of_tables();
    for smaller in once.iter().cloned().chain(parts).chain(twice) {
        for (other, code) in others {
            if judge.refusal(*other, &smaller, finding.way)?.as_ref() == Some(code) {
                return Ok(true);
            }
        }
        tries -= 1;
        if tries == 0 {
            break;
        }
    }
    Ok(false)
}

/// Replaces the tree by smaller ones as long as one of them shows the difference.
fn smallest(
    mut tree: Tree,
    tries: &mut usize,
    show: &mut dyn FnMut(&Tree) -> io::Result<Option<Finding>>,
) -> io::Result<(Tree, Option<Finding>)> {
    let mut shown = None;
    'again: loop {
        for smaller in tree.smaller() {
            if *tries == 0 {
                break 'again;
            }
            *tries -= 1;
            if let Some(finding) = show(&smaller)? {
                (tree, shown) = (smaller, Some(finding));
                continue 'again;
            }
        }
        break;
    }
    Ok((tree, shown))
}

fn like(found: Vec<Finding>, wanted: &Finding) -> Option<Finding> {
    found.into_iter().find(|finding| finding.difference.is_like(&wanted.difference))
}

/// A small history: statements from empty databases, the last of which shows the difference.
pub struct Reproduction {
    /// The statements.
    pub steps: Vec<Step>,
    /// The difference that the last one shows.
    pub finding: Finding,
}

impl Reproduction {
    /// As SQL, with the way in which the last statement is to be asked.
    pub fn sql(&self) -> String {
        let lines = self.steps.iter().map(|step| format!("{};\n", step.tree.sql()));
        format!("{}-- asked: {}\n", lines.collect::<String>(), self.finding.way.word())
    }

    /// The statement that shows the difference.
    pub fn last(&self) -> &Tree {
        &self.steps.last().expect("a history has a last step").tree
    }

    /// Runs what comes before that statement, from empty databases.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn prepare(&self, judge: &mut Judge) -> io::Result<()> {
        judge.clear()?;
        self.steps[..self.steps.len() - 1].iter().try_for_each(|step| judge.replay(step))
    }

    /// The difference.
    pub fn difference(&self) -> &Difference {
        &self.finding.difference
    }
}

/// Makes the history smaller whose last step shows the finding. `None` if it does not show it when it runs again.
///
/// # Errors
/// When PostgreSQL does not answer.
pub fn history(judge: &mut Judge, steps: Vec<Step>, finding: &Finding) -> io::Result<Option<Reproduction>> {
    let mut history = HistoryShrinker { judge, wanted: finding, tries: HISTORY_TRIES };
    let Some(shown) = history.show(&steps)? else { return Ok(None) };
    let (steps, shown) = history.fewer(steps, shown)?;
    let (steps, shown) = history.simpler(steps, shown)?;
    Ok(Some(Reproduction { steps, finding: shown }))
}

struct HistoryShrinker<'a> {
    judge: &'a mut Judge,
    wanted: &'a Finding,
    tries: usize,
}

impl HistoryShrinker<'_> {
    fn show(&mut self, steps: &[Step]) -> io::Result<Option<Finding>> {
        if self.tries == 0 {
            return Ok(None);
        }
        self.tries -= 1;
        self.judge.clear()?;
        let Some((last, before)) = steps.split_last() else { return Ok(None) };
        for step in before {
            // AnKerDB may die here: then this is not the difference in question.
            if self.judge.replay(step).is_err() {
                return Ok(None);
            }
        }
        let found = self.judge.compare(&last.tree, self.wanted.way, last.order)?;
        Ok(like(found, self.wanted))
    }

    /// Drops runs of statements, long runs first.
    fn fewer(&mut self, mut steps: Vec<Step>, mut shown: Finding) -> io::Result<(Vec<Step>, Finding)> {
        let mut run = steps.len() / 2;
        while run > 0 {
            let mut at = 0;
            while at + run < steps.len() {
                let mut candidate = steps.clone();
                candidate.drain(at..at + run);
                match self.show(&candidate)? {
                    Some(finding) => (steps, shown) = (candidate, finding),
                    None => at += run,
                }
            }
            run /= 2;
        }
        Ok((steps, shown))
    }

    /// Makes each statement smaller, the last one first.
    fn simpler(&mut self, mut steps: Vec<Step>, mut shown: Finding) -> io::Result<(Vec<Step>, Finding)> {
        for at in (0..steps.len()).rev() {
            let mut tries = self.tries;
            let before = steps.clone();
            let mut show = |tree: &Tree| {
                let mut candidate = before.clone();
                candidate[at].tree = tree.clone();
                self.show(&candidate)
            };
            let (tree, finding) = smallest(before[at].tree.clone(), &mut tries, &mut show)?;
            steps[at].tree = tree;
            shown = finding.unwrap_or(shown);
        }
        Ok((steps, shown))
    }
}

/// A step that asks for all rows of a table.
pub fn contents(table: &str) -> Step {
    Step { way: Way::Simple, ..Step::read(Tree::statement(format!("SELECT * FROM {table}")), RowOrder::Any) }
}
