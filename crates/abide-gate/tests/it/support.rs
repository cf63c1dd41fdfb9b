//! What the tests of the gate share: times, a clock, and a gate before a scripted web.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Gate, GateBuilder, ManualClock, Origin, WallMillis};
use url::Url;

use crate::scripted::ScriptedFetch;

pub(crate) const START: WallMillis = WallMillis::from_millis(1_800_000_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(crate) const PAGE: &str = "https://a.example/page";

pub(crate) fn url(text: &str) -> Url {
    text.parse().expect("a URL")
}

pub(crate) fn page() -> Url {
    url(PAGE)
}

pub(crate) fn origin() -> Origin {
    Origin::of(&page()).unwrap()
}

/// A wall clock that follows tokio's paused one.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(START))
}

/// The default, at a delay of one second whatever the default is: the times in these tests are counted by it.
pub(crate) fn one_second() -> PacePolicy {
    PacePolicy::default().danger_min_delay(SECOND)
}

pub(crate) fn gate(fetch: &ScriptedFetch) -> Gate {
    built(Gate::builder().pace(one_second()).clock(clock()), fetch)
}

pub(crate) fn built(builder: GateBuilder, fetch: &ScriptedFetch) -> Gate {
    builder.build(vec!["ExampleBot".parse().unwrap()], Arc::new(fetch.clone()))
}
