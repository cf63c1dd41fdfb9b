//! A server of either version that answers as the URL says, and keeps what it was asked.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use abide_tests::{Authority, CODINGS};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Request line, fields and body of every request.
type Log = Arc<Mutex<Vec<[String; 3]>>>;

/// Ends when it is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    log: Log,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start(http2: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&log);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, http2, Arc::clone(&seen)));
            }
        });
        Self { address, log, task }
    }

    /// What was asked since the last call: the request line, the fields, the body. Without robots.txt, which
    /// plain reqwest does not ask for.
    pub(super) fn asked(&self) -> Vec<[String; 3]> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// In the clear or over TLS, as the first byte says. A tunnel is asked for in HTTP/1.1, whatever goes through
/// it.
async fn serve(stream: TcpStream, http2: bool, log: Log) {
    let mut first = [0];
    stream.peek(&mut first).await.unwrap();
    match first[0] {
        0x16 => {
            let mut config = ServerConfig::clone(ACCEPTOR.config());
            config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
            // A client may refuse the certificate.
            if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                speak(stream, http2, log).await;
            }
        }
        b'C' => tunnel(stream).await,
        _ => speak(stream, http2, log).await,
    }
}

/// Trusted by the clients, for `a.example`.
pub(super) static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);
static ACCEPTOR: LazyLock<TlsAcceptor> = LazyLock::new(|| AUTHORITY.acceptor("a.example"));

/// To this server itself, for those who have a password.
async fn tunnel(mut stream: TcpStream) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        stream.read_buf(&mut asked).await.unwrap();
    }
    let is_known = text(&asked).to_lowercase().contains("proxy-authorization: basic dxnlcjpzzwnyzxq=");
    let status = if is_known { "200 OK" } else { "407 Proxy Authentication Required" };
    stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
    if is_known {
        let mut own = TcpStream::connect(stream.local_addr().unwrap()).await.unwrap();
        // The client ends it.
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut own).await;
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, http2: bool, log: Log) {
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let log = Arc::clone(&log);
        async move { answer(request, &log).await }
    });
    // A client that leaves is no concern of this server.
    let _ = if http2 {
        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.auto_date_header(false).serve_connection(stream, service).await
    } else {
        let mut server = hyper::server::conn::http1::Builder::new();
        server.auto_date_header(false).serve_connection(stream, service).with_upgrades().await
    };
}

/// * `/302/rest` redirects to `/rest`, or to `rest` if that is a whole URL; `%23` stands for `#`.
/// * `/echo` sends the body back.
/// * `/upgrade` sends back what comes after the 101.
/// * `/never` does not answer, and `/close` closes the connection instead.
/// * Everything else is as its query says: [`scripted`].
async fn answer(mut request: Request<Incoming>, log: &Log) -> std::io::Result<Response<Script>> {
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    if path == "/robots.txt" {
        return Ok(Response::new(Script::text("User-agent: *\nDisallow: /secret\n")));
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    log.lock().unwrap().push(shown(&head, &body));
    let (first, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    if let Ok(status) = first.parse::<u16>() {
        let rest = rest.replace("%23", "#");
        let location = if rest.contains("://") { rest } else { format!("/{rest}") };
        return Ok(Response::builder()
            .status(status)
            .header("location", location)
            .body(Script::text("moved ".repeat(20_000)))
            .unwrap());
    }
    match first {
        "echo" => Ok(Response::new(Script::text(body))),
        "close" => Err(std::io::Error::other("closed")),
        "never" => std::future::pending().await,
        "upgrade" => {
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.expect("both sides have switched"));
                let (mut from, mut to) = tokio::io::split(&mut stream);
                // The client ends it.
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
            let switched =
                Response::builder().status(101).header("upgrade", "echo").header("connection", "upgrade");
            Ok(switched.body(Script::text("")).unwrap())
        }
        _ => Ok(scripted(head.uri.query().unwrap_or_default(), head.method == http::Method::HEAD)),
    }
}

/// Request line, fields in their order, and body. Which of the fields that a client adds itself comes first
/// means nothing. A boundary is chosen by chance: it is shown as `BOUNDARY`.
fn shown(head: &http::request::Parts, body: &[u8]) -> [String; 3] {
    let mut fields: Vec<_> =
        head.headers.iter().map(|(name, value)| format!("{name}: {}", text(value.as_bytes()))).collect();
    fields.sort_by_key(|field| ADDED.iter().position(|name| field.starts_with(name)));
    let uri = head.uri.to_string();
    let uri =
        if head.version == http::Version::HTTP_2 { uri.trim_start_matches("http://a.example") } else { &uri };
    let mut shown = [format!("{} {uri}", head.method), fields.join("; "), text(body)];
    let chosen = shown[1]
        .split_once("boundary=")
        .map(|(_, rest)| rest.split(';').next().unwrap_or_default().to_owned());
    if let Some(boundary) = chosen {
        shown = shown.map(|text| text.replace(&boundary, "BOUNDARY"));
    }
    shown
}

const ADDED: [&str; 4] = ["host:", "user-agent:", "accept:", "accept-encoding:"];

/// A short text, or else the length and a hash.
pub(super) fn text(bytes: &[u8]) -> String {
    if bytes.len() < 1_000 {
        return bytes.escape_ascii().to_string();
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{} bytes, {:x}", bytes.len(), hasher.finish())
}

/// A body: its frames, and how it ends.
pub(super) struct Script {
    frames: VecDeque<Frame<Bytes>>,
    has_length: bool,
    end: End,
}

enum End {
    Whole,
    /// Breaks off, when what went before has been sent.
    Cut(Pin<Box<tokio::time::Sleep>>),
    /// Never.
    Open,
}

/// An answer as the query says:
/// `status`, `reason`; `field=name:value`, several times; `type`, the media type;
/// `body`, text, or `hex`, bytes, `times`; `coding`; `frames`, the body again and again without a length;
/// `trailer=name:value`; `end=cut` or `end=open`.
fn scripted(query: &str, is_head: bool) -> Response<Script> {
    let mut response = Response::builder();
    let (mut body, mut trailers, mut frames, mut end) = (Vec::new(), None, 0, End::Whole);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        response = match &*key {
            "status" => response.status(value.parse::<u16>().unwrap()),
            "reason" => response.extension(ReasonPhrase::try_from(value.as_bytes()).unwrap()),
            "type" => response.header("content-type", &*value),
            "field" => {
                let (name, value) = value.split_once(':').unwrap();
                response.header(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap())
            }
            _ => response,
        };
        match &*key {
            "body" => body.extend(value.bytes()),
            "hex" => body.extend(
                (0..value.len() / 2).map(|at| u8::from_str_radix(&value[2 * at..2 * at + 2], 16).unwrap()),
            ),
            "times" => body = body.repeat(value.parse().unwrap()),
            "coding" => {
                body = coded(&value, &body);
                response = response.header("content-encoding", &*value);
            }
            "frames" => frames = value.parse().unwrap(),
            "trailer" => {
                let (name, value) = value.split_once(':').unwrap();
                let field =
                    (http::HeaderName::try_from(name).unwrap(), http::HeaderValue::try_from(value).unwrap());
                trailers = Some(http::HeaderMap::from_iter([field]));
                response = response.header("trailer", name);
            }
            "end" if value == "cut" => end = End::Cut(Box::pin(tokio::time::sleep(Duration::from_secs(2)))),
            "end" => end = End::Open,
            _ => {}
        }
    }
    let (length, has_length) = (body.len(), frames == 0 && matches!(end, End::Whole));
    let mut script = Script { has_length, end, ..Script::repeated(body, frames.max(1)) };
    script.frames.extend(trailers.map(Frame::trailers));
    if is_head {
        // In HTTP/2 hyper would send the body.
        script.frames.clear();
        script.has_length = false;
        if has_length {
            response = response.header("content-length", length);
        }
    }
    response.body(script).unwrap()
}

/// As it is, if the coding is not known.
fn coded(coding: &str, body: &[u8]) -> Vec<u8> {
    let encode = CODINGS.into_iter().find(|(name, _)| *name == coding);
    encode.map_or_else(|| body.to_vec(), |(_, encode)| encode(body))
}

impl Script {
    fn text(text: impl Into<Bytes>) -> Self {
        Self { has_length: true, ..Self::repeated(text, 1) }
    }

    /// One frame again and again, without a length.
    pub(super) fn repeated(frame: impl Into<Bytes>, times: usize) -> Self {
        let frame = frame.into();
        let frames = std::iter::repeat_with(|| Frame::data(frame.clone())).take(times).collect();
        Self { frames, has_length: false, end: End::Whole }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.end {
            End::Whole => Poll::Ready(None),
            End::Cut(sent) => sent.as_mut().poll(context).map(|()| Some(Err(std::io::Error::other("cut")))),
            End::Open => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && matches!(self.end, End::Whole)
    }

    fn size_hint(&self) -> SizeHint {
        match self.has_length {
            true => SizeHint::with_exact(
                self.frames.iter().filter_map(|frame| Some(frame.data_ref()?.len() as u64)).sum(),
            ),
            false => SizeHint::default(),
        }
    }
}
