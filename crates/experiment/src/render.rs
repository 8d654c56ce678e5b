//! Findings as text, CSV and pictures: one renderer each, the same for every experiment.

pub mod csv;
pub mod font;
pub mod picture;
pub mod text;
