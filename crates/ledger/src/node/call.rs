//! Calls of another process. Each has a time in which it must be answered, and a length that its answer must not pass.

use super::directory::{Directory, Party};
use super::wire::BLOCK_MESSAGE_BYTES_MAX;
use crate::error::{LedgerError, LedgerResult};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::Channel;
use tonic::{Code, Streaming};
use tonic_prost::ProstCodec;

/// Another process.
#[derive(Debug, Clone)]
pub struct RemoteProcess {
    /// Its name.
    pub name: String,
    service: &'static str,
    channel: Channel,
    answer_bytes_max: usize,
}

impl RemoteProcess {
    /// A party with a service. No connection is made yet; this has to be called inside of a runtime.
    ///
    /// # Errors
    /// Those of [`Directory::connect`].
    pub fn new(directory: &Directory, party: &Party, service: &'static str) -> LedgerResult<RemoteProcess> {
        let channel = directory.connect(party)?;
        let (name, answer_bytes_max) = (party.name.clone(), BLOCK_MESSAGE_BYTES_MAX);
        Ok(RemoteProcess { name, service, channel, answer_bytes_max })
    }

    /// With another limit for the length of answers.
    pub fn with_answers_up_to(mut self, bytes: usize) -> RemoteProcess {
        self.answer_bytes_max = bytes;
        self
    }

    /// Calls a method.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] if it has refused the message, whenever it would come; [`LedgerError::Process`] if it has not
    /// answered, or could not just now.
    pub async fn call<Q, A>(&self, method: &str, message: Q, limit: Duration) -> LedgerResult<A>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let (mut client, path) = self.client(method)?;
        let work = async {
            client.ready().await.map_err(|error| self.failed(explain(&error)))?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = client.unary(tonic::Request::new(message), path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| self.error_of(&status))
        };
        let late = || self.failed(format!("{method} was not answered in {} s", limit.as_secs_f64()));
        tokio::time::timeout(limit, work).await.map_err(|_| late())?
    }
}

/// Messages as they come through a channel.
struct MessageStream<Q>(mpsc::Receiver<Q>);

impl<Q> Stream for MessageStream<Q> {
    type Item = Q;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Q>> {
        self.0.poll_recv(context)
    }
}

impl RemoteProcess {
    /// What calls a method, and the method's path.
    fn client(&self, method: &str) -> LedgerResult<(Grpc<Channel>, PathAndQuery)> {
        let path = PathAndQuery::from_maybe_shared(format!("{}/{method}", self.service));
        let client = Grpc::new(self.channel.clone()).max_decoding_message_size(self.answer_bytes_max);
        Ok((client, path.map_err(|error| self.failed(error.to_string()))?))
    }

    fn failed(&self, message: String) -> LedgerError {
        LedgerError::Process { name: self.name.clone(), message }
    }

    /// An error that this process has answered with.
    fn error_of(&self, status: &tonic::Status) -> LedgerError {
        match status.code() {
            Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated | Code::OutOfRange => {
                LedgerError::Refused(format!("\"{}\" has refused: {}", self.name, status.message()))
            }
            _ => self.failed(say(status)),
        }
    }

    /// Begins a conversation by a method: messages go out as they come through the channel.
    ///
    /// # Errors
    /// Those of [`RemoteProcess::call`].
    pub async fn converse<Q, A>(
        &self,
        method: &str,
        messages: mpsc::Receiver<Q>,
    ) -> LedgerResult<Conversation<A>>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let (mut client, path) = self.client(method)?;
        client.ready().await.map_err(|error| self.failed(explain(&error)))?;
        let (messages, codec) = (tonic::Request::new(MessageStream(messages)), ProstCodec::<Q, A>::default());
        let answers = client.streaming(messages, path, codec).await;
        let answers = answers.map_err(|status| self.error_of(&status))?.into_inner();
        Ok(Conversation { process: self.clone(), answers })
    }
}

/// What another process answers in a conversation.
pub struct Conversation<A> {
    process: RemoteProcess,
    answers: Streaming<A>,
}

impl<A> Conversation<A> {
    /// The next answer.
    ///
    /// # Errors
    /// Those of [`RemoteProcess::call`], also if there is no more.
    pub async fn answer(&mut self) -> LedgerResult<A> {
        let answer = self.answers.message().await.map_err(|status| self.process.error_of(&status))?;
        let ended = || LedgerError::Process {
            name: self.process.name.clone(),
            message: "it has ended the conversation".to_owned(),
        };
        answer.ok_or_else(ended)
    }
}

/// What a status says, with its causes where it is about the connection.
fn say(status: &tonic::Status) -> String {
    match std::error::Error::source(status) {
        Some(cause) => explain(cause),
        None => status.message().to_owned(),
    }
}

/// An error with its causes.
fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}
