//! The command `abide`: reads the command line, runs one call, and turns how it ended into an exit status.
//!
//! Each call is a module with a `run`; errors are printed here alone, on one line each.

#![allow(clippy::arithmetic_side_effects, reason = "it counts pages, lines and milliseconds of one run")]

mod agents;
mod args;
mod audit;
mod batch;
mod check;
mod config;
mod crawl;
mod demo;
mod directives;
mod excerpt;
mod explain;
mod fetch;
mod findings;
mod identity;
mod input;
mod json;
mod lint;
mod manual;
mod matching;
mod nearest;
mod online;
mod outcome;
mod own_site;
mod proxy;
mod recorder;
mod robots_texts;
mod sanitize;
#[cfg(feature = "serve")]
mod serve;
mod status;
mod stores;
mod style;
mod tags;
mod warc;
mod watch;

use std::borrow::Cow;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use args::Command;
use config::one_line;
use status::{Status, UsageError};

fn main() -> ExitCode {
    // It fails if there is one already, and at the start of a program there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match config::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_tip(error)),
    };
    if let Some(output) = cli.output() {
        style::set(output);
        if let Some(note) = cli.config_note.as_ref().filter(|note| output.verbose || note.is_here) {
            style::note(format_args!("{}", note.text));
        }
    }
    let result = match cli.command {
        Command::Match(args) => matching::run(args),
        Command::Directives(args) => directives::run(args),
        Command::Tags(args) => tags::run(args),
        Command::Check(args) => check::run(&args),
        Command::Crawl(args) => crawl::run(*args),
        Command::Explain(args) => explain::run(&args),
        Command::Lint(args) => lint::run(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args),
        #[cfg(not(feature = "serve"))]
        Command::Serve { .. } => Err(stores::left_out("abide serve", "serve").into()),
        Command::Agents(args) => agents::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Identity(call) => identity::run(&call),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man => manual::man(),
        Command::Fetch(args) => fetch::run(&args),
        Command::Demo { report } => demo::run(report.as_deref()),
    };
    // Also where the call has failed: what came before is still an answer.
    let flushed = style::flush();
    match result.and_then(|status| flushed.map(|()| status).map_err(Into::into)) {
        Ok(status) => status.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // What concerns a file names it.
            let first = error.chain().next();
            let is_bare =
                first.is_some_and(|first| first.is::<std::io::Error>() || first.is::<serde_json::Error>());
            let place = if is_bare { "standard output: " } else { "" };
            style::to_stderr(format_args!("{place}{error:#}"));
            if error.is::<UsageError>() { Status::Usage.into() } else { Status::Failed.into() }
        }
    }
}

/// Help for those who ask for it or for nothing, else one line that names what is wrong.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // `| head` may have closed the output; that is no failure.
        let _ = error.print();
        return if error.use_stderr() { Status::Usage.into() } else { Status::Done.into() };
    }
    style::to_stderr(format_args!("{}", one_line(&public(error.render().to_string()))));
    Status::Usage.into()
}

/// An unknown option gets the one that was probably meant: clap goes by letters alone, and would take
/// `--depth` for `--delay`.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(guess)) = error.get(ContextKind::InvalidArg) else { return error };
    let command = args::Cli::command();
    let is_call = |word: &String| command.find_subcommand(word).is_some();
    let call = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok()).find(is_call);
    let Some(call) = call.and_then(|name| command.find_subcommand(name)) else { return error };
    let options: Vec<&str> = call.get_arguments().filter_map(clap::Arg::get_long).collect();
    // None that makes a crawler less polite is suggested.
    let options: Vec<&str> = options.into_iter().filter(|option| !option.starts_with("danger")).collect();
    let guess = guess.trim_start_matches('-').split('=').next().unwrap_or_default();
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(option) = nearest::option(guess, options.iter().copied())
    {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{option}")));
    }
    error
}

/// The message without the user information of the arguments that it repeats.
fn public(message: String) -> String {
    let given = std::env::args_os().skip(1).filter_map(|arg| arg.into_string().ok());
    given.fold(message, |message, arg| {
        // clap repeats an argument, or what stands behind its `=`.
        let value = arg.split_once('=').map_or("", |(_, value)| value);
        [arg.as_str(), value].into_iter().fold(message, |message, text| match sanitize::public(text) {
            Cow::Borrowed(_) => message,
            Cow::Owned(public) => message.replace(text, &public),
        })
    })
}

/// `| head` has read enough; that is no failure of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
