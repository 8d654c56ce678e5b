//! Checks of sqlx.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use clients::{error, report};
use futures_util::TryStreamExt;
use rust_decimal::Decimal;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgListener, PgPool, PgPoolOptions};
use sqlx::{Acquire, Connection, Executor, FromRow, Row};
use std::time::Duration;
use uuid::Uuid;

fn told(failed: sqlx::Error) -> String {
    let sqlx::Error::Database(database) = &failed else { return format!("error {failed}") };
    let e = database.downcast_ref::<PgDatabaseError>();
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let fields = [
        ("schema", owned(e.schema())),
        ("table", owned(e.table())),
        ("column", owned(e.column())),
        ("constraint", owned(e.constraint())),
        ("detail", owned(e.detail())),
        ("hint", owned(e.hint())),
    ];
    error(e.code(), e.message(), &fields)
}

macro_rules! check {
    ($name:expr, $work:expr) => {
        report(&$name, async { Ok::<_, sqlx::Error>($work) }.await, told)
    };
}

macro_rules! value {
    ($pool:expr, $name:literal, $value:expr, $type:ty) => {
        check!(
            concat!("value ", $name),
            sqlx::query_as::<_, (Option<$type>,)>(sqlx::AssertSqlSafe(concat!("SELECT $1::", $name)))
                .bind($value)
                .fetch_one($pool)
                .await?
        );
    };
}

async fn types(pool: &PgPool) {
    value!(pool, "bool", true, bool);
    value!(pool, "int2", 5i16, i16);
    value!(pool, "int4", -6i32, i32);
    value!(pool, "int8", 1i64 << 40, i64);
    value!(pool, "float4", 1.5f32, f32);
    value!(pool, "float8", 0.1f64, f64);
    value!(pool, "numeric", Decimal::new(150, 2), Decimal);
    value!(pool, "text", "ä", String);
    value!(pool, "varchar(3)", "abc", String);
    value!(pool, "char(4)", "ab", String);
    value!(pool, "bytea", vec![0u8, 255], Vec<u8>);
    value!(pool, "date", NaiveDate::from_ymd_opt(2026, 1, 2), NaiveDate);
    value!(pool, "time", NaiveTime::from_hms_opt(1, 2, 3), NaiveTime);
    value!(pool, "timestamp", DateTime::UNIX_EPOCH.naive_utc(), NaiveDateTime);
    value!(pool, "timestamptz", DateTime::<Utc>::UNIX_EPOCH, DateTime<Utc>);
    value!(pool, "uuid", Uuid::from_u128(5), Uuid);
    value!(pool, "json", serde_json::json!({"a": 1}), serde_json::Value);
    value!(pool, "jsonb", serde_json::json!({"b": [1]}), serde_json::Value);
    value!(pool, "int4[]", vec![1i32, 2], Vec<i32>);
    value!(pool, "text[]", vec!["a".to_owned(), "b,c".to_owned()], Vec<String>);
}

#[derive(Debug, FromRow)]
#[allow(dead_code)]
struct User {
    id: i32,
    name: String,
    born: Option<NaiveDate>,
}

async fn statements(pool: &PgPool) {
    check!("create", pool.execute("CREATE TABLE users (id serial PRIMARY KEY, name text NOT NULL UNIQUE, born date, amount numeric(8,2) CHECK (amount >= 0))").await?.rows_affected());
    check!(
        "insert",
        sqlx::query_scalar::<_, i32>("INSERT INTO users (name, amount) VALUES ($1, $2) RETURNING id")
            .bind("Ann")
            .bind(Decimal::ONE)
            .fetch_one(pool)
            .await?
    );
    check!(
        "unnest",
        sqlx::query("INSERT INTO users (name) SELECT * FROM unnest($1::text[])")
            .bind(vec!["Bob".to_owned(), "Cid".to_owned()])
            .execute(pool)
            .await?
            .rows_affected()
    );
    check!("fill", pool.execute("INSERT INTO users (name) VALUES ('Dee'), ('Eve')").await?.rows_affected());
    check!(
        "query_as",
        sqlx::query_as::<_, User>("SELECT id, name, born FROM users WHERE name = $1")
            .bind("Ann")
            .fetch_all(pool)
            .await?
    );
    check!(
        "stream",
        sqlx::query("SELECT i FROM generate_series(1, 50) AS s(i)")
            .fetch(pool)
            .try_fold(0, |sum, row| async move { Ok(sum + row.get::<i32, _>(0)) })
            .await?
    );
    check!(
        "any",
        sqlx::query_scalar::<_, String>("SELECT name FROM users WHERE name = ANY($1) ORDER BY 1")
            .bind(vec!["Ann".to_owned(), "Dee".to_owned()])
            .fetch_all(pool)
            .await?
    );
    check!("several", sqlx::raw_sql("SELECT 1; SELECT 2").fetch_all(pool).await?.len());
    check!("describe", {
        use sqlx::SqlSafeStr;
        let described =
            pool.describe("SELECT id, name, now() AS at FROM users WHERE id = $1".into_sql_str()).await?;
        (
            described.columns().iter().map(|c| format!("{c:?}").len() > 0).count(),
            (0..3).map(|i| described.nullable(i)).collect::<Vec<_>>(),
        )
    });
    check!("copy in", {
        let mut connection = pool.acquire().await?;
        let mut copy = connection.copy_in_raw("COPY users (name) FROM STDIN").await?;
        copy.send(&b"Fay\nGil\n"[..]).await?;
        copy.finish().await?
    });
    check!("copy out", {
        let mut connection = pool.acquire().await?;
        let parts: Vec<_> = connection
            .copy_out_raw("COPY (SELECT name FROM users ORDER BY id) TO STDOUT (FORMAT csv)")
            .await?
            .try_collect()
            .await?;
        String::from_utf8(parts.concat()).unwrap()
    });
}

async fn transactions(pool: &PgPool) {
    check!("savepoint", {
        let mut outer = pool.begin().await?;
        sqlx::query("INSERT INTO users (name) VALUES ('outer')").execute(&mut *outer).await?;
        let mut inner = outer.begin().await?;
        let failed = sqlx::query("INSERT INTO users (name) VALUES ('outer')")
            .execute(&mut *inner)
            .await
            .map_err(told)
            .err();
        inner.rollback().await?;
        outer.commit().await?;
        (
            failed,
            sqlx::query_scalar::<_, i64>("SELECT count(*) FROM users WHERE name = 'outer'")
                .fetch_one(pool)
                .await?,
        )
    });
}

async fn errors(pool: &PgPool) {
    for sql in [
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM users",
        "INSERT INTO users (name) VALUES ('Ann')",
        "INSERT INTO users (born) VALUES (NULL)",
        "INSERT INTO users (name, amount) VALUES ('n', -1)",
        "SELECT 1/0",
        "SELECT 'x'::int",
    ] {
        check!(format!("error of {sql}"), sqlx::query(sql).fetch_all(pool).await?.len());
    }
    check!(
        "kinds",
        match sqlx::query("INSERT INTO users (name) VALUES ('Ann')").execute(pool).await {
            Err(sqlx::Error::Database(e)) => (e.is_unique_violation(), e.constraint().map(str::to_owned)),
            _ => (false, None),
        }
    );
}

async fn others(pool: &PgPool) {
    check!("listen", {
        let mut listener = PgListener::connect_with(pool).await?;
        listener.listen("news").await?;
        sqlx::query("SELECT pg_notify('news', $1)").bind("hello").execute(pool).await?;
        let heard = tokio::time::timeout(Duration::from_secs(3), listener.recv())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)??;
        (heard.channel().to_owned(), heard.payload().to_owned())
    });
    check!("ping", pool.acquire().await?.ping().await?);
    check!("advisory lock", {
        let lock = sqlx::postgres::PgAdvisoryLock::new("of a check");
        let guard = lock.acquire(pool.acquire().await?).await?;
        guard.release_now().await.map(|_| true)?
    });
}

#[tokio::main]
async fn main() {
    let pool = PgPoolOptions::new()
        .max_connections(4)
        .connect_with(PgConnectOptions::new())
        .await
        .expect("the server answers");
    types(&pool).await;
    statements(&pool).await;
    transactions(&pool).await;
    errors(&pool).await;
    others(&pool).await;
    pool.close().await;
}
