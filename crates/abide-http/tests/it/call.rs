//! One call, step by step, without a client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use abide_gate::pacing::PacePolicy;
use abide_gate::{Clock, DeniedKind, Failure, Host, ManualClock, SystemClock};
use abide_http::{
    AnswerChallenge, Answered, Challenge, ChallengeAnswer, Check, Crawler, Options, RedirectPolicy, Refused,
    ResponseHead, SendRequest,
};
use abide_identity::{LicenseToken, LicenseTokens, PaymentPolicy, Price};
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

fn call<'a>(crawler: &'a Crawler, options: Options, to: &str) -> Check<'a> {
    crawler.call(options, &Method::GET, &url(to), None)
}

async fn admit(check: Check<'_>) -> Result<SendRequest<'_>, Refused> {
    check.admit(&mut HeaderMap::new()).await
}

fn head(status: u16, headers: &HeaderMap) -> ResponseHead<'_> {
    let status = StatusCode::from_u16(status).unwrap();
    ResponseHead { status, headers, remote_addr: None, url: None, is_repeatable: true }
}

fn location(to: &str) -> HeaderMap {
    [(http::header::LOCATION, to.parse().unwrap())].into_iter().collect()
}

/// Sends the next request of the call, which is answered so. Returns what comes then, and the fields of the
/// request.
async fn exchange<'a>(check: Check<'a>, status: u16, headers: &HeaderMap) -> (Answered<'a>, HeaderMap) {
    let mut fields = HeaderMap::new();
    let (answered, fields) = exchange_with(check, status, headers, &mut fields).await;
    (answered.unwrap(), fields)
}

async fn exchange_with<'a>(
    check: Check<'a>,
    status: u16,
    headers: &HeaderMap,
    fields: &mut HeaderMap,
) -> (Result<Answered<'a>, Refused>, HeaderMap) {
    let mut sent = fields.clone();
    let ready = check.admit(&mut sent).await.unwrap();
    (ready.send(&mut sent).unwrap().answered(head(status, headers)).await, sent)
}

/// Follows, with the fields that go along.
fn follow<'a>(answered: Answered<'a>, fields: &mut HeaderMap) -> Check<'a> {
    match answered {
        Answered::Follow(follow) => follow.follow((), fields),
        Answered::Done(done) => panic!("{done:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_a_new_hop_that_is_checked_again() {
    let crawler = crawler("User-agent: *\nDisallow: /secret");
    let first = call(&crawler, Options::new(), "http://user:password@a.example/x#there");
    assert_eq!(first.url().as_str(), "http://a.example/x#there");
    let (answered, mut fields) = exchange(first, 302, &location("/y")).await;
    let second = follow(answered, &mut fields);
    assert_eq!(second.url().as_str(), "http://a.example/y#there");
    let began = Instant::now();
    let (answered, _) = exchange(second, 302, &location("/secret")).await;
    assert_eq!(began.elapsed(), DELAY, "a hop waits for its host");
    let denied = admit(follow(answered, &mut fields)).await.unwrap_err().denied;
    assert!(denied.is_disallowed(), "{denied}");
    let hops: Vec<_> = denied.redirects().iter().map(|(url, status)| (url.path(), status.as_u16())).collect();
    assert_eq!((denied.hop(), hops), (2, vec![("/x", 302), ("/y", 302)]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_before_its_request_costs_no_delay() {
    let crawler = crawler("");
    let unsent = admit(call(&crawler, Options::new(), "http://a.example/x")).await.unwrap();
    advance(DELAY).await;
    drop(unsent);
    let next = call(&crawler, Options::new().with_max_wait(Duration::ZERO), "http://a.example/y");
    let next = admit(next).await.expect("nothing was sent");
    drop(next.send(&mut HeaderMap::new()));
    let late = call(&crawler, Options::new().with_max_wait(Duration::ZERO), "http://a.example/z");
    let denied = admit(late).await.unwrap_err().denied;
    assert!(matches!(denied.kind(), DeniedKind::Deferred { .. }), "{denied}: a request may have been sent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_was_late_checks_again_if_anything_may_have_changed() {
    let crawler = crawler("User-agent: *\nAllow: /");
    let host = Host::of(&url("http://a.example/")).unwrap();
    let in_flight = || crawler.gate().report(&host).unwrap().in_flight;
    let ready = admit(call(&crawler, Options::new(), "http://a.example/x")).await.unwrap();
    let ready = ready.was_late().expect("the rules are the same");
    advance(Duration::from_secs(2 * 24 * 60 * 60)).await;
    let again = ready.was_late().expect_err("the rules are old");
    assert_eq!(in_flight(), 0, "the permit is returned");
    let ready = admit(again).await.unwrap();
    crawler.gate().back_off("a.example", crawler.gate().wall().plus(Duration::from_secs(60)));
    let again = ready.was_late().expect_err("the host is backed off");
    assert_eq!(in_flight(), 0, "the permit is returned");
    let denied = admit(again).await.unwrap_err().denied;
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
    let first = admit(call(&crawler, mine.clone(), "http://a.example/x")).await.unwrap();
    assert_eq!(first.verdict().override_reason(), None, "robots.txt allows it");
    let changes = async {
        advance(DELAY).await;
        crawler.gate().invalidate(&"http://a.example".parse().unwrap()).await;
        drop(first);
    };
    let (admitted, ()) = tokio::join!(admit(call(&crawler, mine, "http://a.example/y")), changes);
    assert_eq!(admitted.unwrap().verdict().override_reason(), Some("our own site"));
}

#[tokio::test(start_paused = true)]
async fn an_admission_that_was_cancelled_keeps_nothing() {
    let crawler = crawler("");
    let first = admit(call(&crawler, Options::new(), "http://a.example/x")).await.unwrap();
    let second = admit(call(&crawler, Options::new(), "http://a.example/y"));
    assert!(tokio::time::timeout(SECOND / 10, second).await.is_err(), "the host is busy");
    drop(first);
    let third = call(&crawler, Options::new().with_max_wait(Duration::ZERO), "http://a.example/z");
    drop(admit(third).await.unwrap());
}

/// So many redirects that each use most of the timeout open no breaker (pacing.md, "Circuit breaker").
#[tokio::test(start_paused = true)]
async fn a_timeout_that_earlier_hops_have_used_is_not_the_hosts_fault() {
    let crawler = crawler("");
    for is_redirected in [true, false] {
        let to = if is_redirected { "http://a.example/x" } else { "http://b.example/x" };
        for _ in 0..5 {
            let check = crawler.call(Options::new(), &Method::GET, &url(to), Some(10 * SECOND));
            let mut fields = HeaderMap::new();
            let mut sent = admit(check).await.unwrap().send(&mut fields).unwrap();
            advance(if is_redirected { 8 * SECOND } else { 10 * SECOND }).await;
            if is_redirected {
                let answered = sent.answered(head(302, &location("http://b.example/y"))).await.unwrap();
                sent = admit(follow(answered, &mut fields)).await.unwrap().send(&mut fields).unwrap();
                advance(2 * SECOND).await;
            }
            let late = io::Error::from(io::ErrorKind::TimedOut);
            sent.failed(Some(Failure::Timeout), &late).await.unwrap();
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
        let crawler = Crawler::builder("ExampleBot").answer_challenges(policy.clone()).build(fetch).unwrap();
        let ready = admit(call(&crawler, Options::new(), "https://a.example/x")).await.unwrap();
        let sent = ready.send(&mut HeaderMap::new()).unwrap();
        assert_eq!(policy.spent(), price("USD 0.05"), "while it is on its way");
        sent.failed(Some(failure), &io::Error::other("no response")).await.unwrap();
        assert_eq!(policy.spent(), price(spent), "{failure:?}");
    }
}

/// An offer counts as spent from when it is made, until it is known that it was not sent.
#[tokio::test(start_paused = true)]
async fn what_ends_before_it_was_sent_costs_nothing() {
    let price = |text: &str| text.parse::<Price>().unwrap();
    let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 1"));
    let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
    let crawler = Crawler::builder("ExampleBot").answer_challenges(policy.clone()).build(fetch).unwrap();
    let asks: HeaderMap =
        [("crawler-price".parse().unwrap(), "USD 0.01".parse().unwrap())].into_iter().collect();
    for (is_admitted, is_sent, spent) in
        [(false, false, "USD 0"), (true, false, "USD 0"), (true, true, "USD 0.01")]
    {
        let (answered, mut fields) =
            exchange(call(&crawler, Options::new(), "https://a.example/x"), 402, &asks).await;
        let again = follow(answered, &mut fields);
        assert_eq!(policy.spent(), price("USD 0.01"));
        assert_eq!(fields["crawler-exact-price"], "USD 0.01");
        if is_admitted {
            let ready = admit(again).await.unwrap();
            if is_sent { drop(ready.send(&mut fields)) } else { drop(ready) }
        } else {
            drop(again);
        }
        assert_eq!(policy.spent(), price(spent), "{is_admitted} {is_sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_from_elsewhere_is_refused() {
    let crawler = crawler("");
    let options = Options::new().with_redirects(RedirectPolicy::never());
    let ready = admit(call(&crawler, options, "http://a.example/x")).await.unwrap();
    let sent = ready.send(&mut HeaderMap::new()).unwrap();
    let (elsewhere, none) = (url("http://user@a.example/y"), HeaderMap::new());
    let refused =
        sent.answered(ResponseHead { url: Some(&elsewhere), ..head(200, &none) }).await.unwrap_err();
    let DeniedKind::RedirectBypass { got } = refused.denied.kind() else { panic!("{refused:?}") };
    assert_eq!((refused.denied.url().path(), got.as_str()), ("/x", "http://a.example/y"));
}

fn licensed() -> Crawler {
    let fetch = ScriptedFetch::always(Scripted::text(""));
    let builder = Crawler::builder("ExampleBot")
        .answer_challenges(LicenseTokens::new(|_, _| LicenseToken::new("t0ken").ok()));
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

/// A hook of the caller's, which panics where it is told to.
#[derive(Debug)]
struct Password;

impl AnswerChallenge for Password {
    fn answer(&self, challenge: &Challenge<'_>, request: &mut HeaderMap) -> ChallengeAnswer {
        let Some(head) = challenge.response else { return ChallengeAnswer::Nothing };
        request.insert("authorization", "Basic dTpw".parse().unwrap());
        assert_ne!(challenge.url.path(), "/panics");
        if head.status == StatusCode::UNAUTHORIZED {
            ChallengeAnswer::Fields
        } else {
            ChallengeAnswer::Nothing
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_answers_once_in_a_call_and_within_its_origin() {
    let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
    let crawler = Crawler::builder("ExampleBot").answer_challenges(Password).build(fetch).unwrap();
    let none = HeaderMap::new();
    for (path, status) in [("/panics", 401), ("/x", 403)] {
        let to = format!("https://a.example{path}");
        let (answered, _) = exchange(call(&crawler, Options::new(), &to), status, &none).await;
        assert!(matches!(answered, Answered::Done(_)), "{path} {status}");
    }
    let mut fields = HeaderMap::new();
    let (answered, _) = exchange(call(&crawler, Options::new(), "https://a.example/x"), 401, &none).await;
    let again = follow(answered, &mut fields);
    let (answered, sent) = exchange_with(again, 302, &location("/y"), &mut fields).await;
    assert_eq!(sent["authorization"], "Basic dTpw");
    let within = follow(answered.unwrap(), &mut fields);
    let to = location("https://b.example/z");
    let (answered, sent) = exchange_with(within, 302, &to, &mut fields).await;
    assert_eq!(sent["authorization"], "Basic dTpw", "within its origin");
    let across = follow(answered.unwrap(), &mut fields);
    let (answered, sent) = exchange_with(across, 401, &none, &mut fields).await;
    assert!(!sent.contains_key("authorization"), "{sent:?}");
    assert!(matches!(answered, Ok(Answered::Done(_))), "once in a call");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_no_redirect_and_redirects_stay_bounded() {
    let licensed = licensed();
    let options = Options::new().with_redirects(RedirectPolicy::default().with_hops_max(1));
    let mut fields = HeaderMap::new();
    let first = call(&licensed, options, "https://a.example/x");
    let (answered, _) = exchange(first, 401, &challenge(None)).await;
    let (answered, _) = exchange(follow(answered, &mut fields), 302, &location("/y")).await;
    let (refused, _) = exchange_with(follow(answered, &mut fields), 302, &location("/z"), &mut fields).await;
    let denied = refused.unwrap_err().denied;
    assert!(matches!(denied.kind(), DeniedKind::TooManyRedirects), "{denied}");
}

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
        let call = call(&crawler, Options::new(), "https://a.example/x");
        assert!(exchange(call, 200, &HeaderMap::new()).await.1.contains_key("signature"));
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
        let mut check = call(&crawler, options, "https://a.example/x");
        let mut asks = location("/login");
        asks.extend(challenge(Some("n-1")));
        for (headers, next) in [(asks, "/x"), (location("/y"), "/y")] {
            let (answered, _) = exchange(check, 302, &headers).await;
            check = follow(answered, &mut HeaderMap::new());
            assert_eq!(check.url().path(), next, "one redirect is allowed, and a repetition is none");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_nonce_of_the_last_response_is_signed() {
        let fetch = Arc::new(ScriptedFetch::always(Scripted::text("")));
        let builder =
            Crawler::builder("ExampleBot").sign_requests(identity().with_signatures_only_when_asked());
        let builder = builder.answer_challenges(LicenseTokens::new(|_, _| LicenseToken::new("t0ken").ok()));
        let crawler = builder.build(fetch).unwrap();
        let (check, mut fields) = (call(&crawler, Options::new(), "https://a.example/x"), HeaderMap::new());
        let (answered, _) = exchange(check, 401, &challenge(Some("n-1"))).await;
        let check = follow(answered, &mut fields);
        let (answered, signed) = exchange(check, 401, &challenge(Some("n-2"))).await;
        let check = follow(answered, &mut fields);
        let (answered, licensed) = exchange(check, 401, &challenge(Some("n-3"))).await;
        assert!(matches!(answered, Answered::Done(_)), "each was given once");
        for (fields, nonce) in [(signed, "n-1"), (licensed, "n-2")] {
            let input = fields["signature-input"].to_str().unwrap();
            assert!(input.contains(&format!(";nonce=\"{nonce}\"")), "{input}");
        }
    }
}
