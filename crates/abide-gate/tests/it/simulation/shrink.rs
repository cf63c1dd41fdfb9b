//! From a run of weeks that fails to the few events that make it fail.

use std::collections::BTreeSet;

use super::checker::Violation;
use super::plan::Plan;
use super::world::{Rude, run};

/// The smallest plan found in 150 runs that still breaks the same promise (delta debugging).
pub(crate) fn shrink(plan: &Plan, rude: Option<Rude>, violation: &Violation) -> Plan {
    let fails = |plan: &Plan| run(plan, rude).is_err_and(|found| found.promise == violation.promise);
    let (mut plan, mut left) = (plan.clone(), 150);
    // What comes after the violation has not caused it.
    let ids = plan.events.iter().filter(|event| event.at <= violation.at).map(|event| event.id).collect();
    let earlier = plan.with_only(&ids);
    if fails(&earlier) {
        plan = earlier;
    }
    let mut size = plan.events.len().div_ceil(2);
    while size > 0 && left > 0 {
        let mut from = 0;
        while from < plan.events.len() && left > 0 {
            left -= 1;
            let kept = plan.events.iter().enumerate().filter(|(n, _)| !(from..from + size).contains(n));
            let smaller = plan.with_only(&kept.map(|(_, event)| event.id).collect::<BTreeSet<_>>());
            if fails(&smaller) {
                plan = smaller;
            } else {
                from += size;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    plan
}
