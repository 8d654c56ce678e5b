//! Random queries: on one table so that the OLTP path takes them, and everything that analytics write.

use crate::answer::RowOrder;
use crate::expression::Generator;
use crate::schema::ID_MAX;
use crate::tree::{Sort, Tree};
use crate::types::TYPES;
use crate::types::Type::{self, *};

/// In front of the order of a query.
const ORDER: &str = " ORDER BY ";

/// Types of a query's columns.
type Columns = Vec<Type>;

impl Generator<'_> {
    /// A query, and whether it orders its rows totally.
    pub fn query(&mut self) -> (Tree, RowOrder) {
        self.scope.clear();
        match self.rng.u8(..10) {
            0..=3 => self.narrow(),
            4 => self.without_table(),
            _ => {
                let (with, query, columns) = self.wide();
                self.ordered(with, query, columns.len())
            }
        }
    }

    /// A query with a WITH clause in front or without, before it is ordered.
    fn wide(&mut self) -> (Option<Tree>, Tree, Columns) {
        match self.rng.u8(..12) {
            0..=3 => self.plain(2),
            4..=6 => self.aggregated(),
            7 => self.windowed(),
            8 | 9 => self.combined(),
            10 => self.distinct(),
            _ => self.common_table(),
        }
        .into_parts()
    }

    /// A SELECT that reaches its rows by the primary key.
    fn narrow(&mut self) -> (Tree, RowOrder) {
        let from = self.table_source(false);
        // A column of the result may be called `id`, too.
        let table = from.sql();
        let items = self.items(2);
        let low = self.rng.i32(0..ID_MAX / 2);
        let key = match self.rng.u8(..3) {
            0 => format!("id = {}", self.rng.i32(1..=ID_MAX)),
            1 => format!("id IN ({}, {low}, {})", low + 1, low + 7),
            _ => format!("id BETWEEN {low} AND {}", low + self.rng.i32(1..ID_MAX)),
        };
        let mut query = select(items).text(" FROM ").child(from);
        let mut condition = Tree::leaf(Sort::Word, key);
        if self.rng.bool() {
            let other = self.value(Bool, 2);
            condition = condition.optional(" AND ", other);
        }
        query = query.optional(" WHERE ", condition);
        let direction = self.pick(&["", " DESC"]);
        query = query.text(format!(" ORDER BY {table}.id{direction}"));
        if self.once_in(3) {
            query = query.optional(" LIMIT ", Tree::leaf(Sort::Word, self.rng.u8(..6).to_string()));
        }
        (query, RowOrder::Total)
    }

    fn without_table(&mut self) -> (Tree, RowOrder) {
        (select(self.items(3)), RowOrder::Any)
    }

    /// Behind the query: nothing, or an order by all columns, possibly with a limit.
    fn ordered(&mut self, with: Option<Tree>, query: Tree, width: usize) -> (Tree, RowOrder) {
        let mut whole = Tree::new(Sort::Statement);
        if let Some(with) = with {
            whole = whole.child(with);
        }
        whole = whole.child(query);
        if self.once_in(3) {
            return (whole, RowOrder::Any);
        }
        let mut keys = Vec::new();
        for position in 1..=width {
            let direction = self.pick(&["", "", " ASC", " DESC", " DESC NULLS LAST", " NULLS FIRST"]);
            keys.push(format!("{position}{direction}"));
        }
        let mut order = Tree::leaf(Sort::Word, keys.join(", "));
        if self.rng.bool() {
            order = order.optional(" LIMIT ", Tree::leaf(Sort::Word, self.rng.u8(..8).to_string()));
            if self.once_in(3) {
                order = order.optional(" OFFSET ", Tree::leaf(Sort::Word, self.rng.u8(..4).to_string()));
            }
        }
        (whole.optional(ORDER, order), RowOrder::Total)
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    /// A table under a name, whose columns come into scope.
    fn table_source(&mut self, named: bool) -> Tree {
        let table = &self.tables[self.rng.usize(..self.tables.len())];
        let name = if named { self.alias() } else { table.name.clone() };
        let columns = table.columns.iter();
        self.scope.extend(columns.map(|column| match named {
            true => (format!("{name}.{}", column.name), column.kind),
            false => (column.name.clone(), column.kind),
        }));
        let text = if named { format!("{} AS {name}", table.name) } else { name };
        Tree::leaf(Sort::Source, text)
    }

    /// A table, joins, or a subquery.
    fn source(&mut self) -> Tree {
        match self.rng.u8(..7) {
            0..=2 => self.table_source(true),
            3 | 4 => self.join(),
            5 => self.joins(),
            _ => {
                let outer = std::mem::take(&mut self.scope);
                let (query, columns) = self.small_query();
                self.scope = outer;
                let alias = self.alias();
                let named = columns.iter().enumerate().map(|(at, kind)| (format!("{alias}.o{at}"), *kind));
                self.scope.extend(named);
                Tree::new(Sort::Source).text("(").child(query).text(format!(") AS {alias}"))
            }
        }
    }

    fn join(&mut self) -> Tree {
        let (left, kind) = (self.table_source(true), self.rng.u8(..6));
        let middle = self.scope.len();
        let right = self.table_source(true);
        let tree = Tree::new(Sort::Source).child(left);
        let words = match kind {
            0 => return tree.text(" CROSS JOIN ").child(right),
            1 => " LEFT JOIN ",
            2 => " RIGHT JOIN ",
            3 => " FULL JOIN ",
            _ => " JOIN ",
        };
        let (left_key, right_key) = (self.scope[0].0.clone(), self.scope[middle].0.clone());
        let mut condition = Tree::leaf(Sort::Value(Bool), format!("{left_key} = {right_key}"));
        // PostgreSQL has full joins on conditions that can be hashed or merged only.
        if kind != 3 && self.once_in(3) {
            condition = self.value(Bool, 2);
        } else if kind != 3 && self.once_in(3) {
            let more = self.value(Bool, 1);
            condition = Tree::new(Sort::Value(Bool)).child(condition).text(" AND ").child(more);
        }
        tree.text(words).child(right).text(" ON ").child(condition)
    }

    /// Three or four tables, each joined with one before by their first columns.
    fn joins(&mut self) -> Tree {
        let first = self.table_source(true);
        let mut keys = vec![self.scope[0].0.clone()];
        let mut tree = Tree::new(Sort::Source).child(first);
        for _ in 0..self.rng.usize(2..=3) {
            let place = self.scope.len();
            let right = self.table_source(true);
            let (key, before) = (self.scope[place].0.clone(), &keys[self.rng.usize(..keys.len())]);
            let mut condition = Tree::leaf(Sort::Value(Bool), format!("{before} = {key}"));
            if self.once_in(3) {
                let more = self.value(Bool, 1);
                condition = Tree::new(Sort::Value(Bool)).child(condition).text(" AND ").child(more);
            }
            let words = if self.once_in(4) { " LEFT JOIN " } else { " JOIN " };
            tree = tree.text(words).child(right).text(" ON ").child(condition);
            keys.push(key);
        }
        tree
    }

    /// Some select items, without repeated names.
    fn items(&mut self, depth: u32) -> Vec<Tree> {
        let count = self.rng.usize(1..=4);
        (0..count).map(|position| self.item(position, depth)).collect()
    }

    fn item(&mut self, position: usize, depth: u32) -> Tree {
        let kind = self.any_type();
        let value = self.value(kind, depth);
        self.named(value, position)
    }

    /// Under a name of its own; sometimes under the one that it has anyway.
    fn named(&mut self, value: Tree, position: usize) -> Tree {
        match position == 0 && self.once_in(3) {
            true => Tree::new(Sort::Word).child(value),
            false => Tree::new(Sort::Word).child(value).text(format!(" AS o{position}")),
        }
    }

    /// Columns that a query gives, all named `o0`, `o1`, ..., of these types.
    fn typed_items(&mut self, columns: &[Type], depth: u32) -> Vec<Tree> {
        let item = |(position, &kind): (usize, &Type)| {
            let value = self.value(kind, depth);
            Tree::new(Sort::Word).child(value).text(format!(" AS o{position}"))
        };
        columns.iter().enumerate().map(item).collect()
    }

    fn some_types(&mut self) -> Columns {
        (0..self.rng.usize(1..=3)).map(|_| self.any_type()).collect()
    }

    fn where_clause(&mut self, query: Tree) -> Tree {
        match self.once_in(3) {
            true => query,
            false => {
                let condition = self.value(Bool, 2);
                query.optional(" WHERE ", condition)
            }
        }
    }

    fn plain(&mut self, depth: u32) -> Parts {
        let source = self.source();
        let items = self.items(depth);
        let width = items.len();
        let query = select(items).text(" FROM ").child(source);
        Parts::of(self.where_clause(query), vec![Int; width])
    }

    fn distinct(&mut self) -> Parts {
        let source = self.source();
        let columns = self.some_types();
        let items = self.typed_items(&columns, 1);
        let query = Tree::new(Sort::Query).text("SELECT DISTINCT ").list(items).text(" FROM ").child(source);
        Parts::of(self.where_clause(query), columns)
    }

    /// A query over one source with columns `o0`, `o1`, ...
    fn small_query(&mut self) -> (Tree, Columns) {
        let source = self.table_source(true);
        let columns = self.some_types();
        let items = self.typed_items(&columns, 1);
        let query = select(items).text(" FROM ").child(source);
        (self.where_clause(query), columns)
    }

    fn combined(&mut self) -> Parts {
        let columns: Columns = (0..self.rng.usize(1..=3)).map(|_| self.pick(&TYPES)).collect();
        let mut query = self.side(&columns);
        for _ in 0..self.rng.usize(1..=2) {
            let operator =
                self.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"]);
            let right = self.side(&columns);
            let tree = Tree::new(Sort::Query).text("(").child(query).text(format!(") {operator} ("));
            query = tree.child(right).text(")");
        }
        Parts::of(query, columns)
    }

    fn side(&mut self, columns: &[Type]) -> Tree {
        self.scope.clear();
        let source = self.table_source(true);
        let items = self.typed_items(columns, 1);
        let query = select(items).text(" FROM ").child(source);
        self.where_clause(query)
    }

    fn common_table(&mut self) -> Parts {
        let (inner, columns) = self.small_query();
        let name = self.alias();
        self.scope = columns.iter().enumerate().map(|(at, &kind)| (format!("{name}.o{at}"), kind)).collect();
        let items = self.items(1);
        let width = items.len();
        let query = select(items).text(format!(" FROM {name}"));
        let query = self.where_clause(query);
        let with = Tree::new(Sort::Statement).text(format!("WITH {name} AS (")).child(inner).text(") ");
        Parts { with: Some(with), query, columns: vec![Int; width] }
    }

    fn aggregated(&mut self) -> Parts {
        let source = self.source();
        let mut groups = Vec::new();
        for _ in 0..self.rng.usize(0..=2) {
            let kind = self.any_type();
            groups.push(self.value(kind, 1));
        }
        let mut items: Vec<Tree> =
            groups.iter().enumerate().map(|(at, group)| self.named(group.clone(), at)).collect();
        for _ in 0..self.rng.usize(1..=3) {
            let aggregate = self.aggregate();
            items.push(self.named(aggregate, items.len()));
        }
        let width = items.len();
        let query = select(items).text(" FROM ").child(source);
        let mut query = self.where_clause(query);
        if !groups.is_empty() {
            // By position: a constant or a number as a group would mean something else.
            let positions: Vec<String> = (1..=groups.len()).map(|position| position.to_string()).collect();
            query = query.text(format!(" GROUP BY {}", positions.join(", ")));
        }
        if self.once_in(3) {
            let (aggregate, bound) = (self.counting(), self.rng.u8(..4));
            query = query.optional(" HAVING ", aggregate.text(format!(" > {bound}")));
        }
        Parts::of(query, vec![Int; width])
    }

    fn counting(&mut self) -> Tree {
        let kind = self.any_type();
        let operand = self.value(kind, 0);
        match self.rng.bool() {
            true => Tree::leaf(Sort::Value(BigInt), "count(*)"),
            false => Tree::new(Sort::Value(BigInt)).text("count(").child(operand).text(")"),
        }
    }

    fn aggregate(&mut self) -> Tree {
        if self.once_in(3) {
            return self.counting();
        }
        let numbers = [SmallInt, Int, BigInt, Real, Double, Numeric];
        let ordered =
            [SmallInt, Int, BigInt, Real, Double, Numeric, Text, Varchar, Date, Timestamp, TimestampTz, Time];
        let (name, kind, result) = match self.rng.u8(..12) {
            0..=3 => ("sum", self.pick(&numbers), BigInt),
            4 | 5 => ("avg", self.pick(&numbers), Numeric),
            6 | 7 => ("min", self.pick(&ordered), Int),
            8 | 9 => ("max", self.pick(&ordered), Int),
            10 => (self.pick(&["bool_and", "bool_or", "every"]), Bool, Bool),
            _ => (
                self.pick(&["stddev", "variance", "stddev_pop", "var_pop"]),
                self.pick(&[Int, Double]),
                Numeric,
            ),
        };
        let operand = self.value(kind, 1);
        let result = if matches!(name, "min" | "max") { kind } else { result };
        let distinct = if self.once_in(5) { "DISTINCT " } else { "" };
        let tree = Tree::new(Sort::Value(result)).text(format!("{name}({distinct}")).child(operand).text(")");
        match self.once_in(6) {
            true => {
                let condition = self.value(Bool, 1);
                tree.optional(" FILTER (WHERE ", Tree::new(Sort::Word).child(condition).text(")"))
            }
            false => tree,
        }
    }

    fn windowed(&mut self) -> Parts {
        let source = self.table_source(true);
        // The primary key makes the order within a window total.
        let key = self.scope[0].0.clone();
        let items = self.items(1);
        let width = items.len() + 1;
        let kind = self.any_type();
        let (part, operand) = (self.value(kind, 0), self.value(Int, 1));
        let partition = Tree::new(Sort::Optional).text("PARTITION BY ").child(part).text(" ");
        let call = match self.rng.u8(..9) {
            0 => Tree::leaf(Sort::Word, "row_number()"),
            1 => Tree::leaf(Sort::Word, "rank()"),
            2 => Tree::leaf(Sort::Word, "dense_rank()"),
            3 => Tree::new(Sort::Word).text("sum(").child(operand).text(")"),
            4 => Tree::leaf(Sort::Word, "count(*)"),
            5 => Tree::new(Sort::Word).text("lag(").child(operand).text(")"),
            6 => Tree::new(Sort::Word).text("lead(").child(operand).text(", 2)"),
            7 => Tree::new(Sort::Word).text("first_value(").child(operand).text(")"),
            _ => Tree::new(Sort::Word).text("max(").child(operand).text(")"),
        };
        let frame = match self.rng.u8(..4) {
            0 => " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            1 => " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            _ => "",
        };
        let window = Tree::new(Sort::Word).child(call).text(" OVER (").child(partition);
        let window = window.text(format!("ORDER BY {key}{frame}) AS w"));
        let query = Tree::new(Sort::Query).text("SELECT ").child(window);
        let query = items.into_iter().fold(query, |query, item| query.optional(", ", item));
        let query = query.text(" FROM ").child(source);
        Parts::of(self.where_clause(query), vec![Int; width])
    }

    /// A subquery of one row and one column.
    pub fn scalar_subquery(&mut self, kind: Type) -> Tree {
        let (outer, source) = self.inner_scope();
        let operand = self.value(kind, 1);
        let query = Tree::new(Sort::Query);
        let query = match kind {
            Bool | Bytea | Uuid | Char => {
                query.text("SELECT ").child(operand).text(" FROM ").child(source).text(" ORDER BY 1 LIMIT 1")
            }
            _ => query.text("SELECT max(").child(operand).text(") FROM ").child(source),
        };
        let tree = Tree::new(Sort::Value(kind)).text("(").child(query).text(")");
        self.scope = outer;
        tree
    }

    /// EXISTS, correlated or not.
    pub fn exists(&mut self) -> Tree {
        let (outer, source) = self.inner_scope();
        let condition = self.value(Bool, 1);
        self.scope = outer;
        let tree = Tree::new(Sort::Value(Bool)).text(self.pick(&["EXISTS (", "NOT EXISTS ("]));
        let items = self.pick(&["1", "*"]);
        let query = Tree::new(Sort::Query).text(format!("SELECT {items} FROM ")).child(source);
        tree.child(query.optional(" WHERE ", condition)).text(")")
    }

    /// IN with a subquery.
    pub fn in_subquery(&mut self, depth: u32) -> Tree {
        let kind = self.any_type();
        let operand = self.value(kind, depth);
        let (outer, source) = self.inner_scope();
        let (item, condition) = (self.value(kind, 0), self.value(Bool, 1));
        self.scope = outer;
        let not = self.pick(&["", "NOT "]);
        let tree = Tree::new(Sort::Value(Bool)).text("(").child(operand).text(format!(" {not}IN ("));
        let query = Tree::new(Sort::Query).text("SELECT ").child(item).text(" FROM ").child(source);
        tree.child(query.optional(" WHERE ", condition)).text("))")
    }

    /// A table in scope before the columns that were; they come back with the first.
    fn inner_scope(&mut self) -> (Vec<(String, Type)>, Tree) {
        let outer = self.scope.clone();
        let correlated = self.once_in(3) && outer.iter().all(|(name, _)| name.contains('.'));
        if !correlated {
            self.scope.clear();
        }
        let source = self.table_source(true);
        (outer, source)
    }
}

/// Whether a query orders its rows, not those of a subquery or a window. Without that it has no order to be compared.
pub fn is_ordered(sql: &str) -> bool {
    let (mut depth, mut quote) = (0, None);
    sql.char_indices().any(|(at, character)| {
        match (quote, character) {
            (Some(open), _) if open != character => {}
            (Some(_), _) => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => return depth == 0 && sql[at..].starts_with(ORDER),
        }
        false
    })
}

/// The parts of a query before it is ordered.
struct Parts {
    with: Option<Tree>,
    query: Tree,
    columns: Columns,
}

impl Parts {
    fn of(query: Tree, columns: Columns) -> Parts {
        Parts { with: None, query, columns }
    }

    fn into_parts(self) -> (Option<Tree>, Tree, Columns) {
        (self.with, self.query, self.columns)
    }
}

fn select(items: Vec<Tree>) -> Tree {
    Tree::new(Sort::Query).text("SELECT ").list(items)
}

#[cfg(test)]
mod tests {
    use super::is_ordered;

    #[test]
    fn the_order_of_a_subquery_is_not_the_order_of_the_query() {
        assert!(is_ordered("SELECT ')(' || (SELECT 1 ORDER BY 1) FROM t ORDER BY 1"));
        assert!(!is_ordered("SELECT '''(', (SELECT true FROM t ORDER BY 1 LIMIT 1) FROM t GROUP BY 1"));
        assert!(!is_ordered("SELECT 1 AS \" ORDER BY \", rank() OVER (PARTITION BY a ORDER BY b) FROM t"));
    }
}
