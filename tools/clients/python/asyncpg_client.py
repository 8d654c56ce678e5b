"""asyncpg: what its documentation shows."""

import asyncio
import datetime
import decimal
import io
import ipaddress
import uuid

import asyncpg
from report import describe, line, shown

VALUES = {
    "bool": [True], "int2": [-7], "int4": [7], "int8": [1 << 40], "float4": [1.5], "float8": [0.1], "numeric": [decimal.Decimal("1.50")],
    "text": ["☃"], "varchar(5)": ["abc"], "char(4)": ["ab"], "bytea": [b"\0\1"], "date": [datetime.date(2026, 1, 1)],
    "timestamp": [datetime.datetime(2026, 1, 1, 2, 3, 4, 5)], "timestamptz": [datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)],
    "time": [datetime.time(1, 2, 3)], "interval": [datetime.timedelta(days=2, seconds=3)], "uuid": [uuid.UUID(int=5)], "json": ['{"a": 1}'],
    "jsonb": ['{"a": 1}'], "inet": [ipaddress.ip_interface("10.0.0.1/8")], "int4[]": [[1, None, 3]], "text[]": [["a", "b"]], "int4range": [asyncpg.Range(1, 4)], "oid": [17], "name": ["n"],
}


async def check(name, work):
    try:
        line(name, shown(await work))
    except Exception as error:  # noqa: BLE001
        line(name, describe(error))


async def types(connection):
    for name, values in VALUES.items():
        for value in values:
            await check(f"value {name}", connection.fetchval(f"SELECT $1::{name}", value))

            async def column():
                async with connection.transaction():
                    await connection.execute(f"CREATE TABLE typed (value {name})")
                    await connection.execute("INSERT INTO typed VALUES ($1), (NULL)", value)
                    found = [tuple(row) for row in await connection.fetch("SELECT value FROM typed")]
                    await connection.execute("DROP TABLE typed")
                    return found

            await check(f"column {name}", column())


async def statements(connection):
    await check("execute", connection.execute("CREATE TABLE users (id serial PRIMARY KEY, name text UNIQUE, dob date)"))
    await check("insert", connection.execute("INSERT INTO users (name, dob) VALUES ($1, $2)", "Bob", datetime.date(1984, 3, 1)))
    await check("fetchrow", get(connection.fetchrow("SELECT * FROM users WHERE name = $1", "Bob")))
    await check("executemany", connection.executemany("INSERT INTO users (name) VALUES ($1)", [("x",), ("y",)]))
    await check("fetchval column", connection.fetchval("SELECT id, name FROM users WHERE id = $1", 1, column=1))
    await check("any", lists(connection.fetch("SELECT name FROM users WHERE id = ANY($1::int[]) ORDER BY id", [1, 2])))
    await check("inferred", connection.fetchval("SELECT 2 ^ $1", 10))
    await check("limit", lists(connection.fetch("SELECT name FROM users ORDER BY id LIMIT $1 OFFSET $2", 2, 1)))
    await check("unnest", lists(connection.fetch("INSERT INTO users (name) SELECT n FROM unnest($1::text[]) AS n RETURNING name", ["u", "v"])))
    await check("unnest of two", lists(connection.fetch("SELECT * FROM unnest($1::int[], $2::text[]) AS t(a, b)", [1, 2], ["p", "q"])))

    async def prepared():
        statement = await connection.prepare("SELECT id, name, dob FROM users WHERE id = $1")
        return (
            [a.name for a in statement.get_attributes()], [a.type.name for a in statement.get_attributes()],
            [p.name for p in statement.get_parameters()], tuple(await statement.fetchrow(1))[1:], statement.get_statusmsg(),
        )

    await check("prepared", prepared())

    async def explained():
        statement = await connection.prepare("SELECT id FROM users")
        return "Plan" in (await statement.explain())[0], "Actual Rows" in (await statement.explain(analyze=True))[0]["Plan"]

    await check("explain", explained())

    async def cursor():
        async with connection.transaction():
            seen = [record[0] async for record in connection.cursor("SELECT i FROM generate_series(1, 120) AS s(i)", prefetch=7)]
            cursor = await connection.cursor("SELECT i FROM generate_series(1, 20) AS s(i)")
            await cursor.forward(5)
            return sum(seen), (await cursor.fetchrow())[0], [r[0] for r in await cursor.fetch(3)]

    await check("cursor", cursor())


async def get(awaited):
    return dict(await awaited)


async def lists(awaited):
    return [tuple(row) for row in await awaited]


async def copying(connection):
    await connection.execute("CREATE TABLE loaded (id int, name text, price numeric, at timestamptz)")
    records = [(1, "a", decimal.Decimal("1.25"), datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)), (2, None, None, None)]
    await check("copy_records_to_table", connection.copy_records_to_table("loaded", records=records))
    await check("copy_to_table", connection.copy_to_table("loaded", source=io.BytesIO(b"3,c,1.5,\n"), format="csv", null=""))

    async def out(work, **options):
        buffer = io.BytesIO()
        return await work(output=buffer, **options), buffer.getvalue()

    await check("copy_from_query", out(lambda **o: connection.copy_from_query("SELECT id, name FROM loaded WHERE id < $1 ORDER BY 1", 3, **o)))
    await check("copy_from_table", out(lambda **o: connection.copy_from_table("loaded", **o), format="csv", header=True))
    await check("copy_from_table binary", out(lambda **o: connection.copy_from_table("loaded", columns=["id"], **o), format="binary"))
    await check("copy bad records", connection.copy_records_to_table("loaded", records=[(1, 2, 3, 4)]))


async def transactions(connection):
    async def nested():
        async with connection.transaction():
            await connection.execute("INSERT INTO users (name) VALUES ('outer')")
            try:
                async with connection.transaction():
                    await connection.execute("INSERT INTO users (name) VALUES ('outer')")
            except asyncpg.UniqueViolationError as error:
                return error.sqlstate, error.constraint_name, error.table_name, error.schema_name, error.detail

    await check("nested", nested())
    for level in ("serializable", "repeatable_read", "read_committed"):

        async def shown_level(level=level):
            async with connection.transaction(isolation=level, readonly=True, deferrable=level == "serializable"):
                return await connection.fetchval("SHOW transaction_isolation"), await connection.fetchval("SHOW transaction_read_only")

        await check(f"isolation {level}", shown_level())

    async def serialization():
        other = await asyncpg.connect()
        try:
            first, second = connection.transaction(isolation="repeatable_read"), other.transaction(isolation="repeatable_read")
            await first.start()
            await second.start()
            await other.fetchval("SELECT count(*) FROM users")
            await connection.execute("UPDATE users SET dob = now()::date WHERE id = 1")
            await first.commit()
            try:
                await other.execute("UPDATE users SET dob = NULL WHERE id = 1")
            finally:
                await second.rollback()
        finally:
            await other.close()

    await check("serialization failure", serialization())


async def errors(connection):
    for statement in (
        "SELEC 1", "SELECT * FROM nowhere", "SELECT nothing FROM users", "INSERT INTO users (id) VALUES (1)", "SELECT 1/0", "SELECT 'x'::int",
        "SELECT $1::int", "INSERT INTO users (id, name) VALUES (NULL, 'z')",
    ):
        await check(f"error of {statement}", connection.execute(statement))


async def others(connection):
    await check("reset", connection.reset())
    await check("timeout", connection.fetch("SELECT pg_sleep(20)", timeout=0.3))
    await check("after timeout", connection.fetchval("SELECT 1"))

    async def listening():
        other = await asyncpg.connect()
        heard = asyncio.Queue()
        await connection.add_listener("news", lambda c, pid, channel, payload: heard.put_nowait((pid == other.get_server_pid(), channel, payload)))
        await other.execute("NOTIFY news, 'hello'")
        await other.execute("SELECT pg_notify('news', 'again')")
        found = [await asyncio.wait_for(heard.get(), 5) for _ in range(2)]
        await connection.reset()
        await other.close()
        return found

    await check("listen", listening())

    async def pool():
        async with asyncpg.create_pool(min_size=2, max_size=3) as pool:
            return sorted(await asyncio.gather(*[pool.fetchval("SELECT $1::int * 2", i) for i in range(9)]))

    await check("pool", pool())
    await check("settings", settings(connection))
    await check("enum", enum(connection))
    await check("codec", codec(connection))
    await check("composite", get(connection.fetchrow("SELECT u FROM users u WHERE id = 1")))
    await check("row", get(connection.fetchrow("SELECT ROW(1, 'x'::text) AS r")))
    await check("several", connection.execute("SELECT 1; SELECT 2"))


async def settings(connection):
    found = connection.get_settings()
    return found.server_encoding, found.client_encoding, found.integer_datetimes, connection.get_server_version().major


async def enum(connection):
    await connection.execute("CREATE TYPE colour AS ENUM ('red', 'green')")
    return await connection.fetchval("SELECT $1::colour", "red")


async def codec(connection):
    await connection.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
    return await connection.fetchval("SELECT '{}'::json")


async def main():
    connection = await asyncpg.connect()
    for part in (types, statements, copying, transactions, errors, others):
        await check(f"part {part.__name__}", part(connection))
    await asyncio.wait_for(connection.close(), 5)


asyncio.run(main())
