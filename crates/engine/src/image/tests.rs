//! What is written is read again. What is damaged is tested in `damage_tests`, and what SQL makes on the SQL floor.

use super::bytes::Writer;
use super::*;
use crate::comment::{Object, Part, Subject};
use crate::{
    Catalog, ColumnDefinition, DataType, Database, Error, Interrupt, RelationName, SchemaId, SearchPath,
    SequenceCount, SequenceDefinition, SqlState, TableDefinition, Value, View,
};
use crate::{EnumType, NewForeignKey, UserType};
use ankerdb_base::Result;
use ankerdb_table::{Check, ConstraintTiming, IndexDefinition, ReferentialAction};
use std::sync::Arc;

pub(super) fn column(name: &str, data_type: DataType) -> ColumnDefinition {
    ColumnDefinition::new(name, data_type)
}

/// The catalog that a database has after the change.
pub(super) fn restored(changes: &[Vec<u8>], binder: &dyn Binder) -> Result<Database> {
    let mut recovered = RecoveredCatalog::new();
    changes.iter().try_for_each(|bytes| recovered.apply(bytes))?;
    let database = Database::new();
    database.restore_catalog(recovered, binder).map(|()| database)
}

/// All that a catalog says.
fn said(catalog: &Catalog) -> Vec<String> {
    let schemas = catalog.schemas().map(|schema| format!("{schema:?}"));
    let tables = catalog.tables().map(|table| {
        let indexes: Vec<_> = catalog.indexes_of(table).map(|index| index.definition()).collect();
        let definition = TableDefinition { indexes: Vec::new(), ..table.definition().clone() };
        format!("{} {} {definition:?} {indexes:?}", table.id().number(), table.origin().number())
    });
    let sequences = catalog
        .sequences()
        .map(|sequence| format!("{} {:?} {:?}", sequence.number(), sequence.definition(), sequence.count()));
    let views = catalog.views().map(|view| format!("{view:?}"));
    let types = catalog.user_types().map(|known| {
        format!("{} {:?} {} {:?}", known.name, known.schema, known.labels.oid(), known.state.labels())
    });
    let comments = catalog.comments().map(|(subject, text)| match subject.object {
        Object::Table(origin) => format!("{} {:?} {text}", origin.number(), subject.part),
        _ => format!("{subject:?} {text}"),
    });
    let all = schemas.chain(tables).chain(sequences).chain(views).chain(types).chain(comments);
    // What differs from database to database, and from type to type.
    let plain = |text: String| {
        let mut pieces = text.split("TableId(");
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |all, piece| {
            let (number, rest) = piece.split_once(')').unwrap_or_default();
            format!("{all}table {}{rest}", number.parse::<u64>().unwrap_or_default() as u32)
        })
    };
    all.map(plain).collect()
}

/// Changes that keep what comes after each of them.
pub(super) struct History {
    pub(super) database: Database,
    base: Arc<Catalog>,
    changes: Vec<Vec<u8>>,
}

impl History {
    pub(super) fn new() -> History {
        let database = Database::new();
        History { base: database.catalog(), database, changes: Vec::new() }
    }

    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut crate::Definitions) -> Result<T>) -> T {
        let mut definitions = self.database.definitions(&Interrupt::new());
        let changed = change(&mut definitions).unwrap();
        let catalog = definitions.catalog().unwrap();
        self.changes.push(definitions.catalog_change(&catalog).encode().unwrap());
        definitions.commit(None).unwrap();
        self.base = self.database.catalog();
        changed
    }

    /// A change with a transaction of rows.
    fn change_rows<T>(
        &mut self,
        change: impl FnOnce(&mut crate::Definitions, &mut crate::Transaction) -> Result<T>,
    ) -> T {
        let mut session = self.database.session();
        let mut transaction = session.begin(crate::Isolation::Serializable);
        let mut definitions = self.database.definitions(&Interrupt::new());
        let changed = change(&mut definitions, &mut transaction).unwrap();
        let catalog = definitions.catalog().unwrap();
        self.changes.push(definitions.catalog_change(&catalog).encode().unwrap());
        definitions.commit(Some(&mut transaction)).unwrap();
        changed
    }

    fn check(&self) {
        let catalog = self.database.catalog();
        let by_changes = restored(&self.changes, &NoTexts).unwrap();
        assert_eq!(said(&by_changes.catalog()), said(&catalog), "change by change");
        let at_once = restored(&[CatalogChange::whole(&catalog).encode().unwrap()], &NoTexts).unwrap();
        assert_eq!(said(&at_once.catalog()), said(&catalog), "at once");
    }
}

fn parent() -> TableDefinition {
    TableDefinition::new("parent")
        .column(column("id", DataType::Integer))
        .column(column("text", DataType::Varchar(9)).nullable())
        .primary_key(&["id"])
        .index("parent_text", &["text", "id"], false)
        .hashed("parent_text")
}

fn reference() -> NewForeignKey {
    NewForeignKey {
        name: "child_id_fkey".into(),
        columns: vec!["id".into()],
        parent: crate::QualifiedName { schema: None, name: "parent".into() },
        parent_columns: Vec::new(),
        on_delete: ReferentialAction::SetDefault,
        on_update: ReferentialAction::Cascade,
        set_columns: Vec::new(),
        defaults: vec![Value::Integer(7)],
        is_full: true,
        timing: ConstraintTiming::Deferred,
        is_validated: false,
    }
}

#[test]
fn everything_that_the_engine_can_make_is_read_as_it_was_written() {
    let mut history = History::new();
    history.check();
    let (labels, life) = EnumType::create("mood", ["sad", "ok"]).unwrap();
    let (schema, life) = (history.change(|own| own.create_schema("s")), Arc::new(life));
    history.change(|own| {
        let (name, state) = ("mood".to_owned(), labels.state());
        own.create_type(UserType { schema, name, labels, life: life.clone(), state })
    });
    history.change(|own| own.create_table(parent()));
    let mut child = TableDefinition::new("child")
        .column(column("id", DataType::Integer))
        .column(column("mood", DataType::Enum(labels)));
    child.schema = schema;
    child.columns[0].default = Some("nextval('s.child_id_seq')".into());
    child.columns[1].default = Some(format!("'ok'::pg_catalog.enum_{}", labels.number()));
    let mut counts = SequenceDefinition::new("child_id_seq", DataType::Integer);
    counts.schema = schema;
    counts.owner = Some((RelationName::new(schema, "child"), 0));
    history.change(|own| own.create_table_with(child, vec![counts]));
    let name = RelationName::new(schema, "child");
    history.change_rows(|own, transaction| own.add_foreign_key(&name, &reference(), transaction));
    let sequence = history.database.catalog().sequence(&RelationName::new(schema, "child_id_seq")).unwrap();
    sequence.next().unwrap();
    let view = View {
        schema,
        name: "v".into(),
        columns: vec![column("mood", DataType::Enum(labels)).nullable()],
        query: format!("SELECT 'sad'::pg_catalog.enum_{}", labels.number()),
        reads: Vec::new(),
        options: vec![("check_option".into(), "local".into())],
    };
    history.change(|own| own.create_view(view, false));
    let origin = history.database.catalog().table(&name).unwrap().origin();
    history.change(|own| {
        own.set_comment(Subject::new(Object::Table(origin), Part::Column(1)), Some("feelings"))?;
        own.set_comment(Subject::new(Object::Schema(SchemaId::PUBLIC), Part::Whole), None)
    });
    history.change(|own| {
        own.create_index("parent", index("parent_later"))?;
        own.rename_schema("s", "t")
    });
    // The sequence is written again: it has counted.
    history.changes.push(CatalogChange::whole(&history.database.catalog()).encode().unwrap());
    let catalog = history.database.catalog();
    let by_changes = restored(&history.changes, &NoTexts).unwrap();
    // Texts name the type by another number there.
    let labels_there = by_changes.catalog().user_types().next().unwrap().labels;
    assert_ne!(labels_there, labels);
    let renumbered: Vec<String> = said(&catalog)
        .into_iter()
        .map(|text| {
            text.replace(&format!("{labels:?}"), &format!("{labels_there:?}"))
                .replace(&format!("enum_{}", labels.number()), &format!("enum_{}", labels_there.number()))
        })
        .collect();
    assert_eq!(said(&by_changes.catalog()), renumbered);
}

pub(super) fn index(name: &str) -> IndexDefinition {
    IndexDefinition {
        name: name.into(),
        columns: vec![1],
        derivation: None,
        unique: false,
        primary: false,
        is_constraint: false,
        kind: Default::default(),
        style: Default::default(),
    }
}

pub(super) fn two(name: &str) -> TableDefinition {
    TableDefinition::new(name)
        .column(column("a", DataType::Integer))
        .column(column("b", DataType::BigInt).nullable())
        .primary_key(&["a"])
}

#[test]
fn names_change_hands() {
    let mut history = History::new();
    history.change(|own| own.create_table(two("t")));
    history.change(|own| own.create_table(two("u")));
    history.change(|own| {
        own.drop_table("t", None)?;
        own.create_table(two("t").column(column("c", DataType::Text)))
    });
    history.check();
    // Each gets the other's name.
    history.change_rows(|own, transaction| {
        for (old, new) in [("t", "x"), ("u", "t"), ("x", "u")] {
            let table = own.catalog()?.table(old)?;
            let definition = TableDefinition { name: new.into(), ..table.definition().clone() };
            own.redefine_table(&table, definition, transaction)?;
        }
        Ok(())
    });
    history.check();
    history.change(|own| {
        own.create_schema("a")?;
        own.create_schema("b")
    });
    history.change(|own| {
        own.rename_schema("a", "x")?;
        own.rename_schema("b", "a")?;
        own.rename_schema("x", "b")
    });
    history.check();
    history.change(|own| {
        own.drop_schema("a")?;
        own.create_schema("a")
    });
    history.change(|own| own.create_sequence(SequenceDefinition::new("n", DataType::BigInt)));
    let name = RelationName::new(SchemaId::PUBLIC, "n");
    let former = history.database.catalog().sequence("n").unwrap().number();
    history.change(|own| {
        own.redefine_sequence(&name, SequenceDefinition::new("m", DataType::SmallInt), Some(7))?;
        own.create_sequence(SequenceDefinition::new("n", DataType::BigInt))
    });
    history.check();
    let catalog = history.database.catalog();
    let numbers = [catalog.sequence("m").unwrap().number(), catalog.sequence("n").unwrap().number(), former];
    assert!(numbers[0] != numbers[1] && numbers[0] != numbers[2] && numbers[1] != numbers[2]);
    history.change_rows(|own, transaction| own.drop_table("u", Some(transaction)));
    history.check();
}

#[test]
fn indexes_belong_to_the_commit_that_makes_or_drops_them() {
    let mut history = History::new();
    history.change(|own| own.create_table(two("t")));
    let database = history.database.clone();
    let mut others = database.definitions(&Interrupt::new());
    others.create_index("t", index("of_others")).unwrap();
    // The table is written while an index is there that may yet go.
    history.change_rows(|own, transaction| {
        let table = own.catalog()?.table("t")?;
        let mut definition = table.definition().clone();
        definition.columns[1].default = Some("1".into());
        own.redefine_table(&table, definition, transaction)
    });
    let indexes = |history: &History| {
        let there = restored(&history.changes, &NoTexts).unwrap().catalog();
        let table = there.table("t").unwrap();
        there.indexes_of(&table).map(|index| index.definition().name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(indexes(&history), ["t_pkey"]);
    let catalog = others.catalog().unwrap();
    let change = others.catalog_change(&catalog).encode().unwrap();
    others.commit(None).unwrap();
    history.changes.push(change);
    history.check();
    history.change(|own| own.create_index("t", index("second")));
    history.change(|own| own.drop_index("of_others"));
    history.check();
    history.change(|own| {
        own.drop_index("second")?;
        own.create_index("t", index("third"))
    });
    history.check();
}

#[test]
fn nothing_of_sessions_is_written() {
    let mut history = History::new();
    history.change(|own| own.create_table(two("t")));
    let temporary = Arc::new(SearchPath { temporary: Some("pg_temp_3".into()), ..SearchPath::default() });
    let before = history.changes.len();
    let schema = history.change(|own| own.create_schema("pg_temp_3"));
    let table = history.change(|own| {
        own.set_path(&temporary);
        let mut counts = SequenceDefinition::new("n", DataType::BigInt);
        counts.schema = schema;
        counts.owner = Some((RelationName::new(schema, "temporary"), 0));
        own.create_table_with(TableDefinition { schema, ..two("temporary") }, vec![counts])
    });
    history.change(|own| {
        own.set_comment(Subject::new(Object::Table(table.origin()), Part::Whole), Some("mine"))?;
        own.set_comment(Subject::new(Object::Schema(schema), Part::Whole), Some("mine"))
    });
    history.change(|own| {
        own.set_path(&temporary);
        own.drop_table(crate::NameRef::In(schema, "temporary"), None)?;
        own.drop_schema("pg_temp_3")
    });
    let nothing = CatalogChange::default().encode().unwrap();
    assert!(history.changes[before..].iter().all(|change| *change == nothing));
    history.check();
}

#[test]
fn numbers_are_not_given_again() {
    let mut history = History::new();
    for _ in 0..3 {
        history.change(|own| own.create_table(two("t")));
        history.change(|own| own.create_schema("s"));
        history.change(|own| {
            own.drop_table("t", None)?;
            own.drop_schema("s")
        });
    }
    history.change(|own| own.create_table(two("last")));
    history.change(|own| own.create_table(two("gone")));
    history.change(|own| own.drop_table("gone", None));
    let mut recovered = RecoveredCatalog::new();
    history.changes.iter().for_each(|bytes| recovered.apply(bytes).unwrap());
    let gone = recovered.tables_end;
    assert_eq!(gone, history.database.catalog().table("last").unwrap().id().number() + 2);
    recovered.note_table(700);
    let count = SequenceCount { changes: 9, last: 4, is_used: true };
    recovered.note_sequence(1_000_000, count);
    let database = Database::new();
    database.restore_catalog(recovered, &NoTexts).unwrap();
    let last = history.database.catalog().table("last").unwrap();
    let (catalog, number) = (database.catalog(), last.id().number());
    let tables: Vec<_> = catalog.tables().map(|table| (table.name(), table.id().number())).collect();
    assert_eq!(tables, [("last", number)]);
    assert_eq!(catalog.table("last").unwrap().columns()[1].data_type, DataType::BigInt);
    let new = database.create_table(two("new")).unwrap();
    assert_eq!(new.id().number(), 701);
    database.define(|own| own.create_sequence(SequenceDefinition::new("n", DataType::BigInt))).unwrap();
    assert!(database.catalog().sequence("n").unwrap().number() > 1_000_000);
}

#[test]
fn a_sequence_goes_on_behind_the_newest_count() {
    let mut history = History::new();
    history.change(|own| own.create_sequence(SequenceDefinition::new("n", DataType::BigInt)));
    let sequence = history.database.catalog().sequence("n").unwrap();
    (1..6).for_each(|number| assert_eq!(sequence.next(), Ok(number)));
    let counted = sequence.count();
    let goes_on = |counts: &[SequenceCount]| {
        let mut recovered = RecoveredCatalog::new();
        recovered.apply(&history.changes[0]).unwrap();
        counts.iter().for_each(|count| recovered.note_sequence(sequence.number(), *count));
        let database = Database::new();
        database.restore_catalog(recovered, &NoTexts).unwrap();
        database.catalog().sequence("n").unwrap().next().unwrap()
    };
    let older = SequenceCount { changes: 2, last: 2, is_used: true };
    assert_eq!(goes_on(&[]), 1);
    assert_eq!(goes_on(&[older, counted]), 6);
    assert_eq!(goes_on(&[counted, older]), 6);
    sequence.set(100, false).unwrap();
    assert_eq!(goes_on(&[sequence.count(), counted]), 100);
    // An image may be newer than all records.
    let mut recovered = RecoveredCatalog::new();
    recovered.apply(&CatalogChange::whole(&history.database.catalog()).encode().unwrap()).unwrap();
    recovered.note_sequence(sequence.number(), counted);
    let database = Database::new();
    database.restore_catalog(recovered, &NoTexts).unwrap();
    assert_eq!(database.catalog().sequence("n").unwrap().next(), Ok(100));
}

#[test]
fn what_is_written_in_sql_is_refused_without_it() {
    let mut table = two("t");
    table.checks.push(Check {
        name: "c".into(),
        text: "a > 0".into(),
        columns: ankerdb_base::ColumnSet::of(&[0]),
        is_validated: true,
        test: Arc::new(|_| Ok(true)),
    });
    let database = Database::new();
    database.create_table(table).unwrap();
    let bytes = CatalogChange::whole(&database.catalog()).encode().unwrap();
    let error = restored(&[bytes], &NoTexts).map(drop).unwrap_err();
    assert_eq!(error.state(), SqlState::FeatureNotSupported);
    assert!(error.message().contains("a > 0") && error.message().contains("\"t\""), "{error}");
}

#[test]
fn what_is_too_large_is_said_when_it_is_finished() {
    let mut out = Writer::default();
    out.fail(Error::internal("first"));
    out.sql("1::pg_catalog.enum_4294967295");
    assert_eq!(out.finish().unwrap_err().message(), "first");
    let mut out = Writer::default();
    out.sql("1::pg_catalog.enum_4294967295");
    assert_eq!(out.finish().unwrap_err().state(), SqlState::InternalError);
}
