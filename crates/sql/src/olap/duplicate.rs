//! Select lists with several columns of one name.
//!
//! PostgreSQL has no objection to `SELECT i, i`; DataFusion's plans want each column's name once. So before a query is
//! planned, columns that share a name with another get an alias that nobody can write: the name as it is to be seen, a
//! zero byte, and the column's position. [`visible`](super::names::visible) takes a name back to what a client reads.
//!
//! In the list of the query itself the first of such columns keeps its name, so that ORDER BY finds it. In the lists of
//! subqueries none does: a reference to such a column would be ambiguous.

use super::names::{HIDDEN, expression_name};
use super::planner::TableSources;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    VisitMut, VisitorMut, visit_expressions_mut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The text of every expression that contains a subquery.
const SUBQUERY: &str = "<subquery>";

/// The query with names that are unique in every select list.
pub(super) fn unique_names(query: &Statement, tables: &dyn TableSources) -> Statement {
    let mut query = query.clone();
    let mut relations = Relations { tables, columns: HashSet::new() };
    let ControlFlow::Continue(()) = query.visit(&mut relations);
    let mut lists = Lists { columns: relations.columns, is_nested: false };
    let ControlFlow::Continue(()) = query.visit(&mut lists);
    query
}

/// Collects the columns of all tables that a query mentions: what a wildcard may stand for.
struct Relations<'a> {
    tables: &'a dyn TableSources,
    columns: HashSet<String>,
}

impl VisitorMut for Relations<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Self::Break> {
        let name = relation.0.last().and_then(|part| part.as_ident()).map(folded);
        // What is no table may be a common table expression, or an error that the planner reports.
        if let Some(Ok(source)) = name.map(|name| self.tables.source(&name)) {
            self.columns.extend(source.schema().fields().iter().map(|field| field.name().clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Gives aliases.
struct Lists {
    columns: HashSet<String>,
    /// Whether the query itself has been visited: what follows are its parts.
    is_nested: bool,
}

impl VisitorMut for Lists {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.name_apart(&mut query.body);
        self.is_nested = true;
        ControlFlow::Continue(())
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
        let labels: Vec<Label> = select.projection.iter().map(label).collect();
        for (position, item) in select.projection.iter_mut().enumerate() {
            let own = &labels[position];
            let clashes = |(other, label): (usize, &Label)| {
                let is_kept = !self.is_nested && other > position && !label.is_wildcard();
                other != position && !is_kept && own.clashes(label, &self.columns)
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

    /// Whether two columns may have the same name. `columns` are those that a wildcard may stand for.
    fn clashes(&self, other: &Label, columns: &HashSet<String>) -> bool {
        use Label::{Alias, Column, Computed, Wildcard};
        let may_be_one = |left: &Option<String>, right: &Option<String>| match (left, right) {
            (Some(left), Some(right)) => left == right,
            _ => true,
        };
        match (self, other) {
            (Column { qualifier, name }, Column { qualifier: other_qualifier, name: other_name }) => {
                name == other_name && may_be_one(qualifier, other_qualifier)
            }
            (Column { qualifier, .. }, Wildcard { qualifier: other }) => may_be_one(qualifier, other),
            (Alias(name), Alias(other) | Column { name: other, .. }) => name == other,
            (Column { name, .. }, Alias(other)) => name == other,
            (Alias(name), Wildcard { .. }) => columns.contains(name),
            (Computed(text), Computed(other)) => text == other,
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
        SelectItem::UnnamedExpr(expression) => Label::Computed(unqualified_text(expression)),
        SelectItem::ExprWithAlias { alias, .. } => Label::Alias(folded(alias)),
        SelectItem::Wildcard(_) => Label::Wildcard { qualifier: None },
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            Label::Wildcard { qualifier: name.0.last().and_then(|part| part.as_ident()).map(folded) }
        }
        SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. } => Label::Other,
    }
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

fn unqualified_text(expression: &Expr) -> String {
    let mut expression = expression.clone();
    let ControlFlow::Continue(()) = visit_expressions_mut(&mut expression, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let Some(name) = parts.pop()
        {
            *part = Expr::Identifier(name);
        }
        ControlFlow::<std::convert::Infallible>::Continue(())
    });
    let text = expression.to_string().to_lowercase();
    // DataFusion's names do not tell one subquery from another.
    if text.contains("select ") { SUBQUERY.to_owned() } else { text }
}

/// Gives the column a name that is its own.
fn hide(item: &mut SelectItem, position: usize) {
    let (expression, seen) = match item {
        SelectItem::UnnamedExpr(expression) => {
            let seen = match &*expression {
                Expr::Identifier(name) => Some(folded(name)),
                Expr::CompoundIdentifier(parts) => parts.last().map(folded),
                other => expression_name(other, true),
            };
            (expression.clone(), seen)
        }
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(folded(alias))),
        _ => return,
    };
    let alias = format!("{}{HIDDEN}{position}", seen.unwrap_or_default());
    *item = SelectItem::ExprWithAlias { expr: expression, alias: Ident::with_quote('"', alias) };
}
