//! Where keys come from, and that no text shows them.

use abide_identity::{Directory, Key, Signer, WebBotAuth, thumbprint};

/// RFC 9421 appendix B.1.4.
const TEST_KEY: &str = r#"{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs",
    "d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU"}"#;

fn message(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(": {cause}");
        next = cause.source();
    }
    text
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("abide-identity-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_written_key_is_read_again() {
    let folder = folder("written");
    let path = folder.join("bot.pem");
    let key = Key::generate().unwrap();
    key.write_new(&path).unwrap();
    assert_eq!(Key::from_file(&path).unwrap().public_key(), key.public_key());
    assert!(key.write_new(&path).is_err(), "a key is never overwritten");
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let folder = folder("others");
    let path = folder.join("bot.pem");
    Key::generate().unwrap().write_new(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Key::from_file(&path).unwrap_err();
    assert!(error.is_permissions());
    assert_eq!(
        error.to_string(),
        format!(
            "expected a key file that only its owner may read, found {} with mode 640; run chmod 600 on it",
            path.display()
        )
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_test_key_of_the_rfc_is_refused() {
    let key = Key::from_text(TEST_KEY).unwrap();
    let error = WebBotAuth::new(key, "https://bot.example").unwrap_err();
    assert!(error.to_string().contains("the test key of RFC 9421"), "{error}");
    let key = Key::from_text(TEST_KEY).unwrap();
    assert!(Directory::new([&key as &dyn Signer]).is_err());
}

/// The private key in every form in which it could be shown: base64 and base64url of the seed, hex, a list of
/// bytes.
fn shows_the_key(text: &str, key: &Key) -> bool {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    let pem = key.to_pem();
    let der = STANDARD.decode(pem.lines().nth(1).unwrap()).unwrap();
    let seed = &der[der.len() - 32..];
    let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = format!("{seed:?}");
    let forms = [
        STANDARD.encode(seed),
        URL_SAFE_NO_PAD.encode(seed),
        hex,
        bytes[1..bytes.len() - 1].to_owned(),
        pem.lines().nth(1).unwrap().to_owned(),
    ];
    forms.iter().any(|form| text.to_lowercase().contains(&form.to_lowercase()))
}

#[test]
fn the_key_is_in_no_debug_text() {
    let key = Key::generate().unwrap();
    assert_eq!(format!("{key:?}"), format!("Key(\"{}\")", thumbprint(&key.public_key())));
    let pem = key.to_pem();
    assert!(shows_the_key(&pem, &key), "the test finds it where it is");
    let identity = WebBotAuth::new(Key::from_text(&pem).unwrap(), "https://bot.example").unwrap();
    assert!(!shows_the_key(&format!("{identity:?} {identity:#?}"), &key));
}

#[test]
fn the_key_is_in_no_error() {
    let key = Key::generate().unwrap();
    let pem = key.to_pem();
    let jwk = |d: &str| format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"AAAA","d":{d}}}"#);
    let line = pem.lines().nth(1).unwrap().to_owned();
    let broken = [
        pem.replace("-----END", "-----FIN"),
        pem.replace("PRIVATE KEY", "EC PRIVATE KEY"),
        line.clone(),
        jwk(&format!("[\"{line}\"]")),
        jwk(&format!("\"{line}\"")),
        format!("{{\"{line}\""),
    ];
    for text in broken {
        let error = Key::from_text(&text).unwrap_err();
        assert!(!shows_the_key(&format!("{error:?}"), &key), "{error:?}");
        assert!(!shows_the_key(&message(error), &key));
    }
}

#[test]
fn what_is_no_key_is_said() {
    for (text, expected) in [
        (
            "hello",
            "expected a PEM block PRIVATE KEY with an Ed25519 key (openssl genpkey -algorithm ed25519), or a JWK",
        ),
        (
            r#"{"kty":"RSA"}"#,
            r#"expected a JWK of a private Ed25519 key: an object with "kty":"OKP", "crv":"Ed25519", "x" and "d""#,
        ),
    ] {
        assert_eq!(message(Key::from_text(text).unwrap_err()), expected);
    }
}
