//! Runs a pipeline over batches, one thread's share: compiled code where there is some, and the interpreter for rows that it leaves.

use crate::backend::Compiled;
use crate::batch::{Datum, PipelineBatch};
use crate::groups::PipelineGroups;
use crate::interpret::Interpreter;
use crate::ir::{Fault, Pipeline, ValueKind};

/// One thread's share of a pipeline.
#[derive(Debug)]
pub struct PipelineRunner {
    pipeline: Pipeline,
    parameters: Vec<Datum>,
    interpreter: Interpreter,
    groups: PipelineGroups,
    rows_left: u64,
}

impl PipelineRunner {
    /// Begins with no groups; `None` for other parameters than the pipeline has.
    pub fn new(pipeline: &Pipeline, parameters: &[Datum]) -> Option<PipelineRunner> {
        let fits = |(datum, kind): (&Datum, &ValueKind)| datum.is_of(*kind);
        let all = parameters.len() == pipeline.parameters.len()
            && parameters.iter().zip(&pipeline.parameters).all(fits);
        all.then(|| PipelineRunner {
            pipeline: pipeline.clone(),
            parameters: parameters.to_vec(),
            interpreter: Interpreter::new(pipeline),
            groups: PipelineGroups::new(pipeline),
            rows_left: 0,
        })
    }

    /// Adds the rows of a batch, by the interpreter where there is no code. The code must be this pipeline's, and made for the
    /// columns of the batch that have NULLs.
    ///
    /// # Errors
    /// The [`Fault`] of the first row that has one; the groups are of no use then.
    pub fn run(&mut self, code: Option<&Compiled>, batch: &PipelineBatch<'_>) -> Result<(), Fault> {
        let mut row = 0;
        while row < batch.rows() {
            if let Some(code) = code {
                match code.run(&self.parameters, batch, row, &mut self.groups) {
                    None => break,
                    Some(left) => row = left,
                }
                self.rows_left += 1;
            }
            self.interpreter.row(&self.pipeline, &self.parameters, batch, row, &mut self.groups)?;
            row += 1;
        }
        Ok(())
    }

    /// The groups so far.
    pub fn groups(&self) -> &PipelineGroups {
        &self.groups
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
