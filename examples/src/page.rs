//! The links of a page, through lol_html.

use std::cell::RefCell;

use lol_html::{HtmlRewriter, Settings, element};
use url::Url;

/// What a crawler takes from a page.
#[derive(Debug, Default)]
pub struct Page {
    /// Absolute http and https links of `a` elements, without fragments, in order. `rel=nofollow` is left out.
    pub links: Vec<Url>,
}

impl Page {
    /// Reads a page that was fetched from `base`. What cannot be read is passed over.
    pub fn read(base: &Url, html: &[u8]) -> Self {
        let base = RefCell::new(base.clone());
        let links = RefCell::new(Vec::new());
        let settings = Settings::new()
            .with_strict(false)
            .append_element_content_handler(element!("base[href]", |element| {
                let joined = element.get_attribute("href").and_then(|href| base.borrow().join(&href).ok());
                if let Some(url) = joined {
                    base.replace(url);
                }
                Ok(())
            }))
            .append_element_content_handler(element!("a[href]", |element| {
                let rel = element.get_attribute("rel").unwrap_or_default();
                let href = element.get_attribute("href").unwrap_or_default();
                if let Ok(mut url) = base.borrow().join(&href.replace("&amp;", "&"))
                    && matches!(url.scheme(), "http" | "https")
                    && abide::link_follow(&rel)
                {
                    url.set_fragment(None);
                    links.borrow_mut().push(url);
                }
                Ok(())
            }));
        scan(html, settings);
        Self { links: links.into_inner() }
    }
}

/// A page that cannot be read to its end still has the links that were seen.
fn scan(html: &[u8], settings: Settings<'_, '_>) {
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    if rewriter.write(html).is_ok() {
        let _ = rewriter.end();
    }
}
