//! Machine code of pipelines, by Cranelift, for the processor that this runs on.
//!
//! Words of the SAFETY notes: a *checked batch* is a [`PipelineBatch`], whose slices have all values of its rows; *whole groups* are
//! [`PipelineGroups`], whose directory names entries that are there and always has a free place; *enough places* are [`SelectedRows`]
//! with one for each row that is read; a *list* has numbers of rows of the batch. Code made by [`emit`] keeps to what its header says for a frame that describes these four.

use crate::batch::{Datum, PipelineBatch};
use crate::emit::{CodeOptions, emit};
use crate::frame::{DONE, FrameColumn, LEFT, PipelineFrame};
use crate::groups::{EntryLayout, PipelineGroups};
use crate::ir::Pipeline;
use crate::lanes::Planted;
use crate::selected::SelectedRows;
use ankerdb_memory::executable::Executable;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::FunctionBuilderContext;
use std::sync::LazyLock;

/// Why there is no code; the interpreter does as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoCode(pub String);

/// A pipeline's code, for batches whose columns have NULLs as the mask says.
#[derive(Debug)]
pub struct Compiled {
    code: Executable,
    pipeline: Pipeline,
    layout: EntryLayout,
    nulls: u64,
}

/// The processor, and what makes its code; `None` for one that Cranelift does not know.
fn processor() -> Result<OwnedTargetIsa, String> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").map_err(|error| error.to_string())?;
    flags
        .set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })
        .map_err(|error| error.to_string())?;
    let flags = settings::Flags::new(flags);
    let builder = cranelift_native::builder().map_err(str::to_owned)?;
    builder.finish(flags).map_err(|error| error.to_string())
}

static PROCESSOR: LazyLock<Result<OwnedTargetIsa, String>> = LazyLock::new(processor);

impl Compiled {
    /// Compiles a pipeline for batches whose columns have NULLs where `nulls` has a bit.
    ///
    /// # Errors
    /// [`NoCode`] on other processors than x86-64, and where the system gives no memory for code.
    pub fn new(pipeline: &Pipeline, nulls: u64, checks_bounds: bool) -> Result<Compiled, NoCode> {
        Compiled::with_fault(pipeline, nulls, checks_bounds, None)
    }

    /// Code with a fault, for tests that must find it.
    pub(crate) fn with_fault(
        pipeline: &Pipeline,
        nulls: u64,
        checks_bounds: bool,
        planted: Option<Planted>,
    ) -> Result<Compiled, NoCode> {
        if !cfg!(all(target_arch = "x86_64", target_endian = "little")) {
            return Err(NoCode("code is made for x86-64 only".to_owned()));
        }
        let processor = PROCESSOR.as_ref().map_err(|error| NoCode(error.clone()))?;
        let options = CodeOptions { checks_bounds, planted, frontend: processor.frontend_config() };
        let mut function = Function::new();
        function.signature.call_conv = processor.default_call_conv();
        emit(pipeline, nulls, options, &mut function, &mut FunctionBuilderContext::new());
        let mut context = Context::for_function(function);
        let compiled = context
            .compile(processor.as_ref(), &mut ControlPlane::default())
            .map_err(|error| NoCode(format!("{:?}", error.inner)))?;
        if !compiled.buffer.relocs().is_empty() {
            return Err(NoCode("the code needs addresses of others".to_owned()));
        }
        let code = Executable::new(compiled.code_buffer())
            .ok_or_else(|| NoCode("the system gives no memory for code".to_owned()))?;
        Ok(Compiled { code, pipeline: pipeline.clone(), layout: EntryLayout::of(pipeline), nulls })
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.code.bytes()
    }

    /// Runs rows from `row` on, up to the end (`None`) or the row that it leaves to the interpreter. Of a pipeline that reads a list of
    /// rows, these are places of the list.
    ///
    /// # Panics
    /// For a batch, parameters or groups of another pipeline, and where code that checks bounds has found an access beyond them.
    pub(crate) fn run(
        &self,
        parameters: &[Datum],
        batch: &PipelineBatch<'_>,
        listed: Option<&[u32]>,
        row: usize,
        groups: &mut PipelineGroups,
        selected: &mut SelectedRows,
    ) -> Option<usize> {
        assert_eq!(batch.nulls() & !self.nulls, 0, "code for columns without NULLs");
        assert_eq!(batch.columns.len(), self.pipeline.columns.len(), "a batch of another pipeline");
        assert_eq!(groups.layout, self.layout, "groups of another pipeline");
        assert_eq!(
            listed.is_some(),
            self.pipeline.lists,
            "a list for a pipeline that reads none, or none for one that does"
        );
        let is_within = |rows: &[u32]| rows.iter().all(|&row| (row as usize) < batch.rows);
        assert!(listed.is_none_or(is_within), "a list of other rows");
        assert_eq!(parameters.len(), self.pipeline.parameters.len(), "parameters of another pipeline");
        let end = listed.map_or(batch.rows, <[u32]>::len);
        assert!(!self.pipeline.selects || selected.places.len() >= end, "too few places");
        let columns: Vec<FrameColumn> = batch.columns.iter().map(FrameColumn::of).collect();
        let parameters: Vec<[u64; 2]> = parameters.iter().map(|datum| datum.words()).collect();
        let mut frame = PipelineFrame {
            columns: columns.as_ptr(),
            parameters: parameters.as_ptr(),
            row,
            end,
            listed: listed.unwrap_or_default().as_ptr(),
            listed_bytes: listed.map_or(0, <[u32]>::len) * 4,
            entries: groups.entries.as_mut_ptr(),
            entries_bytes: groups.used() * 8,
            entries_limit: groups.limit() * 8,
            groups: groups.len() as u64,
            directory: groups.directory.as_mut_ptr(),
            mask: groups.directory.len().wrapping_sub(1),
            selected: selected.places.as_mut_ptr(),
            selected_bytes: selected.places.len() * 4,
            selected_rows: selected.count,
        };
        // SAFETY: the start of code that was made for this signature.
        let function: extern "C" fn(&mut PipelineFrame) -> u64 =
            unsafe { std::mem::transmute(self.code.start()) };
        let status = function(&mut frame);
        groups.extend_to(frame.entries_bytes / 8);
        selected.count = frame.selected_rows;
        match status {
            DONE => None,
            LEFT => Some(frame.row),
            status => {
                panic!("compiled code has left with {status} at row {} of\n{}", frame.row, self.pipeline)
            }
        }
    }
}
