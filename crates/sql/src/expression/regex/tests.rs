//! Examples with what PostgreSQL answers; `regexp.slt` compares more of them with PostgreSQL.

use super::*;
use ankerdb_engine::Cause;

/// The whole match and its groups; `-` for a group without one.
fn found(pattern: &str, text: &str) -> String {
    let mut groups = Groups::new();
    let mut regex = Regex::new(pattern, Flags::default()).unwrap();
    match regex.find(text, 0, Some(&mut groups), &Interrupt::new()).unwrap() {
        None => "none".into(),
        Some(_) => {
            let shown = |group: Option<(usize, usize)>| group.map_or("-", |(begin, end)| &text[begin..end]);
            groups.into_iter().map(shown).collect::<Vec<_>>().join("|")
        }
    }
}

fn refused(pattern: &str) -> &'static str {
    let error = Regex::new(pattern, Flags::default()).err();
    error.unwrap_or_else(|| panic!("{pattern}")).state().code()
}

#[test]
fn of_the_leftmost_matches_the_longest_counts() {
    assert_eq!(found("foo|foobar", "a foobar"), "foobar");
    assert_eq!(found("a?(?:ab)?", "ab"), "ab");
    assert_eq!(found("b|abcd|bc", "xabcd"), "abcd");
    assert_eq!(found("x*", "aaxx"), "");
    assert_eq!(found("c|a[^c]*d", "abbcd"), "c");
}

#[test]
fn preferences_are_those_of_the_first_quantifier() {
    // Examples of PostgreSQL's manual.
    assert_eq!(found("Y*([0-9]{1,3})", "XY1234Z"), "Y123|123");
    assert_eq!(found("Y*?([0-9]{1,3})", "XY1234Z"), "Y1|1");
    assert_eq!(found("(.*)(\\d+)(.*)", "abc01234xyz"), "abc01234xyz|abc0123|4|xyz");
    assert_eq!(found("(.*?)(\\d+)(.*)", "abc01234xyz"), "abc0|abc|0|");
    assert_eq!(found("(?:(.*?)(\\d+)(.*)){1,1}", "abc01234xyz"), "abc01234xyz|abc|01234|xyz");
}

#[test]
fn groups_have_their_last_repetition() {
    assert_eq!(found("(a|b)*c", "ababc"), "ababc|b");
    assert_eq!(found("(a|b){2,3}", "abab"), "aba|a");
    assert_eq!(found("(a*)*", "b"), "|-");
    assert_eq!(found("(a*)+", "b"), "|");
    assert_eq!(found("(?:(x)|(y))*", "xy"), "xy|-|y");
    assert_eq!(found("((a)|b){0}c(d)", "cd"), "cd|-|-|d");
    assert_eq!(found("(ab|a)(bc|c)?", "abc"), "abc|ab|c");
    assert_eq!(found("(a|ab)(c|bcd)(d*)", "abcd"), "abcd|ab|c|d");
}

#[test]
fn assertions_look_beside_a_place() {
    assert_eq!(found("\\mb\\w*\\M", "abc bcd"), "bcd");
    assert_eq!(found("\\yfoo\\y", "xfoo foo"), "foo");
    assert_eq!(found("^b", "a\nb"), "none");
    assert_eq!(found("(?n)^b$", "a\nb\nc"), "b");
    assert_eq!(found("(?n)\\Ab", "a\nb"), "none");
    assert_eq!(found("(?n)a.b", "a\nb"), "none");
    assert_eq!(found("a.b", "a\nb"), "a\nb");
    assert_eq!(found("[[:<:]]b", "ab b"), "b");
}

#[test]
fn options_and_escapes() {
    assert_eq!(found("(?i)strasse", "STRASSE"), "STRASSE");
    assert_eq!(found("(?x) a b # c\n c", "abc"), "abc");
    assert_eq!(found("***=a.b", "xa.b"), "a.b");
    assert_eq!(found("a(?#comment)b", "ab"), "ab");
    assert_eq!(found("\\u00f6\\x41\\101", "öAA"), "öAA");
    assert_eq!(found("[\\w.-]+@[a-z]+", "x <a.b-c@de>"), "a.b-c@de");
    assert_eq!(found("{x", "{x"), "{x");
}

#[test]
fn what_is_no_expression_is_refused() {
    for pattern in [
        "(a",
        "a)",
        "[a",
        "*a",
        "a**",
        "a{2,1}",
        "a{256}",
        "[b-a]",
        "[[:what:]]",
        "a{1",
        "^*",
        "a(?i)b",
        "\\",
        "\\q",
        "***a",
        "[a-c-e]",
        "(?z)a",
    ] {
        assert_eq!(refused(pattern), "2201B", "{pattern}");
    }
    for pattern in ["(a)\\1", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?e)a"] {
        assert_eq!(refused(pattern), "0A000", "{pattern}");
    }
    assert_eq!(refused(&"(".repeat(100_000)), "2201B");
    assert_eq!(refused("((((a{200}){200}){200}){200})"), "2201B");
}

#[test]
fn large_tables_are_begun_anew() {
    // The state knows which of the last places had an a: 2 to the power of 16 of them.
    let text: String =
        (0u32..200_000).map(|n| if n.wrapping_mul(2_654_435_761) & 64 == 0 { 'a' } else { 'b' }).collect();
    let mut regex = Regex::new("a.{15}c", Flags::default()).unwrap();
    assert!(!regex.is_match(&text, &Interrupt::new()).unwrap());
    assert!(regex.is_match(&(text + "abbbbbbbbbbbbbbbc"), &Interrupt::new()).unwrap());
}

#[test]
fn a_long_search_is_interrupted() {
    let interrupt = Interrupt::new();
    interrupt.raise(Cause::Timeout);
    let mut regex = Regex::new("a*b|c", Flags::default()).unwrap();
    let text = "a".repeat(1 << 18) + "c";
    assert!(regex.find(&text, 0, None, &interrupt).is_err());
    assert_eq!(
        regex.find(&text, text.len() - 3, None, &Interrupt::new()).unwrap(),
        Some((text.len() - 1, text.len()))
    );
}

#[test]
fn a_beginning_behind_many_others_is_found_in_one_pass() {
    let mut regex = Regex::new("a*b|cd|\\Zx|c", Flags::default()).unwrap();
    // To try each place would take a day.
    let text = "a".repeat(3_000_000) + "cd";
    let found = regex.find(&text, 0, None, &Interrupt::new()).unwrap();
    assert_eq!(found, Some((text.len() - 2, text.len())));
    let found = regex.find(&("a".repeat(1000) + "c" + "aab"), 0, None, &Interrupt::new()).unwrap();
    assert_eq!(found, Some((1000, 1001)));
}
