//! Indexes, constraints and defaults: `pg_index`, `pg_constraint`, `pg_attrdef`, and what they look like in SQL.

use super::default_text::default_text;
use super::definition::{DefinitionStyle, expression_text, is_call};
use super::operator_classes::{class_of, collation_number};
use super::quoting::{list, quote_ident};
use super::types::{by_oid, type_of};
use super::{
    CheckEntry, Datum, ForeignKeyEntry, IndexEntry, NULL, Rows, SystemCatalog, TableEntry, column_number, row,
};
use ankerdb_engine::{ColumnText, ConstraintTiming, DataType, IndexKind, KeyStyle, ReferentialAction};

/// The columns' names of a key.
fn key_names<'a>(table: &'a TableEntry, index: &'a IndexEntry) -> impl Iterator<Item = &'a str> {
    index.definition.columns.iter().map(|&column| table.column_name(column))
}

/// The statement that makes the index; `is_brief` leaves out the schema where the table is found without.
pub(super) fn index_definition(
    catalog: &SystemCatalog,
    table: &TableEntry,
    index: &IndexEntry,
    is_brief: bool,
) -> String {
    let unique = if index.definition.unique { "UNIQUE " } else { "" };
    let whole = || format!("{}.{}", quote_ident(&table.schema.name), quote_ident(&table.name));
    let on = if is_brief { catalog.shown_name(&table.schema.name, &table.name) } else { whole() };
    let method = match index.definition.kind {
        IndexKind::Ordered => "btree",
        IndexKind::Hash => "hash",
    };
    let layout = DefinitionStyle { is_pretty: is_brief, wrap: 0 };
    let keys: Vec<String> = key_parts(catalog, table, index, layout)
        .into_iter()
        .enumerate()
        .map(|(position, part)| {
            let style = index.definition.style.keys.get(position);
            part + &shown_style(style, collation_of_column(table, index, position))
        })
        .collect();
    let mut text = format!(
        "CREATE {unique}INDEX {} ON {on} USING {method} ({})",
        quote_ident(&index.definition.name),
        keys.join(", "),
    );
    let style = &index.definition.style;
    if !style.included.is_empty() {
        let names = style.included.iter().map(|&column| table.column_name(column));
        text.push_str(&format!(" INCLUDE ({})", list(names)));
    }
    if style.nulls_are_equal {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if !style.options.is_empty() {
        let is_word = |value: &str| value.starts_with(|c: char| c.is_ascii_alphabetic());
        let shown = style.options.iter().map(|(name, value)| match is_word(value) {
            true => format!("{name}={}", quote_ident(value)),
            false => format!("{name}='{value}'"),
        });
        text.push_str(&format!(" WITH ({})", shown.collect::<Vec<_>>().join(", ")));
    }
    if let Some(predicate) = predicate(catalog, table, index, layout) {
        text.push_str(&format!(" WHERE {predicate}"));
    }
    text
}

/// The parts of an index's key: columns, or expressions.
pub(super) fn key_parts(
    catalog: &SystemCatalog,
    table: &TableEntry,
    index: &IndexEntry,
    style: DefinitionStyle,
) -> Vec<String> {
    let part = |part: &ColumnText| {
        let text = shown(table, part);
        let shown = expression_text(catalog, Some(table), &text, None, style);
        if part.as_column().is_some() || is_call(&text) { shown } else { format!("({shown})") }
    };
    match &index.definition.derivation {
        None => key_names(table, index).map(quote_ident).collect(),
        Some(derivation) => derivation.parts.iter().map(part).collect(),
    }
}

/// The condition of a partial index.
fn predicate(
    catalog: &SystemCatalog,
    table: &TableEntry,
    index: &IndexEntry,
    style: DefinitionStyle,
) -> Option<String> {
    let predicate = index.definition.derivation.as_ref()?.predicate.as_ref()?;
    Some(expression_text(catalog, Some(table), &shown(table, predicate), None, style))
}

fn shown(table: &TableEntry, text: &ColumnText) -> String {
    text.with_names(|column| quote_ident(table.column_name(column)))
}

/// The column of each part of an index's key that is one.
pub(super) fn key_columns(index: &IndexEntry) -> Vec<Option<usize>> {
    match &index.definition.derivation {
        None => index.definition.columns.iter().map(|&column| Some(column)).collect(),
        Some(derivation) => derivation.parts.iter().map(ColumnText::as_column).collect(),
    }
}

/// The types of an index's key.
pub(super) fn key_types(table: &TableEntry, index: &IndexEntry) -> Vec<DataType> {
    match &index.definition.derivation {
        None => {
            let columns = index.definition.columns.iter().filter_map(|&column| table.columns.get(column));
            columns.map(|column| column.definition.data_type).collect()
        }
        Some(derivation) => derivation.types.clone(),
    }
}

/// The collation that a key column has by itself, if it was named.
fn collation_of_column<'a>(table: &'a TableEntry, index: &IndexEntry, position: usize) -> Option<&'a str> {
    let definition = &index.definition;
    let column = definition.columns.get(position).filter(|_| definition.derivation.is_none())?;
    table.columns.get(*column)?.definition.collation.as_deref()
}

/// What stands behind the name of a key column, which has this collation anyway.
fn shown_style(style: Option<&KeyStyle>, own: Option<&str>) -> String {
    let Some(style) = style else { return String::new() };
    let mut text = String::new();
    if let Some(collation) = style.collation.as_deref().filter(|collation| Some(*collation) != own) {
        text.push_str(&format!(" COLLATE {}", quote_ident(collation)));
    }
    if let Some(class) = &style.class {
        text.push_str(&format!(" {class}"));
    }
    text.push_str(match (style.descending, style.nulls_first) {
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
        (false, true) => " NULLS FIRST",
        (false, false) => "",
    });
    text
}

/// The column of an index at a position counted from 1.
pub(super) fn index_column(
    catalog: &SystemCatalog,
    table: &TableEntry,
    index: &IndexEntry,
    number: usize,
    is_pretty: bool,
) -> Option<String> {
    let included = index.definition.style.included.iter();
    let included = included.map(|&column| quote_ident(table.column_name(column)));
    let parts = key_parts(catalog, table, index, DefinitionStyle { is_pretty, wrap: 0 });
    parts.into_iter().chain(included).nth(number.checked_sub(1)?)
}

/// A constraint: a key, a foreign one, or a condition.
pub(super) enum Constraint<'a> {
    Key(&'a IndexEntry),
    ForeignKey(&'a ForeignKeyEntry),
    Check(&'a CheckEntry),
}

impl Constraint<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Constraint::Key(index) => &index.definition.name,
            Constraint::ForeignKey(key) => &key.definition.name,
            Constraint::Check(check) => &check.name,
        }
    }

    pub(super) fn oid(&self) -> u32 {
        match self {
            Constraint::Key(index) => index.constraint_oid.unwrap_or(0),
            Constraint::ForeignKey(key) => key.oid,
            Constraint::Check(check) => check.oid,
        }
    }

    /// Its letter in `contype`.
    fn letter(&self) -> &'static str {
        match self {
            Constraint::Key(index) if index.definition.primary => "p",
            Constraint::Key(_) => "u",
            Constraint::ForeignKey(_) => "f",
            Constraint::Check(_) => "c",
        }
    }

    /// What it is called in the standard's schema.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Constraint::Key(index) if index.definition.primary => "PRIMARY KEY",
            Constraint::Key(_) => "UNIQUE",
            Constraint::ForeignKey(_) => "FOREIGN KEY",
            Constraint::Check(_) => "CHECK",
        }
    }

    /// Positions of its columns.
    pub(super) fn columns(&self) -> &[usize] {
        match self {
            Constraint::Key(index) => &index.definition.columns,
            Constraint::ForeignKey(key) => &key.definition.columns,
            Constraint::Check(check) => &check.columns,
        }
    }

    /// How it is declared.
    pub(super) fn definition(&self, catalog: &SystemCatalog, table: &TableEntry, is_pretty: bool) -> String {
        match self {
            Constraint::Key(index) => {
                let nulls = if index.definition.style.nulls_are_equal { " NULLS NOT DISTINCT" } else { "" };
                format!("{}{nulls} ({})", self.kind(), list(key_names(table, index)))
            }
            Constraint::ForeignKey(key) => foreign_key_definition(table, key),
            Constraint::Check(check) => {
                let marked = if check.is_validated { "" } else { " NOT VALID" };
                let style = DefinitionStyle { is_pretty, wrap: 0 };
                let condition = expression_text(catalog, Some(table), &check.text, None, style);
                format!("CHECK ({condition}){marked}")
            }
        }
    }

    /// Whether all rows fulfil it.
    fn is_validated(&self) -> bool {
        match self {
            Constraint::Key(_) => true,
            Constraint::ForeignKey(key) => key.definition.is_validated,
            Constraint::Check(check) => check.is_validated,
        }
    }
}

impl ForeignKeyEntry {
    /// Whether it can be deferred, and whether it is.
    pub(super) fn deferral(&self) -> (bool, bool) {
        let timing = self.definition.timing;
        (timing != ConstraintTiming::Immediate, timing == ConstraintTiming::Deferred)
    }
}

fn foreign_key_definition(table: &TableEntry, key: &ForeignKeyEntry) -> String {
    let own = key.definition.columns.iter().map(|&column| table.column_name(column));
    let theirs = list(key.parent_names.iter().map(String::as_str));
    let mut text = format!("FOREIGN KEY ({}) REFERENCES {}({theirs})", list(own), key.parent_shown);
    if key.definition.is_full {
        text.push_str(" MATCH FULL");
    }
    for (event, action) in [("UPDATE", key.definition.on_update), ("DELETE", key.definition.on_delete)] {
        if action != ReferentialAction::NoAction {
            text.push_str(&format!(" ON {event} {}", action_name(action)));
        }
    }
    if !key.definition.set_columns.is_empty() {
        let set = key.definition.set_columns.iter().map(|&column| table.column_name(column));
        text.push_str(&format!(" ({})", list(set)));
    }
    match key.deferral() {
        (false, _) => {}
        (true, false) => text.push_str(" DEFERRABLE"),
        (true, true) => text.push_str(" DEFERRABLE INITIALLY DEFERRED"),
    }
    if !key.definition.is_validated {
        text.push_str(" NOT VALID");
    }
    text
}

/// An action in SQL.
pub(super) fn action_name(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "NO ACTION",
        ReferentialAction::Restrict => "RESTRICT",
        ReferentialAction::Cascade => "CASCADE",
        ReferentialAction::SetNull => "SET NULL",
        ReferentialAction::SetDefault => "SET DEFAULT",
    }
}

/// Its letter in `pg_constraint`.
fn action_letter(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

/// The constraints of a table.
pub(super) fn of_table(table: &TableEntry) -> impl Iterator<Item = Constraint<'_>> {
    let keys = table.indexes.iter().filter(|index| index.constraint_oid.is_some()).map(Constraint::Key);
    keys.chain(table.foreign_keys.iter().map(Constraint::ForeignKey))
        .chain(table.checks.iter().map(Constraint::Check))
}

/// The constraint with that number, and its table.
pub(super) fn by_number(catalog: &SystemCatalog, oid: u32) -> Option<(&TableEntry, Constraint<'_>)> {
    catalog.tables.iter().find_map(|table| {
        of_table(table).find(|constraint| constraint.oid() == oid).map(|constraint| (table, constraint))
    })
}

pub(super) fn constraints(catalog: &SystemCatalog) -> Rows {
    let rows = catalog
        .tables
        .iter()
        .flat_map(|table| of_table(table).map(|each| constraint_row(catalog, table, &each)));
    rows.chain(super::domains::constraints(catalog)).collect()
}

fn constraint_row(catalog: &SystemCatalog, table: &TableEntry, constraint: &Constraint<'_>) -> Vec<Datum> {
    let key: Vec<i64> = constraint.columns().iter().map(|&column| column_number(column)).collect();
    let (index, expression) = match constraint {
        Constraint::Key(index) => (index.oid, NULL),
        Constraint::ForeignKey(key) => (key.key_oid, NULL),
        Constraint::Check(check) => {
            (0, Datum::from(expression_text(catalog, Some(table), &check.text, None, DefinitionStyle::PLAIN)))
        }
    };
    let foreign = match constraint {
        Constraint::ForeignKey(foreign) => Some(*foreign),
        _ => None,
    };
    let (is_deferrable, is_deferred) = foreign.map_or((false, false), ForeignKeyEntry::deferral);
    let letter = |action: fn(&ForeignKeyEntry) -> ReferentialAction| {
        foreign.map_or(" ", |foreign| action_letter(action(foreign)))
    };
    let parent_key = foreign.map_or(NULL, |foreign| {
        let columns = foreign.parent_columns.iter().map(|&column| column_number(column));
        Datum::from(columns.collect::<Vec<i64>>())
    });
    let set_columns = match foreign.map_or(&[][..], |foreign| &foreign.definition.set_columns) {
        [] => NULL,
        set => Datum::from(set.iter().map(|&column| column_number(column)).collect::<Vec<i64>>()),
    };
    row![
        constraint.oid(),
        constraint.name(),
        table.schema.oid,
        constraint.letter(),
        is_deferrable,
        is_deferred,
        constraint.is_validated(),
        table.oid,
        0,
        index,
        0,
        foreign.map_or(0, |foreign| foreign.parent_oid),
        letter(|foreign| foreign.definition.on_update),
        letter(|foreign| foreign.definition.on_delete),
        foreign.map_or(" ", |foreign| if foreign.definition.is_full { "f" } else { "s" }),
        true,
        0,
        !matches!(constraint, Constraint::Check(_)),
        key,
        parent_key,
        NULL,
        NULL,
        NULL,
        set_columns,
        NULL,
        expression,
    ]
}

pub(super) fn indexes(catalog: &SystemCatalog) -> Rows {
    catalog.indexes().map(|(table, index)| index_row(catalog, table, index)).collect()
}

fn index_row(catalog: &SystemCatalog, table: &TableEntry, index: &IndexEntry) -> Vec<Datum> {
    let definition = &index.definition;
    let types = key_types(table, index);
    let collation = |oid| by_oid(oid).map_or(0, |known| known.collation);
    let style = |position: usize| definition.style.keys.get(position).cloned().unwrap_or_default();
    let collations: Vec<i64> = types
        .iter()
        .enumerate()
        .map(|(position, data_type)| {
            let style = style(position);
            let named = style.collation.as_deref().or_else(|| collation_of_column(table, index, position));
            named.map_or_else(|| i64::from(collation(type_of(*data_type).0)), collation_number)
        })
        .collect();
    let classes: Vec<i64> = types
        .iter()
        .enumerate()
        .map(|(position, data_type)| {
            let class = style(position).class;
            i64::from(class_of(class.as_deref(), definition.kind, *data_type))
        })
        .collect();
    let keys = types.len();
    let included = definition.style.included.iter().map(|&column| Some(column));
    let columns = key_columns(index).into_iter().chain(included);
    // An expression has the number 0.
    let numbers: Vec<i64> = columns.map(|column| column.map_or(0, column_number)).collect();
    let expressions: Vec<String> = key_parts(catalog, table, index, DefinitionStyle::PLAIN)
        .into_iter()
        .zip(key_columns(index))
        .filter_map(|(part, column)| column.is_none().then_some(part))
        .collect();
    let option = |style: KeyStyle| i64::from(style.descending) | i64::from(style.nulls_first) << 1;
    let options: Vec<i64> = (0..keys).map(|position| option(style(position))).collect();
    row![
        index.oid,
        table.oid,
        numbers.len(),
        keys,
        definition.unique,
        definition.style.nulls_are_equal,
        definition.primary,
        false,
        true,
        false,
        true,
        false,
        true,
        true,
        false,
        numbers,
        collations,
        classes,
        options,
        (!expressions.is_empty()).then(|| expressions.join(", ")),
        predicate(catalog, table, index, DefinitionStyle::PLAIN),
    ]
}

pub(super) fn defaults(catalog: &SystemCatalog) -> Rows {
    let rows = catalog.tables.iter().flat_map(|table| {
        table.columns.iter().enumerate().filter_map(move |(position, column)| {
            let oid = column.default_oid.filter(|_| column.definition.identity.is_none())?;
            Some(row![
                oid,
                table.oid,
                column_number(position),
                default_text(catalog, table, &column.definition)
            ])
        })
    });
    rows.collect()
}
