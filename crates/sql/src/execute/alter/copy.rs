//! Copying the rows of a table to another one that takes its place.

use crate::domains::{Version, is_check};
use crate::execute::defining::{Defining, counted, numbered};
use crate::expression::bind::type_name;
use crate::expression::{Binder, Context, Expression, Parameters, Refusal, Scope, evaluate};
use crate::name::{full_name, identifier};
use crate::olap::OlapPlan;
use crate::plan::check::{add_checks, parsed_check};
use crate::plan::default::{default, parsed, resolved};
use crate::plan::derivation::rederive;
use crate::plan::generation::{NewGeneration, bind_generations};
use crate::plan::{ForeignKeyClause, NewColumn, OwnSequence, add_column};
use ankerdb_engine::{
    Catalog, Check, ColumnDefinition, DataType, Error, IndexDefinition, NameRef, Result, SqlState, Table,
    TableDefinition, Transaction, Value,
};
use ankerdb_value::assign;
use datafusion::sql::sqlparser::ast::{self, Expr};
use std::sync::Arc;

/// Changes of a table's columns.
pub(super) struct Rewriting {
    /// What the table becomes. Its sequences are not yet named, and its constraints are as they were.
    pub(super) definition: TableDefinition,
    /// Of each column: where it comes from.
    sources: Vec<Source>,
    /// Those by which new columns count.
    sequences: Vec<OwnSequence>,
    /// Of new columns: conditions with their names.
    checks: Vec<(Option<String>, Expr)>,
    /// Of new columns.
    foreign_keys: Vec<ForeignKeyClause>,
    /// Of new columns that are computed from others.
    generations: Vec<NewGeneration>,
    /// What the table was.
    before: TableDefinition,
}

#[derive(Clone)]
enum Source {
    /// The column at this position of the old table.
    Kept(usize),
    /// Computed from the old row.
    Computed(usize, Box<Expression>),
    /// Its default.
    New,
}

impl Source {
    /// The column of the old table that it was.
    fn former(&self) -> Option<usize> {
        match self {
            Source::Kept(column) | Source::Computed(column, _) => Some(*column),
            Source::New => None,
        }
    }
}

impl Rewriting {
    /// None yet.
    pub(super) fn new(table: &Table, catalog: &Catalog) -> Result<Rewriting> {
        let mut definition = table.definition().clone();
        // Indexes made or dropped since are not in it.
        definition.indexes = catalog.indexes_of(table).map(|index| index.definition().clone()).collect();
        definition.indexes.sort_by_key(|index| !index.primary);
        let sources = (0..definition.columns.len()).map(Source::Kept).collect();
        let before = definition.clone();
        let (sequences, checks) = (Vec::new(), Vec::new());
        let (foreign_keys, generations) = (Vec::new(), Vec::new());
        Ok(Rewriting { definition, sources, sequences, checks, foreign_keys, generations, before })
    }

    pub(super) fn add_column(&mut self, new: &ast::ColumnDef, catalog: &Catalog) -> Result<()> {
        let NewColumn { checks, keys, sequences, foreign_keys, generations } =
            add_column(&mut self.definition, new)?;
        let schema = self.definition.schema;
        if let Some(column) = self.definition.columns.last_mut() {
            let default = column.default.as_deref().map(|text| resolved(text, schema, catalog));
            column.default = default.transpose()?;
        }
        self.checks.extend(checks);
        self.foreign_keys.extend(foreign_keys);
        self.generations.extend(generations);
        self.sequences.extend(sequences);
        for key in keys {
            if key.primary && self.definition.indexes.iter().any(|index| index.primary) {
                let message =
                    format!("multiple primary keys for table \"{}\" are not allowed", self.definition.name);
                return Err(Error::new(SqlState::InvalidTableDefinition, message));
            }
            let is_named = key.name.is_some();
            let mut index = crate::plan::key_definition(&mut self.definition, key)?;
            let is_taken = |name: &str| catalog.has_relation(NameRef::In(schema, name));
            if !is_named {
                index.name = numbered(index.name, is_taken);
            }
            if is_taken(&index.name) {
                let message = format!("relation \"{}\" already exists", index.name);
                return Err(Error::new(SqlState::DuplicateTable, message));
            }
            self.definition.indexes.push(index);
        }
        self.sources.push(Source::New);
        Ok(())
    }

    /// Keys, indexes and constraints over the column go with it.
    pub(super) fn drop_column(&mut self, position: usize) -> Result<()> {
        let definition = &mut self.definition;
        let column = definition.columns.remove(position);
        self.generations.retain(|(name, _)| *name != column.name);
        self.sources.remove(position);
        let uses = |index: &IndexDefinition| {
            index.columns.contains(&position) || index.style.included.contains(&position)
        };
        definition.indexes.retain(|index| !uses(index));
        let moved = |column: usize| column - usize::from(column > position);
        for index in &mut definition.indexes {
            let columns = index.columns.iter_mut().chain(&mut index.style.included);
            columns.for_each(|column| *column = moved(*column));
        }
        let keys =
            definition.foreign_keys.iter_mut().flat_map(|key| [&mut key.columns, &mut key.set_columns]);
        for columns in keys.chain(definition.referenced_by.iter_mut().map(|side| &mut side.columns)) {
            columns.iter_mut().for_each(|column| *column = moved(*column));
        }
        self.sequences.retain(|sequence| sequence.column != position);
        self.sequences.iter_mut().for_each(|sequence| sequence.column = moved(sequence.column));
        Ok(())
    }

    pub(super) fn set_type(
        &mut self,
        position: usize,
        data_type: DataType,
        using: Option<&Expr>,
    ) -> Result<()> {
        let Some(former) = self.sources[position].former() else {
            return Err(crate::name::not_supported(
                "ALTER COLUMN ... TYPE of a column added in the same statement",
            ));
        };
        let column =
            ColumnDefinition { data_type, collation: None, ..self.definition.columns[position].clone() };
        if column.generation.is_some() {
            return self.set_computed_type(position, column, using);
        }
        let old = &self.before.columns[former];
        let value = Expr::Identifier(identifier(&old.name));
        let scope = Scope::default().with(self.before.name.clone(), &self.before.columns);
        let mut parameters = Parameters::default();
        let mut binder = Binder::new(scope, &mut parameters);
        let bound = binder.bind_assigned(using.unwrap_or(&value), &column).map_err(Refusal::into_error);
        let bound = bound.map_err(|error| match (error.state(), using) {
            (SqlState::DatatypeMismatch, None) => no_cast(&column),
            (SqlState::DatatypeMismatch, Some(_)) => {
                let message = format!(
                    "result of USING clause for column \"{}\" cannot be cast automatically to type {}",
                    column.name,
                    type_name(data_type)
                );
                Error::new(SqlState::DatatypeMismatch, message)
                    .with_hint("You might need to add an explicit cast.")
            }
            _ => error,
        })?;
        if let Some(text) = &column.default {
            let is_fit = crate::plan::default::checked(&parsed(text)?, &column);
            is_fit.map_err(|_| {
                let message = format!(
                    "default for column \"{}\" cannot be cast automatically to type {}",
                    column.name,
                    type_name(data_type)
                );
                Error::new(SqlState::DatatypeMismatch, message)
            })?;
        }
        self.definition.columns[position] = column;
        self.sources[position] = Source::Computed(former, Box::new(bound));
        Ok(())
    }

    /// What is computed from other columns is computed anew.
    fn set_computed_type(
        &mut self,
        position: usize,
        column: ColumnDefinition,
        using: Option<&Expr>,
    ) -> Result<()> {
        let name = &column.name;
        if using.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{name}\" is a generated column.");
            return Err(Error::new(SqlState::InvalidColumnDefinition, message).with_detail(detail));
        }
        let mut changed = self.definition.clone();
        changed.columns[position] = column.clone();
        bind_generations(&mut changed, &[]).map_err(|error| match error.state() {
            SqlState::DatatypeMismatch => {
                let to = type_name(column.data_type);
                let message = format!("column \"{name}\" cannot be cast automatically to type {to}");
                Error::new(SqlState::DatatypeMismatch, message)
            }
            _ => error,
        })?;
        self.definition.columns[position] = column;
        Ok(())
    }

    /// The conditions of the new table: those whose columns are all there, and those of new columns.
    fn bind_checks(&mut self) -> Result<()> {
        let kept: Vec<usize> = self.sources.iter().filter_map(Source::former).collect();
        let is_kept = |check: &&Check| {
            (0..self.before.columns.len())
                .all(|column| !check.columns.contains(column) || kept.contains(&column))
                && (!is_check(&check.name) || self.has_kept_domain(check))
        };
        let checks = self.before.checks.iter().filter(is_kept);
        let mut checks: Vec<(Option<String>, Expr)> = checks
            .map(|check| Ok((Some(check.name.clone()), parsed_check(&check.text)?)))
            .collect::<Result<_>>()?;
        checks.append(&mut self.checks);
        self.definition.checks.clear();
        add_checks(&mut self.definition, checks.iter().map(|(name, expr)| (name.clone(), expr)).collect())?;
        for check in &mut self.definition.checks {
            let before = self.before.checks.iter().find(|before| before.name == check.name);
            check.is_validated = before.is_none_or(|before| before.is_validated);
        }
        Ok(())
    }

    /// Whether the column of a domain's check is still one of that.
    fn has_kept_domain(&self, check: &Check) -> bool {
        let mut kept = self.sources.iter().zip(&self.definition.columns);
        kept.any(|(source, column)| {
            source.former().is_some_and(|former| {
                check.columns.contains(former) && self.before.columns[former].domain == column.domain
            })
        })
    }

    /// The column becomes one of a domain, or of none.
    pub(super) fn set_domain(&mut self, position: usize, version: Option<&'static Version>) {
        let column = &mut self.definition.columns[position];
        let gave_default = column.domain.is_some_and(|domain| domain.gives_default);
        if gave_default {
            column.default = None;
        }
        let gives_default = column.default.is_none();
        column.domain = version.map(|version| version.of_column(gives_default));
        if let Some(version) = version {
            if gives_default {
                column.default.clone_from(&version.default);
            }
            self.checks.extend(version.check(&column.name).map(|(name, expr)| (Some(name), expr)));
        }
    }

    /// The indexes of the new table that compute their keys: those whose columns are all there.
    fn bind_indexes(&mut self) -> Result<()> {
        let position = |column| self.sources.iter().position(|source| source.former() == Some(column));
        let mut kept = Vec::with_capacity(self.definition.indexes.len());
        for mut index in std::mem::take(&mut self.definition.indexes) {
            if let Some(derivation) = &index.derivation {
                let Some(new) = rederive(derivation, &self.definition, position)? else { continue };
                index.derivation = Some(Arc::new(new));
            }
            kept.push(index);
        }
        self.definition.indexes = kept;
        Ok(())
    }

    /// Puts a new table in the place of the old one, which is closed to others, and fills it. Returns it with the foreign keys
    /// of new columns, which are to be added.
    pub(super) fn copy(
        mut self,
        old: &Arc<Table>,
        defining: &mut Defining,
    ) -> Result<(Arc<Table>, Vec<ForeignKeyClause>)> {
        bind_generations(&mut self.definition, &self.generations)?;
        self.bind_checks()?;
        self.bind_indexes()?;
        let catalog = defining.definitions.catalog()?;
        let rows = all_rows(old, &catalog, defining)?;
        // The rows fulfil those that there are, or are not asked to.
        let foreign_keys = std::mem::take(&mut self.definition.foreign_keys);
        let (tested, untested) =
            std::mem::take(&mut self.definition.checks).into_iter().partition(|check| check.is_validated);
        self.definition.checks = tested;
        let (definition, sequences) = counted(&self.definition, &self.sequences, &catalog)?;
        let moved = |column| self.sources.iter().position(|source| source.former() == Some(column));
        let new = defining.definitions.replace_table(old, definition, moved)?;
        for sequence in sequences {
            defining.definitions.create_sequence(sequence)?;
        }
        let own = defining.definitions.catalog()?;
        defining.runner.sequences.use_catalog(Some(own));
        let schema = catalog.schema_of(&new);
        let defaults: Vec<Expression> = new
            .columns()
            .iter()
            .zip(&self.sources)
            .map(|(column, source)| match source {
                Source::New => default(column, schema).map_err(Refusal::into_error),
                _ => Ok(Expression::Literal(Value::Null)),
            })
            .collect::<Result<_>>()?;
        visit(&rows, defining, |defining, row| {
            let values = self.values(&new, row, &defaults, defining)?;
            defining.transaction.insert(&new, values).map(drop)
        })?;
        let mut definition = TableDefinition { foreign_keys, ..new.definition().clone() };
        definition.checks.extend::<Vec<Check>>(untested);
        definition.checks.sort_by(|left, right| left.name.cmp(&right.name));
        let Defining { definitions, transaction, .. } = defining;
        Ok((definitions.redefine_table(&new, definition, transaction)?, self.foreign_keys))
    }

    /// The new table's values for a row of the old one.
    fn values(
        &self,
        new: &Table,
        row: &[Value],
        defaults: &[Expression],
        defining: &Defining,
    ) -> Result<Vec<Value>> {
        let column = |position: usize| row[position].clone();
        let context = Context { column: &column, ..defining.context() };
        let mut values = Vec::with_capacity(self.sources.len());
        for ((source, default), column) in self.sources.iter().zip(defaults).zip(new.columns()) {
            let value = match source {
                // Computed below from the new row.
                _ if column.generation.is_some() => Value::Null,
                Source::Kept(position) => row[*position].clone(),
                Source::Computed(_, expression) => evaluate(expression, &context)?,
                Source::New => evaluate(default, &context)?,
            };
            values.push(if value.is_null() { value } else { assign(value, column.data_type)? });
        }
        // Where NULL is refused it is told here; else it is computed where the row is inserted.
        let is_needed = |column: &ColumnDefinition| column.generation.is_some() && !column.nullable;
        if new.columns().iter().any(is_needed) {
            new.generate(&mut values)?;
        }
        for (value, column) in values.iter().zip(new.columns()) {
            if value.is_null() && !column.nullable {
                let message =
                    format!("column \"{}\" of relation \"{}\" contains null values", column.name, new.name());
                let error = Error::new(SqlState::NotNullViolation, message);
                return Err(error.with_table(new.schema(), new.name()).with_column(&column.name));
            }
        }
        Ok(values)
    }
}

/// 42804.
fn no_cast(column: &ColumnDefinition) -> Error {
    let (name, to) = (&column.name, type_name(column.data_type));
    let message = format!("column \"{name}\" cannot be cast automatically to type {to}");
    let hint = format!("You might need to specify \"USING {}::{to}\".", identifier(name));
    Error::new(SqlState::DatatypeMismatch, message).with_hint(hint)
}

/// Visits all rows of a table that is closed to others: what is committed now, and what the transaction has written.
pub(super) fn visit_rows(
    table: &Arc<Table>,
    defining: &mut Defining,
    mut visit_row: impl FnMut(&mut Defining, &[Value]) -> Result<()>,
) -> Result<()> {
    let catalog = defining.definitions.catalog()?;
    let rows = all_rows(table, &catalog, defining)?;
    visit(&rows, defining, &mut visit_row)
}

/// The query for all rows of a table.
fn all_rows(table: &Table, catalog: &Arc<Catalog>, defining: &Defining) -> Result<Arc<OlapPlan>> {
    let columns: Vec<String> =
        table.columns().iter().map(|column| identifier(&column.name).to_string()).collect();
    let name = full_name(catalog.schema_of(table), table.name());
    query_in(&format!("SELECT {} FROM {name}", columns.join(", ")), catalog, defining)
}

/// A query over the tables as the transaction has defined them.
pub(super) fn query(text: &str, defining: &mut Defining) -> Result<Arc<OlapPlan>> {
    let catalog = defining.definitions.catalog()?;
    query_in(text, &catalog, defining)
}

fn query_in(text: &str, catalog: &Arc<Catalog>, defining: &Defining) -> Result<Arc<OlapPlan>> {
    let statement = crate::parse::parse(text)?.pop().and_then(|statement| statement.ast);
    let statement = statement.ok_or_else(|| Error::internal("the query of a table is no statement"))?;
    let (olap, runner) = (defining.runner.engine.olap(), defining.runner);
    let sources = olap.sources(catalog, Some(&runner.activity));
    let plan = olap.plan_apart((*statement).clone(), sources, Vec::new(), &runner.cancel)?;
    Ok(Arc::new(plan))
}

pub(super) fn visit(
    rows: &Arc<OlapPlan>,
    defining: &mut Defining,
    mut visit_row: impl FnMut(&mut Defining, &[Value]) -> Result<()>,
) -> Result<()> {
    let view = Transaction::newest_view(defining.transaction);
    let runner = defining.runner;
    let (after, cancel) = (runner.after(rows, defining.now), runner.cancel.clone());
    let mut result = runner.engine.olap().run_after(rows, &[], view, after, cancel);
    while let Some(batch) = result.next_batch()? {
        for row in batch {
            runner.interrupt().check()?;
            visit_row(defining, &row)?;
        }
    }
    Ok(())
}
