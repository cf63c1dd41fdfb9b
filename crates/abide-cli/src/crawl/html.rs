//! The report as one page that stands alone: a timeline of requests per host in which the spacing can be seen, and a card per host.
//!
//! No other file, nothing from a network; a few lines of script zoom the timeline and search the table, and without them both can be read.
//! All that a site wrote is escaped.

use std::fmt::Write;
use std::time::Duration;

use indicatif::DecimalBytes;

use crate::args::CrawlArgs;
use crate::crawl::facts::Request;
use crate::crawl::frontier::Kind;
use crate::crawl::page::Class;
use crate::crawl::report::{Host, Report};
use crate::crawl::summary;
use crate::outcome::{Outcome, without_url};
use crate::sanitize::{count, cut, sanitized, span};

pub(crate) fn page(report: &Report, args: &CrawlArgs) -> String {
    let chart = Chart::of(report, args.online.delay);
    let mut page = String::from("<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n");
    let title = escaped(&title(report));
    let _ = write!(
        page,
        "<meta name=viewport content='width=device-width, initial-scale=1'>\n<meta name=robots content=noindex>\n\
         <title>{title}: a crawl by abide</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <header><h1>{title}</h1><p>A crawl by abide {}, as <b>{}</b>{}. {}</p></header>\n",
        env!("CARGO_PKG_VERSION"),
        escaped(args.online.agent.first().map(String::as_str).unwrap_or_default()),
        started(report).map(|time| format!(", begun {time}")).unwrap_or_default(),
        if report.interrupted { "<strong>It was interrupted.</strong>" } else { "" }
    );
    figures(&mut page, report);
    timeline(&mut page, report, &chart);
    page.push_str("<section class=cards>\n");
    for host in report.hosts() {
        card(&mut page, host);
    }
    page.push_str("</section>\n");
    table(&mut page, report);
    page.push_str("</main></body></html>\n");
    page
}

/// Every URL, its status and what there is to say of it.
fn table(page: &mut String, report: &Report) {
    let rows = &report.pages;
    page.push_str("<section><h2>URLs</h2>\n");
    if report.sum(Host::urls) > rows.len() {
        let rest = report.sum(Host::urls).saturating_sub(rows.len());
        let _ = writeln!(
            page,
            "<p class=note>{} not fetched, or not kept for this table.</p>",
            count(rest, "more URL")
        );
    }
    page.push_str(SEARCH);
    page.push_str(
        "<div class='scroll flat'><table id=urls><script>urls.hidden = true</script><thead><tr><th>Status<th>URL<th>Time<th>Size<th>Index<th>Why</thead><tbody>\n",
    );
    for row in rows {
        let (class, status) = match (row.class(), row.status) {
            (Some(Class::Ok), Some(status)) => ("good", status.to_string()),
            (Some(Class::Redirected), Some(status)) => ("moved", status.to_string()),
            (Some(_), Some(status)) => ("bad", status.to_string()),
            _ if row.outcome == Outcome::Denied => ("denied", "denied".to_owned()),
            _ if row.outcome == Outcome::Deferred => ("wait", "deferred".to_owned()),
            _ => ("bad", row.outcome.as_str().to_owned()),
        };
        let url = escaped(&cut(&row.url));
        let to = row.final_url.as_ref().filter(|to| **to != row.url && row.class().is_some());
        let to = to.map(|to| format!("<br>→ {}", escaped(&cut(to)))).unwrap_or_default();
        let ms = row.ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
        let bytes = row.bytes.map(|bytes| DecimalBytes(bytes).to_string()).unwrap_or_default();
        let index = match row.noindex {
            Some(true) => "noindex",
            _ => "",
        };
        let why = without_url(&row.why, &row.url).unwrap_or(&row.why);
        // Of what is fetched the reason is always the same.
        let why = if row.class().is_some() { String::new() } else { escaped(&cut(why)) };
        let _ = writeln!(
            page,
            "<tr><td class='{class}'>{status}<td>{url}{to}<td>{ms}<td>{bytes}<td>{index}<td>{why}"
        );
    }
    page.push_str("</tbody></table></div></section>\n");
    page.push_str(SCRIPT);
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

fn started(report: &Report) -> Option<String> {
    let began = std::time::SystemTime::now().checked_sub(report.lasted)?;
    Some(crate::json::rfc3339(began.into()))
}

fn figures(page: &mut String, report: &Report) {
    let gap = report.hosts().filter_map(|host| host.gap_min_ms).min();
    let sums = [
        (report.sum(Host::urls).to_string(), "URLs"),
        (report.sum(|host| host.ok + host.redirected).to_string(), "pages fetched"),
        (report.sum(|host| host.client_errors + host.server_errors).to_string(), "4xx and 5xx"),
        (report.sum(|host| host.denied).to_string(), "denied by robots.txt"),
        (
            report.sum(|host| host.deferred + host.refused + host.errors).to_string(),
            "deferred, refused, failed",
        ),
        (report.sum(|host| host.left).to_string(), "not fetched yet"),
        (report.sum(|host| host.requests).to_string(), "requests"),
        (gap.map_or_else(|| "–".to_owned(), |gap| format!("{:.2} s", gap as f64 / 1e3)), "shortest delay"),
        (duration(report.lasted), "duration"),
    ];
    page.push_str("<dl class=figures>");
    for (value, name) in sums {
        let _ = write!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    page.push_str("</dl>\n");
}

fn duration(time: Duration) -> String {
    if time < Duration::from_secs(120) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        span(time.as_secs())
    }
}

fn timeline(page: &mut String, report: &Report, chart: &Chart) {
    page.push_str("<section><h2>Requests over time</h2>\n");
    page.push_str(LEGEND);
    if report.is_cut() {
        page.push_str(
            "<p class=note>Too many to draw them all: what came later is counted and not shown.</p>\n",
        );
    }
    page.push_str(ZOOM);
    page.push_str("<div class=scroll tabindex=0><div class=chart id=chart>\n<div class=axis>");
    for (at, label) in chart.ticks() {
        let _ = write!(page, "<span style='--at:{:.3}%'>{label}</span>", chart.percent(at));
    }
    page.push_str("</div>\n");
    for host in report.hosts() {
        lane(page, host, chart);
    }
    page.push_str("</div></div></section>\n");
}

/// One host: its name, then everything that it saw.
fn lane(page: &mut String, host: &Host, chart: &Chart) {
    let gap =
        host.gap_min_ms.map(|gap| format!(", at least {:.2} s apart", gap as f64 / 1e3)).unwrap_or_default();
    let summary = format!("{}{gap}", count(host.requests, "request"));
    let _ = write!(
        page,
        "<div class=lane><p class=name><b>{}</b> {summary}</p><div class=track role=img aria-label='{summary}'>",
        escaped(&host.host)
    );
    for (at, _) in chart.ticks() {
        let _ = write!(page, "<u style='left:{:.3}%'></u>", chart.percent(at));
    }
    for backoff in &host.backoffs {
        let title =
            format!("backed off for {}: {}", span((backoff.until - backoff.from).as_secs()), backoff.why);
        chart.bar(page, "backoff", backoff.from, backoff.until, &title);
    }
    let owed =
        chart.delay.max(Duration::try_from_secs_f64(host.crawl_delay.unwrap_or(0.0)).unwrap_or_default());
    for event in &host.drawn {
        if let Some(end) = event.end {
            chart.bar(page, "owed", end, end + owed, "");
        }
    }
    for event in &host.drawn {
        chart.bar(page, class(event), event.at, event.end.unwrap_or(event.at), &tooltip(event));
    }
    page.push_str("</div></div>\n");
}

fn class(event: &Request) -> &'static str {
    match event.status {
        _ if event.kind == Kind::Robots => "m robots",
        Some(200..300) => "m good",
        Some(300..400) => "m moved",
        Some(_) => "m bad",
        None => "m lost",
    }
}

/// What is shown where a mark is pointed at.
fn tooltip(event: &Request) -> String {
    let status = event.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let status = if event.kind == Kind::Robots && event.status.is_none() { String::new() } else { status };
    let took =
        event.end.map(|end| format!(" in {:.0} ms", (end.saturating_sub(event.at)).as_secs_f64() * 1e3));
    format!("{:.2} s: {} {status}{}", event.at.as_secs_f64(), cut(&event.url), took.unwrap_or_default())
}

fn card(page: &mut String, host: &Host) {
    let _ = write!(page, "<article><h3>{}</h3><ul class=chips>", escaped(&host.host));
    for (name, count) in summary::classes(|pick| pick(host)) {
        let class = match name {
            "ok" | "sitemaps" => "good",
            "redirected" => "moved",
            "denied" => "denied",
            "deferred" | "left" => "wait",
            _ => "bad",
        };
        let _ = write!(page, "<li class={class}>{}</li>", summary::counted(name, count));
    }
    page.push_str("</ul><dl>");
    // The first line has the counts of the chips.
    for line in summary::lines(host).iter().skip(usize::from(host.urls() > 0)) {
        let (name, value) = line.split_once(": ").unwrap_or(("pace", line));
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    }
    page.push_str("</dl></article>\n");
}

/// The one scale of all lanes.
#[derive(Debug)]
struct Chart {
    length: Duration,
    delay: Duration,
}

impl Chart {
    fn of(report: &Report, delay: Duration) -> Self {
        let ends = report.hosts().flat_map(|host| &host.drawn).map(|event| event.end.unwrap_or(event.at));
        let length = ends.max().unwrap_or_default().mul_f64(1.01).max(Duration::from_secs(1));
        Self { length, delay }
    }

    fn percent(&self, at: Duration) -> f64 {
        at.as_secs_f64() / self.length.as_secs_f64() * 100.0
    }

    /// A part of a lane, cut where the chart ends.
    fn bar(&self, page: &mut String, class: &str, from: Duration, until: Duration, title: &str) {
        let (left, right) = (self.percent(from), self.percent(until).min(100.0));
        if left > 100.0 {
            return;
        }
        let title = if title.is_empty() { String::new() } else { format!(" title='{}'", escaped(title)) };
        let width = (right - left).max(0.0);
        let _ = write!(page, "<i class='{class}' style='left:{left:.3}%;width:{width:.3}%'{title}></i>");
    }

    /// Round times, not nearer to each other than they can be read.
    fn ticks(&self) -> impl Iterator<Item = (Duration, String)> {
        let most = TICKS_MAX;
        let seconds = self.length.as_secs_f64();
        let step = STEPS.into_iter().find(|step| seconds / step <= most).unwrap_or(seconds / most);
        (0_u32..)
            .map(move |index| step * f64::from(index))
            .take_while(move |at| *at < seconds * 0.97)
            .map(tick)
    }
}

fn tick(seconds: f64) -> (Duration, String) {
    let label = match seconds {
        0.0 => "0".to_owned(),
        ..60.0 => format!("{seconds} s"),
        _ if seconds % 3600.0 == 0.0 => format!("{:.0} h", seconds / 3600.0),
        _ if seconds % 60.0 == 0.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0}:{:02.0} min", (seconds / 60.0).floor(), seconds % 60.0),
    };
    (Duration::try_from_secs_f64(seconds).unwrap_or_default(), label)
}

fn escaped(text: &str) -> String {
    htmlize::escape_all_quotes(sanitized(text)).into_owned()
}

const STYLE: &str = include_str!("report.css");
const LEGEND: &str = "<p class=legend><span><i class='m robots'></i>robots.txt</span> <span><i class='m good'></i>page</span> \
    <span><i class='m moved'></i>redirect</span> <span><i class='m bad'></i>error</span> \
    <span><i class='m lost'></i>no answer, time-out</span> <span><i class=owed></i>delay that is kept</span> \
    <span><i class=backoff></i>backed off for the server</span></p>\n";
/// Steps of the axis, in seconds.
const STEPS: [f64; 18] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    21_600.0,
];
/// As many as can be read side by side.
const TICKS_MAX: f64 = 11.0;
const ZOOM: &str = "<p class=tools id=zoom hidden><label>Zoom <input type=range min=0 max=8 step=0.25 value=0></label></p>\n";
const SEARCH: &str = "<p class=tools id=search hidden><input type=search placeholder='Search URLs, statuses, reasons' aria-label='Search'> \
    <output></output></p>\n";
const SCRIPT: &str = concat!("<script>\n", include_str!("report.js"), "</script>\n");

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(seconds: u64) -> Chart {
        let length = Duration::from_secs(seconds);
        Chart { length, delay: Duration::from_secs(1) }
    }

    #[test]
    fn what_a_site_wrote_stays_text() {
        let url = "http://a/<script>'\"&\x1b\u{202e}".to_owned();
        let event = Request { at: Duration::ZERO, end: None, status: None, url, kind: Kind::Page };
        let mut page = String::new();
        chart(1).bar(&mut page, class(&event), event.at, event.at, &tooltip(&event));
        assert!(
            page.contains("http://a/&lt;script&gt;&apos;&quot;&amp;\\u{1b}\\u{202e} no answer'"),
            "{page}"
        );
    }

    #[test]
    fn bars_end_with_the_chart() {
        let mut page = String::new();
        chart(10).bar(&mut page, "backoff", Duration::from_secs(5), Duration::from_secs(3600), "");
        assert_eq!(page, "<i class='backoff' style='left:50.000%;width:50.000%'></i>");
        page.clear();
        chart(10).bar(&mut page, "owed", Duration::from_secs(11), Duration::from_secs(12), "");
        assert_eq!(page, "");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (seconds, labels) in [
            (1, &["0", "0.1 s", "0.2 s"][..]),
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
