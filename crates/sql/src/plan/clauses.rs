//! Refuses clauses that the parser takes and no planner reads: what stands in a statement is done, or is an error.
//!
//! The parser knows many dialects. Each kind of syntax tree here is taken apart field by field, without `..`, so that a new
//! version of the parser with a new clause does not compile before someone has decided about it. A clause that PostgreSQL
//! has and AnKerDB has not is 0A000; one of other dialects is a syntax error, as it is in PostgreSQL.
//!
//! Clauses that only say how something is stored or computed are passed over: MATERIALIZED, ONLY, `fillfactor`.

use crate::expression::{SessionFunction, library};
use crate::name::{folded, not_supported};
use crate::sample;
use crate::visit::{visit_relations, walk};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{
    self, CreateTableOptions, Expr, JoinOperator, Statement, TableConstraint, TableFactor, Visitor,
};
use std::ops::ControlFlow;

/// 0A000 or 42601 for a statement with clauses that would be ignored.
pub(super) fn check(statement: &Statement) -> Result<()> {
    match walk(statement, &mut Clauses) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether a query, or one within it, locks rows.
pub(crate) fn locks_rows(query: &ast::Query) -> bool {
    struct Locks;
    impl Visitor for Locks {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    walk(query, &mut Locks).is_break()
}

/// 0A000 if the query calls a function of the session which the OLAP path has not at hand: one that may wait, or that counts for how
/// often it is called.
pub(super) fn check_without_session(query: &ast::Query) -> Result<()> {
    struct Calls;
    impl Visitor for Calls {
        type Break = String;
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name =
                function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
            let arguments = match &function.args {
                ast::FunctionArguments::List(list) => list.args.len(),
                _ => return ControlFlow::Continue(()),
            };
            // Some are functions of the system, too.
            let is_ours = crate::system::function(&name).is_none()
                && SessionFunction::by_name(&name, arguments)
                    .is_some_and(|(function, ..)| !function.is_of_settings());
            match is_ours {
                true => ControlFlow::Break(name),
                false => ControlFlow::Continue(()),
            }
        }
    }
    match walk(query, &mut Calls) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(not_supported(&format!("the function {name} in such a query"))),
    }
}

struct Clauses;

impl Visitor for Clauses {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Error> {
        flow(match statement {
            Statement::Insert(insert) => insert_clauses(insert),
            Statement::Update(update) => update_clauses(update),
            Statement::Delete(delete) => delete_clauses(delete),
            Statement::CreateTable(create) => create_table(create),
            Statement::CreateIndex(create) => create_index(create),
            Statement::Truncate(truncate) => truncate_clauses(truncate),
            _ => Ok(()),
        })
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<Error> {
        flow(query_clauses(query))
    }

    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<Error> {
        flow(select_clauses(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        flow(table_factor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        flow(match expr {
            Expr::Function(function) => function_clauses(function),
            Expr::Cast { kind: ast::CastKind::TryCast, .. } => foreign(true, "TRY_CAST"),
            Expr::Cast { kind: ast::CastKind::SafeCast, .. } => foreign(true, "SAFE_CAST"),
            Expr::Cast { array: true, .. } => foreign(true, "ARRAY"),
            Expr::Cast { format: Some(_), .. } => foreign(true, "FORMAT"),
            _ => Ok(()),
        })
    }
}

fn flow(checked: Result<()>) -> ControlFlow<Error> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A syntax error if the clause is there: PostgreSQL does not have it.
fn foreign(is_there: bool, words: &str) -> Result<()> {
    if is_there {
        return Err(Error::new(SqlState::SyntaxError, format!("syntax error at or near \"{words}\"")));
    }
    Ok(())
}

/// 0A000 if the clause is there.
fn missing(is_there: bool, words: &str) -> Result<()> {
    if is_there { Err(not_supported(words)) } else { Ok(()) }
}

fn query_clauses(query: &ast::Query) -> Result<()> {
    let ast::Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        // Read by the planner of each path.
        locks: _,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    for cte in with.iter().filter(|with| with.recursive).flat_map(|with| &with.cte_tables) {
        recursive_clauses(cte)?;
    }
    for cte in with.iter().flat_map(|with| &with.cte_tables) {
        let ast::Cte { alias: _, query: _, from, materialized: _, closing_paren_token: _ } = cte;
        foreign(from.is_some(), "FROM")?;
    }
    if let Some(ast::OrderBy { kind, interpolate }) = order_by {
        foreign(interpolate.is_some(), "INTERPOLATE")?;
        match kind {
            ast::OrderByKind::All(_) => foreign(true, "ALL")?,
            ast::OrderByKind::Expressions(items) => {
                items.iter().try_for_each(order_clauses)?;
                items.iter().try_for_each(|item| constant_place(&item.expr, "ORDER BY"))?;
            }
        }
    }
    match limit_clause {
        Some(ast::LimitClause::LimitOffset { limit: _, offset: _, limit_by }) => {
            foreign(!limit_by.is_empty(), "BY")?;
        }
        Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
            return Err(Error::new(SqlState::SyntaxError, "LIMIT #,# syntax is not supported")
                .with_hint("Use separate LIMIT and OFFSET clauses."));
        }
        None => {}
    }
    // What is left of FETCH, which is a LIMIT as far as it can be.
    if let Some(ast::Fetch { with_ties, percent, quantity: _ }) = fetch {
        foreign(*percent, "PERCENT")?;
        if *with_ties && order_by.is_none() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(Error::new(SqlState::SyntaxError, message));
        }
        return Err(Error::new(SqlState::SyntaxError, "multiple LIMIT clauses not allowed"));
    }
    foreign(for_clause.is_some(), "FOR")?;
    foreign(settings.is_some(), "SETTINGS")?;
    foreign(format_clause.is_some(), "FORMAT")?;
    foreign(!pipe_operators.is_empty(), "|>")?;
    set_clauses(body)
}

fn set_clauses(body: &ast::SetExpr) -> Result<()> {
    match body {
        ast::SetExpr::SetOperation { left, right, op, set_quantifier } => {
            use ast::SetQuantifier as Quantifier;
            foreign(*op == ast::SetOperator::Minus, "MINUS")?;
            let by_name = matches!(
                set_quantifier,
                Quantifier::ByName | Quantifier::AllByName | Quantifier::DistinctByName
            );
            foreign(by_name, "BY")?;
            set_clauses(left)?;
            set_clauses(right)
        }
        ast::SetExpr::Values(ast::Values { explicit_row, value_keyword, rows: _ }) => {
            foreign(*explicit_row, "ROW")?;
            foreign(*value_keyword, "VALUE")
        }
        // Selects and queries are visited by themselves.
        _ => Ok(()),
    }
}

/// Constants in place of expressions are positions of columns, and no others mean anything.
///
/// # Errors
/// 42601, and 42P10 for a negative position.
fn constant_place(item: &Expr, clause: &str) -> Result<()> {
    let (item, is_negative) = match item {
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => (&**expr, true),
        item => (item, false),
    };
    let Expr::Value(value) = item else { return Ok(()) };
    let position = match &value.value {
        ast::Value::Placeholder(_) => return Ok(()),
        ast::Value::Number(number, _) => number.parse::<i32>().ok(),
        _ if is_negative => return Ok(()),
        _ => None,
    };
    match position {
        Some(_) if !is_negative => Ok(()),
        Some(position) => {
            let message = format!("{clause} position -{position} is not in select list");
            Err(Error::new(SqlState::InvalidColumnReference, message))
        }
        None => Err(Error::new(SqlState::SyntaxError, format!("non-integer constant in {clause}"))),
    }
}

/// 0A000 for what PostgreSQL has not for the whole of a recursion.
fn recursive_clauses(cte: &ast::Cte) -> Result<()> {
    let ast::Query { body, order_by, limit_clause, locks, .. } = &*cte.query;
    let (limit, offset) = match limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => (limit.is_some(), offset.is_some()),
        _ => (false, false),
    };
    let said = [
        (order_by.is_some(), "ORDER BY"),
        (offset, "OFFSET"),
        (limit, "LIMIT"),
        (!locks.is_empty(), "FOR UPDATE/SHARE"),
    ];
    let Some((_, clause)) = said.iter().find(|(is_there, _)| *is_there) else { return Ok(()) };
    let own = folded(&cte.alias.name);
    let found = visit_relations(body, |relation: &ast::ObjectName| match relation.0.as_slice() {
        [only] if only.as_ident().is_some_and(|name| folded(name) == own) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let message = format!("{clause} in a recursive query is not implemented");
            Err(Error::new(SqlState::FeatureNotSupported, message))
        }
    }
}

fn order_clauses(item: &ast::OrderByExpr) -> Result<()> {
    let ast::OrderByExpr { expr: _, options, with_fill } = item;
    let ast::OrderByOptions { asc: _, nulls_first: _ } = options;
    foreign(with_fill.is_some(), "WITH")
}

fn select_clauses(select: &ast::Select) -> Result<()> {
    let ast::Select {
        select_token: _,
        // Comments.
        optimizer_hints: _,
        distinct,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    foreign(select_modifiers.is_some(), "SELECT")?;
    foreign(top.is_some(), "TOP")?;
    foreign(exclude.is_some(), "EXCLUDE")?;
    missing(into.is_some(), "SELECT INTO")?;
    foreign(!lateral_views.is_empty(), "VIEW")?;
    foreign(prewhere.is_some(), "PREWHERE")?;
    foreign(!connect_by.is_empty(), "CONNECT")?;
    foreign(!cluster_by.is_empty(), "CLUSTER")?;
    foreign(!distribute_by.is_empty(), "DISTRIBUTE")?;
    foreign(!sort_by.is_empty(), "SORT")?;
    foreign(qualify.is_some(), "QUALIFY")?;
    foreign(value_table_mode.is_some(), "AS")?;
    foreign(*flavor != ast::SelectFlavor::Standard, "FROM")?;
    match group_by {
        ast::GroupByExpr::All(_) => foreign(true, "ALL")?,
        ast::GroupByExpr::Expressions(items, modifiers) => {
            foreign(!modifiers.is_empty(), "WITH")?;
            items.iter().try_for_each(|item| constant_place(item, "GROUP BY"))?;
        }
    }
    if let Some(ast::Distinct::On(items)) = distinct {
        items.iter().try_for_each(|item| constant_place(item, "DISTINCT ON"))?;
    }
    projection.iter().try_for_each(select_item)?;
    from.iter().flat_map(|from| &from.joins).try_for_each(join_clauses)
}

fn select_item(item: &ast::SelectItem) -> Result<()> {
    let options = match item {
        ast::SelectItem::Wildcard(options) | ast::SelectItem::QualifiedWildcard(_, options) => options,
        ast::SelectItem::ExprWithAliases { .. } => return foreign(true, "("),
        ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. } => return Ok(()),
    };
    let ast::WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    foreign(opt_ilike.is_some(), "ILIKE")?;
    foreign(opt_exclude.is_some(), "EXCLUDE")?;
    foreign(opt_except.is_some(), "EXCEPT")?;
    foreign(opt_replace.is_some(), "REPLACE")?;
    foreign(opt_rename.is_some(), "RENAME")?;
    foreign(opt_alias.is_some(), "AS")
}

fn join_clauses(join: &ast::Join) -> Result<()> {
    let ast::Join { relation: _, global, join_operator } = join;
    foreign(*global, "GLOBAL")?;
    match join_operator {
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::Left(_)
        | JoinOperator::LeftOuter(_)
        | JoinOperator::Right(_)
        | JoinOperator::RightOuter(_)
        | JoinOperator::FullOuter(_)
        | JoinOperator::CrossJoin(ast::JoinConstraint::None) => Ok(()),
        _ => foreign(true, "JOIN"),
    }
}

fn table_factor(factor: &TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table {
            name: _,
            alias,
            args,
            with_hints,
            version,
            with_ordinality: _,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            foreign(!with_hints.is_empty(), "WITH")?;
            foreign(version.is_some(), "FOR")?;
            foreign(!partitions.is_empty(), "PARTITION")?;
            foreign(json_path.is_some(), "[")?;
            sample.as_ref().map_or(Ok(()), sample::check)?;
            foreign(!index_hints.is_empty(), "INDEX")?;
            if args.is_some() { function_alias(alias.as_ref()) } else { alias_clauses(alias.as_ref()) }
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            foreign(sample.is_some(), "TABLESAMPLE")?;
            alias_clauses(alias.as_ref())
        }
        TableFactor::Function { lateral: _, name: _, args: _, with_ordinality: _, alias } => {
            function_alias(alias.as_ref())
        }
        TableFactor::UNNEST {
            alias,
            array_exprs: _,
            with_offset,
            with_offset_alias: _,
            with_ordinality: _,
        } => {
            foreign(*with_offset, "WITH")?;
            alias_clauses(alias.as_ref())
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            table_with_joins.joins.iter().try_for_each(join_clauses)?;
            missing(alias.is_some(), "an alias of a join")
        }
        TableFactor::TableFunction { .. } => foreign(true, "TABLE"),
        TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } => foreign(true, "JSON_TABLE"),
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => foreign(true, "PIVOT"),
        TableFactor::MatchRecognize { .. } => foreign(true, "MATCH_RECOGNIZE"),
        TableFactor::SemanticView { .. } => foreign(true, "SEMANTIC_VIEW"),
        TableFactor::XmlTable { .. } => missing(true, "XMLTABLE"),
    }
}

/// The alias of a function may define its columns.
fn function_alias(alias: Option<&ast::TableAlias>) -> Result<()> {
    let Some(ast::TableAlias { explicit: _, name: _, columns: _, at }) = alias else { return Ok(()) };
    foreign(at.is_some(), "AT")
}

fn alias_clauses(alias: Option<&ast::TableAlias>) -> Result<()> {
    let Some(ast::TableAlias { explicit: _, name: _, columns, at }) = alias else { return Ok(()) };
    let defined = columns.iter().find_map(|column| column.data_type.as_ref());
    foreign(defined.is_some(), &defined.map(ToString::to_string).unwrap_or_default())?;
    foreign(at.is_some(), "AT")
}

fn returning_clause(items: Option<&[ast::SelectItem]>) -> Result<()> {
    items.into_iter().flatten().try_for_each(|item| match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
            no_rows_of_calls(expr, "RETURNING")
        }
        _ => Ok(()),
    })
}

/// 0A000 for a call that gives rows, outside of subqueries.
fn no_rows_of_calls(expression: &Expr, place: &str) -> Result<()> {
    struct Calls(usize);
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, part: &Expr) -> ControlFlow<()> {
            let Expr::Function(function) = part else { return ControlFlow::Continue(()) };
            let name =
                function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
            let gives_rows =
                library::is_set(&name) || matches!(name.as_str(), "unnest" | "generate_subscripts");
            if gives_rows && self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    match walk(expression, &mut Calls(0)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let message = format!("set-returning functions are not allowed in {place}");
            Err(Error::new(SqlState::FeatureNotSupported, message))
        }
    }
}

fn function_clauses(function: &ast::Function) -> Result<()> {
    let ast::Function {
        name: _,
        uses_odbc_syntax,
        parameters,
        args,
        filter: _,
        null_treatment,
        over: _,
        // Read by the OLAP path; the OLTP path leaves such calls to it.
        within_group: _,
    } = function;
    foreign(*uses_odbc_syntax, "{")?;
    foreign(*parameters != ast::FunctionArguments::None, "(")?;
    foreign(null_treatment.is_some(), "NULLS")?;
    let ast::FunctionArguments::List(list) = args else { return Ok(()) };
    let ast::FunctionArgumentList { duplicate_treatment: _, args: _, clauses } = list;
    clauses.iter().try_for_each(|clause| match clause {
        ast::FunctionArgumentClause::OrderBy(items) => items.iter().try_for_each(order_clauses),
        other => foreign(true, &other.to_string()),
    })
}

fn insert_clauses(insert: &ast::Insert) -> Result<()> {
    let ast::Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into,
        table: _,
        table_alias: _,
        columns: _,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on: _,
        returning,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    returning_clause(returning.as_deref())?;
    foreign(or.is_some(), "OR")?;
    foreign(*ignore, "IGNORE")?;
    foreign(!*into, "INSERT")?;
    foreign(*overwrite, "OVERWRITE")?;
    foreign(!assignments.is_empty(), "SET")?;
    foreign(partitioned.is_some() || !after_columns.is_empty(), "PARTITION")?;
    foreign(*has_table_keyword, "TABLE")?;
    foreign(output.is_some(), "OUTPUT")?;
    foreign(*replace_into, "REPLACE")?;
    foreign(priority.is_some(), "PRIORITY")?;
    foreign(insert_alias.is_some(), "AS")?;
    foreign(settings.is_some(), "SETTINGS")?;
    foreign(format_clause.is_some(), "FORMAT")?;
    let is_multiple = multi_table_insert_type.is_some()
        || !multi_table_into_clauses.is_empty()
        || !multi_table_when_clauses.is_empty()
        || multi_table_else_clause.is_some();
    foreign(is_multiple, "ALL")
}

fn update_clauses(update: &ast::Update) -> Result<()> {
    let ast::Update {
        update_token: _,
        optimizer_hints: _,
        table: _,
        assignments,
        from: _,
        selection: _,
        returning,
        output,
        or,
        order_by,
        limit,
    } = update;
    assignments.iter().try_for_each(|assignment| no_rows_of_calls(&assignment.value, "UPDATE"))?;
    returning_clause(returning.as_deref())?;
    foreign(output.is_some(), "OUTPUT")?;
    foreign(or.is_some(), "OR")?;
    foreign(!order_by.is_empty(), "ORDER")?;
    foreign(limit.is_some(), "LIMIT")
}

fn delete_clauses(delete: &ast::Delete) -> Result<()> {
    let ast::Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using: _,
        selection: _,
        returning,
        output,
        order_by,
        limit,
    } = delete;
    returning_clause(returning.as_deref())?;
    foreign(!tables.is_empty(), "FROM")?;
    foreign(matches!(from, ast::FromTable::WithoutKeyword(_)), "DELETE")?;
    foreign(output.is_some(), "OUTPUT")?;
    foreign(!order_by.is_empty(), "ORDER")?;
    foreign(limit.is_some(), "LIMIT")
}

/// All that a CREATE TABLE says has to be in the table that is built of the parts that are read.
fn create_table(create: &ast::CreateTable) -> Result<()> {
    foreign(create.or_replace, "OR")?;
    foreign(create.global.is_some() && !create.temporary, "TABLE")?;
    if create.on_commit.is_some() && !create.temporary {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(SqlState::InvalidTableDefinition, message));
    }
    match &create.table_options {
        CreateTableOptions::None => {}
        CreateTableOptions::With(options) => options.iter().try_for_each(storage_option)?,
        other => foreign(true, &other.to_string())?,
    }
    let mut read = ast::helpers::stmt_create_table::CreateTableBuilder::new(create.name.clone()).build();
    read.if_not_exists = create.if_not_exists;
    read.columns = create.columns.clone();
    read.constraints = create.constraints.clone();
    read.table_options = create.table_options.clone();
    // Refused, or done, where definitions are planned.
    read.temporary = create.temporary;
    read.global = create.global;
    read.on_commit = create.on_commit;
    read.query = create.query.clone();
    read.like = create.like.clone();
    read.clone = create.clone.clone();
    read.inherits = create.inherits.clone();
    read.partition_by = create.partition_by.clone();
    read.partition_of = create.partition_of.clone();
    read.for_values = create.for_values.clone();
    missing(read != *create, "this form of CREATE TABLE")?;
    let of_columns = create.columns.iter().flat_map(|column| &column.options);
    of_columns.into_iter().try_for_each(|option| match &option.option {
        ast::ColumnOption::PrimaryKey(key) => primary_key(key),
        ast::ColumnOption::Unique(key) => unique_key(key),
        ast::ColumnOption::Check(check) => foreign(check.enforced.is_some(), "ENFORCED"),
        _ => Ok(()),
    })?;
    create.constraints.iter().try_for_each(|constraint| match constraint {
        TableConstraint::PrimaryKey(key) => primary_key(key),
        TableConstraint::Unique(key) => unique_key(key),
        TableConstraint::Check(check) => foreign(check.enforced.is_some(), "ENFORCED"),
        _ => Ok(()),
    })
}

/// Options that say how rows are stored change nothing here; others do not exist.
///
/// # Errors
/// `InvalidParameterValue` for those, and for a part of pages that is out of PostgreSQL's bounds.
pub(crate) fn storage_option(option: &ast::SqlOption) -> Result<()> {
    let name = match option {
        ast::SqlOption::KeyValue { key, value } => {
            check_fill_factor(key, value)?;
            folded(key)
        }
        ast::SqlOption::Ident(key) => folded(key),
        other => return foreign(true, &other.to_string()),
    };
    let known =
        ["fillfactor", "parallel_workers", "user_catalog_table", "vacuum_truncate", "toast_tuple_target"];
    if known.contains(&name.as_str()) || name.starts_with("autovacuum_") || name.starts_with("log_autovacuum")
    {
        return Ok(());
    }
    Err(Error::new(SqlState::InvalidParameterValue, format!("unrecognized parameter \"{name}\"")))
}

fn check_fill_factor(name: &ast::Ident, value: &ast::Expr) -> Result<()> {
    let text = value.to_string();
    match text.trim_matches('\'').parse::<i64>() {
        Ok(percent) if folded(name) == "fillfactor" && !(10..=100).contains(&percent) => {
            let message = format!("value {percent} out of bounds for option \"fillfactor\"");
            let detail = "Valid values are between \"10\" and \"100\".";
            Err(Error::new(SqlState::InvalidParameterValue, message).with_detail(detail))
        }
        _ => Ok(()),
    }
}

fn primary_key(key: &ast::PrimaryKeyConstraint) -> Result<()> {
    let ast::PrimaryKeyConstraint {
        name: _,
        index_name,
        index_type: _,
        columns: _,
        index_options: _,
        characteristics,
    } = key;
    foreign(index_name.is_some(), "KEY")?;
    deferred(characteristics.as_ref())
}

fn unique_key(key: &ast::UniqueConstraint) -> Result<()> {
    let ast::UniqueConstraint {
        name: _,
        index_name,
        index_type_display: _,
        index_type: _,
        columns: _,
        index_options: _,
        characteristics,
        nulls_distinct: _,
    } = key;
    foreign(index_name.is_some(), "KEY")?;
    deferred(characteristics.as_ref())
}

fn deferred(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return Ok(());
    };
    let is_deferred = *initially == Some(ast::DeferrableInitial::Deferred);
    missing(*deferrable == Some(true) || is_deferred, "a DEFERRABLE constraint")?;
    foreign(enforced.is_some(), "ENFORCED")
}

fn create_index(create: &ast::CreateIndex) -> Result<()> {
    let ast::CreateIndex {
        name: _,
        table_name: _,
        using: _,
        columns,
        unique: _,
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with: _,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    columns.iter().try_for_each(|column| order_clauses(&column.column))?;
    foreign(!alter_options.is_empty(), "ALTER")?;
    index_options.iter().try_for_each(|option| match option {
        ast::IndexOption::Using(_) => Ok(()),
        other => foreign(true, &other.to_string()),
    })
}

fn truncate_clauses(truncate: &ast::Truncate) -> Result<()> {
    let ast::Truncate {
        table_names: _,
        partitions,
        table: _,
        if_exists,
        identity: _,
        cascade: _,
        on_cluster,
    } = truncate;
    foreign(partitions.is_some(), "PARTITION")?;
    foreign(*if_exists, "IF")?;
    foreign(on_cluster.is_some(), "ON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(sql: &str) -> &'static str {
        let statement = match crate::parse::parse(sql) {
            Ok(mut statements) => statements.remove(0),
            Err(error) => return error.state().code(),
        };
        match check(statement.ast.as_deref().unwrap_or_else(|| panic!("{sql} is a statement"))) {
            Ok(()) => "00000",
            Err(error) => error.state().code(),
        }
    }

    #[test]
    fn clauses_of_postgresql_that_are_missing_are_named() {
        for sql in [
            "SELECT * FROM a TABLESAMPLE BERNOULLI (10) REPEATABLE (1)",
            "CREATE TABLE a (id int UNIQUE DEFERRABLE)",
            "CREATE TABLE a (id int, PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED)",
        ] {
            assert_eq!(state(sql), "0A000", "{sql}");
        }
    }

    #[test]
    fn clauses_of_other_dialects_are_syntax_errors() {
        for sql in [
            "SELECT TOP 1 * FROM a",
            "SELECT * FROM a LIMIT 1, 2",
            "SELECT a FROM b GROUP BY ALL",
            "SELECT a FROM b GROUP BY a WITH ROLLUP",
            "SELECT a FROM b QUALIFY row_number() OVER () = 1",
            "SELECT * EXCEPT (a) FROM b",
            "SELECT * FROM a LEFT SEMI JOIN b ON true",
            "SELECT first_value(a) IGNORE NULLS OVER () FROM b",
            "SELECT 1 FETCH FIRST 10 PERCENT ROWS ONLY",
            "SELECT 1 LIMIT 1 FETCH FIRST 1 ROW ONLY",
            "FROM a",
            "SELECT * FROM a FETCH FIRST 1 ROW WITH TIES",
            "SELECT 1 UNION BY NAME SELECT 2",
            "SELECT 1 MINUS SELECT 2",
            "INSERT OR REPLACE INTO a VALUES (1)",
            "INSERT a VALUES (1)",
            "INSERT INTO a SET b = 1",
            "REPLACE INTO a VALUES (1)",
            "UPDATE a SET b = 1 LIMIT 1",
            "DELETE a",
            "DELETE FROM a ORDER BY b LIMIT 1",
            "CREATE OR REPLACE TABLE a (id int)",
            "TRUNCATE TABLE IF EXISTS a",
        ] {
            assert_eq!(state(sql), "42601", "{sql}");
        }
    }

    #[test]
    fn clauses_that_change_nothing_pass() {
        for sql in [
            "SELECT a FROM b ORDER BY a DESC NULLS LAST LIMIT 1 OFFSET 2 FOR UPDATE",
            "SELECT a FROM b FETCH FIRST ROW ONLY",
            "WITH a AS MATERIALIZED (SELECT 1) TABLE a",
            "CREATE TABLE a (id int PRIMARY KEY NOT DEFERRABLE) WITH (fillfactor = 70)",
            "CREATE UNIQUE INDEX ON a (b DESC) WITH (fillfactor = 70)",
            "SELECT generate_series(1, 3) AS a, 'x'",
            "TRUNCATE ONLY a, b",
        ] {
            assert_eq!(state(sql), "00000", "{sql}");
        }
        assert_eq!(state("CREATE TABLE a (id int) WITH (oids = 1)"), "22023");
        assert_eq!(state("CREATE TABLE a (id int) ON COMMIT DROP"), "42P16");
    }
}
