//! One call: hop after hop, each of them asked, paced and read.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderMap, Method, header};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use url::Url;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, DeniedKind, Verdict, has_userinfo, without_userinfo};
use abide_http::{CallSpan, Hop, HopSpan, Reading, Stopped, Trail, WatchedBody, tell_failed};

use crate::client::Abide;
use crate::middleware::BoxFuture;
use crate::options::Options;
use crate::send::{answered, put_together, refuse, send_through, take_apart};
use crate::sends::{Counted, counted};
use crate::silence::{Heard, heard_within};
use crate::whole;
use crate::wire::Wire;
use abide_http::redirect::{self, Hop as NextHop, Step};
use abide_http::seen::{self, Source};

/// Where the turn is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Here,
    Below,
}

/// One call: hop after hop.
///
/// What the calls of a crawler have in common is done without waiting, and what is rare is boxed. So the future of a call is small,
/// which counts: it is allocated for each of them.
pub(crate) struct Walk<'a> {
    abide: &'a Abide,
    pace: Pace,
    options: Options,
    trail: Trail,
    /// What is left of the time that the call may wait for turns.
    budget: Duration,
    /// What is left of the timeout, the request's own or the crawler's, which counts the wire only.
    wire_time: Option<Duration>,
    /// What the next hop asks for, until it is sent.
    request: Option<Request>,
    /// The hop that is under way.
    leg: Option<Leg>,
    /// Its turn, where it is waited for here.
    permit: Option<Permit>,
    method: Method,
    /// Its URL, if it has user information.
    asked: Option<Box<Url>>,
    template: Option<Box<Template>>,
    /// Where the last answer comes from.
    source: Source,
}

/// A hop that is admitted.
struct Leg {
    url: Url,
    verdict: Verdict,
    waited: Duration,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(crate) fn new(abide: &'a Abide, pace: Pace, extensions: &mut Extensions, request: Request) -> Self {
        let options = extensions.get::<Options>().cloned().unwrap_or_default();
        // Of an attempt before this one, if something above sends again.
        extensions.remove::<Trail>();
        Self {
            abide,
            pace,
            budget: max_wait(abide, &options),
            options,
            trail: Trail::default(),
            wire_time: request.timeout().copied().or(abide.core.timeout),
            leg: None,
            permit: None,
            method: request.method().clone(),
            asked: Some(request.url()).filter(|url| has_userinfo(url)).cloned().map(Box::new),
            template: Template::of(&request),
            source: Source::Wire,
            request: Some(request),
        }
    }

    /// The whole call, in its span.
    #[expect(clippy::manual_async_fn, reason = "it has room twice for what it takes by value")]
    #[inline]
    pub(crate) fn run(
        mut self,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> impl Future<Output = Result<Response>> {
        async move {
            // Within the future: what is above may enter its own span only when it is polled.
            let call = CallSpan::begin(&self.method, self.request.as_ref().expect(ONE_REQUEST).url());
            let answer = call.cover(pin!(self.hops(extensions, &next))).await;
            let response = self.end(&call, answer, extensions)?;
            // Apart from the wait: what is matched on would be kept through it.
            let reading = match self.finish(response) {
                Ok(response) => return Ok(response),
                Err(reading) => reading,
            };
            Ok(put_together(call.cover(reading).await))
        }
    }

    /// The last answer.
    async fn hops(&mut self, extensions: &mut Extensions, next: &Next<'_>) -> Result<Response> {
        loop {
            let at_once = self.is_admitted_at_once()?;
            if !at_once {
                Box::pin(self.admit()).await?;
            }
            let response = {
                let hop = HopSpan::begin(self.trail.hops().len(), &self.leg().url);
                let answer = match self.pace {
                    Pace::Here => {
                        if !(at_once && hop.within(|| self.has_turn_at_once())) {
                            hop.cover(Box::pin(self.wait())).await?;
                        }
                        let sending = hop.within(|| self.sending(next.clone(), extensions));
                        let answer = hop.cover(sending).await;
                        let answer = hop.within(|| self.answered(&hop, answer));
                        if let Some(permit) = self.permit.as_ref().filter(|permit| !permit.is_saved()) {
                            hop.cover(Box::pin(permit.saved())).await;
                        }
                        answer
                    }
                    Pace::Below => hop.cover(Box::pin(self.send_below(&hop, extensions, next.clone()))).await,
                };
                self.land(answer)?
            };
            if self.request.is_none() {
                return Ok(response);
            }
            Box::pin(self.pass(response)).await;
        }
    }

    /// Whether the request is admitted, where robots.txt is known, as it mostly is. Sets what every request carries.
    fn is_admitted_at_once(&mut self) -> Result<bool> {
        let abide = self.abide;
        let request = self.request.as_mut().expect(ONE_REQUEST);
        let url = match &self.asked {
            Some(_) => without_userinfo(request.url()),
            None => request.url().clone(),
        };
        abide.name(request).map_err(|denied| self.refusal(denied))?;
        if self.options.ignore_robots.is_some() {
            return Ok(false);
        }
        match abide.core.gate.judge_at_once(&url) {
            Some(verdict) => self.begin(url, verdict, Duration::ZERO).map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks robots.txt of the request's own origin, whose turn is one of the call's.
    async fn admit(&mut self) -> Result<()> {
        let (core, before) = (&self.abide.core, self.budget);
        let url = without_userinfo(self.request.as_ref().expect(ONE_REQUEST).url());
        let verdict = match self.override_for(&url) {
            Some(why) => Box::pin(core.gate.overridden(&url, why, &mut self.budget)).await,
            None => core.gate.judge_within(&url, &mut self.budget).await,
        };
        let verdict = verdict.map_err(|denied| self.refusal(denied))?;
        self.begin(url, verdict, before.saturating_sub(self.budget))
    }

    /// The next hop, if it is allowed.
    fn begin(&mut self, url: Url, verdict: Verdict, waited: Duration) -> Result<()> {
        if let Some(denied) = verdict.refusal(&url, self.abide.core.gate.wall()) {
            return Err(self.refusal(denied));
        }
        self.leg = Some(Leg { url, verdict, waited });
        Ok(())
    }

    fn leg(&mut self) -> &mut Leg {
        self.leg.as_mut().expect(ONE_LEG)
    }

    /// A reason to pass robots.txt over: for the origin that the caller named, and no other.
    fn override_for(&self, url: &Url) -> Option<Arc<str>> {
        let why = self.options.ignore_robots.as_ref()?;
        let first = self.trail.hops().first().map_or(url, Hop::url);
        redirect::same_origin(first, url).then(|| Arc::clone(why))
    }

    /// Whether the host's turn is there, as it mostly is where none is waited for.
    fn has_turn_at_once(&mut self) -> bool {
        let Leg { url, verdict, .. } = self.leg.as_ref().expect(ONE_LEG);
        self.permit = self.abide.core.gate.turn_at_once(url, verdict);
        self.permit.is_some()
    }

    /// Waits for the host's turn, which the budget pays for.
    async fn wait(&mut self) -> Result<()> {
        let leg = self.leg.as_mut().expect(ONE_LEG);
        let turn = self.abide.core.gate.turn(&leg.url, leg.verdict.clone(), &mut self.budget).await;
        let (verdict, permit, waited) = turn.map_err(|denied| self.refusal(denied))?.into_parts();
        self.permit = Some(permit);
        let leg = self.leg();
        leg.verdict = verdict;
        leg.waited += waited;
        Ok(())
    }

    /// The request, with what is left of its time.
    fn outgoing(&mut self) -> Request {
        let mut request = self.request.take().expect(ONE_REQUEST);
        // Setting it costs a place among the request's extensions.
        if request.timeout() != self.wire_time.as_ref() {
            *request.timeout_mut() = self.wire_time;
        }
        request
    }

    /// The request on its way to the wire.
    fn sending<'e>(
        &mut self,
        next: Next<'e>,
        extensions: &'e mut Extensions,
    ) -> Counted<Heard<BoxFuture<'e, Result<Response>>>> {
        let limit = self.abide.core.read_timeout;
        let mut request = self.outgoing();
        self.abide.core.codings.ask(&mut request);
        counted(heard_within(limit, next.run(request, extensions)))
    }

    fn answered(&mut self, hop: &HopSpan, answer: (Result<Response>, u32)) -> Result<Response> {
        let url = &self.leg.as_ref().expect(ONE_LEG).url;
        let response = answered(&self.abide.core.gate, url, &mut self.permit, answer)?;
        // A cache below makes its answers anew, also those that have just come from the wire.
        self.source = if response.remote_addr().is_some() { Source::Wire } else { Source::Unknown };
        let response = self.abide.core.codings.taken_off(response);
        self.heard(hop, &response, self.permit.as_ref().map(Permit::elapsed).unwrap_or_default());
        Ok(response)
    }

    /// Through the chain to the half that paces.
    async fn send_below(
        &mut self,
        hop: &HopSpan,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let (request, before) = (self.outgoing(), self.budget);
        let leg = self.leg.as_mut().expect(ONE_LEG);
        let verdict = leg.verdict.clone();
        let gate = &self.abide.core.gate;
        let mut sent =
            send_through(gate, &leg.url, verdict, &mut self.budget, request, extensions, next).await?;
        self.source = seen::take(sent.response.status(), sent.response.headers_mut());
        leg.verdict = sent.verdict;
        leg.waited += before.saturating_sub(self.budget);
        self.heard(hop, &sent.response, sent.wire);
        Ok(sent.response)
    }

    fn heard(&mut self, hop: &HopSpan, response: &Response, wire: Duration) {
        self.wire_time = self.wire_time.map(|left| left.saturating_sub(wire));
        hop.answered(response.status(), self.leg().waited, wire);
    }

    /// The hop has ended. If it is a redirect to follow, the next request is there then.
    fn land(&mut self, answer: Result<Response>) -> Result<Response> {
        let response = answer.map_err(|error| self.failed(error))?;
        let Leg { url, verdict, waited } = self.leg.take().expect(ONE_LEG);
        let hop = Hop::new(url, response.status(), verdict, waited);
        self.trail.push(hop.with_remote_addr(response.remote_addr()));
        self.request = self.following(&response).map_err(|denied| self.refusal(denied))?;
        Ok(response)
    }

    /// A redirect that is followed: its rules are for its own URL only.
    async fn pass(&mut self, response: Response) {
        let mut trail = std::mem::take(&mut self.trail);
        self.reading().pass(&mut trail, response.status(), response.headers()).await;
        self.trail = trail;
        // The answer is dropped unread, which ends it here, and now its turn.
        drop(response);
        self.permit = None;
        let request = self.request.as_ref().expect(ONE_REQUEST);
        self.method = request.method().clone();
        self.template = Template::of(request);
        // A Location's user information is not followed.
        self.asked = None;
    }

    /// The next request, if the answer is a redirect to follow.
    fn following(&mut self, response: &Response) -> std::result::Result<Option<Request>, Denied> {
        let policy = &self.abide.core.redirects;
        let follow = self.options.redirects.unwrap_or(policy.follow);
        let asked = self.asked(response);
        let hop = match redirect::step(follow, &self.method, asked, response.status(), response.headers()) {
            Step::Answer => return Ok(None),
            Step::Stop(stopped) => {
                self.trail.stop(stopped);
                return Ok(None);
            }
            Step::Follow(hop) => hop,
        };
        let referer = policy.referer.then(|| redirect::referer(asked, &hop.url)).flatten();
        let template = self.template.take().unwrap_or_default();
        if hop.keeps_body && template.carries_body && template.body.is_none() {
            self.trail.stop(Stopped::BodyNotRepeatable);
            return Ok(None);
        }
        if self.trail.hops().len() > policy.hops_max {
            let now = self.abide.core.gate.wall();
            return Err(Denied::new(DeniedKind::TooManyRedirects, &hop.url, now));
        }
        Ok(Some(template.follow(hop, referer)))
    }

    /// The URL that this is the answer to, as it was asked for.
    fn asked<'s>(&'s self, response: &'s Response) -> &'s Url {
        let last = self.trail.last().map(Hop::url);
        self.asked.as_deref().or(last).unwrap_or_else(|| response.url())
    }

    /// Attaches what was learnt. Where the body is all here and nobody looks at it, its turn ends with it.
    ///
    /// # Errors
    /// Otherwise what is to be awaited: the head is read.
    fn finish(
        &mut self,
        mut response: Response,
    ) -> std::result::Result<Response, Pin<Box<impl Future<Output = http::Response<WatchedBody<Wire>>>>>>
    {
        let url = without_userinfo(self.asked(&response));
        let trail = std::mem::take(&mut self.trail);
        let permit = self.permit.take();
        // Where the half below paces, it counts.
        let limit = self.abide.core.read_timeout.filter(|_| permit.is_some());
        let reading = self.reading();
        let Some(left) = reading.leave(response.status(), response.headers()) else {
            return Err(Box::pin(reading.finish(trail, take_apart(url, None, response, permit, limit))));
        };
        match whole::take_body(&mut response) {
            Ok(body) => Ok(whole::put_together(url, response, body, left.visit(trail))),
            Err(ahead) => {
                Err(Box::pin(reading.finish(trail, take_apart(url, ahead, response, permit, limit))))
            }
        }
    }

    fn reading(&self) -> Reading<'_> {
        let core = &self.abide.core;
        let request = self.template.as_ref().map(|template| &template.headers);
        let reading = core.reader.response_to(&self.method, core.gate.wall());
        let reading = reading.with_scan(self.options.scan).with_request(request);
        match self.source {
            Source::Wire => reading,
            Source::Kept(time) => reading.from_cache(time),
            Source::Unknown => reading.with_missing_fields(),
        }
    }

    /// Tells of the end of the call, but for the head of its answer.
    fn end(
        &mut self,
        call: &CallSpan,
        answer: Result<Response>,
        extensions: &mut Extensions,
    ) -> Result<Response> {
        match &answer {
            Ok(answer) => {
                call.answered(self.trail.hops().len(), answer.status(), self.trail.waited());
            }
            Err(_) => self.leave_trail(extensions),
        }
        answer
    }

    /// An error tells neither how long the call waited nor, if it is the network's own, of the hops before it.
    fn leave_trail(&mut self, extensions: &mut Extensions) {
        let mut trail = std::mem::take(&mut self.trail);
        trail.ends_after(max_wait(self.abide, &self.options).saturating_sub(self.budget));
        extensions.insert(trail);
    }

    fn refusal(&self, denied: Denied) -> reqwest_middleware::Error {
        let denied = denied.after(self.trail.chain());
        self.abide.core.gate.tell_refused(&denied);
        refuse(denied)
    }

    /// A request that was not answered. A refusal, from below or from the pacing, gets the hops before it.
    fn failed(&self, error: reqwest_middleware::Error) -> reqwest_middleware::Error {
        match Denied::find(&error) {
            Some(denied) => self.refusal(denied),
            None => {
                if let Some(leg) = &self.leg {
                    tell_failed(self.trail.hops().len(), &leg.url, &error);
                }
                if self.trail.hops().is_empty() { error } else { without_long_url(error) }
            }
        }
    }
}

/// reqwest shows the URL of a request in its error, whole, and a server may redirect to one of 300 KB.
fn without_long_url(error: reqwest_middleware::Error) -> reqwest_middleware::Error {
    match error {
        reqwest_middleware::Error::Reqwest(error)
            if error.url().is_some_and(|url| url.as_str().len() > HOP_URL_SHOWN_MAX) =>
        {
            error.without_url().into()
        }
        error => error,
    }
}

/// Honest URLs are shorter. With one that is not, an error of reqwest has no URL.
const HOP_URL_SHOWN_MAX: usize = 2000;

const ONE_REQUEST: &str = "a hop begins with its request, and ends when it has been sent";
const ONE_LEG: &str = "a hop is admitted before it takes its turn, and lands once";

/// What the call may wait for turns, in all.
fn max_wait(abide: &Abide, options: &Options) -> Duration {
    options.max_wait.unwrap_or(abide.core.gate.max_wait())
}

/// What the next hop may need of this one: taken before anything is added to the request, and sent. The body is cloned, if it can be.
#[derive(Default)]
struct Template {
    headers: HeaderMap,
    version: http::Version,
    carries_body: bool,
    body: Option<reqwest::Body>,
}

impl Template {
    /// `None`: nothing that is worth keeping.
    fn of(request: &Request) -> Option<Box<Self>> {
        let is_plain = request.headers().is_empty() && request.body().is_none();
        if is_plain && request.version() == http::Version::default() {
            return None;
        }
        Some(Box::new(Self {
            headers: request.headers().clone(),
            version: request.version(),
            carries_body: request.body().is_some(),
            body: request.body().and_then(|_| request.try_clone()?.body_mut().take()),
        }))
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
