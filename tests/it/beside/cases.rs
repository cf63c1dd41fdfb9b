//! The cases: a line each.

use std::collections::BTreeMap;
use std::time::Duration;

use abide::RedirectPolicy;
use http::{Method, Version};
use http_body_util::BodyDataStream;
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Proxy, RequestBuilder, redirect};

use super::Case;
use super::Read::{self, Bytes, Chunks, ErrorForStatus, Frames, Json, Stream, Text, TextAs, Unread, Upgrade};
use super::server::Script;

/// GET of a path, or of a whole URL.
fn get(behaviour: &'static str, read: Read, to: impl Into<String>) -> Case {
    request(behaviour, read, Method::GET, to, |request| request)
}

fn request(
    behaviour: &'static str,
    read: Read,
    method: Method,
    to: impl Into<String>,
    change: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync + 'static,
) -> Case {
    let url = at(&to.into());
    Case::new(behaviour, read, move |client| change(client.request(method.clone(), &url)))
}

fn post(
    behaviour: &'static str,
    to: &'static str,
    change: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync + 'static,
) -> Case {
    request(behaviour, Text, Method::POST, to, change)
}

fn at(to: &str) -> String {
    if to.starts_with('/') { format!("http://a.example{to}") } else { to.to_owned() }
}

/// Frames whose length is not known.
fn stream(frames: usize) -> Body {
    Body::wrap_stream(BodyDataStream::new(Script::repeated("frame ", frames)))
}

/// Longer than it takes a request to reach a server on loopback, whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(10);

const HTML: &str = "/page?type=text/html&body=<head><title>x</title></head><body><p>text";

#[rustfmt::skip] // A line each.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        get("text", Text, "/page?body=hello"),
        get("text", Text, "/page"),
        get("text", Text, HTML),
        get("text", Text, format!("{HTML}&frames=1")),
        get("text", Text, format!("{HTML}&times=5000")),
        get("charset", Text, "/page?type=text/plain;charset=iso-8859-1&hex=e9"),
        get("charset", Text, "/page?type=text/html;charset=utf-16le&hex=68006900"),
        get("charset", Text, "/page?type=text/html;charset=utf-8&hex=68ff69"),
        get("charset", Text, "/page?type=text/plain;charset=nonsense&hex=e9"),
        get("charset", Text, "/page?type=text/plain;charset=iso-8859-1&hex=efbbbfc3a9"),
        get("charset", TextAs("windows-1251"), "/page?type=text/plain&hex=e9"),
        get("charset", TextAs("windows-1251"), "/page?type=text/html;charset=koi8-r&hex=c9"),
        get("json", Json, "/page?type=application/json&body={\"a\":[1,2]}"),
        get("json", Json, "/page?body={\"a\":[1,2]}&frames=1"),
        get("json", Json, "/page?type=application/json&body={\"a\":[1,"),
        get("json", Json, "/page?type=application/json"),
        post("json", "/echo", |ask| ask.json(&BTreeMap::from([("a", [1, 2])]))),
        get("bytes", Bytes, "/page?hex=00ff7f"),
        get("bytes", Bytes, "/page?type=image/png&body=0123456789&times=100000"),
        get("bytes", Bytes, "/page?body=0123456789&times=1000&frames=20"),
        get("bytes", Unread, "/page?body=0123456789&times=100000"),
        get("chunk", Chunks, "/page?body=hello"),
        get("chunk", Chunks, "/page"),
        get("chunk", Chunks, format!("{HTML}&times=50&frames=50")),
        get("chunk", Chunks, "/page?body=0123456789&frames=100"),
        get("bytes_stream", Stream, "/page?body=hello"),
        get("bytes_stream", Stream, "/page"),
        get("bytes_stream", Stream, format!("{HTML}&times=50&frames=50")),
        get("bytes_stream", Stream, format!("{HTML}&times=20000")),
        request("trailers", Frames, Method::GET, "/page?body=hello&frames=3&trailer=x-sum:42", |ask| ask.header("te", "trailers")),
        request("trailers", Frames, Method::GET, format!("{HTML}&frames=3&trailer=x-sum:42"), |ask| ask.header("te", "trailers")),
        get("trailers", Frames, "/page?body=hello&frames=3&trailer=x-sum:42"),
        get("trailers", Text, "/page?body=hello&frames=3&trailer=x-sum:42"),
        get("codings", Text, format!("{HTML}&coding=gzip")),
        get("codings", Text, "/page?body=hello&coding=gzip"),
        get("codings", Text, "/page?body=hello&coding=br"),
        get("codings", Text, "/page?body=hello&coding=zstd"),
        get("codings", Text, "/page?body=hello&coding=deflate"),
        get("codings", Chunks, "/page?body=0123456789&times=100000&coding=gzip"),
        get("codings", Text, "/page?body=hello&coding=x-own"),
        get("codings", Text, "/page?body=hello&coding=identity"),
        get("codings", Text, "/page?body=hello&field=content-encoding:gzip").differs("read", "decode http://a.example/page?body=hello&field=content-encoding:gzip <- Invalid gzip header", "decode http://a.example/page?body=hello&field=content-encoding:gzip <- the coded stream is corrupt"),
        get("codings", Text, "/page?body=hello&field=content-encoding:deflate&field=content-encoding:gzip").differs("fields", "", "content-encoding: deflate; content-encoding: gzip; content-length: 5").differs("length", "None", "Some(5)").differs("read", "decode http://a.example/page?body=hello&field=content-encoding:deflate&field=content-encoding:gzip <- deflate decompression error", "hello"),
        get("codings", Text, "/page?body=hello&field=content-encoding:deflate,gzip"),
        get("codings", Bytes, "/page?body=hello&coding=gzip&times=2").differs("read", "hello", "hellohello"),
        get("codings", Text, "/page?status=204&field=content-encoding:gzip").http1(),
        get("codings", Text, "/page?status=204&field=content-encoding:gzip").http2().differs("read", "decode http://a.example/page?status=204&field=content-encoding:gzip <- unexpected end of file", ""),
        get("codings", Text, "/page?field=content-encoding:gzip").http1(),
        get("codings", Text, "/page?field=content-encoding:gzip").http2().differs("read", "decode http://a.example/page?field=content-encoding:gzip <- unexpected end of file", ""),
        request("codings", Text, Method::HEAD, "/page?body=hello&coding=gzip", |ask| ask),
        request("codings", Text, Method::GET, "/page?body=hello&coding=gzip", |ask| ask.header("accept-encoding", "gzip")),
        request("codings", Text, Method::GET, "/page?body=hello&coding=gzip", |ask| ask.header("range", "bytes=0-")).differs("fields 0", "accept-encoding: zstd,gzip,deflate,br", "accept-encoding: identity"),
        get("codings", Bytes, "/page?body=hello&coding=gzip").with(|inner, _| inner.no_gzip().no_brotli().no_deflate().no_zstd()).with_abide(|abide| abide.decode(false)),
        request("HEAD", Text, Method::HEAD, "/page?body=hello", |ask| ask),
        request("HEAD", Bytes, Method::HEAD, "/page?status=404&body=gone", |ask| ask),
        request("HEAD", Chunks, Method::HEAD, HTML, |ask| ask),
        request("HEAD", Text, Method::HEAD, "/page?body=hello&frames=2", |ask| ask),
        request("methods", Text, Method::OPTIONS, "/echo", |ask| ask),
        request("methods", Text, Method::DELETE, "/echo", |ask| ask),
        request("methods", Text, Method::TRACE, "/echo", |ask| ask),
        request("methods", Text, Method::from_bytes(b"PROPFIND").unwrap(), "/echo", |ask| ask.body("x")),
        get("fields", Text, "/page?field=set-cookie:a%3D1&field=set-cookie:b%3D2&field=x:1&field=x:2"),
        get("fields", Text, "/page?field=x-text:%C3%A9"),
        get("fields", Text, format!("/page?{}", "field=x-many:value&".repeat(60))),
        get("fields", Text, format!("/page?field=x-long:{}", "v".repeat(8_000))),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("x-b", "1").header("x-a", "2").header("x-b", "3").header("accept", "text/html")),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("user-agent", "ExampleBot/2.0")),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("user-agent", "ExampleBot/2.0").header("user-agent", "Other/1.0")).refused("200 OK", "denied: identity", "GET /page"),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("host", "a.example")),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("host", "b.example")).refused("200 OK", "denied: foreign_host", "GET /page"),
        request("fields", Text, Method::GET, "/page", |ask| ask.header("connection", "close")),
        get("fields", Text, "/302/http://b.example/page").with(|inner, _| inner.default_headers([("x-own".parse().unwrap(), "1".parse().unwrap())].into_iter().collect())),
        get("fields", Text, "/page?reason=As%20It%20Is").http1(),
        post("uploads", "/echo", |ask| ask.body("text")),
        post("uploads", "/echo", |ask| ask.body("")),
        post("uploads", "/echo", |ask| ask),
        post("uploads", "/echo", |ask| ask.body(vec![7; 1_000_000])),
        post("uploads", "/echo", |ask| ask.body(stream(3))),
        post("uploads", "/echo", |ask| ask.body(stream(500))),
        post("uploads", "/echo", |ask| ask.body(Body::wrap(http_body_util::Full::new(bytes::Bytes::from("sized"))))),
        post("uploads", "/echo", |ask| ask.header("content-type", "text/csv").header("content-length", "3").body("a,b")),
        request("uploads", Text, Method::PUT, "/echo", |ask| ask.body("text")),
        request("uploads", Text, Method::PATCH, "/echo", |ask| ask.body("text")),
        request("uploads", Text, Method::GET, "/echo", |ask| ask.body("text")),
        post("form and query", "/echo", |ask| ask.form(&[("a", "1 2"), ("b", "é")])),
        post("form and query", "/echo?c=3", |ask| ask.query(&[("a", "1 2"), ("b", "é")])),
        post("multipart", "/page", |ask| ask.multipart(Form::new().text("a", "1").text("b", "é"))),
        post("multipart", "/page", |ask| ask.multipart(Form::new().part("f", Part::bytes(b"GIF89a".as_slice()).file_name("x.gif").mime_str("image/gif").unwrap()))),
        post("multipart", "/page", |ask| ask.multipart(Form::new().part("f", Part::stream(stream(100))))),
        post("multipart", "/page", |ask| ask.multipart(Form::new().part("f", Part::stream_with_length(stream(100), 600)))),
        post("multipart", "/307/page", |ask| ask.multipart(Form::new().text("a", "1"))),
        request("basic auth", Text, Method::GET, "/page", |ask| ask.basic_auth("user", Some("secret"))),
        request("basic auth", Text, Method::GET, "/page", |ask| ask.basic_auth("user", None::<&str>)),
        request("basic auth", Text, Method::GET, "/page", |ask| ask.bearer_auth("token")),
        get("basic auth", Text, "http://user:secret@a.example/page"),
        get("basic auth", Text, "http://us%40er:@a.example/page#fragment").differs("url", "http://a.example/page", "http://a.example/page#fragment"),
        get("cookies", Text, "/page?field=set-cookie:a%3D1").twice().with(|inner, _| inner.cookie_store(true)),
        get("cookies", Text, "/page?field=set-cookie:a%3D1;Path%3D/other").twice().with(|inner, _| inner.cookie_store(true)),
        get("cookies", Text, "/page?field=set-cookie:a%3D1;Domain%3Db.example").twice().with(|inner, _| inner.cookie_store(true)),
        get("cookies", Text, "/page?field=set-cookie:a%3D1;Max-Age%3D0").twice().with(|inner, _| inner.cookie_store(true)),
        get("cookies", Text, "/page?field=set-cookie:a%3D1").twice(),
        get("cookies", Text, "/page?status=302&field=set-cookie:a%3D1&field=location:/page").with(|inner, _| inner.cookie_store(true)),
        get("cookies", Text, "/page?status=302&field=set-cookie:a%3D1&field=location:http://b.example/302/http://a.example/page").with(|inner, _| inner.cookie_store(true)),
        request("cookies", Text, Method::GET, "/page?field=set-cookie:a%3D1", |ask| ask.header("cookie", "own=1")).twice().with(|inner, _| inner.cookie_store(true)),
        request("cookies", Text, Method::GET, "/302/page", |ask| ask.header("cookie", "own=1")),
        get("error_for_status", ErrorForStatus, "/page?body=hello"),
        get("error_for_status", ErrorForStatus, "/page?status=404&body=gone"),
        get("error_for_status", ErrorForStatus, "/page?status=503&field=retry-after:1"),
        get("error_for_status", ErrorForStatus, "/page?status=404&reason=Gone%20Away").http1(),

        get("limit of redirects", Text, format!("{}/page", "/302".repeat(10))),
        get("limit of redirects", Text, format!("{}/page", "/302".repeat(11))).differs("outcome", "redirect http://a.example/302/page <- too many redirects", "denied: too_many_redirects"),
        get("limit of redirects", Text, format!("{}/page", "/302".repeat(3))).with(|inner, _| inner.redirect(redirect::Policy::limited(2))).with_abide(|abide| abide.redirects(RedirectPolicy::default().with_hops_max(2))).differs("outcome", "redirect http://a.example/302/page <- too many redirects", "denied: too_many_redirects"),
        get("redirects switched off", Text, "/302/page").with(|inner, _| inner.redirect(redirect::Policy::none())).with_abide(|abide| abide.redirects(RedirectPolicy::never())),
        request("redirects and bodies", Text, Method::POST, "/307/echo", |ask| ask.body(stream(3))),
        request("redirects and bodies", Text, Method::POST, "/303/echo", |ask| ask.body(stream(3))),
        request("redirects and bodies", Text, Method::PUT, "/302/echo", |ask| ask.body(stream(3))),
        request("redirects and bodies", Text, Method::POST, "/307/308/echo", |ask| ask.body(vec![7; 1_000_000])),
        request("redirects and bodies", Text, Method::POST, "/303/307/echo", |ask| ask.header("content-type", "text/csv").body("a,b")),
        request("redirects and bodies", Text, Method::POST, "/303/echo", |ask| ask.header("content-type", "text/csv").header("content-language", "en").body("a,b")).differs("fields 1", "content-language: en", ""),
        request("redirects and bodies", Text, Method::POST, "/307/echo", |ask| ask.header("content-type", "text/csv").header("content-language", "en").body("a,b")),
        request("redirects and credentials", Text, Method::GET, "/302/page", |ask| ask.basic_auth("user", Some("secret")).header("x-own", "kept")),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/page", |ask| ask.basic_auth("user", Some("secret")).header("x-own", "kept")),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/302/page", |ask| ask.basic_auth("user", Some("secret"))).differs("fields 2", "authorization: Basic dXNlcjpzZWNyZXQ=", ""),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/302/http://a.example/page", |ask| ask.bearer_auth("token")),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/302/http://a.example/302/page", |ask| ask.bearer_auth("token")).differs("fields 3", "authorization: Bearer token", ""),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/page", |ask| ask.header("cookie", "own=1").header("proxy-authorization", "x").header("www-authenticate", "y")),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/page", |ask| ask.header("host", "a.example")).http1().differs("fields 1", "host: a.example", "host: b.example"),
        request("redirects and credentials", Text, Method::GET, "/302/http://b.example/page", |ask| ask.header("host", "a.example")).http2().differs("fields 1", "host: a.example", ""),
        get("redirects and credentials", Text, "/302/http://user:secret@b.example/page").http1().differs("url", "http://user:secret@b.example/page", "http://b.example/page"),
        get("redirects and credentials", Text, "/302/http://user:secret@b.example/page").http2().differs("url", "http://user:secret@b.example/page", "http://b.example/page").differs("requests", "GET http://user:secret@b.example/page", "GET http://b.example/page"),
        get("redirects and credentials", Text, "http://user:secret@a.example/302/page"),
        get("Location", Text, "/a/../page?status=302&field=location:b"),
        get("Location", Text, "/x/page?status=302&field=location:../page"),
        get("Location", Text, "/page?status=302&field=location:?body%3Dquery"),
        get("Location", Text, "/page?status=302&field=location://b.example/page"),
        get("Location", Text, "/page?status=302&field=location:HTTP://B.EXAMPLE:80/page"),
        get("Location", Text, "/page?status=302&field=location:/a%20b"),
        get("Location", Text, "/page?status=302&field=location:/%C3%A9"),
        get("Location", Text, "/page?status=302&field=location:%20/page"),
        get("Location", Text, "/page?status=302"),
        get("Location", Text, "/page?status=302&field=location:").refused("redirect http://a.example/page?status=302&field=location: <- too many redirects", "302 Found", &["GET /page?status=302&field=location:"; 10].join("; ")),
        get("Location", Text, "/page?status=302&field=location:http://"),
        get("Location", Text, "/page?status=302&field=location:ftp://a.example/").refused("builder ftp://a.example/ <- URL scheme is not allowed", "302 Found", ""),
        get("Location", Text, "/page?status=302&field=location:mailto:a").refused("builder mailto:a <- URL scheme is not allowed", "302 Found", ""),
        get("Location", Text, "/page?status=302&field=location:/page&field=location:/other").refused("200 OK", "302 Found", "GET /page").differs("fields", "", "location: /page; location: /other").differs("url", "http://a.example/page", "http://a.example/page?status=302&field=location:/page&field=location:/other"),
        get("Location", Text, "/page?status=300&field=location:/page"),
        get("Location", Text, "/page?status=304&field=location:/page"),
        get("Location", Text, "/page?status=201&field=location:/page"),
        get("url with fragment", Text, "/page#fragment").differs("url", "http://a.example/page", "http://a.example/page#fragment"),
        get("url with fragment", Text, "/302/page#fragment").differs("url", "http://a.example/page", "http://a.example/page#fragment"),
        get("url with fragment", Text, "/302/page%23other").differs("url", "http://a.example/page", "http://a.example/page#other"),
        get("url with fragment", Text, "/302/page%23other#fragment").differs("url", "http://a.example/page", "http://a.example/page#other"),
        get("url", Text, "http://a.example"),
        get("url", Text, "http://A.Example:80/a/../page?q=%41 b&é"),
        get("url", Text, "http://bücher.example/page"),
        get("url", Text, format!("/page?{}", "long".repeat(2_000))),
        get("Referer", Text, "/302/page").with(|inner, _| inner.referer(true)).differs("fields 1", "referer: http://a.example/302/page", ""),
        get("Referer", Text, "/302/302/page?q#fragment").with(|inner, _| inner.referer(true)).with_abide(|abide| abide.redirects(RedirectPolicy::default().with_referer(true))).differs("url", "http://a.example/page?q", "http://a.example/page?q#fragment"),
        request("Referer", Text, Method::GET, "/302/page", |ask| ask.header("referer", "http://own.example/")).differs("fields 1", "referer: http://own.example/", ""),
        request("Referer", Text, Method::GET, "/page", |ask| ask.header("referer", "http://own.example/")),
        request("timeouts", Text, Method::GET, "/never", |ask| ask.timeout(LIMIT)),
        request("timeouts", Text, Method::GET, "/page?body=hello&end=open", |ask| ask.timeout(LIMIT)),
        request("timeouts", Chunks, Method::GET, format!("{HTML}&end=open"), |ask| ask.timeout(LIMIT)),
        get("timeouts", Text, "/never").with(|inner, _| inner.timeout(LIMIT)),
        get("timeouts", Text, "/302/never").with(|inner, _| inner.timeout(LIMIT)).differs("outcome", "timeout request http://a.example/302/never <- operation timed out", "timeout request http://a.example/never <- operation timed out"),
        get("timeouts", Text, "/never").with(|inner, _| inner.read_timeout(LIMIT)),
        get("timeouts", Stream, "/page?body=hello&end=open").with(|inner, _| inner.read_timeout(LIMIT)),
        get("errors", Text, "http://a.example:1/robots.txt"),
        get("errors", Text, "http://a.example:1/page").refused("request connect http://a.example:1/page <- client error (Connect) <- tcp connect error <- Connection refused (os error 111)", "denied: unreachable", ""),
        get("errors", Text, "/302/http://a.example:1/robots.txt").differs("outcome", "request connect http://a.example/302/http://a.example:1/robots.txt <- client error (Connect) <- tcp connect error <- Connection refused (os error 111)", "request connect http://a.example:1/robots.txt <- client error (Connect) <- tcp connect error <- Connection refused (os error 111)"),
        get("errors", Text, "/close").http1().differs("requests", "", "GET /close"),
        get("errors", Text, "/close").http2(),
        get("errors", Text, "/page?body=hello&end=cut"),
        get("errors", Chunks, format!("{HTML}&end=cut")),
        get("errors", Stream, "/page?body=hello&frames=3&end=cut"),
        get("errors", Text, "/page?body=hello&field=content-length:500&end=cut"),
        get("errors", Text, format!("{HTML}&field=content-length:500&end=cut")),
        get("errors", Json, "/page?body=hello&coding=gzip&end=cut"),
        get("errors", Text, "ftp://a.example/page").refused("builder ftp://a.example/page <- URL scheme is not allowed", "denied: unsupported_url", ""),
        get("errors", Text, "/page").with(|inner, _| inner.https_only(true)).refused("builder http://a.example/page <- URL scheme is not allowed", "denied: unreachable", ""),
        get("errors", Upgrade, "/page?body=hello"),
        request("upgrade", Upgrade, Method::GET, "/upgrade", |ask| ask.header("connection", "upgrade").header("upgrade", "echo")).http1(),
        get("proxies", Text, "/page").with(|inner, address| inner.proxy(Proxy::all(format!("http://{address}")).unwrap())),
        get("proxies", Text, "/302/http://b.example/page").with(|inner, address| inner.proxy(Proxy::http(format!("http://{address}")).unwrap())),
        get("proxies", Text, "/page").with(|inner, address| inner.proxy(Proxy::http(format!("http://user:secret@{address}")).unwrap())),
        get("proxies", Text, "/page").with(|inner, address| inner.proxy(Proxy::custom(move |url| (url.host_str() == Some("b.example")).then(|| format!("http://{address}"))))),
        get("proxies", Text, "https://a.example/page").with(|inner, address| inner.proxy(Proxy::all(format!("http://user:secret@{address}")).unwrap())),
        get("proxies", Text, "https://a.example/robots.txt").with(|inner, address| inner.proxy(Proxy::all(format!("http://{address}")).unwrap())),
        get("TLS", Text, "https://a.example/page?body=hello").with(|inner, _| inner.tls_info(true)),
        get("TLS", Chunks, format!("https://a.example/{}", &HTML[1..])).with(|inner, _| inner.tls_info(true)),
        request("TLS", Text, Method::POST, "https://a.example/307/echo", |ask| ask.body("text")).with(|inner, _| inner.https_only(true)),
        get("TLS", Text, "https://a.example/302/http://a.example/robots.txt").with(|inner, _| inner.https_only(true)).differs("outcome", "redirect http://a.example/robots.txt <- URL scheme is not allowed", "builder http://a.example/robots.txt <- URL scheme is not allowed"),
        get("TLS", Text, "https://b.example/robots.txt"),
        request("TLS", Text, Method::GET, "https://a.example/302/http://a.example/page", |ask| ask.bearer_auth("token")),
        get("Referer", Text, "https://a.example/302/http://a.example/302/page").with(|inner, _| inner.referer(true)).with_abide(|abide| abide.redirects(RedirectPolicy::default().with_referer(true))),
        get("version", Text, "/page").with(|inner, _| inner.http1_only()).http1(),
        request("version", Text, Method::GET, "/page", |ask| ask.version(Version::HTTP_10)),
        request("version", Text, Method::GET, "/page", |ask| ask.version(Version::HTTP_2)),
        get("robots.txt", Text, "/secret").refused("200 OK", "denied: disallowed", "GET /secret"),
        get("robots.txt", Text, "/302/secret").refused("200 OK", "denied: disallowed", "GET /secret"),
    ];
    for status in [200, 201, 202, 203, 204, 205, 206, 300, 304, 305, 399, 400, 401, 403, 404, 410, 418, 429, 451, 500, 502, 503, 599] {
        cases.push(get("statuses", Bytes, format!("/page?status={status}&body=hello")));
    }
    for status in [301, 302, 303, 307, 308] {
        for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
            cases.push(request("301-308", Text, method, format!("/{status}/echo"), |ask| ask));
        }
        for method in [Method::POST, Method::PUT, Method::PATCH] {
            cases.push(request("301-308", Text, method, format!("/{status}/echo"), |ask| ask.body("text")));
        }
    }
    cases
}
