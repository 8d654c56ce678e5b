//! Which rows of its table a statement may read or change (section 4.6.3, "semantic analysis").
//!
//! ```text
//! UPDATE account SET a = 5 WHERE id = 100                     the key (100)
//! UPDATE account SET a = 8 WHERE id > 42 AND region = 7       the box  id in [42, ..], region in [7, 7]
//! UPDATE account SET region = 8 WHERE region = 7              all rows: the assigned column says nothing about rows afterwards
//! UPDATE account SET a = 8 WHERE a * 2 > 42                   all rows: an expression that can fail is evaluated for any row
//! ```
//! A statement of a ledger is about one table and writes the rows that it reads, so there is one set and not two. It may be too
//! large and never too small: it has every row that the statement's condition holds for, before the statement and after it.
//!
//! Where we differ from the dissertation: all columns may narrow a set, the bounds of an interval belong to it, and what a
//! database could evaluate for other rows than those is not analysed at all.

use crate::definition::SharedTable;
use crate::statement::{PortableStatement, StatementVerb};
use crate::token::Token;
use crate::value::{LedgerType, LedgerValue};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How many boxes a set has at most; a larger one is widened.
const BOXES_MAX: usize = 1024;

/// A value that a column is compared with. Values of one column are of one variant, and are ordered as all databases order them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// A truth value.
    Boolean(bool),
    /// A number of any type.
    Number(Decimal),
    /// A text, a date or a timestamp, by its bytes.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
}

/// A decimal number of any length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    is_negative: bool,
    /// Without zeros before it.
    whole: String,
    /// Without zeros behind it.
    fraction: String,
}

impl Decimal {
    /// The number of a text of digits, perhaps with a sign and a point.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Decimal {
            is_negative: is_negative && !is_zero,
            whole: whole.to_owned(),
            fraction: fraction.to_owned(),
        })
    }

    fn magnitude(&self) -> (usize, &str, &str) {
        (self.whole.len(), &self.whole, &self.fraction)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, false) => self.magnitude().cmp(&other.magnitude()),
            (true, true) => other.magnitude().cmp(&self.magnitude()),
            (is_negative, _) => {
                if is_negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Values between two bounds, which belong to it; a bound that is not there is infinite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interval {
    /// The least value.
    pub low: Option<KeyValue>,
    /// The greatest value.
    pub high: Option<KeyValue>,
}

impl Interval {
    fn point(value: KeyValue) -> Interval {
        Interval { low: Some(value.clone()), high: Some(value) }
    }

    /// The one value of the interval, if it has one.
    pub fn value(&self) -> Option<&KeyValue> {
        self.low.as_ref().filter(|low| self.high.as_ref() == Some(low))
    }

    fn is_empty(&self) -> bool {
        matches!((&self.low, &self.high), (Some(low), Some(high)) if low > high)
    }

    /// Whether two intervals, neither of them empty, have a value in common.
    fn meets(&self, other: &Interval) -> bool {
        let is_below = |low: &Option<KeyValue>, high: &Option<KeyValue>| match (low, high) {
            (Some(low), Some(high)) => low <= high,
            _ => true,
        };
        is_below(&self.low, &other.high) && is_below(&other.low, &self.high)
    }

    fn intersect(&self, other: &Interval) -> Interval {
        let low = self.low.iter().chain(&other.low).max().cloned();
        let high = self.high.iter().chain(&other.high).min().cloned();
        Interval { low, high }
    }

    fn hull(&self, other: &Interval) -> Interval {
        let bound = |one: &Option<KeyValue>, other: &Option<KeyValue>, is_low: bool| {
            let (one, other) = (one.clone()?, other.clone()?);
            Some(if is_low { one.min(other) } else { one.max(other) })
        };
        Interval { low: bound(&self.low, &other.low, true), high: bound(&self.high, &other.high, false) }
    }
}

/// An interval for each column, by the column's position; a column that is not there may have any value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowBox(pub BTreeMap<usize, Interval>);

impl RowBox {
    /// The rows that are in both, or nothing if there cannot be one.
    fn intersect(&self, other: &RowBox) -> Option<RowBox> {
        let mut both = self.clone();
        for (column, interval) in &other.0 {
            let narrowed = match both.0.get(column) {
                Some(own) => own.intersect(interval),
                None => interval.clone(),
            };
            if narrowed.is_empty() {
                return None;
            }
            both.0.insert(*column, narrowed);
        }
        Some(both)
    }

    /// Whether a row could be in both.
    pub fn overlaps(&self, other: &RowBox) -> bool {
        let meets = |(column, interval): (&usize, &Interval)| {
            other.0.get(column).is_none_or(|others| interval.meets(others))
        };
        self.0.iter().all(meets)
    }

    fn hull(&self, other: &RowBox) -> RowBox {
        let shared = self.0.iter().filter_map(|(column, interval)| {
            other.0.get(column).map(|others| (*column, interval.hull(others)))
        });
        RowBox(shared.collect())
    }

    /// The rows with one key.
    pub fn of_key(table: &SharedTable, key: &[KeyValue]) -> RowBox {
        RowBox(table.key.iter().copied().zip(key.iter().cloned().map(Interval::point)).collect())
    }

    /// The whole key that all of its rows have, if they have one.
    fn key(&self, table: &SharedTable) -> Option<Vec<KeyValue>> {
        table.key.iter().map(|at| self.0.get(at)?.value().cloned()).collect()
    }
}

/// The rows that a statement may read or change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowSet {
    /// At most those with these keys.
    Keys(Vec<Vec<KeyValue>>),
    /// At most those that are in one of these boxes.
    Boxes(Vec<RowBox>),
    /// Any.
    All,
}

/// What a member's database locks while it executes a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockReach {
    /// The rows that the statement's condition holds for.
    Matching,
    /// Each row that it looks at; those are as few as the condition says only where one key is looked up.
    Scanned,
}

/// The rows that a statement on this table may read or change. Costs one pass over its text.
///
/// # Panics
/// If the table is another one than that of the statement.
pub fn rows_of(statement: &PortableStatement, table: &SharedTable, reach: LockReach) -> RowSet {
    assert_eq!(statement.table, table.name, "the table of the statement");
    let mut parser = ConditionParser { statement, table, at: 0 };
    let Some(rows) = (match statement.verb {
        StatementVerb::Insert => return parser.inserted_keys().map_or(RowSet::All, RowSet::Keys),
        StatementVerb::Update | StatementVerb::Delete => parser.condition(),
    }) else {
        return RowSet::All;
    };
    let assigned = parser.assigned_columns();
    let without_assigned = |mut rows: RowBox| {
        rows.0.retain(|column, _| !assigned.contains(column));
        rows
    };
    let rows: Vec<RowBox> = rows.into_iter().map(without_assigned).collect();
    let keys: Option<Vec<_>> = rows.iter().map(|rows| rows.key(table)).collect();
    match (keys, reach) {
        (Some(keys), LockReach::Matching) => RowSet::Keys(keys),
        (Some(keys), LockReach::Scanned) if keys.len() == 1 => RowSet::Keys(keys),
        (_, LockReach::Scanned) => RowSet::All,
        (None, LockReach::Matching) if rows.iter().any(|rows| rows.0.is_empty()) => RowSet::All,
        (None, LockReach::Matching) => RowSet::Boxes(rows),
    }
}

/// Something that is compared.
enum Operand {
    Column(usize),
    /// A value as it stands there, with its sign.
    Value(LedgerValue),
}

/// Reads what it knows of a statement, and gives nothing where it does not know something.
struct ConditionParser<'a> {
    statement: &'a PortableStatement,
    table: &'a SharedTable,
    at: usize,
}

/// The boxes of a condition that holds for any row.
fn any_row() -> Vec<RowBox> {
    vec![RowBox::default()]
}

impl ConditionParser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.statement.tokens.get(self.at)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is_word(word));
        self.at += usize::from(found);
        found
    }

    fn takes_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is_symbol(symbol));
        self.at += usize::from(found);
        found
    }

    /// The boxes of the whole condition.
    fn condition(&mut self) -> Option<Vec<RowBox>> {
        self.at = self.statement.condition;
        if self.peek().is_none() {
            return Some(any_row());
        }
        self.at += 1;
        let rows = self.alternatives()?;
        self.peek().is_none().then_some(rows)
    }

    fn alternatives(&mut self) -> Option<Vec<RowBox>> {
        let mut rows = self.conjunction()?;
        while self.takes_word("or") {
            rows.extend(self.conjunction()?);
            if rows.len() > BOXES_MAX {
                rows = rows.into_iter().reduce(|one, other| one.hull(&other)).into_iter().collect();
            }
        }
        Some(rows)
    }

    fn conjunction(&mut self) -> Option<Vec<RowBox>> {
        let mut rows = self.negation()?;
        while self.takes_word("and") {
            let others = self.negation()?;
            if rows.len() * others.len() > BOXES_MAX {
                // Either of them has all rows that are in both; the one with more boxes says more.
                rows = if rows.len() >= others.len() { rows } else { others };
                continue;
            }
            rows = rows
                .iter()
                .flat_map(|rows| others.iter().filter_map(|other| rows.intersect(other)))
                .collect();
        }
        Some(rows)
    }

    fn negation(&mut self) -> Option<Vec<RowBox>> {
        if self.takes_word("not") {
            return self.negation().map(|_| any_row());
        }
        if self.peek()?.is_symbol("(") {
            if let Some(rows) = self.tuple_in() {
                return Some(rows);
            }
            self.at += 1;
            let rows = self.alternatives()?;
            return self.takes_symbol(")").then_some(rows);
        }
        self.predicate()
    }

    /// `(a, b) IN ((1, 2), (3, 4))`. Nothing, and nowhere further, if it is something else.
    fn tuple_in(&mut self) -> Option<Vec<RowBox>> {
        let begin = self.at;
        let found = self.try_tuple_in();
        if found.is_none() {
            self.at = begin;
        }
        found
    }

    fn try_tuple_in(&mut self) -> Option<Vec<RowBox>> {
        let mut columns = Vec::new();
        self.at += 1;
        loop {
            let Operand::Column(column) = self.operand()? else { return None };
            columns.push(column);
            if !self.takes_symbol(",") {
                break;
            }
        }
        if !(self.takes_symbol(")") && self.takes_word("in") && self.takes_symbol("(")) {
            return None;
        }
        let mut rows = Vec::new();
        loop {
            if !self.takes_symbol("(") {
                return None;
            }
            let mut row = RowBox::default();
            for (at, column) in columns.iter().enumerate() {
                let value = self.operand()?;
                let interval = self.compared(*column, &value)?.map(Interval::point).unwrap_or_default();
                row = row.intersect(&RowBox(BTreeMap::from([(*column, interval)])))?;
                if !self.takes_symbol(if at + 1 == columns.len() { ")" } else { "," }) {
                    return None;
                }
            }
            rows.push(row);
            if !self.takes_symbol(",") {
                break;
            }
        }
        (self.takes_symbol(")") && rows.len() <= BOXES_MAX).then_some(rows)
    }

    fn predicate(&mut self) -> Option<Vec<RowBox>> {
        let first = self.operand()?;
        if self.takes_word("is") {
            self.takes_word("not");
            return (matches!(first, Operand::Column(_)) && self.takes_word("null")).then(any_row);
        }
        let is_negated = self.takes_word("not");
        let rows = if self.takes_word("between") {
            let low = self.operand()?;
            if !self.takes_word("and") {
                return None;
            }
            let high = self.operand()?;
            self.between(&first, &low, &high)?
        } else if self.takes_word("in") {
            self.list(&first)?
        } else if is_negated {
            return None;
        } else {
            let Some(Token::Symbol(symbol)) = self.peek() else { return None };
            let symbol = *symbol;
            self.at += 1;
            let second = self.operand()?;
            self.comparison(&first, symbol, &second)?
        };
        Some(if is_negated { any_row() } else { rows })
    }

    fn between(&self, first: &Operand, low: &Operand, high: &Operand) -> Option<Vec<RowBox>> {
        let Operand::Column(column) = first else { return None };
        let interval = Interval { low: self.compared(*column, low)?, high: self.compared(*column, high)? };
        Some(boxes_of(*column, interval))
    }

    fn list(&mut self, first: &Operand) -> Option<Vec<RowBox>> {
        let Operand::Column(column) = first else { return None };
        let mut rows = Vec::new();
        if !self.takes_symbol("(") {
            return None;
        }
        loop {
            let value = self.operand()?;
            let interval = self.compared(*column, &value)?.map(Interval::point).unwrap_or_default();
            rows.extend(boxes_of(*column, interval));
            if !self.takes_symbol(",") {
                break;
            }
        }
        if rows.len() > BOXES_MAX {
            rows = rows.into_iter().reduce(|one, other| one.hull(&other)).into_iter().collect();
        }
        self.takes_symbol(")").then_some(rows)
    }

    fn comparison(&self, first: &Operand, symbol: &str, second: &Operand) -> Option<Vec<RowBox>> {
        let (column, value, is_turned) = match (first, second) {
            (Operand::Column(column), value) => (*column, value, false),
            (value, Operand::Column(column)) => (*column, value, true),
            _ => return None,
        };
        let bound = self.compared(column, value)?;
        let symbol = match (symbol, is_turned) {
            ("<" | "<=", true) => ">",
            (">" | ">=", true) => "<",
            (symbol, _) => symbol,
        };
        let interval = match symbol {
            "=" => bound.map(Interval::point).unwrap_or_default(),
            "<" | "<=" => Interval { low: None, high: bound },
            ">" | ">=" => Interval { low: bound, high: None },
            "<>" => Interval::default(),
            _ => return None,
        };
        Some(boxes_of(column, interval))
    }

    /// A column, or a value.
    fn operand(&mut self) -> Option<Operand> {
        let is_negative = self.takes_symbol("-");
        let token = self.peek()?.clone();
        self.at += 1;
        if self.peek().is_some_and(|next| ["+", "-", "*"].iter().any(|symbol| next.is_symbol(symbol))) {
            return None;
        }
        let value = match token {
            Token::Number(digits) if is_negative => LedgerValue::Decimal(format!("-{digits}")),
            _ if is_negative => return None,
            Token::Number(digits) => LedgerValue::Decimal(digits),
            Token::Text(text) => LedgerValue::Text(text),
            Token::Parameter(number) => self.statement.values.get(number - 1)?.clone(),
            Token::Word(word) => match word.as_str() {
                "true" => LedgerValue::Boolean(true),
                "false" => LedgerValue::Boolean(false),
                "null" => LedgerValue::Null,
                // A function's name may be a column's, too.
                _ if self.peek().is_some_and(|next| next.is_symbol("(")) => return None,
                _ => return self.table.position(&word).map(Operand::Column),
            },
            Token::Symbol(_) => return None,
        };
        Some(Operand::Value(value))
    }

    /// What a column is compared with: a value, or one that nothing is known of. Nothing if the comparison might fail for some
    /// rows, or databases might compare other things than values of the column's type.
    fn compared(&self, column: usize, operand: &Operand) -> Option<Option<KeyValue>> {
        let kind = self.table.columns[column].kind;
        match operand {
            Operand::Column(other) => {
                let other = self.table.columns[*other].kind;
                (kind == other || (is_number(kind) && is_number(other))).then_some(None)
            }
            Operand::Value(LedgerValue::Null) => Some(None),
            Operand::Value(value) => value_of(kind, value).map(Some),
        }
    }

    /// The keys of an INSERT, if its text says them.
    fn inserted_keys(&mut self) -> Option<Vec<Vec<KeyValue>>> {
        // INSERT INTO table ( a, b ) VALUES ( 1, 2 ), ( 3, 4 )
        self.at = 4;
        let mut columns = Vec::new();
        loop {
            let Some(Token::Word(word)) = self.peek() else { return None };
            columns.push(self.table.position(word)?);
            self.at += 1;
            if !self.takes_symbol(",") {
                break;
            }
        }
        if !(self.takes_symbol(")") && self.takes_word("values")) {
            return None;
        }
        let places: Option<Vec<usize>> =
            self.table.key.iter().map(|key| columns.iter().position(|column| column == key)).collect();
        let places = places?;
        let mut keys = Vec::new();
        loop {
            keys.push(self.inserted_key(&columns, &places)?);
            if !self.takes_symbol(",") {
                break;
            }
        }
        self.peek().is_none().then_some(keys)
    }

    fn inserted_key(&mut self, columns: &[usize], places: &[usize]) -> Option<Vec<KeyValue>> {
        let mut found: Vec<Option<KeyValue>> = vec![None; places.len()];
        if !self.takes_symbol("(") {
            return None;
        }
        for at in 0..columns.len() {
            if let Some(place) = places.iter().position(|place| *place == at) {
                let kind = self.table.columns[columns[at]].kind;
                let Operand::Value(value) = self.operand()? else { return None };
                found[place] = Some(value_of(kind, &value).filter(|value| fits(kind, value))?);
            } else {
                self.skip_expression();
            }
            if !self.takes_symbol(if at + 1 == columns.len() { ")" } else { "," }) {
                return None;
            }
        }
        found.into_iter().collect()
    }

    /// Up to the comma or parenthesis that ends an expression.
    fn skip_expression(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Symbol("(") => depth += 1,
                Token::Symbol("," | ")") if depth == 0 => return,
                Token::Symbol(")") => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// The columns that an UPDATE assigns.
    fn assigned_columns(&mut self) -> Vec<usize> {
        let mut assigned = Vec::new();
        if self.statement.verb != StatementVerb::Update {
            return assigned;
        }
        // UPDATE table SET a = 1, b = 2 WHERE
        self.at = 3;
        while self.at < self.statement.condition {
            if let Some(Token::Word(word)) = self.peek() {
                assigned.extend(self.table.position(word));
            }
            self.at += 1;
            self.skip_expression();
            self.at += 1;
        }
        assigned
    }
}

/// The boxes of one interval: none if it is empty.
fn boxes_of(column: usize, interval: Interval) -> Vec<RowBox> {
    if interval.is_empty() {
        return Vec::new();
    }
    if interval == Interval::default() {
        return any_row();
    }
    vec![RowBox(BTreeMap::from([(column, interval)]))]
}

fn is_number(kind: LedgerType) -> bool {
    matches!(
        kind,
        LedgerType::SmallInt | LedgerType::Integer | LedgerType::BigInt | LedgerType::Numeric { .. }
    )
}

/// A value of a transaction as one of a column's type, if all databases take it for just that.
fn value_of(kind: LedgerType, value: &LedgerValue) -> Option<KeyValue> {
    match (kind, value) {
        (LedgerType::Boolean, LedgerValue::Boolean(value)) => Some(KeyValue::Boolean(*value)),
        (LedgerType::Bytea, LedgerValue::Bytes(value)) => Some(KeyValue::Bytes(value.clone())),
        (LedgerType::Varchar(_) | LedgerType::Text, LedgerValue::Text(value)) => {
            Some(KeyValue::Text(value.clone()))
        }
        (LedgerType::Date, LedgerValue::Text(value)) => is_date(value).then(|| KeyValue::Text(value.clone())),
        (LedgerType::Timestamp, LedgerValue::Text(value)) => full_timestamp(value).map(KeyValue::Text),
        (kind, LedgerValue::Integer(value)) if is_number(kind) => {
            Decimal::parse(&value.to_string()).map(KeyValue::Number)
        }
        (kind, LedgerValue::Decimal(digits)) if is_number(kind) => {
            let is_whole = !matches!(kind, LedgerType::Numeric { .. });
            let number = Decimal::parse(digits)?;
            (!is_whole || number.fraction.is_empty()).then_some(KeyValue::Number(number))
        }
        _ => None,
    }
}

/// Whether a column keeps a value as it is, neither rounded nor cut.
fn fits(kind: LedgerType, value: &KeyValue) -> bool {
    match (kind, value) {
        (LedgerType::Varchar(length), KeyValue::Text(text)) => text.chars().count() <= usize::from(length),
        (LedgerType::Numeric { scale, .. }, KeyValue::Number(number)) => {
            number.fraction.len() <= usize::from(scale)
        }
        _ => true,
    }
}

/// Whether a text is a date as all databases print it.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !has_form {
        return false;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or_default();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    year >= 1 && (1..=12).contains(&month) && (1..=days).contains(&day)
}

/// A timestamp with all six digits of its second's fraction, if the text is one as databases print it.
fn full_timestamp(text: &str) -> Option<String> {
    let (date, time) = (text.get(..10)?, text.get(10..)?);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let bytes = time.as_bytes();
    let has_form = bytes.len() == 9
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            0 => *byte == b' ',
            3 | 6 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    let is_fraction = fraction.len() <= 6 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_date(date) || !has_form || !is_fraction {
        return None;
    }
    let number = |range: std::ops::Range<usize>| time[range].parse::<u32>().unwrap_or(99);
    let is_time = number(1..3) < 24 && number(4..6) < 60 && number(7..9) < 60;
    is_time.then(|| format!("{date}{time}.{fraction:0<6}"))
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
