//! Tables of one name in several schemas, told apart.
//!
//! For DataFusion a name without a schema fits every schema: in `FROM t, s.t` it takes columns of `s.t` for those of `t`. So a name
//! gets the schema in which it is found where another table of the same FROM has the name and a schema.

use super::planner::TableSources;
use crate::name::folded;
use crate::visit::{Work, visit};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement, TableFactor, TableWithJoins,
};

/// The query with such names qualified.
pub(super) fn told_apart(mut query: Statement, tables: &dyn TableSources) -> Statement {
    let mut named = Named(Vec::new());
    visit(&mut query, &mut named);
    visit(&mut query, &mut Qualified { tables, named: named.0 });
    query
}

/// Names of common table expressions.
struct Named(Vec<String>);

impl Work for Named {
    fn query(&mut self, query: &mut Query) {
        self.0.extend(query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)));
    }
}

struct Qualified<'a> {
    tables: &'a dyn TableSources,
    named: Vec<String>,
}

impl Work for Qualified<'_> {
    fn query(&mut self, query: &mut Query) {
        self.qualify(&mut query.body);
    }
}

impl Qualified<'_> {
    fn qualify(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.qualify_from(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.qualify(left);
                self.qualify(right);
            }
            _ => {}
        }
    }

    fn qualify_from(&self, select: &mut Select) {
        let mut names: Vec<&mut ObjectName> = Vec::new();
        select.from.iter_mut().for_each(|item| collect(item, &mut names));
        let last = |name: &ObjectName| name.0.last().and_then(ObjectNamePart::as_ident).map(folded);
        let qualified: Vec<String> =
            names.iter().filter(|name| name.0.len() > 1).filter_map(|name| last(name)).collect();
        for name in names.into_iter().filter(|name| name.0.len() == 1) {
            let Some(own) = last(name).filter(|own| qualified.contains(own) && !self.named.contains(own))
            else {
                continue;
            };
            if let Some(schema) = self.tables.schema_of(&own) {
                name.0.insert(0, ObjectNamePart::Identifier(Ident::with_quote('"', schema)));
            }
        }
    }
}

/// Appends the names of tables that have no other.
fn collect<'q>(item: &'q mut TableWithJoins, names: &mut Vec<&'q mut ObjectName>) {
    let factors =
        std::iter::once(&mut item.relation).chain(item.joins.iter_mut().map(|join| &mut join.relation));
    for factor in factors {
        match factor {
            TableFactor::Table { name, alias: None, args: None, .. } => names.push(name),
            TableFactor::NestedJoin { table_with_joins, .. } => collect(table_with_joins, names),
            _ => {}
        }
    }
}
