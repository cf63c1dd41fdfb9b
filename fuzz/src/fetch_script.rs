//! Any answers to robots.txt, at any times: everything is allowed only after a 2xx without rules, a 4xx, too many redirects, or 30 days
//! without an answer; never more than 512,000 bytes are kept, and every call ends in time.
//!
//! Each answer is a byte for its kind, a byte for the pause before it, and a byte for how many of the following bytes it is made of.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use abide_gate::access::{AccessCache, AccessPolicy, FetchErrorKind, RobotsRequest, Source};
use abide_gate::testing::access::{Scripted, ScriptedFetch};
use abide_gate::{ManualClock, Origin, WallMillis};
use abide_robots::{ProductToken, Rules, Target};
use tokio::time::{Instant, sleep};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const PATH: &str = "/closed";

/// What the server has done since the last answer that counted, as far as it can lead to "allow all".
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// The last answer was a text that allows the path, a 4xx, or one redirect too many.
    allows: bool,
    /// A text that allowed the path has been heard and no 4xx since: it may stand in.
    copy_allows: bool,
    failing_since: Option<Duration>,
    /// Until when a lasting 4xx counts, if nothing else has been heard since (RFC 9309 §2.4). A transport that panics is nothing heard.
    gone_until: Option<Duration>,
}

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    crate::gate_ops::quiet();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(play(bytes, AccessPolicy::default()));
}

async fn play(bytes: &[u8], policy: AccessPolicy) {
    let began = Instant::now();
    let script = Arc::new(Mutex::new(Script {
        bytes: bytes.to_vec(),
        at: 0,
        heard: Heard::default(),
        unasked: false,
    }));
    let answers = Arc::clone(&script);
    let fetch = ScriptedFetch::new(move |request, _| {
        answers.lock().expect("no panic holds it").answer(request, began.elapsed())
    });
    let token = ProductToken::new("ExampleBot").expect("a token");
    let cache = AccessCache::builder(vec![token], Arc::new(fetch.clone()))
        .clock(Arc::new(ManualClock::starting_at(WallMillis(1_800_000_000_000))))
        .policy(policy)
        .seed(7)
        .build();
    let origin: Origin = "https://a.example".parse().expect("an origin");
    for _ in 0..64 {
        let pause = script.lock().expect("no panic holds it").pause();
        let Some(pause) = pause else { break };
        sleep(pause).await;
        let asked = Instant::now();
        let Ok(answer) = cache.of(&origin).await else { continue };
        // The deadline, and what the head of each hop may take.
        assert!(asked.elapsed() <= Duration::from_secs(100), "{:?}", asked.elapsed());
        assert!(answer.copy().is_none_or(|copy| copy.body().len() <= 512_000));
        while cache.in_flight() > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        let answer = cache.cached(&origin).unwrap_or(answer);
        let heard = script.lock().expect("no panic holds it").heard;
        let is_long = heard.failing_since.is_some_and(|since| began.elapsed() >= since + 30 * DAY);
        let is_gone = heard.gone_until.is_some_and(|until| began.elapsed() <= until);
        let may = heard.allows
            || heard.copy_allows
            || is_gone
            || (is_long && answer.source() == Source::LongOutage);
        assert!(may || !answer.is_allowed(&Target::new(PATH)), "{answer:?} after {heard:?}");
    }
    assert_eq!(fetch.in_flight_max().max(1), 1, "one at a time");
}

struct Script {
    bytes: Vec<u8>,
    at: usize,
    heard: Heard,
    /// The last answer was a 304 that nobody had asked for, and is asked again.
    unasked: bool,
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
        let is_second = std::mem::take(&mut self.unasked);
        let piece = self.piece();
        let field: Vec<u8> =
            piece.iter().copied().filter(|byte| *byte == b'\t' || (32..127).contains(byte)).collect();
        match kind % 16 {
            0..=3 => self.text(Scripted::text(piece.clone()).header("cache-control", &field), &piece, true),
            4 => self.text(Scripted::text(piece.clone()).header("etag", &field), &piece, true),
            5 => {
                let answer = Scripted::text(piece.clone()).breaks();
                self.text(answer, &piece, false)
            }
            6 => {
                let status = 400 + u16::from(piece.first().copied().unwrap_or_default()) % 100;
                let lasting = !matches!(status, 408 | 421 | 425 | 429);
                self.heard.allows = true;
                self.heard.gone_until = None;
                if lasting {
                    // A day, and the time that the answer itself may take.
                    let gone_until = Some(now + DAY + Duration::from_secs(100));
                    self.heard = Heard { allows: true, gone_until, ..Heard::default() };
                }
                Scripted::status(status).body(piece)
            }
            7 => {
                let status = 500 + 2 * u16::from(piece.first().copied().unwrap_or_default());
                self.fails(now);
                Scripted::status(status.min(999)).body("User-agent: *\nAllow: /\n")
            }
            8 => {
                // The sixth redirect is one too many, and so is one that leads back.
                self.heard.allows = true;
                self.heard.failing_since.get_or_insert(now);
                Scripted::status(301 + u16::from(kind >> 7)).header("location", &field)
            }
            9 => {
                self.heard.allows = true;
                self.heard.failing_since.get_or_insert(now);
                Scripted::redirect(&format!("https://b.example/{}", request.hop()))
            }
            10 => {
                if request.validators().is_some() {
                    self.heard.allows = self.heard.copy_allows;
                    self.heard.failing_since = None;
                } else if is_second {
                    self.fails(now);
                } else {
                    // Nothing is learnt from it yet, nor ever if the second attempt is lost.
                    self.unasked = true;
                    self.heard.allows = false;
                    self.heard.failing_since.get_or_insert(now);
                }
                Scripted::status(304)
            }
            11 => {
                self.fails(now);
                Scripted::text(piece).header("content-encoding", b"gzip")
            }
            12 => {
                self.fails(now);
                Scripted::text(piece).stalls()
            }
            13 => {
                // The attempt is lost. What counted, counts for the rest of its time.
                self.heard.allows = false;
                Scripted::panic()
            }
            14 => {
                self.fails(now);
                Scripted::status(206).body(piece)
            }
            _ => {
                self.fails(now);
                Scripted::error(FetchErrorKind::Reset)
            }
        }
    }

    fn fails(&mut self, now: Duration) {
        self.heard.allows = false;
        self.heard.gone_until = None;
        self.heard.failing_since.get_or_insert(now);
    }

    fn text(&mut self, answer: Scripted, body: &[u8], is_whole: bool) -> Scripted {
        let is_coded = body.starts_with(b"\x1f\x8b") || body.starts_with(b"\x28\xb5\x2f\xfd");
        if !is_whole || is_coded {
            self.heard.allows = false;
            self.heard.gone_until = None;
            return answer;
        }
        let token = ProductToken::new("ExampleBot").expect("a token");
        let allows = Rules::parse(body, &[token]).is_allowed(&Target::new(PATH));
        self.heard = Heard { allows, copy_allows: allows, ..Heard::default() };
        answer
    }
}

/// A cache that opens what it cannot reach is noticed.
#[cfg(test)]
#[tokio::test(start_paused = true)]
#[should_panic(expected = "source: LongOutage")]
async fn a_broken_promise_is_seen() {
    play(b"\x02\x0f\x00", AccessPolicy::default().danger_allow_when_unreachable()).await;
}
