//! The servers: what they answer follows from the plan, and all of it is reported to the checker.

use std::sync::Arc;
use std::time::Duration;

use crate::scripted::{Scripted, ScriptedFetch};
use abide_gate::robots_cache::{Fetch, FetchError, RobotsRequest, RobotsResponse};
use abide_gate::{BoxFuture, Failure, Origin};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep};
use url::Url;

use super::checker::{Checker, Said, Throttle, Who};
use super::faulty_stores::number;
use super::plan::{CDN, HOUR, ORIGINS, Pages, Path, Phase, Plan, Rng, Robots, SECOND};

#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) plan: Plan,
    pub(crate) checker: Arc<Checker>,
}

impl Web {
    pub(crate) fn phase(&self, origin: usize) -> (u64, Phase) {
        if self.checker.faults_ended() {
            let (end, crawl_delay) = (Duration::MAX, Duration::ZERO);
            return (1_000_000, Phase { end, robots: Robots::Good, pages: Pages::Fine, crawl_delay });
        }
        self.plan.phase(origin, self.checker.now())
    }

    /// The transport of the robots requests of a process.
    pub(crate) fn fetch(self: &Arc<Self>, who: Who) -> RobotsFetch {
        let web = Arc::clone(self);
        let script = ScriptedFetch::new(move |request, times| web.robots(who, request, times));
        RobotsFetch { script, web: Arc::clone(self), who }
    }

    fn robots(&self, who: Who, request: &RobotsRequest, times: usize) -> Scripted {
        let (origin, _) = place(request.url());
        let (phase, now) = self.phase(origin);
        let mut rng = Rng::of(&[self.plan.seed, origin as u64, phase, times as u64, 5]);
        let (said, answer) = self.robots_answer(origin, phase, &now, request, &mut rng);
        self.checker.says(who, origin, said);
        let latency = rng.between(Duration::ZERO, 2 * SECOND);
        if now.robots == Robots::Panics {
            self.checker.loses(who, origin);
        }
        answer.head_after(latency)
    }

    fn robots_answer(
        &self,
        origin: usize,
        phase: u64,
        now: &Phase,
        request: &RobotsRequest,
        rng: &mut Rng,
    ) -> (Said, Scripted) {
        let trap = "User-agent: *\nAllow: /\n";
        let rules = self.rules(origin, phase, now.crawl_delay);
        let etag = format!("\"{phase}\"");
        let hop = request.hop() as u64;
        let onward = || {
            self.checker.leads_to_cdn(origin);
            Scripted::redirect(&redirect(origin, hop))
        };
        let unreachable = |answer| (Said::Unreachable, answer);
        match now.robots {
            Robots::Good | Robots::GoodAfterRedirects => {
                let hops = if now.robots == Robots::Good { 0 } else { 1 + phase % 5 };
                let headers = request.headers();
                let known = headers.get("if-none-match").map(|etag| etag.as_bytes());
                if hop < hops {
                    unreachable(onward())
                } else if known == Some(etag.as_bytes()) {
                    (Said::NotModified, Scripted::status(304))
                } else {
                    let text = Scripted::text(rules).header("etag", etag.as_bytes());
                    (Said::Rules(Some(phase)), if now.end == Duration::MAX { text } else { age(text, rng) })
                }
            }
            Robots::Html => (Said::Rules(None), Scripted::text("<html><p>Challenge</p></html>")),
            Robots::Gone => {
                let status = rng.of_these(&[400, 401, 403, 404, 410, 451]);
                (Said::Gone, Scripted::status(status).body(trap))
            }
            Robots::NotNow => (Said::NotNow(408), Scripted::status(408)),
            Robots::TooManyRequests => throttle(Said::NotNow(429), 429, rng),
            Robots::Busy => throttle(Said::Unreachable, 503, rng),
            Robots::TooManyRedirects => (Said::Momentary, onward()),
            Robots::BadRedirect => unreachable(Scripted::redirect("ftp://elsewhere.example/")),
            Robots::ServerError => {
                unreachable(Scripted::status(rng.of_these(&[500, 502, 504, 600, 206])).body(trap))
            }
            Robots::Refused => unreachable(Scripted::error(Failure::Connect)),
            Robots::Reset => unreachable(Scripted::error(Failure::Reset)),
            Robots::Stalls => unreachable(Scripted::text(trap).stalls()),
            Robots::Slow => unreachable(Scripted::text(trap).endless().chunk_after(SECOND)),
            Robots::ShortBody => unreachable(Scripted::text(trap).breaks()),
            Robots::Coded => unreachable(Scripted::text(trap).header("content-encoding", b"gzip")),
            Robots::Endless => {
                (Said::Rules(Some(phase)), Scripted::text(rules).body(vec![b'#'; 70_000]).endless())
            }
            Robots::Unasked304 if request.is_conditional() => (Said::NotModified, Scripted::status(304)),
            Robots::Unasked304 => unreachable(Scripted::status(304)),
            Robots::Panics => unreachable(Scripted::panic()),
        }
    }

    /// Every other phase speaks to us by name, with a trap for all others.
    fn rules(&self, origin: usize, phase: u64, delay: Duration) -> String {
        self.checker.delays(origin, phase, delay);
        let others = ["*", "*\nAllow: /\nCrawl-delay: 0\n\nUser-agent: examplebot/2"][phase as usize % 2];
        let delay = match delay.is_zero() {
            true => String::new(),
            false => format!("Crawl-delay: {}\n", delay.as_secs_f64()),
        };
        format!("User-agent: {others}\nDisallow: /closed\nDisallow: /v{phase}/\n{delay}")
    }

    /// Puts a request for a page on the wire, that has this `permit`.
    pub(crate) async fn page(
        self: &Arc<Self>,
        who: Who,
        url: &Url,
        rng: &mut Rng,
        arrived: impl FnOnce(),
    ) -> PageReply {
        let (origin, host) = place(url);
        let path = Path::of(url.path());
        self.checker.page_arrives(who, origin, path, host);
        arrived();
        let guard = OnTheWire { web: Arc::clone(self), who, host, robots_of: None };
        let (phase, now) = self.phase(origin);
        let faults_ended = self.checker.faults_ended();
        let latency = if faults_ended { SECOND / 10 } else { rng.between(Duration::ZERO, 3 * SECOND) };
        sleep(latency).await;
        let mut reply =
            PageReply { status: StatusCode::OK, headers: HeaderMap::new(), fault: None, body: None };
        let slow = now.pages == Pages::Slow;
        let (chunks, every) = match rng.below(4) {
            _ if faults_ended => (1, Duration::ZERO),
            0 => (0, Duration::ZERO),
            _ => (3, if slow { 7 * SECOND } else { SECOND / 5 }),
        };
        match now.pages {
            Pages::Busy if rng.one_in(3) => {
                reply.status = StatusCode::from_u16(rng.of_these(&[429, 503, 420, 430, 509, 529])).unwrap();
                let backoff = retry_after(rng);
                if let Some(seconds) = backoff {
                    reply.headers.insert("retry-after", seconds.into());
                }
                self.checker.throttles(who, host, throttle_of(backoff), None);
            }
            Pages::Broken if rng.one_in(2) => {
                use Failure::{EnhanceYourCalm, Refused, Reset, Timeout};
                let fault = rng.of_these(&[Refused, Reset, Timeout, EnhanceYourCalm]);
                match fault {
                    EnhanceYourCalm => self.checker.throttles(who, host, Throttle::Silent, None),
                    _ => self.checker.reaches(who, host, false),
                }
                reply.fault = Some(fault);
                return reply;
            }
            Pages::Redirects if rng.one_in(2) => {
                let to = rng.below(self.plan.sites as u64) as usize;
                let (phase, _) = self.phase(to);
                let path = rng.of_these(&[Path::Open, Path::Closed, Path::Version(phase)]);
                let location = format!("{}{}", ORIGINS[to].0, path.text());
                reply.status = StatusCode::FOUND;
                reply.headers.insert("location", location.parse().unwrap());
            }
            Pages::Refuses => {
                // Recognised, or by the status alone.
                let is_challenge = phase.is_multiple_of(2);
                reply.status = if is_challenge { StatusCode::OK } else { StatusCode::FORBIDDEN };
                if is_challenge {
                    reply.headers.insert("cf-mitigated", "challenge".parse().unwrap());
                }
            }
            _ => {
                reply.status = StatusCode::from_u16(rng.of_these(&[200, 200, 200, 404, 500, 403])).unwrap();
            }
        }
        self.checker.reaches(who, host, reply.status != StatusCode::INTERNAL_SERVER_ERROR);
        self.checker.receives(who, host, reply.status.as_u16(), reply.headers.contains_key("cf-mitigated"));
        reply.body = Some(PageBody { guard: Some(guard), chunks, every });
        reply
    }
}

/// The origin that a URL belongs to, and the host that it leads to. A robots.txt that was redirected says
/// whose it is.
fn place(url: &Url) -> (usize, usize) {
    if let Some(rest) = url.path().strip_prefix("/of/") {
        let origin = rest.split('/').next().unwrap().parse().unwrap();
        return (origin, if url.host_str() == Some("cdn.example") { CDN } else { ORIGINS[origin].1 });
    }
    let origin = number(&Origin::of(url).unwrap());
    (origin, ORIGINS[origin].1)
}

fn redirect(origin: usize, hop: u64) -> String {
    let host = if hop.is_multiple_of(2) { "https://cdn.example" } else { ORIGINS[origin].0 };
    // http may go up to https, and not down again.
    let host = if hop > 0 && host.starts_with("http:") { "https://cdn.example" } else { host };
    format!("{host}/of/{origin}/{hop}")
}

fn age(answer: Scripted, rng: &mut Rng) -> Scripted {
    match rng.below(6) {
        0 => answer.header("cache-control", b"max-age=600"),
        1 => answer.header("cache-control", b"max-age=99999999999999999999"),
        2 => answer.header("cache-control", b"no-store"),
        _ => answer,
    }
}

/// Seconds of a Retry-After that can be used; `None`: there is none.
fn retry_after(rng: &mut Rng) -> Option<u64> {
    rng.of_these(&[None, Some(1), Some(20), Some(300), Some(7_200), Some(1_000_000)])
}

fn throttle_of(retry_after: Option<u64>) -> Throttle {
    retry_after.map_or(Throttle::Silent, |seconds| Throttle::Asks(Duration::from_secs(seconds)))
}

fn throttle(said: Said, status: u16, rng: &mut Rng) -> (Said, Scripted) {
    // Shorter than for pages, so that more is seen of what follows.
    let answer = match retry_after(rng).map(|seconds| seconds.min(3 * HOUR.as_secs())) {
        Some(seconds) => Scripted::status(status).header("retry-after", seconds.to_string().as_bytes()),
        None => Scripted::status(status),
    };
    (said, answer)
}

/// Reports to the checker when a request has ended, however it does.
#[derive(Debug)]
struct OnTheWire {
    web: Arc<Web>,
    who: Who,
    host: usize,
    robots_of: Option<usize>,
}

impl Drop for OnTheWire {
    fn drop(&mut self) {
        self.web.checker.leaves(self.who, self.host, self.robots_of);
    }
}

/// The robots requests of one process.
#[derive(Debug)]
pub(crate) struct RobotsFetch {
    script: ScriptedFetch,
    web: Arc<Web>,
    who: Who,
}

impl Fetch for RobotsFetch {
    fn fetch(&self, request: RobotsRequest) -> BoxFuture<'_, Result<RobotsResponse, FetchError>> {
        Box::pin(async move {
            let (origin, host) = place(request.url());
            let is_first = request.hop() == 0 && request.budget() == Duration::from_secs(30);
            self.web.checker.robots_arrives(self.who, origin, host, is_first);
            let guard =
                OnTheWire { web: Arc::clone(&self.web), who: self.who, host, robots_of: Some(origin) };
            let started = Instant::now().into_std();
            let reply = match self.script.fetch(request).await {
                Ok(reply) => reply,
                Err(error) => {
                    self.web.checker.reaches(self.who, host, false);
                    return Err(error);
                }
            };
            let (status, headers) = (reply.status(), reply.headers().clone());
            if matches!(status.as_u16(), 500 | 502 | 504) {
                self.web.checker.reaches(self.who, host, false);
            }
            if matches!(status.as_u16(), 429 | 503) {
                let asked = headers.get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap());
                self.web.checker.throttles(self.who, host, throttle_of(asked), Some(origin));
            }
            // The request ends with its body.
            let body = reply.into_body().map_err(move |error| {
                guard.web.checker.reaches(guard.who, guard.host, false);
                error
            });
            Ok(RobotsResponse::new(status, headers, body.boxed_unsync(), started))
        })
    }
}

/// What came back for a page.
pub(crate) struct PageReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) fault: Option<Failure>,
    pub(crate) body: Option<PageBody>,
}

pub(crate) struct PageBody {
    guard: Option<OnTheWire>,
    chunks: u8,
    every: Duration,
}

impl PageBody {
    /// Whether another piece has come.
    pub(crate) async fn piece(&mut self) -> bool {
        sleep(self.every).await;
        if self.chunks == 0 {
            self.guard = None;
            return false;
        }
        self.chunks -= 1;
        true
    }
}
