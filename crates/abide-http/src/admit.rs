//! The steps of a call that the gate takes.

use std::pin::pin;

use abide_gate::Denied;

use crate::call::{Call, Step};

/// Checks robots.txt and acquires the host's permit: the call goes on with [`Step::Send`].
///
/// # Errors
/// Every refusal there is.
pub async fn admit(call: &mut Call<'_>) -> Result<(), Denied> {
    let gate = &call.crawler.gate;
    loop {
        let mut left = call.wait_left;
        match call.step() {
            Step::Check => {
                let verdict = gate.check(call.url(), &mut left).await;
                call.spend(left);
                call.checked(verdict?)?;
            }
            Step::Acquire => {
                let mut verdict = call.take_verdict();
                let permit = call.span().cover(pin!(gate.acquire(call.url(), &mut verdict, &mut left))).await;
                call.spend(left);
                call.permitted(verdict, permit)?;
            }
            Step::Send | Step::Follow | Step::Done => return Ok(()),
        }
    }
}
