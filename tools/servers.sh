# Servers for measurements and checks, to be read by other scripts, which have `fail`: PostgreSQL's programs, and free ports.

# A program of PostgreSQL's; Debian keeps the server's out of the path.
program() {
    command -v "$1" || ls "/usr/lib/postgresql/15/bin/$1" 2>/dev/null || fail "$1 is missing (on Debian: postgresql-15)"
}

# Replaces the (sub)shell, so that its process is the server's.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else exec "$@"; fi
}

free_port() {
    local port
    for _ in $(seq 100); do
        port=$((20000 + RANDOM % 30000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    fail "no free port"
}

# Until the server on a port answers queries to a database.
await() {
    for _ in $(seq 300); do
        PGOPTIONS='' psql -qAt -h 127.0.0.1 -p "$1" -U postgres "$2" -c 'SELECT 1' >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "the server on port $1 does not answer"
}

# PostgreSQL in the folder $work, on the port $postgresql_port, with further arguments as they are given; its process is added to
# $pids. It waits for no disk, as AnKerDB writes nothing.
start_postgresql() {
    postgresql_port="$(free_port)"
    mkdir "$work/pg"
    if [ "$(id -u)" = 0 ]; then chown postgres "$work" "$work/pg"; fi
    (cd "$work" && as_postgres "$(program initdb)" -D "$work/pg" -U postgres -A trust --no-sync >/dev/null)
    (cd "$work" && as_postgres "$(program postgres)" -D "$work/pg" -p "$postgresql_port" -h 127.0.0.1 -k "$work" \
        -c fsync=off -c synchronous_commit=off -c full_page_writes=off "$@" >"$work/pg.log" 2>&1) &
    pids+=($!)
    await "$postgresql_port" postgres
    psql -q -h 127.0.0.1 -p "$postgresql_port" -U postgres postgres -c 'CREATE DATABASE ankerdb'
}
