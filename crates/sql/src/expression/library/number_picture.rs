//! Pictures of numbers, as `to_char` and `to_number` read them: `9,990.99`.
//!
//! A picture is a list of places. Digits stand in *slots*; slots before the point are counted from the left, so that the
//! number's integer digits take the last of them, and blanks or zeros the ones before. The sign stands before the first
//! slot that shows something, unless the picture has a place of its own for it.

use ankerdb_engine::{Error, Result, SqlState};

/// One part of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NumberElement {
    /// A digit; `true`: zeros show.
    Slot(bool),
    Point,
    /// Between groups of digits.
    Group,
    /// The sign at a place of its own.
    Sign,
    Minus,
    Plus,
    PlusOrMinus,
    Currency,
    /// `th` or `TH`; `true`: in capitals.
    Ordinal(bool),
    /// `true`: in capitals.
    Roman(bool),
    Text(String),
}

/// A picture that was read.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberPicture {
    pub places: Vec<NumberElement>,
    /// Slots before and behind the point.
    pub before: usize,
    pub behind: usize,
    /// The first slot before the point that shows zeros.
    pub first_zero: Option<usize>,
    /// Slots up to and with the last that shows zeros.
    pub last_zero: usize,
    pub has_point: bool,
    /// Blanks are left out.
    pub fills: bool,
    pub brackets: bool,
    pub exponent: bool,
    /// Digits behind `V`.
    pub shifted: Option<usize>,
    pub roman: bool,
}

/// What a picture is made of. Longer ones come before those that they begin with.
const WORDS: &[&str] = &[
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "B", "C", "D", "G", "L", "S", "V", ",", ".", "0",
    "9",
];

fn refused(message: impl Into<String>) -> Error {
    Error::new(SqlState::SyntaxError, message.into())
}

impl NumberPicture {
    /// # Errors
    /// 42601 for places that exclude each other.
    pub(super) fn read(text: &str) -> Result<NumberPicture> {
        let mut picture = NumberPicture::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let word = WORDS
                .iter()
                .find(|word| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
            match word {
                // A small ordinal differs from a large one; other words do not.
                Some(word) => {
                    picture.word(word, &rest[..word.len()])?;
                    rest = &rest[word.len()..];
                }
                None if first == '"' => rest = picture.quoted(&rest[1..]),
                None => {
                    let skipped = if first == '\\' && rest[1..].starts_with('"') { 1 } else { 0 };
                    let shown = rest[skipped..].chars().next().unwrap_or(first);
                    picture.literal(shown);
                    rest = &rest[skipped + shown.len_utf8()..];
                }
            }
        }
        Ok(picture)
    }

    fn literal(&mut self, character: char) {
        match self.places.last_mut() {
            Some(NumberElement::Text(text)) => text.push(character),
            _ => self.places.push(NumberElement::Text(character.to_string())),
        }
    }

    /// Text up to a quote; what stands behind that.
    fn quoted<'a>(&mut self, rest: &'a str) -> &'a str {
        let mut characters = rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => return &rest[at + 1..],
                '\\' => {
                    if let Some((_, escaped)) = characters.next() {
                        self.literal(escaped);
                    }
                }
                other => self.literal(other),
            }
        }
        ""
    }

    fn word(&mut self, word: &str, written: &str) -> Result<()> {
        if self.exponent && word != "EEEE" {
            return Err(refused("\"EEEE\" must be the last pattern used"));
        }
        let has_sign = |places: &[NumberElement]| {
            places.iter().any(|place| {
                matches!(place, NumberElement::Minus | NumberElement::Plus | NumberElement::PlusOrMinus)
            })
        };
        match word {
            "9" | "0" if self.brackets => return Err(refused("\"9\" must be ahead of \"PR\"")),
            "9" | "0" => self.slot(word == "0"),
            "." | "D" => self.point()?,
            "," | "G" => self.places.push(NumberElement::Group),
            "S" => {
                if self.places.contains(&NumberElement::Sign) {
                    return Err(refused("cannot use \"S\" twice"));
                }
                if has_sign(&self.places) || self.brackets {
                    return Err(refused("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.places.push(NumberElement::Sign);
            }
            "MI" | "PL" | "SG" => {
                if self.places.contains(&NumberElement::Sign) {
                    return Err(refused(format!("cannot use \"S\" and \"{word}\" together")));
                }
                self.places.push(match word {
                    "MI" => NumberElement::Minus,
                    "PL" => NumberElement::Plus,
                    _ => NumberElement::PlusOrMinus,
                });
            }
            "PR" => {
                if self.places.contains(&NumberElement::Sign) || has_sign(&self.places) {
                    return Err(refused("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.brackets = true;
            }
            "EEEE" => {
                let excludes = self.fills || self.shifted.is_some() || self.roman || self.brackets;
                if excludes || self.places.contains(&NumberElement::Sign) || has_sign(&self.places) {
                    return Err(refused("\"EEEE\" is incompatible with other formats"));
                }
                self.exponent = true;
            }
            "V" if self.has_point => return Err(refused("cannot use \"V\" and decimal point together")),
            "V" => self.shifted = Some(self.shifted.unwrap_or(0)),
            "FM" => self.fills = true,
            "L" => self.places.push(NumberElement::Currency),
            "TH" => self.places.push(NumberElement::Ordinal(written.starts_with('T'))),
            "RN" => {
                self.roman = true;
                self.places.push(NumberElement::Roman(written.starts_with('R')));
            }
            // What PostgreSQL knows and does not do.
            _ => {}
        }
        Ok(())
    }

    fn slot(&mut self, is_zero: bool) {
        if let Some(shifted) = &mut self.shifted {
            *shifted += 1;
        }
        if is_zero && !self.has_point {
            self.first_zero.get_or_insert(self.before);
        }
        match self.has_point {
            true => self.behind += 1,
            false => self.before += 1,
        }
        if is_zero {
            self.last_zero = self.before + self.behind;
        }
        self.places.push(NumberElement::Slot(is_zero));
    }

    fn point(&mut self) -> Result<()> {
        if self.has_point {
            return Err(refused("multiple decimal points"));
        }
        if self.shifted.is_some() {
            return Err(refused("cannot use \"V\" and decimal point together"));
        }
        self.has_point = true;
        self.places.push(NumberElement::Point);
        Ok(())
    }
}

/// A number as digits.
pub(super) struct Digits {
    pub is_negative: bool,
    /// At least one character; not only digits, where the number does not fit.
    pub before: String,
    pub behind: String,
    /// How many digits could be behind the point.
    pub room: usize,
}

/// The number as the picture shows it.
pub(super) fn painted(picture: &NumberPicture, digits: &Digits) -> String {
    Painter {
        picture,
        digits,
        out: String::new(),
        slot: 0,
        has_digits: false,
        is_signed: picture
            .places
            .iter()
            .any(|place| matches!(place, NumberElement::Minus | NumberElement::PlusOrMinus)),
    }
    .paint()
}

struct Painter<'a> {
    picture: &'a NumberPicture,
    digits: &'a Digits,
    out: String,
    /// The slot that comes next.
    slot: usize,
    /// Whether the last slot showed something.
    has_digits: bool,
    /// Whether the sign is written or has a place of its own.
    is_signed: bool,
}

impl Painter<'_> {
    fn blank(&mut self) {
        if !self.picture.fills {
            self.out.push(' ');
        }
    }

    /// Slots before the number's first digit.
    fn unused(&self) -> usize {
        self.picture.before.saturating_sub(self.digits.before.chars().count())
    }

    /// Fractional digits that show: without zeros at the end, if blanks are left out.
    fn relevant(&self) -> usize {
        match self.picture.fills {
            true => {
                let own = self.digits.behind.trim_end_matches('0').len();
                own.max(self.picture.last_zero.saturating_sub(self.picture.before))
            }
            false => self.digits.behind.len(),
        }
    }

    /// Whether the zero before the point is left out.
    fn omits_zero(&self) -> bool {
        self.picture.first_zero.is_none() && self.digits.before == "0" && self.picture.behind > 0
    }

    fn sign_place(&self) -> Option<usize> {
        self.picture.places.iter().position(|place| *place == NumberElement::Sign)
    }

    /// Whether the sign stands behind the digits.
    fn is_sign_last(&self) -> bool {
        let is_digit = |place: &NumberElement| matches!(place, NumberElement::Slot(_) | NumberElement::Point);
        self.sign_place().is_some_and(|at| {
            self.picture.places[..at].iter().filter(|place| is_digit(place)).count()
                == self.picture.places.iter().filter(|place| is_digit(place)).count()
        })
    }

    fn sign(&mut self) {
        if std::mem::replace(&mut self.is_signed, true) {
            return;
        }
        let is_negative = self.digits.is_negative;
        match (self.sign_place(), self.picture.brackets) {
            (Some(_), _) if self.is_sign_last() => {}
            (Some(_), _) => self.out.push(if is_negative { '-' } else { '+' }),
            (None, true) if is_negative => self.out.push('<'),
            (None, true) => self.blank(),
            (None, false) if is_negative => self.out.push('-'),
            (None, false) => self.blank(),
        }
    }

    fn paint(mut self) -> String {
        let slots = self.picture.before + self.picture.behind;
        for place in &self.picture.places {
            match place {
                NumberElement::Slot(is_zero) => {
                    if self.slot < self.picture.before {
                        self.slot_before();
                    } else {
                        self.slot_behind(*is_zero);
                    }
                    self.slot += 1;
                    if self.slot == slots {
                        self.last_slot();
                    }
                }
                NumberElement::Point => {
                    // A float may have all of its digits before the point.
                    let is_shown = !self.digits.behind.is_empty() || self.digits.before.starts_with('#');
                    if self.picture.behind > 0 && is_shown {
                        self.sign();
                        self.out.push('.');
                    }
                }
                NumberElement::Group if self.has_digits => self.out.push(','),
                NumberElement::Group => self.blank(),
                NumberElement::Sign => {}
                NumberElement::Minus if self.digits.is_negative => self.out.push('-'),
                NumberElement::Plus if !self.digits.is_negative => self.out.push('+'),
                NumberElement::Minus | NumberElement::Plus => self.blank(),
                NumberElement::PlusOrMinus => self.out.push(if self.digits.is_negative { '-' } else { '+' }),
                NumberElement::Currency => self.out.push(' '),
                NumberElement::Ordinal(capital) => self.ordinal(*capital),
                NumberElement::Roman(_) => {}
                NumberElement::Text(text) => self.out.push_str(text),
            }
        }
        self.out
    }

    fn slot_before(&mut self) {
        let unused = self.unused();
        if self.slot < unused {
            match self.picture.first_zero {
                Some(first) if first <= self.slot => {
                    self.sign();
                    self.out.push('0');
                    self.has_digits = true;
                }
                _ => self.blank(),
            }
            return;
        }
        if self.omits_zero() {
            match self.picture.fills && self.relevant() == 0 {
                true => {
                    self.sign();
                    self.out.push('0');
                }
                false => self.blank(),
            }
            return;
        }
        self.sign();
        self.out.extend(self.digits.before.chars().nth(self.slot - unused));
        self.has_digits = true;
    }

    fn slot_behind(&mut self, is_zero: bool) {
        let position = self.slot - self.picture.before;
        self.sign();
        if position < self.relevant() || is_zero {
            self.out.extend(self.digits.behind.chars().nth(position));
            self.has_digits = true;
        }
    }

    /// What stands behind the digits.
    fn last_slot(&mut self) {
        match (self.picture.brackets, self.digits.is_negative) {
            (true, true) => self.out.push('>'),
            (true, false) => self.blank(),
            (false, is_negative) if self.is_sign_last() => self.out.push(if is_negative { '-' } else { '+' }),
            _ => {}
        }
    }

    fn ordinal(&mut self, capital: bool) {
        let is_none =
            self.digits.is_negative || self.picture.has_point || self.digits.before.starts_with('#');
        if !is_none {
            let suffix = ordinal(&self.digits.before);
            self.out.push_str(&if capital { suffix.to_uppercase() } else { suffix.to_owned() });
        }
    }
}

/// What stands behind a number that counts.
pub(super) fn ordinal(digits: &str) -> &'static str {
    let bytes = digits.as_bytes();
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match bytes.last() {
        Some(b'1') if !is_teen => "st",
        Some(b'2') if !is_teen => "nd",
        Some(b'3') if !is_teen => "rd",
        _ => "th",
    }
}
