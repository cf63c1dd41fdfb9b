//! Whether a response asks us to wait, and how long: one plain function for pages, redirect hops, robots.txt
//! and every other file.
//!
//! Two statuses are not enough: shops, map servers and content delivery networks say "slow down" with others,
//! and many errors carry a Retry-After. A server that sends the field means it, whatever its status.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::retry_after::retry_after;
use crate::WallMillis;

/// What a response asks for by its status and its Retry-After. RateLimit fields are read apart, because any
/// response may have them.
///
/// ```
/// use std::time::Duration;
/// use abide_gate::{WallMillis, pacing::{WaitRequest, wait_request}};
/// use http::{HeaderMap, StatusCode};
///
/// let mut fields = HeaderMap::new();
/// fields.insert("retry-after", "600".parse()?);
/// let asked = wait_request(StatusCode::FORBIDDEN, &fields, WallMillis::from_millis(0));
/// assert_eq!(asked, WaitRequest::Backoff { retry_after: Duration::from_secs(600) });
/// assert!(asked.backs_off());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitRequest {
    /// Nothing.
    Nothing,
    /// To leave the host alone, because of our requests: 429, 503 and what servers use in their place. It
    /// raises the throttle count.
    Throttle {
        /// For how long, if a Retry-After can be read.
        retry_after: Option<Duration>,
    },
    /// To leave the host alone for so long: another error with a Retry-After that can be read.
    Backoff {
        /// For how long.
        retry_after: Duration,
    },
    /// To wait for so long before the next hop of a redirect (RFC 9110 §10.2.3), wherever it leads. It says
    /// nothing of other requests.
    NextHop {
        /// For how long.
        retry_after: Duration,
    },
    /// Nothing, but the server or what stands before it fails. Several of these in a row are taken for a host
    /// that cannot be reached.
    ServerError,
}

impl WaitRequest {
    /// Whether the host is left alone for a while.
    pub fn backs_off(&self) -> bool {
        matches!(self, Self::Throttle { .. } | Self::Backoff { .. })
    }
}

/// Reads a response: its final status, its fields, and our wall clock, from which a date in Retry-After may
/// have to be counted.
pub fn wait_request(status: StatusCode, headers: &HeaderMap, wall: WallMillis) -> WaitRequest {
    // Nearly all responses end here, without a look at their fields.
    if status.is_success() || status.is_informational() {
        return WaitRequest::Nothing;
    }
    let retry_after = retry_after(headers, wall);
    match (status.as_u16(), retry_after) {
        (300..=399, Some(retry_after)) => WaitRequest::NextHop { retry_after },
        (300..=399, None) => WaitRequest::Nothing,
        // RFC 6585 §4 and RFC 9110 §15.6.4. Stricter: no specification has 420 and 430 (limits of shops and
        // interfaces), 509 (bandwidth) and 529 (overload), and all that servers mean by them is the same.
        (429 | 503 | 420 | 430 | 509 | 529, retry_after) => WaitRequest::Throttle { retry_after },
        // Statuses beyond 599 are read as 5xx (RFC 9110 §15).
        (_, Some(retry_after)) => WaitRequest::Backoff { retry_after },
        // 520 to 530 are those of content delivery networks that get no good response from the site.
        (500 | 502 | 504 | 520..=530, None) => WaitRequest::ServerError,
        (_, None) => WaitRequest::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    fn asked(status: u16, retry_after: &str) -> WaitRequest {
        let fields = HeaderMap::from_iter([(RETRY_AFTER, retry_after.parse().unwrap())]);
        wait_request(StatusCode::from_u16(status).unwrap(), &fields, WallMillis::from_millis(0))
    }

    /// Each status from 100 to 999: without a usable Retry-After, and with one.
    #[test]
    fn each_status_is_a_row_of_the_table() {
        let retry_after = Duration::from_secs(600);
        for status in 100..=999 {
            let (without, with) = match status {
                420 | 429 | 430 | 503 | 509 | 529 => {
                    let throttle = |retry_after| WaitRequest::Throttle { retry_after };
                    (throttle(None), throttle(Some(retry_after)))
                }
                500 | 502 | 504 | 520..=530 => {
                    (WaitRequest::ServerError, WaitRequest::Backoff { retry_after })
                }
                100..=299 => (WaitRequest::Nothing, WaitRequest::Nothing),
                300..=399 => (WaitRequest::Nothing, WaitRequest::NextHop { retry_after }),
                _ => (WaitRequest::Nothing, WaitRequest::Backoff { retry_after }),
            };
            for unusable in ["", "0", "-600", "soon"] {
                assert_eq!(asked(status, unusable), without, "{status} {unusable}");
            }
            assert_eq!(asked(status, "600"), with, "{status}");
        }
    }
}
