//! What a site asks of those who use its content, taken when the page was fetched.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use abide::{Denied, DeniedKind, Preference, Question, ResponseExt, Usage};
use abide_tests::{Reply, Server};

use crate::{Built, client};

const ROBOTS: &str = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nContent-Usage: /free/ train-ai=y\n\
                      Content-Signal: search=yes, ai-input=no\nApp-Directives: examplesearch;widgets=?0\n";

#[tokio::test]
async fn preferences_come_from_robots_txt_the_fields_and_the_head() {
    let server = Server::start(|seen| match (seen.host(), seen.path.as_str()) {
        ("gone.example", "/robots.txt") => Reply::new(404, ROBOTS),
        (_, "/robots.txt") => Reply::new(200, ROBOTS),
        (_, "/free/no") => Reply::html("page").with("content-usage", "train-ai=n, search=y"),
        (_, "/tdm") => Reply::html("<head><meta name=tdm-reservation content=1></head>"),
        (_, "/away") => Reply::redirect(302, "http://gone.example/x"),
        _ => Reply::html("page"),
    })
    .await;
    let client = client(&server);
    let ask = async |path: &str, usage: Usage| {
        let page = client.get(format!("http://a.example{path}")).send().await.unwrap();
        page.fetch_info().unwrap().preferences().resolve(&usage)
    };
    assert_eq!(ask("/x", Usage::TrainAi).await, Preference::Disallow);
    assert_eq!(ask("/free/x", Usage::TrainAi).await, Preference::Allow, "the longer path");
    assert_eq!(ask("/free/no", Usage::TrainAi).await, Preference::Disallow, "the field, most restrictively");
    assert_eq!(ask("/x", Usage::AiInput).await, Preference::Disallow);
    assert_eq!(ask("/x", Usage::Search).await, Preference::Allow);
    assert_eq!(ask("/x", Usage::Tdm).await, Preference::Unset);
    assert_eq!(ask("/tdm", Usage::Tdm).await, Preference::Disallow);
    // After a redirect the final URL counts, under the robots.txt of its own origin; one that is unavailable
    // states nothing.
    assert_eq!(ask("/away", Usage::TrainAi).await, Preference::Unset);

    let page = client.get("http://a.example/x").send().await.unwrap();
    let directives = page.fetch_info().unwrap().app_directives().unwrap();
    assert_eq!(directives.get("examplesearch", "widgets").unwrap().as_bool(), Some(false));
}

#[tokio::test]
async fn a_policy_token_is_asked_of_the_copy_that_let_the_request_out() {
    let server = Server::with_rules(
        "Content-Signal: ai-input=no\nUser-agent: *\nAllow: /\n\nUser-agent: training\nDisallow: /poems",
        |_| Reply::html("page"),
    )
    .await;
    let builder = crate::builder(&server).policy_token("training", Usage::TrainAi, false);
    let (abide, inner) = builder.parts();
    let client = abide.wrap(inner);
    for (path, train) in [("/poems/1", Preference::Disallow), ("/prose", Preference::Unset)] {
        let page = client.get(format!("http://a.example{path}")).send().await.unwrap();
        let preferences = page.fetch_info().unwrap().preferences();
        assert_eq!(preferences.resolve(&Usage::TrainAi), train, "{path}");
        assert_eq!(preferences.resolve(&Usage::AiInput), Preference::Disallow, "outside groups");
    }
    assert_eq!(server.count("a.example/robots.txt"), 1);
}

#[tokio::test]
async fn licences_are_reported_and_unread_ones_are_unknown() {
    let server =
        Server::with_rules("License: https://a.example/all.xml\nUser-agent: *\nAllow: /", |seen| match seen
            .path
            .as_str()
        {
            "/sold" => Reply::with_headers(
                402,
                &[
                    ("content-type", "text/plain"),
                    ("www-authenticate", "License error=\"payment_required\""),
                    ("link", "</style.css>; rel=preload"),
                    ("link", "</sold.xml>; rel=\"license\"; type=\"application/rsl+xml\""),
                ],
                "",
            ),
            "/cut" => {
                Reply::html("page").with("content-encoding", "x-odd").with("content-usage", "train-ai=y")
            }
            _ => Reply::html("<link rel=license type='application/rsl+xml' href=/page.xml>page")
                .with("content-usage", "train-ai=y"),
        })
        .await;
    let client = client(&server);
    let get = async |path: &str| client.get(format!("http://a.example{path}")).send().await.unwrap();
    let urls = |info: &abide::FetchInfo| {
        info.licenses().into_iter().map(|(url, _)| url.into_string()).collect::<Vec<_>>()
    };

    let page = get("/page").await;
    let info = page.fetch_info().unwrap();
    assert_eq!(urls(info), ["https://a.example/all.xml", "/page.xml"]);
    assert_eq!(info.license_challenge(), None);
    assert_eq!(page.preferences().training().to_string(), "allow: Content-Usage, field 1");
    assert_eq!(page.permissions().answer(Question::Index).to_string(), "allow");

    let sold = get("/sold").await;
    let info = sold.fetch_info().unwrap();
    assert_eq!(urls(info), ["https://a.example/all.xml", "/sold.xml"]);
    let challenge = info.license_challenge().unwrap();
    assert_eq!(challenge, [("error".to_owned(), "payment_required".to_owned())]);

    let cut = get("/cut").await;
    assert_eq!(cut.preferences().training().preference(), Preference::Unknown, "the head was not read");
}

#[tokio::test]
async fn a_304_keeps_preferences_and_licences_and_adds_its_own() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |seen| match (seen.path.as_str(), seen.header("if-none-match")) {
        ("/robots.txt", _) if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reply::new(200, "User-agent: *\nContent-Usage: train-ai=n")
        }
        ("/robots.txt", _) => Reply::new(200, "User-agent: *\nContent-Usage: search=n"),
        (_, Some(_)) => Reply::with_headers(304, &[("etag", "\"1\"")], ""),
        _ => Reply::html("<link rel=license type='application/rsl+xml' href=/page.xml>page")
            .with("etag", "\"1\"")
            .with("link", "</next>; rel=next")
            .with("link", "</field.xml>; rel=license; type=application/rsl+xml"),
    })
    .await;
    let store = Arc::new(abide::MemoryPermissionStore::new(NonZeroUsize::new(10).unwrap()));
    let (abide, inner) = crate::builder(&server).permission_store(store).parts();
    let client = abide.wrap(inner);
    client.get("http://a.example/x").send().await.unwrap();
    abide.invalidate(&"http://a.example".parse().unwrap()).await;
    let again = client.get("http://a.example/x").header("if-none-match", "\"1\"").send().await.unwrap();
    assert_eq!(again.status(), 304);
    let preferences = again.fetch_info().unwrap().preferences();
    for usage in [Usage::TrainAi, Usage::Search] {
        assert_eq!(preferences.resolve(&usage), Preference::Disallow, "{usage}");
    }
    let licenses = again.fetch_info().unwrap().licenses();
    assert_eq!(licenses.iter().map(|(url, _)| &**url).collect::<Vec<_>>(), ["/field.xml", "/page.xml"]);
}

#[tokio::test]
async fn what_the_purpose_is_disallowed_for_is_not_requested() {
    let robots = "User-agent: *\nAllow: /\nContent-Usage: /closed ai=n\nContent-Usage: /vague train-ai=maybe\n\
                  Content-Usage: /open train-ai=y\nUser-agent: __usage_ai-training\nDisallow: /token\n";
    let server = Server::start(move |seen| match (seen.host(), seen.path.as_str()) {
        ("mined.example", "/robots.txt") => Reply::new(404, ""),
        ("mined.example", "/.well-known/tdmrep.json") => Reply::new(200, r#"{"tdm_reservation": 1}"#),
        (_, "/robots.txt") => Reply::new(200, robots),
        (_, "/.well-known/tdmrep.json") => Reply::new(404, ""),
        (_, "/open/field") => Reply::html("page").with("content-signals", "ai-train=false"),
        (_, "/open/meta") => Reply::html("<meta name=content-usage content='ai=n'>page"),
        (_, "/open/tag") => Reply::html("page").with("x-robots-tag", "noai"),
        (_, "/open/away") => Reply::redirect(302, "http://a.example/closed/2"),
        _ => Reply::html("page"),
    })
    .await;
    let (abide, inner) = crate::builder(&server).fetch_tdmrep().purpose(Usage::TrainAi).parts();
    let client = abide.wrap(inner);
    for (url, source) in [
        ("a.example/closed/1", "robots.txt line 3 (group *): Content-Usage /closed"),
        ("a.example/open/away", "robots.txt line 3 (group *): Content-Usage /closed"),
        ("a.example/token", "robots.txt line 7 (group __usage_ai-training): Disallow /token"),
        ("mined.example/p", "tdmrep.json entry 1"),
    ] {
        let error = client.get(format!("http://{url}")).send().await.unwrap_err();
        let denied = Denied::find(&error).unwrap();
        let DeniedKind::Purpose { usage, source: found } = denied.kind() else { panic!("{denied}") };
        assert_eq!((&**usage, &**found), ("train-ai", source));
        assert!(denied.to_string().contains(" is not requested"), "{denied}");
        assert!(
            denied.to_string().ends_with(&format!(": the site disallows train-ai ({source})")),
            "{denied}"
        );
        assert_eq!((denied.name(), denied.is_temporary()), ("purpose", false));
    }
    let asked = |path: &str| server.count(path);
    assert_eq!(
        ["a.example/closed/1", "a.example/closed/2", "a.example/token", "mined.example/p"].map(asked),
        [0; 4]
    );
    let check = abide.check(&"http://a.example/closed/1".parse().unwrap()).await.unwrap_err();
    assert_eq!(check.name(), "purpose");

    for (path, expected) in [
        ("/vague", "unknown"),
        ("/elsewhere", "unset"),
        ("/open", "yes"),
        ("/open/field", "no"),
        ("/open/meta", "no"),
        ("/open/tag", "no"),
    ] {
        let page = client.get(format!("http://a.example{path}")).send().await.unwrap();
        assert_eq!(page.allows_purpose().as_str(), expected, "{path}");
        assert_eq!(page.allows_purpose().unknown_because().is_empty(), expected != "unknown", "{path}");
    }
}

#[tokio::test]
async fn without_a_purpose_nothing_is_refused_for_it() {
    let server =
        Server::with_rules("User-agent: *\nContent-Usage: train-ai=n", |_| Reply::html("page")).await;
    let page = client(&server).get("http://a.example/p").send().await.unwrap();
    assert!(page.preferences().training().is_disallowed());
    let unknown = "unknown: no purpose is declared (Builder::purpose)";
    assert_eq!(page.allows_purpose().to_string(), unknown);
}
