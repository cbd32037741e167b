//! A client for etcd's services KV and Lease that makes the operations of `workload` and returns
//! their answers. An answer that no etcd client could understand fails the test.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bench::workloads::etcd::client::{
    COMPACT, Call, DELETE_RANGE, EtcdClient, LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE,
    LEASE_TIME_TO_LIVE, PUT, RANGE, TXN, runtime,
};
use bench::workloads::etcd::grpc;
use bytes::Bytes;
use etcd::Error;
use etcd::pb::{Message, etcdserverpb as pb};
use member::fronts::etcd::{CallRefused, EtcdMethod};
use sim::etcd_clients::wire::{Served, decode, encode};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use workload::etcd::op::{Answer, Op, Range, RangeAnswer, Response};

use crate::server::PATIENCE;

/// The cluster and the member that the responses on one connection name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers {
    /// What the last response named.
    pub served: Option<Served>,
    /// Whether the member's id may change: a server that is listed again gets a new one.
    pub id_changes: bool,
}

impl Headers {
    /// Takes a response. Returns the cluster and the member that it must name.
    pub fn take(&mut self, response: &Bytes) -> Served {
        match self.served {
            Some(served) if !self.id_changes => served,
            _ => *self.served.insert(header_of(response.clone())),
        }
    }
}

/// A connection; clones use the same one.
#[derive(Clone)]
pub struct OpsClient {
    client: EtcdClient,
    headers: Arc<Mutex<Headers>>,
}

impl OpsClient {
    /// Opens a connection; `None` if no server listens.
    pub async fn connect(address: SocketAddr) -> Option<OpsClient> {
        OpsClient::connect_with(address, Headers::default()).await
    }

    /// Like [`OpsClient::connect`], with `headers` before the first response.
    pub async fn connect_with(address: SocketAddr, headers: Headers) -> Option<OpsClient> {
        let client = EtcdClient::connect(address).await.ok()?;
        Some(OpsClient { client, headers: Arc::new(Mutex::new(headers)) })
    }

    /// The cluster and the member that the responses name; `None` before the first response.
    pub fn served(&self) -> Option<Served> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner).served
    }

    /// Makes a call and waits for its answer; `None` if the connection ended.
    pub async fn try_ask(&mut self, op: &Op) -> Option<Answer> {
        let (method, request) = encode(op);
        let path = match method {
            EtcdMethod::Range => RANGE,
            EtcdMethod::Put => PUT,
            EtcdMethod::DeleteRange => DELETE_RANGE,
            EtcdMethod::Txn => TXN,
            EtcdMethod::Compact => COMPACT,
            EtcdMethod::LeaseGrant => LEASE_GRANT,
            EtcdMethod::LeaseRevoke => LEASE_REVOKE,
            EtcdMethod::LeaseKeepAlive => LEASE_KEEP_ALIVE,
            EtcdMethod::LeaseTimeToLive => LEASE_TIME_TO_LIVE,
            method => unreachable!("no operation is sent by {method:?}"),
        };
        let call = Call::from_bytes(path, &request).unwrap();
        let answer = self.client.ask(&call).await.ok()?;
        Some(self.understand(op, answer))
    }

    /// Like [`OpsClient::try_ask`]. Fails if the server does not answer in time.
    pub async fn ask(&mut self, op: &Op) -> Option<Answer> {
        timeout(PATIENCE, self.try_ask(op)).await.expect("a server answers in time")
    }

    fn understand(&self, op: &Op, answer: grpc::Answer) -> Answer {
        let mut by = Served::new(0, 0);
        let result = match answer.code {
            0 => {
                let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
                by = headers.take(&answer.body);
                Ok(answer.body.to_vec())
            }
            code => Err(CallRefused::Error(error_of(code, &answer.message))),
        };
        decode(op, &result, by).unwrap_or_else(|what| panic!("{what}"))
    }
}

/// The cluster and the member that any response names; the header is the first field of each.
pub fn header_of(response: Bytes) -> Served {
    let response = pb::CompactionResponse::decode(response).expect("a response");
    let header = response.header.expect("a response has a header");
    assert!(header.cluster_id != 0 && header.member_id != 0, "{header:?}");
    Served::new(header.cluster_id, header.member_id)
}

/// etcd's error with this code and text. Fails if there is none.
pub fn error_of(code: u32, text: &str) -> Error {
    let is_it = |error: &Error| u32::from(error.code().number()) == code && error.text() == text;
    Error::all().find(is_it).unwrap_or_else(|| panic!("etcd has no error {code}: {text}"))
}

/// A connection with its own runtime, whose calls block.
pub struct Caller {
    runtime: Runtime,
    client: OpsClient,
}

impl Caller {
    /// Connects to a server, which must listen and answer all calls.
    pub fn open(address: SocketAddr) -> Caller {
        let runtime = runtime().unwrap();
        let client = runtime.block_on(OpsClient::connect(address)).expect("the server listens");
        Caller { runtime, client }
    }

    /// Makes a call and returns its answer.
    pub fn call(&mut self, op: &Op) -> Answer {
        self.runtime.block_on(self.client.ask(op)).expect("the server answers")
    }

    /// Reads a range, which the server must not refuse.
    pub fn range(&mut self, range: &Range) -> RangeAnswer {
        range_of(self.call(&Op::Range(range.clone())))
    }
}

/// A read of all keys.
pub fn everything() -> Range {
    Range { key: vec![0], range_end: vec![0], ..Range::default() }
}

/// The answer to a read that must not have been refused.
pub fn range_of(answer: Answer) -> RangeAnswer {
    match answer {
        Ok(Response::Range(answer)) => answer,
        other => panic!("no answer to a range: {other:?}"),
    }
}
