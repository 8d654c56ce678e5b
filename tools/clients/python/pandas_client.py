"""pandas: data frames to tables and back, over SQLAlchemy's psycopg and over ADBC."""

import io

import adbc_driver_postgresql.dbapi
import numpy
import pandas
import sqlalchemy
from report import check, host

FRAME = pandas.DataFrame(
    {
        "whole": [1, 2, 3],
        "small": numpy.array([1, 2, 3], dtype="int16"),
        "real": [0.5, None, 2.5],
        "name": ["a", None, "c'd"],
        "flag": [True, False, True],
        "at": pandas.to_datetime(["2026-01-01 00:00:00", "2026-02-03 04:05:06", None]),
        "zoned": pandas.to_datetime(["2026-01-01T00:00:00Z", "2026-02-03T04:05:06Z", None], utc=True),
        "kind": pandas.Categorical(["x", "y", "x"]),
    }
)


def text(frame):
    return str(frame.dtypes.to_dict()) + frame.to_csv()


def main():
    where, port, user, database = host()
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{user}@{where}:{port}/{database}")
    check("to_sql", lambda: FRAME.to_sql("frame", engine))
    check("to_sql append", lambda: FRAME.to_sql("frame", engine, if_exists="append", method="multi"))
    check("read_sql_table", lambda: text(pandas.read_sql_table("frame", engine)))
    check("read_sql_query", lambda: text(pandas.read_sql("SELECT name, count(*) AS n, avg(real) AS mean FROM frame GROUP BY name ORDER BY name", engine)))
    check("read_sql parameters", lambda: text(pandas.read_sql(sqlalchemy.text("SELECT whole FROM frame WHERE name = :name"), engine, params={"name": "a"})))
    check("read_sql index, dates", lambda: text(pandas.read_sql("SELECT whole, at::text FROM frame", engine, index_col="whole", parse_dates=["at"])))
    check("read_sql chunks", lambda: [len(part) for part in pandas.read_sql("SELECT * FROM frame", engine, chunksize=4)])
    check("read_sql streamed", lambda: streamed(engine))
    check("to_sql replace", lambda: FRAME.to_sql("frame", engine, if_exists="replace", index=False, chunksize=2))
    check("to_sql fail", lambda: FRAME.to_sql("frame", engine, if_exists="fail"))
    check("to_sql types", lambda: FRAME[["whole", "name"]].to_sql("typed", engine, dtype={"whole": sqlalchemy.Numeric(10, 2), "name": sqlalchemy.String(10)}))
    check("to_sql schema", lambda: FRAME[["whole"]].to_sql("in_schema", engine, schema="public"))
    check("to_sql copy", lambda: FRAME[["whole", "name"]].to_sql("copied", engine, index=False, method=insert_by_copy))
    check("to_sql large", lambda: pandas.DataFrame({"i": range(20000)}).to_sql("large", engine, index=False, chunksize=1000, method="multi"))
    check("read large", lambda: int(pandas.read_sql("SELECT sum(i) AS s FROM large", engine).iloc[0, 0]))
    check("window", lambda: text(pandas.read_sql("SELECT whole, sum(real) OVER (ORDER BY whole) AS running FROM frame ORDER BY whole", engine)))
    with adbc_driver_postgresql.dbapi.connect(f"postgresql://{user}@{where}:{port}/{database}") as connection:
        check("adbc to_sql", lambda: FRAME.drop(columns="kind").to_sql("by_adbc", connection, index=False))
        connection.rollback()
        check("adbc read_sql", lambda: text(pandas.read_sql("SELECT whole, name FROM frame", connection)))


def streamed(engine):
    with engine.connect().execution_options(stream_results=True) as connection:
        return [len(part) for part in pandas.read_sql("SELECT i FROM generate_series(1, 25) AS s(i)", connection, chunksize=10)]


def insert_by_copy(table, connection, keys, rows):
    """pandas' documentation: a method of insertion that uses COPY."""
    buffer = io.StringIO()
    pandas.DataFrame(list(rows), columns=keys).to_csv(buffer, index=False, header=False)
    with connection.connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({', '.join(keys)}) FROM STDIN WITH CSV") as copy:
        copy.write(buffer.getvalue())


main()
