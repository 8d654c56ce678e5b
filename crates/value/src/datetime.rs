//! Calendar arithmetic for dates and timestamps.
