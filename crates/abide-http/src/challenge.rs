//! What a crawler gives to a server that asks for something: a signature, a licence, a price.
//!
//! There is one hook. Each response is shown to it, and what it adds goes out with the same request once
//! more, checked and rate-limited like any other, and once in a call for each hook. Signing when asked is a
//! hook like those of the caller; licences and prices are hooks of `abide-identity`.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use url::Url;

use abide_gate::{SignRequest, caught};

use crate::call::ResponseHead;

/// Answers what servers ask for:
/// [`CrawlerBuilder::answer_challenges`](crate::CrawlerBuilder::answer_challenges).
///
/// ```
/// use abide_http::{ChallengeAnswer, AnswerChallenge, Challenge};
/// use http::{HeaderMap, HeaderValue, StatusCode};
///
/// /// Sends the name of a member to the one site that asks for it.
/// #[derive(Debug)]
/// struct Membership(HeaderValue);
///
/// impl AnswerChallenge for Membership {
///     fn answer(&self, challenge: &Challenge<'_>, request: &mut HeaderMap) -> ChallengeAnswer {
///         let is_asked = challenge.response.is_some_and(|head| head.status == StatusCode::UNAUTHORIZED);
///         if !is_asked || challenge.url.host_str() != Some("members.example") || challenge.url.scheme() != "https" {
///             return ChallengeAnswer::Nothing;
///         }
///         request.insert("authorization", self.0.clone());
///         ChallengeAnswer::Fields
///     }
/// }
/// ```
pub trait AnswerChallenge: fmt::Debug + Send + Sync {
    /// Adds fields to `request`, which is sent once more if this returns anything but
    /// [`ChallengeAnswer::Nothing`]. A panic is `Nothing`.
    ///
    /// Without a response the request is about to be sent for the first time: for what is offered before
    /// anybody asks.
    fn answer(&self, challenge: &Challenge<'_>, request: &mut HeaderMap) -> ChallengeAnswer;
}

/// What may be a challenge.
///
/// ```
/// fn is_priced(challenge: &abide_http::Challenge<'_>) -> bool {
///     challenge.response.is_some_and(|head| head.status == http::StatusCode::PAYMENT_REQUIRED)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Challenge<'r> {
    /// The URL of the request.
    pub url: &'r Url,
    /// The response to it. `None`: there is none yet.
    pub response: Option<ResponseHead<'r>>,
}

/// What is given to a server.
///
/// ```
/// let answer = abide_http::ChallengeAnswer::Offer(Box::new(|end| {
///     if let abide_http::RequestEnd::Answered(head) = end {
///         println!("bought: {}", head.status.is_success());
///     }
/// }));
/// ```
pub enum ChallengeAnswer {
    /// Nothing: the response is the caller's.
    Nothing,
    /// The fields that were added. Those of a redirect are dropped as it says: credentials stay within their
    /// origin.
    Fields,
    /// The fields that were added, and what learns how the request that has them ended. Such a request is
    /// never sent twice.
    Offer(Settle),
    /// A signature, made right before the request is sent, in place of that of all requests. It ends with a
    /// redirect.
    Signature(Arc<dyn SignRequest>),
}

/// Learns how a request ended.
pub type Settle = Box<dyn FnOnce(RequestEnd<'_>) + Send + Sync>;

impl fmt::Debug for ChallengeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Fields => "Fields",
            Self::Offer(_) => "Offer",
            Self::Signature(_) => "Signature",
        })
    }
}

/// How a request ended that offered something.
///
/// ```
/// use abide_http::RequestEnd;
///
/// fn may_have_been_charged(end: &RequestEnd<'_>) -> bool {
///     !matches!(end, RequestEnd::NotSent)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub enum RequestEnd<'r> {
    /// It was not sent.
    NotSent,
    /// It was sent, and its response did not come, or is not known.
    Unanswered,
    /// By this response.
    Answered(ResponseHead<'r>),
}

/// What one call has given, and gives with its next request.
#[derive(Default)]
pub(crate) struct Given {
    /// The hooks whose answers were sent: each once in a call.
    by: Vec<usize>,
    fields: HeaderMap,
    signer: Option<Arc<dyn SignRequest>>,
    /// The hook that has made the signer.
    signed_by: Option<usize>,
    offers: Vec<Settle>,
    /// Whether the request that makes the offers went out, so that only a response says what came of them.
    is_sent: bool,
}

impl Given {
    /// What is offered before anybody asks, unless an offer is made already.
    pub(crate) fn offer(&mut self, hooks: &[Arc<dyn AnswerChallenge>], url: &Url, headers: &mut HeaderMap) {
        if !self.offers.is_empty() {
            return;
        }
        let challenge = Challenge { url, response: None };
        for (at, hook) in hooks.iter().enumerate() {
            if let Some((fields, answer)) = ask(hook, &challenge) {
                headers.extend(fields);
                self.take(at, HeaderMap::new(), answer);
            }
        }
    }

    /// Whether a hook has an answer to the response, so that the request goes out once more.
    #[cold]
    pub(crate) fn answer(
        &mut self,
        hooks: &[Arc<dyn AnswerChallenge>],
        url: &Url,
        head: ResponseHead<'_>,
    ) -> bool {
        let challenge = Challenge { url, response: Some(head) };
        let mut unused = hooks.iter().enumerate().filter(|(at, _)| !self.by.contains(at));
        let answered = unused.find_map(|(at, hook)| Some((at, ask(hook, &challenge)?)));
        let Some((at, (fields, answer))) = answered else { return false };
        // What was signed before is signed as this response asks: the nonce may be another.
        let signer = self.signed_by.filter(|signed_by| *signed_by != at);
        self.by.push(at);
        self.take(at, fields, answer);
        if let Some(at) = signer
            && let Some((fields, answer)) = hooks.get(at).and_then(|hook| ask(hook, &challenge))
        {
            self.take(at, fields, answer);
        }
        true
    }

    fn take(&mut self, at: usize, fields: HeaderMap, answer: ChallengeAnswer) {
        self.fields.extend(fields);
        match answer {
            ChallengeAnswer::Nothing | ChallengeAnswer::Fields => {}
            ChallengeAnswer::Offer(settle) => self.offers.push(settle),
            ChallengeAnswer::Signature(signer) => (self.signer, self.signed_by) = (Some(signer), Some(at)),
        }
    }

    /// Adds the fields to those of the next request.
    pub(crate) fn add_to(&mut self, headers: &mut HeaderMap) {
        headers.extend(std::mem::take(&mut self.fields));
    }

    /// What signs the next request in place of what signs all.
    pub(crate) fn signer(&self) -> Option<&Arc<dyn SignRequest>> {
        self.signer.as_ref()
    }

    /// A redirect is another request.
    pub(crate) fn forget_signer(&mut self) {
        self.signer = None;
    }

    /// Whether the request offers something, so that it must not be sent twice.
    pub(crate) fn is_offer(&self) -> bool {
        !self.offers.is_empty()
    }

    /// The request goes out.
    pub(crate) fn sent(&mut self) {
        self.is_sent = true;
    }

    /// The request that made the offers has ended.
    pub(crate) fn settle(&mut self, end: RequestEnd<'_>) {
        self.is_sent = false;
        for settle in self.offers.drain(..) {
            caught(|| settle(end));
        }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.settle(if self.is_sent { RequestEnd::Unanswered } else { RequestEnd::NotSent });
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the fields, which may be secret.
        f.debug_struct("Given").field("by", &self.by).finish_non_exhaustive()
    }
}

/// What a hook answers, and the fields that it adds.
fn ask(hook: &Arc<dyn AnswerChallenge>, challenge: &Challenge<'_>) -> Option<(HeaderMap, ChallengeAnswer)> {
    let mut fields = HeaderMap::new();
    match caught(|| hook.answer(challenge, &mut fields))? {
        ChallengeAnswer::Nothing => None,
        answer => Some((fields, answer)),
    }
}

/// A signature, for a server that asks for one.
#[derive(Debug)]
pub(crate) struct SignWhenAsked(pub(crate) Arc<dyn SignRequest>);

impl AnswerChallenge for SignWhenAsked {
    fn answer(&self, challenge: &Challenge<'_>, _: &mut HeaderMap) -> ChallengeAnswer {
        let Some(head) = challenge.response else { return ChallengeAnswer::Nothing };
        self.0.asked(head.status, head.headers).map_or(ChallengeAnswer::Nothing, ChallengeAnswer::Signature)
    }
}
