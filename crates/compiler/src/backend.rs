//! Machine code of pipelines, by Cranelift, for the processor that this runs on.
//!
//! Words of the SAFETY notes: a *checked batch* is a [`PipelineBatch`], whose slices have all values of its rows; *whole groups* are
//! [`PipelineGroups`], whose directory names entries that are there and always has a free place. Code made by [`emit`] keeps to
//! what its header says for a frame that describes these two.

use crate::batch::{Datum, PipelineBatch};
use crate::emit::{CodeOptions, emit};
use crate::frame::{DONE, FrameColumn, LEFT, PipelineFrame};
use crate::groups::PipelineGroups;
use crate::ir::Pipeline;
use crate::lanes::Planted;
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
        Ok(Compiled { code, pipeline: pipeline.clone(), nulls })
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.code.bytes()
    }

    /// Runs rows from `row` on, up to the end (`None`) or the row that it leaves to the interpreter.
    ///
    /// # Panics
    /// For a batch, parameters or groups of another pipeline, and where code that checks bounds has found an access beyond them.
    pub(crate) fn run(
        &self,
        parameters: &[Datum],
        batch: &PipelineBatch<'_>,
        row: usize,
        groups: &mut PipelineGroups,
    ) -> Option<usize> {
        assert_eq!(batch.nulls() & !self.nulls, 0, "code for columns without NULLs");
        assert_eq!(batch.columns.len(), self.pipeline.columns.len(), "a batch of another pipeline");
        assert_eq!(groups.pipeline(), &self.pipeline, "groups of another pipeline");
        assert_eq!(parameters.len(), self.pipeline.parameters.len(), "parameters of another pipeline");
        let columns: Vec<FrameColumn> = batch.columns.iter().map(FrameColumn::of).collect();
        let parameters: Vec<[u64; 2]> = parameters.iter().map(|datum| datum.words()).collect();
        let mut frame = PipelineFrame {
            columns: columns.as_ptr(),
            parameters: parameters.as_ptr(),
            row,
            end: batch.rows,
            entries: groups.entries.as_mut_ptr(),
            entries_bytes: groups.used() * 8,
            entries_limit: groups.limit() * 8,
            groups: groups.len() as u64,
            directory: groups.directory.as_mut_ptr(),
            mask: groups.directory.len().wrapping_sub(1),
        };
        // SAFETY: the start of code that was made for this signature.
        let function: extern "C" fn(&mut PipelineFrame) -> u64 =
            unsafe { std::mem::transmute(self.code.start()) };
        let status = function(&mut frame);
        groups.extend_to(frame.entries_bytes / 8);
        match status {
            DONE => None,
            LEFT => Some(frame.row),
            status => {
                panic!("compiled code has left with {status} at row {} of\n{}", frame.row, self.pipeline)
            }
        }
    }
}
