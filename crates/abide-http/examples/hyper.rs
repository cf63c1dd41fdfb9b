//! An adapter for a plain hyper connection: http only, a new connection for each request, and no client
//! around it.
//!
//! `cargo run -p abide-http --example hyper http://example.org/`

use std::sync::Arc;
use std::time::Duration;

use abide_gate::AddressGuard;
use abide_http::{
    Crawler, FetchInfo, Options, Outgoing, Transport, TransportFetch, drive, permitted_addresses,
};
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use url::Position;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) struct Hyper {
    pub(crate) addresses: AddressGuard,
}

impl Transport for Hyper {
    type Body = Incoming;

    async fn send(&self, request: Outgoing) -> Result<Response<Incoming>, BoxError> {
        let Outgoing { method, url, headers, body, .. } = request;
        let (name, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
        let addresses = permitted_addresses(&self.addresses, name, lookup_host((name, port)).await?)?;
        let stream = TcpStream::connect(&*addresses).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the body, and an error of it is one of the body.
        tokio::spawn(connection);
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let mut request = Request::builder().method(method).uri(path).body(Full::<Bytes>::new(body))?;
        *request.headers_mut() = headers;
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])?;
        request.headers_mut().entry(HOST).or_insert(host);
        Ok(sender.send_request(request).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).ok_or("expected a URL")?.parse()?;
    let settings = Crawler::builder("ExampleBot").user_agent("ExampleBot/1.0 (+https://example.com/bot)");
    let hyper = Arc::new(Hyper { addresses: settings.gate_settings().address_guard().clone() });
    // robots.txt by the same client: both meet one server.
    let fetch = TransportFetch::new(Arc::clone(&hyper), settings.checked_user_agent()?);
    let crawler = settings.build(Arc::new(fetch))?;

    let silence = Some(Duration::from_secs(60));
    let page = drive(&crawler, Options::new(), Outgoing::get(url), &*hyper, silence).await?;
    let may_index = FetchInfo::of(page.extensions()).is_some_and(|info| info.permissions().may_index());
    println!("{}, may be indexed: {may_index}", page.status());
    println!("{} bytes", page.into_body().collect().await?.to_bytes().len());
    Ok(())
}
