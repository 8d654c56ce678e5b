//! Keys that are computed: of expressions over a row, or of those rows only that satisfy a condition.
//!
//! What computes them comes from outside with the definition of the index, as conditions of CHECK do. It depends on nothing but
//! the values of some columns, its *sources*; so the key of any state of a row can be computed again whenever it is needed, and
//! a change of a source is a change of the key. A row that the index leaves out has a key of NULLs, which is in conflict with
//! nothing and which no lookup asks for.
//!
//! Not here: the language of expressions.

use ankerdb_base::Result;
use ankerdb_value::{DataType, Value};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Computes the keys of an index.
pub trait KeyFunction: Any + Send + Sync {
    /// The parts of the key of a row with these values, by column; `None` if the index leaves the row out. Equal values
    /// always give equal keys.
    ///
    /// # Errors
    /// The expressions' own: such a row cannot be in the table.
    fn key(&self, value: &dyn Fn(usize) -> Value) -> Result<Option<Vec<Value>>>;
}

/// How an index computes its keys.
#[derive(Clone)]
pub struct Derivation {
    /// The types of the key's parts.
    pub types: Vec<DataType>,
    /// The columns that the key depends on, by position.
    pub sources: Vec<usize>,
    /// The key's parts as they were declared.
    pub parts: Vec<ColumnText>,
    /// Which rows the index is about, if not all.
    pub predicate: Option<ColumnText>,
    /// What computes the keys, of which the texts must tell all.
    pub function: Arc<dyn KeyFunction>,
}

impl PartialEq for Derivation {
    fn eq(&self, other: &Derivation) -> bool {
        (&self.types, &self.parts, &self.predicate) == (&other.types, &other.parts, &other.predicate)
    }
}

impl fmt::Debug for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} WHERE {:?}", self.parts, self.predicate)
    }
}

/// A text about columns, which knows them by position: their names may change.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnText(Vec<Piece>);

#[derive(Clone, PartialEq, Debug)]
enum Piece {
    Text(String),
    Column(usize),
}

impl ColumnText {
    /// Of texts and columns in turn, a text first: `texts` are one more than `columns`.
    pub fn new(texts: Vec<String>, columns: &[usize]) -> ColumnText {
        let columns = columns.iter().map(|&column| Some(Piece::Column(column))).chain([None]);
        let pieces = texts.into_iter().zip(columns);
        ColumnText(pieces.flat_map(|(text, column)| [Some(Piece::Text(text)), column]).flatten().collect())
    }

    /// What it was made of: texts, and the columns between them.
    pub fn parts(&self) -> (Vec<&str>, Vec<usize>) {
        let (mut texts, mut columns) = (Vec::new(), Vec::new());
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => texts.push(text.as_str()),
                Piece::Column(column) => columns.push(*column),
            }
        }
        (texts, columns)
    }

    /// The column, if the text is nothing else.
    pub fn as_column(&self) -> Option<usize> {
        let mut pieces = self.0.iter().filter(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        match (pieces.next(), pieces.next()) {
            (Some(Piece::Column(column)), None) => Some(*column),
            _ => None,
        }
    }

    /// The text with these names of columns.
    pub fn with_names(&self, name: impl Fn(usize) -> String) -> String {
        let shown = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Column(column) => name(*column),
        };
        self.0.iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_columns_as_they_are_called_now() {
        let text = ColumnText::new(vec!["lower(".into(), " || ".into(), ")".into()], &[2, 0]);
        let names = ["id", "mail", "name"];
        assert_eq!(text.with_names(|column| names[column].to_owned()), "lower(name || id)");
        assert_eq!(text.parts(), (vec!["lower(", " || ", ")"], vec![2, 0]));
    }
}
