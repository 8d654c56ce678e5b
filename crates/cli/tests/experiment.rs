//! `ankerdb experiment` as a user meets it: the list, refusals, every experiment in miniature, ctrl-c.

mod support;

use ankerdb_engine::Technique;
use ankerdb_ledger::server::Product;
use std::io::{BufRead, BufReader, Write as _};
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
        "anker-tab1",
        "anker-fig4",
        "anker-tab2",
        "dissertation-fig2.5",
        "dissertation-fig2.6",
        "dissertation-fig4.11",
        "dissertation-tab4.2",
        "dissertation-fig4.12",
        "dissertation-fig4.13",
        "dissertation-fig4.14",
        "damon-tab1",
        "damon-tab2",
        "damon-tab3",
        "damon-fig11",
        "caldera-fig5",
        "caldera-fig6",
        "caldera-fig7",
        "snapshot-race",
        "snapshot-manager",
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
        (&["anker-fig99"][..], "there are anker-tab1, anker-fig4, anker-fig6, anker-fig7"),
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
        (&["anker-tab1", "--megabytes", "900000"], "at most --megabytes"),
        (&["snapshot-race", "--megabytes", "0"], "--megabytes must be between 1 and 1000000"),
        (&["snapshot-race", "--scale", "1"], "--scale does not apply, --megabytes does"),
        (&["anker-fig4", "--engine", "see-fs"], "--engine does not apply, --technique does"),
        (&["anker-fig4", "--oltp", "2"], "--oltp and --olap do not apply"),
        (&["anker-fig6", "--technique", "fork"], "--technique does not apply, --engine does"),
        (&["anker-fig6", "--megabytes", "1"], "--megabytes does not apply, --warehouses does"),
        (&["dissertation-fig4.11", "--users", "9"], "--users must be between 10 and 10000000, not 9"),
        (&["dissertation-fig4.11", "--users", "9999999"], "at most --users"),
        (
            &["dissertation-fig4.11", "--members", "oracle"],
            "there are paper, postgresql, mariadb, ankerdb, mixed",
        ),
        (&["dissertation-fig4.14", "--engine", "see-fs"], "--engine does not apply, --members does"),
        (&["dissertation-fig4.12", "--olap", "1"], "--olap does not apply"),
        (&["dissertation-fig4.13", "--oltp", "2"], "--oltp does not apply"),
        (&["dissertation-tab4.2", "--megabytes", "1"], "--megabytes does not apply, --users does"),
        (&["anker-fig6", "--members", "mixed"], "--members does not apply, --engine does"),
        (&["anker-tab1", "--technique", "zfs"], "there are physical, fork, rewiring"),
        (
            &["damon-tab3", "--mechanism", "zigzag"],
            "there are vm-fork, tuple-shadowing, twin-tuples, hot-cold",
        ),
        (&["damon-tab3", "--engine", "see-fs"], "--engine does not apply, --mechanism does"),
        (&["damon-tab3", "--oltp", "2"], "--oltp does not apply"),
        (&["damon-tab1", "--olap", "2"], "--olap does not apply"),
        (&["damon-tab2", "--tuples", "1"], "--tuples must be between 1000 and 1000000000, not 1"),
        (&["damon-tab2", "--tuples", "999999999"], "at most --tuples"),
        (&["damon-fig11", "--tuples", "1000"], "--tuples does not apply, --warehouses does"),
        (&["caldera-fig5", "--mechanism", "hot-cold", "--scale", "900"], "at most --scale"),
        (&["anker-fig6", "--mechanism", "hot-cold"], "--mechanism does not apply, --engine does"),
        (&["anker-fig6", "--engine", "silo"], "there are ankerdb, see-fs, see-si, see-ru"),
    ] {
        let output = run(&[&["experiment"], arguments].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        let line = message.lines().next().unwrap_or_default();
        assert!(line.contains(part), "{arguments:?}: {message}");
    }
    // Of a technique that the machine lacks, what is missing.
    if let Some(error) = Technique::ALL.into_iter().find_map(|technique| technique.check().err()) {
        let arguments =
            ["experiment", "anker-tab1", "--technique", "rewiring,vm-snapshot,rewiring-userfaultfd"];
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(error.message()), "{error}");
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
fn miniature(id: &str, options: &[&str]) -> String {
    let folder = Folder::new(id);
    let arguments = [&["experiment", id, "--seconds", "1", "--out", folder.path()], options].concat();
    let output = run(&arguments);
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in ["The paper says", "Deviations from the paper", "commit ", "stolen CPU", "see-fs", "see-ru"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    // Deviations that differ between configurations with snapshots.
    let unlike = ["hee-* takes a column again only if", "hee-fork runs a query on one thread"];
    let unlike = unlike.into_iter().filter(|_| id != "dissertation-fig2.5");
    for part in unlike.chain(id.starts_with("anker-").then_some("creation of ours is a timestamp")) {
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
    csv
}

/// Runs an experiment that compares techniques and checks its files: every one that the machine can run is measured, every
/// other one is said to be left out.
fn miniature_of_techniques(id: &str, options: &[&str]) -> String {
    let folder = Folder::new(id);
    let arguments = [&["experiment", id, "--seconds", "1", "--out", folder.path()], options].concat();
    let output = run(&arguments);
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in ["The paper says", "Deviations from the paper", "commit ", "stolen CPU"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let file = |ending: &str| folder.0.join(format!("{id}.{ending}"));
    let csv = std::fs::read_to_string(file("csv")).expect("a CSV");
    assert!(
        csv.lines().any(|line| line.contains("ankerdb") && line.contains(",measured,")),
        "ours in\n{csv}"
    );
    for technique in Technique::ALL {
        let name = technique.name();
        let names = [format!(",{name},measured,"), format!(",\"{name}, ")];
        let is_measured = csv
            .lines()
            .any(|line| line.contains(",measured,") && names.iter().any(|name| line.contains(name)));
        assert_eq!(is_measured, technique.check().is_ok(), "{name} in\n{csv}");
        assert_eq!(report.contains(&format!("left out: {name}: ")), !is_measured, "{name} in\n{report}");
    }
    let svg = std::fs::read_to_string(file("svg")).expect("an SVG");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("physical"));
    assert!(decoded_width(&file("png")) >= 640);
    csv
}

/// The values of a series in a panel whose title begins like this.
fn values(csv: &str, panel: &str, series: &str) -> Vec<f64> {
    let rows = csv.lines().filter(|line| line.trim_start_matches('"').starts_with(panel));
    let points = rows.filter_map(|line| line.split_once(&format!(",{series},measured,")));
    points.filter_map(|(_, point)| fields(point).nth(2)?.parse().ok()).collect()
}

/// The fields of a line, of which those with a comma are quoted.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    line.split(move |character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    })
}

#[test]
fn anker_tab1_in_miniature() {
    let csv = miniature_of_techniques("anker-tab1", &["--megabytes", "1"]);
    assert_eq!(values(&csv, "Snapshot creation", "physical").len(), 3, "{csv}");
    assert!(csv.lines().any(|line| line.contains("fork,paper,0,1,108.28")), "{csv}");
}

#[test]
fn anker_fig4_in_miniature() {
    let csv = miniature_of_techniques("anker-fig4", &["--megabytes", "1"]);
    let mappings = |technique: Technique| values(&csv, "(a) mappings", technique.name());
    for technique in Technique::ALL.into_iter().filter(|technique| technique.check().is_ok()) {
        let counts = mappings(technique);
        let most = counts.iter().copied().fold(0.0, f64::max);
        match technique {
            Technique::Rewiring | Technique::RewiringUserfaultfd => {
                assert!(most > 100.0 && most > 4.0 * counts[0], "{technique:?}: {counts:?}");
            }
            _ => assert!(counts.iter().all(|count| *count == 1.0), "{technique:?}: {counts:?}"),
        }
    }
}

#[test]
fn dissertation_fig2_6_in_miniature() {
    let csv = miniature_of_techniques("dissertation-fig2.6", &["--scale", "0.002"]);
    assert_eq!(values(&csv, "LINEITEM", "physical").len(), 16, "{csv}");
    assert_eq!(values(&csv, "ORDERS", "ankerdb").len(), 9, "{csv}");
    // Creation is of new memory; where the former snapshot's can be brought up to date, that is another series.
    for technique in Technique::ALL.into_iter().filter(|technique| technique.check().is_ok()) {
        let refreshed = format!("\"{}, refreshed\"", technique.name());
        let is_shown = values(&csv, "ORDERS", &refreshed).len() == 9;
        let can_refresh = !matches!(technique, Technique::Physical | Technique::Fork);
        assert_eq!(is_shown, can_refresh, "{technique:?} in\n{csv}");
    }
    assert_eq!(values(&csv, "All columns of a table", "\"ankerdb, the timestamp\"").len(), 4, "{csv}");
}

#[test]
fn snapshot_race_in_miniature() {
    let csv = miniature_of_techniques("snapshot-race", &["--megabytes", "1"]);
    for panel in ["\"Writers kept", "Scan", "Snapshots taken", "Write after a snapshot"] {
        assert!(
            csv.lines()
                .any(|line| line.starts_with(panel.trim_start_matches('"')) || line.starts_with(panel))
        );
    }
    assert_eq!(values(&csv, "Scan of a snapshot after", "ankerdb").len(), 6, "{csv}");
}

/// Runs an experiment that compares mechanisms and checks its files: those of the list, and ours, are measured.
fn miniature_of_mechanisms(id: &str, mechanisms: &[&str], options: &[&str]) -> (String, String) {
    let folder = Folder::new(id);
    let asked = mechanisms.join(",");
    let arguments = [&["experiment", id, "--out", folder.path(), "--mechanism", &asked], options].concat();
    let output = run(&arguments);
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in ["The paper says", "run one after the other on one thread", "commit ", "stolen CPU"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let file = |ending: &str| folder.0.join(format!("{id}.{ending}"));
    let csv = std::fs::read_to_string(file("csv")).expect("a CSV");
    for name in mechanisms.iter().chain(&["ankerdb"]) {
        assert!(csv.contains(name), "{name} in\n{csv}");
    }
    assert!(!csv.contains("nan") && !csv.contains("inf"), "{csv}");
    let svg = std::fs::read_to_string(file("svg")).expect("an SVG");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(decoded_width(&file("png")) >= 640);
    (report, csv)
}

const MECHANISMS: [&str; 5] = ["vm-fork", "tuple-shadowing", "twin-tuples", "hot-cold", "shadow-copies"];

#[test]
fn damon_tab1_in_miniature() {
    let (_, csv) =
        miniature_of_mechanisms("damon-tab1", &["twin-tuples", "hot-cold"], &["--warehouses", "1"]);
    for mechanism in ["twin-tuples", "hot-cold", "ankerdb"] {
        assert_measured(&csv, "Transactions wait", mechanism, 2);
    }
    assert_measured(&csv, "Reorganization", "hot-cold", 2);
    assert!(csv.contains("tuple-shadowing,paper,0,4 KiB pages,500"), "{csv}");
}

/// The experiment itself compares what the mechanisms and ours find.
#[test]
fn damon_tab2_in_miniature() {
    let (_, csv) = miniature_of_mechanisms("damon-tab2", &MECHANISMS, &["--tuples", "20000"]);
    for mechanism in MECHANISMS.iter().chain(&["ankerdb"]) {
        for panel in ["\"4 KiB pages, the snapshot from before", "\"2 MiB pages, the snapshot after"] {
            let panel = panel.trim_start_matches('"');
            assert_measured(&csv, panel, mechanism, 3);
        }
    }
}

#[test]
fn damon_tab3_in_miniature() {
    let options = ["--warehouses", "1", "--olap", "1", "--seconds", "1"];
    let (report, csv) = miniature_of_mechanisms("damon-tab3", &["hot-cold", "tuple-shadowing"], &options);
    for (mechanism, treatments) in [("hot-cold", 3), ("tuple-shadowing", 4), ("ankerdb", 1)] {
        assert_measured(&csv, "Transactions", mechanism, 1 + treatments);
        assert_measured(&csv, "Queries", mechanism, treatments);
    }
    assert!(report.contains("tuple-shadowing, index share, refreshes that abort queries"), "{report}");
}

#[test]
fn damon_fig11_in_miniature() {
    let options = ["--warehouses", "1", "--olap", "1"];
    let (report, csv) = miniature_of_mechanisms("damon-fig11", &["twin-tuples"], &options);
    for series in ["twin-tuples", "ankerdb", "baseline", "rows without queries"] {
        assert_measured(&csv, "Memory", series, 11);
    }
    // Two of each tuple are more than one of each.
    let last = |series: &str| values(&csv, "Memory", series).last().copied().unwrap_or_default();
    assert!(last("twin-tuples") > 1.5 * last("baseline"), "{report}");
}

#[test]
fn caldera_in_miniature() {
    let (_, csv) =
        miniature_of_mechanisms("caldera-fig5", &["vm-fork", "shadow-copies"], &["--scale", "0.01"]);
    for competitor in ["vm-fork", "\"shadow-copies, 64 KiB", "ankerdb"] {
        let panel = format!("{}: transactions", competitor.trim_start_matches('"'));
        assert_measured(&csv, &panel, "a snapshot for 10 queries", 5);
        assert_measured(&csv, &panel, "a snapshot for 1 query", 5);
    }
    let (_, csv) = miniature_of_mechanisms("caldera-fig6", &["hot-cold"], &["--scale", "0.01"]);
    assert_measured(&csv, "Q6, most", "hot-cold", 5);
    let (_, csv) = miniature_of_mechanisms("caldera-fig7", &["twin-tuples"], &["--scale", "0.01"]);
    assert_measured(&csv, "Q6, average", "twin-tuples", 4);
}

/// The report without the paths behind it.
fn printed(output: &str) -> &str {
    output.rsplit_once("\n\n").expect("paths follow").0.trim_end()
}

/// Runs an experiment on a ledger in miniature and checks its files. Nothing if a database is not installed, which the
/// experiment has to say then.
fn miniature_of_ledger(id: &str, seconds: &str, options: &[&str]) -> Option<(String, String)> {
    let folder = Folder::new(id);
    let arguments = [
        &[
            "experiment",
            id,
            "--seconds",
            seconds,
            "--users",
            "200",
            "--members",
            "mixed",
            "--out",
            folder.path(),
        ],
        options,
    ]
    .concat();
    let output = run(&arguments);
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    let missing: Vec<String> = [Product::find_postgres(), Product::find_mariadb()]
        .into_iter()
        .filter_map(|product| product.err().map(|error| error.to_string()))
        .collect();
    if let Some(missing) = missing.first() {
        assert!(std::env::var_os("ANKERDB_STRICT").is_none_or(|strict| strict != "1"), "{missing}");
        assert!(!output.status.success() && errors.contains(missing), "{missing} in\n{errors}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    assert!(!report.contains("left out"), "{report}");
    for part in ["The paper says", "200 users instead of 100000", "commit ", "stolen CPU"] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let file = |ending: &str| folder.0.join(format!("{id}.{ending}"));
    let svg = std::fs::read_to_string(file("svg")).expect("an SVG");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(decoded_width(&file("png")) >= 640);
    Some((report, std::fs::read_to_string(file("csv")).expect("a CSV")))
}

/// What a series of an experiment on a ledger has to be: so many points, none of them nothing.
fn assert_measured(csv: &str, panel: &str, series: &str, count: usize) {
    let found = values(csv, panel, series);
    assert!(found.len() == count && found.iter().all(|value| *value > 0.0), "{panel}, {series} in\n{csv}");
}

#[test]
fn dissertation_fig4_11_in_miniature() {
    let Some((report, csv)) = miniature_of_ledger("dissertation-fig4.11", "1", &["--oltp", "4"]) else {
        return;
    };
    for policy in ["Any-2", "All-3"] {
        for panel in ["(a) the ledger", "From firing to the outcome"] {
            assert_measured(&csv, panel, &format!("\"mixed, {policy}\""), 2);
        }
        assert!(report.contains(&format!("mixed, {policy}: as fast as raw PostgreSQL: ")), "{report}");
    }
    for product in ["PostgreSQL", "MariaDB", "AnKerDB"] {
        assert_measured(&csv, "(b) raw databases", product, 2);
    }
}

#[test]
fn dissertation_tab4_2_in_miniature() {
    let Some((report, csv)) = miniature_of_ledger("dissertation-tab4.2", "1", &["--oltp", "3"]) else {
        return;
    };
    for distribution in ["Zipf", "uniform"] {
        assert_measured(&csv, "The ledger", &format!("\"mixed, {distribution}\""), 1);
        assert_measured(&csv, "Raw databases", &format!("\"MariaDB, {distribution}\""), 1);
    }
    let row = report.lines().find(|line| line.contains("ChainifyDB, uniform (paper)")).expect("a row");
    assert!(row.ends_with("2279"), "{row}");
}

#[test]
fn dissertation_fig4_12_in_miniature() {
    let Some((report, csv)) = miniature_of_ledger("dissertation-fig4.12", "4", &["--oltp", "3"]) else {
        return;
    };
    let last = |organization: &str| values(&csv, "mixed: blocks", organization).last().copied();
    let [first, second, lost] =
        ["postgresql-1", "mariadb-2", "ankerdb-3"].map(|name| last(name).expect("blocks"));
    // The two that are left go on without the one that is lost.
    assert!(first > lost && second > lost, "{first}, {second}, {lost} in\n{report}");
    // It is outvoted, or finds by itself that its rows are not what the ledger certifies.
    let repaired = "postgresql-1 says: repaired by partial-replay";
    assert!(report.contains(repaired), "{repaired} in\n{report}");
}

#[test]
fn dissertation_fig4_13_in_miniature() {
    let Some((report, csv)) = miniature_of_ledger("dissertation-fig4.13", "1", &[]) else { return };
    let [with, without] =
        ["\"mixed, with cryptography\"", "\"mixed, without\""].map(|name| values(&csv, "Throughput", name));
    assert!(with.len() == 2 && with.iter().all(|rate| *rate > 0.0), "{csv}");
    assert!(with.iter().zip(&without).all(|(with, without)| with < without), "{with:?} {without:?}");
    assert!(report.contains("parallel execution is "), "{report}");
}

#[test]
fn dissertation_fig4_14_in_miniature() {
    let Some((report, csv)) = miniature_of_ledger("dissertation-fig4.14", "1", &["--oltp", "3"]) else {
        return;
    };
    for policy in ["Any-2", "All-3"] {
        assert_measured(&csv, "Throughput", &format!("\"mixed, {policy}\""), 3);
        assert!(report.contains(&format!("mixed, {policy}: blocks of 4096 are ")), "{report}");
    }
}

/// Options that make TPC-C small.
const ONE_WAREHOUSE: [&str; 6] = ["--warehouses", "1", "--oltp", "1", "--olap", "1"];

/// An engine of each kind; the others are measured by the first experiment of the same kind.
const A_FEW_ENGINES: [&str; 2] = ["--engine", "ankerdb,hee-physical,see-fs,see-si,see-ru"];

#[test]
fn anker_fig6_in_miniature() {
    let csv = miniature("anker-fig6", &ONE_WAREHOUSE);
    for engine in ["ankerdb", "hee-physical"] {
        for panel in ["(a) uniform: snapshot creation", "(a) uniform: creation and first read"] {
            assert!(!values(&csv, panel, engine).is_empty(), "{engine}, {panel} in\n{csv}");
        }
    }
}

#[test]
fn anker_fig7_in_miniature() {
    miniature("anker-fig7", &[&ONE_WAREHOUSE[..], &A_FEW_ENGINES].concat());
}

#[test]
fn anker_fig8_in_miniature() {
    miniature("anker-fig8", &[&ONE_WAREHOUSE[..], &A_FEW_ENGINES].concat());
}

#[test]
fn anker_tab2_in_miniature() {
    miniature("anker-tab2", &ONE_WAREHOUSE);
}

#[test]
fn snapshot_manager_in_miniature() {
    let folder = Folder::new("snapshot-manager");
    let begin = ["experiment", "snapshot-manager", "--out", folder.path(), "--seconds", "1", "--engine"];
    let output = run(&[&begin[..], &["ankerdb,hee-physical,see-si"], &ONE_WAREHOUSE].concat());
    let (report, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    for part in [
        "The paper says",
        "nothing is learned by a model",
        "commit ",
        "stolen CPU",
        "left out: see-si: ",
        "ankerdb, 100 ms: of ",
        "shared a snapshot that was there",
        "at the bound of 1 MiB",
        "from a staleness of 1 s on, one snapshot may serve all of it",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    let csv = std::fs::read_to_string(folder.0.join("snapshot-manager.csv")).expect("a CSV");
    assert!(!csv.contains("nan") && !csv.contains("inf"), "{csv}");
    for engine in ["ankerdb", "hee-physical"] {
        for panel in ["Queries answered", "Transactions beside them"] {
            assert_measured(&csv, panel, engine, 6);
        }
        let shared = values(&csv, "Queries that shared", engine);
        assert!(shared.len() == 6 && shared[0] == 0.0 && shared[4] > 0.0, "{engine}: {shared:?}");
        let largest = values(&csv, "Age of what a query shows", &format!("\"{engine}, largest\""));
        assert!(largest.len() == 6 && largest[0] == 0.0 && largest[4] > 0.0, "{engine}: {largest:?}");
        let history = format!("\"{engine}, for a shared snapshot\"");
        assert_measured(&csv, "History kept", &history, 5);
    }
    assert_measured(&csv, "Columns lent", "ankerdb", 6);
    assert!(values(&csv, "Columns lent", "hee-physical").is_empty(), "{csv}");
    let svg = std::fs::read_to_string(folder.0.join("snapshot-manager.svg")).expect("an SVG");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("hee-physical"));
    assert!(decoded_width(&folder.0.join("snapshot-manager.png")) >= 640);
    // Engines in which there is nothing to share are refused by themselves.
    let output = run(&[&begin[..], &["see-fs,see-ru"]].concat());
    assert!(!output.status.success() && text(&output.stderr).contains("no engine is left to measure"));
}

/// Options that make TPC-H small.
const TINY_SCALE: [&str; 6] = ["--scale", "0.002", "--oltp", "2", "--olap", "1"];

#[test]
fn dissertation_fig2_5_in_miniature() {
    miniature("dissertation-fig2.5", &[&TINY_SCALE[..], &A_FEW_ENGINES].concat());
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
    let reached = progress.by_ref().map_while(Result::ok).any(|line| line.starts_with("measurement 2 of "));
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
