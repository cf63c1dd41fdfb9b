//! The read timeout, and its timers, which requests reuse.
//!
//! Nearly every request needs a timer, and has its response long before. To register one with tokio, and to take it back, each locks what all
//! threads of the runtime share. So a timer stays registered when its request has ended, and the next request of the thread reuses it. It fires at
//! the deadline of an earlier request, about once in a limit: then it is moved to that of the request that waits, or wakes the last task in vain.
//! Only a request with an earlier deadline moves it at once. A clock of tokio's that is paused goes on to the deadlines of idle timers, as it does
//! to the timers of reqwest's own pool.
//!
//! Until it fires, an idle timer keeps the memory of the last task, and the handle of its runtime until the thread ends, or sends in another one.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep};

use abide_gate::{Clock, SystemClock, caught, lacks_timers};

/// `sending`, which waits no longer than `limit` for the head of its response. Its error is of the kind `TimedOut`, by which reqwest's `is_timeout`
/// knows it; or `Unsupported`, and nothing is sent, where the runtime has no timers.
pub fn with_read_timeout<F: Future + Unpin>(
    limit: Option<Duration>,
    mut sending: F,
) -> impl Future<Output = io::Result<F::Output>> {
    // Not `async`: a future that takes things by value moves them once more when it is polled first.
    let mut timeout = ReadTimeout::new(limit);
    let mut is_begun = false;
    poll_fn(move |context| {
        is_begun = is_begun || timeout.begin();
        if !is_begun {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        }
        match Pin::new(&mut sending).poll(context) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent)),
            Poll::Pending => timeout.poll(context).map(Err),
        }
    })
}

/// Counts only while a byte is awaited. reqwest's `read_timeout` goes on while a caller is busy with what it has, and then fails the body
/// though the next byte is there.
#[derive(Debug)]
pub(crate) struct ReadTimeout {
    limit: Option<Duration>,
    /// While a byte is awaited.
    timer: Option<Timer>,
}

impl ReadTimeout {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { limit, timer: None }
    }

    /// Makes the timer, before anything is sent, because tokio panics where it cannot be made. Returns whether timers work here: also without a
    /// limit, because abide needs one wherever it waits.
    fn begin(&mut self) -> bool {
        let Some(limit) = self.limit else { return !lacks_timers() };
        self.timer = caught(|| timer_of(limit));
        self.timer.is_some()
    }

    /// To be polled while nothing has come: an error when that has lasted too long.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(limit) = self.limit else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| timer_of(limit));
        ready!(timer.poll(context));
        let late = SystemClock.now().saturating_duration_since(timer.deadline.into_std());
        // Not polled for long: what has come meanwhile may have given no decoded byte yet.
        if late > limit.checked_div(4).unwrap_or_default() {
            self.end();
            ready!(self.timer.insert(timer_of(limit)).poll(context));
        }
        let text = format!("the server sent nothing for {limit:?} (Builder::read_timeout)");
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, text))
    }

    /// Something has come. The next request of the thread may have the timer.
    pub(crate) fn end(&mut self) {
        let mut timer = self.timer.take();
        let Some(runtime) = timer.as_ref().map(|timer| timer.runtime) else { return };
        // While its thread ends, the list is gone.
        let others = IDLE.try_with(|idle| {
            let mut idle = idle.borrow_mut();
            let is_of_another = idle.last().is_some_and(|timer| timer.runtime != runtime);
            let others = if is_of_another { mem::take(&mut *idle) } else { Vec::new() };
            if idle.len() < IDLE_MAX {
                idle.extend(timer.take());
            }
            others
        });
        // Only now: a waker goes with each, which may have a timer of its own.
        drop((timer, others));
    }
}

impl Drop for ReadTimeout {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Debug)]
struct Timer {
    runtime: Id,
    /// When the request has waited for too long.
    deadline: Instant,
    /// Registered for then, or for the deadline of an earlier request.
    sleep: Pin<Box<Sleep>>,
}

impl Timer {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.sleep.as_mut().poll(context));
        if self.sleep.deadline() < self.deadline {
            self.sleep.as_mut().reset(self.deadline);
            ready!(self.sleep.as_mut().poll(context));
        }
        Poll::Ready(())
    }
}

thread_local! {
    /// The timers of one runtime that no request uses.
    static IDLE: RefCell<Vec<Timer>> = const { RefCell::new(Vec::new()) };
}

/// How many idle timers a thread keeps.
const IDLE_MAX: usize = 64;

/// # Panics
/// Like tokio's: outside of a runtime, and in one without timers.
fn timer_of(limit: Duration) -> Timer {
    let runtime = Handle::current().id();
    if let Some(deadline) = SystemClock.now().checked_add(limit).map(Instant::from_std) {
        while let Some(mut timer) = IDLE.with_borrow_mut(Vec::pop) {
            if timer.runtime == runtime {
                if timer.sleep.deadline() > deadline {
                    timer.sleep.as_mut().reset(deadline);
                }
                return Timer { deadline, ..timer };
            }
        }
    }
    let sleep = Box::pin(sleep(limit));
    Timer { runtime, deadline: sleep.deadline(), sleep }
}

#[cfg(test)]
mod tests {
    use abide_gate::Failure;
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn idle() -> usize {
        IDLE.with_borrow(Vec::len)
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
    }

    /// Registers a timer, as a request does that waits for its response.
    async fn begun(limit: Duration) -> ReadTimeout {
        let mut timeout = ReadTimeout::new(Some(limit));
        assert!(poll_fn(|context| Poll::Ready(timeout.poll(context))).await.is_pending());
        timeout
    }

    async fn fires_after(mut timeout: ReadTimeout) -> Duration {
        let began = Instant::now();
        let fires = poll_fn(|context| timeout.poll(context));
        tokio::time::timeout(Duration::from_secs(1_000), fires).await.expect("it fires");
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_is_used_again_fires_at_its_own_time() {
        for (first, pause, second) in [(30, 1, 30), (30, 1, 5), (5, 1, 30), (30, 60, 30), (30, 60, 5)] {
            drop(begun(first * SECOND).await);
            assert_eq!(idle(), 1);
            tokio::time::sleep(pause * SECOND).await;
            let timer = begun(second * SECOND).await;
            assert_eq!(idle(), 0, "it is the same");
            assert_eq!(fires_after(timer).await, second * SECOND, "{first} {pause} {second}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_was_busy_waits_once_more() {
        let mut timeout = begun(4 * SECOND).await;
        tokio::time::sleep(6 * SECOND).await;
        assert!(poll_fn(|context| Poll::Ready(timeout.poll(context))).await.is_pending());
        assert_eq!(fires_after(timeout).await, 4 * SECOND);
        let timeout = begun(4 * SECOND).await;
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(fires_after(timeout).await, Duration::ZERO, "a quarter of the limit is in time");
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_has_a_timer_of_its_own() {
        let mut timers = Vec::new();
        for seconds in 1..=100 {
            timers.push(begun(seconds * SECOND).await);
        }
        timers.clear();
        assert_eq!(idle(), IDLE_MAX);
        for seconds in 1..=3 {
            timers.push(begun(seconds * SECOND).await);
        }
        for timer in timers {
            assert_eq!(fires_after(timer).await, SECOND);
        }
        assert_eq!(fires_after(begun(7 * SECOND).await).await, 7 * SECOND);
    }

    /// A waker with a timer of its own, as that of a task has in which a request waits.
    struct Holds(#[expect(dead_code, reason = "it is dropped")] std::sync::Mutex<ReadTimeout>);

    impl std::task::Wake for Holds {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    /// Leaves a timer in the list with such a waker.
    fn leave_nested() {
        let timeout = || ReadTimeout { limit: Some(SECOND), timer: Some(timer_of(SECOND)) };
        let waker = std::sync::Arc::new(Holds(timeout().into())).into();
        assert!(timeout().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(idle(), 1, "the other one lives in the waker");
    }

    #[test]
    fn a_timer_is_not_used_in_another_runtime_and_goes_with_its_waker() {
        let (first, second) = (runtime(), runtime());
        first.block_on(async { leave_nested() });
        assert_eq!(second.block_on(async { fires_after(begun(SECOND).await).await }), SECOND);
        assert_eq!(idle(), 1, "that of the second runtime");
        let kept = first.block_on(begun(SECOND));
        second.block_on(async { leave_nested() });
        drop(kept);
        assert_eq!(idle(), 1, "a list has the timers of one runtime");
        second.block_on(async { leave_nested() });
        // A runtime ends with a timer of its own in the list.
        drop(second);
        assert_eq!(first.block_on(async { fires_after(begun(SECOND).await).await }), SECOND);
    }

    #[test]
    fn a_thread_may_end_before_its_runtime_and_after_it() {
        let lasting = runtime();
        std::thread::scope(|scope| {
            scope.spawn(|| lasting.block_on(async { leave_nested() })).join().unwrap();
        });
        drop(lasting);
        let ending = runtime();
        std::thread::spawn(move || ending.block_on(async { leave_nested() })).join().unwrap();
    }

    #[test]
    fn nothing_is_sent_where_no_timer_can_be_made() {
        let sending = || poll_fn(|_| -> Poll<()> { panic!("it was sent") });
        let untimed = Builder::new_current_thread().build().unwrap();
        for limit in [None, Some(SECOND)] {
            let error = untimed.block_on(with_read_timeout(limit, sending())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        // Outside of any runtime, and polled again.
        let mut outside = std::pin::pin!(with_read_timeout(Some(SECOND), sending()));
        for _ in 0..2 {
            let polled = outside.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Err(_))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_is_a_timeout() {
        let limit = Some(Duration::from_secs(60));
        let error = with_read_timeout(limit, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(crate::failure_of(&error), Some(Failure::Timeout));
    }
}
