//! `serve`: checks and permits over HTTP, as a client sees them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use abide_tests::{Reply, Server};
use serde_json::{Value, json};

use crate::{command, has, keys, to, words};

/// An `abide serve` of a test's own. It is killed when it is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    /// `http://127.0.0.1:PORT`
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
}

impl Serving {
    /// One whose names lead to `site`, on a free port unless `args` say where to listen.
    pub(crate) fn start(site: &Server, args: &str) -> Self {
        let mut args = format!("serve --json -q {args}");
        if !words(&args).iter().any(|word| word == "--listen") {
            args.push_str(" --listen 127.0.0.1:0");
        }
        let mut child = command(to(site, args)).spawn().expect("the binary runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            let _ = child.kill();
            panic!("{line}: {:?}", child.wait_with_output())
        };
        let listening = said["listening"].as_str().expect("it says where").to_owned();
        let client = reqwest::Client::builder().no_proxy();
        let (client, base) = match listening.strip_prefix("unix:") {
            Some(path) => (client.unix_socket(Path::new(path)), "http://localhost".to_owned()),
            None => (client, listening),
        };
        Self { child, base, client: client.build().expect("a client can be built") }
    }

    pub(crate) async fn post(&self, path: &str, call: Value) -> Value {
        let (status, answer) = self.try_post(path, call.to_string()).await;
        assert_eq!(status, 200, "{path} {call}: {answer}");
        answer
    }

    /// The status, and the answer.
    pub(crate) async fn try_post(&self, path: &str, call: impl Into<reqwest::Body>) -> (u16, Value) {
        let request =
            self.client.post(format!("{}{path}", self.base)).header("content-type", "application/json");
        let response = request.body(call).send().await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        let response = self.client.get(format!("{}{path}", self.base)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path).await).unwrap()
    }

    /// The name of a permit for `url`.
    pub(crate) async fn permit(&self, url: &str) -> String {
        let granted = self.post("/v1/acquire", json!({ "url": url })).await;
        assert_eq!(granted["outcome"], "granted", "{granted}");
        granted["permit"].as_str().unwrap().to_owned()
    }

    /// Waits until the report of a host has this value.
    pub(crate) async fn until(&self, host: &str, key: &str, value: Value) {
        let begun = Instant::now();
        loop {
            let report = self.get(&format!("/v1/hosts/{host}")).await;
            if report[key] == value {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{key} is never {value}: {report}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        abide_tests::signal(&self.child, signal);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) const RULES: &str = "User-agent: *\nDisallow: /private/\n";

pub(crate) async fn site() -> Server {
    Server::with_rules(RULES, |_| Reply::new(200, "")).await
}

/// A URL of a site, by its port.
pub(crate) fn url(site: &Server, host_and_path: &str) -> String {
    let (host, path) = host_and_path.split_once('/').expect("a path");
    format!("http://{host}:{}/{path}", site.address().port())
}

const VERDICT: &str = "allowed rule group crawl_delay sitemaps source robots_url final_url robots_status age_s \
    retry_at why";

#[tokio::test]
async fn a_url_is_checked_and_its_permit_is_finished() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let checked = serve.post("/v1/check", json!({ "url": url(&site, "a.example/private/x") })).await;
    has(&checked, json!({ "outcome": "denied", "allowed": false, "source": "fresh" }));
    let by_command = crate::online(&site, "check --json a.example/private/x").await.line();
    assert_eq!(keys(&checked), keys(&by_command), "the object of abide check --json");

    let denied = serve.post("/v1/acquire", json!({ "url": url(&site, "a.example/private/x") })).await;
    assert_eq!((keys(&denied).as_str(), &denied["outcome"]), ("outcome why verdict", &json!("denied")));
    assert_eq!(denied["verdict"]["rule"]["line"], 2, "{denied}");

    let granted = serve.post("/v1/acquire", json!({ "url": url(&site, "a.example/x") })).await;
    assert_eq!(keys(&granted), "outcome permit expires_at waited_ms verdict");
    assert_eq!(keys(&granted["verdict"]), VERDICT);
    let busy = serve.get("/v1/hosts/a.example").await;
    has(&busy, json!({ "host": "a.example", "in_flight": 1, "waiting": 0, "backed_off_until": null }));
    assert_eq!(busy["robots"][0]["source"], "fresh", "{busy}");

    let end =
        json!({ "permit": granted["permit"], "status": 200, "headers": [["Content-Type", "text/html"]] });
    let finished = serve.post("/v1/finish", end.clone()).await;
    assert_eq!(keys(&finished), "next_slot");
    let (status, again) = serve.try_post("/v1/finish", end.to_string()).await;
    assert_eq!((status, &again["code"]), (404, &json!("unknown_permit")), "a permit is for one request");
    assert_eq!(serve.get("/v1/hosts").await["hosts"][0]["in_flight"], 0);
    assert_eq!(
        site.asked(),
        ["a.example/robots.txt", "a.example/robots.txt"],
        "the pages are the client's to request"
    );

    assert_eq!(serve.get("/healthz").await["status"], "ok");
    let metrics = serve.text("/metrics").await;
    for line in [
        "abide_serve_permits_total{end=\"answered\"} 1",
        "abide_refusals_total{refusal=\"disallowed\",at=\"request\"} 1",
        "abide_hosts 1",
        "abide_wait_seconds_count",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn the_delay_counts_from_the_finish() {
    let site = site().await;
    let serve = Serving::start(&site, "--delay 400ms");
    let url = url(&site, "a.example/x");
    let permit = serve.permit(&url).await;
    // The next one waits in the queue for the end of this one, however long it takes.
    let (next, finished) = tokio::join!(serve.permit(&url), async {
        serve.until("a.example", "waiting", json!(1)).await;
        let finishing = Instant::now();
        serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
        finishing
    });
    assert!(finished.elapsed() >= Duration::from_millis(400), "{:?}", finished.elapsed());

    // What was not sent owes no delay.
    let unsent = serve.post("/v1/finish", json!({ "permit": next, "unsent": true })).await;
    assert!(unsent["next_slot"].is_string());
    let granted = serve.post("/v1/acquire", json!({ "url": url, "max_wait_ms": 0 })).await;
    assert_eq!(granted["outcome"], "granted", "{granted}");
}

#[tokio::test]
async fn a_permit_that_nobody_finishes_ends_at_its_ttl() {
    let site = site().await;
    let serve = Serving::start(&site, "--delay 300ms");
    let url = url(&site, "a.example/x");
    let asked = Instant::now();
    let lost = serve.post("/v1/acquire", json!({ "url": url, "ttl_ms": 500 })).await;
    let next = serve.permit(&url).await;
    assert!(asked.elapsed() >= Duration::from_millis(800), "the ttl, and the delay: {:?}", asked.elapsed());
    let (status, _) =
        serve.try_post("/v1/finish", json!({ "permit": lost["permit"], "status": 200 }).to_string()).await;
    assert_eq!(status, 404);
    assert!(serve.text("/metrics").await.contains("abide_serve_permits_total{end=\"expired\"} 1"));

    // A long body: the ttl is extended, and never cut.
    let long = serve.post("/v1/extend", json!({ "permit": next, "ttl_ms": 3_600_000 })).await;
    let short = serve.post("/v1/extend", json!({ "permit": next, "ttl_ms": 1 })).await;
    let second = |answer: &Value| answer["expires_at"].as_str().unwrap()[..17].to_owned();
    assert_eq!(second(&long)[..13], second(&short)[..13], "{long} {short}");
    serve.post("/v1/finish", json!({ "permit": next, "failed": "timeout" })).await;
}

#[tokio::test]
async fn what_a_response_asks_for_holds_for_every_client() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let url = url(&site, "a.example/x");
    let permit = serve.permit(&url).await;
    // What is no field of HTTP is left out, and does not hide the rest.
    let headers = json!([["X-Bad\n", "x"], ["Retry-After", "3000"], ["Set-Cookie", "ä\u{0}"]]);
    let finished =
        serve.post("/v1/finish", json!({ "permit": permit, "status": 429, "headers": headers })).await;
    assert_eq!(keys(&finished), "backed_off_until next_slot");
    let deferred = serve.post("/v1/acquire", json!({ "url": url })).await;
    assert_eq!(
        (keys(&deferred).as_str(), &deferred["outcome"]),
        ("outcome why retry_at verdict", &json!("deferred"))
    );
    assert!(!serve.get("/v1/hosts/a.example").await["backed_off_until"].is_null());

    let other = self::url(&site, "b.example/x");
    let permit = serve.permit(&other).await;
    let challenge = json!({ "permit": permit, "status": 403, "headers": [["cf-mitigated", "challenge"]] });
    let finished = serve.post("/v1/finish", challenge).await;
    assert_eq!(finished["refusal"]["by"], "Cloudflare", "{finished}");

    let unreachable = Server::start(|_| Reply::new(503, "")).await;
    let denied = serve.post("/v1/acquire", json!({ "url": self::url(&unreachable, "127.0.0.1/x") })).await;
    assert_eq!((&denied["outcome"], denied["retry_at"].is_string()), (&json!("denied"), true), "{denied}");
    let refused = serve.post("/v1/acquire", json!({ "url": "http://10.0.0.1/" })).await;
    assert_eq!(refused["outcome"], "refused", "{refused}");
}

#[tokio::test]
async fn crawlers_have_rules_of_their_own_and_one_pace() {
    let rules = "User-agent: Slow\nCrawl-delay: 1\nDisallow: /fast/\n\nUser-agent: Fast\nDisallow: /slow/\n";
    let site = Server::with_rules(rules, |_| Reply::new(200, "")).await;
    let serve = Serving::start(&site, "--agent Fast,Other --agent Slow");
    let acquire = async |agent: &str, path: &str| {
        let url = url(&site, &format!("a.example/{path}/x"));
        serve.post("/v1/acquire", json!({ "url": url, "agent": agent })).await
    };
    assert_eq!(acquire("slow", "fast").await["outcome"], "denied");
    assert_eq!(acquire("Fast", "slow").await["outcome"], "denied");
    let fast = acquire("Fast", "fast").await["permit"].clone();
    // It waits for the other crawler's request, and then as long as its own rules ask.
    let (slow, finished) = tokio::join!(acquire("Slow", "slow"), async {
        serve.until("a.example", "waiting", json!(1)).await;
        let finishing = Instant::now();
        serve.post("/v1/finish", json!({ "permit": fast, "status": 200 })).await;
        finishing
    });
    assert!(finished.elapsed() >= Duration::from_secs(1), "{:?}", finished.elapsed());
    assert_eq!(slow["verdict"]["crawl_delay"], 1.0, "{slow}");
    let (status, error) =
        serve.try_post("/v1/check", r#"{"url": "http://a.example/", "agent": "Else"}"#).await;
    assert_eq!((status, &error["code"]), (400, &json!("unknown_agent")));
    assert!(error["error"].as_str().unwrap().contains("Fast, Slow"), "{error}");
}

#[tokio::test]
async fn a_response_is_read_for_permissions() {
    let rules = "User-agent: *\nContent-Signal: ai-train=no\n";
    let site = Server::with_rules(rules, |_| Reply::new(200, "")).await;
    let serve = Serving::start(&site, "");
    let (page, html) = (url(&site, "a.example/x"), "<meta name=robots content=nosnippet><p>x");
    let fields = json!([["Content-Type", "text/html"], ["X-Robots-Tag", "noindex"]]);
    let call = json!({ "url": page, "status": 200, "headers": fields, "html": html });
    let unread = serve.post("/v1/permissions", call.clone()).await;
    let question = json!({ "agent": "ExampleBot", "headers": fields, "html": html }).to_string();
    let by_command = crate::abide_with("tags --batch", question).line();
    assert_eq!(keys(&unread), keys(&by_command), "the object of abide tags --batch");
    assert_eq!(unread["rules"], by_command["rules"]);
    assert_eq!(unread["answers"]["train"], "unknown", "its robots.txt is not in memory: {unread}");
    serve.permit(&page).await;
    assert_eq!(serve.post("/v1/permissions", call).await["answers"]["train"], "no");

    // What was not sent, an error, a part and a challenge never permit anything.
    for (status, headers, html) in [
        (200, json!([["Content-Type", "text/html"]]), Value::Null),
        (404, json!([["Content-Type", "text/html"]]), json!("<p>x")),
        (206, json!([["Content-Type", "text/html"]]), json!("<p>x")),
        (403, json!([["cf-mitigated", "challenge"]]), json!("<p>x")),
    ] {
        let call = json!({ "url": page, "status": status, "headers": headers, "html": html });
        let answers = serve.post("/v1/permissions", call).await["answers"].clone();
        assert_eq!(answers["index"], "unknown", "{status}: {answers}");
        assert_ne!(answers["train"], "unset", "{status}: {answers}");
    }
    let image = json!({ "status": 200, "headers": [["Content-Type", "image/png"]] });
    assert_eq!(
        serve.post("/v1/permissions", image).await["answers"]["index"],
        "yes",
        "there is no head to read"
    );
}

#[tokio::test]
async fn the_interface_describes_itself() {
    let site = site().await;
    let serve = Serving::start(&site, "");
    let document = serve.get("/v1/openapi.json").await;
    assert_eq!(keys(&document), "openapi info paths components security");
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 10);
    for (path, call) in paths {
        let is_post = call.get("post").is_some();
        let (method, path) = (if is_post { "POST" } else { "GET" }, path.replace("{host}", "a.example"));
        let request = match is_post {
            true => {
                serve.client.post(format!("{}{path}", serve.base)).header("content-type", "application/json")
            }
            false => serve.client.get(format!("{}{path}", serve.base)),
        };
        let text = request.body("{}").send().await.unwrap().text().await.unwrap();
        assert!(!text.contains("\"not_found\"") && !text.contains("\"method\""), "{method} {path}: {text}");
    }
    // Every reference leads somewhere.
    let text = document.to_string();
    let references: Vec<&str> = text.split("\"#/components/schemas/").skip(1).collect();
    assert!(references.len() > 10);
    for reference in references {
        let (name, _) = reference.split_once('"').unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    let finish = &document["components"]["schemas"]["FinishCall"];
    assert_eq!(finish["additionalProperties"], false, "unknown fields are refused");
}

/// Two servers that share a store pace a host as one.
#[cfg(feature = "redis")]
#[tokio::test]
async fn two_servers_on_one_redis_keep_the_delay() {
    let Some(redis) = abide_tests::Redis::start() else { return };
    let site = site().await;
    let args = format!("--delay 300ms --store {}", redis.url());
    let servers = [Serving::start(&site, &args), Serving::start(&site, &args)];
    let url = url(&site, "a.example/x");
    let crawl = async |serve: &Serving| {
        let mut held = Vec::new();
        for _ in 0..5 {
            let permit = serve.permit(&url).await;
            let granted = Instant::now();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let finishing = Instant::now();
            serve.post("/v1/finish", json!({ "permit": permit, "status": 200 })).await;
            held.push((granted, finishing));
        }
        held
    };
    let (mut one, other) = tokio::join!(crawl(&servers[0]), crawl(&servers[1]));
    one.extend(other);
    one.sort();
    for pair in one.windows(2) {
        let delay = pair[1].0.saturating_duration_since(pair[0].1);
        assert!(delay >= Duration::from_millis(300), "{delay:?}");
    }
    assert_eq!(site.asked(), ["a.example/robots.txt"], "and share its robots.txt");
}

/// As `kill -9` with a permit: the other clients of the host wait for its ttl, and no longer.
pub(crate) fn kill(child: &mut Child) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    child.wait().unwrap();
}
