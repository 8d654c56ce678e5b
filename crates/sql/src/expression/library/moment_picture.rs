//! Pictures of dates and times, as `to_char`, `to_date` and `to_timestamp` read them: `YYYY-MM-DD HH24:MI`.

/// What a part of a picture stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PictureField {
    /// AM or PM; `true`: with periods.
    Noon(bool),
    /// AD or BC; `true`: with periods.
    Era(bool),
    Century,
    /// The name of a weekday; `true`: all of it.
    WeekdayName(bool),
    MonthName(bool),
    RomanMonth,
    DayOfYear,
    IsoDayOfYear,
    Day,
    Weekday,
    IsoWeekday,
    /// So many fractional digits of a second.
    Fraction(u8),
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    /// So many digits of the year.
    Year(u8),
    IsoYear(u8),
    /// With a comma behind the thousands.
    YearWithComma,
    Quarter,
    Month,
    Week,
    IsoWeek,
    WeekOfMonth,
    Julian,
    Milliseconds,
    Microseconds,
    Offset,
    Zone,
    ZoneHour,
    ZoneMinute,
    /// The rest of the picture is to be met exactly.
    Exactly,
}

impl PictureField {
    /// Whether it is written with digits only.
    pub(super) fn is_digits(self) -> bool {
        !matches!(
            self,
            PictureField::Noon(_)
                | PictureField::Era(_)
                | PictureField::WeekdayName(_)
                | PictureField::MonthName(_)
                | PictureField::RomanMonth
                | PictureField::Offset
                | PictureField::Zone
                | PictureField::ZoneHour
                | PictureField::Exactly
        )
    }
}

/// Capitals of names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Letters {
    Upper,
    Lower,
    First,
}

/// A field as it is written in a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct PicturePart {
    pub field: PictureField,
    pub letters: Letters,
    /// Without blanks and zeros that fill up.
    pub is_short: bool,
    /// `th` or, with `true`, `TH` behind it.
    pub ordinal: Option<bool>,
    /// The word, for messages.
    pub word: &'static str,
}

/// One place of a picture.
#[derive(Clone, Debug)]
pub(super) enum MomentElement {
    Part(PicturePart),
    /// `true`: in quotes, or a letter or digit.
    Text(char, bool),
}

/// In capitals. Those that begin with others come first.
const WORDS: &[(&str, PictureField)] = &[
    ("A.D.", PictureField::Era(true)),
    ("A.M.", PictureField::Noon(true)),
    ("AD", PictureField::Era(false)),
    ("AM", PictureField::Noon(false)),
    ("B.C.", PictureField::Era(true)),
    ("BC", PictureField::Era(false)),
    ("CC", PictureField::Century),
    ("DAY", PictureField::WeekdayName(true)),
    ("DDD", PictureField::DayOfYear),
    ("DD", PictureField::Day),
    ("DY", PictureField::WeekdayName(false)),
    ("D", PictureField::Weekday),
    ("FF1", PictureField::Fraction(1)),
    ("FF2", PictureField::Fraction(2)),
    ("FF3", PictureField::Fraction(3)),
    ("FF4", PictureField::Fraction(4)),
    ("FF5", PictureField::Fraction(5)),
    ("FF6", PictureField::Fraction(6)),
    ("FX", PictureField::Exactly),
    ("HH24", PictureField::Hour24),
    ("HH12", PictureField::Hour12),
    ("HH", PictureField::Hour12),
    ("IDDD", PictureField::IsoDayOfYear),
    ("ID", PictureField::IsoWeekday),
    ("IW", PictureField::IsoWeek),
    ("IYYY", PictureField::IsoYear(4)),
    ("IYY", PictureField::IsoYear(3)),
    ("IY", PictureField::IsoYear(2)),
    ("I", PictureField::IsoYear(1)),
    ("J", PictureField::Julian),
    ("MI", PictureField::Minute),
    ("MM", PictureField::Month),
    ("MONTH", PictureField::MonthName(true)),
    ("MON", PictureField::MonthName(false)),
    ("MS", PictureField::Milliseconds),
    ("OF", PictureField::Offset),
    ("P.M.", PictureField::Noon(true)),
    ("PM", PictureField::Noon(false)),
    ("Q", PictureField::Quarter),
    ("RM", PictureField::RomanMonth),
    ("SSSSS", PictureField::SecondOfDay),
    ("SSSS", PictureField::SecondOfDay),
    ("SS", PictureField::Second),
    ("TZH", PictureField::ZoneHour),
    ("TZM", PictureField::ZoneMinute),
    ("TZ", PictureField::Zone),
    ("US", PictureField::Microseconds),
    ("WW", PictureField::Week),
    ("W", PictureField::WeekOfMonth),
    ("Y,YYY", PictureField::YearWithComma),
    ("YYYY", PictureField::Year(4)),
    ("YYY", PictureField::Year(3)),
    ("YY", PictureField::Year(2)),
    ("Y", PictureField::Year(1)),
];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The places of a picture.
pub(super) fn read(picture: &str) -> Vec<MomentElement> {
    let mut places = Vec::new();
    let mut rest = picture;
    while !rest.is_empty() {
        let before = rest;
        let (mut is_short, mut is_translated) = (false, false);
        loop {
            match rest.get(..2).map(str::to_ascii_uppercase).as_deref() {
                Some("FM") => is_short = true,
                Some("TM") => is_translated = true,
                _ => break,
            }
            rest = &rest[2..];
        }
        if let Some((word, field, letters)) = word(rest) {
            rest = &rest[word.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            rest = &rest[if ordinal.is_some() { 2 } else { 0 }..];
            let is_name = matches!(field, PictureField::WeekdayName(_) | PictureField::MonthName(_));
            is_short |= is_translated && is_name;
            places.push(MomentElement::Part(PicturePart { field, letters, is_short, ordinal, word }));
            continue;
        }
        if before.len() > rest.len() && (rest.is_empty() || is_short) {
            // A prefix without a field.
            continue;
        }
        rest = text(rest, &mut places);
    }
    places
}

/// The field that stands first, if any does.
fn word(rest: &str) -> Option<(&'static str, PictureField, Letters)> {
    WORDS.iter().find_map(|&(word, field)| {
        let written = rest.get(..word.len())?;
        let letters = match written {
            upper if upper == word => Letters::Upper,
            lower if lower.to_ascii_uppercase() == word && lower.to_ascii_lowercase() == lower => {
                Letters::Lower
            }
            first
                if matches!(field, PictureField::WeekdayName(_) | PictureField::MonthName(_))
                    && first.eq_ignore_ascii_case(word)
                    && first[1..].to_ascii_lowercase() == first[1..] =>
            {
                Letters::First
            }
            _ => return None,
        };
        Some((word, field, letters))
    })
}

/// Takes a character, or what is in quotes.
fn text<'a>(rest: &'a str, places: &mut Vec<MomentElement>) -> &'a str {
    let mut characters = rest.chars();
    match characters.next() {
        Some('"') => {
            while let Some(character) = characters.next() {
                match character {
                    '"' => break,
                    '\\' => {
                        places.extend(characters.next().map(|escaped| MomentElement::Text(escaped, true)))
                    }
                    other => places.push(MomentElement::Text(other, true)),
                }
            }
        }
        Some('\\') if characters.as_str().starts_with('"') => {
            characters.next();
            places.push(MomentElement::Text('"', true));
        }
        Some(character) => places
            .push(MomentElement::Text(character, character.is_ascii_alphanumeric() || !character.is_ascii())),
        None => {}
    }
    characters.as_str()
}
