//! Progress: on a terminal only, and on standard error.
//!
//! What it shows is taken from the frontier and the report; it keeps no counts of its own.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::crawl::frontier::Frontier;
use crate::crawl::report::Report;
use crate::sanitize::span;

pub(crate) struct ProgressLine(ProgressBar);

impl ProgressLine {
    pub(crate) fn new(pages_max: usize, is_quiet: bool) -> Self {
        // Hidden by itself when standard error is no terminal.
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        // All of a line is one message, which is cut where the terminal ends.
        let line =
            ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        Self(ProgressBar::with_draw_target(Some(pages_max as u64), target).with_style(line))
    }

    /// How often there is something new to see though nothing ends.
    pub(crate) fn tick(&self) -> Duration {
        if self.0.is_hidden() { TICK_HIDDEN } else { TICK_SHOWN }
    }

    pub(crate) fn show(&self, fetched: usize, frontier: &Frontier, report: &Report) {
        if self.0.is_hidden() {
            return;
        }
        let backed_off = frontier.parked(Instant::now());
        let refused = report.sum(|host| host.denied + host.deferred + host.refused);
        let mut message = format!("{} queued", frontier.len());
        for (count, what) in
            [(refused, "not fetched"), (report.sum(|host| host.errors), "failed"), (backed_off, "backed off")]
        {
            if count > 0 {
                let _ = write!(message, ", {count} {what}");
            }
        }
        self.0.set_position(fetched as u64);
        // What is known so far, as far as it may be fetched.
        let known = fetched.saturating_add(frontier.pages());
        let len = self.0.length().unwrap_or_default().min(known as u64);
        let (bar, rate) = (bar(fetched as u64, len), self.0.per_sec());
        let elapsed = span(self.0.elapsed().as_secs());
        // How far it is, and how fast, come first: on a narrow terminal the beginning is what is left.
        self.0.set_message(format!("{fetched}/{len} pages  {bar}  {rate:.1}/s  {elapsed}  {message}"));
    }

    /// Runs what writes to the terminal while the bars are out of its way.
    pub(crate) fn suspended<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn bar(fetched: u64, len: u64) -> String {
    let full = usize::try_from(BAR_WIDTH * fetched.min(len) / len.max(1)).unwrap_or_default();
    (0..BAR_WIDTH as usize).map(|place| if place < full { '█' } else { '░' }).collect()
}

const BAR_WIDTH: u64 = 16;
const TICK_SHOWN: Duration = Duration::from_millis(200);
const TICK_HIDDEN: Duration = Duration::from_secs(60);
