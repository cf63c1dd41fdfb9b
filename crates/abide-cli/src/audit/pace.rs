//! The requests to one host: how far apart they were, and whether requests to wait were heard.
//!
//! Records come in the order in which they were written, and requests are compared in that of their
//! dates, so a few of the last are kept of each host. Memory does not grow with the archive.

use std::collections::VecDeque;
use std::time::Duration;

use super::time::Time;

/// What is known of a host: its last requests, and until when it asked to be left alone.
#[derive(Debug, Default)]
pub(super) struct HostPace {
    sent: VecDeque<Sent>,
    wait: Option<Wait>,
    /// Of a redirect to this host that asks to wait: its URL.
    hop: Option<(u64, Wait)>,
}

/// A record of a request or of its response. Texts are hashed.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) half: Half,
    pub(super) at: Time,
    pub(super) url: u64,
    pub(super) id: u64,
    /// The records that it names as of the same exchange.
    pub(super) concurrent: Vec<u64>,
}

/// What a record is of.
pub(super) enum Recorded {
    /// The first of its exchange.
    First(Impolite),
    /// The other half of an exchange, whose first record is this.
    Second(u64),
}

/// One request. Its two records may come in either order.
#[derive(Debug)]
struct Sent {
    at: Time,
    url: u64,
    /// Of its first record.
    id: u64,
    concurrent: Vec<u64>,
    has_request: bool,
    has_response: bool,
    /// It repeats one that got no response.
    is_repeat: bool,
}

/// A time in which nothing is to be sent.
#[derive(Debug, Clone)]
struct Wait {
    from: Time,
    lasts: Duration,
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Request,
    Response,
}

/// What is wrong with when a request was sent.
#[derive(Debug, Default)]
pub(super) struct Impolite {
    pub(super) delay: Option<String>,
    pub(super) wait: Option<String>,
}

impl HostPace {
    pub(super) fn record(&mut self, mark: Mark, delay: Duration) -> Recorded {
        if let Some(sent) = self.other_half(&mark) {
            match mark.half {
                Half::Request => (sent.at, sent.has_request) = (mark.at, true),
                Half::Response => sent.has_response = true,
            }
            return Recorded::Second(sent.id);
        }
        let Mark { half, at, url, id, concurrent } = mark;
        // What comes later may be for another reason, such as a link.
        let hop = self.hop.take().filter(|(hop, _)| *hop == url).map(|(_, wait)| wait);
        let wait = self.ignored_wait(at, hop);
        let impolite = Impolite { delay: self.short_delay(at, url, delay), wait };
        let before = self.sent.back();
        let is_repeat = before.is_some_and(|before| before.url == url && before.is_unanswered());
        let (has_request, has_response) = (half == Half::Request, half == Half::Response);
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { at, url, id, concurrent, has_request, has_response, is_repeat });
        Recorded::First(impolite)
    }

    /// The exchange that lacks this record: one that either names, else the last for its URL, if no response
    /// comes before its request then.
    fn other_half(&mut self, mark: &Mark) -> Option<&mut Sent> {
        let is_missing = |sent: &Sent| match mark.half {
            Half::Request => !sent.has_request,
            Half::Response => !sent.has_response,
        };
        let is_named = |sent: &Sent| mark.concurrent.contains(&sent.id) || sent.concurrent.contains(&mark.id);
        let is_in_order = |sent: &Sent| match mark.half {
            Half::Request => !sent.at.is_before(mark.at),
            Half::Response => !mark.at.is_before(sent.at),
        };
        let named = self.sent.iter().rposition(|sent| is_missing(sent) && is_named(sent));
        let last = || {
            let place = self.sent.iter().rposition(|sent| sent.url == mark.url)?;
            self.sent.get(place).filter(|sent| is_missing(sent) && is_in_order(sent)).map(|_| place)
        };
        let place = named.or_else(last)?;
        self.sent.get_mut(place)
    }

    /// Files of several writers need not be in the order of time: the nearest of the last requests counts.
    fn short_delay(&self, at: Time, url: u64, delay: Duration) -> Option<String> {
        // RFC 9112 §9.3.1: a client may repeat a request whose connection was closed without a response.
        let may_follow = |sent: &&Sent| sent.url == url && sent.is_unanswered() && !sent.is_repeat;
        let others = self.sent.iter().filter(|sent| !may_follow(sent));
        let gaps = others.filter_map(|sent| {
            let (earlier, later) = if at.is_before(sent.at) { (at, sent.at) } else { (sent.at, at) };
            later.is_within(earlier, delay).then(|| later.since_at_most(earlier))
        });
        let gap = gaps.min()?;
        Some(format!(
            "at most {} after another request to the host, expected {} or more",
            seconds(gap),
            seconds(delay)
        ))
    }

    fn ignored_wait(&self, at: Time, hop: Option<Wait>) -> Option<String> {
        let mut waits = self.wait.clone().into_iter().chain(hop);
        let wait = waits.find(|wait| wait.from.is_before(at) && at.is_within(wait.from, wait.lasts))?;
        let after = seconds(at.since_at_most(wait.from));
        Some(format!("at most {after} after {}, expected {} or more", wait.why, seconds(wait.lasts)))
    }

    /// A response asks to leave the host alone.
    pub(super) fn asked_to_wait(&mut self, from: Time, lasts: Duration, why: String) {
        let ends_later = |wait: &Wait| wait.from.plus(wait.lasts) > from.plus(lasts);
        if !self.wait.as_ref().is_some_and(ends_later) {
            self.wait = Some(Wait { from, lasts, why });
        }
    }

    /// A redirect to `url` asks to wait before that is requested: of the next request to its host.
    pub(super) fn asked_before_hop(&mut self, from: Time, url: u64, lasts: Duration, why: String) {
        self.hop = Some((url, Wait { from, lasts, why }));
    }
}

impl Sent {
    fn is_unanswered(&self) -> bool {
        self.has_request && !self.has_response
    }
}

fn seconds(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Records that far from their place in time are looked at.
const SENT_MAX: usize = 16;
