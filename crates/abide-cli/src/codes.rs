//! The codes of `abide lint`: how bad each is, and what to do about it. `docs/lint-codes.md` is written from here.

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

const fn code(name: &'static str, severity: Severity, text: &'static str) -> Code {
    Code { name, severity, text }
}

/// In the order of the alphabet.
pub(crate) const CODES: &[Code] = &[
    code(
        "bad-percent-escape",
        Severity::Warning,
        "A % is not followed by two hexadecimal digits, so it stands for itself. Write %25 for a percent sign.",
    ),
    code(
        "comma-in-path",
        Severity::Warning,
        "A comma does not separate paths: the whole value is one pattern. Write one rule per line.",
    ),
    code(
        "cut-by-limit",
        Severity::Error,
        "The file is longer than crawlers read (512,000 bytes; RFC 9309 asks for at least 500 KiB). Rules beyond that do not count. Shorten it.",
    ),
    code(
        "dropped-preference",
        Severity::Warning,
        "A value of App-Directives, Content-Usage or Content-Signal can't be read, so it states nothing, or only in part. Write it as the field's specification has it, such as `Content-Usage: train-ai=n`.",
    ),
    code(
        "duplicate-rule",
        Severity::Note,
        "The same rule stands in the group already, or in another group for the same crawlers. One of them can go.",
    ),
    code(
        "hidden-rule",
        Severity::Warning,
        "Another rule matches the same paths and takes precedence: the longer one, or the Allow (RFC 9309 \u{a7}2.2.2). This one decides nothing.",
    ),
    code(
        "html",
        Severity::Error,
        "The file looks like an HTML page, such as an error page. Serve plain text at /robots.txt, or status 404.",
    ),
    code(
        "invalid-bytes",
        Severity::Warning,
        "The line has bytes that are not UTF-8, or control characters. Save the file as UTF-8 and percent-encode other bytes of paths.",
    ),
    code(
        "missing-colon",
        Severity::Warning,
        "The colon behind the key is missing. Many crawlers read the line as meant, and others ignore it.",
    ),
    code(
        "misspelt-key",
        Severity::Warning,
        "The key is a known misspelling. Many crawlers read it as meant, and others ignore the line. Correct it.",
    ),
    code(
        "never-matches",
        Severity::Error,
        "The pattern can match no path, because every path starts with a slash. Begin it with / or *.",
    ),
    code(
        "no-token",
        Severity::Error,
        "A User-agent line names no crawler: a product token has letters, - and _ only (RFC 9309 \u{a7}2.2.1).",
    ),
    code(
        "non-standard-record",
        Severity::Note,
        "The record is not in the standard, and only some crawlers read it, or none any more.",
    ),
    code(
        "outside-group",
        Severity::Error,
        "The record stands before the first User-agent line, so it belongs to no group. Put `User-agent: *` above it.",
    ),
    code("overlong-line", Severity::Error, "The line is longer than is read, so its end does not count."),
    code(
        "raw-space",
        Severity::Warning,
        "A space in a path is compared as %20: the whole value is one pattern. Write %20, or one rule per line.",
    ),
    code(
        "record-inside-run",
        Severity::Note,
        "A record that is not a rule stands between User-agent lines. It does not separate them: what follows belongs to all of them.",
    ),
    code(
        "regex-in-path",
        Severity::Warning,
        "Patterns are not regular expressions: only * (anything) and $ at the end are special. Write * for .*, and one rule per alternative.",
    ),
    code("relative-url", Severity::Error, "The value must be an absolute URL, with https:// and the host."),
    code(
        "repeated-group",
        Severity::Note,
        "The crawler is named in more than one group. Crawlers that follow RFC 9309 combine these groups, and older ones read the first only.",
    ),
    code(
        "token-cut",
        Severity::Warning,
        "Something follows the product token, such as a version, and is ignored. Write the token alone.",
    ),
    code("two-sitemaps", Severity::Error, "A Sitemap line has one URL. Write one line for each sitemap."),
    code("unknown-record", Severity::Warning, "The key is unknown, so the record changes nothing."),
    code(
        "unreadable-line",
        Severity::Error,
        "The line is neither a record (`key: value`) nor a comment, and is skipped. Begin comments with #.",
    ),
    code(
        "unusable-crawl-delay",
        Severity::Warning,
        "The Crawl-delay is not a number of seconds in decimal digits, so it is ignored or cut.",
    ),
    code(
        "utf16",
        Severity::Error,
        "The file is UTF-16. RFC 9309 asks for UTF-8, and most crawlers read nothing of it.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_codes_is_up_to_date() {
        let mut page = String::from(
            "# The codes of `abide lint`\n\n`abide lint --explain CODE` prints one of them. Programs may rely on the names (`kind` in `--format json`).\n\n\
             An *error*: something of the file is not read, or not as its author can have meant it. A *warning*: some crawlers read it otherwise than\nit looks. A *note*: nothing changes.\n\n\
             | code | severity | what it means, and what to do |\n| --- | --- | --- |\n",
        );
        for Code { name, severity, text } in CODES {
            page.push_str(&format!("| `{name}` | {} | {text} |\n", severity.as_str()));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lint-codes.md");
        if std::env::var_os("ABIDE_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), page);
        assert!(CODES.is_sorted_by_key(|code| code.name));
    }
}
