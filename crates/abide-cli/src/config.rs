//! `abide.toml`: options by their long names, under those of the command line and of the environment.
//!
//! ```toml
//! agent = "MyBot"
//! user-agent = "MyBot/1.0 (+https://example.com/bot)"
//!
//! [crawl]
//! max-pages = 500
//!
//! [host."slow.example"]
//! delay = "5s"
//! max-pages = 20
//! ```
//!
//! What the file sets becomes arguments, so it is read and refused as those are: there is one list of options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use toml::{Table, Value};

use crate::args::Cli;
use crate::sanitize::quoted;

/// Why there is no command to run.
#[derive(Debug)]
pub(crate) enum Refusal {
    Clap(clap::Error),
    /// In one line, with the place.
    File(String),
}

impl From<clap::Error> for Refusal {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

/// The command line, with what the file adds to it.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Cli, Refusal> {
    let mut command = Cli::command();
    command.build();
    let matches = command.clone().try_get_matches_from(&arguments)?;
    let Some(path) = file(&matches) else { return Ok(Cli::from_arg_matches(&matches)?) };
    let wrong = |what: String| Refusal::File(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line =
            error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().lines().count().max(1));
        Refusal::File(format!("{}:{line}: {}", path.display(), error.message()))
    })?;
    let added = added(&table, &command, &matches).map_err(wrong)?;
    if added.is_empty() {
        return Ok(Cli::from_arg_matches(&matches)?);
    }
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.splice(end..end, added.into_iter().map(OsString::from));
    let matches = command
        .try_get_matches_from(&arguments)
        .map_err(|error| wrong(one_line(&error.render().to_string())))?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// The file that was named, else that of the directory, else that of the user.
fn file(matches: &ArgMatches) -> Option<PathBuf> {
    let (_, call) = matches.subcommand()?;
    if let Some(path) = call.get_one::<OsString>("config") {
        return Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let places = [Some(PathBuf::from(NAME)), home.map(|home| home.join("abide").join(NAME))];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// The arguments that `table` comes to for this call: what the command line and the environment do not set.
fn added(table: &Table, command: &clap::Command, matches: &ArgMatches) -> Result<Vec<String>, String> {
    let Some((name, given)) = matches.subcommand() else { return Ok(Vec::new()) };
    let mut options = Table::new();
    let mut hosts = None;
    for (key, value) in table {
        match value {
            Value::Table(table) if key == "host" => hosts = Some(table),
            Value::Table(table) if command.find_subcommand(key).is_some() => {
                for option in table.keys() {
                    known(option, command.find_subcommand(key).into_iter())
                        .map_err(|error| format!("[{key}]: {error}"))?;
                }
            }
            Value::Table(_) => {
                return Err(format!("expected a table of a call or of a host, found [{}]", quoted(key)));
            }
            value => {
                known(key, command.get_subcommands())?;
                options.insert(key.clone(), value.clone());
            }
        }
    }
    if let Some(Value::Table(own)) = table.get(name) {
        options.extend(own.clone());
    }
    let Some(call) = command.find_subcommand(name) else { return Ok(Vec::new()) };
    let mut added = Vec::new();
    for (key, value) in &options {
        let option = call.get_arguments().find(|option| option.get_long() == Some(key));
        if key == "config" {
            return Err("a file cannot name another".to_owned());
        }
        if option.is_some_and(|option| !is_given(given, option)) {
            values(key, value, &mut added)?;
        }
    }
    for (host, table) in hosts.into_iter().flatten() {
        let Value::Table(table) = table else { return Err(format!("expected [host.{}]", quoted(host))) };
        for (key, value) in table {
            let option = match key.as_str() {
                "delay" => "host-delay",
                "max-pages" => "host-max-pages",
                _ => {
                    return Err(format!(
                        "[host.{}]: expected delay or max-pages, found {}",
                        quoted(host),
                        quoted(key)
                    ));
                }
            };
            let known = call.get_arguments().find(|known| known.get_long() == Some(option));
            if known.is_some_and(|known| !names_host(given, known, host)) {
                added.push(format!("--{option}={host}={}", text(value).ok_or_else(|| not_a_value(key))?));
            }
        }
    }
    Ok(added)
}

/// Whether some call has such an option; a name that no call has is a mistake, with the nearest one.
fn known<'c>(key: &str, calls: impl Iterator<Item = &'c clap::Command>) -> Result<(), String> {
    let names: Vec<&str> =
        calls.flat_map(|call| call.get_arguments().filter_map(clap::Arg::get_long)).collect();
    if names.contains(&key) {
        return Ok(());
    }
    Err(format!("unknown option {}{}", quoted(key), crate::nearest::tip(key, names)))
}

fn is_given(given: &ArgMatches, option: &clap::Arg) -> bool {
    let source = given.value_source(option.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// Whether the call itself sets the option for this host.
fn names_host(given: &ArgMatches, option: &clap::Arg, host: &str) -> bool {
    let values = given.try_get_raw(option.get_id().as_str()).ok().flatten();
    let host = crate::args::host(host);
    host.is_some()
        && values.into_iter().flatten().any(|value| {
            let named = value.to_str().and_then(|value| value.rsplit_once('='));
            named.is_some_and(|(named, _)| crate::args::host(named) == host)
        })
}

/// `--key=value`, several times for a list, and the flag alone for `true`.
fn values(key: &str, value: &Value, added: &mut Vec<String>) -> Result<(), String> {
    match value {
        Value::Boolean(true) => added.push(format!("--{key}")),
        Value::Boolean(false) => {}
        Value::Array(items) => {
            for item in items {
                added.push(format!("--{key}={}", text(item).ok_or_else(|| not_a_value(key))?));
            }
        }
        value => added.push(format!("--{key}={}", text(value).ok_or_else(|| not_a_value(key))?)),
    }
    Ok(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn not_a_value(key: &str) -> String {
    format!("{key}: expected a text, a number, or a list of these")
}

/// The message and its tips, without the usage that follows.
pub(crate) fn one_line(text: &str) -> String {
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let mut words: Vec<&str> = message.split_whitespace().collect();
    for tip in rest.lines().filter(|line| line.trim_start().starts_with("tip: ")) {
        words.push("-");
        words.extend(tip.split_whitespace());
    }
    words.join(" ")
}

/// As it is called, wherever it lies.
pub(crate) const NAME: &str = "abide.toml";
