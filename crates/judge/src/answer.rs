//! A server's answer to a statement, and the differences between two answers.

use std::fmt;

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    /// As the client sees it.
    pub name: String,
    /// The type's number in PostgreSQL's catalog.
    pub oid: u32,
}

/// Everything up to ReadyForQuery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Columns of the last result.
    pub columns: Vec<ResultColumn>,
    /// Rows of all results; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Command tags.
    pub tags: Vec<String>,
    /// SQLSTATE.
    pub error: Option<String>,
    /// The error's message: shown, not compared.
    pub message: String,
    /// `I`, `T` or `E`.
    pub status: char,
    /// The server waits for COPY data.
    pub copying: bool,
}

/// How rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// The statement orders them totally.
    Total,
    /// Any order is right.
    Any,
}

/// The aspect in which two answers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aspect {
    /// SQLSTATE: one fails and the other does not, or they fail differently.
    Error,
    /// Number of columns.
    Width,
    /// Types of columns.
    Types,
    /// Rows, or their order.
    Rows,
    /// Signs of zeros.
    Signs,
    /// Digits of numbers that are equal otherwise: `1.50` and `1.5`, or as many digits as the shorter one has.
    Scale,
    /// Blanks at the end of texts that are equal otherwise.
    Blanks,
    /// Names of columns.
    Names,
    /// Command tags.
    Tags,
    /// Whether a transaction is open.
    Status,
    /// The server died or fell silent.
    Silence,
}

impl Aspect {
    /// As it is written in the list of differences.
    pub fn word(self) -> &'static str {
        match self {
            Aspect::Error => "error",
            Aspect::Width => "width",
            Aspect::Types => "types",
            Aspect::Rows => "rows",
            Aspect::Scale => "scale",
            Aspect::Signs => "signs",
            Aspect::Blanks => "blanks",
            Aspect::Names => "names",
            Aspect::Tags => "tags",
            Aspect::Status => "status",
            Aspect::Silence => "silence",
        }
    }
}

/// A difference between PostgreSQL's answer and AnKerDB's. For errors the two sides are SQLSTATEs, or `ok`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The aspect.
    pub aspect: Aspect,
    /// PostgreSQL's side.
    pub postgres: String,
    /// AnKerDB's side.
    pub ankerdb: String,
}

impl Difference {
    /// Whether `other`, shown by a smaller statement, is the same difference: errors have the same codes, everything
    /// else the same aspect.
    pub fn is_like(&self, other: &Difference) -> bool {
        self.aspect == other.aspect
            && (self.aspect != Aspect::Error
                || (&self.postgres, &self.ankerdb) == (&other.postgres, &other.ankerdb))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let block = |text: &str| text.lines().map(|line| format!("\n    {line}")).collect::<String>();
        writeln!(to, "{} differ", self.aspect.word())?;
        writeln!(to, "  PostgreSQL:{}", block(&self.postgres))?;
        write!(to, "  AnKerDB:{}", block(&self.ankerdb))
    }
}

/// All differences between the answers; none if they agree.
pub fn differences(postgres: &Answer, ankerdb: &Answer, order: RowOrder) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |aspect, left: String, right: String| {
        if left != right {
            found.push(Difference { aspect, postgres: left, ankerdb: right });
        }
    };
    let code = |answer: &Answer| answer.error.clone().unwrap_or_else(|| "ok".into());
    compare(Aspect::Error, code(postgres), code(ankerdb));
    if postgres.error.is_none() && ankerdb.error.is_none() {
        compare(Aspect::Tags, postgres.tags.join("; "), ankerdb.tags.join("; "));
        if postgres.columns.len() == ankerdb.columns.len() {
            compare(Aspect::Types, types(postgres), types(ankerdb));
            compare(Aspect::Names, names(postgres), names(ankerdb));
            let (left, right) = rows(postgres, ankerdb, order);
            compare(how_rows_differ(postgres, ankerdb, order), left, right);
        } else {
            compare(Aspect::Width, names(postgres), names(ankerdb));
        }
    }
    if code(postgres) == code(ankerdb) {
        compare(Aspect::Status, postgres.status.into(), ankerdb.status.into());
    }
    found
}

fn names(answer: &Answer) -> String {
    answer.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(" | ")
}

/// The first number of what users make: each server counts on its own.
const FIRST_OF_USERS: u32 = 16_384;

fn types(answer: &Answer) -> String {
    let shown = |oid: u32| if oid < FIRST_OF_USERS { oid.to_string() } else { "a type of users".to_owned() };
    answer.columns.iter().map(|column| shown(column.oid)).collect::<Vec<_>>().join(" | ")
}

/// The rows of both as texts. Doubles that are equal up to rounding are made equal first: a sum depends on the order of
/// its summands, and no order is promised.
fn rows(postgres: &Answer, ankerdb: &Answer, order: RowOrder) -> (String, String) {
    let mut left = postgres.rows.clone();
    let mut right = ankerdb.rows.clone();
    if order == RowOrder::Any || is_order_of_zeros(postgres, ankerdb) {
        left.sort();
        right.sort();
    }
    for (left, right) in left.iter().zip(&mut right) {
        for ((column, left), right) in postgres.columns.iter().zip(left).zip(right) {
            if matches!(column.oid, 700 | 701) && nearly_equal(left.as_deref(), right.as_deref()) {
                right.clone_from(left);
            }
        }
    }
    (lines(&left), lines(&right))
}

/// Whether the rows come in the same order if 0 and -0 are one number, as they are to an order, which says nothing of which is first.
fn is_order_of_zeros(postgres: &Answer, ankerdb: &Answer) -> bool {
    without_signs(postgres, postgres) == without_signs(ankerdb, postgres)
}

/// The answer's rows with 0 for -0, where PostgreSQL's columns are of such numbers.
fn without_signs(answer: &Answer, postgres: &Answer) -> Vec<Vec<Option<String>>> {
    let mut rows = answer.rows.clone();
    for (column, cell) in rows.iter_mut().flat_map(|row| postgres.columns.iter().zip(row)) {
        if matches!(column.oid, 700 | 701) && cell.as_deref() == Some("-0") {
            *cell = Some("0".into());
        }
    }
    rows
}

/// Whether only signs of zeros, only digits or only blanks differ. (If nothing does, the answer does not matter.)
fn how_rows_differ(postgres: &Answer, ankerdb: &Answer, order: RowOrder) -> Aspect {
    let oids = |at: usize| (postgres.columns[at].oid, ankerdb.columns[at].oid);
    let number = |oid: u32| matches!(oid, 700 | 701 | 1700);
    let text = |oid: u32| matches!(oid, 25 | 1042 | 1043);
    let plain = |rows: &[Vec<Option<String>>]| {
        let mut rows = rows.to_vec();
        for (at, cell) in rows.iter_mut().flat_map(|row| row.iter_mut().enumerate()) {
            let (left, right) = oids(at);
            let Some(cell) = cell else { continue };
            if number(left) && number(right) && cell.contains('.') {
                *cell = cell.trim_end_matches('0').trim_end_matches('.').to_owned();
            } else if text(left) && text(right) {
                *cell = cell.trim_end_matches(' ').to_owned();
            }
        }
        if order == RowOrder::Any {
            rows.sort();
        }
        rows
    };
    let (mut left, mut right) = (without_signs(postgres, postgres), without_signs(ankerdb, postgres));
    if order == RowOrder::Any {
        left.sort();
        right.sort();
    }
    if left == right {
        return Aspect::Signs;
    }
    let (left, right) = (plain(&postgres.rows), plain(&ankerdb.rows));
    if left.len() != right.len() {
        return Aspect::Rows;
    }
    let mut aspect = Aspect::Blanks;
    for (left, right) in left.iter().zip(&right) {
        for (at, (left, right)) in left.iter().zip(right).enumerate() {
            let (left_oid, right_oid) = oids(at);
            let same_digits =
                number(left_oid) && number(right_oid) && digits_agree(left.as_deref(), right.as_deref());
            if left != right && !same_digits {
                return Aspect::Rows;
            }
            if number(left_oid) && number(right_oid) {
                aspect = Aspect::Scale;
            }
        }
    }
    aspect
}

/// Whether two numbers agree in as many fractional digits as the shorter one has, six at least.
fn digits_agree(left: Option<&str>, right: Option<&str>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return false };
    let digits = |text: &str| text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let shorter = digits(left).min(digits(right));
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) if shorter >= 6 => {
            (left - right).abs() <= 10f64.powi(-(shorter.min(15) as i32)) * left.abs().max(1.0)
        }
        _ => false,
    }
}

fn nearly_equal(left: Option<&str>, right: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
    match (number(left), number(right)) {
        // The sign of a zero shows in its text, and stays a difference.
        (Some(left), Some(right)) if left.is_finite() && right.is_finite() && left != right => {
            (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
        }
        _ => false,
    }
}

/// Rows as they are written in `.slt` files.
pub fn lines(rows: &[Vec<Option<String>>]) -> String {
    let cell = |cell: &Option<String>| match cell.as_deref() {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.to_owned(),
    };
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[&[Option<&str>]], oid: u32) -> Answer {
        let owned = |row: &&[Option<&str>]| row.iter().map(|cell| cell.map(str::to_owned)).collect();
        let column = ResultColumn { name: "a".into(), oid };
        Answer { columns: vec![column], rows: rows.iter().map(owned).collect(), ..Answer::default() }
    }

    fn aspects(left: &Answer, right: &Answer, order: RowOrder) -> Vec<Aspect> {
        differences(left, right, order).into_iter().map(|difference| difference.aspect).collect()
    }

    #[test]
    fn rows_are_compared_in_order_only_where_the_order_is_total() {
        let left = answer(&[&[Some("1")], &[None]], 23);
        let right = answer(&[&[None], &[Some("1")]], 23);
        assert_eq!(aspects(&left, &right, RowOrder::Any), []);
        assert_eq!(aspects(&left, &right, RowOrder::Total), [Aspect::Rows]);
    }

    #[test]
    fn zeros_of_either_sign_come_in_any_order_but_no_sign_is_lost() {
        let left = answer(&[&[Some("0")], &[Some("-0")], &[Some("1")]], 701);
        let right = answer(&[&[Some("-0")], &[Some("0")], &[Some("1")]], 701);
        assert_eq!(aspects(&left, &right, RowOrder::Total), []);
        let unsigned = answer(&[&[Some("0")], &[Some("0")], &[Some("1")]], 701);
        assert_eq!(aspects(&left, &unsigned, RowOrder::Total), [Aspect::Signs]);
        let moved = answer(&[&[Some("1")], &[Some("0")], &[Some("-0")]], 701);
        assert_eq!(aspects(&left, &moved, RowOrder::Total), [Aspect::Rows]);
    }

    #[test]
    fn null_and_the_empty_text_and_missing_rows_differ() {
        let (null, empty) = (answer(&[&[None]], 25), answer(&[&[Some("")]], 25));
        assert_eq!(aspects(&null, &empty, RowOrder::Any), [Aspect::Rows]);
        assert_eq!(aspects(&null, &answer(&[], 25), RowOrder::Any), [Aspect::Rows]);
    }

    #[test]
    fn doubles_may_differ_by_rounding_and_by_no_more() {
        let one = answer(&[&[Some("0.30000000000000004")]], 701);
        assert_eq!(aspects(&one, &answer(&[&[Some("0.3")]], 701), RowOrder::Any), []);
        assert_eq!(aspects(&one, &answer(&[&[Some("0.3001")]], 701), RowOrder::Any), [Aspect::Rows]);
        assert_eq!(
            aspects(&answer(&[&[Some("0")]], 701), &answer(&[&[Some("-0")]], 701), RowOrder::Any),
            [Aspect::Signs]
        );
        // Exact types are exact.
        assert_eq!(
            aspects(
                &answer(&[&[Some("0.30000000000000004")]], 1700),
                &answer(&[&[Some("0.3")]], 1700),
                RowOrder::Any
            ),
            [Aspect::Rows]
        );
    }

    #[test]
    fn digits_and_blanks_are_told_apart_from_other_values() {
        let pair = |oid, left, right| {
            aspects(&answer(&[&[Some(left)]], oid), &answer(&[&[Some(right)]], oid), RowOrder::Any)
        };
        assert_eq!(pair(1700, "1.50", "1.5"), [Aspect::Scale]);
        assert_eq!(pair(1700, "2.3333333333333333", "2.333333"), [Aspect::Scale]);
        assert_eq!(pair(1700, "2.5", "2.4"), [Aspect::Rows]);
        assert_eq!(pair(1700, "10", "1"), [Aspect::Rows]);
        assert_eq!(pair(1042, "ab  ", "ab"), [Aspect::Blanks]);
        assert_eq!(pair(25, "ab", "abc"), [Aspect::Rows]);
    }

    #[test]
    fn types_names_tags_and_errors_are_seen() {
        let base = answer(&[&[Some("1")]], 23);
        assert_eq!(aspects(&base, &answer(&[&[Some("1")]], 20), RowOrder::Any), [Aspect::Types]);
        let mut other = base.clone();
        other.columns[0].name = "b".into();
        other.tags.push("SELECT 1".into());
        assert_eq!(aspects(&base, &other, RowOrder::Any), [Aspect::Tags, Aspect::Names]);
        let failed = Answer { error: Some("22012".into()), ..Answer::default() };
        let found = differences(&failed, &base, RowOrder::Any);
        assert_eq!((found[0].postgres.as_str(), found[0].ankerdb.as_str()), ("22012", "ok"));
    }
}
