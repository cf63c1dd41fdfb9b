//! Progress: on a terminal only, and on standard error. A bar for the whole, and a line for each of a few hosts.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::crawl::frontier::{Frontier, Task};
use crate::crawl::report::Report;
use crate::recorder::Recorder;
use crate::sanitize::{sanitized, span};

pub(crate) struct Progress {
    bars: MultiProgress,
    whole: ProgressBar,
    line: ProgressStyle,
    hosts: Vec<ProgressBar>,
}

/// A URL that is waited for.
pub(crate) struct Flight {
    pub(crate) task: Task,
    pub(crate) recorder: Recorder,
    pub(crate) since: Instant,
}

impl Progress {
    pub(crate) fn new(pages_max: usize, is_quiet: bool) -> Self {
        // Hidden by itself when standard error is no terminal.
        let target =
            if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bars = MultiProgress::with_draw_target(target);
        // All of a line is one message, which is cut where the terminal ends.
        let line =
            ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let whole = bars.add(ProgressBar::new(pages_max as u64).with_style(line.clone()));
        Self { bars, whole, line, hosts: Vec::new() }
    }

    /// How often there is something new to see though nothing ends.
    pub(crate) fn tick(&self) -> Duration {
        if self.whole.is_hidden() { TICK_HIDDEN } else { TICK_SHOWN }
    }

    pub(crate) fn show(
        &mut self,
        fetched: usize,
        frontier: &Frontier,
        report: &Report,
        in_flight: &HashMap<String, Flight>,
    ) {
        if self.whole.is_hidden() {
            return;
        }
        let now = Instant::now();
        let backed_off = frontier.parked().filter(|(_, until)| *until > now).count();
        let refused = report.sum(|host| host.denied + host.deferred + host.refused);
        let mut message = format!("{} queued", frontier.len());
        for (count, what) in
            [(refused, "not fetched"), (report.sum(|host| host.errors), "failed"), (backed_off, "backed off")]
        {
            if count > 0 {
                let _ = write!(message, ", {count} {what}");
            }
        }
        self.whole.set_position(fetched as u64);
        self.whole.set_message(format!("{}  {message}", self.pace(fetched)));
        let lines = host_lines(frontier, in_flight, now);
        while self.hosts.len() < lines.len() {
            self.hosts.push(self.bars.add(ProgressBar::new_spinner().with_style(self.line.clone())));
        }
        for bar in self.hosts.split_off(lines.len()) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
        self.hosts.iter().zip(lines).for_each(|(bar, line)| bar.set_message(line));
    }

    /// How far it is, and how fast; on a narrow terminal the beginning is what is left of it.
    fn pace(&self, fetched: usize) -> String {
        let len = self.whole.length().unwrap_or_default();
        let (rate, elapsed) = (self.whole.per_sec(), span(self.whole.elapsed().as_secs()));
        format!("{fetched}/{len} pages  {}  {rate:.1}/s  {elapsed}", bar(fetched as u64, len))
    }

    /// Runs what writes to the terminal while the bars are out of its way.
    pub(crate) fn suspended<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bars.suspend(write)
    }

    pub(crate) fn clear(&self) {
        self.whole.finish_and_clear();
        self.hosts.iter().for_each(ProgressBar::finish_and_clear);
        // An error here is one of the terminal, which is not reported elsewhere either.
        let _ = self.bars.clear();
    }
}

fn bar(fetched: u64, len: u64) -> String {
    let full = usize::try_from(BAR_WIDTH * fetched.min(len) / len.max(1)).unwrap_or_default();
    (0..BAR_WIDTH as usize).map(|place| if place < full { '█' } else { '░' }).collect()
}

/// What each host does: backed off, waiting for its permit, or answering. In the order of their names, so that lines stay where they are.
fn host_lines(frontier: &Frontier, in_flight: &HashMap<String, Flight>, now: Instant) -> Vec<String> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for (host, until) in frontier.parked().filter(|(_, until)| *until > now) {
        let left = until.saturating_duration_since(now).as_secs_f64().ceil();
        lines.push((host, format!("backed off for {left:.0} s, {} queued", frontier.queued(host))));
    }
    for (host, flight) in in_flight {
        let path = &flight.task.url[url::Position::BeforePath..];
        let seconds = |since: Instant| now.saturating_duration_since(since).as_secs_f64();
        let state = match flight.recorder.sent().last() {
            None => format!("waits {:>5.1} s", seconds(flight.since)),
            Some(sent) => format!("asks  {:>5.1} s", seconds(sent.at)),
        };
        lines.push((host, format!("{state}  {path}, {} queued", frontier.queued(host))));
    }
    lines.sort_unstable();
    let width =
        lines.iter().take(HOSTS_MAX).map(|(host, _)| host.len()).max().unwrap_or(0).min(HOST_WIDTH_MAX);
    let line = |(host, state)| sanitized(&format!("  {host:<width$}  {state}"));
    lines.into_iter().take(HOSTS_MAX).map(line).collect()
}

const BAR_WIDTH: u64 = 16;
/// Lines below the bar.
const HOSTS_MAX: usize = 6;
const HOST_WIDTH_MAX: usize = 30;
const TICK_SHOWN: Duration = Duration::from_millis(200);
const TICK_HIDDEN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::frontier::{Kind, Next};

    #[test]
    fn each_host_has_a_line_that_says_what_it_does() {
        let urls = ["http://a.example/1", "http://a.example/2", "http://longer.example/x"];
        let urls = urls.map(|url| url.parse().unwrap());
        let mut frontier = Frontier::new(&urls, None);
        assert!(urls.iter().all(|url| frontier.add(url, 0, Kind::Page)));
        let now = Instant::now();
        let mut next = || match frontier.next(now) {
            Next::Task(task) => task,
            other => panic!("{other:?}"),
        };
        let (first, waiting) = (next(), next());
        frontier.ended(&first);
        frontier.park(first, now + Duration::from_millis(2500));
        let since = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        let flight = Flight { recorder: Recorder::default(), since, task: waiting.clone() };
        let in_flight = HashMap::from([(waiting.host, flight)]);
        assert_eq!(
            host_lines(&frontier, &in_flight, now),
            [
                "  a.example       backed off for 3 s, 2 queued".to_owned(),
                "  longer.example  waits   1.0 s  /x, 0 queued".to_owned(),
            ]
        );
    }
}
