//! Figures over several phases, and when there is none.
//!
//! A phase is noisy if others took so much of the CPU that it says little. A figure is made from the other phases only,
//! and says how many of all phases these were. From half of them or fewer no figure is reported: a median of what
//! happened to be left would look like any other.

use ankerdb_measure::latency::median;
use serde::Serialize;

/// How many phases of a kind were not noisy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Not noisy.
    pub clean: usize,
    /// All of them.
    pub of: usize,
}

impl Count {
    /// Adds a phase.
    pub fn add(&mut self, noisy: bool) {
        self.clean += usize::from(!noisy);
        self.of += 1;
    }

    /// Whether they are enough for a figure: more than half.
    pub fn is_enough(self) -> bool {
        self.clean * 2 > self.of
    }

    /// For people.
    pub fn text(self) -> String {
        let Count { clean, of } = self;
        match (of, self.is_enough()) {
            (0, _) => "not measured".to_owned(),
            (_, true) => format!("{clean} of {of}"),
            (_, false) => format!("only {clean} of {of} quiet"),
        }
    }
}

/// The value from one phase, or from a comparison of several.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The measured value.
    pub value: f64,
    /// Whether a phase that it comes from is noisy.
    pub noisy: bool,
}

/// A median, with the number of samples that it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// `None` if too few phases were quiet, or nothing was measured.
    pub value: Option<f64>,
    /// Samples.
    #[serde(flatten)]
    pub count: Count,
}

impl Figure {
    /// The median of the samples that are not noisy, if they are enough. NaN and infinities do not count.
    pub fn of(samples: impl IntoIterator<Item = Sample>) -> Figure {
        let (mut values, mut count) = (Vec::new(), Count::default());
        for Sample { value, noisy } in samples.into_iter().filter(|sample| sample.value.is_finite()) {
            count.add(noisy);
            values.extend((!noisy).then_some(value));
        }
        Figure { value: median(&mut values).filter(|_| count.is_enough()), count }
    }
}

/// A sum over the phases of a kind that are not noisy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clean<T> {
    sum: T,
    /// Phases.
    pub count: Count,
}

impl<T: Default> Clean<T> {
    /// Adds a phase, unless it is noisy.
    pub fn add(&mut self, noisy: bool, add: impl FnOnce(&mut T)) {
        self.count.add(noisy);
        if !noisy {
            add(&mut self.sum);
        }
    }

    /// The sum, if it is of enough phases.
    pub fn get(&self) -> Option<&T> {
        self.count.is_enough().then_some(&self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64, noisy: bool) -> Sample {
        Sample { value, noisy }
    }

    #[test]
    fn noisy_phases_are_left_out_and_counted() {
        let figure = Figure::of([sample(0.9, false), sample(0.2, true), sample(0.8, false)]);
        assert!((figure.value.expect("two of three are enough") - 0.85).abs() < 1e-9);
        assert_eq!((figure.count.clean, figure.count.of, figure.count.text()), (2, 3, "2 of 3".to_owned()));
    }

    #[test]
    fn of_too_few_quiet_phases_there_is_no_figure() {
        let figure = Figure::of([sample(0.9, false), sample(0.2, true), sample(0.8, true)]);
        assert_eq!((figure.value, figure.count.text().as_str()), (None, "only 1 of 3 quiet"));
        assert_eq!(Figure::of([sample(0.2, true)]).value, None, "a noisy phase is not better than nothing");
        assert_eq!(Figure::of([sample(f64::NAN, false)]), Figure::default());
        assert_eq!(Figure::default().count.text(), "not measured");
    }

    #[test]
    fn sums_are_of_quiet_phases() {
        let mut sum = Clean::<u64>::default();
        sum.add(false, |sum| *sum += 1);
        sum.add(true, |sum| *sum += 10);
        assert_eq!(sum.get(), None);
        sum.add(false, |sum| *sum += 2);
        assert_eq!((sum.get(), sum.count), (Some(&3), Count { clean: 2, of: 3 }));
    }
}
