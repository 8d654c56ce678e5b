#!/usr/bin/env bash
# COPY of TPC-H's tables over the wire into AnKerDB and PostgreSQL 15, side by side on this machine.
#
#   tools/compare-loading.sh COMMAND [scale] [rounds]       COMMAND: a release build of `ankerdb`
#
# Each round, each server gets TPC-H's eight tables with their primary keys (tools/tpch.sql) from psql's \copy of CSV files,
# makes an index on a column of `lineitem`, and sends `lineitem` back with COPY TO STDOUT; servers take turns. Printed are
# medians in seconds, the ratio, and the memory that AnKerDB's process has resident with all tables loaded.
# PostgreSQL runs with fsync off, since AnKerDB writes nothing to disk, and otherwise as it is set up by initdb.
# ANKERDB_WAY=block loads all tables in one transaction block, where rows are inserted one by one.
#
# Files come from tpchgen-cli, in a private environment that is made if it is missing, or from the folder named by TPCH.
# Needs psql and PostgreSQL's server (Debian: postgresql-15); as root, a user `postgres` to run it as.
# Keep the machine idle: psql and servers share its cores.
set -euo pipefail

command="${1:?usage: compare-loading.sh COMMAND [scale] [rounds]}"
scale="${2:-0.2}" rounds="${3:-3}"
here="$(dirname "${BASH_SOURCE[0]}")"
work="$(mktemp -d)"
pids=()
tables=(region nation part supplier partsupp customer orders lineitem)

fail() { printf 'compare-loading: %s\n' "$*" >&2; exit 1; }
. "$here/servers.sh"

end() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

make_files() {
    if [ -n "${TPCH:-}" ]; then data="$TPCH"; return; fi
    local folder="${XDG_CACHE_HOME:-$HOME/.cache}/ankerdb/compare-loading"
    if [ ! -x "$folder/bin/tpchgen-cli" ]; then
        python3 -m venv "$folder"
        "$folder/bin/python" -m pip install --quiet tpchgen-cli
    fi
    data="$work/data"
    "$folder/bin/tpchgen-cli" csv -s "$scale" -o "$data"
}

start_ankerdb() {
    ankerdb_port="$(free_port)"
    "$command" serve --in-memory --listen "127.0.0.1:$ankerdb_port" >"$work/ankerdb.log" 2>&1 &
    ankerdb_pid=$!
    pids+=("$ankerdb_pid")
    await "$ankerdb_port" ankerdb
}

sql() { psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$1" -U postgres ankerdb; }

# Seconds that a command takes, appended to a file.
timed() {
    local into="$1" begun ended
    shift
    begun="$(date +%s.%N)"
    "$@"
    ended="$(date +%s.%N)"
    awk -v a="$begun" -v b="$ended" 'BEGIN { printf "%.3f\n", b - a }' >>"$into"
}

load() {
    {
        if [ "$2" = ankerdb ] && [ "${ANKERDB_WAY:-}" = block ]; then echo 'BEGIN;'; fi
        for table in "${tables[@]}"; do echo "\\copy $table FROM '$data/$table.csv' (FORMAT csv, HEADER)"; done
        if [ "$2" = ankerdb ] && [ "${ANKERDB_WAY:-}" = block ]; then echo 'COMMIT;'; fi
    } | sql "$1"
}
index() { echo 'CREATE INDEX l_part ON lineitem (l_partkey);' | sql "$1"; }
out() { echo 'COPY lineitem TO STDOUT;' | sql "$1" >/dev/null; }

round() {
    local name="$1" port="$2"
    sed -n '/^-- tables/,/^-- Q1$/p' "$here/tpch.sql" | grep -v '^--' | sql "$port"
    timed "$work/load.$name" load "$port" "$name"
    if [ "$name" = ankerdb ]; then awk '/VmRSS/ { print $2 / 1024 }' "/proc/$ankerdb_pid/status" >>"$work/memory"; fi
    timed "$work/index.$name" index "$port"
    timed "$work/out.$name" out "$port"
    for table in "${tables[@]}"; do echo "DROP TABLE $table;"; done | sql "$port"
}

median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

make_files
start_postgresql
start_ankerdb
for turn in $(seq "$rounds"); do
    if [ $((turn % 2)) = 1 ]; then order="ankerdb postgresql"; else order="postgresql ankerdb"; fi
    for name in $order; do
        if [ "$name" = ankerdb ]; then round ankerdb "$ankerdb_port"; else round postgresql "$postgresql_port"; fi
    done
done
printf 'scale %s, %s rounds, load of the machine %s\n' "$scale" "$rounds" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-12s %10s %12s %8s\n' seconds AnKerDB PostgreSQL ratio
for what in load index out; do
    ours="$(median "$work/$what.ankerdb")" theirs="$(median "$work/$what.postgresql")"
    printf '%-12s %10.2f %12.2f %8.2f\n' "$what" "$ours" "$theirs" "$(awk -v a="$ours" -v b="$theirs" 'BEGIN { print b / a }')"
done
printf 'resident with all tables loaded: %.0f MiB\n' "$(median "$work/memory")"
