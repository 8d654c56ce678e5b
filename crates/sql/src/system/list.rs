//! Lists as the texts that clients see.

use ankerdb_engine::{DataType, ListType, ValueRef};
use ankerdb_value::{format_text, push_item};

/// The list's text: `{1,2}`, or `1 2` for vectors. NULL and texts that would be read otherwise have their marks.
pub(crate) fn shown_list(list: ListType, items: &[ValueRef<'_>]) -> String {
    let (open, between, close) = if list.is_vector() { ("", " ", "") } else { ("{", ",", "}") };
    let mut text = String::from(open);
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            text.push_str(between);
        }
        push_cell(*item, &mut text);
    }
    text.push_str(close);
    text
}

fn push_cell(item: ValueRef<'_>, out: &mut String) {
    if item.is_null() {
        out.push_str("NULL");
        return;
    }
    let mut text = String::new();
    format_text(item, DataType::Text, &mut text);
    push_item(&text, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_quoted_where_they_must_be() {
        let items = ["a", "", "b c", "null", "d,e", "f\"g\\"].map(ValueRef::Text);
        assert_eq!(shown_list(ListType::Text, &items), r#"{a,"","b c","null","d,e","f\"g\\"}"#);
        let numbers = [ValueRef::SmallInt(1), ValueRef::Null];
        assert_eq!(shown_list(ListType::SmallInt, &numbers), "{1,NULL}");
        assert_eq!(shown_list(ListType::SmallIntVector, &numbers[..1]), "1");
    }
}
