//! `abide match`: what a robots.txt file says about URLs, without a network.

use std::path::Path;

use abide_robots::Rules;
use serde::Deserialize;

use crate::args::MatchArgs;
use crate::input::{Asked, parse_url, parse_urls, read_file, tokens};
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
