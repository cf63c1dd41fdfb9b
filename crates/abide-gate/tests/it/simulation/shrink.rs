//! From a run of weeks that fails to the few events that make it fail.

use std::collections::BTreeSet;

use super::checker::Violation;
use super::plan::Plan;

/// The smallest plan found for which `fails` still says so. At most `runs` runs (delta debugging).
pub(crate) fn shrink(plan: &Plan, runs: usize, fails: impl Fn(&Plan) -> Option<Violation>) -> Plan {
    let (mut plan, mut left) = (plan.clone(), runs);
    // What comes after the violation has not caused it.
    if let Some(violation) = fails(&plan) {
        let ids = plan.events.iter().filter(|event| event.at <= violation.at).map(|event| event.id).collect();
        let earlier = plan.with_only(&ids);
        if fails(&earlier).is_some() {
            plan = earlier;
        }
    }
    let mut size = plan.events.len().div_ceil(2);
    while size > 0 && left > 0 {
        let mut from = 0;
        while from < plan.events.len() && left > 0 {
            left -= 1;
            let kept = plan.events.iter().enumerate().filter(|(n, _)| !(from..from + size).contains(n));
            let smaller = plan.with_only(&kept.map(|(_, event)| event.id).collect::<BTreeSet<_>>());
            if fails(&smaller).is_some() {
                plan = smaller;
            } else {
                from += size;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    plan
}
