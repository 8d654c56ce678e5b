//! Code of pipelines that were compiled before.
//!
//! A pipeline has no constants, so a query that comes again with others finds its code. Code that no query uses any more is freed when it
//! leaves the cache.

use ankerdb_compiler::{Compiled, NoCode, Pipeline};
use datafusion::physical_plan::metrics::Time;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Pipelines that are kept. A page or two each.
const KEPT_MAX: usize = 256;

/// A pipeline, and which of its columns have NULLs.
type CodeShape = (Pipeline, u64);

static KEPT: LazyLock<Mutex<HashMap<CodeShape, Arc<Compiled>>>> = LazyLock::new(Mutex::default);

/// The code for batches whose columns have NULLs where `nulls` has a bit. In debug builds it checks bounds.
///
/// # Errors
/// [`NoCode`] where there can be none.
pub(super) fn code(pipeline: &Pipeline, nulls: u64) -> Result<Arc<Compiled>, NoCode> {
    let shape = (pipeline.clone(), nulls);
    if let Some(known) = KEPT.lock().get(&shape) {
        return Ok(known.clone());
    }
    // Others may compile the same meanwhile, which is better than to wait for each other.
    let compiled = Arc::new(Compiled::new(pipeline, nulls, cfg!(any(test, debug_assertions)))?);
    let mut kept = KEPT.lock();
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(shape, compiled.clone());
    Ok(compiled)
}

/// One thread's code of a pipeline, for batches as they come.
pub(super) struct BatchCode {
    is_compiled: bool,
    /// The code of the last batch, and which of its columns had NULLs.
    last: Option<(u64, Arc<Compiled>)>,
    compile_time: Time,
}

impl BatchCode {
    pub(super) fn new(is_compiled: bool, compile_time: Time) -> BatchCode {
        BatchCode { is_compiled, last: None, compile_time }
    }

    /// The code for columns with NULLs like these; `None` where there is none, as on other processors.
    pub(super) fn of(&mut self, pipeline: &Pipeline, nulls: u64) -> Option<Arc<Compiled>> {
        if !self.is_compiled {
            return None;
        }
        if let Some((known, code)) = &self.last
            && *known == nulls
        {
            return Some(code.clone());
        }
        let _timer = self.compile_time.timer();
        let made = code(pipeline, nulls).ok();
        self.is_compiled = made.is_some();
        self.last = made.clone().map(|code| (nulls, code));
        made
    }
}
