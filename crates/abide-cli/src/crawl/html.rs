//! The report as one page that stands alone: a timeline of requests per host in which the spacing can be
//! seen, and a card per host.
//!
//! No other file, nothing from a network; a few lines of script zoom the timeline and search the table, and
//! without them both can be read. `templates/report.html` escapes all that a site wrote, and what would
//! command a terminal has been escaped here.

use std::time::Duration;

use askama::Template;
use indicatif::DecimalBytes;

use crate::args::CrawlArgs;
use crate::crawl::facts::CrawlRequest;
use crate::crawl::frontier::UrlKind;
use crate::crawl::page::{Class, Page};
use crate::crawl::report::{Broken, HostLine, Report};
use crate::crawl::summary;
use crate::outcome::Outcome;
use crate::sanitize::{count, cut, sanitized, span};

#[derive(Template)]
#[template(path = "report.html")]
struct Whole<'a> {
    report: &'a Report,
    title: String,
    version: &'static str,
    agent: String,
    begun: String,
    figures: [Figure; 9],
    /// Where they are, in per cent.
    ticks: Vec<(String, String)>,
    lanes: Vec<Lane>,
    /// URLs that are not in the table.
    rest: Option<String>,
}

/// A number of the crawl.
struct Figure {
    value: String,
    name: &'static str,
    /// The class of its rows in the table, if that is what is to be looked at.
    leads_to: Option<&'static str>,
}

/// One host: everything that it saw, and its card.
struct Lane {
    host: String,
    summary: String,
    bars: Vec<Bar>,
    chips: Vec<(&'static str, String)>,
    facts: Vec<(String, String)>,
}

/// A part of a lane. Its place is in per cent.
struct Bar {
    class: &'static str,
    left: String,
    width: String,
    title: String,
}

pub(crate) fn page(report: &Report, args: &CrawlArgs) -> anyhow::Result<String> {
    let chart = Chart::of(report, args.online.delay);
    let began = std::time::SystemTime::now().checked_sub(report.lasted);
    let rest = report.sum(HostLine::urls).saturating_sub(report.pages.len());
    let whole = Whole {
        report,
        title: title(report),
        version: env!("CARGO_PKG_VERSION"),
        agent: args.online.tokens().into_iter().next().unwrap_or_default(),
        begun: began.map(|at| format!(", begun {}", crate::json::rfc3339(at.into()))).unwrap_or_default(),
        figures: figures(report),
        ticks: chart.ticks().map(|(at, label)| (chart.percent(at), label)).collect(),
        lanes: report.hosts().map(|host| lane(host, &chart)).collect(),
        rest: (rest > 0).then(|| count(rest, "more URL")),
    };
    Ok(whole.render()?)
}

/// The class of a row of the table, and what became of its URL.
fn outcome(page: &Page) -> (&'static str, String) {
    match (page.class(), page.status) {
        (Some(Class::Ok | Class::Unchanged), Some(status)) => ("good", status.to_string()),
        (Some(Class::Redirected), Some(status)) => ("moved", status.to_string()),
        (Some(_), Some(status)) => ("bad", status.to_string()),
        _ if page.outcome == Outcome::Denied => ("denied", "denied".to_owned()),
        _ => ("lost", page.outcome.as_str().to_owned()),
    }
}

/// The same of a URL that leads nowhere.
fn broken_as(broken: &Broken) -> String {
    let status = broken.status.filter(|_| broken.outcome == Outcome::Fetched);
    status.map_or_else(|| "failed".to_owned(), |status| status.to_string())
}

fn size(bytes: &u64) -> DecimalBytes {
    DecimalBytes(*bytes)
}

/// The first host, and how many others.
fn title(report: &Report) -> String {
    let busiest = report.hosts().max_by_key(|host| host.requests);
    let name = busiest.map_or("nothing", |host| host.host.as_str());
    match report.hosts().count() {
        0 | 1 => name.to_owned(),
        hosts => format!("{name} and {}", count(hosts - 1, "other host")),
    }
}

fn figures(report: &Report) -> [Figure; 9] {
    let gap = report.hosts().filter_map(|host| host.gap_min_ms).min();
    let gap = gap.map_or_else(|| "–".to_owned(), |gap| format!("{:.2} s", gap as f64 / 1e3));
    let plain = |value: String, name| Figure { value, name, leads_to: None };
    let sum = |pick: summary::Pick, name| plain(report.sum(pick).to_string(), name);
    let failing = |pick: summary::Pick, name, class| {
        let count = report.sum(pick);
        Figure { value: count.to_string(), name, leads_to: (count > 0).then_some(class) }
    };
    [
        sum(HostLine::urls, "URLs"),
        sum(|host| host.ok + host.unchanged + host.redirected, "fetched"),
        failing(|host| host.client_errors + host.server_errors, "4xx and 5xx", "bad"),
        sum(|host| host.denied, "denied by robots.txt"),
        failing(|host| host.deferred + host.refused + host.errors, "deferred, refused, failed", "lost"),
        sum(|host| host.left, "not fetched yet"),
        sum(|host| host.requests, "requests"),
        plain(gap, "shortest delay"),
        plain(duration(report.lasted), "duration"),
    ]
}

/// A URL that leads there where it is clicked on. Only these schemes are crawled; no other becomes a link.
fn link(url: &str) -> Option<&str> {
    Some(url).filter(|url| url.starts_with("http://") || url.starts_with("https://"))
}

fn duration(time: Duration) -> String {
    if time < Duration::from_secs(120) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        span(time.as_secs())
    }
}

fn lane(host: &HostLine, chart: &Chart) -> Lane {
    let gap = host.gap_min_ms.map(|gap| format!(", at least {:.2} s apart", gap as f64 / 1e3));
    let asked = Duration::try_from_secs_f64(host.crawl_delay.unwrap_or(0.0)).unwrap_or_default();
    let delay = chart.delay.max(asked);
    let backoffs = host.backoffs.iter().filter_map(|backoff| {
        let lasts = span((backoff.until - backoff.from).as_secs());
        let title = format!("backed off for {lasts}: {}", backoff.why);
        chart.bar("backoff", backoff.from, backoff.until, title)
    });
    let ends = host.drawn.iter().filter_map(|request| request.end);
    let delays = ends.filter_map(|end| chart.bar("delay", end, end + delay, String::new()));
    let requests = host.drawn.iter().filter_map(|request| {
        let end = request.end.unwrap_or(request.at);
        chart.bar(class(request), request.at, end, tooltip(request))
    });
    let facts = summary::lines(host);
    // The first line has the counts of the chips.
    let facts = facts.iter().skip(usize::from(host.urls() > 0)).map(|line| {
        let (name, value) = line.split_once(": ").unwrap_or(("pace", line));
        (sanitized(name), sanitized(value))
    });
    Lane {
        host: sanitized(&host.host),
        summary: format!("{}{}", count(host.requests, "request"), gap.unwrap_or_default()),
        bars: backoffs.chain(delays).chain(requests).collect(),
        chips: summary::classes(|pick| pick(host)).collect(),
        facts: facts.collect(),
    }
}

fn class(request: &CrawlRequest) -> &'static str {
    match request.status {
        _ if request.kind == UrlKind::Robots => "m robots",
        Some(200..300) => "m good",
        Some(300..400) => "m moved",
        Some(_) => "m bad",
        None => "m lost",
    }
}

/// What is shown where a mark is pointed at.
fn tooltip(request: &CrawlRequest) -> String {
    let status = request.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let status =
        if request.kind == UrlKind::Robots && request.status.is_none() { String::new() } else { status };
    let took =
        request.end.map(|end| format!(" in {:.0} ms", (end.saturating_sub(request.at)).as_secs_f64() * 1e3));
    format!("{:.2} s: {} {status}{}", request.at.as_secs_f64(), cut(&request.url), took.unwrap_or_default())
}

/// The one scale of all lanes.
#[derive(Debug)]
struct Chart {
    length: Duration,
    delay: Duration,
}

impl Chart {
    fn of(report: &Report, delay: Duration) -> Self {
        let ends =
            report.hosts().flat_map(|host| &host.drawn).map(|request| request.end.unwrap_or(request.at));
        // A little more, so that the mark of the last request lies within the chart.
        let length = ends.max().unwrap_or_default().mul_f64(1.01).max(Duration::from_secs(1));
        Self { length, delay }
    }

    fn percent(&self, at: Duration) -> String {
        format!("{:.3}", at.min(self.length).as_secs_f64() / self.length.as_secs_f64() * 100.0)
    }

    /// A part of a lane, cut where the chart ends.
    fn bar(&self, class: &'static str, from: Duration, until: Duration, title: String) -> Option<Bar> {
        let until = until.min(self.length);
        let (left, width) = (self.percent(from), self.percent(until.saturating_sub(from)));
        (from <= self.length).then(|| Bar { class, left, width, title: sanitized(&title) })
    }

    /// Round times, not nearer to each other than they can be read.
    fn ticks(&self) -> impl Iterator<Item = (Duration, String)> {
        let seconds = self.length.as_secs_f64();
        let step = STEPS.into_iter().find(|step| seconds / step <= TICKS_MAX).unwrap_or(seconds / TICKS_MAX);
        (0_u32..)
            .map(move |index| step * f64::from(index))
            .take_while(move |at| *at < seconds * 0.97)
            .map(tick)
    }
}

fn tick(seconds: f64) -> (Duration, String) {
    let label = match seconds {
        0.0 => "0".to_owned(),
        // Its last digit is that of the step: 0.1 three times is 0.30000000000000004.
        ..1.0 => format!("{seconds:.1} s"),
        ..60.0 => format!("{seconds:.0} s"),
        _ if seconds % 3600.0 == 0.0 => format!("{:.0} h", seconds / 3600.0),
        _ if seconds % 60.0 == 0.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0}:{:02.0} min", (seconds / 60.0).floor(), seconds % 60.0),
    };
    (Duration::try_from_secs_f64(seconds).unwrap_or_default(), label)
}

const STEPS: [f64; 18] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    21_600.0,
];
/// As many as can be read side by side.
const TICKS_MAX: f64 = 11.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::crawl::facts::Fact;

    fn chart(seconds: u64) -> Chart {
        let length = Duration::from_secs(seconds);
        Chart { length, delay: Duration::from_secs(1) }
    }

    #[test]
    fn what_a_site_wrote_stays_text() {
        let url = "http://a/<script>'\"&\x1b\u{202e}".to_owned();
        let at = Duration::ZERO;
        let request = CrawlRequest { kind: UrlKind::Page, url, at, end: None, status: None };
        let mut report = Report::new(false);
        report.count(Fact::Sent(request));
        let crawl = crate::args::Cli::try_parse_from(["abide", "crawl", "http://a/"]).unwrap().command;
        let crate::args::Command::Crawl(args) = crawl else { panic!("it is one") };
        let page = page(&report, &args).unwrap();
        assert!(
            page.contains("http://a/&#60;script&#62;&#39;&#34;&#38;\\u{1b}\\u{202e} no answer'"),
            "{page}"
        );
        assert_eq!((link("http://a/"), link("javascript:alert(1)")), (Some("http://a/"), None));
    }

    #[test]
    fn bars_end_with_the_chart() {
        let bar = |from, until| {
            let bar =
                chart(10).bar("x", Duration::from_secs(from), Duration::from_secs(until), String::new());
            bar.map(|bar| (bar.left, bar.width))
        };
        assert_eq!(bar(5, 3600), Some(("50.000".to_owned(), "50.000".to_owned())));
        assert_eq!(bar(11, 12), None);
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (seconds, labels) in [
            (1, &["0", "0.1 s", "0.2 s", "0.3 s", "0.4 s"][..]),
            (9, &["0", "1 s", "2 s"]),
            (100, &["0", "10 s", "20 s"]),
            (1000, &["0", "2 min", "4 min"]),
            (864_000, &["0", "21:36 h"][..1]),
        ] {
            let ticks: Vec<String> = chart(seconds).ticks().map(|(_, label)| label).collect();
            assert_eq!(&ticks[..labels.len()], labels, "{seconds}");
            assert!((4..=12).contains(&ticks.len()), "{seconds}: {ticks:?}");
        }
        assert_eq!(tick(90.0).1, "1:30 min");
    }
}
