//! Random expressions of a wanted type over the columns in scope: operators, functions, casts, CASE, subqueries.

use crate::schema::{SchemaTable, constant, stored};
use crate::tree::{Sort, Tree};
use crate::types::Type::{self, *};
use crate::types::{TYPES, quoted};
use fastrand::Rng;

/// What statements are made with.
pub struct Generator<'a> {
    /// Everything random comes from here.
    pub rng: &'a mut Rng,
    /// The tables that there are.
    pub tables: &'a [SchemaTable],
    /// Columns that names can be of, as they are written, with their types.
    pub scope: Vec<(String, Type)>,
    /// Aliases given so far.
    pub aliases: usize,
}

impl<'a> Generator<'a> {
    /// With nothing in scope.
    pub fn new(rng: &'a mut Rng, tables: &'a [SchemaTable]) -> Generator<'a> {
        Generator { rng, tables, scope: Vec::new(), aliases: 0 }
    }

    /// True once in `number` times.
    pub fn once_in(&mut self, number: u32) -> bool {
        self.rng.u32(..number) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.rng.usize(..items.len())]
    }

    /// Any type.
    pub fn any_type(&mut self) -> Type {
        // Types of columns in scope are the interesting ones.
        match self.scope.is_empty() || self.once_in(4) {
            true => self.pick(&TYPES),
            false => self.scope[self.rng.usize(..self.scope.len())].1,
        }
    }

    /// An expression of that type with at most so many operators within each other.
    pub fn value(&mut self, kind: Type, depth: u32) -> Tree {
        if depth == 0 || self.once_in(3) {
            return self.atom(kind);
        }
        if self.once_in(150) {
            // A type error now and then: both must refuse it, in the same way.
            let other = self.pick(&TYPES);
            return self.value(other, 0);
        }
        match self.rng.u8(..10) {
            0 => self.case(kind, depth - 1),
            1 => self.call("COALESCE", kind, &[kind, kind], depth - 1),
            2 => match self.rng.u8(..3) {
                0 => self.call("NULLIF", kind, &[kind, kind], depth - 1),
                1 if kind != Bool => self.call("GREATEST", kind, &[kind, kind], depth - 1),
                _ if kind != Bool => self.call("LEAST", kind, &[kind, kind], depth - 1),
                _ => self.atom(kind),
            },
            3 => self.cast(kind, depth - 1),
            4 if self.once_in(3) => self.scalar_subquery(kind),
            _ => self.operation(kind, depth - 1),
        }
    }

    /// A column of that type, else a constant.
    fn atom(&mut self, kind: Type) -> Tree {
        let fitting: Vec<usize> = (0..self.scope.len()).filter(|&at| self.scope[at].1 == kind).collect();
        if fitting.is_empty() || self.once_in(4) {
            return match self.rng.u8(..16) {
                0 => Tree::leaf(Sort::Value(kind), format!("CAST(NULL AS {})", kind.name())),
                _ => constant(self.rng, kind),
            };
        }
        let at = fitting[self.rng.usize(..fitting.len())];
        Tree::leaf(Sort::Value(kind), self.scope[at].0.clone())
    }

    fn call(&mut self, name: &str, result: Type, arguments: &[Type], depth: u32) -> Tree {
        let arguments = arguments.iter().map(|&kind| self.value(kind, depth)).collect::<Vec<_>>();
        let mut tree = Tree::new(Sort::Value(result)).text(format!("{name}("));
        for (position, argument) in arguments.into_iter().enumerate() {
            tree = tree.text(if position == 0 { "" } else { ", " }).child(argument);
        }
        tree.text(")")
    }

    fn infix(&mut self, left: Type, operator: &str, right: Type, result: Type, depth: u32) -> Tree {
        let (left, right) = (self.value(left, depth), self.value(right, depth));
        Tree::new(Sort::Value(result))
            .text("(")
            .child(left)
            .text(format!(" {operator} "))
            .child(right)
            .text(")")
    }

    fn case(&mut self, kind: Type, depth: u32) -> Tree {
        let mut tree = Tree::new(Sort::Value(kind)).text("CASE");
        if self.once_in(3) {
            let tested = self.any_type();
            let (operand, first) = (self.value(tested, depth), stored(self.rng, tested));
            tree = tree.text(" ").child(operand).text(" WHEN ").child(first);
        } else {
            let condition = self.value(Bool, depth);
            tree = tree.text(" WHEN ").child(condition);
        }
        let then = self.value(kind, depth);
        tree = tree.text(" THEN ").child(then);
        if !self.once_in(3) {
            let otherwise = self.value(kind, depth);
            tree = tree.optional(" ELSE ", otherwise);
        }
        tree.text(" END")
    }

    fn cast(&mut self, kind: Type, depth: u32) -> Tree {
        let from = match kind {
            _ if kind.is_number() => self.pick(&[SmallInt, Int, BigInt, Real, Double, Numeric, Text]),
            Text | Varchar | Char => self.pick(&TYPES),
            Date | Timestamp | TimestampTz => self.pick(&[Date, Timestamp, TimestampTz]),
            Time => self.pick(&[Time, Timestamp, Interval]),
            Interval => self.pick(&[Interval, Time]),
            Bool => self.pick(&[Int, Text]),
            _ => kind,
        };
        let operand = self.value(from, depth);
        Tree::new(Sort::Value(kind)).text("CAST(").child(operand).text(format!(" AS {})", kind.name()))
    }

    fn operation(&mut self, kind: Type, depth: u32) -> Tree {
        match kind {
            Bool => self.condition(depth),
            SmallInt | Int | BigInt => self.integer(kind, depth),
            Real | Double => self.floating(kind, depth),
            Numeric => self.numeric(depth),
            Text | Varchar => self.text(depth),
            Date => self.date(depth),
            Timestamp | TimestampTz => self.timestamp(kind, depth),
            Time => self.time(depth),
            Interval => self.interval(depth),
            Char | Bytea | Uuid => self.atom(kind),
        }
    }

    fn integer(&mut self, kind: Type, depth: u32) -> Tree {
        match self.rng.u8(..12) {
            0 => self.call("abs", kind, &[kind], depth),
            1 if kind == Int => self.call(self.text_length(), kind, &[Text], depth),
            2 if kind == Int => self.call("strpos", kind, &[Text, Text], depth),
            3 if kind == Int => self.infix(Date, "-", Date, kind, depth),
            4 => self.call("mod", kind, &[kind, kind], depth),
            5 => {
                let operand = self.value(kind, depth);
                Tree::new(Sort::Value(kind)).text("(- ").child(operand).text(")")
            }
            _ => {
                let operator = self.pick(&["+", "-", "*", "/", "%", "+", "-"]);
                // Narrower beside wider: the result has the wider type.
                let narrower = match kind {
                    BigInt => self.pick(&[BigInt, Int, SmallInt]),
                    Int => self.pick(&[Int, SmallInt]),
                    _ => kind,
                };
                match self.rng.bool() {
                    true => self.infix(kind, operator, narrower, kind, depth),
                    false => self.infix(narrower, operator, kind, kind, depth),
                }
            }
        }
    }

    fn text_length(&self) -> &'static str {
        if self.aliases.is_multiple_of(2) { "length" } else { "octet_length" }
    }

    fn floating(&mut self, kind: Type, depth: u32) -> Tree {
        let function = self.pick(&["abs", "floor", "ceil", "round", "trunc", "sqrt", "sign"]);
        match self.rng.u8(..8) {
            0 if kind == Double => self.call(function, kind, &[Double], depth),
            1 => self.call("abs", kind, &[kind], depth),
            2 if kind == Double => self.infix(Real, "+", Double, kind, depth),
            3 if kind == Double => self.infix(Double, "*", Int, kind, depth),
            _ => {
                let operator = self.pick(&["+", "-", "*", "/"]);
                self.infix(kind, operator, kind, kind, depth)
            }
        }
    }

    fn numeric(&mut self, depth: u32) -> Tree {
        let function = self.pick(&["abs", "floor", "ceil", "round", "sign", "trunc"]);
        match self.rng.u8(..8) {
            0 => self.call(function, Numeric, &[Numeric], depth),
            1 => {
                let (operand, digits) = (self.value(Numeric, depth), self.rng.u8(..4));
                Tree::new(Sort::Value(Numeric)).text("round(").child(operand).text(format!(", {digits})"))
            }
            2 => {
                let field = self.pick(&["year", "month", "day", "hour", "dow", "doy", "quarter"]);
                let from = self.pick(&[Date, Timestamp]);
                let field = if from == Date && field == "hour" { "week" } else { field };
                let operand = self.value(from, depth);
                Tree::new(Sort::Value(Numeric))
                    .text(format!("extract({field} FROM "))
                    .child(operand)
                    .text(")")
            }
            3 => {
                let (left, operator) =
                    (self.pick(&[Int, BigInt, SmallInt]), self.pick(&["+", "-", "*", "/"]));
                self.infix(left, operator, Numeric, Numeric, depth)
            }
            _ => {
                let operator = self.pick(&["+", "-", "*", "/", "%", "+", "-"]);
                self.infix(Numeric, operator, Numeric, Numeric, depth)
            }
        }
    }

    fn text(&mut self, depth: u32) -> Tree {
        match self.rng.u8(..12) {
            0 | 1 => self.infix(Text, "||", Text, Text, depth),
            2 => {
                let other = self.pick(&[Int, Numeric, Varchar, Char, Date, Double]);
                self.infix(Text, "||", other, Text, depth)
            }
            3 => self.call("upper", Text, &[Text], depth),
            4 => self.call("lower", Text, &[Varchar], depth),
            5 => {
                let (operand, from, count) = (self.value(Text, depth), self.rng.i8(-1..4), self.rng.u8(..4));
                let tree = Tree::new(Sort::Value(Text)).text("substr(").child(operand);
                tree.text(format!(", {from}"))
                    .optional(", ", Tree::leaf(Sort::Word, count.to_string()))
                    .text(")")
            }
            6 => self.call("replace", Text, &[Text, Text, Text], depth),
            7 => {
                let function = self.pick(&["trim", "ltrim", "rtrim", "btrim"]);
                self.call(function, Text, &[Text], depth)
            }
            8 => {
                let function = self.pick(&["left", "right"]);
                let (operand, count) = (self.value(Text, depth), self.rng.i8(-2..4));
                Tree::new(Sort::Value(Text))
                    .text(format!("{function}("))
                    .child(operand)
                    .text(format!(", {count})"))
            }
            9 => {
                let other = self.any_type();
                self.call("concat", Text, &[Text, other], depth)
            }
            _ => {
                let other = self.any_type();
                let operand = self.value(other, depth);
                Tree::new(Sort::Value(Text)).text("CAST(").child(operand).text(" AS text)")
            }
        }
    }

    fn date(&mut self, depth: u32) -> Tree {
        let operator = self.pick(&["+", "-"]);
        match self.rng.u8(..3) {
            0 => self.infix(Int, "+", Date, Date, depth),
            _ => self.infix(Date, operator, Int, Date, depth),
        }
    }

    fn timestamp(&mut self, kind: Type, depth: u32) -> Tree {
        let operand = self.value(kind, depth);
        let tree = Tree::new(Sort::Value(kind));
        if self.rng.bool() {
            let field = self.pick(&["year", "month", "day", "hour"]);
            return tree.text(format!("date_trunc('{field}', ")).child(operand).text(")");
        }
        let operator = self.pick(&["+", "-"]);
        let interval = self.pick(&["1 day", "1 month", "2 hours", "90 minutes", "1 year"]);
        tree.text("(").child(operand).text(format!(" {operator} interval '{interval}')"))
    }

    fn time(&mut self, depth: u32) -> Tree {
        let operator = self.pick(&["+", "-"]);
        self.infix(Time, operator, Interval, Time, depth)
    }

    fn interval(&mut self, depth: u32) -> Tree {
        match self.rng.u8(..8) {
            0 => self.infix(Timestamp, "-", Timestamp, Interval, depth),
            1 => self.infix(Time, "-", Time, Interval, depth),
            2 => self.infix(Interval, "*", Int, Interval, depth),
            3 => self.infix(Interval, "/", Int, Interval, depth),
            4 => self.call("justify_interval", Interval, &[Interval], depth),
            _ => {
                let operator = self.pick(&["+", "-"]);
                self.infix(Interval, operator, Interval, Interval, depth)
            }
        }
    }

    /// A condition.
    fn condition(&mut self, depth: u32) -> Tree {
        let tree = Tree::new(Sort::Value(Bool));
        match self.rng.u8(..18) {
            0..=4 => self.comparison(depth),
            5 | 6 => self.infix(Bool, "AND", Bool, Bool, depth),
            7 | 8 => self.infix(Bool, "OR", Bool, Bool, depth),
            9 => {
                let operand = self.value(Bool, depth);
                tree.text("(NOT ").child(operand).text(")")
            }
            10 => {
                let kind = self.any_type();
                let (operand, test) = (self.value(kind, depth), self.pick(&["NULL", "NOT NULL"]));
                tree.text("(").child(operand).text(format!(" IS {test})"))
            }
            11 => {
                let test = self.pick(&["TRUE", "FALSE", "NOT TRUE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN"]);
                let operand = self.value(Bool, depth);
                tree.text("(").child(operand).text(format!(" IS {test})"))
            }
            12 => self.between(depth),
            13 => self.in_list(depth),
            14 => self.like(depth),
            15 => {
                let (kind, not) = (self.any_type(), self.pick(&["", "NOT "]));
                self.infix(kind, &format!("IS {not}DISTINCT FROM"), kind, Bool, depth)
            }
            16 => self.exists(),
            _ => self.in_subquery(depth),
        }
    }

    fn comparison(&mut self, depth: u32) -> Tree {
        let operator = self.pick(&["=", "<>", "<", "<=", ">", ">=", "=", "!="]);
        let left = self.any_type();
        let right = match left {
            _ if left.is_number() => self.pick(&[left, left, SmallInt, Int, BigInt, Numeric, Double]),
            _ if left.is_text() => self.pick(&[left, Text, Varchar, Char]),
            Date | Timestamp | TimestampTz => self.pick(&[left, left, Date, Timestamp]),
            _ => left,
        };
        if self.once_in(3) {
            // A constant without a type takes the other side's.
            let (operand, constant) = (self.value(left, depth), stored(self.rng, left));
            let tree = Tree::new(Sort::Value(Bool)).text("(").child(operand);
            return tree.text(format!(" {operator} ")).child(constant).text(")");
        }
        self.infix(left, operator, right, Bool, depth)
    }

    fn between(&mut self, depth: u32) -> Tree {
        let (kind, not) = (self.any_type(), self.pick(&["", "", "NOT "]));
        let (operand, low, high) =
            (self.value(kind, depth), self.value(kind, depth), self.value(kind, depth));
        let tree = Tree::new(Sort::Value(Bool)).text("(").child(operand);
        tree.text(format!(" {not}BETWEEN ")).child(low).text(" AND ").child(high).text(")")
    }

    fn in_list(&mut self, depth: u32) -> Tree {
        let (kind, not) = (self.any_type(), self.pick(&["", "", "NOT "]));
        let operand = self.value(kind, depth);
        let mut items = Vec::new();
        for _ in 0..self.rng.usize(1..=4) {
            items.push(match self.rng.u8(..8) {
                0 => Tree::leaf(Sort::Value(kind), "NULL"),
                1 => self.value(kind, 0),
                _ => stored(self.rng, kind),
            });
        }
        let tree = Tree::new(Sort::Value(Bool)).text("(").child(operand);
        tree.text(format!(" {not}IN (")).list(items).text("))")
    }

    fn like(&mut self, depth: u32) -> Tree {
        let operator = self.pick(&["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]);
        let kind = self.pick(&[Text, Varchar, Char]);
        let operand = self.value(kind, depth);
        let pattern = self.pick(&["a%", "%b", "_", "%", "", "a_c", "\\%%", "%B%", "__%", "ä%"]);
        let pattern = Tree::constant(Sort::Value(Text), quoted(pattern), pattern);
        let tree = Tree::new(Sort::Value(Bool)).text("(").child(operand);
        tree.text(format!(" {operator} ")).child(pattern).text(")")
    }
}
