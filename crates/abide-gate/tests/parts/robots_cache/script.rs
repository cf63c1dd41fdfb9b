//! Any bytes from any server: nothing panics, and everything is allowed only for a reason that the RFC gives.

use std::time::Duration;

use crate::parts::support::robots_cache::*;
use crate::parts::support::scripted::{Scripted, ScriptedFetch};
use abide_gate::Failure;
use abide_gate::robots_cache::Source;
use proptest::prelude::*;
use tokio::time::sleep;

/// One answer of an arbitrary server.
#[derive(Debug, Clone)]
struct Reply {
    status: u16,
    location: Option<Vec<u8>>,
    fields: Vec<(usize, Vec<u8>)>,
    body: Vec<u8>,
    ends: u8,
    wait_minutes: u32,
}

const FIELDS: [&str; 7] =
    ["cache-control", "content-type", "content-encoding", "etag", "last-modified", "retry-after", "location"];

fn header_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..40),
        "(max-age=[0-9]{0,25}|no-store|gzip|identity|text/html|\"[a-z]\"|https?://[a-c]\\.example/[a-z]?|/[a-z]{0,3}|//[a-c]\\.example)"
            .prop_map(String::into_bytes),
    ]
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "(User-agent: \\*|Disallow: /[a-z]{0,3}|Allow: /[a-z]{0,3}|<html>|\n|\r|#){0,12}"
            .prop_map(String::into_bytes),
    ]
}

fn replies() -> impl Strategy<Value = Reply> {
    let status = prop_oneof![
        3 => Just(200_u16),
        3 => 300_u16..309,
        2 => 400_u16..430,
        2 => 500_u16..505,
        1 => 100_u16..=999,
    ];
    let location = proptest::option::weighted(0.7, header_bytes());
    let fields = proptest::collection::vec((0..FIELDS.len(), header_bytes()), 0..4);
    (status, location, fields, bodies(), 0_u8..12, 0_u32..5000).prop_map(
        |(status, location, fields, body, ends, wait_minutes)| Reply {
            status,
            location,
            fields,
            body,
            ends,
            wait_minutes,
        },
    )
}

impl Reply {
    fn answer(&self) -> Scripted {
        let mut answer = Scripted::status(self.status).body(self.body.clone());
        let is_redirect = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        if let (Some(location), true) = (&self.location, is_redirect) {
            answer = answer.header("location", location);
        }
        for (name, value) in &self.fields {
            answer = answer.header(FIELDS[*name], value);
        }
        match self.ends {
            0 => answer.breaks(),
            1 => answer.stalls(),
            2 => Scripted::error(Failure::Protocol),
            _ => answer,
        }
    }
}

/// Whether one of these answers gives the reason for what is allowed.
fn is_reason(source: Source, replies: &[Reply], failing_days: u64) -> bool {
    let said = |status: u16| replies.iter().any(|reply| reply.status == status && reply.ends != 2);
    match source {
        Source::Unreachable(_) => true,
        // Only a whole 2xx body that is no part can be a copy.
        Source::Fresh | Source::Revalidated | Source::LastGood => replies
            .iter()
            .any(|reply| (200..300).contains(&reply.status) && reply.status != 206 && reply.ends > 2),
        Source::Unavailable(status) => (400..500).contains(&status) && said(status),
        Source::TooManyRedirects => [301, 302, 303, 307, 308].into_iter().any(said),
        Source::LongOutage => failing_days >= 30,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn everything_is_allowed_only_for_a_reason(script in proptest::collection::vec(replies(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let replies = std::sync::Arc::new(std::sync::Mutex::new(Vec::<Reply>::new()));
            let fetch = ScriptedFetch::new({
                let (script, replies) = (script.clone(), replies.clone());
                move |_, _| {
                    let mut replies = replies.lock().unwrap();
                    let reply = script[replies.len() % script.len()].clone();
                    replies.push(reply.clone());
                    reply.answer()
                }
            });
            let world = World::new(fetch);
            for reply in &script {
                let answer = world.ask().await;
                world.settle().await;
                let days = answer.failing_since().map_or(0, |since| world.wall().since(since).as_secs() / 86_400);
                assert!(is_reason(answer.source(), &replies.lock().unwrap(), days), "{answer:?}");
                assert!(answer.copy().is_none_or(|copy| copy.body().len() <= 512_000));
                let shown = answer.explain(&"/x".into()).to_string();
                assert!(shown.chars().all(|c| !c.is_control()) && shown.chars().count() < 900, "{shown}");
                let stored = answer.record().encode();
                assert_eq!(abide_gate::robots_cache::RobotsRecord::decode(&stored).as_ref(), Some(answer.record()));
                sleep(reply.wait_minutes * MINUTE + Duration::from_secs(1)).await;
            }
        });
    }
}
