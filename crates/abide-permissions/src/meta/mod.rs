//! Robots metas: `<meta name="robots" content="noindex">` (repext-03 §3.1.2).
//!
//! From bytes to rules in two steps: `scanner` finds the metas of a document, and the functions here read
//! what they state. The second needs no HTML, so it is there without the feature.

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

use crate::element::{Carrier, read_elements};
use crate::head::{Head, Meta, Stray, StrayPlace};
use crate::options::ReadOptions;
use crate::provenance::{Findings, Provenance, Shown};
use crate::question::Asked;
use crate::stated::Stated;
use crate::words::{folded, words};

/// Reads the metas of a head that bind us.
pub(crate) fn read_head(options: &ReadOptions, head: &Head, findings: &mut Findings) {
    read_metas(options, head.metas(), |index, name| Provenance::Meta { index, name }, findings);
    read_metas(options, head.noscript_metas(), |index, name| Provenance::Noscript { index, name }, findings);
    head.strays().iter().for_each(|stray| doubt_stray(options, stray, findings));
    findings.truncated |= head.end().is_incomplete_scan() || head.noscript_cut() || head.strays_cut();
}

/// Reads the metas that bind us; all of them count (repext-03 §3.1.2: "the union of all rules found").
pub(crate) fn read_metas(
    options: &ReadOptions,
    metas: &[Meta],
    source: impl Fn(usize, Box<str>) -> Provenance,
    findings: &mut Findings,
) {
    for (index, meta) in metas.iter().enumerate() {
        let source = || source(index, meta.name().into());
        match Named::of(options, meta.name()) {
            Named::Ours => {
                let content = within_limit(meta.content().as_bytes(), options.content_limit);
                if content.len() < meta.content().len() {
                    findings.truncated(source());
                }
                findings.add(read_content(options, content), source);
            }
            Named::AlmostOurs => {
                let problem = format!("`{}` is not a crawler's name", Shown(meta.name()));
                findings.doubt(named_by(options, meta), source(), &problem);
            }
            Named::Other => {}
        }
    }
}

/// A stray that addresses us makes the questions unknown that it is about: some read it, and its author meant
/// it.
fn doubt_stray(options: &ReadOptions, stray: &Stray, findings: &mut Findings) {
    let name = stray.meta.name();
    let is_field = stray.place == StrayPlace::HttpEquiv
        && ["x-robots-tag", "robots-tag"].iter().any(|field| name.trim().eq_ignore_ascii_case(field));
    if is_field || Named::of(options, name) != Named::Other {
        let source = Provenance::Stray { place: stray.place.as_str().into(), name: name.into() };
        findings.doubt(named_by(options, &stray.meta), source, "no standard reads a robots meta there");
    }
}

/// The questions that a meta is about.
fn named_by(options: &ReadOptions, meta: &Meta) -> Asked {
    let content = within_limit(meta.content().as_bytes(), options.content_limit);
    let stated = read_content(options, content);
    stated.doubted.and(Asked::by_all(&stated.rules))
}

fn read_content(options: &ReadOptions, content: &[u8]) -> Stated {
    read_elements(&folded(without_slash(content)), options, Carrier::Meta)
}

/// Stricter: the slash of `content=noindex/>` is part of the value, and was meant to end the tag.
fn without_slash(value: &[u8]) -> &[u8] {
    value.strip_suffix(b"/").unwrap_or(value)
}

/// For whom the name of a meta is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// Us, or all crawlers. Stricter: `robot` is read by Google too, and blanks around the name may be those
    /// of copied text.
    Ours,
    /// It would be ours without the marks around it (`name=”robots”`).
    AlmostOurs,
    Other,
}

impl Named {
    fn of(options: &ReadOptions, name: &str) -> Self {
        let name = folded(without_slash(name.as_bytes()));
        let is_ours = |name: &[u8]| options.names_us(name, &[b"robots", b"robot"]);
        if is_ours(name.trim_ascii()) {
            return Self::Ours;
        }
        let text = String::from_utf8_lossy(&name);
        let mut words = words(&text);
        match (words.next(), words.next()) {
            (Some(word), None) if is_ours(word.text.as_bytes()) => Self::AlmostOurs,
            _ => Self::Other,
        }
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
