//! Statements as trees of text, so that they can be made smaller.
//!
//! A node knows what it stands for (its [`Sort`]) and nothing of grammar: any node that stands for the same can take its
//! place. So an expression can be replaced by one of its own parts, a condition by one of its operands, a clause or a
//! list's item by nothing, and the shrinker needs no other knowledge of SQL. A candidate may be wrong SQL; it then fails
//! on both servers alike and is not taken.

use crate::types::Type::{self, *};
use crate::types::quoted;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A whole statement.
    Statement,
    /// A SELECT, or a set operation.
    Query,
    /// Can be left out.
    Optional,
    /// A value of this type.
    Value(Type),
    /// What is in the FROM clause.
    Source,
    /// Anything else, which nothing can take the place of.
    Word,
}

/// A piece of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreePart {
    /// Text that stays as it is.
    Text(String),
    /// A constant, which can also be sent as a parameter.
    Constant {
        /// As SQL.
        sql: String,
        /// As a parameter's text.
        text: String,
    },
    /// A part of its own.
    Child(Tree),
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// What it stands for.
    pub sort: Sort,
    /// What it is made of.
    pub parts: Vec<TreePart>,
}

impl Tree {
    /// A node without parts.
    pub fn new(sort: Sort) -> Tree {
        Tree { sort, parts: Vec::new() }
    }

    /// A node that is a text.
    pub fn leaf(sort: Sort, text: impl Into<String>) -> Tree {
        Tree::new(sort).text(text)
    }

    /// A constant: how SQL writes it, and how a parameter does.
    pub fn constant(sort: Sort, sql: impl Into<String>, text: impl Into<String>) -> Tree {
        Tree { sort, parts: vec![TreePart::Constant { sql: sql.into(), text: text.into() }] }
    }

    /// A whole statement that has no parts.
    pub fn statement(text: impl Into<String>) -> Tree {
        Tree::leaf(Sort::Statement, text)
    }

    /// With a text behind it.
    pub fn text(mut self, text: impl Into<String>) -> Tree {
        self.parts.push(TreePart::Text(text.into()));
        self
    }

    /// With a part behind it.
    pub fn child(mut self, child: Tree) -> Tree {
        self.parts.push(TreePart::Child(child));
        self
    }

    /// With a part behind it that can be left out.
    pub fn optional(self, before: &str, child: Tree) -> Tree {
        self.child(Tree::new(Sort::Optional).text(before).child(child))
    }

    /// With a list behind it, parted by commas. The first item stays, the others can be left out.
    pub fn list(mut self, items: Vec<Tree>) -> Tree {
        for (position, item) in items.into_iter().enumerate() {
            self = if position == 0 { self.child(item) } else { self.optional(", ", item) };
        }
        self
    }

    /// As SQL.
    pub fn sql(&self) -> String {
        let mut sql = String::new();
        self.write(&mut sql, None);
        sql
    }

    /// As SQL with parameters in place of constants, and their texts.
    pub fn parameterized(&self) -> (String, Vec<Option<String>>) {
        let (mut sql, mut parameters) = (String::new(), Vec::new());
        self.write(&mut sql, Some(&mut parameters));
        (sql, parameters)
    }

    fn write(&self, sql: &mut String, mut parameters: Option<&mut Vec<Option<String>>>) {
        for part in &self.parts {
            match (part, parameters.as_deref_mut()) {
                (TreePart::Text(text), _) => sql.push_str(text),
                (TreePart::Child(child), parameters) => child.write(sql, parameters),
                (TreePart::Constant { sql: text, .. }, None) => sql.push_str(text),
                (TreePart::Constant { text, .. }, Some(parameters)) => {
                    parameters.push(Some(text.clone()));
                    sql.push_str(&format!("${}", parameters.len()));
                }
            }
        }
    }

    /// How many nodes there are.
    pub fn size(&self) -> usize {
        1 + self.children().map(Tree::size).sum::<usize>()
    }

    fn children(&self) -> impl Iterator<Item = &Tree> {
        self.parts.iter().filter_map(|part| match part {
            TreePart::Child(child) => Some(child),
            _ => None,
        })
    }

    /// With the texts of its parameters as constants in quotes, which have no type either.
    pub fn untyped(&self) -> Tree {
        let part = |part: &TreePart| match part {
            TreePart::Text(text) => TreePart::Text(text.clone()),
            TreePart::Constant { text, .. } => TreePart::Text(quoted(text)),
            TreePart::Child(child) => TreePart::Child(child.untyped()),
        };
        Tree { sort: self.sort, parts: self.parts.iter().map(part).collect() }
    }

    /// Each value in it, asked of each table in it alone.
    pub fn parts_of_tables(&self) -> Vec<Tree> {
        let (mut values, mut tables) = (Vec::new(), Vec::new());
        self.visit(&mut |node| match node.sort {
            Sort::Value(_) => values.push(node.clone()),
            Sort::Source if node.children().next().is_none() => tables.push(node.clone()),
            _ => {}
        });
        let asked = values.iter().flat_map(|value| {
            tables.iter().map(|table| {
                let select = Tree::new(Sort::Query).text("SELECT ").child(value.clone());
                select.text(" FROM ").child(table.clone())
            })
        });
        asked.collect()
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Tree)) {
        see(self);
        self.children().for_each(|child| child.visit(see));
    }

    /// Trees that are a step smaller, the largest steps first.
    pub fn smaller(&self) -> Vec<Tree> {
        let mut found = Vec::new();
        self.collect_smaller(&mut |tree| found.push(tree));
        found
    }

    /// Hands each smaller form of this node, and of this node with one child made smaller, to `take`.
    fn collect_smaller(&self, take: &mut dyn FnMut(Tree)) {
        match self.sort {
            Sort::Optional if !self.parts.is_empty() => take(Tree::new(Sort::Optional)),
            Sort::Value(kind) if self.size() > 1 => {
                take(kind.simplest());
                self.replacements(self.sort, take);
            }
            Sort::Query | Sort::Source => self.replacements(self.sort, take),
            Sort::Statement => self.replacements(Sort::Query, take),
            _ => {}
        }
        for (position, part) in self.parts.iter().enumerate() {
            let TreePart::Child(child) = part else { continue };
            child.collect_smaller(&mut |smaller| {
                let mut copy = self.clone();
                copy.parts[position] = TreePart::Child(smaller);
                take(copy);
            });
        }
    }

    /// The descendants that stand for the same, nearest first.
    fn replacements(&self, sort: Sort, take: &mut dyn FnMut(Tree)) {
        for child in self.children() {
            if child.sort == sort {
                take(child.clone());
            } else {
                child.replacements(sort, take);
            }
        }
    }
}

impl Type {
    /// The value that an expression shrinks to.
    pub fn simplest(self) -> Tree {
        let (sql, text) = match self {
            Bool => ("true", "t"),
            Int => ("1", "1"),
            Numeric => ("1.5", "1.5"),
            Text => ("'a'", "a"),
            other => {
                return Tree::leaf(
                    Sort::Value(other),
                    format!("{}::{}", quoted(other.sample()), other.name()),
                );
            }
        };
        Tree::constant(Sort::Value(self), sql, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Tree {
        Tree::leaf(Sort::Value(Type::Int), text)
    }

    #[test]
    fn items_and_clauses_go_and_expressions_become_their_parts() {
        let sum = Tree::new(Sort::Value(Type::Int)).child(value("a")).text(" + ").child(value("b"));
        let tree = Tree::new(Sort::Statement)
            .text("SELECT ")
            .list(vec![value("x"), sum])
            .optional(" WHERE ", value("c"));
        assert_eq!(tree.sql(), "SELECT x, a + b WHERE c");
        let smaller: Vec<String> = tree.smaller().iter().map(Tree::sql).collect();
        assert_eq!(
            smaller,
            [
                "SELECT x WHERE c",
                "SELECT x, 1 WHERE c",
                "SELECT x, a WHERE c",
                "SELECT x, b WHERE c",
                "SELECT x, a + b"
            ]
        );
    }

    #[test]
    fn constants_become_parameters_in_order() {
        let constant = |number: &str| Tree::constant(Sort::Value(Type::Int), number, number);
        let tree =
            Tree::new(Sort::Statement).text("SELECT ").list(vec![constant("7"), value("a"), constant("8")]);
        let texts = vec![Some("7".to_owned()), Some("8".to_owned())];
        assert_eq!(tree.parameterized(), ("SELECT $1, a, $2".to_owned(), texts));
    }

    #[test]
    fn making_smaller_comes_to_an_end() {
        let mut tree = value("a");
        for _ in 0..5 {
            tree = Tree::new(Sort::Value(Type::Int))
                .text("(")
                .child(tree.clone())
                .text(" + ")
                .child(tree)
                .text(")");
        }
        let mut steps = 0;
        while let Some(smaller) = tree.smaller().pop() {
            assert!(smaller.size() <= tree.size());
            tree = smaller;
            steps += 1;
            assert!(steps < 1000);
        }
        assert_eq!(tree.size(), 1);
    }
}
