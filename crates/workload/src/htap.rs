//! htap
