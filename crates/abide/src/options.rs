//! Options on a request of `reqwest-middleware`.

use abide_http::Options;

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
}
