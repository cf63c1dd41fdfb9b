//! `abide lint --format sarif`: a log of SARIF 2.1.0 (OASIS), which code hosts and editors read.
//!
//! One log for all files of a call, because a log is one JSON value. Columns count characters, as SARIF says,
//! where `--json` has bytes.

use serde_json::{Value, json};
use url::Url;

use super::Linted;
use crate::findings::{CODES, Finding, Severity};

/// The log of one run over these files.
pub(super) fn log(linted: &[Linted]) -> Value {
    let rules = CODES.iter().map(|code| {
        json!({
            "id": code.name,
            "shortDescription": { "text": code.text },
            "defaultConfiguration": { "level": level(code.severity) },
        })
    });
    let results =
        linted.iter().flat_map(|linted| linted.findings.iter().map(|finding| result(linted, finding)));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "abide lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn result(linted: &Linted, finding: &Finding) -> Value {
    let (column, end) = linted.characters(finding);
    let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    json!({
        "ruleId": finding.code,
        "level": level(finding.severity),
        "message": { "text": format!("{}{help}", finding.message) },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&linted.name) },
            "region": { "startLine": finding.line, "startColumn": column, "endColumn": end },
        } }],
    })
}

/// SARIF §3.27.10: these are its levels, too.
fn level(severity: Severity) -> &'static str {
    severity.as_str()
}

/// A path as a URI reference (RFC 3986 §4.1); a URL stays one.
fn uri(name: &str) -> String {
    if Url::parse(name).is_ok_and(|url| url.has_host()) {
        return name.to_owned();
    }
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    name.bytes()
        .map(|byte| if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
