//! Parts of texts, from places that were found in them: none of these can panic.

/// What stands before `end`; all of it if it is shorter.
#[inline]
pub(crate) fn before(text: &[u8], end: usize) -> &[u8] {
    text.get(..end).unwrap_or(text)
}

/// What stands at `start` and behind it; nothing if the text is shorter.
#[inline]
pub(crate) fn from(text: &[u8], start: usize) -> &[u8] {
    text.get(start..).unwrap_or_default()
}

/// What stands behind the byte at `place`.
#[inline]
pub(crate) fn behind(text: &[u8], place: usize) -> &[u8] {
    from(text, place.saturating_add(1))
}

/// What has its place at `start` and so many bytes; nothing if the text is shorter.
#[inline]
pub(crate) fn part(text: &[u8], start: u32, length: usize) -> &[u8] {
    text.get(start as usize..).and_then(|rest| rest.get(..length)).unwrap_or_default()
}
