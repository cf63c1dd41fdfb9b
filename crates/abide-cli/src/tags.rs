//! `abide tags`: what header fields and an HTML head permit, without a network.
//!
//! `abide-permissions` without HTTP: for site owners who try a header, and for harnesses that compare
//! readings.

use std::str::FromStr;
use std::time::SystemTime;

use abide_permissions::{
    Head, HeadScanner, Permissions, Preferences, ProductToken, Provenance, ReadOptions, TagRules, Usage,
};
use abide_robots::Target;
use http::HeaderName;
use serde::{Deserialize, Serialize};

use crate::args::TagsArgs;
use crate::batch::{self, OneOrMore};
use crate::input::{read_file, tokens};
use crate::json::{Answers, Tags};
use crate::nearest;
use crate::status::{Status, UsageError, wrong_usage};
use crate::style::{self, PLAIN};

pub(crate) fn run(args: TagsArgs) -> anyhow::Result<Status> {
    if let Some(input) = &args.batch {
        return batch::run(input, &args.agent, answer);
    }
    if args.html.is_none() && args.headers.is_empty() {
        return wrong_usage("expected --header or an HTML file, found neither");
    }
    let tokens = tokens(&args.agent).map_err(UsageError)?;
    let html = args.html.as_deref().map(read_file).transpose()?;
    let headers: Vec<_> =
        args.headers.into_iter().map(|header| (header.name.to_string(), header.value)).collect();
    let (permissions, preferences) =
        read_page(tokens, &headers, html.as_deref(), args.content_type.as_deref());
    if args.output.json {
        style::print_json(&TagsLine::new(&permissions, &preferences))?;
    } else {
        print(&permissions, &preferences)?;
        headers.iter().try_for_each(|(name, value)| note_misspelt(name, value, &permissions))?;
    }
    Ok(Status::Done)
}

#[derive(Debug, Deserialize)]
struct TagsQuestion {
    agent: OneOrMore,
    headers: Option<Vec<(String, String)>>,
    html: Option<String>,
    html_base64: Option<String>,
    content_type: Option<String>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "serve", derive(schemars::JsonSchema))]
pub(crate) struct TagsLine {
    #[serde(flatten)]
    tags: Tags,
    #[serde(flatten)]
    answers: Answers,
}

impl TagsLine {
    pub(crate) fn new(permissions: &Permissions, preferences: &Preferences) -> Self {
        Self { tags: Tags::new(permissions, preferences), answers: Answers::new(permissions, preferences) }
    }
}

fn answer(question: TagsQuestion) -> Result<TagsLine, String> {
    let tokens = tokens(&question.agent.into_vec())?;
    let html = batch::bytes("html", question.html, question.html_base64)?;
    let mut headers = question.headers.unwrap_or_default();
    for (name, value) in &mut headers {
        (*name, *value) = (name.trim().to_owned(), value.trim_ascii().to_owned());
        // HTTP/2 has `:status`.
        HeaderName::from_str(name.strip_prefix(':').unwrap_or(name))
            .map_err(|_| format!("expected the name of a header field, found `{name}`"))?;
    }
    let (permissions, preferences) =
        read_page(tokens, &headers, html.as_deref(), question.content_type.as_deref());
    Ok(TagsLine::new(&permissions, &preferences))
}

/// A page as it is given: its fields, and all of its HTML if there is any.
pub(crate) fn read_page(
    tokens: Vec<ProductToken>,
    headers: &[(String, String)],
    html: Option<&[u8]>,
    content_type: Option<&str>,
) -> (Permissions, Preferences) {
    let options = ReadOptions::for_tokens(tokens).with_whole_document(true);
    let stated = self::content_type(headers);
    let head = html.map_or_else(Head::default, |html| {
        scan(HeadScanner::new(&options, content_type.or(stated.as_deref())), html)
    });
    read(&options, headers, head, None)
}

/// What the fields and the head permit, and what they ask of those who use the content: Content-Usage,
/// Content-Signal, TDMRep. `tdmrep`: the site's tdmrep.json, and the target in it.
pub(crate) fn read(
    options: &ReadOptions,
    headers: &[(String, String)],
    head: Head,
    tdmrep: Option<(&[u8], &Target<'_>)>,
) -> (Permissions, Preferences) {
    let fields = || headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let permissions = Permissions::read(options, fields(), head, SystemTime::now());
    let preferences = Preferences::default().with_fields(fields()).with_page(&permissions);
    let preferences = preferences.with_tdm(tdmrep, fields(), permissions.metas());
    (permissions, preferences)
}

/// All lines of `Content-Type`: several are one list, as in a response.
pub(crate) fn content_type(headers: &[(String, String)]) -> Option<String> {
    let lines = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

pub(crate) fn scan(mut scanner: HeadScanner, html: &[u8]) -> Head {
    // Whether it wants more does not matter: all of the page is here.
    let _ = scanner.feed(html);
    scanner.finish()
}

/// For people: the rules, then where each comes from.
fn print(permissions: &Permissions, preferences: &Preferences) -> anyhow::Result<()> {
    // What is unknown has no effect.
    let unknown: Vec<&str> = permissions.rules().unknown().collect();
    let rules = permissions.rules().to_string();
    let is_unknown = |rule: &str| unknown.iter().any(|name| rule == name.escape_default().to_string());
    let rules: Vec<&str> = rules.split(", ").filter(|rule| !is_unknown(rule)).collect();
    let rules = rules.join(", ");
    let none = if permissions.is_complete() { "no restrictions stated" } else { "no restrictions found" };
    style::say(&[(PLAIN, if rules.is_empty() { none } else { &rules })])?;
    let reasons = permissions.unknown_because();
    for reason in &reasons {
        style::say(&[(style::WAIT, &format!("  what else is stated is unknown: {reason}"))])?;
    }
    for (source, rules) in permissions.statements() {
        style::say(&[(style::DIM, &format!("  {source}: {rules}"))])?;
    }
    for name in &unknown {
        let tip = nearest::tip(name, known_rules());
        style::say(&[(style::WAIT, &format!("  unknown: {name}{tip}"))])?;
    }
    let is_said = |problem: &str| reasons.iter().any(|reason| reason.ends_with(problem));
    for (source, problem) in permissions.warnings().iter().filter(|(_, problem)| !is_said(problem)) {
        style::say(&[(PLAIN, &format!("  remark: {source}: {problem}"))])?;
    }
    for statement in preferences.statements() {
        let preference = statement.preference().as_str().unwrap_or("unknown");
        let (usage, source, text) = (statement.usage(), statement.source(), statement.text());
        let meant = match (usage, source) {
            (Usage::Other(label), Provenance::Field { name, .. }) => nearest::usage(label, name),
            _ => None,
        };
        let tip = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        style::say(&[(PLAIN, &format!("preference: {usage} {preference} ({source}: {text}){tip}"))])?;
    }
    for (source, problem) in preferences.warnings() {
        style::say(&[(PLAIN, &format!("  remark: {source}: {problem}"))])?;
    }
    Ok(())
}

/// Rules of a field that no crawler reads, if they look like ones that are read and are not shown among the
/// unknown ones of ours.
fn note_misspelt(name: &str, value: &str, permissions: &Permissions) -> anyhow::Result<()> {
    if !["robots-tag", "x-robots-tag"].iter().any(|tags| name.eq_ignore_ascii_case(tags)) {
        return Ok(());
    }
    // By the separators of both fields: Robots-Tag is a structured field, X-Robots-Tag is not.
    for word in value.split([',', ';', ' ', ':', '=']).map(str::trim).filter(|word| !word.is_empty()) {
        let is_word = |rule: &str| rule.eq_ignore_ascii_case(word);
        if known_rules().any(is_word) || permissions.rules().unknown().any(is_word) {
            continue;
        }
        let tip = nearest::tip(word, known_rules());
        if !tip.is_empty() {
            let text = format!("  unknown: {}{tip}", crate::sanitize::quoted(word));
            style::say(&[(style::WAIT, &text)])?;
        }
    }
    Ok(())
}

/// What may be meant by a rule that is misspelt.
fn known_rules() -> impl Iterator<Item = &'static str> {
    let others = ["all", "none", "index", "follow", "archive"];
    others.into_iter().chain(TagRules::FLAGS.iter().chain(TagRules::VALUED).copied())
}
