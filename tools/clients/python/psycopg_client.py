"""psycopg 3: what its documentation shows, in the order of its chapters."""

import datetime
import decimal
import ipaddress
import threading
import time
import uuid

import psycopg
from psycopg import sql
from psycopg.rows import class_row, dict_row, namedtuple_row
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range
from report import check

SCALARS = {
    "boolean": [True, False],
    "smallint": [-32768],
    "integer": [2147483647],
    "bigint": [-9223372036854775808],
    "real": [1.5],
    "double precision": [0.1, float("nan"), float("inf")],
    "numeric": [decimal.Decimal("12345678901234567890.123"), decimal.Decimal("NaN")],
    "numeric(10,2)": [decimal.Decimal("-3.10")],
    "text": ["naïve ☃", ""],
    "varchar(10)": ["abc"],
    "char(5)": ["ab"],
    "bytea": [b"\x00\xff\\", b""],
    "date": [datetime.date(2026, 2, 28), datetime.date(1, 1, 1)],
    "time": [datetime.time(1, 2, 3, 456)],
    "timetz": [datetime.time(1, 2, 3, tzinfo=datetime.timezone.utc)],
    "timestamp": [datetime.datetime(1999, 12, 31, 23, 59, 59, 999999)],
    "timestamptz": [datetime.datetime(2026, 6, 1, 12, tzinfo=datetime.timezone.utc)],
    "interval": [datetime.timedelta(days=3, seconds=5, microseconds=7)],
    "uuid": [uuid.UUID("0123456789abcdef0123456789abcdef")],
    "json": [Json({"a": [1, None, "x"]})],
    "jsonb": [Jsonb({"b": 2, "a": 1})],
    "inet": [ipaddress.ip_address("10.0.0.1")],
    "integer[]": [[1, 2, None], []],
    "text[]": [["a", "b,c", None]],
    "timestamp[]": [[datetime.datetime(2026, 1, 1)]],
    "int4range": [Range(1, 5)],
    "oid": [4000000000],
    "name": ["a_name"],
}


def types(connection):
    for name, values in SCALARS.items():
        for number, value in enumerate(values):
            for binary in (False, True):
                form = "binary" if binary else "text"
                check(f"type {name} {number} {form}", one, connection, f"SELECT %s::{name}", value, binary)
        check(f"column {name}", round_trip, connection, name, values)


def one(connection, statement, value, binary):
    with connection.cursor(binary=binary) as cursor:
        return cursor.execute(statement, [value]).fetchone()


def round_trip(connection, name, values):
    with connection.transaction():
        connection.execute(f"CREATE TABLE column_of_type (id int PRIMARY KEY, value {name})")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO column_of_type VALUES (%s, %s)", list(enumerate(values)) + [(99, None)]
            )
            found = cursor.execute("SELECT value FROM column_of_type ORDER BY id").fetchall()
        connection.execute("DROP TABLE column_of_type")
    return found


def rows(connection):
    connection.execute("CREATE TABLE person (id serial PRIMARY KEY, name text NOT NULL, born date)")
    insert = "INSERT INTO person (name, born) VALUES (%s, %s) RETURNING id"
    check("returning", lambda: connection.execute(insert, ["Ann", datetime.date(1990, 1, 2)]).fetchone())
    named = "INSERT INTO person (name, born) VALUES (%(name)s, %(born)s)"
    check("named parameters", lambda: connection.execute(named, {"name": "Bob", "born": None}).statusmessage)

    def many():
        with connection.cursor() as cursor:
            cursor.executemany(insert, [("C", None), ("D", None)], returning=True)
            found = []
            for result in cursor.results() if hasattr(cursor, "results") else [cursor]:
                found += result.fetchall()
            return found

    check("executemany returning", many)
    query = "SELECT id, name FROM person ORDER BY id"
    check("dict_row", lambda: connection.cursor(row_factory=dict_row).execute(query).fetchmany(2))
    check("namedtuple_row", lambda: connection.cursor(row_factory=namedtuple_row).execute(query).fetchall()[0].name)

    class Person:
        def __init__(self, id, name):
            self.id, self.name = id, name

    check("class_row", lambda: connection.cursor(row_factory=class_row(Person)).execute(query).fetchone().name)
    composed = sql.SQL("SELECT {} FROM {} WHERE id = {}").format(
        sql.Identifier("name"), sql.Identifier("public", "person"), sql.Literal(1)
    )
    check("sql.SQL", lambda: connection.execute(composed).fetchall())
    check("any(list)", lambda: connection.execute("SELECT name FROM person WHERE id = ANY(%s) ORDER BY 1", [[1, 2]]).fetchall())
    check("description", lambda: [(c.name, c.type_code, c.type_display) for c in connection.execute("SELECT id, name, born FROM person").description])
    check("several statements", lambda: connection.execute("SELECT 1; SELECT 2").nextset())
    check("rowcount", lambda: connection.execute("UPDATE person SET born = now()::date").rowcount)
    check("values", lambda: connection.execute("SELECT * FROM (VALUES (%s, %s), (%s, %s)) v (a, b)", [1, "x", 2, "y"]).fetchall())


def server_cursors(connection):
    def named():
        with connection.cursor(name="big", scrollable=True) as cursor:
            cursor.itersize = 10
            cursor.execute("SELECT i FROM generate_series(1, 100) AS s(i)")
            head = cursor.fetchmany(3)
            cursor.scroll(50)
            middle = cursor.fetchone()
            cursor.scroll(0, mode="absolute")
            return head, middle, sum(i for (i,) in cursor)

    def with_hold():
        with connection.cursor(name="held", withhold=True) as cursor:
            cursor.execute("SELECT i FROM generate_series(1, 5) AS s(i)")
            connection.commit()
            return cursor.fetchall()

    connection.autocommit = False
    check("server cursor", named)
    connection.rollback()
    check("server cursor with hold", with_hold)
    connection.rollback()
    check("server cursor with parameters", lambda: connection.cursor(name="p").execute("SELECT %s::text || i FROM generate_series(1, 2) AS s(i)", ["x"]).fetchall())
    connection.rollback()
    check("client cursor", lambda: psycopg.ClientCursor(connection).execute("SELECT %s, %s::date, %s", ["o'x", datetime.date(2026, 1, 1), None]).fetchone())
    connection.rollback()
    check("stream", lambda: list(connection.cursor().stream("SELECT i FROM generate_series(1, %s) AS s(i)", [3])))
    connection.rollback()
    connection.autocommit = True


def copying(connection):
    connection.execute("CREATE TABLE copied (id int, name text, at timestamp)")

    def put(options, types=None):
        connection.execute("TRUNCATE copied")
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY copied FROM STDIN {options}") as copy:
                if types:
                    copy.set_types(types)
                copy.write_row([1, "tab\tand\nline", datetime.datetime(2026, 1, 1)])
                copy.write_row([2, None, None])
            return cursor.rowcount, cursor.execute("SELECT * FROM copied ORDER BY id").fetchall()

    def take(options, types=None):
        with connection.cursor() as cursor, cursor.copy(f"COPY copied TO STDOUT {options}") as copy:
            if types:
                copy.set_types(types)
            return list(copy.rows())

    check("copy in text", put, "")
    check("copy in binary", put, "(FORMAT binary)", ["int4", "text", "timestamp"])
    check("copy out text", take, "", ["int4", "text", "timestamp"])
    check("copy out binary", take, "(FORMAT binary)", ["int4", "text", "timestamp"])

    def raw(statement):
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            return b"".join(bytes(block) for block in copy)

    check("copy out csv", raw, "COPY copied TO STDOUT (FORMAT csv, HEADER)")
    check("copy out query", raw, "COPY (SELECT id * 2 FROM copied ORDER BY 1) TO STDOUT")

    def broken():
        with connection.cursor() as cursor, cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write("x\ty\tz\n")

    check("copy in of garbage", broken)

    def left():
        with connection.cursor() as cursor, cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write("7\t\\N\t\\N\n")
            raise ValueError("left")

    check("copy in that is left", left)


def transactions(connection):
    def nested():
        with connection.transaction():
            connection.execute("INSERT INTO person (name) VALUES ('outer')")
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO person (name) VALUES ('inner')")
                    connection.execute("INSERT INTO person (name) VALUES (NULL)")
            except psycopg.errors.NotNullViolation as error:
                seen = error.diag.column_name
            return seen, connection.execute("SELECT name FROM person WHERE name IN ('outer', 'inner')").fetchall()

    check("nested transactions", nested)

    def isolation():
        with psycopg.connect() as other:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.read_only, other.deferrable = True, True
            level = other.execute("SHOW transaction_isolation").fetchone()
            return level, other.execute("SHOW transaction_read_only").fetchone(), other.info.transaction_status.name

    check("isolation level", isolation)

    def failed():
        with psycopg.connect() as other:
            try:
                other.execute("SELECT 1/0")
            except psycopg.errors.DivisionByZero:
                pass
            status = other.info.transaction_status.name
            try:
                other.execute("SELECT 1")
            except psycopg.Error as error:
                return status, error.sqlstate

    check("failed transaction", failed)

    def two_phase():
        with psycopg.connect() as other:
            other.tpc_begin(other.xid(1, "gtrid", "bqual"))
            other.tpc_rollback()

    check("two-phase commit", two_phase)


def pipelines(connection):
    def pipeline():
        with connection.pipeline() as pipe:
            first = connection.execute("INSERT INTO person (name) VALUES ('piped') RETURNING name")
            second = connection.execute("SELECT count(*) FROM person WHERE name = 'piped'")
            pipe.sync()
            return first.fetchone(), second.fetchone()

    def aborted():
        with connection.pipeline():
            connection.execute("INSERT INTO person (name) VALUES ('lost')")
            connection.execute("SELECT no_such_column FROM person")
            connection.execute("SELECT 1").fetchone()

    check("pipeline", pipeline)
    check("pipeline aborted", aborted)
    check("pipeline left nothing", lambda: connection.execute("SELECT count(*) FROM person WHERE name = 'lost'").fetchone())

    def prepared():
        for i in range(12):
            connection.execute("SELECT name FROM person WHERE id = %s", [i])
        return connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()

    check("prepared statements", prepared)
    check("prepare=True", lambda: connection.execute("SELECT %s::int + 1", [4], prepare=True).fetchone())


def errors(connection):
    statements = [
        "SELEC 1",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM person",
        "SELECT nofunction(1)",
        "INSERT INTO person (id, name) VALUES (1, 'again')",
        "INSERT INTO person (name) VALUES (NULL)",
        "SELECT 'x'::int",
        "SELECT 1 / 0",
        "SELECT 2147483647 + 1",
        "SELECT 'abc' + 1",
        "INSERT INTO checked VALUES (-1, 1)",
        "INSERT INTO checked VALUES (1, 99)",
        "CREATE TABLE person (id int)",
        "SELECT count(*), name FROM person",
        "SELECT 300::smallint::char(2)",
        "INSERT INTO short VALUES ('abcdef')",
        "DROP TABLE parent",
        "DO $$ BEGIN RAISE EXCEPTION 'by hand' USING ERRCODE = 'AB123'; END $$",
    ]
    for statement in (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE checked (amount int CHECK (amount > 0), parent int)",
        "ALTER TABLE checked ADD CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent (id)",
        "CREATE TABLE short (text varchar(3))",
    ):
        check(f"define: {statement}", lambda text=statement: connection.execute(text).statusmessage)
    for statement in statements:
        check(f"error of {statement}", lambda text=statement: connection.execute(text).fetchall())


def others(connection):
    def cancel():
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        try:
            connection.execute("SELECT pg_sleep(20)")
        finally:
            timer.join()

    check("cancel", cancel)

    def notices():
        seen = []
        connection.add_notice_handler(lambda notice: seen.append((notice.severity, notice.sqlstate, notice.message_primary)))
        connection.execute("DROP TABLE IF EXISTS no_such_table")
        return seen

    check("notices", notices)

    def notify():
        with psycopg.connect(autocommit=True) as listener:
            listener.execute("LISTEN mine")
            connection.execute("NOTIFY mine, 'first'")
            with connection.transaction():
                connection.execute("SELECT pg_notify('mine', 'second')")
            return [(n.channel, n.payload) for n in listener.notifies(timeout=5, stop_after=2)]

    check("listen and notify", notify)

    def rolled_back():
        with psycopg.connect(autocommit=True) as listener:
            listener.execute("LISTEN mine")
            with connection.transaction(force_rollback=True):
                connection.execute("NOTIFY mine, 'lost'")
            connection.execute("NOTIFY mine, 'kept'")
            listener.execute("UNLISTEN *")
            connection.execute("NOTIFY mine, 'late'")
            return [(n.channel, n.payload) for n in listener.notifies(timeout=0.5)]

    check("notify rolled back, unlisten", rolled_back)
    check("backend pid", lambda: connection.execute("SELECT pg_backend_pid()").fetchone()[0] == connection.info.backend_pid)

    def terminate():
        with psycopg.connect(autocommit=True) as victim:
            connection.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
            time.sleep(0.3)
            victim.execute("SELECT 1")

    check("terminate a backend", terminate)
    check("server version", lambda: connection.info.server_version // 10000)
    names = ["server_version", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes", "standard_conforming_strings", "is_superuser", "session_authorization", "application_name", "IntervalStyle", "in_hot_standby", "default_transaction_read_only"]
    for name in names[1:]:
        check(f"parameter {name}", lambda name=name: connection.info.parameter_status(name))
    check("type of enum", lambda: [connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')").statusmessage, str(psycopg.types.enum.EnumInfo.fetch(connection, "mood").labels)])
    check("type of composite", lambda: psycopg.types.composite.CompositeInfo.fetch(connection, "person").field_names)
    check("TypeInfo", lambda: [(i.oid, i.array_oid) for i in [psycopg.types.TypeInfo.fetch(connection, "text")]])


def main():
    import psycopg.types.composite, psycopg.types.enum  # noqa: E401, F401

    with psycopg.connect(autocommit=True) as connection:
        check("connect", lambda: (connection.info.dbname, connection.info.user, connection.info.encoding))
        for part in (types, rows, server_cursors, copying, transactions, pipelines, errors, others):
            check(f"part {part.__name__}", part, connection)


main()
