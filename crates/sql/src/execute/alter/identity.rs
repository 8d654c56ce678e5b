//! Identity of columns: added, changed, dropped. The column's sequence goes along.

use super::{Altering, column};
use crate::execute::defining::{Defining, name_beside, numbered};
use crate::execute::sequence::{check_last, drop_sequence};
use crate::identity_actions::IdentityAction;
use crate::plan::default::next_value;
use crate::plan::{altered, identity_sequence};
use ankerdb_engine::{
    DataType, Error, Identity, NameRef, RelationName, Result, Sequence, SequenceDefinition, SqlState,
};
use datafusion::sql::sqlparser::ast::{GeneratedAs, SequenceOptions, Statement};
use std::sync::Arc;

/// Options of a sequence.
fn parsed(options: &str) -> Result<Vec<SequenceOptions>> {
    let parsed = crate::parse::parse(&format!("CREATE SEQUENCE a {options}"))?.pop();
    match parsed.and_then(|statement| statement.ast).as_deref() {
        Some(Statement::CreateSequence { sequence_options, .. }) => Ok(sequence_options.clone()),
        _ => Err(Error::internal("options of a sequence that are none")),
    }
}

impl Altering<'_, '_> {
    /// ADD GENERATED ... AS IDENTITY.
    pub(super) fn add_identity(
        &mut self,
        name: &str,
        generated: Option<GeneratedAs>,
        options: Option<&[SequenceOptions]>,
    ) -> Result<()> {
        let identity = match generated {
            Some(GeneratedAs::Always) => Identity::Always,
            Some(_) => Identity::ByDefault,
            None => return Err(crate::syntax_error::near("AS")),
        };
        let mut definition = self.definition()?;
        let position = column(&definition, name)?;
        let added = &mut definition.columns[position];
        let sequence = identity_sequence(added.data_type, options)?;
        let what = format!("column \"{name}\" of relation \"{}\"", definition.name);
        let refused = match () {
            () if added.nullable => "must be declared NOT NULL before identity can be added",
            () if added.identity.is_some() => "is already an identity column",
            () if added.default.is_some() => "already has a default value",
            () => "",
        };
        if !refused.is_empty() {
            let message = format!("{what} {refused}");
            return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message));
        }
        let catalog = self.catalog()?;
        let is_taken = |name: &str| catalog.has_relation(NameRef::In(definition.schema, name));
        let given = sequence.name.as_ref().map(|name| name_beside(name, definition.schema, &catalog));
        let own = given
            .transpose()?
            .unwrap_or_else(|| numbered(format!("{}_{name}_seq", definition.name), is_taken));
        added.identity = Some(identity);
        added.default = Some(next_value(&own));
        let owner = Some((RelationName::new(definition.schema, definition.name.as_str()), position));
        let (schema, name) = (definition.schema, own);
        self.defining.definitions.create_sequence(SequenceDefinition {
            schema,
            name,
            owner,
            ..sequence.definition
        })?;
        self.redefine(definition)
    }

    /// SET GENERATED, SET of the sequence's options, RESTART, DROP IDENTITY.
    pub(super) fn change_identity(&mut self, name: &str, action: &IdentityAction) -> Result<()> {
        let mut definition = self.definition()?;
        let position = column(&definition, name)?;
        let changed = &mut definition.columns[position];
        if changed.identity.is_none() {
            if matches!(action, IdentityAction::Drop { if_exists: true }) {
                return Ok(());
            }
            let message =
                format!("column \"{name}\" of relation \"{}\" is not an identity column", definition.name);
            return Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message));
        }
        let sequence = self.identity_sequence(position)?;
        match action {
            IdentityAction::Drop { .. } => {
                (changed.identity, changed.default) = (None, None);
                self.redefine(definition)?;
                let Defining { definitions, transaction, .. } = &mut *self.defining;
                drop_sequence((definitions, Some(transaction)), &sequence.full_name(), false)
            }
            IdentityAction::Set { identity, restart, options } => {
                if identity.is_some() && changed.identity != *identity {
                    changed.identity = *identity;
                    self.redefine(definition)?;
                }
                if options.is_empty() && restart.is_none() {
                    return Ok(());
                }
                let new = altered(sequence.definition(), None, &parsed(options)?)?;
                let restart = restart.map(|at| at.unwrap_or(new.start));
                check_last(&new, restart.unwrap_or_else(|| sequence.last().0))?;
                self.defining.definitions.redefine_sequence(&sequence.full_name(), new, restart)
            }
        }
    }

    /// Lets the sequence of a column that is to get another type have that, too, if it is an identity column.
    pub(super) fn follow_identity(&mut self, name: &str, data_type: DataType) -> Result<()> {
        let Some(position) = self.table.definition().position(name) else { return Ok(()) };
        if self.table.columns()[position].identity.is_none() {
            return Ok(());
        }
        if !matches!(data_type, DataType::SmallInt | DataType::Integer | DataType::BigInt) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        let sequence = self.identity_sequence(position)?;
        let new = altered(sequence.definition(), Some(data_type), &[])?;
        check_last(&new, sequence.last().0)?;
        self.defining.definitions.redefine_sequence(&sequence.full_name(), new, None)
    }

    /// The sequence by which an identity column counts.
    fn identity_sequence(&mut self, position: usize) -> Result<Arc<Sequence>> {
        let (catalog, table) = (self.catalog()?, RelationName::of(&self.table));
        let owns = |sequence: &&Arc<Sequence>| {
            sequence.definition().owner.as_ref().is_some_and(|(of, at)| *of == table && *at == position)
        };
        let found = catalog.sequences().find(owns).cloned();
        found.ok_or_else(|| Error::internal("an identity column without a sequence"))
    }
}
