//! The codes of `abide lint`: how bad each is, and what to do about it. `docs/lint-codes.md` is written from here.

use std::sync::LazyLock;

use annotate_snippets::Level;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Something of the file is not read, or not as its author can have meant it.
    Error,
    /// Some crawlers read it otherwise than it looks.
    Warning,
    /// Nothing changes.
    Note,
}

impl Severity {
    pub(crate) fn level(self) -> Level<'static> {
        match self {
            Self::Error => Level::ERROR,
            Self::Warning => Level::WARNING,
            Self::Note => Level::NOTE,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One kind of finding.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
    pub(crate) text: &'static str,
}

pub(crate) fn of(name: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.name == name)
}

/// In the order of the alphabet. Each line of `codes.txt` has a name, a severity, and the text.
pub(crate) static CODES: LazyLock<Vec<Code>> =
    LazyLock::new(|| include_str!("codes.txt").lines().filter_map(code).collect());

fn code(line: &'static str) -> Option<Code> {
    let (name, rest) = line.split_once(' ')?;
    let (severity, text) = rest.split_once(' ')?;
    let known = [Severity::Error, Severity::Warning, Severity::Note];
    let severity = known.into_iter().find(|known| known.as_str() == severity)?;
    Some(Code { name, severity, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_codes_is_up_to_date() {
        let mut page = String::from(
            "# The codes of `abide lint`\n\n`abide lint --explain CODE` prints one of them. Programs may rely on the names (`kind` in `--format json`).\n",
        );
        for (heading, severity) in [
            ("Errors: something is not read, or not as its author can have meant it", Severity::Error),
            ("Warnings: some crawlers read it differently", Severity::Warning),
            ("Notes: nothing changes", Severity::Note),
        ] {
            page.push_str(&format!("\n## {heading}\n\n"));
            for code in CODES.iter().filter(|code| code.severity == severity) {
                page.push_str(&format!("* `{}`: {}\n", code.name, code.text));
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint-codes.md");
        if std::env::var_os("ABIDE_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page);
        assert!(CODES.is_sorted_by_key(|code| code.name));
        assert_eq!(CODES.len(), include_str!("codes.txt").lines().count(), "every line is read");
    }
}
