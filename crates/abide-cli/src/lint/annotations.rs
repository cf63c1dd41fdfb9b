//! `abide lint --format github`: workflow commands, which GitHub shows as annotations at the lines of a
//! change.
//!
//! What a file contains stands in a command's text, so all that would end it is escaped.

use super::Linted;
use crate::findings::Severity;
use crate::sanitize::sanitized;

/// One command a finding.
pub(super) fn print(linted: &Linted) -> anyhow::Result<()> {
    use std::io::Write;

    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let file = property(&linted.name);
    for finding in &linted.findings {
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let (column, end) = linted.characters(finding);
        let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        let message = data(&sanitized(&format!("{}{help}", finding.message)));
        writeln!(
            out,
            "::{level} file={file},line={},col={column},endColumn={end},title=abide lint: {}::{message}",
            finding.line, finding.code,
        )?;
    }
    Ok(out.flush()?)
}

/// The text of a command: what would end its line is escaped.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command, in which `:` and `,` are escaped as well.
fn property(text: &str) -> String {
    data(&sanitized(text)).replace(':', "%3A").replace(',', "%2C")
}
