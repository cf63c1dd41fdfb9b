//! A signature of one message: what it covers, its base, and its two fields (RFC 9421 §2 and §3.1).
//!
//! Requests and the directory of keys are signed by the same code, which the vectors of the RFC and of the
//! draft hold byte for byte.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use sfv::{
    Integer, ItemSerializer, KeyRef, ListSerializer, ParameterSerializer, RefBareItem, StringRef, key_ref,
};
use url::Url;

use crate::error::{IdentityError, Why};
use crate::key::Signer;
use crate::names::{CREATED, EXPIRES, KEYID, SIGNATURE_AGENT, SIGNATURE_INPUT, TAG};

/// A component of a message that a signature covers (RFC 9421 §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Component {
    /// `@authority` (§2.2.3).
    Authority,
    /// `@method` (§2.2.1).
    Method,
    /// `@target-uri` (§2.2.2).
    TargetUri,
    /// `@scheme` (§2.2.4).
    Scheme,
    /// `@path` (§2.2.6).
    Path,
    /// `@query` (§2.2.7).
    Query,
    /// A field of the message (§2.1).
    Field(HeaderName),
    /// A member of the dictionary `Signature-Agent`, by its key (§2.1.2).
    AgentMember(sfv::String),
    /// `@authority` of the request that the message is the response to (§2.4).
    RequestAuthority,
}

impl Component {
    /// The derived component of this name, if it can be covered here.
    pub(crate) fn derived(name: &str) -> Option<Self> {
        let derived = [Self::Authority, Self::Method, Self::TargetUri, Self::Scheme, Self::Path, Self::Query];
        derived.into_iter().find(|component| component.name() == name)
    }

    fn name(&self) -> &str {
        match self {
            Self::Authority | Self::RequestAuthority => "@authority",
            Self::Method => "@method",
            Self::TargetUri => "@target-uri",
            Self::Scheme => "@scheme",
            Self::Path => "@path",
            Self::Query => "@query",
            Self::Field(name) => name.as_str(),
            Self::AgentMember(_) => SIGNATURE_AGENT,
        }
    }

    /// Writes the component's identifier: a String with parameters (§2).
    fn identify<'b>(&self, item: ParameterSerializer<&'b mut String>) -> ParameterSerializer<&'b mut String> {
        match self {
            Self::RequestAuthority => item.parameter(key_ref("req"), true),
            Self::AgentMember(key) => item.parameter(key_ref("key"), &**key),
            _ => item,
        }
    }

    fn value(&self, message: &Message<'_>) -> Result<String, IdentityError> {
        let url = message.url;
        Ok(match self {
            Self::Authority | Self::RequestAuthority => authority(url),
            Self::Method => message.method.as_str().to_owned(),
            Self::TargetUri => target_uri(url).to_owned(),
            Self::Scheme => url.scheme().to_owned(),
            Self::Path => url.path().to_owned(),
            // §2.2.7: without a query the value is the `?` alone.
            Self::Query => format!("?{}", url.query().unwrap_or_default()),
            Self::Field(name) => field(message.headers, name)?,
            Self::AgentMember(_) => message.agent.to_owned(),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'m> {
    pub(crate) method: &'m Method,
    pub(crate) url: &'m Url,
    pub(crate) headers: &'m HeaderMap,
    /// The URL of `Signature-Agent` as an Item.
    pub(crate) agent: &'m str,
}

pub(crate) type Parameter<'v> = (&'v KeyRef, RefBareItem<'v>);

#[derive(Debug)]
pub(crate) struct SignatureFields {
    pub(crate) signature_input: String,
    pub(crate) signature: String,
}

/// Signs `components` of `message` with these parameters, under this label.
pub(crate) fn sign(
    label: &KeyRef,
    components: &[Component],
    parameters: &[Parameter<'_>],
    message: &Message<'_>,
    signer: &dyn Signer,
) -> Result<SignatureFields, IdentityError> {
    let params = signature_params(components, parameters)?;
    let base = signature_base(components, &params, message)?;
    let signature = signer.sign(base.as_bytes()).map_err(Why::Signer)?;
    Ok(SignatureFields {
        signature_input: format!("{}={params}", label.as_str()),
        signature: format!("{}=:{}:", label.as_str(), STANDARD.encode(signature)),
    })
}

/// The covered components and the parameters: an Inner List (§2.3).
fn signature_params(components: &[Component], parameters: &[Parameter<'_>]) -> Result<String, IdentityError> {
    let mut params = ListSerializer::new();
    let mut list = params.inner_list();
    for component in components {
        let name = StringRef::from_str(component.name()).map_err(|_| unsigned(component.name()))?;
        let _ = component.identify(list.bare_item(name));
    }
    let mut list = list.finish();
    for (name, value) in parameters {
        list = list.parameter(name, *value);
    }
    params.finish().ok_or_else(|| unsigned(SIGNATURE_INPUT))
}

/// The text that is signed (§2.5).
fn signature_base(
    components: &[Component],
    params: &str,
    message: &Message<'_>,
) -> Result<String, IdentityError> {
    let mut base = String::with_capacity(512);
    for component in components {
        let name = StringRef::from_str(component.name()).map_err(|_| unsigned(component.name()))?;
        let _ = component.identify(ItemSerializer::with_buffer(&mut base).bare_item(name));
        base.push_str(": ");
        base.push_str(&component.value(message)?);
        base.push('\n');
    }
    // §2.5: this line is the last, and no line end follows it.
    base.push_str("\"@signature-params\": ");
    base.push_str(params);
    Ok(base)
}

/// The parameters of a signature by this key that is good from `now` on for `lifetime` (§2.3). Times are
/// whole seconds since 1970.
pub(crate) fn parameters<'v>(
    now: SystemTime,
    lifetime: Duration,
    keyid: &'v str,
    tag: &'v str,
) -> Result<Vec<Parameter<'v>>, IdentityError> {
    let created = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    let expires = created.saturating_add_unsigned(lifetime.as_secs());
    let time = |name, seconds| Integer::try_from(seconds).map_err(|_| unsigned(name)).map(RefBareItem::from);
    Ok(vec![
        (key_ref(CREATED), time(CREATED, created)?),
        (key_ref(EXPIRES), time(EXPIRES, expires)?),
        (key_ref(KEYID), text(KEYID, keyid)?),
        (key_ref(TAG), text(TAG, tag)?),
    ])
}

/// A text as the value of a parameter.
pub(crate) fn text<'v>(name: &str, text: &'v str) -> Result<RefBareItem<'v>, IdentityError> {
    StringRef::from_str(text).map(Into::into).map_err(|_| unsigned(name))
}

pub(crate) fn field_value(name: &str, text: &str) -> Result<HeaderValue, IdentityError> {
    HeaderValue::from_str(text).map_err(|_| unsigned(name))
}

/// Host and port, the port only if it is not the scheme's own (§2.2.3).
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The URL without its fragment, which is not sent (§2.2.2).
fn target_uri(url: &Url) -> &str {
    let url = url.as_str();
    url.split_once('#').map_or(url, |(url, _)| url)
}

/// All values of a field, in one (§2.1).
fn field(headers: &HeaderMap, name: &HeaderName) -> Result<String, IdentityError> {
    let values: Option<Vec<&str>> =
        // §2.1: white space around each value is stripped, and the values are joined by a comma and a space.
        headers.get_all(name).iter().map(|value| value.to_str().ok().map(str::trim)).collect();
    match values {
        Some(values) if !values.is_empty() => Ok(values.join(", ")),
        _ => Err(unsigned(name.as_str())),
    }
}

pub(crate) fn unsigned(name: &str) -> IdentityError {
    Why::Field { name: name.to_owned() }.into()
}

#[cfg(test)]
#[path = "vectors.rs"]
mod vectors;
