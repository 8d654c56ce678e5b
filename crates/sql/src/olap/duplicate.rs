//! Names of columns in select lists, before a query is planned.
//!
//! PostgreSQL has no objection to `SELECT i, i`; DataFusion's plans want each column's name once. So columns that share a
//! name with another get an alias that no client can write: the name as it is to be seen, a zero byte, and the column's
//! position. [`visible`](super::names::visible) takes a name back to what a client reads.
//!
//! In the list of the query itself the first of such columns keeps its name, so that ORDER BY finds it. In the lists of
//! subqueries none does: a reference to such a column would be ambiguous. There every computed column also gets the name
//! that PostgreSQL gives it, which the queries around may use.

use super::names::HIDDEN;
use super::planner::TableSources;
use super::scope::schema_name;
use crate::column_name::column_name;
use crate::name::folded;
use crate::plain_query::plain_query;
use crate::visit::{Work, visit, visit_expressions};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins,
    Value, ValueWithSpan,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The text of every expression that contains a subquery.
const SUBQUERY: &str = "<subquery>";

/// The query with names that are unique in every select list.
pub(super) fn unique_names(query: &Statement, tables: &dyn TableSources) -> Statement {
    let mut query = query.clone();
    let mut relations = Relations { tables, columns: HashSet::new() };
    visit(&mut query, &mut relations);
    visit(&mut query, &mut Lists { columns: relations.columns, is_nested: false });
    query
}

/// Collects the columns of all tables that a query mentions: what a wildcard may stand for.
struct Relations<'a> {
    tables: &'a dyn TableSources,
    columns: HashSet<String>,
}

impl Work for Relations<'_> {
    fn relation(&mut self, relation: &ObjectName) {
        let name = relation.0.last().and_then(|part| part.as_ident()).map(folded);
        // What is no table may be a common table expression, or an error that the planner reports.
        let schema = schema_name(relation);
        if let Some(Ok(source)) = name.map(|name| self.tables.source(schema.as_deref(), &name)) {
            self.columns.extend(source.schema().fields().iter().map(|field| field.name().clone()));
        }
    }
}

/// Gives aliases.
struct Lists {
    columns: HashSet<String>,
    /// Whether the query itself has been visited: what follows are its parts.
    is_nested: bool,
}

impl Work for Lists {
    fn query(&mut self, query: &mut Query) {
        name_ordered(query, self.is_nested);
        name_places(query);
        self.name_apart(&mut query.body);
        if self.is_nested {
            leave_out_order(query);
        }
        self.is_nested = true;
    }
}

impl Lists {
    fn name_apart(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.name_columns_apart(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.name_apart(left);
                self.name_apart(right);
            }
            // Queries in parentheses are visited by themselves.
            _ => {}
        }
    }

    fn name_columns_apart(&self, select: &mut Select) {
        if self.is_nested {
            select.projection.iter_mut().for_each(name_computed);
        }
        let labels: Vec<Label> = select.projection.iter().map(label).collect();
        for (position, item) in select.projection.iter_mut().enumerate() {
            let own = &labels[position];
            let clashes = |(other, label): (usize, &Label)| {
                let is_kept = !self.is_nested && other > position && !label.is_wildcard();
                other != position && !is_kept && own.clashes(label, &self.columns, self.is_nested)
            };
            if labels.iter().enumerate().any(clashes) {
                hide(item, position);
            }
        }
    }
}

/// What a column of a select list is known by.
enum Label {
    Column {
        qualifier: Option<String>,
        name: String,
    },
    Alias(String),
    /// An expression, as text without the qualifiers of its columns.
    Computed(String),
    Wildcard {
        qualifier: Option<String>,
    },
    Other,
}

impl Label {
    fn is_wildcard(&self) -> bool {
        matches!(self, Label::Wildcard { .. })
    }

    /// Whether two columns may have the same name. `columns` are those that a wildcard may stand for; what is
    /// nested is looked at from outside, where a column's table does not show.
    fn clashes(&self, other: &Label, columns: &HashSet<String>, nested: bool) -> bool {
        use Label::{Alias, Column, Computed, Wildcard};
        let may_be_one = |left: &Option<String>, right: &Option<String>| match (left, right) {
            (Some(left), Some(right)) => left == right,
            _ => true,
        };
        match (self, other) {
            (Column { qualifier, name }, Column { qualifier: other_qualifier, name: other_name }) => {
                name == other_name && (nested || may_be_one(qualifier, other_qualifier))
            }
            (Column { qualifier, .. }, Wildcard { qualifier: other }) => may_be_one(qualifier, other),
            (Alias(name), Alias(other) | Column { name: other, .. }) => name == other,
            (Column { name, .. }, Alias(other)) => name == other,
            (Alias(name), Wildcard { .. }) => columns.contains(name),
            (Computed(text), Computed(other)) => text == other,
            // A column that is cast.
            (Computed(text), Column { name, .. }) | (Column { name, .. }, Computed(text)) => text == name,
            (Computed(text), Wildcard { .. }) => columns.contains(text),
            _ => false,
        }
    }
}

fn label(item: &SelectItem) -> Label {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
            Label::Column { qualifier: None, name: folded(name) }
        }
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
            let (name, qualifier) = parts.split_last().expect("an identifier has parts");
            Label::Column { qualifier: qualifier.last().map(folded), name: folded(name) }
        }
        SelectItem::UnnamedExpr(expression) => match only_subquery(expression) {
            // DataFusion gives it its column's name.
            Some(subquery) => Label::Alias(column_name(subquery)),
            None => Label::Computed(unqualified_text(expression)),
        },
        SelectItem::ExprWithAlias { alias, .. } => Label::Alias(folded(alias)),
        SelectItem::Wildcard(_) => Label::Wildcard { qualifier: None },
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Label::Wildcard { qualifier: name.0.last().and_then(|part| part.as_ident()).map(folded) }
        }
        SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => Label::Other,
    }
}

/// The subquery that the expression is, perhaps in a cast.
fn only_subquery(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::Subquery(_) => Some(expression),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => only_subquery(inner),
        _ => None,
    }
}

/// The text by which DataFusion names a column: without qualifiers and casts.
fn unqualified_text(expression: &Expr) -> String {
    struct Unqualified;
    impl Work for Unqualified {
        fn expression(&mut self, expression: &mut Expr) {
            match expression {
                Expr::CompoundIdentifier(parts) => {
                    if let Some(name) = parts.pop() {
                        *expression = Expr::Identifier(name);
                    }
                }
                Expr::Cast { expr, .. } | Expr::Nested(expr) => {
                    let inner = expr.as_ref().clone();
                    *expression = inner;
                }
                _ => {}
            }
        }
    }
    let mut expression = expression.clone();
    visit(&mut expression, &mut Unqualified);
    let text = expression.to_string().to_lowercase();
    // DataFusion's names do not tell one subquery from another.
    if text.contains("select ") { SUBQUERY.to_owned() } else { text }
}

/// Gives a computed column PostgreSQL's name.
fn name_computed(item: &mut SelectItem) {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {}
        SelectItem::UnnamedExpr(expression) => {
            let alias = Ident::with_quote('"', column_name(expression));
            *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias };
        }
        _ => {}
    }
}

/// Gives computed columns names of their own where the order asks for what is called so in FROM: `SELECT upper(name) AS name FROM t
/// ORDER BY t.name`, `SELECT -id AS id FROM t ORDER BY id + 0` (names within expressions are those of FROM). DataFusion would take the
/// one for the other. It calls a column that is cast as that column, so those have one wherever there is an order.
fn name_ordered(query: &mut Query, is_nested: bool) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    if select.distinct.is_some() {
        return;
    }
    let asked = asked_of_from(keys);
    let seen: Vec<Option<String>> = select.projection.iter().map(seen_name).collect();
    let is_asked = |item: &SelectItem, name: &Option<String>| match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            name.as_ref().is_some_and(|name| {
                asked.contains(name) && column_of(expression).is_none_or(|column| column != *name)
            })
        }
        _ => false,
    };
    let is_cast = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(expression) if !is_nested && is_cast_column(expression));
    let mut is_hidden: Vec<bool> = select
        .projection
        .iter()
        .zip(&seen)
        .map(|(item, name)| is_cast(item) || is_asked(item, name))
        .collect();
    if !is_hidden.contains(&true) || is_nested && seen.contains(&None) {
        return;
    }
    // Those that keep their names may share one.
    is_hidden.iter_mut().for_each(|is_hidden| *is_hidden |= is_nested);
    for (position, item) in select.projection.iter_mut().enumerate().filter(|(at, _)| is_hidden[*at]) {
        hide(item, position);
        let is_only = seen.iter().filter(|other| **other == seen[position]).count() == 1;
        let SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        for key in keys.iter_mut().filter(|_| is_only) {
            if let Expr::Identifier(name) = &key.expr
                && Some(folded(name)) == seen[position]
            {
                key.expr = Expr::Identifier(alias.clone());
            }
        }
    }
    if is_nested {
        rename(query, &seen.into_iter().flatten().collect::<Vec<_>>());
    }
}

/// The names of columns of FROM that keys of an order mention: those with a table, and those within expressions.
fn asked_of_from(keys: &[OrderByExpr]) -> HashSet<String> {
    let mut asked = HashSet::new();
    for key in keys.iter().filter(|key| !matches!(key.expr, Expr::Identifier(_))) {
        let _ = visit_expressions(&key.expr, |part| {
            asked.extend(column_of(part));
            ControlFlow::<()>::Continue(())
        });
    }
    asked
}

/// The column that the expression is.
fn column_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        _ => None,
    }
}

/// The query within one that gives its columns these names.
fn rename(query: &mut Query, names: &[String]) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let columns = select.projection.iter().zip(names).map(|(item, name)| {
        let inner = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => Ident::with_quote('"', name.clone()),
        };
        SelectItem::ExprWithAlias {
            expr: Expr::Identifier(inner),
            alias: Ident::with_quote('"', name.clone()),
        }
    });
    let columns = columns.collect();
    let with = query.with.take();
    let inner = std::mem::replace(query, plain_query(with.as_ref(), columns, Vec::new(), None));
    let alias = TableAlias {
        explicit: true,
        name: Ident::with_quote('"', format!("ordered{HIDDEN}")),
        columns: Vec::new(),
        at: None,
    };
    let relation =
        TableFactor::Derived { lateral: false, subquery: Box::new(inner), alias: Some(alias), sample: None };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    }
}

/// Names the computed columns of a grouped query that it orders by their places: in `SELECT i + 1, sum(g) ... GROUP BY i ORDER BY 1`
/// DataFusion looks for `i + 1` among the groups.
fn name_places(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by else { return };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    if !is_grouped || select.projection.iter().any(|item| label(item).is_wildcard()) {
        return;
    }
    for key in keys {
        let Some(position) = place(&key.expr) else { continue };
        let Some(item) = select.projection.get_mut(position) else { continue };
        let is_subquery =
            matches!(item, SelectItem::UnnamedExpr(expression) if only_subquery(expression).is_some());
        if is_subquery || matches!(label(item), Label::Computed(_)) {
            hide(item, position);
        }
        if let SelectItem::ExprWithAlias { alias, .. } = item
            && alias.value.contains(HIDDEN)
        {
            key.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// The position in the select list that a number of GROUP BY or ORDER BY stands for.
fn place(key: &Expr) -> Option<usize> {
    let Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) = key else { return None };
    place.parse::<usize>().ok()?.checked_sub(1)
}

/// Leaves out the order of a query in FROM that computes with a name which is a computed column's, too: there the name means the column of
/// FROM, and DataFusion would take the computed one. Without a limit the rows are the same.
fn leave_out_order(query: &mut Query) {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return;
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    // It says which rows are left.
    if matches!(select.distinct, Some(Distinct::On(_))) {
        return;
    }
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else { return };
    let computed = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if !matches!(expr, Expr::Identifier(name) if name == alias) => {
            Some(folded(alias))
        }
        _ => None,
    });
    let computed: HashSet<String> = computed.collect();
    let is_taken = |key: &Expr| {
        let is_whole = matches!(key, Expr::Identifier(_));
        let found = visit_expressions(key, |part| match part {
            Expr::Identifier(name) if computed.contains(&folded(name)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        !is_whole && found.is_break()
    };
    if keys.iter().any(|key| is_taken(&key.expr)) {
        query.order_by = None;
    }
}

/// What ORDER BY may call the column.
fn seen_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

fn is_cast_column(expression: &Expr) -> bool {
    match expression {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => {
            is_cast_column(expr)
                || matches!(expr.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                    && matches!(expression, Expr::Cast { .. })
        }
        _ => false,
    }
}

/// Gives the column a name that is its own.
fn hide(item: &mut SelectItem, position: usize) {
    let (expression, seen) = match item {
        SelectItem::UnnamedExpr(expression) => (expression.clone(), column_name(expression)),
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), folded(alias)),
        _ => return,
    };
    let alias = format!("{seen}{HIDDEN}{position}");
    *item = SelectItem::ExprWithAlias { expr: expression, alias: Ident::with_quote('"', alias) };
}
