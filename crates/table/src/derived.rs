//! What readers derive from a table, a column or a block, and keep there for those who come after them.

use std::any::Any;
use std::sync::Arc;

/// Known to its makers only.
pub type Derived = Arc<dyn Any + Send + Sync>;
