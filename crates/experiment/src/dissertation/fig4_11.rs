//! Figure 4.11: throughput of a ledger over the number of clients, under both policies, and of the raw databases below it under
//! as many clients.
//!
//! The networks are real processes, over private databases that are made for each of them; raw databases are others of the same
//! products. [`super::tab4_2`] varies the distribution instead of the policy.

use crate::finding::{Findings, Panel};
use crate::harness::Harness;
use crate::ledger::load::LoadFigures;
use crate::ledger::{
    DISTRIBUTIONS, FiguresByClients, POLICIES, block_size, client_counts, compared_product, measure_network,
    measure_raw, or_note, products, series,
};
use ankerdb_engine::Result;

/// Runs it.
///
/// # Errors
/// Those of the machine; a network or a database that fails is left out, with a note.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let (setup, zipf) = (&harness.setup, &DISTRIBUTIONS[..1]);
    let products = products(setup)?;
    let counts = client_counts(setup);
    harness.expect((products.len() + setup.members.len() * POLICIES.len()) * counts.len());
    let rate = |title: &str| Panel::lines(title, "clients", "successful transactions/s");
    let mut ledger = rate("(a) the ledger, Zipf");
    let mut raw = rate("(b) raw databases, Zipf");
    let mut latency = Panel::lines("From firing to the outcome, Zipf", "clients", "ms, median");
    let mut notes = vec![format!("blocks of {} transactions", block_size(setup))];
    let mut raws = Vec::new();
    for product in &products {
        let (name, label) = (product.name(), format!("raw {}", product.name()));
        let Some(found) = or_note(measure_raw(harness, product, zipf), &label, &mut notes) else { continue };
        raw.series.push(series(name, &found[0], |figures| figures.per_second));
        latency.series.push(series(&label, &found[0], |figures| figures.latency_ms));
        notes.extend(found[0].last().map(|(count, figures)| raw_note(&label, *count, figures)));
        raws.push((name, found));
    }
    for members in &setup.members {
        for policy in POLICIES {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{}, {}", members.name(), policy.0);
            let measured = measure_network(harness, *members, policy, zipf);
            let Some(found) = or_note(measured, &label, &mut notes) else { continue };
            ledger.series.push(series(&label, &found[0], |figures| figures.per_second));
            latency.series.push(series(&label, &found[0], |figures| figures.latency_ms));
            notes.extend(ratio_note(&label, compared_product(*members), &found, &raws));
        }
    }
    let panels = [ledger, raw, latency].into_iter().filter(|panel| !panel.series.is_empty());
    Ok(Findings { panels: panels.collect(), notes })
}

/// What the rates of a raw database do not show.
pub(super) fn raw_note(label: &str, count: usize, figures: &LoadFigures) -> String {
    format!(
        "{label}, {count} clients: {:.1}% of transactions failed as an account was not covered, {:.3} repetitions for each",
        figures.failed * 100.0,
        figures.repeated
    )
}

/// How a network compares with the raw database, for each number of clients.
pub(super) fn ratio_note(
    label: &str,
    product: &str,
    found: &FiguresByClients,
    raws: &[(&str, FiguresByClients)],
) -> Option<String> {
    let (_, raw) = raws.iter().find(|(name, _)| *name == product)?;
    let pairs = found.first()?.iter().zip(raw.first()?);
    let ratios: Vec<String> = pairs
        .filter(|((count, _), (raw_count, _))| count == raw_count)
        .map(|((count, ledger), (_, raw))| {
            format!("{:.2}x with {count} clients", ledger.per_second / raw.per_second.max(1e-9))
        })
        .collect();
    (!ratios.is_empty()).then(|| format!("{label}: as fast as raw {product}: {}", ratios.join(", ")))
}
