//! Predicates: true, false or unknown (`None`).
//!
//! An operand is a sequence of items, and a predicate is true if it is for one pair of them. In strict mode a pair that cannot
//! be compared makes it unknown; in lax mode only if no pair makes it true, and the first that does ends it.

use super::super::string::unescaped;
use super::super::walk::JsonKind;
use super::item::{Found, PathFailure, PathItem, StepScope};
use super::moment;
use super::run::{PathResult, Run};
use super::syntax::{Comparison, NodeId, NodeKind};
use crate::compare_numbers;
use std::cmp::Ordering;
use std::rc::Rc;

impl<'a> Run<'a> {
    /// What a predicate is for an item.
    pub(super) fn truth(
        &self,
        node: NodeId,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
    ) -> PathResult<Option<bool>> {
        match &self.path.nodes[node].kind {
            kind @ (NodeKind::And(..) | NodeKind::Or(..)) => self.connected(kind, item, scope),
            NodeKind::Not(operand) => Ok(self.truth(*operand, item, scope)?.map(|truth| !truth)),
            NodeKind::IsUnknown(operand) => Ok(Some(self.truth(*operand, item, scope)?.is_none())),
            NodeKind::Exists(operand) => self.exists(*operand, item, scope),
            NodeKind::Compare(comparison, left, right) => {
                let right = (*right, true);
                self.any_pair(*left, Some(right), item, scope, &|left, right| {
                    compared(*comparison, left, right)
                })
            }
            NodeKind::StartsWith(whole, initial) => {
                self.any_pair(*whole, Some((*initial, false)), item, scope, &starts_with)
            }
            NodeKind::LikeRegex(regex) => self.any_pair(regex.operand, None, item, scope, &|item, _| {
                if !item.is(JsonKind::String) {
                    return Ok(None);
                }
                let text = unescaped(item.text())?;
                Ok(Some(self.functions.matches(&regex.pattern, &regex.flags, &text)?))
            }),
            // The parser lets no other node stand for a predicate.
            _ => Ok(None),
        }
    }

    /// `a && b && ...` or `a || b || ...`, from left to right.
    fn connected(
        &self,
        kind: &NodeKind,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
    ) -> PathResult<Option<bool>> {
        let decisive = Some(matches!(kind, NodeKind::Or(..)));
        let (first, rights) = self.path.run_of(kind);
        let mut truth = self.truth(first, item, scope)?;
        for right in rights.into_iter().rev() {
            if truth == decisive {
                return Ok(decisive);
            }
            let other = self.truth(right, item, scope)?;
            // The neutral value leaves the other one as it is; what is unknown stays it unless this decides.
            if other != decisive.map(|value| !value) {
                truth = other;
            }
        }
        Ok(truth)
    }

    fn exists(
        &self,
        operand: NodeId,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
    ) -> PathResult<Option<bool>> {
        // In strict mode an error anywhere counts, so that all items have to be looked at.
        let mut found = Found { is_test: self.path.is_lax, ..Found::default() };
        let scope = Rc::new(StepScope { throws: false, ..StepScope::clone(scope) });
        match self.evaluate(operand, item, &scope, &mut found) {
            Ok(()) => Ok(Some(!found.items.is_empty())),
            Err(PathFailure::Item(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The items of an operand; with those of arrays instead of them, in lax mode.
    pub(super) fn operand(
        &self,
        node: NodeId,
        unwraps: bool,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
    ) -> PathResult<Found<'a>> {
        let mut found = Found::default();
        self.evaluate(node, item, scope, &mut found)?;
        let has_array = |found: &Found<'a>| found.items.iter().any(|item| item.is(JsonKind::Array));
        if !unwraps || !self.path.is_lax || !has_array(&found) {
            return Ok(found);
        }
        let mut unwrapped = Found::default();
        for item in found.items {
            if !item.is(JsonKind::Array) {
                unwrapped.items.push(item);
                continue;
            }
            let mut parts = self.all_parts(item, None, scope);
            while let Some((element, _)) = parts.read() {
                self.functions.check()?;
                unwrapped.items.push(element);
            }
        }
        Ok(unwrapped)
    }

    /// Whether the test is true for a pair of items. Without a right operand there is one pair for each item.
    fn any_pair(
        &self,
        left: NodeId,
        right: Option<(NodeId, bool)>,
        item: &PathItem<'a>,
        scope: &Rc<StepScope<'a>>,
        test: &dyn Fn(&PathItem<'a>, &PathItem<'a>) -> PathResult<Option<bool>>,
    ) -> PathResult<Option<bool>> {
        let scope = Rc::new(StepScope { throws: false, ..StepScope::clone(scope) });
        let operands = self.operand(left, true, item, &scope).and_then(|left| {
            let right = match right {
                Some((node, unwraps)) => self.operand(node, unwraps, item, &scope)?,
                None => Found { items: vec![PathItem::Text("null")], ..Found::default() },
            };
            Ok((left, right))
        });
        let (lefts, rights) = match operands {
            Ok(operands) => operands,
            Err(PathFailure::Item(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let mut truth = Some(false);
        for left in &lefts.items {
            for right in &rights.items {
                self.functions.check()?;
                match test(left, right)? {
                    None if !self.path.is_lax => return Ok(None),
                    None => truth = None,
                    Some(true) if self.path.is_lax => return Ok(Some(true)),
                    Some(true) => truth = Some(true),
                    Some(false) => {}
                }
            }
        }
        Ok(truth)
    }
}

fn starts_with<'a>(whole: &PathItem<'a>, initial: &PathItem<'a>) -> PathResult<Option<bool>> {
    if !whole.is(JsonKind::String) || !initial.is(JsonKind::String) {
        return Ok(None);
    }
    Ok(Some(unescaped(whole.text())?.starts_with(&*unescaped(initial.text())?)))
}

/// What a comparison is for two items. Items of different kinds cannot be compared, except with `null`.
fn compared<'a>(
    comparison: Comparison,
    left: &PathItem<'a>,
    right: &PathItem<'a>,
) -> PathResult<Option<bool>> {
    let order = match (left.kind(), right.kind()) {
        (one, other) if one != other => {
            let has_null = one == Some(JsonKind::Null) || other == Some(JsonKind::Null);
            return Ok(has_null.then_some(comparison == Comparison::NotEqual));
        }
        (None, _) => {
            let (PathItem::Moment(left), PathItem::Moment(right)) = (left, right) else { return Ok(None) };
            match moment::compare(*left, *right)? {
                Some(order) => order,
                None => return Ok(None),
            }
        }
        (Some(JsonKind::Array | JsonKind::Object), _) => return Ok(None),
        (Some(JsonKind::Number), _) => compare_numbers(left.text(), right.text()),
        (Some(JsonKind::String), _) if left.text() == right.text() => Ordering::Equal,
        (Some(JsonKind::String), _) => {
            unescaped(left.text())?.as_bytes().cmp(unescaped(right.text())?.as_bytes())
        }
        // "false" is before "true".
        (Some(JsonKind::Null | JsonKind::Boolean), _) => left.text().cmp(right.text()),
    };
    Ok(Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }))
}
