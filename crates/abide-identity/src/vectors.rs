//! The vectors of RFC 9421 and of the draft, byte for byte: Ed25519 signatures are deterministic.
//!
//! If these agree, a verifier that follows the RFC accepts what is signed here.

use std::time::{Duration, SystemTime};

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method};
use serde::Deserialize;

use super::*;
use crate::directory::Directory;
use crate::key::{Key, thumbprint};
use crate::names::{SIGNATURE, SIGNATURE_INPUT};

/// RFC 9421 appendix B.1.4.
const TEST_KEY_JWK: &str = r#"{"kty":"OKP","crv":"Ed25519","kid":"test-key-ed25519",
    "d":"n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}"#;
const TEST_KEY_PEM: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n\
    -----END PRIVATE KEY-----\n";

#[derive(Deserialize)]
struct Vectors {
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    source: String,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    label: String,
    agent: Option<(String, String)>,
    components: Vec<String>,
    parameters: Vec<(String, Given)>,
    signature_input: String,
    signature: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Integer(i64),
    Text(String),
}

fn component(text: &str) -> Component {
    match text.split_once(';') {
        Some((_, key)) => Component::AgentMember(StringRef::from_str(key).unwrap().to_owned()),
        None => Component::derived(text).unwrap_or_else(|| Component::Field(text.parse().unwrap())),
    }
}

#[test]
fn rfc_and_draft_vectors() {
    let vectors: Vectors = toml::from_str(include_str!("../vectors/signatures.toml")).unwrap();
    assert_eq!(vectors.vector.len(), 4);
    for vector in vectors.vector {
        for key in [TEST_KEY_JWK, TEST_KEY_PEM] {
            let key = Key::from_text(key).unwrap();
            let headers: HeaderMap = vector
                .headers
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
                .collect();
            let components: Vec<_> = vector.components.iter().map(|name| component(name)).collect();
            let parameters: Vec<_> = vector
                .parameters
                .iter()
                .map(|(name, value)| {
                    let value = match value {
                        Given::Integer(value) => Integer::try_from(*value).unwrap().into(),
                        Given::Text(value) => text(name, value).unwrap(),
                    };
                    (KeyRef::from_str(name).unwrap(), value)
                })
                .collect();
            let agent = vector.agent.as_ref().map(|(url, _)| format!("\"{url}\"")).unwrap_or_default();
            let method: Method = vector.method.parse().unwrap();
            let message = Message {
                method: &method,
                url: &vector.url.parse().unwrap(),
                headers: &headers,
                agent: &agent,
            };
            let label = KeyRef::from_str(&vector.label).unwrap();
            let fields = sign(label, &components, &parameters, &message, &key).unwrap();
            assert_eq!(fields.signature_input, vector.signature_input, "{}", vector.source);
            assert_eq!(fields.signature, vector.signature, "{}", vector.source);
        }
    }
}

/// The draft, "Signed Directory Response".
#[test]
fn draft_directory() {
    let key = Key::from_text(TEST_KEY_JWK).unwrap();
    let directory = Directory::of_any_keys(vec![&key]);
    assert_eq!(
        directory.json(),
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\",\
         \"x\":\"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs\",\"use\":\"sig\"}]}"
    );
    let url = "https://signature-agent.test/.well-known/http-message-signatures-directory".parse().unwrap();
    let created = SystemTime::UNIX_EPOCH + Duration::from_secs(1_735_689_600);
    let headers =
        directory.headers(&url, created, Duration::from_secs(4_889_289_600 - 1_735_689_600)).unwrap();
    assert_eq!(headers["content-digest"], "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:");
    assert_eq!(
        headers[SIGNATURE_INPUT],
        "binding=(\"@authority\";req \"content-digest\");created=1735689600;expires=4889289600;\
         keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";tag=\"http-message-signatures-directory\""
    );
    assert_eq!(
        headers[SIGNATURE],
        "binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:"
    );
}

/// RFC 8037 appendix A.3.
#[test]
fn rfc_thumbprint() {
    let x = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
    assert_eq!(thumbprint(&x.try_into().unwrap()), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}
