//! A server whose queries run in copies of the process: with the system's allocator as it is.

use crate::cancel::{LONG_QUERY, UNDER_WAY, begin, prepare};
use crate::client::{Client, raw};
use crate::server::TestServer;
use ankerdb_engine::Configuration;

#[test]
fn queries_in_copies_of_the_process_answer_fail_and_are_canceled() {
    let server = TestServer::configured(Configuration::HeeFork);
    let mut client = Client::connect(&server);
    prepare(&mut client);
    client.run("INSERT INTO t VALUES (3, NULL)");
    let grouped = client.run("SELECT a % 2 AS odd, count(*), count(b) FROM t GROUP BY a % 2 ORDER BY 1");
    assert_eq!(grouped.text(), [["0", "1", "1"], ["1", "2", "1"]]);
    assert_eq!(grouped.tags, ["SELECT 2"]);
    assert_eq!(client.extended("SELECT sum(n) FROM many WHERE n < $1", &[Some("10")]).cell(), "45");
    assert_eq!(client.query("SELECT sum(1 / (n - 7)) FROM many").code(), "22012");
    assert_eq!(client.run("SELECT n, n || ' and more text' FROM many ORDER BY n").rows.len(), 4000);

    begin(&mut client, LONG_QUERY);
    std::thread::sleep(UNDER_WAY);
    let mut other = raw(server.address);
    let words = [16, 80_877_102, client.process, client.secret];
    other.send(&words.iter().flat_map(|word: &i32| word.to_be_bytes()).collect::<Vec<u8>>());
    let reply = client.reply();
    assert_eq!((reply.code(), reply.status), ("57014", b'I'));

    client.run("SET statement_timeout = 300");
    assert_eq!(client.query(LONG_QUERY).code(), "57014");
    client.run("BEGIN; UPDATE t SET b = 5 WHERE a = 3");
    assert_eq!(client.run("SELECT sum(b) FROM t").cell(), "5", "in a block a query sees the block's writes");
    assert_eq!(Client::connect(&server).run("SELECT sum(b) FROM t").cell(), "0");
    client.run("COMMIT");
    assert_eq!(client.run("SELECT sum(b) FROM t").cell(), "5");
}
