//! The few colours there are. `anstream` takes them away where they do not belong.

use std::fmt;
use std::io::Write;

use anstyle::{AnsiColor, Style};

use crate::args::Color;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WAIT: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const NAME: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// Obeys `--color`.
pub(crate) fn set_color(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// One line on standard error. A caller that has closed it does not want to know.
pub(crate) fn complain(what: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "abide: {what}");
}

/// `allow` or `deny`.
pub(crate) fn mark(allowed: bool) -> String {
    if allowed { word(GOOD, "allow") } else { word(BAD, "deny ") }
}

pub(crate) fn word(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
