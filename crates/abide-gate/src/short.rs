//! Bytes in place while they are short: origins, names of hosts, validators.
//!
//! A crawler knows a million of each. In place they need no block of memory of their own, and a look-up that compares one has its cache
//! line already.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// At most `N` bytes in place, with zeros behind them; more of them behind a pointer. Takes `N + 2` bytes, if that is a multiple of eight.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Short<const N: usize> {
    Inline { length: u8, bytes: [u8; N] },
    Shared(Arc<[u8]>),
}

impl<const N: usize> Short<N> {
    pub(crate) const EMPTY: Self = Self::Inline { length: 0, bytes: [0; N] };

    /// The bytes of all parts, one after the other.
    pub(crate) fn concat(parts: &[&[u8]]) -> Self {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut bytes = [0; N];
        let (Some(mut rest), Ok(length)) = (bytes.get_mut(..length), u8::try_from(length)) else {
            return Self::Shared(parts.concat().into());
        };
        for part in parts {
            let Some((place, after)) = rest.split_at_mut_checked(part.len()) else { break };
            place.copy_from_slice(part);
            rest = after;
        }
        Self::Inline { length, bytes }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Shared(bytes) => bytes,
        }
    }

    /// What was made from text.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// How many bytes it takes besides its own.
    pub(crate) fn heap_size(&self) -> usize {
        match self {
            Self::Inline { .. } => 0,
            Self::Shared(bytes) => bytes.len().saturating_add(size_of::<[usize; 2]>()),
        }
    }
}

impl<const N: usize> From<&str> for Short<N> {
    fn from(text: &str) -> Self {
        Self::concat(&[text.as_bytes()])
    }
}

impl<const N: usize> Ord for Short<N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl<const N: usize> PartialOrd for Short<N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Hash for Short<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl<const N: usize> fmt::Debug for Short<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_n_bytes_are_kept_in_place() {
        for (length, heap) in [(0, 0), (5, 0), (30, 0), (31, 47), (300, 316)] {
            let text = "x".repeat(length);
            let short =
                Short::<30>::concat(&[&text.as_bytes()[..length / 2], &text.as_bytes()[length / 2..]]);
            assert_eq!((short.as_str(), short.heap_size()), (&*text, heap));
            assert_eq!(short, Short::from(&*text));
            assert!(short < Short::from("y"));
        }
        assert_eq!((size_of::<Short<30>>(), size_of::<Option<Short<38>>>()), (32, 40));
        assert_eq!(
            (Short::<30>::EMPTY.as_bytes(), format!("{:?}", Short::<30>::from("a\n"))),
            (&b""[..], "\"a\\n\"".to_owned())
        );
    }
}
