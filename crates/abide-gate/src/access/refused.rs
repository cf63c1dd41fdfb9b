use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::WallMillis;

/// Why there is no answer. An unreachable robots.txt is one; this is not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refused {
    /// The request for robots.txt was put off by the pacing; nobody was asked.
    Deferred {
        /// Not before this time.
        not_before: WallMillis,
        /// The pacing's own refusal.
        why: Arc<dyn Error + Send + Sync>,
    },
    /// The fetch was lost: it panicked, or its runtime went down. Asking again starts another one.
    Interrupted,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deferred { why, .. } => write!(f, "the request for robots.txt was deferred: {why}"),
            Self::Interrupted => f.write_str("the request for robots.txt was interrupted"),
        }
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Deferred { why, .. } => Some(&**why),
            Self::Interrupted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_one_sentence_with_its_reason_behind_it() {
        let why: Arc<dyn Error + Send + Sync> = Arc::from(Box::from("the host is held"));
        let deferred = Refused::Deferred { not_before: WallMillis::from_millis(1), why };
        assert_eq!(deferred.to_string(), "the request for robots.txt was deferred: the host is held");
        assert_eq!(deferred.source().map(ToString::to_string).as_deref(), Some("the host is held"));
        assert_eq!(Refused::Interrupted.to_string(), "the request for robots.txt was interrupted");
        assert!(Refused::Interrupted.source().is_none());
    }
}
