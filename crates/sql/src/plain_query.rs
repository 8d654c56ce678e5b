//! Queries that are made, not parsed.

use datafusion::sql::sqlparser::ast::{self, Expr, SelectItem};

/// `WITH with SELECT projection FROM from WHERE selection`
pub(crate) fn plain_query(
    with: Option<&ast::With>,
    projection: Vec<SelectItem>,
    from: Vec<ast::TableWithJoins>,
    selection: Option<Expr>,
) -> ast::Query {
    query_of(with, plain_select(projection, from, selection))
}

/// `WITH with select`
pub(crate) fn query_of(with: Option<&ast::With>, select: ast::Select) -> ast::Query {
    ast::Query {
        with: with.cloned(),
        body: Box::new(ast::SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `SELECT projection FROM from WHERE selection`
pub(crate) fn plain_select(
    projection: Vec<SelectItem>,
    from: Vec<ast::TableWithJoins>,
    selection: Option<Expr>,
) -> ast::Select {
    ast::Select {
        select_token: ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    }
}

/// `name(arguments)`
pub(crate) fn function_call(name: &str, arguments: Vec<Expr>) -> Expr {
    let unnamed = |argument| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument));
    Expr::Function(function(name, arguments.into_iter().map(unnamed).collect()))
}

/// `name(arguments)`
pub(crate) fn function(name: &str, args: Vec<ast::FunctionArg>) -> ast::Function {
    ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}
