//! Parts of texts, from places that were found in them: none of these can panic.
//!
//! The lints of this crate forbid indexing, because its input is hostile; and the compiler sees through
//! these.

/// What is before `end`; all of the text if it is shorter.
#[inline]
pub(crate) fn before(text: &[u8], end: usize) -> &[u8] {
    text.get(..end).unwrap_or(text)
}

/// What is at `start` and after it; nothing if the text is shorter.
#[inline]
pub(crate) fn from<T>(text: &[T], start: usize) -> &[T] {
    text.get(start..).unwrap_or_default()
}

/// What is after the byte at `place`.
#[inline]
pub(crate) fn behind(text: &[u8], place: usize) -> &[u8] {
    from(text, place.saturating_add(1))
}

/// `length` bytes from `start` on; nothing if the text is shorter.
#[inline]
pub(crate) fn part(text: &[u8], start: u32, length: usize) -> &[u8] {
    match text.get(start as usize..).and_then(|rest| rest.get(..length)) {
        Some(part) => part,
        None => nothing(),
    }
}

/// A call that the compiler takes to be rare is a branch, where it would else compute both outcomes for every
/// entry.
#[cold]
#[inline(never)]
fn nothing() -> &'static [u8] {
    &[]
}

/// Each `N` neighbouring bytes; in newer compilers `array_windows`.
#[inline]
pub(crate) fn windows<const N: usize>(text: &[u8]) -> impl Iterator<Item = [u8; N]> {
    text.windows(N).map(|window| window.first_chunk().copied().unwrap_or([0; N]))
}
