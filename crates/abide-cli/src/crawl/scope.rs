//! Which of the URLs that pages name belong to the crawl, and the reasons for which the others are left out.
//!
//! What is left out is counted by reason, because a crawl that ends after one page should say why.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::collections::HashSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::args::ScopeArgs;
use crate::crawl::frontier::{UrlKind, host_of, known_as, normalized};
use crate::sanitize::count;

/// Why a URL that a page names is not requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It is on a host that is not crawled.
    OtherHost,
    /// It is neither http nor https.
    Scheme,
    /// It is beyond `--max-depth`.
    Depth,
    /// The link or its page says nofollow, or its kin.
    Nofollow,
    /// What its page says about links could not be read.
    UnknownHead,
    /// By `--prefix`, `--include` or `--exclude`.
    Excluded,
    /// It is the source of a frame, or the target of a refresh.
    Frames,
    /// It is no URL.
    NoUrl,
}

/// How many URLs were left out, by reason. A URL that several pages name counts for each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    other_host: usize,
    scheme: usize,
    depth: usize,
    nofollow: usize,
    unknown_head: usize,
    excluded: usize,
    frames: usize,
    no_url: usize,
}

impl LeftOut {
    pub(crate) fn add(&mut self, reason: Reason, urls: usize) {
        let counted = match reason {
            Reason::OtherHost => &mut self.other_host,
            Reason::Scheme => &mut self.scheme,
            Reason::Depth => &mut self.depth,
            Reason::Nofollow => &mut self.nofollow,
            Reason::UnknownHead => &mut self.unknown_head,
            Reason::Excluded => &mut self.excluded,
            Reason::Frames => &mut self.frames,
            Reason::NoUrl => &mut self.no_url,
        };
        *counted = counted.saturating_add(urls);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (reason, urls) in other.counts() {
            self.add(reason, urls);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `2 links to other hosts, 1 nofollow link`.
    pub(crate) fn text(&self) -> String {
        let parts = self.counts().into_iter().filter(|(_, urls)| *urls > 0);
        let parts: Vec<String> = parts.map(|(reason, urls)| reason.counted(urls)).collect();
        parts.join(", ")
    }

    fn counts(&self) -> [(Reason, usize); 8] {
        [
            (Reason::OtherHost, self.other_host),
            (Reason::Scheme, self.scheme),
            (Reason::Depth, self.depth),
            (Reason::Nofollow, self.nofollow),
            (Reason::UnknownHead, self.unknown_head),
            (Reason::Excluded, self.excluded),
            (Reason::Frames, self.frames),
            (Reason::NoUrl, self.no_url),
        ]
    }
}

impl Reason {
    fn counted(self, urls: usize) -> String {
        match self {
            Self::OtherHost => format!("{urls} on other hosts"),
            Self::Scheme => format!("{urls} with schemes other than http and https"),
            Self::Depth => format!("{urls} beyond --max-depth"),
            Self::Nofollow => format!("{urls} by nofollow (--ignore-nofollow)"),
            Self::UnknownHead => format!("{urls} on pages whose head was not read whole"),
            Self::Excluded => format!("{urls} by --prefix, --include or --exclude"),
            Self::Frames => count(urls, "frame or refresh target"),
            Self::NoUrl => format!("{urls} that are no URLs"),
        }
    }
}

/// What the options permit: the sites given, and a part of them.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    args: ScopeArgs,
    depth_max: Option<u32>,
    /// The sites given, without `www.`, if their subdomains are crawled, too.
    parents: HashSet<String>,
}

impl Scope {
    pub(crate) fn new(urls: &[Url], depth_max: Option<u32>, args: ScopeArgs) -> Self {
        let parents = urls.iter().filter(|_| args.subdomains).map(|url| site(&host_of(url)).to_owned());
        Self { depth_max, parents: parents.collect(), args }
    }

    /// Whether a host that is not given belongs to the crawl.
    pub(crate) fn has_subdomain(&self, host: &str) -> bool {
        let mut parents = std::iter::successors(Some(host), |name| Some(name.split_once('.')?.1));
        !self.parents.is_empty() && parents.any(|name| self.parents.contains(name))
    }

    pub(crate) fn is_beyond(&self, depth: u32) -> bool {
        self.depth_max.is_some_and(|max| depth > max)
    }

    /// Whether a URL of this kind may be on a host that is not crawled.
    pub(crate) fn has_external(&self, kind: UrlKind) -> bool {
        self.args.external && kind.is_checked()
    }

    /// Whether the options leave this URL out. Sitemaps are read whatever pages are wanted, and what is only
    /// checked need not lie where the pages do.
    pub(crate) fn excludes(&self, url: &Url, kind: UrlKind) -> bool {
        let ScopeArgs { prefix, include, exclude, .. } = &self.args;
        if kind.is_sitemap() || prefix.is_empty() && include.is_empty() && exclude.is_empty() {
            return false;
        }
        let url = known_as(url);
        let target = target(&url);
        let is_within = |prefix: &Url| is_same_site(prefix, &url) && target.starts_with(self::target(prefix));
        let matches = |glob: &Glob| glob.matches(target.as_bytes());
        let is_wanted = kind.is_checked()
            || (prefix.is_empty() || prefix.iter().any(is_within))
                && (include.is_empty() || include.iter().any(matches));
        !is_wanted || exclude.iter().any(matches)
    }

    pub(crate) fn follows_start(&self, from: &Url, to: &Url) -> bool {
        self.args.follow_start || is_same_site(from, to)
    }
}

/// Whether two URLs are of one site: `www.` and the scheme aside, on the same host.
fn is_same_site(one: &Url, other: &Url) -> bool {
    site(&host_of(one)) == site(&host_of(other))
}

/// A host without its `www.`, unless that leaves a name without a dot: `www.com` is a site of its own.
fn site(host: &str) -> &str {
    host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host)
}

/// Path and query.
fn target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// A pattern of path and query: `*` is anything within a segment, `**` anything. One that does not begin with
/// `/` begins at any segment.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<Piece>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    /// Any bytes but `/`.
    Segment,
    Any,
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > GLOB_LEN_MAX {
            return Err(format!("expected a glob of 1 to {GLOB_LEN_MAX} bytes, such as /blog/** or *.pdf"));
        }
        let mut pieces = Vec::new();
        // As it stands in a URL.
        for &byte in normalized(&escaped(text)).as_bytes() {
            match (byte, pieces.last()) {
                (b'*', Some(Piece::Segment)) => {
                    pieces.pop();
                    pieces.push(Piece::Any);
                }
                (b'*', Some(Piece::Any)) => {}
                (b'*', _) => pieces.push(Piece::Segment),
                (byte, _) => pieces.push(Piece::Byte(byte)),
            }
        }
        Ok(Self(pieces))
    }
}

impl Glob {
    fn matches(&self, target: &[u8]) -> bool {
        let begins_anywhere = self.0.first() != Some(&Piece::Byte(b'/'));
        // Every place in the pattern at which the text may be: no time is lost by going back.
        let mut places = vec![false; self.0.len().saturating_add(1)];
        self.enter(&mut places, 0);
        let mut after = places.clone();
        for &byte in target {
            after.fill(false);
            for (place, piece) in
                self.0.iter().enumerate().filter(|(place, _)| places.get(*place) == Some(&true))
            {
                match piece {
                    Piece::Byte(own) if *own == byte => self.enter(&mut after, place.saturating_add(1)),
                    Piece::Segment if byte != b'/' => self.enter(&mut after, place),
                    Piece::Any => self.enter(&mut after, place),
                    _ => {}
                }
            }
            if begins_anywhere && byte == b'/' {
                self.enter(&mut after, 0);
            }
            std::mem::swap(&mut places, &mut after);
        }
        places.last() == Some(&true)
    }

    /// At a place, and behind it, because a star may be nothing.
    fn enter(&self, places: &mut [bool], place: usize) {
        let stars = self
            .0
            .get(place..)
            .unwrap_or_default()
            .iter()
            .take_while(|piece| !matches!(piece, Piece::Byte(_)));
        let behind = stars.count().saturating_add(1);
        places.iter_mut().skip(place).take(behind).for_each(|place| *place = true);
    }
}

/// A text as the URL standard writes it in a path.
fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'!'..=b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

const GLOB_LEN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_in_its_segment_and_two_do_not() {
        for (glob, matched, others) in [
            ("/blog/*", &["/blog/", "/blog/x", "/blog/x?y=1"][..], &["/blog", "/blog/x/y", "/x/blog/y"][..]),
            ("/blog/**", &["/blog/", "/blog/x/y?z=/"], &["/blog", "/blo"]),
            ("/**/print", &["/a/print", "/a/b/print"], &["/print", "/a/print/b"]),
            ("*.pdf", &["/a.pdf", "/x/y/b.pdf"], &["/a.pdf?x", "/a.pdfx"]),
            ("**?*sid=*", &["/x?sid=1", "/a/b?y=2&sid="], &["/x?id=1", "/sid=1"]),
            ("/caf\u{e9}/%7eu", &["/caf%C3%A9/~u"], &["/cafe/~u"]),
            ("/a***b*", &["/ab", "/a/x/bc"], &["/a/x/b/c"]),
            ("**", &["/", "/x/y"], &[]),
        ] {
            let glob: Glob = glob.parse().unwrap();
            assert!(matched.iter().all(|text| glob.matches(text.as_bytes())), "{glob:?} {matched:?}");
            assert!(!others.iter().any(|text| glob.matches(text.as_bytes())), "{glob:?} {others:?}");
        }
        assert!("".parse::<Glob>().is_err());
    }

    #[test]
    fn www_and_the_scheme_make_no_other_site() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        for (one, other, is_same) in [
            ("http://a.example/", "https://www.a.example/x", true),
            ("http://a.example/", "http://a.example:8080/", false),
            ("http://a.example/", "http://b.example/", false),
            ("http://www.com/", "http://com/", false),
        ] {
            assert_eq!(is_same_site(&url(one), &url(other)), is_same, "{one} {other}");
        }
        let args = ScopeArgs { subdomains: true, ..ScopeArgs::default() };
        let scope = Scope::new(&[url("http://www.a.example/")], None, args);
        assert!(scope.has_subdomain("b.c.a.example") && scope.has_subdomain("a.example"));
        assert!(!scope.has_subdomain("aa.example") && !scope.has_subdomain("b.a.example:8080"));
    }
}
