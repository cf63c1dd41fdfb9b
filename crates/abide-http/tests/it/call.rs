//! One call, step by step, without a client.

use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Clock, Denied, DeniedKind, Failure, ManualClock, SystemClock};
use abide_http::{
    Call, Crawler, LicenseToken, Options, PaymentPolicy, Price, RedirectPolicy, ResponseHead, Step, admit,
};
use http::{HeaderMap, Method, StatusCode};
use tokio::time::{Instant, advance};
use url::Url;

use crate::scripted::{Scripted, ScriptedFetch};

const SECOND: Duration = Duration::from_secs(1);
const DELAY: Duration = PacePolicy::DELAY;

fn crawler(robots: &'static str) -> Crawler {
    let fetch = ScriptedFetch::always(Scripted::text(robots));
    let clock = Arc::new(ManualClock::starting_at(SystemClock.wall()));
    Crawler::builder("ExampleBot").gate(|gate| gate.clock(clock)).build(Arc::new(fetch)).unwrap()
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn call<'a>(crawler: &'a Crawler, options: Options, to: &str) -> Call<'a> {
    Call::new(crawler, options, &Method::GET, &url(to), None)
}

fn head(status: u16, headers: &HeaderMap) -> ResponseHead<'_> {
    let status = StatusCode::from_u16(status).unwrap();
    ResponseHead { status, headers, remote_addr: None, url: None, is_repeatable: true }
}

fn location(to: &str) -> HeaderMap {
    [(http::header::LOCATION, to.parse().unwrap())].into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_a_new_hop_that_is_checked_again() {
    let crawler = crawler("User-agent: *\nDisallow: /secret");
    let mut call = call(&crawler, Options::new(), "http://user:password@a.example/x#there");
    assert_eq!((call.step(), call.url().as_str()), (Step::Check, "http://a.example/x#there"));
    admit(&mut call).await.unwrap();
    assert_eq!(call.step(), Step::Send);
    call.sending();
    call.answered(head(302, &location("/y"))).unwrap();
    assert_eq!(call.step(), Step::Follow);
    call.follow(&mut HeaderMap::new());
    assert_eq!((call.url().as_str(), call.step()), ("http://a.example/y#there", Step::Check));
    let began = Instant::now();
    admit(&mut call).await.unwrap();
    assert_eq!(began.elapsed(), DELAY, "a hop waits for its host");
    call.sending();
    call.answered(head(302, &location("/secret"))).unwrap();
    call.follow(&mut HeaderMap::new());
    let denied = admit(&mut call).await.map_err(|denied| call.refused(denied)).unwrap_err();
    assert!(denied.is_disallowed(), "{denied}");
    let hops: Vec<_> = denied.redirects().iter().map(|(url, status)| (url.path(), status.as_u16())).collect();
    assert_eq!((denied.hop(), hops), (2, vec![("/x", 302), ("/y", 302)]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_before_its_request_costs_no_delay() {
    let crawler = crawler("");
    let mut unsent = call(&crawler, Options::new(), "http://a.example/x");
    admit(&mut unsent).await.unwrap();
    advance(DELAY).await;
    drop(unsent);
    let mut next = call(&crawler, Options::new().with_max_wait(Duration::ZERO), "http://a.example/y");
    admit(&mut next).await.expect("nothing was sent");
    next.sending();
    drop(next);
    let mut late = call(&crawler, Options::new().with_max_wait(Duration::ZERO), "http://a.example/z");
    let denied = admit(&mut late).await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}: a request may have been sent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_late_checks_again_if_anything_may_have_changed() {
    let crawler = crawler("User-agent: *\nAllow: /");
    let mut call = call(&crawler, Options::new(), "http://a.example/x");
    admit(&mut call).await.unwrap();
    call.was_late();
    assert_eq!(call.step(), Step::Send, "the rules are the same");
    advance(Duration::from_secs(2 * 24 * 60 * 60)).await;
    call.was_late();
    assert_eq!((call.step(), call.take_permit().is_none()), (Step::Check, true));
    admit(&mut call).await.unwrap();
    assert_eq!(call.step(), Step::Send);
    crawler.gate().back_off("a.example", crawler.gate().wall().plus(Duration::from_secs(60)));
    call.was_late();
    assert_eq!((call.step(), call.take_permit().is_none()), (Step::Check, true));
    let denied = admit(&mut call).await.unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}");
}

#[tokio::test(start_paused = true)]
async fn an_override_survives_rules_that_change_during_the_wait() {
    let fetch = ScriptedFetch::new(|_, count| match count {
        0 => Scripted::text("User-agent: *\nAllow: /"),
        _ => Scripted::text("User-agent: *\nDisallow: /"),
    });
    let crawler = Crawler::builder("ExampleBot").build(Arc::new(fetch)).unwrap();
    let mine = Options::new().danger_ignore_robots("http://a.example".parse().unwrap(), "our own site");
    let mut first = call(&crawler, mine.clone(), "http://a.example/x");
    admit(&mut first).await.unwrap();
    assert_eq!(first.verdict().unwrap().override_reason(), None, "robots.txt allows it");
    let mut second = call(&crawler, mine, "http://a.example/y");
    let changes = async {
        advance(DELAY).await;
        crawler.gate().invalidate(&"http://a.example".parse().unwrap()).await;
        drop(first);
    };
    let (admitted, ()) = tokio::join!(admit(&mut second), changes);
    admitted.unwrap();
    assert_eq!(second.verdict().unwrap().override_reason(), Some("our own site"));
}

#[tokio::test(start_paused = true)]
async fn an_admission_that_was_cancelled_can_be_tried_again() {
    let crawler = crawler("");
    let mut first = call(&crawler, Options::new(), "http://a.example/x");
    admit(&mut first).await.unwrap();
    let mut second = call(&crawler, Options::new(), "http://a.example/y");
    assert!(tokio::time::timeout(SECOND / 10, admit(&mut second)).await.is_err(), "the host is busy");
    drop(first);
    admit(&mut second).await.unwrap();
    assert_eq!(second.step(), Step::Send);
}

#[tokio::test(start_paused = true)]
async fn an_answered_request_costs_a_delay_whatever_the_client_forgets() {
    let crawler = crawler("");
    let mut call = call(&crawler, Options::new(), "http://a.example/x");
    admit(&mut call).await.unwrap();
    call.answered(head(302, &location("/y"))).unwrap();
    call.follow(&mut HeaderMap::new());
    let began = Instant::now();
    admit(&mut call).await.unwrap();
    assert_eq!(began.elapsed(), DELAY);
}

/// So many redirects that each use most of the timeout open no breaker (pacing.md, "Circuit breaker").
#[tokio::test(start_paused = true)]
async fn a_timeout_that_earlier_hops_have_used_is_not_the_hosts_fault() {
    let crawler = crawler("");
    for is_redirected in [true, false] {
        let to = if is_redirected { "http://a.example/x" } else { "http://b.example/x" };
        for _ in 0..5 {
            let mut call = Call::new(&crawler, Options::new(), &Method::GET, &url(to), Some(10 * SECOND));
            admit(&mut call).await.unwrap();
            call.sending();
            advance(if is_redirected { 8 * SECOND } else { 10 * SECOND }).await;
            if is_redirected {
                call.answered(head(302, &location("http://b.example/y"))).unwrap();
                call.follow(&mut HeaderMap::new());
                admit(&mut call).await.unwrap();
                call.sending();
                advance(2 * SECOND).await;
            }
            assert!(call.failed(Some(Failure::Timeout)).is_none());
        }
        let wait = crawler.gate().next_slot(&url("http://b.example/")).unwrap().wait;
        assert_eq!(wait > DELAY, !is_redirected, "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_connected_costs_nothing() {
    let price = |text: &str| text.parse::<Price>().unwrap();
    for (failure, spent) in [
        (Failure::Refused, "USD 0"),
        (Failure::CertificateExpired, "USD 0"),
        (Failure::NoRoute, "USD 0.05"),
        (Failure::Tls, "USD 0.05"),
        (Failure::Timeout, "USD 0.05"),
    ] {
        let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 1")).with_upfront_offer();
        let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
        let crawler = Crawler::builder("ExampleBot").payment(policy.clone()).build(fetch).unwrap();
        let mut call = call(&crawler, Options::new(), "https://a.example/x");
        admit(&mut call).await.unwrap();
        call.add_signature(&mut HeaderMap::new()).unwrap();
        call.sending();
        call.failed(Some(failure));
        drop(call);
        assert_eq!(policy.spent(), price(spent), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_from_elsewhere_is_refused() {
    let crawler = crawler("");
    let options = Options::new().with_redirects(RedirectPolicy::never());
    let mut call = call(&crawler, options, "http://a.example/x");
    admit(&mut call).await.unwrap();
    call.sending();
    let (elsewhere, none) = (url("http://user@a.example/y"), HeaderMap::new());
    let denied: Denied =
        call.answered(ResponseHead { url: Some(&elsewhere), ..head(200, &none) }).unwrap_err();
    let DeniedKind::RedirectBypass { got } = denied.kind() else { panic!("{denied:?}") };
    assert_eq!((denied.url().path(), got.as_str()), ("/x", "http://a.example/y"));
}

fn licensed() -> Crawler {
    let fetch = ScriptedFetch::always(Scripted::text(""));
    let builder = Crawler::builder("ExampleBot").license_tokens(|_, _| LicenseToken::new("t0ken").ok());
    builder.build(Arc::new(fetch)).unwrap()
}

/// A licence is asked for, and for a signature with this nonce.
fn challenge(nonce: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("www-authenticate", "License error=\"invalid_request\"".parse().unwrap());
    if let Some(nonce) = nonce {
        let wanted = format!("sig1=(\"@authority\");nonce=\"{nonce}\";tag=\"web-bot-auth\"");
        headers.insert("accept-signature", wanted.parse().unwrap());
    }
    headers
}

/// Sends the next request of the call, which is answered so, and returns its fields.
async fn exchange(call: &mut Call<'_>, status: u16, headers: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if call.step() == Step::Follow {
        call.follow(&mut fields);
    }
    admit(call).await.unwrap();
    call.add_signature(&mut fields).unwrap();
    call.sending();
    call.answered(head(status, headers)).unwrap();
    fields
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_no_redirect_and_redirects_stay_bounded() {
    let licensed = licensed();
    let options = Options::new().with_redirects(RedirectPolicy::default().with_hops_max(1));
    let mut call = call(&licensed, options, "https://a.example/x");
    exchange(&mut call, 401, &challenge(None)).await;
    exchange(&mut call, 302, &location("/y")).await;
    let mut fields = HeaderMap::new();
    call.follow(&mut fields);
    admit(&mut call).await.unwrap();
    call.add_signature(&mut fields).unwrap();
    assert_eq!((call.url().path(), &fields["authorization"]), ("/y", &"License t0ken".parse().unwrap()));
    let denied = call.answered(head(302, &location("/z"))).unwrap_err();
    assert!(matches!(denied.kind(), DeniedKind::TooManyRedirects), "{denied}");
}

#[cfg(feature = "identity")]
mod signed {
    use abide_gate::{GateBuilder, SignRequest, WallMillis};
    use abide_identity::{Key, WebBotAuth};

    use super::*;

    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    fn identity() -> WebBotAuth {
        WebBotAuth::new(Key::generate().unwrap(), "https://bot.example").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn settings_of_the_gate_do_not_take_the_signature_away() {
        let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
        let builder = Crawler::builder("ExampleBot").sign_requests(identity()).gate(|_| GateBuilder::new());
        let crawler = builder.build(fetch).unwrap();
        let mut call = call(&crawler, Options::new(), "https://a.example/x");
        assert!(exchange(&mut call, 200, &HeaderMap::new()).await.contains_key("signature"));
    }

    /// A signer of one's own, which a redirect asks for a signature.
    #[derive(Debug, Clone)]
    struct WhenAsked;

    impl SignRequest for WhenAsked {
        fn sign(&self, _: &Method, _: &Url, _: &mut HeaderMap, _: WallMillis) -> Result<(), BoxError> {
            Ok(())
        }

        fn asked(&self, _: StatusCode, headers: &HeaderMap) -> Option<Arc<dyn SignRequest>> {
            headers.contains_key("accept-signature").then(|| Arc::new(Self) as _)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_redirect_that_asks_for_a_signature_is_followed_after_it() {
        let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
        let builder = Crawler::builder("ExampleBot").gate(|gate| gate.sign_requests(Arc::new(WhenAsked)));
        let crawler = builder.build(fetch).unwrap();
        let options = Options::new().with_redirects(RedirectPolicy::default().with_hops_max(1));
        let mut call = call(&crawler, options, "https://a.example/x");
        let mut asks = location("/login");
        asks.extend(challenge(Some("n-1")));
        for (headers, next) in [(asks, "/x"), (location("/y"), "/y")] {
            exchange(&mut call, 302, &headers).await;
            call.follow(&mut HeaderMap::new());
            assert_eq!(call.url().path(), next, "one redirect is allowed, and a repetition is none");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_nonce_of_the_last_response_is_signed() {
        let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
        let builder =
            Crawler::builder("ExampleBot").sign_requests(identity().with_signatures_only_when_asked());
        let builder = builder.license_tokens(|_, _| LicenseToken::new("t0ken").ok());
        let crawler = builder.build(fetch).unwrap();
        let mut call = call(&crawler, Options::new(), "https://a.example/x");
        exchange(&mut call, 401, &challenge(Some("n-1"))).await;
        let signed = exchange(&mut call, 401, &challenge(Some("n-2"))).await;
        let licensed = exchange(&mut call, 401, &challenge(Some("n-3"))).await;
        assert_eq!(call.step(), Step::Done, "each was given once");
        for (fields, nonce) in [(signed, "n-1"), (licensed, "n-2")] {
            let input = fields["signature-input"].to_str().unwrap();
            assert!(input.contains(&format!(";nonce=\"{nonce}\"")), "{input}");
        }
    }
}
