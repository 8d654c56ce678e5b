//! Checks of tokio-postgres.

use clients::{error, report};
use futures_util::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use std::fmt::Debug;
use std::time::Duration;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls};

fn told(failed: Error) -> String {
    let Some(e) = failed.as_db_error() else { return format!("error {failed}") };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let position = e.position().map(|position| format!("{position:?}"));
    let fields = [
        ("schema", owned(e.schema())),
        ("table", owned(e.table())),
        ("column", owned(e.column())),
        ("constraint", owned(e.constraint())),
        ("position", position),
        ("detail", owned(e.detail())),
        ("hint", owned(e.hint())),
    ];
    error(e.code().code(), e.message(), &fields)
}

macro_rules! check {
    ($name:expr, $work:expr) => {
        report(&$name, async { Ok::<_, Error>($work) }.await, told)
    };
}

async fn value<T: ToSql + Sync + Debug + for<'a> FromSql<'a>>(client: &Client, name: &str, value: T) {
    check!(
        format!("value {name}"),
        client.query_one(&format!("SELECT $1::{name}"), &[&value]).await?.get::<_, Option<T>>(0)
    );
}

async fn types(client: &Client) {
    value(client, "bool", true).await;
    value(client, "int2", 5i16).await;
    value(client, "int4", -6i32).await;
    value(client, "int8", 1i64 << 40).await;
    value(client, "float4", 1.5f32).await;
    value(client, "float8", 0.1f64).await;
    value(client, "text", "ä".to_owned()).await;
    value(client, "varchar(3)", "abc".to_owned()).await;
    value(client, "bytea", vec![0u8, 255]).await;
    value(client, "date", chrono::NaiveDate::MIN.with_year(2026)).await;
    value(client, "time", chrono::NaiveTime::MIN).await;
    value(client, "timestamp", chrono::DateTime::UNIX_EPOCH.naive_utc()).await;
    value(client, "timestamptz", chrono::DateTime::<chrono::Utc>::UNIX_EPOCH).await;
    value(client, "uuid", uuid::Uuid::from_u128(5)).await;
    value(client, "jsonb", serde_json::json!({"a": [1]})).await;
    value(client, "int4[]", vec![1i32, 2]).await;
    value(client, "text[]", vec!["a".to_owned()]).await;
}

use chrono::Datelike;

async fn statements(client: &mut Client) {
    check!("batch_execute", client.batch_execute("CREATE TABLE users (id int PRIMARY KEY, name text UNIQUE); INSERT INTO users VALUES (1, 'Ann')").await?);
    check!("prepare", {
        let statement = client.prepare_typed("SELECT name FROM users WHERE id = $1", &[Type::INT4]).await?;
        (statement.params().to_vec(), client.query_one(&statement, &[&1i32]).await?.get::<_, String>(0))
    });
    check!("simple_query", client.simple_query("SELECT 1; SELECT 'x'").await?.len());
    check!("pipelined", {
        let one = client.query("SELECT 1", &[]);
        let two = client.query("SELECT 2", &[]);
        let (one, two) = tokio::join!(one, two);
        (one?[0].get::<_, i32>(0), two?[0].get::<_, i32>(0))
    });
    check!("portal", {
        let transaction = client.transaction().await?;
        let portal = transaction.bind("SELECT i FROM generate_series(1, 20) AS s(i)", &[]).await?;
        let first = transaction.query_portal(&portal, 7).await?.len();
        (first, transaction.query_portal(&portal, 0).await?.len())
    });
    check!("copy in", {
        let sink = client.copy_in("COPY users FROM STDIN").await?;
        pin_mut!(sink);
        sink.send(bytes(b"2\tBob\n3\t\\N\n")).await?;
        sink.finish().await?
    });
    check!("binary copy in", {
        let sink = client.copy_in("COPY users FROM STDIN BINARY").await?;
        let writer = BinaryCopyInWriter::new(sink, &[Type::INT4, Type::TEXT]);
        pin_mut!(writer);
        writer.as_mut().write(&[&10i32, &"ten"]).await?;
        writer.as_mut().write(&[&11i32, &None::<&str>]).await?;
        writer.finish().await?
    });
    check!("binary copy out", {
        let stream =
            client.copy_out("COPY (SELECT id, name FROM users ORDER BY id) TO STDOUT BINARY").await?;
        let rows: Vec<_> = BinaryCopyOutStream::new(stream, &[Type::INT4, Type::TEXT]).try_collect().await?;
        rows.iter().map(|row| (row.get::<i32>(0), row.get::<Option<String>>(1))).collect::<Vec<_>>()
    });
    check!("savepoint", {
        let mut transaction = client.transaction().await?;
        let inner = transaction.savepoint("s").await?;
        let failed = inner.execute("INSERT INTO users VALUES (1, 'again')", &[]).await.map_err(told).err();
        inner.rollback().await?;
        transaction.commit().await?;
        failed
    });
}

fn bytes(text: &'static [u8]) -> std::io::Cursor<&'static [u8]> {
    std::io::Cursor::new(text)
}

async fn errors(client: &Client) {
    for sql in [
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM users",
        "INSERT INTO users VALUES (1, 'x')",
        "INSERT INTO users VALUES (NULL, 'x')",
        "SELECT 1/0",
    ] {
        check!(format!("error of {sql}"), client.query(sql, &[]).await?.len());
    }
    check!("cancel", {
        let token = client.cancel_token();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await
        });
        client.query("SELECT pg_sleep(20)", &[]).await?.len()
    });
}

#[tokio::main]
async fn main() {
    let set = |name: &str| std::env::var(name).expect("the runner sets it");
    let config = format!(
        "host={} port={} user={} dbname={}",
        set("PGHOST"),
        set("PGPORT"),
        set("PGUSER"),
        set("PGDATABASE")
    );
    let (mut client, mut connection) =
        tokio_postgres::connect(&config, NoTls).await.expect("the server answers");
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = sender.send((notification.channel().to_owned(), notification.payload().to_owned()));
            }
        }
    });
    types(&client).await;
    statements(&mut client).await;
    errors(&client).await;
    check!("listen", {
        client.batch_execute("LISTEN news; NOTIFY news, 'hello'").await?;
        tokio::time::timeout(Duration::from_secs(3), heard.recv()).await.ok()
    });
}
