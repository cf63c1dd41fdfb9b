//! Signing requests as Web Bot Auth wants it: which fields, which components, for how long.
//!
//! `signature_base` says what is signed, and [`Signer`] signs it. This file is the profile: one place to
//! change when the draft does.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};
use sfv::{ItemSerializer, KeyRef, StringRef, key_ref};
use url::Url;

use crate::asked::asked;
use crate::error::{IdentityError, Why};
use crate::key::{Signer, check_own, thumbprint};
use crate::names::{
    COVERED_IF_SENT, LABEL_REQUEST, LIFETIME_MAX, NONCE, SIGNATURE, SIGNATURE_AGENT, SIGNATURE_INPUT,
    TAG_REQUEST,
};
use crate::signature::{Component, Message, field_value, parameters, sign, text};

/// Signs the requests of a crawler.
///
/// A signed request has the fields `Signature-Agent`, `Signature-Input` and `Signature`. The signature covers
/// `@authority`, `@method`, `@target-uri` and `Signature-Agent`, so it is valid for one URL of one site, and
/// for 60 s. Only https requests are signed: over http, others could read the signature on the way.
///
/// The URL names the signer, and where the public keys are. Its meaning changes with the drafts: deployed
/// verifiers expect an origin (`https://bot.example`) and fetch [`DIRECTORY_PATH`](crate::DIRECTORY_PATH)
/// there; by draft-ietf-webbotauth-httpsig-protocol-01 they fetch the URL as it is. Use the URL that your
/// verifiers expect, and serve the directory at both.
///
/// ```
/// use abide_identity::{IdentityError, Key, WebBotAuth};
///
/// fn identity() -> Result<WebBotAuth, IdentityError> {
///     let key = Key::from_file("bot.pem")?;
///     Ok(WebBotAuth::new(key, "https://bot.example")?.with_nonce())
/// }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct WebBotAuth {
    signer: Arc<dyn Signer>,
    keyid: String,
    agent: Agent,
    lifetime: Duration,
    label: sfv::Key,
    nonce: Nonce,
    covered: Vec<Component>,
    /// Whether abide signs only what a server has asked for.
    signs_only_when_asked: bool,
}

/// The parameter `nonce` of the signatures.
#[derive(Debug, Clone)]
enum Nonce {
    None,
    /// A new one for each.
    Random,
    /// What the server asked for.
    Given(String),
}

#[derive(Debug, Clone)]
struct Agent {
    url: Url,
    /// The URL as an Item.
    item: String,
    /// As a Dictionary, or as a String.
    is_dictionary: bool,
}

impl WebBotAuth {
    /// An identity with this signer, whose public key is published at `url`.
    ///
    /// # Errors
    /// If `url` is not an https URL, or the key is the RFC's test key.
    pub fn new(signer: impl Signer + 'static, url: &str) -> Result<Self, IdentityError> {
        check_own(&signer)?;
        Ok(Self {
            keyid: thumbprint(&signer.public_key()),
            signer: Arc::new(signer),
            agent: Agent::new(url)?,
            lifetime: Duration::from_secs(60),
            label: key_ref(LABEL_REQUEST).to_owned(),
            nonce: Nonce::None,
            covered: vec![Component::Authority, Component::Method, Component::TargetUri],
            signs_only_when_asked: false,
        })
    }

    /// How long a signature is valid, in whole seconds. Default: 60 s. At least 1 s, at most 24 h
    /// ([`LIFETIME_MAX`](crate::LIFETIME_MAX)).
    ///
    /// # Errors
    /// Shorter or longer.
    pub fn with_lifetime(mut self, lifetime: Duration) -> Result<Self, IdentityError> {
        if lifetime < Duration::from_secs(1) || lifetime > LIFETIME_MAX {
            return Err(Why::Lifetime { seconds: lifetime.as_secs() }.into());
        }
        self.lifetime = lifetime;
        Ok(self)
    }

    /// Adds a `nonce` of 32 random bytes to each signature, so that a server can refuse a signature that it
    /// has seen before. Default: none.
    pub fn with_nonce(mut self) -> Self {
        self.nonce = Nonce::Random;
        self
    }

    /// Covers only `@authority` and `Signature-Agent`, the draft's minimum: the signature is valid for every
    /// URL of the site, also behind proxies that rewrite URLs. Default: `@method` and `@target-uri` too.
    pub fn with_authority_only(mut self) -> Self {
        self.covered = vec![Component::Authority];
        self
    }

    /// Sends `Signature-Agent` as a String, as deployments before draft-meunier-web-bot-auth-architecture-04
    /// want it. Default: a Dictionary.
    pub fn with_bare_agent(mut self) -> Self {
        self.agent.is_dictionary = false;
        self
    }

    /// Lets abide's clients sign a request only after the server has refused it with 401, 403 or 429 and an
    /// `Accept-Signature`: the request is then sent once more, signed, after the delay. [`sign`](Self::sign)
    /// itself always signs. Default: every request is signed.
    ///
    /// A request whose body cannot be sent twice is not repeated: its response is the server's refusal.
    pub fn with_signatures_only_when_asked(mut self) -> Self {
        self.signs_only_when_asked = true;
        self
    }

    /// Whether a server must ask first:
    /// [`with_signatures_only_when_asked`](Self::with_signatures_only_when_asked).
    pub fn signs_only_when_asked(&self) -> bool {
        self.signs_only_when_asked
    }

    /// The `keyid` of the signatures: the thumbprint of the key.
    pub fn keyid(&self) -> &str {
        &self.keyid
    }

    /// The URL at which the keys are published.
    pub fn url(&self) -> &Url {
        &self.agent.url
    }

    /// The identity for a signature as the response asks for it (`Accept-Signature`, RFC 9421 §5): with the
    /// server's label, nonce and covered components. `None` if the status is not 401, 403 or 429, if the
    /// response asks for no signature, or for one that this crawler cannot make: by another key or algorithm,
    /// or over fields of the request.
    pub fn as_asked(&self, status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let asked = asked(status, headers, &self.keyid)?;
        let mut identity = self.clone();
        let more = asked.covered.into_iter().filter(|component| !self.covered.contains(component));
        // Added to our own, which is never less than the draft's minimum.
        identity.covered.extend(more);
        identity.label = asked.label;
        identity.nonce = asked.nonce.map_or(Nonce::None, Nonce::Given);
        identity.signs_only_when_asked = false;
        Some(identity)
    }

    /// Signs a request: sets `Signature-Agent`, `Signature-Input` and `Signature` in `headers`, in place of
    /// any that are there. Call it last, because the signature covers the request as it is. `Authorization`
    /// and offers to pay are covered, too, unless they have bytes beyond ASCII. If the request is not https,
    /// the three fields are only removed.
    ///
    /// # Errors
    /// If the signer fails.
    pub fn sign(
        &self,
        method: &Method,
        url: &Url,
        headers: &mut HeaderMap,
        now: SystemTime,
    ) -> Result<(), IdentityError> {
        // A signature is of one request: after a redirect or for a repetition an old one must not go along.
        remove(headers);
        if url.scheme() != "https" {
            return Ok(());
        }
        let nonce = match &self.nonce {
            Nonce::None => None,
            Nonce::Random => Some(random_nonce()?),
            Nonce::Given(nonce) => Some(nonce.clone()),
        };
        let mut covered = self.covered.clone();
        let sent = COVERED_IF_SENT.into_iter().filter(|name| is_sent_as_text(headers, name));
        covered.extend(sent.map(|name| Component::Field(HeaderName::from_static(name))));
        covered.push(self.agent.component(&self.label));
        let mut parameters = parameters(now, self.lifetime, &self.keyid, TAG_REQUEST)?;
        if let Some(nonce) = &nonce {
            parameters.push((key_ref(NONCE), text(NONCE, nonce)?));
        }
        // Before the signature, which covers it.
        insert(headers, SIGNATURE_AGENT, &self.agent.field(&self.label))?;
        let message = Message { method, url, headers, agent: &self.agent.item };
        let signed = sign(&self.label, &covered, &parameters, &message, &*self.signer).and_then(|fields| {
            insert(headers, SIGNATURE_INPUT, &fields.signature_input)?;
            insert(headers, SIGNATURE, &fields.signature)
        });
        if signed.is_err() {
            // Or a part of a signature would go out, which verifiers refuse.
            remove(headers);
        }
        signed
    }
}

impl Agent {
    fn new(given: &str) -> Result<Self, IdentityError> {
        let refused = || Why::Agent { url: given.to_owned() };
        let url = Url::parse(given).map_err(|_| refused())?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if url.scheme() != "https" || !is_plain {
            return Err(refused().into());
        }
        // An origin is written without the slash (RFC 6454 §6.2).
        let shown = if url.path() == "/" && url.query().is_none() {
            url.as_str().trim_end_matches('/')
        } else {
            url.as_str()
        };
        let item =
            ItemSerializer::new().bare_item(StringRef::from_str(shown).map_err(|_| refused())?).finish();
        Ok(Self { item, url, is_dictionary: true })
    }

    fn component(&self, label: &KeyRef) -> Component {
        match StringRef::from_str(label.as_str()) {
            Ok(label) if self.is_dictionary => Component::AgentMember(label.to_owned()),
            _ => Component::Field(HeaderName::from_static(SIGNATURE_AGENT)),
        }
    }

    fn field(&self, label: &KeyRef) -> String {
        if self.is_dictionary { format!("{}={}", label.as_str(), self.item) } else { self.item.clone() }
    }
}

/// Whether the field is there, with lines that a signature can cover (RFC 9421 §2.1).
fn is_sent_as_text(headers: &HeaderMap, name: &str) -> bool {
    headers.contains_key(name) && headers.get_all(name).iter().all(|value| value.to_str().is_ok())
}

/// 32 random bytes, base64url.
fn random_nonce() -> Result<String, IdentityError> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|error| Why::Signer(error.into()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn remove(headers: &mut HeaderMap) {
    for name in [SIGNATURE_AGENT, SIGNATURE_INPUT, SIGNATURE] {
        headers.remove(name);
    }
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) -> Result<(), IdentityError> {
    let mut value = field_value(name, value)?;
    // A reader of a log could send it again while it is valid. `Debug` does not show it.
    value.set_sensitive(true);
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}
