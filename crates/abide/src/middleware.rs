//! The middlewares: a walk over redirect hops, each of them asked, paced and read.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, Method, StatusCode, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, Error, Verdict};
use abide_permissions::{Head, HeadEnd, Permissions};

use crate::body::{WatchedBody, Wire};
use crate::builder::names_token;
use crate::client::Abide;
use crate::fault;
use crate::options::Options;
use crate::redirect::{self, Hop as NextHop, Step, Stopped};
use crate::remember::remember;
use crate::resolver::ResolveError;
use crate::scan::{self, Fields};
use crate::visit::{Hop, Trace, Visit};

/// Gate and pacing in one middleware: the default.
#[derive(Debug, Clone)]
pub struct AbideMiddleware {
    abide: Abide,
}

/// The outer half: robots.txt, redirect hops, permissions. Needs [`PacingMiddleware`] below it.
#[derive(Debug, Clone)]
pub struct GateMiddleware {
    abide: Abide,
}

/// The inner half: turns and feedback, below an HTTP cache.
#[derive(Debug, Clone)]
pub struct PacingMiddleware {
    abide: Abide,
}

impl AbideMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl GateMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

impl PacingMiddleware {
    pub(crate) fn new(abide: Abide) -> Self {
        Self { abide }
    }
}

#[async_trait]
impl Middleware for AbideMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        Walk::new(&self.abide, Pace::Here, extensions, &request).run(request, extensions, next).await
    }
}

#[async_trait]
impl Middleware for GateMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        Walk::new(&self.abide, Pace::Below, extensions, &request).run(request, extensions, next).await
    }
}

#[async_trait]
impl Middleware for PacingMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let url = public(request.url());
        let admission = extensions.get::<Admission>().cloned();
        let (verdict, budget) = match &admission {
            Some(admission) if admission.url == url => (admission.verdict.clone(), admission.budget),
            // A cache that revalidates in the background: neither ungated nor unpaced.
            _ => (self.abide.allowed(&url).await?, self.abide.core.max_wait),
        };
        let sent = send_paced(&self.abide, &url, verdict, budget, request, extensions, next).await;
        if let Some(admission) = &admission {
            admission.tell(&sent);
        }
        let Sent { response, permit, .. } = sent?;
        let asked = response.url().clone();
        let (response, body) = take_apart(&asked, response, permit);
        Ok(Response::from(response.map(|()| reqwest::Body::wrap(body))))
    }
}

/// What the gate tells the pacing half below it, and what that tells back: a cache between the two keeps neither errors nor
/// extensions of responses.
#[derive(Debug, Clone)]
struct Admission {
    url: Url,
    verdict: Verdict,
    budget: Duration,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    waited: Duration,
    verdict: Option<Verdict>,
    refused: Option<Denied>,
}

impl Admission {
    fn tell(&self, sent: &Result<Sent>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match sent {
            Ok(sent) => {
                told.waited = sent.waited;
                told.verdict = Some(sent.verdict.clone());
            }
            Err(error) => told.refused = Error::find(error).cloned(),
        }
    }

    fn hear(&self) -> Told {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where the turn is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Here,
    Below,
}

/// One call: hop after hop.
struct Walk<'a> {
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
}

/// An answer to one hop, with its turn still held where this half paces.
struct Sent {
    response: Response,
    permit: Option<Permit>,
    /// The verdict by which it left.
    verdict: Verdict,
    waited: Duration,
}

impl<'a> Walk<'a> {
    fn new(abide: &'a Abide, pace: Pace, extensions: &Extensions, request: &Request) -> Self {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        Self {
            abide,
            pace,
            budget: options.max_wait.unwrap_or(abide.core.max_wait),
            options,
            trace: Trace::default(),
            wire_time: request.timeout().copied(),
            method: request.method().clone(),
            carries_body: request.body().is_some(),
        }
    }

    async fn run(
        mut self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let mut asked = request.url().clone();
        loop {
            let (url, verdict) = self.admit(&mut request).await.map_err(|error| self.refusal(error))?;
            let template = Template::of(&request);
            let mut sent = self.send(request, &url, verdict, extensions, next.clone()).await?;
            if !redirect::same_resource(sent.response.url(), &url) {
                let got = public(sent.response.url());
                return Err(self.refusal(Denied::RedirectBypass { asked: url, got }.into()));
            }
            self.record(&url, &sent);
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
        let url = public(request.url());
        match request.headers().get(header::USER_AGENT) {
            Some(own) if !names_token(own.as_bytes(), &core.token) => {
                let user_agent = String::from_utf8_lossy(own.as_bytes()).escape_debug().take(200).collect();
                return Err(Denied::Identity { user_agent, token: core.token.as_str().to_owned() }.into());
            }
            Some(_) => {}
            None => {
                request.headers_mut().insert(header::USER_AGENT, core.user_agent.clone());
            }
        }
        let verdict = match self.override_for(&url) {
            Some(why) => core.gate.overridden(&url, why)?,
            None => core.gate.judge(&url).await?,
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
        let began = self.abide.core.gate.now();
        let budget = self.budget;
        let sent = match self.pace {
            Pace::Here => send_paced(self.abide, url, verdict, budget, request, extensions, next).await,
            Pace::Below => send_through(url, verdict, budget, request, extensions, next).await,
        };
        let sent = sent.map_err(|error| self.with_chain(error))?;
        self.budget = self.budget.saturating_sub(sent.waited);
        let wire = self.abide.core.gate.now().saturating_duration_since(began).saturating_sub(sent.waited);
        self.wire_time = self.wire_time.map(|left| left.saturating_sub(wire));
        Ok(sent)
    }

    fn record(&mut self, url: &Url, sent: &Sent) {
        self.trace.hops.push(Hop {
            url: url.clone(),
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
        self.method = hop.method.clone();
        let referer = policy.referer.then(|| redirect::referer(asked, &hop.url)).flatten();
        let target = hop.url.clone();
        Ok(Some((template.follow(hop, referer), target)))
    }

    /// Attaches what was learnt, and reads the head.
    async fn finish(self, sent: Sent, asked: &Url) -> Response {
        let Sent { response, permit, .. } = sent;
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
    ) -> Option<Permissions> {
        let core = &self.abide.core;
        let store = core.permission_store.as_ref().filter(|_| self.scan() != crate::Scan::Off)?;
        remember(store, &core.read, url, (status, headers), head, core.gate.wall().to_system_time()).await
    }

    fn chain(&self) -> Vec<(Url, StatusCode)> {
        self.trace.hops.iter().map(|hop| (hop.url.clone(), hop.status)).collect()
    }

    fn refusal(&self, error: Error) -> reqwest_middleware::Error {
        tracing::debug!(hop = self.trace.hops.len(), "{error}");
        refuse(error.after(self.chain()))
    }

    /// A refusal from below, with the hops before it.
    fn with_chain(&self, error: reqwest_middleware::Error) -> reqwest_middleware::Error {
        match Error::find(&error) {
            Some(denied) => self.refusal(denied.clone().into()),
            None => error,
        }
    }
}

/// Waits for the turn, sends, and tells the pacer what came of it.
async fn send_paced(
    abide: &Abide,
    url: &Url,
    verdict: Verdict,
    budget: Duration,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Sent> {
    let turn = abide.core.gate.turn(url, verdict, budget).await.map_err(refuse)?;
    let (verdict, permit, waited) = turn.into_parts();
    match next.run(request, extensions).await {
        Ok(response) => {
            permit.observe(response.status(), response.headers());
            Ok(Sent { response, permit: Some(permit), verdict, waited })
        }
        Err(error) => {
            if let Some(address) = ResolveError::refused_in(&error) {
                let denied = Denied::AddressRefused { url: url.clone(), address: Some(address), hop: 0 };
                return Err(refuse(denied.into()));
            }
            permit.failed(fault::of(&error));
            Err(error)
        }
    }
}

/// Sends through the chain to the pacing half, with a cache between the two.
async fn send_through(
    url: &Url,
    verdict: Verdict,
    budget: Duration,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Sent> {
    let admission = Admission { url: url.clone(), verdict: verdict.clone(), budget, told: Arc::default() };
    extensions.insert(admission.clone());
    let response = next.run(request, extensions).await;
    let told = admission.hear();
    match (response, told.refused) {
        (Ok(response), _) => {
            let verdict = told.verdict.unwrap_or(verdict);
            Ok(Sent { response, permit: None, verdict, waited: told.waited })
        }
        (Err(_), Some(denied)) => Err(refuse(denied.into())),
        (Err(error), None) => Err(error),
    }
}

fn refuse(error: Error) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(error)
}

/// The URL as it may be shown: without user information.
fn public(url: &Url) -> Url {
    let mut url = url.clone();
    redirect::strip_userinfo(&mut url);
    url
}

/// The response without its body, which is wrapped; URL, version, header fields and extensions stay.
fn take_apart(url: &Url, response: Response, permit: Option<Permit>) -> (http::Response<()>, WatchedBody) {
    use reqwest::ResponseBuilderExt;

    let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    // The URL does not survive the conversion; the builder cannot fail, as only a URL is given to it.
    let mut response = http::Response::builder().url(url.clone()).body(()).unwrap_or_default();
    *response.status_mut() = parts.status;
    *response.version_mut() = parts.version;
    *response.headers_mut() = parts.headers;
    response.extensions_mut().extend(parts.extensions);
    (response, WatchedBody::new(Wire::new(body, permit)))
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
