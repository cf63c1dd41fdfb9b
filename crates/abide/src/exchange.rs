//! What goes over the wire, exchange by exchange: for archives (WARC), and for logs of everything that was
//! sent.
//!
//! A middleware sees no robots.txt, no tdmrep.json, and nothing of the client for HTTP/1.1; a decoded body is
//! not what the server sent. All of that passes here: [`ObserveExchanges`] is asked just before a request is
//! handed to reqwest, below permits, redirects and codings, and sees the response before anything is taken
//! off it.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Extensions;
use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use reqwest::{Request, Response};
use url::Url;

use crate::middleware::{CODINGS, with_url};

/// Sees every exchange of a crawler: [`Builder::exchanges`](crate::Builder::exchanges).
///
/// ```
/// use std::sync::Arc;
/// use abide::{Abide, Exchange, ExchangeEnd, ObserveExchanges};
///
/// struct Log;
/// struct One(reqwest::Url, usize);
///
/// impl ObserveExchanges for Log {
///     fn begin(&self, request: &reqwest::Request, _: &http::Extensions) -> Box<dyn Exchange> {
///         Box::new(One(request.url().clone(), 0))
///     }
/// }
///
/// impl Exchange for One {
///     fn answered(&mut self, response: &reqwest::Response) {
///         println!("{} {}", response.status(), self.0);
///     }
///
///     fn data(&mut self, bytes: &[u8]) {
///         self.1 += bytes.len();
///     }
///
///     fn ended(self: Box<Self>, end: ExchangeEnd<'_>) {
///         println!("{} bytes of {}: {end:?}", self.1, self.0);
///     }
/// }
///
/// let client = Abide::builder("ExampleBot").exchanges(Arc::new(Log)).build_client(reqwest::Client::builder())?;
/// # Ok::<(), abide::BuildError>(())
/// ```
pub trait ObserveExchanges: Send + Sync + 'static {
    /// A request is handed to the client now: robots.txt allows it, and it has its permit.
    ///
    /// `request` has no body. Its header fields are those that are sent, in their order, with those that the
    /// client of [`Builder::build_with`](crate::Builder::build_with) adds (`Accept`, `Accept-Encoding`,
    /// `Host`). Cookies of a jar and other `default_headers` of the client are not among them. `extensions`
    /// are those of the caller's request; a robots.txt or tdmrep.json has none.
    ///
    /// A request that goes out once more, because its kept connection was closed or the server wants
    /// HTTP/1.1, is another exchange.
    fn begin(&self, request: &Request, extensions: &Extensions) -> Box<dyn Exchange>;
}

/// One request and its response, as they pass. The request waits while a method runs, so each should return
/// soon.
pub trait Exchange: Send + Sync {
    /// The head of the response is here, with all header fields that the server sent.
    fn answered(&mut self, response: &Response);

    /// A part of the body: in its content coding, without its transfer coding.
    fn data(&mut self, bytes: &[u8]);

    /// Nothing more comes. Called once, last, and always.
    fn ended(self: Box<Self>, end: ExchangeEnd<'_>);
}

/// How an exchange ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeEnd<'a> {
    /// The body has ended. Without a length and a transfer coding this means that the connection was closed.
    Whole,
    /// The rest of the body was not read, or the call ended before there was a response.
    Dropped,
    /// There was no response, or its body broke off.
    Failed(&'a (dyn Error + 'static)),
}

/// An exchange that is under way; without an observer, nothing.
pub(crate) struct Watched(Option<Box<dyn Exchange>>);

impl Watched {
    /// `decodes`: the client asks for content codings.
    pub(crate) fn begin(
        observer: Option<&Arc<dyn ObserveExchanges>>,
        request: &Request,
        extensions: &Extensions,
        decodes: bool,
    ) -> Self {
        Self(observer.map(|observer| observer.begin(&as_sent(request, decodes), extensions)))
    }

    /// The response, whose body is seen as it is read.
    pub(crate) fn answered(mut self, response: Response) -> Response {
        let Some(mut exchange) = self.0.take() else { return response };
        exchange.answered(&response);
        let response = with_url(response.url().clone(), response);
        Response::from(response.map(|body| {
            let mut body = WatchedBody { body, exchange: Some(exchange) };
            // The answer to HEAD, and one of length zero, which may never be polled.
            body.end_if_over();
            reqwest::Body::wrap(body)
        }))
    }

    pub(crate) fn failed(mut self, error: &(dyn Error + 'static)) {
        end(&mut self.0, ExchangeEnd::Failed(error));
    }
}

/// Cancelled, or out of time.
impl Drop for Watched {
    fn drop(&mut self) {
        end(&mut self.0, ExchangeEnd::Dropped);
    }
}

fn end(exchange: &mut Option<Box<dyn Exchange>>, how: ExchangeEnd<'_>) {
    if let Some(exchange) = exchange.take() {
        exchange.ended(how);
    }
}

/// The head of the request with what reqwest and hyper add to it, in their order.
fn as_sent(request: &Request, decodes: bool) -> Request {
    let mut sent = Request::new(request.method().clone(), request.url().clone());
    *sent.version_mut() = request.version();
    let fields = sent.headers_mut();
    fields.clone_from(request.headers());
    fields.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    if decodes {
        fields.entry(ACCEPT_ENCODING).or_insert(CODINGS);
    }
    if let Some(host) = host(request.url()).filter(|_| !request.headers().contains_key(HOST)) {
        fields.insert(HOST, host);
    }
    sent
}

/// With its port, unless that is the scheme's own.
fn host(url: &Url) -> Option<HeaderValue> {
    let host = url.host_str()?;
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    HeaderValue::from_str(&host).ok()
}

/// The body of a response that is seen as it passes.
struct WatchedBody {
    body: reqwest::Body,
    exchange: Option<Box<dyn Exchange>>,
}

impl WatchedBody {
    /// By its length: no more need be asked for.
    fn is_over(&self) -> bool {
        self.body.is_end_stream() || self.body.size_hint().exact() == Some(0)
    }

    /// Before its permit ends with it, so that a reader of the exchanges has them in their order.
    fn end_if_over(&mut self) {
        if self.is_over() {
            end(&mut self.exchange, ExchangeEnd::Whole);
        }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(exchange), Some(data)) = (&mut self.exchange, frame.data_ref()) {
                    exchange.data(data);
                }
                self.end_if_over();
            }
            Poll::Ready(Some(Err(error))) => end(&mut self.exchange, ExchangeEnd::Failed(error)),
            Poll::Ready(None) => end(&mut self.exchange, ExchangeEnd::Whole),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    fn drop(&mut self) {
        end(&mut self.exchange, ExchangeEnd::Dropped);
    }
}
