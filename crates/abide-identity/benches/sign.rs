//! Signs as many requests as the argument says, and does nothing else: `benches/instructions` counts what one
//! costs.

#![allow(clippy::restriction, reason = "a bench that cannot go on fails")]

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use abide_identity::{Key, WebBotAuth};
use http::{HeaderMap, Method};
use url::Url;

fn main() {
    let mut args = std::env::args().skip(1);
    // `cargo bench` and `cargo test` call it without a form.
    let (Some(form), Some(count)) = (args.next(), args.next()) else { return };
    let identity = WebBotAuth::new(Key::generate().unwrap(), "https://bot.example").unwrap();
    let identity = match &*form {
        "authority" => identity.with_authority_only(),
        "nonce" => identity.with_nonce(),
        _ => identity,
    };
    let url: Url = "https://example.com/a/page?of=it".parse().unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for _ in 0..count.parse().unwrap() {
        let mut headers = HeaderMap::new();
        identity.sign(&Method::GET, black_box(&url), &mut headers, now).unwrap();
        black_box(headers);
    }
}
