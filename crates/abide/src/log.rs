//! What is said in `tracing` (feature `tracing`) when a crawler is built. The names are listed in `docs/observability.md`.

pub(crate) fn seems_to_follow() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.follows_redirects", target: "abide::build",
        "the inner client seems to follow redirects by itself: build it with redirect::Policy::none()"
    );
}

pub(crate) fn host_for_all() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.host_for_all", target: "abide::build",
        "the inner client seems to send one Host to every site: leave it out of default_headers"
    );
}

pub(crate) fn names_past_the_guard() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.names_past_the_guard", target: "abide::build",
        "names given to ClientBuilder::resolve go past the address guard: give them to abide's Builder::resolve"
    );
}

pub(crate) fn proxy_resolves() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        name: "abide.build.proxy", target: "abide::build",
        "a proxy or a unix socket is set: it resolves names itself, so resolved addresses are not guarded"
    );
}
