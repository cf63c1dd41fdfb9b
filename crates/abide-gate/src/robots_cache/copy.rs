//! The last good copy: a robots.txt as it was received, and where it came from.
//!
//! A crawler knows a million hosts, so what most copies do not have is behind a pointer, and equal texts are one in memory (`interner.rs`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::robots_cache::Validators;
use crate::{Origin, WallMillis};

/// A robots.txt as it was received: decoded bytes and where they came from.
#[derive(Clone, PartialEq)]
pub struct GoodCopy {
    pub(super) body: Arc<[u8]>,
    pub(super) truncated: bool,
    /// It is an HTML page without one rule line.
    pub(super) html: bool,
    pub(super) status: u16,
    /// Where the redirects ended, if there were any.
    pub(super) redirected_to: Option<Box<Url>>,
    pub(super) validators: Validators,
    /// What its `Cache-Control` asked for, within bounds.
    pub(super) lifetime: Option<Duration>,
    pub(super) fetched_at: WallMillis,
    pub(super) validated_at: WallMillis,
}

impl GoodCopy {
    /// The text: at most the policy's limit of decoded bytes, and whole lines only.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether there was more than the limit (RFC 9309 §2.5).
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The 2xx status it came with.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Its entity tag, as the server wrote it.
    pub fn etag(&self) -> Option<&[u8]> {
        self.validators.etag()
    }

    /// When its body was received.
    pub fn fetched_at(&self) -> WallMillis {
        self.fetched_at
    }

    /// When the server last confirmed it, by sending it or by a 304.
    pub fn validated_at(&self) -> WallMillis {
        self.validated_at
    }

    /// Where it was received from. `origin` is the one it is filed under.
    pub(super) fn final_url(&self, origin: &Origin) -> Url {
        self.redirected_to.as_deref().cloned().unwrap_or_else(|| origin.robots_url())
    }

    /// The copy after a 304 (RFC 9111 §4.3.4): confirmed now, with what the 304 changes.
    pub(super) fn confirmed(
        &self,
        validators: Validators,
        lifetime: Option<Duration>,
        now: WallMillis,
    ) -> Self {
        Self {
            validated_at: now,
            validators: validators.or(&self.validators),
            lifetime: lifetime.or(self.lifetime),
            ..self.clone()
        }
    }

    /// The copy, from now if it is from the future: the clock was set back, and a record with times ahead would never be fresh.
    pub(super) fn not_after(self: Arc<Self>, now: WallMillis) -> Arc<Self> {
        if self.fetched_at <= now && self.validated_at <= now {
            return self;
        }
        let (fetched_at, validated_at) = (self.fetched_at.min(now), self.validated_at.min(now));
        Arc::new(Self { fetched_at, validated_at, ..Self::clone(&self) })
    }

    /// About how many bytes it takes in memory, without its body.
    pub(super) fn weight(&self) -> usize {
        let url =
            self.redirected_to.as_ref().map_or(0, |url| size_of::<Url>().saturating_add(url.as_str().len()));
        let fields = [self.etag(), self.validators.last_modified()].into_iter().flatten().map(<[u8]>::len);
        size_of::<Self>().saturating_add(url).saturating_add(fields.sum())
    }
}

impl fmt::Debug for GoodCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoodCopy")
            .field("bytes", &self.body.len())
            .field("truncated", &self.truncated)
            .field("status", &self.status)
            .field("redirected_to", &self.redirected_to.as_ref().map(|url| url.as_str()))
            .field("fetched_at", &self.fetched_at)
            .field("validated_at", &self.validated_at)
            .finish_non_exhaustive()
    }
}
