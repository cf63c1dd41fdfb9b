//! Any answers to robots.txt, at any times: everything is allowed only after a 2xx without rules, a 4xx, the
//! sixth redirect or one that leads back, or 30 days of failures with an attempt on 20 of them; after one of
//! the first three everything is allowed; but after 408, 421, 425 and 429 a copy decides. No copy is used 27
//! hours after the last attempt, never more than 512,000 bytes are kept, and every call ends in time. Under
//! `cautious()` seven statuses of 4xx are failures.
//!
//! Each answer is a byte for its kind, a byte for the pause before it, and a byte for how many of the
//! following bytes it is made of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::robots_cache::{RobotsPolicy, RobotsRequest, Source};
use abide_gate::testing::robots_cache::unpaced;
use abide_gate::{Clock, Failure, Gate, ManualClock, Origin, WallMillis};
use abide_robots::{ProductToken, Rules, Target};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::scripted::{Scripted, ScriptedFetch};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What an attempt may take: the deadline, and the wait for its permit.
const ATTEMPT: Duration = Duration::from_secs(100);
/// Nothing that was fetched longer ago is used.
const UNASKED_MAX: Duration = Duration::from_secs(27 * 60 * 60);
const PATH: &str = "/closed";

/// What the server has done since the last answer that counted, as far as it can lead to "allow all".
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The last answer was a text that allows the path, a 4xx, or one redirect too many.
    allows: bool,
    /// A text that allowed the path has come and no 4xx since: it may stand in.
    copy_allows: bool,
    /// There is a copy: a text has come, and no lasting 4xx since.
    has_copy: bool,
    failing_since: Option<Duration>,
    /// Failures of which each was 20 hours or more after the last one that is counted, and when that was.
    counted: u32,
    counted_at: Option<Duration>,
    /// Until when a lasting 4xx counts, if nothing else has come since (RFC 9309 §2.4). A transport that
    /// panics is no answer.
    gone_until: Option<Duration>,
}

impl Known {
    /// RFC 9309 §2.3.1.4, last paragraph.
    fn is_long(&self, now: Duration) -> bool {
        self.counted >= 20 && self.failing_since.is_some_and(|since| now >= since + 30 * DAY)
    }
}

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    crate::gate_ops::quiet();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        if play(bytes, RobotsPolicy::default()).await.is_split {
            play(bytes, RobotsPolicy::cautious()).await;
        }
    });
}

/// How a script went.
struct Played {
    /// There was a status that the policies take differently.
    is_split: bool,
    /// Where the last answer came from.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the tests of the checker"))]
    source: Option<Source>,
}

async fn play(bytes: &[u8], policy: RobotsPolicy) -> Played {
    let began = Instant::now();
    let script = Arc::new(Mutex::new(Script {
        bytes: bytes.to_vec(),
        at: 0,
        is_cautious: policy == RobotsPolicy::cautious(),
        is_split: false,
        known: Known::default(),
        way: Vec::new(),
        asked_again: false,
        next: None,
        strayed: false,
    }));
    let answers = Arc::clone(&script);
    let fetch = ScriptedFetch::new(move |request, _| {
        answers.lock().expect("no panic holds it").answer(request, began.elapsed())
    });
    let token = ProductToken::new("ExampleBot").expect("a token");
    let clock = Arc::new(ManualClock::starting_at(WallMillis::from_millis(1_800_000_000_000)));
    let wall = || clock.wall();
    let settings = Gate::builder().clock(clock.clone()).robots(policy).seed(7);
    let cache = unpaced(settings, vec![token], Arc::new(fetch.clone()));
    let origin: Origin = "https://a.example".parse().expect("an origin");
    let mut source = None;
    for _ in 0..64 {
        let pause = script.lock().expect("no panic holds it").pause();
        let Some(pause) = pause else { break };
        sleep(pause).await;
        let asked = Instant::now();
        let Ok(answer) = cache.entry(&origin).await else { continue };
        // The deadline, and what the head of each hop may take.
        assert!(asked.elapsed() <= ATTEMPT, "{:?}", asked.elapsed());
        assert!(answer.copy().is_none_or(|copy| copy.body().len() <= 512_000));
        while cache.stats().robots_in_flight > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        let answer = cache.cached(&origin).unwrap_or(answer);
        let (known, now) = (script.lock().expect("no panic holds it").known, began.elapsed());
        assert!(wall().since(answer.asked_at()) < UNASKED_MAX, "{answer:?}");
        let is_allowed = answer.is_allowed(&Target::new(PATH));
        let may = known.allows
            || known.copy_allows
            || known.gone_until.is_some_and(|until| now <= until)
            || (known.is_long(now) && answer.source() == Source::LongOutage);
        assert!(may || !is_allowed, "{answer:?} after {known:?}");
        assert!(is_allowed || !known.allows, "{answer:?} after {known:?}");
        source = Some(answer.source());
    }
    assert_eq!(fetch.in_flight_max().max(1), 1, "one at a time");
    let script = script.lock().expect("no panic holds it");
    assert!(!script.strayed, "each hop is one that a redirect led to");
    Played { is_split: script.is_split, source }
}

struct Script {
    bytes: Vec<u8>,
    at: usize,
    is_cautious: bool,
    is_split: bool,
    known: Known,
    /// The URLs of this attempt.
    way: Vec<Url>,
    /// In this attempt an unasked 304 came.
    asked_again: bool,
    /// Where the same attempt goes on.
    next: Option<Url>,
    /// It went elsewhere.
    strayed: bool,
}

impl Script {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// Minutes, or hours.
    fn pause(&mut self) -> Option<Duration> {
        let byte = self.byte()?;
        let unit = if byte & 1 == 0 { 60 } else { 3_600 };
        Some(Duration::from_secs(u64::from(byte >> 1) * unit + 1))
    }

    fn piece(&mut self) -> Vec<u8> {
        let length = usize::from(self.byte().unwrap_or_default());
        let from = self.at.min(self.bytes.len());
        let to = (from + length).min(self.bytes.len());
        self.at = to;
        self.bytes[from..to].to_vec()
    }

    fn answer(&mut self, request: &RobotsRequest, now: Duration) -> Scripted {
        let kind = self.byte().unwrap_or(0xff);
        let mut piece = self.piece();
        if !is_coded(&piece) {
            // Bytes that no text is made of may be taken for a coding that was left, and not for the rules in
            // them.
            piece
                .iter_mut()
                .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
                .for_each(|byte| *byte = b' ');
        }
        let field: Vec<u8> =
            piece.iter().copied().filter(|byte| *byte == b'\t' || (32..127).contains(byte)).collect();
        let next = self.next.take();
        if next.is_none() {
            self.way.clear();
            self.asked_again = false;
        }
        let expected = next.map_or("https://a.example/robots.txt".to_owned(), String::from);
        self.way.truncate(request.hop());
        self.way.push(request.url().clone());
        self.strayed |= request.url().as_str() != expected || self.way.len() != request.hop() + 1;
        match kind % 16 {
            0..=3 => {
                let answer = Scripted::text(piece.clone()).header("cache-control", &field);
                self.text(answer, &piece, true, now)
            }
            4 => self.text(Scripted::text(piece.clone()).header("etag", &field), &piece, true, now),
            5 => {
                let answer = Scripted::text(piece.clone()).breaks();
                self.text(answer, &piece, false, now)
            }
            6 => {
                let status = 400 + u16::from(piece.first().copied().unwrap_or_default()) % 100;
                self.unavailable(status, now);
                Scripted::status(status).body(piece)
            }
            7 => {
                let status = 500 + 2 * u16::from(piece.first().copied().unwrap_or_default());
                self.fails(now);
                Scripted::status(status.min(999)).body("User-agent: *\nAllow: /\n")
            }
            8 => {
                self.redirects(place(request.url(), &field), now);
                Scripted::status(301 + u16::from(kind >> 7)).header("location", &field)
            }
            9 => {
                let to = format!("https://b.example/{}", request.hop());
                self.redirects(to.parse().ok(), now);
                Scripted::redirect(&to)
            }
            10 => {
                if request.is_conditional() {
                    let copy_allows = self.known.copy_allows;
                    self.known =
                        Known { allows: copy_allows, copy_allows, has_copy: true, ..Known::default() };
                } else if std::mem::replace(&mut self.asked_again, true) {
                    self.fails(now);
                } else {
                    // Nothing of it is used yet, nor ever if the second attempt is lost.
                    self.known.allows = false;
                    self.next = Some(request.url().clone());
                }
                Scripted::status(304)
            }
            11 => {
                self.fails(now);
                // No stream begins so.
                Scripted::text([b"#", &piece[..]].concat()).header("content-encoding", b"gzip")
            }
            12 => {
                self.fails(now);
                Scripted::text(piece).stalls()
            }
            13 => {
                // The attempt is lost. What counted, counts for the rest of its time.
                self.known.allows = false;
                Scripted::panic()
            }
            14 => {
                self.fails(now);
                Scripted::status(206).body(piece)
            }
            _ => {
                self.fails(now);
                Scripted::error(Failure::Reset)
            }
        }
    }

    fn fails(&mut self, now: Duration) {
        let known = &mut self.known;
        known.allows = false;
        known.gone_until = None;
        known.failing_since.get_or_insert(now);
        // An attempt counts when it ends, which may be a while after it was answered.
        if known.counted_at.is_none_or(|at| now + ATTEMPT >= at + 20 * HOUR) {
            known.counted += 1;
            known.counted_at = Some(now);
        }
    }

    fn unavailable(&mut self, status: u16, now: Duration) {
        let is_split = matches!(status, 401 | 403 | 407 | 408 | 421 | 425 | 429);
        self.is_split |= is_split;
        if is_split && self.is_cautious {
            return self.fails(now);
        }
        self.known.allows = self.known.copy_allows || !self.known.has_copy;
        self.known.gone_until = None;
        if !matches!(status, 408 | 421 | 425 | 429) {
            // A day, and the time that the answer itself may take.
            self.known = Known { allows: true, gone_until: Some(now + DAY + ATTEMPT), ..Known::default() };
        }
    }

    /// RFC 9309 §2.3.1.2: five are followed, the sixth is one too many, and so is one that leads back. One
    /// that leads nowhere is a failure.
    fn redirects(&mut self, to: Option<Url>, now: Duration) {
        let Some(to) = to else { return self.fails(now) };
        self.known.allows = self.way.len() > 5 || self.way.contains(&to);
        if self.known.allows {
            self.known.gone_until = None;
        } else {
            self.next = Some(to);
        }
    }

    fn text(&mut self, answer: Scripted, body: &[u8], is_whole: bool, now: Duration) -> Scripted {
        if !is_whole || is_coded(body) {
            self.fails(now);
            return answer;
        }
        let token = ProductToken::new("ExampleBot").expect("a token");
        let allows = Rules::parse(body, &[token]).is_allowed(&Target::new(PATH));
        self.known = Known { allows, copy_allows: allows, has_copy: true, ..Known::default() };
        answer
    }
}

fn is_coded(body: &[u8]) -> bool {
    body.starts_with(b"\x1f\x8b") || body.starts_with(b"\x28\xb5\x2f\xfd")
}

/// Where a Location leads that is followed: to https, since https is not left; without user information and
/// fragment.
fn place(from: &Url, location: &[u8]) -> Option<Url> {
    let text = std::str::from_utf8(location).ok()?.trim_matches(' ');
    let mut url = from.join(text).ok().filter(|_| !text.is_empty() && !text.contains('\t'))?;
    url.set_fragment(None);
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    (url.scheme() == "https" && url.port() != Some(0)).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache that opens what it cannot reach is noticed.
    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "source: LongOutage")]
    async fn a_broken_promise_is_seen() {
        play(b"\x02\x0f\x00", RobotsPolicy::default().danger_allow_when_unreachable()).await;
    }

    /// A cache that follows where the model does not is noticed.
    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "each hop is one that a redirect led to")]
    async fn a_redirect_that_should_not_be_followed_is_seen() {
        let script = [&b"\x02\x08\x10http://b.example\x06\x00"[..]].concat();
        play(&script, RobotsPolicy::default().with_downgrade(true)).await;
    }

    /// The corpus reaches what takes months.
    #[tokio::test(start_paused = true)]
    async fn a_long_outage_needs_its_attempts() {
        let long = include_bytes!("../corpus/fetch_script/long_outage");
        let short = include_bytes!("../corpus/fetch_script/long_outage_of_nineteen_attempts");
        for (script, is_long) in [(&long[..], true), (short, false)] {
            let source = play(script, RobotsPolicy::default()).await.source;
            assert_eq!(source == Some(Source::LongOutage), is_long, "{source:?}");
        }
    }
}
