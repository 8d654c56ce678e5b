//! Functions of types of labels: `enum_first`, `enum_last`, `enum_range`. Their arguments matter for their types, so that calls are
//! constants; the bounds of a range have to be.

use super::bind::{Bound, Typed, elsewhere, type_name};
use super::{Binder, Expression, fold};
use ankerdb_engine::{
    ArrayBuilder, DataType, EnumType, Error, ListType, SqlState, SystemType, Value, ValueRef,
};

pub(crate) const FIRST: &str = "enum_first";
pub(crate) const LAST: &str = "enum_last";
pub(crate) const RANGE: &str = "enum_range";

/// A call of one of them.
pub(super) fn call(binder: &mut Binder, name: &str, items: Vec<Typed>) -> Bound<Typed> {
    let labels = type_of(name, &items)?;
    let texts = labels.state().labels();
    let one = |label: Option<&ankerdb_engine::Label>| match label {
        Some(label) => {
            let value = Value::Enum(labels.at(label.position));
            Ok(Typed::new(Expression::Literal(value), DataType::Enum(labels)))
        }
        None => {
            let message = format!("enum {} contains no values", labels.name());
            Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message).into())
        }
    };
    match name {
        FIRST => one(texts.first()),
        LAST => one(texts.last()),
        _ => range(binder, labels, items),
    }
}

/// The type of labels that the arguments have.
fn type_of(name: &str, items: &[Typed]) -> Bound<EnumType> {
    let mut known = items.iter().filter_map(|item| item.data_type);
    match (known.next(), known.next()) {
        (Some(DataType::Enum(labels)), other)
            if other.is_none_or(|other| other == DataType::Enum(labels)) =>
        {
            Ok(labels)
        }
        _ => {
            let shown = |item: &Typed| item.data_type.map_or("unknown".to_owned(), type_name);
            let arguments = items.iter().map(shown).collect::<Vec<_>>().join(", ");
            let message = format!("function {name}({arguments}) does not exist");
            let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
            Err(Error::new(SqlState::UndefinedFunction, message).with_hint(hint).into())
        }
    }
}

/// All labels, or those between two, both included; NULL is no bound.
fn range(binder: &mut Binder, labels: EnumType, items: Vec<Typed>) -> Bound<Typed> {
    let bounded = items.len() == 2;
    let mut bounds = [None, None];
    for (bound, item) in bounds.iter_mut().zip(items).filter(|_| bounded) {
        *bound = match fold(binder.resolve(item, DataType::Enum(labels))?)? {
            Expression::Literal(Value::Enum(value)) => Some(value.position),
            Expression::Literal(Value::Null) => None,
            _ => return elsewhere("enum_range between labels that are no constants"),
        };
    }
    let [first, last] = bounds;
    let is_within = |position: i64| {
        first.is_none_or(|first| first <= position) && last.is_none_or(|last| position <= last)
    };
    let list = ListType::Enum(labels);
    let mut array = ArrayBuilder::new(list);
    for label in labels.state().labels().iter().filter(|label| is_within(label.position)) {
        array.push(ValueRef::Enum(labels.at(label.position)))?;
    }
    Ok(Typed::new(
        Expression::Literal(Value::Array(array.finish())),
        DataType::System(SystemType::List(list)),
    ))
}
