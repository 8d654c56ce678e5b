#!/usr/bin/env bash
# TPC-C in process on AnKerDB and Silo (Tu et al., SOSP 2013), in turn on this machine.
#
#   tools/compare-silo.sh DBTEST [rounds] [seconds]       DBTEST: Silo's benchmark program, built by `make dbtest`
#
# Both load the same number of warehouses, run all five transactions (45/43/4/4/4) with as many threads and seconds, keep
# nothing on disk, read the present and are serializable. Failed transactions run again in both. Systems alternate within each
# round and change their order every other round. What is printed are medians over the rounds: transactions per second, and per
# second of CPU time of the whole process, background threads included. The second means something on a busy machine, too,
# apart from caches that are shared; so the load average is printed beside each round.
#
#   ANKERDB=COMMAND        a release build of `ankerdb` (default: what ./run builds)
#   THREADS="1 2"          numbers of threads: 1, or at least as many as warehouses, as only then both choose warehouses alike
#   WAREHOUSES=2           warehouses
#   SILO_OPTIONS=          more options of Silo's, such as --numa-memory 6G (memory of its own, and threads that stay on cores)
#   SILO_READS=snapshots   Silo's Order-Status and Stock-Level read a snapshot of the last second, as they do by default
#
# Differences that remain are printed at the end; docs/design/benchmarks.md says what they mean. Silo's source is the repository
# stephentu/silo on GitHub, and the same document says what a compiler of today needs changed. Needs mkfifo, awk and /proc.
set -euo pipefail

dbtest="$(realpath "${1:?usage: compare-silo.sh DBTEST [rounds] [seconds]}")"
rounds="${2:-5}" seconds="${3:-10}"
threads_list="${THREADS:-1 2}" warehouses="${WAREHOUSES:-2}"
target="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-${HOME:-$PWD}/.cache}/ankerdb/target}"
ankerdb="${ANKERDB:-$target/release/ankerdb}"
work="$(mktemp -d)"
running=""

fail() { printf 'compare-silo: %s\n' "$*" >&2; exit 1; }

end() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

[ -x "$dbtest" ] || fail "$dbtest is no program; build it by \`make dbtest\` in Silo's folder"
[ -x "$ankerdb" ] || fail "$ankerdb is missing; build it by \`./run bench --help\`, or set ANKERDB"
for threads in $threads_list; do
    [ "$threads" = 1 ] || [ "$threads" -ge "$warehouses" ] || fail "$threads threads for $warehouses warehouses: systems would choose them differently"
done

# CPU time of a process in ticks, of threads that have ended, too.
ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }

# Runs a command in $work, and sets $cpu to the seconds of CPU time between two lines of its standard error.
between() {
    local first="$1" last="$2" line begun="" ended=""
    shift 2
    rm -f "$work/lines" && mkfifo "$work/lines"
    (cd "$work" && exec "$@" >"$work/out" 2>"$work/lines") &
    running=$!
    : >"$work/err"
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$work/err"
        case "$line" in
            "$first"*) begun="$(ticks "$running")" ;;
            "$last"*) ended="$(ticks "$running")" ;;
        esac
    done <"$work/lines"
    wait "$running" || { tail -5 "$work/err" >&2; fail "$1 failed"; }
    running=""
    [ -n "$begun" ] && [ -n "$ended" ] || fail "$1 did not tell when it began and ended measuring"
    cpu="$(awk -v t=$((ended - begun)) -v hertz="$(getconf CLK_TCK)" 'BEGIN { print t / hertz }')"
}

# One run each: adds a line `transactions per second, per CPU second` to a file.
silo() {
    local reads=""
    [ "${SILO_READS:-present}" = snapshots ] || reads=" --disable-read-only-snapshots"
    # shellcheck disable=SC2086
    between "starting benchmark" "--- table statistics" "$dbtest" --verbose --bench tpcc --num-threads "$1" \
        --scale-factor "$warehouses" --runtime "$seconds" --retry-aborted-transactions ${SILO_OPTIONS:-} \
        --bench-opts "--workload-mix 45,43,4,4,4 --new-order-remote-item-pct 1$reads"
    awk -v cpu="$cpu" 'FNR == NR { tps = $1; next } /^runtime: / { print tps, tps * $2 / cpu }' "$work/out" "$work/err" >>"$2"
}

ankerdb() {
    local access=home
    [ "$1" != 1 ] || access=uniform
    between "round 1" "checking the consistency" "$ankerdb" bench tpcc --warehouses "$warehouses" --threads "$1" \
        --seconds "$seconds" --rounds 1 --access "$access" --isolation serializable --json "$work/result.json"
    awk -v cpu="$cpu" '/"tps_range"/ { getline; tps = $1 + 0 } /"completed"/ { done += $2 } END { print tps, done / cpu }' \
        "$work/result.json" >>"$2"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

printf '%s warehouses, %s rounds of %s s, serializable, nothing kept on disk\n' "$warehouses" "$rounds" "$seconds"
for threads in $threads_list; do
    : >"$work/s"; : >"$work/a"
    for round in $(seq "$rounds"); do
        order="s a"; [ $((round % 2)) = 1 ] || order="a s"
        for which in $order; do
            if [ "$which" = s ]; then silo "$threads" "$work/s"; else ankerdb "$threads" "$work/a"; fi
        done
        printf '  %s threads, round %s: Silo %.0f/s (%.0f per CPU second), AnKerDB %.0f/s (%.0f); load average %s\n' "$threads" "$round" \
            $(tail -1 "$work/s") $(tail -1 "$work/a") "$(cut -d' ' -f1 /proc/loadavg)"
    done
    for column in 1 2; do
        unit="transactions per second"; [ "$column" = 1 ] || unit="transactions per CPU second"
        s="$(awk -v c="$column" '{ print $c }' "$work/s" | median)" a="$(awk -v c="$column" '{ print $c }' "$work/a" | median)"
        printf '%s threads, %-28s  AnKerDB %8.0f  Silo %8.0f  ratio %.2f\n' "$threads" "$unit" "$a" "$s" "$(awk -v a="$a" -v s="$s" 'BEGIN { print a / s }')"
    done
done
cat <<'END'
What differs: Silo ends no New-Order by an unused item (1% in AnKerDB); does not count S_ORDER_CNT, C_DELIVERY_CNT; has amounts as
binary floats, a stock row in two tables (S_DIST_xx and S_DATA are never read), History with a key, rows and keys of fixed types known
when it is compiled; runs no consistency conditions. AnKerDB has numeric money, columns and types by the catalog, and SQL over the same rows.
END
