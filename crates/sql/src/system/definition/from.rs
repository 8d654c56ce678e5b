//! FROM clauses: which relations and columns there are, and how they are shown.

use super::kinds;
use super::names::{ShownColumn, ShownNames, ShownRelation};
use super::node::{PartStyle, ShownNode, ShownPart, comma_separated};
use super::reader::{DefinitionReader, unnested};
use super::write::{CLAUSE, DefinitionWriter, JOIN};
use crate::expression::library;
use crate::name::folded;
use crate::rewrite::ROWS_FROM;
use crate::system::quoting::quote_ident;
use crate::system::relation;
use ankerdb_engine::{DataType, SystemType};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint,
    JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
};

const SERIES: &str = "generate_series";

/// How the sides of a join are joined.
struct JoinWords<'a> {
    words: &'static str,
    constraint: &'a JoinConstraint,
}

fn join_words(operator: &JoinOperator) -> Option<JoinWords<'_>> {
    use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let (words, constraint) = match operator {
        Join(constraint) | Inner(constraint) => ("JOIN", constraint),
        Left(constraint) | LeftOuter(constraint) => ("LEFT JOIN", constraint),
        Right(constraint) | RightOuter(constraint) => ("RIGHT JOIN", constraint),
        FullOuter(constraint) => ("FULL JOIN", constraint),
        CrossJoin(constraint) => ("CROSS JOIN", constraint),
        _ => return None,
    };
    Some(JoinWords { words, constraint })
}

/// The schema, if it is named, and the name.
fn parts(name: &ObjectName) -> (Option<String>, String) {
    let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(folded);
    let last = parts.next().unwrap_or_default();
    (parts.next(), last)
}

/// What a relation of FROM is, without what stands for it within the database.
enum FromSource<'a> {
    Relation(&'a ObjectName),
    /// Several functions of ROWS FROM, or one.
    Functions {
        calls: Vec<&'a Function>,
        own: Option<(&'a ObjectName, &'a [FunctionArg])>,
        ordinality: bool,
    },
    Unnest {
        items: &'a [Expr],
        ordinality: bool,
    },
    Query {
        lateral: bool,
        query: &'a Query,
    },
    Sample {
        relation: &'a ObjectName,
        percent: &'a Expr,
    },
    Other,
}

/// What a relation is, and its alias.
fn source(factor: &TableFactor) -> (FromSource<'_>, Option<&TableAlias>) {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => (FromSource::Relation(name), alias.as_ref()),
        TableFactor::Table { name, alias, args: Some(args), with_ordinality: ordinality, .. } => {
            function_source(name, &args.args, *ordinality, alias.as_ref())
        }
        TableFactor::Function { name, args, with_ordinality: ordinality, alias, .. } => {
            function_source(name, args, *ordinality, alias.as_ref())
        }
        TableFactor::UNNEST { alias, array_exprs: items, with_ordinality: ordinality, .. } => {
            (FromSource::Unnest { items, ordinality: *ordinality }, alias.as_ref())
        }
        TableFactor::Derived { lateral, subquery, alias, .. } => {
            let own = match series(subquery).or_else(|| sample(subquery)) {
                Some(source) => source,
                None => FromSource::Query { lateral: *lateral, query: subquery },
            };
            (own, alias.as_ref())
        }
        _ => (FromSource::Other, None),
    }
}

fn function_source<'a>(
    name: &'a ObjectName,
    args: &'a [FunctionArg],
    ordinality: bool,
    alias: Option<&'a TableAlias>,
) -> (FromSource<'a>, Option<&'a TableAlias>) {
    let calls = match parts(name).1 == ROWS_FROM {
        true => args
            .iter()
            .filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(call))) => Some(call),
                _ => None,
            })
            .collect(),
        false => Vec::new(),
    };
    let own = calls.is_empty().then_some((name, args));
    (FromSource::Functions { calls, own, ordinality }, alias)
}

/// A series that stands in a query for the sake of its type.
fn series(query: &Query) -> Option<FromSource<'_>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let ([SelectItem::UnnamedExpr(Expr::Cast { expr, .. })], [from]) =
        (select.projection.as_slice(), select.from.as_slice())
    else {
        return None;
    };
    let Expr::CompoundIdentifier(column) = &**expr else { return None };
    if !from.joins.is_empty() || column.len() != 2 || column.iter().any(|part| part.value != SERIES) {
        return None;
    }
    let (own, alias) = source(&from.relation);
    let is_series = alias.is_some_and(|alias| alias.name.value == SERIES);
    match own {
        FromSource::Functions { own: Some((name, _)), .. } if is_series && parts(name).1 == SERIES => {
            Some(own)
        }
        _ => None,
    }
}

/// A sample of a relation: `SELECT * FROM t WHERE random() * 100 < 10`
fn sample(query: &Query) -> Option<FromSource<'_>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let ([from], Some(Expr::BinaryOp { left, op: BinaryOperator::Lt, right })) =
        (select.from.as_slice(), &select.selection)
    else {
        return None;
    };
    let Expr::BinaryOp { left, op: BinaryOperator::Multiply, .. } = unnested(left) else { return None };
    let Expr::Function(random) = &**left else { return None };
    let is_own = random
        .name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .is_some_and(|name| name.value == "random" && name.quote_style.is_some());
    match &from.relation {
        TableFactor::Table { name, args: None, .. } if is_own => {
            Some(FromSource::Sample { relation: name, percent: right })
        }
        _ => None,
    }
}

/// The columns by the names of an alias.
fn renamed(columns: Option<Vec<ShownColumn>>, alias: Option<&TableAlias>) -> Option<Vec<ShownColumn>> {
    let names = alias.map_or(&[][..], |alias| &alias.columns);
    let mut columns = match columns {
        Some(columns) => columns,
        None if names.is_empty() => return None,
        None => names.iter().map(|column| ShownColumn::new(&folded(&column.name), None)).collect(),
    };
    for (column, alias) in columns.iter_mut().zip(names) {
        let data_type = column.data_type;
        *column = ShownColumn::new(&folded(&alias.name), data_type);
    }
    Some(columns)
}

fn is_merging(item: &TableWithJoins) -> bool {
    let merges = |operator: &JoinOperator| {
        join_words(operator)
            .is_some_and(|join| matches!(join.constraint, JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    item.joins.iter().any(|join| merges(&join.join_operator))
}

impl DefinitionReader<'_> {
    /// The names that the clauses of a select see.
    pub(super) fn names_of_select<'a>(
        &self,
        select: &'a Select,
        outer: &'a ShownNames<'a>,
    ) -> ShownNames<'a> {
        let mut names = ShownNames::within(outer);
        for item in &select.from {
            self.add_item(item, &mut names);
        }
        names
    }

    fn add_item<'a>(&self, item: &'a TableWithJoins, names: &mut ShownNames<'a>) {
        let merges = is_merging(item);
        let first = names.relations.len();
        self.add_factor(&item.relation, merges, names);
        for join in &item.joins {
            let second = names.relations.len();
            self.add_factor(&join.relation, merges, names);
            let Some(join) = join_words(&join.join_operator) else { continue };
            for name in self.merged_names(&join, names, first, second) {
                merge(&name, join.words, names, first, second);
            }
        }
    }

    fn add_factor<'a>(&self, factor: &'a TableFactor, merges: bool, names: &mut ShownNames<'a>) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            return self.add_item(table_with_joins, names);
        }
        let (source, alias) = source(factor);
        let (schema, own, columns) = match source {
            FromSource::Relation(name) | FromSource::Sample { relation: name, .. } => {
                let (schema, own) = parts(name);
                let columns = self.relation_columns(schema.as_deref(), &own, merges, names);
                (schema, own, columns)
            }
            FromSource::Query { query, .. } => (None, String::new(), self.columns_of_query(query, names)),
            FromSource::Functions { calls, own, ordinality } => {
                let name = own.map_or_else(String::new, |(name, _)| parts(name).1);
                let called = alias.map_or_else(|| name.clone(), |alias| folded(&alias.name));
                (None, name.clone(), self.function_columns((&name, &called), own, &calls, ordinality, names))
            }
            FromSource::Unnest { items, ordinality } => {
                let called = alias.map_or_else(|| "unnest".to_owned(), |alias| folded(&alias.name));
                let mut columns = Vec::new();
                for item in items {
                    let item = match self.value(item, names).data_type {
                        Some(DataType::System(SystemType::List(list))) => Some(list.item_type()),
                        _ => None,
                    };
                    let name = if items.len() == 1 { &called } else { "unnest" };
                    columns.push(ShownColumn::new(name, item));
                }
                columns.extend(ordinality.then(|| ShownColumn::new("ordinality", Some(DataType::BigInt))));
                (None, "unnest".to_owned(), Some(columns))
            }
            FromSource::Other => (None, String::new(), None),
        };
        let columns = renamed(columns, alias);
        let name = alias.map_or(own, |alias| folded(&alias.name));
        let shown = names.unused(&name);
        // An alias hides the schema.
        let schema = schema.filter(|_| alias.is_none());
        names.relations.push(ShownRelation { schema, name, shown, columns, merged: Vec::new() });
    }

    fn function_columns<'a>(
        &self,
        (name, called): (&str, &str),
        own: Option<(&'a ObjectName, &'a [FunctionArg])>,
        calls: &[&'a Function],
        ordinality: bool,
        names: &ShownNames<'a>,
    ) -> Option<Vec<ShownColumn>> {
        let mut columns = match own {
            None => calls.iter().map(|call| ShownColumn::new(&parts(&call.name).1, None)).collect(),
            Some(_) if library::columns(name).is_some() => {
                library::columns(name)?.iter().map(|(column, _)| ShownColumn::new(column, None)).collect()
            }
            Some((_, args)) => {
                let arguments: Vec<_> =
                    args.iter().filter_map(expression).map(|argument| self.value(argument, names)).collect();
                let data_type = match name {
                    SERIES => kinds::common(arguments.iter().take(2).map(|argument| argument.data_type)),
                    _ => library::only_result(name, arguments.len()),
                };
                if name.ends_with("_to_record") || name.ends_with("_to_recordset") {
                    return None;
                }
                vec![ShownColumn::new(library::column(name).unwrap_or(called), data_type)]
            }
        };
        columns.extend(ordinality.then(|| ShownColumn::new("ordinality", Some(DataType::BigInt))));
        Some(columns)
    }

    /// The columns of a relation as the query knows them.
    fn relation_columns(
        &self,
        schema: Option<&str>,
        name: &str,
        merges: bool,
        names: &ShownNames<'_>,
    ) -> Option<Vec<ShownColumn>> {
        let Some(schema) = schema else {
            return match names.common(name) {
                Some(columns) => columns,
                None => Some(self.current_columns("pg_catalog", name)?),
            };
        };
        let current = self.current_columns(schema, name)?;
        let Some(read) = self.read_relation(schema, name) else { return Some(current) };
        let columns = read.columns.iter().map(|column| {
            let data_type =
                current.iter().find(|known| known.name == column.name).and_then(|known| known.data_type);
            let shown = if merges { &column.called } else { &column.name };
            ShownColumn { name: column.called.clone(), shown: shown.clone(), data_type }
        });
        Some(columns.collect())
    }

    /// All columns of a relation by the names that they had when the view was made, where they are shown by these and have others now.
    fn former_columns(&self, name: &ObjectName, relation: &ShownRelation) -> Option<Vec<ShownColumn>> {
        let (Some(schema), own) = parts(name) else { return None };
        let read = self.read_relation(&schema, &own)?;
        let shown = relation.columns.as_ref()?.iter().zip(&read.columns);
        if shown.clone().all(|(column, read)| column.shown == read.name) {
            return None;
        }
        let current = self.current_columns(&schema, &own)?;
        let mut list: Vec<ShownColumn> = Vec::new();
        for column in &current {
            let known = read.columns.iter().find(|read| read.name == column.name);
            let is_used = |name: &str| {
                read.columns.iter().any(|read| read.called == name)
                    || list.iter().any(|other| other.name == name)
            };
            let numbered = (1..=current.len()).map(|number| format!("{}_{number}", column.name));
            let mut names = std::iter::once(column.name.clone()).chain(numbered);
            let called = match known {
                Some(known) => known.called.clone(),
                None => names.find(|name| !is_used(name))?,
            };
            list.push(ShownColumn::new(&called, None));
        }
        Some(list)
    }

    /// What the view noted of a relation that it reads.
    fn read_relation(&self, schema: &str, name: &str) -> Option<&ankerdb_engine::ReadRelation> {
        let schema_of = |read: &ankerdb_engine::ReadRelation| self.catalog.schema_names.get(&read.schema);
        self.reads
            .iter()
            .find(|read| read.name == name && schema_of(read).is_some_and(|known| **known == *schema))
    }

    fn current_columns(&self, schema: &str, name: &str) -> Option<Vec<ShownColumn>> {
        let of = |column: &ankerdb_engine::ColumnDefinition| {
            ShownColumn::new(&column.name, Some(column.data_type))
        };
        if let Some(table) = self.catalog.table_by_name(schema, name) {
            return Some(table.columns.iter().map(|column| of(&column.definition)).collect());
        }
        let is_it =
            |entry: &&crate::system::ViewEntry| &*entry.schema.name == schema && entry.view.name == name;
        if let Some(entry) = self.catalog.views.iter().find(is_it) {
            return Some(entry.view.columns.iter().map(of).collect());
        }
        let known = relation(schema, name)?;
        Some(
            known
                .columns()
                .iter()
                .map(|column| ShownColumn::new(column.name, Some(column.data_type)))
                .collect(),
        )
    }

    /// The names of columns that a join merges; none where they cannot be told.
    fn merged_names(
        &self,
        join: &JoinWords<'_>,
        names: &ShownNames<'_>,
        first: usize,
        second: usize,
    ) -> Vec<String> {
        match join.constraint {
            JoinConstraint::Using(columns) => columns.iter().map(|name| parts(name).1).collect(),
            JoinConstraint::Natural => natural(names, first, second).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

/// The columns that both sides of a natural join have; `None` where they cannot be told.
fn natural(names: &ShownNames<'_>, first: usize, second: usize) -> Option<Vec<String>> {
    let side = |relations: &[ShownRelation]| -> Option<Vec<String>> {
        let mut all = Vec::new();
        for relation in relations {
            let visible =
                relation.columns.as_ref()?.iter().filter(|column| !relation.merged.contains(&column.name));
            all.extend(visible.map(|column| column.name.clone()));
        }
        Some(all)
    };
    let left = side(&names.relations[first..second])?;
    let right = side(&names.relations[second..])?;
    let merged = names.merged.iter().map(|column| &column.name);
    let left: Vec<String> = merged.cloned().chain(left).collect();
    Some(left.into_iter().filter(|name| right.contains(name)).collect())
}

/// Lets a name mean the merged column of both sides of a join.
fn merge(name: &str, words: &str, names: &mut ShownNames<'_>, first: usize, second: usize) {
    let (hidden, is_full) = match words {
        "RIGHT JOIN" => (first..second, false),
        "FULL JOIN" => (first..names.relations.len(), true),
        _ => (second..names.relations.len(), false),
    };
    let data_type = names.column(name).and_then(|found| found.data_type);
    for relation in &mut names.relations[hidden] {
        relation.merged.push(name.to_owned());
    }
    if is_full && !names.merged.iter().any(|column| column.name == name) {
        names.merged.push(ShownColumn::new(name, data_type));
    }
}

fn expression(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

impl DefinitionWriter<'_> {
    /// An item of FROM. `next` is the position of its first relation among those of the names.
    pub(super) fn item_of_from(&mut self, item: &TableWithJoins, names: &ShownNames<'_>, next: &mut usize) {
        let first = *next;
        if !self.style.is_pretty {
            self.text.push_str(&"(".repeat(item.joins.len()));
        }
        self.factor(&item.relation, names, next);
        for join in &item.joins {
            let second = *next;
            let Some(words) = join_words(&join.join_operator) else {
                self.push(&join.to_string());
                continue;
            };
            let word = match (words.words, words.constraint) {
                ("JOIN", JoinConstraint::None) => "CROSS JOIN",
                (word, _) => word,
            };
            self.line(&format!("{word} "), -CLAUSE, CLAUSE, JOIN + 1);
            let encloses = self.style.is_pretty && matches!(join.relation, TableFactor::NestedJoin { .. });
            if encloses {
                self.push("(");
            }
            self.factor(&join.relation, names, next);
            if encloses {
                self.push(")");
            }
            self.constraint(words.constraint, names, first, second);
            if !self.style.is_pretty {
                self.push(")");
            }
        }
    }

    fn constraint(
        &mut self,
        constraint: &JoinConstraint,
        names: &ShownNames<'_>,
        first: usize,
        second: usize,
    ) {
        let using = |columns: &[String]| {
            format!(
                " USING ({})",
                columns.iter().map(|name| quote_ident(name)).collect::<Vec<_>>().join(", ")
            )
        };
        match constraint {
            JoinConstraint::On(condition) => {
                let node = self.reader.read(condition, names);
                self.push(if self.style.is_pretty { " ON " } else { " ON (" });
                self.node(&node, false);
                if !self.style.is_pretty {
                    self.push(")");
                }
            }
            JoinConstraint::Using(columns) => {
                let columns: Vec<String> = columns.iter().map(|name| parts(name).1).collect();
                self.push(&using(&columns));
            }
            JoinConstraint::Natural => match natural_before_merging(names, first, second) {
                Some(columns) if !columns.is_empty() => self.push(&using(&columns)),
                _ => self.push(" ON true"),
            },
            JoinConstraint::None => {}
        }
    }

    fn factor(&mut self, factor: &TableFactor, names: &ShownNames<'_>, next: &mut usize) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            return self.item_of_from(table_with_joins, names, next);
        }
        let Some(relation) = names.relations.get(*next) else { return };
        *next += 1;
        let (source, alias) = source(factor);
        match source {
            FromSource::Relation(name) | FromSource::Sample { relation: name, .. } => {
                self.relation(name, names);
                let own = parts(name).1;
                // A sample is always called by a name.
                let is_own = |alias: &&TableAlias| {
                    matches!(source, FromSource::Sample { .. }) && folded(&alias.name) == own
                };
                let alias = alias.filter(|alias| !is_own(alias));
                self.table_aliases(name, alias, relation);
                if let FromSource::Sample { percent, .. } = source {
                    let percent = self.reader.read(percent, names);
                    self.push(" TABLESAMPLE bernoulli (");
                    self.node(&percent, false);
                    self.push(")");
                }
            }
            FromSource::Query { lateral, query } => {
                self.push(if lateral { "LATERAL (" } else { "(" });
                self.query(query, names, &[], true);
                self.push(")");
                if !relation.shown.is_empty() {
                    self.push(&format!(" {}", quote_ident(&relation.shown)));
                }
                if alias.is_some_and(|alias| !alias.columns.is_empty()) {
                    self.column_list(relation.columns.as_deref());
                }
            }
            FromSource::Functions { calls, own, ordinality } => {
                self.functions(&calls, own, names);
                self.function_alias(ordinality, alias, relation);
            }
            FromSource::Unnest { items, ordinality } => {
                let items: Vec<_> = items.iter().map(|item| self.reader.value(item, names)).collect();
                if items.iter().any(ShownNode::has_columns) {
                    self.push("LATERAL ");
                }
                self.push("unnest(");
                self.commas(items);
                self.push(")");
                self.function_alias(ordinality, alias, relation);
            }
            FromSource::Other => self.push(&factor.to_string()),
        }
    }

    fn relation(&mut self, name: &ObjectName, names: &ShownNames<'_>) {
        match parts(name) {
            (Some(schema), own) if names.common(&own).is_some() => {
                self.push(&format!("{}.{}", quote_ident(&schema), quote_ident(&own)));
            }
            (Some(schema), own) => {
                let shown = self.reader.catalog.shown_name(&schema, &own);
                self.push(&shown);
            }
            (None, own) => self.push(&quote_ident(&own)),
        }
    }

    /// What a relation is called in the query, and its columns where they have other names there.
    fn table_aliases(&mut self, name: &ObjectName, alias: Option<&TableAlias>, relation: &ShownRelation) {
        let list = match alias.is_some_and(|alias| !alias.columns.is_empty()) {
            true => relation.columns.clone(),
            false => self.reader.former_columns(name, relation),
        };
        if alias.is_some() || list.is_some() || relation.shown != parts(name).1 {
            self.push(&format!(" {}", quote_ident(&relation.shown)));
        }
        self.column_list(list.as_deref());
    }

    fn functions(
        &mut self,
        calls: &[&Function],
        own: Option<(&ObjectName, &[FunctionArg])>,
        names: &ShownNames<'_>,
    ) {
        let arguments =
            |args: &[FunctionArg]| -> Vec<Expr> { args.iter().filter_map(expression).cloned().collect() };
        match own {
            Some((name, args)) => {
                let given = arguments(args);
                let nodes: Vec<_> = given.iter().map(|argument| self.reader.read(argument, names)).collect();
                if nodes.iter().any(ShownNode::has_columns) {
                    self.push("LATERAL ");
                }
                let call = self.reader.plain_call(&parts(name).1, nodes);
                self.node(&call, true);
            }
            None => {
                self.push("ROWS FROM(");
                for (position, call) in calls.iter().enumerate() {
                    if position > 0 {
                        self.push(", ");
                    }
                    let FunctionArguments::List(list) = &call.args else { continue };
                    let given = arguments(&list.args);
                    let nodes = given.iter().map(|argument| self.reader.read(argument, names)).collect();
                    let call = self.reader.plain_call(&parts(&call.name).1, nodes);
                    self.node(&call, true);
                }
                self.push(")");
            }
        }
    }

    fn function_alias(&mut self, ordinality: bool, alias: Option<&TableAlias>, relation: &ShownRelation) {
        if ordinality {
            self.push(" WITH ORDINALITY");
        }
        if !relation.shown.is_empty() {
            self.push(&format!(" {}", quote_ident(&relation.shown)));
        }
        let typed = alias.filter(|alias| alias.columns.iter().any(|column| column.data_type.is_some()));
        match typed {
            None => self.column_list(relation.columns.as_deref()),
            Some(alias) => {
                let columns = alias.columns.iter().map(|column| {
                    let name = quote_ident(&folded(&column.name));
                    let data_type =
                        column.data_type.as_ref().map(|data_type| self.reader.named_type(data_type).text);
                    format!("{name} {}", data_type.unwrap_or_default())
                });
                let columns = columns.collect::<Vec<_>>().join(", ");
                self.push(&format!("({columns})"));
            }
        }
    }

    fn column_list(&mut self, columns: Option<&[ShownColumn]>) {
        let Some(columns) = columns else { return };
        let columns = columns.iter().map(|column| quote_ident(&column.shown)).collect::<Vec<_>>().join(", ");
        self.push(&format!("({columns})"));
    }

    pub(super) fn commas(&mut self, nodes: Vec<ShownNode<'_>>) {
        for part in comma_separated(nodes, PartStyle::Argument) {
            match part {
                ShownPart::Text(text) => self.push(&text),
                ShownPart::Node(node, _) => self.node(&node, true),
            }
        }
    }
}

/// The columns that a natural join has merged, as they were before.
fn natural_before_merging(names: &ShownNames<'_>, first: usize, second: usize) -> Option<Vec<String>> {
    let right = names.relations.get(second)?;
    let left = &names.relations[first..second];
    let has_it = |relation: &ShownRelation, name: &str| {
        relation.columns.as_ref().is_some_and(|all| all.iter().any(|column| column.name == name))
    };
    if left.iter().chain([right]).any(|relation| relation.columns.is_none()) {
        return None;
    }
    let mut columns: Vec<String> = Vec::new();
    for column in left.iter().flat_map(|relation| relation.columns.iter().flatten()) {
        if has_it(right, &column.name) && !columns.contains(&column.name) {
            columns.push(column.name.clone());
        }
    }
    Some(columns)
}
