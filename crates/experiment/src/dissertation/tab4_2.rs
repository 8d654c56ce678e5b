//! Table 4.2: throughput of a ledger under Any-2, accounts picked by Zipf's law and evenly, and of the raw databases below it
//! beside that.

use super::fig4_11::raw_note;
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::ledger::{
    CLIENTS, DISTRIBUTIONS, FiguresByClients, POLICIES, block_size, client_counts, measure_network,
    measure_raw, or_note, products,
};
use ankerdb_engine::Result;

/// What the paper prints, by distribution and number of clients.
const PAPER: [[f64; 4]; 2] = [[2757.0, 3676.0, 4709.0, 4812.0], [2279.0, 3840.0, 5774.0, 6144.0]];

/// Runs it.
///
/// # Errors
/// Those of the machine; a network or a database that fails is left out, with a note.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let (products, counts) = (products(setup)?, client_counts(setup));
    harness.expect((products.len() + setup.members.len()) * DISTRIBUTIONS.len() * counts.len());
    let names: Vec<String> = counts.iter().map(|count| format!("{count} clients")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let panel = |title: &str| Panel::bars(title, "clients", "successful transactions/s", &names);
    let (mut ledger, mut raw) = (panel("The ledger, Any-2"), panel("Raw databases"));
    for ((distribution, _), values) in DISTRIBUTIONS.iter().zip(PAPER) {
        ledger.series.push(paper_series(distribution, &values, &counts));
    }
    let mut notes = vec![format!("blocks of {} transactions", block_size(setup))];
    for members in &setup.members {
        if harness.is_stopped() {
            break;
        }
        let measured = measure_network(harness, *members, POLICIES[0], &DISTRIBUTIONS);
        let found = or_note(measured, members.name(), &mut notes);
        found.iter().for_each(|found| add(&mut ledger, members.name(), found));
    }
    for product in &products {
        let label = format!("raw {}", product.name());
        let found = or_note(measure_raw(harness, product, &DISTRIBUTIONS), &label, &mut notes);
        if let Some(found) = found {
            add(&mut raw, product.name(), &found);
            for ((distribution, _), figures) in DISTRIBUTIONS.iter().zip(&found) {
                let label = format!("{label}, {distribution}");
                notes.extend(figures.last().map(|(count, figures)| raw_note(&label, *count, figures)));
            }
        }
    }
    Ok(Findings { panels: vec![ledger, raw], notes })
}

/// Adds a series for each distribution.
fn add(panel: &mut Panel, name: &str, found: &FiguresByClients) {
    for ((distribution, _), figures) in DISTRIBUTIONS.iter().zip(found) {
        let values: Vec<Option<f64>> = figures.iter().map(|(_, figures)| Some(figures.per_second)).collect();
        panel.add(&format!("{name}, {distribution}"), &values);
    }
}

/// The paper's numbers at the places of the numbers of clients that are measured.
fn paper_series(distribution: &str, values: &[f64; 4], counts: &[usize]) -> Series {
    let place = |count: &usize| counts.iter().position(|measured| measured == count);
    let points = CLIENTS.iter().zip(values).filter_map(|(count, value)| Some((place(count)? as f64, *value)));
    Series::paper(format!("ChainifyDB, {distribution}"), points.collect())
}
