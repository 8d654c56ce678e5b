#!/usr/bin/env bash
# What a connection costs in AnKerDB and PostgreSQL 15, side by side on this machine.
#
#   tools/compare-connections.sh COMMAND [connections]       COMMAND: a release build of `ankerdb`
#
# Each server gets so many connections (by default 5,000), one after the other. Then each of them runs a query for one row by its key,
# and a transaction block. Printed are milliseconds for each connection, and the memory that the server's processes hold in
# proportion (Pss of /proc/PID/smaps_rollup) for each, after the connecting, after the statements, and when all have been silent for a few
# seconds.
#
# Needs Python 3, psql and PostgreSQL's server (Debian: postgresql-15); as root, a user `postgres` to run it as. Allow enough open
# files (`ulimit -n`).
set -euo pipefail

command="${1:?usage: compare-connections.sh COMMAND [connections]}"
connections="${2:-5000}"
here="$(dirname "${BASH_SOURCE[0]}")"
work="$(mktemp -d)"
pids=()

fail() { printf 'compare-connections: %s\n' "$*" >&2; exit 1; }
. "$here/servers.sh"

end() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

ulimit -n "$(ulimit -Hn)"
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -gt $((connections + 100)) ] ||
    fail "$connections connections need more open files than $(ulimit -n)"

ankerdb_port="$(free_port)"
"$command" serve --in-memory --listen "127.0.0.1:$ankerdb_port" --max-connections $((connections + 10)) >"$work/ankerdb.log" 2>&1 &
pids+=($!)
await "$ankerdb_port" ankerdb

measure() { python3 "$here/connections.py" "$1" "$2" "$connections" "$3"; }
measure AnKerDB "${pids[0]}" "$ankerdb_port"
# It may not start for so many: it asks the system for a semaphore for each.
start_postgresql -c "max_connections=$((connections + 10))"
measure PostgreSQL "${pids[1]}" "$postgresql_port"
