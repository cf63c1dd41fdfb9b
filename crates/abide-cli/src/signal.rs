//! Ctrl-C, and the SIGTERM of those who stop services.

#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

use crate::Status;

/// Waits for either, and returns the exit status that shells expect then. Both are listened for from this call on, before it is polled: a
/// signal that comes with the first request is not missed.
pub(crate) fn interruption() -> impl Future<Output = Status> {
    #[cfg(unix)]
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        #[cfg(unix)]
        if let (Ok(mut interrupt), Ok(mut terminate)) = signals {
            return tokio::select! {
                _ = interrupt.recv() => Status::Interrupted,
                _ = terminate.recv() => Status::Terminated,
            };
        }
        let _ = tokio::signal::ctrl_c().await;
        Status::Interrupted
    }
}

/// A second Ctrl-C, while the report is written, ends the call without it.
pub(crate) async fn end_at_once() {
    let _ = tokio::signal::ctrl_c().await;
    std::process::exit(Status::Interrupted.code().into());
}
