//! Calls of functions, aggregates and windows as they are shown.

use super::frames::{BoundText, FrameText, frame_of};
use super::kinds;
use super::names::{FoundColumn, ShownNames};
use super::node::{
    CallClass, PartStyle, ShownForm, ShownNode, ShownPart, SubqueryForm, SubqueryKind, comma_separated,
};
use super::reader::{DefinitionReader, call_form, list_form, raw, unnested};
use crate::aggregates::is_aggregate;
use crate::expression::{Binder, Expression, Parameters, Scope, Typed, function, library};
use crate::name::folded;
use crate::system::quoting::quote_ident;
use ankerdb_engine::{DataType, ListType, SystemType, Value};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, OrderByExpr, TrimWhereField, WindowSpec, WindowType,
};

/// Functions whose arguments are texts wherever they are constants.
const OF_TEXTS: [&str; 34] = [
    "ascii",
    "bit_length",
    "btrim",
    "char_length",
    "character_length",
    "concat",
    "concat_ws",
    "date_part",
    "date_trunc",
    "format",
    "initcap",
    "left",
    "length",
    "like_escape",
    "lower",
    "lpad",
    "ltrim",
    "md5",
    "octet_length",
    "regexp_match",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "substring",
    "translate",
    "upper",
];

/// What SQL calls by words of its own.
const WORDS: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "grouping"];

impl DefinitionReader<'_> {
    pub(super) fn call<'a>(&self, expr: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let of = |expr: &'a Expr| kinds::as_type(self.read(expr, names), Some(DataType::Text));
        let plain = |node| ShownPart::Node(node, PartStyle::Plain);
        let integer = |expr: &'a Expr| ShownPart::Node(self.read(expr, names), PartStyle::Plain);
        let words = |parts, data_type| ShownNode::new(ShownForm::Parts(CallClass::Words, parts), data_type);
        match expr {
            Expr::Function(function) => self.function(function, names),
            Expr::Trim { trim_where, trim_what, expr, .. } => {
                let side = match trim_where {
                    Some(TrimWhereField::Leading) => "TRIM(LEADING",
                    Some(TrimWhereField::Trailing) => "TRIM(TRAILING",
                    _ => "TRIM(BOTH",
                };
                let mut parts = vec![text(side)];
                if let Some(what) = trim_what {
                    parts.extend([text(" "), plain(of(what))]);
                }
                parts.extend([text(" FROM "), plain(of(expr)), text(")")]);
                words(parts, Some(DataType::Text))
            }
            Expr::Position { expr, r#in } => {
                let parts =
                    vec![text("POSITION(("), plain(of(expr)), text(") IN ("), plain(of(r#in)), text("))")];
                words(parts, Some(DataType::Integer))
            }
            Expr::Substring { expr, substring_from, substring_for, special: false, shorthand } => {
                let bounds = [substring_from, substring_for]
                    .into_iter()
                    .flatten()
                    .map(|bound| self.read(bound, names));
                if *shorthand {
                    return call_form(
                        "substr",
                        std::iter::once(of(expr)).chain(bounds).collect(),
                        Some(DataType::Text),
                    );
                }
                let mut parts = vec![text("SUBSTRING("), plain(of(expr))];
                for (word, bound) in [(" FROM ", substring_from), (" FOR ", substring_for)] {
                    if let Some(bound) = bound {
                        parts.extend([text(word), integer(bound)]);
                    }
                }
                parts.push(text(")"));
                words(parts, Some(DataType::Text))
            }
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let rest = [substring_from, substring_for]
                    .into_iter()
                    .flatten()
                    .map(|bound| self.read(bound, names));
                call_form("substring", std::iter::once(of(expr)).chain(rest).collect(), Some(DataType::Text))
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut parts =
                    vec![text("OVERLAY("), plain(of(expr)), text(" PLACING "), plain(of(overlay_what))];
                parts.extend([text(" FROM "), integer(overlay_from)]);
                if let Some(count) = overlay_for {
                    parts.extend([text(" FOR "), integer(count)]);
                }
                parts.push(text(")"));
                words(parts, Some(DataType::Text))
            }
            Expr::Ceil { expr, .. } => self.plain_call("ceil", vec![self.read(expr, names)]),
            Expr::Floor { expr, .. } => self.plain_call("floor", vec![self.read(expr, names)]),
            other => raw(other),
        }
    }

    fn function<'a>(&self, call: &'a Function, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let name = call.name.0.last().and_then(|part| part.as_ident());
        let Some(ident) = name else { return raw(&Expr::Function(call.clone())) };
        let name = folded(ident);
        let is_own = ident.quote_style.is_some();
        let FunctionArguments::List(list) = &call.args else {
            return match &call.args {
                FunctionArguments::Subquery(query) if name == "array" => {
                    let form = SubqueryForm { kind: SubqueryKind::Array, test: Vec::new(), query, names };
                    ShownNode::new(ShownForm::Subquery(Box::new(form)), None)
                }
                _ => self.word(&name, ident, names),
            };
        };
        let arguments = || {
            list.args.iter().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
                _ => None,
            })
        };
        let plain = list.duplicate_treatment.is_none()
            && list.clauses.is_empty()
            && call.over.is_none()
            && call.filter.is_none();
        let given: Vec<&'a Expr> = arguments().collect();
        match (name.as_str(), given.as_slice()) {
            ("extract", [field, operand]) if plain => {
                let field = unquoted(field);
                let operand = ShownPart::Node(self.value(operand, names), PartStyle::Plain);
                let parts = vec![
                    ShownPart::Text(format!("EXTRACT({field} FROM ")),
                    operand,
                    ShownPart::Text(")".to_owned()),
                ];
                return ShownNode::new(ShownForm::Parts(CallClass::Words, parts), Some(DataType::Number));
            }
            ("timezone", [zone, moment]) if plain => return self.at_zone(zone, moment, names),
            ("row", items) if !is_own => {
                return list_form(
                    "ROW(",
                    items.iter().map(|item| self.value(item, names)).collect(),
                    ")",
                    None,
                );
            }
            ("coalesce", [Expr::CompoundIdentifier(one), Expr::CompoundIdentifier(_)]) if is_own => {
                if let Some((_, found)) = merged(one, names) {
                    return ShownNode::word(found.text, found.data_type);
                }
            }
            _ => {}
        }
        let has_names = list.args.iter().any(|argument| {
            !matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(_) | FunctionArgExpr::Wildcard))
        });
        if has_names {
            return raw(&Expr::Function(call.clone()));
        }
        if WORDS.contains(&name.as_str()) && call.over.is_none() {
            return self.list_call(&name, &given, names);
        }
        let aggregates = is_aggregate(&call.name) || !call.within_group.is_empty() || call.over.is_some();
        match aggregates || !plain {
            true => self.aggregate(&name, call, &given, names),
            false => {
                self.plain_call(&name, given.iter().map(|argument| self.read(argument, names)).collect())
            }
        }
    }

    /// The column that FULL JOIN merges, if the expression is what it was written as.
    pub(super) fn merged_column(&self, expr: &Expr, names: &ShownNames<'_>) -> Option<(String, FoundColumn)> {
        let Expr::Function(call) = unnested(expr) else { return None };
        let FunctionArguments::List(list) = &call.args else { return None };
        let name = call.name.0.last().and_then(|part| part.as_ident())?;
        match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(one))), _]
                if name.value == "coalesce" && name.quote_style.is_some() =>
            {
                merged(one, names)
            }
            _ => None,
        }
    }

    /// A function that is called without parentheses.
    fn word<'a>(&self, name: &str, ident: &Ident, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let word = self.read_word(ident, names);
        if word.data_type.is_some() { word } else { ShownNode::word(name.to_uppercase(), None) }
    }

    fn at_zone<'a>(&self, zone: &'a Expr, moment: &'a Expr, names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let moment = self.read(moment, names);
        let moment =
            if moment.is_unknown() { kinds::as_type(moment, Some(DataType::TIMESTAMPTZ)) } else { moment };
        let data_type = match moment.data_type {
            Some(DataType::TimestampTz(_)) => Some(DataType::TIMESTAMP),
            Some(DataType::Timestamp(_) | DataType::Date) => Some(DataType::TIMESTAMPTZ),
            other => other,
        };
        let zone = self.value(zone, names);
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let parts = vec![
            text("("),
            ShownPart::Node(moment, PartStyle::Enclosed),
            text(" AT TIME ZONE "),
            ShownPart::Node(zone, PartStyle::Enclosed),
            text(")"),
        ];
        ShownNode::new(ShownForm::Parts(CallClass::Words, parts), data_type)
    }

    fn list_call<'a>(&self, name: &str, arguments: &[&'a Expr], names: &'a ShownNames<'a>) -> ShownNode<'a> {
        let items: Vec<_> = arguments.iter().map(|argument| self.read(argument, names)).collect();
        let open = format!("{}(", name.to_uppercase());
        match (name, items.as_slice()) {
            ("grouping", _) => list_form(&open, items, ")", Some(DataType::Integer)),
            ("nullif", [one, other]) => {
                let data_type = one.data_type;
                let compared = self.operator("=", one.clone(), other.clone());
                let operands = match compared.form {
                    ShownForm::Operator(_, operands) => operands,
                    _ => items,
                };
                list_form(&open, operands, ")", data_type)
            }
            _ => {
                let (items, data_type) = kinds::merged(items);
                list_form(&open, items, ")", data_type)
            }
        }
    }

    /// A call of a function, whose constants have the types that it takes.
    pub(super) fn plain_call<'a>(&self, name: &str, arguments: Vec<ShownNode<'a>>) -> ShownNode<'a> {
        let arguments = typed_arguments(name, arguments);
        let data_type = result_type(name, &arguments);
        let data_type = data_type.or_else(|| library::only_result(name, arguments.len()));
        call_form(name, arguments, data_type)
    }

    fn aggregate<'a>(
        &self,
        name: &str,
        call: &'a Function,
        arguments: &[&'a Expr],
        names: &'a ShownNames<'a>,
    ) -> ShownNode<'a> {
        let FunctionArguments::List(list) = &call.args else { return raw(&Expr::Function(call.clone())) };
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let nodes = arguments.iter().map(|argument| self.read(argument, names)).collect();
        let nodes = typed_arguments(name, nodes);
        let data_type = aggregate_type(name, &nodes);
        let mut parts = vec![ShownPart::Text(format!("{}(", quote_ident(name)))];
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
            parts.push(text("DISTINCT "));
        }
        let is_wildcard =
            |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
        match list.args.iter().any(is_wildcard) {
            true => parts.push(text("*")),
            false => parts.extend(comma_separated(nodes, PartStyle::Argument)),
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => {
                    parts.push(text(" ORDER BY "));
                    parts.extend(self.order(keys, &[], names));
                }
                other => parts.push(ShownPart::Text(format!(" {other}"))),
            }
        }
        parts.push(text(")"));
        if !call.within_group.is_empty() {
            parts.push(text(" WITHIN GROUP (ORDER BY "));
            parts.extend(self.order(&call.within_group, &[], names));
            parts.push(text(")"));
        }
        if let Some(filter) = &call.filter {
            let filter = ShownPart::Node(self.read(filter, names), PartStyle::Plain);
            parts.extend([text(" FILTER (WHERE "), filter, text(")")]);
        }
        match &call.over {
            None => {}
            Some(WindowType::NamedWindow(window)) => {
                parts.push(ShownPart::Text(format!(" OVER {}", quote_ident(&folded(window)))));
            }
            Some(WindowType::WindowSpec(spec)) => {
                parts.push(text(" OVER "));
                parts.extend(self.window(spec, names));
            }
        }
        ShownNode::new(ShownForm::Parts(CallClass::Aggregate, parts), data_type)
    }

    /// The keys of an order. `items` are those that a name or a number alone may mean.
    pub(super) fn order<'a>(
        &self,
        keys: &'a [OrderByExpr],
        items: &[(String, &'a Expr)],
        names: &'a ShownNames<'a>,
    ) -> Vec<ShownPart<'a>> {
        let mut parts = Vec::new();
        for key in keys {
            if !parts.is_empty() {
                parts.push(ShownPart::Text(", ".to_owned()));
            }
            let meant = super::query::meant(&key.expr, items, None);
            let node = self.value(meant, names);
            parts.push(ShownPart::Node(node, PartStyle::Key));
            parts.push(ShownPart::Text(direction(key).to_owned()));
        }
        parts
    }

    /// A window's parts, in parentheses.
    pub(super) fn window<'a>(&self, spec: &'a WindowSpec, names: &'a ShownNames<'a>) -> Vec<ShownPart<'a>> {
        let text = |text: &str| ShownPart::Text(text.to_owned());
        let mut clauses: Vec<Vec<ShownPart<'a>>> = Vec::new();
        if let Some(name) = &spec.window_name {
            clauses.push(vec![ShownPart::Text(quote_ident(&folded(name)))]);
        }
        let keys = spec.partition_by.iter().filter(|key| !crate::window_frames::is_marker(key));
        let keys = comma_separated(keys.map(|key| self.value(key, names)), PartStyle::Key);
        if !keys.is_empty() {
            clauses.push(std::iter::once(text("PARTITION BY ")).chain(keys).collect());
        }
        if !spec.order_by.is_empty() {
            let keys = self.order(&spec.order_by, &[], names);
            clauses.push(std::iter::once(text("ORDER BY ")).chain(keys).collect());
        }
        if let Some(frame) = frame_of(spec) {
            let key = spec.order_by.first().and_then(|key| self.read(&key.expr, names).data_type);
            clauses.push(self.frame(frame, key, names));
        }
        let mut parts = vec![text("(")];
        for (position, clause) in clauses.into_iter().enumerate() {
            if position > 0 {
                parts.push(text(" "));
            }
            parts.extend(clause);
        }
        parts.push(text(")"));
        parts
    }

    fn frame<'a>(
        &self,
        frame: FrameText<'a>,
        key: Option<DataType>,
        names: &'a ShownNames<'a>,
    ) -> Vec<ShownPart<'a>> {
        let FrameText { units, start, end, excluded } = frame;
        let offset_type = match (units.as_str(), key) {
            (
                "RANGE",
                Some(DataType::Date | DataType::Timestamp(_) | DataType::TimestampTz(_) | DataType::Time(_)),
            ) => Some(DataType::INTERVAL),
            ("RANGE", key) => key,
            _ => Some(DataType::BigInt),
        };
        let bound = |bound: BoundText<'a>| {
            let (offset, word) = match bound {
                BoundText(None, word) => return vec![ShownPart::Text(word.to_owned())],
                BoundText(Some(offset), word) => (offset, word),
            };
            let offset = self.read(offset, names);
            let offset = if offset.is_unknown() { kinds::as_type(offset, offset_type) } else { offset };
            vec![ShownPart::Node(offset, PartStyle::Plain), ShownPart::Text(format!(" {word}"))]
        };
        let mut parts = vec![ShownPart::Text(format!("{units} "))];
        match end {
            None => parts.extend(bound(start)),
            Some(end) => {
                parts.push(ShownPart::Text("BETWEEN ".to_owned()));
                parts.extend(bound(start));
                parts.push(ShownPart::Text(" AND ".to_owned()));
                parts.extend(bound(end));
            }
        }
        if !excluded.is_empty() {
            parts.push(ShownPart::Text(format!(" EXCLUDE {}", excluded.to_uppercase())));
        }
        parts
    }
}

/// The merged column of the name that the last part is.
fn merged(parts: &[Ident], names: &ShownNames<'_>) -> Option<(String, FoundColumn)> {
    let name = folded(parts.last()?);
    let found = names.column(&name).filter(|found| !found.text.contains('.'))?;
    Some((name, found))
}

/// What stands behind a key that is not in the usual order.
pub(super) fn direction(key: &OrderByExpr) -> &'static str {
    match (key.options.asc.unwrap_or(true), key.options.nulls_first) {
        (true, Some(true)) => " NULLS FIRST",
        (true, _) => "",
        (false, Some(false)) => " DESC NULLS LAST",
        (false, _) => " DESC",
    }
}

/// A field of times, as a word.
fn unquoted(field: &Expr) -> String {
    match unnested(field) {
        Expr::Value(value) => value.value.to_string().trim_matches('\'').to_owned(),
        other => other.to_string(),
    }
}

/// The arguments of a call, constants among them as the types that the function takes.
fn typed_arguments<'a>(name: &str, arguments: Vec<ShownNode<'a>>) -> Vec<ShownNode<'a>> {
    let types: Vec<Option<DataType>> = arguments.iter().map(|argument| argument.data_type).collect();
    let wanted = library::argument_types(name, &types).unwrap_or_default();
    let is_textual = OF_TEXTS.contains(&name);
    let first = types.first().copied().flatten();
    let typed = arguments.into_iter().enumerate().map(|(position, argument)| {
        let is_varchar = matches!(argument.data_type, Some(DataType::Varchar(_)));
        let wanted = match (wanted.get(position).copied(), name) {
            (_, "string_agg") if first != Some(DataType::Bytea) => Some(DataType::Text),
            (_, "min" | "max") if is_varchar => Some(DataType::Text),
            (_, "percentile_cont" | "percentile_disc") => Some(DataType::DoublePrecision),
            (Some(wanted @ (DataType::Text | DataType::Varchar(_))), _)
                if argument.is_unknown() || is_varchar =>
            {
                Some(match wanted {
                    DataType::Varchar(_) => DataType::Text,
                    wanted => wanted,
                })
            }
            (Some(wanted), _) if argument.is_unknown() => Some(wanted),
            (Some(wanted), _) if is_number(wanted) && argument.data_type.is_some_and(is_number) => {
                Some(wanted).filter(|wanted| *wanted == DataType::DoublePrecision)
            }
            (None, "now" | "generate_series") if argument.is_unknown() => match first {
                Some(DataType::Timestamp(_) | DataType::TimestampTz(_)) if position == 2 => {
                    Some(DataType::INTERVAL)
                }
                first => first,
            },
            (None, "lag" | "lead" | "array_append" | "array_remove")
                if argument.is_unknown() && position == 2 =>
            {
                first
            }
            (None, _) if is_textual && (argument.is_unknown() || is_varchar) => Some(DataType::Text),
            _ => None,
        };
        kinds::as_type(argument, wanted)
    });
    typed.collect()
}

fn is_number(data_type: DataType) -> bool {
    data_type.is_numeric()
}

/// The type of what a function gives, as the binder knows it.
fn result_type(name: &str, arguments: &[ShownNode]) -> Option<DataType> {
    let typed = |(position, argument): (usize, &ShownNode)| {
        let expression = match &argument.form {
            ShownForm::Constant(constant) if constant.body.starts_with('\'') => {
                Expression::Literal(Value::text(constant.body.trim_matches('\'')))
            }
            ShownForm::Unknown(text) => Expression::Literal(Value::text(text.as_str())),
            _ => Expression::Column(position),
        };
        let known = argument.data_type.is_some() || argument.is_unknown();
        known.then_some(Typed { expression, data_type: argument.data_type })
    };
    let typed: Vec<Typed> = arguments.iter().enumerate().map(typed).collect::<Option<_>>()?;
    let mut parameters = Parameters::default();
    let mut binder = Binder::new(Scope::starting_at(0), &mut parameters);
    match function::is_known(name, typed.len()) {
        true => function::call(&mut binder, name, typed).ok()?.data_type,
        false => match name {
            "now" | "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" => {
                Some(DataType::TIMESTAMPTZ)
            }
            "random" => Some(DataType::DoublePrecision),
            _ => None,
        },
    }
}

/// The type of what an aggregate or a function over windows gives.
fn aggregate_type(name: &str, arguments: &[ShownNode]) -> Option<DataType> {
    let first = arguments.first().and_then(|argument| argument.data_type);
    match name {
        "count" | "row_number" | "rank" | "dense_rank" | "regr_count" => Some(DataType::BigInt),
        "ntile" => Some(DataType::Integer),
        "percent_rank" | "cume_dist" | "percentile_cont" | "corr" => Some(DataType::DoublePrecision),
        "bool_and" | "bool_or" | "every" => Some(DataType::Boolean),
        "string_agg" => first,
        "sum" => Some(match first? {
            DataType::SmallInt | DataType::Integer => DataType::BigInt,
            DataType::BigInt | DataType::Number | DataType::Numeric { .. } => DataType::Number,
            other => other,
        }),
        "avg" | "stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp" => {
            Some(match first? {
                DataType::Real | DataType::DoublePrecision => DataType::DoublePrecision,
                interval @ DataType::Interval(_) => interval,
                _ => DataType::Number,
            })
        }
        "min" | "max" | "lag" | "lead" | "first_value" | "last_value" | "nth_value" | "bit_and"
        | "bit_or" | "bit_xor" => first,
        "array_agg" => first.and_then(ListType::of).map(|list| DataType::System(SystemType::List(list))),
        "json_agg" | "json_object_agg" => Some(DataType::Json),
        "jsonb_agg" | "jsonb_object_agg" => Some(DataType::Jsonb),
        _ => None,
    }
}
