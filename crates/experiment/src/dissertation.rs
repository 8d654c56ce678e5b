//! The experiments that only the dissertation (or it first) has.

pub mod fig2_5;
pub mod fig2_6;
pub mod fig4_11;
pub mod fig4_12;
pub mod fig4_13;
pub mod fig4_14;
pub mod tab4_2;
