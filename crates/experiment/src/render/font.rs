//! The font of all pictures. It comes with the program, so that pictures look the same wherever they are drawn.

use plotters::style::{FontStyle, register_font};
use std::sync::Once;

/// The family's name; viewers of SVG files take their own font of this kind.
pub const FAMILY: &str = "sans-serif";

/// Makes the font known to the plotting library. To be called before anything is drawn; costs something once.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let registered = register_font(FAMILY, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT);
        assert!(registered.is_ok(), "the font that comes with the program can be read");
    });
}
