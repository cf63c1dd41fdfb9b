//! One call: hop after hop, each of them asked, paced and read.

use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, StatusCode, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::{Denied, Error, Verdict, without_userinfo};
use abide_permissions::{Head, HeadEnd, Preferences};
use abide_robots::Target;

use crate::client::Abide;
use crate::log::{self, Call};
use crate::options::Options;
use crate::redirect::{self, Hop as NextHop, Step, Stopped};
use crate::remember::{Known, remember};
use crate::scan::{self, Fields};
use crate::send::{Sent, refuse, send_paced, send_through, take_apart};
use crate::visit::{Hop, Trace, Trail, Visit};

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
    trace: Trace,
    /// What is left of the time that the call may wait for turns.
    budget: Duration,
    /// What is left of the request's own timeout, which counts the wire only.
    wire_time: Option<Duration>,
    /// The method of the hop that is under way.
    method: Method,
    /// Whether that hop sends a body.
    carries_body: bool,
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
            trace: Trace::default(),
            wire_time: request.timeout().copied(),
            method: request.method().clone(),
            carries_body: request.body().is_some(),
            call: Call::begin(request),
        }
    }

    /// The whole call, in its span. Not `async`, so that the walk is not moved about in memory.
    pub(crate) fn run<'e>(
        self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'e>,
    ) -> impl Future<Output = Result<Response>> + use<'a, 'e> {
        let call = self.call.clone();
        call.cover(self.hops(request, extensions, next))
    }

    async fn hops(
        mut self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut asked = request.url().clone();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<Trail>();
        loop {
            self.method = request.method().clone();
            let (url, verdict) = self.admit(&mut request).await.map_err(|error| self.refusal(error))?;
            let template = Template::of(&request);
            let sent = self.send(request, &url, verdict, extensions, next.clone()).await;
            let mut sent = sent.inspect_err(|_| self.leave_trail(extensions))?;
            if !redirect::same_resource(sent.response.url(), &url) {
                let got = without_userinfo(sent.response.url());
                return Err(self.refusal(Denied::RedirectBypass { asked: url, got }.into()));
            }
            self.record(url, &sent);
            match self.step(template, &asked, &sent.response) {
                Ok(Some((following, target))) => {
                    self.keep_rules_of_hop(&sent.response);
                    let (status, none) = (sent.response.status(), Head::not_scanned(HeadEnd::NotScanned));
                    self.remember(&asked, status, sent.response.headers(), none).await;
                    // Dropping the answer unread ends it here, and its turn with it.
                    sent.permit.take();
                    request = following;
                    asked = target;
                }
                Ok(None) => return Ok(self.finish(sent, &asked).await),
                Err(denied) => return Err(self.refusal(denied)),
            }
        }
    }

    /// Asks robots.txt of the request's own origin; sets what every request carries.
    async fn admit(&self, request: &mut Request) -> std::result::Result<(Url, Verdict), Error> {
        let core = &self.abide.core;
        let url = without_userinfo(request.url());
        self.abide.name(request)?;
        let verdict = match self.override_for(&url) {
            Some(why) => core.gate.overridden(&url, why).await?,
            None => core.gate.judge(&url, self.budget).await?,
        };
        match verdict.refusal(&url) {
            Some(denied) => Err(denied.into()),
            None => Ok((url, verdict)),
        }
    }

    /// A reason to pass robots.txt over: for the origin that the caller named, and no other.
    fn override_for(&self, url: &Url) -> Option<Arc<str>> {
        let why = self.options.ignore_robots.as_ref()?;
        let first = self.trace.hops.first().map_or(url, Hop::url);
        redirect::same_origin(first, url).then(|| Arc::clone(why))
    }

    async fn send(
        &mut self,
        mut request: Request,
        url: &Url,
        verdict: Verdict,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Sent> {
        *request.timeout_mut() = self.wire_time;
        let budget = self.budget;
        let number = self.trace.hops.len();
        let hop = log::Hop::begin(number, url);
        let sent = match self.pace {
            Pace::Here => {
                hop.cover(send_paced(self.abide, url, verdict, budget, request, extensions, next)).await
            }
            Pace::Below => hop.cover(send_through(url, verdict, budget, request, extensions, next)).await,
        };
        hop.answered(&sent);
        let sent = sent.map_err(|error| self.with_chain(url, error))?;
        self.budget = self.budget.saturating_sub(sent.waited);
        self.wire_time = self.wire_time.map(|left| left.saturating_sub(sent.wire));
        Ok(sent)
    }

    fn record(&mut self, url: Url, sent: &Sent) {
        self.trace.hops.push(Hop {
            url,
            status: sent.response.status(),
            verdict: sent.verdict.clone(),
            waited: sent.waited,
            remote: sent.response.remote_addr(),
            permissions: None,
        });
    }

    /// The rules of a hop that redirected: they are for its own URL only.
    fn keep_rules_of_hop(&mut self, response: &Response) {
        let core = &self.abide.core;
        let fields = Fields::of(self.scan(), response.headers(), core.gate.wall());
        let permissions = fields.permissions(&core.read, Head::not_scanned(HeadEnd::NotScanned));
        if let Some(hop) = self.trace.hops.last_mut() {
            hop.permissions = Some(Arc::new(permissions));
        }
    }

    fn scan(&self) -> crate::Scan {
        self.options.scan.unwrap_or(self.abide.core.scan)
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
        let hop = match redirect::step(follow, &template.method, asked, response.status(), response.headers())
        {
            Step::Answer => return Ok(None),
            Step::Stop(stopped) => {
                self.trace.stopped = Some(stopped);
                return Ok(None);
            }
            Step::Follow(hop) => hop,
        };
        if hop.keeps_body && self.carries_body && template.body.is_none() {
            self.trace.stopped = Some(Stopped::BodyNotRepeatable);
            return Ok(None);
        }
        if self.trace.hops.len() > policy.hops_max {
            let hops = self.trace.hops.iter().map(|hop| hop.url.clone()).collect();
            return Err(Denied::TooManyRedirects { hops }.into());
        }
        self.carries_body &= hop.keeps_body;
        let referer = policy.referer.then(|| redirect::referer(asked, &hop.url)).flatten();
        let target = hop.url.clone();
        Ok(Some((template.follow(hop, referer), target)))
    }

    /// Attaches what was learnt, and reads the head.
    async fn finish(self, sent: Sent, asked: &Url) -> Response {
        let Sent { response, permit, .. } = sent;
        let waited = self.trace.hops.iter().map(Hop::waited).sum();
        self.call.answered(self.trace.hops.len(), response.status().as_u16(), waited);
        let plan = scan::plan(&self.abide.core.read, self.scan(), &self.method, &response);
        let fields = Fields::of(self.scan(), response.headers(), self.abide.core.gate.wall());
        let (mut response, mut body) = take_apart(asked, response, permit);
        let seen = scan::run(plan, &mut body).await;
        let known = self.remember(asked, response.status(), response.headers(), seen.head()).await;
        let answer = seen.answer(&self.abide.core.read, &fields, known);
        response.extensions_mut().insert(Visit::new(self.trace, fields, answer));
        Response::from(response.map(|()| reqwest::Body::wrap(body)))
    }

    /// Keeps what the response says for later visits, if there is a store for it.
    async fn remember(
        &self,
        url: &Url,
        status: StatusCode,
        headers: &HeaderMap,
        head: Head,
    ) -> Option<Known> {
        let core = &self.abide.core;
        // Only these ask for the resource itself.
        let asks = matches!(self.method, Method::GET | Method::HEAD) && self.scan() != crate::Scan::Off;
        let store = core.permission_store.as_ref().filter(|_| asks)?;
        let robots = self.trace.hops.last().and_then(|hop| hop.verdict.rules()).map(|verdict| {
            // As it was when this was fetched: the very copy that let the request out.
            Preferences::default().with_robots(verdict.rules(), &Target::of(url))
        });
        let now = core.gate.wall().to_system_time();
        // In a box: few crawlers have a store, and all would carry the room for it through every call.
        Box::pin(remember(store, &core.read, url, (status, headers), head, &robots.unwrap_or_default(), now))
            .await
    }

    /// A network error must keep its type for what is above, so the hops before it are told beside it.
    fn leave_trail(&self, extensions: &mut Extensions) {
        if !self.trace.hops.is_empty() {
            extensions.insert(Trail::of(&self.trace));
        }
    }

    fn chain(&self) -> Vec<(Url, StatusCode)> {
        self.trace.hops.iter().map(|hop| (hop.url.clone(), hop.status)).collect()
    }

    fn refusal(&self, error: Error) -> reqwest_middleware::Error {
        let error = error.after(self.chain());
        self.abide.core.gate.tell_refused(&error);
        refuse(error)
    }

    /// A refusal from below, with the hops before it.
    fn with_chain(&self, url: &Url, error: reqwest_middleware::Error) -> reqwest_middleware::Error {
        match Error::find(&error) {
            Some(denied) => self.refusal(denied.clone().into()),
            None => {
                log::failed(self.trace.hops.len(), url, &error);
                error
            }
        }
    }
}

/// What the next hop may need of this one. The body is cloned before it is sent, if it can be.
struct Template {
    method: Method,
    headers: HeaderMap,
    version: http::Version,
    body: Option<Request>,
}

impl Template {
    fn of(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            headers: request.headers().clone(),
            version: request.version(),
            body: request.body().and_then(|_| request.try_clone()),
        }
    }

    fn follow(self, hop: NextHop, referer: Option<http::HeaderValue>) -> Request {
        let mut request = Request::new(hop.method, hop.url);
        *request.headers_mut() = self.headers;
        *request.version_mut() = self.version;
        if hop.keeps_body {
            *request.body_mut() = self.body.and_then(|mut copy| copy.body_mut().take());
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
