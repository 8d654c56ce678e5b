//! What a session has of its own: cursors, prepared statements by name, notices, reports of settings.

use crate::cancel::{LONG_QUERY, UNDER_WAY, begin, cancel, prepare};
use crate::client::{Client, Reply, bind, bind_as, close, describe, execute, parse, startup, sync};
use crate::server::TestServer;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

/// A server with 4,000 rows, of which queries can make 16 million pairs.
fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    prepare(&mut client);
    (server, client)
}

/// 64 thousand million rows would never end.
const ENDLESS: &str = "SELECT a.n, b.n, c.n FROM many a, many b, many c";

#[test]
fn a_cursor_computes_what_is_fetched_and_no_more() {
    let (_server, mut client) = start();
    for scroll in ["", "SCROLL", "NO SCROLL"] {
        client.run("BEGIN");
        client.run(&format!("DECLARE c {scroll} CURSOR FOR {ENDLESS}"));
        assert_eq!(client.run("FETCH 3 FROM c").rows.len(), 3);
        assert_eq!(client.run("MOVE 20000 FROM c").tags, ["MOVE 20000"]);
        assert_eq!(client.run("FETCH 20000 FROM c").rows.len(), 20000);
        client.run("COMMIT");
    }
}

#[test]
fn a_cursor_of_which_nothing_was_said_goes_back_a_little() {
    let (_server, mut client) = start();
    client.run(&format!("BEGIN; DECLARE c CURSOR FOR {ENDLESS}"));
    let rows = client.run("FETCH 100 FROM c").text();
    assert_eq!(client.run("FETCH BACKWARD 1 FROM c").text(), [rows[98].clone()]);
    client.run("MOVE 40000 FROM c");
    assert_eq!(client.query("FETCH ABSOLUTE 1 FROM c").code(), "55000");
}

#[test]
fn time_limits_and_cancel_requests_end_a_fetch_and_not_the_cursor_of_another_statement() {
    let (server, mut client) = start();
    client.run(&format!("BEGIN; DECLARE other CURSOR FOR {ENDLESS}; SAVEPOINT s"));
    client.run(&format!("DECLARE c CURSOR FOR {LONG_QUERY}"));
    client.run("SET LOCAL statement_timeout = '150ms'");
    let reply = client.query("FETCH ALL FROM c");
    assert_eq!((reply.code(), reply.status), ("57014", b'E'));
    client.run("ROLLBACK TO s");
    assert_eq!(client.run("FETCH 2 FROM other").rows.len(), 2);
    client.run(&format!("DECLARE c CURSOR FOR {LONG_QUERY}"));
    begin(&mut client, "MOVE ALL FROM c");
    std::thread::sleep(UNDER_WAY);
    cancel(&server, client.process, client.secret);
    assert_eq!(client.reply().code(), "57014");
    client.run("ROLLBACK TO s");
    assert_eq!(client.run("FETCH 2 FROM other").rows.len(), 2);
    // A commit that has to read the rest is ended as well, and commits nothing.
    client.run("INSERT INTO t VALUES (7, 7)");
    client.run(&format!("DECLARE held CURSOR WITH HOLD FOR {LONG_QUERY}"));
    client.run("SET LOCAL statement_timeout = '150ms'");
    assert_eq!(client.query("COMMIT").code(), "57014");
    assert_eq!(client.run("SELECT count(*) FROM t WHERE a = 7").cell(), "0");
    assert_eq!(client.query("FETCH held").code(), "34000");
}

#[test]
fn a_binary_cursor_gives_binary_values_to_the_simple_protocol() {
    let (_server, mut client) = start();
    client.run("BEGIN; DECLARE c BINARY CURSOR FOR SELECT n FROM many ORDER BY n");
    let reply = client.run("FETCH 2 FROM c");
    assert_eq!(reply.columns[0].format, 1);
    assert_eq!(reply.rows, [[Some(vec![0, 0, 0, 0])], [Some(vec![0, 0, 0, 1])]]);
}

#[test]
fn cursors_take_parameters_and_are_fetched_by_both_protocols() {
    let (_server, mut client) = start();
    client.run("BEGIN");
    client.extended("DECLARE c CURSOR FOR SELECT n FROM many WHERE n >= $1 ORDER BY n", &[Some("5")]).ok();
    assert_eq!(client.extended("FETCH 2 FROM c", &[]).ok().text(), [["5"], ["6"]]);
    assert_eq!(client.run("FETCH c").text(), [["7"]]);
    let parts =
        send(&mut client, &[parse("", "FETCH 4 FROM c", &[]), bind("", "", &[]), execute("", 3)]).ok();
    assert_eq!(parts.text(), [["8"], ["9"], ["10"]]);
}

#[test]
fn portals_and_cursors_share_their_names() {
    let (_server, mut client) = start();
    client.run("BEGIN; DECLARE c CURSOR FOR SELECT n FROM many; SAVEPOINT s");
    assert_eq!(send(&mut client, &[parse("", "SELECT 1", &[]), bind("c", "", &[])]).code(), "42P03");
    client.run("ROLLBACK TO s");
    send(&mut client, &[parse("", "SELECT 1", &[]), bind("p", "", &[])]).ok();
    client.run("SAVEPOINT s");
    assert_eq!(client.query("DECLARE p CURSOR FOR SELECT 1").code(), "42P03");
    client.run("ROLLBACK TO s");
    send(&mut client, &[close(b'P', "p"), close(b'P', "c")]).ok();
    client.run("DECLARE p CURSOR FOR SELECT 1");
    client.run("DECLARE c CURSOR FOR SELECT 1");
    client.run("COMMIT");
}

#[test]
fn portals_with_names_are_cursors_in_a_transaction() {
    let (_server, mut client) = start();
    let query = "SELECT n FROM many WHERE n > 0 ORDER BY n";
    client.run("BEGIN");
    let messages = [parse("", query, &[]), bind("p", "", &[]), execute("p", 1)];
    assert_eq!(send(&mut client, &messages).ok().text(), [["1"]]);
    client.run("SAVEPOINT s");
    assert_eq!(client.run("MOVE 3 IN p").tags, ["MOVE 3"]);
    assert_eq!(send(&mut client, &[execute("p", 2)]).ok().text(), [["5"], ["6"]]);
    assert_eq!(client.run("FETCH 2 FROM p").text(), [["7"], ["8"]]);
    // As PostgreSQL has it, such a cursor goes forward only.
    assert_eq!(client.query("FETCH BACKWARD 1 FROM p").code(), "55000");
    client.run("ROLLBACK TO s");
    assert_eq!(send(&mut client, &[execute("p", 1)]).ok().text(), [["9"]]);
    assert_eq!(client.run("SELECT name, is_scrollable FROM pg_cursors").text(), [["p", "f"]]);
    client.run("CLOSE p");
    assert_eq!(send(&mut client, &[execute("p", 1)]).code(), "34000");
    client.run("ROLLBACK");
    // It is one as soon as it is bound, and errors of the query come then.
    client.run("BEGIN");
    send(&mut client, &[parse("", query, &[]), bind("p", "", &[])]).ok();
    assert_eq!(client.run("MOVE FORWARD 5 FROM p").tags, ["MOVE 5"]);
    assert_eq!(send(&mut client, &[execute("p", 1)]).ok().text(), [["6"]]);
    send(&mut client, &[close(b'P', "p")]).ok();
    client.run("SAVEPOINT s");
    assert_eq!(send(&mut client, &[parse("", "SELECT n FROM many", &[]), bind("p", "", &[])]).code(), "");
    assert_eq!(send(&mut client, &[parse("", query, &[]), bind("p", "", &[])]).code(), "42P03");
    assert_eq!(send(&mut client, &[parse("", query, &[]), bind("q", "", &[])]).code(), "25P02");
    client.run("ROLLBACK TO s");
    assert_eq!(client.query("FETCH p").code(), "34000");
    client.run("ROLLBACK");
    // Without rows that are read in between it ends with its transaction.
    client.run("BEGIN");
    send(&mut client, &messages).ok();
    client.run("COMMIT");
    assert_eq!(client.query("FETCH p").code(), "34000");
}

#[test]
fn prepared_statements_of_sql_and_of_the_protocol_share_their_names() {
    let (_server, mut client) = start();
    send(&mut client, &[parse("p", "SELECT n + $1 FROM many WHERE n = $2", &[23, 23])]).ok();
    assert_eq!(client.run("EXECUTE p(1, 2)").cell(), "3");
    assert_eq!(client.query("PREPARE p AS SELECT 1").code(), "42P05");
    client.run("PREPARE q (int) AS SELECT n FROM many WHERE n = $1");
    assert_eq!(send(&mut client, &[parse("q", "SELECT 1", &[])]).code(), "42P05");
    let reply = send(&mut client, &[bind("", "q", &[Some("9")]), describe(b'P', ""), execute("", 0)]).ok();
    assert_eq!(reply.text(), [["9"]]);
    let reply = send(
        &mut client,
        &[parse("", "EXECUTE q(8)", &[]), describe(b'S', ""), bind("", "", &[]), execute("", 0)],
    );
    assert_eq!(reply.ok().text(), [["8"]]);
    send(&mut client, &[close(b'S', "q")]).ok();
    assert_eq!(client.query("EXECUTE q(1)").code(), "26000");
    // Neither may run itself.
    send(&mut client, &[parse("again", "EXECUTE p(1, 2)", &[])]).ok();
    assert_eq!(client.query("EXECUTE again").code(), "0A000");
    client.run("DEALLOCATE ALL");
    assert_eq!(send(&mut client, &[bind("", "p", &[Some("1"), Some("2")])]).code(), "26000");
}

#[test]
fn binary_and_text_parameters_reach_a_statement_of_prepare() {
    let (_server, mut client) = start();
    client.run("PREPARE q AS SELECT n FROM many WHERE n = $1");
    let bound = bind_as("", "q", 1, &[Some(&[0, 0, 0, 6])], 1);
    assert_eq!(send(&mut client, &[bound, execute("", 0)]).ok().rows, [[Some(vec![0, 0, 0, 6])]]);
}

#[test]
fn explain_execute_shows_the_plan_of_the_named_statement() {
    let (_server, mut client) = start();
    client.run("PREPARE q AS SELECT n FROM many WHERE n = $1");
    let lines = client.run("EXPLAIN EXECUTE q(1)").text();
    assert_eq!(lines[0], ["Index Scan using many_pkey on many"]);
    assert_eq!(client.query("EXPLAIN EXECUTE q").code(), "42601");
    assert_eq!(client.query("EXPLAIN EXECUTE nothing").code(), "26000");
}

#[test]
fn a_client_is_warned_and_notified_as_much_as_it_wants() {
    let (_server, mut client) = start();
    assert_eq!(client.query("COMMIT").kinds, "NCZ");
    assert_eq!(client.query("ROLLBACK").kinds, "NCZ");
    assert_eq!(client.query("SET LOCAL lock_timeout = 1").kinds, "NCZ");
    assert_eq!(client.query("DROP TABLE IF EXISTS nothing, nobody").kinds, "NNCZ");
    assert_eq!(client.query("CREATE TABLE IF NOT EXISTS many (n int)").kinds, "NCZ");
    assert_eq!(client.query("BEGIN").kinds, "CZ");
    assert_eq!(client.query("BEGIN").kinds, "NCZ");
    assert_eq!(client.extended("BEGIN", &[]).kinds, "12nNCZ");
    assert_eq!(client.query("COMMIT").kinds, "CZ");
    client.run("SET client_min_messages = warning");
    assert_eq!(client.query("DROP TABLE IF EXISTS nothing").kinds, "CZ");
    assert_eq!(client.query("COMMIT").kinds, "NCZ");
    client.run("SET client_min_messages = error");
    assert_eq!(client.query("COMMIT").kinds, "CZ");
}

#[test]
fn settings_that_change_are_reported() {
    let (_server, mut client) = start();
    assert_eq!(client.query("SET application_name = 'mine'").kinds, "CSZ");
    assert_eq!(client.query("SET application_name = 'mine'").kinds, "CZ");
    assert_eq!(client.query("SET work_mem = '8MB'").kinds, "CZ");
    assert_eq!(client.query("BEGIN").kinds, "CZ");
    assert_eq!(client.query("SET default_transaction_read_only = on").kinds, "CSZ");
    assert_eq!(client.query("ROLLBACK").kinds, "CSZ");
}

#[test]
fn reset_goes_back_to_what_the_client_connected_with() {
    let (server, _client) = start();
    let mut client = crate::client::raw(server.address);
    let parameters = [
        ("user", "me"),
        ("database", "ankerdb"),
        ("options", "-c work_mem=9MB"),
        ("TimeZone", "Europe/Berlin"),
    ];
    client.send(&startup(196_608, &parameters));
    client.greeted().unwrap();
    assert_eq!(client.parameters["TimeZone"], "Europe/Berlin");
    let noon = "SELECT timestamptz '2024-07-01 12:00+00'";
    client.run("SET TIME ZONE 'UTC'");
    assert_eq!(client.run(noon).cell(), "2024-07-01 12:00:00+00");
    // Clients are told how dates are written.
    assert_eq!(client.parameters["DateStyle"], "ISO, MDY");
    assert_eq!(client.query("SET DateStyle = german").kinds, "CSZ");
    assert_eq!(client.query("SET DateStyle = german").kinds, "CZ");
    assert_eq!(client.query("RESET DateStyle").kinds, "CSZ");
    client.run("RESET TimeZone");
    assert_eq!(client.run(noon).cell(), "2024-07-01 14:00:00+02");
    client.run("SET work_mem = '1MB'");
    client.run("RESET work_mem");
    assert_eq!(client.run("SHOW work_mem").cell(), "9MB");
    client.run("SET work_mem = '1MB'; DISCARD ALL");
    assert_eq!(client.run("SHOW work_mem").cell(), "9MB");
}

#[test]
fn a_sleep_takes_its_time_and_ends_when_it_has_to() {
    let (server, mut client) = start();
    let begun = std::time::Instant::now();
    assert_eq!(client.run("SELECT pg_sleep(0.2)").cell(), "");
    assert!(begun.elapsed() >= std::time::Duration::from_millis(200));
    client.run("SET statement_timeout = '100ms'");
    assert_eq!(client.query("SELECT pg_sleep(60)").code(), "57014");
    client.run("RESET statement_timeout");
    begin(&mut client, "SELECT pg_sleep('1e300')");
    std::thread::sleep(UNDER_WAY);
    cancel(&server, client.process, client.secret);
    assert_eq!(client.reply().code(), "57014");
}

#[test]
fn sessions_cancel_and_end_each_other() {
    let (server, mut client) = start();
    let mut other = Client::connect(&server);
    assert_eq!(other.run("SELECT pg_backend_pid()").cell(), other.process.to_string());
    begin(&mut other, "SELECT pg_sleep(60)");
    std::thread::sleep(UNDER_WAY);
    assert_eq!(client.run(&format!("SELECT pg_cancel_backend({})", other.process)).cell(), "t");
    assert_eq!(other.reply().code(), "57014");
    assert_eq!(client.run("SELECT pg_cancel_backend(0), pg_terminate_backend(0)").text(), [["f", "f"]]);
    assert_eq!(client.run(&format!("SELECT pg_terminate_backend({})", other.process)).cell(), "t");
    assert_eq!(other.last_words().code, "57P01");
    assert_eq!(client.run("SELECT 1").cell(), "1");
}

#[test]
fn advisory_locks_keep_sessions_apart_until_they_are_given_back() {
    let (server, mut client) = start();
    let mut other = Client::connect(&server);
    let tries = |other: &mut Client, key: i32| {
        other.run(&format!("SELECT pg_try_advisory_lock({key})")).cell() == "t"
    };
    client.run("SELECT pg_advisory_lock(1)");
    client.run("SELECT pg_advisory_xact_lock(2)");
    assert!(!tries(&mut other, 1) && tries(&mut other, 2));
    other.run("SELECT pg_advisory_unlock(2)");
    client.run("BEGIN; SELECT pg_advisory_xact_lock(2); SAVEPOINT s; SELECT pg_advisory_xact_lock(3)");
    assert!(!tries(&mut other, 2) && !tries(&mut other, 3));
    client.run("ROLLBACK TO s");
    assert!(!tries(&mut other, 2) && tries(&mut other, 3));
    begin(&mut other, "SELECT pg_advisory_lock_shared(2)");
    client.run("COMMIT");
    other.reply().ok();
    other.run("SET lock_timeout = '50ms'");
    assert_eq!(other.query("SELECT pg_advisory_lock(1)").code(), "55P03");
    assert_eq!(client.run("SELECT pg_advisory_unlock(1), pg_advisory_unlock(1)").text(), [["t", "f"]]);
    assert!(tries(&mut other, 1));
    drop(other);
    // The server may take a moment to notice.
    client.run("SELECT pg_advisory_lock(1)");
    client.run("SELECT pg_advisory_unlock_all()");
}

#[test]
fn sessions_that_wait_for_each_others_advisory_locks_do_not_wait_for_ever() {
    let (server, mut client) = start();
    let mut other = Client::connect(&server);
    client.run("SELECT pg_advisory_lock(1)");
    other.run("SELECT pg_advisory_lock(2)");
    begin(&mut client, "SELECT pg_advisory_lock(2)");
    std::thread::sleep(UNDER_WAY);
    assert_eq!(other.query("SELECT pg_advisory_lock(1)").code(), "40P01");
    other.run("SELECT pg_advisory_unlock(2)");
    client.reply().ok();
}

#[test]
fn settings_are_changed_by_functions_as_by_set() {
    let (_server, mut client) = start();
    assert_eq!(client.query("SELECT set_config('application_name', 'mine', false)").kinds, "TDCSZ");
    assert_eq!(client.run("SHOW application_name").cell(), "mine");
    client.run("BEGIN; SELECT set_config('statement_timeout', '20s', true)");
    assert_eq!(client.run("SELECT current_setting('statement_timeout')").cell(), "20s");
    client.run("COMMIT");
    assert_eq!(client.run("SELECT current_setting('statement_timeout')").cell(), "0");
}
