// Checks of pgx v5: what its documentation shows.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"ankerdb/clients/report"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

var ctx = context.Background()

func describe(err error) string {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) {
		return "error: " + err.Error()
	}
	position := ""
	if failed.Position != 0 {
		position = strconv.Itoa(int(failed.Position))
	}
	return report.Told(failed.Code, failed.Message, map[string]string{
		"schema": failed.SchemaName, "table": failed.TableName, "column": failed.ColumnName, "type": failed.DataTypeName,
		"constraint": failed.ConstraintName, "position": position, "detail": failed.Detail, "hint": failed.Hint,
	})
}

func check(name string, work func() (any, error)) { report.Check(name, describe, work) }

func connect() *pgx.Conn {
	connection, err := pgx.Connect(ctx, "")
	if err != nil {
		fmt.Println("connect\t" + err.Error())
		os.Exit(1)
	}
	return connection
}

func rows(c *pgx.Conn, sql string, arguments ...any) (any, error) {
	found, err := c.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprintf("%v", values), err
	})
}

func types(c *pgx.Conn) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	one := int32(1)
	values := []struct {
		name  string
		value any
	}{
		{"bool", true}, {"int2", int16(-5)}, {"int4", int32(7)}, {"int8", int64(1) << 40}, {"float4", float32(1.5)}, {"float8", 0.1},
		{"numeric", "1.50"}, {"numeric(8,3)", "1.5"}, {"text", "ä☃"}, {"varchar(3)", "abc"}, {"char(4)", "ab"}, {"bytea", []byte{0, 255}},
		{"date", at}, {"timestamp", at}, {"timestamptz", at}, {"time", pgtype.Time{Microseconds: 1e6, Valid: true}}, {"interval", 90 * time.Minute},
		{"uuid", "00000000-0000-0000-0000-000000000005"}, {"json", map[string]any{"a": 1}}, {"jsonb", map[string]any{"b": []int{1}}},
		{"int4[]", []*int32{&one, nil}}, {"text[]", []string{"a", "b,c"}}, {"inet", "10.0.0.1/32"}, {"int4range", "[1,4)"}, {"oid", uint32(9)}, {"name", "n"},
	}
	for i, v := range values {
		// A table of its own each, since pgx keeps statements by their text.
		table := fmt.Sprintf("typed_%d", i)
		check("value "+v.name, func() (any, error) { return rows(c, "SELECT $1::"+v.name, v.value) })
		check("null "+v.name, func() (any, error) { return rows(c, "SELECT $1::"+v.name, nil) })
		check("column "+v.name, func() (any, error) {
			if _, err := c.Exec(ctx, "CREATE TABLE "+table+" (v "+v.name+")"); err != nil {
				return nil, err
			}
			if _, err := c.Exec(ctx, "INSERT INTO "+table+" VALUES ($1), (NULL)", v.value); err != nil {
				return nil, err
			}
			return rows(c, "SELECT v FROM "+table)
		})
	}
}

type person struct {
	ID   int32
	Name string
	Born *time.Time
}

func statements(c *pgx.Conn) {
	check("create", func() (any, error) {
		tag, err := c.Exec(ctx, "CREATE TABLE person (id serial PRIMARY KEY, name text NOT NULL UNIQUE, born date)")
		return tag.String(), err
	})
	check("insert", func() (any, error) {
		return rows(c, "INSERT INTO person (name) VALUES ($1), ($2) RETURNING id", "Ann", "Bob")
	})
	check("scan", func() (any, error) {
		var name string
		var born *time.Time
		err := c.QueryRow(ctx, "SELECT name, born FROM person WHERE id = $1", 1).Scan(&name, &born)
		return []any{name, born == nil}, err
	})
	check("struct by name", func() (any, error) {
		found, _ := c.Query(ctx, "SELECT * FROM person ORDER BY id")
		return pgx.CollectRows(found, pgx.RowToStructByName[person])
	})
	check("no rows", func() (any, error) {
		return nil, c.QueryRow(ctx, "SELECT name FROM person WHERE id = -1").Scan(new(string))
	})
	check("named arguments", func() (any, error) {
		return rows(c, "SELECT name FROM person WHERE id = @id", pgx.NamedArgs{"id": 2})
	})
	check("any", func() (any, error) {
		return rows(c, "SELECT name FROM person WHERE id = ANY($1) ORDER BY id", []int32{1, 2})
	})
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		check("mode "+mode.String(), func() (any, error) {
			return rows(c, "SELECT name, $2::text FROM person WHERE id = $1", mode, 1, "it's")
		})
	}
	check("prepare", func() (any, error) {
		described, err := c.Prepare(ctx, "by_name", "SELECT id, born FROM person WHERE name = $1")
		if err != nil {
			return nil, err
		}
		found, err := rows(c, "by_name", "Bob")
		return []any{described.ParamOIDs, described.Fields[1].DataTypeOID, found}, err
	})
	check("batch", func() (any, error) {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO person (name) VALUES ($1)", "Cid")
		batch.Queue("SELECT count(*) FROM person").QueryRow(func(row pgx.Row) error {
			var n int
			defer func() { fmt.Println("batch saw\t", n) }()
			return row.Scan(&n)
		})
		batch.Queue("UPDATE person SET born = $1", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		return nil, c.SendBatch(ctx, batch).Close()
	})
	check("batch that fails", func() (any, error) {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO person (name) VALUES ('lost')")
		batch.Queue("INSERT INTO person (name) VALUES ('Ann')")
		err := c.SendBatch(ctx, batch).Close()
		fmt.Println("batch error\t" + describe(err))
		return rows(c, "SELECT count(*) FROM person WHERE name = 'lost'")
	})
	check("several by simple protocol", func() (any, error) {
		found, err := c.PgConn().Exec(ctx, "SELECT 1; SELECT 2, 3").ReadAll()
		return len(found), err
	})
}

func copying(c *pgx.Conn) {
	check("copy from", func() (any, error) {
		return c.CopyFrom(ctx, pgx.Identifier{"person"}, []string{"name", "born"}, pgx.CopyFromRows([][]any{{"Dee", time.Now()}, {"Eve", nil}}))
	})
	check("copied", func() (any, error) {
		return rows(c, "SELECT name, born IS NULL FROM person WHERE name IN ('Dee', 'Eve') ORDER BY name")
	})
	check("copy that fails", func() (any, error) {
		return c.CopyFrom(ctx, pgx.Identifier{"person"}, []string{"name"}, pgx.CopyFromRows([][]any{{"Fay"}, {"Ann"}}))
	})
	check("copy of all types", func() (any, error) {
		if _, err := c.Exec(ctx, "CREATE TABLE wide (a bool, b int2, c int8, d float8, e numeric(8,2), f bytea, g timestamptz, h uuid, i varchar(5), j char(3), k real, l date)"); err != nil {
			return nil, err
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		values := []any{true, 1, 2, 0.5, "1.25", []byte{1}, at, "00000000-0000-0000-0000-000000000005", "v", "c", float32(2), at}
		if _, err := c.CopyFrom(ctx, pgx.Identifier{"wide"}, strings.Split("abcdefghijkl", ""), pgx.CopyFromRows([][]any{values, make([]any, 12)})); err != nil {
			return nil, err
		}
		return rows(c, "SELECT * FROM wide")
	})
	for _, options := range []string{"", "(FORMAT csv)", "(FORMAT binary)"} {
		check("copy to "+options, func() (any, error) {
			var out bytes.Buffer
			tag, err := c.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM person WHERE id < 3 ORDER BY id) TO STDOUT "+options)
			return []any{tag.String(), out.Bytes()}, err
		})
	}
}

func transactions(c *pgx.Conn) {
	check("nested", func() (any, error) {
		err := pgx.BeginFunc(ctx, c, func(outer pgx.Tx) error {
			if _, err := outer.Exec(ctx, "INSERT INTO person (name) VALUES ('outer')"); err != nil {
				return err
			}
			err := pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO person (name) VALUES ('outer')")
				return err
			})
			fmt.Println("inner\t" + describe(err))
			return nil
		})
		if err != nil {
			return nil, err
		}
		return rows(c, "SELECT count(*) FROM person WHERE name = 'outer'")
	})
	check("options", func() (any, error) {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable})
		if err != nil {
			return nil, err
		}
		defer tx.Rollback(ctx)
		_, err = tx.Exec(ctx, "DELETE FROM person")
		return nil, err
	})
	check("cursor", func() (any, error) {
		tx, err := c.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback(ctx)
		if _, err = tx.Exec(ctx, "DECLARE c CURSOR FOR SELECT name FROM person ORDER BY id"); err != nil {
			return nil, err
		}
		found, err := tx.Query(ctx, "FETCH 2 FROM c")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(found, pgx.RowTo[string])
	})
}

func failures(c *pgx.Conn) {
	for _, sql := range []string{"SELEC 1", "SELECT * FROM nowhere", "SELECT nothing FROM person", "INSERT INTO person (name) VALUES ('Ann')", "INSERT INTO person (name) VALUES (NULL)", "SELECT 1/0", "SELECT 'x'::int"} {
		check("error of "+sql, func() (any, error) { return rows(c, sql) })
	}
	check("wrong argument", func() (any, error) { return rows(c, "SELECT $1::int", "x") })
}

func others(c *pgx.Conn) {
	check("deadline", func() (any, error) {
		other := connect()
		limited, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := other.Exec(limited, "SELECT pg_sleep(20)")
		return errors.Is(err, context.DeadlineExceeded), nil
	})
	check("cancel request", func() (any, error) {
		other := connect()
		defer other.Close(ctx)
		go func() { time.Sleep(200 * time.Millisecond); other.PgConn().CancelRequest(ctx) }()
		_, err := other.Exec(ctx, "SELECT pg_sleep(20)")
		return nil, err
	})
	check("listen", func() (any, error) {
		other := connect()
		defer other.Close(ctx)
		if _, err := other.Exec(ctx, "LISTEN news"); err != nil {
			return nil, err
		}
		if _, err := c.Exec(ctx, "SELECT pg_notify('news', $1)", "hello"); err != nil {
			return nil, err
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		heard, err := other.WaitForNotification(limited)
		if err != nil {
			return nil, err
		}
		return []any{heard.Channel, heard.Payload, heard.PID == c.PgConn().PID()}, nil
	})
	check("ping", func() (any, error) { return nil, c.Ping(ctx) })
	check("load type", func() (any, error) {
		if _, err := c.Exec(ctx, "CREATE TYPE mood AS ENUM ('sad', 'ok')"); err != nil {
			return nil, err
		}
		loaded, err := c.LoadType(ctx, "mood")
		if err != nil {
			return nil, err
		}
		return loaded.Name, nil
	})
}

func main() {
	c := connect()
	defer c.Close(ctx)
	for _, part := range []func(*pgx.Conn){types, statements, copying, transactions, failures, others} {
		part(c)
	}
}
