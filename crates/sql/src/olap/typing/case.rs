//! CASE in the typing pass.

use super::lists::told_list;
use super::read::{Operand, Reader, all_typed, is_list_type};
use super::refused;
use crate::expression::{Comparison, Expression, Typed, fold};
use ankerdb_engine::{ListType, Value};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, Operator};

impl Reader<'_, '_> {
    pub(super) fn case(&mut self, case: &Case) -> Result<Operand> {
        let mut conditions = Vec::with_capacity(case.when_then_expr.len());
        let subject = match &case.expr {
            Some(subject) => Some(match self.read(subject)? {
                Operand::Typed(typed) => Operand::Typed(self.binder().case_operand(typed).map_err(refused)?),
                foreign => foreign,
            }),
            None => None,
        };
        for (when, _) in &case.when_then_expr {
            conditions.push(match &subject {
                None => self.condition(when, "CASE/WHEN")?,
                Some(Operand::Typed(subject)) => match self.read(when)? {
                    Operand::Typed(when) => {
                        let subject = subject.clone();
                        self.binder().compare(Comparison::Equal, subject, when).map_err(refused)?.expression
                    }
                    Operand::Foreign(_) => return self.foreign_case(case),
                },
                Some(Operand::Foreign(_)) => return self.foreign_case(case),
            });
        }
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for (_, then) in &case.when_then_expr {
            results.push(self.read(then)?);
        }
        results.push(match &case.else_expr {
            Some(otherwise) => self.read(otherwise)?,
            None => Operand::Typed(Typed { expression: Expression::Literal(Value::Null), data_type: None }),
        });
        let Ok(mut results) = all_typed(results) else { return self.foreign_case(case) };
        // What is behind ELSE is the first of the alternatives.
        results.rotate_right(1);
        let (mut results, data_type) = self.binder().merge(results, "CASE").map_err(refused)?;
        let is_null = |result: &Expression| {
            result.is_constant() && matches!(fold(result.clone()), Ok(Expression::Literal(Value::Null)))
        };
        if results.iter().all(is_null) && !is_list_type(Some(data_type)) {
            // Nothing else would tell the type.
            results[0] = self.null(data_type)?;
        }
        let otherwise = results.remove(0);
        let branches = conditions.into_iter().zip(results).collect();
        Ok(Operand::Typed(Typed::new(Expression::Case(branches, Box::new(otherwise)), data_type)))
    }

    /// A CASE with parts that SQL here has no type for.
    fn foreign_case(&mut self, case: &Case) -> Result<Operand> {
        let mut results = Vec::with_capacity(case.when_then_expr.len() + 1);
        for result in case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr) {
            results.push(self.read(result)?);
        }
        // What is behind ELSE is the first of the alternatives.
        let otherwise = usize::from(case.else_expr.is_some());
        results.rotate_right(otherwise);
        let mut results = self.as_one_list(results, "CASE")?;
        results.rotate_left(otherwise);
        let mut results = results.into_iter().map(Box::new);
        let subject = case.expr.as_ref().map(|subject| self.read(subject)).transpose()?;
        let mut part = |expression: &Expr| {
            let operand = self.read(expression)?;
            let condition = match &subject {
                Some(subject) => self.applied(Operator::Eq, subject.clone(), operand)?,
                None => operand,
            };
            self.emit(condition).map(Box::new)
        };
        let mut branches = Vec::with_capacity(case.when_then_expr.len());
        for ((when, _), then) in case.when_then_expr.iter().zip(&mut results) {
            branches.push((part(when)?, then));
        }
        let otherwise = results.next();
        let results = branches.iter().map(|(_, then)| &**then).chain(otherwise.as_deref());
        let list = self.common_list(results)?;
        let case = Expr::Case(Case::new(None, branches, otherwise));
        self.leaf(match list {
            Some(list) if list != ListType::Numeric => told_list(case, list),
            _ => case,
        })
    }
}
