//! JSON Lines: one object in, one object out, in order, in constant memory. A bad line gives an error in its place.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Status;

/// A line longer than this is an error: four bodies of the largest robots.txt limit, as base64.
const LINE_LEN_MAX: usize = 64 * 1024 * 1024;

/// Runs `answer` over every line of `input` (`-`: standard input).
pub(crate) fn run<Q, A>(input: &Path, answer: impl Fn(Q) -> Result<A, String>) -> anyhow::Result<Status>
where
    Q: DeserializeOwned,
    A: Serialize,
{
    let mut lines = open(input)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut status = Status::Done;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = lines.by_ref().take(LINE_LEN_MAX as u64 + 1).read_until(b'\n', &mut line);
        let read = read.with_context(|| format!("{}: line {number} cannot be read", input.display()))?;
        if read == 0 {
            break;
        }
        let result = if line.len() > LINE_LEN_MAX {
            skip_line(&mut lines, &line)?;
            Err(format!("the line is longer than {LINE_LEN_MAX} bytes"))
        } else {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            serde_json::from_slice(text).map_err(|error| error.to_string()).and_then(&answer)
        };
        if let Err(error) = &result {
            status = Status::Failed;
            eprintln!("abide: {}:{number}: {error}", name(input));
        }
        write_line(&mut out, result)?;
        if lines.buffer().is_empty() {
            // Whoever feeds us line by line waits for this answer before the next question.
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(status)
}

fn write_line<A: Serialize>(out: &mut impl Write, result: Result<A, String>) -> anyhow::Result<()> {
    match result {
        Ok(answer) => serde_json::to_writer(&mut *out, &answer)?,
        Err(error) => serde_json::to_writer(&mut *out, &serde_json::json!({ "error": error }))?,
    }
    out.write_all(b"\n")?;
    Ok(())
}

/// Passes over the rest of a line that was too long.
fn skip_line(lines: &mut impl BufRead, begun: &[u8]) -> io::Result<()> {
    if begun.ends_with(b"\n") {
        return Ok(());
    }
    loop {
        let chunk = lines.fill_buf()?;
        let (used, done) = match chunk.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (chunk.len(), chunk.is_empty()),
        };
        lines.consume(used);
        if done {
            return Ok(());
        }
    }
}

fn open(input: &Path) -> anyhow::Result<BufReader<Box<dyn Read>>> {
    let reader: Box<dyn Read> = if input == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(input).map_err(|error| crate::Usage(format!("{}: {error}", input.display())))?)
    };
    Ok(BufReader::with_capacity(256 * 1024, reader))
}

fn name(input: &Path) -> String {
    if input == Path::new("-") { "standard input".to_owned() } else { input.display().to_string() }
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
        (None, Some(base64)) => base64::engine::general_purpose::STANDARD
            .decode(base64.trim_ascii())
            .map(Some)
            .map_err(|error| format!("\"{name}_base64\": {error}")),
        (None, None) => Ok(None),
    }
}

/// One string, or a list of them.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
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
