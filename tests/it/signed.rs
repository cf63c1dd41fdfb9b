//! Signed requests: what leaves is verified by another implementation, hop by hop.

#[path = "../../crates/abide-identity/tests/it/broken.rs"]
mod broken;
#[path = "../../crates/abide-identity/tests/it/verifier.rs"]
mod verifier;

use std::time::Duration;

use abide::identity::{Key, Signer, WebBotAuth};
use abide::{DeniedKind, ResponseExt};
use abide_tests::{Authority, Reply, Seen, Server, delays, listen};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use self::broken::Broken;
use self::verifier::is_verified;
use crate::layered::{follow, layered};
use crate::{Built, builder, refused, retry, secure, trusting};

fn asks(status: u16) -> Reply {
    let wanted = "mine=(\"@authority\");nonce=\"n-1\";tag=\"web-bot-auth\"";
    Reply::with_headers(status, &[("accept-signature", wanted)], "who are you?")
}

/// Two hosts over TLS: `/1` of one redirects to `/2` of the other, that to `/3`, and that to the first again.
/// `/asks` wants a signature, and so does the robots.txt of c.site.example. That of d.site.example is never
/// pleased.
async fn site() -> (Authority, Server) {
    secure("*.site.example", |seen| match seen.path.as_str() {
        "/robots.txt" if seen.host() == "c.site.example" && seen.header("signature").is_none() => asks(403),
        "/robots.txt" if seen.host() == "d.site.example" => asks(403),
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/1" => Reply::redirect(302, "https://b.site.example/2?x=y"),
        "/2?x=y" => Reply::redirect(307, "/3"),
        "/3" => Reply::redirect(301, "https://a.site.example/page#part"),
        "/asks" if seen.header("signature").is_none() => asks(403),
        "/to-asks" => Reply::redirect(302, "/asks"),
        "/busy" => asks(429),
        "/down" => Reply::new(500, ""),
        _ => Reply::html("page"),
    })
    .await
}

pub(crate) fn identity() -> (WebBotAuth, [u8; 32]) {
    let key = Key::generate().unwrap();
    let public_key = key.public_key();
    (WebBotAuth::new(key, "https://bot.example").unwrap(), public_key)
}

fn signing(server: &Server, authority: &Authority, identity: WebBotAuth) -> ClientWithMiddleware {
    builder(server).sign_requests(identity).build_client(trusting(authority)).unwrap()
}

/// What the server saw, as the verifier reads it.
pub(crate) fn verified(seen: &Seen, public_key: [u8; 32]) -> Result<(), String> {
    let url = format!("https://{}{}", seen.header("host").unwrap(), seen.path).parse().unwrap();
    let headers = seen.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    is_verified(&verifier::Seen(&seen.method.parse().unwrap(), &url, &headers.collect()), public_key)
}

/// What the server sees of a crawler that asks for `url`, by the middleware or by the layer; and how it ends.
async fn crawled(by_layer: bool, url: &str, identity: WebBotAuth, delay: Duration) -> (u16, Server) {
    let (authority, server) = site().await;
    let status = if by_layer {
        let layer = layered(&server, &authority, delay, |builder| builder.sign_requests(identity));
        follow(layer, url).await
    } else {
        let client = builder(&server).delay(delay).sign_requests(identity);
        crate::status(&client.build_client(trusting(&authority)).unwrap(), url).await
    };
    (status, server)
}

#[tokio::test]
async fn another_implementation_verifies_every_hop_and_robots_txt() {
    for by_layer in [false, true] {
        let (identity, public_key) = identity();
        let (status, server) = crawled(by_layer, "https://a.site.example/1", identity, Duration::ZERO).await;
        assert_eq!(status, 200);
        let log = server.log();
        let asked = server.asked().join(" ").replace(".site.example", "");
        assert_eq!(asked, "a/robots.txt a/1 b/robots.txt b/2?x=y b/3 a/page");
        for seen in &log {
            assert_eq!(verified(seen, public_key), Ok(()), "{}: {:?}", seen.what(), seen.headers);
        }
        let mut signatures: Vec<_> = log.iter().map(|seen| seen.header("signature").unwrap()).collect();
        signatures.sort_unstable();
        signatures.dedup();
        assert_eq!(signatures.len(), log.len(), "each hop is signed by itself");
    }
}

/// The response backs the host off for longer than a call waits, so the caller has it, and not a deferral.
#[tokio::test]
async fn a_response_that_asks_for_a_signature_too_late_is_returned() {
    for by_layer in [false, true] {
        let url = "https://a.site.example/busy";
        let (status, server) =
            crawled(by_layer, url, identity().0.with_signatures_only_when_asked(), Duration::ZERO).await;
        assert_eq!((status, server.asked().len()), (429, 2));
    }
}

#[tokio::test]
async fn a_redirect_carries_no_signature_of_the_caller() {
    let (authority, server) = site().await;
    let client = builder(&server).build_client(trusting(&authority)).unwrap();
    let request = client.get("https://a.site.example/1").header("signature", "sig1=:AA==:");
    request.header("signature-input", "sig1=()").send().await.unwrap();
    let with_signature: Vec<_> =
        server.log().iter().filter(|seen| seen.header("signature").is_some()).map(Seen::what).collect();
    assert_eq!(with_signature, ["a.site.example/1"]);
}

#[tokio::test]
async fn a_server_that_asks_gets_one_signed_retry_that_is_paced() {
    let (robots, asks) = ("/robots.txt", "/asks");
    let delay = Duration::from_millis(200);
    for (host, status, expected) in [
        ("a", 200, vec![(robots, false), (asks, false), (asks, true)]),
        ("c", 200, vec![(robots, false), (robots, true), (asks, false), (asks, true)]),
        ("d", 200, vec![(robots, false), (robots, true), (asks, false), (asks, true)]),
    ] {
        for by_layer in [false, true] {
            let (identity, public_key) = identity();
            let url = format!("https://{host}.site.example/asks");
            let (ended, server) =
                crawled(by_layer, &url, identity.with_signatures_only_when_asked(), delay).await;
            let log = server.log();
            let seen = log.iter().map(|seen| (seen.path.as_str(), seen.header("signature").is_some()));
            assert_eq!((ended, seen.collect::<Vec<_>>()), (status, expected.clone()), "{host} {by_layer}");
            let least = delays(&log).min().unwrap();
            assert!(least >= delay - Duration::from_millis(1), "{least:?}");
            for retry in log.iter().filter(|seen| seen.header("signature").is_some()) {
                assert_eq!(verified(retry, public_key), Ok(()));
                assert!(retry.header("signature-input").unwrap().contains(";nonce=\"n-1\""));
            }
        }
    }
}

#[tokio::test]
async fn a_signed_retry_is_the_same_request_and_a_hop() {
    let (authority, server) = site().await;
    let client = signing(&server, &authority, identity().0.with_signatures_only_when_asked());
    let request = client.get("https://a.site.example/asks").header("referer", "https://c.example/");
    let page = request.send().await.unwrap();
    let info = page.fetch_info().unwrap();
    assert_eq!(info.hops().iter().map(|hop| hop.status().as_u16()).collect::<Vec<_>>(), [403, 200]);
    let log = server.log();
    assert_eq!(log.last().unwrap().header("referer"), Some("https://c.example/"));
    let robots = refused(&client, "https://c.site.example/secret").await;
    assert!(robots.is_disallowed(), "the signed robots.txt counts: {robots:?}");
}

#[tokio::test]
async fn each_retry_has_its_own_signature() {
    let (authority, server) = site().await;
    let (identity, public_key) = identity();
    let abide = builder(&server).sign_requests(identity.with_nonce()).build_with(trusting(&authority));
    let (abide, inner) = abide.unwrap();
    let client = ClientBuilder::new(inner).with(retry(1)).with(abide.middleware()).build();
    assert_eq!(crate::status(&client, "https://a.site.example/down").await, 500);
    let log = server.log();
    assert_eq!(log.len(), 3);
    assert_ne!(log[1].header("signature"), log[2].header("signature"));
    for seen in &log {
        assert_eq!(verified(seen, public_key), Ok(()));
    }
}

#[tokio::test]
async fn what_cannot_be_signed_is_not_sent() {
    for (panics, reason) in [(false, "the signer returned no signature"), (true, "the signer panicked")] {
        let (authority, server) = site().await;
        let identity = WebBotAuth::new(Broken { panics }, "https://bot.example").unwrap();
        let client = signing(&server, &authority, identity.clone());
        let denied = refused(&client, "https://a.site.example/page").await;
        assert!(denied.is_unreachable(), "not even robots.txt: {denied:?}");
        assert_eq!(server.log().len(), 0);
        // The page itself, where robots.txt was fetched without a signature.
        let client = signing(&server, &authority, identity.with_signatures_only_when_asked());
        let denied = refused(&client, "https://a.site.example/asks").await;
        assert!(matches!(denied.kind(), DeniedKind::NotSigned { .. }), "{denied:?}");
        assert_eq!(
            denied.to_string(),
            format!(
                "https://a.site.example/asks is not requested: the request could not be signed: {reason}"
            )
        );
        assert_eq!(server.asked(), ["a.site.example/robots.txt", "a.site.example/asks"]);
        let denied = refused(&client, "https://a.site.example/to-asks").await;
        assert!(matches!(denied.kind(), DeniedKind::NotSigned { .. }), "{denied:?}");
        assert_eq!((denied.hop(), denied.redirects()[0].0.path()), (1, "/to-asks"));
    }
}

#[tokio::test]
async fn no_log_has_the_key() {
    use std::fmt::Write;

    let (authority, server) = site().await;
    let key = Key::generate().unwrap();
    let pem = key.to_pem();
    let secret = pem.lines().nth(1).unwrap().to_owned();
    // The last 32 bytes of the DER are the key; 40 characters of base64 are all of the key's.
    let secret = &secret[secret.len() - 40..];
    let (captured, _guard) = listen();
    let identity = WebBotAuth::new(key, "https://bot.example").unwrap();
    let client = signing(&server, &authority, identity);
    client.get("https://a.site.example/1").send().await.unwrap();
    let mut text = String::new();
    for said in captured.all() {
        write!(text, "{said:?}").unwrap();
    }
    assert!(text.contains("a.site.example"), "something was said");
    assert!(!text.contains(secret));
}
