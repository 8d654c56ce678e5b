//! Precisions of times: in descriptions of results, and of what comes in binary.

use crate::client::{Client, Reply, bind_as, execute, parse, sync};
use crate::server::TestServer;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

fn modifiers(reply: &Reply) -> Vec<i32> {
    reply.columns.iter().map(|column| column.modifier).collect()
}

const DAY_TO_SECOND_2: i32 = 470_286_338;

#[test]
fn results_tell_them() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run(
        "CREATE TABLE moment (id int PRIMARY KEY, a timestamp(3), b timestamptz(0), c time(2), d interval day to second(2), e timestamp)",
    );
    client.run("INSERT INTO moment (id) VALUES (1)");
    let expected = [3, 0, 2, DAY_TO_SECOND_2, -1];
    // A row by its key is read on one path, all of them on the other.
    for rest in [" WHERE id = 1", "", " ORDER BY a", " UNION SELECT a, b, c, d, e FROM moment"] {
        let reply = client.run(&format!("SELECT a, b, c, d, e FROM moment{rest}"));
        assert_eq!(modifiers(&reply), expected, "{rest}");
    }
    let of = |client: &mut Client, what: &str| {
        ["", " WHERE id = 1"].map(|rest| modifiers(&client.run(&format!("SELECT {what} FROM moment{rest}"))))
    };
    for (what, expected) in [
        (
            "e::timestamp(1), e::timestamptz(2), c::interval(0)",
            vec![1, 2, i32::from_be_bytes([127, 255, 0, 0])],
        ),
        ("a + interval '1 s', date_trunc('day', a), coalesce(a, e), a::timestamp", vec![-1; 4]),
        ("coalesce(a, a), nullif(a, e), greatest(a, a)", vec![3; 3]),
    ] {
        assert_eq!(of(&mut client, what), [expected.clone(), expected], "{what}");
    }
    assert_eq!(modifiers(&client.run("SELECT a FROM moment UNION SELECT e FROM moment")), [-1]);
    assert_eq!(modifiers(&client.run("SELECT max(a) FROM moment")), [-1]);
}

#[test]
fn what_comes_in_binary_is_rounded_where_it_is_stored_and_nowhere_else() {
    const TIMESTAMP: u32 = 1114;
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE moment (id int PRIMARY KEY, a timestamp(3))");
    // Half a millisecond behind, and before, the first moment of 2000.
    for (id, micros, stored) in [
        (1, 500_i64, "2000-01-01 00:00:00.001"),
        (2, -500, "1999-12-31 23:59:59.999"),
        (3, 1_499, "2000-01-01 00:00:00.001"),
    ] {
        let bytes = micros.to_be_bytes();
        let insert = format!("INSERT INTO moment VALUES ({id}, $1)");
        let bound = bind_as("", "", 1, &[Some(&bytes)], 0);
        send(&mut client, &[parse("", &insert, &[TIMESTAMP]), bound, execute("", 0)]).ok();
        assert_eq!(client.run(&format!("SELECT a FROM moment WHERE id = {id}")).cell(), stored);
    }
    // A parameter that a column is compared with keeps its digits, whichever type it is given.
    for declared in [&[][..], &[TIMESTAMP]] {
        for (micros, found) in [(500_i64, "0"), (1_000, "2")] {
            let bytes = micros.to_be_bytes();
            let asked = parse("", "SELECT count(*) FROM moment WHERE a = $1", declared);
            let bound = bind_as("", "", 1, &[Some(&bytes)], 0);
            let reply = send(&mut client, &[asked, bound, execute("", 0)]).ok();
            assert_eq!(reply.cell(), found);
        }
    }
}

#[test]
fn infinities_have_the_extremes_in_binary() {
    const DATE: u32 = 1082;
    const TIMESTAMPTZ: u32 = 1184;
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE span (id int PRIMARY KEY, d date, z timestamptz)");
    for (id, days, moment, text) in
        [(1, i32::MAX, i64::MAX, "infinity"), (2, i32::MIN, i64::MIN, "-infinity")]
    {
        let (days, moment) = (days.to_be_bytes(), moment.to_be_bytes());
        let insert = format!("INSERT INTO span VALUES ({id}, $1, $2)");
        let bound = bind_as("", "", 1, &[Some(&days), Some(&moment)], 0);
        send(&mut client, &[parse("", &insert, &[DATE, TIMESTAMPTZ]), bound, execute("", 0)]).ok();
        for select in ["SELECT d, z FROM span WHERE id = ", "SELECT max(d), max(z) FROM span WHERE id = "] {
            let select = format!("{select}{id}");
            let shown = client.run(&select);
            assert_eq!(shown.rows[0], [Some(text.as_bytes().to_vec()), Some(text.as_bytes().to_vec())]);
            let asked = [parse("", &select, &[]), bind_as("", "", 1, &[], 1), execute("", 0)];
            let reply = send(&mut client, &asked).ok();
            assert_eq!(reply.rows[0], [Some(days.to_vec()), Some(moment.to_vec())]);
        }
    }
}
