//! Definitions: CREATE and DROP of tables, indexes and sequences, TRUNCATE.

use super::check::add_checks;
use super::comment::{Commented, commented};
use super::default::checked;
use super::domain::NewDomain;
use super::foreign_key::{ForeignKeyClause, foreign_key};
use super::generation::{NewGeneration, bind_generations};
use super::index::{NewIndex, index_kind, new_index, system_name};
use super::sequence::{
    OwnSequence, SequenceOwner, counted_type, identity_sequence, sequence, sequence_owner, serial_type,
};
use super::user_type::{self, TypeChange};
use crate::altered_sequence::alteration;
use crate::expression::types::data_type;
use crate::like_clause::like_clause;
use crate::made_table::{check_untyped, source};
use crate::name::{
    ROLE, check_column_name, folded, not_supported, object_name, quoted, schema_name, undefined_column,
};
use crate::naming::CONCURRENTLY;
use crate::null_keys::are_equal;
use crate::refreshing::{Refresh, refresh};
use crate::system::sortable_collation;
use ankerdb_engine::{
    ColumnDefinition, DataType, Error, Identity, IndexDefinition, IndexKind, IndexStyle, ListType, OnCommit,
    QualifiedName, Result, SequenceDefinition, SqlState, SystemType, TableDefinition,
};
use datafusion::sql::sqlparser::ast::{self, ColumnOption, Expr, Statement, TableConstraint};

/// A change of the catalog. Names are looked up when it runs.
pub(crate) enum Definition {
    CreateTable(Box<NewTable>),
    /// A table with columns of others, which are looked up when it runs.
    CreateTableLike(Box<ast::CreateTable>),
    CreateSequence {
        /// Its name, with the schema that the definition does not know yet.
        name: QualifiedName,
        temporary: bool,
        definition: SequenceDefinition,
        owner: Option<SequenceOwner>,
        if_not_exists: bool,
    },
    AlterSequence {
        name: QualifiedName,
        data_type: Option<DataType>,
        options: Vec<ast::SequenceOptions>,
        /// Whether it begins again, and where, if that is told.
        restart: Option<Option<i64>>,
        owner: Option<SequenceOwner>,
        if_exists: bool,
    },
    DropSequences {
        names: Vec<QualifiedName>,
        if_exists: bool,
        cascade: bool,
    },
    DropTables {
        names: Vec<QualifiedName>,
        if_exists: bool,
        cascade: bool,
    },
    CreateIndex(Box<NewIndex>),
    DropIndexes {
        names: Vec<QualifiedName>,
        if_exists: bool,
        concurrently: bool,
    },
    AlterTable(Box<ast::AlterTable>),
    Comment {
        on: Commented,
        /// None takes the comment away.
        text: Option<String>,
    },
    CreateTableAs {
        name: QualifiedName,
        temporary: bool,
        on_commit: OnCommit,
        /// Names for the columns.
        columns: Vec<ast::ColumnDef>,
        query: Box<ast::Query>,
        /// Whether the rows of the query are wanted, too.
        with_data: bool,
        if_not_exists: bool,
    },
    CreateView(Box<ast::CreateView>),
    CreateMaterializedView(Box<ast::CreateView>),
    RefreshMaterializedView(Refresh),
    CreateSchema {
        name: String,
        if_not_exists: bool,
    },
    DropSchemas {
        names: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    RenameSchema {
        name: String,
        new: String,
    },
    /// ALTER SCHEMA ... OWNER TO.
    GiveSchema {
        name: String,
        owner: String,
    },
    CreateType {
        name: QualifiedName,
        labels: Vec<String>,
    },
    AlterType {
        name: QualifiedName,
        change: TypeChange,
    },
    DropTypes {
        names: Vec<QualifiedName>,
        if_exists: bool,
        cascade: bool,
    },
    CreateDomain(QualifiedName, NewDomain),
    AlterDomain(QualifiedName, crate::domains::Action),
    DropDomains {
        names: Vec<QualifiedName>,
        if_exists: bool,
        cascade: bool,
    },
    /// Drops the session's temporary relations, or else those only that go with each commit.
    DropTemporary {
        all: bool,
    },
    DropViews {
        names: Vec<QualifiedName>,
        /// Whether they are materialized ones.
        materialized: bool,
        if_exists: bool,
        cascade: bool,
    },
    Truncate {
        names: Vec<QualifiedName>,
        /// Whether tables that refer to them are emptied, too.
        cascade: bool,
        /// Whether sequences of their columns begin again.
        restart: bool,
    },
}

/// A table that is to be made.
pub(crate) struct NewTable {
    /// Its name, with the schema that the definition does not know yet.
    pub name: QualifiedName,
    pub temporary: bool,
    pub definition: TableDefinition,
    /// Those by which columns count, with the columns' positions. Names are chosen when it runs.
    pub sequences: Vec<OwnSequence>,
    pub foreign_keys: Vec<ForeignKeyClause>,
    /// Positions of indexes whose names were not given: another one is chosen where that is taken.
    pub unnamed: Vec<usize>,
    /// On its parts.
    pub comments: Vec<(NewPart, String)>,
    pub if_not_exists: bool,
}

/// A part of a new table that gets a comment.
pub(crate) enum NewPart {
    Column(usize),
    Check(String),
    /// An index by its position; or the constraint that it is for.
    Index(usize),
    Key(usize),
}

impl Definition {
    /// The command tag.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            Definition::CreateTable(_) | Definition::CreateTableLike(_) => "CREATE TABLE",
            Definition::CreateSequence { .. } => "CREATE SEQUENCE",
            Definition::AlterSequence { .. } => "ALTER SEQUENCE",
            Definition::DropSequences { .. } => "DROP SEQUENCE",
            Definition::DropTables { .. } => "DROP TABLE",
            Definition::CreateIndex(_) => "CREATE INDEX",
            Definition::DropIndexes { .. } => "DROP INDEX",
            Definition::AlterTable(alter) => crate::naming::tag(alter),
            Definition::Comment { .. } => "COMMENT",
            Definition::CreateTableAs { .. } => "CREATE TABLE AS",
            Definition::CreateView(_) => "CREATE VIEW",
            Definition::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Definition::RefreshMaterializedView(_) => "REFRESH MATERIALIZED VIEW",
            Definition::DropTemporary { .. } => "DISCARD TEMP",
            Definition::CreateSchema { .. } => "CREATE SCHEMA",
            Definition::DropSchemas { .. } => "DROP SCHEMA",
            Definition::RenameSchema { .. } | Definition::GiveSchema { .. } => "ALTER SCHEMA",
            Definition::DropViews { materialized: false, .. } => "DROP VIEW",
            Definition::DropViews { materialized: true, .. } => "DROP MATERIALIZED VIEW",
            Definition::CreateType { .. } => "CREATE TYPE",
            Definition::AlterType { .. } => "ALTER TYPE",
            Definition::DropTypes { .. } => "DROP TYPE",
            Definition::CreateDomain(..) => "CREATE DOMAIN",
            Definition::AlterDomain(..) => "ALTER DOMAIN",
            Definition::DropDomains { .. } => "DROP DOMAIN",
            Definition::Truncate { .. } => "TRUNCATE TABLE",
        }
    }
}

impl Definition {
    /// Whether it must not be a part of a block.
    pub(crate) fn is_concurrent(&self) -> bool {
        match self {
            Definition::CreateIndex(index) => index.concurrently,
            Definition::DropIndexes { concurrently, .. } => *concurrently,
            _ => false,
        }
    }
}

/// The definition that the statement makes; `None` if it makes none.
pub(super) fn definition(statement: &Statement) -> Result<Option<Definition>> {
    Ok(Some(match statement {
        Statement::CreateTable(create)
            if create.columns.iter().any(|column| like_clause(column).is_some()) =>
        {
            Definition::CreateTableLike(Box::new(create.clone()))
        }
        Statement::CreateTable(create) => create_table(create)?,
        Statement::CreateIndex(create) => Definition::CreateIndex(Box::new(new_index(create)?)),
        Statement::CreateView(create) => create_view(create)?,
        Statement::CreateSchema {
            schema_name,
            if_not_exists,
            with: None,
            options: None,
            default_collate_spec: None,
            clone: None,
        } => Definition::CreateSchema { name: created_schema(schema_name)?, if_not_exists: *if_not_exists },
        Statement::AlterSchema(alter) => alter_schema(alter)?,
        Statement::CreateType { name, representation } => user_type::create(name, representation.as_ref())?,
        Statement::AlterType(alter) => user_type::alter(alter)?,
        Statement::CreateDomain(domain) => super::domain::definition(domain)?,
        Statement::Comment { object_type, object_name: name, comment: text, if_exists: false, .. } => {
            // An empty comment is none.
            let text = text.clone().filter(|text| !text.is_empty());
            Definition::Comment { on: commented(*object_type, name)?, text }
        }
        Statement::AlterTable(alter) => match refresh(alter)? {
            Some(refresh) => Definition::RefreshMaterializedView(refresh),
            None => Definition::AlterTable(Box::new(alter.clone())),
        },
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            drop_objects(*object_type, names, *if_exists, *cascade)?
        }
        Statement::Truncate(truncate) => {
            let names = truncate.table_names.iter().map(|target| object_name(&target.name));
            let restart = matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart));
            let cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
            Definition::Truncate { names: names.collect::<Result<Vec<_>>>()?, cascade, restart }
        }
        Statement::Discard { object_type: ast::DiscardObject::TEMP } => {
            Definition::DropTemporary { all: true }
        }
        Statement::CreateSequence { .. } => any_sequence(statement)?,
        _ => return Ok(None),
    }))
}

/// DROP of anything.
fn drop_objects(
    object_type: ast::ObjectType,
    names: &[ast::ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Definition> {
    if cascade && object_type == ast::ObjectType::Index {
        return Err(not_supported("DROP ... CASCADE"));
    }
    if object_type == ast::ObjectType::Schema {
        let names = names.iter().map(schema_name).collect::<Result<Vec<_>>>()?;
        return Ok(Definition::DropSchemas { names, if_exists, cascade });
    }
    if let Some(domains) = crate::domains::dropped(names) {
        let names = domains.iter().map(object_name).collect::<Result<Vec<_>>>()?;
        return Ok(Definition::DropDomains { names, if_exists, cascade });
    }
    let names = names.iter().map(object_name).collect::<Result<Vec<_>>>()?;
    Ok(match object_type {
        ast::ObjectType::Table => Definition::DropTables { names, if_exists, cascade },
        ast::ObjectType::View => Definition::DropViews { names, materialized: false, if_exists, cascade },
        ast::ObjectType::MaterializedView => {
            Definition::DropViews { names, materialized: true, if_exists, cascade }
        }
        ast::ObjectType::Type => Definition::DropTypes { names, if_exists, cascade },
        ast::ObjectType::Sequence => Definition::DropSequences { names, if_exists, cascade },
        ast::ObjectType::Index => drop_indexes(names, if_exists)?,
        other => return Err(not_supported(&format!("DROP {other}"))),
    })
}

/// CREATE SEQUENCE, and what is written as that.
fn any_sequence(statement: &Statement) -> Result<Definition> {
    let Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
        statement
    else {
        return Err(Error::internal("a statement about something else than a sequence"));
    };
    let owner = owned_by.as_ref().map(sequence_owner).transpose()?;
    if let Some((alteration, name)) = alteration(name) {
        return Ok(Definition::AlterSequence {
            name: object_name(&name)?,
            data_type: data_type.as_ref().map(|named| counted_type(Some(named))).transpose()?,
            options: sequence_options.clone(),
            restart: alteration.restart,
            owner,
            if_exists: alteration.if_exists,
        });
    }
    let data_type = counted_type(data_type.as_ref())?;
    let name = object_name(name)?;
    let definition = sequence(name.name.clone(), data_type, sequence_options)?;
    let (temporary, if_not_exists) = (*temporary, *if_not_exists);
    Ok(Definition::CreateSequence { name, temporary, definition, owner, if_not_exists })
}

/// The name of a schema that is to be made, which may be that of the role that is to own it. There is one role.
fn created_schema(name: &ast::SchemaName) -> Result<String> {
    use ast::SchemaName as Name;
    let (name, role) = match name {
        Name::Simple(name) => (schema_name(name)?, None),
        Name::UnnamedAuthorization(role) => (role_name(role), Some(role)),
        Name::NamedAuthorization(name, role) => (schema_name(name)?, Some(role)),
    };
    if let Some(role) = role.filter(|role| role_name(role) != ROLE) {
        let message = format!("role {} does not exist", quoted(&folded(role)));
        return Err(Error::new(SqlState::UndefinedObject, message));
    }
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name {}", quoted(&name));
        let detail = "The prefix \"pg_\" is reserved for system schemas.";
        return Err(Error::new(SqlState::ReservedName, message).with_detail(detail));
    }
    Ok(name)
}

fn role_name(role: &ast::Ident) -> String {
    match folded(role).as_str() {
        "current_user" | "session_user" | "current_role" if role.quote_style.is_none() => ROLE.to_owned(),
        name => name.to_owned(),
    }
}

fn alter_schema(alter: &ast::AlterSchema) -> Result<Definition> {
    let name = schema_name(&alter.name)?;
    match alter.operations.as_slice() {
        [ast::AlterSchemaOperation::Rename { name: new }] if !alter.if_exists => {
            let new = created_schema(&ast::SchemaName::Simple(new.clone()))?;
            Ok(Definition::RenameSchema { name, new })
        }
        [ast::AlterSchemaOperation::OwnerTo { owner }] if !alter.if_exists => {
            let owner = match owner {
                ast::Owner::Ident(role) => folded(role),
                _ => ROLE.to_owned(),
            };
            Ok(Definition::GiveSchema { name, owner })
        }
        [other, ..] => Err(not_supported(&format!("ALTER SCHEMA ... {other}"))),
        [] => Err(not_supported("ALTER SCHEMA")),
    }
}

fn create_table(create: &ast::CreateTable) -> Result<Definition> {
    if let Some(query) = &create.query {
        if !create.constraints.is_empty() {
            return Err(not_supported("constraints in CREATE TABLE AS"));
        }
        check_untyped(&create.columns)?;
        let (query, with_data) = source(query);
        return Ok(Definition::CreateTableAs {
            name: object_name(&create.name)?,
            temporary: create.temporary,
            on_commit: on_commit(create),
            columns: create.columns.clone(),
            query: Box::new(query.clone()),
            with_data,
            if_not_exists: create.if_not_exists,
        });
    }
    let no_like = |_: &mut TableDefinition, _: &mut NewColumns, _: &ast::ColumnDef| Ok(false);
    Ok(Definition::CreateTable(Box::new(new_table(create, no_like)?)))
}

/// The table that a statement without a query makes. `like` adds the columns that a LIKE stands for, and tells whether it is one.
pub(crate) fn new_table(
    create: &ast::CreateTable,
    mut like: impl FnMut(&mut TableDefinition, &mut NewColumns, &ast::ColumnDef) -> Result<bool>,
) -> Result<NewTable> {
    if create.like.is_some() || create.clone.is_some() {
        return Err(not_supported("CREATE TABLE LIKE without parentheses"));
    }
    if create.inherits.is_some() || create.partition_by.is_some() || create.partition_of.is_some() {
        return Err(not_supported("CREATE TABLE with inheritance or partitions"));
    }
    let name = object_name(&create.name)?;
    let on_commit = on_commit(create);
    let mut table = TableDefinition { on_commit, ..TableDefinition::new(name.name.as_str()) };
    let mut new = NewColumns::default();
    for column in &create.columns {
        if !like(&mut table, &mut new, column)? {
            let added = add_column(&mut table, column)?;
            new.own.extend(added);
        }
    }
    let NewColumns { own, indexes, mut comments, key_comments } = new;
    let NewColumn { mut keys, sequences, mut checks, mut foreign_keys, generations } = own;
    bind_generations(&mut table, &generations)?;
    for constraint in &create.constraints {
        match (constraint, table_key(constraint)?) {
            (_, Some(key)) => keys.push(key),
            (TableConstraint::Check(check), _) => {
                checks.push((check.name.as_ref().map(folded), (*check.expr).clone()));
            }
            (TableConstraint::ForeignKey(clause), _) => foreign_keys.push(foreign_key(clause, None, &[])?),
            (other, None) => return Err(not_supported(&format!("the constraint {other}"))),
        }
    }
    // The primary key comes first, however late it is written.
    keys.sort_by_key(|key| !key.primary);
    let is_unnamed = |(position, key): (usize, &Key)| key.name.is_none().then_some(position);
    let mut unnamed: Vec<usize> = keys.iter().enumerate().filter_map(is_unnamed).collect();
    for key in keys {
        let said = key_comments.iter().filter(|(columns, ..)| *columns == key.columns);
        let position = table.indexes.len();
        comments.extend(said.map(|(_, is_index, text)| match is_index {
            true => (NewPart::Index(position), text.clone()),
            false => (NewPart::Key(position), text.clone()),
        }));
        let index = key_definition(&mut table, key)?;
        table.indexes.push(index);
    }
    for (index, comment) in indexes {
        comments.extend(comment.map(|text| (NewPart::Index(table.indexes.len()), text)));
        unnamed.push(table.indexes.len());
        table.indexes.push(index);
    }
    check_constraint_names(&checks, &table.name)?;
    add_checks(&mut table, checks.iter().map(|(name, expr)| (name.clone(), expr)).collect())?;
    table.validate()?;
    let (temporary, if_not_exists) = (create.temporary, create.if_not_exists);
    let definition = table;
    Ok(NewTable { name, temporary, definition, sequences, foreign_keys, unnamed, comments, if_not_exists })
}

fn on_commit(create: &ast::CreateTable) -> OnCommit {
    match create.on_commit {
        None | Some(ast::OnCommit::PreserveRows) => OnCommit::Preserve,
        Some(ast::OnCommit::DeleteRows) => OnCommit::DeleteRows,
        Some(ast::OnCommit::Drop) => OnCommit::Drop,
    }
}

fn create_view(create: &ast::CreateView) -> Result<Definition> {
    // What is left are the parts that are read.
    let plain = ast::CreateView {
        or_alter: false,
        materialized: create.materialized,
        if_not_exists: create.materialized && create.if_not_exists,
        secure: false,
        name_before_not_exists: false,
        options: match &create.options {
            options @ ast::CreateTableOptions::With(_) if !create.materialized => options.clone(),
            _ => ast::CreateTableOptions::None,
        },
        cluster_by: Vec::new(),
        comment: None,
        with_no_schema_binding: false,
        copy_grants: false,
        to: None,
        params: None,
        ..create.clone()
    };
    let has_options =
        create.columns.iter().any(|column| column.data_type.is_some() || column.options.is_some());
    if plain != *create || has_options {
        return Err(not_supported("CREATE VIEW with options"));
    }
    if create.materialized {
        return match create.or_replace {
            true => Err(crate::syntax_error::near("MATERIALIZED")),
            false => Ok(Definition::CreateMaterializedView(Box::new(plain))),
        };
    }
    Ok(Definition::CreateView(Box::new(plain)))
}

/// 42710 if two conditions have one name.
fn check_constraint_names(checks: &[(Option<String>, Expr)], table: &str) -> Result<()> {
    let names: Vec<&String> = checks.iter().filter_map(|(name, _)| name.as_ref()).collect();
    let repeated = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    match repeated {
        None => Ok(()),
        Some((_, name)) => {
            let message =
                format!("constraint {} for relation {} already exists", quoted(name), quoted(table));
            Err(Error::new(SqlState::DuplicateObject, message))
        }
    }
}

/// A PRIMARY KEY or UNIQUE constraint.
pub(crate) struct Key {
    pub name: Option<String>,
    pub columns: Vec<String>,
    pub primary: bool,
    pub kind: IndexKind,
    /// Whether NULL equals NULL.
    pub nulls_are_equal: bool,
}

/// The key that a constraint of a table asks for, if it is one.
pub(crate) fn table_key(constraint: &TableConstraint) -> Result<Option<Key>> {
    Ok(Some(match constraint {
        TableConstraint::PrimaryKey(key) => Key {
            name: key.name.as_ref().map(folded),
            columns: key.columns.iter().map(key_column).collect::<Result<_>>()?,
            primary: true,
            kind: key_kind(key.index_type.as_ref(), &key.index_options)?,
            nulls_are_equal: false,
        },
        TableConstraint::Unique(key) => Key {
            name: key.name.as_ref().map(folded),
            columns: key.columns.iter().map(key_column).collect::<Result<_>>()?,
            primary: false,
            kind: key_kind(key.index_type.as_ref(), &key.index_options)?,
            nulls_are_equal: nulls_are_equal(key),
        },
        _ => return Ok(None),
    }))
}

/// What comes with new columns beside themselves.
#[derive(Default)]
pub(crate) struct NewColumn {
    pub keys: Vec<Key>,
    /// Those by which columns count, with their positions.
    pub sequences: Vec<OwnSequence>,
    /// Conditions, with their names if they have one.
    pub checks: Vec<(Option<String>, Expr)>,
    pub foreign_keys: Vec<ForeignKeyClause>,
    /// Of columns that are computed from others.
    pub generations: Vec<NewGeneration>,
}

/// What comes with the columns of a new table, those that it has of others among them.
#[derive(Default)]
pub(crate) struct NewColumns {
    pub own: NewColumn,
    /// Indexes that are no constraints, each with its comment.
    pub indexes: Vec<(IndexDefinition, Option<String>)>,
    pub comments: Vec<(NewPart, String)>,
    /// Comments on keys, by their columns: on the index, or on the constraint.
    pub key_comments: Vec<(Vec<String>, bool, String)>,
}

impl NewColumn {
    fn extend(&mut self, other: NewColumn) {
        self.keys.extend(other.keys);
        self.sequences.extend(other.sequences);
        self.checks.extend(other.checks);
        self.foreign_keys.extend(other.foreign_keys);
        self.generations.extend(other.generations);
    }
}

/// The type of a column.
///
/// # Errors
/// 42704 for a type that there is not, 0A000 for one that only expressions have.
pub(crate) fn column_type(parsed: &ast::DataType) -> Result<DataType> {
    match data_type(parsed)? {
        array @ DataType::System(SystemType::List(list)) if has_columns(list) => Ok(array),
        known @ DataType::System(SystemType::Oid | SystemType::Name | SystemType::Char) => Ok(known),
        DataType::System(system) => Err(not_supported(&format!("a column of type {system}"))),
        known => Ok(known),
    }
}

/// Whether columns can have the array type: not those of the catalog.
fn has_columns(list: ListType) -> bool {
    !list.is_vector() && !matches!(list.item_type(), DataType::System(_))
}

/// The collation that is named for a column; `None` if it is the one that its values have anyway.
fn collation(options: &[ast::ColumnOptionDef], data_type: DataType) -> Result<Option<String>> {
    let mut named = options.iter().filter_map(|option| match &option.option {
        ColumnOption::Collation(name) => Some(name),
        _ => None,
    });
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        (Some(name), None) => sortable_collation(&system_name(name)?, data_type),
        (Some(_), Some(_)) => Err(Error::new(SqlState::SyntaxError, "multiple COLLATE clauses not allowed")),
    }
}

/// Adds a column behind the others, which may be of a domain.
pub(crate) fn add_column(table: &mut TableDefinition, column: &ast::ColumnDef) -> Result<NewColumn> {
    check_column_name(&folded(&column.name))?;
    let mut new = add_plain_column(table, column)?;
    let is_counted = !new.sequences.is_empty() || !new.generations.is_empty();
    if let (Some(version), Some(added)) =
        (crate::domains::domain(&column.data_type), table.columns.last_mut())
    {
        let gives_default = added.default.is_none() && !is_counted;
        if gives_default {
            added.default.clone_from(&version.default);
        }
        added.domain = Some(version.of_column(gives_default));
        new.checks.extend(version.check(&added.name).map(|(name, expr)| (Some(name), expr)));
    }
    Ok(new)
}

fn add_plain_column(table: &mut TableDefinition, column: &ast::ColumnDef) -> Result<NewColumn> {
    let NewColumn { mut keys, mut sequences, mut checks, mut foreign_keys, mut generations } =
        NewColumn::default();
    let name = folded(&column.name);
    let serial = serial_type(&column.data_type);
    let data_type = serial.map_or_else(|| column_type(&column.data_type), Ok)?;
    let mut definition = ColumnDefinition::new(name.clone(), data_type);
    definition.nullable = serial.is_none();
    let mut counted = serial.map(|data_type| identity_sequence(data_type, None)).transpose()?;
    definition.collation = collation(&column.options, data_type)?;
    for (at, option) in column.options.iter().enumerate() {
        let constraint = option.name.as_ref().map(folded);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => definition.nullable = false,
            ColumnOption::PrimaryKey(_) => {
                let (columns, kind) = (vec![name.clone()], IndexKind::Ordered);
                keys.push(Key { name: constraint, columns, primary: true, kind, nulls_are_equal: false });
            }
            ColumnOption::Unique(key) => {
                let (columns, kind) = (vec![name.clone()], IndexKind::Ordered);
                let nulls_are_equal = nulls_are_equal(key) || are_equal(column.options.get(at + 1));
                keys.push(Key { name: constraint, columns, primary: false, kind, nulls_are_equal });
            }
            ColumnOption::Default(_) if counted.is_some() || definition.default.is_some() => {
                return Err(several_defaults(&name, &table.name));
            }
            ColumnOption::Default(expr) => definition.default = Some(written_default(expr, &definition)?),
            ColumnOption::ForeignKey(clause) => {
                foreign_keys.push(foreign_key(clause, option.name.as_ref(), std::slice::from_ref(&name))?);
            }
            ColumnOption::Collation(_) => {}
            // Bound when all columns are known.
            ColumnOption::Check(check) => checks.push((constraint, (*check.expr).clone())),
            ColumnOption::Generated { generation_expr: None, .. }
                if counted.is_some() || definition.default.is_some() =>
            {
                return Err(several_defaults(&name, &table.name));
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                definition.identity = Some(match generated_as {
                    ast::GeneratedAs::Always => Identity::Always,
                    _ => Identity::ByDefault,
                });
                definition.nullable = false;
                counted = Some(identity_sequence(data_type, sequence_options.as_deref())?);
            }
            ColumnOption::Generated {
                generated_as, generation_expr: Some(expr), generated_keyword, ..
            } => {
                check_generation(*generated_as, *generated_keyword)?;
                if !generations.is_empty() {
                    return Err(contradiction("multiple generation clauses", &name, &table.name));
                }
                generations.push((name.clone(), expr.clone()));
            }
            // Read with the UNIQUE before it.
            ColumnOption::Comment(_) if are_equal(Some(option)) => {}
            ColumnOption::Comment(_) => return Err(crate::syntax_error::near("COMMENT")),
            ColumnOption::Identity(_) => return Err(crate::syntax_error::near("IDENTITY")),
            other => return Err(not_supported(&format!("the column option {other}"))),
        }
    }
    check_null(&definition, column, &table.name)?;
    if !generations.is_empty() && definition.identity.is_some() {
        return Err(contradiction("both identity and generation expression", &name, &table.name));
    }
    if !generations.is_empty() && (definition.default.is_some() || counted.is_some()) {
        return Err(contradiction("both default and generation expression", &name, &table.name));
    }
    sequences.extend(counted.map(|sequence| OwnSequence { column: table.columns.len(), ..sequence }));
    table.columns.push(definition);
    Ok(NewColumn { keys, sequences, checks, foreign_keys, generations })
}

/// The text of a default, which is no condition unless it is in parentheses.
fn written_default(expr: &Expr, column: &ColumnDefinition) -> Result<String> {
    let word = match expr {
        Expr::InList { negated: false, .. } | Expr::InSubquery { negated: false, .. } => "IN",
        Expr::Between { negated: false, .. } => "BETWEEN",
        Expr::Like { negated: false, .. } => "LIKE",
        Expr::ILike { negated: false, .. } => "ILIKE",
        Expr::BinaryOp { op: ast::BinaryOperator::And, .. } => "AND",
        Expr::BinaryOp { op: ast::BinaryOperator::Or, .. } => "OR",
        Expr::UnaryOp { op: ast::UnaryOperator::Not, .. } => "NOT",
        _ => return checked(expr, column),
    };
    Err(crate::syntax_error::near(word))
}

/// 42601 for a column that says NULL and cannot be.
fn check_null(definition: &ColumnDefinition, column: &ast::ColumnDef, table: &str) -> Result<()> {
    let is_null = |option: &ast::ColumnOptionDef| matches!(option.option, ColumnOption::Null);
    if definition.nullable || !column.options.iter().any(is_null) {
        return Ok(());
    }
    let of = format!("column {} of table {}", quoted(&definition.name), quoted(table));
    Err(Error::new(SqlState::SyntaxError, format!("conflicting NULL/NOT NULL declarations for {of}")))
}

/// 42601 for what other dialects write.
fn check_generation(generated_as: ast::GeneratedAs, has_keyword: bool) -> Result<()> {
    match (generated_as, has_keyword) {
        (ast::GeneratedAs::ExpStored, true) => Ok(()),
        (_, true) => Err(crate::syntax_error::near(")")),
        (_, false) => Err(crate::syntax_error::near("AS")),
    }
}

fn several_defaults(column: &str, table: &str) -> Error {
    contradiction("multiple default values", column, table)
}

/// 42601.
fn contradiction(what: &str, column: &str, table: &str) -> Error {
    let message = format!("{what} specified for column {} of table {}", quoted(column), quoted(table));
    Error::new(SqlState::SyntaxError, message)
}

/// The index of a key, whose columns forbid NULL from now on if it is the primary one.
pub(crate) fn key_definition(table: &mut TableDefinition, key: Key) -> Result<IndexDefinition> {
    let mut columns = Vec::with_capacity(key.columns.len());
    for name in &key.columns {
        let position = table.position(name).ok_or_else(|| {
            let message = format!("column {} named in key does not exist", quoted(name));
            Error::new(SqlState::UndefinedColumn, message)
        })?;
        if columns.contains(&position) {
            let message = format!("column {} appears twice in a key", quoted(name));
            return Err(Error::new(SqlState::DuplicateColumn, message));
        }
        columns.push(position);
    }
    if key.primary {
        columns.iter().for_each(|&column| table.columns[column].nullable = false);
    }
    let name = key.name.unwrap_or_else(|| match key.primary {
        true => format!("{}_pkey", table.name),
        false => format!("{}_{}_key", table.name, key.columns.join("_")),
    });
    let Key { primary, kind, nulls_are_equal, .. } = key;
    let style = IndexStyle { nulls_are_equal, ..IndexStyle::default() };
    let derivation = None;
    Ok(IndexDefinition { name, columns, derivation, unique: true, primary, is_constraint: true, kind, style })
}

fn nulls_are_equal(key: &ast::UniqueConstraint) -> bool {
    key.nulls_distinct == ast::NullsDistinctOption::NotDistinct
}

/// The name of a key column. Every index is ascending with NULLs last; it is read backward where the order
/// asked for is the opposite.
fn key_column(column: &ast::IndexColumn) -> Result<String> {
    if column.operator_class.is_some() || column.column.options.nulls_first == Some(true) {
        return Err(not_supported("an operator class or NULLS FIRST in an index"));
    }
    match &column.column.expr {
        Expr::Identifier(ident) => Ok(folded(ident)),
        _ => Err(not_supported("an index over an expression")),
    }
}

fn drop_indexes(mut names: Vec<QualifiedName>, if_exists: bool) -> Result<Definition> {
    let is_marker = |name: &QualifiedName| name.name == CONCURRENTLY;
    let concurrently = names.first().is_some_and(is_marker);
    names.retain(|name| !is_marker(name));
    if concurrently && names.len() > 1 {
        let message = "DROP INDEX CONCURRENTLY does not support dropping multiple objects";
        return Err(Error::new(SqlState::FeatureNotSupported, message));
    }
    Ok(Definition::DropIndexes { names, if_exists, concurrently })
}

/// What `USING` asks for in a constraint, `PRIMARY KEY (a) USING HASH`. PostgreSQL has no syntax for it; this is
/// MySQL's.
fn key_kind(before: Option<&ast::IndexType>, behind: &[ast::IndexOption]) -> Result<IndexKind> {
    behind.iter().try_fold(index_kind(before)?, |_, option| match option {
        ast::IndexOption::Using(using) => index_kind(Some(using)),
        other => Err(not_supported(&format!("the index option {other}"))),
    })
}

/// The positions of an index's columns. 42703 for an unknown name.
pub(crate) fn positions(table: &ankerdb_engine::Table, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| table.column_position(name).ok_or_else(|| undefined_column(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::DataType;

    fn define(sql: &str) -> Result<Definition> {
        let statement = crate::parse::parse(sql)?.remove(0);
        Ok(definition(statement.ast.as_ref().unwrap())?.expect("a definition"))
    }

    fn table(sql: &str) -> TableDefinition {
        match define(sql).unwrap() {
            Definition::CreateTable(new) => new.definition,
            _ => panic!("not a table"),
        }
    }

    #[test]
    fn tables_have_columns_keys_and_names_as_in_postgres() {
        let table = table(
            "CREATE TABLE Orders (id bigint, Customer varchar(10) NOT NULL UNIQUE, total numeric(12,2) NULL,
             shipped timestamp with time zone, CONSTRAINT pk PRIMARY KEY (id), UNIQUE (total, shipped))",
        );
        assert_eq!(table.name, "orders");
        let columns: Vec<_> =
            table.columns.iter().map(|c| (c.name.as_str(), c.data_type, c.nullable)).collect();
        assert_eq!(
            columns,
            [
                ("id", DataType::BigInt, false),
                ("customer", DataType::Varchar(10), false),
                ("total", DataType::Numeric { precision: 12, scale: 2 }, true),
                ("shipped", DataType::TIMESTAMPTZ, true),
            ]
        );
        let indexes: Vec<_> =
            table.indexes.iter().map(|i| (i.name.as_str(), i.columns.clone(), i.primary)).collect();
        assert_eq!(
            indexes,
            [
                ("pk", vec![0], true),
                ("orders_customer_key", vec![1], false),
                ("orders_total_shipped_key", vec![2, 3], false)
            ]
        );
    }

    #[test]
    fn what_is_missing_is_refused_by_name() {
        let state = |sql: &str| define(sql).err().expect("an error").state().code();
        assert_eq!(state("create table t (a int default b, b int)"), "0A000");
        assert_eq!(state("create table t (a int default true)"), "42804");
        assert_eq!(state("create table t (a int default 'x')"), "22P02");
        assert_eq!(state("create table t (a serial default 5)"), "42601");
        assert_eq!(state("create table t (a text generated always as identity)"), "22023");
        assert_eq!(state("create sequence s increment 0"), "22023");
        assert_eq!(state("create sequence s as text"), "22023");
        assert_eq!(state("create table t (a int check (a + 1))"), "42804");
        assert_eq!(state("create table t (a int check (b > 0))"), "42703");
        assert_eq!(state("create table t (a int check (a > (select 1)))"), "0A000");
        assert_eq!(state("create table t (a int, a int)"), "42701");
        assert_eq!(state("create table t (a int, primary key (b))"), "42703");
        assert_eq!(state("create table t (a int primary key, b int primary key)"), "42P16");
        assert_eq!(state("create table t (a nonsense)"), "42704");
    }
}
