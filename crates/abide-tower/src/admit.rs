//! The gate's part of a call: may it be asked, and when?

use std::time::Duration;

use abide_gate::pacing::Permit;
use abide_gate::{Denied, Gate, Origin, Verdict};
use http::Extensions;
use url::Url;

use crate::options::Options;

/// Asks robots.txt of the URL's origin, then waits for its host's turn. What both waited is taken from `left`.
pub(crate) async fn admit(
    gate: &Gate,
    url: &Url,
    options: &Options,
    left: &mut Duration,
) -> Result<(Verdict, Permit), Denied> {
    let verdict = judge(gate, url, options, left).await?;
    if let Some(denied) = verdict.refusal(url, gate.wall()) {
        return Err(denied);
    }
    let (verdict, permit, _) = gate.turn(url, verdict, left).await?.into_parts();
    Ok((verdict, permit))
}

async fn judge(gate: &Gate, url: &Url, options: &Options, left: &mut Duration) -> Result<Verdict, Denied> {
    let why = options.ignore_robots.as_ref().and_then(|(origin, why)| {
        let is_meant = Origin::of(url).is_ok_and(|asked| asked == *origin);
        is_meant.then(|| why.clone())
    });
    match why {
        Some(why) => gate.overridden(url, why, left).await,
        None => gate.judge_within(url, left).await,
    }
}

/// The options of a request, or none.
pub(crate) fn options_of(extensions: &Extensions) -> Options {
    extensions.get::<Options>().cloned().unwrap_or_default()
}

/// A permit whose request has not gone out: dropped with the call, the turn goes to the next without a delay.
#[derive(Debug)]
pub(crate) struct Unsent(Option<Permit>);

impl Unsent {
    pub(crate) fn new(permit: Permit) -> Self {
        Self(Some(permit))
    }

    /// The request goes out now.
    #[expect(clippy::expect_used, reason = "nothing else takes it, and this takes self")]
    pub(crate) fn send(mut self) -> Permit {
        self.0.take().expect("only this takes it, and it takes self")
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.give_back();
        }
    }
}
