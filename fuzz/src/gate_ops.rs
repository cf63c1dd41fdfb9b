//! Any schedule of callers, cancels, clock jumps, restarts and store faults: no promise of the gate is broken
//! (G1, G3, G4, G5, G10), and nothing is left at the end. The events and the checker are those of the
//! simulation.

#![allow(dead_code, reason = "the simulation's own tests use the rest")]
#![allow(unreachable_pub, reason = "the modules belong to a test program")]

#[path = "../../crates/abide-gate/tests/it/simulation/checker.rs"]
mod checker;
#[path = "../../crates/abide-gate/tests/it/simulation/faulty_stores.rs"]
mod faulty_stores;
#[path = "../../crates/abide-gate/tests/it/simulation/plan.rs"]
pub(crate) mod plan;
#[path = "../../crates/abide-gate/tests/it/simulation/web.rs"]
mod web;
#[path = "../../crates/abide-gate/tests/it/simulation/world.rs"]
mod world;

pub(crate) use faulty_stores::quiet;

/// What the first lines of this file say.
pub fn run(bytes: &[u8]) {
    quiet();
    let plan = plan::Plan::of_bytes(bytes);
    if let Err(violation) = world::run(&plan, None) {
        panic!("{violation}: {:?}", plan.events);
    }
}
