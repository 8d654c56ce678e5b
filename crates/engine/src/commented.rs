//! How comments are kept, moved and lost with what they are about.

use crate::catalog::Catalog;
use crate::comment::{Object, Part, Subject, changed, changed_by_others};
use crate::definitions::Definitions;
use ankerdb_base::{Result, TableId};
use ankerdb_table::{Table, TableDefinition};
use std::sync::Arc;

impl Catalog {
    /// The comment on something.
    pub fn comment(&self, subject: &Subject) -> Option<&str> {
        self.comments.get(subject).map(|text| &**text)
    }

    /// All comments, with what they are about.
    pub fn comments(&self) -> impl Iterator<Item = (&Subject, &str)> {
        self.comments.iter().map(|(subject, text)| (subject, &**text))
    }

    /// Gives a subject a comment, or takes it away.
    pub(crate) fn set_comment(&mut self, subject: Subject, text: Option<Arc<str>>) {
        let comments = Arc::make_mut(&mut self.comments);
        match text {
            Some(text) => comments.insert(subject, text),
            None => comments.remove(&subject),
        };
    }

    /// Changes what the comments of an object are about: `moved` tells the new subject, or that there is none any more.
    pub(crate) fn move_comments(&mut self, object: &Object, moved: impl Fn(&Subject) -> Option<Subject>) {
        let first = Subject::new(object.clone(), Part::Whole);
        let of_object = self.comments.range(first..).take_while(|(subject, _)| subject.object == *object);
        let all: Vec<_> = of_object.map(|(subject, text)| (subject.clone(), text.clone())).collect();
        if all.iter().all(|(subject, _)| moved(subject).as_ref() == Some(subject)) {
            return;
        }
        let comments = Arc::make_mut(&mut self.comments);
        all.iter().for_each(|(subject, _)| drop(comments.remove(subject)));
        let moved = all.into_iter().filter_map(|(subject, text)| Some((moved(&subject)?, text)));
        comments.extend(moved);
    }

    /// Removes the comments of an object that goes.
    pub(crate) fn forget_comments(&mut self, object: &Object) {
        self.move_comments(object, |_| None);
    }

    /// Lets an object that is known by its name keep its comments under another one.
    pub(crate) fn rename_commented(&mut self, old: &Object, new: &Object) {
        self.move_comments(old, |subject| Some(Subject::new(new.clone(), subject.part.clone())));
    }

    /// Takes the comments of a table's constraints away that only its former definition has.
    pub(crate) fn forget_constraints(
        &mut self,
        table: TableId,
        old: &TableDefinition,
        new: &TableDefinition,
    ) {
        self.move_comments(&Object::Table(table), |subject| match &subject.part {
            Part::Constraint(name) if has_constraint(old, name) && !has_constraint(new, name) => None,
            _ => Some(subject.clone()),
        });
    }

    /// That what this catalog has commented on since `base` is in `current` what it was, and the other way round.
    pub(crate) fn check_comments(&self, base: &Catalog, current: &Catalog) -> Result<()> {
        let is_untouched = |other: &Catalog| Arc::ptr_eq(&base.comments, &other.comments);
        if is_untouched(self) && is_untouched(current) {
            return Ok(());
        }
        let changed_here = changed(&base.comments, &self.comments);
        let changed_there = changed(&base.comments, &current.comments);
        let in_conflict = (changed_here.iter().find(|subject| !base.keeps(subject, self, current)))
            .or_else(|| changed_there.iter().find(|subject| !base.keeps(subject, current, self)));
        match in_conflict {
            Some(_) => Err(changed_by_others()),
            None => Ok(()),
        }
    }

    /// Whether another catalog has the subject, of which `mine` has changed the comment, as it is here. What is not here is not
    /// kept from anybody.
    fn keeps(&self, subject: &Subject, mine: &Catalog, other: &Catalog) -> bool {
        fn is_same<T>(here: Option<&Arc<T>>, there: Option<&Arc<T>>) -> bool {
            here.is_none_or(|here| there.is_some_and(|there| Arc::ptr_eq(here, there)))
        }
        match &subject.object {
            Object::Database => true,
            Object::Schema(id) => {
                let schema = |catalog: &Catalog| catalog.schemas.values().any(|schema| schema.id == *id);
                !schema(self) || schema(other)
            }
            Object::View(name) => is_same(self.views.get(name), other.views.get(name)),
            Object::Sequence(name) => is_same(self.sequences.get(name), other.sequences.get(name)),
            Object::Type(name) => is_same(self.types.get(name), other.types.get(name)),
            Object::Table(origin) => {
                let (here, there) = (self.by_origin(*origin), other.by_origin(*origin));
                // Indexes come and go without another definition of their table.
                let has_index = |name: &str| {
                    let is_gone = !mine.comments.contains_key(subject);
                    is_gone || there.as_ref().is_none_or(|table| other.has_index(table, name))
                };
                let is_in_definition = |name: &str| {
                    mine.by_origin(*origin).is_some_and(|table| has_constraint(table.definition(), name))
                };
                let keeps_index = match &subject.part {
                    Part::Index(name) => has_index(name),
                    Part::Constraint(name) => is_in_definition(name) || has_index(name),
                    _ => true,
                };
                is_same(here.as_ref(), there.as_ref()) && keeps_index
            }
        }
    }
}

/// Whether it has a condition or foreign key of this name.
fn has_constraint(definition: &TableDefinition, name: &str) -> bool {
    definition.checks.iter().any(|check| check.name == name)
        || definition.foreign_keys.iter().any(|key| key.name == name)
}

impl Definitions {
    /// Gives something in the catalog a comment, or takes it away. That it exists is for the caller to know.
    ///
    /// # Errors
    /// `SerializationFailure` if others have changed what this transaction has changed.
    pub fn set_comment(&mut self, subject: Subject, text: Option<&str>) -> Result<()> {
        self.catalog()?;
        self.change(|catalog| catalog.set_comment(subject, text.map(Arc::from)));
        Ok(())
    }

    /// Keeps the comment of a constraint or index that gets another name.
    ///
    /// # Errors
    /// Those of [`set_comment`](Self::set_comment).
    pub fn rename_part(&mut self, table: &Table, old: &Part, new: &Part) -> Result<()> {
        self.catalog()?;
        self.change(|catalog| {
            catalog.move_comments(&Object::Table(table.origin()), |subject| {
                let part = if subject.part == *old { new } else { &subject.part };
                Some(Subject::new(subject.object.clone(), part.clone()))
            });
        });
        Ok(())
    }
}
