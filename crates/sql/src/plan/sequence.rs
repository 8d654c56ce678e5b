//! CREATE SEQUENCE, and the sequences of serial and identity columns.

use crate::expression::types::data_type;
use crate::name::{folded, not_supported, qualified};
use crate::sequence_options::cache;
use ankerdb_engine::{DataType, Error, QualifiedName, Result, SequenceDefinition, SqlState};
use datafusion::sql::sqlparser::ast::{self, Expr, SequenceOptions};

/// A sequence that a column counts by.
#[derive(Clone, Debug)]
pub(crate) struct OwnSequence {
    /// The column's position.
    pub column: usize,
    /// The name that it is to have; `None` for one made of the table's and the column's.
    pub name: Option<QualifiedName>,
    /// All of it but its name, its schema and its owner.
    pub definition: SequenceDefinition,
}

/// A sequence with options; the name is the caller's.
pub(super) fn sequence(
    name: String,
    data_type: DataType,
    options: &[SequenceOptions],
) -> Result<SequenceDefinition> {
    let mut sequence = SequenceDefinition::new(name, data_type);
    let (mut minimum, mut maximum, mut start) = (None, None, None);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(number, _) => sequence.increment = self::number(number)?,
            SequenceOptions::MinValue(number) => minimum = number.as_ref().map(self::number).transpose()?,
            SequenceOptions::MaxValue(number) => maximum = number.as_ref().map(self::number).transpose()?,
            SequenceOptions::StartWith(number, _) => start = Some(self::number(number)?),
            SequenceOptions::Cache(number) => check_cache(number)?,
            SequenceOptions::Cycle(no) => sequence.cycle = !no,
        }
    }
    if sequence.increment < 0 {
        (sequence.minimum, sequence.maximum) = (-sequence.maximum - 1, -1);
    }
    sequence.minimum = minimum.unwrap_or(sequence.minimum);
    sequence.maximum = maximum.unwrap_or(sequence.maximum);
    sequence.start =
        start.unwrap_or(if sequence.increment < 0 { sequence.maximum } else { sequence.minimum });
    sequence.validate()?;
    Ok(sequence)
}

/// A sequence with other options, and perhaps of another type. What is not told stays.
pub(crate) fn altered(
    old: &SequenceDefinition,
    data_type: Option<DataType>,
    options: &[SequenceOptions],
) -> Result<SequenceDefinition> {
    let mut sequence = old.clone();
    let (mut minimum, mut maximum) = (None, None);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(number, _) => sequence.increment = self::number(number)?,
            SequenceOptions::MinValue(number) => {
                minimum = Some(number.as_ref().map(self::number).transpose()?);
            }
            SequenceOptions::MaxValue(number) => {
                maximum = Some(number.as_ref().map(self::number).transpose()?);
            }
            SequenceOptions::StartWith(number, _) => sequence.start = self::number(number)?,
            SequenceOptions::Cache(number) => check_cache(number)?,
            SequenceOptions::Cycle(no) => sequence.cycle = !no,
        }
    }
    let usual = |data_type: DataType, increment: i64| {
        let largest = SequenceDefinition::new("", data_type).maximum;
        if increment < 0 { (-largest - 1, -1) } else { (1, largest) }
    };
    if let Some(data_type) = data_type {
        // The ends of the former type become those of the new one, whichever way the sequence counts.
        let largest = SequenceDefinition::new("", old.data_type).maximum;
        let new = SequenceDefinition::new("", data_type).maximum;
        maximum = maximum.or((old.maximum == largest).then_some(Some(new)));
        minimum = minimum.or((old.minimum == -largest - 1).then_some(Some(-new - 1)));
        sequence.data_type = data_type;
    }
    let (lowest, highest) = usual(sequence.data_type, sequence.increment);
    sequence.minimum = minimum.map_or(sequence.minimum, |given| given.unwrap_or(lowest));
    sequence.maximum = maximum.map_or(sequence.maximum, |given| given.unwrap_or(highest));
    sequence.validate()?;
    Ok(sequence)
}

/// What OWNED BY names.
pub(crate) enum SequenceOwner {
    None,
    Column(QualifiedName, String),
}

pub(super) fn sequence_owner(owner: &ast::ObjectName) -> Result<SequenceOwner> {
    let mut parts: Vec<String> = owner.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    match parts.pop() {
        Some(none) if parts.is_empty() && none == "none" => Ok(SequenceOwner::None),
        Some(column) if !parts.is_empty() => Ok(SequenceOwner::Column(qualified(parts)?, column)),
        _ => {
            let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
            Err(Error::new(SqlState::SyntaxError, "invalid OWNED BY option").with_hint(hint))
        }
    }
}

/// The sequence of an identity column, whose position is the caller's.
pub(crate) fn identity_sequence(
    data_type: DataType,
    options: Option<&[SequenceOptions]>,
) -> Result<OwnSequence> {
    if !matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt) {
        return Err(invalid("identity column type must be smallint, integer, or bigint"));
    }
    let options = options.unwrap_or(&[]);
    let named = |option: &SequenceOptions| match option {
        SequenceOptions::Cache(number) => cache(&number.to_string()).1,
        _ => None,
    };
    let name = options.iter().find_map(named).map(qualified).transpose()?;
    Ok(OwnSequence { column: 0, name, definition: sequence(String::new(), data_type, options)? })
}

/// The type that `CREATE SEQUENCE ... AS` names.
pub(super) fn counted_type(named: Option<&ast::DataType>) -> Result<DataType> {
    match named.map(data_type).transpose()? {
        None => Ok(DataType::BigInt),
        Some(known @ (DataType::SmallInt | DataType::Integer | DataType::BigInt)) => Ok(known),
        Some(_) => Err(invalid("sequence type must be smallint, integer, or bigint")),
    }
}

/// The integer type of a `serial` column; `None` for other types.
pub(super) fn serial_type(named: &ast::DataType) -> Option<DataType> {
    match named.to_string().to_ascii_lowercase().as_str() {
        "smallserial" | "serial2" => Some(DataType::SmallInt),
        "serial" | "serial4" => Some(DataType::Integer),
        "bigserial" | "serial8" => Some(DataType::BigInt),
        _ => None,
    }
}

/// Numbers are not taken ahead, so none is lost with a session.
fn check_cache(expr: &Expr) -> Result<()> {
    let text = expr.to_string();
    let (number, _) = cache(&text);
    match parsed(number)? > 0 {
        true => Ok(()),
        false => Err(invalid(&format!("CACHE ({number}) must be greater than zero"))),
    }
}

fn number(expr: &Expr) -> Result<i64> {
    parsed(&expr.to_string())
}

fn parsed(text: &str) -> Result<i64> {
    text.replace(' ', "").parse().map_err(|_| not_supported(&format!("the number {text} of a sequence")))
}

fn invalid(message: &str) -> Error {
    Error::new(SqlState::InvalidParameterValue, message.to_owned())
}
