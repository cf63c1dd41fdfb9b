//! What is printed: JSON for programs, and lines for people with few colours, which `anstream` takes away
//! where they do not belong.
//!
//! What a site wrote passes `sanitize` on its way to a terminal, so calls print with these functions and not
//! with `println!`.

use std::fmt;
use std::io::{BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;

use crate::args::Output;
use crate::sanitize::{sanitized, write_json};
use crate::status::Status;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WAIT: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const NAME: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const PLAIN: Style = Style::new();

/// The colour of a status line.
pub(crate) fn of_status(status: u16) -> Style {
    match status {
        200..300 => GOOD,
        300..400 => WAIT,
        _ => BAD,
    }
}

pub(crate) fn set(output: &Output) {
    QUIET.store(output.quiet, Ordering::Relaxed);
    match output.color {
        // anstream goes by the terminal and by NO_COLOR then.
        ColorChoice::Auto => {}
        ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
        ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// One line on standard error. A caller that has closed it does not want to know.
pub(crate) fn to_stderr(what: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "abide: {}", sanitized(&what.to_string()));
}

/// A line on standard error that `-q` leaves out: nothing is wrong.
pub(crate) fn note(what: fmt::Arguments<'_>) {
    if QUIET.load(Ordering::Relaxed) == 0 {
        to_stderr(what);
    }
}

/// How often `-q` was given.
static QUIET: AtomicU8 = AtomicU8::new(0);

/// Whether a result is printed that ended so: with `-qq` only what makes the exit status 1.
pub(crate) fn shows(status: Status) -> bool {
    status != Status::Done || QUIET.load(Ordering::Relaxed) < 2
}

/// Output that goes to a file or a pipe, and is written in large pieces.
struct Buffer {
    out: BufWriter<std::io::Stdout>,
    has_colours: bool,
}

static BUFFER: Mutex<Option<Buffer>> = Mutex::new(None);

fn buffer() -> MutexGuard<'static, Option<Buffer>> {
    BUFFER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on [`say`] and [`print_json`] collect their lines, unless a terminal shows them. For calls that
/// answer as fast as they can, and print in no other way; [`flush`] ends it.
pub(crate) fn collect_output() {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        let has_colours = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        *buffer() = Some(Buffer { out: BufWriter::with_capacity(BUFFER_LEN, stdout), has_colours });
    }
}

const BUFFER_LEN: usize = 256 * 1024;

/// Writes what was collected.
pub(crate) fn flush() -> std::io::Result<()> {
    buffer().take().map_or(Ok(()), |mut buffer| buffer.out.flush())
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    if let Some(Buffer { out, .. }) = &mut *buffer() {
        write_json(&mut *out, value)?;
        return Ok(out.write_all(b"\n")?);
    }
    let mut out = std::io::stdout().lock();
    write_json(&mut out, value)?;
    Ok(out.write_all(b"\n")?)
}

/// A part of a line, in its colour.
pub(crate) type Styled<'a> = (Style, &'a str);

/// One line on standard output. Whatever stands in its parts is escaped here, so that only the colours
/// command the terminal.
pub(crate) fn say<T: AsRef<str>>(parts: &[(Style, T)]) -> std::io::Result<()> {
    match &mut *buffer() {
        Some(Buffer { out, has_colours: true }) => writeln!(out, "{}", line(parts)),
        Some(Buffer { out, .. }) => {
            parts.iter().try_for_each(|(_, text)| write!(out, "{}", sanitized(text.as_ref())))?;
            out.write_all(b"\n")
        }
        None => writeln!(anstream::stdout().lock(), "{}", line(parts)),
    }
}

/// The same on standard error.
pub(crate) fn mention<T: AsRef<str>>(parts: &[(Style, T)]) {
    let _ = writeln!(anstream::stderr().lock(), "{}", line(parts));
}

fn line<T: AsRef<str>>(parts: &[(Style, T)]) -> String {
    parts.iter().map(|(style, text)| format!("{style}{}{style:#}", sanitized(text.as_ref()))).collect()
}

/// The same, on a second line where one would be longer than [`COLUMNS`].
pub(crate) fn say_line(mark: Styled<'_>, url: &str, why: &str) -> std::io::Result<()> {
    let columns = [mark.1, url, why].map(|text| sanitized(text).chars().count()).iter().sum::<usize>() + 4;
    if columns <= COLUMNS {
        return say_verdict(mark, url, why);
    }
    say(&[mark, (PLAIN, &format!("  {url}"))])?;
    say(&[(PLAIN, &format!("        {why}"))])
}

/// As wide as every terminal is.
pub(crate) const COLUMNS: usize = 80;

/// `deny   /x  disallowed by "Disallow: /x" on line 2`.
pub(crate) fn say_verdict(mark: Styled<'_>, url: &str, why: &str) -> std::io::Result<()> {
    say(&[mark, (PLAIN, &format!("  {url}  {why}"))])
}

pub(crate) fn mark(allowed: bool) -> Styled<'static> {
    if allowed { (GOOD, "allow") } else { (BAD, "deny ") }
}
