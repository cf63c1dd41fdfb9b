//! Ctrl-C, and the SIGTERM of those who stop services.

use crate::Status;

/// Waits for either, and returns the exit status that shells expect then.
pub(crate) async fn interruption() -> Status {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        return tokio::select! {
            _ = tokio::signal::ctrl_c() => Status::Interrupted,
            _ = terminate.recv() => Status::Terminated,
        };
    }
    let _ = tokio::signal::ctrl_c().await;
    Status::Interrupted
}

/// Whoever presses Ctrl-C again while the report is written does not want it.
pub(crate) async fn end_at_once() {
    let _ = tokio::signal::ctrl_c().await;
    std::process::exit(Status::Interrupted.code().into());
}
