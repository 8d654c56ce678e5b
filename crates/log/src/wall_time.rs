//! What the machine's clock says, so that a log can be cut at a moment.
//!
//! Nothing but that depends on it: the clock may be wrong, and may be set back. The order of commits is that of timestamps.

use std::time::SystemTime;

/// Microseconds since 1970 in UTC; 0 if nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct WallTime(pub u64);

impl WallTime {
    /// Nobody knows when.
    pub const UNKNOWN: WallTime = WallTime(0);

    /// What the clock says now.
    pub fn now() -> WallTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        WallTime(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Whether it says anything.
    pub fn is_known(self) -> bool {
        self != WallTime::UNKNOWN
    }
}
