//! `abide identity`: keys, their directory, and the page about the crawler.

use serde_json::Value;

use crate::abide;

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
