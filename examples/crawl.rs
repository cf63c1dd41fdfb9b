//! A polite crawl, to be watched.
//!
//! Without arguments it crawls a small web of six sites that it starts on loopback: allowed and disallowed trees, a redirect
//! into a disallowed path, robots.txt that redirects, answers 404, 500 and 429, permissions in header and meta. With URLs as
//! arguments it crawls those, each within its host.

#![allow(clippy::arithmetic_side_effects, reason = "an example counts a handful of pages")]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use abide::pacing::PacePolicy;
use abide::robots_cache::Source;
use abide::{Abide, Denied, DeniedKind, FetchInfo, HeadEnd, Permissions, ResponseExt, Verdict};
use abide_examples::{Page, Web, sites};
use anstyle::{AnsiColor, Style};
use clap::Parser;
use reqwest_middleware::ClientWithMiddleware;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use url::Url;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WAIT: Style = AnsiColor::Yellow.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// Crawls politely, and says why it did what it did.
#[derive(Debug, Parser)]
struct Args {
    /// Where to begin; without any, an embedded web on loopback
    urls: Vec<Url>,
    /// Shortest time between two requests to a host, in seconds
    #[arg(long, default_value_t = 1.0)]
    delay: f64,
    /// Fetched pages at most
    #[arg(long, default_value_t = 200)]
    max_pages: usize,
    /// Requests at a time, over all hosts
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Networks that may be contacted though they are not public, such as 127.0.0.1/32
    #[arg(long)]
    allow_net: Vec<String>,
    /// Only the table at the end
    #[arg(long)]
    quiet: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let delay = Duration::try_from_secs_f64(args.delay)?;
    let mut builder = Abide::builder("AbideExample")
        .user_agent("AbideExample/0.1 (+https://example.com/bot)")
        .pace(PacePolicy::default().danger_min_delay(delay));
    for net in &args.allow_net {
        builder = builder.allow_net(net.parse()?);
    }
    let mut start = args.urls.clone();
    let mut inner = reqwest::Client::builder();
    if start.is_empty() {
        let web = Web::start().await?;
        for site in sites() {
            builder = builder.resolve(site, web.address());
        }
        // Loopback is not contacted unless it is allowed, and then only this one address.
        builder = builder.allow_net("127.0.0.1/32".parse()?);
        // These sites have no TLS, so a machine without certificates will do.
        inner = inner.tls_certs_only([]);
        start = vec!["http://bakery.example/".parse()?];
        say(format_args!("{DIM}six sites on {}, crawled as AbideExample{DIM:#}\n", web.address()));
    }
    let (abide, inner) = builder.build_with(inner)?;
    let client = abide.wrap(inner);

    let mut crawl = Crawl::new(client, &args, start);
    crawl.run().await?;
    crawl.print_table(&abide);
    Ok(())
}

/// What is known, what is to be fetched, what came back.
struct Crawl {
    client: ClientWithMiddleware,
    slots: Arc<Semaphore>,
    seen: HashSet<Url>,
    /// Only links to these hosts are followed; `None`: to all.
    hosts: Option<HashSet<String>>,
    queue: VecDeque<Url>,
    max_pages: usize,
    quiet: bool,
    table: BTreeMap<String, Row>,
}

/// One host, at the end.
#[derive(Debug, Default)]
struct Row {
    fetched: usize,
    denied: usize,
    deferred: usize,
    failed: usize,
    noindex: usize,
    waited: Duration,
}

/// What became of one URL.
enum Outcome {
    Fetched { info: Box<FetchInfo>, links: Vec<Url>, bytes: usize },
    Refused(Denied),
    Failed(String),
}

impl Crawl {
    fn new(client: ClientWithMiddleware, args: &Args, start: Vec<Url>) -> Self {
        let hosts = (!args.urls.is_empty()).then(|| start.iter().map(host_of).collect());
        Self {
            client,
            slots: Arc::new(Semaphore::new(args.concurrency.max(1))),
            seen: start.iter().cloned().collect(),
            hosts,
            queue: start.into(),
            max_pages: args.max_pages,
            quiet: args.quiet,
            table: BTreeMap::new(),
        }
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        let mut running = JoinSet::new();
        let mut fetched = 0;
        loop {
            while fetched + running.len() < self.max_pages
                && let Some(url) = self.queue.pop_front()
            {
                running.spawn(visit(self.client.clone(), Arc::clone(&self.slots), url));
            }
            let Some(done) = running.join_next().await else { return Ok(()) };
            let (url, outcome) = done?;
            fetched += usize::from(matches!(outcome, Outcome::Fetched { .. }));
            self.note(&url, outcome);
        }
    }

    /// Counts it, shows it, and queues what it links to.
    fn note(&mut self, url: &Url, outcome: Outcome) {
        let row = self.table.entry(host_of(url)).or_default();
        match &outcome {
            Outcome::Fetched { info, .. } => {
                row.fetched += 1;
                row.waited += info.waited();
                row.noindex += usize::from(!info.permissions().may_index());
            }
            Outcome::Refused(denied) if is_deferred(denied) => row.deferred += 1,
            Outcome::Refused(_) => row.denied += 1,
            Outcome::Failed(_) => row.failed += 1,
        }
        if !self.quiet {
            show(url, &outcome);
        }
        if let Outcome::Fetched { links, .. } = outcome {
            for link in links {
                let wanted = self.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host_of(&link)));
                if wanted && self.seen.insert(link.clone()) {
                    self.queue.push_back(link);
                }
            }
        }
    }

    fn print_table(&self, abide: &Abide) {
        say(format_args!(
            "\n{DIM}{:<22} {:>8} {:>7} {:>9} {:>7} {:>8} {:>9}  robots.txt{DIM:#}",
            "host", "fetched", "denied", "deferred", "failed", "noindex", "waited"
        ));
        for (host, row) in &self.table {
            let waited = format!("{:.1} s", row.waited.as_secs_f64());
            let Row { fetched, denied, deferred, failed, noindex, .. } = row;
            let robots = robots_of(abide, host);
            say(format_args!(
                "{host:<22} {fetched:>8} {denied:>7} {deferred:>9} {failed:>7} {noindex:>8} {waited:>9}  {robots}"
            ));
        }
    }
}

/// One URL, through the middleware: asked, paced, read.
async fn visit(client: ClientWithMiddleware, slots: Arc<Semaphore>, url: Url) -> (Url, Outcome) {
    let _slot = slots.acquire().await;
    let outcome = match client.get(url.clone()).send().await {
        Ok(response) => read(response).await,
        Err(error) => match Denied::find(&error) {
            Some(denied) => Outcome::Refused(denied),
            None => Outcome::Failed(format!("{error:#}")),
        },
    };
    (url, outcome)
}

async fn read(response: reqwest::Response) -> Outcome {
    let Some(info) = response.fetch_info().cloned() else {
        return Outcome::Failed("not through abide".to_owned());
    };
    let base = response.url().clone();
    // Its head was looked at, so it is HTML.
    let is_html = info.permissions().head_end() != HeadEnd::NotHtml;
    match response.bytes().await {
        Ok(body) => {
            let may_follow = is_html && info.permissions().may_follow();
            let links = if may_follow { Page::read(&base, &body).links } else { Vec::new() };
            Outcome::Fetched { info: Box::new(info), links, bytes: body.len() }
        }
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn show(url: &Url, outcome: &Outcome) {
    match outcome {
        Outcome::Fetched { info, bytes, .. } => {
            let hops = info.hops();
            let status = hops.last().map_or(0, |hop| hop.status().as_u16());
            let style = if (200..300).contains(&status) { GOOD } else { WAIT };
            say(format_args!("{style}{status}{style:#}  {url}"));
            for hop in hops.iter().skip(1) {
                say(format_args!("     {DIM}→ {}{DIM:#}", hop.url()));
            }
            let verdict = info.verdict().map(in_short).unwrap_or_default();
            let waited = info.waited().as_secs_f64();
            say(format_args!("     {DIM}{verdict}; waited {waited:.1} s; {bytes} bytes{DIM:#}"));
            if let Some(limits) = limits(&info.permissions()) {
                say(format_args!("     {WAIT}{limits}{WAIT:#}"));
            }
        }
        Outcome::Refused(denied) => show_refused(url, denied),
        Outcome::Failed(error) => say(format_args!("{BAD}fail{BAD:#} {url}\n     {DIM}{error}{DIM:#}")),
    }
}

fn show_refused(url: &Url, denied: &Denied) {
    match denied.kind() {
        DeniedKind::Deferred { .. } => {
            let again = denied.retry_at().unwrap_or_else(SystemTime::now);
            let wait = again.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
            say(format_args!("{WAIT}wait{WAIT:#} {url}\n     {DIM}{denied} (in {wait} s){DIM:#}"));
        }
        DeniedKind::Disallowed { verdict } => {
            say(format_args!("{BAD}deny{BAD:#} {url}"));
            if denied.hop() > 0 {
                say(format_args!("     {DIM}→ {}{DIM:#}", denied.url()));
            }
            say(format_args!("     {DIM}{}{DIM:#}", in_short(verdict)));
        }
        _ => say(format_args!("{BAD}deny{BAD:#} {url}\n     {DIM}{denied}{DIM:#}")),
    }
}

fn is_deferred(denied: &Denied) -> bool {
    matches!(denied.kind(), DeniedKind::Deferred { .. })
}

/// The rule and its line; where there is none, why.
fn in_short(verdict: &Verdict) -> String {
    verdict.rules().map_or_else(|| verdict.to_string(), ToString::to_string)
}

/// What the site asks of those who use the page, in a line.
fn limits(permissions: &Permissions) -> Option<String> {
    let rules = permissions.rules().to_string();
    (!rules.is_empty()).then(|| format!("asks for: {rules}"))
}

/// Where the host's rules came from.
fn robots_of(abide: &Abide, host: &str) -> String {
    for scheme in ["http", "https"] {
        let Ok(url) = format!("{scheme}://{host}/").parse() else { continue };
        if let Some(source) = abide.check_cached(&url).and_then(|verdict| verdict.source()) {
            return describe(source);
        }
    }
    "not asked".to_owned()
}

fn describe(source: Source) -> String {
    match source {
        Source::Fresh | Source::Revalidated => "read".to_owned(),
        Source::LastGood => "last good copy".to_owned(),
        Source::Unavailable(status) => format!("unavailable, so all is allowed: status {status}"),
        Source::TooManyRedirects => "too many redirects, so all is allowed".to_owned(),
        Source::Unreachable(cause) => format!("unreachable, so all is disallowed: {cause}"),
        Source::LongOutage => "unreachable for a month, so all is allowed".to_owned(),
        _ => "known".to_owned(),
    }
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// A line; a closed pipe ends the program quietly.
fn say(line: std::fmt::Arguments<'_>) {
    if writeln!(anstream::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
