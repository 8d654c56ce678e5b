//! A child answers what this process answers.

use super::*;
use ankerdb_engine::Value;

const QUERIES: [&str; 22] = [
    "SELECT count(*) FROM item",
    "SELECT count(*), sum(price), avg(price), min(name), max(note), sum(wide), sum(big) FROM item",
    "SELECT kind, count(*), sum(price) FROM item GROUP BY kind ORDER BY kind",
    "SELECT * FROM item WHERE id % 1000 = 3 ORDER BY id",
    "SELECT name, note FROM item WHERE note LIKE '%7%' ORDER BY name, id LIMIT 20",
    "SELECT * FROM item WHERE price < 0 ORDER BY id",
    "SELECT count(*) FROM item WHERE name = 'there is none'",
    "SELECT a.kind, count(*) FROM item a JOIN item b ON a.id = b.id + 1 GROUP BY a.kind ORDER BY 1",
    "SELECT id FROM item WHERE price > (SELECT avg(price) FROM item) ORDER BY price DESC, id LIMIT 5",
    "SELECT DISTINCT made FROM item ORDER BY made LIMIT 10",
    "SELECT flag, count(DISTINCT kind) FROM item GROUP BY flag ORDER BY flag",
    "SELECT kind, name FROM (SELECT kind, name, row_number() OVER (PARTITION BY kind ORDER BY id) AS n FROM item) t \
     WHERE n = 2 ORDER BY kind",
    "SELECT upper(name), length(note), regexp_replace(name, '(number) ([0-9]+)', '\\2 \\1') FROM item \
     WHERE id % 2500 = 0 ORDER BY id",
    "SELECT CASE WHEN kind = 1 THEN 'one' WHEN kind = 2 THEN name ELSE 'more' END, id FROM item \
     WHERE id % 3000 = 1 ORDER BY id",
    "SELECT id, weight FROM item WHERE kind IN (SELECT kind FROM item WHERE id < 3) ORDER BY weight DESC, id LIMIT 7",
    "SELECT kind FROM item WHERE id < 5 UNION ALL SELECT kind FROM item WHERE id < 3 ORDER BY 1",
    "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 50) SELECT sum(n), count(*) FROM up",
    "SELECT max(seen), min(made), count(price), count(*) FROM item WHERE price IS NULL",
    "SELECT sum(n) FROM generate_series(1, 1000) AS s(n)",
    "SELECT id, coalesce(note, 'none'), wide FROM item WHERE id % 4000 = 0 ORDER BY id",
    "SELECT sum(big * 2), avg(weight) FROM item WHERE made BETWEEN date '2020-02-01' AND date '2021-02-01'",
    "SELECT kind, sum(price) FROM item GROUP BY kind HAVING sum(price) > 100000000 ORDER BY kind",
];

#[test]
fn queries_give_the_same_in_a_child_and_in_this_process() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 30_000);
    // Blocks with holes, and one that is not full.
    client.setup(&[
        "DELETE FROM item WHERE id % 11 = 0",
        "UPDATE item SET name = 'changed to a longer name' WHERE id % 13 = 0",
    ]);
    for sql in QUERIES {
        let before = forks(&engine);
        client.setup(&["BEGIN"]);
        let here = client.run(sql);
        client.setup(&["COMMIT"]);
        assert_eq!(forks(&engine), before, "{sql}: in a block it runs in this process");
        let there = client.run(sql);
        assert_eq!(forks(&engine), before + 1, "{sql}");
        assert!(!here.starts_with('!'), "{sql}: {here}");
        assert_eq!(here, there, "{sql}");
    }
}

#[test]
fn parameters_reach_the_child() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 1000);
    let sql = "SELECT count(*), max(name) FROM item WHERE kind = $1 AND note LIKE $2";
    let parameters = [Value::SmallInt(3), Value::text("%17%")];
    let there = client.run_with(sql, &parameters);
    assert_eq!(forks(&engine), 1);
    client.setup(&["BEGIN"]);
    assert_eq!(there, client.run_with(sql, &parameters));
}

#[test]
fn constants_without_a_type_stay_in_this_process() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 1000);
    assert_eq!(
        client.run("SELECT kind, NULL FROM item WHERE id < 9 GROUP BY kind ORDER BY kind LIMIT 1"),
        "0,-"
    );
    assert_eq!(forks(&engine), 0);
}

#[test]
fn errors_come_with_their_codes() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 20_000);
    client.check(&[
        ("SELECT sum(1 / (kind - 3)) FROM item", "!22012"),
        ("SELECT sum(big * 1000000000000) FROM item", "!22003"),
        ("SELECT count(*) FROM item WHERE cast(name AS int) = 1", "!22P02"),
        ("SELECT count(*) FROM item", "20000"),
    ]);
    assert_eq!(forks(&engine), 4, "the errors are those of children");
}

#[test]
fn a_large_result_comes_whole_and_its_memory_goes() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 120_000);
    let sql = "SELECT id, name, note, price, wide, note || name AS long FROM item ORDER BY id";
    client.setup(&["BEGIN"]);
    let here = client.run(sql);
    client.setup(&["COMMIT"]);
    assert!(here.len() > 12 << 20, "{} bytes", here.len());
    assert!(here == client.run(sql), "the same");
    drop(here);
    // Results that are read whole, or not, leave nothing mapped and no file open.
    for _ in 0..5 {
        let prepared = client.prepare(sql).unwrap();
        let outcome = client.0.execute(&prepared, &[]).unwrap();
        let ankerdb_sql::Outcome::Rows(mut rows) = outcome else { panic!("a query gives rows") };
        assert!(rows.next_batch().unwrap().is_some());
    }
    until(|| (shared_bytes() == 0).then_some(()));
    until(|| (!has_open_results()).then_some(()));
}

const RESULTS: &str = "memfd:ankerdb-results";

/// Bytes of results of children that this process has mapped.
fn shared_bytes() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings of this process");
    let bytes = |line: &str| {
        let (start, end) = line.split_once(' ').expect("addresses").0.split_once('-').expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        number(end) - number(start)
    };
    maps.lines().filter(|line| line.contains(RESULTS)).map(bytes).sum()
}

fn has_open_results() -> bool {
    let files = std::fs::read_dir("/proc/self/fd").expect("open files").flatten();
    let mut names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    names.any(|name| name.to_string_lossy().contains(RESULTS))
}

#[test]
fn a_result_past_the_limit_is_refused() {
    let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 1 << 20 };
    let engine = SqlEngine::new(Database::with(Configuration::HeeFork), options).expect("an engine");
    let mut client = Client(engine.session());
    client
        .setup(&["CREATE TABLE n (n int)", "INSERT INTO n SELECT i FROM generate_series(1, 500000) AS s(i)"]);
    client.check(&[
        ("SELECT n, n + 1, n + 2, n + 3 FROM n", "!53200"),
        ("SELECT count(*) FROM (SELECT DISTINCT n, n + 1 FROM n) t", "!53200"),
        ("SELECT count(*) FROM n", "500000"),
    ]);
}
