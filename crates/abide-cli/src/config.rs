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
//! What the file sets becomes arguments, so it is read and refused as those are: there is one list of
//! options.
//!
//! The file of the working directory may be that of a stranger, whose archive was unpacked there: what it
//! sets is said, and it sets nothing that reaches out or writes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use toml::{Table, Value};

use crate::args::Cli;
use crate::sanitize::quoted;

/// The command line, with what the file adds to it.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    // Only then does each call have the global options among its own.
    command.build();
    // Once without the file: it says which file, and which options the call sets. What is missing may be in
    // the file.
    let (matches, missing) = match command.clone().try_get_matches_from(&arguments) {
        Ok(matches) => (matches, None),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            (Cli::command().ignore_errors(true).try_get_matches_from(&arguments)?, Some(error))
        }
        Err(error) => return Err(error),
    };
    let files = files(&matches).into_iter().map(|file| file.read(&command)).collect::<Result<Vec<_>, _>>()?;
    if files.is_empty() {
        return missing.map_or_else(|| Cli::from_arg_matches(&matches), Err);
    }
    let note = note(&files, &command, &matches);
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let in_files =
        |what: &str| clap::Error::raw(ErrorKind::InvalidValue, format!("{}: {what}", names.join(" and ")));
    let table = files.into_iter().fold(Table::new(), |table, file| over(table, file.table));
    let added = added(&table, &command, &matches).map_err(|error| in_files(&error))?;
    // Right behind the name of the call: of two values for one host the last counts, which is that of the
    // command line.
    let call = matches.subcommand_name().unwrap_or_default();
    let is_call = |pair: &[OsString]| matches!(pair, [before, word] if before != "--config" && word == call);
    let place = arguments.windows(2).position(is_call).map_or(arguments.len(), |at| at + 2);
    arguments.splice(place..place, added.into_iter().map(OsString::from));
    let matches = command.try_get_matches_from(&arguments).map_err(|error| match missing {
        Some(missing) if error.kind() == ErrorKind::MissingRequiredArgument => missing,
        _ => in_files(&one_line(&error.render().to_string())),
    })?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok(Cli { config_note: note, ..cli })
}

/// What there is to say of the files whose options count in a call.
#[derive(Debug)]
pub(crate) struct ConfigNote {
    pub(crate) text: String,
    /// One was found in the working directory, which is said in any case.
    pub(crate) is_here: bool,
}

/// A file of options.
#[derive(Debug)]
struct ConfigFile {
    path: PathBuf,
    /// It was found in the working directory, and not named.
    is_here: bool,
    table: Table,
    /// Options that do not count, because the file was found.
    dropped: BTreeSet<String>,
}

impl ConfigFile {
    fn at(path: PathBuf, is_here: bool) -> Self {
        Self { path, is_here, table: Table::new(), dropped: BTreeSet::new() }
    }

    fn read(mut self, command: &clap::Command) -> Result<Self, clap::Error> {
        let wrong = |place: String, what: &str| {
            clap::Error::raw(ErrorKind::InvalidValue, format!("{}{place}: {what}", self.path.display()))
        };
        let in_file = |what: &str| wrong(String::new(), what);
        let text = std::fs::read_to_string(&self.path).map_err(|error| in_file(&error.to_string()))?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            // What is missing at the end is missing on the last line.
            let line = (before.matches('\n').count() + 1).min(text.lines().count());
            wrong(format!(":{line}"), error.message())
        })?;
        check(&table, command).map_err(|error| in_file(&error))?;
        if self.is_here {
            drop_reserved(&mut table, &mut self.dropped);
        }
        self.table = table;
        Ok(self)
    }
}

/// What reaches out, writes, or says whom to trust.
fn drop_reserved(table: &mut Table, dropped: &mut BTreeSet<String>) {
    table.retain(|key, value| match value {
        Value::Table(own) => {
            drop_reserved(own, dropped);
            true
        }
        _ if RESERVED.contains(&key) => {
            dropped.insert(key.to_owned());
            false
        }
        _ => true,
    });
}

/// The options of `upper`, and those of `lower` that it does not set.
fn over(mut lower: Table, upper: Table) -> Table {
    for (key, value) in upper {
        let value = match (lower.remove(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => Value::Table(over(below, above)),
            (_, value) => value,
        };
        lower.insert(key, value);
    }
    lower
}

fn note(files: &[ConfigFile], command: &clap::Command, matches: &ArgMatches) -> Option<ConfigNote> {
    let counts =
        |file: &&ConfigFile| added(&file.table, command, matches).is_ok_and(|added| !added.is_empty());
    let counting: Vec<&ConfigFile> = files.iter().filter(counts).collect();
    let names: Vec<String> = counting.iter().map(|file| file.path.display().to_string()).collect();
    let mut text = match names.is_empty() {
        true => String::new(),
        false => format!("with options from {}; --config \"\" reads none", names.join(" and ")),
    };
    let dropped: Vec<&str> = files.iter().flat_map(|file| &file.dropped).map(String::as_str).collect();
    if !dropped.is_empty() {
        let what = dropped.join(", ");
        let before = if text.is_empty() { "" } else { "; " };
        text.push_str(&format!(
            "{before}of the {NAME} found here, {what} would count only with --config {NAME}"
        ));
    }
    let is_here = !dropped.is_empty() || counting.iter().any(|file| file.is_here);
    (!text.is_empty()).then_some(ConfigNote { text, is_here })
}

/// The file that was named, else that of the user, and over it that of the working directory.
fn files(matches: &ArgMatches) -> Vec<ConfigFile> {
    let Some((_, call)) = matches.subcommand() else { return Vec::new() };
    if let Some(path) = call.get_one::<OsString>("config") {
        let named = Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
        return named.map(|path| ConfigFile::at(path, false)).into_iter().collect();
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // XDG Base Directory: where the variable is unset or empty, $HOME/.config.
    let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
    let own = home.map(|home| ConfigFile::at(home.join("abide").join(NAME), false));
    let places = own.into_iter().chain([ConfigFile::at(PathBuf::from(NAME), true)]);
    places.filter(|file| file.path.is_file()).collect()
}

/// Every option is one that some call has.
fn check(table: &Table, command: &clap::Command) -> Result<(), String> {
    for (key, value) in table {
        match value {
            Value::Table(_) if key == "host" => {}
            Value::Table(own) => {
                let wrong = || format!("expected a table of a call or of a host, found [{}]", quoted(key));
                let call = command.find_subcommand(key).ok_or_else(wrong)?;
                for option in own.keys() {
                    known(option, [call].into_iter()).map_err(|error| format!("[{key}]: {error}"))?;
                }
            }
            _ => known(key, command.get_subcommands())?,
        }
    }
    Ok(())
}

/// The arguments that `table` comes to for this call: what the command line and the environment do not set.
fn added(table: &Table, command: &clap::Command, matches: &ArgMatches) -> Result<Vec<String>, String> {
    let Some((name, given)) = matches.subcommand() else { return Ok(Vec::new()) };
    let is_option = |(_, value): &(&String, &Value)| !value.is_table();
    let mut options: Table =
        table.iter().filter(is_option).map(|(key, value)| (key.clone(), value.clone())).collect();
    let hosts = table.get("host").and_then(Value::as_table);
    if let Some(Value::Table(own)) = table.get(name) {
        options.extend(own.clone());
    }
    let Some(call) = command.find_subcommand(name) else { return Ok(Vec::new()) };
    let option = |name: &str| call.get_arguments().find(|option| option.get_long() == Some(name));
    let is_named = |name: &str| option(name).is_some_and(|option| is_given(given, option));
    // A batch names its agents, unless it is matched against one file.
    let has_agents = is_named("batch") && !is_named("robots") && !options.contains_key("robots");
    let excludes = |one: &clap::Arg, other: &clap::Arg| {
        call.get_arg_conflicts_with(one).iter().any(|known| known.get_id() == other.get_id())
    };
    // Of two that exclude each other, that of the call counts.
    let is_excluded = |option: &clap::Arg| {
        let mut others = call.get_arguments().filter(|other| is_given(given, other));
        others.any(|other| excludes(option, other) || excludes(other, option))
    };
    let mut added = Vec::new();
    for (key, value) in &options {
        if key == "config" {
            return Err("a file cannot name another".to_owned());
        }
        match value {
            // One file serves all calls, so an option that only others have is no mistake.
            _ if option(key).is_none_or(|option| is_given(given, option) || is_excluded(option)) => {}
            _ if key == "agent" && has_agents => {}
            // The next word of the call would be its value.
            Value::Boolean(true) if !option(key).is_some_and(|it| it.get_action().takes_values()) => {
                added.push(format!("--{key}"))
            }
            // A flag has no form that says no.
            Value::Boolean(false) => {}
            Value::Array(items) => {
                for item in items {
                    added.push(format!("--{key}={}", text(key, item)?));
                }
            }
            value => added.push(format!("--{key}={}", text(key, value)?)),
        }
    }
    for (host, table) in hosts.into_iter().flatten() {
        let Value::Table(table) = table else { return Err(format!("expected [host.{}]", quoted(host))) };
        for (key, value) in table {
            if !["delay", "max-pages"].contains(&key.as_str()) {
                let (host, key) = (quoted(host), quoted(key));
                return Err(format!("[host.{host}]: expected delay or max-pages, found {key}"));
            }
            if option(&format!("host-{key}")).is_some() {
                added.push(format!("--host-{key}={host}={}", text(key, value)?));
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

fn text(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!("{key}: expected a text, a number, or a list of these")),
    }
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
const NAME: &str = "abide.toml";

/// Options that count only from a file that the user has chosen: they send requests elsewhere, send or trust
/// something else, or write files.
const RESERVED: [&str; 17] = [
    "allow-net",
    "resolve",
    "proxy",
    "noproxy",
    "files-from",
    "report",
    "save",
    "warc",
    "csv",
    "output",
    "cacert",
    "key",
    "header",
    "user",
    "danger-ignore-robots",
    "why",
    "store",
];
