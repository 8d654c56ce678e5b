//! Names as SQL writes them, in quotes where they need them.

/// Words that PostgreSQL 15 does not take as any name without quotes.
const WORDS: &str = "all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case \
     cast char character check coalesce collate collation column concurrently constraint create cross current_catalog \
     current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable \
     desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group \
     grouping having ilike in initially inner inout int integer intersect interval into is isnull join lateral leading least \
     left like limit localtime localtimestamp national natural nchar none normalize not notnull null nullif numeric offset on \
     only or order out outer overlaps overlay placing position precision primary real references returning right row select \
     session_user setof similar smallint some substring symmetric table tablesample then time timestamp to trailing treat trim \
     true union unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement \
     xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

/// The name, in quotes if it would be read as another without them.
pub(crate) fn quote_ident(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain && !WORDS.split_ascii_whitespace().any(|word| word == name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The text in single quotes.
pub(crate) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// The condition in parentheses, if it is not already: texts of other servers have them, and each time that one is written and read
/// again there would be one pair more.
pub(super) fn in_parentheses(condition: &str) -> String {
    if is_in_parentheses(condition) { condition.to_owned() } else { format!("({condition})") }
}

/// Whether the parenthesis that a text begins with is closed at its end, and not before.
fn is_in_parentheses(text: &str) -> bool {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (end, Some(begin)) if end == begin => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(character),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at > 0 && at + 1 == text.len();
        }
    }
    false
}

/// Names, with commas.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(quote_ident).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(quote_ident("a_1"), "a_1");
        assert_eq!(quote_ident("Aa"), "\"Aa\"");
        assert_eq!(quote_ident("order"), "\"order\"");
        assert_eq!(quote_ident("1a"), "\"1a\"");
        assert_eq!(quote_ident("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        for (condition, shown) in [
            ("a > 0", "(a > 0)"),
            ("(a > 0)", "(a > 0)"),
            ("(a > 0) AND (b > 0)", "((a > 0) AND (b > 0))"),
            ("(a > ')' OR (b = \"(\"))", "(a > ')' OR (b = \"(\"))"),
            ("(a)(", "((a)()"),
        ] {
            assert_eq!(in_parentheses(condition), shown);
        }
        assert_eq!(quote_literal("a\\b"), "E'a\\\\b'");
    }
}
