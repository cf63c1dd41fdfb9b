//! `abide fetch`: URLs through the whole middleware.

use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use abide::{Abide, Denied, Options, Preference, RequestBuilderExt, ResponseExt, Visit};
use futures_util::StreamExt;
use reqwest_middleware::ClientWithMiddleware;
use serde::Serialize;
use url::Url;

use crate::args::FetchArgs;
use crate::check::absolute;
use crate::excerpt::printable;
use crate::json::{OnlineVerdict, Tags};
use crate::online::{self, Interruption};
use crate::trail::{self, Sent, Trail};
use crate::watch::Watch;
use crate::{Status, style};

/// One line of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) url: String,
    pub(crate) outcome: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) final_url: Option<String>,
    pub(crate) hops: Vec<Hop>,
    pub(crate) verdict: Option<OnlineVerdict>,
    pub(crate) permissions: Option<Tags>,
    pub(crate) noindex: Option<bool>,
    pub(crate) waited_ms: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) why: String,
}

/// One request of the chain; the last one may not have gone out.
#[derive(Debug, Serialize)]
pub(crate) struct Hop {
    pub(crate) url: String,
    pub(crate) status: Option<u16>,
    pub(crate) allowed: bool,
}

pub(crate) fn run(args: &FetchArgs) -> anyhow::Result<Status> {
    for url in &args.urls {
        absolute(url)?;
    }
    let watch = Arc::new(Watch::stores());
    online::run(&args.online, &watch, Interruption::Ends, async |abide, inner| {
        fetch_all(args, &abide, &trail::client(&abide, inner)).await
    })
}

async fn fetch_all(args: &FetchArgs, abide: &Abide, client: &ClientWithMiddleware) -> anyhow::Result<Status> {
    let mut lines = std::pin::pin!(online::in_order(&args.online, &args.urls, |url| async move {
        ask(abide, client, url, &Trail::default(), Options::new(), |_| ()).await.line
    }));
    let mut status = Status::Done;
    while let Some(line) = lines.next().await {
        status = status.and(Status::of(line.outcome == "fetched"));
        if args.online.output.json {
            online::print_json(&line)?;
        } else {
            print(&line)?;
        }
    }
    Ok(status)
}

/// How the contract calls a refusal.
pub(crate) fn refusal_word(denied: &Denied) -> &'static str {
    match denied {
        Denied::Disallowed { .. } | Denied::Unreachable { .. } => "denied",
        Denied::Deferred { .. } | Denied::CrawlDelayTooLong { .. } => "deferred",
        _ => "refused",
    }
}

/// One URL, answered: its line, and what a crawl goes on with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) line: Line,
    pub(crate) content_type: Option<String>,
    /// Whether the page's own rules permit its links to be followed.
    pub(crate) may_follow: bool,
    /// When to come back.
    pub(crate) not_before: Option<SystemTime>,
    /// Uses of the content that the site asks to leave alone, such as `train-ai`.
    pub(crate) reserved: Vec<String>,
}

/// Fetches `text`; the body goes to `sink`, piece by piece.
pub(crate) async fn ask(
    abide: &Abide,
    client: &ClientWithMiddleware,
    text: &str,
    trail: &Trail,
    options: Options,
    sink: impl FnMut(&[u8]),
) -> Answer {
    let error = match client.get(text).abide(options).with_extension(trail.clone()).send().await {
        Ok(response) => return fetched(abide, text, response, sink).await,
        Err(error) => error,
    };
    let denied = abide::Error::find(&error);
    let line = match denied {
        Some(denied) => refused(abide, text, denied, &trail.sent()),
        None => failed(abide, text, &error, &trail.sent()),
    };
    let not_before = match denied {
        Some(Denied::Deferred { not_before, .. }) => Some(*not_before),
        _ => None,
    };
    Answer { line, content_type: None, may_follow: false, not_before, reserved: Vec::new() }
}

async fn fetched(
    abide: &Abide,
    text: &str,
    mut response: reqwest::Response,
    mut sink: impl FnMut(&[u8]),
) -> Answer {
    let visit = response.visit().cloned();
    let mut line = Line::empty(text, "fetched");
    line.status = Some(response.status().as_u16());
    line.final_url = Some(trail::public(response.url()).into());
    if let Some(visit) = &visit {
        line.hops = hops(visit);
        line.verdict = visit.verdict().map(|verdict| OnlineVerdict::new(verdict, abide.gate_handle().wall()));
        line.permissions = Some(Tags::new(&visit.permissions()));
        line.noindex = visit.permissions().noindex_known();
        line.waited_ms = u64::try_from(visit.waited().as_millis()).unwrap_or(u64::MAX);
        line.why = why(visit);
    }
    let content_type = response.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let may_follow = visit.as_ref().is_some_and(|visit| visit.permissions().may_follow());
    let reserved = visit.as_ref().map(reserved).unwrap_or_default();
    let mut bytes = 0_u64;
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                bytes = bytes.saturating_add(chunk.len() as u64);
                sink(&chunk);
            }
            Ok(None) => break,
            Err(error) => {
                line.outcome = "error";
                line.why = chain(&error.without_url());
                break;
            }
        }
    }
    line.bytes = Some(bytes);
    Answer { line, content_type, may_follow, not_before: None, reserved }
}

/// Each usage once that the site disallows, whoever of its statements counts in the end.
fn reserved(visit: &Visit) -> Vec<String> {
    let preferences = visit.preferences();
    let usages = preferences.statements().iter().map(|statement| statement.usage());
    let mut names: Vec<String> = usages
        .filter(|usage| preferences.resolve(usage).preference() == Preference::Disallow)
        .map(ToString::to_string)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn refused(abide: &Abide, text: &str, denied: &Denied, sent: &[Sent]) -> Line {
    let mut line = Line::empty(text, refusal_word(denied));
    line.why = denied.to_string();
    line.hops = sent.iter().map(Hop::sent).collect();
    line.verdict = match denied {
        Denied::Disallowed { verdict, .. } => Some(OnlineVerdict::new(verdict, abide.gate_handle().wall())),
        _ => denied.url().and_then(|url| known(abide, url)),
    };
    // The chain that is too long is in the trail already; the others end with what did not go out.
    if let Some(url) = denied.url()
        && !matches!(denied, Denied::TooManyRedirects { .. } | Denied::RedirectBypass { .. })
    {
        // What is deferred may be asked for: later.
        let allowed = refusal_word(denied) == "deferred" && line.verdict.as_ref().is_some_and(|v| v.allowed);
        line.hops.push(Hop { url: url.to_string(), status: None, allowed });
    }
    line.final_url = line.hops.last().map(|hop| hop.url.clone());
    line
}

/// The network failed; what was sent until then is in the trail.
fn failed(abide: &Abide, text: &str, error: &reqwest_middleware::Error, sent: &[Sent]) -> Line {
    let mut line = Line::empty(text, "error");
    line.why = match error {
        reqwest_middleware::Error::Reqwest(error) => chain(error),
        reqwest_middleware::Error::Middleware(error) => chain(error.as_ref()),
    };
    line.hops = sent.iter().map(Hop::sent).collect();
    line.final_url = line.hops.last().map(|hop| hop.url.clone());
    line.verdict = sent.last().and_then(|sent| known(abide, &sent.url));
    line
}

/// What is known of a URL, without asking.
fn known(abide: &Abide, url: &Url) -> Option<OnlineVerdict> {
    let verdict = abide.check_cached(url)?;
    Some(OnlineVerdict::new(&verdict, abide.gate_handle().wall()))
}

impl Hop {
    /// A request that went out, and so was allowed.
    fn sent(sent: &Sent) -> Self {
        Self { url: sent.url.to_string(), status: sent.status, allowed: true }
    }
}

impl Line {
    fn empty(url: &str, outcome: &'static str) -> Self {
        Self {
            url: url.to_owned(),
            outcome,
            status: None,
            final_url: None,
            hops: Vec::new(),
            verdict: None,
            permissions: None,
            noindex: None,
            waited_ms: 0,
            bytes: None,
            why: String::new(),
        }
    }
}

fn hops(visit: &Visit) -> Vec<Hop> {
    let hop = |hop: &abide::Hop| Hop {
        url: hop.url().to_string(),
        status: Some(hop.status().as_u16()),
        allowed: true,
    };
    visit.hops().iter().map(hop).collect()
}

/// Why it was fetched, and why a redirect was not followed.
fn why(visit: &Visit) -> String {
    let verdict = visit.verdict().map(ToString::to_string).unwrap_or_default();
    match visit.stopped() {
        Some(stopped) => format!("{verdict}; {stopped}"),
        None => verdict,
    }
}

/// An error and its causes, without the URL that reqwest puts in.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

fn print(line: &Line) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let mark = match (line.outcome, line.status) {
        ("fetched", Some(status)) => style::word(style::GOOD, &status.to_string()),
        ("deferred", _) => style::word(style::WAIT, "deferred"),
        (outcome, _) => style::word(style::BAD, outcome),
    };
    writeln!(out, "{mark}  {}", printable(line.url.as_bytes()))?;
    for hop in line.hops.iter().skip(1) {
        writeln!(out, "     → {}", hop.url)?;
    }
    let (dim, reset) = (style::DIM, format!("{:#}", style::DIM));
    // The URL stands above already.
    let why = line.why.strip_prefix(&line.url).and_then(|why| why.strip_prefix(": ")).unwrap_or(&line.why);
    writeln!(out, "     {dim}{why}{reset}")?;
    if let Some(bytes) = line.bytes {
        let noindex = match line.noindex {
            Some(true) => "not to be indexed",
            Some(false) => "may be indexed",
            None => "whether it may be indexed is not known",
        };
        writeln!(out, "     {dim}{bytes} bytes, waited {} ms, {noindex}{reset}", line.waited_ms)?;
    }
    Ok(())
}
