//! How often a request went out in one turn: something below the pacing that sends again would go out unpaced.

use std::cell::Cell;

tokio::task_local! {
    /// Requests on the wire since the turn began. The client counts in the task that waits for it.
    static SENDS: Cell<u32>;
}

/// Sends, and counts how often the client that we build was used for it. Another client counts nothing.
pub(crate) async fn counted<T>(sending: impl Future<Output = T>) -> (T, u32) {
    let counting = async {
        let sent = sending.await;
        (sent, SENDS.with(Cell::get))
    };
    SENDS.scope(Cell::new(0), counting).await
}

/// A policy of reqwest that never sends again by itself: one permit, one request. It is asked after each answer, and counts;
/// a request that times out is dropped before, and is not counted.
pub(crate) fn never_again() -> reqwest::retry::Builder {
    reqwest::retry::never().classify_fn(|answer| {
        // A request outside of a turn is robots.txt, which takes its turn in the gate.
        let _ = SENDS.try_with(|sends| sends.set(sends.get().saturating_add(1)));
        answer.success()
    })
}
