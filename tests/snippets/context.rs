//! What a page may name without defining it: the values at hand in a crawler, and the functions that are the reader's own.

#![allow(clippy::unwrap_used, reason = "a page that fails is a test that fails")]

use abide::Abide;
use reqwest_middleware::ClientWithMiddleware;
use url::Url;

/// The values that a page takes for granted.
pub(crate) struct Given {
    pub(crate) abide: Abide,
    pub(crate) client: ClientWithMiddleware,
    pub(crate) gate: abide_gate::Gate,
    pub(crate) page: reqwest::Response,
    pub(crate) url: Url,
}

/// Runs what a page shows.
pub(crate) fn run<F: Future<Output = Result<(), Box<dyn std::error::Error>>>>(
    shown: impl FnOnce(Given) -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (abide, inner) = Abide::builder("ExampleBot").build_with(reqwest::Client::builder()).unwrap();
        let given = Given {
            client: abide.clone().wrap(inner),
            gate: abide.gate_handle().clone(),
            abide,
            page: http::Response::new("<p>A page</p>").into(),
            url: "https://example.org/a".parse().unwrap(),
        };
        shown(given).await.unwrap();
    });
}

/// What a program shows has run to its end.
pub(crate) fn succeeds(outcome: impl std::process::Termination) {
    assert_eq!(outcome.report(), std::process::ExitCode::SUCCESS);
}

/// Where a page keeps what it has read.
pub(crate) fn index(_text: &str, _snippet_max: Option<i64>) {}

/// Where a page puts a link that it wants to follow.
pub(crate) fn queue(_link: &str) {}

/// A client that follows no redirects.
pub(crate) async fn my_get(url: &Url) -> Result<http::Response<Vec<u8>>, std::io::Error> {
    Err(std::io::Error::other(format!("{url} is not fetched here")))
}
