//! The objects of the contract: their fields, in their order.
//!
//! `docs/dev/command-contract.md` states them. One place, because programs rely on names and order, whichever
//! call prints an object.

#[cfg(feature = "serve")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use abide::robots_cache::Source;
use abide::{Denied, Refusal, WallMillis};
use abide_permissions::{Answer, Meta, Permissions, Preferences, Question, TagRules};
use abide_robots::{RecordKind, RobotsVerdict};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::sanitize::{public, without_user};

#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// `None`: there is no verdict.
    pub(crate) allowed: Option<bool>,
    pub(crate) rule: Option<RuleLine>,
    pub(crate) group: Option<Vec<String>>,
    pub(crate) crawl_delay: Option<f64>,
    pub(crate) sitemaps: Vec<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct RuleLine {
    pub(crate) kind: &'static str,
    pub(crate) pattern: String,
    pub(crate) line: u32,
}

impl Match {
    pub(crate) fn new(url: Option<String>, verdict: &RobotsVerdict) -> Self {
        let rules = verdict.rules();
        Self {
            url,
            allowed: Some(verdict.is_allowed()),
            rule: rule(verdict),
            group: rules.has_group().then(|| rules.group().map(str::to_owned).collect()),
            crawl_delay: rules.crawl_delay().map(|delay| delay.as_secs_f64()),
            sitemaps: rules.sitemaps().map(sitemap).collect(),
        }
    }
}

/// Of a relative one, such as `s@x.xml`, what stands before the `@` is no user information.
fn sitemap(text: &str) -> String {
    let is_relative = Url::parse(text) == Err(url::ParseError::RelativeUrlWithoutBase);
    if is_relative { without_user(text).into() } else { public(text).into() }
}

pub(crate) fn rule(verdict: &RobotsVerdict) -> Option<RuleLine> {
    let rule = verdict.rule()?;
    let kind = if rule.kind() == RecordKind::Allow { "allow" } else { "disallow" };
    Some(RuleLine { kind, pattern: String::from_utf8_lossy(rule.value()).into_owned(), line: rule.line() })
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct Tags {
    /// Every rule of the vocabulary, always.
    rules: Map<String, Value>,
    unknown: Vec<String>,
    #[cfg_attr(feature = "serve", schemars(with = "Vec<BTreeMap<String, String>>"))]
    metas: Vec<Meta>,
    head: &'static str,
    truncated: bool,
    preferences: Vec<StatedPreference>,
    /// The names of the rules that are stated.
    #[serde(skip)]
    pub(crate) stated: Vec<&'static str>,
}

/// A preference on a use of the content, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct StatedPreference {
    pub(crate) usage: String,
    pub(crate) preference: String,
    pub(crate) source: String,
}

impl StatedPreference {
    pub(crate) fn all(preferences: &Preferences) -> Vec<Self> {
        let statements = preferences.statements().iter().map(|statement| Self {
            usage: statement.usage().to_string(),
            preference: statement.preference().as_str().unwrap_or("unknown").to_owned(),
            source: statement.source().to_string(),
        });
        statements.collect()
    }

    /// `noai` and `noimageai`, under their own names: which usages they mean is an interpretation.
    pub(crate) fn no_ai(permissions: &Permissions) -> Vec<Self> {
        let stated = permissions.statements().iter().flat_map(|(source, rules)| {
            let named = ["noai", "noimageai"].into_iter().filter(|name| rules.states(name));
            named.map(|name| Self {
                usage: name.to_owned(),
                preference: "disallow".to_owned(),
                source: source.to_string(),
            })
        });
        stated.collect()
    }

    /// The usages that the site asks to leave alone, such as `train-ai`, whichever of its statements counts
    /// in the end.
    pub(crate) fn reserved(stated: &[Self]) -> BTreeSet<&str> {
        stated.iter().filter(|stated| stated.preference == "disallow").map(|stated| &*stated.usage).collect()
    }
}

/// Those of the vocabulary, in the order of the contract.
const FLAGS: &str =
    "noindex nosnippet nofollow noarchive noimageindex notranslate nocache indexifembedded noai noimageai";

impl Tags {
    pub(crate) fn new(permissions: &Permissions, preferences: &Preferences) -> Self {
        let rules = permissions.rules();
        let flags = FLAGS.split(' ').map(|flag| (flag.to_owned(), rules.states(flag).into()));
        // In the order of the vocabulary.
        let values: [Value; 4] = [
            rules.max_snippet().into(),
            rules.max_image_preview().into(),
            rules.max_video_preview().into(),
            rules.unavailable_after().map(|time| time.to_string()).into(),
        ];
        let valued = TagRules::VALUED.iter().copied().zip(values);
        let stated = valued.clone().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
        Self {
            stated: rules.flags().chain(stated).collect(),
            rules: flags.chain(valued.map(|(name, value)| (name.replace('-', "_"), value))).collect(),
            unknown: rules.unknown().map(str::to_owned).collect(),
            metas: permissions.metas().to_vec(),
            head: permissions.head_end().as_str(),
            truncated: permissions.is_truncated(),
            preferences: StatedPreference::all(preferences),
        }
    }
}

/// May the page be used so? What the library answers, word for word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct Answers {
    /// `yes`, `no` or `unknown` for each question, and besides `unset` for training. `None`: nothing was
    /// fetched.
    #[serde(default)]
    pub(crate) answers: Option<Map<String, Value>>,
    /// Why an answer is unknown, a sentence each.
    #[serde(default)]
    pub(crate) unknown_because: Vec<String>,
}

impl Answers {
    pub(crate) fn new(permissions: &Permissions, preferences: &Preferences) -> Self {
        let of_page = Question::ALL.map(|question| (question.as_str(), permissions.answer(question)));
        let mut found = Self::default();
        for (question, answer) in of_page.into_iter().chain([("train", preferences.training())]) {
            found.add(question, &answer);
        }
        found
    }

    fn add(&mut self, question: &str, answer: &Answer) {
        self.answers.get_or_insert_default().insert(question.to_owned(), answer.as_str().into());
        for reason in answer.unknown_because() {
            if !self.unknown_because.contains(reason) {
                self.unknown_because.push(reason.clone());
            }
        }
    }
}

/// A verdict of the network, with where it comes from.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct OnlineVerdict {
    #[serde(flatten)]
    pub(crate) found: Match,
    pub(crate) source: &'static str,
    pub(crate) robots_url: Option<String>,
    pub(crate) final_url: Option<String>,
    pub(crate) robots_status: Option<u16>,
    pub(crate) age_s: Option<u64>,
    pub(crate) retry_at: Option<String>,
    pub(crate) why: String,
}

/// A challenge or a block page of what stands before a site, in place of a page or of robots.txt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct RefusalLine {
    pub(crate) by: String,
    pub(crate) kind: String,
    /// The header field, or the part of the page, that shows it.
    pub(crate) evidence: String,
}

impl RefusalLine {
    pub(crate) fn new(refusal: &Refusal) -> Self {
        let [by, kind, evidence] =
            [refusal.by(), refusal.kind().as_str(), refusal.evidence()].map(str::to_owned);
        Self { by, kind, evidence }
    }
}

impl OnlineVerdict {
    pub(crate) fn new(verdict: &abide::Verdict, now: WallMillis) -> Self {
        let answer = verdict.entry();
        let rules = verdict.rules();
        Self {
            found: Match {
                allowed: Some(verdict.is_allowed()),
                crawl_delay: verdict.crawl_delay().map(|delay| delay.as_secs_f64()),
                ..rules.map(|rules| Match::new(None, rules)).unwrap_or_default()
            },
            source: source_name(verdict.source()),
            robots_url: answer.map(|answer| answer.origin().robots_url().into()),
            final_url: answer.and_then(|answer| answer.final_url()).map(String::from),
            robots_status: answer.and_then(|answer| answer.status()),
            age_s: answer.and_then(|answer| answer.age(now)).map(|age| age.as_secs()),
            retry_at: answer.map(|answer| rfc3339_from(answer.retry_at())),
            why: verdict.to_string(),
        }
    }

    /// The same keys where robots.txt was not asked, or not answered.
    pub(crate) fn none() -> Self {
        Self { source: source_name(None), ..Self::default() }
    }
}

pub(crate) fn not_before(denied: &Denied) -> Option<String> {
    denied.retry_at().map(|time| rfc3339_from(time.into()))
}

/// The first whole second that is not before `time`, so that it is never too early.
pub(crate) fn rfc3339_from(time: WallMillis) -> String {
    rfc3339(time.plus(Duration::from_millis(999)))
}

pub(crate) fn rfc3339(time: WallMillis) -> String {
    let seconds = i64::try_from(time.as_millis() / 1000).unwrap_or(i64::MAX);
    abide_permissions::UnavailableAfter::from_unix_seconds(seconds).to_string()
}

/// With its milliseconds, for programs that act on them.
#[cfg(feature = "serve")]
pub(crate) fn rfc3339_millis(time: WallMillis) -> String {
    rfc3339(time).replace('Z', &format!(".{:03}Z", time.as_millis() % 1000))
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The outcome of robots.txt in one word.
pub(crate) fn source_name(source: Option<Source>) -> &'static str {
    match source {
        None => "none",
        Some(Source::Fresh) => "fresh",
        Some(Source::Revalidated) => "revalidated",
        Some(Source::LastGood) => "last_good",
        Some(Source::Unavailable(_) | Source::TooManyRedirects) => "unavailable",
        Some(Source::Unreachable(_)) => "unreachable",
        Some(Source::LongOutage) => "long_outage",
        Some(_) => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_has_every_flag_of_the_vocabulary() {
        let mut ours: Vec<&str> = FLAGS.split(' ').collect();
        let mut known = TagRules::FLAGS.to_vec();
        ours.sort_unstable();
        known.sort_unstable();
        assert_eq!(ours, known);
    }
}
