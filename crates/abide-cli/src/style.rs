//! The few colours there are. `anstream` takes them away where they do not belong.

use anstyle::{AnsiColor, Style};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WAIT: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// `allow` or `deny`.
pub(crate) fn mark(allowed: bool) -> String {
    if allowed { word(GOOD, "allow") } else { word(BAD, "deny ") }
}

pub(crate) fn word(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
