//! What became of one URL of a crawl: a line of `--json` and `-v`, an entry of the journal, a row of the HTML
//! report.
//!
//! One type for all of them, so that a resumed crawl shows what the first run saw.

use serde::{Deserialize, Serialize};
use url::Url;

use crate::crawl::frontier::{Task, UrlKind, requested};
use crate::crawl::scope::LeftOut;
use crate::fetch::FetchAnswer;
use crate::json::{Answers, RefusalLine, StatedPreference};
use crate::outcome::{Outcome, without_url};

/// One URL, as `--json` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Page {
    pub(crate) url: String,
    pub(crate) status: Option<u16>,
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    /// From its last request to the end of the body.
    pub(crate) ms: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) noindex: Option<bool>,
    /// Where it redirects to, else its own URL.
    pub(crate) final_url: Option<String>,
    pub(crate) kind: UrlKind,
    /// What the site asks of those who use the content.
    #[serde(default)]
    pub(crate) preferences: Vec<StatedPreference>,
    #[serde(default)]
    pub(crate) preferences_known: Option<bool>,
    #[serde(flatten)]
    pub(crate) answers: Answers,
    #[serde(default)]
    pub(crate) refusal: Option<RefusalLine>,
    /// Whether it is another than in an earlier crawl with this store; `None`: it was in none.
    #[serde(default)]
    pub(crate) changed: Option<bool>,
    /// When its last request left, or when it was decided that none does.
    #[serde(default)]
    pub(crate) time: String,
    /// The first of the pages, sitemaps and redirects that name it.
    #[serde(default)]
    pub(crate) linked_from: Vec<String>,
}

/// What a response comes to, by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// 2xx.
    Ok,
    /// 304: it is as in an earlier crawl.
    Unchanged,
    /// 3xx: where it leads is a URL of its own.
    Redirected,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
}

impl Page {
    pub(crate) fn moved_to(&self) -> Option<&str> {
        self.final_url.as_deref().filter(|url| *url != self.url)
    }

    /// Why, without the URL.
    pub(crate) fn reason(&self) -> &str {
        without_url(&self.why, &self.url).unwrap_or(&self.why)
    }

    /// It is new, or has changed since an earlier crawl.
    pub(crate) fn is_news(&self) -> bool {
        self.outcome == Outcome::Fetched && self.changed != Some(false)
    }

    /// `None`: there was no whole response.
    pub(crate) fn class(&self) -> Option<Class> {
        if self.outcome != Outcome::Fetched {
            return None;
        }
        Some(match self.status? {
            400..500 => Class::ClientError,
            500.. => Class::ServerError,
            304 => Class::Unchanged,
            300..400 => Class::Redirected,
            _ => Class::Ok,
        })
    }
}

/// A page, and what the report counts of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PageRecord {
    pub(crate) page: Page,
    /// Why it was denied, refused, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    /// Rules and reservations that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) permissions: Vec<String>,
    /// The URLs that it names and that are not requested.
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    pub(crate) left_out: LeftOut,
    /// Nothing has named this URL, so that it is not there is no error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_guess: bool,
}

/// A reason, in words that are the same for all URLs that it kept back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cause {
    pub(crate) text: String,
    /// Of a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    /// Whose robots.txt, or which host: another one, when a page has redirected there.
    pub(crate) host: String,
}

impl PageRecord {
    /// `ms`: what the URL took on the wire.
    pub(crate) fn new(task: &Task, answer: &FetchAnswer, ms: Option<u64>) -> Self {
        let line = &answer.line;
        let page = Page {
            url: requested(&task.url).into(),
            status: line.status,
            outcome: line.outcome,
            why: line.why.clone(),
            ms,
            bytes: line.bytes,
            noindex: line.noindex,
            final_url: line.final_url.clone(),
            kind: if task.kind.is_sitemap() { UrlKind::Sitemap } else { task.kind },
            preferences: line.preferences.clone(),
            preferences_known: line.preferences_known,
            answers: line.answers.clone(),
            refusal: line.refusal.clone(),
            changed: answer.changed,
            time: line.time.clone(),
            linked_from: Vec::new(),
        };
        let cause = (line.outcome != Outcome::Fetched).then(|| cause(task, answer));
        let stated = line.permissions.iter().flat_map(|tags| &tags.stated).map(|name| (*name).to_owned());
        let reserved = StatedPreference::reserved(&line.preferences);
        let reserved = reserved.into_iter().map(|usage| format!("no {usage}"));
        let permissions =
            if task.kind == UrlKind::Page { stated.chain(reserved).collect() } else { Vec::new() };
        let is_guess = task.kind == UrlKind::Guess;
        Self { page, cause, permissions, left_out: LeftOut::default(), is_guess }
    }

    /// Its site has no such page, or gave none: a link that leads here is to be mended. So is one to another
    /// host that does not exist, does not answer, or is not public.
    pub(crate) fn is_broken(&self) -> bool {
        let page = &self.page;
        let is_answered_so = matches!(page.class(), Some(Class::ClientError | Class::ServerError));
        let is_not_public = page.outcome == Outcome::Refused && page.refusal.is_none();
        let is_away = page.kind.is_checked() && (self.is_unreachable() || is_not_public);
        page.outcome == Outcome::Error || is_answered_so || is_away
    }

    /// It was denied because there is no robots.txt that could allow it.
    pub(crate) fn is_unreachable(&self) -> bool {
        let cause = self.cause.as_ref().filter(|_| self.page.outcome == Outcome::Denied);
        cause.is_some_and(|cause| cause.line.is_none())
    }

    /// Drops what no report counts, and what does not fit a line of the journal: a site may state more than
    /// that.
    pub(crate) fn cut(&mut self) {
        self.page.preferences.clear();
        self.page.answers = Answers::default();
        self.permissions.retain(|stated| stated.len() <= STATED_LEN_MAX);
        self.permissions.truncate(STATED_MAX);
    }
}

/// What is kept of what one page states.
const STATED_MAX: usize = 64;
/// Nor is any name of this length.
const STATED_LEN_MAX: usize = 1024;

fn cause(task: &Task, answer: &FetchAnswer) -> Cause {
    let line = &answer.line;
    let hop = line.hops.last().and_then(|hop| hop.url.parse::<Url>().ok());
    let hop = hop.as_ref().unwrap_or(&task.url);
    let host = hop.host_str().unwrap_or_default().to_owned();
    let rule = line.verdict.as_ref().and_then(|verdict| verdict.found.rule.as_ref());
    if let Some(rule) = rule.filter(|_| line.outcome == Outcome::Denied) {
        let name = if rule.kind == "allow" { "Allow" } else { "Disallow" };
        return Cause { text: format!("{name}: {}", rule.pattern), line: Some(rule.line), host };
    }
    // The sentence begins with the URL of the last hop, or with that of the page.
    let last = line.final_url.as_deref().unwrap_or_default();
    let sentence =
        || without_url(&line.why, last).or_else(|| without_url(&line.why, &line.url)).unwrap_or(&line.why);
    Cause { text: answer.cause.as_deref().unwrap_or_else(sentence).to_owned(), line: None, host }
}
