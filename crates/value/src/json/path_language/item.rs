//! What a path gives: parts of documents, texts that were made on the way, and moments.

use super::super::walk::{self, JsonKind};
use super::moment::Moment;
use ankerdb_base::Error;
use std::ops::Range;
use std::rc::Rc;

/// An item. Copies of it share the text.
#[derive(Clone, Debug)]
pub(super) enum PathItem<'a> {
    /// Canonical text of a document, of the variables or of the path.
    Text(&'a str),
    /// A part of a canonical text that was made while the path was followed.
    Made(Rc<str>, Range<usize>),
    /// What `.datetime()` gives.
    Moment(Moment),
}

impl<'a> PathItem<'a> {
    pub(super) fn made(text: String) -> PathItem<'a> {
        let range = 0..text.len();
        PathItem::Made(text.into(), range)
    }

    pub(super) fn boolean(value: Option<bool>) -> PathItem<'a> {
        PathItem::Text(match value {
            Some(true) => "true",
            Some(false) => "false",
            None => "null",
        })
    }

    /// The canonical text; that of a moment is made when it leaves the path.
    pub(super) fn text(&self) -> &str {
        match self {
            PathItem::Text(text) => text,
            PathItem::Made(text, range) => &text[range.clone()],
            PathItem::Moment(_) => "",
        }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            PathItem::Moment(moment) => moment.to_string(),
            other => other.text().to_owned(),
        }
    }

    /// What it is; `None` for a moment.
    pub(super) fn kind(&self) -> Option<JsonKind> {
        match self {
            PathItem::Moment(_) => None,
            other => Some(walk::kind(other.text())),
        }
    }

    pub(super) fn is(&self, kind: JsonKind) -> bool {
        self.kind() == Some(kind)
    }

    /// Whether it is an array or an object.
    pub(super) fn is_container(&self) -> bool {
        self.kind().is_some_and(|kind| !kind.is_scalar())
    }

    /// A part of its text.
    pub(super) fn part(&self, range: Range<usize>) -> PathItem<'a> {
        match self {
            PathItem::Text(text) => PathItem::Text(&text[range]),
            PathItem::Made(text, own) => {
                PathItem::Made(Rc::clone(text), own.start + range.start..own.start + range.end)
            }
            PathItem::Moment(moment) => PathItem::Moment(*moment),
        }
    }

    /// Where its text begins in that of an item which it is a part of.
    pub(super) fn offset_in(&self, outer: &PathItem<'a>) -> usize {
        let offset = (self.text().as_ptr() as usize).wrapping_sub(outer.text().as_ptr() as usize);
        if offset < outer.text().len() { offset } else { 0 }
    }

    /// How many elements an array has. One pass over it.
    pub(super) fn count(&self) -> Option<usize> {
        walk::elements(self.text()).map(Iterator::count)
    }
}

/// The object that ids of `.keyvalue()` count in: the document, the variables or a pair that was made.
#[derive(Clone, Debug)]
pub(super) struct Base<'a> {
    pub id: u64,
    pub root: PathItem<'a>,
}

/// What steps of a path know beside their item.
#[derive(Clone, Debug)]
pub(super) struct StepScope<'a> {
    /// `@`
    pub current: PathItem<'a>,
    pub base: Base<'a>,
    /// What `last` counts: an array, or an item that is taken for one.
    pub array: Option<PathItem<'a>>,
    /// Whether steps that find nothing to apply to give nothing, instead of an error.
    pub ignores_structure: bool,
    /// Whether errors of items end the whole path.
    pub throws: bool,
}

/// Items that a path, or a part of one, has given.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    pub items: Vec<PathItem<'a>>,
    /// Whether it is only asked if there are any.
    pub is_test: bool,
}

impl<'a> Found<'a> {
    pub(super) fn is_done(&self) -> bool {
        self.is_test && !self.items.is_empty()
    }

    /// The only item, if it is one of a kind.
    pub(super) fn single(&self, kind: JsonKind) -> Option<&PathItem<'a>> {
        match &self.items[..] {
            [item] if item.is(kind) => Some(item),
            _ => None,
        }
    }
}

/// Why a path, or a part of one, ended.
#[derive(Debug)]
pub(super) enum PathFailure {
    /// An item that does not fit. Predicates are unknown then, and callers may ask for silence.
    Item(Error),
    /// Everything else.
    Other(Error),
}

impl From<Error> for PathFailure {
    fn from(error: Error) -> PathFailure {
        PathFailure::Other(error)
    }
}

impl PathFailure {
    pub(super) fn into_error(self) -> Error {
        match self {
            PathFailure::Item(error) | PathFailure::Other(error) => error,
        }
    }
}
