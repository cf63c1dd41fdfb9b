//! `abide match`: what a robots.txt file says about URLs, without a network.
//!
//! `abide-robots` alone, for harnesses that compare matchers: a file and URLs, `--batch` with a file in each line, or a million URLs for one file.

use std::path::Path;

use abide_robots::Rules;
use serde::{Deserialize, Serialize};

use crate::args::MatchArgs;
use crate::batch::{self, OneOrMore};
use crate::input::{self, one_stdin, parse_url, read_file, robots_and_urls, tokens};
use crate::json::{self, Match, RuleLine};
use crate::sanitize::public;
use crate::status::{Status, UsageError};
use crate::style;

pub(crate) fn run(args: MatchArgs) -> anyhow::Result<Status> {
    if let (Some(input), None) = (&args.batch, &args.file.robots) {
        return batch::run(input, &args.file.agent, answer);
    }
    let tokens = tokens(&args.file.agent).map_err(UsageError)?;
    let robots = args.file.robots.as_deref().unwrap_or(Path::new("-"));
    if let Some(input) = &args.batch {
        one_stdin(robots, input == Path::new("-"))?;
        let rules = Rules::parse(&read_file(robots)?, &tokens);
        return batch::each_line(input, |line| bulk(&rules, line));
    }
    let (body, texts) = robots_and_urls(robots, &args.urls)?;
    let rules = Rules::parse(&body, &tokens);
    input::each(&texts, args.output.json, |text, url| {
        let verdict = rules.verdict(&url.target());
        if args.output.json {
            style::print_json(&Match::new(Some(public(text).into()), &verdict))?;
        } else {
            style::say_verdict(style::mark(verdict.is_allowed()), &public(text), &verdict.to_string())?;
        }
        Ok(Status::of(verdict.is_allowed()))
    })
}

/// What a line of a bulk match is answered with: what differs from URL to URL, and not what is the same for the whole file.
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
