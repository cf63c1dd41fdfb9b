//! A runtime without timers: an error that says so, and no panic.

use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use std::sync::Arc;

use crate::pacing::Pacer;
use abide_gate::testing::MemoryStore;
use abide_gate::{DeniedKind, Gate, lacks_timers};

use crate::parts::support::pacing::one_second;

fn without_timers() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn a_permit_that_must_be_waited_for_is_refused() {
    let pacer = Pacer::new(one_second());
    let url = "http://a.example/".parse().unwrap();
    without_timers().block_on(async {
        pacer.get(&url).await.expect("nothing is to be waited for").finish();
        let refused = pacer.get(&url).await.unwrap_err();
        assert!(matches!(refused.kind, DeniedKind::NoTimers));
        assert_eq!(pacer.stats().waiting, 0, "its place is given up");
    });
}

#[test]
fn a_pacer_with_a_shared_store_is_refused() {
    let pacer = Pacer::builder(one_second()).host_store(Arc::new(MemoryStore::new())).pacer();
    let refused = without_timers().block_on(pacer.try_take("a.example"));
    assert!(matches!(refused.unwrap_err().kind, DeniedKind::NoTimers));
    assert_eq!(pacer.stats().in_flight, 0);
}

#[test]
fn a_robots_txt_that_must_be_fetched_is_refused() {
    let gate = Gate::builder()
        .build(vec!["ExampleBot".parse().unwrap()], Arc::new(ScriptedFetch::always(Scripted::status(404))));
    let url = "http://a.example/".parse().unwrap();
    let refused = || async { gate.check(&url, &mut { gate.max_wait() }).await.unwrap_err() };
    let error = without_timers().block_on(refused());
    assert!(matches!(error.kind(), DeniedKind::NoTimers), "{error:?}");
    let timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(
        timers.block_on(gate.check(&url, &mut { gate.max_wait() })).unwrap().is_allowed(),
        "the same gate goes on"
    );
}

#[test]
fn missing_timers_are_noticed_in_a_runtime_only() {
    assert!(!lacks_timers(), "nothing can be said");
    assert!(without_timers().block_on(async { lacks_timers() }));
    let timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(!timers.block_on(async { lacks_timers() }));
}
