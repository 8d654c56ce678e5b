//! Constraints of an organization (section 4.6.1 of the dissertation, Algorithm 3): conditions in the SQL of its own database,
//! over a proposed transaction and local data, that have to hold before it agrees.
//!
//! ```text
//! new.amount <= (SELECT amount FROM stocks WHERE stocks.product = new.product)
//!
//! WITH proposal (client, number, place, verb, statement, parameters) AS (...),      the statement
//!      new_rows (...) AS (...), old_rows (...) AS (...)                             rows after and before, of all statements
//! SELECT key FROM proposal LEFT JOIN rows of this statement AS new LEFT JOIN ... AS old
//! WHERE (the condition) IS NOT TRUE LIMIT 1                                         a row for which it does not hold
//! ```
//! Nothing is executed: the rows of an UPDATE are those that its WHERE finds now, with what it assigns as expressions over them.
//! So each statement is seen on the committed state, and a transaction whose statements on one table may meet in a row is refused.
//! A statement that finds no row is judged once, with NULL in all columns of `new` and `old`.
//!
//! What an organization agrees to may have changed until the block is executed; an agreement ends with a block for that reason.

use crate::access::LockReach;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::member::connection::SqlFailure;
use crate::member::reader::ReadingSession;
use crate::message::ProposedStatement;
use crate::schedule::{PlacedTransaction, conflict_components};
use crate::statement::{PortableStatement, StatementVerb};
use crate::value::{LedgerType, LedgerValue};
use std::collections::BTreeMap;

/// A condition of an organization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrganizationConstraint {
    /// Its name; others see it when the organization does not agree.
    pub name: String,
    /// The shared table that it is about.
    pub table: String,
    /// The statements that it is about; all where there is none.
    pub verbs: Vec<StatementVerb>,
    /// The condition.
    pub check: String,
}

/// A transaction that is judged.
#[derive(Debug, Clone, Copy)]
pub struct JudgedTransaction<'a> {
    /// Name of its client.
    pub client: &'a str,
    /// Its client's number for it.
    pub number: u64,
    /// As they were signed.
    pub proposed: &'a [ProposedStatement],
    /// As they are executed.
    pub statements: &'a [PortableStatement],
    /// The shared tables.
    pub tables: &'a BTreeMap<String, SharedTable>,
}

/// Why an organization does not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    /// What it tells others.
    pub reason: String,
    /// What its own people are told beside that: it may be about local data.
    pub detail: Option<String>,
}

/// The rows after and before a statement, as queries of the columns of its table; nothing where there are none.
#[derive(Debug, Clone, Default)]
struct RowTexts {
    new: Option<String>,
    old: Option<String>,
}

fn verb_word(verb: StatementVerb) -> &'static str {
    match verb {
        StatementVerb::Insert => "insert",
        StatementVerb::Update => "update",
        StatementVerb::Delete => "delete",
    }
}

fn columns(table: &SharedTable) -> String {
    table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect::<Vec<_>>().join(", ")
}

/// The rows of a statement, or nothing if they cannot be said.
fn row_texts(
    statement: &PortableStatement,
    table: &SharedTable,
    session: &ReadingSession,
) -> Option<RowTexts> {
    let literal = |value: &LedgerValue| session.literal(value);
    let found = || format!("FROM \"{}\"{}", table.name, statement.condition_text(&literal));
    let old = || Some(format!("SELECT {} {}", columns(table), found()));
    if statement.verb == StatementVerb::Delete {
        return Some(RowTexts { new: None, old: old() });
    }
    let (assigned, rows) = statement.assigned(&literal)?;
    let value = |row: &[String], name: &str, kind: LedgerType| {
        let given = assigned.iter().position(|column| *column == name).map(|at| row[at].as_str());
        match given {
            Some(given) => session.typed(given, kind),
            None if statement.verb == StatementVerb::Update => format!("\"{name}\""),
            None => session.typed("NULL", kind),
        }
    };
    let values = |row: &Vec<String>| {
        let values = table.columns.iter().map(|column| value(row, &column.name, column.kind));
        values.collect::<Vec<_>>().join(", ")
    };
    Some(match statement.verb {
        StatementVerb::Update => {
            RowTexts { new: Some(format!("SELECT {} {}", values(rows.first()?), found())), old: old() }
        }
        _ => {
            let rows: Vec<String> = rows.iter().map(|row| format!("({})", values(row))).collect();
            RowTexts { new: Some(format!("VALUES {}", rows.join(", "))), old: None }
        }
    })
}

/// Queries one behind the other; without one, a query of no rows with the columns of the table.
fn union(queries: &[Option<&String>], table: &SharedTable, session: &ReadingSession) -> String {
    let queries: Vec<&str> = queries.iter().flatten().map(|query| query.as_str()).collect();
    if !queries.is_empty() {
        return queries.join(" UNION ALL ");
    }
    let nulls = table.columns.iter().map(|column| session.typed("NULL", column.kind));
    format!("SELECT {} FROM proposal WHERE 1 = 0", nulls.collect::<Vec<_>>().join(", "))
}

impl OrganizationConstraint {
    fn is_about(&self, verb: StatementVerb) -> bool {
        self.verbs.is_empty() || self.verbs.contains(&verb)
    }

    /// The query of keys for which the condition does not hold.
    fn query(
        &self,
        proposal: &str,
        verb: StatementVerb,
        own: &RowTexts,
        all: &[RowTexts],
        table: &SharedTable,
        session: &ReadingSession,
    ) -> String {
        let all_new = union(&all.iter().map(|rows| rows.new.as_ref()).collect::<Vec<_>>(), table, session);
        let all_old = union(&all.iter().map(|rows| rows.old.as_ref()).collect::<Vec<_>>(), table, session);
        let own_new = union(&[own.new.as_ref()], table, session);
        let own_old = union(&[own.old.as_ref()], table, session);
        let names: Vec<&str> = table.key.iter().map(|&at| table.columns[at].name.as_str()).collect();
        let keys: Vec<String> =
            names.iter().map(|name| format!("COALESCE(new.\"{name}\", old.\"{name}\")")).collect();
        let is_same: Vec<String> =
            names.iter().map(|name| format!("old.\"{name}\" = new.\"{name}\"")).collect();
        let (first, second) = if verb == StatementVerb::Delete { ("old", "new") } else { ("new", "old") };
        let (columns, keys, is_same) = (columns(table), keys.join(", "), is_same.join(" AND "));
        format!(
            "WITH proposal (client, number, place, verb, statement, parameters) AS (SELECT {proposal}), \
             new_rows ({columns}) AS ({all_new}), old_rows ({columns}) AS ({all_old}), \
             own_new_rows ({columns}) AS ({own_new}), own_old_rows ({columns}) AS ({own_old}) \
             SELECT {keys} FROM proposal LEFT JOIN own_{first}_rows AS {first} ON 1 = 1 \
             LEFT JOIN own_{second}_rows AS {second} ON {is_same} WHERE ({}) IS NOT TRUE LIMIT 1",
            self.check
        )
    }

    /// Whether the database takes the condition for rows of this table. It plans the query and does not execute it.
    ///
    /// # Errors
    /// What the database says.
    pub fn try_on(&self, table: &SharedTable, session: &mut ReadingSession) -> Result<(), SqlFailure> {
        let verb = self.verbs.first().copied().unwrap_or(StatementVerb::Insert);
        let nothing = RowTexts::default();
        let judged = proposal_text(session, "nobody", 0, 1, verb, "", "");
        let query = self.query(&judged, verb, &nothing, &[], table, session);
        session.read(&format!("EXPLAIN {query}")).map(drop)
    }

    fn objection(&self, failure: SqlFailure) -> Objection {
        Objection {
            reason: format!(
                "constraint \"{}\" could not be evaluated; its organization's status says why",
                self.name
            ),
            detail: Some(failure.message),
        }
    }

    /// Looks for a row of a statement for which the condition does not hold.
    fn judge_statement(
        &self,
        transaction: &JudgedTransaction<'_>,
        place: usize,
        rows: &BTreeMap<usize, RowTexts>,
        session: &mut ReadingSession,
    ) -> Result<Option<Objection>, SqlFailure> {
        let (statement, proposed) = (&transaction.statements[place], &transaction.proposed[place]);
        let table = &transaction.tables[&statement.table];
        let parameters: Vec<String> = proposed.values.iter().map(|value| session.literal(value)).collect();
        let (client, number, verb) = (transaction.client, transaction.number, statement.verb);
        let (sql, parameters) = (&proposed.sql, parameters.join(", "));
        let judged = proposal_text(session, client, number, place + 1, verb, sql, &parameters);
        let all: Vec<RowTexts> = rows.values().cloned().collect();
        let query = self.query(&judged, verb, &rows[&place], &all, table, session);
        let found = session.read(&query)?;
        let Some(key) = found.first() else { return Ok(None) };
        let names = table.key.iter().map(|&at| table.columns[at].name.as_str());
        let known = names.zip(key).filter_map(|(name, value)| {
            value.as_ref().map(|value| format!("{name} = {}", String::from_utf8_lossy(value)))
        });
        let known: Vec<String> = known.collect();
        let row = if known.is_empty() { String::new() } else { format!(", row {}", known.join(", ")) };
        let reason = format!("constraint \"{}\" does not hold (statement {}{row})", self.name, place + 1);
        Ok(Some(Objection { reason, detail: None }))
    }
}

fn proposal_text(
    session: &ReadingSession,
    client: &str,
    number: u64,
    place: usize,
    verb: StatementVerb,
    sql: &str,
    parameters: &str,
) -> String {
    let text =
        |text: &str| session.typed(&session.literal(&LedgerValue::Text(text.to_owned())), LedgerType::Text);
    format!(
        "{}, {number}, {place}, {}, {}, {}",
        text(client),
        text(verb_word(verb)),
        text(sql),
        text(parameters)
    )
}

/// Evaluates the constraints of an organization on a transaction, in a session that only reads. Returns the first objection.
///
/// # Errors
/// [`LedgerError::Database`] if the connection is gone; the session is of no use any more then.
pub fn judge(
    constraints: &[OrganizationConstraint],
    transaction: &JudgedTransaction<'_>,
    session: &mut ReadingSession,
) -> LedgerResult<Option<Objection>> {
    for constraint in constraints {
        let is_on_table = |at: &usize| transaction.statements[*at].table == constraint.table;
        let places: Vec<usize> = (0..transaction.statements.len()).filter(is_on_table).collect();
        if !places.iter().any(|at| constraint.is_about(transaction.statements[*at].verb)) {
            continue;
        }
        let refused = |reason: String| Ok(Some(Objection { reason, detail: None }));
        let placed = places.iter().map(|&place| PlacedTransaction {
            place,
            statements: std::slice::from_ref(&transaction.statements[place]),
        });
        let placed: Vec<PlacedTransaction<'_>> = placed.collect();
        if conflict_components(&placed, transaction.tables, LockReach::Matching).len() < placed.len() {
            return refused(format!(
                "constraint \"{}\" judges each statement by itself, and several of them may be about one row of \"{}\"",
                constraint.name, constraint.table
            ));
        }
        let mut rows = BTreeMap::new();
        for &place in &places {
            let statement = &transaction.statements[place];
            let Some(texts) = row_texts(statement, &transaction.tables[&statement.table], session) else {
                return refused(format!(
                    "the rows of statement {} cannot be said before it is executed",
                    place + 1
                ));
            };
            rows.insert(place, texts);
        }
        for &place in places.iter().filter(|at| constraint.is_about(transaction.statements[**at].verb)) {
            match constraint.judge_statement(transaction, place, &rows, session) {
                Ok(None) => {}
                Ok(objection) => return Ok(objection),
                Err(failure) if failure.has_lost_connection() => {
                    return Err(LedgerError::database("the constraints", failure.message));
                }
                Err(failure) => return Ok(Some(constraint.objection(failure))),
            }
        }
    }
    Ok(None)
}
