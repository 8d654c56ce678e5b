//! What is shown of a view makes the view again: the same text, and the same rows.

use crate::client::Client;
use crate::server::TestServer;

/// Views of every form, whose texts are compared with PostgreSQL's elsewhere.
const VIEWS: &str = include_str!("../slt/view_text.slt");

/// Not read again as they are shown: conditions that BETWEEN came before, which lose a pair of parentheses, a slice of a column
/// behind its table's name, and names for some of a table's columns.
const NOT_AGAIN: [&str; 3] = ["v7", "v37", "v81"];

/// The statements that make tables and views.
fn definitions() -> impl Iterator<Item = &'static str> {
    VIEWS.split("\n\n").filter_map(|record| record.trim().strip_prefix("statement ok\n"))
}

fn sorted(client: &mut Client, view: &str) -> Vec<Vec<String>> {
    let mut rows = client.run(&format!("SELECT * FROM {view}")).text();
    rows.sort();
    rows
}

#[test]
fn what_is_shown_of_a_view_makes_it_again() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    let mut views = Vec::new();
    for definition in definitions() {
        client.run(definition);
        if let Some(rest) = definition.strip_prefix("CREATE VIEW ") {
            views.push(rest.split([' ', '(']).next().unwrap());
        }
    }
    assert!(views.len() > 90, "{}", views.len());
    for view in views.into_iter().filter(|view| !NOT_AGAIN.contains(view)) {
        for pretty in [false, true] {
            let show = |view: &str| format!("SELECT pg_get_viewdef('{view}', {pretty})");
            let text = client.run(&show(view)).cell();
            // The clock stands still meanwhile.
            client.run("BEGIN");
            client.run(&format!("CREATE VIEW again AS {text}"));
            assert_eq!(client.run(&show("again")).cell(), text, "{view}");
            if !text.contains("TABLESAMPLE") {
                assert_eq!(sorted(&mut client, "again"), sorted(&mut client, view), "{view}: {text}");
            }
            client.run("ROLLBACK");
        }
    }
}
