#!/usr/bin/env bash
# The concurrency and unsafe parts under a sanitizer of the nightly toolchain. Called by `./run sanitize`.
#
#   sanitize thread  [short]   data races                              ThreadSanitizer
#   sanitize address [short]   overflows, use after free, leaks        AddressSanitizer
#
# `short` leaves out the tests that take minutes. Both first run bugs that were planted for them
# (crates/sync/examples/planted.rs), and fail if they find none.
#
# What ThreadSanitizer needs to be told: nothing, there are no suppressions. It does not understand fences, but they order
# only atomics here (cells of rows, headers); what is read as plain memory (versions, strings, lent arrays, index nodes)
# is ordered by acquiring loads of what was released after it was written. crossbeam-epoch replaces its fences when it is
# built for the sanitizer, and so does the standard library, which is therefore built along (-Zbuild-std): as it comes
# with the toolchain, the ends of scoped threads and the last owner of an Arc would be reported as races.
#
# What AddressSanitizer needs to be told: --cfg ankerdb_sanitize, by which crates/memory takes every piece of memory
# from the global allocator, since nothing else is guarded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'sanitize: %s\n' "$*" >&2; exit 1; }

kind="${1:-}" part="${2:-all}"
target="$(rustc -vV | sed -n 's/^host: //p')"
CRATES=(memory sync index table transaction snapshot engine)

if ! cargo +nightly --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal >/dev/null 2>&1 || true
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
    say "SKIPPED: sanitizers (no nightly toolchain here; rustup toolchain install nightly)"
    exit 0
fi
[ "$(uname -s)" = Linux ] || { say "SKIPPED: sanitizers (set up for Linux only)"; exit 0; }

# Whether the standard library can be built along; its sources are a small component.
has_library_sources() {
    local sources
    sources="$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock"
    [ -f "$sources" ] || rustup component add rust-src --toolchain nightly >/dev/null 2>&1 || true
    [ -f "$sources" ]
}

build=(--locked --target "$target")
export RUST_BACKTRACE=0
case "$kind" in
    thread)
        if ! has_library_sources; then
            say "SKIPPED: thread sanitizer (needs the library's sources: rustup component add rust-src --toolchain nightly)"
            exit 0
        fi
        export TSAN_OPTIONS="halt_on_error=1" RUSTFLAGS="-Zsanitizer=thread"
        build+=(-Zbuild-std)
        planted=(race)
        ;;
    address)
        export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer --cfg ankerdb_sanitize"
        planted=(overflow use-after-free)
        ;;
    *) fail "run it as: ./run sanitize thread|address [short]" ;;
esac
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:?the folder of build results}/sanitize-$kind"

# A bug that must be found.
expect_report() {
    local output
    if output="$(cargo +nightly run -q "${build[@]}" -p ankerdb-sync --example planted -- "$1" 2>&1)"; then
        fail "the planted $1 was not found: $output"
    fi
    grep -q "Sanitizer: " <<<"$output" || fail "the planted $1 ended without a report: $output"
    echo "planted $1: found"
}

run() { cargo +nightly test "${build[@]}" "$@"; }

say "controls: planted bugs"
for bug in "${planted[@]}"; do expect_report "$bug"; done

say "tests under the ${kind} sanitizer"
if [ "$part" = short ]; then
    export ANKERDB_TRANSFERS=4000
    run "${CRATES[@]/#/-pankerdb-}" --lib --test concurrent --test anomalies --test lending --test locks \
        --test precision --test transfers -- --skip hundreds_of_strings_longer_than_half_a_chunk_fit
    run -p ankerdb-engine --test histories -- serializable
else
    # These look at the memory of the process, or limit it, of which the sanitizers use as much as they like.
    left_out=(
        versions_of_large_transactions_do_not_pile_up
        what_finds_no_memory_ends_and_concerns_nobody_else
        rows_can_be_changed_and_deleted_where_tables_fill_the_memory_and_others_take_their_place
        the_system_counts_little_more_than_the_account
        a_procedure_that_waits_for_a_row_does_not_hold_up_reclamation
    )
    run "${CRATES[@]/#/-pankerdb-}" --no-fail-fast --lib --tests -- "${left_out[@]/#/--skip=}"
fi
# Snapshots by the system and forked children. Under ThreadSanitizer the races between threads and the handler of write faults do
# not end. The test left out is of our allocator in children; the sanitizer's own, which replaces it, may hang there.
[ "$kind" != address ] || run -p ankerdb-region --lib --tests -- --skip children_allocate_while_the_parent_does
say "the ${kind} sanitizer found nothing"
