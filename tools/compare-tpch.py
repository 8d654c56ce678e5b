#!/usr/bin/env python3
"""TPC-H's queries on AnKerDB, DuckDB, DataFusion, Hyper and PostgreSQL 15, side by side on this machine.

  tools/compare-tpch.py COMMAND [scale] [rounds] [--peers NAMES] [--threads N] [--postgresql-timeout SECONDS] [--fresh | --varied]

COMMAND is a release build of `ankerdb`; NAMES are those of `duckdb,datafusion,hyper,postgresql` to compare with (all). PostgreSQL runs
two of the queries for very long at scales where the others take milliseconds: with a timeout, a query that exceeds it there is marked
`did not end` and asked no more, and means are over those that ended.

All get the same rows, made by tpchgen, from the same files. DuckDB and DataFusion run in this process, in memory, as their users run
them, and Hyper in a process of its own that its library starts (`tableauhyperapi`; its data is in a file, read from memory as all of it
was just written); AnKerDB and PostgreSQL are servers on the loopback, asked by psql, whose `\\timing` gives the times: so they are the client's,
with the result's way to it, which for these queries is short. Each may use N threads (all cores). PostgreSQL gets room for all data in
shared buffers, 256 MB of work_mem, parallel workers, no fsync, primary keys as indexes and VACUUM ANALYZE; the others are as
they come. Systems alternate within each round and change their order every other round; the first round warms up and is
not counted. A query has the same text in each round, so that a system may use what it has kept of it; with `--fresh`, a comment makes each
text another, and none can; with `--varied`, the text has other constants in each round, drawn as TPC-H draws them
(`tpch_constants.py`), the same for all systems. Printed are medians over the rounds in milliseconds, and ratios, the last to the best of the others by query; at the end the
geometric means of the ratios. First of all the answers are compared: numbers to nine digits (a mean of numerics to the digits that the
other system gives), everything else exactly.

This is no TPC-H result: nothing is audited, and there are no refreshes and no streams.

The peers and tpchgen come from PyPI, into a private environment under the user's cache folder. Needs psql and, for PostgreSQL, its server
(Debian: postgresql-15); as root, a user `postgres` to run it as. Keep the machine idle.
"""

import argparse
import glob
import math
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from decimal import Decimal, InvalidOperation

from tpch_constants import varied

TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]
PEERS = ["duckdb", "datafusion", "hyper", "postgresql"]
PACKAGES = ["duckdb", "datafusion", "pyarrow", "tableauhyperapi", "tpchgen-cli"]
HERE = os.path.dirname(os.path.abspath(__file__))


def fail(message):
    sys.exit(f"compare-tpch: {message}")


def enter_environment():
    """Goes on in a private environment that has the packages; made if it is missing."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    folder = os.path.join(cache, "ankerdb", "compare-tpch")
    python = os.path.join(folder, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(folder):
        return os.path.join(folder, "bin")
    if not os.path.exists(os.path.join(folder, "ready")):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        open(os.path.join(folder, "ready"), "w").close()
    os.execv(python, [python, *sys.argv])


def program(name):
    """A server's program; Debian keeps them out of the path."""
    found = shutil.which(name) or next(iter(glob.glob(f"/usr/lib/postgresql/15/bin/{name}")), None)
    return found or fail(f"{name} is missing")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def sections(path):
    """The file's statements by section: `tables`, `Q1` and so on."""
    parts = re.split(r"^-- (tables|Q\d+)$", open(path).read(), flags=re.M)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2])}


class DidNotEnd(Exception):
    """A query that took longer than its system is given."""


class Psql:
    """A session of psql with a server, asked over its input and output."""

    def __init__(self, name, port, database):
        self.name = name
        arguments = ["-X", "-q", "-A", "-t", "-F", "\t", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1"]
        connection = ["-h", "127.0.0.1", "-p", str(port), "-U", "postgres", database]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.process = subprocess.Popen(["psql", *arguments, *connection], **pipes)
        self.is_limited = False

    def limit(self, seconds):
        """From now on, queries that take longer raise DidNotEnd, and the session goes on."""
        self.lines(f"SET statement_timeout = '{seconds}s';\n\\set ON_ERROR_STOP off")
        self.is_limited = True

    def lines(self, text):
        try:
            self.process.stdin.write(f"{text}\n\\echo ready\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        found = []
        for line in self.process.stdout:
            if line == "ready\n":
                errors = [line for line in found if line.startswith("ERROR:")] if self.is_limited else []
                if any("due to statement timeout" in line for line in errors):
                    raise DidNotEnd
                return fail(f"{self.name}: {errors[0]}") if errors else found
            found.append(line.rstrip("\n"))
        fail(f"{self.name}: {' '.join(found)}")

    def create(self, statements, folder):
        self.lines(statements)
        for table in TABLES:
            self.lines(f"\\copy {table} FROM '{folder}/{table}.csv' (FORMAT csv, HEADER)")

    def rows(self, query):
        return [line.split("\t") for line in self.lines(query)]

    def time_ms(self, query):
        told = self.lines(f"\\o /dev/null\n\\timing on\n{query}\n\\timing off\n\\o")
        times = [line for line in told if line.startswith("Time: ")]
        return float(times[0].split()[1]) if times else fail(f"{self.name} tells no time: {told}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Duck:
    """DuckDB in this process."""

    name = "DuckDB"

    def __init__(self, threads):
        import duckdb

        self.connection = duckdb.connect(config={"threads": threads})
        self.version = duckdb.__version__

    def create(self, statements, folder):
        self.connection.execute(statements)
        for table in TABLES:
            self.connection.execute(f"COPY {table} FROM '{folder}/{table}.csv' (FORMAT csv, HEADER)")

    def rows(self, query):
        rows = self.connection.execute(query).fetchall()
        return [["NULL" if cell is None else str(cell) for cell in row] for row in rows]

    def time_ms(self, query):
        begun = time.perf_counter()
        self.connection.execute(query).fetchall()
        return (time.perf_counter() - begun) * 1000

    def end(self):
        self.connection.close()


class DataFusion:
    """DataFusion in this process, with tables in memory."""

    name = "DataFusion"

    def __init__(self, threads):
        import datafusion

        self.context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
        self.version = datafusion.__version__

    def create(self, statements, folder):
        for statement in statements.split(";"):
            # Keys would change nothing in a table in memory.
            statement = re.sub(r",? *PRIMARY KEY( \(.*?\))?", "", statement.strip())
            table = re.match(r"CREATE TABLE (\w+)", statement)
            if not table:
                continue
            file = statement.replace("CREATE TABLE ", "CREATE EXTERNAL TABLE file_", 1)
            options = f"STORED AS csv LOCATION '{folder}/{table[1]}.csv' OPTIONS ('has_header' 'true')"
            self.context.sql(f"{file} {options}").collect()
            self.context.sql(f"CREATE TABLE {table[1]} AS SELECT * FROM file_{table[1]}").collect()

    def rows(self, query):
        batches = self.context.sql(query).collect()
        columns = [[cell for batch in batches for cell in batch.column(i).to_pylist()] for i in range(batches[0].num_columns)]
        return [["NULL" if cell is None else str(cell) for cell in row] for row in zip(*columns)]

    def time_ms(self, query):
        begun = time.perf_counter()
        self.context.sql(query).collect()
        return (time.perf_counter() - begun) * 1000

    def end(self):
        pass


class Hyper:
    """Hyper in a process that its library starts, with a database in a file."""

    name = "Hyper"

    def __init__(self, threads, folder):
        import tableauhyperapi

        silent = tableauhyperapi.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU
        settings = {"log_dir": folder, "hard_concurrent_query_thread_limit": str(threads)}
        self.process = tableauhyperapi.HyperProcess(telemetry=silent, parameters=settings)
        mode = tableauhyperapi.CreateMode.CREATE_AND_REPLACE
        file = os.path.join(folder, "tpch.hyper")
        self.connection = tableauhyperapi.Connection(self.process.endpoint, file, mode)
        self.version = tableauhyperapi.__version__

    def create(self, statements, folder):
        # Its keys can only be assumed, and not be checked.
        statements = statements.replace("PRIMARY KEY", "ASSUMED PRIMARY KEY")
        for statement in statements.split(";"):
            if statement.strip():
                self.connection.execute_command(statement)
        for table in TABLES:
            self.connection.execute_command(f"COPY {table} FROM '{folder}/{table}.csv' WITH (FORMAT csv, HEADER)")

    def rows(self, query):
        rows = self.connection.execute_list_query(query)
        return [["NULL" if cell is None else str(cell) for cell in row] for row in rows]

    def time_ms(self, query):
        begun = time.perf_counter()
        self.connection.execute_list_query(query)
        return (time.perf_counter() - begun) * 1000

    def end(self):
        self.connection.close()
        self.process.close()


class Servers:
    """Processes that this script has started; ended with it."""

    def __init__(self):
        self.work = tempfile.mkdtemp()
        self.processes = []

    def start(self, command, log, **options):
        output = open(os.path.join(self.work, log), "w")
        self.processes.append(subprocess.Popen(command, stdout=output, stderr=output, **options))

    def await_answer(self, port, database):
        question = ["psql", "-qAt", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", database, "-c", "SELECT 1"]
        for _ in range(300):
            if subprocess.run(question, capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        fail(f"the server on port {port} does not answer")

    def ankerdb(self, command, threads):
        port = free_port()
        self.start([command, "serve", "--in-memory", "--listen", f"127.0.0.1:{port}", "--olap-threads", str(threads)], "ankerdb.log")
        self.await_answer(port, "ankerdb")
        return Psql("AnKerDB", port, "ankerdb")

    def postgresql(self, threads, megabytes):
        port, data = free_port(), os.path.join(self.work, "data")
        user = {"user": "postgres"} if os.getuid() == 0 else {}
        os.mkdir(data)
        if user:
            for folder in (self.work, data):
                shutil.chown(folder, "postgres")
        initdb = [program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=self.work, **user)
        settings = {
            "fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "work_mem": "256MB",
            "shared_buffers": f"{megabytes}MB", "max_parallel_workers_per_gather": threads, "max_wal_size": "8GB",
            "max_parallel_workers": threads, "max_worker_processes": threads + 8, "jit": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [program("postgres"), "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", self.work, *options]
        self.start(command, "postgresql.log", cwd=self.work, **user)
        self.await_answer(port, "postgres")
        return Psql("PostgreSQL", port, "postgres")

    def end(self):
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.work, ignore_errors=True)


def is_same(left, right):
    """Whether two cells say the same: numbers to nine digits or, where one has fewer and at least four of a fraction, to these, as averages
    have digits of each system's own."""
    if left.rstrip() == right.rstrip():
        return True
    try:
        left, right = Decimal(left), Decimal(right)
    except InvalidOperation:
        return False
    fractions = [-number.as_tuple().exponent for number in (left, right)]
    last = Decimal(1).scaleb(-min(fractions)) if fractions[0] != fractions[1] and min(fractions) >= 4 else 0
    return abs(left - right) <= max(max(abs(left), abs(right), Decimal(1)) * Decimal("1e-9"), last)


def answers(systems, query):
    """Names and rows of the systems that answer in time."""
    found = []
    for system in systems:
        try:
            found.append((system.name, system.rows(query)))
        except DidNotEnd:
            pass
    return found


def check_answers(systems, queries):
    """Compares all answers; returns the names of the systems that ended, by query."""
    ended = {}
    for name, query in queries.items():
        first, *others = answers(systems, query)
        ended[name] = {first[0], *(other[0] for other in others)}
        for other in others:
            same_size = [len(row) for row in first[1]] == [len(row) for row in other[1]]
            cells = zip((c for row in first[1] for c in row), (c for row in other[1] for c in row))
            wrong = next((pair for pair in cells if not is_same(*pair)), None)
            if not same_size or wrong:
                fail(f"{name}: {first[0]} has {len(first[1])} rows, {other[0]} {len(other[1])}; {wrong} differ")
    for system in systems:
        count = sum(system.name in names for names in ended.values())
        print(f"{system.name} answered {count} of {len(queries)} queries in time, as the others did", flush=True)
    return ended


def text_of(name, query, turn, texts):
    """The text of a round."""
    match texts:
        case "fresh":
            return f"{query.removesuffix(';')}\n/* {turn} */;"
        case "varied":
            return varied(name, query, random.Random(f"{name} {turn}"))
    return query


def measure(systems, queries, rounds, ended, texts):
    """Medians in milliseconds by query and system, of those that end."""
    times = {name: {system: [] for system in ended[name]} for name in queries}
    for turn in range(rounds + 1):
        for name, query in queries.items():
            query = text_of(name, query, turn, texts)
            for system in systems if turn % 2 else reversed(systems):
                if system.name not in times[name]:
                    continue
                try:
                    taken = system.time_ms(query)
                except DidNotEnd:
                    del times[name][system.name]
                    continue
                if turn > 0:
                    times[name][system.name].append(taken)
    return {name: {of: statistics.median(taken) for of, taken in by.items()} for name, by in times.items()}


def mean_of(ratios):
    return math.exp(statistics.mean(math.log(ratio) for ratio in ratios))


def report(systems, medians):
    ours, *others = [system.name for system in systems]
    print(f"{'ms':<5}" + "".join(f"{system.name:>12}" for system in systems)
          + "".join(f"{other + '/' + ours:>20}" for other in others) + f"{'best/' + ours:>16}")
    best = {}
    for name, by in medians.items():
        taken = "".join(f"{by[of]:>12.1f}" if of in by else f"{'-':>12}" for of in [ours, *others])
        ratios = (f"{by[other] / by[ours]:.2f}" if other in by else "did not end" for other in others)
        best[name] = min(by[other] for other in others if other in by) / by[ours]
        print(f"{name:<5}" + taken + "".join(f"{ratio:>20}" for ratio in ratios) + f"{best[name]:>16.2f}")
    for other in others:
        both = [by for by in medians.values() if other in by]
        if not both:
            print(f"{other} ended no query in time")
            continue
        sums = sum(by[ours] for by in both), sum(by[other] for by in both)
        print(f"{other}/{ours}: geometric mean {mean_of([by[other] / by[ours] for by in both]):.2f} of {len(both)} of "
              f"{len(medians)} queries, which took {sums[0]:.1f} and {sums[1]:.1f} ms")
    worst = min(best, key=best.get)
    print(f"the best of the others by query/{ours}: geometric mean {mean_of(best.values()):.2f}, {worst} {best[worst]:.2f}")


def arguments():
    parser = argparse.ArgumentParser(prog="compare-tpch.py")
    parser.add_argument("command", metavar="COMMAND", help="a release build of `ankerdb`")
    parser.add_argument("scale", nargs="?", default="0.2")
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAMES", help="whom to compare with, with commas between")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads for each (default: all cores)")
    parser.add_argument("--postgresql-timeout", type=int, metavar="SECONDS", help="what PostgreSQL is given for a query")
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument("--fresh", action="store_const", dest="texts", const="fresh", help="give queries another text in each round")
    texts.add_argument("--varied", action="store_const", dest="texts", const="varied", help="give queries other constants in each round")
    given = parser.parse_args()
    given.peers = given.peers.split(",")
    unknown = [name for name in given.peers if name not in PEERS]
    if unknown:
        parser.error(f"--peers knows {', '.join(PEERS)}, not {unknown[0]!r}")
    if given.threads < 1:
        parser.error("--threads takes at least 1")
    if given.postgresql_timeout is not None and given.postgresql_timeout < 1:
        parser.error("--postgresql-timeout takes at least 1 second")
    return given


def start(given, servers):
    """The systems to compare, ours first."""
    make = {
        "duckdb": lambda: Duck(given.threads),
        "datafusion": lambda: DataFusion(given.threads),
        "hyper": lambda: Hyper(given.threads, servers.work),
        "postgresql": lambda: servers.postgresql(given.threads, 512 + int(float(given.scale) * 3000)),
    }
    return [servers.ankerdb(given.command, given.threads), *(make[name]() for name in given.peers)]


def main():
    given = arguments()
    programs = enter_environment()
    statements = sections(os.path.join(HERE, "tpch.sql"))
    tables = statements.pop("tables")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    servers, systems = Servers(), []
    try:
        subprocess.run([os.path.join(programs, "tpchgen-cli"), "csv", "-s", given.scale, "-o", servers.work], check=True)
        systems = start(given, servers)
        versions = ", ".join(f"{system.name} {system.version}" for system in systems if hasattr(system, "version"))
        print(f"scale {given.scale}, {given.threads} threads each, {versions}; load in seconds:", end="")
        for system in systems:
            begun = time.perf_counter()
            system.create(tables, servers.work)
            print(f" {system.name} {time.perf_counter() - begun:.1f}", end="", flush=True)
        print()
        if "postgresql" in given.peers:
            postgresql = systems[1 + given.peers.index("postgresql")]
            postgresql.lines("VACUUM ANALYZE;")
            if given.postgresql_timeout:
                postgresql.limit(given.postgresql_timeout)
        ended = check_answers(systems, statements)
        report(systems, measure(systems, statements, given.rounds, ended, given.texts))
    finally:
        for system in systems:
            system.end()
        servers.end()


main()
