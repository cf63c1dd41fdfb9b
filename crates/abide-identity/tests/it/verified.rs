//! What this crate signs, another implementation verifies.

use std::time::{Duration, SystemTime};

use abide_identity::{Key, LIFETIME_MAX, Signer, WebBotAuth, thumbprint};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::broken::Broken;
use crate::verifier::{Seen, is_verified};

fn identity() -> (WebBotAuth, [u8; 32]) {
    let key = Key::generate().unwrap();
    let public_key = key.public_key();
    (WebBotAuth::new(key, "https://bot.example").unwrap(), public_key)
}

fn signed(identity: &WebBotAuth, url: &str) -> (Url, HeaderMap) {
    let url: Url = url.parse().unwrap();
    let mut headers = HeaderMap::new();
    identity.sign(&Method::GET, &url, &mut headers, SystemTime::now()).unwrap();
    (url, headers)
}

const URL: &str = "https://example.com:8443/a%20page?q=1&r=\"2\"#top";

#[test]
fn another_implementation_verifies_every_form() {
    let (identity, public_key) = identity();
    let (all, member) = (r#""@authority" "@method" "@target-uri""#, r#""signature-agent";key="sig1""#);
    let dictionary = r#"sig1="https://bot.example""#;
    for (identity, agent, covered, lifetime) in [
        (identity.clone(), dictionary, format!("{all} {member}"), 60),
        (identity.clone().with_nonce(), dictionary, format!("{all} {member}"), 60),
        (identity.clone().with_authority_only(), dictionary, format!(r#""@authority" {member}"#), 60),
        (
            identity.clone().with_bare_agent(),
            r#""https://bot.example""#,
            format!(r#"{all} "signature-agent""#),
            60,
        ),
        (identity.with_lifetime(LIFETIME_MAX).unwrap(), dictionary, format!("{all} {member}"), 86_400),
    ] {
        let (url, headers) = signed(&identity, URL);
        assert_eq!(is_verified(&Seen(&Method::GET, &url, &headers), public_key), Ok(()), "{headers:?}");
        assert_eq!(headers["signature-agent"], agent);
        let input = headers["signature-input"].to_str().unwrap();
        let parameter =
            |name: &str| input.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let seconds = |name| parameter(name).unwrap().parse::<u64>().unwrap();
        assert!(input.starts_with(&format!("sig1=({covered});")), "{input}");
        assert_eq!(seconds("expires") - seconds("created"), lifetime);
        assert_eq!(parameter("keyid"), Some(&*format!("\"{}\"", thumbprint(&public_key))));
        assert_eq!(parameter("tag"), Some("\"web-bot-auth\""));
    }
}

#[test]
fn credentials_beyond_ascii_are_sent_uncovered() {
    let (identity, public_key) = identity();
    let url: Url = URL.parse().unwrap();
    for (credentials, is_covered) in [(&b"Basic YQ=="[..], true), (b"Own \xe4", false)] {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", http::HeaderValue::from_bytes(credentials).unwrap());
        identity.sign(&Method::GET, &url, &mut headers, SystemTime::now()).unwrap();
        let input = headers["signature-input"].to_str().unwrap();
        assert_eq!(input.contains("\"authorization\""), is_covered, "{input}");
        assert_eq!(headers["authorization"], credentials);
        assert_eq!(is_verified(&Seen(&Method::GET, &url, &headers), public_key), Ok(()));
    }
}

#[test]
fn a_signature_is_good_for_one_request_alone() {
    let (identity, public_key) = identity();
    let (url, headers) = signed(&identity, URL);
    let another: Url = "https://example.com:8443/b".parse().unwrap();
    assert!(is_verified(&Seen(&Method::GET, &another, &headers), public_key).is_err());
    assert!(is_verified(&Seen(&Method::POST, &url, &headers), public_key).is_err());
    let elsewhere: Url = URL.replace("example.com", "example.org").parse().unwrap();
    assert!(is_verified(&Seen(&Method::GET, &elsewhere, &headers), public_key).is_err());
}

#[test]
fn a_signature_expires() {
    let (identity, public_key) = identity();
    let url: Url = URL.parse().unwrap();
    let mut headers = HeaderMap::new();
    let long_ago = SystemTime::now() - Duration::from_secs(61);
    identity.sign(&Method::GET, &url, &mut headers, long_ago).unwrap();
    let error = is_verified(&Seen(&Method::GET, &url, &headers), public_key).unwrap_err();
    assert!(error.contains("expired"), "{error}");
}

#[test]
fn http_is_never_signed() {
    let (identity, _) = identity();
    let (_, mut headers) = signed(&identity, URL);
    assert_eq!(headers.len(), 3);
    let plain = "http://example.com/".parse().unwrap();
    identity.sign(&Method::GET, &plain, &mut headers, SystemTime::now()).unwrap();
    assert!(headers.is_empty(), "and what was signed before is not carried over: {headers:?}");
}

#[test]
fn what_a_server_asks_for_is_signed() {
    let (identity, public_key) = identity();
    let asks = r#"mine=("@authority" "@path");nonce="of \"theirs\"";tag="web-bot-auth""#;
    let headers = HeaderMap::from_iter([("accept-signature".parse().unwrap(), asks.parse().unwrap())]);
    assert!(identity.as_asked(StatusCode::OK, &headers).is_none());
    let identity = identity.as_asked(StatusCode::FORBIDDEN, &headers).unwrap();
    let (url, headers) = signed(&identity, URL);
    let input = headers["signature-input"].to_str().unwrap();
    assert!(
        input.starts_with(
            r#"mine=("@authority" "@method" "@target-uri" "@path" "signature-agent";key="mine");created="#
        ),
        "{input}"
    );
    assert!(input.ends_with(r#";nonce="of \"theirs\"""#), "{input}");
    assert_eq!(is_verified(&Seen(&Method::GET, &url, &headers), public_key), Ok(()));
}

#[test]
fn a_signer_that_fails_signs_nothing() {
    let identity = WebBotAuth::new(Broken { panics: false }, "https://bot.example").unwrap();
    let mut headers = HeaderMap::new();
    let error =
        identity.sign(&Method::GET, &URL.parse().unwrap(), &mut headers, SystemTime::now()).unwrap_err();
    assert!(error.is_signer());
    assert!(headers.is_empty());
}

#[test]
fn the_url_of_the_keys_is_checked() {
    for url in ["http://bot.example", "bot.example", "https://user@bot.example", "https://bot.example/#key"] {
        let error = WebBotAuth::new(Key::generate().unwrap(), url).unwrap_err();
        assert!(error.to_string().starts_with("expected the https URL"), "{error}");
    }
    let deep = "https://bot.example/.well-known/http-message-signatures-directory";
    let identity = WebBotAuth::new(Key::generate().unwrap(), deep).unwrap();
    assert_eq!(signed(&identity, URL).1["signature-agent"], format!("sig1=\"{deep}\""));
    for seconds in [0, 24 * 60 * 60 + 1] {
        assert!(identity.clone().with_lifetime(Duration::from_secs(seconds)).is_err());
    }
}
