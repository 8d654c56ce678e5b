//! UPDATE and DELETE over several relations, and with conditions that only the OLAP path can evaluate.
//!
//! One query finds the rows: it joins the relations, and gives for each row of the join the identity of the target's row,
//! the columns of the other relations that the statement needs, and those values that only the OLAP path computes. All else
//! is an expression of the OLTP path over that row: columns of the target first, then those of the query's result. See
//! `docs/design/joined-writes.md`.

use super::select::bind_projection;
use super::target::{Shown, ViewCheck, WriteTarget};
use super::write::{
    WritePlan, assigned_column, assigned_pairs, bind_new_value, is_default, leave_out_computed,
};
use super::{Planner, Returning};
use crate::expression::bind::{Bound, elsewhere, not_assignable, type_name};
use crate::expression::types::assignable;
use crate::expression::{Binder, Expression, Parameters, Refusal, Scope};
use crate::item_assignments;
use crate::name::{folded, quoted};
use crate::olap::target::{ROW_IDENTITY, TARGET, hidden};
use crate::olap::{OlapPlan, parameter};
use crate::plain_query::plain_query;
use crate::updatable::Verb;
use ankerdb_engine::{ColumnDefinition, ColumnSet, DataType, Error, SqlState, Table, Value};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, SelectItem};
use std::sync::Arc;

/// A statement that writes to the target's rows in a join.
pub(crate) struct JoinedPlan {
    /// The command's name.
    pub command: &'static str,
    pub table: Arc<Table>,
    /// Gives the identity of a row of the table (or NULL), and what the expressions below read behind the table's columns.
    pub query: Arc<OlapPlan>,
    /// The first one that fits a row of the join counts.
    pub clauses: Vec<Clause>,
    /// Columns of the table that the expressions read.
    pub columns: ColumnSet,
    pub returning: Option<Returning>,
    /// What changed rows have to fulfil to be in the view that they are written through.
    pub checks: Vec<ViewCheck>,
}

/// What is done with some rows of the join.
pub(crate) struct Clause {
    /// Whether it is for rows that have a row of the target.
    pub matched: bool,
    pub condition: Option<Expression>,
    pub action: Action,
}

/// What is done with a row of the join.
pub(crate) enum Action {
    Update(Vec<(usize, Expression)>),
    Delete,
    /// One value for each column.
    Insert(Vec<Expression>),
    Nothing,
}

/// The relation of computed values, to expressions.
const COMPUTED: &str = "\0computed";

impl Planner<'_> {
    /// Plans an UPDATE, as a join if it has to be one.
    pub(super) fn any_update(
        &self,
        with: Option<&ast::With>,
        update: &ast::Update,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        let joins = with.is_some() || update.from.is_some() || self.is_later;
        self.plain_or_joined(
            joins,
            parameters,
            |parameters| Ok(WritePlan::Update(Box::new(self.update(update, parameters)?))),
            |parameters| self.joined_update(with, update, parameters),
        )
    }

    /// Plans a DELETE, as a join if it has to be one.
    pub(super) fn any_delete(
        &self,
        with: Option<&ast::With>,
        delete: &ast::Delete,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        let joins = with.is_some() || delete.using.is_some() || self.is_later;
        self.plain_or_joined(
            joins,
            parameters,
            |parameters| Ok(WritePlan::Delete(Box::new(self.delete(delete, parameters)?))),
            |parameters| self.joined_delete(with, delete, parameters),
        )
    }

    /// A statement on one table is planned for the OLTP path; if that does not know an expression, as a join of one relation.
    fn plain_or_joined(
        &self,
        joins: bool,
        parameters: &mut Parameters,
        plain: impl FnOnce(&mut Parameters) -> Bound<WritePlan>,
        joined: impl FnOnce(&mut Parameters) -> Bound<WritePlan>,
    ) -> Bound<WritePlan> {
        if joins {
            return joined(parameters);
        }
        let mut tried = Parameters::declared(parameters.known());
        match plain(&mut tried) {
            Err(Refusal::Elsewhere(_)) => joined(parameters),
            done => {
                *parameters = tried;
                done
            }
        }
    }

    fn joined_update(
        &self,
        with: Option<&ast::With>,
        update: &ast::Update,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        if !update.order_by.is_empty() || update.limit.is_some() || update.or.is_some() {
            return elsewhere("UPDATE with ORDER BY or LIMIT");
        }
        let from = match &update.from {
            None => &[],
            Some(ast::UpdateTableFromKind::AfterSet(from)) => from.as_slice(),
            Some(ast::UpdateTableFromKind::BeforeSet(_)) => return elsewhere("FROM before SET"),
        };
        let target = self.written_target(&update.table, Verb::Update)?;
        let mut join = Join::new(self, target, with, parameters)?;
        join.learn(from)?;
        let assignments = join.assignments(&update.assignments)?;
        let returning = join.returning(update.returning.as_deref())?;
        let clause = Clause { matched: true, condition: None, action: Action::Update(assignments) };
        join.finish("UPDATE", JoinedTables::Listed(from, update.selection.as_ref()), vec![clause], returning)
    }

    fn joined_delete(
        &self,
        with: Option<&ast::With>,
        delete: &ast::Delete,
        parameters: &mut Parameters,
    ) -> Bound<WritePlan> {
        if !delete.order_by.is_empty() || delete.limit.is_some() {
            return elsewhere("DELETE with ORDER BY or LIMIT");
        }
        let target = match &delete.from {
            ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from) => from,
        };
        let [target] = target.as_slice() else { return elsewhere("DELETE from several tables") };
        let using = delete.using.as_deref().unwrap_or_default();
        let target = self.written_target(target, Verb::Delete)?;
        let mut join = Join::new(self, target, with, parameters)?;
        join.learn(using)?;
        let returning = join.returning(delete.returning.as_deref())?;
        let clause = Clause { matched: true, condition: None, action: Action::Delete };
        join.finish("DELETE", JoinedTables::Listed(using, delete.selection.as_ref()), vec![clause], returning)
    }
}

/// How the target is joined with the other relations.
pub(super) enum JoinedTables<'a> {
    /// As one of a list of relations, under a condition.
    Listed(&'a [ast::TableWithJoins], Option<&'a Expr>),
    /// MERGE: each row of the source, with the target's rows that fit, or without one if the flag says so.
    Merged(&'a ast::TableFactor, &'a Expr, bool),
}

/// Which names an expression may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    All,
    /// Those of the other relations.
    Others,
}

/// A joined statement that is being planned.
///
/// Until [`finish`](Self::finish), columns are numbered: those of the target, those of the other relations, and
/// values that the query computes.
pub(super) struct Join<'a> {
    planner: &'a Planner<'a>,
    pub target: WriteTarget,
    /// What it is over a row of its table.
    shown: Shown,
    with: Option<&'a ast::With>,
    parameters: &'a mut Parameters,
    /// The other relations, and where they stand.
    relations: Vec<(String, Vec<ColumnDefinition>)>,
    from: Vec<ast::TableWithJoins>,
    /// What the query computes, and the columns that such a value is for.
    computed: Vec<(Expr, Option<ColumnDefinition>)>,
}

impl<'a> Join<'a> {
    pub(super) fn new(
        planner: &'a Planner<'a>,
        target: WriteTarget,
        with: Option<&'a ast::With>,
        parameters: &'a mut Parameters,
    ) -> Bound<Join<'a>> {
        let shown = target.show(parameters, None)?;
        let (relations, from, computed) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Join { planner, target, shown, with, parameters, relations, from, computed })
    }

    /// Finds out which columns the other relations have.
    pub(super) fn learn(&mut self, from: &[ast::TableWithJoins]) -> Bound<()> {
        let mut names = Vec::new();
        from.iter().try_for_each(|item| names_of(item, &mut names))?;
        self.from = from.to_vec();
        let mut known = vec![self.target.alias.clone()];
        for name in names {
            if known.contains(&name) {
                let message = format!("table name {} specified more than once", quoted(&name));
                return Err(Error::new(SqlState::DuplicateAlias, message).into());
            }
            let columns = self.columns_of(&name, from)?;
            known.push(name.clone());
            self.relations.push((name, columns));
        }
        Ok(())
    }

    fn columns_of(&self, name: &str, from: &[ast::TableWithJoins]) -> Bound<Vec<ColumnDefinition>> {
        let all = ast::SelectItemQualifiedWildcardKind::ObjectName(Ident::with_quote('"', name).into());
        let item = SelectItem::QualifiedWildcard(all, ast::WildcardAdditionalOptions::default());
        let query = plain_query(self.with, vec![item], from.to_vec(), None);
        let plan = self.plan(query)?;
        let column = |column: &crate::OutputColumn| {
            ColumnDefinition::new(column.name.clone(), column.data_type).nullable()
        };
        Ok(plan.output().iter().map(column).collect())
    }

    fn plan(&self, query: ast::Query) -> Bound<OlapPlan> {
        let tables = self.planner.relations(Some(self.target.table.clone()));
        let known = self.parameters.known().to_vec();
        let statement = ast::Statement::Query(Box::new(query));
        Ok(self.planner.engine.olap().plan_apart(statement, tables, known, self.planner.cancel)?)
    }

    fn width(&self) -> usize {
        self.target.table.columns().len()
    }

    /// The number of the first computed value.
    fn first_computed(&self) -> usize {
        self.width() + self.relations.iter().map(|(_, columns)| columns.len()).sum::<usize>()
    }

    /// Binds by the OLTP path's binder, over these names.
    fn bind<T>(&mut self, names: Names, bind: impl FnOnce(&mut Binder) -> Bound<T>) -> Bound<T> {
        self.bind_over(names, &[], bind)
    }

    /// With names of the first computed values, too.
    fn bind_over<T>(
        &mut self,
        names: Names,
        computed: &[ColumnDefinition],
        bind: impl FnOnce(&mut Binder) -> Bound<T>,
    ) -> Bound<T> {
        let mut scope = match names {
            Names::All => {
                let scope = self.target.scope(Scope::default(), &self.target.alias, &self.shown);
                let schema = self.target.named_schema(&self.planner.catalog);
                scope.in_schema(schema).numbered(self.target.number(self.planner))
            }
            Names::Others => Scope::starting_at(self.target.table.columns().len()),
        };
        for (name, columns) in &self.relations {
            scope = scope.with(name.clone(), columns);
        }
        if !computed.is_empty() {
            scope = scope.with(COMPUTED, computed);
        }
        let mut parameters = Parameters::declared(self.parameters.known());
        let bound = bind(&mut Binder::new(scope, &mut parameters))?;
        *self.parameters = parameters;
        Ok(bound)
    }

    /// A value of the query's, where the OLTP path does not know the expression.
    fn or_computed(
        &mut self,
        bound: Bound<Expression>,
        expr: &Expr,
        column: Option<&ColumnDefinition>,
    ) -> Bound<Expression> {
        if !bound.as_ref().is_err_and(is_for_query) {
            return bound;
        }
        self.computed.push((expr.clone(), column.cloned()));
        Ok(Expression::Column(self.first_computed() + self.computed.len() - 1))
    }

    /// A new value for a column.
    pub(super) fn value(&mut self, expr: &Expr, column: usize, names: Names) -> Bound<Expression> {
        let table = self.target.table.clone();
        let definition = &table.columns()[column];
        let bound = self.bind(names, |binder| binder.bind_written(expr, definition));
        if !item_assignments::is_call(expr) || !bound.as_ref().is_err_and(is_for_query) {
            return self.or_computed(bound, expr, Some(definition));
        }
        let mut call = expr.clone();
        self.compute_operands(&mut call, names)?;
        let named = self.computed.iter().enumerate().map(|(at, (_, column))| {
            let data_type = column.as_ref().map_or(DataType::Boolean, |column| column.data_type);
            ColumnDefinition::new(computed_name(at), data_type).nullable()
        });
        let computed: Vec<ColumnDefinition> = named.collect();
        self.bind_over(names, &computed, |binder| binder.bind_written(&call, definition))
    }

    /// Operands of an assignment to an item of an array become values of the query's, where the OLTP path does not know them.
    fn compute_operands(&mut self, call: &mut Expr, names: Names) -> Bound<()> {
        for operand in item_assignments::operands_mut(call) {
            if item_assignments::is_call(operand) {
                self.compute_operands(operand, names)?;
            } else if self.bind(names, |binder| binder.bind(operand)).as_ref().is_err_and(is_for_query) {
                *operand = self.computed_operand(operand)?;
            }
        }
        Ok(())
    }

    /// The name of a value that the query computes.
    fn computed_operand(&mut self, operand: &Expr) -> Bound<Expr> {
        let mut from = self.from.clone();
        from.insert(0, ast::TableWithJoins { relation: self.target.factor(), joins: Vec::new() });
        let plan = self.plan(plain_query(self.with, vec![item(operand.clone(), 0)], from, None))?;
        let name = computed_name(self.computed.len());
        let definition = ColumnDefinition::new(name.clone(), plan.output()[0].data_type).nullable();
        self.computed.push((operand.clone(), Some(definition)));
        Ok(compound(COMPUTED, Ident::with_quote('"', name)))
    }

    /// A condition of MERGE.
    pub(super) fn condition(&mut self, expr: &Expr, names: Names) -> Bound<Expression> {
        let bound = self.bind(names, |binder| binder.bind_condition(expr, "WHEN"));
        self.or_computed(bound, expr, None)
    }

    /// What SET says.
    pub(super) fn assignments(&mut self, assignments: &[ast::Assignment]) -> Bound<Vec<(usize, Expression)>> {
        let mut bound: Vec<(usize, Expression)> = Vec::new();
        for assignment in assignments {
            for (name, value) in assigned_pairs(assignment)? {
                let column = assigned_column(&self.target, name)?;
                let taken = bound.iter().any(|(other, _)| *other == column);
                let given = match is_default(&value) {
                    true => Expression::Literal(Value::Null),
                    false => self.value(&value, column, Names::All)?,
                };
                let catalog = &self.planner.catalog;
                let given = bind_new_value(&self.target, catalog, column, &value, taken, || Ok(given))?;
                bound.push((column, given));
            }
        }
        leave_out_computed(&self.target.table, &mut bound);
        Ok(bound)
    }

    /// RETURNING, over the target and the other relations.
    fn returning(&mut self, items: Option<&[SelectItem]>) -> Bound<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let (projection, output) = self.bind(Names::All, |binder| bind_projection(binder, items))?;
        Ok(Some(Returning { projection, output: output.into() }))
    }

    /// Plans the query.
    pub(super) fn finish(
        self,
        command: &'static str,
        tables: JoinedTables,
        mut clauses: Vec<Clause>,
        mut returning: Option<Returning>,
    ) -> Bound<WritePlan> {
        let (width, first_computed) = (self.width(), self.first_computed());
        let mut expressions: Vec<&mut Expression> =
            clauses.iter_mut().flat_map(Clause::expressions).collect();
        expressions.extend(returning.iter_mut().flat_map(|returning| &mut returning.projection));
        let mut used = Vec::new();
        expressions.iter().for_each(|expression| expression.collect_columns(&mut used));
        let columns: Vec<usize> = used.iter().copied().filter(|&column| column < width).collect();
        used.retain(|&column| column >= width && column < first_computed);
        used.sort_unstable();
        used.dedup();
        // In the result, the identity comes first.
        let place = |column: usize| match column {
            own if own < width => own,
            computed if computed >= first_computed => width + 1 + used.len() + computed - first_computed,
            other => width + 1 + used.binary_search(&other).expect("collected above"),
        };
        expressions.into_iter().for_each(|expression| renumber(expression, &place));
        let mut items = vec![item(compound(&self.target.alias, hidden(ROW_IDENTITY)), 0)];
        for &column in &used {
            let (relation, name) = self.name(column);
            items.push(item(compound(relation, Ident::with_quote('"', name)), items.len()));
        }
        for (expr, _) in &self.computed {
            items.push(item(expr.clone(), items.len()));
        }
        let query = match tables {
            JoinedTables::Listed(from, condition) => {
                let mut from = from.to_vec();
                from.insert(0, ast::TableWithJoins { relation: self.target.factor(), joins: Vec::new() });
                plain_query(self.with, items, from, condition.cloned())
            }
            JoinedTables::Merged(source, on, keeps_all) => {
                let constraint = ast::JoinConstraint::On(on.clone());
                let join_operator = match keeps_all {
                    true => ast::JoinOperator::LeftOuter(constraint),
                    false => ast::JoinOperator::Inner(constraint),
                };
                let join = ast::Join { relation: self.target.factor(), global: false, join_operator };
                let from = ast::TableWithJoins { relation: source.clone(), joins: vec![join] };
                plain_query(self.with, items, vec![from], None)
            }
        };
        let parameters = parameter::used(&query);
        let plan = self.plan(query)?;
        self.check_computed(&plan.output()[1 + used.len()..])?;
        self.parameters.merge(plan.parameters(), &parameters);
        let columns = ColumnSet::of(&columns);
        let (table, query, checks) = (self.target.table, Arc::new(plan), self.shown.checks);
        let plan = JoinedPlan { command, table, query, clauses, columns, returning, checks };
        Ok(WritePlan::Joined(Box::new(plan)))
    }

    /// The relation and the name of another relation's column.
    fn name(&self, column: usize) -> (&str, &str) {
        let mut at = column - self.width();
        for (relation, columns) in &self.relations {
            match columns.get(at) {
                Some(found) => return (relation, &found.name),
                None => at -= columns.len(),
            }
        }
        unreachable!("the binder gives columns of its scope only")
    }

    /// 42804 if a computed value does not fit what it is for.
    fn check_computed(&self, output: &[crate::OutputColumn]) -> Bound<()> {
        for ((_, column), computed) in self.computed.iter().zip(output) {
            let from = computed.data_type;
            let message = match column {
                None if from == DataType::Boolean => continue,
                None => format!("argument of WHEN must be type boolean, not type {}", type_name(from)),
                Some(column) if assignable(from, column.data_type) => continue,
                Some(column) => return Err(not_assignable(column, from).into()),
            };
            return Err(Error::new(SqlState::DatatypeMismatch, message).into());
        }
        Ok(())
    }
}

/// Whether an expression is one for the query: the OLTP path does not know it, or a name that several relations share, which may be
/// one that USING merges.
fn is_for_query(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Elsewhere(_) => true,
        Refusal::Failed(error) => error.state() == SqlState::AmbiguousColumn,
    }
}

/// What an expression calls a computed value; no client can write it.
fn computed_name(at: usize) -> String {
    format!("\0{at}")
}

impl Clause {
    fn expressions(&mut self) -> Vec<&mut Expression> {
        let mut all: Vec<&mut Expression> = self.condition.iter_mut().collect();
        match &mut self.action {
            Action::Update(assignments) => all.extend(assignments.iter_mut().map(|(_, value)| value)),
            Action::Insert(values) => all.extend(values),
            Action::Delete | Action::Nothing => {}
        }
        all
    }
}

pub(super) fn renumber(expression: &mut Expression, place: &impl Fn(usize) -> usize) {
    if let Expression::Column(column) = expression {
        *column = place(*column);
    }
    expression.operands_mut().into_iter().for_each(|operand| renumber(operand, place));
}

/// The names of the relations in an item of FROM.
fn names_of(item: &ast::TableWithJoins, names: &mut Vec<String>) -> Bound<()> {
    let factors = std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation));
    for factor in factors {
        let alias = match factor {
            ast::TableFactor::Table { alias, name, .. } => match alias {
                Some(alias) => Some(folded(&alias.name)),
                None => name.0.last().and_then(|part| part.as_ident()).map(folded),
            },
            ast::TableFactor::NestedJoin { table_with_joins, alias: None } => {
                names_of(table_with_joins, names)?;
                continue;
            }
            ast::TableFactor::Derived { alias, .. }
            | ast::TableFactor::Function { alias, .. }
            | ast::TableFactor::TableFunction { alias, .. }
            | ast::TableFactor::UNNEST { alias, .. }
            | ast::TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| folded(&alias.name)),
            _ => None,
        };
        match alias {
            Some(alias) => names.push(alias),
            None => {
                let message = "subquery in FROM must have an alias";
                return Err(Error::new(SqlState::SyntaxError, message).into());
            }
        }
    }
    Ok(())
}

fn compound(relation: &str, column: Ident) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('"', relation), column])
}

/// An item of the query's list. Clients do not see its name.
fn item(expr: Expr, position: usize) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: hidden(&format!("\0{position}")) }
}

/// The target, as the query reads it.
pub(super) fn target(alias: &str) -> ast::TableFactor {
    let alias = ast::TableAlias {
        explicit: true,
        name: Ident::with_quote('"', alias),
        columns: Vec::new(),
        at: None,
    };
    ast::TableFactor::Table {
        name: hidden(TARGET).into(),
        alias: Some(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}
