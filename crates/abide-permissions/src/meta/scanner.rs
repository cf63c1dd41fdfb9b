//! stub
use crate::head::{Head, HeadEnd};
use crate::options::ReadOptions;

/// The scanner.
#[derive(Debug)]
pub struct HeadScanner;
/// Whether the scan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Feed on.
    More,
    /// Enough.
    Done,
}
impl HeadScanner {
    /// New.
    pub fn new(_options: &ReadOptions, _content_type: Option<&str>) -> Self {
        Self
    }
    /// Feed.
    pub fn feed(&mut self, _bytes: &[u8]) -> Progress {
        Progress::Done
    }
    /// Finish.
    pub fn finish(self) -> Head {
        Head::not_scanned(HeadEnd::NotHtml)
    }
}
