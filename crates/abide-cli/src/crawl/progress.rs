//! A progress bar: on a terminal only, and on standard error.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::crawl::frontier::Frontier;
use crate::crawl::report::Report;

pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(pages_max: usize) -> Self {
        // Hidden by itself when standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(pages_max as u64), ProgressDrawTarget::stderr());
        if let Ok(style) =
            ProgressStyle::with_template("{bar:24} {pos}/{len} pages  {rate}  {elapsed}  {wide_msg}")
        {
            let rate = |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.1}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { bar }
    }

    pub(crate) fn show(&self, fetched: usize, frontier: &Frontier, report: &Report) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(fetched as u64);
        let queued: usize = frontier.queued().map(|(_, queued)| queued).sum();
        let mut message = format!("{queued} queued, {} refused", report.refused());
        let now = Instant::now();
        for (host, until) in frontier.parked().filter(|(_, until)| *until > now).take(HOLDS_SHOWN_MAX) {
            let left = until.saturating_duration_since(now).as_secs();
            let _ = write!(message, "; {host} on hold for {left} s");
        }
        self.bar.set_message(message);
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

const HOLDS_SHOWN_MAX: usize = 2;
