//! `abide crawl`: a small polite crawl of the sites given, breadth first, with a report per host.
//!
//! One task a host at most, so a host that waits holds nobody up; a host on hold is parked until its time has come.

mod frontier;
mod html;
mod links;
mod progress;
mod report;
mod save;

use std::time::{Duration, Instant, SystemTime};

use abide::Abide;
use reqwest_middleware::ClientWithMiddleware;
use tokio::task::JoinSet;
use url::Url;

use crate::args::CrawlArgs;
use crate::check::absolute;
use crate::fetch::{self, Answer};
use crate::trail::{self, Sent, Trail};
use crate::{Status, online, style};
use frontier::{Frontier, Kind, Next, Task};
use progress::Progress;
use report::Report;
use save::Save;

pub(crate) async fn run(args: CrawlArgs) -> anyhow::Result<Status> {
    let urls: Vec<Url> = args.urls.iter().map(|text| absolute(text)).collect::<Result<_, _>>()?;
    let (abide, inner) = online::crawler(&args.online)?;
    let save = args.save.as_deref().map(Save::to).transpose()?;
    let mut crawl = Crawl {
        client: trail::client(&abide, inner),
        report: Report::new(abide.gate_handle().wall()),
        frontier: Frontier::new(&urls, args.max_depth),
        progress: Progress::new(args.max_pages),
        save,
        running: JoinSet::new(),
        fetched: 0,
        abide,
        args,
    };
    crawl.run().await?;
    crawl.end()
}

struct Crawl {
    abide: Abide,
    client: ClientWithMiddleware,
    args: CrawlArgs,
    frontier: Frontier,
    report: Report,
    progress: Progress,
    save: Option<Save>,
    running: JoinSet<Done>,
    fetched: usize,
}

/// What came back for one URL.
struct Done {
    task: Task,
    answer: Answer,
    sent: Vec<Sent>,
    body: Body,
}

impl Crawl {
    /// Until everything is fetched, the limit is reached, or Ctrl-C.
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let parked_until = self.dispatch();
            self.progress.show(self.fetched, &self.frontier, &self.report);
            if self.running.is_empty() && parked_until.is_none() {
                return Ok(());
            }
            let wake = parked_until.unwrap_or_else(|| Instant::now() + TICK_MAX);
            tokio::select! {
                Some(done) = self.running.join_next() => self.note(done?)?,
                () = tokio::time::sleep_until(wake.into()) => {}
                _ = &mut interrupted => {
                    self.report.interrupted = true;
                    // What is in the air ends here; dropping it gives its turns back.
                    self.running.abort_all();
                    return Ok(());
                }
            }
        }
    }

    /// Starts what may start. If nothing may for now, until when.
    fn dispatch(&mut self) -> Option<Instant> {
        loop {
            let pages = self.frontier.pages_running();
            let full = self.running.len() >= usize::from(self.args.online.concurrency);
            if full || self.fetched + pages >= self.args.max_pages {
                return None;
            }
            match self.frontier.next(Instant::now()) {
                Next::Task(task) => {
                    let (abide, client) = (self.abide.clone(), self.client.clone());
                    self.running.spawn(visit(abide, client, task));
                }
                Next::Parked(until) => return Some(until),
                Next::Nothing => return None,
            }
        }
    }

    fn note(&mut self, done: Done) -> anyhow::Result<()> {
        let Done { task, answer, sent, body } = done;
        self.frontier.ended(&task);
        if let Some(not_before) = answer.not_before
            && is_of_its_host(&task, &answer)
            && self.park(&task, not_before)
        {
            return Ok(());
        }
        self.report.note(&task, &answer.line, &sent, &self.abide);
        if answer.line.outcome == "fetched" {
            let final_url = answer.line.final_url.as_deref().and_then(|text| text.parse::<Url>().ok());
            let base = final_url.unwrap_or_else(|| task.url.clone());
            self.frontier.widen(&task, &base);
            self.queue_from(&task, &answer, &base, &body);
        }
        if task.kind == Kind::Page {
            self.fetched += usize::from(answer.line.outcome == "fetched");
            if let Some(save) = &mut self.save {
                save.page(&answer, &body)?;
            }
        }
        Ok(())
    }

    /// Puts a deferred URL back, unless its host is held for longer than the crawl is to last for it.
    fn park(&mut self, task: &Task, not_before: SystemTime) -> bool {
        let wait = not_before.duration_since(SystemTime::now()).unwrap_or_default();
        if wait > self.args.max_hold || self.report.holds(task) >= HOLDS_MAX {
            self.report.given_up(task, self.frontier.give_up(task));
            return false;
        }
        self.report.held(task);
        self.frontier.park(task.clone(), Instant::now() + wait.max(HOLD_MIN));
        true
    }

    /// The links of a page, and the sitemaps of its host.
    fn queue_from(&mut self, task: &Task, answer: &Answer, base: &Url, body: &Body) {
        if self.args.sitemaps
            && let Some(verdict) = &answer.line.verdict
        {
            for sitemap in verdict.sitemaps.iter().filter_map(|text| text.parse().ok()).take(SITEMAPS_MAX) {
                self.frontier.add(sitemap, task.depth, Kind::Sitemap);
            }
        }
        // The links of an error page are not the site's.
        if !answer.line.status.is_some_and(|status| (200..300).contains(&status)) {
            return;
        }
        if task.kind == Kind::Sitemap {
            let (pages, sitemaps) = links::of_sitemap(&body.bytes);
            // What a sitemap names is as near as what the first page names.
            pages.into_iter().for_each(|url| self.frontier.add(url, 1, Kind::Page));
            sitemaps.into_iter().for_each(|url| self.frontier.add(url, 1, Kind::Sitemap));
            return;
        }
        let obeys = !self.args.ignore_nofollow;
        if is_html(answer.content_type.as_deref()) && (answer.may_follow || !obeys) {
            for url in links::of_page(base, &body.bytes, obeys) {
                self.frontier.add(url, task.depth.saturating_add(1), Kind::Page);
            }
        }
    }

    fn end(mut self) -> anyhow::Result<Status> {
        self.progress.clear();
        self.report.left(&self.frontier);
        if let Some(path) = &self.args.report {
            std::fs::write(path, html::page(&self.report))
                .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        }
        if self.args.online.output.json {
            self.report.print_json()?;
        } else {
            self.report.print()?;
        }
        if self.report.interrupted {
            style::complain(format_args!("interrupted"));
        }
        Ok(Status::of(self.report.is_clean()))
    }
}

/// Whether what was refused is on the host of the task. A page may redirect to a host that is held; the others of its own host
/// need not wait for that.
fn is_of_its_host(task: &Task, answer: &Answer) -> bool {
    let last = answer.line.hops.last().and_then(|hop| hop.url.parse::<Url>().ok());
    last.is_none_or(|url| frontier::host_of(&url) == task.host)
}

/// One URL, through the whole middleware.
async fn visit(abide: Abide, client: ClientWithMiddleware, task: Task) -> Done {
    let trail = Trail::default();
    let mut body = Body::default();
    let answer = fetch::ask(&abide, &client, task.url.as_str(), &trail, |chunk| body.push(chunk)).await;
    Done { task, answer, sent: trail.sent(), body }
}

/// The beginning of a body, all of it for nearly every page.
#[derive(Debug, Default)]
struct Body {
    bytes: Vec<u8>,
}

impl Body {
    fn push(&mut self, chunk: &[u8]) {
        let left = BODY_MAX - self.bytes.len();
        self.bytes.extend_from_slice(&chunk[..chunk.len().min(left)]);
    }
}

fn is_html(content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or("text/html").split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("text/html") || essence.eq_ignore_ascii_case("application/xhtml+xml")
}

/// Kept of a body: what links are read from, and what is saved. `--concurrency` of them may be in memory.
const BODY_MAX: usize = 16 * 1024 * 1024;
/// Sitemaps of one robots.txt.
const SITEMAPS_MAX: usize = 100;
/// A host that is held this often is not worth waiting for.
const HOLDS_MAX: usize = 1000;
/// A hold that is over already is no reason to ask in a circle.
const HOLD_MIN: Duration = Duration::from_millis(100);
/// How often the progress is shown anew though nothing happens.
const TICK_MAX: Duration = Duration::from_secs(1);
