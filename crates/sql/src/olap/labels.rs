//! Labels in Arrow's types.
//!
//! To Arrow a label is a timestamp in nanoseconds: a number of 64 bits, its position, with a type that has room to say which labels
//! these are, in the time zone. So everything that compares, sorts, groups and joins numbers does so with labels, no operator loses their type,
//! and none gives those of one type for those of another. Times here are microseconds in UTC: the two do not meet, and nothing that looks into
//! times is asked about labels, since no function of ours takes them.
//!
//! The zone says the type's slot, as an offset that can be read: plans are written down in messages, and there must be no offset that is none.
//! ```text
//! +HH:MM  -HH:MM  +HHMM  -HHMM     hours 01 to 23, minutes 00 to 99, less than a day: 2260 of each
//! ```

use ankerdb_engine::{ENUM_SLOTS, EnumType};
use datafusion::arrow::datatypes::{DataType as ArrowType, TimeUnit};
use std::sync::Arc;

/// Offsets of one form and sign.
const OF_FORM: u32 = 2260;
const FORMS: [(char, &str); 4] = [('+', ":"), ('-', ":"), ('+', ""), ('-', "")];
const _: () = assert!(OF_FORM as usize * FORMS.len() == ENUM_SLOTS);

/// The Arrow type of labels.
pub(crate) fn arrow_type(labels: EnumType) -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Nanosecond, Some(zone(labels)))
}

/// The time zone that stands for a type of labels.
pub(crate) fn zone(labels: EnumType) -> Arc<str> {
    zone_of(labels.slot()).into()
}

fn zone_of(slot: u32) -> String {
    let (sign, between) = FORMS[(slot / OF_FORM) as usize];
    let offset = slot % OF_FORM;
    format!("{sign}{:02}{between}{:02}", 1 + offset / 100, offset % 100)
}

/// The type of labels that an Arrow type is; `None` if it is another one.
pub(crate) fn labels_of(arrow: &ArrowType) -> Option<EnumType> {
    match arrow {
        ArrowType::Timestamp(TimeUnit::Nanosecond, Some(zone)) => EnumType::by_slot(slot_of(zone)?),
        _ => None,
    }
}

fn slot_of(zone: &str) -> Option<u32> {
    let (sign, between, digits) = match zone.len() {
        6 if zone.as_bytes()[3] == b':' => (zone.chars().next()?, ":", (zone.get(1..3)?, zone.get(4..6)?)),
        5 => (zone.chars().next()?, "", (zone.get(1..3)?, zone.get(3..5)?)),
        _ => return None,
    };
    let form = FORMS.iter().position(|form| *form == (sign, between))?;
    let hours: u32 = digits.0.parse().ok()?;
    let offset = hours.checked_sub(1)? * 100 + digits.1.parse::<u32>().ok()?;
    (offset < OF_FORM).then_some(form as u32 * OF_FORM + offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::timezone::Tz;
    use std::collections::HashSet;

    #[test]
    fn every_slot_has_an_offset_of_its_own_that_can_be_read() {
        let mut seen = HashSet::new();
        for slot in 0..ENUM_SLOTS as u32 {
            let zone = zone_of(slot);
            assert_eq!(slot_of(&zone), Some(slot), "{zone}");
            assert!(zone.parse::<Tz>().is_ok(), "{zone}");
            assert!(seen.insert(zone));
        }
        for other in ["+00:00", "-00:30", "UTC", "+23:60", "Europe/Berlin", "+1:000", ""] {
            assert_eq!(slot_of(other), None, "{other}");
        }
    }
}
