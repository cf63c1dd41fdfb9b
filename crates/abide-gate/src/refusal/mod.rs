//! Whether a response is a refusal by what stands before a site: the challenge or the block page of a
//! firewall or a CDN.
//!
//! Such a response is neither the page nor the site's robots.txt, whatever its status. It is known by a field
//! that such a network sets on these alone, or by the markup of the page. The rows are in `gatekeepers.tsv`,
//! each with its source. A false alarm is worse than a row that is missing: what is not known here still
//! counts by its status ([`pacing`](crate::pacing)).

use std::fmt;
use std::sync::LazyLock;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, StatusCode};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod markup;

use markup::{Marker, Markup};

/// A refusal that was recognised: by whom, of which kind, and by what. abide never solves a challenge.
///
/// ```
/// use abide_gate::{Refusal, RefusalKind};
/// use http::{HeaderMap, StatusCode};
///
/// let fields = HeaderMap::from_iter([("cf-mitigated".parse()?, "challenge".parse()?)]);
/// let refusal = Refusal::in_head(StatusCode::OK, &fields).ok_or("it is one, whatever the status")?;
/// assert_eq!((refusal.by(), refusal.kind()), ("Cloudflare", RefusalKind::Challenge));
/// assert_eq!(refusal.to_string(), "refused by Cloudflare (challenge)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Refusal(&'static Gatekeeper);

/// What a gatekeeper answers with.
///
/// ```
/// assert_eq!(abide_gate::RefusalKind::Block.as_str(), "block");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// A task for a browser or a person. abide does not solve it.
    Challenge,
    /// A no.
    Block,
}

impl RefusalKind {
    /// `challenge` or `block`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::Block => "block",
        }
    }
}

/// One row of the table.
#[derive(Debug)]
struct Gatekeeper {
    id: &'static str,
    by: &'static str,
    kind: RefusalKind,
    /// None: any.
    statuses: Vec<u16>,
    field: Option<Field>,
    /// None: the field decides.
    markers: Vec<Marker>,
    evidence: &'static str,
}

#[derive(Debug)]
struct Field {
    name: HeaderName,
    /// `None`: any.
    value: Option<&'static str>,
}

static GATEKEEPERS: LazyLock<Vec<Gatekeeper>> =
    LazyLock::new(|| rows().filter_map(Gatekeeper::parse).collect());

fn rows() -> impl Iterator<Item = &'static str> {
    include_str!("gatekeepers.tsv").lines().filter(|line| !line.starts_with('#'))
}

/// So much of a body is looked at: more than any gatekeeper's page has before its markers.
pub const REFUSAL_LOOKED_AT: usize = 16 * 1024;

impl Refusal {
    /// Whether a response is a refusal by its header fields.
    pub fn in_head(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        GATEKEEPERS.iter().find(|row| row.markers.is_empty() && row.may_be(status, headers)).map(Self)
    }

    /// Whether the beginning of its body could show that a response is a refusal.
    pub fn may_be_in_body(status: StatusCode, headers: &HeaderMap) -> bool {
        is_html(status, headers)
            && GATEKEEPERS.iter().any(|row| !row.markers.is_empty() && row.may_be(status, headers))
    }

    /// Whether a response is a refusal by the `start` of its body, codings undone: of [`REFUSAL_LOOKED_AT`]
    /// bytes, or of as many as are at hand.
    pub fn in_body(status: StatusCode, headers: &HeaderMap, start: &[u8]) -> Option<Self> {
        if !is_html(status, headers) {
            return None;
        }
        let start = start.get(..REFUSAL_LOOKED_AT).unwrap_or(start);
        let may_be = |row: &&Gatekeeper| {
            !row.markers.is_empty()
                && row.may_be(status, headers)
                && row.markers.iter().all(|marker| marker.may_be_in(start))
        };
        let mut candidates = GATEKEEPERS.iter().filter(may_be).peekable();
        candidates.peek()?;
        let markup = Markup::of(start);
        candidates.find(|row| row.markers.iter().all(|marker| marker.is_in(&markup))).map(Self)
    }

    /// The gatekeeper, such as `Cloudflare`.
    pub fn by(&self) -> &'static str {
        self.0.by
    }

    /// What it answered with.
    pub fn kind(&self) -> RefusalKind {
        self.0.kind
    }

    /// By what it was recognised: a header field, or a part of the page.
    pub fn evidence(&self) -> &'static str {
        self.0.evidence
    }

    /// As it is stored.
    pub(crate) fn id(&self) -> &'static str {
        self.0.id
    }

    pub(crate) fn of_id(id: &str) -> Option<Self> {
        GATEKEEPERS.iter().find(|row| row.id == id).map(Self)
    }
}

impl Gatekeeper {
    fn parse(line: &'static str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, by, kind, statuses, field, markers, _source] = *columns else { return None };
        let kind = match kind {
            "challenge" => RefusalKind::Challenge,
            "block" => RefusalKind::Block,
            _ => return None,
        };
        let statuses = match statuses {
            "*" => Vec::new(),
            some => some.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?,
        };
        let parsed = if field.is_empty() { None } else { Some(Field::parse(field)?) };
        let parts = markers.split("; ").filter(|marker| !marker.is_empty());
        let parts: Vec<Marker> = parts.map(Marker::parse).collect::<Option<_>>()?;
        let evidence = if markers.is_empty() { field.trim_end_matches(": *") } else { markers };
        (!evidence.is_empty()).then_some(Self {
            id,
            by,
            kind,
            statuses,
            field: parsed,
            markers: parts,
            evidence,
        })
    }

    /// By all that is known before the body.
    fn may_be(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_of_status = self.statuses.is_empty() || self.statuses.contains(&status.as_u16());
        is_of_status && self.field.as_ref().is_none_or(|field| field.is_in(headers))
    }
}

impl Field {
    fn parse(text: &'static str) -> Option<Self> {
        let (name, value) = text.split_once(": ")?;
        Some(Self { name: name.parse().ok()?, value: Some(value).filter(|value| *value != "*") })
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        // Of several lines any, because a proxy on the way may have added its own.
        headers.get_all(&self.name).iter().any(|line| {
            self.value.is_none_or(|value| line.as_bytes().trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
        })
    }
}

/// By its type alone: a text that quotes a page is none. Errors often have no type.
fn is_html(status: StatusCode, headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return !status.is_success() };
    let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|html| essence.eq_ignore_ascii_case(html))
}

impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Refusal {}

impl std::hash::Hash for Refusal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused by {} ({})", self.by(), self.kind().as_str())
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({})", self.id())
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Refusal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = <&str>::deserialize(deserializer)?;
        Self::of_id(id).ok_or_else(|| D::Error::custom("expected the id of a known gatekeeper"))
    }
}

#[cfg(test)]
#[path = "../../tests/parts/refusal.rs"]
mod tests;
