//! `ankerdb experiment` as a user meets it: the list, refusals, every experiment in miniature, ctrl-c.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{ankerdb, run, text};

/// A folder of this test's own, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("ankerdb-experiment-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("the path is text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_list_has_a_line_for_every_experiment() {
    let list = text(&run(&["experiment", "list"]).stdout);
    for id in [
        "anker-fig6",
        "anker-fig7",
        "anker-fig8",
        "anker-tab2",
        "dissertation-fig2.5",
        "ankerdb-fig7",
        "ankerdb-fig8",
        "ankerdb-fig11",
    ] {
        let line = list.lines().find(|line| line.starts_with(id));
        assert!(line.is_some_and(|line| line.len() > id.len() + 20), "{id} in\n{list}");
    }
}

#[test]
fn impossible_experiments_are_refused_before_anything_is_loaded() {
    for (arguments, part) in [
        (&["anker-fig99"][..], "there are anker-fig6, anker-fig7"),
        (&["anker-fig6", "--warehouses", "0"], "--warehouses must be at least 1"),
        (&["anker-fig6", "--warehouses", "900000"], "at most --warehouses"),
        (&["anker-fig6", "--seconds", "0"], "--seconds must be between 1 and 86400"),
        (&["anker-fig6", "--olap", "0"], "--olap must be at least 1"),
        (&["anker-fig6", "--scale", "1"], "--scale does not apply"),
        (&["ankerdb-fig7", "--warehouses", "1"], "--warehouses does not apply"),
        (&["ankerdb-fig8", "--scale", "0"], "--scale must be between 0.001 and 1000"),
        (&["dissertation-fig2.5", "--scale", "900"], "at most --scale"),
        (&["anker-fig6", "--out", "/dev/null/x"], "cannot write into /dev/null/x"),
        (&["anker-fig6", "--engine", "hee-anker"], "engine \"hee-anker\" is not available"),
        (&["anker-fig6", "--engine", "silo"], "there are ankerdb, see-fs, see-si, see-ru"),
    ] {
        let output = run(&[&["experiment"], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        let line = message.lines().next().unwrap_or_default();
        assert!(line.contains(part), "{arguments:?}: {message}");
    }
    for command in [&["serve"][..], &["demo"], &["bench", "htap"]] {
        let output = run(&[command, &["--engine", "hee-anker"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(text(&output.stderr).contains("engine \"hee-anker\" is not available"), "{command:?}");
    }
}

/// The width of a PNG that decodes to something with more than one colour.
fn decoded_width(path: &Path) -> u32 {
    let file = BufReader::new(std::fs::File::open(path).expect("the picture is there"));
    let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    let frame = reader.next_frame(&mut pixels).expect("it decodes");
    assert!(pixels.chunks_exact(3).any(|pixel| pixel != &pixels[..3]), "an empty picture");
    frame.width
}

/// Runs an experiment and checks that it leaves what was promised.
fn miniature(id: &str, options: &[&str]) {
    let folder = Folder::new(id);
    let arguments = [&["experiment", id, "--seconds", "1", "--out", folder.path()], options].concat();
    let output = run(&arguments);
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in ["The paper says", "Deviations from the paper", "commit ", "stolen CPU", "see-fs", "see-ru"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let file = |ending: &str| folder.0.join(format!("{id}.{ending}"));
    let csv = std::fs::read_to_string(file("csv")).expect("a CSV");
    assert!(csv.starts_with("panel,series,source,x,x_label,y,x_axis,y_axis\n"), "{csv}");
    for engine in ["ankerdb", "see-fs", "see-si", "see-ru"] {
        let measured = format!("{engine},measured,");
        assert!(csv.lines().any(|line| line.contains(&measured)), "{engine} was not measured:\n{csv}");
    }
    let svg = std::fs::read_to_string(file("svg")).expect("an SVG");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("see-si"));
    assert!(decoded_width(&file("png")) >= 640);
    assert_eq!(
        std::fs::read_to_string(file("txt")).expect("a text").trim_end(),
        printed(&report),
        "as printed"
    );
}

/// The report without the paths behind it.
fn printed(output: &str) -> &str {
    output.rsplit_once("\n\n").expect("paths follow").0.trim_end()
}

/// Options that make TPC-C small.
const ONE_WAREHOUSE: [&str; 6] = ["--warehouses", "1", "--oltp", "1", "--olap", "1"];

#[test]
fn anker_fig6_in_miniature() {
    miniature("anker-fig6", &ONE_WAREHOUSE);
}

#[test]
fn anker_fig7_in_miniature() {
    miniature("anker-fig7", &ONE_WAREHOUSE);
}

#[test]
fn anker_fig8_in_miniature() {
    miniature("anker-fig8", &ONE_WAREHOUSE);
}

#[test]
fn anker_tab2_in_miniature() {
    miniature("anker-tab2", &ONE_WAREHOUSE);
}

/// Options that make TPC-H small.
const TINY_SCALE: [&str; 6] = ["--scale", "0.002", "--oltp", "2", "--olap", "1"];

#[test]
fn dissertation_fig2_5_in_miniature() {
    miniature("dissertation-fig2.5", &TINY_SCALE);
}

#[test]
fn ankerdb_fig7_in_miniature() {
    miniature("ankerdb-fig7", &TINY_SCALE);
}

#[test]
fn ankerdb_fig8_in_miniature() {
    miniature("ankerdb-fig8", &TINY_SCALE);
}

#[test]
fn ankerdb_fig11_in_miniature() {
    miniature("ankerdb-fig11", &TINY_SCALE);
}

#[test]
fn a_papers_printed_numbers_stand_beside_ours() {
    let folder = Folder::new("numbers");
    let arguments = [
        "experiment",
        "anker-tab2",
        "--warehouses",
        "1",
        "--engine",
        "ankerdb",
        "--seconds",
        "1",
        "--out",
        folder.path(),
    ];
    let report = text(&run(&arguments).stdout);
    let row = report.lines().find(|line| line.contains("HEE_AnKer (paper)")).expect("a row");
    assert!(row.ends_with("51289"), "{row}");
}

#[test]
fn ctrl_c_ends_an_experiment_with_what_was_measured() {
    let folder = Folder::new("stopped");
    let arguments = [
        "experiment",
        "anker-fig6",
        "--warehouses",
        "1",
        "--oltp",
        "1",
        "--seconds",
        "2",
        "--out",
        folder.path(),
    ];
    let mut child = ankerdb(&arguments).spawn().expect("the command starts");
    let mut progress = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
    let reached = progress.by_ref().map_while(Result::ok).any(|line| line.starts_with("measurement 2 of 8"));
    assert!(reached, "the experiment ended before its second measurement");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill exists");
    assert!(sent.success());
    let rest = std::thread::spawn(move || progress.map_while(Result::ok).count());
    let output = child.wait_with_output().expect("the command ends");
    assert!(rest.join().expect("reading does not panic") <= 1, "it went on");
    let report = text(&output.stdout);
    assert!(output.status.success() && report.contains("stopped by the user"), "{report}");
    let csv = std::fs::read_to_string(folder.0.join("anker-fig6.csv")).expect("a CSV");
    assert!(csv.contains("(a) uniform: latency,ankerdb,measured,0,Q1,"), "{csv}");
    assert!(!csv.contains("(b) skewed: latency"), "{csv}");
}
