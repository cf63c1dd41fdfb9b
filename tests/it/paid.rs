//! Prices: a 402 is a typed answer, and nothing is paid without a policy.

use std::time::Duration;

use abide::ResponseExt;
use abide::identity::{PaymentPolicy, PaymentTerms, Price};
use abide_tests::{Authority, Reply, Server};

use crate::layered::{follow, layered};
use crate::{builder, secure, status, trusting};

fn price(text: &str) -> Price {
    text.parse().unwrap()
}

/// Every page costs a cent but `/dear`, which costs a dollar.
async fn shop() -> (Authority, Server) {
    secure("a.example", |seen| {
        let cost = if seen.path == "/dear" { "USD 1.00" } else { "USD 0.01" };
        match (seen.path.as_str(), seen.header("crawler-exact-price")) {
            ("/robots.txt", _) => Reply::new(200, ""),
            ("/moved", Some(paid)) if paid == cost => Reply::redirect(302, "/page"),
            (_, Some(paid)) if paid == cost => Reply::with_headers(200, &[("crawler-charged", paid)], "page"),
            _ => Reply::with_headers(402, &[("crawler-price", cost)], "pay"),
        }
    })
    .await
}

#[tokio::test]
async fn without_a_policy_a_402_is_an_answer_and_nothing_is_paid() {
    let (authority, server) = shop().await;
    let client = builder(&server).build_client(trusting(&authority)).unwrap();
    for _ in 0..2 {
        let page = client.get("https://a.example/page").send().await.unwrap();
        assert_eq!(page.status(), 402);
        let terms = PaymentTerms::of(page.status(), page.headers()).unwrap();
        assert_eq!(terms.price(), Some(price("USD 0.01")));
    }
    let log = server.log();
    assert_eq!(log.len(), 3, "never repeated, and the host is not backed off");
    assert!(log.iter().all(|seen| !seen.headers.iter().any(|(name, _)| name.starts_with("crawler-"))));
}

#[tokio::test]
async fn a_policy_pays_within_its_caps_and_says_what_it_paid() {
    let (authority, server) = shop().await;
    let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 0.02"));
    let client =
        builder(&server).answer_challenges(policy.clone()).build_client(trusting(&authority)).unwrap();
    let page = client.get("https://a.example/page").send().await.unwrap();
    assert_eq!(page.status(), 200);
    let info = page.fetch_info().unwrap();
    let terms = PaymentTerms::of(page.status(), page.headers()).unwrap();
    assert_eq!(terms.charged(), Some(price("USD 0.01")));
    assert_eq!(info.hops().iter().map(|hop| hop.status().as_u16()).collect::<Vec<_>>(), [402, 200]);
    let dear = client.get("https://a.example/dear").send().await.unwrap();
    assert_eq!(dear.status(), 402, "above the cap for a page");
    assert_eq!(policy.spent(), price("USD 0.01"));
    let moved = client.get("https://a.example/moved").send().await.unwrap();
    assert_eq!(
        moved.status(),
        402,
        "an offer goes with its own request alone, and one call accepts one price"
    );
    assert_eq!(policy.spent(), price("USD 0.01"), "a redirect is not charged");
    client.get("https://a.example/page").send().await.unwrap();
    let page = client.get("https://a.example/page").send().await.unwrap();
    assert_eq!(page.status(), 402, "above the cap for the run");
    assert_eq!((policy.spent(), policy.spent_on("a.example")), (price("USD 0.02"), price("USD 0.02")));
}

#[tokio::test]
async fn up_front_the_maximum_goes_with_every_page_and_nothing_else() {
    for by_layer in [false, true] {
        let (authority, server) = secure("a.example", |seen| match seen.path.as_str() {
            "/robots.txt" => Reply::new(200, ""),
            "/free" => Reply::new(200, "page"),
            _ if seen.header("crawler-max-price").is_some() => {
                Reply::with_headers(200, &[("crawler-charged", "USD 0.02")], "page")
            }
            _ => Reply::with_headers(402, &[("crawler-price", "USD 0.02")], "pay"),
        })
        .await;
        let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 0.10")).with_upfront_offer();
        for path in ["/free", "/page"] {
            let url = format!("https://a.example{path}");
            let status = if by_layer {
                let layer =
                    layered(&server, &authority, Duration::ZERO, |b| b.answer_challenges(policy.clone()));
                follow(layer, &url).await
            } else {
                let client =
                    builder(&server).answer_challenges(policy.clone()).build_client(trusting(&authority));
                status(&client.unwrap(), &url).await
            };
            assert_eq!(status, 200);
        }
        assert_eq!(policy.spent(), price("USD 0.02"), "what was charged, not what was offered");
        for seen in server.log() {
            let offered = seen.header("crawler-max-price");
            assert_eq!(offered.is_some(), seen.path != "/robots.txt", "{}", seen.what());
            assert_eq!(seen.header("crawler-exact-price"), None, "never both");
        }
    }
}

#[tokio::test]
async fn the_layer_accepts_a_price_too() {
    let (authority, server) = shop().await;
    let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 0.02"));
    let layer =
        layered(&server, &authority, Duration::ZERO, |builder| builder.answer_challenges(policy.clone()));
    assert_eq!(follow(layer.clone(), "https://a.example/page").await, 200);
    assert_eq!(follow(layer, "https://a.example/dear").await, 402, "above the cap for a page");
    assert_eq!((policy.spent(), server.log().len()), (price("USD 0.01"), 4));
}
