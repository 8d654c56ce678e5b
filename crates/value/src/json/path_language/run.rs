//! Follows a path through a document.
//!
//! A path is followed depth first, as in PostgreSQL (`jsonpath_exec.c`): each item that a step gives goes through all the
//! following steps before the next one. What is still to be done lies on a list, so that neither long paths nor deep documents
//! recurse; only operands do, which the parser limits.
//! ```text
//! $.a[*].b     Step Root -> Step .a -> Parts of [1, 2] from 0 -> Step .b on 1
//!                                      Parts of [1, 2] from 3 (waits below it)
//! ```
//! An error of an item ends the path or, where errors make predicates unknown, the operand. PostgreSQL forgets one sort of
//! them: that of the item itself in `.**`, if parts of it follow.

use super::super::string::unescaped;
use super::super::walk::{JsonKind, next_part};
use super::item::{Base, Found, PathFailure, PathItem, StepScope};
use super::offset::Offsets;
use super::syntax::{LAST_LEVEL, NodeId, NodeKind, Subscript};
use super::{JsonPath, PathFunctions};
use ankerdb_base::{Error, Result, SqlState};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) type PathResult<T = ()> = std::result::Result<T, PathFailure>;

/// An error that an item is.
pub(super) fn item_error(state: SqlState, message: impl Into<std::borrow::Cow<'static, str>>) -> PathFailure {
    PathFailure::Item(Error::new(state, message))
}

/// One run of a path.
pub(super) struct Run<'a> {
    pub path: &'a JsonPath,
    pub root: &'a str,
    /// An object.
    pub vars: Option<&'a str>,
    pub functions: &'a dyn PathFunctions,
    /// The id of the next pair that `.keyvalue()` makes.
    pub next_id: Cell<u64>,
    /// Where objects are in their base, with the id of the base that was asked for last.
    pub offsets: RefCell<Option<(u64, Offsets)>>,
}

/// What is still to be done.
pub(super) enum Pending<'a> {
    /// A node is applied to an item. `unwraps`: whether to the elements of an array instead, if it takes none.
    Step { node: NodeId, item: PathItem<'a>, unwraps: bool, scope: Rc<StepScope<'a>> },
    /// The parts of an array or object from a position on go to the next node.
    Parts(PartCursor<'a>),
    /// Positions of an array, from the subscript with this number on.
    Subscripts { node: NodeId, number: usize, item: PathItem<'a>, scope: Rc<StepScope<'a>> },
    /// Descendants, from a position in one of them on.
    Descend { parts: PartCursor<'a>, level: u32, first: u32, last: u32 },
    /// Pairs of an object, from a position on; `id` is that of the object.
    Pairs { parts: PartCursor<'a>, id: String },
    /// An error behind items that came before it.
    Fail(Error),
    /// Errors of what lies above this are forgotten.
    Forgive,
}

/// Parts of an array or object.
pub(super) struct PartCursor<'a> {
    pub container: PathItem<'a>,
    /// Behind the last part that was read.
    pub at: usize,
    /// How many parts are read, at most.
    pub left: usize,
    /// What they go to, and whether that takes elements of arrays instead of them; `None` if they are found.
    pub next: Option<NodeId>,
    pub unwraps: bool,
    pub scope: Rc<StepScope<'a>>,
}

/// Work and results of a part of a path.
pub(super) struct PathWork<'a, 'f> {
    pub stack: Vec<Pending<'a>>,
    pub found: &'f mut Found<'a>,
}

impl<'a> Run<'a> {
    /// Follows the path from its first node.
    pub(super) fn follow(&self, throws: bool, found: &mut Found<'a>) -> PathResult {
        let root = PathItem::Text(self.root);
        let scope = StepScope {
            current: root.clone(),
            base: Base { id: 0, root: root.clone() },
            array: None,
            ignores_structure: self.path.is_lax,
            throws,
        };
        self.evaluate(self.path.head, &root, &Rc::new(scope), found)
    }

    /// Adds the items that a node, and those behind it, give for an item.
    pub(super) fn evaluate(
        &self,
        node: NodeId,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        found: &mut Found<'a>,
    ) -> PathResult {
        let first =
            Pending::Step { node, item: item.clone(), unwraps: self.path.is_lax, scope: Rc::clone(scope) };
        let mut work = PathWork { stack: vec![first], found };
        while let Some(pending) = work.stack.pop() {
            self.functions.check()?;
            match self.advance(pending, &mut work) {
                Ok(()) if work.found.is_done() => return Ok(()),
                Ok(()) => {}
                Err(PathFailure::Item(error)) if !scope.throws => {
                    let forgiven = work.stack.iter().rposition(|pending| matches!(pending, Pending::Forgive));
                    match forgiven {
                        Some(at) => work.stack.truncate(at),
                        None => return Err(PathFailure::Item(error)),
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn advance(&self, pending: Pending<'a>, work: &mut PathWork<'a, '_>) -> PathResult {
        match pending {
            Pending::Step { node, item, unwraps, scope } => self.step(node, item, unwraps, &scope, work),
            Pending::Parts(parts) => self.part(parts, work),
            Pending::Subscripts { node, number, item, scope } => {
                self.subscript(node, number, item, scope, work)
            }
            Pending::Descend { parts, level, first, last } => self.descend(parts, level, first, last, work),
            Pending::Pairs { parts, id } => self.pair(parts, id, work),
            Pending::Fail(error) => Err(PathFailure::Item(error)),
            Pending::Forgive => Ok(()),
        }
    }

    /// The node behind one.
    pub(super) fn next(&self, node: NodeId) -> Option<NodeId> {
        self.path.nodes[node].next
    }

    /// Passes an item on to a node, or finds it.
    pub(super) fn pass(
        &self,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) {
        match next {
            Some(node) => {
                let scope = Rc::clone(scope);
                work.stack.push(Pending::Step { node, item, unwraps: self.path.is_lax, scope });
            }
            None => work.found.items.push(item),
        }
    }

    fn step(
        &self,
        node: NodeId,
        item: PathItem<'a>,
        unwraps: bool,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let kind = &self.path.nodes[node].kind;
        let takes_elements =
            matches!(kind, NodeKind::Key(_) | NodeKind::AnyKey | NodeKind::Filter(_) | NodeKind::Datetime(_))
                || matches!(kind, NodeKind::Method(method) if method.takes_elements());
        if takes_elements && unwraps && item.is(JsonKind::Array) {
            let parts = PartCursor {
                container: item,
                at: 0,
                left: usize::MAX,
                next: Some(node),
                unwraps: false,
                scope: Rc::clone(scope),
            };
            work.stack.push(Pending::Parts(parts));
            return Ok(());
        }
        let next = self.next(node);
        match kind {
            NodeKind::Root => {
                let root = PathItem::Text(self.root);
                match scope.base.id {
                    0 => self.pass(next, root, scope, work),
                    _ => {
                        let base = Base { id: 0, root: root.clone() };
                        self.pass(next, root, &Rc::new(StepScope { base, ..StepScope::clone(scope) }), work);
                    }
                }
            }
            NodeKind::Current => self.pass(next, scope.current.clone(), scope, work),
            NodeKind::Literal(text) => self.pass(next, PathItem::Text(text), scope, work),
            NodeKind::Last => self.pass(next, last(scope)?, scope, work),
            NodeKind::Variable(name) => self.variable(name, next, scope, work)?,
            NodeKind::Key(key) => self.key(key, next, item, scope, work)?,
            NodeKind::AnyKey => self.any_key(next, item, scope, work)?,
            NodeKind::AnyArray => self.any_array(next, item, scope, work)?,
            NodeKind::Subscripts(_) => self.subscripts(node, item, scope, work)?,
            NodeKind::Descendants { first, last } => {
                self.descendants(next, item, *first, *last, scope, work);
            }
            _ => self.operator(node, next, item, scope, work)?,
        }
        Ok(())
    }

    /// A node with operands, or a method.
    fn operator(
        &self,
        node: NodeId,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        match &self.path.nodes[node].kind {
            NodeKind::Filter(predicate) => {
                let within = Rc::new(StepScope { current: item.clone(), ..StepScope::clone(scope) });
                if self.truth(*predicate, &item, &within)? == Some(true) {
                    self.pass(next, item, scope, work);
                }
            }
            NodeKind::Method(method) => self.method(*method, next, item, scope, work)?,
            NodeKind::Datetime(template) => {
                let moment = super::moment::method(template.as_deref(), &item)?;
                self.pass(next, PathItem::Moment(moment), scope, work);
            }
            NodeKind::Arithmetic(operator, left, right) => {
                let result = self.arithmetic(*operator, *left, *right, &item, scope)?;
                self.pass(next, result, scope, work);
            }
            NodeKind::Sign { is_minus, operand } => {
                self.signed(*is_minus, *operand, next, &item, scope, work)?;
            }
            _ => {
                let truth = self.truth(node, &item, scope)?;
                self.pass(next, PathItem::boolean(truth), scope, work);
            }
        }
        Ok(())
    }

    fn variable(
        &self,
        name: &str,
        next: Option<NodeId>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let Some(vars) = self.vars else {
            self.pass(next, PathItem::Text("null"), scope, work);
            return Ok(());
        };
        let Some(value) = member(vars, name) else {
            let message = format!("could not find jsonpath variable \"{}\"", unescaped(name)?);
            return Err(Error::new(SqlState::UndefinedObject, message).into());
        };
        let base = Base { id: 1, root: PathItem::Text(vars) };
        self.pass(
            next,
            PathItem::Text(&vars[value]),
            &Rc::new(StepScope { base, ..StepScope::clone(scope) }),
            work,
        );
        Ok(())
    }

    fn key(
        &self,
        key: &str,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let error = match item.kind() {
            Some(JsonKind::Object) => match member(item.text(), key) {
                Some(value) => {
                    self.pass(next, item.part(value), scope, work);
                    return Ok(());
                }
                None if scope.ignores_structure => return Ok(()),
                None => format!("JSON object does not contain key \"{}\"", unescaped(key)?),
            },
            _ if scope.ignores_structure => return Ok(()),
            _ => "jsonpath member accessor can only be applied to an object".to_owned(),
        };
        Err(item_error(SqlState::SqlJsonMemberNotFound, error))
    }

    fn any_key(
        &self,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        if item.is(JsonKind::Object) {
            work.stack.push(Pending::Parts(self.all_parts(item, next, scope)));
        } else if !scope.ignores_structure {
            let message = "jsonpath wildcard member accessor can only be applied to an object";
            return Err(item_error(SqlState::SqlJsonObjectNotFound, message));
        }
        Ok(())
    }

    fn any_array(
        &self,
        next: Option<NodeId>,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        if item.is(JsonKind::Array) {
            work.stack.push(Pending::Parts(self.all_parts(item, next, scope)));
        } else if self.path.is_lax {
            self.pass(next, item, scope, work);
        } else if !scope.ignores_structure {
            let message = "jsonpath wildcard array accessor can only be applied to an array";
            return Err(item_error(SqlState::SqlJsonArrayNotFound, message));
        }
        Ok(())
    }

    /// All parts of an array or object.
    pub(super) fn all_parts(
        &self,
        container: PathItem<'a>,
        next: Option<NodeId>,
        scope: &Rc<StepScope<'a>>,
    ) -> PartCursor<'a> {
        let (unwraps, scope) = (self.path.is_lax, Rc::clone(scope));
        PartCursor { container, at: 0, left: usize::MAX, next, unwraps, scope }
    }

    /// One of several parts.
    fn part(&self, mut parts: PartCursor<'a>, work: &mut PathWork<'a, '_>) -> PathResult {
        let Some((item, _)) = parts.read() else { return Ok(()) };
        let (next, unwraps, scope) = (parts.next, parts.unwraps, Rc::clone(&parts.scope));
        if parts.left > 0 {
            work.stack.push(Pending::Parts(parts));
        }
        match next {
            Some(node) => work.stack.push(Pending::Step { node, item, unwraps, scope }),
            None => work.found.items.push(item),
        }
        Ok(())
    }

    fn subscripts(
        &self,
        node: NodeId,
        item: PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        if item.is(JsonKind::Array) || self.path.is_lax {
            let scope = Rc::new(StepScope { array: Some(item.clone()), ..StepScope::clone(scope) });
            work.stack.push(Pending::Subscripts { node, number: 0, item, scope });
        } else if !scope.ignores_structure {
            let message = "jsonpath array accessor can only be applied to an array";
            return Err(item_error(SqlState::SqlJsonArrayNotFound, message));
        }
        Ok(())
    }

    /// One of several subscripts.
    fn subscript(
        &self,
        node: NodeId,
        number: usize,
        item: PathItem<'a>,
        scope: Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let NodeKind::Subscripts(subscripts) = &self.path.nodes[node].kind else { return Ok(()) };
        let Some(Subscript { from, to }) = subscripts.get(number).copied() else { return Ok(()) };
        let from = self.position(from, &item, &scope)?;
        let to = to.map_or(Ok(from), |to| self.position(to, &item, &scope))?;
        let is_array = item.is(JsonKind::Array);
        if !scope.ignores_structure {
            let size = item.count().unwrap_or(1) as i64;
            if from < 0 || from > to || i64::from(to) >= size {
                let message = "jsonpath array subscript is out of bounds";
                return Err(item_error(SqlState::InvalidSqlJsonSubscript, message));
            }
        }
        let next = self.next(node);
        work.stack.push(Pending::Subscripts {
            node,
            number: number + 1,
            item: item.clone(),
            scope: Rc::clone(&scope),
        });
        let first = from.max(0) as usize;
        let count = (i64::from(to) + 1 - first as i64).max(0) as usize;
        if is_array {
            let mut parts = self.all_parts(item, next, &scope);
            if parts.skip(first) {
                parts.left = count;
            }
            work.stack.push(Pending::Parts(parts));
        } else if first == 0 && count > 0 {
            // An item that is no array is taken for one of itself.
            self.pass(next, item, &scope, work);
        }
        Ok(())
    }

    /// The position that a subscript is.
    fn position(&self, node: NodeId, item: &PathItem<'a>, scope: &Rc<StepScope<'a>>) -> PathResult<i32> {
        let mut found = Found::default();
        self.evaluate(node, item, scope, &mut found)?;
        let state = SqlState::InvalidSqlJsonSubscript;
        let Some(number) = found.single(JsonKind::Number) else {
            return Err(item_error(state, "jsonpath array subscript is not a single numeric value"));
        };
        let whole = number.text().split('.').next().unwrap_or_default();
        whole.parse().map_err(|_| item_error(state, "jsonpath array subscript is out of integer range"))
    }

    fn descendants(
        &self,
        next: Option<NodeId>,
        item: PathItem<'a>,
        first: u32,
        last: u32,
        scope: &Rc<StepScope<'a>>,
        work: &mut PathWork<'a, '_>,
    ) {
        let scope = Rc::new(StepScope { ignores_structure: true, ..StepScope::clone(scope) });
        let is_container = item.is_container();
        if is_container && last > 0 {
            let parts = self.all_parts(item.clone(), next, &scope);
            work.stack.push(Pending::Descend { parts, level: 1, first, last });
        }
        if first == 0 {
            if is_container {
                work.stack.push(Pending::Forgive);
            }
            self.pass(next, item, &scope, work);
        }
    }

    fn descend(
        &self,
        mut parts: PartCursor<'a>,
        level: u32,
        first: u32,
        last: u32,
        work: &mut PathWork<'a, '_>,
    ) -> PathResult {
        let Some((item, _)) = parts.read() else { return Ok(()) };
        let (next, scope) = (parts.next, Rc::clone(&parts.scope));
        work.stack.push(Pending::Descend { parts, level, first, last });
        let is_container = item.is_container();
        if level < last && is_container {
            let parts = self.all_parts(item.clone(), next, &scope);
            work.stack.push(Pending::Descend { parts, level: level + 1, first, last });
        }
        let are_leaves_wanted = first == LAST_LEVEL && last == LAST_LEVEL;
        if level >= first || are_leaves_wanted && !is_container {
            self.pass(next, item, &scope, work);
        }
        Ok(())
    }
}

impl<'a> PartCursor<'a> {
    /// The next part, and the string that is its key.
    pub(super) fn read(&mut self) -> Option<(PathItem<'a>, &str)> {
        if self.left == 0 {
            return None;
        }
        let (key, value) = next_part(self.container.text(), self.at)?;
        self.at = value.end;
        self.left -= 1;
        Some((self.container.part(value), &self.container.text()[key]))
    }

    /// Skips so many parts; where there are not so many, none is left.
    fn skip(&mut self, count: usize) -> bool {
        for _ in 0..count {
            match next_part(self.container.text(), self.at) {
                Some((_, value)) => self.at = value.end,
                None => {
                    self.left = 0;
                    return false;
                }
            }
        }
        true
    }
}

/// Where the value of a key is, which is given with its quotes.
fn member(object: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    while let Some((found, value)) = next_part(object, at) {
        if object[found] == *key {
            return Some(value);
        }
        at = value.end;
    }
    None
}

/// The last position of the array in whose subscript it is asked for.
fn last<'a>(scope: &StepScope<'a>) -> Result<PathItem<'a>> {
    let outside = || Error::internal("evaluating jsonpath LAST outside of array subscript");
    let array = scope.array.as_ref().ok_or_else(outside)?;
    let count = array.count().unwrap_or(1) as i64;
    Ok(PathItem::made((count - 1).to_string()))
}
