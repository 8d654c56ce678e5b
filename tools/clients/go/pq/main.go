// Checks of lib/pq behind database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"ankerdb/clients/report"

	"github.com/lib/pq"
)

func describe(err error) string {
	var failed *pq.Error
	if !errors.As(err, &failed) {
		return "error: " + err.Error()
	}
	return report.Told(string(failed.Code), failed.Message, map[string]string{
		"schema": failed.Schema, "table": failed.Table, "column": failed.Column, "type": failed.DataTypeName,
		"constraint": failed.Constraint, "position": failed.Position, "detail": failed.Detail, "hint": failed.Hint,
	})
}

func check(name string, work func() (any, error)) { report.Check(name, describe, work) }

type querier interface {
	Query(string, ...any) (*sql.Rows, error)
}

func rows(db querier, text string, arguments ...any) (any, error) {
	found, err := db.Query(text, arguments...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	columns, err := found.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var all []string
	for found.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := found.Scan(targets...); err != nil {
			return nil, err
		}
		row := ""
		for i, value := range values {
			if at, ok := value.(time.Time); ok {
				value = at.UTC()
			}
			row += fmt.Sprintf("%s:%T:%v ", columns[i].DatabaseTypeName(), value, value)
		}
		all = append(all, row)
	}
	return all, found.Err()
}

func types(db *sql.DB) {
	values := map[string]any{
		"bool": true, "int2": 5, "int4": 6, "int8": int64(1) << 40, "float4": 1.5, "float8": 0.1, "numeric": "1.50", "text": "ä", "varchar(3)": "abc", "char(4)": "ab",
		"bytea": []byte{0, 255}, "date": "2026-01-02", "timestamp": "2026-01-02 03:04:05", "timestamptz": time.Unix(0, 0), "time": "01:02:03", "interval": "1 day", "uuid": "00000000-0000-0000-0000-000000000005",
		"json": `{"a": 1}`, "jsonb": `{"a": 1}`, "int4[]": pq.Array([]int{1, 2}), "text[]": pq.Array([]string{"a", "b,c"}), "inet": "10.0.0.1",
	}
	for _, name := range []string{"bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar(3)", "char(4)", "bytea", "date", "timestamp", "timestamptz", "time", "interval", "uuid", "json", "jsonb", "int4[]", "text[]", "inet"} {
		check("value "+name, func() (any, error) { return rows(db, "SELECT $1::"+name, values[name]) })
		check("literal "+name, func() (any, error) { return rows(db, "SELECT NULL::"+name) })
	}
}

func statements(db *sql.DB) {
	check("create", func() (any, error) {
		_, err := db.Exec("CREATE TABLE users (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age > 0))")
		return nil, err
	})
	check("insert", func() (any, error) {
		return rows(db, "INSERT INTO users (name, age) VALUES ($1, $2), ($3, NULL) RETURNING id", "Ann", 30, "Bob")
	})
	check("rows affected", func() (any, error) {
		done, err := db.Exec("UPDATE users SET age = age + 1 WHERE id = ANY($1)", pq.Array([]int{1, 2}))
		if err != nil {
			return nil, err
		}
		return done.RowsAffected()
	})
	check("prepared", func() (any, error) {
		statement, err := db.Prepare("SELECT name FROM users WHERE id = $1")
		if err != nil {
			return nil, err
		}
		defer statement.Close()
		var name string
		for i := 1; i < 3; i++ {
			if err := statement.QueryRow(i).Scan(&name); err != nil {
				return nil, err
			}
		}
		return name, nil
	})
	check("null", func() (any, error) {
		var age sql.NullInt64
		return age, db.QueryRow("SELECT age FROM users WHERE name = 'Bob'").Scan(&age)
	})
	check("copy in", func() (any, error) {
		tx, err := db.Begin()
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		statement, err := tx.Prepare(pq.CopyIn("users", "name", "age"))
		if err != nil {
			return nil, err
		}
		for i, name := range []string{"Cid", "tab\there"} {
			if _, err := statement.Exec(name, i+1); err != nil {
				return nil, err
			}
		}
		if _, err := statement.Exec(); err != nil {
			return nil, err
		}
		if err := statement.Close(); err != nil {
			return nil, err
		}
		return nil, tx.Commit()
	})
	check("copied", func() (any, error) { return rows(db, "SELECT name, age FROM users ORDER BY id") })
	check("several", func() (any, error) { return rows(db, "SELECT 1; SELECT 2") })
}

func transactions(db *sql.DB) {
	check("savepoint", func() (any, error) {
		tx, err := db.Begin()
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		for _, text := range []string{"INSERT INTO users (name) VALUES ('outer')", "SAVEPOINT s", "INSERT INTO users (name) VALUES ('outer')", "ROLLBACK TO s"} {
			if _, err := tx.Exec(text); err != nil {
				fmt.Println("in transaction\t" + describe(err))
			}
		}
		return nil, tx.Commit()
	})
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		check("level "+level.String(), func() (any, error) {
			tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level, ReadOnly: true})
			if err != nil {
				return nil, err
			}
			defer tx.Rollback()
			return rows(tx, "SHOW transaction_isolation")
		})
	}
}

func failures(db *sql.DB) {
	for _, text := range []string{"SELEC 1", "SELECT * FROM nowhere", "SELECT nothing FROM users", "INSERT INTO users (name) VALUES ('Ann')", "INSERT INTO users (age) VALUES (1)", "INSERT INTO users (name, age) VALUES ('e', -1)", "SELECT 1/0", "SELECT 'x'::int"} {
		check("error of "+text, func() (any, error) { return rows(db, text) })
	}
	check("wrong argument", func() (any, error) { return rows(db, "SELECT $1::int", "x") })
	check("too few arguments", func() (any, error) { return rows(db, "SELECT $1::int + $2::int", 1) })
}

func others(db *sql.DB) {
	check("deadline", func() (any, error) {
		limited, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		_, err := db.ExecContext(limited, "SELECT pg_sleep(20)")
		return nil, err
	})
	check("listener", func() (any, error) {
		listener := pq.NewListener("sslmode=disable", time.Second, time.Minute, nil)
		defer listener.Close()
		if err := listener.Listen("news"); err != nil {
			return nil, err
		}
		if _, err := db.Exec("NOTIFY news, 'hello'"); err != nil {
			return nil, err
		}
		select {
		case heard := <-listener.Notify:
			return []string{heard.Channel, heard.Extra}, nil
		case <-time.After(3 * time.Second):
			return "nothing came", nil
		}
	})
}

func main() {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		panic(err)
	}
	// Not closed, since that waits for connections that checks have left with open transactions.
	for _, part := range []func(*sql.DB){types, statements, transactions, failures, others} {
		part(db)
	}
}
