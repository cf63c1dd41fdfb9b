#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidText(pub(crate) _);
impl fmt::Display for InvalidText {}
impl core::error::Error for InvalidText {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseOptions {}
impl ParseOptions {
    pub fn new() -> Self {}
    pub fn google() -> Self {}
    #[must_use]
    pub fn with_limit(self, bytes: usize) -> Self {}
}
impl Default for ParseOptions {}
#[derive(Clone)]
pub struct ProductToken(_);
impl ProductToken {
    pub fn new(text: &str) -> Result<Self, InvalidText> {}
    pub fn lenient(text: &str) -> Result<Self, InvalidText> {}
    pub fn as_str(&self) -> &str {}
}
impl PartialEq for ProductToken {}
impl Eq for ProductToken {}
impl Hash for ProductToken {}
impl fmt::Display for ProductToken {}
impl fmt::Debug for ProductToken {}
impl FromStr for ProductToken {
    type Err = InvalidText;
}
#[cfg(feature = "serde")]
impl serde_core::Serialize for ProductToken {}
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for ProductToken {}
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {}
impl<'a> Record<'a> {
    pub fn kind(&self) -> RecordKind {}
    pub fn key(&self) -> &'a [u8] {}
    pub fn value(&self) -> &'a [u8] {}
    pub fn line(&self) -> u32 {}
    pub fn agent(&self) -> Option<&'a str> {}
    pub fn addresses(&self, token: Option<&ProductToken>) -> bool {}
}
impl fmt::Display for Record<'_> {}
impl fmt::Debug for Record<'_> {}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecordKind {
    UserAgent,
    Allow,
    Disallow,
    Sitemap,
    CrawlDelay,
    AppDirectives,
    ContentUsage,
    ContentSignal,
    License,
    RequestRate,
    VisitTime,
    Host,
    CleanParam,
    Other,
}
impl RecordKind {
    pub fn name(self) -> &'static str {}
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {}
impl Remark {
    pub fn kind(&self) -> &'static str {}
    pub fn line(&self) -> u32 {}
    pub fn columns(&self) -> Range<usize> {}
}
impl fmt::Display for Remark {}
#[derive(Clone)]
pub struct Robots {}
impl Robots {
    pub fn parse(body: &[u8]) -> Self {}
    pub fn parse_with(body: &[u8], options: ParseOptions) -> Self {}
    pub fn rules(&self, tokens: &[ProductToken]) -> Rules {}
    pub fn verdict(
        &self,
        tokens: &[ProductToken],
        target: &Target<'_>,
    ) -> RobotsVerdict {}
    pub fn groups(&self) -> impl Iterator<Item = Vec<Record<'_>>> {}
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {}
    pub fn licenses(&self) -> impl Iterator<Item = &str> {}
    pub fn text(&self) -> &[u8] {}
    pub fn is_cut(&self) -> bool {}
    pub fn is_utf16(&self) -> bool {}
    pub fn line(&self, number: u32) -> Option<&[u8]> {}
}
impl fmt::Debug for Robots {}
impl Robots {
    pub fn remarks(&self) -> Vec<Remark> {}
}
#[derive(Clone, PartialEq, Eq)]
pub struct RobotsVerdict {}
impl RobotsVerdict {
    pub fn is_allowed(&self) -> bool {}
    pub fn rule(&self) -> Option<Record<'_>> {}
    pub fn is_robots_txt(&self) -> bool {}
    pub fn group(&self) -> impl Iterator<Item = &str> {}
    pub fn is_named(&self) -> bool {}
    pub fn token(&self) -> Option<&str> {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn rules(&self) -> &Rules {}
}
impl fmt::Display for RobotsVerdict {}
impl fmt::Debug for RobotsVerdict {}
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Rules(_);
impl Rules {
    pub fn parse(body: &[u8], tokens: &[ProductToken]) -> Self {}
    pub fn parse_with(
        body: &[u8],
        tokens: &[ProductToken],
        options: ParseOptions,
    ) -> Self {}
    pub fn allow_all() -> Self {}
    pub fn disallow_all() -> Self {}
    pub fn is_allowed(&self, target: &Target<'_>) -> bool {}
    pub fn verdict(&self, target: &Target<'_>) -> RobotsVerdict {}
    pub fn crawl_delay(&self) -> Option<Duration> {}
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {}
    pub fn licenses(&self) -> impl Iterator<Item = &str> {}
    pub fn group(&self) -> impl Iterator<Item = &str> {}
    pub fn has_group(&self) -> bool {}
    pub fn is_named(&self) -> bool {}
    pub fn token(&self) -> Option<&str> {}
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn signals_outside_groups(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn signals_of_all(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn license_records(&self) -> impl Iterator<Item = Record<'_>> {}
    pub fn heap_size(&self) -> usize {}
}
impl fmt::Debug for Rules {}
#[derive(Clone)]
pub struct Target<'a> {}
impl<'a> Target<'a> {
    pub fn new(path_and_query: &'a str) -> Self {}
    pub fn as_str(&self) -> &str {}
}
impl<'a> From<&'a str> for Target<'a> {}
#[cfg(feature = "url")]
impl<'a> Target<'a> {
    pub fn of(url: &'a url::Url) -> Self {}
}
impl PartialEq for Target<'_> {}
impl Eq for Target<'_> {}
impl fmt::Display for Target<'_> {}
impl fmt::Debug for Target<'_> {}
impl Target<'_> {
    pub fn covered_by(&self, pattern: &[u8]) -> Option<usize> {}
}
pub fn is_allowed(body: &[u8], tokens: &[ProductToken], target: &Target<'_>) -> bool {}
