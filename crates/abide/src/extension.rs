//! What abide adds to requests and responses of reqwest: options, fetch info, permissions.
//!
//! reqwest has no room for a middleware's settings and findings but the extensions of requests and responses;
//! these traits give them names.

use abide_http::{FetchInfo, Options};
use abide_permissions::{Answer, Permissions, Preferences};

/// Reads what abide attached to a response.
///
/// ```
/// use abide::ResponseExt;
///
/// fn describe(page: &reqwest::Response) -> Option<String> {
///     let info = page.fetch_info()?;
///     let may_index = page.permissions().may_index();
///     Some(format!("{} hops, waited {:?}, may be indexed: {may_index}", info.hops().len(), info.waited()))
/// }
/// ```
pub trait ResponseExt: sealed::Sealed {
    /// Hops, verdicts, waits and permissions; `None` if the response did not come through abide.
    fn fetch_info(&self) -> Option<&FetchInfo>;

    /// What the site permits you to do with the page. Unknown if the response did not come through abide.
    fn permissions(&self) -> Permissions {
        self.fetch_info().map(FetchInfo::permissions).unwrap_or_default()
    }

    /// What the site says about uses of the page, such as training. Unknown if the response did not come
    /// through abide.
    fn preferences(&self) -> Preferences {
        let unread = || Preferences::default().with_unread_source("the response did not come through abide");
        self.fetch_info().map_or_else(unread, FetchInfo::preferences)
    }

    /// Whether the page may be used for what [`Builder::purpose`](crate::Builder::purpose) declares: yes, no,
    /// unset or unknown. Unknown if nothing is declared, or the response did not come through abide.
    fn allows_purpose(&self) -> Answer {
        let unread = || self.preferences().training();
        self.fetch_info().map_or_else(unread, FetchInfo::allows_purpose)
    }
}

impl ResponseExt for reqwest::Response {
    fn fetch_info(&self) -> Option<&FetchInfo> {
        FetchInfo::of(self.extensions())
    }
}

impl<B> ResponseExt for http::Response<B> {
    fn fetch_info(&self) -> Option<&FetchInfo> {
        FetchInfo::of(self.extensions())
    }
}

/// Sets abide's options on a request of `reqwest-middleware`.
///
/// ```
/// use std::time::Duration;
///
/// use abide::{Options, RequestBuilderExt};
/// use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
///
/// fn patient(client: &ClientWithMiddleware, url: &str) -> RequestBuilder {
///     client.get(url).abide(Options::new().with_max_wait(Duration::from_secs(300)))
/// }
/// ```
pub trait RequestBuilderExt: sealed::Sealed {
    /// Sets options of this request. Options that are not set keep their value from an earlier call, or from
    /// `ClientBuilder::with_init(Extension(options))`, which is for all requests of a client.
    ///
    /// `with_init` does not apply to `ClientWithMiddleware::execute` or the client as a service: pass options
    /// to `execute_with_extensions` instead.
    #[must_use]
    fn abide(self, options: Options) -> Self;
}

impl RequestBuilderExt for reqwest_middleware::RequestBuilder {
    fn abide(mut self, options: Options) -> Self {
        let set = self.extensions().get::<Options>().cloned().unwrap_or_default();
        self.with_extension(options.or(set))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
    impl Sealed for reqwest::Response {}
    impl<B> Sealed for http::Response<B> {}
}
