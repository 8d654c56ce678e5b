"""ADBC's driver for PostgreSQL, by its DBAPI: rows as Arrow tables, which it reads and loads by binary COPY."""

import datetime

import adbc_driver_postgresql.dbapi
import pyarrow
from report import check, host

TABLE = pyarrow.table(
    {
        "i": pyarrow.array([1, None, 3], pyarrow.int32()),
        "l": pyarrow.array([1 << 40, 2, None], pyarrow.int64()),
        "f": pyarrow.array([0.5, None, float("inf")], pyarrow.float64()),
        "t": pyarrow.array(["a", "", None]),
        "b": pyarrow.array([True, False, None]),
        "d": pyarrow.array([datetime.date(2026, 1, 1), None, datetime.date(1969, 12, 31)]),
        "ts": pyarrow.array([datetime.datetime(2026, 1, 1), None, None], pyarrow.timestamp("us")),
        "x": pyarrow.array([b"\0", None, b""]),
    }
)


def main():
    where, port, user, database = host()
    with adbc_driver_postgresql.dbapi.connect(f"postgresql://{user}@{where}:{port}/{database}", autocommit=True) as connection:
        cursor = connection.cursor()

        def arrow(statement, parameters=None):
            cursor.execute(statement, parameters)
            found = cursor.fetch_arrow_table()
            return str(found.schema.remove_metadata()), str(found.to_pylist())

        check("ingest", lambda: cursor.adbc_ingest("ingested", TABLE, mode="create"))
        check("ingest append", lambda: cursor.adbc_ingest("ingested", TABLE, mode="append"))
        check("read", lambda: arrow("SELECT * FROM ingested"))
        for typed in ("1::smallint", "1::int", "1::bigint", "1.5::real", "1.5::float8", "1.50::numeric(5,2)", "'x'::text", "'x'::varchar(3)", "'x'::char(3)", "true", "'\\x01'::bytea", "'2026-01-01'::date",
                      "'2026-01-01 01:02:03'::timestamp", "'2026-01-01 01:02:03+00'::timestamptz", "'01:02:03'::time", "'1 day'::interval", "'00000000-0000-0000-0000-000000000001'::uuid", "'{1,2}'::int[]", "'{a}'::text[]", "'{\"a\": 1}'::jsonb", "NULL"):
            check(f"read {typed}", lambda typed=typed: arrow(f"SELECT {typed} AS v"))
        check("parameters", lambda: arrow("SELECT t FROM ingested WHERE i = $1", (1,)))
        check("executemany", lambda: cursor.executemany("INSERT INTO ingested (i, t) VALUES ($1, $2)", [(10, "x"), (11, "y")]))
        check("aggregate", lambda: arrow("SELECT t, count(*) AS n FROM ingested GROUP BY t ORDER BY t"))
        check("update", lambda: (cursor.execute("UPDATE ingested SET l = 0 WHERE i = 1"), cursor.rowcount)[1])
        check("get_table_schema", lambda: str(connection.adbc_get_table_schema("ingested").remove_metadata()))
        check("get_objects", lambda: str(objects(connection)))
        check("get_table_types", lambda: sorted(connection.adbc_get_table_types()))
        check("error", lambda: arrow("SELECT nothing FROM ingested"))
        check("unique", lambda: (cursor.execute("CREATE TABLE u (i int PRIMARY KEY)"), cursor.execute("INSERT INTO u VALUES (1), (1)")))
    with adbc_driver_postgresql.dbapi.connect(f"postgresql://{user}@{where}:{port}/{database}") as connection:
        with connection.cursor() as cursor:
            check("transaction", lambda: (cursor.execute("INSERT INTO u VALUES (5)"), cursor.rowcount)[1])
            check("rollback", connection.rollback)
            check("after rollback", lambda: (cursor.execute("SELECT count(*) FROM u"), cursor.fetchall())[1])


def objects(connection):
    found = connection.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="ingested").read_all().to_pylist()
    tables = [table for catalog in found for schema in catalog["catalog_db_schemas"] or [] for table in schema["db_schema_tables"] or []]
    return [(t["table_name"], t["table_type"], [(c["column_name"], c["ordinal_position"]) for c in t["table_columns"] or []], t["table_constraints"]) for t in tables]


main()
