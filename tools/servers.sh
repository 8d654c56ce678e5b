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
