//! `abide fetch`: URLs through the whole middleware.

use std::io::Write;

use abide::{Abide, Denied, ResponseExt, Visit};
use futures_util::StreamExt;
use reqwest_middleware::ClientWithMiddleware;
use serde::Serialize;
use url::Url;

use crate::args::FetchArgs;
use crate::check::absolute;
use crate::json::{OnlineVerdict, Tags};
use crate::trail::{self, Sent, Trail};
use crate::{Status, online, style};

/// One line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    url: &'a str,
    outcome: &'static str,
    status: Option<u16>,
    final_url: Option<String>,
    hops: Vec<Hop>,
    verdict: Option<OnlineVerdict>,
    permissions: Option<Tags>,
    noindex: Option<bool>,
    waited_ms: u64,
    bytes: Option<u64>,
    why: String,
}

/// One request of the chain; the last one may not have gone out.
#[derive(Debug, Serialize)]
struct Hop {
    url: String,
    status: Option<u16>,
    allowed: bool,
}

pub(crate) async fn run(args: FetchArgs) -> anyhow::Result<Status> {
    let (abide, inner) = online::crawler(&args.online)?;
    let client = trail::client(&abide, inner);
    for url in &args.urls {
        absolute(url)?;
    }
    let mut lines =
        std::pin::pin!(online::in_order(&args.online, &args.urls, |url| fetch(&abide, &client, url)));
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

async fn fetch<'a>(abide: &Abide, client: &ClientWithMiddleware, text: &'a str) -> Line<'a> {
    let trail = Trail::default();
    match client.get(text).with_extension(trail.clone()).send().await {
        Ok(response) => fetched(abide, text, response).await,
        Err(error) => match abide::Error::find(&error) {
            Some(denied) => refused(abide, text, denied, &trail.sent()),
            None => failed(abide, text, &error, &trail.sent()),
        },
    }
}

async fn fetched<'a>(abide: &Abide, text: &'a str, mut response: reqwest::Response) -> Line<'a> {
    let visit = response.visit().cloned();
    let mut line = Line::empty(text, "fetched");
    line.status = Some(response.status().as_u16());
    line.final_url = Some(response.url().as_str().to_owned());
    if let Some(visit) = &visit {
        line.hops = hops(visit);
        line.verdict = visit.verdict().map(|verdict| OnlineVerdict::new(verdict, abide.gate_handle().wall()));
        line.permissions = Some(Tags::new(&visit.permissions()));
        line.noindex = visit.permissions().noindex_known();
        line.waited_ms = u64::try_from(visit.waited().as_millis()).unwrap_or(u64::MAX);
        line.why = why(visit);
    }
    let mut bytes = 0_u64;
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes = bytes.saturating_add(chunk.len() as u64),
            Ok(None) => break,
            Err(error) => {
                line.outcome = "error";
                line.why = chain(&error.without_url());
                break;
            }
        }
    }
    line.bytes = Some(bytes);
    line
}

fn refused<'a>(abide: &Abide, text: &'a str, denied: &Denied, sent: &[Sent]) -> Line<'a> {
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
fn failed<'a>(abide: &Abide, text: &'a str, error: &reqwest_middleware::Error, sent: &[Sent]) -> Line<'a> {
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

impl<'a> Line<'a> {
    fn empty(url: &'a str, outcome: &'static str) -> Self {
        Self {
            url,
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

fn print(line: &Line<'_>) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let mark = match (line.outcome, line.status) {
        ("fetched", Some(status)) => style::word(style::GOOD, &status.to_string()),
        ("deferred", _) => style::word(style::WAIT, "deferred"),
        (outcome, _) => style::word(style::BAD, outcome),
    };
    writeln!(out, "{mark}  {}", line.url)?;
    for hop in line.hops.iter().skip(1) {
        writeln!(out, "     → {}", hop.url)?;
    }
    let (dim, reset) = (style::DIM, format!("{:#}", style::DIM));
    writeln!(out, "     {dim}{}{reset}", line.why)?;
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
