//! Every name and number that the specifications fix, in one place, because the drafts move.
//!
//! Read in November 2026:
//! - RFC 9421, HTTP Message Signatures; RFC 7638 and RFC 8037, the thumbprint of a key; RFC 9530,
//!   `Content-Digest`.
//! - draft-ietf-webbotauth-httpsig-protocol-01 (the working group's repository at 5a71ee1). It has the
//!   directory of draft-meunier-http-message-signatures-directory in it. Its -00 and
//!   draft-meunier-webbotauth-httpsig-protocol-02 differ in what the URL of `Signature-Agent` is: see
//!   [`WebBotAuth`](crate::WebBotAuth).

use std::time::Duration;

/// RFC 9421 §4.2.
pub(crate) const SIGNATURE: &str = "signature";
/// RFC 9421 §4.1.
pub(crate) const SIGNATURE_INPUT: &str = "signature-input";
/// RFC 9421 §5.1.
pub(crate) const ACCEPT_SIGNATURE: &str = "accept-signature";
/// The draft, "Signature-Agent".
pub(crate) const SIGNATURE_AGENT: &str = "signature-agent";
/// Covered where a request has them: credentials, and what it offers to pay, which "must" be signed by
/// Cloudflare's pay per crawl.
pub(crate) const COVERED_IF_SENT: [&str; 3] = ["authorization", "crawler-exact-price", "crawler-max-price"];
/// RFC 9530 §2.
pub(crate) const CONTENT_DIGEST: &str = "content-digest";

/// RFC 9421 §2.3, the parameters of a signature.
pub(crate) const CREATED: &str = "created";
pub(crate) const EXPIRES: &str = "expires";
pub(crate) const KEYID: &str = "keyid";
pub(crate) const NONCE: &str = "nonce";
pub(crate) const TAG: &str = "tag";
pub(crate) const ALG: &str = "alg";
/// RFC 9421 §3.3.6.
pub(crate) const ED25519: &str = "ed25519";

/// The draft, "Generating HTTP Message Signature": the tag of a request.
pub(crate) const TAG_REQUEST: &str = "web-bot-auth";
/// The draft, "Possession Proof on the Directory Response": the tag of a directory.
pub(crate) const TAG_DIRECTORY: &str = "http-message-signatures-directory";
/// The label that the draft's examples give to a request's signature.
pub(crate) const LABEL_REQUEST: &str = "sig1";
/// The label that the draft's example gives to a directory's signature.
pub(crate) const LABEL_DIRECTORY: &str = "binding";

/// The draft, "Well-Known URIs".
pub const DIRECTORY_PATH: &str = "/.well-known/http-message-signatures-directory";
/// The draft, "Media Types".
pub const DIRECTORY_MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// The draft: "It is RECOMMENDED that `expires` be no more than 24 hours after `created`."
pub const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The public key of RFC 9421 appendix B.1.4, whose private key is public.
pub(crate) const TEST_KEY: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";
