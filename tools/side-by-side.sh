#!/usr/bin/env bash
# Runs the test programs of `cargo test ARGUMENTS` side by side, as many as there are processors: most of them wait, for
# servers, disks and clocks. What each prints comes in one piece when it has ended.
#
# cargo builds them and calls this script instead of each (`runner`), which writes down how: with its variables, in its folder. Examples of
# documentation, whose programs rustdoc removes at once, run as always.
set -euo pipefail

# The program's call as a script.
if [ "${1:-}" = --note ]; then
    shift
    case "$1" in */deps/*) ;; *) exec "$@" ;; esac
    call="$(mktemp "$ANKERDB_CALLS/call.XXXXXX")"
    { declare -px && printf 'cd %q && exec' "$PWD" && printf ' %q' "$@" && echo; } >"$call"
    printf '%s\n' "$call" >>"$ANKERDB_CALLS/calls"
    exit
fi

# One of them; where it fails, the rest runs on.
if [ "${1:-}" = --call ]; then
    code=0 begun=$SECONDS
    bash "$2" >"$2.printed" 2>&1 </dev/null || code=$?
    exec 9>>"$ANKERDB_CALLS/lock"
    flock 9
    sed -n '$s/.* exec /     Ran /p' "$2"
    cat "$2.printed"
    printf '     in %d s%s\n\n' $((SECONDS - begun)) "$([ "$code" = 0 ] || printf ': FAILED with %d' "$code")"
    [ "$code" = 0 ]
    exit
fi

ANKERDB_CALLS="$(mktemp -d)"
export ANKERDB_CALLS
trap 'rm -rf "$ANKERDB_CALLS"' EXIT
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")"
cargo test --config "target.'cfg(all())'.runner = ['$here', '--note']" "$@"
touch "$ANKERDB_CALLS/calls"
xargs -r -P "$(nproc)" -n 1 -d '\n' "$here" --call <"$ANKERDB_CALLS/calls"
