//! Functions of texts, on parts of the texts themselves: both paths call these, one for a row, the other for a column.

use super::Function;
use ankerdb_engine::{Error, Result, SqlState};

/// The characters from position `start`, counted from 1; at most so many, if `length` is given.
///
/// # Errors
/// 22011 for a negative length.
pub(crate) fn substring(text: &str, start: i64, length: Option<i64>) -> Result<&str> {
    let end = match length {
        Some(length) if length < 0 => {
            let message = "negative substring length not allowed";
            return Err(Error::new(SqlState::SubstringError, message));
        }
        Some(length) => start.saturating_add(length),
        None => i64::MAX,
    };
    Ok(slice(text, start.saturating_sub(1), end.saturating_sub(1)))
}

/// The text in capitals.
pub(crate) fn upper(text: &str) -> String {
    text.chars().map(capital).collect()
}

/// The text in small letters.
pub(crate) fn lower(text: &str) -> String {
    text.chars().map(small).collect()
}

/// The capital of a letter, if one letter is: that of 'ß' is itself. (Unicode's simple mapping, as C libraries and so PostgreSQL have it.)
pub(crate) fn capital(letter: char) -> char {
    let mut full = letter.to_uppercase();
    match (full.next(), full.next(), letter) {
        (Some(capital), None, _) => capital,
        (_, _, '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}') => {
            char::from_u32(letter as u32 + 8).unwrap_or(letter)
        }
        (_, _, '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}') => char::from_u32(letter as u32 + 9).unwrap_or(letter),
        _ => letter,
    }
}

/// The small letter of a capital, without the dot of 'İ'.
pub(crate) fn small(letter: char) -> char {
    // Only 'İ' becomes a letter and a dot.
    letter.to_lowercase().next().unwrap_or(letter)
}

/// The first `count` characters; all but so many at the other end, if that is negative.
pub(crate) fn left(text: &str, count: i64) -> &str {
    match count {
        0.. => slice(text, 0, count),
        _ => slice(text, 0, text.chars().count() as i64 + count),
    }
}

/// The last `count` characters; all but so many at the other end, if that is negative.
pub(crate) fn right(text: &str, count: i64) -> &str {
    match count {
        0.. => slice(text, text.chars().count() as i64 - count, i64::MAX),
        _ => slice(text, -count, i64::MAX),
    }
}

/// The text without these characters at its ends, or at the one that the function is about.
pub(crate) fn trim<'a>(function: Function, text: &'a str, characters: &str) -> &'a str {
    let trimmed = |character: char| characters.contains(character);
    match function {
        Function::TrimStart => text.trim_start_matches(trimmed),
        Function::TrimEnd => text.trim_end_matches(trimmed),
        _ => text.trim_matches(trimmed),
    }
}

/// Where the part begins, in characters from 1; 0 if it is not there.
pub(crate) fn position(text: &str, part: &str) -> Result<i32> {
    text.find(part).map_or(Ok(0), |offset| length(text[..offset].chars().count() + 1))
}

/// Every occurrence of a part replaced; an empty part does not occur.
pub(crate) fn replace(text: &str, part: &str, by: &str) -> String {
    if part.is_empty() { text.to_owned() } else { text.replace(part, by) }
}

/// A length as SQL has it.
pub(crate) fn length(length: usize) -> Result<i32> {
    let out_of_range = |_| Error::new(SqlState::NumericValueOutOfRange, "integer out of range");
    i32::try_from(length).map_err(out_of_range)
}

/// The characters from position `start` up to but without position `end`, counted from 0.
fn slice(text: &str, start: i64, end: i64) -> &str {
    let start = start.max(0);
    let skipped = offset(text, start);
    let rest = &text[skipped..];
    &rest[..offset(rest, end.saturating_sub(start))]
}

/// Where the character at a position begins, or the text ends.
fn offset(text: &str, position: i64) -> usize {
    match usize::try_from(position) {
        Ok(position) if position < text.len() => {
            text.char_indices().nth(position).map_or(text.len(), |(offset, _)| offset)
        }
        Ok(_) => text.len(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_in_characters_and_end_where_the_text_does() {
        assert_eq!(substring("größe", 2, Some(3)), Ok("röß"));
        assert_eq!(substring("größe", -1, Some(4)), Ok("gr"));
        assert_eq!(substring("größe", 3, None), Ok("öße"));
        assert_eq!(substring("größe", 9, Some(i64::MAX)), Ok(""));
        assert!(substring("größe", 1, Some(-1)).is_err());
        assert_eq!((left("größe", 3), left("größe", -2), left("größe", -9)), ("grö", "grö", ""));
        assert_eq!((right("größe", 2), right("größe", -4), right("größe", 99)), ("ße", "e", "größe"));
    }

    #[test]
    fn an_empty_part_is_found_at_the_beginning_and_never_replaced() {
        assert_eq!((position("ab", ""), position("öb", "b"), position("ab", "c")), (Ok(1), Ok(2), Ok(0)));
        assert_eq!((replace("aa", "", "x"), replace("aba", "a", "x")), ("aa".to_owned(), "xbx".to_owned()));
    }
}
