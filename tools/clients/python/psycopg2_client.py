"""psycopg2: what its users use."""

import datetime
import decimal
import io
import select
import threading
import uuid

import psycopg2
import psycopg2.errorcodes
import psycopg2.extensions
import psycopg2.extras
from psycopg2 import sql
from report import check

VALUES = [
    True, 5, -9223372036854775808, 1.5, float("inf"), decimal.Decimal("12.30"), "it's", b"\x00\xff", None,
    datetime.date(2026, 1, 2), datetime.time(1, 2, 3), datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc), datetime.timedelta(days=1, seconds=2),
    uuid.UUID(int=7), [1, 2], ["a", None], (1, 2),
]


def fetch(connection, statement, *parameters, factory=None):
    with connection.cursor(cursor_factory=factory) as cursor:
        cursor.execute(statement, parameters)
        found = cursor.fetchall() if cursor.description else [cursor.rowcount, cursor.statusmessage]
        return [tuple(bytes(v) if isinstance(v, memoryview) else v for v in r) if isinstance(r, tuple) else r for r in found]


def values(connection):
    psycopg2.extras.register_uuid()
    for value in VALUES:
        if isinstance(value, tuple):
            check("adapt tuple", fetch, connection, "SELECT i FROM generate_series(1, 3) AS s(i) WHERE i IN %s", value)
        else:
            check(f"adapt {value!r}", fetch, connection, "SELECT %s", value)
    check("adapt json", fetch, connection, "SELECT %s::jsonb", psycopg2.extras.Json({"b": [1], "a": None}))
    for typed in ("NULL::int", "1::numeric", "'x'::char(3)", "'{1,2}'::int[]", "'1 day'::interval", "'[1,2)'::int4range", "'{\"a\":1}'::json", "'\\x00'::bytea"):
        check(f"cast {typed}", fetch, connection, f"SELECT {typed}")


def statements(connection):
    check("create", fetch, connection, "CREATE TABLE item (id serial PRIMARY KEY, name varchar(20) UNIQUE, price numeric(8,2) NOT NULL CHECK (price >= 0))")
    check("insert", fetch, connection, "INSERT INTO item (name, price) VALUES (%s, %s) RETURNING id, price", "pen", decimal.Decimal("1.20"))
    connection.commit()

    def many():
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO item (name, price) VALUES (%s, %s)", [("a", 1), ("b", 2)])
            psycopg2.extras.execute_values(cursor, "INSERT INTO item (name, price) VALUES %s", [("c", 3), ("d", 4)])
            psycopg2.extras.execute_batch(cursor, "UPDATE item SET price = %s WHERE name = %s", [(5, "a"), (6, "b")])
            return cursor.rowcount

    check("executemany, execute_values, execute_batch", many)
    connection.commit()
    query = "SELECT name, price FROM item ORDER BY id"
    check("dict cursor", lambda: [dict(r) for r in fetch(connection, query, factory=psycopg2.extras.RealDictCursor)])
    check("named tuples", lambda: fetch(connection, query, factory=psycopg2.extras.NamedTupleCursor)[0].name)
    check("like", fetch, connection, "SELECT count(*) FROM item WHERE name LIKE %s", "%e%")
    check("upsert", fetch, connection, "INSERT INTO item (name, price) VALUES ('pen', 9) ON CONFLICT (name) DO UPDATE SET price = excluded.price RETURNING price")
    connection.commit()
    statement = sql.SQL("SELECT {field} FROM {table} WHERE {key} = %s").format(
        field=sql.Identifier("name"), table=sql.Identifier("item"), key=sql.Identifier("id"))
    check("composed", fetch, connection, statement, 1)
    check("mogrify", lambda: connection.cursor().mogrify("SELECT %s, %s", ("x", datetime.date(2026, 1, 1))))
    check("callproc", lambda: (lambda cursor: (cursor.callproc("upper", ["x"]), cursor.fetchall()))(connection.cursor()))

    def description():
        with connection.cursor() as cursor:
            cursor.execute("SELECT id, name, price, now() AS at FROM item LIMIT 1")
            return [(c.name, c.type_code, c.internal_size, c.precision, c.scale) for c in cursor.description]

    check("description", description)


def server_cursor(connection):
    def named():
        with connection.cursor("many", scrollable=True) as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT i FROM generate_series(1, %s) AS s(i)", [50])
            first = cursor.fetchmany(2)
            cursor.scroll(10)
            return first, cursor.fetchone(), sum(i for (i,) in cursor)

    check("named cursor", named)
    connection.commit()

    def hold():
        cursor = connection.cursor("held", withhold=True)
        cursor.execute("SELECT name FROM item ORDER BY id")
        connection.commit()
        found = cursor.fetchall()
        cursor.close()
        return found

    check("named cursor with hold", hold)
    connection.commit()


def copying(connection):
    def run():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE loaded (a int, b text, c numeric)")
            cursor.copy_from(io.StringIO("1\tx\t1.5\n2\t\\N\t\\N\n"), "loaded")
            cursor.copy_from(io.StringIO("3|y|2\n"), "loaded", sep="|", columns=("a", "b", "c"))
            cursor.copy_expert("COPY loaded FROM STDIN WITH (FORMAT csv, HEADER, NULL 'none')", io.StringIO('a,b,c\n4,"q,""r",none\n'))
            out, csv = io.StringIO(), io.StringIO()
            cursor.copy_to(out, "loaded", null="-")
            cursor.copy_expert("COPY (SELECT * FROM loaded ORDER BY a DESC) TO STDOUT WITH CSV", csv)
            return cursor.rowcount, out.getvalue(), csv.getvalue()

    check("copy", run)
    connection.commit()
    check("copy of a broken line", lambda: connection.cursor().copy_from(io.StringIO("1\tx\n"), "loaded"))
    connection.rollback()


def transactions(connection):
    def savepoints():
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT a")
            cursor.execute("INSERT INTO item (name, price) VALUES ('lost', 1)")
            cursor.execute("ROLLBACK TO SAVEPOINT a")
            cursor.execute("INSERT INTO item (name, price) VALUES ('kept', 1)")
            cursor.execute("RELEASE SAVEPOINT a")
        connection.commit()
        return fetch(connection, "SELECT name FROM item WHERE name IN ('lost', 'kept')")

    check("savepoints", savepoints)

    def with_block():
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO item (name, price) VALUES ('lost', 1)")
                cursor.execute("INSERT INTO item (name, price) VALUES ('pen', 1)")
        except psycopg2.IntegrityError as error:
            return error.pgcode, error.diag.constraint_name, connection.status == psycopg2.extensions.STATUS_READY

    check("with connection", with_block)
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "READ UNCOMMITTED"):

        def shown(level=level):
            connection.rollback()
            connection.set_session(isolation_level=level, readonly=True, deferrable=True)
            found = fetch(connection, "SHOW transaction_isolation"), fetch(connection, "SHOW transaction_read_only")
            connection.rollback()
            connection.set_session(isolation_level="DEFAULT", readonly=False, deferrable=False)
            return found

        check(f"set_session {level}", shown)
    connection.rollback()

    def two_phase():
        other = psycopg2.connect("")
        other.tpc_begin(other.xid(1, "a", "b"))
        other.tpc_prepare()

    check("two-phase commit", two_phase)


def errors(connection):
    for statement in (
        "SELEC 1", "SELECT * FROM nowhere", "INSERT INTO item (name) VALUES ('n')", "INSERT INTO item (name, price) VALUES ('pen', 1)",
        "INSERT INTO item (name, price) VALUES ('p', -1)", "INSERT INTO item (name, price) VALUES (repeat('x', 21), 1)",
        "SELECT 1/0", "SELECT 'x'::date", "INSERT INTO item (name, price) VALUES ('p', 1e9)", "SELECT a FROM (SELECT 1 AS a, 2 AS a) AS t",
        "DROP TABLE nowhere", "ALTER TABLE item ADD COLUMN name text", "SELECT upper(1, 2)", "SELECT item.x FROM item", "LOCK TABLE item IN EXCLUSIVE MODE NOWAIT",
    ):
        check(f"error of {statement}", fetch, connection, statement)
        connection.rollback()


def others(connection):
    def cancel():
        timer = threading.Timer(0.3, connection.cancel)
        timer.start()
        try:
            connection.cursor().execute("SELECT pg_sleep(20)")
        finally:
            timer.join()
            connection.rollback()

    check("cancel", cancel)

    def notices():
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS nowhere")
        connection.commit()
        return connection.notices

    check("notices", notices)

    def notify():
        connection.set_isolation_level(psycopg2.extensions.ISOLATION_LEVEL_AUTOCOMMIT)
        connection.cursor().execute("LISTEN channel")
        other = psycopg2.connect("")
        other.cursor().execute("NOTIFY channel, 'payload'")
        other.commit()
        other.close()
        select.select([connection], [], [], 5)
        connection.poll()
        return [(n.channel, n.payload) for n in connection.notifies]

    check("notify", notify)
    check("large object", lambda: connection.lobject(0, "w").write("x"))
    check("encoding", lambda: (connection.encoding, connection.server_version // 10000, connection.protocol_version))
    check("set encoding", lambda: connection.set_client_encoding("UTF8"))
    check("dsn", lambda: (connection.info.dbname, connection.info.status, connection.info.ssl_in_use))

    def wait():
        with psycopg2.connect("", async_=True) as other:
            while (state := other.poll()) != psycopg2.extensions.POLL_OK:
                select.select(*([[other], [], []] if state == psycopg2.extensions.POLL_READ else [[], [other], []]), 5)
            cursor = other.cursor()
            cursor.execute("SELECT 42")
            while other.poll() != psycopg2.extensions.POLL_OK:
                select.select([other], [], [], 5)
            return cursor.fetchone()

    def asynchronous():
        try:
            return wait()
        except psycopg2.ProgrammingError as error:
            return str(error)

    check("asynchronous", asynchronous)
    check("range type", lambda: psycopg2.extras.register_range("int8range", "IntRange", connection).name)
    check("composite", lambda: psycopg2.extras.register_composite("item", connection).attnames)
    check("hstore", lambda: psycopg2.extras.HstoreAdapter.get_oids(connection))


def main():
    connection = psycopg2.connect("")
    for part in (values, statements, server_cursor, copying, transactions, errors, others):

        def run(part=part):
            part(connection)

        connection.rollback()
        if part is values:
            connection.autocommit = True
            check("part values", run)
            connection.autocommit = False
        else:
            check(f"part {part.__name__}", run)


main()
