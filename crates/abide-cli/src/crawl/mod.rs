//! `abide crawl`: a small polite crawl of the sites given, breadth first, with a report per host.
//!
//! One task a host at most, so a host that waits delays no other; a host that is backed off is parked until then.

mod facts;
mod frontier;
mod html;
mod journal;
pub(crate) mod links;
mod page;
mod progress;
mod report;
mod save;
pub(crate) mod summary;

use std::collections::{HashMap, HashSet};
use std::path::{self, Path};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use abide::pacing::{WaitRequest, wait_request};
use abide::{Options, WallMillis};
use abide_permissions::{HeadEnd, HeadScanner, ReadOptions};
use http::{HeaderMap, StatusCode};
use tokio::task::JoinSet;
use url::Url;

use crate::args::{CrawlArgs, FailOn, StoreArg};
use crate::fetch::{self, FetchAnswer};
use crate::input::{self, absolute_urls, can_write};
use crate::json::millis;
use crate::outcome::Outcome;
use crate::recorder::{self, Client, Recorder, Sent};
use crate::sanitize::{count, public_url};
use crate::status::{Status, wrong_usage};
use crate::{online, style};
use facts::{CrawlRequest, Fact, OF_PAGE, Stopwatch, Watch};
use frontier::{Frontier, Next, Task, UrlKind, known_as};
use journal::{Journal, Past};
use links::LINKS_MAX;
use page::{Page, PageRecord};
use progress::ProgressLine;
use report::{HostLine, Report};
use save::{BODY_MAX, Body, SITEMAP_MAX, Save};

pub(crate) fn run(args: CrawlArgs) -> anyhow::Result<Status> {
    let given = absolute_urls(&args.urls)?;
    let urls: Vec<Url> = given.iter().flatten().map(|(_, url)| url.clone()).collect();
    if let Some(path) = &args.report {
        // Better now than after the crawl.
        are_apart(path, args.save.as_deref())?;
        can_write(path)?;
    }
    let watch = Arc::new(Watch::default());
    let (online, watching) = (args.online.clone(), Arc::clone(&watch));
    let call = async |abide, inner| {
        // First, because what is wrong with its header fields is to leave nothing behind.
        let client = recorder::client(abide, inner, &args.online, false)?;
        let mut crawl = Crawl::new(args, &urls, client, watch)?;
        for url in &urls {
            crawl.queue(url, 0, UrlKind::Page)?;
        }
        crawl.flush()?;
        let listed = input::each(&given, online.output.json, |_, _| Ok(Status::Done))?;
        // The report is there also when a file could not be written.
        let result = crawl.run().await;
        let status = crawl.end(result.is_ok())?;
        result.map(|interrupted| interrupted.unwrap_or(status.and(listed)))
    };
    online::observed(&online, move |event| watching.observe(event), call)
}

/// Refuses a report where the directory to save to is to be made, or one above it.
fn are_apart(report: &Path, save: Option<&Path>) -> anyhow::Result<()> {
    let Some(save) = save else { return Ok(()) };
    if path::absolute(save)?.starts_with(path::absolute(report)?) {
        let text = format!("expected a file for --report, found {}, a directory of --save", report.display());
        return wrong_usage(text);
    }
    Ok(())
}

/// The journal beside a durable store and the directory to save to, with what an earlier run has left put into the frontier; and whether
/// some of that is too deep for this run. The journal comes last: a call that is refused leaves it as it was.
fn begin(
    args: &CrawlArgs,
    urls: &[Url],
    frontier: &mut Frontier,
    report: &mut Report,
) -> anyhow::Result<(Option<Journal>, Option<Save>, bool)> {
    let past = match &args.online.store {
        StoreArg::Redb(store) => Some(Past::of(store, urls, args.restart)?),
        StoreArg::Memory | StoreArg::Redis(_) => None,
    };
    let known = past.as_ref().and_then(Past::known);
    let save = args.save.as_deref().map(|directory| Save::to(directory, known.as_ref())).transpose()?;
    let Some(past) = past else { return Ok((None, save, false)) };
    let mut journal = past.open()?;
    let (done, leaves_more) = past.restore(frontier, report, urls);
    if known.is_some() {
        journal.seen(&Fact::Resumed)?;
        report.count(Fact::Resumed);
        style::note(format_args!("going on: {} done, {} queued", count(done, "URL"), frontier.len()));
    }
    Ok((Some(journal), save, leaves_more))
}

struct Crawl {
    client: Client,
    args: CrawlArgs,
    frontier: Frontier,
    journal: Option<Journal>,
    report: Report,
    progress: ProgressLine,
    save: Option<Save>,
    running: JoinSet<Done>,
    in_flight: HashMap<String, (Task, Recorder)>,
    fetched: usize,
    /// Sitemaps that were begun: as many as pages at most. One may name others without end.
    sitemaps: usize,
    /// The robots.txt files whose sitemaps are queued.
    names_sitemaps: HashSet<Url>,
    /// Something besides the queue is to be fetched by the next run.
    leaves_more: bool,
    time: Stopwatch,
    watch: Arc<Watch>,
}

/// What came back for one URL.
struct Done {
    task: Task,
    answer: FetchAnswer,
    sent: Vec<Sent>,
    ended: Instant,
    body: Body,
}

impl Crawl {
    /// Everything that is opened is opened here: the store is locked by now.
    fn new(args: CrawlArgs, urls: &[Url], client: Client, watch: Arc<Watch>) -> anyhow::Result<Self> {
        let mut frontier = Frontier::new(urls, args.max_depth);
        // Of two for one host the last counts, as in `online::pace`.
        frontier.limits = args.host_max_pages.iter().cloned().collect();
        let mut report = Report::new(args.report.is_some());
        let (journal, save, leaves_more) = begin(&args, urls, &mut frontier, &mut report)?;
        let time = Stopwatch::going_on(report.lasted);
        watch.begin(time);
        Ok(Self {
            client,
            report,
            progress: ProgressLine::new(args.max_pages, args.online.output.quiet),
            running: JoinSet::new(),
            in_flight: HashMap::new(),
            fetched: 0,
            sitemaps: 0,
            names_sitemaps: HashSet::new(),
            leaves_more,
            args,
            frontier,
            journal,
            save,
            time,
            watch,
        })
    }

    /// Until everything is fetched, the limit is reached, or a signal ends it, whose exit status it returns.
    async fn run(&mut self) -> anyhow::Result<Option<Status>> {
        let mut interrupted = std::pin::pin!(online::interruption());
        loop {
            let parked_until = self.dispatch();
            self.progress.show(self.fetched, &self.frontier, &self.report);
            if self.running.is_empty() && parked_until.is_none() {
                return Ok(None);
            }
            let tick = Instant::now() + self.progress.tick();
            let wake = parked_until.map_or(tick, |until| until.min(tick));
            tokio::select! {
                Some(done) = self.running.join_next() => self.note(done?)?,
                () = tokio::time::sleep_until(wake.into()) => {}
                status = &mut interrupted => {
                    self.report.interrupted = true;
                    // What is under way ends here; dropping it gives its permits back.
                    self.running.abort_all();
                    tokio::spawn(online::end_at_once());
                    return Ok(Some(status));
                }
            }
        }
    }

    /// Starts what may start. If nothing may for now, until when.
    fn dispatch(&mut self) -> Option<Instant> {
        loop {
            let full = self.running.len() >= usize::from(self.args.online.concurrency);
            // Pages under way count too, or as many more than allowed would be fetched.
            if full || self.fetched + self.frontier.pages_running >= self.args.max_pages {
                return None;
            }
            match self.frontier.next(Instant::now()) {
                Next::Task(task) => self.start_or_park(task),
                Next::Parked(until) => return Some(until),
                Next::Nothing => return None,
            }
        }
    }

    /// A host whose next request is not due soon takes none of the places of the others.
    fn start_or_park(&mut self, task: Task) {
        if is_new_sitemap(&task) && self.sitemaps >= self.args.max_pages {
            self.frontier.ended(&task, false);
            self.report.left(&task);
            self.leaves_more = true;
            return;
        }
        let wait = self.client.abide.next_slot(&task.url).map_or(Duration::ZERO, |slot| slot.wait);
        // What is to wait for longer than the crawl is deferred, and counted.
        if wait <= PARKED_MIN || wait > self.args.max_hold || task.is_patient {
            return self.start(task);
        }
        self.frontier.ended(&task, false);
        self.frontier.put_back(task, Instant::now() + wait, true);
    }

    fn start(&mut self, task: Task) {
        self.sitemaps += usize::from(is_new_sitemap(&task));
        let recorder = Recorder::with_page_max(self.args.page_timeout);
        // Its recorder too, so that what is under way at an interruption is in the report.
        self.in_flight.insert(task.host.clone(), (task.clone(), recorder.clone()));
        let patience = self.args.max_hold.max(self.args.online.max_wait);
        let options = if task.is_patient { Options::new().with_max_wait(patience) } else { Options::new() };
        let is_sitemap = task.kind == UrlKind::Sitemap || self.may_be_sitemap(&task);
        let mut body = Body::up_to(if is_sitemap { SITEMAP_MAX } else { BODY_MAX });
        let client = self.client.clone();
        self.running.spawn(async move {
            let sink = |chunk: &[u8]| body.push(chunk);
            let asked = fetch::ask(&client, task.url.as_str(), &recorder, options, sink);
            let answer = OF_PAGE.scope((), asked).await;
            Done { task, answer, sent: recorder.sent(), ended: Instant::now(), body }
        });
    }

    fn note(&mut self, done: Done) -> anyhow::Result<()> {
        let Done { task, mut answer, sent, ended, body } = done;
        self.in_flight.remove(&task.host);
        self.sent(task.kind, &sent, Some(ended))?;
        if answer.line.outcome == Outcome::Refused {
            for host in self.report.unsent(&self.client.abide) {
                self.log(Fact::Unsent(host))?;
            }
        }
        let comes_again = self.comes_again(&task, &mut answer)?;
        let is_fetched = !comes_again && answer.line.outcome == Outcome::Fetched;
        self.frontier.ended(&task, is_fetched);
        if comes_again {
            return Ok(());
        }
        let ms = sent.last().map(|last| millis(ended.saturating_duration_since(last.at)));
        let mut record = PageRecord::new(&task, &answer, ms);
        self.show(&record.page)?;
        record.cut();
        let final_url = answer.line.final_url.as_deref().and_then(|text| text.parse::<Url>().ok());
        let base = final_url.unwrap_or_else(|| task.url.clone());
        if is_fetched {
            // First, so that the links of a start page that has moved are on a host of ours.
            self.widen(&task, &base)?;
        }
        self.queue_sitemaps(&task, &answer)?;
        if is_fetched {
            self.queue_from(&task, &answer, &base, &body)?;
            // From now on: a redirect has brought it.
            self.frontier.know(known_as(&base));
        }
        if task.kind == UrlKind::Page {
            self.fetched += usize::from(is_fetched);
            // One that is left for a call to come is listed by that one.
            let is_last = !answer.is_left || self.journal.is_none();
            if let Some(save) = self.save.as_mut().filter(|_| is_last) {
                save.page(&answer, &body)?;
            }
        }
        let done = Fact::Done(Box::new(record));
        if answer.is_left {
            self.leaves_more = true;
            self.report.count(done);
        } else {
            self.log(done)?;
        }
        self.flush()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }

    /// Keeps what happened in the journal, and counts it in any case.
    fn log(&mut self, fact: Fact) -> anyhow::Result<()> {
        let written = self.journal.as_mut().map_or(Ok(()), |journal| journal.seen(&fact));
        self.report.count(fact);
        written
    }

    /// Logs the requests of one URL, and what the gate has reported meanwhile. `ended`: when the last body did, or the last request failed.
    fn sent(&mut self, kind: UrlKind, sent: &[Sent], ended: Option<Instant>) -> anyhow::Result<()> {
        for (index, hop) in sent.iter().enumerate() {
            let is_last = index + 1 == sent.len();
            let end = if is_last { ended } else { hop.took.map(|took| hop.at + took) };
            let (at, end) = (self.time.at(hop.at), end.map(|end| self.time.at(end)));
            let request = CrawlRequest { kind, url: hop.url.to_string(), at, end, status: hop.status };
            self.log(Fact::Sent(request))?;
        }
        self.watch.take().into_iter().try_for_each(|fact| self.log(fact))
    }

    /// Puts back what was deferred, what got no answer for the first time, and what was answered with 429,
    /// 503 or their kin: the host is backed off by now. Where that is for longer than the crawl waits, the
    /// page is left for the next one.
    fn comes_again(&mut self, task: &Task, answer: &mut FetchAnswer) -> anyhow::Result<bool> {
        if let Some(held_until) = answer.held_until {
            return self.leave_or_park(task, answer, held_until);
        }
        if let Some(not_before) = answer.not_before {
            return self.requeue(task, answer, not_before);
        }
        if answer.is_unanswered && task.tries == 0 {
            // RFC 9112 §9.3.1: a server may close an idle connection while a request is on its way there.
            return self.put_back(Task { tries: 1, ..task.clone() }, answer, Duration::ZERO);
        }
        // Also one whose body broke off. What a gatekeeper answers will be the same.
        let is_throttled = answer.line.status.is_some_and(is_throttle) && answer.line.refusal.is_none();
        if !is_throttled || task.tries >= TRIES_MAX {
            return Ok(false);
        }
        let last = answer.line.final_url.as_deref().and_then(|text| text.parse().ok());
        match self.client.abide.next_slot(last.as_ref().unwrap_or(&task.url)) {
            Ok(slot) if slot.wait <= self.args.max_hold => {
                let again = Task { tries: task.tries.saturating_add(1), ..task.clone() };
                self.put_back(again, answer, slot.wait)
            }
            slot => {
                answer.is_left = slot.is_ok();
                Ok(false)
            }
        }
    }

    fn put_back(&mut self, task: Task, answer: &FetchAnswer, wait: Duration) -> anyhow::Result<bool> {
        self.log(Fact::Back(public_url(&task.url)))?;
        let (rests, deferrals) = (is_of_its_host(&task, answer), task.deferrals.saturating_add(1));
        let task = Task { deferrals, ..task };
        self.frontier.put_back(task, Instant::now() + wait.max(BACKOFF_MIN), rests);
        Ok(true)
    }

    /// With `--json` each page as it comes, and with `-v` a line for it.
    fn show(&self, page: &Page) -> anyhow::Result<()> {
        let output = &self.args.online.output;
        self.progress.suspended(|| {
            if output.json {
                style::print_json(page)
            } else if output.verbose {
                summary::print_page(page)
            } else {
                Ok(())
            }
        })
    }

    /// Puts a deferred URL back, unless its host is backed off for longer than the crawl is to last for it.
    fn requeue(&mut self, task: &Task, answer: &FetchAnswer, not_before: SystemTime) -> anyhow::Result<bool> {
        let wait = not_before.duration_since(SystemTime::now()).unwrap_or_default();
        if wait > self.args.max_hold || task.deferrals >= DEFERRALS_MAX {
            if is_of_its_host(task, answer) {
                self.frontier.give_up(task);
            }
            return Ok(false);
        }
        let task = Task { is_patient: answer.line.hops.len() > 1, ..task.clone() };
        self.put_back(task, answer, wait)
    }

    /// A host that refuses this crawler keeps what is queued for it, for the next run if the hold is longer than the crawl waits.
    fn leave_or_park(
        &mut self,
        task: &Task,
        answer: &FetchAnswer,
        until: SystemTime,
    ) -> anyhow::Result<bool> {
        let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
        if wait <= self.args.max_hold || !is_of_its_host(task, answer) {
            return self.requeue(task, answer, until);
        }
        self.frontier.put_back(task.clone(), Instant::now(), true);
        self.frontier.give_up(task);
        Ok(true)
    }

    fn queue(&mut self, url: &Url, depth: u32, kind: UrlKind) -> anyhow::Result<()> {
        let is_new = self.frontier.add(url, depth, kind);
        match &mut self.journal {
            Some(journal) if is_new => journal.add(url, depth, kind),
            _ => Ok(()),
        }
    }

    /// A start page that has moved takes its site along, and is not fetched once more where it is now.
    fn widen(&mut self, task: &Task, to: &Url) -> anyhow::Result<()> {
        if !self.frontier.may_widen(task) || !self.frontier.widen(to) {
            return Ok(());
        }
        self.journal.as_mut().map_or(Ok(()), |journal| journal.host(to))
    }

    /// The sitemaps that the robots.txt of a page names, also where the page itself is disallowed.
    fn queue_sitemaps(&mut self, task: &Task, answer: &FetchAnswer) -> anyhow::Result<()> {
        let verdict = answer.line.verdict.as_ref().filter(|_| self.args.sitemaps);
        let robots = verdict.and_then(|verdict| verdict.robots_url.as_deref()?.parse::<Url>().ok());
        let (Some(verdict), Some(robots)) = (verdict, robots) else { return Ok(()) };
        if verdict.found.sitemaps.is_empty() || !self.names_sitemaps.insert(robots.clone()) {
            return Ok(());
        }
        // All of them: a robots.txt of 500 KiB has no more than the queue and its journal can take.
        let sitemaps = verdict.found.sitemaps.iter().filter_map(|text| robots.join(text).ok());
        let (ours, others): (Vec<Url>, Vec<Url>) = sitemaps.partition(|url| self.frontier.has_host(url));
        if let Some(first) = others.first() {
            let (sitemaps, first) = (count(others.len(), "sitemap"), public_url(first));
            let text = format_args!("{robots}: {sitemaps} on hosts that are not crawled, such as {first}");
            self.progress.suspended(|| style::note(text));
        }
        ours.iter().try_for_each(|url| self.queue(&public_url(url), task.depth, UrlKind::Sitemap))
    }

    /// With `--sitemaps`, a page that was given.
    fn may_be_sitemap(&self, task: &Task) -> bool {
        self.args.sitemaps && self.frontier.may_widen(task)
    }

    /// The links of a page, or what a sitemap names.
    fn queue_from(
        &mut self,
        task: &Task,
        answer: &FetchAnswer,
        base: &Url,
        body: &Body,
    ) -> anyhow::Result<()> {
        // The links of an error page are not the site's.
        if !answer.line.status.is_some_and(|status| (200..300).contains(&status)) {
            return Ok(());
        }
        let is_given = self.may_be_sitemap(task) && links::is_sitemap(&body.bytes);
        if task.kind == UrlKind::Sitemap || is_given {
            let (pages, sitemaps) = links::of_sitemap(&body.bytes, SITEMAP_MAX);
            if pages.is_empty() && sitemaps.is_empty() && !links::is_sitemap(&body.bytes) {
                let text = "no URL was found; XML sitemaps and lists of URLs are read, feeds are not";
                self.progress.suspended(|| style::note(format_args!("{}: {text}", public_url(&task.url))));
            }
            // What a sitemap names is as near as what was given, so with `--max-depth 0` exactly that is fetched.
            self.queue_all(base, &pages, 0, UrlKind::Page)?;
            return self.queue_all(base, &sitemaps, 0, UrlKind::Sitemap);
        }
        let obeys = !self.args.ignore_nofollow;
        if !is_html(answer.content_type.as_deref(), &body.bytes) || (obeys && !answer.may_follow) {
            return Ok(());
        }
        let depth = task.depth.saturating_add(1);
        let links = links::of_page(base, answer.content_type.as_deref(), &body.bytes, obeys);
        self.queue_all(base, &links, depth, UrlKind::Page)
    }

    /// Queues what one page names, up to a bound.
    fn queue_all(&mut self, of: &Url, links: &[Url], depth: u32, kind: UrlKind) -> anyhow::Result<()> {
        if links.len() > LINKS_MAX {
            self.progress.suspended(|| {
                style::to_stderr(format_args!("{}: only its first {LINKS_MAX} links count", public_url(of)));
            });
        }
        // A site gives no credentials to send.
        links.iter().take(LINKS_MAX).try_for_each(|url| self.queue(&public_url(url), depth, kind))
    }

    /// `is_whole`: no error ended it. Where one did, a page may be neither in the queue nor done.
    fn end(mut self, is_whole: bool) -> anyhow::Result<Status> {
        self.progress.clear();
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut logged = self.sent(UrlKind::Page, &[], None);
        for (task, recorder) in in_flight.values() {
            logged = logged.and(self.sent(task.kind, &recorder.sent(), None));
            self.report.left(task);
        }
        self.frontier.left().for_each(|task| self.report.left(task));
        self.report.end(&self.client.abide, self.time.at(Instant::now()));
        let drawn = self.args.report.as_ref().map_or(Ok(()), |path| {
            std::fs::write(path, html::page(&self.report, &self.args)?)
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
        });
        let printed = if self.args.online.output.json {
            summary::print_json(&self.report)
        } else {
            summary::print(&self.report)
        };
        let is_finished = is_whole && in_flight.is_empty() && self.frontier.len() == 0 && !self.leaves_more;
        let path = self.journal.take().map(|journal| journal.end(is_finished)).transpose()?;
        if self.report.interrupted {
            let next = match (&path, &self.args.online.store) {
                (Some(path), _) => format!("; the same call goes on with what is left, in {path}"),
                (None, StoreArg::Redis(_)) => {
                    "; a Redis store keeps robots.txt and backoffs, and not what is left: the next call starts again"
                        .to_owned()
                }
                (None, _) => String::new(),
            };
            style::to_stderr(format_args!("interrupted{next}"));
        } else if let (Some(path), false) = (&path, is_finished) {
            style::note(format_args!("what is left is in {path}; the same call goes on with it"));
        }
        if self.frontier.dropped > 0 {
            let dropped = self.frontier.dropped;
            style::to_stderr(format_args!("the queue was full: {dropped} links were left out"));
        }
        // What could not be written is reported last, so that everything else is reported too.
        printed.and(drawn).and(logged).map(|()| Status::of(!self.has_failed()))
    }

    /// What the site disallows and what it answers is no failure, unless `--fail-on` says so.
    fn has_failed(&self) -> bool {
        let failures = |host: &HostLine| {
            let held = usize::from(host.refusing.is_some());
            let always = host.errors + host.refused + host.deferred + host.unreachable + held;
            let asked = self.args.fail_on.iter().map(|what| match what {
                FailOn::Denied => host.denied,
                FailOn::ClientErrors => host.client_errors,
                FailOn::ServerErrors => host.server_errors,
            });
            always + asked.sum::<usize>()
        };
        self.report.sum(failures) > 0
    }
}

fn is_new_sitemap(task: &Task) -> bool {
    task.kind == UrlKind::Sitemap && task.deferrals == 0
}

/// Whether what was refused is on the host of the task. A page may redirect to a host that is backed off; the others of its own host
/// need not wait for that.
fn is_of_its_host(task: &Task, answer: &FetchAnswer) -> bool {
    let last = answer.line.hops.last().and_then(|hop| hop.url.parse::<Url>().ok());
    last.is_none_or(|url| frontier::host_of(&url) == task.host)
}

/// Whether a page may have links: where its head is read for metas. Of a document of XML its root decides that.
fn is_html(content_type: Option<&str>, body: &[u8]) -> bool {
    let scanner = HeadScanner::of_page(&ReadOptions::for_tokens([]), content_type.map(str::as_bytes));
    scanner.is_some_and(|mut scanner| {
        let _ = scanner.feed(body);
        scanner.finish().end() != HeadEnd::NotHtml
    })
}

/// By the status alone: for how long is known to the pacer.
fn is_throttle(status: u16) -> bool {
    let status = StatusCode::from_u16(status);
    let asked = status.map(|status| wait_request(status, &HeaderMap::new(), WallMillis::default()));
    matches!(asked, Ok(WaitRequest::Throttle { .. }))
}

/// A host that defers the same URL again and again, however long it was left alone, does not want to be asked.
const DEFERRALS_MAX: u16 = 6;
/// A page that is answered with 429, 503 or their kin is asked for so many times more.
const TRIES_MAX: u16 = 3;
/// A shorter wait for a permit is part of the call, and of the numbers in the report.
const PARKED_MIN: Duration = Duration::from_secs(1);
/// A backoff that is over already must not make the crawl spin.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
