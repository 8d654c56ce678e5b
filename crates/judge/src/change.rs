//! Random changes: INSERT, UPDATE, DELETE, with RETURNING and ON CONFLICT, alone and in transactions, and sometimes
//! against a constraint.

use crate::expression::Generator;
use crate::schema::{ID_MAX, SchemaTable, row, stored};
use crate::tree::{Sort, Tree};
use crate::types::Type::Bool;

impl Generator<'_> {
    /// A statement that writes, and the table that it writes to.
    pub fn change(&mut self) -> (Tree, String) {
        let table = &self.tables[self.rng.usize(..self.tables.len())];
        self.scope = table.columns.iter().map(|column| (column.name.clone(), column.kind)).collect();
        let statement = match self.rng.u8(..10) {
            0..=2 => self.insert(table),
            3 => self.upsert(table),
            4 => self.insert_query(table),
            5..=7 => self.update(table),
            _ => self.delete(table),
        };
        let statement = match self.once_in(3) {
            true => self.returning(statement),
            false => statement,
        };
        (statement, table.name.clone())
    }

    fn returning(&mut self, statement: Tree) -> Tree {
        let kind = self.any_type();
        let value = self.value(kind, 1);
        statement.optional(" RETURNING ", Tree::new(Sort::Word).text("id").optional(", ", value))
    }

    /// Rows with ids that are mostly free.
    fn insert(&mut self, table: &SchemaTable) -> Tree {
        let rows = (0..self.rng.usize(1..=4))
            .map(|_| {
                let id = if self.once_in(4) { self.rng.i32(1..=ID_MAX) } else { self.rng.i32(100..30_000) };
                row(self.rng, table, id)
            })
            .collect();
        Tree::new(Sort::Statement).text(format!("INSERT INTO {} VALUES ", table.name)).list(rows)
    }

    fn upsert(&mut self, table: &SchemaTable) -> Tree {
        let id = self.rng.i32(1..=ID_MAX);
        let row = row(self.rng, table, id);
        let tree = Tree::new(Sort::Statement).text(format!("INSERT INTO {} VALUES ", table.name)).child(row);
        if self.once_in(3) {
            return tree.text(self.pick(&[" ON CONFLICT DO NOTHING", " ON CONFLICT (id) DO NOTHING"]));
        }
        let column = &table.columns[self.rng.usize(1..table.columns.len())].name;
        let tree = tree.text(format!(" ON CONFLICT (id) DO UPDATE SET {column} = excluded.{column}"));
        match self.once_in(3) {
            true => {
                let key = Tree::leaf(Sort::Value(Bool), format!("{}.id > 10", table.name));
                tree.optional(" WHERE ", key)
            }
            false => tree,
        }
    }

    /// Rows of a table, again, under other ids.
    fn insert_query(&mut self, table: &SchemaTable) -> Tree {
        let offset = self.rng.i32(1000..9000);
        let others: Vec<&str> = table.columns[1..].iter().map(|column| column.name.as_str()).collect();
        let name = &table.name;
        let text = format!("INSERT INTO {name} SELECT id + {offset}, {} FROM {name}", others.join(", "));
        let condition = self.value(Bool, 1);
        Tree::statement(text).optional(" WHERE ", condition)
    }

    fn update(&mut self, table: &SchemaTable) -> Tree {
        let mut tree = Tree::new(Sort::Statement).text(format!("UPDATE {} SET ", table.name));
        let at = self.rng.usize(1..table.columns.len());
        let column = &table.columns[at];
        let value = match self.rng.u8(..16) {
            15 => Tree::leaf(Sort::Word, "DEFAULT"),
            0..=3 => stored(self.rng, column.kind),
            4..=6 => Tree::leaf(Sort::Value(column.kind), "NULL"),
            _ => self.value(column.kind, 2),
        };
        tree = tree.text(format!("{} = ", column.name)).child(value);
        if self.once_in(6) {
            tree = tree.optional(", ", Tree::leaf(Sort::Word, format!("id = id + {}", self.rng.i32(-1..90))));
        }
        self.restricted(tree)
    }

    fn delete(&mut self, table: &SchemaTable) -> Tree {
        let tree = Tree::statement(format!("DELETE FROM {}", table.name));
        self.restricted(tree)
    }

    /// With a condition: on the key, on anything, or none.
    fn restricted(&mut self, tree: Tree) -> Tree {
        match self.rng.u8(..6) {
            0 => tree,
            1 | 2 => {
                let key = format!("id = {}", self.rng.i32(1..=ID_MAX));
                tree.optional(" WHERE ", Tree::leaf(Sort::Value(Bool), key))
            }
            _ => {
                let condition = self.value(Bool, 2);
                tree.optional(" WHERE ", condition)
            }
        }
    }
}
