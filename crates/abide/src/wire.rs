//! What a client does on the wire under one permit.
//!
//! One permit is for one request: something below the pacing that sends again would go out unpaced, so sends are counted. An exception is a
//! request that its server has not responded to, on a connection that was closed while it was on its way (RFC 9112 §9.3.1): it goes out once more.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;

use url::{Host, Url};

use abide_http::{is_hang_up, needs_http11};

use crate::http11::Http11;

/// What the client did since the request was handed to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wire {
    /// Requests, if the client counts them.
    pub(crate) sends: u32,
    /// Names that it looked up, because it connected.
    lookups: u32,
}

thread_local! {
    /// Of the request that is polled, because the client counts in the task that waits for it.
    static WIRE: Cell<Wire> = const { Cell::new(Wire { sends: 0, lookups: 0 }) };
}

impl Wire {
    /// Whether the request may go out once more for what the error says, and if so, lets it: a connection that was kept from a request before
    /// was closed before there was a response, or the server wants HTTP/1.1, for which there is a client.
    ///
    /// Whether the request may be sent twice is for the caller to know.
    pub(crate) fn may_send_again(self, url: &Url, error: &reqwest::Error, http11: Option<&Http11>) -> bool {
        if needs_http11(error) {
            return http11.inspect(|http11| http11.add(url)).is_some();
        }
        // Nothing was looked up, so the connection was there. A literal address is never looked up. Of a host behind a proxy only the proxy's name is:
        // there a new connection may be taken for a kept one.
        let was_kept = self.lookups == 0 && matches!(url.host(), Some(Host::Domain(_)));
        self.sends <= 1 && was_kept && !error.is_connect() && is_hang_up(error)
    }
}

/// Sends, and counts how often the client of [`Builder::build_with`](crate::Builder::build_with) was used for it, which another client does not, and
/// how often it connected.
///
/// The counts are set for each poll, as tokio's task-local does, which takes 160 instructions of a request for it.
pub(crate) fn count<F: Future + Unpin>(wire: &mut Wire, mut sending: F) -> impl Future<Output = F::Output> {
    poll_fn(move |context| {
        let _before = Restore(WIRE.replace(*wire));
        let polled = Pin::new(&mut sending).poll(context);
        *wire = WIRE.get();
        polled
    })
}

/// Gives outer counts back to the thread, also if the poll panics: a middleware between the halves may catch that.
struct Restore(Wire);

impl Drop for Restore {
    fn drop(&mut self) {
        WIRE.set(self.0);
    }
}

/// The client looks up a name, because it connects. It does so in the task whose request needs the connection.
pub(crate) fn count_lookup() {
    let wire = WIRE.get();
    WIRE.set(Wire { lookups: wire.lookups.saturating_add(1), ..wire });
}

/// A policy of reqwest that never sends again, and counts each response; a request that times out is dropped before.
pub(crate) fn never_again() -> reqwest::retry::Builder {
    reqwest::retry::never().classify_fn(|answer| {
        // Outside of `count` nothing reads it, and the next count overwrites this one.
        let wire = WIRE.get();
        WIRE.set(Wire { sends: wire.sends.saturating_add(1), ..wire });
        answer.success()
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_panic_in_an_inner_count_leaves_the_outer_one_as_it_was() {
        let mut context = Context::from_waker(Waker::noop());
        let before = Wire { sends: 7, lookups: 3 };
        let (mut outer, mut inner) = (before, Wire::default());
        let inner = count(
            &mut inner,
            poll_fn(|_| -> Poll<()> {
                count_lookup();
                panic!("in a middleware between the halves")
            }),
        );
        let mut inner = pin!(inner);
        let caught = poll_fn(|context| {
            let poll = std::panic::AssertUnwindSafe(|| inner.as_mut().poll(context));
            assert!(std::panic::catch_unwind(poll).is_err());
            Poll::Ready(())
        });
        assert!(pin!(count(&mut outer, caught)).poll(&mut context).is_ready());
        assert_eq!((outer, WIRE.get()), (before, Wire::default()));
    }
}
