//! `abide match`: what a robots.txt file says about URLs, without a network.

use std::path::Path;

use abide_robots::Rules;
use serde::{Deserialize, Serialize};

use crate::args::MatchArgs;
use crate::input::{Asked, parse_url, parse_urls, read_file, tokens, urls};
use crate::json::{self, Match, Rule};
use crate::sanitize::public;
use crate::schema::{self, Holds, Key};
use crate::style::{self, PLAIN};
use crate::{Status, Usage, batch, online};

pub(crate) fn run(args: MatchArgs) -> anyhow::Result<Status> {
    let batch = match (&args.batch, &args.file.robots) {
        (Some(input), None) => {
            batch::without_agent(&args.file.agent)?;
            return batch::run(input, answer);
        }
        (batch, _) => batch,
    };
    let tokens = tokens(&args.file.agent).map_err(Usage)?;
    let robots = args.file.robots.as_deref().unwrap_or(Path::new("-"));
    let input = batch.as_deref().unwrap_or(Path::new(""));
    let reads_urls = args.urls.urls.iter().any(|url| url == "-") || input == Path::new("-");
    if robots == Path::new("-") && reads_urls {
        return Err(Usage("standard input can hold the robots.txt or the URLs, not both".to_owned()).into());
    }
    let rules = Rules::parse(&read_file(robots)?, &tokens);
    if batch.is_some() {
        return batch::each_line(input, |line| bulk(&rules, line));
    }
    let texts = urls(&args.urls)?;
    let urls = parse_urls(&texts)?;
    let mut status = Status::Done;
    for (text, url) in texts.iter().zip(&urls) {
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

/// What a line of a bulk match is answered with: what differs from URL to URL, and not what is the same for the whole file.
#[derive(Debug, Serialize)]
struct Bulk {
    url: String,
    allowed: bool,
    rule: Option<Rule>,
}

/// A URL, a path, or an object with a `url`.
fn bulk(rules: &Rules, line: &[u8]) -> Result<Bulk, String> {
    let text = if line.starts_with(b"{") {
        batch::object::<UrlOnly>(line)?.url
    } else {
        std::str::from_utf8(line).map_err(|_| "expected UTF-8".to_owned())?.to_owned()
    };
    let url = parse_url(&text)?;
    let verdict = rules.verdict(&url.target());
    let (allowed, rule) = (verdict.is_allowed(), json::rule(&verdict));
    Ok(Bulk { url: url.without_user(text), allowed, rule })
}

#[derive(Debug, Deserialize)]
struct UrlOnly {
    url: String,
}

impl schema::Schema for UrlOnly {
    const KEYS: &'static [Key] = &[Key::required("url", Holds::Text)];
}

#[derive(Debug, Deserialize)]
struct Question {
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: batch::OneOrMore,
    url: String,
}

impl schema::Schema for Question {
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
