import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** Checks of pgjdbc: statements, types in both formats, batches, cursors, metadata as tools read it. */
public class Client {
    interface Work { Object run() throws Exception; }

    static void check(String name, Work work) {
        String text;
        try { text = String.valueOf(work.run()); } catch (Throwable e) { text = describe(e); }
        System.out.println(name + "\t" + text.trim().replaceAll("\\s+", " "));
    }

    static String describe(Throwable e) {
        if (e instanceof BatchUpdateException && e.getCause() != null) return "batch " + describe(e.getCause());
        if (!(e instanceof PSQLException)) return e.getClass().getSimpleName() + " " + e.getMessage();
        ServerErrorMessage m = ((PSQLException) e).getServerErrorMessage();
        if (m == null) return "error " + ((SQLException) e).getSQLState() + " " + e.getMessage().split("\n")[0];
        StringBuilder told = new StringBuilder("error " + m.getSQLState() + " " + m.getMessage());
        String[][] fields = {{"schema", m.getSchema()}, {"table", m.getTable()}, {"column", m.getColumn()}, {"constraint", m.getConstraint()},
            {"position", m.getPosition() == 0 ? null : "" + m.getPosition()}, {"detail", m.getDetail()}, {"hint", m.getHint()}};
        for (String[] field : fields) if (field[1] != null) told.append(" ").append(field[0]).append("=").append(field[1]);
        return told.toString();
    }

    static String rows(ResultSet found, String... columns) throws SQLException {
        StringBuilder all = new StringBuilder();
        int count = found.getMetaData().getColumnCount();
        while (found.next()) {
            all.append("[");
            for (int i = 1; i <= (columns.length > 0 ? columns.length : count); i++) {
                Object value = columns.length > 0 ? found.getObject(columns[i - 1]) : found.getObject(i);
                all.append(i > 1 ? ", " : "").append(value instanceof byte[] ? Arrays.toString((byte[]) value) : value);
            }
            all.append("] ");
        }
        found.close();
        return all.toString();
    }

    static String query(Connection c, String sql, Object... arguments) throws SQLException {
        try (PreparedStatement statement = c.prepareStatement(sql)) {
            for (int i = 0; i < arguments.length; i++) statement.setObject(i + 1, arguments[i]);
            if (!statement.execute()) return "updated " + statement.getUpdateCount();
            return rows(statement.getResultSet());
        }
    }

    static void types(Connection c) {
        Object[][] values = {{"boolean", true}, {"smallint", (short) 5}, {"int", -6}, {"bigint", 1L << 40}, {"real", 1.5f}, {"double precision", 0.1}, {"numeric", new BigDecimal("1.50")},
            {"numeric(8,3)", new BigDecimal("1.5")}, {"text", "ä"}, {"varchar(3)", "abc"}, {"char(4)", "ab"}, {"bytea", new byte[] {0, -1}}, {"date", java.sql.Date.valueOf("2026-01-02")},
            {"timestamp", Timestamp.valueOf("2026-01-02 03:04:05.678")}, {"timestamptz", java.time.OffsetDateTime.parse("2026-01-02T03:04:05Z")}, {"time", Time.valueOf("01:02:03")},
            {"timestamp", java.time.LocalDateTime.parse("2026-01-02T03:04:05")}, {"date", java.time.LocalDate.parse("2026-01-02")}, {"uuid", new UUID(0, 5)}};
        for (Object[] v : values) {
            for (int i = 0; i < 7; i += 6) { // The seventh time it is a named statement with binary values.
                final int times = i;
                check("value " + v[0] + " " + v[1].getClass().getSimpleName() + " " + i, () -> {
                    try (PreparedStatement s = c.prepareStatement("SELECT ?::" + v[0])) {
                        String found = null;
                        for (int n = 0; n <= times; n++) { s.setObject(1, v[1]); found = rows(s.executeQuery()); }
                        return found;
                    }
                });
            }
        }
        for (String literal : new String[] {"'1 day'::interval", "'{\"a\": 1}'::jsonb", "ARRAY[1, 2]", "'{a,b}'::text[]", "'10.0.0.1'::inet", "'t'::\"char\"", "NULL", "1::oid"})
            check("literal " + literal, () -> query(c, "SELECT " + literal));
        check("array parameter", () -> query(c, "SELECT i FROM generate_series(1, 4) AS s(i) WHERE i = ANY (?)", c.createArrayOf("int4", new Integer[] {2, 3})));
        check("null parameter", () -> { try (PreparedStatement s = c.prepareStatement("SELECT ?::int IS NULL")) { s.setNull(1, Types.INTEGER); return rows(s.executeQuery()); } });
    }

    static void statements(Connection c) {
        check("create", () -> query(c, "CREATE TABLE users (id serial PRIMARY KEY, name varchar(20) UNIQUE NOT NULL, age int CHECK (age > 0), balance numeric(10,2) DEFAULT 0)"));
        check("generated keys", () -> {
            try (PreparedStatement s = c.prepareStatement("INSERT INTO users (name, age) VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
                s.setString(1, "Ann"); s.setInt(2, 30); s.executeUpdate();
                return rows(s.getGeneratedKeys());
            }
        });
        check("batch", () -> {
            try (PreparedStatement s = c.prepareStatement("INSERT INTO users (name, age) VALUES (?, ?)", new String[] {"id"})) {
                for (int i = 0; i < 5; i++) { s.setString(1, "b" + i); s.setInt(2, i + 1); s.addBatch(); }
                return Arrays.toString(s.executeBatch()) + rows(s.getGeneratedKeys());
            }
        });
        check("batch that fails", () -> {
            try (Statement s = c.createStatement()) {
                s.addBatch("INSERT INTO users (name) VALUES ('c')"); s.addBatch("INSERT INTO users (name) VALUES ('Ann')");
                return Arrays.toString(s.executeBatch());
            }
        });
        check("cursor", () -> {
            c.setAutoCommit(false);
            try (PreparedStatement s = c.prepareStatement("SELECT i FROM generate_series(1, 100) AS s(i)")) {
                s.setFetchSize(7);
                int sum = 0;
                ResultSet found = s.executeQuery();
                while (found.next()) sum += found.getInt(1);
                return sum;
            } finally { c.setAutoCommit(true); }
        });
        check("scrollable", () -> {
            try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY)) {
                ResultSet found = s.executeQuery("SELECT id FROM users ORDER BY id");
                found.last(); int last = found.getRow(); found.absolute(2);
                return last + " " + found.getInt(1);
            }
        });
        check("updatable", () -> {
            try (Statement s = c.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet found = s.executeQuery("SELECT id, name, age FROM users WHERE name = 'Ann'");
                found.next(); found.updateInt("age", 31); found.updateRow();
                return query(c, "SELECT age FROM users WHERE name = 'Ann'");
            }
        });
        check("several", () -> { try (Statement s = c.createStatement()) { s.execute("SELECT 1; SELECT 2"); s.getMoreResults(); return rows(s.getResultSet()); } });
        check("max rows", () -> { try (Statement s = c.createStatement()) { s.setMaxRows(2); return rows(s.executeQuery("SELECT id FROM users ORDER BY id")); } });
        check("escapes", () -> query(c, "SELECT {fn ucase('x')}, {d '2026-01-02'}, {fn concat('a', 'b')}"));
        check("copy in", () -> c.unwrap(PGConnection.class).getCopyAPI().copyIn("COPY users (name, age) FROM STDIN WITH CSV", new StringReader("x,1\ny,2\n")));
        check("copy out", () -> { StringWriter out = new StringWriter(); c.unwrap(PGConnection.class).getCopyAPI().copyOut("COPY (SELECT name FROM users ORDER BY id) TO STDOUT", out); return out; });
    }

    static void transactions(Connection c) throws SQLException {
        c.setAutoCommit(false);
        check("savepoint", () -> {
            query(c, "INSERT INTO users (name) VALUES ('kept')");
            Savepoint s = c.setSavepoint("s");
            try { query(c, "INSERT INTO users (name) VALUES ('kept')"); } catch (SQLException e) { c.rollback(s); }
            c.commit();
            return query(c, "SELECT count(*) FROM users WHERE name = 'kept'");
        });
        c.rollback();
        c.setAutoCommit(true);
        for (int level : new int[] {Connection.TRANSACTION_READ_COMMITTED, Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE})
            check("isolation " + level, () -> { c.setTransactionIsolation(level); return c.getTransactionIsolation() == level; });
        check("read only", () -> { c.setReadOnly(true); c.setAutoCommit(false); try { return query(c, "DELETE FROM users"); } finally { c.rollback(); c.setAutoCommit(true); c.setReadOnly(false); } });
    }

    static void errors(Connection c) {
        for (String sql : new String[] {"SELEC 1", "SELECT * FROM nowhere", "SELECT nothing FROM users", "INSERT INTO users (name) VALUES ('Ann')", "INSERT INTO users (age) VALUES (1)",
            "INSERT INTO users (name, age) VALUES ('e', -1)", "INSERT INTO users (name) VALUES ('aaaaaaaaaaaaaaaaaaaaaaaaa')", "SELECT 1/0", "SELECT 'x'::int"})
            check("error of " + sql, () -> query(c, sql));
        check("cancel", () -> {
            try (Statement s = c.createStatement()) {
                new Thread(() -> { try { Thread.sleep(300); s.cancel(); } catch (Exception e) { } }).start();
                return rows(s.executeQuery("SELECT pg_sleep(20)"));
            }
        });
        check("query timeout", () -> { try (Statement s = c.createStatement()) { s.setQueryTimeout(1); return rows(s.executeQuery("SELECT pg_sleep(20)")); } });
        check("notify", () -> {
            query(c, "LISTEN news"); query(c, "NOTIFY news, 'hello'");
            var heard = c.unwrap(PGConnection.class).getNotifications(3000);
            return heard == null ? "nothing came" : heard[0].getName() + " " + heard[0].getParameter();
        });
        check("valid", () -> c.isValid(1));
    }

    static void metadata(Connection c) throws SQLException {
        check("second table", () -> query(c, "CREATE TABLE orders (id bigint PRIMARY KEY, user_id int, placed timestamptz DEFAULT now(), note text)"));
        check("foreign key", () -> query(c, "ALTER TABLE orders ADD CONSTRAINT of_user FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE"));
        check("index", () -> query(c, "CREATE INDEX orders_placed ON orders (placed DESC, user_id)"));
        check("view", () -> query(c, "CREATE VIEW named AS SELECT name FROM users"));
        DatabaseMetaData m = c.getMetaData();
        check("tables", () -> rows(m.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE"));
        check("all tables", () -> rows(m.getTables(null, null, "user%", null), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"));
        check("columns", () -> rows(m.getColumns(null, "public", "users", "%"), "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT"));
        check("primary keys", () -> rows(m.getPrimaryKeys(null, "public", "users"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        check("imported keys", () -> rows(m.getImportedKeys(null, "public", "orders"), "PKTABLE_NAME", "PKCOLUMN_NAME", "FKCOLUMN_NAME", "DELETE_RULE", "FK_NAME"));
        check("exported keys", () -> rows(m.getExportedKeys(null, "public", "users"), "FKTABLE_NAME", "FK_NAME"));
        check("index info", () -> rows(m.getIndexInfo(null, "public", "orders", false, false), "INDEX_NAME", "NON_UNIQUE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"));
        check("best row", () -> rows(m.getBestRowIdentifier(null, "public", "users", 0, true), "COLUMN_NAME", "TYPE_NAME"));
        check("schemas", () -> rows(m.getSchemas(null, "pub%"), "TABLE_SCHEM"));
        check("catalogs", () -> rows(m.getCatalogs()).contains("ankerdb"));
        check("table types", () -> rows(m.getTableTypes()));
        check("type info", () -> { ResultSet r = m.getTypeInfo(); Set<String> names = new HashSet<>(); while (r.next()) names.add(r.getString(1)); return names.containsAll(List.of("int4", "text", "timestamptz", "bytea", "uuid")); });
        check("functions", () -> rows(m.getFunctions(null, null, "pg_backend_pid"), "FUNCTION_NAME"));
        check("privileges", () -> rows(m.getTablePrivileges(null, "public", "users"), "PRIVILEGE"));
        check("keywords", () -> m.getSQLKeywords().contains("ilike"));
        check("product", () -> m.getDatabaseProductName() + m.getDatabaseMajorVersion() + m.getDefaultTransactionIsolation() + m.getUserName() + m.getMaxColumnNameLength());
        check("result columns", () -> {
            try (Statement s = c.createStatement()) {
                ResultSetMetaData r = s.executeQuery("SELECT id, name, balance, now() AS at FROM users").getMetaData();
                StringBuilder all = new StringBuilder();
                for (int i = 1; i <= r.getColumnCount(); i++)
                    all.append(r.getColumnLabel(i) + " " + r.getColumnTypeName(i) + " " + r.getPrecision(i) + " " + r.getScale(i) + " " + r.isNullable(i) + " " + r.isAutoIncrement(i) + " " + r.getTableName(i) + "; ");
                return all;
            }
        });
        check("parameters", () -> { try (PreparedStatement s = c.prepareStatement("SELECT * FROM users WHERE id = ? AND name LIKE ?")) { ParameterMetaData p = s.getParameterMetaData(); return p.getParameterTypeName(1) + p.getParameterTypeName(2); } });
    }

    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER");
        Connection c = DriverManager.getConnection(url);
        types(c);
        statements(c);
        transactions(c);
        errors(c);
        metadata(c);
        check("rewritten batch", () -> {
            try (Connection other = DriverManager.getConnection(url + "&reWriteBatchedInserts=true&preferQueryMode=extendedForPrepared"); PreparedStatement s = other.prepareStatement("INSERT INTO users (name) VALUES (?)")) {
                for (int i = 0; i < 6; i++) { s.setString(1, "r" + i); s.addBatch(); }
                return s.executeBatch().length + query(other, "SELECT count(*) FROM users WHERE name LIKE 'r%'");
            }
        });
        check("simple mode", () -> { try (Connection other = DriverManager.getConnection(url + "&preferQueryMode=simple")) { return query(other, "SELECT ?, ?::date", 5, "2026-01-02"); } });
        c.close();
    }
}
