//! The report for people, in lines that are read at any width, and for programs.

use crate::crawl::report::{DeniedBy, FailedBy, Host, Report};
use crate::online;
use crate::shown::cut;
use crate::style::{self, PLAIN};

pub(crate) fn print_json(report: &Report) -> anyhow::Result<()> {
    report.hosts().try_for_each(online::print_json)
}

pub(crate) fn print(report: &Report) -> anyhow::Result<()> {
    for host in report.hosts() {
        style::say(&[(style::NAME, &host.host)])?;
        for line in lines(host) {
            style::say(&[(PLAIN, "  "), (PLAIN, &line)])?;
        }
    }
    Ok(style::say(&[(PLAIN, &total(report))])?)
}

/// One sentence on everything.
pub(crate) fn total(report: &Report) -> String {
    let hosts = report.hosts().count();
    let mut text = format!(
        "{} to {} in {:.1} s; {}: {}",
        count(report.sum(|host| host.requests), "request"),
        count(hosts, "host"),
        report.lasted.as_secs_f64(),
        count(report.sum(Host::urls), "URL"),
        outcomes(|pick| report.sum(pick))
    );
    if report.interrupted {
        text.push_str("; interrupted");
    }
    text
}

/// What is to be said of one host.
pub(crate) fn lines(host: &Host) -> Vec<String> {
    let mut lines = Vec::new();
    if host.urls() > 0 {
        lines.push(format!("{}: {}", count(host.urls(), "URL"), outcomes(|pick| pick(host))));
    }
    lines.push(pace(host));
    lines.push(robots(host));
    if !host.denied_by.is_empty() {
        lines.push(format!("denied: {}", list(host.denied_by.iter().map(|by| denial(by, &host.host)))));
    }
    for (outcome, word) in [("refused", "refused"), ("error", "failed")] {
        let those = || host.failed_by.iter().filter(|by| by.outcome == outcome);
        if those().next().is_some() {
            let each = |by: &FailedBy| format!("{} since {} ({})", by.urls, by.why, cut(&by.example));
            lines.push(format!("{word}: {}", list(those().map(each))));
        }
    }
    if !host.permissions.is_empty() {
        let found =
            host.permissions.iter().map(|(name, pages)| format!("{name} on {}", count(*pages, "page")));
        lines.push(format!("permissions: {}", list(found)));
    }
    lines
}

/// One of the counts of a host.
type Pick = fn(&Host) -> usize;

fn outcomes(sum: impl Fn(Pick) -> usize) -> String {
    let fetched = format!("{} fetched", sum(|host| host.fetched));
    let others: [(&str, Pick); 6] = [
        ("sitemaps", |host| host.sitemaps),
        ("denied", |host| host.denied),
        ("deferred", |host| host.deferred),
        ("refused", |host| host.refused),
        ("failed", |host| host.errors),
        ("left", |host| host.left),
    ];
    let others = others.into_iter().map(|(name, pick)| (name, sum(pick))).filter(|(_, count)| *count > 0);
    others.fold(fetched, |text, (name, count)| format!("{text}, {count} {name}"))
}

fn pace(host: &Host) -> String {
    let others = [(host.robots_requests, "robots.txt"), (host.sitemap_requests, "sitemaps")];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = others.map(|(count, what)| format!("{count} for {what}")).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let mut parts = vec![format!("{}{others}", count(host.requests, "request"))];
    if let Some(gap) = host.gap_min_ms {
        parts.push(format!("at least {:.2} s apart", gap as f64 / 1e3));
    }
    // Less is shown as 0.0 s.
    if host.waited_ms >= 50 {
        parts.push(format!("waited {:.1} s for turns", host.waited_ms as f64 / 1e3));
    }
    if host.requeued > 0 {
        parts.push(format!("{} put back to wait", count(host.requeued, "URL")));
    }
    for hold in host.held.iter().take(SHOWN_MAX) {
        let lasts = (hold.until - hold.from).as_secs();
        parts.push(format!("held for {} ({})", span(lasts), hold.why));
    }
    if host.held.len() > SHOWN_MAX {
        parts.push(format!("and held {} times more", host.held.len() - SHOWN_MAX));
    }
    parts.join(", ")
}

/// Where the rules come from, in a few words. A host may have been asked only since a robots.txt redirected there.
fn robots(host: &Host) -> String {
    let Some(source) = host.robots else {
        let is_asked = host.requests > 0;
        return (if is_asked {
            "robots.txt: that of another host redirects here"
        } else {
            "robots.txt: not asked"
        })
        .to_owned();
    };
    let mut parts = vec![source.replace('_', " ")];
    parts.extend(host.robots_status.map(|status| status.to_string()));
    parts.extend(host.robots_age_s.map(|age| format!("{} old", span(age))));
    parts.extend(host.crawl_delay.map(|delay| format!("Crawl-delay {delay} s")));
    format!("robots.txt: {}", parts.join(", "))
}

/// A time that need not be exact.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// `3 by "Disallow: /private/" on line 2`, of another host if it is not that of `own`.
fn denial(by: &DeniedBy, own: &str) -> String {
    let whose = if by.host == own { String::new() } else { format!(" of {}", by.host) };
    match by.line {
        Some(line) => format!("{} by \"{}\" on line {line}{whose}", by.urls, cut(&by.rule)),
        None => format!("{} since {}{whose}", by.urls, by.rule),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let mut text = items.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN_MAX {
        text.push_str(&format!(", and {} more", items.len() - SHOWN_MAX));
    }
    text
}

/// `1 page`, `2 pages`.
pub(crate) fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Of one list; `--json` has them all.
const SHOWN_MAX: usize = 5;
