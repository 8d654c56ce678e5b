#!/usr/bin/env bash
# What a stranger does in the first hour, by the README alone, as a page of the manual's kind: each command, the end of what it
# printed, and how long it took.
#
#   tools/transcript.sh [--in-workspace] >docs/transcript.md
#
# Clones the last commit into a temporary folder, builds and starts the server, loads a CSV file, runs a transaction and a report
# by psql, embeds the database in a program of its own, and runs one experiment. Then the page says what there is: folders,
# warnings of the build, and the longest functions. Everything is built from nothing, unless
# CARGO_TARGET_DIR names the build results of an earlier build; the page says which. A program of its own has dependencies of
# its own, so the query engine is compiled for it again; --in-workspace makes it a member of the workspace, which shares them.
#
# Needs git, psql, a Rust toolchain and a C compiler. Ends everything that it has started.
set -euo pipefail

source="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
in_workspace=0
[ "${1:-}" != --in-workspace ] || in_workspace=1
work="$(mktemp -d)"
server=""
reused="${CARGO_TARGET_DIR:+yes}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$work/target}"

# Lines of a command's output that are shown.
SHOWN=12

finish() {
    if [ -n "$server" ]; then kill -INT "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT

fail() { printf 'transcript: %s\n' "$*" >&2; exit 1; }
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

# Seconds since a time of `date +%s.%N`.
seconds_since() { awk -v begun="$1" -v now="$(date +%s.%N)" 'BEGIN { printf "%.2f", now - begun }'; }

# Output as it is shown: its last lines, without folders of this machine.
shown() { tail -n "$SHOWN" "$1" | sed -e "s|$CARGO_TARGET_DIR|target|g" -e "s|$work/||g" -e 's/\x1b\[[0-9;]*m//g'; }

# Runs a command of the reader's, and writes it down.
step() {
    local title="$1" command="$2" begun code=0
    printf 'transcript: %s\n' "$title" >&2
    begun="$(date +%s.%N)"
    (cd "${folder:-$work}" && bash -c "$command") >"$work/output" 2>&1 </dev/null || code=$?
    told "$title" "$command" "$(seconds_since "$begun")"
    [ "$code" = 0 ] || { cat "$work/output" >&2; fail "$title: failed"; }
}

told() {
    printf '\n## %s\n\n```sh\n%s\n```\n\n' "$1" "$2"
    if [ -s "$work/output" ]; then printf '```text\n%s\n```\n\n' "$(shown "$work/output")"; fi
    printf '%s seconds.\n' "$3"
}

# Folders and files of the checkout, two levels of them.
tree() {
    git -C "$checkout" ls-files | awk -F/ '
        NF == 1 { files[++count] = $1; next }
        { inner = "  " $2 (NF > 2 ? "/" : "") }
        !(($1, inner) in seen) { seen[$1, inner] = 1; if (!($1 in below)) folders[++many] = $1; below[$1] = below[$1] inner "\n" }
        END {
            for (i = 1; i <= many; i++) printf "%s/\n%s", folders[i], below[folders[i]]
            for (i = 1; i <= count; i++) print files[i]
        }'
}

# The ten longest functions of all crates, without tests: lines from `fn` to the brace below it, as rustfmt places them.
longest_functions() {
    (cd "$checkout" && git ls-files 'crates/*/src/*.rs' | grep -v 'tests\.rs$' | xargs awk '
        FNR == 1 { delete open }
        { match($0, /^ */); indent = RLENGTH }
        /^ *(pub(\([a-z: ]*\))? )?(const |async |unsafe )*fn [a-z_0-9]+/ && !/[;}]$/ {
            name[indent] = $0; sub(/^.*fn /, "", name[indent]); sub(/[^a-z_0-9].*/, "", name[indent]); open[indent] = FNR
        }
        /^ *}$/ && indent in open { print FNR - open[indent] + 1, name[indent], FILENAME; delete open[indent] }
        ' | sort -k1,1nr -k3,3 | awk 'NR <= 10')
}

# Starts the server, which stays.
serve() {
    local begun
    begun="$(date +%s.%N)"
    # Not by `./run serve`, so that the process is the server's and can be ended.
    "$CARGO_TARGET_DIR/release/ankerdb" serve --in-memory --listen "127.0.0.1:$port" >"$work/output" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        grep -q "is ready" "$work/output" && break
        sleep 0.05
    done
    grep -q "is ready" "$work/output" || fail "the server does not start: $(cat "$work/output")"
    told "Start the server" "./run serve --in-memory --listen 127.0.0.1:$port" "$(seconds_since "$begun")"
}

# The README's program, in a package of its own.
write_program() {
    local package="$1" dependency="$2"
    mkdir -p "$package/src"
    printf '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2024"\n\n[dependencies]\nankerdb = { path = "%s" }\n' \
        "$dependency" >"$package/Cargo.toml"
    {
        awk '/^```rust/ { inside = 1; next } /^```/ { inside = 0 } inside && /^use / { print }' "$checkout/README.md"
        printf '\nfn main() -> ankerdb::Result<()> {\n'
        awk '/^```rust/ { inside = 1; next } /^```/ { inside = 0 } inside && !/^use / { print "    " $0 }' "$checkout/README.md"
        printf '    println!("both have {total}");\n    Ok(())\n}\n'
    } >"$package/src/main.rs"
}

checkout="$work/ankerdb" port="$(free_port)"
ask="psql -X -h 127.0.0.1 -p $port -U me ankerdb"
begun_all="$(date +%s.%N)"

printf '# A stranger'"'"'s transcript\n\nWritten by `tools/transcript.sh`%s on %s, commit %s: %s cores, load %s at the beginning, %s. ' \
    "$([ "$in_workspace" = 0 ] || echo ' --in-workspace')" "$(date +%F)" "$(git -C "$source" rev-parse --short HEAD)" "$(nproc)" \
    "$(cut -d' ' -f1 /proc/loadavg)" "$(uname -sr)"
if [ -n "$reused" ]; then printf 'The libraries were built before, so the times of builds are of this project alone.\n'
else printf 'Everything was built from nothing.\n'; fi

export REPOSITORY="$source"
step "Get it" 'git clone -q "$REPOSITORY" ankerdb && cd ankerdb && git log --oneline -1'
folder="$checkout"
step "Build it (as ./run does at its first use)" "cargo build --release --locked --workspace"
warnings="$(grep -c '^warning' "$work/output" || true)"
serve

awk 'BEGIN { print "id,owner,branch,balance"; for (i = 1; i <= 100000; i++) printf "%d,customer %d,%d,%d.50\n", i, i, i % 10, i % 1000 }' \
    >"$checkout/accounts.csv"
cat >"$checkout/account.sql" <<'SQL'
CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, branch int NOT NULL, balance numeric(12,2) NOT NULL);
\copy account FROM 'accounts.csv' (FORMAT csv, HEADER)
SQL
cat >"$checkout/transfer.sql" <<'SQL'
BEGIN;
UPDATE account SET balance = balance - 25 WHERE id = 1500;
UPDATE account SET balance = balance + 25 WHERE id = 1600;
SELECT id, owner, balance FROM account WHERE id IN (1500, 1600) ORDER BY id;
COMMIT;
SQL
step "Connect with psql, make a table, load a CSV of 100,000 rows" "cat account.sql && $ask -f account.sql"
step "A transaction" "cat transfer.sql && $ask -f transfer.sql"
step "A report" "$ask -c 'SELECT branch, count(*), sum(balance) FROM account GROUP BY branch ORDER BY branch LIMIT 3'"

if [ "$in_workspace" = 1 ]; then
    write_program "$checkout/crates/hello" ../ankerdb
    # shellcheck disable=SC2016
    program='cargo build -q --release --workspace && "$CARGO_TARGET_DIR"/release/hello'
else
    write_program "$work/hello" "$checkout/crates/ankerdb"
    folder="$work/hello"
    program="cargo run -q --release"
fi
step "Embed it: the program of the README" "$program"
folder="$checkout"
if [ "$in_workspace" = 1 ]; then rm -rf "$checkout/crates/hello"; git -C "$checkout" checkout -q Cargo.lock; fi
step "An experiment of the papers" "./run experiment dissertation-fig2.6 --scale 0.01"
printf '\nAll of it: %s seconds.\n' "$(seconds_since "$begun_all")"

printf '\n## What there is\n\nWarnings of the build: %s.\n\nThe ten longest functions, in lines, without tests:\n\n```text\n%s\n```\n' \
    "$warnings" "$(longest_functions)"
printf '\nFolders and files:\n\n```text\n%s\n```\n' "$(tree)"
