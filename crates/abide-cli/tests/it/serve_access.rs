//! `serve`: who may call, and what is wrong with a call.

use std::time::Duration;

use serde_json::json;

use crate::serve::{Serving, site, url};
use crate::{abide, file};

#[tokio::test]
async fn no_browser_gets_in() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let check =
        || serve.client.post(format!("{}/v1/check", serve.base)).body(r#"{"url": "http://a.example/"}"#);
    let json = "application/json";
    for (request, status, code) in [
        (check().header("content-type", json).header("origin", "http://evil.example"), 403, "browser"),
        (check().header("content-type", json).header("host", "evil.example"), 403, "foreign_host"),
        (check().header("content-type", "text/plain"), 415, "not_json"),
        (serve.client.get(format!("{}/healthz", serve.base)).header("origin", "null"), 403, "browser"),
        (serve.client.request(http::Method::OPTIONS, format!("{}/v1/check", serve.base)), 405, "method"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{code}");
        let fields = response.headers().clone();
        assert!(!fields.keys().any(|name| name.as_str().starts_with("access-control")), "{fields:?}");
        let error: serde_json::Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(error["code"], code, "{error}");
    }
    assert!(site.asked().is_empty(), "none of them had an effect");
}

#[tokio::test]
async fn other_machines_need_the_token() {
    let site = site().await;
    for (args, parts) in [
        ("serve --listen 0.0.0.0:0", &["--listen 0.0.0.0:0", "--token-file"][..]),
        ("serve --listen [::]:0", &["--token-file"]),
        ("serve --listen localhost:80", &["--listen", "ADDRESS:PORT"]),
        ("serve --listen unix:", &["--listen", "a path"]),
        ("serve --listen 192.0.2.1:0 --token-file /nonexistent", &["/nonexistent"]),
        ("serve --waiting-max 0", &["--waiting-max"]),
        ("serve --agent A --agent a,B", &["--agent", "different first tokens"]),
    ] {
        abide(args).is_wrong_usage(parts);
    }
    let short = file("secret\n");
    abide(format!("serve --listen 0.0.0.0:0 --token-file {short}"))
        .is_wrong_usage(&["--token-file", "at least 16"]);

    let token = file("0123456789abcdef\n");
    let serve = Serving::start(&site, &format!("--listen 0.0.0.0:0 --token-file {token}"));
    let (_, port) = serve.base.rsplit_once(':').unwrap();
    let ask = async |value: Option<&str>| {
        let mut request = serve.client.get(format!("http://127.0.0.1:{port}/healthz"));
        if let Some(value) = value {
            request = request.header("authorization", value);
        }
        request.send().await.unwrap()
    };
    assert_eq!(ask(Some("Bearer 0123456789abcdef")).await.status(), 200);
    for wrong in [None, Some("Bearer 0123456789abcdeF"), Some("Basic 0123456789abcdef")] {
        let refused = ask(wrong).await;
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let long = format!(r#"{{"url": "http://a.example/{}"}}"#, "x".repeat(40_000));
    let huge = format!(r#"{{"url": "http://a.example/{}"}}"#, "x".repeat(70_000));
    for (path, call, status, code, part) in [
        ("/v1/check", "", 400, "bad_request", "a JSON object"),
        ("/v1/check", "[]", 400, "bad_request", "a JSON object"),
        ("/v1/check", "{", 400, "bad_request", "EOF"),
        ("/v1/check", "{}", 400, "bad_request", "missing field `url`"),
        ("/v1/check", r#"{"url": 1}"#, 400, "bad_request", "string"),
        ("/v1/check", r#"{"url": "a.example/x"}"#, 400, "bad_request", "absolute URL"),
        ("/v1/check", r#"{"url": "ftp://a.example/"}"#, 400, "bad_request", "http or https"),
        (
            "/v1/check",
            r#"{"url": "http://a.example/", "max_wait_ms": 1}"#,
            400,
            "bad_request",
            "unknown field",
        ),
        ("/v1/check", &long, 400, "bad_request", "at most 32768 bytes"),
        ("/v1/check", &huge, 413, "too_large", "at most 65536 bytes"),
        ("/v1/acquire", r#"{"url": "http://a.example/", "ttl_ms": 0}"#, 400, "bad_request", "1 to 3600000"),
        (
            "/v1/acquire",
            r#"{"url": "http://a.example/", "ttl_ms": 3600001}"#,
            400,
            "bad_request",
            "1 to 3600000",
        ),
        ("/v1/acquire", r#"{"url": "http://a.example/", "max_wait_ms": -1}"#, 400, "bad_request", "integer"),
        ("/v1/finish", r#"{"permit": "0-0"}"#, 400, "bad_request", "exactly one"),
        (
            "/v1/finish",
            r#"{"permit": "0-0", "status": 200, "unsent": true}"#,
            400,
            "bad_request",
            "exactly one",
        ),
        ("/v1/finish", r#"{"permit": "0-0", "unsent": false}"#, 400, "bad_request", "exactly one"),
        ("/v1/finish", r#"{"permit": "0-0", "headers": []}"#, 400, "bad_request", "the status"),
        ("/v1/finish", r#"{"permit": "0-0", "status": 100}"#, 400, "bad_request", "200 to 999"),
        ("/v1/finish", r#"{"permit": "0-0", "failed": "odd"}"#, 400, "bad_request", "`connect`"),
        ("/v1/finish", r#"{"permit": "0-0", "status": 200}"#, 404, "unknown_permit", "ended"),
        ("/v1/extend", r#"{"permit": "0-0", "ttl_ms": 1}"#, 404, "unknown_permit", "ended"),
        ("/v1/permissions", r#"{"headers": []}"#, 400, "bad_request", "missing field `status`"),
        (
            "/v1/permissions",
            r#"{"status": 200, "headers": [], "html": "", "html_base64": ""}"#,
            400,
            "bad_request",
            "found both",
        ),
        ("/v1/else", "{}", 404, "not_found", "/v1/else"),
        ("/v1/hosts", "{}", 405, "method", "GET"),
    ] {
        let (found, error) = serve.try_post(path, call.to_owned()).await;
        assert_eq!((found, &error["code"]), (status, &json!(code)), "{path} {call:.80}: {error}");
        assert!(error["error"].as_str().unwrap().contains(part), "{path} {call:.80}: {error}");
        assert_eq!(crate::keys(&error), "code error");
    }
    for (host, status, code) in
        [("never.example", 404, "unknown_host"), ("a.example:8080", 400, "bad_request")]
    {
        let response = serve.client.get(format!("{}/v1/hosts/{host}", serve.base)).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.text().await.unwrap().contains(code));
    }
    assert!(site.asked().is_empty(), "nothing was requested for a wrong call");
}

#[tokio::test]
async fn no_more_calls_wait_than_allowed() {
    let site = site().await;
    let serve = Serving::start(&site, "--waiting-max 1");
    let url = url(&site, "a.example/x");
    let permit = serve.permit(&url).await;
    let (waited, ()) = tokio::join!(serve.permit(&url), async {
        serve.until("a.example", "waiting", json!(1)).await;
        let request = serve.client.post(format!("{}/v1/acquire", serve.base));
        let request =
            request.header("content-type", "application/json").body(json!({ "url": url }).to_string());
        let busy = request.send().await.unwrap();
        assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (429, &"1".parse().unwrap()));
        assert!(busy.text().await.unwrap().contains("--waiting-max"));
        // Those that do not wait are served.
        serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
    });
    serve.post("/v1/finish", json!({ "permit": waited, "status": 200 })).await;
}

#[tokio::test]
async fn max_wait_caps_what_a_call_may_wait() {
    let site = site().await;
    let serve = Serving::start(&site, "--delay 20s --max-wait 100ms");
    let url = url(&site, "127.0.0.1/robots.txt");
    let permit = serve.permit(&url).await;
    serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
    let call = json!({ "url": url, "max_wait_ms": 3_600_000 });
    let answer = tokio::time::timeout(Duration::from_secs(15), serve.post("/v1/acquire", call)).await;
    assert_eq!(answer.expect("it does not wait")["outcome"], "deferred");
}
