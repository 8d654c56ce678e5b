//! Frames of windows, whether the parser has read them or they stand beside the columns of their window.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value, WindowFrameBound, WindowSpec,
};

/// A frame as it is shown.
pub(super) struct FrameText<'a> {
    /// ROWS, RANGE or GROUPS.
    pub(super) units: String,
    pub(super) start: BoundText<'a>,
    /// `None` where only the start was written.
    pub(super) end: Option<BoundText<'a>>,
    /// The words behind EXCLUDE.
    pub(super) excluded: String,
}

/// A bound of a frame: how far away it is, and the words behind that.
#[derive(Clone, Copy)]
pub(super) struct BoundText<'a>(pub(super) Option<&'a Expr>, pub(super) &'static str);

/// The frame of a window; `None` if it has none of its own.
pub(super) fn frame_of(spec: &WindowSpec) -> Option<FrameText<'_>> {
    let marker = spec.partition_by.iter().find(|key| crate::window_frames::is_marker(key));
    let arguments = marker.map_or(Vec::new(), arguments);
    let text = |position: usize| arguments.get(position).copied().and_then(text_of).unwrap_or_default();
    let excluded = text(0);
    if let [_, _, _, first, _, last] = arguments.as_slice() {
        let (start, end) = (bound(&text(2), first, true), Some(bound(&text(4), last, false)));
        return Some(FrameText { units: text(1).to_uppercase(), start, end, excluded });
    }
    let frame = spec.window_frame.as_ref()?;
    let end = frame.end_bound.as_ref().map(written);
    Some(FrameText { units: frame.units.to_string(), start: written(&frame.start_bound), end, excluded })
}

fn written(bound: &WindowFrameBound) -> BoundText<'_> {
    match bound {
        WindowFrameBound::CurrentRow => BoundText(None, "CURRENT ROW"),
        WindowFrameBound::Preceding(None) => BoundText(None, "UNBOUNDED PRECEDING"),
        WindowFrameBound::Following(None) => BoundText(None, "UNBOUNDED FOLLOWING"),
        WindowFrameBound::Preceding(Some(offset)) => BoundText(Some(offset), "PRECEDING"),
        WindowFrameBound::Following(Some(offset)) => BoundText(Some(offset), "FOLLOWING"),
    }
}

/// A bound by the words that mark it. Unbounded ones are those of their side.
fn bound<'a>(kind: &str, offset: &'a Expr, is_start: bool) -> BoundText<'a> {
    match (kind, is_start) {
        ("current", _) => BoundText(None, "CURRENT ROW"),
        ("preceding", _) => BoundText(Some(offset), "PRECEDING"),
        ("following", _) => BoundText(Some(offset), "FOLLOWING"),
        (_, true) => BoundText(None, "UNBOUNDED PRECEDING"),
        (_, false) => BoundText(None, "UNBOUNDED FOLLOWING"),
    }
}

fn arguments(marker: &Expr) -> Vec<&Expr> {
    let Expr::Function(function) = marker else { return Vec::new() };
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let given = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    });
    given.collect()
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}
