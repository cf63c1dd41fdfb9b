//! What a server asks for with `Accept-Signature` (RFC 9421 §5), and whether this crawler can give it.
//!
//! A crawler answers by signing the request once more with what was asked; `abide-http` does so, once.

use http::{HeaderMap, StatusCode};
use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parser};

use crate::names::{ACCEPT_SIGNATURE, ALG, ED25519, KEYID, NONCE, SIGNATURE_AGENT, TAG, TAG_REQUEST};
use crate::signature::Component;

/// One signature that is asked for, and can be given.
#[derive(Debug)]
pub(crate) struct RequestedSignature {
    pub(crate) label: sfv::Key,
    /// What to cover, besides `Signature-Agent`.
    pub(crate) covered: Vec<Component>,
    pub(crate) nonce: Option<String>,
}

/// The first signature that the response asks for and that can be given.
///
/// The draft asks with 403, and with 429 for a signature that was used too often; 401 is how RFC 9110 asks
/// for identification.
pub(crate) fn asked(status: StatusCode, headers: &HeaderMap, keyid: &str) -> Option<RequestedSignature> {
    if !matches!(status.as_u16(), 401 | 403 | 429) {
        return None;
    }
    // RFC 9651 §4.2: all lines of a field are parsed as one, with commas between them.
    let lines: Vec<&[u8]> = headers.get_all(ACCEPT_SIGNATURE).iter().map(|line| line.as_bytes()).collect();
    let value = lines.join(&b", "[..]);
    if value.is_empty() || value.len() > ACCEPT_SIGNATURE_LEN_MAX {
        return None;
    }
    let members: Dictionary = Parser::new(&value).parse().ok()?;
    members.into_iter().find_map(|(label, member)| match member {
        // RFC 9421 §5.1: what is to be covered is an Inner List.
        ListEntry::InnerList(list) => given(label, &list, keyid),
        ListEntry::Item(_) => None,
    })
}

fn given(label: sfv::Key, list: &InnerList, keyid: &str) -> Option<RequestedSignature> {
    let text = |name: &str| list.params.get(name).and_then(BareItem::as_string).map(|text| text.as_str());
    let is = |name: &str, ours: &str| !list.params.contains_key(name) || text(name) == Some(ours);
    if !(is(TAG, TAG_REQUEST) && is(KEYID, keyid) && is(ALG, ED25519)) {
        return None;
    }
    let nonce = match list.params.get(NONCE) {
        None => None,
        Some(_) => Some(text(NONCE).filter(|nonce| nonce.len() <= NONCE_LEN_MAX)?.to_owned()),
    };
    // RFC 9421 §2: each component identifier occurs once.
    if list.items.iter().enumerate().any(|(n, item)| list.items.iter().take(n).any(|other| other == item)) {
        return None;
    }
    let covered: Option<Vec<_>> = list.items.iter().filter(|item| !is_agent(item)).map(component).collect();
    Some(RequestedSignature { label, covered: covered?, nonce })
}

/// `Signature-Agent` is covered always, as a field or as a member of a Dictionary.
fn is_agent(item: &Item) -> bool {
    item.bare_item.as_string().is_some_and(|name| name.as_str() == SIGNATURE_AGENT)
        && item.params.keys().all(|name| name.as_str() == "key")
}

/// Derived components alone: which fields a request will have below the middleware is not known here.
fn component(item: &Item) -> Option<Component> {
    let name = item.bare_item.as_string().filter(|_| item.params.is_empty())?;
    Component::derived(name.as_str())
}

/// A longer value asks for more than this crawler has.
const ACCEPT_SIGNATURE_LEN_MAX: usize = 4096;

/// A nonce comes back with the request; one of 32 bytes in base64 has 44 characters.
const NONCE_LEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(status: u16, value: &str) -> Option<RequestedSignature> {
        let headers = HeaderMap::from_iter([(ACCEPT_SIGNATURE.parse().unwrap(), value.parse().unwrap())]);
        asked(StatusCode::from_u16(status).unwrap(), &headers, "ours")
    }

    #[test]
    fn a_request_for_web_bot_auth_is_read() {
        let asked = ask(
            403,
            r#"a=("@authority" "cookie"), b=("@authority" "@path" "signature-agent";key="b");nonce="x\"y";tag="web-bot-auth""#,
        );
        let asked = asked.unwrap();
        assert_eq!(asked.label.as_str(), "b", "a field that may be added below cannot be covered");
        assert_eq!(asked.covered, [Component::Authority, Component::Path]);
        assert_eq!(asked.nonce.as_deref(), Some("x\"y"));
    }

    #[test]
    fn what_cannot_be_given_is_not_answered() {
        for value in [
            r#"a=("@authority");tag="another""#,
            r#"a=("@authority");keyid="theirs""#,
            r#"a=("@authority");alg="hmac-sha256""#,
            r#"a=("@status")"#,
            r#"a=("@path" "@authority" "@path")"#,
            r#"a=("@authority" "signature-agent";req)"#,
            r#"a=("@query-param";name="x")"#,
            r#"a="@authority""#,
            "a=(",
            "",
        ] {
            assert!(ask(403, value).is_none(), "{value}");
        }
        assert!(ask(200, r#"a=("@authority")"#).is_none(), "only a refusal is answered");
        for status in [401, 403, 429] {
            assert!(ask(status, r#"a=("@authority");keyid="ours""#).is_some(), "{status}");
        }
    }
}
