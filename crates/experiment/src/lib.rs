//! The tables and figures of the papers, one experiment each.
//!
//! An [`Experiment`] is a value: an id, its source, its setup in the paper, and a function that measures and returns
//! [`finding::Findings`]. [`Experiment::run`] resolves the user's [`setup::SetupOptions`] against the paper's setup and this machine,
//! refuses what cannot work before anything is loaded, and makes a [`report::ExperimentReport`] of what was found, which is
//! written as text, CSV, SVG and PNG by the same renderers for all.
//!
//! Every experiment on one database compares all configurations that this machine can run
//! (`ankerdb_engine::Configuration::available`); a further one appears in all of them by being added there. Those on a ledger
//! compare databases below its organizations ([`setup::members::LedgerMembers`]).
#![forbid(unsafe_code)]

pub mod anker;
pub mod ankerdb;
pub mod batch;
pub mod caldera;
pub mod damon;
pub mod dissertation;
pub mod finding;
pub mod harness;
pub mod ledger;
pub mod mechanism;
pub mod race;
pub mod render;
pub mod report;
pub mod rows;
pub mod setup;
pub mod snapshot_manager;
pub mod stream;
pub mod technique;
pub mod tpcc;
pub mod tpch;

use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_measure::machine::Machine;
use finding::Findings;
use harness::{ExperimentWatch, Harness};
use report::ExperimentReport;
use setup::choice::Compared;
use setup::{Data, PaperSetup, Setup, SetupOptions, invalid};
use std::time::Duration;

/// One table or figure of a paper.
pub struct Experiment {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it shows, in one line.
    pub title: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// Its setup in the paper.
    pub paper: PaperSetup,
    /// Its data.
    pub data: Data,
    /// What it compares.
    pub compared: Compared,
    /// Measures.
    run: fn(&Harness<'_>) -> Result<Findings>,
    /// Results that the paper prints, or that it prints none.
    pub paper_says: &'static [&'static str],
    /// What always differs from the paper.
    pub deviations: &'static [&'static str],
}

const ANKER_TPCC: Data = Data::TpcC { paper: anker::WAREHOUSES, quick: anker::QUICK_WAREHOUSES };

/// All of them, by paper.
static EXPERIMENTS: [Experiment; 25] = [
    Experiment {
        id: "anker-tab1",
        title: "creating a snapshot of 1, 25 and 50 columns, after 0 to 50,000 of 51,200 pages were modified",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §4.3, Table 1 (dissertation 2020, Table 2.1)",
        paper: anker::ALONE,
        data: Data::Columns { count: anker::tab1::COLUMNS, paper: 200, quick: 16, factor: 3 },
        compared: Compared::Techniques,
        run: anker::tab1::run,
        paper_says: &[
            "its numbers stand in the table, marked (paper), for columns of 200 MB; its rewired columns were backed by 995, \
             9483 and 51177 mappings after 500, 5000 and 50000 modified pages",
        ],
        deviations: &[
            technique::ONE_RUN,
            technique::REWIRING,
            "the paper takes each snapshot once; here each is taken several times, and the median shown",
            "vm-snapshot, refreshing in place and ours are not in the paper's table; creation does not count dropping the former \
             snapshot, refreshing gives back what only that one had",
            "ours: a table of 50 bigint columns; a modified page is a row changed in all columns by a transaction",
        ],
    },
    Experiment {
        id: "anker-fig4",
        title: "one column, every page written once: snapshot creation, mappings, cost of a write",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §5.3, Figure 4 (dissertation 2020, Figure 2.4)",
        paper: anker::ALONE,
        data: Data::Columns { count: 1, paper: 200, quick: 200, factor: 4 },
        compared: Compared::Techniques,
        run: anker::fig4::run,
        paper_says: &[
            "a plot without printed values; from the text: vm_snapshot is stable and low, and cheaper than rewiring from \
             about 1000 writes on; after all 51,200 it is 68x faster",
            "writing a page is up to 6x faster with vm_snapshot than with rewiring",
        ],
        deviations: &[
            technique::ONE_RUN,
            technique::REWIRING,
            "without --full, 64 snapshots over all writes instead of one after each; the pages are written in random order",
            "ours: a row of the page is changed by a transaction, beside a reader to whom all arrays were lent",
        ],
    },
    Experiment {
        id: "anker-fig6",
        title: "snapshot cost and OLAP latency of eight queries beside TPC-C, uniform and skewed",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §6.3, Figure 6",
        paper: anker::PAPER,
        data: ANKER_TPCC,
        compared: Compared::Configurations,
        run: anker::fig6::run,
        paper_says: &[
            "bars without printed values, so there are no numbers to put beside ours",
            "SEE_FS and SEE_SI: up to 2200 ms for Q3 under the uniform pattern; both gain massively from skew",
            "HEE_AnKer: creation over 100x faster than fork's and not visible in the plot; total latency almost that of \
             SEE_RU; on Q6 to Q8 4.9x to 7.5x faster than HEE_fork",
        ],
        deviations: &[
            anker::QUERY_THREADS,
            anker::GROWTH,
            anker::MEDIANS,
            anker::CREATION,
            anker::SHARING,
            anker::FORK,
            "creation and first read is the whole query, from before its snapshot to its answer",
        ],
    },
    Experiment {
        id: "anker-fig7",
        title: "OLTP throughput over time, first alone, then beside queries, uniform and skewed",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §6.4, Figure 7",
        paper: anker::PAPER,
        data: ANKER_TPCC,
        compared: Compared::Configurations,
        run: anker::fig7::run,
        paper_says: &[
            "a plot without printed values; from the text, uniform, transactions/s: 60,000 to 70,000 before the first query \
             in all configurations; then SEE_FS around 28,000, HEE_fork 30,000 to 38,000, SEE_SI around 42,000, HEE_AnKer \
             47,000 on average",
            "skewed: lower in all configurations",
        ],
        deviations: &[
            anker::QUERY_THREADS,
            anker::GROWTH,
            anker::CREATION,
            anker::SHARING,
            anker::FORK,
            "SEE_RU is shown, too; the paper leaves it out because its throughput is so much higher",
        ],
    },
    Experiment {
        id: "anker-fig8",
        title: "latency of Q1 and Q6 over OLTP streams, OLTP throughput over OLAP streams",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §6.5, Figure 8",
        paper: PaperSetup { olap: 6, quick_seconds: 2, threads_vary: true, ..anker::PAPER },
        data: Data::TpcC { paper: anker::WAREHOUSES, quick: &[2] },
        compared: Compared::Configurations,
        run: anker::fig8::run,
        paper_says: &[
            "a plot without printed values; from the text: the hybrid configurations and SEE_RU do not depend on the \
             number of OLTP streams, SEE_FS and SEE_SI take longer the more there are",
            "from 1 to 6 OLAP streams the throughput of HEE_AnKer falls by 11.6%, that of HEE_fork by 67.6%",
        ],
        deviations: &[
            anker::QUERY_THREADS,
            anker::MEDIANS,
            anker::CREATION,
            anker::SHARING,
            anker::FORK,
            "(a) and (b) fire Q1 and Q6 only, to measure each more often; one database serves all points of a configuration, \
             as these queries' tables do not grow; every OLAP stream fires at the interval",
        ],
    },
    Experiment {
        id: "anker-tab2",
        title: "OLTP throughput beside queries over 1 to 40 warehouses",
        source: "Sharma, Schuhknecht, Dittrich: AnKer, SIGMOD 2018, §6.5, Table 2",
        paper: anker::PAPER,
        data: Data::TpcC { paper: anker::tab2::WAREHOUSES, quick: anker::tab2::QUICK_WAREHOUSES },
        compared: Compared::Configurations,
        run: anker::tab2::run,
        paper_says: &["its numbers stand in the table, marked (paper); SEE_RU is not in it"],
        deviations: &[anker::QUERY_THREADS, anker::CREATION, anker::SHARING, anker::FORK],
    },
    Experiment {
        id: "dissertation-fig2.5",
        title: "scan of TPC-H tables with 0 to 100% versioned rows, with and without first/last optimisation",
        source: "Sharma: dissertation 2020, §2.5.4, Figure 2.5 (AnKerDB, arXiv 2017, §5.5, Figure 9)",
        paper: PaperSetup { oltp: 1, olap: 1, seconds: 15, interval: Duration::ZERO, ..ankerdb::PAPER },
        data: ankerdb::DATA,
        compared: Compared::Configurations,
        run: dissertation::fig2_5::run,
        paper_says: &[
            "a plot without printed values; from the text: a completely versioned table takes around 5 times as long as an \
             unversioned one",
        ],
        deviations: &[
            ankerdb::PAPER_DATA,
            "the scan adds up all amounts of the table on one thread; what the paper's computes it does not say",
            "the reader is older than the changes, so what has changed comes from versions (see-ru reads newer values); a new \
             reader has begun after them, and finds them in place",
        ],
    },
    Experiment {
        id: "dissertation-fig2.6",
        title: "snapshotting the columns of TPC-H's tables one by one, against fork",
        source: "Sharma: dissertation 2020, §2.5.5, Figure 2.6 (AnKerDB, arXiv 2017, §5.6, Figure 10)",
        paper: anker::ALONE,
        data: ankerdb::DATA,
        compared: Compared::Techniques,
        run: dissertation::fig2_6::run,
        paper_says: &[
            "a plot without printed values; from the text: single columns are negligibly cheap, and all columns of all \
             tables (1.5 GB) are considerably cheaper than fork, which replicates the whole process of several times that size",
        ],
        deviations: &[
            technique::ONE_RUN,
            ankerdb::PAPER_DATA,
            "the database runs in the hybrid configuration of each technique; a row is inserted before each snapshot, so that \
             every column has changed",
            "each column's snapshot is taken anew, the former one was dropped before; \"refreshed\", which is not in the paper, is \
             made in the memory of the former one, where a technique then touches only what differs",
            "ours: creation is a timestamp, shown as such; what stands beside the techniques is the first read of the column, which \
             lends or copies all of its blocks",
            "fork: the process with all columns, once for any number of them; the engine's queries leave out of a child the \
             columns that they do not name",
        ],
    },
    Experiment {
        id: "dissertation-fig4.11",
        title: "throughput of a ledger over 3 to 24 clients, Any-2 and All-3, and of raw databases",
        source: "Sharma: dissertation 2020, §4.8.2, Figure 4.11",
        paper: ledger::PAPER,
        data: ledger::DATA,
        compared: Compared::Members,
        run: dissertation::fig4_11::run,
        paper_says: &[
            "a plot without printed values; from the text: Any-2 comes to almost 5000 transactions/s, Fabric++ to around 1000; All-3 is \
             throttled by MySQL, which is significantly slower than PostgreSQL with any number of clients",
            "with 3, 6 and 12 clients Any-2 is slightly faster than raw PostgreSQL",
        ],
        deviations: &[
            ledger::MACHINE,
            ledger::PRODUCTS,
            ledger::FIRING,
            ledger::AGREEMENT,
            ledger::BASELINES,
            "only \"paper\" is the paper's setup; the others have other databases below",
        ],
    },
    Experiment {
        id: "dissertation-tab4.2",
        title: "throughput of a ledger (Any-2), accounts picked by Zipf's law and evenly",
        source: "Sharma: dissertation 2020, §4.8.2, Table 4.2",
        paper: ledger::PAPER,
        data: ledger::DATA,
        compared: Compared::Members,
        run: dissertation::tab4_2::run,
        paper_says: &["its numbers stand in the table, marked (paper), for the setup \"paper\""],
        deviations: &[
            ledger::MACHINE,
            ledger::PRODUCTS,
            ledger::FIRING,
            ledger::AGREEMENT,
            ledger::BASELINES,
            "raw databases are not in the paper's table",
        ],
    },
    Experiment {
        id: "dissertation-fig4.12",
        title: "blocks of a ledger's organizations over time, one of which is corrupted and another one lost",
        source: "Sharma: dissertation 2020, §4.8.3, Figure 4.12",
        paper: PaperSetup { oltp: 12, seconds: 40, quick_seconds: 8, threads_vary: false, ..ledger::PAPER },
        data: ledger::DATA,
        compared: Compared::Members,
        run: dissertation::fig4_12::run,
        paper_says: &[
            "plots without printed values; from the text, two PostgreSQL and one MySQL: recovery takes around 17 s, in which nobody \
             progresses, as MySQL is too far behind; after the loss the other two go on when that has caught up",
            "three PostgreSQL: recovery takes around 4 s and stops nobody; after the loss one waits shortly for the other",
        ],
        deviations: &[
            ledger::MACHINE,
            ledger::PRODUCTS,
            ledger::FIRING,
            ledger::AGREEMENT,
            "each of the three phases takes --seconds; how long the paper's take it does not say. Recovery is the paper's, from the last \
             of the checkpoints that are made every five blocks (recovery = \"partial-replay\"); the number of clients the paper does \
             not say",
            "without --full blocks of 256 transactions instead of 4096; clients fire at all organizations in turn",
        ],
    },
    Experiment {
        id: "dissertation-fig4.13",
        title: "what cryptography and parallel execution do to a ledger's throughput",
        source: "Sharma: dissertation 2020, §4.8.4, Figure 4.13",
        paper: PaperSetup { oltp: 1, seconds: 60, quick_seconds: 5, threads_vary: false, ..ledger::PAPER },
        data: ledger::DATA,
        compared: Compared::Members,
        run: dissertation::fig4_13::run,
        paper_says: &[
            "bars without printed values; from the text: cryptography takes 7% of the throughput of parallel execution under Any-2 and \
             8.5% under All-3; parallel execution is up to 5x as fast as serial execution",
        ],
        deviations: &[
            ledger::MACHINE,
            ledger::PRODUCTS,
            ledger::AGREEMENT,
            "signatures cannot be switched off: without cryptography is the time of a block less that of verifying once more what \
             was signed in it; what clients and the ordering server spend on signing is in neither",
            "the organizations are threads of one process, and each block is waited for in all three (All-3), one after the other; no \
             messages between processes; without --full blocks of 1024 transactions instead of 4096",
        ],
    },
    Experiment {
        id: "dissertation-fig4.14",
        title: "throughput of a ledger over 256 to 4096 transactions in a block, Any-2 and All-3",
        source: "Sharma: dissertation 2020, §4.8.5, Figure 4.14",
        paper: PaperSetup { oltp: 24, quick_seconds: 3, threads_vary: false, ..ledger::PAPER },
        data: ledger::DATA,
        compared: Compared::Members,
        run: dissertation::fig4_14::run,
        paper_says: &[
            "bars without printed values; from the text: under both policies the throughput increases with the size of blocks",
        ],
        deviations: &[
            ledger::MACHINE,
            ledger::PRODUCTS,
            ledger::FIRING,
            ledger::AGREEMENT,
            "the number of clients the paper does not say; without --full 256, 1024 and 4096 transactions only",
        ],
    },
    Experiment {
        id: "ankerdb-fig7",
        title: "latency of seven OLAP transactions on TPC-H beside OLTP, in relation to ours",
        source: "Sharma, Schuhknecht, Dittrich: AnKerDB, arXiv 2017, §5.3, Figure 7",
        paper: ankerdb::PAPER,
        data: ankerdb::DATA,
        compared: Compared::Configurations,
        run: ankerdb::fig7::run,
        paper_says: &["a plot; the factors in the text are lost in our copy"],
        deviations: &[
            ankerdb::PAPER_DATA,
            ankerdb::SNAPSHOTS,
            ankerdb::BASELINES,
            anker::MEDIANS,
            anker::CREATION,
            anker::SHARING,
            anker::FORK,
        ],
    },
    Experiment {
        id: "ankerdb-fig8",
        title: "throughput of a batch on TPC-H, OLTP only and with OLAP among it",
        source: "Sharma, Schuhknecht, Dittrich: AnKerDB, arXiv 2017, §5.4, Figure 8",
        paper: ankerdb::PAPER,
        data: ankerdb::DATA,
        compared: Compared::Configurations,
        run: ankerdb::fig8::run,
        paper_says: &[
            "a plot; the factor in the text is lost in our copy: OLTP alone is fastest under snapshot isolation, with queries \
             heterogeneous processing wins clearly",
        ],
        deviations: &[
            ankerdb::PAPER_DATA,
            ankerdb::SNAPSHOTS,
            ankerdb::BASELINES,
            anker::SHARING,
            anker::FORK,
            "one query after each 10,000 transactions; queries run on a pool of as many threads as there are clients",
        ],
    },
    Experiment {
        id: "ankerdb-fig11",
        title: "throughput of the batches of Figure 8 over the number of threads",
        source: "Sharma, Schuhknecht, Dittrich: AnKerDB, arXiv 2017, §5.7, Figure 11",
        paper: PaperSetup { oltp: 8, quick_seconds: 1, threads_vary: true, ..ankerdb::PAPER },
        data: ankerdb::DATA,
        compared: Compared::Configurations,
        run: ankerdb::fig11::run,
        paper_says: &[
            "a plot; from the text: it scales, less than linearly (the factors are lost in our copy)",
        ],
        deviations: &[
            ankerdb::PAPER_DATA,
            ankerdb::SNAPSHOTS,
            anker::SHARING,
            anker::FORK,
            "the paper shows heterogeneous processing only; here all configurations",
        ],
    },
    Experiment {
        id: "damon-tab1",
        title: "time in which transactions wait for a new snapshot, after 100,000 of them",
        source: "Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data, DaMoN 2011, §5.1, Table 1",
        paper: PaperSetup {
            seconds: damon::COUNTED_SECONDS,
            quick_seconds: damon::COUNTED_SECONDS,
            ..damon::ALONE
        },
        data: damon::DATA,
        compared: Compared::Mechanisms,
        run: damon::tab1::run,
        paper_says: &["its numbers stand in the tables, marked (paper)"],
        deviations: &[
            mechanism::SERIAL,
            damon::PAGES,
            damon::MIX,
            "what becomes of indexes the paper does not say; here a snapshot has none",
            "ours: taking a snapshot, which neither waits nor reorganizes; the median of a thousand",
        ],
    },
    Experiment {
        id: "damon-tab3",
        title: "transactions and queries side by side, by what becomes of indexes in snapshots",
        source: "Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data, DaMoN 2011, §5.3.1, Table 3",
        paper: PaperSetup { olap: 3, seconds: 60, quick_seconds: 4, ..damon::ALONE },
        data: damon::DATA,
        compared: Compared::Mechanisms,
        run: damon::tab3::run,
        paper_says: &["its numbers stand in the tables, marked (paper)"],
        deviations: &[
            mechanism::SERIAL,
            damon::MIX,
            damon::CHILDREN,
            "without --full a refresh every 50,000 transactions instead of 200,000; warehouses the paper does not say",
            "ours: a snapshot for each query instead of refreshes, and indexes that are shared without latches; Q1 and Q5 as SQL, on one \
             thread each",
        ],
    },
    Experiment {
        id: "damon-fig11",
        title: "memory over the number of transactions, beside queries",
        source: "Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data, DaMoN 2011, §5.3.2, Figure 11",
        paper: PaperSetup {
            olap: 3,
            seconds: damon::COUNTED_SECONDS,
            quick_seconds: damon::COUNTED_SECONDS,
            ..damon::ALONE
        },
        data: damon::DATA,
        compared: Compared::Mechanisms,
        run: damon::fig11::run,
        paper_says: &[
            "a plot without printed values; from the text: vm-fork, tuple-shadowing and hot-cold take 20 to 30% more than the raw data, \
             twin-tuples about twice as much",
        ],
        deviations: &[
            mechanism::SERIAL,
            damon::MIX,
            damon::CHILDREN,
            "without --full 300,000 transactions instead of 6 million, and a refresh every 50,000 instead of 200,000",
            "memory of this process and its children, shared pages counted once (Pss), less what there was before loading; indexes are shared \
             where a mechanism can, and forked elsewhere",
        ],
    },
    Experiment {
        id: "damon-tab2",
        title: "scans of a snapshot after 2% of the tuples were updated and 1% deleted, on small and huge pages",
        source: "Mühle, Kemper, Neumann: How to Efficiently Snapshot Transactional Data, DaMoN 2011, §5.2, Table 2",
        paper: PaperSetup {
            seconds: damon::COUNTED_SECONDS,
            quick_seconds: damon::COUNTED_SECONDS,
            ..damon::ALONE
        },
        data: Data::Tuples { paper: 30_000_000, quick: 1_000_000 },
        compared: Compared::Mechanisms,
        run: damon::tab2::run,
        paper_says: &[
            "its numbers stand in the tables of the snapshot after the changes, marked (paper), for 30 million tuples",
        ],
        deviations: &[
            mechanism::SERIAL,
            damon::PAGES,
            "--seconds does not apply: each scan runs five times, and the median is shown; a tuple is a number, an integer and a string of 50 bytes",
            "whether the paper scans the snapshot from before or after the changes it does not say; here are both",
            "ours: a table in columns, three queries in SQL on one thread; finding the valid tuples is count(*)",
        ],
    },
    Experiment {
        id: "caldera-fig5",
        title: "throughput of transactions beside Q6, over the share of rows that change and the queries that share a snapshot",
        source: "Appuswamy, Karpathiotakis, Porobic, Ailamaki: The Case For Heterogeneous HTAP, CIDR 2017, §5.1, Figure 5",
        paper: caldera::PAPER,
        data: caldera::DATA,
        compared: Compared::Mechanisms,
        run: caldera::fig5::run,
        paper_says: &[
            "a plot without printed values; from the text: throughput falls with more rows that change and with more snapshots; with up to 16% of the rows to half at worst, even with a snapshot for each query",
        ],
        deviations: &[mechanism::SERIAL, caldera::CPU, caldera::ROWS, caldera::COUNTED],
    },
    Experiment {
        id: "caldera-fig6",
        title: "time of Q6 beside transactions, all queries on one snapshot, over the share of rows that change",
        source: "Appuswamy, Karpathiotakis, Porobic, Ailamaki: The Case For Heterogeneous HTAP, CIDR 2017, §5.1, Figure 6",
        paper: caldera::PAPER,
        data: caldera::DATA,
        compared: Compared::Mechanisms,
        run: caldera::fig6::run,
        paper_says: &[
            "a plot without printed values; from the text: on average 2x, at most 3x the time, as copies take memory bandwidth",
        ],
        deviations: &[mechanism::SERIAL, caldera::CPU, caldera::ROWS, caldera::COUNTED],
    },
    Experiment {
        id: "caldera-fig7",
        title: "throughput and time of Q6 over 10 to 100 queries that share a snapshot, all rows change",
        source: "Appuswamy, Karpathiotakis, Porobic, Ailamaki: The Case For Heterogeneous HTAP, CIDR 2017, §5.1, Figure 7",
        paper: caldera::PAPER,
        data: caldera::DATA,
        compared: Compared::Mechanisms,
        run: caldera::fig7::run,
        paper_says: &[
            "a plot without printed values; from the text: nearly 5x the throughput with 100 queries that share a snapshot, and shorter times, when most rows have been copied",
        ],
        deviations: &[mechanism::SERIAL, caldera::CPU, caldera::ROWS, caldera::COUNTED],
    },
    Experiment {
        id: "snapshot-race",
        title: "two writers and a snapshotting reader: creation, writers' speed, first writes, scans, by technique",
        source: "our own; the techniques of AnKer §4 and §5",
        paper: race::SETUP,
        data: Data::Columns { count: 1, paper: 200, quick: 48, factor: 44 },
        compared: Compared::Techniques,
        run: race::run,
        paper_says: &["nothing: the experiment is ours; its full size is that of AnKer's columns"],
        deviations: &[
            technique::ONE_RUN,
            "the writers of unprotected memory and of the techniques store a word with one instruction; ours changes rows, \
             with their history, by the last part of a commit of 64 rows (installs only) or by whole serializable transactions",
            "a scan adds up all words; of the live, unprotected memory it loads them one by one, of snapshots several at once",
        ],
    },
    Experiment {
        id: "snapshot-manager",
        title: "queries beside TPC-C that may show data of a while ago and share snapshots, by the allowed staleness",
        source: "Sharma, dissertation 2020, §5.1 (future work): snapshot manager",
        paper: snapshot_manager::SETUP,
        data: snapshot_manager::DATA,
        compared: Compared::Configurations,
        run: snapshot_manager::run,
        paper_says: &[
            "no numbers: it names a snapshot manager as future work; the experiment is ours, its full size that of AnKer's data",
        ],
        deviations: snapshot_manager::DEVIATIONS,
    },
];

/// The experiment with this id.
///
/// # Errors
/// 22023 with all ids if there is none.
pub fn find(id: &str) -> Result<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.id == id).ok_or_else(|| {
        let ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
        invalid(format!("unknown experiment \"{id}\"; there are {}", ids.join(", ")))
    })
}

/// All experiments, by paper.
pub fn all() -> &'static [Experiment] {
    &EXPERIMENTS
}

impl Experiment {
    /// Resolves what the user asks for. See [`Setup::of`].
    ///
    /// # Errors
    /// Those of [`Setup::of`].
    pub fn setup(&self, options: &SetupOptions, machine: &Machine) -> Result<(Setup, Vec<String>)> {
        Setup::of(self, options, machine)
    }

    /// Runs the experiment with a setup and its deviations from the paper. Stopped by the user, it returns what was measured
    /// until then.
    ///
    /// # Errors
    /// 57014 if the user stops it before anything was measured; the database's.
    pub fn run(
        &'static self,
        setup: Setup,
        deviations: Vec<String>,
        machine: &Machine,
        watch: &ExperimentWatch<'_>,
    ) -> Result<ExperimentReport> {
        let harness = Harness::new(setup, machine.clone(), watch);
        let findings = (self.run)(&harness)?;
        if harness.is_stopped() && harness.log().is_empty() {
            let message = "the experiment was stopped before anything was measured";
            return Err(Error::new(SqlState::QueryCanceled, message));
        }
        Ok(ExperimentReport::new(
            self,
            findings,
            machine.clone(),
            deviations,
            harness.log(),
            harness.is_stopped(),
        ))
    }
}
