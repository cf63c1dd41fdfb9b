//! What the test server sends: a well-formed answer, or any bytes at any pace.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::server::head_end;

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) steps: Vec<Step>,
    pub(crate) keep_alive: bool,
}

/// One thing the server does with the connection.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes again and again, at most this often.
    Repeat(Vec<u8>, usize),
    /// Waits.
    Sleep(Duration),
    /// Waits until the test says so: `notify_one` lets one connection go on.
    Wait(Arc<Notify>),
    /// Waits for ever.
    Hang,
    /// Closes the connection with a reset.
    Reset,
}

impl Step {
    /// Sends these bytes.
    pub fn send(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Send(bytes.into())
    }
}

impl Reply {
    /// A status and a body, with its length.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::with_headers(status, &[("content-type", "text/plain")], body)
    }

    /// An HTML page.
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::with_headers(200, &[("content-type", "text/html; charset=utf-8")], body)
    }

    /// A redirect.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::with_headers(status, &[("location", location)], "")
    }

    /// A status that backs a host off for so many seconds.
    pub fn retry_after(status: u16, seconds: u64) -> Self {
        Self::with_headers(status, &[("retry-after", &seconds.to_string())], "")
    }

    /// A status, header fields and a body with its length.
    pub fn with_headers(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if status != 204 && status != 304 {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(body);
        Self { steps: vec![Step::Send(bytes)], keep_alive: true }
    }

    /// Any bytes at any pace; the connection is closed afterwards.
    pub fn raw(steps: Vec<Step>) -> Self {
        Self { steps, keep_alive: false }
    }

    /// The same answer with one more header field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Some(Step::Send(bytes)) = self.steps.last_mut() {
            let end = head_end(bytes).map_or(0, |end| end - 2);
            bytes.splice(end..end, format!("{name}: {value}\r\n").into_bytes());
        }
        self
    }

    /// The same answer after a while.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.steps.insert(0, Step::Sleep(wait));
        self
    }
}
