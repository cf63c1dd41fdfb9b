//! The stored form of a record: a version, the fields in the encoding of `postcard`, and a checksum over
//! both.
//!
//! Stores keep records for months, on disks that flip bits and next to other versions of abide. Whatever is
//! wrong with one (the version, the checksum, a value that cannot be, bytes left over) makes it *absent*: it
//! is fetched again. Reading never panics, and a record has one form only.
//!
//! What is stored is [`Stored`], and not [`RobotsRecord`] itself, so that the record can change in memory
//! without another version of its stored form.

use std::borrow::Cow;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::robots_cache::interner::RobotsText;
use crate::robots_cache::policy::{BODY_LIMIT_MAX, LIFETIME_MAX};
use crate::robots_cache::record::{LastAttempt, LastResult, Outage};
use crate::robots_cache::{GoodCopy, RobotsRecord, Validators};
use crate::{Failure, WallMillis, has_userinfo};

/// Goes up with each change of [`Stored`] and of what it contains, [`Failure`] included.
const VERSION: u8 = 4;
/// Of the checksum, which is CRC-32 (IEEE 802.3): it finds every flipped bit and every burst of up to 32.
const CHECKSUM_LEN: usize = 4;

/// The fields of a record, in the order in which they are stored. Times are milliseconds, and a lifetime is
/// seconds.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    origin: &'a str,
    last: LastResult,
    asked_at: WallMillis,
    fresh_until: WallMillis,
    next_try: WallMillis,
    outage: Outage,
    #[serde(borrow)]
    copy: Option<StoredCopy<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredCopy<'a> {
    truncated: bool,
    html: bool,
    status: u16,
    redirected_to: Option<&'a str>,
    etag: Option<&'a [u8]>,
    last_modified: Option<Cow<'a, [u8]>>,
    lifetime: Option<NonZeroU32>,
    fetched_at: WallMillis,
    validated_at: WallMillis,
    body: &'a [u8],
}

impl RobotsRecord {
    /// The record as bytes, for durable stores.
    pub fn encode(&self) -> Vec<u8> {
        let stored = Stored {
            origin: self.origin.as_str(),
            last: self.last(),
            asked_at: self.asked_at,
            fresh_until: self.fresh_until,
            next_try: self.next_try,
            outage: self.outage(),
            copy: self.copy().map(StoredCopy::of),
        };
        // Writing to memory cannot fail; if it did, no version would be empty bytes, and the record absent.
        let mut bytes = postcard::to_extend(&stored, vec![VERSION]).unwrap_or_default();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// The record in `bytes`, or `None` if it is not exactly one that [`encode`](Self::encode) of this
    /// version made.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (sealed, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>()?;
        let (&version, fields) = sealed.split_first()?;
        if version != VERSION || crc32fast::hash(sealed).to_le_bytes() != *checksum {
            return None;
        }
        let stored: Stored<'_> = postcard::from_bytes(fields).ok()?;
        let record = Self {
            origin: stored.origin.parse().ok()?,
            asked_at: stored.asked_at,
            fresh_until: stored.fresh_until,
            next_try: stored.next_try,
            attempt: LastAttempt::boxed(stored.last, stored.outage),
            copy: stored.copy.map(StoredCopy::into_copy).transpose().ok()?,
        };
        // Origins and URLs that we would have written otherwise, numbers in more bytes than they need, bytes
        // left over: not ours.
        (record.can_be() && record.encode() == bytes).then_some(record)
    }

    /// Whether its values agree with each other, as those of every record that we made do.
    fn can_be(&self) -> bool {
        let is_status = |status: u16| (100..=999).contains(&status);
        let is_result = match self.last() {
            LastResult::Rules => self.copy.is_some(),
            LastResult::Unavailable(status) | LastResult::Unreachable(Failure::Status(status)) => {
                is_status(status)
            }
            LastResult::TooManyRedirects | LastResult::Unreachable(_) => true,
        };
        let is_copy = self.copy().is_none_or(|copy| {
            (200..=299).contains(&copy.status)
                && copy.body().len() <= BODY_LIMIT_MAX
                && copy.lifetime().is_none_or(|lifetime| lifetime <= LIFETIME_MAX)
                && copy.redirected_to.as_deref().is_none_or(is_plain)
        });
        // §2.4: however the times got there, rules count for 24 hours at most.
        is_result && is_copy && self.fresh_until.since(self.asked_at) <= LIFETIME_MAX
    }
}

/// An http or https URL that says nothing about a user.
fn is_plain(url: &Url) -> bool {
    !has_userinfo(url) && url.has_host() && matches!(url.scheme(), "http" | "https")
}

impl<'a> StoredCopy<'a> {
    fn of(copy: &'a GoodCopy) -> Self {
        Self {
            truncated: copy.truncated,
            html: copy.html,
            status: copy.status,
            redirected_to: copy.redirected_to.as_ref().map(|url| url.as_str()),
            etag: copy.validators.etag(),
            last_modified: copy.validators.last_modified(),
            lifetime: copy.lifetime,
            fetched_at: copy.fetched_at,
            validated_at: copy.validated_at,
            body: copy.body(),
        }
    }

    fn into_copy(self) -> Result<GoodCopy, url::ParseError> {
        Ok(GoodCopy {
            text: RobotsText::new(self.body),
            truncated: self.truncated,
            html: self.html,
            status: self.status,
            redirected_to: self.redirected_to.map(Url::parse).transpose()?.map(Box::new),
            validators: Validators::new(self.etag, self.last_modified.as_deref()),
            lifetime: self.lifetime,
            fetched_at: self.fetched_at,
            validated_at: self.validated_at,
        })
    }
}

#[cfg(test)]
#[path = "../../tests/parts/robots_cache/codec.rs"]
mod tests;
