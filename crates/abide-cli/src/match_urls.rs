//! `abide match`: what a robots.txt file says about URLs, without a network.

use std::io::Read;
use std::path::Path;

use abide_robots::{ProductToken, Rules, Target};
use serde::Deserialize;
use url::Url;

use crate::args::MatchArgs;
use crate::json::Match;
use crate::question::{self, Holds, Key};
use crate::shown::public;
use crate::style::{self, PLAIN};
use crate::{Status, Usage, batch, online};

pub(crate) fn run(args: MatchArgs) -> anyhow::Result<Status> {
    if let Some(input) = &args.batch {
        return batch::run(input, answer);
    }
    let tokens = tokens(&args.agent).map_err(Usage)?;
    let body = read_file(args.robots.as_deref().unwrap_or(Path::new("-")))?;
    let rules = Rules::parse(&body, &tokens);
    let urls = parse_urls(&args.urls)?;
    let mut status = Status::Done;
    for (text, url) in args.urls.iter().zip(&urls) {
        let verdict = rules.verdict(&url.target());
        status = status.and(Status::of(verdict.is_allowed()));
        if args.output.json {
            online::print_json(&Match::new(Some(public(text).into()), &verdict))?;
        } else {
            let said = format!("  {}  {verdict}", public(text));
            style::say(&[style::mark(verdict.is_allowed()), (PLAIN, &said)])?;
        }
    }
    Ok(status)
}

#[derive(Debug, Deserialize)]
struct Question {
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: batch::OneOrMore,
    url: String,
}

impl question::Question for Question {
    const KEYS: &'static [Key] = &[
        Key::optional("robots", Holds::Text),
        Key::optional("robots_base64", Holds::Text),
        Key::required("agent", Holds::Texts),
        Key::required("url", Holds::Text),
    ];
}

fn answer(question: Question) -> Result<Match, String> {
    let Question { robots, robots_base64, agent, url } = question;
    let (rules, url) = rules_and_url(robots, robots_base64, agent, &url)?;
    Ok(Match::new(None, &rules.verdict(&url.target())))
}

/// What a question of a batch is about: a robots.txt as it is for an agent, and a URL.
pub(crate) fn rules_and_url(
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: batch::OneOrMore,
    url: &str,
) -> Result<(Rules, Asked), String> {
    let body = batch::bytes("robots", robots, robots_base64)?
        .ok_or("expected \"robots\" or \"robots_base64\", found neither")?;
    let tokens = tokens(&agent.into_vec())?;
    let url = parse_url(url)?;
    Ok((Rules::parse(&body, &tokens), url))
}

/// The chain of product tokens. Offline, tokens such as MJ12bot are understood, too.
pub(crate) fn tokens(agents: &[String]) -> Result<Vec<ProductToken>, String> {
    if agents.is_empty() {
        return Err("expected at least one product token, found none".to_owned());
    }
    agents
        .iter()
        .map(|agent| {
            ProductToken::lenient(agent).map_err(|error| format!("agent {}: {error}", quoted(agent)))
        })
        .collect()
}

/// An absolute http(s) URL, or a path and query.
#[derive(Debug)]
pub(crate) enum Asked {
    Url(Url),
    Path(String),
}

impl Asked {
    pub(crate) fn target(&self) -> Target<'_> {
        match self {
            Self::Url(url) => Target::of(url),
            Self::Path(path) => Target::new(path),
        }
    }
}

/// One that is wrong is wrong usage, and nothing is answered then.
pub(crate) fn parse_urls(texts: &[String]) -> Result<Vec<Asked>, Usage> {
    texts.iter().map(|text| parse_url(text)).collect::<Result<_, _>>().map_err(Usage)
}

pub(crate) fn parse_url(text: &str) -> Result<Asked, String> {
    if text.starts_with('/') && !text.starts_with("//") {
        return Ok(Asked::Path(text.to_owned()));
    }
    let wrong = |what: &str| Err(format!("url {}: {what}", quoted(text)));
    let with_scheme = || format!("expected an absolute URL, such as {}", meant(text));
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(url::ParseError::RelativeUrlWithoutBase) if text.is_empty() => {
            return wrong("expected a URL, found nothing");
        }
        Err(url::ParseError::RelativeUrlWithoutBase) => return wrong(&with_scheme()),
        Err(error) => return wrong(&error.to_string()),
    };
    if !url.has_host() && text.contains('@') && url.scheme() != "mailto" {
        // What reads as a scheme is the name of a user.
        return wrong(&with_scheme());
    }
    match url.scheme() {
        "http" | "https" => Ok(Asked::Url(url)),
        // What reads as a scheme is a name, and its port stands behind it.
        _ if url.path().starts_with(|letter: char| letter.is_ascii_digit()) => wrong(&with_scheme()),
        scheme => wrong(&format!("expected http or https, found the scheme {}", quoted(scheme))),
    }
}

/// What browsers make of an address that is typed, if it looks like one.
fn meant(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let rest = text.rsplit_once('@').map_or(text, |(_, host)| host).trim_start_matches('/');
    format!("{:?}", format!("https://{}", if rest.len() > SHOWN_MAX { "example.org/" } else { rest }))
}

/// What was given, for a message: without user information, escaped, and cut where it would fill the screen.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 200;
    let text = public(text);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Far more than is looked at of a robots.txt or of the head of a page.
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// A file up to [`FILE_MAX`]; `-` is standard input.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(FILE_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes))
    };
    read.map(|_| bytes).map_err(|error| Usage(format!("{}: {error}", path.display())).into())
}
