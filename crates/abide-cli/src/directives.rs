//! `abide directives`: what a robots.txt asks of those who use a site's content, without a network.
//!
//! App-Directives and AI preferences are read by `abide-permissions`; this is their line in the contract of
//! the command.

use std::path::Path;

use abide_permissions::{AppDirectives, Preference, Preferences, SfValue};
use abide_robots::Rules;
use base64::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args::DirectivesArgs;
use crate::batch::{self, OneOrMore};
use crate::input::{self, UrlOrPath, chain, robots_and_urls, tokens};
use crate::sanitize::public;
use crate::status::{Status, UsageError};
use crate::style::{self, PLAIN};

/// What one question is answered with: all keys, always.
#[derive(Debug, Serialize)]
struct DirectivesLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    app_directives: Option<Map<String, Value>>,
    content_usage: Map<String, Value>,
    content_signal: Map<String, Value>,
    answers: Answers,
    unknown_because: Vec<String>,
}

/// Whether the content may be used so: `yes`, `no`, `unset` or `unknown`.
#[derive(Debug, Serialize)]
struct Answers {
    train: &'static str,
}

#[derive(Debug, Deserialize)]
struct DirectivesQuestion {
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: OneOrMore,
    url: String,
    app: Option<String>,
}

pub(crate) fn run(args: DirectivesArgs) -> anyhow::Result<Status> {
    if let Some(input) = &args.batch {
        return batch::run(input, &args.file.agent, answer);
    }
    let tokens = tokens(&chain(&args.file.agent)).map_err(UsageError)?;
    let (body, texts) = robots_and_urls(args.file.robots.as_deref().unwrap_or(Path::new("-")), &args.urls)?;
    let rules = Rules::parse(&body, &tokens);
    input::each(&texts, args.output.json, |text, url| {
        let answer = DirectivesLine {
            url: Some(public(text).into()),
            ..DirectivesLine::new(&body, &rules, url, args.app.as_deref())
        };
        if args.output.json {
            style::print_json(&answer)?;
        } else {
            print(text, &answer)?;
        }
        Ok(Status::Done)
    })
}

fn answer(question: DirectivesQuestion) -> Result<DirectivesLine, String> {
    let DirectivesQuestion { robots, robots_base64, agent, url, app } = question;
    let (body, rules, url) = batch::rules_and_url(robots, robots_base64, agent, &url)?;
    Ok(DirectivesLine::new(&body, &rules, &url, app.as_deref()))
}

impl DirectivesLine {
    fn new(body: &[u8], rules: &Rules, url: &UrlOrPath, app: Option<&str>) -> Self {
        let target = url.target();
        let directives = AppDirectives::of(rules, &target);
        let preferences =
            Preferences::default().with_robots(rules, &target).with_policy_tokens(body, &target);
        let training = preferences.training();
        let mut content_signal = stated(preferences.content_signal());
        if let Some(usage) = preferences.content_signal_use() {
            content_signal.insert("use".to_owned(), usage.into());
        }
        Self {
            url: None,
            app_directives: app.and_then(|app| directives.for_app(app)).map(values),
            content_usage: stated(preferences.content_usage()),
            content_signal,
            answers: Answers { train: training.as_str() },
            unknown_because: training.unknown_because().to_vec(),
        }
    }
}

fn stated(preferences: impl Iterator<Item = (&'static str, Preference)>) -> Map<String, Value> {
    preferences.map(|(name, preference)| (name.to_owned(), preference.as_str().into())).collect()
}

/// The last value of each name, in the place of its first.
fn values<T>(directives: Vec<(&str, &SfValue, T)>) -> Map<String, Value> {
    directives.into_iter().map(|(name, value, _)| (name.to_owned(), json(value))).collect()
}

/// Booleans, numbers and texts as JSON has them; a date as its number of seconds, bytes as base64.
fn json(value: &SfValue) -> Value {
    match value {
        SfValue::Boolean(value) => (*value).into(),
        SfValue::Integer(value) | SfValue::Date(value) => (*value).into(),
        SfValue::Bytes(value) => base64::engine::general_purpose::STANDARD.encode(value).into(),
        SfValue::Decimal(value) => (*value).into(),
        SfValue::String(value) | SfValue::Token(value) | SfValue::Display(value) => (**value).into(),
        // RFC 9651 §3.3 has these eight kinds.
        _ => Value::Null,
    }
}

fn print(text: &str, answer: &DirectivesLine) -> anyhow::Result<()> {
    style::say(&[(PLAIN, &public(text))])?;
    let app = answer.app_directives.as_ref();
    for (name, values) in [
        ("App-Directives", app),
        ("Content-Usage", Some(&answer.content_usage)),
        ("Content-Signal", Some(&answer.content_signal)),
    ] {
        let Some(values) = values else { continue };
        let shown: Vec<_> = values.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let shown = if shown.is_empty() { "nothing stated".to_owned() } else { shown.join(", ") };
        style::say(&[(PLAIN, &format!("  {name}: {shown}"))])?;
    }
    let because = answer.unknown_because.iter().map(|why| format!("; {why}"));
    let training = because.fold(format!("  training: {}", answer.answers.train), |text, why| text + &why);
    style::say(&[(PLAIN, &training)])?;
    Ok(())
}
