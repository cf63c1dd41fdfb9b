//! How often a request went out under one permit: something below the pacing that sends again would go out unpaced.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    /// Requests on the wire since the permit was acquired, while what sends them is polled: the client counts in the task that waits for it.
    static SENDS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Sends, and counts how often the client that we build was used for it. Another client counts nothing.
pub(crate) fn count_sends<F: Future + Unpin>(sending: F) -> CountSends<F> {
    CountSends { sending, sends: 0 }
}

/// What tokio's task locals do, without a place for the future in them: it would be moved about in memory.
pub(crate) struct CountSends<F> {
    sending: F,
    sends: u32,
}

impl<F: Future + Unpin> Future for CountSends<F> {
    type Output = (F::Output, u32);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let counting = Counting { outer: SENDS.replace(Some(self.sends)) };
        let polled = Pin::new(&mut self.sending).poll(context);
        self.sends = counting.sends();
        drop(counting);
        polled.map(|sent| (sent, self.sends))
    }
}

/// Gives the place back to whoever counts outside, also when the poll panics.
struct Counting {
    outer: Option<u32>,
}

impl Counting {
    fn sends(&self) -> u32 {
        SENDS.get().unwrap_or_default()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        SENDS.set(self.outer);
    }
}

/// A policy of reqwest that never sends again by itself: one permit, one request. It is asked after each answer, and counts;
/// a request that times out is dropped before, and is not counted.
pub(crate) fn never_again() -> reqwest::retry::Builder {
    reqwest::retry::never().classify_fn(|answer| {
        // A request without a permit of its own is robots.txt, which acquires its permit in the gate.
        SENDS.set(SENDS.get().map(|sends| sends.saturating_add(1)));
        answer.success()
    })
}
