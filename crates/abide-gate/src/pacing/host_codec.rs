//! The stored form of a host: text of ten words, so that a script in a server can read and write it as well.
//!
//! ```text
//! last delay backed_off_until throttles cause holder leased_until number waiting seen
//! 1700000000000000 1000000 0 0 none 000000000000000000000000000000ab 1700000008000000 7 0 1700000000000000
//! ```
//!
//! Times and spans are whole microseconds, rounded up, and 0 is the time of what has not happened. `waiting`
//! is `0`, or a list as `holder:until,holder:until`. A later version adds words at the end, so this one takes
//! its rows for damaged, and a later one knows those of this version by their number. What notices a damaged
//! row (a checksum over key and text) is the store's, because not every server can compute the same.

use std::time::Duration;

use super::backoff::{BackoffCause, HostBackoff};
use super::host_state::{GivenLease, HostEntry, WAITING_MAX};
use crate::HolderId;
use crate::clock::Moment;
use crate::text::digits;

/// No holder, or no process that waits.
const NONE: &str = "0";

/// 128 bits in hexadecimal.
const HOLDER_LEN: usize = 32;

impl HostEntry {
    /// The entry as text, for stores: printable ASCII without quotation marks.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use abide_gate::pacing::{HostEntry, HostState};
    /// let mut entry = HostEntry::default();
    /// entry.merge(&HostState { quiet: Some(Duration::ZERO), ..HostState::default() }, Duration::from_secs(3));
    /// assert_eq!(entry.encode(), "3000000 0 0 0 none 0 0 0 0 0");
    /// assert_eq!(HostEntry::decode(&entry.encode()), Some(entry));
    /// ```
    pub fn encode(&self) -> String {
        let (last, delay, seen) = (time(self.last), micros(self.delay), time(self.seen));
        let HostBackoff { until, throttles, cause, .. } = self.backoff;
        let cause = if until == Moment::NEVER { "none".to_owned() } else { cause.encode() };
        let (holder, leased_until, number) = match self.lease {
            Some(lease) => (lease.holder.to_string(), time(lease.until), lease.number),
            None => (NONE.to_owned(), 0, 0),
        };
        let places = self.waiting.iter().map(|(holder, until)| format!("{holder}:{}", time(*until)));
        let waiting =
            if self.waiting.is_empty() { NONE.to_owned() } else { places.collect::<Vec<_>>().join(",") };
        let until = time(until);
        format!(
            "{last} {delay} {until} {throttles} {cause} {holder} {leased_until} {number} {waiting} {seen}"
        )
    }

    /// The entry that [`encode`](Self::encode) has written, or `None` if this is not one. A store takes a
    /// host whose row it cannot read for one that has just had a request.
    pub fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        let entry = Self {
            last: read_time(word()?)?,
            delay: Duration::from_micros(number(word()?)?),
            backoff: HostBackoff {
                until: read_time(word()?)?,
                throttles: u8::try_from(number(word()?)?).ok()?,
                cause: read_cause(word()?)?,
                ..HostBackoff::default()
            },
            lease: read_lease(word()?, word()?, word()?)?,
            waiting: read_waiting(word()?)?,
            seen: read_time(word()?)?,
        };
        words.next().is_none().then_some(entry)
    }
}

/// Rounded up: nothing ends earlier because it was stored.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// At least 1, unless it has not happened.
fn time(at: Moment) -> u64 {
    if at == Moment::NEVER { 0 } else { micros(at.since(Moment::after(Duration::ZERO))).max(1) }
}

fn number(word: &str) -> Option<u64> {
    digits(word.as_bytes())
}

fn read_time(word: &str) -> Option<Moment> {
    let micros = number(word)?;
    Some(if micros == 0 { Moment::NEVER } else { Moment::after(Duration::from_micros(micros)) })
}

/// A cause of a later version is a backoff all the same; what is no word is damaged.
fn read_cause(word: &str) -> Option<BackoffCause> {
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b':');
    let cause = if word == "none" { HostBackoff::default().cause } else { BackoffCause::decode(word) };
    is_word.then_some(cause)
}

fn read_holder(word: &str) -> Option<HolderId> {
    let is_name = word.len() == HOLDER_LEN && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(word, 16).ok().filter(|_| is_name).map(HolderId)
}

/// The outer `None`: it cannot be read.
fn read_lease(holder: &str, until: &str, number: &str) -> Option<Option<GivenLease>> {
    let (until, number) = (read_time(until)?, digits(number.as_bytes())?);
    if holder == NONE {
        return Some(None);
    }
    Some(Some(GivenLease { holder: read_holder(holder)?, until, number }))
}

fn read_waiting(word: &str) -> Option<Vec<(HolderId, Moment)>> {
    if word == NONE {
        return Some(Vec::new());
    }
    let place = |place: &str| {
        let (holder, until) = place.split_once(':')?;
        Some((read_holder(holder)?, read_time(until)?))
    };
    let places: Vec<_> = word.split(',').take(WAITING_MAX + 1).map(place).collect::<Option<_>>()?;
    (places.len() <= WAITING_MAX).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::super::{Backoff, HostState, LeaseAsk, Want};
    use super::*;
    use crate::parts::support::pacing::s;

    const TEXT: &str = "3000000 1500000 63000000 2 429:60000 000000000000000000000000000000ab 11000000 7 \
        000000000000000000000000000000cd:5000000,000000000000000000000000000000ef:6000000 3000000";

    #[test]
    fn an_entry_survives_as_text() {
        let want = |again_in| Want::Lease { ttl: s(8), again_in: s(again_in), is_held: false };
        let cause = BackoffCause::Answer { status: 429, retry_after: Some(s(60)) };
        let backoff = Backoff { left: s(60), over: s(0), throttles: 2, cause };
        let state =
            HostState { quiet: Some(s(0)), delay: Duration::from_millis(1_500), backoff: Some(backoff) };
        let mut entry = HostEntry::default();
        for (holder, number, again_in, state) in
            [(0xab, 7, 1, state), (0xcd, 1, 2, HostState::default()), (0xef, 1, 3, HostState::default())]
        {
            let ask = LeaseAsk { holder: HolderId(holder), number, want: want(again_in), state };
            entry.exchange(&ask, s(3), s(0));
        }
        assert_eq!(entry.encode(), TEXT);
        let read = HostEntry::decode(TEXT).unwrap();
        assert_eq!((read.encode().as_str(), read.state(s(4))), (TEXT, entry.state(s(4))));
        let empty = HostEntry::default();
        assert_eq!(HostEntry::decode(&empty.encode()), Some(empty));
    }

    #[test]
    fn no_time_is_stored_as_an_earlier_one() {
        let mut entry = HostEntry::default();
        let delay = Duration::from_nanos(1_500);
        entry.merge(&HostState { quiet: Some(s(0)), delay, backoff: None }, Duration::from_nanos(7_100));
        assert!(entry.encode().starts_with("8 2 0 "), "{}", entry.encode());
    }

    #[test]
    fn what_is_no_entry_is_none() {
        for at in 0..=TEXT.rfind(' ').unwrap() {
            assert_eq!(HostEntry::decode(&TEXT[..at]), None, "cut at {at}");
        }
        let entry = HostEntry::default().encode();
        let crowd = vec!["000000000000000000000000000000cd:5"; WAITING_MAX + 1].join(",");
        for text in [
            format!("{entry} "),
            format!("{entry} 0"),
            format!("+{entry}"),
            format!("-{entry}"),
            "0 0 0 256 none 0 0 0 0 0".to_owned(),
            "0 0 0 0 \u{e4} 0 0 0 0 0".to_owned(),
            "0 0 0 0  0 0 0 0 0".to_owned(),
            "0 0 0 0 none ab 1 1 0 0".to_owned(),
            "0 0 0 0 none 0 x y 0 0".to_owned(),
            format!("0 0 0 0 none 0 0 0 {crowd} 0"),
        ] {
            assert_eq!(HostEntry::decode(&text), None, "{text}");
        }
    }

    #[test]
    fn a_cause_of_a_later_version_is_a_backoff_all_the_same() {
        let backoff = HostEntry::decode("0 0 9000000 1 refusing:7 0 0 0 0 0").unwrap().state(s(3)).backoff;
        assert_eq!(backoff.map(|backoff| (backoff.left, backoff.cause)), Some((s(6), BackoffCause::Shared)));
    }
}
