//! One call: hop after hop, each of them asked, paced and read.

use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, Error, Verdict, without_userinfo};
use abide_visit::{Hop, Stopped, Trail, WatchedBody};

use crate::client::Abide;
use crate::log::{self, Call};
use crate::options::Options;
use crate::redirect::{self, Hop as NextHop, Step};
use crate::send::{Sent, refuse, send_paced, send_through, take_apart};
use crate::wire::Wire;

/// Where the turn is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Here,
    Below,
}

/// One call: hop after hop.
pub(crate) struct Walk<'a> {
    abide: &'a Abide,
    pace: Pace,
    options: Options,
    trail: Trail,
    /// What is left of the time that the call may wait for turns.
    budget: Duration,
    /// What is left of the timeout, the request's own or the crawler's, which counts the wire only.
    wire_time: Option<Duration>,
    /// The method of the hop that is under way.
    method: Method,
    call: Call,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(abide: &'a Abide, pace: Pace, extensions: &Extensions, request: &Request) -> Self {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        Self {
            abide,
            pace,
            budget: options.max_wait.unwrap_or(abide.core.gate.max_wait()),
            options,
            trail: Trail::default(),
            wire_time: request.timeout().copied().or(abide.core.timeout),
            method: request.method().clone(),
            call: Call::begin(request),
        }
    }

    /// The whole call, in its span. Not `async`, and the request in a box: what is handed down must not be moved about in memory.
    pub(crate) fn run(
        &mut self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> impl Future<Output = Result<Response>> {
        let call = self.call.clone();
        call.cover(Box::pin(self.hops(Box::new(request), extensions, next)))
    }

    async fn hops(
        &mut self,
        mut request: Box<Request>,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut asked = request.url().clone();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<Trail>();
        loop {
            self.method = request.method().clone();
            let before = self.budget;
            let (url, verdict) = self.admit(&mut request).await.map_err(|error| self.refusal(error))?;
            let waited_for_rules = before.saturating_sub(self.budget);
            let template = Template::of(&request);
            let sent = self.send(request, &url, verdict, extensions, next.clone()).await;
            let Sent { response, permit, verdict, waited, .. } =
                sent.inspect_err(|_| self.leave_trail(extensions))?;
            let hop = Hop::new(url, response.status(), verdict, waited + waited_for_rules);
            self.trail.push(hop.with_remote_addr(response.remote_addr()));
            match self.step(template, &asked, &response) {
                Ok(Some((following, target))) => {
                    Box::pin(self.pass(response, &asked)).await;
                    // The answer was dropped unread, which ends it here, and now its turn.
                    drop(permit);
                    request = Box::new(following);
                    asked = target;
                }
                Ok(None) => {
                    let response = self.finish(response, permit, &asked).await;
                    return Ok(Response::from(response.map(reqwest::Body::wrap)));
                }
                Err(denied) => return Err(self.refusal(denied)),
            }
        }
    }

    /// Asks robots.txt of the request's own origin, whose turn is one of the call's; sets what every request carries.
    async fn admit(&mut self, request: &mut Request) -> std::result::Result<(Url, Verdict), Error> {
        let core = &self.abide.core;
        let url = without_userinfo(request.url());
        self.abide.name(request)?;
        let verdict = match self.override_for(&url) {
            Some(why) => Box::pin(core.gate.overridden(&url, why, &mut self.budget)).await?,
            None => core.gate.judge_within(&url, &mut self.budget).await?,
        };
        match verdict.refusal(&url) {
            Some(denied) => Err(denied.into()),
            None => Ok((url, verdict)),
        }
    }

    /// A reason to pass robots.txt over: for the origin that the caller named, and no other.
    fn override_for(&self, url: &Url) -> Option<Arc<str>> {
        let why = self.options.ignore_robots.as_ref()?;
        let first = self.trail.hops().first().map_or(url, Hop::url);
        redirect::same_origin(first, url).then(|| Arc::clone(why))
    }

    async fn send(
        &mut self,
        mut request: Box<Request>,
        url: &Url,
        verdict: Verdict,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Sent> {
        *request.timeout_mut() = self.wire_time;
        let budget = self.budget;
        let number = self.trail.hops().len();
        let hop = log::Hop::begin(number, url);
        let sent = match self.pace {
            Pace::Here => {
                hop.cover(send_paced(self.abide, url, verdict, budget, request, extensions, next)).await
            }
            Pace::Below => {
                hop.cover(Box::pin(send_through(url, verdict, budget, request, extensions, next))).await
            }
        };
        hop.answered(&sent);
        let sent = sent.map_err(|error| self.with_chain(url, error))?;
        self.budget = self.budget.saturating_sub(sent.waited);
        self.wire_time = self.wire_time.map(|left| left.saturating_sub(sent.wire));
        Ok(sent)
    }

    /// A redirect that is followed: its rules are for its own URL only.
    async fn pass(&mut self, response: Response, asked: &Url) {
        let core = &self.abide.core;
        let reading = core.reader.response_to(&self.method, asked, core.gate.wall());
        let reading = reading.with_scan(self.options.scan);
        reading.pass(&mut self.trail, response.status(), response.headers()).await;
    }

    /// The next request and the URL that stands for it, if the answer is a redirect to follow.
    fn step(
        &mut self,
        template: Template,
        asked: &Url,
        response: &Response,
    ) -> std::result::Result<Option<(Request, Url)>, Error> {
        let policy = &self.abide.core.redirects;
        let follow = self.options.redirects.unwrap_or(policy.follow);
        let hop = match redirect::step(follow, &self.method, asked, response.status(), response.headers()) {
            Step::Answer => return Ok(None),
            Step::Stop(stopped) => {
                self.trail.stop(stopped);
                return Ok(None);
            }
            Step::Follow(hop) => hop,
        };
        if hop.keeps_body && template.carries_body && template.body.is_none() {
            self.trail.stop(Stopped::BodyNotRepeatable);
            return Ok(None);
        }
        if self.trail.hops().len() > policy.hops_max {
            let hops = self.trail.hops().iter().map(|hop| hop.url().clone()).collect();
            return Err(Denied::TooManyRedirects { hops }.into());
        }
        let referer = policy.referer.then(|| redirect::referer(asked, &hop.url)).flatten();
        let target = hop.url.clone();
        Ok(Some((template.follow(hop, referer), target)))
    }

    /// Attaches what was learnt, and reads the head. Not `async`, as `run`.
    fn finish<'s>(
        &'s mut self,
        response: Response,
        permit: Option<Permit>,
        asked: &'s Url,
    ) -> impl Future<Output = http::Response<WatchedBody<Wire>>> {
        let waited = self.trail.hops().iter().map(Hop::waited).sum();
        self.call.answered(self.trail.hops().len(), response.status().as_u16(), waited);
        let core = &self.abide.core;
        let reading = core.reader.response_to(&self.method, asked, core.gate.wall());
        let response = take_apart(asked, response, permit);
        let trail = std::mem::take(&mut self.trail);
        reading.with_scan(self.options.scan).finish(trail, response)
    }

    /// A network error must keep its type for what is above, so the hops before it are told beside it.
    fn leave_trail(&self, extensions: &mut Extensions) {
        if !self.trail.hops().is_empty() {
            extensions.insert(self.trail.clone());
        }
    }

    fn refusal(&self, error: Error) -> reqwest_middleware::Error {
        let error = error.after(self.trail.chain());
        self.abide.core.gate.tell_refused(&error);
        refuse(error)
    }

    /// A refusal from below, with the hops before it.
    fn with_chain(&self, url: &Url, error: reqwest_middleware::Error) -> reqwest_middleware::Error {
        match Error::find(&error) {
            Some(denied) => self.refusal(denied.clone().into()),
            None => {
                log::failed(self.trail.hops().len(), url, &error);
                error
            }
        }
    }
}

/// What the next hop may need of this one. The body is cloned before it is sent, if it can be.
struct Template {
    headers: HeaderMap,
    version: http::Version,
    carries_body: bool,
    body: Option<reqwest::Body>,
}

impl Template {
    fn of(request: &Request) -> Self {
        Self {
            headers: request.headers().clone(),
            version: request.version(),
            carries_body: request.body().is_some(),
            body: request.body().and_then(|_| request.try_clone()?.body_mut().take()),
        }
    }

    fn follow(self, hop: NextHop, referer: Option<http::HeaderValue>) -> Request {
        let mut request = Request::new(hop.method, hop.url);
        *request.headers_mut() = self.headers;
        *request.version_mut() = self.version;
        if hop.keeps_body {
            *request.body_mut() = self.body;
        } else {
            redirect::strip_body_headers(request.headers_mut());
        }
        if !hop.keeps_credentials {
            redirect::strip_credentials(request.headers_mut());
        }
        match referer {
            Some(referer) => request.headers_mut().insert(header::REFERER, referer),
            None => request.headers_mut().remove(header::REFERER),
        };
        request
    }
}
