//! JSON Lines: one object in, one object out, in order, in constant memory. A bad line gives an error in its
//! place.
//!
//! `match`, `directives` and `tags` share it with `--batch`: a harness asks a million questions of one
//! process, and has an answer for each line.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use abide_robots::Rules;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine, alphabet};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::input::{UrlOrPath, name, open, parse_url, tokens};
use crate::sanitize::{public, write_json};
use crate::status::{Status, UsageError, wrong_usage};
use crate::style;

/// A line longer than this is an error: four bodies of the largest robots.txt limit, as base64.
const LINE_LEN_MAX: usize = 64 * 1024 * 1024;

/// Bad lines that are also reported on standard error: a caller may leave that unread until we end, and a
/// pipe holds 64 KiB before it blocks.
const REPORTED_MAX: u64 = 50;

/// Characters of what is said of a line.
const ERROR_MAX: usize = 200;

/// Of input and output each.
const BUFFER: usize = 256 * 1024;

/// Runs `answer` over the question on every line of `input` (`-`: standard input). `agents`: those that the
/// call names, which must be none.
pub(crate) fn run<Q: DeserializeOwned, A: Serialize>(
    input: &Path,
    agents: &[String],
    answer: impl Fn(Q) -> Result<A, String>,
) -> anyhow::Result<Status> {
    // Each question names its agent, so one beside them would be ignored. `ABIDE_AGENT` is for the other
    // calls.
    if !agents.is_empty() && std::env::var_os("ABIDE_AGENT").is_none() {
        return wrong_usage("--agent cannot be used with --batch: each question names its own");
    }
    each_line(input, |line| object(line).and_then(&answer))
}

/// Runs `answer` over every line of `input`, without its end.
pub(crate) fn each_line<A: Serialize>(
    input: &Path,
    mut answer: impl FnMut(&[u8]) -> Result<A, String>,
) -> anyhow::Result<Status> {
    let mut lines = BufReader::with_capacity(BUFFER, open(input)?);
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut bad = 0_u64;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        // One byte more tells a line that is too long from one that just fits.
        let read = lines.by_ref().take(LINE_LEN_MAX as u64 + 1).read_until(b'\n', &mut line);
        let read = read.map_err(|error| unreadable(input, number, &error))?;
        if read == 0 {
            break;
        }
        let result = if line.len() > LINE_LEN_MAX {
            // Or the rest of the line would be taken for a question of its own.
            if !line.ends_with(b"\n") {
                lines.skip_until(b'\n').map_err(|error| unreadable(input, number, &error))?;
            }
            Err(format!("the line is longer than {LINE_LEN_MAX} bytes"))
        } else {
            // What some editors write at the beginning of a file.
            let text = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf") } else { None };
            answer(text.unwrap_or(&line).trim_ascii())
        };
        match result {
            Ok(answer) => write_json(&mut out, &answer)?,
            Err(error) => {
                bad += 1;
                if bad <= REPORTED_MAX {
                    style::to_stderr(format_args!("{}:{number}: {error}", name(input)));
                }
                write_json(&mut out, &serde_json::json!({ "error": error }))?;
            }
        }
        out.write_all(b"\n")?;
        if !lines.buffer().contains(&b'\n') {
            // A caller that writes line by line waits for this answer before the next question.
            out.flush()?;
        }
    }
    out.flush()?;
    if bad > REPORTED_MAX {
        style::to_stderr(format_args!("{}: {} more bad lines", name(input), bad - REPORTED_MAX));
    }
    Ok(Status::of(bad == 0))
}

/// A directory fails at the first line, and is wrong usage.
fn unreadable(input: &Path, number: u64, error: &io::Error) -> anyhow::Error {
    match number {
        1 => UsageError(format!("{}: {error}", name(input))).into(),
        _ => anyhow::anyhow!("{}:{number}: {error}", name(input)),
    }
}

pub(crate) fn object<Q: DeserializeOwned>(text: &[u8]) -> Result<Q, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("expected UTF-8: {error}"))?;
    if !text.starts_with('{') {
        let found = if text.is_empty() { "an empty line" } else { "something else" };
        return Err(format!("expected a JSON object, found {found}"));
    }
    serde_json::from_str(text).map_err(|error| {
        // It may repeat a text of the line; to serde each question is a text of one line, whose number says
        // nothing.
        let error = error.to_string().replace(" at line 1 column ", " at column ");
        public(&error).chars().take(ERROR_MAX).collect()
    })
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings as `agent`")]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(crate) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::More(more) => more,
        }
    }
}

/// What a question of a batch is about: a robots.txt as it is for an agent, and a URL.
pub(crate) fn rules_and_url(
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: OneOrMore,
    url: &str,
) -> Result<(Vec<u8>, Rules, UrlOrPath), String> {
    let body = bytes("robots", robots, robots_base64)?
        .ok_or("expected \"robots\" or \"robots_base64\", found neither")?;
    let tokens = tokens(&agent.into_vec())?;
    let url = parse_url(url)?;
    let rules = Rules::parse(&body, &tokens);
    Ok((body, rules, url))
}

/// Bytes that may be given as text or as base64, not both.
pub(crate) fn bytes(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("expected {name:?} or \"{name}_base64\", found both")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(base64)) => {
            decoded(base64).map(Some).map_err(|error| format!("\"{name}_base64\": expected base64: {error}"))
        }
        (None, None) => Ok(None),
    }
}

/// Base64 of either alphabet (RFC 4648 §4 and §5), with its padding or without, in one line or in many.
fn decoded(mut text: String) -> Result<Vec<u8>, DecodeError> {
    text.retain(|letter| !letter.is_ascii_whitespace());
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let is_url_safe = text.contains(['-', '_']);
    let alphabet = if is_url_safe { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(alphabet, config).decode(text)
}
