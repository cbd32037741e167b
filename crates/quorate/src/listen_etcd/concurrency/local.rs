//! Runs the calls that the lock and election services are made of, within the process instead of
//! over the network.

use bytes::Bytes;
use etcd::pb::{Message, etcdserverpb as pb, mvccpb};
use etcd::{Error, recipe};
use grpc::Status;
use grpc_code::Code;
use member::fronts::etcd::{CallRefused, EtcdMethod};

use super::super::client::CallingClient;
use super::super::runtime::{FromWatch, WatchCall, malformed, status_of};

/// Makes calls in the name of the client of a lock or election call.
#[derive(Clone)]
pub(super) struct Local(pub CallingClient);

/// The status for a failure of these services. Like etcd's, it has the code `Unknown`.
pub(super) fn unknown(text: impl Into<String>) -> Status {
    Status::new(Code::Unknown, text)
}

impl Local {
    /// Runs a call of the Front and returns its encoded response.
    pub async fn run(&self, method: EtcdMethod, request: Bytes) -> Result<Vec<u8>, Status> {
        let reply = self.0.run(method, request).await.map_err(|refused| match refused {
            CallRefused::Malformed => malformed(),
            refused => unknown(status_of(refused).message),
        })?;
        let mut response = Vec::new();
        reply.write(&mut response);
        Ok(response)
    }

    async fn call<R: Message + Default>(
        &self,
        method: EtcdMethod,
        request: &impl Message,
    ) -> Result<R, Status> {
        let response = self.run(method, request.encode_to_vec().into()).await?;
        Ok(R::decode(&response[..]).expect("it is our own message"))
    }

    pub async fn range(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        self.call(EtcdMethod::Range, request).await
    }

    pub async fn delete(&self, key: &[u8]) -> Result<pb::DeleteRangeResponse, Status> {
        let key = key.to_vec().into();
        self.call(EtcdMethod::DeleteRange, &pb::DeleteRangeRequest { key, ..Default::default() })
            .await
    }

    /// Runs `then` if the key was created at the given revision.
    pub async fn if_created_at(
        &self,
        holder: (&[u8], i64),
        then: pb::RequestOp,
    ) -> Result<pb::TxnResponse, Status> {
        self.call(EtcdMethod::Txn, &recipe::if_created_at(holder, vec![then], vec![])).await
    }

    /// Watches a range of keys from a revision on.
    pub fn watch(&self, key: &[u8], end: &[u8], start_revision: i64) -> Events {
        let request = recipe::watch(key, end, start_revision);
        // If its client requires a leader, the call that reads these events ends without one, and
        // drops this watch.
        let call = self.0.open_watch(false);
        call.request(request.encode_to_vec().into());
        Events { call, responses: Vec::new() }
    }
}

/// The events of a watch.
pub(super) struct Events {
    call: WatchCall,
    /// Responses that were not returned yet, the last one first.
    responses: Vec<pb::WatchResponse>,
}

impl Events {
    /// The next events, with the header of their response.
    ///
    /// # Errors
    /// The watch has ended.
    pub async fn next(&mut self) -> Result<(pb::ResponseHeader, Vec<mvccpb::Event>), Status> {
        loop {
            while let Some(response) = self.responses.pop() {
                if response.canceled {
                    return Err(unknown(match &*response.cancel_reason {
                        "" => Error::Compacted.text(),
                        reason => reason,
                    }));
                }
                if !response.events.is_empty() {
                    return Ok((response.header.unwrap_or_default(), response.events));
                }
            }
            match self.call.next().await {
                FromWatch::Accepts => {}
                FromWatch::Ended(refused) => return Err(unknown(status_of(refused).message)),
                FromWatch::Messages(messages) => {
                    for message in messages.iter() {
                        let mut bytes = Vec::new();
                        message.write(&mut bytes);
                        let response = pb::WatchResponse::decode(&bytes[..]);
                        self.responses.push(response.expect("it is our own message"));
                    }
                    self.responses.reverse();
                    self.call.taken();
                }
            }
        }
    }
}
