//! `crawl --warc`: an archive of everything that went over the wire, and of every decision (WARC/1.1, ISO
//! 28500:2017).
//!
//! ```text
//!  abide::ObserveExchanges ─▶ Archive::begin ─▶ Tap ─┬▶ of a page: Exchanges of its call ─▶ Archive::page ┐
//!                                                    └▶ robots.txt and its kin ─────────▶ Archive::own ──┤
//!                                                                         records ─▶ Output ◀────────────┘
//! ```
//!
//! A decision stands before the records of its exchange, so that no response is ever there without the reason
//! why it was requested.

mod decision;
mod exchange;
mod file;
mod group;
pub(crate) mod http;
pub(crate) mod reader;
pub(crate) mod record;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Instant, SystemTime};

use ::http::{Extensions, HeaderName};
use abide::{Abide, Host, ObserveExchanges, Verdict};
use abide_permissions::{ProductToken, Question};
use url::Url;
use uuid::Uuid;

use crate::args::{CrawlArgs, WarcArgs};
use crate::fetch::FetchAnswer;
use crate::json::{OnlineVerdict, millis};
use crate::outcome::Outcome;
use crate::proxy;
use crate::recorder::Recorder;
use crate::sanitize::public_url;
use crate::tags;
pub(crate) use decision::{
    DECISION_TYPE, Decision, DecisionRule, DecisionVerdict, ROBOTS_TYPE, RobotsStatement,
};
pub(crate) use exchange::Exchanges;
use exchange::{Tap, WireEnd, WireExchange, WireResponse, lock};
use file::Output;
use group::{Group, Known};
use http::{decoded, request_head, without_fragment};
use record::{Record, digest, timestamp};

/// What `--warc` writes. Nothing, until it is [opened](Self::open).
#[derive(Debug, Default)]
pub(crate) struct Archive {
    settings: OnceLock<Settings>,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Settings {
    /// The wall clock may be set meanwhile: times are counted from here.
    started: (SystemTime, Instant),
    /// Of `--header`: they may hold keys.
    private_fields: Vec<HeaderName>,
    /// The address of a response is that of the proxy.
    has_proxy: bool,
    keeps_noarchive: bool,
    tokens: Vec<ProductToken>,
    info: Info,
}

/// What the first record of each file says of the crawl.
#[derive(Debug)]
struct Info {
    /// The same for the same start URLs.
    crawl: String,
    user_agent: String,
    agent: String,
}

#[derive(Debug)]
struct Open {
    output: Output,
    known: Known,
    /// The first error: nothing is written behind it.
    error: Option<anyhow::Error>,
}

impl Archive {
    /// What sees the exchanges of the crawler, if `--warc` asks for it.
    pub(crate) fn observer(self: &Arc<Self>, args: &WarcArgs) -> Option<Arc<dyn ObserveExchanges>> {
        args.warc.is_some().then(|| Arc::new(Observer(Arc::clone(self))) as _)
    }

    /// Begins the archive, or goes on with that of the same crawl.
    pub(crate) fn open(&self, args: &CrawlArgs, urls: &[Url], abide: &Abide) -> anyhow::Result<()> {
        let Some(path) = &args.warc.warc else { return Ok(()) };
        let settings = self.settings.get_or_init(|| Settings {
            started: (SystemTime::now(), Instant::now()),
            private_fields: args.online.headers.iter().map(|header| header.name.clone()).collect(),
            has_proxy: proxy::is_set(&args.online),
            keeps_noarchive: args.warc.keep_noarchive,
            tokens: args.online.tokens().iter().filter_map(|token| token.parse().ok()).collect(),
            info: Info {
                crawl: crawl_name(urls),
                user_agent: String::from_utf8_lossy(abide.user_agent().as_bytes()).into_owned(),
                agent: args.online.agent.join(","),
            },
        });
        let mut known = Known::default();
        let is_part = format!("isPartOf: {}\r\n", settings.info.crawl);
        let output = Output::open(
            path,
            args.warc.warc_size,
            |path| settings.info_record(path),
            |block| String::from_utf8_lossy(block).contains(&is_part),
            |head, block| known.learn(head, block),
        )?;
        *lock(&self.open) = Some(Open { output, known, error: None });
        Ok(())
    }

    /// The exchanges of a URL, with what was decided about it. `is_final`: it does not come again, so that
    /// it is decided also if nothing was sent.
    pub(crate) fn page(
        &self,
        url: &Url,
        answer: &FetchAnswer,
        recorder: Option<&Recorder>,
        abide: &Abide,
        is_final: bool,
    ) -> anyhow::Result<()> {
        let Some(settings) = self.settings.get() else { return Ok(()) };
        let exchanges = recorder.map(|recorder| recorder.exchanges.take()).unwrap_or_default();
        if exchanges.is_empty() && !is_final {
            return Ok(());
        }
        let verdict = answer.verdict.clone().or_else(|| abide.check_cached(url));
        let begun = exchanges.last().map_or_else(|| settings.now(), |last| lock(last).begun);
        let mut decision = decision(url, answer, verdict.as_ref(), abide);
        decision.time = timestamp(begun);
        self.write(|open| {
            let mut group = Group::new(settings, &mut open.known);
            if let Some(stated) = &mut decision.verdict
                && let Some(entry) = verdict.as_ref().and_then(Verdict::entry)
            {
                let written = group.robots_in_force(entry);
                (stated.robots_record, stated.robots_digest) = (Some(written.record), Some(written.digest));
            }
            let archive = decision.answers.as_ref().and_then(|answers| answers.get("archive")?.as_str());
            group.decided(&without_fragment(url), begun, &decision, &exchanges, archive);
            let bytes = group.into_bytes();
            open.output.append(&bytes)
        })
    }

    /// A URL whose request was under way when the crawl was interrupted.
    pub(crate) fn interrupted(&self, recorder: &Recorder) -> anyhow::Result<()> {
        let Some(settings) = self.settings.get() else { return Ok(()) };
        let exchanges = recorder.exchanges.take();
        let Some(last) = exchanges.last() else { return Ok(()) };
        let (url, begun) = { (lock(last).url.clone(), lock(last).begun) };
        let decision = Decision {
            url: url.to_string(),
            time: timestamp(begun),
            outcome: Outcome::Error.as_str().to_owned(),
            why: "the crawl was interrupted".to_owned(),
            ..Decision::default()
        };
        self.write(|open| {
            let mut group = Group::new(settings, &mut open.known);
            group.decided(&url, begun, &decision, &exchanges, Some("unknown"));
            let bytes = group.into_bytes();
            open.output.append(&bytes)
        })
    }

    /// At the end of the crawl: all of it is brought to the disk, and nothing is written any more, as of a
    /// robots.txt that is still under way when the process ends.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        let synced = self.write(|open| open.output.sync());
        *lock(&self.open) = None;
        synced
    }

    /// An exchange that the crawler made for itself has ended.
    fn own(&self, exchange: &WireExchange) {
        let Some(settings) = self.settings.get() else { return };
        let outcome = match (&exchange.response, &exchange.end) {
            (Some(_), WireEnd::Whole | WireEnd::Cut) => Outcome::Fetched,
            _ => Outcome::Error,
        };
        let why = exchange.why_failed().unwrap_or("requested by the crawler for its own use");
        let decision = Decision {
            url: exchange.url.to_string(),
            time: timestamp(exchange.begun),
            outcome: outcome.as_str().to_owned(),
            why: why.to_owned(),
            ..Decision::default()
        };
        // The next page ends the crawl with the error.
        let _ = self.write(|open| {
            let mut group = Group::new(settings, &mut open.known);
            group.own(exchange, &decision);
            let bytes = group.into_bytes();
            open.output.append(&bytes)
        });
    }

    /// Writes to the file, or to the next one if it is full.
    fn write(&self, write: impl FnOnce(&mut Open) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (mut open, Some(settings)) = (lock(&self.open), self.settings.get()) else { return Ok(()) };
        let Some(open) = &mut *open else { return Ok(()) };
        if let Some(error) = &open.error {
            return Err(anyhow::anyhow!("{error:#}"));
        }
        let write = || {
            if open.output.is_full() {
                open.output.split(|path| settings.info_record(path))?;
                // Each file says itself which robots.txt was in force.
                open.known.begin_file();
            }
            write(open)
        };
        let written = write();
        written.inspect_err(|error| open.error = Some(anyhow::anyhow!("{error:#}")))
    }
}

/// Stands between the library and the archive.
struct Observer(Arc<Archive>);

impl ObserveExchanges for Observer {
    fn begin(&self, request: &reqwest::Request, extensions: &Extensions) -> Box<dyn abide::Exchange> {
        let settings = self.0.settings.get();
        let left_out = settings.map(|settings| settings.private_fields.as_slice()).unwrap_or_default();
        let exchange = Arc::new(Mutex::new(WireExchange {
            begun: settings.map_or_else(SystemTime::now, Settings::now),
            url: without_fragment(request.url()),
            request_head: request_head(request, left_out),
            response: None,
            body: Vec::new(),
            end: WireEnd::Open,
        }));
        let recorder = extensions.get::<Recorder>();
        if let Some(recorder) = recorder {
            recorder.exchanges.push(Arc::clone(&exchange));
        }
        let archive = recorder.is_none().then(|| Arc::clone(&self.0));
        Box::new(Tap { exchange, archive })
    }
}

impl Settings {
    fn now(&self) -> SystemTime {
        let (wall, started) = self.started;
        wall + started.elapsed()
    }

    /// Whether the body may be archived. What is unknown is not allowed. The answer is about the page; a
    /// redirect or an error may say for itself what it forbids.
    fn may_be_kept(&self, exchange: &WireExchange, response: &WireResponse, answer: Option<&str>) -> bool {
        if self.keeps_noarchive {
            return true;
        }
        if let Some(answer) = answer.filter(|_| response.status.is_success()) {
            return answer == "yes";
        }
        let fields = &response.fields;
        let Ok(body) = decoded(fields, &exchange.body, PAGE_LEN_MAX) else { return false };
        let fields: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let (permissions, _) = tags::read_page(self.tokens.clone(), &fields, Some(&body), None);
        permissions.answer(Question::Archive).is_allowed()
    }

    fn info_record(&self, path: &Path) -> Vec<u8> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Info { crawl, user_agent, agent } = &self.info;
        let version = env!("CARGO_PKG_VERSION");
        let block = format!(
            "software: abide/{version}\r\nformat: WARC File Format 1.1\r\n\
             conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n\
             robots: obey\r\nhttp-header-user-agent: {user_agent}\r\nabide-agent: {agent}\r\nisPartOf: {crawl}\r\n"
        );
        let record = Record {
            kind: "warcinfo",
            id: Uuid::new_v4(),
            date: self.now(),
            target: None,
            content_type: "application/warc-fields",
            fields: vec![("WARC-Filename", name.into_owned())],
            head: &[],
            payload: block.as_bytes(),
            has_payload_digest: false,
        };
        record.member()
    }
}

fn decision(url: &Url, answer: &FetchAnswer, verdict: Option<&Verdict>, abide: &Abide) -> Decision {
    let line = &answer.line;
    let delay = Host::of(url).ok().and_then(|host| abide.gate().report(&host)).map(|report| report.delay);
    let found = verdict.map(|verdict| (OnlineVerdict::new(verdict, abide.gate().wall()), verdict));
    let verdict = found.map(|(online, verdict)| {
        let rule = online.found.rule.map(|rule| DecisionRule {
            kind: rule.kind.to_owned(),
            pattern: rule.pattern,
            line: rule.line,
        });
        DecisionVerdict {
            allowed: online.found.allowed,
            line: rule.as_ref().map(|rule| rule.line),
            rule,
            group: online.found.group,
            robots_record: None,
            robots_digest: None,
            robots_age_s: age(verdict, abide),
        }
    });
    Decision {
        url: public_url(url).into(),
        time: String::new(),
        outcome: line.outcome.as_str().to_owned(),
        verdict,
        delay_ms: delay.map(millis),
        waited_ms: line.waited_ms,
        answers: line.answers.answers.clone(),
        unknown_because: line.answers.unknown_because.clone(),
        preferences: line.preferences.iter().chain(&answer.no_ai).cloned().collect(),
        refusal: line.refusal.clone(),
        why: line.why.clone(),
    }
}

/// Since the server last sent or confirmed it; without a copy, since it was last asked.
fn age(verdict: &Verdict, abide: &Abide) -> Option<u64> {
    let (entry, now) = (verdict.entry()?, abide.gate().wall());
    Some(entry.age(now).unwrap_or_else(|| now.since(entry.asked_at())).as_secs())
}

/// The same for the same start URLs, in whatever order.
fn crawl_name(urls: &[Url]) -> String {
    let mut names: Vec<String> = urls.iter().map(|url| public_url(url).into()).collect();
    names.sort();
    names.dedup();
    let digest = digest(&[names.join("\n").as_bytes()]);
    let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("urn:abide:crawl:{short}")
}

/// As much as abide reads of a page for its head.
pub(crate) const PAGE_LEN_MAX: usize = 512 * 1024;
/// As much as the gate reads of one.
pub(crate) const ROBOTS_LEN_MAX: usize = 512_000;
