//! `abide agents`: what a robots.txt allows the crawlers that people ask about, and by which group.
//!
//! For authors of sites, who name some of these crawlers and forget others. `agents.tsv` has the crawlers,
//! each with the page on which its operator documents the product token.

use abide_robots::{ProductToken, Record, RecordKind, Robots, Rules, Target};
use serde::Serialize;

use crate::args::AgentsArgs;
use crate::robots_texts::{self, RobotsText};
use crate::status::Status;
use crate::style::{self, PLAIN};

/// A line of `agents.tsv`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Agent {
    kind: &'static str,
    #[serde(rename = "agent")]
    pub(crate) token: &'static str,
    pub(crate) operator: &'static str,
    source: &'static str,
}

/// How much of a site a crawler may fetch, by the rules of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// No Disallow is for it.
    Full,
    /// There is a Disallow, and not for all.
    Partial,
    /// Everything is disallowed, and no Allow takes anything out.
    None,
}

/// What a robots.txt says to one crawler: a line of `--json`.
#[derive(Debug, Serialize)]
struct AgentLine<'a> {
    file: &'a str,
    #[serde(flatten)]
    agent: Agent,
    access: Access,
    /// The User-agent lines of the group that applies; `None`: no group does.
    group: Option<Vec<String>>,
    /// Where the group begins.
    line: Option<u32>,
}

pub(crate) fn run(args: &AgentsArgs) -> anyhow::Result<Status> {
    let (status, texts) = robots_texts::read(&args.online, &args.files)?;
    for text in &texts {
        let body = text.body.as_deref().unwrap_or_default();
        let robots = Robots::parse(body);
        let lines = known().map(|agent| line(&text.name, agent, body, &robots));
        if args.online.output.json {
            lines.into_iter().try_for_each(|line| style::print_json(&line))?;
        } else {
            print(text, lines)?;
        }
    }
    Ok(status)
}

/// The crawlers of `agents.tsv`, in its order.
pub(crate) fn known() -> impl Iterator<Item = Agent> {
    include_str!("agents.tsv").lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut cells = line.split('\t');
        let [kind, token, operator, source] = std::array::from_fn(|_| cells.next().unwrap_or_default());
        (!source.is_empty()).then_some(Agent { kind, token, operator, source })
    })
}

/// What a robots.txt leaves to a crawler.
pub(crate) fn access(robots: &Robots, body: &[u8], token: &str) -> Access {
    let token = ProductToken::lenient(token).ok();
    let rules = Rules::parse(body, token.as_slice());
    let group = group(robots, &rules);
    let of = |wanted: RecordKind| {
        group.iter().filter(move |record| record.kind() == wanted && !record.value().is_empty())
    };
    let allows = |rule: &Record<'_>| {
        // A page that the rule is for: what stands for a star may be nothing.
        let page = String::from_utf8_lossy(rule.value()).replace(['*', '$'], "");
        rules.is_allowed(&Target::new(&page))
    };
    if of(RecordKind::Disallow).next().is_none() {
        return Access::Full;
    }
    let is_closed = ["/", "/some/page.html"].iter().all(|path| !rules.is_allowed(&Target::new(path)));
    if is_closed && !of(RecordKind::Allow).any(allows) { Access::None } else { Access::Partial }
}

/// The records that are for the crawler of these rules: groups of one name are one (RFC 9309 §2.2.1).
fn group<'a>(robots: &'a Robots, rules: &Rules) -> Vec<Record<'a>> {
    if !rules.has_group() {
        return Vec::new();
    }
    let token = rules.token().and_then(|token| ProductToken::lenient(token).ok());
    let is_own = |group: &Vec<Record<'_>>| group.iter().any(|record| record.addresses(token.as_ref()));
    robots.groups().filter(is_own).flatten().collect()
}

fn line<'a>(file: &'a str, agent: Agent, body: &[u8], robots: &Robots) -> AgentLine<'a> {
    let token = ProductToken::lenient(agent.token).ok();
    let rules = Rules::parse(body, token.as_slice());
    let line = group(robots, &rules).first().map(Record::line);
    let group = rules.has_group().then(|| rules.group().map(str::to_owned).collect());
    AgentLine { file, agent, access: access(robots, body, agent.token), group, line }
}

fn print<'a>(text: &RobotsText, lines: impl Iterator<Item = AgentLine<'a>>) -> anyhow::Result<()> {
    style::say(&[(style::NAME, text.name.as_str())])?;
    if let Err(why) = &text.body {
        style::say(&[(style::DIM, why)])?;
    }
    let mut kind = "";
    for AgentLine { agent, access, line, group, .. } in lines {
        if agent.kind != kind {
            kind = agent.kind;
            style::say(&[(PLAIN, heading(kind))])?;
        }
        let (colour, word) = match access {
            Access::Full => (style::GOOD, "allowed   "),
            Access::Partial => (style::WAIT, "partly    "),
            Access::None => (style::BAD, "not at all"),
        };
        let by = match (line, group) {
            (Some(line), Some(group)) if group.iter().any(|name| name == "*") => {
                format!("by the group * on line {line}")
            }
            (Some(line), _) => format!("by its group on line {line}"),
            (None, _) => "no group is for it".to_owned(),
        };
        let name = format!("{:<20} {:<16} ", agent.token, agent.operator);
        style::say(&[(PLAIN, "  "), (colour, word), (PLAIN, "  "), (PLAIN, &name), (style::DIM, &by)])?;
    }
    Ok(())
}

fn heading(kind: &str) -> &str {
    match kind {
        "search" => "Search engines",
        "training" => "AI training",
        "answers" => "AI answers",
        "archive" => "Archives",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_crawler_has_a_token_and_a_source() {
        let lines = include_str!("agents.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(known().count(), lines);
        for agent in known() {
            assert!(
                ProductToken::lenient(agent.token).is_ok() && agent.source.starts_with("https://"),
                "{agent:?}"
            );
            assert_ne!(heading(agent.kind), agent.kind, "{agent:?}");
        }
    }

    #[test]
    fn access_is_full_partial_or_none() {
        for (rules, expected) in [
            ("", Access::Full),
            ("User-agent: GPTBot\nDisallow:", Access::Full),
            ("User-agent: *\nDisallow: /x", Access::Partial),
            ("User-agent: *\nDisallow: /", Access::None),
            ("User-agent: *\nDisallow: /*", Access::None),
            ("User-agent: *\nDisallow: /\nAllow: /press/", Access::Partial),
            ("User-agent: *\nDisallow: /\nAllow: /*.pdf$", Access::Partial),
            ("User-agent: *\nDisallow: /\n\nUser-agent: gptbot\nAllow: /", Access::Full),
            ("User-agent: other\nDisallow: /", Access::Full),
        ] {
            let body = rules.as_bytes();
            assert_eq!(access(&Robots::parse(body), body, "GPTBot"), expected, "{rules}");
        }
    }
}
