//! `abide match`: what a robots.txt file says about URLs, without a network.
//!
//! `abide-robots` alone, for harnesses that compare matchers: a file and URLs, `--batch` with a file in each
//! line, or a million URLs for one file.

use std::path::Path;

use abide_robots::{RobotsVerdict, Rules};
use serde::{Deserialize, Serialize};

use crate::args::MatchArgs;
use crate::batch::{self, OneOrMore};
use crate::input::{self, Given, UrlOrPath, one_stdin, parse_url, read_file, robots_and_urls, tokens};
use crate::json::{self, Match, RuleLine};
use crate::sanitize::public;
use crate::status::{Status, UsageError, wrong_usage};
use crate::style;

pub(crate) fn run(args: MatchArgs) -> anyhow::Result<Status> {
    if let (Some(input), None) = (&args.batch, &args.file.robots) {
        return batch::run(input, &args.file.agent, answer);
    }
    let crawlers = args.file.agent.iter().map(|chain| tokens(&input::chain(std::slice::from_ref(chain))));
    let crawlers = crawlers.collect::<Result<Vec<_>, _>>().map_err(UsageError)?;
    let robots = args.file.robots.as_deref().unwrap_or(Path::new("-"));
    if let Some(input) = &args.batch {
        let [tokens] = crawlers.as_slice() else { return wrong_usage("--batch takes one --agent") };
        one_stdin(robots, input == Path::new("-"))?;
        let rules = Rules::parse(&read_file(robots)?, tokens);
        return batch::each_line(input, |line| bulk(&rules, line));
    }
    let (body, texts) = robots_and_urls(robots, &args.urls)?;
    style::collect_output();
    let rules: Vec<Rules> = crawlers.iter().map(|tokens| Rules::parse(&body, tokens)).collect();
    match rules.as_slice() {
        [rules] => one_crawler(rules, &texts, args.output.json),
        _ => several_crawlers(&args.file.agent, &rules, &texts, args.output.json),
    }
}

fn one_crawler(rules: &Rules, texts: &[Given<UrlOrPath>], is_json: bool) -> anyhow::Result<Status> {
    input::each(texts, is_json, |text, url| {
        let verdict = rules.verdict(&url.target());
        let status = Status::of(verdict.is_allowed());
        if !style::shows(status) {
            return Ok(status);
        }
        if is_json {
            style::print_json(&Match::new(Some(public(text).into()), &verdict))?;
        } else {
            style::say_verdict(style::mark(verdict.is_allowed()), &public(text), &verdict.to_string())?;
        }
        Ok(status)
    })
}

/// A row for each URL, and a column for each crawler; as JSON an object for each of both.
fn several_crawlers(
    agents: &[String],
    rules: &[Rules],
    texts: &[Given<UrlOrPath>],
    is_json: bool,
) -> anyhow::Result<Status> {
    if !is_json && style::shows(Status::Done) {
        let heads = agents.iter().map(|agent| (style::NAME, format!("{agent:<0$}  ", width(agent))));
        style::say(&heads.collect::<Vec<_>>())?;
    }
    input::each(texts, is_json, |text, url| {
        let verdicts = rules.iter().map(|rules| rules.verdict(&url.target())).collect::<Vec<_>>();
        let status = Status::of(verdicts.iter().all(RobotsVerdict::is_allowed));
        if !style::shows(status) {
            return Ok(status);
        }
        let mut row = Vec::new();
        for (agent, verdict) in agents.iter().zip(verdicts) {
            if is_json {
                let found = Match::new(Some(public(text).into()), &verdict);
                style::print_json(&AgentMatch { agent, found })?;
            }
            let (colour, word) = style::mark(verdict.is_allowed());
            row.push((colour, format!("{word:<0$}  ", width(agent))));
        }
        if !is_json {
            row.push((style::PLAIN, public(text).into()));
            style::say(&row)?;
        }
        Ok(status)
    })
}

/// Of a column: `allow` has five letters.
fn width(agent: &str) -> usize {
    agent.chars().count().max(5)
}

#[derive(Debug, Serialize)]
struct AgentMatch<'a> {
    agent: &'a str,
    #[serde(flatten)]
    found: Match,
}

/// What a line of a bulk match is answered with: what differs from URL to URL, and not what is the same for
/// the whole file.
#[derive(Debug, Serialize)]
struct Bulk {
    url: String,
    allowed: bool,
    rule: Option<RuleLine>,
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
    Ok(Bulk { url: public(&text).into(), allowed: verdict.is_allowed(), rule: json::rule(&verdict) })
}

#[derive(Debug, Deserialize)]
struct UrlOnly {
    url: String,
}

#[derive(Debug, Deserialize)]
struct MatchQuestion {
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: OneOrMore,
    url: String,
}

fn answer(question: MatchQuestion) -> Result<Match, String> {
    let MatchQuestion { robots, robots_base64, agent, url } = question;
    let (_, rules, url) = batch::rules_and_url(robots, robots_base64, agent, &url)?;
    Ok(Match::new(None, &rules.verdict(&url.target())))
}
