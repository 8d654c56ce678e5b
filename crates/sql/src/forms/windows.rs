//! Windows that are made of named ones: `OVER (w ORDER BY a)`, `WINDOW w2 AS (w ORDER BY a)`.
//!
//! DataFusion knows `OVER w` alone, and reads past a name within parentheses. So what the named window has is written out. Frames that it
//! does not know are written in another way, too ([`window_frames`](crate::window_frames)).

use crate::name::folded;
use crate::window_frames::{is_marker, write_bounds};
use ankerdb_engine::{Error, Result, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, NamedWindowExpr, Query, SetExpr, WindowSpec, WindowType};

/// The named windows of a query, by their names, without references to others.
pub(super) type Windows = Vec<(String, WindowSpec)>;

/// Writes out the definitions of a query's named windows, and returns them.
pub(super) fn defined(query: &mut Query) -> Result<Windows> {
    let mut windows = Windows::new();
    define(&mut query.body, &mut windows).map(|()| windows)
}

fn define(body: &mut SetExpr, windows: &mut Windows) -> Result<()> {
    // Windows of the selects before.
    let outer = windows.len();
    match body {
        SetExpr::Select(select) => select.named_window.iter_mut().try_for_each(|definition| {
            // An earlier definition may be used by a later one.
            let spec = match &mut definition.1 {
                NamedWindowExpr::NamedWindow(name) => named(windows, &folded(name))?.clone(),
                NamedWindowExpr::WindowSpec(spec) => {
                    write_out(spec, windows)?;
                    write_bounds(spec)?;
                    spec.clone()
                }
            };
            let name = folded(&definition.0);
            if windows[outer..].iter().any(|(known, _)| *known == name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(Error::new(SqlState::WindowingError, message));
            }
            windows.push((name, spec));
            Ok(())
        }),
        SetExpr::SetOperation { left, right, .. } => {
            define(left, windows)?;
            define(right, windows)
        }
        // Queries in parentheses have their own.
        _ => Ok(()),
    }
}

/// Writes out the window of a call.
pub(super) fn call(expression: &mut Expr, windows: &Windows) -> Result<()> {
    match expression {
        Expr::Function(function) => match &mut function.over {
            Some(WindowType::WindowSpec(spec)) => {
                write_out(spec, windows)?;
                write_bounds(spec)
            }
            Some(WindowType::NamedWindow(name)) => named(windows, &folded(name)).map(drop),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn named<'w>(windows: &'w Windows, name: &str) -> Result<&'w WindowSpec> {
    let found = windows.iter().rev().find(|(known, _)| known == name);
    let missing = || Error::new(SqlState::UndefinedObject, format!("window \"{name}\" does not exist"));
    found.map(|(_, spec)| spec).ok_or_else(missing)
}

fn write_out(spec: &mut WindowSpec, windows: &Windows) -> Result<()> {
    let Some(name) = spec.window_name.take().map(|name| folded(&name)) else { return Ok(()) };
    let base = named(windows, &name)?;
    let refused = |what: String| Err(Error::new(SqlState::WindowingError, what));
    if base.window_frame.is_some() {
        return refused(format!("cannot copy window \"{name}\" because it has a frame clause"));
    }
    let own = std::mem::take(&mut spec.partition_by);
    if !own.iter().all(is_marker) {
        return refused(format!("cannot override PARTITION BY clause of window \"{name}\""));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(format!("cannot override ORDER BY clause of window \"{name}\""));
    }
    spec.partition_by = own.into_iter().chain(base.partition_by.iter().cloned()).collect();
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}
