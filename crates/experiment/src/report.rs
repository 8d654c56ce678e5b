//! The files of a run of an experiment: text, CSV, SVG and PNG with the same numbers and the same conditions.

use crate::Experiment;
use crate::finding::Findings;
use crate::harness::Measurement;
use crate::render::picture::{self, Picture};
use crate::render::{csv, text};
use crate::setup::invalid;
use ankerdb_engine::{Error, Result};
use ankerdb_measure::cpu::Noise;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::commit;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The result of one experiment.
pub struct ExperimentReport {
    experiment: &'static Experiment,
    findings: Findings,
    machine: Machine,
    deviations: Vec<String>,
    measurements: Vec<Measurement>,
    interrupted: bool,
}

impl ExperimentReport {
    pub(crate) fn new(
        experiment: &'static Experiment,
        findings: Findings,
        machine: Machine,
        mut deviations: Vec<String>,
        measurements: Vec<Measurement>,
        interrupted: bool,
    ) -> ExperimentReport {
        deviations.extend(experiment.deviations.iter().map(|deviation| (*deviation).to_owned()));
        ExperimentReport { experiment, findings, machine, deviations, measurements, interrupted }
    }

    /// What was found.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Everything, for people.
    pub fn text(&self) -> String {
        let Experiment { id, title, source, .. } = self.experiment;
        let mut text = format!("{id}: {title}\n({source})\n\n");
        for panel in &self.findings.panels {
            text.push_str(&text::table(panel));
            text.push('\n');
        }
        let mut section = |heading: &str, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(text, "{heading}:");
                lines.iter().for_each(|line| {
                    let _ = writeln!(text, "  - {line}");
                });
            }
        };
        section("Notes", &self.findings.notes);
        let says: Vec<String> = self.experiment.paper_says.iter().map(|line| (*line).to_owned()).collect();
        section("The paper says", &says);
        section("Deviations from the paper", &self.deviations);
        section("Conditions", &self.conditions());
        if self.interrupted {
            text.push_str("stopped by the user: this is what was measured until then\n");
        }
        text
    }

    /// Machine, commit, and how noisy the measurements were.
    fn conditions(&self) -> Vec<String> {
        let Machine { cores, memory_bytes, cpu, kernel } = &self.machine;
        let memory = *memory_bytes as f64 / (1u64 << 30) as f64;
        let mut lines = vec![
            format!("{cores} cores ({cpu}), {memory:.0} GiB, Linux {kernel}"),
            format!("commit {}", commit()),
            self.noise(),
        ];
        for measurement in self.measurements.iter().filter(|measurement| measurement.is_noisy()) {
            lines.push(format!(
                "noisy: {} ({:.1}% stolen, {:.1}% used by other processes)",
                measurement.label,
                measurement.noise.steal * 100.0,
                measurement.noise.others * 100.0
            ));
        }
        lines
    }

    fn noise(&self) -> String {
        let worst = self.measurements.iter().map(|measurement| measurement.noise.steal).fold(0.0, f64::max);
        let total: f64 = self.measurements.iter().map(|measurement| measurement.elapsed.as_secs_f64()).sum();
        let stolen: f64 = (self.measurements.iter())
            .map(|measurement| measurement.noise.steal * measurement.elapsed.as_secs_f64())
            .sum();
        let noisy = self.measurements.iter().filter(|measurement| measurement.is_noisy()).count();
        format!(
            "stolen CPU {:.1}% on average, {:.1}% at worst; {noisy} of {} measurements noisy ({})",
            if total > 0.0 { stolen / total * 100.0 } else { 0.0 },
            worst * 100.0,
            self.measurements.len(),
            Noise::limits()
        )
    }

    /// Writes `<id>.txt`, `<id>.csv`, `<id>.svg` and `<id>.png` into the folder; returns their paths.
    ///
    /// # Errors
    /// Those of the files.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let path = |ending: &str| folder.join(format!("{}.{ending}", self.experiment.id));
        let write = |path: &Path, content: String| {
            std::fs::write(path, content)
                .map_err(|error| Error::internal(format!("cannot write {}: {error}", path.display())))
        };
        let paths = ["txt", "csv", "svg", "png"].map(path);
        write(&paths[0], self.text())?;
        write(&paths[1], csv::table(&self.findings.panels))?;
        let (title, footer) = (self.title(), self.footer());
        let picture = Picture { title: &title, panels: &self.findings.panels, footer: &footer };
        picture::write(&paths[2], &picture)?;
        picture::write(&paths[3], &picture)?;
        Ok(paths.to_vec())
    }

    fn title(&self) -> String {
        format!("{}: {}", self.experiment.id, self.experiment.title)
    }

    fn footer(&self) -> Vec<String> {
        let mut footer = vec![self.experiment.source.to_owned()];
        footer.extend(self.conditions().into_iter().take(3));
        if self.interrupted {
            footer.push("stopped by the user".to_owned());
        }
        footer
    }
}

/// Whether results can be written into a folder, which is made if it is missing.
///
/// # Errors
/// 22023 if not.
pub fn check_folder(folder: &Path) -> Result<()> {
    let refused = |error: std::io::Error| invalid(format!("cannot write into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(refused)?;
    let probe = folder.join(format!(".ankerdb-{}", std::process::id()));
    std::fs::write(&probe, []).map_err(refused)?;
    std::fs::remove_file(&probe).map_err(refused)
}
