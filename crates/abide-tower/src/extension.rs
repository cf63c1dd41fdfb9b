//! What abide attached to a response, read by its extension trait.
//!
//! The trait of `abide` for `reqwest` responses has the same methods: code that reads permissions can move
//! between the two.

use abide_http::FetchInfo;
use abide_permissions::{Answer, Permissions, Preferences};

/// Reads what the layer attached to a response.
///
/// ```
/// use abide_tower::ResponseExt;
///
/// fn may_index<B>(page: &http::Response<B>) -> bool {
///     page.permissions().may_index()
/// }
/// ```
pub trait ResponseExt: sealed::Sealed {
    /// This request: its verdict, its wait, its answer. `None` if it did not pass the layer.
    ///
    /// It has one hop. What a redirect layer above asked before is in the responses that it dropped.
    fn fetch_info(&self) -> Option<&FetchInfo>;

    /// What the site permits you to do with it. Without the layer, permissions that state nothing and say so.
    fn permissions(&self) -> Permissions {
        self.fetch_info().map(FetchInfo::permissions).unwrap_or_default()
    }

    /// What the site asks of those who use it, as it was when it was fetched. Without abide in the client,
    /// preferences that state nothing and say so.
    fn preferences(&self) -> Preferences {
        let unread = || Preferences::default().with_unread_source("the response did not come through abide");
        self.fetch_info().map_or_else(unread, FetchInfo::preferences)
    }

    /// Whether the page may be used for what [`CrawlerBuilder::purpose`](crate::CrawlerBuilder::purpose)
    /// declares: yes, no, unset or unknown. Unknown if nothing is declared, or the response did not come
    /// through abide.
    fn allows_purpose(&self) -> Answer {
        let unread = || self.preferences().training();
        self.fetch_info().map_or_else(unread, FetchInfo::allows_purpose)
    }
}

impl<B> ResponseExt for http::Response<B> {
    fn fetch_info(&self) -> Option<&FetchInfo> {
        FetchInfo::of(self.extensions())
    }
}

mod sealed {
    pub trait Sealed {}
    impl<B> Sealed for http::Response<B> {}
}
