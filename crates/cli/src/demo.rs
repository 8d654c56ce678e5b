//! `ankerdb demo`: both streams on one database, shown live.
//!
//! 1. Load TPC-C.
//! 2. Run each analytical query a few times while nothing else runs: what "idle" means in the summary.
//! 3. Run transactions, and twice for a while random queries beside them, every query on a fresh snapshot and checked for
//!    freshness.
//! 4. Run the queries alone again: New-Order has made the tables grow meanwhile.
//! 5. Check TPC-C's consistency conditions, print a summary, write the plot.

mod display;
mod live;
mod plot;
mod summary;

use crate::engine::EngineOption;
use crate::progress::{LoadBar, terminal_is_dumb};
use crate::{at_least_one, interrupt};
use ankerdb_engine::{Database, Error, Isolation, Result};
use ankerdb_measure::latency::{Latencies, median};
use ankerdb_measure::machine::Machine;
use ankerdb_sql::{SqlEngine, SqlOptions};
use ankerdb_workload::htap::config::{HtapConfig, check_writable, default_threads};
use ankerdb_workload::htap::marker::Marker;
use ankerdb_workload::htap::olap::{Analyst, Beside, OlapResult, QueryOrder};
use ankerdb_workload::htap::oltp::{OltpOptions, OltpResult, OltpStream, OltpWorld};
use ankerdb_workload::htap::queries::QUERIES;
use ankerdb_workload::tpcc::check::{CONDITIONS, check};
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::load::{LoadOptions, load};
use clap::Args;
use display::Display;
use live::Live;
use std::io::{IsTerminal, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the display is drawn and throughput sampled.
const TICK: Duration = Duration::from_millis(250);
/// How often the analytical stream checks whether it is its turn.
const QUERIES_POLL: Duration = Duration::from_millis(2);
/// Runs of each query before the transactions start, and after they have stopped.
const IDLE_RUNS: usize = 5;
/// Seed of data and inputs.
const SEED: u64 = 2018;

/// Options of `demo`.
#[derive(Args)]
pub(crate) struct DemoOptions {
    /// TPC-C warehouses to load (about 200 MiB each)
    #[arg(long, value_name = "W", default_value_t = 4)]
    warehouses: u32,
    /// Seconds that both streams run
    #[arg(long, value_name = "S", default_value_t = 20)]
    seconds: u64,
    /// Where the plot goes (SVG, or PNG if the name ends so)
    #[arg(long, value_name = "FILE", default_value = "ankerdb-demo.svg")]
    plot: PathBuf,
    #[command(flatten)]
    engine: EngineOption,
}

/// The results of both streams.
pub(crate) struct DemoOutcome {
    pub oltp: OltpResult,
    pub olap: OlapResult,
    /// Median latency in milliseconds of each query after the transactions have stopped.
    pub idle_after_ms: Vec<f64>,
    pub live: Live,
}

/// Runs the demo.
pub(crate) fn run(options: &DemoOptions) -> Result<()> {
    at_least_one("--warehouses", options.warehouses as usize)?;
    at_least_one("--seconds", options.seconds as usize)?;
    check_writable(&options.plot)?;
    let machine = Machine::detect();
    let threads = default_threads();
    config(options, threads).check(&machine)?;
    let stop = interrupt::flag();
    println!(
        "AnKerDB demo: {} warehouses of TPC-C in memory, gone at the end; {threads} + {threads} threads for transactions and \
         analytics",
        options.warehouses
    );
    let stage = Stage::set(options, threads, &machine, &stop)?;
    let outcome = stage.perform(options, &stop)?;
    summary::print(&outcome, &stage.world)?;
    plot::write(&options.plot, &outcome)?;
    println!("plot: {}", options.plot.display());
    let checks = &outcome.olap.checks;
    let first = checks.told.first().map(String::as_str).unwrap_or_default();
    if checks.missed > 0 {
        let message = format!("a query missed a commit that was acknowledged before it began: {first}");
        return Err(Error::internal(message));
    }
    if checks.wrong > 0 && options.engine.engine.isolation() != Isolation::ReadUncommitted {
        return Err(Error::internal(format!("{} wrong answers, among them {first}", checks.wrong)));
    }
    if options.engine.engine.isolation() == Isolation::ReadUncommitted {
        println!("TPC-C consistency conditions are not checked: read uncommitted does not promise them");
        return Ok(());
    }
    match check(&stage.world.database, &stage.world.tables)?.first() {
        Some(violation) => Err(Error::internal(violation.to_string())),
        None => {
            println!("{CONDITIONS} hold");
            Ok(())
        }
    }
}

/// The limits of the benchmark are those of the demo, too.
fn config(options: &DemoOptions, threads: usize) -> HtapConfig {
    HtapConfig {
        warehouses: options.warehouses,
        oltp_threads: threads,
        olap_threads: threads,
        seconds: options.seconds,
        isolation: options.engine.engine.isolation(),
        engine: options.engine.engine,
        access: Access::Uniform,
        json: None,
        rounds: 1,
        seed: SEED,
    }
}

/// The loaded database.
struct Stage {
    world: OltpWorld,
    engine: SqlEngine,
    threads: usize,
}

impl Stage {
    fn set(options: &DemoOptions, threads: usize, machine: &Machine, stop: &AtomicBool) -> Result<Stage> {
        let database = Database::with(options.engine.engine);
        let progress = LoadBar::new();
        let started = Instant::now();
        let tables = load(&database, &LoadOptions::new(options.warehouses as i32, SEED), &|done, total| {
            progress.show(done, total);
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        println!("loaded in {:.1} s", started.elapsed().as_secs_f64());
        let marker = Arc::new(Marker::create(&database)?);
        let memory_limit_bytes = (machine.memory_bytes / 4).max(256 << 20) as usize;
        let engine =
            SqlEngine::new(database.clone(), SqlOptions { olap_threads: threads, memory_limit_bytes })?;
        Ok(Stage { world: OltpWorld { database, tables: Arc::new(tables), marker }, engine, threads })
    }

    fn perform(&self, options: &DemoOptions, stop: &AtomicBool) -> Result<DemoOutcome> {
        let mut analyst = Analyst::new(&self.world.database, &self.engine)?;
        let idle_ms = idle_latencies(&mut analyst)?;
        let begin = analyst.sums()?;
        let live = Live::new(idle_ms, options.seconds, options.engine.engine.isolation());
        let mut stream = OltpStream::start(&self.world, &self.oltp_options(options));
        stream.record();
        let ended = AtomicBool::new(false);
        let (queries, watched) = std::thread::scope(|scope| {
            let analytics = scope.spawn(|| {
                let order = QueryOrder::Random(fastrand::Rng::with_seed(SEED));
                wait_for_queries(&live, &ended);
                let beside = Beside { oltp: &stream, marker: &self.world.marker, begin, ended: &ended };
                let result = analyst.stream(order, Some(beside), &mut |run| {
                    live.add_run(*run);
                    wait_for_queries(&live, &ended);
                    if ended.load(Ordering::Relaxed) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                ended.store(true, Ordering::Relaxed);
                result
            });
            let watched = self.watch(options, &live, &stream, stop, &ended);
            ended.store(true, Ordering::Relaxed);
            let queries =
                analytics.join().unwrap_or_else(|_| Err(Error::internal("the analytical stream panicked")));
            (queries, watched)
        });
        let oltp = stream.stop()?;
        watched?;
        let queries = queries?;
        let idle_after_ms = idle_latencies(&mut analyst)?;
        Ok(DemoOutcome { oltp, olap: queries, idle_after_ms, live })
    }

    fn oltp_options(&self, options: &DemoOptions) -> OltpOptions {
        OltpOptions {
            threads: self.threads,
            isolation: self.world.database.configuration().isolation(),
            access: Access::Uniform,
            warehouses: options.warehouses,
            seed: SEED,
            limit: None,
        }
    }

    /// Samples throughput and draws until the time is over, the user quits, or a stream has ended.
    fn watch(
        &self,
        options: &DemoOptions,
        live: &Live,
        stream: &OltpStream,
        stop: &AtomicBool,
        ended: &AtomicBool,
    ) -> Result<()> {
        let full_screen = stdout().is_terminal() && !terminal_is_dumb();
        let mut display = Display::open(full_screen);
        let end = Instant::now() + Duration::from_secs(options.seconds);
        while Instant::now() < end && !stop.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
            if stream.has_ended_early() || display.wait(TICK)? {
                break;
            }
            live.sample(stream.latencies());
            display.draw(live)?;
        }
        Ok(())
    }
}

/// Returns when queries are to run, or the demo has ended.
fn wait_for_queries(live: &Live, ended: &AtomicBool) {
    while !live.queries_run() && !ended.load(Ordering::Relaxed) {
        std::thread::sleep(QUERIES_POLL);
    }
}

fn idle_latencies(analyst: &mut Analyst) -> Result<Vec<f64>> {
    let mut latencies = vec![Vec::new(); QUERIES.len()];
    for _ in 0..IDLE_RUNS {
        for (query, latencies) in latencies.iter_mut().enumerate() {
            let answered = analyst.run(query, &mut Latencies::default())?;
            latencies.push(answered.run.latency.as_secs_f64() * 1e3);
        }
    }
    Ok(latencies.iter_mut().map(|latencies| median(latencies).unwrap_or_default()).collect())
}
