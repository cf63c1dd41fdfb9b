//! What a redirect, a page or a sitemap names: queued if it belongs to the crawl, else counted by the reason.
//!
//! Also what is kept of a page, so that the next crawl need not fetch it again to know what it names.

use std::time::Instant;

use abide_permissions::{HeadEnd, HeadScanner, Preference, ReadOptions};
use url::Url;

use crate::crawl::frontier::{Added, Candidate, Task, UrlKind, known_as, requested};
use crate::crawl::links::{self, Found, LINKS_MAX};
use crate::crawl::save::{Body, SITEMAP_MAX};
use crate::crawl::scope::{LeftOut, Reason};
use crate::crawl::versions::{self, Version};
use crate::crawl::{Crawl, sitemap};
use crate::fetch::FetchAnswer;
use crate::outcome::Outcome;
use crate::sanitize::{count, cut, public_url, wait};
use crate::style;

impl Crawl {
    /// Queues a URL that is new and belongs to the crawl, also in the journal. `from`: what names it, as
    /// [`requested`] gives it.
    pub(super) fn queue(&mut self, candidate: Candidate<'_>, from: Option<&Url>) -> anyhow::Result<Added> {
        let candidate = Candidate { from: from.map(|from| self.frontier.referrer(from)), ..candidate };
        let added = self.frontier.add(candidate);
        if let Some(journal) = self.journal.as_mut().filter(|_| added == Added::New) {
            journal.add(candidate, from)?;
        }
        Ok(added)
    }

    /// Queues where a redirect leads, which is as near as what redirects there, and says in the reason what
    /// became of it. Returns whether it is queued now.
    pub(super) fn follow(
        &mut self,
        task: &Task,
        answer: &mut FetchAnswer,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<bool> {
        let Some(redirect) = answer.redirect.take() else { return Ok(false) };
        let to = with_user_of(&task.url, &redirect.url);
        if known_as(&to) == known_as(&task.url) {
            answer.add_note(
                "it redirects to itself, as pages do that set a cookie first; abide keeps no cookies",
            );
            return Ok(false);
        }
        if task.hops >= REDIRECTS_MAX {
            answer.add_note(&format!("it redirects on, behind {REDIRECTS_MAX} redirects"));
            return Ok(false);
        }
        if redirect.wait > self.args.max_hold {
            let wait = wait(redirect.wait.as_secs());
            answer.add_note(&format!("it redirects, and asks to wait {wait} before"));
            answer.is_left = true;
            return Ok(false);
        }
        if self.frontier.is_start(task) {
            self.lead(&task.url, &to)?;
        }
        let not_before = (!redirect.wait.is_zero()).then(|| Instant::now() + redirect.wait);
        let leads_away = task.kind == UrlKind::Page && !self.frontier.has_host(&to);
        let candidate = Candidate {
            url: &to,
            kind: if leads_away { UrlKind::Link } else { task.kind },
            depth: task.depth,
            hops: task.hops.saturating_add(1),
            not_before,
            from: None,
        };
        let added = self.queue(candidate, Some(&requested(&task.url)))?;
        let to = cut(requested(&to).as_str());
        let becomes = match added {
            Added::New => "",
            Added::Known => ", which is requested once",
            Added::Full => ", for which there is no room",
            Added::Left(Reason::OtherHost) => ", on a host that is not crawled",
            Added::Left(_) => ", which is left out",
        };
        answer.add_note(&format!("it redirects to {to}{becomes}"));
        if let Added::Left(reason) = added {
            left_out.add(reason, 1);
        }
        Ok(added == Added::New && !leads_away)
    }

    /// A start page that redirects within its site takes the crawl along; one that leads elsewhere does only
    /// where that is asked for.
    fn lead(&mut self, from: &Url, to: &Url) -> anyhow::Result<()> {
        if self.frontier.may_lead(from, to) {
            self.frontier.lead(to);
            return self.journal.as_mut().map_or(Ok(()), |journal| journal.start(to));
        }
        let [from, to] = [from, to].map(|url| cut(requested(url).as_str()));
        let text = format_args!(
            "{from} redirects to {to}, on a host that is not crawled (--follow-start crawls it)"
        );
        self.progress.suspended(|| style::note(text));
        Ok(())
    }

    /// The sitemaps that the robots.txt of a page names, also where the page itself is disallowed.
    pub(super) fn queue_sitemaps(&mut self, task: &Task, answer: &FetchAnswer) -> anyhow::Result<()> {
        let verdict = answer.line.verdict.as_ref().filter(|_| self.args.sitemaps);
        let robots = verdict.and_then(|verdict| verdict.robots_url.as_deref()?.parse::<Url>().ok());
        let (Some(verdict), Some(robots)) = (verdict, robots) else { return Ok(()) };
        if !self.names_sitemaps.insert(robots.clone()) {
            return Ok(());
        }
        if verdict.found.sitemaps.is_empty() && verdict.found.allowed.is_some() {
            // Where most sites have theirs.
            let Ok(guess) = robots.join("/sitemap.xml") else { return Ok(()) };
            return self.queue(Candidate::new(&guess, UrlKind::Guess, task.depth), None).map(|_| ());
        }
        // All of them: a robots.txt of 500 KiB has no more than the queue and its journal can take.
        let sitemaps = verdict.found.sitemaps.iter().filter_map(|text| robots.join(text).ok());
        let (ours, others): (Vec<Url>, Vec<Url>) = sitemaps.partition(|url| self.frontier.has_host(url));
        if let Some(first) = others.first() {
            let (sitemaps, first) = (count(others.len(), "sitemap"), cut(public_url(first).as_str()));
            let text = format_args!("{robots}: {sitemaps} on hosts that are not crawled, such as {first}");
            self.progress.suspended(|| style::note(text));
        }
        ours.iter().try_for_each(|url| {
            let url = public_url(url);
            self.queue(Candidate::new(&url, UrlKind::Sitemap, task.depth), Some(&robots)).map(|_| ())
        })
    }

    fn queue_found(
        &mut self,
        task: &Task,
        answer: &FetchAnswer,
        found: &Found,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<()> {
        if found.is_sitemap || task.kind.is_sitemap() {
            self.queue_listed(task, found, left_out)
        } else {
            self.queue_links(task, answer, found, left_out)
        }
    }

    /// Queues what a page names, in this version or, if it has not changed, in the one that is known; and
    /// keeps that for the next crawl.
    pub(super) fn take_in(
        &mut self,
        task: &Task,
        answer: &FetchAnswer,
        body: &Body,
        version: Option<Version>,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<()> {
        let found = match version {
            Some(version) if is_unchanged(answer) => Some(version.found),
            _ => found(task, answer, body, self.frontier.is_start(task), self.args.scope.assets),
        };
        if let Some(found) = &found {
            self.queue_found(task, answer, found, left_out)?;
        }
        let versions = self.versions.as_mut().filter(|_| !task.kind.is_checked());
        let (Some(versions), Some(digest)) = (versions, digest(answer, body)) else { return Ok(()) };
        versions.set(&task.url, &Version::new(&answer.fields, task.kind, digest, found.unwrap_or_default()))
    }

    /// What a sitemap names is as near as what was given, so with `--max-depth 0` exactly that is fetched.
    fn queue_listed(&mut self, task: &Task, found: &Found, left_out: &mut LeftOut) -> anyhow::Result<()> {
        let url = requested(&task.url);
        if found.len() == 0 && !found.is_sitemap && task.kind != UrlKind::Guess {
            let text = "no URL was found; XML sitemaps, feeds and lists of URLs are read";
            self.progress.suspended(|| style::note(format_args!("{}: {text}", cut(url.as_str()))));
        }
        let mut left = LeftOut::default();
        left.add(Reason::NoUrl, found.no_url);
        self.queue_all(&url, &found.pages, found.is_cut, 0, UrlKind::Page, &mut left)?;
        self.queue_all(&url, &found.sitemaps, false, 0, UrlKind::Sitemap, &mut left)?;
        // What is no sitemap at all names no URLs that could be left out.
        if !left.is_empty() && found.len() > 0 || found.is_sitemap && found.no_url > 0 {
            let text = format_args!("{}: left out {}", cut(url.as_str()), left.text());
            self.progress.suspended(|| style::note(text));
            left_out.add_all(&left);
        }
        Ok(())
    }

    fn queue_links(
        &mut self,
        task: &Task,
        answer: &FetchAnswer,
        found: &Found,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<()> {
        let url = requested(&task.url);
        let ignores = self.args.ignore_nofollow;
        let (mut pages, mut nofollow) = (found.pages.as_slice(), found.nofollow.as_slice());
        let mut assets = found.assets.as_slice();
        if !ignores && !answer.may_follow {
            let is_known = answer.follow == Preference::Disallow;
            let reason = if is_known { Reason::Nofollow } else { Reason::UnknownHead };
            left_out.add(reason, pages.len().saturating_add(assets.len()));
            (pages, assets) = (&[], &[]);
        }
        if !ignores {
            left_out.add(Reason::Nofollow, nofollow.len());
            nofollow = &[];
        }
        left_out.add(Reason::Frames, found.frames);
        let depth = task.depth.saturating_add(1);
        let followed = self.queue_all(&url, pages, found.is_cut, depth, UrlKind::Page, left_out)?
            + self.queue_all(&url, nofollow, false, depth, UrlKind::Page, left_out)?
            + self.queue_all(&url, assets, false, task.depth, UrlKind::Asset, left_out)?;
        if followed == 0 && self.frontier.is_start(task) && self.args.max_depth != Some(0) {
            self.barren.0 += 1;
            let why = if left_out.is_empty() { "it has no links".to_owned() } else { left_out.text() };
            self.barren
                .1
                .get_or_insert_with(|| format!("{} gave nothing to follow: {why}", cut(url.as_str())));
        }
        Ok(())
    }

    /// Queues what one page names, up to a bound. Returns how many of the URLs belong to the crawl.
    fn queue_all(
        &mut self,
        of: &Url,
        links: &[Url],
        is_cut: bool,
        depth: u32,
        kind: UrlKind,
        left_out: &mut LeftOut,
    ) -> anyhow::Result<usize> {
        if is_cut {
            let read = links.len().min(LINKS_MAX);
            self.progress.suspended(|| {
                style::note(format_args!("{}: only its first {read} links count", cut(of.as_str())));
            });
        }
        let mut followed = 0;
        for url in links {
            // A site gives no credentials to send.
            let url = public_url(url);
            // A link of a page that leads away is checked, where that is asked for.
            let leads_away = kind == UrlKind::Page && depth > 0 && !self.frontier.has_host(&url);
            // It is not followed, so it is no deeper than its page.
            let (kind, depth) =
                if leads_away { (UrlKind::Link, depth.saturating_sub(1)) } else { (kind, depth) };
            match self.queue(Candidate::new(&url, kind, depth), Some(of))? {
                Added::Left(reason) => left_out.add(reason, 1),
                Added::New | Added::Known | Added::Full => followed += 1,
            }
        }
        Ok(followed)
    }
}

/// The user information that was given for a start page goes along to where it redirects, on its origin.
pub(super) fn with_user_of(from: &Url, to: &Url) -> Url {
    let mut to = to.clone();
    if from.origin() == to.origin() {
        // Both fail only for URLs without a host.
        let _ = to.set_username(from.username());
        let _ = to.set_password(from.password());
    }
    to
}

/// The site says that the version of an earlier crawl is the one that it has.
pub(super) fn is_unchanged(answer: &FetchAnswer) -> bool {
    answer.line.outcome == Outcome::Fetched && answer.line.status == Some(304)
}

/// Whether a page is another than the version that is known. `None`: none is, or the site has not said.
pub(super) fn is_changed(version: Option<&Version>, answer: &FetchAnswer, body: &Body) -> Option<bool> {
    let version = version?;
    if is_unchanged(answer) {
        Some(false)
    } else {
        digest(answer, body).map(|digest| version.is_changed(digest))
    }
}

/// Tells one version of a page from another: its content, or only that it is gone, or has moved. `None`: the
/// site has not said.
fn digest(answer: &FetchAnswer, body: &Body) -> Option<u64> {
    let line = &answer.line;
    let status = line.status.filter(|_| line.outcome == Outcome::Fetched)?;
    let content = match status {
        200..=299 => body.bytes.as_slice(),
        301 | 302 | 303 | 307 | 308 | 404 | 410 => line.final_url.as_deref().unwrap_or_default().as_bytes(),
        _ => return None,
    };
    Some(versions::digest([&status.to_be_bytes(), content]))
}

/// What a page or a sitemap names. `None`: it is neither.
fn found(task: &Task, answer: &FetchAnswer, body: &Body, is_start: bool, has_assets: bool) -> Option<Found> {
    let line = &answer.line;
    // The links of an error page are not the site's.
    let is_page = line.status.is_some_and(|status| (200..300).contains(&status));
    if line.outcome != Outcome::Fetched || !is_page || task.kind.is_checked() {
        return None;
    }
    let (url, content_type) = (requested(&task.url), answer.content_type.as_deref());
    if task.kind.is_sitemap() || is_start && sitemap::is_sitemap(content_type, &body.bytes) {
        return Some(sitemap::of_sitemap(&url, content_type, &body.bytes, SITEMAP_MAX));
    }
    let refresh = answer.refresh.as_deref();
    is_html(content_type, &body.bytes)
        .then(|| links::of_page(&url, content_type, refresh, has_assets, &body.bytes))
}

/// Whether a page may have links: where its head is read for metas. Of a document of XML its root decides
/// that.
fn is_html(content_type: Option<&str>, body: &[u8]) -> bool {
    let scanner = HeadScanner::of_page(&ReadOptions::for_tokens([]), content_type.map(str::as_bytes));
    scanner.is_some_and(|mut scanner| {
        let _ = scanner.feed(body);
        scanner.finish().end() != HeadEnd::NotHtml
    })
}

/// As many redirects behind one another are followed, as in the library.
pub(super) const REDIRECTS_MAX: u8 = 10;
