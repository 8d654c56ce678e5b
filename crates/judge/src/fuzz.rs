//! Random cases: a schema with data, then queries and changes; each case from a seed of its own, so that it can be run
//! alone.

use crate::answer::Aspect;
use crate::case::{Effect, Finding, Judge, Step, WAYS, Way};
use crate::expression::Generator;
use crate::known::KnownDifferences;
use crate::schema::{SchemaTable, schema};
use crate::shrink::{self, Reproduction};
use crate::tree::Tree;
use fastrand::Rng;
use std::collections::{BTreeMap, HashSet};
use std::io;

/// So many unknown differences are shown with a history of their own, which costs hundreds of runs each; of the others
/// only the statement is shown.
const REPRODUCTIONS: usize = 10;

/// Statements of a case behind its schema.
const STATEMENTS: usize = 40;

/// The findings.
#[derive(Default)]
pub struct FuzzReport {
    /// Cases run.
    pub cases: u64,
    /// Known differences met, by the entry's name.
    pub known: BTreeMap<String, u64>,
    /// The others, printable.
    pub unknown: Vec<String>,
    /// Queries that AnKerDB planned for the OLTP path, and for the OLAP path.
    pub paths: (u64, u64),
    /// Differences that have been reported already.
    seen: HashSet<String>,
}

/// A case's schema and statements.
pub fn case(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let (tables, setup) = schema(&mut rng);
    let mut steps: Vec<Step> = setup.into_iter().map(Step::change).collect();
    let mut open = false;
    for _ in 0..STATEMENTS {
        let mut generator = Generator::new(&mut rng, &tables);
        match generator.rng.u8(..20) {
            0..=11 => {
                let (tree, order) = generator.query();
                steps.push(Step::read(tree, order));
            }
            12..=17 => {
                let (tree, table) = generator.change();
                let way = if generator.rng.bool() { Way::Simple } else { Way::Parameters };
                steps.push(Step { way, ..Step::change(tree) });
                steps.push(shrink::contents(&table));
            }
            18..=19 if open && generator.rng.u8(..4) > 0 => {
                let command = generator.rng.choice(["SAVEPOINT", "SAVEPOINT", "ROLLBACK TO", "RELEASE"]);
                let name = generator.rng.choice(["a", "b"]);
                let (Some(command), Some(name)) = (command, name) else { continue };
                steps.push(Step::change(Tree::statement(format!("{command} {name}"))));
                steps.extend(tables.iter().map(|table: &SchemaTable| shrink::contents(&table.name)));
            }
            18 => {
                steps.push(Step::change(Tree::statement(if open { "COMMIT" } else { "BEGIN" })));
                open = !open;
            }
            _ => steps.push(Step::change(Tree::statement("ROLLBACK"))),
        }
        if steps.last().is_some_and(|step| step.tree.sql() == "ROLLBACK") {
            open = false;
        }
    }
    if open {
        steps.push(Step::change(Tree::statement("COMMIT")));
    }
    steps.extend(tables.iter().map(|table: &SchemaTable| shrink::contents(&table.name)));
    steps
}

/// Runs the case of that seed.
///
/// # Errors
/// When PostgreSQL does not answer.
pub fn run(
    judge: &mut Judge,
    known: &KnownDifferences,
    seed: u64,
    report: &mut FuzzReport,
) -> io::Result<()> {
    let steps = case(seed);
    judge.clear()?;
    report.cases += 1;
    for at in 0..steps.len() {
        let alone = steps[at].kind == Effect::Read && !judge.in_transaction();
        if alone && at % 8 == 0 {
            report.count_path(judge, &steps[at].tree)?;
        }
        let found = judge.run(&steps[at])?;
        if alone {
            for finding in distinct(found) {
                if finding.difference.aspect == Aspect::Silence {
                    return report.history(judge, known, seed, &steps[..=at], &finding);
                }
                if !report.statement(judge, known, &steps[at], &finding)? {
                    return report.history(judge, known, seed, &steps[..=at], &finding);
                }
            }
        } else if let Some(finding) = found.first() {
            // The two databases are no longer the same, so the case ends here.
            return report.history(judge, known, seed, &steps[..=at], finding);
        }
    }
    Ok(())
}

/// One finding for each difference, in the first way that shows it; differences that only later ways show are kept.
fn distinct(found: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for way in WAYS {
        for finding in found.iter().filter(|finding| finding.way == way) {
            if !kept.iter().any(|other| other.difference.is_like(&finding.difference)) {
                kept.push(finding.clone());
            }
        }
    }
    kept
}

impl FuzzReport {
    /// Shrinks the query in place. Returns whether nothing is left to do: the list explains the difference, or it has
    /// been reported.
    fn statement(
        &mut self,
        judge: &mut Judge,
        known: &KnownDifferences,
        step: &Step,
        finding: &Finding,
    ) -> io::Result<bool> {
        let (tree, shown) = shrink::statement(judge, step, finding)?;
        match known.explains(judge, &tree, &shown)? {
            Some(entry) => {
                *self.known.entry(known.entries[entry].name.clone()).or_default() += 1;
                Ok(true)
            }
            None if self.unknown.len() < REPRODUCTIONS => Ok(false),
            None => {
                let (sql, way) = (tree.sql(), shown.way.word());
                self.note(format!("{sql};\n-- asked: {way}\n{}\n", shown.difference), &sql);
                Ok(true)
            }
        }
    }

    /// Shrinks the history, and notes what is left as known or unknown.
    fn history(
        &mut self,
        judge: &mut Judge,
        known: &KnownDifferences,
        seed: u64,
        steps: &[Step],
        finding: &Finding,
    ) -> io::Result<()> {
        let Some(last) = steps.last() else { return Ok(()) };
        // A change cannot be shrunk alone: it is matched first, because its history costs hundreds of runs.
        if last.kind == Effect::Change
            && let Some(entry) = known.explains(judge, &last.tree, finding)?
        {
            *self.known.entry(known.entries[entry].name.clone()).or_default() += 1;
            return Ok(());
        }
        let Some(small) = shrink::history(judge, steps.to_vec(), finding)? else {
            let way = finding.way.word();
            self.note(
                format!(
                    "seed {seed}: does not show again ({way}): {}\n{}\n",
                    last.tree.sql(),
                    finding.difference
                ),
                &last.tree.sql(),
            );
            return Ok(());
        };
        small.prepare(judge)?;
        match known.explains(judge, small.last(), &small.finding)? {
            Some(entry) => *self.known.entry(known.entries[entry].name.clone()).or_default() += 1,
            None => self.reproduction(seed, &small),
        }
        Ok(())
    }

    fn reproduction(&mut self, seed: u64, small: &Reproduction) {
        let text = format!("seed {seed}\n{}{}\n", small.sql(), small.difference());
        let key = format!("{:?} {}", small.difference(), small.last().sql());
        self.note(text, &key);
    }

    fn note(&mut self, text: String, key: &str) {
        if self.seen.insert(key.to_owned()) {
            println!("{text}");
            self.unknown.push(text);
        }
    }

    /// Which path the query takes, by EXPLAIN; PostgreSQL's answer to it counts for nothing.
    fn count_path(&mut self, judge: &mut Judge, tree: &Tree) -> io::Result<()> {
        match judge.plan(&tree.sql())? {
            Some("oltp") => self.paths.0 += 1,
            Some("olap") => self.paths.1 += 1,
            _ => {}
        }
        Ok(())
    }
}
