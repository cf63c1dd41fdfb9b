//! One attempt to fetch a robots.txt: from `/robots.txt` through its redirects to an outcome (RFC 9309
//! §2.3.1.2).
//!
//! The one loop over redirects: it counts them and keeps one deadline for all. What a response means is
//! decided in `outcome.rs`, and where it leads in `redirect.rs`; each hop is checked and paced behind
//! [`Fetch`](super::Fetch).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::time::timeout;
use url::Url;

use crate::denied::DenialCause;
use crate::robots_cache::fetch::{
    FetchError, NoResponse, PermitWait, RobotsRequest, RobotsResponse, StoredMeanwhile, Validators,
};
use crate::robots_cache::freshness::stated_lifetime;
use crate::robots_cache::interner::RobotsText;
use crate::robots_cache::outcome::{AfterHead, FetchOutcome, classify, has_rule, is_html, looks_coded};
use crate::robots_cache::record::whole_seconds;
use crate::robots_cache::{GoodCopy, RobotsCache, RobotsRecord, body, log, redirect};
use crate::{BoxFuture, Coding, Failure, Origin, REFUSAL_LOOKED_AT, Refusal};

/// The pacer deferred a request: this is no attempt.
#[derive(Debug, Clone)]
pub(super) struct DeferredFetch {
    pub(super) why: Box<DenialCause>,
    /// An earlier hop was sent, and redirected to a host that is backed off: sending it again now would be
    /// in vain.
    pub(super) sent: bool,
    /// How far it came: the next attempt begins with the last of these URLs. If each began at the first one,
    /// a redirect to the same host would always be deferred where the delay is longer than a request may
    /// wait.
    visited: Arc<Vec<Url>>,
}

/// Why an attempt is none: nothing was sent.
#[derive(Debug)]
pub(super) enum NotSent {
    Deferred(DeferredFetch),
    /// Another process has stored it, after a wait for the lease of the host.
    Stored(Box<RobotsRecord>),
}

/// Between the end of a wait and the start of the request.
const SLOT_WAIT_MARGIN: Duration = Duration::from_secs(5);

/// The length of all URLs of a deferred chain together, in bytes.
const VISITED_BYTES_MAX: usize = 2048;

/// The body of an error is waited for no longer, because its status is an answer already.
const REFUSAL_READ_MAX: Duration = Duration::from_secs(5);

/// The requests for one robots.txt, each a redirect further.
pub(super) struct Chain<'a> {
    cache: &'a Arc<RobotsCache>,
    origin: &'a Origin,
    previous: Option<&'a RobotsRecord>,
    /// The URLs requested so far. At most one more than the policy's redirects.
    visited: Vec<Url>,
    budget: Duration,
    /// A 304 came unasked, so the request was repeated.
    asked_again: bool,
    sent: bool,
    permit_wait: &'a PermitWait,
    /// For how long a 429 or its kin backs its host off at least.
    throttle: Option<Duration>,
    /// What [`StoredMeanwhile`] has found.
    stored: Arc<OnceLock<RobotsRecord>>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(
        cache: &'a Arc<RobotsCache>,
        origin: &'a Origin,
        previous: Option<&'a RobotsRecord>,
        permit_wait: &'a PermitWait,
        deferred: Option<DeferredFetch>,
    ) -> Self {
        let policy = &cache.policy;
        // A redirect is believed for as long as a chain of too many.
        let is_recent = |at| cache.clock.wall().since(at) < policy.redirects_lifetime;
        let visited = match deferred {
            Some(DeferredFetch { why, visited, .. }) if why.retry_at.is_some_and(is_recent) => {
                Arc::unwrap_or_clone(visited)
            }
            _ => vec![origin.robots_url()],
        };
        Self {
            cache,
            origin,
            previous,
            visited,
            budget: policy.deadline,
            asked_again: false,
            sent: false,
            permit_wait,
            // Drawn before the reply is there, because the pacer backs the host off as soon as it has the
            // head.
            throttle: previous.and_then(|record| record.next_throttle(cache.jitter.draw(), policy)),
            stored: Arc::default(),
        }
    }

    /// Follows redirects to an outcome. Every round but one adds a URL to `visited`, which is bounded.
    pub(super) async fn run(mut self) -> Result<FetchOutcome, NotSent> {
        loop {
            let copy = self.confirmable();
            let reply = match self.send(copy).await {
                Ok(reply) => reply,
                Err(error) => return self.failed(error),
            };
            let (status, hold) = (reply.status(), reply.hold());
            let unreachable = |cause| FetchOutcome::Unreachable { cause, hold };
            // Stricter: §2.3.1.3 would allow everything for a 403, but the answer is not the site's.
            if let Some(refusal) = self.refusal_in_head(&reply) {
                return Ok(unreachable(Failure::Gatekeeper(refusal)));
            }
            let now = self.cache.clock.wall();
            match classify(status, reply.headers(), now, hold, copy, &self.cache.policy) {
                Ok(AfterHead::ReadBody(coding)) => {
                    let read = self.read(reply, coding).await;
                    return Ok(read.map_or_else(unreachable, FetchOutcome::Rules));
                }
                Ok(AfterHead::Follow) => match self.follow(&reply) {
                    Ok(()) => {}
                    Err(outcome) => return Ok(outcome),
                },
                // Once, because a server that says 304 to everything would be asked for ever.
                Ok(AfterHead::AskAgain) if !self.asked_again => {
                    self.asked_again = true;
                    self.budget = self.left(&reply);
                }
                Ok(AfterHead::AskAgain) => return Ok(unreachable(Failure::RedirectStatus)),
                Ok(AfterHead::Done(outcome)) => {
                    let refusal = self.refusal_in_body(reply).await;
                    return Ok(refusal.map_or(outcome, |by| unreachable(Failure::Gatekeeper(by))));
                }
                Err(cause) => {
                    let refusal = self.refusal_in_body(reply).await;
                    return Ok(unreachable(refusal.map_or(cause, Failure::Gatekeeper)));
                }
            }
        }
    }

    /// The copy, if it has validators that are used now, and for the URL that it came from alone: they mean
    /// nothing elsewhere. So a request that follows an unasked 304 has none either.
    fn confirmable(&self) -> Option<&'a GoodCopy> {
        let is_its_url = |copy: &&GoodCopy| match copy.redirected_to.as_deref() {
            Some(url) => url == self.here(),
            None => self.visited.len() == 1,
        };
        let now = self.cache.clock.wall();
        self.previous.and_then(RobotsRecord::copy).filter(is_its_url).filter(|copy| copy.is_confirmable(now))
    }

    #[expect(clippy::expect_used, reason = "the constructor puts one in, and nothing takes any out")]
    fn here(&self) -> &Url {
        self.visited.last().expect("the chain begins with /robots.txt")
    }

    async fn send(&mut self, copy: Option<&GoodCopy>) -> Result<RobotsResponse, FetchError> {
        // Not sent: the host would get a request whose reply nothing waits for.
        if self.budget.is_zero() {
            return Err(FetchError::new(Failure::Timeout, "the time for all hops was over"));
        }
        let request = RobotsRequest {
            validators: copy.map(|copy| copy.validators.clone()).unwrap_or_default(),
            permit_wait: self.permit_wait.clone(),
            throttle: self.throttle,
            hop: self.visited.len().saturating_sub(1),
            stored_meanwhile: self.stored_meanwhile(),
            ..RobotsRequest::new(self.here().clone(), self.budget)
        };
        self.cache.count(1, |stats| &mut stats.robots_requests);
        // The budget is kept by `Fetch`, which knows when the slot was there; this only ends one that does
        // not.
        let patience =
            self.budget.saturating_add(self.cache.policy.slot_wait_max).saturating_add(SLOT_WAIT_MARGIN);
        let late = |_| Err(FetchError::new(Failure::Timeout, "no head in time"));
        let reply = timeout(patience, self.cache.fetch.fetch(request)).await.unwrap_or_else(late);
        self.sent |= !matches!(&reply, Err(error) if error.failure().is_none());
        reply
    }

    /// Looks once more whether the store has what is to be fetched.
    fn stored_meanwhile(&self) -> Option<StoredMeanwhile> {
        self.cache.store.as_ref()?;
        let (cache, origin, stored) = (Arc::clone(self.cache), self.origin.clone(), Arc::clone(&self.stored));
        let previous = self.previous.cloned();
        let look = move || -> BoxFuture<'static, bool> {
            let (cache, origin, stored) = (Arc::clone(&cache), origin.clone(), Arc::clone(&stored));
            let previous = previous.clone();
            Box::pin(async move {
                let newer = cache.load_newer(&origin, previous.as_ref()).await;
                newer.is_some_and(|record| stored.set(record).is_ok())
            })
        };
        Some(StoredMeanwhile(Arc::new(look)))
    }

    /// What is left of the budget, from when the request was sent: the wait for its permit is not on the
    /// wire.
    fn left(&self, reply: &RobotsResponse) -> Duration {
        self.budget.saturating_sub(self.cache.clock.now().saturating_duration_since(reply.started()))
    }

    fn failed(self, error: FetchError) -> Result<FetchOutcome, NotSent> {
        match error.why {
            NoResponse::Failed(cause) => {
                log::failed(self.origin, &error);
                Ok(FetchOutcome::Unreachable { cause, hold: None })
            }
            NoResponse::StoredMeanwhile => match self.stored.get() {
                Some(record) => Err(NotSent::Stored(Box::new(record.clone()))),
                None => Ok(FetchOutcome::Unreachable { cause: Failure::Other, hold: None }),
            },
            NoResponse::Deferred(why) => {
                // Ten thousand are kept. Honest URLs are short, and others begin again.
                let bytes: usize = self.visited.iter().map(|url| url.as_str().len()).sum();
                let begin = || vec![self.origin.robots_url()];
                let visited = if bytes <= VISITED_BYTES_MAX { self.visited } else { begin() };
                Err(NotSent::Deferred(DeferredFetch { why, sent: self.sent, visited: visited.into() }))
            }
        }
    }

    /// Follows one redirect. Its body is never read.
    fn follow(&mut self, reply: &RobotsResponse) -> Result<(), FetchOutcome> {
        // Before the count: a redirect too many allows everything, and one to a refused place must not.
        let url = redirect::destination(self.here(), reply.headers(), &self.cache.policy)
            .map_err(|cause| FetchOutcome::Unreachable { cause, hold: reply.hold() })?;
        // §2.3.1.2: if there are more than five consecutive redirects, crawlers MAY assume that the
        // robots.txt file is unavailable. Without cookies a URL met twice cannot end otherwise. The first of
        // `visited` is robots.txt, so there were as many redirects as it has URLs.
        if self.visited.len() > self.cache.policy.redirects_max || self.visited.contains(&url) {
            return Err(FetchOutcome::TooManyRedirects);
        }
        self.visited.push(url);
        self.budget = self.left(reply);
        Ok(())
    }

    /// Whether what stands before the site has answered in its place.
    fn refusal_in_head(&self, reply: &RobotsResponse) -> Option<Refusal> {
        if self.cache.policy.trusts_status { None } else { Refusal::in_head(reply.status(), reply.headers()) }
    }

    /// The same of an error by the beginning of its body, which is read for nothing else.
    async fn refusal_in_body(&self, reply: RobotsResponse) -> Option<Refusal> {
        if self.cache.policy.trusts_status || !Refusal::may_be_in_body(reply.status(), reply.headers()) {
            return None;
        }
        let left = self.left(&reply).min(REFUSAL_READ_MAX);
        let RobotsResponse { status, headers, body, .. } = reply;
        let body = body::decoded(body, Coding::of(&headers).ok()?);
        let start = body::start(body, REFUSAL_LOOKED_AT, left).await;
        Refusal::in_body(status, &headers, &start)
    }

    /// §2.3.1.1: reads the body within what is left of the deadline, counted from the request's start.
    async fn read(&self, reply: RobotsResponse, coding: Option<Coding>) -> Result<GoodCopy, Failure> {
        // A span, because the clock may be another than that of the timer.
        let left = self.left(&reply);
        let RobotsResponse { status, headers, body, .. } = reply;
        let body = body::decoded(body, coding);
        let read =
            timeout(left, body::read(body, self.cache.policy.body_limit, &self.cache.large_bodies)).await;
        let (text, truncated) = read.map_err(|_| Failure::Timeout)?.map_err(|error| {
            log::failed(self.origin, &error);
            error.failure().unwrap_or(Failure::Body)
        })?;
        self.cache.count(text.len() as u64, |stats| &mut stats.robots_bytes);
        // A text that is still in a coding has no line that the parser reads: it would allow everything.
        if looks_coded(&text) {
            return Err(Failure::StillCoded);
        }
        if !self.cache.policy.trusts_status
            && let Some(refusal) = Refusal::in_body(status, &headers, &text)
        {
            return Err(Failure::Gatekeeper(refusal));
        }
        let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let html = is_html(content_type, &text) && !has_rule(&text);
        // Stricter (option): a page that only looks like a success says nothing about the rules.
        if html && self.cache.policy.html_is_unreachable {
            return Err(Failure::Html);
        }
        let now = self.cache.clock.wall();
        Ok(GoodCopy {
            text: RobotsText::new(text),
            truncated,
            html,
            status: status.as_u16(),
            // Left out where it is robots.txt of the origin, because a million records are kept.
            redirected_to: (self.visited.len() > 1).then(|| Box::new(self.here().clone())),
            validators: Validators::of(&headers),
            lifetime: stated_lifetime(&headers, &self.cache.policy).and_then(whole_seconds),
            fetched_at: now,
            validated_at: now,
        })
    }
}
