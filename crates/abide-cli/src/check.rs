//! `abide check`: asks for robots.txt, never for the URLs.
//!
//! For those who want to know before they fetch. It asks the gate as the middleware would, so `fetch` would
//! decide the same; `explain` takes its answers and shows the lines behind them.

use std::borrow::Cow;

use abide::{Abide, Denied, DeniedKind, Refusal, Verdict};
use serde::Serialize;
use url::Url;

use crate::args::{CheckArgs, Online};
use crate::input::{Given, absolute_urls};
use crate::json::{OnlineVerdict, RefusalLine, not_before, rfc3339};
use crate::outcome::{self, Outcome};
use crate::sanitize::public;
use crate::status::Status;
use crate::{online, style};

/// A URL, and what robots.txt says of it, or why that is unknown.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    /// As it was given.
    text: &'a str,
    pub(crate) url: Url,
    pub(crate) result: Result<Verdict, Denied>,
    /// The site disallows the use that it is for, though robots.txt allows the URL.
    purpose: Option<Denied>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct CheckLine<'a> {
    url: Cow<'a, str>,
    outcome: Outcome,
    #[serde(flatten)]
    verdict: OnlineVerdict,
    /// Who has answered in place of the site, if robots.txt was refused so.
    refusal: Option<RefusalLine>,
    /// When to ask again, if that is not now.
    not_before: Option<String>,
    /// Why there is no verdict.
    error: Option<String>,
    /// When it was checked.
    time: String,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Status> {
    let urls = absolute_urls(&args.urls)?;
    let online = args.online.with_rules_of(&args.rules_of);
    online::run(&online, async |abide, _| {
        let show = |checked: &Checked<'_>| {
            if online.output.json { style::print_json(&checked.line(&abide)) } else { checked.say(&abide) }
        };
        each(&online, &urls, &abide, show).await
    })
}

/// Checks the URLs, and shows the results in their order.
pub(crate) async fn each(
    online: &Online,
    urls: &[Given<Url>],
    abide: &Abide,
    mut show: impl FnMut(&Checked<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Status> {
    let check = |text, url| Checked::of(abide, text, url);
    online::in_order(online, urls, check, |checked| {
        let status = Status::of(checked.denied(abide).is_none() && checked.refusal().is_none());
        if style::shows(status) {
            show(&checked)?;
        }
        Ok(status)
    })
    .await
}

impl<'a> Checked<'a> {
    /// Checks the URL, whose text this is.
    pub(crate) async fn of(abide: &Abide, text: &'a str, url: Url) -> Self {
        let (mut result, mut purpose) = (abide.check(&url).await, None);
        let is_purpose = |denied: &Denied| matches!(denied.kind(), DeniedKind::Purpose { .. });
        // Its verdict says where robots.txt came from, and shows its lines.
        if let Err(denied) = &result
            && is_purpose(denied)
            && let Some(verdict) = abide.check_cached(&url)
        {
            purpose = Some(denied.clone());
            result = Ok(verdict);
        }
        Self { text, url, result, purpose }
    }

    /// Why it is not to be fetched.
    fn denied(&self, abide: &Abide) -> Option<Denied> {
        let gate = abide.gate();
        if self.purpose.is_some() {
            return self.purpose.clone();
        }
        match &self.result {
            Ok(verdict) => gate.denial(verdict, &self.url).or_else(|| {
                // No call waits for a permit where the Crawl-delay is too long.
                verdict.crawl_delay()?;
                gate.next_slot(&self.url).err()
            }),
            Err(denied) => Some(denied.clone()),
        }
    }

    /// The last attempt to fetch robots.txt was answered by a gatekeeper, also if the last good copy stands
    /// in; or the host refuses us.
    fn refusal(&self) -> Option<Refusal> {
        match &self.result {
            Ok(verdict) => verdict.entry()?.failure()?.refusal(),
            Err(denied) => match denied.kind() {
                DeniedKind::Unreachable { cause, .. } => cause.refusal(),
                DeniedKind::Refusing { by, .. } => *by,
                _ => None,
            },
        }
    }

    pub(crate) fn line(&self, abide: &Abide) -> CheckLine<'a> {
        let denied = self.denied(abide);
        let outcome = denied.as_ref().map_or(Outcome::Allowed, Outcome::of);
        let mut verdict = match &self.result {
            Ok(verdict) => OnlineVerdict::new(verdict, abide.gate().wall()),
            Err(_) => OnlineVerdict::none(),
        };
        // What is refused by us is no verdict of the site.
        let is_none = self.result.is_err() || outcome == Outcome::Refused;
        let error = denied.as_ref().filter(|_| is_none).map(outcome::why);
        if let Some(why) = &error {
            verdict.found.allowed = None;
            verdict.why.clone_from(why);
        }
        if let Some(denied) = &self.purpose {
            verdict.found.allowed = Some(false);
            verdict.why = outcome::why(denied);
        }
        let not_before = denied.as_ref().and_then(not_before);
        let refusal = self.refusal().as_ref().map(RefusalLine::new);
        let time = rfc3339(abide.gate().wall());
        CheckLine { url: public(self.text), outcome, verdict, refusal, not_before, error, time }
    }

    /// The verdict, with the whole sentence that says why.
    pub(crate) fn explain(&self, abide: &Abide) -> anyhow::Result<()> {
        let line = self.line(abide);
        let why = outcome::without_url(&line.verdict.why, &line.url).unwrap_or(&line.verdict.why);
        Ok(style::say_verdict(line.mark(), &line.url, why)?)
    }

    fn say(&self, abide: &Abide) -> anyhow::Result<()> {
        let line = self.line(abide);
        let why = match (self.denied(abide), &self.result) {
            (Some(denied), _) => outcome::brief(&denied),
            (None, Ok(verdict)) => outcome::rule(verdict),
            (None, Err(denied)) => outcome::brief(denied),
        };
        Ok(style::say_line(line.mark(), &line.url, &why)?)
    }
}

impl CheckLine<'_> {
    fn mark(&self) -> style::Styled<'static> {
        match self.error {
            Some(_) => (style::WAIT, self.outcome.as_str()),
            None => style::mark(self.verdict.found.allowed == Some(true)),
        }
    }
}
