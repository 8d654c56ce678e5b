//! Texts of moments, as PostgreSQL 15 reads them.

use super::*;
use crate::datetime::{format_date, push_time};

fn shown(text: &str) -> Read<String> {
    match read(text)? {
        Moment::Infinite { positive } => Ok(if positive { "infinity" } else { "-infinity" }.to_owned()),
        Moment::Finite { days, time, zone } => {
            let mut out = String::new();
            format_date(days as i32, &mut out);
            out.push(' ');
            push_time(time, &mut out);
            if let Some(zone) = zone {
                out.push_str(&format!(" {:?}", zone.east(0).unwrap() / SECOND));
            }
            Ok(out)
        }
    }
}

#[test]
fn one_day_is_written_in_many_ways() {
    for text in [
        "2024-02-29",
        "20240229",
        "2024/2/29",
        "Feb 29 2024",
        "February 29, 2024",
        "29 Feb 2024",
        "29-Feb-24",
        "2024-Feb-29",
        "Thu Feb 29 00:00:00 2024",
        "2/29/2024",
        "02.29.24",
        "240229",
        "2024.060",
        "J2460370",
        "julian 2460370",
        "2024-02-29 AD",
        "2024-02-29T000000",
        "2024-02-29 y",
        "2024-02-29 00:00:00.",
        "2024-02-29 12:00 AM",
    ] {
        assert_eq!(shown(text), Ok("2024-02-29 00:00:00".into()), "{text}");
    }
}

#[test]
fn zones_stand_behind_or_between() {
    for (text, expected) in [
        ("2026-01-02 +00", "2026-01-02 00:00:00 0"),
        ("2026-01-02 -03:30", "2026-01-02 00:00:00 -12600"),
        ("2026-01-02 12:34:56.789+0230", "2026-01-02 12:34:56.789 9000"),
        ("20260102T123456Z", "2026-01-02 12:34:56 0"),
        ("20260102T123456-08", "2026-01-02 12:34:56 -28800"),
        ("Jan 2 12:00:00 UTC 2026", "2026-01-02 12:00:00 0"),
        ("2026-01-02 12:00 GMT DST", "2026-01-02 12:00:00 3600"),
        ("epoch", "1970-01-01 00:00:00 0"),
        ("2026-01-02 allballs", "2026-01-02 00:00:00 0"),
    ] {
        assert_eq!(shown(text), Ok(expected.into()), "{text}");
    }
}

#[test]
fn what_is_no_moment_is_refused() {
    use Refusal::*;
    for (text, refusal) in [
        ("", Malformed),
        ("abc", Malformed),
        ("2024", Malformed),
        ("12:00", Malformed),
        ("00:00 2024-02-29", Malformed),
        ("2024-02-29 nowhere", Malformed),
        ("2024-01", Malformed),
        ("2024-02-29 2024-02-29", Malformed),
        ("2024-02-29 12:00 13:00", Malformed),
        ("2024-02-29 +1 +2", Malformed),
        ("infinity 12:00", Malformed),
        ("am am 2024-01-01", Malformed),
        ("t12", Malformed),
        ("2024-02-30", OutOfRange),
        ("2024-02-29 24:00:01", OutOfRange),
        ("2024-02-29 13:00 PM", OutOfRange),
        ("0000-01-01", OutOfRange),
        ("99999999999-01-01", OutOfRange),
        ("29/2/2024", Order),
        ("2024-13-01", Order),
        ("2024-02-29 +16", Displacement),
        ("2024-02-29 Nowhere/Else", NoSuchZone("nowhere/else".into())),
        ("today", Present("today".into())),
    ] {
        assert_eq!(shown(text), Err(refusal), "{text}");
    }
}

#[test]
fn infinities_are_words() {
    for (text, positive) in [("infinity", true), (" -Infinity ", false), ("INFINITY", true)] {
        assert_eq!(read(text), Ok(Moment::Infinite { positive }));
    }
    assert!(["+infinity", "inf", "infinit", "infinity infinity"].iter().all(|text| read(text).is_err()));
}

#[test]
fn the_usual_form_is_read_as_by_its_fields() {
    let times = [
        "",
        " 00:00:00",
        "T12:34:56",
        " 23:59:59.999999",
        " 12:34:56.",
        " 12:34:56.7",
        " 24:00:00",
        " 12:34:60",
        " 12:34:56.1234567",
        " 99:00:00",
    ];
    let zones = ["", "Z", "+00", "-08", "+05:30", "-15:59", "+16", "+5", "+0530", "+05:60"];
    for day in [
        "2024-02-29",
        "2023-02-29",
        "0001-01-01",
        "0000-01-01",
        "9999-12-31",
        "2024-00-10",
        "2024-13-01",
        "2024-1a-01",
    ] {
        for (time, zone) in times.iter().flat_map(|time| zones.iter().map(move |zone| (time, zone))) {
            let text = format!("{day}{time}{zone}");
            if let Some(moment) = plain(text.as_bytes()) {
                let equal = match (&moment, read_fields(&text)) {
                    // Universal time has two names.
                    (
                        Moment::Finite { days, time, zone },
                        Ok(Moment::Finite { days: d, time: t, zone: z }),
                    ) => {
                        let east = |zone: &Option<Zone>| zone.map(|zone| zone.east(0).unwrap());
                        (*days, *time, east(zone)) == (d, t, east(&z))
                    }
                    _ => false,
                };
                assert!(equal, "{text}");
            }
        }
    }
    assert!(plain(b"2024-02-29 12:34:56.789+01").is_some());
}

#[test]
fn any_text_is_read_without_a_panic() {
    let parts = [
        "1",
        "12",
        "123",
        "2024",
        "20240229",
        "jan",
        "-",
        "/",
        ".",
        ":",
        "+",
        " ",
        "t",
        "j",
        "é",
        "am",
        "999999999999",
    ];
    let mut seed = 1u64;
    for _ in 0..200_000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(parts[(seed >> 33) as usize % parts.len()]);
        }
        let _ = read(&text);
    }
}
