//! What a path is made of.
//!
//! Nodes lie in one list and name each other by their positions, so that neither copying nor dropping a path recurses. As in
//! PostgreSQL, each node may have a *next* one, which is applied to each of its items:
//! ```text
//! $.a[*] ? (@ > 1)      Root -> Key "a" -> AnyArray -> Filter
//!                                                        `- Compare Greater (Current, Literal 1)
//! ```

/// The position of a node in its path.
pub(super) type NodeId = usize;

/// The level that `last` stands for in `.**{last}`.
pub(super) const LAST_LEVEL: u32 = u32::MAX;

/// A step, an operand or an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PathNode {
    pub kind: NodeKind,
    /// What is applied to the items that this gives.
    pub next: Option<NodeId>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NodeKind {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// A scalar as canonical text.
    Literal(String),
    /// `$name`, as a string with its quotes.
    Variable(String),
    /// `.key`, as a string with its quotes.
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyArray,
    /// `[from to to, ...]`
    Subscripts(Vec<Subscript>),
    /// `.**{first to last}`
    Descendants {
        first: u32,
        last: u32,
    },
    /// `?(...)`
    Filter(NodeId),
    /// `.type()` and others without arguments.
    Method(Method),
    /// `.datetime()`; the template as a string with its quotes.
    Datetime(Option<String>),
    Arithmetic(Arithmetic, NodeId, NodeId),
    /// `+` or `-` in front of an operand.
    Sign {
        is_minus: bool,
        operand: NodeId,
    },
    Compare(Comparison, NodeId, NodeId),
    StartsWith(NodeId, NodeId),
    LikeRegex(LikeRegex),
    And(NodeId, NodeId),
    Or(NodeId, NodeId),
    Not(NodeId),
    IsUnknown(NodeId),
    Exists(NodeId),
}

/// One position, or all of two positions and those between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subscript {
    pub from: NodeId,
    pub to: Option<NodeId>,
}

/// `operand like_regex "pattern" flag "flags"`
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LikeRegex {
    pub operand: NodeId,
    pub pattern: String,
    /// Each flag once, in the order `ismxq`.
    pub flags: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Type => "type",
            Method::Size => "size",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::Floor => "floor",
            Method::Abs => "abs",
            Method::KeyValue => "keyvalue",
        }
    }

    pub(super) fn named(name: &str) -> Option<Method> {
        use Method::{Abs, Ceiling, Double, Floor, KeyValue, Size, Type};
        [Type, Size, Double, Ceiling, Floor, Abs, KeyValue].into_iter().find(|method| method.name() == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl NodeKind {
    /// How tightly it binds, for parentheses: PostgreSQL's numbers.
    pub(super) fn priority(&self) -> u8 {
        match self {
            NodeKind::Or(..) => 0,
            NodeKind::And(..) => 1,
            NodeKind::Compare(..) | NodeKind::StartsWith(..) => 2,
            NodeKind::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, ..) => 3,
            NodeKind::Arithmetic(..) => 4,
            NodeKind::Sign { .. } => 5,
            _ => 6,
        }
    }

    /// Whether it is a number that is written in the path.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, NodeKind::Literal(text) if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
    }
}
