//! Queries as text, laid out like PostgreSQL's.

use super::kinds;
use super::names::{FoundColumn, ShownColumn, ShownNames};
use super::node::ShownNode;
use super::reader::{DefinitionReader, unnested};
use super::write::{CLAUSE, DefinitionWriter, ITEM};
use crate::column_name::column_name;
use crate::name::folded;
use crate::rewrite::TIES;
use crate::system::quoting::quote_ident;
use ankerdb_engine::DataType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    LimitClause, NamedWindowExpr, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, Value, With,
};

/// What a column of a query's result is to be: its name, and its type where constants are to take it.
#[derive(Clone, Default)]
pub(super) struct TargetColumn {
    pub(super) name: Option<String>,
    pub(super) data_type: Option<DataType>,
}

/// What a key means: a name or a number alone may stand for an item of the select list. In groups, columns of relations come first.
pub(super) fn meant<'a>(
    expr: &'a Expr,
    items: &[(String, &'a Expr)],
    groups: Option<&ShownNames<'_>>,
) -> &'a Expr {
    let found = match unnested(expr) {
        Expr::Identifier(name) => {
            let name = folded(name);
            let is_column = groups.is_some_and(|names| names.column(&name).is_some());
            items.iter().find(|(known, _)| !is_column && *known == name)
        }
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                number.parse::<usize>().ok().and_then(|number| items.get(number.wrapping_sub(1)))
            }
            _ => None,
        },
        _ => None,
    };
    found.map_or(expr, |(_, item)| item)
}

/// The items of a select list with their names.
fn items(select: &Select) -> Vec<(String, &Expr)> {
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Some((column_name(expr), expr)),
        SelectItem::ExprWithAlias { expr, alias } => Some((folded(alias), expr)),
        _ => None,
    });
    items.collect()
}

/// The query without parentheses that say nothing.
fn plain(query: &Query) -> &Query {
    match &*query.body {
        SetExpr::Query(inner)
            if query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() =>
        {
            plain(inner)
        }
        _ => query,
    }
}

impl DefinitionReader<'_> {
    /// The columns that a query gives; `None` where they cannot be told.
    pub(super) fn columns_of_query<'a>(
        &self,
        query: &'a Query,
        outer: &'a ShownNames<'a>,
    ) -> Option<Vec<ShownColumn>> {
        let with = self.with_names(query.with.as_ref(), outer);
        self.columns_of_body(&query.body, &with)
    }

    fn columns_of_body<'a>(&self, body: &'a SetExpr, outer: &'a ShownNames<'a>) -> Option<Vec<ShownColumn>> {
        match body {
            SetExpr::Select(select) => {
                let names = self.names_of_select(select, outer);
                self.columns_of_select(select, &names)
            }
            SetExpr::Query(query) => self.columns_of_query(query, outer),
            SetExpr::SetOperation { left, right, .. } => {
                let mut columns = self.columns_of_body(left, outer)?;
                if let Some(right) = self.columns_of_body(right, outer) {
                    for (column, other) in columns.iter_mut().zip(right) {
                        column.data_type = kinds::common([column.data_type, other.data_type]);
                    }
                }
                Some(columns)
            }
            SetExpr::Values(values) => {
                let width = values.rows.first()?.content.len();
                let column = |position: usize| {
                    let types = values.rows.iter().filter_map(|row| row.content.get(position));
                    let data_type = kinds::common(types.map(|value| self.read(value, outer).data_type));
                    ShownColumn::new(&format!("column{}", position + 1), data_type)
                };
                Some((0..width).map(column).collect())
            }
            _ => None,
        }
    }

    fn columns_of_select<'a>(
        &self,
        select: &'a Select,
        names: &'a ShownNames<'a>,
    ) -> Option<Vec<ShownColumn>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    columns.push(ShownColumn::new(
                        &self.item_name(expr, names),
                        self.read(expr, names).data_type,
                    ));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push(ShownColumn::new(&folded(alias), self.read(expr, names).data_type));
                }
                SelectItem::Wildcard(_) => {
                    for relation in &names.relations {
                        columns.extend(relation.columns.as_ref()?.iter().cloned());
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let name = folded(name.0.last()?.as_ident()?);
                    columns.extend(names.relation(None, &name)?.0.columns.as_ref()?.iter().cloned());
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    fn item_name(&self, expr: &Expr, names: &ShownNames<'_>) -> String {
        match self.found_column(expr, names) {
            Some((name, _)) => name,
            None => column_name(expr),
        }
    }

    /// The name by which a query knows the column that an expression is, and what is shown of it.
    pub(super) fn found_column(&self, expr: &Expr, names: &ShownNames<'_>) -> Option<(String, FoundColumn)> {
        match unnested(expr) {
            Expr::Identifier(name) => Some((folded(name), names.column(&folded(name))?)),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(folded).collect();
                let found = match parts.as_slice() {
                    [relation, column] => names.of_relation(None, relation, column),
                    [.., schema, relation, column] => names.of_relation(Some(schema), relation, column),
                    _ => None,
                };
                Some((parts.last()?.clone(), found?))
            }
            _ => None,
        }
    }

    /// What WITH gives names to.
    fn with_names<'a>(&self, with: Option<&'a With>, outer: &'a ShownNames<'a>) -> ShownNames<'a> {
        let mut names = ShownNames::within(outer);
        for table in with.into_iter().flat_map(|with| &with.cte_tables) {
            let mut columns = self.columns_of_query(&table.query, &names);
            if let Some(columns) = &mut columns {
                for (column, alias) in columns.iter_mut().zip(&table.alias.columns) {
                    *column = ShownColumn::new(&folded(&alias.name), column.data_type);
                }
            }
            names.named.push((folded(&table.alias.name), columns));
        }
        names
    }
}

impl DefinitionWriter<'_> {
    /// A query whose columns are to be these. Names of columns that nobody sees are not shown.
    pub(super) fn query(
        &mut self,
        query: &Query,
        outer: &ShownNames<'_>,
        columns: &[TargetColumn],
        names_are_seen: bool,
    ) {
        let indent = self.indent;
        let query = plain(query);
        let with = self.reader.with_names(query.with.as_ref(), outer);
        let select = match &*query.body {
            SetExpr::Select(select) => Some(select),
            _ => None,
        };
        let names = select.map(|select| self.reader.names_of_select(select, &with));
        let names = names.as_ref().unwrap_or(&with);
        if let Some(clause) = &query.with {
            self.with(clause, names);
        }
        match select {
            Some(select) => self.select(select, names, columns, names_are_seen),
            None => {
                let typed = self.typed(&query.body, names, columns);
                self.body(&query.body, names, &typed, names_are_seen);
            }
        }
        self.clauses_behind(query, select.map(|select| &**select), names);
        self.indent = indent;
    }

    /// The columns with the types that the sides of a set operation have in common.
    fn typed(&self, body: &SetExpr, names: &ShownNames<'_>, columns: &[TargetColumn]) -> Vec<TargetColumn> {
        let known = self.reader.columns_of_body(body, names).unwrap_or_default();
        let width = known.len().max(columns.len());
        let is_values = matches!(body, SetExpr::Values(_));
        let column = |position: usize| {
            let given = columns.get(position).cloned().unwrap_or_default();
            let known = known.get(position);
            TargetColumn {
                name: given.name.or_else(|| known.map(|known| known.name.clone()).filter(|_| is_values)),
                data_type: given.data_type.or_else(|| known.and_then(|known| known.data_type)),
            }
        };
        (0..width).map(column).collect()
    }

    fn with(&mut self, with: &With, names: &ShownNames<'_>) {
        self.indent += CLAUSE;
        self.push(if with.recursive { " WITH RECURSIVE " } else { " WITH " });
        for (position, table) in with.cte_tables.iter().enumerate() {
            if position > 0 {
                self.push(", ");
            }
            self.push(&quote_ident(&folded(&table.alias.name)));
            if !table.alias.columns.is_empty() {
                let columns = table.alias.columns.iter().map(|column| quote_ident(&folded(&column.name)));
                let columns = columns.collect::<Vec<_>>().join(", ");
                self.push(&format!("({columns})"));
            }
            self.push(" AS ");
            if let Some(materialized) = &table.materialized {
                self.push(&format!("{materialized} "));
            }
            self.push("(");
            self.line("", 0, 0, 0);
            self.query(&table.query, names, &[], true);
            self.line("", 0, 0, 0);
            self.push(")");
        }
        self.indent -= CLAUSE;
        self.line("", 0, 0, 0);
    }

    fn body(
        &mut self,
        body: &SetExpr,
        names: &ShownNames<'_>,
        columns: &[TargetColumn],
        names_are_seen: bool,
    ) {
        match body {
            SetExpr::Select(select) => {
                let names = self.reader.names_of_select(select, names);
                let indent = self.indent;
                self.select(select, &names, columns, names_are_seen);
                self.indent = indent;
            }
            SetExpr::Query(query) if is_bare(query) => self.body(&query.body, names, columns, names_are_seen),
            SetExpr::Query(query) => {
                self.push("(");
                self.query(query, names, columns, names_are_seen);
                self.push(")");
            }
            SetExpr::Values(values) => {
                self.indent += CLAUSE;
                self.push(" VALUES ");
                for (position, row) in values.rows.iter().enumerate() {
                    self.push(if position > 0 { ", (" } else { "(" });
                    for (place, value) in row.content.iter().enumerate() {
                        if place > 0 {
                            self.push(",");
                        }
                        let wanted =
                            columns.get(place).and_then(|column| column.data_type).or(Some(DataType::Text));
                        let node = self.reader.read(value, names);
                        let node = if node.is_unknown() { kinds::as_type(node, wanted) } else { node };
                        self.node(&node, false);
                    }
                    self.push(")");
                }
                self.indent -= CLAUSE;
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.set_operation((left, right), (*op, *set_quantifier), names, (columns, names_are_seen));
            }
            other => self.push(&other.to_string()),
        }
    }

    fn set_operation(
        &mut self,
        (left, right): (&SetExpr, &SetExpr),
        (operator, quantifier): (SetOperator, SetQuantifier),
        names: &ShownNames<'_>,
        (columns, names_are_seen): (&[TargetColumn], bool),
    ) {
        let is_all = |quantifier| quantifier == SetQuantifier::All;
        let encloses = match operation(left) {
            Some((other, of)) => other != operator || is_all(of) != is_all(quantifier),
            None => false,
        };
        if encloses {
            self.push("(");
            self.line("", CLAUSE, 0, 0);
        }
        self.body(left, names, columns, names_are_seen);
        match encloses {
            true => self.line(") ", -CLAUSE, 0, 0),
            false => self.line("", 0, 0, 0),
        }
        self.push(&operator.to_string());
        self.push(if is_all(quantifier) { " ALL " } else { " " });
        let encloses = operation(right).is_some();
        if encloses {
            self.push("(");
        }
        self.line("", if encloses { CLAUSE } else { 0 }, 0, 0);
        self.body(right, names, columns, false);
        if encloses {
            self.indent -= CLAUSE;
            self.line(")", 0, 0, 0);
        }
    }

    fn select(
        &mut self,
        select: &Select,
        names: &ShownNames<'_>,
        columns: &[TargetColumn],
        names_are_seen: bool,
    ) {
        self.indent += CLAUSE;
        self.push(" SELECT");
        let items = items(select);
        match &select.distinct {
            Some(Distinct::Distinct) => self.push(" DISTINCT"),
            Some(Distinct::On(keys)) => {
                self.push(" DISTINCT ON (");
                self.keys(keys.iter().map(|key| meant(key, &items, None)), names);
                self.push(")");
            }
            Some(Distinct::All) | None => {}
        }
        self.list(select, names, columns, names_are_seen);
        self.from(select, names);
        if let Some(condition) = &select.selection {
            self.line(" WHERE ", -CLAUSE, CLAUSE, 1);
            let node = self.reader.read(condition, names);
            self.node(&node, false);
        }
        self.groups(select, &items, names);
        let mut next = " WINDOW ";
        for window in &select.named_window {
            match next {
                " WINDOW " => self.line(next, -CLAUSE, CLAUSE, 1),
                next => self.push(next),
            }
            next = ", ";
            self.push(&format!("{} AS ", quote_ident(&folded(&window.0))));
            match &window.1 {
                NamedWindowExpr::NamedWindow(other) => {
                    self.push(&format!("({})", quote_ident(&folded(other))))
                }
                NamedWindowExpr::WindowSpec(spec) => {
                    let parts = self.reader.window(spec, names);
                    self.parts(&parts, &ShownNode::word("", None));
                }
            }
        }
    }

    fn keys<'a>(&mut self, keys: impl Iterator<Item = &'a Expr>, names: &ShownNames<'_>) {
        for (position, key) in keys.enumerate() {
            if position > 0 {
                self.push(", ");
            }
            let node = self.reader.value(key, names);
            self.key(&node);
        }
    }

    fn list(
        &mut self,
        select: &Select,
        names: &ShownNames<'_>,
        columns: &[TargetColumn],
        names_are_seen: bool,
    ) {
        let mut was_long = false;
        for (position, item) in select.projection.iter().enumerate() {
            let target = columns.get(position).cloned().unwrap_or_default();
            let shown = self.apart(|writer| writer.item(item, names, &target, names_are_seen));
            self.push(if position > 0 { ", " } else { " " });
            if shown.starts_with('\n') {
                self.text.truncate(self.text.trim_end_matches(' ').len());
            } else if self.style.wrap >= 0 && position > 0 && (was_long || self.is_full(&shown)) {
                self.line("", -CLAUSE, CLAUSE, ITEM);
            }
            was_long = shown.trim_start_matches('\n').contains('\n');
            self.push(&shown);
        }
    }

    /// Whether the line has no room for an item.
    fn is_full(&self, item: &str) -> bool {
        let line = self.text.rsplit('\n').next().unwrap_or_default();
        line.len() + item.len() > usize::try_from(self.style.wrap).unwrap_or(0)
    }

    fn item(
        &mut self,
        item: &SelectItem,
        names: &ShownNames<'_>,
        target: &TargetColumn,
        names_are_seen: bool,
    ) {
        let (expr, own) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, self.reader.item_name(expr, names)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, folded(alias)),
            other => return self.push(&other.to_string()),
        };
        let node = self.reader.read(expr, names);
        let node = match node.is_unknown() {
            true => kinds::as_type(node, target.data_type.or(Some(DataType::Text))),
            false => node,
        };
        self.node(&node, true);
        let by_itself =
            match self.reader.found_column(expr, names).or_else(|| self.reader.merged_column(expr, names)) {
                Some((_, column)) => Some(column.name),
                None if names_are_seen => None,
                None => Some("?column?".to_owned()),
            };
        let name = target.name.clone().unwrap_or(own);
        if by_itself.as_ref() != Some(&name) {
            self.push(&format!(" AS {}", quote_ident(&name)));
        }
    }

    fn from(&mut self, select: &Select, names: &ShownNames<'_>) {
        let mut next = 0;
        for (position, item) in select.from.iter().enumerate() {
            if position == 0 {
                self.line(" FROM ", -CLAUSE, CLAUSE, 2);
                self.item_of_from(item, names, &mut next);
                continue;
            }
            self.push(", ");
            let shown = self.apart(|writer| writer.item_of_from(item, names, &mut next));
            if self.style.wrap >= 0 && !shown.starts_with('\n') && self.is_full(&shown) {
                self.line("", -CLAUSE, CLAUSE, ITEM);
            }
            self.push(&shown);
        }
    }

    fn groups(&mut self, select: &Select, items: &[(String, &Expr)], names: &ShownNames<'_>) {
        let having = select.having.as_ref().map(|having| one_group(having));
        let keys = match &select.group_by {
            GroupByExpr::Expressions(keys, _) => keys.as_slice(),
            GroupByExpr::All(_) => &[],
        };
        if !keys.is_empty() || having == Some(None) {
            self.line(" GROUP BY ", -CLAUSE, CLAUSE, 1);
            if keys.is_empty() {
                self.push("()");
            }
            for (position, key) in keys.iter().enumerate() {
                if position > 0 {
                    self.push(", ");
                }
                self.group(key, items, names, true);
            }
        }
        if let Some(Some(having)) = having {
            self.line(" HAVING ", -CLAUSE, CLAUSE, 0);
            let node = self.reader.read(having, names);
            self.node(&node, false);
        }
    }

    /// A key of groups, or sets of such. A set of one key has no parentheses where `is_short`.
    fn group(&mut self, key: &Expr, items: &[(String, &Expr)], names: &ShownNames<'_>, is_short: bool) {
        let (word, sets, is_short) = match key {
            Expr::Rollup(sets) => ("ROLLUP(", sets, true),
            Expr::Cube(sets) => ("CUBE(", sets, true),
            Expr::GroupingSets(sets) => ("GROUPING SETS (", sets, false),
            Expr::Tuple(keys) => return self.set(keys, items, names, is_short),
            key => {
                let node = self.reader.value(meant(key, items, Some(names)), names);
                return self.key(&node);
            }
        };
        self.push(word);
        for (position, set) in sets.iter().enumerate() {
            if position > 0 {
                self.push(", ");
            }
            match set.as_slice() {
                [one @ (Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_))] => {
                    self.group(one, items, names, is_short)
                }
                set => self.set(set, items, names, is_short),
            }
        }
        self.push(")");
    }

    fn set(&mut self, keys: &[Expr], items: &[(String, &Expr)], names: &ShownNames<'_>, is_short: bool) {
        let encloses = !is_short || keys.len() != 1;
        if encloses {
            self.push("(");
        }
        for (position, key) in keys.iter().enumerate() {
            if position > 0 {
                self.push(", ");
            }
            self.group(key, items, names, true);
        }
        if encloses {
            self.push(")");
        }
    }

    /// ORDER BY, OFFSET and LIMIT.
    fn clauses_behind(&mut self, query: &Query, select: Option<&Select>, names: &ShownNames<'_>) {
        if let Some(order) = &query.order_by
            && let OrderByKind::Expressions(keys) = &order.kind
        {
            self.line(" ORDER BY ", -CLAUSE, CLAUSE, 1);
            match select {
                Some(select) => {
                    let parts = self.reader.order(keys, &items(select), names);
                    self.parts(&parts, &ShownNode::word("", None));
                }
                None => self.order_of_set(query, keys, names),
            }
        }
        let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause else { return };
        if let Some(offset) = offset {
            self.line(" OFFSET ", -CLAUSE, CLAUSE, 0);
            let node = self.reader.read(&offset.value, names);
            self.node(&node, false);
        }
        match limit {
            None => {}
            Some(limit) => match with_ties(limit) {
                Some(count) => {
                    self.line(" FETCH FIRST (", -CLAUSE, CLAUSE, 0);
                    let node = self.reader.read(count, names);
                    self.node(&node, false);
                    self.push(") ROWS WITH TIES");
                }
                None => {
                    self.line(" LIMIT ", -CLAUSE, CLAUSE, 0);
                    let node = self.reader.read(limit, names);
                    self.node(&node, false);
                }
            },
        }
    }

    /// The order of a set operation: its columns by their numbers.
    fn order_of_set(&mut self, query: &Query, keys: &[OrderByExpr], names: &ShownNames<'_>) {
        let columns = self.reader.columns_of_body(&query.body, names).unwrap_or_default();
        for (position, key) in keys.iter().enumerate() {
            if position > 0 {
                self.push(", ");
            }
            let number = match unnested(&key.expr) {
                Expr::Identifier(name) => columns.iter().position(|column| column.name == folded(name)),
                _ => None,
            };
            match number {
                Some(position) => self.push(&(position + 1).to_string()),
                None => self.push(&key.expr.to_string()),
            }
            self.push(super::calls::direction(key));
        }
    }
}

/// Whether a query in parentheses is its body alone.
fn is_bare(query: &Query) -> bool {
    query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none()
}

/// The set operation that a body is.
fn operation(body: &SetExpr) -> Option<(SetOperator, SetQuantifier)> {
    match body {
        SetExpr::SetOperation { op, set_quantifier, .. } => Some((*op, *set_quantifier)),
        SetExpr::Query(query) if is_bare(query) => operation(&query.body),
        _ => None,
    }
}

/// The condition that was written where one was added to say that there is one group; `None` if there was no other.
fn one_group(having: &Expr) -> Option<&Expr> {
    let is_added = |expr: &Expr| match expr {
        Expr::BinaryOp { left, op: BinaryOperator::GtEq, .. } => match &**left {
            Expr::Function(call) => {
                let name = call.name.0.last().and_then(|part| part.as_ident());
                name.is_some_and(|name| name.value == "count" && name.quote_style.is_some())
            }
            _ => false,
        },
        _ => false,
    };
    match unnested(having) {
        added if is_added(added) => None,
        Expr::BinaryOp { left, op: BinaryOperator::And, right } if is_added(left) => one_group(right),
        _ => Some(having),
    }
}

/// The count of a limit WITH TIES.
fn with_ties(limit: &Expr) -> Option<&Expr> {
    let Expr::Function(call) = limit else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let name = call.name.0.last().and_then(|part| part.as_ident())?;
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(count))] if name.value == TIES => Some(count),
        _ => None,
    }
}
