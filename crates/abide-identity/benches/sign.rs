//! What signing a request costs.

#![allow(clippy::arithmetic_side_effects, clippy::unwrap_used, reason = "a bench that cannot go on fails")]
#![allow(missing_docs, reason = "criterion makes a public function")]
use std::hint::black_box;
use std::time::{Duration, SystemTime};

use abide_identity::{Key, WebBotAuth};
use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, Method};
use url::Url;

fn sign(criterion: &mut Criterion) {
    let identity = WebBotAuth::new(Key::generate().unwrap(), "https://bot.example").unwrap();
    let url: Url = "https://example.com/a/page?of=it".parse().unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    criterion.bench_function("sign a request", |bencher| {
        bencher.iter(|| {
            let mut headers = HeaderMap::new();
            identity.sign(&Method::GET, black_box(&url), &mut headers, now).unwrap();
            headers
        });
    });
}

criterion_group!(benches, sign);
criterion_main!(benches);
