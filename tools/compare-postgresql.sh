#!/usr/bin/env bash
# pgbench over the wire against AnKerDB and PostgreSQL 15, side by side on this machine.
#
#   tools/compare-postgresql.sh COMMAND [rounds] [seconds]       COMMAND: a release build of `ankerdb`
#
# Both servers listen on the loopback, or with WAY=socket at a Unix socket, and get the same tables (pgbench's, scale 10), loaded by psql with COPY.
# PostgreSQL runs with fsync off if AnKerDB writes nothing to disk, and otherwise as it is set up by initdb, which
# means READ COMMITTED; AnKerDB runs at its default, SERIALIZABLE, or at the level in ISOLATION. Servers alternate within each round and
# change their order every other round; what is printed are medians over the rounds, transactions per second, and the
# ratio. Failed transactions are tried again up to ten times, as applications do; how many failed for good is printed.
#
# With DURABLE=FOLDER both keep what they commit in new folders there and wait for the disk (fsync and full_page_writes on, as initdb sets PostgreSQL
# up), and the 99th percentile of a transaction's latency is printed, too. WORKLOADS="tpcb" runs only these.
#
# With CEILING=1 (over TCP) a server that does nothing takes part (tools/ceiling.rs, made by rustc): what it reaches is what clients and system leave,
# and its ratio to PostgreSQL the largest there can be here.
#
# Needs psql, pgbench and PostgreSQL's server (Debian: postgresql-15); as root, a user `postgres` to run it as.
# Keep the machine idle: clients and servers share its cores.
set -euo pipefail

command="${1:?usage: compare-postgresql.sh COMMAND [rounds] [seconds]}"
rounds="${2:-3}" seconds="${3:-10}"
clients="${CLIENTS:-4}" scale=10 isolation="${ISOLATION:-serializable}"
work="$(mktemp -d ${DURABLE:+-p "$DURABLE"})"
case "${WAY:-tcp}" in tcp) host=127.0.0.1 ;; socket) host="$work" ;; *) echo "WAY is tcp or socket" >&2; exit 2 ;; esac
pids=()

fail() { printf 'compare-postgresql: %s\n' "$*" >&2; exit 1; }
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

end() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

start_ankerdb() {
    ankerdb_port="$(free_port)"
    local keep=(--in-memory)
    if [ -n "${DURABLE:-}" ]; then keep=(--data-dir "$work/ankerdb"); fi
    "$command" serve "${keep[@]}" --listen "127.0.0.1:$ankerdb_port" --socket-folder "$work" >"$work/ankerdb.log" 2>&1 &
    pids+=($!)
    await "$ankerdb_port" ankerdb
}

start_ceiling() {
    ceiling_port="$(free_port)"
    [ "$host" = 127.0.0.1 ] || fail "CEILING=1 goes over TCP"
    rustc --edition 2024 -O "$(dirname "${BASH_SOURCE[0]}")/ceiling.rs" -o "$work/ceiling" || fail "rustc tools/ceiling.rs"
    "$work/ceiling" "$ceiling_port" &
    pids+=($!)
    await "$ceiling_port" ankerdb
}

# The tables of `pgbench -i -s 10`, without the fillers that no transaction reads past their length.
load() {
    local port="$1"
    psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres ankerdb <<'SQL'
CREATE TABLE pgbench_branches (bid int NOT NULL PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_tellers (tid int NOT NULL PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE pgbench_accounts (aid int NOT NULL PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
SQL
    copy() { psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres ankerdb -c "COPY $1 FROM STDIN"; }
    awk -v n="$scale" 'BEGIN { for (i = 1; i <= n; i++) print i "\t0\t\\N" }' | copy pgbench_branches
    awk -v n="$scale" 'BEGIN { for (i = 1; i <= n * 10; i++) print i "\t" int((i - 1) / 10) + 1 "\t0\t\\N" }' | copy pgbench_tellers
    awk -v n="$scale" 'BEGIN { for (i = 1; i <= n * 100000; i++) print i "\t" int((i - 1) / 100000) + 1 "\t0\t" }' | copy pgbench_accounts
}

printf '\\set aid random(1, %d)\n\\set delta random(-5000, 5000)\nUPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n' \
    $((scale * 100000)) >"$work/update.sql"

# One run: transactions per second, failures, and the 99th percentile of latencies in milliseconds if they are noted.
measure() {
    local port="$1"; shift
    local options="" note=() p99=-
    if [ -n "${DURABLE:-}" ]; then note=(--log --log-prefix "$work/latencies"); fi
    if [ "$port" = "$ankerdb_port" ]; then options="-c default_transaction_isolation=${isolation// /\\ }"; fi
    PGOPTIONS="$options" "$(program pgbench)" -n -h "$host" -p "$port" -U postgres -M prepared -c "$clients" -j 2 -T "$seconds" \
        -s "$scale" --max-tries=10 "${note[@]}" "$@" ankerdb 2>"$work/pgbench.err" >"$work/pgbench.out" || { cat "$work/pgbench.err" >&2; fail "pgbench $*"; }
    if [ -n "${DURABLE:-}" ]; then
        p99="$(cat "$work"/latencies* | awk '{ print $3 }' | sort -n | awk '{ v[NR] = $1 } END { printf "%.2f", v[int(NR * 0.99) + 1] / 1000 }')"
        rm -f "$work"/latencies*
    fi
    awk -v p99="$p99" '/^tps/ { tps = $3 } /failed transactions/ { failed = $5 } END { print tps, failed + 0, p99 }' "$work/pgbench.out"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

if [ -n "${DURABLE:-}" ]; then
    start_postgresql -c fsync=on -c synchronous_commit=on -c full_page_writes=on
else
    start_postgresql
fi
start_ankerdb
orders=("a p" "p a")
if [ -n "${CEILING:-}" ]; then start_ceiling; orders=("a p c" "c p a"); fi
load "$postgresql_port"
load "$ankerdb_port"
psql -q -h 127.0.0.1 -p "$postgresql_port" -U postgres ankerdb -c 'VACUUM ANALYZE' >/dev/null

declare -A workload=([select]="-S" [update]="-f $work/update.sql" [tpcb]="-b tpcb-like" [simple]="-N")
printf '%-8s %12s %12s %7s   %s\n' workload ankerdb postgresql ratio "failed (ankerdb, of all rounds)${DURABLE:+; p99 in ms (ankerdb, postgresql)}"
for name in ${WORKLOADS:-select update simple tpcb}; do
    : >"$work/a"; : >"$work/p"; : >"$work/c"; : >"$work/a99"; : >"$work/p99"; failed=0
    for round in $(seq "$rounds"); do
        for which in ${orders[$(((round + 1) % 2))]}; do
            case "$which" in a) port="$ankerdb_port" ;; p) port="$postgresql_port" ;; c) port="$ceiling_port" ;; esac
            # shellcheck disable=SC2086
            read -r tps lost p99 < <(measure "$port" ${workload[$name]})
            echo "$tps" >>"$work/$which"
            echo "$p99" >>"$work/${which}99"
            if [ "$which" = a ]; then failed=$((failed + lost)); fi
        done
    done
    a="$(median <"$work/a")" p="$(median <"$work/p")"
    late=""
    if [ -n "${DURABLE:-}" ]; then late="$(median <"$work/a99") $(median <"$work/p99")"; fi
    if [ -n "${CEILING:-}" ]; then late+=" ceiling $(median <"$work/c" | awk -v p="$p" '{ printf "%.0f, ratio %.2f", $1, $1 / p }')"; fi
    printf '%-8s %12.0f %12.0f %7.2f   %d  %s\n' "$name" "$a" "$p" "$(awk -v a="$a" -v p="$p" 'BEGIN { print a / p }')" "$failed" "$late"
done
