//! What was found in the head of a document, and how the search ended.
//!
//! A head without metas and a head that was not read are different answers, so how the scan ended is part of
//! what was found.

#[cfg(feature = "html")]
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "html")]
use crate::license::{LICENSES_MAX, is_license};

/// The metas of a document's head. Cheap to clone.
///
/// `HeadScanner` (feature `html`) returns it; without a scan, use [`Head::not_scanned`].
///
/// ```
/// use abide_permissions::{Head, HeadEnd};
///
/// let (pdf, unread) = (Head::not_scanned(HeadEnd::NotHtml), Head::not_scanned(HeadEnd::NotScanned));
/// assert!(pdf.metas().is_empty() && pdf.end().is_complete(), "it has no metas");
/// assert!(unread.metas().is_empty() && !unread.end().is_complete(), "it may have metas");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Head {
    /// Absent when nothing was found, as with most responses that are not HTML.
    found: Option<Arc<FoundInHead>>,
    end: HeadEnd,
    bytes: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundInHead {
    pub(crate) metas: Vec<Meta>,
    pub(crate) noscript_metas: Vec<Meta>,
    pub(crate) noscript_cut: bool,
    pub(crate) strays: Vec<Stray>,
    /// There were more strays than are kept.
    pub(crate) strays_cut: bool,
    pub(crate) license_links: Vec<Box<str>>,
}

#[cfg(feature = "html")]
impl FoundInHead {
    /// Takes a meta of the head with these attributes, if it has a name. One that is named by another
    /// attribute is a stray.
    pub(crate) fn add_meta<'a>(&mut self, attribute: impl Fn(&'static str) -> Option<Cow<'a, str>>) {
        if let Some(name) = attribute("name").filter(|name| !name.is_empty()) {
            self.metas.push(Meta::new(name, attribute("content").unwrap_or_default()));
            return;
        }
        for (other, place) in [("property", StrayPlace::Property), ("http-equiv", StrayPlace::HttpEquiv)] {
            // `og:title` and its like are many, and no crawler's name has a colon.
            if let Some(name) = attribute(other).filter(|name| !name.is_empty() && !name.contains(':')) {
                self.add_stray(place, name, attribute("content").unwrap_or_default());
            }
        }
    }

    /// Takes a meta behind the head with these attributes, if it has a name that may be a crawler's.
    pub(crate) fn add_meta_of_body<'a>(&mut self, attribute: impl Fn(&'static str) -> Option<Cow<'a, str>>) {
        if let Some(name) = attribute("name").filter(|name| !name.is_empty() && !name.contains(':')) {
            self.add_stray(StrayPlace::Body, name, attribute("content").unwrap_or_default());
        }
    }

    /// Takes the strays of another scan.
    pub(crate) fn add_strays_of(&mut self, other: &mut Self) {
        self.strays_cut |= other.strays_cut;
        std::mem::take(&mut other.strays).into_iter().for_each(|stray| self.keep(stray));
    }

    fn add_stray(&mut self, place: StrayPlace, name: Cow<'_, str>, content: Cow<'_, str>) {
        self.keep(Stray { place, meta: Meta::new(name, content) });
    }

    /// Keeps a meta that no reader honours where it stands, while there is room, and once.
    fn keep(&mut self, stray: Stray) {
        if self.strays.contains(&stray) {
            return;
        }
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(stray);
        } else {
            self.strays_cut = true;
        }
    }

    /// Takes the URL of a link with these attributes, if it leads to a licence.
    pub(crate) fn add_link<'a>(&mut self, attribute: impl Fn(&'static str) -> Option<Cow<'a, str>>) {
        let kind = attribute("rel").zip(attribute("type"));
        if kind.is_some_and(|(rel, media_type)| is_license(&rel, &media_type))
            && let Some(url) = attribute("href").filter(|url| !url.trim_ascii().is_empty())
            && self.license_links.len() < LICENSES_MAX
        {
            self.license_links.push(url.trim_ascii().into());
        }
    }
}

/// A meta that looks like a robots meta and stands where readers do not look for one. If it addresses us, the
/// questions that its rules are about are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Stray {
    pub(crate) place: StrayPlace,
    pub(crate) meta: Meta,
}

/// Where such a meta stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(not(feature = "html"), allow(dead_code, reason = "only the scanner finds them"))]
pub(crate) enum StrayPlace {
    /// Its name is in `property`.
    Property,
    /// Its name is in `http-equiv`.
    HttpEquiv,
    /// It stands behind the end of the head.
    Body,
}

impl StrayPlace {
    /// As it is shown: `property`, `http-equiv`, `body`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Property => "property",
            Self::HttpEquiv => "http-equiv",
            Self::Body => "body",
        }
    }
}

/// Strays that are kept of one page. An honest one has one or two.
#[cfg(feature = "html")]
const STRAYS_MAX: usize = 64;

impl Head {
    /// No scan was made, for this reason.
    pub const fn not_scanned(reason: HeadEnd) -> Self {
        Self { found: None, end: reason, bytes: 0 }
    }

    /// A head with these metas, in order.
    pub fn from_metas(metas: impl IntoIterator<Item = Meta>, end: HeadEnd) -> Self {
        Self::new(FoundInHead { metas: metas.into_iter().collect(), ..FoundInHead::default() }, end, 0)
    }

    pub(crate) fn new(found: FoundInHead, end: HeadEnd, bytes: usize) -> Self {
        // Most pages have nothing to keep, and then a clone counts no reference.
        let found = if found == FoundInHead::default() { None } else { Some(Arc::new(found)) };
        Self { found, end, bytes }
    }

    /// Marks the metas as those of a part of the document.
    pub const fn of_part(mut self) -> Self {
        if self.end.is_complete() {
            self.end = HeadEnd::Interrupted;
        }
        self
    }

    /// Every meta element of the head with a name, in order, as a browser with scripting sees them.
    pub fn metas(&self) -> &[Meta] {
        self.found.as_deref().map_or(&[], |found| &found.metas)
    }

    /// The metas within the `noscript` elements of the head, which exist only for browsers without scripting.
    /// Their rules count too.
    pub fn noscript_metas(&self) -> &[Meta] {
        self.found.as_deref().map_or(&[], |found| &found.noscript_metas)
    }

    pub(crate) fn strays(&self) -> &[Stray] {
        self.found.as_deref().map_or(&[], |found| &found.strays)
    }

    /// Whether there were more strays than are kept.
    pub(crate) fn strays_cut(&self) -> bool {
        self.found.as_deref().is_some_and(|found| found.strays_cut)
    }

    /// The URLs of the `<link rel="license" type="application/rsl+xml">` elements, as written.
    pub(crate) fn license_links(&self) -> &[Box<str>] {
        self.found.as_deref().map_or(&[], |found| &found.license_links)
    }

    /// How the scan ended, or why there was none.
    pub const fn end(&self) -> HeadEnd {
        self.end
    }

    /// Bytes that were looked at, before charset decoding.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a `noscript` held more than is looked at (64 KiB), or there were more of them (256).
    pub fn noscript_cut(&self) -> bool {
        self.found.as_deref().is_some_and(|found| found.noscript_cut)
    }
}

/// There is no HTML.
impl Default for Head {
    fn default() -> Self {
        Self::not_scanned(HeadEnd::NotHtml)
    }
}

/// A meta element: its name and content, character references decoded, else as written.
///
/// ```
/// use abide_permissions::{Head, HeadEnd, Meta};
///
/// let metas = [Meta::new("robots", "noindex")];
/// let head = Head::from_metas(metas, HeadEnd::Ended);
/// assert_eq!(head.metas()[0].content(), "noindex");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Meta {
    name: Box<str>,
    content: Box<str>,
}

impl Meta {
    /// A meta element.
    pub fn new(name: impl Into<Box<str>>, content: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), content: content.into() }
    }

    /// Its name; case and spaces as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its content, empty when the attribute is missing.
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// How a scan of the head ended, or why there was none.
///
/// ```
/// use abide_permissions::{HeadEnd, Permissions};
///
/// fn is_cut(permissions: &Permissions) -> bool {
///     matches!(permissions.head_end(), HeadEnd::ByteLimit | HeadEnd::MemoryLimit)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum HeadEnd {
    /// The head has ended, and nothing after it can be in it.
    Ended,
    /// The document has ended before its head.
    Eof,
    /// The limit on bytes was met.
    ByteLimit,
    /// The limit on memory was met, by a huge tag or comment.
    MemoryLimit,
    /// The body broke off, or is a part of the document only.
    Interrupted,
    /// The document is XML, and not well-formed before its head has ended.
    Malformed,
    /// The Content-Type does not settle how the document is to be read. It was read in one way; in another it
    /// may say more.
    Unclear,
    /// The text is in an encoding that is not known: UTF-16 without a mark, UTF-32, ISO-2022 that nothing
    /// declares. What can be seen of it was read.
    UnknownCharset,
    /// The content is not HTML, or there is none.
    NotHtml,
    /// The body is still content-coded, so it cannot be read.
    Undecoded,
    /// The body was not read: scanning is off, or the response is not a final success.
    NotScanned,
}

impl HeadEnd {
    /// The name in the command's JSON: `ended`, `eof`, `byte_limit`, `memory_limit`, or `none` without a
    /// scan. It is `eof` for a body that ended early, and for a head that was read but does not count as
    /// known.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Eof | Self::Interrupted | Self::Malformed | Self::Unclear | Self::UnknownCharset => "eof",
            Self::ByteLimit => "byte_limit",
            Self::MemoryLimit => "memory_limit",
            Self::NotHtml | Self::Undecoded | Self::NotScanned => "none",
        }
    }

    /// Whether all metas are known: the head was read to its end, or there is no HTML.
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Ended | Self::Eof | Self::NotHtml)
    }

    /// Whether a scan was begun but did not find all metas.
    pub const fn is_incomplete_scan(self) -> bool {
        matches!(
            self,
            Self::ByteLimit
                | Self::MemoryLimit
                | Self::Interrupted
                | Self::Malformed
                | Self::Unclear
                | Self::UnknownCharset
        )
    }
}

/// One phrase for people.
impl fmt::Display for HeadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the head was read to its end",
            Self::Eof => "the document ended within its head",
            Self::ByteLimit => "the limit on bytes was met",
            Self::MemoryLimit => "the limit on memory was met",
            Self::Interrupted => "the body broke off",
            Self::Malformed => "the document is XML and not well-formed",
            Self::Unclear => "the Content-Type does not settle how to read the document",
            Self::UnknownCharset => "the character encoding of the document is unknown",
            Self::NotHtml => "the content is not HTML",
            Self::Undecoded => "the body is still content-coded",
            Self::NotScanned => "the body was not looked at",
        })
    }
}
