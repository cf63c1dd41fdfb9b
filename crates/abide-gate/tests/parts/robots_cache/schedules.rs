//! The single flight under many schedules: at most one fetch, and no caller waits for ever, also if callers
//! are cancelled or panic.
//!
//! The kernel itself is read here with locks that try out orders; `ABIDE_SCHEDULES=100000` tries more of
//! them.

// The kernel is crate-private; here it is a module of a test.
#![allow(unreachable_pub, dead_code, missing_docs)]

use std::collections::HashMap;

use shuttle::future::{block_on, spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Arc, Mutex};

/// What `flight.rs` finds as `super::sync`.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use shuttle::sync::{Arc, Mutex};
}

#[allow(clippy::duplicate_mod, reason = "once more, with the locks of shuttle")]
#[path = "../../../src/robots_cache/single_flight.rs"]
mod flight;

use crate::parts::support::{at_most, number};
use flight::{Leader, SingleFlight};

type Key = u8;

/// What a flight brings that was put off. The first fetch is number 1.
const NOTHING: u32 = 0;

/// What a fetch brought: the how-manieth it was.
#[derive(Debug, Default)]
struct Web {
    in_air: HashMap<Key, u32>,
    fetches: u32,
    cache: HashMap<Key, u32>,
}

#[derive(Clone)]
struct Crawler {
    flights: Arc<SingleFlight<Key, Option<u32>>>,
    web: Arc<Mutex<Web>>,
}

impl Crawler {
    async fn of(self, key: Key) -> Result<u32, ()> {
        if let Some(&answer) = self.web.lock().unwrap().cache.get(&key) {
            return Ok(answer);
        }
        let (mut news, flight) = self.flights.join(&key).expect("there is room");
        if let Some(flight) = flight {
            spawn(self.clone().fly(flight, key));
        }
        loop {
            if let Some(answer) = *news.borrow_and_update() {
                return Ok(answer);
            }
            if news.changed().await.is_err() {
                return Err(());
            }
        }
    }

    async fn fly(self, flight: Leader<Key, Option<u32>>, key: Key) {
        // As the driver does: what has come in since is used. A flight that landed has stored before it left
        // the air.
        if let Some(&answer) = self.web.lock().unwrap().cache.get(&key) {
            return flight.finish(|news| *news = Some(answer));
        }
        let number = {
            let mut web = self.web.lock().unwrap();
            *web.in_air.entry(key).or_default() += 1;
            assert_eq!(web.in_air[&key], 1, "G3: one fetch in the air for each key");
            web.fetches += 1;
            web.fetches
        };
        for _ in 0..thread_rng().gen_range(0..4) {
            yield_now().await;
        }
        let lot = thread_rng().gen_range(0..4);
        let mut web = self.web.lock().unwrap();
        *web.in_air.entry(key).or_default() -= 1;
        if lot == 0 {
            // A panic, or the runtime went down: the entry is dropped.
            return;
        }
        // If it was put off nothing is stored, and the next flight may take off while this one lands.
        let answer = if lot == 1 { NOTHING } else { number };
        if answer != NOTHING {
            web.cache.insert(key, answer);
        }
        drop(web);
        flight.finish(|news| *news = Some(answer));
    }

    /// As a caller that asks again after each flight that brought nothing.
    async fn of_some_flight(self, key: Key) -> Result<u32, ()> {
        loop {
            let answer = self.clone().of(key).await?;
            if answer != NOTHING {
                return Ok(answer);
            }
        }
    }
}

fn story() {
    let crawler =
        Crawler { flights: Arc::new(SingleFlight::new(8)), web: Arc::new(Mutex::new(Web::default())) };
    block_on(async {
        let callers: Vec<_> = (0..6)
            .map(|n| {
                let key = n % 2;
                let asking = crawler.clone().of_some_flight(key);
                let web = Arc::clone(&crawler.web);
                spawn(async move {
                    // Two of them give up after some polls.
                    let answer = if n < 2 { at_most(2, asking).await } else { Some(asking.await) };
                    // What a caller gets is what is stored.
                    if let Some(Ok(answer)) = answer {
                        assert_eq!(web.lock().unwrap().cache.get(&key), Some(&answer));
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        // A caller that asks again after a loss gets an answer in the end.
        while crawler.clone().of_some_flight(0).await.is_err() {}
        // Flights without callers come to their end, too.
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(crawler.flights.len(), 0, "the air is empty");
    });
}

#[test]
fn no_schedule_makes_two_flights_or_loses_a_caller() {
    let schedules = number("ABIDE_SCHEDULES", 3_000);
    shuttle::check_random(story, schedules);
    shuttle::check_pct(story, schedules, 3);
}
