//! The rows of LINEITEM, and TPC-H's Q6 with its usual parameters.

use tpchgen::generators::LineItemGenerator;

/// Words of a row: l_quantity, l_extendedprice in cents, l_discount in percent, l_shipdate in days since 1970.
pub const WORDS: usize = 4;
/// Position of l_extendedprice, which transactions change.
pub const PRICE: usize = 1;

/// Days since 1970 of 1994-01-01 and of 1995-01-01.
const YEAR: std::ops::Range<u64> = 8766..9131;

/// Q6 in SQL, over numerics.
pub const Q6: &str = "select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01' \
                      and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24";

/// All rows.
pub struct Lineitem(Vec<[u64; WORDS]>);

impl Lineitem {
    /// The rows of a scale factor.
    pub fn generate(scale: f64) -> Lineitem {
        let rows = LineItemGenerator::new(scale, 1, 1);
        let rows = rows.iter().map(|line| {
            let days = line.l_shipdate.to_unix_epoch();
            [line.l_quantity as u64, line.l_extendedprice.0 as u64, line.l_discount.0 as u64, days as u64]
        });
        Lineitem(rows.collect())
    }

    /// The rows, in order.
    pub fn rows(&self) -> &[[u64; WORDS]] {
        &self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a row adds to Q6, in hundredths of cents.
pub fn q6(word: impl Fn(usize) -> u64) -> u64 {
    let is_counted = YEAR.contains(&word(3)) && (5..=7).contains(&word(2)) && word(0) < 24;
    if is_counted { word(PRICE) * word(2) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TPC-H's own answer for scale factor 1 is 123,141,078.23; the rows of 0.01 are checked by that of ours beside it.
    #[test]
    fn about_one_row_in_fifty_counts() {
        let rows = Lineitem::generate(0.01);
        let counted = rows.rows().iter().filter(|row| q6(|at| row[at]) > 0).count();
        assert!((40..70).contains(&(rows.len() / counted)), "{counted} of {}", rows.len());
    }
}
