//! Numerics of any length as parameters and results, in text and binary.

use crate::client::{Client, Reply, bind, bind_as, execute, parse, sync};
use crate::server::TestServer;

const NUMERIC: u32 = 1700;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

/// PostgreSQL's binary form: words of 16 bits.
fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn they_come_back_in_binary() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE n (id int PRIMARY KEY, value numeric)");
    let values = [
        // 10^52 + 0.50: one group at weight 13, one of the fraction.
        ("10000000000000000000000000000000000000000000000000000.50", {
            let mut groups = vec![15, 13, 0, 2, 1];
            groups.extend([0; 13]);
            groups.push(5000);
            words(&groups)
        }),
        ("-1234.567", words(&[2, 0, 0x4000, 3, 1234, 5670])),
        ("0.00", words(&[0, 0, 0, 2])),
        ("NaN", words(&[0, 0, 0xC000, 0])),
        ("Infinity", words(&[0, 0, 0xD000, 32])),
        ("-Infinity", words(&[0, 0, 0xF000, 32])),
    ];
    for (id, (text, bytes)) in values.iter().enumerate() {
        let insert = format!("INSERT INTO n VALUES ({id}, $1)");
        let bound = bind_as("", "", 1, &[Some(bytes)], 0);
        send(&mut client, &[parse("", &insert, &[]), bound, execute("", 0)]).ok();
        // By its key on one path, in a group on the other.
        for select in ["SELECT value FROM n WHERE id = ", "SELECT max(value) FROM n WHERE id = "] {
            let select = format!("{select}{id}");
            assert_eq!(client.run(&select).cell(), *text);
            let asked = [parse("", &select, &[]), bind_as("", "", 1, &[], 1), execute("", 0)];
            let reply = send(&mut client, &asked).ok();
            assert_eq!(reply.rows[0][0].as_deref(), Some(&bytes[..]), "{text}");
        }
    }
}

#[test]
fn declared_parameters_find_rows_of_declared_digits() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE price (amount numeric(12,2) PRIMARY KEY, plain numeric UNIQUE)");
    client.run("INSERT INTO price VALUES (1.50, 1.50), (2.00, 2), (-3.25, 'NaN')");
    let mut ask = |condition: &str, value: &str| {
        let mut found = Vec::new();
        for what in ["plain", "max(plain)"] {
            let sql = format!("SELECT {what} FROM price WHERE {condition}");
            for declared in [&[NUMERIC][..], &[]] {
                let messages = [parse("", &sql, declared), bind("", "", &[Some(value)]), execute("", 0)];
                let rows = send(&mut client, &messages).ok().text();
                found.push(rows.first().map_or("NULL".to_owned(), |row| row[0].clone()));
            }
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{condition} {value}: {found:?}");
        found.remove(0)
    };
    assert_eq!(ask("amount = $1", "1.5"), "1.50");
    assert_eq!(ask("amount = $1", "1.500000000000000000000000000000000000000000000000"), "1.50");
    assert_eq!(ask("amount = $1", "1.500000000000000000000000000000000000000000000001"), "NULL");
    assert_eq!(ask("amount = $1", "NaN"), "NULL");
    assert_eq!(ask("amount > $1 AND amount < 9", "1.999999999999999999999999999999999999999999999999"), "2");
    assert_eq!(ask("amount < $1 AND amount > 1.6", "NaN"), "2");
    assert_eq!(ask("amount <= $1 AND amount > 1.6", "1e60"), "2");
    assert_eq!(ask("plain = $1", "NaN"), "NaN");
    assert_eq!(ask("plain = $1", "2.0000"), "2");
    assert_eq!(ask("plain IN ($1, 7)", "1.5"), "1.50");
    assert_eq!(ask("amount IN ($1, 7)", "-3.250"), "NaN");
}
