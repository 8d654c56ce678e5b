//! The explorer: a node's blocks, transactions and state in a browser, over HTTP on an address of its own.
//!
//! ```text
//! GET /                                 the page; /explorer.js and /explorer.css beside it
//! GET /api/status                       members, checkpoints, audits, as `ledger status` has them for anybody
//! GET /api/blocks?below=HEIGHT          blocks, the newest first
//! GET /api/block/HEIGHT?from=PLACE      a block: header, votes, transactions
//! GET /api/transaction/HEIGHT/PLACE     a transaction: statements, values, client, agreements
//! ```
//! Invariants: nothing is written by it; there is no other method than GET. Blocks are read from the file by a thread
//! beside the engine, one at a time. What clients have signed is text to the page, never markup, and the page loads nothing from
//! elsewhere (`Content-Security-Policy`). Names of other hosts are refused, so that no page of the internet reaches a node that
//! listens on the loopback interface by a name of its own.

mod answers;

use crate::error::{LedgerError, LedgerResult};
pub(crate) use answers::ExplorerSource;
use answers::{ExplorerQuestion, answer_question};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const PAGE: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("explorer.js");
const STYLE: &str = include_str!("explorer.css");

/// Connections at once; others wait until one ends.
const CONNECTIONS_MAX: usize = 32;

/// How long a client may take for the head of a request, and how long a connection lasts.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// After an error of accepting, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

type ExplorerAnswer = Response<Full<Bytes>>;

/// The explorer of one organization.
pub(crate) struct Explorer {
    source: Arc<ExplorerSource>,
    /// The host by which it is configured.
    host: String,
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> ExplorerAnswer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    answer.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}

fn refuse(status: StatusCode, reason: &str) -> ExplorerAnswer {
    answer(status, "text/plain; charset=utf-8", format!("{reason}\n"))
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => address,
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Explorer {
    pub(crate) fn new(source: ExplorerSource, address: &str) -> Explorer {
        Explorer { source: Arc::new(source), host: host_of(address).to_owned() }
    }

    fn is_own_host(&self, request: &Request<Incoming>) -> bool {
        let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host_of(named.unwrap_or_default());
        host == self.host || host == "localhost" || host.parse::<std::net::IpAddr>().is_ok()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<ExplorerAnswer, Infallible> {
        if request.method() != Method::GET {
            let mut refused = refuse(StatusCode::METHOD_NOT_ALLOWED, "the explorer is read with GET only");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return Ok(refused);
        }
        if !self.is_own_host(&request) {
            return Ok(refuse(StatusCode::MISDIRECTED_REQUEST, "this is another host"));
        }
        Ok(match request.uri().path() {
            "/" => answer(StatusCode::OK, "text/html; charset=utf-8", PAGE),
            "/explorer.js" => answer(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
            "/explorer.css" => answer(StatusCode::OK, "text/css; charset=utf-8", STYLE),
            path => match ExplorerQuestion::parse(path, request.uri().query().unwrap_or_default()) {
                Some(question) => self.look_up(question).await,
                None => refuse(StatusCode::NOT_FOUND, "there is no such page"),
            },
        })
    }

    async fn look_up(&self, question: ExplorerQuestion) -> ExplorerAnswer {
        let source = self.source.clone();
        match tokio::task::spawn_blocking(move || answer_question(&source, question)).await {
            Ok(Ok(Some(found))) => answer(StatusCode::OK, "application/json", found.to_string()),
            Ok(Ok(None)) => refuse(StatusCode::NOT_FOUND, "the ledger has nothing of this name"),
            Ok(Err(error)) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered"),
        }
    }

    /// Serves until the runtime ends.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let (explorer, places) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let explorer = explorer.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| explorer.clone().answer(request));
                let mut server = hyper::server::conn::http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(HEAD_BYTES_MAX);
                let connection = server.serve_connection(TokioIo::new(stream), service);
                // One that is too slow, or goes away, is of no interest.
                let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
                drop(place);
            });
        }
    }
}

/// Listens at an address for an explorer. Returns which one it is, as `HOST:0` leaves the port to the system.
///
/// # Errors
/// [`LedgerError::Process`] if that cannot be.
pub(crate) async fn listen_for_explorer(
    address: &str,
    name: &str,
) -> LedgerResult<(TcpListener, SocketAddr)> {
    let failed = |error: std::io::Error| LedgerError::Process {
        name: name.to_owned(),
        message: format!("its explorer cannot listen at {address}: {error}"),
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}
