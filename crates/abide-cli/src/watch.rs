//! `abide watch`: what has changed in the robots.txt of sites since the last call.
//!
//! Made for cron: it prints nothing, or with `-v` a line, where nothing has changed, and the exit status says
//! the rest. The files of the last call are kept as they are, one for each origin, so that they can be read
//! and compared by other means, too.

use std::io::Write;
use std::path::{Path, PathBuf};

use abide_robots::Robots;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use crate::agents::{self, Access};
use crate::args::WatchArgs;
use crate::robots_texts::{self, RobotsText};
use crate::sanitize::count;
use crate::status::{Status, UsageError, wrong_usage};
use crate::style::{self, PLAIN};

/// What has become of one robots.txt: a line of `--json`.
#[derive(Debug, Serialize)]
struct WatchLine<'a> {
    file: &'a str,
    /// `null`: it was not known before.
    changed: Option<bool>,
    added: Vec<Line>,
    removed: Vec<Line>,
    /// Of the crawlers that `agents` knows, those for which something is different.
    access: Vec<AccessChange>,
}

/// A line of the file as it is, or as it was, with its number there.
#[derive(Debug, Serialize)]
struct Line {
    line: usize,
    text: String,
}

#[derive(Debug, Serialize)]
struct AccessChange {
    agent: &'static str,
    before: Access,
    now: Access,
}

pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<Status> {
    if let Some(file) = args.sites.iter().find(|site| !robots_texts::is_url(site)) {
        return wrong_usage(format!("{file}: expected the URL of a site, such as https://example.org/"));
    }
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => own_dir().ok_or_else(|| UsageError("expected --dir DIR: there is no $HOME".to_owned()))?,
    };
    std::fs::create_dir_all(&dir).map_err(|error| UsageError(format!("{}: {error}", dir.display())))?;
    let (mut status, texts) = robots_texts::read(&args.online, &args.sites)?;
    for text in &texts {
        let path = dir.join(file_name(&text.name));
        let now = text.body.as_deref().unwrap_or_default();
        let line = compare(text, last(&path)?.as_deref(), now);
        let is_as_before = Status::of(line.changed != Some(true));
        status = status.and(is_as_before);
        // Shown first: if it can't be printed, the next call finds it again.
        if !style::shows(is_as_before) {
        } else if args.online.output.json {
            style::print_json(&line)?;
        } else {
            print(&line, args.online.output.verbose)?;
        }
        keep(&path, now).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    }
    Ok(status)
}

/// XDG Base Directory: where the variable is unset or empty, $HOME/.local/state.
fn own_dir() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
    Some(state.join("abide/watch"))
}

/// `https_example.org_robots.txt`: each origin has another.
fn file_name(url: &str) -> String {
    let name = url.replacen("://", "_", 1);
    name.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '_' })
        .collect()
}

/// The file of the last call.
fn last(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(body) => Ok(Some(body)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow::anyhow!("{}: {error}", path.display())),
    }
}

/// Whole or not at all, so that a call that is killed leaves the last file.
fn keep(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(body)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

fn compare<'a>(text: &'a RobotsText, before: Option<&[u8]>, now: &[u8]) -> WatchLine<'a> {
    let file = text.name.as_str();
    let same =
        WatchLine { file, changed: Some(false), added: Vec::new(), removed: Vec::new(), access: Vec::new() };
    let Some(before) = before else { return WatchLine { changed: None, ..same } };
    if before == now {
        return same;
    }
    let (old, new) = (String::from_utf8_lossy(before), String::from_utf8_lossy(now));
    let diff = TextDiff::from_lines(&*old, &*new);
    let of = |tag: ChangeTag| {
        let changes = diff.iter_all_changes().filter(move |change| change.tag() == tag);
        changes.filter_map(move |change| {
            let at = if tag == ChangeTag::Insert { change.new_index()? } else { change.old_index()? };
            Some(Line { line: at + 1, text: change.value().trim_end().to_owned() })
        })
    };
    let [was, is] = [before, now].map(Robots::parse);
    let access = agents::known().filter_map(|agent| {
        let before = agents::access(&was, before, agent.token);
        let now = agents::access(&is, now, agent.token);
        (before != now).then_some(AccessChange { agent: agent.token, before, now })
    });
    WatchLine {
        file,
        changed: Some(true),
        added: of(ChangeTag::Insert).collect(),
        removed: of(ChangeTag::Delete).collect(),
        access: access.collect(),
    }
}

fn print(line: &WatchLine<'_>, is_verbose: bool) -> anyhow::Result<()> {
    let what = match line.changed {
        None => "seen for the first time",
        Some(false) if is_verbose => "unchanged",
        Some(false) => return Ok(()),
        Some(true) => "changed",
    };
    let colour = if line.changed == Some(true) { style::WAIT } else { PLAIN };
    style::say(&[(style::NAME, line.file), (PLAIN, ": "), (colour, what)])?;
    for (colour, sign, lines) in [(style::BAD, '-', &line.removed), (style::GOOD, '+', &line.added)] {
        for Line { line, text } in lines.iter().take(SHOWN_MAX) {
            style::say(&[(colour, format!("  {sign} {line:>4}  {text}"))])?;
        }
        if let Some(more) = lines.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            style::say(&[(style::DIM, format!("  {sign} {}", count(more, "more line")))])?;
        }
    }
    for AccessChange { agent, before, now } in &line.access {
        style::say(&[(PLAIN, format!("  {agent}: {}, before {}", word(*now), word(*before)))])?;
    }
    Ok(())
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Full => "allowed",
        Access::Partial => "partly allowed",
        Access::None => "not allowed at all",
    }
}

/// `--json` has them all.
const SHOWN_MAX: usize = 100;
