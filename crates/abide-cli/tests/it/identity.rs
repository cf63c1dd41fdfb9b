//! `abide identity`: keys, their directory, and the page about the crawler.

#[path = "../../../abide-identity/tests/it/verifier.rs"]
mod verifier;

use abide_identity::{Key, Signer};
use abide_tests::{Authority, Reply, Seen, Server};
use serde_json::Value;

use crate::{abide, file, online};

/// Whether another implementation verifies what the server saw.
fn verified(seen: &Seen, public_key: [u8; 32]) -> Result<(), String> {
    let url = format!("https://{}{}", seen.header("host").unwrap(), seen.path).parse().unwrap();
    let headers = seen.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let request = verifier::Seen(&seen.method.parse().unwrap(), &url, &headers.collect());
    verifier::is_verified(&request, public_key)
}

#[tokio::test]
async fn every_request_is_signed_over_https_and_none_over_http() {
    let answer = |seen: &Seen| match seen.path.as_str() {
        "/robots.txt" => Reply::new(200, "User-agent: *\nDisallow: /secret"),
        "/moved" => Reply::redirect(302, "/page"),
        _ => Reply::html("page"),
    };
    let authority = Authority::new();
    let (folder, certificate) = (tempfile::tempdir().unwrap(), file(authority.pem()));
    let (key, cacert) = (folder.path().join("bot.pem"), certificate.path().to_str().unwrap());
    let key_file = key.to_str().unwrap();
    abide(&["identity", "new", key_file]);
    let public_key = Key::from_file(&key).unwrap().public_key();
    let signing = ["--key", key_file, "--signature-agent", "https://bot.example", "--cacert", cacert];
    for call in ["fetch", "crawl"] {
        let server = Server::start_tls(authority.acceptor("*.site.example"), answer).await;
        let plain = Server::start(answer).await;
        for (server, scheme) in [(&server, "https"), (&plain, "http")] {
            let url = format!("{scheme}://a.site.example:PORT/moved");
            let ran = online(server.address(), &[&[call], &signing[..], &[&url]].concat()).await;
            assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
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
fn a_key_that_cannot_sign_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let (key, other) = (folder.path().join("bot.pem"), folder.path().join("none.pem"));
    let (key, other) = (key.to_str().unwrap(), other.to_str().unwrap());
    abide(&["identity", "new", key]);
    for (args, said) in [
        (&["--key", key][..], "--signature-agent"),
        (&["--signature-agent", "https://bot.example"], "--key"),
        (&["--key", other, "--signature-agent", "https://bot.example"], "none.pem"),
        (
            &["--key", key, "--signature-agent", "http://bot.example"],
            "--signature-agent: expected the https URL",
        ),
    ] {
        let ran = abide(&[&["fetch"], args, &["https://a.example/"]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    // One of the two may stand in the file of options.
    let config = folder.path().join("abide.toml");
    std::fs::write(&config, "signature-agent = \"https://bot.example\"\n").unwrap();
    let config = format!("--config={}", config.display());
    let ran = abide(&["check", &config, "--key", key, "http://127.0.0.1:9/"]);
    assert!(ran.status == 1 && !ran.err.contains("--key"), "{}: {}", ran.status, ran.err);
}

#[test]
fn a_key_is_made_and_its_directory_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bot.pem");
    let file = path.to_str().unwrap();
    let made = abide(&["identity", "new", file]);
    assert_eq!((made.status, made.err.as_str()), (0, ""));
    let text = std::fs::read_to_string(&path).unwrap();
    let secret = text.lines().nth(1).unwrap();
    let directory = abide(&["identity", "directory", "--key", file]);
    assert_eq!(directory.status, 0, "{}", directory.err);
    let keys: Value = serde_json::from_str(&directory.out).unwrap();
    let keyid = keys["keys"][0]["kid"].as_str().unwrap();
    assert!(made.out.starts_with(&format!("Key {keyid} is in ")), "{}", made.out);
    assert_eq!(keys["keys"][0]["d"], Value::Null, "the private key is not published");
    assert!(!directory.out.ends_with('\n'), "the digest is of these bytes");
    let headers = abide(&["identity", "directory", "--key", file, "--headers", "https://bot.example"]);
    for expected in [
        "content-type: application/http-message-signatures-directory+json\n",
        "content-digest: sha-256=:",
        "signature-input: binding=(\"@authority\";req \"content-digest\");created=",
        &format!("keyid=\"{keyid}\";tag=\"http-message-signatures-directory\"\n"),
        "signature: binding=:",
    ] {
        assert!(headers.out.contains(expected), "{expected}: {}", headers.out);
    }
    for ran in [made, directory, headers] {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret));
    }
    let again = abide(&["identity", "new", file]);
    assert_eq!((again.status, again.out.as_str()), (1, ""));
    assert!(again.err.contains("bot.pem"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a key is never overwritten");
}

#[cfg(unix)]
#[test]
fn a_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bot.pem");
    let file = path.to_str().unwrap();
    abide(&["identity", "new", file]);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = abide(&["identity", "directory", "--key", file]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("chmod 600"), "{}", ran.err);
}

#[test]
fn the_page_says_who_why_and_how_to_stop_it() {
    let ran = abide(&[
        "identity",
        "page",
        "--agent",
        "ExampleBot",
        "--contact",
        "bot@example.com",
        "--why",
        "It finds <broken> links.",
        "--network",
        "192.0.2.0/24",
        "--keys",
        "https://bot.example/",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for expected in [
        "<title>ExampleBot</title>",
        "It finds &lt;broken&gt; links.",
        "<a href=\"mailto:bot@example.com\">bot@example.com</a>",
        "User-agent: ExampleBot\nDisallow: /",
        "<code>192.0.2.0/24</code>",
        "<a href=\"https://bot.example/\">",
    ] {
        assert!(ran.out.contains(expected), "{expected}: {}", ran.out);
    }
}
