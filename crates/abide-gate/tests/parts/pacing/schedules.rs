//! The real driver under random schedules (shuttle): a task may be stopped wherever it reads the clock, which
//! it does before each step under a lock, and wherever it awaits. A wake-up that gets lost is a deadlock,
//! which shuttle reports with its schedule.
//!
//! There are no timers here: the delay is zero, so that every wait must be ended by another task.
//! `ABIDE_SCHEDULES=100000` runs more.

use std::sync::Arc;
use std::time::Duration;

use crate::denied::DenialCause;
use crate::pacing::Pacer;
use abide_gate::pacing::{PacePolicy, Permit};
use abide_gate::{Clock, WallMillis};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::{future, thread};
use tokio::time::Instant;

use crate::parts::support::pacing::one_second;
use crate::parts::support::{at_most, number};

/// Stands still, and lets others go first whenever it is read.
#[derive(Debug)]
struct Standstill(Instant);

impl Clock for Standstill {
    fn now(&self) -> std::time::Instant {
        thread::yield_now();
        self.0.into_std()
    }

    fn wall(&self) -> WallMillis {
        WallMillis::from_millis(1_800_000_000_000)
    }
}

fn pacer(policy: PacePolicy) -> Arc<Pacer> {
    Pacer::builder(policy.danger_min_delay(Duration::ZERO))
        .clock(Arc::new(Standstill(Instant::now())))
        .pacer()
}

/// Runs a test under many schedules. A runtime is entered, but not run: timers can be made, and never fire.
fn schedules(test: impl Fn() + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    shuttle::check_random(test, number("ABIDE_SCHEDULES", 2_000));
}

/// Who is on the wire, and who was.
#[derive(Clone)]
struct Wire {
    /// How many may be on it at once.
    limit: usize,
    now_and_ever: Arc<Mutex<(usize, Vec<usize>)>>,
}

impl Wire {
    fn new(limit: usize) -> Self {
        Self { limit, now_and_ever: Arc::default() }
    }

    /// A request, beside as many others as the limit allows.
    async fn send(&self, who: usize, permit: Permit) {
        {
            let mut wire = self.now_and_ever.lock().unwrap();
            wire.0 += 1;
            assert!(wire.0 <= self.limit, "{} in flight, of at most {}", wire.0, self.limit);
            wire.1.push(who);
        }
        future::yield_now().await;
        self.now_and_ever.lock().unwrap().0 -= 1;
        match thread_rng().gen_range(0..4) {
            0 => drop(permit),
            2 => permit.give_back(),
            1 => drop(thread::spawn(move || drop(permit)).join()),
            _ => permit.finish(),
        }
    }
}

/// So many tasks, of which each does this; all end.
fn tasks<F: Future<Output = ()> + Send + 'static>(count: usize, task: impl Fn(usize) -> F) {
    let tasks: Vec<_> = (0..count).map(|who| future::spawn(task(who))).collect();
    tasks.into_iter().for_each(|task| future::block_on(task).unwrap());
}

#[test]
fn waiters_come_and_go_under_any_schedule() {
    schedules(|| {
        let limit = thread_rng().gen_range(1..4);
        let (pacer, wire) = (pacer(one_second().danger_max_in_flight(limit)), Wire::new(limit.into()));
        tasks(6, |who| {
            let (pacer, wire) = (pacer.clone(), wire.clone());
            async move {
                let acquire = pacer.try_take("a.example");
                // Every other one goes away after one or two looks.
                let result: Option<Result<Permit, DenialCause>> = match who % 2 {
                    0 => Some(acquire.await),
                    _ => at_most(thread_rng().gen_range(1..3), acquire).await,
                };
                match result {
                    Some(permit) => wire.send(who, permit.unwrap()).await,
                    None => assert_eq!(who % 2, 1),
                }
            }
        });
        assert_eq!((pacer.stats().in_flight, pacer.stats().waiting), (0, 0));
        let went = wire.now_and_ever.lock().unwrap().1.clone();
        assert!([0, 2, 4].iter().all(|who| went.contains(who)), "{went:?}");
    });
}

#[test]
fn a_new_backoff_reaches_all_waiters_under_any_schedule() {
    schedules(|| {
        let pacer = pacer(one_second());
        let open = future::block_on(pacer.take("a.example"));
        let holder = thread::spawn(move || {
            open.finish_with(http::StatusCode::TOO_MANY_REQUESTS, &http::HeaderMap::new());
        });
        tasks(4, |_| {
            let pacer = pacer.clone();
            // The backoff begins before the response has ended, so no waiter can have gone.
            async move {
                let refused = pacer.try_take("a.example").await.map(drop);
                assert!(refused.unwrap_err().retry_at.is_some(), "deferred");
            }
        });
        holder.join().unwrap();
    });
}
