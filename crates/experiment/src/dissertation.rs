//! The experiments that only the dissertation (or it first) has.

pub mod fig2_5;
pub mod fig2_6;
