//! A frontier: many hosts, each asked when it is free, and nothing that sleeps inside a call.
//!
//! Calls may not wait at all here (`max_wait` is zero). The frontier asks `next_slot` when a host can be
//! asked again, and requeues what was deferred for the time that the refusal names. So a few workers serve
//! any number of hosts, and slow hosts cost nothing.

#![allow(clippy::arithmetic_side_effects, reason = "an example counts a handful of pages")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use abide::{Abide, Denied, DeniedKind, Origin, Target};
use abide_examples::{Web, plain_client, shops};
use reqwest_middleware::ClientWithMiddleware;
use tokio::task::JoinSet;
use url::Url;

/// Requests at a time, over all hosts.
const WORKERS: usize = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let web = Web::start().await; // in place of the real web
    let builder = Abide::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)");
    let (abide, client) = web.stand_in(builder.max_wait(Duration::ZERO)).build_both(plain_client())?;
    let began = Instant::now();

    let mut frontier = Frontier::default();
    // Five thousand links of each shop, of which robots.txt leaves few: they are sorted out before they are
    // queued.
    let (mut seen, mut filtering) = (0_usize, Duration::ZERO);
    for shop in shops() {
        let home: Url = format!("http://{shop}/").parse()?;
        let rules = abide.rules(&Origin::of(&home)?).await?;
        let links: Vec<Url> = (0..5_000).map(|number| link(&home, number)).collect::<Result<_, _>>()?;
        seen += links.len();
        let filter = Instant::now();
        let wanted: Vec<Url> = links.into_iter().filter(|url| rules.is_allowed(&Target::of(url))).collect();
        filtering += filter.elapsed();
        for url in wanted {
            frontier.add(url);
        }
    }
    let each = filtering.as_nanos() / seen as u128;
    println!("{seen} links, {} allowed by robots.txt; {each} ns each", frontier.left());

    let figures = crawl(&abide, &client, frontier).await?;
    println!(
        "{} pages of {} hosts in {:.1} s; {} requeued, {} at a time at most, {} denied, {} failed",
        figures.fetched,
        shops().count(),
        began.elapsed().as_secs_f64(),
        figures.requeued,
        figures.at_a_time,
        figures.denied,
        figures.failed,
    );
    Ok(())
}

/// The links that a shop has: three shelves, and endless baskets and sortings.
fn link(home: &Url, number: usize) -> Result<Url, url::ParseError> {
    match number {
        0..3 => home.join(&format!("/shelf/{}", number + 1)),
        _ if number.is_multiple_of(2) => home.join(&format!("/basket/{number}")),
        _ => home.join(&format!("/shelf/1?sort={number}")),
    }
}

/// What is left to do, by host, and when each host is next. A host is either due, or one of its pages is
/// being fetched.
#[derive(Default)]
struct Frontier {
    pages: HashMap<String, VecDeque<Url>>,
    due: BinaryHeap<Reverse<(SystemTime, String)>>,
}

impl Frontier {
    fn add(&mut self, url: Url) {
        let host = url.host_str().unwrap_or_default().to_owned();
        if !self.pages.contains_key(&host) {
            self.due.push(Reverse((SystemTime::now(), host.clone())));
        }
        self.pages.entry(host).or_default().push_back(url);
    }

    fn left(&self) -> usize {
        self.pages.values().map(VecDeque::len).sum()
    }

    /// A page of a host that is due, or how long until one is.
    fn next(&mut self) -> Result<Url, Option<Duration>> {
        loop {
            let Some(Reverse((at, _))) = self.due.peek() else { return Err(None) };
            if let Ok(wait) = at.duration_since(SystemTime::now()) {
                return Err(Some(wait));
            }
            let host = self.due.pop().map(|Reverse((_, host))| host).unwrap_or_default();
            if let Some(page) = self.pages.get_mut(&host).and_then(VecDeque::pop_front) {
                return Ok(page);
            }
        }
    }

    /// The host of `url` can be asked again at this time, if there is more of it.
    fn again(&mut self, url: &Url, at: SystemTime) {
        let host = url.host_str().unwrap_or_default();
        if self.pages.get(host).is_some_and(|pages| !pages.is_empty()) {
            self.due.push(Reverse((at, host.to_owned())));
        }
    }

    fn requeue(&mut self, url: Url, at: SystemTime) {
        let host = url.host_str().unwrap_or_default().to_owned();
        self.pages.entry(host).or_default().push_front(url.clone());
        self.again(&url, at);
    }
}

#[derive(Debug, Default)]
struct Figures {
    fetched: usize,
    requeued: usize,
    denied: usize,
    failed: usize,
    at_a_time: usize,
}

async fn crawl(
    abide: &Abide,
    client: &ClientWithMiddleware,
    mut frontier: Frontier,
) -> anyhow::Result<Figures> {
    let (mut figures, mut running) = (Figures::default(), JoinSet::new());
    loop {
        let wait = loop {
            if running.len() >= WORKERS {
                break None;
            }
            match frontier.next() {
                Ok(url) => running.spawn(fetch(client.clone(), url)),
                Err(wait) => break wait,
            };
            figures.at_a_time = figures.at_a_time.max(running.len());
        };
        let done = tokio::select! {
            Some(done) = running.join_next() => done?,
            () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => continue,
            else => return Ok(figures),
        };
        let (url, outcome) = done;
        match outcome {
            Outcome::Deferred(hop, not_before) => {
                figures.requeued += 1;
                let is_here = hop.host() == url.host();
                frontier.requeue(hop, not_before);
                if is_here {
                    continue;
                }
            }
            Outcome::Fetched => figures.fetched += 1,
            Outcome::Denied => figures.denied += 1,
            Outcome::Failed => figures.failed += 1,
        }
        let slot = abide.next_slot(&url)?;
        frontier.again(&url, slot.not_before);
    }
}

enum Outcome {
    Fetched,
    /// The URL to ask for then: behind a redirect, that of the hop.
    Deferred(Url, SystemTime),
    Denied,
    Failed,
}

async fn fetch(client: ClientWithMiddleware, url: Url) -> (Url, Outcome) {
    let outcome = match client.get(url.clone()).send().await {
        Ok(page) => match (page.status().as_u16(), page.bytes().await) {
            // The answer to 429 is the backoff, which the next `next_slot` reports; the page is still to be
            // fetched.
            (429 | 503, _) => Outcome::Deferred(url.clone(), SystemTime::now()),
            (200..=299, Ok(_)) => Outcome::Fetched,
            _ => Outcome::Failed,
        },
        Err(error) => match Denied::find(&error) {
            Some(denied) => match (denied.kind(), denied.retry_at()) {
                (DeniedKind::Deferred { .. }, Some(time)) => Outcome::Deferred(denied.url().clone(), time),
                _ => Outcome::Denied,
            },
            None => Outcome::Failed,
        },
    };
    (url, outcome)
}
