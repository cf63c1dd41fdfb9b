//! What abide adds to requests and responses of reqwest: options, fetch info, permissions.

use abide_http::{FetchInfo, Options};
use abide_permissions::{Permissions, Preferences};

/// What abide found out, on a response.
pub trait ResponseExt: sealed::Sealed {
    /// The way to this response; `None` if it did not come through abide.
    fn fetch_info(&self) -> Option<&FetchInfo>;

    /// What the site permits you to do with it. Without abide in the client, permissions that state nothing and say so.
    fn permissions(&self) -> Permissions {
        self.fetch_info().map(FetchInfo::permissions).unwrap_or_default()
    }

    /// What the site asks of those who use it, as it was when it was fetched. Without abide in the client, preferences that state nothing
    /// and say so.
    fn preferences(&self) -> Preferences {
        let unread = || Preferences::default().with_unread_sources();
        self.fetch_info().map_or_else(unread, FetchInfo::preferences)
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

/// abide's options on a request of `reqwest-middleware`.
pub trait RequestBuilderExt: sealed::Sealed {
    /// Sets options of this request. What they leave open stays as it was: as set by an earlier call, or for all requests of the
    /// client, with `ClientBuilder::with_init(Extension(options))`.
    ///
    /// No `with_init` runs for a request that goes through `ClientWithMiddleware::execute`, or through the client as a service: such
    /// a request has the defaults, or what `execute_with_extensions` gives it.
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
