//! Lists as the texts that clients see.

use ankerdb_engine::{DataType, Error, ListType, Result, SqlState, ValueRef};
use ankerdb_value::format_text;

/// The list's text: `{1,2}`, or `1 2` for vectors. NULL and texts that would be read otherwise have their marks.
pub(crate) fn shown_list(list: ListType, items: &[ValueRef<'_>]) -> String {
    let is_vector = matches!(list, ListType::SmallIntVector | ListType::OidVector);
    let (open, between, close) = if is_vector { ("", " ", "") } else { ("{", ",", "}") };
    let mut text = String::from(open);
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            text.push_str(between);
        }
        push_item(*item, &mut text);
    }
    text.push_str(close);
    text
}

fn push_item(item: ValueRef<'_>, out: &mut String) {
    if item.is_null() {
        out.push_str("NULL");
        return;
    }
    let mut text = String::new();
    format_text(item, DataType::Text, &mut text);
    let is_special = |c: char| c.is_ascii_whitespace() || matches!(c, '{' | '}' | ',' | '"' | '\\');
    match text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(is_special) {
        false => out.push_str(&text),
        true => {
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        }
    }
}

/// The items of a list's text. 22P02 if it is none.
pub(crate) fn list_items(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        let message = format!("malformed array literal: \"{text}\"");
        Error::new(SqlState::InvalidTextRepresentation, message).with_detail(detail)
    };
    let inner = text.trim().strip_prefix('{');
    let inner =
        inner.ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let inner = inner.strip_suffix('}').ok_or_else(|| malformed("Unexpected end of input."))?;
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    let (mut items, mut item, mut is_quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let finished = |item: &mut String, was_quoted: &mut bool| {
        let text = std::mem::take(item);
        match std::mem::take(was_quoted) {
            true => Some(text),
            false => Some(text.trim().to_owned()).filter(|text| !text.eq_ignore_ascii_case("null")),
        }
    };
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => item.extend(characters.next()),
            '"' => (is_quoted, was_quoted) = (!is_quoted, true),
            ',' if !is_quoted => items.push(finished(&mut item, &mut was_quoted)),
            '{' | '}' if !is_quoted => return Err(malformed("Lists within lists are not supported.")),
            other => item.push(other),
        }
    }
    if is_quoted {
        return Err(malformed("Unexpected end of input."));
    }
    items.push(finished(&mut item, &mut was_quoted));
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lead_back_to_items() {
        let items = list_items(r#"{a, "b,c" ,NULL,"NULL","d\"e"}"#).unwrap();
        let expected = [Some("a"), Some("b,c "), None, Some("NULL"), Some("d\"e")];
        assert_eq!(items.iter().map(Option::as_deref).collect::<Vec<_>>()[0], expected[0]);
        assert_eq!(items.len(), expected.len());
        assert_eq!(items[2], None);
        assert_eq!(items[4].as_deref(), Some("d\"e"));
        assert!(list_items("{}").unwrap().is_empty());
        assert!(["", "a", "{a", "{{a}}", "{\"a}"].iter().all(|text| list_items(text).is_err()));
    }

    #[test]
    fn items_are_quoted_where_they_must_be() {
        let items = ["a", "", "b c", "null", "d,e", "f\"g\\"].map(ValueRef::Text);
        assert_eq!(shown_list(ListType::Text, &items), r#"{a,"","b c","null","d,e","f\"g\\"}"#);
        let numbers = [ValueRef::SmallInt(1), ValueRef::Null];
        assert_eq!(shown_list(ListType::SmallInt, &numbers), "{1,NULL}");
        assert_eq!(shown_list(ListType::SmallIntVector, &numbers[..1]), "1");
    }
}
