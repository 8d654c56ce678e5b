//! Runs a pipeline over batches, one thread's share: compiled code where there is some, and the interpreter for rows that it leaves.

use crate::backend::Compiled;
use crate::batch::{Datum, PipelineBatch};
use crate::bitmaps::BitmapCondition;
use crate::groups::PipelineGroups;
use crate::interpret::Interpreter;
use crate::ir::{Fault, Pipeline, ValueKind};
use crate::selected::SelectedRows;
use std::sync::Arc;

/// One thread's share of a pipeline.
#[derive(Debug)]
pub struct PipelineRunner {
    pipeline: Arc<Pipeline>,
    parameters: Vec<Datum>,
    interpreter: Interpreter,
    groups: PipelineGroups,
    selected: SelectedRows,
    bitmap: Vec<u64>,
    rows_left: u64,
}

impl PipelineRunner {
    /// Begins with no groups; `None` for other parameters than the pipeline has.
    pub fn new(pipeline: &Pipeline, parameters: &[Datum]) -> Option<PipelineRunner> {
        let fits = |(datum, kind): (&Datum, &ValueKind)| datum.is_of(*kind);
        let all = parameters.len() == pipeline.parameters.len()
            && parameters.iter().zip(&pipeline.parameters).all(fits);
        all.then(|| PipelineRunner {
            pipeline: Arc::new(pipeline.clone()),
            parameters: parameters.to_vec(),
            interpreter: Interpreter::new(pipeline),
            groups: PipelineGroups::new(pipeline),
            selected: SelectedRows::default(),
            bitmap: Vec::new(),
            rows_left: 0,
        })
    }

    /// Adds the rows of a batch to their groups, or finds those to select, by the interpreter where there is no code. The code must be this pipeline's, and made for the
    /// columns of the batch that have NULLs.
    ///
    /// # Errors
    /// The [`Fault`] of the first row that has one; the groups are of no use then.
    pub fn run(&mut self, code: Option<&Compiled>, batch: &PipelineBatch<'_>) -> Result<(), Fault> {
        let pipeline = Arc::clone(&self.pipeline);
        self.run_each(&pipeline, code, batch, None)
    }

    /// Runs like [`run`](Self::run), for rows of a list only. `listing` is the [rest](crate::PipelineParts::rest) of this pipeline, whose
    /// [selection](crate::PipelineParts::selection) has kept them, or this pipeline [of listed rows](Pipeline::of_listed_rows); the code is
    /// that of `listing`.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    ///
    /// # Panics
    /// For another pipeline, and for rows that the batch does not have.
    pub fn run_listed(
        &mut self,
        listing: &Pipeline,
        code: Option<&Compiled>,
        batch: &PipelineBatch<'_>,
        rows: &[u32],
    ) -> Result<(), Fault> {
        self.run_each(listing, code, batch, Some(rows))
    }

    /// Finds the rows to select, of all or of a list in the order of rows, by the condition of this pipeline or of its
    /// [selection](crate::PipelineParts::selection).
    ///
    /// # Panics
    /// For rows that the batch does not have.
    pub fn select(&mut self, condition: &BitmapCondition, batch: &PipelineBatch<'_>, listed: Option<&[u32]>) {
        condition.select(&self.parameters, batch, listed, &mut self.bitmap, &mut self.selected);
    }

    fn run_each(
        &mut self,
        pipeline: &Pipeline,
        code: Option<&Compiled>,
        batch: &PipelineBatch<'_>,
        listed: Option<&[u32]>,
    ) -> Result<(), Fault> {
        let (mut at, end) = (0, listed.map_or(batch.rows(), <[u32]>::len));
        if pipeline.selects {
            self.selected.begin(end);
        }
        while at < end {
            let (groups, selected) = (&mut self.groups, &mut self.selected);
            if let Some(code) = code {
                match code.run(&self.parameters, batch, listed, at, groups, selected) {
                    None => break,
                    Some(left) => at = left,
                }
                self.rows_left += 1;
            }
            let row = listed.map_or(at, |rows| rows[at] as usize);
            self.interpreter.row(pipeline, &self.parameters, batch, row, groups, selected)?;
            at += 1;
        }
        Ok(())
    }

    /// The groups so far.
    pub fn groups(&self) -> &PipelineGroups {
        &self.groups
    }

    /// Which rows of the last batch a pipeline that selects has kept, in their order.
    pub fn selected(&self) -> &[u32] {
        self.selected.rows()
    }

    /// Begins again, with no groups and the memory that it has.
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// Begins again, with no groups and no memory.
    pub fn renew(&mut self) {
        self.groups = PipelineGroups::new(&self.pipeline);
    }

    /// Rows that compiled code has left to the interpreter.
    pub fn rows_left(&self) -> u64 {
        self.rows_left
    }
}
