//! Robots metas: `<meta name="robots" content="noindex">` (repext-03 §3.1.2).
//!
//! From bytes to rules in two steps: `scanner` finds the metas of a document, and the functions here read what they state. The second needs
//! no HTML, so it is there without the feature.

#[cfg(feature = "html")]
mod between;
#[cfg(feature = "html")]
mod common;
#[cfg(feature = "html")]
mod decode;
#[cfg(feature = "html")]
mod html;
#[cfg(feature = "html")]
mod machine;
#[cfg(feature = "html")]
mod prescan;
#[cfg(feature = "html")]
mod reference;
#[cfg(feature = "html")]
mod rewriter;
#[cfg(feature = "html")]
mod scanner;
#[cfg(feature = "html")]
mod xml;

#[cfg(feature = "html")]
pub use scanner::HeadScanner;

use crate::element::{read_elements, with_blanks};
use crate::head::{Head, Meta};
use crate::options::ReadOptions;
use crate::provenance::{Findings, Provenance};

/// Reads the metas of a head that bind us.
pub(crate) fn read_head(options: &ReadOptions, head: &Head, findings: &mut Findings) {
    read_metas(options, head.metas(), |index, name| Provenance::Meta { index, name }, findings);
    read_metas(options, head.noscript_metas(), |index, name| Provenance::Noscript { index, name }, findings);
    findings.truncated |= head.end().is_incomplete_scan() || head.noscript_cut() || head.strays_cut();
}

/// Reads the metas that bind us; all of them count (repext-03 §3.1.2: "the union of all rules found").
pub(crate) fn read_metas(
    options: &ReadOptions,
    metas: &[Meta],
    source: impl Fn(usize, Box<str>) -> Provenance,
    findings: &mut Findings,
) {
    // Stricter: the slash of `content=noindex/>` is part of the value, and was meant to end the tag.
    fn without_slash(value: &[u8]) -> &[u8] {
        value.strip_suffix(b"/").unwrap_or(value)
    }
    for (index, meta) in metas.iter().enumerate() {
        if !options.names_us(without_slash(meta.name().as_bytes().trim_ascii()), &[b"robots"]) {
            continue;
        }
        let source = || source(index, meta.name().into());
        let content = within_limit(meta.content().as_bytes(), options.content_limit);
        if content.len() < meta.content().len() {
            findings.truncated(source());
        }
        findings.add(read_elements(&with_blanks(without_slash(content)), None), source);
    }
}

/// All of the content, or what a comma has ended within the limit.
fn within_limit(content: &[u8], limit: usize) -> &[u8] {
    if content.len() <= limit {
        return content;
    }
    let within = content.get(..limit).unwrap_or(content);
    let end = within.iter().rposition(|byte| *byte == b',').unwrap_or(0);
    within.get(..end).unwrap_or_default()
}
