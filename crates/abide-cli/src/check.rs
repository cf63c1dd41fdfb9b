//! `abide check`: asks for robots.txt, never for the URLs.

use std::borrow::Cow;
use std::sync::Arc;

use abide::{Abide, Denied, Verdict};
use futures_util::{Stream, StreamExt};
use serde::Serialize;

use crate::args::{CheckArgs, Online};
use crate::input::{absolute, absolute_urls};
use crate::json::{OnlineVerdict, not_before};
use crate::observer::GateObserver;
use crate::online::{self, Interruption};
use crate::outcome::{self, Outcome};
use crate::sanitize::public;
use crate::style::PLAIN;
use crate::{Status, style};

/// What robots.txt says of a URL, or why that is unknown.
pub(crate) type Judged = Result<Verdict, Denied>;

/// One line of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    url: Cow<'a, str>,
    outcome: Outcome,
    #[serde(flatten)]
    verdict: OnlineVerdict,
    /// When to ask again, if that is not now.
    not_before: Option<String>,
    /// Why there is no verdict.
    error: Option<String>,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Status> {
    let urls = absolute_urls(&args.urls)?;
    let observer = Arc::new(GateObserver::stores());
    online::run(&args.online, &observer, Interruption::Ends, async |abide, _| {
        check_all(args, &urls, &abide).await
    })
}

async fn check_all(args: &CheckArgs, urls: &[String], abide: &Abide) -> anyhow::Result<Status> {
    let mut answers = std::pin::pin!(answers(&args.online, urls, abide));
    let mut status = Status::Done;
    while let Some((text, result)) = answers.next().await {
        status = status.and(Status::of(result.as_ref().is_ok_and(Verdict::is_allowed)));
        if args.online.output.json {
            online::print_json(&line(abide, text, &result))?;
        } else {
            print(abide, text, &result)?;
        }
    }
    Ok(status)
}

/// What robots.txt says of each URL, in their order.
pub(crate) fn answers<'a>(
    online: &'a Online,
    urls: &'a [String],
    abide: &'a Abide,
) -> impl Stream<Item = (&'a str, Judged)> + 'a {
    online::in_order(online, urls, |url| check(abide, url))
}

#[allow(clippy::expect_used, reason = "`run` refuses what is no URL")]
async fn check<'a>(abide: &Abide, text: &'a str) -> (&'a str, Judged) {
    let url = absolute(text).expect("every URL has been parsed before the first is asked for");
    (text, abide.check(&url).await)
}

pub(crate) fn line<'a>(abide: &Abide, text: &'a str, result: &Judged) -> Line<'a> {
    let url = public(text);
    match result {
        Ok(verdict) => {
            let now = abide.gate_handle().wall();
            let refusal = refusal(abide, text, verdict);
            let outcome = refusal.as_ref().map_or(Outcome::Allowed, Outcome::of);
            let not_before = refusal.as_ref().and_then(not_before);
            let mut verdict = OnlineVerdict::new(verdict, now);
            let mut error = None;
            if let Some(denied) = refusal.filter(|_| outcome == Outcome::Refused) {
                // It is ours and no verdict of the site.
                verdict.allowed = None;
                verdict.why = outcome::why(&denied);
                error = Some(verdict.why.clone());
            }
            Line { url, outcome, verdict, not_before, error }
        }
        Err(denied) => Line {
            url,
            outcome: Outcome::of(denied),
            verdict: OnlineVerdict::none(outcome::why(denied)),
            not_before: not_before(denied),
            error: Some(outcome::why(denied)),
        },
    }
}

/// What a verdict that does not allow comes to.
fn refusal(abide: &Abide, text: &str, verdict: &Verdict) -> Option<Denied> {
    verdict.refusal(&text.parse().ok()?, abide.gate_handle().wall())
}

pub(crate) fn print(abide: &Abide, text: &str, result: &Judged) -> anyhow::Result<()> {
    let ours = |denied: &Denied| {
        let why = outcome::why(denied);
        // The URL stands before it already.
        let url = format!("{}: ", public(text));
        let why = why.strip_prefix(&url).map_or(why.clone(), str::to_owned);
        ((style::WAIT, Outcome::of(denied).as_str()), why)
    };
    let (mark, said) = match result {
        Ok(verdict) => match refusal(abide, text, verdict) {
            Some(denied) if Outcome::of(&denied) == Outcome::Refused => ours(&denied),
            _ => (style::mark(verdict.is_allowed()), verdict.to_string()),
        },
        Err(denied) => ours(denied),
    };
    Ok(style::say(&[mark, (PLAIN, &format!("  {}  {said}", public(text)))])?)
}
