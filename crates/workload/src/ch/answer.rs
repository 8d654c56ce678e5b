//! Answers as rows of plain values, and whether two of them are the same.
//!
//! Sums and counts are exact, and compared exactly. Quotients and averages are compared with a tolerance: how many digits of them SQL
//! keeps is another question than whether the rows behind them were right.

use std::cmp::Ordering;
use std::fmt;

/// How far quotients may be from each other, in relation to them.
const RATIO_TOLERANCE: f64 = 1e-9;

/// A value of an answer.
#[derive(Clone, Debug)]
pub enum ChValue {
    /// NULL
    Null,
    /// Digits without their point, and how many of them are behind it.
    Exact(i128, u32),
    /// A quotient.
    Ratio(f64),
    /// A text; blanks at its end do not count.
    Text(String),
    /// Microseconds since 1970.
    Moment(i64),
}

/// A row of an answer.
pub type ChRow = Vec<ChValue>;

impl ChValue {
    /// A whole number.
    pub fn whole(number: impl Into<i128>) -> ChValue {
        ChValue::Exact(number.into(), 0)
    }

    /// An amount of money in cents.
    pub fn cents(cents: impl Into<i128>) -> ChValue {
        ChValue::Exact(cents.into(), 2)
    }

    /// A text.
    pub fn text(text: &str) -> ChValue {
        ChValue::Text(text.to_owned())
    }

    fn number(&self) -> Option<f64> {
        match self {
            ChValue::Exact(digits, scale) => Some(*digits as f64 / 10_f64.powi(*scale as i32)),
            ChValue::Ratio(ratio) => Some(*ratio),
            _ => None,
        }
    }

    /// The order of values of one column; NULL comes first.
    fn order(&self, other: &ChValue) -> Ordering {
        match (self, other) {
            (ChValue::Exact(left, scale), ChValue::Exact(right, other_scale)) => {
                let common = *scale.max(other_scale);
                let wide =
                    |digits: i128, scale: u32| digits.checked_mul(10_i128.checked_pow(common - scale)?);
                match (wide(*left, *scale), wide(*right, *other_scale)) {
                    (Some(left), Some(right)) => left.cmp(&right),
                    _ => self.number().unwrap_or(0.0).total_cmp(&other.number().unwrap_or(0.0)),
                }
            }
            (ChValue::Text(left), ChValue::Text(right)) => left.trim_end().cmp(right.trim_end()),
            (ChValue::Moment(left), ChValue::Moment(right)) => left.cmp(right),
            _ => match (self.number(), other.number()) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                _ => self.kind().cmp(&other.kind()),
            },
        }
    }

    fn kind(&self) -> u8 {
        match self {
            ChValue::Null => 0,
            ChValue::Exact(..) | ChValue::Ratio(_) => 1,
            ChValue::Text(_) => 2,
            ChValue::Moment(_) => 3,
        }
    }

    /// Whether two answers may differ in this way.
    fn is_same(&self, other: &ChValue) -> bool {
        match (self, other) {
            (ChValue::Ratio(_), _) | (_, ChValue::Ratio(_)) => match (self.number(), other.number()) {
                (Some(left), Some(right)) => {
                    (left - right).abs() <= RATIO_TOLERANCE * left.abs().max(right.abs())
                }
                _ => false,
            },
            _ => self.order(other) == Ordering::Equal,
        }
    }
}

impl fmt::Display for ChValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChValue::Null => f.write_str("NULL"),
            ChValue::Exact(digits, 0) => write!(f, "{digits}"),
            ChValue::Exact(digits, scale) => write!(f, "{digits}e-{scale}"),
            ChValue::Ratio(ratio) => write!(f, "{ratio}"),
            ChValue::Text(text) => write!(f, "{:?}", text.trim_end()),
            ChValue::Moment(moment) => write!(f, "{moment} us"),
        }
    }
}

fn row_text(row: &[ChValue]) -> String {
    let values: Vec<String> = row.iter().map(ToString::to_string).collect();
    format!("({})", values.join(", "))
}

fn row_order(left: &ChRow, right: &ChRow) -> Ordering {
    let pairs = left.iter().zip(right);
    let different = pairs.map(|(left, right)| left.order(right)).find(|order| order.is_ne());
    different.unwrap_or(left.len().cmp(&right.len()))
}

/// The order that a query asks for.
fn asked_order(left: &ChRow, right: &ChRow, columns: &[(usize, bool)]) -> Ordering {
    let order = |&(column, downwards): &(usize, bool)| {
        let order = left[column].order(&right[column]);
        if downwards { order.reverse() } else { order }
    };
    columns.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The difference of an answer from what was expected, in words: other rows, or its rows in another order than by these columns
/// (true: downwards). Rows that are expected may come in any order.
pub fn difference(answer: &[ChRow], expected: &[ChRow], order: &[(usize, bool)]) -> Option<String> {
    if answer.len() != expected.len() {
        return Some(format!("{} rows instead of {}", answer.len(), expected.len()));
    }
    let is_wrong = |rows: &[ChRow]| asked_order(&rows[0], &rows[1], order).is_gt();
    if let Some(rows) = answer.windows(2).find(|rows| is_wrong(rows)) {
        return Some(format!("{} is before {}", row_text(&rows[0]), row_text(&rows[1])));
    }
    let sorted = |rows: &[ChRow]| {
        let mut rows = rows.to_vec();
        rows.sort_by(row_order);
        rows
    };
    let (answer, expected) = (sorted(answer), sorted(expected));
    let is_same = |left: &ChRow, right: &ChRow| {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.is_same(right))
    };
    let (found, wanted) = answer.iter().zip(&expected).find(|(found, wanted)| !is_same(found, wanted))?;
    Some(format!("{} instead of {}", row_text(found), row_text(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<ChRow> {
        let row = |name: &str, cents: i128| vec![ChValue::text(name), ChValue::cents(cents), ChValue::Null];
        vec![row("b", 300), row("a", 200), row("c", 200)]
    }

    #[test]
    fn rows_may_come_in_any_order_that_the_query_allows() {
        let expected = rows();
        let mut answer = rows();
        answer.swap(1, 2);
        assert_eq!(difference(&answer, &expected, &[(1, true)]), None);
        let found = difference(&answer, &expected, &[(1, true), (0, false)]).expect("c is before a");
        assert_eq!(found, "(\"c\", 200e-2, NULL) is before (\"a\", 200e-2, NULL)");
        assert!(difference(&answer, &expected, &[(1, false)]).is_some());
    }

    #[test]
    fn one_digit_a_missing_row_and_a_row_twice_are_found() {
        let expected = rows();
        let changed = |change: fn(&mut Vec<ChRow>)| {
            let mut answer = rows();
            change(&mut answer);
            difference(&answer, &expected, &[])
        };
        assert_eq!(changed(|_| ()), None);
        let found = changed(|rows| rows[0][1] = ChValue::cents(301)).expect("a cent more");
        assert_eq!(found, "(\"b\", 301e-2, NULL) instead of (\"b\", 300e-2, NULL)");
        assert!(changed(|rows| rows[0][2] = ChValue::whole(0)).is_some(), "0 is not NULL");
        assert!(changed(|rows| rows[0][0] = ChValue::text("B")).is_some());
        assert!(changed(|rows| drop(rows.pop())).is_some_and(|found| found == "2 rows instead of 3"));
        assert!(changed(|rows| rows[1] = rows[0].clone()).is_some());
        assert!(changed(|rows| drop(rows[0].pop())).is_some());
    }

    #[test]
    fn values_are_the_same_in_any_scale_and_quotients_nearly() {
        assert!(ChValue::cents(1200).is_same(&ChValue::whole(12)));
        assert!(!ChValue::cents(1201).is_same(&ChValue::whole(12)));
        assert!(ChValue::Exact(5, 60).is_same(&ChValue::Exact(5, 60)));
        assert!(ChValue::Ratio(1.0 / 3.0).is_same(&ChValue::Exact(3_333_333_333_333_333, 16)));
        assert!(!ChValue::Ratio(1.0 / 3.0).is_same(&ChValue::Exact(3333, 4)));
        assert!(!ChValue::Ratio(0.0).is_same(&ChValue::Null));
        assert!(ChValue::text("ab  ").is_same(&ChValue::text("ab")));
        assert!(!ChValue::Moment(1).is_same(&ChValue::whole(1)));
    }
}
