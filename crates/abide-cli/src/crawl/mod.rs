//! `abide crawl`: a small polite crawl of the sites given, breadth first, with a report per host.
//!
//! One task a host at most, so a host that waits delays no other; a host that is backed off is parked until
//! then.

mod csv;
mod facts;
mod follow;
mod frontier;
mod html;
mod journal;
pub(crate) mod links;
mod page;
mod progress;
mod referrers;
mod report;
mod save;
pub(crate) mod scope;
mod sitemap;
pub(crate) mod summary;
mod versions;

use std::collections::{HashMap, HashSet};
use std::path::{self, Path};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use abide::pacing::{WaitRequest, wait_request};
use abide::{Options, RedirectPolicy, WallMillis};
use abide_permissions::Preference;
use http::{HeaderMap, Method, StatusCode};
use tokio::task::JoinSet;
use url::Url;

use crate::args::{CrawlArgs, FailOn, StoreArg};
use crate::fetch::{self, Ask, FetchAnswer};
use crate::input::{self, absolute_urls, can_write};
use crate::json::millis;
use crate::outcome::Outcome;
use crate::own_site::OwnSite;
use crate::recorder::{self, Client, Recorder, Sent};
use crate::sanitize::{count, public_url};
use crate::status::{Status, wrong_usage};
use crate::warc::Archive;
use crate::{online, style};
use csv::Csv;
use facts::{CrawlRequest, Fact, OF_PAGE, Stopwatch, Watch};
use follow::{REDIRECTS_MAX, is_changed, is_unchanged, with_user_of};
use frontier::{Candidate, Frontier, Next, Task, UrlKind, known_as, requested};
use journal::{Journal, Past};
use page::{Class, Page, PageRecord};
use progress::ProgressLine;
use report::{HostLine, Report};
use save::{Body, Save};
use scope::{LeftOut, Scope};
use versions::{Version, Versions};

pub(crate) fn run(args: CrawlArgs) -> anyhow::Result<Status> {
    let given = absolute_urls(&args.urls)?;
    let urls: Vec<Url> = given.iter().flatten().map(|(_, url)| url.clone()).collect();
    for (option, path) in [("--report", &args.report), ("--csv", &args.csv), ("--warc", &args.warc.warc)] {
        if let Some(path) = path {
            // Better now than after the crawl.
            are_apart(option, path, args.save.as_deref())?;
            can_write(path)?;
        }
    }
    if args.changed && !matches!(args.online.store, StoreArg::Redb(_) | StoreArg::Postgres(_)) {
        let text =
            "--changed needs --store redb:PATH or postgres://HOST, where the versions of the pages are kept";
        return wrong_usage(text);
    }
    let watch = Arc::new(Watch::default());
    let (online, watching) = (args.online.clone(), Arc::clone(&watch));
    let archive = Arc::new(Archive::default());
    let exchanges = archive.observer(&args.warc);
    let call = async |abide, inner| {
        // First, because what is wrong with its header fields is to leave nothing behind.
        let own_site = OwnSite::new(&args.own_site, urls.clone(), &args.online)?;
        let client = recorder::client(abide, inner, &args.online, own_site, false)?;
        let mut crawl = Crawl::new(args, &urls, client, watch, archive)?;
        for url in &urls {
            _ = crawl.queue(Candidate::new(url, UrlKind::Page, 0), None)?;
        }
        crawl.flush()?;
        let listed = input::each(&given, online.output.json, |_, _| Ok(Status::Done))?;
        // The report is there also when a file could not be written.
        let result = crawl.run().await;
        let status = crawl.end(result.is_ok())?;
        result.map(|interrupted| interrupted.unwrap_or(status.and(listed)))
    };
    online::observed(&online, move |event| watching.observe(event), exchanges, call)
}

/// Refuses a file where the directory to save to is to be made, or one above it.
fn are_apart(option: &str, file: &Path, save: Option<&Path>) -> anyhow::Result<()> {
    let Some(save) = save else { return Ok(()) };
    if path::absolute(save)?.starts_with(path::absolute(file)?) {
        let text = format!("expected a file for {option}, found {}, a directory of --save", file.display());
        return wrong_usage(text);
    }
    Ok(())
}

/// The journal beside a durable store and the directory to save to, with what an earlier run has left put
/// into the frontier; and whether some of that is too deep for this run. The journal comes last: a call that
/// is refused leaves it as it was.
fn begin(
    args: &CrawlArgs,
    urls: &[Url],
    frontier: &mut Frontier,
    report: &mut Report,
) -> anyhow::Result<(Option<Journal>, Option<Save>, bool)> {
    let past = match &args.online.store {
        StoreArg::Redb(store) => Some(Past::of(store, urls, args.restart)?),
        StoreArg::Memory | StoreArg::Redis(_) | StoreArg::Postgres(_) => None,
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
    csv: Option<Csv>,
    versions: Option<Versions>,
    running: JoinSet<Done>,
    in_flight: HashMap<String, (Task, Recorder)>,
    fetched: usize,
    /// Sitemaps that were begun: as many as pages at most. One may name others without end.
    sitemaps: usize,
    /// The robots.txt files whose sitemaps are queued.
    names_sitemaps: HashSet<Url>,
    /// Start pages that gave nothing to follow: how many, and what there is to say of the first.
    barren: (usize, Option<String>),
    /// Something besides the queue is to be fetched by the next run.
    leaves_more: bool,
    time: Stopwatch,
    watch: Arc<Watch>,
    archive: Arc<Archive>,
}

/// What came back for one URL.
struct Done {
    task: Task,
    answer: FetchAnswer,
    sent: Vec<Sent>,
    ended: Instant,
    body: Body,
    /// The version that is known.
    version: Option<Version>,
}

impl Crawl {
    /// Everything that is opened is opened here: the store is locked by now.
    fn new(
        args: CrawlArgs,
        urls: &[Url],
        client: Client,
        watch: Arc<Watch>,
        archive: Arc<Archive>,
    ) -> anyhow::Result<Self> {
        let mut frontier = Frontier::new(urls, Scope::new(urls, args.max_depth, args.scope.clone()));
        // Of two for one host the last counts, as in `online::pace`.
        frontier.limits = args.host_max_pages.iter().cloned().collect();
        let mut report = Report::new(args.report.is_some());
        archive.open(&args, urls, &client.abide)?;
        let (journal, save, leaves_more) = begin(&args, urls, &mut frontier, &mut report)?;
        let versions = Versions::of(&args.online.store)?;
        let csv = args.csv.as_deref().map(|path| Csv::to(path, report.is_going_on)).transpose()?;
        let time = Stopwatch::going_on(report.lasted);
        watch.begin(time);
        Ok(Self {
            client,
            report,
            progress: ProgressLine::new(args.max_pages, args.online.output.quiet > 0),
            running: JoinSet::new(),
            in_flight: HashMap::new(),
            fetched: 0,
            sitemaps: 0,
            names_sitemaps: HashSet::new(),
            barren: (0, None),
            leaves_more,
            args,
            frontier,
            journal,
            save,
            csv,
            versions,
            time,
            watch,
            archive,
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
            if self.running.len() >= usize::from(self.args.online.concurrency) {
                return None;
            }
            // Pages under way count too, or as many more than allowed would be fetched.
            let may_fetch = self.fetched + self.frontier.pages_running < self.args.max_pages;
            // Other hosts that do not answer must not take all places from the pages.
            let may_check =
                self.frontier.checks_running < usize::from(self.args.online.concurrency).div_ceil(2);
            match self.frontier.next(Instant::now(), may_fetch, may_check) {
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
        if wait <= PARKED_MIN || wait > self.args.max_hold {
            return self.start(task);
        }
        self.frontier.ended(&task, false);
        self.frontier.put_back(task, Instant::now() + wait);
    }

    fn start(&mut self, task: Task) {
        self.sitemaps += usize::from(is_new_sitemap(&task));
        let recorder = Recorder::with_page_max(self.args.page_timeout);
        // Its recorder too, so that what is under way at an interruption is in the report.
        self.in_flight.insert(task.host.clone(), (task.clone(), recorder.clone()));
        // A redirect's target is a URL like any other: it is queued if it belongs to the crawl and is not
        // known.
        let redirects = RedirectPolicy::default().with_hops_max(0).with_response_at_limit(true);
        let options = Options::new().with_redirects(redirects);
        let mut body = Body::of(task.kind);
        let is_checked = task.kind.is_checked();
        let version = self.versions.as_ref().filter(|_| !is_checked);
        let version = version.and_then(|versions| versions.get(&task.url));
        // A page that is to be saved is needed whole, unless only what has changed is wanted; and so is one
        // whose assets are checked, which are not kept with its version.
        let is_whole =
            task.is_whole || self.args.scope.assets || self.args.save.is_some() && !self.args.changed;
        let method = if is_checked && !task.is_head_in_doubt { Method::HEAD } else { Method::GET };
        let condition = version.as_ref().filter(|_| !is_whole).map(|version| version.condition(task.kind));
        let condition = condition.unwrap_or_default();
        let is_foreign = is_checked && !self.frontier.has_host(&task.url);
        let client = self.client.clone();
        self.running.spawn(async move {
            let sink = |chunk: &[u8]| body.push(chunk);
            let request = Ask { url: task.url.as_str(), method, options, fields: condition, is_foreign };
            let asked = fetch::ask(&client, request, &recorder, sink);
            let answer = OF_PAGE.scope((), asked).await;
            Done { task, answer, sent: recorder.sent(), ended: Instant::now(), body, version }
        });
    }

    fn note(&mut self, done: Done) -> anyhow::Result<()> {
        let Done { task, mut answer, sent, ended, body, version } = done;
        let recorder = self.in_flight.remove(&task.host).map(|(_, recorder)| recorder);
        self.sent(task.kind, &sent, Some(ended))?;
        if answer.line.outcome == Outcome::Refused {
            for host in self.report.unsent(&self.client.abide) {
                self.log(Fact::Unsent(host))?;
            }
        }
        if let Some(hint) = self.client.own_site.hint(&answer.line) {
            self.progress.suspended(|| style::note(format_args!("{hint}")));
        }
        let comes_again = self.comes_again(&task, &mut answer)?;
        self.archive.page(&task.url, &answer, recorder.as_ref(), &self.client.abide, !comes_again)?;
        let mut left_out = LeftOut::default();
        let is_followed = !comes_again && self.follow(&task, &mut answer, &mut left_out)?;
        let is_fetched = !comes_again && answer.line.outcome == Outcome::Fetched;
        // A redirect to a page that is queued now is that page, by the limits.
        let is_counted = is_fetched && !is_followed;
        self.frontier.ended(&task, is_counted);
        if comes_again {
            return Ok(());
        }
        answer.changed = is_changed(version.as_ref(), &answer, &body);
        let ms = sent.last().map(|last| millis(ended.saturating_duration_since(last.at)));
        let mut record = PageRecord::new(&task, &answer, ms);
        record.page.linked_from = self.frontier.named_by(&task.url).0;
        self.show(&record, &answer.brief)?;
        record.cut();
        self.queue_sitemaps(&task, &answer)?;
        self.take_in(&task, &answer, &body, version, &mut left_out)?;
        record.left_out = left_out;
        self.list(&task, &answer, &record.page, &body)?;
        self.fetched += usize::from(is_counted && task.kind == UrlKind::Page);
        self.sitemaps -= usize::from(is_followed && task.kind.is_sitemap());
        let done = Fact::Done(Box::new(record));
        if answer.is_left {
            self.leaves_more = true;
            self.report.count(done);
        } else {
            self.log(done)?;
        }
        self.flush()
    }

    /// Adds a page to the files that list them, unless it is left for a call to come, which lists it then.
    fn list(&mut self, task: &Task, answer: &FetchAnswer, page: &Page, body: &Body) -> anyhow::Result<()> {
        if answer.is_left && self.journal.is_some() {
            return Ok(());
        }
        if let Some(csv) = self.csv.as_mut().filter(|_| !self.args.changed || page.is_news()) {
            csv.page(page)?;
        }
        match &mut self.save {
            Some(save) if task.kind == UrlKind::Page => save.page(answer, body),
            _ => Ok(()),
        }
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

    /// Logs the requests of one URL, and what the gate has reported meanwhile. `ended`: when the last body
    /// did, or the last request failed.
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
            return self.leave_or_park(task, held_until);
        }
        if let Some(not_before) = answer.not_before {
            return self.requeue(task, not_before);
        }
        if answer.is_unanswered && task.tries == 0 {
            // RFC 9112 §9.3.1: a server may close an idle connection while a request is on its way there.
            let is_head_in_doubt = task.kind.is_checked();
            return self.put_back(Task { tries: 1, is_head_in_doubt, ..task.clone() }, Duration::ZERO);
        }
        if is_head_in_doubt(task, answer) {
            return self.put_back(Task { is_head_in_doubt: true, ..task.clone() }, Duration::ZERO);
        }
        if let Some(redirect) = &answer.redirect
            && known_as(&redirect.url) == known_as(&task.url)
            && requested(&redirect.url) != requested(&task.url)
            && task.hops < REDIRECTS_MAX
        {
            // The same URL, which the site would have written otherwise.
            let (url, wait) = (with_user_of(&task.url, &redirect.url), redirect.wait);
            return self.put_back(Task { url, hops: task.hops.saturating_add(1), ..task.clone() }, wait);
        }
        let is_lost = task.kind == UrlKind::Page && answer.follow == Preference::Unknown;
        if is_unchanged(answer) && is_lost && !task.is_whole {
            // What it permits is no longer known: only the whole page says that.
            return self.put_back(Task { is_whole: true, ..task.clone() }, Duration::ZERO);
        }
        // Also one whose body broke off. What a gatekeeper answers will be the same.
        let is_throttled = answer.line.status.is_some_and(is_throttle) && answer.line.refusal.is_none();
        if !is_throttled || task.tries >= TRIES_MAX {
            return Ok(false);
        }
        match self.client.abide.next_slot(&task.url) {
            Ok(slot) if slot.wait <= self.args.max_hold => {
                let again = Task { tries: task.tries.saturating_add(1), ..task.clone() };
                self.put_back(again, slot.wait)
            }
            slot => {
                answer.is_left = slot.is_ok();
                Ok(false)
            }
        }
    }

    fn put_back(&mut self, task: Task, wait: Duration) -> anyhow::Result<bool> {
        self.log(Fact::Back(public_url(&task.url)))?;
        let task = Task { deferrals: task.deferrals.saturating_add(1), ..task };
        self.frontier.put_back(task, Instant::now() + wait.max(BACKOFF_MIN));
        Ok(true)
    }

    /// With `--json` each page as it comes, and with `-v` a line for it.
    fn show(&self, record: &PageRecord, brief: &str) -> anyhow::Result<()> {
        let (output, only_changed, page) = (&self.args.online.output, self.args.changed, &record.page);
        if only_changed && !page.is_news() || !style::shows(Status::of(!self.is_failure(record))) {
            return Ok(());
        }
        self.progress.suspended(|| {
            if output.json {
                style::print_json(page)
            } else if output.verbose || only_changed {
                summary::print_page(page, brief)
            } else {
                Ok(())
            }
        })
    }

    /// Puts a deferred URL back, unless its host is backed off for longer than the crawl is to last for it.
    fn requeue(&mut self, task: &Task, not_before: SystemTime) -> anyhow::Result<bool> {
        let wait = not_before.duration_since(SystemTime::now()).unwrap_or_default();
        if wait > self.args.max_hold || task.deferrals >= DEFERRALS_MAX {
            self.frontier.give_up(task);
            return Ok(false);
        }
        self.put_back(task.clone(), wait)
    }

    /// A host that refuses this crawler keeps what is queued for it, for the next run if the hold is longer
    /// than the crawl waits.
    fn leave_or_park(&mut self, task: &Task, until: SystemTime) -> anyhow::Result<bool> {
        let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
        if wait <= self.args.max_hold {
            return self.requeue(task, until);
        }
        self.frontier.put_back(task.clone(), Instant::now());
        self.frontier.give_up(task);
        Ok(true)
    }

    /// `is_whole`: no error ended it. Where one did, a page may be neither in the queue nor done.
    fn end(mut self, is_whole: bool) -> anyhow::Result<Status> {
        self.progress.clear();
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut logged = self.sent(UrlKind::Page, &[], None);
        for (task, recorder) in in_flight.values() {
            logged = logged.and(self.sent(task.kind, &recorder.sent(), None));
            logged = logged.and(self.archive.interrupted(recorder));
            self.report.left(task);
        }
        self.frontier.left().for_each(|task| self.report.left(task));
        self.report.end(&self.client.abide, self.time.at(Instant::now()));
        self.report.link(&self.frontier);
        let drawn = self.args.report.as_ref().map_or(Ok(()), |path| {
            std::fs::write(path, html::page(&self.report, &self.args)?)
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
        });
        let status = Status::of(self.report.hosts().all(|host| self.failures(host) == 0));
        let shows = |host: &HostLine| style::shows(Status::of(self.failures(host) == 0));
        let printed = match self.args.online.output.json {
            _ if !style::shows(status) => Ok(()),
            true => summary::print_json(&self.report, shows),
            false => summary::print(
                &self.report,
                shows,
                style::shows(Status::Done) || !self.args.fail_on.is_empty(),
            ),
        };
        let is_finished = is_whole && in_flight.is_empty() && self.frontier.len() == 0 && !self.leaves_more;
        let logged = logged.and(self.archive.end());
        let logged = logged.and(self.versions.as_mut().map_or(Ok(()), Versions::flush));
        let path = self.journal.take().map(|journal| journal.end(is_finished)).transpose()?;
        if self.report.interrupted {
            let next = match (&path, &self.args.online.store) {
                (Some(path), _) => format!("; the same call goes on with what is left, in {path}"),
                (None, StoreArg::Redis(_) | StoreArg::Postgres(_)) => {
                    "; a store on a server keeps robots.txt and backoffs, and not what is left: the next call starts again"
                        .to_owned()
                }
                (None, _) => {
                    "; nothing is kept of it: with --store redb:crawl.redb the same call goes on where it ended"
                        .to_owned()
                }
            };
            style::to_stderr(format_args!("interrupted{next}"));
        } else if let (Some(path), false) = (&path, is_finished) {
            style::note(format_args!("what is left is in {path}; the same call goes on with it"));
        }
        if let (starts, Some(first)) = &self.barren {
            let others = format!("; nor did {} of the URLs given", count(starts - 1, "other"));
            let others = if *starts > 1 { others } else { String::new() };
            style::note(format_args!("{first}{others}"));
        }
        if self.frontier.dropped > 0 {
            let dropped = self.frontier.dropped;
            style::to_stderr(format_args!("the queue was full: {dropped} links were left out"));
        }
        // What could not be written is reported last, so that everything else is reported too.
        printed.and(drawn).and(logged).map(|()| status)
    }

    /// What makes the exit status 1. What the site disallows and what it answers is no failure, unless
    /// `--fail-on` says so.
    fn failures(&self, host: &HostLine) -> usize {
        let held = usize::from(host.refusing.is_some());
        let always = host.errors + host.refused + host.deferred + host.unreachable + held;
        let asked = self.args.fail_on.iter().map(|what| match what {
            FailOn::Denied => host.denied,
            FailOn::ClientErrors => host.client_errors,
            FailOn::ServerErrors => host.server_errors,
        });
        always + asked.sum::<usize>()
    }

    /// Whether this page is one of them.
    fn is_failure(&self, record: &PageRecord) -> bool {
        let (page, asked) = (&record.page, |what| self.args.fail_on.contains(&what));
        match page.outcome {
            Outcome::Error | Outcome::Refused | Outcome::Deferred => true,
            Outcome::Denied => record.is_unreachable() || asked(FailOn::Denied),
            Outcome::Allowed | Outcome::Fetched => match page.class() {
                Some(Class::ClientError) => asked(FailOn::ClientErrors),
                Some(Class::ServerError) => asked(FailOn::ServerErrors),
                _ => false,
            },
        }
    }
}

fn is_new_sitemap(task: &Task) -> bool {
    task.kind.is_sitemap() && task.deferrals == 0
}

/// Whether a HEAD was answered with an error: many servers answer so though the page is there.
fn is_head_in_doubt(task: &Task, answer: &FetchAnswer) -> bool {
    let is_error = answer.line.status.is_some_and(|status| status >= 400 && !is_throttle(status));
    let is_site = answer.line.outcome == Outcome::Fetched;
    task.kind.is_checked() && !task.is_head_in_doubt && is_site && is_error
}

/// By the status alone: for how long is known to the pacer.
fn is_throttle(status: u16) -> bool {
    let status = StatusCode::from_u16(status);
    let asked = status.map(|status| wait_request(status, &HeaderMap::new(), WallMillis::default()));
    matches!(asked, Ok(WaitRequest::Throttle { .. }))
}

/// A host that defers the same URL again and again, however long it was left alone, does not want to be
/// asked.
const DEFERRALS_MAX: u16 = 6;
/// A page that is answered with 429, 503 or their kin is asked for so many times more.
const TRIES_MAX: u16 = 3;
/// A shorter wait for a permit is part of the call, and of the numbers in the report.
const PARKED_MIN: Duration = Duration::from_secs(1);
/// A backoff that is over already must not make the crawl spin.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
