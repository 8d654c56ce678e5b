//! Texts of dates and timestamps, read as PostgreSQL reads them (`DecodeDateTime`).
//!
//! Fields are read from left to right. What a number means follows from the parts that are known by then, and where nothing is
//! known from the session's order of days, months and years. So `2024-02-29`, `Feb 29 2024`, `29.2.2024`, `J2460370` and
//! `20240229T1200 Europe/Berlin` are all read here; parts may come in many orders, and none twice.

use crate::calendar::{
    FIRST_DAY, LAST_DAY, MICROSECONDS_PER_DAY, civil_from_days, days_from_civil, days_in_month,
};
use crate::date_style::{DateOrder, DateStyle};
use crate::moment_field::{FieldShape, MomentField, PartLabel, Word, fields, word};
use crate::present::present;
use crate::zone::Zone;
use ankerdb_base::{Error, SqlState};

const SECOND: i64 = 1_000_000;
/// Day zero of the Julian day count.
const JULIAN_EPOCH: i64 = FIRST_DAY;

const YEAR: u32 = 1;
const MONTH: u32 = 1 << 1;
const DAY: u32 = 1 << 2;
const DATE: u32 = YEAR | MONTH | DAY;
const TIME: u32 = 1 << 3;
const ZONE: u32 = 1 << 4;
const DAYLIGHT: u32 = 1 << 5;
const DAY_OF_YEAR: u32 = 1 << 6;
const HALF: u32 = 1 << 7;
const ERA: u32 = 1 << 8;
const WEEKDAY: u32 = 1 << 9;
const HOUR: u32 = 1 << 10;
const MINUTE: u32 = 1 << 11;
const SECONDS: u32 = 1 << 12;

/// Why a text is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    Malformed,
    OutOfRange,
    /// A month or day that there is not, which may have been meant for another part.
    Order,
    /// An offset from universal time that is too large.
    Displacement,
    NoSuchZone(String),
    Present(String),
}

impl Refusal {
    /// The error for a text of that type.
    pub(crate) fn error(self, text: &str, type_name: &str) -> Error {
        let out_of_range =
            |state| Error::new(state, format!("date/time field value out of range: \"{text}\""));
        match self {
            Refusal::Malformed => Error::new(
                SqlState::InvalidDatetimeFormat,
                format!("invalid input syntax for type {type_name}: \"{text}\""),
            ),
            Refusal::OutOfRange => out_of_range(SqlState::DatetimeFieldOverflow),
            Refusal::Order => out_of_range(SqlState::DatetimeFieldOverflow)
                .with_hint("Perhaps you need a different \"datestyle\" setting."),
            Refusal::Displacement => Error::new(
                SqlState::InvalidTimeZoneDisplacement,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Refusal::NoSuchZone(name) => {
                Error::new(SqlState::InvalidParameterValue, format!("time zone \"{name}\" not recognized"))
            }
            Refusal::Present(word) => Error::new(
                SqlState::FeatureNotSupported,
                format!("{type_name} value \"{word}\" is not supported"),
            ),
        }
    }
}

type Read<T> = std::result::Result<T, Refusal>;

/// What a text says.
#[derive(Debug, PartialEq)]
pub(crate) enum Moment {
    /// After or before all others.
    Infinite { positive: bool },
    /// A day, microseconds of it (24:00:00 is allowed) and the zone in which clocks show that, if it is told.
    Finite { days: i64, time: i64, zone: Option<Zone> },
}

/// What is expected before a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prefix {
    None,
    Julian,
    Time,
    Label(PartLabel),
    Other,
}

struct Reader {
    order: DateOrder,
    /// Parts that are known.
    known: u32,
    prefix: Prefix,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    time: i64,
    zone: Option<Zone>,
    has_daylight: bool,
    has_named_month: bool,
    is_short_year: bool,
    is_whole_day: bool,
    before_christ: bool,
    /// Whether it is the second half of the day.
    half: Option<bool>,
}

/// Reads a text.
pub(crate) fn read(text: &str) -> Read<Moment> {
    match plain(text.as_bytes()) {
        Some(moment) => Ok(moment),
        None => read_fields(text),
    }
}

/// A number of so many digits.
fn number_of(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

/// The form in which most moments come, `2024-02-29[ 12:34:56[.789][+01[:30]]]`, without an allocation; `None` for all others.
fn plain(text: &[u8]) -> Option<Moment> {
    let (&[a, b, c, d, b'-', e, f, b'-', g, h], rest) = text.split_first_chunk()? else { return None };
    let (year, month, day) = (number_of(&[a, b, c, d])?, number_of(&[e, f])?, number_of(&[g, h])?);
    if year == 0
        || !(1..=12).contains(&month)
        || !(1..=i64::from(days_in_month(year, month as u32))).contains(&day)
    {
        return None;
    }
    let days = days_from_civil(year, month as u32, day as u32);
    if rest.is_empty() {
        return Some(Moment::Finite { days, time: 0, zone: None });
    }
    let (&[b' ' | b'T', a, b, b':', c, d, b':', e, f], rest) = rest.split_first_chunk()? else { return None };
    let (hour, minute, second) = (number_of(&[a, b])?, number_of(&[c, d])?, number_of(&[e, f])?);
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', rest)) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let unit = 10i64.checked_pow(6u32.checked_sub(digits as u32)?)?;
            (number_of(&rest[..digits])? * unit, &rest[digits..])
        }
        _ => (0, rest),
    };
    let zone = match *rest {
        [] => None,
        [b'Z'] => Some(Zone::Utc),
        [sign @ (b'+' | b'-'), ref offset @ ..] => {
            let (hours, minutes) = match *offset {
                [a, b] => (number_of(&[a, b])?, 0),
                [a, b, b':', c, d] => (number_of(&[a, b])?, number_of(&[c, d])?),
                _ => return None,
            };
            let east = (hours * 3600 + minutes * 60) * SECOND;
            (hours <= 15 && minutes <= 59).then_some(())?;
            Some(Zone::East(if sign == b'-' { -east } else { east }))
        }
        _ => return None,
    };
    let time = (hour * 3600 + minute * 60 + second) * SECOND + fraction;
    (hour <= 23 && minute <= 59 && second <= 59).then_some(Moment::Finite { days, time, zone })
}

fn read_fields(text: &str) -> Read<Moment> {
    let fields = fields(text).ok_or(Refusal::Malformed)?;
    let mut reader = Reader::new();
    for (position, field) in fields.iter().enumerate() {
        let next = fields.get(position + 1).map(|field| field.kind);
        let parts = match field.kind {
            FieldShape::Date => reader.date_or_zone(&field.text)?,
            FieldShape::Time => reader.clock(&field.text)?,
            FieldShape::Zone => reader.offset(&field.text)?,
            FieldShape::Number => reader.number_field(&field.text)?,
            FieldShape::Word | FieldShape::SignedWord => match word(&field.text) {
                // A moment by itself, or beside nothing that matters.
                Some(Word::Infinity(positive)) => return lone(&fields, Moment::Infinite { positive }),
                Some(Word::Epoch) => {
                    return lone(&fields, Moment::Finite { days: 0, time: 0, zone: Some(Zone::Utc) });
                }
                known => reader.word(known, &field.text, next)?,
            },
        };
        if parts & reader.known != 0 {
            return Err(Refusal::Malformed);
        }
        reader.known |= parts;
    }
    reader.finish()
}

/// A moment that a word stands for; other parts of the same kind are refused.
fn lone(fields: &[MomentField], moment: Moment) -> Read<Moment> {
    let is_nothing = |field: &MomentField| {
        matches!(
            word(&field.text),
            Some(
                Word::Ignored
                    | Word::Weekday
                    | Word::Era(_)
                    | Word::Half(_)
                    | Word::Infinity(_)
                    | Word::Epoch
            )
        )
    };
    let moments =
        fields.iter().filter(|field| matches!(word(&field.text), Some(Word::Infinity(_) | Word::Epoch)));
    match fields.iter().all(is_nothing) && moments.count() == 1 {
        true => Ok(moment),
        false => Err(Refusal::Malformed),
    }
}

impl Reader {
    fn new() -> Reader {
        Reader {
            order: DateStyle::current().order,
            known: 0,
            prefix: Prefix::None,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            time: 0,
            zone: None,
            has_daylight: false,
            has_named_month: false,
            is_short_year: false,
            is_whole_day: false,
            before_christ: false,
            half: None,
        }
    }

    /// A date, or behind one a zone's name or a time with a zone.
    fn date_or_zone(&mut self, text: &str) -> Read<u32> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if self.prefix == Prefix::Julian {
            self.julian_day(whole(&text[..digits])?)?;
            self.prefix = Prefix::None;
            self.offset(&text[digits..])?;
            return Ok(DATE | TIME | ZONE);
        }
        if self.prefix == Prefix::None && self.known & (MONTH | DAY) != MONTH | DAY {
            return self.date(text);
        }
        if digits == 0 && self.prefix == Prefix::None {
            let zone = Zone::named(text).ok_or_else(|| Refusal::NoSuchZone(text.to_owned()))?;
            self.zone = Some(zone);
            return Ok(ZONE);
        }
        if !matches!(self.prefix, Prefix::None | Prefix::Time) || self.known & TIME != 0 {
            return Err(Refusal::Malformed);
        }
        self.prefix = Prefix::None;
        let (time, zone) = text.split_at(text.find('-').ok_or(Refusal::Malformed)?);
        self.offset(zone)?;
        Ok(self.together(time, self.known)? | ZONE)
    }

    /// A date of parts with separators.
    fn date(&mut self, text: &str) -> Read<u32> {
        let mut parts = Vec::new();
        let mut rest = text.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        while !rest.is_empty() {
            let is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
            let ends = |c: char| if is_digit { !c.is_ascii_digit() } else { !c.is_ascii_alphabetic() };
            let (part, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            parts.push((is_digit, part));
            // What stands between is left out; there must be something behind it.
            rest = behind.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let separators = behind.len() - rest.len();
            if separators > 1 && rest.is_empty() || parts.len() > 25 {
                return Err(Refusal::Malformed);
            }
        }
        let mut found = 0;
        let before = self.known;
        let note = |reader: &mut Reader, found: &mut u32, part: u32| {
            let is_known = reader.known & part != 0;
            (reader.known, *found) = (reader.known | part, *found | part);
            if is_known { Err(Refusal::Malformed) } else { Ok(()) }
        };
        for (_, name) in parts.iter().filter(|(is_digit, _)| !is_digit) {
            match word(name) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) => {
                    self.month = i64::from(month);
                    self.has_named_month = true;
                    note(self, &mut found, MONTH)?;
                }
                _ => return Err(Refusal::Malformed),
            }
        }
        for (_, digits) in parts.iter().filter(|(is_digit, _)| *is_digit) {
            let part = self.number(digits)?;
            note(self, &mut found, part)?;
        }
        let is_whole = self.known & !(DAY_OF_YEAR | ZONE) == DATE;
        self.known = before;
        if is_whole { Ok(found) } else { Err(Refusal::Malformed) }
    }

    /// `hours:minutes[:seconds[.fraction]]`, or minutes and seconds with a fraction.
    fn clock(&mut self, text: &str) -> Read<u32> {
        match self.prefix {
            Prefix::None | Prefix::Time => self.prefix = Prefix::None,
            _ => return Err(Refusal::Malformed),
        }
        let (clock, fraction) = match text.split_once('.') {
            Some((clock, digits)) => (clock, Some(fraction(digits)?)),
            None => (text, None),
        };
        // What has no digits behind the hour is none.
        let part = |(place, digits): (usize, &str)| match digits {
            "" if place > 0 => Ok(0),
            digits => whole(digits),
        };
        let numbers = clock.split(':').enumerate().map(part).collect::<Read<Vec<_>>>()?;
        let (hour, minute, second) = match numbers.as_slice() {
            [minute, second] if fraction.is_some() => (0, *minute, *second),
            [hour, minute] => (*hour, *minute, 0),
            [hour, minute, second] => (*hour, *minute, *second),
            _ => return Err(Refusal::Malformed),
        };
        self.set_time(hour, minute, second, fraction.unwrap_or(0))?;
        Ok(TIME)
    }

    /// Second 60 stands for the next minute, and 24:00:00 for the next day.
    fn set_time(&mut self, hour: i64, minute: i64, second: i64, fraction: i64) -> Read<()> {
        self.time = (hour * 3600 + minute * 60 + second) * SECOND + fraction;
        let exists = hour <= 24 && minute <= 59 && second <= 60 && self.time <= MICROSECONDS_PER_DAY;
        if exists { Ok(()) } else { Err(Refusal::OutOfRange) }
    }

    /// `+hours[:minutes[:seconds]]` or `+hhmm`.
    fn offset(&mut self, text: &str) -> Read<u32> {
        let digits = text.strip_prefix(['+', '-']).ok_or(Refusal::Malformed)?;
        let number = |digits: &str| match whole(digits) {
            Err(Refusal::OutOfRange) => Err(Refusal::Displacement),
            other => other,
        };
        let numbers = digits.split(':').map(number).collect::<Read<Vec<_>>>()?;
        let (hour, minute, second) = match numbers.as_slice() {
            [together] if digits.len() > 2 => (together / 100, together % 100, 0),
            [hour] => (*hour, 0, 0),
            [hour, minute] => (*hour, *minute, 0),
            [hour, minute, second] => (*hour, *minute, *second),
            _ => return Err(Refusal::Malformed),
        };
        if hour > 15 || minute > 59 || second > 59 {
            return Err(Refusal::Displacement);
        }
        let east = (hour * 3600 + minute * 60 + second) * SECOND;
        self.zone = Some(Zone::East(if text.starts_with('-') { -east } else { east }));
        Ok(ZONE)
    }

    /// Digits that are a field by themselves.
    fn number_field(&mut self, text: &str) -> Read<u32> {
        let (digits, decimals) =
            text.split_once('.').map_or((text, None), |(digits, rest)| (digits, Some(rest)));
        match std::mem::replace(&mut self.prefix, Prefix::None) {
            Prefix::None => {}
            Prefix::Julian => {
                self.julian_day(whole(digits)?)?;
                let Some(decimals) = decimals else { return Ok(DATE) };
                self.time = fraction_of(decimals, MICROSECONDS_PER_DAY)?;
                return Ok(DATE | TIME);
            }
            Prefix::Time => return self.together(text, self.known | DATE),
            Prefix::Label(label) => return self.labelled(label, digits, decimals),
            Prefix::Other => return Err(Refusal::Malformed),
        }
        let has_date = self.known & DATE != 0;
        match decimals {
            Some(_) if !has_date => self.date(text),
            Some(_) if digits.len() > 2 => self.together(text, self.known),
            _ if text.len() >= 6 && (!has_date || self.known & TIME == 0) => self.together(text, self.known),
            _ => self.number(text),
        }
    }

    /// A number behind its label. Parts of the time are added up, however large they are.
    fn labelled(&mut self, label: PartLabel, digits: &str, decimals: Option<&str>) -> Read<u32> {
        let value = whole(digits)?;
        if decimals.is_some() && label != PartLabel::Second || self.known & TIME != 0 {
            return Err(Refusal::Malformed);
        }
        let label = match label {
            PartLabel::Month if self.known & (MONTH | HOUR) == MONTH | HOUR => PartLabel::Minute,
            other => other,
        };
        let (part, unit) = match label {
            PartLabel::Year => (YEAR, 0),
            PartLabel::Month => (MONTH, 0),
            PartLabel::Day => (DAY, 0),
            PartLabel::Hour => (HOUR, 3600),
            PartLabel::Minute => (MINUTE, 60),
            PartLabel::Second => (SECONDS, 1),
        };
        match part {
            YEAR => self.year = value,
            MONTH => self.month = value,
            DAY => self.day = value,
            _ => self.time += value * unit * SECOND + decimals.map_or(Ok(0), fraction)?,
        }
        Ok(part)
    }

    fn julian_day(&mut self, day: i64) -> Read<()> {
        self.set_day(JULIAN_EPOCH + day);
        Ok(())
    }

    /// A day that is known as a whole, and so its year.
    fn set_day(&mut self, days: i64) {
        let (year, month, day) = civil_from_days(days);
        (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        self.is_whole_day = true;
    }

    /// A number whose meaning follows from what is known.
    fn number(&mut self, text: &str) -> Read<u32> {
        let (digits, decimals) =
            text.split_once('.').map_or((text, None), |(digits, rest)| (digits, Some(rest)));
        let value = whole(digits)?;
        if let Some(decimals) = decimals {
            if digits.len() > 2 {
                return self.together(text, self.known | DATE);
            }
            fraction(decimals)?;
        }
        let length = text.len();
        if length == 3 && self.known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let is_year = length >= 3 || self.order == DateOrder::Ymd;
        let part = match self.known & DATE {
            0 if is_year => YEAR,
            0 if self.order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR | DAY => MONTH,
            MONTH if self.has_named_month && is_year => YEAR,
            MONTH => DAY,
            found if found == YEAR | MONTH => {
                if self.has_named_month && length >= 3 && self.is_short_year {
                    // The first number was the day.
                    (self.day, self.year, self.is_short_year) = (self.year, value, false);
                    return Ok(DAY);
                }
                DAY
            }
            found if found == MONTH | DAY => YEAR,
            DATE => return self.together(text, self.known),
            _ => return Err(Refusal::Malformed),
        };
        match part {
            YEAR => (self.year, self.is_short_year) = (value, length <= 2),
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(part)
    }

    /// Digits that are written together: a date where none is known, else a time.
    fn together(&mut self, text: &str, known: u32) -> Read<u32> {
        let (digits, decimals) =
            text.split_once('.').map_or((text, None), |(digits, rest)| (digits, Some(rest)));
        let two = |from_end: usize| whole(&digits[digits.len() - from_end..digits.len() - from_end + 2]);
        if decimals.is_none() && known & DATE != DATE && digits.len() >= 6 {
            (self.day, self.month) = (two(2)?, two(4)?);
            self.year = whole(&digits[..digits.len() - 4])?;
            self.is_short_year |= digits.len() == 6;
            return Ok(DATE);
        }
        let fraction = decimals.map_or(Ok(0), fraction)?;
        match digits.len() {
            _ if known & TIME != 0 => Err(Refusal::Malformed),
            6 => self.set_time(two(6)?, two(4)?, two(2)?, fraction).map(|()| TIME),
            4 => self.set_time(two(4)?, two(2)?, 0, fraction).map(|()| TIME),
            _ => Err(Refusal::Malformed),
        }
    }

    /// A word; `next` is what follows it.
    fn word(&mut self, known: Option<Word>, name: &str, next: Option<FieldShape>) -> Read<u32> {
        Ok(match known {
            Some(Word::Ignored) => 0,
            Some(Word::Midnight) => {
                (self.time, self.zone) = (0, Some(Zone::Utc));
                TIME | ZONE
            }
            Some(Word::Month(month)) => {
                // A number before it was not the month, but the day.
                let swaps = self.known & (MONTH | DAY) == MONTH && !self.has_named_month;
                let is_swapped = swaps && (1..=31).contains(&self.month);
                if is_swapped {
                    self.day = self.month;
                }
                (self.month, self.has_named_month) = (i64::from(month), true);
                if is_swapped { DAY } else { MONTH }
            }
            Some(Word::Weekday) => WEEKDAY,
            Some(Word::Half(is_second)) => {
                self.half = Some(is_second);
                HALF
            }
            Some(Word::Era(before_christ)) => {
                self.before_christ = before_christ;
                ERA
            }
            Some(Word::Julian | Word::Unit | Word::Label(_)) if self.prefix != Prefix::None => {
                return Err(Refusal::Malformed);
            }
            Some(Word::Julian) => {
                self.prefix = Prefix::Julian;
                0
            }
            Some(Word::Label(label)) => {
                self.prefix = Prefix::Label(label);
                0
            }
            Some(Word::Unit) => {
                self.prefix = Prefix::Other;
                0
            }
            Some(Word::Time) => {
                if self.known & DATE != DATE
                    || !matches!(next, Some(FieldShape::Number | FieldShape::Time | FieldShape::Date))
                {
                    return Err(Refusal::Malformed);
                }
                self.prefix = Prefix::Time;
                0
            }
            Some(Word::DaylightSaving) => {
                self.has_daylight = true;
                DAYLIGHT
            }
            Some(Word::Now) => self.present(name, None)?,
            Some(Word::Day(later)) => self.present(name, Some(later))?,
            // Read where they are the whole text.
            Some(Word::Epoch | Word::Infinity(_)) => return Err(Refusal::Malformed),
            None => {
                self.zone = Some(Zone::named(name).ok_or(Refusal::Malformed)?);
                ZONE
            }
        })
    }

    /// The present moment, or the day so many days later.
    fn present(&mut self, name: &str, later: Option<i64>) -> Read<u32> {
        let (local, east) = local_present(name)?;
        self.set_day(local.div_euclid(MICROSECONDS_PER_DAY) + later.unwrap_or(0));
        if later.is_some() {
            return Ok(DATE);
        }
        (self.time, self.zone) = (local.rem_euclid(MICROSECONDS_PER_DAY), Some(Zone::East(east)));
        Ok(DATE | TIME | ZONE)
    }

    /// Checks what was read when all of it is known.
    fn finish(mut self) -> Read<Moment> {
        self.finish_year()?;
        if self.known & DAY_OF_YEAR != 0 {
            let day = days_from_civil(self.year, 1, 1) + self.day_of_year - 1;
            let (year, month, day) = civil_from_days(day);
            (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        }
        let is_outside = |part, number: i64, last| self.known & part != 0 && !(1..=last).contains(&number);
        if is_outside(MONTH, self.month, 12) || is_outside(DAY, self.day, 31) {
            return Err(Refusal::Order);
        }
        let month = self.month as u32;
        if self.known & DATE == DATE && self.day > i64::from(days_in_month(self.year, month)) {
            return Err(Refusal::OutOfRange);
        }
        if let Some(is_second) = self.half {
            let hour = 3600 * SECOND;
            match self.time / hour {
                13.. => return Err(Refusal::OutOfRange),
                12 if !is_second => self.time -= 12 * hour,
                0..12 if is_second => self.time += 12 * hour,
                _ => {}
            }
        }
        if self.known & DATE != DATE {
            return Err(Refusal::Malformed);
        }
        let zone = match (self.has_daylight, self.zone) {
            (true, Some(Zone::East(east))) => Some(Zone::East(east + 3600 * SECOND)),
            (true, Some(Zone::Utc)) => Some(Zone::East(3600 * SECOND)),
            (true, _) => return Err(Refusal::Malformed),
            (false, zone) => zone,
        };
        let days = days_from_civil(self.year, month, self.day as u32);
        Ok(Moment::Finite { days, time: self.time, zone })
    }

    fn finish_year(&mut self) -> Read<()> {
        if self.known & YEAR == 0 || self.is_whole_day {
            return Ok(());
        }
        match self.year {
            year if self.is_short_year && !self.before_christ => {
                self.year = if year < 70 {
                    year + 2000
                } else if year < 100 {
                    year + 1900
                } else {
                    year
                };
            }
            ..=0 => return Err(Refusal::OutOfRange),
            year if self.before_christ => self.year = 1 - year,
            _ => {}
        }
        Ok(())
    }
}

/// What clocks of the thread's zone show at the moment that a word goes by, and how far east of Greenwich they are.
pub(crate) fn local_present(word: &str) -> Read<(i64, i64)> {
    let moment = present().ok_or_else(|| Refusal::Present(word.to_owned()))?;
    let east = Zone::current().east(moment).map_err(|_| Refusal::OutOfRange)?;
    Ok((moment + east, east))
}

/// A number of 32 bits.
fn whole(digits: &str) -> Read<i64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Malformed);
    }
    digits.parse::<i32>().map(i64::from).map_err(|_| Refusal::OutOfRange)
}

/// Digits behind a point as microseconds, rounded as PostgreSQL rounds them: as a double, to even.
fn fraction(digits: &str) -> Read<i64> {
    fraction_of(digits, SECOND)
}

fn fraction_of(digits: &str, whole: i64) -> Read<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Malformed);
    }
    let fraction: f64 = format!("0.{digits}0").parse().map_err(|_| Refusal::Malformed)?;
    Ok((fraction * whole as f64).round_ties_even() as i64)
}

/// Whether there is such a day.
pub(crate) fn is_day(days: i64) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days)
}

#[cfg(test)]
#[path = "moment_text_tests.rs"]
mod tests;
