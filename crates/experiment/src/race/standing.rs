//! The ranking of ours: for each measure, the best of the techniques and ours in relation to it.

use super::Score;

/// The distance from the best that still counts as equal.
const MARGIN: f64 = 1.1;

/// A line for each measure and each of ours.
pub(super) fn of(scores: &[Score]) -> Vec<String> {
    type Measure = (&'static str, fn(&Score) -> f64, bool);
    let measures: [Measure; 7] = [
        ("creation, one snapshot per scan (us)", |score| score.creation_us[0][0], false),
        ("creation, 1000 snapshots/s (us)", |score| score.creation_us[1][0], false),
        ("writers kept, one snapshot per scan", |score| score.kept[0], true),
        ("writers kept, 1000 snapshots/s", |score| score.kept[1], true),
        ("scan, one snapshot per scan (GB/s)", |score| score.scan_gb[0], true),
        ("scan, 1000 snapshots/s (GB/s)", |score| score.scan_gb[1], true),
        ("snapshots taken of 1000/s", |score| score.rate, true),
    ];
    let mut lines = Vec::new();
    for (name, value, more_is_better) in measures {
        let better = |a: f64, b: f64| if more_is_better { a > b } else { a < b };
        let others = scores.iter().filter(|score| !score.is_ours && !score.is_control);
        let best = others.reduce(|best, score| if better(value(score), value(best)) { score } else { best });
        let Some(best) = best else { continue };
        for ours in scores.iter().filter(|score| score.is_ours) {
            let (mine, theirs) = (value(ours), value(best));
            let ratio = if more_is_better { theirs / mine.max(1e-12) } else { mine / theirs.max(1e-12) };
            let verdict = match ratio {
                ratio if ratio <= 1.0 => "best".to_owned(),
                ratio if ratio <= MARGIN => "within 10% of the best".to_owned(),
                ratio => format!("{ratio:.2}x behind the best"),
            };
            lines.push(format!("{name}: {} {mine:.4}, {verdict} ({} {theirs:.4})", ours.name, best.name));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compared_with_the_best_of_the_others() {
        let score = |name: &str, is_ours, creation: f64, kept: f64| Score {
            name: name.into(),
            is_ours,
            creation_us: [[creation; 2]; 2],
            kept: [kept; 2],
            ..Score::default()
        };
        let scores =
            [score("a", false, 10.0, 0.5), score("b", false, 5.0, 0.9), score("ours", true, 1.0, 0.85)];
        let lines = of(&scores);
        assert_eq!(lines[0], "creation, one snapshot per scan (us): ours 1.0000, best (b 5.0000)");
        assert!(lines[2].contains("ours 0.8500, within 10% of the best (b 0.9000)"), "{}", lines[2]);
        let worse = of(&[score("a", false, 1.0, 1.0), score("ours", true, 3.0, 0.25)]);
        assert!(worse[0].contains("3.00x behind") && worse[2].contains("4.00x behind"), "{worse:?}");
    }
}
