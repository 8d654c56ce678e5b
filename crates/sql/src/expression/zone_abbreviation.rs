//! Abbreviations of time zones: PostgreSQL's usual list.
//!
//! Most stand for one offset all the year. Others stand for what clocks show at a place, which has changed over the years: what the
//! time of Moscow is called has meant three hours or four.

use super::zone::{Rules, Zone, rules_of};
use ankerdb_value::ZoneRules;
use std::sync::LazyLock;

const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;

/// Minutes east of Greenwich, and what stands for them.
const FIXED: &[(i64, &str)] = &[
    (-600, "hst taht"),
    (-570, "mart"),
    (-540, "akst gamt"),
    (-480, "akdt pst"),
    (-420, "mst pdt"),
    (-360, "cst galt mdt"),
    (-300, "act cdt cot est pet"),
    (-240, "amt ast bot edt"),
    (-210, "nft nst"),
    (-180, "adt bra brt clst gft pmst pyst uyt wgt"),
    (-150, "ndt"),
    (-120, "brst fnt pmdt uyst wgst"),
    (-60, "azot egt fnst"),
    (0, "azost egst gmt uct ut utc wet z zulu"),
    (60, "bst cet met mez wat wetdst"),
    (120, "bdst cest cetdst eet ist mest mesz metdst sast"),
    (180, "eat eest eetdst fet idt"),
    (210, "irt"),
    (240, "msd mut ret sct"),
    (270, "aft"),
    (300, "must mvt pkt tft tjt uzt"),
    (345, "npt"),
    (360, "almt bdt btt kgst pkst uzst xjt yekst"),
    (390, "mmt"),
    (420, "almst cxt ict wast"),
    (480, "awst bnt bort cct hkt myt pht wadt"),
    (525, "acwst"),
    (540, "awsst jayt jst kst pwt ulast wdt"),
    (570, "acst cast"),
    (600, "aest chut ddut kdt ligt mpt pgt trut yapt"),
    (630, "acdt acsst cadt lhst sadt"),
    (660, "aedt aesst pont vut"),
    (720, "fjt gilt mht nzst nzt tvt wakt wft"),
    (765, "chast"),
    (780, "fjst nzdt tot"),
    (825, "chadt"),
];

/// Places, and what their time is called.
const CHANGING: &[(&str, &str)] = &[
    ("America/Argentina/Buenos_Aires", "arst art"),
    ("America/Asuncion", "pyt"),
    ("America/Caracas", "vet"),
    ("America/Guyana", "gyt"),
    ("America/Santiago", "clt"),
    ("Antarctica/Davis", "davt"),
    ("Antarctica/Mawson", "mawt"),
    ("Asia/Anadyr", "anast anat"),
    ("Asia/Ashgabat", "tmt"),
    ("Asia/Baku", "azst azt"),
    ("Asia/Bishkek", "kgt"),
    ("Asia/Colombo", "lkt"),
    ("Asia/Irkutsk", "irkst irkt"),
    ("Asia/Kamchatka", "petst pett"),
    ("Asia/Krasnoyarsk", "krast krat"),
    ("Asia/Magadan", "magst magt"),
    ("Asia/Novosibirsk", "novst novt"),
    ("Asia/Omsk", "omsst omst"),
    ("Asia/Singapore", "sgt"),
    ("Asia/Tbilisi", "gest get"),
    ("Asia/Ulaanbaatar", "ulat"),
    ("Asia/Vladivostok", "vlast vlat"),
    ("Asia/Yakutsk", "yakst yakt"),
    ("Asia/Yekaterinburg", "yekt"),
    ("Asia/Yerevan", "amst"),
    ("Atlantic/Stanley", "fkst fkt"),
    ("Australia/Lord_Howe", "lhdt"),
    ("Europe/Moscow", "msk"),
    ("Europe/Volgograd", "volt"),
    ("Indian/Chagos", "iot"),
    ("Pacific/Easter", "easst east"),
    ("Pacific/Fakaofo", "tkt"),
    ("Pacific/Kiritimati", "lint"),
    ("Pacific/Kosrae", "kost"),
    ("Pacific/Niue", "nut"),
    ("Pacific/Rarotonga", "ckt"),
];

/// What the database of zones itself calls the time of a place when clocks there are not ahead for the summer.
const MOSCOW: &str = "msk";

/// The zone of an abbreviation in small letters.
pub(super) fn named(name: &str) -> Option<Zone> {
    let is_one = |names: &str| names.split(' ').any(|known| known == name);
    if let Some((minutes, _)) = FIXED.iter().find(|(_, names)| is_one(names)) {
        return Some(Zone::East(minutes * MICROSECONDS_PER_MINUTE));
    }
    let place = CHANGING.iter().position(|(_, names)| is_one(names))?;
    Some(Zone::Place(CHANGING_RULES.get(place)?))
}

static CHANGING_RULES: LazyLock<Vec<Abbreviated>> = LazyLock::new(|| {
    let rules = |(place, names): &(&str, &str)| {
        let rules = rules_of(place).expect("the database of zones has these places");
        Abbreviated { rules, is_usual: *names == MOSCOW }
    };
    CHANGING.iter().map(rules).collect()
});

/// The time of a place, by an abbreviation.
#[derive(Debug)]
struct Abbreviated {
    rules: &'static Rules,
    /// Whether it is the place's usual time, also in summer.
    is_usual: bool,
}

impl ZoneRules for Abbreviated {
    fn name(&self) -> &str {
        self.rules.name()
    }

    fn east(&self, instant: i64) -> Option<i64> {
        match self.is_usual {
            true => self.rules.usual_east(instant),
            false => self.rules.east(instant),
        }
    }

    fn instant(&self, local: i64) -> Option<i64> {
        local.checked_sub(self.east(self.rules.instant(local)?)?)
    }

    fn abbreviation(&self, instant: i64) -> String {
        self.rules.abbreviation(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_moscow_has_meant_three_hours_and_four() {
        const HOUR: i64 = 60 * MICROSECONDS_PER_MINUTE;
        let moscow = named("msk").unwrap();
        // 2011-03-26 23:00 UTC, and 2005-07-01.
        let change = 1_301_180_400_000_000;
        assert_eq!(moscow.east(change - 1), Ok(3 * HOUR));
        assert_eq!(moscow.east(change), Ok(4 * HOUR));
        assert_eq!(moscow.east(1_120_176_000_000_000), Ok(3 * HOUR));
        assert!(CHANGING.iter().all(|(_, names)| names.split(' ').all(|name| named(name).is_some())));
    }
}
