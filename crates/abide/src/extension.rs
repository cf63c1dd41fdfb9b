//! What abide learnt, on a response.

use abide_http::Visit;
use abide_permissions::Permissions;

/// What abide learnt, on a response.
pub trait ResponseExt: sealed::Sealed {
    /// The way to this response; `None` if it did not come through abide.
    fn visit(&self) -> Option<&Visit>;

    /// What the site permits you to do with it. Without abide in the client, permissions that state nothing and say so.
    fn permissions(&self) -> Permissions {
        self.visit().map(Visit::permissions).unwrap_or_default()
    }
}

impl ResponseExt for reqwest::Response {
    fn visit(&self) -> Option<&Visit> {
        Visit::of(self.extensions())
    }
}

impl<B> ResponseExt for http::Response<B> {
    fn visit(&self) -> Option<&Visit> {
        Visit::of(self.extensions())
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest::Response {}
    impl<B> Sealed for http::Response<B> {}
}
