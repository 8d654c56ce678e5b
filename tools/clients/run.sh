#!/usr/bin/env bash
# The client programs that people use, each run against AnKerDB and against PostgreSQL 15, their output compared.
#
#   ./run clients [--strict] [name ...]    names: see `clients` below; all if none is given
#
# Each client is installed by its own package manager, at the version that the files here name, into a folder of the user's
# cache. Its program (in the folder of its language) makes one line for each thing that it does: a name, a tab, what came out, values
# with their types and errors with their fields. It runs once against a fresh server of each kind, at default settings. What is
# printed is a table: lines that are the same, lines that differ. The lines themselves lie where the last line says. A client that
# cannot be had is reported as not run, with the reason.
#
# Ends with 1 if a program could not be run on PostgreSQL, and with --strict also if anything differs or was not run.
#
# Needs a release build of `ankerdb` (COMMAND), PostgreSQL's programs, and the languages: python3 with venv, npm, go, mvn and javac,
# cargo. Ports are free ones of the loopback.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command="${COMMAND:?the command ankerdb}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ankerdb/clients"
work="$(mktemp -d)"
results="$cache/results"
postgresql="" ankerdb="" strict=0 failed=0
clients=(psycopg psycopg2 asyncpg sqlalchemy sqlalchemy-suite pandas django adbc pgjdbc node-postgres pgx pq sqlx tokio-postgres pgbench go-tpc)

say() { printf '%s\n' "$*" >&2; }
fail() { say "clients: $*"; exit 1; }
. ../servers.sh

end() {
    [ -z "$ankerdb" ] || kill "$ankerdb" 2>/dev/null || true
    [ -z "$postgresql" ] || kill -INT "$postgresql" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

start_postgresql() {
    postgresql_port="$(free_port)"
    mkdir "$work/pg"
    if [ "$(id -u)" = 0 ]; then chmod 711 "$work" && chown postgres "$work/pg"; fi
    (cd "$work/pg" && as_postgres "$(program initdb)" -D "$work/pg/data" -U postgres -A trust --no-sync >/dev/null)
    (cd "$work/pg" && as_postgres "$(program postgres)" -D "$work/pg/data" -p "$postgresql_port" -h 127.0.0.1 -k "$work/pg" \
        -c fsync=off -c timezone=UTC >"$work/pg.log" 2>&1) &
    postgresql=$!
    await "$postgresql_port" postgres
}

# A server without tables.
fresh() {
    if [ "$1" = postgresql ]; then
        psql -q -h 127.0.0.1 -p "$postgresql_port" -U postgres postgres -c 'DROP DATABASE IF EXISTS ankerdb WITH (FORCE)' \
            -c 'CREATE DATABASE ankerdb'
        export PGPORT="$postgresql_port"
        return
    fi
    [ -z "$ankerdb" ] || { kill "$ankerdb" && wait "$ankerdb" || true; } 2>/dev/null
    ankerdb_port="$(free_port)"
    "$command" serve --in-memory --listen "127.0.0.1:$ankerdb_port" >"$work/ankerdb.log" 2>&1 &
    ankerdb=$!
    await "$ankerdb_port" ankerdb
    export PGPORT="$ankerdb_port"
}

# Installing: each prints why if it cannot.

have() { command -v "$1" >/dev/null || { say "$1 is not installed"; return 1; }; }

install_python() {
    have python3 || return
    [ -x "$cache/python/bin/python" ] || python3 -m venv "$cache/python" || return
    "$cache/python/bin/pip" install --quiet --disable-pip-version-check --requirement python/requirements.txt
}

install_node() {
    have npm || return
    mkdir -p "$cache/node" && cp node/package.json "$cache/node/" && (cd "$cache/node" && npm install --silent --no-audit --no-fund --no-package-lock)
}

install_go() { have go && (cd go && go build -o "$cache/go/" ./pgx ./pq); }

install_go_tpc() { have go && (cd go-tpc && go build -o "$cache/go/" github.com/pingcap/go-tpc/cmd/go-tpc); }

install_java() {
    have mvn && have javac || return
    mkdir -p "$cache/java" && cp java/pom.xml "$cache/java/" || return
    (cd "$cache/java" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib) && javac -cp "$cache/java/lib/*" -d "$cache/java/classes" java/Client.java
}

install_rust() { have cargo && (cd rust && CARGO_TARGET_DIR="$cache/rust" cargo build --quiet --locked); }
install_pgbench() { program pgbench >/dev/null; }

language() {
    case "$1" in
        pgjdbc) echo java ;;
        node-postgres) echo node ;;
        pgx | pq) echo go ;;
        sqlx | tokio-postgres) echo rust ;;
        pgbench) echo pgbench ;;
        go-tpc) echo go_tpc ;;
        *) echo python ;;
    esac
}

version() {
    case "$1" in
        sqlalchemy-suite) version sqlalchemy ;;
        psycopg2 | adbc | psycopg | asyncpg | sqlalchemy | pandas | django)
            sed -nE "s/^$1(-binary|\[binary\]|-driver-postgresql)?==//Ip" python/requirements.txt ;;
        pgjdbc) sed -nE 's/.*<version>([0-9.]{5,})<.*/\1/p' java/pom.xml ;;
        node-postgres) sed -nE 's/.*"pg": "([^"]*)".*/\1/p' node/package.json ;;
        pgx | pq) sed -nE "s:.*/$1(/v5)? v([0-9.]*)\$:\2:p" go/go.mod ;;
        go-tpc) sed -nE 's:.*/go-tpc v([0-9.]*).*:\1:p' go-tpc/go.mod ;;
        sqlx | tokio-postgres) sed -nE "s/^$1 = .*\"=([0-9.]*)\".*/\1/p" rust/Cargo.toml ;;
        pgbench) "$(program pgbench)" --version | sed -E 's/.*\) ([0-9.]*).*/\1/' ;;
    esac
}

# A program that hangs is one whose last lines are missing.
limited() { timeout 300 "$@"; }

# Runs the client's program against the server of PGPORT.
ask() {
    case "$1" in
        sqlalchemy-suite) suite ;;
        pgjdbc) limited java -Duser.timezone=UTC -cp "$cache/java/lib/*:$cache/java/classes" Client ;;
        node-postgres) CLIENTS_NODE="$cache/node" limited node node/client.js ;;
        pgx | pq) limited "$cache/go/$1" ;;
        sqlx) limited "$cache/rust/debug/sqlx" ;;
        tokio-postgres) limited "$cache/rust/debug/tokio_postgres" ;;
        pgbench) pgbench_runs ;;
        go-tpc) tpc_runs ;;
        *) limited "$cache/python/bin/python" -B -W ignore "python/${1}_client.py" ;;
    esac
}

# SQLAlchemy's own tests for dialects, a line for each; their names have the server's version.
suite() {
    psql -q -c 'CREATE SCHEMA test_schema' >/dev/null 2>&1 || true
    (cd python/sqlalchemy_suite && limited "$cache/python/bin/python" -B -m pytest -q -rA --dburi "postgresql+psycopg://$PGUSER@$PGHOST:$PGPORT/$PGDATABASE" 2>&1) |
        sed -nE 's/_postgresql\+psycopg_[0-9_]+//; s/^(PASSED|FAILED|ERROR|SKIPPED) ([^ ]*::[^ ]*).*/\2\t\1/p; s/^INTERNALERROR> *([A-Za-z_.]*Error: .*)/the run as a whole\t\1/p' | sort -u
}

# pgbench: a line for each run, with whether it went through; how fast it was is not compared.
pgbench_runs() {
    local bench mode script
    bench="$(program pgbench)"
    told() { if limited "${@:2}" >"$work/bench" 2>&1; then printf '%s\tended well\n' "$1"; else printf '%s\t%s\n' "$1" "$(grep -m1 -iE 'error|fatal' "$work/bench")"; fi; }
    told "initialize" "$bench" -q -i -s 2
    told "initialize with foreign keys" "$bench" -q -i -s 1 --foreign-keys
    told "initialize on the server" "$bench" -q -i -I dtGvp -s 2
    told "unlogged, partitioned" "$bench" -q -i -s 1 --unlogged-tables --partitions=2
    told "initialize again" "$bench" -q -i -s 2
    for mode in simple extended prepared; do
        for script in tpcb-like simple-update select-only; do
            told "$script $mode" "$bench" -M "$mode" -b "$script" -c 4 -j 2 -t 200 --max-tries=100
        done
    done
    told "without vacuum" "$bench" -n -S -t 50
    told "latency report" "$bench" -n -r -t 50 -c 2
    printf 'balances\t%s\n' "$(psql -qAt -c 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)' 2>&1)"
}

# go-tpc's TPC-C: whether its parts went through, and which of the standard's conditions held; how fast it was is not compared.
tpc_runs() {
    local faults tpcc=("$cache/go/go-tpc" tpcc -d postgres -H "$PGHOST" -P "$PGPORT" -U "$PGUSER" -D "$PGDATABASE" --conn-params sslmode=disable --warehouses 1)
    said() {
        limited "${tpcc[@]}" "${@:2}" >"$work/tpcc" 2>&1 || echo "it ended with $?" >>"$work/tpcc"
        sed -nE "s/^begin to check warehouse .* at condition (.*)/$1: condition \1\tlooked at/p" "$work/tpcc" | sort -V
        faults="$(grep -iE 'err|fail|it ended' "$work/tpcc" | grep -v '^\[Current' | sed -E 's/^\[[-0-9: ]*\] //' | sort | uniq -c | head -n 3 | tr '\n' ' ')"
        printf '%s\t%s\n' "$1" "${faults:-ended well}"
    }
    said prepare prepare --no-check -T 2
    said "check all" check --check-all
    said run run -T 4 --time 10s
    said "check again" check
}

row() { printf '%-17s %-9s %6s %8s  %s\n' "$@"; }

declare -A installed
compare() {
    local name="$1" language same differs
    language="$(language "$name")"
    if [ -z "${installed[$language]:-}" ]; then
        say "== installing: $language"
        if "install_$language" >"$work/install" 2>&1; then installed[$language]=yes; else installed[$language]="$(tail -n 1 "$work/install")"; fi
    fi
    if [ "${installed[$language]}" != yes ]; then
        row "$name" "" "" "" "not run: ${installed[$language]}"
        [ "$strict" = 0 ] || failed=1
        return
    fi
    for server in postgresql ankerdb; do
        fresh "$server"
        ask "$name" >"$results/$name.$server" 2>"$results/$name.$server.log" || true
    done
    [ -s "$results/$name.postgresql" ] || { row "$name" "$(version "$name")" "" "" "failed: see $name.postgresql.log"; failed=1; return; }
    diff "$results/$name.postgresql" "$results/$name.ankerdb" >"$results/$name.diff" || true
    # Lines of PostgreSQL that came out in the same place.
    differs="$(grep -c '^<' "$results/$name.diff" || true)"
    same=$(($(wc -l <"$results/$name.postgresql") - differs))
    row "$name" "$(version "$name")" "$same" "$differs" "$([ ! -s "$results/$name.diff" ] && echo pass || echo differs)"
    [ "$strict" = 0 ] || [ ! -s "$results/$name.diff" ] || failed=1
}

while [ $# -gt 0 ] && [ "$1" = --strict ]; do strict=1; shift; done
export PGHOST=127.0.0.1 PGUSER=postgres PGDATABASE=ankerdb PGTZ=UTC TZ=UTC
rm -rf "$results" && mkdir -p "$results"
start_postgresql
row client version same differs ""
for name in "${@:-${clients[@]}}"; do
    case " ${clients[*]} " in *" $name "*) compare "$name" ;; *) fail "no client is called $name; there are: ${clients[*]}" ;; esac
done
say "what they printed: $results"
exit "$failed"
