//! What a client does on the wire under one permit.
//!
//! One permit is for one request: something below the pacing that sends again would go out unpaced, so sends
//! are counted. An exception is a request that its server has not responded to, on a connection that was
//! closed while it was on its way (RFC 9112 §9.3.1): it goes out once more.

use std::cell::Cell;

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

tokio::task_local! {
    /// Of the request that is polled, because the client counts in the task that waits for it.
    static WIRE: Cell<Wire>;
}

impl Wire {
    /// Whether the request may go out once more for what the error says, and if so, lets it: a connection
    /// that was kept from a request before was closed before there was a response, or the server wants
    /// HTTP/1.1, for which there is a client.
    ///
    /// Whether the request may be sent twice is for the caller to know.
    pub(crate) fn may_send_again(self, url: &Url, error: &reqwest::Error, http11: Option<&Http11>) -> bool {
        if needs_http11(error) {
            return http11.inspect(|http11| http11.add(url)).is_some();
        }
        // Nothing was looked up, so the connection was there. A literal address is never looked up. Of a host
        // behind a proxy only the proxy's name is: there a new connection may be taken for a kept one.
        let was_kept = self.lookups == 0 && matches!(url.host(), Some(Host::Domain(_)));
        self.sends <= 1 && was_kept && !error.is_connect() && is_hang_up(error)
    }
}

/// Sends, and counts how often the client of [`Builder::build_with`](crate::Builder::build_with) was used for
/// it, which another client does not, and how often it connected.
pub(crate) async fn count<F: Future>(sending: F) -> (F::Output, Wire) {
    let counted = async {
        let sent = sending.await;
        (sent, WIRE.with(Cell::get))
    };
    WIRE.scope(Cell::default(), counted).await
}

/// Outside of [`count`] nothing is counted.
fn add(change: impl FnOnce(&mut Wire)) {
    _ = WIRE.try_with(|wire| {
        let mut changed = wire.get();
        change(&mut changed);
        wire.set(changed);
    });
}

/// The client looks up a name, because it connects. It does so in the task whose request needs the
/// connection.
pub(crate) fn count_lookup() {
    add(|wire| wire.lookups = wire.lookups.saturating_add(1));
}

/// A policy of reqwest that never sends again, and counts each response; a request that times out is dropped
/// before.
pub(crate) fn never_again() -> reqwest::retry::Builder {
    reqwest::retry::never().classify_fn(|answer| {
        add(|wire| wire.sends = wire.sends.saturating_add(1));
        answer.success()
    })
}
