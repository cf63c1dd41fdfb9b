//! Another implementation of Web Bot Auth, which verifies: the crate `web-bot-auth` of Cloudflare.

use abide_identity::thumbprint;
use http::{HeaderMap, Method};
use url::Url;
use web_bot_auth::WebBotAuthVerifier;
use web_bot_auth::components::{CoveredComponent, DerivedComponent, HTTPField, HTTPFieldParameters};
use web_bot_auth::keyring::{Algorithm, KeyRing};
use web_bot_auth::message_signatures::SignedMessage;

/// A request as its server sees it.
pub(crate) struct Seen<'r>(pub(crate) &'r Method, pub(crate) &'r Url, pub(crate) &'r HeaderMap);

impl SignedMessage for Seen<'_> {
    fn lookup_component(&self, name: &CoveredComponent) -> Vec<String> {
        let Self(method, url, headers) = self;
        match name {
            CoveredComponent::HTTP(HTTPField { name, parameters }) => {
                let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned());
                let key = parameters.0.iter().find_map(|parameter| match parameter {
                    HTTPFieldParameters::Key(key) => Some(format!("{key}=")),
                    _ => None,
                });
                // A member of a dictionary, which has this one alone.
                values.map(|value| key.as_ref().map_or(value.clone(), |key| value.replace(key, ""))).collect()
            }
            CoveredComponent::Derived(DerivedComponent::Authority { .. }) => vec![url.authority().to_owned()],
            CoveredComponent::Derived(DerivedComponent::Method { .. }) => vec![method.to_string()],
            CoveredComponent::Derived(DerivedComponent::TargetUri { .. }) => {
                vec![url.as_str().split('#').next().unwrap().to_owned()]
            }
            CoveredComponent::Derived(DerivedComponent::Path { .. }) => vec![url.path().to_owned()],
            _ => vec![],
        }
    }
}

/// Whether it is signed with this key, and the signature has not expired.
pub(crate) fn is_verified(request: &Seen<'_>, public_key: [u8; 32]) -> Result<(), String> {
    let mut keys = KeyRing::default();
    keys.import_raw(thumbprint(&public_key), Algorithm::Ed25519, public_key.to_vec());
    let verifier = WebBotAuthVerifier::parse(request).map_err(|error| error.to_string())?;
    let advice = verifier.get_parsed_label().base.parameters.details.possibly_insecure(|_| false);
    if advice.is_expired != Some(false) {
        return Err("expired".to_owned());
    }
    verifier.verify(&keys, None).map(drop).map_err(|error| error.to_string())
}
