//! The report as one self-contained page: a table, and a timeline of requests per host in which the spacing can be seen.

use std::fmt::Write;
use std::time::Duration;

use crate::crawl::report::{Event, Host, Report};

pub(crate) fn page(report: &Report) -> String {
    let ends = report.hosts().flat_map(|host| host.events.iter().map(end));
    let length = ends.max().unwrap_or_default().max(Duration::from_secs(1));
    let mut page = String::from(HEAD);
    let fetched: usize = report.hosts().map(|host| host.fetched).sum();
    let requests: usize = report.hosts().map(|host| host.requests).sum();
    let interrupted = if report.interrupted { "; interrupted" } else { "" };
    let _ = write!(
        page,
        "<h1>A crawl by abide</h1><p>{requests} requests in {:.1} s, {fetched} fetched{interrupted}. Each mark is one request: \
         where it begins, and how long the answer took.</p>{LEGEND}",
        length.as_secs_f64()
    );
    for host in report.hosts() {
        section(&mut page, host, length);
    }
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, host: &Host, length: Duration) {
    let gap = host.gap_min_ms.map_or_else(|| "-".to_owned(), |gap| format!("{:.2} s", gap as f64 / 1e3));
    let delay = host.crawl_delay.map_or_else(|| "-".to_owned(), |delay| format!("{delay} s"));
    let _ = write!(
        page,
        "<h2>{}</h2><table><tr><th>requests<th>fetched<th>denied<th>deferred<th>refused<th>errors<th>left<th>noindex\
         <th>holds<th>waited<th>least gap<th>Crawl-delay<th>robots.txt</tr>\
         <tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.1} s<td>{gap}<td>{delay}<td>{}</tr></table>",
        escaped(&host.host),
        host.requests,
        host.fetched,
        host.denied,
        host.deferred,
        host.refused,
        host.errors,
        host.left,
        host.noindex,
        host.holds,
        host.waited_ms as f64 / 1e3,
        host.robots.unwrap_or("not asked"),
    );
    let width = width(length);
    let _ = write!(
        page,
        "<div class=timeline><svg viewBox='0 0 {width} 44' style='min-width:{width}px' role=img>"
    );
    let ticks = (width / TICK_WIDTH).floor();
    for tick in 0..=ticks as u32 {
        let x = f64::from(tick) / ticks * width;
        let seconds = length.as_secs_f64() * f64::from(tick) / ticks;
        let anchor = if f64::from(tick) < ticks { "start" } else { "end" };
        let _ = write!(
            page,
            "<line x1={x:.1} x2={x:.1} y1=0 y2=30 class=tick /><text x={x:.1} y=42 text-anchor={anchor}>{seconds:.1} s</text>"
        );
    }
    for event in &host.events {
        mark(page, event, length);
    }
    page.push_str("</svg></div>\n");
}

/// One request: a bar from its beginning to the head of its answer, and what it was for those who point at it.
fn mark(page: &mut String, event: &Event, length: Duration) {
    let scale = width(length) / length.as_secs_f64();
    let x = event.at.as_secs_f64() * scale;
    let width = (event.took.unwrap_or_default().as_secs_f64() * scale).max(2.0);
    let status = event.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let class = match event.status {
        _ if event.url.ends_with("/robots.txt") => "robots",
        Some(200..300) => "good",
        Some(300..400) => "moved",
        _ => "bad",
    };
    let _ = write!(
        page,
        "<rect x={x:.2} y=4 width={width:.2} height=24 class={class}><title>{:.3} s  {status}  {}</title></rect>",
        event.at.as_secs_f64(),
        escaped(&event.url)
    );
}

fn end(event: &Event) -> Duration {
    event.at + event.took.unwrap_or_default()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}

/// Wide enough for the spacing to be seen; a long crawl is scrolled through.
fn width(length: Duration) -> f64 {
    (length.as_secs_f64() * SECOND_WIDTH_MIN).clamp(WIDTH_MIN, WIDTH_MAX).round()
}

const WIDTH_MIN: f64 = 1200.0;
/// Browsers do not draw pictures of any width.
const WIDTH_MAX: f64 = 30_000.0;
const SECOND_WIDTH_MIN: f64 = 6.0;
const TICK_WIDTH: f64 = 120.0;
const LEGEND: &str = "<p class=legend><span class=robots>robots.txt</span> <span class=good>2xx</span> \
    <span class=moved>3xx</span> <span class=bad>other, or no answer</span></p>\n";
const HEAD: &str = "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>A crawl by abide</title><style>\n\
    body{font:14px/1.5 system-ui,sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\n\
    h2{font-size:1.1em;margin:1.6em 0 .3em}table{border-collapse:collapse}th,td{padding:.1em .8em .1em 0;text-align:left}\n\
    th{font-weight:normal;color:#666}.timeline{overflow-x:auto}svg{width:100%;margin-top:.4em;background:#f6f6f4}svg text{font-size:11px;fill:#777}\n\
    .tick{stroke:#ddd}rect.good{fill:#2a7}rect.moved{fill:#29c}rect.bad{fill:#c33}rect.robots{fill:#a70}\n\
    .legend span{padding:0 .5em;color:#fff}span.good{background:#2a7}span.moved{background:#29c}span.bad{background:#c33}\n\
    span.robots{background:#a70}\n\
    </style></head><body>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_wrote_stays_text() {
        let event =
            Event { at: Duration::ZERO, took: None, status: None, url: "http://a/<script>'\"&".to_owned() };
        let mut page = String::new();
        mark(&mut page, &event, Duration::from_secs(1));
        assert!(page.contains("http://a/&lt;script&gt;&#39;&quot;&amp;</title>"), "{page}");
        assert!(!page.contains("<script"));
    }
}
