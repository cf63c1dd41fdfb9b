//! Work that blocks, off the threads of the runtime.

use tokio::runtime::Handle;

/// Does it on tokio's threads for blocking work. `None`: the work panicked, or the runtime is going down.
///
/// Without a runtime no task can be blocked, so it is done here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.ok(),
        Err(_) => Some(work()),
    }
}
