//! HTTP messages as the blocks of an archive have them: a head as text, without what is private.
//!
//! Field names are in lower case where the client does not know their case, and lines of one name stand
//! together. HTTP/2 is written as HTTP/1.1, which readers of archives understand.

use std::borrow::Cow;

use abide_gate::{decoder, named_codings};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, COOKIE, HeaderName, HeaderValue, PROXY_AUTHORIZATION, SET_COOKIE,
    TRANSFER_ENCODING,
};
use http::{HeaderMap, Version};
use http_body_util::{BodyExt, Full};
use url::{Position, Url};

use crate::sanitize::without_user_bytes;

/// `left_out`: names of fields that may hold a secret of the user.
pub(crate) fn request_head(request: &reqwest::Request, left_out: &[HeaderName]) -> Vec<u8> {
    let target = &request.url()[Position::BeforePath..Position::AfterQuery];
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method()).into_bytes();
    push_fields(&mut head, request.headers(), left_out);
    head
}

pub(crate) fn response_head(response: &reqwest::Response) -> Vec<u8> {
    let status = response.status();
    let version = if response.version() == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let own = response.extensions().get::<hyper::ext::ReasonPhrase>();
    let reason = own.map_or(status.canonical_reason().unwrap_or_default().as_bytes(), |own| own.as_bytes());
    let mut head = format!("{version} {} ", status.as_u16()).into_bytes();
    head.extend_from_slice(reason);
    head.extend_from_slice(b"\r\n");
    // Transfer coding is taken off with its field: the body is as the message has it.
    push_fields(&mut head, response.headers(), &[TRANSFER_ENCODING]);
    head
}

/// As `WARC-Protocol` names it.
pub(crate) fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "http/1.0",
        Version::HTTP_2 => "h2",
        Version::HTTP_3 => "h3",
        _ => "http/1.1",
    }
}

fn push_fields(head: &mut Vec<u8>, fields: &HeaderMap, left_out: &[HeaderName]) {
    for (name, value) in fields.iter().filter(|(name, _)| !is_private(name) && !left_out.contains(name)) {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        // A Location may have user information.
        head.extend_from_slice(&without_user_bytes(value.as_bytes()));
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
}

fn is_private(name: &HeaderName) -> bool {
    [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(name)
        || ["cookie2", "set-cookie2", "authentication-info", "proxy-authentication-info"]
            .contains(&name.as_str())
}

/// The type of blocks that are HTTP messages.
pub(crate) const HTTP_TYPE: &str = "application/http";

/// An HTTP message of any writer's archive, as far as it can be read.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    /// `None` of a request.
    pub(crate) status: Option<u16>,
    pub(crate) fields: HeaderMap,
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// `None` if `block` does not begin as one. Lenient: lines may end without a carriage return, and a line
    /// that is no field says nothing.
    pub(crate) fn read(block: &'a [u8]) -> Option<Self> {
        let (first, mut rest) = line(block)?;
        // A reason phrase may have any bytes (RFC 9112 §4).
        let first = String::from_utf8_lossy(first);
        let status = match first.strip_prefix("HTTP/") {
            Some(rest) => Some(rest.split_whitespace().nth(1)?.parse().ok()?),
            None if first.contains(" HTTP/") => None,
            None => return None,
        };
        let mut fields = HeaderMap::new();
        while let Some((text, behind)) = line(rest) {
            rest = behind;
            if text.is_empty() {
                break;
            }
            let Some(colon) = text.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = text.split_at(colon);
            let name = HeaderName::from_bytes(name.trim_ascii());
            let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default().trim_ascii());
            if let (Ok(name), Ok(value)) = (name, value) {
                // More than a map holds say nothing that counts.
                let _ = fields.try_append(name, value);
            }
        }
        Some(Self { status, fields, body: rest })
    }

    pub(crate) fn has_transfer_coding(&self) -> bool {
        self.fields.contains_key(TRANSFER_ENCODING)
    }

    /// The body without its transfer coding, if the archive has it with it. Writers differ there, whatever
    /// the field says.
    pub(crate) fn dechunked(&self) -> Cow<'a, [u8]> {
        if !self.has_transfer_coding() {
            return self.body.into();
        }
        let (mut rest, mut body) = (self.body, Vec::new());
        while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
            let (size, behind) = rest.split_at(end);
            let size = size.split(|byte| *byte == b';').next().unwrap_or_default();
            let size =
                std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
            let Some(size) = size else { break };
            let data = behind.get(2..).unwrap_or_default();
            body.extend_from_slice(data.get(..size).unwrap_or(data));
            // The line end behind the data.
            rest = data.get(size.saturating_add(2)..).unwrap_or_default();
            if size == 0 {
                return body.into();
            }
        }
        // Cut within a chunk, or not chunked at all.
        if body.is_empty() { self.body.into() } else { body.into() }
    }
}

/// The first line without its end, and what is behind it; `None` where nothing is left.
fn line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b'\n');
    let (line, rest) = text.split_at(end.unwrap_or(text.len()));
    (!text.is_empty()).then(|| (line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..).unwrap_or_default()))
}

/// A body without its content coding, up to `max` bytes.
///
/// # Errors
/// A sentence, if the coding is unknown or the body is not of it.
pub(crate) fn decoded(fields: &HeaderMap, body: &[u8], max: usize) -> Result<Vec<u8>, String> {
    let values = fields.get_all(CONTENT_ENCODING).iter();
    let is_coded = values.flat_map(|value| named_codings(value.as_bytes())).next().is_some();
    if !is_coded || body.is_empty() {
        return Ok(body.get(..max).unwrap_or(body).to_vec());
    }
    let decode = decoder(fields).ok_or("its content coding is unknown")?;
    let mut decoded = decode(Full::new(Bytes::copy_from_slice(body)));
    let mut text = Vec::new();
    while text.len() < max {
        // All of the body is here, so no frame is waited for.
        match decoded.frame().now_or_never().flatten() {
            Some(Ok(frame)) => text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Some(Err(error)) if text.is_empty() => return Err(error.to_string()),
            // What came before it broke off, as of a page that is cut.
            Some(Err(_)) | None => break,
        }
    }
    text.truncate(max);
    Ok(text)
}

pub(crate) fn without_fragment(url: &Url) -> Url {
    let mut url = crate::sanitize::public_url(url);
    url.set_fragment(None);
    url
}
