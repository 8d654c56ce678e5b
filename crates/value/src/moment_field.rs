//! The fields of a date's or timestamp's text, as PostgreSQL takes it apart (`ParseDateTime`), and the words that it knows.

/// What a field looks like; what it means depends on those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldShape {
    /// Digits, perhaps with a fraction: `2024`, `20240229`, `1.5`
    Number,
    /// Parts with separators: `2024-02-29`, `29-Feb-2024`, `Europe/Berlin`
    Date,
    /// `12:34:56.7`
    Time,
    /// A sign and digits: `+02:00`
    Zone,
    /// Letters
    Word,
    /// A sign and letters: `-infinity`
    SignedWord,
}

/// A field, its letters small.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MomentField {
    pub(crate) kind: FieldShape,
    pub(crate) text: String,
}

/// PostgreSQL's limits for fields, and for the bytes of all of them.
const FIELDS_MAX: usize = 25;
const BYTES_MAX: usize = 128;

/// The fields of a text; `None` if there is something that belongs to none.
pub(crate) fn fields(text: &str) -> Option<Vec<MomentField>> {
    let mut rest = text.as_bytes();
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some(&first) = rest.first() {
        let (kind, length) = match first {
            _ if is_space(first) => (None, 1),
            b'0'..=b'9' => digits(rest),
            b'.' => (Some(FieldShape::Number), 1 + count(&rest[1..], |byte| byte.is_ascii_digit())),
            _ if first.is_ascii_alphabetic() => letters(rest),
            b'+' | b'-' => {
                rest = &rest[1 + count(&rest[1..], is_space)..];
                let (kind, length) = match rest.first()? {
                    b'0'..=b'9' => {
                        (FieldShape::Zone, count(rest, |b| b.is_ascii_digit() || b":.-".contains(&b)))
                    }
                    b if b.is_ascii_alphabetic() => {
                        (FieldShape::SignedWord, count(rest, |b| b.is_ascii_alphabetic()))
                    }
                    _ => return None,
                };
                found.push(field(kind, &[&[first], &rest[..length]].concat()));
                (None, length)
            }
            _ if first.is_ascii_punctuation() => (None, 1),
            _ => return None,
        };
        if let Some(kind) = kind {
            found.push(field(kind, &rest[..length]));
        }
        bytes += length;
        if found.len() > FIELDS_MAX || bytes > BYTES_MAX {
            return None;
        }
        rest = &rest[length..];
    }
    Some(found)
}

fn field(kind: FieldShape, bytes: &[u8]) -> MomentField {
    MomentField { kind, text: String::from_utf8_lossy(bytes).to_ascii_lowercase() }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn count(bytes: &[u8], accepts: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| accepts(byte)).count()
}

/// What begins with a digit, and its length.
fn digits(rest: &[u8]) -> (Option<FieldShape>, usize) {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let mut length = count(rest, is_digit);
    let delimiter = match rest.get(length) {
        Some(b':') => {
            return (Some(FieldShape::Time), count(rest, |byte| is_digit(byte) || b":.".contains(&byte)));
        }
        Some(&delimiter @ (b'-' | b'/' | b'.')) => delimiter,
        _ => return (Some(FieldShape::Number), length),
    };
    length += 1;
    if !rest.get(length).is_some_and(u8::is_ascii_digit) {
        length += count(&rest[length..], |byte| byte.is_ascii_alphanumeric() || byte == delimiter);
        return (Some(FieldShape::Date), length);
    }
    length += count(&rest[length..], is_digit);
    // Only equal delimiters make a date of three parts.
    if rest.get(length) == Some(&delimiter) {
        length += count(&rest[length..], |byte| is_digit(byte) || byte == delimiter);
        return (Some(FieldShape::Date), length);
    }
    (Some(if delimiter == b'.' { FieldShape::Number } else { FieldShape::Date }), length)
}

/// What begins with a letter, and its length: a word, a date that begins with a month, or the name of a zone with signs in it.
fn letters(rest: &[u8]) -> (Option<FieldShape>, usize) {
    let length = count(rest, |byte| byte.is_ascii_alphabetic());
    let goes_on = match rest.get(length) {
        Some(b'-' | b'/' | b'.') => true,
        Some(b'+' | b'0'..=b'9') => {
            word(&String::from_utf8_lossy(&rest[..length]).to_ascii_lowercase()).is_none()
        }
        _ => false,
    };
    if !goes_on {
        return (Some(FieldShape::Word), length);
    }
    let more = count(&rest[length..], |byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
    (Some(FieldShape::Date), length + more)
}

/// What a number is of that stands behind a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartLabel {
    Year,
    /// Or the minute, behind a month and an hour.
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// What a word means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// `now`
    Now,
    /// `today`, or so many days later.
    Day(i64),
    Epoch,
    /// Whether it is the positive one.
    Infinity(bool),
    /// `allballs`, midnight in universal time
    Midnight,
    Month(i32),
    Weekday,
    /// Whether it is the second half of the day.
    Half(bool),
    /// Whether it is before Christ.
    Era(bool),
    /// A Julian day follows.
    Julian,
    /// A part of a date or time follows, of which this is the label: `y2001m02d04`.
    Label(PartLabel),
    /// Another unit, which nothing can follow.
    Unit,
    /// A time follows: the `T` of ISO 8601.
    Time,
    /// `dst`: an hour more.
    DaylightSaving,
    Ignored,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 18] = [
    "sun",
    "sunday",
    "mon",
    "monday",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "wednesday",
    "weds",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "fri",
    "friday",
    "sat",
    "saturday",
];

/// The word of that name, of which ten letters count.
pub(crate) fn word(name: &str) -> Option<Word> {
    let name = &name[..name.floor_char_boundary(10)];
    if let Some(month) = MONTHS.iter().position(|month| name == &month[..3] || name == *month) {
        return Some(Word::Month(month as i32 + 1));
    }
    if WEEKDAYS.contains(&name) {
        return Some(Word::Weekday);
    }
    Some(match name {
        "sept" => Word::Month(9),
        "now" => Word::Now,
        "yesterday" => Word::Day(-1),
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity(true),
        "-infinity" => Word::Infinity(false),
        "allballs" => Word::Midnight,
        "am" => Word::Half(false),
        "pm" => Word::Half(true),
        "ad" => Word::Era(false),
        "bc" => Word::Era(true),
        "j" | "jd" | "julian" => Word::Julian,
        "y" => Word::Label(PartLabel::Year),
        "m" => Word::Label(PartLabel::Month),
        "d" => Word::Label(PartLabel::Day),
        "h" => Word::Label(PartLabel::Hour),
        "mm" => Word::Label(PartLabel::Minute),
        "s" => Word::Label(PartLabel::Second),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit,
        "t" => Word::Time,
        "dst" => Word::DaylightSaving,
        "at" | "on" => Word::Ignored,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_by_what_stands_between() {
        use FieldShape::*;
        let read = |text: &str| {
            let fields = fields(text)?;
            Some(fields.into_iter().map(|field| (field.kind, field.text)).collect::<Vec<_>>())
        };
        let expected = |parts: &[(FieldShape, &str)]| {
            Some(parts.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect::<Vec<_>>())
        };
        for (text, parts) in [
            (
                "2024-02-29 12:34:56.7+02:30",
                &[(Date, "2024-02-29"), (Time, "12:34:56.7"), (Zone, "+02:30")][..],
            ),
            ("Jan 2, 2024", &[(Word, "jan"), (Number, "2"), (Number, "2024")]),
            ("2-JAN-2024", &[(Date, "2-jan-2024")]),
            ("20240229T123456Z", &[(Number, "20240229"), (Word, "t"), (Number, "123456"), (Word, "z")]),
            ("- Infinity", &[(SignedWord, "-infinity")]),
            ("1.2.2024", &[(Date, "1.2.2024")]),
            ("1.5", &[(Number, "1.5")]),
            ("12:00 America/New_York", &[(Time, "12:00"), (Date, "america/new_york")]),
            ("utc+3 t12", &[(Date, "utc+3"), (Word, "t"), (Number, "12")]),
        ] {
            assert_eq!(read(text), expected(parts), "{text}");
        }
        assert_eq!(read("+ ,"), None);
        assert_eq!(read("é"), None);
        assert_eq!(fields(&"1 ".repeat(26)), None);
        assert_eq!(fields(&"1".repeat(200)), None);
    }
}
