//! `abide fetch`: URLs through the whole middleware.
//!
//! What the library does for one request, as JSON: hops, verdict, waits, permissions. `crawl` fetches with
//! it, so both report a page alike.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use abide::pacing::{WaitRequest, wait_request};
use abide::{
    Abide, Denied, DeniedKind, Failure, HeadEnd, Hop, Options, RedirectHistory, RedirectPolicy,
    RequestBuilderExt, ResponseExt, Stopped, Verdict,
};
use abide_http::root_cause;
use abide_permissions::{Preference, Question};
use anstyle::Style;
use http::Method;
use http::header::HeaderMap;
use serde::Serialize;
use url::Url;

use crate::args::FetchArgs;
use crate::input::{Given, absolute_urls, can_write};
use crate::json::{Answers, OnlineVerdict, RefusalLine, StatedPreference, Tags, millis, not_before, rfc3339};
use crate::online;
use crate::outcome::{self, Outcome};
use crate::own_site::OwnSite;
use crate::recorder::{self, Client, Recorder, Sent};
use crate::sanitize::{cut, public, public_url};
use crate::status::{Status, wrong_usage};
use crate::style::{self, PLAIN};

#[derive(Debug, Default, Serialize)]
pub(crate) struct FetchLine {
    pub(crate) url: String,
    pub(crate) outcome: Outcome,
    pub(crate) status: Option<u16>,
    pub(crate) final_url: Option<String>,
    pub(crate) hops: Vec<HopLine>,
    pub(crate) verdict: Option<OnlineVerdict>,
    pub(crate) permissions: Option<Tags>,
    /// What the site asks of those who use the content, and where.
    pub(crate) preferences: Vec<StatedPreference>,
    /// Whether all was read that may state them.
    pub(crate) preferences_known: Option<bool>,
    pub(crate) noindex: Option<bool>,
    #[serde(flatten)]
    pub(crate) answers: Answers,
    /// Who has answered in place of the site, if that was recognised: this is not the page.
    pub(crate) refusal: Option<RefusalLine>,
    pub(crate) waited_ms: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) why: String,
    /// When to ask again, if that is not now.
    pub(crate) not_before: Option<String>,
    /// When the last request left, or when it was decided that none does.
    pub(crate) time: String,
}

/// One request of the chain; the last one may not have gone out.
#[derive(Debug, Serialize)]
pub(crate) struct HopLine {
    pub(crate) url: String,
    pub(crate) status: Option<u16>,
    pub(crate) allowed: bool,
}

pub(crate) fn run(args: &FetchArgs) -> anyhow::Result<Status> {
    let urls = absolute_urls(&args.urls)?;
    if args.output_file.is_some() && urls.len() > 1 {
        return wrong_usage("--output: expected one URL to write the body of, found more");
    }
    let is_piped = args.output_file.as_deref() == Some(Path::new("-"));
    if is_piped && args.online.output.json {
        return wrong_usage("--output -: standard output can hold the body or --json, not both");
    }
    online::run(&args.online, async |abide, inner| {
        let given = urls.iter().flatten().map(|(_, url)| url.clone()).collect();
        let own_site = OwnSite::new(&args.own_site, given, &args.online)?;
        let client = recorder::client(abide, inner, &args.online, own_site, args.online.output.verbose)?;
        match (&args.output_file, urls.as_slice()) {
            (Some(path), [Ok((url, _))]) => fetch_to(args, url, path, &client).await,
            _ => fetch_all(args, &urls, &client).await,
        }
    })
}

async fn fetch_all(args: &FetchArgs, urls: &[Given<Url>], client: &Client) -> anyhow::Result<Status> {
    let fetch = |text, _| async move {
        let recorder = Recorder::with_page_max(args.page_timeout);
        ask(client, Ask::get(text, options()), &recorder, |_| ControlFlow::Continue(())).await
    };
    let status = online::in_order(&args.online, urls, fetch, |answer| {
        show(args, client, &answer, false)?;
        Ok(status(&answer))
    })
    .await?;
    Ok(status.and(is_let_in(client)))
}

/// No host is held: also where the last URL was the one with which it was.
fn is_let_in(client: &Client) -> Status {
    Status::of(client.abide.gate().stats().refusing == 0)
}

/// The body of one page to a file, as it comes; `-` is standard output, and what there is to say goes to
/// standard error then.
async fn fetch_to(args: &FetchArgs, url: &str, path: &Path, client: &Client) -> anyhow::Result<Status> {
    let is_piped = path == Path::new("-");
    if !is_piped {
        can_write(path)?;
    }
    let named = |error: io::Error| match is_piped {
        true => error.into(),
        false => anyhow::Error::new(error).context(path.display().to_string()),
    };
    let recorder = Recorder::with_page_max(args.page_timeout);
    let (mut out, mut written) = (None, Ok(()));
    let sink = |chunk: &[u8]| {
        written = write(&mut out, path, chunk);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let answer = ask(client, Ask::get(url, options()), &recorder, sink).await;
    let is_fetched = answer.line.outcome == Outcome::Fetched;
    // A page without a body is an empty file, not none.
    let ended = if is_fetched { write(&mut out, path, &[]) } else { Ok(()) };
    let flushed = |()| out.as_mut().map_or(Ok(()), |out| out.flush());
    written.and(ended).and_then(flushed).map_err(named)?;
    show(args, client, &answer, is_piped)?;
    Ok(status(&answer).and(is_let_in(client)))
}

fn status(answer: &FetchAnswer) -> Status {
    Status::of(answer.line.outcome == Outcome::Fetched)
}

/// There is no cookie jar, so a URL that redirects to itself again does so for ever.
fn options() -> Options {
    Options::new().with_redirects(RedirectPolicy::default().with_repeats_returned(true))
}

/// Writes to a file that is created, or emptied, now: one that exists keeps its content until there is
/// something to replace it.
fn write(out: &mut Option<Box<dyn Write>>, path: &Path, chunk: &[u8]) -> io::Result<()> {
    let out = match out {
        Some(out) => out,
        None if path == Path::new("-") => out.insert(Box::new(io::stdout().lock())),
        None => out.insert(Box::new(BufWriter::new(File::create(path)?))),
    };
    out.write_all(chunk)
}

fn show(args: &FetchArgs, client: &Client, answer: &FetchAnswer, is_piped: bool) -> anyhow::Result<()> {
    let output = &args.online.output;
    if let Some(hint) = client.own_site.hint(&answer.line) {
        style::note(format_args!("{hint}"));
    }
    if !style::shows(status(answer)) {
        return Ok(());
    }
    if output.json {
        return style::print_json(&answer.line);
    }
    if !is_piped {
        return lines(answer).iter().try_for_each(|line| Ok(style::say(line)?));
    }
    if output.verbose || answer.line.outcome != Outcome::Fetched {
        lines(answer).iter().for_each(|line| style::mention(line));
    }
    Ok(())
}

/// One URL, answered: its line, and what a crawl goes on with.
#[derive(Debug, Default)]
pub(crate) struct FetchAnswer {
    pub(crate) line: FetchLine,
    /// The verdict that it was fetched or denied by.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) content_type: Option<String>,
    /// Where the response redirects to, if that is left to the caller.
    pub(crate) redirect: Option<RedirectAnswer>,
    /// The header field that is as a meta of this name: it leads to another page.
    pub(crate) refresh: Option<String>,
    /// Set by a crawl that knows an earlier version.
    pub(crate) changed: Option<bool>,
    /// The header fields of the response.
    pub(crate) fields: HeaderMap,
    /// Whether the page's own rules permit its links to be followed.
    pub(crate) may_follow: bool,
    /// Why, if they do not.
    pub(crate) follow: Preference,
    /// Also by an `unavailable_after` that has passed, which is no `noindex`.
    indexing: Preference,
    pub(crate) not_before: Option<SystemTime>,
    /// The host refuses us, and is held until then.
    pub(crate) held_until: Option<SystemTime>,
    /// It was deferred, or denied as long as robots.txt cannot be had, or its host is backed off: a crawl
    /// leaves it for its next run.
    pub(crate) is_left: bool,
    /// The connection was closed before an answer came.
    pub(crate) is_unanswered: bool,
    /// What the site states, each with the header field or meta that says it: `X-Robots-Tag line 1:
    /// noindex`.
    statements: Vec<String>,
    /// Rules against uses for AI that are no preference: `noai` and `noimageai`.
    pub(crate) no_ai: Vec<StatedPreference>,
    /// Why it was refused or denied, in words that are the same for each URL, where `why` names the URL.
    pub(crate) cause: Option<String>,
    /// Why, in a few words, for a line that has the URL.
    pub(crate) brief: String,
}

impl FetchAnswer {
    /// Adds to the reason what there is to say besides.
    pub(crate) fn add_note(&mut self, note: &str) {
        for text in [&mut self.line.why, &mut self.brief] {
            text.push_str("; ");
            text.push_str(note);
        }
    }
}

/// A redirect that was not followed.
#[derive(Debug)]
pub(crate) struct RedirectAnswer {
    pub(crate) url: Url,
    /// The server asks to wait so long before the request.
    pub(crate) wait: Duration,
}

impl RedirectAnswer {
    /// Of a response whose `Location` was found good.
    fn of(abide: &Abide, response: &reqwest::Response) -> Option<Self> {
        let text = abide_gate::location(response.headers()).ok()??;
        let url = public_url(&response.url().join(&text).ok()?);
        let asked = wait_request(response.status(), response.headers(), abide.gate().wall());
        let wait =
            if let WaitRequest::NextHop { retry_after } = asked { retry_after } else { Duration::ZERO };
        Some(Self { url, wait })
    }
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    /// As it was given: its user information goes to the site, and is shown nowhere.
    pub(crate) url: &'a str,
    pub(crate) method: Method,
    pub(crate) options: Options,
    /// Besides those of every request.
    pub(crate) fields: HeaderMap,
    /// It is on another site than those that the call is for: it gets no field of `--header`, which may be a
    /// secret.
    pub(crate) is_foreign: bool,
}

impl<'a> Ask<'a> {
    pub(crate) fn get(url: &'a str, options: Options) -> Self {
        Self { url, method: Method::GET, options, fields: HeaderMap::new(), is_foreign: false }
    }
}

/// Fetches a URL. The body goes to `sink`, piece by piece, until it ends or `sink` has enough.
pub(crate) async fn ask(
    client: &Client,
    Ask { url: text, method, options, fields, is_foreign }: Ask<'_>,
    recorder: &Recorder,
    sink: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> FetchAnswer {
    let Client { abide, http, own_site, fields: given } = client;
    let mut request = http.request(method, text);
    if !is_foreign {
        // On the request itself, so that a redirect to another origin strips credentials among them.
        request = given.iter().fold(request, |request, (name, value)| request.header(name, value));
    }
    let mut request = request.headers(fields);
    if let Ok(url) = text.parse() {
        request = own_site.log_in(request, &url);
    }
    let mut request = request.abide(own_site.options(options)).with_extension(recorder.clone());
    let mut extensions = std::mem::take(request.extensions());
    let answered = match request.build() {
        Ok(request) => http.execute_with_extensions(request, &mut extensions).await,
        Err(error) => Err(error.into()),
    };
    let mut answer = match answered {
        Ok(response) => {
            let mut answer = fetched(abide, text, &response);
            answer.line.hops = recorder.sent().iter().map(HopLine::sent).collect();
            let hops = response.fetch_info().map(|info| info.hops()).unwrap_or_default();
            if answer.line.hops.len() < hops.len() {
                // What goes out over HTTP/1.1 alone is not recorded.
                answer.line.hops = hops.iter().map(HopLine::answered).collect();
            }
            read(response, &mut answer, recorder, sink).await;
            answer
        }
        Err(error) => {
            let mut answer = failed(abide, text, &error, recorder);
            // Its error does not say how long the call waited.
            let history = extensions.get::<RedirectHistory>();
            answer.line.waited_ms = history.map(|history| millis(history.waited())).unwrap_or_default();
            answer
        }
    };
    let since = recorder.sent().last().map(|sent| sent.at.elapsed()).unwrap_or_default();
    let time = SystemTime::now().checked_sub(since).unwrap_or(SystemTime::UNIX_EPOCH);
    answer.line.time = rfc3339(time.into());
    answer
}

fn failed(abide: &Abide, text: &str, error: &reqwest_middleware::Error, recorder: &Recorder) -> FetchAnswer {
    let (denied, sent) = (Denied::find(error), recorder.sent());
    let outcome = denied.as_ref().map_or(Outcome::Error, Outcome::of);
    let mut line = FetchLine { url: public(text).into(), outcome, ..FetchLine::default() };
    line.hops = sent.iter().map(HopLine::sent).collect();
    if let Some(denied) = &denied {
        refused(abide, denied, &mut line);
    } else {
        // The network failed, or a page took too long; what was sent until then was recorded.
        line.verdict = sent.last().and_then(|sent| known(abide, &sent.url));
        line.why = match error {
            reqwest_middleware::Error::Reqwest(error) => why_failed(error, recorder),
            reqwest_middleware::Error::Middleware(error) => error.root_cause().to_string(),
        };
    }
    line.final_url = line.hops.last().map(|hop| hop.url.clone());
    let deferred = denied.as_ref().filter(|denied| matches!(denied.kind(), DeniedKind::Deferred { .. }));
    let (not_before, cause) = (deferred.and_then(Denied::retry_at), denied.as_ref().and_then(outcome::cause));
    let held = denied.as_ref().filter(|denied| matches!(denied.kind(), DeniedKind::Refusing { .. }));
    let held_until = held.and_then(Denied::retry_at);
    let is_left = deferred.is_some() || held.is_some() || denied.as_ref().is_some_and(Denied::is_unreachable);
    let is_unanswered = denied.is_none() && abide_http::failure_of(error) == Some(Failure::Reset);
    let brief = denied.as_ref().map_or_else(|| line.why.clone(), outcome::brief);
    let verdict = denied.as_ref().and_then(|denied| match denied.kind() {
        DeniedKind::Disallowed { verdict } => Some(verdict.clone()),
        _ => None,
    });
    FetchAnswer {
        line,
        verdict,
        not_before,
        held_until,
        is_left,
        is_unanswered,
        cause,
        brief,
        ..FetchAnswer::default()
    }
}

fn fetched(abide: &Abide, text: &str, response: &reqwest::Response) -> FetchAnswer {
    let mut answer = FetchAnswer::default();
    let lines = response.headers().get_all(http::header::CONTENT_TYPE).into_iter();
    let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    answer.content_type = (!lines.is_empty()).then(|| lines.join(", "));
    answer.fields = response.headers().clone();
    let refresh = response.headers().get("refresh");
    answer.refresh = refresh.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let line = &mut answer.line;
    line.url = public(text).into();
    line.outcome = Outcome::Fetched;
    line.status = Some(response.status().as_u16());
    line.final_url = Some(public_url(response.url()).into());
    if let Some(info) = response.fetch_info() {
        let (permissions, preferences) = (info.permissions(), info.preferences());
        answer.verdict = info.verdict().cloned();
        line.verdict = info.verdict().map(|verdict| OnlineVerdict::new(verdict, abide.gate().wall()));
        line.permissions = Some(Tags::new(&permissions, &preferences));
        line.preferences = StatedPreference::all(&preferences);
        line.preferences_known = Some(preferences.is_complete());
        line.noindex = permissions.noindex_known();
        line.answers = Answers::new(&permissions, &preferences);
        line.waited_ms = millis(info.waited());
        line.why = info.verdict().map(ToString::to_string).unwrap_or_default();
        answer.brief = info.verdict().map(outcome::rule).unwrap_or_default();
        if let Some(refusal) = info.refusal() {
            // It is not the page, whatever its status.
            line.outcome = Outcome::Refused;
            line.refusal = Some(RefusalLine::new(refusal));
            line.why = format!("{refusal}: {}", refusal.evidence());
            answer.brief.clone_from(&line.why);
            answer.cause = Some(refusal.to_string());
        }
        match info.stopped() {
            // The crawl's limit is none: where a redirect leads is its next URL.
            Some(Stopped::AtLimit) if info.refusal().is_none() => {
                answer.redirect = RedirectAnswer::of(abide, response);
            }
            Some(stopped) => answer.add_note(&stopped.to_string()),
            None => {}
        }
        if let Some(redirect) = &answer.redirect {
            answer.line.final_url = Some(redirect.url.to_string());
        }
        let head = permissions.head_end();
        if head == HeadEnd::Undecoded || head.is_incomplete_scan() {
            answer.add_note(&format!("its head was not read whole: {head}"));
        }
        answer.may_follow = permissions.may_follow();
        answer.follow = permissions.answer(Question::Follow).preference();
        answer.indexing = permissions.answer(Question::Index).preference();
        answer.no_ai = StatedPreference::no_ai(&permissions);
        let rules = permissions.statements().iter().map(|(place, rules)| format!("{place}: {rules}"));
        let usages = answer.line.preferences.iter();
        let usages =
            usages.map(|stated| format!("{}: {} {}", stated.source, stated.usage, stated.preference));
        let purpose = info.purpose().map(|usage| format!("{usage}: {}", info.allows_purpose()));
        answer.statements = rules.chain(usages).chain(purpose).collect();
    }
    answer
}

/// Reads the body, which ends here also when `sink` has enough.
async fn read(
    mut response: reqwest::Response,
    answer: &mut FetchAnswer,
    recorder: &Recorder,
    mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    let line = &mut answer.line;
    let mut bytes = 0_u64;
    let failure = loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                bytes = bytes.saturating_add(chunk.len() as u64);
                // What is not the page is not written.
                if line.refusal.is_none() && sink(&chunk).is_break() {
                    break None;
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(why_failed(&error, recorder)),
        }
    };
    line.bytes = Some(bytes);
    if let Some(why) = failure {
        line.outcome = Outcome::Error;
        answer.brief.clone_from(&why);
        line.why = why;
    }
}

/// Completes the line of a URL that was refused behind these hops.
fn refused(abide: &Abide, denied: &Denied, line: &mut FetchLine) {
    line.why = outcome::why(denied);
    line.not_before = not_before(denied);
    line.refusal = match denied.kind() {
        DeniedKind::Unreachable { cause, .. } => cause.refusal().as_ref().map(RefusalLine::new),
        DeniedKind::Refusing { by, .. } => by.as_ref().map(RefusalLine::new),
        _ => None,
    };
    line.verdict = match denied.kind() {
        DeniedKind::Disallowed { verdict } => Some(OnlineVerdict::new(verdict, abide.gate().wall())),
        _ => known(abide, denied.url()),
    };
    // The chain that is too long is among the recorded hops already; the others end with what did not go out.
    if !matches!(denied.kind(), DeniedKind::TooManyRedirects | DeniedKind::RedirectBypass { .. }) {
        // What is deferred may be asked for: later.
        let allowed = line.outcome == Outcome::Deferred
            && line.verdict.as_ref().is_some_and(|v| v.found.allowed == Some(true));
        line.hops.push(HopLine { url: denied.url().to_string(), status: None, allowed });
    }
}

fn why_failed(error: &reqwest::Error, recorder: &Recorder) -> String {
    if error.is_timeout() {
        return timed_out(recorder.overdue());
    }
    let failure = abide_http::failure_of(error).map(|failure| failure.to_string());
    failure.unwrap_or_else(|| root_cause(error).to_string())
}

/// A server that is silent for long ends a request as well, before its page is overdue.
fn timed_out(overdue: Option<Duration>) -> String {
    match overdue {
        Some(max) => format!("the page had not ended after {} s (--page-timeout)", max.as_secs_f64()),
        None => format!("the server sent nothing for {} s", online::READ_TIMEOUT.as_secs()),
    }
}

/// What is known of a URL, without asking.
fn known(abide: &Abide, url: &Url) -> Option<OnlineVerdict> {
    let verdict = abide.check_cached(url)?;
    Some(OnlineVerdict::new(&verdict, abide.gate().wall()))
}

impl HopLine {
    /// A request that was answered, as the library knows it.
    fn answered(hop: &Hop) -> Self {
        Self { url: public_url(hop.url()).to_string(), status: Some(hop.status().as_u16()), allowed: true }
    }

    /// A request that went out, and so was allowed.
    fn sent(sent: &Sent) -> Self {
        Self { url: sent.url.to_string(), status: sent.status, allowed: true }
    }
}

/// One URL for people: the outcome, the hops, why, and which field or meta says what.
fn lines(answer: &FetchAnswer) -> Vec<Vec<(Style, String)>> {
    let line = &answer.line;
    let mark = line.outcome.mark(line.status, "error");
    let mut lines = vec![vec![mark, (PLAIN, format!("  {}", line.url))]];
    lines.extend(line.hops.iter().skip(1).map(|hop| vec![(PLAIN, format!("     → {}", cut(&hop.url)))]));
    let mut details = vec![answer.brief.clone()];
    if let Some(bytes) = line.bytes {
        let indexing = match answer.indexing {
            Preference::Disallow => "not to be indexed",
            Preference::Allow => "may be indexed",
            Preference::Unset | Preference::Unknown => "indexing permission unknown",
        };
        details.push(format!("{bytes} bytes, waited {} ms, {indexing}", line.waited_ms));
    }
    details.extend(answer.statements.iter().map(|statement| cut(statement)));
    lines.extend(details.into_iter().map(|detail| vec![(style::DIM, format!("     {detail}"))]));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_timeout_differs_from_a_silent_server() {
        let sentence = timed_out(Some(Duration::from_millis(1500)));
        assert_eq!(sentence, "the page had not ended after 1.5 s (--page-timeout)");
        assert_eq!(timed_out(None), "the server sent nothing for 60 s");
    }
}
