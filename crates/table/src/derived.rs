//! What readers derive from a table, a column or a block, and keep there for later readers.

use std::any::Any;
use std::sync::Arc;

/// Only its makers know its type.
pub(crate) type Derived = Arc<dyn Any + Send + Sync>;
