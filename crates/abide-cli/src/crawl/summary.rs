//! The report for people, in lines that are read at any width, and for programs.
//!
//! The words of a report stand here, its figures come from `report`; the HTML report takes these words too.

use serde_json::{Map, Value};

use crate::crawl::facts::Hold;
use crate::crawl::page::Page;
use crate::crawl::report::{Broken, Denial, FailureCause, HostLine, Report, Tally};
use crate::outcome::Outcome;
use crate::sanitize::{count, cut, span};
use crate::style::{self, PLAIN};

/// An object per host of those to show, then one for the whole crawl.
pub(crate) fn print_json(report: &Report, shows: impl Fn(&HostLine) -> bool) -> anyhow::Result<()> {
    report.hosts().filter(|host| shows(host)).try_for_each(style::print_json)?;
    style::print_json(&whole(report)?)
}

fn whole(report: &Report) -> anyhow::Result<Value> {
    let hosts = report.hosts().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    let sum = |key: &str| hosts.iter().filter_map(|host| host.get(key)?.as_u64()).sum::<u64>();
    let mut line = Map::from_iter([("hosts".to_owned(), hosts.len().into())]);
    line.extend(SUMS.split(' ').map(|key| (key.to_owned(), sum(key).into())));
    line.insert("urls".to_owned(), report.sum(HostLine::urls).into());
    line.insert("seconds".to_owned(), (report.lasted.as_millis() as f64 / 1e3).into());
    line.insert("interrupted".to_owned(), report.interrupted.into());
    line.insert("broken".to_owned(), serde_json::to_value(&report.broken)?);
    Ok(line.into())
}

/// Of the keys of a host; `urls` is not one of them.
const SUMS: &str = "requests urls fetched ok redirected client_errors server_errors denied deferred refused errors left sitemaps noindex \
    bytes unchanged checked";

/// `200  http://a.example/x  120 ms  345 bytes`. `brief`: why it was not fetched.
pub(crate) fn print_page(page: &Page, brief: &str) -> anyhow::Result<()> {
    let (colour, mark) = page.outcome.mark(page.status, "failed");
    let moved_to = page.moved_to().filter(|_| page.outcome == Outcome::Fetched);
    let url = moved_to.map_or_else(|| page.url.clone(), |to| format!("{} → {to}", page.url));
    let mut facts = Vec::new();
    if page.outcome == Outcome::Fetched {
        facts.extend(page.ms.map(|ms| format!("{ms} ms")));
        facts.extend(page.bytes.map(|bytes| format!("{bytes} bytes")));
        facts.extend((page.noindex == Some(true)).then(|| "noindex".to_owned()));
    } else {
        facts.push(cut(brief));
    }
    Ok(style::say_line((colour, &mark), &url, &facts.join("  "))?)
}

/// The hosts to show, the broken links (`shows_broken`: also those that were answered), and the whole crawl.
pub(crate) fn print(
    report: &Report,
    shows: impl Fn(&HostLine) -> bool,
    shows_broken: bool,
) -> anyhow::Result<()> {
    for host in report.hosts().filter(|host| !host.is_only_checked() && shows(host)) {
        style::say(&[(style::NAME, &host.host)])?;
        lines(host).iter().try_for_each(|line| say_indented(line))?;
    }
    let others: Vec<&HostLine> =
        report.hosts().filter(|host| host.is_only_checked() && shows(host)).collect();
    if !others.is_empty() {
        let sum = |pick: Pick| others.iter().map(|host| pick(host)).sum();
        let (urls, hosts) = (count(sum(HostLine::urls), "URL"), count(others.len(), "other host"));
        say_indented(&format!("{urls} checked on {hosts}: {}", outcomes(sum)))?;
    }
    let is_shown = |broken: &&Broken| shows_broken || broken.outcome != Outcome::Fetched;
    print_broken(&report.broken.iter().filter(is_shown).collect::<Vec<_>>())?;
    let options = textwrap::Options::new(style::COLUMNS).subsequent_indent("      ");
    textwrap::wrap(&total(report), options).iter().try_for_each(|line| Ok(style::say(&[(PLAIN, line)])?))
}

/// Each with the pages that name it.
fn print_broken(broken: &[&Broken]) -> anyhow::Result<()> {
    if !broken.is_empty() {
        style::say(&[(style::NAME, format!("{}:", count(broken.len(), "broken link")))])?;
    }
    for Broken { url, status, outcome, why, linked_from, links, .. } in broken.iter().take(BROKEN_SHOWN_MAX) {
        style::say(&[
            (PLAIN, "  ".to_owned()),
            outcome.mark(*status, "failed"),
            (PLAIN, format!("  {}", cut(url))),
        ])?;
        if *outcome != Outcome::Fetched {
            say_indented(&format!("     {}", cut(why)))?;
        }
        for page in linked_from {
            style::say(&[(PLAIN, format!("       on {}", cut(page)))])?;
        }
        let more = links.saturating_sub(linked_from.len());
        if more > 0 {
            style::say(&[(PLAIN, format!("       and on {}", count(more, "other page")))])?;
        }
    }
    let more = broken.len().saturating_sub(BROKEN_SHOWN_MAX);
    if more > 0 {
        style::say(&[(PLAIN, format!("  and {more} more, which --json, --csv and --report list"))])?;
    }
    Ok(())
}

/// A line below a name, on as many as it takes.
fn say_indented(line: &str) -> anyhow::Result<()> {
    let options = textwrap::Options::new(style::COLUMNS).break_words(false);
    let options = options.initial_indent("  ").subsequent_indent("      ");
    textwrap::wrap(line, options).iter().try_for_each(|line| Ok(style::say(&[(PLAIN, line)])?))
}

pub(crate) fn total(report: &Report) -> String {
    let hosts = report.hosts().count();
    let text = format!(
        "{} to {} in {:.1} s; {}: {}",
        count(report.sum(|host| host.requests), "request"),
        count(hosts, "host"),
        report.lasted.as_secs_f64(),
        count(report.sum(HostLine::urls), "URL"),
        outcomes(|pick| report.sum(pick))
    );
    if report.interrupted { text + "; interrupted" } else { text }
}

pub(crate) fn lines(host: &HostLine) -> Vec<String> {
    let mut lines = Vec::new();
    if host.urls() > 0 {
        lines.push(format!("{}: {}", count(host.urls(), "URL"), outcomes(|pick| pick(host))));
    }
    lines.extend(host.refusing.as_ref().map(|hold| refusing(hold, host.left)));
    lines.push(pace(host));
    lines.push(robots(host));
    lines.extend(list("denied", host.denied_by.iter().map(|by| denial(by, &host.host))));
    for (outcome, word) in [(Outcome::Refused, "refused"), (Outcome::Error, "failed")] {
        let those = host.failed_by.iter().filter(|by| by.why.outcome == outcome);
        let each = |by: &Tally<FailureCause>| {
            let example = cut(by.example.as_deref().unwrap_or_default());
            format!("{} because {} ({example})", by.urls, by.why.why)
        };
        lines.extend(list(word, those.map(each)));
    }
    if !host.left_out.is_empty() {
        lines.push(format!("left out: {}", host.left_out.text()));
    }
    let found = host.permissions.iter().map(|(name, pages)| format!("{name} on {}", count(*pages, "page")));
    lines.extend(list("permissions", found));
    lines
}

pub(crate) type Pick = fn(&HostLine) -> usize;

/// What a URL can come to, and the class that colours it in the HTML report.
const CLASSES: [(&str, &str, Pick); 11] = [
    ("ok", "good", |host| host.ok),
    ("unchanged", "good", |host| host.unchanged),
    ("redirected", "moved", |host| host.redirected),
    ("client errors", "bad", |host| host.client_errors),
    ("server errors", "bad", |host| host.server_errors),
    ("sitemaps", "good", |host| host.sitemaps),
    ("denied", "denied", |host| host.denied),
    ("deferred", "wait", |host| host.deferred),
    ("refused", "bad", |host| host.refused),
    ("failed", "bad", |host| host.errors),
    ("left", "wait", |host| host.left),
];

/// The classes that occurred, and `ok` in any case: `1 client error`, `2 client errors`.
pub(crate) fn classes(sum: impl Fn(Pick) -> usize) -> impl Iterator<Item = (&'static str, String)> {
    let counts = CLASSES.into_iter().map(move |(name, colour, pick)| (name, colour, sum(pick)));
    let counts = counts.filter(|(name, _, count)| *count > 0 || *name == "ok");
    counts.map(|(name, colour, count)| {
        let name = if count == 1 { name.trim_end_matches('s') } else { name };
        (colour, format!("{count} {name}"))
    })
}

fn outcomes(sum: impl Fn(Pick) -> usize) -> String {
    classes(sum).map(|(_, count)| count).collect::<Vec<_>>().join(", ")
}

/// `refuses this crawler: 25 × 403 in a row, Cloudflare; held until 2026-11-28T23:00:00Z; 4675 URLs left`.
fn refusing(Hold { by, status, responses, held_until }: &Hold, left: usize) -> String {
    let by = by.as_ref().map(|by| format!(", {by}")).unwrap_or_default();
    let left = if left > 0 { format!("; {} left", count(left, "URL")) } else { String::new() };
    format!("refuses this crawler: {responses} × {status} in a row{by}; held until {held_until}{left}")
}

fn pace(host: &HostLine) -> String {
    let others = [(host.robots_requests, "robots.txt"), (host.sitemap_requests, "sitemaps")];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = others.map(|(count, what)| format!("{count} for {what}")).collect();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    let mut parts = vec![format!("{}{others}", count(host.requests, "request"))];
    parts.extend(host.gap_min_ms.map(|gap| format!("at least {:.2} s apart", gap as f64 / 1e3)));
    // Less is shown as 0.0 s.
    let waited = Some(host.waited_ms).filter(|ms| *ms >= 50);
    parts.extend(waited.map(|ms| format!("waited {:.1} s for permits", ms as f64 / 1e3)));
    parts.extend((host.requeued > 0).then(|| format!("{} put back to wait", count(host.requeued, "URL"))));
    parts.extend(host.backoffs.iter().take(SHOWN_MAX).map(|backoff| {
        let lasts = (backoff.until - backoff.from).as_secs();
        format!("backed off for {} ({})", span(lasts), backoff.why)
    }));
    let more = host.backoffs.len().saturating_sub(SHOWN_MAX);
    parts.extend((more > 0).then(|| format!("and backed off {}", count(more, "more time"))));
    parts.join(", ")
}

/// Where the rules come from, in a few words. A host may have been asked only since a robots.txt redirected
/// there.
fn robots(host: &HostLine) -> String {
    let Some(source) = host.robots else {
        return match host.robots_status {
            Some(status) => format!("robots.txt: answered {status}"),
            // No call that has asked for pages is without its rules.
            None if host.requests > host.robots_requests => "robots.txt: from an earlier call".to_owned(),
            None if host.requests > 0 => "robots.txt: that of another host redirects here".to_owned(),
            None => "robots.txt: not asked".to_owned(),
        };
    };
    let mut parts = vec![source.replace('_', " ")];
    parts.extend(host.robots_status.map(|status| status.to_string()));
    parts.extend(host.robots_age_s.map(|age| format!("{} old", span(age))));
    parts.extend(host.crawl_delay.map(|delay| format!("Crawl-delay {delay} s")));
    format!("robots.txt: {}", parts.join(", "))
}

/// `3 by "Disallow: /private/" on line 2`, of another host if it is not that of `own`.
fn denial(Tally { why, urls, .. }: &Tally<Denial>, own: &str) -> String {
    let whose = if why.host == own { String::new() } else { format!(" of {}", why.host) };
    match why.line {
        Some(line) => format!("{urls} by \"{}\" on line {line}{whose}", cut(&why.rule)),
        None => format!("{urls} because {}{whose}", why.rule),
    }
}

/// `what: a, b, and 3 more`, if there are any.
fn list(what: &str, items: impl Iterator<Item = String>) -> Option<String> {
    let items: Vec<String> = items.collect();
    let mut text = format!("{what}: {}", items.get(..SHOWN_MAX).unwrap_or(&items).join(", "));
    if items.len() > SHOWN_MAX {
        text.push_str(&format!(", and {} more", items.len() - SHOWN_MAX));
    }
    (!items.is_empty()).then_some(text)
}

/// Of broken links.
const BROKEN_SHOWN_MAX: usize = 50;
/// Of one list; `--json` has them all.
const SHOWN_MAX: usize = 5;
