//! `abide identity`: keys, their directory, and the page about the crawler.

#[path = "../../../abide-identity/tests/it/verifier.rs"]
mod verifier;

use abide_identity::{Key, Signer};
use abide_tests::{Authority, Reply, Seen, Server};
use serde_json::Value;

use crate::{Directory, abide, directory, file, online};

/// Whether another implementation verifies what the server saw.
fn verified(seen: &Seen, public_key: [u8; 32]) -> Result<(), String> {
    let url = format!("https://{}{}", seen.header("host").unwrap(), seen.path).parse().unwrap();
    let headers = seen.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let request = verifier::Seen(&seen.method.parse().unwrap(), &url, &headers.collect());
    verifier::is_verified(&request, public_key)
}

/// A key that the command made, in a directory that is gone after the test.
fn new_key() -> (Directory, String) {
    let folder = directory();
    let key = folder.place("bot.pem");
    abide(format!("identity new {key}")).ends_with(0);
    (folder, key)
}

#[tokio::test]
async fn every_request_is_signed_over_https_and_none_over_http() {
    let answer = |seen: &Seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/moved" => Reply::redirect(302, "/page"),
        _ => Reply::html("page"),
    };
    let authority = Authority::new();
    let (_folder, key) = new_key();
    let cacert = file(authority.pem());
    let public_key = Key::from_file(&key).unwrap().public_key();
    let signing = format!("--key {key} --signature-agent https://bot.example --cacert {cacert}");
    for call in ["fetch", "crawl"] {
        let server = Server::start_tls(authority.acceptor("*.site.example"), answer).await;
        let plain = Server::start(answer).await;
        for (server, scheme) in [(&server, "https"), (&plain, "http")] {
            let args = format!("{call} {signing} {scheme}://a.site.example:PORT/moved");
            online(server, args).await.ends_with(0);
            assert_eq!(
                server.asked(),
                ["a.site.example/robots.txt", "a.site.example/moved", "a.site.example/page"]
            );
        }
        for seen in server.log() {
            assert_eq!(seen.header("signature-agent"), Some("sig1=\"https://bot.example\""));
            assert_eq!(verified(&seen, public_key), Ok(()), "{}", seen.what());
        }
        for seen in plain.log() {
            assert!(seen.headers.iter().all(|(name, _)| !name.starts_with("signature")), "{}", seen.what());
        }
    }
}

#[test]
fn the_url_of_a_key_is_https_and_may_stand_in_the_file_of_options() {
    let (_folder, key) = new_key();
    let ran = abide(format!("fetch --key {key} --signature-agent http://bot.example https://a.example/"));
    ran.ends_with(2).reports(&["--signature-agent: expected the https URL"]);
    let config = file("signature-agent = \"https://bot.example\"\n");
    let ran = abide(format!("check --config={config} --key {key} http://127.0.0.1:9/"));
    assert!(!ran.ends_with(1).err.contains("--key"), "{}", ran.err);
}

#[test]
fn a_key_is_made_and_its_directory_published() {
    let folder = directory();
    let key = folder.place("bot.pem");
    let made = abide(format!("identity new {key}"));
    assert_eq!((made.status, made.err.as_str()), (0, ""));
    let text = std::fs::read_to_string(&key).unwrap();
    let secret = text.lines().nth(1).unwrap();
    let directory = abide(format!("identity directory --key {key}"));
    directory.ends_with(0);
    let keys: Value = serde_json::from_str(&directory.out).unwrap();
    let keyid = keys["keys"][0]["kid"].as_str().unwrap();
    assert!(made.out.starts_with(&format!("Key {keyid} is in ")), "{}", made.out);
    assert_eq!(keys["keys"][0]["d"], Value::Null, "the private key is not published");
    assert!(!directory.out.ends_with('\n'), "the digest is of these bytes");
    let headers = abide(format!("identity directory --key {key} --headers https://bot.example"));
    headers.shows(&[
        "content-type: application/http-message-signatures-directory+json\n",
        "content-digest: sha-256=:",
        "signature-input: binding=(\"@authority\";req \"content-digest\");created=",
        &format!("keyid=\"{keyid}\";tag=\"http-message-signatures-directory\"\n"),
        "signature: binding=:",
    ]);
    for ran in [made, directory, headers] {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret));
    }
    let again = abide(format!("identity new {key}"));
    assert_eq!((again.status, again.out.as_str()), (1, ""));
    again.reports(&["bot.pem"]);
    assert_eq!(std::fs::read_to_string(&key).unwrap(), text, "a key is never overwritten");
}
