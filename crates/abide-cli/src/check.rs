//! `abide check`: asks for robots.txt, never for the URLs.

use std::borrow::Cow;
use std::sync::Arc;

use abide::{Abide, Denied, Verdict};
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use url::Url;

use crate::args::CheckArgs;
use crate::fetch::refusal_word;
use crate::json::{OnlineVerdict, not_before};
use crate::match_urls::{Asked, parse_url, quoted};
use crate::online::{self, Interruption};
use crate::shown::public;
use crate::style::PLAIN;
use crate::watch::Watch;
use crate::{Status, Usage, style};

/// What robots.txt says of a URL, or why it cannot be told.
pub(crate) type Judged = Result<Verdict, Denied>;

/// One line of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    url: Cow<'a, str>,
    outcome: &'static str,
    #[serde(flatten)]
    verdict: OnlineVerdict,
    /// When to ask again, if that is not now.
    not_before: Option<String>,
    /// Why there is no verdict.
    error: Option<String>,
}

pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<Status> {
    // A malformed URL is wrong usage, and nothing is asked then.
    for url in &args.urls {
        absolute(url)?;
    }
    let watch = Arc::new(Watch::stores());
    online::run(&args.online, &watch, Interruption::Ends, async |abide, _| check_all(args, &abide).await)
}

async fn check_all(args: &CheckArgs, abide: &Abide) -> anyhow::Result<Status> {
    let mut answers = std::pin::pin!(answers(args, abide));
    let mut status = Status::Done;
    while let Some((text, result)) = answers.next().await {
        status = status.and(Status::of(result.as_ref().is_ok_and(Verdict::is_allowed)));
        if args.online.output.json {
            online::print_json(&line(abide, text, &result))?;
        } else {
            print(text, &result)?;
        }
    }
    Ok(status)
}

/// What robots.txt says of each URL, in their order.
pub(crate) fn answers<'a>(
    args: &'a CheckArgs,
    abide: &'a Abide,
) -> impl Stream<Item = (&'a str, Judged)> + 'a {
    online::in_order(&args.online, &args.urls, |url| check(abide, url))
}

/// An absolute URL; a path alone has no robots.txt.
pub(crate) fn absolute(text: &str) -> anyhow::Result<Url> {
    match parse_url(text).map_err(Usage)? {
        Asked::Url(url) => Ok(url),
        Asked::Path(path) => {
            Err(Usage(format!("url {}: expected an absolute http or https URL", quoted(&path))).into())
        }
    }
}

async fn check<'a>(abide: &Abide, text: &'a str) -> (&'a str, Judged) {
    let url = absolute(text).expect("every URL has been parsed before the first is asked for");
    (text, abide.check(&url).await)
}

pub(crate) fn line<'a>(abide: &Abide, text: &'a str, result: &Judged) -> Line<'a> {
    let url = public(text);
    match result {
        Ok(verdict) => {
            let outcome = if verdict.is_allowed() { "allowed" } else { "denied" };
            let now = abide.gate_handle().wall();
            let refusal = text.parse().ok().and_then(|url| verdict.refusal(&url, now));
            let not_before = refusal.as_ref().and_then(not_before);
            let verdict = OnlineVerdict::new(verdict, now);
            Line { url, outcome, verdict, not_before, error: None }
        }
        Err(denied) => Line {
            url,
            outcome: refusal_word(denied),
            verdict: OnlineVerdict::none(denied.to_string()),
            not_before: not_before(denied),
            error: Some(denied.to_string()),
        },
    }
}

pub(crate) fn print(text: &str, result: &Judged) -> anyhow::Result<()> {
    let (mark, said) = match result {
        Ok(verdict) => (style::mark(verdict.is_allowed()), verdict.to_string()),
        Err(denied) => ((style::WAIT, refusal_word(denied)), denied.to_string()),
    };
    Ok(style::say(&[mark, (PLAIN, &format!("  {}  {said}", public(text)))])?)
}
