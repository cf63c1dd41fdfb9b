//! Prices that servers ask for pages, and what the caller lets be paid.
//!
//! By the documentation of Cloudflare's pay per crawl, read in November 2026: a 402 with `crawler-price`
//! names a price; a request with `crawler-exact-price` or `crawler-max-price` accepts it; a success with
//! `crawler-charged` says what was charged; `crawler-error` says what was wrong. Every name stands in this
//! file; that an offer does not go along with a redirect, in `redirect.rs` of `abide-http`.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderValue, StatusCode};
use url::Url;

use abide_http::{AnswerChallenge, Challenge, ChallengeAnswer, RequestEnd};

use crate::InvalidValue;

const PRICE: &str = "crawler-price";
const CHARGED: &str = "crawler-charged";
const ERROR: &str = "crawler-error";
const EXACT_PRICE: &str = "crawler-exact-price";
const MAX_PRICE: &str = "crawler-max-price";

/// An exact amount of money: `USD 0.01`. Billionths of the currency's unit, never a float.
///
/// ```
/// use abide_identity::Price;
///
/// let price: Price = "USD 0.010".parse()?;
/// assert_eq!(price.to_string(), "USD 0.01");
/// assert_eq!(price.checked_add(price), "USD 0.02".parse().ok());
/// # Ok::<(), abide_identity::InvalidValue>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Price {
    currency: [u8; 3],
    billionths: u64,
}

impl Price {
    /// The currency, three capital letters (ISO 4217).
    pub fn currency(&self) -> &str {
        std::str::from_utf8(&self.currency).unwrap_or_default()
    }

    /// The amount in billionths of the currency's unit.
    pub fn billionths(&self) -> u64 {
        self.billionths
    }

    /// The sum. `None` if the currencies differ, or the sum is too large.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let billionths = self.billionths.checked_add(other.billionths)?;
        (self.currency == other.currency).then_some(Self { billionths, ..self })
    }

    /// Whether the currency is the same and the amount not higher.
    fn is_within(self, cap: Self) -> bool {
        self.currency == cap.currency && self.billionths <= cap.billionths
    }
}

impl FromStr for Price {
    type Err = InvalidValue;

    /// A currency of three letters, a space, and a decimal number with at most nine places.
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let expected = "expected a price such as \"USD 0.01\", with at most nine decimal places";
        let found = || text.chars().take(40).collect::<String>();
        parse(text).ok_or_else(|| InvalidValue(format!("{expected}, found {:?}", found())))
    }
}

fn parse(text: &str) -> Option<Price> {
    let (currency, amount) = text.trim().split_once(' ')?;
    let currency: [u8; 3] = currency.as_bytes().try_into().ok()?;
    let (units, places) = amount.trim_start().split_once('.').unwrap_or((amount.trim_start(), "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !currency.iter().all(u8::is_ascii_alphabetic)
        || !is_number(units)
        || !is_number(places)
        || places.len() > PLACES
    {
        return None;
    }
    let places: u64 = format!("{places:0<PLACES$}").parse().ok()?;
    let billionths = units.parse::<u64>().ok()?.checked_mul(BILLION)?.checked_add(places)?;
    Some(Price { currency: currency.map(|byte| byte.to_ascii_uppercase()), billionths })
}

const PLACES: usize = 9;
const BILLION: u64 = 1_000_000_000;

impl fmt::Display for Price {
    /// At least two places, as the field has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, places) = (self.billionths / BILLION, self.billionths % BILLION);
        let places = format!("{places:09}");
        let shown = places.trim_end_matches('0');
        write!(f, "{} {units}.{shown:0<2}", self.currency())
    }
}

/// What a response says about payment.
///
/// ```
/// use abide_identity::PaymentTerms;
///
/// let priced = http::Response::builder().status(402).header("crawler-price", "USD 0.01").body(())?;
/// let terms = PaymentTerms::of(priced.status(), priced.headers());
/// assert_eq!(terms.and_then(|terms| terms.price()), "USD 0.01".parse().ok());
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentTerms {
    price: Option<Price>,
    charged: Option<Price>,
    error: Option<String>,
}

impl PaymentTerms {
    /// What these fields say. `None`: nothing. A field that occurs twice, or has no price in it, says
    /// nothing.
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let price = |name, counts: bool| if counts { one(headers, name)?.parse().ok() } else { None };
        let terms = Self {
            price: price(PRICE, status == StatusCode::PAYMENT_REQUIRED),
            charged: price(CHARGED, status.is_success()),
            error: one(headers, ERROR).map(|error| error.chars().take(ERROR_LEN_MAX).collect()),
        };
        (terms != Self::default()).then_some(terms)
    }

    /// The price of the page, from a 402.
    pub fn price(&self) -> Option<Price> {
        self.price
    }

    /// What was charged for the page.
    pub fn charged(&self) -> Option<Price> {
        self.charged
    }

    /// The server's code for what was wrong with the payment, at most 100 characters.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}

const ERROR_LEN_MAX: usize = 100;

fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?;
    // Of two prices neither is believed: something on the way may have added one.
    if lines.next().is_some() { None } else { value.to_str().ok() }
}

/// The most that may be paid for a page, a host and a run. Without a policy, nothing is ever paid.
///
/// After a 402 with a price within all caps, the request is sent once more with `crawler-exact-price`,
/// checked and rate-limited like any other. Only https requests pay. Clones share their totals. Give one to
/// `answer_challenges` of your client's builder.
///
/// ```
/// use abide_identity::{InvalidValue, PaymentPolicy};
///
/// /// At most 0.2 cents a page, 10 dollars a run, and 1 dollar a host.
/// fn frugal() -> Result<PaymentPolicy, InvalidValue> {
///     Ok(PaymentPolicy::new("USD 0.002".parse()?, "USD 10".parse()?).with_host_cap("USD 1".parse()?))
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PaymentPolicy {
    page: Price,
    host: Option<Price>,
    run: Price,
    is_upfront: bool,
    spent: Arc<Mutex<Spent>>,
}

#[derive(Debug, Default)]
struct Spent {
    run: u64,
    hosts: HashMap<String, u64>,
}

/// With more hosts than this, further hosts are paid nothing: what they were paid could not be counted.
const HOSTS_MAX: usize = 100_000;

impl PaymentPolicy {
    /// Pays at most `page` for a page, and `run` for all pages. If their currencies differ, nothing is paid.
    pub fn new(page: Price, run: Price) -> Self {
        Self { page, host: None, run, is_upfront: false, spent: Arc::default() }
    }

    /// Pays at most `host` for all pages of one host. Default: as much as for the run.
    pub fn with_host_cap(self, host: Price) -> Self {
        Self { host: Some(host), ..self }
    }

    /// Sends `crawler-max-price` with every https request, instead of waiting for a 402. So every site knows
    /// what it may charge.
    pub fn with_upfront_offer(self) -> Self {
        Self { is_upfront: true, ..self }
    }

    /// What was paid for all pages so far, pending payments included.
    pub fn spent(&self) -> Price {
        Price { billionths: self.lock().run, ..self.run }
    }

    /// What was paid to a host so far, pending payments included.
    pub fn spent_on(&self, host: &str) -> Price {
        Price { billionths: self.lock().hosts.get(host).copied().unwrap_or_default(), ..self.run }
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next request for `url` offers: after a response with these terms, or upfront.
    fn offer(&self, url: &Url, terms: Option<&PaymentTerms>) -> Option<Payment> {
        let price = match terms {
            None if self.is_upfront => self.page,
            Some(terms) if !self.is_upfront => terms.price()?,
            _ => return None,
        };
        // Over http anyone on the way could ask for money.
        let host = url.host_str().filter(|_| url.scheme() == "https")?;
        let mut spent = self.lock();
        let after = |spent: u64| price.checked_add(Price { billionths: spent, ..price });
        let known = spent.hosts.get(host).copied();
        // Checked and reserved under one lock, so that calls at the same time do not exceed a cap together.
        let (run, on_host) = (after(spent.run)?, after(known.unwrap_or_default())?);
        let is_within = price.is_within(self.page)
            && run.is_within(self.run)
            && on_host.is_within(self.host.unwrap_or(self.run))
            && (known.is_some() || spent.hosts.len() < HOSTS_MAX);
        if !is_within {
            return None;
        }
        spent.run = run.billionths;
        spent.hosts.insert(host.to_owned(), on_host.billionths);
        drop(spent);
        Some(Payment { policy: self.clone(), host: host.to_owned(), price })
    }
}

impl AnswerChallenge for PaymentPolicy {
    fn answer(&self, challenge: &Challenge<'_>, request: &mut HeaderMap) -> ChallengeAnswer {
        let terms =
            challenge.response.map(|head| PaymentTerms::of(head.status, head.headers).unwrap_or_default());
        let Some(payment) = self.offer(challenge.url, terms.as_ref()) else {
            return ChallengeAnswer::Nothing;
        };
        payment.add(request);
        ChallengeAnswer::Offer(Box::new(move |end| payment.end(end)))
    }
}

/// A payment that is offered with a request. Its price counts as spent until the response says what was
/// charged, unless the request is not sent.
#[derive(Debug)]
struct Payment {
    policy: PaymentPolicy,
    host: String,
    price: Price,
}

impl Payment {
    fn add(&self, headers: &mut HeaderMap) {
        let name = if self.policy.is_upfront { MAX_PRICE } else { EXACT_PRICE };
        if let Ok(value) = HeaderValue::from_str(&self.price.to_string()) {
            headers.insert(name, value);
        }
    }

    fn end(self, end: RequestEnd<'_>) {
        match end {
            RequestEnd::NotSent => self.charge(0),
            // Only a response says that nothing was charged.
            RequestEnd::Unanswered => {}
            RequestEnd::Answered(head) => self.settled(head.status, head.headers),
        }
    }

    /// The response is here. Errors are not charged, nor is a page that never asked for a price; a page
    /// bought at its exact price that does not say what it cost has cost that, and so has one whose charge
    /// cannot be read. No charge counts for more than was offered.
    fn settled(self, status: StatusCode, headers: &HeaderMap) {
        let charged = PaymentTerms::of(status, headers).and_then(|terms| terms.charged());
        self.charge(match charged.filter(|charged| charged.currency == self.price.currency) {
            Some(charged) => charged.billionths.min(self.price.billionths),
            None if !status.is_success() || self.policy.is_upfront && !headers.contains_key(CHARGED) => 0,
            None => self.price.billionths,
        });
    }

    /// In place of the price, so much was charged.
    fn charge(&self, charged: u64) {
        let mut spent = self.policy.lock();
        spent.run = spent.run.saturating_sub(self.price.billionths).saturating_add(charged);
        if let Some(on_host) = spent.hosts.get_mut(&self.host) {
            *on_host = on_host.saturating_sub(self.price.billionths).saturating_add(charged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Price {
        text.parse().unwrap()
    }

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn terms(status: u16, fields: &[(&str, &str)]) -> Option<PaymentTerms> {
        PaymentTerms::of(StatusCode::from_u16(status).unwrap(), &headers(fields))
    }

    #[test]
    fn prices_are_exact() {
        for (text, shown) in [
            ("USD 0.01", "USD 0.01"),
            ("usd 0.1", "USD 0.10"),
            ("EUR 12", "EUR 12.00"),
            ("USD 0.000000001", "USD 0.000000001"),
            ("JPY 18446744073.709551615", "JPY 18446744073.709551615"),
        ] {
            assert_eq!(price(text).to_string(), shown);
            assert_eq!(price(shown), price(text));
        }
        let invalid =
            ["0.01", "USD", "USD ", "USD .1", "USD 1.", "USD -1", "USD 1e3", "USD 1,00", "DOLLAR 1", "US1 2"];
        let too_long = ["USD 0.0000000001", "JPY 18446744073.709551616"];
        for text in invalid.into_iter().chain(too_long) {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
        let tenth = (0..10).try_fold(price("USD 0.0"), |sum, _| sum.checked_add(price("USD 0.1")));
        assert_eq!(tenth, Some(price("USD 1")), "ten dimes are a dollar");
        assert_eq!(price("USD 1").checked_add(price("EUR 1")), None);
    }

    #[test]
    fn terms_are_read_where_they_belong() {
        let found = terms(402, &[("crawler-price", "USD 0.01"), ("crawler-error", "Oops")]).unwrap();
        assert_eq!(
            (found.price(), found.charged(), found.error()),
            (Some(price("USD 0.01")), None, Some("Oops"))
        );
        let found = terms(200, &[("crawler-charged", "USD 0.02"), ("crawler-price", "USD 0.01")]).unwrap();
        assert_eq!((found.price(), found.charged()), (None, Some(price("USD 0.02"))));
        for (status, field, value) in [
            (200, "crawler-price", "USD 1"),
            (402, "crawler-charged", "USD 1"),
            (402, "crawler-price", "cheap"),
            (402, "x", "y"),
        ] {
            assert_eq!(terms(status, &[(field, value)]), None, "{status} {field}: {value}");
        }
        assert_eq!(terms(402, &[("crawler-price", "USD 1"), ("crawler-price", "USD 2")]), None);
    }

    #[test]
    fn nothing_above_a_cap_is_paid() {
        let policy =
            PaymentPolicy::new(price("USD 0.05"), price("USD 0.12")).with_host_cap(price("USD 0.08"));
        let pay = |url: &str, text: &str| {
            let terms = PaymentTerms { price: Some(price(text)), ..PaymentTerms::default() };
            policy.offer(&url.parse().unwrap(), Some(&terms))
        };
        assert!(pay("https://a.example/", "USD 0.051").is_none(), "the page");
        assert!(pay("https://a.example/", "EUR 0.01").is_none(), "another currency");
        assert!(pay("http://a.example/", "USD 0.01").is_none(), "in the clear");
        let sent = pay("https://a.example/", "USD 0.05").unwrap();
        assert!(pay("https://a.example/", "USD 0.04").is_none(), "the host, while the first is being paid");
        sent.settled(StatusCode::OK, &HeaderMap::new());
        let given_up = pay("https://b.example/", "USD 0.05").unwrap();
        assert!(pay("https://c.example/", "USD 0.03").is_none(), "the run");
        given_up.end(RequestEnd::NotSent);
        assert_eq!((policy.spent(), policy.spent_on("b.example")), (price("USD 0.05"), price("USD 0")));
        let refused = pay("https://c.example/", "USD 0.03").unwrap();
        refused.settled(StatusCode::PAYMENT_REQUIRED, &HeaderMap::new());
        assert_eq!(policy.spent(), price("USD 0.05"), "an error is not charged");
        let cheaper = pay("https://c.example/", "USD 0.03").unwrap();
        cheaper.settled(StatusCode::OK, &headers(&[("crawler-charged", "USD 0.02")]));
        assert_eq!(policy.spent_on("c.example"), price("USD 0.02"));
        assert_eq!(policy.clone().spent(), price("USD 0.07"), "clones share their totals");
    }

    #[test]
    fn a_charge_that_cannot_be_read_is_what_was_offered() {
        let charged = |text| ("crawler-charged", text);
        for (fields, spent) in [
            (vec![], "USD 0"),
            (vec![charged("USD 0.02")], "USD 0.02"),
            (vec![charged("USD 0.02"), charged("USD 0.02")], "USD 0.05"),
            (vec![charged("EUR 0.02")], "USD 0.05"),
            (vec![charged("two cents")], "USD 0.05"),
        ] {
            let policy = PaymentPolicy::new(price("USD 0.05"), price("USD 1")).with_upfront_offer();
            let offer = policy.offer(&"https://a.example/".parse().unwrap(), None).unwrap();
            offer.settled(StatusCode::OK, &headers(&fields));
            assert_eq!(policy.spent(), price(spent), "{fields:?}");
        }
    }
}
