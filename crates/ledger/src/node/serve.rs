//! The serving side of gRPC: every connection is of a party, by its certificate, and every call is answered by a method that
//! knows of which. Written against tonic's service interface, so that no generator of code has to be installed.

use super::config::PartyRole;
use super::directory::{Directory, Party};
use crate::error::{LedgerError, LedgerResult};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::tokio_stream::Stream;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{StreamingService, UnaryService};
use tonic::transport::server::{Server, TcpConnectInfo, TcpIncoming, TlsConnectInfo};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long calls that are being answered may go on when a server stops.
const STOP_SECONDS_MAX: u64 = 1;

/// Calls that one connection may have open at once.
const CALLS_MAX: u32 = 1024;

/// A call that has come in.
pub struct IncomingCall {
    /// Of which party.
    pub caller: Party,
    request: http::Request<Body>,
}

/// An answer as it goes out.
pub type OutgoingAnswer = http::Response<Body>;

/// What answers the calls of a process.
pub trait CallHandler: Send + Sync + 'static {
    /// Answers a call of a method, `/SERVICE/METHOD`.
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>>;
}

struct OneCall<F>(Option<F>);

impl<Q, A, F, R> UnaryService<Q> for OneCall<F>
where
    F: FnOnce(Q) -> R,
    R: Future<Output = LedgerResult<A>> + Send + 'static,
    A: Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<Response<A>, Status>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let work = self.0.take().map(|work| work(request.into_inner()));
        Box::pin(async move {
            match work {
                Some(work) => work.await.map(Response::new).map_err(|error| status_of(&error)),
                None => Err(Status::internal("a call is answered once")),
            }
        })
    }
}

/// Answers as they come through a channel.
struct AnswerStream<A>(mpsc::Receiver<LedgerResult<A>>);

impl<A> Stream for AnswerStream<A> {
    type Item = Result<A, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<A, Status>>> {
        let next = self.0.poll_recv(context);
        next.map(|answer| answer.map(|answer| answer.map_err(|error| status_of(&error))))
    }
}

impl<Q, A, F, R> StreamingService<Q> for OneCall<F>
where
    F: FnOnce(Streaming<Q>) -> R,
    R: Future<Output = LedgerResult<mpsc::Receiver<LedgerResult<A>>>> + Send + 'static,
    A: Send + 'static,
{
    type Response = A;
    type ResponseStream = AnswerStream<A>;
    type Future = BoxFuture<Response<AnswerStream<A>>, Status>;

    fn call(&mut self, request: Request<Streaming<Q>>) -> Self::Future {
        let work = self.0.take().map(|work| work(request.into_inner()));
        Box::pin(async move {
            match work {
                Some(work) => {
                    work.await.map(AnswerStream).map(Response::new).map_err(|error| status_of(&error))
                }
                None => Err(Status::internal("a call is answered once")),
            }
        })
    }
}

/// An error as gRPC says it.
fn status_of(error: &LedgerError) -> Status {
    let message = error.to_string();
    match error {
        LedgerError::Untrusted(_) => Status::permission_denied(message),
        LedgerError::Malformed(_) | LedgerError::Refused(_) => Status::invalid_argument(message),
        LedgerError::Missing(_) => Status::not_found(message),
        LedgerError::NoQuorum(_) => Status::failed_precondition(message),
        LedgerError::Database { .. } | LedgerError::Process { .. } | LedgerError::File { .. } => {
            Status::unavailable(message)
        }
    }
}

impl IncomingCall {
    /// Answers with what `work` makes of the message; a message of more bytes than the limit is refused before it is read.
    pub async fn with<Q, A, F, R>(self, bytes_max: usize, work: F) -> OutgoingAnswer
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
        F: FnOnce(Q) -> R,
        R: Future<Output = LedgerResult<A>> + Send + 'static,
    {
        let codec = ProstCodec::<A, Q>::default();
        let grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(bytes_max);
        let mut grpc = grpc.max_encoding_message_size(super::wire::ROWS_MESSAGE_BYTES_MAX);
        grpc.unary(OneCall(Some(work)), self.request).await
    }

    /// Answers with a conversation: `work` is given the messages that come, and says where answers come from. A message of more
    /// bytes than the limit is refused before it is read.
    pub async fn with_conversation<Q, A, F, R>(self, bytes_max: usize, work: F) -> OutgoingAnswer
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
        F: FnOnce(Streaming<Q>) -> R + Send + 'static,
        R: Future<Output = LedgerResult<mpsc::Receiver<LedgerResult<A>>>> + Send + 'static,
    {
        let codec = ProstCodec::<A, Q>::default();
        let grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(bytes_max);
        let mut grpc = grpc.max_encoding_message_size(super::wire::ROWS_MESSAGE_BYTES_MAX);
        grpc.streaming(OneCall(Some(work)), self.request).await
    }

    /// Refuses the call.
    pub fn refuse(self, error: &LedgerError) -> OutgoingAnswer {
        status_of(error).into_http()
    }

    /// The call, if its caller has one of these roles.
    ///
    /// # Errors
    /// The answer that refuses it.
    #[allow(clippy::result_large_err, reason = "the answer is what goes out, and is made once")]
    pub fn of(self, roles: &[PartyRole]) -> Result<IncomingCall, OutgoingAnswer> {
        if roles.contains(&self.caller.role) {
            return Ok(self);
        }
        let reason = format!("\"{}\" may not call this: its role is another one", self.caller.name);
        Err(self.refuse(&LedgerError::Untrusted(reason)))
    }
}

struct PartyService<H> {
    directory: Arc<Directory>,
    handler: Arc<H>,
}

impl<H> Clone for PartyService<H> {
    fn clone(&self) -> PartyService<H> {
        PartyService { directory: self.directory.clone(), handler: self.handler.clone() }
    }
}

impl<H: CallHandler> Service<http::Request<Body>> for PartyService<H> {
    type Response = OutgoingAnswer;
    type Error = Infallible;
    type Future = BoxFuture<OutgoingAnswer, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let connection = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
        let certificates = connection.and_then(TlsConnectInfo::peer_certs);
        let first = certificates.as_deref().and_then(|certificates| certificates.first());
        let caller = first.and_then(|certificate| self.directory.by_certificate(certificate.as_ref()));
        let Some(caller) = caller.cloned() else {
            let refused = Status::unauthenticated("the certificate is none of this network's").into_http();
            return Box::pin(async move { Ok(refused) });
        };
        let method = request.uri().path().to_owned();
        let (handler, call) = (self.handler.clone(), IncomingCall { caller, request });
        Box::pin(async move { Ok(handler.answer(method, call).await) })
    }
}

/// Serves calls until `stop` is done.
///
/// # Errors
/// [`LedgerError::Process`] if connections cannot be taken.
pub async fn serve<H: CallHandler>(
    listener: TcpListener,
    directory: Arc<Directory>,
    handler: Arc<H>,
    stop: impl Future<Output = ()> + Send,
) -> LedgerResult<()> {
    let failed = |error: tonic::transport::Error| LedgerError::Process {
        name: directory.own().name.clone(),
        message: error.to_string(),
    };
    let server = Server::builder()
        .tls_config(directory.server_tls())
        .map_err(failed)?
        .max_concurrent_streams(CALLS_MAX)
        .http2_keepalive_interval(Some(Duration::from_secs(10)));
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stopping = Some(stopping);
    let service = PartyService { directory: directory.clone(), handler };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = server.serve_with_incoming_shutdown(service, incoming, async {
        let _ = stopped.await;
    });
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended.map_err(failed),
        () = stop => drop(stopping.take()),
    }
    let rest = tokio::time::timeout(Duration::from_secs(STOP_SECONDS_MAX), serving).await;
    rest.unwrap_or(Ok(())).map_err(failed)
}
